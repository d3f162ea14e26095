"""Peers that are silent, slow, cut off, wrong or hostile, against both roles.

What is held: one clear line and iperf3's status at once, no traceback, no lasting descriptor,
and the next honest test works.
"""

import json
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
import unittest

import fakes
import field
import pyperf3
import support
from fakes import (COOKIE, PARAMETERS, FakeServer, balancer, connect, conversation, frame, pour,
                   receive, set_up, walk_to_results, whole_test)

def most_memory(pid):
    """Return the most memory that a process has held so far, in MB."""
    with open("/proc/%d/status" % pid) as status:
        return [int(line.split()[1]) for line in status if line.startswith("VmHWM")][0] // 1024


def run_client(port, *arguments):
    return support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "1") + arguments)


class HostileServers(unittest.TestCase):
    def check(self, script, text, *arguments):
        with FakeServer(script) as server:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            left = run_client(server.port, *arguments)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(left.code, 1, left)
        self.assertIn(text, left.err)
        self.assertNotIn("Traceback", left.err)
        # B01: an end of file in the middle of a read must not spin.
        self.assertLess(after.ru_utime - before.ru_utime, 3.0)
        return left

    def test_end_of_file_at_every_step(self):
        closed = "iperf3: error - control socket has closed unexpectedly\n"
        for steps in ((), (b"\x09",), (b"\x09", 10), (b"\x09", 20, b"\x0a")):
            with self.subTest(steps=steps):
                left = self.check(conversation(*steps), "iperf3: error - ")
                if steps in ((), (b"\x09",)):
                    self.assertIn(support.as_iperf3(left.err), (
                        closed, "iperf3: error - unable to receive control message - port may not"
                        " be available, the other side may have stopped running, etc.:"
                        " Connection reset by peer\n"))

    def test_reset_connection(self):
        def play(sock):
            receive(sock, 37)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        self.check(play, "Connection reset by peer")

    def test_peer_that_speaks_another_protocol_is_named(self):
        for greeting in (b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n",
                         b"220 mail ESMTP\r\n"):
            with self.subTest(greeting=greeting):
                left = self.check(lambda sock: sock.sendall(greeting), "unknown control message")
                self.assertIn("the peer sent b'%s" % greeting[:4].decode(), left.err)

    def test_unknown_state_byte(self):
        self.check(lambda sock: sock.sendall(b"\x63"),
                   "received an unknown control message (ensure other side is iperf3 and not"
                   " iperf)")

    def test_busy_literal(self):
        def play(sock):
            sock.sendall(b"\xff")
            sock.close()
        left = self.check(play, "iperf3: error - the server is busy running a test. try again"
                                " later\n")
        self.assertEqual(left.out, "")

    def test_server_errors_in_all_their_forms(self):
        def play(data):
            def script(sock):
                receive(sock, 37)
                sock.sendall(b"\x09" + data)
                sock.shutdown(socket.SHUT_WR)
                receive(sock, 10000)
            return script
        for data, lines in (
                (b"\xfe" + struct.pack("!ii", 37, 0), (
                    "SERVER ERROR - client's requested duration exceeds the server's maximum"
                    " permitted limit", "error - client's requested duration exceeds the"
                    " server's maximum permitted limit")),
                (b"\xfe" + struct.pack("!ii", 132, 22), (
                    "SERVER ERROR - unable to set CPU affinity: Invalid argument, errno: Invalid"
                    " argument", "error - unable to set CPU affinity: Invalid argument")),
                (b"\xfe" + struct.pack("!i", 142), (
                    "SERVER ERROR - test authorization failed",
                    "error - test authorization failed")),
                (b"\xfe" + struct.pack("!ii", 9999, 0), (
                    "SERVER ERROR - int_errno=9999", "error - int_errno=9999"))):
            with self.subTest(lines=lines):
                left = self.check(play(data), "")
                self.assertEqual(left.err, "".join("iperf3: %s\n" % line for line in lines))

    def test_bad_results(self):
        stream = {"id": 1, "bytes": 1, "retransmits": -1, "jitter": 0, "errors": 0, "packets": 0,
                  "start_time": 0, "end_time": 1}
        good = {"cpu_util_total": 1, "cpu_util_user": 1, "cpu_util_system": 1,
                "sender_has_retransmits": -1, "streams": [stream]}
        for results, text in (
                (frame(b"[" * 100000), "unable to receive results"),
                (frame(b"nonsense"), "unable to receive results"),
                (frame(dict(good, streams=5)), "unable to receive results"),
                (frame(dict(good, cpu_util_user="x")), "unable to receive results"),
                (frame(dict(good, streams=[dict(stream, id=2)])), "stream has an invalid id"),
                (struct.pack("!I", 2 ** 31), "unable to receive results"),
                (struct.pack("!I", 0), "unable to receive results")):
            with self.subTest(results=results[:40]):
                self.check(whole_test(results), "iperf3: error - " + text)

    def test_a_client_was_deaf_while_it_read_large_results(self):
        size = 60 * 2 ** 20
        sent = threading.Event()
        data = b'{"server_output_json":{"x":[' + b"1," * (size // 2) + b"1]}}"
        with FakeServer(whole_test(frame(data), sent)) as server:
            with support.Program(support.OURS + ("-c", "127.0.0.1", "-p", server.port, "-n", "1M",
                                                 "--get-server-output", "-J")) as client:
                self.assertTrue(sent.wait(support.LIMIT))
                time.sleep(0.2)
                self.assertLess(most_memory(client.pid), 400)
                begun = time.monotonic()
                client.signal(signal.SIGINT)
                left = client.finish()
                self.assertLess(time.monotonic() - begun, 3.0)
        self.assertIn("interrupt - the client has terminated by signal Interrupt(2)",
                      left.json()["error"])

    def test_a_client_took_gigabytes_for_large_results(self):
        data = b"{" + b",".join(b'"%x":[]' % number for number in range(2 ** 18)) + b"}"
        self.check(whole_test(frame(data)), "iperf3: error - unable to receive results: there is"
                                            " more in it than is allowed\n")

    def test_a_large_server_output_is_taken_in(self):
        text = "".join("line %d \\ \"\t\x9b\n" % number for number in range(200000))
        results = {"cpu_util_total": 1, "cpu_util_user": 1, "cpu_util_system": 1,
                   "sender_has_retransmits": -1, "streams": [
                       {"id": 1, "bytes": 1, "retransmits": -1, "jitter": 0, "errors": 0,
                        "packets": 0, "start_time": 0, "end_time": 1}]}
        for name, value in (("server_output_text", text),
                            ("server_output_json", {"intervals": [[number, text[:20]] for number
                                                                  in range(50000)]})):
            # iperf3: who did not ask for it may be sent it, too.
            for more in ((), ("--get-server-output",)):
                with self.subTest(name=name, more=more):
                    data = frame(dict(results, **{name: value}))
                    with FakeServer(whole_test(data)) as server:
                        left = run_client(server.port, "-J", *more)
                    self.assertEqual((left.code, left.err), (0, ""))
                    self.assertEqual(left.json().get(name), value if more else None)
                    self.assertNotIn("\x9b", left.out)

    def test_balancer_that_hands_the_data_to_another_server(self):
        others = [support.OURS] + [(path,) for path in [support.peers.find("3.22")] if path]
        for other in others:
            for more in ((), ("-R",), ("-P", "2")):
                with self.subTest(other=other, more=more):
                    first, port = support.start_server(support.OURS, "-1")
                    second, second_port = support.start_server(other)
                    with first, second, balancer(port, second_port) as path:
                        left = run_client(path.port, "-t", "5", *more)
                    self.assertEqual((left.code, left.err), (
                        1, "iperf3: error - unable to connect stream: the data connection reached"
                           " another server (a load balancer in between?)\n"), left)

    def test_balancer_that_hands_the_data_to_a_busy_server(self):
        first, port = support.start_server(support.OURS, "-1")
        second, second_port = support.start_server(support.OURS)
        with first, second, support.Program(support.OURS + (
                "-c", "127.0.0.1", "-p", second_port, "-b", "1M", "-t", "60")):
            second.wait_for("connected to")
            with balancer(port, second_port) as path:
                left = run_client(path.port, "-t", "5")
        self.assertIn("the data connection reached another server", left.err)

    def test_parameters_that_no_server_takes_were_sent(self):
        _, port = support.start_server(support.OURS, "-1")
        with _:
            left = run_client(port, "--extra-data", "x" * 9000)
        self.assertEqual(left.code, 1)
        self.assertRegex(left.err, r"\Aiperf3: error - unable to send parameters to server: they"
                                   r" are 9\d\d\d bytes .*, and servers take 8192\n\Z")

    def test_refused_and_unknown_host(self):
        port = support.free_port()
        for arguments in ((), ("-J",), ("--json-stream",)):
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port) + arguments)
            text = ("unable to connect to server - server may have stopped running or use a"
                    " different port, firewall issue, etc.: Connection refused")
            self.assertEqual(left.code, 1)
            if arguments == ("-J",):
                document = left.json()
                self.assertEqual((document["error"], document["intervals"], document["end"],
                                  document["start"]["connected"], left.err),
                                 (text, [], {}, [], ""))
            elif arguments:
                self.assertEqual([json.loads(line) for line in left.lines()], [
                    {"event": "error", "data": text}, {"event": "end", "data": {}}])
            else:
                self.assertEqual((left.out, support.as_iperf3(left.err)),
                                 ("", "iperf3: error - %s\n" % text))
        left = support.run(support.OURS + ("-c", "no-such-host.invalid"))
        self.assertEqual(left.code, 1)
        self.assertRegex(left.err, "^iperf3: error - unable to connect to server - .*\n$")


