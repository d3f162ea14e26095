"""Limits that a client is given (--min-bitrate, --max-loss, ...), and the exit status 4."""

import json
import signal
import time
import unittest

import fakes
import pyperf3
import support

MEGA = 10 ** 6


def settings(line):
    return pyperf3.Settings.from_arguments(("-c h " + line).split())


def totals(sender=True, **more):
    values = dict(socket=None, sender=sender, sent_bytes=1000, received_bytes=1000, sent_packets=0,
                  received_packets=0, lost=0, out_of_order=0, jitter=0.0, drops=None, retransmits=0)
    values.update(more)
    return pyperf3.Totals(**values)


def tcp_end(rate=900 * MEGA, retransmits=7, mean_rtt=50000, sender=True, limits=None):
    """Return the end object of a test of one stream in one direction."""
    row = {"socket": 4, "bytes": 1000, "sender": sender, "mean_rtt": mean_rtt}
    end = {"streams": [{"sender": row, "receiver": dict(row)}], "pyperf3": {"connect_seconds": 0.1},
           "sum_sent": {"bits_per_second": 10 ** 12, "sender": sender},
           "sum_received": {"bits_per_second": float(rate), "sender": sender}}
    if retransmits is not None:
        end["sum_sent"]["retransmits"] = retransmits
    if limits is not None:
        end["pyperf3"]["limits"] = [dict(limits, socket=4, sender=sender)]
    return end


def udp_end(lost, packets, jitter=1.0):
    return {"streams": [{"udp": {}}], "pyperf3": {},
            "sum": {"lost_percent": lost * 100.0 / packets, "jitter_ms": jitter},
            "sum_sent": {"bits_per_second": 1.0}, "sum_received": {"bits_per_second": 1.0}}


