#!/usr/bin/env python3
"""Check the form of the sources: they compile here, keep to ASCII and 100 columns, the list of
sections in the docstring equals the banners, no section uses a later one, nothing is longer than
it may be, and a linter, where there is one, has no complaint.

With --sizes the lengths and complexities of all sections, and of the largest pieces, are
printed.
"""

import ast
import collections
import glob
import os
import re
import subprocess
import symtable
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LONGEST = {"section": 900, "class": 350, "function": 60}  # lines

# What makes another way through a function (McCabe's number, less one).
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.comprehension)

Piece = collections.namedtuple("Piece", "kind name section lines complexity")


def sections_of_docstring(source):
    text = ast.get_docstring(ast.parse(source))
    listed = text[text.index("Sections"):]
    return re.findall(r"^ {4}([a-z ]+?)  +\S", listed, re.M)


def banners(source):
    """Return [(first line, name)] of the sections."""
    return [(source.count("\n", 0, found.start()) + 1, found.group(1))
            for found in re.finditer(r"^#{79}\n# ([a-z ]+?) #+\n#{79}$", source, re.M)]


class Sections:
    """Say in which section a line stands, and which names each section defines."""

    def __init__(self, source):
        self.source, self.tree = source, ast.parse(source)
        self.starts = banners(source)
        self.lines = source.count("\n")
        self.defined = {}  # name: the section in which it is first bound
        for node in self.tree.body:
            for name in bound_names(node):
                self.defined.setdefault(name, self.at(node.lineno))

    def at(self, line):
        """Return the number of a line's section, -1 before the first."""
        return sum(first <= line for first, _ in self.starts) - 1

    def bound_twice(self):
        """Return the names that two statements of the module bind."""
        names = collections.Counter()
        for node in self.tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                names[node.name] += 1
            for target in node.targets if isinstance(node, ast.Assign) else ():
                names.update(each.id for each in getattr(target, "elts", [target])
                             if isinstance(each, ast.Name))
        return [name for name, count in names.items() if count > 1]

    def uses_of_later_ones(self):
        """Yield (line, name, its section) of each use of a name that a later section defines.

        The line is the first of the function or class. Statements of the module itself need no
        look: Python would not get past them.
        """
        tables = list(symtable.symtable(self.source, "pyperf3.py", "exec").get_children())
        while tables:
            table = tables.pop()
            tables += table.get_children()
            for symbol in table.get_symbols():
                section = self.defined.get(symbol.get_name(), -1)
                if symbol.is_global() and section > self.at(table.get_lineno()):
                    yield table.get_lineno(), symbol.get_name(), self.starts[section][1]

    def pieces(self):
        """Return the sections, classes and functions."""
        ends = [first for first, _ in self.starts[1:]] + [self.lines + 1]
        found = [Piece("section", name, number, end - first, 0)
                 for number, ((first, name), end) in enumerate(zip(self.starts, ends))]
        parents = [(self.tree, "")]
        while parents:
            parent, prefix = parents.pop()
            for node in ast.iter_child_nodes(parent):
                kind = {ast.ClassDef: "class", ast.FunctionDef: "function"}.get(type(node))
                if kind:
                    name = prefix + node.name
                    found.append(Piece(kind, name, self.at(node.lineno), length(node),
                                       complexity(node)))
                    parents.append((node, name + "."))
        return found


def bound_names(node):
    """Return the names that a statement of the module binds."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        return [node.name]
    if isinstance(node, (ast.Assign, ast.For, ast.If, ast.Try)):
        return [each.id for each in ast.walk(node)
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    return []


def length(node):
    """Return the lines from a definition to its last one."""
    return max(getattr(each, "lineno", 0) for each in ast.walk(node)) - node.lineno + 1


def complexity(node):
    """Return McCabe's cyclomatic number of a function, 0 for a class."""
    if isinstance(node, ast.ClassDef):
        return 0
    ways = 1
    for each in ast.walk(node):
        ways += isinstance(each, BRANCHES)
        if isinstance(each, ast.BoolOp):
            ways += len(each.values) - 1
    return ways


def print_sizes(sections):
    pieces = sections.pieces()
    print("%5d lines in all" % sections.lines)
    for piece in pieces:
        if piece.kind == "section":
            inside = [each.complexity for each in pieces
                      if each.section == piece.section and each.kind == "function"]
            print("%5d %-14s %4d functions, mean complexity %.1f" % (
                piece.lines, piece.name, len(inside), sum(inside) / (len(inside) or 1)))
    for kind, column in (("class", 3), ("function", 3), ("function", 4)):
        print("largest by %s:" % ("complexity" if column == 4 else "lines, " + kind))
        for piece in sorted((each for each in pieces if each.kind == kind),
                            key=lambda each: -each[column])[:8]:
            print("%5d %s" % (piece[column], piece.name))


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
    sections = Sections(source)
    listed, titles = sections_of_docstring(source), [name for _, name in sections.starts]
    if listed != titles or len(titles) < 10:
        complaints.append("sections: the docstring lists %s, the banners say %s"
                          % (listed, titles))
    complaints += ["pyperf3.py: %s is bound twice" % name for name in sections.bound_twice()]
    complaints += ["pyperf3.py:%d: %s is of the later section %s" % each
                   for each in sections.uses_of_later_ones()]
    complaints += ["pyperf3.py: %s %s has %d lines" % (piece.kind, piece.name, piece.lines)
                   for piece in sections.pieces() if piece.lines > LONGEST[piece.kind]]
    if subprocess.call([sys.executable, "-c", "import pyflakes"],
                       stderr=subprocess.DEVNULL) == 0:
        linter = subprocess.Popen([sys.executable, "-m", "pyflakes"] + names,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        complaints += linter.communicate()[0].decode("utf-8", "replace").splitlines()
    if "--sizes" in sys.argv:
        print_sizes(sections)
    for line in complaints:
        print(line)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
