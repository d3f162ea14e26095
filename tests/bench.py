#!/usr/bin/env python3
"""Measure pyperf3 against iperf3 3.22 in turn on this machine's loopback.

    python3 tests/peers.py              # once: fetch iperf3 3.22
    python3 tests/bench.py              # or: make bench
    python3 tests/bench.py "TCP -P 4"   # one row; every row whose name has that if none is it
    python3 tests/bench.py --against OTHER.py "TCP -P 4"   # two files of pyperf3

Each row of the table is a number of interleaved pairs of tests: one with pyperf3 at both
ends, one with iperf3 at both ends, in the order AB BA AB ..., so that a drift of the
machine's speed cancels. The figures of a test are what the receiver got per second, and
the CPU seconds of both ends (their whole process trees, from start to exit) per byte
received; of UDP also the datagrams sent per second, and what share of them was lost. Ratios
are pyperf3 / iperf3 within a pair; the table gives their median. In a row "from iperf3" both
runs of a pair have iperf3's sender, so that it compares receivers.

The exit status is 1 if a run failed or a row missed its goal.
"""

import argparse
import collections
import glob
import json
import os
import platform
import re
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import peers  # noqa: E402  (it is a neighbour, wherever this is run from)

PYPERF3 = os.path.join(os.path.dirname(HERE), "pyperf3.py")
PEER = "3.22"

# name: as shown, and as the command line selects it
# client: arguments of both programs' clients
# both: further arguments of pyperf3's client and server, which iperf3 does not get
# own: further arguments of pyperf3's client
# quic: pyperf3's client has these arguments in place of the others, in the Python of quic-env
# twin: pyperf3 runs in place of iperf3, its client with these arguments
# mixed: iperf3 is the client in both runs of a pair
# goals, or None: the least ratio of bit/s (rate), the greatest of CPU time per byte (cpu), the
# least of datagrams sent per second (sent), whether no more may be lost than with iperf3 (loss)
Cell = collections.namedtuple("Cell", "name client both own quic twin mixed rate cpu sent loss")


def cell(name, client, both="", own="", quic="", twin="", mixed=False, rate=None, cpu=None,
         sent=None, loss=False):
    return Cell(name, client.split(), both.split(), own.split(), quic.split(), twin.split(), mixed,
                rate, cpu, sent, loss)


# Goals that rows of a kind share.
FASTER = {"rate": 1.1, "cpu": 1.05}
JOINED = {"rate": 3.0, "cpu": 1.0}

