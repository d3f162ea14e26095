"""Options of sockets and processes, seen from outside: ss, strace and /proc (Linux)."""

import contextlib
import errno
import os
import re
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
import fakes
import field
import figures
import pyperf3
import support

MPTCP = getattr(socket, "IPPROTO_MPTCP", 262)
SCTP = 132


def can_open(protocol):
    """Return whether the system has this protocol of streams."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol).close()
        return True
    except OSError:
        return False


def processes(pid):
    """Return a process and all its descendants that live, with all their threads."""
    found = []
    for name in os.listdir("/proc/%d/task" % pid):
        found.append(int(name))
        try:
            with open("/proc/%d/task/%s/children" % (pid, name)) as file:
                for child in file.read().split():
                    found += processes(int(child))
        except OSError:
            pass  # it ended
    return found


@unittest.skipUnless(sys.platform.startswith("linux"), "looks into /proc")
class Looking(unittest.TestCase):
    """A test that runs while it is looked at."""

    @contextlib.contextmanager
    def running(self, client_arguments=(), server_arguments=(), server=support.OURS,
                client=support.OURS, host="127.0.0.1"):
        """Run a test past its first report; gives (server, client, port)."""
        program, port = support.start_server(server, *server_arguments)
        with program, support.Program(tuple(client) + (
                "-c", host, "-p", port, "-t", "30", "-i", "0.3") + tuple(client_arguments)) as (
                    other):
            if "--forceflush" in client_arguments or client == support.OURS:
                other.wait_for("sec ")
            yield program, other, port

    def end(self, client):
        client.signal(signal.SIGINT)
        left = client.finish(20.0)
        self.assertEqual(left.code, 0, left)
        return left

    def sockets(self, port, *flags):
        """Return ss's rows about the connections of a port, each on one line."""
        if not shutil.which("ss"):
            raise unittest.SkipTest("no ss here")
        text = subprocess.check_output(
            ("ss", "-n", "-i", "-e", "-o", "-H") + (flags or ("-t",))
            + ("state", "established", "( sport = :%d or dport = :%d )" % (port, port)))
        return re.sub(r"\n[ \t]+", " ", text.decode("ascii", "replace")).strip().split("\n")

    def watched(self, client_arguments, server_arguments=(), host="127.0.0.1"):
        """Run a short test under strace; returns the setsockopt calls of (client, server)."""
        if not shutil.which("strace"):
            raise unittest.SkipTest("no strace here")
        folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        traces = [os.path.join(folder, name) for name in ("client", "server")]
        commands = [("strace", "-f", "-s", "64", "-e", "trace=setsockopt", "-o", path)
                    + support.OURS for path in traces]
        try:
            left, server = support.run_pair(commands[1], commands[0], client_arguments,
                                            server_arguments, host)
        except AssertionError:
            if subprocess.call(("strace", "-o", os.devnull, "true")):
                raise unittest.SkipTest("strace is not permitted here")
            raise
        self.assertEqual((left.code, left.err, server.err), (0, "", ""), (left, server))
        calls = []
        for path in traces:
            with open(path, errors="replace") as file:
                calls.append(re.findall(r"setsockopt\((\d+), (\w+), (\w+), (.*), \d+\) = 0",
                                        file.read()))
        return calls


class Pacing(Looking):
    """--fq-rate."""

    def test_data_connections_of_both_ends(self):
        for arguments, count in ((("-P", "2"), 4), (("-R",), 2), (("--bidir",), 4)):
            with self.subTest(arguments=arguments):
                with self.running(("--fq-rate", "80M") + arguments) as (_, client, port):
                    rows = self.sockets(port)
                    self.end(client)
                paced = [row for row in rows if re.search(r"pacing_rate \d+bps/80000000bps", row)
                         or re.search(r"pacing_rate 80Mbps/80Mbps", row)]
                self.assertEqual(len(paced), count, rows)
                self.assertEqual(len(rows), count + 2)

    def test_is_in_the_documents(self):
        left, server = support.run_pair(support.OURS, support.OURS, (
            "-n", "100K", "-J", "--fq-rate", "1G"), ("-J",))
        for each in (left, server):
            self.assertEqual(each.json()["start"]["fq_rate"], 10 ** 9)
            self.assertEqual(each.json()["start"]["test_start"]["fqrate"], 10 ** 9)

    def test_datagrams(self):
        for mode in ((), ("-R",)):
            both = self.watched(("-u", "-b", "5M", "-n", "100K", "--fq-rate", "80M") + mode)
            for end, calls in zip(("client", "server"), both):
                with self.subTest(end=end, mode=mode):
                    self.assertIn("SO_MAX_PACING_RATE", [call[2] for call in calls])

    def test_the_old_option_takes_it_back(self):
        left, _ = support.run_pair(support.OURS, support.OURS, (
            "-n", "100K", "--fq-rate", "80M", "--no-fq-socket-pacing"))
        self.assertEqual(left.lines()[0], "Warning:  --no-fq-socket-pacing is deprecated")
        self.assertEqual((left.code, left.err), (0, ""))


