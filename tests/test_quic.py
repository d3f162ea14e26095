"""QUIC: every mode over it, both libraries, certificates, bad peers and bad paths."""

import collections
import errno
import json
import os
import re
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest

import fakes
import field
import figures
import modes
import pyperf3
import relay
import support
from support import concatenate, openssl

LINUX = sys.platform.startswith("linux")
LATE = 30.0  # seconds that nothing here may take, even on a busy machine
NAMES_PACKAGE = ("iperf3: error - unable to set up QUIC: it takes the Python package qh3, or"
                 " aioquic (python3 -m pip install qh3)\n")
CLOSED = "UDP port %d is closed or filtered, or the server is an iperf3, which has no QUIC\n"
SECRET = r"\A[A-Z0-9_]+ ([0-9a-f]{64}) [0-9a-f]{64,96}\Z"

# Plays a stranger: a QUIC client of our own, at a port, from an address, that goes wrong.
STRANGER = """
import socket, time
kind, port, source = sys.argv[1], int(sys.argv[2]), sys.argv[3]
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((source, 0))
sock.connect(("127.0.0.1", port))
quic = pyperf3.QuicSocket(sock, pyperf3.QuicEnd(pyperf3.quic_library()), ("127.0.0.1", port),
                          b"w" * 36 + b"\\0")
quic.begin()
quic.serve(0)
print("begun", flush=True)
if kind == "silent":
    time.sleep(100)
try:
    if kind == "cookie":
        quic.open()
    while not quic._connected:
        quic.serve(0.01)
    print("connected", flush=True)
    quic.serve(100)
except OSError as error:
    print("ended: %s" % error.strerror, flush=True)
"""


class Case(support.ServerCase):
    """A test with a server that speaks QUIC."""

    def serve(self, *arguments, **more):
        more.setdefault("program", support.with_quic())
        return support.ServerCase.serve(self, *arguments, **more)

    def client(self, port, *arguments, **more):
        program = more.pop("program", None) or support.with_quic()
        return support.run(tuple(program) + ("-c", more.pop("host", "127.0.0.1"), "-p", port)
                           + arguments, **more)

    def honest(self, port, *arguments, **more):
        """Run a QUIC test that must be whole; returns its document."""
        left = self.client(port, "--quic", "-n", "1M", "-J", *arguments, **more)
        self.assertEqual((left.code, left.err), (0, ""), left.out)
        end = left.json()["end"]
        sent, received = end["sum_sent"]["bytes"], end["sum_received"]["bytes"]
        if "-P" in arguments:  # streams share it, and end with whole blocks
            self.assertGreaterEqual(received, 1 << 20)
            self.assertGreaterEqual(sent, received)
        elif "--bidir" in arguments:  # which ends with the direction that is through first
            other = end["sum_received_bidir_reverse"]["bytes"]
            self.assertGreaterEqual(max(received, other), 1 << 20)
            self.assertEqual(sent, received)
        else:
            self.assertEqual((sent, received), (1 << 20,) * 2)
        return left.json()

    def holdings(self):
        """Return how many descriptors and children the server has."""
        return support.descriptors(self.server.pid), len(support.children(self.server.pid))

    def assertNothingLeaks(self, before):
        if LINUX:
            support.wait_until(lambda: self.holdings() <= before, (before, self.holdings))

    def assertOneLine(self, left, text):
        """See that a client has ended with one line, after that about what its server said."""
        self.assertEqual(left.code, 1, left)
        self.assertRegex(left.err, r"\A(iperf3: SERVER ERROR - (.+)\niperf3: error - \2\n"
                                   r"|iperf3: error - .+\n)\Z")
        self.assertIn(text, left.err)


