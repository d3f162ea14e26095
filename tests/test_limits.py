"""Little memory, few processes, and kernels that refuse what Python offers."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

import pyperf3
from support import (OURS, Group, Program, ServerCase, children, driver, free_port, run, run_pair,
                     start_server, wait_for_listener, wait_until)

MEGABYTE = 1024 * 1024


# Of an end with many streams.
PROCESSES = max(4, os.cpu_count())


def threads(pid):
    return len(os.listdir("/proc/%d/task" % pid))


@unittest.skipUnless(sys.platform.startswith("linux"), "control groups are Linux's")
class LittleMemory(unittest.TestCase):
    """Each end in a control group of its own."""

    def check(self, megabytes, arguments):
        with Group(megabytes) as ours, Group(megabytes) as theirs:
            port = free_port()
            with Program(OURS + ("-s", "-p", port), preexec_fn=ours.enter) as server:
                wait_for_listener(server, port)
                words = OURS + ("-c", "127.0.0.1", "-p", port, "-t", 1, "-J")
                left = run(words + tuple(arguments.split()), 120.0, preexec_fn=theirs.enter)
                self.assertEqual(left.code, 0, left)
                for name, value in left.json()["end"].items():
                    if name.startswith("sum"):
                        self.assertGreater(value["bytes"], 0, name)
                self.assertIsNone(server.process.poll())
                self.assertEqual((ours.kills(), theirs.kills()), (0, 0))
                server.signal()
                self.assertEqual(server.finish(20.0).code, 0)

    def test_many_streams_in_64_megabytes(self):
        for arguments in ("", "-R", "--bidir", "-u -b 200K"):
            with self.subTest(arguments=arguments):
                self.check(64, "-P 128 " + arguments)

    def test_eight_streams_in_45_megabytes(self):
        for arguments in ("", "-R", "--bidir", "-u -b 1M"):
            with self.subTest(arguments=arguments):
                self.check(45, "-P 8 " + arguments)

    def test_several_clients_count_together(self):
        with Group(64) as group:
            port = free_port()
            words = OURS + ("-s", "-p", port, "--max-clients", 8)
            with Program(words, preexec_fn=group.enter) as server:
                wait_for_listener(server, port)
                words = OURS + ("-c", "127.0.0.1", "-p", port, "-P", 5, "-t", 1, "-b", "1M")
                clients = [Program(words) for _ in range(8)]
                for client in clients:
                    with client:
                        left = client.finish(60.0)
                        self.assertEqual(left.code, 0, left)
                self.assertEqual(group.kills(), 0)

    def test_server_outlives_its_workers(self):
        # The limit comes down while a test runs: what the kernel kills is a worker.
        with Group(400) as group:
            port = free_port()
            with Program(OURS + ("-s", "-p", port), preexec_fn=group.enter) as server:
                wait_for_listener(server, port)
                words = OURS + ("-c", "127.0.0.1", "-p", port, "-P", 20, "-t", 30, "-b", "1M")
                with Program(words) as client:
                    client.wait_for("[SUM]")
                    group.limit(group.usage() + 2)
                    hog = "x = b'x' * %d; import time; time.sleep(60)" % (10 * MEGABYTE)
                    words = (sys.executable, "-S", "-c", hog)
                    with Program(words, preexec_fn=group.enter):
                        left = client.finish(40.0)
                self.assertGreater(group.kills(), 0)
                self.assertEqual(left.code, 1, left)
                group.limit(400)
                self.assertIsNone(server.process.poll(), server.err())
                self.assertIn("was killed by signal 9: perhaps the memory ran out", server.err())
                left = run(OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
                self.assertEqual(left.code, 0, left)

    def test_streams_that_cannot_fit_are_refused(self):
        with Group(400) as group:
            port = free_port()
            with Program(OURS + ("-s", "-p", port), preexec_fn=group.enter) as server:
                wait_for_listener(server, port)
                # Only behind a test it has all that it keeps.
                left = run(OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
                self.assertEqual(left.code, 0, left)
                group.limit(group.usage() + 3)
                left = run(OURS + ("-c", "127.0.0.1", "-p", port, "-P", 128, "-t", 1))
                self.assertEqual(left.code, 1, left)
                self.assertIn("unable to create a new stream: Cannot allocate memory", left.err)
                server.wait_for_error("no memory for 128 streams: ")
                self.assertRegex(server.err(), r"streams: \d+ KiB are free")
                left = run(OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
                self.assertEqual(left.code, 0, left)


@unittest.skipUnless(sys.platform.startswith("linux"), "what is counted is in Linux's /proc")
class Workers(ServerCase):

    def test_processes_of_a_server_are_bounded_in_all(self):
        bound = max(64, 2 * os.cpu_count())
        counts = [8] * (bound // 8 - 1) + [128, 5]
        port = self.serve("--max-clients", len(counts))
        words = OURS + ("-c", "127.0.0.1", "-p", port, "-t", 60, "-b", "100K", "-u",
                        "--threads", "-P")
        programs, expected = [], 0
        try:
            for count in counts:
                programs.append(Program(words + (count,)))
                programs[-1].wait_for("[SUM]")
                expected += count if expected + count <= bound else 0
                self.assertEqual(len(children(self.server.pid)), expected)
                if count == 128:
                    programs.pop().__exit__()
                    wait_until(lambda: threads(self.server.pid) == 1, "the end of the threads")
        finally:
            for program in programs:
                program.__exit__()
        wait_until(lambda: not children(self.server.pid), "the end of the processes")

    def test_workers_are_the_first_to_be_killed(self):
        port = self.serve()
        with Program(OURS + ("-c", "127.0.0.1", "-p", port, "-t", 10, "-P", 2)) as client:
            client.wait_for("connected", count=2)
            wait_until(lambda: len(children(self.server.pid)) == 2, "two workers")

            def scores(pid):
                found = []
                for each in children(pid):
                    with open("/proc/%d/oom_score_adj" % each) as handle:
                        found.append(int(handle.read()))
                return found
            for pid in (self.server.pid, client.pid):
                wait_until(lambda: scores(pid) == [1000, 1000], ("1000", lambda: scores(pid)))

    def test_killed_worker_is_said_to_be_killed(self):
        port = self.serve()
        for pid in ("server", "client"):
            with self.subTest(end=pid), Program(
                    OURS + ("-c", "127.0.0.1", "-p", port, "-t", 20)) as client:
                client.wait_for("sec")
                end = self.server if pid == "server" else client
                os.kill(children(end.pid)[0], signal.SIGKILL)
                left = client.finish()
                self.assertEqual(left.code, 1, left)
                wait_until(lambda: "the stream's worker was killed by signal 9: perhaps the memory"
                                   " ran out" in end.err(), ("killed", end.err))

    def test_many_streams_share_a_few_processes(self):
        port = self.serve()
        words = OURS + ("-c", "127.0.0.1", "-p", port, "-t", 20, "-b", "1M", "-P")
        for count, expected in ((8, 8), (9, PROCESSES), (128, PROCESSES)):
            with self.subTest(streams=count), Program(words + (count,)) as client:
                client.wait_for("[SUM]")
                for end in (client, self.server):
                    self.assertEqual(len(children(end.pid)), expected)
                    total = sum(map(threads, children(end.pid)))
                    self.assertEqual(total, count)
            wait_until(lambda: not children(self.server.pid), "the end of the processes")

    def test_killed_process_names_the_streams_that_it_carried(self):
        for end in ("server", "client"):
            with self.subTest(end=end):
                server, port = start_server(OURS, "-1")
                words = OURS + ("-c", "127.0.0.1", "-p", port, "-t", 20, "-P", 3 * PROCESSES)
                with server, Program(words) as client:
                    client.wait_for("[SUM]")
                    program = client if end == "client" else server
                    os.kill(sorted(children(program.pid))[1], signal.SIGKILL)
                    self.assertEqual(client.finish().code, 1)
                    wait_until(program.err, "an error")
                    first = re.findall(r"\[ *(\d+)\] local", program.out())[3]
                    self.assertRegex(program.err(), (
                        r"unable to (read from|write to) stream socket: the worker of streams "
                        r"\[%s\] to \[%d\] was killed by signal 9") % (first, int(first) + 4))

    def test_no_process_of_many_streams_outlives_its_killed_parent(self):
        port = self.serve()
        with Program(OURS + ("-c", "127.0.0.1", "-p", port, "-t", 60, "-P", 12)) as client:
            client.wait_for("[SUM]")
            workers = children(client.pid)
            self.assertEqual(len(workers), PROCESSES)
            client.signal(signal.SIGKILL)
            wait_until(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in workers),
                       "the end of the workers")

    def test_limit_on_address_space_holds_many_streams(self):
        # Each thread has megabytes of it, and the C library's heaps for threads have more.
        if not shutil.which("prlimit"):
            self.skipTest("no prlimit here")
        program, port = start_server(("prlimit", "--as=500000000") + OURS, "-1")
        with program:
            left = run(("prlimit", "--as=500000000") + OURS + (
                "-c", "127.0.0.1", "-p", port, "-P", 128, "-t", 1, "-b", "1M"))
            self.assertEqual(left.code, 0, left)
            self.assertEqual(program.finish().code, 0)


class RefusedProcesses(unittest.TestCase):
    """A fork that fails, as of a limit, strict accounting of memory, or a sandbox."""

    REFUSED = ("import errno, os\ndef refuse(): raise OSError(errno.%s, os.strerror(errno.%s))\n"
               "os.fork = refuse")

    def test_threads_do_instead(self):
        for name in ("EAGAIN", "ENOMEM", "ENOSYS", "EPERM"):
            command = driver(self.REFUSED % (name, name))
            for arguments in (("-P", 3), ("-P", 12), ("-R",), ("-u", "--bidir")):
                with self.subTest(error=name, arguments=arguments):
                    for left in run_pair(command, command, arguments + ("-t", 1)):
                        self.assertEqual(left.code, 0, left)
                        self.assertNotRegex(left.out, r" 0\.00 Bytes .* (sender|receiver)")

    def test_loopback(self):
        left = run(driver(self.REFUSED % ("EAGAIN", "EAGAIN")) + ("--loopback", "-t", 1))
        self.assertEqual((left.code, left.err), (0, ""), left)

    def test_where_threads_are_refused_too_the_reason_is_the_system_s(self):
        command = driver(self.REFUSED % ("EAGAIN", "EAGAIN") + "\nimport threading\n"
                         "def refuse_too(thread): raise RuntimeError(\"can't start new thread\")\n"
                         "threading.Thread.start = refuse_too")
        for ends in ((OURS, command), (command, OURS)):
            left = run_pair(*(ends + (("-t", 1),)))[0]
            self.assertEqual(left.code, 1, left)
            self.assertIn("unable to create a new stream: " + os.strerror(11), left.err)


class Busy(pyperf3.WorkerLoop):
    """Uses a CPU for a twentieth of a second."""

    def descriptors(self):
        return []

    def run(self):
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        self.publish()

    def close(self):
        pass


class Broken(Busy):

    def run(self):
        raise ValueError("no such thing")


@unittest.skipUnless(hasattr(os, "fork") and hasattr(time, "thread_time"), "needs Python 3.7")
class SharedProcesses(unittest.TestCase):

    def start(self, kinds):
        """Run loops of these kinds in two processes; returns the Workers, and theirs."""
        counters = pyperf3.Counters(len(kinds))
        workforce = pyperf3.Workforce(False, len(kinds))
        workforce.grant = lambda streams, shared: 2
        workers = pyperf3.Workers(workforce, counters, len(kinds), True)
        self.addCleanup(workers.close)
        each = [workers.add(kind(None, counters, index)) for index, kind in enumerate(kinds)]
        workers.open_gate()
        for worker in each:
            wait_until(worker.ended, "the end of a worker")
        return workers, each

    def test_cpu_seconds_of_a_process_count_once(self):
        import resource
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        workers, _ = self.start([Busy] * 8)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        told = sum(workers.cpu_times())
        self.assertGreater(told, 0.39)
        self.assertLessEqual(told, spent)

    def test_loop_that_breaks_ends_its_process_with_a_note(self):
        _, each = self.start([Busy, Broken, Busy, Busy])
        self.assertIs(each[0], each[1])
        self.assertIsNot(each[1], each[2])
        error = each[1].death("[5] to [7]")
        self.assertIn("the worker of streams [5] to [7] has died: ValueError(", error.strerror)
        self.assertEqual(each[2].death().strerror, "the stream's worker has died")


    def test_threads_that_are_refused_are_named(self):
        def refuse(thread):
            raise RuntimeError("can't start new thread")
        start, threading.Thread.start = threading.Thread.start, refuse
        try:
            _, each = self.start([Busy] * 4)
        finally:
            threading.Thread.start = start
        self.assertEqual(each[0].death("[5] to [7]").strerror,
                         "the worker of streams [5] to [7] has died: can't start new thread")


class Grants(unittest.TestCase):

    def setUp(self):
        self.free, pyperf3.free_memory = pyperf3.free_memory, lambda: 30 * MEGABYTE
        self.can_fork, pyperf3.can_fork = pyperf3.can_fork, lambda: True

    def tearDown(self):
        pyperf3.free_memory, pyperf3.can_fork = self.free, self.can_fork

    def test_memory_is_kept_for_workers_until_they_end(self):
        # A process takes its share bit by bit: long after its start, more looks free than is.
        workforce = pyperf3.Workforce(False, 0)
        self.assertTrue(workforce.grant(6))  # 15 MB, the half
        self.assertFalse(workforce.grant(6))
        self.assertRaises(pyperf3.IperfError, workforce.grant, 200)  # 19 MB
        self.assertFalse(workforce.grant(100))
        workforce.release(6, 6)
        self.assertFalse(workforce.grant(6))  # for the threads that are still there
        workforce.release(6, 0)
        workforce.release(6, 0)
        workforce.release(100, 0)
        self.assertTrue(workforce.grant(6))

    def test_streams_that_share_processes_need_less(self):
        pyperf3.free_memory = lambda: 60 * MEGABYTE
        workforce = pyperf3.Workforce(False, 0)
        self.assertEqual(workforce.grant(100), 0)
        workforce.release(100, 0)
        if PROCESSES < 8:
            self.assertEqual(workforce.grant(100, True), PROCESSES)

    def test_few_workers_without_a_look_count_as_well(self):
        workforce = pyperf3.Workforce(False, 4)
        self.assertTrue(workforce.grant(4))
        self.assertTrue(workforce.grant(5))  # of 30 MB that are free beside the first
        self.assertFalse(workforce.grant(5))

    def test_test_that_cannot_be_made_keeps_nothing(self):
        workforce = pyperf3.Workforce(False, 0)
        parameters = pyperf3.Parameters()
        parameters.parallel = 6
        make, ends = os.pipe, []

        def refuse():
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        def make_test(pipe, error):
            os.pipe = pipe
            try:
                with self.assertRaises(error):
                    pyperf3.Test(pyperf3.make_transport(
                        pyperf3.Settings(server=True), parameters, True), None, workforce)
            finally:
                os.pipe = make
        make_test(refuse, OSError)
        self.assertTrue(workforce.grant(6))  # all that there is
        pyperf3.free_memory = lambda: 0
        make_test(lambda: ends.append(make()) or ends[-1], pyperf3.IperfError)
        for end in ends[0]:
            self.assertRaises(OSError, os.fstat, end)


class FreeMemory(unittest.TestCase):

    def test_least_of_host_and_groups(self):
        files = {
            "/proc/meminfo": "MemTotal: 900 kB\nMemAvailable:  800 kB\n",
            "/proc/self/cgroup": "0::/a/b\n",
            "/sys/fs/cgroup/a/b/memory.max": "max\n",
            "/sys/fs/cgroup/a/b/memory.current": "5\n",
            "/sys/fs/cgroup/a/memory.max": "500000\n",
            "/sys/fs/cgroup/a/memory.current": "300000\n",
            "/sys/fs/cgroup/a/memory.stat": "anon 1\nfile 77\ninactive_file 1000\n",
        }
        self.assertEqual(self.free(files), 201000)
        files["/sys/fs/cgroup/a/b/memory.high"] = "100000\n"
        self.assertEqual(self.free(files), 99995)

    def test_first_version_of_groups(self):
        files = {
            "/proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/17\n",
            # In a container the group's own files are at the top.
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "700000\n",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes": "600000\n",
            "/sys/fs/cgroup/memory/memory.stat": "inactive_file 9\ntotal_inactive_file 2000\n",
        }
        self.assertEqual(self.free(files), 102000)
        files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712\n"
        self.assertIsNone(self.free(files))

    def test_where_nobody_can_tell(self):
        self.assertIsNone(self.free({}))

    def free(self, files):
        class Handle:
            def __init__(self, text):
                self.text = text.encode()

            def read(self, size=-1):
                return self.text

            def __iter__(self):
                return iter(self.text.splitlines(True))

            def __enter__(self):
                return self

            def __exit__(self, *details):
                pass

        def fake_open(path, *more):
            if path not in files:
                raise FileNotFoundError(path)
            return Handle(files[path])
        pyperf3.open = fake_open
        try:
            return pyperf3.free_memory()
        finally:
            del pyperf3.open


class NoProc(unittest.TestCase):
    """A chroot without /proc, where the limit on descriptors is a billion."""

    def test_descriptors_are_closed_quickly(self):
        code = ("import os, resource, sys, time\nsys.path.insert(0, %r)\nimport pyperf3\n"
                "def refuse(path):\n    raise FileNotFoundError(path)\n"
                "os.listdir = refuse\n"
                "pyperf3.descriptor_limit = lambda: 10 ** 9\n"
                "ends, begin = os.pipe(), time.process_time()\n"
                "copy = os.dup2(ends[0], 300)\n"
                "pyperf3.close_descriptors([0, 1, 2, ends[1]])\n"
                "for each in (ends[0], 300):\n"
                "    try:\n        os.fstat(each)\n        print('open', each)\n"
                "    except OSError:\n        pass\n"
                "os.fstat(ends[1])\n"
                "print('quick' if time.process_time() - begin < 2 else 'slow')\n")
        left = run((sys.executable, "-B", "-c", code % os.path.dirname(OURS[-1])))
        self.assertEqual((left.out, left.err), ("quick\n", ""))


class RefusedCalls(unittest.TestCase):
    """What Python offers and the kernel refuses, as old kernels and sandboxes do."""

    @classmethod
    def setUpClass(cls):
        words = ("strace", "-qq", "-o", os.devnull, "-e", "inject=memfd_create:error=EPERM", "true")
        if not shutil.which("strace") or subprocess.call(words, stderr=subprocess.DEVNULL):
            raise unittest.SkipTest("no strace here, or it is not permitted")

    @staticmethod
    def refusing(calls, error, command=OURS):
        """Return a command some of whose system calls (names with commas) fail."""
        return ("strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=" + calls,
                "-e", "inject=%s:error=%s" % (calls, error)) + command

    def test_file_without_memfd(self):
        for error in ("ENOSYS", "EPERM"):
            command = self.refusing("memfd_create", error)
            for arguments in (("-Z",), ("-Z", "-R"), ("-Z", "-P", 2)):
                with self.subTest(error=error, arguments=arguments):
                    left, server = run_pair(command, command, arguments + ("-n", "3M", "-J"))
                    self.assertEqual((left.code, server.code), (0, 0), (left, server))
                    sent = left.json()["end"]["sum_sent"]["bytes"]
                    self.assertGreaterEqual(sent, 3 * MEGABYTE)

    def test_certificate_without_memfd(self):
        # There is no need of the old and anonymous suites, which are for want of a certificate.
        command = self.refusing("memfd_create", "EPERM")
        left, server = run_pair(OURS, command, ("--tls", "-n", "1M", "-J"))
        self.assertEqual((left.code, server.code), (0, 0), (left, server))
        self.assertEqual(left.json()["end"]["pyperf3"]["tls"]["version"], "TLSv1.3")

    def test_twins(self):
        for calls, error, words in (
                ("sendmsg", "EPERM", "-t 1"), ("epoll_ctl", "EPERM", "-n 1M"),
                ("sendfile", "ENOSYS", "-Z -t 1"), ("sendfile", "EPERM", "-Z -n 10M"),
                ("epoll_wait,epoll_pwait", "ENOSYS", "-n 1M"),
                ("sendmmsg,recvmmsg", "EPERM", "-u -n 1M -b 50M")):
            command = self.refusing(calls, error)
            with self.subTest(calls=calls):
                left, server = run_pair(command, command, words.split())
                self.assertEqual((left.code, server.code), (0, 0), (left, server))
                self.assertNotRegex(left.out, r" 0\.00 Bytes .* (sender|receiver)")

    def test_sender_that_may_not_send_is_no_success(self):
        # The test was over before it counted as broken: 0 bytes, and status 0.
        command = self.refusing("sendfile", "EIO")
        for ends, more in (((OURS, command), ()), ((command, OURS), ("-R",))):
            with self.subTest(more=more):
                left = run_pair(*(ends + (("-Z", "-t", 1) + more,)))[0]
                self.assertEqual(left.code, 1, left)
                self.assertIn("unable to write to stream socket: " + os.strerror(errno.EIO),
                              left.err)
