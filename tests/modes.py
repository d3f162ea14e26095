"""The modes of a test as rows, which the loopback, UDP, TLS, QUIC and interop tests run.

What a row's words ask for is checked by their options: see the checks behind the tables. Rates
are unlimited where that is a mode of its own; where a row is about something else it has a rate,
since a second of all that a host can send takes both ends' cores and proves nothing more.
"""

import collections
import unittest

import captures
import figures

NEWEST, OLDER = "3.22", ("3.18", "3.12", "3.9")  # real iperf3s

# Against which real ones a mode is tried, in both roles.
NONE, THE_NEWEST, ALL = (), (NEWEST,), (NEWEST,) + OLDER

# What the client and the server are told, where the server is, a capture whose documents have the
# same members (or None), the real iperf3s, and whether ours is tried against ours.
Mode = collections.namedtuple("Mode", "client server host capture peers ours")


def _row(client, capture=None, peers=NONE, server="", host="127.0.0.1", ours=True):
    return Mode(client, server, host, capture, peers, ours)


TCP = {
    "forward": _row("-t 1", "json-tcp", ALL),
    "reverse": _row("-t 1 -R", "json-tcp-reverse", ALL),
    "bidir": _row("-t 1 --bidir", "json-tcp-bidir", ALL),
    "parallel_2": _row("-t 1 -P 2 -b 100M", "json-tcp-parallel2", ALL),
    "parallel_4": _row("-t 1 -P 4 -i 0.2", None, THE_NEWEST),
    "parallel_4_reverse": _row("-t 1 -P 4 -R", None, THE_NEWEST),
    "bidir_parallel_2": _row("-t 1 --bidir -P 2 -b 100M", "json-tcp-bidir-parallel2", THE_NEWEST),
    "parallel_12_rate": _row("-t 1 -P 12 -b 10M", None, THE_NEWEST),
    "parallel_12_bytes": _row("-n 100M -P 12"),
    "parallel_12_omit_reverse": _row("-O 1 -t 1 -P 12 -b 10M -R"),
    "parallel_128": _row("-t 1 -P 128", None, THE_NEWEST),
    "parallel_128_reverse": _row("-t 1 -P 128 -R", None, THE_NEWEST),
    "bidir_parallel_12": _row("-t 2 -P 12 --bidir -b 10M", None, THE_NEWEST),
    "threads_forward": _row("-t 1 --threads", "json-tcp", server="--threads"),
    "threads_reverse": _row("-t 1 -R --threads", "json-tcp-reverse", server="--threads"),
    "threads_bidir": _row("-t 1 --bidir --threads", "json-tcp-bidir", server="--threads"),
    "threads_parallel_4": _row("-n 64M -P 4 --threads", server="--threads"),
    "threads_bytes": _row("-n 64M --threads", "json-tcp-bytes", server="--threads"),
    "bytes": _row("-n 20M", "json-tcp-bytes", ALL),
    "bytes_few": _row("-n 1M", "json-tcp-bytes", ALL),
    "bytes_one": _row("-n 1", "json-tcp-bytes", THE_NEWEST),
    # A 3.9 client with -R -n never ends, not even against a server of its own version.
    "bytes_reverse": _row("-n 1M -R", None, (NEWEST, "3.18", "3.12")),
    "bytes_many_reverse": _row("-n 64M -R"),
    "bytes_bidir": _row("-n 100M --bidir", None, THE_NEWEST),
    "bytes_many_bidir": _row("-n 512M --bidir"),
    "bytes_parallel": _row("-n 1M -P 3", None, THE_NEWEST),
    "blocks": _row("-k 100", "json-tcp-blocks"),
    "blocks_reverse": _row("-k 100 -R"),
    "blocks_small": _row("-k 10 -l 1000", "json-tcp-blocks", ALL),
    "blocks_small_reverse": _row("-k 10 -l 1000 -R", None, THE_NEWEST),
    "omit": _row("-O 1 -t 1 -b 100M", "json-tcp-omit1", ALL),
    "omit_reverse": _row("-O 1 -t 1 -R -b 100M", None, THE_NEWEST),
    "omit_and_interval": _row("-O 1 -t 1 -i 0.7 -b 100M", None, THE_NEWEST, "-i 0.7"),
    "interval_0": _row("-t 1 -i 0 -b 100M", "json-interval-0", THE_NEWEST, "-i 0"),
    "interval_0.1": _row("-t 1 -i 0.1 -b 100M", "json-interval-0.5", server="-i 0.1"),
    "interval_0.3": _row("-t 1 -i 0.3 -b 100M", None, THE_NEWEST),
    "interval_0.3_reverse": _row("-t 1 -i 0.3 -R -b 100M", server="-i 0.3"),
    "interval_0.7": _row("-t 1 -i 0.7 --bidir -b 100M", server="-i 0.7"),
    "rate": _row("-t 1 -b 20M -l 16K", "json-tcp-rate", ALL),
    "rate_in_large_blocks": _row("-t 1 -b 20M", "json-tcp-rate"),
    "rate_reverse": _row("-t 1 -b 20M -l 16K -R", None, THE_NEWEST),
    "rate_bidir": _row("-t 1 -b 20M -l 16K --bidir", None, THE_NEWEST),
    "rate_bidir_parallel_2": _row("-t 1 -b 20M --bidir -P 2"),
    "rate_and_burst": _row("-t 1 -b 20M/20 -l 1K", "json-tcp-rate", THE_NEWEST),
    "length_small": _row("-n 1M -l 100", "json-tcp-bytes", THE_NEWEST),
    "length_odd": _row("-n 10M -l 7777", "json-tcp-bytes"),
    "length_large": _row("-n 64M -l 1M", "json-tcp-bytes", THE_NEWEST),
    "window": _row("-n 20M -w 64K", "json-tcp-bytes", THE_NEWEST),
    "window_small": _row("-n 20M -w 10K", None, THE_NEWEST, ours=False),
    "mss": _row("-n 20M -M 1000", None, THE_NEWEST),
    "mss_reverse": _row("-n 20M -M 1000 -R", None, THE_NEWEST),
    "mss_and_window": _row("-n 20M -M 1000 -w 128K", "json-mss-window"),
    "no_delay": _row("-n 10M -N", "json-tcp-bytes", THE_NEWEST),
    "congestion": _row("-n 20M -C reno", "json-congestion-reno", THE_NEWEST),
    "congestion_reverse": _row("-n 20M -C reno -R", None, THE_NEWEST),
    "tos": _row("-n 20M -S 0x10", "json-tcp-bytes", THE_NEWEST),
    "dscp": _row("-n 20M --dscp ef", "json-tcp-bytes"),
    "dscp_reverse": _row("-n 20M --dscp ef -R", None, THE_NEWEST),
    "ipv4": _row("-n 20M -4", "json-tcp-bytes", THE_NEWEST, "-4", "localhost"),
    "ipv6": _row("-n 20M -6", "json-ipv6", host="::1"),
    "bind": _row("-n 20M -B 127.0.0.2", "json-tcp-bytes", THE_NEWEST),
    "zerocopy": _row("-n 100M -Z", "json-zerocopy", ALL),
    "zerocopy_reverse": _row("-n 100M -Z -R", "json-tcp-reverse", THE_NEWEST),
    "zerocopy_bidir": _row("-t 1 -Z --bidir", "json-tcp-bidir", THE_NEWEST),
    "skip_rx_copy": _row("-n 100M --skip-rx-copy", "json-tcp-bytes", THE_NEWEST),
    "skip_rx_copy_reverse": _row("-n 100M --skip-rx-copy -R", "json-tcp-reverse", THE_NEWEST),
    "repeating_payload": _row("-n 20M --repeating-payload", "json-tcp-bytes", THE_NEWEST),
    "title_and_extra_data": _row("-n 1M -T TITLE --extra-data extra", "json-title-extra-data",
                                 THE_NEWEST),
    "server_output": _row("-n 20M --get-server-output", "json-get-server-output", ALL),
}

