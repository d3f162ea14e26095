"""The far end over ssh (--ssh): a real OpenSSH server, shells, Pythons, every way to end."""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import pyperf3
import sshd
import support

PROGRAM = (sys.executable, "-S", "-B", support.PROGRAM)
LIVELY = ("-t", "30", "-b", "1M", "-i", "0.5")  # a test that is there to be ended
SOON = 10.0  # seconds; less than those after which a far end that hears nothing ends
FEW = ("-n", "200K")
FAR_ERROR = "(unable to start|lost) the far end: db1: "


def code(text):
    """Return the command of the program, from its file, after some code."""
    return (sys.executable, "-S", "-B", "-c",
            support.PACKAGES + "sys.argv[0] = 'pyperf3'\nsys.path.insert(0, %r)\n"
            "import os, pyperf3\n%s\npyperf3.run_program()" % (support.ROOT, text))


def plain(text):
    """Return the text of a run without its figures."""
    text = re.sub(r"\x1b.*?m| +", " ", text)
    return re.sub(r"\d+(\.\d+)?( [KMG]?Bytes| [KMG]?bits/sec)?", "N", text)


class FarCase(unittest.TestCase):
    """A folder, and the program with --ssh for tests."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def enter(self, manager):
        """Enter a context that ends with the test; returns what it gives."""
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def host(self, **more):
        return self.enter(sshd.Host("db1", **more))

    def words(self, *hosts, **more):
        """Return the options that name hosts, and the ssh to use."""
        words = sshd.client(self.folder, *hosts, **more)
        named = [word for host in hosts for word in ("--ssh", host.name)]
        return ("--ssh-command", " ".join(words)) + tuple(named)

    def client(self, host, *arguments, **more):
        """Run a test with a far end on a host; returns what it leaves (Finished)."""
        program = more.pop("program", PROGRAM)
        return support.run(program + self.words(host) + arguments, **more)

    def start(self, *words, **more):
        """Begin the program in a session of its own; returns it once it shows figures."""
        program = more.pop("program", PROGRAM)
        running = self.enter(support.Program(program + words, start_new_session=True, **more))
        running.wait_for(" sec ")
        return running

    def good(self, left, err=""):
        self.assertEqual((left.code, left.err), (0, err), left)
        return left

    def fails(self, left, text):
        """One line on standard error, which this expression fits, and the status are all."""
        self.assertEqual((left.code, left.out), (1, ""), left)
        self.assertRegex(left.err, r"\Aiperf3: error - %s\n\Z" % text)

    def nothing_here(self, folder=None):
        """Wait until no process of this host is left that has to do with this test."""
        folder = (folder or self.folder).encode()

        def left():
            found = []
            for name in os.listdir("/proc"):
                if name.isdigit() and int(name) != os.getpid():
                    with contextlib.suppress(OSError), open("/proc/%s/cmdline" % name, "rb") as f:
                        line = f.read()
                        if folder in line:
                            found.append((name, line[:80]))
            return found
        support.wait_until(lambda: not left(), ("nothing is left here", left), SOON)


class Figures(FarCase):
    """Tests of all kinds are what they are over -c."""

    @classmethod
    def setUpClass(cls):
        cls.far = sshd.Host("db1")
        cls.far.__enter__()
        cls.server, cls.port = support.start_server(support.OURS)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.far.__exit__()

    def both(self, *arguments):
        """Return what the same test leaves over ssh, and over -c."""
        return support.at_once((
            lambda: self.client(self.far, *arguments),
            lambda: support.run(PROGRAM + ("-c", "127.0.0.1", "-p", self.port) + arguments)))

    def test_the_text_is_that_of_a_client(self):
        for words in (("-b", "20M"), ("-u", "-b", "5M"), ("-R", "-b", "5M"), ("-V", "-b", "1M")):
            with self.subTest(words=words):
                far, near = self.both("-t", "1", "-i", "0.5", *words)
                self.good(far)
                self.good(near)
                cut = re.compile(r"(?m)^ *(Cookie|Time|Connecting|CPU).*\n|\[ *\d+\]")
                self.assertEqual(plain(cut.sub("", far.out)).splitlines(),
                                 plain(cut.sub("", near.out)).splitlines())
        self.far.wait_until_clean(SOON)

    def test_modes(self):
        modes = ((), ("-R",), ("--bidir",), ("-u", "-b", "20M"), ("-u", "-R", "-b", "20M"),
                 ("--tls",), ("--tls", "-R"), ("-P", "3"), ("-P", "2", "-R"),
                 ("--get-server-output",), ("-Z",), ("-4",), ("--threads",), ("--verdict",),
                 ("-C", "reno"), ("-O", "1"), ("-i", "0"), ("--json-stream", "-i", "1"))
        # one folder has one ssh_config, the same for all
        words = self.words(self.far)
        for mode, left in support.together(
                lambda *mode: support.run(PROGRAM + words + ("-t", "1", "-b", "50M", "-J") + mode),
                modes, 4):
            with self.subTest(mode=mode):
                self.good(left)
                if "--json-stream" in mode:
                    end = json.loads(left.lines()[-1])["data"]
                else:
                    document = left.json()
                    end = document["end"]
                    self.assertNotIn("error", document)
                rate = end["sum_received"]["bits_per_second"]
                self.assertGreater(rate, 4e6, mode)
                self.assertLess(rate, 170e6, mode)
                far = end["pyperf3"]["far_end"]
                self.assertEqual(list(far), ["name", "address", "port", "python", "version",
                                             "tunnel"])
                self.assertEqual((far["name"], far["address"], far["tunnel"]),
                                 ("db1", "127.0.0.1", False))
                self.assertEqual(far["python"], "%d.%d.%d" % sys.version_info[:3])
                self.assertEqual(far["version"], pyperf3.__version__)
        self.far.wait_until_clean(SOON)
        self.nothing_here()

    def test_the_output_of_the_server(self):
        far = self.good(self.client(self.far, *FEW + ("--get-server-output",)))
        self.assertRegex(far.out, r"(?s)Server output:\n.*Accepted connection from .*receiver\n")
        document = self.good(self.client(self.far, *FEW + ("--get-server-output", "-J"))).json()
        self.assertTrue("server_output_text" in document or "server_output_json" in document,
                        list(document))

    def test_the_document_is_unmixed(self):
        far, near = [left.json() for left in self.both("-J", *FEW)]
        self.assertEqual(list(far), list(near))
        self.assertEqual(list(far["start"]), list(near["start"]))
        self.assertEqual(list(far["end"]), list(near["end"]))

    def test_a_diagnosis(self):
        left = self.good(self.client(self.far, "--diagnose", "-t", "1", "-b", "20M"))
        self.assertRegex(left.out, r"(?s)\Aup: .*down: .*both up: .*Diagnosis of ")
        self.far.wait_until_clean(SOON)

    def test_a_port_that_is_asked_for(self):
        port = support.free_port()
        document = self.good(self.client(self.far, "-J", "-p", str(port), *FEW)).json()
        self.assertEqual(document["start"]["connecting_to"]["port"], port)
        self.assertEqual(document["end"]["pyperf3"]["far_end"]["port"], port)

    def test_a_logfile_and_a_limit(self):
        log = os.path.join(self.folder, "log")
        left = self.client(self.far, "--logfile", log, "--min-bitrate", "100G", *FEW)
        self.assertEqual((left.code, left.out), (4, ""), left)
        with open(log) as file:
            self.assertIn("receiver", file.read())

    def test_the_conversation_is_shown(self):
        left = self.client(self.far, "-d", *FEW)
        self.assertEqual(left.code, 0, left)
        self.assertIn("db1: Python %d.%d" % sys.version_info[:2], left.err)

    def test_the_client_there_and_the_server_here(self):
        for mode in ((), ("-R",), ("-u", "-b", "20M"), ("--bidir",), ("--get-server-output",)):
            with self.subTest(mode=mode):
                document = self.good(self.client(
                    self.far, "--ssh-dial-back", "-J", "-t", "1", "-b", "20M", *mode)).json()
                start, end = document["start"], document["end"]
                # The directions are those of a client here, so not those of the one there.
                self.assertEqual(start["test_start"]["reverse"],
                                 int(mode not in (("-R",), ("--bidir",))))
                self.assertIs(end["pyperf3"]["far_end"]["tunnel"], False)
                self.assertGreater(end["sum_received"]["bits_per_second"], 10e6)
                self.assertLess(end["sum_received"]["bits_per_second"], 30e6)
        left = self.good(self.client(self.far, "--ssh-dial-back", "-b", "20M", "-t", "1"))
        self.assertRegex(left.out, r"sender\n.*receiver\n")
        self.far.wait_until_clean(SOON)
        self.nothing_here()

    def test_through_a_tunnel(self):
        for mode in ((), ("-R",), ("--tls",), ("-P", "2")):
            with self.subTest(mode=mode):
                left = self.client(self.far, "--ssh-tunnel", "-J", *FEW + mode)
                self.assertEqual(left.code, 0, left)
                self.assertRegex(left.err, r"\Awarning: .*\bssh.*\n\Z")
                self.assertIs(left.json()["end"]["pyperf3"]["far_end"]["tunnel"], True)
        self.far.wait_until_clean(SOON)

    def test_of_the_module(self):
        ssh = " ".join(sshd.client(self.folder, self.far))
        document = pyperf3.Client(pyperf3.Settings(ssh="db1", ssh_command=ssh, bytes=200000)).run()
        self.assertEqual(document["end"]["pyperf3"]["far_end"]["name"], "db1")
        with self.assertRaises(pyperf3.IperfError) as caught:
            pyperf3.Client(pyperf3.Settings(ssh="db1", ssh_command="false", bytes=200000)).run()
        self.assertEqual(caught.exception.number, 921)
        self.far.wait_until_clean(SOON)


class Shells(FarCase):
    """Whatever the login shell is, and prints."""

    def check(self, name, shell, files):
        path = shutil.which(shell)
        if not path:
            support.lack("no %s here" % shell)
        folder = os.path.join(self.folder, name.replace(" ", "-"))
        os.mkdir(folder)
        with sshd.Host("db1", shell=path, files=files) as host:
            left = support.run(PROGRAM + (
                "--ssh-command", " ".join(sshd.client(folder, host)), "--ssh", "db1", "-J") + FEW)
            host.wait_until_clean(SOON)
        return left

    def test_shells(self):
        noise = "echo '%s'\n" % ("All is well with db1 today. " * 9)
        chatty = noise * 40 + "printf 'and no line'\n"
        cases = (("bash", "bash", {}), ("dash", "dash", {}), ("rbash", "rbash", {}),
                 ("fish", "fish", {".config/fish/config.fish": "echo hello\n"}),
                 ("tcsh", "tcsh", {".cshrc": "echo hello\n"}),
                 ("csh", "csh", {}),
                 ("chatty bash", "bash", {".bashrc": chatty, ".ssh/rc": "echo more\n"}),
                 ("errors", "bash", {".bashrc": "nonsense; %s\n" % noise.replace("\n", " >&2")}),
                 ("chatty csh", "tcsh", {".cshrc": chatty}),
                 ("chatty fish", "fish", {".config/fish/config.fish": chatty}))
        for case, left in support.together(self.check, cases, 4):
            with self.subTest(case[0]):
                self.good(left)
                self.assertGreaterEqual(left.json()["end"]["sum_received"]["bytes"], 200000)

    def test_what_a_shell_says_is_shown_if_asked_for(self):
        host = self.host(files={".bashrc": "echo Welcome to db1; echo Beware >&2\n"})
        left = self.client(host, "-d", *FEW)
        self.assertEqual(left.code, 0, left)
        self.assertIn("db1: Welcome to db1\n", left.err)
        self.assertIn("db1: Beware\n", left.err)

    def test_a_shell_that_ends_at_once(self):
        host = self.host(files={".bashrc": "echo This account is closed.; exit 1\n"})
        self.fails(self.client(host), r"unable to start the far end: db1: .*"
                                      r"This account is closed\.")

    def test_a_login_for_something_else(self):
        host = self.host(config="ForceCommand echo only sftp here")
        self.fails(self.client(host), r"unable to start the far end: db1: .*only sftp here.*")
        self.nothing_here()


class Pythons(FarCase):
    """Whatever Python is there."""

    def two(self):
        """Return the Python 2 of this host."""
        for path in ("~/.pyenv/versions/2.7.18/bin/python", "/usr/bin/python2"):
            path = os.path.expanduser(path)
            if os.path.exists(path):
                return path
        raise unittest.SkipTest("no Python 2 here")

    def test_only_the_platforms(self):
        host = self.host(python=None, libexec=sys.executable)
        self.good(self.client(host, *FEW))

    def test_only_another_name(self):
        self.good(self.client(self.host(names=("python",)), *FEW))

    def test_only_a_python_2(self):
        version = subprocess.check_output(
            (self.two(), "-c", "import sys; print(sys.version.split()[0])")).decode().strip()
        for names in (("python",), ("python2", "python"), ("python3",)):
            with self.subTest(names=names):
                host = self.host(python=self.two(), names=names)
                self.fails(self.client(host), FAR_ERROR + r"Python 3\.6 .*%s.*"
                           % re.escape(version))

    def test_an_old_one_before_a_new_one(self):
        host = self.host(python=self.two(), names=("python3",), libexec=sys.executable)
        self.good(self.client(host, *FEW))

    def test_none(self):
        self.fails(self.client(self.host(python=None)),
                   r"unable to start the far end: db1: no Python 3 .*--ssh-python.*")

    def test_one_that_is_named(self):
        host = self.host(names=("snake one",))
        path = os.path.join(host.binaries, "snake one")
        self.good(self.client(host, "--ssh-python", path, *FEW))
        self.fails(self.client(host, "--ssh-python", "/no/such python"),
                   r"unable to start the far end: db1: .*[Nn]o .*Python.*")

    def test_the_oldest_there_and_the_newest_here_and_the_reverse(self):
        newest, oldest = sshd.newest_and_oldest()
        for here, there in ((newest, oldest), (oldest, newest)):
            host = self.host(python=there)
            for mode in ((), ("-R",), ("-u", "-R"), ("--ssh-dial-back",), ("--tls",),
                         ("-P", "2", "--get-server-output")):
                with self.subTest(here=here, mode=mode):
                    left = self.client(host, "-J", *FEW + mode,
                                       program=(here, "-B", support.PROGRAM))
                    self.good(left)
                    self.assertGreaterEqual(left.json()["end"]["sum_received"]["bytes"], 150000)
            host.wait_until_clean(SOON)


class Ways(FarCase):
    """Where the program comes from, and how it gets there."""

    def test_a_path_with_blanks(self):
        folder = os.path.join(self.folder, "it's a \"path\" $HOME")
        os.mkdir(folder)
        path = os.path.join(folder, "pyperf3 (1).py")
        shutil.copy(support.PROGRAM, path)
        self.good(self.client(self.host(), *FEW, program=(sys.executable, "-B", path)))

    def test_from_standard_input(self):
        host = self.host()
        with open(support.PROGRAM, "rb") as source:
            self.good(self.client(host, *FEW, program=(sys.executable, "-"), stdin=source))
        for command in ('cat "$0" | "$@"', '"$@" < "$0"'):
            with self.subTest(command):
                self.good(self.client(host, *FEW, program=(
                    "sh", "-c", command, support.PROGRAM, sys.executable, "-")))

    def test_from_a_pipe_to_another_python(self):
        newest, oldest = sshd.newest_and_oldest()
        left = self.client(self.host(python=oldest), program=(
            "sh", "-c", 'cat "$0" | "$@"', support.PROGRAM, newest, "-"))
        self.fails(left, r"unable to start the far end: db1: .*start it from a file")

    def test_from_compiled_code(self):
        host = self.host()
        for program in (support.OURS, support.driver("")):
            self.good(self.client(host, *FEW, program=program))

    def test_from_an_archive(self):
        import zipfile
        path = os.path.join(self.folder, "p.pyz")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(support.PROGRAM, "pyperf3.py")
            archive.writestr("__main__.py", "import pyperf3; pyperf3.run_program()")
        self.good(self.client(self.host(), *FEW, program=(sys.executable, "-B", path)))

    def test_through_another_host(self):
        jump, host = self.enter(sshd.Host("jump")), self.host()
        ssh = sshd.client(self.folder, jump, host, db1="    ProxyJump jump\n")
        self.good(support.run(PROGRAM + ("--ssh-command", " ".join(ssh), "--ssh", "db1") + FEW))
        ssh = sshd.client(self.folder, jump, host)
        self.good(support.run(PROGRAM + (
            "--ssh-command", " ".join(ssh) + " -J jump", "--ssh", "db1") + FEW))
        jump.wait_until_clean(SOON)
        host.wait_until_clean(SOON)

    def test_with_the_user_before_the_host(self):
        host = self.host()
        ssh = sshd.client(self.folder, host)
        self.good(support.run(PROGRAM + (
            "--ssh-command", " ".join(ssh), "--ssh", sshd.USER + "@db1") + FEW))

    def test_commands_that_are_not_ssh(self):
        docker = os.path.join(self.folder, "docker")
        with open(docker, "w") as file:
            file.write('#!/bin/sh\n[ "$1 $2 $3" = "exec -i box" ] || exit 9\nshift 3\nexec "$@"\n')
        os.chmod(docker, 0o755)
        for command, host in ((docker + " exec -i", "box"), ("env -u %h --", "127.0.0.1"),
                              (docker + " exec -i %h", "box"), ("env --", "localhost")):
            with self.subTest(command):
                self.good(support.run(PROGRAM + (
                    "--ssh-command", command, "--ssh", host, "--ssh-address", "127.0.0.1") + FEW))
                self.nothing_here()

    def test_options_of_ssh_in_the_command(self):
        host = self.host()
        ssh = sshd.client(self.folder, host)
        for more in (" -p %d" % host.port, " -v", " -o Compression=yes --", " -4 db1 --"):
            with self.subTest(more):
                left = support.run(PROGRAM + (
                    "--ssh-command", " ".join(ssh) + more, "--ssh", "db1") + FEW)
                if more == " -o Compression=yes --":  # which leaves no place for the host
                    self.assertEqual(left.code, 1, left)
                else:
                    self.assertEqual(left.code, 0, left)


class Errors(FarCase):
    """One line each, with its own cause."""

    FAR = r"unable to start the far end: %s"

    def test_ssh_cannot_connect(self):
        host = self.host()
        ssh = sshd.client(self.folder, host)
        os.kill(host.pid, signal.SIGKILL)
        support.wait_until(lambda: not support.listens(host.port), "sshd is gone")
        left = support.run(PROGRAM + ("--ssh-command", " ".join(ssh), "--ssh", "db1"))
        self.fails(left, self.FAR % r"db1: ssh failed \(status 255\): .*Connection refused.*")

    def without(self, name):
        """Return what the program leaves where a file of the host's is empty."""
        host = self.host()
        words = self.words(host)
        with open(os.path.join(host.folder, name), "w"):
            pass
        return support.run(PROGRAM + words)

    def test_ssh_is_not_let_in(self):
        self.fails(self.without("authorized_keys"),
                   self.FAR % r"db1: ssh failed \(status 255\): .*Permission denied.*")

    def test_the_key_of_the_host_is_another(self):
        self.fails(self.without("known_hosts"),
                   self.FAR % r"db1: ssh failed \(status 255\): .*verification failed.*")

    def test_a_name_that_is_none(self):
        ssh = " ".join(sshd.client(self.folder))
        left = support.run(PROGRAM + ("--ssh-command", ssh, "--ssh", "no.such.host.invalid"))
        self.fails(left, self.FAR % r"no\.such\.host\.invalid: ssh failed \(status 255\): .*")

    def test_no_such_command(self):
        self.fails(support.run(PROGRAM + ("--ssh-command", "/no/such/ssh -4", "--ssh", "db1")),
                   self.FAR % r".*/no/such/ssh.*")
        self.fails(support.run(PROGRAM + ("--ssh-command", "ssh 'unclosed", "--ssh", "db1")),
                   self.FAR % r".*quot.*")

    def test_a_host_that_is_an_option(self):
        for host in ("-oProxyCommand=touch /tmp/x", "", "a\nb", "-J"):
            with self.subTest(host):
                left = support.run(PROGRAM + ("--ssh", host))
                self.assertEqual((left.code, left.out), (1, ""), left)
                self.assertIn("bogus host for --ssh or --mesh", left.err)

    def test_options_that_exclude_each_other(self):
        for words in (("-c", "h"), ("-s",), ("--loopback",), ("--ssh-tunnel", "-u"),
                      ("--ssh-tunnel", "--ssh-dial-back"), ("--ssh", "db1")):
            with self.subTest(words):
                left = support.run(PROGRAM + ("--ssh", "db1") + words)
                self.assertEqual((left.code, left.out), (1, ""), left)
                self.assertRegex(left.err, r"\Aiperf3: (parameter )?error - ")
        left = support.run(PROGRAM + ("-c", "127.0.0.1", "--ssh-tunnel"))
        self.assertEqual((left.code, left.out), (1, ""), left)

    def test_a_port_that_is_in_use_there(self):
        server, port = support.start_server(support.OURS)
        self.addCleanup(server.__exit__)
        host = self.host()
        self.fails(self.client(host, "-p", str(port)),
                   self.FAR % r"db1: .*(Address already in use|in use).*")
        host.wait_until_clean(SOON)

    def test_in_a_document(self):
        left = support.run(PROGRAM + ("--ssh-command", "false", "--ssh", "db1", "-J"))
        self.assertEqual((left.code, left.err), (1, ""), left)
        self.assertRegex(left.json()["error"], "unable to start the far end: db1: ")

    def test_the_option_comes_from_the_environment_only_for_a_client(self):
        left = support.run(PROGRAM + ("--ssh", "db1", "--ssh-command", "false"),
                           env=support.environment(PYPERF3_OPTS="-R"))
        self.fails(left, self.FAR % "db1: .*")


