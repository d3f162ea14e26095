"""How a client gets to its server: each address of a name, a port between two listeners, a wait
that is shown, errors that name the place; and what it sends last on its data connections."""

import errno
import os
import socket
import struct
import sys
import time
import unittest

import captures
import field
import figures
import pyperf3
import support
from fakes import FakeServer, SilentAddress, receive

# A resolver that knows one name, of the addresses in the environment.
RESOLVER = """
import os, socket
real = socket.getaddrinfo
def getaddrinfo(host, port, family=0, *more):
    rows = []
    if host not in (b"several.test", "several.test") or more[-1:] == (socket.AI_NUMERICHOST,):
        return real(host, port, family, *more)
    for address in os.environ["ADDRESSES"].split():
        try:
            rows += real(address, port, family, *more)
        except socket.gaierror:
            pass  # of the other family
    if not rows:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return rows
socket.getaddrinfo = getaddrinfo
"""
REFUSED = ("iperf3: error - unable to connect to server - server may have stopped running or use a"
           " different port, firewall issue, etc.: Connection refused (%s)\n")


def client(addresses, port, *arguments, code=RESOLVER, seconds=support.LIMIT):
    """Run a client of a name with these addresses."""
    return support.run(support.driver(code) + ("-c", "several.test", "-p", port) + arguments,
                       seconds, env=support.environment(ADDRESSES=addresses))


@unittest.skipUnless(sys.platform.startswith("linux"), "needs all of 127.0.0.0/8")
class SeveralAddresses(support.ServerCase):
    def good(self, left, address):
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertEqual([each["remote_host"] for each in left.json()["start"]["connected"]],
                         [address] * len(left.json()["start"]["connected"]))
        self.assertGreater(left.json()["end"].get("sum_received", left.json()["end"].get("sum"))
                           ["bytes"], 0)

    def test_first_address_where_nothing_listens_was_the_only_one_tried(self):
        port = self.serve("-B", "127.0.0.1")
        for arguments in (("-n", "1M"), ("-n", "1M", "-R", "-P", "2"), ("-u", "-n", "10K"),
                          ("-u", "-n", "10K", "-R"), ("-n", "1M", "-B", "127.0.0.1")):
            with self.subTest(arguments=arguments):
                self.good(client("127.0.0.2 127.0.0.3 127.0.0.1", port, "-J", *arguments),
                          "127.0.0.1")

    def test_of_the_other_family(self):
        if not figures.has_ipv6():
            raise unittest.SkipTest("no IPv6 here")
        port = self.serve("-4")
        self.good(client("::1 127.0.0.1", port, "-J", "-n", "1M"), "127.0.0.1")
        self.good(client("::1 127.0.0.1", port, "-J", "-n", "1M", "-4"), "127.0.0.1")
        # An own address is of one family: the other one is left out.
        self.good(client("::1 127.0.0.1", port, "-J", "-n", "1M", "-B", "127.0.0.3"), "127.0.0.1")
        left = client("::1 127.0.0.1", port, "-6")
        self.assertEqual((left.code, left.err), (
            1, REFUSED % ("several.test: ::1 port %d" % port)))
        port = self.serve("-6")
        self.good(client("127.0.0.1 ::1", port, "-J", "-u", "-n", "10K"), "::1")
        # A name of -B has an address of each.
        self.good(client("127.0.0.1 ::1", port, "-J", "-n", "1M", "-B", "several.test"), "::1")

    def test_silent_address_took_the_whole_deadline(self):
        port = self.serve("-B", "127.0.0.1")
        with SilentAddress("127.0.0.2", port):
            self.good(client("127.0.0.2 127.0.0.1", port, "-J", "-n", "1M"), "127.0.0.1")
            # A shorter deadline is shared among the addresses.
            left = client("127.0.0.2 127.0.0.1", port, "-J", "-n", "1M",
                          "--connect-timeout", "4000",
                          code=RESOLVER + "import pyperf3; pyperf3.CONNECT_DELAY = 60.0\n")
            self.good(left, "127.0.0.1")

    def test_second_address_that_answers_too_is_no_second_client(self):
        port = self.serve()
        left = client("127.0.0.2 127.0.0.1", port, "-J", "-n", "1M",
                      code=RESOLVER + "import pyperf3; pyperf3.CONNECT_DELAY = 0.0\n")
        self.good(left, left.json()["start"]["connected"][0]["remote_host"])
        self.assertEqual(self.server.err(), "")

    def test_errors_name_each_address(self):
        port = support.free_port()
        left = client("127.0.0.2 127.0.0.1", port)
        self.assertEqual((left.code, left.err), (1, REFUSED % (
            "several.test: 127.0.0.2 port %d: Connection refused; 127.0.0.1 port %d: Connection"
            " refused" % (port, port))))
        # The most telling one is that of iperf3's text.
        unreachable = RESOLVER + ("connect = socket.socket.connect_ex\n"
                                  "socket.socket.connect_ex = lambda self, place: (\n"
                                  "    101 if place[0] == '127.0.0.1' else connect(self, place))\n")
        left = client("127.0.0.2 127.0.0.1", port, code=unreachable)
        self.assertEqual((left.code, left.err), (1, REFUSED % (
            "several.test: 127.0.0.2 port %d: Connection refused; 127.0.0.1 port %d: %s"
            % (port, port, os.strerror(errno.ENETUNREACH)))))
        left = client("127.0.0.2 127.0.0.1", port, "-J")
        self.assertTrue(left.json()["error"].endswith("etc.: Connection refused"), left)

    def test_server_at_a_name_took_its_first_address_only(self):
        port = support.free_port()
        words = support.driver(RESOLVER) + ("-s", "-1", "-p", port, "-B", "several.test")
        with support.Program(words, env=support.environment(
                ADDRESSES="192.0.2.1 127.0.0.1")) as server:
            support.wait_for_listener(server, port)
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
            self.assertEqual((left.code, server.finish().code), (0, 0), left)


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


