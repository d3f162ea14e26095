"""Read the captured samples of tests/golden: commands, outputs and JSON documents."""

import collections
import json
import os
import re
import shlex

import support

# Lines of iperf3's messages, and those that are there without -d, too.
MESSAGE = re.compile(r"(?m)^iperf3: .*\n")
SHOWN = re.compile(r"(?m)^(?:\[|-|- -|Connecting|Accepted|Server listening|iperf Done).*\n"
                   r"|^\n(?=iperf Done)")


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
    def stamp(self):
        """Return a regular expression for what --timestamps put before each line, None if not."""
        for word in self.words:
            if word == "--timestamps":
                return r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4} "
            if word.startswith("--timestamps="):
                layout = re.escape(word.partition("=")[2]).replace("\\%", "%")
                return re.sub("%[HMSdm]", lambda match: r"\d\d", layout)
        return None

    @property
    def debug(self):
        return any(word == "-d" or word.startswith("--debug") for word in self.words)

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

    def printed(self, side):
        """Return all that a side printed: to its log file if it had one, else standard output."""
        command = self.commands.get(side)
        logged = command is not None and command.has("--logfile")
        name = side + (".log" if logged else ".out")
        if logged and not os.path.exists(os.path.join(support.GOLDEN, self.name, name)):
            return ""  # it could not be opened
        return self._read(name)

    def out(self, side):
        """Return what a side printed, without stamps, messages in a log file and debug lines."""
        text = self.printed(side)
        command = self.commands.get(side)
        if command is None:
            return text
        if command.stamp and command.mode == "text":
            text = re.sub("(?m)^" + command.stamp, "", text)
        if command.debug:
            text = "".join(SHOWN.findall(text))
        if command.has("--logfile") and command.mode == "text":
            text = MESSAGE.sub("", text)
        return text

    def err(self, side):
        """Return the messages of a side: on standard error, and in its log file."""
        command = self.commands.get(side)
        text = self._read(side + ".err")
        if command is not None and command.has("--logfile") and command.mode == "text":
            text += "".join(MESSAGE.findall(self.printed(side)))
        return text

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
