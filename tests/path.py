#!/usr/bin/env python3
"""A network path of any kind between two ends on this host: its rate, queue, delay and faults.

    python3 tests/path.py --rate 10M --delay 50ms -- ping -c 3 {server}
    python3 tests/path.py --rate 10M --delay 10ms --queue 100k --loss 1% --back-loss 0 \\
        --serve 'python3 pyperf3.py -s -1' -- python3 pyperf3.py -c {server} -C reno
    python3 tests/path.py --preset policer -- python3 pyperf3.py --verdict

Linux, root, iproute2 and /dev/net/tun; no kernel module for queues or netem. Two network
namespaces, the client's and the server's, each have a TUN device, and a process between them
passes packets on: in each direction a packet may vanish, waits in a queue of so many bytes before
a line of so many bits a second (both of IP packets), and arrives a delay later; at 100 Mbit/s
this takes half a core. With --veth the kernel connects both ends itself, with a token bucket (tbf)
for a rate.

COMMAND runs in the client's namespace, and its status is the status of this program; {server},
{server6}, {client} and {client6} in it, and the variables SERVER, SERVER6, CLIENT and CLIENT6, are
the addresses. --serve starts a command in the server's namespace before. Whatever runs in
both is killed at the end, and the namespaces removed, also when this program is killed.

As a module: Path (a context manager), PRESETS and Scene (a preset that is made), Pace.
"""

import argparse
import collections
import contextlib
import heapq
import itertools
import json
import os
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

CLIENT, SERVER = "10.77.0.1", "10.77.0.2"
CLIENT6, SERVER6 = "fd77::1", "fd77::2"
ADDRESSES = {"client": (CLIENT, CLIENT6), "server": (SERVER, SERVER6)}
DEVICE = "path0"  # the name of the device in both namespaces
NAME = re.compile(r"path-([0-9]+)-[0-9]+-(?:client|server)\Z")

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454ca, 1, 0x1000  # linux/if_tun.h
TUN = "/dev/net/tun"
BATCH = 64  # packets of one direction that are read before what is due is released
MOST = 64 << 20  # bytes at most that one direction holds
RING = 5000  # packets that wait in a device for the forwarder
SYN = 2


class PathError(Exception):
    """A path cannot be made or used; the text is one line."""


# The forwarder ################################################################


class Line:
    """One direction of a path. Times in seconds, sizes in bytes of IP packets.

    rate: bits/s, None: as fast as may be; queue: bytes that may wait before it, else a packet is
    dropped; delay: until a packet arrives; loss: share of the packets that vanish; reorder: share
    that is held back for `late`, so that others overtake; hole: the largest packet that passes,
    larger ones vanish without a word; mss: what TCP's option of that name is lowered to.
    """

    SETTINGS = ("rate", "queue", "delay", "loss", "reorder", "late", "hole", "mss")

    def __init__(self, source, sink, seed, **settings):
        self.source, self.sink = source, sink
        self._random = random.Random(seed).random
        self._free = 0.0  # when the line has sent all that waits
        self._held, self._held_bytes, self._number = [], 0, 0
        self.figures = dict.fromkeys(
            ("packets", "bytes", "lost", "overflowed", "too_large", "reordered", "delivered",
             "delivered_bytes", "refused", "queue_max_s", "released_late_max_s"), 0)
        self.set(settings)

    def set(self, settings):
        """Change settings; what is on its way keeps its time."""
        for name, value in settings.items():
            if name not in self.SETTINGS:
                raise ValueError(name)
            setattr(self, name, value)

    def take(self, data, now):
        """Decide what becomes of a packet that a device has sent."""
        size, figures = len(data), self.figures
        if is_link_local(data):
            return
        figures["packets"] += 1
        figures["bytes"] += size
        if self.hole and size > self.hole:
            figures["too_large"] += 1
            return
        if self.loss and self._random() < self.loss:
            figures["lost"] += 1
            return
        due = now
        if self.rate:
            wait = self._free - now
            if wait > 0.0 and wait * self.rate / 8 + size > self.queue:
                figures["overflowed"] += 1
                return
            due = self._free = max(self._free, now) + size * 8 / self.rate
            figures["queue_max_s"] = max(figures["queue_max_s"], due - now)
        if self._held_bytes + size > MOST:
            figures["overflowed"] += 1
            return
        if self.reorder and self._random() < self.reorder:
            figures["reordered"] += 1
            due += self.late
        if self.mss:
            data = clamp_mss(data, self.mss)
        self._number += 1
        self._held_bytes += size
        heapq.heappush(self._held, (due + self.delay, self._number, data))

    def release(self, now):
        """Deliver what is due; returns the seconds until the next is, None without any."""
        held, figures = self._held, self.figures
        while held and held[0][0] <= now:
            due, _, data = heapq.heappop(held)
            self._held_bytes -= len(data)
            figures["released_late_max_s"] = max(figures["released_late_max_s"], now - due)
            try:
                os.write(self.sink, data)
            except OSError:  # the device is down
                figures["refused"] += 1
                continue
            figures["delivered"] += 1
            figures["delivered_bytes"] += len(data)
        return held[0][0] - now if held else None

    def read(self, size):
        """Take what the device has sent, but not more than a batch."""
        try:
            for _ in range(BATCH):
                self.take(os.read(self.source, size), time.monotonic())
        except BlockingIOError:
            pass


