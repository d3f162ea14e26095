"""Starting the program: its name among processes, `make install`, and Pythons that are too old."""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

import support
import test_service

LINUX = sys.platform.startswith("linux")


def names_of(pid):
    """Return the names of a process, its threads, and its descendants."""
    found = set()
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/comm" % (pid, thread)) as handle:
            found.add(handle.read().strip())
    for child in support.children(pid):
        found |= names_of(child)
    return found


@unittest.skipUnless(LINUX, "only Linux has names that a process may change so")
class Names(test_service.Live):
    """Nothing that ends iperf3 by its name found a process called python3."""

    def command(self, name):
        os.symlink(support.PROGRAM, self.path(name))
        return sys.executable, "-B", self.path(name)

    def test_both_ends_and_their_workers(self):
        for name, arguments in (("iperf3", ()), ("pyperf3.py", ("--threads",)),
                                ("a-name-that-is-too-long", ("-u", "-b", "1M"))):
            server, port = support.start_server(self.command(name), "-1")
            with server, support.Program(server.process.args[:3] + [
                    "-c", "127.0.0.1", "-p", port, "-P", "2", "-t", "30", "-i", "0.2"]
                    + list(arguments)) as client:
                client.wait_for("sec ")
                self.assertEqual(names_of(client.pid), {name[:15]})
                self.assertEqual(names_of(server.pid), {name[:15]})
                client.signal(signal.SIGTERM)
                self.assertEqual(client.finish().code, 0)

    def test_loopback(self):
        with support.Program(self.command("iperf3") + ("--loopback", "-t", "30", "-i",
                                                       "0.2")) as program:
            program.wait_for("sec ")
            self.assertEqual(names_of(program.pid), {"iperf3"})
            program.signal(signal.SIGTERM)
            program.finish()

    def test_daemon(self):
        port = support.free_port()
        left = support.run(self.command("iperf3") + ("-s", "-D", "-p", port, "-I",
                                                     self.path("pid")))
        self.assertEqual(left.code, 0, left)
        support.wait_until(lambda: support.listens(port), "the daemon listens")
        pid = int(self.read("pid"))
        try:
            self.assertEqual(names_of(pid), {"iperf3"})
        finally:
            os.kill(pid, signal.SIGTERM)

    def test_from_standard_input(self):
        port = support.free_port()
        with open(support.PROGRAM) as source, support.Program(
                (sys.executable, "-", "-s", "-p", port), stdin=source) as program:
            support.wait_for_listener(program, port)
            self.assertEqual(names_of(program.pid), {"pyperf3"})

    def test_a_program_that_imports_it_keeps_its_name(self):
        code = ("import pyperf3\n"
                "before = open('/proc/self/comm').read()\n"
                "settings = pyperf3.Settings(client='127.0.0.1', port=1)\n"
                "for event in pyperf3.Client(settings): pass\n"
                "pyperf3.main(['iperf3', '--version'])\n"
                "print(open('/proc/self/comm').read() == before)\n")
        left = support.run((sys.executable, "-B", "-c", code),
                           env=support.environment(PYTHONPATH=support.ROOT))
        self.assertEqual(left.lines()[-1:], ["True"], left)