class Figures(unittest.TestCase):
    """What each limit comes to, on documents."""

    def check(self, line, end, *sums):
        limits = pyperf3.limits_of(settings(line))
        return pyperf3.check_figures(limits, end, sums or (totals(),))

    def assertState(self, line, end, state, *sums):
        checks = self.check(line, end, *sums)
        self.assertEqual([check["state"] for check in checks], [state], checks)
        self.assertEqual(pyperf3.status_of_checks(checks),
                         {"ok": 0, "failed": 4, "unknown": 1}[state])
        return checks[0]

    def test_bitrate_at_its_limit_and_beside_it(self):
        for rate, state in ((900 * MEGA - 1, "failed"), (900 * MEGA, "ok"),
                            (900 * MEGA + 1, "ok"), (0, "failed")):
            self.assertState("--min-bitrate 900M", tcp_end(rate), state)
        check = self.assertState("--min-bitrate 900M", tcp_end(941 * MEGA), "ok")
        self.assertEqual(list(check.items()), [
            ("name", "min-bitrate"), ("limit", 900 * MEGA), ("value", 941e6), ("unit", "bit/s"),
            ("state", "ok"), ("direction", "up"), ("figure", "received")])

    def test_bitrate_of_each_direction(self):
        end = tcp_end(900 * MEGA)
        end["sum_received_bidir_reverse"] = {"bits_per_second": 100.0 * MEGA}
        both = totals(), totals(False)
        for line, expected in (
                ("--min-bitrate 100M", [("up", "ok"), ("down", "ok")]),
                ("--min-bitrate 101M", [("up", "ok"), ("down", "failed")]),
                ("--min-bitrate 901M/up", [("up", "failed")]),
                ("--min-bitrate 900M/up --min-bitrate 101M/down",
                 [("up", "ok"), ("down", "failed")])):
            self.assertEqual([(check["direction"], check["state"])
                              for check in self.check(line, end, *both)], expected)
        self.assertState("--min-bitrate 1/down", end, "unknown")
        self.assertState("--min-bitrate 1/up", tcp_end(sender=False), "unknown", totals(False))
        self.assertState("--min-bitrate 1/down", tcp_end(sender=False), "ok", totals(False))

    def test_loss_at_its_limit_and_beside_it(self):
        udp = totals(received_packets=1000, sent_packets=1000, lost=1)
        for lost, state in ((0, "ok"), (1, "ok"), (2, "failed")):
            self.assertState("--max-loss 0.1%", udp_end(lost, 1000), state, udp)
        self.assertState("--max-loss 0.3%", udp_end(3, 1000), "ok", udp)
        self.assertState("--max-loss 0%", udp_end(0, 1000), "ok", udp)
        self.assertState("--max-loss 0%", udp_end(1, 10 ** 9), "failed", udp)

    def test_loss_that_is_not_known(self):
        self.assertState("--max-loss 100%", tcp_end(), "unknown")
        # 3.12 does not tell what of it was in the omitted part.
        self.assertState("--max-loss 100%", udp_end(0, 10), "unknown",
                         totals(lost=None, sent_packets=10, received_packets=10))

    def test_loss_of_everything_is_no_loss_of_nothing(self):
        gone = totals(sent_packets=10, received_bytes=0)
        self.assertEqual(self.assertState("--max-loss 99%", udp_end(0, 10), "failed",
                                          gone)["value"], 100.0)
        self.assertState("--max-jitter 1s", udp_end(0, 10, 0.0), "unknown", gone)
        self.assertState("--max-loss 1%", udp_end(0, 1), "unknown",
                         totals(sent_packets=0, received_bytes=0))

    def test_jitter_at_its_limit_and_beside_it(self):
        udp = totals(sent_packets=10, received_packets=10)
        for jitter, state in ((0.999, "ok"), (1.0, "ok"), (1.001, "failed")):
            for limit in ("1ms", "1000us", "0.001s"):
                self.assertState("--max-jitter " + limit, udp_end(0, 10, jitter), state, udp)
        self.assertState("--max-jitter 1s", tcp_end(), "unknown")

    def test_retransmits_at_their_limit_and_beside_it(self):
        for count, state in ((6, "ok"), (7, "ok"), (8, "failed")):
            self.assertState("--max-retransmits 7", tcp_end(retransmits=count), state)
            self.assertState("--max-retransmits 0.7%", tcp_end(
                retransmits=count, limits={"segments_sent": 1000}), state)
        self.assertState("--max-retransmits 7", tcp_end(retransmits=None), "unknown")
        self.assertState("--max-retransmits 7", udp_end(0, 1), "unknown")
        for limits in (None, {}, {"segments_sent": 0}):
            self.assertState("--max-retransmits 100%", tcp_end(limits=limits), "unknown")

    def test_segments_of_a_receiver_are_not_those_of_its_sender(self):
        end = tcp_end(limits={"segments_sent": 10 ** 6, "rtt_p50_us": 5}, sender=False, mean_rtt=0)
        for line in ("--max-retransmits 100%", "--max-rtt 1s"):
            self.assertState(line, end, "unknown", totals(False))
            end["streams"][0]["sender"]["mean_rtt"] = 5  # with --bidir
            self.assertState(line, end, "unknown", totals(False))

    def test_what_the_other_end_tells(self):
        def end(**facts):
            end = tcp_end(sender=False, mean_rtt=0)
            end["pyperf3"]["remote_limits"] = [dict(facts, sender=True, socket=4)]
            return end
        self.assertState("--max-rtt 50ms", end(rtt_p50_us=50000), "ok", totals(False))
        self.assertState("--max-rtt 50ms", end(rtt_p50_us=50001), "failed", totals(False))
        self.assertState("--max-retransmits 0.7%", end(segments_sent=1000), "ok", totals(False))
        self.assertState("--max-retransmits 0.7%", end(segments_sent=999), "failed", totals(False))
        for value in (None, "1", [1], {}, -1, float("nan"), float("inf"), 2 ** 64, 0, False):
            self.assertState("--max-rtt 50ms", end(rtt_p50_us=value), "unknown", totals(False))
            self.assertState("--max-retransmits 100%", end(segments_sent=value), "unknown",
                             totals(False))

    def test_the_other_end_is_asked_only_for_what_it_alone_knows(self):
        for line, asks in (
                ("", False), ("--min-bitrate 1 --max-loss 1% --max-jitter 1ms -R", False),
                ("-R --max-retransmits 5", False), ("--max-retransmits 5%", False),
                ("-R --max-retransmits 5%", True), ("--bidir --max-retransmits 5%", True),
                ("--max-rtt 1ms", True), ("-R --max-rtt 1ms", True)):
            self.assertEqual(settings(line).asks_for_facts, asks, line)

    def test_rtt_at_its_limit_and_beside_it(self):
        for value, state in ((49999, "ok"), (50000, "ok"), (50001, "failed")):
            for limit in ("50ms", "50000us", "0.05s", ".05s"):
                check = self.assertState("--max-rtt " + limit, tcp_end(mean_rtt=value), state)
                self.assertEqual(check["figure"], "mean at the sending end")
                check = self.assertState("--max-rtt " + limit, tcp_end(
                    mean_rtt=1, limits={"rtt_p50_us": value}), state)
                self.assertEqual(check["figure"], "median at the sending end")
        self.assertState("--max-rtt 1.001s", tcp_end(mean_rtt=1001000), "ok")
        for end in (tcp_end(mean_rtt=0), udp_end(0, 1)):
            self.assertState("--max-rtt 9s", end, "unknown")

    def test_the_slowest_stream_counts(self):
        end = tcp_end(mean_rtt=10)
        end["streams"] += tcp_end(mean_rtt=2000)["streams"]
        self.assertState("--max-rtt 1ms", end, "failed")
        end = tcp_end(limits={"rtt_p50_us": 10})
        end["pyperf3"]["limits"].append({"sender": True, "rtt_p50_us": 2000})
        self.assertState("--max-rtt 1ms", end, "failed")
        end["pyperf3"]["limits"][0]["rtt_p50_us"] = None
        end["streams"][0]["sender"]["mean_rtt"] = 5000
        self.assertEqual(self.assertState("--max-rtt 1ms", end, "failed")["value"], 5.0)

    def test_status_of_several(self):
        for states, status in ((["ok", "ok"], 0), (["ok", "failed"], 4), (["ok", "unknown"], 1),
                               (["unknown", "failed"], 4), ([], 0)):
            self.assertEqual(pyperf3.status_of_checks([{"state": each} for each in states]), status)