class ReopenedListener(unittest.TestCase):
    """iperf3 closes its listener behind each test, and opens another one."""

    def play(self, *first):
        """Run a client against a server that plays these, then asks for the parameters."""
        seen = []

        def script(sock):
            seen.append(None)
            if len(seen) <= len(first):
                first[len(seen) - 1](sock)
            else:
                receive(sock, 37)
                sock.sendall(b"\x09")
                receive(sock, 1)
                sock.close()
        with FakeServer(script) as server:
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", server.port,
                                               "--connect-only"))
        return left, len(seen)

    def test_reset_before_the_first_byte_failed_the_next_test(self):
        for first in (reset, lambda sock: sock.close(),
                      lambda sock: (receive(sock, 37), reset(sock)),
                      lambda sock: (receive(sock, 37), sock.close())):
            left, count = self.play(first)
            self.assertEqual((left.code, left.err, count), (0, "", 2), left)

    def test_there_is_one_retry(self):
        left, count = self.play(reset, reset, reset)
        self.assertEqual((left.code, count), (1, 2))

    def test_late_or_busy_is_no_reason_to_retry(self):
        for first in (lambda sock: (time.sleep(0.5), reset(sock)),
                      lambda sock: (sock.sendall(b"\xff"), receive(sock, 37), sock.close())):
            left, count = self.play(first)
            self.assertEqual((left.code, count), (1, 1), left)

    def test_back_to_back_tests_of_a_module(self):
        for version in ("3.22", "3.9"):
            with self.subTest(version=version):
                server, port = support.start_server(support.real(version))
                with server:
                    for _ in range(20):
                        pyperf3.Client(pyperf3.Settings(client="127.0.0.1", port=port,
                                                        bytes=100000)).run()