class Strangers(FarCase):
    """The far end serves nobody but the client that brought it."""

    HELD = """
begin = pyperf3.FarServer._begin
def held(self):
    yield from begin(self)
    sys.stderr.write("port %%d\\n" %% self._place["port"])
    sys.stderr.flush()
    while not os.path.exists(%r):
        yield from pyperf3.pause(0.02)
pyperf3.FarServer._begin = held
"""

    def test_strangers(self):
        host = self.host()
        flag = os.path.join(self.folder, "go")
        program = self.enter(support.Program(
            code(self.HELD % flag) + self.words(host) + ("-J",) + FEW))
        program.wait_for_error("\n")
        port = re.search(r"port (\d+)", program.err()).group(1)
        others = [("ours", support.OURS), ("diagnosis", support.OURS)]
        others += [(version, support.real(version)) for version in ("3.9", "3.22")]
        for name, command in others:
            with self.subTest(name):
                more = ("--diagnose",) if name == "diagnosis" else ()
                left = support.run(command + ("-c", "127.0.0.1", "-p", port) + FEW + more, 20.0)
                self.assertEqual(left.code, 1, left)
                self.assertNotIn("receiver", left.out)
        silent = [support.socket.create_connection(("127.0.0.1", int(port))) for _ in range(3)]
        silent[0].sendall(b"GET / HTTP/1.0\r\n\r\n")
        silent[1].sendall(b"a" * 37)
        with open(flag, "w"):
            pass
        left = program.finish()
        for sock in silent:
            sock.close()
        self.assertEqual(left.code, 0, left)
        self.assertGreaterEqual(left.json()["end"]["sum_received"]["bytes"], 200000)
        host.wait_until_clean(SOON)

    def test_the_token_is_on_no_command_line_there(self):
        host = self.host()
        running = self.start(*self.words(host) + LIVELY)
        cookie = re.search(r"token\W+([a-z2-7]{20})", running.err())
        self.assertIsNone(cookie)
        for pid in host.far_ends():
            self.assertNotRegex(sshd.command(pid), r"\b[a-z2-7]{20}\b")
        running.signal(signal.SIGINT)
        running.finish()


