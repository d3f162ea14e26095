"""Public reports about iperf3 and tools like it, each with the test that would have found it.

A report has a number, which is in the name of its test (B02), and the line above the test names
where the report is public. Programs run as users run them: ours against ours, and against real
iperf3 in both roles where that matters.
"""

import ast
import collections
import concurrent.futures
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import captures
import datagrams
import figures
import matrix
import pyperf3
import support
from support import driver, openssl
from datagrams import together
from relay import FORTH, Relay, lossy
from test_hostile import COOKIE, FakeServer, connect, conversation, frame, receive

OURS = support.OURS
PARAMETERS = {"tcp": True, "time": 1, "parallel": 1, "len": 131072, "client_version": "3.1"}
REFUSED = ("unable to connect to server - server may have stopped running or use a different port,"
           " firewall issue, etc.: Connection refused")
BUSY = "the server is busy running a test. try again later"
CLOSED = "control socket has closed unexpectedly"
DENIED = "test authorization failed"


# The program with short deadlines.
IMPATIENT = driver("import pyperf3; pyperf3.STEP_TIMEOUT = pyperf3.REPLY_TIMEOUT = 1.0")


def run(command, words, **more):
    """Run a program with arguments in one text, or in a tuple."""
    words = tuple(words.split()) if isinstance(words, str) else tuple(words)
    return support.run(tuple(command) + words, **more)


def client(port, words="-n 1M", command=OURS, host="127.0.0.1", **more):
    words = tuple(words.split()) if isinstance(words, str) else tuple(words)
    return run(tuple(command) + ("-c", host, "-p", port), words, **more)


def pair(words, server_words="", client=OURS, server=OURS, **more):
    """Run a one-off server and a client; returns both (Finished): client, server."""
    return support.run_pair(server, client, words.split(), server_words.split(), **more)


def pairings(old=True):
    """Return (client, server) commands: ours with ours, with the newest, to an old server."""
    new = support.real("3.22")
    found = [(OURS, OURS), (OURS, new), (new, OURS)]
    return found + ([(OURS, support.real("3.12"))] if old else [])


def begin(port, **parameters):
    """Play a client up to the running test; returns (control connection, data connection)."""
    control = connect(port)
    control.sendall(COOKIE + frame(dict(PARAMETERS, **parameters)))
    if receive(control, 2) != b"\x09\x0a":
        raise AssertionError("no streams are asked for")
    data = connect(port)
    data.sendall(COOKIE)
    if receive(control, 2) != b"\x01\x02":
        raise AssertionError("the test does not start")
    return control, data


