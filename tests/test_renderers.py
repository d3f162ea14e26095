"""Replay the captured output of iperf3 through the renderers, byte for byte.

A capture is read back into the events that a test like it produces, and the renderers make the
capture of these again. Text is read by a parser of its own, which invents figures that print as
the captured ones do.
"""

import calendar
import collections
import contextlib
import io
import json
import re
import socket
import time
import unittest
import unittest.mock

import captures
import pyperf3


def joined(lines):
    return "".join(line + "\n" for line in lines)


def event(name, data, **more):
    made = pyperf3.Event(event=name, data=data)
    made.update(more)
    return made


def render(renderer, events):
    """Return what a renderer prints of events."""
    return "".join(joined(renderer.render(each)) for each in events)


# JSON #########################################################################


def without_doubles(text):
    """Return captured documents with each member once, and how many were taken out.

    differs: iperf3 prints a server's error, and a server's target_bitrate, twice; pyperf3 prints
    the second of both. With -V iperf3 prints a line of text before the document.
    """
    text = re.sub(r"^Control connection MSS \d+\n(?=\{)", "", text)
    text, errors = re.subn(r'\t"error":\t"SERVER ERROR - .*",\n(?=\t"error":)', "", text)
    text, rates = re.subn(r'(?<=HOST KERNEL x86_64",\n)\t\t"target_bitrate":\t\d+,\n', "", text)
    text, more = re.subn(r'(?<=HOST KERNEL x86_64",)"target_bitrate":\d+,', "", text)
    return text, errors + rates + more


def documents(case, side):
    """Return the documents that a case printed, members that come twice as pyperf3's."""
    return captures.documents(re.sub(r"^[^{].*\n", "", case.out(side)))


def events_of(document, role, number=None):
    """Return the events that make up a document. number: of a server's test."""
    more = {}
    if role == "server":
        more = {"server": True, "test": number}
    start = document["start"]
    facts = dict((name, start[name]) for name in ("version", "system_info"))
    facts = {"connected": [], "version": facts["version"], "system_info": facts["system_info"]}
    refused = role == "server" and "accepted_connection" not in start
    yield event("version", start if role == "client" or refused else facts)
    if role == "server":
        yield event("listening", {"port": 5201, "test": 1}, server=True)
    if "connecting_to" in start:
        yield event("connecting", start, reverse=False, control_mss=32768)
    if "accepted_connection" in start:
        yield event("accepted", start, **more)
    for each in start["connected"]:
        yield event("connected", each, **more)
    if "test_start" in start:
        yield event("start", start, **more)
    for interval in document["intervals"]:
        yield event("interval", interval, last=interval is document["intervals"][-1], **more)
    for name in ("server_output_text", "server_output_json"):
        if name in document:
            yield event(name, document[name])
    if "error" in document:
        yield event("error", document["error"], first="the first of two texts",
                    line="error - " + document["error"], **more)
    yield event("end", document["end"], remote=True, **more)
    titles = {"title": document.get("title"), "extra_data": document.get("extra_data")}
    yield event("done", None, ok="error" not in document, **dict(more, **titles))


