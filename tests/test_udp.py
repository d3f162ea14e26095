"""UDP: our client against our server, on good paths and bad ones, and against ends by hand.

No test depends on the host's speed: loss, order and clocks are made by the tests themselves.
"""

import errno
import functools
import json
import os
import re
import select
import signal
import socket
import struct
import sys
import threading
import time
import unittest

import captures
import datagrams
import fakes
import field
import figures
import modes
import pyperf3
import support
from fakes import (COOKIE, HELLO, OLD_HELLO, OLD_REPLY, REPLY, UdpClient, UdpServer, connect,
                   datagram, receive, results)
from relay import BACK, FORTH, Relay, lossy

IP_RECVTOS = getattr(socket, "IP_RECVTOS", 13)  # not in the module before Python 3.10
NO_BATCHES = ("--no-sendmmsg",)


@functools.lru_cache(maxsize=None)
def both(client, server="", host="127.0.0.1"):
    """Run a one-off server and a UDP client with these arguments, once; returns both."""
    return support.run_pair(support.OURS, support.OURS, ["-u"] + client.split(), server.split(),
                            host)


# Every mode ###################################################################


class Modes(datagrams.Case):
    """In every mode both ends give strict JSON whose figures agree, and iperf3's members."""


def _both_in_json(name):
    return modes.in_json(both, modes.UDP[name])


def drops(document):
    return [each for each in datagrams.drops(document) if each is not None]


def _check(test, words, client, server):
    test.check_udp_pair(client, server)
    modes.check_udp_amounts(test, words, client)
    for document in (client, server):
        test.assertFalse(any(drops(document)), "%r" % document["end"].get("pyperf3"))


modes.add_tests(Modes, modes.UDP, functools.partial(modes.in_json, both), _check)


