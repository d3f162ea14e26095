"""Changed conversations against both roles: see fuzz.py, which is run here in several processes.

At least 20,000 mutants, always the same: all of the plain TCP test, and of the other conversations
the first of their shuffled lists. FUZZ_ALL=1 in the environment takes all of all.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import unittest

import fuzz
import support

LEAST = 20000
MOST = 740  # mutants of each conversation but one
WORKERS = 4  # they wait for each other more than they work
LIMIT = 1800.0  # seconds for one conversation


def jobs():
    """Return (role, conversation, how many mutants), the largest first."""
    found = []
    for role, names in fuzz.ROLES:
        for name in names:
            count = len(fuzz.mutants(role, name, fuzz.SEED))
            if name != "tcp" and not os.environ.get("FUZZ_ALL"):
                count = min(count, MOST)
            found.append((role, name, count))
    return sorted(found, key=lambda job: -job[2])


def play(job):
    """Play the mutants of one conversation in a process of its own; returns the summary."""
    role, name, count = job
    left = subprocess.Popen(
        [sys.executable, "-B", fuzz.__file__, "--role", role, "--conversation", name,
         "--most", str(count)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=support.environment())
    try:
        text = left.communicate(timeout=LIMIT)[0].decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        left.kill()
        text = left.communicate()[0].decode("utf-8", "replace")
    try:
        return json.loads(text.strip().split("\n")[-1])
    except ValueError:
        return {"role": role, "conversation": name, "mutants": 0, "failed": 1,
                "failures": ["the fuzzer failed: %s" % text[-3000:]]}


@unittest.skipUnless(sys.platform.startswith("linux"), "it reads /proc")
class Mutants(unittest.TestCase):
    maxDiff = None

    def test_mutants_of_both_roles(self):
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            summaries = list(pool.map(play, jobs()))
        failures = [text for summary in summaries for text in summary["failures"]]
        failed = sum(summary["failed"] for summary in summaries)
        self.assertFalse(failures, "%d failures, the first of each conversation:\n%s" % (
            failed, "\n".join(failures)))
        self.assertGreaterEqual(sum(summary["mutants"] for summary in summaries), LEAST)
        for summary in summaries:
            # Else the changes would be met by nothing but the first steps.
            self.assertGreater(summary["complete"], 0, summary)


class Lists(unittest.TestCase):
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
