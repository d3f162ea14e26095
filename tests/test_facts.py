"""What two pyperf3s tell each other of themselves (the facts frame), where it passes, and who lies.
"""

import contextlib
import copy
import json
import os
import random
import re
import socket
import struct
import sys
import threading
import time
import unittest

import fakes
import fuzz
import path
import pyperf3
import support
from fakes import FakeServer, frame, receive, take_frame

VERSIONS = ("3.22", "3.18", "3.12", "3.9")
WAYS = ((), ("-R",), ("--bidir",))
FACTS = b"\x50"
ASKED = {"pyperf3_features": {"facts": 1}}
MUTANTS = int(os.environ.get("FACTS_MUTANTS", 4000))  # of documents; a second takes 1000 or more
NAUGHT = re.compile(r"\b(nan|inf|None|null|True|False)\b")  # no word of a verdict
STREAM = {"id": 1, "bytes": 1000, "retransmits": -1, "jitter": 0, "errors": 0, "omitted_errors": 0,
          "packets": 0, "omitted_packets": 0, "start_time": 0, "end_time": 1}
RESULTS = {"cpu_util_total": 1, "cpu_util_user": 1, "cpu_util_system": 0,
           "sender_has_retransmits": -1, "streams": [STREAM]}


def client(port, *arguments, **more):
    return support.run(tuple(more.pop("program", support.OURS))
                       + ("-c", "127.0.0.1", "-p", port) + arguments, **more)


def own_of(left):
    """Return our own member of the end object of a program's document (-J)."""
    return left.json()["end"]["pyperf3"]


# A path on which large packets vanish #########################################


class BlackHole(unittest.TestCase):
    """Packets of more than 1400 bytes vanish, so that all that is said has to be in small ones."""

    cores = 0.5

    def setUp(self):
        support.need_path()

    def run_scene(self, *arguments):
        with path.Scene("mtu_black_hole") as scene:
            with path.serving(scene.path, support.OURS + (
                    "-s", "-1", "--logfile", os.devnull)):
                return support.run(scene.path.client + support.OURS + (
                    "-c", path.SERVER, "--verdict", "-t", "2") + scene.client + arguments)

    def check(self, streams, *arguments):
        left = self.run_scene("-J", *arguments)
        self.assertEqual((left.code, left.err), (0, ""), left.out)
        own = own_of(left)
        self.assertEqual(own["verdict"][0]["code"], "mtu_black_hole", own["verdict"])
        self.assertIn("during_test", own["remote_host"])
        self.assertEqual(len(own["remote_limits"]), streams)

    def test_results_with_facts_vanished_in_a_black_hole(self):
        self.check(1)
        left = self.run_scene()
        self.assertEqual((left.code, left.err), (0, ""), left.out)
        self.assertIn("\nVerdict: large packets vanish on the way: ", left.out)
        self.assertTrue(left.out.endswith("\n\niperf Done.\n"), left.out)

    def test_and_those_of_a_server_that_sends(self):
        self.check(1, "-R")

    def test_more_of_them_than_a_congestion_window(self):
        self.check(12, "-P", "12")  # 20 KB; what waits for the window must not be joined

    def test_and_within_tls(self):
        self.check(12, "-P", "12", "-R", "--tls")

    def test_lost_segments_are_not_sent_again_as_one(self):
        with path.Path(rate=10e6, delay=0.010, hole=1000) as road:
            with support.Program(road.server + (sys.executable, "-S", "-c", TAKE)) as taker:
                taker.wait_for("ready")
                with support.Program(road.client + (sys.executable, "-S", "-B", "-c", GIVE % (
                        support.LIBRARY, path.SERVER))) as giver:
                    giver.wait_for("connected")
                    road.change(forth={"loss": 1.0})
                    time.sleep(1.0)
                    lost = road.change(forth={"loss": 0.0})["forth"]["lost"]
                    left = giver.finish()
                self.assertEqual(left.code, 0, left)
                taker.wait_for("16384 bytes", 30.0)
        self.assertGreater(lost, 5)  # the first window


# Reads a connection to its end.
TAKE = """
import socket
listener = socket.socket()
listener.bind(("", 7))
listener.listen(1)
print("ready", flush=True)
sock, count, data = listener.accept()[0], 0, b"x"
while data:
    data = sock.recv(65536)
    count += len(data)
print(count, "bytes", flush=True)
"""

