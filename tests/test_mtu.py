"""The MTU of a path (--mtu, --min-mtu): routers, black holes, losses, liars, no probes."""

import itertools
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

import fakes
import path
import pyperf3
import support

# Answers each large packet of UDP that a router passes on with ICMP that lies: MTU 600.
LIAR = """
import socket, struct
def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff
taps = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
print("ready", flush=True)
while True:
    data, (device, _, kind, _, _) = taps.recvfrom(65536)
    if data[9] == 17 and len(data) > 1000 and kind != 4 and data[12:16] == bytes([10, 8, 1, 1]):
        body = struct.pack("!BBHHH", 3, 4, 0, 0, 600) + data[:128]
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
        out.sendto(body, ("10.8.1.1", 0))
"""


def mtu_of(left):
    return left.json()["end"]["pyperf3"]["mtu"]


def search(true, limit, lost, seed):
    """Return what a SizeSearch finds, and in how many rounds."""
    chance = random.Random(seed).random
    found, rounds = pyperf3.SizeSearch(limit, {1280, 1500}), 0
    while not found.is_over() and rounds < 60:
        for size in found.choose() + [108] * 6:
            found.add(size, size <= true and chance() >= lost)
        rounds += 1
    return found.passed, rounds


class Search(unittest.TestCase):
    """The sizes that are tried, and what follows from what became of them."""

    def test_every_size_is_found_at_once_where_nothing_is_lost(self):
        for limit, sizes in ((1500, range(120, 1501, 7)), (9000, (1281, 1500, 8999, 9000)),
                             (65535, (4321, 65535))):
            for true in sizes:
                passed, rounds = search(true, limit, 0.0, 1)
                self.assertEqual(passed, true)
                self.assertLessEqual(rounds, 8)

    def test_losses_were_taken_for_a_limit(self):
        for true, limit in ((1400, 1500), (1500, 1500), (1437, 9000)):
            for lost in (0.2, 0.36):  # on one way, on both
                results = [search(true, limit, lost, seed) for seed in range(150)]
                self.assertEqual({passed for passed, _ in results}, {true})
                self.assertLess(sum(rounds for _, rounds in results) / 150.0, 12)

    def test_hint_of_a_router_is_tried(self):
        found = pyperf3.SizeSearch(9000)
        found.add(9000, False)
        found.suspect(1476)
        self.assertEqual(set(found.choose()), {1476, 1477, 9000})

    def test_lines(self):
        way = {"mtu": 1500, "method": "icmp", "router": "192.0.2.1", "black_hole": False,
               "fragments": True}
        hole = {"mtu": 1400, "method": "probe", "black_hole": True, "fragments": False}
        lines = pyperf3.mtu_lines({"up": way, "down": hole, "mss": 1348, "mss_mtu": 1400})
        self.assertEqual(lines, [
            "Path MTU: up 1500 (limited by 192.0.2.1, which says so), down 1400: larger packets"
            " vanish silently (ICMP filtered).",
            "  Fragments pass up, not down. TCP MSS 1348: fits 1400."])
        self.assertEqual(pyperf3.mtu_lines({"reason": "no luck"}),
                         ["Path MTU: unknown: no luck."])

    def test_settings(self):
        def settings(line):
            return pyperf3.Settings.from_arguments(("-c h " + line).split())
        for line, finds, only in (("", False, False), ("--mtu", True, True),
                                  ("--mtu -t 1", True, False), ("--mtu -n 1M", True, False),
                                  ("--mtu -k 1", True, False), ("--mtu --latency", True, False),
                                  ("--mtu --min-mtu 1400", True, True),
                                  ("--mtu --min-bitrate 1", True, False),
                                  ("--min-mtu 1400", True, False)):
            found = settings(line)
            self.assertEqual((found.finds_mtu, found.mtu_only), (finds, only), line)
        for line in ("--min-mtu 0", "--min-mtu 65536", "--min-mtu x", "--mtu --connect-only"):
            self.assertRaises(pyperf3.IperfError, settings, line)


