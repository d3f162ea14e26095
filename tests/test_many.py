"""A server of several clients (--max-clients), of known ones (--allow), and of ones gone silent."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import types
import unittest

import fakes
import pyperf3
import support
from fakes import receive

LINE = re.compile(r"#\d+: |-{59}\Z|Server listening on ")


def client(port, *arguments, **more):
    return support.run(more.get("program", support.OURS)
                       + ("-c", more.get("host", "127.0.0.1"), "-p", port) + arguments)


class Case(support.ServerCase):
    def start(self, port, *arguments):
        """Start a client, and wait for its first report; returns the Program."""
        program = support.Program(support.OURS + ("-c", "127.0.0.1", "-p", port) + arguments)
        self.addCleanup(program.__exit__)
        program.wait_for("sec ")
        return program

    def assertAllWorked(self, results):
        for left in results:
            self.assertEqual((left.code, left.err), (0, ""), left)


class SeveralClients(Case):
    """--max-clients."""

    def test_sixteen_at_once_of_every_kind(self):
        port = self.serve("--max-clients", "16", "-J")
        kinds = ("", "-R", "--bidir", "-P 2", "-u -b 1M -l 1000", "-u -b 1M -l 1000 -R",
                 "-u -b 1M -l 1000 --bidir -P 2", "-w 100K")
        results = support.at_once([
            lambda words=words: client(port, "-t", "1", "-J", *words.split())
            for words in kinds * 2])
        self.assertAllWorked(results)
        cookies = set()
        for words, left in zip(kinds * 2, results):
            document = left.json()
            with self.subTest(arguments=words):
                self.assertNotIn("error", document)
                cookies.add(document["start"]["cookie"])
                end = document["end"]
                for name in end:
                    if name.startswith("sum_received"):
                        self.assertGreater(end[name]["bytes"], 0)
                if "-u" in words:
                    self.assertEqual(end["sum"]["lost_packets"], 0)
                    self.assertLess(abs(end["sum_sent"]["bytes"] - end["sum_received"]["bytes"]),
                                    100000)
        self.server.signal()
        left = self.server.finish(20.0)
        decoder, documents, text = json.JSONDecoder(), [], left.out.strip()
        while text:
            document, at = decoder.raw_decode(text)
            documents.append(document)
            text = text[at:].lstrip()
        # The last one says that the server was ended.
        self.assertEqual({each["start"]["cookie"] for each in documents[:-1]}, cookies)
        self.assertEqual(len(documents), 17)

    def test_lines_name_their_test(self):
        port = self.serve("--max-clients", "4", "-i", "0.2")
        self.assertAllWorked(support.at_once([
            lambda words=words: client(port, "-t", "1", *words.split())
            for words in ("", "-R", "-P 2", "-u -b 1M")]))
        self.server.wait_for("Server listening on", count=2)
        lines = self.server.out().split("\n")[:-1]
        for line in lines:
            self.assertRegex(line, LINE)
        numbers = [line.partition(":")[0] for line in lines if line.startswith("#")]
        self.assertEqual(set(numbers), {"#1", "#2", "#3", "#4"})
        for number in set(numbers):
            own = "\n".join(line for line in lines if line.startswith(number + ":"))
            self.assertRegex(own, r"\A%s: Accepted connection from 127\.0\.0\.1" % number)
            self.assertRegex(own, r"(sender|receiver)\Z")

    def test_events_name_their_test(self):
        port = self.serve("--max-clients", "3", "--json-stream")
        self.assertAllWorked(support.at_once([lambda: client(port, "-t", "1") for _ in range(3)]))
        events = [json.loads(line) for line in self.server.out().split("\n") if line]
        for number in (1, 2, 3):
            names = [event["event"] for event in events if event["test"] == number]
            self.assertEqual((names[0], names[-1]), ("start", "end"))
            self.assertIn("interval", names)

    def test_one_more_is_told_that_the_server_is_busy(self):
        port = self.serve("--max-clients", "2")
        running = [self.start(port, "-t", "20") for _ in range(2)]
        left = client(port, "-t", "1")
        self.assertEqual((left.code, left.err), (
            1, "iperf3: error - the server is busy running a test. try again later\n"))
        for program in running:
            with program:
                program.signal(signal.SIGINT)
                self.assertEqual(program.finish(20.0).code, 0)
        self.assertAllWorked([client(port, "-n", "1M")])

    def test_errors_name_their_test_and_leave_the_others_alone(self):
        port = self.serve("--max-clients", "3")
        with support.Program(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "30")) as killed:
            killed.wait_for("sec ")
            other = threading.Thread(target=killed.signal, args=(signal.SIGKILL,))
            other.start()
            self.assertAllWorked([client(port, "-t", "1")])
            other.join()
        self.server.wait_for_error("\n")
        self.assertRegex(self.server.err(), r"\Aiperf3: #1: ")

    def test_signal_ends_all_tests(self):
        port = self.serve("--max-clients", "3")
        running = [self.start(port, "-t", "20") for _ in range(3)]
        self.server.signal()
        for program in running:
            with program:
                left = program.finish(20.0)
                self.assertEqual(left.err, "iperf3: error - the server has terminated\n")
        left = self.server.finish(20.0)
        self.assertEqual(left.code, 0)
        self.assertEqual(left.err.count("the server has terminated by signal Terminated(15)"), 3)

    def test_one_off_serves_one(self):
        port = self.serve("--max-clients", "3", "-1")
        self.assertAllWorked([client(port, "-n", "1M")])
        self.assertEqual(self.server.finish(20.0).code, 0)

    def test_window_of_one_was_inherited_by_another(self):
        port = self.serve("--max-clients", "3")
        windowed, cookie = fakes.set_up(port, window=4096)
        plain, other = fakes.set_up(port)
        scales = []
        for name in (other, cookie):
            with socket.create_connection(("127.0.0.1", port), 20.0) as sock:
                sock.sendall(name)
                info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)
                scales.append(info[6] & 15)  # what the server's end announced
        self.assertGreater(scales[0], 0)
        windowed.close()
        plain.close()
        self.server.wait_for_error("warning: #1: a server of several clients has -w 16384 at the"
                                   " least\n")

    def test_small_window(self):
        port = self.serve("--max-clients", "2")
        left = client(port, "-w", "4K", "-t", "1", "-J")
        self.assertAllWorked([left])
        self.assertGreater(left.json()["end"]["sum_received"]["bytes"], 10 * 16384)

    def test_real_clients_beside_ours(self):
        port = self.serve("--max-clients", "8")
        programs = [support.real("3.22"), support.real("3.9"), support.OURS]
        results = support.at_once([
            lambda program=program, words=words: client(port, "-t", "1", *words.split(),
                                                        program=program)
            for program in programs for words in ("-P 2", "-u -b 1M")])
        self.assertAllWorked(results)

    def test_out_of_range(self):
        for number in ("0", "1001", "-1"):
            left = support.run(support.OURS + ("-s", "--max-clients", number))
            self.assertEqual(left.code, 1)
            self.assertTrue(left.err.startswith(
                "iperf3: parameter error - max-clients valid values are 1 to 1000\n"), left.err)


class Places(Case):
    """Who gets a place, and what is left of one who had it."""

    def test_late_data_connection_was_taken_into_a_failed_test(self):
        port = self.serve("--max-clients", "2")
        sock, cookie = fakes.set_up(port, parallel=2)
        with sock, socket.create_connection(("127.0.0.1", port), 20.0) as first:
            first.sendall(cookie)
            self.server.wait_for("connected to")
            sock.sendall(b"\x63")  # no state
            self.server.wait_for("Server listening", count=2)
            with socket.create_connection(("127.0.0.1", port), 20.0) as second:
                second.sendall(cookie)
                second.recv(1)
        self.assertAllWorked([client(port, "-n", "1M")])
        lines = self.server.out().split("\n")
        self.assertEqual(sum(line.startswith("#1:") for line in lines), 2, lines)

    def test_two_newcomers_waited_for_the_same_silent_test(self):
        port = self.serve("--max-clients", "2")
        silent = []
        for _ in range(2):
            sock, cookie = fakes.set_up(port, time=0)
            data = socket.create_connection(("127.0.0.1", port), 20.0)
            data.sendall(cookie)
            self.assertEqual(sock.recv(1), b"\x01")
            silent += [sock, data]
        time.sleep(8.5)
        newcomers = [socket.create_connection(("127.0.0.1", port), 20.0) for _ in range(2)]
        for sock in newcomers:
            sock.sendall(pyperf3.make_cookie())
        self.assertEqual([sock.recv(1) for sock in newcomers], [b"\x09"] * 2)
        for sock in newcomers:
            sock.sendall(pyperf3.encode_frame(pyperf3.Parameters().to_json()))
        self.assertEqual([sock.recv(1) for sock in newcomers], [b"\x0a"] * 2)
        for sock in silent + newcomers:
            sock.close()

    def test_connections_that_had_sent_a_cookie_were_in_no_cap(self):
        port = self.serve("--max-clients", "2")
        waiting = []
        for _ in range(pyperf3.MAX_PENDING + 10):
            sock = socket.create_connection(("127.0.0.1", port), 20.0)
            sock.sendall(pyperf3.make_cookie())
            self.assertEqual(sock.recv(1), b"\x09")
            waiting.append(sock)
        said = waiting[0].recv(9)
        self.assertEqual((said[:1], said[4:5]), (b"\xfe", b"\x72"))  # error 114
        self.server.wait_for_error("too many connections")
        self.assertAllWorked([client(port, "-n", "1M")])
        for sock in waiting:
            sock.close()

    def silent_connections(self, port, count):
        """Begin connections all at once, faster than they can be accepted."""
        for _ in range(count):
            sock = socket.socket()
            self.addCleanup(sock.close)
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))

    @unittest.skipUnless(sys.platform.startswith("linux"), "needs /proc")
    def test_burst_of_connections_went_past_the_cap(self):
        port = self.serve()
        self.silent_connections(port, 600)
        self.assertAllWorked([client(port, "-n", "1M")])
        self.assertLess(support.descriptors(self.server.pid), pyperf3.MAX_PENDING + 50)

    @unittest.skipUnless(sys.platform.startswith("linux"), "needs /proc")
    def test_silent_connections_had_all_the_descriptors(self):
        port = self.serve(program=("bash", "-c", 'ulimit -n 64; exec "$@"', "bash") + support.OURS)
        self.silent_connections(port, 200)
        for more in ((), ("-P", "20"), ("-P", "20", "-R"), ("-u", "-P", "4")):
            self.assertAllWorked([client(port, "-n", "1M", *more)])
        self.assertLess(support.descriptors(self.server.pid), 40)

    def test_silent_set_ups_of_udp_held_up_others_of_their_address_for_ten_seconds_each(self):
        port = self.serve("--max-clients", "8")
        silent = [fakes.set_up(port, protocol="UDP", length=1400)[0]]
        for _ in range(3):  # which have to wait for their turn
            sock = socket.create_connection(("127.0.0.1", port), 20.0)
            sock.sendall(pyperf3.make_cookie())
            parameters = pyperf3.Parameters()
            parameters.protocol, parameters.length = "UDP", 1400
            sock.sendall(pyperf3.encode_frame(parameters.to_json()))
            silent.append(sock)
        self.assertAllWorked([client(port, "-u", "-n", "100K")])
        for number, sock in enumerate(silent):
            with sock:
                said = receive(sock, 9 if not number else 11)
                self.assertEqual(said[-9:-4], b"\xfe\0\0\0\xcc")  # error 204


class Turns(Case):
    """Time that a server makes a client wait is not that client's silence."""

    def serve_with(self, **numbers):
        """Start a server of two places with other limits."""
        code = "\n".join("pyperf3.%s = %r" % pair for pair in numbers.items())
        return self.serve("--max-clients", "2", program=support.driver("import pyperf3\n" + code))

    def hog(self, port):
        """Set up streams at leisure, for others to wait behind; returns the control connection."""
        sock, _ = fakes.set_up(port, protocol="UDP", length=1400, parallel=120)
        self.addCleanup(sock.close)
        over = threading.Event()

        def send():
            streams = []
            while not over.wait(0.5 if streams else 0.0):
                streams.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                streams[-1].sendto(pyperf3.HELLO, ("127.0.0.1", port))
            for stream in streams:
                stream.close()
        thread = threading.Thread(target=send)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(over.set)
        return sock

    def ask(self, port):
        """Ask for a test; returns the connection."""
        sock, document = socket.create_connection(("127.0.0.1", port), 60.0), pyperf3.Parameters()
        self.addCleanup(sock.close)
        sock.sendall(pyperf3.make_cookie())
        self.assertEqual(sock.recv(1), b"\x09")
        document.protocol, document.length = "UDP", 1400
        sock.sendall(pyperf3.encode_frame(document.to_json()))
        return sock

    def test_waiting_for_a_turn_was_silence(self):
        port = self.serve_with(SILENCE_TIMEOUT=3.0, TURN_PATIENCE=12.0)
        self.hog(port)
        honest = self.ask(port)
        time.sleep(4.5)
        with socket.create_connection(("127.0.0.1", port), 60.0) as other:
            other.sendall(pyperf3.make_cookie())
            self.assertEqual(other.recv(1), b"\xff")  # nobody was silent
        self.assertEqual(honest.recv(1), b"\x0a")

    def test_turn_had_no_end_as_long_as_hellos_came(self):
        port = self.serve_with(TURN_PATIENCE=3.0)
        hog = self.hog(port)
        self.assertEqual(self.ask(port).recv(1), b"\x0a")
        self.assertEqual(receive(hog, 5), b"\xfe\0\0\0\xcc")  # error 204

    def test_those_for_whom_there_is_no_turn_are_told_in_time(self):
        port = self.serve_with(LONGEST_WAIT=1.0)
        self.hog(port)
        self.assertEqual(receive(self.ask(port), 5), b"\xfe\0\0\0\x79")  # error 121
        self.server.wait_for_error("try again later: too many others of this address")

    def test_making_credentials_and_looking_at_them_was_silence(self):
        """So was the time in which data connections waited to be attached."""
        conversation, _ = support.conversation()

        def step():
            self.assertEqual(conversation.silence(time.monotonic() + 100.0), 0.0)
            yield
        self.assertGreater(conversation.silence(time.monotonic() + 100.0), 99.0)
        for _ in conversation.keep_waiting(step()):
            self.assertEqual(conversation.silence(time.monotonic() + 100.0), 0.0)
        self.assertGreater(conversation.silence(time.monotonic() + 100.0), 99.0)
        conversation._arrivals = types.SimpleNamespace(pending=lambda: 1)
        self.assertEqual(conversation.silence(time.monotonic() + 100.0), 0.0)