class HostileClients(unittest.TestCase):
    """One persistent server for the whole class; every test ends with an honest one."""

    @classmethod
    def setUpClass(cls):
        cls.server, cls.port = support.start_server(support.OURS)
        cls.descriptors = cls.count_descriptors()

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            cls.server.signal()
            left = cls.server.finish(15.0)
        assert left.code == 0 and "Traceback" not in left.err, left

    @classmethod
    def count_descriptors(cls):
        return len(os.listdir("/proc/%d/fd" % cls.server.pid))

    def honest(self):
        left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", self.port, "-n", "1M"), 20.0)
        self.assertEqual((left.code, left.err), (0, ""), left)

    def tearDown(self):
        self.honest()
        deadline = time.monotonic() + 15.0
        while self.count_descriptors() > self.descriptors:
            self.assertLess(time.monotonic(), deadline, "descriptors leak")
            time.sleep(0.05)

    def error_line(self, before):
        support.wait_until(lambda: len(self.server.err()) != before, "an error line")
        return self.server.err()[before:]

    def test_fifty_bare_connections(self):
        before = self.server.err()
        for _ in range(50):
            connect(self.port).close()
        self.honest()
        self.assertEqual(self.server.err(), before)

    def test_reset_connection(self):
        sock = connect(self.port)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()

    def test_http_request_tls_hello_and_noise(self):
        for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01" + b"a" * 60,
                     os.urandom(100000), b"\0" * 37):
            before = len(self.server.err())
            with connect(self.port) as sock:
                pour(sock, data)
            line = self.error_line(before)
            wanted = (r"unable to receive cookie at server: the peer does not speak iperf3: got"
                      r" b'.*\n\Z")
            if data[:1] == b"\x16":
                wanted = r"unable to set up TLS: .*\n\Z"
            self.assertRegex(line, r"\Aiperf3: error - " + wanted)

    def test_ten_silent_connections_delay_nobody(self):
        silent = [connect(self.port) for _ in range(10)]
        for number, sock in enumerate(silent):
            sock.sendall(COOKIE[:number * 4])
        self.honest()  # within its own limit, far below the deadline of the silent ones
        for sock in silent:
            sock.close()

    def test_silence_after_the_cookie_delays_nobody(self):
        with connect(self.port) as sock:
            sock.sendall(COOKIE)
            self.assertEqual(receive(sock, 1), b"\x09")
            self.honest()

    def test_half_a_cookie(self):
        before = len(self.server.err())
        with connect(self.port) as sock:
            sock.sendall(COOKIE[:10])
        self.assertIn("unable to receive cookie at server", self.error_line(before))

    def parameters(self, data):
        """Send a client's first two messages; return the server's answer to the end."""
        with connect(self.port) as sock:
            sock.sendall(COOKIE + data)
            sock.shutdown(socket.SHUT_WR)
            return receive(sock, 1000)

    def test_bad_parameter_documents(self):
        for data in (frame(b"nonsense"), frame(b"[" * 8000), struct.pack("!I", 0),
                     struct.pack("!I", 8193), struct.pack("!I", 2 ** 32 - 1), b"\0\0",
                     frame(b'{"tcp":true')):
            with self.subTest(data=data[:20]):
                answer = self.parameters(data)
                self.assertEqual(answer[:6], b"\x09\xfe" + struct.pack("!i", 114))

    def test_parameters_out_of_range(self):
        for member, value, number in (
                ("omit", 601, 12), ("time", -1, 5), ("time", 86401, 5), ("num", -1, 114),
                ("MSS", 32768, 10), ("parallel", 0, 6), ("parallel", 129, 6),
                ("window", 2 ** 29 + 1, 8), ("len", 0, 7), ("len", 2 ** 20 + 1, 7),
                ("burst", 0, 15), ("burst", 1001, 15), ("TOS", 256, 21), ("flowlabel", 0, 127),
                ("bandwidth", -5, 114), ("window", 400 * 2 ** 20, 141), ("MSS", 40, 123)):
            with self.subTest(member=member, value=value):
                answer = self.parameters(frame(dict(PARAMETERS, **{member: value})))
                self.assertEqual(answer[:6], b"\x09\xfe" + struct.pack("!i", number))

    def test_protocols_that_are_not_there(self):
        for name in ("udp", "sctp"):
            document = dict(PARAMETERS)
            del document["tcp"]
            document[name] = True
            self.assertEqual(self.parameters(frame(document))[:2], b"\x09\xfe")

    def test_client_vanishes_before_its_streams(self):
        before = len(self.server.err())
        self.assertEqual(self.parameters(frame(PARAMETERS))[:2], b"\x09\x0a")
        self.assertIn("closed the connection", self.error_line(before))

    def test_wrong_data_cookie_is_denied_and_the_test_goes_on(self):
        with connect(self.port) as control:
            control.sendall(COOKIE + frame(PARAMETERS))
            self.assertEqual(receive(control, 2), b"\x09\x0a")
            with connect(self.port) as stranger:
                stranger.sendall(COOKIE[::-1][1:] + b"\0" + frame(PARAMETERS))
                self.assertEqual(receive(stranger, 10), b"\xff")
            with connect(self.port) as data:
                data.sendall(COOKIE)
                self.assertEqual(receive(control, 2), b"\x01\x02")
                data.sendall(b"x" * 131072)
                control.sendall(b"\x04")
                self.assertEqual(receive(control, 1), b"\x0d")
                control.sendall(frame({
                    "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0,
                    "sender_has_retransmits": 1, "streams": []}))
                size, = struct.unpack("!I", receive(control, 4))
                self.assertEqual(json.loads(receive(control, size).decode())["streams"][0]["id"],
                                 1)
                self.assertEqual(receive(control, 1), b"\x0e")
                control.sendall(b"\x10")

    def test_who_trickled_on_after_an_early_end_held_the_server(self):
        control, cookie = set_up(self.port, time=30)
        with control, connect(self.port) as data:
            data.sendall(cookie)
            self.assertEqual(receive(control, 2), b"\x01\x02")
            control.sendall(b"\x04")
            control.settimeout(0.04)
            end = time.monotonic() + 20.0
            while time.monotonic() < end:  # the server comes to the results all the same
                data.sendall(b"x")
                try:
                    self.assertEqual(control.recv(1), b"\x0d")
                    break
                except socket.timeout:
                    pass
            self.assertLess(time.monotonic(), end)

    def test_an_end_before_the_workers_had_a_cpu_was_an_error(self):
        for _ in range(5):  # that it sent nothing is no fault: 0 bytes, as in iperf3
            program, port = support.start_server(support.OURS, "-1")
            with program:
                control, cookie = set_up(port, reverse=True)
                with control, connect(port) as data:
                    data.sendall(cookie)
                    self.assertEqual(receive(control, 2), b"\x01\x02")
                    control.sendall(b"\x04")
                    self.assertEqual(receive(control, 1), b"\x0d")

    def test_unknown_state_while_running(self):
        with connect(self.port) as control:
            control.sendall(COOKIE + frame(PARAMETERS))
            self.assertEqual(receive(control, 2), b"\x09\x0a")
            with connect(self.port) as data:
                data.sendall(COOKIE)
                self.assertEqual(receive(control, 2), b"\x01\x02")
                control.sendall(b"\x63")
                self.assertEqual(receive(control, 5), b"\xfe" + struct.pack("!i", 110))

    def test_bad_results(self):
        for results in (frame(b"5"), frame({"streams": []}), struct.pack("!I", 0), b"\0\0\0"):
            with connect(self.port) as control:
                control.sendall(COOKIE + frame(PARAMETERS))
                self.assertEqual(receive(control, 2), b"\x09\x0a")
                with connect(self.port) as data:
                    data.sendall(COOKIE)
                    self.assertEqual(receive(control, 2), b"\x01\x02")
                    control.sendall(b"\x04" + results)
                    control.shutdown(socket.SHUT_WR)
                    self.assertEqual(receive(control, 6),
                                     b"\x0d\xfe" + struct.pack("!i", 117))