class Modes(Case):
    """--quic does what TCP does."""

    def check_all(self, port, cases, count, program=None, library="qh3"):
        """Run tests, some at a time, and check each."""
        for (words,), left in support.together(
                lambda words: self.client(port, "--quic", "-J", *words.split(), program=program),
                [(words,) for words in cases], count):
            with self.subTest(words=words):
                self.check(left, words, library)

    def check(self, left, words, library):
        self.assertEqual((left.code, left.err), (0, ""), left.out)
        document, options = left.json(), words.split()
        start, end = document["start"], document["end"]
        self.assertEqual(start["test_start"]["protocol"], "QUIC")
        streams = (3 if "-P" in options else 1) * (2 if "--bidir" in options else 1)
        self.assertEqual(len(start["connected"]), streams)
        self.assertEqual(len(set(each["local_port"] for each in start["connected"])), streams)
        own = end["pyperf3"]
        self.assertRegex(own["quic"]["library"], r"\A%s \d" % library)
        self.assertIs(own["quic"]["verified"], False)
        self.assertIsInstance(own["cpu_bound"], list)
        self.assertEqual(len(own["quic_streams"]), streams)
        senders = [stream["sender"]["sender"] for stream in end["streams"]]
        for row, sender in zip(own["quic_streams"], senders):
            self.assertGreater(row["connect_seconds"], 0)
            self.assertGreaterEqual(row["first_byte_seconds"], row["connect_seconds"])
            self.assertGreater(row["packets_sent"], 0)
            self.assertEqual("packets_lost" in row, library == "qh3" and sender)
            self.assertIn(row["datagram_size"], range(1200, 65508))
            if library == "aioquic" or "-M" in options:
                self.assertEqual(row["datagram_size"], 1200)
        for interval in document["intervals"]:
            for row in interval["streams"]:
                self.assertGreaterEqual(row["pyperf3"]["packets_sent"], 0)
                self.assertEqual("packets_lost" in row["pyperf3"],
                                 library == "qh3" and row["sender"])
        for suffix in ("", "_bidir_reverse") if "--bidir" in options else ("",):
            sent, received = (end["sum_%s%s" % (which, suffix)]["bytes"]
                              for which in ("sent", "received"))
            self.assertGreater(received, 0)
            if "-O" not in options:  # the ends leave out what each had then
                self.assertGreaterEqual(sent, received)
        for stream in end["streams"]:  # numbered by the server as they came, they were exchanged
            if "-O" not in options:
                self.assertGreaterEqual(stream["sender"]["bytes"], stream["receiver"]["bytes"])
            self.assertGreater(stream["receiver"]["bytes"], 0)
            # Headers and acknowledgements are not in it.
            if not suffix and "-R" not in options:
                room = sum(row["packets_sent"] * row["datagram_size"]
                           for row in own["quic_streams"])
                self.assertGreater(room, sent if "-O" in options else received)
        if "-n" in options:
            for which in ("sum_sent", "sum_received"):
                self.assertIn(end[which]["bytes"] - (3 << 20),
                              range((streams - 1) * 131072 + 1))
        if "-k" in options:
            self.assertEqual((end["sum_sent"]["bytes"], end["sum_received"]["bytes"]),
                             (10 * 131072,) * 2)
        if "-b" in options:
            self.assertLess(end["sum_sent"]["bytes"], 2000000)
        if "-O" in options:
            self.assertIs(document["intervals"][0]["streams"][0]["omitted"], True)
            self.assertIs(document["intervals"][-1]["streams"][0]["omitted"], False)
        if "-i" in options:
            self.assertGreater(len(document["intervals"]), 2)
        if "-l" in options:
            self.assertEqual(start["test_start"]["blksize"], 1000)
        if "-w" in options:
            self.assertEqual(start["sock_bufsize"], 65536)
        if "-S" in options:
            self.assertEqual(start["test_start"]["tos"], 184)
        if "--get-server-output" in options:
            self.assertIn("\nQUIC on ", document["server_output_text"])
        return document

    def test_all(self):
        port = self.serve("--max-clients", "8")
        before = self.holdings()
        self.check_all(port, modes.inside(modes.QUIC), 4)
        self.assertEqual(self.server.err(), "")
        self.assertNothingLeaks(before)

    def test_all_by_the_other_library(self):
        program = support.with_quic("qh3")
        port = self.serve("--max-clients", "8", program=program)
        self.check_all(port, modes.inside(modes.OTHER_QUIC), 3, program, "aioquic")
        self.assertEqual(self.server.err(), "")

    def test_version_6(self):
        if not figures.has_ipv6():
            raise unittest.SkipTest("no IPv6 here")
        port = self.serve()
        for arguments in (("-6",), ("-R",)):
            document = self.honest(port, *arguments, host="::1")
            self.assertEqual(document["start"]["connected"][0]["remote_host"], "::1")

    def test_events(self):
        port = self.serve("--json-stream")
        left = self.client(port, "--quic", "--json-stream", "-t", "1")
        self.assertEqual((left.code, left.err), (0, ""))
        self.server.wait_for('"event":"end"')
        for text, server in ((left.out, False), (self.server.out(), True)):
            events = [json.loads(line) for line in text.split("\n")[:-1]]
            names = [event["event"] for event in events]
            self.assertEqual((names[0], names[-1]), ("start", "end"))
            own = events[-1]["data"]["pyperf3"]
            self.assertEqual(len(own["quic_streams"]), 1)
            self.assertEqual("connect_seconds" in own["quic_streams"][0], not server)
            self.assertGreater(own["quic_streams"][0]["packets_sent"], 0)
            row = events[names.index("interval")]["data"]["streams"][0]
            self.assertGreater(row["pyperf3"]["packets_sent"], 0)

    def test_text(self):
        port = self.serve()
        left = self.client(port, "--quic", "-t", "1", "-P", "2")
        self.assertEqual((left.code, left.err), (0, ""))
        self.assertRegex(left.out, r"\n\[ ID\] Interval +Transfer +Bitrate +Retr +Cwnd\n")
        self.assertRegex(left.out, r"receiver\n\niperf Done\.\n\Z")
        self.assertRegex(left.out, r"\n\[ +\d+\] +0\.00-1\.\d\d +sec .+/sec +\d+ +\S+ [KMG]?Bytes")
        self.assertEqual(len(re.findall(
            r"\nQUIC on \d+: handshake in \d+\.\d{3} ms, first byte after \d+\.\d{3} ms,"
            r" \d+ packets sent, \d+ lost, datagrams of \d+ bytes(?=\n)", left.out)), 2, left.out)
        self.server.wait_for("(test #2)")
        self.assertEqual(len(re.findall(r"\nQUIC on \d+: \d+ packets sent, datagrams of \d+ bytes"
                                        r"(?=\n)", self.server.out())), 2)
        left = self.client(port, "-n", "1M")
        self.assertNotIn("QUIC", left.out)

    def test_text_of_the_other_library_has_no_losses(self):
        program = support.with_quic("qh3")
        port = self.serve(program=program)
        left = self.client(port, "--quic", "-t", "1", program=program)
        self.assertEqual((left.code, left.err), (0, ""))
        self.assertNotIn("Retr", left.out)
        self.assertRegex(left.out, r"\nQUIC on \d+: handshake in \S+ ms, first byte after \S+"
                                   r" ms, \d+ packets sent, datagrams of 1200 bytes\n")

    def test_file(self):
        folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        there, here = os.path.join(folder, "there"), os.path.join(folder, "here")
        data = os.urandom(1000000)
        with open(here, "wb") as file:
            file.write(data)
        for program in (support.with_quic(), support.with_quic("qh3")):
            port = self.serve("-F", there, program=program)
            left = self.client(port, "--quic", "-F", here, program=program)
            self.assertEqual((left.code, left.err), (0, ""))
            with open(there, "rb") as file:
                self.assertEqual(file.read(), data)
            os.remove(there)
        port = self.serve("-F", here)
        for until in (("-n", "1000000"), ("-t", "50")):  # whichever ends first
            left = self.client(port, "--quic", "-R", "-F", there, *until)
            self.assertEqual((left.code, left.err), (0, ""))
            with open(there, "rb") as file:
                self.assertEqual(file.read(), data)
            os.remove(there)

    @unittest.skipUnless(hasattr(os, "mkfifo"), "no named pipes here")
    def test_pipes(self):
        folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        names = there, here = os.path.join(folder, "there"), os.path.join(folder, "here")
        data = os.urandom(1000000)
        for name in names:
            os.mkfifo(name)

        def write():
            with open(here, "wb") as file:
                file.write(data)

        def read():
            with open(there, "rb") as file:
                got.append(file.read())
        for program in (support.with_quic(), support.with_quic("qh3")):
            got, ends = [], [threading.Thread(target=each, daemon=True) for each in (write, read)]
            for each in ends:
                each.start()
            port = self.serve("-1", "-F", there, program=program)
            left = self.client(port, "--quic", "-F", here, program=program)
            self.assertEqual((left.code, left.err), (0, ""))
            for each in ends:
                each.join(20.0)
            self.assertEqual(got, [data])

    def test_ports_of_its_own(self):
        port, own = self.serve(), support.free_port()
        document = self.honest(port, "--cport", str(own), "-P", "2", "-B", "127.0.0.1")
        self.assertEqual([each["local_port"] for each in document["start"]["connected"]],
                         [own, own + 1])

    def test_one_off_and_loopback(self):
        left, other = support.run_pair(support.with_quic(), support.with_quic(),
                                       ("--quic", "-n", "1M"))
        self.assertEqual((left.code, left.err, other.code, other.err), (0, "", 0, ""))
        left = support.run(support.with_quic() + ("--loopback", "--quic", "-n", "1M"))
        self.assertEqual((left.code, left.err), (0, ""))
        self.assertIn("\nQUIC on ", left.out)

    def test_control_inside_tls(self):
        port = self.serve("--tls-only")
        document = self.honest(port, "--tls")
        own = document["end"]["pyperf3"]
        self.assertIn("version", own["tls"])
        self.assertIn("library", own["quic"])
        self.assertEqual(self.server.err(), "")

    def test_several_clients_and_protocols(self):
        port = self.serve("--max-clients", "4")
        before = self.holdings()
        clients = [(words,) for words in (
            "--quic -n 1M", "-u -n 1M -b 50M", "-n 1M", "--quic -n 1M -R", "--quic -t 1 -P 2",
            "-u -t 1 -R", "--quic -t 1 --bidir", "-t 1 -R", "--quic -n 1M --tls")]
        for (words,), left in support.together(
                lambda words: self.client(port, "-J", *words.split()), clients):
            self.assertEqual((left.code, left.err), (0, ""), (words, left.out))
            self.assertGreater(left.json()["end"]["sum_received"]["bytes"], 0)
            self.assertEqual(left.json()["start"]["test_start"]["protocol"],
                             "QUIC" if "--quic" in words else "UDP" if "-u" in words else "TCP")
        self.assertEqual(self.server.err(), "")
        self.assertNothingLeaks(before)