class Setup(datagrams.Case):
    """What the start objects, and the sockets, say of the options."""

    def start(self, mode):
        return [program.json()["start"] for program in _both_in_json(mode)]

    def check_setup(self, mode, **expected):
        for start in self.start(mode):
            for name, value in expected.items():
                self.assertEqual(start["test_start"][name], value, name)

    def test_defaults(self):
        self.check_setup("forward", protocol="UDP", num_streams=1, blksize=32768, omit=0,
                         duration=1, bytes=0, blocks=0, reverse=0, tos=0,
                         target_bitrate=1048576, bidir=0, fqrate=0, interval=1, gso=0, gro=0)

    def test_length_of_loopback_is_its_mss(self):
        for start in self.start("forward"):
            self.assertEqual(start["test_start"]["blksize"], 32768)

    def test_options(self):
        self.check_setup("tos", tos=16)
        self.check_setup("dscp", tos=184)
        self.check_setup("gsro", gso=1, gro=1)
        self.check_setup("blocks", blocks=100, duration=0)
        self.check_setup("rate_low", target_bitrate=1000)
        self.check_setup("omit", omit=1, duration=1)

    def test_window(self):
        for start in self.start("window"):
            self.assertEqual(start["sock_bufsize"], 65536)
            self.assertEqual((start["sndbuf_actual"], start["rcvbuf_actual"]), (131072, 131072))

    def test_addresses(self):
        client, server = self.start("bind")
        self.assertEqual(server["connected"][0]["remote_host"], "127.0.0.2")
        client, server = self.start("bind_server")
        self.assertEqual(server["connected"][0]["local_host"], "127.0.0.3")
        if figures.has_ipv6():
            client, server = self.start("ipv6")
            self.assertEqual(server["connected"][0]["local_host"], "::1")
            client, server = self.start("ipv4")
            self.assertEqual(client["connected"][0]["remote_host"], "127.0.0.1")

    def test_omitted_part_counts_for_nothing(self):
        for mode in ("omit", "omit_reverse"):
            for program in _both_in_json(mode):
                document = program.json()
                flags = [row["sum"]["omitted"] for row in document["intervals"]]
                self.assertEqual(flags, sorted(flags, reverse=True))
                self.assertTrue(flags[0])
                self.assertFalse(flags[-1])
                omitted = sum(row["sum"]["packets"] for row in document["intervals"]
                              if row["sum"]["omitted"])
                self.assertGreater(omitted, 0)
        client, server = [program.json()["end"] for program in _both_in_json("omit")]
        for end in (client, server):
            self.assertEqual(end["sum"]["lost_packets"], 0)

    def test_client_ports_in_a_row(self):
        for mode in ((), ("-R",), ("--bidir",)):
            with self.subTest(mode=mode):
                first = self.free_ports(4)
                client, server = self.udp(("-n", "10000", "-l", "1000", "-P", "2", "--cport",
                                           first) + mode)
                count = len(client["start"]["connected"])
                self.assertEqual([each["local_port"] for each in client["start"]["connected"]],
                                 list(range(first, first + count)))
                self.assertEqual([each["remote_port"] for each in server["start"]["connected"]],
                                 list(range(first, first + count)))

    def free_ports(self, count):
        for _ in range(200):
            first = 10000 + int.from_bytes(os.urandom(2), "big") % 20000
            sockets = []
            try:
                for port in range(first, first + count):
                    sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                    sockets[-1].bind(("127.0.0.1", port))
                return first
            except OSError:
                continue
            finally:
                for sock in sockets:
                    sock.close()
        raise AssertionError("no %d free ports in a row" % count)

    def test_client_port_that_is_taken_is_one_line(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            client, _ = support.run_pair(support.OURS, support.OURS, (
                "-u", "-B", "127.0.0.1", "--cport", taken.getsockname()[1], "-t", "1"))
        self.assertEqual(client.code, 1)
        self.assertRegex(client.err,
                         r"\Aiperf3: error - .*: Address already in use \(.*\)\n\Z")

    def test_blocks_that_do_not_fit_a_small_buffer_are_warned_of(self):
        client, server = support.run_pair(support.OURS, support.OURS, (
            "-u", "-l", "30000", "-w", "4K", "-n", "60000", "-b", "10M"))
        for left in (client, server):
            self.assertEqual(left.code, 0, left)
            self.assertRegex(left.err, r"(warning: Block size 30000 > (sending|receiving) socket"
                                       r" buffer size \d+\n)+")

    def test_largest_block_is_warned_of(self):
        for mode in ((), ("-R",), ("--gsro",)):
            client, server = support.run_pair(support.OURS, support.OURS, (
                "-u", "-k", "10", "-l", "65507", "-b", "20M", "-J") + mode, ("-J",))
            self.assertClean(server)
            self.assertEqual((client.code, client.err), (
                0, "warning: UDP block size 65507 exceeds TCP MSS 32768, may result in"
                   " fragmentation / drops\n"))
            self.check_udp_pair(client.json(), server.json())
            self.assertGreaterEqual(client.json()["end"]["sum_received"]["bytes"], 655070)

    def test_options_that_do_not_go_with_udp(self):
        for words in (("-l", "15"), ("-l", "65508")):
            left = support.run(support.OURS + ("-u", "-c", "127.0.0.1") + words)
            self.assertEqual(left.code, 1)
            self.assertIn("block size invalid (minimum = 16 bytes, maximum = 65507 bytes)",
                          left.err)
        left = support.run(support.OURS + ("-u", "-c", "127.0.0.1", "-F", support.PROGRAM))
        self.assertEqual(left.code, 1, left)

    def test_server_with_a_file_refuses(self):
        client, server = support.run_pair(support.OURS, support.OURS, ("-u", "-t", "1"),
                                          ("-F", os.devnull))
        self.assertEqual(client.code, 1, client)
        self.assertRegex(client.err, r"\Aiperf3: SERVER ERROR - .*\niperf3: error - .*\n\Z")
        self.assertNotIn("Traceback", server.err)


class Rates(datagrams.Case):
    """What a rate promises: never more than it (there is no promise of as much)."""

    cores = 1.0  # to read what comes at an unlimited rate

    def test_no_more_than_the_rate(self):
        for mode in ("forward", "rate_and_burst", "rate_low", "parallel_8", "reverse"):
            client = _both_in_json(mode)[0].json()
            setup, sent = client["start"]["test_start"], client["end"]["sum_sent"]
            one = setup["blksize"] * (5 if mode == "rate_and_burst" else 1)
            limit = setup["target_bitrate"] / 8.0 * sent["seconds"] + one
            self.assertLessEqual(sent["bytes"], setup["num_streams"] * limit * 1.01, mode)

    def unexplained(self, more):
        """Run a test at an unlimited rate; returns how many datagrams are neither here nor lost."""
        client, server = self.udp(("-t", "1", "-b", "0", "-l", "1400") + more, more[:1]
                                  if more == NO_BATCHES else (), whole=False)
        sent = client["end"]["sum_sent"]["packets"]
        arrived = client["end"]["sum_received"]["bytes"] // 1400
        self.assertGreater(arrived, 1000)
        dropped, = drops(server)
        self.assertEqual(drops(client), [dropped])
        self.assertGreaterEqual(sent - arrived, dropped)
        return sent - arrived - dropped

    def test_unlimited_loses_only_what_the_receiving_host_drops(self):
        for more in ((), ("-P", "2"), NO_BATCHES):
            with self.subTest(arguments=more):
                # On a busy host the receiver may not come to read all that there is at the end.
                self.assertIn(0, (self.unexplained(more) for _ in range(4)))

    def test_unlimited_reverse_and_both_ways(self):
        for mode in (("-R",), ("--bidir",), ("-R", "--gsro"), ("--threads", "-P", "2")):
            with self.subTest(mode=mode):
                self.udp(("-t", "1", "-b", "0", "-l", "1400") + mode, whole=False)

    def test_slow_streams_leave_no_clumps(self):
        # Of a rate of one datagram in 8 ms no two leave at once, however late the sender is.
        def script(server):
            server.send(b"\x0a")
            server.greet()
            server.send(b"\x01\x02")
            while len(stamps) < 40:
                data = server.udp.recvfrom(65536)[0]
                second, micro, _ = struct.unpack_from("!III", data)
                stamps.append(second + micro * 1e-6)
            self.finish(server)
        stamps = []
        with UdpServer(script) as server:
            left = support.run(support.OURS + ("-u", "-c", "127.0.0.1", "-p", server.port, "-t",
                                               "1", "-b", "1M", "-l", "1000"))
        self.assertClean(left)
        gaps = [after - before for before, after in zip(stamps, stamps[1:])]
        self.assertGreater(min(gaps), 0.002, gaps)

    def finish(self, server):
        server.udp.settimeout(0.2)
        while receive(server.control, 1) != b"\x04":
            pass
        server.end(results({"id": 1, "bytes": 1000, "packets": 1}))


class Texts(datagrams.Case):
    """The lines of text and of event streams."""

    SAME = {
        "text-udp": ("-b 10M -t 1", ""),
        "text-udp-bidir": ("-b 10M -t 1 --bidir", ""),
        "text-udp-reverse": ("-b 10M -t 1 -R", ""),
        "text-udp-parallel2": ("-b 10M -t 1 -P 2 -i 0.5", "-i 0.5"),
        "text-udp-64bit": ("-b 10M -t 1 --udp-counters-64bit", ""),
    }

    def test_lines_are_those_of_iperf3(self):
        for (_, _, name), left in support.together(
                lambda client, server, _: both(client, server),
                [pair + (name,) for name, pair in self.SAME.items()]):
            case = captures.Case(name)
            for program, side in zip(left, ("client", "server")):
                with self.subTest(name=name, side=side):
                    self.assertClean(program)
                    self.assertEqual(self.outline(program.out), self.outline(case.out(side)))

    @staticmethod
    def outline(text):
        return figures.outline(re.sub(r"[0-9.]+e[-+][0-9]+", "1", text))

    def test_sender_has_no_loss(self):
        left, other = both("-b 10M -t 1")
        self.assertRegex(left.out, r"  0\.000 ms  0/\d+ \(0%\)  sender\n")
        self.assertRegex(left.out, r" ms  0/\d+ \(0%\)  receiver\n")
        self.assertRegex(other.out, r" ms  0/\d+ \(0%\)  receiver\n")

    def test_no_word_of_losses_in_the_host_where_there_were_none(self):
        for left in both("-n 20000 -l 1000 -b 10M -V", "-V"):
            self.assertClean(left)
            self.assertNotIn("by the receiving host", left.out)

    def test_event_streams(self):
        for _, pair in support.together(
                lambda mode: both("-n 20000 -l 1000 --json-stream " + mode, "--json-stream"),
                [("",), ("-R",), ("--bidir",)]):
            for left in pair:
                self.assertClean(left)
                names = [json.loads(line)["event"] for line in left.lines()]
                self.assertEqual(list(dict.fromkeys(names)), ["start", "interval", "end"])

    def test_server_output(self):
        left, other = both("-n 20000 -l 1000 -b 10M --get-server-output")
        self.assertClean(left)
        self.assertIn("\nServer output:\n" + other.out[other.out.index("Accepted"):], left.out)
        document = _both_in_json("server_output")
        self.assertEqual(document[0].json()["server_output_json"]["end"],
                         document[1].json()["end"])

    def test_loopback(self):
        for mode, left in support.together(
                lambda *mode: support.run(support.OURS + (
                    "--loopback", "-u", "-b", "10M", "-l", "1000", "-t", "1", "-J") + mode),
                [(), ("-R",), ("--bidir",), ("--threads", "-P", "2")]):
            with self.subTest(mode=mode):
                self.assertClean(left)
                self.check_udp(left.json())
                self.assertEqual(left.json()["end"]["sum"]["lost_packets"], 0)


# What a server counts #########################################################


class Counting(datagrams.Case):
    """A client by hand sends exactly what it wants; what our server makes of it."""

    @classmethod
    def setUpClass(cls):
        cls.servers = {}
        for name, arguments in (("batches", ()), ("single", NO_BATCHES),
                                ("threads", ("--threads",))):
            cls.servers[name] = support.start_server(support.OURS, "-J", *arguments)

    @classmethod
    def tearDownClass(cls):
        for server, _ in cls.servers.values():
            with server:
                server.signal()
                left = server.finish(15.0)
            assert left.code == 0 and left.err == "", left

    def count(self, server, numbers, document=None, pauses=False, **parameters):
        """Send datagrams with these numbers; returns (results of the stream, document)."""
        data = [each if isinstance(each, bytes) else datagram(
            each, parameters.get("len", 1000), wide="udp_counters_64bit" in parameters)
                for each in numbers]
        return self.deliver(server, data, pauses, **parameters)

    def deliver(self, server, data, pauses=False, **parameters):
        program, port = self.servers[server]
        with UdpClient(port, **parameters) as client:
            sock = client.stream()
            client.begin()
            for each in data:
                sock.send(each)
                if pauses:
                    time.sleep(0.01)
            found, = client.end(results({"id": 1, "packets": len(data)}))["streams"]
        return found, self.document(program, client)

    def document(self, program, client):
        """Return the server's document of a client's test."""
        mark = client.cookie[:-1].decode("ascii")
        support.wait_until(lambda: mark in program.out() and program.out().endswith("\n}\n"),
                             "the server's document")
        return [each for each in captures.documents(program.out())
                if each["start"].get("cookie") == mark][0]

    TABLE = (
        # numbers, errors, packets, out of order
        ((1, 2, 5, 6), 2, 6, 0),
        ((1, 2, 4, 3, 5), 0, 5, 1),
        ((1, 2, 2, 3), 0, 3, 1),
        ((1, 3, 3, 2, 5), 1, 5, 2),
        ((5, 6, 7), 4, 7, 0),
        ((0, 1, 2), 0, 2, 0),  # iperf3 counts the 0 as out of order; here it is a hello
        ((1, 2, 3), 0, 3, 0),
        ((), 0, 0, 0),
    )

    def check_table(self, server, **parameters):
        for numbers, errors, packets, late in self.TABLE:
            for pauses in (False, True):
                with self.subTest(numbers=numbers, pauses=pauses):
                    found, document = self.count(server, numbers, pauses=pauses, **parameters)
                    row = document["end"]["streams"][0]["udp"]
                    self.assertEqual(
                        (found["errors"], found["packets"], row["lost_packets"],
                         row["packets"], row["out_of_order"]),
                        (errors, packets, errors, packets, late))
                    self.assertEqual((found["omitted_errors"], found["omitted_packets"]), (0, 0))
                    counted = len([number for number in numbers if number])
                    self.assertEqual(found["bytes"], counted * parameters.get("len", 1000))
                    self.assertEqual(found["retransmits"], -1)
                    received = document["end"]["sum_received"]
                    self.assertEqual((received["packets"], received["bytes"]),
                                     (packets, found["bytes"]))

    def test_loss_and_order(self):
        self.check_table("batches")

    def test_loss_and_order_one_datagram_at_a_time(self):
        self.check_table("single")

    def test_loss_and_order_with_wide_counters(self):
        self.check_table("batches", udp_counters_64bit=1)

    def test_loss_and_order_joined_by_the_kernel(self):
        self.check_table("batches", gso=1, gso_dg_size=1000, gso_bf_size=65000, gro=1)

    def test_loss_and_order_without_copying(self):
        self.check_table("batches", skip_rx_copy=1)
        self.check_table("single", skip_rx_copy=1)

    def test_counters_that_wrap(self):
        # All the gap up to the first number is lost, as in iperf3; the wrap itself loses nothing.
        top = 2 ** 31 - 2  # within reach of 0 for a signed difference
        numbers = [top, top + 1, top + 2, top + 3]
        for server in ("batches", "single"):
            found, _ = self.count(server, numbers)
            self.assertEqual((found["packets"], found["errors"]), (top + 3, top - 1))
        numbers += [2 ** 32 - 2, 2 ** 32 - 1, 0, 1, 2]
        for server in ("batches", "single"):
            found, document = self.count(server, numbers)
            self.assertEqual(found["packets"], 2 ** 32 + 2)
            self.assertEqual(found["bytes"], 9000)
            self.assertEqual(found["errors"], 2 ** 32 + 2 - 9)
            self.assertEqual(document["end"]["streams"][0]["udp"]["out_of_order"], 0)

    def test_wide_counters_pass_32_bits(self):
        base = 2 ** 32 - 2
        for server in ("batches", "single"):
            found, document = self.count(server, range(base, base + 6), udp_counters_64bit=1)
            self.assertEqual((found["packets"], found["errors"], found["bytes"]),
                             (base + 5, base - 1, 6000))
            received = document["end"]["sum_received"]
            self.assertLessEqual(received["lost_percent"], 100)

    def test_nonsense_numbers_leave_sane_figures(self):
        for parameters in ({}, {"udp_counters_64bit": 1}):
            for number in (2 ** 32 - 1, 2 ** 31, 2 ** 31 + 1) + (
                    (2 ** 63, 2 ** 64 - 1) if parameters else ()):
                with self.subTest(number=number, parameters=parameters):
                    _, document = self.count("batches", (1, number, 2, 3), **parameters)
                    for row in [document["end"]["sum"], document["end"]["sum_received"],
                                document["end"]["streams"][0]["udp"]]:
                        self.check_loss(row)

    def test_clocks_of_another_origin(self):
        for server in ("batches", "single"):
            for origin in (0, 1, 3, 1700000000, 2 ** 32 - 1):
                with self.subTest(server=server, origin=origin):
                    data = [datagram(number, seconds=origin, micros=number * 1000)
                            for number in range(1, 6)]
                    found, document = self.deliver(server, data)
                    self.assertGreaterEqual(found["jitter"], 0)
                    self.assertLess(found["jitter"], 1)
                    self.assertAlmostEqual(document["end"]["sum"]["jitter_ms"],
                                           found["jitter"] * 1000.0, delta=1e-6)

    def test_jitter_is_that_of_rfc_3550(self):
        # Stamps that are 16 s apart while the datagrams come at once: the mean moves by one
        # second for each, by 1/16 of the difference.
        data = [datagram(number, seconds=16 * number) for number in range(1, 61)]
        found, _ = self.deliver("batches", data[:3])
        self.assertAlmostEqual(found["jitter"], 1.0 + 15.0 / 16.0, delta=0.3)
        # Those that came before the receiver did tell nothing, but where the kernel stamps them.
        found, _ = self.deliver("single", data, pauses=True)
        self.assertAlmostEqual(found["jitter"], 16.0 * (1 - (15.0 / 16.0) ** 59), delta=1.0)

    def test_datagrams_of_other_sizes_do_no_harm(self):
        strange = (b"", b"x", HELLO, REPLY, b"x" * 11, datagram(3, 12), datagram(4, 999),
                   datagram(5, 1001), datagram(6, 60000))
        for server in ("batches", "single", "threads"):
            for wide in ({}, {"udp_counters_64bit": 1}):
                with self.subTest(server=server, wide=wide):
                    if wide:
                        data = [b"", b"x" * 15, HELLO] + [datagram(number, wide=True)
                                                          for number in (1, 2)]
                        total, count = 2000, 2
                    else:
                        data = [datagram(1), datagram(2)] + list(strange) + [datagram(7)]
                        total, count = 1000 + 1000 + 12 + 999 + 1000 + 1000 + 1000, 7
                    found, document = self.deliver(server, data, **wide)
                    self.assertEqual((found["packets"], found["errors"], found["bytes"]),
                                     (count, 0, total))
                    self.assertEqual(document["end"]["streams"][0]["udp"]["out_of_order"], 0)

    def test_datagrams_of_other_sizes_do_no_harm_to_the_kernels_joining(self):
        data = [datagram(1), datagram(2), b"", b"x", HELLO, datagram(3), datagram(4, 300),
                datagram(5)]
        found, document = self.deliver("batches", data, gso=1, gso_dg_size=1000, gso_bf_size=65000,
                                      gro=1)
        self.assertEqual((found["packets"], found["errors"], found["bytes"]), (5, 0, 4300))
        for row in (document["end"]["sum"], document["end"]["streams"][0]["udp"]):
            self.check_loss(row)

    def test_what_comes_before_the_start_and_at_the_end_counts_as_it_should(self):
        # All of it stands in the server's buffer when 04 comes.
        found, _ = self.count("batches", range(1, 201), len=100)
        self.assertEqual((found["packets"], found["errors"], found["bytes"]), (200, 0, 20000))

    def test_loss_in_the_omitted_part_only(self):
        program, port = self.servers["batches"]
        with UdpClient(port, omit=1) as client:
            sock = client.stream()
            client.begin()
            for number in (1, 3, 5):
                sock.send(datagram(number))
            time.sleep(1.5)
            for number in (6, 4, 7, 8):  # 4 makes up for an omitted loss
                sock.send(datagram(number))
            time.sleep(0.3)
            found, = client.end()["streams"]
        self.assertEqual((found["packets"], found["omitted_packets"]), (8, 5))
        self.assertEqual((found["errors"], found["omitted_errors"]), (1, 2))
        self.assertEqual(found["bytes"], 4000)
        document = self.document(program, client)
        for row in [document["end"]["sum"], document["end"]["streams"][0]["udp"]] + [
                each["sum"] for each in document["intervals"]]:
            self.check_loss(row)
        self.assertEqual(document["end"]["sum"]["lost_packets"], 0)
        self.assertEqual(document["end"]["sum_received"]["packets"], 3)

    def test_streams_are_told_apart_by_their_source(self):
        _, port = self.servers["batches"]
        with UdpClient(port, parallel=3) as client:
            socks = [client.stream() for _ in range(3)]
            client.begin()
            for count, sock in zip((3, 5, 7), socks):
                for number in range(1, count + 1):
                    sock.send(datagram(number))
            found = client.end(results({"id": 1}, {"id": 3}, {"id": 4}))["streams"]
        self.assertEqual([(each["id"], each["packets"], each["bytes"]) for each in found],
                         [(1, 3, 3000), (3, 5, 5000), (4, 7, 7000)])

    def test_results_of_a_sending_server_echo_the_clients(self):
        _, port = self.servers["batches"]
        with UdpClient(port, reverse=True, bandwidth=800000, len=1000) as client:
            sock = client.stream()
            client.begin()
            got = [sock.recv(65536) for _ in range(5)]
            found, = client.end(results({"id": 1, "jitter": 0.25, "errors": 3, "packets": 5,
                                         "bytes": 5000}))["streams"]
        self.assertEqual([len(each) for each in got], [1000] * 5)
        self.assertEqual([struct.unpack_from("!I", each, 8)[0] for each in got], [1, 2, 3, 4, 5])
        self.assertEqual((found["jitter"], found["errors"]), (0.25, 3))
        self.assertGreaterEqual(found["packets"], 5)
        self.assertEqual(found["bytes"], found["packets"] * 1000)


# What an end sends ############################################################


class Sending(datagrams.Case):
    """What is in the datagrams of our sender, and on them."""

    def received(self, *arguments):
        """Run our client against a server by hand; returns (parameters, datagrams, TOS bytes)."""
        data, marks, kept = [], set(), {}

        def script(server):
            kept.update(server.parameters)
            server.udp.setsockopt(socket.IPPROTO_IP, IP_RECVTOS, 1)
            server.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            server.send(b"\x0a")
            hello, ancillary, _, address = server.udp.recvmsg(65536, 100)
            self.assertEqual(hello, HELLO)
            marks.update(each[2][0] for each in ancillary)
            server.udp.sendto(REPLY, address)
            server.send(b"\x01\x02")
            while not select.select([server.control], [], [], 0)[0] or (
                    select.select([server.udp], [], [], 0)[0]):
                if select.select([server.udp, server.control], [], [])[0] == [server.control]:
                    continue
                block, ancillary, _, _ = server.udp.recvmsg(65536, 100)
                data.append(block)
                marks.update(each[2][0] for each in ancillary)
            self.assertEqual(receive(server.control, 1), b"\x04")
            kept["results"] = server.end(results({"id": 1, "bytes": len(data) * 1000,
                                                  "packets": len(data)}))
        with UdpServer(script) as server:
            left = support.run(support.OURS + ("-u", "-c", "127.0.0.1", "-p", server.port)
                               + arguments)
        self.assertClean(left)
        return kept, data, marks

    def check_numbers(self, data, wide=False):
        layout = struct.Struct("!IIQ" if wide else "!III")
        heads = [layout.unpack_from(each) for each in data]
        self.assertEqual([head[2] for head in heads], list(range(1, len(data) + 1)))
        stamps = [(head[0], head[1]) for head in heads]
        self.assertEqual(stamps, sorted(stamps))
        self.assertLess(max(stamp[1] for stamp in stamps), 1000000)
        now = time.clock_gettime(time.CLOCK_MONOTONIC)
        self.assertAlmostEqual(stamps[-1][0], now, delta=30)

    def test_headers_and_payload(self):
        for more in ((), NO_BATCHES, ("--threads",), ("--gsro",)):
            with self.subTest(arguments=more):
                kept, data, _ = self.received("-k", "200", "-l", "1000", "-b", "50M", *more)
                self.assertEqual({len(each) for each in data}, {1000})
                self.assertEqual(len(data), 200)
                self.check_numbers(data)
                self.assertEqual(len({each[12:] for each in data}), 1)
                self.assertGreater(len(set(data[0][12:])), 200)  # random bytes
                stream, = kept["results"]["streams"]
                self.assertEqual((stream["packets"], stream["bytes"], stream["errors"]),
                                 (200, 200000, 0))

    def test_wide_headers_and_repeated_digits(self):
        for more in ((), NO_BATCHES):
            _, data, _ = self.received("-k", "100", "-l", "1000", "-b", "20M",
                                       "--udp-counters-64bit", "--repeating-payload", *more)
            self.check_numbers(data, True)
            self.assertEqual({each[16:26] for each in data}, {b"6789012345"})
        _, data, _ = self.received("-k", "10", "-l", "100", "--repeating-payload")
        self.assertEqual({each[12:] for each in data}, {(b"0123456789" * 10)[12:]})

    def test_parameters(self):
        kept, _, _ = self.received("-k", "1", "-b", "1M")
        kept.pop("results")
        self.assertEqual(kept, {
            "udp": True, "omit": 0, "time": 0, "num": 0, "blockcount": 1, "parallel": 1,
            "len": 32768, "bandwidth": 1000000, "pacing_timer": 1000, "gso": 0,
            "gso_dg_size": 0, "gso_bf_size": 65507, "gro": 0, "gro_bf_size": 65507,
            "client_version": "3.22"})
        kept, _, _ = self.received("-k", "1", "-l", "1400", "--gsro", "--dont-fragment",
                                   "--udp-counters-64bit", "--skip-rx-copy")
        self.assertEqual(
            [kept[name] for name in ("gso", "gso_dg_size", "gso_bf_size", "gro", "gro_bf_size",
                                     "dont_fragment", "udp_counters_64bit", "skip_rx_copy",
                                     "bandwidth")],
            [1, 1400, 64400, 1, 65507, 1, 1, 1, 1048576])
        kept, _, _ = self.received("-k", "1", "-l", "64", "--gsro")
        self.assertEqual(kept["gso_bf_size"], 8192)
        kept, _, _ = self.received("-k", "1", "-l", "1000", "-b", "0")
        self.assertNotIn("bandwidth", kept)

    @unittest.skipUnless(sys.platform.startswith("linux"), "needs the number of IP_RECVTOS")
    def test_type_of_service_of_hello_and_data(self):
        for arguments, mark in (((), 0), (("-S", "0x10"), 16), (("--dscp", "ef"), 184)):
            for more in ((), NO_BATCHES, ("--gsro",)):
                with self.subTest(arguments=arguments + more):
                    _, data, marks = self.received("-k", "50", "-l", "1000", "-b", "10M",
                                                   *(arguments + more))
                    self.assertEqual((len(data), marks), (50, {mark}))

    @unittest.skipUnless(sys.platform.startswith("linux"), "needs the number of IP_RECVTOS")
    def test_type_of_service_of_a_sending_server(self):
        server, port = support.start_server(support.OURS, "-1")
        marks = set()
        with server, UdpClient(port, reverse=True, TOS=184) as client:
            sock = client.socket()
            sock.setsockopt(socket.IPPROTO_IP, IP_RECVTOS, 1)
            sock.send(HELLO)
            for _ in range(10):
                _, ancillary, _, _ = sock.recvmsg(65536, 100)
                marks.update(each[2][0] for each in ancillary)
            client.begin()
            client.end()
            self.assertClean(server.finish(15.0))
        self.assertEqual(marks, {184})

    def test_bursts_of_a_server(self):
        # Of a burst all datagrams have stamps close together, and between bursts is a pause.
        server, port = support.start_server(support.OURS, "-1")
        with server, UdpClient(port, reverse=True, burst=5, bandwidth=400000) as client:
            sock = client.stream()
            client.begin()
            heads = [struct.unpack_from("!III", sock.recv(65536)) for _ in range(20)]
            client.end()
            self.assertClean(server.finish(15.0))
        stamps = [second + micro * 1e-6 for second, micro, _ in heads]
        for at in range(5, 20, 5):
            self.assertGreater(stamps[at] - stamps[at - 1], 0.0)
            self.assertGreater(stamps[at] - stamps[0], (at / 5) * 0.1 - 0.01)

    def test_counters_of_a_receiving_client(self):
        def script(server):
            server.send(b"\x0a")
            address = server.greet()
            server.send(b"\x01\x02")
            for number in (1, 2, 4, 3, 7):
                server.udp.sendto(datagram(number), address)
            self.assertEqual(receive(server.control, 1), b"\x04")
            found.update(server.end(results({"id": 1, "bytes": 8000, "packets": 8})))
        found = {}
        for more in ((), NO_BATCHES):
            with UdpServer(script) as server:
                left = support.run(support.OURS + (
                    "-u", "-R", "-c", "127.0.0.1", "-p", server.port, "-t", "1", "-l", "1000",
                    "-J") + more)
            self.assertClean(left)
            stream, = found["streams"]
            self.assertEqual((stream["packets"], stream["errors"], stream["bytes"]),
                             (7, 2, 5000))
            end = left.json()["end"]
            self.assertEqual((end["sum_sent"]["packets"], end["sum_received"]["packets"],
                              end["sum"]["lost_packets"]), (8, 7, 2))
            self.assertEqual(end["streams"][0]["udp"]["out_of_order"], 1)

    def test_results_of_versions_that_lack_members(self):
        # 3.12 has no omitted counts, and unsigned negative numbers; 3.1 has no times.
        def script(server):
            server.send(b"\x0a")
            server.greet()
            server.send(b"\x01\x02")
            self.assertEqual(receive(server.control, 1), b"\x04")
            server.end(dict(results(), streams=[{
                "id": 1, "bytes": 10000, "retransmits": 2 ** 64 - 1, "jitter": 1e-05,
                "errors": 2, "packets": 12}]))
        with UdpServer(script) as server:
            left = support.run(support.OURS + (
                "-u", "-c", "127.0.0.1", "-p", server.port, "-t", "1", "-b", "96K", "-l", "1000",
                "-J"))
        self.assertClean(left)
        end = left.json()["end"]
        self.assertEqual((end["sum_received"]["packets"], end["sum_received"]["bytes"],
                          end["sum"]["lost_packets"]), (12, 10000, 2))
        self.assertGreater(end["sum_received"]["bits_per_second"], 0)


# The hello ####################################################################


class Hellos(datagrams.Case):
    """How streams come to be, on paths that lose, double and disguise."""

    def through(self, rule, *arguments, **more):
        """Run a pair through a relay; returns both documents."""
        server, port = support.start_server(support.OURS, "-1", "-J")
        with server, Relay(port, rule) as relay:
            left = support.run(support.OURS + (
                "-u", "-c", "127.0.0.1", "-p", relay.port, "-l", "1000", "-J") + arguments)
            self.assertClean(left)
            other = server.finish(20.0)
            self.assertClean(other)
        client, server = left.json(), other.json()
        whole = more.get("whole", True)
        self.check_udp(client, more.get("plain", True))
        self.check_udp(server, more.get("plain", True))
        for name in client["end"]:
            if name.startswith("sum_received"):
                self.assertGreater(client["end"][name]["packets"], 0)
                if whole:
                    self.assertEqual(client["end"][name]["lost_packets"], 0)
        if whole and "-R" not in arguments and "--bidir" not in arguments:
            sent, received = client["end"]["sum_sent"], client["end"]["sum_received"]
            self.assertEqual((sent["packets"], sent["bytes"]),
                             (received["packets"], received["bytes"]))
        return client, server

    MODES = ((), ("-R",), ("--bidir",), ("-P", "8"))

    def in_all_modes(self, rule):
        """Run through relays with rule() in every mode; returns the pairs of documents."""
        return [left for _, left in support.together(
            lambda *mode: self.through(rule(), "-n", "20000", *mode), self.MODES)]

    def test_first_datagram_is_lost(self):
        self.in_all_modes(lambda: lossy(first=1, ways=(FORTH,)))

    def test_first_two_datagrams_are_lost(self):
        self.through(lossy(first=2, ways=(FORTH,)), "-n", "20000")

    def test_answer_is_lost(self):
        self.in_all_modes(lambda: lossy(first=1, ways=(BACK,)))

    def test_answer_is_lost_twice(self):
        self.through(lossy(first=2, ways=(BACK,)), "-n", "20000", "-P", "2")

    def test_last_answer_is_lost_and_data_come(self):
        # Of a sending server: the first datagram of data then takes the answer's place.
        support.together(
            lambda mode: self.through(lossy(first=1, ways=(BACK,)), "-t", "1", "-b", "1M", mode),
            [("-R",), ("--bidir",)])

    def test_hello_and_answer_are_doubled(self):
        def doubled(way, flow, number, data):
            return [data, data] if number == 1 else [data]
        for client, server in self.in_all_modes(lambda: doubled):
            self.assertEqual(len(server["start"]["connected"]),
                             len(client["start"]["connected"]))
            for row in client["end"]["streams"] + server["end"]["streams"]:
                self.assertEqual(row["udp"]["out_of_order"], 0)

    def test_late_hello_in_the_middle_of_the_data_is_not_counted(self):
        def rule(way, flow, number, data):
            return [data, HELLO] if way == FORTH and number in (3, 7) else [data]
        _, server = self.through(rule, "-n", "20000", "-b", "5M")
        self.assertEqual(server["end"]["sum_received"]["packets"], 20)
        self.assertEqual(server["end"]["sum_received"]["bytes"], 20000)

    # A UDP socket whose first calls fail as if the network were away.
    AWAY = ("import errno, os, socket, pyperf3\n"
            "failures = [%s] * %d\n"
            "class Sock(socket.socket):\n"
            "    def connect_ex(self, place):\n"
            "        return failures.pop() if failures else super().connect_ex(place)\n"
            "    def send(self, *data):\n"
            "        sends.append(1)\n"
            "        if len(sends) < 3:\n"
            "            raise OSError(errno.EPERM, os.strerror(errno.EPERM))\n"
            "        return super().send(*data)\n"
            "sends = []\n"
            "pyperf3.HELLO_TIMEOUT = 1.5\n"
            "pyperf3.datagram_socket = lambda family: Sock(family, socket.SOCK_DGRAM)\n")

    def test_network_that_was_away_during_the_set_up_ended_the_test(self):
        _, port = self.server()
        for failures, code, text in (("errno.ENETUNREACH", 0, ""),
                                     ("errno.EADDRINUSE", 1, "Address already in use")):
            left = support.run(support.driver(self.AWAY % (failures, 3)) + (
                "-u", "-c", "127.0.0.1", "-p", port, "-n", "10000"))
            self.assertEqual(left.code, code, left)
            self.assertIn(text, left.err)
        left = support.run(support.driver(self.AWAY % ("errno.ENETUNREACH", 1000)) + (
            "-u", "-c", "127.0.0.1", "-p", port, "-n", "10000"))
        self.assertEqual(left.code, 1, left)
        self.assertIn("Network is unreachable", left.err)

    # By hand

    def server(self, *arguments):
        server, port = support.start_server(support.OURS, "-J", *arguments)
        self.addCleanup(self.stop, server)
        return server, port

    def stop(self, server):
        with server:
            server.signal()
            left = server.finish(15.0)
        self.assertNotIn("Traceback", left.err)
        self.assertEqual(left.code, 0, left)

    def honest(self, port):
        left = support.run(support.OURS + ("-u", "-c", "127.0.0.1", "-p", port, "-n", "10000",
                                           "-l", "1000", "-b", "10M", "-J"))
        self.assertClean(left)
        self.assertEqual(left.json()["end"]["sum_received"]["packets"], 10)

    @staticmethod
    def is_busy(port):
        with connect(port) as sock:
            sock.sendall(COOKIE)
            return receive(sock, 1) == b"\xff"

    @staticmethod
    def is_refused(sock):
        try:
            sock.send(HELLO)
            raise AssertionError("%r for a stranger" % sock.recv(100))
        except ConnectionRefusedError:
            return True
        except socket.timeout:
            return False

    def test_all_hellos_have_their_answers(self):
        _, port = self.server()
        for hello, reply in ((HELLO, REPLY), (REPLY, HELLO), (OLD_HELLO, OLD_REPLY),
                             (OLD_HELLO[::-1], OLD_REPLY[::-1])):
            with UdpClient(port) as client:
                sock = client.stream(hello, reply)
                client.begin()
                sock.send(datagram(1))
                self.assertEqual(client.end()["streams"][0]["packets"], 1)

    def test_repeated_hello_is_answered_again_and_is_no_stream(self):
        server, port = self.server()
        with UdpClient(port, parallel=2) as client:
            sock = client.stream()
            for _ in range(3):
                time.sleep(0.2)  # as a client that had no answer so far
                sock.send(HELLO)
                self.assertEqual(sock.recv(100), REPLY)
            self.assertEqual(select.select([client.control], [], [], 0.3)[0], [])  # no 01 yet
            other = client.stream()
            client.begin()
            for each in (HELLO, HELLO, datagram(1), HELLO, datagram(2)):
                sock.send(each)
                other.send(each)
            found = client.end(results({"id": 1}, {"id": 3}))["streams"]
        self.assertEqual([(each["packets"], each["errors"], each["bytes"]) for each in found],
                         [(2, 0, 2000)] * 2)
        self.honest(port)

    def test_hello_that_iperf3_would_take_for_data_is_answered_too(self):
        # Our client repeats its hello as a datagram that is numbered 0.
        for wide in ({}, {"udp_counters_64bit": 1}):
            _, port = self.server()
            with UdpClient(port, **wide) as client:
                sock = client.stream(datagram(0, wide=bool(wide)))
                client.begin()
                sock.send(datagram(1, wide=bool(wide)))
                found, = client.end()["streams"]
                self.assertEqual((found["packets"], found["bytes"]), (1, 1000))

    def test_strays_get_no_stream_and_no_answer(self):
        server, port = self.server()
        with UdpClient(port) as client:
            strangers = []
            for host, data in (("127.0.0.1", b""), ("127.0.0.1", b"x"), ("127.0.0.1", b"9877"),
                               ("127.0.0.1", b"x" * 100), ("127.0.0.1", b"x" * 1000),
                               ("127.0.0.1", datagram(1)), ("127.0.0.1", HELLO + b"\0"),
                               ("127.0.0.2", b"x"), ("127.0.0.2", HELLO)):
                sock = client.socket(host)
                sock.send(data)
                strangers.append(sock)
            sock = client.stream()
            client.begin()
            self.assertEqual(select.select(strangers, [], [], 0.3)[0], [])
            for stranger in strangers:
                try:
                    stranger.send(datagram(9))
                except ConnectionRefusedError:
                    pass  # nobody listens there: the port is closed by now
            sock.send(datagram(1))
            found, = client.end()["streams"]
            self.assertEqual((found["packets"], found["errors"], found["bytes"]), (1, 0, 1000))
        self.honest(port)

    def test_client_whose_datagrams_come_from_another_address(self):
        # An address translator with two addresses: nothing else came for a while.
        server, port = self.server()
        with UdpClient(port) as client:
            sock = client.socket("127.0.0.2")
            deadline = time.monotonic() + 8.0
            sock.settimeout(0.25)
            answer = b""
            while not answer and time.monotonic() < deadline:
                sock.send(HELLO)
                try:
                    answer = sock.recv(100)
                except socket.timeout:
                    pass
            self.assertEqual(answer, REPLY)
            client.begin()
            sock.send(datagram(1))
            self.assertEqual(client.end()["streams"][0]["packets"], 1)
        self.honest(port)

    def test_client_of_one_datagram_that_comes_from_another_address(self):
        # iperf3's client says hello only once.
        server, port = self.server()
        with UdpClient(port) as client:
            sock = client.socket("127.0.0.2")
            sock.send(HELLO)
            self.assertEqual(sock.recv(100), REPLY)
            client.begin()
            sock.send(datagram(1))
            self.assertEqual(client.end()["streams"][0]["packets"], 1)
        self.honest(port)

    def test_hellos_in_one_go_make_a_stream_each(self):
        _, port = self.server()
        with UdpClient(port, parallel=8) as client:
            socks = [client.socket() for _ in range(8)]
            for sock in socks:
                sock.send(HELLO)
            for sock in socks:
                self.assertEqual(sock.recv(100), REPLY)
            client.begin()
            for count, sock in enumerate(socks, 1):
                for number in range(1, count + 1):
                    sock.send(datagram(number))
            found = client.end(results(*[{"id": each} for each in (1, 3, 4, 5, 6, 7, 8, 9)]))
        self.assertEqual(sorted(each["packets"] for each in found["streams"]),
                         list(range(1, 9)))
        self.honest(port)

    def test_client_without_a_hello_ends_and_the_next_one_is_served(self):
        server, port = self.server()
        began = time.monotonic()
        with UdpClient(port, parallel=2) as client:
            client.stream()
            client.control.settimeout(30.0)
            got = receive(client.control, 9)
            self.assertEqual(got[:5], b"\xfe" + struct.pack("!i", 204))
            self.assertLess(time.monotonic() - began, 40)
        self.honest(port)
        self.assertIn("timed out waiting for 1 of 2 streams", server.out())
        self.assertIn("UDP", server.out())

    def test_client_that_vanishes_before_its_hello_frees_the_server(self):
        server, port = self.server()
        before = support.descriptors(server.pid)
        for hellos in (0, 1, 0, 1):
            with UdpClient(port, parallel=2) as client:
                for _ in range(hellos):
                    client.stream()
            deadline = time.monotonic() + 5.0
            while self.is_busy(port):
                self.assertLess(time.monotonic(), deadline, "the server is still busy")
        self.honest(port)
        support.wait_until(lambda: support.descriptors(server.pid) <= before,
                             "all descriptors closed")

    def test_port_is_closed_once_the_streams_exist_and_open_for_the_next_test(self):
        _, port = self.server()
        with UdpClient(port) as client:
            sock = client.stream()
            client.begin()
            stranger = client.socket()
            stranger.settimeout(0.1)
            support.wait_until(lambda: self.is_refused(stranger), "the port closed")
            sock.send(datagram(1))
            self.assertEqual(client.end()["streams"][0]["packets"], 1)
        self.honest(port)


class Victims(datagrams.Case):
    """A server's datagrams go to nobody but whom it saw asking for them, and no longer."""

    def serve(self, *arguments):
        server, port = support.start_server(support.OURS, *arguments)
        self.addCleanup(server.__exit__)
        return port

    def drain(self, sock, seconds):
        """Return how many bytes come within a time."""
        count, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            sock.settimeout(max(0.01, end - time.monotonic()))
            try:
                count += len(sock.recv(65536))
            except socket.timeout:
                break
            except ConnectionError:
                pass  # the port is closed
        return count

    def test_reverse_test_was_pointed_at_somebody_else(self):
        """One datagram with the victim's address on it brought 154 MB there."""
        for mode in ({"reverse": True}, {"bidirectional": True}):
            for more in ((), ("--allow", "127.0.0.1")):
                with self.subTest(mode=mode, more=more), \
                        UdpClient(self.serve(*more), bandwidth=10000000, **mode) as client:
                    victim = client.socket("127.0.0.2")
                    for hello in (HELLO, datagram(0)):
                        victim.send(hello)
                    self.assertEqual(self.drain(victim, 1.6), 0)

    def test_disallowed_address_took_a_stream(self):
        with UdpClient(self.serve("--allow", "127.0.0.1")) as client:
            stray = client.socket("127.0.0.2")
            stray.send(HELLO)
            self.assertEqual(self.drain(stray, 1.6), 0)
            client.stream()
            client.begin()

    def test_hellos_without_end_had_as_many_answers(self):
        with UdpClient(self.serve(), parallel=2) as client:
            sock = client.stream()
            for _ in range(50):
                sock.send(HELLO)
                time.sleep(0.004)
            self.assertLess(self.drain(sock, 0.3), 20 * len(REPLY))

    def test_datagrams_went_on_after_the_time(self):
        """To a client that never says that the test is over."""
        with UdpClient(self.serve(), time=1, reverse=True, bandwidth=1000000) as client:
            sock, begin = client.stream(), time.monotonic()
            client.begin()
            self.assertGreater(self.drain(sock, 1.0), 0)
            sock.settimeout(1.5)
            with self.assertRaises(socket.timeout):
                while time.monotonic() < begin + 20.0:
                    sock.recv(65536)
            self.assertEqual(client.end(results({"id": 1}))["streams"][0]["errors"], 0)

    def test_host_that_refused_was_sent_to_all_the_same(self):
        """Between two refusals a datagram went, which made the server forget them."""
        with UdpClient(self.serve(), time=60, reverse=True, bandwidth=1000000) as client:
            sock = client.stream()
            client.begin()
            self.assertGreater(self.drain(sock, 0.5), 0)
            sock.close()
            client.control.settimeout(20.0)
            self.assertEqual(receive(client.control, 5), b"\xfe\0\0\0\xcd")  # error 205

    def test_amount_was_sent_without_end(self):
        """To a client that counts what arrives, and says that nothing did."""
        with UdpClient(self.serve(), time=0, num=2000, reverse=True, bandwidth=100000000,
                        len=1000) as client:
            sock = client.stream()
            client.begin()
            self.assertLessEqual(self.drain(sock, 1.5), 200000)


class Refusals(unittest.TestCase):
    """Outage: what ends a stream, and what does not."""

    def setUp(self):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.sock.close)
        self.outage = pyperf3.Outage(self.sock)

    def bear(self, number, now, begun=True):
        return self.outage.bear(OSError(number, os.strerror(number)), now, begun)

    def test_sends_in_between_made_a_refused_stream_go_on(self):
        """A host says so once a second; what is sent meanwhile goes."""
        with self.assertRaises(ConnectionRefusedError):
            for second in range(20):
                self.bear(errno.ECONNREFUSED, 100.0 + second)
                self.outage.end(100.5 + second)
        self.assertLess(second, 8)

    def test_refusals_of_the_first_second_and_rare_ones_pass(self):
        for number in range(200):
            self.bear(errno.ECONNREFUSED, 100.0 + number * 0.004)
        for number in range(20):
            self.bear(errno.ECONNREFUSED, 200.0 + number * 60)

    def test_errors_of_this_host_pass_for_ten_seconds(self):
        for number in (errno.EPERM, errno.EMSGSIZE, errno.ENETUNREACH, errno.EHOSTUNREACH,
                       errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.ENOBUFS):
            self.bear(number, 100.0)
            self.bear(number, 109.0)
            self.outage.end(109.5)
            for now in (200.0, 209.9):
                self.bear(number, now)
            with self.assertRaisesRegex(OSError, os.strerror(number) + " for 10 seconds"):
                self.bear(number, 210.1)
            self.outage.end(210.2)
        self.assertAlmostEqual(self.outage.seconds, 7 * 19.7, 1)

    def test_short_ones_are_not_worth_a_word(self):
        for second in range(100, 200):
            self.bear(errno.ENOBUFS, second)
            self.outage.end(second + 0.01)
        self.assertEqual(self.outage.lasted(200.0), 0.0)

    def test_what_never_fitted_fails_at_once(self):
        self.bear(errno.EMSGSIZE, 100.0, False)  # it may be an answer to the hello
        with self.assertRaisesRegex(OSError, "Message too long"):
            self.bear(errno.EMSGSIZE, 100.0, False)

    def test_others_fail_at_once(self):
        with self.assertRaises(OSError):
            self.bear(errno.EBADF, 100.0)