class Json(unittest.TestCase):
    """The documents of -J."""

    def test_notation_of_all_captured_documents(self):
        replayed = doubles = 0
        for case, side in captures.outputs("json"):
            with self.subTest(case=case.name, side=side):
                wanted, count = without_doubles(case.out(side))
                doubles += count
                made = [pyperf3.encode_json(document, 0) for document in documents(case, side)]
                replayed += len(made)
                self.assertEqual(joined(made), wanted)
        self.assertEqual((replayed, doubles), (87, 14))

    def test_documents_from_events(self):
        replayed = 0
        for case, side in captures.outputs("json"):
            with self.subTest(case=case.name, side=side):
                command = case.commands[side]
                renderer = pyperf3.PerTest(pyperf3.JsonRenderer)
                made = ""
                for number, document in enumerate(documents(case, side), 1):
                    idle = "accepted_connection" not in document["start"]
                    made += render(renderer, events_of(document, command.role,
                                                       None if idle else number))
                replayed += 1
                self.assertEqual(made, without_doubles(case.out(side))[0])
        self.assertEqual(replayed, 84)

    def test_control_characters_beyond_ascii_went_raw_into_the_output(self):
        text = "a\x1b\x7f\x85\x9b31m\u2028\u2029\u202e\u2066\u200f\u061cz\u00e9\U0001f600\u200d"
        steering = set(text) - set("a31mz\u00e9\U0001f600\u200d")
        events = [event("version", {"x": text}), event("server_output_text", text),
                  event("server_output_json", {text: [text]}), event("error", text, line=text),
                  event("end", {"sender_tcp_congestion": text}),
                  event("done", None, ok=True, title=text, extra_data=text)]
        for renderer in (pyperf3.JsonRenderer(), pyperf3.JsonStreamRenderer(True)):
            made = render(renderer, events)
            self.assertFalse(steering & set(made), made)
            self.assertEqual(captures.parse(made[made.index("{\n"):])["title"], text)
        for each in ("warning", "error"):
            made = "".join(pyperf3.error_lines(event(each, text, line=text)))
            self.assertFalse(steering & set(made), made)
        self.assertEqual(pyperf3.printable(text), "a31mz\u00e9\U0001f600\u200d")
        # On the wire they stand as iperf3 has them.
        self.assertIn("\x9b31m\u2028", pyperf3.encode_json({"title": text}))

    def test_intervals_beyond_the_room_are_left_out_and_counted(self):
        intervals = [event("interval", {"streams": [], "sum": {"start": number, "end": number + 1}})
                     for number in range(100)]
        ends = [event("end", {"a": 1, "pyperf3": {"b": 2}}), event("done", None, ok=True)]
        first = [event("version", {})]
        for few in (0, 3):
            self.assertEqual(render(pyperf3.JsonRenderer(1000), first + intervals[:few] + ends),
                             render(pyperf3.JsonRenderer(), first + intervals[:few] + ends))
        found = captures.parse(render(pyperf3.JsonRenderer(1000), first + intervals + ends))
        kept = len(found["intervals"])
        self.assertTrue(5 < kept < 30, kept)
        self.assertEqual(found["end"], {"a": 1, "pyperf3": {"b": 2, "intervals_left_out": {
            "count": 100 - kept, "from_seconds": kept}}})

    def test_a_servers_output_for_its_client_has_a_room(self):
        intervals = [event("interval", {"streams": [], "sum": {"start": number, "end": number + 1}})
                     for number in range(100)]

        def lines(event):
            return ['%s "%s"' % (event["event"], event["data"]["sum"]["start"])
                    if event["event"] == "interval" else event["event"]]
        transcript = pyperf3.Transcript(lines, 300)
        for each in [event("start", {})] + intervals + [event("end", {})]:
            transcript.add(each)
        name, value = transcript.server_output()
        lines = captures.parse(pyperf3.encode_json({name: value}))["server_output_text"].split("\n")
        self.assertEqual((lines[0], lines[1], lines[-2:]), ("start", 'interval "0"', ["end", ""]))
        self.assertIn("left out", lines[-3])
        self.assertTrue(10 < len(lines) < 30, lines)
        document = pyperf3.Document(room=300, wire=True)
        for each in intervals:
            document.add(each)
        document.add(event("end", {}))
        name, value = document.server_output()
        self.assertEqual(name, "server_output_json")
        found = captures.parse(pyperf3.encode_json(value))
        self.assertEqual(found["end"]["pyperf3"]["intervals_left_out"]["count"],
                         100 - len(found["intervals"]))

    def test_a_servers_two_documents_keep_one_text_of_an_interval(self):
        document, = documents(captures.Case("json-tcp-bidir"), "server")[:1]
        printed, told = pyperf3.Document(room=10 ** 6), pyperf3.Document(room=10 ** 6, wire=True)
        for each in events_of(document, "server", 1):
            printed.add(each)
            told.add(each)
        self.assertTrue(document["intervals"])
        for one, other in zip(printed.members()["intervals"], told.members()["intervals"]):
            self.assertIs(one, other)
        name, value = told.server_output()
        self.assertEqual(pyperf3.encode_json(value), pyperf3.encode_json(document))
        self.assertEqual(pyperf3.encode_json(printed.members(), 0),
                         pyperf3.encode_json(document, 0))

    def test_nothing_comes_before_the_test_is_done(self):
        case = captures.Case("json-tcp")
        document = documents(case, "client")[0]
        events = list(events_of(document, "client"))
        self.assertEqual(render(pyperf3.JsonRenderer(), events[:-1]), "")

    def test_documents_of_two_tests_at_a_time_do_not_mix(self):
        first, second = documents(captures.Case("json-two-tests"), "server")[:2]
        one, two = list(events_of(first, "server", 1)), list(events_of(second, "server", 2))
        renderer = pyperf3.PerTest(pyperf3.JsonRenderer)
        render(renderer, one[:-1] + two[:-1])
        self.assertEqual(render(renderer, two[-1:]), pyperf3.encode_json(second, 0) + "\n")
        self.assertEqual(render(renderer, one[-1:]), pyperf3.encode_json(first, 0) + "\n")

    def test_order_of_the_members_whatever_the_order_of_the_events(self):
        renderer = pyperf3.JsonRenderer()
        start = {"connected": []}
        render(renderer, [event("version", start), event("end", {}),
                          event("server_output_text", "text"), event("error", "what")])
        made = json.loads(render(renderer, [event("done", None, ok=False, extra_data="extra",
                                                  title="title")]), object_pairs_hook=list)
        self.assertEqual([name for name, _ in made],
                         ["start", "intervals", "end", "error", "title", "extra_data",
                          "server_output_text"])

    def test_warnings_and_moments_of_text_are_in_no_document(self):
        case = captures.Case("json-tcp")
        document = documents(case, "client")[0]
        events = list(events_of(document, "client"))
        events[3:3] = [event("warning", "careful"), event("measuring", None)]
        self.assertEqual(render(pyperf3.JsonRenderer(), events), case.out("client"))


class JsonStream(unittest.TestCase):
    """The events of --json-stream."""

    def replay(self, case, side):
        """Return (what the renderer makes of a capture, how many events it has)."""
        command = case.commands[side]
        lines = case.out(side).split("\n")
        count = sum(line.startswith('{"event":') for line in lines)
        whole = captures.documents("\n".join(lines[count:]))
        facts = {"connected": [], "version": "iperf 3.22",
                 "system_info": "Linux HOST KERNEL x86_64"}
        events = [event("version", facts), event("listening", {"port": 1, "test": 1})]
        read = [captures.parse(line) for line in lines[:count]]
        for each in read:
            self.assertEqual(list(each), ["event", "data"])
            made = event(each["event"], each["data"])
            if made["event"] == "start":
                name = "connecting" if command.role == "client" else "accepted"
                events.append(event(name, each["data"]))
                events += [event("connected", row) for row in each["data"]["connected"]]
            if made["event"] == "error":
                # The event has the text without its beginning, and the first text beside it.
                made["first"] = made["data"]
                made["data"] = made["line"] = made["data"].replace("SERVER ERROR - ", "")
            events.append(made)
        events.append(event("done", None, ok=True))
        full = command.has("--json-stream-full-output")
        self.assertEqual(bool(whole), full)
        return render(pyperf3.JsonStreamRenderer(full=full), events), len(read)

    def test_all_captured_streams(self):
        replayed = total = 0
        for case, side in captures.outputs("stream"):
            with self.subTest(case=case.name, side=side):
                made, count = self.replay(case, side)
                replayed += 1
                total += count
                self.assertEqual(made, without_doubles(case.out(side))[0])
        self.assertEqual((replayed, total), (29, 107))

    def test_end_comes_last_and_is_empty_where_none_was_made(self):
        renderer = pyperf3.PerTest(pyperf3.JsonStreamRenderer)
        self.assertEqual(render(renderer, [event("end", {"streams": []}), event("error", "x"),
                                           event("done", None, ok=False)]),
                         '{"event":"error","data":"x"}\n{"event":"end","data":{"streams":[]}}\n')
        self.assertEqual(render(renderer, [event("done", None, ok=False)]),
                         '{"event":"end","data":{}}\n')

    def test_title_and_extra_data_stand_in_the_whole_document_only(self):
        renderer = pyperf3.JsonStreamRenderer(True)
        lines = render(renderer, [event("version", {}), event("end", {}),
                                  event("done", None, ok=True, title="title",
                                        extra_data="extra")]).split("\n")
        self.assertEqual(lines[0], '{"event":"end","data":{}}')
        self.assertEqual(list(captures.parse("\n".join(lines[1:]))),
                         ["start", "intervals", "end", "title", "extra_data"])

    def test_an_event_is_one_line_whatever_the_texts_in_it(self):
        made = render(pyperf3.JsonStreamRenderer(),
                      [event("server_output_text", "one\ntwo\r\nthree\u2028four\0")])
        self.assertEqual(made.count("\n"), 1)
        self.assertEqual(captures.parse(made)["data"], "one\ntwo\r\nthree\u2028four\0")