class Libraries(Case):
    """qh3 and aioquic, one without the other, and against each other."""

    def test_one_against_the_other(self):
        qh3, aioquic = support.with_quic("aioquic"), support.with_quic("qh3")
        for client, server, repeated in ((qh3, aioquic, False), (aioquic, qh3, True)):
            port = self.serve(program=server)
            for more in ((), ("-R",), ("-P", "2"), ("--threads",)):
                with self.subTest(client=client, more=more):
                    self.honest(port, *more, program=client)
            if repeated:
                self.server.wait_for_error("the QUIC handshake of stream 1 was repeated: qh3: ")
                for line in self.server.err().split("\n")[:-1]:
                    self.assertRegex(
                        line, r"\A(iperf3: )?warning: the QUIC handshake of stream [12] was"
                              r" repeated: qh3: .+\Z")
            else:
                self.assertEqual(self.server.err(), "")

    def test_none_at_the_client(self):
        port = self.serve()
        for program in (support.with_quic("qh3,aioquic"), support.without("qh3,aioquic")):
            left = self.client(port, "--quic", program=program)
            self.assertEqual((left.code, left.out), (1, ""), left)
            self.assertEqual(left.err.split("\n", 1)[0] + "\n", NAMES_PACKAGE)
            self.assertNotIn("Traceback", left.err)
            self.assertEqual(self.client(port, "-n", "1M", program=program).code, 0)
            left = self.client(port, "--quic", "-J", program=program)
            self.assertEqual(left.code, 1)
            self.assertIn("takes the Python package qh3", left.out + left.err)  # not in silence
        self.assertEqual(self.server.err(), "")

    def test_none_at_the_server(self):
        port = self.serve(program=support.with_quic("qh3,aioquic"))
        for count in (1, 2):
            left = self.client(port, "--quic", "-t", "1")
            self.assertOneLine(left, "unable to set up QUIC")
            self.server.wait_for_error(NAMES_PACKAGE, count)
            for more in ((), ("-u",), ("--tls",)):
                left = self.client(port, "-n", "100K", *more)
                self.assertEqual((left.code, left.err), (0, ""))

    def test_not_imported_without_need(self):
        """A program without --quic has no use for a library that is slow to begin or broken."""
        left = support.run(support.quic_code(
            "status = pyperf3.main(['pyperf3', '--loopback', '-n', '1M'])\n"
            "sys.exit(status or any(name.split('.')[0] in ('qh3', 'aioquic', 'cryptography')"
            " for name in sys.modules))"))
        self.assertEqual((left.code, left.err), (0, ""))

    def test_broken_installation(self):
        folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        for name in ("qh3", "aioquic"):
            with open(os.path.join(folder, name + ".py"), "w") as file:
                file.write("raise RuntimeError('broken')\n")
        left = support.run(support.OURS + ("-c", "127.0.0.1", "--quic"),
                           env=support.environment(PYTHONPATH=folder))
        self.assertEqual((left.code, left.err.split("\n", 1)[0] + "\n"), (1, NAMES_PACKAGE))
        self.assertNotIn("Traceback", left.err)

    def test_choice_of_congestion_control(self):
        port = self.serve()
        for name in ("reno", "cubic"):
            own = self.honest(port, "-C", name)["end"]["pyperf3"]
            self.assertRegex(own["quic"]["library"], r"\Aaioquic ")
        left = self.client(port, "--quic", "-C", "bogus", "-t", "1")
        self.assertEqual((left.code, left.out), (1, ""), left)
        self.assertRegex(left.err.split("\n", 1)[0], r"\Aiperf3: error - unable to set up QUIC: .*"
                                                     r"bogus")
        self.assertNotIn("Traceback", left.err)
        for option in (("-C", "reno"), ("--quic-iw", "20")):
            left = self.client(port, "--quic", *option, program=support.with_quic("aioquic"))
            self.assertEqual((left.code, left.out), (1, ""), left)
            self.assertTrue(left.err.startswith(
                "iperf3: error - unable to set up QUIC: the package qh3 has no choice of"
                " congestion control: -C and --quic-iw take aioquic (python3 -m pip install"
                " aioquic)\n"), left.err)
        self.assertEqual(self.server.err(), "")

    def test_choice_that_the_server_does_not_have(self):
        port = self.serve(program=support.with_quic("aioquic"))
        left = self.client(port, "--quic", "-C", "reno", "-n", "1M", "-R")
        self.assertEqual(left.code, 0, left)
        self.server.wait_for_error("the package qh3 has no choice of congestion control")

    def test_initial_window(self):
        left = support.run(support.quic_code(
            "for count in (0, 40):\n"
            "    end = pyperf3.QuicEnd(pyperf3.quic_library(True), initial_window=count)\n"
            "    print(end.connection()._loss.congestion_window)"))
        default, chosen = map(int, left.out.split())
        self.assertLess(default, chosen)
        self.assertEqual(chosen % 40, 0)
        self.assertIn(chosen // 40, range(1200, 1500))

    def test_secrets(self):
        folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        for number, gone in enumerate(("aioquic", "qh3")):
            program = support.with_quic(gone)
            here, there = (os.path.join(folder, name + str(number)) for name in ("here", "there"))
            with open(here, "w") as file:
                file.write("# kept\n")
            port = self.serve("--quic-secrets", there, program=program)
            for count in (1, 2):
                self.honest(port, "--quic-secrets", here, "-P", "2", program=program)
                with open(here) as file, open(there) as other:
                    lines, theirs = file.read().split("\n"), other.read().split("\n")
                self.assertEqual((lines.pop(0), lines.pop(), theirs.pop()), ("# kept", "", ""))
                for line in lines + theirs:
                    self.assertRegex(line, SECRET)
                self.assertEqual(sorted(lines), sorted(theirs))
                for label in ("CLIENT", "SERVER"):
                    label += "_TRAFFIC_SECRET_0 "
                    self.assertEqual(sum(line.startswith(label) for line in lines), 2 * count)
            left = self.client(port, "--quic", "--quic-secrets", folder, program=program)
            self.assertEqual(left.code, 1)
            self.assertTrue(left.err.startswith(
                "iperf3: error - unable to set up QUIC: %s: Is a directory\n" % folder), left.err)


class Certificates(Case):
    """--tls-cert, --tls-key, --tls-ca with --quic."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        cls.authority, cls.stranger = cls.path("authority"), cls.path("stranger")
        try:
            for path in (cls.authority, cls.stranger):
                openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", path + ".key",
                        "-out", path, "-subj", "/CN=authority", "-days", "2")
            cls.good, cls.other = (cls.sign(name, names) for name, names in (
                ("good", "IP:127.0.0.1,DNS:localhost"), ("other", "DNS:other")))
        except BaseException:
            cls.tearDownClass()
            raise
        cls.key, cls.both = cls.good + ".key", cls.path("both")
        concatenate(cls.both, cls.key, cls.good)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def sign(cls, name, names):
        """Make a certificate of the authority for these names; returns its file."""
        path = cls.path(name)
        with open(path + ".extensions", "w") as file:
            file.write("subjectAltName=%s\nbasicConstraints=CA:FALSE\n" % names)
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", path + ".key", "-out",
                path + ".request", "-subj", "/CN=test")
        openssl("x509", "-req", "-in", path + ".request", "-CA", cls.authority, "-CAkey",
                cls.authority + ".key", "-CAcreateserial", "-days", "2", "-extfile",
                path + ".extensions", "-out", path)
        return path

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, True)

    def test_verified(self):
        for files in (("--tls-cert", self.good, "--tls-key", self.key), ("--tls-cert", self.both)):
            for gone in ("aioquic", "qh3"):
                with self.subTest(files=files, gone=gone):
                    program = support.with_quic(gone)
                    port = self.serve(*files, program=program)
                    document = self.honest(port, "--tls-ca", self.authority, program=program)
                    own = document["end"]["pyperf3"]
                    self.assertIs(own["quic"]["verified"], True)
                    self.assertNotIn("tls", own)
                    self.honest(port, "--tls-ca", self.authority, "-4", host="localhost",
                                program=program)
                    self.assertEqual(self.server.err(), "")

    def test_wrong_authority_name_or_none(self):
        cases = [(gone, files, authority) for gone in ("aioquic", "qh3")
                 for files, authority in (
                     (("--tls-cert", self.good, "--tls-key", self.key), self.stranger),
                     (("--tls-cert", self.other, "--tls-key", self.other + ".key"),
                      self.authority), ((), self.authority))]

        def refused(gone, files, authority):
            program = support.with_quic(gone)
            server, port = support.start_server(program, *files)
            with server:
                began = time.monotonic()
                left = self.client(port, "--quic", "--tls-ca", authority, "-n", "1M",
                                   program=program)
                took = time.monotonic() - began
                after = self.client(port, "--quic", "-n", "1M", program=program)
                server.signal()
                return left, took, after, server.finish(20.0)
        for case, (left, took, after, server) in support.together(refused, cases):
            with self.subTest(case=case):
                self.assertEqual(left.code, 1)
                self.assertOneLine(left, "QUIC stream 1 of 1: ")
                self.assertNotIn("filtered", left.err)  # which it is not
                self.assertLess(took, LATE)
                self.assertEqual((after.code, after.err), (0, ""))
                self.assertEqual(server.code, 0)
                self.assertRegex(server.err, r"\A(iperf3: error - .+\n)?iperf3: interrupt - .+\n\Z")

    def test_files_of_no_use(self):
        port = self.serve()
        for path, text in (("/no/such/file", "No such file or directory"),
                           (support.__file__, "there is no certificate (PEM) in it")):
            left = self.client(port, "--quic", "--tls-ca", path, "-n", "1M")
            self.assertEqual((left.code, left.err), (
                1, "iperf3: error - unable to set up QUIC: %s: %s\n" % (path, text)))
        self.honest(port)
        port = self.serve("--tls-cert", self.good, "--tls-key", self.key)
        self.honest(port, "--tls", "--tls-ca", self.authority)


# Begins a connection from an address, and says no more; prints the bytes that went and came.
SPOOFED = """
import socket, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[2], 0))
sock.settimeout(0.1)
place = ("127.0.0.1", int(sys.argv[1]))
connection = pyperf3.QuicEnd(pyperf3.quic_library()).connection()
connection.connect(place, time.monotonic())
sent = came = 0
for data, _ in connection.datagrams_to_send(time.monotonic()):
    sent += sock.sendto(data, place)
end = time.monotonic() + 3.0
while time.monotonic() < end:
    try:
        came += len(sock.recv(65536))
    except OSError:
        pass