GIVE = """
import socket, sys, time
sys.path.insert(0, %r)
import pyperf3
loop, sock = pyperf3.Loop(), socket.create_connection((%r, 7), 60)
sock.setblocking(False)
pyperf3.set_no_delay(sock)
print("connected", flush=True)
time.sleep(0.5)
task = loop.spawn(pyperf3.write_small(sock, b"x" * 16384, time.monotonic() + 30, 116))
while not task.done:
    loop.run_once()
sock.shutdown(socket.SHUT_WR)
sys.exit(task.error and str(task.error))
"""


# A state where a frame is due ##################################################


def until_facts(*then):
    """Return a script for FakeServer: the client asks for facts, and gets these bytes, at times.

    A number is a pause in seconds. At the end the connection stays open.
    """
    def play(sock):
        receive(sock, 37)
        sock.sendall(b"\x09")
        take_frame(sock)
        for each in then:
            if isinstance(each, bytes):
                sock.sendall(each)
            else:
                time.sleep(each)
    return play


class States(support.ServerCase):
    """What ends a test may come where a length is expected: it is no length."""

    # Of a server: what it sends, and what the client says. The first byte came as a length.
    ENDS = ((b"\xfe" + struct.pack("!ii", 117, 0),
             "iperf3: SERVER ERROR - unable to receive results"
             "\niperf3: error - unable to receive results"),
            (b"\xfe" + struct.pack("!ii", 36, 22), "iperf3: error - "),
            (b"\xff", "iperf3: error - the server is busy running a test. try again later"),
            (b"\x0b", "iperf3: error - the server has terminated"))

    def check(self, script, text, *arguments):
        begin = time.monotonic()
        with FakeServer(script) as server:
            left = client(server.port, "-t", "1", *arguments)
        self.assertEqual(left.code, 1, left)
        self.assertIn(text, left.err)
        self.assertNotIn("a length of", left.err)
        self.assertNotIn("Traceback", left.err)
        self.assertLess(time.monotonic() - begin, 9.0)  # nothing waits for more of a length
        return left

    def test_an_error_of_the_server_was_read_as_a_length_of_results(self):
        for data, text in self.ENDS:
            for words in ((), ("--verdict",)):
                with self.subTest(data=data, words=words):
                    self.check(fakes.whole_test(data), text, *words)

    def test_and_of_its_facts(self):
        for data, text in self.ENDS:
            with self.subTest(data=data):
                self.check(until_facts(FACTS + data), text, "--verdict")

    def test_a_length_that_is_none_is_still_called_one(self):
        for data in (b"\x63\0\0\0", b"\x50\0\0\0", b"\x80\0\0\0", b"\x10\0\0\0"):
            with self.subTest(data=data), FakeServer(fakes.whole_test(data)) as server:
                left = client(server.port, "-t", "1")
                self.assertEqual(left.code, 1)
                self.assertIn("iperf3: error - unable to receive results: a length of ", left.err)

    def test_a_client_that_ends_where_its_documents_are_due(self):
        port = self.serve()
        for state, text in (
                (b"\x0c", "the client has terminated"), (b"\x10", None),
                (b"\x63\0\0\0", "unable to receive parameters from client: a length of")):
            before = len(self.server.err())
            with self.subTest(state=state), fakes.connect(port) as control:
                control.sendall(pyperf3.make_cookie())
                self.assertEqual(receive(control, 1), b"\x09")
                self.end(control, state, text, before)
        for state, text in ((b"\x0c", "the client has terminated"), (b"\x10", None),
                            (b"\x63\0\0\0", "unable to receive results: a length of ")):
            before = len(self.server.err())
            with self.subTest(state=state), fakes.walk_to_results(port) as control:
                self.end(control, state, text, before)

    def end(self, control, state, text, before):
        """Send what ends a conversation; check what the server reports behind `before`."""
        control.sendall(state)
        while control.recv(4096):
            pass
        support.wait_until(lambda: text is None or text in self.server.err()[before:],
                           ("error", self.server.err), 5.0)
        if text is None:
            self.assertEqual(self.server.err()[before:], "")


# Real iperf3s #################################################################


