#!/usr/bin/env python3
"""pyperf3 - iperf3, client and server, in one Python file with no dependencies.

Run it:

    python3 pyperf3.py --loopback         one command, no second host
    python3 pyperf3.py -s                 a server; any iperf3 client may use it
    python3 pyperf3.py -c HOST            a client; any iperf3 server will do

How it works. A test has a control connection, over which the two ends agree on
the parameters, start, stop and exchange their results, and one data connection
per stream. The *control plane* is one loop over a selector; what it does reads
as plain sequences, since each conversation is a generator that yields what it
waits for. The *data plane* is one worker per stream, which runs that stream's
loop and nothing else, blocked in system calls: a forked process where the host
can fork and the program has no other threads, else a thread. Workers count in
a shared memory map; the control plane reads the counters at each tick. A
running test produces *events*, each a dict that holds the piece of iperf3's
JSON document it stands for; text and JSON are functions from events to lines.

As a module: `for event in Client(Settings(client="HOST")): ...`, or
`Client(settings).run()`, which returns the document. The module prints nothing,
handles no signals and never exits; that is main()'s part.

Sections (each uses only what stands above it):

    constants       numbers of the protocol and limits
    errors          IperfError and iperf3's numbered texts
    units           sizes and rates, read and printed
    settings        the table of options, and Settings
    wire            bytes to values and back, without sockets
    kernel          socket options, TCP_INFO, CPU time, processes
    statistics      counters to figures
    tasks           generators that wait, and the loop that runs them
    streams         the data plane: workers, senders, receivers
    test            what both ends share: ticks, end conditions, results
    client          the client's side of the protocol
    server          the server's side of the protocol
    renderers       events to text, JSON and JSON stream
    command line    main()
"""

import collections
import os
import sys

if sys.version_info < (3, 6):
    sys.exit("pyperf3: Python 3.6 or newer is needed, this is %d.%d" % sys.version_info[:2])

try:
    import errno
    import functools
    import gc
    import itertools
    import json
    import selectors
    import signal
    import socket
    import struct
    import time
except ImportError as missing:
    if __name__ != "__main__":
        raise
    # Debian's python3-minimal is such a Python.
    sys.exit("pyperf3: this Python has no module %s: install the whole of it"
             " (Debian, Ubuntu: apt-get install python3)" % missing.name)

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
try:
    import resource
except ImportError:  # Windows
    resource = None
try:
    import mmap
except ImportError:
    mmap = None

__version__ = "0.1.0"
__all__ = ["Client", "IperfError", "Server", "Settings", "main"]


###############################################################################
# constants ###################################################################
###############################################################################
# Numbers of iperf3's protocol and limits of iperf3 3.22.

IPERF_VERSION = "3.22"  # what we are compatible with; readers take features from it
VERSION_TEXT = "iperf %s (pyperf3 %s)" % (IPERF_VERSION, __version__)

# State bytes on the control connection (signed, one byte each).
TEST_START = 1
TEST_RUNNING = 2
TEST_END = 4
PARAM_EXCHANGE = 9
CREATE_STREAMS = 10
SERVER_TERMINATE = 11
CLIENT_TERMINATE = 12
EXCHANGE_RESULTS = 13
DISPLAY_RESULTS = 14
IPERF_DONE = 16
ACCESS_DENIED = -1
SERVER_ERROR = -2

COOKIE_SIZE = 37  # 36 characters and a zero byte
COOKIE_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"

DEFAULT_PORT = 5201
DEFAULT_TIME = 10  # seconds
DEFAULT_TCP_BLOCK = 128 * 1024  # bytes
MAX_BLOCK = 1024 * 1024  # bytes
MAX_WINDOW = 512 * 1024 * 1024  # bytes
MAX_MSS = 32767  # bytes
MAX_TIME = 86400  # seconds
MAX_OMIT = 600  # seconds
MAX_STREAMS = 128  # per direction
MAX_BURST = 1000  # blocks
MIN_INTERVAL, MAX_INTERVAL = 0.1, 60.0  # seconds

MAX_PARAMETERS = 8192  # bytes of JSON; iperf3 since 3.18
MAX_DEPTH = 100  # levels of JSON in a server's output
MAX_RESULTS = 64 * 1024 * 1024  # bytes of JSON; iperf3 has no limit

# Deadlines in seconds. iperf3 waits for ever in most of these places.
STEP_TIMEOUT = 10.0  # a server's wait for each piece of the set-up
REPLY_TIMEOUT = 30.0  # a client's wait for a connection, and for each answer of the server
FILE_TIMEOUT = 10.0  # for the rest of a file (-F) to arrive
CLOSING_TIMEOUT = 2.0  # for the other side's end of file; iperf3 waits 10
DATA_TIMEOUT = 120.0  # without received data, as iperf3's --rcv-timeout
WATCHDOG_GRACE = 40.0  # a server ends a test this long after its time, as iperf3
MAX_PENDING = 256  # connections whose cookie has not come


###############################################################################
# errors ######################################################################
###############################################################################
# One exception for everything that can go wrong in a test. Its number is
# iperf3's own: a server sends it to its client.

# number: (text, whether the system's text for errno follows)
ERRORS = {
    0: ("no error", False),
    1: ("cannot be both server and client", False),
    2: ("must either be a client (-c) or server (-s)", False),
    3: ("some option you are trying to set is server only", False),
    4: ("some option you are trying to set is client only", False),
    5: ("test duration valid values are 0 to %d seconds" % MAX_TIME, False),
    6: ("invalid number of parallel streams (min = 1, max = %d)" % MAX_STREAMS, False),
    7: ("block size too large (maximum = %d bytes)" % MAX_BLOCK, False),
    8: ("socket buffer size too large (maximum = %d bytes)" % MAX_WINDOW, False),
    9: ("invalid report interval (min = %g, max = %g seconds)"
        % (MIN_INTERVAL, MAX_INTERVAL), False),
    10: ("TCP MSS too large (maximum = %d bytes)" % MAX_MSS, False),
    11: ("this OS does not support sendfile", False),
    12: ("bogus value for --omit (maximum = %d seconds)" % MAX_OMIT, False),
    13: ("an option you are trying to set is not implemented yet", False),
    14: ("unable to open -F file", True),
    15: ("invalid burst count (maximum = %d)" % MAX_BURST, False),
    16: ("only one test end condition (-t, -n, -k) may be specified", False),
    17: ("unable to open log file", True),
    18: ("no SCTP support available", False),
    20: ("block size invalid (minimum = 16 bytes, maximum = 65507 bytes)", False),
    21: ("bad TOS value (must be between 0 and 255 inclusive)", False),
    22: ("you must specify a username, password, and path to a valid RSA public key", False),
    23: ("you must specify a path to a valid RSA private key and a user credential file", False),
    24: ("bad format specifier (valid formats are in the set [kmgtKMGT])", False),
    25: ("cannot be both reverse and bidirectional", False),
    26: ("port number must be between 1 and 65535 inclusive", False),
    27: ("total required bandwidth is larger than server limit", False),
    28: ("invalid time interval for calculating average data rate", False),
    29: ("skew threshold must be a positive number", False),
    30: ("idle timeout parameter is not positive or larger than allowed limit", False),
    31: ("receive timeout value is incorrect or not in range", True),
    32: ("client receive timeout is valid only in receiving mode", True),
    33: ("send timeout value is incorrect or not in range", True),
    34: ("cannot transfer file using UDP", False),
    35: ("cannot access authorized users file", False),
    36: ("control connection Keepalive period should be larger than the full retry period"
         " (interval * count)", True),
    37: ("client's requested duration exceeds the server's maximum permitted limit", False),
    38: ("invalid unit value or suffix", False),
    39: ("this OS does not support --skip-rx-copy", False),
    40: ("bad DSCP value (numeric: 0-63 inclusive, symbolic: one of [af11-13, af21-23, af31-33,"
         " af41-43, cs1-7, ef, va, lowdelay, throughput, reliability])", False),
    100: ("unable to create a new test", True),
    101: ("test initialization failed", True),
    102: ("unable to start listener for connections", True),
    103: ("unable to connect to server - server may have stopped running or use a different port,"
          " firewall issue, etc.", True),
    104: ("unable to accept connection from client", True),
    105: ("unable to send cookie to server", True),
    106: ("unable to receive cookie at server", True),
    107: ("unable to write to the control socket", True),
    108: ("unable to read from the control socket", True),
    109: ("control socket has closed unexpectedly", False),
    110: ("received an unknown control message (ensure other side is iperf3 and not iperf)",
          False),
    111: ("unable to send control message - port may not be available, the other side may have"
          " stopped running, etc.", True),
    112: ("unable to receive control message - port may not be available, the other side may have"
          " stopped running, etc.", True),
    113: ("unable to send parameters to server", True),
    114: ("unable to receive parameters from client", True),
    115: ("unable to package results", True),
    116: ("unable to send results", True),
    117: ("unable to receive results", True),
    118: ("select failed", True),
    119: ("the client has terminated", False),
    120: ("the server has terminated", False),
    121: ("the server is busy running a test. try again later", False),
    122: ("unable to set TCP/SCTP NODELAY", True),
    123: ("unable to set TCP/SCTP MSS", True),
    124: ("unable to set socket buffer size", True),
    125: ("unable to set IP TOS", True),
    126: ("unable to set IPv6 traffic class", True),
    127: ("unable to set IPv6 flow label", False),
    128: ("unable to reuse address on socket", True),
    129: ("unable to set socket to non-blocking", True),
    130: ("unable to set socket window size", True),
    131: ("protocol does not exist", False),
    132: ("unable to set CPU affinity", True),
    133: ("unable to become a daemon", True),
    134: ("unable to set TCP_CONGESTION: Supplied congestion control algorithm not supported on"
          " this host", False),
    135: ("unable to write PID file", True),
    136: ("Unable to set/reset IPV6_V6ONLY", True),
    137: ("unable to set SCTP_DISABLE_FRAGMENTS", True),
    138: ("unable to set SCTP_INIT num of SCTP streams", False),
    140: ("unable to set socket pacing", True),
    141: ("socket buffer size not set correctly", False),
    142: ("test authorization failed", False),
    143: ("Unable to bind-to-device (check perror, maybe permissions?)", False),
    144: ("idle timeout for receiving data", False),
    145: ("unable to set IP Do-Not-Fragment flag", False),
    146: ("`<ip>%<dev>` is not supported as system does not support bind to device", False),
    147: ("host device name (ip%<dev>) is supported (and required) only for IPv6 link-local"
          " address", False),
    148: ("unable to set TCP USER_TIMEOUT", True),
    150: ("unable to create thread", True),
    151: ("unable to cancel thread", True),
    152: ("unable to join thread", True),
    153: ("unable to create thread attributes", True),
    154: ("unable to destroy thread attributes", False),
    155: ("unable to set socket keepalive (SO_KEEPALIVE) option", True),
    156: ("unable to set socket keepalive TCP period (TCP_KEEPIDLE) option", True),
    157: ("unable to set/get socket keepalive TCP retry interval (TCP_KEEPINTVL) option", True),
    158: ("unable to set/get socket keepalive TCP number of retries (TCP_KEEPCNT) option", True),
    159: ("unable to change mask of blocked signals", False),
    160: ("server test duration expired", True),
    200: ("unable to create a new stream", True),
    201: ("unable to initialize stream", True),
    202: ("unable to start stream listener", True),
    203: ("unable to connect stream", True),
    204: ("unable to accept stream connection", True),
    205: ("unable to write to stream socket", True),
    206: ("unable to read from stream socket", True),
    207: ("stream socket has closed unexpectedly", False),
    208: ("stream has an invalid id", False),
    300: ("unable to create new timer", True),
    301: ("unable to update timer", True),
}


class IperfError(Exception):
    """Report a failure with iperf3's number and text.

    number: iperf3's error number (a key of ERRORS; others are shown as int_errno=N).
    cause: what follows the text: an OSError, or a text; None if nothing is known.
    remote_errno: set if a server reported the error: its errno, 0 for none.
    document: the results so far, where the error ended a test (set by the driver).
    """

    def __init__(self, number, cause=None, remote_errno=None):
        self.number = number
        self.cause = cause
        self.remote_errno = remote_errno
        self.document = None
        Exception.__init__(self, number, cause, remote_errno)

    @property
    def errno(self):
        """Return the system's error number behind this error, 0 if there is none."""
        return getattr(self.cause, "errno", None) or 0

    def __str__(self):
        text, has_detail = ERRORS.get(self.number, ("int_errno=%d" % self.number, True))
        if isinstance(self.cause, OSError):
            detail = self.cause.strerror or str(self.cause)
        else:
            detail = self.cause or ""
        if has_detail or detail:
            text = "%s: %s" % (text, detail)
        return text


def as_failure(error):
    """Return an exception as what ends one test, and no more: an IperfError or Interrupted."""
    if isinstance(error, (IperfError, Interrupted)):
        return error
    return IperfError(100, error if isinstance(error, OSError) else repr(error))


class Interrupted(Exception):
    """End a test from outside: a signal, or a call of stop(). `reason` is the text for users."""

    def __init__(self, reason):
        self.reason = reason
        Exception.__init__(self, reason)


###############################################################################
# units #######################################################################
###############################################################################
# Numbers as iperf3 reads and prints them. C's atoi, atof and strtol stop at the
# first character that does not fit, and so do these.

def _number_prefix(text, pattern):
    import re
    return re.match(pattern, text)


_FLOAT = (r"[ \t\n\r\f\v]*([+-]?(?:0[xX][0-9a-fA-F]+"
          r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|nan))")


def atoi(text):
    """Return the integer that `text` begins with, 0 if none, as C's atoi (32 bits, wrapping)."""
    match = _number_prefix(text, r"[ \t\n\r\f\v]*([+-]?)0*([0-9]*)")
    sign, digits = match.groups()
    value = int(digits[:20] or 0)  # 20 digits are beyond 64 bits already
    value = max(-2 ** 63, min(2 ** 63 - 1, -value if sign == "-" else value))
    return (value + 2 ** 31) % 2 ** 32 - 2 ** 31


def atof(text):
    """Return the number that `text` begins with, 0.0 if none, as C's atof."""
    match = _number_prefix(text, "(?i)" + _FLOAT)
    return _to_float(match.group(1)) if match else 0.0