print(sent, came)
"""


class BadPeers(Case):
    """Strangers, garbage, and ends that die or stop."""

    def stranger(self, kind, port, source="127.0.0.1"):
        program = support.Program(support.quic_code(STRANGER) + (kind, port, source))
        self.addCleanup(program.__exit__)
        return program

    def pelt(self, port, data, source="127.0.0.1"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((source, 0))
            for each in data:
                try:
                    sock.sendto(each, ("127.0.0.1", port))
                except OSError:  # its host says that the port is closed
                    pass

    def garbage(self):
        """Return datagrams: noise, and what looks like the first of a connection."""
        noise = [os.urandom(size) for size in (0, 1, 4, 20, 1199, 1200, 1400, 9000) * 4]
        initials = [b"\xc0\0\0\0\1" + struct.pack("!B", size) + os.urandom(1300)
                    for size in (0, 8, 20, 21, 255)]
        return noise + initials + [b"\xc0" + b"\0" * 1199, b"\xff" * 1500, b"\xc3" * 60000]

    def test_garbage_before_and_between_tests(self):
        port = self.serve()
        self.honest(port)
        before = self.holdings()
        for source in ("127.0.0.1", "127.0.0.2"):
            self.pelt(port, self.garbage(), source)
            self.honest(port)
        self.assertEqual(self.server.err(), "")
        self.assertNothingLeaks(before)

    def test_garbage_of_others_during_the_set_up(self):
        """They are not where the control connection comes from: nothing of theirs counts."""
        port = self.serve()
        self.honest(port)
        with support.Program((sys.executable, "-c", FLOOD, port, "127.0.0.2")) as flood:
            flood.wait_for("begun")
            for more in ((), ("-P", "3"), ("-R",)):
                self.honest(port, *more)
        self.assertEqual(self.server.err(), "")

    def test_first_datagram_of_somebody_else(self):
        """An address that did not prove itself gets three times what it sent (RFC 9000, 8.1)."""
        for mode in ({}, {"reverse": True}):
            for source in ("127.0.0.1", "127.0.0.2"):
                # A place each: the server may not have seen yet that the last client went.
                port = self.serve("--max-clients", "8", program=support.with_quic())
                control, _ = fakes.set_up(port, protocol="QUIC", time=1, **mode)
                with control:
                    left = support.run(support.quic_code(SPOOFED) + (port, source))
                sent, came = map(int, left.out.split())
                if source == "127.0.0.2" and mode:
                    self.assertEqual(came, 0)
                self.assertLessEqual(came, 3 * sent)

    def test_noise_of_the_clients_address(self):
        """What is no first datagram of QUIC disturbs nothing."""
        port = self.serve()
        self.honest(port)
        with support.Program((sys.executable, "-c", FLOOD, port, "127.0.0.1", "noise")) as flood:
            flood.wait_for("begun")
            for more in ((), ("-P", "3"), ("-R",)):
                self.honest(port, *more)
        self.assertEqual(self.server.err(), "")

    def test_garbage_inside_the_connections(self):
        """Spoofed datagrams, from the very ports: both libraries, both ways."""
        for gone in ("aioquic", "qh3"):
            program = support.with_quic(gone)
            port = self.serve(program=program)

            def rule(way, flow, number, data):
                return [data] + [each for each in (
                    os.urandom(number % 1400), b"\x40" + os.urandom(60),
                    b"\xc0\0\0\0\1\x08" + os.urandom(1250), b"\xff" * 100) if number % 5 == 1]
            with relay.Relay(port, rule) as path:
                for more in ((), ("-R",)):
                    with self.subTest(gone=gone, more=more):
                        self.honest(path.port, *more, program=program)
            self.assertEqual(self.server.err(), "")

    def test_no_handshake_or_no_cookie(self):
        """From the client's address: its test fails soon, and the next one does not."""
        def without_end(kind):
            server, port = support.start_server(support.with_quic())
            with server:
                self.honest(port)
                before = support.descriptors(server.pid) if LINUX else 0
                control, _ = fakes.set_up(port, protocol="QUIC", time=1)
                with control:
                    control.settimeout(LATE)
                    if kind == "garbage":
                        self.pelt(port, self.garbage())
                    else:
                        self.stranger(kind, port).wait_for(
                            "begun" if kind == "silent" else "connected")
                    answer = control.recv(1)
                self.honest(port)
                self.assertEqual(self.client(port, "-n", "1M").code, 0)
                support.wait_until(lambda: not LINUX or (
                    support.descriptors(server.pid) <= before
                    and not support.children(server.pid)), "no leak")
                server.signal()
                return answer, server.finish(LATE)
        for (kind,), (answer, left) in support.together(without_end, [
                ("garbage",), ("silent",), ("mute",)]):
            with self.subTest(kind=kind):
                self.assertEqual(answer, b"\xfe")
                self.assertEqual(left.code, 0)
                self.assertRegex(left.err, r"\Aiperf3: error - unable to accept stream connection:"
                                           r" .+\niperf3: interrupt - .+\n\Z")

    def test_wrong_cookie(self):
        port = self.serve()
        self.honest(port)
        before = self.holdings()
        control, _ = fakes.set_up(port, protocol="QUIC", time=1)
        with control:
            control.settimeout(LATE)
            self.stranger("cookie", port)
            self.assertEqual(control.recv(1), b"\xfe")
        self.server.wait_for_error("QUIC stream 1 of 1: the connection is another test's\n")
        self.assertEqual(self.server.err().count("\n"), 1)
        self.honest(port)
        self.assertNothingLeaks(before)

    def test_client_that_goes_away_during_the_set_up(self):
        port = self.serve()
        self.honest(port)
        before = self.holdings()
        for count in (1, 2, 3):
            fakes.set_up(port, protocol="QUIC", time=1)[0].close()
            self.server.wait_for_error("\n", count)
        self.honest(port)
        self.assertEqual(self.client(port, "-n", "1M").code, 0)
        self.assertNothingLeaks(before)

    def running(self, port, *arguments, **more):
        """Start a long QUIC test and return the client once data flows."""
        client = support.Program(support.with_quic() + (
            "-c", "127.0.0.1", "-p", port, "--quic", "-t", "60", "-i", "0.2", "--forceflush")
            + arguments)
        self.addCleanup(client.__exit__)
        client.wait_for("/sec", count=2)
        return client

    def test_client_killed(self):
        port = self.serve()
        self.honest(port)
        before = self.holdings()
        for count, more in enumerate(((), ("-R", "-P", "2"), ("--bidir",), ("--threads",)), 1):
            client = self.running(port, *more)
            workers = support.children(client.pid) if LINUX else []
            client.signal(signal.SIGKILL)
            self.server.wait_for_error("\n", count)
            self.honest(port)
            self.assertEqual(self.client(port, "-n", "1M").code, 0)
            support.wait_until(lambda: not any(
                os.path.exists("/proc/%d" % pid) for pid in workers), "the end of the workers")
        for line in self.server.err().split("\n")[:-1]:
            self.assertEqual(line, "iperf3: the client has unexpectedly closed the connection")
        self.assertNothingLeaks(before)

    def test_client_interrupted(self):
        port = self.serve()
        client = self.running(port)
        client.signal(signal.SIGINT)
        left = client.finish(LATE)
        self.assertEqual(left.err, "iperf3: interrupt - the client has terminated by signal"
                                   " Interrupt(2)\n")
        self.assertRegex(left.out, r"\nQUIC on \d+: handshake in ")
        self.server.wait_for_error("the client has terminated\n")
        self.honest(port)

    def test_client_stopped(self):
        port = self.serve("--rcv-timeout", "1000")
        self.honest(port)
        before = self.holdings()
        client = self.running(port)
        stopped = [client.pid] + (support.children(client.pid) if LINUX else [])
        try:
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            self.server.wait_for_error("iperf3: error - idle timeout for receiving data\n")
            self.honest(port)
            self.assertNothingLeaks(before)
        finally:
            for pid in reversed(stopped):
                os.kill(pid, signal.SIGCONT)
        left = client.finish(LATE)
        self.assertOneLine(left, "error - ")

    def test_server_killed(self):
        for more in ((), ("-R",), ("--bidir", "--threads")):
            with self.subTest(more=more):
                server, port = support.start_server(support.with_quic())
                with server:
                    client = self.running(port, *more)
                    workers = support.children(client.pid) if LINUX else []
                    server.signal(signal.SIGKILL)
                    left = client.finish(LATE)
                self.assertOneLine(left, "control socket has closed unexpectedly")
                support.wait_until(lambda: not any(
                    os.path.exists("/proc/%d" % pid) for pid in workers), "the end of the workers")

    def test_server_ended(self):
        server, port = support.start_server(support.with_quic())
        with server:
            client = self.running(port)
            server.signal(signal.SIGTERM)
            left = client.finish(LATE)
            self.assertOneLine(left, "the server has terminated")
            self.assertNotIn("Traceback", server.finish(LATE).err)


# Floods a port from an address, with everything or with what is no beginning of QUIC.
FLOOD = r"""
import os, socket, sys, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[2], 0))
data = [os.urandom(size) for size in (0, 1, 5, 100, 1199)] + [b"\x40" * 1400]
if len(sys.argv) < 4:
    data += [b"\xc0\0\0\0\1\x08" + os.urandom(1300), b"\xff" * 1500, b"\xc0" * 1200]
print("begun", flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    for each in data:
        try:
            sock.sendto(each, ("127.0.0.1", int(sys.argv[1])))
        except OSError:
            pass
    time.sleep(0.001)
"""



class Moments(Case):
    """Starts and ends that come at bad moments."""

    def patched(self, code):
        """Return the command of the program with some code run before it."""
        return support.quic_code("import time\n%s\nsys.exit(pyperf3.main())" % code)

    def test_start_that_came_late_ended_the_stream(self):
        """What came before the start was too much, and taken for an attack."""
        late = self.patched("real = pyperf3.Test.open_gate\n"
                            "def late(self):\n"
                            "    time.sleep(0.7)\n"
                            "    real(self)\n"
                            "pyperf3.Test.open_gate = late")
        left = self.client(self.serve(), "--quic", "-R", "-t", "4", "-J", program=late)
        self.assertEqual((left.code, left.err), (0, ""), left)
        rows = [interval["sum"]["bytes"] for interval in left.json()["intervals"]]
        self.assertGreater(min(rows[1:4]), 0, rows)

    def test_connection_that_broke_was_a_clean_end(self):
        code = ("real, count = pyperf3.QuicSocket.send, [0]\n"
                "def send(self, data):\n"
                "    count[0] += 1\n"
                "    if count[0] == 50:\n"
                "        self._connection.close(error_code=9, reason_phrase='gone\\x1b')\n"
                "    return real(self, data)\n"
                "pyperf3.QuicSocket.send = send")
        left = self.client(self.serve(program=self.patched(code)), "--quic", "-R", "-t", "30")
        self.assertEqual(left.code, 1, left)
        self.assertRegex(left.err, r"stream socket: (gone\S*|Broken pipe)\n")


