#!/usr/bin/env python3
"""Run the tests with the standard unittest, and end with one plain line of counts.

    python3 tests/run.py [-v] [-q] [-j N] [NAME ...]

NAME is a module (test_wire), a class or a test (test_wire.Cookies.test_letters); without any,
all tests/test_*.py run. -j N: N classes at a time, each in a process of its own. With
REQUIRE_PEERS=1 in the environment a missing real iperf3 is a failure rather than a skip.
"""

import os
import re
import subprocess
import sys
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
sys.dont_write_bytecode = True

LONGEST = ("test_fuzz", "test_interop", "test_udp", "test_loopback", "test_field_reports",
           "test_many")  # they begin first, lest one of them ends last
COUNTS = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped\s*\Z")


class Result(unittest.TextTestResult):
    """Count what passed."""

    passed = 0

    def addSuccess(self, test):
        self.passed += 1
        unittest.TextTestResult.addSuccess(self, test)

    def addExpectedFailure(self, test, error):
        raise NotImplementedError("a test that is expected to fail tests nothing")


def load(names):
    loader = unittest.TestLoader()
    if names:
        return loader.loadTestsFromNames(names)
    return loader.discover(HERE, "test_*.py", HERE)


def cases(suite):
    """Yield the tests of a suite, one by one."""
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            for case in cases(each):
                yield case
        else:
            yield each


def run_here(suite, verbosity):
    """Run tests in this process; returns (passed, failed, skipped)."""
    runner = unittest.TextTestRunner(verbosity=verbosity, resultclass=Result)
    result = runner.run(suite)
    for test, reason in result.skipped:
        sys.stderr.write("skipped: %s: %s\n" % (test, reason))
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    sys.stderr.flush()
    return result.passed, failed, len(result.skipped)


def run_beside(suite, jobs):
    """Run each class of tests in a process, `jobs` at a time; returns the sum of their counts."""
    names = []
    for case in cases(suite):
        kind = type(case)
        if kind.__module__.startswith("unittest"):  # a module that cannot be imported
            name = case.id().split(".")[-1]
        else:
            name = "%s.%s" % (kind.__module__, kind.__name__)
        if name not in names:
            names.append(name)

    def rank(name):
        module = name.split(".")[0]
        return LONGEST.index(module) if module in LONGEST else len(LONGEST)
    names.sort(key=rank)
    totals, lock = [0, 0, 0], threading.Lock()

    def work():
        while True:
            with lock:
                if not names:
                    return
                name = names.pop(0)
            began = time.monotonic()
            process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "-q", name],
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            text = process.communicate()[0].decode("utf-8", "replace")
            match = COUNTS.search(text)
            counts = [int(number) for number in match.groups()] if match else [0, 1, 0]
            with lock:
                totals[:] = [total + count for total, count in zip(totals, counts)]
                sys.stderr.write("%s: %d passed, %d failed, %d skipped (%.0f s)\n" % (
                    (name,) + tuple(counts) + (time.monotonic() - began,)))
                if counts[1] or counts[2]:
                    sys.stderr.write(text)
                sys.stderr.flush()
    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return totals


def main(arguments):
    verbosity, jobs, names = 1, 0, []
    arguments = list(arguments)
    while arguments:
        argument = arguments.pop(0)
        if argument == "-v":
            verbosity = 2
        elif argument == "-q":
            verbosity = 0
        elif argument == "-j":
            jobs = int(arguments.pop(0))
        else:
            names.append(argument)
    suite = load(names)
    counts = run_beside(suite, jobs) if jobs else run_here(suite, verbosity)
    print("%d passed, %d failed, %d skipped" % tuple(counts))
    return 1 if counts[1] or not counts[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