class LargeResults(support.ServerCase):
    """Clients whose results are larger than a test's can be, beside an honest client."""

    def test_large_results_held_up_the_tests_of_others(self):
        port = self.serve("--max-clients", "8")
        stop = threading.Event()

        def attack(unit):
            data = frame(b'{"x":[' + unit * (64 * 2 ** 20 // len(unit)) + b"1]}")
            while not stop.is_set():
                try:
                    with walk_to_results(port) as control:
                        control.settimeout(10.0)
                        control.sendall(data)
                except (OSError, AssertionError):
                    pass
        threads = [threading.Thread(target=attack, args=(unit,))
                   for unit in (b"1,", b"[" * 90 + b"]" * 90 + b",")]
        for thread in threads:
            thread.start()
        try:
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "2", "-b",
                                               "10M", "-J"))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual((left.code, left.err), (0, ""))
        for name in ("sum_sent", "sum_received"):
            self.assertAlmostEqual(left.json()["end"][name]["bits_per_second"], 1e7, delta=3e6)
        self.assertLess(most_memory(self.server.pid), 100)
        self.assertIn("unable to receive results: a length of ", self.server.err())

    def test_results_within_the_limit_of_hostile_shapes_are_refused(self):
        port = self.serve()
        for data in (b"[" + b"[]," * 5000 + b"1]", b"{" + b'"a":{},' * 2000 + b'"b":' + b"9" * 5000,
                     b'{"server_output_text":"' + b"x" * 20000 + b'"}'):
            with walk_to_results(port) as control:
                control.sendall(frame(data))
                self.assertEqual(receive(control, 5), b"\xfe" + struct.pack("!i", 117))

    def test_who_sends_on_after_the_end_leaves_others_their_turns(self):
        ours, theirs = socket.socketpair()
        loop, turns, over, amount = pyperf3.Loop(), [], threading.Event(), []

        def flood():
            try:
                while not over.is_set():
                    amount.append(theirs.send(b"x" * 200000))
            except OSError:
                pass

        def count():
            while not closing.done:
                turns.append(None)
                yield from pyperf3.pause(0)
        ours.setblocking(False)
        thread = threading.Thread(target=flood)
        thread.start()
        closing = loop.spawn(pyperf3.close_orderly(ours, 60.0))
        counting = loop.spawn(count())
        while not counting.done:
            loop.run_once()
        over.set()
        theirs.close()
        thread.join()
        loop.close()
        self.assertGreater(len(turns), 10)
        self.assertLess(sum(amount), 4 * 2 ** 20)


