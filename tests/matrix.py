#!/usr/bin/env python3
"""Run the tests with every Python on this machine: pyenv's, the system's, PyPy.

    python3 tests/matrix.py [--ends] [NAME ...]

NAME as in tests/run.py. --ends: only the oldest and the newest.
Says which it found, and ends with the sum of all counts.
"""

import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROBE = "import platform, sys; print(sys.version_info[:3], platform.python_implementation())"


def find_pythons():
    """Return [(version, implementation, path)], one per version, oldest first."""
    names = ["python3"] + ["python3.%d" % minor for minor in range(6, 20)] + ["pypy3"]
    paths = [sys.executable] + [shutil.which(name) for name in names]
    paths += glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3"))
    paths += glob.glob("/usr/bin/python3") + glob.glob("/usr/bin/pypy3")
    found = {}
    for path in paths:
        if not path:
            continue
        try:
            text = subprocess.check_output([path, "-c", PROBE], stderr=subprocess.DEVNULL,
                                           timeout=20).decode()
        except (OSError, subprocess.SubprocessError):
            continue
        match = re.match(r"\((\d+), (\d+), (\d+)\) (\w+)", text)
        if match and match.group(1) == "3" and int(match.group(2)) >= 6:
            version = tuple(int(number) for number in match.groups()[:3])
            found.setdefault((version, match.group(4)), path)
    return [(version, kind, path) for (version, kind), path in sorted(found.items())]


def main(arguments):
    pythons = find_pythons()
    if "--ends" in arguments:
        arguments.remove("--ends")
        chosen = sorted({0, len(pythons) - 1})
        pythons = [pythons[number] for number in chosen]
    totals = [0, 0, 0]
    named = [("%s %s" % (kind, ".".join(str(number) for number in version)), path)
             for version, kind, path in pythons]
    print("found: %s" % ", ".join(name for name, _ in named))
    for name, path in named:
        print("%s (%s)" % (name, path if "--paths" in arguments else os.path.basename(path)))
        sys.stdout.flush()
        process = subprocess.Popen([path, os.path.join(HERE, "run.py")] + arguments,
                                   stdout=subprocess.PIPE)
        out = process.communicate()[0].decode("utf-8", "replace")
        match = re.search(r"(\d+) passed, (\d+) failed, (\d+) skipped\s*$", out)
        counts = [int(number) for number in match.groups()] if match else [0, 1, 0]
        if process.returncode and not counts[1]:
            counts[1] = 1
        print("%s: %d passed, %d failed, %d skipped" % ((name,) + tuple(counts)))
        sys.stdout.flush()
        totals = [total + count for total, count in zip(totals, counts)]
    print("%d passed, %d failed, %d skipped" % tuple(totals))
    return 1 if totals[1] or not totals[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