class SilentServers(datagrams.Case):
    """Servers by hand whose UDP says nothing, or something else, to our client."""

    @staticmethod
    def silent(server):
        server.send(b"\x0a")

    def check(self, script, listens=True, *arguments):
        began = time.monotonic()
        with UdpServer(script, listens) as server:
            left = support.run(support.OURS + (
                "-u", "-c", "127.0.0.1", "-p", server.port, "-t", "1") + arguments, 40.0)
        self.assertEqual(left.code, 1, left)
        self.assertLess(time.monotonic() - began, 25.0)
        return left, server.port

    def test_no_answer_is_one_error_that_names_the_step(self):
        def script(server):
            server.send(b"\x0a")
            hello, address = server.udp.recvfrom(65536)
            self.assertEqual(hello, HELLO)
            while time.monotonic() < deadline:
                data, source = server.udp.recvfrom(65536)
                self.assertEqual(source, address)
                # To an iperf3 server a repeated hello is data: so it looks like data, of
                # number 0.
                self.assertEqual(len(data), 1000)
                self.assertEqual(data[8:12], b"\0\0\0\0")
            self.assertEqual(receive(server.control, 1), b"\x10")
        deadline = time.monotonic() + 2.0
        self.checked = support.together(self.check, [
            (script, True, "-l", "1000", "-P", "2"), (self.silent, True, "-J"),
            (self.silent, False)])
        left, port = self.checked[0][1]
        self.assertRegex(left.err, r"\Aiperf3: error - [^\n]*did not answer the first datagram of"
                                   r" stream 1 of 2[^\n]*UDP port %d[^\n]*\n\Z" % port)
        # one document
        left, port = self.checked[1][1]
        self.assertIn("UDP port %d" % port, left.json()["error"])
        self.assertEqual(left.err, "")
        # nobody listens there
        left, port = self.checked[2][1]
        self.assertRegex(left.err, r"\Aiperf3: error - [^\n]*nothing listens on UDP port %d\n\Z"
                         % port)

    def test_server_that_fails_while_hellos_are_sent_is_heard_at_once(self):
        def script(server):
            server.send(b"\x0a")
            server.udp.recvfrom(65536)
            server.send(b"\xfe" + struct.pack("!ii", 204, 0))
        began = time.monotonic()
        left, _ = self.check(script)
        self.assertLess(time.monotonic() - began, 6.0)
        self.assertEqual(left.err, "iperf3: SERVER ERROR - unable to accept stream connection\n"
                                   "iperf3: error - unable to accept stream connection\n")

    def test_server_that_goes_while_hellos_are_sent(self):
        def script(server):
            server.send(b"\x0a")
            server.udp.recvfrom(65536)
            server.control.shutdown(socket.SHUT_RDWR)
        left, _ = self.check(script)
        self.assertRegex(left.err, r"\Aiperf3: error - [^\n]*\n\Z")
        self.assertNotIn("Traceback", left.err)

    def test_noise_in_place_of_an_answer_is_passed_over(self):
        def script(server):
            server.send(b"\x0a")
            _, address = server.udp.recvfrom(65536)
            for noise in (b"", b"x", b"67", b"x" * 100, HELLO):
                server.udp.sendto(noise, address)
            server.udp.sendto(self.reply, address)
            server.send(b"\x01\x02")
            while receive(server.control, 1) != b"\x04":
                pass
            server.end(results({"id": 1, "bytes": 1000, "packets": 1}))
        for self.reply in (REPLY, OLD_REPLY, REPLY + b"more"):
            with UdpServer(script) as server:
                left = support.run(support.OURS + (
                    "-u", "-c", "127.0.0.1", "-p", server.port, "-k", "3", "-l", "1000"))
            self.assertClean(left)

    def test_answer_that_never_came_does_not_matter_once_the_test_began(self):
        def script(server):
            server.send(b"\x0a")
            server.udp.recvfrom(65536)
            server.send(b"\x01\x02")
            numbers.append(self.first_data(server))
            while receive(server.control, 1) != b"\x04":
                pass
            server.end(results({"id": 1, "bytes": 1000, "packets": 1}))
        numbers = []
        with UdpServer(script) as server:
            left = support.run(support.OURS + (
                "-u", "-c", "127.0.0.1", "-p", server.port, "-k", "3", "-l", "1000"))
        self.assertClean(left)
        self.assertEqual(numbers, [1])

    @staticmethod
    def first_data(server):
        while True:
            number, = struct.unpack_from("!I", server.udp.recvfrom(65536)[0].ljust(12, b"\0"), 8)
            if number:
                return number