class Ends(FarCase):
    """However a test ends, nothing is left there: no process, no port, no file."""

    def ended(self, host, running, status=1, says=None):
        left = running.finish(30.0)
        self.assertEqual(left.code, status, left)
        self.assertNotIn("Traceback", left.err)
        if says:
            self.assertRegex(left.err, says)
        host.wait_until_clean(SOON)
        self.nothing_here()
        return left

    def test_its_own_end(self):
        host = self.host()
        begin = time.monotonic()
        self.good(self.client(host, "-t", "1"))
        host.wait_until_clean(SOON)
        self.assertLess(time.monotonic() - begin, 30.0)
        self.nothing_here()

    def test_keys_and_signals(self):
        host = self.host()
        for number, whole in ((signal.SIGINT, True), (signal.SIGINT, False),
                              (signal.SIGTERM, False), (signal.SIGHUP, True)):
            for mode in ((), ("-R",), ("--ssh-dial-back",)):
                with self.subTest(number=number, whole=whole, mode=mode):
                    running = self.start(*self.words(host) + LIVELY + mode)
                    if whole:  # as a terminal does
                        os.killpg(running.pid, number)
                    else:
                        running.signal(number)
                    left = self.ended(host, running, 0, "interrupt - the client has terminated "
                                                        "by signal")
                    self.assertRegex(left.out, "sender\n")

    def test_while_it_begins(self):
        host = self.host(files={".bashrc": "sleep 0.3\n"})
        for wait in (0.0, 0.2, 0.4, 0.6, 0.8):
            with self.subTest(wait=wait):
                running = self.enter(support.Program(
                    PROGRAM + self.words(host) + LIVELY, start_new_session=True))
                # As long as Python compiles the file its own handler is there.
                support.wait_until(lambda: self.name_of(running.pid) == "pyperf3.py", "a start")
                time.sleep(wait)
                os.killpg(running.pid, signal.SIGINT)
                left = running.finish(20.0)
                self.assertNotIn("Traceback", left.err)
                host.wait_until_clean(SOON)
                self.nothing_here()

    @staticmethod
    def name_of(pid):
        with open("/proc/%d/comm" % pid) as file:
            return file.read().strip()

    def test_a_client_that_is_killed(self):
        host = self.host()
        for mode in ((), ("-R", "-P", "2"), ("-u",), ("--ssh-dial-back",)):
            with self.subTest(mode=mode):
                running = self.start(*self.words(host) + LIVELY + mode)
                running.process.kill()
                running.process.wait()
                host.wait_until_clean(SOON)
                self.nothing_here()

    def test_an_ssh_that_is_killed(self):
        host = self.host()
        for mode in ((), ("-R",), ("--ssh-dial-back",)):
            with self.subTest(mode=mode):
                running = self.start(*self.words(host) + LIVELY + mode)
                found = [pid for pid in support.children(running.pid)
                         if sshd.command(pid).startswith("ssh ")]
                self.assertEqual(len(found), 1)
                os.kill(found[0], signal.SIGKILL)
                self.ended(host, running, 1, "error - ")

    def test_a_session_that_is_killed(self):
        host = self.host()
        for mode in ((), ("--ssh-dial-back",)):
            with self.subTest(mode=mode):
                running = self.start(*self.words(host) + LIVELY + mode)
                for pid in host.sessions():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self.ended(host, running, 1, "error - ")

    def test_a_far_end_that_is_killed(self):
        host = self.host()
        for mode in ((), ("-R",), ("--ssh-dial-back",)):
            with self.subTest(mode=mode):
                running = self.start(*self.words(host) + LIVELY + mode)
                for pid in host.far_ends():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self.ended(host, running, 1, "error - ")

    def test_a_client_that_is_stopped(self):
        host = self.host()
        running = self.start(*self.words(host) + LIVELY)
        running.signal(signal.SIGSTOP)
        host.wait_until_clean(30.0, sessions=False)
        running.signal(signal.SIGCONT)
        self.ended(host, running, 1, "error - ")

    def test_an_output_that_is_closed(self):
        host = self.host()
        command = PROGRAM + self.words(host) + LIVELY
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=support.environment())
        process.stdout.readline()
        process.stdout.close()
        with process.stderr:
            self.assertNotIn(b"Traceback", process.stderr.read())
        process.wait(30)
        host.wait_until_clean(SOON)
        self.nothing_here()


