"""Latency idle and under load (--latency): its figures, its probes, and who else may have answers.
"""

import contextlib
import json
import os
import random
import re
import signal
import socket
import struct
import sys
import threading
import time
import unittest

import fakes
import path
import pyperf3
import support
from test_facts import whole_test, RESULTS

TOKEN = b"abcdefghijklmnopqrstuvwxyz234567abcd\0"
ROW = dict(group=0, sequence=0, sent=0.0, rtt=0.010, up=5.0, down=-4.0, late=0.0, tos_up=0,
           tos_down=0, count=1, bytes=0, packets=0, lost=0, jitter=0)


def sample(**members):
    return pyperf3.Sample(**dict(ROW, **members))


def latency_of(left):
    """Return the figures in a client's document (-J)."""
    return left.json()["end"]["pyperf3"]["latency"]


# Pure #########################################################################


class Codec(unittest.TestCase):

    def test_probe_there_and_back(self):
        for kind in (pyperf3.ECHO, pyperf3.ACK, pyperf3.FILL, pyperf3.PULL):
            data = pyperf3.encode_probe(TOKEN, kind, 1, 2 ** 32 - 1, 1472)
            self.assertEqual(len(data), 64)
            self.assertTrue(pyperf3.is_probe(data))
            for more in (b"", b"x" * 1000):
                self.assertEqual(pyperf3.decode_probe(data + more, TOKEN),
                                 (kind, 1, 1472, 2 ** 32 - 1))

    def test_what_is_no_probe(self):
        good = pyperf3.encode_probe(TOKEN, pyperf3.ECHO, 0, 1)
        self.assertIsNotNone(pyperf3.decode_probe(good, TOKEN))
        self.assertIsNone(pyperf3.decode_probe(good[:-1], TOKEN))
        self.assertIsNone(pyperf3.decode_probe(good, b"b" + TOKEN[1:]))
        self.assertIsNone(pyperf3.decode_probe(b"", TOKEN))
        for at in range(22):  # all before the sizes
            changed = bytearray(good)
            changed[at] ^= 0x40
            self.assertIsNone(pyperf3.decode_probe(bytes(changed), TOKEN), at)

    def test_reply_there_and_back(self):
        reply = pyperf3.ProbeReply(1, 1, 184, 1, 7, 9, 10 ** 18, 10 ** 18 + 5, 2 ** 40, 3, 2, 11,
                                   64, 0, 0)
        data = pyperf3.encode_reply(reply)
        self.assertEqual(len(data), 64)
        self.assertEqual(pyperf3.decode_reply(data), reply)
        self.assertIsNone(pyperf3.decode_reply(data[:63]))
        self.assertIsNone(pyperf3.decode_reply(b"x" + data[1:]))

    def test_features(self):
        read = pyperf3.Features.from_json
        self.assertEqual(read({}), ((),))
        self.assertEqual(read({"probes": [0, 184]}), ((0, 184),))
        self.assertEqual(read({"probes": [300, -1, 5]}), ((44, 255),))
        for value in (None, 7, "x", {}, ["x"], [None], [[1]], [True]):
            self.assertEqual(read({"probes": value}), ((),), value)
        self.assertEqual(read({"probes": [float("inf"), float("nan")]}).probes[1:], (0,))
        self.assertEqual(pyperf3.Features((4,)).to_json(), {"facts": 1, "probes": [4]})
        self.assertEqual(pyperf3.Features(()).to_json(), {"facts": 1})


