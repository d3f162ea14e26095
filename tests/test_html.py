"""Hold --html: a page that any document makes, small, whole, and safe to open."""

import html.parser
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import unittest
import xml.etree.ElementTree as ElementTree
from unittest import mock

import captures
import pictures
import pyperf3
import support

LIMIT = 200000  # bytes of a page
HOSTILE = ("<b onload=\"x\">&amp;'</script>]]><!--\x00\x07\x1b[31m\x7f\x9b"
           "\u202e\u2066\ud800\ufffe\rhttp://evil.example/\U0001f600")


class Reader(html.parser.HTMLParser):
    """Read a page as a browser does: elements, attributes, what the script holds."""

    def __init__(self, page):
        html.parser.HTMLParser.__init__(self, convert_charrefs=True)
        self.tags, self.attributes, self.script, self.text = [], [], "", []
        self._open = []
        self.feed(page)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attributes]
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attributes]

    def handle_endtag(self, tag):
        assert self._open.pop() == tag, tag

    def handle_data(self, data):
        if self._open and self._open[-1] == "script":
            self.script += data
        elif self._open and self._open[-1] != "style":
            self.text.append(data)

    def has(self, text):
        return text in " ".join("".join(self.text).split())


class PageCase(unittest.TestCase):
    """A test of pages."""

    def read(self, page, document=None):
        """Return what both kinds of parser read of a page, which has to be well; check the data."""
        self.assertLessEqual(len(page.encode("ascii")), LIMIT)
        self.assertTrue(page.startswith("<!DOCTYPE html>\n<html"))
        root = ElementTree.fromstring(page[page.index("\n") + 1:].encode("utf-8"))
        read = Reader(page)
        self.assertEqual([element.tag for element in root.iter()], read.tags)
        self.assertEqual(read.tags.count("script"), 1)
        self.assertIn(("script", "type", "application/json"), read.attributes)
        for tag, name, value in read.attributes:
            self.assertFalse(name.startswith("on") or name in ("src", "href", "srcset", "data"),
                             (tag, name, value))
            self.assertNotIn("http", value)
            self.assertNotIn("url(", value)
        style = page[page.index("<style>"):page.index("</style>")]
        self.assertFalse(re.search(r"url|@import|http|<(?!style>)", style))
        names = [value for _, name, value in read.attributes if name == "id"]
        self.assertEqual(len(names), len(set(names)))
        for _, name, value in read.attributes:
            if name == "aria-labelledby":
                self.assertIn(value, names)
        self.data = json.loads(read.script)
        self.assertEqual(self.data, json.loads(root.find(".//script").text))
        if document is not None:
            self.assertEqual(self.data, json.loads(pyperf3.encode_json(document)))
        self.root = root
        return read

    def report(self, command=None, whole=True, **sample):
        document = pictures.Sample(**sample).document()
        return self.read(pyperf3.report_html(document, command), document if whole else None)

    def panels(self):
        return [figure.find(".//h3").text for figure in self.root.iter("figure")]

    def paths(self, style, panel=0):
        """Return the paths of a style of a panel, but those of its keys."""
        figure = list(self.root.iter("figure"))[panel]
        plot = next(each for each in figure.iter("svg") if each.get("class") == "plot")
        return [path.get("d") for path in plot.iter("path") if path.get("class") == style]


