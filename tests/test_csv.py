"""Hold --csv: rows that any strict reader takes, whole at each moment, whoever the peer is."""

import csv
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import fakes
import pyperf3
import sshd
import support
import test_ssh

# Readers count columns: a new one comes at the end, and here.
COLUMNS = [
    "time", "host", "port", "protocol", "direction", "stream", "kind", "start", "end", "bytes",
    "bits_per_second", "retransmits", "rtt_ms", "cwnd_bytes", "jitter_ms", "lost", "packets",
    "lost_percent", "latency_p50_ms", "latency_max_ms", "title", "local_host", "test"]
HEADER = ",".join(COLUMNS)
TEXTS = ("time", "host", "protocol", "direction", "stream", "kind", "title", "local_host", "test")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?\Z")
STEERING = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
FIELD = re.compile('"((?:[^"]|"")*)"|([^",\r\n]*)')
HOSTILE = [
    'say "cheese"', "a,b", "a\nb", "a\r\nb", "\rb", "\0\x01\x07\x08\x0b\x0c\x1b\x7f", "\x1b[31mred",
    "\u202eedoc", "\u2028\u2066\u061c\x85\x9b31m", "\ud800", "\udc9b31m", "x\udfffy", '"', '""',
    ",", "\n", "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\r=1", "\x00=1", "\uff1d1", "'=1",
    '=HYPERLINK("http://evil.example","x")', "=\",\n", "a" * 7000, '"' * 7000, "\u20ac" * 2000,
    "too long" * 1024, " blanks ", "", "\U0001f600"]


def strict(data):
    """Return the records of bytes that are CSV as RFC 4180 has it. Raises AssertionError."""
    text = data.decode("utf-8")  # strictly
    records, record, at = [], [], 0
    while at < len(text):
        match = FIELD.match(text, at)
        record.append(match.group(2) if match.group(1) is None else
                      match.group(1).replace('""', '"'))
        at = match.end()
        if text[at:at + 1] == ",":
            at += 1
            assert at < len(text), "no end of the last record"
        else:
            assert text[at:at + 2] == "\r\n", (text[max(0, at - 80):at], text[at:at + 20])
            at += 2
            records.append(record)
            record = []
    assert not record
    assert len(set(map(len, records))) <= 1, sorted(set(map(len, records)))
    for record in records:
        for field in record:
            assert not STEERING.search(field), repr(field)
    assert list(csv.reader(io.StringIO(text, newline=""), strict=True)) == records
    return records


class Row:
    """A row, with numbers where they belong: None is what is empty."""

    def __init__(self, fields):
        assert len(fields) == len(COLUMNS), fields
        assert TIME.match(fields[0]), fields
        for name, field in zip(COLUMNS, fields):
            if name not in TEXTS:
                assert not field or NUMBER.match(field), (name, field)
                field = float(field) if field else None
            setattr(self, name, field)
        assert self.kind in ("interval", "omitted", "sent", "received"), fields
        assert self.direction in ("up", "down"), fields
        assert self.stream == "SUM" or self.stream.isdigit(), fields

    def __repr__(self):
        return repr(vars(self))


class CsvCase(support.ServerCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "rows.csv")

    def content(self, path=None):
        with open(path or self.path, "rb") as handle:
            return handle.read()

    def rows(self, data=None, headed=True):
        """Return the Rows of bytes, or of the file, after the one header there has to be."""
        records = strict(self.content() if data is None else data)
        if headed:
            self.assertEqual(records.pop(0), COLUMNS)
        return [Row(record) for record in records]

    def to_file(self, command, path=None):
        """Return a command whose standard output, as bytes, is a file."""
        return ("sh", "-c", 'exec "$@" >"$0"', path or self.path) + tuple(command)

    def client(self, port, *arguments, **more):
        """Run a client of ours (program=: another) to its end, which has to be a good one."""
        left = support.run(more.get("program", support.OURS)
                           + ("-c", "127.0.0.1", "-p", port) + arguments)
        self.assertEqual(left.code, 0, left)
        return left

    def printed(self, *arguments):
        """Return the Rows that --loopback prints, which has to end well and say nothing else."""
        left = support.run(self.to_file(support.OURS + ("--loopback", "--csv") + arguments))
        self.assertEqual((left.code, left.err), (0, ""), left)
        return self.rows(headed="--csv-header" in arguments)

    def check_sums(self, rows):
        """Check that each sum is that of the streams before it, and return how many there are."""
        streams, sums = [], 0
        for row in rows:
            if row.stream != "SUM":
                streams.append(row)
                continue
            # Of the summary the rows of a direction stand together, sent and received in turn.
            own = [each for each in streams if (each.kind, each.direction, each.test, each.start)
                   == (row.kind, row.direction, row.test, row.start)]
            self.assertTrue(own, row)
            for name in ("bytes", "packets", "lost", "retransmits"):
                values = [getattr(each, name) for each in own]
                total = getattr(row, name)
                if total is not None:
                    self.assertEqual(total, sum(values), (name, row))
            streams = [each for each in streams if each not in own]
            sums += 1
        self.assertEqual(streams, [])
        return sums

    def stop_server(self):
        """End the server; what it printed is whole then."""
        self.server.signal()
        left = self.server.finish(20.0)
        self.assertEqual(left.code, 0, left)
        return left

    def crash_free(self, left):
        self.assertNotIn("Traceback", left.err)
        self.assertNotIn("cannot convert", left.err)


# Without a network ############################################################