# Bad paths ####################################################################


class Paths(datagrams.Case):
    """Loss, doubling and disorder on the way."""

    def run_through(self, rule, *arguments, **more):
        """Run a test through a relay; returns both (Finished)."""
        output = more.pop("output", ("-J",))
        server, port = support.start_server(support.OURS, "-1", *output)
        with server, Relay(port, rule) as relay:
            left = support.run(support.OURS + ("-u", "-c", "127.0.0.1", "-p", relay.port)
                               + output + arguments)
            other = server.finish(20.0)
        self.assertClean(left)
        self.assertClean(other)
        return left, other

    def through(self, rule, *arguments, **more):
        """Run a test through a relay; returns both documents, checked."""
        left = self.run_through(rule, *arguments)
        documents = [program.json() for program in left]
        for document in documents:
            self.check_udp(document, more.get("plain", True))
        self.check_udp_views(*documents, whole=False)
        return documents

    def check_share(self, end, suffix=""):
        for name in ("sum", "sum_received"):
            self.assertAlmostEqual(end[name + suffix]["lost_percent"], 10, delta=2)
        self.assertEqual(end["sum_sent" + suffix]["lost_percent"], 0)
        self.assertEqual(end["sum_sent" + suffix]["lost_packets"], 0)

    def test_a_tenth_is_lost(self):
        for mode, (client, server) in support.together(
                lambda *mode: self.through(lossy(drop=10), "-t", "1", "-b", "5M", "-l", "1000",
                                           *mode), [(), ("-R",), ("--bidir",), ("-P", "2")]):
            with self.subTest(mode=mode):
                self.check_share(client["end"])
                if "--bidir" in mode:
                    self.check_share(client["end"], "_bidir_reverse")
                if "-R" not in mode:
                    self.assertAlmostEqual(server["end"]["sum_received"]["lost_percent"], 10,
                                           delta=2)
                for document in (client, server):
                    self.assertFalse(any(drops(document)))  # lost on the way, not here

    def test_a_tenth_is_lost_in_text(self):
        for _, (left, other) in support.together(
                lambda *mode: self.run_through(lossy(drop=10), "-t", "1", "-b", "5M", "-l", "1000",
                                               output=(), *mode), [(), ("-R",)]):
            sender, = re.findall(r".* sender\n", left.out)
            receiver, = re.findall(r".* receiver\n", left.out)
            self.assertRegex(sender, r" 0/\d+ \(0%\)  sender")
            lost, total, share = re.search(r" (\d+)/(\d+) \(([0-9.]+)%\)", receiver).groups()
            self.assertAlmostEqual(float(share), 10, delta=2)
            self.assertAlmostEqual(100.0 * int(lost) / int(total), float(share), delta=1)
            self.assertNotIn("by the receiving host", left.out + other.out)

    def test_loss_with_an_omitted_part_is_that_of_the_counted_part(self):
        for mode, (client, server) in support.together(
                lambda *mode: self.through(lossy(drop=10), "-O", "1", "-t", "1", "-b", "5M",
                                           "-l", "1000", *mode), [(), ("-R",), ("--bidir",)]):
            with self.subTest(mode=mode):
                self.assertAlmostEqual(client["end"]["sum"]["lost_percent"], 10, delta=3)
                for document in (client, server):
                    for interval in document["intervals"]:
                        for name in interval:
                            if name != "streams" and not interval[name]["sender"]:
                                self.check_loss(interval[name])

    def test_loss_in_the_omitted_part_only_is_not_in_the_summary(self):
        # 125 datagrams a second: the loss ends with the 50th.
        for mode, (client, _) in support.together(
                lambda *mode: self.through(
                    lossy(drop=5, until=50, ways=(BACK if mode else FORTH,)), "-O", "1", "-t",
                    "1", "-b", "1M", "-l", "1000", *mode), [(), ("-R",)]):
            with self.subTest(mode=mode):
                self.assertEqual(client["end"]["sum"]["lost_packets"], 0)
                self.assertEqual(client["end"]["sum"]["lost_percent"], 0)
                omitted = [row["sum"] for row in client["intervals"] if row["sum"]["omitted"]]
                if mode:
                    self.assertEqual(sum(row["lost_packets"] for row in omitted), 10)

    def test_amounts_end_in_time_with_loss_both_ways(self):
        for mode in ((), ("-R",), ("--bidir",)):
            for amount in (("-n", "100000"), ("-k", "100")):
                with self.subTest(mode=mode, amount=amount):
                    began = time.monotonic()
                    client, _ = self.through(lossy(drop=4), "-l", "1000", "-b", "10M",
                                             *(amount + mode))
                    self.assertLess(time.monotonic() - began, 15.0)
                    self.assertGreater(client["end"]["sum"]["lost_packets"], 0)

    def test_amount_ends_in_time_if_the_last_datagrams_are_lost(self):
        def rule(way, flow, number, data):
            return [data] if len(data) <= 4 or way == FORTH or number < 60 else []
        began = time.monotonic()
        client, _ = self.through(rule, "-n", "100000", "-l", "1000", "-b", "0", "-R")
        self.assertLess(time.monotonic() - began, 20.0)
        self.assertGreater(client["end"]["sum_received"]["packets"], 0)

    def test_disorder_is_not_loss(self):
        words = ("-t", "1", "-b", "2M", "-l", "1000")
        texts = support.together(
            lambda *mode: self.run_through(lossy(swap=10), output=(), *(words + mode)),
            [(), ("-R",)])
        found = support.together(
            lambda *mode: self.through(lossy(swap=10), *(words + mode)), [(), ("-R",)])
        for (mode, documents), (_, left) in zip(found, texts):
            with self.subTest(mode=mode):
                number = 0 if mode else 1  # of the receiver
                row = documents[number]["end"]["streams"][0]["udp"]
                self.assertGreater(row["out_of_order"], 5)
                self.assertLessEqual(row["lost_packets"], 1)  # the last may still be held back
                self.assertRegex(left[number].out,
                                 r"\[SUM\].*  \d+ datagrams received out-of-order\n")

    def test_doubles_are_out_of_order_and_no_loss(self):
        _, server = self.through(lossy(double=10), "-t", "1", "-b", "2M", "-l", "1000",
                                 plain=False)
        row = server["end"]["streams"][0]["udp"]
        self.assertGreater(row["out_of_order"], 10)
        self.assertEqual(row["lost_packets"], 0)
        self.assertEqual(server["end"]["sum_received"]["bytes"],
                         (row["packets"] + row["out_of_order"]) * 1000)

    def test_nothing_but_the_hello_arrives(self):
        def rule(way, flow, number, data):
            return [data] if len(data) <= 4 else []
        for mode, (client, _) in support.together(
                lambda *mode: self.through(rule, "-t", "1", "-l", "1000", *mode),
                [(), ("-R",), ("--bidir", "-P", "2"), ("-O", "1", "-R")]):
            with self.subTest(mode=mode):
                self.assertEqual(client["end"]["sum_received"]["packets"], 0)
                self.assertEqual(client["end"]["sum_received"]["bytes"], 0)
                self.assertEqual(client["end"]["sum"]["lost_percent"], 0)
        for _, (left, _) in support.together(
                lambda *mode: self.run_through(rule, "-t", "1", "-l", "1000", output=(), *mode),
                [(), ("-R",)]):
            self.assertRegex(left.out, r" 0/0 \(0%\)  receiver\n")