class Doors(unittest.TestCase):
    """UDP tests that are set up side by side, in a server in this process."""

    def test_a_stream_that_cannot_be_made_ended_another_test_and_the_server(self):
        real, failing = pyperf3.open_datagram_socket, []

        def fake(*arguments):
            if failing:
                raise pyperf3.IperfError(202, OSError(24, "Too many open files"))
            return real(*arguments)
        port, errors = support.free_port(), []
        server = pyperf3.Server(pyperf3.Settings(server=True, port=port, max_clients=4))

        def serve():
            for event in server:
                if event["event"] == "error":
                    errors.append((event.get("test"), event["data"]))
        thread = threading.Thread(target=serve)
        pyperf3.open_datagram_socket = fake
        try:
            thread.start()
            while not support.listens(port):
                time.sleep(0.01)
            sockets = [fakes.set_up(port, source, protocol="UDP", length=1400)[0]
                       for source in ("127.0.0.2", "127.0.0.3")]
            failing.append(True)
            hello = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sockets.append(hello)
            hello.bind(("127.0.0.2", 0))
            for _ in range(3):
                hello.sendto(pyperf3.HELLO, ("127.0.0.1", port))
            deadline = time.monotonic() + 20.0
            while not errors and time.monotonic() < deadline:
                time.sleep(0.01)
            del failing[:]
            self.assertEqual(errors, [(1, "error - unable to start stream listener: Too many open"
                                          " files")])
            self.assertAlive(thread, port)
        finally:
            pyperf3.open_datagram_socket = real
            server.stop()
            thread.join(20.0)
        for sock in sockets:
            sock.close()

    def test_answer_that_could_not_be_sent_ended_the_test(self):
        """For want of a route, say: it is sent as soon as there is one, to one hello."""
        class Sock(socket.socket):
            def connect(self, address):
                if failing:
                    raise OSError(failing.pop(), "Network is unreachable")
                socket.socket.connect(self, address)
        failing = [errno.ENETUNREACH] * 3
        parameters = pyperf3.Parameters()
        parameters.protocol, parameters.length = "UDP", 1400
        with socket.socket() as control, socket.socket(
                socket.AF_INET, socket.SOCK_DGRAM) as hello:
            control.bind(("127.0.0.1", 0))
            real, pyperf3.datagram_socket = pyperf3.datagram_socket, lambda family: Sock(
                family, socket.SOCK_DGRAM)
            try:
                conversation, _ = support.conversation(control)
                transport = pyperf3.make_transport(conversation.settings, parameters, True)
                source = transport.listen(conversation)
                hello.sendto(pyperf3.HELLO, source.socket.getsockname())
                hello.settimeout(0.02)
                streams, answer, end = [], b"", time.monotonic() + 20.0
                while not answer and time.monotonic() < end:
                    streams += source.serve()
                    try:
                        answer = hello.recv(100)
                    except socket.timeout:
                        pass
                self.assertEqual((answer, len(streams), failing), (b"6789", 1, []))
                failing.append(errno.EBADF)
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                    parameters.parallel = 2
                    other.sendto(pyperf3.HELLO, source.socket.getsockname())
                    with self.assertRaises(pyperf3.IperfError):
                        for _ in range(100):
                            source.serve()
                            time.sleep(0.02)
            finally:
                pyperf3.datagram_socket = real
                source.close()
                for sock in streams:
                    sock.close()

    def assertAlive(self, thread, port):
        left = client(port, "-n", "1M")
        self.assertEqual((left.code, left.err, thread.is_alive()), (0, "", True))