class Fields(unittest.TestCase):
    """Values to fields."""

    def test_columns(self):
        self.assertEqual(list(pyperf3.CSV_COLUMNS), COLUMNS)
        self.assertEqual(pyperf3.CSV_HEADER, HEADER)

    def test_numbers(self):
        for value, text in ((None, ""), (0, "0"), (12, "12"), (2 ** 64, str(2 ** 64)), (0.0, "0"),
                            (1.0, "1"), (0.1, "0.1"), (100.0, "100"), (1e15, "1000000000000000"),
                            (1e-9, "0"), (0.1234567, "0.123457"), (float("inf"), ""),
                            (float("-inf"), ""), (float("nan"), ""), (-2.5, "-2.5")):
            self.assertEqual(pyperf3.csv_field(value), text)

    def test_texts(self):
        for value, text in (("a", "a"), ("", ""), ("a,b", '"a,b"'), ('a"b', '"a""b"'),
                            (" a", '" a"'), ("a\nb", "a b"), ("=1", "'=1"), ("\t=1", "' =1"),
                            ("\x07=1", "'=1"), ("-,", '"\'-,"'),
                            # where a semicolon ends a field, too
                            ("a;b", '"a;b"'), ("x;=1", '"x;\'=1"'), ("=1;; @1", '"\'=1;;\' @1"')):
            self.assertEqual(pyperf3.csv_field(value), text)

    def test_any_text_is_one_harmless_field(self):
        letters = [chr(number) for number in list(range(0x500)) + list(range(0x2000, 0x2070))]
        for text in HOSTILE + letters + [one + "=x" for one in letters] + [
                one + '"' for one in letters] + ["," + one for one in letters]:
            data = pyperf3.to_bytes("x,%s,y\r\n" % pyperf3.csv_field(text))
            (first, field, last), = strict(data)
            self.assertEqual((first, last), ("x", "y"), repr(text))
            self.assertLessEqual(len(field), 257)
            self.assertNotIn(field.strip()[:1] or "x", "=+-@\uff1d\uff0b\uff0d\uff20", repr(text))
        # What is harmless stays as it is.
        for text in ("Office, 3rd floor", 'the "old" link', "na\u00efve \u20ac", "'quoted'"):
            (_, field), = strict(pyperf3.to_bytes("x,%s\r\n" % pyperf3.csv_field(text)))
            self.assertEqual(field, text)

    def test_time(self):
        for now, text in ((0.0, "1970-01-01T00:00:00.000Z"), (0.9999, "1970-01-01T00:00:00.999Z"),
                          (1796245445.25, "2026-12-02T21:04:05.250Z")):
            self.assertEqual(pyperf3.csv_time(now), text)


class Events(CsvCase):
    """Events of real tests to rows, by functions that keep nothing outside."""

    def events(self, **settings):
        port = self.serve()
        return list(pyperf3.Client(pyperf3.Settings(
            client="127.0.0.1", port=port, bytes=100000, **settings)))

    def render(self, events, **more):
        test = pyperf3.CsvTest("server.example", clock=lambda: 5.0)
        return [line for event in events for line in test.render(event)]

    def test_two_of_them_say_the_same(self):
        events = self.events(parallel=2, title='a "b",c')
        before = [json.dumps(event["data"]) for event in events]
        lines = self.render(events)
        self.assertEqual(lines, self.render(events))
        self.assertEqual(before, [json.dumps(event["data"]) for event in events])
        rows = self.rows("".join(line + "\r\n" for line in lines).encode("ascii"), False)
        self.assertEqual({(row.time, row.host, row.title, row.protocol, row.direction)
                          for row in rows},
                         {("1970-01-01T00:00:05.000Z", "server.example", 'a "b",c', "TCP", "up")})
        self.assertEqual([row.kind for row in rows[-6:]], ["sent", "received"] * 3)
        self.check_sums(rows)

    def test_a_rate_that_is_no_number(self):
        for rate in (float("inf"), float("-inf"), float("nan"), 1e301, 10 ** 400):
            row = pyperf3.csv_row("received", {"start": 0, "end": 1, "bytes": 1,
                                               "bits_per_second": rate}, True)
            self.assertIsNone(row["bits_per_second"], rate)

    def test_a_header_comes_first_and_once(self):
        events = self.events()
        for head in (False, True):
            printer = pyperf3.CsvPrinter(pyperf3.Settings(client="h", csv=True, csv_header=head))
            lines = [line for event in events for line in printer.render(event)]
            self.assertEqual(lines.count(HEADER + "\r"), int(head))
            self.assertEqual(lines[0] == HEADER + "\r", head)

    def test_a_title_of_any_kind(self):
        events = self.events(title="t")
        for title in HOSTILE:
            changed = [pyperf3.Event(event, title=title) if event["event"] == "start" else event
                       for event in events]
            data = pyperf3.to_bytes("".join(line + "\r\n" for line in self.render(changed)))
            self.assertGreater(len(self.rows(data, False)), 3)

    def test_a_mesh_whose_cells_are_anything(self):
        """Another host, which may lie, says what a cell is."""
        figures = {"start": 0, "end": 1.5, "bytes": 10, "bits_per_second": 80.4, "retransmits": 0}
        good = {"start": {"connecting_to": {"port": 5201}, "test_start": {"protocol": "TCP"}},
                "end": {"sum_sent": figures, "sum_received": figures}}
        values = [None, True, "x", "=1\r\n", [], {}, [1], -1, 10 ** 400, 10 ** 5000, float("nan"),
                  float("inf"), "\ud800", b"x"]

        def render(document):
            cell = {"from": "a", "to": "b", "document": document}
            lines = pyperf3.CsvMesh("t", lambda: 5.0).render(pyperf3.Event(event="cell", data=cell))
            return strict(pyperf3.to_bytes("".join(line + "\r\n" for line in lines)))
        rows = [Row(record) for record in render(good)]
        self.assertEqual([(row.kind, row.bytes, row.host, row.local_host, row.port, row.end)
                          for row in rows],
                         [(kind, 10.0, "b", "a", 5201.0, 1.5) for kind in ("sent", "received")])
        for value in values:
            for name in figures:
                changed = dict(figures, **{name: value})
                render(dict(good, end={"sum_sent": changed, "sum_received": figures}))
            for name in good:
                render(dict(good, **{name: value}))
            render(dict(good, end={"sum_sent": value}))
            for name in good["start"]:
                render(dict(good, start=dict(good["start"], **{name: value})))
            render(dict(good, start=dict(good["start"], test_start={"protocol": value})))
            render(dict(good, start=dict(good["start"], connecting_to={"port": value})))
            render(value)