class Pages(PageCase):
    """Documents to pages."""

    def test_head(self):
        read = self.report("pyperf3.py -c db2.example --html 'my report.html'")
        for text in ("pyperf3.py -c db2.example --html 'my report.html'",
                     "db1, 192.0.2.10, Linux 6.12.9, 8 CPUs, iperf 3.22",
                     "db2.example (192.0.2.20), port 5201, Linux 5.14.0, 4 CPUs, pyperf3 1.0.0",
                     "cubic", "Wed, 02 Dec 2026 21:04:05 GMT", "grade C", "590 RPM (fair)",
                     "Verdict: a queue in the path is full", "TCP, 1 stream, blocks of 131072"):
            self.assertTrue(read.has(text), (text, read.text))

    def test_limits(self):
        document = pictures.Sample(seconds=2).document()
        check = {"name": "min-bitrate", "limit": 9e8, "value": 8.123e8, "unit": "bit/s",
                 "state": "failed", "direction": "up", "figure": "received"}
        document["end"]["pyperf3"]["checks"] = [check, dict(check, state="ok", name="max-loss",
                                                            unit="%", limit=1.0, value=0.25), dict(
            check, value=None, reason="nothing was sent", state="unknown", direction=None)]
        self.read(pyperf3.report_html(document), document)
        rows = [["".join(cell.itertext()) for cell in row] for row in list(
            self.root.iter("table"))[1].iter("tr")]
        self.assertEqual(rows[1:], [
            ["up: min-bitrate", "900 Mbit/s", "812 Mbit/s", "failed"],
            ["up: max-loss", "1 %", "0.25 %", "ok"],
            ["min-bitrate", "900 Mbit/s", "nothing was sent", "unknown"]])

    def test_panels(self):
        self.report()
        self.assertEqual(self.panels(), [
            "Bitrate (Mbit/s)", "Latency (ms)", "Retransmits per interval",
            "Windows, of all streams (MB)", "Probes that came back within a time (%)"])
        self.report(latency=False)
        self.assertEqual(self.panels()[1], "TCP's round trips (ms)")
        self.report(udp=True, bidir=True)
        self.assertEqual(self.panels(), [
            "Bitrate (Mbit/s)", "Latency (ms)", "Lost datagrams (%)",
            "Probes that came back within a time (%)"])
        self.report(udp=True, latency=False)
        self.assertEqual(self.panels(), ["Bitrate (Mbit/s)"])

    def test_sent_is_dashed_and_received_is_solid(self):
        self.report(bidir=True)
        self.assertEqual([len(self.paths(style)) for style in (
            "up sent", "up", "down", "down sent", "stream up")], [1, 1, 1, 0, 0])
        self.report(streams=3, bidir=True)
        self.assertEqual(len(self.paths("stream up")), 3)
        self.assertEqual(len(self.paths("stream down")), 3)
        self.report(streams=9, seconds=5)
        self.assertEqual(len(self.paths("stream up")), 0)
        self.assertEqual(len(self.paths("band up")), 1)

    def test_a_text_for_each_panel_says_the_same(self):
        read = self.report(seconds=10, latency=False)
        notes = [element.text for element in self.root.iter("p") if element.get("id")]
        self.assertEqual(len(notes), len(self.panels()))
        self.assertTrue(re.match(r"Sent to the server: mean [\d.]+ Mbit/s, lowest [\d.]+ Mbit/s at"
                                 r" 0 s, highest [\d.]+ Mbit/s at \d s\.$", notes[0]), notes[0])
        self.assertTrue(read.has("in all"))

    def test_rates_begin_at_nothing(self):
        for kind in ({}, {"rate": 3.0}, {"rate": 9e12}, {"rate": 0.0}):
            document = pictures.Sample(seconds=5, **kind).document()
            ways, times = pyperf3.ways_over_time(document)
            axis = pyperf3.rate_panel(ways, times).chart.y_axis
            self.assertEqual(axis.low, 0.0)
            self.assertEqual(axis.ticks[0], (0.0, "0"))
            self.assertGreaterEqual(axis.high, pyperf3._highest(ways[0].rate))
            self.assertTrue(1 < len(axis.ticks) < 8, axis)

    def test_direction_of_documents_that_do_not_tell_who_sends(self):
        for reverse, role, key in ((0, "connecting_to", "sent to the server"),
                                   (1, "connecting_to", "received from the server"),
                                   (0, "accepted_connection", "received by the server"),
                                   (1, "accepted_connection", "sent by the server")):
            document = pictures.Sample(seconds=2, latency=False).document()
            start = document["start"]
            start[role] = start.pop("connecting_to")
            start["test_start"]["reverse"] = reverse
            for interval in document["intervals"]:
                for row in interval["streams"] + [interval["sum"]]:
                    del row["sender"]
            for name in ("sum_sent", "sum_received"):
                del document["end"][name]["sender"]
            read = self.read(pyperf3.report_html(document), document)
            self.assertIn(key, read.text)
            facts = [element.text for element in self.root.iter("th")]
            self.assertIn("From the server" if reverse else "To the server", facts)

    def test_one_interval(self):
        self.report(seconds=1, latency=False)
        self.assertTrue(re.match(r"^M0 \d+h6000$", self.paths("up sent")[0]))

    def test_no_bytes(self):
        document = pictures.Sample(seconds=3, latency=False, rate=0.0).document()
        self.read(pyperf3.report_html(document), document)
        self.assertEqual(self.paths("up sent"), ["M0 1000h2000h2000h2000"])

    def test_no_interval(self):
        for document in ({}, {"start": {}, "intervals": [], "end": {}},
                         {"start": pyperf3.first_facts(), "intervals": [], "end": {},
                          "error": "unable to connect"}):
            read = self.read(pyperf3.report_html(document), document)
            self.assertTrue(read.has("No interval was measured."))
            self.assertEqual(read.has("unable to connect"), "error" in document)

    def test_a_receivers_window_that_is_much_larger_hides_nothing(self):
        document = pictures.Sample(seconds=4, latency=False).document()
        self.read(pyperf3.report_html(document))
        self.assertEqual(len(self.paths("up second", 3)), 1)
        for interval in document["intervals"]:
            interval["streams"][0]["snd_wnd"] = 3 * 10 ** 8
        read = self.read(pyperf3.report_html(document))
        self.assertEqual(self.paths("up second", 3), [])
        self.assertTrue(read.has("Above the chart, receiver's window to the server: 286 MB"))
        interval["streams"][0]["snd_wnd"] = 10 ** 6  # and where it is low, it is there
        self.read(pyperf3.report_html(document))
        self.assertEqual(len(self.paths("up second", 3)), 1)

    def test_omitted_is_shaded_and_before_nought(self):
        read = self.report(seconds=8, omit=2, latency=False)
        self.assertEqual(self.paths("omitted"), ["M0 0h1200v1000h-1200z"])
        self.assertTrue(read.has("-2 s"))
        document = pictures.Sample(seconds=8, omit=2, latency=False).document()
        counted = sum(each["sum"]["retransmits"] for each in document["intervals"][2:])
        self.assertTrue(read.has("To the server: %d in all" % counted))

    def test_axes(self):
        texts = [text for _, text in pyperf3.value_axis(101.0, "ms").ticks]
        self.assertEqual(texts, ["0", "20", "40", "60", "80", "100"])
        self.assertEqual(pyperf3.value_axis(1.5e9, "bit/s").unit, "Gbit/s")
        self.assertEqual([text for _, text in pyperf3.value_axis(3, "").ticks],
                         ["0", "1", "2", "3"])
        self.assertEqual(pyperf3.value_axis(0, "").ticks, [(0.0, "0"), (1.0, "1")])
        for end, texts in ((1, "0 s 0.2 s 0.4 s 0.6 s 0.8 s 1 s"), (10, "0 s 2 s 4 s 6 s 8 s 10 s"),
                           (600, "0 min 2 min 4 min 6 min 8 min 10 min"),
                           (86400, "0 h 4 h 8 h 12 h 16 h 20 h 24 h")):
            self.assertEqual(" ".join(text for _, text in pyperf3.time_axis(0, end).ticks), texts)
        self.assertEqual([text for _, text in pyperf3.log_axis(0.9, 35, "ms").ticks],
                         ["1 ms", "2 ms", "5 ms", "10 ms", "20 ms"])
        self.assertEqual([text for _, text in pyperf3.log_axis(0, 1000, "ms").ticks][::2],
                         ["0.0001 ms", "0.01 ms", "1 ms", "100 ms"])

    def test_all_captured_documents(self):
        """What iperf3 itself printed makes a page, of both ends and all versions."""
        count = 0
        for case, side in captures.outputs("json"):
            with self.subTest(case=case.name, side=side):
                for document in captures.documents(re.sub(r"^[^{].*\n", "", case.out(side))):
                    read = self.read(pyperf3.report_html(document))
                    count += 1
                    self.assertEqual("error" in document, ("div", "class", "say error")
                                     in read.attributes)
        self.assertEqual(count, 87)

    def test_figures_that_are_none(self):
        """A document may be anybody's: what is of the wrong kind is not shown."""
        document = pictures.Sample(seconds=3, streams=2).document()
        for value in (None, "x", [], {}, True, 10 ** 400, float("nan"), float("inf"), -5):
            for name in ("bits_per_second", "start", "retransmits", "rtt", "snd_cwnd", "pyperf3",
                         "omitted", "sender", "socket"):
                changed = json.loads(json.dumps(document))
                for interval in changed["intervals"][1:]:
                    for row in interval["streams"] + [interval["sum"]]:
                        row[name] = value if not isinstance(value, list) else tuple(value)
                if not isinstance(value, int) or abs(value) < 9:
                    self.read(pyperf3.report_html(json.loads(json.dumps(changed))))
        for value in (None, "x", [], 5, [5], ["x"], {"a": 1}):
            for name in ("start", "intervals", "end"):
                changed = dict(document, **{name: value})
                self.read(pyperf3.report_html(changed))
            self.read(pyperf3.report_html(dict(document, intervals=[{"streams": value,
                                                                     "sum": value}])))


