"""Counters to figures: intervals, summaries, TCP_INFO, CPU time."""

import collections
import random
import socket
import struct
import sys
import types
import unittest

import captures
import pyperf3


def info(retransmits=0, cwnd=10000, wnd=20000, rtt=50, rttvar=5, pmtu=1500, reorder=3):
    return pyperf3.make_tcp_info(total_retrans=retransmits, snd_cwnd=cwnd, snd_mss=1, snd_wnd=wnd,
                                 rtt=rtt, rttvar=rttvar, pmtu=pmtu, reord_seen=reorder)


def documents(protocol="TCP"):
    """Return (name, role, document) of every captured document of a complete test."""
    found = []
    for case, side in captures.outputs("json"):
        text = case.out(side)
        for document in captures.documents(text[text.index("{"):]):
            if document["end"].get("streams") and (
                    document["start"]["test_start"]["protocol"] == protocol):
                found.append((case.name, case.commands[side].role, document))
    return found


class Rows(unittest.TestCase):
    """What compares figures with captured ones. name: of the case."""

    name = None

    def compare(self, made, row):
        """Compare figures of an interval, whose length iperf3 holds in single precision."""
        self.assertEqual(list(made), list(row))
        odd = abs(row["end"] - row["start"] - row["seconds"]) > 1e-5
        for name in row:
            if name in ("seconds", "bits_per_second"):
                if odd:  # differs: the first interval after an omitted part
                    self.assertIn("omit", self.name)
                    continue
                # The clock's microseconds count twice, and short intervals feel it.
                delta = row[name] * (2e-6 / max(row["seconds"], 1e-6) + 1e-6)
                self.assertAlmostEqual(made[name], row[name], delta=delta)
            elif name in ("jitter_ms", "lost_percent"):
                self.assertAlmostEqual(made[name], row[name], delta=1e-12)
            else:
                self.assertEqual(made[name], row[name])

    def same(self, made, wanted):
        """Compare figures, of which the captured ones may lack the last digits."""
        self.assertEqual(list(made), list(wanted))
        for name, value in wanted.items():
            self.assertIsInstance(made[name], (int, float))
            self.assertAlmostEqual(made[name], value, delta=abs(value) * 1e-14)


class Intervals(Rows):
    """StreamFigures, rate_figures and interval_sum."""

    def test_intervals_tile_the_test_and_add_up(self):
        source = random.Random(5201)
        for _ in range(50):
            sender = source.random() < 0.5
            statistics = pyperf3.StreamFigures(4, sender)
            now, rows = 0.0, []
            retransmits = source.randrange(5)
            for _ in range(source.randrange(1, 20)):
                statistics.take(bytes=statistics.now.bytes + source.randrange(0, 2 ** 34))
                retransmits += source.randrange(0, 9)
                sample = info(retransmits) if sender else None
                statistics.take(sample)
                end = now + source.uniform(0.0001, 60)
                rows.append(statistics.end_interval(now, end, sample, False))
                now = end
            self.assertEqual(rows[0]["start"], 0)
            for one, two in zip(rows, rows[1:]):
                self.assertEqual(one["end"], two["start"])
            self.assertEqual(sum(row["bytes"] for row in rows), statistics.measured().bytes)
            self.assertAlmostEqual(sum(row["seconds"] for row in rows), now, delta=1e-4)
            if sender:
                self.assertEqual(sum(row["retransmits"] for row in rows), retransmits)
                self.assertEqual(statistics.measured().retransmits, retransmits)

    def test_figures_of_an_interval_fit_each_other(self):
        source = random.Random(1)
        for _ in range(200):
            start = source.uniform(0, 100)
            end = start + source.uniform(0.0001, 60)
            figures = pyperf3.rate_figures(start, end, source.randrange(2 ** 40))
            self.assertEqual(figures["seconds"], round(figures["end"] - figures["start"], 6))
            self.assertEqual(figures["bits_per_second"],
                             figures["bytes"] * 8 / figures["seconds"])
            for name in ("start", "end", "seconds"):
                self.assertEqual(figures[name], round(figures[name], 6))

    def test_figures_without_time_have_no_rate(self):
        self.assertEqual(pyperf3.rate_figures(1, 1, 5000)["bits_per_second"], 0)
        self.assertEqual(pyperf3.rate_figures(1, 1.0000001, 5000)["bits_per_second"], 0)
        self.assertEqual(pyperf3.rate_figures(2, 1, 5000)["bits_per_second"], 0)

    def test_time_shown_may_be_another_than_the_one_of_the_rate(self):
        figures = pyperf3.rate_figures(0, 2.0, 1000, 1.75)
        self.assertEqual((figures["end"], figures["seconds"], figures["bits_per_second"]),
                         (2.0, 1.75, 4000.0))

    def test_what_was_omitted_does_not_count(self):
        statistics = pyperf3.StreamFigures(4, True)
        statistics.take(bytes=1000)
        statistics.take(info(7))
        row = statistics.end_interval(0, 1, info(7), True)
        self.assertEqual((row["bytes"], row["retransmits"], row["omitted"]), (1000, 7, True))
        statistics.take(bytes=1500)  # between the last report and the end of the omitted part
        statistics.take(info(9))
        statistics.start_measuring()
        self.assertEqual(statistics.measured().bytes, 0)
        self.assertEqual(statistics.measured().retransmits, 0)
        statistics.take(bytes=4500)
        statistics.take(info(10))
        row = statistics.end_interval(0, 1, info(10), False)
        self.assertEqual((row["bytes"], row["retransmits"], row["omitted"]), (3000, 1, False))
        self.assertEqual(statistics.measured().bytes, 3000)
        self.assertEqual(statistics.measured().retransmits, 1)

    def test_omitted_part_of_a_receiver(self):
        statistics = pyperf3.StreamFigures(5, False)
        statistics.take(bytes=1000)
        statistics.start_measuring()
        statistics.take(bytes=1700)
        self.assertEqual(statistics.end_interval(0, 1, None, False)["bytes"], 700)
        self.assertEqual(statistics.measured().bytes, 700)
        self.assertIsNone(statistics.now.retransmits)

    def test_retransmits_are_those_of_the_interval(self):
        statistics = pyperf3.StreamFigures(4, True)
        counts = []
        for number, total in enumerate((3, 3, 10, 10, 11)):
            statistics.take(info(total))
            counts.append(statistics.end_interval(number, number + 1, info(total), False)
                          ["retransmits"])
        self.assertEqual(counts, [3, 0, 7, 0, 1])

    def test_samples_between_two_reports_lose_no_retransmit(self):
        statistics = pyperf3.StreamFigures(4, True)
        for total in (1, 4, 9):
            statistics.take(info(total))
        self.assertEqual(statistics.end_interval(0, 1, info(9), False)["retransmits"], 9)

    def test_members_and_their_order_are_those_of_iperf3(self):
        """A row is compared with every captured row of its kind."""
        kinds = set()
        for name, role, document in documents():
            self.name = name
            for interval in document["intervals"]:
                for row in interval["streams"]:
                    statistics = pyperf3.StreamFigures(row["socket"], row["sender"])
                    statistics.take(bytes=row["bytes"])
                    sample = None
                    if "retransmits" in row:
                        sample = info(row["retransmits"], row["snd_cwnd"], row["snd_wnd"],
                                      row["rtt"], row["rttvar"], row["pmtu"], row["reorder"])
                        statistics.take(sample)
                    made = statistics.end_interval(row["start"], row["end"], sample,
                                                   row["omitted"])
                    with self.subTest(case=name, role=role):
                        self.compare(made, row)
                    kinds.add((row["sender"], row["omitted"]))
        self.assertEqual(len(kinds), 4)

    def test_sums_are_those_of_iperf3(self):
        compared = {"TCP": 0, "UDP": 0}
        for name, role, document in documents("TCP") + documents("UDP"):
            self.name = name
            setup = document["start"]["test_start"]
            parallel = setup["num_streams"]
            for interval in document["intervals"]:
                # iperf3: both sums have the times of the very first stream.
                first = interval["streams"][0]
                rows = [dict(row, start=first["start"], end=first["end"])
                        for row in interval["streams"]]
                groups = [("sum", rows[:parallel])]
                if "sum_bidir_reverse" in interval:
                    groups.append(("sum_bidir_reverse", rows[parallel:]))
                for key, group in groups:
                    compared[setup["protocol"]] += 1
                    with self.subTest(case=name, role=role, key=key):
                        self.compare(pyperf3.interval_sum(group), interval[key])
        self.assertEqual(compared, {"TCP": 125, "UDP": 42})

    def test_sum_of_streams_of_which_one_has_no_count(self):
        rows = [{"start": 0, "end": 1, "bytes": 1, "retransmits": 5, "omitted": False,
                 "sender": True},
                {"start": 0, "end": 1, "bytes": 2, "omitted": False, "sender": True}]
        made = pyperf3.interval_sum(rows)
        self.assertNotIn("retransmits", made)
        self.assertEqual(made["bytes"], 3)

    def test_a_sender_without_tcp_info_has_plain_rows(self):
        statistics = pyperf3.StreamFigures(4, True)
        statistics.take(bytes=10)
        statistics.take(None)
        self.assertEqual(list(statistics.end_interval(0, 1, None, False)),
                         ["socket", "start", "end", "seconds", "bytes", "bits_per_second",
                          "omitted", "sender"])

    def test_receiving_streams_show_no_kernel_figures(self):
        """With --bidir the receiving streams are sampled, too."""
        statistics = pyperf3.StreamFigures(6, False)
        statistics.take(info(2))
        self.assertNotIn("retransmits", statistics.end_interval(0, 1, info(2), False))