CELLS = [
    cell("TCP", "", **FASTER),
    cell("TCP -R", "-R", **FASTER),
    cell("TCP --bidir", "--bidir", **FASTER),
    cell("TCP -P 4", "-P 4", **FASTER),
    cell("TCP -P 8", "-P 8", **FASTER),
    cell("TCP -P 16", "-P 16", rate=1.0),
    cell("TCP -P 64", "-P 64", rate=1.0),
    cell("TCP -P 128", "-P 128", rate=1.0),
    cell("TCP -Z", "-Z", **FASTER),
    cell("TCP --skip-rx-copy", "--skip-rx-copy", **FASTER),
    cell("--threads", "", "--threads"),
    cell("--threads -R", "-R", "--threads"),
    cell("--threads -P 4", "-P 4", "--threads"),
    cell("--threads -P 8", "-P 8", "--threads"),
    cell("TLS against TCP", "", own="--tls", rate=0.35),
    cell("TLS -R against TCP -R", "-R", own="--tls", rate=0.35),
    cell("TLS -P 4 against TCP -P 4", "-P 4", own="--tls"),
    cell("TLS -P 4 against TLS", "--tls -P 4", twin="--tls", rate=1.0),
    cell("QUIC against UDP -R", "-u -R -b 0 -l 1400", quic="--quic", rate=1.5),
    cell("QUIC -R against UDP -R", "-u -R -b 0 -l 1400", quic="--quic -R", rate=1.5),
    cell("QUIC at 8972 against UDP -R", "-u -R -b 0 -l 1400", quic="--quic -M 8972", rate=1.5),
    cell("QUIC -R at 8972 against UDP -R", "-u -R -b 0 -l 1400", quic="--quic -R -M 8972",
         rate=1.5),
    cell("QUIC at 1400 against UDP -R", "-u -R -b 0 -l 1400", quic="--quic -M 1400", rate=0.57),
    cell("QUIC -R at 1400 against UDP -R", "-u -R -b 0 -l 1400", quic="--quic -R -M 1400",
         rate=0.57),
    cell("QUIC -P 4 against UDP -R -P 4", "-u -R -b 0 -l 1400 -P 4", quic="--quic -P 4"),
    cell("UDP -b 0 -l 1400", "-u -b 0 -l 1400", **JOINED),
    cell("UDP -b 0 -l 1400 -R", "-u -b 0 -l 1400 -R", **JOINED),
    cell("UDP -b 0 -l 1400 -6", "-u -b 0 -l 1400 -6", **JOINED),
    cell("UDP -b 0 -l 1400 -P 4", "-u -b 0 -l 1400 -P 4", rate=2.0, cpu=1.0),
    cell("UDP -b 0 -l 1400 -P 4 -R", "-u -b 0 -l 1400 -P 4 -R", rate=2.0, cpu=1.0),
    cell("UDP -b 0", "-u -b 0", rate=1.2, cpu=1.0),
    cell("UDP -b 0 -R", "-u -b 0 -R", rate=1.2, cpu=1.0),
    cell("UDP -b 0 -6", "-u -b 0 -6", rate=1.2, cpu=1.0),
    cell("UDP -b 0 -l 8900", "-u -b 0 -l 8900", rate=1.2, cpu=1.0),
    cell("UDP -b 0 -l 64", "-u -b 0 -l 64", **JOINED),
    cell("UDP -b 0 -l 1400 --gsro", "-u -b 0 -l 1400 --gsro", rate=1.1, cpu=1.0),
    cell("UDP -b 500M -l 1400", "-u -b 500M -l 1400", loss=True),
    cell("UDP -b 1G -l 8900", "-u -b 1G -l 8900", loss=True),
    cell("UDP -b 0 -l 1400 --no-sendmmsg", "-u -b 0 -l 1400", "--no-sendmmsg"),
    cell("UDP -b 500M -l 1400 from iperf3", "-u -b 500M -l 1400", mixed=True, loss=True),
    cell("UDP -b 1G -l 8900 from iperf3", "-u -b 1G -l 8900", mixed=True, loss=True),
    cell("UDP -b 0 -l 1400 from iperf3", "-u -b 0 -l 1400", mixed=True, loss=True),
    cell("UDP -b 0 -l 1400 -P 4 from iperf3", "-u -b 0 -l 1400 -P 4", mixed=True, loss=True),
    cell("UDP -b 0 from iperf3", "-u -b 0", mixed=True, loss=True),
    cell("UDP -b 0 -l 1400 --gsro from iperf3", "-u -b 0 -l 1400 --gsro", mixed=True, loss=True),
]

# rate: bit/s received; cpu: CPU seconds per byte received; sent: datagrams per second, lost:
# percent, both None for TCP; size: bytes of QUIC's datagrams, 0 if it has none or does not tell
Figures = collections.namedtuple("Figures", "rate cpu sent lost size")

IMPORTS = "import argparse, json, selectors, socket"
STARTS = 15
MEMORY = ["-P", "8", "-t", "3"]


class Failure(Exception):
    """A run failed; the text says why, in one line."""


# Running one test


class Child:
    """A program run in a process group of its own, with its output in unnamed files."""

    def __init__(self, command):
        self.output = tempfile.TemporaryFile()
        self.errors = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.errors,
                start_new_session=True)
        except OSError as error:
            raise Failure("can not run %s: %s" % (command[0], error.strerror))
        self.pid = self.process.pid
        self.usage = None

    def poll(self):
        """Return the exit status (a signal's number is negative), or None while it runs."""
        if (self.process.returncode is None
                and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)):
            # It has ended, but holds its id until wait4: end what it may have left behind.
            os.killpg(self.pid, signal.SIGKILL)
            _, status, self.usage = os.wait4(self.pid, 0)
            self.process.returncode = (-os.WTERMSIG(status) if os.WIFSIGNALED(status)
                                       else os.WEXITSTATUS(status))
        return self.process.returncode

    def wait(self, seconds, step=0.01):
        """Wait for the end and return the exit status; fail if it takes too long.

        It is looked for every step seconds.
        """
        end = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > end:
                raise Failure("no end after %.0f s" % seconds)
            time.sleep(step)
        return self.process.returncode

    def close(self):
        """Kill the process and its group, unless it has ended, and drop its output."""
        if self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.wait(10)
        self.output.close()
        self.errors.close()

    def cpu(self):
        """Return the CPU seconds of the process and all descendants waited for."""
        return self.usage.ru_utime + self.usage.ru_stime

    def text(self, file):
        """Return what the program has written to self.output or self.errors."""
        file.seek(0)
        return file.read().decode("utf-8", "replace")

    def last_words(self):
        """Return the most telling line of its error messages, or else of its output."""
        text = self.text(self.errors).strip() or self.text(self.output).strip()
        lines = text.split("\n")
        telling = [line for line in lines if "error" in line.lower()] or lines[:1]
        return telling[-1].strip()[:160] or "no message"


