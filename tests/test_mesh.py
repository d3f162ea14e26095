"""Tests between each two of several hosts that ssh reaches (--mesh)."""

import contextlib
import json
import os
import re
import signal
import unittest
import xml.etree.ElementTree

import pyperf3
import pictures
import sshd
import support
from test_ssh import PROGRAM, SOON, FarCase

NAMES = ("db1", "db2", "db3", "db4")


class MeshCase(FarCase):
    """Hosts in namespaces, and a mesh of them."""

    def network(self, *names, **more):
        """Make a network of these hosts, and the words that run the program with all of them."""
        self.net = self.enter(sshd.Network(names, **more))
        self.hosts = {name: self.net.host(name) for name in names}
        ssh = sshd.client(self.folder, *self.hosts.values())
        self.command = self.net.hub + PROGRAM + ("--ssh-command", " ".join(ssh))

    def mesh(self, *arguments, **more):
        names = more.pop("names", None) or tuple(self.hosts)
        return support.run(self.command + ("--mesh", ",".join(names)) + arguments, 110.0, **more)

    def all_clean(self, **more):
        for host in self.hosts.values():
            host.wait_until_clean(more.get("seconds", SOON))
        self.nothing_here()

    def table(self, text):
        """Return the rows of the table in a text: {from: {to: word}}."""
        lines = text.splitlines()
        at = next(number for number, line in enumerate(lines) if re.match(r"\S+ +to ", line))
        names = re.findall(r"to (\S+)", lines[at])
        rows = {}
        for line in lines[at + 1:at + 1 + len(names)]:
            words = line.split()
            self.assertEqual(words[0], "from")
            rows[words[1]] = dict(zip(names + ["median"], words[2:]))
        self.assertEqual(list(rows), names)
        return rows


class Slow(MeshCase):
    """Four hosts, the links of which carry 100 Mbit/s, but for one with 20."""

    def test_exactly_the_slow_cells_are_marked(self):
        self.network(*NAMES, rate=100e6, rates={"db3": 20e6})
        left = self.mesh("-t", "1", "-J")
        self.assertEqual((left.code, left.err), (0, ""), left)
        document = left.json()
        self.assertEqual(list(document), ["mesh"])
        mesh = document["mesh"]
        self.assertEqual([host["name"] for host in mesh["hosts"]], list(NAMES))
        for host in mesh["hosts"]:
            self.assertEqual(host["address"], self.net.address(host["name"]))
            self.assertEqual((host["version"], host["error"]), (pyperf3.__version__, None))
        self.assertEqual((mesh["seconds"], mesh["metric"], mesh["complete"]),
                         (1, "bits_per_second", True))
        # All pairs, in the order of the hosts, one after the other.
        pairs = [(cell["from"], cell["to"]) for cell in mesh["cells"]]
        self.assertEqual(pairs, [(a, b) for a in NAMES for b in NAMES if a != b])
        begins = [cell["document"]["start"]["timestamp"]["timemillisecs"]
                  for cell in mesh["cells"]]
        self.assertTrue(all(b - a >= 1000 for a, b in zip(begins, begins[1:])), begins)
        for cell in mesh["cells"]:
            slow = "db3" in (cell["from"], cell["to"])
            self.assertEqual(cell["marks"], ["slow"] if slow else [], cell)
            self.assertLess(cell["bits_per_second"], 24e6 if slow else 110e6)
            self.assertGreater(cell["bits_per_second"], 10e6 if slow else 50e6)
            # ssh knows that name only: it cost ten seconds to find out, in all but the first cells.
            self.assertEqual(cell["document"]["start"]["connecting_to"]["host"],
                             self.net.address(cell["to"]))
            self.assertIn("retransmits", cell)
            self.assertLess(cell["rtt_ms"], 100.0)
            connected = cell["document"]["start"]["connected"][0]
            self.assertEqual((connected["local_host"], connected["remote_host"]),
                             (self.net.address(cell["from"]), self.net.address(cell["to"])))
        self.assertEqual(len(mesh["findings"]), 1, mesh["findings"])
        self.assertRegex(mesh["findings"][0], r"\bdb3\b.*slow.*look at db3")
        self.all_clean()

    def test_the_table(self):
        self.network(*NAMES[:3], rate=100e6, rates={"db3": 20e6})
        left = self.mesh("-t", "1")
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertRegex(left.out, r"\A3 hosts, 6 tests of 1 s one after the other")
        for name, row in self.table(left.out).items():
            for other, word in row.items():
                if other == name:
                    self.assertEqual(word, "-")
                elif other != "median":
                    self.assertEqual(word.endswith("!"), "db3" in (name, other), left)
        self.assertRegex(left.out, r"db3\b.*slow.*look at db3")
        # A limit that some do not keep.
        left = self.mesh("-t", "1", "--min-bitrate", "50M", "-J")
        self.assertEqual((left.code, left.err), (4, ""), left)
        failed = [(cell["from"], cell["to"]) for cell in left.json()["mesh"]["cells"]
                  if any(check["state"] != "ok"
                         for check in cell["document"]["end"]["pyperf3"]["checks"])]
        self.assertEqual(failed, [("db1", "db3"), ("db2", "db3"), ("db3", "db1"), ("db3", "db2")])
        self.all_clean()