class Real(unittest.TestCase):
    """An iperf3 neither notices that it was asked, nor gets what it could not read."""

    def each(self, function):
        """Call a function with each version and way."""
        cases = [(version, words) for version in VERSIONS for words in WAYS]
        for version in VERSIONS:
            support.real(version)  # skips the test
        for case, problem in support.together(function, cases, 3):
            with self.subTest(version=case[0], words=case[1]):
                self.assertIsNone(problem)

    def test_servers_serve_as_if_nothing_had_been_asked(self):
        self.each(self.ask)

    def ask(self, version, words):
        """Run a client that asks; returns what is wrong, if anything is."""
        words += ("-t", "1", "-b", "50M", "--verdict")
        left, served = support.run_pair(support.real(version), support.OURS, words + ("-J",),
                                        ("-J",))
        document, theirs = left.json(), json.loads(served.out)
        own, end = document["end"]["pyperf3"], document["end"]
        notes = [found for found in own["verdict"] if found["code"] == "unseen"]
        directions = 2 if "--bidir" in words else 1
        found = [name for name, holds in (
            ("status", (left.code, left.err) == (0, "")),
            ("error", "error" not in document and not theirs.get("error")),
            ("bytes", end["sum_sent"]["bytes"] > 1e6 and end["sum_received"]["bytes"] > 1e6),
            ("remote CPU", end["cpu_utilization_percent"]["remote_total"] > 0),
            ("facts", not {"remote_host", "remote_limits"} & set(own)),
            ("own facts", len(own["limits"]) == directions and own["host"]["cores"] > 0),
            ("unseen", len(notes) == 1),
            ("interval", document["intervals"])) if not holds]
        text, _ = support.run_pair(support.real(version), support.OURS, words)
        if (text.code, text.err) != (0, "") or not (
                "\nVerdict" in text.out and text.out.endswith("\n\niperf Done.\n")):
            found.append("text")
        return (found, left, text) if found else None

    def test_clients_never_get_the_frame(self):
        self.each(self.serve)

    def serve(self, version, words):
        left, served = support.run_pair(
            support.OURS, support.real(version), words + ("-t", "1", "-b", "50M", "-J"),
            ("--verdict", "-J"))
        document, ours = json.loads(left.out), served.json()
        found = [name for name, holds in (
            ("status", (left.code, served.code) == (0, 0)),
            ("error", "error" not in document and "error" not in ours),
            ("bytes", document["end"]["sum_received"]["bytes"] > 1e6),
            ("verdict", "unseen" in {each["code"] for each in
                                     ours["end"]["pyperf3"]["verdict"]})) if not holds]
        return (found, left, served) if found else None