class Timeouts(Looking):
    """--snd-timeout and --rcv-timeout."""

    def test_blocked_calls_never_returned_where_times_have_64_bits(self):
        """On 32 bits (armhf of Debian 13) the kernel refuses two longs there."""
        class Fake:
            taken = {}

            def setsockopt(self, level, option, value):
                if option not in self.taken:  # the first layout
                    self.taken[option] = None
                    raise OSError(22, "Invalid argument")
                self.taken[option] = value
        pyperf3.set_timeouts(Fake(), 1.5)
        value = struct.pack("@qq", 1, 500000)
        self.assertEqual(Fake.taken, {socket.SO_SNDTIMEO: value, socket.SO_RCVTIMEO: value})

    def test_acknowledgements(self):
        for arguments in ((), ("-R", "-P", "2")):
            with self.subTest(arguments=arguments):
                both = self.watched(("-n", "100K", "--snd-timeout", "1234") + arguments,
                                    ("--snd-timeout", "4321"))
                for calls, value in zip(both, ("[1234]", "[4321]")):
                    numbers = {call[0] for call in calls if call[2] == "TCP_USER_TIMEOUT"}
                    values = {call[3] for call in calls if call[2] == "TCP_USER_TIMEOUT"}
                    self.assertEqual(values, {value})
                    # the control connection and each stream's
                    self.assertEqual(len(numbers), 3 if arguments else 2)

    def test_not_without(self):
        names = ["TCP_USER_TIMEOUT", "SO_MAX_PACING_RATE", "SO_KEEPALIVE"]
        for calls in self.watched(("-n", "100K")):
            self.assertFalse([call for call in calls if call[2] in names])
            names.pop()  # a server probes its clients anyhow

    def stop(self, program):
        program.signal(signal.SIGSTOP)
        self.addCleanup(self.go_on, program)

    @staticmethod
    def go_on(program):
        if program.process.poll() is None:
            program.signal(signal.SIGCONT)

    def test_server_that_receives(self):
        case = captures.Case("err-rcv-timeout-server")
        for arguments in ((), ("-u", "-b", "5M"), ("--bidir",)):
            with self.subTest(arguments=arguments):
                with self.running(("--threads",) + arguments, ("-1", "--rcv-timeout", "500")) as (
                        server, client, _):
                    server.wait_for("sec ")
                    self.stop(client)
                    begin = time.monotonic()
                    other = server.finish(20.0)
                    self.assertLess(time.monotonic() - begin, 6.0)
                    client.signal(signal.SIGCONT)
                    left = client.finish(20.0)
                self.assertEqual((other.code, other.err), (0, case.err("server")), other)
                self.assertEqual((left.code, left.err), (1, case.err("client")), left)
                self.assertIn("receiver", other.out)

    def test_client_that_receives(self):
        case = captures.Case("err-rcv-timeout-client")
        for arguments in (("-R",), ("-u", "-b", "5M", "-R"), ("--bidir",)):
            with self.subTest(arguments=arguments):
                with self.running(("--rcv-timeout", "500") + arguments, ("-1", "--threads")) as (
                        server, client, _):
                    self.stop(server)
                    left = client.finish(20.0)
                    server.signal(signal.SIGCONT)
                    other = server.finish(20.0)
                self.assertEqual((left.code, left.err), (1, case.err("client")), left)
                self.assertEqual(other.code, 0, other)
                self.assertNotIn("iperf Done", left.out)

    def test_sender_does_not_mind(self):
        with self.running(("--rcv-timeout", "300", "-R", "-b", "1M", "-l", "1K"),
                          ("--rcv-timeout", "300")) as (_, client, _):
            client.wait_for("sec ", count=3)
            self.end(client)

    def test_slow_senders_are_not_stopped_ones(self):
        """One block in half a second, and a second of patience."""
        left, server = support.run_pair(support.OURS, support.OURS, (
            "-t", "2", "-b", "160K", "-l", "10K"), ("--rcv-timeout", "1000"))
        self.assertEqual((left.code, left.err, server.err), (0, "", ""))