class Refused(unittest.TestCase):
    """What does not go together."""

    def refused(self, *words):
        with self.assertRaises(pyperf3.IperfError) as caught:
            pyperf3.Settings.from_arguments(words)
        return caught.exception.number

    def test_combinations(self):
        for role in (["-c", "h"], ["-s"], ["--ssh", "h"], ["--loopback"]):
            for other in ("-J", "--json-stream", "--plot"):
                self.assertEqual(self.refused(*(role + ["--csv", other])), 931, (role, other))
                self.assertEqual(self.refused(*(role + ["--csv=-", other])), 931, (role, other))
            self.assertEqual(self.refused(*(role + ["--csv-header"])), 935)
        self.assertEqual(self.refused("-s", "-D", "--csv"), 931)  # nobody would have the rows
        for words in (["--csv", "--logfile", "x"], ["--csv=x"]):
            pyperf3.Settings.from_arguments(["-s", "-D"] + words)
        for word in ("--csv", "--csv=x"):
            self.assertEqual(self.refused("-c", "h", "--connect-only", word), 917)
        self.assertEqual(self.refused("--ssh", "a", "--ssh", "b", "--csv=x"), 932)
        for other in ("-J", "--json-stream", "--plot", "--csv-header", "-V"):
            settings = pyperf3.Settings.from_arguments(["-c", "h", "--csv=x", other])
            self.assertEqual((settings.csv, settings.csv_only), ("x", False))
        settings = pyperf3.Settings.from_arguments(["--ssh", "a", "--ssh", "b", "--csv"])
        self.assertTrue(settings.csv_only)

    def test_they_are_told(self):
        for words, text in ((("--csv", "-J"), "--csv cannot be combined with: -J"),
                            (("--csv-header",), "--csv-header goes with --csv")):
            left = support.run(support.OURS + ("-c", "127.0.0.1") + words)
            self.assertEqual((left.code, left.out), (1, ""), left)
            self.assertIn("iperf3: parameter error - %s\n" % text, left.err)


# Clients ######################################################################