def strtol(text):
    """Return (value, rest) as C's strtol with base 0; value is None if there are no digits."""
    match = _number_prefix(text, r"[ \t\n\r\f\v]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
    if not match:
        return None, text
    sign, digits = match.groups()
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10
    value = int(digits, base) if len(digits) < 4000 else 2 ** 63 - 1
    return -value if sign == "-" else value, text[match.end():]


def _to_float(digits):
    try:
        return float(int(digits, 16)) if "x" in digits.lower() else float(digits)
    except OverflowError:
        return float("inf")


def parse_units(text, step):
    """Return the integer that a number with an optional unit letter stands for.

    text: like `10`, `1.5M`, `0x10`; the unit is one of kKmMgGtT directly behind the
    number, and what follows it is ignored.
    step: 1024 for sizes, 1000 for rates.
    Raises IperfError 38 on an unknown unit or no number.
    """
    match = _number_prefix(text, "(?i)" + _FLOAT)
    rest = text[match.end():] if match else "?"
    power = " kmgt".find(rest[:1].lower()) if rest else 0
    if not match or power < 0 or rest[:1] == " ":
        raise IperfError(38, "'%s'" % text)
    value = _to_float(match.group(1)) * step ** power
    if value != value or value in (float("inf"), float("-inf")):
        raise IperfError(38, "'%s'" % text)
    return int(value)


_UNITS = {
    "bits": ("bit", "Kbit", "Mbit", "Gbit", "Tbit"),
    "bytes": ("Byte", "KByte", "MByte", "GByte", "TByte"),
}


def format_units(count, letter):
    """Return a number of bytes (or bytes per second) as iperf3 prints it, unit without `s`.

    letter: `k m g t` bits in steps of 1000, `K M G T` bytes in steps of 1024, `a` and `A`
    the largest unit of these that leaves a value of at least 1.
    """
    kind, step = ("bits", 1000.0) if letter.islower() else ("bytes", 1024.0)
    value = count * 8.0 if kind == "bits" else float(count)
    if letter in "aA":
        power = 0
        while value >= step and power < 4:
            value /= step
            power += 1
    else:
        power = " kmgt".index(letter.lower())
        value /= step ** power
    digits = "%4.2f" if value < 9.995 else "%4.1f" if value < 99.95 else "%4.0f"
    return "%s %s" % (digits % value, _UNITS[kind][power])


###############################################################################
# settings ####################################################################
###############################################################################
# One table of options. The parser, --help, the checks and Settings all come
# from it. Nothing here knows of sockets.

class Option(collections.namedtuple(
        "Option", "names dest read default side group metavar help optional")):
    """One option of the command line, a row of OPTIONS.

    names: as typed, the short one first; dest: the attribute of Settings.
    read: function from the argument's text to the value (raising IperfError); None for a
    flag, which sets True.
    side: "C" (client only), "S" (server only) or "CS".
    group: section of --help, None to leave it out there.
    optional: the argument may be left out (long form only, `--name=value`).
    """

    @property
    def long_names(self):
        return [name[2:] for name in self.names if name.startswith("--")]


def _bounded(read, low, high, number):
    """Return a reader that refuses values outside low..high with error `number`."""
    def reader(text):
        value = read(text)
        if not low <= value <= high:
            raise IperfError(number)
        return value
    return reader


def _size(text):
    return parse_units(text, 1024)


def _unsigned_size(text):
    return _size(text) % 2 ** 64  # iperf3: a negative number becomes an enormous one


def _block_size(text):
    return (_size(text) + 2 ** 31) % 2 ** 32 - 2 ** 31  # iperf3: the low 32 bits


def _digits(text):
    """Read as atoi does, but refuse a word with no number in it at all."""
    # differs: iperf3 reads `-t abc` as 0, which is a test without end.
    if text.strip()[:1].isalpha():
        raise IperfError(38, "'%s'" % text)
    return atoi(text)


def _interval(text):
    value = atof(text)
    if value and not MIN_INTERVAL <= value <= MAX_INTERVAL:
        raise IperfError(9)
    return value


def _format_letter(text):
    if text[:1] not in tuple("kmgtKMGT"):
        raise IperfError(24)
    return text[0]


def _bitrate(text):
    """Return (bits per second, blocks per burst) of RATE[/BURST]."""
    rate, slash, burst = text.partition("/")
    count = atoi(burst) if slash else 0
    if slash and not 1 <= count <= MAX_BURST:
        raise IperfError(15)
    return parse_units(rate, 1000) % 2 ** 64, count


def _tos(text):
    value, _ = strtol(text)
    if value is None or not 0 <= value <= 255:
        raise IperfError(21)
    return value


_DSCP_NAMES = {"lowdelay": 0x10, "throughput": 0x08, "reliability": 0x04, "ef": 0xb8, "va": 0xb0}
_DSCP_NAMES.update(("cs%d" % number, number << 5) for number in range(8))
_DSCP_NAMES.update(("af%d%d" % (number, drop), number << 5 | drop << 3)
                   for number in range(1, 5) for drop in range(1, 4))


def _dscp(text):
    """Return the TOS byte of a DSCP number or name (RFC 2474, RFC 2597, RFC 3246)."""
    if text.lower() in _DSCP_NAMES:
        return _DSCP_NAMES[text.lower()]
    value, rest = strtol(text)
    if value is None or rest or not 0 <= value <= 63:
        raise IperfError(40)
    return value << 2


def _host(text):
    """Return (host, device) of HOST[%DEV]; an IPv6 link-local address keeps its zone."""
    host, percent, device = text.partition("%")
    if not percent or host.lower().startswith("fe80:"):
        return text, None
    return host, device


def _later(text):
    raise IperfError(13)


def _option(names, dest, read=None, default=None, side="CS", group=None, metavar=None, help=None,
            optional=False):
    return Option(names.split(), dest, read, default, side, group, metavar, help, optional)


_BOTH, _SERVER, _CLIENT = "Server or Client", "Server specific", "Client specific"

# In the order in which iperf3 3.22 declares them: it is the order of the candidates in the
# message about an ambiguous prefix. Rows without a group are not shown by --help.
OPTIONS = (
    _option("-p --port", "port", _bounded(atoi, 1, 65535, 26), DEFAULT_PORT, "CS", _BOTH, "#",
            "port to listen on, or to connect to (default %d)" % DEFAULT_PORT),
    _option("-f --format", "format", _format_letter, None, "CS", _BOTH, "[kmgtKMGT]",
            "unit of the Bitrate column: lower case bits, upper case bytes\n"
            "(default: whatever fits)"),
    _option("-i --interval", "interval", _interval, 1.0, "CS", _BOTH, "#",
            "seconds between two reports, 0.1 to 60 (default 1);\n"
            "0: one report for the whole test"),
    _option("-D --daemon", "daemon", _later, side="S"),
    _option("-1 --one-off", "one_off", None, False, "S", _SERVER, None,
            "serve one test, then end"),
    _option("-V --verbose", "verbose", None, False, "CS", _BOTH, None,
            "more lines of text"),
    _option("-J --json", "json", None, False, "CS", _BOTH, None,
            "print one JSON document per test"),
    _option("--json-stream", "json_stream", None, False, "CS", _BOTH, None,
            "print one JSON object per event, each on a line"),
    _option("--json-stream-full-output", "json_stream_full_output", None, False, "CS", _BOTH,
            None, "with --json-stream: the whole document at the end, too"),
    _option("-v --version", "version", None, False, "CS", _BOTH, None,
            "print the version and end"),
    _option("-s --server", "server", None, False, "CS", _SERVER, None,
            "be a server"),
    _option("-c --client", "client", str, None, "CS", _CLIENT, "<host>[%<dev>]",
            "be a client of the server on this host"),
    _option("-u --udp", "udp", _later, side="C"),
    _option("-b --bitrate --bandwidth", "bitrate", _bitrate, None, "C", _CLIENT, "#[KMGT][/#]",
            "bits of payload per second and stream (0, the default:\n"
            "unlimited); after the slash: blocks sent in one go"),
    _option("--server-bitrate-limit", "server_bitrate_limit", _later, side="S", metavar="#"),
    _option("--server-max-duration", "server_max_duration", _later, side="S", metavar="#"),
    _option("-t --time", "time", _bounded(_digits, 0, MAX_TIME, 5), None, "C", _CLIENT, "#",
            "seconds to measure (default %d); 0: until stopped" % DEFAULT_TIME),
    _option("-n --bytes", "bytes", _unsigned_size, 0, "C", _CLIENT, "#[KMGT]",
            "bytes to send instead of a time"),
    _option("-k --blockcount", "blocks", _unsigned_size, 0, "C", _CLIENT, "#[KMGT]",
            "blocks to send instead of a time"),
    _option("-l --length", "length", _block_size, 0, "C", _CLIENT, "#[KMGT]",
            "bytes per block, that is, per write (default %d)" % DEFAULT_TCP_BLOCK),
    _option("-P --parallel", "parallel", _bounded(atoi, 1, MAX_STREAMS, 6), 1, "C", _CLIENT, "#",
            "streams in each direction, up to %d (default 1)" % MAX_STREAMS),
    _option("-R --reverse", "reverse", None, False, "C", _CLIENT, None,
            "the server sends"),
    _option("--bidir", "bidirectional", None, False, "C", _CLIENT, None,
            "both ends send"),
    _option("-w --window", "window", _bounded(_size, 0, MAX_WINDOW, 8), 0, "C", _CLIENT,
            "#[KMGT]", "size of the socket buffers of both ends"),
    _option("-B --bind", "bind", str, None, "CS", _BOTH, "<host>[%<dev>]",
            "local address, and device, to use"),
    _option("--bind-dev", "bind_dev", str, None, "CS", _BOTH, "<dev>",
            "device to use (SO_BINDTODEVICE)"),
    _option("--cport", "cport", _bounded(atoi, 1, 65535, 26), 0, "CS", _CLIENT, "#",
            "local port of the first stream; the next one uses the next"),
    _option("-M --set-mss", "mss", _bounded(atoi, 0, MAX_MSS, 10), 0, "C", _CLIENT, "#",
            "maximum segment size of the data connections"),
    _option("-N --no-delay", "no_delay", None, False, "C", _CLIENT, None,
            "send at once: switch Nagle's algorithm off"),
    _option("-4 --version4", "version4", None, False, "CS", _BOTH, None, "use IPv4 only"),
    _option("-6 --version6", "version6", None, False, "CS", _BOTH, None, "use IPv6 only"),
    _option("-S --tos", "tos", _tos, 0, "C", _CLIENT, "N",
            "type of service, or traffic class, of the streams: 0 to 255"),
    _option("--dscp", "tos", _dscp, 0, "C", _CLIENT, "N",
            "the same as a DSCP: 0 to 63 or a name (ef, af11, cs1, ...)"),
    _option("--extra-data", "extra_data", str, None, "C", _CLIENT, "str",
            "text to put into the JSON documents of both ends"),
    _option("-L --flowlabel", "flowlabel", _later, side="C", metavar="N"),
    _option("-Z --zerocopy", "zerocopy", None, False, "C", _CLIENT, None,
            "send with sendfile, without copying"),
    _option("-O --omit", "omit", _bounded(_digits, 0, MAX_OMIT, 12), 0, "C", _CLIENT, "#",
            "seconds to run before measuring begins"),
    _option("-F --file", "file", str, None, "CS", _BOTH, "file",
            "send this file, or write what is received to it"),
    _option("--repeating-payload", "repeating_payload", None, False, "C", _CLIENT, None,
            "send repeated digits rather than random bytes"),
    _option("--timestamps", "timestamps", _later, side="CS", optional=True),
    _option("-A --affinity", "affinity", _later, side="CS", metavar="n"),
    _option("-T --title", "title", str, None, "C", _CLIENT, "str",
            "put this before every line of text"),
    _option("-C --congestion --linux-congestion", "congestion", str, None, "C", _CLIENT, "name",
            "TCP congestion control of both ends"),
    _option("--sctp", "sctp", _later, side="C"),
    _option("--nstreams", "nstreams", _later, side="C", metavar="#"),
    _option("-X --xbind", "xbind", _later, side="CS", metavar="name"),
    _option("-I --pidfile", "pidfile", _later, side="CS", metavar="file"),
    _option("--logfile", "logfile", _later, side="CS", metavar="file"),
    _option("--forceflush", "forceflush", None, False, "CS", _BOTH, None,
            "accepted for compatibility: every line is flushed"),
    _option("--get-server-output", "get_server_output", None, False, "C", _CLIENT, None,
            "fetch and print the server's output"),
    _option("--udp-counters-64bit", "udp_counters_64bit", _later, side="C"),
    _option("--no-fq-socket-pacing", "no_fq_socket_pacing", _later, side="C"),
    _option("--dont-fragment", "dont_fragment", _later, side="C"),
    _option("--skip-rx-copy", "skip_rx_copy", None, False, "C", _CLIENT, None,
            "receive without copying (MSG_TRUNC)"),
    _option("--username", "username", _later, side="C", metavar="name"),
    _option("--rsa-public-key-path", "rsa_public_key", _later, side="C", metavar="file"),
    _option("--rsa-private-key-path", "rsa_private_key", _later, side="S", metavar="file"),
    _option("--authorized-users-path", "authorized_users", _later, side="S", metavar="file"),
    _option("--time-skew-threshold", "time_skew_threshold", _later, side="S", metavar="#"),
    _option("--use-pkcs1-padding", "use_pkcs1_padding", _later, side="S"),
    _option("--fq-rate", "fq_rate", _later, side="C", metavar="#"),
    _option("--pacing-timer", "pacing_timer", _later, side="C", metavar="#"),
    _option("--connect-timeout", "connect_timeout", _size, None, "C", _CLIENT, "#",
            "milliseconds to wait for the control connection"),
    _option("--idle-timeout", "idle_timeout", _later, side="S", metavar="#"),
    _option("--rcv-timeout", "rcv_timeout", _later, side="CS", metavar="#"),
    _option("--snd-timeout", "snd_timeout", _later, side="CS", metavar="#"),
    _option("--cntl-ka", "cntl_ka", _later, side="CS", optional=True),
    _option("-m --mptcp", "mptcp", _later, side="CS"),
    _option("--gsro", "gsro", _later, side="C"),
    _option("-d --debug", "debug", _later, side="CS", optional=True),
    _option("-h --help", "help", None, False, "CS", _BOTH, None, "print this and end"),
    # Ours. A prefix that fits one of iperf3's names never means one of these.
    _option("--loopback", "loopback", None, False, "C", _CLIENT, None,
            "start a one-off server on this host and be its client"),
    _option("--threads", "threads", None, False, "CS", _BOTH, None,
            "run the streams in threads rather than in processes"),
)
_OWN_NAMES = ("loopback", "threads")


def _takes_argument(option):
    later_flag = option.read is _later and option.metavar is None
    return option.read is not None and not option.optional and not later_flag


class UsageError(Exception):
    """Report an argument vector that getopt_long would refuse; str() is its message."""


def split_arguments(arguments, posixly_correct=False):
    """Yield (Option, argument or None) for an argument vector, as GNU getopt_long reads it.

    Words that are no options are skipped (iperf3 ignores them), or end the options if
    `posixly_correct`. Raises UsageError with getopt_long's text, without the program's name.
    """
    short = {name[1]: option for option in OPTIONS for name in option.names
             if not name.startswith("--")}
    words = collections.deque(arguments)
    while words:
        word = words.popleft()
        if word == "--" or (posixly_correct and (word == "-" or not word.startswith("-"))):
            return
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            option = _find_long(name, word)
            if not equals:
                value = None
            if equals and not (_takes_argument(option) or option.optional):
                full = next(n for n in option.long_names if n.startswith(name))
                raise UsageError("option '--%s' doesn't allow an argument" % full)
            if not equals and _takes_argument(option):
                if not words:
                    full = next(n for n in option.long_names if n.startswith(name))
                    raise UsageError("option '--%s' requires an argument" % full)
                value = words.popleft()
            yield option, value
        elif word.startswith("-"):
            letters = word[1:]
            while letters:
                letter, letters = letters[0], letters[1:]
                if letter not in short:
                    raise UsageError("invalid option -- '%s'" % letter)
                option, value = short[letter], None
                if _takes_argument(option):
                    if not letters and not words:
                        raise UsageError("option requires an argument -- '%s'" % letter)
                    value = letters or words.popleft()
                    letters = ""
                yield option, value


def _find_long(name, word):
    candidates = []
    for option in OPTIONS:
        for full in option.long_names:
            if full == name:
                return option
            # iperf3: of two names of one option getopt lists the first.
            if full.startswith(name) and option not in [pair[1] for pair in candidates[:1]]:
                candidates.append((full, option))
    candidates = [pair for pair in candidates if pair[0] not in _OWN_NAMES] or candidates
    if not candidates:
        raise UsageError("unrecognized option '%s'" % word)
    if len(candidates) > 1:
        raise UsageError("option '%s' is ambiguous; possibilities: %s" % (
            word, " ".join("'--%s'" % full for full, _ in candidates)))
    return candidates[0][1]


class Settings:
    """Hold what one client or server is to do: an attribute for every row of OPTIONS.

    Settings(client="192.0.2.1", reverse=True, time=5); attributes are named after the long
    options with `_` for `-` (and `bytes`, `blocks`, `mss`, `no_delay`, `bidirectional`).
    Values may be given as the text that would be typed. Raises IperfError on a value, or a
    combination, that iperf3 refuses, TypeError on an unknown name.
    """

    def __init__(self, **values):
        for option in OPTIONS:
            setattr(self, option.dest, option.default)
        self.explicit = set()  # the names that were given
        self.timed = False  # an end condition -t was given
        by_name = {option.dest: option for option in reversed(OPTIONS)}  # tos, not dscp
        for name, value in values.items():
            if name not in by_name:
                raise TypeError("Settings has no %r" % name)
            option = by_name[name]
            if option.read is None:
                if value:
                    self.apply(option, None)
            elif value is not None:
                if isinstance(value, float) and name != "interval":
                    if value != int(value):
                        raise TypeError("%s must be a whole number" % name)
                    value = int(value)
                self.apply(option, value if isinstance(value, str) else repr(value))
        if values:
            self.check()

    @classmethod
    def from_arguments(cls, arguments, posixly_correct=False):
        """Return the Settings of an argument vector (without the program's name).

        Stops at --help and --version, as iperf3 does. Raises UsageError, IperfError.
        """
        settings = cls()
        for option, value in split_arguments(arguments, posixly_correct):
            settings.apply(option, value)
            if settings.help or settings.version:
                return settings
        settings.check()
        return settings

    def apply(self, option, text):
        """Set what one option says, with the checks that iperf3 makes while it parses."""
        value = True if option.read is None else option.read(text)
        self.explicit.add(option.dest)
        if option.dest in ("server", "client", "loopback"):
            if self.server and option.dest != "server" or (
                    option.dest == "server" and (self.client is not None or self.loopback)):
                raise IperfError(1)
        if option.dest in ("reverse", "bidirectional"):
            if self.bidirectional if option.dest == "reverse" else self.reverse:
                raise IperfError(25)
        if option.dest == "version4":
            self.version6 = False
        if option.dest == "version6":
            self.version4 = False
        if option.dest in ("bind", "client"):
            value, device = _host(value)
            if device:
                self.bind_dev = device
        setattr(self, option.dest, value)

    def check(self):
        """Make the checks that iperf3 makes after parsing, in its order. Raises IperfError."""
        is_client = self.client is not None or self.loopback
        for side, number in (("S", 3), ("C", 4)):
            if is_client if side == "S" else self.server:
                for option in OPTIONS:
                    if option.side == side and option.dest in self.explicit:
                        raise IperfError(number)
        self.timed = "time" in self.explicit
        if not -1 < self.length <= MAX_BLOCK:
            raise IperfError(7)
        if (self.timed and (self.bytes or self.blocks)) or (self.bytes and self.blocks):
            raise IperfError(16)
        if not is_client and not self.server:
            raise IperfError(2)

    def warnings(self):
        """Return the texts of iperf3's warnings about options that do not go with JSON."""
        texts = []
        if self.json or self.json_stream:
            if self.format:
                texts.append("Report format (-f) flag ignored with JSON output (-J)")
            if self.verbose:
                texts.append("Verbose output (-v) may interfere with JSON output (-J)")
        return texts


def help_text(program="pyperf3.py"):
    """Return what --help prints."""
    lines = ["Usage: %s [-s|-c host|--loopback] [options]" % program,
             "       %s [-h|--help] [-v|--version]" % program]
    for group in (_BOTH, _SERVER, _CLIENT):
        lines += ["", group + ":"]
        for option in OPTIONS:
            if option.group == group:
                names = [name for name in option.names
                         if name not in ("--bandwidth", "--linux-congestion")]
                head = "  %s %s" % (", ".join(names), option.metavar or "")
                head = head.rstrip()
                text = option.help.split("\n")
                if len(head) > 27:
                    lines.append(head)
                    head = ""
                lines.append("%-28s%s" % (head, text[0]))
                lines += [" " * 28 + more for more in text[1:]]
    lines += ["", "[KMGT] are units: 1024 and its powers for sizes, 1000 and its powers for rates."]
    return "\n".join(lines)


###############################################################################
# wire ########################################################################
###############################################################################
# iperf3's protocol as functions from bytes to values and back. No sockets here.

def make_cookie():
    """Return a new cookie: 36 random characters and a zero byte."""
    letters = (COOKIE_LETTERS[byte % 32] for byte in bytearray(os.urandom(COOKIE_SIZE - 1)))
    return "".join(letters).encode("ascii") + b"\0"


def check_cookie(data):
    """Raise IperfError 106 unless `data` looks like a cookie: iperf3's since 3.1 all do."""
    # differs: iperf3 takes any 37 bytes.
    text = data[:COOKIE_SIZE - 1]
    bad = set(bytearray(text)) - set(bytearray(
        b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:"))
    if bad or data[len(text):] not in (b"", b"\0"):
        raise IperfError(106, "the peer does not speak iperf3: got %s" % quote_bytes(data))


def quote_bytes(data):
    """Return the first bytes that a peer sent, as printable text."""
    return "b'%s'" % "".join(chr(byte) if 32 <= byte < 127 and byte not in (39, 92)
                             else "\\x%02x" % byte for byte in bytearray(data[:8]))


def encode_state(state):
    """Return the byte of a state."""
    return struct.pack("!b", state)


def encode_error(error):
    """Return what a server sends to report an IperfError: state, number, errno."""
    return encode_state(SERVER_ERROR) + struct.pack("!ii", error.number, error.errno)


def encode_number(value):
    """Return a number in cJSON's notation: integers without a point, else 15 or 17 digits."""
    if isinstance(value, int) and abs(value) < 2 ** 63:
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    if value == int(value) and abs(value) < 2 ** 63:
        return str(int(value))
    text = "%1.15g" % value
    back = float(text)
    if abs(back - value) > max(abs(back), abs(value)) * sys.float_info.epsilon:
        text = "%1.17g" % value
    return text


_ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\", 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f",
            13: "\\r"}
_ESCAPES.update((code, "\\u%04x" % code) for code in range(32) if code not in _ESCAPES)


def encode_json(value, depth=None):
    """Return a value as cJSON prints it.

    depth: None for the unformatted notation (the wire, --json-stream), 0 for the
    pretty-printed one of -J, with tabs. Only dict, list, str, bool, None, int and float occur.
    """
    if isinstance(value, str):
        return '"%s"' % value.translate(_ESCAPES)
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        inner = None if depth is None else depth + 1
        return "[%s]" % ("," if depth is None else ", ").join(
            encode_json(item, inner) for item in value)
    if isinstance(value, dict):
        if depth is None:
            return "{%s}" % ",".join('%s:%s' % (encode_json(name), encode_json(item))
                                     for name, item in value.items())
        tabs = "\t" * (depth + 1)
        members = ",\n".join("%s%s:\t%s" % (tabs, encode_json(name), encode_json(item, depth + 1))
                             for name, item in value.items())
        return "{\n%s%s%s}" % (members, "\n" if members else "", "\t" * depth)
    return encode_number(value)


def to_bytes(text):
    """Return text as UTF-8; bytes that the system handed over undecoded come out as they were."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _first_wins(pairs):
    members = {}
    for name, value in pairs:
        members.setdefault(name, value)
    return members


def _read_int(digits):
    # A peer's thousands of digits would take Python's conversion minutes.
    return int(digits) if len(digits) < 30 else float(digits)


def decode_json(data):
    """Return the value at the start of `data` (bytes), read as leniently as cJSON does.

    Raises ValueError on what is no JSON, on nesting too deep, and on numbers too large.
    """
    text = data.decode("utf-8", "replace").lstrip(" \t\r\n")
    decoder = json.JSONDecoder(object_pairs_hook=_first_wins, parse_int=_read_int,
                               parse_constant=lambda name: None, strict=False)
    try:
        return decoder.raw_decode(text)[0]
    except RecursionError:
        raise ValueError("nested too deeply")


def nesting(value):
    """Return how many levels of objects and arrays a JSON value has."""
    level, depth = [value], 0
    while level:
        depth += 1
        level = [item for each in level if isinstance(each, (dict, list))
                 for item in (each.values() if isinstance(each, dict) else each)]
    return depth


def encode_frame(value):
    """Return a JSON document with its length in front, as one piece."""
    body = to_bytes(encode_json(value))
    return struct.pack("!I", len(body)) + body


def member(document, name, default=None):
    """Return a member of a JSON object by its name, whatever the case, as cJSON does."""
    lower = name.lower()
    for other, value in document.items():
        if other.lower() == lower:
            return value
    return default


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def to_integer(value):
    """Return a JSON number as cJSON's integer: cut, saturated at 64 bits, NaN is 0.

    3.12 and 3.13 print negative integers as unsigned; these come out negative. (Others print
    integers of 64 bits and more as fractions.)
    """
    if value != value:
        return 0
    if value in (float("inf"), float("-inf")):
        value = 2.0 ** 63 if value > 0 else -2.0 ** 63
    if isinstance(value, int) and 2 ** 63 <= value < 2 ** 64:
        return value - 2 ** 64
    value = int(value)
    return max(-2 ** 63, min(2 ** 63 - 1, value))


# Rows: key, attribute, kind, lowest, highest, error of a value outside, when it is sent.
# Kinds: int; presence (true when sent, on with any boolean); flag (1 when sent, on when
# there); onoff (1 when sent, on unless 0); text.
Parameter = collections.namedtuple("Parameter", "key attribute kind low high error sent")

PARAMETERS = tuple(Parameter(*row) for row in (
    ("omit", "omit", "int", 0, MAX_OMIT, 12, "always"),
    ("time", "time", "int", 0, MAX_TIME, 5, "always"),
    ("num", "bytes", "int", 0, None, 114, "always"),
    ("blockcount", "blocks", "int", 0, None, 114, "always"),
    ("MSS", "mss", "int", 0, MAX_MSS, 10, "set"),
    ("nodelay", "no_delay", "presence", None, None, None, "set"),
    ("parallel", "parallel", "int", 1, MAX_STREAMS, 6, "always"),
    ("reverse", "reverse", "presence", None, None, None, "set"),
    ("bidirectional", "bidirectional", "presence", None, None, None, "set"),
    ("window", "window", "int", 0, MAX_WINDOW, 8, "set"),
    ("len", "length", "int", 1, MAX_BLOCK, 7, "always"),
    ("bandwidth", "rate", "int", 0, None, 114, "set"),
    ("fqrate", "fq_rate", "int", 0, None, 114, "set"),
    ("pacing_timer", "pacing_timer", "int", 0, None, 114, "set"),
    ("burst", "burst", "int", 1, MAX_BURST, 15, "set"),
    ("TOS", "tos", "int", 0, 255, 21, "set"),
    ("flowlabel", "flowlabel", "int", 1, 1048575, 127, "set"),
    ("title", "title", "text", None, None, None, "set"),
    ("extra_data", "extra_data", "text", None, None, None, "set"),
    ("congestion", "congestion", "text", None, None, None, "set"),
    ("get_server_output", "get_server_output", "flag", None, None, None, "set"),
    ("repeating_payload", "repeating_payload", "flag", None, None, None, "set"),
    ("zerocopy", "zerocopy", "onoff", None, None, None, "set"),
    ("skip_rx_copy", "skip_rx_copy", "onoff", None, None, None, "set"),
))


class Parameters:
    """Hold the parameters of one test, as both ends agree on them (keys of PARAMETERS)."""

    def __init__(self):
        self.protocol = "TCP"
        self.time = DEFAULT_TIME
        self.parallel = 1
        self.length = DEFAULT_TCP_BLOCK
        self.omit = self.bytes = self.blocks = self.mss = self.window = self.rate = 0
        self.burst = self.tos = self.fq_rate = self.flowlabel = 0
        self.pacing_timer = 1000
        self.no_delay = self.reverse = self.bidirectional = self.zerocopy = False
        self.get_server_output = self.repeating_payload = self.skip_rx_copy = False
        self.title = self.extra_data = self.congestion = None

    @classmethod
    def from_settings(cls, settings):
        """Return what a client with these Settings asks for."""
        self = cls()
        for row in PARAMETERS:
            value = getattr(settings, row.attribute, None)
            if value is not None:
                setattr(self, row.attribute, value)
        self.rate, self.burst = settings.bitrate or (0, 0)
        self.length = settings.length
        if not self.length:
            self.length = DEFAULT_TCP_BLOCK
            if self.rate:
                # differs: a slow stream of large blocks would send one, then be silent for
                # seconds. A tenth of a second's worth keeps the rate even.
                self.length = max(1, min(self.length, self.rate // 80))
        self.time = settings.time if settings.timed else DEFAULT_TIME
        if self.bytes or self.blocks:
            self.time = 0
        return self

    def to_json(self):
        """Return the document that a client sends, keys in iperf3's order."""
        document = {self.protocol.lower(): True}
        for row in PARAMETERS:
            value = getattr(self, row.attribute)
            if row.sent == "always" or value:
                document[row.key] = {"presence": True, "flag": 1, "onoff": 1}.get(row.kind, value)
        document["client_version"] = IPERF_VERSION
        return document

    @classmethod
    def from_json(cls, document):
        """Return the parameters of a client's document.

        Members that are missing have iperf3's defaults, members of the wrong type are
        ignored. Raises IperfError with iperf3's number for a value out of range (the last
        one decides, as in iperf3).
        """
        self = cls()
        failure = bad_length = None
        if not isinstance(document, dict):
            document = {}  # iperf3: a document that is no object means all defaults
        for protocol in ("tcp", "udp", "sctp"):
            if isinstance(member(document, protocol), bool):
                self.protocol = protocol.upper()
        for row in PARAMETERS:
            value = member(document, row.key)
            if row.kind == "text":
                if isinstance(value, str):
                    setattr(self, row.attribute, value)
            elif row.kind == "presence":
                if isinstance(value, bool):  # iperf3: false switches it on, too
                    setattr(self, row.attribute, True)
            elif _is_number(value):
                value = to_integer(value)
                if row.kind == "flag":
                    value = True
                elif row.kind == "onoff":
                    value = value != 0
                elif value < row.low or (row.high is not None and value > row.high):
                    if row.key == "len":  # iperf3: looked at last
                        bad_length = IperfError(row.error)
                    else:
                        failure = IperfError(row.error)
                    continue
                setattr(self, row.attribute, value)
        if self.reverse and self.bidirectional:
            failure = IperfError(25)
        if bad_length or failure:
            raise bad_length or failure
        return self


StreamResult = collections.namedtuple(
    "StreamResult", "id bytes retransmits jitter errors omitted_errors packets omitted_packets"
                    " start_time end_time")
StreamResult.__doc__ = "What one end reports of one stream; times in seconds, end_time may be None."

Results = collections.namedtuple(
    "Results", "cpu_total cpu_user cpu_system has_retransmits congestion streams output")
Results.__doc__ = """What one end reports of a test.

CPU figures in percent; streams: {id: StreamResult}; output: None or the member
(`server_output_text` or `server_output_json`, its value).
"""


def results_to_json(results):
    """Return the results document of one end, keys in iperf3's order."""
    document = {
        "cpu_util_total": results.cpu_total,
        "cpu_util_user": results.cpu_user,
        "cpu_util_system": results.cpu_system,
        "sender_has_retransmits": results.has_retransmits,
    }
    if results.congestion:
        document["congestion_used"] = results.congestion
    if results.output:
        document[results.output[0]] = results.output[1]
    document["streams"] = [dict(zip(StreamResult._fields, stream))
                           for stream in results.streams.values()]
    return document


def results_from_json(document, ids):
    """Return the Results of the other end.

    ids: the ids of the test's streams; an unknown one is error 208. Raises IperfError 117 if
    a member that iperf3 requires is missing or no number.
    """
    if not isinstance(document, dict):
        raise IperfError(117, "no JSON object")

    def number(container, name, default=None):
        value = member(container, name, default)
        if not _is_number(value):
            raise IperfError(117, "%s is missing or no number" % name)
        return value

    cpu = []
    for name in ("cpu_util_total", "cpu_util_user", "cpu_util_system"):
        value = float(max(-2 ** 63, min(2 ** 63, number(document, name))))
        cpu.append(value if value == value else 0.0)
    has_retransmits = to_integer(number(document, "sender_has_retransmits"))
    rows = member(document, "streams")
    if not isinstance(rows, list):
        raise IperfError(117, "streams is missing or no array")
    streams = {}
    for row in rows:
        if not isinstance(row, dict):
            raise IperfError(117, "a stream is no object")
        values = {}
        for name in ("id", "bytes", "retransmits", "errors", "packets"):
            values[name] = to_integer(number(row, name))
        omitted = ("omitted_errors", "omitted_packets")
        if len([name for name in omitted if member(row, name) is None]) == 1:
            raise IperfError(117, "one of the omitted counts is missing")
        for name in omitted:
            values[name] = to_integer(number(row, name, 0))
        for name, default in (("jitter", None), ("start_time", 0.0), ("end_time", -1.0)):
            value = number(row, name, default)
            values[name] = float(value) if abs(value) < 1e15 else 0.0
        if values["end_time"] < 0:
            values["end_time"] = None  # 3.1 does not send it
        if values["id"] not in ids:
            raise IperfError(208)
        values["bytes"] = max(0, values["bytes"])
        streams[values["id"]] = StreamResult(**values)
    congestion = member(document, "congestion_used")
    output = None
    for name, kind in (("server_output_text", str), ("server_output_json", dict)):
        value = member(document, name)
        if isinstance(value, kind):
            if nesting(value) > MAX_DEPTH:
                raise IperfError(117, "%s is nested too deeply" % name)
            output = (name, value)
    return Results(cpu[0], cpu[1], cpu[2], has_retransmits,
                   congestion if isinstance(congestion, str) else None, streams, output)


def stream_ids(count):
    """Return iperf3's ids of `count` streams: 1, 3, 4, 5, ..."""
    return [1] + list(range(3, count + 2)) if count else []


###############################################################################
# kernel ######################################################################
###############################################################################
# Socket options, TCP_INFO, CPU time, processes: what differs from system to
# system. Each is probed, and has a plain twin or a clear error. Nothing here
# knows of tests.

_LINUX = sys.platform.startswith("linux")
_SO_BINDTODEVICE = getattr(socket, "SO_BINDTODEVICE", 25 if _LINUX else None)
_TCP_CONGESTION = getattr(socket, "TCP_CONGESTION", 13 if _LINUX else None)
_TCP_MAXSEG = getattr(socket, "TCP_MAXSEG", None)
_TCP_INFO = getattr(socket, "TCP_INFO", 11) if _LINUX else None
_IPV6_TCLASS = getattr(socket, "IPV6_TCLASS", 67 if _LINUX else None)
_MSG_TRUNC = getattr(socket, "MSG_TRUNC", 0) if _LINUX else 0
_MSG_WAITALL = getattr(socket, "MSG_WAITALL", 0)
CAN_SEND_FILES = hasattr(os, "sendfile")
_SO_MAX_PACING_RATE = 47  # Linux
_SIOCOUTQ = 0x5411  # Linux: bytes that were sent and not acknowledged

TcpInfo = collections.namedtuple(
    "TcpInfo", "retransmits snd_cwnd snd_wnd rtt rttvar pmtu reorder")
TcpInfo.__doc__ = "Figures of a connection: a count, bytes, bytes, us, us, bytes, a count."

# Offsets in Linux's struct tcp_info (linux/tcp.h), all 32 bits wide.
_TCPI_SND_MSS = 16
_TCPI_FIELDS = (("retransmits", 100), ("snd_cwnd", 80), ("snd_wnd", 228), ("rtt", 68),
                ("rttvar", 72), ("pmtu", 60), ("reorder", 220))


def decode_tcp_info(data):
    """Return the TcpInfo in a Linux struct tcp_info; what an old, short one lacks is -1.

    Returns None if even the count of retransmits is not there.
    """
    def word(offset):
        return struct.unpack_from("=I", data, offset)[0] if offset + 4 <= len(data) else -1
    values = {name: word(offset) for name, offset in _TCPI_FIELDS}
    if values["retransmits"] < 0:
        return None
    values["snd_cwnd"] *= word(_TCPI_SND_MSS)  # the kernel counts it in segments
    return TcpInfo(**values)


def tcp_info(sock):
    """Return the TcpInfo of a connected socket, None where the system has none."""
    if _TCP_INFO is None:
        return None
    try:
        return decode_tcp_info(sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 256))
    except OSError:
        return None


def unacknowledged(sock):
    """Return how many bytes of a TCP connection are on their way, 0 where nobody can tell."""
    if not _LINUX or fcntl is None:
        return 0
    try:
        return struct.unpack("i", fcntl.ioctl(sock.fileno(), _SIOCOUTQ, b"\0\0\0\0"))[0]
    except OSError:
        return 0


def maximum_segment(sock):
    """Return the maximum segment size of a TCP socket, 0 where it is not known."""
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, _TCP_MAXSEG) if _TCP_MAXSEG else 0
    except OSError:
        return 0