class OneOff(unittest.TestCase):
    def test_a_probe_does_not_use_up_the_one_test(self):
        server, port = support.start_server(support.OURS, "-1")
        with server:
            connect(port).close()
            with connect(port) as sock:
                sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
            self.assertEqual(left.code, 0, left)
            self.assertEqual(server.finish(15.0).code, 0)

    def test_a_refused_client_uses_it_up(self):
        server, port = support.start_server(support.OURS, "-1")
        with server:
            left = support.run(support.real("3.22") + ("-c", "127.0.0.1", "-p", port, "-w",
                                                       "400M"))
            self.assertEqual(left.code, 1)
            self.assertIn("SERVER ERROR - socket buffer size not set correctly", left.err)
            other = server.finish(15.0)
            self.assertEqual((other.code, other.err),
                             (0, "iperf3: error - socket buffer size not set correctly\n"))

    def test_json_server_prints_one_document_per_test_and_one_for_noise(self):
        server, port = support.start_server(support.OURS, "-J")
        with server:
            connect(port).close()
            with connect(port) as sock:
                sock.sendall(b"nonsense, nonsense, nonsense, nonsense!")
                sock.shutdown(socket.SHUT_WR)
                receive(sock, 10)
            for _ in range(2):
                left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
                self.assertEqual(left.code, 0, left)
            server.signal()
            out = server.finish(15.0).out
            documents, decoder, at = [], json.JSONDecoder(), 0
            while out[at:].strip():
                document, end = decoder.raw_decode(out[at:].lstrip())
                at += len(out[at:]) - len(out[at:].lstrip()) + end
                documents.append(document)
            self.assertEqual(["error" in document for document in documents],
                             [True, False, False, True])