# Text #########################################################################

RULE = "-" * 59
SEPARATOR = "- " * 24 + "-"

ROW = re.compile(r"\[(SUM|[ \d]{3,})\](?:\[([RT])X-[CS]\])? +([\d.]+)-([\d.]+) +sec"
                 r" +([\d.]+) (\w*?)Bytes +([\d.]+) (\w*?)(bits|Bytes)/sec(.*)$")
CONNECTED = re.compile(r"\[ *(\d+)\] local (\S+) port (\d+) connected to (\S+) port (\d+)$")
STARTING = re.compile(r"Starting Test: protocol: (?:TCP|UDP), (\d+) streams, (\d+) byte blocks,"
                      r" omitting (\d+) seconds, (?:(\d+) bytes to send|(\d+) blocks to send"
                      r"|(\d+) second test), tos (\d+)$")
SENT = re.compile(r" {8}Sent +([\d.]+) (\w*)Byte / +([\d.]+) (\w*)Byte \((\d+)%\) of (.*)$")
LACKING = re.compile(r"\[(SUM|[ \d]{3,})\] \((sender|receiver) statistics not available\)$")
LATE = re.compile(r"\[SUM\](?:\[[RT]X-[CS]\])? +[\d.]+- *[\d.]+ sec  (\d+) datagrams received"
                  r" out-of-order$")
CPU = re.compile(r"CPU Utilization: local/\w+ ([\d.]+)% \(([\d.]+)%u/([\d.]+)%s\),"
                 r" remote/\w+ ([\d.]+)% \(([\d.]+)%u/([\d.]+)%s\)$")

POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def scaled(number, prefix, step):
    """Return a figure that prints as this number with this unit."""
    value = float(number)
    if value == step:
        value -= 0.3  # it was less, and rounded up: a whole step would be the next unit
    return value * step ** POWERS[prefix]