def congestion_name(sock):
    """Return the name of a TCP socket's congestion control, None where it is not known."""
    if _TCP_CONGESTION is None:
        return None
    try:
        name = sock.getsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, 16)
    except OSError:
        return None
    return name.split(b"\0")[0].decode("ascii", "replace") or None


def set_congestion(sock, name):
    """Set a TCP socket's congestion control. Raises OSError if the system has not that one."""
    if _TCP_CONGESTION is None:
        raise OSError(errno.ENOPROTOOPT, os.strerror(errno.ENOPROTOOPT))
    sock.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, to_bytes(name))


def set_no_delay(sock):
    """Switch Nagle's algorithm off. Raises IperfError 122."""
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise IperfError(122, error)


def set_mss(sock, size):
    """Limit the segment size of a socket that is not yet connected. Raises IperfError 123."""
    try:
        if _TCP_MAXSEG is None:
            raise OSError(errno.ENOPROTOOPT, os.strerror(errno.ENOPROTOOPT))
        sock.setsockopt(socket.IPPROTO_TCP, _TCP_MAXSEG, size)
    except OSError as error:
        raise IperfError(123, error)


def set_tos(sock, tos):
    """Set the type of service and, on IPv6, the traffic class, 0..255. Raises IperfError."""
    if sock.family == getattr(socket, "AF_INET6", None) and _IPV6_TCLASS is not None:
        try:
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_TCLASS, tos)
        except OSError as error:
            raise IperfError(126, error)
        try:  # an IPv4 peer of a dual-stack socket is marked by the IPv4 option
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        except OSError:
            pass
        return
    try:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    except OSError as error:
        raise IperfError(125, error)


def set_window(sock, size):
    """Set both socket buffers (0: leave them). Returns the real (send, receive) sizes.

    Raises IperfError 141 if the system gives less than was asked for (Linux reports twice
    the size it gives).
    """
    actual = []
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        try:
            if size:
                sock.setsockopt(socket.SOL_SOCKET, option, size)
            actual.append(sock.getsockopt(socket.SOL_SOCKET, option))
        except OSError as error:
            raise IperfError(124, error)
        if size and actual[-1] < size:
            raise IperfError(141)
    return tuple(actual)


def set_pacing(sock, rate):
    """Let the kernel pace a socket at `rate` bit/s (Linux). Raises OSError."""
    if not _LINUX:
        raise OSError(errno.ENOPROTOOPT, os.strerror(errno.ENOPROTOOPT))
    value = struct.pack("=Q", min(rate // 8, 2 ** 63))
    sock.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, value)


def bind_device(sock, device):
    """Bind a socket to a network device. Raises IperfError 143, 146."""
    if _SO_BINDTODEVICE is None:
        raise IperfError(146)
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, os.fsencode(device) + b"\0")
    except OSError as error:
        raise IperfError(143, error)


def set_timeouts(sock, seconds):
    """Let blocking calls on a socket return after `seconds` (Linux, macOS, BSD)."""
    whole = int(seconds)
    value = struct.pack("@ll", whole, int((seconds - whole) * 1000000))
    for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
        try:
            sock.setsockopt(socket.SOL_SOCKET, option, value)
        except (OSError, AttributeError):
            pass  # a layout of another system: the stop at the end still wakes the call


def plain_address(address):
    """Return (host, port) of a socket address, IPv4-mapped addresses as IPv4."""
    host, port = address[0], address[1]
    if host.startswith("::ffff:") and "." in host:
        host = host[7:]
    return host, port


def families(settings):
    """Return the address family that -4 or -6 asks for, AF_UNSPEC without either."""
    if settings.version4:
        return socket.AF_INET
    if settings.version6:
        return socket.AF_INET6
    return socket.AF_UNSPEC


def open_listener(host, port, family, device=None, window=0):
    """Return a listening TCP socket, non-blocking.

    window: size of the socket buffers, which connections inherit; 0 leaves them.
    host: None for all addresses; then, with AF_UNSPEC, IPv6 and IPv4 both come in through
    one socket where the system has IPv6, else IPv4 alone.
    Raises IperfError 102.
    """
    try:
        if host is None:
            candidates = [family] if family != socket.AF_UNSPEC else (
                [socket.AF_INET6] if socket.has_ipv6 else []) + [socket.AF_INET]
            places = [(each, ("::" if each != socket.AF_INET else "0.0.0.0", port))
                      for each in candidates]
        else:
            found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0,
                                       socket.AI_PASSIVE)
            places = [(found[0][0], found[0][4])]
    except (OSError, UnicodeError) as error:
        raise IperfError(102, error)
    for number, (each, address) in enumerate(places):
        sock = None
        try:
            sock = socket.socket(each, socket.SOCK_STREAM)
            if device:
                bind_device(sock, device)
            if os.name == "posix":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if each != socket.AF_INET:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY,
                                int(family == each or host is not None))
            if window:
                set_window(sock, window)
            sock.bind(address)
            sock.listen(512)
            sock.setblocking(False)
            return sock
        except OSError as error:
            if sock is not None:
                sock.close()
            lacking = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)
            if number + 1 == len(places) or error.errno not in lacking:
                raise IperfError(102, error)
        except IperfError:
            sock.close()
            raise


def cpu_times():
    """Return the (user, system) CPU seconds of this process so far."""
    if resource is not None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime, usage.ru_stime
    times = os.times()
    return times[0], times[1]


def system_info():
    """Return sysname, nodename, release, version and machine of this host, as iperf3 does."""
    if hasattr(os, "uname"):
        return " ".join(os.uname())
    import platform
    return " ".join(platform.uname()[:5])


def can_fork():
    """Return whether this program can fork safely: it must have no other threads."""
    if not hasattr(os, "fork") or mmap is None:
        return False
    threading = sys.modules.get("threading")
    return threading is None or threading.active_count() == 1


def prefer_throughput():
    """Ask the scheduler not to let this thread interrupt others when it wakes up (Linux)."""
    try:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except (AttributeError, OSError):
        pass


def shared_memory(size):
    """Return zeroed memory of `size` bytes that forked processes share, page-aligned."""
    return mmap.mmap(-1, size) if mmap is not None else bytearray(size)