class Quiet(unittest.TestCase):
    """A short rest without bytes is no interval of its own, unless something else was counted."""

    def rest(self, retransmits):
        """Return the last interval of a test whose rest has no bytes, None without one."""
        counts = [11]

        class Transport(pyperf3.Tcp):
            def sample(self, stream):
                figures.take(info(retransmits=counts[0]), bytes=1000)
                return info(retransmits=counts[0])
        test = pyperf3.Test(Transport(pyperf3.Settings(client="h"), pyperf3.Parameters(), False),
                            lambda *event, **more: None)
        figures = pyperf3.StreamFigures(4, True)
        self.addCleanup(test.close)
        test.streams.append(types.SimpleNamespace(figures=figures, sender=True))
        first = test._take_interval(test.ticks.origin + 1.0)
        self.assertEqual(first["streams"][0]["retransmits"], 11)
        counts[0] = retransmits
        return test._take_interval(test.ticks.origin + 1.001)

    def test_nothing_at_all(self):
        self.assertIsNone(self.rest(11))

    def test_a_retransmit_in_the_rest_was_in_no_interval(self):
        self.assertEqual(self.rest(12)["streams"][0]["retransmits"], 1)


class Reports(unittest.TestCase):
    """When they are due."""

    def test_file_had_no_reports_after_the_usual_time(self):
        """A test whose end is a file's has no time; that is known only once it is open."""
        ticks = pyperf3.Ticks(1.0, 0)
        ticks.start(100.0)
        self.assertFalse(ticks.is_due(100.9, 10))
        for second in range(1, 10):
            self.assertTrue(ticks.is_due(100.0 + second, 10))
            ticks.skip_to(100.0 + second)
        self.assertFalse(ticks.is_due(110.0, 10))  # it comes with the summary
        self.assertTrue(ticks.is_due(110.0, 0))
        self.assertEqual(ticks.deadlines(), [110.0])

    def test_omitted_part(self):
        ticks = pyperf3.Ticks(1.0, 2)
        ticks.start(100.0)
        self.assertEqual(ticks.deadlines(), [101.0, 102.0])
        self.assertTrue(ticks.is_due(101.0, 10))
        ticks.skip_to(101.0)
        self.assertFalse(ticks.is_due(102.0, 10))  # it comes with the end of the part
        self.assertFalse(ticks.omitted_is_over(101.9))
        self.assertTrue(ticks.omitted_is_over(102.0))


class Samples(unittest.TestCase):
    """Figures of the whole test."""

    def test_extremes_and_mean(self):
        statistics = pyperf3.StreamFigures(4, True)
        for rtt, cwnd, wnd in ((50, 100, 7), (20, 300, 9), (81, 200, 8)):
            statistics.take(info(rtt=rtt, cwnd=cwnd, wnd=wnd))
        row = rows_of(statistics)[0]
        self.assertEqual((row["max_rtt"], row["min_rtt"], row["mean_rtt"]), (81, 20, 50))
        self.assertEqual((row["max_snd_cwnd"], row["max_snd_wnd"]), (300, 9))

    def test_without_samples_they_are_zero(self):
        statistics = pyperf3.StreamFigures(4, True)
        statistics.take(retransmits=0)
        row = rows_of(statistics)[0]
        self.assertEqual((row["max_rtt"], row["min_rtt"], row["mean_rtt"]), (0, 0, 0))

    def test_one_sample_is_its_own_mean(self):
        statistics = pyperf3.StreamFigures(4, True)
        statistics.take(info(rtt=51))
        row = rows_of(statistics)[0]
        self.assertEqual((row["max_rtt"], row["min_rtt"], row["mean_rtt"]), (51, 51, 51))

    def test_a_new_stream_has_no_figures(self):
        for sender in (True, False):
            statistics = pyperf3.StreamFigures(4, sender)
            self.assertEqual(statistics.measured().bytes, 0)
            self.assertEqual(statistics.end_interval(0, 1, None, False)["bytes"], 0)
            statistics.take(retransmits=0)
            self.assertEqual(statistics.measured().retransmits, 0)
            row = rows_of(statistics)[0]
            self.assertEqual(set(row.get(name, 0) for name in (
                "bytes", "retransmits", "reorder", "max_snd_cwnd", "max_snd_wnd")), {0})

    def test_a_sample_that_fails_changes_nothing(self):
        statistics = pyperf3.StreamFigures(4, True)
        statistics.take(info(5))
        statistics.take(None)
        self.assertEqual(statistics.measured().retransmits, 5)


def rebuilt(row, remote_knows):
    """Return (statistics, remote result) from which a captured {sender, receiver} came."""
    sender, receiver = row["sender"], row["receiver"]
    statistics = pyperf3.StreamFigures(sender["socket"], sender["sender"])
    mine, other = (sender, receiver) if sender["sender"] else (receiver, sender)
    statistics.take(bytes=1234, retransmits=7 if sender["sender"] else None)
    statistics.start_measuring()
    statistics.take(bytes=mine["bytes"] + 1234)
    remote = None
    if remote_knows:
        count = -1 if sender["sender"] else sender.get("retransmits", -1)
        remote = pyperf3.StreamResult(1, other["bytes"], count, 0, 0, 0, 0, 0, 0, 1.0, None)
    statistics.take(retransmits=None)
    if "retransmits" in sender:
        if sender["sender"]:
            statistics.take(retransmits=sender["retransmits"] + 7)
        statistics.reorder = sender["reorder"]
        statistics.max_snd_cwnd, statistics.max_snd_wnd = (sender["max_snd_cwnd"],
                                                           sender["max_snd_wnd"])
        statistics.max_rtt, statistics.min_rtt = sender["max_rtt"], sender["min_rtt"]
        statistics._rtt_sum, statistics._rtt_count = sender["mean_rtt"] * 3 + 2, 3
    return statistics, remote


def rows_of(statistics, remote=None, sender_time=1.0, receiver_time=1.0, local=1.0):
    """Return the (sent, received) objects of a TCP stream."""
    return pyperf3.stream_rows(pyperf3.stream_totals(statistics, remote), sender_time,
                               receiver_time, local, statistics.extremes())


