"""Strange Pythons and hosts: flags, standard input, a zip, missing modules, lacking systems.

These run with the interpreter that runs the tests; tests/matrix.py goes through all of them.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import support

SHORT = ("--loopback", "-n", "1M")

# Takes modules and constants away, then runs the file as a program.
WITHOUT = """
import runpy, sys
gone, program = sys.argv[1].split(","), sys.argv[2]
sys.argv[:] = sys.argv[2:]
for name in gone:
    module, _, attribute = name.partition(".")
    if not attribute:
        sys.modules[module] = None
    else:
        try:
            delattr(__import__(module), attribute)
        except AttributeError:
            pass
runpy.run_path(program, run_name="__main__")
"""

LINUX_ONLY = ("socket.TCP_INFO,socket.TCP_CONGESTION,socket.SO_BINDTODEVICE,socket.MSG_TRUNC,"
              "os.memfd_create,os.sched_setscheduler,socket.SO_REUSEPORT,socket.TCP_USER_TIMEOUT")
MACOS = "select.epoll," + LINUX_ONLY  # first: the socket module brings the selectors
FREEBSD = MACOS
WINDOWS = "select.poll," + MACOS + (
    ",fcntl,resource,pwd,os.fork,os.uname,os.sendfile,os.wait4,os.getppid,os.sysconf,"
    "signal.SIGHUP,socket.MSG_WAITALL,mmap.MAP_PRIVATE")


class Flags(unittest.TestCase):
    def check(self, left):
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertIn("1.00 MBytes", left.out)
        self.assertTrue(left.out.endswith("\niperf Done.\n"), left)

    def test_interpreter_flags(self):
        for flags in (("-I", "-S", "-B"), ("-OO",), ("-W", "error", "-X", "dev"), ("-E", "-s"),
                      ("-u",)):
            for mode in (("-P", "2"), ("-R", "--threads"), ("--bidir", "-J")):
                with self.subTest(flags=flags, mode=mode):
                    left = support.run((sys.executable,) + flags + (support.PROGRAM,)
                                       + SHORT + mode)
                    self.assertEqual((left.code, left.err), (0, ""), left)

    def test_from_standard_input(self):
        with open(support.PROGRAM, "rb") as source:
            self.check(support.run((sys.executable, "-") + SHORT, stdin=source))

    def test_server_from_standard_input(self):
        port = support.free_port()
        with open(support.PROGRAM, "rb") as source:
            server = support.Program((sys.executable, "-", "-s", "-1", "-p", port), stdin=source)
        with server:
            support.wait_for_listener(server, port)
            self.check(support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M")))
            self.assertEqual(server.finish(20.0).code, 0)

    def test_from_a_zip(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, "pyperf3.zip")
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(support.PROGRAM, "pyperf3.py")
            archive.writestr("__main__.py", "import pyperf3, sys\nsys.exit(pyperf3.main())\n")
        self.check(support.run((sys.executable, path) + SHORT))

    def test_c_locale_without_utf8(self):
        title = b"t\xc3\xa9st \xff"
        env = support.environment(PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", LC_ALL="C",
                                  PYTHONIOENCODING="ascii")
        command = [os.fsencode(word) for word in support.OURS + SHORT] + [b"-T", title]
        for more in ((), (b"-J",)):
            process = subprocess.Popen(command + list(more), stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, env=env)
            out, err = process.communicate(timeout=support.LIMIT)
            self.assertEqual((process.returncode, err), (0, b""))
            self.assertIn(title, out)

    def test_no_home_no_tmpdir_unreadable_folder_nobody(self):
        env = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TMPDIR": "/nonexistent"}
        self.check(support.run(support.OURS + SHORT, env=env))
        self.check(support.run(support.OURS + SHORT + ("-Z",), env=env)
                   if hasattr(os, "memfd_create") else support.run(support.OURS + SHORT, env=env))

    def test_few_descriptors(self):
        words = " ".join("'%s'" % word for word in support.OURS)
        left = support.run(("bash", "-c", "ulimit -n 64; %s %s -P 4" % (words, " ".join(SHORT))))
        self.assertEqual((left.code, left.err), (0, ""), left)
        left = support.run(("bash", "-c", "ulimit -n 24; %s %s -P 64" % (words, " ".join(SHORT))))
        self.assertEqual(left.code, 1, left)
        self.assertRegex(left.err, r"\Aiperf3: .*Too many open files\n")
        self.assertNotIn("Traceback", left.err)


class Lacking(unittest.TestCase):
    def without(self, gone, *arguments):
        return support.run((sys.executable, "-B", "-c", WITHOUT, gone, support.PROGRAM)
                           + arguments)

    def test_modules_taken_away_one_at_a_time(self):
        for module in ("ctypes", "ssl", "resource", "fcntl", "pwd", "termios", "subprocess",
                       "tempfile", "mmap", "_posixsubprocess", "lzma"):
            for mode in (("-P", "2"), ("-R",), ("--bidir", "-J"), ("-Z",)):
                if mode == ("-Z",) and module == "tempfile" and not hasattr(os, "memfd_create"):
                    continue  # the next test
                with self.subTest(module=module, mode=mode):
                    left = self.without(module, *(SHORT + mode))
                    self.assertEqual((left.code, left.err), (0, ""), left)

    def test_zero_copy_without_a_place_for_its_file_is_one_line(self):
        left = self.without("tempfile,os.memfd_create", *(SHORT + ("-Z",)))
        self.assertEqual((left.code, left.err), (
            1, "iperf3: error - unable to create a new stream: this Python has no module"
               " tempfile\n"), left)

    def test_systems_by_what_they_lack(self):
        # -n with a fixed -l, so that the plain paths are walked to their end
        for system, gone in (("linux", LINUX_ONLY), ("macos", MACOS), ("freebsd", FREEBSD),
                             ("windows", WINDOWS)):
            for mode in ((), ("-R",), ("--bidir", "-J"), ("-P", "3"),
                         ("-b", "80M"), ("-O", "1", "-i", "0.5"), ("--get-server-output",)):
                with self.subTest(system=system, mode=mode):
                    left = self.without(gone, *(SHORT + mode))
                    self.assertEqual((left.code, left.err), (0, ""), left)

    def test_no_retransmit_column_where_the_system_has_no_count(self):
        code = ("import sys; sys.argv[0] = 'x'; import pyperf3; pyperf3._TCP_INFO = None;"
                " sys.exit(pyperf3.main(sys.argv))")
        env = support.environment(PYTHONPATH=support.ROOT)
        for mode in ((), ("-R",)):
            left = support.run((sys.executable, "-B", "-c", code) + SHORT + mode, env=env)
            self.assertEqual((left.code, left.err), (0, ""), left)
            self.assertNotIn("Retr", left.out)
        left = support.run((sys.executable, "-B", "-c", code) + SHORT + ("-J",), env=env)
        self.assertNotIn("retransmits", left.out)

    def test_zero_copy_without_sendfile_is_one_line(self):
        left = self.without("os.sendfile", *(SHORT + ("-Z",)))
        self.assertEqual((left.code, left.err),
                         (1, "iperf3: error - this OS does not support sendfile\n"), left)
        left = self.without("os.sendfile", *(SHORT + ("-R",)))
        self.assertEqual((left.code, left.err), (0, ""), left)

    def test_skip_rx_copy_where_the_system_cannot_is_one_line(self):
        left = self.without("socket.MSG_TRUNC", *(SHORT + ("--skip-rx-copy",)))
        self.assertEqual((left.code, left.err),
                         (1, "iperf3: error - this OS does not support --skip-rx-copy\n"), left)

    def test_python_without_json_or_socket_names_the_package(self):
        for module in ("json", "socket", "selectors"):
            left = self.without(module, "--version")
            self.assertEqual(left.code, 1)
            self.assertRegex(left.err, r"\Apyperf3: this Python has no module %s.*python3.*\n\Z"
                             % module)

    def test_no_ipv6(self):
        code = ("import sys, errno, os, socket\nreal = socket.socket\n"
                "class Socket(real):\n"
                "    def __init__(self, family=-1, *rest, **more):\n"
                "        if family == socket.AF_INET6 and not more:\n"
                "            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))\n"
                "        real.__init__(self, family, *rest, **more)\n"
                "socket.socket = Socket\n"
                "import pyperf3\nsys.argv[0] = 'x'\nsys.exit(pyperf3.main(sys.argv))\n")
        port = support.free_port()
        with support.Program((sys.executable, "-B", "-c", code, "-s", "-1", "-p", port),
                             env=support.environment(PYTHONPATH=support.ROOT)) as server:
            server.wait_for("Server listening on %d" % port)
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
            self.assertEqual(left.code, 0, left)
            self.assertEqual(server.finish(20.0).err, "")


class DeadWorkers(unittest.TestCase):
    def test_a_worker_that_dies_ends_the_test(self):
        from test_signals import children
        for arguments in ((), ("-R",), ("-P", "2")):
            with self.subTest(arguments=arguments):
                server, port = support.start_server(support.OURS, "-1")
                client = support.Program(support.OURS + (
                    "-c", "127.0.0.1", "-p", port, "-t", "30", "-i", "0.2") + arguments)
                with server, client:
                    client.wait_for("sec ")
                    os.kill(children(client.pid)[0], 9)
                    left = client.finish(15.0)
                    self.assertEqual(left.code, 1, left)
                    self.assertRegex(left.err, r"\Aiperf3: error - unable to (write to|read from)"
                                               r" stream socket: the stream's worker has died\n\Z")
                    self.assertEqual(server.finish(15.0).code, 0)


class Module(unittest.TestCase):
    def test_two_clients_and_a_server_in_threads_of_one_process(self):
        code = """