class Lines(unittest.TestCase):
    def line(self, line, end, *sums):
        check, = pyperf3.check_figures(pyperf3.limits_of(settings(line)), end, sums or [totals()])
        line, = pyperf3.TextRenderer().render(pyperf3.Event(event="diagnosis",
                                                            data={"checks": [check]}))
        self.assertNotRegex(line, "sender|receiver|connected|CPU")
        return line

    def test_lines(self):
        udp = totals(sent_packets=1000, received_packets=1000)
        for line, end, sums, text in (
                ("--min-bitrate 900M", tcp_end(941 * MEGA), (),
                 "min-bitrate: 941 >= 900 Mbit/s ok (received)"),
                ("--min-bitrate 900M", tcp_end(880 * MEGA), (),
                 "min-bitrate: FAILED: 880 < 900 Mbit/s (received)"),
                ("--min-bitrate 2G", tcp_end(941 * MEGA), (),
                 "min-bitrate: FAILED: 0.941 < 2 Gbit/s (received)"),
                ("--min-bitrate 900M", tcp_end(900 * MEGA - 1), (),
                 "min-bitrate: FAILED: 899.999999 < 900 Mbit/s (received)"),
                ("--min-bitrate 500", tcp_end(12345678), (),
                 "min-bitrate: 12345678 >= 500 bit/s ok (received)"),
                ("--min-bitrate 1/down", tcp_end(), (),
                 "min-bitrate: unknown: nothing was sent down (limit 1 bit/s)"),
                ("--max-loss 0.1%", udp_end(0, 1000), (udp,),
                 "max-loss: 0 <= 0.1% ok (counted on arrival)"),
                ("--max-loss 0.1%", udp_end(2, 1000), (udp,),
                 "max-loss: FAILED: 0.2 > 0.1% (counted on arrival)"),
                ("--max-loss 0.1%", tcp_end(), (),
                 "max-loss: unknown: only a test of UDP tells what was lost (limit 0.1%)"),
                ("--max-retransmits 5", tcp_end(retransmits=123456), (),
                 "max-retransmits: FAILED: 123456 > 5 segments (at the sending end)"),
                ("--max-retransmits 1%", tcp_end(limits={"segments_sent": 2800}), (),
                 "max-retransmits: 0.25 <= 1% ok (at the sending end)"),
                ("--max-rtt 50ms", tcp_end(mean_rtt=1234), (),
                 "max-rtt: 1.234 <= 50 ms ok (mean at the sending end)"),
                ("--max-jitter 1us", udp_end(0, 1000, 0.02), (udp,),
                 "max-jitter: FAILED: 0.02 > 0.001 ms (measured on arrival)")):
            self.assertEqual(self.line(line, end, *sums), "Check " + text)

    def test_numbers_that_are_nearly_the_same(self):
        for one, other, texts in (
                (900.0, 900, ["900", "900"]), (899.9999, 900, ["899.9999", "900"]),
                (1e-7, 0, ["1e-07", "0"]), (123456, 123457, ["123456", "123457"]),
                (0.30000001, 0.3, ["0.30000001", "0.3"]),
                (1e9, 1e9 + 1, ["1000000000", "1000000001"])):
            self.assertEqual(pyperf3.format_apart(one, other), texts)