class Clients(CsvCase):
    """What a client prints."""

    def test_header_and_nothing_else(self):
        rows = self.printed("--csv-header", "-n", "1M", "-P", "2", "-V", "-f", "k", "--verdict",
                            "--timestamps", "--get-server-output")
        self.assertEqual(self.check_sums(rows), 3)  # one interval
        last = rows[-2:]
        self.assertEqual([(row.kind, row.stream, row.bytes) for row in last],
                         [(kind, "SUM", last[0].bytes) for kind in ("sent", "received")])
        self.assertGreaterEqual(last[0].bytes, 2 ** 20)
        self.assertEqual({(row.host, row.protocol, row.direction, row.title, row.test,
                           row.local_host) for row in rows},
                         {("127.0.0.1", "TCP", "up", "", "", "127.0.0.1")})

    def test_an_old_name_was_warned_of_among_the_rows(self):
        left = support.run(self.to_file(support.OURS + (
            "--loopback", "--csv", "-n", "1M", "--no-fq-socket-pacing")))
        self.assertEqual(left.code, 0, left)
        self.assertIn("deprecated", left.err)
        self.rows(headed=False)

    def test_errors_are_not_among_the_rows(self):
        left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", support.free_port(), "--csv",
                                           "--csv-header"))
        self.assertEqual(left.code, 1, left)
        self.assertIn("refused", left.err)
        self.assertEqual(left.out, HEADER + "\r\n")

    def test_a_missed_limit_was_never_told(self):
        left = support.run(self.to_file(support.OURS + (
            "--loopback", "--csv", "-n", "1M", "--min-bitrate", "900T", "--max-rtt", "9s")))
        self.assertNotIn(left.code, (0, 1), left)
        self.assertRegex(left.err, r"\ACheck min-bitrate up: FAILED: [^\n]*\n\Z")
        self.rows(headed=False)

    def test_omitted(self):
        rows = self.printed("-O", "1", "-t", "1", "-i", "0.5", "-b", "5M")
        kinds = [row.kind for row in rows]
        self.assertGreaterEqual(kinds.count("omitted"), 2)
        self.assertGreaterEqual(kinds.count("interval"), 2)
        self.assertLess(kinds.index("omitted"), kinds.index("interval"))
        self.assertNotIn("omitted", kinds[kinds.index("interval"):])
        counted = sum(row.bytes for row in rows if (row.kind, row.stream) == ("interval", "SUM"))
        self.assertEqual(rows[-2].bytes, counted)

    def test_no_bytes(self):
        # The first datagram goes at once, the second one after 80 s; of TCP nothing comes.
        for words in (("-u", "-b", "100", "-l", "1000"), ("-R", "-b", "1", "-l", "1000")):
            rows = self.printed("-t", "1", "-i", "0.5", *words)
            self.check_sums(rows)
            self.assertLessEqual(rows[-1].bytes, 1000)
            last = [row for row in rows if row.kind == "interval"][-1]
            self.assertEqual((last.bytes, last.bits_per_second), (0.0, 0.0))

    def test_interrupted_rows_told_what_nobody_knew(self):
        for words, own in (((), "sent"), (("-R",), "received"), (("-u", "-R"), "received")):
            path = os.path.join(self.folder, "out")
            with support.Program(self.to_file(support.OURS + (
                    "--loopback", "--csv", "-t", "60", "-i", "0.2", "-b", "5M") + words,
                    path)) as client:
                support.wait_until(lambda: os.path.exists(path)
                                   and self.content(path).count(b"SUM") > 1, "rows")
                client.signal(signal.SIGINT)
                left = client.finish(20.0)
            self.assertIn("interrupt", left.err)
            rows = self.rows(self.content(path), False)
            self.check_sums(rows)
            self.assertEqual([row.kind for row in rows if row.kind != "interval"], [own] * 2)
            self.assertGreater(rows[-1].bytes, 0)
            os.unlink(path)

    def test_interrupted_at_once(self):
        """Before anything was connected, while it is, and behind that."""
        for delay in (0.0, 0.02, 0.05, 0.1, 0.15, 0.25):
            with support.Program(support.OURS + ("--loopback", "--csv", "-t", "60", "-i", "0.1",
                                                 "-b", "5M")) as client:
                time.sleep(delay)
                client.signal()  # SIGINT may be ignored until the program runs
                left = client.finish(20.0)
            self.crash_free(left)
            self.check_sums(self.rows(left.out.encode("utf-8"), False))

    def test_latency(self):
        rows = self.printed("-t", "1", "-i", "0.5", "-b", "5M", "--latency")
        for row in rows:
            wanted = row.stream == "SUM"
            self.assertEqual((row.latency_p50_ms is not None, row.latency_max_ms is not None),
                             (wanted, wanted), row)
            if wanted:
                self.assertLessEqual(row.latency_p50_ms, row.latency_max_ms)

    def test_diagnosis(self):
        rows = self.printed("--diagnose", "-t", "1", "-i", "0.5", "-b", "10M", "--csv-header")
        self.assertEqual(list(dict.fromkeys(row.test for row in rows)), ["up", "down", "both"])
        ways = {name: {row.direction for row in rows if row.test == name}
                for name in ("up", "down", "both")}
        self.assertEqual(ways, {"up": {"up"}, "down": {"down"}, "both": {"up", "down"}})
        for name in ways:
            own = [row for row in rows if row.test == name]
            self.check_sums(own)
            self.assertGreater(own[-1].bytes, 0)

    def test_no_stamps(self):
        log = os.path.join(self.folder, "log")
        left = support.run(self.to_file(support.OURS + (
            "--loopback", "--csv", "--csv-header", "-n", "1M", "--timestamps=XX ", "--logfile",
            log)))
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertEqual(self.content(), b"")
        self.check_sums(self.rows(self.content(log)))
        # Errors have theirs, and go to standard error.
        left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", support.free_port(), "--csv",
                                           "--timestamps=XX ", "--logfile", log))
        self.assertEqual((left.code, left.out), (1, ""), left)
        self.assertTrue(left.err.startswith("XX iperf3: error"), left)
        self.rows(self.content(log))

    def test_reader_goes(self):
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                support.OURS + ("--loopback", "--csv", "-t", "60", "-i", "0.1", "-b", "5M"),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                env=support.environment())
            try:
                self.assertEqual(len(self.rows(process.stdout.readline(), False)), 1)
                process.stdout.close()
                self.assertEqual(process.wait(20.0), 0)
            finally:
                process.kill()
                process.wait()
            errors.seek(0)
            self.assertEqual(errors.read(), b"")

    @unittest.skipIf(not os.path.exists("/dev/full"), "there is no such device")
    def test_standard_output_is_full(self):
        left = support.run(self.to_file(support.OURS + ("--loopback", "--csv", "-n", "1M"),
                                        "/dev/full"))
        self.assertEqual(left.code, 1, left)
        self.assertEqual(left.err, "iperf3: error - unable to write to standard output: "
                                   "No space left on device\n")

    def test_nothing_is_made_unless_it_is_asked_for(self):
        code = ("import pyperf3\nfor name in [name for name in vars(pyperf3) if"
                " name.startswith('Csv')]: setattr(pyperf3, name, None)")
        for words, good in (((), True), (("-J",), True), (("--json-stream",), True),
                            (("--csv",), False), (("--csv", "-P", "2"), False)):
            left = support.run(support.driver(code) + ("--loopback", "-n", "1M") + words)
            self.assertEqual(left.code == 0, good, left)


