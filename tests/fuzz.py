#!/usr/bin/env python3
"""Change recorded conversations in every way, and see what a server, or a client, makes of them.

    python3 tests/fuzz.py --role server --conversation tcp [--seed N] [--number N]
    python3 tests/fuzz.py --list

What was changed in one of them is a mutant. A role, a conversation and a seed give a list of
mutants that is always the same: every byte of the recorded side cut off, flipped, doubled and
delayed, every state byte replaced by all others, every length and every JSON value by wrong ones,
then some of these at a time, all in a shuffled order. Those of one list meet one process: for the
role `server` a server of the command line, for the role `client` clients one after the other in
this one. What is held of both:

  - no exception but the announced ones, no hang, no output that is no JSON or steers a terminal;
  - a conversation that is only delayed ends as the recorded one does;
  - between them, and at the end, an unchanged conversation works;
  - memory, threads, descriptors and child processes are at the end what they were near the begin.

With --number only that mutant is played, and told. The last line is a summary in JSON.
"""

import argparse
import base64
import collections
import json
import os
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
sys.path.append(ROOT)  # behind PYTHONPATH: a compiled program there has the smaller heap to copy
sys.dont_write_bytecode = True

import pyperf3  # noqa: E402

SEED = 3
HANG = 20.0  # seconds after which an answer does not come any more
STALL = 0.03  # seconds for an answer that need not come, since what it answers is wrong
PAUSE = 0.002  # seconds between what is sent apart
BUSY = b"\xff"

# Recordings ###################################################################
# Conversations of iperf3 3.22 with itself, on loopback, as steps: who sends, on which
# connection (0: the control connection), and what: a state, a JSON document, or bytes. The
# contents of TCP's data connections are shortened.

CLIENT, SERVER = "client", "server"
Step = collections.namedtuple("Step", "sender place what")
Conversation = collections.namedtuple("Conversation", "steps client server udp")
Conversation.__doc__ = "client, server: words of the command line; udp: data is in datagrams."

COOKIE = b"q2henjolr32nzmcknky3rdcdo6mfpwxy7aym\0"
TOKEN = "token"  # stands for one that is valid at the time
BLOCK = b"0123456789" * 1638 + b"0123"
HELLO, HELLO_REPLY = b"9876", b"6789"
VERSION = ("client_version", "3.22")


def members(*pairs):
    return collections.OrderedDict(pairs)


def added(document, *pairs):
    """Return a document with more members."""
    return members(*(tuple(document.items()) + pairs))


def tcp_parameters(*more):
    return members(("tcp", True), ("omit", 0), ("time", 0), ("num", 16384), ("blockcount", 0),
                   ("parallel", 1), ("len", 16384), ("pacing_timer", 1000), *(more + (VERSION,)))


def udp_parameters(*more):
    return members(("udp", True), ("omit", 0), ("time", 0), ("num", 4200), ("blockcount", 0),
                   ("parallel", 1), ("len", 1400), ("bandwidth", 10000000),
                   ("pacing_timer", 1000), ("gso", 0), ("gso_dg_size", 0),
                   ("gso_bf_size", 65507), ("gro", 0), ("gro_bf_size", 65507),
                   *(more + (VERSION,)))


def result(number, count, end, retransmits=-1, jitter=0, packets=0):
    """Return what an end reports of one stream."""
    return members(("id", number), ("bytes", count), ("retransmits", retransmits),
                   ("jitter", jitter), ("errors", 0), ("omitted_errors", 0),
                   ("packets", packets), ("omitted_packets", 0), ("start_time", 0),
                   ("end_time", end))


def results(cpu, retransmits, streams, congestion="bbr", output=()):
    """Return what an end reports of a test. cpu: total, user, system."""
    pairs = list(zip(("cpu_util_total", "cpu_util_user", "cpu_util_system"), cpu))
    pairs.append(("sender_has_retransmits", retransmits))
    if congestion:
        pairs.append(("congestion_used", congestion))
    return members(*(pairs + list(output) + [("streams", streams)]))


def datagram(number, micros):
    return struct.pack("!III", 2801, micros, number).ljust(1400, b"\x9e")


def talk(parameters, opening, transfer, of_client, of_server, told=None):
    """Return the steps of a whole test. told: the facts of a server's that is a pyperf3."""
    facts = [Step(SERVER, 0, pyperf3.FACTS), Step(SERVER, 0, told)] if told else []
    return [
        Step(CLIENT, 0, COOKIE),
        Step(SERVER, 0, pyperf3.PARAM_EXCHANGE),
        Step(CLIENT, 0, parameters),
    ] + facts + [
        Step(SERVER, 0, pyperf3.CREATE_STREAMS),
    ] + opening + [
        Step(SERVER, 0, pyperf3.TEST_START),
        Step(SERVER, 0, pyperf3.TEST_RUNNING),
    ] + transfer + [
        Step(CLIENT, 0, pyperf3.TEST_END),
        Step(SERVER, 0, pyperf3.EXCHANGE_RESULTS),
        Step(CLIENT, 0, of_client),
        Step(SERVER, 0, of_server),
        Step(SERVER, 0, pyperf3.DISPLAY_RESULTS),
        Step(CLIENT, 0, pyperf3.IPERF_DONE),
    ]


OUTPUT_TEXT = (
    "Accepted connection from 127.0.0.1, port 57424\n"
    "[  5] local 127.0.0.1 port 5201 connected to 127.0.0.1 port 57432\n"
    "[ ID] Interval           Transfer     Bitrate\n"
    "[  5]   0.00-1.00   sec  16.0 KBytes   131 Kbits/sec                  \n"
    "- - - - - - - - - - - - - - - - - - - - - - - - -\n")
OUTPUT_JSON = members(
    ("start", members(
        ("connected", [members(
            ("socket", 5), ("local_host", "127.0.0.1"), ("local_port", 5201),
            ("remote_host", "127.0.0.1"), ("remote_port", 57432))]),
        ("version", "iperf 3.22"),
        ("timestamp", members(("time", "Mon, 30 Nov 2026 12:00:00 GMT"),
                              ("timesecs", 1796040000))))),
    ("intervals", [members(("streams", []), ("sum", members(
        ("start", 0), ("end", 1.001264), ("bytes", 16384), ("sender", False))))]),
    ("end", members()))