def free_port():
    """Return a TCP port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def listening(port):
    """Tell from /proc, without connecting, whether a TCP port is listened on."""
    entry = re.compile(r"^\s*\d+: \w+:%04X \w+:0000 0A " % port, re.M)
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name) as file:
                if entry.search(file.read()):
                    return True
        except OSError:
            pass  # no IPv6
    return False


def measure(command, both, client_args, seconds, look=None, peer=None):
    """Run a one-off server and a client of a program and return what look() returned.

    Without look, return Figures. peer: the client's command, if it is another program.
    """
    server = client = None
    port = str(free_port())
    try:
        server = Child(command + ["-s", "-1", "-p", port] + both)
        end = time.monotonic() + 10
        while not listening(int(port)):
            if server.poll() is not None:
                raise Failure("server: " + server.last_words())
            if time.monotonic() > end:
                raise Failure("server: does not listen after 10 s")
            time.sleep(0.005)
        host = "::1" if "-6" in client_args else "127.0.0.1"
        client = Child((peer or command) + ["-c", host, "-p", port, "-J"] + client_args
                       + ([] if peer else both))
        seen = look(client, server) if look else None
        for child, name, limit in ((client, "client", seconds + 15), (server, "server", 10)):
            try:
                status = child.wait(limit)
            except Failure as error:
                raise Failure("%s: %s" % (name, error))
            if status:
                raise Failure("%s: status %d: %s" % (name, status, complaint(child)))
        return seen if look else figures(client, server)
    finally:
        for child in (client, server):
            if child:
                child.close()


def complaint(child):
    """Return the error in a child's JSON output, or else its last words."""
    try:
        return json.loads(child.text(child.output))["error"]
    except (ValueError, KeyError, TypeError):
        return child.last_words()


def figures(client, server):
    """Return the Figures of a finished test."""
    try:
        result = json.loads(client.text(client.output))
        if "error" in result:
            raise Failure("client: " + result["error"])
        sums = [result["end"]["sum_received"]]
        if "sum_received_bidir_reverse" in result["end"]:
            sums.append(result["end"]["sum_received_bidir_reverse"])
        rate = sum(part["bits_per_second"] for part in sums)
        received = sum(part["bytes"] for part in sums)
        sent = lost = None
        if "packets" in sums[0]:
            part = result["end"]["sum_sent"]
            sent = part["packets"] / part["seconds"]
            lost = 100.0 * result["end"]["sum"]["lost_packets"] / part["packets"]
    except (ValueError, KeyError, TypeError) as error:
        raise Failure("client: no proper JSON (%s: %s)" % (type(error).__name__, error))
    if not rate or not received:
        raise Failure("client: nothing received")
    streams = result["end"].get("pyperf3", {}).get("quic_streams", ())
    size = max([row.get("datagram_size", 0) for row in streams] or [0])
    return Figures(rate, (client.cpu() + server.cpu()) / received, sent, lost, size)


# Memory


def tree(top):
    """Return the ids of a process and all its descendants."""
    children = collections.defaultdict(list)
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                text = file.read()
        except OSError:
            continue  # it has ended
        parent = int(text.rpartition(")")[2].split()[1])
        children[parent].append(int(path.split("/")[2]))
    found = [top]
    for pid in found:
        found.extend(children[pid])
    return found


def memory(top):
    """Return (sum of Pss, largest Rss, number of processes) of a process tree, in MB."""
    pss, rss = [], []
    for pid in tree(top):
        try:
            with open("/proc/%d/smaps_rollup" % pid) as file:
                fields = dict(re.findall(r"^(\w+):\s+(\d+) kB", file.read(), re.M))
        except OSError:
            continue  # it has ended
        if "Pss" in fields and "Rss" in fields:
            pss.append(int(fields["Pss"]) * 1024 / 1e6)
            rss.append(int(fields["Rss"]) * 1024 / 1e6)
    if not pss:
        raise Failure("its memory can not be read")
    return sum(pss), max(rss), len(pss)