def abreast(function, items):
    """Do as together() does, with more at a time: for tests of low rates."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(zip(items, pool.map(lambda item: function(*item), items)))


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


class Reports(figures.Case):
    """Helpers."""

    def serve(self, *words, **more):
        """Start a server that ends with the test; returns (Program, port)."""
        program, port = support.start_server(more.get("command", OURS), *words)
        self.addCleanup(program.__exit__)
        return program, port

    def folder(self):
        path = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, path, True)
        return path

    def honest(self, port, words="-n 1M", command=OURS, **more):
        """Run a client that must end well."""
        left = client(port, words, command, **more)
        self.assertEqual((left.code, left.err), (0, ""), left)
        return left

    def end(self, program, number=signal.SIGTERM):
        """End a program by a signal; returns what it left."""
        program.signal(number)
        left = program.finish(20.0)
        self.assertNotIn("Traceback", left.err)
        return left


class Peers(Reports):
    """Peers that close, keep silent, talk nonsense or vanish."""

    # micropython#18161, home-assistant/core#75775
    def test_b01_end_of_file_in_the_middle_of_a_read_spins(self):
        for steps in ((), (b"\x09",), (b"\x09", 2), (b"\x09", 40)):
            with self.subTest(steps=steps), FakeServer(conversation(*steps)) as server:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                left = client(server.port, seconds=20.0)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                self.assertEqual(left.code, 1, left)
                self.assertRegex(left.err, r"\Aiperf3: error - [^\n]+\n\Z")
                self.assertLess(after.ru_utime - before.ru_utime, 3.0)
        server, port = self.serve()
        with connect(port) as sock:
            sock.sendall(COOKIE[:10])
        self.honest(port)
        left = self.end(server)
        self.assertEqual(left.err.count("\n"), 2, left)  # the other one is the signal's

    # iperf3 #404, #445, #407, #1882; wifi-heat-mapper's liveness probe
    def test_b02_a_bare_connect_kills_the_server(self):
        def bare(sock):
            pass

        def reset(sock):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        def says(data):
            def talk(sock):
                try:
                    sock.sendall(data)
                    sock.shutdown(socket.SHUT_WR)
                    receive(sock, 10 ** 6)
                except OSError:
                    pass  # it is not listened to
            return talk
        server, port = self.serve()
        real = support.real("3.22")
        descriptors = datagrams.descriptors(server.pid)
        for talk in (bare, reset, says(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
                     says(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"r" * 505),
                     says(bytes(bytearray(range(256)) * 400)), says(os.urandom(100000))):
            for _ in range(10 if talk is bare else 1):
                with connect(port) as sock:
                    talk(sock)
            self.honest(port, "-n 1M -i 0.1", real)
        self.assertIsNone(server.process.poll())
        support.wait_until(lambda: datagrams.descriptors(server.pid) == descriptors,
                        "no descriptor is left")
        self.assertEqual(self.end(server).code, 0)

    # iperf3 #225, #416, #819, #1735, #1986
    def test_b23_a_dead_client_wedges_the_server(self):
        def running(number, *words):
            server, port = self.serve(*words)
            with support.Program(OURS + ("-c", "127.0.0.1", "-p", port, "-t", "60", "-i", "0.2"),
                                 start_new_session=True) as program:
                program.wait_for("sec ")
                os.killpg(program.pid, number)  # the workers, too
                try:
                    server.wait_for("(test #2)", 30.0)
                finally:
                    os.killpg(program.pid, signal.SIGKILL)
            return port

        def killed():
            return running(signal.SIGKILL)

        def stopped():
            return running(signal.SIGSTOP, "--rcv-timeout", "1000")

        def hasty():
            return self.serve(command=IMPATIENT)

        def vanishes_before_its_streams():
            server, port = hasty()
            with connect(port) as control:
                control.sendall(COOKIE + frame(PARAMETERS))
                self.assertEqual(receive(control, 2), b"\x09\x0a")
            server.wait_for("(test #2)", 30.0)
            control = connect(port)
            self.addCleanup(control.close)
            control.sendall(COOKIE + frame(PARAMETERS))
            self.assertEqual(receive(control, 2), b"\x09\x0a")
            server.wait_for("(test #3)", 30.0)  # nothing is said any more
            return port

        def vanishes_before_its_results():
            server, port = hasty()
            for number, is_open in ((2, False), (3, True)):
                control, data = begin(port)
                control.sendall(b"\x04\0\0")
                self.assertEqual(receive(control, 1), b"\x0d")
                if is_open:
                    self.addCleanup(control.close)
                else:
                    control.close()
                data.close()
                server.wait_for("(test #%d)" % number, 30.0)
            return port
        real = support.real("3.22")
        for _, port in together(lambda function: function(), [
                (killed,), (stopped,), (vanishes_before_its_streams,),
                (vanishes_before_its_results,)]):
            self.honest(port, "-n 1M -i 0.1 -B 127.0.0.2", real)

    # iperf3 #1808
    def test_b24_a_silent_connection_blocks_the_queue(self):
        _, port = self.serve()
        over = threading.Event()
        silent = [connect(port) for _ in range(10)]
        self.addCleanup(lambda: [sock.close() for sock in silent])
        silent[0].sendall(COOKIE[:36])

        def drip():
            for letter in bytearray(COOKIE[:36]):
                silent[1].sendall(bytes([letter]))
                if over.wait(0.3):
                    return
        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        before = time.monotonic()
        self.honest(port, "-n 1M -i 0.1", support.real("3.22"))
        self.honest(port)
        after = time.monotonic()
        over.set()
        thread.join()
        self.assertLess(after - before, 8.0)  # iperf3 waits ten seconds for each of them

    # iperf3 #1862
    def test_b25_a_silent_server_hangs_the_client(self):
        def after(data):
            def play(sock):
                receive(sock, 37)
                sock.sendall(data)
            return play
        with FakeServer(after(b"")) as first, FakeServer(after(b"\x09")) as second:
            for (port, step), left in together(
                    lambda port, step: client(port, command=IMPATIENT, seconds=30.0),
                    [(first.port, "answer to the cookie"),
                     (second.port, "answer to the parameters")]):
                self.assertEqual((left.code, left.err.count("\n")), (1, 1), left)
                self.assertIn("timed out waiting for the server's " + step, left.err)
        with socket.socket() as deaf, socket.socket() as first:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            first.connect(deaf.getsockname())  # this one fills its queue
            left = client(deaf.getsockname()[1], "-t 1 --connect-timeout 500", seconds=20.0)
        self.assertEqual((left.code, left.out), (1, ""), left)
        self.assertRegex(left.err, r"\Aiperf3: error - unable to connect to server - [^\n]*"
                                   r"timed out[^\n]*\n\Z")

    # iperf3 #74, #530, #1051, #927
    def test_b61_peers_that_are_not_iperf3(self):
        for greeting, text in (
                (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the peer sent b'HTTP"),
                (b"SSH-2.0-OpenSSH_9.2\r\n", "the peer sent b'SSH-"),
                (b"\x63", "received an unknown control message (ensure other side is iperf3 and"
                          " not iperf)")):
            with FakeServer(lambda sock: sock.sendall(greeting)) as server:
                left = client(server.port, seconds=20.0)
            self.assertEqual((left.code, left.err.count("\n")), (1, 1), left)
            self.assertIn(text, left.err)
        server, port = self.serve()
        with connect(port) as sock:  # iperf 2: a header of numbers, then its payload
            sock.sendall(struct.pack("!6i", -(2 ** 31), 1, 5001, 131072, 0, -1000) + b"0123" * 50)
            self.assertIn(receive(sock, 10)[:1], (b"", b"\xfe", b"\xff"))
        self.honest(port)
        self.assertIn("unable to receive cookie at server: the peer does not speak iperf3: got b'",
                      self.end(server).err)


class SlowRelay(Relay):
    """A relay that holds what comes over TCP back, or passes it on byte by byte."""

    def __init__(self, target, delay=0.0, single=False):
        Relay.__init__(self, target, lossy())
        self._delay, self._single, self._due = delay, single, collections.deque()

    def _pass_on(self, source, sink):
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(source)
        self._due.append((time.monotonic() + self._delay, sink, data))

    def _run(self):
        while True:
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                _, sink, data = self._due.popleft()
                step = 1 if self._single else 65536
                try:
                    for at in range(0, len(data), step):
                        sink.sendall(data[at:at + step])
                    if not data:
                        sink.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # an end that has closed already
            wait = max(0.0, self._due[0][0] - now) if self._due else None
            for key, _ in self._selector.select(wait):
                if key.data is None:
                    return
                try:
                    key.data(key.fileobj)
                except OSError:
                    pass


class Conversation(Reports):
    """What goes over the wire, and in which order."""

    # riperf3 #119, #21
    def test_b20_zero_means_unlimited_and_absent_means_default(self):
        server, port = self.serve("-J")
        for number, parameters in enumerate((
                {"len": 131072, "reverse": True, "surprise": [1, {"x": None}]},
                {"reverse": True, "bandwidth": 0, "num": 0, "blockcount": 0, "omit": 0})):
            document = {"tcp": True, "time": 1, "parallel": 1, "client_version": "3.1"}
            if number:
                document = {"tcp": True, "time": 1}  # all else is absent
            document.update(parameters)
            with connect(port) as control, connect(port) as data:
                control.sendall(COOKIE + frame(document))
                self.assertEqual(receive(control, 2), b"\x09\x0a")
                data.sendall(COOKIE)
                self.assertEqual(receive(control, 2), b"\x01\x02")
                # ten seconds at the rate that is UDP's default
                self.assertEqual(len(receive(data, 10 << 17)), 10 << 17)
                control.sendall(b"\x0c")
        support.wait_until(lambda: server.out().count("\n}") >= 2, "two documents")
        for document in captures.documents(server.out()):
            setup = document["start"]["test_start"]
            self.assertEqual([setup[name] for name in (
                "num_streams", "blksize", "omit", "duration", "bytes", "blocks", "reverse",
                "target_bitrate")], [1, 131072, 0, 1, 0, 0, 1, 0])
        for words, (left, _) in together(lambda *words: pair(*words), [
                ("-t 1 -n 0 -J",), ("-t 1 -k 0 -J -b 10M",), ("-u -b 0 -t 1 -J",)]):
            self.assertEqual((left.code, left.err), (0, ""), left)
            document = left.json()
            self.assertEqual(document["start"]["test_start"]["duration"], 1)
            self.assertGreaterEqual(document["end"]["sum_sent"]["seconds"], 1.0)
            if "-u" in words[0]:
                self.assertEqual(document["start"]["test_start"]["target_bitrate"], 0)
                self.assertGreater(document["end"]["sum_sent"]["bits_per_second"], 10 << 20)

    # iperf3 #768, #1875, #1634, #1637, #1902, #596, #982, #1363
    def test_b21_amounts_end_by_count(self):
        def check(ours, theirs):
            server, port = self.serve(command=theirs)
            for words, least, most in (
                    ("-n 1M", 2 ** 20, 2 ** 20), ("-k 10 -l 1000", 10000, 10000),
                    ("-n 1", 131072, 131072), ("-n 1M -R", 2 ** 20, 2 ** 20),
                    ("-n 1M -P 3", 2 ** 20, 2 ** 20 + 3 * 131072),
                    ("-u -n 1M -b 100M -l 1024", 2 ** 20, 2 ** 20)):
                if theirs is not OURS and "-R" in words:
                    most = None  # a real sender looks at the amount only now and then
                left = self.honest(port, words + " -i 0.1 -J", ours)
                document = left.json()
                setup, sent = document["start"]["test_start"], document["end"]["sum_sent"]
                self.assertEqual(setup["duration"], 0)
                self.assertEqual((setup["bytes"] > 0, setup["blocks"] > 0),
                                 ("-n" in words, "-k" in words))
                self.assertGreaterEqual(sent["bytes"], least, words)
                if most is not None:
                    self.assertLessEqual(sent["bytes"], most, words)
            self.honest(port, "-t 1 -b 10M", support.real("3.22"))
        # A real client's own count depends on when it looks, so ours is the client.
        together(check, [(OURS, OURS), (OURS, support.real("3.22")),
                         (OURS, support.real("3.12"))])

    # iperf3 #751, #718, #1149, #620, #499, #700, #1766, #1803
    def test_b26_races_at_the_end_of_a_test(self):
        for (words, _, _), (left, other) in together(
                lambda words, ours, theirs: pair(words + " -J", "-J", ours, theirs),
                [(words,) + both for both, modes in zip(pairings(False), (
                    ("-t 1 -P 8", "-t 1 -P 8 -R", "-t 1 --bidir -P 4", "-t 1 -u -b 0 -P 4"),
                    ("-t 1 -P 8 -R", "-t 1 -u -b 0 -P 4"),
                    ("-t 1 -P 8", "-t 1 --bidir -P 4"))) for words in modes]):
            self.assertEqual((left.code, left.err, other.code), (0, "", 0), (words, left))
            for document in captures.documents(left.out) + captures.documents(other.out):
                self.assertNotIn("error", document)
                self.assertIn("cpu_utilization_percent", document["end"])
            self.assertIn("remote_system", left.json()["end"]["cpu_utilization_percent"])

        def delayed(words):
            server, port = self.serve("-1", "-J")
            with SlowRelay(port, 0.1) as relay:
                left = client(relay.port, words + " -J")
                return left, server.finish(20.0)
        for (words,), (left, other) in abreast(delayed, [
                ("-n 2M -b 20M -P 4",), ("-n 2M -b 20M -R -P 4",),
                ("-t 1 -b 5M --bidir -P 2",), ("-u -t 1 -b 5M -P 4",)]):
            self.assertEqual((left.code, left.err, other.code), (0, "", 0), (words, left))
            end = left.json()["end"]
            self.assertGreater(end["sum_received"]["bytes"], 0)
            self.assertGreater(other.json()["end"]["cpu_utilization_percent"]["host_total"], -1)

        def in_a_row(ours, theirs):
            _, port = self.serve(command=theirs)
            for _ in range(10):
                self.honest(port, "-n 1M -i 0.1", ours)
        together(in_a_row, pairings(False))

    # xfr #70
    def test_b28_nagle_on_the_control_connection(self):
        def play(sock):
            receive(sock, 37)
            sock.sendall(b"\x09")
            messages.append(sock.recv(65536))
            sock.close()
        messages = []
        with FakeServer(play) as server:
            client(server.port)
        size, = struct.unpack_from("!I", messages[0])
        self.assertEqual(len(messages[0]), 4 + size)  # the length and what it is of, in one go
        if not shutil.which("strace") or subprocess.call(
                ("strace", "-o", os.devnull, "true"), stderr=subprocess.DEVNULL):
            raise unittest.SkipTest("no strace here, or it is not permitted")
        traces = [os.path.join(self.folder(), name) for name in ("client", "server")]
        commands = [("strace", "-f", "-e", "trace=setsockopt", "-o", path) + OURS
                    for path in traces]
        left, _ = support.run_pair(commands[1], commands[0], ("-n", "1"))
        self.assertEqual(left.code, 0, left)
        for path in traces:
            with open(path, errors="replace") as file:
                self.assertRegex(file.read(), r"TCP_NODELAY, \[1\], 4\) = 0")
        # With Nagle's algorithm and delayed acknowledgements each message takes 40 ms more.
        begin, best = time.monotonic(), 100.0
        for _ in range(5):
            begin = time.monotonic()
            self.assertEqual(run(OURS, "--loopback -n 1").code, 0)
            best = min(best, time.monotonic() - begin)
        self.assertLess(best, 5.0)

    # iperf3 #1776, #1782
    def test_b40_large_results(self):
        words = "-P 64 -t 1 -i 0.1 -b 200K -l 1000 --get-server-output -J"
        for _, (left, _) in together(lambda *both: pair(words, "-J -i 0.1", *both),
                                     [(OURS, OURS), (OURS, support.real("3.22"))]):
            self.assertEqual((left.code, left.err), (0, ""), left.err)
            document = left.json()
            self.assertGreater(len(json.dumps(document["server_output_json"])), 2 * 65536)
            self.assertEqual(len(document["server_output_json"]["end"]["streams"]), 64)
        server, port = self.serve("-1")
        with SlowRelay(port, single=True) as relay:
            left = self.honest(relay.port, "-n 1 -l 1000 --get-server-output")
        self.assertIn("Server output:", left.out)
        self.assertIn("Accepted connection", left.out)
        self.assertEqual(server.finish(20.0).code, 0)

    # iperf3 #71, #725, #338, #569; riperf3 #156
    def test_b68_the_column_of_retransmits(self):
        code = ("import socket\n"
                "class Socket(socket.socket):\n"
                "    def getsockopt(self, level, name, *more):\n"
                "        found = super().getsockopt(level, name, *more)\n"
                "        if (level, name) == (6, 11):\n"
                "            %s\n"
                "        return found\n"
                "socket.socket = Socket")
        for action, has_count, has_column in (
                ("found = found[:104]", True, True), ("found = found[:92]", False, False),
                ("raise OSError(92, 'Protocol not available')", False, False)):
            command = driver(code % action)
            (_, (text, _)), (_, (left, other)) = together(
                lambda *words: pair(*words, client=command), [("-n 1M",), ("-n 1M -J", "-J")])
            for program in (text, left, other):
                self.assertEqual((program.code, program.err), (0, ""), program)
            self.assertEqual("Retr" in text.out, has_column, text)
            # fields of the sender's last row: with and without the count
            row, = [line for line in text.lines() if line.endswith("sender")]
            self.assertEqual(len(row.split()), 10 if has_count else 9, row)
            rows = left.json()
            self.assertEqual("retransmits" in rows["intervals"][0]["streams"][0], has_count)
            self.assertEqual("retransmits" in rows["end"]["sum_sent"], has_count, rows["end"])
        ours, theirs = [pair("-t 1 -R -b 10M", client=command)[0].out
                        for command in (OURS, support.real("3.22"))]
        self.assertEqual(figures.outline(ours), figures.outline(theirs))
        self.assertIn("Retr  Cwnd", ours)


class Endings(Reports):
    """Broken outputs, signals, and servers that cannot start or shall end."""

    # speedtest-cli, ps_mem: EPIPE in Python's programs
    def test_b06_a_closed_pipe_is_a_traceback(self):
        def shell(script, code):
            command = " ".join("'%s'" % word for word in OURS)
            left = support.run(("bash", "-c", script.replace("PYPERF3", command)))
            return left, code
        head = "PYPERF3 %s | head -n 1 >/dev/null; exit ${PIPESTATUS[0]}"
        items = [(head % words, 0) for words in (
            "--loopback -t 30 -i 0.1", "--loopback -n 1M -J", "--help", "--version",
            "--loopback -t 30 -i 0.1 --json-stream")]
        if os.path.exists("/dev/full"):
            items += [("PYPERF3 --loopback -t 30 -i 0.1 >/dev/full", 1),
                      ("PYPERF3 --help >/dev/full", 1)]
        items.append(("PYPERF3 --loopback -n 1M >&-", 0))
        for (script, code), (left, _) in together(shell, items):
            self.assertEqual(left.code, code, (script, left))
            self.assertNotIn("Traceback", left.err)
            self.assertNotIn("Exception ignored", left.err)
            self.assertEqual(left.err.count("\n"), code, (script, left))
        port = support.free_port()
        words = " ".join("'%s'" % word for word in OURS)
        with support.Program(("bash", "-c", "exec %s -s -1 -p %d >&-" % (words, port))) as server:
            support.wait_for_listener(server, port)
            self.honest(port)
            left = server.finish(20.0)
        self.assertEqual((left.code, left.err), (0, ""), left)

    # iperf3 #458, #790, #299, #444, #1841, #1172, #393
    def test_b07_output_is_held_back_when_piped(self):
        folder = self.folder()

        def read(name):
            path = os.path.join(folder, name)
            if not os.path.exists(path):
                return ""
            with open(path) as file:
                return file.read()

        def check(words, texts):
            logged = "--logfile" in words
            port = support.free_port()
            more = [words.split() + [os.path.join(folder, name)] if logged else words.split()
                    for name in ("server", "client")]
            with support.Program(OURS + ("-s", "-p", port) + tuple(more[0])) as server:
                if not logged and not words:
                    server.wait_for("Server listening on %d" % port)
                support.wait_for_listener(server, port)
                with support.Program(OURS + ("-c", "127.0.0.1", "-p", port, "-t", "60", "-b", "10M",
                                             "-i", "0.2") + tuple(more[1])) as program:
                    for text in texts:
                        for each, name in ((program, "client"), (server, "server")):
                            support.wait_until(
                                lambda: text in (read(name) if logged else each.out()), text)
                    self.assertIsNone(program.process.poll())
        together(check, [("", ("sec ",)),
                         ("--json-stream", ('"event":"start"', '"event":"interval"')),
                         ("--logfile", ("[ ID]", "sec "))])

    # iperf3 #95, #132, #479, #1009
    def test_b08_signals_give_a_summary_and_status_0(self):
        texts = {signal.SIGINT: "Interrupt(2)", signal.SIGTERM: "Terminated(15)",
                 signal.SIGHUP: "Hangup(1)"}

        def running(words):
            server, port = self.serve()
            program = support.Program(OURS + ("-c", "127.0.0.1", "-p", port, "-t", "60", "-i",
                                              "0.2") + tuple(words.split()))
            self.addCleanup(program.__exit__)
            server.wait_for("sec ")
            if "-J" not in words:
                program.wait_for("sec ")
            return server, program

        def interrupt(number, words, times=1):
            server, program = running(words)
            for _ in range(times):
                program.signal(number)
            left = program.finish(20.0)
            text = "interrupt - the client has terminated by signal " + texts[number]
            self.assertEqual(left.code, 0, left)
            if "-J" in words:
                self.assertEqual((left.json()["error"], left.err), (text, ""))
                self.assertGreater(left.json()["end"]["sum_sent"]["bytes"], 0)
            else:
                self.assertEqual(left.err, "iperf3: %s\n" % text)
                self.assertRegex(left.out, r"(?s)- - - -.*sender\n.*receiver\n")
            server.wait_for("(test #2)")
            self.assertIn("iperf3: the client has terminated\n", server.err())

        def end_server(words):
            server, program = running(words)
            self.assertEqual(self.end(server).code, 0)
            left = program.finish(20.0)
            self.assertEqual((left.code, left.err),
                             (1, "iperf3: error - the server has terminated\n"))
        abreast(interrupt, [
            (signal.SIGINT, ""), (signal.SIGTERM, "-J"), (signal.SIGHUP, "-R"),
            (signal.SIGTERM, "--bidir"), (signal.SIGINT, "-u"), (signal.SIGINT, "", 2)])
        together(end_server, [("",), ("-R",)])
        server, _ = self.serve()
        left = self.end(server)
        self.assertEqual((left.code, left.err), (
            0, "iperf3: interrupt - the server has terminated by signal Terminated(15)\n"))

    # iperf3 #95: a signal while the client connects
    def test_b08_a_signal_during_connect(self):
        with socket.socket() as deaf, socket.socket() as first:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            first.connect(deaf.getsockname())
            port = deaf.getsockname()[1]

            def connecting():
                with open("/proc/net/tcp") as table:
                    return any(row.split()[2].endswith(":%04X" % port) and row.split()[3] == "02"
                               for row in list(table)[1:])
            with support.Program(OURS + ("-c", "127.0.0.1", "-p", port)) as program:
                support.wait_until(connecting, "a connection is tried")
                left = self.end(program, signal.SIGINT)
        self.assertEqual((left.code, left.err), (
            0, "iperf3: interrupt - the client has terminated by signal Interrupt(2)\n"), left)

    # iperf3 #1250, #1225, #1016, #119, #120; riperf3 #81, #105
    def test_b52_daemon_log_file_and_pid_file(self):
        folder = self.folder()

        def read(name):
            with open(os.path.join(folder, name)) as file:
                return file.read()
        port = support.free_port()
        words = ("-s", "-D", "-p", port, "-I", "pid", "--logfile", "log")
        left = run(OURS, words, cwd=folder)
        self.assertEqual((left.code, left.out, left.err), (0, "", ""), left)
        support.wait_until(lambda: support.listens(port) and read("pid"), "a listening daemon")
        pid = int(read("pid"))
        try:
            links = [os.readlink("/proc/%d/fd/%s" % (pid, name))
                     for name in os.listdir("/proc/%d/fd" % pid)]
            self.assertFalse([link for link in links if link.startswith("pipe:")], links)
            self.honest(port)
            support.wait_until(lambda: "(test #2)" in read("log"), "a first test")
            os.rename(os.path.join(folder, "log"), os.path.join(folder, "log.1"))
            self.honest(port)
            support.wait_until(lambda: os.path.exists(os.path.join(folder, "log"))
                            and "(test #3)" in read("log"), "a new log file")
            again = run(OURS, words[:4] + ("--logfile", "other"), cwd=folder)
            text = "unable to start listener for connections: Address already in use"
            self.assertEqual((again.code, again.out), (1, ""))
            self.assertIn(text, again.err)
            self.assertIn(text, read("other"))
        finally:
            os.kill(pid, signal.SIGTERM)
        support.wait_until(lambda: not os.path.exists(os.path.join(folder, "pid")), "no pid file")
        self.assertEqual((read("log.1") + read("log")).count("receiver\n"), 2)
        left = run(OURS, ("-s", "-p", port, "--logfile", os.path.join(folder, "no", "such")))
        self.assertEqual((left.code, left.out), (1, ""))
        self.assertRegex(left.err, r"\Aiperf3: error - unable to open log file: No such file or"
                                   r" directory\niperf3: exiting\n\Z")
        left = run(driver("import os; del os.fork"), ("-s", "-D", "-p", port))
        self.assertEqual((left.code, left.out), (1, ""), left)
        self.assertIn("unable to become a daemon", left.err)

    # iperf3 #316, #1225
    def test_b53_bind_errors_loop_or_exit_0(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            items = [(("-B", "127.0.0.1", "-p", taken.getsockname()[1]), "Address already in use"),
                     (("-B", "192.0.2.77", "-p", support.free_port()),
                      "Cannot assign requested address")]
            results = [(run(OURS, ("-s",) + words, seconds=20.0), text) for words, text in items]
        first = 1024
        if os.path.exists("/proc/sys/net/ipv4/ip_unprivileged_port_start"):
            with open("/proc/sys/net/ipv4/ip_unprivileged_port_start") as file:
                first = int(file.read())
        python = self.python_of_nobody()
        if python and first > 777:
            with open(support.PROGRAM, "rb") as source:
                results.append((run((python, "-B", "-"), ("-s", "-p", "777"), stdin=source,
                                    preexec_fn=as_nobody, cwd="/"), "Permission denied"))
        for left, text in results:
            self.assertEqual((left.code, left.out, support.as_iperf3(left.err)), (
                1, "", "iperf3: error - unable to start listener for connections: %s\n"
                       "iperf3: exiting\n" % text), left)

    def python_of_nobody(self):
        """Return a Python that others may run, None if there is none, or if this is not root."""
        for path in (sys.executable, "/usr/bin/python3") if os.geteuid() == 0 else ():
            try:
                if subprocess.call((path, "-c", ""), preexec_fn=as_nobody, cwd="/",
                                   stderr=subprocess.DEVNULL) == 0:
                    return path
            except (OSError, subprocess.SubprocessError):
                pass
        return None

    # pscheduler; CI scripts
    def test_b59_one_off_means_one_test(self):
        for words, probes in (((), 0), ((), 2), (("-J",), 1)):
            server, port = self.serve("-1", *words)
            for _ in range(probes):
                connect(port).close()
            self.honest(port)
            self.assertEqual(server.finish(20.0).code, 0)
        server, _ = self.serve("-1", "--idle-timeout", "1")
        left = server.finish(20.0)
        self.assertEqual((left.code, left.err), (0, ""), left)
        folder, port = self.folder(), support.free_port()
        left = run(OURS, ("-1", "-s", "-D", "-p", port, "-I", os.path.join(folder, "pid")))
        self.assertEqual((left.code, left.out, left.err), (0, "", ""), left)
        support.wait_until(lambda: support.listens(port), "a listening daemon")
        self.honest(port)
        support.wait_until(lambda: not os.listdir(folder), "its end")

    # alvisisme/android-iperf #1; iperf3 #1201, #987
    def test_b51_no_place_to_write_to(self):
        folder = self.folder()
        program = os.path.join(folder, "pyperf3.py")
        shutil.copy(support.PROGRAM, program)
        bare = {"PATH": os.environ.get("PATH", ""), "TMPDIR": "/nonexistent"}
        for flags in (("-I", "-S", "-B"), ("-S",)):
            left = run((sys.executable,) + flags + (program,), "--loopback -n 1M -P 2", env=bare)
            self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertEqual(os.listdir(folder), ["pyperf3.py"])
        python = self.python_of_nobody()
        if not python:
            raise unittest.SkipTest("needs root, and a Python that others may run")
        os.chmod(folder, 0o755)
        closed = os.path.join(self.folder(), "closed")
        os.mkdir(closed, 0o700)
        with open(support.PROGRAM, "rb") as source:
            left = run((python, "-I", "-S", "-B", "-"), "--loopback -n 1M", env=bare, cwd=closed,
                       preexec_fn=as_nobody, stdin=source)
        self.assertEqual((left.code, left.err), (0, ""), left)
        script = ("mount --rbind / {0} && mount -o remount,bind,ro {0} && mount -t tmpfs -o ro t"
                  " {0}/tmp && cd {0} && exec chroot {0} sh -c 'touch /x 2>/dev/null && exit 9;"
                  " exec {1} -I -S -B - --loopback -n 1M -Z'").format(self.folder(), python)
        if subprocess.call(("unshare", "-m", "true"), stderr=subprocess.DEVNULL):
            raise unittest.SkipTest("file systems cannot be mounted here")
        with open(support.PROGRAM, "rb") as source:
            left = run(("unshare", "-m", "sh", "-c", script), "", stdin=source, env=bare)
        self.assertEqual((left.code, left.err), (0, ""), left)


class Arguments(Reports):
    """The command line."""

    # iperf3 #1662; riperf3 #198, #205
    def test_b09_argparse_is_not_getopt(self):
        real = support.real("3.22")
        refused = ["-c x -t -1", "-c x -u -l 10", "-c x -i 0.01", "-c x -P 129", "-c x -R --bidir",
                   "-c x -n 1 -t 1", "-s -c x", "-s -t 1", "-c x -D", "--ver", "", "-c x --nosuch",
                   "-c x -p"]
        for (words,), (ours, theirs) in together(
                lambda words: (run(OURS, words), run(real, words)),
                [(words,) for words in refused]):
            self.assertEqual((ours.code, ours.out), (1, ""), words)
            self.assertEqual(*[re.sub(r"(?m)^(\S*/)?iperf3:", "NAME:", support.as_iperf3(left.err))
                               for left in (ours, theirs)], msg=words)
        self.assertIn("is ambiguous; possibilities: ", run(OURS, "--ver").err)
        self.assertIn("test duration valid values are 0 to 86400 seconds",
                      run(OURS, "-c x -t -1").err)
        left = run(OURS, "--help")
        self.assertEqual((left.code, left.err), (0, ""))
        self.assertIn("--json-stream", left.out)
        for (words, expected), (left, _) in abreast(
                lambda words, _: support.run_pair(OURS, OURS, ("-J", "-b", "10M") + words), [
                    (("-P4", "-t1", "-i.5"), {"num_streams": 4, "duration": 1}),
                    (("-Rt1",), {"reverse": 1, "duration": 1}),
                    (("--parallel=4", "-n", "1K"), {"num_streams": 4, "bytes": 1024}),
                    (("--par", "2", "--rev", "-n", "1K"), {"num_streams": 2, "reverse": 1}),
                    (("-n", "0", "-t", "1"), {"bytes": 0, "duration": 1}),
                    (("-k", "0", "-t", "1"), {"blocks": 0, "duration": 1}),
                    (("stray", "", "-n", "1K", "--", "stray", ""), {"bytes": 1024})]):
            self.assertEqual((left.code, left.err), (0, ""), left)
            setup = left.json()["start"]["test_start"]
            self.assertEqual({name: setup[name] for name in expected}, expected)
        port = support.free_port()
        with support.Program(OURS + ("-1s", "-p%d" % port)) as server:
            support.wait_for_listener(server, port)
            self.honest(port)
            self.assertEqual(server.finish(20.0).code, 0)

    # riperf3 #56, #73, #334; iperf3 #768
    def test_b33_1000_for_rates_and_1024_for_sizes(self):
        for (words, expected), left in together(
                lambda words, _: run(OURS, "--loopback -J " + words), [
                    ("-b 1.5m -n 1K", {"target_bitrate": 1500000}),
                    ("-b 1K -n 1 -l 1", {"target_bitrate": 1000}),
                    ("-n 1K -l 1k", {"bytes": 1024, "blksize": 1024}),
                    ("-b 10M/100 -l 10 -n 1K", {"target_bitrate": 10000000}),
                    ("-w 64K -n 1K", {"sock_bufsize": 65536})]):
            self.assertEqual((left.code, left.err), (0, ""), left)
            start = left.json()["start"]
            found = dict(start, **start["test_start"])
            self.assertEqual({name: found[name] for name in expected}, expected)
        self.assertGreaterEqual(start["sndbuf_actual"], 65536)
        row = r"(\d+\.\d+)-(\d+\.\d+) +sec +(\S+) (\S+) +(\S+) (\S+)"
        for (letter, unit), left in abreast(
                lambda letter, unit: run(OURS, "--loopback -t 1 -b 80M -l 10K -f " + letter),
                [(letter, prefix + ("bits/sec" if letter.islower() else "Bytes/sec"))
                 for letter, prefix in zip("kmgtKMGT", "KMGTKMGT")]):
            start, end, size, size_unit, rate, rate_unit = re.findall(row, left.out)[-1]
            self.assertEqual((rate_unit, size_unit), (unit, "MBytes"), left)
            if letter in "kmKM":
                # 1024 for sizes; rates of bits are counted in 1000
                step = 1000.0 if letter.islower() else 1024.0
                power = "kmKM".index(letter) % 2 + 1
                got = float(rate) * step ** power * (0.125 if letter.islower() else 1.0)
                self.assertAlmostEqual(got * (float(end) - float(start)) / 2 ** 20,
                                       float(size), delta=0.02 * float(size))

    # riperf3 #317, #328; pscheduler, zosbase: what wrappers type
    def test_b34_atoi_is_lenient(self):
        for (words, expected), (left, _) in together(
                lambda words, _: support.run_pair(OURS, OURS, words + ("-J", "-b", "10M")), [
                    (("-t", "1s"), {"duration": 1}),
                    (("-O", "0.9", "-t", "1.9"), {"omit": 0, "duration": 1}),
                    (("", "-n", "1K"), {"bytes": 1024})]):
            self.assertEqual((left.code, left.err), (0, ""), left)
            setup = left.json()["start"]["test_start"]
            self.assertEqual({name: setup[name] for name in expected}, expected)
        server, port = self.serve()
        self.honest("%dx" % port, "--bandwidth 0 -n 1M")
        left = client(port, "--length 16B")  # iperf3 before 3.21 took it for 16
        self.assertEqual(left.code, 1)
        self.assertIn("parameter error - invalid unit value or suffix: '16B'\n", left.err)
        left = client(port, "-t abc")  # iperf3 takes it for 0, that is, without an end
        self.assertEqual((left.code, left.out), (1, ""), left)
        self.assertIn("parameter error", left.err)


class Outputs(Reports):
    """Text and JSON."""

    # iperf3 #1405, #1118, #1143, #1631, #545, #688
    def test_b10_json_is_one_document_on_failure_too(self):
        def check(left, text):
            self.assertEqual((left.code, left.err), (1, ""), left)
            document = left.json()
            self.assertEqual(document["error"], text)
            return document
        document = check(client(support.free_port(), "-J"), REFUSED)
        self.assertEqual((document["start"]["connected"], document["intervals"], document["end"]),
                         ([], [], {}))
        left = run(OURS, "-c no-such-host.invalid -J")
        self.assertEqual((left.code, left.err), (1, ""))
        self.assertTrue(left.json()["error"].startswith("unable to connect to server - "), left)
        path = os.path.join(self.folder(), "log")
        left = client(support.free_port(), ("-J", "--logfile", path))
        self.assertEqual((left.code, left.out, left.err), (1, "", ""), left)
        with open(path) as file:
            self.assertEqual(json.load(file)["error"], REFUSED)
        for command in (OURS, support.real("3.22")):
            server, port = self.serve(command=command)
            with support.Program(OURS + ("-c", "127.0.0.1", "-p", port, "-t", "60", "-b", "10M",
                                         "-i", "0.2")) as first:
                first.wait_for("sec ")
                check(client(port, "-J"), BUSY)
                first.signal(signal.SIGINT)
                first.finish(20.0)
        server, port = self.serve()
        with support.Program(OURS + ("-c", "127.0.0.1", "-p", port, "-t", "60", "-b", "10M",
                                     "-J")) as program:
            server.wait_for("sec ")
            server.signal(signal.SIGKILL)
            document = check(program.finish(20.0), CLOSED)
        self.assertEqual(len(document["start"]["connected"]), 1)

    # iperf3 #613, #826, #520
    def test_b11_numbers_that_are_not_json(self):
        def starved(words):
            server, port = self.serve("-1", "-J")
            with Relay(port, lambda way, flow, number, data: [data] if number == 1 else []) as path:
                return client(path.port, words + " -J"), server.finish(20.0)

        def whole(words):
            return pair(words + " -J", "-J")

        def interrupted(words):
            server, port = self.serve("-1", "-J")
            idle = datagrams.descriptors(server.pid)
            with support.Program(OURS + ("-c", "127.0.0.1", "-p", port, "-i", "0.2", "-J")
                                 + tuple(words.split())) as program:
                # until there is a data connection, too
                support.wait_until(lambda: datagrams.descriptors(server.pid) > idle + 1, "a test")
                return self.end(program, signal.SIGINT), server.finish(20.0)
        found = abreast(lambda function, words: function(words), [
            (starved, "-u -t 1 -b 100K -l 1000"), (starved, "-u -t 1 -b 100K -l 1000 -R"),
            (whole, "-u -t 1 -b 1k"), (whole, "-n 1"), (whole, "-n 1 -l 1 -R"), (whole, "-u -n 1"),
            (interrupted, "-t 1 -O 30"), (interrupted, "-u -t 1 -O 30")])
        for _, programs in found[:2]:
            for program in programs:
                self.assertEqual((program.code, program.err), (0, ""), program)
                self.assertEqual(program.json()["end"]["sum"]["lost_percent"], 0)
        for _, programs in found:
            for program in programs:
                self.assertIn("end", program.json())  # which refuses NaN and Infinity

    # iperf3 #1223, #856; openwisp-monitoring and zosbase read both outputs as one
    def test_b12_warnings_on_standard_output_spoil_json(self):
        warning = "warning: %s\n"
        for (words, text), (left, _) in together(lambda words, _: pair(words), [
                ("-J -n 1M -f m",
                 warning % "Report format (-f) flag ignored with JSON output (-J)"),
                ("-J -n 1M -V",
                 warning % "Verbose output (-v) may interfere with JSON output (-J)"),
                ("-J -n 1M --timestamps", ""), ("-J -n 1M", ""),
                ("-J -u -n 120000 -b 100M -l 60000", None), ("-J -n 1M -d", None)]):
            self.assertEqual(left.code, 0, left)
            self.assertGreater(left.json()["end"]["sum_sent"]["bytes"], 0)
            if text is not None:
                self.assertEqual(left.err, text)
            else:
                self.assertIn("State change" if "-d" in words else "block size 60000 exceeds TCP"
                              " MSS", left.err)
        command = (sys.executable, "-B", "-W", "always", support.PROGRAM)
        for words in ("-n 1M", "-n 1M -R -P 2", "-u -n 10K"):
            self.assertClean(run(command, "--loopback " + words))

    # riperf3 #221, #241, #264, #184
    def test_b35_units_and_columns_are_those_of_iperf3(self):
        real = support.real("3.22")
        found = abreast(
            lambda words, command: pair("-t 1 -b 5M -l 5K " + words, "", command, real)[0],
            [(words, command) for words in (
                "", "-P 2", "-u", "-R", "--bidir", "-O 1", "-f k", "-f G")
             for command in (OURS, real)])
        for ((words, _), ours), (_, theirs) in zip(found[::2], found[1::2]):
            self.assertEqual((ours.code, ours.err), (0, ""), ours)
            units = words.startswith("-f")
            self.assertEqual(figures.outline(ours.out, units), figures.outline(theirs.out, units))
            fields = {line.split()[-1]: len(line.split())
                      for line in ours.lines() if line.endswith(("sender", "receiver"))}
            if words in ("", "-R", "-O 1"):
                self.assertEqual(fields, {"sender": 10, "receiver": 9}, ours)
            elif words == "-u":
                self.assertEqual(fields, {"sender": 13, "receiver": 13}, ours)
        for count, letter, text in (
                (9.999e6 / 8, "a", "10.0 Mbit"), (99.95e6 / 8, "a", "100 Mbit"),
                (999.9e3 / 8, "a", "1000 Kbit"), (3.12 * 2 ** 30, "A", "3.12 GByte"),
                (895 * 1024, "A", "895 KByte")):
            self.assertEqual(pyperf3.format_units(count, letter).strip(), text)

    # iperf3 #952, #1196, #1428; kaihendry/iperf3chart #3
    def test_b37_names_and_roles_of_both_directions(self):
        names = {"sum_sent", "sum_received", "sum_sent_bidir_reverse",
                 "sum_received_bidir_reverse"}
        items = [(words, ours, theirs) for words in ("", " -P 2", " -u")
                 for ours, theirs in pairings(False) if words != " -P 2" or ours is theirs]
        for (words, _, _), (left, _) in abreast(
                lambda words, ours, theirs: pair("-t 1 -b 10M --bidir -J" + words, "", ours,
                                                 theirs), items):
            document = captures.parse(left.out)
            self.assertEqual(document["start"]["test_start"]["bidir"], 1)
            self.assertEqual({name for name in document["end"] if name.startswith("sum_")},
                             names | ({"sum_bidir_reverse"} if "-u" in words else set()))
            for interval in document["intervals"]:
                self.assertEqual(list(interval), ["streams", "sum", "sum_bidir_reverse"])
        left, other = pair("-t 1 -b 10M --bidir")
        self.assertIn("[ ID][Role] Interval", left.out)
        for text, roles in ((left.out, ("TX-C", "RX-C")), (other.out, ("RX-S", "TX-S"))):
            for role in roles:
                self.assertRegex(text, r"\[ *\d+\]\[%s\] " % role)

    # iperf3 PR #1174; exporters read end.sum
    def test_b38_udp_has_a_sum_and_tcp_has_none(self):
        for (words, _, _), (left, _) in abreast(
                lambda words, ours, theirs: pair(words + "-t 1 -b 5M -J", "", ours, theirs),
                [(words,) + both for both in pairings() for words in ("-u ", "")]):
            end = captures.parse(left.out)["end"]
            if words:
                for name in ("sum", "sum_sent", "sum_received"):
                    self.assertGreater(end[name]["packets"], 0)
                self.assertEqual(end["streams"][0]["udp"]["out_of_order"], 0)
            else:
                self.assertGreater(end["sum_sent"]["bytes"], 0)
                self.assertNotIn("sum", end)

    # iperf3 #1716, #1688; riperf3 #225
    def test_b39_a_server_prints_one_document_per_test(self):
        left, other = pair("-n 1M", "-J")
        self.assertNotIn("error", other.json())
        server, port = self.serve("-1", "-J")
        connect(port).close()
        left = self.end(server)
        self.assertEqual(len(captures.documents(left.out)), 1)
        self.assertIn("error", left.json())
        server, port = self.serve("-J")
        with connect(port) as sock:
            sock.sendall(b"junk" * 20)
            sock.shutdown(socket.SHUT_WR)
            receive(sock, 1000)
        self.honest(port, "-n 1M --get-server-output")
        self.assertIn("end", self.honest(port, "-n 1M --get-server-output -J").json()[
            "server_output_json"])
        documents = captures.documents(self.end(server).out)
        self.assertEqual(["error" in each for each in documents], [True, False, False, True])
        path = os.path.join(self.folder(), "log")
        server, port = self.serve("-J", "--logfile", path)

        def logged():
            with open(path) as file:
                return file.read()
        for number in (1, 2, 3):
            self.honest(port)
            support.wait_until(lambda: logged().count("\n}") == number, "document %d" % number)
        self.assertEqual(len(captures.documents(logged())), 3)

    # iperf3 PR #1098; riperf3 #62; autobrr/netronome
    def test_b41_json_stream(self):
        def events(left):
            found = [json.loads(line) for line in left.lines()]
            for line, event in zip(left.lines(), found):
                self.assertEqual(list(event), ["event", "data"])
                self.assertTrue(line.startswith('{"event":"%s","data":' % event["event"]), line)
            return [event["event"] for event in found], found[-1]["data"]
        left, _ = pair("-J --json-stream -t 1 -i 0.5 -b 10M")
        names, _ = events(left)
        self.assertEqual((left.code, names[0], names[-1]), (0, "start", "end"))
        self.assertEqual(set(names[1:-1]), {"interval"})
        left = client(support.free_port(), "-J --json-stream")
        self.assertEqual((left.code, events(left)), (1, (["error", "end"], {})), left)
        _, port = self.serve()
        with support.Program(OURS + ("-c", "127.0.0.1", "-p", port, "-t", "60", "-i", "0.2", "-b",
                                     "10M", "--json-stream")) as program:
            program.wait_for('"event":"interval"')
            left = self.end(program, signal.SIGINT)
        names, data = events(left)
        self.assertEqual((left.code, names[-2:]), (0, ["error", "end"]))
        self.assertEqual(len(data["streams"]), 1)

    # readers in Go, whose structures want one type
    def test_b42_types_of_members(self):
        real = support.real("3.22")
        found = abreast(
            lambda words, command: pair("-t 1 -b 5M -J " + words, "-J", command, real),
            [(words, command) for words in ("", "-R", "--bidir", "-u", "-u -R")
             for command in (OURS, real)])
        for ((words, _), ours), (_, theirs) in zip(found[::2], found[1::2]):
            self.assertEqual(figures.shape(captures.parse(ours[0].out)),
                             figures.shape(captures.parse(theirs[0].out)), words)
            document = ours[0].json()
            self.assertIn(document["start"]["test_start"]["reverse"], (0, 1))
            self.assertNotIsInstance(document["start"]["test_start"]["reverse"], bool)
            self.assertIsInstance(document["start"]["timestamp"]["timemillisecs"], int)
            for name in ("sum_sent", "sum_received"):
                self.assertIsInstance(document["end"][name]["bytes"], int)
        _, port = self.serve()
        control, data = begin(port)
        with control, data:
            data.sendall(b"x" * 131072)
            control.sendall(b"\x04")
            self.assertEqual(receive(control, 1), b"\x0d")
            control.sendall(frame({"cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0,
                                   "sender_has_retransmits": 1, "streams": [{
                                       "id": 1, "bytes": 2 ** 53 + 1, "retransmits": 0, "jitter": 0,
                                       "errors": 0, "packets": 0}]}))
            text = receive(control, struct.unpack("!I", receive(control, 4))[0]).decode()
        self.assertRegex(text, r'"bytes":\s*\d+,')


class Datagrams(datagrams.Case, Reports):
    """UDP."""

    def through(self, rule, words, command=OURS, server_command=OURS, mode="-J"):
        """Run a UDP test through a bad network; returns both (Finished)."""
        server, port = support.start_server(server_command, "-1", *mode.split())
        with server, Relay(port, rule) as relay:
            left = client(relay.port, "-u %s %s" % (mode, words), command)
            other = server.finish(20.0)
        for program in (left, other):
            self.assertEqual((program.code, program.err), (0, ""), (words, program))
        return left, other

    # iperf3 #351, #452, #1853, #1563; riperf3 #11, #195, #178
    def test_b05_the_first_datagram_is_lost_or_doubled(self):
        names = {datagrams.HELLO: datagrams.OLD_HELLO, datagrams.REPLY: datagrams.OLD_REPLY}

        def aged(way, flow, number, data):
            return [names.get(data, data)]
        some = "-n 50K -l 1000 -b 5M"
        real = support.real("3.22")
        items = [(lossy(first=1), some), (lossy(first=2), some),
                 (lossy(double=1, until=1), some), (lossy(double=1, until=1), some + " -P 8"),
                 (lossy(first=1, ways=(FORTH,)), some + " -P 8"),
                 (lossy(first=1, ways=(FORTH,)), some + " -R"),
                 (lossy(first=1, ways=(FORTH,)), some, OURS, real),
                 (aged, some + " -P 2")]
        for item, (left, other) in abreast(self.through, items):
            end = left.json()["end"]
            total = end["sum_received"]
            sent = end["sum_sent"]["packets"]
            self.assertGreaterEqual(sent, 52)
            self.assertEqual(total["lost_packets"], 0, (item[1], left))
            # An iperf3 server counts nothing more once it hears of the end.
            self.assertAlmostEqual(total["packets"], sent, delta=5 if real in item else 0,
                                   msg=(item[1], left))
            count = 8 if "-P 8" in item[1] else 2 if "-P 2" in item[1] else 1
            documents = (left.json(), captures.parse(other.out))
            for document in documents:
                self.assertEqual(len(document["end"]["streams"]), count)
                self.assertEqual(sum(each["udp"]["out_of_order"]
                                     for each in document["end"]["streams"]), 0)

    # iperf3 #412, #1261, #236, #443, #1770; riperf3 #31
    def test_b14_omitted_part_and_loss(self):
        def rule():
            return lossy(drop=10)
        items = [(rule(), "-O 1 -t 1 -b 4M -l 1000" + more) for more in ("", " -R", " --bidir")]
        items.append((lossy(drop=2, until=200, ways=(FORTH,)), "-O 1 -t 1 -b 4M -l 1000"))
        items += [("-O 1 -t 1 -i 0.5 -b 10M",), ("-O 1 -t 1 -i 0.5 -b 10M -J",)]
        found = abreast(lambda *item: self.through(*item) if len(item) > 1 else pair(*item), items)
        for number, ((_, words), (left, _)) in enumerate(found[:4]):
            end = left.json()["end"]
            for suffix in ("", "_bidir_reverse") if "--bidir" in words else ("",):
                total = end["sum" + suffix]
                self.assertGreaterEqual(total["lost_packets"], 0)
                # 500 datagrams in the second that counts, and 500 more in the omitted one
                self.assertAlmostEqual(end["sum_sent" + suffix]["packets"], 500, delta=150)
                self.assertAlmostEqual(total["lost_percent"], 0 if number == 3 else 10, delta=1)
        (_, (text, _)), (_, (left, _)) = found[4:]
        rows = [line for line in text.lines() if re.search(r"\d-\d+\.\d\d +sec ", line)]
        flags = [line.endswith("(omitted)") for line in rows]
        self.assertEqual(flags, sorted(flags, reverse=True))
        self.assertTrue(flags[0])
        self.assertRegex(rows[flags.index(False)], r"\] +0\.00-")
        document = left.json()
        counted = [each["sum"] for each in document["intervals"] if not each["sum"]["omitted"]]
        for name in ("bytes", "retransmits"):
            self.assertEqual(document["end"]["sum_sent"][name], sum(row[name] for row in counted))

    # iperf3 #1984, #1892
    def test_b16_received_is_not_what_was_sent(self):
        real = support.real("3.22")
        items = [(lossy(drop=10), "-t 1 -b 10M -l 1000", ours, theirs)
                 for ours, theirs in ((OURS, OURS), (OURS, real), (real, OURS))]
        items.append((lossy(drop=10), "-t 1 -b 10M -l 1000", OURS, OURS, ""))
        found = together(self.through, items)
        for _, (left, _) in found[:3]:
            end = captures.parse(left.out)["end"]
            for name in ("sum", "sum_received"):
                self.assertAlmostEqual(end[name]["lost_percent"], 10, delta=1)
            self.assertEqual((end["sum_sent"]["lost_percent"], end["sum_sent"]["lost_packets"]),
                             (0, 0))
        _, (left, _) = found[3]
        sent, = re.findall(r" 0/(\d+) \(0%\)  sender\n", left.out)
        (lost, total, share), = re.findall(r" (\d+)/(\d+) \(([\d.]+)%\)  receiver\n", left.out)
        self.assertAlmostEqual(int(total), int(sent), delta=10)
        self.assertAlmostEqual(int(lost), int(sent) / 10.0, delta=2)
        self.assertAlmostEqual(float(share), 10, delta=1)

    # iperf3 #296, #509, #571, #1715
    def test_b29_losses_made_by_the_tool(self):
        real = support.real("3.22")
        for words in ("-t 1 -b 50M -l 1400", "-t 1 -b 12M -l 1400 -P 4"):
            left, other = pair("-u -J " + words, "-J", real)
            self.assertEqual((left.code, other.code), (0, 0), left)
            self.assertGreater(other.json()["end"]["sum_received"]["packets"], 500)
            self.assertEqual(other.json()["end"]["sum"]["lost_packets"], 0)
        left, other = pair("-u -J -b 0 -t 1 -l 1400", "-J", real)
        lost = other.json()["end"]["sum"]["lost_packets"]
        # what is lost on this host is said to be lost here, and not on the network
        self.assertLessEqual(lost, datagrams.drops(other.json())[0] or 0)

    # iperf3 #936, #609
    def test_b32_clumps(self):
        _, port = self.serve()
        stamps = []
        with datagrams.FakeClient(port, reverse=True, bandwidth=1000000) as fake:
            sock = fake.stream()
            fake.begin()
            while len(stamps) < 60:
                second, micro, _ = struct.unpack_from("!III", sock.recv(65536))
                stamps.append(second + micro * 1e-6)
            fake.control.sendall(b"\x0c")
        gaps = [after - before for before, after in zip(stamps, stamps[1:])]
        self.assertGreater(min(gaps), 0.002, gaps)  # one is due every 8 ms
        self.assertGreater(stamps[-1] - stamps[0], 59 * 0.008 * 0.98)
        for (words, rate), (left, _) in together(
                lambda words, _: self.pair(tuple((words + " -u -t 1 -J").split())), [
                    ("-b 100M -l 1400", 100e6), ("-b 20M -l 1400 -R", 20e6),
                    ("-b 5k -l 1400", None)]):
            sent = left.json()["end"]["sum_sent"]
            if rate is None:
                self.assertEqual(sent["packets"], 1)  # the next one is due after two seconds
            else:
                self.assertLessEqual(sent["bytes"] * 8, rate * 1.01 * sent["seconds"] + 11200)
                self.assertGreater(sent["bytes"] * 8, 0.3 * rate * sent["seconds"])

    # iperf3 #439, #1052, #1090, #1820, #1192; riperf3 #102, #116
    def test_b31_low_rates_of_tcp(self):
        for (words, rate, streams, block), (left, _) in abreast(
                lambda words, *_: self.pair(tuple((words + " -J").split())), [
                    ("-b 100k -t 2", 1e5, 1, 1250), ("-b 1M -t 2 -i 1", 1e6, 1, 12500),
                    ("-b 10M/100 -l 1000 -t 1", 1e7, 1, 100000), ("-b 1M -P 2 -t 1", 1e6, 2, 12500),
                    ("-b 1M -R -t 1", 1e6, 1, 12500)]):
            document = left.json()
            setup, sent = document["start"]["test_start"], document["end"]["sum_sent"]
            self.assertEqual(setup["target_bitrate"], rate)
            self.assertLessEqual(setup["blksize"] * (100 if "/" in words else 1), block)
            most = streams * (rate / 8 * sent["seconds"] * 1.02 + 2 * block)
            self.assertLessEqual(sent["bytes"], most, words)
            self.assertGreater(sent["bytes"], 0.5 * streams * rate / 8 * sent["seconds"], words)
            if "-P 2" in words:
                self.assertGreater(sent["bytes"], 1e6 / 8)  # of each stream, not of both

    # iperf3 #496, #604, #785, #861, #1934, #1978
    def test_b65_block_sizes(self):
        for (words, length), left in together(
                lambda words, _: run(OURS, "--loopback -u -b 100M -J " + words), [
                    ("-n 100K", 32768), ("-n 100K -l 65507", 65507), ("-n 1K -l 16", 16),
                    ("-n 1K -l 16 --udp-counters-64bit", 16)]):
            self.assertEqual(left.code, 0, left)
            document = left.json()
            self.assertEqual(document["start"]["test_start"]["blksize"], length)
            self.assertEqual(document["end"]["sum"]["lost_packets"], 0)
            self.assertEqual(document["end"]["sum_received"]["bytes"],
                             document["end"]["sum_sent"]["bytes"])
            self.assertEqual("exceeds TCP MSS 32768" in left.err, length == 65507, left)
        for words in ("-l 65508", "-l 12", "-l 15"):
            left = run(OURS, "-c 127.0.0.1 -u " + words)
            self.assertEqual((left.code, left.out), (1, ""))
            self.assertIn("block size invalid (minimum = 16 bytes, maximum = 65507 bytes)",
                          left.err)


class Authentication(Reports):
    """Keys, users and passwords."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which("openssl"):
            raise unittest.SkipTest("no openssl here to make keys with")
        cls.keys = tempfile.mkdtemp(prefix="pyperf3-test-")
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out",
                    cls.key("private.pem"))
        openssl("rsa", "-in", cls.key("private.pem"), "-pubout", "-out", cls.key("public.pem"))
        try:
            openssl("rsa", "-traditional", "-in", cls.key("private.pem"), "-out",
                        cls.key("pkcs1.pem"))
        except subprocess.CalledProcessError:  # an openssl that writes these without being asked
            openssl("rsa", "-in", cls.key("private.pem"), "-out", cls.key("pkcs1.pem"))
        openssl("pkcs8", "-topk8", "-in", cls.key("private.pem"), "-out",
                    cls.key("locked.pem"), "-passout", "pass:sesame")
        with open(cls.key("users"), "wb") as file:
            line = "mario,%s\r\n" % pyperf3.password_digest("mario", "rossi")
            file.write(b"# who may test\r\n\r\n" + line.encode("ascii"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.keys, True)

    @classmethod
    def key(cls, name):
        return os.path.join(cls.keys, name)

    def guarded(self, *words, **more):
        """Start a server that asks who is there; returns its port."""
        key = self.key(more.pop("key", "private.pem"))
        return self.serve("--rsa-private-key-path", key, "--authorized-users-path",
                          self.key("users"), *words, **more)[1]

    def login(self, port, *words, **more):
        """Run a client as mario."""
        password, names = more.pop("password", "rossi"), more.pop("names", {})
        return client(port, ("-n", "100K", "-i", "0.1", "--username", "mario",
                             "--rsa-public-key-path", self.key("public.pem")) + words,
                      env=support.environment(IPERF3_PASSWORD=password, **names), **more)

    # pscheduler #1432, #1496; iperf3 #1701, #673, #1065
    def test_b44_padding_and_clocks(self):
        real, old = support.real("3.22"), support.real("3.12")
        padding = "--use-pkcs1-padding"
        shifted = driver("import time\nnow = time.time\ntime.time = lambda: now() + 60")
        lines = "iperf3: SERVER ERROR - %s\niperf3: error - %s\n" % (DENIED, DENIED)
        plain, patient = self.guarded(), self.guarded("--time-skew-threshold", "100")
        oldest = self.guarded(padding)
        for port, words, more, good in (
                (self.guarded(command=real), (), {}, True),
                (self.guarded(padding, command=real), (padding,), {}, True),
                (self.guarded(command=old), (padding,), {}, True),
                (plain, (), {"command": real}, True),
                (oldest, (padding,), {"command": old}, True),
                (oldest, (padding,), {}, True), (oldest, (), {}, False),
                (plain, (), {"names": {"TZ": "Pacific/Apia"}}, True),
                (plain, (), {"names": {"TZ": "XYZ+11"}}, True),
                (plain, (), {"password": "wrong"}, False),
                (plain, (), {"command": shifted}, False),
                (patient, (), {"command": shifted}, True),
                (self.serve()[1], (), {}, True)):
            if more.get("command") == old:
                words = ()  # it has no other padding
            left = self.login(port, *words, **more)
            self.assertEqual((left.code, left.err), (0, "") if good else (1, lines),
                             (words, more, left))
        left = self.login(plain, "-J", password="wrong")
        self.assertEqual((left.code, left.err, left.json()["error"]), (1, "", DENIED), left)
        without = driver("sys.modules['cryptography'] = None")
        self.assertClean(self.login(self.guarded(command=without), command=without))

    # iperf3 #965, #1079, #1583; riperf3 #395
    def test_b45_nobody_to_ask_and_wrong_keys(self):
        public = self.key("public.pem")
        for words, text in (
                (("-c", "127.0.0.1", "--username", "mario", "--rsa-public-key-path", public), ""),
                (("-c", "127.0.0.1", "--username", "mario"), "a valid RSA public key"),
                (("-c", "127.0.0.1", "--username", "mario", "--rsa-public-key-path", "/nosuch"),
                 "/nosuch"),
                (("-s", "--rsa-private-key-path", "/nosuch", "--authorized-users-path",
                  self.key("users")), "/nosuch"),
                (("-s", "--rsa-private-key-path", self.key("locked.pem"),
                  "--authorized-users-path", self.key("users")), "private key is encrypted"),
                (("-s", "--rsa-private-key-path", self.key("private.pem"),
                  "--authorized-users-path", "/nosuch"), "authorized users file")):
            left = run(OURS, words, seconds=20.0, start_new_session=True)  # without a terminal
            self.assertEqual((left.code, left.out), (1, ""), left)
            self.assertIn("iperf3: parameter error - ", left.err)
            self.assertIn(text, left.err)
        for name in ("private.pem", "pkcs1.pem"):
            server, port = self.serve("-1", "--rsa-private-key-path", self.key(name),
                                      "--authorized-users-path", self.key("users"), "-d")
            left = self.login(port, "-J", "-d")
            other = server.finish(20.0)
            self.assertEqual((left.code, other.code), (0, 0), left)
            for text in (left.out, left.err, other.out, other.err):
                self.assertNotIn("rossi", text)


class Addresses(Reports):
    """Address families and options of packets, on one host."""

    # iperf3 #1037; riperf3 #3
    def test_b46_hosts_without_ipv6_and_with_both(self):
        without = driver("import errno, socket\n"
                         "class Socket(socket.socket):\n"
                         "    def __init__(self, family=-1, *more, **named):\n"
                         "        if family == socket.AF_INET6:\n"
                         "            raise OSError(errno.EAFNOSUPPORT, 'no IPv6 here')\n"
                         "        super().__init__(family, *more, **named)\n"
                         "socket.socket = Socket")
        for words in ("-n 1M", "-u -n 10K -R"):
            left, other = pair(words, "", without, without)
            self.assertClean(left)
            self.assertClean(other)
        if not figures.has_ipv6():
            raise unittest.SkipTest("no IPv6 here")
        server, port = self.serve("-J")
        for host, words in (("127.0.0.1", "-n 1M -4"), ("::1", "-n 1M -6"),
                            ("127.0.0.1", "-u -n 10K"), ("localhost", "-n 1M -4")):
            self.honest(port, words, host=host)
        left = self.end(server)
        self.assertNotIn("::ffff:", left.out)
        hosts = [each["start"]["accepted_connection"]["host"]
                 for each in captures.documents(left.out)[:4]]
        self.assertEqual(hosts, ["127.0.0.1", "::1", "127.0.0.1", "127.0.0.1"])
        _, port = self.serve("-4")
        left = client(port, host="::1")
        self.assertEqual((left.code, support.as_iperf3(left.err)),
                         (1, "iperf3: error - %s\n" % REFUSED))
        self.honest(port)

    # iperf3 #638, #164, #830, #1162; riperf3 #154
    def test_b50_type_of_service_on_the_command_line(self):
        for (words,), left in together(
                lambda words: run(OURS, "--loopback -n 1K -J " + words),
                [("-S 0xb8",), ("-S 184",), ("-S 0270",), ("--dscp ef",), ("--dscp 46",)]):
            self.assertEqual((left.code, left.err), (0, ""), left)
            self.assertEqual(left.json()["start"]["test_start"]["tos"], 184, words)
        left = run(OURS, "-c 127.0.0.1 -S 256")
        self.assertEqual(left.code, 1)
        self.assertIn("bad TOS value (must be between 0 and 255 inclusive)", left.err)


# Counts the larger TCP packets that pass v0, by version, direction and traffic class.
SNIFFER = """
import socket, sys
sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
sock.bind(("v0", 3))
sock.settimeout(20)
print("ready", flush=True)
seen = {}
while sum(count >= 5 for count in seen.values()) < 4:
    data, (_, kind, packet, _, _) = sock.recvfrom(65536)
    if len(data) > 1000 and kind in (0x0800, 0x86dd):
        version = data[0] >> 4
        mark = data[1] if version == 4 else (data[0] << 4 & 0xf0) | data[1] >> 4
        if data[9 if version == 4 else 6] == 6:
            key = (version, packet == 4, mark)
            seen[key] = seen.get(key, 0) + 1
print(sorted(key for key in seen if seen[key] >= 5))
"""


class Hosts(Reports):
    """Two hosts: namespaces A and B, with a fast link v0 and a slow one v1 between them."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or not shutil.which("ip"):
            raise unittest.SkipTest("needs root and ip to make network namespaces")
        cls.a, cls.b = "pyfa%d" % os.getpid(), "pyfb%d" % os.getpid()
        script = """
            ip netns add {a}; ip netns add {b}
            ip link add v0 netns {a} type veth peer name v0 netns {b}
            ip link add v1 netns {a} type veth peer name v1 netns {b}
            ip -n {a} addr add 10.9.0.1/24 dev v0; ip -n {a} addr add fd09::1/64 dev v0 nodad
            ip -n {b} addr add 10.9.0.2/24 dev v0; ip -n {b} addr add 10.9.0.3/24 dev v0
            ip -n {b} addr add fd09::2/64 dev v0 nodad; ip -n {b} addr add fd09::3/64 dev v0 nodad
            ip -n {a} addr add 10.9.1.1/24 dev v1; ip -n {b} addr add 10.9.1.2/24 dev v1
            for n in {a} {b}; do
                for d in lo v0 v1; do ip -n $n link set $d up; done
                ip netns exec $n tc qdisc add dev v1 root tbf rate 20mbit burst 32k latency 50ms
            done""".format(a=cls.a, b=cls.b)
        cls.programs = []
        if subprocess.call(["sh", "-e", "-c", script], stderr=subprocess.DEVNULL):
            support.remove_namespaces(cls.a, cls.b)
            raise unittest.SkipTest("network namespaces with veth and tbf cannot be made here")
        for port in (5201, 5202):
            server = support.Program(support.inside(cls.b) + OURS + (
                "-s", "-p", port, "--rcv-timeout", "2000"))
            cls.programs.append(server)
            server.wait_for("Server listening")
        # It takes longer than ten seconds: the other tests run meanwhile.
        cls.slow = support.Program(support.inside(cls.a) + OURS + (
            "-c", "10.9.1.2", "-p", "5202", "-n", "26M", "-J"))
        cls.programs.append(cls.slow)

    @classmethod
    def tearDownClass(cls):
        for program in cls.programs:
            program.__exit__()
        support.remove_namespaces(cls.a, cls.b)

    def reach(self, host, words):
        left = run(support.inside(self.a) + OURS + ("-J", "-c", host), words)
        self.assertEqual((left.code, left.err), (0, ""), left)
        return left.json()

    # iperf3 #637, #505, #860, #2059; pscheduler #819
    def test_b04_answer_from_another_address_of_the_server(self):
        for host in ("10.9.0.2", "10.9.0.3", "fd09::2", "fd09::3"):
            for words in ("-u -n 50K -b 10M", "-u -n 50K -b 10M -R"):
                total = self.reach(host, words)["end"]["sum_received"]
                self.assertGreaterEqual(total["bytes"], 50 * 1024)

    # iperf3 #225, #416: the link goes down
    def test_link_b23_that_goes_down(self):
        server = self.programs[0]
        count = server.out().count("(test #")
        with support.Program(support.inside(self.a) + OURS + (
                "-c", "10.9.0.2", "-t", "60", "-i", "0.2"), start_new_session=True) as program:
            program.wait_for("sec ")
            subprocess.check_call(["ip", "-n", self.a, "link", "set", "v0", "down"])
            try:
                server.wait_for("(test #", 30.0, count + 1)
                left = run(support.inside(self.b) + OURS, "-c 10.9.0.3 -n 1M")
            finally:
                os.killpg(program.pid, signal.SIGKILL)
                subprocess.check_call(["ip", "-n", self.a, "link", "set", "v0", "up"])
                # nodad does not outlive the link
                subprocess.call(["ip", "-n", self.a, "addr", "add", "fd09::1/64", "dev", "v0",
                                 "nodad"], stderr=subprocess.DEVNULL)
        self.assertEqual((left.code, left.err), (0, ""), left)

    # iperf3 #596, #768: an amount on a slow link
    def test_slow_link_b21_an_amount_takes_the_time_it_takes(self):
        left = self.slow.finish(60.0)
        self.assertEqual((left.code, left.err), (0, ""), left)
        end = left.json()["end"]
        self.assertGreaterEqual(end["sum_received"]["bytes"], 26 * 2 ** 20)
        self.assertGreater(end["sum_received"]["seconds"], 10.0)

    # iperf3 #638, PR #2047: both directions, and sockets of both families
    def test_b50_type_of_service_of_packets(self):
        with support.Program(support.inside(self.b) + (sys.executable, "-c", SNIFFER)) as sniffer:
            sniffer.wait_for("ready")
            for host in ("10.9.0.2", "fd09::2"):
                self.reach(host, "-t 1 -b 50M --bidir -S 0xb8")
            self.assertEqual(sniffer.finish(30.0).out.split("\n")[1], str(
                [(version, sent, 184) for version in (4, 6) for sent in (False, True)]))

    # iperf3 #496: the size that fits the path
    def test_b65_block_size_of_an_ethernet(self):
        for host, length in (("10.9.0.2", 1448), ("fd09::2", 1428)):
            document = self.reach(host, "-u -n 50K -b 10M")
            self.assertEqual(document["start"]["test_start"]["blksize"], length)

    # iperf3 #1037: IPv6 switched off; sockets that are IPv6 only by default
    def test_b46_settings_of_the_system(self):
        for words in ("net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.bindv6only=1"):
            name = "pyfc%d" % os.getpid()
            inside = support.inside(name)
            self.addCleanup(subprocess.call, ["ip", "netns", "del", name],
                            stderr=subprocess.DEVNULL)
            subprocess.check_call(["ip", "netns", "add", name])
            subprocess.check_call(["ip", "-n", name, "link", "set", "lo", "up"])
            if subprocess.call(inside + ("sysctl", "-qw", words), stderr=subprocess.DEVNULL):
                raise unittest.SkipTest("no such setting here: " + words)
            with support.Program(inside + OURS + ("-s",)) as server:
                server.wait_for("Server listening on 5201")
                for more in ("-n 1M", "-u -n 10K"):
                    left = run(inside + OURS, "-c 127.0.0.1 " + more)
                    self.assertEqual((left.code, left.err), (0, ""), left)
            subprocess.check_call(["ip", "netns", "del", name])


class Library(Reports):
    """The file as a module."""

    # iperf3-python #37, #50; Home Assistant runs clients in threads
    def test_b56_runs_again_and_again_and_in_threads(self):
        code = """
import os, signal, socket, sys, threading, tracemalloc
import pyperf3
failures = []
def state():
    return (socket.getdefaulttimeout(), sys.getswitchinterval(), threading.active_count(),
            [signal.getsignal(number) for number in (2, 13, 15)], os.getcwd(),
            len(os.listdir("/proc/self/fd")))
def serve(port):
    server = pyperf3.Server(pyperf3.Settings(server=True, bind="127.0.0.1", port=port))
    events = iter(server)
    next(events)
    thread = threading.Thread(target=lambda: [None for _ in events])
    thread.start()
    return server, thread
def client(port, times=1, **more):
    try:
        for _ in range(times):
            got = pyperf3.Client(pyperf3.Settings(client="127.0.0.1", port=port, bytes="100K",
                                                  **more)).run()
            assert got["end"]["sum_received"]["bytes"] >= 102400, got["end"]
    except BaseException as error:
        failures.append(repr(error))
ports = [int(word) for word in sys.argv[1:]]
before = state()
servers = [serve(port) for port in ports[:2]]
client(ports[0], 10)
tracemalloc.start()
client(ports[0], 3)
low = tracemalloc.get_traced_memory()[0]
client(ports[0], 20)
high = tracemalloc.get_traced_memory()[0]
tracemalloc.stop()
threads = [threading.Thread(target=client, args=(port, 5), kwargs={"reverse": True})
           for port in ports[:2]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for _ in range(3):
    try:
        pyperf3.Client(pyperf3.Settings(client="127.0.0.1", port=ports[2])).run()
        failures.append("no error")
    except pyperf3.IperfError as error:
        if error.number != 103:
            failures.append(repr(error))
client(ports[0])
for server, thread in servers:
    server.stop()
    thread.join()
after = state()
if failures or before != after or high - low > 1000000:
    sys.exit("%r" % ((failures, before, after, high - low),))
"""
        ports = tuple(support.free_port() for _ in range(3))
        left = support.run((sys.executable, "-B", "-W", "error", "-c", code) + ports,
                           env=support.environment(PYTHONPATH=support.ROOT))
        self.assertEqual((left.code, left.out, left.err), (0, "", ""), left)

    # iperf3 #7, #1205; iperf3-python #29
    def test_b58_a_library_does_not_end_the_process(self):
        def fail(**values):
            with self.assertRaises(pyperf3.IperfError) as caught:
                pyperf3.Client(pyperf3.Settings(**values)).run()
            return caught.exception
        error = fail(client="127.0.0.1", port=support.free_port())
        self.assertEqual((error.number, str(error), error.document["end"]), (103, REFUSED, {}))
        error = fail(client="no-such-host.invalid")
        self.assertEqual(error.number, 103)
        self.assertEqual(fail(client="127.0.0.1", parallel=1000).number, 6)
        self.assertEqual(fail(client="127.0.0.1", length="x").number, 38)
        server, port = self.serve()
        timer = threading.Timer(1.0, server.signal, (signal.SIGKILL,))
        timer.start()
        error = fail(client="127.0.0.1", port=port, time=60, interval=0.1, bitrate="10M")
        timer.join()
        self.assertEqual((error.number, str(error)), (109, CLOSED))
        self.assertGreater(len(error.document["intervals"]), 1)


class Platforms(Reports):
    """Clocks, locales, and Pythons of all kinds."""

    # iperf3 #253
    def test_b18_a_clock_that_is_set_spoils_the_figures(self):
        with open(support.PROGRAM) as file:
            tree = ast.parse(file.read())
        classes = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
        for name in ("Loop", "Test", "RateMeter", "CpuMeter", "StreamLoop", "TcpSender",
                     "TcpReceiver", "UdpSender", "Pace", "StreamFigures",
                     "DatagramTracker"):
            for node in ast.walk(classes[name]):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    self.assertNotEqual((node.value.id, node.attr), ("time", "time"), name)
        jumping = driver("import time\nnow, calls = time.time, []\n"
                         "def wild():\n"
                         "    calls.append(1)\n"
                         "    return now() + 3600 * (-1) ** len(calls)\n"
                         "time.time = wild")
        for (words,), (left, _) in together(
                lambda words: pair("-t 1 -i 0.5 -b 10M -J " + words, "", jumping, jumping),
                [("",), ("-R",), ("-u",), ("-u -R",)]):
            self.assertEqual((left.code, left.err), (0, ""), left)
            document = left.json()
            for row in [each["sum"] for each in document["intervals"]] + [
                    document["end"]["sum_sent"], document["end"]["sum_received"]]:
                self.assertGreaterEqual(row["seconds"], 0)
                self.assertLess(row["seconds"], 60)
                self.assertLess(row.get("jitter_ms", 0), 60000)

    # speedtest-cli #608
    def test_b70_locales_without_utf8(self):
        title = b"t\xc3\xa9st \xff"
        for names in ({"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"},
                      {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "de_DE.UTF-8"}):
            for more in ((), (b"-J",)):
                words = [os.fsencode(word) for word in OURS]
                process = subprocess.Popen(
                    words + [b"--loopback", b"-n", b"1M", b"-T", title] + list(more),
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    env=support.environment(**names))
                out, err = process.communicate(timeout=support.LIMIT)
                self.assertEqual((process.returncode, err), (0, b""))
                self.assertIn(title, out)
                self.assertRegex(out.replace(title, b""), br"\A[\x00-\x7f]+\Z")
                if not more:
                    self.assertIn(b" 1.00 MBytes ", out)

    # speedtest-cli #568, #621
    def test_b71_plain_tests_need_no_ssl(self):
        for (gone,), left in together(
                lambda gone: run(driver("for name in %r.split(): sys.modules[name] = None" % gone),
                                 "--loopback -n 1M"),
                [("ssl _ssl",), ("ctypes _ctypes",), ("_multiprocessing lzma",), ("fcntl",),
                 ("pwd",), ("resource",),
                 ("ssl _ssl ctypes _ctypes _multiprocessing lzma fcntl pwd resource",)]):
            self.assertEqual((left.code, left.err), (0, ""), (gone, left))
            self.assertIn("1.00 MBytes", left.out)

    # aioquic #153, #11, #421, #42; and whether QUIC gets through where UDP is filtered
    def test_b72_quic_is_slow_in_pure_python_and_udp_may_be_filtered(self):
        for gone in ("aioquic", "qh3"):
            program = support.with_quic(gone)
            left, other = pair("--quic -t 1 -J", "", program, program)
            self.assertClean(left)
            self.assertClean(other)
            end = left.json()["end"]
            cpu, own = end["cpu_utilization_percent"], end["pyperf3"]
            self.assertGreater(cpu["host_total"], 0)
            self.assertGreater(cpu["remote_total"], 0)
            self.assertEqual(own["cpu_bound"], [
                name for name, key in (("local", "host_total"), ("remote", "remote_total"))
                if cpu[key] >= 90.0])
            left = run(support.with_quic("qh3,aioquic"), "-c 127.0.0.1 --quic")
            self.assertEqual(left.code, 1)
            self.assertIn("takes the Python package qh3", left.err.split("\n")[0])
        server, port = self.serve(command=support.with_quic())
        with Relay(port, lambda way, flow, number, data: []) as path:
            left = client(path.port, "--quic", support.with_quic())
        self.assertEqual(left.code, 1)
        self.assertRegex(left.err, r"\A(iperf3: .+\n){1,2}\Z")
        self.assertIn("UDP port %d is closed or filtered" % path.port, left.err)
        self.honest(port, "--quic -n 1M", support.with_quic())
        self.end(server)

    # what differs from Python 3.6 to 3.14
    def test_b74_old_and_new_pythons(self):
        pythons = [(path,) for _, _, path in matrix.find_pythons()]
        pythons = pythons[:1] + pythons[len(pythons) // 2:-1:3] + pythons[-1:]
        for (path,), (left, other, usage) in together(
                lambda path: (run((path, "-W", "error", "-X", "dev", "-B", support.PROGRAM),
                                  "--loopback -n 1M --bidir -P 2"),
                              run((path, "-OO", "-B", support.PROGRAM), "--loopback -u -n 10K -J"),
                              run((path, "-OO", "-B", support.PROGRAM), "--help")), pythons):
            self.assertEqual((left.code, left.err), (0, ""), (path, left))
            self.assertEqual((other.code, other.err), (0, ""), (path, other))
            self.assertGreaterEqual(other.json()["end"]["sum_received"]["bytes"], 10240)
            self.assertEqual((usage.code, usage.err), (0, ""), (path, usage))
            self.assertIn("--json-stream", usage.out)


if __name__ == "__main__":
    sys.exit(unittest.main())