class Figures(unittest.TestCase):

    def test_grades_at_their_bounds(self):
        for bound, below, above in ((5, "A+", "A"), (30, "A", "B"), (60, "B", "C"),
                                    (200, "C", "D"), (400, "D", "F")):
            self.assertEqual(pyperf3.latency_grade(bound - 0.001), below)
            self.assertEqual(pyperf3.latency_grade(bound), above)
        self.assertEqual(pyperf3.latency_grade(-3), "A+")

    def test_round_trips_per_minute(self):
        """60,000 by the mean of the round trips without the longest twentieth."""
        for ms, rpm, name in ((200.5, 299, "poor"), (100, 600, "fair"), (20, 3000, "good"),
                              (2, 30000, "excellent")):
            figures = pyperf3.LatencyFigures()
            figures.begin_load(0, True)
            for number in range(100):
                figures.add(sample(sequence=number, rtt=9.0 if number < 5 else ms / 1e3))
            told = figures.to_json(100, ())
            self.assertEqual((told["rpm"], told["rpm_class"]), (rpm, name))

    def filled(self, idle=100, early=50, loaded=200):
        """Return figures with 10 ms on an idle path, 100 at first, then 60 to 80."""
        figures = pyperf3.LatencyFigures()
        number = 0
        for count, begin in ((idle, None), (early, False), (loaded, True)):
            if begin is not None:
                figures.begin_load(number, begin)
            for each in range(count):
                rtt = 0.010 if begin is None else 0.100 if not begin else 0.060 + 0.0001 * each
                figures.add(sample(sequence=number, rtt=rtt, count=number + 1,
                                   up=5.0 + (rtt - 0.01), late=0.001))
                number += 1
        return figures

    def test_phases(self):
        told = self.filled().to_json(350, (75,))
        self.assertEqual((told["idle"]["samples"], told["loaded"]["samples"]), (100, 200))
        self.assertEqual((told["idle"]["min_ms"], told["idle"]["max_ms"]), (10, 10))
        loaded = told["loaded"]
        self.assertEqual((loaded["min_ms"], loaded["p50_ms"], loaded["p75_ms"], loaded["p95_ms"],
                          loaded["p99_ms"], loaded["max_ms"]), (60, 70, 75, 79, 79.8, 79.9))
        self.assertEqual((told["increase_ms"], told["increase_p95_ms"]), (60, 69))
        self.assertEqual((told["grade"], told["confidence"]), ("C", "high"))
        self.assertEqual(loaded["ipdv_p50_ms"], 0.1)
        self.assertEqual(told["one_way"], {"up_increase_p95_ms": 69.0, "down_increase_p95_ms": 0.0})
        self.assertEqual(told["late_p95_ms"], 1.0)
        self.assertEqual((loaded["sent"], loaded["lost"]), (200, 0))

    def test_a_short_load_counts_from_its_beginning(self):
        told = self.filled(loaded=5).to_json(155, ())
        self.assertEqual(told["loaded"]["samples"], 55)
        self.assertEqual(told["confidence"], "low")

    def test_losses_by_the_way(self):
        """What the server has counted tells on which way the others were lost."""
        figures = pyperf3.LatencyFigures()
        figures.begin_load(0, True)
        arrived = 0
        for number in range(1000):
            if number % 20 == 10:  # lost up
                continue
            arrived += 1
            if number % 50 == 25:  # lost down
                continue
            figures.add(sample(sequence=number, count=arrived))
        loaded = figures.to_json(1000, ())["loaded"]
        self.assertEqual((loaded["sent"], loaded["lost"], loaded["lost_up"], loaded["lost_down"]),
                         (1000, 70, 50, 20))

    def test_what_may_still_come_is_not_lost(self):
        figures = pyperf3.LatencyFigures()
        figures.begin_load(0, True)
        for number in range(100):
            figures.add(sample(sequence=number, count=number + 1))
        for end, sent, lost in ((80, 100, 0), (100, 100, 0), (130, 130, 30)):
            loaded = figures.to_json(end, ())["loaded"]
            self.assertEqual((loaded["sent"], loaded["lost"]), (sent, lost))
        self.assertEqual(figures.to_json(130, ())["loaded"]["lost_up"], 0)  # nobody knows which way

    def test_no_answer_under_load(self):
        figures = pyperf3.LatencyFigures()
        figures.add(sample())
        figures.begin_load(1, False)
        told = figures.to_json(200, ())
        self.assertEqual(told["loaded"], {"samples": 0, "sent": 199, "lost": 199, "lost_up": 0,
                                          "lost_down": 0})
        for name in ("grade", "rpm", "increase_ms", "confidence"):
            self.assertNotIn(name, told)
        lines = pyperf3.latency_lines(dict(told, source="udp", rate=50))
        self.assertRegex(lines[2], r"^  under load .* - .*199/199$")

    def test_rewritten_type_of_service(self):
        for tos_up, tos_down, wanted in (
                (184, 184, None), (185, 187, None), (0, 184, (0, 184)), (184, 0, (184, 0)),
                (255, 255, None), (255, 0, (255, 0))):
            figures = pyperf3.LatencyFigures()
            for number in range(10):
                figures.add(sample(sequence=number, tos_up=tos_up, tos_down=tos_down))
            self.assertEqual(figures.rewritten(184), wanted, (tos_up, tos_down))
        self.assertIsNone(pyperf3.LatencyFigures().rewritten(0))

    def test_intervals_have_what_arrived(self):
        figures = pyperf3.LatencyFigures()
        figures.begin_load(0, True)
        for number in range(10):
            figures.add(sample(sequence=number, rtt=0.001 * (number + 1), bytes=1000 * number,
                               packets=10 * number, lost=number, jitter=500))
        row = figures.end_interval(2.0, True)
        self.assertEqual(row, {
            "latency_p50_ms": 6, "latency_max_ms": 10, "latency_samples": 10,
            "received_bytes": 9000, "received_bps": 36000, "packets": 90, "lost_packets": 9,
            "lost_percent": 10, "jitter_ms": 0.5})
        figures.add(sample(sequence=10, bytes=10000, packets=5, lost=2 ** 32 - 1))  # it wraps
        row = figures.end_interval(1.0, True)
        self.assertEqual((row["received_bytes"], row["lost_packets"], row["latency_samples"]),
                         (1000, 0, 1))
        row = figures.end_interval(1.0, False)
        self.assertEqual(row, {"latency_samples": 0, "received_bytes": 0, "received_bps": 0})

    def test_lines(self):
        told = dict(self.filled().to_json(350, ()), source="udp", rate=50, size=64, dscp=0,
                    congestion="bbr")
        lines = pyperf3.latency_lines(told)
        self.assertEqual(lines[0].split(), "Latency in ms (UDP probes, 50/s, bbr) min p50 p95 p99"
                                           " max lost".split())
        self.assertEqual(lines[2].split(), "under load 60.0 70.0 79.0 79.8 79.9 0/200".split())
        self.assertEqual(lines[3], "  +60.0 ms under load: grade C (B is below 60 ms), 863 RPM"
                                   " (fair)")
        self.assertIn("on the way up +69.0 ms, on the way down +0.00 ms", lines[4])
        self.assertIn("bbr keeps queues short", lines[-1])
        for line in lines:
            self.assertLessEqual(len(line), 100)
            self.assertIsNone(re.search(r"sender|receiver|connected|CPU|^\[", line), line)
        self.assertEqual(pyperf3.latency_lines({"source": None, "reason": "so"}),
                         ["Latency: not measured: so."])


