"""--wait: a client that tries again while its server is busy, or not there."""

import errno
import json
import signal
import socket
import ssl
import sys
import time
import unittest

import fakes
import pyperf3
import support

LINUX = sys.platform.startswith("linux")
REFUSED = ("iperf3: error - unable to connect to server - server may have stopped running or use a"
           " different port, firewall issue, etc.: Connection refused (127.0.0.1 port %d)\n")
# A resolver that does not know a name until it was asked three times.
LATE_NAME = """
import socket
real, asked = socket.getaddrinfo, []
def getaddrinfo(host, port, family=0, *more):
    if host not in (b"late.test", "late.test"):
        return real(host, port, family, *more)
    asked.append(host)
    if more[-1:] == (socket.AI_NUMERICHOST,) or len(asked) < 6:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return real("127.0.0.1", port, family, *more)
socket.getaddrinfo = getaddrinfo
"""


def waiting(reason, seconds="30 seconds"):
    """Return the line that is said once."""
    return "warning: waiting up to %s for a server: %s\n" % (seconds, reason)


class Case(support.ServerCase):
    def client(self, port, *arguments, **more):
        program = more.pop("program", support.OURS)
        return support.Program(tuple(program) + ("-c", "127.0.0.1", "-p", port) + arguments)

    def run_client(self, port, *arguments, **more):
        begun = time.monotonic()
        with self.client(port, *arguments, **more) as client:
            left = client.finish()
        self.seconds = time.monotonic() - begun
        return left

    def assertWaited(self, left, reason, low=0.0, high=20.0):
        """See that a client with -J has waited, and ended well; returns its document."""
        self.assertEqual((left.code, left.err), (0, waiting(reason)), left)
        document = left.json()
        waited = document["end"]["pyperf3"]["waited_seconds"]
        self.assertGreaterEqual(waited, low)
        self.assertLess(waited, high)
        self.assertNotIn("warning", left.out)
        return document


class Busy(Case):
    """A server that has another test, and then is free."""

    BUSY = "the server is busy running a test"

    def occupied(self, program, *arguments):
        """Start a server, and a client of it that takes two seconds; returns the port."""
        server, port = support.start_server(program, *arguments)
        self.addCleanup(server.__exit__)
        self.server = server
        other = self.client(port, "-t", "2", "-i", "0.2", "-b", "1M")
        self.addCleanup(other.__exit__)
        other.wait_for("sec ")
        return port

    def test_real_servers(self):
        for version in ("3.22", "3.9"):
            with self.subTest(version=version):
                port = self.occupied(support.real(version))
                left = self.run_client(port, "--wait", "30", "-J", "-n", "1M")
                document = self.assertWaited(left, self.BUSY, 0.5)
                self.assertEqual(document["end"]["sum_received"]["bytes"], 1 << 20)

    def test_ours_with_each_output(self):
        def run(*more):
            return self.run_client(self.occupied(support.OURS), "--wait", "30", "-n", "1M", *more)
        for more, left in support.together(run, [(), ("--connect-only",), ("--tls",),
                                                 ("--json-stream",)]):
            self.assertEqual((left.code, left.err), (0, waiting(self.BUSY)), left)
            self.assertEqual(left.out.count("Connecting to host"), int(more in ((), ("--tls",))))
        events = [json.loads(line) for line in left.lines()]
        self.assertEqual([event["event"] for event in events],
                         ["start"] + ["interval"] * (len(events) - 2) + ["end"])
        self.assertGreater(events[-1]["data"]["pyperf3"]["waited_seconds"], 0.5)

    def test_a_real_server_of_one_test_is_not_used_up(self):
        port = self.occupied(support.real("3.22"), "-1")
        left = self.run_client(port, "--wait", "3", "-n", "1M")
        self.assertEqual((left.code, left.err), (
            1, waiting(self.BUSY, "3 seconds") + REFUSED % port), left)
        self.assertEqual(self.server.finish().code, 0)

    def test_several_wait_for_one_server(self):
        port = self.occupied(support.OURS)
        clients = [self.client(port, "--wait", "30", "-J", "-t", "1", *more)
                   for more in ((), ("-R",), ("-u",), ("--bidir",))]
        for client in clients:
            with client:
                self.assertWaited(client.finish(), self.BUSY, 0.3)

    def test_busy_when_it_has_the_parameters(self):
        """Two see a free server of ours; the one that is slower with its parameters waits on."""
        seen = []

        def script(sock):
            seen.append(fakes.receive(sock, 37))
            sock.sendall(b"\x09")
            fakes.take_frame(sock)
            sock.sendall(b"\xff" if len(seen) < 3 else b"\xfe\0\0\0\x8e\0\0\0\0")
            sock.close()
        with fakes.FakeServer(script) as server:
            left = self.run_client(server.port, "--wait", "30")
        self.assertEqual((left.code, len(set(seen))), (1, 3), left)
        self.assertEqual(left.err, waiting(self.BUSY) + "iperf3: SERVER ERROR - test authorization"
                                   " failed\niperf3: error - test authorization failed\n")


