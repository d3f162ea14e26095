"""What is wrong with a path (--diagnose): on paths with known faults, with servers of all kinds."""

import contextlib
import json
import os
import signal
import time
import unittest
import unittest.mock

import path
import pyperf3
import support

# The program with a shorter look at the idle path, and one that hardly waits between tests.
QUICK = support.with_limits(**{"Probing._IDLE": 0.2})
HASTY = support.with_limits(**{"Probing._IDLE": 0.2, "BETWEEN_TESTS": 0.5})

# A path; what differs of its preset; the limit of the way up; and what the screen says to do.
SCENES = (
    ("bloated", {}, "queue", r"SQM \(cake, fq_codel\)"),
    ("random_loss_short", dict(rate=100e6, queue=500e3), "random_loss",
     r"Up: Look at cables, optics, Wi-Fi, duplex; -C bbr bears it better\."),
    ("receiver_window_long", dict(rate=50e6, queue=625e3), "receiver_window",
     r'On the server: sysctl -w net\.ipv4\.tcp_rmem="4096 65536 \d+"'),
    ("mtu_black_hole", {}, "mtu_black_hole",
     r"Path MTU: both ways 1400: .* 1\. Packets above 1400 bytes vanish \(up and down\): "),
    ("full_queue", dict(rate=20e6, queue=60e3), "queue", r"What to do: nothing stands out\."),
)


def run_scene(name, *arguments, **changes):
    """Return what --diagnose leaves on a preset's path."""
    program = changes.pop("program", support.OURS)
    with path.Scene(name, **changes) as scene:
        with path.serving(scene.path, tuple(program) + ("-s", "--logfile", os.devnull)):
            return support.run(scene.path.client + QUICK + (
                "-c", path.SERVER, "--diagnose") + scene.client + arguments)


class ScreenCase(support.ServerCase):
    """What a screen has to be."""

    def screen(self, left):
        """Return the lines of the screen, which have to fit one; and be behind a line per test."""
        lines = left.lines()
        begin = next(number for number, line in enumerate(lines)
                     if line.startswith("Diagnosis of "))
        screen = lines[begin:]
        self.assertLessEqual(len(screen), 24, left)
        self.assertLess(max(map(len, screen)), 80, left)
        return screen

    def row(self, left, name):
        """Return the line of the table that is about a test."""
        return next(line for line in self.screen(left)
                    if line.startswith(name + " " * (11 - len(name))))

    def client(self, port, *arguments, **more):
        program = more.pop("program", QUICK)
        return support.run(program + ("-c", "127.0.0.1", "-p", port, "--diagnose") + arguments)


class Paths(ScreenCase):
    """The screen names what is wrong."""

    cores = 1.0

    def test_the_screen_names_what_is_wrong(self):
        support.need_path()
        for (name, changes, code, says), left in support.together(
                lambda name, changes, code, says: run_scene(name, "-t", "3", **changes), SCENES, 5):
            with self.subTest(name):
                self.assertEqual((left.code, left.err), (0, ""), left)
                text = " ".join(" ".join(self.screen(left)).split())
                self.assertRegex(text, says)
                wrong = "nothing stands out" in text
                self.assertEqual(wrong, name == "full_queue", left)
                self.check_row(name, self.row(left, "up"))

    def check_row(self, name, row):
        grade = {"bloated": r"F \(\+\d+ ms\)", "full_queue": r"A \(\+\d+ ms\)",
                 "mtu_black_hole": "-"}.get(name, "A")
        self.assertRegex(row, r"^up +[\d.]+ [kM]?bit/s +[\d.]+ % +[\d.]+ / [\d.]+ ms +" + grade)

    def test_a_real_server(self):
        support.need_path()
        left = run_scene("bloated", "-t", "2", program=support.real("3.22"))
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertIn("there an iperf3", left.out)
        self.assertRegex(self.row(left, "up"), r"ms +[CDF] ")
        self.assertIn("not measured", self.row(left, "down"))
        self.assertIn("SQM", left.out)