def is_link_local(packet):
    """Return whether this is the kernel's own talk with neighbours, for which no path is."""
    if packet[0] >> 4 == 6:
        return packet[24:26] == b"\xff\x02"
    return packet[16:19] == b"\xe0\x00\x00"


def clamp_mss(packet, most):
    """Return an IP packet whose TCP option of the MSS is at most `most`."""
    six = packet[0] >> 4 == 6
    tcp = 40 if six else (packet[0] & 15) * 4
    if packet[6 if six else 9] != 6 or len(packet) < tcp + 20 or not packet[tcp + 13] & SYN:
        return packet
    at, end = tcp + 20, tcp + (packet[tcp + 12] >> 4) * 4
    while at + 4 <= min(end, len(packet)) and packet[at] != 0:
        if packet[at] == 1:
            at += 1
        elif packet[at] == 2:
            old, = struct.unpack_from("!H", packet, at + 2)
            if old <= most:
                break
            changed = bytearray(packet)
            struct.pack_into("!H", changed, at + 2, most)
            # RFC 1624; an option that begins at an odd byte counts with its bytes swapped.
            before, after = ((old, most) if (at - tcp) % 2 == 0 else
                             (old >> 8 | (old & 255) << 8, most >> 8 | (most & 255) << 8))
            total = (~struct.unpack_from("!H", packet, tcp + 16)[0] & 0xffff) + (
                ~before & 0xffff) + after
            total = (total & 0xffff) + (total >> 16)
            total = (total & 0xffff) + (total >> 16)
            struct.pack_into("!H", changed, tcp + 16, ~total & 0xffff)
            return bytes(changed)
        else:
            at += max(2, packet[at + 1])
    return packet


def forward(lines, size, orders, answers):
    """Pass packets on until `orders`, a descriptor, ends.

    Each line of it is an object of changes by direction, answered by a line of figures.
    """
    hurry()
    text = b""
    sources = {line.source: line for line in lines.values()}
    while True:
        now = time.monotonic()
        waits = [wait for wait in (line.release(now) for line in lines.values())
                 if wait is not None]
        # select, not poll: its timeout is exact to microseconds
        ready = select.select(list(sources) + [orders], [], [],
                              max(0.0, min(waits)) if waits else None)[0]
        for each in ready:
            if each != orders:
                sources[each].read(size)
                continue
            more = os.read(orders, 65536)
            *whole, text = (text + more).split(b"\n")
            for order in whole:
                for way, settings in json.loads(order.decode()).items():
                    lines[way].set(settings)
                answers.write(json.dumps({way: line.figures for way, line in lines.items()}))
                answers.write("\n")
                answers.flush()
            if not more:
                return