class NotThere(Case):
    """A server that is started later."""

    def later(self, *arguments, **more):
        """Run a client, and 0.7 s later its server; returns what the client left, the port."""
        port = support.free_port()
        program = more.get("program", support.OURS)
        with self.client(port, "--wait", "30", "-J", "-n", "100K", *arguments,
                         program=program) as client:
            client.wait_for_error("waiting up to")
            time.sleep(0.7)
            with support.Program(more.get("server", program) + ("-s", "-1", "-p", port)) as server:
                left = client.finish()
                self.assertEqual(server.finish().code, 0)
        return left, port

    def test_modes(self):
        for arguments, (left, port) in support.together(self.later, [
                (), ("-R", "-P", "2"), ("--bidir",), ("-u",), ("-u", "-R"), ("--tls",),
                ("--threads",)]):
            with self.subTest(arguments=arguments):
                own = self.assertWaited(left, "Connection refused (127.0.0.1 port %d)" % port, 0.7,
                                        15)["end"]["pyperf3"]
                self.assertLess(own["connect_seconds"], 2.0)

    def test_quic(self):
        left, port = self.later("--quic", program=support.with_quic())
        self.assertWaited(left, "Connection refused (127.0.0.1 port %d)" % port, 0.7, 10)

    def test_real_servers(self):
        for version in ("3.22", "3.9"):
            with self.subTest(version=version):
                left, port = self.later(server=support.real(version))
                self.assertWaited(left, "Connection refused (127.0.0.1 port %d)" % port, 0.7, 10)

    def test_connections_that_lead_to_nothing(self):
        """A container's proxy takes the connection, then sees that nobody is there."""
        for first, reason in (
                # It is a reset if the cookie has come.
                (lambda sock: sock.close(), None),
                (lambda sock: (fakes.receive(sock, 37), sock.close()),
                 "control socket has closed unexpectedly"),
                (lambda sock: (sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                               b"\1\0\0\0\0\0\0\0"), sock.close()),
                 "Connection reset by peer"),
                (lambda sock: (fakes.receive(sock, 37), sock.sendall(b"\x0b"), sock.close()),
                 "the server has terminated")):
            seen = []

            def script(sock, first=first, seen=seen):
                seen.append(None)
                if len(seen) < 6:
                    first(sock)
                    return
                fakes.receive(sock, 37)
                sock.sendall(b"\x09")
                fakes.receive(sock, 1)
                sock.close()
            with self.subTest(reason=reason), fakes.FakeServer(script) as server:
                left = self.run_client(server.port, "--wait", "30", "--connect-only", "-J")
                if reason != "the server has terminated":
                    reason = "%s (127.0.0.1 port %d)" % (
                        reason or ("Connection reset by peer" if "reset" in left.err
                                   else "control socket has closed unexpectedly"), server.port)
                self.assertWaited(left, reason, 0.2)

    def test_tls_to_what_closes_at_once(self):
        with fakes.FakeServer(lambda sock: sock.close()) as server:
            left = self.run_client(server.port, "--wait", "0.5", "--tls")
        self.assertEqual((left.code, left.err.count("\n")), (1, 2), left)
        self.assertIn("waiting up to 0.5 seconds for a server: ", left.err)

    def test_a_name_that_is_known_later(self):
        port = self.serve()
        left = support.run(support.driver(LATE_NAME) + (
            "-c", "late.test", "-p", port, "--wait", "30", "-J", "-n", "100K"))
        self.assertWaited(left, "Name or service not known (late.test port %d)" % port, 0.2)

    def test_no_need_to_wait(self):
        port = self.serve()
        for more in ((), ("-R",), ("-u",), ("--connect-only",)):
            left = self.run_client(port, "--wait", "30", "-J", "-n", "100K", *more)
            self.assertEqual((left.code, left.err), (0, ""), left)
            self.assertNotIn("waited_seconds", left.json()["end"]["pyperf3"])
        left = support.run(support.OURS + ("--loopback", "--wait", "5", "-n", "100K"))
        self.assertEqual((left.code, left.err), (0, ""), left)


