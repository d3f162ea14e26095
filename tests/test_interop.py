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
import tempfile
import time

import captures
import datagrams
import figures
import support

BUSY = "the server is busy running a test. try again later"
MEBIBYTE = 1024 * 1024
NEWEST = "3.22"
OLDER = ("3.18", "3.12", "3.9")

# iperf3 from 3.16 on looks for the end of -n and -k once an interval, so these have a short one.
MAIN = {
    "forward": "-t 1",
    "reverse": "-t 1 -R",
    "bidir": "-t 1 --bidir",
    "parallel": "-t 1 -P 2",
    "bytes": "-n 1M -i 0.1",
    "blocks": "-k 10 -l 1000 -i 0.1",
    "omit": "-O 1 -t 1",
    "rate": "-t 1 -b 20M -l 16K",
    "zerocopy": "-n 100M -i 0.1 -Z",
    "server_output": "-n 20M -i 0.1 --get-server-output",
}

MORE = {  # against the newest only
    "parallel_4": "-t 1 -P 4 -i 0.2",
    "parallel_4_reverse": "-t 1 -P 4 -R",
    "bidir_parallel_2": "-t 1 --bidir -P 2",
    "bytes_reverse": "-n 1M -i 0.1 -R",
    "bytes_bidir": "-n 100M -i 0.1 --bidir",
    "bytes_parallel": "-n 1M -i 0.1 -P 3",
    "bytes_one": "-n 1 -i 0.1",
    "blocks_reverse": "-k 10 -l 1000 -i 0.1 -R",
    "omit_reverse": "-O 1 -t 1 -R",
    "omit_and_interval": "-O 1 -t 1 -i 0.7",
    "interval_0": "-t 1 -i 0",
    "interval_0.3": "-t 1 -i 0.3",
    "rate_reverse": "-t 1 -b 20M -l 16K -R",
    "rate_bidir": "-t 1 -b 20M -l 16K --bidir",
    "rate_and_burst": "-t 1 -b 20M/20 -l 1K",
    "length_small": "-n 1M -l 100 -i 0.1",
    "length_large": "-n 64M -l 1M -i 0.1",
    "window": "-n 20M -w 64K -i 0.1",
    "window_small": "-n 20M -w 10K -i 0.1",
    "mss": "-n 20M -M 1000 -i 0.1",
    "mss_reverse": "-n 20M -M 1000 -i 0.1 -R",
    "no_delay": "-n 10M -N -i 0.1",
    "congestion": "-n 20M -C reno -i 0.1",
    "congestion_reverse": "-n 20M -C reno -i 0.1 -R",
    "tos": "-n 20M -S 0x10 -i 0.1",
    "dscp": "-n 20M --dscp ef -i 0.1 -R",
    "ipv4": "-n 20M -4 -i 0.1",
    "bind": "-n 20M -B 127.0.0.2 -i 0.1",
    "zerocopy_reverse": "-n 100M -i 0.1 -Z -R",
    "zerocopy_bidir": "-t 1 -Z --bidir",
    "skip_rx_copy": "-n 100M -i 0.1 --skip-rx-copy",
    "skip_rx_copy_reverse": "-n 100M -i 0.1 --skip-rx-copy -R",
    "repeating_payload": "-n 20M --repeating-payload -i 0.1",
    "title_and_extra_data": "-n 1M -T TITLE --extra-data extra -i 0.1",
}


@functools.lru_cache(maxsize=None)
def both(client, server, client_arguments, server_arguments=""):
    """Run a one-off server and a client ("ours", or a version), once; returns both (Finished)."""
    commands = [support.OURS if each == "ours" else support.real(each)
                for each in (server, client)]
    return support.run_pair(commands[0], commands[1], client_arguments.split(),
                            server_arguments.split())


def json_of(left):
    """Return the one document of a program, members that come twice once."""
    document, = captures.documents(left.out)
    return document