FORWARD = (
    results((99.961758738577544, 99.961858585213122, 0), 1, [result(1, 16384, 1.001043, 0)]),
    ((0.014980959200855713, 0.015080832262194749, 0), -1, [result(1, 16384, 1.001264)]))

# What pyperf3s tell each other if one is asked for a verdict, of Linux 6.18, shortened.
HOST = members(
    ("cores", 2), ("kernel", "6.18.44"), ("rmem_max", 4194304), ("wmem_max", 4194304),
    ("tcp_rmem", [4096, 131072, 33554432]), ("tcp_wmem", [4096, 16384, 4194304]),
    ("tcp_timestamps", 1), ("congestion", "bbr"), ("loopback", True), ("mtu", 65536),
    ("speed_mbps", 100), ("duplex", "half"))
TOLD = added(HOST, ("version", "0.1.0"))
HOST_AFTER = added(HOST, ("during_test", members(
    ("cpu_idle_ticks", 1), ("cpu_ticks", 20), ("cpu_steal_ticks", 2), ("device_send_drops", 3),
    ("device_sent_bytes", 49957), ("device_received_bytes", 49957), ("softnet_drops", 1),
    ("tcp_zero_windows", 2), ("throttled_us", 100), ("udp_receive_buffer_errors", 4))))


def stream_facts(**more):
    """Return what a pyperf3 tells of a stream's connection."""
    facts = members(
        ("busy_us", 900000), ("rwnd_limited_us", 300000), ("sndbuf_limited_us", 1000),
        ("segments_sent", 90), ("segments_received", 20), ("retransmits", 3),
        ("needless_retransmits", 2), ("delivered", 87), ("delivered_ce", 2), ("rtos", 1),
        ("rto_time_us", 210000), ("min_rtt_us", 11), ("rtt_us", 300), ("snd_mss", 1448),
        ("delivery_rate_bps", 108544000000), ("snd_cwnd_segments", 10), ("snd_wnd", 65536),
        ("rtt_p50_us", 310), ("rtt_p95_us", 350), ("samples", 10),
        ("samples_nothing_unsent", 9), ("max_snd_wnd", 108544), ("snd_wnd_small_percent", 12),
        ("worker_cpu_percent", 96.7), ("worker_wait_percent", 1.1), ("send_buffer", 4194304),
        ("congestion", "reno"))
    facts.update(more)
    return facts


def with_facts(stream, facts):
    return added(stream, ("pyperf3", facts))


def results_with_facts(*arguments, **more):
    return added(results(*arguments, **more), ("pyperf3", HOST_AFTER))


ASKING = ("pyperf3_features", members(("facts", 1)))
ONE_STREAM = [Step(CLIENT, 1, COOKIE)]
ONE_BLOCK = [Step(CLIENT, 1, BLOCK)]