class Ends(Case):
    """How a wait ends that was for nothing."""

    def test_at_the_end_of_the_time(self):
        port = support.free_port()
        reason = "Connection refused (127.0.0.1 port %d)" % port
        for more in ((), ("--tls",), ("-u",)):
            left = self.run_client(port, "--wait", "1.2", *more)
            self.assertEqual((left.code, left.out, left.err), (
                1, "", waiting(reason, "1.2 seconds") + REFUSED % port), left)
            self.assertGreaterEqual(self.seconds, 1.2)
            self.assertLess(self.seconds, 8.0)
        left = self.run_client(port, "--wait", "1", "-J")
        self.assertEqual((left.code, left.err), (1, waiting(reason, "1 second")), left)
        self.assertTrue(left.json()["error"].endswith("etc.: Connection refused"), left)
        left = self.run_client(port, "--wait", "1", "--json-stream")
        self.assertEqual((left.code, left.err), (1, waiting(reason, "1 second")), left)
        self.assertEqual([json.loads(line)["event"] for line in left.lines()], ["error", "end"])

    def test_without_it_there_is_one_try(self):
        port = support.free_port()
        for more in ((), ("--wait", "0")):
            left = self.run_client(port, *more)
            self.assertEqual((left.code, left.err), (1, REFUSED % port), left)

    @unittest.skipUnless(LINUX, "needs all of 127.0.0.0/8")
    def test_a_silent_address_takes_no_longer(self):
        with fakes.SilentAddress("127.0.0.1", 0) as silent:
            left = self.run_client(silent.port, "--wait", "1.5")
            self.assertEqual((left.code, left.err.count("\n")), (1, 1), left)
            self.assertIn("timed out (127.0.0.1 port %d)" % silent.port, left.err)
            self.assertGreaterEqual(self.seconds, 1.5)
            self.assertLess(self.seconds, 8.0)
            left = self.run_client(silent.port, "--wait", "1.5", "--connect-timeout", "300")
            self.assertEqual((left.code, left.err.count("\n")), (1, 2), left)

    def test_a_server_that_does_not_answer_takes_no_longer(self):
        with fakes.FakeServer(lambda sock: time.sleep(20)) as server:
            left = self.run_client(server.port, "--wait", "1.5")
        self.assertEqual((left.code, left.err.count("\n")), (1, 1), left)
        self.assertIn("answer to the cookie", left.err)
        self.assertLess(self.seconds, 8.0)

    def test_signals(self):
        text = "iperf3: interrupt - the client has terminated by signal Interrupt(2)\n"
        port = support.free_port()
        said = waiting("Connection refused (127.0.0.1 port %d)" % port)
        for seconds in (0.0, 1.0, 2.5):  # the pauses grow
            for more in ((), ("-J",)):
                with self.client(port, "--wait", "30", *more) as client:
                    client.wait_for_error("waiting up to")
                    time.sleep(seconds)
                    begun = time.monotonic()
                    client.signal(signal.SIGINT)
                    left = client.finish()
                self.assertLess(time.monotonic() - begun, 2.0)
                self.assertEqual((left.code, left.err), (0, said + text * (not more)), left)
                if more:
                    self.assertEqual(left.json()["error"] + "\n", text[8:])

    def test_what_will_not_pass_is_told_at_once(self):
        allowing = self.serve("--allow", "192.0.2.0/24")
        secure = self.serve("--tls-only")
        plain = self.serve()
        for words, text in (
                (("-c", "127.0.0.1", "-p", allowing), "test authorization failed"),
                (("-c", "127.0.0.1", "-p", allowing, "--tls"), "unable to set up TLS: "),
                (("-c", "127.0.0.1", "-p", secure), "the server serves clients with --tls only"),
                (("-c", "127.0.0.1", "-p", plain, "-B", "192.0.2.1"), "assign requested address"),
                (("-c", "127.0.0.1", "-p", plain, "-B", "nowhere.invalid"), "not known"),
                (("-c", "127.0.0.1", "-6"), "unable to connect"),
                (("-c", "127.0.0.1", "-p", plain, "--bind-dev", "nosuch"), "unable to connect"),
                (("-c", "127.0.0.1", "-p", plain, "--tls-ca", "/nonexistent"), "No such file")):
            with self.subTest(words=words):
                left = support.run(support.OURS + words + ("--wait", "30"))
                self.assertEqual(left.code, 1)
                self.assertNotIn("waiting", left.err)
                self.assertIn(text, left.err)
        with fakes.FakeServer(lambda sock: sock.sendall(b"HTTP/1.1 400 Bad Request\r\n")) as web:
            left = self.run_client(web.port, "--wait", "30")
        self.assertEqual((left.code, left.err.count("\n")), (1, 1), left)