# Amounts in both directions take most of a second, so that the other one has begun on a busy host.
UDP = {
    "forward": _row("-t 1", "json-udp", ALL),
    "reverse": _row("-t 1 -R", "json-udp-reverse"),
    "bidir": _row("-t 1 --bidir", "json-udp-bidir"),
    "parallel_2": _row("-n 40000 -l 1000 -b 5M -P 2", "json-udp-parallel2"),
    "parallel_8": _row("-n 80000 -l 1000 -b 5M -P 8"),
    "parallel_8_reverse": _row("-n 80000 -l 1000 -b 5M -P 8 -R"),
    "parallel_8_bidir": _row("-n 800000 -l 1000 -b 1M -P 8 --bidir"),
    "parallel_128": _row("-n 64K -l 16 -b 1M -P 128"),
    "bidir_parallel_2": _row("-n 400000 -l 1000 -b 2M --bidir -P 2",
                             "json-udp-bidir-parallel2"),
    "threads_forward": _row("-n 40000 -l 1000 -b 5M -P 2 --threads", "json-udp-parallel2",
                            server="--threads"),
    "threads_reverse": _row("-n 40000 -l 1000 -b 5M -R --threads", "json-udp-reverse",
                            server="--threads"),
    "threads_bidir": _row("-n 400000 -l 1000 -b 4M --bidir --threads", "json-udp-bidir",
                          server="--threads"),
    "bytes": _row("-n 100000 -l 1000 -b 10M", "json-udp"),
    "bytes_reverse": _row("-n 100000 -l 1000 -b 10M -R", "json-udp-reverse"),
    "bytes_bidir": _row("-n 500000 -l 1000 -b 5M --bidir"),
    "bytes_parallel": _row("-n 100000 -l 1000 -b 10M -P 3"),
    "bytes_odd": _row("-n 10001 -l 1000 -b 10M", "json-udp"),
    "blocks": _row("-k 100 -l 1000 -b 10M", "json-udp"),
    "blocks_reverse": _row("-k 100 -l 1000 -b 10M -R"),
    "omit": _row("-O 1 -t 1", "json-udp-omit1"),
    "omit_reverse": _row("-O 1 -t 1 -R"),
    "interval_0": _row("-n 20000 -l 1000 -i 0", server="-i 0"),
    "interval_0.1": _row("-t 1 -i 0.1 -b 5M -l 1000", server="-i 0.1"),
    "interval_0.7_bidir": _row("-t 1 -i 0.7 --bidir -P 2", server="-i 0.7"),
    "rate_and_burst": _row("-t 1 -b 1M/5 -l 1000", "json-udp"),
    "rate_and_burst_reverse": _row("-n 50000 -b 5M/5 -l 1000 -R"),
    "rate_low": _row("-t 1 -b 1K -l 100", "json-udp"),
    "length_16": _row("-n 1600 -l 16", "json-udp"),
    "length_16_wide": _row("-n 1600 -l 16 --udp-counters-64bit", "json-udp"),
    "length_odd": _row("-n 70000 -l 777 -b 10M", "json-udp"),
    "wide": _row("-n 50000 -l 1000 -b 10M --udp-counters-64bit", "json-udp"),
    "wide_reverse": _row("-n 50000 -l 1000 -b 10M --udp-counters-64bit -R"),
    "window": _row("-n 50000 -l 1000 -b 10M -w 64K", "json-udp"),
    "ipv4": _row("-n 20000 -l 1000 -b 10M -4", "json-udp", server="-4", host="localhost"),
    "ipv6": _row("-n 20000 -l 1000 -b 10M -6", "json-udp", host="::1"),
    "ipv6_reverse": _row("-n 20000 -l 1000 -b 10M -6 -R", server="-6", host="::1"),
    "ipv6_label": _row("-n 20000 -l 1000 -b 10M -6 -L 1234", "json-udp", host="::1"),
    "bind": _row("-n 20000 -l 1000 -b 10M -B 127.0.0.2", "json-udp"),
    "bind_server": _row("-n 20000 -l 1000 -b 10M", "json-udp", server="-B 127.0.0.3",
                        host="127.0.0.3"),
    "tos": _row("-n 20000 -l 1000 -b 10M -S 0x10", "json-udp"),
    "dscp": _row("-n 20000 -l 1000 -b 10M --dscp ef", "json-udp"),
    "dont_fragment": _row("-n 20000 -l 1000 -b 10M --dont-fragment", "json-udp"),
    "dont_fragment_reverse": _row("-n 20000 -l 1000 -b 10M --dont-fragment -R"),
    "gsro": _row("-n 1400000 -l 1400 -b 20M --gsro", "json-udp"),
    "gsro_reverse": _row("-n 1400000 -l 1400 -b 20M --gsro -R"),
    "gsro_bidir": _row("-n 1400000 -l 1400 -b 15M --gsro --bidir"),
    "gsro_wide_odd": _row("-n 100000 -l 777 -b 10M --gsro --udp-counters-64bit"),
    "repeating_payload": _row("-n 20000 -l 1000 -b 10M --repeating-payload", "json-udp"),
    "skip_rx_copy": _row("-n 200000 -l 1000 -b 20M --skip-rx-copy", "json-udp"),
    "skip_rx_copy_reverse": _row("-n 200000 -l 1000 -b 20M --skip-rx-copy -R"),
    "skip_rx_copy_single": _row("-n 20000 -l 1000 -b 10M --skip-rx-copy --no-sendmmsg",
                                "json-udp", server="--no-sendmmsg"),
    "skip_rx_copy_gsro": _row("-n 140000 -l 1400 -b 20M --skip-rx-copy --gsro", "json-udp"),
    "sendmmsg": _row("-n 20000 -l 1000 -b 10M --sendmmsg", "json-udp"),
    "single": _row("-n 200000 -l 1000 -b 20M --no-sendmmsg", "json-udp",
                   server="--no-sendmmsg"),
    "single_bidir": _row("-n 500000 -l 1000 -b 5M --no-sendmmsg --bidir", "json-udp-bidir",
                         server="--no-sendmmsg"),
    "single_wide_reverse": _row("-n 20000 -l 1000 -b 10M --no-sendmmsg -R --udp-counters-64bit",
                                server="--no-sendmmsg"),
    "server_output": _row("-n 20000 -l 1000 -b 10M --get-server-output"),
}