class Checks(unittest.TestCase):

    def states(self, latency, **limits):
        settings = pyperf3.Settings(client="h", **limits)
        end = {"pyperf3": {"latency": latency}} if latency is not None else {}
        return [(check["name"], check["state"], check["value"])
                for check in pyperf3.check_figures(pyperf3.limits_of(settings), end, ())]

    LATENCY = {"source": "udp", "grade": "B", "rpm": 600, "increase_ms": 40.0,
               "loaded": {"samples": 9, "p50_ms": 50.0, "p95_ms": 80.0, "p75_ms": 60.0}}

    def test_at_the_limits(self):
        for limits, state in (
                ({"max_latency": "80ms"}, "ok"), ({"max_latency": "79.9ms"}, "failed"),
                ({"max_latency": "50ms:p50"}, "ok"), ({"max_latency": "49.99ms:p50"}, "failed"),
                ({"max_latency": "60ms:p75"}, "ok"), ({"min_rpm": 600}, "ok"),
                ({"min_rpm": 601}, "failed"), ({"min_grade": "B"}, "ok"),
                ({"min_grade": "c"}, "ok"), ({"min_grade": "A"}, "failed"),
                ({"min_grade": "A+"}, "failed")):
            (name, found, value), = self.states(self.LATENCY, **limits)
            self.assertEqual(found, state, limits)
            self.assertIsNotNone(value)

    def test_unknown_is_no_pass(self):
        for latency in (None, {"source": None, "reason": "none"}, {"source": "udp"},
                        {"source": "udp", "loaded": {"samples": 0}}):
            for limits in ({"max_latency": "1s"}, {"min_rpm": 1}, {"min_grade": "F"}):
                (_, state, value), = self.states(latency, **limits)
                self.assertEqual((state, value), ("unknown", None), (latency, limits))

    def test_values_that_are_refused(self):
        for words in ("--max-latency 100", "--max-latency 5ms:95", "--max-latency 5ms:p0",
                      "--max-latency 5ms:p101", "--min-grade E", "--min-grade x", "--min-rpm 0",
                      "--probe-rate 0", "--probe-rate 1001", "--probe-size 63",
                      "--probe-size 1473", "--probe-dscp 64",
                      "--probe-dscp 0 --probe-dscp 1 --probe-dscp 2",
                      "--probe-rate 501 --probe-dscp 0 --probe-dscp 1",
                      "--latency --connect-only", "--min-rpm 5 --connect-only"):
            with self.subTest(words):
                left = support.run(support.OURS + ("-c", "192.0.2.1") + tuple(words.split()))
                self.assertEqual((left.code, left.out), (1, ""))
                self.assertRegex(left.err, r"\Aiperf3: parameter error - [^\n]+\n\nUsage")


# Both ends ours ###############################################################