# Losses of the host ###########################################################


class HostLosses(datagrams.Case):
    """Datagrams that a receiving host had no room for are told from those lost on the way."""

    def setUp(self):
        if not sys.platform.startswith("linux"):
            self.skipTest("only Linux tells")

    def starve(self, output, *arguments):
        """Stop the receiver's worker for a while; returns both (Finished)."""
        server, port = support.start_server(support.OURS, "-1", *output)
        with server, support.Program(support.OURS + (
                "-u", "-c", "127.0.0.1", "-p", port, "-t", "2", "-l", "1000", "-b", "4M", "-w",
                "16K") + output + arguments) as client:
            receiver = client if "-R" in arguments else server
            support.wait_until(lambda: support.children(server.pid)
                               and support.children(client.pid), "workers")
            time.sleep(0.7)
            worker = support.children(receiver.pid)[0]
            os.kill(worker, signal.SIGSTOP)
            time.sleep(0.4)
            os.kill(worker, signal.SIGCONT)
            left, other = client.finish(), server.finish(20.0)
        self.assertClean(left)
        self.assertClean(other)
        return left, other

    def test_drops_are_told_by_both_ends(self):
        pairs = support.together(self.starve, [(("-J",),), (("-J",), "-R"), (("-V",),)])
        left, other = pairs[0][1]
        client, server = left.json(), other.json()
        self.check_udp_pair(client, server, whole=False)
        host, remote = datagrams.drops(server)
        self.assertGreater(host, 0)
        self.assertIsNone(remote)
        self.assertEqual(datagrams.drops(client), (None, host))
        lost = client["end"]["sum"]["lost_packets"]
        self.assertGreaterEqual(lost, host)
        self.assertAlmostEqual(lost, host, delta=2)
        # of a receiving client
        left = pairs[1][1][0]
        host, remote = datagrams.drops(left.json())
        self.assertGreater(host, 0)
        self.assertIsNone(remote)
        self.assertAlmostEqual(left.json()["end"]["sum"]["lost_packets"], host, delta=2)
        # in verbose text
        for left in pairs[2][1]:
            self.assertEqual(left.out.count("dropped on arrival"), 1, left)

    def test_drops_with_small_buffers_and_no_rate(self):
        client, server = self.udp(("-t", "1", "-b", "0", "-l", "1400", "-P", "4", "-w", "4K"),
                                  whole=False)
        dropped, = drops(server)
        self.assertGreater(dropped, 0)
        self.assertEqual(drops(client), [dropped])
        # To the datagram, though the kernel counts what it has joined as one.
        self.assertEqual(client["end"]["sum"]["lost_packets"], dropped)
        if pyperf3.missing_offloads():
            return
        self.assertGreater(server["end"]["pyperf3"]["host_dropped_pieces"], 0)
        self.assertGreater(dropped, 2 * server["end"]["pyperf3"]["host_dropped_pieces"])

    def test_drops_before_the_start_were_not_counted(self):
        """A server sends once it has a stream, and its client hears of the start later."""
        left, _ = support.run_pair(support.real("3.22"), support.OURS, (
            "-u", "-R", "-t", "1", "-b", "0", "-l", "1400", "-w", "64K", "-J"))
        self.assertClean(left)
        lost, (dropped,) = left.json()["end"]["sum"]["lost_packets"], drops(left.json())
        self.assertGreater(lost, 0)
        self.assertGreaterEqual(dropped, lost)