# An iperf3 that is to send an amount of datagrams may never end: these end after a second.
UDP.update((name, _row(words, None, peers, ours=False)) for name, words, peers in (
    ("timed", "-t 1 -b 2M -l 1000", ALL),
    ("timed_reverse", "-t 1 -b 2M -l 1000 -R", ALL),
    ("timed_bidir", "-t 1 -b 2M -l 1000 --bidir", ALL),
    ("timed_parallel", "-t 1 -b 2M -l 1000 -P 2", ALL),
    ("timed_parallel_reverse", "-t 1 -b 2M -l 1000 -P 2 -R", ALL),
    ("timed_wide", "-t 1 -b 2M -l 1000 --udp-counters-64bit", ALL),
    ("timed_wide_reverse", "-t 1 -b 2M -l 1000 --udp-counters-64bit -R", ALL),
    ("timed_omit", "-O 1 -t 1 -b 2M -l 1000", ALL),
    ("timed_server_output", "-t 1 -b 2M -l 1000 --get-server-output", ALL),
    ("timed_gsro", "-t 1 -b 20M -l 1400 --gsro", THE_NEWEST),
    ("timed_gsro_reverse", "-t 1 -b 20M -l 1400 --gsro -R", THE_NEWEST),
    ("timed_gsro_bidir", "-t 1 -b 20M -l 1400 --gsro --bidir", THE_NEWEST),
    ("few_blocks", "-k 10 -i 0.1 -b 2M -l 1000", THE_NEWEST),
    ("timed_burst_reverse", "-t 1 -b 2M/5 -l 1000 -R", THE_NEWEST),
    ("timed_single", "-t 1 -b 2M -l 1000 --repeating-payload --dont-fragment", THE_NEWEST),
    ("timed_omit_reverse", "-O 1 -t 1 -b 2M -l 1000 -R", THE_NEWEST),
    ("timed_interval", "-t 1 -b 2M -l 1000 -i 0.3", THE_NEWEST),
    ("timed_window", "-t 1 -b 2M -l 1000 -w 100K", THE_NEWEST),
    ("timed_tos", "-t 1 -b 2M -l 1000 --dscp ef", THE_NEWEST)))