class Reader:
    """Read captured text back into the events of the tests that it tells of.

    events: the events; lines: the text as pyperf3 is to print it.
    """

    def __init__(self, command, client, text, once=False):
        """client: the client's Command; once: take out an interval that is printed again."""
        self.role = command.role
        self.verbose = command.has("-V")
        self.once = once
        self.repeats = 0
        self.udp = client.has("-u")
        self.interval = float(command.value("-i", 1))
        self.parallel = int(client.value("-P", 1))
        self.bidir = client.has("--bidir")
        self.reverse = client.has("-R")
        self.title = client.value("-T", "") + ":  " if (
            self.role == "client" and client.has("-T")) else ""
        self.events = []
        self.lines = []
        # differs: with -V and -T iperf3 prints the title twice before the system's name.
        self.raw = [line.replace(self.title * 2, self.title) if self.title else line
                    for line in text.split("\n")[:-1]]
        self.at = 0
        self.test = 0
        self.in_test = self.started = self.omitted = False
        self.begun = 0  # where the current report begins in `lines`
        self.last_rows = None
        if not self.verbose and self.role == "client":
            self.version("not to be shown", "nor this")
        while self.at < len(self.raw):
            self.step()
        self.finish(False)

    # Lines

    def peek(self, ahead=0):
        """Return a line to come without its title, None behind the last."""
        at = self.at + ahead
        if at >= len(self.raw):
            return None
        line = self.raw[at]
        return line[len(self.title):] if self.title and line.startswith(self.title) else line

    def take(self, pattern=None):
        """Take the next line; with a pattern only if it fits. Returns the line, or the match."""
        line = self.peek()
        found = line if pattern is None else line is not None and re.match(pattern, line)
        if pattern is None or found:
            self.lines.append(self.raw[self.at])
            self.at += 1
        return found or None

    def emit(self, name, data, **more):
        if self.role == "server":
            more["server"] = True
            if name not in ("version", "listening"):
                more["test"] = self.test
        self.events.append(event(name, data, **more))

    def version(self, text, system):
        self.emit("version", {"connected": [], "version": text, "system_info": system})

    # Lines to events

    def step(self):
        line = self.peek()
        if line.startswith("iperf 3.") and not line.endswith("Done."):
            self.finish(False)
            self.version(self.take(), self.take())
        elif line == RULE:
            self.banner()
        elif line.startswith(("Control connection ", "Time: ", "Connecting", "Accepted")):
            self.begin()
        elif CONNECTED.match(line):
            number, local, port, remote, other = self.take(CONNECTED).groups()
            self.emit("connected", {"socket": int(number), "local_host": local,
                                    "local_port": int(port), "remote_host": remote,
                                    "remote_port": int(other)})
        elif line.startswith("Starting Test"):
            streams, size, omit, count, blocks, seconds, tos = self.take(STARTING).groups()
            self.start(streams, size, omit, count, blocks, seconds, tos)
        elif line == "Finished omit period, starting real test":
            self.take()
            self.emit("measuring", None)
        elif line == SEPARATOR and not ROW.match(self.peek(1)):
            self.summary()
        elif line == SEPARATOR or line.startswith("[ ID]") or ROW.match(line):
            self.report()
        elif line == "" and self.peek(1) == "iperf Done.":
            self.take()
            self.take()
            self.finish(True)
        else:
            raise AssertionError("a line that is not understood: %r" % line)

    def banner(self):
        self.finish(False)
        if not self.verbose:
            self.version("not to be shown", "nor this")
        self.take()
        port, self.test = map(int, re.match(r"Server listening on (\d+) \(test #(\d+)\)",
                                            self.take()).groups())
        self.take()
        self.emit("listening", {"port": port, "test": self.test})

    def begin(self):
        self.in_test = True
        self.started = self.omitted = False
        self.last_rows = None
        probes = self.take(r"Control connection TCP Keepalive .* set to (\d+)/(\d+)/(\d+)$")
        keepalive = tuple(map(int, probes.groups())) if probes else None
        mss = self.take(r"Control connection MSS (\d+)$")
        block = self.take(r"Setting UDP block size to (\d+)$")
        when = self.take("Time: (.*)$")
        data = {"timestamp": {"time": when.group(1) if when else "not to be shown"}}
        if self.role == "client":
            host, port = self.take(r"Connecting to host (\S+), port (\d+)$").groups()
            data["connecting_to"] = {"host": host, "port": int(port)}
            self.take("Reverse mode, remote host .* is sending$")
        else:
            host, port = self.take(r"Accepted connection from (\S+), port (\d+)$").groups()
            data["accepted_connection"] = {"host": host, "port": int(port)}
        cookie = self.take(" {6}Cookie: (.*)$")
        data["cookie"] = cookie.group(1) if cookie else "not to be shown"
        size = self.take(r" {6}TCP MSS: (\d+)( \(default\))?$")
        if size:
            data["tcp_mss_default" if size.group(2) else "tcp_mss"] = int(size.group(1))
        rate = self.take(r" {6}Target Bitrate: (\d+)$")
        data["target_bitrate"] = int(rate.group(1)) if rate else 0
        if self.role == "client":
            self.emit("connecting", data, reverse=self.reverse,
                      control_mss=int(mss.group(1)) if mss else 4711,
                      udp_block=int(block.group(1)) if block else None, keepalive=keepalive)
        else:
            self.emit("accepted", data, keepalive=keepalive)

    def start(self, streams, size=131072, omit=0, count=0, blocks=0, seconds=0, tos=0):
        if not self.started:
            self.started = True
            self.emit("start", {"test_start": {
                "protocol": "UDP" if self.udp else "TCP",
                "num_streams": int(streams), "blksize": int(size),
                "omit": int(omit), "duration": int(seconds or 0), "bytes": int(count or 0),
                "blocks": int(blocks or 0), "reverse": int(self.reverse), "tos": int(tos),
                "target_bitrate": 0, "bidir": int(self.bidir), "interval": self.interval}})

    def row(self):
        """Take a row; returns (figures, words at its end), the figures without the count."""
        found = self.take(ROW)
        number, role, start, end, size, size_unit, rate, rate_unit, kind, rest = found.groups()
        sends = role == "T" if role else (self.role == "client") != self.reverse
        figures = {} if number == "SUM" else {"socket": int(number)}
        bits = scaled(rate, rate_unit, 1000) if kind == "bits" else (
            scaled(rate, rate_unit, 1024) * 8)
        figures.update({"start": float(start), "end": float(end),
                        "seconds": float(end) - float(start),
                        "bytes": int(round(scaled(size, size_unit, 1024))),
                        "bits_per_second": bits, "sender": sends})
        return figures, rest.split()

    def report(self):
        """Take one report of an interval."""
        self.start(self.parallel)
        begun = len(self.lines)
        if self.peek() == SEPARATOR:
            self.take()
        if self.peek().startswith("[ ID]"):
            self.take()
        groups = []
        at = self.at
        for _ in range(2 if self.bidir else 1):
            rows = [self.interval_row() for _ in range(self.parallel)]
            total = dict(rows[0])
            del total["socket"]
            groups.append((rows, self.interval_row() if self.parallel > 1 else total))
        text = self.raw[at:self.at]
        if self.once and text == self.last_rows:
            del self.lines[begun:]  # differs: iperf3 prints the last report again at the end
            self.repeats += 1
            return
        self.last_rows = text
        omitted = groups[0][0][0]["omitted"]
        if self.omitted and not omitted:
            self.emit("measuring", None)
        self.omitted = omitted
        data = {"streams": [row for rows, _ in groups for row in rows]}
        for name, (_, total) in zip(("sum", "sum_bidir_reverse"), groups):
            data[name] = total
        self.emit("interval", data, last=False)

    def interval_row(self):
        figures, words = self.row()
        figures["omitted"] = words[-1:] == ["(omitted)"]
        words = words[:-1] if figures["omitted"] else words
        if self.udp:
            figures.update(self.datagrams(words))
            return figures
        if words:
            figures["retransmits"] = int(words[0])
        if words[1:]:
            prefix = words[2][:-len("Bytes")]
            figures["snd_cwnd"] = int(round(scaled(words[1], prefix, 1024)))
        return figures

    @staticmethod
    def datagrams(words):
        """Return the figures that only a row of UDP has."""
        if words[1:2] != ["ms"]:
            return {"packets": int(words[0])}
        lost, total = words[2].split("/")
        return {"jitter_ms": float(words[0]), "lost_packets": int(lost), "packets": int(total),
                "lost_percent": float(words[3].strip("(%)"))}

    def summary(self):
        """Take the summary."""
        self.take()
        self.take("Test Complete. Summary Results:$")
        self.take(r"\[ ID\]")
        if self.udp:
            self.datagram_summary()
            return
        streams, sums = {}, []
        order, current, pending = [], None, []
        end = {"streams": [], "cpu": [12.3, 45.6, 7.89, 9.87, 65.4, 32.1], "names": {}}
        while True:
            line = self.peek()
            if line is None:
                break
            if ROW.match(line):
                figures, words = self.row()
                if words[1:]:
                    figures["retransmits"] = int(words[0])
                current = self.place(streams, sums, order, figures.get("socket"))
                current[words[-1]] = figures
                if pending:  # a server that receives names the file before the row
                    current["diskfile"] = pending.pop()
            elif LACKING.match(line):
                number, which = self.take(LACKING).groups()
                current = self.place(streams, sums, order,
                                     None if number == "SUM" else int(number))
                current.setdefault(which, None)
            elif SENT.match(line):
                if current is None or "receiver" in current:
                    pending.append(self.take(SENT).groups())
                else:
                    current["diskfile"] = self.take(SENT).groups()
            elif CPU.match(line):
                end["cpu"] = [float(each) for each in self.take(CPU).groups()]
            elif re.match("(snd|rcv)_tcp_congestion ", line):
                name, _, value = self.take().partition(" ")
                if name == "snd_tcp_congestion" or end["names"].get("done"):
                    end["names"] = {}
                end["names"][name] = value
                end["names"]["done"] = name == "rcv_tcp_congestion"
            elif line == "" and self.peek(1) in ("Server output:", "Server JSON output:"):
                self.server_output()
            else:
                break
        self.end(streams, sums, order, end)

    def datagram_summary(self):
        """Take the rows of a summary of UDP, and what stands between them."""
        rows, order, late = collections.OrderedDict(), [], 0
        cpu = [12.3, 45.6, 7.89, 9.87, 65.4, 32.1]
        while self.peek() is not None:
            line = self.peek()
            if ROW.match(line):
                figures, words = self.row()
                figures.update(self.datagrams(words))
                number = figures.get("socket", "sum of %d" % len(order))
                if "socket" in figures and number not in order:
                    order.append(number)
                row = rows.setdefault(number, {"late": 0})
                row[words[-1]] = figures
                row["late"], late = row["late"] + late, 0
            elif LACKING.match(line):
                self.take()
            elif LATE.match(line):
                late = int(self.take(LATE).group(1))
            elif CPU.match(line):
                cpu = [float(each) for each in self.take(CPU).groups()]
            elif line == "" and self.peek(1) in ("Server output:", "Server JSON output:"):
                self.server_output()
            else:
                break
        made = [self.datagram_row(row) for row in rows.values()]
        if self.parallel == 1:  # of one stream no sum is shown
            made = [each for row in made for each in (row, self.total(row))]
        count = self.parallel + 1
        made = [made[at:at + count] for at in range(0, len(made), count)]
        for group in made:
            # A sum has all that came out of order, too, and must not show it.
            group[-1] = group[-1]._replace(totals=group[-1].totals._replace(
                out_of_order=sum(row.totals.out_of_order for row in group[:-1])))
        names = ("host_total", "host_user", "host_system", "remote_total", "remote_user",
                 "remote_system")
        self.emit("end", {"streams": [{"udp": {}} for _ in order], "sum": {},
                          "cpu_utilization_percent": dict(zip(names, cpu))},
                  rows=made)

    @staticmethod
    def datagram_row(row):
        known = row.get("sender") or row["receiver"]
        unknown = dict(known, bytes=0, bits_per_second=0.0, packets=0)
        received = row.get("receiver", unknown)
        return pyperf3.SummaryRow(row.get("sender", unknown), received, totals(
            known, lost=received["lost_packets"], out_of_order=row["late"]), None)

    @staticmethod
    def total(row):
        return row._replace(totals=row.totals._replace(socket=None))

    @staticmethod
    def place(streams, sums, order, number):
        """Return the dict that holds the rows of one stream, or of a sum."""
        if number is None:
            if not sums or sums[-1].get("full") or sums[-1].get("after") != len(order):
                sums.append({"after": len(order)})
            return sums[-1]
        if number not in streams:
            streams[number] = {}
            order.append(number)
        return streams[number]

    def server_output(self):
        self.take()
        kind = self.take()
        taken = []
        if kind == "Server output:":
            while self.raw[self.at] != "":
                taken.append(self.take())
            self.take()
            self.emit("server_output_text", joined(taken))
        else:
            while taken[-1:] != ["}"]:
                taken.append(self.take())
            text = joined(taken)
            self.lines[-len(taken):] = without_doubles(text)[0].split("\n")[:-1]
            self.emit("server_output_json", captures.parse(text))

    def complete(self, rows):
        """Return {sender, receiver} with what the text does not show filled in."""
        known = rows.get("sender") or rows.get("receiver")
        made = {}
        for name in ("sender", "receiver"):
            made[name] = rows.get(name) or dict(known, bytes=0, bits_per_second=0.0)
        if "diskfile" in rows:
            amount, unit, size, size_unit, percent, name = rows["diskfile"]
            amount, size = scaled(amount, unit, 1024), scaled(size, size_unit, 1024)
            made["diskfile"] = {"sent": 1, "received": 1, "size": size, "percent_sent": 1,
                                "percent_received": 1, "filename": name}
            which = ("sent" if known["sender"] else "received")
            made["diskfile"][which] = amount
            made["diskfile"]["percent_" + which] = int(percent)
        return made

    def end(self, streams, sums, order, end):
        rows = [self.complete(streams[number]) for number in order]
        data, made = {"streams": rows}, []
        half = self.parallel if self.bidir else len(rows)
        groups = [rows[:half], rows[half:]] if self.bidir else [rows]
        for number, (group, suffix) in enumerate(zip(groups, ("", "_bidir_reverse"))):
            if sums:
                total = self.complete(sums[number])
            elif group:
                total = {name: dict(group[0][name]) for name in ("sender", "receiver")}
                for each in total.values():
                    del each["socket"]
            else:  # interrupted before there were streams
                total = {name: {"bytes": 0, "sender": not self.reverse}
                         for name in ("sender", "receiver")}
                if not self.reverse:
                    total["sender"]["retransmits"] = 0
            data["sum_sent" + suffix] = total["sender"]
            data["sum_received" + suffix] = total["receiver"]
            made.append([pyperf3.SummaryRow(row["sender"], row["receiver"], totals(row["sender"]),
                                            row.get("diskfile")) for row in group + [total]])
        data["cpu_utilization_percent"] = dict(zip(
            ("host_total", "host_user", "host_system", "remote_total", "remote_user",
             "remote_system"), end["cpu"]))
        names = end["names"] if self.verbose else {"snd_tcp_congestion": "not to be shown"}
        for short, long_name in (("snd", "sender_tcp_congestion"),
                                 ("rcv", "receiver_tcp_congestion")):
            if short + "_tcp_congestion" in names:
                data[long_name] = names[short + "_tcp_congestion"]
        intervals = [each for each in self.events if each["event"] == "interval"]
        if intervals:
            intervals[-1]["last"] = True
            intervals[-1]["remote_retransmits"] = self.role == "client" and any(
                "retransmits" in row["sender"] and not row["sender"]["sender"] for row in rows)
        self.emit("end", data, rows=made)

    def finish(self, ok):
        if self.in_test or (self.role == "client" and self.at == len(self.raw)):
            self.in_test = False
            if not any(each["event"] == "done" for each in self.events) or self.role == "server":
                self.emit("done", None, ok=ok)