CONVERSATIONS = collections.OrderedDict((
    ("tcp", Conversation(
        talk(tcp_parameters(), ONE_STREAM, ONE_BLOCK, FORWARD[0], results(*FORWARD[1])),
        ["-n", "16K", "-l", "16K"], [], False)),
    ("reverse", Conversation(
        talk(tcp_parameters(("reverse", True), ("bandwidth", 20000000)), ONE_STREAM,
             [Step(SERVER, 1, BLOCK)],
             results((48.39203675344563, 0, 48.085758039816234), -1, [
                 result(1, 16384, 1.000521)]),
             results((78.4660766961652, 78.4660766961652, 0), 1, [
                 result(1, 16384, 1.000612, 0)])),
        ["-R", "-n", "16K", "-l", "16K", "-b", "20M", "-V"], ["-J"], False)),
    ("bidir", Conversation(
        talk(tcp_parameters(("bidirectional", True), ("bandwidth", 20000000)),
             [Step(CLIENT, 1, COOKIE), Step(CLIENT, 2, COOKIE)],
             [Step(CLIENT, 1, BLOCK), Step(SERVER, 2, BLOCK)],
             results((99.3796901536887, 99.3796901536887, 0), 1, [
                 result(1, 16384, 1.00042, 0), result(3, 16384, 1.00042)]),
             results((99.66223352317337, 99.541773443384756, 0.120460079788612), 1, [
                 result(1, 16384, 1.000531), result(3, 16384, 1.000531, 0)])),
        ["--bidir", "-n", "16K", "-l", "16K", "-b", "20M", "--json-stream",
         "--json-stream-full-output"], ["--threads", "-V", "-d"], False)),
    ("parallel", Conversation(
        talk(tcp_parameters(("parallel", 2)),
             [Step(CLIENT, 1, COOKIE), Step(CLIENT, 2, COOKIE)],
             [Step(CLIENT, 1, BLOCK), Step(CLIENT, 2, BLOCK)],
             results((198.20146430689641, 197.66677797658505, 0.53448696926351036), 1, [
                 result(1, 16384, 1.000734, 0), result(3, 16384, 1.000734, 0)]),
             results((0.025832680035826634, 0.025932420113185039, 0), -1, [
                 result(1, 16384, 1.00081), result(3, 16384, 1.00081)])),
        ["-P", "2", "-n", "16K", "-l", "16K", "-V"], ["-V"], False)),
    ("udp", Conversation(
        talk(udp_parameters(), [Step(CLIENT, 1, HELLO), Step(SERVER, 1, HELLO_REPLY)],
             [Step(CLIENT, 1, datagram(1, 545774)), Step(CLIENT, 1, datagram(2, 546894)),
              Step(CLIENT, 1, datagram(3, 548014))],
             results((2.1659176130891247, 0, 2.1660174203612828), 0, [
                 result(1, 4200, 1.001104, packets=3)], None),
             results((0.389121376513125, 0, 0.38902152499233639), -1, [
                 result(1, 4200, 1.001187, jitter=1.1843e-05, packets=3)], None)),
        ["-u", "-n", "4200", "-l", "1400", "-b", "10M", "-V"], ["-J"], True)),
    ("udp-bidir", Conversation(
        talk(udp_parameters(("bidirectional", True), ("udp_counters_64bit", 1)),
             [Step(CLIENT, 1, HELLO), Step(SERVER, 1, HELLO_REPLY),
              Step(CLIENT, 2, HELLO), Step(SERVER, 2, HELLO_REPLY)],
             [Step(SERVER, 2, struct.pack("!IIQ", 2801, 545774, 1).ljust(1400, b"\x71")),
              Step(CLIENT, 1, struct.pack("!IIQ", 2801, 548035, 1).ljust(1400, b"\xdb")),
              Step(SERVER, 2, struct.pack("!IIQ", 2801, 546894, 2).ljust(1400, b"\x71")),
              Step(SERVER, 2, struct.pack("!IIQ", 2801, 548014, 3).ljust(1400, b"\x71"))],
             results((0.16362662816471946, 0.16372633969925007, 0), 0, [
                 result(1, 4200, 1.001787, packets=3),
                 result(3, 4200, 1.00179, jitter=0.00012331230005876591, packets=3)], None),
             results((1.5609965464236522, 1.5609965464236522, 0), 0, [
                 result(1, 4200, 1.001825, jitter=0.0002455155091705322, packets=3),
                 result(3, 4200, 1.001825, packets=3)], None)),
        ["-u", "--bidir", "--udp-counters-64bit", "-n", "4200", "-l", "1400", "-b", "10M",
         "--threads"], ["-V"], True)),
    ("output-text", Conversation(
        talk(tcp_parameters(("get_server_output", 1)), ONE_STREAM, ONE_BLOCK, FORWARD[0],
             results(*FORWARD[1], output=[("server_output_text", OUTPUT_TEXT)])),
        ["--get-server-output", "-n", "16K", "-l", "16K", "-V", "--threads"],
        ["--threads"], False)),
    ("output-json", Conversation(
        talk(tcp_parameters(("get_server_output", 1), ("title", "fuzz"),
                            ("extra_data", "more")), ONE_STREAM, ONE_BLOCK, FORWARD[0],
             results(*FORWARD[1], output=[("server_output_json", OUTPUT_JSON)])),
        ["--get-server-output", "-n", "16K", "-l", "16K", "-T", "fuzz", "-J", "-d"],
        ["--json-stream", "--json-stream-full-output"], False)),
    ("login", Conversation(
        talk(tcp_parameters(("authtoken", TOKEN)), ONE_STREAM, ONE_BLOCK, FORWARD[0],
             results(*FORWARD[1])),
        [], ["--login", "-V"], False)),
    ("facts", Conversation(
        talk(tcp_parameters(ASKING), ONE_STREAM, ONE_BLOCK,
             results_with_facts((99.9, 99.9, 0), 1, [with_facts(
                 result(1, 16384, 1.001043, 0), stream_facts())]),
             results_with_facts((0.01, 0.01, 0), -1, [with_facts(
                 result(1, 16384, 1.001264), stream_facts(busy_us=0, rwnd_limited_us=0))]), TOLD),
        ["--verdict", "-n", "16K", "-l", "16K"], ["--verdict"], False)),
    ("facts-bidir", Conversation(
        talk(tcp_parameters(("bidirectional", True), ("bandwidth", 20000000), ASKING),
             [Step(CLIENT, 1, COOKIE), Step(CLIENT, 2, COOKIE)],
             [Step(CLIENT, 1, BLOCK), Step(SERVER, 2, BLOCK)],
             results_with_facts((99.4, 99.4, 0), 1, [
                 with_facts(result(1, 16384, 1.00042, 0), stream_facts()),
                 with_facts(result(3, 16384, 1.00042), stream_facts(busy_us=0))]),
             results_with_facts((99.7, 99.6, 0.1), 1, [
                 with_facts(result(1, 16384, 1.000531), stream_facts(busy_us=0)),
                 with_facts(result(3, 16384, 1.000531, 0), stream_facts())]), TOLD),
        ["--verdict", "--bidir", "-n", "16K", "-l", "16K", "-b", "20M", "-V"],
        ["--verdict", "-J"], False)),
    ("facts-udp", Conversation(
        talk(udp_parameters(ASKING), [Step(CLIENT, 1, HELLO), Step(SERVER, 1, HELLO_REPLY)],
             [Step(CLIENT, 1, datagram(1, 545774)), Step(CLIENT, 1, datagram(2, 546894)),
              Step(CLIENT, 1, datagram(3, 548014))],
             results_with_facts((2.1, 0, 2.1), 0, [with_facts(
                 result(1, 4200, 1.001104, packets=3),
                 members(("worker_cpu_percent", 96.7), ("send_buffer", 4194304)))], None),
             results_with_facts((0.4, 0, 0.4), -1, [with_facts(
                 result(1, 4200, 1.001187, jitter=1.1843e-05, packets=3),
                 members(("worker_cpu_percent", 2.7), ("receive_buffer", 4194304)))], None), TOLD),
        ["--verdict", "-u", "-n", "4200", "-l", "1400", "-b", "10M"], ["--verdict", "-V"], True)),
    ("denial", Conversation([
        Step(CLIENT, 0, COOKIE),
        Step(SERVER, 0, pyperf3.PARAM_EXCHANGE),
        Step(CLIENT, 0, tcp_parameters()),
        Step(SERVER, 0, b"\xfe\0\0\0\x8e\0\0\0\0"),
    ], ["-n", "16K", "-l", "16K", "-V"], [], False)),
))
# A client does nothing else for having a name, and the end of a denial is the server's.
ROLES = ((SERVER, [name for name in CONVERSATIONS if name != "denial"]),
         (CLIENT, [name for name in CONVERSATIONS if name != "login"]))


def cookie(number):
    """Return the cookie of a mutant: a server remembers that of the test before."""
    letters = "".join(pyperf3.COOKIE_LETTERS[number >> shift & 31] for shift in (20, 15, 10, 5, 0))
    return COOKIE[:31] + letters.encode("ascii") + b"\0"


def token(number):
    """Return a token that make_login_readable() lets through, each time another."""
    text = "user: mario\npwd:  rossi\nts:   %d %07d" % (time.time(), number)
    return base64.b64encode(text.encode("ascii")).decode("ascii")