# Words of the client, and inside what: TLS, QUIC by qh3, QUIC by aioquic.
TLS, QUIC, OTHER_QUIC = "tls", "qh3", "aioquic"
ENCRYPTED = (
    ("-t 1", (TLS, QUIC, OTHER_QUIC)),
    ("-t 1 -R", (TLS, QUIC, OTHER_QUIC)),
    ("-t 2 --bidir", (TLS, QUIC, OTHER_QUIC)),  # both have begun, on a busy host, too
    ("-t 1 -P 3", (TLS, QUIC, OTHER_QUIC)),
    ("-t 1 -P 12", (TLS,)),
    ("-t 1 -P 12 -R", (TLS,)),
    ("-t 1 -P 3 -R", (QUIC,)),
    ("-t 1 -P 3 --bidir", (QUIC,)),
    ("-n 3M", (TLS, QUIC, OTHER_QUIC)),
    ("-n 3M -R", (TLS, QUIC, OTHER_QUIC)),
    ("-n 3M -P 3", (QUIC,)),
    ("-k 10", (TLS, QUIC, OTHER_QUIC)),
    ("-k 10 -R", (QUIC,)),
    ("-O 1 -t 1 -b 10M", (TLS, QUIC)),
    ("-O 1 -t 1 -b 10M -R", (QUIC,)),
    ("-t 1 -i 0.3 -b 10M", (QUIC,)),
    ("-t 1 -b 10M", (TLS, QUIC, OTHER_QUIC)),
    ("-t 1 -b 10M -R", (TLS, QUIC)),
    ("-t 1 -l 1000 -b 10M", (TLS, QUIC, OTHER_QUIC)),
    ("-t 1 -w 64K -b 10M", (TLS, QUIC)),
    ("-n 3M -w 64K", (OTHER_QUIC,)),
    ("-n 3M -w 64K -R", (QUIC,)),
    ("-t 1 --threads -P 2", (TLS,)),
    ("-t 1 --threads -P 3", (QUIC, OTHER_QUIC)),
    ("-t 1 -R --threads", (TLS, QUIC)),
    ("-t 1 --threads --bidir", (QUIC,)),
    ("-t 1 -S 184 -b 10M", (QUIC,)),
    ("-t 1 --get-server-output -b 10M", (TLS, QUIC)),
    ("-4 -n 3M", (QUIC,)),
    ("-t 1 -N -M 1000 -b 10M", (QUIC,)),
    ("-t 1 -C reno -N -M 1000 -b 10M", (TLS,)),
    ("-t 1 -C reno", (OTHER_QUIC,)),
    ("-t 1 -C cubic -R", (OTHER_QUIC,)),
    ("-t 1 --quic-iw 40", (OTHER_QUIC,)),
    ("-t 1 --quic-iw 40 -R", (OTHER_QUIC,)),
)


