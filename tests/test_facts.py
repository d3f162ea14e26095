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
NAUGHT = re.compile(r"\b(nan|inf|none|null|true|false)\b", re.I)  # no word of a verdict
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
        why = path.lack() or (None if os.path.exists(path.TUN) else "needs " + path.TUN)
        if why:
            raise unittest.SkipTest("a path " + why)

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
        for number, (state, text) in enumerate((
                (b"\x0c", "the client has terminated"), (b"\x10", None),
                (b"\x63\0\0\0", "unable to receive parameters from client: a length of"))):
            with self.subTest(state=state), fakes.connect(port) as control:
                before = len(self.server.err())
                control.sendall(pyperf3.make_cookie())
                self.assertEqual(receive(control, 1), b"\x09")
                control.sendall(state)
                while control.recv(4096):
                    pass
                support.wait_until(lambda: text is None or text in self.server.err()[before:],
                                   ("error", self.server.err), 5.0)
                if text is None:
                    self.assertEqual(self.server.err()[before:], "")
        for state, text in ((b"\x0c", "the client has terminated"), (b"\x10", None),
                            (b"\x63\0\0\0", "unable to receive results: a length of ")):
            before = len(self.server.err())
            with self.subTest(state=state), fakes.walk_to_results(port) as control:
                control.sendall(state)
                while control.recv(4096):
                    pass
                support.wait_until(lambda: text is None or text in self.server.err()[before:],
                                   ("error", self.server.err), 5.0)
                if text is None:
                    self.assertEqual(self.server.err()[before:], "")


if __name__ == "__main__":
    sys.exit(unittest.main())