class Summaries(Rows):
    """stream_totals and stream_rows: the captured ones, made again from their figures."""

    def test_all_captured_summaries(self):
        compared = 0
        for name, role, document in documents():
            end = document["end"]
            parallel = document["start"]["test_start"]["num_streams"]
            complete = "error" not in document and role == "client"
            groups = [("", end["streams"][:parallel])]
            if document["start"]["test_start"]["bidir"]:
                groups.append(("_bidir_reverse", end["streams"][parallel:]))
            for suffix, rows in groups:
                made = []
                times = (rows[0]["sender"]["end"], rows[0]["receiver"]["end"])
                for row in rows:
                    statistics, remote = rebuilt(row, complete)
                    made.append(pyperf3.stream_totals(statistics, remote))
                    compared += 1
                    with self.subTest(case=name, role=role, suffix=suffix):
                        for half, figures in zip(("sender", "receiver"), rows_of(
                                statistics, remote, *times, local=row["receiver"]["seconds"])):
                            self.same(figures, row[half])
                with self.subTest(case=name, role=role, suffix=suffix):
                    sums = pyperf3.stream_rows(
                        pyperf3.sum_of_totals(made, made[0].sender), *times)
                    for key, total in zip(("sum_sent", "sum_received"), sums):
                        self.same(total, end[key + suffix])
        self.assertEqual(compared, 64)

    def test_seconds_of_the_receiver_are_this_ends_own(self):
        statistics = pyperf3.StreamFigures(4, True)
        row = rows_of(statistics, None, 2.001315, 2.001415, 2.001315)[1]
        self.assertEqual((row["end"], row["seconds"]), (2.001415, 2.001315))

    def test_the_other_ends_half_is_zero_where_it_is_not_known(self):
        for sender in (True, False):
            statistics = pyperf3.StreamFigures(4, sender)
            statistics.take(bytes=1000)
            row = dict(zip(("sender", "receiver"), rows_of(statistics)))
            known, other = ("sender", "receiver") if sender else ("receiver", "sender")
            self.assertEqual(row[known]["bytes"], 1000)
            self.assertEqual((row[other]["bytes"], row[other]["bits_per_second"]), (0, 0))
            self.assertNotIn("retransmits", row["receiver"])
            self.assertIs(row["receiver"]["sender"], sender)

    def test_retransmits_of_a_server_that_has_no_count_are_left_out(self):
        statistics = pyperf3.StreamFigures(4, False)
        remote = pyperf3.StreamResult(1, 5, -1, 0, 0, 0, 0, 0, 0, 1.0, None)
        sent, _ = rows_of(statistics, remote)
        self.assertNotIn("retransmits", sent)
        self.assertEqual(sent["bytes"], 5)
        total = pyperf3.sum_of_totals([pyperf3.stream_totals(statistics, remote)], False)
        self.assertNotIn("retransmits", pyperf3.stream_rows(total, 1.0, 1.0)[0])

    def test_sums_without_streams_are_zero(self):
        for name, reverse in (("sig-client-sigint-connecting-json", False),
                              ("sig-client-sigint-connecting-json-reverse", True)):
            with self.subTest(name=name):
                end = captures.documents(captures.Case(name).out("client"))[0]["end"]
                made = self.interrupted(reverse)
                self.assertEqual(list(made), list(end))
                self.assertEqual(made["streams"], [])
                for key in ("sum_sent", "sum_received"):
                    self.same(made[key], end[key])

    def interrupted(self, reverse):
        """Return the end object of a client that is stopped while it connects."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1)
            client = pyperf3.Client(pyperf3.Settings(
                client="127.0.0.1", port=listener.getsockname()[1], reverse=reverse))
            ends = []
            for event in client:
                client.stop("by signal Interrupt(2)")
                if event["event"] == "end":
                    ends.append(event["data"])
            self.assertEqual(len(ends), 1)
            return ends[0]


class DatagramIntervals(Rows):
    """DatagramFigures."""

    def test_a_new_stream_has_no_figures(self):
        for sender in (True, False):
            statistics = pyperf3.DatagramFigures(4, sender)
            self.assertEqual((statistics.measured().bytes, statistics.measured().packets,
                              statistics.measured().lost, statistics.measured().out_of_order),
                             (0, 0, 0, 0))
            self.assertIsNone(statistics.measured().drops)
            row = statistics.end_interval(0, 1, None, False)
            self.assertEqual((row["bytes"], row["packets"], row.get("lost_percent", 0)), (0, 0, 0))

    def test_members_and_their_order_are_those_of_iperf3(self):
        """A row is compared with every captured row of its kind."""
        kinds, compared = set(), 0
        for name, role, document in documents("UDP"):
            self.name = name
            for interval in document["intervals"]:
                for row in interval["streams"]:
                    statistics = pyperf3.DatagramFigures(row["socket"], row["sender"])
                    statistics.take(bytes=row["bytes"], packets=row["packets"],
                                    lost=row.get("lost_packets", 0))
                    statistics.jitter = row.get("jitter_ms", 0) / 1000
                    with self.subTest(case=name, role=role):
                        self.compare(statistics.end_interval(
                            row["start"], row["end"], None, row["omitted"]), row)
                    kinds.add((row["sender"], row["omitted"]))
                    compared += 1
        self.assertEqual((len(kinds), compared), (4, 54))

    def test_intervals_tile_the_test_and_add_up(self):
        source = random.Random(5202)
        for _ in range(50):
            statistics = pyperf3.DatagramFigures(4, source.random() < 0.5)
            now, rows = 0.0, []
            for _ in range(source.randrange(1, 20)):
                packets = source.randrange(0, 10 ** 6)
                statistics.take(packets=statistics.now.packets + packets)
                statistics.take(bytes=statistics.now.bytes + packets * 1448)
                statistics.take(lost=statistics.now.lost + source.randrange(0, packets + 1))
                end = now + source.uniform(0.0001, 60)
                rows.append(statistics.end_interval(now, end, None, False))
                now = end
            for one, two in zip(rows, rows[1:]):
                self.assertEqual(one["end"], two["start"])
            for name, total in (("bytes", statistics.measured().bytes),
                                ("packets", statistics.measured().packets)):
                self.assertEqual(sum(row[name] for row in rows), total)
            if not statistics.sender:
                self.assertEqual(sum(row["lost_packets"] for row in rows),
                                 statistics.measured().lost)
                for row in rows:
                    self.assertEqual(row["lost_percent"], pyperf3.percent(
                        row["lost_packets"], row["packets"]))

    def test_what_was_omitted_does_not_count(self):
        statistics = pyperf3.DatagramFigures(5, False)
        statistics.take(bytes=90000, packets=100, lost=10, out_of_order=3)
        statistics.jitter = 0.5
        row = statistics.end_interval(0, 1, None, True)
        self.assertEqual((row["bytes"], row["packets"], row["lost_packets"], row["omitted"]),
                         (90000, 100, 10, True))
        # between the last report and the end of the omitted part
        statistics.take(bytes=99000, packets=112, lost=13)
        statistics.start_measuring()
        self.assertEqual((statistics.measured().bytes, statistics.measured().packets,
                          statistics.measured().lost, statistics.measured().out_of_order,
                          statistics.jitter), (0, 0, 0, 0, 0.0))
        statistics.take(bytes=135000, packets=162, lost=23, out_of_order=7)
        statistics.jitter = 0.002
        row = statistics.end_interval(0, 1, None, False)
        self.assertEqual((row["bytes"], row["packets"], row["lost_packets"], row["lost_percent"],
                          row["jitter_ms"]), (36000, 50, 10, 20.0, 2.0))
        self.assertEqual((statistics.measured().bytes, statistics.measured().packets,
                          statistics.measured().lost, statistics.measured().out_of_order),
                         (36000, 50, 10, 4))
        # What is told to the other end includes the omitted part.
        self.assertEqual((statistics.now.packets, statistics.begin.packets, statistics.now.lost,
                          statistics.begin.lost), (162, 112, 23, 13))

    def test_late_datagrams_make_no_interval_negative(self):
        statistics = pyperf3.DatagramFigures(5, False)
        found = []
        for number, (packets, lost) in enumerate(((10, 5), (20, 2), (30, 4), (40, 6), (50, 6))):
            statistics.take(packets=packets, lost=lost)
            found.append(statistics.end_interval(number, number + 1, None, False))
        self.assertEqual([row["lost_packets"] for row in found], [5, 0, 0, 1, 0])
        self.assertEqual([row["lost_percent"] for row in found], [50, 0, 0, 10, 0])
        self.assertEqual(statistics.measured().lost, 6)

    def test_late_datagrams_of_the_omitted_part_make_no_loss_negative(self):
        statistics = pyperf3.DatagramFigures(5, False)
        statistics.take(packets=100, lost=30)
        statistics.end_interval(0, 1, None, True)
        statistics.start_measuring()
        statistics.take(packets=150, lost=10)
        row = statistics.end_interval(0, 1, None, False)
        self.assertEqual((row["lost_packets"], row["lost_percent"]), (0, 0))
        self.assertEqual(statistics.measured().lost, 0)
        whole, _, received = pyperf3.datagram_rows(
            pyperf3.stream_totals(statistics, None), 1.0, 1.0)
        self.assertEqual((whole["lost_packets"], received["lost_percent"]), (0, 0))

    def test_losses_that_come_and_go_are_counted_once(self):
        source = random.Random(3550)
        for _ in range(200):
            statistics = pyperf3.DatagramFigures(5, False)
            highest = reported = 0
            for _ in range(30):
                statistics.take(packets=statistics.now.packets + source.randrange(100))
                lost = max(0, statistics.now.lost + source.randrange(-20, 25))
                statistics.take(lost=lost)
                highest = max(highest, lost)
                lost = statistics.end_interval(0, 1, None, False)["lost_packets"]
                self.assertGreaterEqual(lost, 0)
                reported += lost
            self.assertEqual(reported, highest)
            self.assertGreaterEqual(reported, statistics.measured().lost)

    def test_jitter_is_that_of_the_end_of_the_interval(self):
        statistics = pyperf3.DatagramFigures(5, False)
        for jitter in (0.001, 0.0005, 0.0):
            statistics.jitter = jitter
            row = statistics.end_interval(0, 1, None, False)
            self.assertEqual(row["jitter_ms"], jitter * 1000)

    def test_drops_of_pieces_are_an_estimate_and_no_more_than_what_was_lost(self):
        statistics = pyperf3.DatagramFigures(5, False)
        for total, drops in ((46, 46), (92, 92), (138, 100)):
            statistics.take(lost=100, drops=total, pieces=total // 46)
            self.assertEqual(statistics.measured().drops, drops)

    def test_drops_are_those_of_the_measured_part(self):
        statistics = pyperf3.DatagramFigures(5, False)
        statistics.take(lost=5)
        self.assertIsNone(statistics.measured().drops)
        for total in (0, 2, 5):
            statistics.take(drops=total)
            self.assertEqual((statistics.now.drops, statistics.measured().drops), (total, total))
        statistics.start_measuring()
        self.assertEqual(statistics.measured().drops, 0)
        statistics.take(lost=13, drops=13)
        self.assertEqual((statistics.now.drops, statistics.measured().drops), (13, 8))

    def test_drops_that_are_not_known_when_measuring_begins(self):
        statistics = pyperf3.DatagramFigures(5, False)
        statistics.start_measuring()
        self.assertIsNone(statistics.measured().drops)
        statistics.take(lost=10, drops=3)
        self.assertEqual(statistics.measured().drops, 3)

    def test_streams_of_tcp_know_of_no_drops(self):
        self.assertIsNone(pyperf3.StreamFigures(4, False).measured().drops)

    def test_mean_of_the_jitter_and_sum_of_the_losses(self):
        rows = []
        for lost, jitter in ((1, 0.25), (2, 0.5), (6, 0.75)):
            statistics = pyperf3.DatagramFigures(5, False)
            statistics.take(bytes=1000, packets=30, lost=lost)
            statistics.jitter = jitter
            rows.append(statistics.end_interval(0, 1, None, True))
        made = pyperf3.interval_sum(rows)
        self.assertEqual((made["jitter_ms"], made["lost_packets"], made["packets"],
                          made["lost_percent"], made["bytes"], made["omitted"]),
                         (500.0, 9, 90, 10.0, 3000, True))
        for row in rows:
            row.update(lost_packets=0, packets=0)
        self.assertEqual(pyperf3.interval_sum(rows)["lost_percent"], 0)

    def test_percent(self):
        for part, whole, wanted in ((0, 0, 0), (5, 0, 0), (0, 5, 0), (1, 4, 25), (3, 3, 100)):
            self.assertEqual(pyperf3.percent(part, whole), wanted)


def result(**more):
    """Return a StreamResult of one stream, of which nothing came but what is given."""
    values = dict(id=1, bytes=0, retransmits=-1, jitter=0.0, errors=0, omitted_errors=0,
                  packets=0, omitted_packets=0, start_time=0.0, end_time=1.0, dropped=None)
    values.update(more)
    return pyperf3.StreamResult(**values)


def counted(document, index):
    """Return a dict of what the end that printed a document has counted of one stream."""
    rows = [interval["streams"][index] for interval in document["intervals"]]
    figures = collections.Counter()
    for row in rows:
        kind = "omitted_" if row["omitted"] else ""
        figures[kind + "packets"] += row["packets"]
        figures[kind + "lost"] += row.get("lost_packets", 0)
        figures[kind + "bytes"] += row["bytes"]
    figures["jitter"] = rows[-1].get("jitter_ms", 0) / 1000
    return figures


def result_of(document, index):
    """Return the StreamResult that the end that printed a document sent of one stream."""
    figures = counted(document, index)
    return result(
        id=pyperf3.stream_ids(index + 1)[index], bytes=figures["bytes"], jitter=figures["jitter"],
        errors=figures["lost"] + figures["omitted_lost"], omitted_errors=figures["omitted_lost"],
        packets=figures["packets"] + figures["omitted_packets"],
        omitted_packets=figures["omitted_packets"], end_time=own_time(document))


def own_time(document):
    """Return the seconds that the end that printed a document measured."""
    end = document["end"]
    sends = document["intervals"][0]["streams"][0]["sender"]
    return end["sum_sent" if sends else "sum_received"]["end"]


def statistics_of(document, index):
    """Return the DatagramFigures of one stream of a captured test."""
    figures = counted(document, index)
    row = document["intervals"][0]["streams"][index]
    statistics = pyperf3.DatagramFigures(row["socket"], row["sender"])
    before = {name: figures["omitted_" + name] for name in ("bytes", "packets", "lost")}
    statistics.take(**before)
    statistics.start_measuring()
    statistics.take(out_of_order=document["end"]["streams"][index]["udp"]["out_of_order"],
                    **{name: count + figures[name] for name, count in before.items()})
    statistics.jitter = figures["jitter"]
    return statistics


def with_our_times(document):
    """Return the end object of a client's document as pyperf3 makes it.

    differs: with --bidir iperf3 takes the client's time for the senders of both directions.
    """
    end = document["end"]
    parallel = document["start"]["test_start"]["num_streams"]
    client, server = end["sum_sent"]["end"], end["sum_received"]["end"]

    def changed(figures, time, rate_time, rate_before):
        rate = figures["bits_per_second"] * rate_before / rate_time
        return dict(figures, end=time, seconds=time, bits_per_second=rate)
    made = collections.OrderedDict(end)
    made["streams"] = [
        {"udp": changed(row["udp"], server, server, client) if at >= parallel else row["udp"]}
        for at, row in enumerate(end["streams"])]
    for name, time, rate_time, before in (("sum", client, server, client),
                                          ("sum_sent", server, server, client),
                                          ("sum_received", client, client, server)):
        name += "_bidir_reverse"
        made[name] = changed(end[name], time, rate_time, before)
    return made


class DatagramSummaries(Rows):
    """stream_totals, sum_of_totals and datagram_rows."""

    def figures(self, sender, **more):
        statistics = pyperf3.DatagramFigures(5, sender)
        statistics.jitter = more.pop("jitter", 0.0)
        statistics.begin = statistics.begin._replace(**more.pop("begin", {}))
        statistics.take(**more)
        return statistics

    def test_all_captured_ends(self):
        """From what both ends counted the end object of each is made again."""
        found = {(name, role): document for name, role, document in documents("UDP")}
        self.assertEqual(len(found), 16)
        for (name, role), document in sorted(found.items()):
            other = found[name, "server" if role == "client" else "client"]
            with self.subTest(case=name, role=role):
                end, rows = self.made(document, role, other)
                wanted = document["end"]
                if role == "client" and document["start"]["test_start"]["bidir"]:
                    wanted = with_our_times(document)
                own = end.pop("pyperf3", None)
                self.assertEqual(own is not None,
                                 document["start"]["test_start"]["num_streams"] > 1)
                self.assertEqual(list(end), list(wanted))
                self.assertEqual(len(end["streams"]), len(wanted["streams"]))
                for mine, row in zip(end["streams"], wanted["streams"]):
                    self.assertEqual(list(mine), ["udp"])
                    self.close(mine["udp"], row["udp"])
                for key in wanted:
                    if key.startswith("sum"):
                        self.close(end[key], wanted[key])
                self.check_rows(rows, end, document)

    def made(self, document, role, other):
        """Return the end object, and the rows of text, of one end of a captured test."""
        setup = document["start"]["test_start"]
        parameters = pyperf3.Parameters()
        parameters.protocol = "UDP"
        parameters.parallel, parameters.length = setup["num_streams"], setup["blksize"]
        parameters.reverse, parameters.bidirectional = bool(setup["reverse"]), bool(setup["bidir"])
        events = []
        transport = pyperf3.make_transport(pyperf3.Settings(), parameters, role == "server")
        test = pyperf3.Test(transport,
                            lambda name, data, **more: events.append((name, data, more)))
        self.addCleanup(test.close)
        streams = [pyperf3.Stream(stream, types.SimpleNamespace(
            sock=None, slots=None, sends=test.sends(index)), None, statistics_of(document, index))
                   for index, stream in enumerate(test.ids)]
        self.assertEqual([stream.sender for stream in streams],
                         [stream.figures.sender for stream in streams])
        test.streams = streams
        test.local_time = own_time(document)
        if role == "client":
            results = [result_of(other, index) for index in range(len(test.ids))]
            test.remote = pyperf3.Results(
                1.0, 2.0, 3.0, 0, None,
                collections.OrderedDict((each.id, each) for each in results), None)
        test.emit_end()
        test.streams = []
        (name, end, more), = events
        self.assertEqual(name, "end")
        return end, more["rows"]

    def close(self, made, wanted):
        self.assertEqual(list(made), list(wanted))
        for name, value in wanted.items():
            self.assertAlmostEqual(made[name], value, delta=abs(value) * 1e-12, msg=name)
        self.assertIs(made["sender"], wanted["sender"])

    def check_rows(self, rows, end, document):
        """The rows of the text are those of the streams of each direction, then their sum."""
        parallel = document["start"]["test_start"]["num_streams"]
        suffixes = ["", "_bidir_reverse"] if "sum_bidir_reverse" in end else [""]
        self.assertEqual([len(group) for group in rows], [parallel + 1] * len(suffixes))
        for number, (group, suffix) in enumerate(zip(rows, suffixes)):
            streams = end["streams"][number * parallel:(number + 1) * parallel]
            for row, stream in zip(group, streams):
                whole, totals = stream["udp"], row.totals
                self.assertEqual((row.sent["socket"], row.received["socket"], totals.sender,
                                  totals.out_of_order, totals.lost, row.received["jitter_ms"]),
                                 (whole["socket"], whole["socket"], whole["sender"],
                                  whole["out_of_order"], whole["lost_packets"],
                                  whole["jitter_ms"]))
            total = group[-1]
            self.assertEqual(total.sent, end["sum_sent" + suffix])
            self.assertEqual(total.received, end["sum_received" + suffix])
            self.assertEqual(total.sent["bytes"], sum(row.sent["bytes"] for row in group[:-1]))
            self.assertEqual(total.received["lost_packets"],
                             sum(row.received["lost_packets"] for row in group[:-1]))

    def test_a_sender_takes_the_loss_from_the_receiver(self):
        statistics = self.figures(True, bytes=1260000, packets=1260,
                                  begin={"bytes": 260000, "packets": 260})
        remote = result(bytes=900000, jitter=0.25, errors=120, omitted_errors=20, packets=1255,
                        omitted_packets=255, dropped=9)
        self.assertEqual(
            pyperf3.stream_totals(statistics, remote),
            pyperf3.Totals(5, True, 1000000, 900000, 1000, 1000, 100, 0, 0.25, 9, None))
        self.assertEqual(pyperf3.stream_totals(statistics, None),
                         pyperf3.Totals(5, True, 1000000, 0, 1000, 0, 0, 0, 0.0, None, None))

    def test_a_receiver_takes_only_counts_from_the_sender(self):
        """What a sending server says of the loss is an echo."""
        statistics = self.figures(False, bytes=900, packets=10, lost=1, out_of_order=2, jitter=0.5)
        remote = result(bytes=1200, jitter=9.0, errors=7, packets=15, omitted_packets=3,
                        dropped=77)
        statistics.take(drops=4)
        self.assertEqual(pyperf3.stream_totals(statistics, remote),
                         pyperf3.Totals(5, False, 1200, 900, 12, 10, 1, 2, 0.5, 4, None))
        self.assertEqual(pyperf3.stream_totals(statistics, None),
                         pyperf3.Totals(5, False, 0, 900, 0, 10, 1, 2, 0.5, 4, None))

    def test_loss_of_an_omitted_part_that_is_not_told_is_not_known(self):
        for omitted, errors, told, lost in ((26, 3, None, None), (26, 3, 1, 2), (26, 3, 3, 0),
                                            (0, 3, None, 3), (26, 0, None, 0), (26, 3, 5, 0)):
            with self.subTest(omitted=omitted, errors=errors, told=told):
                statistics = self.figures(True, packets=51, begin={"packets": omitted})
                remote = result(packets=51, errors=errors, omitted_errors=told,
                                omitted_packets=None if told is None else omitted)
                totals = pyperf3.stream_totals(statistics, remote)
                self.assertEqual(totals.lost, lost)
                whole, _, received = pyperf3.datagram_rows(totals, 1.0, 1.0)
                self.assertEqual((whole["lost_packets"], received["lost_packets"]),
                                 (lost or 0, lost or 0))

    def test_counts_of_the_other_end_never_become_negative(self):
        remote = result(packets=5, omitted_packets=9, errors=1, omitted_errors=4)
        for sender in (True, False):
            totals = pyperf3.stream_totals(self.figures(sender), remote)
            self.assertEqual((totals.sent_packets, totals.received_packets, totals.lost),
                             (0, 0, 0))

    def totals(self, **more):
        values = dict(socket=5, sender=True, sent_bytes=1000, received_bytes=900, sent_packets=10,
                      received_packets=9, lost=1, out_of_order=2, jitter=0.5, drops=3,
                      retransmits=None)
        values.update(more)
        return pyperf3.Totals(**values)

    def test_sums(self):
        group = [self.totals(), self.totals(socket=7, jitter=0.25, lost=0)]
        self.assertEqual(pyperf3.sum_of_totals(group, True), pyperf3.Totals(
            None, True, 2000, 1800, 20, 18, 1, 4, 0.375, 6, None))

    def test_sums_of_what_is_not_known_of_one_stream_are_not_known(self):
        group = [self.totals(), self.totals(lost=None, drops=None)]
        total = pyperf3.sum_of_totals(group, False)
        self.assertEqual((total.lost, total.drops, total.sent_packets, total.sender),
                         (None, None, 20, False))

    def test_sums_without_streams_are_zero(self):
        for sender in (True, False):
            total = pyperf3.sum_of_totals([], sender)
            self.assertEqual(total, pyperf3.Totals(None, sender, 0, 0, 0, 0, 0, 0, 0.0, None,
                                                   0 if sender else None))
            for made in pyperf3.datagram_rows(total, 0.0, 0.0):
                self.assertEqual(list(made), [
                    "start", "end", "seconds", "bytes", "bits_per_second", "jitter_ms",
                    "lost_packets", "packets", "lost_percent", "sender"])
                self.assertEqual(set(list(made.values())[:-1]), {0})

    def test_whose_time_and_count_stand_where(self):
        whole, sent, received = pyperf3.datagram_rows(self.totals(), 2.0, 4.0)
        self.assertEqual((whole["end"], whole["seconds"], whole["bytes"],
                          whole["bits_per_second"], whole["packets"], whole["lost_percent"]),
                         (2.0, 2.0, 1000, 4000.0, 10, 10.0))
        self.assertEqual((sent["end"], sent["bits_per_second"], sent["lost_packets"],
                          sent["jitter_ms"], sent["sender"]), (2.0, 4000.0, 0, 0, True))
        self.assertEqual((received["end"], received["bits_per_second"], received["packets"],
                          received["jitter_ms"], received["sender"]),
                         (4.0, 1800.0, 9, 500.0, False))
        self.assertAlmostEqual(received["lost_percent"], 100 / 9.0)
        total, _, received = pyperf3.datagram_rows(self.totals(socket=None), 2.0, 4.0)
        # A sum has the receiver's time, a rate by the sender's, and percents of what was sent.
        self.assertEqual((total["end"], total["seconds"], total["bytes"],
                          total["bits_per_second"], total["lost_percent"]),
                         (4.0, 4.0, 1000, 4000.0, 10.0))
        self.assertEqual(received["lost_percent"], 10.0)

    def test_a_receiving_server_does_not_know_what_was_sent(self):
        unknown = dict(sender=False, sent_bytes=0, sent_packets=0)
        whole, sent, received = pyperf3.datagram_rows(self.totals(**unknown), 2.0, 2.0)
        self.assertEqual((whole["packets"], whole["lost_percent"], sent["packets"]), (9, 0, 0))
        self.assertAlmostEqual(received["lost_percent"], 100 / 9.0)
        total, _, _ = pyperf3.datagram_rows(self.totals(socket=None, **unknown), 2.0, 2.0)
        self.assertAlmostEqual(total["lost_percent"], 100 / 9.0)


class Reference:
    """iperf3's rules for one stream of datagrams, one at a time, as plain as they are."""

    def __init__(self, highest=0):
        self.highest = highest
        self.lost = self.out_of_order = self.bytes = 0
        self.jitter = 0.0
        self.transit = None

    def take(self, number, size, sent, arrived):
        """sent, arrived: microseconds."""
        self.bytes += size
        if number >= self.highest + 1:
            self.lost += number - 1 - self.highest
            self.highest = number
        else:
            self.out_of_order += 1
            if self.lost > 0:
                self.lost -= 1
        transit = arrived - sent
        if self.transit is not None:
            self.jitter += (abs(transit - self.transit) / 1e6 - self.jitter) / 16
        else:
            self.jitter += (0 - self.jitter) / 16
        self.transit = transit