class Networks(FarCase):
    """Hosts with a network of their own."""

    def network(self, *names, **more):
        network = self.enter(sshd.Network(names, **more))
        return network, [network.host(name) for name in names]

    def test_a_link_that_is_cut(self):
        network, (host,) = self.network("db1")
        words = self.words(host)
        running = [self.start(*words + LIVELY + mode, program=network.hub + PROGRAM)
                   for mode in ((), ("-R",), ("--ssh-dial-back",))]
        network.cut("db1")
        host.wait_until_clean(40.0, sessions=False)
        for program in running:
            left = program.finish(60.0)
            self.assertEqual(left.code, 1, left)
            self.assertIn("error - ", left.err)
        self.nothing_here()

    def test_the_sixth_version(self):
        network, (host,) = self.network("db1")
        left = support.run(network.hub + PROGRAM + self.words(host) + ("-6", "-J") + FEW)
        far = self.good(left).json()["end"]["pyperf3"]["far_end"]
        self.assertEqual(far["address"], "fd08:1::2")

    def test_an_address_that_only_the_far_end_knows(self):
        """Behind a jump host, or an alias, ssh's name for it leads nowhere."""
        network, (host,) = self.network("db1")
        more = self.words(host, db1="    ProxyCommand %s\n" % self.relay(network, "db1"))
        config = os.path.join(self.folder, "ssh_config")
        with open(config) as file:
            text = file.read().replace("HostName 10.8.1.2", "HostName 127.0.0.1")
        with open(config, "w") as file:
            file.write(text + "    HostKeyAlias [10.8.1.2]:%d\n" % host.port)
        left = self.good(support.run(network.hub + PROGRAM + more + ("-J",) + FEW))
        self.assertEqual(left.json()["end"]["pyperf3"]["far_end"]["address"], "10.8.1.2")

    def relay(self, network, name):
        """Return a command that leads to the ssh server of a namespace, from anywhere."""
        path = os.path.join(self.folder, "relay.py")
        with open(path, "w") as file:
            file.write(RELAY)
        return " ".join(support.inside(network.namespace(name)) + (
            sys.executable, "-I", "-S", path, network.address(name), "2222"))

    def test_a_port_that_is_blocked(self):
        """ssh gets there, and nothing else does: the error names what would help, and it does."""
        network, (host,) = self.network("db1")
        words = self.words(host, db1="    ProxyCommand %s\n" % self.relay(network, "db1"))
        # Outside of the namespace there is no way to 10.8.1.2 but that of ssh.
        outside = sshd.Network(("elsewhere",))
        self.enter(outside)
        left = support.run(outside.hub + PROGRAM + words + FEW)
        self.assertEqual((left.code, left.out), (1, ""), left)
        self.assertRegex(left.err, r"\Aiperf3: error - unable to connect to server.*-p.*"
                                   r"--ssh-dial-back.*--ssh-tunnel.*\n\Z")
        host.wait_until_clean(SOON)
        left = support.run(outside.hub + PROGRAM + words + FEW + ("--ssh-tunnel", "-J"))
        self.assertEqual(left.code, 0, left)
        self.assertIs(left.json()["end"]["pyperf3"]["far_end"]["tunnel"], True)
        host.wait_until_clean(SOON)
        self.nothing_here()

    def test_host_to_host(self):
        """The program has no route to the network that the test is about."""
        network, hosts = self.network("db1", "db2", forward=False, direct=("db1", "db2"))
        words = self.words(*hosts)
        for mode in ((), ("-R",), ("-u", "-b", "20M"), ("--bidir",), ("--tls",)):
            with self.subTest(mode=mode):
                document = self.good(support.run(network.hub + PROGRAM + words + (
                    "-J", "-t", "1", "-b", "20M") + mode)).json()
                connected = document["start"]["connected"][0]
                self.assertEqual((connected["local_host"], connected["remote_host"]),
                                 ("10.9.0.1", "10.9.0.2"))
                self.assertGreater(document["end"]["sum_received"]["bits_per_second"], 10e6)
                self.assertEqual(document["end"]["pyperf3"]["far_end"]["name"], "db2")
        left = self.good(support.run(network.hub + PROGRAM + words + ("-t", "2", "-i", "1")))
        self.assertRegex(left.out, r"\AConnecting to host ")
        self.assertRegex(left.out, r"sender\n.*receiver\n")
        left = support.run(network.hub + PROGRAM + words + FEW + ("--min-bitrate", "900G"))
        self.assertEqual(left.code, 4, left)
        for host in hosts:
            host.wait_until_clean(SOON)
        self.nothing_here()

    def test_host_to_host_is_shown_as_it_comes_and_ends_when_told_to(self):
        network, hosts = self.network("db1", "db2", forward=False, direct=("db1", "db2"))
        words = self.words(*hosts)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number=number):
                running = self.start(*words + LIVELY, program=network.hub + PROGRAM)
                os.kill(running.pid, number)
                left = running.finish(20.0)
                if number != signal.SIGKILL:
                    self.assertEqual(left.code, 0, left)  # as of a client over -c
                    self.assertIn("interrupt - the client has terminated", left.err)
                    self.assertRegex(left.out, "sender\n")
                for host in hosts:
                    host.wait_until_clean(SOON)
                self.nothing_here()

    def test_host_to_host_errors_name_the_host(self):
        network, hosts = self.network("db1", "db2", forward=False)
        words = self.words(*hosts)
        left = support.run(network.hub + PROGRAM + words + FEW)  # no way between them
        self.assertEqual(left.code, 1, left)
        self.assertRegex(left.err, r"\A(db1: )?iperf3: error - unable to connect to server.*\n\Z")
        os.kill(hosts[1].pid, signal.SIGKILL)
        left = support.run(network.hub + PROGRAM + words + FEW)
        self.fails(left, r"unable to start the far end: db2: ssh failed .*")
        hosts[0].wait_until_clean(SOON)