class Paths(Case):
    """What is between the ends, or is no server of ours."""

    def test_losses(self):
        """Two of a hundred datagrams are lost each way, and the data arrives whole."""
        folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        here, there = os.path.join(folder, "here"), os.path.join(folder, "there")
        data = os.urandom(2 << 20)
        with open(here, "wb") as file:
            file.write(data)
        for gone in ("aioquic", "qh3"):
            program = support.with_quic(gone)
            port = self.serve("-F", there, program=program)
            with relay.Relay(port, relay.lossy(drop=50, swap=37, double=41)) as path:
                left = self.client(path.port, "--quic", "-F", here, "-J", program=program)
            self.assertEqual((left.code, left.err), (0, ""), left.out)
            end = left.json()["end"]
            self.assertEqual((end["sum_sent"]["bytes"], end["sum_received"]["bytes"]),
                             (len(data),) * 2)
            with open(there, "rb") as file:
                self.assertEqual(file.read(), data)
            if gone == "aioquic":
                row, = end["pyperf3"]["quic_streams"]
                self.assertGreater(row["packets_lost"], 0)
                self.assertLess(row["packets_lost"], row["packets_sent"])
                self.assertEqual(end["sum_sent"]["retransmits"], row["packets_lost"])

    def test_losses_backwards(self):
        port = self.serve()
        with relay.Relay(port, relay.lossy(drop=50)) as path:
            self.honest(path.port, "-R", "-P", "2")
        self.assertEqual(self.server.err(), "")

    def test_first_datagrams_lost(self):
        """A handshake is repeated until it is through."""
        port = self.serve()
        for first in (1, 2):
            with relay.Relay(port, relay.lossy(first=first)) as path:
                self.honest(path.port)
        self.assertEqual(self.server.err(), "")

    def test_datagrams_filtered(self):
        """The control connection goes through, nothing else: soon the client says so."""
        def filtered(*ways):
            server, port = support.start_server(support.with_quic())
            with server, relay.Relay(port, lambda way, flow, number, data: (
                    [] if way in ways else [data])) as path:
                began = time.monotonic()
                left = self.client(path.port, "--quic")
                took = time.monotonic() - began
                self.honest(port)
                support.wait_until(lambda: not LINUX or not support.children(server.pid),
                                   "the end of the workers")
                return left, took
        for ways, (left, took) in support.together(filtered, [
                (relay.FORTH,), (relay.BACK,), (relay.FORTH, relay.BACK)]):
            with self.subTest(ways=ways):
                self.assertOneLine(left, "filtered")
                self.assertIn("QUIC stream 1 of 1: ", left.err)
                self.assertLess(took, LATE)

    def test_filtered_in_the_middle(self):
        """Once data has flowed nothing comes any more: both ends get over it."""
        port = self.serve("--rcv-timeout", "1000")
        with relay.Relay(port, lambda way, flow, number, data: [data] if number < 500 else []
                         ) as path:
            left = self.client(path.port, "--quic", "-t", "8")
        self.assertNotIn("Traceback", left.err)
        self.assertOneLine(left, "idle timeout for receiving data")
        self.honest(port)

    def test_server_that_is_no_pyperf3(self):
        port = self.serve(program=support.real("3.22"))
        for more in ((), ("-R",), ("-P", "2"), ("--bidir",)):
            left = self.client(port, "--quic", "-t", "1", *more)
            self.assertOneLine(left, CLOSED % port)
            self.assertNotIn("receiver", left.out)
        left = self.client(port, "-n", "1M")
        self.assertEqual((left.code, left.err), (0, ""))


class Options(unittest.TestCase):
    """The command line, and the document that the client sends."""

    def test_refused_combinations(self):
        for option in ("-u", "--sctp", "-Z", "--skip-rx-copy", "-m", "--connect-only"):
            left = support.run(support.OURS + ("-c", "127.0.0.1", "--quic", option))
            self.assertEqual((left.code, left.out), (1, ""))
            self.assertTrue(left.err.startswith(
                "iperf3: parameter error - --quic cannot be combined with: %s\n" % option),
                left.err)

    def refused(self, line):
        with self.assertRaises(pyperf3.IperfError) as caught:
            pyperf3.Settings.from_arguments(line.split())
        return caught.exception.number, str(caught.exception)

    def test_what_goes_with_what(self):
        for words in ("--quic-iw 10", "--quic-secrets file"):
            number, text = self.refused("-c h " + words)
            self.assertEqual(number, 905)
            self.assertTrue(text.endswith(words.split()[0] + " goes with --quic"), text)
            pyperf3.Settings.from_arguments(("-c h --quic " + words).split())
        pyperf3.Settings.from_arguments("-s --quic-secrets file".split())
        for words in ("-c h --quic --quic-iw 0", "-c h --quic --quic-iw 10001"):
            self.assertEqual(self.refused(words)[0], 907)
        for words in ("-s --quic", "-s --quic-iw 10"):
            self.assertIn("client only", self.refused(words)[1])

    def test_authority_means_tls_only_without_quic(self):
        for words, tls in (("--tls-ca f", True), ("--quic --tls-ca f", False),
                           ("--quic --tls-ca f --tls", True)):
            settings = pyperf3.Settings.from_arguments(("-c h " + words).split())
            self.assertIs(bool(settings.tls), tls)

    def test_document(self):
        settings = pyperf3.Settings.from_arguments("-c h --quic --quic-iw 32 -C reno".split())
        document = pyperf3.Parameters.from_settings(settings).to_json()
        self.assertIs(document["quic"], True)
        for key in ("tcp", "udp", "sctp"):
            self.assertNotIn(key, document)
        self.assertEqual((document["pyperf3_quic_iw"], document["congestion"]), (32, "reno"))
        back = pyperf3.Parameters.from_json(document)
        self.assertEqual((back.protocol, back.quic_iw, back.congestion), ("QUIC", 32, "reno"))
        self.assertEqual(pyperf3.Parameters.from_json({"quic": True}).protocol, "QUIC")
        self.assertEqual(pyperf3.Parameters.from_json({"quic": 1}).protocol, "TCP")
        self.assertEqual(pyperf3.Parameters.from_json({"tcp": True}).quic_iw, 0)
        for value in (-1, 10001):
            with self.assertRaises(pyperf3.IperfError):
                pyperf3.Parameters.from_json({"quic": True, "pyperf3_quic_iw": value})

    def test_initial(self):
        for data, wanted in (
                (b"\xc0\0\0\0\1\x08" + b"\0" * 1194, True),
                (b"\xc3\0\0\0\1\x14" + b"\0" * 1294, True),
                (b"\xc3\0\0\0\1\x08" + b"\0" * 1193, False),  # too short
                (b"\xc3\0\0\0\1\x15" + b"\0" * 1294, False),  # too long an identifier
                (b"\xe3\0\0\0\1\x08" + b"\0" * 1194, False),  # a handshake packet
                (b"\x43\0\0\0\1\x08" + b"\0" * 1194, False),  # a short header
                (b"\x80" * 1300, False), (b"\0" * 1300, False), (b"\xff" * 1300, False),
                (b"", False), (b"\xc0", False)):
            self.assertIs(pyperf3.is_quic_initial(data), wanted, data[:8])

    def test_parts_of_pem(self):
        certificate = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
        keys = [b"-----BEGIN %sPRIVATE KEY-----\nMIIE\n-----END %sPRIVATE KEY-----" % (kind, kind)
                for kind in (b"", b"RSA ", b"EC ")]
        for key in keys:
            text = b"text\n" + key + b"\nmore\n" + certificate + b"\n" + certificate + b"\n"
            for pem in (text, text.replace(b"\n", b"\r\n")):
                self.assertEqual(pyperf3.pem_part(pem, b"CERTIFICATE"),
                                 certificate + b"\n" + certificate + b"\n")
                self.assertEqual(pyperf3.pem_part(pem, b"PRIVATE KEY"), key + b"\n")
        self.assertEqual(pyperf3.pem_part(certificate, b"PRIVATE KEY"), b"")
        self.assertEqual(pyperf3.pem_part(b"", b"CERTIFICATE"), b"")


# Events have the names of the libraries'.
StreamDataReceived = collections.namedtuple("StreamDataReceived", "data end_stream stream_id")
HandshakeCompleted = collections.namedtuple("HandshakeCompleted", "")
ConnectionTerminated = collections.namedtuple("ConnectionTerminated", "error_code reason_phrase")