class Decisions(unittest.TestCase):
    """Which errors are waited out."""

    def decide(self, error, last_state=0, tries=None):
        control = pyperf3.ControlConnection(pyperf3.Settings(client="h", wait=1), None, None)
        control._last_state, control._tries = last_state, tries or {}
        return control.may_pass(error)

    def test_numbers(self):
        for number, expected in ((121, True), (120, True), (109, True), (110, False), (142, False),
                                 (908, False), (27, False), (37, False), (903, False), (0, False),
                                 (119, False), (100, False), (22, False)):
            self.assertEqual(self.decide(pyperf3.IperfError(number)), expected, number)

    def test_repeated_tests_wait_for_a_busy_server_only(self):
        for period, seconds in (("0", 60.0), ("0/100", 100.0), ("0/3600", 600.0)):
            settings = pyperf3.Settings(client="h", repeat=period)
            self.assertEqual(settings.busy_wait, seconds)
            control = pyperf3.ControlConnection(settings, None, None)
            self.assertTrue(control.may_pass(pyperf3.IperfError(121)))
            self.assertFalse(control.may_pass(pyperf3.IperfError(109)))
        settings = pyperf3.Settings(client="h", repeat="0", wait=5)
        self.assertEqual(settings.busy_wait, 5)
        control = pyperf3.ControlConnection(settings, None, None)
        self.assertTrue(control.may_pass(pyperf3.IperfError(109)))

    def test_causes(self):
        for name in ("ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH",
                     "EPIPE", "ENETDOWN"):
            for number in (103, 105, 112):
                error = pyperf3.IperfError(number, pyperf3.system_error(getattr(errno, name)))
                self.assertTrue(self.decide(error), name)
        for name in ("EADDRNOTAVAIL", "EACCES", "EPERM", "EMFILE", "ENOMEM", "EINVAL", "ENODEV"):
            error = pyperf3.IperfError(103, pyperf3.system_error(getattr(errno, name)))
            self.assertFalse(self.decide(error), name)

    def test_names(self):
        for name, expected in (("EAI_NONAME", True), ("EAI_AGAIN", True), ("EAI_FAMILY", False),
                               ("EAI_SERVICE", False), ("EAI_MEMORY", False)):
            error = pyperf3.IperfError(103, socket.gaierror(getattr(socket, name), "text"))
            self.assertEqual(self.decide(error), expected, name)
            self.assertFalse(self.decide(error, tries={"address": error}))  # of -B

    def test_tls(self):
        def failure(cause):
            try:
                try:
                    raise cause
                except OSError:
                    raise pyperf3.IperfError(903, "text")
            except pyperf3.IperfError as error:
                return error
        self.assertTrue(self.decide(failure(pyperf3.system_error(errno.ECONNRESET))))
        self.assertTrue(self.decide(failure(ssl.SSLEOFError(8, "EOF occurred"))))
        self.assertTrue(self.decide(pyperf3.IperfError(903, OSError(errno.ETIMEDOUT, "text"))))
        self.assertFalse(self.decide(failure(ssl.SSLError(1, "alert access denied"))))
        self.assertFalse(self.decide(failure(pyperf3.system_error(errno.ENOENT))))

    def test_a_server_that_was_there(self):
        """An end of it behind its first word is no want of a server."""
        reset = pyperf3.IperfError(112, pyperf3.system_error(errno.ECONNRESET))
        for state in (pyperf3.PARAM_EXCHANGE, pyperf3.ACCESS_DENIED, pyperf3.SERVER_ERROR):
            self.assertFalse(self.decide(reset, state))
            self.assertFalse(self.decide(pyperf3.IperfError(109), state))
            self.assertTrue(self.decide(pyperf3.IperfError(121), state))

    def test_values(self):
        for text, value in (("0", 0.0), ("0.25", 0.25), ("86400", 86400.0), ("1e2", 100.0)):
            self.assertEqual(pyperf3.Settings.from_arguments(["-ch", "--wait", text]).wait, value)
        for value in (5, 2.5, "2.5"):
            self.assertEqual(pyperf3.Settings(client="h", wait=value).wait, float(value))
        for text in ("", "x", "-1", "-0.1", "86400.5", "nan", "inf", "1m", "5 s"):
            with self.assertRaises(pyperf3.IperfError) as caught:
                pyperf3.Settings.from_arguments(["-ch", "--wait", text])
            self.assertEqual(str(caught.exception), "wait valid values are 0 to 86400 seconds")