Datagram = collections.namedtuple("Datagram", "number size sent arrived")  # microseconds


class Spread(unittest.TestCase):
    def test_mean_and_deviation_of_the_whole_population(self):
        self.assertEqual(pyperf3.mean_and_deviation([5.0]), (5.0, 0.0))
        self.assertEqual(pyperf3.mean_and_deviation([1.0, 3.0]), (2.0, 1.0))
        self.assertEqual(pyperf3.mean_and_deviation([2, 4, 4, 4, 5, 5, 7, 9]), (5.0, 2.0))


class Tracker(pyperf3.DatagramTracker):
    """One that tells what datagrams it is for."""

    def __init__(self, length=100, wide=False, highest=0):
        pyperf3.DatagramTracker.__init__(self, length, wide, highest)
        self.length, self.wide = length, wide


class Feeding:
    """Make datagrams, and feed them to a tracker."""

    @staticmethod
    def headers(datagrams, wide, spacing=0):
        layout = struct.Struct("!IIQ" if wide else "!III")
        mask = 2 ** 64 - 1 if wide else 2 ** 32 - 1
        memory = b"".join(
            layout.pack(*(divmod(each.sent, 1000000) + (each.number & mask,))).ljust(spacing)
            for each in datagrams)
        return pyperf3.DatagramHeaders(memory, wide, spacing)

    def feed(self, tracker, datagrams):
        """Let a tracker take in a batch of datagrams."""
        tracker.take(self.headers(datagrams, tracker.wide), [each.size for each in datagrams],
                     [each.arrived / 1e6 for each in datagrams])

    def feed_piece(self, tracker, datagrams, quick=True):
        """Let a tracker take in what the kernel joined: all came with the first.

        quick: as it does; else as single datagrams.
        """
        arrived, sizes = datagrams[0].arrived / 1e6, [each.size for each in datagrams]
        headers = self.headers(datagrams, tracker.wide, tracker.length)
        if not (quick and sizes.count(tracker.length) == len(sizes)
                and tracker.take_pieces(headers, len(sizes), [arrived])):
            tracker.take(headers, sizes, [arrived] * len(sizes))

    def numbered(self, numbers, size=100, first=0):
        return [Datagram(number, size, 1000 * at, 1000 * at + 50)
                for at, number in enumerate(numbers, first)]


