"""The path emulator keeps its word. What makes paths needs root, iproute2 and /dev/net/tun."""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest
import unittest.mock

import path
import support
from path import PRESETS, Line, Path, PathError, Scene

TOOL = (sys.executable, "-S", "-B", path.__file__)

# Sends back what comes, over TCP and UDP, and counts the sizes of datagrams.
ECHO = """
import select, socket
listener = socket.socket(socket.AF_INET6)
listener.bind(("::", 7)); listener.listen(5)
datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); datagrams.bind(("::", 7))
print("ready", flush=True)
streams = []
while True:
    for each in select.select([listener, datagrams] + streams, [], [])[0]:
        if each is listener:
            streams.append(listener.accept()[0])
        elif each is datagrams:
            data, peer = datagrams.recvfrom(65536)
            print("came", len(data), flush=True)
            datagrams.sendto(data[:20], peer)
        else:
            data = each.recv(65536)
            if not data:
                streams.remove(each)
            each.sendall(data)
"""

# Prints the shortest of some round trips, each of a byte over TCP.
ROUND_TRIP = """
import socket, sys, time
sock = socket.create_connection((sys.argv[1], 7), 30)
best = 9e9
for _ in range(8):
    begin = time.monotonic()
    sock.sendall(b"x"); sock.recv(1)
    best = min(best, time.monotonic() - begin)
print(best)
"""

# Sends datagrams: address, then sizes of the payload; prints how many sends failed. It stays until
# no answer comes any more: of what meets no socket the kernel would tell the other end.
DATAGRAMS = """
import socket, sys, time
host, sizes = sys.argv[1], [int(word) for word in sys.argv[2:]]
sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
sock.connect((host, 7))
failed = 0
for size in sizes:
    try:
        sock.send(bytes(size))
    except OSError:
        failed += 1
    time.sleep(0.005)
sock.settimeout(0.5)
try:
    while sock.recv(65536):
        pass
except OSError:
    print(failed)
"""


def packet(size=1000, number=0):
    """Return an IPv4 packet as far as a Line looks at it."""
    return struct.pack("!BxxxI8x", 0x45, number) + b"\x0a\x4d\0\x02" + bytes(size - 20)


def tcp_syn(six, options):
    """Return a packet with the SYN flag, these options, and a true checksum of TCP."""
    tcp = struct.pack("!HHIIBBHHH", 1000, 2000, 1, 0, (20 + len(options)) // 4 << 4, 2, 500, 0,
                      0) + options
    addresses = bytes(range(32 if six else 8))
    total = checksum(addresses + struct.pack("!II", len(tcp), 6) + tcp)
    tcp = tcp[:16] + struct.pack("!H", total) + tcp[18:]
    if six:
        return struct.pack("!IHBB", 6 << 28, len(tcp), 6, 64) + addresses + tcp
    return struct.pack("!BBHIBBH", 0x45, 0, 20 + len(tcp), 0, 64, 6, 0) + addresses + tcp