def totals(row, **more):
    """Return the Totals of what the text's rows show, but for the rates in the rows themselves."""
    values = dict.fromkeys(pyperf3.Totals._fields, 0)
    values.update(socket=row.get("socket"), sender=row["sender"], drops=None, **more)
    return pyperf3.Totals(**values)


def read_messages(text):
    """Return the error and warning events behind captured standard error."""
    events = []
    lines = [line for line in text.split("\n")[:-1] if line != "iperf3: exiting"]
    while lines:
        line = lines.pop(0)
        if line.startswith("warning: "):
            events.append(event("warning", line[len("warning: "):]))
            continue
        line = line[len("iperf3: "):]
        if line.startswith("SERVER ERROR"):
            line = "%s\n%s" % (line, lines.pop(0))
        events.append(event("error", line.split(" - ")[-1], line=line, first="first"))
    return events


class Text(unittest.TestCase):
    """iperf3's text."""

    def reader(self, case, side, text=None):
        command = case.commands[side]
        return Reader(command, case.commands.get("client", command),
                      case.out(side) if text is None else text,
                      once=case.name.startswith(("sig-", "err-")))

    def renderer(self, case, side):
        command = case.commands[side]
        return pyperf3.PerTest(lambda: pyperf3.TextRenderer(
            command.has("-V"), command.value("-f"), command.value("-T")))

    def test_all_captured_tests(self):
        replayed = repeats = lines = 0
        for case, side in captures.outputs("text"):
            with self.subTest(case=case.name, side=side):
                reader = self.reader(case, side)
                replayed += 1
                repeats += reader.repeats
                lines += len(reader.lines)
                made = render(self.renderer(case, side), reader.events)
                self.assertEqual(made, joined(reader.lines))
        self.assertEqual((replayed, repeats, lines), (200, 7, 3090))

    def test_the_reader_takes_out_nothing_but_repeated_intervals(self):
        for case, side in captures.outputs("text"):
            with self.subTest(case=case.name, side=side):
                reader = self.reader(case, side)
                text = case.out(side).replace("MYTITLE:  MYTITLE:  ", "MYTITLE:  ")
                text = without_doubles(text)[0]
                if not reader.repeats:
                    self.assertEqual(joined(reader.lines), text)
                else:
                    self.assertIn(reader.repeats, (1, 2))
                    self.assertLess(len(reader.lines), text.count("\n"))

    def test_a_lost_blank_at_the_end_of_a_line_is_noticed(self):
        case = captures.Case("text-tcp")
        text = case.out("server").replace(" \n", "\n")
        self.assertNotEqual(text, case.out("server"))
        reader = self.reader(case, "server", text)
        self.assertNotEqual(render(self.renderer(case, "server"), reader.events), text)

    def test_all_captured_messages(self):
        replayed = 0
        for case, side in captures.outputs("text") + captures.outputs("json"):
            text = case.err(side).replace("iperf3: exiting\n", "")
            if not text:
                continue
            with self.subTest(case=case.name, side=side):
                replayed += 1
                events = read_messages(case.err(side))
                made = "".join(joined(pyperf3.error_lines(each)) for each in events)
                self.assertEqual(made, text)
                # On standard output nothing is seen of them.
                for renderer in (self.renderer(case, side), pyperf3.TextRenderer(title="T")):
                    self.assertEqual(render(renderer, events), "")
        self.assertEqual(replayed, 54)


