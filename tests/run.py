#!/usr/bin/env python3
"""Run the tests with the standard unittest, and end with one plain line of counts.

    python3 tests/run.py [-v] [-q] [NAME ...]

NAME is a module (test_wire), a class or a test (test_wire.Cookies.test_letters); without any,
all tests/test_*.py run. With REQUIRE_PEERS=1 in the environment a missing real iperf3 is a
failure rather than a skip.
"""

import os
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
sys.dont_write_bytecode = True


class Result(unittest.TextTestResult):
    """Count what passed, and tell how long a slow test took."""

    passed = 0

    def startTest(self, test):
        self._began = time.monotonic()
        unittest.TextTestResult.startTest(self, test)

    def addSuccess(self, test):
        self.passed += 1
        unittest.TextTestResult.addSuccess(self, test)

    def addExpectedFailure(self, test, error):
        raise NotImplementedError("a test that is expected to fail tests nothing")


def main(arguments):
    verbosity = 1
    names = []
    for argument in arguments:
        if argument == "-v":
            verbosity = 2
        elif argument == "-q":
            verbosity = 0
        else:
            names.append(argument)
    loader = unittest.TestLoader()
    if names:
        suite = loader.loadTestsFromNames(names)
    else:
        suite = loader.discover(HERE, "test_*.py", HERE)
    runner = unittest.TextTestRunner(verbosity=verbosity, resultclass=Result)
    result = runner.run(suite)
    for test, reason in result.skipped:
        sys.stderr.write("skipped: %s: %s\n" % (test, reason))
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    sys.stderr.flush()
    print("%d passed, %d failed, %d skipped" % (result.passed, failed, len(result.skipped)))
    return 1 if failed or not result.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
