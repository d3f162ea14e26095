"""Every step has a deadline, and the error names the step. The deadlines are shortened here."""

import errno
import json
import signal
import socket
import struct
import sys
import time
import unittest

import support
from fakes import COOKIE, PARAMETERS, FakeServer, connect, frame, receive, set_up

IMPATIENT = support.with_limits(
    STEP_TIMEOUT=0.5, REPLY_TIMEOUT=0.5, DATA_TIMEOUT=1.2, WATCHDOG_GRACE=0.5)
RESULTS = {"cpu_util_total": 1, "cpu_util_user": 1, "cpu_util_system": 1,
           "sender_has_retransmits": -1,
           "streams": [{"id": 1, "bytes": 1, "retransmits": -1, "jitter": 0, "errors": 0,
                        "packets": 0, "start_time": 0, "end_time": 1}]}


class SilentServer(unittest.TestCase):
    def silence_after(self, count, *arguments):
        """Run a client against a server that goes silent after `count` steps."""
        connections = []

        def play(sock):
            connections.append(sock)
            if len(connections) > 1:
                return  # a data connection, never read
            steps = [lambda: receive(sock, 37), lambda: sock.sendall(b"\x09"),
                     lambda: receive(sock, struct.unpack("!I", receive(sock, 4))[0]),
                     lambda: sock.sendall(b"\x0a"), lambda: time.sleep(0.2),
                     lambda: sock.sendall(b"\x01"), lambda: sock.sendall(b"\x02")]
            for step in steps[:count]:
                step()
        with FakeServer(play) as server:
            return support.run(IMPATIENT + ("-c", "127.0.0.1", "-p", server.port)
                               + arguments, 30.0)

    def test_each_step_of_a_client(self):
        for count, step in ((0, "answer to the cookie"), (1, "answer to the cookie"),
                            (3, "answer to the parameters")):
            with self.subTest(count=count):
                left = self.silence_after(count)
                self.assertEqual(left.code, 1, left)
                self.assertEqual(left.err.count("\n"), 1)
                self.assertRegex(support.as_iperf3(left.err),
                                 "timed out waiting for the server's %s\n$" % step)

    def test_json_names_the_step_too(self):
        left = self.silence_after(3, "-J")
        self.assertEqual(left.code, 1)
        self.assertIn("timed out waiting for the server's answer to the parameters",
                      left.json()["error"])


class SilentClient(unittest.TestCase):
    """A server must be free again after each of these."""

    def setUp(self):
        port = support.free_port()
        self.server = support.Program(IMPATIENT + ("-s", "-p", port))
        self.addCleanup(self.server.__exit__)
        support.wait_for_listener(self.server, port)
        self.port = port

    def test_server_that_stood_still_refused_streams_that_were_there(self):
        control, cookie = set_up(self.port)
        with control:
            self.server.signal(signal.SIGSTOP)
            data = socket.create_connection(("127.0.0.1", self.port), 10.0)
            data.sendall(cookie)
            time.sleep(1.5)  # longer than its patience
            self.server.signal(signal.SIGCONT)
            with data:
                self.assertEqual(control.recv(1), b"\x01")

    def check(self, text):
        self.server.wait_for_error(text)
        self.assertNotIn("Traceback", self.server.err())
        left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", self.port, "-n", "1M"))
        self.assertEqual((left.code, left.err), (0, ""), left)

    def running(self, **more):
        control = connect(self.port)
        self.addCleanup(control.close)
        control.sendall(COOKIE + frame(dict(PARAMETERS, **more)))
        self.assertEqual(receive(control, 2), b"\x09\x0a")
        data = connect(self.port)
        self.addCleanup(data.close)
        data.sendall(COOKIE)
        self.assertEqual(receive(control, 2), b"\x01\x02")
        return control, data

    def test_half_a_cookie(self):
        sock = connect(self.port)
        self.addCleanup(sock.close)
        sock.sendall(COOKIE[:20])
        self.check("iperf3: error - unable to receive cookie at server: timed out\n")

    def test_no_parameters(self):
        sock = connect(self.port)
        self.addCleanup(sock.close)
        sock.sendall(COOKIE)
        self.check("iperf3: error - unable to receive parameters from client: timed out\n")

    def test_no_streams(self):
        sock = connect(self.port)
        self.addCleanup(sock.close)
        sock.sendall(COOKIE + frame(dict(PARAMETERS, parallel=3)))
        self.check("iperf3: error - unable to accept stream connection: timed out waiting for 3"
                   " of 3 streams\n")

    def test_no_data(self):
        control, _ = self.running(time=60)
        self.check("iperf3: error - idle timeout for receiving data\n")
        self.assertEqual(receive(control, 9), b"\xfe" + struct.pack("!ii", 144, 0))

    def test_no_end(self):
        control, _ = self.running(time=1, reverse=True)
        self.check("iperf3: error - server test duration expired: test is terminated by the"
                   " server\n")
        self.assertEqual(receive(control, 9), b"\xfe" + struct.pack(
            "!ii", 160, getattr(errno, "ETIME", errno.ETIMEDOUT)))

    def test_no_results(self):
        control, _ = self.running()
        control.sendall(b"\x04\0\0")
        self.check("iperf3: error - unable to receive results: timed out\n")

    def test_no_good_bye(self):
        control, data = self.running()
        data.sendall(b"x" * 131072)
        control.sendall(b"\x04" + frame(RESULTS))
        self.assertEqual(receive(control, 1), b"\x0d")
        size, = struct.unpack("!I", receive(control, 4))
        self.assertTrue(json.loads(receive(control, size).decode())["streams"])
        self.assertEqual(receive(control, 1), b"\x0e")
        self.server.wait_for("test #2")
        self.check("")


if __name__ == "__main__":
    sys.exit(unittest.main())