class Keepalive(Looking):
    """--cntl-ka."""

    def test_control_connections_of_both(self):
        for client, server in ((("--cntl-ka=100/10/3",), ()), ((), ("--cntl-ka",)),
                               (("--cntl-ka",), ("--cntl-ka=50/5/2",))):
            with self.subTest(client=client, server=server):
                with self.running(client, server) as (_, program, port):
                    rows = self.sockets(port)
                    self.end(program)
                # A server's own probes come after 3 s.
                kept = [row for row in rows if re.search(r"timer:\(keepalive,\d+(min|\dsec)", row)]
                self.assertEqual(len(kept), bool(client) + bool(server), rows)
                ends = [row.split()[2].endswith(":%d" % port) for row in kept]
                self.assertEqual(sorted(ends), [False] * bool(client) + [True] * bool(server))

    def test_values(self):
        both = self.watched(("-n", "100K", "--cntl-ka=100/10/3"), ("--cntl-ka=/5",))
        names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
        self.assertEqual([call[2:] for call in both[0] if call[2] in names],
                         list(zip(names, ("[100]", "[10]", "[3]"))))
        self.assertEqual([call[2:] for call in both[1] if call[2] in names],
                         [("TCP_KEEPINTVL", "[5]")])

    def test_the_system_has_longer_retries(self):
        """The hint, and the error, on either side, as of iperf3."""
        for option in ("--cntl-ka=10", "--cntl-ka=600/75"):
            outcomes = []
            for command in (support.real("3.22"), support.OURS):
                program, port = support.start_server(support.OURS)
                with program:
                    left = support.run(tuple(command) + ("-c", "127.0.0.1", "-p", port, option))
                    # differs: iperf3 has a colon, and nothing behind it.
                    outcomes.append((left.out, left.err.replace(": \n", "\n"), left.code))
            with self.subTest(option=option):
                self.assertEqual(outcomes[1], outcomes[0])
                self.assertIn("Keepalive Idle time (", outcomes[1][1])

    def test_the_servers_system_has_longer_retries(self):
        outcomes = []
        for command in (support.real("3.22"), support.OURS):
            program, port = support.start_server(command, "--cntl-ka=10", "-1")
            with program:
                left = support.run(support.real("3.22") + ("-c", "127.0.0.1", "-p", port))
                time.sleep(0.3)
                program.signal()
                other = program.finish(20.0)
            outcomes.append((left.code, [re.sub(": $", "", line) for line in other.err.split("\n")
                                         if "interrupt" not in line]))
        self.assertEqual(outcomes[1], outcomes[0])


class FlowLabels(Looking):
    """-L."""

    def test_data_connections(self):
        try:
            socket.socket(socket.AF_INET6, socket.SOCK_STREAM).bind(("::1", 0))
        except OSError:
            raise unittest.SkipTest("no IPv6 here")
        for arguments in ((), ("-R",), ("-u", "-b", "5M")):
            calls, _ = self.watched(("-n", "100K", "-L", "77") + arguments, host="::1")
            with self.subTest(arguments=arguments):
                labels = [call for call in calls if call[2] == "IPV6_FLOWLABEL_MGR"]
                self.assertEqual(len(labels), 1, calls)
                self.assertIn(r"\0\0\0M\0", labels[0][3])  # 77, in network order
                self.assertEqual([call[0] for call in calls if call[2] == "IPV6_FLOWINFO_SEND"],
                                 [labels[0][0]])

    def test_not_over_ipv4(self):
        program, port = support.start_server(support.OURS)
        with program:
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-L", "77"))
        self.assertEqual((left.code, left.err), (
            1, "iperf3: error - unable to set IPv6 flow label\n"), left)


