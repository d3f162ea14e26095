"""What the tests share: free ports, programs that run beside a test, real iperf3 builds."""

import atexit
import concurrent.futures
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import path
import peers
import pyperf3

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(ROOT, "pyperf3.py")
MEGABYTE = 1024 * 1024
GOLDEN = os.path.join(ROOT, "tests", "golden")
LIMIT = 60.0  # seconds after which a program of a test is ended, and the test fails


# Lets Python start without `site`, which takes longer than all the rest where packages begin
# something of their own: it comes once a module is missing. (So does what `make install` makes.)
PACKAGES = """
import sys
class _Packages:
    @classmethod
    def find_spec(cls, *wanted):
        sys.meta_path.remove(cls)
        import importlib.util, site
        site.main()
        return importlib.util.find_spec(wanted[0])
if __name__ == "__main__" and "site" not in sys.modules:
    sys.meta_path.append(_Packages)
"""

COMPILE = """
import ast, importlib.util, marshal, sys
packages, program, path = sys.argv[1:]
with open(program) as file:
    tree = ast.parse(file.read())
tree.body[1:1] = ast.parse(packages).body  # behind the docstring
with open(path, "wb") as file:
    file.write(importlib.util.MAGIC_NUMBER + bytes(8 if sys.version_info < (3, 7) else 12))
    file.write(marshal.dumps(compile(tree, program, "exec", dont_inherit=True)))
"""


@functools.lru_cache(maxsize=None)
def compiled(python):
    """Return the path of a copy of the program which a Python need not compile at each start.

    It is as good as the file itself wherever the start is not what is tested, and with -S it
    starts in a quarter of the time. `import pyperf3` finds it in its folder, too.
    """
    folder = tempfile.mkdtemp(prefix="pyperf3-test-")
    atexit.register(shutil.rmtree, folder, True)
    os.chmod(folder, 0o755)  # for tests without root's rights
    path = os.path.join(folder, "pyperf3.pyc")
    subprocess.check_call([python, "-I", "-S", "-B", "-c", COMPILE, PACKAGES, PROGRAM, path])
    return path


OURS = (sys.executable, "-S", "-B", compiled(sys.executable))
SOURCE = (sys.executable, "-B", PROGRAM)  # compiled at each start
LIBRARY = os.path.dirname(OURS[-1])  # for PYTHONPATH


_reserved = []  # sockets whose names keep other tests, of any process, off a port


def _reserve(port):
    """Keep a port from the tests of other processes. Raises OSError if one of them has it."""
    if sys.platform.startswith("linux"):  # which has names that are no files
        _reserved.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        _reserved[-1].bind("\0pyperf3-test-%d" % port)


def free_port():
    """Return a TCP port that nothing uses, and that the system will not give to a client."""
    while True:
        # Below the ports of clients (32768 on Linux), which other tests' clients use at a time.
        port = 10000 + struct.unpack("!H", os.urandom(2))[0] % 20000
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
            try:
                _reserve(port)
                sock.bind(("", port))
                return port
            except OSError:
                pass


def free_ports(count):
    """Return the first of `count` ports in a row that nothing uses."""
    for _ in range(200):
        first = 10000 + int.from_bytes(os.urandom(2), "big") % 20000
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    sock = stack.enter_context(socket.socket())
                    sock.bind(("127.0.0.1", port))
                    _reserve(port)
            except OSError:
                continue
            return first
    raise AssertionError("no %d free ports in a row" % count)


def need_path(tun=True):
    """Skip the test where no path of path.py can be made. tun: one with a forwarder."""
    why = path.lack(tun)
    if why:
        raise unittest.SkipTest("a path " + why)


def real(version):
    """Return the command of a real iperf3. Skips the test, or fails it with REQUIRE_PEERS=1."""
    path = peers.find(version)
    if path is None:
        lack("no iperf3 %s here: run `make peers`" % version)
    return (path,)


def lack(message):
    """Skip the test for want of something, or fail it with REQUIRE_PEERS=1."""
    if os.environ.get("REQUIRE_PEERS"):
        raise AssertionError(message)
    raise unittest.SkipTest(message)


def with_quic(gone=None):
    """Return the command of this program in a Python with QUIC libraries, less those named.

    Skips the test where there is none, or fails it with REQUIRE_PEERS=1.
    """
    python = peers.QUIC_PYTHON
    if not os.path.exists(python):
        lack("no QUIC library here: run `make quic-env`")
    return without(gone, python) if gone else (python, "-B", compiled(python))


def quic_code(code):
    """Return the command that runs code, with this program imported, in that Python."""
    python, _, program = with_quic()
    return (python, "-B", "-c", "import sys; sys.path.insert(0, %r); import pyperf3\n%s" % (
        os.path.dirname(program), code))


def driver(code):
    """Return a command that runs the program after some code."""
    return (sys.executable, "-S", "-B", "-c", PACKAGES + "sys.argv[0] = 'pyperf3'\n"
            "sys.path.insert(0, %r)\n%s\nimport pyperf3; sys.exit(pyperf3.main(sys.argv))"
            % (LIBRARY, code))