class Interop(figures.Case):
    """Every mode in both roles."""

    def run_mode(self, version, role, arguments):
        """Run a test with ours in a role and the real one in the other."""
        words = arguments.split()
        ends = ("ours", version) if role == "client" else (version, "ours")
        left = both(ends[0], ends[1], arguments + " -J", "-J")
        for _ in range(4):
            # An iperf3 server counts nothing more once it hears of the end: on a busy machine
            # its reader can come too late for a short test.
            end = json_of(left[0])["end"]
            if (role == "server" or "-t" in words or "-R" in words or "--bidir" in words
                    or end["sum_received"]["bytes"] == end["sum_sent"]["bytes"]):
                break
            left = both.__wrapped__(ends[0], ends[1], arguments + " -J", "-J")
        for program in left:
            self.assertClean(program)
        documents = [json_of(program) for program in left]
        self.check_document(left[0 if role == "client" else 1].json())  # strictly read
        # An iperf3 server's sender may still count after the results went out.
        self.check_views(documents[0], documents[1], figures.SLACK)
        self.check_amounts(documents[0], words, (role == "client") != ("-R" in words))
        self.check_options(words, *documents)
        if "--bidir" in words and (version, role) != ("3.9", "server"):  # 3.9 has them not
            self.assertIn("sum_received_bidir_reverse", documents[0]["end"])

    def check_amounts(self, client, words, ours_sends):
        """Check the bytes of a client's summary against what was asked for."""
        end, setup = client["end"], client["start"]["test_start"]
        for name in end:
            if name.startswith("sum_"):
                self.assertGreater(end[name]["bytes"], 0, name)
            if name.startswith("sum_sent"):
                self.assertGreaterEqual(end[name]["retransmits"], 0)
        sent, received = end["sum_sent"], end["sum_received"]
        if "-b" in words:
            self.assertLessEqual(sent["bytes"], 2.5e6 * 1.05 * sent["seconds"] + 20480)
        if words[0] not in ("-n", "-k") or "--bidir" in words:
            return
        blocks = setup["blocks"] or -(-setup["bytes"] // setup["blksize"])
        self.assertEqual(sent["bytes"], received["bytes"])
        self.assertGreaterEqual(sent["bytes"], blocks * setup["blksize"])
        # iperf3 3.9 sends in rounds of ten blocks.
        if ours_sends and "-P" not in words:
            self.assertEqual(sent["bytes"], blocks * setup["blksize"])

    def check_options(self, words, client, server):
        """Check what other words of the command line ask for."""
        end = client["end"]
        for option, key in (("-T", "title"), ("--extra-data", "extra_data")):
            if option in words:
                value = words[words.index(option) + 1]
                self.assertEqual((client[key], server[key]), (value, value))
        if "--get-server-output" in words:
            self.assertEqual(client["server_output_json"]["end"], server["end"])
        if "-M" in words:
            self.assertEqual((client["start"]["tcp_mss"], server["start"]["tcp_mss"]),
                             (1000, 1000))
        if "-C" in words:
            self.assertEqual((end["sender_tcp_congestion"], end["receiver_tcp_congestion"]),
                             ("reno", "reno"))
        if "-B" in words:
            self.assertEqual(server["start"]["accepted_connection"]["host"], "127.0.0.2")
        if "-O" in words:
            for document in (client, server):
                flags = [each["sum"]["omitted"] for each in document["intervals"]]
                self.assertTrue(flags[0])
                self.assertFalse(flags[-1])


def _mode_test(version, role, arguments):
    def test(self):
        self.run_mode(version, role, arguments)
    return test


def _add_modes(version, modes):
    for name, arguments in modes.items():
        for role in ("client", "server"):
            test = _mode_test(version, role, arguments)
            setattr(Interop, "test_%s_%s_%s" % (
                role, version.replace(".", "_"), name.replace(".", "_")), test)


_add_modes(NEWEST, MAIN)
_add_modes(NEWEST, MORE)
for _version in OLDER:
    _add_modes(_version, MAIN)
    # A 3.9 client with -R -n never ends, not even against a server of its own version.
    if _version != "3.9":
        _add_modes(_version, {"bytes_reverse": MORE["bytes_reverse"]})


# The same output ##############################################################

# arguments of the client and the server
SAME = {
    "single": ("-t 1 -i 0.2", "-i 0.2"),
    "parallel": ("-t 1 -i 0.2 -P 2", "-i 0.2"),
    "reverse": ("-t 1 -i 0.2 -R", "-i 0.2"),
    "bidir": ("-t 1 -i 0.2 --bidir", "-i 0.2"),
    "omit": ("-O 1 -t 1 -i 0.2", "-i 0.2"),
    "verbose": ("-t 1 -i 0.2 -V", "-i 0.2 -V"),
    "verbose_bidir": ("-t 1 -i 0.2 -V --bidir", "-i 0.2 -V"),
    "single_interval_reverse": ("-t 1 -R", ""),
    "format_k": ("-n 100M -i 0.1 -f k", "-i 0.1 -f k"),
    "format_M": ("-n 100M -i 0.1 -f M", "-i 0.1 -f M"),
    "title": ("-n 100M -i 0.1 -T TITLE", "-i 0.1"),
    "server_output": ("-n 100M -i 0.1 --get-server-output", "-i 0.1"),
}
SHAPES = {
    "single": "-t 1",
    "reverse": "-t 1 -R",
    "bidir": "-t 1 --bidir",
    "parallel": "-t 1 -P 2",
    "omit": "-O 1 -t 1 -R",
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

    MODES = {
        "forward": "-t 1 -b 2M -l 1000",
        "reverse": "-t 1 -b 2M -l 1000 -R",
        "bidir": "-t 1 -b 2M -l 1000 --bidir",
        "parallel": "-t 1 -b 2M -l 1000 -P 2",
        "parallel_reverse": "-t 1 -b 2M -l 1000 -P 2 -R",
        "defaults": "-t 1",
        "wide": "-t 1 -b 2M -l 1000 --udp-counters-64bit",
        "wide_reverse": "-t 1 -b 2M -l 1000 --udp-counters-64bit -R",
        "omit": "-O 1 -t 1 -b 2M -l 1000",
        "server_output": "-t 1 -b 2M -l 1000 --get-server-output",
    }
    NEW = {  # against the newest only
        "gsro": "-t 1 -b 20M -l 1400 --gsro",
        "gsro_reverse": "-t 1 -b 20M -l 1400 --gsro -R",
        "gsro_bidir": "-t 1 -b 20M -l 1400 --gsro --bidir",
        "blocks": "-k 10 -i 0.1 -b 2M -l 1000",
        "burst_reverse": "-t 1 -b 2M/5 -l 1000 -R",
        "single": "-t 1 -b 2M -l 1000 --repeating-payload --dont-fragment",
        "omit_reverse": "-O 1 -t 1 -b 2M -l 1000 -R",
        "interval": "-t 1 -b 2M -l 1000 -i 0.3",
        "window": "-t 1 -b 2M -l 1000 -w 100K",
        "tos": "-t 1 -b 2M -l 1000 --dscp ef",
    }

    def check_version(self, version, role, modes):
        ends = ("ours", version) if role == "client" else (version, "ours")
        for (arguments, _), left in datagrams.together(
                lambda arguments, _: both(ends[0], ends[1], "-u -J " + arguments, "-J"),
                [(arguments, name) for name, arguments in modes.items()]):
            with self.subTest(arguments=arguments):
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


def _datagrams_test(version, role, modes):
    def test(self):
        self.check_version(version, role, modes)
    return test


for _version in (NEWEST,) + OLDER:
    for _role in ("client", "server"):
        setattr(Datagrams, "test_%s_%s" % (_role, _version.replace(".", "_")),
                _datagrams_test(_version, _role, Datagrams.MODES))
for _role in ("client", "server"):
    setattr(Datagrams, "test_%s_%s_more" % (_role, NEWEST.replace(".", "_")),
            _datagrams_test(NEWEST, _role, Datagrams.NEW))