class Multipath(Looking):
    """-m."""

    def setUp(self):
        if not can_open(MPTCP):
            raise unittest.SkipTest("no MPTCP here")

    def count(self, port):
        return len([row for row in self.sockets(port, "-M") if row])

    def test_both_ends_of_each_stream(self):
        for arguments, count in (((), 2), (("-R", "-P", "2"), 4), (("--bidir",), 4)):
            with self.subTest(arguments=arguments):
                with self.running(("-m",) + arguments) as (_, client, port):
                    found = self.count(port)
                    self.end(client)
                self.assertEqual(found, count)

    def test_the_next_test_is_plain(self):
        program, port = support.start_server(support.OURS)
        with program:
            for option, count in ((("-m",), 2), ((), 0), (("-m",), 2)):
                with support.Program(support.OURS + (
                        "-c", "127.0.0.1", "-p", port, "-t", "20", "-i", "0.3") + option) as client:
                    client.wait_for("sec ")
                    self.assertEqual(self.count(port), count)
                    self.end(client)

    def test_with_iperf3(self):
        for server, client in ((support.real("3.22"), support.OURS),
                               (support.OURS, support.real("3.22"))):
            for arguments in ((), ("-R",)):
                with self.subTest(server=server[0], arguments=arguments):
                    with self.running(("-m", "--forceflush") + arguments, (), server,
                                      client) as (_, program, port):
                        program.wait_for("sec ")
                        found = self.count(port)
                        self.end(program)
                    self.assertEqual(found, 2)

    def test_datagrams_are_no_streams(self):
        left, _ = support.run_pair(support.OURS, support.OURS, ("-m", "-u", "-n", "100K"))
        self.assertEqual((left.code, left.err), (0, ""), left)


class Sctp(Looking):
    """--sctp where the system has none."""

    def test_both_roles(self):
        if can_open(SCTP):
            raise unittest.SkipTest("SCTP is here")
        real, outcomes = support.real("3.22"), []
        for server, client in ((real, real), (real, support.OURS), (support.OURS, real),
                               (support.OURS, support.OURS)):
            program, port = support.start_server(server)
            with program:
                left = support.run(tuple(client) + ("-c", "127.0.0.1", "-p", port, "--sctp"))
                time.sleep(0.3)
                program.signal()
                other = program.finish(20.0)
            outcomes.append((left.out.replace(str(port), "PORT"), left.err, left.code, other.err))
        for outcome in outcomes[1:]:
            self.assertEqual(outcome, outcomes[0])
        self.assertIn("unable to start stream listener: Protocol not supported", outcomes[3][1])


def cpus_of(pid, workers=False):
    """Return the CPUs of a process (but for workers=True), its descendants and all threads."""
    found = set()
    for each in set(processes(pid)) - ({pid} if workers else set()):
        try:
            with open("/proc/%d/status" % each) as file:
                found.add(re.search(r"Cpus_allowed_list:\s*(\S+)", file.read()).group(1))
        except OSError:
            pass
    return found