class Unasked(support.ServerCase):
    """Without an option that needs it nothing is asked for, and nothing told."""

    ASKING = ("--verdict", "--max-rtt 5ms", "-R --max-retransmits 1%",
              "--bidir --max-retransmits 1%")
    PLAIN = ("", "-R", "--bidir", "-V", "-J", "--max-loss 1%", "--min-bitrate 1",
             "--max-jitter 5ms", "--max-retransmits 1%", "-R --max-retransmits 5",
             "--get-server-output")

    def spoken(self, line):
        """Return the parameters, and the results if it sends any, of a client."""
        documents, over = [], threading.Event()

        def play(sock):
            receive(sock, 37)
            if documents:
                over.wait(20.0)  # the stream
                return
            sock.sendall(b"\x09")
            documents.append(take_frame(sock))
            sock.sendall(b"\x0a")
            threading.Thread(target=go_on, args=(sock,), daemon=True).start()

        def go_on(sock):
            with contextlib.suppress(OSError):
                time.sleep(0.3)
                sock.sendall(b"\x01\x02")
                while receive(sock, 1) not in (b"\x04", b""):
                    pass
                sock.sendall(b"\x0d")
                documents.append(take_frame(sock))
                sock.sendall(frame(RESULTS) + b"\x0e")
            over.set()
        with FakeServer(play) as server:
            left = client(server.port, "-t", "1", "-b", "1M", *line.split())
        self.assertNotIn("Traceback", left.err)
        return documents

    def test_parameters_ask_for_facts_only_where_an_option_needs_them(self):
        for lines, asked in ((self.ASKING, {"facts": 1}), (self.PLAIN, None)):
            for line in lines:
                with self.subTest(line=line):
                    settings = pyperf3.Settings.from_arguments(["-c", "h"] + line.split())
                    document = pyperf3.Parameters.from_settings(settings).to_json()
                    self.assertEqual(document.get("pyperf3_features"), asked)

    def test_a_client_tells_a_server_nothing_that_told_nothing(self):
        for line, asks in (("", False), ("--verdict", True)):
            with self.subTest(line=line):
                parameters, results = self.spoken(line)
                self.assertEqual("pyperf3_features" in parameters, asks)
                self.assertNotIn(b"pyperf3", json.dumps(results).encode())

    def test_a_server_tells_a_client_nothing_that_did_not_ask(self):
        port = self.serve("--verdict")
        for asks in (None, False, 1, "facts", [1]):
            with self.subTest(asks=asks), fakes.connect(port) as control:
                cookie = pyperf3.make_cookie()
                control.sendall(cookie)
                self.assertEqual(receive(control, 1), b"\x09")
                more = {} if asks is None else {"pyperf3_features": asks}
                control.sendall(frame(dict(fakes.PARAMETERS, num=1000, time=0, **more)))
                self.assertEqual(receive(control, 1), b"\x0a")
                with fakes.connect(port) as data:
                    data.sendall(cookie)
                    self.assertEqual(receive(control, 2), b"\x01\x02")
                    data.sendall(b"x" * 1000)
                    control.sendall(b"\x04")
                    self.assertEqual(receive(control, 1), b"\x0d")
                    control.sendall(frame(RESULTS))
                    results = take_frame(control)
                    self.assertEqual(receive(control, 1), b"\x0e")
                    control.sendall(b"\x10")
                    while control.recv(4096):
                        pass
                self.assertEqual(results["streams"][0]["bytes"], 1000)
                self.assertNotIn(b"pyperf3", json.dumps(results).encode())

    def test_plain_documents_leave_in_one_piece(self):
        broken = support.driver("import pyperf3; pyperf3.write_small = None")
        left, served = support.run_pair(broken, broken, ("-n", "1M", "-P", "16"))
        self.assertEqual((left.code, left.err, served.code, served.err), (0, "", 0, ""))
        left, _ = support.run_pair(broken, broken, ("-n", "1M", "--verdict"))
        self.assertEqual(left.code, 1, left)  # so that the first one proves something


# Ours and ours #################################################################


def without_socket(row):
    return {name: value for name, value in row.items() if name != "socket"}


class Pairs(unittest.TestCase):
    """Each end gets to know what the other one knows of itself."""

    def run_pair(self, line, program=support.OURS):
        words = ("-t", "1", "-J", "--verdict") + tuple(line.split())
        left, served = support.run_pair(program, program, words, ("-J", "--verdict"))
        self.assertEqual((left.code, left.err, served.code, served.err), (0, "", 0, ""))
        return left.json(), served.json()

    def check(self, line, program=support.OURS):
        ours, theirs = [document["end"]["pyperf3"] for document in self.run_pair(line, program)]
        limits, remote = ours["limits"], ours["remote_limits"]
        # What one says of itself is what the other one has heard, in the same order.
        self.assertEqual([without_socket(row) for row in remote],
                         [without_socket(row) for row in theirs["limits"]])
        self.assertEqual([row["socket"] for row in remote], [row["socket"] for row in limits])
        self.assertEqual([row["sender"] for row in remote], [not row["sender"] for row in limits])
        host = dict(ours["remote_host"])
        self.assertEqual(host.pop("version"), pyperf3.__version__)
        self.assertEqual(host, theirs["host"])
        self.assertEqual(host["cores"], os.cpu_count())
        self.assertIs(host["loopback"], True)
        self.assertIn("during_test", host)
        # The server's end object was made before the client's results came; its verdict was not.
        found = [[each["code"] for each in own["verdict"] if each["kind"] == "limit"]
                 for own in (ours, theirs)]
        self.assertEqual(*found)
        for own in (ours, theirs):
            self.assertNotIn("unseen", [each["code"] for each in own["verdict"]])
        return ours

    def check_tcp(self, line, senders):
        """senders: of the streams, whether the client sends."""
        own = self.check(line)
        self.assertEqual([row["sender"] for row in own["limits"]], senders)
        for row in own["limits"] + own["remote_limits"]:
            with self.subTest(row=row):
                self.assertGreater(row["segments_sent" if row["sender"]
                                       else "segments_received"], 5)
                self.assertGreater(row["receive_buffer"], 1000)
                # Python 3.6 does not tell which threads are whose.
                self.assertLess(row.get("worker_cpu_percent", 0.0), 130.0)
                if row["sender"]:
                    self.assertGreater(row["samples"], 3)
                    self.assertLess(row["busy_us"], 5e6)
                    self.assertLess(row["min_rtt_us"], 1e6)

    def test_forward(self):
        self.check_tcp("-b 200M", [True])

    def test_reverse(self):
        self.check_tcp("-R -b 200M", [False])

    def test_both_ways_in_parallel(self):
        self.check_tcp("--bidir -P 2 -b 50M", [True, True, False, False])

    def test_in_threads(self):
        self.check_tcp("-P 2 -b 50M --threads", [True, True])

    def test_many_streams(self):
        self.check_tcp("-P 40 -b 2M", [True] * 40)

    def test_within_tls(self):
        self.check_tcp("--tls --bidir -b 50M", [True, False])

    def test_udp(self):
        for line in ("-u -b 20M", "-u -b 20M -R", "-u -b 5M --bidir -P 2"):
            with self.subTest(line=line):
                for row in self.check(line)["remote_limits"]:
                    self.assertGreater(row["receive_buffer"], 1000)

    def test_quic(self):
        program = support.with_quic()
        for line in ("-b 50M", "-R -b 50M", "--bidir -b 20M"):
            with self.subTest(line=line):
                self.check("--quic " + line, program)

    def test_an_end_that_was_not_asked_for_a_verdict_tells_all_the_same(self):
        left, served = support.run_pair(support.OURS, support.OURS,
                                        ("-t", "1", "-b", "50M", "-J", "--verdict"), ("-J",))
        self.assertEqual(own_of(left)["remote_limits"][0]["sender"], False)
        own = own_of(served)
        self.assertFalse({"remote_host", "remote_limits", "host", "verdict"} & set(own), own)


