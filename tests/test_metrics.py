"""Hold --prometheus: a file that every reader takes, whole at each moment, and what it says."""

import json
import math
import os
import random
import re
import shutil
import signal
import socket
import stat
import sys
import tempfile
import threading
import time
import unittest

import fakes
import pictures
import pyperf3
import sshd
import support
from test_mesh import MeshCase

try:
    from prometheus_client import parser as official
except ImportError:
    official = None

REALS = ("3.9", "3.12", "3.18", "3.22")
HOSTILE = ("we\"ird\\n\\\\ame\n\t'{x=\"1\"} 5\r\n# TYPE\x00\x07\x1b[31m"
           "\x7f\x9b\u202e\u2028\ud800\udcff\ufffe\u00e9")
BRIEF = ("-n", "100K")
LONG = ("-t", "30", "-b", "1M", "-i", "0.2")

# The exporter's names, and where the document has them: a sum, and its member.
EXPORTER = {"iperf3_%s_%s" % (side, name): ("sum_" + side, name)
            for side in ("sent", "received")
            for name in ("seconds", "bytes", "packets", "jitter_ms", "lost_packets",
                         "lost_percent")}
EXPORTER["iperf3_retransmits"] = ("sum_sent", "retransmits")
DATAGRAMS = {name for name in EXPORTER
             if re.search("_(packets|jitter_ms|lost_packets|lost_percent)$", name)}