def hurry():
    """Let this process run before others, so that its packets are in time on a busy host."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:
        with contextlib.suppress(OSError):
            os.nice(-20)


# Namespaces ###################################################################


def call(*words):
    """Run a command, silently. Raises PathError."""
    try:
        subprocess.check_output(words, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    except subprocess.CalledProcessError as error:
        raise PathError("%s: %s" % (" ".join(words), " ".join(error.output.decode().split())))
    except OSError as error:
        raise PathError("%s: %s" % (words[0], error.strerror))


def names_there():
    """Return the paths' namespaces on this host, those of other processes, too."""
    for folder in ("/run/netns", "/var/run/netns"):
        with contextlib.suppress(OSError):
            return [name for name in os.listdir(folder) if NAME.match(name)]
    return []


def remove(names):
    """Remove namespaces of ours, and end what still runs in them."""
    for name in names:
        found = subprocess.Popen(("ip", "netns", "pids", name), stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL).communicate()[0]
        for pid in found.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        subprocess.call(("ip", "netns", "del", name), stderr=subprocess.DEVNULL)


def remove_stale():
    """Remove the namespaces of programs that have ended, and of keepers that were killed."""
    remove(name for name in names_there()
           if not os.path.exists("/proc/" + NAME.match(name).group(1)))


def make_namespace(name, sysctl):
    call("ip", "netns", "add", name)
    call("ip", "-n", name, "link", "set", "lo", "up")
    for key, value in sysctl.items():
        file = "/proc/sys/" + key.replace(".", "/")
        call("ip", "netns", "exec", name, "sh", "-c", 'echo "$1" > "$0"', file, str(value))


def open_tun(namespace):
    """Return the descriptor of a new TUN device in a namespace. Raises PathError."""
    try:
        tun = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        import fcntl
        request = struct.pack("16sH22x", b"pathtun%d", IFF_TUN | IFF_NO_PI)
        name = fcntl.ioctl(tun, TUNSETIFF, request)[:16].rstrip(b"\0").decode()
    except OSError as error:
        raise PathError("%s: %s" % (TUN, error.strerror))
    call("ip", "link", "set", name, "netns", namespace, "name", DEVICE)
    return tun


def open_veth(names, lines):
    """Connect both namespaces by a pair of devices, each with a token bucket for its rate."""
    call("ip", "link", "add", DEVICE, "netns", names[0], "type", "veth",
         "peer", "name", DEVICE, "netns", names[1])
    for name, line in zip(names, (lines["forth"], lines["back"])):
        if line["rate"]:
            # The bucket holds 4 ms of the rate: a timer of 250 Hz fills it.
            call("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", DEVICE, "root", "tbf",
                 "rate", "%dbit" % line["rate"], "burst", str(max(3000, int(line["rate"] / 2000))),
                 "limit", str(int(line["queue"])))


def connect(names, plan):
    """Make the devices; returns the Lines by direction, of which a pair of veth has none."""
    mtu, lines = plan["mtu"], plan["lines"]
    tuns = []
    if plan["veth"]:
        open_veth(names, lines)
    else:
        tuns = [open_tun(name) for name in names]
    for name, (address, address6) in zip(names, (ADDRESSES["client"], ADDRESSES["server"])):
        call("ip", "-n", name, "link", "set", DEVICE, "mtu", str(mtu), "addrgenmode", "none",
             "txqueuelen", str(RING), *(() if plan["offload"] else ("gso_max_segs", "1")))
        call("ip", "-n", name, "link", "set", DEVICE, "up")
        call("ip", "-n", name, "addr", "add", address + "/24", "dev", DEVICE)
        call("ip", "-n", name, "addr", "add", address6 + "/64", "dev", DEVICE, "nodad")
    return {way: Line(source, sink, "%s %s" % (plan["seed"], way), **lines[way])
            for way, source, sink in zip(("forth", "back"), tuns, reversed(tuns))}