# Who lies ######################################################################


def told_results(host, stream):
    """Return results with these facts."""
    return dict(RESULTS, pyperf3=host, streams=[dict(STREAM, pyperf3=stream)])


def whole_test(told, results):
    """Return a script for FakeServer: a test with facts, and with these results, as bytes.

    told: bytes in place of the frame.
    """
    streams = []

    def play(sock):
        receive(sock, 37)
        if streams:
            while sock.recv(1 << 20):
                pass
            return
        streams.append(sock)
        sock.sendall(b"\x09")
        take_frame(sock)
        sock.sendall(told + b"\x0a")
        threading.Thread(target=go_on, args=(sock,), daemon=True).start()

    def go_on(sock):
        with contextlib.suppress(OSError):
            time.sleep(0.3)
            sock.sendall(b"\x01\x02")
            if receive(sock, 1) == b"\x04":
                sock.sendall(b"\x0d")
                take_frame(sock)
                sock.sendall(results + b"\x0e")
    return play


class Liars(support.ServerCase):
    """Facts that are none: a clear error, or they are left out, and a verdict all the same."""

    HOSTILE = (b"null", b"[]", b'"text"', b"1", b"true", b"[[[[[[1]]]]]]",
               b'{"cores":"\\u001b[2J","kernel":"\\u001b]0;x\\u0007","mtu":[1,"x"]}',
               b'{"cores":1e400,"mtu":-1e400,"speed_mbps":1' + b"0" * 400 + b',"rmem_max":-1}',
               b'{"tcp_rmem":{"a":{"b":{"c":1}}},"during_test":{"during_test":{"x":{}}}}',
               b'{"during_test":[1,2],"version":{"a":1},"congestion":7,"duplex":[],"cores":{}}',
               b'{"\\u001b[2J":1,"bits_per_second":5,"A":1,"' + b"a" * 1000 + b'":1}',
               b"{" + b",".join(b'"k%d":1' % each for each in range(110)) + b"}",  # 100 are kept
               b'{"cores":1,"cores":"again","cores":[1]}',
               b'{"cores":NaN,"mtu":Infinity,"speed_mbps":-Infinity,"tcp_rmem":[NaN]}',
               b'{"during_test":' * 50 + b"1" + b"}" * 50)

    def refuse(self, script, text, *arguments, **more):
        begin = time.monotonic()
        with FakeServer(script) as server:
            left = client(server.port, *(arguments or ("--verdict", "-t", "1")),
                          seconds=20.0, **more)
        self.assertEqual(left.code, 1, left)
        self.assertRegex(left.err, text)
        self.assertNotIn("Traceback", left.err)
        self.assertIsNone(fuzz.STEERING.search(left.out + left.err))
        self.assertLess(time.monotonic() - begin, 10.0)

    def test_frames_that_are_refused(self):
        unknown = "received an unknown control message"
        large = b'{"a":"' + b"x" * (pyperf3.MAX_FACTS - 7) + b'"}'
        self.assertEqual(len(large), pyperf3.MAX_FACTS + 1)
        self.refuse(until_facts(FACTS + frame({}), 9.0), unknown, "-t", "1")  # nobody asked
        self.refuse(until_facts(FACTS + frame({}) + FACTS + frame({}), 9.0), unknown)
        bad = "unable to receive results: "
        for data in (large, b"{", b"nonsense", b"[" * 4000, b'{"a":"\x1b'):
            with self.subTest(data=data[:20]):
                self.refuse(until_facts(FACTS + frame(data), 9.0), bad)
        for data in (b"\0\0\0\0", b"\xf0\0\0\0", struct.pack("!I", pyperf3.MAX_FACTS + 1)):
            with self.subTest(data=data):
                self.refuse(until_facts(FACTS + data, 9.0), bad + "a length of ")

    def test_frames_that_do_not_end(self):
        program = support.with_limits(REPLY_TIMEOUT=0.5)
        for data in (FACTS, FACTS + b"\0", FACTS + frame(b'{"cores":1}')[:-1]):
            with self.subTest(data=data):
                self.refuse(until_facts(data, 5.0), "unable to receive results: .*timed out",
                            program=program)
        self.refuse(until_facts(FACTS + frame({}), 5.0), "timed out", program=program)

    def test_a_largest_frame_passes(self):
        most = b'{"a":"' + b"x" * (pyperf3.MAX_FACTS - 8) + b'"}'
        with FakeServer(whole_test(FACTS + frame(most), frame(told_results({}, {})))) as server:
            left = client(server.port, "--verdict", "-t", "1", "-b", "1M")
        self.assertEqual((left.code, left.err), (0, ""), left.out)

    def test_lies_of_a_server(self):
        for case, problem in support.together(self.lie, [(each,) for each in self.HOSTILE], 3):
            with self.subTest(case=case[0][:40]):
                self.assertIsNone(problem)

    def lie(self, data):
        """Let a server tell this in each place; returns what is wrong, if anything is."""
        results = json.dumps(told_results("HERE", "HERE")).encode().replace(b'"HERE"', data)
        with FakeServer(whole_test(FACTS + frame(data), frame(results))) as server:
            left = client(server.port, "--verdict", "-t", "1", "-b", "1M")
        if ((left.code, left.err) != (0, "") or "\nVerdict: " not in left.out
                or fuzz.STEERING.search(left.out)):
            return left
        return None

    def test_lies_of_a_client(self):
        port = self.serve("--verdict")
        for data in self.HOSTILE:
            with self.subTest(data=data[:40]), fakes.connect(port) as control:
                before, cookie = len(self.server.out()), pyperf3.make_cookie()
                control.sendall(cookie)
                self.assertEqual(receive(control, 1), b"\x09")
                control.sendall(frame(dict(fakes.PARAMETERS, num=1000, time=0, **ASKED)))
                self.assertEqual(receive(control, 1), FACTS)
                self.assertEqual(take_frame(control)["version"], pyperf3.__version__)
                self.assertEqual(receive(control, 1), b"\x0a")
                with fakes.connect(port) as stream:
                    stream.sendall(cookie)
                    self.assertEqual(receive(control, 2), b"\x01\x02")
                    stream.sendall(b"x" * 1000)
                    control.sendall(b"\x04")
                    self.assertEqual(receive(control, 1), b"\x0d")
                    control.sendall(frame(json.dumps(told_results("HERE", "HERE")).encode()
                                          .replace(b'"HERE"', data)))
                    self.assertIn("during_test", take_frame(control)["pyperf3"])
                    self.assertEqual(receive(control, 1), b"\x0e")
                    control.sendall(b"\x10")
                    while control.recv(4096):
                        pass
                support.wait_until(lambda: "Verdict" in self.server.out()[before:],
                                   ("verdict", self.server.out), 5.0)
        self.assertIsNone(fuzz.STEERING.search(self.server.out() + self.server.err()))

    def test_what_is_left_of_facts(self):
        clean = pyperf3.clean_facts
        for value in (None, 1, "x", [], [{}], True):
            self.assertEqual(clean(value), {})
        kept = {"a": 1, "b": 1.5, "c": True, "d": "word", "e": [1, 2], "f": {"g": 1}}
        self.assertEqual(clean(kept), kept)
        for value in (None, float("nan"), float("inf"), 10 ** 400, 2 ** 63, 1e-320, "", "two words",
                      "x" * 65, "\x1b[2J", "\u202e", [[1]], ["x"], [float("nan")], list(range(9)),
                      {"h": {"i": 1}}):
            self.assertIn(clean({"x": value}), ({}, {"x": {}}), value)
        for name in ("", "A", "1", "a b", "a-b", "a\n", "a" * 41, "bits_per_second", "\xe4"):
            self.assertEqual(clean({name: 1}), {}, name)
        self.assertEqual(len(clean({"k%d" % each: 1 for each in range(100000)})), 100)