class FakeLibrary:
    """Stands for a QuicEnd and its connections; what a test puts into it comes out."""

    secrets, unread, datagram_size = None, 1000000, 0
    library = pyperf3.QuicLibrary("fake", "1", None, None, None)

    def __init__(self):
        self.due, self.events, self.received, self.queued = [], [], [], []
        self.timer, self.on_timer, self.failure = None, [], None

    def connection(self, first=None, size=0, usual=0):
        return self

    def connect(self, address, now):
        self.connected = address

    def get_timer(self):
        return self.timer

    def handle_timer(self, now):
        self.timer = None
        self.events += self.on_timer

    def datagrams_to_send(self, now):
        if self.failure:
            raise self.failure
        due, self.due = self.due, []
        return [(data, None) for data in due]

    def receive_datagram(self, data, address, now):
        if data.startswith(b"garbage"):
            raise ValueError("garbage")
        self.received.append(data)
        self.events.append(StreamDataReceived(data, False, 0))

    def next_event(self):
        return self.events.pop(0) if self.events else None

    def send_stream_data(self, stream, data, end=False):
        self.queued.append(bytes(data))

    def get_send_buffer_size(self, stream):
        return sum(map(len, self.queued))


class FakeSocket(socket.socket):
    """A UDP socket that keeps what is sent, piece by piece."""

    failure = None

    def send(self, data):
        if self.failure in (errno.ECONNREFUSED, errno.EHOSTUNREACH):
            raise OSError(self.failure, "refused")
        self.pieces.append([bytes(data)])
        return len(data)

    def sendmsg(self, data, ancillary=()):
        if self.failure:
            raise OSError(self.failure, "failed")
        self.pieces.append([bytes(each) for each in data])
        self.sizes.append(struct.unpack("=H", ancillary[0][2])[0])


class Sockets(unittest.TestCase):
    """QuicSocket with a library that only pretends."""

    def setUp(self):
        self.library, self.sock = FakeLibrary(), FakeSocket(socket.AF_INET, socket.SOCK_DGRAM)
        self.far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.sock.close)
        self.addCleanup(self.far.close)
        for sock in (self.sock, self.far):
            sock.bind(("127.0.0.1", 0))
        self.sock.connect(self.far.getsockname())
        self.sock.pieces, self.sock.sizes = [], []
        self.quic = pyperf3.QuicSocket(self.sock, self.library, self.far.getsockname(), b"cookie")
        self.quic.begin()
        self.quic._cuts = True

    def figures(self):
        """Return the QuicFigures that the connection reports."""
        reported = []
        self.quic.report = reported.append
        self.quic.tell(0.0)
        return reported[0]

    def come(self, *data):
        for each in data:
            self.far.sendto(each, self.sock.getsockname())

    def test_pieces_of_datagrams(self):
        """Those of a size go in one call, with a shorter last one, and in order."""
        self.library.due = sizes = [b"a" * 1200] * 3 + [b"b" * 700, b"c" * 1200, b"d" * 1300] + [
            b"e" * 50] * 2 + [b"f" * 60]
        self.quic.serve(0)
        self.assertEqual([[len(each) for each in piece] for piece in self.sock.pieces],
                         [[1200, 1200, 1200, 700], [1200], [1300], [50, 50], [60]])
        self.assertEqual([each for piece in self.sock.pieces for each in piece], sizes)
        self.assertEqual(self.sock.sizes, [1200, 50])
        self.assertEqual(self.figures().packets, 9)

    def test_pieces_have_a_limit(self):
        for size, count in ((1200, 200), (9000, 30), (60000, 3)):
            self.sock.pieces = []
            self.library.due = [b"x" * size] * count
            self.quic.serve(0)
            self.assertEqual(sum(map(len, self.sock.pieces)), count)
            for piece in self.sock.pieces:
                self.assertLessEqual(len(piece), 64)
                self.assertLessEqual(sum(map(len, piece)), 65507)

    def test_no_pieces_in_the_kernel(self):
        self.quic._cuts = False
        self.library.due = [b"x" * 1200] * 3
        self.quic.serve(0)
        self.assertEqual([len(piece) for piece in self.sock.pieces], [1, 1, 1])

    def test_piece_that_a_driver_refuses(self):
        """EIO is a driver's that cannot cut: single datagrams from then on, none lost."""
        self.sock.failure = errno.EIO
        self.library.due = due = [b"a" * 1200, b"b" * 1200, b"c" * 100]
        self.quic.serve(0)
        self.assertEqual(self.sock.pieces, [[each] for each in due])
        self.sock.failure, self.sock.pieces = None, []
        self.library.due = due
        self.quic.serve(0)
        self.assertEqual(self.sock.pieces, [[each] for each in due])

    def test_errors_of_the_path_are_losses(self):
        for number in (errno.ECONNREFUSED, errno.EHOSTUNREACH):
            self.sock.failure = number
            self.library.due = [b"a" * 1200]
            self.quic.serve(0)
            self.assertIsNone(self.quic.broken)
        self.sock.failure = None
        self.library.due = [b"a" * 1200]
        self.quic.serve(0)
        self.assertEqual(len(self.sock.pieces), 1)

    def test_network_that_stays_away_is_named(self):
        self.sock.failure, begin = errno.EHOSTUNREACH, time.monotonic()
        self.library.due = [b"a" * 1200]
        self.quic.serve(0)
        self.quic.outage.since = begin - 11.0
        self.library.due = [b"a" * 1200]
        self.quic.serve(0)
        self.assertRegex(self.quic.broken, " for 10 seconds")
        self.assertGreater(self.quic.outage.lasted(time.monotonic()), 10.0)

    def test_network_that_was_away(self):
        self.sock.failure = errno.EHOSTUNREACH
        self.library.due = [b"a" * 1200]
        self.quic.serve(0)
        self.quic.outage.since -= 2.0
        self.sock.failure, self.library.due = None, [b"a" * 1200]
        self.quic.serve(0)
        self.assertIsNone(self.quic.broken)
        self.assertGreater(self.quic.outage.seconds, 1.9)

    def test_host_that_says_the_port_is_closed(self):
        self.sock.failure = errno.ECONNREFUSED
        self.library.due = [b"a" * 1200]
        with self.assertRaises(OSError) as caught:
            self.quic.open()
        self.assertEqual(caught.exception.errno, errno.ECONNREFUSED)

    def test_garbage_does_not_end_a_connection(self):
        self.come(b"garbage", b"data", b"garbage", b"more")
        view, data = bytearray(100), b""
        while len(data) < 8:
            data += view[:self.quic.recv_into(memoryview(view), 100)]
        self.assertEqual(data, b"datamore")
        self.assertIsNone(self.quic.broken)

    def test_parts_of_what_came(self):
        self.come(b"0123456789", b"abc")
        data, view = b"", bytearray(4)
        while len(data) < 13:
            count = self.quic.recv_into(memoryview(view), 4)
            self.assertIn(count, range(1, 5))
            data += view[:count]
        self.assertEqual(data, b"0123456789abc")
        self.assertRaises(BlockingIOError, self.quic.recv_into, memoryview(view), 4)

    def test_other_streams_do_not_count(self):
        self.library.events = [StreamDataReceived(b"stranger", True, 4),
                               StreamDataReceived(b"", False, 0)]
        self.come(b"x")
        view = bytearray(10)
        self.assertEqual(self.quic.recv_into(memoryview(view), 10), 1)
        self.assertEqual(view[:1], b"x")

    def test_joined_datagrams(self):
        self.quic._take_in(b"aaaabbbbcc", 4)
        self.assertEqual(self.library.received, [b"aaaa", b"bbbb", b"cc"])
        self.quic._take_in(b"dddd", 4)
        self.quic._take_in(b"eeee", 0)
        self.assertEqual(self.library.received[3:], [b"dddd", b"eeee"])

    def test_end_of_a_connection(self):
        self.library.events = [ConnectionTerminated(298, "bad certificate")]
        self.come(b"x")
        with self.assertRaises(OSError) as caught:
            while True:
                self.quic.send(b"data")
        self.assertEqual((caught.exception.errno, caught.exception.strerror),
                         (errno.EPIPE, "bad certificate"))

    def test_end_that_a_timer_brings(self):
        """qh3 tells of a bad certificate when its timer has run out: that took 8 s."""
        self.library.timer = time.monotonic()
        self.library.on_timer = [ConnectionTerminated(298, "bad certificate")]
        with self.assertRaises(OSError) as caught:
            self.quic.open()
        self.assertEqual(caught.exception.strerror, "bad certificate")

    def test_end_without_a_reason(self):
        self.library.events = [ConnectionTerminated(7, "")]
        self.quic._take_in(b"x", 0)
        self.assertEqual(self.quic.broken, "closed by the other end (7)")

    def test_failure_of_the_library(self):
        """Before the handshake it is a note, for it may pass; then it is the end."""
        self.library.failure = ValueError("no")
        self.quic.serve(0)
        self.assertEqual((self.quic.broken, self.quic.trouble), (None, "fake: no"))
        self.library.events = [HandshakeCompleted()]
        self.quic._take_in(b"x", 0)
        self.quic.serve(0)
        self.assertEqual(self.quic.broken, "no")

    def test_sender_that_is_ahead(self):
        """send() takes no more than the library sends, and says so as a socket does."""
        block = b"x" * 131072
        with self.assertRaises(BlockingIOError):
            for _ in range(100):
                self.quic.send(block)
        self.assertLess(len(self.library.queued), 4)

    def test_figures(self):
        self.assertEqual(self.figures(), (0, -1, -1, 0, 0, 0))
        core = self.library._core = collections.namedtuple(
            "Core", "loss_total congestion_window smoothed_rtt active_path")(
                3, 14000, 0.25, (0, None, None, 0, 0, 1472))
        self.assertEqual(self.figures(), (0, 3, 14000, 250000, 1472, 0))
        self.assertEqual(core.loss_total, 3)
        reported = []
        self.quic.report = reported.append
        self.library.due = [b"x"]
        self.come(b"0123456789", b"abc")
        self.quic.serve(0)
        self.assertEqual(reported, [(1, 3, 14000, 250000, 1472, 10)])


