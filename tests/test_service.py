"""Life as a service: -D, pid and log files, stamps, limits, debug lines, environment."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

import captures
import fakes
import field
import pyperf3
import support

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REFUSED = ("iperf3: error - unable to connect to server - server may have stopped running or use"
           " a different port, firewall issue, etc.: Connection refused\n")


class Live(unittest.TestCase):
    """A folder for a test, and what programs leave in it."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def wait_for(self, name, text):
        """Wait until a file holds a text."""
        def holds():
            return os.path.exists(self.path(name)) and text in self.read(name)
        support.wait_until(holds, "%r in %s" % (text, name))

    def client(self, port, *arguments, **more):
        """Run a client; returns what it left."""
        return support.run(support.OURS + ("-c", "127.0.0.1", "-p", port) + arguments, **more)

    def good(self, port, *arguments, **more):
        left = self.client(port, *(arguments + ("-n", "100K")), **more)
        self.assertEqual((left.code, left.err), (0, ""), left)
        return left

    def both(self, *arguments, **more):
        """Run iperf3 3.22 and pyperf3 with the same arguments; they must print the same."""
        real = support.run(support.real("3.22") + arguments, **more)
        ours = support.run(support.OURS + arguments, **more)
        self.assertEqual((ours.out, support.as_iperf3(ours.err), ours.code),
                         (real.out, real.err, real.code))
        return ours


def is_alive(pid):
    """Return whether a process runs; one that ended and was not waited for does not."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@unittest.skipUnless(os.path.exists("/proc/self/stat"), "looks into /proc")
class Daemon(Live):
    """-D: a process of its own."""

    def start(self, *arguments, **more):
        """Start a daemon in the folder; returns (pid, port). It is ended after the test."""
        port = support.free_port()
        command = more.pop("command", support.OURS) + (
            "-s", "-D", "-p", port, "-I", "pid", "--logfile", "log") + arguments
        left = support.run(command, cwd=self.folder, **more)
        self.assertEqual((left.out, left.err, left.code), ("", "", 0), left)
        name = [value for word, value in zip(command, command[1:]) if word == "-I"][-1]
        support.wait_until(lambda: os.path.exists(self.path(name)) and self.read(name), "pid")
        pid = int(self.read(name))
        self.addCleanup(self.end, pid)
        support.wait_until(lambda: support.listens(port), "listener")
        return pid, port

    def end(self, pid):
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)

    def check(self, pid, port):
        self.assertEqual(os.getsid(pid), pid)
        self.assertNotEqual(os.getsid(pid), os.getsid(0))
        self.assertEqual(os.path.realpath("/proc/%d/cwd" % pid), os.path.realpath(self.folder))
        for number in range(3):
            self.assertEqual(os.readlink("/proc/%d/fd/%d" % (pid, number)), os.devnull)
        with open("/proc/%d/stat" % pid) as file:
            terminal = file.read().rpartition(")")[2].split()[4]
        self.assertEqual(terminal, "0")
        for arguments in ((), ("-R", "-P", "2"), ("-u", "-b", "10M")):
            self.good(port, *arguments)
        os.kill(pid, signal.SIGTERM)
        support.wait_until(lambda: not is_alive(pid), "end of the daemon")
        self.assertFalse(os.path.exists(self.path("pid")))
        log = self.read("log")
        for number in (1, 2, 3, 4):
            self.assertIn("Server listening on %d (test #%d)\n" % (port, number), log)
        self.assertTrue(log.endswith("iperf3: interrupt - the server has terminated by signal"
                                     " Terminated(15)\n"), log)

    def test_detaches_serves_and_ends(self):
        self.check(*self.start())

    def test_program_from_standard_input(self):
        with open(support.PROGRAM, "rb") as program:
            pid, port = self.start(command=(sys.executable, "-B", "-"), stdin=program)
        self.check(pid, port)

    def test_nothing_of_the_parent_is_held(self):
        """A pipe that the parent wrote to ends, and its terminal's descriptors are gone."""
        pid, port = self.start()
        names = os.listdir("/proc/%d/fd" % pid)
        kinds = [os.readlink("/proc/%d/fd/%s" % (pid, name)) for name in names]
        self.assertFalse([kind for kind in kinds if kind.startswith("pipe:")], kinds)

    def test_one_test(self):
        pid, port = self.start("-1")
        self.good(port)
        support.wait_until(lambda: not is_alive(pid), "end of the daemon")
        self.assertFalse(os.path.exists(self.path("pid")))
        self.assertNotIn("error -", self.read("log"))
        self.assertEqual(self.read("log").count("Server listening"), 1)

    def refused(self, *arguments):
        """Start a daemon that cannot serve; returns the line of the process that was started."""
        left = support.run(support.OURS + ("-s", "-D") + arguments, cwd=self.folder)
        self.assertEqual((left.out, left.code), ("", 1), left)
        self.assertEqual(left.err.count("\n"), 1, left)
        return support.as_iperf3(left.err)

    def test_daemon_on_a_used_port_was_a_success(self):
        line = ("iperf3: error - unable to start listener for connections: Address already in"
                " use\n")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            place = ("-B", "127.0.0.1", "-p", taken.getsockname()[1], "-I", "pid")
            self.assertEqual(self.refused(*place, "--logfile", "log"), line)
            self.assertEqual(support.as_iperf3(self.read("log")), line + "iperf3: exiting\n")
            self.assertEqual(self.refused(*place, "-J"), line)
        self.assertFalse(os.path.exists(self.path("pid")))

    def test_daemon_without_its_files_was_a_success(self):
        place = ("-p", support.free_port())
        self.write("taken", "%d" % os.getpid())
        for arguments, line in (
                (("-I", "no/such"), "error - unable to write PID file: No such file or directory"),
                (("-I", "taken"), "Another instance of iperf3 appears to be running"),
                (("--logfile", "no/such"), "error - unable to open log file: No such file or"
                                           " directory")):
            for mode in ((), ("-J",)):
                with self.subTest(arguments=arguments, mode=mode):
                    self.assertEqual(self.refused(*(place + arguments + mode)),
                                     "iperf3: %s\n" % line)
        self.assertFalse(support.listens(place[1]))

    def test_refusals_went_around_the_log(self):
        _, port = self.start("--tls-only")
        self.assertEqual(self.client(port).code, 1)
        self.wait_for("log", "warning: 127.0.0.1 wants a test without TLS\n")
        _, port = self.start("--allow", "192.0.2.0/24", "-I", "pid2")
        self.assertEqual(self.client(port).code, 1)
        self.wait_for("log", "warning: 127.0.0.1 is not allowed to test\n")
        for number, mode in enumerate(("-J", "--json-stream")):
            _, port = self.start("--allow", "192.0.2.0/24", "-I", "pid%d" % (3 + number), mode,
                                 "--logfile", "log%d" % number)
            self.assertEqual(self.client(port).code, 1)
            self.wait_for("log%d" % number, "127.0.0.1 is not allowed to test")
            for document in captures.documents(self.read("log%d" % number)):
                self.assertIsInstance(document, dict)

    def test_argument_errors_are_seen_before(self):
        left = support.run(support.OURS + ("-s", "-D", "-p", "0"))
        self.assertEqual((left.out, left.code), ("", 1), left)
        self.assertIn("parameter error - port number", left.err)

    def test_a_running_number_keeps_a_second_one_out(self):
        pid, port = self.start()
        left = support.run(support.OURS + ("-s", "-I", "pid", "-p", support.free_port()),
                           cwd=self.folder)
        self.assertEqual((left.out, left.err, left.code), (
            "", "iperf3: Another instance of iperf3 appears to be running\n", 1))
        self.assertEqual(int(self.read("pid")), pid)
        self.assertTrue(is_alive(pid))

    def test_it_needs_no_module_that_was_not_loaded_before(self):
        """A program packed into one file (PyInstaller) lost its modules, TLS among them."""
        _, port = self.start(command=support.driver("""
import os
fork = os.fork
def detach():
    sys.path[:] = []
    sys.path_importer_cache.clear()
    os.fork = fork
    return fork()
os.fork = detach
"""))
        for arguments in ((), ("-u",), ("--tls",), ("-R", "--threads")):
            self.good(port, *arguments)