def look_at_memory(client, server):
    """Return memory() of both ends, 1.5 s after the start of the client."""
    time.sleep(1.5)
    if client.poll() is not None:
        raise Failure("client: ended early: " + complaint(client))
    return memory(client.pid), memory(server.pid)


# The sections of the report


def say(text=""):
    """Print a line at once."""
    print(text, flush=True)


# What one run of a pair is: a command, the arguments of both its ends, those of its client, and
# the command of the client if that is another program.
Run = collections.namedtuple("Run", "command both client peer")


def pair_of_runs(cell, pyperf3, iperf3, other):
    """Return the two Runs of a cell. other: the command of another pyperf3 for the second."""
    def own(command):
        if cell.quic:
            file = command[-1] if other else PYPERF3
            return Run([peers.QUIC_PYTHON, file], cell.both, cell.quic, None)
        peer = iperf3 if cell.mixed else None
        return Run(command, cell.both, cell.client + cell.own, peer)
    if other:
        return own(pyperf3), own(other)
    if cell.twin:
        return own(pyperf3), own(pyperf3)._replace(client=cell.twin)
    return own(pyperf3), Run(iperf3, [], cell.client, None)


def rows(cells, pyperf3, iperf3, other, pairs, seconds):
    """Run the cells, print the table, and return the failures as lines."""
    failures = []
    second = "other" if other else "iperf3"
    heads = ["test", "bit/s ratio", "min..max", "pyperf3 Gbit/s", second + " Gbit/s",
             "CPU s/byte ratio", "datagrams/s ratio", "lost % pyperf3, " + second, "pairs",
             "goals"]
    say("| %s |" % " | ".join(heads))
    say("|%s" % (" --- |" + " ---: |" * (len(heads) - 1)))
    for cell in cells:
        if other:
            cell = cell._replace(rate=None, cpu=None, sent=None, loss=False)
        done, runs = [], pair_of_runs(cell, pyperf3, iperf3, other)
        for number in range(pairs):
            pair = [None, None]
            for which in (0, 1) if number % 2 == 0 else (1, 0):
                run = runs[which]
                try:
                    pair[which] = measure(run.command, run.both,
                                          run.client + ["-t", str(seconds)], seconds,
                                          peer=run.peer)
                except Failure as error:
                    failures.append("%s, pair %d, %s: %s" % (
                        cell.name, number + 1, (which and second) or "pyperf3", error))
            if None not in pair:
                done.append(pair)
        columns, missed = summary(cell, done) if done else (["-"] * 7, [])
        columns.append("%d/%d" % (len(done), pairs))
        columns.append(", ".join(
            ["rate >= %s" % cell.rate] * bool(cell.rate) + ["CPU <= %s" % cell.cpu] * bool(cell.cpu)
            + ["sent >= %s" % cell.sent] * bool(cell.sent)
            + ["lost <= iperf3's"] * cell.loss) or "-")
        size = done[0][0].size if done else 0
        name = "%s (datagrams of %d bytes)" % (cell.name, size) if size else cell.name
        say("| %s | %s |" % (name, " | ".join(columns)))
        failures += ["%s: goal missed: %s" % (cell.name, text) for text in missed]
    return failures


def summary(cell, done):
    """Return (the columns of the table, the goals missed) of the pairs of a row."""
    def middle(function):
        return statistics.median(function(ours, theirs) for ours, theirs in done)
    rates = [ours.rate / theirs.rate for ours, theirs in done]
    rate, cpu = statistics.median(rates), middle(lambda ours, theirs: ours.cpu / theirs.cpu)
    columns = ["%.2f" % rate, "%.2f..%.2f" % (min(rates), max(rates)),
               "%.2f" % (middle(lambda ours, _: ours.rate) / 1e9),
               "%.2f" % (middle(lambda _, theirs: theirs.rate) / 1e9), "%.2f" % cpu]
    missed = []
    if cell.rate and rate < cell.rate:
        missed.append("bit/s ratio %.3f < %s" % (rate, cell.rate))
    if cell.cpu and cpu > cell.cpu:
        missed.append("CPU s/byte ratio %.3f > %s" % (cpu, cell.cpu))
    if done[0][0].sent is None:
        return columns + ["-", "-"], missed
    sent = middle(lambda ours, theirs: ours.sent / theirs.sent)
    ours, theirs = middle(lambda ours, _: ours.lost), middle(lambda _, theirs: theirs.lost)
    columns += ["%.2f" % sent, "%.2f, %.2f" % (ours, theirs)]
    if cell.sent and sent < cell.sent:
        missed.append("datagrams/s ratio %.3f < %s" % (sent, cell.sent))
    if cell.loss and ours > theirs:
        missed.append("%.3f %% lost, with iperf3 %.3f %%" % (ours, theirs))
    return columns, missed