class Affinity(Looking):
    """-A."""

    def setUp(self):
        self.cpus = sorted(os.sched_getaffinity(0))
        if len(self.cpus) < 2:
            raise unittest.SkipTest("one CPU only")

    def test_workers_of_both_ends(self):
        here, there = (str(cpu) for cpu in self.cpus[:2])
        for arguments in ((), ("-R",), ("--threads",), ("-u", "-b", "5M")):
            with self.subTest(arguments=arguments):
                with self.running(("-A", here + "," + there) + arguments) as (
                        server, client, port):
                    self.assertEqual(cpus_of(client.pid), {here})
                    self.assertEqual(cpus_of(server.pid, True), {there})
                    self.end(client)
                    server.wait_for("(test #2)")
                    time.sleep(0.2)
                    self.assertNotEqual(cpus_of(server.pid), {there})
                    self.assertEqual(os.sched_getaffinity(server.pid), set(self.cpus))
                    left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
                    self.assertEqual(left.code, 0)

    def test_one_side_alone(self):
        here = str(self.cpus[1])
        with self.running(("-A", here)) as (server, client, _):
            self.assertEqual(cpus_of(client.pid), {here})
            self.assertEqual(os.sched_getaffinity(server.pid), set(self.cpus))
            self.end(client)
        with self.running((), ("-A", here)) as (server, client, _):
            self.assertEqual(cpus_of(server.pid), {here})
            self.assertEqual(os.sched_getaffinity(client.pid), set(self.cpus))
            self.end(client)
            server.wait_for("(test #2)")
            self.assertEqual(os.sched_getaffinity(server.pid), {self.cpus[1]})

    def test_clients_choice_goes_before_the_servers(self):
        here, there = (str(cpu) for cpu in self.cpus[:2])
        with self.running(("-A", here + "," + there), ("-A", here)) as (server, client, _):
            self.assertEqual(cpus_of(server.pid, True), {there})
            self.end(client)
            server.wait_for("(test #2)")
            time.sleep(0.2)
            self.assertEqual(os.sched_getaffinity(server.pid), {self.cpus[0]})

    def test_cpu_that_the_server_has_not(self):
        program, port = support.start_server(support.OURS)
        with program:
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-A", "0,1000"))
            case = captures.Case("err-affinity")
            self.assertEqual((left.code, left.err), (1, case.err("client")), left)
            program.wait_for("(test #2)")
            self.assertEqual(os.sched_getaffinity(program.pid), set(self.cpus))
            program.signal()
            self.assertIn("iperf3: error - unable to set CPU affinity: Invalid argument\n",
                          program.finish(20.0).err)

    def test_interop(self):
        real = support.real("3.22")
        here, there = (str(cpu) for cpu in self.cpus[:2])
        with self.running(("-A", here + "," + there), (), real) as (server, client, _):
            self.assertEqual((cpus_of(server.pid), cpus_of(client.pid)), ({there}, {here}))
            self.end(client)
        with self.running(("-A", here + "," + there, "--forceflush"), (), support.OURS, real) as (
                server, client, _):
            client.wait_for("sec ")
            self.assertEqual(cpus_of(server.pid, True), {there})
            self.end(client)


class Clients(unittest.TestCase):
    """What a client's sockets are."""

    def test_sizes_of_buffers_were_lost_where_a_later_option_failed(self):
        for words in ("-C nosuch", "-4 -L 5 -u"):
            program, port = support.start_server(support.OURS)
            with self.subTest(words=words), program:
                left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "100K",
                                                   "-J") + tuple(words.split()))
                self.assertEqual(left.code, 1, left)
                self.assertEqual(list(left.json()["start"])[-3:],
                                 ["sock_bufsize", "sndbuf_actual", "rcvbuf_actual"])

    def test_two_clients_shared_a_port(self):
        """Only TCP's may be used again at once: of datagrams two sockets would share it."""
        place = socket.getaddrinfo("127.0.0.1", 9, 0, socket.SOCK_DGRAM)[0]
        transport = pyperf3.Udp(pyperf3.Settings(), pyperf3.Parameters(), False)
        loop, sockets, errors = pyperf3.Loop(), [], []
        self.addCleanup(loop.close)

        def dial(port):
            try:
                sockets.append((yield from pyperf3.connect(
                    place, None, None, time.monotonic() + 5.0, 203, None, port,
                    transport.open_socket)))
            except pyperf3.IperfError as error:
                errors.append(error.errno)
        for port in (0, None):
            if port is None:
                port = sockets[0].getsockname()[1]
            task = loop.spawn(dial(port))
            support.wait_until(lambda: loop.run_once() or task.done, "a socket")
        for sock in sockets:
            sock.close()
        self.assertEqual((len(sockets), errors), (1, [errno.EADDRINUSE]))