class Stamps(unittest.TestCase):
    """--timestamps: Output puts the time before the lines, whatever the renderer."""

    def written(self, layout, moments, text=True):
        """Return what Output writes of (seconds since 1970, line) pairs, in UTC."""
        sink = io.StringIO()
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.redirect_stdout(sink))
            output = pyperf3.Output()
            output.stamp_lines(layout)
            for seconds, line in moments:
                clock = unittest.mock.Mock(wraps=pyperf3.time)
                clock.strftime = lambda form, now=seconds: time.strftime(form, time.gmtime(now))
                with unittest.mock.patch.object(pyperf3, "time", clock):
                    output.write([line], text)
        return sink.getvalue()

    def test_captured_stamps(self):
        lines = 0
        for case, side in captures.outputs("text"):
            stamp = case.commands[side].stamp
            if stamp is None:
                continue
            word, = [each for each in case.commands[side].words if each.startswith("--timest")]
            layout = word.partition("=")[2] or pyperf3.Settings.from_arguments(
                ["-s", word]).timestamps
            form = layout.rstrip("| ")
            moments = []
            for line in case.printed(side).split("\n")[:-1]:
                found = re.match(stamp, line)
                moments.append((calendar.timegm(time.strptime(found.group().rstrip("| "), form)),
                                line[found.end():]))
            lines += len(moments)
            with self.subTest(case=case.name, side=side):
                self.assertEqual(self.written(layout, moments), case.printed(side))
        self.assertEqual(lines, 46)

    def test_lines_that_iperf3_does_not_stamp(self):
        for line in ("Control connection MSS 32768", "Setting UDP block size to 1460",
                     "Control connection TCP Keepalive TCP_KEEPIDLE/..."):
            self.assertEqual(self.written("x", [(0, line)]), line + "\n")
        self.assertEqual(self.written("x", [(0, "{}")], text=False), "{}\n")

    def test_layouts_that_strftime_may_refuse(self):
        for layout in ("", "%", "\udcff", "%%", "a\0b", "\u00e9 "):
            with self.subTest(layout=layout):
                sink = io.StringIO()
                with contextlib.redirect_stdout(sink):
                    output = pyperf3.Output()
                    output.stamp_lines(layout)
                    output.write(["line"])
                self.assertTrue(sink.getvalue().endswith("line\n"), sink.getvalue())