def start_up(pyperf3, python):
    """Measure how long --version takes, print a line, and return the failures."""
    commands = [pyperf3 + ["--version"], [python, "-c", IMPORTS]]
    times = [[], []]
    for number in range(STARTS):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            start = time.perf_counter()
            child = None
            try:
                child = Child(commands[which])
                status = child.wait(10, 0.0002)
                times[which].append(time.perf_counter() - start)
                if status:
                    raise Failure("status %d: %s" % (status, child.last_words()))
            except Failure as error:
                return ["start-up, %s: %s" % ("imports" if which else "--version", error)]
            finally:
                if child:
                    child.close()
    ours, theirs = [statistics.median(part) * 1000 for part in times]
    say("Start-up: `pyperf3.py --version` %.1f ms, `python3 -c \"%s\"` %.1f ms, "
        "ratio %.2f (medians of %d)" % (ours, IMPORTS, theirs, ours / theirs, STARTS))
    say()
    return []


def memory_rows(programs):
    """Print a table of the memory in use during a test and return the failures."""
    failures = []
    say("| memory during `%s` | client Pss MB | server Pss MB | largest process Rss MB "
        "| processes |" % " ".join(MEMORY))
    say("| --- | ---: | ---: | ---: | ---: |")
    for name, command, both in programs:
        try:
            client, server = measure(command, both, MEMORY, 3, look_at_memory)
        except Failure as error:
            failures.append("memory, %s: %s" % (name, error))
            continue
        say("| %s | %.1f | %.1f | %.1f | %d + %d |" % (
            name, client[0], server[0], max(client[1], server[1]), client[2], server[2]))
    return failures


BULK = 4 * 1000 ** 3  # bytes


def openssl_rate(folder):
    """Return the bit/s of a bulk transfer from `openssl s_client` to `openssl s_server`."""
    port = str(free_port())
    # The server ends with its standard input.
    server = Child(["sh", "-c", "sleep 120 | openssl s_server -quiet -no_ticket -naccept 1"
                    " -accept %s -key '%s/key' -cert '%s/cert' >/dev/null"
                    % (port, folder, folder)])
    client = None
    try:
        end = time.monotonic() + 10
        while not listening(int(port)):
            if server.poll() is not None or time.monotonic() > end:
                raise Failure("openssl s_server: " + server.last_words())
            time.sleep(0.005)
        begin = time.monotonic()
        client = Child(["sh", "-c", "head -c %d /dev/zero | openssl s_client -quiet -no_ign_eof"
                        " -connect 127.0.0.1:%s" % (BULK, port)])
        if client.wait(120):
            raise Failure("openssl s_client: " + client.last_words())
        return 8 * BULK / (time.monotonic() - begin)
    finally:
        for child in (client, server):
            if child:
                child.close()