class Pidfile(Live):
    """-I."""

    def test_number_mode_and_end(self):
        program, port = support.start_server(support.OURS, "-1", "-I", self.path("pid"))
        with program:
            self.assertEqual(self.read("pid"), "%d" % program.pid)
            self.assertEqual(stat.S_IMODE(os.stat(self.path("pid")).st_mode), 0o600)
            self.good(port)
            self.assertEqual(program.finish(20.0).code, 0)
        self.assertFalse(os.path.exists(self.path("pid")))

    def test_removed_after_a_signal(self):
        for number in SIGNALS:
            with self.subTest(signal=number):
                program, _ = support.start_server(support.OURS, "-I", self.path("pid"))
                with program:
                    self.assertEqual(self.read("pid"), "%d" % program.pid)
                    program.signal(number)
                    self.assertEqual(program.finish(20.0).code, 0)
                self.assertFalse(os.path.exists(self.path("pid")))

    def test_of_a_client(self):
        program, port = support.start_server(support.OURS)
        with program:
            with support.Program(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "20", "-i",
                                                 "0.2", "-I", self.path("pid"))) as client:
                client.wait_for("sec ")
                self.assertEqual(self.read("pid"), "%d" % client.pid)
                client.signal(signal.SIGINT)
                self.assertEqual(client.finish(20.0).code, 0)
            self.assertFalse(os.path.exists(self.path("pid")))
            self.good(port, "-I", self.path("pid"))
            self.assertFalse(os.path.exists(self.path("pid")))
        left = self.client(support.free_port(), "-I", self.path("pid"))
        self.assertEqual((support.as_iperf3(left.err), left.code), (REFUSED, 1))
        self.assertFalse(os.path.exists(self.path("pid")))

    def test_a_running_number_is_refused(self):
        self.write("pid", "%d\n" % os.getpid())
        for role in (("-s",), ("-c", "127.0.0.1")):
            for json_mode in ((), ("-J",), ("--json-stream",)):
                with self.subTest(role=role, mode=json_mode):
                    left = self.both(*(role + json_mode + ("-I", self.path("pid"))))
                    self.assertEqual(left.code, 1)
                    self.assertEqual(left.err, "" if json_mode else (
                        "iperf3: Another instance of iperf3 appears to be running\n"))
        self.assertEqual(self.read("pid"), "%d\n" % os.getpid())

    def test_stale_numbers_are_overwritten(self):
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        for text in ("%d" % ended.pid, "", "garbage", "0", "-1", "99999999", "1" * 60):
            self.write("pid", text)
            with self.subTest(text=text):
                program, port = support.start_server(support.OURS, "-I", self.path("pid"))
                with program:
                    self.assertEqual(self.read("pid"), "%d" % program.pid)
                    program.signal()
                    self.assertEqual(program.finish(20.0).code, 0)
                self.assertFalse(os.path.exists(self.path("pid")))

    def test_not_writable(self):
        for path in (self.path("no", "such"), self.folder):
            for role in (("-s", "-p", support.free_port()),
                         ("-c", "127.0.0.1", "-p", support.free_port())):
                for mode in ((), ("-J",), ("--json-stream",)):
                    with self.subTest(path=path, role=role, mode=mode):
                        left = self.both(*(role + mode + ("-I", path)))
                        self.assertEqual(left.code, 1)
                        self.assertEqual(left.err == "", bool(mode), left)

    def test_pipe_with_a_silent_writer_was_a_traceback(self):
        os.mkfifo(self.path("pid"))
        writer = os.open(self.path("pid"), os.O_RDWR)
        program, _ = support.start_server(support.OURS, "-I", self.path("pid"))
        with program:
            self.assertEqual(os.read(writer, 64), b"%d" % program.pid)
            program.signal()
            self.assertEqual(program.finish(20.0).code, 0)
        os.close(writer)

    @unittest.skipUnless(hasattr(os, "geteuid") and os.geteuid() == 0, "needs root")
    def test_what_another_user_put_there_was_written_to(self):
        for name in ("victim", "theirs"):
            self.write(name, "precious\n")
        os.symlink("victim", self.path("link"))
        os.link(self.path("victim"), self.path("hard"))
        for name in ("link", "theirs"):
            os.chown(self.path(name), 65534, 65534, follow_symlinks=False)
        port = support.free_port()
        for name, why in (("link", "it is a symbolic link of another user"),
                          # the kernel may be first (fs.protected_regular)
                          ("theirs", "(it belongs to another user|Permission denied)"),
                          ("hard", "it belongs to another user")):
            os.chmod(self.folder, 0o700 if name == "link" else 0o1777)
            for option, what in (("-I", "write PID"), ("--logfile", "open log")):
                with self.subTest(name=name, option=option):
                    left = support.run(support.OURS + ("-s", "-p", port, option, self.path(name)))
                    self.assertEqual(left.code, 1)
                    self.assertRegex(left.err, r"\Aiperf3: error - unable to %s file: %s\n"
                                     % (what, why))
        self.assertEqual(self.read("victim") + self.read("theirs"), "precious\n" * 2)
        os.chown(self.path("link"), 0, 0, follow_symlinks=False)
        os.unlink(self.path("hard"))
        program, _ = support.start_server(support.OURS, "-I", self.path("link"))
        with program:
            self.assertEqual(self.read("victim"), "%d" % program.pid)

    def test_files_that_are_no_text(self):
        with open(self.path("pid"), "wb") as file:
            file.write(b"\xff\xfe\x00")
        program, port = support.start_server(support.OURS, "-1", "-I", self.path("pid"))
        with program:
            self.assertEqual(self.read("pid"), "%d" % program.pid)
            self.good(port)
            self.assertEqual(program.finish(20.0).code, 0)