class Associations(unittest.TestCase):
    """What a server does with an SCTP association, of which TCP takes the place here."""

    def take_in(self, **settings):
        """Let a client's association come; returns the sockets that became streams."""
        loop, taken = pyperf3.Loop(), []
        self.addCleanup(loop.close)
        conversation, _ = support.conversation(**settings)
        parameters = pyperf3.Parameters()
        parameters.protocol, parameters.tos = "SCTP", 184
        transport = pyperf3.make_transport(conversation.settings, parameters, True)
        with socket.socket() as listener, socket.socket() as client:
            conversation.control = listener
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            real, pyperf3.sctp_socket = pyperf3.sctp_socket, lambda family: socket.socket(family)
            setters, pyperf3.SOCKET_OPTIONS = pyperf3.SOCKET_OPTIONS, [
                each for each in pyperf3.SOCKET_OPTIONS if each.name == "tos"]
            listener.bind(("127.0.0.1", 0))
            try:
                arrivals = transport.listen(conversation)
                client.connect(listener.getsockname())
                client.sendall(conversation.cookie)

                def take():
                    taken.extend((yield from arrivals.take(time.monotonic() + 5.0)))
                task = loop.spawn(take())
                support.wait_until(lambda: loop.run_once() or task.done, "the end of the step")
                arrivals.close()
            finally:
                pyperf3.sctp_socket, pyperf3.SOCKET_OPTIONS = real, setters
        return taken

    def test_type_of_service_was_not_set(self):
        sock, = self.take_in()
        with sock:
            self.assertEqual(sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS), 184)

    def test_address_that_is_not_allowed_was_taken(self):
        self.assertEqual(self.take_in(allow="192.0.2.0/24"), [])


class Devices(Looking):
    """--bind-dev."""

    def test_every_connection_of_both(self):
        if os.geteuid():
            raise unittest.SkipTest("needs root")
        with self.running(("--bind-dev", "lo", "-P", "2"), ("--bind-dev", "lo")) as (
                _, client, port):
            rows = self.sockets(port)
            self.end(client)
        self.assertEqual(len(rows), 6)
        for row in rows:
            self.assertIn("%lo", row)
        for calls in self.watched(("-n", "100K", "-u", "-b", "5M", "--bind-dev", "lo"),
                                  ("--bind-dev", "lo")):
            numbers = {call[0] for call in calls if call[2] == "SO_BINDTODEVICE"}
            self.assertGreaterEqual(len(numbers), 2, calls)

    def test_unknown(self):
        for role in (("-s", "-p", support.free_port()), ("-c", "127.0.0.1")):
            left = support.run(support.OURS + role + ("--bind-dev", "nosuch0"))
            self.assertEqual((left.out, left.code), ("", 1), left)
            lines = left.err.split("\n")
            self.assertRegex(lines[0], r"^iperf3: error - .*: No such device( \(.*nosuch0\))?$")
            self.assertEqual(lines[1:], (["iperf3: exiting"] if role[0] == "-s" else []) + [""])