class Pairs(unittest.TestCase):
    """Every kind of test, with probes beside it."""

    def run_pair(self, line, program=support.OURS, code=0):
        left, served = support.run_pair(program, program, ("-J", "--latency") + tuple(line.split()))
        self.assertEqual((left.code, left.err), (code, ""), left.out)
        self.assertEqual((served.code, served.err), (0, ""))
        return left

    def check(self, line, source="udp", **more):
        left = self.run_pair(line, **more)
        latency = latency_of(left)
        with self.subTest(line):
            self.assertEqual(latency["source"], source)
            self.assertGreater(latency["idle"]["samples"], 20)
            self.assertGreater(latency["loaded"]["samples"], 5)
            self.assertLessEqual(latency["idle"]["min_ms"], latency["idle"]["p50_ms"])
            self.assertIn(latency["grade"], pyperf3.GRADES)
            self.assertGreater(latency["rpm"], 0)
        return left.json()

    def test_every_kind_of_test(self):
        lines = ("-t 2", "-t 2 -R", "-t 2 --bidir", "-t 2 -P 3", "-t 2 --tls", "-t 2 -u -b 20M",
                 "-t 2 -u -R -b 20M", "-t 2 --threads", "-t 2 -O 1", "-n 2G", "-t 2 -u --bidir",
                 "-t 2 -S 184", "-t 2 --no-sendmmsg -u")
        for (line,), _ in support.together(self.check, [(line,) for line in lines], 2):
            pass

    def test_quic(self):
        self.check("-t 2 --quic", program=support.with_quic())

    def test_members_are_where_no_reader_takes_the_last(self):
        for line in ("-t 2", "-t 2 -u", "-t 2 --bidir -P 2"):
            left = self.run_pair(line)
            text = left.out
            document = left.json()
            self.assertNotIn("bits_per_second", json.dumps(latency_of(left)))
            for interval in document["intervals"]:
                for name, row in interval.items():
                    if name == "streams":
                        self.assertFalse(any("pyperf3" in each for each in row))
                        continue
                    names = list(row)
                    self.assertIn("latency_samples", row["pyperf3"])
                    self.assertNotIn("bits_per_second", row["pyperf3"])
                    self.assertNotIn("pyperf3", (names[0], names[-1]))
                    # What arrives is told of what this end sends.
                    self.assertEqual("received_bytes" in row["pyperf3"], name == "sum")
            self.assertLess(text.rindex('"latency"'), text.rindex('"cpu_utilization_percent"'))

    def test_datagrams_that_arrived_are_told_while_the_test_runs(self):
        document = self.check("-t 3 -u -b 5M -l 500")
        rows = [interval["sum"] for interval in document["intervals"]][:3]
        for row in rows:
            own = row["pyperf3"]
            self.assertEqual(own["lost_packets"], 0)
            self.assertAlmostEqual(own["packets"], row["packets"], delta=0.3 * row["packets"])
        text = support.run_pair(support.OURS, support.OURS, ("--latency", "-u", "-t", "2"))[0].out
        self.assertRegex(text, r"Total Datagrams +Lat p50/max +Lost on arrival\n")
        self.assertRegex(text, r"sec  \d+ +[\d.]+/[\d.]+ ms +0/\d+ \(0%\)\n")

    def test_two_classes(self):
        latency = latency_of(self.run_pair("-t 3 --probe-dscp ef --probe-dscp 0"))
        self.assertEqual([each["dscp"] for each in latency["classes"]], [46, 0])
        for each in latency["classes"]:
            self.assertGreater(each["loaded"]["samples"], 20)
            self.assertNotIn("dscp_at_server", each)
        self.assertEqual(latency["dscp"], 46)

    def test_nothing_is_left_behind(self):
        program, port = support.start_server(support.OURS)
        with program:
            for _ in range(2):
                left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "--latency",
                                                   "-t", "1", "-J"))
                self.assertEqual(left.code, 0)
            support.wait_until(lambda: not support.children(program.process.pid),
                               "the workers' end")
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.bind(("127.0.0.1", port))  # nothing holds the port
            program.signal()
            self.assertEqual(program.finish(20.0).code, 0)

    def test_ends_before_the_load(self):
        """Interrupted, or by the server's end: what is known of the idle path is told, at once."""
        for ended in ("client", "server"):
            program, port = support.start_server(support.OURS)
            with program, support.Program(support.OURS + (
                    "-c", "127.0.0.1", "-p", port, "--latency", "-J")) as client:
                support.wait_until(lambda: len(support.children(client.process.pid)) > 0, "probes")
                time.sleep(0.5)
                if ended == "client":
                    client.signal(signal.SIGINT)
                else:
                    program.process.kill()
                left = client.finish(5.0)
                with self.subTest(ended=ended):
                    self.assertEqual(left.code, 0 if ended == "client" else 1)
                    if ended == "client":  # iperf3 has no summary of other ends before the start
                        latency = latency_of(left)
                        self.assertGreater(latency["idle"]["samples"], 5)
                        self.assertNotIn("loaded", latency)

    def test_plain_runs_ask_for_nothing(self):
        settings = pyperf3.Settings(client="h")
        self.assertNotIn("pyperf3_features", pyperf3.Parameters.from_settings(settings).to_json())
        settings = pyperf3.Settings(client="h", verdict=True)
        self.assertEqual(pyperf3.Parameters.from_settings(settings).to_json()["pyperf3_features"],
                         {"facts": 1})

    def test_several_tests_of_one_host_at_a_time(self):
        program, port = support.start_server(support.OURS, "--max-clients", "4")
        with program:
            lines = ("-t 2", "-t 2 -u", "-t 2 -R", "-t 2 -u -R")
            for (line,), left in support.together(lambda line: support.run(
                    support.OURS + ("-c", "127.0.0.1", "-p", port, "--latency", "-J")
                    + tuple(line.split())), [(line,) for line in lines], 4):
                self.assertEqual(left.code, 0, left)
                self.assertEqual(latency_of(left)["source"], "udp", line)
            program.signal()
            program.finish(20.0)