class Told(ScreenCase):
    """On this host: how it tells what it does, and what becomes of it when something fails."""

    def test_the_loopback(self):
        left = support.run(QUICK + ("--loopback", "--diagnose", "-t", "1"))
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertRegex(left.out, r"\Aup: [\d.]+ .bit/s\ndown: [\d.]+ .bit/s\nboth up: [\d.]+ "
                                   r".bit/s\nboth down: [\d.]+ .bit/s\nDiagnosis of ")
        self.assertIn("Also: both ends run on this host", left.out)

    def test_the_document(self):
        document = self.client(self.serve(), "-t", "1", "-J", "-b", "20M").json()
        self.assertEqual(list(document), ["diagnose"])
        whole = document["diagnose"]
        self.assertEqual(list(whole), ["host", "port", "phases", "summary"])
        self.assertEqual([each["name"] for each in whole["phases"]], ["up", "down", "both"])
        for each in whole["phases"]:
            self.assertIn("sum_sent", each["document"]["end"])
            self.assertIn("verdict", each["document"]["end"]["pyperf3"])
            self.assertEqual(each["document"]["start"]["test_start"]["num_streams"], 4)
            self.assertEqual(each["document"]["start"]["test_start"]["duration"], 1)
        summary = whole["summary"]
        self.assertEqual([(row["phase"], row["direction"]) for row in summary["rows"]],
                         [("up", "up"), ("down", "down"), ("both", "up"), ("both", "down")])
        self.assertEqual(summary["rows"][0]["limit"]["code"], "sender_rate")
        self.assertEqual(summary["advice"][0]["code"], "sender_rate")
        self.assertEqual((summary["complete"], summary["healthy"]), (True, True))
        self.assertNotIn("bits_per_second", json.dumps(summary))

    def test_a_stream_of_events(self):
        port = self.serve()
        left = self.client(port, "-t", "1", "--json-stream", "-P", "1")
        events = [json.loads(line) for line in left.lines()]
        self.assertEqual([(each["event"], each.get("phase")) for each in events], [
            (name, phase) for phase in ("up", "down", "both")
            for name in ("start", "interval", "end")] + [("diagnose", None)])
        self.assertTrue(events[-1]["data"]["complete"])
        self.assertEqual(events[0]["data"]["test_start"]["num_streams"], 1)

    def test_each_tests_own_text_with_v(self):
        left = support.run(QUICK + ("--loopback", "--diagnose", "-t", "1", "-V", "-P", "2",
                                           "-i", "0"))
        for name in ("up", "down", "both"):
            self.assertRegex(left.out, r"(?m)^%s: \[SUM\].* sec " % name)
        self.screen(left)

    def test_a_busy_server_is_waited_for(self):
        port = self.serve()
        with support.Program(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "2")) as other:
            other.wait_for("[ ID]")
            left = self.client(port, "-t", "1")
        self.assertEqual(left.code, 0, left)
        self.assertEqual(left.err, "warning: up: waiting up to 10 seconds for a server: the server"
                                   " is busy running a test\n")
        self.assertTrue(self.row(left, "up"))

    def test_no_server(self):
        port, begin = support.free_port(), time.monotonic()
        left = self.client(port, "-t", "1")
        self.assertLess(time.monotonic() - begin, 5.0)
        self.assertEqual((left.code, left.out), (1, "up: unable to connect to server - server may"
                                                    " have stopped running or use a different port,"
                                                    " firewall issue, etc.: Connection refused\n"))
        self.assertRegex(left.err, r"\Aiperf3: up: error - unable to connect to server .*\n\Z")
        document = self.client(port, "-J").json()
        self.assertIn("unable to connect", document["error"])
        self.assertEqual(len(document["diagnose"]["phases"]), 1)

    def test_a_server_that_comes_later(self):
        port = support.free_port()
        with support.Program(QUICK + ("-c", "127.0.0.1", "-p", port, "--diagnose", "--wait",
                                      "30", "-t", "1")) as client:
            client.wait_for_error("waiting up to 30 seconds")
            with support.Program(support.OURS + ("-s", "-p", port)):
                self.assertEqual(client.finish().code, 0)

    def test_an_interrupt_tells_what_is_known(self):
        port = self.serve()
        with support.Program(QUICK + ("-c", "127.0.0.1", "-p", port, "--diagnose", "-t",
                                      "2")) as client:
            client.wait_for("up: ")
            time.sleep(1.5)  # idle, and then under load
            client.signal(signal.SIGINT)
            left = client.finish()
        self.assertNotIn("one with -1", left.out)
        self.assertEqual(left.code, 1)
        self.assertRegex(self.row(left, "up"), r"bit/s .* ms ")
        self.assertRegex(self.row(left, "down"), r"bit/s +\S+ +ended early: interrupted$")
        for name in ("both up", "both down"):
            self.assertRegex(self.row(left, name), "not measured: it was not begun")
        self.assertIn("down: interrupt - the client has terminated by signal", left.err)

    def test_an_interrupt_before_the_first_load(self):
        with support.Program(support.OURS + ("--loopback", "--diagnose")) as client:
            time.sleep(1.0)  # it looks at the idle path
            client.signal(signal.SIGINT)
            left = client.finish()
        self.assertEqual(left.code, 1)
        self.assertRegex(left.out, r"(?m)^Latency when idle: [\d.]+ ms")
        self.assertRegex(self.row(left, "up"), "not measured: interrupted$")

    def test_a_server_of_one_test(self):
        for program in (support.OURS, support.real("3.22")):
            with self.subTest(program):
                port = self.serve("-1", program=program)
                left = self.client(port, "-t", "1", program=HASTY)
                self.assertEqual(left.code, 1, left)
                self.assertRegex(self.row(left, "up"), "bit/s ")
                self.assertRegex(self.row(left, "down"), "not measured: unable to connect")
                self.assertRegex(self.row(left, "both up"), "not measured: unable to connect")
                self.assertIn(" 1. The server was not there for the next test: one with -1",
                              left.out)
                self.assertEqual(left.err.count("waiting up to"), 1, left)

    def test_a_server_that_ends_in_a_test(self):
        port = support.free_port()
        server = support.Program(support.OURS + ("-s", "-p", port))
        with server:
            support.wait_for_listener(server, port)
            with support.Program(HASTY + (
                    "-c", "127.0.0.1", "-p", port, "--diagnose", "-t", "2")) as client:
                client.wait_for("up: ")
                time.sleep(1.5)
                server.signal()
                left = client.finish()
        self.assertEqual(left.code, 1, left)
        self.assertRegex(self.row(left, "down"), "ended early: the server has terminated")
        self.assertRegex(self.row(left, "both up"), "not measured: unable to connect")

    def test_limits_are_held_against_each_test(self):
        port = self.serve()
        left = self.client(port, "-t", "1", "--min-bitrate", "1M/up", "--min-bitrate",
                           "900T/down", "-b", "10M")
        self.assertEqual(left.code, 4, left)
        screen = self.screen(left)
        self.assertEqual(len([line for line in screen if "FAILED" in line]), 2, left)
        self.assertIn("Checks: 2 of 4 kept", screen)

    def test_datagrams(self):
        left = self.client(self.serve(), "-t", "1", "-u", "-b", "5M")
        self.assertEqual(left.code, 0, left)
        self.assertIn("Lost", left.out)
        self.assertRegex(self.row(left, "both down"), r"(19|20|21)[.\d]* Mbit/s")