# Mutations ####################################################################

Mutation = collections.namedtuple("Mutation", "kind step at value")
Mutation.__doc__ = """One change. step: the number of the step; at: a byte, or a path in JSON."""

# What may stand for any value of a document.
LITERALS = collections.OrderedDict((
    ("null", b"null"), ("true", b"true"), ("false", b"false"), ("empty text", b'""'),
    ("text", b'"text"'), ("digits", b'"1"'), ("list", b"[]"), ("list of 1", b"[1]"),
    ("object", b"{}"), ("object of 1", b'{"a":1}'), ("half", b"0.5"), ("0", b"0"), ("1", b"1"),
    ("-1", b"-1"), ("-0", b"-0.0"), ("65536", b"65536"), ("2^31", b"2147483648"),
    ("2^63-1", b"9223372036854775807"), ("2^63", b"9223372036854775808"),
    ("-2^63", b"-9223372036854775808"), ("2^64-1", b"18446744073709551615"),
    ("2^64", b"18446744073709551616"), ("1e15", b"999999999999999.9"), ("1e308", b"1e308"),
    ("-1e308", b"-1e308"), ("1e-320", b"1e-320"), ("1e999", b"1e999"),
    ("10^400", b"1" + b"0" * 400), ("-10^400", b"-1" + b"0" * 400), ("10^5000", b"9" * 5000),
    ("NaN", b"NaN"), ("Infinity", b"Infinity"), ("-Infinity", b"-Infinity"),
    ("nested 90", b"[" * 90 + b"]" * 90), ("nested 900", b"[" * 900 + b"]" * 900),
    ("nested 4000", b"[" * 4000 + b"]" * 4000), ("open 4000", b"[" * 4000),
    ("nested objects", b'{"a":' * 600 + b"1" + b"}" * 600),
    ("long text", b'"' + b"x" * 5000 + b'"'), ("zero byte", b'"a\\u0000b"'),
    ("escape", b'"\\u001b[2J\\u009b31m\\nx\\r\\u007f"'), ("no UTF-8", b'"\xff\xfe\x80"'),
    ("half a pair", b'"\\ud800"'), ("low half", b'"\\udcff\\udc9b"'), ("no JSON", b"?"),
))
LENGTHS = ("0", "-1", "+1", "2^31", "2^32-1")
STATES = range(256)


def edit_member(prefix, text, how):
    """Return a member of an object, or element of a list, changed; None if it is taken away."""
    if how == "removed":
        return None
    if how == "doubled":
        return prefix + text + b"," + prefix + b'"again"'
    if how == "in capitals":
        return prefix.upper() + text
    return prefix + LITERALS[how]


def write_json(value, path=None, how=None, at=(), prefix=b""):
    """Return a value as JSON text, with the one at `path` changed."""
    if isinstance(value, dict):
        parts = [write_json(item, path, how, at + (name,), b'"%s":' % name.encode("ascii"))
                 for name, item in value.items()]
        text = b"{" + b",".join(part for part in parts if part is not None) + b"}"
    elif isinstance(value, list):
        parts = [write_json(item, path, how, at + (number,))
                 for number, item in enumerate(value)]
        text = b"[" + b",".join(part for part in parts if part is not None) + b"]"
    else:
        text = json.dumps(value).encode("ascii")
    if at == path:
        return edit_member(prefix, text, how)
    return prefix + text


def paths(value, at=()):
    """Return the paths of all values of a document."""
    found = [at]
    items = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for name, item in items:
        found += paths(item, at + (name,))
    return found


def encode(what, number, path=None, how=None):
    """Return the bytes of a step of mutant `number`."""
    if isinstance(what, int):
        return struct.pack("!b", what)
    if isinstance(what, dict):
        text = write_json(what, path, how)
        if text is None:
            text = b""
        text = text.replace(b'"%s"' % TOKEN.encode("ascii"),
                            b'"%s"' % token(number).encode("ascii"))
        return struct.pack("!I", len(text)) + text
    return cookie(number) if what == COOKIE else what


class Message:
    """What is sent in one step: pieces, with pauses between them; then perhaps the end."""

    def __init__(self, data):
        self.pieces = [data]
        self.end = None  # cut: the end of file; reset: a reset

    @property
    def data(self):
        return b"".join(self.pieces)


def change(message, mutation, step, number):
    """Apply a mutation to its message."""
    kind, _, at, value = mutation
    data = message.data
    if kind == "json":
        message.pieces = [encode(step.what, number, at, value)]
    elif kind == "length":
        size = max(0, len(data) - 4)
        size = {"0": 0, "-1": size - 1, "+1": size + 1, "2^31": 2 ** 31,
                "2^32-1": 2 ** 32 - 1}[value]
        message.pieces = [struct.pack("!I", max(0, size)) + data[4:]]
    elif kind == "state":
        message.pieces = [bytes(bytearray((value,)))]
    elif kind == "inserted":
        message.pieces = [bytes(bytearray((value,))) + data]
    elif kind == "flipped" and at < len(data):
        data = bytearray(data)
        data[at] ^= 1 << value
        message.pieces = [bytes(data)]
    elif kind == "doubled":
        message.pieces = [data[:at + 1] + data[at:]]
    elif kind == "delayed":
        message.pieces = [data[:at], data[at:]]
    elif kind in ("cut", "reset"):
        message.pieces, message.end = [data[:at]], kind
    elif kind == "left out":
        message.pieces = []
    elif kind == "sent twice":
        message.pieces = [data, data]


def positions(step, udp):
    """Return the bytes of a step that are worth changing: all but those of payload."""
    count = len(encode(step.what, 0))
    if step.place and count > 100:
        return list(range(16)) + [count - 1] if udp else [0, count - 1]
    return range(count)