class Arguments(unittest.TestCase):
    def test_values(self):
        for line, name, value in (
                ("--min-bitrate 1.5M", "min_bitrate", ((1500000, None),)),
                ("--min-bitrate 1K/up --min-bitrate 2/down", "min_bitrate",
                 ((1000, "up"), (2, "down"))),
                ("", "min_bitrate", ()), ("", "max_rtt", None),
                ("--max-loss 0.5%", "max_loss", 0.5), ("--max-loss 1", "max_loss", 1.0),
                ("--max-retransmits 10", "max_retransmits", (10, "segments")),
                ("--max-retransmits 0.5%", "max_retransmits", (0.5, "%")),
                ("--max-rtt 1.001s", "max_rtt", 1001.0), ("--max-rtt 70us", "max_rtt", 0.07),
                ("--max-jitter 2.5ms", "max_jitter", 2.5)):
            self.assertEqual(getattr(settings(line), name), value)
        made = pyperf3.Settings(client="h", min_bitrate=["1M/up", 2e6], max_loss=0.5,
                                max_retransmits=3, max_rtt="5ms", max_jitter="1us")
        self.assertEqual((made.min_bitrate, made.max_loss, made.max_retransmits, made.max_rtt,
                          made.max_jitter),
                         (((1000000, "up"), (2000000, None)), 0.5, (3, "segments"), 5.0, 0.001))

    def test_what_is_refused(self):
        for name, texts in (("min-bitrate", ("", "x", "-1", "1M/", "1M/left", "1P", "1M/up/down")),
                            ("max-loss", ("", "x", "-1%", "101%", "nan%", "%", "1%%")),
                            ("max-retransmits", ("", "-1", "1.5", "x", "101%")),
                            ("max-rtt", ("", "5", "5m", "-5ms", "ms", "5 ms", "5msx", "nans")),
                            ("max-jitter", ("5", "1e3ms"))):
            for text in texts:
                with self.subTest(name=name, text=text):
                    with self.assertRaises(pyperf3.IperfError) as caught:
                        pyperf3.Settings.from_arguments(["-c", "h", "--" + name, text])
                    self.assertEqual(caught.exception.number, 911)
        for value in (5, 0.5):  # of what?
            with self.assertRaises(pyperf3.IperfError):
                pyperf3.Settings(client="h", max_rtt=value)
        left = support.run(support.OURS + ("-c", "h", "--max-rtt", "5"))
        self.assertEqual((left.code, left.err.split("\n")[0]), (
            1, "iperf3: parameter error - bogus value for a limit: '5' (it should be like 50ms,"
               " 800us or 1.5s)"))
        left = support.run(support.OURS + ("-s", "--min-bitrate", "5"))
        self.assertIn("client only (--min-bitrate)", left.err)