import json, os, sys, threading
import pyperf3
before = threading.active_count(), len(os.listdir("/proc/self/fd"))
failures = []
def one():
    try:
        server = pyperf3.Server(pyperf3.Settings(server=True, one_off=True, bind="127.0.0.1",
                                                 port=PORT))
        port = PORT
        thread = threading.Thread(target=server.run)
        events = iter(server)
        thread = threading.Thread(target=lambda: [None for _ in events])
        next(events)
        thread.start()
        document = pyperf3.Client(pyperf3.Settings(client="127.0.0.1", port=port,
                                                   bytes="1M")).run()
        thread.join(20)
        assert document["end"]["sum_received"]["bytes"] == 1048576, document["end"]
    except BaseException as error:
        failures.append(repr(error))
        raise
PORT = int(sys.argv[1])
for _ in range(8):
    one()
ports = [int(port) for port in sys.argv[2:4]]
servers = [pyperf3.Server(pyperf3.Settings(server=True, bind="127.0.0.1", port=port))
           for port in ports]
streams = [iter(server) for server in servers]
for stream in streams:
    next(stream)
threads = [threading.Thread(target=lambda s=s: [None for _ in s]) for s in streams]
def client(port):
    try:
        for _ in range(5):
            got = pyperf3.Client(pyperf3.Settings(client="127.0.0.1", port=port, bytes="1M",
                                                  reverse=True)).run()
            assert got["end"]["sum_received"]["bytes"] == 1048576
    except BaseException as error:
        failures.append(repr(error))