class Module(support.ServerCase):
    """As a module."""

    def test_a_document_and_events(self):
        port = self.serve()
        settings = pyperf3.Settings(client="127.0.0.1", port=port, diagnose=True, time=1,
                                    interval=0)
        with unittest.mock.patch.object(pyperf3, "SURVEY_TESTS", pyperf3.SURVEY_TESTS[:1]):
            names = [(event["event"], event.get("phase")) for event in pyperf3.Survey(settings)]
            document = pyperf3.Survey(settings).run()
        self.assertEqual(names.count(("phase", "up")), 2)
        self.assertEqual(names[-2:], [("diagnose", None), ("done", None)])
        self.assertEqual(len(document["diagnose"]["phases"]), 1)
        json.dumps(document)

    def test_a_stop_and_an_error(self):
        settings = pyperf3.Settings(client="127.0.0.1", port=self.serve(), diagnose=True, time=1)
        survey, seen = pyperf3.Survey(settings), []
        for event in survey:
            seen.append(event["event"])
            if seen.count("phase") == 2:
                survey.stop()
        self.assertEqual((seen.count("phase"), survey.error.number), (2, 119))
        with self.assertRaises(pyperf3.IperfError) as caught:
            pyperf3.Survey(pyperf3.Settings(client="127.0.0.1", port=support.free_port(),
                                            diagnose=True)).run()
        self.assertEqual(caught.exception.number, 103)
        self.assertIn("diagnose", caught.exception.document)

    def test_a_caller_that_goes_away(self):
        settings = pyperf3.Settings(client="127.0.0.1", port=self.serve(), diagnose=True, time=1)
        events = iter(pyperf3.Survey(settings))
        before = support.descriptors(os.getpid())
        for event in events:
            if event["event"] == "start":
                break
        events.close()
        self.assertLess(support.descriptors(os.getpid()), before)