class Trackers(Feeding, unittest.TestCase):
    """DatagramTracker."""

    def figures(self, tracker):
        return (tracker.lost, tracker.highest, tracker.late, tracker.bytes)

    def assertAgree(self, tracker, reference):
        self.assertEqual(self.figures(tracker), (reference.lost, reference.highest,
                                                  reference.out_of_order, reference.bytes))
        self.assertAlmostEqual(tracker.jitter, reference.jitter,
                               delta=1e-8 + 1e-6 * reference.jitter)

    def batches(self, source, datagrams, most=64):
        at = 0
        while at < len(datagrams):
            size = source.choice((1, 2, source.randrange(1, most + 1), most))
            yield datagrams[at:at + size]
            at += size

    def test_what_iperf3_was_seen_to_count(self):
        for numbers, wanted in (
                ((1, 2, 5, 6), (2, 6, 0)), ((1, 2, 4, 3, 5), (0, 5, 1)), ((1, 2, 2, 3), (0, 3, 1)),
                ((1, 3, 3, 2, 5), (1, 5, 2)), ((5, 6, 7), (4, 7, 0))):
            for wide in (False, True):
                for step in (1, 2, 10):
                    with self.subTest(numbers=numbers, wide=wide, step=step):
                        tracker = Tracker(100, wide)
                        datagrams = self.numbered(numbers)
                        for at in range(0, len(datagrams), step):
                            self.feed(tracker, datagrams[at:at + step])
                        self.assertEqual(self.figures(tracker),
                                         wanted + (100 * len(numbers),))

    def test_the_number_zero_is_a_hello_and_no_data(self):
        for wide in (False, True):
            tracker = Tracker(100, wide)
            self.feed(tracker, self.numbered((0, 1, 2)))
            self.assertEqual(self.figures(tracker), (0, 2, 0, 200))
            self.feed(tracker, self.numbered((0,)))
            self.feed(tracker, self.numbered((3, 0, 0, 4)))
            self.assertEqual(self.figures(tracker), (0, 4, 0, 400))

    def test_a_hello_leaves_no_trace_in_the_jitter(self):
        tracker, other = Tracker(), Tracker()
        datagrams = self.numbered(range(1, 9))
        self.feed(tracker, datagrams[:4] + [Datagram(0, 100, 5, 10 ** 9)] + datagrams[4:])
        self.feed(other, datagrams)
        self.assertEqual((tracker.jitter, tracker._transit), (other.jitter, other._transit))

    def test_datagrams_too_short_for_a_header_are_nothing(self):
        for wide, short in ((False, (0, 1, 4, 11)), (True, (0, 4, 12, 15))):
            for size in short:
                tracker = Tracker(100, wide)
                one, two = self.numbered((1, 2))
                self.feed(tracker, [one, Datagram(77, size, 1, 10 ** 9), two])
                self.feed(tracker, [Datagram(78, size, 1, 10 ** 9)])
                self.assertEqual(self.figures(tracker), (0, 2, 0, 200))
                self.assertLess(tracker.jitter, 1e-6)

    def test_bytes_of_datagrams_of_other_sizes_are_counted_as_they_came(self):
        tracker = Tracker()
        self.feed(tracker, [Datagram(1, 100, 0, 0), Datagram(2, 50, 0, 0),
                             Datagram(3, 16, 0, 0), Datagram(4, 12, 0, 0)])
        self.feed(tracker, [Datagram(5, 50, 0, 0)])
        self.assertEqual(self.figures(tracker), (0, 5, 0, 228))

    def test_counters_of_32_bits_wrap(self):
        for numbers, lost, highest, late in (
                ((-2, -1, 0, 1, 2), 0, 2, 0), ((-2, -1, 2, 3), 2, 3, 0),
                ((-2, 0, -1, 1, 2), 0, 2, 1), ((-2, 1, 0, -1, 2), 0, 2, 2),
                ((-1, 0, 0, 1), 0, 1, 1), ((-2, -1, 0), 0, 0, 0), ((2, -2, 3), 3, 3, 1)):
            for step in (1, 2, 10):
                with self.subTest(numbers=numbers, step=step):
                    tracker = Tracker(100, False, 2 ** 32 - 3)
                    datagrams = self.numbered([2 ** 32 + number for number in numbers])
                    for at in range(0, len(datagrams), step):
                        self.feed(tracker, datagrams[at:at + step])
                    self.assertEqual(self.figures(tracker), (lost, 2 ** 32 + highest, late,
                                                              100 * len(numbers)))

    def test_numbers_beyond_belief_are_not_data(self):
        for wide, numbers in ((False, (2 ** 31 + 1, 2 ** 32 - 1, 2 ** 31 + 5)),
                              (True, (2 ** 62, 2 ** 63, 2 ** 63 + 1, 2 ** 64 - 1, 2 ** 62 + 1))):
            for number in numbers:
                with self.subTest(wide=wide, number=number):
                    tracker = Tracker(100, wide)
                    self.feed(tracker, self.numbered((number,)))
                    self.assertEqual(self.figures(tracker), (0, 0, 0, 0))
                    self.feed(tracker, self.numbered((1, number, 2)))
                    self.assertEqual(self.figures(tracker), (0, 2, 0, 200))

    def test_the_greatest_number_fits_the_slots(self):
        tracker = Tracker(100, True)
        self.feed(tracker, self.numbered((1, 2 ** 62 - 1)))
        self.assertEqual(self.figures(tracker), (2 ** 62 - 3, 2 ** 62 - 1, 0, 200))
        self.assertLess(tracker.lost, 2 ** 63)

    def stream(self, source, start, count, wild):
        """Return datagrams after number `start`: some lost, swapped, doubled, and jittering."""
        numbers = list(range(start + 1, start + 1 + count))
        if wild:
            numbers = [number for number in numbers if source.random() > 0.05]
            for _ in range(count // 20):
                at = source.randrange(len(numbers))
                numbers.insert(source.randrange(len(numbers)), numbers[at])
                if at + 3 < len(numbers):
                    numbers[at], numbers[at + 3] = numbers[at + 3], numbers[at]
        now, found = source.randrange(10 ** 12), []
        offset = source.randrange(-10 ** 11, 10 ** 11)
        for number in numbers:
            now += source.choice((0, 0, 1, 20, source.randrange(1000)))
            sent = max(0, now + offset + 10 ** 12)
            found.append(Datagram(number, 100, sent, now + source.randrange(300)))
        return found

    def test_random_streams_in_batches_against_the_rules(self):
        source = random.Random(44)
        counted_losses = 0
        for turn in range(1200):
            wide = source.random() < 0.5
            start = source.choice((0, 0, 65500, 2 ** 32 - 60 if not wide else 2 ** 48 - 60,
                                   2 ** 31 - 50, 2 ** 33 - 70))
            tracker, reference = Tracker(100, wide, start), Reference(start)
            for batch in self.batches(source, self.stream(source, start, 150, turn % 4)):
                self.feed(tracker, batch)
                for each in batch:
                    reference.take(*each)
                self.assertEqual(self.figures(tracker), (reference.lost, reference.highest,
                                                          reference.out_of_order,
                                                          reference.bytes), turn)
            self.assertAgree(tracker, reference)
            counted_losses += reference.lost
        self.assertGreater(counted_losses, 1000)

    def test_random_streams_in_pieces_against_the_rules(self):
        """What the kernel joined counts as if it had come one by one, at one time."""
        source = random.Random(45)
        for turn in range(800):
            wide, wild = source.random() < 0.5, turn % 4 == 0
            start = source.choice((0, 65500, 2 ** 32 - 60))
            tracker, reference = Tracker(100, wide, start), Reference(start)
            slow = Tracker(100, wide, start)
            for batch in self.batches(source, self.stream(source, start, 150, wild), 40):
                if source.random() < 0.5:
                    batch = [each._replace(sent=batch[0].sent) for each in batch]
                if source.random() < 0.3:
                    rest = source.randrange(0, 100)
                    batch[-1] = batch[-1]._replace(size=rest)
                self.feed_piece(tracker, batch)
                self.feed_piece(slow, batch, quick=False)
                for each in batch:
                    if each.size >= (16 if wide else 12):
                        reference.take(each.number, each.size, each.sent, batch[0].arrived)
                self.assertEqual(self.figures(tracker), self.figures(slow))
                self.assertAgree(tracker, reference)

    def test_lengths_that_fit_no_words_count_alike_in_pieces(self):
        for length in (17, 99, 102, 1001):
            tracker, reference = Tracker(length), Reference()
            for first in (1, 11, 25):
                batch = self.numbered(range(first, first + 10), length, first)
                self.feed_piece(tracker, batch)
                for each in batch:
                    reference.take(each.number, each.size, each.sent, batch[0].arrived)
            self.assertEqual(reference.lost, 4)
            self.assertAgree(tracker, reference)

    def test_jitter_of_a_steady_stream_is_none(self):
        tracker = Tracker()
        for at in range(20):
            self.feed(tracker, [Datagram(number, 100, number * 1000, number * 1000 + 77 * 10 ** 6)
                                 for number in range(at * 10 + 1, at * 10 + 11)])
        self.assertLess(tracker.jitter, 1e-9)

    def test_jitter_approaches_the_difference_of_two_transits(self):
        tracker = Tracker()
        for number in range(1, 400):
            self.feed(tracker, [Datagram(number, 100, number * 1000,
                                          number * 1000 + 500 * (number % 2))])
            if number == 2:
                self.assertAlmostEqual(tracker.jitter, 500e-6 / 16, delta=1e-9)
            if number == 3:
                self.assertAlmostEqual(tracker.jitter, 500e-6 * (1 / 16.0 + 15 / 256.0),
                                       delta=1e-9)
        self.assertAlmostEqual(tracker.jitter, 500e-6, delta=1e-9)

    def test_clocks_of_any_origin_will_do(self):
        for offset in (0, 10 ** 6, 10 ** 15):
            tracker = Tracker()
            self.feed(tracker, [Datagram(number, 100, number * 1000 % 10 ** 9,
                                          number * 1000 + offset) for number in range(1, 50)])
            self.assertLess(tracker.jitter, 1e-6)


@unittest.skipUnless(sys.platform.startswith("linux"), "only Linux's kernel joins datagrams")
class Joined(Feeding, unittest.TestCase):
    """UdpReceiver, and what the kernel joins."""

    LENGTH = 100

    def setUp(self):
        self.sock, self.sender = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                                  for _ in range(2)]
        for sock in (self.sock, self.sender):
            self.addCleanup(sock.close)
        self.sock.bind(("127.0.0.1", 0))
        self.sender.bind(("127.0.0.1", 0))
        self.sender.connect(self.sock.getsockname())
        if not pyperf3.batch_calls() or not pyperf3.set_segmentation(self.sender, 0):
            self.skipTest("no GSO, or no batches: qemu's, say, has none")

    def receiver(self, length=LENGTH, buffer=4000000):
        parameters = pyperf3.Parameters()
        parameters.protocol, parameters.length = "UDP", length
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        receiver = pyperf3.UdpReceiver(self.sock, pyperf3.Counters(1), 0, parameters)
        receiver.prepare()
        if not receiver._reader.joins:
            self.skipTest("this kernel has no GRO")
        return receiver

    def send(self, numbers, size=LENGTH, sizes=None):
        """Send datagrams of these numbers as one piece."""
        pyperf3.set_segmentation(self.sender, size if len(numbers) > 1 else 0)
        rows = [Datagram(number, size, 1000 * number, 0) for number in numbers]
        data = bytes(self.headers(rows, False, size).memory)
        self.sender.send(data[:len(data) - (size - (sizes or size))])

    def take(self, receiver):
        """Let the receiver take in what has come; returns in how many messages that was."""
        messages = 0
        try:
            while True:
                count = receiver._reader.receive(False)
                receiver._account(receiver._reader, count)
                messages += count
        except BlockingIOError:
            return messages

    def counts(self, receiver):
        tracker = receiver._tracker
        return tracker.highest, tracker.lost, tracker.late, tracker.bytes

    def test_pieces_count_to_the_datagram(self):
        receiver = self.receiver()
        for _ in range(2):  # the first time there is no room for them yet
            first = receiver._tracker.highest
            for numbers in (range(1, 9), range(9, 17), [17], range(18, 26)):
                self.send([first + number for number in numbers])
            self.assertEqual(self.take(receiver), 4)
            self.assertEqual(self.counts(receiver), (first + 25, 0, 0, (first + 25) * 100))
        self.assertEqual(receiver._reader.unit, 8)

    def test_pieces_of_all_sizes_against_the_rules(self):
        source = random.Random(14)
        for wide_batch in (False, True):
            receiver, reference = self.receiver(), Reference()
            number = 1
            for _ in range(60):
                for _ in range(source.choice((1, 3, 12))):
                    numbers = list(range(number, number + source.choice(
                        (1, 1, 2, 16, 16, 16, source.randrange(1, 60)))))
                    if not wide_batch and source.random() < 0.3:
                        source.shuffle(numbers)
                    number += len(numbers) + source.choice((0, 0, 0, 3))
                    self.send(numbers)
                    for each in numbers:
                        reference.take(each, 100, 1000 * each, 0)
                self.take(receiver)
                self.assertEqual(self.counts(receiver), (
                    reference.highest, reference.lost, reference.out_of_order, reference.bytes))
            self.assertEqual(receiver.slots.dropped, 0)

    def test_last_of_a_piece_may_be_short(self):
        receiver = self.receiver()
        for first in (1, 5, 9):
            self.send(range(first, first + 4), sizes=40)
            self.take(receiver)
        self.assertEqual(self.counts(receiver), (12, 0, 0, 3 * 340))

    def test_short_end_of_a_full_piece(self):
        """Its place was thought to be that of a whole one: the worker died."""
        receiver = self.receiver(1472)
        for first in (1, 46, 91):
            self.send(range(first, first + 45), 1472, 100)
            self.take(receiver)
        self.assertEqual(self.counts(receiver), (135, 0, 0, 3 * (44 * 1472 + 100)))

    def test_numbers_without_end_are_none(self):
        """Three pieces of a hostile sender were more than a slot holds: the worker died."""
        tracker = Tracker(100, True)
        for jump in (2 ** 62 - 10, 2 ** 61, 2 ** 63, 2 ** 64 - 8, 2 ** 62 + 2 ** 61, 9):
            rows = self.numbered(range(jump, jump + 4))
            self.feed_piece(tracker, rows)
            self.assertLess(max(tracker.highest, tracker.lost), 2 ** 62)

    def test_pieces_of_another_size_are_joined_no_more(self):
        receiver = self.receiver()
        self.send(range(1, 4))
        self.send(range(4, 9), size=50)
        self.assertEqual(self.take(receiver), 2)
        self.assertEqual(self.counts(receiver), (4, 0, 0, 350))  # of the others nobody knows
        self.send(range(9, 14), size=50)
        self.send(range(14, 18))
        self.assertEqual(self.take(receiver), 9)
        self.assertEqual(self.counts(receiver), (17, 4, 0, 350 + 250 + 400))

    def test_a_datagram_as_long_as_a_piece_is_one(self):
        receiver = self.receiver()
        for first in (1, 9):
            self.send(range(first, first + 4))
            self.send([first + 4])
            self.sender.send(bytes(self.headers([Datagram(first + 5, 0, 0, 0)], False).memory)
                             + b"x" * 400)
            self.send([first + 6])
            self.take(receiver)
        self.assertEqual(self.counts(receiver), (15, 1, 0, 1400))

    def test_drops_of_this_host_are_told_from_other_losses(self):
        receiver = self.receiver(1000, 60000)
        self.send(range(1, 17), 1000)
        self.send(range(27, 43), 1000)  # ten were lost on the way
        self.take(receiver)
        self.assertEqual((receiver.slots.dropped, receiver._tracker.lost), (0, 10))
        for first in range(43, 43 + 16 * 40, 16):  # more than there is room for
            self.send(range(first, first + 16), 1000)
        self.take(receiver)
        dropped = pyperf3.dropped_datagrams(self.sock)
        self.send(range(700, 716), 1000)
        self.take(receiver)
        slots = receiver.slots
        self.assertGreater(dropped, 10)
        self.assertEqual(slots.dropped_pieces, dropped)
        self.assertEqual(slots.dropped, receiver._tracker.lost - 10)
        self.assertGreater(slots.dropped, 10 * slots.dropped_pieces)