threads += [threading.Thread(target=client, args=(port,)) for port in ports]
for thread in threads:
    thread.start()
for thread in threads[2:]:
    thread.join(30)
for server in servers:
    server.stop()
for thread in threads:
    thread.join(10)
try:
    pyperf3.Client(pyperf3.Settings(client="127.0.0.1", port=ports[0])).run()
    failures.append("no error")
except pyperf3.IperfError as error:
    if error.number != 103 or error.document["end"] != {}:
        failures.append(repr(error))
after = threading.active_count(), len(os.listdir("/proc/self/fd"))
sys.exit(0 if before == after and not failures else "%r %r %r" % (before, after, failures))
"""
        ports = [support.free_port() for _ in range(3)]
        left = support.run((sys.executable, "-B", "-W", "error", "-c", code) + tuple(ports),
                           env=support.environment(PYTHONPATH=support.ROOT))
        self.assertEqual((left.code, left.out, left.err), (0, "", ""), left)

    def test_import_does_nothing_and_says_what_there_is(self):
        code = ("import signal, threading, pyperf3; print(sorted(pyperf3.__all__),"
                " threading.active_count(), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)")
        left = support.run((sys.executable, "-B", "-c", code),
                           env=support.environment(PYTHONPATH=support.ROOT))
        self.assertEqual(left.out, "['Client', 'IperfError', 'Server', 'Settings', 'main'] 1"
                                   " True\n")

    def test_events_come_one_by_one(self):
        server, port = support.start_server(support.OURS, "-1")
        code = ("import pyperf3, json\n"
                "for event in pyperf3.Client(pyperf3.Settings(client='127.0.0.1', port=%d,"
                " time=1, interval=0.5)):\n    print(event['event'])\n" % port)
        with server:
            left = support.run((sys.executable, "-B", "-c", code),
                               env=support.environment(PYTHONPATH=support.ROOT))
        self.assertEqual(left.lines(), ["version", "connecting", "connected", "start",
                                        "interval", "interval", "end", "done"])


if __name__ == "__main__":
    sys.exit(unittest.main())
