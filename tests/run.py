#!/usr/bin/env python3
"""Run the tests with the standard unittest, and end with one plain line of counts.

    python3 tests/run.py [-v] [-q] [-j N] [NAME ...]

NAME is a module (test_wire), a class or a test (test_wire.Cookies.test_letters); without any,
all tests/test_*.py run. -j N: N classes at a time, each in a process of its own, those first that
took longest the last time (tests/.seconds remembers). With REQUIRE_PEERS=1 in the environment a
missing real iperf3 is a failure rather than a skip.
"""

import collections
import json
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

SECONDS = os.path.join(HERE, ".seconds")  # of each class, in its last run
LONGEST = ("test_fuzz", "test_interop", "test_udp", "test_loopback", "test_field_reports",
           "test_many")  # where nothing is remembered: they begin first, lest one ends last
SLOWEST = 10  # classes that are named at the end
SKIPPED = re.compile(r"(?m)^skipped: (\d+): (.*)\n")
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
    # A test is skipped once, however many of its parts are.
    skipped = {getattr(test, "test_case", test).id(): reason.split("\n")[0]
               for test, reason in result.skipped}
    say_skipped(collections.Counter(skipped.values()))
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    return result.passed, failed, len(skipped)


def say_skipped(reasons):
    """Print how many tests were skipped for each reason."""
    for reason, count in sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0])):
        sys.stderr.write("skipped: %d: %s\n" % (count, reason))
    sys.stderr.flush()


def read_seconds():
    """Return the seconds that each class took the last time."""
    try:
        with open(SECONDS) as handle:
            return json.load(handle)
    except (OSError, ValueError):
        return {}


def write_seconds(seconds):
    try:
        with open(SECONDS + ".new", "w") as handle:
            json.dump(seconds, handle, indent=0, sort_keys=True)
        os.replace(handle.name, SECONDS)
    except OSError:
        pass  # they are a convenience


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

    usual = read_seconds()
    names.sort(key=lambda name: -usual.get(
        name, 100.0 if name.split(".")[0] in LONGEST else 10.0))
    known = [usual[name] for name in names if name in usual]
    of_usual = ""
    if names and len(known) == len(names):
        of_usual = " of some %d" % max(sum(known) / jobs, known[0])
    totals, taken, reasons = [0, 0, 0], {}, collections.Counter()
    lock, start = threading.Lock(), time.monotonic()

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
            now = time.monotonic()
            with lock:
                totals[:] = [total + count for total, count in zip(totals, counts)]
                taken[name] = round(now - began, 1)
                sys.stderr.write("%4d s%s: %s: %d passed, %d failed, %d skipped (%.0f s)\n" % (
                    (now - start, of_usual, name) + tuple(counts) + (taken[name],)))
                for count, reason in SKIPPED.findall(text):
                    reasons[reason] += int(count)
                if counts[1]:
                    sys.stderr.write(SKIPPED.sub("", text))
                sys.stderr.flush()
    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    write_seconds(dict(usual, **taken))
    slowest = sorted(taken, key=taken.get)[:-SLOWEST - 1:-1]
    sys.stderr.write("slowest: %s\n" % ", ".join(
        "%s (%.0f s)" % (name, taken[name]) for name in slowest))
    say_skipped(reasons)
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