RELAY = """
import os, select, socket, sys
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
while True:
    for ready in select.select([0, sock], [], [])[0]:
        data = os.read(0, 65536) if ready == 0 else sock.recv(65536)
        if not data:
            sys.exit()
        if ready == 0:
            sock.sendall(data)
        else:
            os.write(1, data)
"""

# A far end that is none. Its first argument says what it does; the marker is in the last one.
FAKE = r"""
import json, os, re, signal, sys, time
kind, marker = sys.argv[1], re.search(r"\b[0-9a-f]{24}\b", " ".join(sys.argv[2:])).group()
def put(text, times=1):
    data = text if isinstance(text, bytes) else text.encode("latin-1")
    for _ in range(times):
        rest = data
        while rest:
            rest = rest[os.write(1, rest):]
def greet():
    import importlib.util
    put("\n%s ready 3.9.2 %s\n" % (marker, importlib.util.MAGIC_NUMBER.hex()))
def read_program():
    size = int(sys.stdin.buffer.readline().split()[0])
    sys.stdin.buffer.read(size)
def be_host(**more):
    greet()
    read_program()
    put("%s %s\n" % (marker, json.dumps(dict(dict(
        host="x", version="1", peer="", addresses=["127.0.0.1"]), **more))))
def answer(text):
    be_host()
    sys.stdin.buffer.readline()
    put("%s %s\n" % (marker, text))
    time.sleep(100)
if kind == "noise":
    put(b"no end\n" * 9999, 10 ** 6)
elif kind == "long line":
    put(b"x" * 65536, 10 ** 6)
elif kind == "long line behind":
    greet()
    put(marker + " ")
    put(b"x" * 65536, 10 ** 6)
elif kind == "noise behind":
    be_host()
    put(b"no end\n" * 9999, 10 ** 6)
elif kind == "frames":
    be_host()
    put(('%s {"job": 77}\n' % marker) * 999, 10 ** 6)
elif kind == "errors":
    greet()
    while True:
        os.write(2, b"a line of errors\n" * 999)
elif kind == "nothing":
    time.sleep(100)
elif kind == "nothing behind":
    greet()
    time.sleep(100)
elif kind == "no answer":
    be_host()
    time.sleep(100)
elif kind == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    be_host()
    sys.stdin.buffer.readline()
    put("%s %s\n" % (marker, json.dumps({"job": 1, "error": "no\x1b[31m luck"})))
    os.close(1)
    while True:
        time.sleep(1)
elif kind == "early end":
    be_host()
elif kind == "marker only":
    put(("%s\n%s \n%s ready\n%s ready 3.9\n" % ((marker,) * 4)) * 5)
    time.sleep(100)
elif kind == "facts":
    be_host(addresses=json.loads(sys.argv[2]), host=[], version={}, peer=7)
    time.sleep(100)
else:
    answer(kind)
"""


