"""Strange Pythons and hosts: flags, standard input, a zip, missing modules, lacking systems.

These run with the interpreter that runs the tests; tests/matrix.py goes through all of them.
"""

import ast
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
import zipfile

import field
import matrix
import support

SHORT = ("--loopback", "-n", "1M")
DATAGRAMS = ("--loopback", "-u", "-b", "10M", "-l", "1000", "-n", "50000", "-J")

# A whole other system: what it lacks goes, and what Python's own modules do there is stood in for.
SYSTEM = """
import sys
system, gone, program = sys.argv[1], sys.argv[2].split(","), sys.argv[3]
sys.argv[:] = sys.argv[3:]
import os, select
for name in ("epoll", "poll"):
    if "select." + name in gone and hasattr(select, name):
        delattr(select, name)  # first: the socket module brings the selectors
import ctypes, errno, getpass, importlib.util, json, mmap, platform, runpy, selectors, shlex
import shutil, signal, socket, subprocess, tempfile, threading, time, warnings
def lack(self):
    raise AttributeError("this system has it not")
def pair(*ignored):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        return socket.create_connection(listener.getsockname()), listener.accept()[0]
for word in gone:
    path = word.split(".")
    if len(path) == 1:
        sys.modules[word] = None
    elif len(path) == 3:
        setattr(socket.socket, path[2], property(lack))
    elif hasattr(sys.modules[path[0]], path[1]):
        delattr(sys.modules[path[0]], path[1])
sys.platform = system
if system == "darwin":
    socket.TCP_KEEPALIVE = 4  # this kernel's number
if system == "win32":
    socket.socketpair = pair
    shutil.which = lambda name: None
    platform.uname = lack  # it may hang
    sys.getwindowsversion = lambda: (10, 0, 22631, 2, "")
    socket.errorTab = {errno.ECONNREFUSED: "Refused as there."}
    def refuse(*ignored):
        raise OSError(errno.EINVAL, "Invalid function")
    os.set_blocking = refuse  # pipes only, and since Python 3.12
    def as_there(name):
        method = getattr(socket.socket, name)
        def call(sock, *arguments):
            try:
                return method(sock, *arguments)
            except BlockingIOError:
                if sock.gettimeout() is None:  # a time limit of the system's
                    raise TimeoutError(errno.ETIMEDOUT, "timed out as there")
                raise
        return call
    socket.socket = type("socket", (socket.socket,), {
        name: as_there(name) for name in ("send", "recv", "recv_into")})
    really_unlink, really_sleep = os.unlink, time.sleep
    def unlink(path):
        if any(os.path.realpath("/proc/self/fd/" + name) == os.path.realpath(path)
               for name in os.listdir("/proc/self/fd")):
            raise PermissionError(errno.EACCES, "somebody has it open")
        really_unlink(path)
    if os.path.exists("/proc/self/fd"):
        os.unlink = unlink
    time.sleep = lambda seconds: really_sleep(-(-seconds // 0.0156) * 0.0156)
runpy.run_path(program, run_name="__main__")
"""


def words(module, names):
    return ",".join("%s.%s" % (module, name) for name in names.split())


NOT_POSIX = ",".join((
    words("os", "memfd_create sched_setscheduler sched_getaffinity sched_setaffinity sched_param"
          " SCHED_BATCH"),
    words("socket", "TCP_INFO TCP_CONGESTION SO_BINDTODEVICE TCP_USER_TIMEOUT IPPROTO_MPTCP"
          " SO_DOMAIN SO_PROTOCOL EAI_ADDRFAMILY")))
SYSTEMS = {
    "darwin": "select.epoll,%s,socket.TCP_KEEPIDLE,socket.IPPROTO_SCTP" % NOT_POSIX,
    "freebsd14": "select.epoll," + NOT_POSIX,
    # IPPROTO_IPV6 is there since Python 3.8
    "win32": ",".join((
        "select.epoll,select.poll", NOT_POSIX, "fcntl,resource,pwd,termios",
        words("os", "fork uname sendfile wait4 getppid sysconf setsid getuid geteuid WNOHANG"
              " O_NONBLOCK O_CLOEXEC pread nice mkfifo"),
        words("socket", "MSG_WAITALL MSG_DONTWAIT MSG_TRUNC MSG_NOSIGNAL AF_UNIX SO_REUSEPORT"
              " TCP_MAXSEG IPV6_TCLASS TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT IPPROTO_SCTP"
              " IPPROTO_IPV6 CMSG_SPACE socket.sendmsg socket.recvmsg socket.recvmsg_into"),
        words("signal", "SIGHUP SIGKILL SIGPIPE SIGALRM SIGUSR1 SIGCHLD SIGQUIT setitimer"
              " pthread_sigmask"),
        words("mmap", "MAP_PRIVATE MAP_ANONYMOUS MAP_SHARED PROT_READ"), "time.tzset")),
}