class Loopback(support.ServerCase):
    """Over loopback, without root."""

    def client(self, port, *arguments, **more):
        return support.run(support.OURS + ("-c", more.pop("host", "127.0.0.1"), "-p", port)
                           + arguments, **more)

    def test_loopback(self):
        port = self.serve()
        for host in ("127.0.0.1", "::1"):
            left = self.client(port, "--mtu", "-J", host=host)
            self.assertEqual((left.code, left.err), (0, ""), left)
            mtu = mtu_of(left)
            self.assertEqual((mtu["up"]["mtu"], mtu["down"]["mtu"], mtu["jumbo"]),
                             (65535, 65535, True), mtu)
        left = self.client(port, "--mtu")
        self.assertEqual(left.lines()[1], "Path MTU: both ways 65535.", left)
        self.assertNotIn("iperf Done.", left.out)

    def test_test_follows(self):
        port = self.serve()
        for words in (("--mtu", "-t", "1"), ("--min-mtu", "1500", "-t", "1"),
                      ("--mtu", "-t", "1", "-u"), ("--mtu", "-t", "1", "--tls", "-R")):
            left = self.client(port, *words)
            self.assertEqual((left.code, left.err), (0, ""), left)
            self.assertIn("Path MTU: both ways 65535.", left.out)
            self.assertTrue(left.out.endswith("iperf Done.\n"), left)

    def test_limit(self):
        port = self.serve()
        for limit, code in ((65535, 0), (1, 0)):
            left = self.client(port, "--mtu", "--min-mtu", limit)
            self.assertEqual(left.code, code, left)
            self.assertIn("Check min-mtu up: 65535 >= %d bytes ok (the interface's)" % limit,
                          left.out)

    def against(self, answer, udp=True):
        """Run a client against a server that answers each probe by the datagrams of answer()."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

        def script(control):
            fakes.receive(control, 37)
            control.sendall(b"\x09")
            fakes.take_frame(control)
            facts = {"version": "1", "system": "linux", "mtu": 9000,
                     "probes": {"token": "a" * 36, "udp": udp}}
            control.sendall(b"\x50" + fakes.frame(facts) + b"\x0a")
            fakes.receive(control, 1)

        def reflect():
            while True:
                try:
                    data, place = sock.recvfrom(65536)
                    for each in answer(data):
                        sock.sendto(each, place)
                except OSError:
                    return
        with fakes.FakeServer(script) as server, sock:
            sock.bind(("127.0.0.1", server.port))
            threading.Thread(target=reflect, daemon=True).start()
            left = self.client(server.port, "--mtu", "--min-mtu", "100", "-J")
        self.assertEqual((left.code, left.err), (1, ""), left)
        return mtu_of(left)

    def test_nobody_answers(self):
        mtu = self.against(lambda data: [])
        self.assertIn("no probe was answered", mtu["reason"])

    def test_garbage(self):
        chance = random.Random(3)
        mtu = self.against(lambda data: [os.urandom(chance.randrange(200)),
                                         b"p3re" + os.urandom(chance.randrange(200))])
        self.assertIn("no probe was answered", mtu["reason"])

    def test_datagrams_that_nobody_asked_for(self):
        """One that nobody read kept a client busy for ever, and so did any number without end."""
        begin = time.monotonic()
        mtu = self.against(lambda data: [b"x"], udp=False)
        self.assertEqual(mtu["up"]["reason"], "the server's system does not answer")
        for udp in (False, True):
            self.against(lambda data: itertools.repeat(b"x" * 64, 10 ** 6), udp=udp)
        self.assertLess(time.monotonic() - begin, 40.0)

    def test_facts_that_cannot_be(self):
        """What a server tells of its device may be anything; the search goes on."""
        for value in ('"x"', "[1, 2]", "-5", "1", "True", "1e9", "2 ** 60", "{}"):
            program = support.driver("import pyperf3\npyperf3.device_mtu = lambda device: %s\n"
                                     "pyperf3.segment_facts = lambda sock: dict.fromkeys("
                                     "('snd_mss', 'advmss', 'pmtu', 'snd_wnd'), %s)" % (
                                         value, value))
            with self.subTest(value=value):
                left = self.client(self.serve(program=program), "--mtu", "-J", "-4")
                self.assertEqual((left.code, left.err), (0, ""), left.out)
                self.assertEqual(mtu_of(left)["up"]["mtu"], 65535)

    def test_answers_that_cannot_be(self):
        """What says that it had another size, or has one that was not asked for, is none."""
        def answer(data):
            _, _, kind, group, size, number = struct.unpack_from("!4s16sBBHI", data)
            reply = pyperf3.encode_reply(pyperf3.ProbeReply(
                kind, group, 0, 0, number, 1, 0, 0, 0, 0, 0, 0, size=len(data) + (len(data) > 500),
                router=1, next_mtu=7, refusal=2))
            return [reply if kind == pyperf3.ACK else reply.ljust(max(64, size - 1), b"\0")]
        mtu = self.against(answer)
        self.assertLess(mtu["up"]["mtu"] or 0, 600)
        self.assertIsNone(mtu["down"]["mtu"])


class Routers(unittest.TestCase):
    """A 9000 - R 1500 - S 9000 - B: four network namespaces."""

    @classmethod
    def setUpClass(cls):
        support.need_path(tun=False)
        cls.names = ["mtu%s%d" % (letter, os.getpid()) for letter in "arsb"]
        a, r, s, b = cls.names
        script = ["for n in %s; do ip netns add $n; ip -n $n link set lo up;"
                  " ip netns exec $n sysctl -qw net.ipv4.ip_forward=1"
                  " net.ipv6.conf.all.forwarding=1 net.ipv4.icmp_ratelimit=0"
                  " net.ipv6.icmp.ratelimit=0; done" % " ".join(cls.names)]
        for number, one, other, mtu in ((1, a, r, 9000), (2, r, s, 1500), (3, s, b, 9000)):
            script.append("ip link add d%d netns %s type veth peer name e%d netns %s" % (
                number, one, number, other))
            for name, device, last in ((one, "d", 1), (other, "e", 2)):
                script.append("ip -n {0} link set {1}{2} mtu {3} up;"
                              "ip -n {0} addr add 10.8.{2}.{4}/24 dev {1}{2};"
                              "ip -n {0} addr add fd08:{2}::{4}/64 dev {1}{2} nodad".format(
                                  name, device, number, mtu, last))
        for name, way, hop in ((a, "default", "1::2"), (r, "3", "2::2"), (s, "1", "2::1"),
                               (b, "default", "3::1")):
            net, wide = ("default", "default") if way == "default" else (
                "10.8.%s.0/24" % way, "fd08:%s::/64" % way)
            script.append("ip -n %s route add %s via 10.8.%s" % (name, net, hop.replace("::", ".")))
            script.append("ip -n %s -6 route add %s via fd08:%s" % (name, wide, hop))
        if subprocess.call(["sh", "-e", "-c", "\n".join(script)], stderr=subprocess.DEVNULL):
            cls.tearDownClass()
            raise unittest.SkipTest("network namespaces with veth cannot be made here")
        cls.server = support.Program(support.inside(b) + support.OURS + ("-s",))
        cls.server.wait_for("Server listening")

    @classmethod
    def tearDownClass(cls):
        if getattr(cls, "server", None):
            with cls.server:
                cls.server.signal()
                cls.server.finish(20.0)
        support.remove_namespaces(*cls.names)

    def run_in(self, number, *words):
        subprocess.check_call(support.inside(self.names[number]) + ("ip",) + words)

    def client(self, *arguments, **more):
        return support.run(support.inside(self.names[0]) + support.OURS + (
            "-c", more.pop("host", "10.8.3.2"), "--mtu") + arguments)

    def test_router_is_named(self):
        for host, up, down in (("10.8.3.2", "10.8.1.2", "10.8.3.1"),
                               ("fd08:3::2", "fd08:1::2", "fd08:3::1")):
            begin = time.monotonic()
            left = self.client("-J", host=host)
            self.assertLess(time.monotonic() - begin, 3.0)
            self.assertEqual((left.code, left.err), (0, ""), left)
            mtu = mtu_of(left)
            for way, router in (("up", up), ("down", down)):
                self.assertEqual(mtu[way], {
                    "mtu": 1500, "method": "icmp", "router": router, "black_hole": False,
                    # Routers of IPv6 make none, but here the ends do.
                    "fragments": True}, mtu)
        self.assertIn("Path MTU: up 1500 (limited by 10.8.1.2, which says so), down 1500"
                      " (limited by 10.8.3.1, which says so).\n", self.client().out)

    def test_limit_and_one_more(self):
        for limit, code, state in ((1500, 0, "ok"), (1501, 4, "failed")):
            left = self.client("-J", "--min-mtu", str(limit))
            self.assertEqual(left.code, code, left)
            checks = left.json()["end"]["pyperf3"]["checks"]
            self.assertEqual([(each["direction"], each["value"], each["state"])
                              for each in checks], [("up", 1500, state), ("down", 1500, state)])

    def test_ways_that_differ(self):
        self.run_in(1, "route", "change", "10.8.3.0/24", "via", "10.8.2.2", "mtu", "1333")
        try:
            mtu = mtu_of(self.client("-J"))
        finally:
            self.run_in(1, "route", "change", "10.8.3.0/24", "via", "10.8.2.2")
        self.assertEqual((mtu["up"]["mtu"], mtu["up"]["router"], mtu["down"]["mtu"]),
                         (1333, "10.8.1.2", 1500), mtu)

    def test_router_that_may_not_say_so(self):
        self.run_in(1, "rule", "add", "iif", "lo", "blackhole")
        try:
            mtu = mtu_of(self.client("-J"))
        finally:
            self.run_in(1, "rule", "del", "iif", "lo", "blackhole")
        self.assertEqual(mtu["up"], {"mtu": 1500, "method": "probe", "black_hole": True,
                                     "fragments": True}, mtu)

    def test_liar(self):
        with support.Program(support.inside(self.names[1]) + (
                sys.executable, "-S", "-c", LIAR)) as liar:
            liar.wait_for("ready")
            mtu = mtu_of(self.client("-J"))
        self.assertEqual((mtu["up"]["mtu"], mtu["up"].get("router")), (1500, "10.8.1.2"), mtu)

    def test_system_of_a_real_server(self):
        with support.Program(support.inside(self.names[3]) + support.real("3.22") + (
                "-s", "-p", "5300", "--forceflush")) as server:
            server.wait_for("Server listening")
            left = self.client("-J", "-p", "5300", "--min-mtu", "1000")
            mtu = mtu_of(left)
            self.assertEqual(left.code, 1, left)
            self.assertEqual((mtu["up"]["mtu"], mtu["up"]["router"]), (1500, "10.8.1.2"), mtu)
            self.assertIsNone(mtu["down"]["mtu"])
            self.assertIn("iperf3", mtu["down"]["reason"])
            left = self.client("-p", "5300", "-t", "1")  # it still serves
            self.assertEqual((left.code, left.err), (0, ""), left)


class Holes(unittest.TestCase):
    """Paths on which large packets vanish, packets are lost, the MSS is clamped."""

    def find(self, host=path.SERVER, *arguments, **settings):
        support.need_path()
        with path.Path(**settings) as road:
            with support.Program(road.server + support.OURS + ("-s", "-1")) as server:
                server.wait_for("Server listening")
                left = support.run(road.client + support.OURS + ("-J", "-c", host, "--mtu")
                                   + arguments)
        self.assertEqual((left.code, left.err), (0, ""), left)
        return mtu_of(left)

    def test_black_hole(self):
        for host in (path.SERVER, path.SERVER6):
            mtu = self.find(host, hole=1433, back={"hole": 1300})
            self.assertEqual([(mtu[way]["mtu"], mtu[way]["method"], mtu[way]["black_hole"])
                              for way in ("up", "down")],
                             [(1433, "probe", True), (1300, "probe", True)], mtu)

    def test_losses(self):
        for loss, back in ((0.2, 0.2), (0.2, 0.0), (0.0, 0.2)):
            mtu = self.find(hole=1400, delay=0.005, loss=loss, back={"loss": back})
            self.assertEqual((mtu["up"]["mtu"], mtu["down"]["mtu"]), (1400, 1400), mtu)

    def test_clamped(self):
        mtu = self.find(mss=1360)
        self.assertEqual((mtu["mss"], mtu["mss_expected"], mtu["clamped"]), (1348, 1448, True))
        self.assertEqual(self.find()["clamped"], False)


if __name__ == "__main__":
    unittest.main()