class Translated(support.ServerCase):
    """A client whose datagrams come from another address than its control connection."""

    def test_streams_were_not_known_while_probes_were_waited_for(self):
        program = support.driver("""
import pyperf3
real = pyperf3.datagram_socket
def other(family):
    sock = real(family)
    sock.bind(("127.0.0.2", 0))
    return sock
pyperf3.datagram_socket = other
""")
        left = support.run(program + ("-c", "127.0.0.1", "-p", self.serve(), "-u", "-t", "1",
                                      "--latency", "-J"))
        self.assertEqual((left.code, left.err), (0, ""), left.out)
        self.assertEqual(latency_of(left)["source"], "tcp")  # the probes' address is not known


class OverTcp(support.ServerCase):
    """Where no datagrams come through, the probes take a connection of their own."""

    def run_through_tcp(self, *arguments):
        """Run a client whose TCP connections are passed on, and nothing else."""
        port = self.serve("--max-clients", "2")
        with fakes.balancer(port, port) as relay:
            return support.run(support.OURS + ("-c", "127.0.0.1", "-p", relay.port, "-t", "2",
                                               "--latency") + arguments)

    def test_plain_and_within_tls(self):
        for arguments in ((), ("--tls",), ("-R",), ("--probe-dscp", "ef", "--probe-dscp", "0")):
            with self.subTest(arguments=arguments):
                latency = latency_of(self.run_through_tcp("-J", *arguments))
                self.assertEqual((latency["source"], latency["clock"]), ("tcp", "user"))
                self.assertGreater(latency["idle"]["samples"], 20)
                self.assertGreater(latency["loaded"]["samples"], 20)
                self.assertEqual(latency["loaded"]["lost"], 0)

    def test_text_names_the_source(self):
        left = self.run_through_tcp()
        self.assertEqual((left.code, left.err), (0, ""))
        self.assertRegex(left.out, r"\nLatency in ms \(probes over TCP, 50/s")

    def test_a_server_in_tls_takes_none_outside(self):
        """The token opens no connection outside TLS to a test within."""
        with Raw(self.serve("--tls-only"), tls=True) as raw:
            with socket.create_connection(("127.0.0.1", raw.port), 5) as sock:
                sock.sendall(raw.token)
                self.assertEqual(sock.recv(1), b"\xff")


# Others #######################################################################


class Real(unittest.TestCase):
    """An iperf3 answers no probes: TCP's own round trips tell, of what this end sends."""

    def run_against(self, version, line):
        left, _ = support.run_pair(support.real(version), support.OURS,
                                   ("--latency", "-J", "-t", "2") + tuple(line.split()))
        self.assertEqual((left.code, left.err), (0, ""), left.out)
        return latency_of(left)

    def test_tcp_tells_what_this_end_sends(self):
        for version in ("3.22", "3.18", "3.12", "3.9"):
            for line in ("", "--bidir", "-P 2"):
                with self.subTest(version=version, line=line):
                    latency = self.run_against(version, line)
                    self.assertEqual(latency["source"], "tcp_info")
                    self.assertEqual(latency["idle"]["samples"], 1)
                    self.assertGreater(latency["loaded"]["samples"], 5)
                    self.assertIn("grade", latency)
                    self.assertNotIn("rate", latency)

    def test_what_nobody_tells_is_not_measured(self):
        for line in ("-R", "-u", "-u -R"):
            latency = self.run_against("3.22", line)
            self.assertEqual(list(latency), ["source", "reason"])
            self.assertIsNone(latency["source"])
        left, _ = support.run_pair(support.real("3.22"), support.OURS,
                                   ("--latency", "-R", "-t", "1", "--min-grade", "F"))
        self.assertEqual(left.code, 1)
        self.assertIn("\nLatency: not measured: the server answers no probes", left.out)
        self.assertIn("\nCheck min-grade: unknown: ", left.out)