@unittest.skipUnless(os.name == "posix" and shutil.which("make"), "no make here")
class Installed(test_service.Live):
    def make(self, target, **variables):
        """Run make; returns what it printed."""
        variables.setdefault("PREFIX", self.path("a prefix"))
        left = support.run(["make", "-C", support.ROOT, target, "PYTHON=" + sys.executable] + [
            "%s=%s" % pair for pair in variables.items()])
        self.assertEqual(left.code, 0, left)

    def files(self):
        """Return the files, and the empty folders."""
        return sorted(os.path.normpath(os.path.relpath(os.path.join(folder, name), self.folder))
                      for folder, folders, names in os.walk(self.folder)
                      for name in names or ([] if folders else ["."]))

    def test_into_an_empty_prefix_and_away_again(self):
        self.make("install")
        cached, = glob.glob(self.path("a prefix", "lib", "pyperf3", "__pycache__", "*.pyc"))
        self.assertEqual(self.files(), [
            "a prefix/bin/pyperf3", "a prefix/lib/pyperf3/__pycache__/" + os.path.basename(cached),
            "a prefix/lib/pyperf3/pyperf3.py"])
        self.make("install-iperf3")
        self.check("pyperf3")
        self.check("iperf3")
        self.write("stranger", "#!/bin/sh\n")
        self.make("uninstall")
        self.assertEqual(self.files(), ["a prefix/bin", "a prefix/lib", "stranger"])
        self.make("uninstall")

    def check(self, name):
        """See that the program of this name is used with its cache, and says its name."""
        program = (self.path("a prefix", "bin", name),)
        left = support.run(program + ("--version",))
        self.assertTrue(left.out.startswith("iperf 3.22 (pyperf3 "), left)
        left = support.run(program + ("--nosuch",), env=support.environment(PYTHONVERBOSE="1"))
        self.assertIn("\n%s: unrecognized option '--nosuch'\n" % name, left.err)
        self.assertRegex(left.err, r"matches .*/a prefix/bin/\.\./lib/pyperf3/pyperf3\.py\n")
        self.assertNotIn("wrote", left.err)
        self.assertIn("Usage: %s [" % name, support.run(program + ("--help",)).out)
        client, server = support.run_pair(program, program, ("-n", "1M", "-J"), ("-J",))
        self.assertEqual((client.code, server.code, client.err, server.err), (0, 0, "", ""))
        if LINUX:
            server, port = support.start_server(program)
            with server:
                self.assertEqual(names_of(server.pid), {name})
                server.signal(signal.SIGINT)
                self.assertEqual(server.finish().code, 0)

    def test_packages_that_an_option_needs_are_found(self):
        """The launcher leaves the folders of packages out until one is asked for."""
        self.make("install")
        lines = self.read("a prefix/bin/pyperf3").split("\n")
        lines[-2:] = ["pyperf3.name_process('x'); import wanted; print(wanted.HERE)", ""]
        os.mkdir(self.path("site"))
        self.write("site/wanted.py", "HERE = 'found'\n")
        self.write("usercustomize.py", "import sys; sys.path.append(%r)\n" % self.path("site"))
        program = self.write("run", "\n".join(lines).replace("../lib", "a prefix/lib"))
        left = support.run((sys.executable, "-S", program), env=support.environment(
            PYTHONPATH=self.folder, HOME=self.folder))
        self.assertEqual(left.out, "found\n", left)

    def test_below_another_root(self):
        self.make("install-iperf3", DESTDIR=self.path("root"), PREFIX="/usr")
        left = support.run((self.path("root", "usr", "bin", "iperf3"), "--loopback", "-n", "1M"))
        self.assertEqual((left.code, left.err), (0, ""), left)
        os.symlink(self.path("root", "usr", "bin", "iperf3"), self.path("other"))
        left = support.run((self.path("other"), "-q"))
        self.assertTrue(left.err.startswith("other: invalid option -- 'q'\n"), left)
        self.make("uninstall", DESTDIR=self.path("root"), PREFIX="/usr")
        self.assertEqual(self.files(), ["other", "root/usr/bin", "root/usr/lib"])

    def test_a_link_to_the_checkout_was_written_through(self):
        os.makedirs(self.path("a prefix", "bin"))
        self.write("pyperf3.py", "the source")
        os.symlink(self.path("pyperf3.py"), self.path("a prefix", "bin", "pyperf3"))
        self.make("install")
        self.assertEqual(self.read("pyperf3.py"), "the source")
        self.assertTrue(support.run((self.path("a prefix", "bin", "pyperf3"), "--version")).out)

    def test_an_interpreter_with_a_blank_in_its_path(self):
        os.makedirs(self.path("some where"))
        os.symlink(sys.executable, self.path("some where", "python3"))
        self.make("install", PYTHON='"%s"' % self.path("some where", "python3"))
        left = support.run((self.path("a prefix", "bin", "pyperf3"), "-q"))
        self.assertTrue(left.err.startswith("pyperf3: invalid option -- 'q'\n"), left)

    def test_nothing_is_installed_by_make_alone(self):
        left = support.run(("make", "-n", "-C", support.ROOT))
        self.assertIn("tests/run.py", left.out)
        self.assertNotIn("install", left.out)

    def test_an_iperf3_that_is_another_stays(self):
        os.makedirs(self.path("a prefix", "bin"))
        self.write("a prefix/bin/iperf3", "the real one")
        with self.assertRaises(AssertionError):
            self.make("install-iperf3")
        self.make("uninstall")
        self.assertEqual(self.files(), ["a prefix/bin/iperf3", "a prefix/lib"])
        self.assertEqual(self.read("a prefix/bin/iperf3"), "the real one")

    def test_as_a_module_in_its_folder(self):
        shutil.copy(support.PROGRAM, self.folder)
        for _ in range(2):
            left = support.run((sys.executable, "-m", "pyperf3", "-q"), cwd=self.folder,
                               env=support.environment(PYTHONDONTWRITEBYTECODE=None,
                                                       PYTHONVERBOSE="1"))
            self.assertIn("pyperf3.py: invalid option -- 'q'\n", left.err)
        self.assertRegex(left.err, r"matches .*pyperf3\.py\n")


class OldPythons(unittest.TestCase):
    TEXT = "pyperf3 needs Python 3.6 or newer: run it with python3"

    def test_python_2_shows_the_message_as_the_line_of_its_syntax_error(self):
        """It showed `yield from`, of line 4440."""
        found = [shutil.which("python2"), shutil.which("python2.7")] + glob.glob(
            os.path.expanduser("~/.pyenv/versions/[23].[0-57]*/bin/python"))
        old = [each for each in found if each and subprocess.call(
            [each, "-c", "import sys; sys.exit(sys.version_info > (3, 6))"],
            stderr=subprocess.DEVNULL) == 0]
        if not old:
            raise unittest.SkipTest("no Python older than 3.6 here")
        for each in old:
            left = support.run((each, "-B", support.PROGRAM, "-s"))
            self.assertEqual((left.code, left.out), (1, ""))
            self.assertIn(self.TEXT, left.err.split("\n")[1])
            with open(support.PROGRAM) as source:
                self.assertIn(self.TEXT, support.run((each, "-B", "-", "-s"), stdin=source).err)

    def test_nothing_that_an_old_one_may_lack_comes_before_the_message(self):
        with open(support.PROGRAM) as source:
            before = source.read().partition("sys.version_info")[0]
        self.assertEqual(re.findall(r"(?m)^ *(?:import|from) .*", before), ["import sys"])

    def test_one_that_reads_the_line_says_it(self):
        left = support.run(support.driver("sys.version_info = (3, 4, 0)"))
        self.assertEqual((left.code, left.out, left.err.count("\n")), (1, "", 1))
        self.assertTrue(left.err.startswith(self.TEXT), left)

    @unittest.skipUnless(os.name == "posix", "no modes here")
    def test_the_file_is_a_program(self):
        left = support.run((support.PROGRAM, "--version"))
        self.assertTrue(left.out.startswith("iperf 3.22 (pyperf3 "), left)


if __name__ == "__main__":
    unittest.main()