class Reported(field.Case):
    """Public reports about iperf3 and its like, each with the test that would have found it."""

    # B28: xfr #70
    def test_nagle_on_the_control_connection(self):
        def play(sock):
            fakes.receive(sock, 37)
            sock.sendall(b"\x09")
            messages.append(sock.recv(65536))
            sock.close()
        messages = []
        with fakes.FakeServer(play) as server:
            field.client(server.port)
        size, = struct.unpack_from("!I", messages[0])
        self.assertEqual(len(messages[0]), 4 + size)  # the length and what it is of, in one go
        if not shutil.which("strace") or subprocess.call(
                ("strace", "-o", os.devnull, "true"), stderr=subprocess.DEVNULL):
            raise unittest.SkipTest("no strace here, or it is not permitted")
        traces = [os.path.join(self.folder(), name) for name in ("client", "server")]
        commands = [("strace", "-f", "-e", "trace=setsockopt", "-o", path) + support.OURS
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
            self.assertEqual(field.run(support.OURS, "--loopback -n 1").code, 0)
            best = min(best, time.monotonic() - begin)
        self.assertLess(best, 5.0)

    # B68: iperf3 #71, #725, #338, #569; riperf3 #156
    def test_the_column_of_retransmits(self):
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
            command = support.driver(code % action)
            (_, (text, _)), (_, (left, other)) = support.together(
                lambda *words: field.pair(*words, client=command), [("-n 1M",), ("-n 1M -J", "-J")])
            for program in (text, left, other):
                self.assertEqual((program.code, program.err), (0, ""), program)
            self.assertEqual("Retr" in text.out, has_column, text)
            # fields of the sender's last row: with and without the count
            row, = [line for line in text.lines() if line.endswith("sender")]
            self.assertEqual(len(row.split()), 10 if has_count else 9, row)
            rows = left.json()
            self.assertEqual("retransmits" in rows["intervals"][0]["streams"][0], has_count)
            self.assertEqual("retransmits" in rows["end"]["sum_sent"], has_count, rows["end"])
        ours, theirs = [field.pair("-t 1 -R -b 10M", client=command)[0].out
                        for command in (support.OURS, support.real("3.22"))]
        self.assertEqual(figures.outline(ours), figures.outline(theirs))
        self.assertIn("Retr  Cwnd", ours)


@unittest.skipUnless(pyperf3.WAKES_LATE, "needs Linux 5.7")
class WokenByManyBytes(unittest.TestCase):
    """SO_RCVLOWAT of a receiver whose plan has it."""

    WAKE = 65536

    def receive(self, feed, wake=WAKE, **parameters):
        """Let feed(peer) send to a receiver; returns how many bytes woke it, once and at its end.

        Its buffer may not change by that.
        """
        given = pyperf3.Parameters()
        vars(given).update(parameters)
        plan = pyperf3.CallPlan(131072, 131072, False, False, wake)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1)
            peer = socket.create_connection(listener.getsockname())
            ours = listener.accept()[0]
        with peer, ours:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * self.WAKE)
            before = ours.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            receiver = pyperf3.TcpReceiver(ours, pyperf3.Counters(1), 0, given, plan)
            thread = threading.Thread(target=receiver.run)
            thread.start()
            feed(peer)
            during = ours.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)
            receiver.slots.command = pyperf3.STOP
            begin = time.monotonic()
            peer.shutdown(socket.SHUT_WR)
            thread.join(20.0)
            self.assertLess(time.monotonic() - begin, 2.0)
            self.assertEqual(ours.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), before)
            return during, ours.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)

    @staticmethod
    def fast(peer):
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            peer.send(b"x" * 65536)

    @classmethod
    def slow(cls, peer):
        cls.fast(peer)
        for _ in range(30):
            peer.send(b"x" * 100)
            time.sleep(0.02)

    def test_while_these_come_fast(self):
        self.assertEqual(self.receive(self.fast), (self.WAKE, 1))

    def test_not_on_a_slow_link(self):
        self.assertEqual(self.receive(self.slow), (1, 1))

    def test_not_in_a_small_buffer(self):
        self.assertEqual(self.receive(self.fast, 4 * self.WAKE), (1, 1))

    def test_not_at_an_amount(self):
        self.assertEqual(self.receive(self.fast, bytes=2 ** 40), (1, 1))


class Plans(unittest.TestCase):

    def plan(self, streams, paced, cache=2 ** 21, **given):
        parameters = pyperf3.Parameters()
        vars(parameters).update(given)
        size, pyperf3.cache_size = pyperf3.cache_size, lambda level: cache
        try:
            return pyperf3.call_plan(parameters, streams, paced)
        finally:
            pyperf3.cache_size = size

    def test_many_bytes_wake_several_paced_streams_of_a_large_cache(self):
        self.assertEqual(self.plan(2, True).wake, 1 << 20)
        self.assertEqual(self.plan(8, True).wake, 1 << 19)
        self.assertEqual(self.plan(8, True, 2 ** 20), self.plan(8, False))
        self.assertEqual(self.plan(9, True), self.plan(9, False))
        self.assertEqual(self.plan(8, False).wake, 1)

    def test_many_bytes_wake_one_stream_of_a_large_cache(self):
        for paced in (False, True):
            self.assertEqual(self.plan(1, paced).wake, 1 << 19)
            self.assertEqual(self.plan(1, paced, 2 ** 20).wake, 1)
            self.assertEqual(self.plan(1, paced, 0, skip_rx_copy=True).wake,
                             1 << 19 if paced else 1)

    def test_block_that_was_asked_for_is_the_size_of_a_call(self):
        for paced in (False, True):
            for streams in (1, 4, 16):
                self.assertEqual(self.plan(streams, paced, length=1000).send, 1000)


if __name__ == "__main__":
    unittest.main()