def private_memory(size):
    """Return zeroed memory of `size` bytes of this process alone, page-aligned."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return shared_memory(size)


def close_descriptors(keep):
    """Close every descriptor of this process but those in `keep`."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        if folder == "/proc/self/fd" or len(names) > 4:  # FreeBSD's /dev/fd may list 0-2 only
            descriptors = [int(name) for name in names]
            break
    else:
        try:
            descriptors = range(os.sysconf("SC_OPEN_MAX"))
        except (ValueError, OSError):
            descriptors = range(1024)
    for descriptor in descriptors:
        if descriptor not in keep:
            try:
                os.close(descriptor)
            except OSError:
                pass


def open_unblocked(path, flags):
    """Return a file, unbuffered; a pipe without another end is an error, not a wait.

    Raises IperfError 14.
    """
    try:
        flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags, 0o600)
        if hasattr(os, "set_blocking"):
            os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "wb" if flags & os.O_WRONLY else "rb", 0)
    except (OSError, ValueError) as error:
        raise IperfError(14, error if isinstance(error, OSError) else str(error))


def payload_file(block):
    """Return an unlinked file that holds `block`, for sendfile. Raises IperfError 200."""
    try:
        if hasattr(os, "memfd_create"):
            handle = os.fdopen(os.memfd_create("pyperf3"), "w+b")
        else:
            import tempfile
            handle = tempfile.TemporaryFile()
        handle.write(block)
        handle.flush()
        return handle
    except ImportError as error:
        raise IperfError(200, "this Python has no module %s" % error.name)
    except OSError as error:
        raise IperfError(200, error)


###############################################################################
# statistics ##################################################################
###############################################################################
# Counters to figures: the pieces of iperf3's JSON document. Pure functions and
# small records; no sockets, no clocks.

class StreamStatistics:
    """Keep the figures of one stream, as seen by one end.

    socket: the stream's number in the output (iperf3: its descriptor); sender: this end sends.
    """

    def __init__(self, number, sender):
        self.socket = number
        self.sender = sender
        self.bytes = 0  # so far, from the beginning of the test
        self.omitted_bytes = 0  # of these, before measuring began
        self.interval_bytes = 0  # `bytes` at the end of the last interval
        self.retransmits = None  # so far; None where the system has no count
        self.omitted_retransmits = 0
        self.interval_retransmits = 0
        self.reorder = 0
        self.max_snd_cwnd = self.max_snd_wnd = self.max_rtt = self.min_rtt = 0
        self.rtt_sum = self.rtt_count = 0

    def measured_bytes(self):
        return self.bytes - self.omitted_bytes

    def measured_retransmits(self):
        return self.retransmits - self.omitted_retransmits

    def start_measuring(self):
        """Forget what was counted so far: the end of the omitted part."""
        self.omitted_bytes = self.interval_bytes = self.bytes
        if self.retransmits is not None:
            self.omitted_retransmits = self.interval_retransmits = self.retransmits

    def sample(self, info):
        """Take a TcpInfo (or None) into the figures of the whole test."""
        if info is None:
            return
        self.retransmits = info.retransmits
        self.reorder = info.reorder
        self.max_snd_cwnd = max(self.max_snd_cwnd, info.snd_cwnd)
        self.max_snd_wnd = max(self.max_snd_wnd, info.snd_wnd)
        self.max_rtt = max(self.max_rtt, info.rtt)
        self.min_rtt = min(self.min_rtt, info.rtt) if self.rtt_count else info.rtt
        self.rtt_sum += info.rtt
        self.rtt_count += 1

    def end_interval(self, start, end, info, omitted):
        """Return the interval's object of this stream and begin the next interval.

        start, end: seconds from the start of the test, or of its measured part.
        """
        count = self.bytes - self.interval_bytes
        self.interval_bytes = self.bytes
        figures = {"socket": self.socket}
        figures.update(rate_figures(start, end, count))
        if self.sender and info is not None:
            figures["retransmits"] = self.retransmits - self.interval_retransmits
            self.interval_retransmits = self.retransmits
            for name in ("snd_cwnd", "snd_wnd", "rtt", "rttvar", "pmtu", "reorder"):
                figures[name] = getattr(info, name)
        figures["omitted"] = omitted
        figures["sender"] = self.sender
        return figures


def rate_figures(start, end, count, seconds=None):
    """Return start, end, seconds, bytes and bits_per_second of `count` bytes, as a dict.

    seconds: the time shown, if it is not end - start.
    """
    # differs: iperf3 holds an interval's length in single precision.
    start, end = round(start, 6), round(end, 6)
    length = round(end - start, 6)
    return {
        "start": start,
        "end": end,
        "seconds": length if seconds is None else round(seconds, 6),
        "bytes": count,
        "bits_per_second": count * 8.0 / length if length > 0 else 0.0,
    }


def interval_sum(streams):
    """Return the sum object of the interval objects of one direction."""
    first = streams[0]
    figures = rate_figures(first["start"], first["end"], sum(each["bytes"] for each in streams))
    if all("retransmits" in each for each in streams):
        figures["retransmits"] = sum(each["retransmits"] for each in streams)
    figures["omitted"] = first["omitted"]
    figures["sender"] = first["sender"]
    return figures


def stream_summary(statistics, remote, sender_time, receiver_time, local_time):
    """Return the {sender, receiver} object of one stream of the summary.

    remote: the other end's StreamResult, None if it is not known.
    sender_time, receiver_time: seconds that each end measured; local_time: of this end.
    """
    local_bytes = statistics.measured_bytes()
    remote_bytes = remote.bytes if remote else 0
    sent, received = ((local_bytes, remote_bytes) if statistics.sender
                      else (remote_bytes, local_bytes))
    sender = {"socket": statistics.socket}
    sender.update(rate_figures(0, sender_time, sent))
    if statistics.sender:
        if statistics.retransmits is not None:
            sender["retransmits"] = statistics.measured_retransmits()
    elif remote and remote.retransmits >= 0:
        sender["retransmits"] = remote.retransmits
    if "retransmits" in sender:
        sender["reorder"] = statistics.reorder
        for name in ("max_snd_cwnd", "max_snd_wnd", "max_rtt", "min_rtt"):
            sender[name] = getattr(statistics, name)
        sender["mean_rtt"] = statistics.rtt_sum // max(1, statistics.rtt_count)
    sender["sender"] = statistics.sender
    receiver = {"socket": statistics.socket}
    # iperf3: `seconds` is this end's own time, `end` the receiver's.
    receiver.update(rate_figures(0, receiver_time, received, local_time))
    receiver["sender"] = statistics.sender
    return {"sender": sender, "receiver": receiver}


def summary_sums(streams, sender_time, receiver_time, sender=True):
    """Return the sum_sent and sum_received objects of the streams of one direction.

    sender: whether this end sends in it; asked only where there are no streams.
    """
    senders = [each["sender"] for each in streams]
    sent = rate_figures(0, sender_time, sum(each["bytes"] for each in senders))
    flag = senders[0]["sender"] if senders else sender
    if all("retransmits" in each for each in senders) and (senders or flag):
        sent["retransmits"] = sum(each["retransmits"] for each in senders)
    received = rate_figures(0, receiver_time, sum(each["receiver"]["bytes"] for each in streams))
    sent["sender"] = received["sender"] = flag
    return sent, received


class CpuMeter:
    """Measure the CPU use of a test in percent of one CPU: its process and its workers."""

    def __init__(self, now, user, system):
        self._begin = (now, user, system)
        self.total = self.user = self.system = 0.0

    def finish(self, now, user, system):
        """Take the CPU seconds at the end of the test, the workers' included."""
        elapsed = max(now - self._begin[0], 1e-9)
        self.user = max(0.0, 100.0 * (user - self._begin[1]) / elapsed)
        self.system = max(0.0, 100.0 * (system - self._begin[2]) / elapsed)
        self.total = self.user + self.system


###############################################################################
# tasks #######################################################################
###############################################################################
# The control plane. A conversation is a generator that yields a Wait for what it
# needs and is resumed with READY, TIMED_OUT or WOKEN. One Loop runs them all.

READY, TIMED_OUT, WOKEN = "ready", "timed out", "woken"

Wait = collections.namedtuple("Wait", "fileobj events deadline")
Wait.__doc__ = """What a task waits for: a socket (or None) and a deadline (monotonic, or None)."""

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Task:
    """A running generator. `done` tells that it ended, `error` what it ended with."""

    def __init__(self, generator):
        self.generator = generator
        self.wait = None
        self.begun = False
        self.done = False
        self.error = None


class Loop:
    """Run tasks over one selector."""

    def __init__(self):
        self._selector = selectors.DefaultSelector()
        self._alarm, self._bell = socket.socketpair()
        for end in (self._alarm, self._bell):
            end.setblocking(False)
        self._selector.register(self._alarm, READ, None)
        self._waiting = []
        self._ready = collections.deque()

    def close(self):
        """Release the descriptors; end the tasks that are left."""
        for task in self._waiting + [entry[0] for entry in self._ready]:
            task.generator.close()
        self._selector.close()
        self._alarm.close()
        self._bell.close()

    def spawn(self, generator):
        """Begin a task; it runs at the next turn."""
        task = Task(generator)
        self._ready.append((task, None, None))
        return task

    def ring(self):
        """End the selector's wait. Safe in signal handlers and other threads."""
        try:
            self._bell.send(b"\0")
        except (OSError, ValueError):
            pass

    def wake(self, task, error=None):
        """Resume a waiting task with WOKEN, or throw `error` into it."""
        if task in self._waiting:
            self._resume_later(task, WOKEN, error)
        elif error is not None:
            for number, entry in enumerate(self._ready):
                if entry[0] is task:
                    self._ready[number] = (task, WOKEN, error)

    def _resume_later(self, task, value, error=None):
        self._waiting.remove(task)
        if task.wait.fileobj is not None:
            self._selector.unregister(task.wait.fileobj)
        task.wait = None
        self._ready.append((task, value, error))

    def turn(self):
        """Wait for something to happen, and let the tasks concerned go on."""
        if not self._ready:
            deadlines = [task.wait.deadline for task in self._waiting
                         if task.wait.deadline is not None]
            timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
            for key, _ in self._selector.select(timeout):
                if key.data is None:
                    try:
                        self._alarm.recv(4096)
                    except OSError:
                        pass
                else:
                    self._resume_later(key.data, READY)
            now = time.monotonic()
            for task in list(self._waiting):
                if task.wait.deadline is not None and task.wait.deadline <= now:
                    self._resume_later(task, TIMED_OUT)
        for _ in range(len(self._ready)):
            self._resume(*self._ready.popleft())

    def _resume(self, task, value, error):
        try:
            if not task.begun:
                # Begin it also if it is to fail: else the error would miss its try.
                task.begun, value = True, None
                wait = task.generator.send(None)
            elif error is None:
                wait = task.generator.send(value)
            if error is not None:
                wait = task.generator.throw(error)
        except StopIteration:
            task.done = True
            return
        except (IperfError, Interrupted) as failure:
            task.done = True
            task.error = failure
            return
        task.wait = wait
        if wait.fileobj is not None:
            self._selector.register(wait.fileobj, wait.events, task)
        self._waiting.append(task)


def pause(seconds):
    """Wait in a task for `seconds`."""
    yield Wait(None, 0, time.monotonic() + seconds)


def read_exactly(sock, count, deadline, fail):
    """Read `count` bytes from a non-blocking socket, in a task; returns them.

    fail: a function from the cause (an OSError, a text) and the bytes so far to the exception
    to raise; the cause is None for an end of file.
    """
    data = bytearray()
    while len(data) < count:
        try:
            piece = sock.recv(min(count - len(data), 1 << 18))
        except (BlockingIOError, InterruptedError):
            if (yield Wait(sock, READ, deadline)) == TIMED_OUT:
                raise fail("timed out", data)
            continue
        except OSError as error:
            raise fail(error, data)
        if not piece:
            raise fail(None, data)
        data += piece
    return bytes(data)


def write_all(sock, data, deadline, number):
    """Write to a non-blocking socket, in a task. Raises IperfError `number`."""
    view = memoryview(data)
    while len(view):
        try:
            view = view[sock.send(view):]
        except (BlockingIOError, InterruptedError):
            if (yield Wait(sock, WRITE, deadline)) == TIMED_OUT:
                raise IperfError(number, "timed out")
        except OSError as error:
            raise IperfError(number, error)


def close_orderly(sock, patience=CLOSING_TIMEOUT):
    """Send the end of file, wait for the peer's for `patience` seconds, and close, in a task.

    Closing at once would make the kernel answer what the peer still sends with a reset,
    which can destroy what the peer has not read yet.
    """
    deadline = time.monotonic() + patience
    try:
        sock.shutdown(socket.SHUT_WR)
        while True:
            try:
                if not sock.recv(65536):
                    break
            except (BlockingIOError, InterruptedError):
                if (yield Wait(sock, READ, deadline)) == TIMED_OUT:
                    break
            if time.monotonic() > deadline:
                break
    except OSError:
        pass
    finally:
        sock.close()


def look_up(host, port, family, deadline):
    """Resolve a name, in a task; returns getaddrinfo's first row.

    The resolver blocks, so a name (not an address) is looked up in a thread, which lets
    signals and the deadline through. Raises IperfError 103.
    """
    try:
        return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0,
                                  socket.AI_NUMERICHOST)[0]
    except socket.gaierror as error:
        if error.errno != socket.EAI_NONAME and error.errno != getattr(
                socket, "EAI_ADDRFAMILY", None):
            raise IperfError(103, error)
    except (OSError, UnicodeError) as error:
        raise IperfError(103, error)
    import threading
    answer = []

    def ask():
        try:
            answer.append(socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0])
        except (OSError, UnicodeError) as error:
            answer.append(error)
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    delay = 0.0005
    while not answer:
        yield from pause(delay)
        delay = min(0.05, delay * 2)
        if time.monotonic() > deadline:
            raise IperfError(103, "name resolution timed out")
    thread.join()
    if isinstance(answer[0], Exception):
        raise IperfError(103, answer[0])
    return answer[0]


def connect(address, local, device, deadline, number, prepare=None, port=0):
    """Connect a TCP socket, in a task; returns it, non-blocking.

    address: a row of getaddrinfo; local: a socket address or None (-B); device: to bind to, or
    None; port: the local one, 0 for any; prepare: called with the socket before it connects.
    Raises IperfError `number`.
    """
    family, _, _, _, place = address
    sock = None
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        if device:
            bind_device(sock, device)
        if local or port:
            if local is None:
                local = ("0.0.0.0" if family == socket.AF_INET else "::", port)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(local[:1] + (port,) + local[2:])
        if prepare:
            prepare(sock)
        status = sock.connect_ex(place)
        if status in (errno.EINPROGRESS, errno.EWOULDBLOCK, getattr(errno, "WSAEWOULDBLOCK", -1)):
            if (yield Wait(sock, WRITE, deadline)) == TIMED_OUT:
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            status = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            raise OSError(status, os.strerror(status))
    except BaseException as error:
        if sock is not None:
            sock.close()
        if isinstance(error, (OSError, UnicodeError)):
            raise IperfError(number, error)
        raise
    return sock


###############################################################################
# streams #####################################################################
###############################################################################
# The data plane. A worker runs the loop of one stream, blocked in system calls,
# in a forked process or in a thread; the loop does not know which. It counts in
# its own slots of a shared memory map, which the control plane reads at each
# tick. Nothing here prints.

# Slots of one stream, 8 bytes each, one cache line in all; one writer each.
_SLOTS = 8
_BYTES, _STATUS, _ERRNO, _FINISHED, _USER, _SYSTEM, _COMMAND = range(7)
_LIMIT = 0  # slot of the first line: bytes after which this end's senders stop, 0 for none

# Commands of the control plane.
_RUN, _STOP = 0, 1  # a sender that is stopped ends; a receiver counts no more, but reads on

# Status of a worker.
_STARTING, _RUNNING, _STOPPED, _COMPLETE, _CLOSED, _FAILED, _SPOILED = range(7)

_CALL_TIMEOUT = 0.1  # seconds after which a blocked call returns, so that counters are prompt
_HOUSEKEEPING = 0.25  # seconds between looks at the parent
_SLOW_CALL = 0.005  # seconds that one call may take before it is made smaller


class Counters:
    """The shared memory of the workers of one end of a test."""

    def __init__(self, streams):
        memory = memoryview(shared_memory((streams + 1) * _SLOTS * 8))
        self.ints = memory.cast("B").cast("q")
        self.floats = memory.cast("B").cast("d")

    def line(self, index):
        """Return the first slot of stream `index` (from 0)."""
        return (index + 1) * _SLOTS


class Worker:
    """A process or thread that runs `loop.run()` once the gate opens."""

    def __init__(self, loop, gate, threaded):
        """Start the worker. gate: a pipe's (read, write) ends; its end of file opens it."""
        self._pid = self._thread = None
        self.loop = loop
        if threaded:
            import threading
            self._thread = threading.Thread(target=self._wait_and_run, args=(gate[0],),
                                            daemon=True)
            self._thread.start()
            return
        loop.parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._be_child(gate[0])

    def _be_child(self, gate):
        status = 1
        try:
            gc.disable()  # a collection would write to, and so copy, every page of the parent
            for number in ("SIGINT", "SIGTERM", "SIGHUP"):
                signal.signal(getattr(signal, number), signal.SIG_IGN)
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            close_descriptors([gate] + self.loop.descriptors())
            self._wait_and_run(gate)
            status = 0
        finally:
            os._exit(status)

    def _wait_and_run(self, gate):
        os.read(gate, 1)
        self.loop.run()

    def ended(self):
        """Return whether the worker has ended; a process is reaped then."""
        if self._pid:
            try:
                pid, _ = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:  # somebody else reaped it
                pid = self._pid
            if pid:
                self._pid = None
        if self._thread and not self._thread.is_alive():
            self._thread = None
        return not (self._pid or self._thread)

    def wake(self, how):
        """End a blocked call on the worker's socket by shutting it down."""
        try:
            self.loop.sock.shutdown(how)
        except OSError:
            pass  # the peer was first

    def kill(self):
        """End the worker now, whatever it does."""
        if self._pid:
            try:
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
            except OSError:
                pass
            self._pid = None
        if self._thread:
            self.wake(socket.SHUT_RDWR)
            self._thread.join(1.0)
            self._thread = None


class FileTrouble(OSError):
    """The file of -F could not be written."""


class StreamLoop:
    """What sender and receiver share: slots, the look at the parent, the CPU figures."""

    parent = None  # process that waits for this loop, if it runs in a process of its own

    def __init__(self, sock, counters, index, parameters, plan, path=None):
        """Prepare the loop in the parent.

        plan: the CallPlan; path: file to send or to write (-F).
        Raises IperfError 14 if that cannot be opened.
        """
        self.sock = sock
        self.ints, self.floats = counters.ints, counters.floats
        self.line = counters.line(index)
        self.parameters = parameters
        self.plan = plan
        self.file = self.open_file(path) if path else None
        self.payload = None  # the file that -Z sends
        self._looked = 0.0
        sock.setblocking(True)
        set_timeouts(sock, _CALL_TIMEOUT)

    def descriptors(self):
        """Return the descriptors that the loop needs."""
        return [each.fileno() for each in (self.sock, self.file, self.payload) if each]

    def close(self):
        for each in (self.sock, self.file, self.payload):
            if each:
                each.close()

    def run(self):
        """Run the stream until it is stopped, complete, or broken."""
        self.ints[self.line + _STATUS] = _RUNNING
        if self.plan.batch:
            prefer_throughput()
        try:
            status = self.transfer()
        except OSError as error:
            self.ints[self.line + _ERRNO] = error.errno or 0
            status = _SPOILED if isinstance(error, FileTrouble) else _FAILED
        self._end(status)

    def _end(self, status):
        self.publish()
        if not self.floats[self.line + _FINISHED]:
            self.floats[self.line + _FINISHED] = time.monotonic()
        self.ints[self.line + _STATUS] = status

    def publish(self):
        """Write this process's CPU seconds to the slots (a thread's are its program's)."""
        if self.parent is not None:
            self.floats[self.line + _USER], self.floats[self.line + _SYSTEM] = cpu_times()

    def look_around(self):
        """Return the time; now and then publish, and end if the parent is gone."""
        now = time.monotonic()
        if now - self._looked > _HOUSEKEEPING:
            self._looked = now
            self.publish()
            if self.parent is not None and os.getppid() != self.parent:
                os._exit(1)
        return now

    def stopped(self):
        return self.ints[self.line + _COMMAND] != _RUN