# Modes of --loopback, and of other systems the errors that they may end with instead.
EVERYWHERE = (
    "-n 1M", "-n 1M -R", "-n 1M --bidir -J", "-n 1M -P 3 -N", "-n 1M --threads", "-k 10",
    "-n 1M -S 16 --cntl-ka=0/2/3 -T title -V", "-n 1M --dscp af11 -6", "-t 1 -O 1 -i 0.5 -b 80M",
    "-t 1 -R -P 2 -b 80M --json-stream", "-F @in", "-F @out -R -n 1M", "-n 1M --get-server-output",
    "-n 1M -b 80M --timestamps", "-n 1M -I @pid --logfile @log", "-n 1M -B 127.0.0.1 -4",
    "-n 1M --rcv-timeout 9000 -R --connect-timeout 9000", "-n 1M --no-fq-socket-pacing",
    "-u -n 50000 -b 10M", "-u -n 50000 -b 10M -R --udp-counters-64bit -J",
    "-u -n 50000 -b 10M --bidir -P 2 --no-sendmmsg", "-u -n 50000 -b 10M -w 64K -S 8",
    "--connect-only")
LACKED = (
    ("-n 1M -Z", "this OS does not support sendfile"),
    ("-n 1M -C reno", "unable to set TCP_CONGESTION: .*"),
    ("-n 1M -M 1000", "unable to set TCP/SCTP MSS: .*"),
    ("-n 1M -L 5 -6", "unable to set IPv6 flow label"),
    ("-n 1M --bind-dev lo", "`<ip>%<dev>` is not supported .*"),
    ("-n 1M -A 0", "unable to set CPU affinity: .*"),
    ("-n 1M --sctp", "(no SCTP support available|unable to .*[Pp]rotocol .*)"),
    ("-n 1M --skip-rx-copy", "this OS does not support --skip-rx-copy"),
    ("-u -n 50000 -b 10M --dont-fragment", "unable to set IP Do-Not-Fragment flag"),
    ("-n 1M --snd-timeout 9000", "unable to set TCP USER_TIMEOUT: .*"),
    ("-n 1M --cntl-ka=20/2/3", "unable to set socket keepalive TCP period .*"),
    ("-n 1M --fq-rate 80M", None), ("-n 1M -m", None), ("-u -n 50000 -b 10M --gsro", None))
WARNING = (r"warning: (Unable to set socket pacing|MPTCP is not"
           r" supported on this host, using TCP|--gsro requested but UDP GSO/GRO not [^\n]*)\n")

LINUX_ONLY = ("socket.TCP_INFO,socket.TCP_CONGESTION,socket.SO_BINDTODEVICE,socket.MSG_TRUNC,"
              "os.memfd_create,os.sched_setscheduler,socket.SO_REUSEPORT,socket.TCP_USER_TIMEOUT")