class Rows(CsvCase):
    """The same figures as those of -J, of the same run."""

    def both(self, *arguments):
        left = support.run(support.OURS + ("--loopback", "-J", "--csv=" + self.path)
                           + arguments)
        self.assertEqual((left.code, left.err), (0, ""), left)
        return left.json(), self.rows()

    def same(self, row, figures, **more):
        self.assertEqual(row.start, round(figures["start"], 6))
        self.assertEqual(row.end, round(figures["end"], 6))
        self.assertEqual(row.bytes, figures["bytes"])
        self.assertLessEqual(abs(row.bits_per_second - figures["bits_per_second"]), 0.5)
        self.assertEqual(row.stream, str(figures.get("socket", "SUM")))
        for name, value in more.items():
            found = getattr(row, name)
            if value is None or found is None:
                self.assertEqual(found, value, (name, row))
            else:
                self.assertAlmostEqual(found, value, 5, (name, row))

    def intervals(self, document, rows):
        """Compare the intervals; returns the rows of the summary."""
        what, rows = document["start"]["test_start"], list(rows)
        both = bool(what["bidir"])
        for interval in document["intervals"]:
            for number, suffix in enumerate(("", "_bidir_reverse")[:1 + both]):
                count = what["num_streams"]
                streams = interval["streams"][number * count:][:count]
                way = "down" if number or what["reverse"] else "up"
                for figures in streams + [interval["sum" + suffix]]:
                    row, udp = rows.pop(0), what["protocol"] == "UDP"
                    self.same(row, figures, retransmits=figures.get("retransmits"),
                              packets=figures.get("packets"), cwnd_bytes=figures.get("snd_cwnd"))
                    self.assertEqual((row.kind, row.direction),
                                     ("omitted" if figures["omitted"] else "interval", way))
                    if udp and way == "down":
                        self.same(row, figures, lost=figures["lost_packets"],
                                  lost_percent=figures["lost_percent"],
                                  jitter_ms=figures["jitter_ms"])
                    elif udp:  # what is lost only the other end knows
                        self.same(row, figures, lost=None, lost_percent=None, jitter_ms=None)
                    if figures.get("rtt"):
                        self.same(row, figures, rtt_ms=figures["rtt"] / 1000.0)
        return rows

    def summary(self, document, rows):
        what, end = document["start"]["test_start"], document["end"]
        count = what["num_streams"]
        for number, suffix in enumerate(("", "_bidir_reverse")[:1 + bool(what["bidir"])]):
            streams = end["streams"][number * count:][:count]
            for figures in streams:
                pair = rows[:2]
                del rows[:2]
                if "udp" in figures:
                    udp = figures["udp"]
                    self.assertEqual([row.stream for row in pair], [str(udp["socket"])] * 2)
                    self.assertIn(udp["bytes"], [row.bytes for row in pair])
                    self.assertAlmostEqual(pair[1].jitter_ms, udp["jitter_ms"], 5)
                    self.assertEqual(pair[1].lost, udp["lost_packets"])
                else:
                    sender, receiver = figures["sender"], figures["receiver"]
                    self.same(pair[0], sender, retransmits=sender.get("retransmits"))
                    self.same(pair[1], receiver)
                self.assertEqual([row.kind for row in pair], ["sent", "received"])
            sums = end["sum_sent" + suffix], end["sum_received" + suffix]
            for kind, figures in zip(("sent", "received"), sums):
                row = rows.pop(0)
                self.same(row, figures, retransmits=figures.get("retransmits"),
                          packets=figures.get("packets"))
                self.assertEqual((row.kind, row.direction),
                                 (kind, "down" if number or what["reverse"] else "up"))
                if kind == "sent":
                    self.assertEqual((row.lost, row.jitter_ms), (None, None))
                elif what["protocol"] == "UDP":
                    self.same(row, figures, lost=figures["lost_packets"],
                              lost_percent=figures["lost_percent"],
                              jitter_ms=figures["jitter_ms"])
        self.assertEqual(rows, [])

    def check(self, words):
        document, rows = self.both(*words.split())
        self.assertEqual({row.protocol for row in rows},
                         {document["start"]["test_start"]["protocol"]})
        self.assertGreater(self.check_sums(rows), 3)
        self.summary(document, self.intervals(document, rows))

    def test_tcp(self):
        self.check("-t 1 -i 0.4 -b 5M -P 3")

    def test_tcp_down(self):
        self.check("-t 1 -i 0.5 -b 5M -R")

    def test_tcp_both_ways(self):
        self.check("-t 1 -i 0.5 -b 5M --bidir -P 2")

    def test_omitted(self):
        self.check("-t 1 -O 1 -i 0.5 -b 5M")

    def test_udp(self):
        self.check("-u -t 1 -i 0.5 -b 2M -l 1000 -P 2")

    def test_udp_down(self):
        self.check("-u -t 1 -i 0.5 -b 2M -l 1000 -R")

    def test_udp_both_ways(self):
        self.check("-u -t 1 -i 0.5 -b 2M -l 1000 --bidir")

    def test_many_streams_are_there_while_the_test_runs(self):
        """The rows of an interval are in the file before the next one, and never half a row."""
        with support.Program(support.OURS + (
                "--loopback", "-P", "128", "-i", "0.1", "-t", "3", "-b", "8K", "-l", "100",
                "--csv=" + self.path)) as client:
            sizes, looks = set(), 0
            while client.process.poll() is None:
                time.sleep(0.02)
                if not (os.path.exists(self.path) and os.path.getsize(self.path)):
                    continue
                # A process that is stopped is in the middle of no call: what it wrote is whole.
                client.signal(signal.SIGSTOP)
                if not self.stopped(client.pid):
                    break
                data = self.content()
                client.signal(signal.SIGCONT)
                self.assertTrue(data.endswith(b"\r\n"), data[-300:])
                looks, sizes = looks + 1, sizes | {len(data)}
            left = client.finish(60.0)
        self.assertEqual((left.code, left.err), (0, ""), left)
        rows = self.rows()
        self.assertEqual(len({row.stream for row in rows}), 129)
        self.assertGreater(self.check_sums(rows), 10)
        self.assertGreater(len(sizes), 5, (looks, sizes))
        self.assertTrue(any(row.kind == "interval" for row in self.rows(data)), looks)

    @staticmethod
    def stopped(pid):
        """Wait until a process is stopped; returns whether it is."""
        while True:
            try:
                with open("/proc/%d/stat" % pid) as handle:
                    state = handle.read().rsplit(")", 1)[1].split()[0]
            except OSError:
                return False
            if state in "TZX":
                return state == "T"
            time.sleep(0.001)

    def test_they_are_printed_at_once(self):
        with support.Program(support.OURS + ("--loopback", "--csv", "-t", "60", "-i", "0.2", "-b",
                                             "5M")) as client:
            for count in range(1, 4):
                client.wait_for("SUM,interval,", count=count)
            self.assertIsNone(client.process.poll())
            client.signal(signal.SIGINT)
            client.finish(20.0)


# Files ########################################################################