# Facts of any kind ###############################################################


class Raw:
    """A piece of JSON text that stands for a value."""

    def __init__(self, text):
        self.text = text


class Changes:
    """Change documents at random, always the same with the same seed."""

    NUMBERS = (0, 1, -1, 0.5, 1e-9, 1e-320, 99.99, 1e3, 1e6, 1e9, 1e12, 2 ** 31, 2 ** 48, 2 ** 53,
               2 ** 62, 2 ** 63 - 1, -2 ** 63, 1e18, 9.2e18, 1e300, -1e18)

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self._literals = list(fuzz.LITERALS.values())

    def value(self, old, others):
        """Return what may stand for a value. others: some of the document."""
        chance = self.chance
        kind = chance.randrange(6)
        if kind == 0:
            return Raw(chance.choice(self._literals))
        if kind == 1:
            return copy.deepcopy(chance.choice(others))
        if kind == 2 and isinstance(old, (int, float)):
            return old * chance.choice((-1, 0, 1e-6, 0.1, 10, 1000, 1e9))
        if kind == 3:
            return chance.choice(("cubic", "reno", "bbr", "half", "full", "\x1b[2J", "\n", ""))
        if kind == 4:
            return [chance.choice(self.NUMBERS) for _ in range(chance.randrange(10))]
        return chance.choice(self.NUMBERS)

    def change(self, document):
        """Return the text of a document of which some members are others."""
        chance = self.chance
        others = [holder[name] for holder, name in places(document)]
        document = copy.deepcopy(document)
        members = list(places(document))
        for _ in range(chance.choice((1, 1, 2, 3, 6, 20))):
            holder, name = chance.choice(members)
            if name not in (holder if isinstance(holder, dict) else range(len(holder))):
                continue  # it was taken away
            kind = chance.randrange(12)
            if kind == 0 and isinstance(holder, dict):
                del holder[name]
            elif kind == 1 and isinstance(holder, dict):
                for number in range(chance.choice((1, 10, 120))):
                    holder["more_%d" % number] = self.value(1, others)
            elif kind == 2 and isinstance(holder, dict):
                holder["\x1b[2J" + str(name)] = self.value(1, others)
            else:
                holder[name] = self.value(holder[name], others)
        return to_text(document)