class Runs(support.ServerCase):
    """Whole programs: exit status, lines, documents."""

    @classmethod
    def setUpClass(cls):
        cls.program, cls.port = support.start_server(support.OURS)

    @classmethod
    def tearDownClass(cls):
        with cls.program:
            cls.program.signal()
            cls.program.finish(20.0)

    def client(self, line, port=None):
        return support.run(support.OURS + ("-c", "127.0.0.1", "-p", port or self.port)
                           + tuple(line.split()))

    def outcome(self, line, **more):
        """Run a client with -J; returns its status, and (name, direction, state) of each check."""
        left = self.client(line + " -J", **more)
        self.assertEqual(left.err, "")
        document = left.json()
        self.assertNotIn("error", document)
        end = list(document["end"])
        self.assertNotIn("pyperf3", (end[0], end[-1]))
        last = left.out.rsplit('"bits_per_second"', 1)[1]
        self.assertNotIn('"checks"', last)
        return left.code, [(check["name"], check["direction"], check["state"])
                           for check in document["end"]["pyperf3"]["checks"]]

    def test_text(self):
        left = self.client("-n 1M --min-bitrate 1K --max-retransmits 1000000")
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertRegex(left.out, r" receiver\n"
                                   r"Check min-bitrate: [0-9.]+ >= 1 Kbit/s ok \(received\)\n"
                                   r"Check max-retransmits: \d+ <= 1000000 segments ok \(at the"
                                   r" sending end\)\n\niperf Done\.\n\Z")
        left = self.client("-n 1M --min-bitrate 100000G")
        self.assertEqual((left.code, left.err), (4, ""), left)
        self.assertRegex(left.out, r"\nCheck min-bitrate: FAILED: [0-9.]+ < 100000 Gbit/s"
                                   r" \(received\)\n\niperf Done\.\n\Z")
        left = self.client("-n 1M --bidir --min-bitrate 1K/down -T title")
        self.assertRegex(left.out, r"\ntitle:  Check min-bitrate down: .* ok \(received\)\n")

    def test_documents(self):
        for line, status, checks in (
                ("-n 1M --min-bitrate 1", 0, [("min-bitrate", "up", "ok")]),
                ("-n 1M --min-bitrate 100000G", 4, [("min-bitrate", "up", "failed")]),
                ("-n 1M -R --min-bitrate 1", 0, [("min-bitrate", "down", "ok")]),
                ("-n 1M -R --min-bitrate 100000G/down", 4, [("min-bitrate", "down", "failed")]),
                ("-n 1M -R --min-bitrate 1/up", 1, [("min-bitrate", "up", "unknown")]),
                ("-t 1 -b 10M --bidir -P 2 --min-bitrate 1/up --min-bitrate 100000G/down", 4,
                 [("min-bitrate", "up", "ok"), ("min-bitrate", "down", "failed")]),
                ("-t 1 -b 10M --bidir --min-bitrate 1", 0,
                 [("min-bitrate", "up", "ok"), ("min-bitrate", "down", "ok")]),
                ("-n 1M --max-loss 0%", 1, [("max-loss", "up", "unknown")]),
                ("-n 1M --max-loss 0% --min-bitrate 100000G", 4,
                 [("min-bitrate", "up", "failed"), ("max-loss", "up", "unknown")]),
                ("-n 1M --tls --min-bitrate 1", 0, [("min-bitrate", "up", "ok")]),
                ("-n 1M -R --max-rtt 9s --max-retransmits 100%", 0,
                 [("max-retransmits", "down", "ok"), ("max-rtt", "down", "ok")]),
                ("-t 1 -b 10M --bidir -P 2 --max-rtt 1us --max-retransmits 100%", 4,
                 [("max-retransmits", "up", "ok"), ("max-retransmits", "down", "ok"),
                  ("max-rtt", "up", "failed"), ("max-rtt", "down", "failed")]),
                ("-u -n 100K -b 10M --max-loss 0 --max-jitter 10s", 0,
                 [("max-loss", "up", "ok"), ("max-jitter", "up", "ok")]),
                ("-u -n 100K -b 10M -R --max-loss 0 --max-jitter 0us --min-bitrate 1K", 4,
                 [("min-bitrate", "down", "ok"), ("max-loss", "down", "ok"),
                  ("max-jitter", "down", "failed")]),
                ("-u -n 100K -b 10M --bidir --max-loss 0", 0,
                 [("max-loss", "up", "ok"), ("max-loss", "down", "ok")]),
                ("-u -n 100K -b 10M --max-rtt 1s --max-retransmits 0", 1,
                 [("max-retransmits", "up", "unknown"), ("max-rtt", "up", "unknown")])):
            with self.subTest(line=line):
                self.assertEqual(self.outcome(line), (status, checks))

    def test_json_stream(self):
        for more in ("", " --json-stream-full-output"):
            left = self.client("-n 1M --json-stream --min-bitrate 100000G" + more)
            self.assertEqual((left.code, left.err), (4, ""), left)
            events = [json.loads(line) for line in left.out.split("\n{\n")[0].split("\n") if line]
            self.assertEqual(events[-1]["event"], "end")
            check, = events[-1]["data"]["pyperf3"]["checks"]
            self.assertEqual(check["state"], "failed")
            self.assertEqual({event["event"] for event in events}, {"start", "interval", "end"})
            self.assertEqual(left.out.count('"checks"'), 2 if more else 1)

    def test_without_limits_there_are_none(self):
        left = self.client("-n 1M -J")
        self.assertNotIn("checks", left.out)
        self.assertNotIn("Check", self.client("-n 1M").out)

    def test_connecting_alone_measures_nothing(self):
        left = self.client("--connect-only --min-bitrate 1K")
        self.assertEqual((left.code, left.out.split("\n")[2]), (
            1, "Check min-bitrate: unknown: nothing was sent (limit 1 Kbit/s)"), left)

    def test_a_system_that_does_not_tell(self):
        left = support.run(support.with_limits(_SOCKET_TCP_INFO=None) + (
            "-c", "127.0.0.1", "-p", self.port, "-n", "1M", "--max-rtt", "9s",
            "--max-retransmits", "1000000", "--min-bitrate", "1"))
        self.assertEqual((left.code, left.err), (1, ""), left)
        unknown = "unknown: the sending end did not tell (limit "
        self.assertIn("\nCheck max-retransmits: %s1000000 segments)\nCheck max-rtt: %s9000 ms)\n"
                      % (unknown, unknown), left.out)

    def test_loopback(self):
        left = support.run(support.OURS + ("--loopback", "-n", "1M", "--min-bitrate", "100000G"))
        self.assertEqual(left.code, 4, left)

    def test_a_killed_server_and_an_interrupt(self):
        for kill, more, status in (("server", (), 1), ("client", (), 1), ("client", ("-J",), 1),
                                   ("client", ("--verdict",), 1)):
            server, port = support.start_server(support.OURS)
            with server, support.Program(
                    support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "20", "-i", "0.2",
                                    "-b", "1M", "--min-bitrate", "1", "--json-stream")
                    + more) as client:
                client.wait_for('"interval"')
                if kill == "server":
                    server.signal(signal.SIGKILL)
                else:
                    client.signal(signal.SIGINT)
                left = client.finish()
            self.assertEqual(left.code, status, left)
            self.assertNotIn("checks", left.out)

    def test_no_server(self):
        left = self.client("--min-bitrate 1", port=support.free_port())
        self.assertEqual((left.code, left.out), (1, ""))

    def test_a_reader_that_goes_is_no_success(self):
        import os
        import subprocess
        for line, status in (("", 0), ("--min-bitrate 1", 1)):
            ours, theirs = os.pipe()
            process = subprocess.Popen(
                [str(word) for word in support.OURS + (
                    "-c", "127.0.0.1", "-p", self.port, "-t", "3", "-i", "0.1", "-b", "1M")]
                + line.split(), stdout=theirs, stderr=subprocess.DEVNULL,
                env=support.environment())
            os.close(theirs)
            os.read(ours, 10)
            os.close(ours)
            self.assertEqual(process.wait(support.LIMIT), status)

    def test_the_module_tells(self):
        document = pyperf3.Client(pyperf3.Settings(
            client="127.0.0.1", port=self.port, bytes="1M", min_bitrate="100000G")).run()
        check, = document["end"]["pyperf3"]["checks"]
        self.assertEqual((check["state"], check["unit"]), ("failed", "bit/s"))

    def test_a_closed_connection_at_the_end(self):
        """A server that goes before its results is an error, not a limit that was kept."""
        with fakes.FakeServer(fakes.conversation(b"\x09", 4)) as server:
            left = self.client("--min-bitrate 1", port=server.port)
        self.assertEqual(left.code, 1)
        self.assertNotIn("Check", left.out)


