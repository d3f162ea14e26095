#!/usr/bin/env python3
"""Run the tests with the standard unittest, and end with one plain line of counts.

    python3 tests/run.py [-v] [-q] [-j N] [--keep] [--but CLASS ...] [NAME ...]

NAME is a module (test_wire), a class or a test (test_wire.Cookies.test_letters); without any,
all tests/test_*.py run. --but: not the classes of this name, in any module. With REQUIRE_PEERS=1
in the environment a missing real iperf3 is a failure rather than a skip.

-j N: N classes at a time, each in a process of its own, and more of them while N cores have time to
spare: most tests wait rather than compute. Those that take longest begin first, and a long class
without fixtures is dealt out to several processes. What each takes stands in tests/seconds.json
(--keep writes it), and in tests/.seconds, which every run writes. A class whose figures suffer from
others says in its attribute `cores` how many it needs to be free. At the end what failed runs once
more with nothing beside it, if that is little: a line says what then passed, and only what fails
again counts as failed. Where other guests of a virtual machine take its processors (steal), such
figures tell nothing: a class with `cores` runs up to three times more then, and what fails in each
of these without an error of another kind counts as skipped, with how much was taken.
"""

import collections
import json
import os
import random
import re
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
sys.dont_write_bytecode = True

KEPT = os.path.join(HERE, "seconds.json")  # {class: seconds} of a quiet machine
LAST = os.path.join(HERE, ".seconds")  # the same of the last run here
UNKNOWN = 9.0  # seconds of a class that is in neither
PART = 10.0  # seconds that a part of a class takes
CROWD = 6  # parts at a time for each core at most
SPARE = 0.3  # cores that are to be idle where one more begins
LOOK = 0.5  # seconds over which that is measured
SLOWEST = 10  # classes that are named at the end
AGAIN = 12  # parts that may fail and run once more, alone
STARVED = 3  # times that it runs at most where other guests take ...
STOLEN = 0.05  # ... so much of all CPU time
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


# Side by side #################################################################


def read_seconds(path):
    try:
        with open(path) as handle:
            return json.load(handle)
    except (OSError, ValueError):
        return {}


def write_seconds(path, seconds):
    """Add to a file what classes take, one a line."""
    known = dict(read_seconds(path), **seconds)
    try:
        with open(path + ".new", "w") as handle:
            handle.write("{\n%s\n}\n" % ",\n".join(
                "%s: %.1f" % (json.dumps(name), known[name]) for name in sorted(known)))
        os.replace(handle.name, path)
    except OSError:
        pass  # they are a convenience


def class_of(case):
    """Return the name of a test's class, or of a module that cannot be imported."""
    kind = type(case)
    if kind.__module__.startswith("unittest"):
        return case.id().split(".")[-1]
    return "%s.%s" % (kind.__module__, kind.__name__)


def has_fixtures(kind):
    """Return whether the tests of a class share something that is made before them."""
    return (kind.setUpClass.__func__ is not unittest.TestCase.setUpClass.__func__
            or hasattr(sys.modules[kind.__module__], "setUpModule"))


class Ticks:
    """Measure what became of the cores' time since it was made (Linux; elsewhere nothing ever)."""

    def __init__(self):
        self._made, self._before = time.monotonic(), self._read()

    @staticmethod
    def _read():
        """Return the ticks of all cores: (all, idle ones, those that other guests took)."""
        try:
            with open("/proc/stat") as handle:
                ticks = [int(word) for word in handle.readline().split()[1:9]]
        except OSError:
            return 0, 0, 0
        return sum(ticks), ticks[3] + ticks[4], ticks[7]

    def _since(self):
        return [now - before for now, before in zip(self._read(), self._before)]

    def seconds(self):
        return time.monotonic() - self._made

    def idle_cores(self):
        ticks, idle, _ = self._since()
        return (os.cpu_count() or 1) * idle / max(1.0, ticks)

    def stolen_share(self):
        ticks, _, stolen = self._since()
        return stolen / max(1.0, ticks)


class Part:
    """Some or all tests of a class, which run in a process of their own.

    seconds: that it takes, as far as is known; cores: that it needs to be free.
    """

    def __init__(self, name, tests, number, count, seconds):
        self.name, self.tests = name, tests[number::count]
        self.label = name if count == 1 else "%s %d/%d" % (name, number + 1, count)
        self.seconds = seconds / count
        self.cores = getattr(tests[0], "cores", 0.0)

    def start(self):
        """Start the process; returns its id."""
        self.ticks, self.output = Ticks(), tempfile.TemporaryFile()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            random.seed()
            os.dup2(self.output.fileno(), 1)
            os.dup2(self.output.fileno(), 2)
            print("%d passed, %d failed, %d skipped" % run_here(
                unittest.TestSuite(self.tests), 0))
            sys.stdout.flush()
            sys.stderr.flush()
            status = 0
        finally:
            os._exit(status)

    def finish(self, usage):
        """Take what the process left, and its resources."""
        self.seconds, self.stolen = self.ticks.seconds(), self.ticks.stolen_share()
        self.cpu = usage.ru_utime + usage.ru_stime
        with self.output:
            self.output.seek(0)
            self.text = self.output.read().decode("utf-8", "replace")
        match = COUNTS.search(self.text)
        self.counts = [int(number) for number in match.groups()] if match else [0, 1, 0]

    def run(self):
        """Run it to its end, with nothing beside it."""
        pid = self.start()
        self.finish(os.wait4(pid, 0)[2])

    def is_starved(self):
        """Return whether what failed are figures that other guests may have spoiled."""
        return bool(self.cores and self.counts[1] and self.stolen >= STOLEN
                    and not re.search("(?m)^ERROR: ", self.text) and COUNTS.search(self.text))


