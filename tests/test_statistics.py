"""Counters to figures: intervals, summaries, TCP_INFO, CPU time."""

import random
import socket
import struct
import unittest

import captures
import pyperf3


def info(retransmits=0, cwnd=10000, wnd=20000, rtt=50, rttvar=5, pmtu=1500, reorder=3):
    return pyperf3.TcpInfo(retransmits, cwnd, wnd, rtt, rttvar, pmtu, reorder)


def documents():
    """Return (name, role, document) of every captured document of a complete test."""
    found = []
    for case, side in captures.outputs("json"):
        text = case.out(side)
        for document in captures.documents(text[text.index("{"):]):
            if document["end"].get("streams"):
                found.append((case.name, case.commands[side].role, document))
    return found


class Intervals(unittest.TestCase):
    """StreamStatistics, rate_figures and interval_sum."""

    def test_intervals_tile_the_test_and_add_up(self):
        source = random.Random(5201)
        for _ in range(50):
            sender = source.random() < 0.5
            statistics = pyperf3.StreamStatistics(4, sender)
            now, rows = 0.0, []
            retransmits = source.randrange(5)
            for _ in range(source.randrange(1, 20)):
                statistics.bytes += source.randrange(0, 2 ** 34)
                retransmits += source.randrange(0, 9)
                sample = info(retransmits) if sender else None
                statistics.sample(sample)
                end = now + source.uniform(0.0001, 60)
                rows.append(statistics.end_interval(now, end, sample, False))
                now = end
            self.assertEqual(rows[0]["start"], 0)
            for one, two in zip(rows, rows[1:]):
                self.assertEqual(one["end"], two["start"])
            self.assertEqual(sum(row["bytes"] for row in rows), statistics.measured_bytes())
            self.assertAlmostEqual(sum(row["seconds"] for row in rows), now, delta=1e-4)
            if sender:
                self.assertEqual(sum(row["retransmits"] for row in rows), retransmits)
                self.assertEqual(statistics.measured_retransmits(), retransmits)

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
        statistics = pyperf3.StreamStatistics(4, True)
        statistics.bytes = 1000
        statistics.sample(info(7))
        row = statistics.end_interval(0, 1, info(7), True)
        self.assertEqual((row["bytes"], row["retransmits"], row["omitted"]), (1000, 7, True))
        statistics.bytes = 1500  # between the last report and the end of the omitted part
        statistics.sample(info(9))
        statistics.start_measuring()
        self.assertEqual(statistics.measured_bytes(), 0)
        self.assertEqual(statistics.measured_retransmits(), 0)
        statistics.bytes = 4500
        statistics.sample(info(10))
        row = statistics.end_interval(0, 1, info(10), False)
        self.assertEqual((row["bytes"], row["retransmits"], row["omitted"]), (3000, 1, False))
        self.assertEqual(statistics.measured_bytes(), 3000)
        self.assertEqual(statistics.measured_retransmits(), 1)

    def test_omitted_part_of_a_receiver(self):
        statistics = pyperf3.StreamStatistics(5, False)
        statistics.bytes = 1000
        statistics.start_measuring()
        statistics.bytes = 1700
        self.assertEqual(statistics.end_interval(0, 1, None, False)["bytes"], 700)
        self.assertEqual(statistics.measured_bytes(), 700)
        self.assertIsNone(statistics.retransmits)

    def test_retransmits_are_those_of_the_interval(self):
        statistics = pyperf3.StreamStatistics(4, True)
        counts = []
        for number, total in enumerate((3, 3, 10, 10, 11)):
            statistics.sample(info(total))
            counts.append(statistics.end_interval(number, number + 1, info(total), False)
                          ["retransmits"])
        self.assertEqual(counts, [3, 0, 7, 0, 1])

    def test_samples_between_two_reports_lose_no_retransmit(self):
        statistics = pyperf3.StreamStatistics(4, True)
        for total in (1, 4, 9):
            statistics.sample(info(total))
        self.assertEqual(statistics.end_interval(0, 1, info(9), False)["retransmits"], 9)

    def test_members_and_their_order_are_those_of_iperf3(self):
        """A row is compared with every captured row of its kind."""
        kinds = set()
        for name, role, document in documents():
            self.name = name
            for interval in document["intervals"]:
                for row in interval["streams"]:
                    statistics = pyperf3.StreamStatistics(row["socket"], row["sender"])
                    statistics.bytes = row["bytes"]
                    sample = None
                    if "retransmits" in row:
                        sample = pyperf3.TcpInfo(*(row[each] for each in pyperf3.TcpInfo._fields))
                        statistics.sample(sample)
                    made = statistics.end_interval(row["start"], row["end"], sample,
                                                   row["omitted"])
                    with self.subTest(case=name, role=role):
                        self.compare(made, row)
                    kinds.add((row["sender"], row["omitted"]))
        self.assertEqual(len(kinds), 4)

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
            else:
                self.assertEqual(made[name], row[name])

    def test_sums_are_those_of_iperf3(self):
        compared = 0
        for name, role, document in documents():
            self.name = name
            parallel = document["start"]["test_start"]["num_streams"]
            for interval in document["intervals"]:
                # iperf3: both sums have the times of the very first stream.
                first = interval["streams"][0]
                rows = [dict(row, start=first["start"], end=first["end"])
                        for row in interval["streams"]]
                groups = [("sum", rows[:parallel])]
                if "sum_bidir_reverse" in interval:
                    groups.append(("sum_bidir_reverse", rows[parallel:]))
                for key, group in groups:
                    compared += 1
                    with self.subTest(case=name, role=role, key=key):
                        self.compare(pyperf3.interval_sum(group), interval[key])
        self.assertEqual(compared, 121)

    def test_sum_of_streams_of_which_one_has_no_count(self):
        rows = [{"start": 0, "end": 1, "bytes": 1, "retransmits": 5, "omitted": False,
                 "sender": True},
                {"start": 0, "end": 1, "bytes": 2, "omitted": False, "sender": True}]
        made = pyperf3.interval_sum(rows)
        self.assertNotIn("retransmits", made)
        self.assertEqual(made["bytes"], 3)

    def test_a_sender_without_tcp_info_has_plain_rows(self):
        statistics = pyperf3.StreamStatistics(4, True)
        statistics.bytes = 10
        statistics.sample(None)
        self.assertEqual(list(statistics.end_interval(0, 1, None, False)),
                         ["socket", "start", "end", "seconds", "bytes", "bits_per_second",
                          "omitted", "sender"])

    def test_receiving_streams_show_no_kernel_figures(self):
        """With --bidir the receiving streams are sampled, too."""
        statistics = pyperf3.StreamStatistics(6, False)
        statistics.sample(info(2))
        self.assertNotIn("retransmits", statistics.end_interval(0, 1, info(2), False))