class RealServers(support.ServerCase):
    """What a real iperf3 server tells, and does not."""

    def test_all(self):
        for version in ("3.22", "3.9"):
            server, port = support.start_server(support.real(version))
            with server:
                for line, status, states in (
                        ("-n 1M --min-bitrate 1 --max-retransmits 100000 --max-rtt 9s", 0,
                         ["ok"] * 3),
                        ("-n 1M --min-bitrate 100000G", 4, ["failed"]),
                        ("-n 1M -R --min-bitrate 1 --max-retransmits 100000", 0, ["ok"] * 2),
                        ("-n 1M -R --max-rtt 9s", 1, ["unknown"]),
                        ("-n 1M -R --max-retransmits 100%", 1, ["unknown"]),
                        ("-t 1 --bidir -b 10M --min-bitrate 1M", 0, ["ok"] * 2),
                        ("-u -t 1 -b 10M --max-loss 50% --max-jitter 1s --min-bitrate 1M", 0,
                         ["ok"] * 3),
                        ("-u -t 1 -b 10M -R --max-loss 50% --max-jitter 0us", 4,
                         ["ok", "failed"])):
                    with self.subTest(version=version, line=line):
                        for _ in range(40):  # the last test may not be over there
                            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-J")
                                               + tuple(line.split()))
                            if "busy" not in left.json().get("error", ""):
                                break
                            time.sleep(0.1)
                        self.assertEqual((left.code, left.err), (status, ""), left)
                        self.assertEqual([check["state"] for check in
                                          left.json()["end"]["pyperf3"]["checks"]], states)


if __name__ == "__main__":
    unittest.main()