class BlockSource:
    """Send one block again and again: several per call, or a part of it.

    call: writes `size` bytes, if all goes well, and returns how many went.
    """

    def __init__(self, sock, block, size):
        if size >= len(block):
            pieces = [block]
            vector = [block] * min(size // len(block), 1024)
            self.size = len(vector) * len(block)
        else:
            pieces = [block[at:at + size] for at in range(0, len(block), size)]
            vector = pieces[:1]
            self.size = size
        self.block = block
        self.rest = None  # of a piece that went in part
        self._sock = sock
        self._pieces = itertools.cycle(pieces)
        self._only = pieces[0] if len(pieces) == 1 else None
        if len(vector) > 1:
            self.call = functools.partial(sock.sendmsg, vector)
        elif self._only is not None:
            self.call = functools.partial(sock.send, self._only)
        else:
            self.call = self.send

    def send(self):
        """Write the rest of what went in part, or the next piece; return how many bytes went."""
        piece = self.rest if self.rest is not None else next(self._pieces)
        count = 0
        try:
            count = self._sock.send(piece)
        finally:
            self.rest = piece[count:] if count < len(piece) else None
        return count

    def split(self, count):
        """Note that `call` returned less than `size`, so that the block it broke off is ended."""
        if self._only is not None and count % len(self._only):
            self.rest = self._only[count % len(self._only):]


class ZeroCopySource:
    """Send the block from a file with sendfile (-Z)."""

    def __init__(self, sock, payload, size):
        self._in, self._out = payload.fileno(), sock.fileno()
        self.size = size
        self.rest = None
        self.call = self.send
        self._offset = 0

    def split(self, count):
        """As in BlockSource; the offset says it all."""

    def send(self):
        count = os.sendfile(self._out, self._in, self._offset, self.size - self._offset)
        self._offset = (self._offset + count) % self.size
        return count


class FileSource:
    """Send what a file holds, block by block (-F). send() returns 0 at its end."""

    def __init__(self, sock, handle, size):
        self._sock, self._file = sock, handle
        self.size = size
        self.rest = None
        self.call = self.send

    def split(self, count):
        """As in BlockSource; send() has seen to it."""

    def send(self):
        piece = self.rest if self.rest is not None else memoryview(self._file.read(self.size))
        if not piece:
            return 0
        self.rest = piece
        count = self._sock.send(piece)
        self.rest = piece[count:] if count < len(piece) else None
        return count


def make_block(parameters):
    """Return one block of payload: random bytes, or digits with --repeating-payload."""
    block = private_memory(parameters.length)
    if parameters.repeating_payload:
        block[:] = (b"0123456789" * (parameters.length // 10 + 1))[:parameters.length]
    else:
        block[:] = os.urandom(parameters.length)
    return memoryview(block)


class TcpSender(StreamLoop):
    """Send one TCP stream, as fast as it goes or at a rate, up to an amount or a stop."""

    def __init__(self, sock, counters, index, parameters, plan, path=None, lines=()):
        """lines: the first slots of all this end's senders, whose bytes count together."""
        StreamLoop.__init__(self, sock, counters, index, parameters, plan, path)
        self.size = plan.send
        self._lines = lines
        if parameters.zerocopy and CAN_SEND_FILES and not self.file:
            self.payload = payload_file(make_block(parameters))

    @staticmethod
    def open_file(path):
        return open_unblocked(path, os.O_RDONLY)

    def transfer(self):
        parameters = self.parameters
        if self.file:
            small = large = FileSource(self.sock, self.file, parameters.length)
        elif self.payload:
            small = large = ZeroCopySource(self.sock, self.payload, parameters.length)
        else:
            block = make_block(parameters)
            small = large = BlockSource(self.sock, block, len(block))
            if hasattr(self.sock, "sendmsg"):
                large = BlockSource(self.sock, block, self.size)
        if parameters.rate:
            status = self._send_at_rate(small)
        elif parameters.bytes or parameters.blocks or self.file:
            status = self._send_amount(small, large)
        else:
            status = self._send_all(large)
        if status == _COMPLETE:
            self._await_acknowledgement()
        return status

    def _await_acknowledgement(self):
        """Wait until the other end's kernel has had everything, as long as that goes on."""
        # differs: iperf3 takes the time of an amount when it is written, with much under way.
        last, changed = None, time.monotonic()
        while not self.stopped():
            left, now = unacknowledged(self.sock), self.look_around()
            if left != last:
                last, changed = left, now
            if not left or now - changed > 1.0:
                return
            time.sleep(0.001)

    def _send_all(self, source):
        """The hot path: no rate, no amount."""
        ints, count_slot, command_slot = self.ints, self.line + _BYTES, self.line + _COMMAND
        adapts = isinstance(source, BlockSource)
        sent = 0
        while True:
            begin, first = self.look_around(), sent
            call, size = source.call, source.size
            try:
                while source.rest is not None:
                    sent += source.send()
                    ints[count_slot] = sent
                for _ in range(32):
                    count = call()
                    sent += count
                    ints[count_slot] = sent
                    if count != size:
                        source.split(count)
                        break
                    if ints[command_slot]:
                        break
            except BlockingIOError:
                pass
            if ints[command_slot]:
                return _STOPPED
            # A slow link gets smaller calls, so that the counters are prompt.
            room = (sent - first) / max(time.monotonic() - begin, 1e-6) * _SLOW_CALL
            if adapts and room < size / 2 and size > 8192:
                source = self._resized(source, size // 2)
            elif adapts and room > size * 4 and size < self.size:
                source = self._resized(source, size * 2)

    def _resized(self, source, size):
        """Return a source for calls of another size, once the block begun is through."""
        if source.rest is not None:
            return source
        return BlockSource(self.sock, source.block, min(size, self.size))

    def _amount_left(self):
        """Return the bytes that this end's senders still have to send, None without a limit."""
        ints = self.ints
        limit = ints[_LIMIT]
        if not limit:
            return None
        return limit - sum(ints[line + _BYTES] for line in self._lines)

    def _send_amount(self, small, large):
        ints, count_slot = self.ints, self.line + _BYTES
        sent = 0
        while not self.stopped():
            left = self._amount_left()
            if left is not None and left <= 0:
                return _COMPLETE
            source = large if left is None or left >= large.size * len(self._lines) else small
            try:
                if source.rest is not None or small.rest is not None:
                    source = source if source.rest is not None else small
                    count = source.send()
                else:
                    count = source.call()
                    if count != source.size:
                        source.split(count)
            except BlockingIOError:
                count = None
            if count == 0 and self.file:
                return _COMPLETE
            if count:
                sent += count
                ints[count_slot] = sent
            self.look_around()
        return _STOPPED

    def _send_at_rate(self, source):
        """Send a burst of blocks whenever the average since the start has fallen behind."""
        ints, count_slot = self.ints, self.line + _BYTES
        rate = self.parameters.rate / 8.0
        burst = max(1, self.parameters.burst) * self.parameters.length
        sent = 0
        start = time.monotonic()
        while not self.stopped():
            left = self._amount_left()
            if left is not None and left <= 0:
                return _COMPLETE
            now = self.look_around()
            due = start + sent / rate
            if due > now and sent % burst == 0:
                time.sleep(min(due - now, 0.02))  # no longer than a stop may go unnoticed
                continue
            try:
                count = source.send()
            except BlockingIOError:
                continue
            if count == 0 and self.file:
                return _COMPLETE
            sent += count
            ints[count_slot] = sent
        return _STOPPED


class TcpReceiver(StreamLoop):
    """Receive one TCP stream; once stopped, read on to its end without counting."""

    @staticmethod
    def open_file(path):
        return open_unblocked(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def transfer(self):
        ints, count_slot, command_slot = self.ints, self.line + _BYTES, self.line + _COMMAND
        size = self.plan.receive
        view = memoryview(private_memory(size))
        # -F needs the bytes; otherwise they may be dropped in the kernel.
        plain = _MSG_TRUNC if self.parameters.skip_rx_copy and not self.file else 0
        # Calls that wait for a whole buffer save wake-ups; on a slow link, and at the end of an
        # amount, they would make the counters late.
        amount = bool(self.parameters.bytes or self.parameters.blocks)
        whole = plain | _MSG_WAITALL if self.plan.whole and not amount else plain
        flags = plain
        receive = self.sock.recv_into
        received, count = 0, 1
        mark, marked = time.monotonic(), 0
        while count and not ints[command_slot]:
            enough = size if flags != plain else 1
            try:
                for _ in range(1 if amount else 32):
                    count = receive(view, size, flags)
                    if ints[command_slot]:
                        break
                    received += count
                    ints[count_slot] = received
                    if self.file:
                        self._store(view[:count])
                    if count < enough:
                        break
            except BlockingIOError:
                if ints[command_slot]:
                    count = 0
                self.look_around()
                continue
            now = self.look_around()
            if amount and count:
                self.floats[self.line + _FINISHED] = now
            if now - mark > 0.02:
                slow = (received - marked) / (now - mark) * _SLOW_CALL < size
                flags = plain if slow else whole
                mark, marked = now, received
        if not count and not ints[command_slot]:
            return _CLOSED
        self._end(_STOPPED)
        self._drain(receive, view, plain, count)
        return _STOPPED

    def _store(self, view):
        """Write to the file (-F)."""
        try:
            while len(view):
                view = view[self.file.write(view):]
        except OSError as error:
            raise FileTrouble(error.errno, error.strerror)

    def _drain(self, receive, view, flags, count):
        """Read to the end of the stream, so that the peer is not reset while it still sends."""
        if self.file and count:
            self._store(view[:count])
        while True:
            try:
                count = receive(view, len(view), flags)
            except BlockingIOError:
                self.look_around()
                continue
            if not count:
                return
            if self.file:
                self._store(view[:count])
            self.look_around()


CallPlan = collections.namedtuple("CallPlan", "send receive whole batch")
CallPlan.__doc__ = """How the streams of one end call the kernel.

send, receive: bytes per call; whole: a receiving call waits until they are there;
batch: run under SCHED_BATCH, where a worker that wakes up does not interrupt another.
"""


def call_plan(parameters, streams):
    """Return the CallPlan for `streams` streams of one end.

    With the default block the sizes are free. Measured with both ends on two cores (ratios to
    iperf3, median of four pairs): one stream, 1 MiB and 32 KiB 1.3, 128 KiB both ways 0.95;
    four streams, 128 KiB both ways 1.06, and 1.4 with SCHED_BATCH, 1 MiB and 32 KiB 0.8.
    With --skip-rx-copy the sender is the bottleneck, and each wake-up costs it.
    """
    block = parameters.length
    if streams > 1:
        return CallPlan(block, DEFAULT_TCP_BLOCK, False, not parameters.rate)
    if parameters.skip_rx_copy:
        return CallPlan(block, DEFAULT_TCP_BLOCK, True, False)
    if parameters.zerocopy:
        return CallPlan(block, 1024 * 1024, True, True)
    large = 8 * block if block == DEFAULT_TCP_BLOCK else block
    return CallPlan(large, 32 * 1024, True, False)


###############################################################################
# test ########################################################################
###############################################################################
# What both ends share: the streams of a test, its ticks, its end, its results,
# and the events it produces. Nothing here prints.

class Event(dict):
    """A moment of a test: `event` (its name), `data` (a piece of the JSON document), and more.

    start, interval, end, error, server_output_text, server_output_json: as in iperf3's
    --json-stream. Others are for text: version, listening, connecting, accepted, connected,
    done (always the last of a test; `ok` tells how it went). `server` tells the side; a
    server's events carry `test`, the number of the test.
    """


def first_facts():
    """Return the start object of a test of which nothing is known yet."""
    return {"connected": [], "version": VERSION_TEXT, "system_info": system_info()}


class Document:
    """Collect the events of one test into the document that `-J` prints."""

    _ORDER = ("start", "intervals", "end", "error", "title", "extra_data", "server_output_json",
              "server_output_text")

    def __init__(self, facts=None):
        """facts: what `start` is until more is known (data of a version event)."""
        self._members = {"start": facts or {}, "intervals": [], "end": {}}

    def add(self, event):
        """Take an event in. Those that are no part of a document change nothing."""
        name, data = event["event"], event["data"]
        if name == "interval":
            self._members["intervals"].append(data)
        elif name in ("version", "connecting", "accepted", "start"):
            self._members["start"] = data
        elif name == "done":
            for name in ("title", "extra_data"):
                if event.get(name) is not None:
                    self._members[name] = event[name]
        elif name in self._ORDER:
            self._members[name] = data

    def members(self):
        """Return the document so far, members in iperf3's order."""
        return collections.OrderedDict((name, self._members[name]) for name in self._ORDER
                                       if name in self._members)


class Stream:
    """One data connection, as the control plane sees it."""

    def __init__(self, number, stream_id, sock, sender, loop, worker, line):
        self.id = stream_id
        self.sock = sock
        self.sender = sender
        self.loop = loop
        self.worker = worker
        self.line = line
        self.statistics = StreamStatistics(number, sender)


class Test:
    """One running test, of either end."""

    def __init__(self, settings, parameters, server, emit):
        """emit: function that takes (event name, data, **more)."""
        self.settings = settings
        self.parameters = parameters
        self.server = server
        self.emit = emit
        count = parameters.parallel * (2 if parameters.bidirectional else 1)
        self.ids = stream_ids(count)
        self.streams = []
        self.start = first_facts()
        self.remote = None  # the other end's Results
        self.local_time = 0.0
        self.ends_with_file = False  # -F without another end condition: it may be empty
        self.omitting = parameters.omit > 0
        self.started = self.finished = False
        self._origin = self._interval_start = 0.0
        self._tick = 1
        self._pending_interval = None
        self._progress = (0.0, -1)
        self._broken_since = None
        self._counters = Counters(count)
        self._gate = os.pipe()
        self._threaded = settings.threads or not can_fork()
        self._cpu = None

    # Set-up

    def sends(self, index):
        """Return whether this end sends on stream `index`."""
        client_sends = not self.parameters.reverse
        if self.parameters.bidirectional:
            client_sends = index < self.parameters.parallel
        return client_sends != self.server

    def is_complete(self):
        return len(self.streams) == len(self.ids)

    def start_cpu(self):
        self._cpu = CpuMeter(time.monotonic(), *cpu_times())

    def add_stream(self, sock):
        """Take a connected data connection and start its worker, which waits for the start."""
        index = len(self.streams)
        sender = self.sends(index)
        plan = call_plan(self.parameters, len(self.ids))
        line = self._counters.line(index)
        path = self.settings.file
        if sender:
            lines = [self._counters.line(i) for i in range(len(self.ids)) if self.sends(i)]
            loop = TcpSender(sock, self._counters, index, self.parameters, plan, path, lines)
        else:
            # differs: with --bidir iperf3 would write over the file that it sends.
            if self.parameters.bidirectional:
                path = None
            loop = TcpReceiver(sock, self._counters, index, self.parameters, plan, path)
        try:
            worker = Worker(loop, self._gate, self._threaded)
        except (OSError, RuntimeError) as error:
            loop.close()
            raise IperfError(200, error if isinstance(error, OSError) else str(error))
        # iperf3: the numbers are descriptors, and always these.
        number = 2 * index + (5 if self.server else 4)
        self.streams.append(Stream(number, self.ids[index], sock, sender, loop, worker, line))
        try:
            local, remote = plain_address(sock.getsockname()), plain_address(sock.getpeername())
        except OSError as error:  # reset already
            raise IperfError(204 if self.server else 203, error)
        connected = {"socket": number, "local_host": local[0], "local_port": local[1],
                     "remote_host": remote[0], "remote_port": remote[1]}
        self.start["connected"].append(connected)
        self.emit("connected", connected)

    def describe(self):
        """Put test_start into the start object."""
        parameters = self.parameters
        self.start["test_start"] = {
            "protocol": parameters.protocol,
            "num_streams": parameters.parallel,
            "blksize": parameters.length,
            "omit": parameters.omit,
            "duration": parameters.time,
            "bytes": parameters.bytes,
            "blocks": parameters.blocks,
            "reverse": int(parameters.reverse),
            "tos": parameters.tos,
            "target_bitrate": parameters.rate,
            "bidir": int(parameters.bidirectional),
            "fqrate": parameters.fq_rate,
            "interval": self.settings.interval,
            "gso": 0,
            "gro": 0,
        }

    def start_clock(self):
        """Begin the test: now is 0 s."""
        self.describe()
        self.emit("start", self.start)
        if self._cpu is None:
            self.start_cpu()
        self._origin = time.monotonic()
        self._progress = (self._origin, -1)
        self.started = True
        if not self.omitting:
            self._set_limit()

    def open_gate(self):
        """Let the workers run."""
        if self._gate[1] is not None:
            os.close(self._gate[1])
            self._gate = (self._gate[0], None)

    def _amount(self):
        """Return the bytes after which the test ends (-n, -k), 0 without a limit."""
        return self.parameters.bytes or self.parameters.blocks * self.parameters.length

    def _set_limit(self):
        # The omitted part of a client ends later than that of its server, which therefore cannot
        # know when the amount is through: it sends until it is told.
        if self._amount() and not (self.server and self.parameters.omit):
            ints = self._counters.ints
            ints[_LIMIT] = min(2 ** 63 - 1, self._amount() + sum(
                ints[stream.line + _BYTES] for stream in self.streams if stream.sender))

    def _time_to_amount(self, now):
        """Return after how many seconds to look again whether the amount is through."""
        done = max(self._measured(True), self._measured(False))
        if done <= 0:
            return 0.002
        left = (self._amount() - done) * (now - self._origin) / done
        return min(0.05, max(0.0005, left / 2))

    # While it runs

    def deadline(self):
        """Return when something is due."""
        parameters, now = self.parameters, time.monotonic()
        due = [now + 1.0]
        if self.omitting:
            due.append(self._origin + parameters.omit)
        elif parameters.time and not self.server:
            due.append(self._origin + parameters.time)
        elif self._amount() and not self.server:
            due.append(now + self._time_to_amount(now))
        if self.settings.interval:
            due.append(self._origin + self._tick * self.settings.interval)
        return min(due)

    def advance(self, now):
        """Do what is due: the end of the omitted part, a report."""
        if self.omitting and now >= self._origin + self.parameters.omit:
            # differs: the end of an omitted part that is no multiple of -i is reported, too.
            if self.settings.interval:
                self._emit_interval(self._take_interval(now))
            else:
                self._sample()
            for stream in self.streams:
                stream.statistics.start_measuring()
            self.omitting = False
            self._origin, self._interval_start, self._tick = now, 0.0, 1
            self._set_limit()
            self.emit("measuring", None)
        elif self.settings.interval and self._interval_due(now):
            self._emit_interval(self._take_interval(now))
            elapsed = now - self._origin
            while self._tick * self.settings.interval <= elapsed:
                self._tick += 1

    def _interval_due(self, now):
        due = self._tick * self.settings.interval
        if self.omitting:
            return now >= self._origin + due and due < self.parameters.omit
        if self.parameters.time and not self.server and due > self.parameters.time - 1e-9:
            return False  # the last report comes with the summary
        return now >= self._origin + due

    def _sample(self):
        """Read the counters and the kernel's figures. Returns the TcpInfo of each stream."""
        infos = []
        for stream in self.streams:
            stream.statistics.bytes = self._counters.ints[stream.line + _BYTES]
            info = None
            if stream.sender or self.parameters.bidirectional:
                info = tcp_info(stream.sock)
            stream.statistics.sample(info)
            infos.append(info)
        return infos

    def _take_interval(self, now):
        """End the current interval; return its data, None if it is not worth a report."""
        begin, end = self._interval_start, now - self._origin
        infos = self._sample()
        quiet = all(stream.statistics.bytes == stream.statistics.interval_bytes
                    for stream in self.streams)
        if quiet and end - begin < self.settings.interval / 10.0:
            return None
        self._interval_start = end
        rows = [stream.statistics.end_interval(begin, end, info, self.omitting)
                for stream, info in zip(self.streams, infos)]
        data = {"streams": rows}
        for suffix, group in self._directions(rows):
            data["sum" + suffix] = interval_sum(group)
        return data

    def _emit_interval(self, data, **more):
        if data is not None:
            self.emit("interval", data, **more)

    def _directions(self, rows):
        """Return (suffix of names, rows) of each direction, of rows in order of the streams."""
        if self.parameters.bidirectional:
            half = self.parameters.parallel
            return [("", rows[:half]), ("_bidir_reverse", rows[half:])]
        return [("", rows)]

    def _measured(self, sent):
        """Return the bytes that this end has sent, or received, since measuring began."""
        return sum(self._counters.ints[stream.line + _BYTES] - stream.statistics.omitted_bytes
                   for stream in self.streams if stream.sender == sent)

    def _amount_done(self, streams, received):
        """Return whether the amount of -n or -k is through on these streams."""
        if received:
            return self._measured(False) >= self._amount()
        return all(self._counters.ints[stream.line + _STATUS] >= _COMPLETE for stream in streams)

    def is_over(self, now):
        """Return whether a client's end condition is met."""
        parameters = self.parameters
        if self.omitting:
            return False
        if parameters.time and now >= self._origin + parameters.time:
            return True
        if self.ends_with_file and self._all_complete():
            return True
        if self._stopped_short(now):
            return True
        if self._amount():
            for sender in (True, False):
                streams = [stream for stream in self.streams if stream.sender == sender]
                if streams and self._amount_done(streams, not sender):
                    return True
        return False

    def _stopped_short(self, now):
        """Return whether a sending server thinks that the amount is through.

        iperf3's servers stop by themselves, counting from an omitted part that ends a little
        earlier than this end's: the amount may never be reached here.
        """
        quiet_since, count = self._progress
        return bool(not self.server and self.parameters.omit and self.parameters.reverse
                    and self._amount() and count >= self._amount()
                    and now - quiet_since > 0.5)

    def check_health(self, now):
        """Raise IperfError if data stopped coming, a worker died, or every stream broke.

        A broken stream alone is no error: the control connection may know better why.
        """
        ints = self._counters.ints
        watched = [stream for stream in self.streams if not stream.sender]
        if self.server and not self.parameters.time:
            watched = self.streams  # no watchdog ends a client that never reads
        if watched:
            count = sum(ints[stream.line + _BYTES] for stream in watched)
            if count != self._progress[1]:
                self._progress = (now, count)
            elif now - self._progress[0] > DATA_TIMEOUT:
                raise IperfError(144)
        for stream in self.streams:
            if ints[stream.line + _STATUS] == _SPOILED:
                raise IperfError(14, self._worker_error(stream))
            if stream.worker.ended() and ints[stream.line + _STATUS] in (_STARTING, _RUNNING):
                raise IperfError(205 if stream.sender else 206, "the stream's worker has died")
        failed = [stream for stream in self.streams if ints[stream.line + _STATUS] == _FAILED]
        if len(failed) < len(self.streams):
            self._broken_since = None
        elif self._broken_since is None:
            self._broken_since = now
        elif now - self._broken_since > 2.0:
            raise IperfError(205 if failed[0].sender else 206, self._worker_error(failed[0]))

    def _worker_error(self, stream):
        number = self._counters.ints[stream.line + _ERRNO]
        return OSError(number, os.strerror(number))

    # The end

    def stop(self, now):
        """End measuring, in a task: stop the workers, take the last figures.

        now: when the end came. The workers see the stop within a call; the wait for one that
        is blocked is short, and a sender is woken afterwards.
        """
        ints = self._counters.ints
        if self._amount():
            if self.server:
                yield from self._let_arrive()
            elif self._all_complete():
                yield from pause(0.005)  # for the reader to take the last from its kernel
            now = self._amount_time() or now
        for stream in self.streams:
            ints[stream.line + _COMMAND] = _STOP
        asked, sent = time.monotonic(), self._measured(True)
        while time.monotonic() < asked + 0.003 and any(
                ints[stream.line + _STATUS] in (_STARTING, _RUNNING) for stream in self.streams):
            yield from pause(0.0003)
        if not self._amount() and self._measured(True) != sent:
            now += time.monotonic() - asked
        self.finish(now)
        for stream in self.streams:
            if stream.sender:
                stream.worker.wake(socket.SHUT_WR)

    def _amount_time(self):
        """Return when the amount of -n or -k was through, 0 if it was not."""
        if self.parameters.bidirectional or not (
                self._all_complete() or self._measured(False) >= self._amount()
                or self._stopped_short(time.monotonic())):
            return 0
        return max([self._origin] + [self._counters.floats[stream.line + _FINISHED]
                                     for stream in self.streams])

    def _all_complete(self):
        senders = [stream for stream in self.streams if stream.sender]
        return bool(senders) and all(
            self._counters.ints[stream.line + _STATUS] == _COMPLETE for stream in senders)

    def _let_arrive(self):
        """Wait for what a client with -n or -k has sent and this end has not read yet."""
        amount = self._amount()
        if not any(not stream.sender for stream in self.streams):
            return
        last, changed = -1, time.monotonic()
        while not self.omitting:
            count, now = self._measured(False), time.monotonic()
            if count != last:
                last, changed = count, now
            if count >= amount or now - changed > 0.1:
                return
            yield from pause(0.001)

    def finish(self, now):
        """Take the last interval and the figures of this end, once."""
        if self.finished or not self.started:
            return
        self.finished = True
        self.local_time = now - self._origin
        self._pending_interval = self._take_interval(now)
        user, system = cpu_times()
        for stream in self.streams:
            user += self._counters.floats[stream.line + _USER]
            system += self._counters.floats[stream.line + _SYSTEM]
        self._cpu.finish(now, user, system)

    def emit_last_interval(self):
        """Report the interval that the end cut short."""
        data, self._pending_interval = self._pending_interval, None
        self._emit_interval(data, remote_retransmits=(
            self.remote is not None and self.remote.has_retransmits > 0))

    def results(self, output=None):
        """Return the Results that this end sends."""
        sending = [stream for stream in self.streams if stream.sender]
        counted = all(stream.statistics.retransmits is not None for stream in sending)
        streams = collections.OrderedDict()
        for stream in self.streams:
            statistics = stream.statistics
            retransmits = -1
            if stream.sender and statistics.retransmits is not None:
                retransmits = statistics.measured_retransmits()
            streams[stream.id] = StreamResult(
                stream.id, statistics.measured_bytes(), retransmits, 0, 0, 0, 0, 0, 0,
                round(self.local_time, 6))
        return Results(self._cpu.total, self._cpu.user, self._cpu.system,
                       (1 if counted else 0) if sending else -1,
                       self.congestion(), streams, output)

    def congestion(self):
        """Return the name of the congestion control that this end uses, None if not known."""
        return congestion_name(self.streams[0].sock) if self.streams else None

    def summary(self):
        """Return the end object."""
        local, remote = self.local_time, self.remote
        other = local
        if remote and remote.streams:
            first = next(iter(remote.streams.values()))
            if first.end_time is not None:
                other = first.end_time - first.start_time
        end = {"streams": []}
        objects = []
        for stream in self.streams:
            # differs: with --bidir iperf3 takes the client's time for all sender rows.
            times = (local, other) if stream.sender else (other, local)
            result = remote.streams.get(stream.id) if remote else None
            row = stream_summary(stream.statistics, result, times[0], times[1], local)
            if self.settings.file:
                row = {"sender": row["sender"], "diskfile": self._file_figures(row),
                       "receiver": row["receiver"]}
            objects.append(row)
        end["streams"] = objects
        for suffix, group in self._directions(objects):
            sender = self.sends(self.parameters.parallel if suffix else 0)
            times = (local, other) if sender else (other, local)
            sent, received = summary_sums(group, times[0], times[1], sender)
            end["sum_sent" + suffix] = sent
            end["sum_received" + suffix] = received
        cpu = self._cpu or CpuMeter(0.0, 0.0, 0.0)
        end["cpu_utilization_percent"] = {
            "host_total": cpu.total, "host_user": cpu.user, "host_system": cpu.system,
            "remote_total": remote.cpu_total if remote else 0.0,
            "remote_user": remote.cpu_user if remote else 0.0,
            "remote_system": remote.cpu_system if remote else 0.0,
        }
        # With --bidir the names are those of the second direction.
        names = [self.congestion(), remote.congestion if remote else None]
        if self.streams and not self.streams[-1].sender:
            names.reverse()
        for key, name in zip(("sender_tcp_congestion", "receiver_tcp_congestion"), names):
            if name:
                end[key] = name
        return end

    def _file_figures(self, row):
        try:
            size = os.stat(self.settings.file).st_size
        except OSError:
            size = 0
        sent, received = row["sender"]["bytes"], row["receiver"]["bytes"]
        if not row["sender"]["sender"]:
            size = received
        return {
            "sent": sent,
            "received": received,
            "size": size,
            "percent_sent": sent * 100 // size if size else 100,
            "percent_received": received * 100 // size if size else 100,
            "filename": self.settings.file,
        }

    def settle(self):
        """Wait, in a task, for what is still on its way to a file."""
        deadline = time.monotonic() + FILE_TIMEOUT
        delay = 0.0005
        while self.settings.file and time.monotonic() < deadline:
            if all(stream.worker.ended() for stream in self.streams if not stream.sender):
                return
            yield from pause(delay)
            delay = min(0.02, delay * 2)

    def close(self):
        """End the workers and close the data connections, at once."""
        for stream in self.streams:
            self._counters.ints[stream.line + _COMMAND] = _STOP
        self.open_gate()
        for stream in self.streams:
            if not stream.worker.ended():
                stream.worker.kill()
            stream.loop.close()
        if self._gate[0] is not None:
            os.close(self._gate[0])
            self._gate = (None, None)


class Driver:
    """What client and server share: events, a loop, and a way to stop."""

    def __init__(self, settings):
        self.settings = settings
        self.error = None  # the IperfError or Interrupted that ended it
        self._loop = Loop()
        self._events = collections.deque()
        self._stop_reason = None

    def stop(self, reason="on request"):
        """End what is going on, in order; events of the end still come.

        May be called from a signal handler or another thread. reason: for the error event.
        """
        self._stop_reason = reason
        self._loop.ring()

    def _emit(self, name, data, **more):
        event = Event(event=name, data=data)
        event.update(more)
        self._events.append(event)
        return event


def interrupt_text(side, reason):
    """Return iperf3's text for an end by a signal (or by stop()). reason: like `by signal X(N)`."""
    return "interrupt - the %s has terminated %s" % (side, reason)


def read_state(sock, deadline, step):
    """Read a state byte from a server, in a task. Raises IperfError."""
    def fail(cause, _):
        if cause is None:
            return IperfError(109)
        if cause == "timed out":
            return IperfError(112, "timed out waiting for the server's %s" % step)
        return IperfError(112, cause)
    data = yield from read_exactly(sock, 1, deadline, fail)
    return struct.unpack("!b", data)[0]


def read_frame(sock, deadline, limit, number):
    """Read a JSON document with its length, in a task. Raises IperfError `number`."""
    def fail(cause, data):
        if cause is None:
            cause = "the connection was closed" if data else None
        return IperfError(number, cause)
    size, = struct.unpack("!I", (yield from read_exactly(sock, 4, deadline, fail)))
    if not 1 <= size <= limit:
        raise IperfError(number, "a length of %d bytes is not allowed" % size)
    data = yield from read_exactly(sock, size, deadline, fail)
    try:
        return decode_json(data)
    except ValueError:
        raise IperfError(number, "the text is no JSON")


def timestamp(now):
    """Return the timestamp object of a time in seconds since 1970."""
    return {"time": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(now)),
            "timesecs": int(now), "timemillisecs": int(now * 1000)}


###############################################################################
# client ######################################################################
###############################################################################
# The client's side of the protocol. Nothing here prints.

_STEPS = {  # what the client waits for, for the error of a deadline
    PARAM_EXCHANGE: "answer to the cookie",
    CREATE_STREAMS: "answer to the parameters",
    TEST_START: "start of the test",
    TEST_RUNNING: "start of the test",
    EXCHANGE_RESULTS: "answer to the end of the test",
    DISPLAY_RESULTS: "answer to the results",
}


class Client(Driver):
    """Run one test against a server.

    Iterate over it for its events, or call run() for the document. settings.client is the
    server's host.
    """

    def __init__(self, settings):
        if settings.zerocopy and not CAN_SEND_FILES:
            raise IperfError(11)
        if settings.skip_rx_copy and not _MSG_TRUNC:
            raise IperfError(39)
        Driver.__init__(self, settings)
        self._control = None
        self._parameters = Parameters.from_settings(settings)
        self._test = None
        self._last_state = 0
        self._local = None  # address to bind to (-B)
        self._reported = False  # the summary went out

    def __iter__(self):
        task = self._loop.spawn(self._run())
        stopping = False
        try:
            while not task.done or self._events:
                while self._events:
                    yield self._events.popleft()
                if task.done:
                    break
                if self._stop_reason is not None and not stopping:
                    stopping = True
                    self._loop.wake(task, Interrupted(self._stop_reason))
                self._loop.turn()
        finally:
            self._loop.close()
            self._close()

    def run(self):
        """Run the test; return the document, as `-J` prints it, as a dict.

        Raises IperfError, with the results so far in its `document`; also if it was stopped.
        """
        document = Document()
        for event in self:
            document.add(event)
        if isinstance(self.error, Interrupted):
            self.error = IperfError(119, self.error.reason)
        if self.error is not None:
            self.error.document = document.members()
            raise self.error
        return document.members()

    # The conversation, step by step

    def _run(self):
        patience = CLOSING_TIMEOUT
        try:
            yield from self._connect()
            yield from self._exchange_parameters()
            yield from self._create_streams()
            yield from self._measure()
            yield from self._exchange_results()
            yield from self._finish()
        except Exception as error:
            patience = 0.2
            if not self._reported:
                self.error = as_failure(error)
                self._fail(self.error)
        if self._control is not None:
            yield from close_orderly(self._control, patience)

    def _connect(self):
        settings, test = self.settings, self._new_test()
        self._emit("version", test.start)
        timeout = REPLY_TIMEOUT
        if settings.connect_timeout:
            timeout = settings.connect_timeout / 1000.0
        deadline = time.monotonic() + timeout
        self._address = yield from look_up(settings.client, settings.port, families(settings),
                                           deadline)
        if settings.bind:
            self._local = (yield from look_up(settings.bind, 0, self._address[0], deadline))[4]
        sock = self._control = yield from self._dial(deadline, 103)
        set_no_delay(sock)
        test.start_cpu()
        self._cookie = make_cookie()
        yield from write_all(sock, self._cookie, deadline, 105)

    def _dial(self, deadline, number, prepare=None, port=0):
        return connect(self._address, self._local, self.settings.bind_dev, deadline, number,
                       prepare, port)

    def _new_test(self):
        self._test = Test(self.settings, self._parameters, False, self._emit)
        if self.settings.file:
            self._measure_file()
        return self._test

    def _measure_file(self):
        """-F: see that the file can be sent; without -t, -n, -k its size is the amount."""
        parameters, settings = self._parameters, self.settings
        if parameters.reverse:
            return
        with open_unblocked(settings.file, os.O_RDONLY) as handle:
            size = os.fstat(handle.fileno()).st_size
        if not (settings.timed or parameters.bytes or parameters.blocks):
            parameters.bytes, parameters.time = size, 0
            self._test.ends_with_file = True

    def _expect(self, expected=None, step=None):
        """Read the next state byte, which must be `expected`; raises what else it means."""
        deadline = time.monotonic() + REPLY_TIMEOUT
        state = yield from read_state(self._control, deadline, step or _STEPS[expected])
        if state == expected:
            self._last_state = state
            return
        if state == ACCESS_DENIED:
            self._last_state = state
            raise IperfError(121)
        if state == SERVER_ERROR:
            self._last_state = state
            raise (yield from self._read_server_error())
        if state == SERVER_TERMINATE:
            raise IperfError(120)
        raise IperfError(110, (yield from self._what_came(state)))

    def _read_server_error(self):
        deadline = time.monotonic() + STEP_TIMEOUT
        numbers = []
        for _ in range(2):
            try:
                data = yield from read_exactly(self._control, 4, deadline,
                                               lambda cause, _: IperfError(108, cause))
            except IperfError:
                break  # 3.2 to 3.18 send a denial without the second number
            numbers += struct.unpack("!i", data)
        if not numbers:
            return IperfError(109)
        number, remote_errno = (numbers + [0])[:2]
        cause = OSError(remote_errno, os.strerror(remote_errno)) if remote_errno else None
        if not ERRORS.get(number, ("", True))[1]:
            cause = None
        return IperfError(number, cause, remote_errno)

    def _what_came(self, state):
        """Return the suspicion about a peer that sent an unknown state, if it is text."""
        if state <= 20 or self._last_state:
            return None
        yield from pause(0.05)
        try:
            more = self._control.recv(64)
        except OSError:
            more = b""
        return "the peer sent %s" % quote_bytes(struct.pack("!b", state) + more)

    def _exchange_parameters(self):
        parameters, sock, start = self._parameters, self._control, self._test.start
        yield from self._expect(PARAM_EXCHANGE)
        deadline = time.monotonic() + REPLY_TIMEOUT
        yield from write_all(sock, encode_frame(parameters.to_json()), deadline, 113)
        start["timestamp"] = timestamp(time.time())
        start["connecting_to"] = {"host": self.settings.client, "port": self.settings.port}
        start["cookie"] = self._cookie[:-1].decode("ascii")
        mss = maximum_segment(sock)
        if parameters.mss:
            start["tcp_mss"] = parameters.mss
        else:
            start["tcp_mss_default"] = mss
        start["target_bitrate"] = parameters.rate
        start["fq_rate"] = parameters.fq_rate
        self._emit("connecting", start, reverse=parameters.reverse, control_mss=mss)

    def _prepare(self, sock):
        """Set the options of a data connection before it connects."""
        parameters = self._parameters
        if parameters.no_delay:
            set_no_delay(sock)
        if parameters.mss:
            set_mss(sock, parameters.mss)
        sizes = set_window(sock, parameters.window)
        start = self._test.start
        if "sock_bufsize" not in start:
            start["sock_bufsize"] = parameters.window
            start["sndbuf_actual"], start["rcvbuf_actual"] = sizes
        if parameters.tos:
            set_tos(sock, parameters.tos)
        if parameters.congestion:
            try:
                set_congestion(sock, parameters.congestion)
            except OSError:
                raise IperfError(134)

    def _create_streams(self):
        yield from self._expect(CREATE_STREAMS)
        for index in range(len(self._test.ids)):
            port = self.settings.cport + index if self.settings.cport else 0
            deadline = time.monotonic() + REPLY_TIMEOUT
            sock = yield from self._or_server_error(self._dial(deadline, 203, self._prepare, port))
            try:
                yield from write_all(sock, self._cookie, deadline, 203)
                self._test.add_stream(sock)
            except BaseException:
                sock.close()
                raise

    def _or_server_error(self, step):
        """Run a step (a generator); if it fails, prefer what the server has to say about it."""
        try:
            return (yield from step)
        except IperfError as error:
            if error.number not in (203, 205, 206):
                raise
            if (yield Wait(self._control, READ, time.monotonic() + 0.2)) == READY:
                yield from self._expect(step="state")
            raise error

    def _measure(self):
        test = self._test
        yield from self._expect(TEST_START)
        test.start_clock()
        yield from self._expect(TEST_RUNNING)
        test.open_gate()
        while True:
            now = time.monotonic()
            if test.is_over(now):
                break
            test.advance(now)
            reason = yield Wait(self._control, READ, test.deadline())
            if reason == READY:
                yield from self._expect(TEST_RUNNING, step="state")  # iperf3: again, ignored
            test.check_health(now)
        yield from test.stop(now)
        deadline = time.monotonic() + REPLY_TIMEOUT
        yield from write_all(self._control, encode_state(TEST_END), deadline, 111)

    def _exchange_results(self):
        test, sock = self._test, self._control
        yield from self._expect(EXCHANGE_RESULTS)
        deadline = time.monotonic() + REPLY_TIMEOUT
        yield from write_all(sock, encode_frame(results_to_json(test.results())), deadline, 116)
        document = yield from read_frame(sock, deadline, MAX_RESULTS, 117)
        test.remote = results_from_json(document, test.ids)
        yield from self._expect(DISPLAY_RESULTS)

    def _finish(self):
        test = self._test
        yield from test.settle()
        test.emit_last_interval()
        output = test.remote.output
        if output and self._parameters.get_server_output:
            self._emit(output[0], output[1])
        self._emit("end", test.summary(), remote=True)
        self._done(True)
        test.close()
        yield from write_all(self._control, encode_state(IPERF_DONE),
                             time.monotonic() + STEP_TIMEOUT, 111)

    def _done(self, ok):
        self._reported = True
        self._emit("done", None, ok=ok, title=self._parameters.title,
                   extra_data=self._parameters.extra_data)

    def _fail(self, error):
        """Say good-bye to the server, and report."""
        test, sock = self._test, self._control
        interrupted = isinstance(error, Interrupted)
        if test is None:  # not even that could be made
            self._report(error)
            self._emit("end", {}, remote=False)
            self._done(False)
            return
        test.finish(time.monotonic())
        if sock is not None:
            state = CLIENT_TERMINATE if interrupted else IPERF_DONE
            if interrupted or self._last_state >= 0:
                try:
                    sock.send(encode_state(state))
                except OSError:
                    pass
        test.emit_last_interval()
        if interrupted:
            text = interrupt_text("client", error.reason)
            self._emit("error", text, line=text, server=False)
        else:
            self._report(error)
        summary = interrupted or (test.started and error.number == 120)
        self._emit("end", test.summary() if summary else {}, remote=False)
        test.close()
        self._done(False)

    def _report(self, error):
        first, lines = str(error), ["error - %s" % error]
        if error.remote_errno is not None:
            first = "SERVER ERROR - %s" % error
            if error.remote_errno:
                first += ", errno: %s" % os.strerror(error.remote_errno)
            lines.insert(0, first)
        # differs: iperf3's document has both texts, each in a member named `error`.
        self._emit("error", str(error), line="\niperf3: ".join(lines), first=first, server=False)

    def _close(self):
        if self._test:
            self._test.close()
        if self._control:
            self._control.close()


###############################################################################
# server ######################################################################
###############################################################################
# The server's side. One loop serves every connection; a connection costs a row
# in a table until its cookie has come. Nothing here prints.

def server_error_text(error):
    """Return how a server names an IperfError or Interrupted, without the program's name."""
    if isinstance(error, Interrupted):
        return interrupt_text("server", error.reason)
    if error.number == 119:
        return str(error)
    if error.number == 109:
        return "the client has unexpectedly closed the connection"
    return "error - %s" % error


class Server(Driver):
    """Serve tests. Iterate over it for the events of all tests, or call run().

    settings.one_off: end after one test. listener: a listening socket to use.
    transcribe: a function that makes an object with render(event) -> lines, for clients that
    ask for the server's output; without it they get the JSON document.
    """

    def __init__(self, settings, listener=None, transcribe=None):
        Driver.__init__(self, settings)
        self._listener = listener
        self._transcribe = transcribe
        self._sessions = []
        self._pending = collections.OrderedDict()  # tasks whose cookie has not come
        self._current = None  # the session whose test runs
        self._spent = None  # the cookie of the last test
        self._window = 0  # of the listener
        self._finished = False
        self._number = 1
        self.port = None

    def __iter__(self):
        stopping = False
        try:
            try:
                self._listen()
            except IperfError as error:
                self._emit("version", first_facts(), server=True)
                self.report(error)
                self.error = error
            else:
                self._acceptor = self._loop.spawn(self._accept())
            while self._events or not self._is_over():
                while self._events:
                    yield self._events.popleft()
                if self._stop_reason is not None and not stopping:
                    stopping = True
                    self._interrupt()
                elif not self._is_over():
                    self._loop.turn()
        finally:
            self._loop.close()
            for session in self._sessions:
                session.close()
            if self._listener:
                self._listener.close()

    def run(self):
        """Serve until stopped, or one test with one_off.

        Raises IperfError if the port cannot be listened on.
        """
        for _ in self:
            pass
        if isinstance(self.error, IperfError):
            raise self.error

    def watch(self, descriptor):
        """Stop when a descriptor becomes readable, that is, when its other end is closed."""
        def lifeline():
            yield Wait(descriptor, READ, None)
            self.stop()
        self._loop.spawn(lifeline())

    def _listen(self):
        settings = self.settings
        if self._listener is None:
            self._listener = open_listener(settings.bind, settings.port, families(settings),
                                           settings.bind_dev)
        self.port = self._listener.getsockname()[1]
        self._announce()

    def listen_again(self, window):
        """Change the buffer size of the connections to come (0: the system's choice).

        Raises IperfError 102, and then the server is over.
        """
        self._loop.wake(self._acceptor)  # it waits on the old socket
        place, family = self._listener.getsockname(), self._listener.family
        host = None if place[0] in ("::", "0.0.0.0") else place[0]
        if place[0] == "::" and not self.settings.version6:
            family = socket.AF_UNSPEC
        self._listener.close()
        try:
            self._listener = open_listener(host, place[1], family, self.settings.bind_dev, window)
        except IperfError as error:
            self.error = error
            raise
        self._window = window

    def _announce(self):
        self._emit("version", first_facts(), server=True)
        self._emit("listening", {"port": self.port, "test": self._number}, server=True)

    def _is_over(self):
        if self.error is not None or self._finished:
            return not self._sessions
        return False

    def emit_for(self, number, name, data, **more):
        """Emit an event of test `number`, and return it."""
        return self._emit(name, data, server=True, test=number, **more)

    def make_scribe(self):
        """Return what makes the text of one test, None if nobody gave a way to."""
        return self._transcribe() if self._transcribe else None

    def _interrupt(self):
        """Stop for good: tell the client, if one is there."""
        error = Interrupted(self._stop_reason)
        self._loop.wake(self._acceptor, error)
        if self._current is not None:
            self._loop.wake(self._current.task, error)
        else:
            self.report(error)
        self.error = error
        for session in self._sessions:
            if session is not self._current:
                self._loop.wake(session.task, IperfError(120))

    # Connections

    def _accept(self):
        while True:
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                yield Wait(self._listener, READ, None)
                continue
            except OSError:
                # Out of descriptors, say: the connection waits until some are free again.
                yield from pause(0.05)
                continue
            sock.setblocking(False)
            session = Session(self, sock, address)
            session.task = self._loop.spawn(session.run())
            self._sessions.append(session)
            self._pending[session] = None
            if len(self._pending) > MAX_PENDING:
                oldest = next(iter(self._pending))
                self._loop.wake(oldest.task, IperfError(106, "too many connections"))

    def find(self, cookie):
        """Return the session that waits for a data connection with this cookie, or None."""
        for session in self._sessions:
            if session.cookie == cookie and session.awaits_stream():
                return session
        return None

    def is_spent(self, cookie):
        """Return whether a cookie is the last test's."""
        return cookie == self._spent

    def greeted(self, session):
        """Note that a connection's cookie has come."""
        self._pending.pop(session, None)

    def wake(self, session, error=None):
        """Let a session look at what changed, or throw `error` into it."""
        self._loop.wake(session.task, error)

    def is_free(self):
        """Return whether a new test could begin."""
        return self._current is None and not self._finished and self.error is None

    def begin(self, session):
        """Give the server to a session; returns the number of its test, 0 if it is busy."""
        if not self.is_free():
            return 0
        self._current = session
        return self._number

    def complete(self, session):
        """Take note that a session's test is over, of whatever outcome."""
        if self._current is not session:
            return
        self._current = None
        self._spent = session.cookie
        if self.error is not None:
            return
        if self._window and not self.settings.one_off:
            self.listen_again(0)
        if self.settings.one_off:
            self._finished = True
            self._loop.wake(self._acceptor, Interrupted("one-off"))
            for other in self._sessions:
                if other is not session:
                    self._loop.wake(other.task, IperfError(121))
        else:
            self._number += 1
            self._announce()

    def leave(self, session):
        """Take a closed connection off the books."""
        self.complete(session)
        self._sessions.remove(session)
        self._pending.pop(session, None)

    def report(self, error):
        """Report an error that is no test's."""
        if self.error is None:
            text = server_error_text(error)
            self._emit("error", text, line=text, server=True)
            self._emit("end", {}, server=True)
            self._emit("done", None, ok=False, server=True)


class Session:
    """One connection to a server: a test's control connection, unless it turns out otherwise."""

    def __init__(self, server, sock, address):
        self.task = None
        self.cookie = None
        self._server = server
        self._control = sock
        self._peer = plain_address(address)
        self._number = 0  # of the test, once this session holds the server
        self._test = None
        self._parameters = None
        self._scribe = None  # makes the text that the client asked for
        self._output = []
        self._document = None  # or the document that it asked for

    def awaits_stream(self):
        test = self._test
        return test is not None and not test.started and not test.is_complete()

    def close(self):
        """Release everything, at once."""
        if self._test is not None:
            self._test.close()
        if self._control is not None:
            self._control.close()
            self._control = None

    def _emit(self, name, data, **more):
        event = self._server.emit_for(self._number, name, data, **more)
        if self._document is not None:
            self._document.add(event)
        if self._scribe is not None:
            self._output += self._scribe.render(event)

    # The conversation, step by step

    def run(self):
        try:
            if not (yield from self._greet()):
                return
            if not self._server.is_free():
                yield from self._deny()
                return
            document = yield from self._read_parameters()
            if document is None:
                return
            self._number = self._server.begin(self)
            if not self._number:
                yield from self._deny()
                return
            last_words = b""
            try:
                yield from self._create_streams(document)
                yield from self._measure()
                yield from self._exchange_results()
                yield from self._finish()
            except Exception as error:
                last_words = self._fail(as_failure(error))
            yield from self._say_good_bye(last_words)
        finally:
            self.close()
            self._server.leave(self)

    def _greet(self):
        """Read the cookie; returns whether this is a new test's control connection."""
        begun = bytearray()

        def fail(cause, data):
            begun.extend(data)
            return IperfError(106, cause)
        deadline = time.monotonic() + STEP_TIMEOUT
        try:
            try:
                data = yield from read_exactly(self._control, COOKIE_SIZE, deadline, fail)
            except IperfError:
                check_cookie(bytes(begun))
                raise
            begun.extend(data)
            check_cookie(data)
        except IperfError as error:
            # differs: a connection that brings nothing (a probe, a port scan) is no test, nor
            # an error worth a line.
            if begun:
                self._server.report(error)
                self._server.greeted(self)
                yield from self._say_good_bye(b"")
            return False
        self._server.greeted(self)
        session = self._server.find(data)
        if session is not None:
            sock, self._control = self._control, None
            session.attach(sock)
            return False
        self.cookie = data
        return True

    def _read_parameters(self):
        """Ask for the parameters; returns the document, None if there is none."""
        sock, deadline = self._control, time.monotonic() + STEP_TIMEOUT
        try:
            set_no_delay(sock)
            yield from write_all(sock, encode_state(PARAM_EXCHANGE), deadline, 111)
            return (yield from read_frame(sock, deadline, MAX_PARAMETERS, 114))
        except IperfError as error:
            if error.number in (120, 121):  # the server's own end
                return None
            # A data connection that came too late is not worth a line.
            if not self._server.is_spent(self.cookie):
                self._server.report(error)
            yield from self._say_good_bye(encode_error(error))
            return None

    def _deny(self):
        yield from self._say_good_bye(encode_state(ACCESS_DENIED))

    def _say_good_bye(self, data):
        """Send the last bytes of a conversation, if they go, and close."""
        sock, self._control = self._control, None
        try:
            if data:
                sock.send(data)
        except OSError:
            pass
        yield from close_orderly(sock)

    def attach(self, sock):
        """Take a data connection that another session turned out to be."""
        try:
            self._prepare(sock)
            self._test.add_stream(sock)
            failure = None
        except Exception as error:
            sock.close()
            failure = as_failure(error)
        self._server.wake(self, failure)

    def _probe_options(self):
        """Try the client's socket options on a socket of no use; returns the buffer sizes."""
        parameters = self._parameters
        with socket.socket(self._control.family, socket.SOCK_STREAM) as sock:
            if parameters.mss:
                set_mss(sock, parameters.mss)
            for text in self._set_what_may_fail(sock):
                self._emit("warning", text)
            return set_window(sock, parameters.window)

    def _set_what_may_fail(self, sock):
        """Set the options without which the test goes on; returns the warnings."""
        parameters, warnings = self._parameters, []
        if parameters.congestion:
            try:
                set_congestion(sock, parameters.congestion)
            except OSError:
                warnings.append("TCP congestion control algorithm not supported")
        if parameters.fq_rate:
            try:
                set_pacing(sock, parameters.fq_rate)
            except OSError:
                warnings.append("Unable to set socket pacing")
        return warnings

    def _prepare(self, sock):
        """Set the options of a data connection that was accepted."""
        parameters = self._parameters
        if parameters.no_delay:
            set_no_delay(sock)
        set_window(sock, parameters.window)
        if parameters.tos:
            set_tos(sock, parameters.tos)
        self._set_what_may_fail(sock)  # the warnings went out before

    def _create_streams(self, document):
        settings = self._server.settings
        parameters = self._parameters = Parameters.from_json(document)
        if parameters.protocol == "UDP":
            raise IperfError(13)
        if parameters.protocol == "SCTP":
            raise IperfError(202, OSError(errno.EPROTONOSUPPORT,
                                          os.strerror(errno.EPROTONOSUPPORT)))
        if parameters.get_server_output:
            if not (settings.json or settings.json_stream):
                self._scribe = self._server.make_scribe()
            if self._scribe is None:
                self._document = Document()
        sizes = self._probe_options()
        if parameters.window:
            # The size is agreed on when a connection is made: set later, a small one starves.
            self._server.listen_again(parameters.window)
        self._test = test = Test(settings, parameters, True, self._emit)
        start = test.start
        start["sock_bufsize"] = parameters.window
        start["sndbuf_actual"], start["rcvbuf_actual"] = sizes
        start["timestamp"] = timestamp(time.time())
        start["accepted_connection"] = {"host": self._peer[0], "port": self._peer[1]}
        start["cookie"] = self.cookie[:-1].decode("ascii", "replace")
        if parameters.mss:
            start["tcp_mss"] = parameters.mss
        else:
            start["tcp_mss_default"] = 0
        # differs: with a rate iperf3's start object has target_bitrate twice.
        start["target_bitrate"] = parameters.rate
        start["fq_rate"] = parameters.fq_rate
        self._emit("accepted", start)
        yield from self._send_state(CREATE_STREAMS)
        count, deadline = 0, time.monotonic() + STEP_TIMEOUT
        while not test.is_complete():
            if len(test.streams) != count:
                count, deadline = len(test.streams), time.monotonic() + STEP_TIMEOUT
            reason = yield Wait(self._control, READ, deadline)
            if reason == READY:
                yield from pause(0.01)  # it may have overtaken a data connection
                yield from self._read_state()
            elif reason == TIMED_OUT:
                raise IperfError(204, "timed out waiting for %d of %d streams" % (
                    len(test.ids) - len(test.streams), len(test.ids)))

    def _send_state(self, state):
        yield from write_all(self._control, encode_state(state),
                             time.monotonic() + STEP_TIMEOUT, 111)

    def _read_state(self):
        """Read a state byte of the client: TEST_END, or the end of the test (raised)."""
        def fail(cause, _):
            if cause is None or isinstance(cause, ConnectionError):
                return IperfError(109)
            return IperfError(112, cause)
        data = yield from read_exactly(self._control, 1, time.monotonic() + STEP_TIMEOUT, fail)
        state, = struct.unpack("!b", data)
        if state == TEST_END and self._test.started:
            return
        if state == CLIENT_TERMINATE:
            raise IperfError(119)
        if state == IPERF_DONE:
            raise Quit()
        raise IperfError(110)

    def _measure(self):
        test, parameters = self._test, self._parameters
        yield from self._send_state(TEST_START)
        test.start_clock()
        yield from self._send_state(TEST_RUNNING)
        test.open_gate()
        watchdog = None
        if parameters.time:
            watchdog = time.monotonic() + parameters.omit + parameters.time + WATCHDOG_GRACE
        while True:
            test.advance(time.monotonic())
            reason = yield Wait(self._control, READ, test.deadline())
            now = time.monotonic()
            if reason == READY:
                yield from self._read_state()
                break
            test.check_health(now)
            if watchdog and now > watchdog:
                raise IperfError(160, "test is terminated by the server")
        yield from test.stop(now)
        test.emit_last_interval()
        self._emit("end", test.summary(), remote=False)

    def _exchange_results(self):
        test, sock = self._test, self._control
        yield from self._send_state(EXCHANGE_RESULTS)
        deadline = time.monotonic() + STEP_TIMEOUT
        document = yield from read_frame(sock, deadline, MAX_RESULTS, 117)
        test.remote = results_from_json(document, test.ids)
        output = None
        if self._parameters.get_server_output:
            if self._scribe is not None:
                output = ("server_output_text", "".join(line + "\n" for line in self._output))
            else:
                output = ("server_output_json", self._document.members())
        data = encode_frame(results_to_json(test.results(output)))
        yield from write_all(sock, data, time.monotonic() + REPLY_TIMEOUT, 116)
        yield from self._send_state(DISPLAY_RESULTS)

    def _finish(self):
        deadline = time.monotonic() + STEP_TIMEOUT
        try:
            yield from read_exactly(self._control, 1, deadline,
                                    lambda cause, _: IperfError(108, cause))
        except IperfError:
            pass  # 3.2 and 3.3 close here; the test is complete in any case
        yield from self._test.settle()
        self._test.close()
        self._done(True)

    def _done(self, ok):
        """Report the end of the test, and let the next client in while this one closes."""
        parameters = self._parameters
        self._emit("done", None, ok=ok, title=parameters.title if parameters else None,
                   extra_data=parameters.extra_data if parameters else None)
        self._server.complete(self)

    def _fail(self, error):
        """Report why the test is over; returns the last bytes for the client."""
        test = self._test
        interrupted, quiet = isinstance(error, Interrupted), isinstance(error, Quit)
        if interrupted:
            last_words = encode_state(SERVER_TERMINATE)
        else:
            last_words = b"" if quiet else encode_error(error)
        reported = test is not None and test.finished  # the summary went out before it failed
        summary = {}
        if test is not None and test.started and not reported:
            test.finish(time.monotonic())
            test.emit_last_interval()
            if interrupted or error.number == 119:
                summary = test.summary()
        if not quiet:
            text = server_error_text(error)
            self._emit("error", text, line=text)
        if not reported:
            self._emit("end", summary, remote=False)
        if test is not None:
            test.close()
        self._done(False)
        return last_words


class Quit(IperfError):
    """The client said good-bye in the middle of a test."""

    def __init__(self):
        IperfError.__init__(self, 0)


###############################################################################
# renderers ###################################################################
###############################################################################
# Events to lines. Nothing is computed here but layout, and nothing is laid out
# elsewhere. A renderer's render(event) returns the lines to print, without the
# ends of lines; blanks at the end of a line are iperf3's.

_SEPARATOR = " ".join("-" * 25)
_RULE = "-" * 59

_UNTITLED = "Control connection MSS "

_PLAIN, _RETR, _RETR_CWND = "", "         Retr", "         Retr  Cwnd"


def error_lines(event):
    """Return what an error or warning event puts on standard error in text mode."""
    if event["event"] == "warning":
        return ["warning: %s" % event["data"]]
    return ("iperf3: %s" % event["line"]).split("\n")


class TextRenderer:
    """Text as iperf3 prints it."""

    def __init__(self, verbose=False, letter=None, title=None):
        """letter: of -f, None for adaptive; title: of -T."""
        self._verbose = verbose
        self._letter = letter or "a"
        self._title = title
        self._control_mss = 0
        self._forget()

    def _forget(self):
        self._start = {}
        self._header_done = self._any_interval = False
        self._server_output = None

    def render(self, event):
        method = getattr(self, "_on_" + event["event"], None)
        lines = method(event) if method else []
        if self._title is not None:
            # iperf3: the line about the control connection goes past the title.
            lines = [line if line.startswith(_UNTITLED) else "%s:  %s" % (self._title, line)
                     for line in lines]
        return lines

    # Moments

    def _on_version(self, event):
        self._forget()
        data = event["data"]
        return [data["version"], data["system_info"]] if self._verbose else []

    def _on_listening(self, event):
        data = event["data"]
        return [_RULE, "Server listening on %d (test #%d)" % (data["port"], data["test"]), _RULE]

    def _on_connecting(self, event):
        data, lines = event["data"], []
        place = data["connecting_to"]
        if self._verbose:
            lines.append(_UNTITLED + "%d" % event["control_mss"])
            lines.append("Time: %s" % data["timestamp"]["time"])
        lines.append("Connecting to host %s, port %d" % (place["host"], place["port"]))
        if event.get("reverse"):
            lines.append("Reverse mode, remote host %s is sending" % place["host"])
        return lines + self._facts(data)

    def _on_accepted(self, event):
        data, lines = event["data"], []
        if self._verbose:
            lines.append("Time: %s" % data["timestamp"]["time"])
        place = data["accepted_connection"]
        lines.append("Accepted connection from %s, port %d" % (place["host"], place["port"]))
        return lines + self._facts(data)

    def _facts(self, data):
        if not self._verbose:
            return []
        lines = ["      Cookie: %s" % data["cookie"]]
        if "tcp_mss" in data:
            lines.append("      TCP MSS: %d" % data["tcp_mss"])
        elif "tcp_mss_default" in data:
            lines.append("      TCP MSS: %d (default)" % data["tcp_mss_default"])
        if data["target_bitrate"]:
            lines.append("      Target Bitrate: %d" % data["target_bitrate"])
        return lines

    def _on_connected(self, event):
        return ["[%(socket)3d] local %(local_host)s port %(local_port)d connected to"
                " %(remote_host)s port %(remote_port)d" % event["data"]]

    def _on_start(self, event):
        self._start = event["data"]
        if not self._verbose:
            return []
        what = self._start["test_start"]
        if what["bytes"]:
            length = "%d bytes to send" % what["bytes"]
        elif what["blocks"]:
            length = "%d blocks to send" % what["blocks"]
        else:
            length = "%d second test" % what["duration"]
        return ["Starting Test: protocol: %s, %d streams, %d byte blocks, omitting %d seconds,"
                " %s, tos %d" % (what["protocol"], what["num_streams"], what["blksize"],
                                 what["omit"], length, what["tos"])]

    def _on_measuring(self, event):
        if self._verbose and not self._start["test_start"]["interval"]:
            return ["Finished omit period, starting real test"]
        return []

    def _on_server_output_text(self, event):
        self._server_output = "\nServer output:\n%s" % printable(event["data"])
        return []

    def _on_server_output_json(self, event):
        self._server_output = "\nServer JSON output:\n%s" % encode_json(event["data"], 0)
        return []

    def _on_done(self, event):
        if event["ok"] and not event.get("server"):
            return ["", "iperf Done."]
        return []

    # Rows

    def _bidir(self):
        return bool(self._start.get("test_start", {}).get("bidir"))

    def _parallel(self):
        return self._start.get("test_start", {}).get("num_streams", 1)

    def _header(self, columns):
        return "[ ID]%s Interval           Transfer     Bitrate%s" % (
            "[Role]" if self._bidir() else "", columns)

    def _row(self, figures, server, retransmits=None, tail=""):
        """Return a row up to its end. retransmits: the count to print, if any."""
        number = figures.get("socket")
        role = ""
        if self._bidir():
            role = "[%sX-%s]" % ("T" if figures["sender"] else "R", "S" if server else "C")
        rate = figures["bits_per_second"] / 8.0
        row = "[%s]%s %6.2f-%-6.2f sec  %ss  %ss/sec" % (
            "SUM" if number is None else "%3d" % number, role, figures["start"], figures["end"],
            format_units(figures["bytes"], "A"), format_units(rate, self._letter))
        if retransmits is None:
            return row + " " * 18 + tail
        return "%s  %3d" % (row, retransmits) + tail

    def _interval_row(self, figures, server):
        end = "(omitted)" if figures["omitted"] else ""
        count = figures.get("retransmits")
        if count is None:
            return self._row(figures, server, None, end)
        if "snd_cwnd" not in figures:
            return self._row(figures, server, count, " " * 13 + end)
        return self._row(figures, server, count, "   %ss       %s" % (
            format_units(figures["snd_cwnd"], "A"), end))

    def _on_interval(self, event):
        data, server = event["data"], event.get("server")
        lines = []
        if self._any_interval and self._parallel() > 1:
            lines.append(_SEPARATOR)
        if not self._header_done:
            self._header_done = True
            counted = any("retransmits" in row for row in data["streams"])
            # iperf3: a -R client whose first report is its last knows of the server's count.
            late = event.get("remote_retransmits") and not server
            lines.append(self._header(_RETR_CWND if counted or late else _PLAIN))
        self._any_interval = True
        half = self._parallel() if self._bidir() else len(data["streams"])
        for rows, key in ((data["streams"][:half], "sum"),
                          (data["streams"][half:], "sum_bidir_reverse")):
            lines += [self._interval_row(row, server) for row in rows]
            if rows and self._parallel() > 1:
                lines.append(self._interval_row(data[key], server))
        return lines

    def _on_end(self, event):
        data, server = event["data"], event.get("server")
        if not data:
            return []
        lines = [_SEPARATOR]
        if self._verbose:
            lines.append("Test Complete. Summary Results:")
        counted = any("retransmits" in data[name] for name in data
                      if name.startswith("sum_sent"))
        lines.append(self._header(_RETR if counted else _PLAIN))
        half = self._parallel() if self._bidir() else len(data["streams"])
        for rows, suffix in ((data["streams"][:half], ""),
                             (data["streams"][half:], "_bidir_reverse")):
            if not rows:
                continue
            for row in rows:
                lines += self._summary_rows(row["sender"], row["receiver"], server, 12,
                                            row.get("diskfile"))
            if self._parallel() > 1:
                lines += self._summary_rows(data["sum_sent" + suffix],
                                            data["sum_received" + suffix], server, 13)
            if self._verbose:
                lines += self._verbose_summary(data, rows[0]["sender"]["sender"], suffix)
            if self._server_output:
                lines.append(self._server_output)
                self._server_output = None
        return lines

    def _summary_rows(self, sent, received, server, blanks, diskfile=None):
        sender = sent["sender"]
        number = sent.get("socket")
        name = "[SUM]" if number is None else "[%3d]" % number
        lines = []
        if sender or not server:
            lines.append(self._row(sent, server, sent.get("retransmits"),
                                   ("" if "retransmits" not in sent else " " * blanks) + "sender"))
        elif self._verbose:
            lines.append("%s (sender statistics not available)" % name)
        if diskfile:
            amount, percent = ((diskfile["sent"], diskfile["percent_sent"]) if sender else
                               (diskfile["received"], diskfile["percent_received"]))
            lines.append("        Sent %s / %s (%d%%) of %s" % (
                format_units(amount, "A"), format_units(diskfile["size"], "A"), percent,
                diskfile["filename"]))
        if not sender or not server:
            lines.append(self._row(received, server, None, "receiver"))
        elif self._verbose:
            lines.append("%s (receiver statistics not available)" % name)
        return lines

    def _verbose_summary(self, data, sender, suffix):
        lines = []
        if sender:
            cpu = data["cpu_utilization_percent"]
            ends = [("sender", "receiver")] + ([("receiver", "sender")] if self._bidir() else [])
            lines += ["CPU Utilization: local/%s %.1f%% (%.1f%%u/%.1f%%s), remote/%s %.1f%%"
                      " (%.1f%%u/%.1f%%s)" % (
                          local, cpu["host_total"], cpu["host_user"], cpu["host_system"],
                          remote, cpu["remote_total"], cpu["remote_user"], cpu["remote_system"])
                      for local, remote in ends]
        names = [data.get("sender_tcp_congestion"), data.get("receiver_tcp_congestion")]
        if self._bidir() and not suffix:
            names.reverse()  # the end object names those of the second direction
        return lines + ["%s_tcp_congestion %s" % pair
                        for pair in zip(("snd", "rcv"), names) if pair[1]]


def printable(text):
    """Return a peer's text without the control characters that could steer a terminal."""
    return "".join(letter for letter in text if letter in "\n\t" or ord(letter) >= 32
                   and not 127 <= ord(letter) < 160)


class JsonRenderer:
    """One document per test, as `-J` prints it."""

    def __init__(self):
        self._facts = None
        self._documents = {}  # of the tests under way, by number

    def render(self, event):
        if event["event"] == "version":
            self._facts = event["data"]
            return []
        number = event.get("test")
        if number not in self._documents:
            self._documents[number] = Document(self._facts)
        self._documents[number].add(event)
        if event["event"] != "done":
            return []
        return [encode_json(self._documents.pop(number).members(), 0)]


class JsonStreamRenderer:
    """One event per line, as `--json-stream` prints them."""

    _EVENTS = ("start", "interval", "end", "error", "server_output_text", "server_output_json")

    def __init__(self, full=False):
        """full: print the whole document behind the end event."""
        self._whole = JsonRenderer() if full else None
        self._ends = {}

    def render(self, event):
        lines = []
        name, data = event["event"], event["data"]
        if name == "end":
            self._ends[event.get("test")] = data  # it is always the last
        elif name == "done":
            data = self._ends.pop(event.get("test"), {})
            lines.append(encode_json({"event": "end", "data": data}))
        elif name in self._EVENTS:
            lines.append(encode_json({"event": name, "data": event.get("first", data)}))
        if self._whole:
            lines += self._whole.render(event)
        return lines


###############################################################################
# command line ################################################################
###############################################################################
# main(): the only place that prints, handles signals, and ends the program.

class Output:
    """Standard output, flushed line by line, that may break."""

    def __init__(self):
        self._stream = sys.stdout
        self.error = None  # the OSError that broke it

    def write(self, lines):
        """Write lines. After a failure nothing is written any more."""
        if not lines or self.error is not None or self._stream is None:
            return
        text = "".join(line + "\n" for line in lines)
        try:
            binary = getattr(self._stream, "buffer", None)
            if binary is not None:
                binary.write(to_bytes(text))
                binary.flush()
            else:
                self._stream.write(text)
                self._stream.flush()
        except OSError as error:
            self.error = error
            self._discard()
        except ValueError:  # closed
            self._stream = None

    def _discard(self):
        """Keep the interpreter from complaining about the broken stream when it ends."""
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)
        except (OSError, ValueError, AttributeError):
            pass

    def status(self):
        """Return the exit status that a broken output calls for, None if it is whole."""
        if self.error is None or isinstance(self.error, BrokenPipeError):
            return None if self.error is None else 0
        complain("iperf3: error - unable to write to standard output: %s" % self.error.strerror)
        return 1


def occupy_standard_descriptors():
    """Put something harmless where standard streams are closed, lest a socket takes their place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def complain(text):
    """Write a line to standard error, if there is one."""
    try:
        stream = getattr(sys.stderr, "buffer", None)
        if stream is not None:
            stream.write(to_bytes(text + "\n"))
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


def make_renderer(settings):
    """Return the renderer that the settings ask for."""
    if settings.json_stream:
        return JsonStreamRenderer(settings.json_stream_full_output)
    if settings.json:
        return JsonRenderer()
    return TextRenderer(settings.verbose, settings.format, settings.title)


class Signals:
    """Turn SIGINT, SIGTERM and SIGHUP into stop() of a driver, while it runs."""

    _NAMES = (("SIGINT", "Interrupt"), ("SIGTERM", "Terminated"), ("SIGHUP", "Hangup"))

    def __init__(self, driver):
        self._driver = driver
        self._before = []

    def __enter__(self):
        for name, text in self._NAMES:
            number = getattr(signal, name, None)
            if number is None:
                continue
            # differs: nohup keeps its meaning.
            if name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN:
                continue
            reason = "by signal %s(%d)" % (text, number)

            def handle(number, frame, reason=reason):
                self._driver.stop(reason)
            self._before.append((number, signal.signal(number, handle)))
        return self

    def __exit__(self, *details):
        for number, handler in self._before:
            signal.signal(number, handler)


def run_driver(driver, settings, output):
    """Run a client or server, print its events. Returns the exit status."""
    renderer = make_renderer(settings)
    text = not (settings.json or settings.json_stream)
    complaints = []  # of the test, which come after its summary
    with Signals(driver):
        for event in driver:
            if event["event"] == "warning":
                complain("\n".join(error_lines(event)))
            elif event["event"] == "error" and text and output.error is None:
                complaints += error_lines(event)
            output.write(renderer.render(event))
            if event["event"] == "done" and complaints:
                complain("\n".join(complaints))
                complaints = []
            if output.error is not None and not event.get("server"):
                driver.stop("with its output closed")
    if isinstance(driver.error, IperfError):
        return 1
    return 0


def run_server(settings, output):
    server = Server(settings, transcribe=lambda: TextRenderer(settings.verbose, settings.format))
    status = run_driver(server, settings, output)
    if status and not (settings.json or settings.json_stream):
        complain("iperf3: exiting")
    return status


def run_loopback(settings, output):
    """Run --loopback: a one-off server in a process of its own, and the client against it."""
    host = "::1" if settings.version6 else "127.0.0.1"
    family = socket.AF_INET6 if settings.version6 else socket.AF_INET
    try:
        listener = open_listener(host, 0, family)
    except IperfError as error:
        complain("iperf3: error - %s" % error)
        return 1
    settings.client, settings.port = host, listener.getsockname()[1]
    server_settings = Settings(server=True, one_off=True, threads=settings.threads,
                               interval=settings.interval, verbose=settings.verbose,
                               json=settings.json, json_stream=settings.json_stream)

    def make_server():
        return Server(server_settings, listener=listener,
                      transcribe=lambda: TextRenderer(settings.verbose, settings.format))
    end_server = start_helper(make_server, listener)
    try:
        return run_driver(Client(settings), settings, output)
    finally:
        end_server()


def start_helper(make_server, listener):
    """Run a server beside this program; returns a function that ends it.

    In a process where the system can fork, which also ends when this program does, however
    it ends; else in a thread.
    """
    if not can_fork():
        import threading
        server = make_server()
        thread = threading.Thread(target=collections.deque, args=(server, 0), daemon=True)
        thread.start()

        def end_thread():
            server.stop()
            thread.join(2.0)
        return end_thread
    lifeline = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
            close_descriptors((2, lifeline[0], listener.fileno()))
            server = make_server()
            server.watch(lifeline[0])
            collections.deque(server, 0)
        finally:
            os._exit(0)
    os.close(lifeline[0])
    listener.close()

    def end_process():
        os.close(lifeline[1])  # the end of file stops the server
        deadline = time.monotonic() + 2.0
        try:
            while os.waitpid(child, os.WNOHANG)[0] == 0:
                if time.monotonic() > deadline:
                    os.kill(child, signal.SIGKILL)
                time.sleep(0.001)
        except OSError:
            pass
    return end_process


def feature_text():
    """Return the third line of --version: what works on this host."""
    features = [
        ("TCP congestion algorithm setting", _TCP_CONGESTION is not None),
        ("sendfile / zerocopy", CAN_SEND_FILES),
        ("bind to device", _SO_BINDTODEVICE is not None),
        ("processes" if can_fork() else "threads", True),
    ]
    return "Optional features available: " + ", ".join(
        name for name, present in features if present)


def main(argv=None):
    """Run the command line; argv is sys.argv unless given. Returns the exit status."""
    argv = sys.argv if argv is None else argv
    program = argv[0] if argv and argv[0] not in ("", "-", "-c") else "iperf3"
    usage = ("\nUsage: iperf3 [-s|-c host] [options]\n"
             "Try `iperf3 --help' for more information.")
    occupy_standard_descriptors()
    output = Output()
    try:
        settings = Settings.from_arguments(argv[1:], "POSIXLY_CORRECT" in os.environ)
    except UsageError as error:
        complain("%s: %s\n%s" % (program, error, usage))
        return 1
    except IperfError as error:
        complain("iperf3: parameter error - %s\n%s" % (error, usage))
        return 1
    if settings.help or settings.version:
        if settings.help:
            output.write([help_text(program)])
        else:
            output.write([VERSION_TEXT, system_info(), feature_text()])
        return output.status() or 0
    for text in settings.warnings():
        complain("warning: %s" % text)
    try:
        if settings.loopback:
            status = run_loopback(settings, output)
        elif settings.server:
            status = run_server(settings, output)
        else:
            status = run_driver(Client(settings), settings, output)
    except IperfError as error:
        complain("iperf3: error - %s" % error)
        return 1
    except OSError as error:
        complain("iperf3: error - unable to create a new test: %s" % (error.strerror or error))
        return 1
    broken = output.status()
    return status if broken is None else broken


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # before the handler was there, or after
        sys.exit(0)