def keep(plan):
    """Be the process that makes a path, forwards packets, and removes all when its parent ends."""
    names = plan["names"]
    answers = os.fdopen(os.dup(1), "w")
    try:
        try:
            remove_stale()
            for name, side in zip(names, ("client", "server")):
                make_namespace(name, plan["sysctl"][side])
            lines = connect(names, plan)
        except PathError as error:
            answers.write(json.dumps({"error": str(error)}) + "\n")
            return
        answers.write("{}\n")
        answers.flush()
        forward(lines, plan["mtu"] + 64, 0, answers)
    except BrokenPipeError:
        pass  # the parent was killed: nobody reads the answer
    finally:
        remove(names)


# A path #######################################################################


def lack(tun=False):
    """Return why no path can be made here, None where one can. tun: one with a forwarder."""
    if not sys.platform.startswith("linux"):
        return "needs Linux"
    if not shutil.which("ip"):
        return "needs ip (iproute2)"
    if os.geteuid() != 0:
        return "needs root to make network namespaces"
    if tun and not os.path.exists(TUN):
        return "needs " + TUN
    return None


class Path:
    """Two network namespaces and the path between them. Use it in a `with`.

    The settings of both directions are those of Line; back: {setting: value} of the way to the
    client, where it differs. queue: 100 ms of the rate, at least 15000 bytes, unless given. veth:
    no forwarder, so rates and queues only; offload: TCP may hand several segments to a device as
    one. mtu: of both devices. sysctl, client_sysctl, server_sysctl: {name: value} of both, or of
    one namespace. seed: the same packets are lost with the same seed.

    client, server: what goes before a command that runs there, a tuple.
    """

    _numbers = itertools.count(1)

    def __init__(self, rate=None, queue=None, delay=0.0, loss=0.0, reorder=0.0, late=0.005,
                 hole=None, mss=None, back=None, veth=False, offload=True, mtu=1500, sysctl=None,
                 client_sysctl=None, server_sysctl=None, seed=1):
        forth = dict(rate=rate, queue=queue, delay=delay, loss=loss, reorder=reorder, late=late,
                     hole=hole, mss=mss)
        lines = {"forth": forth, "back": dict(forth, **back or {})}
        if back and "rate" in back and "queue" not in back:
            lines["back"]["queue"] = None
        for line in lines.values():
            if line["rate"] and not line["queue"]:
                line["queue"] = max(15000, line["rate"] / 80)
            if veth and any(line[name] for name in ("delay", "loss", "reorder", "hole", "mss")):
                raise PathError("a pair of veth has a rate and a queue, nothing else")
        # What a connection learnt must not help the next one.
        both = dict({"net.ipv4.tcp_no_metrics_save": 1}, **sysctl or {})
        number = next(self._numbers)
        names = ["path-%d-%d-%s" % (os.getpid(), number, side) for side in ADDRESSES]
        self._plan = {
            "names": names, "lines": lines, "veth": veth, "offload": offload, "mtu": mtu,
            "seed": seed, "sysctl": {"client": dict(both, **client_sysctl or {}),
                                     "server": dict(both, **server_sysctl or {})}}
        self.names = names
        self.client, self.server = (("ip", "netns", "exec", name) for name in names)
        self.mtu = mtu
        self._keeper = None
        self.figures = None  # by direction, once the path is gone

    def __enter__(self):
        """Make the path. Raises PathError."""
        why = lack(tun=not self._plan["veth"])
        if why:
            raise PathError(why)
        # A session of its own: what the terminal's keys end must not end the one who cleans up.
        self._keeper = subprocess.Popen(
            (sys.executable, "-I", "-S", "-B", os.path.abspath(__file__), KEEPER,
             json.dumps(self._plan)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True, cwd="/")
        try:
            answer = self._answer()
            if "error" in answer:
                raise PathError(answer["error"])
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *details):
        with contextlib.suppress(PathError):
            self.figures = self.change()
        self._end()

    def change(self, forth=None, back=None):
        """Change settings (dicts) of the directions; returns the figures until now of both.

        Figures: {"forth": {...}, "back": {...}}, of a pair of veth {}. packets and bytes that came
        in; lost, overflowed, too_large: packets dropped by the loss, the queue, the black hole;
        reordered; delivered, delivered_bytes; refused by the device; queue_max_s;
        released_late_max_s: by how much the forwarder was late at worst. Raises PathError.
        """
        order = {way: settings for way, settings in (("forth", forth), ("back", back)) if settings}
        for settings in order.values():
            for name in settings:
                if name not in Line.SETTINGS or self._plan["veth"]:
                    raise PathError("%s cannot change" % name)
        try:
            self._keeper.stdin.write(json.dumps(order).encode() + b"\n")
            self._keeper.stdin.flush()
        except OSError:
            raise PathError("the forwarder has ended")
        return self._answer()

    def _answer(self):
        line = self._keeper.stdout.readline()
        if not line:
            raise PathError("the forwarder has ended")
        return json.loads(line.decode())

    def _end(self):
        with contextlib.suppress(OSError):
            self._keeper.stdin.close()
        self._keeper.stdout.close()
        self._keeper.wait()
        remove(set(self.names).intersection(names_there()))  # where the keeper was killed