class Logfile(Live):
    """--logfile."""

    def test_all_goes_to_the_end_of_it(self):
        self.write("server.log", "before\n")
        self.write("client.log", "before\n")
        left, server = support.run_pair(
            support.OURS, support.OURS, ("-t", "1", "-i", "0.5", "--logfile",
                                         self.path("client.log")),
            ("--logfile", self.path("server.log")))
        for name, each in (("client", left), ("server", server)):
            self.assertEqual((each.out, each.err, each.code), ("", "", 0))
            lines = self.read(name + ".log").split("\n")
            self.assertEqual(lines[0], "before")
            # one descriptor more is in use
            numbers = set(re.findall(r"(?m)^\[ +(\d+)\]", "\n".join(lines)))
            self.assertEqual(numbers, {"5" if name == "client" else "6"})
            self.assertTrue(any(line.rstrip().endswith("receiver") for line in lines), lines)

    def test_json_goes_there(self):
        for mode in ("-J", "--json-stream"):
            support.run_pair(support.OURS, support.OURS, (
                "-n", "100K", mode, "--logfile", self.path("client" + mode)),
                (mode, "--logfile", self.path("server" + mode)))
            for name, number in (("client", 5), ("server", 6)):
                text = self.read(name + mode)
                with self.subTest(mode=mode, name=name):
                    if mode == "-J":
                        start = json.loads(text)["start"]
                    else:
                        start = json.loads(text.split("\n")[0])["data"]
                    self.assertEqual([each["socket"] for each in start["connected"]], [number])

    def test_rows_are_there_at_once(self):
        program, port = support.start_server(support.OURS, "-1", "--logfile", self.path("server"))
        with program, support.Program(support.OURS + (
                "-c", "127.0.0.1", "-p", port, "-t", "20", "-i", "0.2", "--logfile",
                self.path("client"))) as client:
            for name in ("client", "server"):
                self.wait_for(name, "sec ")
            client.signal()
            client.finish(20.0)
            program.finish(20.0)
        self.assertTrue(self.read("client").endswith(
            "iperf3: interrupt - the client has terminated by signal Terminated(15)\n"))
        self.assertTrue(self.read("server").endswith("iperf3: the client has terminated\n"))

    def test_a_moved_file_stays_whole_and_a_new_one_appears(self):
        program, port = support.start_server(support.OURS, "--logfile", self.path("log"))
        with program:
            self.good(port)
            self.wait_for("log", "(test #2)")
            os.rename(self.path("log"), self.path("old"))
            self.good(port)
            self.wait_for("log", "(test #3)")
            self.good(port)
            self.wait_for("log", "(test #4)")
            program.signal()
            left = program.finish(20.0)
        self.assertEqual((left.out, left.err, left.code), ("", "", 0), left)
        old, new = self.read("old"), self.read("log")
        self.assertEqual((old.count("receiver\n"), new.count("receiver\n")), (1, 2))
        self.assertTrue(old.endswith("(test #2)\n" + "-" * 59 + "\n"), old)
        self.assertTrue(new.startswith("Accepted connection from 127.0.0.1"), new)
        self.assertEqual(set(re.findall(r"(?m)^\[ +(\d+)\]", old + new)), {"6"})

    def test_a_folder_that_vanishes_is_no_end(self):
        os.mkdir(self.path("sub"))
        program, port = support.start_server(support.OURS, "--logfile", self.path("sub", "log"))
        with program:
            self.good(port)
            shutil.rmtree(self.path("sub"))
            for _ in range(2):
                self.good(port)
            program.signal()
            left = program.finish(20.0)
        self.assertEqual((left.out, left.code), ("", 0), left)
        self.assertNotIn("Traceback", left.err)

    def test_errors_go_into_it(self):
        left = self.client(support.free_port(), "--logfile", self.path("log"))
        self.assertEqual((left.out, left.err, left.code), ("", "", 1))
        self.assertEqual(support.as_iperf3(self.read("log")), REFUSED)
        self.assertEqual(support.as_iperf3(self.read("log")),
                         captures.Case("err-logfile-refused").printed("client"))
        program, port = support.start_server(support.OURS, "--logfile", self.path("server"))
        with program:
            with socket.create_connection(("127.0.0.1", port)) as sock:
                sock.sendall(b"a" * 36 + b"\0")
                sock.recv(1)
                sock.sendall(b"\0\0\0\2{x")
                sock.recv(9)
            self.wait_for("server", "iperf3: error")
            program.signal()
            left = program.finish(20.0)
        self.assertEqual((left.out, left.err, left.code), ("", "", 0))
        self.assertIn("iperf3: error - unable to receive parameters from client",
                      self.read("server"))

    def test_parameter_errors_do_not(self):
        left = support.run(support.OURS + ("-s", "--logfile", self.path("log"), "-t", "5"))
        self.assertIn("client only", left.err)
        self.assertFalse(os.path.exists(self.path("log")))

    def test_cannot_be_opened(self):
        for path in (self.path("no", "such"), self.folder):
            for role in (("-s", "-p", support.free_port()),
                         ("-c", "127.0.0.1", "-p", support.free_port())):
                for mode in ((), ("-J",), ("--json-stream",)):
                    with self.subTest(path=path, role=role, mode=mode):
                        left = self.both(*(role + mode + ("--logfile", path)))
                        self.assertEqual((left.out, left.code), ("", 1))
                        self.assertEqual(left.err.endswith("\niperf3: exiting\n"),
                                         role[0] == "-s" and not mode)

    def test_cpu_that_is_not_there(self):
        for role in (("-s", "-p", support.free_port()),
                     ("-c", "127.0.0.1", "-p", support.free_port())):
            for mode in ((), ("-J",), ("--json-stream",)):
                with self.subTest(role=role, mode=mode):
                    left = self.both(*(role + mode + ("-A", "1000")))
                    self.assertEqual((left.out, left.code), ("", 1))

    def test_no_pidfile_is_left_when_it_cannot_be_opened(self):
        left = support.run(support.OURS + ("-s", "-I", self.path("pid"), "--logfile",
                                           self.path("no", "such")))
        self.assertEqual(left.code, 1)
        self.assertFalse(os.path.exists(self.path("pid")))

    def test_devices(self):
        """A pipe cannot be sought in."""
        for device, name in (("/dev/stdout", "out"), ("/dev/stderr", "err")):
            if os.path.exists(device):
                left = self.client(support.free_port(), "--logfile", device)
                with self.subTest(device=device):
                    self.assertEqual((support.as_iperf3(getattr(left, name)), left.code),
                                     (REFUSED, 1), left)

    def test_the_disk_is_full(self):
        if not os.path.exists("/dev/full"):
            raise unittest.SkipTest("no /dev/full here")
        program, port = support.start_server(support.OURS)
        with program:
            left = self.client(port, "-n", "100K", "--logfile", "/dev/full")
        self.assertEqual((left.out, left.code), ("", 1), left)
        self.assertEqual(left.err, "iperf3: error - unable to write to the log file: No space left"
                                   " on device\n")