class Files(CsvCase):
    """--csv=FILE."""

    def run_to(self, path, *more):
        return support.run(support.OURS + ("--loopback", "-n", "1M", "--csv=" + path) + more)

    def test_rows_are_added_with_one_header(self):
        for count in (1, 2, 3):
            left = self.run_to(self.path)
            self.assertEqual((left.code, left.err), (0, ""), left)
            self.assertTrue(left.out.startswith("Connecting to host"), left)
            self.assertIn("iperf Done.", left.out)
            self.assertEqual([row.kind for row in self.rows()].count("sent"), 2 * count)

    def test_an_empty_file_gets_one_and_stays_the_same(self):
        with open(self.path, "w"):
            number = os.stat(self.path).st_ino
        self.assertEqual(self.run_to(self.path, "--csv-header").code, 0)
        self.assertEqual(os.stat(self.path).st_ino, number)
        self.rows()

    def refused(self, path, reason, *more):
        for words in ((), ("-J",), ("--json-stream",)):
            left = support.run(support.OURS + ("--loopback", "-t", "60", "--csv=" + path)
                               + words + more)
            self.assertEqual((left.code, left.out), (1, ""), left)
            self.assertEqual(left.err, "iperf3: error - unable to write CSV: %s: %s\n" % (
                path, reason))

    def test_a_folder_that_is_not_there(self):
        self.refused(os.path.join(self.folder, "none", "x.csv"), "No such file or directory")
        self.refused(self.folder, "Is a directory")
        self.refused("", "No such file or directory")
        self.assertEqual(os.listdir(self.folder), [])
        # A server says so, too, and does not begin.
        left = support.run(support.OURS + ("-s", "-p", support.free_port(), "--csv="
                                           + os.path.join(self.folder, "none", "x")))
        self.assertEqual(left.code, 1, left)
        self.assertNotIn("listening", left.out)
        self.assertIn("unable to write CSV: ", left.err)

    @unittest.skipIf(not hasattr(os, "mkfifo"), "there are no such pipes")
    def test_a_pipe_is_refused_whether_somebody_reads_it_or_not(self):
        os.mkfifo(self.path)
        text = "it is a pipe or a socket: --csv without a file writes to one"
        self.refused(self.path, text)
        reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        self.refused(self.path, text)
        self.assertEqual(os.read(reader, 100), b"")

    @unittest.skipIf(not hasattr(os, "geteuid") or os.geteuid(), "only root can make such a link")
    def test_not_through_another_users_link(self):
        target = os.path.join(self.folder, "target")
        os.symlink(target, self.path)
        os.lchown(self.path, 12345, 12345)
        self.refused(self.path, "it is a symbolic link of another user")
        os.chmod(self.folder, 0o1777)  # where the kernel may refuse it in its own words
        left = self.run_to(self.path)
        self.assertEqual((left.code, left.out), (1, ""), left)
        self.assertIn("unable to write CSV: " + self.path, left.err)
        self.assertFalse(os.path.exists(target))
        # Nor theirs in a folder that everybody may write to.
        os.unlink(self.path)
        with open(self.path, "w"):
            os.chown(self.path, 12345, 12345)
        self.refused(self.path, "it belongs to another user")
        self.assertEqual(self.content(), b"")
        os.unlink(self.path)
        os.symlink(target, self.path)  # one's own is followed
        self.assertEqual(self.run_to(self.path).code, 0)
        self.rows(self.content(target))

    @unittest.skipIf(not os.path.exists("/dev/full"), "there is no such device")
    def test_a_full_disk_is_told_once_and_the_test_goes_on(self):
        line = "iperf3: error - unable to write CSV: /dev/full: No space left on device\n"
        left = support.run(support.OURS + ("--loopback", "-t", "1", "-i", "0.2", "-b", "5M",
                                           "--csv=/dev/full"))
        self.assertEqual((left.code, left.err), (1, line), left)
        self.assertIn("iperf Done.", left.out)
        left = self.run_to("/dev/full", "-J")
        self.assertEqual((left.code, left.err), (1, line), left)
        self.assertNotIn("error", left.json())

    def test_where_the_disk_ends_no_half_row_is_left(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
        left = support.run(support.OURS + ("--loopback", "-t", "1", "-i", "0.1", "-b", "5M",
                                           "--csv=" + self.path), preexec_fn=limit)
        self.assertEqual(left.code, 1, left)
        self.assertIn("iperf Done.", left.out)
        self.assertEqual(left.err, "iperf3: error - unable to write CSV: %s: File too large\n"
                         % self.path)
        self.assertLess(len(self.content()), 1501)
        self.check_sums(self.rows())
        # Once there is room again, rows come behind those.
        self.assertEqual(self.run_to(self.path).code, 0)
        self.check_sums(self.rows())

    def test_two_programs_add_to_one_file(self):
        self.assertEqual(self.run_to(self.path, "-T", "first").code, 0)
        results = support.at_once([lambda title=title: support.run(support.OURS + (
            "--loopback", "-t", "1", "-i", "0.1", "-b", "1M", "-l", "1K", "-P", "8", "-T", title,
            "--csv=" + self.path)) for title in ("one", "two")])
        self.assertEqual([(left.code, left.err) for left in results], [(0, "")] * 2)
        rows = self.rows()
        self.assertEqual({row.title for row in rows}, {"first", "one", "two"})
        for title in ("one", "two"):
            own = [row for row in rows if row.title == title]
            self.assertEqual(len({row.stream for row in own}), 9)
            self.assertGreater(self.check_sums(own), 8)
        titles = [row.title for row in rows]
        self.assertGreater(sum(one != other for one, other in zip(titles, titles[1:])), 2)

    @unittest.skipIf(not hasattr(os, "fork"), "needs fork")
    def test_two_programs_wrote_a_header_each(self):
        for number in range(50):
            path = os.path.join(self.folder, str(number))
            reader, writer = os.pipe()
            children = []
            for _ in range(2):
                children.append(os.fork())
                if not children[-1]:
                    try:
                        rows = pyperf3.CsvFile(pyperf3.Settings(client="h", csv=path))
                        os.close(writer)
                        os.read(reader, 1)  # until both are there
                        rows._append(b"x" * 100 + b"\r\n")
                    finally:
                        os._exit(0)
            os.close(reader)
            os.close(writer)
            for child in children:
                os.waitpid(child, 0)
            self.assertEqual(self.content(path), (
                HEADER + "\r\n" + ("x" * 100 + "\r\n") * 2).encode("ascii"))

    def test_who_keeps_a_file_locked_holds_up_nobody(self):
        import fcntl
        with open(self.path, "w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            left = self.run_to(self.path)
            self.assertEqual((left.code, left.err), (0, ""), left)
        self.rows()

    def test_moved_away_during_a_servers_life(self):
        port = self.serve("--csv=" + self.path)
        old = self.path + ".1"
        for path in (old, self.path):
            self.client(port, "-n", "1M")
            support.wait_until(lambda: os.path.exists(self.path)
                               and b"SUM,received," in self.content(), "rows")
            if path == old:
                os.rename(self.path, old)
        self.stop_server()
        for path in (old, self.path):
            rows = self.rows(self.content(path))
            self.assertEqual([row.kind for row in rows].count("received"), 2)

    def test_a_servers_text_is_as_without(self):
        shapes = []
        for words in ((), ("--csv=" + self.path,)):
            port = self.serve("-i", "0", *words)
            self.client(port, "-n", "1M")
            left = self.stop_server()
            shapes.append([re.sub("[0-9.]+|[KMG](?=Bytes|bits)", "N", line).split()
                           for line in left.lines()])
            self.assertEqual(left.err.replace("iperf3: interrupt - the server has terminated by"
                                              " signal Terminated(15)\n", ""), "")
        self.assertEqual(*shapes)
        self.assertGreater(len(shapes[0]), 7)
        self.assertEqual(self.rows()[-1].kind, "received")

    def test_a_file_that_goes_bad_does_not_end_a_server(self):
        folder = os.path.join(self.folder, "later")
        os.mkdir(folder)
        path = os.path.join(folder, "x.csv")
        port = self.serve("--csv=" + path)
        shutil.rmtree(folder)
        self.client(port, "-n", "1M")
        self.server.wait_for_error("unable to write CSV: %s: No such file" % path)
        self.client(port, "-n", "1M")
        os.mkdir(folder)
        self.client(port, "-n", "1M")
        support.wait_until(lambda: os.path.exists(path) and b"SUM,received," in self.content(path),
                           "rows")
        self.assertEqual(self.server.err().count("unable to write CSV"), 1)
        self.rows(self.content(path))
        self.server.signal()
        self.server.finish(20.0)

    def _end(self, program):
        """A server whose file went bad ends with status 1."""
        with program:
            if program.process.poll() is None:
                program.signal()
            left = program.finish(20.0)
        self.assertNotIn("Traceback", left.err)


# Peers ########################################################################


class Peers(CsvCase):
    """Against real iperf3."""

    def test_their_server(self):
        for version, words, way in (("3.22", "-R", "down"), ("3.22", "-u -b 2M -R", "down"),
                                    ("3.9", "", "up")):
            server, port = support.start_server(support.real(version), "-1")
            with server:
                left = support.run(self.to_file(support.OURS + (
                    "-c", "127.0.0.1", "-p", port, "--csv", "-t", "1", "-i", "0.5")
                    + (("-b", "5M") if "-b" not in words else ()) + tuple(words.split())))
                self.assertEqual((left.code, left.err), (0, ""), left)
                server.finish(20.0)
            rows = self.rows(headed=False)
            self.check_sums(rows)
            self.assertEqual({row.direction for row in rows}, {way})
            self.assertEqual([row.kind for row in rows[-2:]], ["sent", "received"])
            self.assertGreater(rows[-1].bytes, 0)
            self.assertLessEqual(rows[-1].bytes, rows[-2].bytes)
            self.assertEqual({row.port for row in rows}, {float(port)})

    def test_their_client(self):
        port = self.serve("--csv", "--csv-header", program=self.to_file(support.OURS))
        for words in ("-n 1M", "-R -t 1 -b 5M -P 2", "--bidir -t 1 -b 5M", "-u -t 1 -b 2M"):
            left = self.client(port, *(words + " -J -T title,of").split(),
                               program=support.real("3.22"))
            self.assertNotIn("error", left.json())
        self.stop_server()
        rows = self.rows()
        self.check_sums(rows)
        self.assertEqual({(row.host, row.title) for row in rows}, {("127.0.0.1", "title,of")})
        ends = [(row.protocol, row.direction, row.kind) for row in rows
                if row.stream == "SUM" and row.kind in ("sent", "received")]
        self.assertEqual(ends, [("TCP", "up", "received"), ("TCP", "down", "sent"),
                                ("TCP", "up", "received"), ("TCP", "down", "sent"),
                                ("UDP", "up", "received")])

    def test_two_clients_at_a_time(self):
        port = self.serve("--csv", "--max-clients", "2", program=self.to_file(support.OURS))
        support.at_once([lambda words=words: self.client(port, "-t", "1", "-i", "0.2", "-b", "5M",
                                                         *words) for words in (
            ("-P", "2", "-T", "a"), ("-R", "-T", "b"))])
        self.stop_server()
        rows = self.rows(headed=False)
        self.check_sums(rows)
        pairs = {(row.test, row.title, row.direction) for row in rows}
        self.assertEqual(len(pairs), 2, pairs)
        self.assertEqual({pair[1:] for pair in pairs}, {("a", "up"), ("b", "down")})
        numbers = {pair[0] for pair in pairs}
        self.assertEqual(len(numbers), 2, pairs)
        self.assertTrue(all(number.isdigit() for number in numbers), pairs)


# Hostile ones #################################################################


def play(port, title, **more):
    """Be a client with a title, which is JSON as bytes, of a test of 1000 bytes."""
    document = json.dumps(dict(fakes.PARAMETERS, title="TITLE", **more)).encode("ascii")
    with fakes.connect(port) as control:
        cookie = pyperf3.make_cookie()
        control.sendall(cookie)
        assert fakes.receive(control, 1) == b"\x09"
        control.sendall(fakes.frame(document.replace(b'"TITLE"', title)))
        got = fakes.receive(control, 1)
        if got != b"\x0a":
            return False
        with fakes.connect(port) as data:
            data.sendall(cookie)
            assert fakes.receive(control, 2) == b"\x01\x02"
            data.sendall(b"x" * 1000)
            control.sendall(b"\x04")
            assert fakes.receive(control, 1) == b"\x0d"
            control.sendall(fakes.frame(fakes.results({"id": 1, "bytes": 1000})))
            fakes.take_frame(control)
            assert fakes.receive(control, 1) == b"\x0e"
            control.sendall(b"\x10")
    return True


class HostilePeers(CsvCase):
    """Whatever a peer says, what is printed is CSV."""

    TITLES = [json.dumps(title).encode("ascii") for title in HOSTILE] + [
        json.dumps(title, ensure_ascii=False).encode("utf-8", "surrogatepass") for title in HOSTILE
        ] + [b'"\xff\xfe\x9b31m"', b'"\xc3"', b'"\xed\xa0\x80"', b"null", b"5", b"[]", b"{}",
             b"true", b"1e400"]

    def test_titles(self):
        other = os.path.join(self.folder, "stdout")
        port = self.serve("--csv=" + self.path)
        plain = self.serve("--csv", program=self.to_file(support.OURS, other))
        counts = support.at_once([lambda each=each: sum([
            play(each, title) for title in self.TITLES]) for each in (port, plain)])
        for each, played in zip((port, plain), counts):
            self.assertGreater(played, len(HOSTILE))
            self.client(each, "-n", "1K", "-T", "the last")
        for path, headed in ((self.path, True), (other, False)):
            support.wait_until(lambda: b"SUM,received" in self.content(path).split(b"the last")[-2],
                               "the end")
            rows = self.rows(self.content(path), headed)
            self.check_sums(rows)
            self.assertGreaterEqual(len(rows), 2 * played)
            titles = {row.title for row in rows}
            for title in ("'=1+1", "'+1", "'-1", "'@SUM(A1)", 'say "cheese"', "a,b", "a b",
                          "a" * 256, "\U0001f600"):
                self.assertIn(title, titles)
            for title in titles:
                self.assertLessEqual(len(title), 257)
                self.assertNotIn(title.strip()[:1] or "x", "=+-@\uff1d")

    VALUES = [float("nan"), float("inf"), 1e308, -1e308, 1e-320, -1, 10 ** 30, "=1\r\n", None, [],
              True]

    def check(self, document, port, *words):
        left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "--csv", "-n", "1K",
                                           "-l", "1K") + words)
        self.assertNotIn("Traceback", left.err)
        self.assertNotIn("cannot convert", left.err)
        self.check_sums(self.rows(left.out.encode("utf-8"), False))
        self.assertIn(left.code, (0, 1), left)
        self.assertEqual(left.code == 0, left.err == "", left)
        return left.code == 0

    def test_figures_of_a_server(self):
        def check(name, value):
            data = json.dumps(fakes.results({"id": 1, "bytes": 1000, name: value})).encode("ascii")
            with fakes.FakeServer(fakes.whole_test(fakes.frame(data))) as server:
                return self.check(data, server.port)
        pairs = [(name, value) for name in ("bytes", "end_time") for value in self.VALUES]
        self.assertGreater(sum(good for _, good in support.together(check, pairs, 8)), 9)

    def test_figures_of_a_server_of_udp(self):
        def check(name, value):
            def script(server):
                server.send(b"\x0a")
                server.greet()
                server.send(b"\x01\x02")
                assert fakes.receive(server.control, 1) == b"\x04"
                server.send(b"\x0d")
                fakes.take_frame(server.control)
                server.send(fakes.frame(document) + b"\x0e")
                while server.control.recv(4096):
                    pass
            document = json.dumps(fakes.results({
                "id": 1, "bytes": 1000, "packets": 1, name: value})).encode("ascii")
            with fakes.UdpServer(script) as server:
                return self.check(document, server.port, "-u")
        pairs = [(name, value) for name in ("jitter", "errors", "packets")
                 for value in self.VALUES]
        self.assertGreater(sum(good for _, good in support.together(check, pairs, 8)), 9)