class Unknown(PageCase):
    """What nobody told is not said: iperf3 has zeros there."""

    def facts(self, document):
        self.read(pyperf3.report_html(document))
        return {"".join(row.find("th").itertext()): "".join(row.find("td").itertext())
                for row in self.root.iter("tr")}

    def sample(self, way, unknown, udp=False):
        """Return a test's document in which the bytes of an end are 0."""
        document = pictures.Sample(seconds=2, udp=udp, latency=False).document()
        document["start"]["test_start"]["reverse"] = int(way == "down")
        end = document["end"]
        if udp:
            end["sum"] = dict(end["sum_received"], lost_percent=0.0, jitter_ms=0.0)
            end["sum_received"].update(lost_percent=0.0, jitter_ms=0.0)
        for name in ("sum_sent", "sum_received"):
            end[name]["sender"] = way == "up"
        end[unknown].update(bytes=0, bits_per_second=0.0, retransmits=0)
        return document

    def test_a_test_that_broke_off(self):
        text = self.facts(dict(self.sample("up", "sum_received"), error="x"))["To the server"]
        self.assertTrue(re.match(r"sent \d+\.\d Mbit/s, \d+ retransmits$", text), text)
        text = self.facts(dict(self.sample("up", "sum_received", True), error="x"))["To the server"]
        self.assertTrue(re.match(r"sent \d+\.\d Mbit/s$", text), text)
        facts = self.facts(dict(self.sample("down", "sum_sent", True), error="x"))
        self.assertTrue(re.match(r"received \d+\.\d Mbit/s, 0 % lost, jitter 0.00 ms$",
                                 facts["From the server"]), facts)

    def test_a_server_is_not_told(self):
        document = self.sample("up", "sum_sent")
        document["start"]["accepted_connection"] = document["start"].pop("connecting_to")
        text = self.facts(document)["To the server"]
        self.assertTrue(re.match(r"received \d+\.\d Mbit/s$", text), text)

    def test_what_is_known_to_be_nothing_is_said(self):
        text = self.facts(self.sample("up", "sum_received"))["To the server"]
        self.assertIn("received 0 bit/s", text)
        text = self.facts(dict(self.sample("up", "sum_sent"), error="x"))["To the server"]
        self.assertIn("sent 0 bit/s", text)


class Hostile(PageCase):
    """Texts from elsewhere stay texts."""

    def test_texts_of_a_peer(self):
        document = pictures.Sample(seconds=2).document(HOSTILE)
        document.update(title=HOSTILE, error=HOSTILE, extra_data=HOSTILE,
                        server_output_text=HOSTILE)
        document["start"].update(version=HOSTILE, system_info="a %s c" % HOSTILE)
        document["start"]["connected"][0].update(remote_host=HOSTILE, local_host=HOSTILE)
        document["start"]["timestamp"]["time"] = HOSTILE
        document["start"]["test_start"]["protocol"] = HOSTILE
        document["end"].update(sender_tcp_congestion=HOSTILE, receiver_tcp_congestion=HOSTILE)
        own = document["end"]["pyperf3"]
        own["remote_host"] = {name: HOSTILE for name in ("system", "kernel", "cores", "version")}
        own["latency"].update(grade=HOSTILE, rpm_class=HOSTILE)
        own["verdict"][0]["sentence"] = HOSTILE
        own["checks"] = [{"name": HOSTILE, "limit": HOSTILE, "value": HOSTILE, "unit": HOSTILE,
                          "state": HOSTILE, "direction": HOSTILE, "figure": HOSTILE}]
        page = pyperf3.report_html(document, HOSTILE)
        read = self.read(page)
        self.assertNotIn("b", read.tags)
        self.assertEqual(set(page) & set(map(chr, range(32))), {"\n"})
        self.assertFalse(set(page) & set("\x7f\x9b\u202e\u2066\ud800\ufffe"))
        self.assertTrue(read.has("<b onload=\"x\">&amp;'</script>]]><!--"))
        # The data is as it was, but for what no text can hold.
        self.assertEqual(self.data["title"].encode("utf-16", "surrogatepass"),
                         HOSTILE.encode("utf-16", "surrogatepass"))

    def test_texts_of_hosts_of_a_mesh(self):
        document = mesh()
        document["mesh"]["hosts"][1].update(name=HOSTILE, error=HOSTILE, python=HOSTILE)
        document["mesh"]["findings"] = [HOSTILE]
        document["mesh"]["cells"][0].update(to=HOSTILE, marks=[HOSTILE])
        document["error"] = HOSTILE
        self.assertNotIn("b", self.read(pyperf3.report_html(document)).tags)

    def test_long_texts_are_cut(self):
        document = pictures.Sample(seconds=2).document("h" * 100000)
        document["title"] = document["error"] = "t" * 100000
        page = pyperf3.report_html(document)
        self.assertLess(len(page), LIMIT)
        self.read(page)

    def test_data_that_a_parser_might_take_for_markup(self):
        for text in ("</script>", "]]>", "<!--", "<![CDATA[", "&lt;&amp;", "\u2028", "\U0001f600",
                     "\ufffe\uffff", "\x00\x0b", "\\", '"', "\r\n\t"):
            document = {"title": text, text: [text, {text: None}]}
            text, lacks = pyperf3.embedded_document(document, 10000)
            self.assertEqual(json.loads(text), document)
            self.assertFalse(re.search("[^ -~]|[<>&]", text))
            self.assertEqual(lacks, [])


    def test_letters_beyond_ascii(self):
        """Where the page is written in an encoding that does not have them, they are whole."""
        document = pictures.Sample(seconds=2).document("B\xfcro")
        document["title"] = "B\xfcro \u20ac \U0001f600"
        page = pyperf3.report_html(document, "pyperf3.py -c B\xfcro")
        self.assertEqual(page.encode("ascii").decode("cp1252"), page)
        read = self.read(page, document)
        for text in ("B\xfcro \u20ac \U0001f600: TCP test to B\xfcro", "pyperf3.py -c B\xfcro"):
            self.assertTrue(read.has(text), (text, read.text))
        self.assertEqual(self.root.find(".//title").text, document["title"]
                         + ": TCP test to B\xfcro")