class Waiting(unittest.TestCase):
    """The line at a terminal that tells what is waited for."""

    def at_a_terminal(self, arguments, output=None):
        """Run a client whose standard error is a terminal; returns what came there, status."""
        try:
            import pty
        except ImportError:
            raise unittest.SkipTest("no pseudo-terminals here")
        import subprocess
        ours, theirs = pty.openpty()
        with open(os.devnull, "wb") as null:
            process = subprocess.Popen([str(word) for word in support.OURS + arguments],
                                       stdin=subprocess.DEVNULL, stdout=null, stderr=theirs,
                                       env=support.environment())
        os.close(theirs)
        text = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:
                piece = b""
            if not piece:
                break
            text += piece
        os.close(ours)
        return text.decode().replace("\r\n", "\n"), process.wait(support.LIMIT)

    def visible(self, text):
        """Return what a terminal shows at the end."""
        rows = []
        for row in text.split("\n"):
            shown = ""
            for piece in row.split("\r"):
                shown = piece + shown[len(piece):]
            rows.append(shown.rstrip())
        return "\n".join(rows)

    @unittest.skipUnless(sys.platform.startswith("linux"), "needs all of 127.0.0.0/8")
    def test_nothing_was_said_of_a_server_that_does_not_answer(self):
        with SilentAddress("127.0.0.1", 0) as silent:
            for more in ((), ("-J",)):
                words = ("-c", "127.0.0.1", "-p", silent.port, "--connect-timeout", "1900") + more
                text, status = self.at_a_terminal(words)
                self.assertRegex(text, r"\rconnecting to 127\.0\.0\.1 port %d, for [01] seconds"
                                       r" more *\r" % silent.port)
                self.assertNotIn("connecting", self.visible(text))
                self.assertEqual(status, 1)
            self.assertEqual(text.strip(), text.strip().split("\n")[0])
            left = support.run(support.OURS + words)  # no terminal
            self.assertEqual(left.err, "")

    def test_pauses_between_tries(self):
        port = support.free_port()
        text, status = self.at_a_terminal(("-c", "127.0.0.1", "-p", port, "--wait", "3.5"))
        self.assertRegex(text, r"\rtrying 127\.0\.0\.1 port %d again, for 2 seconds more *\r"
                         % port)
        self.assertEqual((self.visible(text), status), (
            "warning: waiting up to 3.5 seconds for a server: Connection refused (127.0.0.1 port"
            " %d)\n" % port + REFUSED % ("127.0.0.1 port %d" % port), 1))

    def test_first_byte(self):
        def script(sock):
            receive(sock, 37)
            time.sleep(1.5)
            sock.sendall(b"\x09")
            receive(sock, 1)
        with FakeServer(script) as server:
            text, status = self.at_a_terminal(("-c", "127.0.0.1", "-p", server.port,
                                               "--connect-only"))
        self.assertRegex(text, r"\rwaiting for 127\.0\.0\.1 port %d to answer, for 2[89] seconds"
                               r" more *\r" % server.port)
        self.assertEqual((self.visible(text), status), ("", 0))


class Errors(unittest.TestCase):
    def test_word_alone_is_taken_for_a_host(self):
        left = support.run(support.OURS + ("server.test", "-t", "5"))
        self.assertTrue(left.err.startswith(
            "iperf3: parameter error - must either be a client (-c) or server (-s) (did you mean"
            " -c server.test?)\n\nUsage: %s [-s" % support.OURS[-1]), left)

    def test_options_of_the_other_side_are_named(self):
        for words, names in ((("-s", "-R", "-t", "3"), "client only (-R/--reverse, -t/--time)"),
                             (("-c", "h", "-D"), "server only (-D/--daemon)"),
                             (("-s", "--dscp", "ef"), "client only (--dscp)"),
                             (("-s", "-A", "0,1"), "client only (-A n,m)")):
            left = support.run(support.OURS + words)
            self.assertIn("iperf3: parameter error - some option you are trying to set is %s\n"
                          % names, left.err)

    def test_places_are_named(self):
        port = support.free_port()
        for words, place in ((("-c", "127.0.0.1"), "(127.0.0.1 port %d)" % port),
                             (("-c", "127.0.0.1", "-B", "192.0.2.1"),
                              "(127.0.0.1 port %d from 192.0.2.1)" % port),
                             (("-c", "nowhere.invalid"), "(nowhere.invalid port %d)" % port),
                             (("-s", "-B", "192.0.2.1"), "(192.0.2.1 port %d)" % port)):
            left = support.run(support.OURS + words + ("-p", port))
            self.assertEqual(left.code, 1)
            self.assertTrue(left.err.split("\n")[0].endswith(place), left)

    def test_time_without_end_is_a_word_too(self):
        for text in ("inf", "Infinity", "INF", float("inf")):
            self.assertEqual(pyperf3.Settings(client="h", time=text).time, 0)
        for text in ("infinite", "nan", float("nan")):
            with self.assertRaises(pyperf3.IperfError):
                pyperf3.Settings(client="h", time=text)