def with_limits(code="", **limits):
    """Return a command of the program with other limits, as STEP_TIMEOUT=0.5."""
    return driver(code + "import pyperf3\n" + "\n".join(
        "pyperf3.%s = %r" % pair for pair in sorted(limits.items())))


def openssl(*arguments):
    """Run the command openssl, silently; skips the test where there is none.

    Raises subprocess.CalledProcessError.
    """
    if not shutil.which("openssl"):
        raise unittest.SkipTest("no openssl here")
    subprocess.check_call(("openssl",) + arguments, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def concatenate(target, *sources):
    """Write the contents of some files into one."""
    with open(target, "wb") as whole:
        for path in sources:
            with open(path, "rb") as file:
                whole.write(file.read())


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


def without(gone, python=sys.executable):
    """Return the command of this program in a Python without some modules or constants.

    gone: their names, as in "ssl,socket.SO_BINDTODEVICE".
    """
    flags = ("-S", "-B") if python == sys.executable else ("-B",)
    return (python,) + flags + ("-c", WITHOUT, gone, compiled(python))


def environment(**more):
    """Return an environment for programs under test; a value of None takes the name away."""
    values = dict(os.environ, LC_ALL="C", TZ="UTC")
    values.pop("IPERF3_PASSWORD", None)
    values.update(more)
    return {name: value for name, value in values.items() if value is not None}


# Where something of ours follows a text of iperf3's, in brackets.
_REMARKED = re.compile(r"(some option you are trying to set is \w+ only|\(-c\) or server \(-s\)"
                       r"|unable to (?:connect|start listener)[^(\n]*|answer to the cookie"
                       r"|closed unexpectedly|Connection reset by peer|the peer sent [^\n]*)"
                       r" \(.*\)$", re.MULTILINE)


def as_iperf3(text):
    """Return errors of this program as iperf3 prints them: with its name, and nothing of ours."""
    text = text.replace(OURS[-1], PROGRAM).replace(PROGRAM, "iperf3")
    return _REMARKED.sub(r"\1", text)


class Finished:
    """What a program left: out, err (text), code (negative: ended by a signal)."""

    def __init__(self, out, err, code):
        self.out, self.err, self.code = out, err, code

    def json(self):
        """Return the one JSON document on standard output, strictly read."""
        def refuse(name):
            raise ValueError("%s is not JSON" % name)
        return json.loads(self.out, parse_constant=refuse)

    def lines(self):
        return self.out.split("\n")[:-1]

    def __repr__(self):
        return "status %r\n--- out\n%s--- err\n%s---" % (self.code, self.out, self.err)


class Program:
    """A program that runs beside the test. Use it in a `with`; it is ended at the end."""

    def __init__(self, command, **more):
        more.setdefault("env", environment())
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=more.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        self._out, self._err = bytearray(), bytearray()
        self._readers = [
            threading.Thread(target=self._read, args=pair, daemon=True)
            for pair in ((self.process.stdout, self._out), (self.process.stderr, self._err))]
        for thread in self._readers:
            thread.start()

    @staticmethod
    def _read(stream, into):
        while True:
            data = os.read(stream.fileno(), 65536)
            if not data:
                return
            into.extend(data)

    @property
    def pid(self):
        return self.process.pid

    def out(self):
        """Return what it has printed so far."""
        return bytes(self._out).decode("utf-8", "replace")

    def err(self):
        return bytes(self._err).decode("utf-8", "replace")

    def wait_for_error(self, text, count=1):
        """Wait until its standard error holds `text` `count` times."""
        wait_until(lambda: self.err().count(text) >= count, (text, self.err))

    def wait_for(self, text, seconds=LIMIT, count=1):
        """Wait until its standard output holds `text` `count` times."""
        deadline = time.monotonic() + seconds
        while self.out().count(text) < count:
            if self.process.poll() is not None or time.monotonic() > deadline:
                time.sleep(0.1)
                if self.out().count(text) >= count:
                    return
                raise AssertionError("no %r from %r: %r" % (
                    text, self.process.args, (self.process.poll(), self.out(), self.err())))
            time.sleep(0.005)

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def finish(self, seconds=LIMIT):
        """Wait for its end and return what it left (Finished)."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("%r did not end: %r" % (
                self.process.args, (self.out(), self.err())))
        for thread in self._readers:
            thread.join(5.0)
        return Finished(self.out(), self.err(), code)

    def __enter__(self):
        return self

    def __exit__(self, *details):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for thread in self._readers:
            thread.join(5.0)
        self.process.stdout.close()
        self.process.stderr.close()


def run(command, seconds=LIMIT, **more):
    """Run a program to its end and return what it left (Finished)."""
    with Program(command, **more) as program:
        return program.finish(seconds)


def listens(port):
    """Return whether something listens on a TCP port, without connecting to it (Linux)."""
    wanted = ":%04X" % port
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name) as table:
                rows = [line.split() for line in table]
        except OSError:
            continue
        if any(row[1].endswith(wanted) and row[3] == "0A" for row in rows[1:]):
            return True
    return False


def wait_until(condition, what, seconds=LIMIT):
    """Wait until `condition()` is true; what: a text, or the text and what tells the state."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("never: %s" % (
                what if isinstance(what, str) else "%r in %r" % (what[0], what[1]())))
        time.sleep(0.01)