# Presets ######################################################################


class Pace:
    """Copy a pipe at a steady rate, in a process of its own. Use it in a `with`.

    rate: bits/s; steps: a second, in which it is copied. source, sink: paths; a pipe is opened so
    that neither end waits for the other. before: what goes before the command. The process ends
    with the `with`, or is killed with the namespace.
    """

    def __init__(self, rate, steps, source, sink, before=()):
        self._words = tuple(before) + (
            sys.executable, "-I", "-S", "-B", os.path.abspath(__file__),
            "--pace", str(rate), "--steps", str(steps))
        self._files = source, sink

    def __enter__(self):
        source, sink = (os.open(path, os.O_RDWR) for path in self._files)
        self._process = subprocess.Popen(self._words, stdin=source, stdout=sink)
        os.close(source)
        os.close(sink)
        return self

    def __exit__(self, *details):
        self._process.kill()
        self._process.wait()


def pace(rate, steps, source=0, sink=1):
    """Copy a descriptor to another at `rate` bits/s, in so many steps a second."""
    step = max(1, int(rate / 8 / steps))
    due = time.monotonic()
    while True:
        wait = due - time.monotonic()
        if wait > 0.0:
            time.sleep(wait)
        elif wait < -2.0 / steps:
            due = time.monotonic()  # the other end was slower: what it missed is not made up for
        data = os.read(source, step)
        if not data:
            return
        due += len(data) * 8 / rate
        while data:
            data = data[os.write(sink, data):]


# path: the arguments of Path; client: more arguments of the client; feed, drain: (bits/s, steps a
# second) in which the client's file is written, the server's is read (-F with a named pipe).
Preset = collections.namedtuple("Preset", "says path client feed drain")


def preset(says, client="-C reno", feed=None, drain=None, **path):
    return Preset(says, path, tuple(client.split()), feed, drain)


RECEIVE, SEND = "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"
SLOW_LINE = dict(rate=10e6, queue=60e3, delay=0.010)  # 20 ms there and back, a queue of 48 ms
LONG_LINE = dict(rate=10e6, queue=125e3, delay=0.050)
# With this seed it is 1 % of the first 500 packets, 1000 and so on, too.
ONE_PERCENT = dict(loss=0.01, back={"loss": 0.0}, seed=343)