class Samples(unittest.TestCase):
    """Figures of the whole test."""

    def test_extremes_and_mean(self):
        statistics = pyperf3.StreamStatistics(4, True)
        for rtt, cwnd, wnd in ((50, 100, 7), (20, 300, 9), (81, 200, 8)):
            statistics.sample(info(rtt=rtt, cwnd=cwnd, wnd=wnd))
        row = pyperf3.stream_summary(statistics, None, 1.0, 1.0, 1.0)["sender"]
        self.assertEqual((row["max_rtt"], row["min_rtt"], row["mean_rtt"]), (81, 20, 50))
        self.assertEqual((row["max_snd_cwnd"], row["max_snd_wnd"]), (300, 9))

    def test_without_samples_they_are_zero(self):
        statistics = pyperf3.StreamStatistics(4, True)
        statistics.retransmits = 0
        row = pyperf3.stream_summary(statistics, None, 1.0, 1.0, 1.0)["sender"]
        self.assertEqual((row["max_rtt"], row["min_rtt"], row["mean_rtt"]), (0, 0, 0))

    def test_one_sample_is_its_own_mean(self):
        statistics = pyperf3.StreamStatistics(4, True)
        statistics.sample(info(rtt=51))
        row = pyperf3.stream_summary(statistics, None, 1.0, 1.0, 1.0)["sender"]
        self.assertEqual((row["max_rtt"], row["min_rtt"], row["mean_rtt"]), (51, 51, 51))

    def test_a_new_stream_has_no_figures(self):
        for sender in (True, False):
            statistics = pyperf3.StreamStatistics(4, sender)
            self.assertEqual(statistics.measured_bytes(), 0)
            self.assertEqual(statistics.end_interval(0, 1, None, False)["bytes"], 0)
            statistics.retransmits = 0
            self.assertEqual(statistics.measured_retransmits(), 0)
            row = pyperf3.stream_summary(statistics, None, 1.0, 1.0, 1.0)["sender"]
            self.assertEqual(set(row.get(name, 0) for name in (
                "bytes", "retransmits", "reorder", "max_snd_cwnd", "max_snd_wnd")), {0})

    def test_a_sample_that_fails_changes_nothing(self):
        statistics = pyperf3.StreamStatistics(4, True)
        statistics.sample(info(5))
        statistics.sample(None)
        self.assertEqual(statistics.measured_retransmits(), 5)


def rebuilt(row, remote_knows):
    """Return (statistics, remote result) from which a captured {sender, receiver} came."""
    sender, receiver = row["sender"], row["receiver"]
    statistics = pyperf3.StreamStatistics(sender["socket"], sender["sender"])
    mine, other = (sender, receiver) if sender["sender"] else (receiver, sender)
    statistics.bytes = mine["bytes"] + 1234
    statistics.omitted_bytes = 1234
    remote = None
    if remote_knows:
        count = -1 if sender["sender"] else sender.get("retransmits", -1)
        remote = pyperf3.StreamResult(1, other["bytes"], count, 0, 0, 0, 0, 0, 0, 1.0)
    if "retransmits" in sender:
        if sender["sender"]:
            statistics.retransmits = sender["retransmits"] + 7
            statistics.omitted_retransmits = 7
        statistics.reorder = sender["reorder"]
        statistics.max_snd_cwnd, statistics.max_snd_wnd = (sender["max_snd_cwnd"],
                                                           sender["max_snd_wnd"])
        statistics.max_rtt, statistics.min_rtt = sender["max_rtt"], sender["min_rtt"]
        statistics.rtt_sum, statistics.rtt_count = sender["mean_rtt"] * 3 + 2, 3
    return statistics, remote