# No name but this address is known.
UNKNOWN_NAME = """
import socket
real = socket.getaddrinfo
def getaddrinfo(host, *more, **named):
    if host in (b"127.0.0.1", "127.0.0.1"):
        return real(host, *more, **named)
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
socket.getaddrinfo = getaddrinfo
"""
# Every name is this host's.
EVERY_NAME = """
import socket
real = socket.getaddrinfo
def getaddrinfo(host, *more, **named):
    return real("127.0.0.1", *more, **named)
socket.getaddrinfo = getaddrinfo
"""

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
VALUE = re.compile(r"-?(?:\d+|\d+\.\d+|\d(?:\.\d+)?e[-+]\d+)\Z")
ESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def strictly(text):
    """Return {name: {labels: value}} of a text, which has to be as the format's description says.

    labels: a frozenset of pairs. The description is that of version 0.0.4; all are gauges here.
    """
    assert text.endswith("\n"), text[-80:]
    found, helped, name = {}, {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, told = line[7:].partition(" ")
            assert NAME.match(name).group() == name and told, line
            assert name not in helped and name not in found, "a second HELP: " + line
            assert not re.search(r"\\(?![\\n])", told), line
            helped[name] = told
        elif line.startswith("# TYPE "):
            assert line == "# TYPE %s gauge" % name, line  # behind its HELP
            assert name not in found, "a second TYPE: " + line
            found[name] = {}
        else:
            here = NAME.match(line).group()
            # All lines of a metric stand together, behind its TYPE.
            assert here == name and name in found, line
            at, labels = len(here), []
            if line[at] == "{":
                at += 1
                while line[at] != "}":
                    label = LABEL.match(line, at)
                    assert label, line
                    labels.append((label.group(1), re.sub(
                        r"\\.", lambda each: ESCAPED[each.group()], label.group(2))))
                    at = label.end()
                    if line[at] == ",":
                        at += 1
                    else:
                        assert line[at] == "}", line
                at += 1
            assert line[at] == " " and VALUE.match(line, at + 1), line
            assert len(dict(labels)) == len(labels), "a label twice: " + line
            assert frozenset(labels) not in found[name], "a series twice: " + line
            found[name][frozenset(labels)] = float(line[at + 1:])
    assert set(found) == set(helped)
    for name, samples in found.items():
        assert samples, name + " has no samples"
        assert all(math.isfinite(value) for value in samples.values())
    return found


def officially(text):
    """Return the same as strictly(), read by the official parser."""
    found = {}
    for family in official.text_string_to_metric_families(text):
        assert family.type == "gauge" and family.documentation, family
        assert family.name not in found, family.name
        found[family.name] = {}
        for sample in family.samples:
            labels = frozenset(sample.labels.items())
            assert sample.name == family.name and labels not in found[family.name], sample
            assert sample.timestamp is None, sample
            found[family.name][labels] = float(sample.value)
    return found


class Metrics:
    """What a file of metrics says."""

    helps = {}  # of all that were read: what a name means does not change

    def __init__(self, data):
        text = data.decode("utf-8")
        self.text, self.found = text, strictly(text)
        if official:
            assert officially(text) == self.found, text
        for line in re.findall("(?m)^# HELP .*$", text):
            name = line.split(" ")[2]
            assert self.helps.setdefault(name, line) == line, line

    def one(self, name, **labels):
        """Return the value of the only series that has these labels."""
        values = [value for key, value in self.found[name].items()
                  if set(labels.items()) <= key]
        assert len(values) == 1, (name, labels, self.text)
        return values[0]

    def keys(self, name):
        """Return the labels of each series, as dicts, in some order."""
        return [dict(key) for key in self.found.get(name, ())]


class FileCase(support.ServerCase):
    """A folder with a file of metrics."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.path = os.path.join(self.folder, "iperf3.prom")

    def read(self):
        """Return the Metrics; nothing else is in the folder."""
        self.assertEqual(os.listdir(self.folder), ["iperf3.prom"])
        with open(self.path, "rb") as file:
            return Metrics(file.read())

    def run_client(self, port, *arguments, **more):
        program, host = more.pop("program", support.OURS), more.pop("host", "127.0.0.1")
        return support.run(tuple(program) + ("-c", host, "-p", port, "--prometheus", self.path)
                           + arguments, **more)

    def good(self, left, code=0):
        self.assertEqual((left.code, left.err), (code, ""), left)
        return self.read()

    def failed(self, left, reason, **labels):
        """The file says why a test failed, and nothing else."""
        self.assertEqual(left.code, 1, left)
        read = self.read()
        self.assertEqual(set(read.found), {"iperf3_up", "iperf3_failed",
                                           "iperf3_last_run_timestamp_seconds"})
        self.assertEqual(read.found["iperf3_up"], {frozenset(labels.items()): 0.0})
        self.assertEqual(read.found["iperf3_failed"],
                         {frozenset(dict(labels, reason=reason).items()): 1.0})
        self.assertEqual(read.keys("iperf3_last_run_timestamp_seconds"), [labels])
        self.assertLess(abs(read.one("iperf3_last_run_timestamp_seconds") - time.time()), 60.0)
        return read

    def same_as(self, read, document, **labels):
        """The figures are those of a document, with these labels and no others."""
        both = document["start"]["test_start"].get("bidir")
        for name, (place, member) in EXPORTER.items():
            expected = {}
            for suffix, way in (("", "up"), ("_bidir_reverse", "down")):
                value = document["end"].get(place + suffix, {}).get(member)
                if value is not None:
                    more = dict(labels, direction=way) if both else labels
                    expected[frozenset(more.items())] = value
            found = read.found.get(name, {})
            self.assertEqual(set(found), set(expected), name)
            for key, value in expected.items():
                # -J has only 15 digits where they are as good.
                self.assertTrue(math.isclose(found[key], value, rel_tol=1e-14), (name, value))
        for side in ("sent", "received"):
            for suffix, way in (("", "down" if document["start"]["test_start"]["reverse"] else
                                 "up"), ("_bidir_reverse", "down")):
                figures = document["end"].get("sum_%s%s" % (side, suffix))
                if figures:
                    self.assertAlmostEqual(
                        read.one("iperf3_%s_bytes_per_second" % side, direction=way) * 8,
                        figures["bits_per_second"], delta=1e-6 * figures["bits_per_second"])
        self.assertEqual(read.found["iperf3_up"], {frozenset(labels.items()): 1.0})
        self.assertNotIn("iperf3_failed", read.found)


class Parser(unittest.TestCase):
    def test_the_official_one_is_here(self):
        if official is None:
            support.lack("no Python package prometheus_client here: its parser has read nothing")
        text = '# HELP x y\n# TYPE x gauge\nx{a="b\\"\\\\\\n"} 1\n'
        self.assertEqual(officially(text), {"x": {frozenset([("a", 'b"\\\n')]): 1.0}})

    def test_ours_sees_faults(self):
        head = "# HELP x y\n# TYPE x gauge\n"
        self.assertEqual(strictly(head + 'x{a="b",c=""} 1.5e-05\nx 2\n'), {
            "x": {frozenset([("a", "b"), ("c", "")]): 1.5e-5, frozenset(): 2.0}})
        for text in ("", head, head + "x 1", head + "x 1\nx 2\n", head + "y 1\n",
                     head + 'x{a="b"} 1\nx{a="b"} 2\n', head + 'x{a="b\\t"} 1\n',
                     head + 'x{a="b"c"} 1\n', head + "x nan\n", head + "x inf\n", head + "x\n",
                     head + "x 1 \n", head + "\nx 1\n", head + "x 1\n" + head + "x{} 2\n",
                     "x 1\n", "# TYPE x gauge\nx 1\n", head + 'x{a="1",a="2"} 1\n',
                     head + "x 1\n# HELP z w\n# TYPE z gauge\nz 1\nx{a=\"1\"} 1\n",
                     head + "x{1=\"2\"} 1\n", head + "x " + "1" * 400 + "\n"):
            with self.assertRaises((AssertionError, AttributeError, IndexError), msg=text):
                strictly(text)


class Figures(FileCase):
    """What is in the file is what is in the document."""

    def test_our_server_with_each_kind_of_test(self):
        port = self.serve()
        begun = time.time()
        for words in (BRIEF, BRIEF + ("-R",), BRIEF + ("--bidir",), BRIEF + ("-P", "3"),
                      ("-u", "-n", "200K", "-b", "20M"), ("-u", "-n", "200K", "-b", "20M", "-R"),
                      ("-u", "-n", "200K", "-b", "20M", "--bidir")):
            with self.subTest(words=words):
                left = self.run_client(port, "-J", *words)
                read = self.good(left)
                self.same_as(read, left.json(), target="127.0.0.1", port=str(port))
                self.assertEqual("-u" in words, DATAGRAMS <= set(read.found))
                self.assertEqual("-u" in words, bool(DATAGRAMS & set(read.found)))
                self.assertEqual("-u" not in words, "iperf3_retransmits" in read.found)
                self.assertTrue(begun - 1 < read.one("iperf3_last_run_timestamp_seconds")
                                < time.time() + 1)
                if "-u" in words:
                    way = {"direction": "down" if "-R" in words else "up"}
                    end = left.json()["end"]["sum_received"]
                    self.assertEqual(read.one("iperf3_lost_ratio", **way),
                                     end["lost_percent"] / 100.0)
                    self.assertAlmostEqual(  # the document's has 15 digits
                        read.one("iperf3_jitter_seconds", **way) * 1000.0, end["jitter_ms"], 12)
                elif "-R" not in words and "--bidir" not in words:
                    streams = [each["sender"] for each in left.json()["end"]["streams"]]
                    for quantile, value in (
                            ("0", min(each["min_rtt"] for each in streams)),
                            ("1", max(each["max_rtt"] for each in streams))):
                        self.assertEqual(read.one("iperf3_rtt_seconds", quantile=quantile),
                                         value / 1e6)

    def test_real_servers(self):
        def run(version):
            server, port = support.start_server(support.real(version))
            with server:
                for words in (BRIEF, ("-u", "-n", "200K", "-b", "20M", "-R"),
                              ("--bidir", "-t", "1", "-b", "5M")):
                    with self.subTest(version=version, words=words):
                        folder = tempfile.mkdtemp(dir=self.folder)
                        path = os.path.join(folder, "x.prom")
                        left = support.run(support.OURS + (
                            "-c", "127.0.0.1", "-p", port, "-J", "--prometheus", path) + words)
                        self.assertEqual((left.code, left.err), (0, ""), left)
                        self.assertEqual(os.listdir(folder), ["x.prom"])
                        with open(path, "rb") as file:
                            self.same_as(Metrics(file.read()), left.json(), target="127.0.0.1",
                                         port=str(port))
        support.together(run, [(version,) for version in REALS])

    def test_latency(self):
        read = self.good(self.run_client(self.serve(), "-J", "-t", "1", "-b", "5M", "--latency"))
        for phase in ("idle", "loaded"):
            values = [read.one("iperf3_latency_seconds", phase=phase, quantile=quantile)
                      for quantile in ("0", "0.5", "0.95", "0.99", "1")]
            self.assertEqual(values, sorted(values))
            self.assertTrue(0 < values[0] < 10.0, values)
        self.assertEqual(len(read.found["iperf3_latency_seconds"]), 10)
        grade, = read.keys("iperf3_latency_grade")
        self.assertIn(grade["grade"], ("A+", "A", "B", "C", "D", "F"))
        self.assertEqual(read.one("iperf3_latency_grade"), 1)
        self.assertGreater(read.one("iperf3_round_trips_per_minute"), 0)

    def test_mtu(self):
        port = self.serve()
        for words in ((), BRIEF):
            left = self.run_client(port, "--mtu", *words)
            read = self.good(left)
            told = int(re.search(r"\b(\d{4,5})\b", left.out[left.out.index("MTU"):]).group(1))
            self.assertEqual(read.one("iperf3_path_mtu_bytes", direction="up"), told, left)
            self.assertEqual(read.one("iperf3_up"), 1)
            self.assertEqual("iperf3_sent_bytes" in read.found, bool(words))

    def test_limits(self):
        port = self.serve()
        for limits, code, expected in (
                (("1K",), 0, {"up": 0}), (("900T",), 4, {"up": 1}),
                (("1K", "900T"), 4, {"up": 1}), (("900T", "1K"), 4, {"up": 1}),
                (("1K/up", "900T/down"), 4, {"up": 0, "down": 1}), (("1K/down",), 0, {"down": 0})):
            with self.subTest(limits=limits):
                words = [word for limit in limits for word in ("--min-bitrate", limit)]
                amount = BRIEF
                if "down" in expected:
                    words.append("--bidir" if "up" in expected else "-R")
                    # Of two directions one may carry the whole amount before the other begins.
                    amount = ("-t", "1", "-b", "1M") if "up" in expected else amount
                read = self.good(self.run_client(port, *amount + tuple(words)), code)
                self.assertEqual(set(read.found["iperf3_up"].values()), {1.0})
                self.assertEqual(len(read.found["iperf3_check_failed"]), len(expected))
                for way, failed in expected.items():
                    self.assertEqual(read.one("iperf3_check_failed", check="min-bitrate",
                                              direction=way), failed)
                self.assertIn("iperf3_sent_bytes", read.found)

    def test_a_limit_of_what_is_unknown_is_missed(self):
        # Without --udp nothing tells of loss in a direction that was not tested.
        read = self.good(self.run_client(self.serve(), "-t", "1", "-b", "1M", "-R",
                                         "--min-bitrate", "1K/down", "--max-latency", "1us"), 4)
        self.assertEqual(read.one("iperf3_check_failed", check="max-latency"), 1)
        self.assertEqual(read.one("iperf3_check_failed", check="min-bitrate"), 0)

    def test_survey(self):
        left = self.run_client(self.serve(), "--diagnose", "-t", "1", "-J", "-P", "1", "-b", "5M")
        read = self.good(left)
        phases = {each["name"]: each["document"] for each in left.json()["diagnose"]["phases"]}
        for name in ("iperf3_up", "iperf3_duration_seconds"):
            self.assertEqual({each["test"] for each in read.keys(name)}, {"up", "down", "both"})
        for name, document in phases.items():
            way = {"direction": "up"} if name == "both" else {}
            end = document["end"]
            self.assertEqual(read.one("iperf3_received_bytes", test=name, **way),
                             end["sum_received"]["bytes"])
        self.assertEqual(read.one("iperf3_received_bytes", test="both", direction="down"),
                         phases["both"]["end"]["sum_received_bidir_reverse"]["bytes"])

    def test_loopback_has_no_port(self):
        left = support.run(support.OURS + ("--loopback", "--prometheus", self.path, "-J", "-p",
                                           support.free_port()) + BRIEF)
        self.same_as(self.good(left), left.json(), target="127.0.0.1")

    def test_duration_is_that_of_the_run_and_not_of_the_pause_before(self):
        read = self.good(self.run_client(self.serve(), "--repeat", "2/4", *BRIEF))
        self.assertLess(read.one("iperf3_duration_seconds"), 3.9)
        self.assertGreater(read.one("iperf3_duration_seconds"), 0.0)


class Beside(FileCase):
    """What is printed is what it is without."""

    def test_each_output(self):
        port = self.serve()
        csv, page = os.path.join(self.folder, "x.csv"), os.path.join(self.folder, "x.html")
        self.assertIn("iperf Done.", self.run_client(port, *BRIEF).out)
        self.read()
        left = self.run_client(port, "-J", *BRIEF)
        self.same_as(self.read(), left.json(), target="127.0.0.1", port=str(port))
        left = self.run_client(port, "--json-stream", *BRIEF)
        self.assertEqual([json.loads(line)["event"] for line in left.lines()][-1], "end")
        self.read()
        left = self.run_client(port, "--csv", *BRIEF)
        self.assertTrue(all(line.endswith("\r") for line in left.lines()), left)
        self.read()
        left = self.run_client(port, "--csv=" + csv, "--html", page, "--logfile",
                               os.path.join(self.folder, "log"), *BRIEF)
        self.assertEqual((left.code, left.out, left.err), (0, "", ""), left)
        self.assertEqual(sorted(os.listdir(self.folder)), ["iperf3.prom", "log", "x.csv", "x.html"])
        with open(csv, newline="") as file:
            total = [line for line in file if ",SUM,received," in line][0].split(",")
        for name in ("log", "x.csv", "x.html"):
            os.unlink(os.path.join(self.folder, name))
        read = self.read()
        self.assertEqual(read.one("iperf3_received_bytes"), float(total[9]))
        self.assertEqual(read.one("iperf3_up"), 1)

    def test_to_a_pipe_behind_the_text(self):
        if not os.path.exists("/dev/stdout"):
            self.skipTest("there is no /dev/stdout")
        port = self.serve()
        left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "--prometheus",
                                           "/dev/stdout", "--repeat", "2") + BRIEF)
        self.assertEqual((left.code, left.err), (0, ""), left)
        # The text of a run's last line comes before or behind: the file is written apart.
        texts = re.findall(r"(?m)(?:^(?:# |iperf3_).*\n)+", left.out)
        self.assertEqual(len(texts), 2, left)
        for text in texts:
            self.assertEqual(Metrics(text.encode()).one("iperf3_up"), 1)

    def test_a_device_stays_one(self):
        left = support.run(support.OURS + ("--loopback", "--prometheus", os.devnull) + BRIEF)
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertTrue(stat.S_ISCHR(os.stat(os.devnull).st_mode))


class Failures(FileCase):
    """Why a test failed."""

    def test_nobody_listens(self):
        port = support.free_port()
        for words in ((), ("-J",), ("-u",), ("--csv",)):
            self.failed(self.run_client(port, *words), "refused", target="127.0.0.1",
                        port=str(port))

    def test_figures_of_the_run_before_are_gone(self):
        with support.start_server(support.OURS, "-1")[0] as server:
            port = server.process.args[-2]
            self.good(self.run_client(port, *BRIEF))
            server.finish()
        self.failed(self.run_client(port, *BRIEF), "refused", target="127.0.0.1", port=port)

    def test_unknown_name(self):
        self.failed(self.run_client(5201, host="no.such.host", program=support.driver(
            UNKNOWN_NAME)), "name", target="no.such.host", port="5201")

    def test_silence(self):
        with fakes.SilentAddress("127.0.0.1", 0) as silent:
            self.failed(self.run_client(silent.port, "--connect-timeout", "300"), "timeout",
                        target="127.0.0.1", port=str(silent.port))

    def test_a_server_that_accepts_and_says_nothing(self):
        """It was called broken, as if there had been an answer."""
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(5)
            port = silent.getsockname()[1]
            self.failed(self.run_client(port, program=support.with_limits(
                REPLY_TIMEOUT=0.5)), "timeout", target="127.0.0.1", port=str(port))

    def test_what_fails_before_there_is_a_client(self):
        """The file told of the run before, as if all was well."""
        port = self.serve()
        for words in (("--logfile", os.path.join(self.path, "x")), ("-A", "1023"),
                      ("-F", self.folder + "/none", "-J"),
                      ("--csv=" + os.path.join(self.path, "x"),)):
            with self.subTest(words=words):
                self.good(self.run_client(port, *BRIEF))
                self.failed(self.run_client(port, *words), "other", target="127.0.0.1",
                            port=str(port))

    def test_busy(self):
        for program in (support.OURS, support.real("3.22"), support.real("3.9")):
            with self.subTest(program=program):
                server, port = support.start_server(program)
                with server, support.Program(support.OURS + (
                        "-c", "127.0.0.1", "-p", port) + LONG) as other:
                    other.wait_for(" sec ")
                    self.failed(self.run_client(port, *BRIEF), "busy", target="127.0.0.1",
                                port=str(port))
                    self.assertIsNone(other.process.poll())

    def test_denied(self):
        port = self.serve("--allow", "192.0.2.0/24")
        self.failed(self.run_client(port, *BRIEF), "denied", target="127.0.0.1", port=str(port))

    def test_a_server_that_dies(self):
        for program, words in ((support.OURS, ()), (support.OURS, ("-u", "--bidir")),
                               (support.real("3.22"), ("-R",)), (support.real("3.9"), ())):
            with self.subTest(program=program, words=words):
                server, port = support.start_server(program)
                with server, support.Program(support.OURS + (
                        "-c", "127.0.0.1", "-p", port, "--prometheus", self.path) + LONG
                        + words) as client:
                    client.wait_for(" sec ")
                    self.assertFalse(os.path.exists(self.path))
                    for child in support.children(server.pid):
                        os.kill(child, signal.SIGKILL)
                    server.signal(signal.SIGKILL)
                    self.failed(client.finish(), "broken", target="127.0.0.1", port=str(port))
                os.unlink(self.path)

    def test_a_server_that_is_ended(self):
        server, port = support.start_server(support.OURS)
        with server, support.Program(support.OURS + (
                "-c", "127.0.0.1", "-p", port, "--prometheus", self.path) + LONG) as client:
            client.wait_for(" sec ")
            server.signal(signal.SIGTERM)
            self.failed(client.finish(), "broken", target="127.0.0.1", port=str(port))

    def test_a_failed_survey(self):
        port = support.free_port()
        self.failed(self.run_client(port, "--diagnose", "-t", "1"), "refused",
                    target="127.0.0.1", port=str(port), test="up")

    def test_interrupted(self):
        port = self.serve()
        for before in (None, b"as it was\n"):
            for number, words in ((signal.SIGINT, ()), (signal.SIGTERM, ("-R", "-u")),
                                  (signal.SIGINT, ("--diagnose", "-P", "1"))):
                with self.subTest(words=words, before=before):
                    if before:
                        with open(self.path, "wb") as file:
                            file.write(before)
                        was = os.stat(self.path)
                    with support.Program(support.OURS + (
                            "-c", "127.0.0.1", "-p", port, "--prometheus", self.path,
                            "--json-stream") + LONG + words) as client:
                        client.wait_for('"interval"')
                        client.signal(number)
                        client.finish()
                    self.assertEqual(os.listdir(self.folder), ["iperf3.prom"] if before else [])
                    if before:
                        now = os.stat(self.path)
                        self.assertEqual((now.st_ino, now.st_mtime_ns),
                                         (was.st_ino, was.st_mtime_ns))

    def test_interrupted_before_it_began(self):
        with support.Program(support.OURS + (
                "-c", "127.0.0.1", "-p", support.free_port(), "--prometheus", self.path,
                "--wait", "60")) as client:
            client.wait_for_error("waiting up to")
            client.signal(signal.SIGINT)
            client.finish()
        self.assertEqual(os.listdir(self.folder), [])


class Files(FileCase):
    """The file: who may read it, and that it is whole at each moment."""

    @unittest.skipIf(os.name != "posix", "there are no modes of this kind")
    def test_everybody_may_read_it(self):
        port = self.serve()
        for umask in (0o077, 0o022, 0o777, 0):
            self.good(self.run_client(port, *BRIEF, preexec_fn=lambda: os.umask(umask)))
            self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o644, oct(umask))

    def test_it_is_replaced_and_not_written_to(self):
        with open(self.path, "w") as file:
            file.write("# old\n")
        os.chmod(self.path, 0o600)
        with open(self.path) as before:
            self.good(self.run_client(self.serve(), *BRIEF))
            self.assertEqual(before.read(), "# old\n")
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o644)

    def test_through_a_link(self):
        other = os.path.join(self.folder, "other")
        os.mkdir(other)
        os.symlink(os.path.join("other", "real.prom"), self.path)
        left = self.run_client(self.serve(), *BRIEF)
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertTrue(os.path.islink(self.path))
        self.assertEqual(os.listdir(other), ["real.prom"])
        with open(self.path, "rb") as file:
            self.assertEqual(Metrics(file.read()).one("iperf3_up"), 1)

    def test_a_reader_never_sees_half_a_file_nor_none(self):
        """It reads as often as it can while tests end one after the other."""
        port = self.serve()
        self.good(self.run_client(port, *BRIEF))
        command = support.OURS + ("-c", "127.0.0.1", "-p", port, "--prometheus", self.path,
                                  "--repeat", "20", "--bidir") + BRIEF
        seen, faults, ended = set(), [], threading.Event()

        def poll():
            while not ended.is_set():
                try:
                    with open(self.path, "rb") as file:
                        seen.add(file.read())
                except OSError as error:
                    faults.append(error)
        thread = threading.Thread(target=poll)
        thread.start()
        try:
            left = support.run(command)
        finally:
            ended.set()
            thread.join()
        self.assertEqual((left.code, left.err, faults), (0, "", []), left)
        self.read()
        self.assertGreater(len(seen), 10)
        times = {Metrics(data).one("iperf3_last_run_timestamp_seconds") for data in seen}
        self.assertLessEqual(len(times), 21)
        self.assertGreater(len(times), 10)

    def refused(self, path, reason, **more):
        """A test with such a file is not run: that is said at once, and the status is 1."""
        port = self.serve()
        for words in ((), ("-J",), ("--json-stream",), ("--csv",), ("--repeat", "3")):
            command = more.get("before", ()) + support.OURS
            left = support.run(command + ("-c", "127.0.0.1", "-p", port, "-t", "30",
                                          "--prometheus", path) + words)
            self.assertEqual((left.code, left.out, left.err), (
                1, "", "iperf3: error - unable to write the metrics: %s: %s\n" % (path, reason)))
        self.assertNotIn("Accepted", self.server.out())

    def test_no_such_folder(self):
        self.refused(os.path.join(self.folder, "none", "x.prom"), "No such file or directory")

    def test_a_folder_in_its_place(self):
        self.refused(self.folder, "Is a directory")
        self.refused("", "Is a directory")

    def test_a_file_in_the_place_of_the_folder(self):
        with open(self.path, "w"):
            pass
        self.refused(os.path.join(self.path, "x.prom"), "No such file or directory")

    def test_a_folder_that_cannot_be_written(self):
        before = ()
        if os.geteuid() == 0:
            if not shutil.which("setpriv"):
                self.skipTest("root writes everywhere, and there is no setpriv here")
            before = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")  # root without might
        os.chmod(self.folder, 0o555)
        self.refused(self.path, "Permission denied", before=before)

    def limited(self):
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))

    @unittest.skipIf(os.name != "posix", "there are no limits of this kind")
    def test_no_room_for_it(self):
        """A write that fails half way leaves the file of before, and nothing beside it."""
        port = self.serve()
        for before in (None, b"as it was\n"):
            if before:
                with open(self.path, "wb") as file:
                    file.write(before)
            # Said once, since it is the same each time.
            left = self.run_client(port, "--repeat", "2", *BRIEF, preexec_fn=self.limited)
            self.assertEqual((left.code, left.err), (
                1, "iperf3: error - unable to write the metrics: File too large\n"), left)
            self.assertEqual(left.out.count("iperf Done."), 2)
            self.assertEqual(os.listdir(self.folder), ["iperf3.prom"] if before else [])
        with open(self.path, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_a_full_disk(self):
        if not sys.platform.startswith("linux") or os.geteuid() or not shutil.which("unshare"):
            self.skipTest("needs root and unshare to make a small file system")
        script = ("mount -t tmpfs -o size=8k,mode=755 none {0} || exit 96; echo old > {1};"
                  " head -c 100000 /dev/zero > {0}/full 2>/dev/null; shift 0;"
                  ' "$@"; status=$?; echo; ls {0}; cat {1}; exit $status').format(
                      self.folder, self.path)
        left = support.run(("unshare", "-m", "sh", "-c", script, "sh") + support.OURS + (
            "--loopback", "--prometheus", self.path) + BRIEF)
        if left.code == 96:
            self.skipTest("no file system can be mounted here")
        self.assertEqual((left.code, left.err), (
            1, "iperf3: error - unable to write the metrics: No space left on device\n"), left)
        self.assertTrue(left.out.endswith("\niperf Done.\n\nfull\niperf3.prom\nold\n"), left)

    def test_a_folder_that_vanishes(self):
        folder = os.path.join(self.folder, "in")
        os.mkdir(folder)
        port = self.serve()
        with support.Program(support.OURS + (
                "-c", "127.0.0.1", "-p", port, "-t", "1", "-b", "1M", "-i", "0.2", "--prometheus",
                os.path.join(folder, "x.prom"))) as client:
            client.wait_for(" sec ")
            os.rmdir(folder)
            left = client.finish()
        self.assertEqual((left.code, left.err), (
            1, "iperf3: error - unable to write the metrics: No such file or directory\n"), left)
        self.assertIn("iperf Done.", left.out)
        self.assertEqual(os.listdir(self.folder), [])

    def test_where_the_client_is_on_another_host(self):
        for words in (("--ssh", "a", "--ssh", "b"), ("--ssh", "a", "--ssh-dial-back")):
            for more in ((), ("-J",)):
                left = support.run(support.OURS + words + more + ("--prometheus", self.path))
                self.assertEqual((left.code, left.out), (1, ""), left)
                self.assertIn("unable to write the metrics: the client runs on the other host\n",
                              left.err)
        self.assertEqual(os.listdir(self.folder), [])

    def test_of_a_server_or_a_mere_connection(self):
        for words, text in ((("-s",), "client only (--prometheus)"),
                            (("-c", "127.0.0.1", "--connect-only"), "--prometheus")):
            left = support.run(support.OURS + words + ("--prometheus", self.path))
            self.assertEqual((left.code, left.out), (1, ""), left)
            self.assertIn(text, left.err)
        self.assertEqual(os.listdir(self.folder), [])


class Names(FileCase):
    """Texts from elsewhere stay texts."""

    def check_name(self, name, expected=None):
        left = self.run_client(self.port, *BRIEF, host=name, program=support.driver(EVERY_NAME))
        self.assertEqual(left.code, 0, left)
        target = {each["target"] for name in self.read().found
                  for each in self.read().keys(name)}
        self.assertEqual(len(target), 1)
        if expected is not None:
            self.assertEqual(target, {expected})
        return target.pop()

    def test_targets(self):
        self.port = self.serve()
        for name in ('a"b', "a\\b", "a\\", "a\\nb", "a\nb", '"} 1\nx{a="', "a b", "{}", "a=b,c",
                     "\\\\\"\\n", "# HELP", "a'b", "\t"):
            with self.subTest(name=name):
                self.check_name(name, name)
        self.assertEqual(self.check_name("a\x01\x1b[31mb\rc\x7f"), "a[31mbc")
        self.assertEqual(len(self.check_name("x" * 5000)), 256)
        self.assertEqual(len(self.check_name("\\" * 5000)), 256)

    @unittest.skipIf(os.name != "posix", "arguments are bytes elsewhere only")
    def test_bytes_that_are_no_text(self):
        self.port = self.serve()
        for name in (b"a\xff\xfeb", b"\xc3", b"\xed\xa0\x80", b"\xc3\xa9\xff"):
            target = self.check_name(os.fsdecode(name))
            self.assertTrue(re.match("^[ab?\u00e9\ufffd]+$", target), target)

    def test_any_text_as_a_label(self):
        chance = random.Random(11)
        letters = HOSTILE + "abc,=\"\\"
        for _ in range(500):
            labels = {"target": "".join(chance.choice(letters) for _ in range(
                chance.randrange(1, 300))), "port": 5201}
            document = {"end": {"pyperf3": {
                "latency": {"grade": labels["target"][::-1]},
                "checks": [{"name": labels["target"][1:], "direction": None, "state": "ok"}] * 2}}}
            text = pyperf3.metrics_text([pyperf3.MetricsTest(
                labels, pyperf3.figures_of(labels, document), None)], 5, 1.5)
            read = Metrics(text.encode("utf-8"))
            self.assertEqual(read.one("iperf3_up"), 1)
            text = pyperf3.metrics_text([pyperf3.MetricsTest(labels, [], labels["target"])], 5, 1)
            self.assertEqual(Metrics(text.encode("utf-8")).one("iperf3_failed"), 1)


class Hostile(FileCase):
    """Servers and hosts that say what they like."""

    VALUES = (None, True, 0, -1, 5, 0.5, 1e308, -1e308, float("nan"), float("inf"), 10 ** 400,
              -10 ** 5000, "", "x", HOSTILE, [], [[]], {}, {"": {}}, [None], ["x"], [{}],
              {"state": "ok"}, {"sender": None}, {"sender": {"mean_rtt": 5, "sender": True}})

    def test_results_of_a_server(self):
        good = {"cpu_util_total": 1, "cpu_util_user": 1, "cpu_util_system": 1,
                "sender_has_retransmits": 1, "congestion_used": HOSTILE[:20]}
        stream = {"id": 1, "bytes": 5, "retransmits": 1, "jitter": 0, "errors": 0, "packets": 0,
                  "start_time": 0, "end_time": 1}

        def run(name, value):
            path = os.path.join(tempfile.mkdtemp(dir=self.folder), "x.prom")
            document = dict(good, streams=[dict(stream, **{name: 0})])
            data = json.dumps(document).replace('"%s": 0' % name, '"%s": %s' % (name, value))
            with fakes.FakeServer(fakes.whole_test(fakes.frame(data.encode("utf-8")))) as server:
                left = support.run(support.OURS + (
                    "-c", "127.0.0.1", "-p", server.port, "-t", "1", "-b", "1M", "--prometheus",
                    path))
            self.assertNotIn("Traceback", left.err)
            self.assertEqual(os.listdir(os.path.dirname(path)), ["x.prom"])
            with open(path, "rb") as file:
                read = Metrics(file.read())
            self.assertEqual(read.one("iperf3_up"), int(left.code == 0), left)
        support.together(run, [(name, value) for name in ("bytes", "end_time", "jitter", "packets")
                               for value in ("1e400", "1" * 400, "-1e308")], 6)

    def mutated(self, chance, value, depth=0):
        """Return a copy of a value in which something is of another kind."""
        if chance.random() < 0.03:
            return chance.choice(self.VALUES)
        if isinstance(value, dict):
            return {name: self.mutated(chance, each, depth + 1) for name, each in value.items()
                    if chance.random() > 0.01}
        if isinstance(value, list):
            return [self.mutated(chance, each, depth + 1) for each in value]
        return value

    def documents(self):
        """Return documents of many kinds, with all that metrics are made of."""
        made = []
        for kind in ({}, {"udp": True}, {"bidir": True}, {"streams": 2}):
            document = pictures.Sample(seconds=2, **kind).document()
            end = document["end"]
            end["streams"] = [{"sender": {"mean_rtt": 9, "min_rtt": 5, "max_rtt": 10,
                                          "sender": True}, "receiver": {"sender": True}}]
            end["sum_received"].update(lost_percent=1.5, jitter_ms=0.5, packets=9, lost_packets=1)
            end["pyperf3"].update(
                mtu={"up": {"mtu": 1500}, "down": {"mtu": None}},
                checks=[{"name": "min-bitrate", "direction": "up", "state": "failed"},
                        {"name": "max-loss", "direction": None, "state": "ok"}])
            del document["intervals"]
            made.append(document)
        return made

    def mesh_file(self, *cells):
        """Write the file of a mesh of these cells; returns the Metrics."""
        settings = pyperf3.Settings(mesh="a,b", prometheus=self.path)
        file = pyperf3.MetricsFile(settings)
        for cell in cells:
            file.add(pyperf3.Event(event="cell", data=cell))
        file.add(pyperf3.Event(event="mesh", data={}))
        file.add(pyperf3.Event(event="done", data=None, ok=True))
        return self.read()

    def test_whole_cells_have_all_their_figures(self):
        for number, document in enumerate(self.documents()):
            read = self.mesh_file({"from": "a", "to": HOSTILE, "document": document},
                                  {"from": "b", "to": "a", "error": "x"})
            self.assertEqual(sorted(read.found["iperf3_up"].values()), [0.0, 1.0])
            for name in ("iperf3_sent_bytes", "iperf3_lost_ratio", "iperf3_rtt_seconds",
                         "iperf3_latency_grade", "iperf3_path_mtu_bytes", "iperf3_check_failed"):
                self.assertIn(name, read.found, number)
            self.assertEqual(read.keys("iperf3_failed"),
                             [{"source": "b", "target": "a", "reason": "other"}])

    def test_documents_of_any_shape(self):
        chance = random.Random(5)
        documents, whole = self.documents(), 0
        for number in range(400):
            document = self.mutated(chance, chance.choice(documents))
            if number < len(self.VALUES):
                document = self.VALUES[number]
            read = self.mesh_file({"from": "a", "to": "b", "document": document},
                                  {"from": "b", "to": "a", "document": documents[0]})
            whole += int(read.one("iperf3_up", source="a"))
            self.assertEqual(read.one("iperf3_up", source="b"), 1)
            self.assertIn(frozenset([("source", "b"), ("target", "a")]),
                          read.found["iperf3_sent_bytes"])
        self.assertTrue(50 < whole < 390, whole)  # some were taken, some were not

    def test_every_member_of_every_kind(self):
        def places(value, path=()):
            if isinstance(value, (dict, list)):
                for name, each in (value.items() if isinstance(value, dict)
                                   else enumerate(value)):
                    yield path + (name,)
                    yield from places(each, path + (name,))
        chance = random.Random(3)
        document = self.documents()[2]
        for path in list(places(document)):
            for value in chance.sample(self.VALUES, 6):
                changed = json.loads(json.dumps(document))
                inner = changed
                for name in path[:-1]:
                    inner = inner[name]
                inner[path[-1]] = value
                file = pyperf3.MetricsFile(pyperf3.Settings(mesh="a,b", prometheus=self.path))
                file._add_cell({"from": "a", "to": "b", "document": changed})
                strictly(pyperf3.metrics_text(file._tests, 5, 1.0))

    def test_a_deep_document(self):
        deep = []
        for _ in range(100000):
            deep = [deep]
        document = self.documents()[0]
        document["end"]["pyperf3"]["latency"]["grade"] = deep
        read = self.mesh_file({"from": "a", "to": "b", "document": document})
        self.assertEqual(read.one("iperf3_up"), 0)


class Mesh(MeshCase, FileCase):
    """Hosts in namespaces."""

    def setUp(self):
        MeshCase.setUp(self)
        self.outputs = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, self.outputs, True)

    def test_mesh(self):
        self.network("db1", "db2", rate=100e6)
        path = os.path.join(self.outputs, "x.prom")
        left = self.mesh("-t", "1", "-J", "--prometheus", path)
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertEqual(os.listdir(self.outputs), ["x.prom"])
        with open(path, "rb") as file:
            read = Metrics(file.read())
        self.assertEqual(len(left.json()["mesh"]["cells"]), 2)
        for cell in left.json()["mesh"]["cells"]:
            labels = {"source": cell["from"], "target": cell["to"]}
            self.assertEqual(read.one("iperf3_received_bytes", **labels),
                             cell["document"]["end"]["sum_received"]["bytes"])
            self.assertEqual(read.one("iperf3_up", **labels), 1)
        for name in ("iperf3_sent_bytes", "iperf3_duration_seconds"):
            self.assertEqual(sorted(sorted(each) for each in read.keys(name)),
                             [["source", "target"]] * 2)
        self.all_clean()
        # One that is gone.
        os.kill(self.hosts["db1"].pid, signal.SIGKILL)
        left = self.mesh("-t", "1", "--prometheus", path)
        self.assertEqual(left.code, 1, left)
        with open(path, "rb") as file:
            read = Metrics(file.read())
        self.assertEqual(set(read.found["iperf3_up"].values()), {0.0})
        self.assertEqual(len(read.found["iperf3_failed"]), 2)

    def test_one_far_server(self):
        self.folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        path = os.path.join(self.outputs, "x.prom")
        host = self.enter(sshd.Host("db1"))
        left = self.client(host, "-J", "-n", "200K", "--prometheus", path)
        self.assertEqual((left.code, left.err), (0, ""), left)
        with open(path, "rb") as file:
            read = Metrics(file.read())
        self.assertEqual(read.found["iperf3_received_bytes"], {
            frozenset([("target", "db1")]): left.json()["end"]["sum_received"]["bytes"]})


if __name__ == "__main__":
    unittest.main()