class Raw:
    """A client of its own: its control connection, up to where a server waits for the streams."""

    def __init__(self, port, tls=False, source="127.0.0.1", **parameters):
        self.port = port
        sock = socket.create_connection(("127.0.0.1", port), 10, (source, 0))
        if tls:
            import ssl
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            sock = context.wrap_socket(sock)
        self.control = sock
        sock.sendall(pyperf3.make_cookie())
        assert fakes.receive(sock, 1) == b"\x09"
        sock.sendall(fakes.frame(dict({
            "tcp": True, "omit": 0, "time": 5, "parallel": 1, "len": 131072,
            "pyperf3_features": {"facts": 1, "probes": [0]}}, **parameters)))
        assert fakes.receive(sock, 1) == b"\x50"
        self.facts = fakes.take_frame(sock)
        if not isinstance(self.facts, dict):
            self.facts = json.loads(self.facts)
        self.token = self.facts["probes"]["token"].encode() + b"\0"
        assert fakes.receive(sock, 1) == b"\x0a"

    def __enter__(self):
        return self

    def __exit__(self, *details):
        self.control.close()

    def prober(self, source="127.0.0.1"):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((source, 0))
        sock.connect(("127.0.0.1", self.port))
        sock.settimeout(0.5)
        return sock


def ask(sock, data):
    """Return the answer to a datagram, None if there is none within half a second."""
    try:
        sock.send(data)
        return sock.recv(70000)
    except OSError:
        return None