class ManyTests(Case):
    """Many tests on one server: nothing grows."""

    def figures(self):
        """Return (KiB resident, descriptors) of the server once its connections are closed."""
        folder = "/proc/%d/fd" % self.server.pid
        count, since, end = -1, 0.0, time.monotonic() + 20.0
        while time.monotonic() < min(end, since + 0.5) or count < 0:
            now = len(os.listdir(folder))
            if now != count:
                count, since = now, time.monotonic()
            time.sleep(0.02)
        with open("/proc/%d/status" % self.server.pid) as file:
            text = file.read()
        memory, = re.findall(r"VmRSS:\s*(\d+) kB", text)
        return int(memory), count

    def test_a_hundred_in_a_row_and_sixteen_at_once(self):
        port = self.serve("--max-clients", "16")
        real = support.real("3.22")
        for number in range(10):
            self.assertAllWorked([client(port, "-n", "1")])
        before = self.figures()
        script = ("for i in $(seq 23); do %s -c 127.0.0.1 -p %d -n 1 >/dev/null || echo bad; done"
                  % (" ".join(support.OURS), port))
        chains = [subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
                  for _ in range(4)]
        for _ in range(8):
            self.assertAllWorked([client(port, "-n", "1M", program=real)])
        for chain in chains:
            self.assertEqual(chain.communicate(timeout=60)[0], b"")
        self.assertAllWorked(support.at_once([lambda: client(port, "-n", "1M") for _ in range(16)]))
        self.server.wait_for("(test #%d)" % (10 + 4 * 23 + 8 + 16 + 1))
        after = self.figures()
        self.assertLess(after[0], before[0] + 4096, (before, after))
        self.assertEqual(after[1], before[1])