def inside(what):
    """Return the words of the modes to try inside TLS or QUIC."""
    return [words for words, where in ENCRYPTED if what in where]


def against(table, version):
    """Yield (name, words of the client, Mode) of the modes to try against a real iperf3.

    From 3.16 on it looks for the end of -n and -k once an interval, so these have a short one.
    """
    for name, mode in table.items():
        if version in mode.peers:
            words = mode.client.split()
            yield name, mode.client + (
                " -i 0.1" if words[0] in ("-n", "-k") and "-i" not in words else ""), mode


def add_tests(kind, table, both, check):
    """Give a class the tests of ours against ours: figures that agree, and iperf3's members.

    both(Mode): runs a pair with JSON, once; check(test, words, client, server): the documents.
    """
    def figures_test(mode):
        def test(self):
            left = both(mode)
            for program in left:
                self.assertClean(program)
            check(self, mode.client.split(), *[program.json() for program in left])
        return test

    def members_test(mode):
        def test(self):
            case = captures.Case(mode.capture)
            for program, side in zip(both(mode), ("client", "server")):
                expected, = captures.documents(case.out(side))
                self.assertEqual(figures.shape(program.json()), figures.shape(expected), side)
        return test
    for name, mode in table.items():
        suffix = name.replace(".", "_")
        if mode.ours:
            setattr(kind, "test_figures_agree_" + suffix, figures_test(mode))
        if mode.ours and mode.capture:
            setattr(kind, "test_members_are_those_of_iperf3_" + suffix, members_test(mode))