def make_parts(suite):
    """Return the Parts of a suite, those that take longest first."""
    usual = dict(read_seconds(KEPT), **read_seconds(LAST))
    classes = collections.OrderedDict()
    for case in cases(suite):
        classes.setdefault(class_of(case), []).append(case)
    parts = []
    for name, tests in classes.items():
        seconds = usual.get(name, UNKNOWN)
        count = 1 if has_fixtures(type(tests[0])) else min(len(tests), int(seconds / PART) + 1)
        parts += [Part(name, tests, number, count, seconds) for number in range(count)]
    return sorted(parts, key=lambda part: -part.seconds)


def has_room(part, running, least, idle):
    """Return whether one more Part may begin beside those that run, at least so many."""
    if len(running) < least:
        return True
    need = SPARE + part.cores + sum(other.cores for other in running)
    return (len(running) < CROWD * least and idle.seconds() >= LOOK and idle.idle_cores() >= need)


def run_again(part, reasons):
    """Run a Part once more, alone, and more often where other guests take the processors.

    What they spoil each time becomes skipped; reasons: {why: tests that were skipped}.
    """
    for _ in range(STARVED):
        part.run()
        sys.stderr.write("once more, alone: %s: %d passed, %d failed, %d skipped\n%s" % (
            (part.label,) + tuple(part.counts)
            + (SKIPPED.sub("", part.text) if part.counts[1] else "",)))
        sys.stderr.flush()
        if not part.is_starved():
            return
    passed, failed, skipped = part.counts
    part.counts = [passed, 0, skipped + failed]
    reasons["other guests took %.0f %% of the CPU time: %s" % (
        100 * part.stolen, part.label)] += failed


def run_beside(suite, least):
    """Run the classes of tests side by side, at least so many at a time.

    Returns the sum of their counts, and the seconds that each class took.
    """
    waiting, running = make_parts(suite), {}
    totals, reasons, start = [0, 0, 0], collections.Counter(), time.monotonic()
    taken, used, failed = collections.Counter(), collections.Counter(), []
    count, idle = len(waiting), Ticks()
    while waiting or running:
        if waiting and has_room(waiting[0], running.values(), least, idle):
            part = waiting.pop(0)
            running[part.start()] = part
            idle = Ticks()
            continue
        if idle.seconds() > 2 * LOOK:
            idle = Ticks()
        pid, _, usage = os.wait4(-1, os.WNOHANG)
        if not pid:
            time.sleep(0.02)
            continue
        part = running.pop(pid, None)
        if part is None:
            continue  # an orphan, where this is the first process of a container
        part.finish(usage)
        totals = [total + more for total, more in zip(totals, part.counts)]
        taken[part.name] += part.seconds
        used[part.name] += part.cpu
        sys.stderr.write("%4d s, %d of %d left, %d run: %s: %d passed, %d failed, %d skipped "
                         "(%.0f s, %.0f of CPU)\n" % (
                             (time.monotonic() - start, len(waiting) + len(running), count,
                              len(running), part.label) + tuple(part.counts)
                             + (part.seconds, part.cpu)))
        for number, reason in SKIPPED.findall(part.text):
            reasons[reason] += int(number)
        if part.counts[1]:
            sys.stderr.write(SKIPPED.sub("", part.text))
            failed.append(part)
        sys.stderr.flush()
    for part in failed if len(failed) <= AGAIN else ():
        before = part.counts
        run_again(part, reasons)
        totals = [total - old + new for total, old, new in zip(totals, before, part.counts)]
    for what, figures in (("longest", taken), ("most CPU", used)):
        sys.stderr.write("%s: %s\n" % (what, ", ".join(
            "%s (%.0f s)" % pair for pair in figures.most_common(SLOWEST))))
    sys.stderr.write("took %.0f s, and %.0f s of CPU\n" % (
        time.monotonic() - start, sum(used.values())))
    say_skipped(reasons)
    return totals, taken


def main(arguments):
    verbosity, least, keep, names, but = 1, 0, False, [], []
    arguments = list(arguments)
    while arguments:
        argument = arguments.pop(0)
        if argument == "-v":
            verbosity = 2
        elif argument == "-q":
            verbosity = 0
        elif argument == "-j":
            least = int(arguments.pop(0))
        elif argument == "--but":
            but.append(arguments.pop(0))
        elif argument == "--keep":
            keep = True
        else:
            names.append(argument)
    suite = load(names)
    os.chdir(HERE)  # else `python -c "import pyperf3"` finds the file that it has to compile
    if but:
        suite = unittest.TestSuite(case for case in cases(suite) if type(case).__name__ not in but)
    if least and hasattr(os, "fork"):
        counts, taken = run_beside(suite, least)
        if not any(name.count(".") > 1 for name in names):  # whole classes
            for path in (LAST, KEPT) if keep else (LAST,):
                write_seconds(path, taken)
    else:
        counts = run_here(suite, verbosity)
    print("%d passed, %d failed, %d skipped" % tuple(counts))
    return 1 if counts[1] or not counts[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