def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Lines(unittest.TestCase):
    """One direction, by a clock of the test's own."""

    def make(self, **settings):
        # Packets of a socket of this kind stay apart, as those of a device do.
        self.sink, self.end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(self.sink.close)
        self.addCleanup(self.end.close)
        self.end.setblocking(False)
        every = dict.fromkeys(Line.SETTINGS, 0)
        return Line(-1, self.sink.fileno(), "seed", **dict(every, **settings))

    def arrived(self, line, now):
        """Return the numbers of the packets that arrive until a moment."""
        line.release(now)
        numbers = []
        with contextlib.suppress(BlockingIOError):
            while True:
                numbers.append(struct.unpack_from("!I", self.end.recv(65536), 4)[0])
        return numbers

    def test_rate_spaces_packets_and_the_queue_has_an_end(self):
        line = self.make(rate=8e6, queue=10500)  # a packet takes 1 ms
        for number in range(100):
            line.take(packet(number=number), 5.0)
        self.assertEqual(line.figures["overflowed"], 90)
        self.assertAlmostEqual(line.figures["queue_max_s"], 0.010)
        self.assertEqual(self.arrived(line, 5.0009), [])
        self.assertEqual(self.arrived(line, 5.0035), [0, 1, 2])
        line.take(packet(number=100), 5.0035)
        self.assertEqual(self.arrived(line, 5.0105), list(range(3, 10)))
        self.assertEqual(self.arrived(line, 5.0115), [100])
        self.assertIsNone(line.release(6.0))

    def test_packet_larger_than_the_queue_passes_an_idle_line(self):
        line = self.make(rate=8e6, queue=500)
        line.take(packet(), 1.0)
        line.take(packet(), 1.0)
        self.assertEqual((line.figures["packets"], line.figures["overflowed"]), (2, 1))

    def test_delay_follows_the_queue(self):
        line = self.make(rate=8e6, queue=10000, delay=0.5)
        line.take(packet(), 1.0)
        self.assertAlmostEqual(line.release(1.0), 0.501)

    def test_loss_is_the_share_asked_for_and_the_same_again(self):
        def lost(**settings):
            line, came = self.make(loss=0.1, **settings), []
            for number in range(5000):
                line.take(packet(100, number), 1.0)
                came += self.arrived(line, 1.0)
            return sorted(set(range(5000)).difference(came))
        first = lost()
        self.assertTrue(400 < len(first) < 600, len(first))
        self.assertEqual(lost(delay=0.0, hole=1400), first)

    def test_packets_held_back_are_overtaken(self):
        line = self.make(reorder=0.1, late=0.0035)
        order = []
        for number in range(500):
            line.take(packet(100, number), number * 0.001)
            order += self.arrived(line, number * 0.001)
        order += self.arrived(line, 9.0)
        self.assertEqual(sorted(order), list(range(500)))
        overtaken = sum(number < max(order[:at + 1]) for at, number in enumerate(order))
        self.assertEqual(overtaken, line.figures["reordered"])
        self.assertTrue(25 < overtaken < 100, overtaken)

    def test_black_hole_takes_only_what_is_larger(self):
        line = self.make(hole=1400)
        for size in (100, 1400, 1401, 1500):
            line.take(packet(size), 1.0)
        self.assertEqual(line.figures["too_large"], 2)

    def test_memory_has_a_bound(self):
        line = self.make(delay=60.0)
        data = packet(60000)
        for _ in range(2 * path.MOST // 60000):
            line.take(data, 1.0)
        self.assertGreater(line.figures["overflowed"], 1000)

    def test_clamped_mss_keeps_a_true_checksum(self):
        option = b"\x02\x04\x05\xb4"
        for six in (False, True):
            for options in (option, b"\1" + option + b"\1\1\1", b"\x04\x02\1\1" + option,
                            b"\x03\x03\x07" + option + b"\0"):
                before = tcp_syn(six, options)
                after = path.clamp_mss(before, 1360)
                wanted = tcp_syn(six, options.replace(b"\x05\xb4", b"\x05\x50"))
                self.assertEqual(after, wanted, (six, options))
                self.assertEqual(path.clamp_mss(before, 1460), before)
            for broken in (b"\x02\x02\0\0", b"\x05\0\0\0", b"\x08\xff\1\1"):
                path.clamp_mss(tcp_syn(six, broken), 1000)

    def test_talk_of_neighbours_is_not_counted(self):
        line = self.make()
        line.take(b"\x60" + bytes(23) + b"\xff\x02" + bytes(30), 1.0)
        line.take(b"\x45" + bytes(15) + b"\xe0\0\0\x16" + bytes(20), 1.0)
        self.assertEqual(line.figures["packets"], 0)


class PathCase(unittest.TestCase):
    """A test that makes paths."""

    @classmethod
    def setUpClass(cls):
        support.need_path(tun=False)
        try:
            with Path():
                pass
        except PathError as error:
            raise unittest.SkipTest("no path can be made here: %s" % error)

    def check_gone(self, pid):
        """Wait until nothing is left of the paths of a process."""
        support.wait_until(lambda: not left_of(pid), ("namespaces", path.names_there))


def left_of(pid):
    return [name for name in path.names_there() if name.startswith("path-%d-" % pid)]


class Paths(PathCase):
    """What packets meet."""

    @contextlib.contextmanager
    def echo(self, **settings):
        """Make a path with an echo at its end."""
        with Path(**settings) as made, support.Program(
                made.server + (sys.executable, "-S", "-c", ECHO)) as server:
            server.wait_for("ready")
            yield made, server
        self.check_gone(os.getpid())

    def client(self, made, code, *arguments):
        left = support.run(made.client + (sys.executable, "-S", "-c", code) + arguments)
        self.assertEqual((left.code, left.err), (0, ""), left)
        return left.out.strip()

    def test_round_trip_is_twice_the_delay(self):
        with self.echo(delay=0.1) as (made, _):
            for host in (path.SERVER, path.SERVER6):
                best = float(self.client(made, ROUND_TRIP, host))
                self.assertTrue(0.2 <= best < 0.3, best)

    def test_delay_of_one_direction(self):
        with self.echo(delay=0.02, back={"delay": 0.08}) as (made, _):
            best = float(self.client(made, ROUND_TRIP, path.SERVER))
            self.assertTrue(0.1 <= best < 0.2, best)

    def test_rate_of_each_direction(self):
        with Path(rate=20e6, queue=100e3, delay=0.002, back={"rate": 5e6}) as made:
            with support.Program(made.server + support.OURS + ("-s",)) as server:
                server.wait_for("Server listening")
                for mode, rate in (((), 20e6), (("-R",), 5e6)):
                    left = support.run(made.client + support.OURS + (
                        "-c", path.SERVER, "-C", "reno", "-t", "3", "-O", "1", "-J") + mode)
                    self.assertEqual((left.code, left.err), (0, ""), left)
                    received = left.json()["end"]["sum_received"]["bits_per_second"]
                    # Of 1500 bytes TCP carries 1448. A busy host may be slower, never faster.
                    self.assertTrue(0.6 < received / (rate * 1448 / 1500) < 1.03, received)
            figures = made.change()
        for way, rate, queue in (("forth", 20e6, 100e3), ("back", 5e6, 62500)):
            self.assertGreater(figures[way]["overflowed"], 0, figures)
            longest = figures[way]["queue_max_s"] / (queue * 8 / rate)
            self.assertTrue(0.9 < longest <= 1.0, (way, longest))

    def test_lost_packets_are_those_that_do_not_arrive(self):
        with self.echo(loss=0.2, back={"loss": 0.0}) as (made, server):
            self.client(made, DATAGRAMS, path.SERVER, *["100"] * 300)
            support.wait_until(
                lambda: made.change()["back"]["packets"] + made.change()["forth"]["lost"] >= 300,
                ("figures", made.change))
            figures = made.change()
            self.assertEqual(figures["forth"]["packets"], 300)
            self.assertTrue(30 <= figures["forth"]["lost"] <= 90, figures)
            self.assertEqual(server.out().count("came"), 300 - figures["forth"]["lost"])
            self.assertEqual(figures["back"]["lost"], 0)

    def test_black_hole_says_nothing(self):
        for host, header in ((path.SERVER, 28), (path.SERVER6, 48)):
            with self.echo(hole=1400) as (made, server):
                small, large = 1400 - header, 1401 - header
                failed = self.client(made, DATAGRAMS, host, *map(
                    str, [small, large, small, large, 10]))
                self.assertEqual(failed, "0")
                server.wait_for("came 10\n")
                self.assertEqual(server.out().count("came %d\n" % small), 2)
                self.assertEqual(server.out().count("came %d\n" % large), 0)
                self.assertEqual(made.change()["forth"]["too_large"], 2)

    def test_settings_change_while_packets_pass(self):
        with self.echo() as (made, server):
            made.change({"loss": 1.0})  # an outage
            self.client(made, DATAGRAMS, path.SERVER, "10", "11")
            figures = made.change({"loss": 0.0})
            self.assertEqual(figures["forth"]["lost"], 2)
            self.client(made, DATAGRAMS, path.SERVER, "12")
            server.wait_for("came 12\n")
            self.assertNotIn("came 11\n", server.out())
            with self.assertRaises(PathError):
                made.change({"colour": 1})

    def test_settings_of_each_host(self):
        with Path(mtu=1300, client_sysctl={"net.ipv4.tcp_wmem": "4096 8192 8192"},
                  sysctl={"net.ipv4.tcp_congestion_control": "reno"}) as made:
            for before, wanted in ((made.client, ["1", "4096\t8192\t8192", "reno", "1300"]),
                                   (made.server, ["1", None, "reno", "1300"])):
                left = support.run(before + (
                    "sh", "-c", "cd /proc/sys/net/ipv4; cat tcp_no_metrics_save tcp_wmem"
                    " tcp_congestion_control; cat /sys/class/net/path0/mtu"))
                self.assertEqual([line for line, each in zip(left.lines(), wanted) if each],
                                 [each for each in wanted if each], left)
        with self.assertRaises(PathError):
            with Path(sysctl={"net.ipv4.no_such_name": 1}):
                pass
        self.check_gone(os.getpid())

    def test_veth(self):
        with self.echo(veth=True, rate=20e6, queue=250e3) as (made, _):
            self.client(made, ROUND_TRIP, path.SERVER6)
            self.assertEqual(made.change(), {})
        with self.assertRaises(PathError):
            Path(veth=True, delay=0.1)

    def test_every_preset_can_be_made(self):
        def make(name):
            with Scene(name) as scene:
                return scene.client
        for (name,), words in support.together(make, [(name,) for name in PRESETS]):
            self.assertEqual(words[0], "-C", name)
            self.assertEqual("-F" in words, bool(PRESETS[name].feed), name)
        self.check_gone(os.getpid())


class Tools(PathCase):
    """The command line, and what is left behind it."""

    def test_command_is_told_where_the_server_is(self):
        left = support.run(TOOL + (
            "--delay", "1ms", "--", "sh", "-c",
            "echo {server} {client6} $SERVER6 $CLIENT {other}; cat /sys/class/net/path0/mtu;"
            " exit 7"))
        self.assertEqual(left.code, 7, left)
        self.assertEqual(left.lines(), ["10.77.0.2 fd77::1 fd77::2 10.77.0.1 {other}", "1500"])
        self.assertIn("path: to the server: 0 packets", left.err)

    def test_recipe_with_a_server(self):
        server = " ".join(support.OURS) + " -s -1"
        left = support.run(TOOL + ("--rate", "10M", "--delay", "10ms", "--serve", server, "--")
                           + support.OURS + ("-c", "{server}", "-n", "256K", "-J"))
        self.assertEqual(left.code, 0, left)
        self.assertEqual(left.json()["end"]["sum_received"]["bytes"], 256 * 1024)
        self.assertIn("Accepted connection from 10.77.0.1", left.err)

    def test_recipe_of_a_preset(self):
        left = support.run(TOOL + ("--preset", "sender_rate", "--seed", "2", "--")
                           + (sys.executable, support.PROGRAM, "-n", "200K", "-J"))
        self.assertEqual(left.code, 0, left)
        self.assertEqual(left.json()["start"]["target_bitrate"], 3000000)

    def test_errors_are_one_line(self):
        for user, wanted in ((1000, "needs root to make network namespaces"), (0, None)):
            with unittest.mock.patch("os.geteuid", lambda user=user: user):
                self.assertEqual(path.lack(), wanted)
        for words, more, wanted in (
                ((), dict(env=support.environment(PATH="/nowhere")), "path: needs ip (iproute2)\n"),
                (("--veth", "--loss", "1%"), {},
                 "path: a pair of veth has a rate and a queue, nothing else\n"),
                (("--sysctl", "net.ipv4.no_such_name=1"), {}, None)):
            left = support.run(TOOL + words + ("--", "true"), **more)
            self.assertEqual((left.code, left.out), (1, ""), left)
            self.assertEqual(left.err.count("\n"), 1, left)
            if wanted:
                self.assertEqual(left.err, wanted)
        for words in (("--rate", "10x"), ("--delay", "5"), ("--loss", "101%"), ("--nonsense",)):
            left = support.run(TOOL + words + ("--", "true"))
            self.assertEqual(left.code, 2, left)

    def test_nothing_is_left_of_a_command_that_is_killed(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            with support.Program(TOOL + (
                    "--serve", "sleep 987", "--", "sh", "-c", "echo $$; exec sleep 987")) as tool:
                tool.wait_for("\n")
                inside = int(tool.out())
                names = left_of(tool.pid)
                self.assertEqual(len(names), 2)
                others = [int(pid) for name in names for pid in subprocess.check_output(
                    ("ip", "netns", "pids", name)).split()]
                self.assertIn(inside, others)
                self.assertGreaterEqual(len(others), 2, others)
                tool.signal(number)
                tool.finish()
                self.check_gone(tool.pid)
                for pid in others:
                    support.wait_until(lambda pid=pid: is_gone(pid), "end of %d" % pid)

    def test_path_whose_keeper_is_killed_is_removed_all_the_same(self):
        with Path() as made:
            keeper, = [pid for pid in support.children(os.getpid()) if is_keeper(pid)]
            os.kill(keeper, signal.SIGKILL)
            with self.assertRaises(PathError):
                made.change()
                made.change()
        self.check_gone(os.getpid())

    def test_what_others_left_is_removed(self):
        process = subprocess.Popen(["true"])
        process.wait()
        stale = "path-%d-1-client" % process.pid
        own = "path-%d-99-client" % os.getpid()
        self.addCleanup(support.remove_namespaces, stale, own)
        for name in (stale, own):
            subprocess.check_call(["ip", "netns", "add", name])
        with Path():
            self.assertNotIn(stale, path.names_there())
            self.assertIn(own, path.names_there())

    def test_pace(self):
        begin = time.monotonic()
        left = support.run(("sh", "-c", "head -c 50000 /dev/zero | \"$@\" | wc -c", "sh")
                           + TOOL + ("--pace", "1M"))
        self.assertEqual(left.out.strip(), "50000")
        self.assertGreater(time.monotonic() - begin, 0.35)


def is_gone(pid):
    """Return whether a process has ended, though nobody may have waited for it."""
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def is_keeper(pid):
    with open("/proc/%d/cmdline" % pid) as words:
        return path.KEEPER in words.read().split("\0")


if __name__ == "__main__":
    sys.exit(unittest.main())