class Module(unittest.TestCase):
    def test_events_and_error(self):
        port = support.free_port()
        client = pyperf3.Client(pyperf3.Settings(client="127.0.0.1", port=port, wait=0.6))
        events = list(client)
        self.assertEqual([event["event"] for event in events],
                         ["version", "warning", "error", "end", "done"])
        self.assertEqual(client.error.number, 103)
        with self.assertRaises(pyperf3.IperfError) as caught:
            pyperf3.Client(pyperf3.Settings(client="127.0.0.1", port=port, wait=0.3)).run()
        self.assertEqual(caught.exception.number, 103)

    def test_pauses_grow(self):
        seen = []

        def script(sock):
            seen.append(time.monotonic())
            fakes.receive(sock, 37)
            sock.sendall(b"\xff")
            sock.close()
        with fakes.FakeServer(script) as server:
            with self.assertRaises(pyperf3.IperfError) as caught:
                pyperf3.Client(pyperf3.Settings(client="127.0.0.1", port=server.port,
                                                wait=4)).run()
        self.assertEqual(caught.exception.number, 121)
        pauses = [after - before for before, after in zip(seen, seen[1:])]
        for pause, least in zip(pauses, (0.1, 0.2, 0.4, 0.8, 1.6)):
            self.assertGreaterEqual(pause, least)
        self.assertIn(len(seen), (6, 7))  # 0, 0.1, 0.3, 0.7, 1.5, 3.1 and 4 s; one less if busy
        self.assertGreaterEqual(seen[-1] - seen[0], 3.9)


if __name__ == "__main__":
    unittest.main()