class Odd(PageCase):
    """A document may be anybody's: whatever JSON can be makes a page, soon."""

    def test_parts_of_cells_and_phases_that_are_of_another_kind(self):
        for own in ({"mtu": {"up": 5}}, {"mtu": {"mss": 5}}, {"latency": {"classes": 5}},
                    {"latency": {"classes": [5]}}, {"verdict": [5]}, {"checks": [{}]},
                    {"host": {"cores": 10 ** 400}}, {"x": nested(600)}):
            with self.subTest(own=str(own)[:80]):
                document = pictures.Sample(seconds=2).document()
                document["end"]["pyperf3"] = own
                whole = mesh()
                whole["mesh"]["cells"][0]["document"] = document
                for each in (document, whole, survey(document)):
                    self.read(pyperf3.report_html(each))

    def test_what_cannot_be_written_is_left_out(self):
        document = pictures.Sample(seconds=2).document()
        document.update(extra_data=nested(600), title=10 ** 400)
        read = self.read(pyperf3.report_html(document))
        self.assertTrue(read.has("left out, to keep this file small: what is nested too deep"))
        self.assertIsNone(self.data["title"])
        self.assertIn("too deep", str(self.data["extra_data"]))
        self.assertEqual(len(self.data["intervals"]), 2)
        self.assertEqual(document["title"], 10 ** 400)  # what was handed in is as it was

    def test_any_member_of_another_kind(self):
        """The members of documents are replaced in turn; each makes a page all the same."""
        values = (5, [], {}, None, "x", 10 ** 400, nested(600), [5], -1e308)
        test = pictures.Sample(seconds=1, bidir=True).document()
        test["end"]["pyperf3"].update(
            mtu={"up": {"mtu": 1500, "black_hole": True}, "down": {"at_least": 1400}, "mss": 1448,
                 "mss_mtu": 1500},
            checks=[{"name": "min-bitrate", "limit": 9e8, "value": 8e8, "unit": "bit/s",
                     "state": "failed", "direction": "up", "figure": "received"}])
        whole, count = mesh(), 0
        whole["mesh"]["cells"][0]["document"] = pictures.Sample(seconds=1).document()
        for document in (test, whole, survey(pictures.Sample(seconds=1, udp=True).document())):
            text = json.dumps(document)
            for number, place in enumerate(sorted(places(document))):
                changed, value = json.loads(text), values[number % len(values)]
                owner = changed
                for name in place[:-1]:
                    owner = owner[name]
                owner[place[-1]] = value
                with self.subTest(place=place, value=str(value)[:20]):
                    self.read(pyperf3.report_html(changed))
                count += 1
        self.assertGreater(count, 300)
        for document in (5, [], None, "x", [{}]):
            self.read(pyperf3.report_html(document))

    def test_intervals_of_which_no_two_are_of_a_kind(self):
        """Joining them was tried for ever."""
        for name, values in (("omitted", (True, False)), ("streams", ([], [{"socket": 5}]))):
            document = pictures.Sample(seconds=2000, latency=False).document()
            for number, interval in enumerate(document["intervals"]):
                value = values[number % 2]
                (interval if name == "streams" else interval["sum"])[name] = value
            self.read(pyperf3.report_html(document))

    def test_times_that_are_too_large_to_differ(self):
        for start, end in ((1e20, 1e20), (1e20, 1e20 + 1e5), (0.0, 1e99), (-1e99, 1e99)):
            axis = pyperf3.time_axis(start, end)
            self.assertLessEqual(len(axis.ticks), 30, (start, end))
            document = pictures.Sample(seconds=1).document()
            document["intervals"][0]["sum"].update(start=start, end=end)
            self.read(pyperf3.report_html(document))

    def test_hosts_without_number(self):
        """The table of a mesh has their square of cells."""
        document = mesh()
        document["mesh"]["hosts"] = [{"name": number} for number in range(1000)]
        self.assertTrue(self.read(pyperf3.report_html(document)).has("of the first 30 hosts"))


def nested(depth):
    """Return lists within each other."""
    value = []
    for _ in range(depth):
        value = [value]
    return value


def places(document):
    """Return the paths of a document's members: of the items of a list that of the first."""
    found, todo = [], [((), document)]
    while todo:
        path, value = todo.pop()
        items = value.items() if isinstance(value, dict) else (
            list(enumerate(value))[:1] if isinstance(value, list) else ())
        for name, item in items:
            found.append(path + (name,))
            todo.append((found[-1], item))
    return found


def survey(*documents):
    """Return the document of a diagnosis with tests of these documents."""
    ran = [pyperf3.Surveyed(test, document, None, False)
           for test, document in zip(pyperf3.SURVEY_TESTS, documents)]
    settings = pyperf3.Settings.from_arguments(["-c", "db2.example", "--diagnose"])
    sound = pictures.Sample(seconds=1).document()
    summary = pyperf3.summarize_survey(settings, [each._replace(document=sound) for each in ran])
    return {"diagnose": {"host": "db2.example", "port": 5201, "phases": [
        {"name": each.test.name, "document": each.document} for each in ran], "summary": summary}}