# Endings ######################################################################


class Endings(datagrams.Case):
    def running(self, *arguments):
        """Start a persistent server and a long test; returns (server, client, port)."""
        server, port = support.start_server(support.OURS)
        client = support.Program(support.OURS + (
            "-u", "-c", "127.0.0.1", "-p", port, "-t", "30", "-i", "0.2", "-b", "2M", "-l",
            "1000") + arguments)
        return server, client, port

    def test_killed_client_frees_the_server(self):
        for mode in ((), ("-R",), ("--bidir", "-P", "2")):
            with self.subTest(mode=mode):
                server, client, port = self.running(*mode)
                with server, client:
                    client.wait_for("sec ")
                    client.signal(signal.SIGKILL)
                    client.finish()
                    server.wait_for("test #2", 5.0)
                    left = support.run(support.OURS + (
                        "-u", "-c", "127.0.0.1", "-p", port, "-k", "10", "-l", "1000", "-b",
                        "10M", "-J"))
                    self.assertClean(left)
                    self.assertEqual(left.json()["end"]["sum_received"]["packets"], 10)
                    self.assertEqual(server.err(), "iperf3: the client has unexpectedly closed"
                                                   " the connection\n")
                    support.wait_until(lambda: not support.children(server.pid), "no worker left")

    def test_killed_server_ends_the_client(self):
        for mode in ((), ("-R",)):
            with self.subTest(mode=mode):
                server, client, port = self.running(*mode)
                with server, client:
                    client.wait_for("sec ")
                    server.signal(signal.SIGKILL)
                    left = client.finish(15.0)
                self.assertEqual((left.code, left.err), (1, "iperf3: error - control socket has"
                                                            " closed unexpectedly\n"))

    def test_busy_server_refuses(self):
        server, client, port = self.running()
        with server, client:
            client.wait_for("sec ")
            for more in ((), ("-u",)):
                left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port) + more)
                self.assertEqual((left.code, left.err), (
                    1, "iperf3: error - the server is busy running a test. try again later\n"))
            self.assertIsNone(client.process.poll())

    def test_tests_in_a_row_leave_nothing(self):
        server, port = support.start_server(support.OURS)
        with server:
            before = support.descriptors(server.pid)
            for number in range(8):
                mode = (("-u",), ("-u", "-R"), ("-u", "--bidir", "-P", "2"), ())[number % 4]
                self.assertClean(support.run(support.OURS + (
                    "-c", "127.0.0.1", "-p", port, "-k", "10", "-l", "1000", "-b", "10M")
                    + mode))
            support.wait_until(lambda: support.descriptors(server.pid) <= before,
                                 "all descriptors closed")
            self.assertEqual((support.children(server.pid), server.err()), ([], ""))


