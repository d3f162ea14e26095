#!/usr/bin/env python3
"""Check the form of the sources: they compile here, keep to ASCII and 100 columns, the list of
sections in the docstring equals the banners, and a linter, where there is one, has no complaint."""

import ast
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def sections_of_docstring(source):
    text = ast.get_docstring(ast.parse(source))
    listed = text[text.index("Sections"):]
    return re.findall(r"^ {4}([a-z ]+?)  +\S", listed, re.M)


def sections_of_banners(source):
    return re.findall(r"^#{79}\n# ([a-z ]+?) #+\n#{79}$", source, re.M)


def main():
    complaints = []
    names = [os.path.join(ROOT, "pyperf3.py")] + sorted(
        glob.glob(os.path.join(ROOT, "tests", "*.py")))
    for name in names:
        with open(name, "rb") as handle:
            data = handle.read()
        short = os.path.relpath(name, ROOT)
        try:
            compile(data, name, "exec", dont_inherit=True)
        except SyntaxError as error:
            complaints.append("%s: %s" % (short, error))
        for number, line in enumerate(data.split(b"\n"), 1):
            if len(line) > 100:
                complaints.append("%s:%d: more than 100 columns" % (short, number))
            if any(byte > 126 for byte in bytearray(line)):
                complaints.append("%s:%d: not ASCII" % (short, number))
            if line != line.rstrip():
                complaints.append("%s:%d: blanks at the end" % (short, number))
    with open(names[0]) as handle:
        source = handle.read()
    listed, banners = sections_of_docstring(source), sections_of_banners(source)
    if listed != banners or len(banners) < 10:
        complaints.append("sections: the docstring lists %s, the banners say %s"
                          % (listed, banners))
    if subprocess.call([sys.executable, "-c", "import pyflakes"],
                       stderr=subprocess.DEVNULL) == 0:
        linter = subprocess.Popen([sys.executable, "-m", "pyflakes"] + names,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        complaints += linter.communicate()[0].decode("utf-8", "replace").splitlines()
    for line in complaints:
        print(line)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