class Strangers(support.ServerCase):
    """A server answers who runs a test, from where it does, and with no more than it got."""

    def test_only_the_token_from_the_clients_address_is_answered(self):
        with Raw(self.serve()) as raw:
            good = pyperf3.encode_probe(raw.token, pyperf3.ECHO, 0, 0)
            ack = pyperf3.encode_probe(raw.token, pyperf3.ACK, 0, 0)
            wrong = pyperf3.encode_probe(TOKEN, pyperf3.ACK, 0, 0)
            with raw.prober() as sock:
                for data in (wrong, ack[:63], b"", b"x" * 64, ack[:4] + bytes(60),
                             pyperf3.encode_probe(raw.token, pyperf3.ACK, 1, 0)):  # no such class
                    self.assertIsNone(ask(sock, data), data)
            with raw.prober("127.0.0.2") as sock:
                self.assertIsNone(ask(sock, ack))
            with raw.prober() as sock:
                self.assertEqual(len(ask(sock, ack)), 64)
                self.assertEqual(len(ask(sock, good + bytes(936))), 1000)
                self.assertIsNone(ask(sock, wrong))  # nor on a socket that has had answers

    def test_no_probes_without_a_test(self):
        port = self.serve()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0.5)
            sock.connect(("127.0.0.1", port))
            self.assertIsNone(ask(sock, pyperf3.encode_probe(TOKEN, pyperf3.ACK, 0, 0)))

    def test_never_more_bytes_than_came(self):
        with Raw(self.serve()) as raw, raw.prober() as sock:
            self.assertEqual(len(ask(sock, pyperf3.encode_probe(raw.token, pyperf3.ACK, 0, 0))), 64)
            pull = pyperf3.encode_probe(raw.token, pyperf3.PULL, 0, 1, 1000)
            self.assertIsNone(ask(sock, pull))
            fill = pyperf3.encode_probe(raw.token, pyperf3.FILL, 0, 2) + bytes(836)
            self.assertIsNone(ask(sock, fill))
            self.assertEqual(len(ask(sock, pull)), 1000)  # 64, 900, 64 came
            self.assertIsNone(ask(sock, pull))

    def test_anything_costs_nothing_and_gains_nothing(self):
        """Random probes with the token: what comes back is never more than what was sent."""
        chance = random.Random(16)
        with Raw(self.serve()) as raw, raw.prober() as sock:
            sock.setblocking(False)
            sent = got = 0
            for number in range(3000):
                data = bytearray(pyperf3.encode_probe(raw.token, chance.randrange(6),
                                                      chance.randrange(3), number,
                                                      chance.randrange(65536)))
                data += bytes(chance.choice((0, 0, 100, 1400, 20000)))
                if chance.random() < 0.2:
                    data[chance.randrange(64)] ^= 1 << chance.randrange(8)
                with contextlib.suppress(OSError):
                    sent += sock.send(data)
                with contextlib.suppress(OSError):
                    while True:
                        got += len(sock.recv(70000))
                        self.assertLessEqual(got, sent)
            self.assertGreater(got, 1000)

    def test_no_more_than_a_thousand_answers_a_second(self):
        with Raw(self.serve()) as raw:
            socks = [raw.prober() for _ in range(5)]
            probe = pyperf3.encode_probe(raw.token, pyperf3.ACK, 0, 0)
            answered = sum(ask(sock, probe) is not None for sock in socks)
            self.assertEqual(answered, 3)  # one for each class, and two
            begin, count = time.monotonic(), 0
            for sock in socks:
                sock.setblocking(False)
            while time.monotonic() < begin + 1.0:
                for sock in socks:
                    for _ in range(20):
                        with contextlib.suppress(OSError):
                            sock.send(probe)
                    with contextlib.suppress(OSError):
                        while True:
                            sock.recv(100)
                            count += 1
            seconds = time.monotonic() - begin
            for sock in socks:
                sock.close()
            # Those of the last tenth of a second may be made up for.
            self.assertLessEqual(count, 1000 * (seconds + 0.1) + 50)
            self.assertGreater(count, 100)

    def test_networks_that_are_not_allowed(self):
        port = self.serve("--allow", "127.0.0.9/32")
        left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "--latency", "-t", "1"))
        self.assertEqual(left.code, 1)
        self.assertIn("test authorization failed", left.err)

    def test_a_client_that_keeps_its_streams_back(self):
        """It has a deadline, probes or not."""
        program = support.with_limits(STEP_TIMEOUT=0.5, PROBING_TIME=0.5)
        port = self.serve(program=program)
        with Raw(port) as raw, raw.prober() as sock:
            begin = time.monotonic()
            raw.control.settimeout(10)
            probe = pyperf3.encode_probe(raw.token, pyperf3.ACK, 0, 0)
            self.assertIsNotNone(ask(sock, probe))
            self.assertEqual(fakes.receive(raw.control, 1), b"\xfe")  # SERVER_ERROR
            self.assertLess(time.monotonic() - begin, 8.0)
            support.wait_until(lambda: not support.children(self.server.process.pid),
                               "the workers' end")


class Liars(unittest.TestCase):
    """A server that tells nonsense of its probes, or in them."""

    def run_against(self, facts, *arguments):
        told = b"\x50" + fakes.frame(facts)
        with fakes.FakeServer(whole_test(told, fakes.frame(RESULTS))) as server:
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", server.port, "--latency",
                                               "-t", "1", "-J") + arguments, 20.0)
        self.assertEqual((left.code, left.err), (0, ""), left.out)
        return latency_of(left)

    def test_tokens_that_are_none(self):
        for probes in (None, 7, [], {}, {"token": 7}, {"token": "short", "udp": True},
                       {"token": "A" * 36, "udp": True}, {"udp": True},
                       {"token": "a" * 36, "udp": "yes"}):
            with self.subTest(probes=probes):
                self.assertEqual(self.run_against({"probes": probes})["source"], "tcp_info")

    def test_nobody_answers(self):
        latency = self.run_against({"probes": {"token": "a" * 36, "udp": True}})
        self.assertEqual((latency["source"], latency["idle"]["samples"]), ("tcp_info", 1))

    def test_answers_that_cannot_be(self):
        """Whatever comes back, no figure is below zero or longer than it took."""
        chance = random.Random(7)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with ours, theirs:
            ring = pyperf3.ProbeRing()
            prober = pyperf3.Prober([ours], pyperf3.Counters(1), 0, ring, TOKEN, 50, 64)
            for number in range(2000):
                begin = time.time()
                prober._send(0, 0.0)
                theirs.recv(100)
                now = int(begin * 1e9)
                reply = pyperf3.encode_reply(pyperf3.ProbeReply(
                    chance.choice((1, 1, 1, 2, 200)), chance.choice((0, 0, 0, 1, 9)),
                    chance.randrange(256), chance.randrange(256), prober.slots.sent,
                    chance.randrange(2 ** 32),
                    chance.choice((now, now, 0, -1, 2 ** 63 - 1)),
                    chance.choice((now, now + 1000, 0, -2 ** 63, 2 ** 62)),
                    chance.choice((0, -1, 2 ** 63 - 1)), *[chance.randrange(2 ** 32)] * 4,
                    router=0, next_mtu=0))
                if chance.random() < 0.3:
                    reply = reply[:chance.randrange(64)]
                prober.take(0, reply, chance.choice((None, begin, 0.0, 1e18)), 0)
                prober.slots.sent += 1
            samples = ring.read(prober.slots.samples)
            self.assertGreater(len(samples), 20)
            for each in samples:
                self.assertTrue(0 <= each.rtt < 20 and each.bytes >= 0, each)
            figures = pyperf3.LatencyFigures()
            figures.begin_load(0, True)
            for each in samples:
                figures.add(each)
            figures.end_interval(1.0, True)
            document = json.dumps(figures.to_json(2000, ()))
            self.assertNotRegex(document, "NaN|Infinity")
            self.assertNotRegex(document, r'"lost[a-z_]*": -')