PRESETS = {
    "full_queue": preset("one stream fills the line and its queue", **SLOW_LINE),
    "full_queue_bbr": preset("the same, but a congestion control that keeps queues short",
                             client="-C bbr", **SLOW_LINE),
    "receiver_window": preset("16 kB to receive into, 20 ms",
                              server_sysctl={RECEIVE: "4096 16384 16384"}, **SLOW_LINE),
    "receiver_window_long": preset("64 kB to receive into, 100 ms",
                                   server_sysctl={RECEIVE: "4096 65536 65536"}, **LONG_LINE),
    "receiver_slow": preset("the receiver reads 4 Mbit/s", drain=(4e6, 100), **SLOW_LINE),
    # One segment of 64 kB would pass any limit: the kernel looks at it before it adds one.
    "send_buffer": preset("8 kB to send from, 20 ms", offload=False,
                          client_sysctl={SEND: "4096 8192 8192"}, **SLOW_LINE),
    "send_buffer_long": preset("64 kB to send from, 100 ms", offload=False,
                               client_sysctl={SEND: "4096 65536 65536"}, **LONG_LINE),
    "application": preset("the sender is given 3 Mbit/s by a pipe, in bursts",
                          feed=(3e6, 10), **SLOW_LINE),
    "application_steady": preset("the same in small parts, so that some always is on its way",
                                 feed=(3e6, 100), **SLOW_LINE),
    "sender_rate": preset("-b 3M", client="-C reno -b 3M", **SLOW_LINE),
    "random_loss": preset("1 % of the packets vanish, 100 ms", delay=0.050, **ONE_PERCENT),
    "random_loss_short": preset("1 % of the packets vanish, 20 ms", delay=0.010, **ONE_PERCENT),
    "random_loss_bbr": preset("1 % of the packets vanish, 20 Mbit/s, 20 ms", client="-C bbr",
                              rate=20e6, queue=100e3, delay=0.010, **ONE_PERCENT),
    "policer": preset("what is above 10 Mbit/s is dropped, almost without a queue",
                      client="-C bbr", rate=10e6, queue=5e3, delay=0.010),
    "policer_reno": preset("the same for a congestion control that takes every loss to heart",
                           rate=10e6, queue=10e3, delay=0.010),
    "bloated": preset("5 Mbit/s behind a queue of 500 kB", rate=5e6, queue=500e3, delay=0.010),
    "reordering": preset("2 % of the packets are overtaken by those of 5 ms",
                         reorder=0.02, late=0.005, **SLOW_LINE),
    "mtu_black_hole": preset("packets of more than 1400 bytes vanish", hole=1400, **SLOW_LINE),
    "clamped_mss": preset("a tunnel lowers the MSS to 1360", mss=1360, **SLOW_LINE),
    "stalls": preset("every tenth packet vanishes, both ways",
                     rate=10e6, queue=60e3, delay=0.010, loss=0.1),
    "healthy_veth": preset("no limit but this host's processors", veth=True),
    "slow_veth": preset("20 Mbit/s by the kernel's token bucket", rate=20e6, queue=250e3,
                        veth=True),
}


class Scene:
    """A preset that is made: its path, and what both programs are told. Use it in a `with`.

    path: the Path; client, server: arguments of the program at each end, without those that choose
    the mode (-c, -s). changes: arguments of Path that differ.
    """

    def __init__(self, name, **changes):
        self.preset = PRESETS[name]
        self.path = Path(**dict(self.preset.path, **changes))
        self.client, self.server = self.preset.client, ()
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        with self._stack as stack:
            folder = tempfile.mkdtemp(prefix="path-")
            stack.callback(shutil.rmtree, folder, True)
            os.chmod(folder, 0o755)
            stack.enter_context(self.path)
            pipe = os.path.join(folder, "pipe")
            if self.preset.feed or self.preset.drain:
                os.mkfifo(pipe)
            if self.preset.feed:
                self.client += ("-F", pipe)
                stack.enter_context(Pace(*self.preset.feed + (
                    "/dev/zero", pipe, self.path.client)))
            if self.preset.drain:
                self.server += ("-F", pipe)
                stack.enter_context(Pace(*self.preset.drain + (
                    pipe, "/dev/null", self.path.server)))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *details):
        self._stack.close()


# Command line #################################################################

KEEPER = "--keep-path"  # how Path starts this file
POWERS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}


def amount(text):
    """Return the number that 10M is; for bits/s and bytes alike, of powers of 1000."""
    found = re.match(r"([0-9.]+)([kmg]?)\Z", text.lower())
    return float(found.group(1)) * POWERS[found.group(2)]


def seconds(text):
    """Return the seconds that 10ms, 0.2s or 300us are."""
    found = re.match(r"([0-9.]+)(ms|us|s)\Z", text.lower())
    return float(found.group(1)) * {"s": 1.0, "ms": 1e-3, "us": 1e-6}[found.group(2)]