class Adapters(unittest.TestCase):
    """What each library tells of a stream's bytes."""

    def test_library_that_tells_nothing(self):
        """What was queued waits, but for the datagrams sent; after 0.1 s without any, none."""
        account = pyperf3.quic_adapter(object(), 0)
        account.guess.queue(3000)
        account.guess.send(10.0, [b"x" * 1200])
        self.assertEqual((account.waiting(), account.unacknowledged()), (1800, 1800))
        account.guess.send(10.05, [])
        self.assertEqual(account.waiting(), 1800)
        account.guess.send(10.2, [])
        self.assertEqual(account.waiting(), 0)
        self.assertEqual(account.figures(), (-1, -1, 0))

    def test_aioquic(self):
        class Connection:
            _streams = {}

        class Stream:
            class sender:
                _buffer_start, highest_offset, _buffer_stop = 100, 300, 1000

        class Recovery:
            congestion_window, _rtt_smoothed = 14000, 0.25
        connection = Connection()
        connection._loss = Recovery
        account = pyperf3.quic_adapter(connection, 0)
        self.assertEqual((account.waiting(), account.unacknowledged()), (0, 0))
        self.assertEqual(account.figures(), (-1, 14000, 0.25))
        connection._streams = {0: Stream}
        self.assertEqual((account.waiting(), account.unacknowledged()), (700, 900))

    def test_qh3(self):
        library = FakeLibrary()
        account = pyperf3.quic_adapter(library, 0)
        library.queued = [b"x" * 700]
        self.assertEqual((account.waiting(), account.unacknowledged()), (700, 700))
        library._core = collections.namedtuple("Core", "bytes_in_flight")(200)
        self.assertEqual((account.waiting(), account.unacknowledged()), (700, 900))


class FakePath(pyperf3.QuicAdapter):
    """A path that takes datagrams of `room` bytes, from a library that starts with others."""

    def __init__(self, size, room, takes_probes=True, shrinks=True):
        pyperf3.QuicAdapter.__init__(self, None, 0)
        self._size, self.room, self.takes_probes, self.shrinks = size, room, takes_probes, shrinks
        self.probes, self.acknowledged, self.timeouts = [], [], 0

    def figures(self):
        return 0, 14000, 0.2

    def size(self):
        return self._size

    def shrink(self, size):
        if self.shrinks:
            self._size = min(self._size, size)
        return self.shrinks

    def probe(self, size, number):
        if self.takes_probes:
            self.probes.append(size)
            self.acknowledged += [number] * (size <= self.room)
        return self.takes_probes

    def silence(self):
        return self.timeouts


class Sizes(unittest.TestCase):
    """How large the datagrams may be, found with an adapter that only pretends."""

    def settle(self, path, usual=1472):
        """Return how many seconds it takes, round trips of 0.2 s."""
        size, now = pyperf3.DatagramSize(path, usual), 10.0
        size.probe(now)
        while not size.is_settled(now):
            now += 0.2
            for number in path.acknowledged:
                size.acknowledge(number)
        return round(now - 10.0, 1)

    def test_path_that_takes_them(self):
        for room in (1300, 1472, 8972, 65507):
            path = FakePath(room, room)
            self.assertEqual((self.settle(path), path.size(), path.probes), (0.2, room, [room]))

    def test_path_that_is_narrower(self):
        path = FakePath(8972, 1472)
        self.assertLess(self.settle(path), 2.5)
        self.assertEqual((path.size(), path.probes), (1472, [8972] * 3 + [1472]))
        path = FakePath(8972, 1400)
        self.assertLess(self.settle(path, 1452), 5)
        self.assertEqual((path.size(), path.probes), (1200, [8972] * 3 + [1452] * 3))

    def test_smallest_size_needs_no_probe(self):
        path = FakePath(1200, 0)
        self.assertEqual((self.settle(path), path.size(), path.probes), (0.0, 1200, []))

    def test_other_end_that_takes_no_probes(self):
        """An older pyperf3, say: no more than an Ethernet takes, as before."""
        for begin, end in ((8972, 1472), (1472, 1472), (1280, 1280)):
            path = FakePath(begin, 0, takes_probes=False)
            self.assertEqual((self.settle(path), path.size()), (0.0, end))

    def test_library_that_cannot_change_its_size(self):
        path = FakePath(8972, 1472, shrinks=False)
        self.assertLess(self.settle(path), 2.5)
        path = FakePath(0, 0)
        self.assertEqual(self.settle(path), 0.0)

    def test_late_acknowledgement_of_a_larger_probe(self):
        path = FakePath(8972, 0)
        size = pyperf3.DatagramSize(path, 1472)
        size.probe(10.0)
        for now in (11, 12, 13):
            size.is_settled(now)
        self.assertEqual(path.size(), 1472)
        size.acknowledge(3)
        self.assertFalse(size.is_settled(13.1))
        size.acknowledge(4)
        self.assertTrue(size.is_settled(13.1))

    def test_path_of_which_the_system_knows(self):
        path = FakePath(8972, 4000)
        size = pyperf3.DatagramSize(path, 1472)
        size.probe(10.0)
        self.assertTrue(size.limit(3972, 10.1))
        self.assertEqual((path.size(), path.probes), (3972, [8972, 3972]))
        size.acknowledge(2)
        self.assertTrue(size.is_settled(10.2))
        self.assertTrue(size.limit(8972, 10.3))
        self.assertTrue(size.limit(1372, 10.4))  # later, while data flows: no probe
        self.assertFalse(size.limit(1000, 10.5))  # too narrow for QUIC
        self.assertEqual((path.size(), len(path.probes)), (1372, 2))

    def test_path_that_becomes_narrower_without_a_word(self):
        path = FakePath(8972, 8972)
        size, sizes = pyperf3.DatagramSize(path, 1472), []
        self.settle(path)
        size.probe(10.0)
        for path.timeouts in (0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6):
            size.watch(0.5)  # as in a short outage
            sizes.append(path.size())
        self.assertEqual(sizes, [8972] * 15)
        del sizes[:]
        for path.timeouts in (0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6):
            size.watch(1.0)
            sizes.append(path.size())
        self.assertEqual(sizes, [8972] * 6 + [1472] * 5 + [1200] * 4)

    def test_transport_parameters(self):
        """RFC 9000, 16: integers of variable length."""
        for data, number in (("c2197c5eff14e88c", 151288809941952652), ("9d7f3e7d", 494878333),
                             ("7bbd", 15293), ("25", 37), ("4025", 37)):
            data = bytes.fromhex(data)
            self.assertEqual(pyperf3._decode_varint(b"x" + data + b"y", 1), (number, 1 + len(data)))
        # max_udp_payload_size (3) of 1472 between others, one of them empty
        data = bytes.fromhex("0104800075300302 45c0 4fff00 0c00".replace(" ", ""))
        wanted = bytes.fromhex("010480007530 4fff00 0c00 0304 8000fff7".replace(" ", ""))
        self.assertEqual(pyperf3._with_room(data), wanted)
        self.assertEqual(pyperf3._with_room(wanted), wanted)

    def test_room_of_a_connection(self):
        """Linux tells the segment without the room for timestamps."""
        class Connection:
            def getsockopt(self, level, option, size=0):
                if not size:
                    return self.segment
                return b"\1\0\0\0\0" + bytes([self.options]) + b"\0" * 200
        for Connection.segment, Connection.options, room in (
                (1448, 7, 1472), (1460, 6, 1472), (1428, 7, 1452), (8948, 1, 8972), (0, 1, 0),
                (1348, 1, 1372), (65483, 1, 65507), (65495, 0, 65507)):
            if LINUX:
                self.assertEqual(pyperf3.datagram_room(Connection()), room)
        if LINUX:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
                self.assertGreater(pyperf3.datagram_room(sock), 500)


# An older version: datagrams of 1280 bytes, no probes. Of the server's the client finds larger.
OLD = """
pyperf3._connection_class = lambda library: (library.connection.QuicConnection, False)
"""