# Over ssh #####################################################################


class Far(test_ssh.FarCase, CsvCase):
    """The client on another host, and tests between several."""

    def setUp(self):
        CsvCase.setUp(self)

    def test_between_two_hosts(self):
        with sshd.Host("db1") as one, sshd.Host("db2") as other:
            left = support.run(self.to_file(
                support.SOURCE + self.words(one, other) + (
                    "--csv", "--csv-header", "-n", "200K", "-P", "2")))
        self.assertEqual((left.code, left.err), (0, ""), left)
        rows = self.rows()
        self.check_sums(rows)
        self.assertEqual([row.kind for row in rows[-2:]], ["sent", "received"])

    def test_mesh(self):
        with sshd.Network(("db1", "db2")) as network:
            hosts = [network.host(name) for name in ("db1", "db2")]
            left = support.run(self.to_file(network.hub + support.SOURCE + (
                "--ssh-command", " ".join(sshd.client(self.folder, *hosts)), "--mesh", "db1,db2",
                "--csv", "--csv-header", "-t", "1", "-b", "5M")))
        self.assertEqual((left.code, left.err), (0, ""), left)
        rows = self.rows()
        self.assertEqual([(row.local_host, row.host, row.kind, row.direction, row.stream)
                          for row in rows],
                         [(one, other, kind, "up", "SUM")
                          for one, other in (("db1", "db2"), ("db2", "db1"))
                          for kind in ("sent", "received")])
        self.assertTrue(all(row.bytes > 0 and row.port and row.protocol == "TCP" for row in rows))


if __name__ == "__main__":
    unittest.main()
