"""What the tests of public reports about iperf3 share: programs, run as users run them.

A report has a number (B02), which stands above the test that would have found it, beside the
place where it is public. Ours runs against ours, and against real iperf3 in both roles where that
matters.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile

import figures
import support
from fakes import COOKIE, connect, frame, receive
from support import OURS, together

PARAMETERS = {"tcp": True, "time": 1, "parallel": 1, "len": 131072, "client_version": "3.1"}
REFUSED = ("unable to connect to server - server may have stopped running or use a different port,"
           " firewall issue, etc.: Connection refused")
BUSY = "the server is busy running a test. try again later"
CLOSED = "control socket has closed unexpectedly"
DENIED = "test authorization failed"

# The program with short deadlines.
IMPATIENT = support.with_limits(STEP_TIMEOUT=1.0, REPLY_TIMEOUT=1.0)


def run(command, words, **more):
    """Run a program with arguments in one text, or in a tuple."""
    words = tuple(words.split()) if isinstance(words, str) else tuple(words)
    return support.run(tuple(command) + words, **more)


def client(port, words="-n 1M", command=OURS, host="127.0.0.1", **more):
    words = tuple(words.split()) if isinstance(words, str) else tuple(words)
    return run(tuple(command) + ("-c", host, "-p", port), words, **more)


def pair(words, server_words="", client=OURS, server=OURS, **more):
    """Run a one-off server and a client; returns both (Finished): client, server."""
    return support.run_pair(server, client, words.split(), server_words.split(), **more)


def pairings(old=True):
    """Return (client, server) commands: ours with ours, with the newest, to an old server."""
    new = support.real("3.22")
    found = [(OURS, OURS), (OURS, new), (new, OURS)]
    return found + ([(OURS, support.real("3.12"))] if old else [])


def begin(port, **parameters):
    """Play a client up to the running test; returns (control connection, data connection)."""
    control = connect(port)
    control.sendall(COOKIE + frame(dict(PARAMETERS, **parameters)))
    if receive(control, 2) != b"\x09\x0a":
        raise AssertionError("no streams are asked for")
    data = connect(port)
    data.sendall(COOKIE)
    if receive(control, 2) != b"\x01\x02":
        raise AssertionError("the test does not start")
    return control, data


def abreast(function, items):
    """Do as together() does, with more at a time: for tests of low rates."""
    return together(function, items, 8)


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


class Case(figures.Case):
    """A test of public reports."""

    def serve(self, *words, **more):
        """Start a server that ends with the test; returns (Program, port)."""
        program, port = support.start_server(more.get("command", OURS), *words)
        self.addCleanup(program.__exit__)
        return program, port

    def folder(self):
        path = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, path, True)
        return path

    def honest(self, port, words="-n 1M", command=OURS, **more):
        """Run a client that must end well."""
        left = client(port, words, command, **more)
        self.assertEqual((left.code, left.err), (0, ""), left)
        return left

    def end(self, program, number=signal.SIGTERM):
        """End a program by a signal; returns what it left."""
        program.signal(number)
        left = program.finish(20.0)
        self.assertNotIn("Traceback", left.err)
        return left

    def python_of_nobody(self):
        """Return a Python that others may run, None if there is none, or if this is not root."""
        for path in (sys.executable, "/usr/bin/python3") if os.geteuid() == 0 else ():
            try:
                if subprocess.call((path, "-c", ""), preexec_fn=as_nobody, cwd="/",
                                   stderr=subprocess.DEVNULL) == 0:
                    return path
            except (OSError, subprocess.SubprocessError):
                pass
        return None