def wait_for_listener(program, port, seconds=LIMIT):
    """Wait until a server listens."""
    deadline = time.monotonic() + seconds
    while not listens(port):
        if program.process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError("no listener on %d: %r" % (
                port, (program.process.poll(), program.out(), program.err())))
        time.sleep(0.005)


def start_server(command, *arguments):
    """Start a server on a free port; returns (Program, port) once it listens."""
    port = free_port()
    program = Program(tuple(command) + ("-s", "-p", port) + arguments)
    wait_for_listener(program, port)
    return program, port


# Beside each other ############################################################


def together(function, items, count=4):
    """Return the pairs of items and function(*item), `count` of which are called at a time.

    For tests that do little but wait.
    """
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(zip(items, pool.map(lambda item: function(*item), items)))


def at_once(functions):
    """Call functions in threads of their own; returns what they return, in order."""
    return [result for _, result in together(
        lambda function: function(), [(each,) for each in functions], len(functions))]


# Processes ####################################################################


def children(pid):
    """Return the processes whose parent is `pid` (Linux)."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name) as stat:
                    if int(stat.read().rsplit(")", 1)[1].split()[1]) == pid:
                        found.append(int(name))
            except OSError:
                pass
    return found


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


class Group:
    """A control group with a limit on memory. Use it in a `with`; skips where none can be made."""

    VERSIONS = (
        ("/sys/fs/cgroup", "memory.max", "memory.current", "memory.events"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
         "memory.oom_control"))
    made = 0

    def __init__(self, megabytes):
        Group.made += 1
        for root, limit, self._usage, self._events in self.VERSIONS:
            self.path = "%s/pyperf3-test-%d-%d" % (root, os.getpid(), Group.made)
            try:
                os.mkdir(self.path)
            except OSError:
                continue
            self._limit = limit
            if os.path.exists(os.path.join(self.path, limit)):
                self.limit(megabytes)
                return
            os.rmdir(self.path)
        raise unittest.SkipTest("no control group with a limit on memory can be made here")

    def limit(self, megabytes):
        with open(os.path.join(self.path, self._limit), "w") as handle:
            handle.write(str(megabytes * MEGABYTE))

    def enter(self):
        """Put this process in: a preexec_fn."""
        with open(os.path.join(self.path, "cgroup.procs"), "w") as handle:
            handle.write("0")

    def _read(self, name):
        with open(os.path.join(self.path, name)) as handle:
            return handle.read()

    def usage(self):
        """Return how many megabytes are in use."""
        return int(self._read(self._usage)) // MEGABYTE

    def kills(self):
        return int(re.search(r"^oom_kill (\d+)", self._read(self._events), re.M).group(1))

    def __enter__(self):
        return self

    def __exit__(self, *details):
        for _ in range(200):
            try:
                os.rmdir(self.path)
                return
            except OSError:  # what was in it has not quite ended
                time.sleep(0.01)


# Networks #####################################################################


def inside(namespace):
    """Return what goes before a command that runs in a network namespace."""
    return ("ip", "netns", "exec", namespace)


def remove_namespaces(*names):
    for name in names:
        subprocess.call(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def conversation(sock=None, host="127.0.0.1", spawn=None, **settings):
    """Return the Conversation of a server about a test, and the list that its events go to.

    sock: the control connection; spawn: begins a task. Its cookie is the one of the test.
    """
    events, done = [], []

    def emit(name, data, **more):
        events.append((name, data))
        return pyperf3.Event(event=name, data=data)
    connection = pyperf3.Connection(None, sock, (host, 1))
    connection.cookie = bytes(pyperf3.make_cookie())
    resources = pyperf3.Resources(pyperf3.Settings(server=True, **settings), 1, spawn,
                                  lambda parameters: None)
    return pyperf3.Conversation(connection, resources, emit, done.append), events


def decode_json(data, room=2 ** 40):
    """Return the value of a JSON text as a peer's is read. Raises ValueError."""
    reading = pyperf3.JsonReader(data, room).read()
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return end.value


class ServerCase(unittest.TestCase):
    """A test with a server of its own, which is ended behind it and has to end well."""

    def serve(self, *arguments, **more):
        """Start a server (program=: not ours), which is then self.server; returns its port."""
        program, port = start_server(more.get("program", OURS), *arguments)
        self.addCleanup(self._end, program)
        self.server = program
        return port

    def _end(self, program):
        with program:
            if program.process.poll() is None:
                program.signal()
            left = program.finish(20.0)
        self.assertEqual(left.code, 0, left)
        self.assertNotIn("Traceback", left.err)


def run_pair(server, client, client_arguments=(), server_arguments=(), host="127.0.0.1",
             seconds=LIMIT):
    """Run a one-off server and a client against it; returns both (Finished): client, server."""
    program, port = start_server(server, "-1", *server_arguments)
    with program:
        left = run(tuple(client) + ("-c", host, "-p", port) + tuple(client_arguments), seconds)
        return left, program.finish(20.0)