def share(text):
    """Return the share that 1% or 0.01 is."""
    value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0.0 <= value <= 1.0:
        raise ValueError(text)
    return value


def typed(function, example):
    """Return an argument's type for argparse, whose complaint has an example."""
    def read(text):
        try:
            return function(text)
        except (AttributeError, ValueError):
            raise argparse.ArgumentTypeError("%r is not of the form %s" % (text, example))
    return read


RATE, SIZE = typed(amount, "10M"), typed(amount, "100k")
TIME, SHARE = typed(seconds, "10ms"), typed(share, "1%")
WHOLE = typed(int, "1400")
WAYS = (  # of each direction
    ("rate", "BIT/S", RATE, "of the line, as 10M (no limit)"),
    ("queue", "BYTES", SIZE, "that wait before the line (100 ms of the rate)"),
    ("delay", "TIME", TIME, "until a packet arrives, as 10ms (0)"),
    ("loss", "SHARE", SHARE, "of the packets vanishes, as 1%% (0)"),
    ("reorder", "SHARE", SHARE, "of the packets is held back (0)"),
    ("late", "TIME", TIME, "for which it is (5ms)"),
    ("hole", "BYTES", WHOLE, "a larger packet vanishes without ICMP"),
    ("mss", "BYTES", WHOLE, "to which TCP's MSS is lowered on the way"))


def make_parser():
    text = __doc__.split("\n\n")
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        usage="%(prog)s [options] [--] COMMAND ...",
        description="\n\n".join(text[:2]).replace("%", "%%"), epilog="\n\n".join(text[2:-1]))
    for name, metavar, kind, what in WAYS:
        parser.add_argument("--" + name, metavar=metavar, type=kind, help=what)
    for name, metavar, kind, _ in WAYS:
        parser.add_argument("--back-" + name, metavar=metavar, type=kind,
                            help="the same of the way to the client, if it differs")
    parser.add_argument("--mtu", metavar="BYTES", type=WHOLE, help="of both devices (1500)")
    parser.add_argument("--seed", metavar="N", type=int,
                        help="another one loses other packets (1)")
    parser.add_argument("--veth", action="store_true", default=None,
                        help="no forwarder: a pair of veth; for --rate and --queue only")
    for side in ("", "client-", "server-"):
        parser.add_argument("--%ssysctl" % side, metavar="NAME=VALUE", action="append", default=[],
                            help="in both namespaces" if not side else "in the %s's" % side[:-1])
    parser.add_argument("--serve", metavar="COMMAND",
                        help="a shell's command that runs in the server's namespace; what it "
                        "prints goes to standard error")
    parser.add_argument("--preset", metavar="NAME", choices=sorted(PRESETS),
                        help="a path from --list, as changed by other options, with a server of "
                        "COMMAND (a pyperf3), to which -c ADDRESS and what makes the case are "
                        "added")
    parser.add_argument("--list", action="store_true", help="print the presets")
    parser.add_argument("--pace", metavar="BIT/S", type=RATE,
                        help="only copy standard input to standard output so fast")
    parser.add_argument("--steps", metavar="N", type=int, default=100,
                        help="a second, in which --pace copies (%(default)s)")
    parser.add_argument("command", metavar="COMMAND", nargs=argparse.REMAINDER,
                        help="runs in the client's namespace; a shell, where there is none")
    return parser


def settings_of(options):
    """Return the arguments of Path that options give."""
    found, back = {}, {}
    for name, _, _, _ in WAYS:
        for into, option in ((found, name), (back, "back_" + name)):
            if getattr(options, option) is not None:
                into[name] = getattr(options, option)
    for name in ("mtu", "seed", "veth"):
        if getattr(options, name) is not None:
            found[name] = getattr(options, name)
    for name in ("sysctl", "client_sysctl", "server_sysctl"):
        pairs = [word.partition("=")[::2] for word in getattr(options, name)]
        if pairs:
            found[name] = dict(pairs)
    if back:
        found["back"] = back
    return found