class Reported(field.Case):
    """Public reports about iperf3 and its like, each with the test that would have found it."""

    # B01: micropython#18161, home-assistant/core#75775
    def test_end_of_file_in_the_middle_of_a_read_spins(self):
        for steps in ((), (b"\x09",), (b"\x09", 2), (b"\x09", 40)):
            with self.subTest(steps=steps), fakes.FakeServer(fakes.conversation(*steps)) as server:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                left = field.client(server.port, seconds=20.0)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                self.assertEqual(left.code, 1, left)
                self.assertRegex(left.err, r"\Aiperf3: error - [^\n]+\n\Z")
                self.assertLess(after.ru_utime - before.ru_utime, 3.0)
        server, port = self.serve()
        with fakes.connect(port) as sock:
            sock.sendall(fakes.COOKIE[:10])
        self.honest(port)
        left = self.end(server)
        self.assertEqual(left.err.count("\n"), 2, left)  # the other one is the signal's

    # B02: iperf3 #404, #445, #407, #1882; wifi-heat-mapper's liveness probe
    def test_a_bare_connect_kills_the_server(self):
        def bare(sock):
            pass

        def reset(sock):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        def says(data):
            def talk(sock):
                try:
                    sock.sendall(data)
                    sock.shutdown(socket.SHUT_WR)
                    fakes.receive(sock, 10 ** 6)
                except OSError:
                    pass  # it is not listened to
            return talk
        server, port = self.serve()
        real = support.real("3.22")
        descriptors = support.descriptors(server.pid)
        for talk in (bare, reset, says(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
                     says(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"r" * 505),
                     says(bytes(bytearray(range(256)) * 400)), says(os.urandom(100000))):
            for _ in range(10 if talk is bare else 1):
                with fakes.connect(port) as sock:
                    talk(sock)
            self.honest(port, "-n 1M -i 0.1", real)
        self.assertIsNone(server.process.poll())
        support.wait_until(lambda: support.descriptors(server.pid) == descriptors,
                        "no descriptor is left")
        self.assertEqual(self.end(server).code, 0)

    # B23: iperf3 #225, #416, #819, #1735, #1986
    def test_a_dead_client_wedges_the_server(self):
        def running(number, *words):
            server, port = self.serve(*words)
            with support.Program(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "60", "-i",
                                                 "0.2"), start_new_session=True) as program:
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
            return self.serve(command=field.IMPATIENT)

        def vanishes_before_its_streams():
            server, port = hasty()
            with fakes.connect(port) as control:
                control.sendall(fakes.COOKIE + fakes.frame(field.PARAMETERS))
                self.assertEqual(fakes.receive(control, 2), b"\x09\x0a")
            server.wait_for("(test #2)", 30.0)
            control = fakes.connect(port)
            self.addCleanup(control.close)
            control.sendall(fakes.COOKIE + fakes.frame(field.PARAMETERS))
            self.assertEqual(fakes.receive(control, 2), b"\x09\x0a")
            server.wait_for("(test #3)", 30.0)  # nothing is said any more
            return port

        def vanishes_before_its_results():
            server, port = hasty()
            for number, is_open in ((2, False), (3, True)):
                control, data = field.begin(port)
                control.sendall(b"\x04\0\0")
                self.assertEqual(fakes.receive(control, 1), b"\x0d")
                if is_open:
                    self.addCleanup(control.close)
                else:
                    control.close()
                data.close()
                server.wait_for("(test #%d)" % number, 30.0)
            return port
        real = support.real("3.22")
        for _, port in support.together(lambda function: function(), [
                (killed,), (stopped,), (vanishes_before_its_streams,),
                (vanishes_before_its_results,)]):
            self.honest(port, "-n 1M -i 0.1 -B 127.0.0.2", real)

    # B24: iperf3 #1808
    def test_a_silent_connection_blocks_the_queue(self):
        _, port = self.serve()
        over = threading.Event()
        silent = [fakes.connect(port) for _ in range(10)]
        self.addCleanup(lambda: [sock.close() for sock in silent])
        silent[0].sendall(fakes.COOKIE[:36])

        def drip():
            for letter in bytearray(fakes.COOKIE[:36]):
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

    # B25: iperf3 #1862
    def test_a_silent_server_hangs_the_client(self):
        def after(data):
            def play(sock):
                fakes.receive(sock, 37)
                sock.sendall(data)
            return play
        with fakes.FakeServer(after(b"")) as first, fakes.FakeServer(after(b"\x09")) as second:
            for (port, step), left in support.together(
                    lambda port, step: field.client(port, command=field.IMPATIENT, seconds=30.0),
                    [(first.port, "answer to the cookie"),
                     (second.port, "answer to the parameters")]):
                self.assertEqual((left.code, left.err.count("\n")), (1, 1), left)
                self.assertIn("timed out waiting for the server's " + step, left.err)
        with socket.socket() as deaf, socket.socket() as first:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            first.connect(deaf.getsockname())  # this one fills its queue
            left = field.client(deaf.getsockname()[1], "-t 1 --connect-timeout 500", seconds=20.0)
        self.assertEqual((left.code, left.out), (1, ""), left)
        self.assertRegex(left.err, r"\Aiperf3: error - unable to connect to server - [^\n]*"
                                   r"timed out[^\n]*\n\Z")

    # B61: iperf3 #74, #530, #1051, #927
    def test_peers_that_are_not_iperf3(self):
        for greeting, text in (
                (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the peer sent b'HTTP"),
                (b"SSH-2.0-OpenSSH_9.2\r\n", "the peer sent b'SSH-"),
                (b"\x63", "received an unknown control message (ensure other side is iperf3 and"
                          " not iperf)")):
            with fakes.FakeServer(lambda sock: sock.sendall(greeting)) as server:
                left = field.client(server.port, seconds=20.0)
            self.assertEqual((left.code, left.err.count("\n")), (1, 1), left)
            self.assertIn(text, left.err)
        server, port = self.serve()
        with fakes.connect(port) as sock:  # iperf 2: a header of numbers, then its payload
            sock.sendall(struct.pack("!6i", -(2 ** 31), 1, 5001, 131072, 0, -1000) + b"0123" * 50)
            self.assertIn(fakes.receive(sock, 10)[:1], (b"", b"\xfe", b"\xff"))
        self.honest(port)
        self.assertIn("unable to receive cookie at server: the peer does not speak iperf3: got b'",
                      self.end(server).err)


if __name__ == "__main__":
    sys.exit(unittest.main())