def places(value):
    """Yield all values of a document, as (what holds it, its name or number)."""
    items = value.items() if isinstance(value, dict) else (
        enumerate(value) if isinstance(value, list) else ())
    for name, item in list(items):
        yield value, name
        yield from places(item)


def to_text(value):
    """Return JSON text."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return b"{" + b",".join(json.dumps(name).encode() + b":" + to_text(item)
                                for name, item in value.items()) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(map(to_text, value)) + b"]"
    return json.dumps(value).encode()


class Generated(unittest.TestCase):
    """Documents of real tests with other facts in them: every one of them gets a verdict.

    FACTS_MUTANTS in the environment says how many.
    """

    LINES = ("", "-R", "--bidir -P 2", "-u -b 20M", "-u -b 20M -R", "-b 5M", "-R -C reno")

    def real(self, line):
        """Return the document of a test, of a second and a half."""
        left, _ = support.run_pair(support.OURS, support.OURS,
                                   ("-t", "1.5", "-J", "--verdict") + tuple(line.split()))
        self.assertEqual((left.code, left.err), (0, ""), left.out)
        return left.json()

    def test_every_one_gets_a_verdict(self):
        found = support.together(self.real, [(line,) for line in self.LINES], 2)
        for number, ((line,), document) in enumerate(found):
            with self.subTest(line=line):
                self.vary(document, Changes("%d %s" % (fuzz.SEED, line)),
                          MUTANTS // len(self.LINES))

    def test_reno_of_a_liar_divided_by_zero(self):
        row = {"busy_us": 10 ** 6, "samples": 20, "segments_sent": 1000, "retransmits": 100,
               "min_rtt_us": 10, "rtt_p50_us": 10, "rtt_p95_us": 12, "snd_mss": 1448,
               "congestion": "reno", "socket": 4, "sender": True}
        sums = {"bits_per_second": 1e7, "seconds": 2.0, "bytes": 2500000}
        start = {"test_start": {"protocol": "TCP", "num_streams": 1, "bidir": 0, "reverse": 1,
                                "target_bitrate": 0, "duration": 2, "omit": 0, "bytes": 0,
                                "blocks": 0},
                 "connected": [{"remote_host": "127.0.0.1"}]}
        for name in ("rtt_p50_us", "min_rtt_us", "snd_mss"):
            for value in (None, 0, -5):
                end = {"pyperf3": {"limits": [], "remote_limits": [
                    {key: item for key, item in dict(row, **{name: value}).items()
                     if item is not None}]},
                       "cpu_utilization_percent": dict.fromkeys(("host_total", "remote_total"), 1),
                       "sum_sent": sums, "sum_received": sums, "streams": []}
                with self.subTest(name=name, value=value):
                    self.assertTrue(pyperf3.diagnose(start, end, False, False))

    def vary(self, document, changes, count):
        own = document["end"]["pyperf3"]
        hosts, rows = own["remote_host"], own["remote_limits"]
        ids = pyperf3.stream_ids(len(rows))
        told = dict(RESULTS, pyperf3=hosts, streams=[
            dict(STREAM, id=number, pyperf3=without_socket(row))
            for number, row in zip(ids, rows)])
        accepted = 0
        for _ in range(count):
            text = changes.change(told)
            if len(text) > pyperf3.results_limit(len(ids), True):
                continue
            begin = time.process_time()
            try:
                room = pyperf3.ROOM_FACTOR * pyperf3.results_limit(len(ids), True)
                results = pyperf3.results_from_json(support.decode_json(text, room), ids)
            except (ValueError, pyperf3.IperfError):
                continue
            accepted += 1
            mutant = dict(own, remote_host=results.facts or {}, remote_limits=[
                dict(results.streams[number].facts or {}, socket=row["socket"],
                     sender=row["sender"])
                for number, row in zip(ids, rows) if number in results.streams])
            for low in (False, True):  # the rates as they were, and of a slow path
                end = dict(document["end"], pyperf3=mutant)
                if low:
                    end.update((name, dict(value, bits_per_second=3e6, bytes=600000))
                               for name, value in end.items() if name.startswith("sum"))
                self.judge(document["start"], end, text)
            self.assertLess(time.process_time() - begin, 1.0, text)
        self.assertGreater(accepted, count // 3)

    def judge(self, start, end, text):
        up = start["test_start"]["reverse"] == 0
        try:
            verdict = pyperf3.diagnose(start, end, up, False)
            lines = pyperf3.verdict_lines(verdict)
            encoded = pyperf3.encode_json({"verdict": verdict, "end": end})
        except Exception as error:
            raise AssertionError("%r of %s" % (error, text.decode("ascii", "replace"))) from error
        self.assertEqual(len([found for found in verdict if found["kind"] == "limit"]),
                         1 + start["test_start"]["bidir"])
        for line in lines:
            self.assertIsNone(fuzz.STEERING.search(line), (line, text[:3000]))
            self.assertLess(len(line), 400, (line, text[:3000]))
            self.assertIsNone(NAUGHT.search(line), (line, text[:3000]))
        self.assertIsNone(fuzz.STEERING.search(encoded))
        fuzz.read_documents(encoded.encode("utf-8", "surrogatepass"))


if __name__ == "__main__":
    sys.exit(unittest.main())