def wait_for_listener(process, limit=5.0):
    """Wait until something listens for TCP where a process is, or has ended, or the time is up."""
    def space(pid):
        with contextlib.suppress(OSError):
            return os.readlink("/proc/%s/ns/net" % pid)

    until = time.monotonic() + limit
    while time.monotonic() < until and process.poll() is None:
        # Until it has gone into its namespace, listeners are this one's.
        for name in ("tcp", "tcp6") if space(process.pid) != space("self") else ():
            with contextlib.suppress(OSError), open("/proc/%d/net/%s" % (
                    process.pid, name)) as table:
                if any(line.split()[3] == "0A" for line in table):
                    return
        time.sleep(0.02)


@contextlib.contextmanager
def serving(path, words):
    """Run a command at the server's end meanwhile."""
    # The server's output must not mix with a client's JSON.
    process = subprocess.Popen(path.server + tuple(words), stdin=subprocess.DEVNULL, stdout=2)
    try:
        wait_for_listener(process)
        yield
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)  # one of a single test has yet to print
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
        if process.poll() is None:
            process.kill()
            process.wait()


def run_client(path, words):
    """Run a command at the client's end; returns a shell's status of it."""
    process = subprocess.Popen(path.client + tuple(words))
    while True:
        try:
            status = process.wait()
            return status if status >= 0 else 128 - status
        except KeyboardInterrupt:
            pass  # the terminal has told the command, too
        except SystemExit:
            process.terminate()
            process.wait()
            raise


def named(words):
    """Return words with the addresses in the place of their names, which the environment has."""
    places = {"client": CLIENT, "client6": CLIENT6, "server": SERVER, "server6": SERVER6}
    os.environ.update((name.upper(), address) for name, address in places.items())
    return [re.sub(r"\{(client6?|server6?)\}", lambda found: places[found.group(1)], word)
            for word in words]


def say_figures(figures):
    """Print on standard error what became of the packets."""
    for way, arrow in (("forth", "to the server"), ("back", "to the client")):
        if way in figures:
            line = figures[way]
            dropped = ["%d %s" % (line[name], name.replace("_", " "))
                       for name in ("lost", "overflowed", "too_large", "reordered") if line[name]]
            sys.stderr.write("path: %s: %d packets, %d bytes%s; queue %.0f ms at most\n" % (
                arrow, line["packets"], line["bytes"],
                "".join(", " + each for each in dropped), line["queue_max_s"] * 1e3))


def run(options):
    """Make the path, run the commands; returns the status."""
    words = options.command[1:] if options.command[:1] == ["--"] else options.command
    shell = os.environ.get("SHELL", "/bin/sh")
    with contextlib.ExitStack() as stack:
        if options.preset:
            scene = stack.enter_context(Scene(options.preset, **settings_of(options)))
            path = scene.path
            program = list(words) or [sys.executable, os.path.join(
                os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "pyperf3.py")]
            own = next((number for number, word in enumerate(program, 1)
                        if re.match("iperf3|pyperf3", os.path.basename(word))), 1)
            serve = program[:own] + ["-s", "-1"] + list(scene.server)
            words = program + ["-c", SERVER] + list(scene.client)
        else:
            path = stack.enter_context(Path(**settings_of(options)))
            serve = ["sh", "-c", options.serve] if options.serve else None
        words, serve = named(words or [shell]), serve and named(serve)
        if serve:
            stack.enter_context(serving(path, serve))
        status = run_client(path, words)
    if path.figures:
        say_figures(path.figures)
    return status


def main(arguments):
    if arguments[:1] == [KEEPER]:
        keep(json.loads(arguments[1]))
        return 0
    options = make_parser().parse_args(arguments)
    if options.list:
        for name, each in PRESETS.items():
            print("%-22s %s" % (name, each.says))
        return 0
    if options.pace:
        with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
            pace(options.pace, options.steps)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return run(options)
    except PathError as error:
        sys.stderr.write("path: %s\n" % error)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