def mutations(conversation, side, chance):
    """Return all single mutations of what one side sends."""
    found = []
    for number, step in enumerate(conversation.steps):
        if step.sender != side:
            continue
        if step.place and conversation.udp and len(step.what) > 100:
            found += [Mutation("flipped", number, at, bit) for at in range(16) for bit in range(8)]
        for at in positions(step, conversation.udp):
            found += [Mutation(kind, number, at, None) for kind in ("cut", "doubled", "delayed")]
            found.append(Mutation("flipped", number, at, chance.randrange(8)))
        found += [Mutation("left out", number, 0, None), Mutation("sent twice", number, 0, None),
                  Mutation("reset", number, 0, None)]
        if isinstance(step.what, int):
            found += [Mutation("state", number, 0, value) for value in STATES
                      if value != step.what & 255]
        elif not step.place and number and isinstance(step.what, dict):
            found += [Mutation("length", number, 0, value) for value in LENGTHS]
            found += [Mutation("flipped", number, at, bit) for at in range(4) for bit in range(8)]
            found += [Mutation("json", number, path, value) for path in paths(step.what)
                      for value in list(LITERALS) + ["removed", "doubled", "in capitals"]]
        elif step.place and side == CLIENT and step.what != COOKIE:
            # States that come while something else is due, on the control connection.
            found += [Mutation("inserted", number, 0, value) for value in STATES]
    return found


