"""Changed conversations against both roles: see fuzz.py, which is run here in several processes.

At least 20,000 mutants, always the same: all of the plain TCP test, and of the other conversations
the first of their shuffled lists. FUZZ_ALL=1 in the environment takes all of all.
"""

import json
import os
import subprocess
import sys
import unittest

import fuzz
import support

LEAST = 20000
MOST = 740  # mutants of each conversation but one
FEW = 300  # of those with facts, which test_facts changes more often
PARTS = 5  # in which that one is played
LIMIT = 1800.0  # seconds for one conversation


def most_of(name):
    """Return how many mutants of a conversation to play at most, None for all."""
    if name == "tcp" or os.environ.get("FUZZ_ALL"):
        return None
    return FEW if name.startswith("facts") else MOST


def play(role, name, part):
    """Play mutants of one conversation in a process of its own; returns the summary."""
    words = ["--role", role, "--conversation", name, "--part", "%d/%d" % part]
    if most_of(name):
        words += ["--most", str(most_of(name))]
    left = subprocess.Popen(
        [sys.executable, "-B", fuzz.__file__] + words, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=support.environment(PYTHONPATH=support.LIBRARY))
    try:
        text = left.communicate(timeout=LIMIT)[0].decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        left.kill()
        text = left.communicate()[0].decode("utf-8", "replace")
    try:
        return json.loads(text.strip().split("\n")[-1])
    except ValueError:
        raise AssertionError("the fuzzer failed: %s" % text[-3000:])


@unittest.skipUnless(sys.platform.startswith("linux"), "it reads /proc")
class Mutants(unittest.TestCase):
    """Each conversation is a test, and each part of the one of which all are played."""

    maxDiff = None


def _mutants_test(role, name, part):
    def test(self):
        expected = len(fuzz.chosen(role, name, fuzz.SEED, most_of(name), part)[0])
        summary = play(role, name, part)
        self.assertFalse(summary["failures"], "%d failures, the first of them:\n%s" % (
            summary["failed"], "\n".join(summary["failures"])))
        self.assertEqual(summary["mutants"], expected)
        # Else the changes would be met by nothing but the first steps.
        self.assertGreater(summary["complete"], 0, summary)
    return test


for _role, _names in fuzz.ROLES:
    for _name in _names:
        _count = PARTS if _name == "tcp" or os.environ.get("FUZZ_ALL") else 1
        for _number in range(_count):
            setattr(Mutants, "test_%s_%s_%d" % (_role, _name.replace("-", "_"), _number),
                    _mutants_test(_role, _name, (_number, _count)))


class Lists(unittest.TestCase):
    def test_there_are_enough(self):
        self.assertGreaterEqual(sum(
            len(fuzz.mutants(role, name, fuzz.SEED, most_of(name)))
            for role, names in fuzz.ROLES for name in names), LEAST)

    def test_a_seed_gives_the_same_mutants(self):
        for role, name in (("server", "udp"), ("client", "denial")):
            self.assertEqual(fuzz.mutants(role, name, 5), fuzz.mutants(role, name, 5))
            self.assertNotEqual(fuzz.mutants(role, name, 5), fuzz.mutants(role, name, 6))

    def test_every_byte_is_cut_flipped_doubled_and_delayed(self):
        conversation = fuzz.CONVERSATIONS["tcp"]
        for role, side in (("server", "client"), ("client", "server")):
            found = {(each.kind, each.step, each.at)
                     for mutant in fuzz.mutants(role, "tcp", fuzz.SEED) if len(mutant) == 1
                     for each in mutant}
            for number, step in enumerate(conversation.steps):
                count = len(fuzz.encode(step.what, 0))
                if step.sender == side and step.what != fuzz.BLOCK:
                    for at in range(count):
                        for kind in ("cut", "flipped", "doubled", "delayed"):
                            self.assertIn((kind, number, at), found)


if __name__ == "__main__":
    sys.exit(unittest.main())