class TextDetails(unittest.TestCase):
    """Text that no capture shows."""

    def rendered(self, events, verbose=False, letter=None, title=None):
        return render(pyperf3.PerTest(
            lambda: pyperf3.TextRenderer(verbose, letter, title)), events)

    def sample(self, name, side):
        case = captures.Case(name)
        return Reader(case.commands[side], case.commands["client"], case.out(side)).events

    def changed(self, name, side, **more):
        """Return the events of a capture, with other figures in its rows."""
        events = self.sample(name, side)
        for each in events:
            if each["event"] == "interval":
                for row in each["data"]["streams"]:
                    row.update((key, value) for key, value in more.items() if key in row)
        return events

    def test_numbers_of_streams_may_be_wider_than_three(self):
        made = self.rendered(self.changed("text-tcp", "client", socket=1004))
        self.assertIn("\n[1004]   0.00-1.00   sec  ", made)

    def test_retransmits_may_be_wider_than_three(self):
        made = self.rendered(self.changed("text-tcp", "client", retransmits=123456))
        self.assertIn("/sec  123456   ", made)

    def test_times_may_be_longer_than_the_column(self):
        made = self.rendered(self.changed("text-tcp", "server", start=86398.0, end=86399.5))
        self.assertIn("\n[  5] 86398.00-86399.50 sec  ", made)

    def test_times_of_minutes_fill_the_column(self):
        made = self.rendered(self.changed("text-tcp", "server", start=99.0, end=100.0))
        self.assertIn("\n[  5]  99.00-100.00 sec  ", made)

    def test_congestion_names_change_places_between_the_directions(self):
        events = self.sample("text-tcp-bidir-verbose", "client")
        end = next(each for each in events if each["event"] == "end")
        end["data"].update(sender_tcp_congestion="server's", receiver_tcp_congestion="client's")
        lines = [line for line in self.rendered(events, True).split("\n") if "_tcp_" in line]
        self.assertEqual(lines, ["snd_tcp_congestion client's", "rcv_tcp_congestion server's",
                                 "snd_tcp_congestion server's", "rcv_tcp_congestion client's"])

    def test_a_failed_client_does_not_say_done(self):
        events = self.sample("text-tcp", "client")
        events[-1]["ok"] = False
        self.assertTrue(self.rendered(events).endswith("receiver\n"))

    def test_a_failed_test_without_summary_prints_no_summary(self):
        events = [event("end", {}), event("done", None, ok=False)]
        self.assertEqual(self.rendered(events), "")

    def test_the_next_test_of_a_server_has_its_header_again(self):
        events = self.sample("text-tcp", "server")
        made = self.rendered(events + events)
        self.assertEqual(made, self.rendered(events) * 2)

    def test_text_of_a_server_cannot_steer_the_terminal(self):
        hostile = "a\x1b[2Jb\x07\x7f\x9b31mc\x9f\td\r\n\u00e9\xa0 \n"
        events = [event("server_output_text", hostile)] + self.sample("text-tcp", "client")[-2:]
        made = self.rendered(events)
        self.assertIn("\nServer output:\na[2Jb31mc\td\n\u00e9\xa0 \n\n\niperf Done.\n", made)

    def udp(self, name, side, **more):
        """Return the events of a capture of UDP, with other figures in what was received."""
        events = self.sample(name, side)
        for each in events:
            if each["event"] == "interval":
                for row in each["data"]["streams"]:
                    row.update((key, value) for key, value in more.items() if key in row)
            if each["event"] == "end":
                self.change_rows(each, lambda row: row._replace(
                    received=dict(row.received, **more)))
        return events

    @staticmethod
    def change_rows(end, change):
        """Change the rows of an end event by a function."""
        end["rows"] = [[change(row) for row in group] for group in end["rows"]]

    def change_totals(self, end, **more):
        self.change_rows(end, lambda row: row._replace(totals=row.totals._replace(**more)))

    def test_all_lost_is_a_plain_hundred_percent(self):
        # differs: iperf3 has 1e+02% from 99.5 on.
        for share, shown in ((99.4, "99%"), (99.49, "99%"), (99.5, "100%"), (100.0, "100%"),
                             (9.96, "10%"), (9.94, "9.9%"), (0.00001, "1e-05%"), (0.0, "0%"),
                             (0.051, "0.051%")):
            made = self.rendered(self.udp("text-udp", "server", lost_percent=share))
            with self.subTest(share=share):
                self.assertIn(" ms  0/39 (%s)  \n" % shown, made)
                self.assertIn(" ms  0/77 (%s)  receiver\n" % shown, made)
                self.assertNotIn("e+", made)

    def test_loss_that_is_not_known(self):
        events = self.sample("text-udp", "client")
        self.change_totals(events[-2], lost=None)
        self.assertIn("  0.049 ms  Unknown/77  receiver\n", self.rendered(events))

    def test_jitter_may_be_wider_than_five(self):
        made = self.rendered(self.udp("text-udp", "server", jitter_ms=12345.6789))
        self.assertIn(" Mbits/sec  12345.679 ms  0/39 (0%)  \n", made)

    def test_datagrams_of_a_sender_move_to_the_right_in_both_directions(self):
        made = self.rendered(self.udp("text-udp-bidir", "client", packets=7))
        self.assertIn(" Mbits/sec            7  \n", made)
        made = self.rendered(self.udp("text-udp", "client", packets=7))
        self.assertIn(" Mbits/sec  7  \n", made)

    def test_datagrams_out_of_order_have_a_role_in_both_directions(self):
        events = self.sample("text-udp-bidir", "client")
        self.change_rows(events[-2], lambda row: row._replace(totals=row.totals._replace(
            out_of_order=0 if row.totals.sender else 12)))
        lines = self.rendered(events).split("\n")
        at, = [number for number, line in enumerate(lines) if "out-of-order" in line]
        self.assertEqual(lines[at],
                         "[SUM][RX-C]  0.0- 2.0 sec  12 datagrams received out-of-order")
        self.assertTrue(lines[at - 1].startswith("[  6][RX-C] "), lines)
        self.assertTrue(lines[at - 1].endswith("sender"), lines)
        self.assertTrue(lines[at + 1].endswith("receiver"), lines)

    def test_drops_of_the_receiving_host_are_told_with_verbose_only(self):
        text = "UDP on 5: 12 dropped on arrival, its socket buffer was full\n"
        for drops, verbose, shown in ((12, True, 1), (12, False, 0), (0, True, 0),
                                      (None, True, 0)):
            events = self.sample("text-udp-verbose", "server")
            self.change_totals(events[-2], drops=drops)
            with self.subTest(drops=drops, verbose=verbose):
                made = self.rendered(events, verbose)
                self.assertEqual(made.count(text), shown)
                self.assertEqual(made.count("dropped on arrival"), shown)
                self.assertEqual(made.count("full\n" + SEPARATOR), shown)

    def test_output_of_the_server_stands_between_the_directions_of_udp(self):
        events = self.sample("text-udp-bidir", "client")
        at = [each["event"] for each in events].index("end")
        events.insert(at, event("server_output_text", "what the server said\n"))
        lines = self.rendered(events).split("\n")
        at = lines.index("what the server said")
        self.assertEqual(lines[at - 2:at], ["", "Server output:"])
        self.assertTrue(lines[at - 3].startswith("[  4][TX-C] "), lines)
        self.assertTrue(lines[at + 2].startswith("[  6][RX-C] "), lines)

    def test_the_block_size_goes_past_the_title(self):
        lines = self.rendered(self.sample("text-udp-verbose", "client"), True,
                              title="T").split("\n")
        self.assertIn("Setting UDP block size to 32768", lines)
        self.assertIn("T:  Connecting to host 127.0.0.1, port 21156", lines)

    def test_an_interrupted_client_without_streams_has_rows_of_sums(self):
        """Iperf3 prints them, also of TCP, with more than one stream in a direction."""
        zero = "0.00-0.00   sec  0.00 Bytes  0.00 bits/sec"
        jitter = "  0.000 ms  0/0 (0%)  "
        retr, plain = "    0" + " " * 13, " " * 18
        for more, wanted in (
                ({"udp": True}, []),
                ({"udp": True, "parallel": 2},
                 ["[SUM]   " + zero + jitter + end for end in ("sender", "receiver")]),
                ({"udp": True, "parallel": 2, "bidirectional": True},
                 ["[SUM][%sX-C]   " % role + zero + jitter + end for role in "TR"
                  for end in ("sender", "receiver")]),
                ({"parallel": 2},
                 ["[SUM]   " + zero + retr + "sender", "[SUM]   " + zero + plain + "receiver"])):
            with self.subTest(more=more):
                lines = self.interrupted(**more)
                self.assertEqual(lines[1].startswith("[ ID][Role]"), "bidirectional" in more)
                self.assertEqual(lines[2:], wanted)

    def interrupted(self, **more):
        """Return the lines of a client that is stopped while it connects, from the summary on."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1)
            client = pyperf3.Client(pyperf3.Settings(
                client="127.0.0.1", port=listener.getsockname()[1], **more))
            renderer, lines = pyperf3.TextRenderer(), []
            for each in client:
                client.stop("by signal Interrupt(2)")
                lines += renderer.render(each)
        return lines[lines.index(SEPARATOR):]

    def test_the_line_about_keepalive_goes_past_the_title(self):
        events = self.sample("text-cntl-ka", "client")
        lines = self.rendered(events, True, title="T").split("\n")
        self.assertEqual(lines[2], "Control connection TCP Keepalive TCP_KEEPIDLE/TCP_KEEPINTVL/"
                                   "TCP_KEEPCNT are set to 100/10/3")
        self.assertEqual(lines[3], "Control connection MSS 32768")
        self.assertNotIn("Keepalive", self.rendered(events))

    def test_unknown_events_print_nothing(self):
        self.assertEqual(self.rendered([event("something new", {})], title="T"), "")

    def test_output_is_the_same_with_and_without_warnings_between(self):
        events = self.sample("text-tcp", "server")
        more = [each for one in events for each in (one, event("warning", "careful"))]
        self.assertEqual(self.rendered(events), self.rendered(more))

    def test_messages_of_two_tests_each_behind_its_own_end(self):
        renderer = pyperf3.PerTest(lambda: pyperf3.MessageRenderer(1, True))
        events = [event("version", {}), event("error", "x", line="error - x", test=1),
                  event("debug", "one\ntwo", level=1, test=1), event("debug", "no", level=2),
                  event("error", "y", line="error - y", test=2), event("warning", "careful"),
                  event("done", None, ok=False, test=2), event("end", {}, test=1),
                  event("done", None, ok=False, test=1), event("done", None, ok=True)]
        self.assertEqual(render(renderer, events).split("\n"),
                         ["#1: one", "#1: two", "warning: careful", "iperf3: #2: error - y",
                          "iperf3: #1: error - x", ""])

    def test_error_of_two_lines_names_the_program_in_both(self):
        made = pyperf3.error_lines(event("error", "x", line="SERVER ERROR - x\niperf3: error - x"))
        self.assertEqual(made, ["iperf3: SERVER ERROR - x", "iperf3: error - x"])


if __name__ == "__main__":
    unittest.main()