# Paths ########################################################################


class Paths(unittest.TestCase):
    """Queues of a known length, as the kernel's token bucket has them, and losses on one way."""

    cores = 0.5

    def setUp(self):
        support.need_path(tun=False)

    def run_path(self, line, program=support.OURS, **settings):
        with path.Path(**settings) as made:
            with path.serving(made, tuple(program) + ("-s", "-1", "--logfile", os.devnull)):
                left = support.run(made.client + support.OURS + (
                    "-c", path.SERVER, "--latency", "-J") + tuple(line.split()))
        self.assertEqual((left.code, left.err), (0, ""), left.out)
        return latency_of(left)

    TABLE = ( # 20 Mbit/s; bytes of the queue, which hold so many ms; the median between two figures
        ("-C reno", 250e3, 40, 56), ("-C reno -P 4", 250e3, 72, 92), ("-C bbr", 250e3, 2, 15),
        ("-C reno", 25e3, 3.5, 6.5))

    def test_queues(self):
        def run(line, queue, low, high):
            return self.run_path(line + " -t 6", rate=20e6, queue=queue, veth=True)
        for (line, queue, low, high), latency in support.together(run, self.TABLE, 4):
            with self.subTest(line=line, queue=queue):
                self.assertEqual((latency["source"], latency["clock"]), ("udp", "kernel"))
                self.assertLess(latency["idle"]["p50_ms"], 1.0)
                self.assertLess(low, latency["loaded"]["p50_ms"])
                self.assertLess(latency["loaded"]["p50_ms"], high)
                # The queue, before a bucket of 10 kB or so, is all that can wait.
                self.assertLess(latency["loaded"]["max_ms"], queue * 8 / 20e6 * 1e3 * 1.1)
                ways = latency["one_way"]
                self.assertLess(ways["down_increase_p95_ms"], 1.0)
                self.assertGreater(ways["up_increase_p95_ms"], low)

    def test_the_other_direction(self):
        latency = self.run_path("-C reno -P 4 -R -t 5", rate=20e6, queue=250e3, veth=True)
        self.assertTrue(65 < latency["loaded"]["p50_ms"] < 95, latency)
        self.assertLess(latency["one_way"]["up_increase_p95_ms"], 1.0)
        self.assertEqual(latency["grade"], "C")

    def test_a_real_server_and_probes_agree(self):
        def run(program):
            return self.run_path("-C reno -P 4 -t 7", program, rate=20e6, queue=250e3, veth=True)
        (_, probes), (_, told) = support.together(
            run, [(support.OURS,), (support.real("3.22"),)], 2)
        self.assertEqual((probes["source"], told["source"]), ("udp", "tcp_info"))
        self.assertAlmostEqual(told["loaded"]["p50_ms"], probes["loaded"]["p50_ms"],
                               delta=0.15 * probes["loaded"]["p50_ms"])

    def test_loss_is_told_of_its_way(self):
        support.need_path()
        for settings, way, other in (
                (dict(loss=0.05, back={"loss": 0.0}), "lost_up", "lost_down"),
                (dict(loss=0.0, back={"loss": 0.05}), "lost_down", "lost_up")):
            latency = self.run_path("-u -b 1M -t 6 --probe-rate 200", delay=0.005, **settings)
            with self.subTest(way=way):
                for phase in (latency["idle"], latency["loaded"]):
                    self.assertEqual(phase[other], 0)
                self.assertTrue(15 <= latency["loaded"][way] <= 100, latency)
                self.assertGreaterEqual(latency["loaded"]["lost"], latency["loaded"][way])
                self.assertTrue(10 <= latency["idle"]["p50_ms"] <= 14, latency)
