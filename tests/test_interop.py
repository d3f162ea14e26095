"""Ours against real iperf3 3.9, 3.12, 3.18 and 3.22, as client and as server.

One test per version, role and mode, made from tables. Both ends print JSON; ours is checked for
contradictions, and what both say of the test is compared.
"""

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import tempfile
import time
import unittest

import captures
import figures
import support

BUSY = "the server is busy running a test. try again later"
MEBIBYTE = 1024 * 1024
NEWEST = "3.22"
OLDER = ("3.18", "3.12", "3.9")

# iperf3 from 3.16 on looks for the end of -n and -k once an interval, so these have a short one.
MAIN = {
    "forward": "-t 1",
    "reverse": "-t 1 -R",
    "bidir": "-t 1 --bidir",
    "parallel": "-t 1 -P 2",
    "bytes": "-n 1M -i 0.1",
    "blocks": "-k 10 -l 1000 -i 0.1",
    "omit": "-O 1 -t 1",
    "rate": "-t 1 -b 20M -l 16K",
    "zerocopy": "-t 1 -Z",
    "server_output": "-t 1 --get-server-output",
}

MORE = {  # against the newest only
    "parallel_4": "-t 1 -P 4 -i 0.5",
    "parallel_4_reverse": "-t 1 -P 4 -R",
    "bidir_parallel_2": "-t 1 --bidir -P 2",
    "bytes_reverse": "-n 1M -i 0.1 -R",
    "bytes_bidir": "-n 100M -i 0.1 --bidir",
    "bytes_parallel": "-n 1M -i 0.1 -P 3",
    "bytes_one": "-n 1 -i 0.1",
    "blocks_reverse": "-k 10 -l 1000 -i 0.1 -R",
    "omit_reverse": "-O 1 -t 1 -R",
    "omit_and_interval": "-O 1 -t 1 -i 0.7",
    "interval_0": "-t 1 -i 0",
    "interval_0.3": "-t 1 -i 0.3",
    "rate_reverse": "-t 1 -b 20M -l 16K -R",
    "rate_bidir": "-t 1 -b 20M -l 16K --bidir",
    "rate_and_burst": "-t 1 -b 20M/20 -l 1K",
    "length_small": "-n 1M -l 100 -i 0.1",
    "length_large": "-n 64M -l 1M -i 0.1",
    "window": "-n 20M -w 64K -i 0.1",
    "mss": "-n 20M -M 1000 -i 0.1",
    "mss_reverse": "-n 20M -M 1000 -i 0.1 -R",
    "no_delay": "-n 10M -N -i 0.1",
    "congestion": "-n 20M -C reno -i 0.1",
    "congestion_reverse": "-n 20M -C reno -i 0.1 -R",
    "tos": "-n 20M -S 0x10 -i 0.1",
    "dscp": "-n 20M --dscp ef -i 0.1 -R",
    "ipv4": "-n 20M -4 -i 0.1",
    "bind": "-n 20M -B 127.0.0.2 -i 0.1",
    "zerocopy_reverse": "-t 1 -Z -R",
    "zerocopy_bidir": "-t 1 -Z --bidir",
    "skip_rx_copy": "-t 1 --skip-rx-copy",
    "skip_rx_copy_reverse": "-t 1 --skip-rx-copy -R",
    "repeating_payload": "-n 20M --repeating-payload -i 0.1",
    "title_and_extra_data": "-n 1M -T TITLE --extra-data extra -i 0.1",
}


def command(version):
    return support.OURS if version == "ours" else support.real(version)


def json_of(left):
    """Return the one document of a program, members that come twice once."""
    document, = captures.documents(left.out)
    return document


class Interop(figures.Case):
    """Every mode in both roles."""

    def run_mode(self, version, role, arguments):
        """Run a test with ours in a role and the real one in the other; returns documents."""
        other = support.real(version)
        client, server = (support.OURS, other) if role == "client" else (other, support.OURS)
        left = self.pair(arguments.split() + ["-J"], ["-J"], client, server)
        documents = [json_of(program) for program in left]
        ours = left[0 if role == "client" else 1].json()  # strictly read
        self.check_document(ours)
        self.check_views(*documents)
        self.check_mode(arguments.split(), *documents)
        return documents

    def check_mode(self, words, client, server):
        """Check what the words of the command line ask for."""
        end = client["end"]
        for name in end:
            if name.startswith("sum_"):
                self.assertGreater(end[name]["bytes"], 0, name)
            if name.startswith("sum_sent"):
                self.assertGreaterEqual(end[name]["retransmits"], 0)
        if "--bidir" in words:
            self.assertIn("sum_received_bidir_reverse", end)
        elif words[:2] == ["-n", "1M"] and "-P" not in words:
            self.assertEqual(end["sum_sent"]["bytes"], MEBIBYTE)
            self.assertEqual(end["sum_received"]["bytes"], MEBIBYTE)
        elif words[:2] == ["-k", "10"]:
            self.assertEqual(end["sum_sent"]["bytes"], 10000)
            self.assertEqual(end["sum_received"]["bytes"], 10000)
        if "-b" in words:
            sent = end["sum_sent"]
            self.assertLessEqual(sent["bytes"], 2.5e6 * 1.05 * sent["seconds"] + 20480)
        for option, key in (("-T", "title"), ("--extra-data", "extra_data")):
            if option in words:
                value = words[words.index(option) + 1]
                self.assertEqual((client[key], server[key]), (value, value))
        if "--get-server-output" in words:
            self.assertEqual(client["server_output_json"]["end"], server["end"])
        if "-M" in words:
            self.assertEqual((client["start"]["tcp_mss"], server["start"]["tcp_mss"]),
                             (1000, 1000))
        if "-C" in words:
            self.assertEqual((end["sender_tcp_congestion"], end["receiver_tcp_congestion"]),
                             ("reno", "reno"))
        if "-B" in words:
            self.assertEqual(server["start"]["accepted_connection"]["host"], "127.0.0.2")
        if "-O" in words:
            for document in (client, server):
                flags = [each["sum"]["omitted"] for each in document["intervals"]]
                self.assertTrue(flags[0])
                self.assertFalse(flags[-1])


def _mode_test(version, role, arguments):
    def test(self):
        self.run_mode(version, role, arguments)
    return test


def _add_modes(version, modes):
    for name, arguments in modes.items():
        for role in ("client", "server"):
            test = _mode_test(version, role, arguments)
            setattr(Interop, "test_%s_%s_%s" % (
                role, version.replace(".", "_"), name.replace(".", "_")), test)


_add_modes(NEWEST, MAIN)
_add_modes(NEWEST, MORE)
for _version in OLDER:
    _add_modes(_version, MAIN)
    # A 3.9 client with -R -n never ends, not even against a server of its own version.
    if _version != "3.9":
        _add_modes(_version, {"bytes_reverse": MORE["bytes_reverse"]})