class Options(unittest.TestCase):
    """What does not go with it, and what each test is asked for."""

    def test_what_does_not_go_with_it(self):
        for words, name in (("-R", "-R"), ("--bidir", "--bidir"), ("-n 1M", "-n"), ("-k 5", "-k"),
                            ("-F f", "-F"), ("--connect-only", "--connect-only"),
                            ("--cport 5", "--cport"), ("-t 0", "-t 0")):
            with self.subTest(words), self.assertRaises(pyperf3.IperfError) as caught:
                pyperf3.Settings.from_arguments(("-c h --diagnose " + words).split())
            self.assertEqual(str(caught.exception), "--diagnose cannot be combined with: " + name)
        with self.assertRaises(pyperf3.IperfError) as caught:
            pyperf3.Settings.from_arguments(["-s", "--diagnose"])
        self.assertEqual(caught.exception.number, 4)

    def test_what_each_test_is_asked_for(self):
        settings = pyperf3.Settings.from_arguments(
            "-c h --diagnose -6 -p 7 -C reno --min-bitrate 5M --min-bitrate 1M/up".split())
        tests = [pyperf3.survey_settings(settings, test, 3) for test in pyperf3.SURVEY_TESTS]
        self.assertEqual([(each.reverse, each.bidirectional) for each in tests],
                         [(False, False), (True, False), (False, True)])
        for each in tests:
            self.assertEqual((each.time, each.timed, each.parallel, each.wait, each.port,
                              each.version6, each.congestion, each.diagnose, each.wants_verdict,
                              each.measures_latency),
                             (5, True, 4, 3, 7, True, "reno", False, True, True))
        self.assertEqual([len(each.min_bitrate) for each in tests], [2, 1, 2])
        self.assertFalse(settings.timed)


def finding(code="queue", way="up", end=None, advice="Do.", kind="limit", **evidence):
    return {"code": code, "kind": kind, "direction": way, "end": end, "share": None,
            "sentence": "the receiver's thing", "detail": None, "advice": advice,
            "evidence": evidence}


def latency(loaded=40.0, idle=20.0, grade="A"):
    return {"source": "udp", "grade": grade, "rpm": 1234, "rpm_class": "good",
            "increase_ms": loaded - idle, "idle": {"p50_ms": idle, "p95_ms": idle + 1},
            "loaded": {"p50_ms": loaded, "p95_ms": loaded + 9}}