def mutants(role, name, seed, most=None):
    """Return the mutants of a conversation: a list of tuples of mutations, always the same.

    most: how many to keep at most; None: all.
    """
    conversation = CONVERSATIONS[name]
    chance = random.Random("%d %s %s" % (seed, role, name))
    side = SERVER if role == CLIENT else CLIENT
    single = mutations(conversation, side, chance)
    found = [(mutation,) for mutation in single]
    for _ in range(len(single) // 8):
        count = 2 + chance.randrange(3)
        found.append(tuple(single[chance.randrange(len(single))] for _ in range(count)))
    chance.shuffle(found)
    return found[:most]


def describe(mutant):
    return "; ".join("step %d %s at %r: %r" % (each.step, each.kind, each.at, each.value)
                     for each in mutant)


def is_harmless(mutant, conversation):
    """Return whether the conversation must end as the recorded one does."""
    # A datagram that is sent in two pieces is two datagrams.
    return all(each.kind == "in capitals" or each.kind == "delayed" and not (
        conversation.udp and conversation.steps[each.step].place) for each in mutant)


# Players ######################################################################

class Hang(Exception):
    """Report that an answer did not come."""


class Stalled(Exception):
    """The other side did not say what it would have said to the recorded side."""


class Player:
    """Play one side of a conversation, changed or not."""

    side = None

    def __init__(self, conversation):
        self.conversation = conversation
        self.sockets = {}  # by place
        self.datagram_places = {}  # of a server: the client's addresses
        self.patience = HANG
        self.complete = False

    def play(self, number, mutant=()):
        """Play the conversation; returns whether it went to its end."""
        steps, by_step = self.conversation.steps, {}
        for mutation in mutant:
            by_step.setdefault(mutation.step, []).append(mutation)
        self.patience = HANG if is_harmless(mutant, self.conversation) else STALL
        self.number, self.complete = number, False
        try:
            self.begin()
            for at, step in enumerate(steps):
                if step.sender == self.side:
                    message = Message(encode(step.what, number))
                    for mutation in by_step.get(at, ()):
                        change(message, mutation, step, number)
                    self.send(step, message)
                else:
                    self.expect(step)
            self.complete = True
        except (Stalled, OSError):
            pass
        try:
            self.finish()
        finally:
            for sock in self.sockets.values():
                sock.close()
            self.sockets = {}
        return self.complete

    def send(self, step, message):
        sock = self.connection(step)
        for number, piece in enumerate(message.pieces):
            if number:
                time.sleep(PAUSE)
            if piece or step.place:
                self.deliver(sock, step, piece)
        if step.place and self.conversation.udp:
            return  # there is no connection to end
        if message.end == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
            del self.sockets[step.place]
        elif message.end:
            sock.shutdown(socket.SHUT_WR)
        if message.end and not step.place:
            raise Stalled

    def receive(self, count, patience=None):
        """Return `count` bytes of the control connection. Raises Stalled."""
        control, data = self.sockets[0], b""
        deadline = time.monotonic() + (patience or self.patience)
        watched = [control] + self.watched()
        while len(data) < count:
            left = deadline - time.monotonic()
            ready = select.select(watched, [], [], max(0, left))[0]
            if control in ready:
                piece = control.recv(count - len(data))
                if not piece:
                    raise Stalled
                data += piece
            elif left <= 0:
                raise Stalled
            else:
                # A data connection was closed: nothing good will come, or it is on its way.
                watched = [control]
                deadline = min(deadline, time.monotonic() + STALL)
        return data

    def watched(self):
        return []

    def expect_control(self, what):
        if isinstance(what, dict):
            size, = struct.unpack("!I", self.receive(4))
            self.receive(size)
        else:
            expected = encode(what, 0)
            if self.receive(len(expected)) != expected and what != COOKIE:
                raise Stalled

    def finish(self):
        """Close the control connection in order, and wait until the other side did. Raises Hang."""
        control = self.sockets.get(0)
        if control is None:
            return
        try:
            control.shutdown(socket.SHUT_WR)
            control.settimeout(HANG)
            while control.recv(65536):
                pass
        except socket.timeout:
            raise Hang("the connection was not closed")
        except OSError:
            pass


class ClientPlayer(Player):
    """Play the client, against a server on a port."""

    side = CLIENT

    def __init__(self, conversation, port):
        Player.__init__(self, conversation)
        self.port = port
        self.sends = {step.place for step in conversation.steps
                      if step.sender == SERVER and step.place and step.what != HELLO_REPLY}

    def begin(self):
        self.connect(0, socket.SOCK_STREAM)

    def connect(self, place, kind):
        sock = self.sockets[place] = socket.socket(socket.AF_INET, kind)
        sock.settimeout(HANG)
        sock.connect(("127.0.0.1", self.port))
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def connection(self, step):
        if step.place in self.sockets:
            return self.sockets[step.place]
        udp = self.conversation.udp
        return self.connect(step.place, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)

    @staticmethod
    def deliver(sock, step, data):
        sock.sendall(data)

    def watched(self):
        """Return the data connections on which nothing but the end of file can come."""
        if self.conversation.udp:
            return []
        return [sock for place, sock in self.sockets.items() if place and place not in self.sends]

    def expect(self, step):
        if not step.place:
            self.expect_control(step.what)
        elif step.what == HELLO_REPLY:
            sock = self.sockets[step.place]
            if not select.select([sock, self.sockets[0]], [], [], self.patience)[0]:
                raise Stalled
            sock.settimeout(self.patience)
            sock.recv(65536)


class ServerPlayer(Player):
    """Play the server, for clients that come one after the other."""

    side = SERVER

    def __init__(self, conversation):
        Player.__init__(self, conversation)
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(16)
        self.port = self.listener.getsockname()[1]
        self.door = None
        if conversation.udp:
            self.door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.door.bind(("127.0.0.1", self.port))

    def accept(self, patience):
        self.listener.settimeout(patience)
        sock, _ = self.listener.accept()
        sock.settimeout(HANG)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def begin(self):
        self.addresses = {}
        self.sockets[0] = self.accept(HANG)

    def connection(self, step):
        if step.place and self.door:
            return self.door
        if step.place not in self.sockets:
            raise Stalled  # it was reset
        return self.sockets[step.place]

    def deliver(self, sock, step, data):
        if step.place and self.door:
            sock.sendto(data, self.addresses[step.place])
        else:
            sock.sendall(data)

    def expect(self, step):
        if not step.place:
            self.expect_control(step.what)
        elif step.what == HELLO:
            self.door.settimeout(self.patience)
            while True:
                data, address = self.door.recvfrom(65536)
                if data == HELLO and address not in self.addresses.values():
                    break
            self.addresses[step.place] = address
        elif step.what == COOKIE:
            sock = self.sockets[step.place] = self.accept(self.patience)
            sock.settimeout(self.patience)
            sock.recv(37)

    def clear(self):
        """Forget what the last client has left behind."""
        self.listener.settimeout(0)
        try:
            while True:
                self.listener.accept()[0].close()
        except OSError:
            pass
        if self.door:
            self.door.settimeout(0)
            try:
                while True:
                    self.door.recv(65536)
            except OSError:
                pass


# What a process has #############################################################

class Usage:
    """Memory, threads, descriptors and children of a process (Linux)."""

    def __init__(self, pid):
        with open("/proc/%d/status" % pid) as handle:
            status = dict(line.split(":", 1) for line in handle)
        self.kilobytes = int(status["VmRSS"].split()[0])
        self.threads = int(status["Threads"])
        self.descriptors = len(os.listdir("/proc/%d/fd" % pid))
        self.children = len(children(pid))

    def list(self):
        return [self.kilobytes, self.threads, self.descriptors, self.children]


def children(pid):
    """Return the processes whose parent is `pid`."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name) as handle:
                    parent = handle.read().rpartition(")")[2].split()[1]
            except (OSError, IndexError):
                continue
            if int(parent) == pid:
                found.append(int(name))
    return found


SLACK = 4096  # kilobytes by which the heap may differ: what is free in it is in pieces


class Report:
    """What came of the mutants of one list."""

    def __init__(self, role, name, seed):
        self.role, self.name, self.seed = role, name, seed
        self.failures = []
        self.count = self.complete = self.slow = 0
        self.slowest = 0.0
        self.begin = time.monotonic()
        self.before = self.after = None

    def fail(self, what, number=None, mutant=()):
        where = "python3 tests/fuzz.py --role %s --conversation %s --seed %d" % (
            self.role, self.name, self.seed)
        if number is not None:
            where += " --number %d" % number
        self.failures.append("%s (%s): %s" % (where, describe(mutant), what))

    def take(self, seconds, complete):
        self.count += 1
        self.complete += complete
        self.slow += seconds > 1.0
        self.slowest = max(self.slowest, seconds)

    def compare(self, before, after):
        """See that a process has not grown."""
        self.before, self.after = before.list(), after.list()
        if after.kilobytes > before.kilobytes + SLACK:
            self.fail("the memory grew from %d to %d kB" % (before.kilobytes, after.kilobytes))
        for name in ("threads", "descriptors", "children"):
            if getattr(after, name) > getattr(before, name):
                self.fail("%s: %d, and %d at the end" % (
                    name, getattr(before, name), getattr(after, name)))

    def summary(self):
        return {"role": self.role, "conversation": self.name, "seed": self.seed,
                "mutants": self.count, "complete": self.complete, "slow": self.slow,
                "slowest": round(self.slowest, 3), "before": self.before, "after": self.after,
                "seconds": round(time.monotonic() - self.begin, 1),
                "failures": self.failures[:20], "failed": len(self.failures)}


# What a program may print #######################################################

STEERING = re.compile(u"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# The second is how an exception that nobody foresaw ends a test, the third how one ends a stream.
FORBIDDEN = ("Traceback", pyperf3.ERRORS[100].rstrip(":"), "the stream's worker has died")


def read_documents(data):
    """Return the JSON values that stand in a row. Raises ValueError: JSON is UTF-8, has no NaN."""
    def refuse(name):
        raise ValueError("%s is not JSON" % name)
    text, found, at = data.decode("utf-8"), [], 0
    decoder = json.JSONDecoder(parse_constant=refuse)
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        found.append(value)
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
    return found


def complaints(out, err, words):
    """Return what is wrong with the output of a program that was started with `words`."""
    text, more = (each.decode("utf-8", "replace") for each in (err, out))
    found = []
    for bad in FORBIDDEN:
        at = (text + more).find(bad)
        if at >= 0:
            found.append("it prints %r" % (text + more)[at:at + 2000])
    if "-d" not in words:
        found += ["an error line: %r" % line for line in text.split("\n")[:-1]
                  if not line.startswith(("iperf3: ", "warning: "))][:5]
    steering = STEERING.search(text if is_json(words) else text + more)
    if steering:
        at = max(0, steering.start() - 80)
        found.append("it steers the terminal: %r" % steering.string[at:at + 160])
    return found


def is_json(words):
    return "-J" in words or "--json-stream" in words


def bad_json(out, words):
    """Return what is wrong with the JSON that a program printed, as a list."""
    try:
        if is_json(words):
            read_documents(out)
    except ValueError as error:
        return ["the output is no JSON: %s" % error]
    return []


# The role of the server #########################################################

def shorten_deadlines():
    """Let a process not wait long for what will not come."""
    pyperf3.STEP_TIMEOUT = pyperf3.REPLY_TIMEOUT = 3.0
    pyperf3.HELLO_TIMEOUT = 2.0
    pyperf3.DATA_TIMEOUT = 5.0
    pyperf3.CLOSING_TIMEOUT = 1.0


class OpenKey:
    """Stand for a private key: what it decrypts is already readable.

    The real ones are for other tests: openssl alone would take as long as all the rest.
    """

    def __init__(self, path, private, passphrase=None):
        pass

    def decrypt(self, data, pkcs1=False):
        return data


def serve(words):
    """Be a server of the command line, until a signal comes."""
    shorten_deadlines()
    users = None
    if "--login" in words:
        words = [word for word in words if word != "--login"]
        pyperf3.RsaKey = OpenKey
        users = tempfile.NamedTemporaryFile("w")
        users.write("mario,%s\n" % pyperf3.password_digest("mario", "rossi"))
        users.flush()
        words += ["--rsa-private-key-path", "none", "--authorized-users-path", users.name]
    return pyperf3.main(["pyperf3"] + words)


class ServerUnderTest:
    """A server in a process, whose output goes to files. Use it in a `with`."""

    def __init__(self, words):
        self.words = words
        self.read = [0, 0]  # bytes of the output that printed() has returned
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        self.process = subprocess.Popen(
            [sys.executable, "-B", os.path.abspath(__file__), "--serve"]
            + ["-s", "-p", str(self.port)] + words,
            stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err,
            env=dict(os.environ, LC_ALL="C"))

    def wait(self):
        """Wait until it listens."""
        deadline = time.monotonic() + HANG
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise Hang("the server does not listen: %r" % (self.printed(),))
            time.sleep(0.02)

    def usage(self):
        return Usage(self.process.pid)

    def printed(self):
        """Return what it has printed since the last call, as bytes: [out, err], whole lines."""
        texts = []
        for number, handle in enumerate((self.out, self.err)):
            data = os.pread(handle.fileno(), 1 << 24, self.read[number])
            data = data[:data.rfind(b"\n") + 1]
            self.read[number] += len(data)
            texts.append(data)
        return texts

    def all_output(self):
        return os.pread(self.out.fileno(), os.fstat(self.out.fileno()).st_size, 0)

    def end(self):
        """Send a signal, and return the exit status; None if it did not end."""
        self.process.terminate()
        try:
            return self.process.wait(HANG)
        except subprocess.TimeoutExpired:
            return None

    def __enter__(self):
        return self

    def __exit__(self, *details):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.out.close()
        self.err.close()


def settle(measure, before):
    """Return the usage once it is down to what it was, or does not come down."""
    deadline = time.monotonic() + 5.0
    while True:
        after = measure()
        if time.monotonic() > deadline or all(
                new <= old for new, old in zip(after.list()[1:], before.list()[1:])):
            return after
        time.sleep(0.05)


HONEST = 250  # mutants between two unchanged conversations
WARM = 3  # part of the mutants after which memory must not grow any more: a third


def try_server(report, found, first):
    """Let a server meet the mutants; `first` is the number of the first of them."""
    conversation = CONVERSATIONS[report.name]
    words = conversation.server
    with ServerUnderTest(words) as server:
        server.wait()
        player = ClientPlayer(conversation, server.port)
        before = server.usage()
        for at, mutant in enumerate(found):
            number = first + at
            meet_server(report, player, number, mutant)
            for text in complaints(*server.printed(), words=words):
                report.fail(text + " (or the mutant before)", number, mutant)
            if server.process.poll() is not None:
                report.fail("the server has ended", number, mutant)
                break
            if at % HONEST == HONEST - 1 or at == len(found) - 1:
                if not play_honest(player, number):
                    report.fail("the unchanged conversation failed after it", number, mutant)
            if at == len(found) // WARM:
                before = server.usage()
        else:
            report.compare(before, settle(server.usage, before))
            honest_client(report, server.port)
            if server.end() != 0:
                report.fail("a signal does not end it")
        for text in complaints(*server.printed(), words=words) + bad_json(
                server.all_output(), words):
            report.fail(text)


def meet_server(report, player, number, mutant):
    """Play one mutant against a server."""
    begin = time.monotonic()
    try:
        complete = player.play(number, mutant)
    except Hang as error:
        report.fail(str(error), number, mutant)
        complete = False
    report.take(time.monotonic() - begin, complete)
    if is_harmless(mutant, player.conversation) and not complete:
        report.fail("it is harmless, and the conversation failed", number, mutant)
    if any(each.kind == "reset" for each in mutant) and not play_honest(player, number):
        # Nobody sees how a connection that was reset ends.
        report.fail("the unchanged conversation failed after it", number, mutant)


def play_honest(player, number):
    """Play the conversation unchanged; a server may be busy for a moment with the one before."""
    deadline = time.monotonic() + HANG
    number += 1 << 22
    while True:
        try:
            if player.play(number):
                return True
        except Hang:
            return False
        if time.monotonic() > deadline:
            return False
        number += 1
        time.sleep(0.005)


def honest_client(report, port):
    """Run a real client against a server. (It has no name, so not where one is needed.)"""
    if report.name == "login":
        return
    process = subprocess.Popen(
        [sys.executable, "-B", os.path.join(ROOT, "pyperf3.py"), "-c", "127.0.0.1", "-p",
         str(port), "-n", "1M"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)
    try:
        out = process.communicate(timeout=HANG)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        out = process.communicate()[0]
    if process.returncode != 0:
        report.fail("an honest client failed at the end: %r" % out)


# The role of the client #########################################################

class ServerProcess:
    """A process that plays the server for one client after the other, and its numbers."""

    def __init__(self, conversation, found, first):
        player = ServerPlayer(conversation)
        self.port = player.port
        self._pipe, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self._pipe.close()
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                self._serve(player, theirs, found, first)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        theirs.close()
        player.listener.close()
        if player.door:
            player.door.close()

    @staticmethod
    def _serve(player, pipe, found, first):
        while True:
            data = pipe.recv(8)
            if not data:
                return
            number, = struct.unpack("!q", data)
            try:
                complete = player.play(abs(number), found[number - first] if number >= 0 else ())
            except Hang:
                complete = False
            pipe.recv(1)
            player.clear()
            pipe.send(b"\1" if complete else b"\0")

    def begin(self, number):
        """Let it play mutant `number` for the next client, -1: the unchanged conversation."""
        self._pipe.send(struct.pack("!q", number))

    def end(self):
        """Return whether the conversation went to its end."""
        self._pipe.send(b"e")
        self._pipe.settimeout(2 * HANG)
        return self._pipe.recv(1) == b"\1"

    def close(self):
        self._pipe.close()
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def on_alarm(number, frame):
    raise Hang("it runs on")


def run_client(words):
    """Run a client in this process, through all renderers.

    Returns the error that it ended with, and what is wrong with what it would have printed.
    """
    settings = pyperf3.Settings.from_arguments(words)
    client = pyperf3.Client(settings)
    chosen = pyperf3.make_renderer(settings)
    others = [pyperf3.JsonRenderer(), pyperf3.TextRenderer(True)]
    out, err, texts = [], [], [[], []]
    for event in client:
        out += chosen.render(event)
        for renderer, lines in zip(others, texts):
            lines += renderer.render(event)
        if event["event"] in ("error", "warning"):
            err += pyperf3.error_lines(event)
        if event["event"] == "debug":
            texts[1].append(event["data"])
    found = []
    for lines, kind in zip([out] + texts, (words, ["-J"], [])):
        data = pyperf3.to_bytes("\n".join(lines))
        found += complaints(data, b"", kind) + bad_json(data, kind)
    data = pyperf3.to_bytes("".join(line + "\n" for line in err))
    return client.error, found + complaints(b"", data, [])


def try_client(report, found, first):
    """Let clients meet the mutants; `first` is the number of the first of them."""
    shorten_deadlines()
    conversation = CONVERSATIONS[report.name]
    peer = ServerProcess(conversation, found, first)
    words = ["-c", "127.0.0.1", "-p", str(peer.port)] + conversation.client
    signal.signal(signal.SIGALRM, on_alarm)
    try:
        before = Usage(os.getpid())
        for at, mutant in enumerate(found):
            meet_client(report, peer, words, first + at, mutant)
            if at % HONEST == HONEST - 1 or at == len(found) - 1:
                honest_server(report, peer, words, first + at)
                command_line(report, peer, words, first + at, mutant)
            if at == len(found) // WARM:
                before = Usage(os.getpid())
        report.compare(before, settle(lambda: Usage(os.getpid()), before))
    finally:
        peer.close()


def meet_client(report, peer, words, number, mutant):
    """Run a client in this process against one mutant."""
    peer.begin(number)
    begin, error = time.monotonic(), None
    signal.setitimer(signal.ITIMER_REAL, HANG)
    try:
        error, found = run_client(words)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for text in found[:1]:  # the renderers agree
            report.fail(text, number, mutant)
        if error is not None and not isinstance(error, pyperf3.IperfError):
            report.fail("it ended with %r" % error, number, mutant)
    except BaseException as failure:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if isinstance(failure, KeyboardInterrupt):
            raise
        report.fail(traceback.format_exc(), number, mutant)
        error = failure
    seconds = time.monotonic() - begin
    complete = peer.end()
    report.take(seconds, complete)
    if is_harmless(mutant, CONVERSATIONS[report.name]) and (
            error is not None) != (report.name == "denial"):
        report.fail("it is harmless, and the client ended with %s" % error, number, mutant)


def honest_server(report, peer, words, number):
    """Run a client against the unchanged conversation."""
    peer.begin(-1)
    error = run_client(words)[0]
    if not peer.end() or (error is not None) != (report.name == "denial"):
        report.fail("the unchanged conversation failed behind number %d: %s" % (number, error))


def command_line(report, peer, words, number, mutant):
    """Run a client of the command line against one mutant."""
    peer.begin(number)
    process = subprocess.Popen(
        [sys.executable, "-B", os.path.join(ROOT, "pyperf3.py")] + words,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(timeout=HANG)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        report.fail("the command line runs on", number, mutant)
    peer.end()
    for text in complaints(out, err, words) + bad_json(out, words):
        report.fail("the command line: " + text, number, mutant)
    if process.returncode not in (0, 1):
        report.fail("exit status %d: %r" % (process.returncode, err), number, mutant)


# Command line ###################################################################

def chosen(role, name, seed, most=None, part=(0, 1)):
    """Return (mutants, number of the first) of one part of so many of a conversation's list."""
    found = mutants(role, name, seed, most)
    number, count = part
    first = len(found) * number // count
    return found[first:len(found) * (number + 1) // count], first


def run(role, name, seed, most=None, part=(0, 1), only=None):
    """Play mutants of a conversation, or only one of them; returns the Report."""
    found, first = chosen(role, name, seed, most, part)
    if only is not None:
        found, first = [mutants(role, name, seed, most)[only]], only
        print("%d: %s" % (only, describe(found[0])))
    report = Report(role, name, seed)
    (try_server if role == SERVER else try_client)(report, found, first)
    return report


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--role", choices=(CLIENT, SERVER), default=SERVER)
    parser.add_argument("--conversation", choices=list(CONVERSATIONS), default="tcp")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--most", type=int, help="how many mutants to play at most")
    parser.add_argument("--part", default="0/1", help="I/N: the part I, from 0, of N")
    parser.add_argument("--number", type=int, help="the only mutant to play")
    parser.add_argument("--list", action="store_true", help="count the mutants of everything")
    arguments = parser.parse_args()
    if arguments.list:
        for role, names in ROLES:
            for name in names:
                print("%6d %s %s" % (len(mutants(role, name, arguments.seed)), role, name))
        return 0
    report = run(arguments.role, arguments.conversation, arguments.seed, arguments.most,
                 tuple(int(word) for word in arguments.part.split("/")), arguments.number)
    for text in report.failures:
        print(text)
    print(json.dumps(report.summary()))
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
