"""Read the captured samples of tests/golden: commands, outputs and JSON documents."""

import collections
import json
import os
import shlex

import support


class Command:
    """The words of one captured command line."""

    def __init__(self, words):
        self.words = words
        self.role = "server" if "-s" in words else "client"

    def has(self, *names):
        return any(name in self.words for name in names)

    def value(self, name, default=None):
        """Return what follows an option, `default` if it was not given."""
        return self.words[self.words.index(name) + 1] if name in self.words else default

    @property
    def mode(self):
        """Return what kind of output the command asks for: text, json or stream."""
        if self.has("--json-stream"):
            return "stream"
        return "json" if self.has("-J") else "text"


class Case:
    """One folder of tests/golden."""

    def __init__(self, name):
        self.name = name
        self.commands = {}  # client, server: Command
        for line in self._read("cmd.txt").splitlines():
            side, _, rest = line.partition(": iperf3")
            if rest or line.endswith(": iperf3"):
                if side in ("client", "server"):
                    self.commands[side] = Command(shlex.split(rest))

    def _read(self, file):
        path = os.path.join(support.GOLDEN, self.name, file)
        with open(path, encoding="utf-8", newline="") as stream:
            return stream.read()

    def out(self, side):
        return self._read(side + ".out")

    def err(self, side):
        return self._read(side + ".err")

    def status(self, side):
        """Return the exit status; 128+N for a process that signal N killed."""
        return int(self._read(side + ".rc"))

    @property
    def about_arguments(self):
        """Return whether the command fails, or ends, while its arguments are read."""
        return self.name == "version" or (
            "client" in self.commands and "Usage: iperf3" in self.err("client"))

    def sides(self, mode):
        """Return the sides whose complete output in this mode was captured."""
        if self.about_arguments:
            return []
        return [side for side in ("client", "server")
                if side in self.commands and self.commands[side].mode == mode
                and self.status(side) != 137]


def cases():
    """Return every Case, in order of the names."""
    return [Case(name) for name in sorted(os.listdir(support.GOLDEN))
            if os.path.isdir(os.path.join(support.GOLDEN, name))]


def outputs(mode):
    """Return (Case, side) of every captured output in this mode that is complete."""
    return [(case, side) for case in cases() for side in case.sides(mode)]


def _last_wins(pairs):
    members = collections.OrderedDict()
    for name, value in pairs:
        members.pop(name, None)  # iperf3: `error` and `target_bitrate` may come twice
        members[name] = value
    return members


def parse(text):
    """Return a JSON value; of two members with one name the last stands, at its own place."""
    return json.loads(text, object_pairs_hook=_last_wins)


def documents(text):
    """Return the JSON documents that stand one after the other in an output."""
    decoder = json.JSONDecoder(object_pairs_hook=_last_wins)
    found, at = [], 0
    while at < len(text):
        document, at = decoder.raw_decode(text, at)
        found.append(document)
        at += 1  # the end of the line
    return found