def document(rates, verdict=(), **own):
    """Return as much of a test's document as a summary looks at."""
    end = {"pyperf3": dict(verdict=list(verdict), **own)}
    for suffix, rate in zip(pyperf3.DIRECTIONS, rates):
        end["sum_sent" + suffix] = {"bits_per_second": rate, "retransmits": 5, "bytes": 1}
        end["sum_received" + suffix] = {"bits_per_second": rate, "bytes": 1}
    end["sender_tcp_congestion"] = "cubic"
    return {"start": {"connected": [{"remote_host": "192.0.2.1"}],
                      "timestamp": {"time": "Wed, 02 Dec 2026 20:00:00 GMT"},
                      "test_start": {"protocol": "TCP", "num_streams": 4, "duration": 5}},
            "end": end}


class Summaries(unittest.TestCase):
    """Of documents to a summary, and of that to a screen."""

    SETTINGS = pyperf3.Settings(client="host", diagnose=True)

    def summarize(self, *documents, errors=(None, None, None)):
        return pyperf3.summarize_survey(self.SETTINGS, [
            pyperf3.Surveyed(test, document, error, error is not None)
            for test, document, error in zip(pyperf3.SURVEY_TESTS, documents, errors)])

    def screen(self, summary):
        lines = pyperf3.SurveyTextRenderer().render(pyperf3.Event(event="diagnose", data=summary))
        self.assertLessEqual(len(lines), 24, lines)
        self.assertLess(max(map(len, lines)), 80, lines)
        return "\n".join(lines)

    def healthy(self, **own):
        own.setdefault("latency", latency())
        return [document((9e6,), **own), document((9e6,), **own), document((8e6, 8e6), **own)]

    def codes(self, summary):
        return [each["code"] for each in summary["advice"]]

    def test_nothing_stands_out(self):
        summary = self.summarize(*self.healthy())
        self.assertTrue(summary["healthy"])
        self.assertEqual(summary["advice"], [])
        text = self.screen(summary)
        self.assertIn("What to do: nothing stands out.", text)
        self.assertIn("up         9 Mbit/s     5        40.0 / 49.0 ms   A (+20 ms)    1234 good",
                      text)
        self.assertIn("Latency when idle: 20.0 ms, 95 % below 21.0 ms (UDP probes)", text)

    def test_the_path_mtu(self):
        summary = self.summarize(*self.healthy(mtu={
            "up": {"mtu": 1500, "router": "192.0.2.9"}, "down": {"mtu": 1400, "black_hole": True},
            "mss": 1448, "mss_mtu": 1500}))
        self.assertEqual(self.codes(summary), ["mtu_black_hole"])
        self.assertFalse(summary["healthy"])
        text = " ".join(self.screen(summary).split())
        self.assertIn("Path MTU: up 1500 (limited by 192.0.2.9, which says so), down 1400: larger"
                      " packets vanish silently", text)
        self.assertIn("1. Packets above 1400 bytes vanish (down): ", text)
        self.assertIn("clamp the MSS to 1360", text)
        hint = self.summarize(*self.healthy(mtu={
            "up": {"mtu": 1500}, "down": {"mtu": 1400, "black_hole": True}, "mss": 1348,
            "mss_mtu": 1400, "clamped": True}))
        self.assertEqual((self.codes(hint), hint["healthy"]), (["mtu_black_hole"], True))

    def test_most_useful_advice_comes_first_and_once(self):
        window = finding("receiver_window", "up", "remote", "On the receiver: sysctl -w x")
        loss = finding("random_loss", "down", None, "Look at cables.")
        ramp = finding("ramp", "up", None, "Measure longer.", "note")
        documents = [document((9e6,), [window, ramp], latency=latency(820, 20, "F")),
                     document((5e6,), [loss], latency=latency()),
                     document((9e6, 5e6), [window, loss], latency=latency())]
        summary = self.summarize(*documents)
        self.assertEqual(self.codes(summary),
                         ["receiver_window", "random_loss", "queue", "ramp"])
        text = self.screen(summary)
        self.assertIn("up, both up: the server's thing.", text)
        self.assertIn("down, both down: this host's thing.", text)
        self.assertIn("\n 1. On the server: sysctl -w x\n 2. Down: Look at cables.\n"
                      " 3. Full, the path adds 800 ms up: switch on SQM", text)

    def test_queues(self):
        for added, codes in ((25, []), (35, ["short_queue"]), (65, ["queue"])):
            for number, share in enumerate((1, 1, 2)):
                documents = self.healthy()
                documents[number]["end"]["pyperf3"]["latency"] = latency(20 + share * added)
                summary = self.summarize(*documents)
                self.assertEqual(self.codes(summary), codes)
                self.assertEqual(summary["healthy"], added < 60)
        # Without probes it is what TCP tells.
        documents = self.healthy(latency={"source": None, "reason": "no reply"})
        documents[1]["end"]["pyperf3"]["verdict"] = [
            finding("queue", "down", added_us=100e3, advice="SQM.")]
        summary = self.summarize(*documents)
        self.assertEqual(self.codes(summary), ["queue"])
        self.assertIn("adds 100 ms down", summary["advice"][0]["text"])
        self.assertIn("Latency when idle: not measured: no reply", self.screen(summary))

    def test_one_way_is_worse(self):
        documents = self.healthy()
        documents[0] = document((2e6,), [finding("network", advice=None)], latency=latency())
        documents[1]["end"]["pyperf3"]["verdict"] = [finding("network", "down", advice=None)]
        self.assertEqual(self.codes(self.summarize(*documents)), ["one_way"])

    def test_loss_without_a_load(self):
        for lost, codes in ((2, []), (3, ["idle_loss"])):
            idle = dict(latency()["idle"], sent=75, lost=lost, lost_up=0, lost_down=lost)
            summary = self.summarize(*self.healthy(latency=dict(latency(), idle=idle)))
            self.assertEqual(self.codes(summary), codes)
            self.assertEqual(summary["healthy"], not codes)
        self.assertIn("of 75 probes that met no traffic of the test 3 vanished (up 0, down 3)",
                      summary["advice"][0]["text"].lower())

    def test_both_ways_are_less_than_one(self):
        documents = self.healthy()
        documents[2] = document((8e6, 2e6), latency=latency())
        summary = self.summarize(*documents)
        self.assertTrue(summary["healthy"])
        self.assertIn("Also: while both directions are full down carries 2 Mbit/s rather than 9"
                      " Mbit/s.", " ".join(self.screen(summary).split()))

    def test_a_test_that_failed(self):
        documents = self.healthy()
        documents[1] = {"start": {}, "end": {}}
        summary = self.summarize(*documents, errors=(None, "no route, " + "x" * 100, None))
        self.assertFalse(summary["complete"])
        self.assertEqual(self.codes(summary), ["server_gone"])
        self.assertRegex(self.screen(summary), r"(?m)^down +not measured: no route")

    def test_much_to_say_fits_the_screen(self):
        many = [finding("code%d" % number, way, None, "Do %s. " % way + "word " * 20, "note")
                for number in range(20) for way in ("up", "down")]
        limits = [dict(finding("limit%d" % number, way), sentence="word " * 25)
                  for number, way in enumerate(("up", "down", "up", "down"))]
        text = self.screen(self.summarize(
            document((1e6,), limits[:1] + many[:20:2], latency=latency(900)),
            document((1e6,), limits[1:2] + many[1:20:2], latency=latency(900)),
            document((1e6, 1e6), limits[2:] + many[20:], latency=latency(900))))
        self.assertIn("What to do:", text)
        self.assertIn(" 1. ", text)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        unittest.main()
