"""Hold --repeat: as many tests as were asked for, each as ever, and an end at any time."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import captures
import sshd
import support
from test_html import Reader
from test_mesh import MeshCase
from test_ssh import FarCase

BRIEF = ("-n", "100K")
SECOND = ("-t", "1", "-b", "1M")
LONG = ("-t", "30", "-b", "1M", "-i", "0.2")
DONE = "iperf Done.\n"
LINUX = sys.platform.startswith("linux")


def shape(text):
    """Return a text without its figures."""
    return re.sub(r" +", " ", re.sub(r"\d+(\.\d+)?( [KMGT]?Bytes| [KMGT]?bits/sec)?", "N", text))


def start_of(document):
    """Return when the test of a document began, in seconds."""
    return document["start"]["timestamp"]["timemillisecs"] / 1000.0


class RepeatCase(support.ServerCase):
    """A client that runs again and again."""

    def words(self, port, *arguments):
        return support.OURS + ("-c", "127.0.0.1", "-p", port) + arguments

    def run_client(self, port, *arguments, **more):
        return support.run(self.words(port, *arguments), **more)

    def start(self, port, *arguments):
        """Begin one; returns the Program, which is ended with the test."""
        program = support.Program(self.words(port, *arguments))
        self.addCleanup(program.__exit__)
        return program

    def folder(self):
        folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        return folder


class Outputs(RepeatCase):
    """What is printed is that of so many single tests."""

    def test_text(self):
        port = self.serve()
        once = self.run_client(port, *BRIEF)
        self.assertEqual((once.code, once.err), (0, ""), once)
        for count in (1, 2, 5):
            left = self.run_client(port, "--repeat", count, *BRIEF)
            self.assertEqual((left.code, left.err), (0, ""), left)
            self.assertEqual(shape(left.out), count * shape(once.out))
        self.server.wait_for("Accepted connection", count=9)
        time.sleep(0.2)  # another would be there by now
        self.assertEqual(self.server.out().count("Accepted connection"), 9)

    def test_documents_one_after_the_other(self):
        port = self.serve()
        for words in ((), ("-R",), ("-u", "-b", "50M"), ("--bidir", "--latency"), ("-P", "2")):
            with self.subTest(words=words):
                count = 2 if "--latency" in words else 3
                left = self.run_client(port, "-J", "--repeat", str(count), *BRIEF + words)
                self.assertEqual((left.code, left.err), (0, ""), left)
                documents = captures.documents(left.out)
                self.assertEqual(len(documents), count)
                self.assertEqual(len({each["start"]["cookie"] for each in documents}), count)
                for document in documents:
                    self.assertNotIn("error", document)
                    self.assertEqual(len(document["start"]["connected"]), 1 + (
                        "-P" in words or "--bidir" in words))
                    self.assertEqual(len(document["intervals"]), 1)
                    self.assertGreater(document["end"]["sum_received"]["bytes"], 0)

    def test_stream_of_events(self):
        left = self.run_client(self.serve(), "--json-stream", "--repeat", "3", *BRIEF)
        self.assertEqual((left.code, left.err), (0, ""), left)
        events = [json.loads(line)["event"] for line in left.lines()]
        self.assertEqual(events, ["start", "interval", "end"] * 3)

    def test_rows(self):
        port, path = self.serve(), os.path.join(self.folder(), "x.csv")
        left = self.run_client(port, "--csv", "--csv-header", "--repeat", "3", *BRIEF)
        self.assertEqual((left.code, left.err), (0, ""), left)
        lists = [list(csv.reader(left.out.splitlines()))]
        left = self.run_client(port, "--csv=" + path, "--repeat", "3", *BRIEF)
        self.assertEqual((left.code, left.err, left.out.count(DONE)), (0, "", 3), left)
        with open(path, newline="") as file:
            lists.append(list(csv.reader(file)))
        for rows in lists:
            self.assertEqual([row[0] for row in rows].count("time"), 1)
            self.assertEqual(rows[0][0], "time")
            kinds = [row[6] for row in rows[1:]]
            self.assertEqual(kinds, kinds[:len(kinds) // 3] * 3)
            self.assertEqual(kinds.count("sent"), 6)
            self.assertEqual({len(row) for row in rows}, {len(rows[0])})

    def test_logfile(self):
        path = os.path.join(self.folder(), "log")
        left = self.run_client(self.serve(), "--logfile", path, "--repeat", "3", *BRIEF)
        self.assertEqual((left.code, left.out, left.err), (0, "", ""), left)
        with open(path) as file:
            self.assertEqual(file.read().count(DONE), 3)

    def test_a_report_is_written_anew_each_time(self):
        path = os.path.join(self.folder(), "x.html")
        client = self.start(self.serve(), "--html", path, "--repeat", "2/2", "-J", *BRIEF)
        support.wait_until(lambda: os.path.exists(path), "a page")
        pages = []
        for _ in range(2):
            with open(path, encoding="utf-8") as file:
                pages.append(json.loads(Reader(file.read()).script))
            client.process.wait(support.LIMIT)
        left = client.finish()
        self.assertEqual((left.code, left.err), (0, ""), left)
        cookies = [each["start"]["cookie"] for each in captures.documents(left.out)]
        self.assertEqual(len(set(cookies)), 2)
        self.assertEqual(pages[1]["start"]["cookie"], cookies[1])
        self.assertIn(pages[0]["start"]["cookie"], cookies)  # a slow reader may see the second one
        self.assertEqual(os.listdir(os.path.dirname(path)), ["x.html"])

    def test_loopback(self):
        left = support.run(support.OURS + ("--loopback", "--repeat", "3", "-J") + BRIEF)
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertEqual(len(captures.documents(left.out)), 3)

    def test_surveys(self):
        left = self.run_client(self.serve(), "--diagnose", "-P", "1", "--repeat", "2", "-J",
                               *SECOND)
        self.assertEqual((left.code, left.err), (0, ""), left)
        for document in captures.documents(left.out):
            self.assertEqual([each["name"] for each in document["diagnose"]["phases"]],
                             ["up", "down", "both"])
        self.assertEqual(len(captures.documents(left.out)), 2)

    def test_real_servers(self):
        def run(version):
            server, port = support.start_server(support.real(version))
            with server:
                return self.run_client(port, "--repeat", "4", "-J", "-P", "2", *BRIEF)
        for version, left in support.together(run, [("3.9",), ("3.12",), ("3.18",), ("3.22",)]):
            self.assertEqual(left.code, 0, (version, left))
            documents = captures.documents(left.out)
            self.assertEqual(len(documents), 4)
            self.assertFalse(any("error" in each for each in documents), left)

    def test_a_file_is_sent_each_time(self):
        path = os.path.join(self.folder(), "data")
        with open(path, "wb") as file:
            file.write(b"x" * 300000)
        left = self.run_client(self.serve(), "-F", path, "--repeat", "3", "-J")
        self.assertEqual([each["end"]["sum_received"]["bytes"]
                          for each in captures.documents(left.out)], [300000] * 3, left)

    def test_the_same_port_of_the_client(self):
        port, own = self.serve(), support.free_port()
        left = self.run_client(port, "--cport", own, "--repeat", "3", "-J", *BRIEF)
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertEqual([each["start"]["connected"][0]["local_port"]
                          for each in captures.documents(left.out)], [own] * 3)


class Times(RepeatCase):
    """When the next one begins."""

    def starts(self, left):
        documents = captures.documents(left.out)
        return [start_of(document) for document in documents]

    def test_from_start_to_start(self):
        port = self.serve()
        for words in (BRIEF, SECOND):
            left = self.run_client(port, "--repeat", "3/1.5", "-J", *words)
            starts = self.starts(left)
            self.assertEqual((left.code, len(starts)), (0, 3), left)
            # The stamp is made once connected: so much later the first one's may be.
            for one, other in zip(starts, starts[1:]):
                self.assertGreaterEqual(other - one, 1.2)
            self.assertLess(starts[2] - starts[0], 30.0)

    def test_one_that_takes_longer_is_followed_at_once(self):
        starts = self.starts(self.run_client(self.serve(), "--repeat", "3/0.3", "-J", *SECOND))
        self.assertEqual(len(starts), 3)
        for one, other in zip(starts, starts[1:]):
            self.assertGreaterEqual(other - one, 0.99)

    def test_failures_are_not_hurried(self):
        """After one it rests: within three seconds there are no more than a few tries."""
        for words in (("--repeat", "0"), ("--repeat", "0/0.1")):
            client = self.start(support.free_port(), *words)
            begun = time.monotonic()
            client.wait_for_error("Connection refused", 2)
            time.sleep(max(0.0, begun + 2.9 - time.monotonic()))
            tries = client.err().count("Connection refused")
            seconds = time.monotonic() - begun
            client.signal(signal.SIGINT)
            self.assertEqual(client.finish().code, 1)
            self.assertLessEqual(tries, seconds + 1)

    def test_failures_are_as_many_as_were_asked_for(self):
        left = self.run_client(support.free_port(), "--repeat", "2", "-J")
        self.assertEqual((left.code, left.err), (1, ""), left)
        documents = captures.documents(left.out)
        self.assertEqual(len(documents), 2)
        for document in documents:
            self.assertIn("Connection refused", document["error"])


class Endings(RepeatCase):
    """The end by a signal, and the exit status."""

    def in_the_pause(self, number, code, *words):
        """End one in its pause; returns what it left."""
        client = self.start(self.port, "--repeat", "0/600", *BRIEF + words)
        client.wait_for(DONE)
        time.sleep(0.3)
        client.signal(number)
        left = client.finish(10.0)
        self.assertEqual((left.code, left.err), (code, ""), left)
        self.assertEqual(left.out.count(DONE), 1)
        self.assertTrue(left.out.endswith(DONE), left)
        return left

    def test_in_the_pause_the_status_is_that_of_the_last_run(self):
        self.port = self.serve()
        for number in (signal.SIGINT, signal.SIGTERM):
            self.in_the_pause(number, 0)
            self.in_the_pause(number, 4, "--min-bitrate", "900T")
            self.in_the_pause(number, 0, "--min-bitrate", "1K")

    def test_in_the_pause_after_a_failure(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            client = self.start(support.free_port(), "--repeat", "0/600")
            client.wait_for_error("Connection refused")
            time.sleep(0.3)
            client.signal(number)
            left = client.finish(10.0)
            self.assertEqual((left.code, left.err.count("\n"), left.out), (1, 1, ""), left)

    def test_during_a_test_the_status_is_that_of_the_one_before(self):
        port = self.serve()
        for number, code, words in ((signal.SIGINT, 0, ()), (signal.SIGTERM, 0, ("-R",)),
                                    (signal.SIGINT, 4, ("--min-bitrate", "900T")),
                                    (signal.SIGTERM, 0, ("--min-bitrate", "1K"))):
            with self.subTest(number=number, words=words):
                client = self.start(port, "--repeat", "0", "-t", "1", "-b", "1M", "-i", "0.2",
                                    *words)
                client.wait_for(DONE)
                client.wait_for("Connecting to host", count=2)
                client.wait_for("0.00-0.2", count=2)
                client.signal(number)
                left = client.finish(10.0)
                self.assertEqual(left.code, code, left)
                self.assertIn("interrupt - the client has terminated by signal", left.err)
                self.assertEqual(len(re.findall("(?m)^- - - - -", left.out)), 2)

    def test_during_the_first_test_it_is_as_without(self):
        port = self.serve()
        for words in ((), ("--min-bitrate", "1K"), ("--min-bitrate", "900T")):
            found = []
            for more in ((), ("--repeat", "3")):
                client = self.start(port, *LONG + words + more)
                client.wait_for("sec ")
                client.signal(signal.SIGINT)
                left = client.finish(10.0)
                found.append((left.code, left.err))
                self.assertEqual(left.out.count("Connecting to host"), 1)
            self.assertEqual(found[0], found[1])

    def test_the_status_is_that_of_the_last_one(self):
        server, port = support.start_server(support.OURS, "-1")
        with server:
            left = self.run_client(port, "--repeat", "2", *BRIEF)
        self.assertEqual((left.code, left.out.count(DONE)), (1, 1), left)
        self.assertEqual(left.err.count("Connection refused"), 1)

    def test_while_it_waits_for_a_server(self):
        client = self.start(support.free_port(), "--repeat", "0", "--wait", "600")
        client.wait_for_error("waiting up to 600 seconds")
        client.signal(signal.SIGINT)
        self.assertIn("interrupt", client.finish(10.0).err)

    def test_a_closed_pipe_ends_it(self):
        for words in ((), ("-J",), ("--json-stream",), ("--csv",), ("--min-bitrate", "1K")):
            with self.subTest(words=words):
                port = self.serve()
                process = subprocess.Popen(
                    [str(word) for word in self.words(port, "--repeat", "0", *BRIEF + words)],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=support.environment())
                try:
                    process.stdout.read(10)
                    process.stdout.close()
                    err = process.stderr.read().decode()
                    # As of one test: a limit is not kept by what nobody was told of.
                    self.assertEqual(process.wait(support.LIMIT), int("1K" in words), err)
                    self.assertNotIn("Traceback", err)
                finally:
                    process.kill()
                    process.wait()
                    process.stderr.close()

    def test_as_head_reads_it(self):
        port = self.serve()
        command = " ".join("'%s'" % word for word in self.words(port, "--repeat", "0", *BRIEF))
        left = support.run(("sh", "-c", command + " | head -n 3"))
        self.assertEqual((left.code, len(left.lines())), (0, 3), left)


class Servers(RepeatCase):
    """Servers that come and go."""

    def test_one_that_dies_and_comes_back(self):
        port = support.free_port()

        def server():
            program = support.Program(support.OURS + ("-s", "-p", port))
            self.addCleanup(program.__exit__)
            support.wait_for_listener(program, port)
            return program
        first = server()
        client = self.start(port, "--repeat", "0", "-t", "1", "-b", "1M", "-i", "0.2")
        client.wait_for(DONE)
        client.wait_for("0.00-0.2", count=2)
        first.signal(signal.SIGKILL)
        first.finish()
        client.wait_for_error("Connection refused")
        server()
        seen = client.out().count(DONE)
        client.wait_for(DONE, count=seen + 2)
        client.signal(signal.SIGINT)
        self.assertEqual(client.finish(10.0).code, 0)

    def test_documents_of_failures_stand_between_the_others(self):
        port = support.free_port()
        client = self.start(port, "--repeat", "0", "-J", *BRIEF)
        client.wait_for('"error"')
        server = support.Program(support.OURS + ("-s", "-p", port))
        self.addCleanup(server.__exit__)
        client.wait_for('"sum_received"', count=2)
        client.signal(signal.SIGTERM)
        left = client.finish(10.0)
        documents = captures.documents(left.out)
        self.assertIn("Connection refused", documents[0]["error"])
        self.assertGreater(sum("sum_received" in each["end"] for each in documents), 1)
        for document in documents[1:]:  # none has anything of the one before
            if "error" not in document:
                self.assertEqual(len(document["start"]["connected"]), 1)
                self.assertGreater(document["end"]["sum_received"]["bytes"], 0)
            elif "interrupt" not in document["error"]:
                self.assertEqual((document["start"]["connected"], document["end"]), ([], {}))

    def test_a_busy_server_is_waited_for(self):
        for program in (support.OURS, support.real("3.22"), support.real("3.9")):
            with self.subTest(program=program):
                server, port = support.start_server(program)
                with server, support.Program(self.words(port, "-t", "2", "-b", "1M", "-i", "0.2")
                                             ) as other:
                    other.wait_for("sec ")
                    left = self.run_client(port, "--repeat", "2", *BRIEF)
                    self.assertEqual(other.finish().code, 0)
                self.assertEqual((left.code, left.err), (
                    0, "warning: waiting up to 60 seconds for a server: the server is busy running"
                    " a test\n"), left)
                self.assertEqual(left.out.count(DONE), 2)

    def test_two_that_share_a_server(self):
        port = self.serve()
        for left in support.at_once([lambda: self.run_client(
                port, "--repeat", "5", "-n", "50K")] * 2):
            self.assertEqual((left.code, left.out.count(DONE)), (0, 5), left)


@unittest.skipUnless(LINUX, "looks into /proc")
class Leaks(RepeatCase):
    """After many tests there is no more of anything than after a few."""

    RESIDENT = re.compile(r"(?m)^VmRSS:\s+(\d+) kB")
    THREADS = re.compile(r"(?m)^Threads:\s+(\d+)")

    def look(self, pid):
        """Return (descriptors, threads, children, kilobytes) of a process in its pause."""
        with open("/proc/%d/status" % pid) as file:
            status = file.read()
        return (support.descriptors(pid), int(self.THREADS.search(status).group(1)),
                len(support.children(pid)), int(self.RESIDENT.search(status).group(1)))

    def watch(self, command, mark):
        """Compare what a client has after 3 tests with what it has after 30."""
        with support.Program(command + ("--repeat", "0/0.15")) as client:
            client.wait_for(mark, count=3)
            few = self.least(client, mark, 3, lambda least: True)
            client.wait_for(mark, count=30)
            # Where it is busy there may be no pause for some time.
            many = self.least(client, mark, 30, lambda least: all(
                one <= other for one, other in zip(least[:3], few)))
            client.signal(signal.SIGINT)
            left = client.finish(10.0)
        self.assertEqual(left.code, 0, left)
        self.assertTrue(all(one <= other for one, other in zip(many[:3], few)), (few, many))
        self.assertLess(many[3] - few[3], 3000, (few, many))  # 27 tests

    def least(self, client, mark, count, enough):
        """Return the least of each figure, during four tests or until it is enough."""
        looks, deadline = [self.look(client.pid)], time.monotonic() + 20.0
        while True:
            looks.append(self.look(client.pid))
            least = tuple(min(values) for values in zip(*looks))
            seen = client.out().count(mark) >= count + 4
            if seen and (enough(least) or time.monotonic() > deadline):
                return least
            time.sleep(0.01)

    def test_tcp(self):
        self.watch(self.words(self.serve(), "-P", "2", *BRIEF), DONE)

    def test_datagrams_and_files(self):
        folder = self.folder()
        self.watch(self.words(self.serve(), "-u", "-b", "100M", "--bidir", "--prometheus",
                              os.path.join(folder, "x.prom"), "--html",
                              os.path.join(folder, "x.html"), "--csv=" + os.path.join(
                                  folder, "x.csv"), *BRIEF), DONE)
        self.assertEqual(sorted(os.listdir(folder)), ["x.csv", "x.html", "x.prom"])

    def test_threads_and_tls(self):
        self.watch(self.words(self.serve(), "--threads", "--tls", "--json-stream", *BRIEF),
                   '"event":"end"')

    def test_loopback(self):
        self.watch(support.OURS + ("--loopback",) + BRIEF, DONE)


class Surveys(RepeatCase):
    def test_the_status_of_a_file_is_that_of_the_last_run(self):
        folder = os.path.join(self.folder(), "there")
        os.mkdir(folder)
        path = os.path.join(folder, "x.csv")
        with support.Program(support.OURS + (
                "--loopback", "--diagnose", "-t", "1", "-b", "5M", "--repeat", "2/7",
                "--csv=" + path)) as client:
            client.wait_for("up: ")
            os.rename(folder, folder + "-not")
            client.wait_for("Diagnosis of ")
            client.wait_for_error("unable to write CSV: ")
            os.rename(folder + "-not", folder)
            left = client.finish(40.0)
        self.assertEqual(left.code, 0, left)
        with open(path) as file:
            self.assertRegex(file.read(), ",both\\n")


class Far(FarCase):
    """Over ssh."""

    def test_one_far_server(self):
        host = self.host()
        left = self.good(self.client(host, "--repeat", "2", "-J", "-n", "200K"))
        documents = captures.documents(left.out)
        self.assertEqual(len(documents), 2)
        for document in documents:
            self.assertGreater(document["end"]["sum_received"]["bytes"], 0)
        host.wait_until_clean()
        self.nothing_here()

    def test_between_two_hosts(self):
        with sshd.Network(("db1", "db2")) as net:
            hosts = [net.host(name) for name in net.names]
            for words, mark in (((), DONE), (("--csv",), ",SUM,received,")):
                left = support.run(net.hub + support.SOURCE + self.words(*hosts) + (
                    "--repeat", "2", "-n", "200K") + words)
                self.good(left)
                self.assertEqual(left.out.count(mark), 2, left)
            for host in hosts:
                host.wait_until_clean()
        self.nothing_here()

    def test_a_failure_behind_a_good_run_is_told(self):
        """What the first run had relayed kept the second one's error off the output."""
        with sshd.Network(("db1", "db2")) as net:
            hosts = [net.host(name) for name in net.names]
            _, command, *names = self.words(*hosts)
            script, count = (os.path.join(self.folder, name) for name in ("once", "count"))
            with open(script, "w") as file:
                file.write("#!/bin/sh\necho >> %s\n[ $(wc -l < %s) -le 2 ] || exit 255\n"
                           'exec %s "$@"\n' % (count, count, command))
            os.chmod(script, 0o755)
            for form in ("-J", "--json-stream", "--csv"):
                with self.subTest(form=form):
                    open(count, "w").close()
                    left = support.run(net.hub + support.SOURCE + (
                        "--ssh-command", script, "--repeat", "2", "-n", "200K", form)
                        + tuple(names))
                    self.assertEqual(left.code, 1, left)
                    self.assertRegex(left.err if form == "--csv" else left.out,
                                     "unable to start the far end: db[12]: ")
            for host in hosts:
                host.wait_until_clean()
        self.nothing_here()

    def test_the_end_in_a_pause_leaves_nothing_there(self):
        host = self.host()
        with support.Program(support.SOURCE + self.words(host) + (
                "--repeat", "0/600", "-n", "200K")) as client:
            client.wait_for(DONE)
            host.wait_until_clean()  # in a pause there is nothing there, too
            client.signal(signal.SIGINT)
            self.good(client.finish(20.0))
        self.nothing_here()


class Meshes(MeshCase):
    def test_mesh(self):
        self.network("db1", "db2", rate=100e6)
        left = self.mesh("-t", "1", "-J", "--repeat", "2")
        self.assertEqual((left.code, left.err), (0, ""), left)
        documents = captures.documents(left.out)
        self.assertEqual(len(documents), 2)
        for document in documents:
            self.assertEqual([(cell["from"], cell["to"]) for cell in document["mesh"]["cells"]],
                             [("db1", "db2"), ("db2", "db1")])
            self.assertFalse(any("error" in cell for cell in document["mesh"]["cells"]))
        self.all_clean()


if __name__ == "__main__":
    unittest.main()