class Summaries(unittest.TestCase):
    """stream_summary and summary_sums: the captured ones, made again from their figures."""

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
                    made.append(pyperf3.stream_summary(
                        statistics, remote, times[0], times[1], row["receiver"]["seconds"]))
                    compared += 1
                    with self.subTest(case=name, role=role, suffix=suffix):
                        for half in ("sender", "receiver"):
                            self.same(made[-1][half], row[half])
                with self.subTest(case=name, role=role, suffix=suffix):
                    sums = pyperf3.summary_sums(made, *times)
                    for key, total in zip(("sum_sent", "sum_received"), sums):
                        self.same(total, end[key + suffix])
        self.assertEqual(compared, 62)

    def same(self, made, wanted):
        """Compare figures, of which the captured ones may lack the last digits."""
        self.assertEqual(list(made), list(wanted))
        for name, value in wanted.items():
            self.assertIsInstance(made[name], (int, float))
            self.assertAlmostEqual(made[name], value, delta=abs(value) * 1e-14)

    def test_seconds_of_the_receiver_are_this_ends_own(self):
        statistics = pyperf3.StreamStatistics(4, True)
        row = pyperf3.stream_summary(statistics, None, 2.001315, 2.001415, 2.001315)["receiver"]
        self.assertEqual((row["end"], row["seconds"]), (2.001415, 2.001315))

    def test_the_other_ends_half_is_zero_where_it_is_not_known(self):
        for sender in (True, False):
            statistics = pyperf3.StreamStatistics(4, sender)
            statistics.bytes = 1000
            row = pyperf3.stream_summary(statistics, None, 1.0, 1.0, 1.0)
            known, other = ("sender", "receiver") if sender else ("receiver", "sender")
            self.assertEqual(row[known]["bytes"], 1000)
            self.assertEqual((row[other]["bytes"], row[other]["bits_per_second"]), (0, 0))
            self.assertNotIn("retransmits", row["receiver"])
            self.assertIs(row["receiver"]["sender"], sender)

    def test_retransmits_of_a_server_that_has_no_count_are_left_out(self):
        statistics = pyperf3.StreamStatistics(4, False)
        remote = pyperf3.StreamResult(1, 5, -1, 0, 0, 0, 0, 0, 0, 1.0)
        row = pyperf3.stream_summary(statistics, remote, 1.0, 1.0, 1.0)
        self.assertNotIn("retransmits", row["sender"])
        self.assertEqual(row["sender"]["bytes"], 5)
        self.assertNotIn("retransmits", pyperf3.summary_sums([row], 1.0, 1.0)[0])

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


class KernelFigures(unittest.TestCase):
    """decode_tcp_info: the kernel's struct, whose end grew with the years."""

    def structure(self, size):
        """Return a tcp_info of `size` bytes whose words tell where they stand."""
        return struct.pack("=64I", *range(1000, 1064))[:size]

    def test_full(self):
        got = pyperf3.decode_tcp_info(self.structure(256))
        # The congestion window (offset 80) counts segments of snd_mss (offset 16).
        self.assertEqual(got, pyperf3.TcpInfo(
            retransmits=1025, snd_cwnd=1020 * 1004, snd_wnd=1057, rtt=1017, rttvar=1018,
            pmtu=1015, reorder=1055))

    def test_as_long_as_it_must_be(self):
        got = pyperf3.decode_tcp_info(self.structure(232))
        self.assertEqual((got.snd_wnd, got.reorder), (1057, 1055))

    def test_short_ones_of_old_kernels(self):
        got = pyperf3.decode_tcp_info(self.structure(104))
        self.assertEqual((got.retransmits, got.snd_cwnd, got.rtt), (1025, 1020 * 1004, 1017))
        self.assertEqual((got.snd_wnd, got.reorder), (-1, -1))
        got = pyperf3.decode_tcp_info(self.structure(224))
        self.assertEqual((got.snd_wnd, got.reorder), (-1, 1055))

    def test_without_the_count_there_is_nothing(self):
        for size in (0, 8, 92, 100, 103):
            self.assertIsNone(pyperf3.decode_tcp_info(self.structure(size)))

    def test_figures_that_are_missing_do_not_become_the_greatest(self):
        statistics = pyperf3.StreamStatistics(4, True)
        statistics.sample(pyperf3.decode_tcp_info(self.structure(104)))
        row = pyperf3.stream_summary(statistics, None, 1.0, 1.0, 1.0)["sender"]
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