class Allowed(Case):
    """--allow."""

    def test_only_these_networks(self):
        port = self.serve("--allow", "192.0.2.0/24", "--allow", "127.0.0.2/32", "--allow", "::1")
        left = client(port, "-n", "1M")
        self.assertEqual(left.code, 1)
        self.assertIn("iperf3: error - test authorization failed\n", left.err)
        self.assertAllWorked([client(port, "-n", "1M", "-B", "127.0.0.2"),
                              client(port, "-n", "1M", host="::1"),
                              client(port, "-u", "-n", "10K", "-B", "127.0.0.2")])
        self.server.wait_for_error("\n")
        self.assertEqual(self.server.err(), "warning: 127.0.0.1 is not allowed to test\n")

    def test_ipv4_mapped_networks_never_matched(self):
        port = self.serve("--allow", "::ffff:127.0.0.0/126")
        self.assertAllWorked([client(port, "-n", "1M", "-B", "127.0.0.2")])
        self.assertEqual(client(port, "-n", "1M", "-B", "127.0.0.5").code, 1)
        read = pyperf3.Settings.from_arguments
        self.assertEqual([str(read(["-s", "--allow", text]).allow[0]) for text in (
            "::ffff:10.0.0.0/104", "::ffff:a00:1", "2001:db8::/96", "::/0")],
                         ["10.0.0.0/8", "10.0.0.1/32", "2001:db8::/96", "::/0"])

    def test_strangers_were_granted_a_handshake(self):
        port = self.serve("--allow", "192.0.2.0/24")
        left = client(port, "-n", "1M", "--tls")
        self.assertEqual(left.code, 1)
        self.assertIn("unable to set up TLS: ", left.err)
        self.assertIn("access denied", left.err)
        self.server.wait_for_error("warning: 127.0.0.1 is not allowed to test\n")
        with open("/proc/%d/maps" % self.server.pid) as maps:
            self.assertNotIn("libssl", maps.read())

    def test_real_client_is_told_why(self):
        port = self.serve("--allow", "10.0.0.0/8")
        left = client(port, "-n", "1M", program=support.real("3.22"))
        self.assertEqual(left.code, 1)
        self.assertIn("test authorization failed", left.err)

    def test_bad_network(self):
        for text in ("nonsense", "10.0.0.0/33", "", "300.1.1.1"):
            left = support.run(support.OURS + ("-s", "--allow", text))
            self.assertEqual(left.code, 1)
            self.assertTrue(left.err.startswith(
                "iperf3: parameter error - not a network, like 192.0.2.0/24 or 2001:db8::1: %s\n"
                % text), left.err)