DATE = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4} "


class Timestamps(Live):
    """--timestamps."""

    def test_before_every_line_of_both(self):
        for option, stamp in (("--timestamps", DATE), ("--timestamps=%H:%M:%S|",
                                                       r"\d\d:\d\d:\d\d\|"),
                              ("--timestamps=at %s: ", r"at \d{10}: ")):
            for other in ((), ("-R",), ("--bidir", "-P", "2"), ("-u", "-b", "10M")):
                with self.subTest(option=option, other=other):
                    left, server = support.run_pair(
                        support.OURS, support.OURS,
                        ("-t", "1", "-i", "0.5", option) + other, (option,))
                    for each in (left, server):
                        self.assertEqual((each.err, each.code), ("", 0), each)
                        self.assertGreater(len(each.lines()), 8)
                        for line in each.lines():
                            self.assertRegex(line, "^" + stamp)
                    self.assertRegex(left.lines()[-2], "^%s$" % stamp)  # an empty line

    def test_before_the_title(self):
        left, _ = support.run_pair(support.OURS, support.OURS, (
            "-n", "100K", "--timestamps=x|", "-T", "TITLE"))
        for line in left.lines():
            self.assertTrue(line.startswith("x|TITLE:  "), line)

    def test_what_verbose_prints_past_the_stamps(self):
        left, server = support.run_pair(
            support.OURS, support.OURS,
            ("-n", "100K", "--timestamps=x|", "-V", "--cntl-ka=100/10/3"),
            ("--timestamps=x|", "-V", "--cntl-ka=100/10/3"))
        for each in (left, server):
            for line in each.lines():
                self.assertEqual(line.startswith("x|"), not line.startswith("Control "), line)

    def test_before_errors(self):
        left = self.both("-c", "127.0.0.1", "-p", support.free_port(), "--timestamps=x|")
        self.assertEqual(support.as_iperf3(left.err), "x|" + REFUSED)
        program, port = support.start_server(support.OURS, "--timestamps=x|")
        with program:
            program.signal()
            left = program.finish(20.0)
        self.assertEqual(left.err, "x|iperf3: interrupt - the server has terminated by signal"
                                   " Terminated(15)\n")

    def test_both_lines_of_a_servers_error(self):
        program, port = support.start_server(support.OURS, "-1", "--server-max-duration", "1")
        with program:
            left = self.client(port, "-t", "5", "--timestamps=x|")
        self.assertEqual(left.err.count("\n"), 2, left)
        for line in left.err.split("\n")[:-1]:
            self.assertTrue(line.startswith("x|iperf3: "), left)

    def test_the_line_about_listening_that_failed(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            left = self.both("-s", "-B", "127.0.0.1", "-p", taken.getsockname()[1],
                             "--timestamps=x|")
        self.assertEqual(left.err.count("x|iperf3: "), 2)

    def test_not_before_warnings_nor_json(self):
        left, server = support.run_pair(support.OURS, support.OURS, (
            "-n", "100K", "-J", "--timestamps=x|", "-V"), ("-J", "--timestamps=x|"))
        self.assertEqual(left.err, "warning: Verbose output (-v) may interfere with JSON output"
                                   " (-J)\n")
        for each in (left, server):
            self.assertNotIn("x|", each.out)
            self.assertIn("intervals", each.json())
        left, server = support.run_pair(support.OURS, support.OURS, (
            "-n", "100K", "--json-stream", "--timestamps=x|"), ("--json-stream",
                                                                "--timestamps=x|"))
        for each in (left, server):
            self.assertEqual(json.loads(each.lines()[0])["event"], "start")

    def test_in_the_log_file(self):
        self.client(support.free_port(), "--logfile", self.path("log"),
                           "--timestamps=x|")
        self.assertEqual(support.as_iperf3(self.read("log")), "x|" + REFUSED)

    def test_relayed_lines_keep_the_servers_stamps(self):
        """As with iperf3: the block of the server's lines has the client's stamp once."""
        shapes = []
        for command in (support.real("3.22"), support.OURS):
            left, _ = support.run_pair(
                command, command, ("-t", "1", "-i", "0.5", "--get-server-output",
                                   "--timestamps=C|"), ("--timestamps=S|",))
            self.assertEqual((left.err, left.code), ("", 0), left)
            lines = left.lines()
            at = [number for number, line in enumerate(lines) if line.endswith("Server output:")]
            self.assertEqual(len(at), 1, left)
            # what it begins with, and what kind of line it is; rows may be more or fewer
            shape = []
            for line in lines[at[0] - 1:]:
                stamp, bar, rest = line.rpartition("|")
                kind = (stamp + bar, re.sub(r"[\d.]+", "#", rest)[:14])
                if kind not in shape[-1:]:
                    shape.append(kind)
            shapes.append(shape)
        self.assertEqual(shapes[1], shapes[0])
        self.assertIn("S|", [stamp for stamp, _ in shapes[1]])

    def test_the_zone_is_that_of_the_environment(self):
        for zone, hours in (("UTC", 0), ("XXX-5", 5)):
            now = int(time.time())
            left = self.client(support.free_port(), "--timestamps=%H.",
                               env=support.environment(TZ=zone))
            hour = int(left.err.split(".")[0])
            self.assertIn((hour - hours) % 24, {now // 3600 % 24, (now + 60) // 3600 % 24})


class Limits(Live):
    """What a server lets its clients do."""

    def refused(self, server_arguments, client_arguments, text, hint=None):
        """A client is refused, the server goes on."""
        program, port = support.start_server(support.OURS, *server_arguments)
        with program:
            left = self.client(port, *client_arguments)
            self.assertEqual((left.code, left.err), (
                1, "iperf3: SERVER ERROR - %s\niperf3: error - %s\n" % (text, text)), left)
            self.assertTrue(left.out.startswith("Connecting to host 127.0.0.1, port %d\n" % port))
            program.wait_for("(test #2)")
            program.signal()
            server = program.finish(20.0)
        lines = server.err.split("\n")[:-1]
        self.assertEqual(lines[-2], "iperf3: error - " + text)
        self.assertEqual(len(lines), 3 if hint else 2, server)
        if hint:
            self.assertRegex(lines[0], "^iperf3: %s$" % hint)
        return left, server

    def test_duration(self):
        text = "client's requested duration exceeds the server's maximum permitted limit"
        for arguments in (("-t", "3"), ("-t", "0"), ("-n", "1M"), ("-k", "1"), (),
                          ("-t", "2", "-O", "1"), ("-t", "3", "-u", "-R")):
            with self.subTest(arguments=arguments):
                left, server = self.refused(("--server-max-duration", "2"), arguments, text)
                self.assertEqual(left.out.count("\n"), 2 if "-R" in arguments else 1)
                self.assertNotIn("Accepted", server.out)

    def test_duration_that_is_allowed(self):
        program, port = support.start_server(support.OURS, "-1", "--server-max-duration", "2")
        with program:
            left = self.client(port, "-t", "1", "-O", "1", "-b", "10M")
            self.assertEqual((left.code, left.err), (0, ""), left)
            self.assertEqual(program.finish(20.0).err, "")

    def test_rate_that_was_refused_was_not_in_the_document(self):
        program, port = support.start_server(support.OURS, "-1", "-J", "--server-bitrate-limit",
                                             "5M")
        with program:
            self.client(port, "-b", "10M")
            document = program.finish(20.0).json()
        self.assertEqual(list(document["start"]), [
            "connected", "version", "system_info", "target_bitrate"])
        self.assertEqual(document["start"]["target_bitrate"], 10000000)

    def test_bitrate_asked_for(self):
        text = "total required bandwidth is larger than server limit"
        for arguments, asked in ((("-b", "2M"), 2000000), (("-b", "600K", "-P", "2"), 1200000),
                                 (("-b", "600K", "--bidir"), 1200000), (("-u",), 1048576),
                                 (("-b", "300K", "-P", "2", "--bidir", "-u"), 1200000),
                                 (("--fq-rate", "2M"), 2000000)):
            with self.subTest(arguments=arguments):
                _, server = self.refused(
                    ("--server-bitrate-limit", "1M", "-V"), arguments, text,
                    "Client total requested throughput rate of %d bps exceeded 1000000 bps limit"
                    % asked)
                self.assertNotIn("Accepted", server.out)
        self.refused(("--server-bitrate-limit", "1M"), ("-b", "2M"), text)

    def test_bitrate_that_is_allowed(self):
        program, port = support.start_server(support.OURS, "--server-bitrate-limit", "1M")
        with program:
            for arguments in (("-b", "1M"), ("-u", "-b", "400K", "--bidir", "-l", "1000")):
                left = self.client(port, "-t", "1", *arguments)
                self.assertEqual((left.code, left.err), (0, ""), left)
            self.good(port)  # a rate that nobody asked for, for a moment
            program.signal()
            self.assertEqual(program.finish(20.0).err.count("\n"), 1)

    def test_bitrate_measured(self):
        text = "total required bandwidth is larger than server limit"
        for arguments in ((), ("-R",), ("--bidir",)):
            with self.subTest(arguments=arguments):
                left, server = self.refused(
                    ("--server-bitrate-limit", "1M/1", "-V"), ("-t", "20") + arguments, text,
                    r"Total throughput of \d+ bps exceeded 1000000 bps limit")
                self.assertRegex(left.out, "sec .*(sender|receiver)\n")
                self.assertIn("Accepted", server.out)
                self.assertIn("Summary", server.out)

    def test_idle_timeout_of_a_server_of_one_test(self):
        begin = time.monotonic()
        program, port = support.start_server(support.OURS, "-1", "--idle-timeout", "1")
        with program:
            left = program.finish(20.0)
        self.assertGreater(time.monotonic() - begin, 0.9)
        self.assertEqual((left.err, left.code), ("", 0))
        self.assertEqual(left.out.count("\n"), 3)

    def test_idle_timeout_does_not_end_a_test(self):
        program, port = support.start_server(support.OURS, "-1", "--idle-timeout", "1")
        with program:
            left = self.client(port, "-t", "2", "-b", "10M")
            self.assertEqual((left.code, left.err), (0, ""), left)
            self.assertEqual(program.finish(20.0).code, 0)

    def test_idle_timeout_of_a_server_that_stays(self):
        program, port = support.start_server(support.OURS, "--idle-timeout", "1")
        with program:
            time.sleep(2.0)
            self.assertIsNone(program.process.poll())
            self.good(port)
            program.wait_for("(test #2)")
            program.signal()
            left = program.finish(20.0)
        self.assertEqual(left.out.count("Server listening"), 2)

    def test_one_test_also_a_failed_one(self):
        for arguments in (("-t", "30"), ("-u", "-b", "1G")):
            program, port = support.start_server(
                support.OURS, "-1", "--server-max-duration", "20", "--server-bitrate-limit", "1M")
            with program:
                self.assertEqual(self.client(port, *arguments).code, 1)
                self.assertEqual(program.finish(20.0).code, 0)


class RateMeter(unittest.TestCase):
    """The average of a rate."""

    def test_known_after_the_interval_and_moving(self):
        meter = pyperf3.RateMeter(3)
        rates = [meter.look(100.0 + second, total) for second, total in enumerate(
            (0, 1000, 2000, 3000, 3000, 3000, 3000, 9000))]
        self.assertEqual(rates, [0, 0, 0, 8000, 5333, 2666, 0, 16000])

    def test_looks_no_oftener_than_each_second(self):
        meter = pyperf3.RateMeter(1)
        self.assertEqual([meter.look(*each) for each in (
            (10.0, 0), (10.5, 10 ** 9), (11.0, 1000), (11.9, 10 ** 9), (12.0, 1500))],
            [0, 0, 8000, 0, 4000])


class Debug(Live):
    """-d."""

    def lines(self, level, *arguments):
        left, server = support.run_pair(
            support.OURS, support.OURS, ("-t", "1", "-b", "10M", level) + arguments, (level,))
        self.assertEqual((left.code, server.code), (0, 0))
        return left, server

    def test_standard_error_alone_has_them(self):
        for arguments in ((), ("-u",), ("--bidir",)):
            with self.subTest(arguments=arguments):
                left, server = self.lines("-d", *arguments)
                for each in (left, server):
                    for line in each.lines():
                        self.assertRegex(line, r"^(\[|-|Connecting|Accepted|Server|iperf Done|$)")
                self.assertIn("send_parameters:\n{", left.err)
                self.assertIn("get_parameters:\n{", server.err)
                self.assertIn("9-PARAM_EXCHANGE", left.err)
                self.assertIn("14-DISPLAY_RESULTS", server.err)
                for each in (left, server):
                    self.assertNotIn("Traceback", each.err)
                    self.assertIn('"streams"', each.err)

    def test_levels(self):
        low, _ = self.lines("--debug=1")
        high, _ = self.lines("--debug=4")
        self.assertIn("send_parameters", low.err)
        self.assertNotIn("State change", low.err)
        self.assertIn("State change", high.err)
        none, server = self.lines("--debug=0")
        self.assertEqual((none.err, server.err), ("", ""))

    def test_json_is_whole(self):
        left, server = support.run_pair(support.OURS, support.OURS, ("-n", "100K", "-J", "-d"),
                                        ("-J", "-d"))
        for each in (left, server):
            self.assertIn("intervals", each.json())
            self.assertIn("warning: Debug output (-d) may interfere with JSON output (-J)\n",
                          each.err)
            self.assertIn("State change", each.err)

    def test_passwords_are_not_in_them(self):
        self.assertNotIn("password", pyperf3.Parameters.from_settings(pyperf3.Settings(
            client="h", username="u", rsa_public_key_path="k", password="p")).to_json())


class Environment(Live):
    """PYPERF3_OPTS."""

    def setUp(self):
        Live.setUp(self)
        self.port = support.free_port()
        self.program = support.Program(support.OURS + ("-s", "-p", self.port),
                                       env=support.environment(PYPERF3_OPTS="-t 5 --nosuch 'x"))
        self.addCleanup(self.program.__exit__)
        support.wait_for_listener(self.program, self.port)

    def with_options(self, options, *arguments):
        return self.client(self.port, *arguments, env=support.environment(PYPERF3_OPTS=options))

    def test_before_those_of_the_command_line(self):
        left = self.with_options("-n 100K -T 'one two' -J", "-P", "2")
        document = left.json()
        self.assertEqual(document["title"], "one two")
        self.assertEqual(document["start"]["test_start"]["bytes"], 102400)
        self.assertEqual(document["start"]["test_start"]["num_streams"], 2)
        left = self.with_options("-n 100K -T one -J -P 3", "-T", "two", "-P", "2")
        self.assertEqual(left.json()["title"], "two")
        self.assertEqual(left.json()["start"]["test_start"]["num_streams"], 2)

    def test_nothing_in_it(self):
        for text in ("", "  ", "\t\n"):
            self.assertEqual(self.with_options(text, "-n", "100K").code, 0)

    def test_errors_in_it(self):
        left = self.with_options("-t 86401")
        self.assertEqual(left.code, 1)
        self.assertTrue(left.err.startswith("iperf3: parameter error - test duration"), left)
        left = self.with_options("--nosuch")
        self.assertIn("PYPERF3_OPTS: unrecognized option '--nosuch'\n", left.err)
        left = self.with_options("-n 1K", "-t", "1")
        self.assertIn("(-t, -n, -k) may be specified (PYPERF3_OPTS: -n 1K)\n", left.err)
        left = self.with_options("-T 'one")
        self.assertEqual(left.code, 1)
        self.assertIn("PYPERF3_OPTS: ", left.err)
        self.assertNotIn("Traceback", left.err)
        left = self.with_options("-s")
        self.assertIn("cannot be both server and client", left.err)

    def test_the_two_are_checked_together(self):
        """What one of them lacks may be in the other."""
        left = self.with_options("-R", "--rcv-timeout", "5000", "-n", "100K")
        self.assertEqual((left.code, left.err), (0, ""), left)
        left = self.client(self.port, "--username", "u", env=support.environment(
            PYPERF3_OPTS="--rsa-public-key-path nosuch", IPERF3_PASSWORD="x"))
        self.assertNotIn("Connecting", left.out)
        self.assertIn("nosuch: No such file or directory\n", left.err)

    def test_it_cannot_swallow_the_command_line(self):
        for options in ("--", "-n 100K --", "-n 100K -- -t 5", "-n 100K word"):
            with self.subTest(options=options):
                left = self.with_options(options, "-n", "100K")
                self.assertEqual((left.code, left.err), (0, ""), left)
        left = self.with_options("-t")
        self.assertEqual(left.code, 1)
        self.assertIn("PYPERF3_OPTS: option requires an argument -- 't'\n", left.err)

    def test_a_server_and_the_rest_ignore_it(self):
        self.good(self.port)
        for word in ("--help", "--version"):
            left = support.run(support.OURS + (word,),
                               env=support.environment(PYPERF3_OPTS="--nosuch"))
            self.assertEqual((left.code, left.err), (0, ""))
        left = support.run(support.OURS, env=support.environment(PYPERF3_OPTS="-c 127.0.0.1"))
        self.assertIn("must either be a client (-c) or server (-s)", left.err)

    def test_the_loopback_heeds_it(self):
        left = support.run(support.OURS + ("--loopback",),
                           env=support.environment(PYPERF3_OPTS="-n 100K -J"))
        self.assertEqual(left.json()["start"]["test_start"]["bytes"], 102400)


class Connection(Live):
    """--connect-only, and how long connections took."""

    def test_text_and_a_server_that_is_not_used_up(self):
        program, port = support.start_server(support.OURS, "-1")
        with program:
            for arguments in ((), ("-u",), ("-R",), ("-t", "5")):
                left = self.client(port, "--connect-only", *arguments)
                self.assertEqual((left.code, left.err), (0, ""), left)
                self.assertRegex(left.out, r"\Aconnection establishment time: \d+\.\d{3} ms\n"
                                           r"time to first byte: \d+\.\d{3} ms\n\Z")
            self.good(port)
            left = program.finish(20.0)
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertEqual(left.out.count("Server listening"), 1)
        self.assertEqual(left.out.count("Accepted"), 1)

    def test_json(self):
        program, port = support.start_server(support.OURS)
        with program:
            end = self.client(port, "--connect-only", "-J").json()["end"]
            self.assertEqual(list(end), ["pyperf3"])
            self.assertEqual(list(end["pyperf3"]), ["connect_seconds", "first_byte_seconds"])
            self.assertGreaterEqual(end["pyperf3"]["first_byte_seconds"],
                                    end["pyperf3"]["connect_seconds"])
            left = self.client(port, "--connect-only", "--json-stream")
            self.assertEqual([json.loads(line)["event"] for line in left.lines()], ["end"])
            program.signal()
            left = program.finish(20.0)
        self.assertEqual(left.out.count("Server listening"), 1)

    def test_refused(self):
        port = support.free_port()
        left = self.client(port, "--connect-only")
        self.assertEqual((left.out, support.as_iperf3(left.err), left.code), ("", REFUSED, 1))
        left = self.client(port, "--connect-only", "-J")
        self.assertEqual((left.err, left.code), ("", 1))
        self.assertIn("Connection refused", left.json()["error"])

    def test_a_busy_server_and_one_that_is_none(self):
        program, port = support.start_server(support.OURS, "-1")
        with program, support.Program(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "20",
                                                      "-i", "0.2", "-b", "1M")) as client:
            client.wait_for("sec ")
            left = self.client(port, "--connect-only")
            self.assertEqual((left.out, left.code), ("", 1))
            self.assertIn("the server is busy running a test. try again later", left.err)
            client.signal()
            client.finish(20.0)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1)
            with support.Program(support.OURS + ("--connect-only", "-c", "127.0.0.1", "-p",
                                                 listener.getsockname()[1])) as client:
                for _ in range(2):  # since it tries once more
                    listener.accept()[0].close()
                left = client.finish(20.0)
        self.assertEqual((left.out, left.code), ("", 1), left)

    def test_against_iperf3(self):
        program, port = support.start_server(support.real("3.22"))
        with program:
            left = self.client(port, "--connect-only")
            self.assertEqual((left.code, left.err), (0, ""), left)
            self.good(port)

    def test_every_test_has_the_times(self):
        for arguments in ((), ("-R",), ("-u", "-b", "10M"), ("--threads",)):
            left, server = support.run_pair(support.OURS, support.OURS,
                                            ("-n", "100K", "-J") + arguments, ("-J",))
            own = left.json()["end"]["pyperf3"]
            with self.subTest(arguments=arguments):
                self.assertLess(0, own["connect_seconds"])
                self.assertLessEqual(own["connect_seconds"], own["first_byte_seconds"])
                self.assertNotIn("stream_mean_bitrate", own)
                self.assertNotIn("connect_seconds", server.json()["end"].get("pyperf3", {}))

    def test_mean_and_deviation(self):
        for arguments, directions in (((), 1), (("-R",), 1), (("--bidir",), 2), (("-u",), 1)):
            with self.subTest(arguments=arguments):
                left, _ = support.run_pair(support.OURS, support.OURS, (
                    "-t", "1", "-J", "-P", "3", "-b", "5M") + arguments)
                end = left.json()["end"]
                own = end["pyperf3"]
                self.assertEqual("stream_mean_bitrate_bidir_reverse" in own, directions == 2)
                rates = [(row.get("udp") or row["receiver"])["bits_per_second"]
                         for row in end["streams"]][:3]
                self.assertAlmostEqual(own["stream_mean_bitrate"], sum(rates) / 3,
                                       delta=sum(rates) / 100)
                self.assertAlmostEqual(own["stream_stddev_bitrate"], statistics.pstdev(rates),
                                       delta=sum(rates) / 100)

    def test_no_line_of_ours_stands_where_a_row_is_taken(self):
        """The mean of the streams began with [SUM] and came last: some read it as the result."""
        row = re.compile(r"\[(?: ID|SUM|[ \d]*\d)\](?:\[Role\]|\[[TR]X-[SC]\])?"
                         r"(?: Interval | +\d+\.\d+-\d+\.\d+ +sec | local | \(\w+ statistics not )")
        closing = re.compile(r"Test Complete|CPU Utilization: |(?:snd|rcv)_tcp_congestion |"
                             r"iperf Done\.\Z|\Z")
        for arguments in ((), ("-R",), ("--bidir",), ("-u", "-b", "0", "-w", "4K", "-t", "1"),
                          ("-u", "-b", "10M", "--bidir")):
            amount = () if "-t" in arguments else ("-n", "300K")
            pair = support.run_pair(support.OURS, support.OURS,
                                    ("-V", "-P", "2") + amount + arguments, ("-V",))
            for left in pair:
                text = left.out.split("\n")
                summary = text[max(at for at, line in enumerate(text) if line[:3] == "- -") + 1:]
                with self.subTest(arguments=arguments, text=left.out):
                    self.assertEqual([line for line in text
                                      if line.startswith("[") and not row.match(line)], [])
                    self.assertEqual([line for line in summary
                                      if not row.match(line) and not closing.match(line)], [])
                    if left is pair[0]:
                        sums = [line for line in text if line.startswith("[SUM]")]
                        self.assertRegex(sums[-1], r" receiver\Z")

    def test_no_member_of_ours_is_the_last_of_an_object(self):
        def last_names(value):
            if isinstance(value, dict):
                yield from list(value)[-1:]
            for each in value.values() if isinstance(value, dict) else value:
                if isinstance(each, (dict, list)):
                    yield from last_names(each)
        for arguments in (("-P", "2"), ("-u", "-P", "2"), ("-u", "--bidir")):
            for left in support.run_pair(support.OURS, support.OURS, (
                    "-n", "100K", "-J") + arguments, ("-J",)):
                document = left.json()
                self.assertIn("pyperf3", document["end"])
                self.assertNotIn("pyperf3", list(last_names(document)))
                last = re.findall(r'"(\w*(?:packets|seconds|bitrate))":', left.out)[-1]
                self.assertIn(last, ("packets", "lost_packets", "seconds"))

    def test_forceflush_is_accepted(self):
        program, port = support.start_server(support.OURS, "--forceflush")
        with program:
            program.wait_for("Server listening")
            self.good(port, "--forceflush")


class Reported(field.Case):
    """Public reports about iperf3 and its like, each with the test that would have found it."""

    # B07: iperf3 #458, #790, #299, #444, #1841, #1172, #393
    def test_output_is_held_back_when_piped(self):
        folder = self.folder()

        def read(name):
            path = os.path.join(folder, name)
            if not os.path.exists(path):
                return ""
            with open(path) as file:
                return file.read()

        def check(words, texts):
            logged = "--logfile" in words
            port = support.free_port()
            more = [words.split() + [os.path.join(folder, name)] if logged else words.split()
                    for name in ("server", "client")]
            with support.Program(support.OURS + ("-s", "-p", port) + tuple(more[0])) as server:
                if not logged and not words:
                    server.wait_for("Server listening on %d" % port)
                support.wait_for_listener(server, port)
                with support.Program(support.OURS + (
                        "-c", "127.0.0.1", "-p", port, "-t", "60", "-b", "10M", "-i", "0.2")
                                     + tuple(more[1])) as program:
                    for text in texts:
                        for each, name in ((program, "client"), (server, "server")):
                            support.wait_until(
                                lambda: text in (read(name) if logged else each.out()), text)
                    self.assertIsNone(program.process.poll())
        support.together(check, [("", ("sec ",)),
                                 ("--json-stream", ('"event":"start"', '"event":"interval"')),
                                 ("--logfile", ("[ ID]", "sec "))])

    # B52: iperf3 #1250, #1225, #1016, #119, #120; riperf3 #81, #105
    def test_daemon_log_file_and_pid_file(self):
        folder = self.folder()

        def read(name):
            with open(os.path.join(folder, name)) as file:
                return file.read()
        port = support.free_port()
        words = ("-s", "-D", "-p", port, "-I", "pid", "--logfile", "log")
        left = field.run(support.OURS, words, cwd=folder)
        self.assertEqual((left.code, left.out, left.err), (0, "", ""), left)
        support.wait_until(lambda: support.listens(port) and read("pid"), "a listening daemon")
        pid = int(read("pid"))
        try:
            links = [os.readlink("/proc/%d/fd/%s" % (pid, name))
                     for name in os.listdir("/proc/%d/fd" % pid)]
            self.assertFalse([link for link in links if link.startswith("pipe:")], links)
            self.honest(port)
            support.wait_until(lambda: "(test #2)" in read("log"), "a first test")
            os.rename(os.path.join(folder, "log"), os.path.join(folder, "log.1"))
            self.honest(port)
            support.wait_until(lambda: os.path.exists(os.path.join(folder, "log"))
                            and "(test #3)" in read("log"), "a new log file")
            again = field.run(support.OURS, words[:4] + ("--logfile", "other"), cwd=folder)
            text = "unable to start listener for connections: Address already in use"
            self.assertEqual((again.code, again.out), (1, ""))
            self.assertIn(text, again.err)
            self.assertIn(text, read("other"))
        finally:
            os.kill(pid, signal.SIGTERM)
        support.wait_until(lambda: not os.path.exists(os.path.join(folder, "pid")), "no pid file")
        self.assertEqual((read("log.1") + read("log")).count("receiver\n"), 2)
        left = field.run(support.OURS, ("-s", "-p", port, "--logfile",
                                        os.path.join(folder, "no", "such")))
        self.assertEqual((left.code, left.out), (1, ""))
        self.assertRegex(left.err, r"\Aiperf3: error - unable to open log file: No such file or"
                                   r" directory\niperf3: exiting\n\Z")
        left = field.run(support.driver("import os; del os.fork"), ("-s", "-D", "-p", port))
        self.assertEqual((left.code, left.out), (1, ""), left)
        self.assertIn("unable to become a daemon", left.err)

    # B53: iperf3 #316, #1225
    def test_bind_errors_loop_or_exit_0(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            items = [(("-B", "127.0.0.1", "-p", taken.getsockname()[1]), "Address already in use"),
                     (("-B", "192.0.2.77", "-p", support.free_port()),
                      "Cannot assign requested address")]
            results = [(field.run(support.OURS, ("-s",) + words, seconds=20.0), text)
                       for words, text in items]
        first = 1024
        if os.path.exists("/proc/sys/net/ipv4/ip_unprivileged_port_start"):
            with open("/proc/sys/net/ipv4/ip_unprivileged_port_start") as file:
                first = int(file.read())
        python = self.python_of_nobody()
        if python and first > 777:
            with open(support.PROGRAM, "rb") as source:
                left = field.run((python, "-B", "-"), ("-s", "-p", "777"), stdin=source,
                                 preexec_fn=field.as_nobody, cwd="/")
            results.append((left, "Permission denied"))
        for left, text in results:
            self.assertEqual((left.code, left.out, support.as_iperf3(left.err)), (
                1, "", "iperf3: error - unable to start listener for connections: %s\n"
                       "iperf3: exiting\n" % text), left)

    # B59: pscheduler; CI scripts
    def test_one_off_means_one_test(self):
        for words, probes in (((), 0), ((), 2), (("-J",), 1)):
            server, port = self.serve("-1", *words)
            for _ in range(probes):
                fakes.connect(port).close()
            self.honest(port)
            self.assertEqual(server.finish(20.0).code, 0)
        server, _ = self.serve("-1", "--idle-timeout", "1")
        left = server.finish(20.0)
        self.assertEqual((left.code, left.err), (0, ""), left)
        folder, port = self.folder(), support.free_port()
        left = field.run(support.OURS, ("-1", "-s", "-D", "-p", port, "-I",
                                        os.path.join(folder, "pid")))
        self.assertEqual((left.code, left.out, left.err), (0, "", ""), left)
        support.wait_until(lambda: support.listens(port), "a listening daemon")
        self.honest(port)
        support.wait_until(lambda: not os.listdir(folder), "its end")


if __name__ == "__main__":
    unittest.main()