class Hostile(FarCase):
    """What comes from there is held against what may come, in bounded time and memory."""

    HASTY = support.with_limits(_LOGIN_TIME=4.0, _LOADING_TIME=4.0, STEP_TIMEOUT=1.0)

    KINDS = (
        ("noise", r"the shell there prints without end: no end"),
        ("long line", r".*"),
        ("long line behind", r".*"),
        ("noise behind", r".*"),
        ("frames", r"no answer in .*"),
        ("errors", r".*"),
        ("nothing", r"no answer in .*"),
        ("nothing behind", r"no answer in .*"),
        ("no answer", r"no answer in .*"),
        ("marker only", r"no answer in .*"),
        ("stubborn", r"no\S*31m luck"),
        ("early end", r"it ended \(status 0\)"),
        ("[1]", r".*"), ("null", r".*"), ("7", r".*"), ("{}", r".*"),
        ("{", r".*"), ('{"job": []}', r".*"), ('{"job": 1}', r".*"),
        ('{"job": 1, "port": 70000}', r".*"), ('{"job": 1, "port": "5201"}', r".*"),
        ('{"job": 1, "port": true}', r".*"),
        ('{"job": 1, "port": -1, "error": {"a": 7}}', r".*"),
        ('{"job": 1, "port": NaN}', r".*"), ('{"job": 1e999}', r".*"),
        ("[" * 100000, r".*"), ('{"job": ' + "9" * 90000 + "}", r".*"),
        ('{"job": 1, "error": "' + "x" * 99999 + '"}', r"x{200,400}"),
    )

    def command(self, kind, *more):
        path = os.path.join(self.folder, "fake.py")
        with open(path, "w") as file:
            file.write(FAKE)
        return "%s -I -S %s %s --" % (
            sys.executable, path, " ".join("'%s'" % word for word in (kind,) + more))

    @staticmethod
    def limited():
        """Let memory be short (a preexec_fn)."""
        resource.setrlimit(resource.RLIMIT_AS, (2 ** 30, 2 ** 30))

    def client(self, kind, more, *arguments):
        words = self.command(kind, *more)
        return support.run(self.HASTY + ("--ssh-command", words, "--ssh", "db1") + FEW + arguments,
                           40.0, preexec_fn=self.limited)

    def test_far_ends_that_are_none(self):
        self.command("")
        for (kind, says), left in support.together(
                lambda kind, says: self.client(kind, ()), self.KINDS, 10):
            with self.subTest(kind[:60]):
                self.fails(left, FAR_ERROR + says)
                self.assertLess(len(left.err), 1000)
        self.nothing_here()

    def test_an_address_that_both_hosts_have_is_that_of_neither(self):
        """A bridge of the same address leads to another server, which would be measured."""
        far = pyperf3.FarHost("user@db1", pyperf3.Settings(ssh="db1"), None, None)
        far.facts = {"addresses": ["172.17.0.1", "192.0.2.7"], "boot": "there"}
        for boot, wanted in (("here", ["db1", "192.0.2.7"]),
                             ("there", ["db1", "172.17.0.1", "192.0.2.7"]),
                             ("", ["db1", "172.17.0.1", "192.0.2.7"])):
            with self.subTest(boot=boot), self.assertRaises(StopIteration) as end:
                next(far.candidates(boot, ["172.17.0.1", "192.0.2.1"]))
            self.assertEqual(end.exception.value, wanted)

    def test_addresses_of_all_kinds(self):
        for addresses in ("7", "{}", "[7]", '["-x", "a b", "::1%", "999.1.1.1"]', "null",
                          '[[["x"]]]'):
            with self.subTest(addresses):
                left = self.client("facts", (addresses,))
                self.fails(left, FAR_ERROR + "no answer in .*")

    def test_a_test_that_is_none(self):
        """A far end that is asked for a client may print what it likes."""
        left = self.client("noise behind", (), "--ssh-dial-back")
        self.assertEqual(left.code, 1, left)
        self.assertLess(len(left.err), 1000)
        self.nothing_here()


if __name__ == "__main__":
    unittest.main()
