"""Ours against real iperf3 3.9, 3.12, 3.18 and 3.22, as client and as server.

One test per version, role and mode, made from tables. Both ends print JSON; ours is checked for
contradictions, and what both say of the test is compared.
"""

import concurrent.futures
import contextlib
import functools
import json
import os
import shutil
import signal
import struct
import tempfile
import time

import captures
import datagrams
import fakes
import field
import figures
import modes
import pyperf3
import support
from modes import NEWEST, OLDER
from relay import SlowRelay

BUSY = "the server is busy running a test. try again later"
MEBIBYTE = 1024 * 1024


@functools.lru_cache(maxsize=None)
def both(client, server, client_arguments, server_arguments="", host="127.0.0.1"):
    """Run a one-off server and a client ("ours", or a version), once; returns both (Finished)."""
    commands = [support.OURS if each == "ours" else support.real(each)
                for each in (server, client)]
    return support.run_pair(commands[0], commands[1], client_arguments.split(),
                            server_arguments.split(), host)


def json_of(left):
    """Return the one document of a program, members that come twice once."""
    document, = captures.documents(left.out)
    return document


class Interop(figures.Case):
    """Every mode in both roles."""

    def run_mode(self, version, role, arguments, mode):
        """Run a test with ours in a role and the real one in the other."""
        words = arguments.split()
        ends = ("ours", version) if role == "client" else (version, "ours")
        run = ends + (arguments + " -J", mode.server + " -J", mode.host)
        left = both(*run)
        for _ in range(4):
            # An iperf3 server counts nothing more once it hears of the end: on a busy machine
            # its reader can come too late for a short test.
            end = json_of(left[0])["end"]
            if (role == "server" or "-t" in words or "-R" in words or "--bidir" in words
                    or end["sum_received"]["bytes"] == end["sum_sent"]["bytes"]):
                break
            left = both.__wrapped__(*run)
        for program in left:
            self.assertClean(program)
        documents = [json_of(program) for program in left]
        self.check_document(left[0 if role == "client" else 1].json())  # strictly read
        # An iperf3 server's sender may still count after the results went out.
        self.check_views(documents[0], documents[1], figures.SLACK)
        self.check_amounts(documents[0], words, (role == "client") != ("-R" in words))
        modes.check_tcp_options(self, words, *documents)
        if "--bidir" in words and (version, role) != ("3.9", "server"):  # 3.9 has them not
            self.assertIn("sum_received_bidir_reverse", documents[0]["end"])

    def check_amounts(self, client, words, ours_sends):
        """Check the bytes of a client's summary against what was asked for."""
        end, setup = client["end"], client["start"]["test_start"]
        modes.check_amounts(self, end)
        sent, received = end["sum_sent"], end["sum_received"]
        if words[0] not in ("-n", "-k") or "--bidir" in words:
            return
        blocks = setup["blocks"] or -(-setup["bytes"] // setup["blksize"])
        self.assertEqual(sent["bytes"], received["bytes"])
        self.assertGreaterEqual(sent["bytes"], blocks * setup["blksize"])
        # iperf3 3.9 sends in rounds of ten blocks.
        if ours_sends and "-P" not in words:
            self.assertEqual(sent["bytes"], blocks * setup["blksize"])


def _mode_test(*row):
    def test(self):
        self.run_mode(*row)
    return test


for _version in modes.ALL:
    for _name, _words, _mode in modes.against(modes.TCP, _version):
        for _role in ("client", "server"):
            setattr(Interop, "test_%s_%s_%s" % (
                _role, _version.replace(".", "_"), _name.replace(".", "_")),
                    _mode_test(_version, _role, _words, _mode))


# The same output ##############################################################

# arguments of the client and the server
SAME = {
    "single": ("-t 1 -i 0.2 -b 100M", "-i 0.2"),
    "parallel": ("-t 1 -i 0.2 -P 2 -b 100M", "-i 0.2"),
    "reverse": ("-t 1 -i 0.2 -R -b 100M", "-i 0.2"),
    "bidir": ("-t 1 -i 0.2 --bidir -b 100M", "-i 0.2"),
    "omit": ("-O 1 -t 1 -i 0.2 -b 100M", "-i 0.2"),
    "verbose": ("-t 1 -i 0.2 -V -b 100M", "-i 0.2 -V"),
    "verbose_bidir": ("-t 1 -i 0.2 -V --bidir -b 100M", "-i 0.2 -V"),
    "single_interval_reverse": ("-t 1 -R -b 100M", ""),
    "format_k": ("-n 100M -i 0.1 -f k", "-i 0.1 -f k"),
    "format_M": ("-n 100M -i 0.1 -f M", "-i 0.1 -f M"),
    "title": ("-n 100M -i 0.1 -T TITLE", "-i 0.1"),
    "server_output": ("-n 100M -i 0.1 --get-server-output", "-i 0.1"),
}
SHAPES = {
    "single": "-t 1 -b 100M",
    "reverse": "-t 1 -R -b 100M",
    "bidir": "-t 1 --bidir -b 100M",
    "parallel": "-t 1 -P 2 -b 100M",
    "omit": "-O 1 -t 1 -R -b 100M",
}


class SameText(figures.Case):
    """Our lines are those of the newest iperf3, but for the numbers."""


class SameMembers(figures.Case):
    """Our JSON documents have the members of the newest iperf3's, of the same types."""


def _text_test(name, client, server):
    def test(self):
        units = "-f" in SAME[name][0]
        found, expected = [
            [figures.outline(left.out, units) for left in both(*(pair + SAME[name]))]
            for pair in ((client, server), (NEWEST, NEWEST))]
        if name == "server_output":
            # The rows of both ends: how many there are of the server's is chance.
            found, expected = [[list(dict.fromkeys(lines)) for lines in side]
                               for side in (found, expected)]
        self.assertEqual(found[0], expected[0], "client's")
        self.assertEqual(found[1], expected[1], "server's")
    return test


def _members_test(arguments, client, server):
    def test(self):
        found, expected = [
            [figures.shape(json_of(left)) for left in both(*(pair + (arguments + " -J", "-J")))]
            for pair in ((client, server), (NEWEST, NEWEST))]
        self.assertEqual(found[0], expected[0], "client's")
        self.assertEqual(found[1], expected[1], "server's")
    return test


for _role, _pair in (("client", ("ours", NEWEST)), ("server", (NEWEST, "ours"))):
    for _name in SAME:
        setattr(SameText, "test_%s_%s" % (_role, _name), _text_test(_name, *_pair))
    for _name in SHAPES:
        setattr(SameMembers, "test_%s_%s" % (_role, _name), _members_test(SHAPES[_name], *_pair))


# What is not in the tables ####################################################


class Outputs(figures.Case):
    """Text and event streams, and --get-server-output between unlike ends."""

    def check_text(self, client, server, client_arguments, server_arguments=""):
        left = both(client, server, client_arguments, server_arguments)
        for program in left:
            self.assertClean(program)
        self.assertTrue(left[0].out.endswith("\n\niperf Done.\n"), left[0])
        return left

    def test_text_with_every_version(self):
        for version in (NEWEST,) + OLDER:
            for client, server in (("ours", version), (version, "ours")):
                with self.subTest(client=client, server=server):
                    left, _ = self.check_text(client, server, "-n 1M -i 0.1 -P 2")
                    self.assertEqual(left.out.count("sender\n"), 3)
                    self.assertEqual(left.out.count("receiver\n"), 3)

    def test_server_output_of_text_in_text(self):
        for client, server in (("ours", NEWEST), (NEWEST, "ours")):
            with self.subTest(client=client, server=server):
                left, other = self.check_text(client, server, "-t 1 -b 8M --get-server-output")
                text = other.out[other.out.index("Accepted connection"):]
                self.assertIn("\nServer output:\n%s\n" % text, left.out)

    def test_server_output_of_text_in_json(self):
        for client, server in (("ours", NEWEST), (NEWEST, "ours")):
            with self.subTest(client=client, server=server):
                left, other = both(client, server, "-t 1 -b 8M --get-server-output -J")
                self.assertClean(left)
                self.assertEqual(json_of(left)["server_output_text"],
                                 other.out[other.out.index("Accepted connection"):])

    def test_server_output_of_json_in_text(self):
        for client, server in (("ours", NEWEST), (NEWEST, "ours")):
            with self.subTest(client=client, server=server):
                left, other = self.check_text(client, server, "-t 1 -b 8M --get-server-output",
                                              "-J")
                begin = left.out.index("{", left.out.index("\nServer JSON output:\n"))
                document, _ = json.JSONDecoder().raw_decode(left.out, begin)
                self.assertEqual(document["end"], json_of(other)["end"])
                self.assertEqual(len(document["intervals"]), len(json_of(other)["intervals"]))

    def test_server_output_of_many_intervals(self):
        for client, server in (("ours", NEWEST), (NEWEST, "ours")):
            with self.subTest(client=client, server=server):
                left, other = both(client, server, "-t 1 -P 16 --get-server-output -J",
                                   "-J -i 0.1")
                self.assertClean(left)
                self.assertEqual(json_of(left)["server_output_json"]["end"],
                                 json_of(other)["end"])

    def test_event_streams(self):
        for version in (NEWEST, "3.18"):
            for client, server in (("ours", version), (version, "ours")):
                with self.subTest(client=client, server=server):
                    left = both(client, server, "-t 1 -b 8M --json-stream", "--json-stream")
                    for program in left:
                        self.assertClean(program)
                        names = [json.loads(line)["event"] for line in program.lines()]
                        self.assertEqual(list(dict.fromkeys(names)), ["start", "interval", "end"])

    def test_client_port(self):
        for client, server in (("ours", NEWEST), (NEWEST, "ours")):
            with self.subTest(client=client, server=server):
                port = support.free_port()
                left, other = both(client, server, "-n 1M -i 0.1 -J --cport %d" % port, "-J")
                self.assertClean(left)
                self.assertEqual(json_of(other)["start"]["connected"][0]["remote_port"], port)

    def test_ipv6(self):
        if not figures.has_ipv6():
            self.skipTest("no IPv6 here")
        other = support.real(NEWEST)
        for client, server in ((support.OURS, other), (other, support.OURS)):
            left = self.pair(["-n", "1M", "-i", "0.1", "-6", "-J"], ["-J"], client, server, "::1")
            documents = [json_of(program) for program in left]
            self.check_views(*documents)
            self.assertEqual(documents[1]["start"]["connected"][0]["remote_host"], "::1")


class Files(figures.Case):
    """-F and --repeating-payload between unlike ends."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.source = os.path.join(self.folder, "source")
        self.target = os.path.join(self.folder, "target")
        self.content = os.urandom(300001)  # no multiple of a block
        with open(self.source, "wb") as stream:
            stream.write(self.content)

    def each_role(self):
        """Yield (client, server) commands: ours and the newest, both ways."""
        other = support.real(NEWEST)
        for client, server in ((support.OURS, other), (other, support.OURS)):
            with self.subTest(client=client, server=server):
                yield client, server

    def received(self, number=""):
        with open(self.target + str(number), "rb") as stream:
            return stream.read()

    def test_end_came_before_the_reader_had_taken_the_last_block(self):
        """A server of 3.22 on a busy machine needs time between the file's end and the test's."""
        def transfer(number):
            return support.run_pair(support.real(NEWEST), support.OURS, ("-F", self.source),
                                    ("-F", self.target + str(number)))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for number, left in enumerate(pool.map(transfer, range(16))):
                for program in left:
                    self.assertClean(program)
                self.assertEqual(self.received(number), self.content)

    def test_file_arrives(self):
        for client, server in self.each_role():
            left, _ = self.pair(("-F", self.source, "-i", "0.1", "-J"), ("-F", self.target),
                                client, server)
            self.assertEqual(self.received(), self.content)
            self.assertEqual(json_of(left)["end"]["streams"][0]["diskfile"]["sent"], 300001)

    def test_file_arrives_in_reverse(self):
        for client, server in self.each_role():
            left, _ = self.pair(("-F", self.target, "-R", "-t", "1", "-J"), ("-F", self.source),
                                client, server)
            self.assertEqual(self.received(), self.content)
            self.assertEqual(json_of(left)["end"]["streams"][0]["diskfile"]["sent"], 300001)

    def test_repeating_payload(self):
        for client, server in self.each_role():
            self.pair(("--repeating-payload", "-n", "100000", "-l", "1000", "-i", "0.1"),
                      ("-F", self.target), client, server)
            self.assertEqual(self.received(), b"0123456789" * 10000)

    def test_repeating_payload_in_reverse(self):
        for client, server in self.each_role():
            self.pair(("--repeating-payload", "-n", "100000", "-l", "1000", "-i", "0.1", "-R",
                       "-F", self.target), (), client, server)
            content = self.received()
            self.assertGreaterEqual(len(content), 100000)
            self.assertEqual(content, (b"0123456789" * (len(content) // 10 + 1))[:len(content)])


class Refusals(figures.Case):
    """Errors that one end reports to the other."""

    def check(self, client, server, name, *arguments):
        """Check both ends' status, errors and lines against a capture."""
        left = support.run_pair(server, client, arguments)
        case = captures.Case(name)
        for program, side in zip(left, ("client", "server")):
            self.assertEqual(program.err, case.err(side), side)
            self.assertEqual(program.code, case.status(side), side)
            self.assertEqual(figures.masked(program.out), figures.masked(case.out(side)), side)

    def test_window_that_the_system_does_not_give(self):
        try:
            with open("/proc/sys/net/core/wmem_max") as stream:
                if int(stream.read()) >= 200 * MEBIBYTE:
                    self.skipTest("this system may give so large a buffer")
        except OSError:
            self.skipTest("it is not known what this system gives")
        other = support.real(NEWEST)
        for client, server in ((support.OURS, other), (other, support.OURS)):
            with self.subTest(client=client, server=server):
                self.check(client, server, "err-window-run", "-t", "2", "-w", "400M")

    def test_unknown_congestion_control(self):
        self.check(support.real(NEWEST), support.OURS, "err-congestion", "-t", "2", "-C", "nosuch")

    def test_missing_file_of_the_server(self):
        path = os.path.join(os.sep, "nosuch", "file")
        other = support.real(NEWEST)
        for client, server in ((support.OURS, other), (other, support.OURS)):
            with self.subTest(client=client, server=server):
                left, right = support.run_pair(server, client, ("-R", "-t", "1"), ("-F", path))
                self.assertEqual(left.code, 1)
                for line in left.err.splitlines():
                    self.assertIn(" - unable to open -F file", line)
                self.assertEqual(len(left.err.splitlines()), 2)
                self.assertEqual(right.code, 0)


class Sequences(figures.Case):
    """Test after test on one server, busy servers, clients that vanish."""

    def client(self, command, port, *arguments):
        return support.run(command + ("-c", "127.0.0.1", "-p", port) + arguments)

    def patiently(self, command, port, *arguments):
        """Run a client of an iperf3 server, which does not listen for a moment after a test."""
        deadline = time.monotonic() + 40.0
        while True:
            left = self.client(command, port, *arguments)
            if left.code == 0 or time.monotonic() > deadline:
                return left
            self.assertRegex(left.err, "Connection re(fused|set by peer)|has closed unexpectedly"
                             "|server is busy|Broken pipe|endpoint is not connected")
            time.sleep(0.1)

    def test_twenty_tests_of_our_client(self):
        program, port = support.start_server(support.real(NEWEST))
        with program:
            for number in range(20):
                left = self.patiently(support.OURS, port, "-n", "1M", "-J")
                self.assertClean(left)
                self.assertEqual(left.json()["end"]["sum_received"]["bytes"], MEBIBYTE)

    def test_twenty_tests_of_our_server(self):
        program, port = support.start_server(support.OURS)
        with program:
            for number in range(20):
                more = ((), ("-R",), ("--bidir",), ("-P", "3"))[number % 4]
                self.assertClean(self.client(support.real(NEWEST), port, "-n", "1M", "-i", "0.1",
                                             *more))
            program.wait_for("(test #21)")
            self.assertEqual(program.err(), "")

    def test_our_server_takes_every_version_in_turn(self):
        program, port = support.start_server(support.OURS)
        with program:
            for command in [support.real(each) for each in (NEWEST,) + OLDER] + [support.OURS]:
                for more in ((), ("--get-server-output",)):
                    self.assertClean(self.client(command, port, "-n", "1M", "-i", "0.1", *more))
            self.assertEqual(program.err(), "")

    def test_our_client_ends_if_the_server_stops_short_of_the_amount(self):
        # With -R and -O the server counts from an end of the omitted part that is its own, and
        # stops by itself. Several tests at a time, to meet both orders.
        for version in (NEWEST, "3.18"):
            with self.subTest(version=version), contextlib.ExitStack() as stack:
                programs = []
                for _ in range(6):
                    server, port = support.start_server(support.real(version), "-1")
                    stack.enter_context(server)
                    programs.append(stack.enter_context(support.Program(support.OURS + (
                        "-c", "127.0.0.1", "-p", port, "-R", "-O", "1", "-n", "100K", "-l", "7K",
                        "-J"))))
                for program in programs:
                    left = program.finish(30.0)
                    self.assertClean(left)
                    self.check_document(left.json())

    @contextlib.contextmanager
    def running(self, client, server, *arguments):
        """Start a long test; yields (client, server, port) once data flows."""
        program, port = support.start_server(server)
        with program:
            with support.Program(client + ("-c", "127.0.0.1", "-p", port, "-t", "60", "-b", "8M",
                                           "-i", "0.2") + arguments) as other:
                # iperf3's own output stays in its buffer.
                (other if client == support.OURS else program).wait_for("bits/sec", count=1)
                yield other, program, port

    def test_our_busy_server_refuses_every_version(self):
        with self.running(support.OURS, support.OURS) as (client, server, port):
            for version in (NEWEST,) + OLDER:
                left = self.client(support.real(version), port, "-t", "1")
                self.assertEqual((left.code, left.out, left.err),
                                 (1, "", "iperf3: error - %s\n" % BUSY), version)
            self.assertIsNone(client.process.poll())
            self.assertEqual(server.err(), "")

    def test_our_client_is_refused_by_every_busy_version(self):
        for version in (NEWEST,) + OLDER:
            with self.subTest(version=version):
                with self.running(support.OURS, support.real(version)) as (client, _, port):
                    for more in ((), ("-R",)):
                        left = self.client(support.OURS, port, "-t", "1", *more)
                        self.assertEqual((left.code, left.out, left.err),
                                         (1, "", "iperf3: error - %s\n" % BUSY))
                    self.assertIsNone(client.process.poll())

    def test_killed_client_frees_our_server_at_once(self):
        other = support.real(NEWEST)
        for more in ((), ("-R",), ("--bidir", "-P", "2")):
            with self.subTest(arguments=more):
                with self.running(other, support.OURS, *more) as (client, server, port):
                    client.signal(signal.SIGKILL)
                    client.finish()
                    self.assertClean(self.client(other, port, "-n", "1M", "-i", "0.1"))
                    server.wait_for("(test #3)")
                    self.assertEqual(
                        server.err(),
                        "iperf3: the client has unexpectedly closed the connection\n")

    def test_killed_client_of_ours_frees_the_server(self):
        other = support.real(NEWEST)
        for more in ((), ("-R",), ("--bidir", "-P", "2")):
            with self.subTest(arguments=more):
                with self.running(support.OURS, other, *more) as (client, server, port):
                    client.signal(signal.SIGKILL)
                    client.finish()
                    left = self.patiently(other, port, "-n", "1M", "-i", "0.1")
                    self.assertClean(left)

    def test_killed_server_ends_the_client(self):
        other = support.real(NEWEST)
        for client, server in ((support.OURS, other), (other, support.OURS)):
            for more in ((), ("-R",)):
                with self.subTest(client=client, arguments=more):
                    with self.running(client, server, *more) as (program, killed, _):
                        killed.signal(signal.SIGKILL)
                        left = program.finish(30.0)
                    self.assertEqual(left.code, 1)
                    self.assertRegex(left.err, r"\Aiperf3: error - (control socket has closed "
                                     r"unexpectedly|unable to .*: Connection reset by peer)\n\Z")

    def test_interrupted_client_and_server(self):
        other = support.real(NEWEST)
        for client, server in ((support.OURS, other), (other, support.OURS)):
            with self.subTest(client=client):
                with self.running(client, server) as (program, _, port):
                    program.signal(signal.SIGINT)
                    left = program.finish()
                    self.assertEqual(left.code, 0)
                    self.assertEqual(left.err, "iperf3: interrupt - the client has terminated by "
                                               "signal Interrupt(2)\n")
                    self.assertClean(self.patiently(other, port, "-n", "1M", "-i", "0.1"))
                with self.running(client, server) as (program, interrupted, _):
                    interrupted.signal(signal.SIGINT)
                    left = program.finish()
                self.assertEqual(left.code, 1)
                self.assertEqual(left.err, "iperf3: error - the server has terminated\n")


class Datagrams(datagrams.Case):
    """UDP in both roles, with every version."""

    cores = 1.0  # a real iperf3 that comes late loses datagrams

    @staticmethod
    def lost(left):
        """Return how many datagrams both ends miss."""
        return sum(row["lost_packets"] for program in left for row in [
            each["udp"] for each in json_of(program)["end"]["streams"]])

    def check_version(self, version, role, cases):
        ends = ("ours", version) if role == "client" else (version, "ours")

        def run(arguments):
            return both.__wrapped__(ends[0], ends[1], "-u -J " + arguments, "-J")
        for (arguments,), left in support.together(run, [(arguments,) for arguments in cases]):
            with self.subTest(arguments=arguments):
                for _ in range(9):
                    # The small buffer of a real iperf3 that gets no CPU for a moment runs over.
                    if any(program.code for program in left) or not self.lost(left):
                        break
                    left = run(arguments)
                self.check_mode(arguments.split(), left, role)

    def check_mode(self, words, left, role):
        for program in left:
            self.assertClean(program)
        client, server = [json_of(program) for program in left]
        # Of the omitted part 3.9 and 3.12 do not tell how many datagrams it had.
        self.check_udp(left[0 if role == "client" else 1].json(), "-O" not in words)
        for document in (client, server):
            self.assertEqual(document["start"]["test_start"]["protocol"], "UDP")
        self.assertEqual(client["start"]["test_start"]["blksize"],
                         server["start"]["test_start"]["blksize"])
        self.check_addresses(client, server)
        length = client["start"]["test_start"]["blksize"]
        self.assertEqual(length, 32768 if "-l" not in words else int(words[words.index("-l") + 1]))
        end = client["end"]
        self.assertEqual(end["sum"]["lost_packets"], 0, end)
        for each in end["streams"]:
            row = each["udp"]
            self.assertGreater(row["packets"], 0)
            self.assertEqual((row["lost_packets"], row["out_of_order"]), (0, 0))
            if "-O" not in words:
                # A thread of a real sender counts a datagram before it sends it, and its bytes
                # after: the one in between can be missing from the bytes.
                self.assertAlmostEqual(row["bytes"], row["packets"] * length,
                                       delta=0 if role == "client" else length)
        if role == "server":
            self.assertEqual(server["end"]["sum"]["lost_packets"], 0)
        if "sum_received" in end and "-O" not in words:
            sent, received = end["sum_sent"]["bytes"], end["sum_received"]["bytes"]
            self.assertGreater(received, 0)
            # An end that stops later than the other counts a little more: a few datagrams, or
            # pieces of them.
            self.assertAlmostEqual(sent, received, delta=max(30 * length, 200000))
        if "--get-server-output" in words:
            self.assertEqual(client["server_output_json"]["end"]["streams"],
                             server["end"]["streams"])

    def test_members_are_those_of_the_newest(self):
        for arguments in ("-t 1", "-t 1 -R", "-t 1 --bidir -P 2"):
            words = "-u -J " + arguments
            expected = [figures.shape(json_of(left)) for left in both(NEWEST, NEWEST, words, "-J")]
            for number, pair in enumerate((("ours", NEWEST), (NEWEST, "ours"))):
                document = json_of(both(pair[0], pair[1], words, "-J")[number])
                document["end"].pop("pyperf3", None)  # ours
                self.assertEqual(figures.shape(document), expected[number], (arguments, pair))


def _datagrams_test(version, role, cases):
    def test(self):
        self.check_version(version, role, cases)
    return test


for _version in modes.ALL:
    for _role in ("client", "server"):
        for _more in (False, True) if _version == NEWEST else (False,):
            setattr(Datagrams, "test_%s_%s%s" % (
                _role, _version.replace(".", "_"), "_more" if _more else ""),
                    _datagrams_test(_version, _role, [
                        words for _, words, mode in modes.against(modes.UDP, _version)
                        if (mode.peers == modes.THE_NEWEST) is _more]))


class Reported(field.Case):
    """Public reports about iperf3 and its like, each with the test that would have found it."""

    # B21: iperf3 #768, #1875, #1634, #1637, #1902, #596, #982, #1363
    def test_amounts_end_by_count(self):
        def check(ours, theirs):
            server, port = self.serve(command=theirs)
            for words, least, most in (
                    ("-n 1M", 2 ** 20, 2 ** 20), ("-k 10 -l 1000", 10000, 10000),
                    ("-n 1", 131072, 131072), ("-n 1M -R", 2 ** 20, 2 ** 20),
                    ("-n 1M -P 3", 2 ** 20, 2 ** 20 + 3 * 131072),
                    ("-u -n 1M -b 100M -l 1024", 2 ** 20, 2 ** 20)):
                if theirs is not support.OURS and "-R" in words:
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
        support.together(check, [(support.OURS, support.OURS), (support.OURS, support.real("3.22")),
                                 (support.OURS, support.real("3.12"))])

    # B26: iperf3 #751, #718, #1149, #620, #499, #700, #1766, #1803
    def test_races_at_the_end_of_a_test(self):
        for (words, _, _), (left, other) in support.together(
                lambda words, ours, theirs: field.pair(words + " -J", "-J", ours, theirs),
                [(words,) + both for both, modes in zip(field.pairings(False), (
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
                left = field.client(relay.port, words + " -J")
                return left, server.finish(20.0)
        for (words,), (left, other) in field.abreast(delayed, [
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
        support.together(in_a_row, field.pairings(False))

    # B40: iperf3 #1776, #1782
    def test_large_results(self):
        words = "-P 64 -t 1 -i 0.1 -b 200K -l 1000 --get-server-output -J"
        for _, (left, _) in support.together(lambda *both: field.pair(words, "-J -i 0.1", *both),
                                             [(support.OURS, support.OURS),
                                              (support.OURS, support.real("3.22"))]):
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

    # B35: riperf3 #221, #241, #264, #184
    def test_units_and_columns_are_those_of_iperf3(self):
        real = support.real("3.22")
        found = field.abreast(
            lambda words, command: field.pair("-t 1 -b 5M -l 5K " + words, "", command, real)[0],
            [(words, command) for words in (
                "", "-P 2", "-u", "-R", "--bidir", "-O 1", "-f k", "-f G")
             for command in (support.OURS, real)])
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

    # B37: iperf3 #952, #1196, #1428; kaihendry/iperf3chart #3
    def test_names_and_roles_of_both_directions(self):
        names = {"sum_sent", "sum_received", "sum_sent_bidir_reverse",
                 "sum_received_bidir_reverse"}
        items = [(words, ours, theirs) for words in ("", " -P 2", " -u")
                 for ours, theirs in field.pairings(False) if words != " -P 2" or ours is theirs]
        for (words, _, _), (left, _) in field.abreast(
                lambda words, ours, theirs: field.pair("-t 1 -b 10M --bidir -J" + words, "", ours,
                                                       theirs), items):
            document = captures.parse(left.out)
            self.assertEqual(document["start"]["test_start"]["bidir"], 1)
            self.assertEqual({name for name in document["end"] if name.startswith("sum_")},
                             names | ({"sum_bidir_reverse"} if "-u" in words else set()))
            for interval in document["intervals"]:
                self.assertEqual(list(interval), ["streams", "sum", "sum_bidir_reverse"])
        left, other = field.pair("-t 1 -b 10M --bidir")
        self.assertIn("[ ID][Role] Interval", left.out)
        for text, roles in ((left.out, ("TX-C", "RX-C")), (other.out, ("RX-S", "TX-S"))):
            for role in roles:
                self.assertRegex(text, r"\[ *\d+\]\[%s\] " % role)

    # B38: iperf3 PR #1174; exporters read end.sum
    def test_udp_has_a_sum_and_tcp_has_none(self):
        for (words, _, _), (left, _) in field.abreast(
                lambda words, ours, theirs: field.pair(words + "-t 1 -b 5M -J", "", ours, theirs),
                [(words,) + both for both in field.pairings() for words in ("-u ", "")]):
            end = captures.parse(left.out)["end"]
            if words:
                for name in ("sum", "sum_sent", "sum_received"):
                    self.assertGreater(end[name]["packets"], 0)
                self.assertEqual(end["streams"][0]["udp"]["out_of_order"], 0)
            else:
                self.assertGreater(end["sum_sent"]["bytes"], 0)
                self.assertNotIn("sum", end)

    # B42: readers in Go, whose structures want one type
    def test_types_of_members(self):
        real = support.real("3.22")
        found = field.abreast(
            lambda words, command: field.pair("-t 1 -b 5M -J " + words, "-J", command, real),
            [(words, command) for words in ("", "-R", "--bidir", "-u", "-u -R")
             for command in (support.OURS, real)])
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
        control, data = field.begin(port)
        with control, data:
            data.sendall(b"x" * 131072)
            control.sendall(b"\x04")
            self.assertEqual(fakes.receive(control, 1), b"\x0d")
            control.sendall(fakes.frame({
                "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0,
                "sender_has_retransmits": 1, "streams": [{
                    "id": 1, "bytes": 2 ** 53 + 1, "retransmits": 0, "jitter": 0, "errors": 0,
                    "packets": 0}]}))
            size, = struct.unpack("!I", fakes.receive(control, 4))
            text = fakes.receive(control, size).decode()
        self.assertRegex(text, r'"bytes":\s*\d+,')