class LastBytes(unittest.TestCase):
    def test_data_connections_were_closed_before_the_end_was_told(self):
        """A server that takes their end of file for the end of everything then hung."""
        for arguments in (("-t", "1"), ("-n", "1M"), ("-t", "1", "-b", "10M")):
            order = []

            def script(sock, order=order):
                receive(sock, 37)
                if order:
                    return
                order.append("begun")
                sock.sendall(b"\x09")
                receive(sock, struct.unpack("!I", receive(sock, 4))[0])
                sock.sendall(b"\x0a")
                data = server._listener.accept()[0]
                server._held.append(data)
                data.settimeout(20.0)
                receive(data, 37)
                data.settimeout(0.01)
                sock.sendall(b"\x01\x02")
                sock.settimeout(0.01)
                deadline = time.monotonic() + support.LIMIT
                while time.monotonic() < deadline:
                    for each, name in ((data, "data"), (sock, "control")):
                        try:
                            piece = each.recv(1 << 20)
                            if name == "control" or not piece:
                                order.append((name, piece))
                                return
                        except socket.timeout:
                            pass
            with FakeServer(script) as server:
                with support.Program(support.OURS + ("-c", "127.0.0.1", "-p", server.port)
                                     + arguments):
                    support.wait_until(lambda: len(order) > 1, "an end")
            self.assertEqual(order[1], ("control", b"\x04"), arguments)


class Reported(field.Case):
    """Public reports about iperf3 and its like, each with the test that would have found it."""

    # B46: iperf3 #1037; riperf3 #3
    def test_hosts_without_ipv6_and_with_both(self):
        without = support.driver("import errno, socket\n"
                                 "class Socket(socket.socket):\n"
                                 "    def __init__(self, family=-1, *more, **named):\n"
                                 "        if family == socket.AF_INET6:\n"
                                 "            raise OSError(errno.EAFNOSUPPORT, 'no IPv6 here')\n"
                                 "        super().__init__(family, *more, **named)\n"
                                 "socket.socket = Socket")
        for words in ("-n 1M", "-u -n 10K -R"):
            left, other = field.pair(words, "", without, without)
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
        left = field.client(port, host="::1")
        self.assertEqual((left.code, support.as_iperf3(left.err)),
                         (1, "iperf3: error - %s\n" % field.REFUSED))
        self.honest(port)

    # B50: iperf3 #638, #164, #830, #1162; riperf3 #154
    def test_type_of_service_on_the_command_line(self):
        for (words,), left in support.together(
                lambda words: field.run(support.OURS, "--loopback -n 1K -J " + words),
                [("-S 0xb8",), ("-S 184",), ("-S 0270",), ("--dscp ef",), ("--dscp 46",)]):
            self.assertEqual((left.code, left.err), (0, ""), left)
            self.assertEqual(left.json()["start"]["test_start"]["tos"], 184, words)
        left = field.run(support.OURS, "-c 127.0.0.1 -S 256")
        self.assertEqual(left.code, 1)
        self.assertIn("bad TOS value (must be between 0 and 255 inclusive)", left.err)


if __name__ == "__main__":
    sys.exit(unittest.main())