def in_json(both, mode):
    """Run a mode with JSON on both sides: `both` of a test module."""
    if ":" in mode.host and not figures.has_ipv6():
        raise unittest.SkipTest("no IPv6 here")
    return both(mode.client + " -J", (mode.server + " -J").strip(), mode.host)


# Checks #######################################################################


def value_of(words, option):
    """Return the word behind an option, None without it."""
    return words[words.index(option) + 1] if option in words else None


def number(text):
    """Return the number of a size as these tables have them: 10, 3M, 64K."""
    return int(text.rstrip("KM")) * {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1)


def check_tcp_options(test, words, client, server):
    """Check what the words of a client ask for in both documents, whoever printed them."""
    end, setup = client["end"], client["start"]["test_start"]
    for option, key in (("-T", "title"), ("--extra-data", "extra_data")):
        if option in words:
            value = value_of(words, option)
            test.assertEqual((client[key], server[key]), (value, value))
    if "--get-server-output" in words:
        test.assertEqual(client["server_output_json"]["end"], server["end"])
    if "-M" in words:
        test.assertEqual((client["start"]["tcp_mss"], server["start"]["tcp_mss"]), (1000, 1000))
    if "-C" in words:
        test.assertEqual((end["sender_tcp_congestion"], end["receiver_tcp_congestion"]),
                         ("reno", "reno"))
    if "-B" in words:
        test.assertEqual(server["start"]["accepted_connection"]["host"], "127.0.0.2")
    if "-O" in words:
        for document in (client, server):
            flags = [each["sum"]["omitted"] for each in document["intervals"]]
            test.assertTrue(flags[0])
            test.assertFalse(flags[-1])
    if "-b" in words and "-O" not in words:  # a pause in the omitted part may be made up for
        rate = int(value_of(words, "-b").split("/")[0].rstrip("M")) * 125000  # bytes a second
        sent = end["sum_sent"]
        test.assertLessEqual(sent["bytes"], setup["num_streams"] * (
            rate * 1.05 * sent["seconds"] + 4096 + max(16384, setup["blksize"])))


def check_amounts(test, end):
    """Check that data went in each direction of a client's test, and what was sent again."""
    for name in end:
        if name.startswith("sum_"):
            test.assertGreater(end[name]["bytes"], 0, name)
        if name.startswith("sum_sent"):
            test.assertGreaterEqual(end[name]["retransmits"], 0)


def check_udp_amounts(test, words, client):
    """Check that datagrams arrived in each direction, and as many as were asked for."""
    end = client["end"]
    for suffix in ("", "_bidir_reverse") if "--bidir" in words else ("",):
        test.assertGreater(end["sum_sent" + suffix]["packets"], 0)
        test.assertGreater(end["sum_received" + suffix]["packets"], 0)
    if ("-n" in words or "-k" in words) and "--bidir" not in words:
        expected = udp_amount(words)
        test.assertGreaterEqual(end["sum_received"]["packets"], expected)
        if "-R" not in words and "-P" not in words:
            test.assertEqual(end["sum_sent"]["packets"], expected)


def udp_amount(words):
    """Return the datagrams that a test's words ask for."""
    if "-k" in words:
        return int(value_of(words, "-k"))
    return -(-number(value_of(words, "-n")) // int(value_of(words, "-l")))