MACOS = "select.epoll," + LINUX_ONLY  # first: the socket module brings the selectors
WINDOWS = "select.poll," + MACOS + (
    ",fcntl,resource,pwd,os.fork,os.sendfile,os.wait4,os.getppid,os.sysconf,"
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

    MODES = (SHORT, SHORT + ("-Z", "-P", "2"), SHORT + ("--bidir", "-J"), DATAGRAMS,
             DATAGRAMS + ("-R", "-P", "2"))

    def check_modes(self, command, **more):
        """Run every one of MODES with a command; more: of support.run()."""
        def run(*mode):
            if more.get("stdin"):
                with open(support.PROGRAM, "rb") as source:
                    return support.run(tuple(command) + mode, **dict(more, stdin=source))
            return support.run(tuple(command) + mode, **more)
        for mode, left in support.together(run, self.MODES):
            with self.subTest(mode=mode):
                self.assertEqual((left.code, left.err), (0, ""), left)
                if "-J" in mode:
                    self.assertNotIn("error", left.json())
                else:  # of two streams each may send a block more
                    self.assertTrue(left.out.endswith("\niperf Done.\n"), left)

    def test_no_warning_of_any_python(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        with open(os.path.join(folder, "in"), "wb") as handle:
            handle.write(b"x" * 100000)
        flags = (sys.executable, "-B", "-W", "error", "-X", "dev")

        def run(mode):
            arguments = mode.replace("@", folder + os.sep + mode.replace(" ", "_")[:20])
            arguments = arguments.replace(mode.replace(" ", "_")[:20] + "in", "in").split()
            return support.run(flags + (support.OURS[-1], "--loopback") + tuple(arguments))
        left = support.run(flags + (support.PROGRAM, "--version"))  # what its compiler warns of
        self.assertEqual((left.code, left.err), (0, ""), left)
        modes = EVERYWHERE + tuple(mode for mode, _ in LACKED[:2]) + ("-n 1M --skip-rx-copy",)
        for (mode,), left in support.together(run, [(mode,) for mode in modes]):
            with self.subTest(mode=mode):
                self.assertEqual((left.code, left.err), (0, ""), left)
        # errors, and a daemon
        busy = support.free_port()
        for words, error in (
                ("-c 127.0.0.1 -p %d" % busy, "unable to connect to server"),
                ("-c 127.0.0.1 -p %d -u" % busy, "unable to connect to server"),
                ("-s -B 192.0.2.1", "unable to start listener"),
                ("-s --logfile /nonexistent/log", "unable to open log file"),
                ("-s -I /nonexistent/pid", "unable to write PID file"),
                ("--loopback -F /nonexistent/file", "unable to open -F file")):
            with self.subTest(words=words):
                left = support.run(flags + (support.OURS[-1],) + tuple(words.split()))
                self.assertEqual(left.code, 1, left)
                self.assertRegex(left.err, r"\Aiperf3: error - %s[^\n]*\n(iperf3: exiting\n)?\Z"
                                 % error)
        if hasattr(os, "fork"):
            port = support.free_port()
            log = os.path.join(folder, "daemon.log")
            left = support.run(flags + (support.PROGRAM, "-s", "-1", "-D", "-p", port,
                                        "--idle-timeout", "30", "--logfile", log))
            self.assertEqual((left.code, left.out, left.err), (0, "", ""), left)
            deadline = time.monotonic() + 20.0
            while not support.listens(port) and time.monotonic() < deadline:
                time.sleep(0.01)
            left = support.run(flags + (support.PROGRAM, "-c", "127.0.0.1", "-p", port,
                                        "-n", "1M"))
            self.assertEqual((left.code, left.err), (0, ""), left)

    def test_from_standard_input(self):
        self.check_modes((sys.executable, "-"), stdin=True)

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
        self.check_modes((sys.executable, path))

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
        self.assertRegex(left.err, r"\Aiperf3: .*Too many open files( \(.*\))?\n")
        self.assertNotIn("Traceback", left.err)


    def test_closed_standard_streams(self):
        def run(closed, more):
            shut = ' '.join({0: "<&-", 1: ">&-", 2: "2>&-"}[number] for number in closed)
            command = ("sh", "-c", 'exec "$@" ' + shut, "sh") + support.OURS
            port = support.free_port()
            with support.Program(command + ("-s", "-1", "-p", port) + more[:1]) as server:
                support.wait_for_listener(server, port)
                client = support.run(command + ("-c", "127.0.0.1", "-p", port, "-n", "100K")
                                     + more)
                return client, server.finish(20.0)
        cases = [(closed, more) for closed in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
                 for more in (("-J", "--bidir"), ("-V", "-u", "-P", "2", "-b", "10M"))]
        for (closed, more), ends in support.together(run, cases):
            for left in ends:
                with self.subTest(closed=closed, more=more):
                    self.assertEqual((left.code, left.err), (0, ""), left)
                    if 1 in closed:
                        self.assertEqual(left.out, "")
                    elif "-J" in more:
                        self.assertNotIn("error", left.json())
                    else:
                        self.assertIn("sec", left.out)

    def test_nobody_in_a_folder_that_is_not_his(self):
        def drop():
            os.setgid(65534)
            os.setuid(65534)
        if not hasattr(os, "geteuid") or os.geteuid() != 0:
            self.skipTest("only root can become nobody")
        env = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TMPDIR": "/nonexistent"}
        for python in (sys.executable, "/usr/bin/python3"):
            try:
                subprocess.check_call([python, "-c", "import socket"], preexec_fn=drop, cwd="/",
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                break
            except (OSError, subprocess.SubprocessError):
                pass
        else:
            self.skipTest("no Python here that nobody may use")
        self.check_modes((python, "-"), stdin=True, preexec_fn=drop, cwd="/", env=env)

    def test_read_only_file_system(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        wrap = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && cp "$1" "$0/p.py" &&'
                ' mount -o remount,ro "$0" && cd "$0" && shift && exec "$@"', folder,
                support.PROGRAM)
        try:
            usable = support.run(wrap + ("true",)).code == 0
        except OSError:
            usable = False
        if not usable:
            self.skipTest("no read-only file system can be made here")
        env = support.environment(TMPDIR=folder, HOME=folder)
        self.check_modes(wrap + (sys.executable, "p.py"), env=env)
        for words, error in (("-I pid", "unable to write PID file"),
                             ("--logfile log", "unable to open log file"),
                             ("-R -F out", "unable to open -F file")):
            left = support.run(wrap + (sys.executable, "p.py") + SHORT + tuple(words.split()),
                               env=env)
            self.assertEqual((left.code, left.err), (
                1, "iperf3: error - %s: Read-only file system\n" % error), left)

    def test_a_client_with_too_few_descriptors_says_so(self):
        ours = ("bash", "-c", 'ulimit -n 64; exec "$@"', "bash") + support.OURS
        for mode, left in support.together(
                lambda *mode: support.run(ours + SHORT[:1] + mode),
                [("-n", "1M", "-P", "128"), ("-n", "1M", "-P", "128", "--threads", "-R"),
                 ("-u", "-n", "100K", "-P", "128"), ("-n", "1M", "-P", "128", "-J")]):
            with self.subTest(mode=mode):
                text = "unable to connect stream: Too many open files"
                self.assertEqual(left.code, 1, left)
                if "-J" in mode:
                    self.assertEqual((left.json()["error"], left.err), (text, ""))
                else:
                    self.assertEqual(support.as_iperf3(left.err), "iperf3: error - %s\n" % text)

    def test_a_server_with_too_few_descriptors_says_so_and_lives_on(self):
        port = support.free_port()
        with support.Program(("bash", "-c", 'ulimit -n 64; exec "$@"', "bash") + support.OURS
                             + ("-s", "-p", port)) as server:
            support.wait_for_listener(server, port)
            to_it = support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "100K")
            for mode in (("-P", "128"), ("-u", "-b", "1M", "-P", "128")):
                with self.subTest(mode=mode):
                    left = support.run(to_it + mode)
                    self.assertEqual(left.code, 1, left)
                    self.assertIn("Too many open files", left.err)
                    left = support.run(to_it)
                    self.assertEqual((left.code, left.err), (0, ""), left)


class Lacking(unittest.TestCase):
    def without(self, gone, *arguments):
        return support.run(support.without(gone) + arguments)

    def test_modules_taken_away_one_at_a_time(self):
        cases = [(module,) + mode for module in (
            "ctypes", "ssl", "resource", "fcntl", "pwd", "termios", "subprocess", "tempfile",
            "mmap", "_posixsubprocess", "lzma") for mode in (
                SHORT + ("-P", "2"), SHORT + ("-R",), SHORT + ("--bidir", "-J"), SHORT + ("-Z",),
                DATAGRAMS, DATAGRAMS + ("-R", "--threads"))
            if not (mode[-1] == "-Z" and module == "tempfile"
                    and not hasattr(os, "memfd_create"))]  # the next test
        for case, left in support.together(self.without, cases):
            with self.subTest(case=case):
                self.assertEqual((left.code, left.err), (0, ""), left)

    def test_authentication_without_rsa_is_one_line_of_its_own(self):
        for arguments in (
                ("-c", "127.0.0.1", "--username", "u", "--rsa-public-key-path", "/dev/null"),
                ("-s", "--rsa-private-key-path", "/dev/null", "--authorized-users-path",
                 "/dev/null")):
            for gone in ("cryptography,subprocess", "cryptography,_posixsubprocess"):
                with self.subTest(arguments=arguments, gone=gone):
                    left = self.without(gone, *arguments)
                    self.assertEqual(left.code, 1, left)
                    self.assertRegex(left.err, r"\Aiperf3: RSA needs the Python package"
                                     r" cryptography, or the command openssl; neither is here\n\n"
                                     r"iperf3: parameter error - [^\n]*\n\nUsage: ")
                    self.assertNotIn("Traceback", left.err)

    def test_zero_copy_without_a_place_for_its_file_is_one_line(self):
        left = self.without("tempfile,os.memfd_create", *(SHORT + ("-Z",)))
        self.assertEqual((left.code, left.err), (
            1, "iperf3: error - unable to create a new stream: this Python has no module"
               " tempfile\n"), left)

    def test_no_certificate_can_be_made(self):
        """An anonymous suite where OpenSSL has one; also in Python 3.6, which has few names."""
        try:
            import ssl
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers("AECDH:@SECLEVEL=0")
        except (ImportError, OSError):
            self.skipTest("this OpenSSL has no such suite")
        left = self.without("cryptography,subprocess", "--loopback", "--tls", "-n", "1M", "-J")
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertTrue(left.json()["end"]["pyperf3"]["tls"]["cipher"].startswith("AECDH-"))

    def test_thread_that_cannot_be_started_ended_the_server(self):
        """A limit on processes: TLS, names and passwords are done with in threads."""
        limited = support.driver(
            "import threading\n"
            "def refuse(thread):\n    raise RuntimeError(\"can't start new thread\")\n"
            "threading.Thread.start = refuse")
        server, port = support.start_server(limited)
        with server:
            for program, more in ((support.OURS, ("--tls",)), (limited, ("--tls",)),
                                  (support.OURS, ())):
                left = support.run(program + ("-c", "localhost", "-p", port, "-n", "1M") + more)
                self.assertEqual((left.code, left.err), (0, ""), left)

    def test_systems_by_what_they_lack(self):
        # -n with a fixed -l, so that the plain paths are walked to their end
        for system, gone in (("linux", LINUX_ONLY), ("macos", MACOS), ("windows", WINDOWS)):
            for mode, left in support.together(
                    lambda *mode: self.without(gone, *(SHORT + mode)),
                    ((), ("-R",), ("--bidir", "-J"), ("-P", "3"), ("-b", "80M"),
                     ("--get-server-output",))):
                with self.subTest(system=system, mode=mode):
                    self.assertEqual((left.code, left.err), (0, ""), left)

    def test_other_systems_work_or_say_what_they_lack(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        with open(os.path.join(folder, "in"), "wb") as handle:
            handle.write(b"x" * 100000)

        def run(system, mode, _):
            own = os.path.join(folder, system + str(hash(mode)))
            mode = mode.replace("@in", os.path.join(folder, "in")).replace("@", own)
            return support.run((sys.executable, "-S", "-B", "-c", SYSTEM, system, SYSTEMS[system],
                                support.OURS[-1], "--loopback") + tuple(mode.split()))
        cases = [(system, mode, error) for system in SYSTEMS
                 for mode, error in [(mode, None) for mode in EVERYWHERE] + list(LACKED)
                 if system != "freebsd14" or error]  # it is like darwin
        for (system, mode, error), left in support.together(run, cases):
            with self.subTest(system=system, mode=mode):
                self.assertNotRegex(left.out + left.err, "Traceback|AttributeError")
                text = re.sub(WARNING, "", left.err)
                if left.code or error is None:
                    self.assertEqual(left.code, 0 if error is None else 1, left)
                    self.assertRegex(text, r"\A(iperf3: SERVER ERROR - [^\n]*\n)?iperf3: error -"
                                     r" %s\n\Z" % error if error else r"\A\Z")

    def on_windows(self, *arguments):
        return support.run((sys.executable, "-S", "-B", "-c", SYSTEM, "win32", SYSTEMS["win32"],
                            support.OURS[-1]) + arguments)

    def test_streams_that_wait_on_windows(self):
        """SO_RCVTIMEO ends in another error there, which ended the stream, with status 0."""
        for mode, left in support.together(self.on_windows, [
                ("--loopback", "-J", "-b", "40K", "-l", "1000", "-t", "1") + more
                for more in ((), ("-R",), ("--bidir",), ("-u",), ("-u", "-R"))]):
            with self.subTest(mode=mode):
                self.assertEqual((left.code, left.err), (0, ""), left)
                end = left.json()["end"]
                for row in (end["sum_sent"], end["sum_received"]):
                    self.assertGreaterEqual(row["bytes"], 3000)

    def test_a_sender_waits_for_a_stopped_receiver_on_windows(self):
        server, port = support.start_server(support.OURS, "-1", "--threads")
        with server, support.Program((sys.executable, "-S", "-B", "-c", SYSTEM, "win32",
                                      SYSTEMS["win32"], support.OURS[-1], "-c", "127.0.0.1", "-p",
                                      port, "-t", "2", "-i", "0.5", "-w", "64K",
                                      "--json-stream")) as client:
            client.wait_for('"event":"interval"')
            server.signal(signal.SIGSTOP)
            time.sleep(0.4)
            server.signal(signal.SIGCONT)
            left = client.finish()
            self.assertEqual((left.code, server.finish().code), (0, 0), left)
            intervals = [json.loads(line)["data"]["sum"] for line in left.lines()
                         if '"event":"interval"' in line]
            self.assertGreater(intervals[-1]["bytes"], 0)

    def test_amount_was_short_where_the_kernel_tells_not_what_waits(self):
        """A reader that had no CPU for 0.1 s was taken for one that had everything."""
        slow = support.driver(
            "import socket, sys, time\nsys.modules['fcntl'] = None\n"
            "class Slow(socket.socket):\n"
            "    calls = 0\n"
            "    def recv_into(self, *details):\n"
            "        Slow.calls += 1\n"
            "        if Slow.calls == 3:\n"
            "            time.sleep(0.5)\n"
            "        return super().recv_into(*details)\n"
            "socket.socket = Slow")
        left = support.run(slow + ("--loopback", "--threads", "-n", "1M", "-J"))
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertEqual(left.json()["end"]["sum_received"]["bytes"], 1048576)

    def test_datagrams_on_windows_reach_their_rate_with_its_long_sleeps(self):
        left = self.on_windows("--loopback", "-J", "-u", "-b", "10M", "-l", "1400", "-t", "1")
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertGreater(left.json()["end"]["sum_sent"]["bits_per_second"], 4e6)

    def test_texts_of_errors_on_windows(self):
        left = self.on_windows("-c", "127.0.0.1", "-p", support.free_port())
        self.assertEqual(left.code, 1)
        self.assertRegex(left.err, r"\Aiperf3: error - [^\n]*: Refused as there\b")

    def test_pidfile_goes_on_windows(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        left = self.on_windows("--loopback", "-n", "1M", "-I", os.path.join(folder, "pid"))
        self.assertEqual((left.code, left.err, os.listdir(folder)), (0, "", []), left)

    def test_windows_is_named_without_asking(self):
        self.assertRegex(self.on_windows("-v").out, r"\nWindows \S+ 10\.0 10\.0\.22631 \S+\n")

    def test_other_systems_say_what_they_are(self):
        for system in SYSTEMS:
            for words, code in (("--version", 0), ("--help", 0), (
                    "-s -D -1 --idle-timeout 1 -B 127.0.0.1 -p %d" % support.free_port(),
                    1 if system == "win32" else 0),
                                ("-s -1 -B 192.0.2.1", 1), ("-c 127.0.0.1 -p 9 -A 0,0", 1)):
                with self.subTest(system=system, words=words):
                    left = support.run((sys.executable, "-S", "-B", "-c", SYSTEM, system,
                                        SYSTEMS[system], support.OURS[-1]) + tuple(words.split()))
                    self.assertEqual(left.code, code, left)
                    self.assertNotRegex(left.out + left.err, "Traceback|AttributeError")

    def check_datagrams(self, left):
        self.assertEqual(left.code, 0, left)
        self.assertRegex(left.err, r"\A(warning: --gsro requested but UDP (GSO|GRO)[^\n]*\n)*\Z")
        end = left.json()["end"]
        sent, received = end["sum_sent"], end["sum_received"]
        self.assertGreaterEqual(sent["packets"], 50 if "sum_bidir_reverse" not in end else 1)
        self.assertEqual(end["sum"]["lost_packets"], 0)
        for row in (sent, received):
            self.assertEqual(row["bytes"], row["packets"] * 1000)
        self.assertLess(received["jitter_ms"], 1000.0)
        return end

    MODES = ((), ("-R",), ("--bidir", "-P", "2"), ("--gsro",), ("--gsro", "-R"),
             ("--udp-counters-64bit",))

    def test_datagrams_on_systems_by_what_they_lack(self):
        for gone in ("ctypes", "socket.MSG_DONTWAIT", "socket.MSG_DONTWAIT,ctypes",
                     MACOS, WINDOWS + ",ctypes,socket.MSG_DONTWAIT"):
            for mode, left in support.together(
                    lambda *mode: self.without(gone, *(DATAGRAMS + mode)), self.MODES):
                with self.subTest(gone=gone, mode=mode):
                    self.check_datagrams(left)

    def test_datagrams_where_the_kernel_refuses(self):
        patches = {
            "segmentation": "pyperf3.set_segmentation = lambda *details: False",
            "coalescing": "pyperf3.set_coalescing = lambda *details: False",
            "both": "pyperf3.set_segmentation = pyperf3.set_coalescing = lambda *details: False",
            "options": "pyperf3._try_option = lambda *details: False",  # and the times, too
            "drops": "pyperf3.dropped_datagrams = lambda sock: None",
            "linux": "pyperf3._LINUX = pyperf3._USUAL = False",
        }
        for name, patch in patches.items():
            code = ("import sys; sys.argv[0] = 'x'; import pyperf3; %s;"
                    " sys.exit(pyperf3.main(sys.argv))" % patch)
            for mode, left in support.together(
                    lambda *mode: support.run(
                        (sys.executable, "-S", "-B", "-c", code) + DATAGRAMS + mode,
                        env=support.environment(PYTHONPATH=support.LIBRARY)), self.MODES):
                with self.subTest(name=name, mode=mode):
                    end = self.check_datagrams(left)
                    if name in ("drops", "linux"):
                        self.assertNotIn("host_dropped_packets", end.get("pyperf3", {}))

    def test_sendmmsg_is_accepted_where_the_system_has_none(self):
        left = self.without("ctypes", *(DATAGRAMS[:-1] + ("--sendmmsg",)))
        self.assertEqual((left.code, left.err), (0, ""), left)

    def test_no_retransmit_column_where_the_system_has_no_count(self):
        code = ("import sys; sys.argv[0] = 'x'; import pyperf3; pyperf3._SOCKET_TCP_INFO = None;"
                " sys.exit(pyperf3.main(sys.argv))")
        env = support.environment(PYTHONPATH=support.LIBRARY)
        for mode in ((), ("-R",)):
            left = support.run((sys.executable, "-S", "-B", "-c", code) + SHORT + mode, env=env)
            self.assertEqual((left.code, left.err), (0, ""), left)
            self.assertNotIn("Retr", left.out)
        left = support.run((sys.executable, "-S", "-B", "-c", code) + SHORT + ("-J",), env=env)
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

    def test_python_without_base64_or_socket_names_the_package(self):
        for module in ("base64", "socket", "selectors"):
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
        with support.Program((sys.executable, "-S", "-B", "-c", code, "-s", "-1", "-p", port),
                             env=support.environment(PYTHONPATH=support.LIBRARY)) as server:
            server.wait_for("Server listening on %d" % port)
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
            self.assertEqual(left.code, 0, left)
            self.assertEqual(server.finish(20.0).err, "")


    def test_a_python_built_without_ipv6(self):
        gone = "socket.AF_INET6,socket.IPPROTO_IPV6,socket.IPV6_V6ONLY,socket.IPV6_TCLASS"
        code = support.WITHOUT.replace("runpy.run_path", "import socket\nsocket.has_ipv6 = False\n"
                                       "runpy.run_path")

        def run(*arguments):
            return support.run((sys.executable, "-S", "-B", "-c", code, gone, support.OURS[-1])
                               + arguments)
        for mode, left in support.together(run, (
                SHORT, SHORT + ("--bidir", "-S", "8"), DATAGRAMS, DATAGRAMS + ("-R",),
                SHORT + ("-4", "-P", "2"))):
            with self.subTest(mode=mode):
                self.assertEqual((left.code, left.err), (0, ""), left)
        for words in ("--loopback -n 1M -6", "--loopback -n 1M -L 5", "-c localhost -6", "-s -6",
                      "--loopback -n 1M -6 -u"):
            with self.subTest(words=words):
                left = run(*words.split())
                self.assertEqual(left.code, 1, left)
                self.assertRegex(left.err, r"\Aiperf3: error - [^\n]*\n(iperf3: exiting\n)?\Z")
                self.assertNotIn("AttributeError", left.err)

    def test_ipv6_switched_off_in_the_kernel(self):
        wrap = ("unshare", "-n", "sh", "-c", "ip link set lo up && echo 1 >"
                '/proc/sys/net/ipv6/conf/all/disable_ipv6 && exec "$@"', "sh")
        try:
            usable = support.run(wrap + ("true",)).code == 0
        except OSError:
            usable = False
        if not usable:
            self.skipTest("no network namespace without IPv6 can be made here")
        both = wrap + ("sh", "-c", '"$@" -s -1 --idle-timeout 30 & for i in 1 2 3 4 5 6 7 8 9; do'
                       ' "$@" -c localhost -n 1M && break; sleep 0.2; done; wait $!', "sh")
        for command, left in support.together(lambda *command: support.run(command), (
                wrap + support.OURS + SHORT, wrap + support.OURS + DATAGRAMS,
                wrap + support.OURS + SHORT + ("--bidir", "-P", "2"), both + support.OURS)):
            with self.subTest(command=command):
                self.assertEqual(left.code, 0, left)
                self.assertNotIn("Traceback", left.err)
        left = support.run(wrap + support.OURS + SHORT + ("-6",))
        self.assertEqual(left.code, 1)
        self.assertRegex(left.err, r"\Aiperf3: error - [^\n]*\n\Z")


class DeadWorkers(unittest.TestCase):
    def test_a_worker_that_dies_ends_the_test(self):
        for arguments in ((), ("-R",), ("-P", "2")):
            with self.subTest(arguments=arguments):
                server, port = support.start_server(support.OURS, "-1")
                client = support.Program(support.OURS + (
                    "-c", "127.0.0.1", "-p", port, "-t", "30", "-i", "0.2") + arguments)
                with server, client:
                    client.wait_for("sec ")
                    os.kill(support.children(client.pid)[0], 9)
                    left = client.finish(15.0)
                    self.assertEqual(left.code, 1, left)
                    self.assertRegex(left.err, r"\Aiperf3: error - unable to (write to|read from)"
                                               r" stream socket: the stream's worker was killed"
                                               r" by signal 9: perhaps the memory ran out\n\Z")
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
                           env=support.environment(PYTHONPATH=support.LIBRARY))
        self.assertEqual((left.code, left.out, left.err), (0, "", ""), left)

    def check_replaced(self, patch, package, python=sys.executable):
        """Check that all ways to run say in one line which package's patch does not go."""
        text = "unable to run in this program: %s has replaced" % package
        for first, second in ((patch, ""), ("", patch)):
            code = """
%s
import pyperf3
%s
for make in (lambda: pyperf3.Client(pyperf3.Settings(client="127.0.0.1")),
             lambda: pyperf3.Server(pyperf3.Settings(server=True))):
    try:
        make().run()
    except pyperf3.IperfError as error:
        print(error)
client = pyperf3.Client()
client.server_hostname = "127.0.0.1"
print(client.run().error)
pyperf3.main(["pyperf3", "-c", "127.0.0.1"])
""" % (first, second)
            left = support.run((python, "-B", "-W", "ignore", "-c", code),
                               env=support.environment(PYTHONPATH=support.ROOT))
            with self.subTest(patch=patch, late=not first):
                self.assertEqual(left.code, 0, left)
                self.assertRegex(left.out, r"\A(%s [^\n]*\n){3}\Z" % re.escape(text))
                self.assertRegex(left.err, r"(\A|\n)iperf3: error - %s [^\n]*\n\Z"
                                 % re.escape(text))

    def test_sockets_or_threads_that_a_package_has_replaced(self):
        """Nothing was sent and nothing said, or it hung."""
        for patch, package in (
                ("import socket\nclass Own(socket.socket):\n    __module__ = 'gevent._socket3'\n"
                 "socket.socket = Own", "gevent"),
                ("import socket\nclass Own:\n    __module__ = 'other.green'\n"
                 "socket.socket = Own", "other.green"),
                ("import time\ndef sleep(seconds): pass\n"
                 "sleep.__module__ = 'eventlet.greenthread'\ntime.sleep = sleep", "eventlet"),
                ("import _thread\ndef start(*details): pass\n"
                 "start.__module__ = 'gevent.thread'\n_thread.start_new_thread = start",
                 "gevent")):
            self.check_replaced(patch, package)

    def test_real_gevent_and_eventlet(self):
        for package, patch in (("gevent", "from gevent import monkey; monkey.patch_all()"),
                               ("eventlet", "import eventlet; eventlet.monkey_patch()")):
            with self.subTest(package=package):
                if support.run((sys.executable, "-c", "import " + package)).code:
                    self.skipTest("no package %s here" % package)
                self.check_replaced(patch, package)

    def test_import_does_nothing_and_says_what_there_is(self):
        code = ("import signal, threading, pyperf3; print(sorted(pyperf3.__all__),"
                " threading.active_count(), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)")
        left = support.run((sys.executable, "-B", "-c", code),
                           env=support.environment(PYTHONPATH=support.LIBRARY))
        self.assertEqual(left.out, "['Client', 'HostToHost', 'IPerf3', 'IperfError', 'Mesh',"
                                   " 'Server', 'Settings', 'Survey', 'TestResult', 'main'] 1 True"
                                   "\n")

    def test_events_come_one_by_one(self):
        server, port = support.start_server(support.OURS, "-1")
        code = ("import pyperf3, json\n"
                "for event in pyperf3.Client(pyperf3.Settings(client='127.0.0.1', port=%d,"
                " time=1, interval=0.5)):\n    print(event['event'])\n" % port)
        with server:
            left = support.run((sys.executable, "-B", "-c", code),
                               env=support.environment(PYTHONPATH=support.LIBRARY))
        self.assertEqual([line for line in left.lines() if line != "waiting"], [
            "version", "connecting", "connected", "start", "interval", "interval", "end", "done"])


class Reported(field.Case):
    """Public reports about iperf3 and its like, each with the test that would have found it."""

    # B51: alvisisme/android-iperf #1; iperf3 #1201, #987
    def test_no_place_to_write_to(self):
        folder = self.folder()
        program = os.path.join(folder, "pyperf3.py")
        shutil.copy(support.PROGRAM, program)
        bare = {"PATH": os.environ.get("PATH", ""), "TMPDIR": "/nonexistent"}
        for flags in (("-I", "-S", "-B"), ("-S",)):
            left = field.run((sys.executable,) + flags + (program,), "--loopback -n 1M -P 2",
                             env=bare)
            self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertEqual(os.listdir(folder), ["pyperf3.py"])
        python = self.python_of_nobody()
        if not python:
            raise unittest.SkipTest("needs root, and a Python that others may run")
        os.chmod(folder, 0o755)
        closed = os.path.join(self.folder(), "closed")
        os.mkdir(closed, 0o700)
        with open(support.PROGRAM, "rb") as source:
            left = field.run((python, "-I", "-S", "-B", "-"), "--loopback -n 1M", env=bare,
                             cwd=closed, preexec_fn=field.as_nobody, stdin=source)
        self.assertEqual((left.code, left.err), (0, ""), left)
        script = ("mount --rbind / {0} && mount -o remount,bind,ro {0} && mount -t tmpfs -o ro t"
                  " {0}/tmp && cd {0} && exec chroot {0} sh -c 'touch /x 2>/dev/null && exit 9;"
                  " exec {1} -I -S -B - --loopback -n 1M -Z'").format(self.folder(), python)
        if subprocess.call(("unshare", "-m", "true"), stderr=subprocess.DEVNULL):
            raise unittest.SkipTest("file systems cannot be mounted here")
        with open(support.PROGRAM, "rb") as source:
            left = field.run(("unshare", "-m", "sh", "-c", script), "", stdin=source, env=bare)
        self.assertEqual((left.code, left.err), (0, ""), left)

    # B18: iperf3 #253
    def test_a_clock_that_is_set_spoils_the_figures(self):
        with open(support.PROGRAM) as file:
            tree = ast.parse(file.read())
        classes = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
        for name in ("Loop", "Test", "RateMeter", "CpuMeter", "StreamLoop", "TcpSender",
                     "TcpReceiver", "UdpSender", "Pace", "StreamFigures",
                     "DatagramTracker"):
            for node in ast.walk(classes[name]):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    self.assertNotEqual((node.value.id, node.attr), ("time", "time"), name)
        jumping = support.driver("import time\nnow, calls = time.time, []\n"
                                 "def wild():\n"
                                 "    calls.append(1)\n"
                                 "    return now() + 3600 * (-1) ** len(calls)\n"
                                 "time.time = wild")
        for (words,), (left, _) in support.together(
                lambda words: field.pair("-t 1 -i 0.5 -b 10M -J " + words, "", jumping, jumping),
                [("",), ("-R",), ("-u",), ("-u -R",)]):
            self.assertEqual((left.code, left.err), (0, ""), left)
            document = left.json()
            for row in [each["sum"] for each in document["intervals"]] + [
                    document["end"]["sum_sent"], document["end"]["sum_received"]]:
                self.assertGreaterEqual(row["seconds"], 0)
                self.assertLess(row["seconds"], 60)
                self.assertLess(row.get("jitter_ms", 0), 60000)

    # B70: speedtest-cli #608
    def test_locales_without_utf8(self):
        title = b"t\xc3\xa9st \xff"
        for names in ({"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"},
                      {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "de_DE.UTF-8"}):
            for more in ((), (b"-J",)):
                words = [os.fsencode(word) for word in support.OURS]
                process = subprocess.Popen(
                    words + [b"--loopback", b"-n", b"1M", b"-T", title] + list(more),
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    env=support.environment(**names))
                out, err = process.communicate(timeout=support.LIMIT)
                self.assertEqual((process.returncode, err), (0, b""))
                self.assertIn(title, out)
                self.assertRegex(out.replace(title, b""), br"\A[\x00-\x7f]+\Z")
                if not more:
                    self.assertIn(b" 1.00 MBytes ", out)

    # B71: speedtest-cli #568, #621
    def test_plain_tests_need_no_ssl(self):
        for (gone,), left in support.together(
                lambda gone: field.run(support.driver(
                    "for name in %r.split(): sys.modules[name] = None" % gone), "--loopback -n 1M"),
                [("ssl _ssl",), ("ctypes _ctypes",), ("_multiprocessing lzma",), ("fcntl",),
                 ("pwd",), ("resource",),
                 ("ssl _ssl ctypes _ctypes _multiprocessing lzma fcntl pwd resource",)]):
            self.assertEqual((left.code, left.err), (0, ""), (gone, left))
            self.assertIn("1.00 MBytes", left.out)

    # B74: what differs from Python 3.6 to 3.14
    def test_old_and_new_pythons(self):
        pythons = [(path,) for _, _, path in matrix.find_pythons()]
        pythons = pythons[:1] + pythons[len(pythons) // 2:-1:3] + pythons[-1:]
        for (path,), (left, other, usage) in support.together(
                lambda path: (field.run((path, "-W", "error", "-X", "dev", "-B", support.PROGRAM),
                                        "--loopback -n 1M --bidir -P 2"),
                              field.run((path, "-OO", "-B", support.PROGRAM),
                                        "--loopback -u -n 10K -J"),
                              field.run((path, "-OO", "-B", support.PROGRAM), "--help")), pythons):
            self.assertEqual((left.code, left.err), (0, ""), (path, left))
            self.assertEqual((other.code, other.err), (0, ""), (path, other))
            self.assertGreaterEqual(other.json()["end"]["sum_received"]["bytes"], 10240)
            self.assertEqual((usage.code, usage.err), (0, ""), (path, usage))
            self.assertIn("--json-stream", usage.out)


if __name__ == "__main__":
    sys.exit(unittest.main())