class Trouble(MeshCase):
    """What fails has its word in the table, and stops nothing else."""

    def test_a_host_that_is_lost_on_the_way(self):
        self.network(*NAMES[:3], rate=100e6)
        running = self.enter(support.Program(
            self.command + ("--mesh", "db1,db2,db3", "-t", "1", "-J")))
        host = self.hosts["db2"]
        support.wait_until(host.ports, "a server for the first test", 30.0)
        for pid in host.processes() + [host.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        left = running.finish(60.0)
        self.assertEqual(left.code, 1, left)
        mesh = left.json()["mesh"]
        self.assertEqual(len(mesh["cells"]), 6)
        for cell in mesh["cells"]:
            bad = "db2" in (cell["from"], cell["to"])
            self.assertEqual("error" in cell, bad, cell)
            self.assertEqual("bits_per_second" in cell, not bad, cell)
        self.assertTrue(any("db2" in each for each in mesh["findings"]), mesh["findings"])
        for name in ("db1", "db3"):
            self.hosts[name].wait_until_clean(SOON)
        self.nothing_here()

    def test_a_host_that_is_not_there(self):
        self.network(*NAMES[:3], rate=100e6)
        os.kill(self.hosts["db1"].pid, signal.SIGKILL)
        left = self.mesh("-t", "1")
        self.assertEqual(left.code, 1, left)
        self.assertNotIn("Traceback", left.err)
        table = self.table(left.out)
        words = [word for name, row in table.items() for other, word in row.items()
                 if "db1" in (name, other) and other not in (name, "median")]
        self.assertEqual(words, ["failed"] * 4, left)
        self.assertRegex(table["db2"]["db3"], r"^[\d.]+$")
        self.assertRegex(left.out, r"db1.*(ssh failed|Connection refused)")

    def test_no_way_between_two(self):
        self.network(*NAMES[:3], forward=False, direct=("db1", "db2"), rate=100e6)
        left = self.mesh("-t", "1", "-J", "-4")
        self.assertEqual(left.code, 1, left)
        for cell in left.json()["mesh"]["cells"]:
            good = "db3" not in (cell["from"], cell["to"])
            self.assertEqual("error" not in cell, good, cell)
            if not good:
                self.assertRegex(cell["error"], "unable to connect to server")
        self.all_clean()

    def test_an_interrupt_shows_what_is_there(self):
        self.network(*NAMES[:3], rate=100e6)
        for arguments in ((), ("-J",)):
            with self.subTest(arguments):
                running = self.enter(support.Program(
                    self.command + ("--mesh", "db1,db2,db3", "-t", "2") + arguments,
                    start_new_session=True))
                support.wait_until(self.hosts["db3"].ports, "a server for the second test", 40.0)
                os.killpg(running.pid, signal.SIGINT)
                left = running.finish(20.0)
                self.assertNotIn("Traceback", left.err)
                if arguments:
                    mesh = left.json()["mesh"]
                    self.assertIs(mesh["complete"], False)
                    self.assertIn("bits_per_second", mesh["cells"][0])
                    self.assertIn("interrupt", left.json()["error"])
                else:
                    self.assertRegex(self.table(left.out)["db1"]["db2"], r"^[\d.]+!?$")
                    self.assertIn("interrupt", left.err)
                self.all_clean()

    def test_a_mesh_that_is_killed(self):
        self.network(*NAMES[:3])
        running = self.enter(support.Program(
            self.command + ("--mesh", "db1,db2,db3", "-b", "1M")))
        support.wait_until(self.hosts["db2"].ports, "a server for the first test", 30.0)
        running.process.kill()
        running.process.wait()
        self.all_clean()


# The program, with hosts that are none: what the client of each pair prints is a line of a file.
TOLD = """
import os, pyperf3
def begin(self):
    yield from ()
def between(self, client, server, settings, take, limit=None):
    yield from pyperf3.pause(0)
    with open(os.environ["TOLD"], "rb") as file:
        take(file.read().split(b"\\n")[len(self.cells)], False)
    return 0
pyperf3.Mesh._begin_hosts, pyperf3.Mesh._between = begin, between
pyperf3.FarHost.finish = begin
"""


class Liars(FarCase):
    """Hosts of a mesh whose clients print what they like."""

    NAMES = "abcdefg"
    VALUES = ["9" * 400, "-1e308", "1e999", "NaN", "null", "true", "5", '"x\\u001b[2J<&"', "[]",
              "[5]", "{}", '{"up": 5}', '{"mss": 5}', "[" * 600 + "]" * 600,
              "[%s]" % ",".join(['{"name": "n", "state": "x", "direction": null}'] * 2000)]

    def documents(self):
        """Return a good document, and ones in which a member is something else."""
        document = pictures.Sample(seconds=2).document()
        document["end"]["pyperf3"].update(
            mtu={"up": {"mtu": 1500}, "down": {"mtu": None}}, verdict=[{"kind": "limit"}],
            checks=[{"name": "min-bitrate", "direction": "up", "state": "failed", "value": 5.0,
                     "limit": 6.0, "unit": "bit/s", "figure": "received"}])
        yield json.dumps(document)
        own = document["end"]["pyperf3"]
        for where in (document, document["start"], document["start"]["test_start"],
                      document["end"], document["end"]["sum_received"], own, own["latency"],
                      own["mtu"], own["checks"][0], document["intervals"][0]):
            for name in list(where):
                kept, where[name] = where[name], "@@"
                yield json.dumps(document)
                where[name] = kept

    def run_mesh(self, documents, *arguments):
        """Run a mesh of so many pairs, with the files of it beside; returns (what is left, page,
        metrics, rows).
        """
        told, files = os.path.join(self.folder, "told"), []
        with open(told, "w") as file:
            file.write("\n".join(documents))
        for name in ("html", "prom", "csv"):
            files.append(os.path.join(self.folder, "mesh." + name))
            with contextlib.suppress(FileNotFoundError):
                os.remove(files[-1])
        words = ["--html=" + files[0], "--prometheus", files[1]] + [
            "--csv=" + files[2]] * ("--csv" not in arguments)
        left = support.run(support.driver(TOLD) + ("--mesh", ",".join(self.NAMES), "-T", "night")
                           + tuple(words) + arguments, env=support.environment(TOLD=told))
        texts = []
        for path in files:
            with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
                texts.append(file.read())
        return [left] + texts

    def test_one_pairs_document_spoils_no_other(self):
        count = len(self.NAMES) * (len(self.NAMES) - 1)
        good, *changed = self.documents()
        cases = [each.replace('"@@"', value) for number, each in enumerate(changed)
                 for value in self.VALUES[number % 3::3]]
        for at, number in enumerate(range(0, len(cases), count - 1)):
            some = cases[number:number + count - 1]
            some += [good] * (count - len(some))
            form = ((), ("-J",), ("--csv",))[at % 3]
            left, page, metrics, *rows = self.run_mesh(some, *form)
            with self.subTest(number=number, form=form):
                self.assertIn(left.code, (0, 1), left)
                self.assertNotRegex(left.out + left.err, "Traceback|unable to|Error\\(|\x1b")
                xml.etree.ElementTree.fromstring(page.partition("\n")[2])
                self.assertLess(len(page), 200000)
                self.assertEqual(metrics.count("\niperf3_up{"), count)
                self.assertIn('iperf3_up{source="g",target="f"} 1\n', metrics)
                self.assertLess(metrics.count("\niperf3_check_failed{"), 100 * count)
                for text in rows or [left.out]:
                    self.assertIn(",g,", text)
                if form == ("-J",):
                    self.assertEqual(len(left.json()["mesh"]["cells"]), count)

    def test_a_line_of_another_host_is_one_line(self):
        good = next(self.documents())
        told = good.replace('"received"', '"received)\\niperf3: error - forged %s"' % ("x" * 9000))
        left = self.run_mesh([told] * 42, "--csv")[0]
        self.assertEqual(len(left.err.splitlines()), 42, left)
        self.assertTrue(all(re.match("[a-g] -> [a-g]: ", line) and len(line) < 300
                            for line in left.err.splitlines()), left)

    def test_rows_have_all_that_a_pairs_document_tells(self):
        good = next(self.documents())
        left = self.run_mesh([good] * 42, "--csv", "--csv-header")[0]
        self.assertEqual(left.code, 0, left)
        rows = [dict(zip(pyperf3.CSV_COLUMNS, line.split(",")))
                for line in left.out.split("\r\n")[1:-1]]
        loaded = json.loads(good)["end"]["pyperf3"]["latency"]["loaded"]
        self.assertEqual(len(rows), 2 * 42)
        for row in rows:
            self.assertEqual((float(row["latency_p50_ms"]), float(row["latency_max_ms"]),
                              row["title"]), (loaded["p50_ms"], loaded["max_ms"], "night"))
        self.assertEqual(left.err.splitlines()[0],
                         "a -> b: Check min-bitrate up: FAILED: 5 < 6 bit/s (received)")

    def test_among_rows_a_pair_that_fails_is_told_on_standard_error(self):
        left = self.run_mesh(["nothing"] + [next(self.documents())] * 41, "--csv")[0]
        self.assertEqual(left.code, 1, left)
        self.assertEqual(left.err.splitlines()[0],
                         "a -> b: the client there printed no document (status 0)")


class Forms(MeshCase):
    """How a mesh may be asked for, and what it prints."""

    def test_forms(self):
        self.network(*NAMES[:3])
        few = ("-t", "1", "-b", "5M", "-J")
        three = ("--ssh", "db1", "--ssh", "db2", "--ssh", "db3")
        for words, count in ((("--mesh", "db1,db2"), 2), (three, 6),
                             (("--mesh", "db1, db2", "-u"), 2), (("--mesh", "db1,db2", "--tls"), 2),
                             (("--mesh", "db1,db2", "-P", "2"), 2),
                             (("--mesh", "db1,db2", "--latency"), 2)):
            with self.subTest(words):
                left = support.run(self.command + words + few)
                self.assertEqual((left.code, left.err), (0, ""), left)
                cells = left.json()["mesh"]["cells"]
                self.assertEqual(len(cells), count)
                for cell in cells:
                    self.assertGreater(cell["bits_per_second"], 2e6, cell)
                    if "--latency" in words:
                        self.assertGreater(cell["latency_ms"], 0.0)
                    if "-u" in words:
                        self.assertEqual(cell["document"]["start"]["test_start"]["protocol"],
                                         "UDP")
        self.all_clean()

    def test_of_the_module(self):
        with sshd.Host("db1") as one, sshd.Host("db2") as other:
            ssh = " ".join(sshd.client(self.folder, one, other))
            settings = pyperf3.Settings(mesh="db1,db2", ssh_command=ssh, time=1)
            names = []
            for event in pyperf3.Mesh(settings):
                names.append(event["event"])
                if event["event"] == "mesh":
                    document = event["data"]
            self.assertEqual(names.count("cell"), 2)
            self.assertEqual(names[-2:], ["mesh", "done"])
            self.assertEqual([cell["from"] for cell in document["cells"]], ["db1", "db2"])
            one.wait_until_clean(SOON)
            other.wait_until_clean(SOON)

    def test_rows(self):
        """Of a mesh and of two hosts, also several times over: with one header."""
        self.network("db1", "db2", rate=100e6)
        columns = pyperf3.CSV_COLUMNS
        for words, rows in ((("--mesh", "db1,db2"), 4),
                            (("--ssh", "db1", "--ssh", "db2", "--repeat", "2"), 12)):
            with self.subTest(words=words):
                left = support.run(self.command + words + ("-t", "1", "--csv", "--csv-header"),
                                   110.0)
                self.assertEqual((left.code, left.err), (0, ""), left)
                lines = left.out.split("\r\n")
                self.assertEqual((lines[0], lines[-1]), (",".join(columns), ""))
                found = [dict(zip(columns, line.split(","))) for line in lines[1:-1]]
                self.assertEqual(len(found), rows)
                self.assertEqual([row["kind"] for row in found[-2:]], ["sent", "received"])
                self.assertEqual(found[0]["host"], "db2")
                self.assertEqual({row["direction"] for row in found}, {"up"})
                for row in found:
                    self.assertTrue(0 < int(row["bits_per_second"]) < 2e8, row)
        self.all_clean()

    def test_all_hosts_fail(self):
        left = support.run(PROGRAM + ("--mesh", "a,b,c", "--ssh-command", "false"))
        self.assertEqual(left.code, 1, left)
        self.assertNotIn("Traceback", left.err)
        left = support.run(PROGRAM + ("--mesh", "a,b,c", "--ssh-command", "false", "-J"))
        self.assertEqual((left.code, left.err), (1, ""), left)
        self.assertEqual([bool(host["error"]) for host in left.json()["mesh"]["hosts"]],
                         [True] * 3)
        left = support.run(PROGRAM + ("--mesh", "a,b", "--ssh-command", "false", "--csv"))
        self.assertEqual((left.code, left.out), (1, ""), left)
        for name in ("a", "b"):
            self.assertRegex(left.err, r"(?m)^%s is left out: \S" % name)
        self.assertEqual(len(left.err.splitlines()), 2, left)

    def test_lists_that_are_none(self):
        for words in (("--mesh", "db1"), ("--mesh", "db1,db1"), ("--mesh", "db1,,db2"),
                      ("--mesh", "a,-oProxyCommand=x"), ("--mesh", ""),
                      ("--mesh", "a,b", "-R"), ("--mesh", "a,b", "--diagnose"),
                      ("--mesh", "a,b", "-c", "x"), ("--mesh", "a,b", "-s"),
                      ("--mesh", "a,b", "--ssh-tunnel"), ("--mesh", "a,b", "-t", "0")):
            with self.subTest(words):
                left = support.run(PROGRAM + words)
                self.assertEqual((left.code, left.out), (1, ""), left)
                self.assertRegex(left.err, r"\Aiperf3: parameter error - ")


if __name__ == "__main__":
    unittest.main()