class Sizes(PageCase):
    """A page is never large."""

    def check_size(self, least, points, **sample):
        read = self.report(whole=False, **sample)
        for path in self.paths("up sent"):
            self.assertTrue(least <= path.count("h") <= points, path.count("h"))
        return read

    def test_a_short_test_of_a_survey_keeps_its_intervals(self):
        """It was the first of which nothing was left, since it has few ways to become smaller."""
        documents = [pictures.Sample(seconds=seconds, streams=4).document()
                     for seconds in (3600, 3600, 2)]
        whole = {"diagnose": {"phases": [{"name": str(number), "document": document}
                                         for number, document in enumerate(documents)]}}
        text, _ = pyperf3.embedded_document(whole, 60000)
        kept = json.loads(text)["diagnose"]["phases"]
        self.assertTrue(kept[2]["document"]["intervals"])
        self.assertGreater(len(kept[0]["document"]["intervals"]), 0)

    def test_intervals_whose_ends_jump_are_few_points(self):
        points = [pyperf3.Point(number * 1e-3, number * 1e-3 + 1000 * (number % 2), 1, 1, 1)
                  for number in range(5000)]
        self.assertLessEqual(len(pyperf3.join_points(points, 50)), 51)

    def test_a_spread_of_which_half_is_missing(self):
        page = pyperf3.report_html({"intervals": [
            {"sum": {"start": 0, "end": 1, "bits_per_second": 5, "pyperf3": {"slowest_bps": 1}}}]})
        self.assertIn("</html>", page)

    def test_an_hour(self):
        read = self.check_size(400, 600, seconds=3600)
        self.assertTrue(read.has("left out, to keep this file small: of 3600 intervals neighbours"
                                 " are joined to"))
        self.assertGreater(len(self.data["intervals"]), 100)
        self.assertEqual(len(self.paths("band up")), 2)  # of what was sent, and of what arrived

    def test_an_hour_of_tenths_of_a_second(self):
        self.check_size(400, 600, seconds=3600, interval=0.1)

    def test_many_streams_both_ways(self):
        read = self.check_size(60, 60, seconds=60, streams=128, bidir=True)
        self.assertTrue(read.has("the streams of the intervals"))
        self.check_size(100, 600, seconds=1200, streams=8, bidir=True)

    def test_what_lies_between_is_not_lost(self):
        """One short stall in an hour, and one burst, are in the chart and in its text."""
        document = pictures.Sample(seconds=3600, latency=False).document()
        document["intervals"][1801]["sum"]["bits_per_second"] = 0.0
        document["intervals"][2003]["sum"]["bits_per_second"] = 2e8
        read = self.read(pyperf3.report_html(document))
        self.assertTrue(read.has("lowest 0 bit/s at 1801 s, highest 200 Mbit/s at 2003 s"))
        # And they are so still where the data of the page is all that is left.
        again = self.read(pyperf3.report_html(self.data))
        self.assertTrue(again.has("lowest 0 bit/s at"), again.text)
        self.assertTrue(again.has("highest 200 Mbit/s at"), again.text)

    def test_joined_intervals_keep_their_sums(self):
        intervals = pictures.Sample(seconds=10, udp=True, bidir=True, omit=1).intervals
        fewer = pyperf3.fewer_intervals(intervals)
        self.assertEqual(len(fewer), 6)  # what is omitted stays apart
        for name in ("sum", "sum_bidir_reverse"):
            for member in ("bytes", "packets", "seconds"):
                self.assertAlmostEqual(sum(each[name][member] for each in fewer),
                                       sum(each[name][member] for each in intervals), 6)
            for each in fewer[1:]:
                self.assertAlmostEqual(each[name]["bits_per_second"],
                                       each[name]["bytes"] * 8 / each[name]["seconds"])
        self.assertEqual([each["sum"]["start"] for each in fewer], [0.0] + [
            2.0 * number for number in range(5)])
        self.assertEqual(intervals, pictures.Sample(
            seconds=10, udp=True, bidir=True, omit=1).intervals)  # nothing is changed in place

    def test_a_day_is_collected_in_a_bounded_room(self):
        sample = pictures.Sample(seconds=100, latency=False)
        for streams in (1, 20):
            document = pyperf3.BoundedDocument()
            for number in range(40000):
                interval = {name: dict(value, start=float(number), end=number + 1.0)
                            if isinstance(value, dict) else value * streams
                            for name, value in sample.intervals[number % 100].items()}
                document.add(pyperf3.Event(event="interval", data=interval))
            members = document.members()
            kept = members["intervals"]
            self.assertLessEqual(len(kept), pyperf3._MOST_ROWS)
            self.assertGreater(len(kept), pyperf3._MOST_ROWS // 5)
            self.assertEqual((kept[0]["sum"]["start"], kept[-1]["sum"]["end"]), (0.0, 40000.0))
            lengths = {round(each["sum"]["end"] - each["sum"]["start"]) for each in kept[:-1]}
            self.assertEqual(len(lengths), 1)  # all of them as long
            self.assertIn("of 40000 intervals", members["left_out"][0])
            self.read(pyperf3.report_html(members))

    def test_servers_own_output_and_many_limits(self):
        document = pictures.Sample(seconds=20).document()
        document["server_output_text"] = "x" * 500000
        document["end"]["pyperf3"]["limits"] = [{"socket": 5}] * 20000
        read = self.read(pyperf3.report_html(document))
        self.assertTrue(read.has("the server's own output"))
        self.assertEqual(len(self.data["intervals"]), 20)
        document["end"]["streams"] = [{"sender": {"socket": 5}}] * 20000
        self.read(pyperf3.report_html(document))
        document["extra_data"] = "y" * 300000
        self.read(pyperf3.report_html(document))
        self.assertEqual(list(self.data), ["left_out"])


    def test_servers_output_that_would_grow_by_its_escapes(self):
        """It leaves the intervals their room, and is not written only to be thrown away."""
        written = []
        document = pictures.Sample(seconds=200, latency=False).document()
        for output in ("<" * 2 ** 21, {"intervals": ["\u20ac" * 100] * 2 ** 13}):
            document["server_output_json"] = output
            escaped = pyperf3._escaped
            with mock.patch.object(pyperf3, "_escaped", lambda text: (
                    written.append(len(text)) or escaped(text))):
                self.read(pyperf3.report_html(document))
            self.assertEqual(len(self.data["intervals"]), 200)
            self.assertEqual(self.data["left_out"], ["the server's own output"])
            # Of the output, and of the few documents that were tried, no more than had room.
            self.assertLess(sum(written), 4 * LIMIT)

    def test_three_tests_of_an_hour(self):
        for seconds, least in ((60, 60), (600, 30), (3600, 15)):
            documents = [pictures.Sample(seconds=seconds, streams=4, **more).document()
                         for more in ({}, {}, {"bidir": True})]
            self.read(pyperf3.report_html(survey(*documents)))
            self.assertEqual(self.panels().count("Bitrate (Mbit/s)"), 3)
            for phase in self.data["diagnose"]["phases"]:
                self.assertGreaterEqual(len(phase["document"]["intervals"]), least)

    def test_intervals_are_joined_in_one_go(self):
        """Of an hour of tenths of a second each interval is looked at a few times, not often."""
        looked = []
        document = pictures.Sample(seconds=3600, interval=0.1, latency=False).document()
        joined = pyperf3._join_intervals
        with mock.patch.object(pyperf3, "_join_intervals", lambda some: (
                looked.append(len(some)) or joined(some))):
            self.read(pyperf3.report_html(document))
        self.assertLess(sum(looked), 1.2 * 36000)


def mesh():
    """Return the document of a mesh of three hosts, of which one test failed."""
    names = ("db1", "db2", "web")
    cells = [{"from": one, "to": other, "bits_per_second": 9.4e8, "rtt_ms": 0.3,
              "latency_ms": 12.1, "retransmits": 3, "marks": [], "document": {"start": {}}}
             for one in names for other in names if one != other]
    cells[1].update(bits_per_second=4e8, marks=["slow", "asymmetric"])
    cells[5] = {"from": "web", "to": "db2", "error": "connection refused"}
    return {"mesh": {
        "hosts": [{"name": name, "python": "3.9.2", "version": "1", "address": "192.0.2.1",
                   "error": None} for name in names],
        "seconds": 5, "metric": "bits_per_second", "cells": cells, "median_bps": 9.4e8,
        "usual_bps": 9.4e8, "findings": ["db1 -> web is 57 % below the median"], "complete": False}}


class Several(PageCase):
    """Pages of --diagnose and of --mesh."""

    def test_mesh(self):
        document = mesh()
        read = self.read(pyperf3.report_html(document, "pyperf3.py --mesh db1,db2,web"), document)
        table = next(self.root.iter("table"))
        rows = [[(cell.text or "") for cell in row] for row in table.iter("tr")]
        self.assertEqual(rows, [
            ["", "to db1", "to db2", "to web"],
            ["from db1", "", "940 Mbit/s", "400 Mbit/s !"],
            ["from db2", "940 Mbit/s", "", "940 Mbit/s"],
            ["from web", "940 Mbit/s", "failed", ""]])
        styles = [cell.get("class") for cell in table.iter("td")]
        self.assertEqual(styles, ["none", "m4", "m0", "m4", "none", "m4", "m4", "none failed",
                                  "none"])
        for text in ("db1 -> web is 57 % below", "web to db2: connection refused",
                     "Latency under load, median", "Round trip, idle"):
            self.assertTrue(read.has(text), text)

    def test_colours_of_a_mesh_tell_what_its_marks_do(self):
        """They were of the median of all cells, which one slow host of three pulls down."""
        document = mesh()
        for cell in document["mesh"]["cells"][1:]:
            cell.update(bits_per_second=9.5e7, error=None)
        document["mesh"].update(median_bps=9.5e7)
        self.read(pyperf3.report_html(document), document)
        styles = [cell.get("class") for cell in next(self.root.iter("table")).iter("td")]
        self.assertEqual(styles, ["none", "m4", "m0", "m0", "none", "m0", "m0", "m0", "none"])

    def test_large_mesh(self):
        document = mesh()
        names = ["host%d" % number for number in range(16)]
        cell = dict(document["mesh"]["cells"][0], document=pictures.Sample(seconds=5).document())
        document["mesh"]["hosts"] = [dict(document["mesh"]["hosts"][0], name=name)
                                     for name in names]
        document["mesh"]["cells"] = [dict(cell, **{"from": one, "to": other}) for one in names
                                     for other in names if one != other]
        read = self.read(pyperf3.report_html(document))
        self.assertTrue(read.has("the document of each cell"))

    def test_empty_mesh(self):
        document = mesh()
        document["mesh"].update(cells=[], findings=[], median_bps=None)
        self.read(pyperf3.report_html(dict(document, error="interrupted")))


class Files(unittest.TestCase):
    """The file is whole at each moment."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "report.html")

    def content(self):
        with open(self.path, "rb") as handle:
            return handle.read()

    def test_a_reader_never_sees_half_a_file(self):
        pieces = [letter * 300000 for letter in (b"a", b"b")]
        pyperf3.replace_file(self.path, pieces[0], 930)
        ended, seen = threading.Event(), set()

        def poll():
            while not ended.is_set():
                seen.add(self.content())
        thread = threading.Thread(target=poll)
        thread.start()
        try:
            for number in range(100):
                pyperf3.replace_file(self.path, pieces[number % 2], 930)
        finally:
            ended.set()
            thread.join()
        self.assertLessEqual(seen, set(pieces))
        self.assertEqual(os.listdir(self.folder), ["report.html"])

    @unittest.skipIf(os.name != "posix", "there are no modes of this kind")
    def test_everybody_may_read_it_as_far_as_the_umask_lets_them(self):
        for umask, mode in ((0o022, 0o644), (0o077, 0o600)):
            before = os.umask(umask)
            try:
                pyperf3.replace_file(self.path, b"x", 930)
            finally:
                os.umask(before)
            self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), mode)

    @unittest.skipIf(os.name != "posix", "there is no such device")
    def test_a_device_is_written_and_not_replaced(self):
        pyperf3.check_replaceable("/dev/null", 930)
        pyperf3.replace_file("/dev/null", b"x" * 10, 930)
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))

    @unittest.skipIf(os.name != "posix", "there are no links of this kind")
    def test_through_a_link_of_ones_own(self):
        other = os.path.join(self.folder, "other")
        os.mkdir(other)
        os.symlink(os.path.join("other", "real.html"), self.path)
        pyperf3.check_replaceable(self.path, 930)
        pyperf3.replace_file(self.path, b"x", 930)
        self.assertTrue(os.path.islink(self.path))
        self.assertEqual(os.listdir(other), ["real.html"])
        self.assertEqual(self.content(), b"x")

    @unittest.skipIf(not hasattr(os, "geteuid") or os.geteuid(), "only root can make such a link")
    def test_not_through_another_users_link(self):
        os.symlink("other.html", self.path)
        os.lchown(self.path, 12345, 12345)
        for write in (lambda: pyperf3.check_replaceable(self.path, 930),
                      lambda: pyperf3.replace_file(self.path, b"x", 930)):
            with self.assertRaises(pyperf3.IperfError) as caught:
                write()
            self.assertIn("symbolic link of another user", str(caught.exception))

    def test_where_none_can_be_written(self):
        for path in (os.path.join(self.folder, "none", "x.html"), self.folder, "a\0b", ""):
            with self.assertRaises(pyperf3.IperfError) as caught:
                pyperf3.check_replaceable(path, 930)
            self.assertEqual(caught.exception.number, 930)
            with self.assertRaises(pyperf3.IperfError):
                pyperf3.replace_file(path, b"x", 930)
        self.assertEqual(os.listdir(self.folder), [])

    def events(self, sample, *more):
        document = sample.document()
        yield pyperf3.Event(event="version", data=document["start"])
        yield pyperf3.Event(event="start", data=document["start"])
        for interval in document["intervals"]:
            yield pyperf3.Event(event="interval", data=interval)
        yield pyperf3.Event(event="end", data=document["end"])
        for event in more:
            yield event
        yield pyperf3.Event(event="done", data=None, ok=True)

    def test_events_to_a_file(self):
        sample = pictures.Sample(seconds=5)
        report = pyperf3.ReportFile(self.path, "pyperf3.py -c h")
        for number, event in enumerate(self.events(sample)):
            self.assertFalse(os.path.exists(self.path))
            report.add(event)
        page = self.content().decode("utf-8")
        self.assertEqual(page, pyperf3.report_html(sample.document(), "pyperf3.py -c h"))
        # The next test has a page of its own.
        for event in self.events(pictures.Sample(seconds=7)):
            report.add(event)
        self.assertEqual(self.content().decode("utf-8"), pyperf3.report_html(
            pictures.Sample(seconds=7).document(), "pyperf3.py -c h"))

    def test_a_survey_of_events_keeps_few_intervals(self):
        sample, report = pictures.Sample(seconds=3, latency=False), pyperf3.ReportFile(self.path)
        whole = survey(*[sample.document()] * 2)["diagnose"]
        for phase in whole["phases"]:
            document = phase["document"]
            for name, data in [("start", document["start"])] + [
                    ("interval", each) for each in document["intervals"] * 2000] + [
                    ("end", document["end"])]:
                report.add(pyperf3.Event(event=name, data=data, phase=phase["name"]))
        report.add(pyperf3.Event(event="diagnose", data=whole["summary"], whole=whole, error=None))
        report.add(pyperf3.Event(event="done", data=None, ok=True))
        page = self.content().decode("ascii")
        for phase in whole["phases"]:
            self.assertIn("%s: of 6000 intervals neighbours are joined" % phase["name"], page)

    def test_a_mesh_of_events(self):
        document = mesh()
        report = pyperf3.ReportFile(self.path)
        report.add(pyperf3.Event(event="cell", data=document["mesh"]["cells"][0]))
        report.add(pyperf3.Event(event="mesh", data=document["mesh"], error="interrupted"))
        report.add(pyperf3.Event(event="done", data=None, ok=False))
        self.assertEqual(self.content().decode("utf-8"), pyperf3.report_html(
            dict(document, error="interrupted")))

    def test_pictures_are_those_that_the_program_makes(self):
        for name, text in pictures.pictures().items():
            with open(os.path.join(pictures.FOLDER, name), encoding="utf-8") as handle:
                self.assertEqual(handle.read(), text, name)
            self.assertLess(len(text), 20000)
            ElementTree.fromstring(text)


class Commands(unittest.TestCase):
    """The command that a page shows."""

    def text(self, *words, **more):
        return pyperf3.command_text(pyperf3.Settings.from_arguments(words, **more))

    def test_command(self):
        self.assertEqual(self.text("-c", "h", "-t5", "-PR4"[:2] + "4", "--html", "my report"),
                         "pyperf3.py -c h -t 5 -P 4 --html 'my report'")
        self.assertEqual(self.text("-c", "h", "--cntl-ka=9/3/1", "-d"),
                         "pyperf3.py -c h --cntl-ka=9/3/1 -d")
        self.assertEqual(self.text("-c", "h", "--tit", "$(x)", before=["-V"]),
                         "pyperf3.py -V -c h -T '$(x)'")
        self.assertIsNone(pyperf3.command_text(pyperf3.Settings(client="h")))

    def test_what_may_hold_a_password_is_not_told(self):
        text = self.text("--ssh", "h", "--ssh-command", "sshpass -p secret ssh")
        self.assertNotIn("secret", text)
        self.assertEqual(text, "pyperf3.py --ssh h --ssh-command ...")
        settings = pyperf3.Settings.from_arguments(["-c", "h"])
        settings.password = "secret"
        self.assertNotIn("secret", pyperf3.command_text(settings))

    def test_settings_for_another_host_are_without_it(self):
        settings = pyperf3.Settings.from_arguments(["--mesh", "a,b", "--html", "x"])
        self.assertNotIn("typed", str(settings.to_json()))
        self.assertNotIn("html", pyperf3.far_client_settings(
            settings, {"addresses": ["192.0.2.1"], "port": 5201}).to_json()["values"])

    def test_options_that_do_not_go_together(self):
        for words in (["-s"], ["--ssh", "a", "--ssh", "b"], ["--ssh", "a", "--ssh-dial-back"]):
            with self.assertRaises(pyperf3.IperfError):
                pyperf3.Settings.from_arguments(words + ["--html", "x"])


class Runs(support.ServerCase, PageCase):
    """The program itself."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "report.html")

    def page(self):
        with open(self.path, encoding="utf-8", newline="") as handle:
            return handle.read()

    def test_beside_json(self):
        left = support.run(support.OURS + ("--loopback", "-t", "2", "-b", "20M", "-i", "0.5", "-J",
                                           "--latency", "--html", self.path))
        self.assertEqual((left.code, left.err), (0, ""), left)
        read = self.read(self.page(), left.json())
        self.assertTrue(read.has("--html %s" % self.path))
        self.assertIn("Latency (ms)", self.panels())
        self.assertEqual(os.listdir(self.folder), ["report.html"])

    def test_text_is_as_without(self):
        shapes = []
        for more in ((), ("--html", self.path)):
            left = support.run(support.OURS + ("--loopback", "-t", "1", "-b", "20M") + more)
            self.assertEqual((left.code, left.err), (0, ""), left)
            # Without units, too: they are those of the figures.
            shapes.append([re.sub(r"[0-9.]+( [KMG]?(Bytes|bits))?", "N", line).split()
                           for line in left.lines() if line.startswith("[")])
        self.assertEqual(*shapes)
        self.read(self.page())

    def test_diagnosis(self):
        left = support.run(support.OURS + ("--loopback", "--diagnose", "-t", "1", "-i", "0.2", "-J",
                                           "-b", "20M", "--html", self.path), 60)
        self.assertEqual((left.code, left.err), (0, ""), left)
        read = self.read(self.page())
        self.assertEqual(self.data["diagnose"]["summary"], left.json()["diagnose"]["summary"])
        self.assertEqual(self.panels().count("Bitrate (Mbit/s)"), 3)
        self.assertEqual([element.text for element in self.root.iter("h2")], [
            "Test 1: up", "Test 2: down", "Test 3: both"])
        for text in ("Diagnosis of the path to 127.0.0.1", "What to do:", "Path MTU", "both down",
                     left.json()["diagnose"]["summary"]["timestamp"]["time"], " CPUs, iperf 3.22"):
            self.assertTrue(read.has(text), text)

    def test_interrupted(self):
        for more, known in (((), "sent"), (("-R", "-u"), "received")):
            with support.Program(support.OURS + ("--loopback", "-t", "60", "-b", "20M", "-i", "0.2",
                                                 "--html", self.path) + more) as client:
                client.wait_for(" sec ", count=4)
                client.signal(signal.SIGINT)
                client.finish(20.0)
            read = self.read(self.page())
            self.assertTrue(read.has("interrupt"))
            self.assertGreater(len(self.data["intervals"]), 2)
            facts = [row.find("td").text for row in self.root.iter("tr")
                     if row.find("th").text in ("To the server", "From the server")]
            self.assertEqual(re.findall("sent|received|0 bit/s", facts[0]), [known])

    def test_a_saved_document_where_letters_are_not_utf_8(self):
        """The command of the README, whatever the locale."""
        left = support.run(support.OURS + ("--loopback", "-n", "1M", "-J", "-T", "B\xfcro"),
                           env=dict(os.environ, PYTHONUTF8="1", LC_ALL="C.UTF-8"))
        self.assertEqual(left.code, 0, left)
        saved = os.path.join(self.folder, "test.json")
        with open(saved, "wb") as handle:
            handle.write(left.out.encode("utf-8"))
        with open(os.path.join(support.ROOT, "README.md"), encoding="utf-8") as handle:
            program = re.search(r"python3 -c '(import json.*html.*)'", handle.read()).group(1)
        for more in ({"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONUTF8": "1"},
                     {"PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252"}):
            with open(saved, "rb") as handle:
                page = subprocess.check_output(
                    [sys.executable, "-c", program], stdin=handle,
                    env=dict(os.environ, LC_ALL="C", PYTHONPATH=support.ROOT, **more))
            self.assertTrue(self.read(page.decode("ascii").replace(os.linesep, "\n")).has(
                "B\xfcro: TCP test"), more)

    def test_nobody_listens(self):
        left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", support.free_port(),
                                           "--html", self.path))
        self.assertEqual(left.code, 1, left)
        self.assertTrue(self.read(self.page()).has("refused"))

    def test_where_it_cannot_be_written_is_said_at_once(self):
        path = os.path.join(self.folder, "none", "report.html")
        for more in ((), ("-J",), ("--json-stream",)):
            left = support.run(support.OURS + ("--loopback", "-t", "30", "--html", path) + more)
            self.assertEqual((left.code, left.out), (1, ""), left)
            self.assertEqual(left.err, "iperf3: error - unable to write the report: %s: No such"
                                       " file or directory\n" % path)

    def test_where_it_could_be_written_when_it_began(self):
        folder = os.path.join(self.folder, "later")
        os.mkdir(folder)
        with support.Program(support.OURS + ("--loopback", "-t", "2", "-b", "20M", "-i", "0.2",
                                             "--html", os.path.join(folder, "x"))) as client:
            client.wait_for("sec")
            os.rmdir(folder)
            left = client.finish(30.0)
        self.assertEqual(left.code, 1, left)
        self.assertIn("iperf Done.", left.out)
        self.assertIn("unable to write the report", left.err)

    @unittest.skipIf(sys.platform == "win32", "no such device")
    def test_to_a_device(self):
        left = support.run(support.OURS + ("--loopback", "-t", "1", "-b", "20M", "--html",
                                           "/dev/null"))
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))


if __name__ == "__main__":
    unittest.main()
