"""Our client against our server, over the loopback interface: every TCP mode of the command line.

Runs that several tests look at are made once (both()). No test depends on the host's speed.
"""

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

import captures
import fakes
import field
import figures
import modes
import support
from relay import Relay

BUSY = "the server is busy running a test. try again later"
MEBIBYTE = 1024 * 1024


@functools.lru_cache(maxsize=None)
def both(client, server="", host="127.0.0.1"):
    """Run a one-off server and a client with these arguments, once; returns both (Finished)."""
    return support.run_pair(support.OURS, support.OURS, client.split(), server.split(), host)


def loopback(*arguments):
    """Run --loopback with these arguments; returns what it left (Finished)."""
    return support.run(support.OURS + ("--loopback",) + arguments)


# Every mode ###################################################################


class Modes(figures.Case):
    """In every mode both ends give strict JSON whose figures agree, and iperf3's members."""


def _both_in_json(name):
    return modes.in_json(both, modes.TCP[name])


def _check(test, words, client, server):
    test.check_pair(client, server)
    test.assertTrue(client["intervals"])
    modes.check_amounts(test, client["end"])
    modes.check_tcp_options(test, words, client, server)


modes.add_tests(Modes, modes.TCP, functools.partial(modes.in_json, both), _check)


class Start(figures.Case):
    """What the start objects say of the options."""

    def start(self, mode):
        client, server = [program.json()["start"] for program in _both_in_json(mode)]
        return client, server

    def check_setup(self, mode, **expected):
        for start in self.start(mode):
            for name, value in expected.items():
                self.assertEqual(start["test_start"][name], value)

    def test_defaults(self):
        self.check_setup("forward", protocol="TCP", num_streams=1, blksize=131072, omit=0,
                         duration=1, bytes=0, blocks=0, reverse=0, tos=0, target_bitrate=0,
                         bidir=0, fqrate=0, interval=1, gso=0, gro=0)

    def test_modes(self):
        self.check_setup("reverse", reverse=1, bidir=0)
        self.check_setup("bidir", reverse=0, bidir=1)
        self.check_setup("bidir_parallel_2", bidir=1, num_streams=2)

    def test_end_conditions(self):
        self.check_setup("bytes", duration=0, bytes=20 * MEBIBYTE, blocks=0)
        self.check_setup("blocks", duration=0, bytes=0, blocks=100)
        self.check_setup("omit", duration=1, omit=1)

    def test_interval_is_each_ends_own(self):
        client, server = both("-n 1M -i 0.5 -J", "-J")
        self.assertEqual(client.json()["start"]["test_start"]["interval"], 0.5)
        self.assertEqual(server.json()["start"]["test_start"]["interval"], 1)

    def test_length(self):
        self.check_setup("length_small", blksize=100)
        self.check_setup("length_large", blksize=MEBIBYTE)

    def test_tos_and_dscp(self):
        self.check_setup("tos", tos=16)
        self.check_setup("dscp", tos=184)

    def test_rate_is_in_both_ends_start(self):
        self.check_setup("rate", target_bitrate=20000000)
        for start in self.start("rate"):
            self.assertEqual(start["target_bitrate"], 20000000)

    def test_window_sets_the_buffers(self):
        for start in self.start("window"):
            self.assertEqual(start["sock_bufsize"], 65536)
            self.assertGreaterEqual(start["sndbuf_actual"], 65536)
            self.assertGreaterEqual(start["rcvbuf_actual"], 65536)

    def test_mss_replaces_the_default(self):
        for start in self.start("mss_and_window"):
            self.assertEqual(start["tcp_mss"], 1000)
            self.assertNotIn("tcp_mss_default", start)
        for start in self.start("forward"):
            self.assertNotIn("tcp_mss", start)

    @unittest.skipUnless(os.path.exists("/proc/net/tcp"), "needs Linux")
    def test_mss_holds_for_the_data(self):
        client, _ = _both_in_json("mss_and_window")
        # With time stamps 12 bytes of each segment are theirs.
        windows = [interval["streams"][0]["snd_cwnd"] for interval in client.json()["intervals"]]
        self.assertTrue(all(window % 988 == 0 for window in windows)
                        or all(window % 1000 == 0 for window in windows), windows)

    def test_bind_sets_the_local_address_of_every_connection(self):
        client, server = self.start("bind")
        self.assertEqual(client["connected"][0]["local_host"], "127.0.0.2")
        self.assertEqual(server["connected"][0]["remote_host"], "127.0.0.2")
        self.assertEqual(server["accepted_connection"]["host"], "127.0.0.2")

    def test_ipv6_addresses(self):
        client, server = self.start("ipv6")
        for start in (client, server):
            self.assertEqual(start["connected"][0]["local_host"], "::1")
            self.assertEqual(start["connected"][0]["remote_host"], "::1")
        self.assertEqual(client["connecting_to"]["host"], "::1")

    def test_ipv4_peers_of_a_dual_stack_server_show_as_ipv4(self):
        _, server = self.start("forward")
        self.assertEqual(server["accepted_connection"]["host"], "127.0.0.1")
        self.assertEqual(server["connected"][0]["local_host"], "127.0.0.1")

    def test_connecting_to_is_as_given(self):
        client, _ = self.start("ipv4")
        self.assertEqual(client["connecting_to"]["host"], "localhost")

    def test_time_stamps_are_of_one_moment(self):
        for start in self.start("forward"):
            stamp = start["timestamp"]
            self.assertEqual(stamp["timemillisecs"] // 1000, stamp["timesecs"])
            self.assertEqual(stamp["time"], time.strftime(
                "%a, %d %b %Y %H:%M:%S GMT", time.gmtime(stamp["timesecs"])))

    def test_title_and_extra_data_reach_both_documents(self):
        for program in _both_in_json("title_and_extra_data"):
            document = program.json()
            self.assertEqual((document["title"], document["extra_data"]), ("TITLE", "extra"))

    def test_congestion_is_used_by_both_ends(self):
        for mode in ("congestion", "congestion_reverse"):
            client, server = [program.json()["end"] for program in _both_in_json(mode)]
            self.assertEqual(client["sender_tcp_congestion"], "reno")
            self.assertEqual(client["receiver_tcp_congestion"], "reno")
            name = ("receiver" if mode == "congestion" else "sender") + "_tcp_congestion"
            self.assertEqual(server[name], "reno")

    def test_version_text(self):
        for start in self.start("forward"):
            self.assertRegex(start["version"], r"\Aiperf 3\.22 \(pyperf3 ")

    def test_many_streams(self):
        left = both("-P 128 -t 1 -J", "-J")
        for program in left:
            self.assertClean(program)
        client, server = [program.json() for program in left]
        self.check_pair(client, server)
        self.assertEqual(len(client["end"]["streams"]), 128)


class Ports(figures.Case):
    """-p, -B, --cport."""

    def local_ports(self, count, *arguments):
        first = support.free_ports(count)
        client, _ = self.documents(("-n", "1M", "--cport", first) + arguments)
        ports = [each["local_port"] for each in client["start"]["connected"]]
        return ports, list(range(first, first + count))

    def test_cport_is_the_first_streams(self):
        ports, expected = self.local_ports(1)
        self.assertEqual(ports, expected)

    def test_cport_counts_up(self):
        ports, expected = self.local_ports(3, "-P", 3, "-B", "127.0.0.1")
        self.assertEqual(ports, expected)

    def test_cport_goes_on_in_the_other_direction(self):
        ports, expected = self.local_ports(4, "-P", 2, "--bidir")
        self.assertEqual(ports, expected)

    def test_cport_in_use_is_an_error(self):
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            sock.listen(1)
            client, server = support.run_pair(
                support.OURS, support.OURS, ("-n", "1M", "--cport", sock.getsockname()[1]))
        self.assertEqual(client.code, 1)
        self.assertRegex(client.err, r"^iperf3: error - unable to connect stream: Address already"
                                     r" in use \(127.0.0.1 port \d+ from 0.0.0.0 port \d+\)\n$")
        self.assertEqual(server.code, 0)

    def test_bound_server_is_only_there(self):
        program, port = support.start_server(support.OURS, "-1", "-B", "127.0.0.2")
        with program:
            refused = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
            self.assertEqual(refused.code, 1)
            self.assertIn("Connection refused", refused.err)
            left = support.run(support.OURS + ("-c", "127.0.0.2", "-p", port, "-n", "1M", "-J"))
            self.assertClean(left)
            self.assertClean(program.finish())
        self.assertEqual(left.json()["start"]["connected"][0]["remote_host"], "127.0.0.2")

    def test_ipv4_server_refuses_ipv6(self):
        if not figures.has_ipv6():
            self.skipTest("no IPv6 here")
        program, port = support.start_server(support.OURS, "-1", "-4")
        with program:
            refused = support.run(support.OURS + ("-c", "::1", "-p", port, "-n", "1M"))
            self.assertEqual(refused.code, 1)
            self.assertIn("Connection refused", refused.err)

    def test_ipv6_server_refuses_ipv4(self):
        if not figures.has_ipv6():
            self.skipTest("no IPv6 here")
        program, port = support.start_server(support.OURS, "-1", "-6")
        with program:
            refused = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
            self.assertEqual(refused.code, 1)
            self.assertIn("Connection refused", refused.err)

    def test_ipv6_client_of_an_ipv4_address_is_an_error(self):
        left = support.run(support.OURS + ("-c", "127.0.0.1", "-6", "-n", "1M"))
        self.assertEqual(left.code, 1)
        self.assertTrue(left.err.startswith("iperf3: error - unable to connect to server"), left)
        self.assertEqual(len(left.err.splitlines()), 1)

    def test_port_is_in_the_text(self):
        client, server = both("-n 1M")
        port = re.search(r"Connecting to host 127\.0\.0\.1, port (\d+)\n", client.out).group(1)
        self.assertIn("Server listening on %s (test #1)\n" % port, server.out)


# Ends, intervals, rates #######################################################


class Amounts(figures.Case):
    """-n and -k end by the count, and both ends count the same."""

    def amounts(self, *arguments):
        """Return the bytes sent and received by both ends' view."""
        client, server = self.documents(arguments)
        name = "sum_sent" if "-R" in arguments else "sum_received"
        return (client["end"]["sum_sent"]["bytes"], client["end"]["sum_received"]["bytes"],
                server["end"][name]["bytes"])

    def check_exact(self, count, *arguments):
        self.assertEqual(self.amounts(*arguments), (count,) * 3)

    def test_bytes_exactly(self):
        self.check_exact(MEBIBYTE, "-n", "1M")

    def test_bytes_exactly_in_reverse(self):
        self.check_exact(MEBIBYTE, "-n", "1M", "-R")

    def test_blocks_exactly(self):
        self.check_exact(10000, "-k", "10", "-l", "1000")

    def test_blocks_exactly_in_reverse(self):
        self.check_exact(10000, "-k", "10", "-l", "1000", "-R")

    def test_one_byte_is_one_block(self):
        self.check_exact(131072, "-n", "1")

    def test_one_byte_in_blocks_of_one_byte(self):
        self.check_exact(1, "-n", "1", "-l", "1")

    def test_bytes_that_are_no_multiple_of_the_block(self):
        self.check_exact(3000, "-n", "2001", "-l", "1000")

    def test_bytes_over_parallel_streams_count_together(self):
        for arguments in (("-n", "1M", "-P", "3"), ("-n", "1M", "-P", "3", "-R")):
            sent, received, other = self.amounts(*arguments)
            self.assertEqual(sent, received)
            self.assertEqual(sent, other)
            self.assertGreaterEqual(sent, MEBIBYTE)
            self.assertLessEqual(sent, MEBIBYTE + 2 * 131072)

    def test_bytes_without_intervals_end(self):
        self.check_exact(MEBIBYTE, "-n", "1M", "-i", "0")
        self.check_exact(MEBIBYTE, "-n", "1M", "-i", "0", "-R")

    def test_bytes_with_a_rate(self):
        self.check_exact(MEBIBYTE, "-n", "1M", "-b", "40M", "-l", "16K")
        self.check_exact(MEBIBYTE, "-n", "1M", "-b", "40M", "-l", "16K", "-R")

    def test_bytes_with_zerocopy(self):
        self.check_exact(MEBIBYTE, "-n", "1M", "-Z")
        self.check_exact(MEBIBYTE, "-n", "1M", "-Z", "-R")

    def test_bytes_with_threads(self):
        for arguments in (("-n", "1M"), ("-n", "1M", "-R")):
            client, server = self.documents(arguments + ("--threads",), ("--threads",))
            for name in ("sum_sent", "sum_received"):
                self.assertEqual(client["end"][name]["bytes"], MEBIBYTE)

    def test_bidir_ends_with_the_first_direction(self):
        client, _ = self.documents(("-n", "1M", "--bidir"))
        end = client["end"]
        self.assertGreaterEqual(max(end["sum_sent"]["bytes"],
                                    end["sum_received_bidir_reverse"]["bytes"]), MEBIBYTE)

    def test_bytes_after_an_omitted_part(self):
        client, _ = self.documents(("-n", "1M", "-O", "1", "-b", "40M", "-l", "16K"))
        self.assertGreaterEqual(client["end"]["sum_sent"]["bytes"], MEBIBYTE)
        self.assertTrue(client["intervals"][0]["sum"]["omitted"])
        self.assertFalse(client["intervals"][-1]["sum"]["omitted"])

    def test_reverse_ends_after_an_omitted_part(self):
        # Each end begins to measure by its own clock: several tests, to meet both orders.
        with contextlib.ExitStack() as stack:
            programs = [stack.enter_context(support.Program(support.OURS + (
                "--loopback", "-n", "100K", "-l", "7K", "-O", "1", "-R", "-J"))) for _ in range(6)]
            for program in programs:
                left = program.finish(30.0)
                self.assertClean(left)
                self.check_document(left.json())

    def test_window_smaller_than_a_segment_does_not_starve(self):
        for more in ((), ("-R",), ("--bidir",)):
            # At full speed a fraction of a second; at a segment per timeout minutes.
            left = support.run_pair(support.OURS, support.OURS,
                                    ("-n", "20M", "-w", "10K", "-J") + more, ("-J",), seconds=30.0)
            for program in left:
                self.assertClean(program)
            self.check_pair(left[0].json(), left[1].json())

    def test_zero_counts_as_not_given(self):
        for option in ("-n", "-k"):
            client, _ = self.documents(("-t", "1", option, "0", "-b", "1M"))
            self.assertEqual(client["start"]["test_start"]["duration"], 1)

    def test_loopback(self):
        left = loopback("-n", "1M", "-J")
        self.assertClean(left)
        self.check_document(left.json())
        self.assertEqual(left.json()["end"]["sum_received"]["bytes"], MEBIBYTE)


class Intervals(figures.Case):
    """-i and -O."""

    def intervals(self, mode):
        """Return the sums of both ends' intervals."""
        return [[each["sum"] for each in program.json()["intervals"]]
                for program in _both_in_json(mode)]

    def test_interval_0_is_one_report(self):
        for sums in self.intervals("interval_0"):
            self.assertEqual(len(sums), 1)

    def test_no_more_reports_than_fit(self):
        for mode, most in (("forward", 1), ("interval_0.1", 10), ("interval_0.3", 4),
                           ("interval_0.7", 2)):
            client, server = self.intervals(mode)
            self.assertLessEqual(len(client), most, mode)
            self.assertGreater(len(server), 0)

    def test_last_report_ends_with_the_test(self):
        for mode in ("forward", "interval_0.1", "interval_0.7", "parallel_2"):
            client = _both_in_json(mode)[0].json()
            self.assertEqual(client["intervals"][-1]["sum"]["end"],
                             client["end"]["sum_sent"]["end"])

    def test_omitted_reports_come_first_and_time_begins_again(self):
        for mode in ("omit", "omit_reverse", "omit_and_interval"):
            for sums in self.intervals(mode):
                flags = [each["omitted"] for each in sums]
                self.assertTrue(flags[0])
                self.assertFalse(flags[-1])
                self.assertEqual(flags, sorted(flags, reverse=True))
                self.assertEqual(sums[flags.index(False)]["start"], 0)

    def test_end_of_the_omitted_part_is_reported(self):
        for sums in self.intervals("omit_and_interval"):
            omitted = [each for each in sums if each["omitted"]]
            # The part lasts a second, whatever the interval is.
            self.assertGreaterEqual(omitted[-1]["end"], 1.0)

    def test_totals_leave_the_omitted_part_out(self):
        client = _both_in_json("omit")[0].json()
        everything = sum(each["sum"]["bytes"] for each in client["intervals"])
        self.assertLess(client["end"]["sum_sent"]["bytes"], everything)
        self.assertLess(client["end"]["sum_received"]["bytes"], everything)

    def test_omitted_rows_say_so(self):
        client, server = both("-O 1 -t 1")
        for text in (client.out, server.out):
            rows = [line for line in text.split("\n") if re.match(r"\[ *\d\] +\d", line)]
            self.assertTrue(rows[0].endswith(" (omitted)"), rows)
            self.assertEqual(text.count("[ ID] Interval"), 2)
            measured = [row for row in rows if not row.endswith(" (omitted)")]
            self.assertRegex(measured[0], r"\A\[ *\d\]   0\.00-")


class Rates(figures.Case):
    """-b: the target is kept, and never passed."""

    def check_rate_is_kept(self, rate, slack, *arguments):
        """rate: of 10 Mbit/s; slack: bytes that may be ahead of it, as a block or a burst is."""
        for attempt in range(3):
            client, _ = self.documents(("-t", "2", "-b", rate) + arguments)
            end = client["end"]["sum_sent"]
            expected = 10e6 / 8.0 * end["seconds"]
            self.assertLessEqual(end["bytes"], expected * 1.05 + slack)
            if end["bytes"] >= expected * 0.95:
                return
        self.fail("the rate is not reached: %r" % end)  # not even on the third try

    def test_rate_is_kept(self):
        self.check_rate_is_kept("10M", 16384, "-l", "16K")

    def test_rate_is_kept_in_reverse(self):
        self.check_rate_is_kept("10M", 16384, "-l", "16K", "-R")

    def test_burst_does_not_change_the_average(self):
        self.check_rate_is_kept("10M/20", 20 * 1024, "-l", "1K", "-R")

    def test_rate_is_per_stream(self):
        client, _ = self.documents(("-t", "1", "-b", "8M", "-P", "2", "-l", "8K"))
        self.assertEqual(client["start"]["target_bitrate"], 8000000)
        end = client["end"]
        for stream in end["streams"]:
            self.assertLessEqual(stream["sender"]["bytes"],
                                 1e6 * stream["sender"]["seconds"] * 1.05 + 8192)

    def test_low_rate_gets_a_small_block(self):
        for more in ((), ("-R",)):
            client, server = self.documents(("-t", "1", "-b", "100k", "-i", "0") + more)
            for document in (client, server):
                # No more than a tenth of a second's worth.
                self.assertLessEqual(document["start"]["test_start"]["blksize"], 1250)
                self.assertGreater(document["start"]["test_start"]["blksize"], 0)
            self.assertLessEqual(client["end"]["sum_sent"]["bytes"],
                                 12500 * client["end"]["sum_sent"]["seconds"] + 2 * 1250)

    def test_length_that_is_given_stays(self):
        client, _ = self.documents(("-n", "1", "-b", "100k", "-l", "20000"))
        self.assertEqual(client["start"]["test_start"]["blksize"], 20000)

    def test_high_rate_keeps_the_default_block(self):
        client, _ = self.documents(("-n", "1M", "-b", "1G"))
        self.assertEqual(client["start"]["test_start"]["blksize"], 131072)


# Options that fail at run time ################################################


class Refusals(figures.Case):
    """What the system, or the other end, does not give."""

    @staticmethod
    def largest_buffer():
        try:
            with open("/proc/sys/net/core/wmem_max") as stream:
                return int(stream.read())
        except OSError:
            return None

    def check_as_captured(self, name, *arguments):
        client, server = support.run_pair(support.OURS, support.OURS, arguments)
        case = captures.Case(name)
        for left, side in ((client, "client"), (server, "server")):
            self.assertEqual(left.err, case.err(side), left)
            self.assertEqual(left.code, case.status(side))
            self.assertEqual(figures.masked(left.out), figures.masked(case.out(side)))

    def test_window_that_the_system_does_not_give(self):
        if not 0 < (self.largest_buffer() or 0) < 200 * MEBIBYTE:
            self.skipTest("this system may give so large a buffer")
        self.check_as_captured("err-window-run", "-t", "2", "-i", "1", "-w", "400M")

    def test_unknown_congestion_control(self):
        client, server = support.run_pair(support.OURS, support.OURS,
                                          ("-t", "2", "-i", "1", "-C", "nosuch"))
        case = captures.Case("err-congestion")
        self.assertEqual((client.code, client.err), (1, case.err("client")))
        self.assertEqual(figures.masked(client.out), figures.masked(case.out("client")))
        # The client has met it first, and ends the session in order.
        self.assertEqual(server.code, 0)
        self.assertIn(server.err, ("", case.err("server")))

    def test_unknown_congestion_control_in_json(self):
        client, _ = support.run_pair(support.OURS, support.OURS,
                                     ("-t", "2", "-J", "-C", "nosuch"), ("-J",))
        self.assertEqual((client.code, client.err), (1, ""))
        self.assertEqual(client.json()["error"],
                         "unable to set TCP_CONGESTION: Supplied congestion control algorithm "
                         "not supported on this host")

    @staticmethod
    @contextlib.contextmanager
    def full_listener():
        """Listen, but accept nothing and have no room in the backlog; yields the port."""
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            for _ in range(8):
                sock = stack.enter_context(socket.socket())
                sock.setblocking(False)
                sock.connect_ex(listener.getsockname())
            time.sleep(0.1)
            yield listener.getsockname()[1]

    def test_connect_timeout_ends_the_wait(self):
        with self.full_listener() as port:
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port,
                                               "--connect-timeout", "300"), 20.0)
        self.assertEqual((left.code, left.out), (1, ""))
        self.assertEqual(left.err, "iperf3: error - unable to connect to server - server may have"
                                   " stopped running or use a different port, firewall issue,"
                                   " etc.: Connection timed out (127.0.0.1 port %d)\n" % port)

    def test_connect_timeout_in_json(self):
        with self.full_listener() as port:
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-J",
                                               "--connect-timeout", "300"), 20.0)
        self.assertEqual((left.code, left.err), (1, ""))
        self.assertTrue(left.json()["error"].endswith("Connection timed out"), left)
        self.assertEqual((left.json()["intervals"], left.json()["end"]), ([], {}))

    def test_connect_timeout_does_not_end_a_test(self):
        client, _ = self.documents(("-t", "1", "-b", "1M", "--connect-timeout", "500"))
        self.assertEqual(client["start"]["test_start"]["duration"], 1)