class LargeDatagrams(Case):
    """Datagrams as large as the path."""

    def figures(self, port, *arguments, **more):
        """Run a short test; returns its document and the sizes of the client's streams."""
        document = self.honest(port, *arguments, **more)
        return document, [row["datagram_size"] for row in document["end"]["pyperf3"][
            "quic_streams"]]

    def test_both_ends_tell_the_size(self):
        port, told = self.serve("-J"), []
        for more, size in (((), range(16000, 65508)), (("-M", "1400"), [1400]),
                           (("-M", "1000"), [1200]), (("-M", "9000"), [9000])):
            for mode in ((), ("-R",)):
                document, sizes = self.figures(port, *more + mode)
                support.wait_until(lambda: len(re.findall(
                    r'"datagram_size":\t(\d+)', self.server.out())) > len(told), "the server")
                told = [int(each) for each in re.findall(
                    r'"datagram_size":\t(\d+)', self.server.out())]
                sent, came = (told[-1], sizes[0]) if mode else (sizes[0], told[-1])
                self.assertIn(sent, size, (more, mode))
                self.assertLessEqual(came, sent)
                self.assertGreater(came, sent - 60)  # data may end a little earlier

    def test_version_6(self):
        if not figures.has_ipv6():
            raise unittest.SkipTest("no IPv6 here")
        port = self.serve()
        for mode in ((), ("-R",), ("-M", "1452")):
            _, sizes = self.figures(port, *mode, host="::1")
            self.assertIn(sizes[0], [1452] if "-M" in mode else range(16000, 65508))

    def test_older_ends(self):
        patched = support.quic_code(OLD + "sys.exit(pyperf3.main())")
        port = self.serve()
        for mode in ((), ("-R",), ("--bidir",)):
            with self.subTest(mode=mode, old="client"):
                _, sizes = self.figures(port, *mode, program=patched)
                self.assertLessEqual(max(sizes), 1472)
        port = self.serve(program=patched)
        for mode in ((), ("-R",), ("--bidir",)):
            with self.subTest(mode=mode, old="server"):
                _, sizes = self.figures(port, *mode)
                self.assertLessEqual(max(sizes), 1472)

    def test_other_library_at_the_other_end(self):
        for here, there in (("qh3", "aioquic"), ("aioquic", "qh3")):
            port = self.serve(program=support.with_quic(there))
            for mode in (("-n", "1M"), ("-n", "1M", "-R"), ("-t", "1", "--bidir")):
                with self.subTest(here=here, mode=mode):
                    left = self.client(port, "--quic", "-J", *mode,
                                       program=support.with_quic(here))
                    self.assertEqual((left.code, left.err), (0, ""))
                    sizes = [row["datagram_size"] for row in left.json()["end"]["pyperf3"][
                        "quic_streams"]]
                    self.assertLessEqual(max(sizes), 1472)

    def test_library_without_its_private_names(self):
        """Then what it does for all is done."""
        gone = support.quic_code("""
pyperf3._Qh3Adapter.shorten = pyperf3.QuicAdapter.shorten
pyperf3._Qh3Adapter._figure = lambda self, name, default: default
sys.exit(pyperf3.main())""")
        for here, there in ((gone, None), (None, gone), (gone, gone)):
            port = self.serve(**({"program": there} if there else {}))
            for mode in ((), ("-R",)):
                self.honest(port, *mode, program=here)

    def test_path_that_is_narrower_than_the_control_connections(self):
        """A black hole: what is too large is lost without a word, in one way or both."""
        def narrow(ways, room, mode):
            server, port = support.start_server(support.with_quic())
            with server, relay.Relay(port, lambda way, flow, number, data: (
                    [] if way in ways and len(data) > room else [data])) as path:
                began = time.monotonic()
                document, sizes = self.figures(path.port, *mode)
                return document, sizes, time.monotonic() - began
        cases = [(ways, room, mode) for ways in ((relay.FORTH,), (relay.BACK,),
                                                 (relay.FORTH, relay.BACK))
                 for room in (1472, 1300) for mode in ((), ("-R",))]
        for (ways, room, mode), (document, sizes, took) in support.together(narrow, cases, 4):
            with self.subTest(ways=ways, room=room, mode=mode):
                self.assertLess(took, LATE)
                if (relay.BACK if mode else relay.FORTH) in ways:
                    self.assertLessEqual(sizes[0], room)
                else:  # each way has a size of its own
                    self.assertGreaterEqual(sizes[0], 16000)

    def test_path_that_becomes_narrower(self):
        """In the middle of a test, without a word."""
        for mode, way in (((), relay.FORTH), (("-R",), relay.BACK)):
            with self.subTest(mode=mode):
                port, begin = self.serve(), []

                def rule(way_, flow, number, data):
                    begin.append(time.monotonic())
                    late = time.monotonic() - begin[0] > 2.0
                    return [] if late and way_ == way and len(data) > 1472 else [data]
                with relay.Relay(port, rule) as path:
                    left = self.client(path.port, "--quic", "-t", "8", "-J", *mode)
                self.assertEqual((left.code, left.err), (0, ""), left.out)
                rows = [row["sum"]["bytes"] for row in left.json()["intervals"]]
                self.assertGreater(min(rows[5:8]), 0, rows)
                if not mode:
                    row, = left.json()["end"]["pyperf3"]["quic_streams"]
                    self.assertEqual(row["datagram_size"], 1472)


    def test_short_outage_made_datagrams_small(self):
        """A quarter of a second without anything, and they stayed at 1472."""
        port, begin = self.serve(), []

        def rule(way, flow, number, data):
            begin.append(time.monotonic())
            return [] if 2.0 < time.monotonic() - begin[0] < 2.3 else [data]
        with relay.Relay(port, rule) as path:
            left = self.client(path.port, "--quic", "-t", "4", "-b", "20M", "-M", "8972", "-J")
        self.assertEqual((left.code, left.err), (0, ""), left.out)
        row, = left.json()["end"]["pyperf3"]["quic_streams"]
        self.assertEqual(row["datagram_size"], 8972)


class Summaries(unittest.TestCase):
    """The lines of text of our own."""

    def lines(self, own, host=10.0, remote=20.0):
        return pyperf3.TextRenderer()._own_lines({"data": {
            "streams": [{"sender": {"socket": 5}}, {"sender": {"socket": 12}}], "pyperf3": own,
            "cpu_utilization_percent": {"host_total": host, "remote_total": remote}}})

    def test_lines(self):
        own = {"quic_streams": [
            {"packets_sent": 7, "packets_lost": 2, "connect_seconds": 0.0015,
             "first_byte_seconds": 0.25, "datagram_size": 1472}, {"packets_sent": 9}],
               "cpu_bound": []}
        self.assertEqual(self.lines(own), [
            "QUIC on 5: handshake in 1.500 ms, first byte after 250.000 ms, 7 packets sent,"
            " 2 lost, datagrams of 1472 bytes",
            "QUIC on 12: 9 packets sent"])
        self.assertEqual(self.lines({}), [])

    def test_ends_that_were_busy(self):
        self.assertEqual(self.lines({"cpu_bound": ["local"]}, 97.25),
                         ["Encryption kept the local end busy: 97.2% of a core"])
        self.assertEqual(self.lines({"cpu_bound": ["remote"]}, 1.0, 101.0),
                         ["Encryption kept the remote end busy: 101.0% of a core"])


class Reported(field.Case):
    """Public reports about iperf3 and its like, each with the test that would have found it."""

    # B72: aioquic #153, #11, #421, #42; and whether QUIC gets through where UDP is filtered
    def test_quic_is_slow_in_pure_python_and_udp_may_be_filtered(self):
        for gone in ("aioquic", "qh3"):
            program = support.with_quic(gone)
            left, other = field.pair("--quic -t 1 -J", "", program, program)
            self.assertClean(left)
            self.assertClean(other)
            end = left.json()["end"]
            cpu, own = end["cpu_utilization_percent"], end["pyperf3"]
            self.assertGreater(cpu["host_total"], 0)
            self.assertGreater(cpu["remote_total"], 0)
            self.assertEqual(own["cpu_bound"], [
                name for name, key in (("local", "host_total"), ("remote", "remote_total"))
                if cpu[key] >= 90.0])
            left = field.run(support.with_quic("qh3,aioquic"), "-c 127.0.0.1 --quic")
            self.assertEqual(left.code, 1)
            self.assertIn("takes the Python package qh3", left.err.split("\n")[0])
        server, port = self.serve(command=support.with_quic())
        with relay.Relay(port, lambda way, flow, number, data: []) as path:
            left = field.client(path.port, "--quic", support.with_quic())
        self.assertEqual(left.code, 1)
        self.assertRegex(left.err, r"\A(iperf3: .+\n){1,2}\Z")
        self.assertIn("UDP port %d is closed or filtered" % path.port, left.err)
        self.honest(port, "--quic -n 1M", support.with_quic())
        self.end(server)


if __name__ == "__main__":
    unittest.main()