class Silent(Case):
    """A client that fell silent makes room for another one, and only then."""

    def test_stopped_at_each_kind_of_test(self):
        kinds = ("", "-R", "--bidir", "-u -b 1M", "-P 2 -n 1000G", "-R -n 1000G")
        servers = [self.serve() for _ in kinds]
        clients = [self.start(port, "-i", "0.2", *words.split()
                              + ([] if "-n" in words else ["-t", "60"]))
                   for words, port in zip(kinds, servers)]
        began = time.monotonic()
        for program in clients:
            self.stop_all(program.pid)
        self.assertEqual(client(servers[0], "-n", "1").code, 1)  # not yet
        time.sleep(max(0.0, began + 10.0 - time.monotonic()))
        for words, port in zip(kinds, servers):
            with self.subTest(arguments=words):
                self.assertAllWorked([client(port, "-n", "1M")])

    def test_workers_of_a_stopped_client_fall_silent(self):
        """Of SIGSTOP for its first process alone the workers did not notice: they flooded on."""
        kinds = ("", "-u -b 5M", "-R")
        servers = [self.serve() for _ in kinds]
        clients = [self.start(port, "-i", "0.2", "-t", "60", *words.split())
                   for words, port in zip(kinds, servers)]
        for program in clients:
            program.signal(signal.SIGSTOP)
        time.sleep(11.0)
        for words, port in zip(kinds, servers):
            with self.subTest(arguments=words):
                self.assertAllWorked([client(port, "-n", "1M")])

    def stop_all(self, pid):
        """Stop a client and its workers, until the test ends."""
        for child in support.children(pid):
            os.kill(child, signal.SIGSTOP)
            self.addCleanup(os.kill, child, signal.SIGCONT)  # else it never sees its parent's end
        os.kill(pid, signal.SIGSTOP)

    def test_slow_rate_is_no_silence(self):
        port = self.serve()
        # A block of 128 KiB at 40 kbit/s: one in 26 s.
        with support.Program(support.real("3.22") + (
                "-c", "127.0.0.1", "-p", port, "-b", "40k", "-t", "12", "--forceflush")) as slow:
            slow.wait_for("sec ", count=10)
            self.assertIn("busy", client(port, "-n", "1").err)
            self.assertEqual(slow.finish(20.0).code, 0)


if __name__ == "__main__":
    unittest.main()