def tls_limit(pyperf3, pairs, seconds):
    """Compare TLS with what openssl's own programs reach; returns the failures as lines."""
    rates, failures = [], []
    with tempfile.TemporaryDirectory(prefix="pyperf3-bench-") as folder:
        subprocess.check_call(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", os.path.join(folder, "key"),
             "-out", os.path.join(folder, "cert"), "-subj", "/CN=bench"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for number in range(pairs):
            pair = {}
            for name in ("pyperf3", "openssl") if number % 2 == 0 else ("openssl", "pyperf3"):
                try:
                    pair[name] = (measure(pyperf3, [], ["-t", str(seconds), "--tls"], seconds).rate
                                  if name == "pyperf3" else openssl_rate(folder))
                except Failure as error:
                    failures.append("TLS limit, %s: %s" % (name, error))
            if len(pair) == 2:
                rates.append((pair["pyperf3"], pair["openssl"]))
    if rates:
        ratio = statistics.median(ours / theirs for ours, theirs in rates)
        say("TLS: %.2f Gbit/s, openssl s_client to s_server %.2f: ratio %.2f (goal 0.9)" % (
            statistics.median(ours for ours, _ in rates) / 1e9,
            statistics.median(theirs for _, theirs in rates) / 1e9, ratio))
        if ratio < 0.9:
            failures.append("TLS limit: goal missed: ratio %.3f < 0.9" % ratio)
    return failures


def machine(python):
    """Return a line which describes the machine."""
    model = "unknown CPU"
    with open("/proc/cpuinfo") as file:
        match = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.+)", file.read(), re.M)
        model = match.group(1).strip() if match else model
    code = "import platform as p; print(p.python_implementation(), p.python_version())"
    version = subprocess.check_output([python, "-c", code]).decode().strip()
    facts = [first_line("/sys/devices/system/cpu/cpu0/cache/index2/size", "second cache %s"),
             first_line("/proc/sys/net/ipv4/tcp_congestion_control", "TCP's default %s")]
    return ", ".join([model, "%d cores" % len(os.sched_getaffinity(0))] + [
        fact for fact in facts if fact] + [
            "Linux " + platform.release(), version, "against iperf3 " + PEER])


def first_line(path, text):
    """Return the text with the first line of a file in it, None if there is no such file."""
    try:
        with open(path) as file:
            return text % file.readline().strip()
    except OSError:
        return None


def positive(text):
    """Convert a command-line argument to an integer of at least 1."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description="Measure pyperf3 and iperf3 %s in turn on loopback." % PEER)
    parser.add_argument("--pairs", type=positive, default=5, metavar="N",
                        help="pairs of tests per row (default 5)")
    parser.add_argument("--time", type=positive, default=2, metavar="SECONDS",
                        help="length of each test (default 2)")
    parser.add_argument("only", nargs="*", metavar="CELL",
                        help="just the row of this name, or those whose name contains it; the "
                             "sections after the table are named openssl, start-up and memory; "
                             "-- goes before what begins with a dash")
    parser.add_argument("--against", metavar="OTHER.py",
                        help="another file of pyperf3, to measure in place of iperf3")
    parser.add_argument("--python", default=sys.executable, metavar="PATH",
                        help="the interpreter to run pyperf3 with (default: this one)")
    parser.add_argument("--pyperf3", metavar="COMMAND",
                        help="a command to measure in place of pyperf3.py")
    args = parser.parse_args()

    iperf3 = peers.find(PEER)
    if not iperf3:
        parser.exit(1, "bench.py: no iperf3 %s: run python3 tests/peers.py\n" % PEER)
    iperf3 = [iperf3]
    pyperf3 = shlex.split(args.pyperf3) if args.pyperf3 else [args.python, PYPERF3]

    names = {cell.name for cell in CELLS}

    def wanted(name):
        return not args.only or any(
            part == name if part in names else part in name for part in args.only)

    cells = [cell for cell in CELLS if wanted(cell.name)]
    sections = () if args.against else ("openssl", "start-up", "memory")
    other = [args.python, args.against] if args.against else None
    if not cells and not any(wanted(name) for name in sections):
        parser.exit(1, "bench.py: nothing is named like that; there are: %s\n" % ", ".join(
            [cell.name for cell in CELLS] + list(sections)))

    try:
        say(machine(args.python))
    except (OSError, subprocess.CalledProcessError) as error:
        parser.exit(1, "bench.py: can not run %s: %s\n" % (args.python, error))
    say()
    failures = []
    if cells:
        say("%d pair(s) of tests of %d s; ratios are pyperf3 / %s" % (
            args.pairs, args.time, args.against or "iperf3"))
        say()
        failures += rows(cells, pyperf3, iperf3, other, args.pairs, args.time)
        say()
    wanted_sections = [name for name in sections if wanted(name)]
    if "openssl" in wanted_sections:
        failures += tls_limit(pyperf3, args.pairs, args.time)
        say()
    if "start-up" in wanted_sections:
        failures += start_up(pyperf3, args.python)
    if "memory" in wanted_sections:
        programs = [("pyperf3", pyperf3, []), ("iperf3", iperf3, [])]
        if not args.pyperf3:
            programs.insert(1, ("pyperf3 --threads", pyperf3, ["--threads"]))
        failures += memory_rows(programs)
        say()
    for line in failures:
        say("FAILED " + line)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