# Faults #######################################################################


class Faults(datagrams.Case):
    """Faults that were there once. Each test is named after what went wrong."""

    def test_stray_hello_from_elsewhere_took_the_place_of_a_stream(self):
        server, port = support.start_server(support.OURS)
        self.addCleanup(server.__exit__)
        with UdpClient(port, parallel=2) as client:
            client.stream()
            stray = client.socket("127.0.0.2")
            stray.send(HELLO)
            time.sleep(1.5)
            client.stream()
            client.begin()
            stray.settimeout(0.1)
            with self.assertRaises(socket.timeout):
                stray.recv(16)
            client.end(results({"id": 1, "packets": 0}, {"id": 3, "packets": 0}))

    def test_real_client_of_a_lossy_reverse_test_waited_for_what_was_lost(self):
        """It counts what arrives, so our server must not stop at the amount."""
        real = support.real("3.22")
        server, port = support.start_server(support.OURS)
        self.addCleanup(server.__exit__)
        with Relay(port, lossy(drop=50, ways=(BACK,))) as path:
            left = support.run(real + ("-u", "-c", "127.0.0.1", "-p", path.port, "-R", "-n", "200K",
                                       "-b", "10M", "-l", "1000", "-J"), 20.0)
        self.assertEqual(left.code, 0, left)
        self.assertGreaterEqual(left.json()["end"]["sum_received"]["bytes"], 200 * 1024)

    def test_junk_in_place_of_the_answer_kept_the_client_for_ever(self):
        def script(server):
            server.send(b"\x0a")
            _, address = server.udp.recvfrom(65536)
            end = time.monotonic() + 14.0
            server.control.settimeout(0.0)
            while time.monotonic() < end:
                server.udp.sendto(b"junk!", address)
                try:
                    if not server.control.recv(16):
                        return
                except BlockingIOError:
                    pass
            raise AssertionError("the client did not end")
        with UdpServer(script) as server:
            left = support.run(support.OURS + ("-u", "-c", "127.0.0.1", "-p", server.port))
        self.assertEqual(left.code, 1, left)
        self.assertIn("did not answer the first datagram", left.err)

    def test_flood_of_a_set_up_kept_other_clients_waiting(self):
        server, port = support.start_server(support.OURS)
        self.addCleanup(server.__exit__)
        with UdpClient(port, parallel=2) as client:
            client.stream()
            flood, over = client.socket("127.0.0.3"), []

            def send():
                while not over:
                    try:
                        flood.send(b"0" * 16)
                    except OSError:
                        pass
            sender = threading.Thread(target=send, daemon=True)
            sender.start()
            try:
                begin = time.monotonic()
                with connect(port) as other:
                    other.settimeout(20.0)
                    other.sendall(pyperf3.make_cookie())
                    self.assertEqual(other.recv(1), b"\xff")
                self.assertLess(time.monotonic() - begin, 5.0)  # it was as long as the flood
            finally:
                over.append(True)
                sender.join()
            client.stream(times=40)  # the server's buffer is still full of the flood

    def test_long_datagram_ended_a_receiver_that_joins(self):
        for more in ((), ("--threads",)):
            with self.subTest(more=more):
                server, port = support.start_server(support.OURS, *more)
                self.addCleanup(server.__exit__)
                with UdpClient(port, len=40000, gso=1, gso_dg_size=40000, gro=1) as client:
                    sock = client.stream()
                    client.begin()
                    sock.send(datagram(1, 60000))
                    sock.send(datagram(2, 40000))
                    found, = client.end()["streams"]
                self.assertEqual(found["packets"], 2)
                self.assertNotIn("Traceback", server.err())

    def test_amount_was_exceeded_with_several_streams(self):
        for mode in ((), ("-R",)):
            left = support.run(support.OURS + ("--loopback", "-u", "-n", "1M", "-b", "0", "-P", "8",
                                               "-l", "1000", "-J") + mode)
            self.assertEqual(left.json()["end"]["sum_sent"]["packets"], 1049)

    def test_ports_beyond_the_last_were_a_python_error(self):
        left = support.run(support.OURS + ("--loopback", "-u", "-P", "4", "--cport", "65534"))
        self.assertEqual(left.code, 1)
        self.assertIn("parameter error - port number must be", left.err)

    def test_refusing_calls_of_the_system_sent_nothing_and_called_it_success(self):
        """A sandbox may have the calls, and answer each with ENOSYS."""
        code = ("import ctypes, errno, sys; sys.argv[0] = 'x'\n"
                "class Refuse:\n"
                "    def __call__(self, *arguments):\n"
                "        ctypes.set_errno(errno.ENOSYS)\n"
                "        return -1\n"
                "class Library:\n"
                "    def __init__(self, name, use_errno):\n"
                "        self.sendmmsg, self.recvmmsg = Refuse(), Refuse()\n"
                "ctypes.CDLL = Library\n"
                "import pyperf3; sys.exit(pyperf3.main(sys.argv))")
        left = support.run((sys.executable, "-B", "-c", code, "--loopback", "-u", "-n", "50K", "-l",
                            "1000", "-J"), env=support.environment(PYTHONPATH=support.LIBRARY))
        self.assertEqual(left.code, 0, left)
        self.assertEqual(left.json()["end"]["sum_received"]["packets"], 52)

    def test_drops_of_joined_datagrams_were_more_than_all_that_were_sent(self):
        for more in ((), ("--no-sendmmsg",)):
            left = support.run(support.OURS + ("--loopback", "-u", "--gsro", "-w", "16K", "-b", "0",
                                               "-l", "1000", "-t", "1", "-J") + more)
            end = left.json()["end"]
            self.assertLessEqual(end["pyperf3"]["remote_dropped_packets"],
                                 end["sum_sent"]["packets"])