class Receivers(Feeding, unittest.TestCase):
    """UdpReceiver, without a network."""

    def setUp(self):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.sock.close)

    def receiver(self):
        parameters = pyperf3.Parameters()
        parameters.protocol, parameters.length = "UDP", 100
        return pyperf3.UdpReceiver(self.sock, pyperf3.Counters(1), 0, parameters)

    @unittest.skipUnless(sys.platform.startswith("linux"), "only Linux's kernel stamps them")
    def test_first_datagrams_had_no_stamp_of_the_kernel(self):
        """It begins with that a while after it was asked for: jitter was 0.3 ms for 0.003."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            if not pyperf3.stamp_arrivals(probe):
                self.skipTest("no such stamps here: qemu's, say, has none")
        parameters = pyperf3.Parameters()
        parameters.protocol, parameters.length = "UDP", 100
        for receives in (False, True):
            parameters.reverse = receives
            transport = pyperf3.make_transport(pyperf3.Settings(), parameters, False)
            transport.set_options(self.sock, "C", self.fail)
            self.assertEqual(self.sock.getsockopt(socket.SOL_SOCKET, 35), receives)

    def test_datagrams_that_had_waited_told_of_a_jitter(self):
        class Reader:
            def __init__(self, arrivals):
                self.arrivals = list(arrivals)

            def receive(self, wait):
                if not self.arrivals:
                    raise BlockingIOError()
                return self.arrivals.pop(0)
        receiver = self.receiver()
        tracker = receiver._tracker = Tracker()
        receiver._account = lambda reader, arrivals: self.feed(
            tracker, [Datagram(number, 100, 1000 * number, arrival)
                       for number, arrival in enumerate(arrivals, tracker.highest + 1)])
        receiver._take_in_late(Reader([(9000, 9100, 9200), (9300, 9300)]))
        self.assertEqual((tracker.highest, tracker.jitter), (5, 0.0))
        self.feed(tracker, [Datagram(6, 100, 10000, 10050), Datagram(7, 100, 11000, 11050)])
        self.assertEqual(tracker.highest, 7)
        self.assertLess(tracker.jitter, 1e-9)

    class Reader:
        """What one call of the system brought."""

        joins, unit, kernel_time = False, 1, False

        def __init__(self, datagrams):
            self.datagrams = datagrams

        def sizes(self, count):
            return [each.size for each in self.datagrams[:count]]

        def arrivals(self, count):
            return [each.arrived / 1e6 for each in self.datagrams[:count]]

    def account(self, receiver, datagrams, kernel_time=False):
        reader = self.Reader(datagrams)
        reader.kernel_time = kernel_time
        receiver._firsts = self.headers(datagrams, receiver.parameters.wide_counters)
        receiver._account(reader, len(datagrams))

    def test_figures_come_to_the_control_plane_together(self):
        receiver = self.receiver()
        slots, tracker = receiver.slots, receiver._tracker
        for number, numbers in enumerate(((1, 2, 4), (3, 6, 6)), 1):
            self.account(receiver, self.numbered(numbers))
            counts = slots.counts()
            self.assertEqual(counts, pyperf3.DatagramCounts(
                tracker.bytes, tracker.highest, tracker.lost, tracker.late, tracker.jitter))
            self.assertEqual(slots.version, 2 * number)
        self.assertEqual(counts[:4], (600, 6, 0, 2))

    def test_jitter_begins_anew_with_the_measured_part(self):
        receiver = self.receiver()
        slots = receiver.slots
        self.account(receiver, [Datagram(1, 100, 0, 0), Datagram(2, 100, 0, 10 ** 6)])
        self.assertGreater(slots.counts().jitter, 0.05)
        slots.measuring = 1
        self.account(receiver, [Datagram(4, 100, 0, 5 * 10 ** 6)])
        counts = slots.counts()
        self.assertEqual((counts.jitter, counts.packets, counts.lost), (0, 4, 1))
        self.account(receiver, [Datagram(5, 100, 0, 5 * 10 ** 6 + 1600)])
        self.assertAlmostEqual(slots.counts().jitter, 1e-4, delta=1e-9)

    def test_a_clock_that_somebody_sets_is_no_jitter(self):
        for noticed in (False, True):
            receiver = self.receiver()
            self.account(receiver, self.numbered((1, 2)), True)
            if noticed:
                receiver._clocks -= 3600
            self.account(receiver, [Datagram(3, 100, 3000, 3600 * 10 ** 6)], True)
            self.assertEqual(receiver._tracker.jitter < 1e-6, noticed)


class Slots(unittest.TestCase):
    """The numbers of workers."""

    @staticmethod
    def layouts(base):
        """Return all kinds of Slots, and the names in each."""
        for kind in base.__subclasses__():
            yield kind, [name for name in dir(kind)
                         if isinstance(getattr(kind, name), pyperf3.Slot)]
            yield from Slots.layouts(kind)

    def test_each_has_a_place_of_its_own(self):
        for kind, names in self.layouts(pyperf3.Slots):
            places = sorted(getattr(kind, name).at for name in names)
            self.assertEqual(places, list(range(kind.size)), kind)
            self.assertLessEqual(kind.size, pyperf3._ROW)

    def test_nobody_writes_to_another_ones(self):
        counters = pyperf3.Counters(2)
        for kind, names in self.layouts(pyperf3.WorkerSlots):
            views = [kind(counters, 0), kind(counters, 1)]
            for index, view in enumerate(views):
                view.write_note("%d: \u00e9" % index * 100)
                for number, name in enumerate(names):
                    setattr(view, name, 2 ** 62 - 100 * index - number)
            for index, view in enumerate(views):
                self.assertEqual(view.note()[:4], "%d: \u00e9" % index)
                for number, name in enumerate(names):
                    value = 2 ** 62 - 100 * index - number
                    if isinstance(getattr(view, name), float):
                        value = float(value)
                    self.assertEqual(getattr(view, name), value, name)
        self.assertEqual((counters.shared.beat, counters.shared.open, counters.shared.note()),
                         (0.0, 0, ""))


class Sources(unittest.TestCase):
    """What is sent, by a socket that takes what it likes."""

    class Socket:
        def __init__(self):
            self.got, self.random = bytearray(), random.Random(48)

        def send(self, data):
            if self.random.random() < 0.1:
                raise BlockingIOError()
            size = len(data)
            if self.random.random() < 0.2:
                size = self.random.randrange(1, size + 1)
            self.got += bytes(data)[:size]
            return size

        def sendmsg(self, parts):
            return self.send(b"".join(parts))

    class Connection:
        adapts = True

        def __init__(self):
            self.sock = Sources.Socket()

    def test_a_block_is_repeated_whatever_goes_at_a_time(self):
        block = memoryview(bytes(range(250)) * 100)
        for most in (1, 8):
            connection, sent = self.Connection(), 0
            source = pyperf3.BlockSource(connection, block, most * len(block))
            rates, sizes = random.Random(49), set()
            for _ in range(600):
                try:
                    if source.whole is None or rates.random() < 0.5:
                        sent += source.send(rates.random() < 0.5)
                    else:
                        size, count = source.size, source.whole()
                        sent += count
                        if count != size:
                            source.split(count)
                except BlockingIOError:
                    pass
                source.adapt(rates.choice((1e3, 1e9, 1e9)))
                sizes.add(source.size)
            self.assertLessEqual(max(sizes), most * len(block))
            self.assertLess(min(sizes), len(block))
            got = connection.sock.got
            self.assertEqual(len(got), sent)
            self.assertEqual(got, (bytes(block) * (sent // len(block) + 1))[:sent])


class Paces(unittest.TestCase):
    """Pace, by a clock of our own."""

    START = 1000.0

    def run_for(self, seconds, length=1250, rate=10 ** 7, burst=0, stalls=(), cost=0.0, most=64):
        """Return [(time, how many)] of what is sent.

        stalls: (time, seconds) when nothing runs; cost: seconds of a call; most: per call.
        """
        pace = pyperf3.Pace(self.START, length * 8.0 / rate, burst, pyperf3._MAX_DEBT)
        now, sent, found, stalls = self.START, 0, [], list(stalls)
        while now < self.START + seconds:
            if stalls and now >= self.START + stalls[0][0]:
                now += stalls.pop(0)[1]
            due = pace.due(now, sent)
            self.assertGreaterEqual(due, 0)
            if due < 1:
                self.assertGreater(pace.wait, 0)
                self.assertLessEqual(pace.wait, 0.02)  # a stop is seen in time
                now += max(pace.wait, 1e-6)  # a clock never stands still
                continue
            count = min(due, most)
            found.append((now - self.START, count))
            sent += count
            now += cost
        return found

    def test_rate_is_exact(self):
        source = random.Random(46)
        for _ in range(60):
            length = source.choice((16, 64, 1000, 1448, 32768, 65507))
            rate = int(length * 8 * 10 ** source.uniform(0, 4.5))
            gap = length * 8.0 / rate
            found = self.run_for(2 + 10 * gap, length, rate, cost=source.choice((0, 1e-5)) or 1e-6)
            sent = 0
            for when, count in found:
                sent += count
                # number k is due at (k - 1) gaps: never earlier
                self.assertLessEqual((sent - 1) * gap, when + 1e-6, (length, rate))
            self.assertAlmostEqual(sent * gap, 2 + 10 * gap, delta=2 * gap + 0.0011,
                                   msg=(length, rate))

    def test_the_first_leaves_at_once_and_the_others_in_time(self):
        found = self.run_for(1.0, 1250, 100000)  # every 0.1 s
        self.assertEqual([count for _, count in found], [1] * len(found))
        for number, (when, _) in enumerate(found):
            self.assertAlmostEqual(when, number * 0.1, delta=1e-6)
        self.assertGreaterEqual(len(found), 10)

    def test_after_a_stall_a_slow_stream_makes_no_clump(self):
        for gap in (0.001, 0.01, 0.05):
            rate = int(round(10000 / gap))
            found = self.run_for(3.0, 1250, rate, stalls=((1.0, 0.2),), cost=1e-5)
            self.assertEqual(set(count for _, count in found), {1})
            for (one, _), (two, _) in zip(found, found[1:]):
                self.assertGreaterEqual(two - one, gap / 2 - 1e-6)
            # and what was late is made up for
            self.assertAlmostEqual(len(found), 3.0 / gap, delta=2)

    def test_a_long_stall_is_not_made_up_for(self):
        for rate in (10 ** 5, 10 ** 6, 10 ** 7, 10 ** 8, 10 ** 9):
            gap = 10000.0 / rate
            found = self.run_for(12.0, 1250, rate, stalls=((1.0, 10.0),), cost=1e-5, most=10 ** 6)
            sent = sum(count for _, count in found)
            debt = pyperf3._MAX_DEBT / gap
            self.assertLessEqual(sent, 2.0 / gap + debt + 3)
            self.assertGreaterEqual(sent, 2.0 / gap + min(debt, 1.0 / gap) * 0.9 - 3)
            self.assertLessEqual(max(count for _, count in found), debt + 2)

    def test_bytes_of_pieces_of_any_size(self):
        source = random.Random(47)
        pace, now, sent, begun = pyperf3.Pace(self.START, 1e-6, 4000), self.START, 0, []
        while now < self.START + 10:
            if not pace.due(now, sent):
                now += pace.wait + 1e-9
                continue
            if sent >= 4000 * len(begun):
                begun.append(now - self.START)
                self.assertLessEqual(sent * 1e-6, begun[-1] + 1e-9)
            sent += source.randrange(1, 1000)
            if sent > 2e6 > sent - 1000:
                now += 3.0  # a stall, which is made up for whole
        self.assertAlmostEqual(sent, 10 ** 7, delta=5000)

    def test_a_short_stall_of_a_fast_stream_is_made_up_for(self):
        found = self.run_for(3.0, 1250, 10 ** 8, stalls=((1.0, 0.2),), cost=1e-5)
        self.assertAlmostEqual(sum(count for _, count in found), 30000, delta=2 + 64)

    def test_a_kernel_that_takes_fewer_loses_none(self):
        found = self.run_for(2.0, 1250, 10 ** 8, stalls=((0.5, 0.1),), cost=1e-5, most=3)
        self.assertEqual(max(count for _, count in found), 3)
        self.assertAlmostEqual(sum(count for _, count in found), 20000, delta=4)

    def test_bursts(self):
        for burst, most in ((5, 64), (2, 64), (10, 3), (1000, 64)):
            found = self.run_for(20.0, 1000, 10 ** 6, burst, cost=1e-6, most=most)
            gap, sent, begins = 0.008, 0, []
            for when, count in found:
                if sent % burst == 0:
                    begins.append(when)
                sent += count
                self.assertLessEqual(count, burst - (sent - count) % burst)
            for number, when in enumerate(begins):
                self.assertAlmostEqual(when, number * burst * gap, delta=0.002)
            # all of a burst leaves at once, in as many calls as it takes
            for when, _ in found:
                self.assertLess(min(when - begin for begin in begins if begin <= when), 0.002)
            self.assertGreaterEqual(len(begins), 20 / (burst * gap) - 1)

    def test_a_burst_of_one_is_none(self):
        self.assertEqual(self.run_for(0.5, 1250, 10 ** 6, 1), self.run_for(0.5, 1250, 10 ** 6))

    def test_bursts_after_a_long_stall(self):
        found = self.run_for(12.0, 1000, 10 ** 6, 5, stalls=((1.0, 10.0),), cost=1e-6)
        sent = sum(count for _, count in found)
        self.assertLessEqual(sent, (2.0 + pyperf3._MAX_DEBT) / 0.008 + 10)
        self.assertEqual(set(count for _, count in found), {5})


class KernelFigures(unittest.TestCase):
    """decode_tcp_info: the kernel's struct, whose end grew with the years."""

    def structure(self, size):
        """Return a tcp_info of `size` bytes whose words tell where they stand."""
        return struct.pack("=70I", *range(1000, 1070))[:size]

    def test_every_field_stands_where_the_kernel_has_it(self):
        got = pyperf3.decode_tcp_info(self.structure(280))
        for offset, name in (
                (8, "rto"), (16, "snd_mss"), (20, "rcv_mss"), (24, "unacked"), (32, "lost"),
                (36, "retrans"), (56, "last_ack_recv"), (60, "pmtu"), (64, "rcv_ssthresh"),
                (68, "rtt"), (72, "rttvar"), (76, "snd_ssthresh"), (80, "snd_cwnd"),
                (84, "advmss"), (88, "reordering"), (92, "rcv_rtt"), (96, "rcv_space"),
                (100, "total_retrans"), (136, "segs_out"), (140, "segs_in"),
                (144, "notsent_bytes"), (148, "min_rtt"), (152, "data_segs_in"),
                (156, "data_segs_out"), (192, "delivered"), (196, "delivered_ce"),
                (216, "dsack_dups"), (220, "reord_seen"), (224, "rcv_ooopack"),
                (228, "snd_wnd"), (232, "rcv_wnd"), (236, "rehash"), (244, "total_rto_time"),
                (248, "received_ce"), (272, "received_ce_bytes")):
            self.assertEqual(getattr(got, name), 1000 + offset // 4, name)
        for offset, name in (
                (104, "pacing_rate"), (112, "max_pacing_rate"), (120, "bytes_acked"),
                (128, "bytes_received"), (160, "delivery_rate"), (168, "busy_time"),
                (176, "rwnd_limited"), (184, "sndbuf_limited"), (200, "bytes_sent"),
                (208, "bytes_retrans")):
            self.assertEqual(struct.pack("=Q", getattr(got, name)),
                             self.structure(280)[offset:offset + 8], name)
        self.assertEqual(struct.pack("=HH", got.total_rto, got.total_rto_recoveries),
                         self.structure(280)[240:244])
        self.assertEqual(struct.pack("=8B", *got[:8]), self.structure(8))
        self.assertEqual(struct.pack("=HH", *got[-2:]), self.structure(280)[276:])

    def test_newer_kernels_tell_more_than_is_read(self):
        self.assertEqual(pyperf3.decode_tcp_info(self.structure(280) + b"x" * 40),
                         pyperf3.decode_tcp_info(self.structure(280)))

    def test_as_long_as_it_must_be(self):
        got = pyperf3.decode_tcp_info(self.structure(232))
        self.assertEqual((got.snd_wnd, got.reord_seen, got.rcv_wnd), (1057, 1055, -1))

    def test_short_ones_of_old_kernels(self):
        got = pyperf3.decode_tcp_info(self.structure(104))
        self.assertEqual((got.total_retrans, got.snd_cwnd, got.rtt), (1025, 1020, 1017))
        self.assertEqual((got.snd_wnd, got.reord_seen, got.busy_time), (-1, -1, -1))
        got = pyperf3.decode_tcp_info(self.structure(224))
        self.assertEqual((got.snd_wnd, got.reord_seen), (-1, 1055))

    def test_what_a_kernel_lacks_is_not_told(self):
        facts = pyperf3.connection_facts(pyperf3.decode_tcp_info(self.structure(104)))
        self.assertIn("retransmits", facts)
        self.assertFalse({"busy_us", "min_rtt_us", "delivery_rate_bps", "rtos"} & set(facts))
        facts = pyperf3.connection_facts(pyperf3.make_tcp_info(min_rtt=2 ** 32 - 1, rtt=7))
        self.assertEqual(facts, {"rtt_us": 7})  # no round trip was measured

    def test_counts_are_from_when_measuring_began(self):
        begin = pyperf3.make_tcp_info(busy_time=100, total_retrans=3, total_rto_time=2, rtt=9)
        end = pyperf3.make_tcp_info(busy_time=1100, total_retrans=5, total_rto_time=4, rtt=8)
        self.assertEqual(pyperf3.connection_facts(end, begin), {
            "busy_us": 1000, "retransmits": 2, "rto_time_us": 2000, "rtt_us": 8})

    def test_without_the_count_there_is_nothing(self):
        for size in (0, 8, 92, 100, 103):
            self.assertIsNone(pyperf3.decode_tcp_info(self.structure(size)))

    def test_figures_that_are_missing_do_not_become_the_greatest(self):
        statistics = pyperf3.StreamFigures(4, True)
        statistics.take(pyperf3.decode_tcp_info(self.structure(104)))
        row = rows_of(statistics)[0]
        self.assertLessEqual(row["max_snd_wnd"], 0)
        self.assertEqual(row["retransmits"], 1025)


class Cpu(unittest.TestCase):
    """CpuMeter."""

    def test_percent_of_one_cpu(self):
        meter = pyperf3.CpuMeter(100.0, 5.0, 7.0)
        meter.finish(104.0, 6.0, 10.0)
        self.assertEqual((meter.user, meter.system, meter.total), (25.0, 75.0, 100.0))

    def test_workers_may_add_up_to_more_than_one(self):
        meter = pyperf3.CpuMeter(0.0, 0.0, 0.0)
        meter.finish(1.0, 2.0, 1.5)
        self.assertEqual(meter.total, 350.0)

    def test_no_time_and_clocks_that_jump_back_are_no_error(self):
        for now, user, system in ((10.0, 1.0, 1.0), (9.0, 1.0, 1.0), (11.0, 0.5, 0.5)):
            meter = pyperf3.CpuMeter(10.0, 1.0, 1.0)
            meter.finish(now, user, system)
            self.assertEqual((meter.user, meter.system, meter.total), (0, 0, 0))

    def test_before_the_end_it_is_zero(self):
        meter = pyperf3.CpuMeter(10.0, 1.0, 1.0)
        self.assertEqual((meter.user, meter.system, meter.total), (0, 0, 0))


if __name__ == "__main__":
    unittest.main()
