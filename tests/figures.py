"""Check that a test's figures agree with each other, and reduce outputs to their shape.

No check here depends on how fast the host is: figures are held against figures.
"""

import re
import socket
import unittest

import support

SLACK = 1024 * 1024  # bytes per stream that a call in flight may make of a difference

# Members that are numbers with a fraction; every other number is an integer.
FRACTIONS = frozenset((
    "start", "end", "seconds", "bits_per_second", "interval", "host_total", "host_user",
    "host_system", "remote_total", "remote_user", "remote_system"))
TIMES = ("start", "end", "seconds", "bytes", "bits_per_second")
KERNEL = ("retransmits", "snd_cwnd", "snd_wnd", "rtt", "rttvar", "pmtu", "reorder")


def has_ipv6():
    """Return whether this host has the IPv6 loopback address."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
            sock.bind(("::1", 0))
        return True
    except OSError:
        return False


# Shapes #######################################################################


def _kind(name, value):
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if value is None:
        return "null"
    if name in FRACTIONS:
        return "number"
    return "integer" if value == int(value) else "number"


def _walk(path, name, value):
    if isinstance(value, dict):
        yield "%s: object" % path
        for key, member in value.items():
            for line in _walk("%s.%s" % (path, key), key, member):
                yield line
    elif isinstance(value, list):
        yield "%s: array" % path
        for member in value:
            for line in _walk(path + "[]", name, member):
                yield line
    else:
        yield "%s: %s" % (path, _kind(name, value))


def shape(value):
    """Return the members of a document and their types, in order, each path once.

    pyperf3's own member of the end object is left out.
    """
    lines = []
    known = set()
    for line in _walk("", None, value):
        if line not in known and ".pyperf3" not in line:
            known.add(line)
            lines.append(line)
    return lines


def masked(text, units=False):
    """Return text with N for every number and the blanks in front of it.

    units: keep the unit of rates, as for -f; else the letter of every unit goes, too.
    """
    text = re.sub(r"Cookie: [a-z2-7]{36}", "Cookie: C", text)
    text = re.sub(r"(?m)Time: .*$", "Time: T", text)
    text = re.sub(r"tcp_congestion \w+", "tcp_congestion C", text)
    text = re.sub(r"[KMGT]?Bytes(?!/sec)", "Bytes", text)
    if not units:
        text = re.sub(r"[KMGT]?bits/sec", "bits/sec", text)
    return re.sub(r" *[0-9]+(\.[0-9]+)?", "N", text)


def outline(text, units=False):
    """Return the masked lines of a test's text; rows of intervals that look alike come once.

    So it does not matter how many reports there were: a server often has one more.
    """
    lines = [line for line in masked(text, units).split("\n")
             if not re.match(r"iperfN|Linux ", line)]
    headers = [number for number, line in enumerate(lines) if "[ ID]" in line]
    if len(headers) < 2:
        return lines
    first, last = headers[0] + 1, headers[-1] - 1
    if lines[last].endswith("Results:"):
        last -= 1
    rows = []
    for line in lines[first:last]:
        if line not in rows:
            rows.append(line)
    return lines[:first] + rows + lines[last:]


# Figures ######################################################################


class Case(unittest.TestCase):
    """A test that runs clients and servers and looks at what they leave."""

    maxDiff = None

    def assertClean(self, left):
        """The program ended well and said nothing on standard error."""
        self.assertEqual((left.code, left.err), (0, ""), left)

    def pair(self, client_arguments=(), server_arguments=(), client=support.OURS,
             server=support.OURS, host="127.0.0.1"):
        """Run a one-off server and a client; both must end well. Returns client's, server's."""
        left = support.run_pair(server, client, client_arguments, server_arguments, host)
        for program in left:
            self.assertClean(program)
        return left

    def documents(self, client_arguments=(), server_arguments=(), **more):
        """Run a pair with -J on both sides; returns both documents, whose figures agree."""
        client, server = self.pair(tuple(client_arguments) + ("-J",),
                                   tuple(server_arguments) + ("-J",), **more)
        self.check_pair(client.json(), server.json())
        return client.json(), server.json()

    def check_rate(self, figures, seconds):
        expected = figures["bytes"] * 8.0 / seconds if seconds > 0 else 0.0
        self.assertAlmostEqual(figures["bits_per_second"], expected,
                               delta=1e-6 * max(1.0, expected))

    def check_document(self, document):
        """Check one document of ours, of either end, for contradictions."""
        self.assertEqual(list(document)[:3], ["start", "intervals", "end"])
        self.assertNotIn("error", document)
        start, end = document["start"], document["end"]
        setup = start["test_start"]
        server = "accepted_connection" in start
        count = setup["num_streams"] * (1 + setup["bidir"])
        first = 5 if server else 4
        sockets = [each["socket"] for each in start["connected"]]
        self.assertEqual(sockets, list(range(first, first + 2 * count, 2)))
        senders = [bool(setup["reverse"]) == server] * setup["num_streams"]
        if setup["bidir"]:
            senders = [not server] * setup["num_streams"] + [server] * setup["num_streams"]
        sums = [("", slice(0, setup["num_streams"]))]
        if setup["bidir"]:
            sums.append(("_bidir_reverse", slice(setup["num_streams"], None)))
        measured = self.check_intervals(document["intervals"], sockets, senders, sums)
        self.check_end(end, sockets, senders, sums, measured, server)
        if not server and not setup["omit"]:
            self.check_received(end)
        local = end["streams"][0]["sender" if senders[0] else "receiver"]
        if not server and "diskfile" not in end["streams"][0]:  # whose end ends the test
            self.assertGreaterEqual(local["end"], setup["duration"])

    def check_received(self, end):
        """Check that no more arrived than was sent, of a test without an omitted part.

        With one each end begins to measure by its own clock, and may see more than the other.
        """
        for row in end["streams"]:
            self.assertLessEqual(row["receiver"]["bytes"], row["sender"]["bytes"] + SLACK)

    def check_intervals(self, intervals, sockets, senders, sums):
        """Check that intervals follow each other and sum up; returns (bytes, retransmits)s."""
        measured = [[0, 0] for _ in sockets]
        before = None
        for interval in intervals:
            self.assertEqual(list(interval), ["streams"] + ["sum" + name for name, _ in sums])
            rows = interval["streams"]
            self.assertEqual([row["socket"] for row in rows], sockets)
            self.assertEqual([row["sender"] for row in rows], senders)
            for number, row in enumerate(rows):
                names = ("socket",) + TIMES + (KERNEL if row["sender"] else ())
                self.assertEqual(tuple(row), names + ("omitted", "sender"))
                begin = 0
                if before is not None and before[number]["omitted"] == row["omitted"]:
                    begin = before[number]["end"]
                self.assertEqual(row["start"], begin, "intervals do not join: %r" % intervals)
                self.assertGreaterEqual(row["end"], row["start"])
                self.assertAlmostEqual(row["seconds"], row["end"] - row["start"], delta=1.5e-6)
                self.check_rate(row, row["seconds"])
                self.assertGreaterEqual(row["bytes"], 0)
                if before is not None and row["omitted"]:
                    self.assertTrue(before[number]["omitted"], "omitted after measured")
                if not row["omitted"]:
                    measured[number][0] += row["bytes"]
                    measured[number][1] += row.get("retransmits", 0)
            for name, part in sums:
                total, group = interval["sum" + name], rows[part]
                more = ("retransmits",) if group[0]["sender"] else ()
                self.assertEqual(tuple(total), TIMES + more + ("omitted", "sender"))
                for key in ("bytes",) + more:
                    self.assertEqual(total[key], sum(row[key] for row in group))
                for key in ("start", "end", "seconds", "omitted", "sender"):
                    self.assertEqual(total[key], group[0][key])
                self.check_rate(total, total["seconds"])
            before = rows
        return measured

    def check_end(self, end, sockets, senders, sums, measured, server):
        self.assertEqual(len(end["streams"]), len(sockets))
        for row, number, sender, (count, retransmits) in zip(
                end["streams"], sockets, senders, measured):
            sent, received = row["sender"], row["receiver"]
            for half in (sent, received):
                self.assertEqual((half["socket"], half["start"], half["sender"]),
                                 (number, 0, sender))
                self.check_rate(half, half["end"])
            self.assertEqual(sent["seconds"], sent["end"])
            local, remote = (sent, received) if sender else (received, sent)
            self.assertEqual(local["bytes"], count, "intervals do not add up to the total")
            if server:
                self.assertEqual(remote["bytes"], 0)
            self.assertEqual("retransmits" in sent, sender or not server)
            if sender:
                self.assertEqual(sent["retransmits"], retransmits)
                self.assertLessEqual(sent["min_rtt"], sent["mean_rtt"])
                self.assertLessEqual(sent["mean_rtt"], sent["max_rtt"])
        names = ["streams"]
        for name, part in sums:
            names += ["sum_sent" + name, "sum_received" + name]
            for key, half in (("sum_sent", "sender"), ("sum_received", "receiver")):
                total = end[key + name]
                group = [row[half] for row in end["streams"][part]]
                self.assertEqual(total["bytes"], sum(each["bytes"] for each in group))
                self.assertEqual(total["end"], group[0]["end"])
                self.assertEqual(total["seconds"], total["end"])
                self.assertEqual(total["sender"], group[0]["sender"])
                self.check_rate(total, total["seconds"])
                self.assertEqual("retransmits" in total, "retransmits" in group[0])
                if "retransmits" in total:
                    self.assertEqual(total["retransmits"],
                                     sum(each["retransmits"] for each in group))
        cpu = end["cpu_utilization_percent"]
        self.assertGreaterEqual(min(cpu.values()), 0)
        self.assertAlmostEqual(cpu["host_total"], cpu["host_user"] + cpu["host_system"],
                               delta=1e-6)
        names.append("cpu_utilization_percent")
        self.assertEqual([name for name in end if name != "pyperf3"][:len(names)], names)

    def check_views(self, client, server, slack=0):
        """Check what both ends say of one test, whoever they are.

        slack: bytes that what an end prints may differ from what it tells the other.
        """
        self.assertNotIn("error", client)
        self.assertNotIn("error", server)
        self.assertEqual(client["start"]["cookie"], server["start"]["cookie"])
        theirs = {each["remote_port"]: each for each in server["start"]["connected"]}
        self.assertEqual(len(client["start"]["connected"]), len(theirs))
        for mine in client["start"]["connected"]:
            other = theirs[mine["local_port"]]
            self.assertEqual((mine["local_host"], mine["remote_host"], mine["remote_port"]),
                             (other["remote_host"], other["local_host"], other["local_port"]))
        mine, other = client["start"]["test_start"], server["start"]["test_start"]
        names = set(mine).intersection(other) - {"interval"}
        self.assertEqual({name: mine[name] for name in names},
                         {name: other[name] for name in names})
        for mine, other in zip(client["end"]["streams"], server["end"]["streams"]):
            half = "receiver" if mine["sender"]["sender"] else "sender"
            self.assertAlmostEqual(mine[half]["bytes"], other[half]["bytes"], delta=slack)
            if half == "sender":
                self.assertEqual(mine[half]["retransmits"], other[half]["retransmits"])
            self.assertGreaterEqual(mine["sender"]["retransmits"], 0)
        if not client["start"]["test_start"]["omit"]:
            self.check_received(client["end"])

    def check_pair(self, client, server):
        """Check the documents of a test between a client and a server of ours."""
        self.check_document(client)
        self.check_document(server)
        self.check_views(client, server)
        for name in client["end"]:
            if not name.startswith("sum_"):
                continue
            mine, other = client["end"][name], server["end"][name]
            if mine["sender"] != name.startswith("sum_sent"):
                self.assertEqual(mine["seconds"], other["seconds"])
                self.assertEqual(mine["bits_per_second"], other["bits_per_second"])
            self.assertNotEqual(mine["sender"], other["sender"])