class Reported(datagrams.Case, field.Case):
    """Public reports about iperf3 and its like, each with the test that would have found it."""

    def through(self, rule, words, command=support.OURS, server_command=support.OURS, mode="-J"):
        """Run a UDP test through a bad network; returns both (Finished)."""
        server, port = support.start_server(server_command, "-1", *mode.split())
        with server, Relay(port, rule) as relay:
            left = field.client(relay.port, "-u %s %s" % (mode, words), command)
            other = server.finish(20.0)
        for program in (left, other):
            self.assertEqual((program.code, program.err), (0, ""), (words, program))
        return left, other

    # B05: iperf3 #351, #452, #1853, #1563; riperf3 #11, #195, #178
    def test_the_first_datagram_is_lost_or_doubled(self):
        names = {fakes.HELLO: fakes.OLD_HELLO, fakes.REPLY: fakes.OLD_REPLY}

        def aged(way, flow, number, data):
            return [names.get(data, data)]
        some = "-n 50K -l 1000 -b 5M"
        real = support.real("3.22")
        items = [(lossy(first=1), some), (lossy(first=2), some),
                 (lossy(double=1, until=1), some), (lossy(double=1, until=1), some + " -P 8"),
                 (lossy(first=1, ways=(FORTH,)), some + " -P 8"),
                 (lossy(first=1, ways=(FORTH,)), some + " -R"),
                 (lossy(first=1, ways=(FORTH,)), some, support.OURS, real),
                 (aged, some + " -P 2")]
        for item, (left, other) in field.abreast(self.through, items):
            end = left.json()["end"]
            total = end["sum_received"]
            sent = end["sum_sent"]["packets"]
            self.assertGreaterEqual(sent, 52)
            self.assertEqual(total["lost_packets"], 0, (item[1], left))
            # An iperf3 server counts nothing more once it hears of the end.
            self.assertAlmostEqual(total["packets"], sent, delta=5 if real in item else 0,
                                   msg=(item[1], left))
            count = 8 if "-P 8" in item[1] else 2 if "-P 2" in item[1] else 1
            documents = (left.json(), captures.parse(other.out))
            for document in documents:
                self.assertEqual(len(document["end"]["streams"]), count)
                self.assertEqual(sum(each["udp"]["out_of_order"]
                                     for each in document["end"]["streams"]), 0)

    # B14: iperf3 #412, #1261, #236, #443, #1770; riperf3 #31
    def test_omitted_part_and_loss(self):
        def rule():
            return lossy(drop=10)
        items = [(rule(), "-O 1 -t 1 -b 4M -l 1000" + more) for more in ("", " -R", " --bidir")]
        items.append((lossy(drop=2, until=200, ways=(FORTH,)), "-O 1 -t 1 -b 4M -l 1000"))
        items += [("-O 1 -t 1 -i 0.5 -b 10M",), ("-O 1 -t 1 -i 0.5 -b 10M -J",)]
        found = field.abreast(lambda *item: self.through(*item) if len(item) > 1
                              else field.pair(*item), items)
        for number, ((_, words), (left, _)) in enumerate(found[:4]):
            end = left.json()["end"]
            for suffix in ("", "_bidir_reverse") if "--bidir" in words else ("",):
                total = end["sum" + suffix]
                self.assertGreaterEqual(total["lost_packets"], 0)
                # 500 datagrams in the second that counts, and 500 more in the omitted one
                self.assertAlmostEqual(end["sum_sent" + suffix]["packets"], 500, delta=150)
                self.assertAlmostEqual(total["lost_percent"], 0 if number == 3 else 10, delta=1)
        (_, (text, _)), (_, (left, _)) = found[4:]
        rows = [line for line in text.lines() if re.search(r"\d-\d+\.\d\d +sec ", line)]
        flags = [line.endswith("(omitted)") for line in rows]
        self.assertEqual(flags, sorted(flags, reverse=True))
        self.assertTrue(flags[0])
        self.assertRegex(rows[flags.index(False)], r"\] +0\.00-")
        document = left.json()
        counted = [each["sum"] for each in document["intervals"] if not each["sum"]["omitted"]]
        for name in ("bytes", "retransmits"):
            self.assertEqual(document["end"]["sum_sent"][name], sum(row[name] for row in counted))

    # B16: iperf3 #1984, #1892
    def test_received_is_not_what_was_sent(self):
        real = support.real("3.22")
        items = [(lossy(drop=10), "-t 1 -b 10M -l 1000", ours, theirs)
                 for ours, theirs in ((support.OURS, support.OURS), (support.OURS, real),
                                      (real, support.OURS))]
        items.append((lossy(drop=10), "-t 1 -b 10M -l 1000", support.OURS, support.OURS, ""))
        found = support.together(self.through, items)
        for _, (left, _) in found[:3]:
            end = captures.parse(left.out)["end"]
            for name in ("sum", "sum_received"):
                self.assertAlmostEqual(end[name]["lost_percent"], 10, delta=1)
            self.assertEqual((end["sum_sent"]["lost_percent"], end["sum_sent"]["lost_packets"]),
                             (0, 0))
        _, (left, _) = found[3]
        sent, = re.findall(r" 0/(\d+) \(0%\)  sender\n", left.out)
        (lost, total, share), = re.findall(r" (\d+)/(\d+) \(([\d.]+)%\)  receiver\n", left.out)
        self.assertAlmostEqual(int(total), int(sent), delta=10)
        self.assertAlmostEqual(int(lost), int(sent) / 10.0, delta=2)
        self.assertAlmostEqual(float(share), 10, delta=1)

    # B29: iperf3 #296, #509, #571, #1715
    def test_losses_made_by_the_tool(self):
        real = support.real("3.22")
        for words in ("-t 1 -b 50M -l 1400", "-t 1 -b 12M -l 1400 -P 4"):
            left, other = field.pair("-u -J " + words, "-J", real)
            self.assertEqual((left.code, other.code), (0, 0), left)
            self.assertGreater(other.json()["end"]["sum_received"]["packets"], 500)
            self.assertEqual(other.json()["end"]["sum"]["lost_packets"], 0)
        left, other = field.pair("-u -J -b 0 -t 1 -l 1400", "-J", real)
        lost = other.json()["end"]["sum"]["lost_packets"]
        # what is lost on this host is said to be lost here, and not on the network
        self.assertLessEqual(lost, datagrams.drops(other.json())[0] or 0)

    # B32: iperf3 #936, #609
    def test_clumps(self):
        _, port = self.serve()
        stamps = []
        with fakes.UdpClient(port, reverse=True, bandwidth=1000000) as fake:
            sock = fake.stream()
            fake.begin()
            while len(stamps) < 60:
                second, micro, _ = struct.unpack_from("!III", sock.recv(65536))
                stamps.append(second + micro * 1e-6)
            fake.control.sendall(b"\x0c")
        gaps = [after - before for before, after in zip(stamps, stamps[1:])]
        self.assertGreater(min(gaps), 0.002, gaps)  # one is due every 8 ms
        self.assertGreater(stamps[-1] - stamps[0], 59 * 0.008 * 0.98)
        for (words, rate), (left, _) in support.together(
                lambda words, _: self.pair(tuple((words + " -u -t 1 -J").split())), [
                    ("-b 100M -l 1400", 100e6), ("-b 20M -l 1400 -R", 20e6),
                    ("-b 5k -l 1400", None)]):
            sent = left.json()["end"]["sum_sent"]
            if rate is None:
                self.assertEqual(sent["packets"], 1)  # the next one is due after two seconds
            else:
                self.assertLessEqual(sent["bytes"] * 8, rate * 1.01 * sent["seconds"] + 11200)
                self.assertGreater(sent["bytes"] * 8, 0.3 * rate * sent["seconds"])

    # B65: iperf3 #496, #604, #785, #861, #1934, #1978
    def test_block_sizes(self):
        for (words, length), left in support.together(
                lambda words, _: field.run(support.OURS, "--loopback -u -b 100M -J " + words), [
                    ("-n 100K", 32768), ("-n 100K -l 65507", 65507), ("-n 1K -l 16", 16),
                    ("-n 1K -l 16 --udp-counters-64bit", 16)]):
            self.assertEqual(left.code, 0, left)
            document = left.json()
            self.assertEqual(document["start"]["test_start"]["blksize"], length)
            self.assertEqual(document["end"]["sum"]["lost_packets"], 0)
            self.assertEqual(document["end"]["sum_received"]["bytes"],
                             document["end"]["sum_sent"]["bytes"])
            self.assertEqual("exceeds TCP MSS 32768" in left.err, length == 65507, left)
        for words in ("-l 65508", "-l 12", "-l 15"):
            left = field.run(support.OURS, "-c 127.0.0.1 -u " + words)
            self.assertEqual((left.code, left.out), (1, ""))
            self.assertIn("block size invalid (minimum = 16 bytes, maximum = 65507 bytes)",
                          left.err)


if __name__ == "__main__":
    sys.exit(unittest.main())