# Files ########################################################################


class Files(figures.Case):
    """-F sends a file and writes what is received; --repeating-payload as it arrives."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.source = os.path.join(self.folder, "source")
        self.target = os.path.join(self.folder, "target")

    def fill(self, size):
        content = os.urandom(size)
        with open(self.source, "wb") as stream:
            stream.write(content)
        return content

    def received(self):
        with open(self.target, "rb") as stream:
            return stream.read()

    def test_file_arrives(self):
        for size in (131072 * 3, 300001, 5):
            content = self.fill(size)
            client, server = self.documents(("-F", self.source), ("-F", self.target))
            self.assertEqual(self.received(), content)
            self.assertEqual(client["start"]["test_start"]["bytes"], size)
            self.assertEqual(client["start"]["test_start"]["duration"], 0)
            self.assertEqual(client["end"]["sum_sent"]["bytes"], size)
            self.assertEqual(client["end"]["streams"][0]["diskfile"], {
                "sent": size, "received": size, "size": size, "percent_sent": 100,
                "percent_received": 100, "filename": self.source})
            self.assertEqual(server["end"]["streams"][0]["diskfile"]["received"], size)
            self.assertEqual(server["end"]["streams"][0]["diskfile"]["filename"], self.target)

    def test_empty_file_arrives_and_the_test_ends(self):
        self.fill(0)
        client, server = self.documents(("-F", self.source), ("-F", self.target))
        self.assertEqual(self.received(), b"")
        for document in (client, server):
            self.assertEqual(document["start"]["test_start"]["duration"], 0)
        self.assertEqual(client["end"]["streams"][0]["diskfile"]["percent_sent"], 100)

    def test_file_shorter_than_the_amount_ends_the_test(self):
        content = self.fill(300001)
        client, _ = self.documents(("-F", self.source, "-n", "1M"), ("-F", self.target))
        self.assertEqual(self.received(), content)
        self.assertEqual(client["end"]["sum_received"]["bytes"], 300001)

    def test_members_are_those_of_iperf3(self):
        self.fill(524288)
        client, server = self.documents(("-F", self.source))
        case = captures.Case("json-file")
        for document, side in ((client, "client"), (server, "server")):
            expected, = captures.documents(case.out(side))
            self.assertEqual(figures.shape(document), figures.shape(expected))

    def test_file_arrives_with_threads(self):
        content = self.fill(300001)
        self.documents(("-F", self.source, "--threads"), ("-F", self.target, "--threads"))
        self.assertEqual(self.received(), content)

    def test_file_arrives_in_blocks_of_any_length(self):
        content = self.fill(300001)
        for length in ("777", "1M"):
            self.documents(("-F", self.source, "-l", length), ("-F", self.target))
            self.assertEqual(self.received(), content)

    def test_file_arrives_at_a_rate(self):
        content = self.fill(100001)
        self.documents(("-F", self.source, "-b", "8M", "-l", "4K"), ("-F", self.target))
        self.assertEqual(self.received(), content)

    def test_file_arrives_in_reverse(self):
        content = self.fill(300001)
        client, server = self.documents(("-R", "-t", "1", "-F", self.target),
                                        ("-F", self.source))
        self.assertEqual(self.received(), content)
        self.assertEqual(client["end"]["sum_sent"]["bytes"], 300001)
        self.assertEqual(client["end"]["streams"][0]["diskfile"]["filename"], self.target)
        self.assertEqual(server["end"]["streams"][0]["diskfile"]["size"], 300001)
        self.assertEqual(server["end"]["streams"][0]["diskfile"]["percent_sent"], 100)

    def test_file_is_cut_to_what_arrives(self):
        with open(self.target, "wb") as stream:
            stream.write(b"x" * 1000000)
        content = self.fill(1000)
        self.documents(("-F", self.source), ("-F", self.target))
        self.assertEqual(self.received(), content)

    def test_a_part_of_a_file(self):
        content = self.fill(300000)
        client, _ = self.documents(("-F", self.source, "-n", "1000", "-l", "1000"),
                                   ("-F", self.target))
        self.assertEqual(self.received(), content[:1000])
        self.assertEqual(client["end"]["streams"][0]["diskfile"]["percent_sent"], 0)

    def test_line_of_the_file_in_the_text(self):
        self.fill(524288)
        client, server = self.pair(("-F", self.source), ("-F", self.target))
        self.assertIn("\n        Sent  512 KByte /  512 KByte (100%%) of %s\n" % self.source,
                      client.out)

    def test_text_is_that_of_iperf3(self):
        self.fill(524288)
        with contextlib.ExitStack() as stack:
            stack.callback(os.chdir, os.getcwd())
            os.chdir(self.folder)
            os.rename("source", "data.bin")
            client, server = self.pair(("-i", "1", "-F", "data.bin"))
        case = captures.Case("text-file")
        self.assertEqual(figures.outline(client.out), figures.outline(case.out("client")))
        self.assertEqual(figures.outline(server.out), figures.outline(case.out("server")))

    def test_missing_file_of_the_client(self):
        path = os.path.join(self.folder, "nosuch")
        program, port = support.start_server(support.OURS)
        client = support.OURS + ("-c", "127.0.0.1", "-p", port)
        with program:
            for more in ((), ("-t", "1"), ("-n", "1M", "-P", "2")):
                command = client + ("-F", path) + more
                left = support.run(command)
                self.assertEqual(left.code, 1)
                self.assertEqual(left.err, "iperf3: error - unable to open -F file: "
                                           "No such file or directory\n")
                left = support.run(command + ("-J",))
                self.assertEqual((left.code, left.err), (1, ""))
                self.assertEqual(left.json()["error"],
                                 "unable to open -F file: No such file or directory")
            self.assertClean(support.run(client + ("-n", "1M")))
            self.assertEqual(program.err(), "")

    def test_missing_file_of_the_server(self):
        path = os.path.join(self.folder, "nosuch")
        client, server = support.run_pair(support.OURS, support.OURS, ("-R", "-t", "1"),
                                          ("-F", path))
        text = "error - unable to open -F file: No such file or directory"
        self.assertEqual(client.code, 1)
        self.assertEqual(client.err.splitlines()[-1], "iperf3: " + text)
        self.assertIn("SERVER ERROR - unable to open -F file", client.err)
        self.assertEqual((server.code, server.err), (0, "iperf3: %s\n" % text))

    # What is no regular file

    def make_pipe(self):
        if not hasattr(os, "mkfifo"):
            self.skipTest("no named pipes here")
        path = os.path.join(self.folder, "pipe")
        os.mkfifo(path)
        return path

    def feed(self, path, pieces, delay=0.2):
        """Write to a pipe beside the test, a while after each piece."""
        def write():
            time.sleep(delay)
            with open(path, "wb", 0) as stream:
                for piece in pieces:
                    stream.write(piece)
                    time.sleep(delay)
        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        self.addCleanup(writer.join, 10.0)

    def test_pipe_whose_writer_waited_lost_its_data(self):
        pipe, content = self.make_pipe(), os.urandom(300001)
        for more in ((), ("--threads",), ("-b", "20M"), ("-n", "1G"), ("-t", "30"), ("-O", "9")):
            with self.subTest(more=more):
                self.feed(pipe, [content[:100001], content[100001:]])
                client, server = self.pair(("-J", "-F", pipe) + more, ("-F", self.target))
                self.assertClean(client)
                self.assertEqual(self.received(), content)
                figures_of_file = client.json()["end"]["streams"][0]["diskfile"]
                self.assertEqual([figures_of_file[name] for name in (
                    "sent", "received", "size", "percent_sent", "percent_received")],
                    [300001, 300001, 300001, 100, 100])

    def test_what_a_pipe_brings_is_shared_by_the_streams(self):
        pipe = self.make_pipe()
        self.feed(pipe, [bytes(300001)])
        client, _ = self.pair(("-J", "-P", "3", "-F", pipe))
        self.assertEqual(client.json()["end"]["sum_received"]["bytes"], 300001)

    @unittest.skipUnless(os.path.exists("/dev/fd/0"), "no /dev/fd here")
    def test_descriptors_of_the_caller(self):
        content = os.urandom(60001)
        for name in ("/dev/stdin", "/dev/fd/0"):
            for make in (os.pipe, lambda: [each.detach() for each in socket.socketpair()]):
                reader, writer = make()
                server, port = support.start_server(support.OURS, "-1", "-F", self.target)
                with server, support.Program(support.OURS + (
                        "-c", "127.0.0.1", "-p", port, "-F", name), stdin=reader) as client:
                    os.close(reader)
                    with os.fdopen(writer, "wb", 0) as stream:
                        stream.write(content)
                    self.assertClean(client.finish())
                    self.assertClean(server.finish())
                self.assertEqual(self.received(), content)

    @unittest.skipUnless(os.path.exists("/dev/zero"), "no /dev/zero here")
    def test_device_without_an_end(self):
        client, _ = self.documents(("-F", "/dev/zero", "-n", "1M"))
        self.assertEqual(client["end"]["sum_received"]["bytes"], 1 << 20)
        client, _ = self.documents(("-F", "/dev/zero", "-t", "1"))
        self.assertEqual(client["end"]["streams"][0]["diskfile"]["percent_sent"], 100)

    def test_directory_is_refused(self):
        client = support.run(support.OURS + ("-c", "127.0.0.1", "-F", self.folder))
        self.assertEqual((client.code, client.err),
                         (1, "iperf3: error - unable to open -F file: Is a directory\n"))
        client, _ = support.run_pair(support.OURS, support.OURS, ("-R",), ("-F", self.folder))
        self.assertIn("unable to open -F file: Is a directory", client.err)

    def test_small_file_idled_to_the_end_of_the_time(self):
        content = self.fill(300001)
        for more in ((), ("-O", "9"), ("-b", "50M"), ("--threads",), ("--bidir",), ("-P", "2"),
                     ("-n", "1G"), ("-k", "99999"), ("--tls",)):
            with self.subTest(more=more):
                time = () if more[0:1] in (("-n",), ("-k",)) else ("-t", "50")
                client, server = self.pair(("-J", "-F", self.source) + time + more,
                                           () if "-P" in more else ("-F", self.target))
                self.assertClean(client)
                self.assertClean(server)
                end = client.json()["end"]
                self.assertLess(end["sum_sent"]["seconds"], 20.0)
                self.assertEqual([row["diskfile"]["sent"] for row in end["streams"]
                                  if "diskfile" in row], [300001] * (2 if "-P" in more else 1))
                if not {"-P", "--bidir"} & set(more):
                    self.assertEqual(end["sum_received"]["bytes"], 300001)
                    self.assertEqual(self.received(), content)

    def test_each_stream_sends_the_whole_file(self):
        self.fill(300001)
        client, server = self.documents(("-P", "3", "-F", self.source))
        self.assertEqual([row["receiver"]["bytes"] for row in client["end"]["streams"]],
                         [300001] * 3)
        self.assertEqual(client["start"]["test_start"]["bytes"], 300001)

    def test_client_idled_behind_the_end_of_the_servers_file(self):
        content = self.fill(300001)
        for more in (("-F", self.target), ("-F", self.target, "--tls"), ("--tls",)):
            client, server = self.pair(("-J", "-R", "-t", "50") + more, ("-F", self.source))
            self.assertClean(client)
            self.assertLess(client.json()["end"]["sum_received"]["seconds"], 20.0)
            self.assertEqual(client.json()["end"]["sum_received"]["bytes"], 300001)
            if "-F" in more:
                self.assertEqual(self.received(), content)

    def test_pipe_that_nobody_reads_is_named(self):
        pipe = self.make_pipe()
        text = "unable to open -F file: %s is a pipe that nobody reads\n" % pipe
        client, server = support.run_pair(support.OURS, support.OURS, ("-t", "9"), ("-F", pipe))
        self.assertEqual(server.err, "iperf3: error - " + text)
        self.assertIn("SERVER ERROR - unable to open -F file: Broken pipe", client.err)
        client, _ = support.run_pair(support.OURS, support.OURS, ("-R", "-F", pipe))
        self.assertEqual((client.code, client.err), (1, "iperf3: error - " + text))

    def test_pipe_that_stands_still_kept_the_server_busy(self):
        pipe = self.make_pipe()
        stalled = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, stalled)
        text = "iperf3: error - unable to open -F file: %s does not take what is written to it\n"
        for more in ((), ("--threads",)):
            client, server = support.run_pair(support.OURS, support.OURS, ("-t", "1", "-b", "8M"),
                                              ("-F", pipe) + more)
            self.assertClean(client)
            self.assertEqual((server.code, server.err), (0, text % pipe))
            client, server = support.run_pair(support.OURS, support.OURS, (
                "-R", "-t", "1", "-b", "8M", "-F", pipe) + more)
            self.assertEqual((client.code, client.err), (1, text % pipe))
            self.assertIn(" receiver\n", client.out)

    def test_pipe_that_stood_still_was_called_a_silent_client(self):
        pipe = self.make_pipe()
        self.addCleanup(os.close, os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
        _, server = support.run_pair(support.OURS, support.OURS, ("-t", "60"),
                                     ("--rcv-timeout", "500", "-F", pipe))
        self.assertIn("does not take what is written to it", server.err)

    def test_signal_while_a_pipe_is_waited_for(self):
        with support.Program(support.OURS + ("-c", "127.0.0.1", "-F", self.make_pipe())) as client:
            time.sleep(1.0)
            client.signal(signal.SIGINT)
            left = client.finish(20.0)
        self.assertIn("interrupt - the client has terminated by signal", left.err)

    def test_repeating_payload_arrives(self):
        self.documents(("--repeating-payload", "-n", "100000", "-l", "1000"),
                       ("-F", self.target))
        self.assertEqual(self.received(), b"0123456789" * 10000)

    def test_repeating_payload_begins_anew_in_every_block(self):
        self.documents(("--repeating-payload", "-n", "256K"), ("-F", self.target))
        block = (b"0123456789" * 13108)[:131072]
        self.assertEqual(self.received(), block * 2)

    def test_repeating_payload_in_reverse(self):
        for more in ((), ("-Z",)):
            self.documents(("--repeating-payload", "-R", "-n", "100000", "-l", "1000", "-F",
                            self.target) + more)
            content = self.received()
            self.assertEqual(content, (b"0123456789" * 10000)[:len(content)])
            self.assertGreaterEqual(len(content), 100000)

    def test_zerocopy_sends_whole_blocks_of_payload(self):
        self.documents(("--repeating-payload", "-Z", "-n", "100000", "-l", "1000"),
                       ("-F", self.target))
        self.assertEqual(self.received(), b"0123456789" * 10000)

    def test_payload_is_random_by_default(self):
        self.documents(("-n", "200000", "-l", "100000"), ("-F", self.target))
        content = self.received()
        self.assertEqual(content[:100000], content[100000:])
        self.assertEqual(len(set(content)), 256)

    def check_stalled(self, *arguments):
        """Run a client against a server that stands still for a while in the middle."""
        server, port = support.start_server(support.OURS, "-1", "--threads", "-F", self.target)
        with server:
            # Little fits into the buffers, so that the sender's calls end in the middle.
            with support.Program(support.OURS + (
                    "-c", "127.0.0.1", "-p", port, "-w", "64K", "-b", "40M") + arguments) as client:
                server.wait_for("connected to")
                for _ in range(2):
                    time.sleep(0.3)
                    server.signal(signal.SIGSTOP)
                    time.sleep(0.4)
                    server.signal(signal.SIGCONT)
                self.assertClean(client.finish())
            self.assertClean(server.finish())

    @unittest.skipUnless(hasattr(signal, "SIGSTOP"), "needs SIGSTOP")
    def test_file_is_whole_if_the_receiver_stalls(self):
        content = self.fill(8000001)
        self.check_stalled("-F", self.source)
        self.assertEqual(self.received(), content)

    @unittest.skipUnless(hasattr(signal, "SIGSTOP"), "needs SIGSTOP")
    def test_payload_is_whole_if_the_receiver_stalls(self):
        for more in ((), ("-Z",)):
            self.check_stalled("--repeating-payload", "-l", "100000", "-n", "8000000", *more)
            self.assertEqual(self.received(), b"0123456789" * 800000)

    def test_file_is_whole_with_skip_rx_copy(self):
        content = self.fill(300001)
        self.documents(("-F", self.source, "--skip-rx-copy"), ("-F", self.target))
        self.assertEqual(self.received(), content)


# The server's output ##########################################################


class ServerOutput(figures.Case):
    """--get-server-output, for each kind of output of both ends."""

    def relayed(self, server):
        """Return what a text server should have relayed of what it printed."""
        begin = server.out.index("Accepted connection")
        return server.out[begin:]

    def test_text_to_text(self):
        client, server = both("-n 64M --get-server-output")
        self.assertClean(client)
        self.assertTrue(client.out.endswith(
            "\n\nServer output:\n%s\n\niperf Done.\n" % self.relayed(server)), client)

    def test_text_to_json(self):
        client, server = both("-n 64M --get-server-output -J")
        self.assertClean(client)
        document = client.json()
        self.assertEqual(document["server_output_text"], self.relayed(server))
        self.assertNotIn("server_output_json", document)
        expected, = captures.documents(
            captures.Case("json-get-server-output-text-server").out("client"))
        self.assertEqual(figures.shape(document), figures.shape(expected))

    def check_relayed_document(self, document, server):
        expected = server.json()
        self.assertEqual(list(document)[:3], ["start", "intervals", "end"])
        for name in ("start", "intervals", "end"):
            self.assertEqual(document[name], expected[name])

    def test_json_to_text(self):
        client, server = both("-n 64M --get-server-output", "-J")
        self.assertClean(client)
        begin = client.out.index("\n\nServer JSON output:\n")
        document, end = json.JSONDecoder().raw_decode(client.out, client.out.index("{", begin))
        self.check_relayed_document(document, server)
        self.assertEqual(client.out[end:], "\n\niperf Done.\n")

    def test_json_to_json(self):
        client, server = both("-n 64M --get-server-output -J", "-J")
        self.assertClean(client)
        self.check_relayed_document(client.json()["server_output_json"], server)
        self.assertNotIn("server_output_text", client.json())

    def test_bidir_puts_it_between_the_directions(self):
        client, server = both("-t 1 -b 100M --bidir --get-server-output -i 0.2", "-i 0.2")
        self.assertClean(client)
        case = captures.Case("text-get-server-output-bidir")
        found, expected = [
            [line for line in figures.masked(text).split("\n")]
            for text in (client.out, case.out("client"))]
        for lines in (found, expected):
            del lines[3:lines.index("Server output:")]  # rows of intervals
        self.assertEqual(list(dict.fromkeys(found)), list(dict.fromkeys(expected)))
        self.assertIn(self.relayed(server), client.out)

    def test_stream_to_stream(self):
        for server_arguments, name in (("--json-stream", "stream-get-server-output-json"),
                                       ("", "stream-get-server-output-text")):
            client, server = both("-n 64M --get-server-output --json-stream", server_arguments)
            self.assertClean(client)
            events = [json.loads(line)["event"] for line in client.lines()]
            expected = [json.loads(line)["event"]
                        for line in captures.Case(name).out("client").splitlines()]
            self.assertEqual(list(dict.fromkeys(events)), list(dict.fromkeys(expected)))

    def test_next_client_of_the_server_gets_none(self):
        program, port = support.start_server(support.OURS)
        with program:
            command = support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M", "-J")
            self.assertIn("server_output_text",
                          support.run(command + ("--get-server-output",)).json())
            self.assertNotIn("server_output_text", support.run(command).json())

    def test_many_intervals_fit(self):
        client, server = both("-t 1 -b 100M -i 0.1 -P 32 --get-server-output -J", "-i 0.1 -J")
        self.assertClean(client)
        self.check_relayed_document(client.json()["server_output_json"], server)


# JSON #########################################################################


class Notation(figures.Case):
    """The JSON text, as grep, cut and sed read it."""

    def test_one_member_a_line(self):
        for program in _both_in_json("forward"):
            lines = program.out.split("\n")
            self.assertEqual((lines[0], lines[-2], lines[-1]), ("{", "}", ""))
            for line in lines[1:-2]:
                self.assertRegex(line, r'\A\t+(?:"\w+":\t.+|[}\]]+,?|\}, \{)\Z')

    def test_grep_cut(self):
        text = _both_in_json("forward")[0].out
        found = [line.split(":")[1] for line in text.split("\n") if "bits_per_second" in line]
        self.assertEqual(float(found[-1].replace(",", "")),
                         json.loads(text)["end"]["sum_received"]["bits_per_second"])

    def test_whole_numbers_have_no_fraction(self):
        for program in _both_in_json("forward"):
            self.assertIsNone(re.search(r"\d\.0\b(?!\.)", re.sub(r'"[^"]*"', "", program.out)))

    def test_last_character_is_a_newline(self):
        for program in _both_in_json("forward"):
            self.assertTrue(program.out.endswith("}\n"))

    def test_warning_about_format_goes_to_standard_error(self):
        left = loopback("-n", "1M", "-J", "-f", "m")
        self.assertEqual(left.code, 0)
        self.assertEqual(left.err,
                         "warning: Report format (-f) flag ignored with JSON output (-J)\n")
        self.check_document(left.json())

    def test_verbose_does_not_spoil_it(self):
        left = loopback("-n", "1M", "-J", "-V")
        self.assertEqual(left.code, 0)
        self.check_document(left.json())

    def test_jq_paths(self):
        for mode in ("forward", "reverse", "parallel_2"):
            document = _both_in_json(mode)[0].json()
            end = document["end"]
            for place in ("sum_sent", "sum_received"):
                for name in ("start", "end", "seconds", "bytes", "bits_per_second", "sender"):
                    self.assertIn(name, end[place])
            self.assertIsInstance(end["sum_sent"]["retransmits"], int)
            self.assertNotIn("sum", end)
            for name in ("min_rtt", "mean_rtt", "max_rtt", "max_snd_cwnd", "max_snd_wnd",
                         "reorder"):
                self.assertIsInstance(end["streams"][0]["sender"][name], int)
            cpu = end["cpu_utilization_percent"]["host_total"]
            self.assertIsInstance(cpu, (int, float))
            self.assertIsInstance(end["sender_tcp_congestion"], str)
            self.assertIsInstance(end["receiver_tcp_congestion"], str)
            rates = [each["sum"]["bits_per_second"] for each in document["intervals"]]
            self.assertGreater(sum(rates) / len(rates), 0)

    def test_forward_rows_have_the_columns_of_plotters(self):
        document = _both_in_json("forward")[0].json()
        for interval in document["intervals"]:
            for row in interval["streams"]:
                for name in ("socket", "start", "end", "seconds", "bytes", "bits_per_second",
                             "retransmits", "snd_cwnd", "rtt", "rttvar", "pmtu", "omitted"):
                    self.assertIn(name, row)
                self.assertIs(row["omitted"], False)

    def test_nothing_known_of_the_others_cpu_is_left_out(self):
        client, server = [program.json() for program in _both_in_json("forward")]
        host = server["end"]["cpu_utilization_percent"]
        remote = client["end"]["cpu_utilization_percent"]
        for part in ("total", "user", "system"):
            self.assertAlmostEqual(remote["remote_" + part], host["host_" + part], delta=1e-6)
            self.assertEqual(host["remote_" + part], 0)


class Events(figures.Case):
    """--json-stream."""

    def events(self, text):
        """Return (event, data) of every line; each holds these two members and no more."""
        pairs = []
        for line in text.splitlines():
            event = json.loads(line)
            self.assertEqual(list(event), ["event", "data"])
            self.assertTrue(line.startswith('{"event":"'), line)
            pairs.append((event["event"], event["data"]))
        return pairs

    def test_sequence_and_members_are_those_of_iperf3(self):
        for arguments, name in (("-t 1 -b 100M -i 0.2", "stream-tcp"),
                                ("-t 1 -b 100M -i 0.2 --bidir", "stream-tcp-bidir")):
            left = both(arguments + " --json-stream", "--json-stream -i 0.2")
            case = captures.Case(name)
            for program, side in zip(left, ("client", "server")):
                self.assertClean(program)
                found, expected = self.events(program.out), self.events(case.out(side))
                names = [event for event, _ in found]
                self.assertEqual((names[0], names[-1]), ("start", "end"))
                self.assertEqual(set(names[1:-1]), {"interval"})
                for event in ("start", "interval", "end"):
                    shapes = [figures.shape([data for each, data in pairs if each == event])
                              for pairs in (found, expected)]
                    self.assertEqual(shapes[0], shapes[1])

    def test_events_make_up_a_document(self):
        left = both("-t 1 -b 100M -i 0.2 --json-stream", "--json-stream -i 0.2")
        documents = []
        for program in left:
            events = self.events(program.out)
            documents.append({
                "start": events[0][1],
                "intervals": [data for event, data in events if event == "interval"],
                "end": events[-1][1],
            })
        self.check_pair(*documents)

    def test_full_output(self):
        left = both("-t 1 -b 100M -i 0.2 --json-stream --json-stream-full-output",
                    "-i 0.2 --json-stream --json-stream-full-output")
        for program, side in zip(left, ("client", "server")):
            self.assertClean(program)
            begin = program.out.index("\n{\n") + 1
            events = self.events(program.out[:begin])
            document = json.loads(program.out[begin:])
            self.check_document(document)
            self.assertEqual(document["start"], events[0][1])
            self.assertEqual(document["intervals"],
                             [data for event, data in events if event == "interval"])
            self.assertEqual(document["end"], events[-1][1])

    def test_it_wins_over_json(self):
        left = loopback("-n", "1M", "-J", "--json-stream")
        self.assertClean(left)
        self.assertEqual([event for event, _ in self.events(left.out)],
                         ["start", "interval", "end"])

    def test_jq_select(self):
        client, _ = both("-t 1 -b 100M -i 0.2 --json-stream", "--json-stream -i 0.2")
        events = self.events(client.out)
        rates = [data["sum"]["bits_per_second"] for event, data in events if event == "interval"]
        self.assertGreater(min(rates), 0)
        self.assertGreater(events[-1][1]["sum_received"]["bits_per_second"], 0)


# Text #########################################################################

# capture: our arguments for a test with the same lines
TEXTS = {
    "text-tcp": "-t 1 -b 100M -i 0.2",
    "text-tcp-reverse": "-t 1 -b 100M -i 0.2 -R",
    "text-tcp-bidir": "-t 1 -b 100M -i 0.2 --bidir",
    "text-tcp-parallel2": "-t 1 -b 100M -i 0.2 -P 2",
    "text-tcp-bidir-parallel2": "-t 1 -b 100M -i 0.2 --bidir -P 2",
    "text-tcp-reverse-parallel2": "-t 1 -b 100M -i 0.2 -R -P 2",
    "text-tcp-omit1": "-t 1 -b 100M -i 0.2 -O 1",
    "text-interval-0": "-t 1 -b 100M -i 0",
    "text-reverse-interval-0": "-t 1 -b 100M -i 0 -R",
    "text-single-interval-reverse": "-t 1 -b 100M -i 1 -R",
    "text-tcp-verbose": "-t 1 -i 0.2 -V",
    "text-tcp-reverse-verbose": "-t 1 -i 0.2 -R -V",
    "text-tcp-bidir-verbose": "-t 1 -i 0.2 --bidir -V",
    "text-tcp-parallel2-verbose": "-t 1 -i 0.2 -P 2 -V",
    "text-tcp-bytes-verbose": "-n 1M -V",
    "text-tcp-blocks-verbose": "-k 10 -V",
    "text-title": "-t 1 -b 100M -i 0.2 -T MYTITLE",
}


class Text(figures.Case):
    """The text is that of iperf3, but for the numbers."""

    @staticmethod
    def server_arguments(name):
        return "-i 0.2" + (" -V" if "verbose" in name else "")

    def check_units(self, letter, unit):
        left = loopback("-n", "20M", "-f", letter)
        self.assertClean(left)
        rates = re.findall(r"(?m)^\[ .*sec +\S+ \wBytes +\S+ (\S+/sec)", left.out)
        self.assertGreaterEqual(len(rates), 3)
        self.assertEqual(set(rates), {unit})

    def test_units_of_rates(self):
        self.check_units("k", "Kbits/sec")
        self.check_units("M", "MBytes/sec")
        self.check_units("g", "Gbits/sec")

    def test_title_is_on_every_line(self):
        client, server = both(TEXTS["text-title"], "-i 0.2")
        for line in client.lines():
            self.assertTrue(line.startswith("MYTITLE:  "), repr(line))
        self.assertNotIn("MYTITLE", server.out)

    def test_blanks_at_the_ends_of_lines(self):
        client, server = both("-t 1 -b 100M -i 0.2", "-i 0.2")
        for line in client.lines():
            if re.match(r"\[ +\d", line) and line.endswith(" "):
                self.assertRegex(line, r"[KM]?Bytes {7}\Z")
        for line in server.lines():
            if re.match(r"\[ +\d", line) and line.endswith(" "):
                self.assertRegex(line, r"bits/sec {18}\Z")


def _text_test(name):
    def test(self):
        arguments = TEXTS[name]
        interval = "-i 0" if "-i 0 " in arguments + " " else "-i 0.2"
        left = both(arguments, interval + (" -V" if "verbose" in name else ""))
        case = captures.Case(name)
        for program, side in zip(left, ("client", "server")):
            self.assertClean(program)
            self.assertEqual(figures.outline(program.out), figures.outline(case.out(side)), side)
    return test


for _name in TEXTS:
    setattr(Text, "test_lines_of_" + re.sub(r"\W", "_", _name), _text_test(_name))


def awk(line):
    """Return the fields of a line as awk numbers them: from 1."""
    return [line] + line.split()


class Consumers(figures.Case):
    """What scripts take out of the text, field by field."""

    RATE = re.compile(r"\A\d+(\.\d+)?\Z")

    def rows(self, arguments, *words):
        client, _ = both(arguments, "-i 0.2")
        self.assertClean(client)
        return [awk(line) for line in client.lines() if all(word in line for word in words)]

    def test_number_of_fields(self):
        for arguments in ("-t 1 -b 100M -i 0.2", "-t 1 -i 0.2 --bidir"):
            for row in self.rows(arguments, "sender"):
                self.assertEqual(len(row) - 1, 10, row)
            for row in self.rows(arguments, "receiver"):
                self.assertEqual(len(row) - 1, 9, row)
        for word, count in (("sender", 9), ("receiver", 8)):
            row, = self.rows("-t 1 -b 100M -i 0.2 -P 2", "SUM", word)
            self.assertEqual(len(row) - 1, count, row)

    def test_fields_of_rate_and_transfer(self):
        for word in ("sender", "receiver"):
            row, = self.rows("-t 1 -b 100M -i 0.2", word)
            self.assertRegex(row[5], self.RATE)
            self.assertRegex(row[6], r"\A[KMGT]?Bytes\Z")
            self.assertRegex(row[7], self.RATE)
            self.assertRegex(row[8], r"\A[KMGT]?bits/sec\Z")
            row, = self.rows("-t 1 -b 100M -i 0.2 -P 2", "SUM", word)
            self.assertRegex(row[4], self.RATE)
            self.assertRegex(row[6], self.RATE)
            self.assertRegex(row[7], r"\A[KMGT]?bits/sec\Z")

    def test_fields_from_the_end(self):
        row, = self.rows("-t 1 -b 100M -i 0.2", "receiver")
        self.assertRegex(row[-3], self.RATE)
        self.assertRegex(row[-2], r"bits/sec\Z")

    def test_retransmits_are_the_ninth_field(self):
        row, = self.rows("-t 1 -b 100M -i 0.2", "sender")
        self.assertRegex(row[9], r"\A\d+\Z")

    def test_roles_stick_to_the_number(self):
        for row in self.rows("-t 1 -b 100M -i 0.2 --bidir", "sec", "[TX-C]"):
            self.assertEqual(row[2], "4][TX-C]")
        for row in self.rows("-t 1 -b 100M -i 0.2 --bidir", "sec", "[RX-C]"):
            self.assertEqual(row[2], "6][RX-C]")

    def test_last_rate_in_megabits(self):
        client, _ = both("-t 1 -b 100M -i 0.2 -f m", "-i 0.2")
        rates = [awk(line)[7] for line in client.lines() if "sender" in line]
        self.assertRegex(rates[-1], self.RATE)

    def test_order_of_the_last_lines(self):
        client, _ = both("-t 1 -b 100M -i 0.2", "-i 0.2")
        lines = client.lines()
        self.assertRegex(lines[-6], r"\A- - - ")
        self.assertRegex(lines[-5], r"\A\[ ID\] Interval")
        self.assertTrue(lines[-4].endswith("sender"))
        self.assertTrue(lines[-3].endswith("receiver"))
        self.assertEqual(lines[-2:], ["", "iperf Done."])

    def test_patterns_of_parsers(self):
        client, server = both("-t 1 -b 100M -i 0.2", "-i 0.2")
        self.assertRegex(server.out, r"Accepted connection from ([^,]+), port (\d+)")
        self.assertRegex(server.out, r"Server listening on \d+ \(test #(\d+)\)")
        self.assertRegex(client.out, r"local (\S+) port (\d+) connected to (\S+) port (\d+)")
        self.assertRegex(client.out, r"(?m)^-\s+-\s+-")
        self.assertRegex(client.out, r"([0-9\.]+)\s+[KMGT]?bits/sec\s+receiver")
        self.assertRegex(client.out, r"([0-9\.]+) [KMGT]?bits/sec\s+(\d*)\s+sender")
        self.assertIn("receiver", client.out)
        self.assertNotIn("error", client.out)


class Live(figures.Case):
    """Lines appear while the test runs, also through a pipe."""

    FEW = 3000  # bytes; where lines are not flushed nearly 4096, or more, come at once

    @contextlib.contextmanager
    def long_test(self, client_arguments=(), server_arguments=(), seconds="600", interval="0.2"):
        """Start a test that will not end by itself; yields (client, server, port)."""
        port = support.free_port()
        more = {"env": support.environment(PYTHONUNBUFFERED=None)}
        common = ("-p", port, "-i", interval)
        with support.Program(support.OURS + ("-s",) + common + tuple(server_arguments),
                             **more) as server:
            support.wait_for_listener(server, port)
            with support.Program(support.OURS + ("-c", "127.0.0.1", "-t", seconds, "-b", "8M"
                                                 ) + common + tuple(client_arguments),
                                 **more) as client:
                yield client, server, port

    def check_live(self, text, *arguments, **more):
        with self.long_test(arguments, arguments, **more) as (client, server, _):
            for program in (client, server):
                program.wait_for(text)
                self.assertLess(len(program.out()), self.FEW)
            self.assertIsNone(client.process.poll())
            client.signal(signal.SIGINT)
            client.finish()

    def test_rows_of_intervals(self):
        self.check_live("bits/sec")

    def test_events(self):
        self.check_live('{"event":"interval"', "--json-stream", interval="2")

    def test_banner_of_the_server(self):
        program, port = support.start_server(support.OURS)
        with program:
            program.wait_for("Server listening on %d (test #1)\n" % port)

    def test_second_client_is_told_that_the_server_is_busy(self):
        with self.long_test(("-J",)) as (client, server, port):
            server.wait_for("bits/sec", count=2)
            command = support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "1")
            for more in ((), ("-R",), ("--bidir", "-P", "4")):
                left = support.run(command + more)
                self.assertEqual((left.code, left.out, left.err),
                                 (1, "", "iperf3: error - %s\n" % BUSY))
            left = support.run(command + ("-J",))
            self.assertEqual((left.code, left.err), (1, ""))
            self.assertEqual(left.json()["error"], BUSY)
            expected, = captures.documents(captures.Case("err-busy-json").out("client"))
            self.assertEqual(figures.shape(left.json()), figures.shape(expected))
            left = support.run(command + ("--json-stream",))
            self.assertEqual((left.code, left.err), (1, ""))
            self.assertEqual([json.loads(line) for line in left.lines()],
                             [{"event": "error", "data": BUSY}, {"event": "end", "data": {}}])
            # The test goes on as if nothing had been.
            server.wait_for("bits/sec", count=server.out().count("bits/sec") + 3)
            self.assertEqual(server.err(), "")
            self.assertEqual(server.out().count("Accepted connection"), 1)
            client.signal(signal.SIGINT)
            left = client.finish()
        self.assertEqual((left.code, left.err), (0, ""))
        document = left.json()
        rows = [each["sum"] for each in document["intervals"]]
        self.assertEqual(sum(row["bytes"] for row in rows), document["end"]["sum_sent"]["bytes"])
        for before, row in zip(rows, rows[1:]):
            self.assertEqual(row["start"], before["end"])

    def test_test_beside_busy_clients_ends_well(self):
        # Long enough that even a slow host starts the others meanwhile.
        with self.long_test(("-J",), ("-1",), "5") as (client, server, port):
            server.wait_for("connected to")
            for _ in range(3):
                support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
            left, other = client.finish(), server.finish()
        self.assertClean(left)
        self.assertClean(other)
        self.check_document(left.json())


# Servers ######################################################################


class Servers(figures.Case):
    """One test after the other."""

    def test_two_tests(self):
        program, port = support.start_server(support.OURS)
        rule = "-" * 59
        with program:
            command = support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M")
            for number in (1, 2):
                program.wait_for("\n%s\nServer listening on %d (test #%d)\n%s\n" % (
                    rule, port, number, rule) if number > 1 else "(test #1)\n%s\n" % rule)
                self.assertClean(support.run(command))
            program.wait_for("(test #3)\n%s\n" % rule)
            program.signal(signal.SIGTERM)
            left = program.finish()
        self.assertEqual(left.code, 0)
        self.assertEqual(left.err, "iperf3: interrupt - the server has terminated by signal "
                                   "Terminated(15)\n")
        self.assertEqual(left.out.count("Accepted connection from 127.0.0.1, port "), 2)
        self.assertEqual(left.out.count(rule), 6)

    def test_streams_are_numbered_anew(self):
        program, port = support.start_server(support.OURS)
        with program:
            for _ in range(2):
                support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M", "-P", "2"))
            program.wait_for("(test #3)")
            numbers = re.findall(r"(?m)^\[ +(\d+)\] local", program.out())
        self.assertEqual(numbers, ["5", "7", "5", "7"])

    def test_one_document_per_test(self):
        program, port = support.start_server(support.OURS, "-J")
        with program:
            for arguments in (("-n", "1M"), ("-n", "1M", "-R"), ("-n", "1M", "--bidir")):
                command = support.OURS + ("-c", "127.0.0.1", "-p", port) + arguments
                self.assertClean(support.run(command))
            program.wait_for("\n}\n", count=3)
            documents = captures.documents(program.out())
            self.assertEqual(len(documents), 3)
            for document in documents:
                self.check_document(document)
            program.signal(signal.SIGTERM)
            left = program.finish()
        self.assertEqual((left.code, left.err), (0, ""))
        last = captures.documents(left.out)[-1]
        self.assertEqual(last["error"], "interrupt - the server has terminated by signal "
                                        "Terminated(15)")
        self.assertEqual((last["intervals"], last["end"]), ([], {}))

    def test_text_of_two_tests_is_that_of_iperf3(self):
        program, port = support.start_server(support.OURS)
        with program:
            for _ in range(2):
                support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "1"))
            program.wait_for("(test #3)\n" + "-" * 59 + "\n")
            program.signal(signal.SIGTERM)
            left = program.finish()
        expected = captures.Case("text-two-tests").out("server")
        # Rows that look alike come once: see figures.outline().
        found, expected = [re.sub(r"(?m)^(\[N\]N-N +sec.*\n)\1+", r"\1", figures.masked(text))
                           for text in (left.out, expected)]
        self.assertEqual(found, expected)

    def test_one_off_ends_after_its_test(self):
        program, port = support.start_server(support.OURS, "-1")
        with program:
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
            self.assertClean(left)
            self.assertClean(program.finish())
        self.assertFalse(support.listens(port))
        self.assertEqual(program.out().count("Server listening"), 1)

    def test_bare_connect_does_not_use_up_one_off(self):
        program, port = support.start_server(support.OURS, "-1")
        with program:
            for _ in range(3):
                socket.create_connection(("127.0.0.1", port)).close()
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
            self.assertClean(left)
            self.assertClean(program.finish())

    def test_clients_one_after_the_other_without_a_pause(self):
        program, port = support.start_server(support.OURS)
        with program:
            for number in range(10):
                more = ("-R",) if number % 2 else ()
                command = support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M") + more
                self.assertClean(support.run(command))
            program.wait_for("(test #11)")
            self.assertEqual(program.err(), "")


# --loopback ###################################################################


def session_members(session):
    """Return the process numbers of a session, without those that have ended."""
    members = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name) as stream:
                fields = stream.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            members.append(int(name))
    return members


class Loopback(figures.Case):
    """One command, both ends."""

    def test_output_is_a_clients(self):
        left = loopback("-n", "100M", "-i", "0.1")
        self.assertClean(left)
        expected = captures.Case("text-tcp").out("client")
        before, verdict, behind = re.split(r"(?m)^(Verdict: (?:.+\n)+)", left.out)
        self.assertEqual(figures.outline(before + behind), figures.outline(expected))
        self.assertIn("both ends run on this host", verdict)

    def test_modes(self):
        for arguments in (("-n", "10M"), ("-n", "10M", "-R"), ("-n", "10M", "--bidir"),
                          ("-n", "10M", "-P", "4"), ("-k", "10"), ("-n", "10M", "-Z"),
                          ("-n", "10M", "--threads"), ("-n", "10M", "-O", "1"),
                          ("-n", "10M", "--get-server-output")):
            left = loopback("-J", *arguments)
            self.assertClean(left)
            self.check_document(left.json())

    def test_ipv6(self):
        if not figures.has_ipv6():
            self.skipTest("no IPv6 here")
        left = loopback("-6", "-n", "1M", "-J")
        self.assertClean(left)
        self.assertEqual(left.json()["start"]["connected"][0]["remote_host"], "::1")

    def test_members_are_those_of_iperf3(self):
        left = loopback("-n", "10M", "-J")
        expected, = captures.documents(captures.Case("json-tcp-bytes").out("client"))
        self.assertEqual(figures.shape(left.json()), figures.shape(expected))

    def test_server_output(self):
        for more in ((), ("-J",)):
            left = loopback("-n", "1M", "--get-server-output", *more)
            self.assertClean(left)
            self.assertIn("server_output_json" if more else "\nServer output:\nAccepted",
                          left.out)

    def check_nothing_is_left(self, number, *arguments):
        """Send a signal in the middle of a test; returns what the program left."""
        with support.Program(support.OURS + ("--loopback", "-t", "60", "-i", "0.2", "-b", "8M"
                                             ) + arguments, start_new_session=True) as program:
            program.wait_for("bits/sec", count=2)
            if "--threads" not in arguments:
                self.assertGreater(len(session_members(program.pid)), 2)
            program.signal(number)
            left = program.finish()
        self.check_session_is_empty(program)
        return left

    def check_session_is_empty(self, program):
        deadline = time.monotonic() + 10.0
        while session_members(program.pid):
            self.assertLess(time.monotonic(), deadline, "processes are left: %r" % [
                session_members(program.pid)])
            time.sleep(0.02)

    @unittest.skipUnless(os.path.exists("/proc/self/stat"), "needs /proc")
    def test_no_process_is_left_after_a_test(self):
        for arguments in (("-n", "10M"), ("-n", "10M", "--bidir", "-P", "2"),
                          ("-n", "10M", "--threads")):
            with support.Program(support.OURS + ("--loopback",) + arguments,
                                 start_new_session=True) as program:
                self.assertClean(program.finish())
            self.check_session_is_empty(program)

    @unittest.skipUnless(os.path.exists("/proc/self/stat"), "needs /proc")
    def test_no_process_is_left_after_an_interrupt(self):
        for number, name in ((signal.SIGINT, "Interrupt(2)"), (signal.SIGTERM, "Terminated(15)")):
            for arguments in ((), ("-R", "-P", "2")):
                left = self.check_nothing_is_left(number, *arguments)
                self.assertEqual(left.code, 0)
                self.assertEqual(left.err, "iperf3: interrupt - the client has terminated by "
                                           "signal %s\n" % name)

    @unittest.skipUnless(os.path.exists("/proc/self/stat"), "needs /proc")
    def test_no_process_is_left_after_a_kill(self):
        for arguments in ((), ("--bidir", "-P", "2"), ("--threads",)):
            left = self.check_nothing_is_left(signal.SIGKILL, *arguments)
            self.assertEqual(left.code, -signal.SIGKILL)

    @unittest.skipUnless(os.path.exists("/proc/self/stat"), "needs /proc")
    def test_no_process_is_left_if_both_ends_are_killed(self):
        for more in ((), ("-R",), ("--bidir", "-P", "2")):
            port = support.free_port()
            with support.Program(support.OURS + ("-s", "-p", port),
                                 start_new_session=True) as server:
                support.wait_for_listener(server, port)
                with support.Program(support.OURS + (
                        "-c", "127.0.0.1", "-p", port, "-t", "60", "-i", "0.2", "-b", "8M"
                        ) + more, start_new_session=True) as client:
                    client.wait_for("bits/sec")
                    for program in (client, server):
                        program.signal(signal.SIGSTOP)  # neither sees the other's end
                    for program in (client, server):
                        program.signal(signal.SIGKILL)
                        program.finish()
            self.check_session_is_empty(client)
            self.check_session_is_empty(server)


class Reported(field.Case):
    """Public reports about iperf3 and its like, each with the test that would have found it."""

    # B09: iperf3 #1662; riperf3 #198, #205
    def test_argparse_is_not_getopt(self):
        real = support.real("3.22")
        refused = ["-c x -t -1", "-c x -u -l 10", "-c x -i 0.01", "-c x -P 129", "-c x -R --bidir",
                   "-c x -n 1 -t 1", "-s -c x", "-s -t 1", "-c x -D", "--ver", "", "-c x --nosuch",
                   "-c x -p"]
        for (words,), (ours, theirs) in support.together(
                lambda words: (field.run(support.OURS, words), field.run(real, words)),
                [(words,) for words in refused]):
            self.assertEqual((ours.code, ours.out), (1, ""), words)
            self.assertEqual(*[re.sub(r"(?m)^(\S*/)?iperf3:", "NAME:", support.as_iperf3(left.err))
                               for left in (ours, theirs)], msg=words)
        self.assertIn("is ambiguous; possibilities: ", field.run(support.OURS, "--ver").err)
        self.assertIn("test duration valid values are 0 to 86400 seconds",
                      field.run(support.OURS, "-c x -t -1").err)
        left = field.run(support.OURS, "--help")
        self.assertEqual((left.code, left.err), (0, ""))
        self.assertIn("--json-stream", left.out)
        for (words, expected), (left, _) in field.abreast(
                lambda words, _: support.run_pair(support.OURS, support.OURS,
                                                  ("-J", "-b", "10M") + words), [
                    (("-P4", "-t1", "-i.5"), {"num_streams": 4, "duration": 1}),
                    (("-Rt1",), {"reverse": 1, "duration": 1}),
                    (("--parallel=4", "-n", "1K"), {"num_streams": 4, "bytes": 1024}),
                    (("--par", "2", "--rev", "-n", "1K"), {"num_streams": 2, "reverse": 1}),
                    (("-n", "0", "-t", "1"), {"bytes": 0, "duration": 1}),
                    (("-k", "0", "-t", "1"), {"blocks": 0, "duration": 1}),
                    (("stray", "", "-n", "1K", "--", "stray", ""), {"bytes": 1024})]):
            self.assertEqual((left.code, left.err), (0, ""), left)
            setup = left.json()["start"]["test_start"]
            self.assertEqual({name: setup[name] for name in expected}, expected)
        port = support.free_port()
        with support.Program(support.OURS + ("-1s", "-p%d" % port)) as server:
            support.wait_for_listener(server, port)
            self.honest(port)
            self.assertEqual(server.finish(20.0).code, 0)

    # B33: riperf3 #56, #73, #334; iperf3 #768
    def test_1000_for_rates_and_1024_for_sizes(self):
        for (words, expected), left in support.together(
                lambda words, _: field.run(support.OURS, "--loopback -J " + words), [
                    ("-b 1.5m -n 1K", {"target_bitrate": 1500000}),
                    ("-b 1K -n 1 -l 1", {"target_bitrate": 1000}),
                    ("-n 1K -l 1k", {"bytes": 1024, "blksize": 1024}),
                    ("-b 10M/100 -l 10 -n 1K", {"target_bitrate": 10000000}),
                    ("-w 64K -n 1K", {"sock_bufsize": 65536})]):
            self.assertEqual((left.code, left.err), (0, ""), left)
            start = left.json()["start"]
            found = dict(start, **start["test_start"])
            self.assertEqual({name: found[name] for name in expected}, expected)
        self.assertGreaterEqual(start["sndbuf_actual"], 65536)
        row = r"(\d+\.\d+)-(\d+\.\d+) +sec +(\S+) (\S+) +(\S+) (\S+)"
        for (letter, unit), left in field.abreast(
                lambda letter, unit: field.run(
                    support.OURS, "--loopback -t 1 -b 80M -l 10K -f " + letter),
                [(letter, prefix + ("bits/sec" if letter.islower() else "Bytes/sec"))
                 for letter, prefix in zip("kmgtKMGT", "KMGTKMGT")]):
            start, end, size, size_unit, rate, rate_unit = re.findall(row, left.out)[-1]
            self.assertEqual((rate_unit, size_unit), (unit, "MBytes"), left)
            if letter in "kmKM":
                # 1024 for sizes; rates of bits are counted in 1000
                step = 1000.0 if letter.islower() else 1024.0
                power = "kmKM".index(letter) % 2 + 1
                got = float(rate) * step ** power * (0.125 if letter.islower() else 1.0)
                self.assertAlmostEqual(got * (float(end) - float(start)) / 2 ** 20,
                                       float(size), delta=0.02 * float(size))

    # B34: riperf3 #317, #328; pscheduler, zosbase: what wrappers type
    def test_atoi_is_lenient(self):
        for (words, expected), (left, _) in support.together(
                lambda words, _: support.run_pair(support.OURS, support.OURS,
                                                  words + ("-J", "-b", "10M")), [
                    (("-t", "1s"), {"duration": 1}),
                    (("-O", "0.9", "-t", "1.9"), {"omit": 0, "duration": 1}),
                    (("", "-n", "1K"), {"bytes": 1024})]):
            self.assertEqual((left.code, left.err), (0, ""), left)
            setup = left.json()["start"]["test_start"]
            self.assertEqual({name: setup[name] for name in expected}, expected)
        server, port = self.serve()
        self.honest("%dx" % port, "--bandwidth 0 -n 1M")
        left = field.client(port, "--length 16B")  # iperf3 before 3.21 took it for 16
        self.assertEqual(left.code, 1)
        self.assertIn("parameter error - invalid unit value or suffix: '16B'\n", left.err)
        left = field.client(port, "-t abc")  # iperf3 takes it for 0, that is, without an end
        self.assertEqual((left.code, left.out), (1, ""), left)
        self.assertIn("parameter error", left.err)

    # B20: riperf3 #119, #21
    def test_zero_means_unlimited_and_absent_means_default(self):
        server, port = self.serve("-J")
        for number, parameters in enumerate((
                {"len": 131072, "reverse": True, "surprise": [1, {"x": None}]},
                {"reverse": True, "bandwidth": 0, "num": 0, "blockcount": 0, "omit": 0})):
            document = {"tcp": True, "time": 1, "parallel": 1, "client_version": "3.1"}
            if number:
                document = {"tcp": True, "time": 1}  # all else is absent
            document.update(parameters)
            with fakes.connect(port) as control, fakes.connect(port) as data:
                control.sendall(fakes.COOKIE + fakes.frame(document))
                self.assertEqual(fakes.receive(control, 2), b"\x09\x0a")
                data.sendall(fakes.COOKIE)
                self.assertEqual(fakes.receive(control, 2), b"\x01\x02")
                # ten seconds at the rate that is UDP's default
                self.assertEqual(len(fakes.receive(data, 10 << 17)), 10 << 17)
                control.sendall(b"\x0c")
        support.wait_until(lambda: server.out().count("\n}") >= 2, "two documents")
        for document in captures.documents(server.out()):
            setup = document["start"]["test_start"]
            self.assertEqual([setup[name] for name in (
                "num_streams", "blksize", "omit", "duration", "bytes", "blocks", "reverse",
                "target_bitrate")], [1, 131072, 0, 1, 0, 0, 1, 0])
        for words, (left, _) in support.together(lambda *words: field.pair(*words), [
                ("-t 1 -n 0 -J",), ("-t 1 -k 0 -J -b 10M",), ("-u -b 0 -t 1 -J",)]):
            self.assertEqual((left.code, left.err), (0, ""), left)
            document = left.json()
            self.assertEqual(document["start"]["test_start"]["duration"], 1)
            self.assertGreaterEqual(document["end"]["sum_sent"]["seconds"], 1.0)
            if "-u" in words[0]:
                self.assertEqual(document["start"]["test_start"]["target_bitrate"], 0)
                self.assertGreater(document["end"]["sum_sent"]["bits_per_second"], 10 << 20)

    # B11: iperf3 #613, #826, #520
    def test_numbers_that_are_not_json(self):
        def starved(words):
            server, port = self.serve("-1", "-J")
            with Relay(port, lambda way, flow, number, data: [data] if number == 1 else []) as path:
                return field.client(path.port, words + " -J"), server.finish(20.0)

        def whole(words):
            return field.pair(words + " -J", "-J")

        def interrupted(words):
            server, port = self.serve("-1", "-J")
            idle = support.descriptors(server.pid)
            with support.Program(support.OURS + ("-c", "127.0.0.1", "-p", port, "-i", "0.2", "-J")
                                 + tuple(words.split())) as program:
                # until there is a data connection, too
                support.wait_until(lambda: support.descriptors(server.pid) > idle + 1, "a test")
                return self.end(program, signal.SIGINT), server.finish(20.0)
        found = field.abreast(lambda function, words: function(words), [
            (starved, "-u -t 1 -b 100K -l 1000"), (starved, "-u -t 1 -b 100K -l 1000 -R"),
            (whole, "-u -t 1 -b 1k"), (whole, "-n 1"), (whole, "-n 1 -l 1 -R"), (whole, "-u -n 1"),
            (interrupted, "-t 1 -O 30"), (interrupted, "-u -t 1 -O 30")])
        for _, programs in found[:2]:
            for program in programs:
                self.assertEqual((program.code, program.err), (0, ""), program)
                self.assertEqual(program.json()["end"]["sum"]["lost_percent"], 0)
        for _, programs in found:
            for program in programs:
                self.assertIn("end", program.json())  # which refuses NaN and Infinity

    # B12: iperf3 #1223, #856; openwisp-monitoring and zosbase read both outputs as one
    def test_warnings_on_standard_output_spoil_json(self):
        warning = "warning: %s\n"
        for (words, text), (left, _) in support.together(lambda words, _: field.pair(words), [
                ("-J -n 1M -f m",
                 warning % "Report format (-f) flag ignored with JSON output (-J)"),
                ("-J -n 1M -V",
                 warning % "Verbose output (-v) may interfere with JSON output (-J)"),
                ("-J -n 1M --timestamps", ""), ("-J -n 1M", ""),
                ("-J -u -n 120000 -b 100M -l 60000", None), ("-J -n 1M -d", None)]):
            self.assertEqual(left.code, 0, left)
            self.assertGreater(left.json()["end"]["sum_sent"]["bytes"], 0)
            if text is not None:
                self.assertEqual(left.err, text)
            else:
                self.assertIn("State change" if "-d" in words else "block size 60000 exceeds TCP"
                              " MSS", left.err)
        command = (sys.executable, "-B", "-W", "always", support.PROGRAM)
        for words in ("-n 1M", "-n 1M -R -P 2", "-u -n 10K"):
            self.assertClean(field.run(command, "--loopback " + words))

    # B39: iperf3 #1716, #1688; riperf3 #225
    def test_a_server_prints_one_document_per_test(self):
        left, other = field.pair("-n 1M", "-J")
        self.assertNotIn("error", other.json())
        server, port = self.serve("-1", "-J")
        fakes.connect(port).close()
        left = self.end(server)
        self.assertEqual(len(captures.documents(left.out)), 1)
        self.assertIn("error", left.json())
        server, port = self.serve("-J")
        with fakes.connect(port) as sock:
            sock.sendall(b"junk" * 20)
            sock.shutdown(socket.SHUT_WR)
            fakes.receive(sock, 1000)
        self.honest(port, "-n 1M --get-server-output")
        self.assertIn("end", self.honest(port, "-n 1M --get-server-output -J").json()[
            "server_output_json"])
        documents = captures.documents(self.end(server).out)
        self.assertEqual(["error" in each for each in documents], [True, False, False, True])
        path = os.path.join(self.folder(), "log")
        server, port = self.serve("-J", "--logfile", path)

        def logged():
            with open(path) as file:
                return file.read()
        for number in (1, 2, 3):
            self.honest(port)
            support.wait_until(lambda: logged().count("\n}") == number, "document %d" % number)
        self.assertEqual(len(captures.documents(logged())), 3)

    # B41: iperf3 PR #1098; riperf3 #62; autobrr/netronome
    def test_json_stream(self):
        def events(left):
            found = [json.loads(line) for line in left.lines()]
            for line, event in zip(left.lines(), found):
                self.assertEqual(list(event), ["event", "data"])
                self.assertTrue(line.startswith('{"event":"%s","data":' % event["event"]), line)
            return [event["event"] for event in found], found[-1]["data"]
        left, _ = field.pair("-J --json-stream -t 1 -i 0.5 -b 10M")
        names, _ = events(left)
        self.assertEqual((left.code, names[0], names[-1]), (0, "start", "end"))
        self.assertEqual(set(names[1:-1]), {"interval"})
        left = field.client(support.free_port(), "-J --json-stream")
        self.assertEqual((left.code, events(left)), (1, (["error", "end"], {})), left)
        _, port = self.serve()
        with support.Program(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "60", "-i", "0.2",
                                             "-b", "10M", "--json-stream")) as program:
            program.wait_for('"event":"interval"')
            left = self.end(program, signal.SIGINT)
        names, data = events(left)
        self.assertEqual((left.code, names[-2:]), (0, ["error", "end"]))
        self.assertEqual(len(data["streams"]), 1)

    # B31: iperf3 #439, #1052, #1090, #1820, #1192; riperf3 #102, #116
    def test_low_rates_of_tcp(self):
        for (words, rate, streams, block), (left, _) in field.abreast(
                lambda words, *_: self.pair(tuple((words + " -J").split())), [
                    ("-b 100k -t 2", 1e5, 1, 1250), ("-b 1M -t 2 -i 1", 1e6, 1, 12500),
                    ("-b 10M/100 -l 1000 -t 1", 1e7, 1, 100000), ("-b 1M -P 2 -t 1", 1e6, 2, 12500),
                    ("-b 1M -R -t 1", 1e6, 1, 12500)]):
            document = left.json()
            setup, sent = document["start"]["test_start"], document["end"]["sum_sent"]
            self.assertEqual(setup["target_bitrate"], rate)
            self.assertLessEqual(setup["blksize"] * (100 if "/" in words else 1), block)
            most = streams * (rate / 8 * sent["seconds"] * 1.02 + 2 * block)
            self.assertLessEqual(sent["bytes"], most, words)
            self.assertGreater(sent["bytes"], 0.5 * streams * rate / 8 * sent["seconds"], words)
            if "-P 2" in words:
                self.assertGreater(sent["bytes"], 1e6 / 8)  # of each stream, not of both
