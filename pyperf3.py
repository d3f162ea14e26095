#!/usr/bin/env python3
"""pyperf3 - iperf3, client and server, in one Python file with no dependencies.

Run it:

    python3 pyperf3.py --loopback         one command, no second host
    python3 pyperf3.py -c HOST --diagnose what is wrong with the path to a server
    python3 pyperf3.py -s                 a server; any iperf3 client may use it
    python3 pyperf3.py -c HOST            a client; any iperf3 server will do
    python3 pyperf3.py --ssh HOST         a client that brings its server along

How it works. A test has a control connection, over which the two ends agree on
the parameters, start, stop and exchange their results, and one data connection
per stream. The *control plane* is one loop over a selector; what it does reads
as plain sequences, since each conversation is a generator that yields what it
waits for. The *data plane* runs each stream's loop and nothing else, blocked in
system calls, in a worker: a forked process where the host can fork and the
program has no other threads, else a thread. Many TCP streams share a few
processes, each in a thread there. The loops count in a shared memory map; the
control plane reads the counters at each tick. A running test produces *events*,
each a dict that holds the piece of iperf3's JSON document it stands for; text
and JSON are functions from events to lines.

As a module: `for event in Client(Settings(client="HOST")): ...`, or
`Client(settings).run()`, which returns the document. The module prints nothing,
handles no signals and never exits; that is main()'s part.

Sections (each uses only what stands above it):

    constants       numbers of the protocol and limits
    errors          IperfError and iperf3's numbered texts
    units           sizes and rates, read and printed
    options         the table of options, and how arguments are read
    settings        what goes together, and Settings
    wire            bytes to values and back, without sockets
    system          processes, memory, CPU time, descriptors, files
    sockets         socket options, listeners
    facts           what the system tells of a connection, and of this host
    datagrams       UDP's hellos, headers and batches
    authentication  RSA, users, and whom a server lets in
    tls             TLS sockets, contexts and certificates
    quic            QUIC sockets, by an optional library
    statistics      counters to figures
    latency         round trips to figures, and a grade
    diagnosis       what the figures mean
    checks          the figures held against limits that were asked for
    tasks           generators that wait, and the loop that runs them
    events          what a test tells, and the document made of it
    workers         the data plane: processes or threads, and the numbers they share
    streams         what workers have for a stream: its connection, its numbers, how it ends
    transfers       what they do with it: senders and receivers
    probes          datagrams that measure the path, and the workers for them
    arrivals        where a server's test gets its streams from
    transports      what depends on the protocol of a test
    path mtu        how large a packet may be, found before there are streams
    running         what a running test is asked: what is due, is it through, what limits it
    test            what both ends share: streams, intervals, results
    ssh             this program on hosts that ssh reaches, without a file there
    client          the client's side of the protocol
    survey          a client's tests in each direction, and what they come to
    mesh            tests between hosts that ssh reaches, and what they come to
    admission       what a server's tests share: listener, places, turns, calls
    server          the server's side of the protocol
    renderers       events to text, JSON and JSON stream
    csv             events to rows of figures
    metrics         documents to Prometheus' text format
    plot            text with bars, and lines of figures over time
    charts          figures over time as SVG, and text as XML
    panels          what a document tells over time, as charts
    report          a document as a page
    attributes      clients and servers with the names of the package `iperf3`
    output          where lines go: standard streams, log file, terminal
    far ends        what a client brings along: a server beside it, this program elsewhere
    command line    main()
"""

import sys

if sys.version_info < (3, 6):
    # Older ones cannot read the next line, and show it; MicroPython can, and hides sys.exit()'s.
    print(f"pyperf3 needs Python 3.6 or newer: run it with python3 (this is {sys.version[:5]})",
          file=sys.stderr)
    sys.exit(1)

if __name__ == "__main__":  # from here on an interrupt ends this program without a traceback
    import _signal  # what `signal` is made of, without the time that it takes to import it
    if _signal.getsignal(_signal.SIGINT) == _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import collections
import os

try:
    import array
    import base64
    import errno
    import functools
    import gc
    import itertools
    import select
    import selectors
    import signal
    import socket
    import stat
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
__all__ = ["Client", "HostToHost", "IPerf3", "IperfError", "Mesh", "Server", "Settings", "Survey",
           "TestResult", "main"]


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
FACTS = 80  # ours: a server's facts follow, for a client that asked for them

STATE_NAMES = {
    TEST_START: "TEST_START - starting a new test",
    TEST_RUNNING: "TEST_RUNNING",
    TEST_END: "TEST_END",
    PARAM_EXCHANGE: "PARAM_EXCHANGE - Client to Server Parameters Exchange",
    CREATE_STREAMS: "CREATE_STREAMS",
    SERVER_TERMINATE: "SERVER_TERMINATE",
    CLIENT_TERMINATE: "CLIENT_TERMINATE",
    EXCHANGE_RESULTS: "EXCHANGE_RESULTS",
    DISPLAY_RESULTS: "DISPLAY_RESULTS",
    IPERF_DONE: "IPERF_DONE",
    ACCESS_DENIED: "ACCESS_DENIED - Server is busy",
    SERVER_ERROR: "SERVER_ERROR",
    FACTS: "FACTS - Server tells of its host",
}

COOKIE_SIZE = 37  # 36 characters and a zero byte
COOKIE_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
TOKEN_SIZE = 20  # letters that a cookie begins with for a server that admits nobody else

DEFAULT_PORT = 5201
DEFAULT_TIME = 10  # seconds
DEFAULT_TCP_BLOCK = 128 * 1024  # bytes
DEFAULT_SCTP_BLOCK = 64 * 1024  # bytes
DEFAULT_UDP_BLOCK = 1460  # bytes, where the control connection's MSS tells nothing
DEFAULT_UDP_RATE = 1024 * 1024  # bit/s
UDP_RECEIVE_BUFFER = 8 * 1024 * 1024  # bytes, of all streams of an end
MAX_PACKET = 65535  # bytes, of IPv4
MIN_UDP_BLOCK, MAX_UDP_BLOCK = 16, 65507  # bytes; of the header, of a datagram over IPv4
MAX_BLOCK = 1024 * 1024  # bytes
MAX_WINDOW = 512 * 1024 * 1024  # bytes
MAX_MSS = 32767  # bytes
MAX_TIME = 86400  # seconds
MAX_OMIT = 600  # seconds
MAX_STREAMS = 128  # per direction
MAX_BURST = 1000  # blocks
MAX_SEGMENTS = 128  # datagrams that iperf3 hands to the kernel in one piece (--gsro)
MAX_FLOW_LABEL = 2 ** 20 - 1  # RFC 6437
MIN_INTERVAL, MAX_INTERVAL = 0.1, 60.0  # seconds
DEFAULT_LIMIT_INTERVAL = 5.0  # seconds of --server-bitrate-limit's average
MAX_CPU = 1024  # number of a CPU
MAX_INT = 2 ** 31 - 1  # of C's int

MAX_PARAMETERS = 8192  # bytes of JSON; iperf3 since 3.18
MAX_FACTS = 8192  # bytes of JSON that a server tells of its host
MAX_DISCARDED = 1024 * 1024  # bytes that a peer may still send when its connection is closed
MAX_DEPTH = 100  # levels of JSON; a server's document has six
MAX_OUTPUT = 64 * 1024 * 1024  # bytes of JSON of a server's output; iperf3 has no limit
KEPT_OUTPUT = 16 * 1024 * 1024  # letters of intervals that a server keeps for its clients
KEPT_DOCUMENTS = 256 * 1024 * 1024  # and for its own documents (-J)
ROOM_FACTOR = 4  # bytes that a document may take in memory for each that its text may have

# Deadlines in seconds. iperf3 waits for ever in most of these places.
STEP_TIMEOUT = 10.0  # a server's wait for each piece of the set-up
REPLY_TIMEOUT = 30.0  # a client's wait for a connection, and for each answer of the server
HELLO_TIMEOUT = 8.0  # a client's wait for the answer to a UDP stream's first datagram
HELLO_INTERVAL = 0.25  # after which it is sent again
CONNECT_DELAY = 0.25  # of silence, after which a name's next address is tried, too (RFC 8305)
REOPEN_TIME = 0.3  # after its beginning, in which a connection may meet a listener in between
REOPEN_DELAY = 0.05  # before that is tried again
RETRY_DELAY, LONGEST_RETRY_DELAY = 0.1, 2.0  # before the tries of --wait: it doubles each time
REPEAT_WAITS = 60.0, 600.0  # at least and at most, for a busy server, of each test of --repeat
REPEAT_PAUSE = 1.0  # before the next one of them, if one has failed
LAST_TRY = 1.0  # that the last of them may take, which begins when the time is up
FILE_TIMEOUT = 10.0  # for the rest of a file (-F) to arrive
CLOSING_TIMEOUT = 2.0  # for the other side's end of file; iperf3 waits 10
DATA_TIMEOUT = 120.0  # without received data, as iperf3's --rcv-timeout
WATCHDOG_GRACE = 40.0  # a server ends a test this long after its time, as iperf3
SILENCE_TIMEOUT = 7.0  # without a sign of life, after which a test gives way to a new client
TURN_TIMEOUT = 2.0  # for the next stream of a UDP set-up while another of this address waits
TURN_PATIENCE = 20.0  # for others of its address, after which a client is to have its turn
LONGEST_WAIT = 25.0  # after which it is refused: clients wait for REPLY_TIMEOUT
SETUP_TIMEOUT = 60.0  # for all streams of a test, after which it does, too
MAX_PENDING = 256  # connections whose test has not begun
MAX_REJECTIONS = 10  # lines a second about connections that are no test's
MAX_CALLS = 4  # of threads that use a key, say, at a time
MAX_TOKEN = 2048  # bytes; of a key of 16384 bits
MAX_CLIENTS = 1000  # of --max-clients
STDOUT = "-"  # of --csv, where no file is named
MAX_INITIAL_WINDOW = 10000  # packets, of --quic-iw
MAX_PROBE_CLASSES = 2  # of --probe-dscp
MAX_PROBE_RATE = 1000  # probes a second of a test, which a server answers
MIN_PROBE, MAX_PROBE = 64, 1472  # bytes of payload, of --probe-size
QUIC_WINDOW = 32 * 1024 * 1024  # bytes under way that a receiver of QUIC allows, without -w
QUIC_TIMEOUT = 8.0  # seconds for the handshake of a QUIC connection
OUTAGE_TIMEOUT = 10.0  # seconds for which no datagram of a test can be sent, after which it ends
PROBING_TIME = 4.0  # for a client's probes before its streams, which a server waits more
OVERTIME = 1.0  # seconds after its time, after which a server sends no more datagrams


###############################################################################
# errors ######################################################################
###############################################################################
# One exception for everything that can go wrong in a test. Its number is
# iperf3's own: a server sends it to its client. And what clears up after errors.

# By number. Behind a colon stands the system's text for errno.
ERRORS = {
    0: "no error",
    1: "cannot be both server and client",
    2: "must either be a client (-c) or server (-s)",
    3: "some option you are trying to set is server only",
    4: "some option you are trying to set is client only",
    5: "test duration valid values are 0 to %d seconds" % MAX_TIME,
    6: "invalid number of parallel streams (min = 1, max = %d)" % MAX_STREAMS,
    7: "block size too large (maximum = %d bytes)" % MAX_BLOCK,
    8: "socket buffer size too large (maximum = %d bytes)" % MAX_WINDOW,
    9: "invalid report interval (min = %g, max = %g seconds)" % (MIN_INTERVAL, MAX_INTERVAL),
    10: "TCP MSS too large (maximum = %d bytes)" % MAX_MSS,
    11: "this OS does not support sendfile",
    12: "bogus value for --omit (maximum = %d seconds)" % MAX_OMIT,
    13: "an option you are trying to set is not implemented yet",
    14: "unable to open -F file:",
    15: "invalid burst count (maximum = %d)" % MAX_BURST,
    16: "only one test end condition (-t, -n, -k) may be specified",
    17: "unable to open log file:",
    18: "no SCTP support available",
    20: "block size invalid (minimum = %d bytes, maximum = %d bytes)"
        % (MIN_UDP_BLOCK, MAX_UDP_BLOCK),
    21: "bad TOS value (must be between 0 and 255 inclusive)",
    22: "you must specify a username, password, and path to a valid RSA public key",
    23: "you must specify a path to a valid RSA private key and a user credential file",
    24: "bad format specifier (valid formats are in the set [kmgtKMGT])",
    25: "cannot be both reverse and bidirectional",
    26: "port number must be between 1 and 65535 inclusive",
    27: "total required bandwidth is larger than server limit",
    28: "invalid time interval for calculating average data rate",
    29: "skew threshold must be a positive number",
    30: "idle timeout parameter is not positive or larger than allowed limit",
    31: "receive timeout value is incorrect or not in range:",
    32: "client receive timeout is valid only in receiving mode:",
    33: "send timeout value is incorrect or not in range:",
    34: "cannot transfer file using UDP",
    35: "cannot access authorized users file",
    36: "control connection Keepalive period should be larger than the full retry period (interval"
        " * count):",
    37: "client's requested duration exceeds the server's maximum permitted limit",
    38: "invalid unit value or suffix",
    39: "this OS does not support --skip-rx-copy",
    40: "bad DSCP value (numeric: 0-63 inclusive, symbolic: one of [af11-13, af21-23, af31-33,"
        " af41-43, cs1-7, ef, va, lowdelay, throughput, reliability])",
    100: "unable to create a new test:",
    101: "test initialization failed:",
    102: "unable to start listener for connections:",
    103: "unable to connect to server - server may have stopped running or use a different port,"
         " firewall issue, etc.:",
    104: "unable to accept connection from client:",
    105: "unable to send cookie to server:",
    106: "unable to receive cookie at server:",
    107: "unable to write to the control socket:",
    108: "unable to read from the control socket:",
    109: "control socket has closed unexpectedly",
    110: "received an unknown control message (ensure other side is iperf3 and not iperf)",
    111: "unable to send control message - port may not be available, the other side may have"
         " stopped running, etc.:",
    112: "unable to receive control message - port may not be available, the other side may have"
         " stopped running, etc.:",
    113: "unable to send parameters to server:",
    114: "unable to receive parameters from client:",
    115: "unable to package results:",
    116: "unable to send results:",
    117: "unable to receive results:",
    118: "select failed:",
    119: "the client has terminated",
    120: "the server has terminated",
    121: "the server is busy running a test. try again later",
    122: "unable to set TCP/SCTP NODELAY:",
    123: "unable to set TCP/SCTP MSS:",
    124: "unable to set socket buffer size:",
    125: "unable to set IP TOS:",
    126: "unable to set IPv6 traffic class:",
    127: "unable to set IPv6 flow label",
    128: "unable to reuse address on socket:",
    129: "unable to set socket to non-blocking:",
    130: "unable to set socket window size:",
    131: "protocol does not exist",
    132: "unable to set CPU affinity:",
    133: "unable to become a daemon:",
    134: "unable to set TCP_CONGESTION: Supplied congestion control algorithm not supported on this"
         " host",
    135: "unable to write PID file:",
    136: "Unable to set/reset IPV6_V6ONLY:",
    137: "unable to set SCTP_DISABLE_FRAGMENTS:",
    138: "unable to set SCTP_INIT num of SCTP streams",
    140: "unable to set socket pacing:",
    141: "socket buffer size not set correctly",
    142: "test authorization failed",
    143: "Unable to bind-to-device (check perror, maybe permissions?)",
    144: "idle timeout for receiving data",
    145: "unable to set IP Do-Not-Fragment flag",
    146: "`<ip>%<dev>` is not supported as system does not support bind to device",
    147: "host device name (ip%<dev>) is supported (and required) only for IPv6 link-local address",
    148: "unable to set TCP USER_TIMEOUT:",
    150: "unable to create thread:",
    151: "unable to cancel thread:",
    152: "unable to join thread:",
    153: "unable to create thread attributes:",
    154: "unable to destroy thread attributes",
    155: "unable to set socket keepalive (SO_KEEPALIVE) option:",
    156: "unable to set socket keepalive TCP period (TCP_KEEPIDLE) option:",
    157: "unable to set/get socket keepalive TCP retry interval (TCP_KEEPINTVL) option:",
    158: "unable to set/get socket keepalive TCP number of retries (TCP_KEEPCNT) option:",
    159: "unable to change mask of blocked signals",
    160: "server test duration expired:",
    200: "unable to create a new stream:",
    201: "unable to initialize stream:",
    202: "unable to start stream listener:",
    203: "unable to connect stream:",
    204: "unable to accept stream connection:",
    205: "unable to write to stream socket:",
    206: "unable to read from stream socket:",
    207: "stream socket has closed unexpectedly",
    208: "stream has an invalid id",
    300: "unable to create new timer:",
    301: "unable to update timer:",
    # Ours.
    901: "max-clients valid values are 1 to %d" % MAX_CLIENTS,
    902: "not a network, like 192.0.2.0/24 or 2001:db8::1:",
    903: "unable to set up TLS:",
    904: "--tls cannot be combined with:",
    905: "unable to set up QUIC:",
    906: "--quic cannot be combined with:",
    907: "bogus value for --quic-iw (maximum = %d)" % MAX_INITIAL_WINDOW,
    908: "the server serves clients with --tls only",
    909: "unable to run in this program:",
    910: "wait valid values are 0 to %d seconds" % MAX_TIME,
    911: "bogus value for a limit:",
    912: "probe-rate valid values are 1 to %d" % MAX_PROBE_RATE,
    913: "probe-size valid values are %d to %d" % (MIN_PROBE, MAX_PROBE),
    914: "min-rpm valid values are 1 to %d" % MAX_INT,
    915: "no more than %d of --probe-dscp can be given" % MAX_PROBE_CLASSES,
    916: "min-mtu valid values are 1 to %d bytes" % MAX_PACKET,
    917: "--connect-only cannot be combined with:",
    919: "--diagnose cannot be combined with:",
    920: "--ssh cannot be combined with:",
    921: "unable to start the far end:",
    922: "--mesh cannot be combined with:",
    923: "bogus host for --ssh or --mesh:",
    924: "--ssh-tunnel, --ssh-dial-back, --ssh-address and --ssh-python go with --ssh or --mesh",
    925: "lost the far end:",
    930: "unable to write the report:",
    931: "--csv cannot be combined with:",
    932: "unable to write CSV:",
    933: "unable to write the metrics:",
    934: "bogus value for --repeat:",
    935: "--csv-header goes with --csv",
}


_EPROTO = getattr(errno, "EPROTO", errno.EIO)
_TIMED_OUT = OSError(errno.ETIMEDOUT, "timed out")  # a deadline of ours


class IperfError(Exception):
    """Report a failure with iperf3's number and text.

    number: iperf3's error number (a key of ERRORS; others are shown as int_errno=N).
    cause: what follows the text: an OSError, or a text; None if nothing is known. Of what may
    go to a client it is an OSError, with the nearest errno: that is all that is sent of it.
    remote_errno: set if a server reported the error: its errno, 0 for none.
    remark: what readers are told besides, but not in JSON: in brackets behind the text (what
    failed, say); where it ends a line, on that line before it.
    settings: of an error in the arguments: what was read before it.
    document: the results so far, where the error ended a test (set by the driver).
    """

    def __init__(self, number, cause=None, remote_errno=None, remark=None):
        self.number = number
        self.cause = cause
        self.remote_errno = remote_errno
        self.remark = remark
        self.settings = self.document = None
        Exception.__init__(self, number, cause, remote_errno)

    @property
    def errno(self):
        """Return the system's error number behind this error, 0 if there is none."""
        return getattr(self.cause, "errno", None) or 0

    def __str__(self):
        text, detail = ERRORS.get(self.number, "int_errno=%d:" % self.number), self.reason()
        if text.endswith(":"):
            return "%s %s" % (text, detail)
        return "%s: %s" % (text, detail) if detail else text

    def reason(self):
        """Return the text of the cause, empty if there is none."""
        return system_text(self.cause) if isinstance(self.cause, OSError) else self.cause or ""


def error_text(error):
    """Return what is said of a test's IperfError."""
    text = str(error)
    # differs: iperf3 leaves the colon where nothing follows; as it does of options, and so do we.
    return text[:-2] if text.endswith(": ") else text


def with_remark(error, text=None):
    """Return what readers are told of an IperfError or Interrupted: a text, and the remark.

    text: in place of the error's own. The program's name is not yet before it: see error_line().
    """
    text = "error - " + error_text(error) if text is None else text
    if not error.remark:
        return text
    if error.remark.endswith("\n"):
        return error.remark + error_line(text)
    return "%s (%s)" % (text, error.remark)


def error_line(error):
    """Return the line of standard error about an IperfError, or of another exception or text."""
    return "iperf3: %s" % (with_remark(error) if isinstance(error, IperfError) else error)


def system_error(number):
    """Return the OSError of one of the system's error numbers."""
    # Windows' strerror() knows none of a socket's.
    text = getattr(socket, "errorTab", {}).get(number, "").rstrip(".")
    return OSError(number, text or os.strerror(number))


def system_text(error):
    """Return what an exception says, of an OSError without its number."""
    return getattr(error, "strerror", None) or str(error)


# What reading a document raises that is not as it should be: another host's may be anything.
ODD_DOCUMENT = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def as_failure(error):
    """Return an exception as what ends one test, and no more: an IperfError or Interrupted."""
    if isinstance(error, (IperfError, Interrupted)):
        return error
    if isinstance(error, MemoryError):
        error = system_error(errno.ENOMEM)
    return IperfError(100, error if isinstance(error, OSError)
                      else OSError(errno.EIO, repr(error)))


class Quit(IperfError):
    """The client said good-bye before the end of a test."""

    def __init__(self):
        IperfError.__init__(self, 0)


class Interrupted(Exception):
    """End a test from outside: a signal, or a call of stop(). `reason` is the text for users."""

    remark = None

    def __init__(self, reason):
        self.reason = reason
        Exception.__init__(self, reason)


class suppress:
    """Let these exceptions pass: contextlib's, without the time that it takes to import it."""

    def __init__(self, *classes):
        self._classes = classes

    def __enter__(self):
        pass

    def __exit__(self, kind, error, trace):
        return kind is not None and issubclass(kind, self._classes)


class on_error:
    """Call a function if the block raises: `with on_error(sock.close): ...; return sock`."""

    def __init__(self, function, *arguments):
        self._function, self._arguments = function, arguments

    def __enter__(self):
        pass

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self._function(*self._arguments)


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


def format_apart(one, other):
    """Return two numbers as texts, with four digits or as many as tell one from the other."""
    for digits in range(4, 18):
        texts = ["%.*g" % (digits, each) if each < 10 ** digits else "%.0f" % each
                 for each in (one, other)]
        if texts[0] != texts[1] or one == other:
            break
    return texts


###############################################################################
# options #####################################################################
###############################################################################
# One table of options. The parser, --help, the checks and Settings all come
# from it.

class Option:
    """One option of the command line, a row of OPTIONS.

    side: "C" (a client's), "S" (a server's) or "CS"; in a small letter: the other end may be given
    it, too.
    words: the names as typed, the short one first, and what --help shows of the argument; none
    for what only a program can set.
    read: function from the argument's text to the value (raising IperfError), str unless given;
    None for a flag, which has no argument and sets True.
    dest: the attribute of Settings, the first long name unless given.
    optional: the text that stands for an argument that was left out; None if it must be given.
    Such an argument is given as `--name=value`.
    looks_like: the pattern of such an argument that may be a word of its own (riperf3 has it so).
    cut: the name of iperf3's of which this one is the beginning; it is meant where no argument
    follows that looks like `looks_like`.
    repeated: what the option says adds up.
    ours: iperf3 has no such option.
    """

    def __init__(self, side, words, help="", read=None, default=None, dest=None, optional=None,
                 looks_like=None, cut=None, repeated=False, ours=False):
        words = words.split()
        self.names = [word for word in words if word.startswith("-")]
        self.long_names = [name[2:] for name in self.names if name.startswith("--")]
        self.metavar = words[len(self.names):]
        self.side, self.help, self.optional = side, help, optional
        self.looks_like, self.cut = looks_like, cut
        self.repeated, self.ours = repeated, ours
        self.read = str if self.metavar and not read else read
        if default is None:
            default = () if repeated else None if self.read else False
        self.default = default
        self.dest = dest or self.long_names[0].replace("-", "_")

    def head(self):
        """Return the names and the argument, as --help shows them."""
        # differs: iperf3's leaves out --bandwidth and --linux-congestion.
        return " ".join([", ".join(self.names)] + self.metavar)

    @property
    def takes_argument(self):
        return self.read is not None and self.optional is None

    def likes(self, words):
        """Return whether the first of these words looks like the argument."""
        return bool(self.looks_like and words and _number_prefix(words[0], self.looks_like))

    def take_word(self, words):
        """Take the optional argument from the words that follow, if the next one looks like it."""
        return words.popleft() if self.likes(words) else None


def _bounded(read, low, high, number):
    """Return a reader that refuses values outside low..high, and none, with error `number`."""
    def reader(text):
        value = read(text)
        if value is None or not low <= value <= high:
            raise IperfError(number)
        return value
    return reader


def _integer(text):
    return strtol(text)[0]


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


def _duration(text):
    # iperf3: its atoi makes 0 of these, which is a test without end.
    return 0 if text.strip().lower() in ("inf", "infinity") else _digits(text)


def _interval(text, number=9):
    value = atof(text)
    if value and not MIN_INTERVAL <= value <= MAX_INTERVAL:
        raise IperfError(number)
    return value


def _decimal(text):
    """Return the number that a text is, with a fraction or without, None if it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def _format_letter(text):
    if text[:1] not in tuple("kmgtKMGT"):
        raise IperfError(24)
    return text[0]


def _rate(text):
    return parse_units(text, 1000) % 2 ** 64  # iperf3: as of a size


def _bitrate(text):
    """Return (bits per second, blocks per burst) of RATE[/BURST]."""
    rate, slash, burst = text.partition("/")
    count = atoi(burst) if slash else 0
    if slash and not 1 <= count <= MAX_BURST:
        raise IperfError(15)
    return _rate(rate), count


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


def _affinity(text):
    """Return (CPU of this end, CPU of the server or None) of N[,M]."""
    here, comma, there = text.partition(",")
    cpu = _bounded(_integer, 0, MAX_CPU, 132)(here)
    return cpu, _bounded(atoi, 0, MAX_CPU, 132)(there) if comma else None


def _bitrate_limit(text):
    """Return (bits per second, seconds of the average) of RATE[/SECONDS]."""
    rate, _, seconds = text.partition("/")
    interval = _interval(seconds, 28)
    return _rate(rate), interval or DEFAULT_LIMIT_INTERVAL


def _keepalive(text):
    """Return (idle, interval, count) of [IDLE[/INTERVAL[/COUNT]]]; 0 keeps the system's."""
    pieces = [atoi(piece) for piece in text.split("/")[:3]]
    idle, interval, count = pieces + [0] * (3 - len(pieces))
    if idle and idle <= interval * count:
        raise IperfError(36)
    return idle, interval, count


def _network(text):
    import ipaddress
    try:
        network = ipaddress.ip_network(text.strip(), False)
        mapped = getattr(network.network_address, "ipv4_mapped", None)
        if mapped is not None and network.prefixlen >= 96:  # as addresses are: plain_address()
            network = ipaddress.ip_network("%s/%d" % (mapped, network.prefixlen - 96))
        return network
    except ValueError:
        raise IperfError(902, text)


def _refused_limit(text, like):
    return IperfError(911, "'%s' (it should be like %s)" % (text, like))


def _least_rate(text):
    """Return (bits per second, "up", "down" or None) of RATE[/up|/down]."""
    rate, slash, direction = text.partition("/")
    try:
        value = parse_units(rate, 1000)
    except IperfError:
        value = -1
    if value < 0 or (slash and direction not in ("up", "down")):
        raise _refused_limit(text, "900M, 900M/up or 900M/down")
    return value, direction or None


def _share(text):
    """Return the number of N%, or N."""
    value = _decimal(text[:-1] if text.endswith("%") else text)
    if value is None or not 0 <= value <= 100:
        raise _refused_limit(text, "0.1%")
    return value


def _count_or_share(text):
    """Return (number, unit) of N or N%."""
    if text.endswith("%"):
        return _share(text), "%"
    if not text.isdigit() or len(text) > 18:
        raise _refused_limit(text, "100 or 0.1%")
    return int(text), "segments"


def _milliseconds(text):
    """Return the milliseconds of a time with its unit."""
    match = _number_prefix(text, r"([0-9]*\.?[0-9]+)(us|ms|s)$")
    if not match:
        raise _refused_limit(text, "50ms, 800us or 1.5s")
    # Rounded, lest 1.001s be less than 1001 ms.
    return round(float(match.group(1)) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[match.group(2)], 9)


def _latency_limit(text):
    """Return (milliseconds, percentile) of TIME[:pNN]."""
    limit, colon, share = text.partition(":")
    match = _number_prefix(share, r"p([1-9][0-9]?|100)$") if colon else None
    if colon and not match:
        raise _refused_limit(text, "100ms or 100ms:p50")
    return _milliseconds(limit), int(match.group(1)) if match else 95


GRADES = ("A+", "A", "B", "C", "D", "F")  # there is no E


def _grade(text):
    if text.upper() not in GRADES:
        raise _refused_limit(text, "A+, A, B, C, D or F")
    return text.upper()


def _far_host(text):
    """Return a host for ssh as it is, unless ssh would take it for something else."""
    if not text.strip() or text.startswith("-") or not text.isprintable():
        raise IperfError(923, "'%s'" % text)
    return text


def _far_hosts(text):
    """Return the hosts of a list with commas."""
    hosts = tuple(_far_host(each.strip()) for each in text.split(","))
    if len(hosts) < 2 or len(set(hosts)) < len(hosts):
        raise IperfError(923, "'%s' (two or more, each once)" % text)
    return hosts


def _repeat(text):
    """Return (number of tests, seconds between the starts of two) of N[/SECONDS]."""
    count, slash, seconds = text.partition("/")
    period = _decimal(seconds) if slash else 0.0
    if not (_number_prefix(count, "[0-9]{1,9}$") and period is not None
            and 0 <= period <= MAX_TIME):
        raise IperfError(934, "'%s' (it should be like 10 or 0/300)" % text)
    return int(count), period


def _debug_level(text):
    level = atoi(text)
    return level if level >= 0 else 4


_GROUPS = (("CS", "Server or Client"), ("S", "Server specific"), ("C", "Client specific"))
_own = functools.partial(Option, ours=True)

# In the order in which iperf3 3.22 declares them: it is the order of the candidates in the
# message about an ambiguous prefix.
OPTIONS = (
    Option("CS", "-p --port #", "port to listen on, or to connect to (default %d)" % DEFAULT_PORT,
           _bounded(atoi, 1, 65535, 26), DEFAULT_PORT),
    Option("CS", "-f --format [kmgtKMGT]",
           "unit of the Bitrate column: lower case bits, upper case bytes (default: whatever fits)",
           _format_letter),
    Option("CS", "-i --interval #",
           "seconds between two reports, 0.1 to 60 (default 1); 0: one report for the whole test",
           _interval, 1.0),
    Option("S", "-D --daemon", "run in the background"),
    Option("S", "-1 --one-off", "serve one test, then end"),
    Option("CS", "-V --verbose", "more lines of text"),
    Option("CS", "-J --json", "print one JSON document per test"),
    Option("CS", "--json-stream", "print one JSON object per event, each on a line"),
    Option("CS", "--json-stream-full-output",
           "with --json-stream: the whole document at the end, too"),
    Option("CS", "-v --version", "print the version and end"),
    Option("s", "-s --server", "be a server"),
    Option("c", "-c --client <host>[%<dev>]", "be a client of the server on this host"),
    Option("C", "-u --udp", "send datagrams (UDP) rather than a TCP stream"),
    Option("C", "-b --bitrate --bandwidth #[KMGT][/#]",
           "bits of payload per second and stream; 0: unlimited (default: 0, UDP 1 Mbit/s); "
           "after the slash: blocks sent in one go", _bitrate),
    Option("S", "--server-bitrate-limit #[KMG][/#]",
           "refuse, or end, tests of more bits per second in all; after the slash: seconds of "
           "the average (default %d)" % DEFAULT_LIMIT_INTERVAL, _bitrate_limit),
    Option("S", "--server-max-duration #", "refuse tests that take more seconds",
           _bounded(atoi, 0, MAX_TIME, 5), 0),
    Option("C", "-t --time #",
           "seconds to measure (default %d); 0 or inf: until stopped" % DEFAULT_TIME,
           _bounded(_duration, 0, MAX_TIME, 5)),
    Option("C", "-n --bytes #[KMGT]", "bytes to send instead of a time", _unsigned_size, 0),
    Option("C", "-k --blockcount #[KMGT]", "blocks to send instead of a time", _unsigned_size,
           0, dest="blocks"),
    Option("C", "-l --length #[KMGT]",
           "bytes per block, that is, per write or datagram (default %d, UDP: what the path's MSS "
           "allows)" % DEFAULT_TCP_BLOCK, _block_size, 0),
    Option("C", "-P --parallel #", "streams in each direction, up to %d (default 1)" % MAX_STREAMS,
           _bounded(atoi, 1, MAX_STREAMS, 6), 1),
    Option("C", "-R --reverse", "the server sends"),
    Option("C", "--bidir", "both ends send", dest="bidirectional"),
    Option("C", "-w --window #[KMGT]", "size of the socket buffers of both ends",
           _bounded(_size, 0, MAX_WINDOW, 8), 0),
    Option("CS", "-B --bind <host>[%<dev>]", "local address, and device, to use"),
    Option("CS", "--bind-dev <dev>", "device to use (SO_BINDTODEVICE)"),
    Option("c", "--cport #", "local port of the first stream; the next one uses the next",
           _bounded(atoi, 1, 65535, 26), 0),
    Option("C", "-M --set-mss #", "maximum segment size of the data connections",
           _bounded(atoi, 0, MAX_MSS, 10), 0, dest="mss"),
    Option("C", "-N --no-delay", "send at once: switch Nagle's algorithm off"),
    Option("CS", "-4 --version4", "use IPv4 only"),
    Option("CS", "-6 --version6", "use IPv6 only"),
    Option("C", "-S --tos N", "type of service, or traffic class, of the streams: 0 to 255",
           _bounded(_integer, 0, 255, 21), 0),
    Option("C", "--dscp N", "the same as a DSCP: 0 to 63 or a name (ef, af11, cs1, ...)",
           _dscp, 0, dest="tos"),
    Option("C", "--extra-data str", "text to put into the JSON documents of both ends"),
    Option("C", "-L --flowlabel N", "IPv6 flow label of the streams: 1 to %d" % MAX_FLOW_LABEL,
           _bounded(_integer, 1, MAX_FLOW_LABEL, 127), 0),
    Option("C", "-Z --zerocopy", "send with sendfile, without copying"),
    Option("C", "-O --omit #", "seconds to run before measuring begins",
           _bounded(_digits, 0, MAX_OMIT, 12), 0),
    Option("CS", "-F --file file", "send this file, or write what is received to it"),
    Option("C", "--repeating-payload", "send repeated digits rather than random bytes"),
    Option("CS", "--timestamps [=format]", "put the time before every line (a format of strftime)",
           optional="%c ", looks_like=r".*%"),
    Option("CS", "-A --affinity n[,m]", "run on this CPU; a client may name the server's, too",
           _affinity),
    Option("C", "-T --title str", "put this before every line of text"),
    Option("C", "-C --congestion --linux-congestion name", "TCP congestion control of both ends"),
    Option("C", "--sctp", "use SCTP rather than TCP"),
    Option("C", "--nstreams #", "outgoing streams of an SCTP association", _size, 0),
    Option("c", "-X --xbind <name>", "local address of an SCTP association; may be repeated",
           repeated=True),
    Option("CS", "-I --pidfile file", "write the number of the process to this file"),
    Option("CS", "--logfile file", "write the output to the end of this file"),
    Option("CS", "--forceflush", "accepted for compatibility: every line is flushed"),
    Option("C", "--get-server-output", "fetch and print the server's output"),
    Option("C", "--udp-counters-64bit", "number the datagrams with 64 bits rather than 32"),
    Option("C", "--no-fq-socket-pacing", "old name of --fq-rate 0"),
    Option("C", "--dont-fragment", "forbid routers to fragment datagrams (UDP over IPv4)"),
    Option("C", "--skip-rx-copy", "receive without copying (MSG_TRUNC)"),
    Option("C", "--username name", "name of a user of a server that asks who is there"),
    Option("C", "--rsa-public-key-path file", "the server's public key (RSA, PEM)"),
    Option("S", "--rsa-private-key-path file", "private key (RSA, PEM) for the clients' passwords"),
    Option("S", "--authorized-users-path file",
           "users and the digests of their passwords: only they may test"),
    Option("S", "--time-skew-threshold #", "seconds that a client's clock may differ (default 10)",
           _bounded(atoi, 1, MAX_INT, 29), 10),
    # differs: iperf3 since 3.20 has it on a server only, and cannot log in to older ones.
    Option("CS", "--use-pkcs1-padding", "pad passwords as iperf3 before 3.17 did, and not as now"),
    Option("C", "--fq-rate #[KMG]", "let the kernel pace the streams at this rate", _rate, 0),
    Option("C", "--pacing-timer #[KMG]",
           "microseconds between looks at the rate, of servers before 3.18",
           _bounded(_size, 0, MAX_INT, 0)),  # iperf3: "no error" is its text
    Option("C", "--connect-timeout #",
           "milliseconds to wait for the control connection (default %d)"
           % (REPLY_TIMEOUT * 1000), _size),
    Option("S", "--idle-timeout #", "with -1: end after so many seconds without a client",
           _bounded(atoi, 1, MAX_TIME, 30), 0),
    Option("CS", "--rcv-timeout #",
           "milliseconds without data after which a receiver gives up (default %d)"
           % (DATA_TIMEOUT * 1000), _bounded(atoi, 100, 86400000, 31)),
    Option("CS", "--snd-timeout #",
           "milliseconds without an acknowledgement after which a connection breaks "
           "(TCP_USER_TIMEOUT)", _bounded(atoi, 0, 86400000, 33), 0),
    Option("CS", "--cntl-ka [=#[/#[/#]]]",
           "keepalive of the control connection: seconds idle, seconds between probes, number "
           "of probes", _keepalive, optional=""),
    Option("CS", "-m --mptcp", "use Multipath TCP for the streams"),
    Option("C", "--gsro", "UDP: let the kernel cut (GSO) and join (GRO) datagrams"),
    Option("CS", "-d --debug [=#]", "tell what goes on, on standard error: 1 (errors) to 4 (all)",
           _debug_level, 0, optional="4", looks_like=r"[0-9]+$"),
    Option("CS", "-h --help", "print this and end"),
    Option("CS", "", read=str, dest="password"),  # users type it, or set IPERF3_PASSWORD
    Option("CS", "", read=str, dest="passphrase"),  # of an encrypted private key
    Option("CS", "", dest="far"),  # a dict: the place of a server that was brought along
    # Ours. A prefix that fits one of iperf3's names never means one of these.
    _own("C", "--loopback", "start a one-off server on this host and be its client"),
    _own("C", "--ssh <[user@]host>",
         "start the server there over ssh, and be its client; given twice: the client on the first "
         "host, the server on the second", _far_host, repeated=True),
    _own("C", "--mesh <host,host,...>",
         "test between each two of these hosts, all started over ssh, and print a table",
         _far_hosts),
    _own("C", "--ssh-command str",
         "what to run in place of ssh, with its options (%h: the host; docker exec -i, say)",
         default="ssh"),
    _own("C", "--ssh-python path", "the Python to use there (default: the first one found)"),
    _own("C", "--ssh-address host",
         "address of the server that is brought along (default: the one that ssh connects to)"),
    _own("C", "--ssh-dial-back",
         "run the server here and the client there, which connects to this host"),
    _own("C", "--ssh-tunnel", "send the data through ssh, whose speed it is then"),
    _own("C", "--connect-only", "connect, print how long that and the first byte took"),
    _own("C", "--wait seconds",
         "try again for so long if the server is busy, or not there (yet); fractions are allowed",
         _bounded(_decimal, 0, MAX_TIME, 910), 0.0),
    _own("C", "--min-bitrate #[KMGT][/up|/down]",
         "end with status 4 if less bits per second of payload arrive, in each direction or the "
         "one named; may be repeated", _least_rate, repeated=True),
    _own("C", "--max-loss #%", "the same if more datagrams are lost (UDP)", _share),
    _own("C", "--max-jitter #ms", "the same if the jitter is higher (UDP; us, ms, s)",
         _milliseconds),
    _own("C", "--max-retransmits #[%]",
         "the same if TCP retransmits more segments, or more percent of those that it sends",
         _count_or_share),
    _own("C", "--max-rtt #ms", "the same if TCP's round trips take longer (us, ms, s)",
         _milliseconds),
    _own("C", "--mtu",
         "find the MTU of the path, both ways, and end; with -t, -n or -k the test follows"),
    _own("C", "--min-mtu #",
         "end with status 4 if the MTU of the path is smaller, in either direction",
         _bounded(_digits, 1, MAX_PACKET, 916)),
    _own("C", "--latency",
         "measure the latency before the test, and while it loads the path"),
    _own("C", "--probe-rate #", "probes of latency per second, 1 to %d (default 50)"
         % MAX_PROBE_RATE, _bounded(_digits, 1, MAX_PROBE_RATE, 912), 50),
    _own("C", "--probe-size #", "bytes of payload of a probe, %d to %d (default %d)"
         % (MIN_PROBE, MAX_PROBE, MIN_PROBE), _bounded(_digits, MIN_PROBE, MAX_PROBE, 913),
         MIN_PROBE),
    _own("C", "--probe-dscp N",
         "DSCP of the probes (default: that of the streams); given twice: two classes side by side",
         _dscp, repeated=True),
    _own("C", "--max-latency #ms[:pNN]",
         "end with status 4 if the latency under load is higher (us, ms, s), at this percentile "
         "(default p95)", _latency_limit),
    _own("C", "--min-rpm #", "the same if there are fewer round trips per minute under load",
         _bounded(_digits, 1, MAX_INT, 914)),
    _own("C", "--min-grade A+|A|B|C|D|F", "the same if the grade of the latency is worse", _grade),
    _own("C", "--tls", "run control and TCP streams inside TLS"),
    _own("C", "--tls-ca file",
         "verify the server's name and certificate with these authorities (PEM); with --quic, "
         "the data connections'"),
    _own("S", "--tls-only", "refuse clients without TLS"),
    _own("S", "--tls-cert file",
         "certificate (PEM) for clients with TLS; without one a throw-away one is made"),
    _own("S", "--tls-key file", "private key (PEM) of the certificate, if not in its file"),
    _own("C", "--quic",
         "send the data over QUIC, on the same port number of UDP; takes the Python package qh3 "
         "or aioquic at both ends"),
    _own("C", "--quic-iw #", "QUIC: initial congestion window, in packets (aioquic)",
         _bounded(atoi, 1, MAX_INITIAL_WINDOW, 907), 0),
    _own("CS", "--quic-secrets file", "QUIC: append the secrets of TLS to this file (NSS key log)"),
    _own("S", "--max-clients #", "tests at a time (default 1)",
         _bounded(atoi, 1, MAX_CLIENTS, 901), 1),
    _own("S", "--allow network",
         "serve clients of this network only (192.0.2.0/24, say); may be repeated", _network,
         repeated=True),
    _own("C", "--diagnose",
         "test up, down and both ways, and say on one screen what is wrong with the path"),
    _own("CS", "--verdict", "say what limited the test, and which number to change"),
    _own("CS", "--plot",
         "draw bars behind the rows of text, and figures over time under the summary"),
    _own("C", "--html file",
         "write a report with charts to this file, too: one page that needs no other"),
    _own("CS", "--csv [=file]",
         "print rows of figures with commas between them, and nothing else; with a file: add them "
         "to it, besides what is printed", optional=STDOUT, looks_like="[^-]"),
    _own("CS", "--csv-header", "with --csv: begin with a line that names the columns"),
    _own("C", "--prometheus file",
         "write the figures of each test to this file, too, for the textfile collector, which "
         "takes names that end in .prom"),
    _own("C", "--repeat N[/seconds]",
         "run the test N times (0: until stopped), the next one so many seconds after the start "
         "of the last, or at once", _repeat, looks_like="[0-9]", cut="repeating-payload"),
    _own("CS", "--threads", "run the streams in threads rather than in processes"),
    _own("C", "--sendmmsg",
         "accepted for compatibility: datagrams go in batches wherever the system can"),
    _own("CS", "--no-sendmmsg", "UDP: one datagram per system call"),
)
_BY_LETTER = {name[1]: option for option in OPTIONS for name in option.names
              if not name.startswith("--")}


class UsageError(Exception):
    """Report an argument vector that getopt_long would refuse; str() is its message."""


def split_arguments(arguments, posixly_correct=False, strays=None):
    """Yield (Option, argument or None) for an argument vector, as GNU getopt_long reads it.

    Words that are no options are skipped (iperf3 ignores them), or end the options if
    `posixly_correct`; strays: a list to which they are added. Raises UsageError with
    getopt_long's text, without the program's name.
    """
    words = collections.deque(arguments)
    while words:
        word = words.popleft()
        is_stray = not word.startswith("-")
        if is_stray and strays is not None:
            strays.append(word)
        if word == "--" or (posixly_correct and (is_stray or word == "-")):
            return
        if word.startswith("--"):
            yield _read_long(word, words)
        elif not is_stray:
            yield from _read_letters(word[1:], words)


def _read_long(word, words):
    """Return (Option, argument or None) of a long option; its argument may be the next word."""
    name, equals, value = word[2:].partition("=")
    full, option = _find_long(name, word)
    if option.cut and not (equals or option.likes(words)):
        full, option = _find_long(option.cut, word)
    if equals:
        if option.read is None:
            raise UsageError("option '--%s' doesn't allow an argument" % full)
        return option, value
    if not option.takes_argument:
        return option, option.take_word(words)
    if not words:
        raise UsageError("option '--%s' requires an argument" % full)
    return option, words.popleft()


def _find_long(name, word):
    """Return (full name, Option) that a name or the beginning of one stands for."""
    candidates = []
    for option in OPTIONS:
        for full in option.long_names:
            if full == name:
                return full, option
            # iperf3: of two names of the first option getopt lists one.
            if full.startswith(name) and not (candidates and candidates[0][1] is option):
                candidates.append((full, option))
    candidates = [pair for pair in candidates if not pair[1].ours] or candidates
    if not candidates:
        raise UsageError("unrecognized option '%s'" % word)
    if len(candidates) > 1:
        raise UsageError("option '%s' is ambiguous; possibilities: %s" % (
            word, " ".join("'--%s'" % full for full, _ in candidates)))
    return candidates[0]


def _read_letters(letters, words):
    """Yield (Option, argument or None) of the letters behind a hyphen."""
    while letters:
        letter, letters = letters[0], letters[1:]
        option = _BY_LETTER.get(letter)
        if option is None:
            raise UsageError("invalid option -- '%s'" % letter)
        if option.takes_argument:
            if not letters and not words:
                raise UsageError("option requires an argument -- '%s'" % letter)
            value, letters = letters or words.popleft(), ""
        else:
            if option.looks_like and letters[:1].isdigit():  # -d4
                words.appendleft(letters)
                letters = ""
            value = None if letters else option.take_word(words)
        yield option, value


###############################################################################
# settings ####################################################################
###############################################################################
# What the options of a command line, or of a program, come to: what goes together,
# and what is refused. Nothing here knows of sockets.

# What some options take back: of those that do not go together the last one wins.
_TAKES_BACK = {
    "version4": {"version6": False},
    "version6": {"version4": False},
    "udp": {"sctp": False},
    "sctp": {"udp": False},
    "mptcp": {"udp": False, "sctp": False},
    "no_fq_socket_pacing": {"fq_rate": 0},
}

# What iperf3 refuses once all is parsed, in its order: the condition, the error's number, and
# what else IperfError is given. The keys are looked at between the two tables.
_REFUSED_BEFORE_KEYS = (
    (lambda s: s.server and s.affinity and s.affinity[1] is not None, 4, {"remark": "-A n,m"}),
    (lambda s: s.is_client and (s.username is None) != (s.rsa_public_key_path is None), 22),
    (lambda s: s.server and (s.rsa_private_key_path is None) != (s.authorized_users_path is None),
     23),
)
_ELSEWHERE = {"cause": "the client runs on the other host"}
_REFUSED = (
    (lambda s: s.is_client and s.authorized_users_path is not None, 3,
     {"remark": "--authorized-users-path"}),
    (lambda s: s.is_client and s.rcv_timeout is not None and not (s.reverse or s.bidirectional),
     32),
    (lambda s: s.udp and s.file, 34),
    # iperf3: a block beyond TCP's largest has TCP's text.
    (lambda s: s.length > MAX_BLOCK or (s.length < 0 and not s.udp), 7),
    # differs: iperf3 lets a negative datagram pass, and fails later.
    (lambda s: s.udp and s.length and not MIN_UDP_BLOCK <= s.length <= MAX_UDP_BLOCK, 20),
    (lambda s: (s.timed and (s.bytes or s.blocks)) or (s.bytes and s.blocks), 16),
    # differs: iperf3 fails at the stream that has no port.
    (lambda s: s.cport + s.parallel * (2 if s.bidirectional else 1) > 65536, 26),
    (lambda s: not s.is_client and not s.server, 2),
    (lambda s: s.tls_key is not None and s.tls_cert is None, 903,
     {"cause": "--tls-key goes with --tls-cert"}),
    (lambda s: len(s.probe_dscp) > MAX_PROBE_CLASSES, 915),
    (lambda s: s.probe_rate * len(s.probe_dscp) > MAX_PROBE_RATE, 912,
     {"remark": "of all classes together"}),
    (lambda s: s.is_client and s.quic_iw and not s.quic, 905,
     {"cause": "--quic-iw goes with --quic"}),
    (lambda s: s.is_client and s.quic_secrets and not s.quic, 905,
     {"cause": "--quic-secrets goes with --quic"}),
    (lambda s: s.diagnose and s.timed and not s.time, 919, {"cause": "-t 0"}),
    (lambda s: s.html is not None and s.relayed, 930, _ELSEWHERE),
    (lambda s: s.csv not in (None, STDOUT) and s.relayed, 932, _ELSEWHERE),
    (lambda s: s.prometheus is not None and s.relayed, 933, _ELSEWHERE),
    (lambda s: s.csv_header and s.csv is None, 935),
    (lambda s: s.csv_only and s.daemon and s.logfile is None, 931,
     {"cause": "-D without --logfile"}),
    (lambda s: s.crowd and s.timed and not s.time, 922, {"cause": "-t 0"}),
    (lambda s: not s.hosts and (s.ssh_tunnel or s.ssh_dial_back or s.ssh_address or s.ssh_python),
     924),
    (lambda s: len(set(s.hosts)) < len(s.hosts), 923, {"cause": "the same one twice"}),
)

# An option, the error of those that do not go with it, and these.
_EXCLUDES = (
    ("tls", 904, ("udp", "sctp", "zerocopy", "skip_rx_copy")),
    ("quic", 906, ("udp", "sctp", "zerocopy", "skip_rx_copy", "mptcp", "connect_only")),
    ("ssh", 920, ("client", "loopback", "mesh")),
    ("ssh_tunnel", 920, ("udp", "sctp", "quic", "ssh_dial_back", "ssh_address", "mptcp")),
    ("ssh_dial_back", 920, ("quic_secrets", "tls_ca", "diagnose", "file")),
    ("many_hosts", 920, ("file", "quic_secrets", "tls_ca", "ssh_tunnel", "ssh_dial_back")),
    ("crowd", 922, ("client", "loopback", "ssh_address", "diagnose", "reverse", "bidirectional",
                    "connect_only", "json_stream", "get_server_output", "file", "cport")),
    ("csv_only", 931, ("json", "json_stream", "plot")),
    ("connect_only", 917, ("mtu", "min_mtu", "latency", "max_latency", "min_rpm", "min_grade",
                           "html", "csv", "prometheus")),
    ("diagnose", 919, ("reverse", "bidirectional", "bytes", "blocks", "file", "connect_only",
                       "cport")),
)


# Numbers that need not be whole, or have to have a unit.
_FRACTIONS = ("interval", "wait", "max_loss", "max_jitter", "max_rtt")


# What makes no sense without a test behind --mtu.
_TAKES_LOAD = ("time", "bytes", "blocks", "file", "min_bitrate", "max_loss", "max_jitter",
               "max_retransmits", "max_rtt")


def _as_tuples(value):
    """Return a value of JSON with tuples for its lists, as the options have them."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


class Settings:
    """Hold what one client or server is to do: an attribute for every row of OPTIONS.

    Settings(client="192.0.2.1", reverse=True, time=5). A value is given under any long name of
    its option with `_` for `-` (`bidir`, `blockcount`, `set_mss`, `bandwidth`, `dscp`, ...), or
    that of its attribute, which differs in `bidirectional`, `blocks` and `mss`. It may be the
    text that would be typed; True and False switch what needs no argument. Raises IperfError on a
    value, or a combination, that iperf3 refuses, TypeError on an unknown name.
    """

    def __init__(self, **values):
        for option in OPTIONS:
            setattr(self, option.dest, option.default)
        self.explicit = {}  # the names that were given, and the rows of OPTIONS
        self.typed = []  # (row of OPTIONS, text or None) of a command line, in its order
        by_name = {name.replace("-", "_"): option for option in reversed(OPTIONS)
                   for name in [option.dest] + option.long_names}
        for name, value in values.items():
            if name not in by_name:
                raise TypeError("Settings has no %r" % name)
            option = by_name[name]
            if option.read is None or (option.optional is not None and isinstance(value, bool)):
                if value:
                    self.apply(option, None)
            elif value is not None:
                if isinstance(value, float) and name not in _FRACTIONS and value - value == 0:
                    if value != int(value):
                        raise TypeError("%s must be a whole number" % name)
                    value = int(value)
                if isinstance(value, (list, tuple)) and not option.repeated:
                    value = ",".join(map(str, value))
                for each in value if isinstance(value, (list, tuple)) else [value]:
                    self.apply(option, each if isinstance(each, str) else repr(each))
        if values:
            self.check()

    @classmethod
    def from_arguments(cls, arguments, posixly_correct=False, before=(), find_keys=None):
        """Return the Settings of an argument vector (without the program's name).

        before: a vector of options that come before it; find_keys: as for check().
        Stops at --help and --version, as iperf3 does. Raises UsageError, IperfError.
        """
        settings, strays = cls(), []
        try:
            for words in (before, arguments):
                for option, value in split_arguments(words, posixly_correct, strays):
                    settings.typed.append((option, value))
                    settings.apply(option, value)
                    if settings.help or settings.version:
                        return settings
            settings.check(find_keys)
        except IperfError as error:
            error.settings = settings  # as far as they were read
            if error.number == 2 and strays:
                error.remark = "did you mean -c %s?" % strays[0]
            raise
        return settings

    @property
    def is_client(self):
        return bool(self.client is not None or self.loopback or self.hosts)

    @property
    def hosts(self):
        """The hosts that this program is to be brought to, over ssh."""
        return self.mesh or self.ssh

    @property
    def wanted_port(self):
        """The port that -p names, 0 if it names none."""
        return self.port if "port" in self.explicit else 0

    @property
    def many_hosts(self):
        return len(self.hosts) > 1

    @property
    def crowd(self):
        """Whether each two of the hosts are to test."""
        return bool(self.mesh) or len(self.ssh) > 2

    @property
    def relayed(self):
        """Whether the client runs on another host, and prints what is printed here."""
        return not self.crowd and (self.ssh_dial_back or self.many_hosts)

    def copy(self):
        """Return Settings of the same values, which may be changed."""
        its = Settings()
        vars(its).update(vars(self), explicit=dict(self.explicit))
        return its

    def to_json(self):
        """Return what is not as by default, for this program on another host."""
        values = {option.dest: getattr(self, option.dest) for option in OPTIONS
                  if getattr(self, option.dest) != option.default}
        return {"values": values, "explicit": sorted(self.explicit)}

    @classmethod
    def from_json(cls, document):
        """Return the Settings that to_json() told."""
        settings = cls()
        for name, value in document["values"].items():
            setattr(settings, name, _as_tuples(value))
        rows = {option.dest: option for option in OPTIONS}
        settings.explicit = {name: rows.get(name) for name in document["explicit"]}
        return settings

    @property
    def csv_only(self):
        """Whether standard output has CSV, and nothing else."""
        return self.csv == STDOUT

    @property
    def busy_wait(self):
        """The seconds for which a busy server is waited for."""
        if self.repeat and not self.wait:
            return min(max(REPEAT_WAITS[0], self.repeat[1]), REPEAT_WAITS[1])
        return self.wait

    @property
    def server_name(self):
        """What the user calls the server of a client."""
        return (self.far or {}).get("name") or "".join(self.ssh) or self.client

    @property
    def wants_verdict(self):
        """Whether to say what limited the test: of --loopback that is the answer."""
        return self.verdict or (self.loopback and not self.json and not self.json_stream)

    @property
    def asks_for_facts(self):
        """Whether what is asked for takes what the other end knows of itself."""
        share = self.max_retransmits is not None and self.max_retransmits[1] == "%"
        return (self.wants_verdict or self.max_rtt is not None or bool(self.probe_classes)
                or (share and (self.reverse or self.bidirectional)))

    @property
    def measures_latency(self):
        return bool(self.latency or self.max_latency or self.min_rpm or self.min_grade)

    @property
    def probe_classes(self):
        """The types of service of the classes of probes, () if nothing needs any."""
        if self.measures_latency:
            return self.probe_dscp or (self.tos,)
        return (self.tos,) if self.finds_mtu else ()

    @property
    def finds_mtu(self):
        return self.mtu or self.min_mtu is not None

    @property
    def mtu_only(self):
        """Whether the client ends when it knows the MTU of the path."""
        return self.mtu and not self.measures_latency and not any(
            name in self.explicit for name in _TAKES_LOAD)

    @property
    def timed(self):
        """Whether the end condition -t was given."""
        return "time" in self.explicit

    def apply(self, option, text):
        """Set what one option says, with the checks that iperf3 makes while it parses."""
        name = option.dest
        value = option.read is None or option.read(option.optional if text is None else text)
        self.explicit[name] = option
        if self.is_client if name == "server" else (
                self.server and name in ("client", "loopback", "ssh", "mesh")):
            raise IperfError(1)
        if (name == "reverse" and self.bidirectional) or (
                name == "bidirectional" and self.reverse):
            raise IperfError(25)
        vars(self).update(_TAKES_BACK.get(name, {}))
        if option.repeated:
            value = getattr(self, name) + (value,)
        if name in ("bind", "client"):
            value, device = _host(value)
            self.bind_dev = device or self.bind_dev
        setattr(self, name, value)

    def check(self, find_keys=None):
        """Make the checks that iperf3 makes after parsing, in its order. Raises IperfError.

        find_keys: a function that takes the Settings, called when it is the turn of the files and
        the password of the authentication.
        """
        self._refuse_other_side()
        self._refuse(_REFUSED_BEFORE_KEYS)
        if find_keys and ((self.is_client and self.username is not None)
                          or (self.server and self.authorized_users_path is not None)):
            find_keys(self)
        self._refuse(_REFUSED)
        self.tls = self.tls or (self.tls_ca is not None and not self.quic)
        for name, number, others in _EXCLUDES:
            for other in others:
                if getattr(self, name) and getattr(self, other):
                    raise IperfError(number, self.explicit[other].names[0])

    def _refuse_other_side(self):
        """Raise IperfError 3 or 4 if options of the other end were given."""
        for is_it, other, number in ((self.is_client, "S", 3), (self.server, "C", 4)):
            names = ["/".join(option.names) for option in self.explicit.values()
                     if is_it and option.side == other
                     and option.dest != "authorized_users_path"]  # iperf3: it comes later
            if names:
                raise IperfError(number, remark=", ".join(names))

    def _refuse(self, rows):
        for is_wrong, number, *more in rows:
            if is_wrong(self):
                raise IperfError(number, **dict(*more))

    def warnings(self):
        """Return the texts of iperf3's warnings about options that do not go with JSON."""
        if not (self.json or self.json_stream):
            return []
        return [text for given, text in (
            (self.format, "Report format (-f) flag ignored with JSON output (-J)"),
            (self.plot, "Plot (--plot) flag ignored with JSON output (-J)"),
            (self.verbose, "Verbose output (-v) may interfere with JSON output (-J)"),
            (self.debug, "Debug output (-d) may interfere with JSON output (-J)")) if given]


# What may hold a password.
_UNTOLD = frozenset(("ssh_command",))


def command_text(settings):
    """Return the command line that Settings come from, None if there was none."""
    if not settings.typed:
        return None
    import shlex
    words = ["pyperf3.py"]
    for option, value in settings.typed:
        name = option.names[0]
        if value is not None and option.dest in _UNTOLD:
            value = "..."
        if value is None:
            words.append(name)
        elif option.optional is not None:
            words.append(shlex.quote("%s=%s" % (option.names[-1], value)))
        else:
            words += [name, shlex.quote(value)]
    return " ".join(words)


def help_text(program="pyperf3.py", columns=80):
    """Return what --help prints on a terminal of so many columns."""
    import argparse

    def add_table(title, rows):
        layout.start_section(title)
        layout.add_arguments([argparse.Action([head], "", 0, help=text.replace("%", "%%"))
                              for head, text in rows])
        layout.end_section()

    layout = argparse.HelpFormatter(program, max_help_position=28, width=columns - 2)
    if hasattr(layout, "_set_color"):  # Python 3.14's paints for a terminal
        layout._set_color(False)
    for side, title in _GROUPS:
        add_table(title, [(option.head(), option.help) for option in OPTIONS
                          if option.names and option.side.upper() == side])
    layout.add_text("[KMGT] are units: 1024 and its powers for sizes, 1000 and its powers for"
                    " rates.")
    layout.add_text("A client waits %d s for each answer of the server, %d s for that to a"
                    " stream's first datagram; a server %d s for each step of the set-up, %d s"
                    " for the end of a test behind its time."
                    % (REPLY_TIMEOUT, HELLO_TIMEOUT, STEP_TIMEOUT, WATCHDOG_GRACE))
    add_table("Environment", [
        ("PYPERF3_OPTS", "options of a client, before those of its command line"),
        ("IPERF3_PASSWORD", "the password for --username (RIPERF3_PASSWORD is looked at first);"
                            " without it the user is asked"),
    ])
    return ("Usage: %s [-s|-c host|--loopback|--ssh host] [options]\n"
            "       %s [-h|--help] [-v|--version]\n\n%s"
            % (program, program, layout.format_help().rstrip("\n")))


###############################################################################
# wire ########################################################################
###############################################################################
# iperf3's protocol as functions from bytes to values and back. No sockets here.

def make_cookie(token=""):
    """Return a new cookie: 36 characters and a zero byte, random behind a token."""
    letters = (COOKIE_LETTERS[byte % 32] for byte in bytearray(os.urandom(COOKIE_SIZE - 1)))
    return (token + "".join(letters))[:COOKIE_SIZE - 1].encode("ascii") + b"\0"


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


class JsonText(str):
    """A value that is JSON already."""


def encode_json(value, depth=None):
    """Return a value as cJSON prints it.

    depth: None for the unformatted notation (the wire, --json-stream), 0 for the
    pretty-printed one of -J, with tabs. Only dict, list, str, bool, None, int, float and JsonText
    occur.
    """
    if isinstance(value, str):
        return value if isinstance(value, JsonText) else '"%s"' % value.translate(_ESCAPES)
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        inner = None if depth is None else depth + 1
        return "[%s]" % _join("," if depth is None else ", ", (
            encode_json(item, inner) for item in value))
    if isinstance(value, dict):
        if depth is None:
            return "{%s}" % _join(",", ('%s:%s' % (encode_json(name), encode_json(item))
                                        for name, item in value.items()))
        tabs = "\t" * (depth + 1)
        members = _join(",\n", (
            "%s%s:\t%s" % (tabs, encode_json(name), encode_json(item, depth + 1))
            for name, item in value.items()))
        return "{\n%s%s%s}" % (members, "\n" if members else "", "\t" * depth)
    return encode_number(value)


def _join(separator, texts):
    """Join texts, none of them empty, some at a time: millions of short ones take much memory."""
    return separator.join(iter(lambda: separator.join(itertools.islice(texts, 1000)), ""))


def to_bytes(text):
    """Return text as UTF-8; bytes that the system handed over undecoded come out as they were."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


class JsonReader:
    """Read a JSON document of a peer, as leniently as cJSON does, in slices and within a room.

    A document may be of any size and shape: what it takes in memory is counted, by a rough
    measure in bytes, while it is read.
    """

    _NEAR = 4096  # bytes within which a token ends; a number, and blanks, have to
    _WINDOW = 16384  # bytes of a string that are looked at in one piece
    _SLICE = 1000  # values that are read in one piece
    _SCALAR, _CONTAINER, _NEW_NAME = 64, 256, 192  # what each takes, at the most
    _WIDE = 4  # bytes that a letter takes where some are not of ASCII
    _ASCII = bytes(range(128))
    _BLANKS = rb"[ \t\r\n]*"
    _NAMES = _BLANKS + rb'"([ !#-\[\]-~]*)"' + _BLANKS + b":" + _BLANKS
    _SCALARS = (_BLANKS + rb'(?:"([ !#-\[\]-~]*)"'
                rb"|(-?(?:0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?))"
                rb"|(true|false|null|NaN|-?Infinity))" + _BLANKS)
    # A half of a UTF-16 pair is taken once it is known whether the other half follows.
    _PIECES = (rb'(?s)(?:[^"\\]+|\\["\\/bfnrt]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}'
               rb"|\\u[dD][89abAB][0-9a-fA-F]{2}"
               rb"(?:\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?=[^\\]|\\[^u]|\\u.{4})))*")
    _ESCAPES = rb"(?s)\\u([dD][89abAB]..)\\u([dD][c-fC-F]..)|\\u(....)|\\(.)"
    _LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}

    def __init__(self, data, room, spare=0, large=()):
        """room: what all may take; spare: what the members of the document named `large` (in
        lower case) may take in place of it.
        """
        import codecs
        import re
        self._data, self._at = data, 0
        self._room, self._spare, self._large = room, spare, large
        self._work = 0  # since the last pause
        self._names = {}  # that were met
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._blanks, self._name, self._scalar, self._pieces, self._escapes = (
            re.compile(pattern) for pattern in (self._BLANKS, self._NAMES, self._SCALARS,
                                                self._PIECES, self._ESCAPES))

    def read(self):
        """Return the value at the start of the data: a generator that yields now and then.

        Raises ValueError on what is no JSON, nested too deeply, or has no room.
        """
        found = self._match(self._scalar)
        return self._take_scalar(found) if found else (yield from self._read_other(0))

    def _match(self, pattern, length=_NEAR):
        return pattern.match(self._data, self._at, self._at + length)

    def _skip_blanks(self):
        self._at = self._match(self._blanks).end()

    def _take(self):
        """Return the next byte, which is taken."""
        self._at += 1
        return self._data[self._at - 1:self._at]

    def _spend(self, size):
        self._room -= size
        if self._room < 0:
            raise ValueError("there is more in it than is allowed")

    def _take_scalar(self, found):
        """Return a value without values in it: a number, a word, a plain string."""
        if found.end(2) == self._at + self._NEAR:
            raise ValueError("a number has no end")
        self._at = found.end()
        self._work += 1
        text, number, fraction, word = found.groups()
        if text is not None:
            self._spend(self._SCALAR + len(text))
            return text.decode("ascii")
        self._spend(self._SCALAR)
        if number is not None:
            # Thousands of digits would take the conversion to an integer minutes.
            return float(number) if fraction or len(number) >= 30 else int(number)
        return {b"true": True, b"false": False}.get(word)

    def _read_other(self, depth):
        """Return an object, an array, or a string that is not plain; blanks before and behind."""
        self._skip_blanks()
        mark = self._take()
        if mark == b'"':
            value = yield from self._read_string()
        elif mark not in (b"{", b"["):
            raise ValueError("the text is no JSON")
        elif depth == MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        else:
            self._skip_blanks()
            value = yield from self._read_members(depth + 1, mark == b"{")
        self._skip_blanks()
        return value

    def _read_members(self, depth, is_object):
        """Return an object or an array, from its first member on."""
        self._spend(self._CONTAINER)
        self._work += 4
        members, closing = ({}, b"}") if is_object else ([], b"]")
        if self._data[self._at:self._at + 1] == closing:
            self._at += 1
            return members
        while True:
            large = False
            if is_object:
                found = self._match(self._name)
                name = self._take_name(found) if found else (yield from self._read_name())
                large = depth == 1 and name.lower() in self._large
            if large:
                self._room, self._spare = self._spare, self._room
            found = self._match(self._scalar)
            value = self._take_scalar(found) if found else (yield from self._read_other(depth))
            if large:
                self._room, self._spare = self._spare, self._room
            if is_object:
                members.setdefault(name, value)  # iperf3: of two the first counts
            else:
                members.append(value)
            if self._work >= self._SLICE:
                self._work = 0
                yield
            mark = self._take()
            if mark == closing:
                return members
            if mark != b",":
                raise ValueError("the text is no JSON")

    def _take_name(self, found):
        self._at, data = found.end(), found.group(1)
        name = self._names.get(data)
        if name is None:
            name = data.decode("ascii")
            self._spend(len(name) + self._NEW_NAME)
            if len(self._names) < 1000:
                self._names[data] = name
        return name

    def _read_name(self):
        """Return a name that is not plain."""
        self._skip_blanks()
        if self._take() != b'"':
            raise ValueError("the text is no JSON")
        name = yield from self._read_string()
        self._spend(self._NEW_NAME)
        self._skip_blanks()
        if self._take() != b":":
            raise ValueError("the text is no JSON")
        return name

    def _read_string(self):
        """Return a string, from its first letter on."""
        texts, length, width, closed = [], 0, 1, False
        self._spend(self._CONTAINER)  # it takes as long
        while True:
            end = self._match(self._pieces, self._WINDOW).end()
            closed = self._data[end:end + 1] == b'"'
            if end == self._at and not closed:
                raise ValueError("the text is no JSON")
            data = self._escapes.sub(self._unescape, bytes(self._data[self._at:end]))
            text = self._decoder.decode(data, closed)
            if width == 1 and data.translate(None, self._ASCII):
                width = self._WIDE
                self._spend((width - 1) * length)
            self._spend(width * len(text))
            length += len(text)
            texts.append(text)
            self._work += 10 + (end - self._at) // 32
            self._at = end
            if closed:
                self._at += 1
                return "".join(texts)
            yield

    def _unescape(self, found):
        high, low, code, letter = found.groups()
        if letter is not None:
            return self._LETTERS.get(letter, letter)
        number = int(code, 16) if code else (
            0x10000 + ((int(high, 16) & 0x3ff) << 10 | int(low, 16) & 0x3ff))
        return chr(number).encode("utf-8", "replace")  # half a pair has no UTF-8 form


# What steers a terminal, or a reader of lines: control characters, and those that turn the
# direction of writing or end a line elsewhere than in ASCII.
_STEERING = "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"


def printable(text):
    """Return a peer's text without the characters that could steer a terminal."""
    import re
    return re.sub(_STEERING, "", text)


def escape_steering(text):
    """Return a JSON text for eyes: what could steer a terminal is escaped.

    iperf3: on the wire it is not. JSON has such characters in strings only.
    """
    import re
    return re.sub(_STEERING, lambda found: "\\u%04x" % ord(found.group()), text)


def encode_frame(value):
    """Return a JSON document with its length in front, as one piece."""
    body = to_bytes(encode_json(value))
    return struct.pack("!I", len(body)) + body


def by_lower_name(document):
    """Return the members of a JSON object by their names in lower case; of two the first counts.

    cJSON finds a member by its name whatever the case.
    """
    members = {}
    for name, value in document.items():
        members.setdefault(name.lower(), value)
    return members


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


# How a kind of parameter is told by its value, read, and sent.
_KINDS = {
    "int": (_is_number, to_integer, int),
    # iperf3: false switches it on, too.
    "presence": (lambda value: isinstance(value, bool), lambda value: True, bool),
    "flag": (_is_number, lambda value: True, int),
    "onoff": (_is_number, lambda value: to_integer(value) != 0, int),
    "text": (lambda value: isinstance(value, str), str, str),
    "features": (lambda value: isinstance(value, dict), lambda value: Features.from_json(value),
                 lambda value: value.to_json()),
}


class Features(collections.namedtuple("Features", "probes")):
    """What a client asks a pyperf3 for, beyond iperf3's: facts, and answers to probes.

    probes: the types of service of the classes of its probes, () without any.
    """

    def to_json(self):
        return dict({"facts": 1}, **({"probes": list(self.probes)} if self.probes else {}))

    @classmethod
    def from_json(cls, members):
        probes = members.get("probes")
        probes = probes[:MAX_PROBE_CLASSES] if isinstance(probes, list) else ()
        return cls(tuple(to_integer(each) & 255 for each in probes if _is_number(each)))


Parameter = collections.namedtuple("Parameter", "key attribute kind sent low high error default")
Parameter.__doc__ = """One parameter of a test, a row of PARAMETERS.

key: its name in the document; attribute: that in Parameters.
kind: of _KINDS.
sent: when it is: always; with udp; if set; if given, that is, not None.
low, high: the lowest and the highest value, None if there is none; error: of one outside.
default: what it is where it is not sent.
"""


def _number(key, attribute, sent="set", low=0, high=None, error=114, default=0):
    return Parameter(key, attribute, "int", sent, low, high, error, default)


def _switch(key, attribute, kind):
    return Parameter(key, attribute, kind, "set", None, None, None, False)


def _text(key, attribute):
    return Parameter(key, attribute, "text", "set", None, None, None, None)


# In the order in which iperf3 sends them.
PARAMETERS = (
    _number("omit", "omit", "always", 0, MAX_OMIT, 12),
    _number("server_affinity", "server_affinity", "given", 0, MAX_CPU, 132, None),
    _number("time", "time", "always", 0, MAX_TIME, 5, DEFAULT_TIME),
    _number("num", "bytes", "always"),
    _number("blockcount", "blocks", "always"),
    _number("MSS", "mss", "set", 0, MAX_MSS, 10),
    _switch("nodelay", "no_delay", "presence"),
    _number("parallel", "parallel", "always", 1, MAX_STREAMS, 6, 1),
    _switch("reverse", "reverse", "presence"),
    _switch("bidirectional", "bidirectional", "presence"),
    _switch("mptcp", "mptcp", "presence"),
    _number("window", "window", "set", 0, MAX_WINDOW, 8),
    _number("len", "length", "always", None, None, None, DEFAULT_TCP_BLOCK),  # checked last
    _number("bandwidth", "rate"),
    _number("fqrate", "fq_rate"),
    _number("pacing_timer", "pacing_timer", default=1000),
    _number("burst", "burst", "set", 1, MAX_BURST, 15),
    _number("gso", "gso", "udp"),
    _number("gso_dg_size", "gso_datagram", "udp"),
    _number("gso_bf_size", "gso_buffer", "udp", default=MAX_UDP_BLOCK),
    _number("gro", "gro", "udp", high=1),
    _number("gro_bf_size", "gro_buffer", "udp", default=MAX_UDP_BLOCK),
    _number("TOS", "tos", "set", 0, 255, 21),
    _number("flowlabel", "flowlabel", "set", 1, MAX_FLOW_LABEL, 127),
    _text("title", "title"),
    _text("extra_data", "extra_data"),
    _text("congestion", "congestion"),
    _switch("get_server_output", "get_server_output", "flag"),
    _switch("udp_counters_64bit", "wide_counters", "flag"),
    _switch("repeating_payload", "repeating_payload", "flag"),
    _switch("zerocopy", "zerocopy", "onoff"),
    _switch("dont_fragment", "dont_fragment", "onoff"),
    _text("authtoken", "token"),
    _switch("skip_rx_copy", "skip_rx_copy", "onoff"),
    # Ours: a server that sends datagrams may end at the amount, since the client counts those
    # that were lost. iperf3's clients wait for as many as arrive.
    _switch("pyperf3_counts_lost", "counts_lost", "flag"),
    # A server that sends a file ends the stream with it.
    _switch("pyperf3_ends_with_data", "ends_with_data", "flag"),
    # The client wants to know what the server knows of its host, and of its connections.
    _switch("pyperf3_features", "facts", "features"),
    _number("pyperf3_quic_iw", "quic_iw", "set", 0, MAX_INITIAL_WINDOW, 907),
)


class Parameters:
    """Hold the parameters of one test, as both ends agree on them: attributes of PARAMETERS."""

    def __init__(self):
        self.protocol = "TCP"
        for row in PARAMETERS:
            setattr(self, row.attribute, row.default)

    def stream_count(self):
        """Return the number of streams, of both directions."""
        return self.parallel * (2 if self.bidirectional else 1)

    @classmethod
    def from_settings(cls, settings):
        """Return what a client with these Settings asks for.

        The block size of UDP stays 0 without -l: choose_length() sets it.
        """
        self = cls()
        for row in PARAMETERS:
            value = getattr(settings, row.attribute, None)
            if value is not None:
                setattr(self, row.attribute, value)
        self.wide_counters = settings.udp_counters_64bit
        self.server_affinity = settings.affinity[1] if settings.affinity else None
        self.length = settings.length
        self.ends_with_data = bool(settings.file and settings.reverse)
        self.facts = settings.asks_for_facts and Features(settings.probe_classes)
        self.rate, self.burst = settings.bitrate or (0, 0)
        if settings.quic:
            self.protocol = "QUIC"
        if settings.sctp:
            self.protocol = "SCTP"
            self.length = self.length or DEFAULT_SCTP_BLOCK
        if settings.udp:
            self.protocol = "UDP"
            self.gso = self.gro = int(settings.gsro)
            self.counts_lost = bool((self.bytes or self.blocks)
                                    and (settings.reverse or settings.bidirectional))
            if settings.bitrate is None:
                self.rate = DEFAULT_UDP_RATE
        elif not self.length:
            self.length = DEFAULT_TCP_BLOCK
            if self.rate:
                # differs: a slow stream of large blocks would send one, then be silent for
                # seconds. A tenth of a second's worth keeps the rate even.
                self.length = max(1, min(self.length, self.rate // 80))
        self.time = settings.time if settings.timed else DEFAULT_TIME
        if self.bytes or self.blocks:
            self.time = 0
        return self

    def choose_length(self, mss):
        """Set the block size of UDP, for a path of this maximum segment size."""
        if not self.length:
            self.length = mss if 0 < mss <= MAX_UDP_BLOCK else DEFAULT_UDP_BLOCK
        if self.gso:
            self.gso_datagram = self.length
            self.gso_buffer = min(MAX_UDP_BLOCK // self.length, MAX_SEGMENTS) * self.length

    def to_json(self):
        """Return the document that a client sends, keys in iperf3's order.

        `quic` is our own: iperf3 would take such a test for one over TCP.
        """
        document = {self.protocol.lower(): True}
        for row in PARAMETERS:
            value = getattr(self, row.attribute)
            if {"always": True, "set": value, "given": value is not None,
                    "udp": self.protocol == "UDP"}[row.sent]:
                _, _, to_sent = _KINDS[row.kind]
                document[row.key] = to_sent(value)
        document["client_version"] = IPERF_VERSION
        return document

    @classmethod
    def from_json(cls, document):
        """Return the parameters of a client's document.

        Members that are missing have iperf3's defaults, members of the wrong type are
        ignored. Raises IperfError with iperf3's number for a value out of range (the last
        one decides, as in iperf3).
        """
        self, errors = cls(), []
        # iperf3: a document that is no object means all defaults.
        members = by_lower_name(document if isinstance(document, dict) else {})
        for protocol in ("tcp", "udp", "sctp", "quic"):
            if isinstance(members.get(protocol), bool):
                self.protocol = protocol.upper()
        for row in PARAMETERS:
            value = members.get(row.key.lower())
            is_kind, read, _ = _KINDS[row.kind]
            if is_kind(value):
                value = read(value)
                if (row.low is not None and value < row.low) or (
                        row.high is not None and value > row.high):
                    errors.append(row.error)
                else:
                    setattr(self, row.attribute, value)
        if self.reverse and self.bidirectional:
            errors.append(25)
        is_udp = self.protocol == "UDP"
        if self.length > MAX_BLOCK or (self.length < 1 and not is_udp):
            errors.append(7)
        elif is_udp and not MIN_UDP_BLOCK <= self.length <= MAX_UDP_BLOCK:
            errors.append(20)  # iperf3: also if there is none, by TCP's default
        if errors:
            raise IperfError(errors[-1])
        return self


StreamResult = collections.namedtuple(
    "StreamResult", "id bytes retransmits jitter errors omitted_errors packets omitted_packets"
                    " start_time end_time dropped facts")
StreamResult.__doc__ = """What one end reports of one stream.

Times and jitter in seconds; end_time, and the omitted counts, are None if they did not come.
dropped: datagrams that the receiving host had no room for; None if it is no pyperf3's, or
cannot tell. facts: what else a pyperf3 knows of it, a dict, if that was asked for; else None.
"""
StreamResult.__new__.__defaults__ = (None,)

DROPPED_KEY = "host_dropped_packets"  # our own
SERVER_OUTPUTS = ("server_output_text", "server_output_json")

Results = collections.namedtuple(
    "Results", "cpu_total cpu_user cpu_system has_retransmits congestion streams output facts")
Results.__doc__ = """What one end reports of a test.

CPU figures in percent; streams: {id: StreamResult}; output: None or the member
(`server_output_text` or `server_output_json`, its value); facts: what a pyperf3 knows of its
host, a dict, if that was asked for, else None.
"""
Results.__new__.__defaults__ = (None,)
_FACTS_KEY = "pyperf3"  # our own, of the whole and of each stream


def clean_facts(document, depth=2):
    """Return an object of facts that the other end told, without what cannot be one.

    They are numbers, short words, short lists of numbers, and objects of such. Takes any value.
    """
    import re

    def is_plain(value):
        # Nothing is told in parts below 0.1; shares of tiny numbers would be infinite.
        return (isinstance(value, bool)
                or (_is_number(value) and (value == 0 or 0.001 <= abs(value) < 2 ** 63))
                or (isinstance(value, str) and re.match(r"[!-~]{1,64}\Z", value)))
    facts = collections.OrderedDict()
    for name, value in document.items() if isinstance(document, dict) else ():
        # Some take the last bits_per_second of a document for the result.
        if (len(facts) >= 100 or not re.match(r"[a-z][a-z0-9_]{0,39}\Z", name)
                or name == "bits_per_second"):
            continue
        if isinstance(value, dict) and depth > 1:
            facts[name] = clean_facts(value, depth - 1)
        elif is_plain(value) or (isinstance(value, list) and len(value) <= 8
                                 and all(_is_number(each) and is_plain(each) for each in value)):
            facts[name] = value
    return facts


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
    document["streams"] = []
    for stream in results.streams.values():
        members = dict(zip(StreamResult._fields, stream))
        dropped, facts = members.pop("dropped"), members.pop("facts")
        if dropped is not None:
            members[DROPPED_KEY] = dropped
        if facts is not None:
            members[_FACTS_KEY] = facts
        document["streams"].append(members)
    if results.facts is not None:
        document[_FACTS_KEY] = results.facts
    return document


def _refusal(text):
    return IperfError(117, OSError(_EPROTO, text))


def _number_of(members, name, default=None):
    """Return a number out of a JSON object. Raises IperfError 117."""
    value = members.get(name, default)
    if not _is_number(value):
        raise _refusal("%s is missing or no number" % name)
    return value


def results_from_json(document, ids):
    """Return the Results of the other end.

    ids: the ids of the test's streams; an unknown one is error 208. Raises IperfError 117 if
    a member that iperf3 requires is missing or no number.
    """
    if not isinstance(document, dict):
        raise _refusal("no JSON object")
    members, cpu = by_lower_name(document), []
    for name in ("cpu_util_total", "cpu_util_user", "cpu_util_system"):
        value = float(max(-2 ** 63, min(2 ** 63, _number_of(members, name))))
        cpu.append(value if value == value else 0.0)
    has_retransmits = to_integer(_number_of(members, "sender_has_retransmits"))
    rows = members.get("streams")
    if not isinstance(rows, list):
        raise _refusal("streams is missing or no array")
    streams = {}
    for row in rows:
        stream = _stream_result_from_json(row)
        if stream.id not in ids:
            raise IperfError(208)
        streams[stream.id] = stream
    congestion = members.get("congestion_used")
    if not isinstance(congestion, str) or len(congestion) > 64 or not all(
            "!" <= letter <= "~" for letter in congestion):
        congestion = None
    output = None
    for name, kind in zip(SERVER_OUTPUTS, (str, dict)):
        if isinstance(members.get(name), kind):
            output = (name, members[name])
    return Results(cpu[0], cpu[1], cpu[2], has_retransmits, congestion, streams, output,
                   _facts_in(members))


def _facts_in(members):
    """Return the facts that an object of the results has, None if it has none."""
    return clean_facts(members[_FACTS_KEY]) if _FACTS_KEY in members else None


def _stream_result_from_json(row):
    """Return the StreamResult of an element of `streams`. Raises IperfError 117."""
    if not isinstance(row, dict):
        raise _refusal("a stream is no object")
    row = by_lower_name(row)
    values = {name: to_integer(_number_of(row, name))
              for name in ("id", "bytes", "retransmits", "errors", "packets")}
    values["bytes"] = max(0, values["bytes"])
    omitted = [name for name in ("omitted_errors", "omitted_packets")
               if row.get(name) is not None]
    if len(omitted) == 1:
        raise _refusal("one of the omitted counts is missing")
    values.update(omitted_errors=None, omitted_packets=None)
    values.update((name, to_integer(_number_of(row, name))) for name in omitted)
    for name, default in (("jitter", None), ("start_time", 0.0), ("end_time", -1.0)):
        value = _number_of(row, name, default)
        values[name] = float(value) if abs(value) < 1e15 else 0.0
    if values["end_time"] < 0:
        values["end_time"] = None  # 3.1 does not send it
    dropped = row.get(DROPPED_KEY)
    values["dropped"] = max(0, to_integer(dropped)) if _is_number(dropped) else None
    return StreamResult(facts=_facts_in(row), **values)


def results_limit(count, facts=False):
    """Return how many bytes of JSON the results of `count` streams may have, without output.

    facts: they were asked for.
    """
    # A stream takes 250, with facts 1400; those of a host 2000.
    return 16384 + (4096 if facts else 1024) * count


def stream_ids(count):
    """Return iperf3's ids of `count` streams: 1, 3, 4, 5, ..."""
    return [1] + list(range(3, count + 2)) if count else []


###############################################################################
# system ######################################################################
###############################################################################
# Processes, memory, CPU time, descriptors, files: what differs from system to
# system. Each is probed, and has a plain twin or a clear error. Nothing here
# knows of tests.

_LINUX = sys.platform.startswith("linux")
# Numbers of Linux that differ on a few old architectures.
_USUAL = _LINUX and not getattr(os, "uname", lambda: (0, 0, 0, 0, ""))()[4].startswith(
    ("alpha", "mips", "parisc", "sparc"))
CAN_SEND_FILES = hasattr(os, "sendfile")


def cpu_times():
    """Return the (user, system) CPU seconds of this process so far."""
    if resource is not None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime, usage.ru_stime
    return os.times()[:2]


def set_affinity(cpu):
    """Let this process run on one CPU; returns the CPUs that it had. Raises IperfError 132."""
    try:
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {cpu})
        return before
    except AttributeError:
        raise IperfError(132, system_error(errno.ENOSYS))
    except OSError as error:
        raise IperfError(132, error)


def system_info():
    """Return sysname, nodename, release, version and machine of this host, as iperf3 does."""
    if hasattr(os, "uname"):
        return " ".join(os.uname())
    import sysconfig
    # Windows; platform.uname() asks a service, or another program, which may hang
    release, build = "%d.%d" % sys.getwindowsversion()[:2], sys.getwindowsversion()[2]
    return " ".join(("Windows", socket.gethostname(), release, "%s.%d" % (release, build),
                     sysconfig.get_platform().rpartition("-")[2].upper()))


@functools.lru_cache(maxsize=None)
def cache_size(level):
    """Return the bytes of a CPU's cache of that level, 0 where nobody can tell (all but Linux)."""
    for index in range(8):
        folder = "/sys/devices/system/cpu/cpu0/cache/index%d/" % index
        size = _read_words(folder + "size")
        if size and _read_words(folder + "level") == [b"%d" % level] and size[0].endswith(b"K"):
            return int(size[0][:-1]) * 1024
    return 0


def kernel_version():
    """Return the first numbers of the kernel's version, (6, 1) or (6,)."""
    release = os.uname().release if hasattr(os, "uname") else ""
    return tuple(int(word) for word in release.split(".")[:2] if word.isdigit())


def replaced_calls():
    """Return which package has put its own in place of calls that block, None if none has.

    gevent and eventlet do that, so that threads are none and a socket never blocks.
    """
    start = getattr(sys.modules.get("_thread"), "start_new_thread", None)
    for each in (socket.socket, select.select, time.sleep, start):
        package = str(getattr(each, "__module__", None)).partition(".")[0]
        if package in ("gevent", "eventlet"):
            return package
    if isinstance(socket.socket, type) and issubclass(socket.socket, socket.SocketType):
        return None
    return str(getattr(socket.socket, "__module__", None))


# Of a control group's memory: where it is mounted, its name in /proc/self/cgroup, its limits, its
# use, what of that is given back when it is needed.
_MEMORY_GROUPS = (
    ("/sys/fs/cgroup", b"", ("memory.max", "memory.high"), "memory.current",
     (b"inactive_file", b"active_file", b"slab_reclaimable")),
    ("/sys/fs/cgroup/unified", b"", ("memory.max", "memory.high"), "memory.current",
     (b"inactive_file", b"active_file", b"slab_reclaimable")),
    ("/sys/fs/cgroup/memory", b"memory", ("memory.limit_in_bytes",), "memory.usage_in_bytes",
     (b"total_inactive_file", b"total_active_file")),
)


def _read_words(path):
    """Return the words of a small file of the system, none if it cannot be read."""
    try:
        with open(path, "rb", 0) as handle:
            return handle.read(65536).split()
    except OSError:
        return []


def _group_memory(folder, limits, use, spare):
    """Return how many bytes a control group may still take, None without a limit."""
    limits = [int(word) for name in limits for word in _read_words(folder + "/" + name)
              if word.isdigit() and int(word) < 2 ** 60]  # version 1 has a number for none
    used = _read_words(folder + "/" + use)
    if not limits or not used:
        return None
    words = _read_words(folder + "/memory.stat")
    return min(limits) - int(used[0]) + sum(
        int(value) for name, value in zip(words[0::2], words[1::2]) if name in spare)


def _control_groups():
    """Return (controllers, path) of each control group of this program; b"" controls version 2."""
    try:
        with open("/proc/self/cgroup", "rb") as handle:
            rows = [line.rstrip(b"\n").split(b":", 2)[1:] for line in handle]
    except OSError:
        return []
    return [(names.split(b","), os.fsdecode(path)) for names, path in rows]


def free_memory():
    """Return how many bytes more this host, and its control groups, let this program take.

    None where nobody can tell (all but Linux).
    """
    words = _read_words("/proc/meminfo")
    free = [int(words[at + 1]) * 1024 for at, word in enumerate(words[:-1])
            if word == b"MemAvailable:"]
    for root, controller, limits, use, spare in _MEMORY_GROUPS:
        for controllers, path in _control_groups():
            if controller in controllers:
                # Upwards: in a container some of the path may not be there, or be another one.
                while True:
                    free.append(_group_memory(root + path.rstrip("/"), limits, use, spare))
                    if not path.strip("/"):
                        break
                    path = path.rpartition("/")[0]
    return min((each for each in free if each is not None), default=None)


def spare_address_space():
    """Let threads take little of it where it is limited (ulimit -v), else they take 72 MiB each."""
    if resource is None or not hasattr(resource, "RLIMIT_AS") or (
            resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY):
        return
    with suppress(ImportError, AttributeError, OSError, TypeError, ValueError, RuntimeError):
        import threading
        threading.stack_size(512 * 1024)
        import ctypes
        ctypes.CDLL(None).mallopt(-8, 1)  # glibc's M_ARENA_MAX: one heap for all


def offer_to_killer():
    """Let this process, rather than its parent, be ended where memory runs out (Linux)."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "wb", 0) as handle:
        handle.write(b"1000")


def can_fork():
    """Return whether this program can fork safely: it must have no other threads."""
    if not hasattr(os, "fork") or mmap is None:
        return False
    threading = sys.modules.get("threading")
    return threading is None or threading.active_count() == 1


_MOST_DESCRIPTORS = 65536  # that are looked at where nobody can tell which are open


def descriptor_limit():
    """Return how many descriptors this process may have, 1024 where nobody can tell."""
    if resource is None:
        return 1024
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2 ** 31 if limit == resource.RLIM_INFINITY else limit


def is_stopped(pid):
    """Return whether a process was stopped by a signal or a debugger (Linux; elsewhere False)."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as handle:
            return handle.read().rpartition(b")")[2].split()[0] in (b"T", b"t")  # proc(5)
    except (OSError, IndexError):
        return False


def prefer_throughput():
    """Ask the scheduler not to let this thread interrupt others when it wakes up (Linux)."""
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


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
            end = max(int(name) for name in names) + 1
            break
    else:
        end = min(descriptor_limit(), _MOST_DESCRIPTORS)  # the limit may be a billion
    begin = 0
    for descriptor in sorted(keep) + [end]:
        if begin < descriptor:  # of no range at all some Pythons make everything
            os.closerange(begin, descriptor)
        begin = max(begin, descriptor + 1)


def open_unblocked(path, flags, number=14, mode=0o600):
    """Return a file, unbuffered; a pipe without another end is an error, not a wait.

    mode: of a new file. Raises IperfError `number`.
    """
    waits_not = getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags | waits_not | getattr(os, "O_BINARY", 0), mode)
        with on_error(os.close, descriptor):  # it is a directory
            if waits_not:
                os.set_blocking(descriptor, True)
            return os.fdopen(descriptor, "wb" if flags & os.O_WRONLY else "rb", 0)
    except (OSError, ValueError) as error:
        raise IperfError(number, error if isinstance(error, OSError)
                         else OSError(errno.EINVAL, str(error)))


def is_pipe(handle):
    return stat.S_ISFIFO(os.fstat(handle.fileno()).st_mode)


def file_size(handle):
    """Return the size of an open file, None of what has none: a pipe, a terminal."""
    mode = os.fstat(handle.fileno()).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        return None
    here = handle.tell()
    size = handle.seek(0, os.SEEK_END)
    handle.seek(here)
    return size


def open_payload(path, writing=False):
    """Return the file of -F, unbuffered; calls on a pipe return None where they would block.

    Raises IperfError 14.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if writing else os.O_RDONLY
    try:
        handle = open_unblocked(path, flags)
    except IperfError as error:
        # A socket, or another user's: it cannot be opened again.
        own = path[len("/dev/fd/"):] if path.startswith("/dev/fd/") else ""
        own = {"/dev/stdin": "0", "/dev/stdout": "1"}.get(path, own)
        if own.isdigit():
            with suppress(OSError):
                return os.fdopen(os.dup(int(own)), "wb" if writing else "rb", 0)
        if error.errno == errno.ENXIO:
            is_socket = stat.S_ISSOCK(os.stat(path).st_mode)
            error.cause = OSError(errno.EPIPE, "%s %s" % (
                path, "is a socket" if is_socket else "is a pipe that nobody reads"))
        raise error
    if is_pipe(handle) and hasattr(select, "poll") and hasattr(os, "set_blocking"):
        os.set_blocking(handle.fileno(), False)
    return handle


def _trusted_users():
    """Return the numbers of those whose links are followed: this user, and root."""
    return getattr(os, "geteuid", lambda: 0)(), 0


def open_safely(path, flags, number, mode):
    """Return a file like open_unblocked(), but none that another user could have put there.

    Neither through their symbolic link, nor theirs in a folder that everybody may write to, nor
    one with another name elsewhere: a program of root's would write where they point it to.
    Raises IperfError `number`.
    """
    mine = _trusted_users()
    try:
        if not (os.path.islink(path) and os.lstat(path).st_uid in mine):
            flags |= getattr(os, "O_NOFOLLOW", 0)
        handle = open_unblocked(path, flags, number, mode)
        with on_error(handle.close):
            found = os.fstat(handle.fileno())
            folder = os.stat(os.path.dirname(os.path.abspath(path)))
            if folder.st_mode & stat.S_ISVTX and (stat.S_ISREG(found.st_mode)
                                                  or stat.S_ISFIFO(found.st_mode)):
                if found.st_uid not in mine or found.st_nlink > 1:
                    raise OSError(errno.EPERM, "it belongs to another user")
            return handle
    except (OSError, ValueError) as error:
        raise IperfError(number, error if isinstance(error, OSError) else str(error))
    except IperfError as error:
        if error.errno == errno.ELOOP:
            error = IperfError(number, "it is a symbolic link of another user")
        raise error


def _folder_of(path):
    """Return the folder in which a file is replaced, None if it is none: a device, or a pipe.

    Through a symbolic link of one's own, but not through another user's: see open_safely().
    Raises OSError.
    """
    if os.path.islink(path) and os.lstat(path).st_uid not in _trusted_users():
        raise OSError(errno.ELOOP, "it is a symbolic link of another user")
    place = os.path.realpath(path)
    if os.path.isdir(place):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if os.path.exists(path) and not os.path.isfile(path):  # `place` of a pipe may be none at all
        return None
    return os.path.dirname(place)


def check_replaceable(path, number):
    """Raise IperfError `number` if replace_file() could not write a file, as far as can be told."""
    try:
        folder = _folder_of(path)
        if folder is not None:
            if not os.path.isdir(folder):
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            if not os.access(folder, os.W_OK | os.X_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    except (OSError, ValueError) as error:
        raise IperfError(number, OSError(getattr(error, "errno", None) or errno.EINVAL, "%s: %s" % (
            path, system_text(error))))


def replace_file(path, data, number, mode=None):
    """Write a file such that a reader sees the old one or the new one, and never half of it.

    Everybody may read it, as far as the umask lets them; mode: or whatever it says. Raises
    IperfError `number`.
    """
    import binascii
    try:
        if _folder_of(path) is None:
            with open_safely(path, os.O_WRONLY, number, 0o666) as handle:
                write_whole(handle, data)
            return
        path = os.path.realpath(path)
        beside = "%s.%s.tmp" % (path, binascii.hexlify(os.urandom(6)).decode("ascii"))
        try:
            with open_unblocked(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, number,
                                0o666) as handle:
                if mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(handle.fileno(), mode)
                write_whole(handle, data)
            os.replace(beside, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside)
            raise
    except (OSError, ValueError) as error:
        raise IperfError(number, error if isinstance(error, OSError) else str(error))


def write_whole(handle, data):
    """Write bytes to an unbuffered file, all of them."""
    view = memoryview(data)
    while view:
        view = view[handle.write(view):]


def lock_briefly(handle):
    """Keep other programs that do so, too, off a file until it is closed.

    They are soon through: who has it for longer is not waited for.
    """
    with suppress(AttributeError, OSError):  # there is no such call, or not for this file
        for _ in range(200):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(0.001)


def read_file(path, number, limit=-1):
    """Return the bytes of a file, the first `limit` at most. Raises IperfError `number`."""
    try:
        with open(path, "rb") as handle:
            return handle.read(limit)
    except (OSError, ValueError) as error:
        raise IperfError(number, "%s: %s" % (path, system_text(error)))


def memory_file():
    """Return a file without a name, in memory where the system can. Raises OSError, ImportError."""
    try:
        return os.fdopen(os.memfd_create("pyperf3"), "w+b")
    except (AttributeError, OSError):  # a sandbox may refuse it
        import tempfile
        return tempfile.TemporaryFile()


def payload_file(block):
    """Return an unlinked file that holds `block`, for sendfile. Raises IperfError 200."""
    try:
        handle = memory_file()
        handle.write(block)
        handle.flush()
        return handle
    except ImportError as error:
        raise IperfError(200, OSError(errno.ENOSYS, "this Python has no module " + error.name))
    except OSError as error:
        raise IperfError(200, error)


###############################################################################
# sockets #####################################################################
###############################################################################
# Socket options, listeners: each option is probed, and where it fails
# there is a warning, a twin or an error. Nothing here knows of tests.

_AF_INET6 = getattr(socket, "AF_INET6", 0x7FFF)  # no family: every call refuses it
_IPPROTO_IPV6 = getattr(socket, "IPPROTO_IPV6", 41)  # Windows: since Python 3.8
_IPV6_V6ONLY = getattr(socket, "IPV6_V6ONLY", 26 if _LINUX else 27)
_SO_BINDTODEVICE = getattr(socket, "SO_BINDTODEVICE", 25 if _LINUX else None)
_TCP_CONGESTION = getattr(socket, "TCP_CONGESTION", 13 if _LINUX else None)
_TCP_MAXSEG = getattr(socket, "TCP_MAXSEG", None)
_SO_BUF_LOCK = 72  # whether the sizes of the buffers were set, and stay
_SOCKET_TCP_INFO = getattr(socket, "TCP_INFO", 11) if _LINUX else None
_IPV6_TCLASS = getattr(socket, "IPV6_TCLASS", 67 if _LINUX else None)
_MSG_TRUNC = getattr(socket, "MSG_TRUNC", 0) if _LINUX else 0
_MSG_WAITALL = getattr(socket, "MSG_WAITALL", 0)
_MSG_DONTWAIT = getattr(socket, "MSG_DONTWAIT", 0x40 if _LINUX else 0)
# Windows can not tell a call not to wait; and when SO_RCVTIMEO or SO_SNDTIMEO has ended a call
# there, "the socket state is indeterminate". So no call on a worker's socket waits there.
_CALLS_WAIT = bool(_MSG_DONTWAIT)
_SO_MAX_PACING_RATE = 47  # Linux
_SO_RCVBUFFORCE = 33  # Linux: a receive buffer beyond the system's limit, for root
_SO_TIMESTAMPNS = 35  # Linux: the time when a datagram came, with the datagram
_SO_TIMESTAMPING = 37  # Linux: the same, and more, by flags (linux/net_tstamp.h)
# Of what is sent, when the kernel took it over, in software, without the data.
_STAMP_DEPARTURES = 1 << 8 | 1 << 4 | 1 << 11
_IP_RECVTOS = getattr(socket, "IP_RECVTOS", 13 if _LINUX else None)
_IPV6_RECVTCLASS = getattr(socket, "IPV6_RECVTCLASS", 66 if _LINUX else None)
_MSG_ERRQUEUE = getattr(socket, "MSG_ERRQUEUE", 0x2000)  # Linux
# Linux (linux/in.h, in6.h): who may fragment, whether the error queue is used, the MTU.
_IP_MTU_DISCOVER, _IP_RECVERR, _IP_MTU = 10, 11, 14
_IPV6_MTU_DISCOVER, _IPV6_RECVERR, _IPV6_MTU = 23, 25, 24
_PMTUDISC_DONT, _PMTUDISC_PROBE = 0, 3  # let all fragment; never fragment, ask no cached MTU
_LEAST_MTU_6 = 1280  # bytes, of IPv6
NO_TOS = 255  # where the type of service is not known
_SO_RXQ_OVFL = 40  # Linux: how many a socket has dropped, with each datagram that it has not
_SO_MEMINFO = 55  # Linux: figures of a socket's memory, and of the datagrams that it dropped
_SK_MEMINFO_SNDBUF, _SK_MEMINFO_WMEM_QUEUED, _SK_MEMINFO_DROPS = 3, 5, 8
_DONT_FRAGMENT = (  # platform, option, value
    ("linux", 10, 2),  # IP_MTU_DISCOVER, IP_PMTUDISC_DO
    ("win32", 14, 1),  # IP_DONTFRAGMENT
    ("darwin", 28, 1), ("freebsd", 67, 1),  # IP_DONTFRAG
)
_IPV6_FLOWLABEL_MGR, _IPV6_FLOWINFO_SEND = 32, 33  # Linux
_IPPROTO_UDP = 17
_UDP_SEGMENT, _UDP_GRO = 103, 104  # Linux: datagrams that the kernel cuts, or joins
_UDP_MAX_SEGMENTS = 64  # of older kernels
_MOST_SEGMENTS = 128  # of newer ones
_MSG_WAITFORONE = 0x10000  # Linux: wait for the first datagram only
_TCP_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", 18 if _LINUX else None)
_TCP_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", 25 if _LINUX else None)
_IPPROTO_MPTCP = getattr(socket, "IPPROTO_MPTCP", 262 if _LINUX else None)
_IPPROTO_SCTP = getattr(socket, "IPPROTO_SCTP", 132)
_SCTP_INITMSG, _SCTP_NODELAY, _SCTP_DISABLE_FRAGMENTS, _SCTP_MAXSEG = 2, 3, 8, 13
_SCTP_SOCKOPT_BINDX_ADD = 100
_SIOCOUTQ = 0x5411  # Linux: bytes that were sent and not acknowledged
_SIOCINQ = 0x541B  # Linux: bytes that wait to be read


def _queued(sock, request):
    """Return the bytes in one of a socket's queues, 0 where nobody can tell."""
    if not _LINUX or fcntl is None:
        return 0
    try:
        return struct.unpack("i", fcntl.ioctl(sock.fileno(), request, b"\0\0\0\0"))[0]
    except OSError:
        return 0


def unacknowledged(sock):
    """Return how many bytes of a TCP connection are on their way, 0 where nobody can tell."""
    return _queued(sock, _SIOCOUTQ)


def unread(sock):
    """Return how many bytes wait in the kernel to be read, 1 for any where that is not known."""
    if _LINUX and fcntl is not None:
        return _queued(sock, _SIOCINQ)
    sock = getattr(sock, "socket", sock)  # of TLS
    try:
        return len(socket.socket.recv(sock, 1, socket.MSG_PEEK | _MSG_DONTWAIT))
    except (OSError, TypeError):  # nothing, or a QuicSocket
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
    """Set a TCP socket's congestion control. Raises IperfError 134 if there is no such one."""
    try:
        _set_option(sock, socket.IPPROTO_TCP, _TCP_CONGESTION, to_bytes(name), 134)
    except IperfError:
        raise IperfError(134)


def _set_option(sock, level, option, value, number):
    """Set a socket option; raises IperfError `number`, also if the system has it not (None)."""
    try:
        if option is None:
            raise system_error(errno.ENOPROTOOPT)
        sock.setsockopt(level, option, value)
    except OSError as error:
        raise IperfError(number, error)


def set_no_delay(sock):
    """Switch Nagle's algorithm off. Raises IperfError 122."""
    _set_option(sock, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1, 122)


def limit_unsent(sock, count):
    """Let a TCP socket be writable only while fewer bytes wait to be sent, if the system can.

    0: as usual.
    """
    with suppress(IperfError):
        _set_option(sock, socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, count, 122)


def set_mss(sock, size):
    """Limit the segment size of a socket that is not yet connected. Raises IperfError 123."""
    _set_option(sock, socket.IPPROTO_TCP, _TCP_MAXSEG, size, 123)


def set_user_timeout(sock, milliseconds):
    """Break a TCP connection that nobody acknowledges for so long. Raises IperfError 148."""
    _set_option(sock, socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, milliseconds, 148)


def set_keepalive(sock, idle, interval, count):
    """Let the system probe an idle TCP connection; 0 keeps its own value.

    Returns the (idle, interval, count) in use, None where they are not known. Raises IperfError
    155 to 158.
    """
    _set_option(sock, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1, 155)
    used = []
    for name, value, number in (("TCP_KEEPIDLE", idle, 156), ("TCP_KEEPINTVL", interval, 157),
                                ("TCP_KEEPCNT", count, 158)):
        option = getattr(socket, name, None)
        if option is None and name == "TCP_KEEPIDLE":
            option = getattr(socket, "TCP_KEEPALIVE", 16 if sys.platform == "darwin" else None)
        try:
            if option is None:
                raise system_error(errno.ENOPROTOOPT)
            if value:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
            used.append(sock.getsockopt(socket.IPPROTO_TCP, option))
        except OSError as error:
            if value:
                raise IperfError(number, error)
            return None
    return tuple(used)


def prepare_control(sock, settings):
    """Set the options of a control connection; returns what set_keepalive() does, or None.

    Raises IperfError; 36 with a remark if the probes would take longer than the idle time.
    """
    set_no_delay(sock)
    if settings.snd_timeout:
        set_user_timeout(sock, settings.snd_timeout)
    if settings.cntl_ka is None:
        return None
    used = set_keepalive(sock, *settings.cntl_ka)
    if used and used[0] <= used[1] * used[2]:
        raise IperfError(36, remark="Keepalive Idle time (%d) should be greater than"
                                    " Retries-interval (%d) times Retries-count (%d)\n" % used)
    return used


def set_tos(sock, tos):
    """Set the type of service and, on IPv6, the traffic class, 0..255. Raises IperfError."""
    if sock.family == _AF_INET6 and _IPV6_TCLASS is not None:
        try:
            sock.setsockopt(_IPPROTO_IPV6, _IPV6_TCLASS, tos)
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


def set_accepted_window(listener, size):
    """Set both buffers of the connections that a listener will accept, while it listens.

    Returns the sizes that they had for restore_accepted_window(), None where the system cannot
    take its word back (Linux before 5.16, others): then nothing is done. Raises IperfError.
    """
    try:
        if not _LINUX:
            return None
        listener.getsockopt(socket.SOL_SOCKET, _SO_BUF_LOCK)
    except OSError:
        return None
    before = set_window(listener, 0)
    set_window(listener, size)
    return before


def restore_accepted_window(listener, before):
    """Undo set_accepted_window(): the system chooses, and changes, the sizes again."""
    for option, size in zip((socket.SO_SNDBUF, socket.SO_RCVBUF), before):
        _try_option(listener, socket.SOL_SOCKET, option, size // 2)  # it doubles them
    _try_option(listener, socket.SOL_SOCKET, _SO_BUF_LOCK, 0)


def set_flow_label(sock, place):
    """Get an IPv6 flow label for a socket, and let it be sent (Linux). Raises IperfError 127.

    place: the host that is connected to next, and the label.
    """
    host, label = place
    try:
        if not _LINUX or sock.family != _AF_INET6:
            raise system_error(errno.ENOPROTOOPT)
        # struct in6_flowlabel_req: address, label, get, shared by all, create, no times
        request = socket.inet_pton(_AF_INET6, host.partition("%")[0]) + struct.pack(
            "!IBB", label, 0, 255) + struct.pack("=HHHI", 1, 0, 0, 0)
        sock.setsockopt(_IPPROTO_IPV6, _IPV6_FLOWLABEL_MGR, request)
        sock.setsockopt(_IPPROTO_IPV6, _IPV6_FLOWINFO_SEND, 1)
    except OSError:
        raise IperfError(127)


def forbid_fragments(sock):
    """Set the Do-Not-Fragment flag of what a socket sends over IPv4. Raises IperfError 145."""
    if sock.family == socket.AF_INET and not _set_dont_fragment(sock):
        raise IperfError(145)


def _set_dont_fragment(sock):
    """Set that flag, of IPv4; returns whether the system can."""
    return any(sys.platform.startswith(platform)
               and _try_option(sock, socket.IPPROTO_IP, option, value)
               for platform, option, value in _DONT_FRAGMENT)


def path_mtu(sock):
    """Return the MTU of a connected socket's path as far as Linux knows it, else 0."""
    level, option = (_IPPROTO_IPV6, _IPV6_MTU) if sock.family == _AF_INET6 else (
        socket.IPPROTO_IP, _IP_MTU)
    try:
        return sock.getsockopt(level, option) if _LINUX else 0
    except OSError:
        return 0


def enlarge_receive_buffer(sock, size):
    """Let a socket hold at least `size` bytes that were not read yet, or what the system allows."""
    options = ([_SO_RCVBUFFORCE] if _USUAL else []) + [socket.SO_RCVBUF]
    while size > 65536:
        for option in options:
            with suppress(OSError):  # not root; or, on BSD, beyond the limit
                if sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) < size:
                    sock.setsockopt(socket.SOL_SOCKET, option, size)
                return
        size //= 2


# Linux acknowledges at once what does not wake a reader yet as of 4.18, and wakes it where small
# segments fill the buffer as of 5.7.
WAKES_LATE = _LINUX and kernel_version() >= (5, 7)


def set_least(sock, count):
    """Let a receiving call of TCP wait for so many bytes (SO_RCVLOWAT); returns whether it will."""
    with suppress(OSError):
        # Of a buffer that has not grown by itself yet the kernel would change the size.
        if count == 1 or sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 4 * count:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            return True
    return False


def _memory_figures(sock):
    """Return what SO_MEMINFO has of a socket (Linux 4.12), None where nobody can tell."""
    if not _USUAL:
        return None
    try:
        return struct.unpack("=9I", sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36))
    except (OSError, struct.error):
        return None


def dropped_datagrams(sock):
    """Return how many datagrams a UDP socket dropped because its buffer was full.

    Returns None where nobody can tell.
    """
    figures = _memory_figures(sock)
    return figures and figures[_SK_MEMINFO_DROPS]


def send_buffer_use(sock):
    """Return the share of a TCP socket's send buffer that is in use, None if not known."""
    figures = _memory_figures(sock)
    return figures and figures[_SK_MEMINFO_WMEM_QUEUED] / max(1.0, figures[_SK_MEMINFO_SNDBUF])


def set_segmentation(sock, size):
    """Let the kernel cut what is sent into datagrams of `size` bytes (GSO; 0: no more).

    Returns whether it does.
    """
    return _LINUX and _try_option(sock, _IPPROTO_UDP, _UDP_SEGMENT, size)


def set_coalescing(sock, wanted=True):
    """Let the kernel join datagrams that come in a row (GRO), or not. Returns whether it obeys."""
    return _LINUX and _try_option(sock, _IPPROTO_UDP, _UDP_GRO, int(wanted))


def tell_drops(sock):
    """Let the kernel tell with what comes how many it dropped before, as drops_told() reads it.

    It counts what it has joined as one.
    """
    return _USUAL and _try_option(sock, socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)


def drops_told(ancillary):
    """Return how many were dropped before a message, modulo 2 ** 32."""
    for level, kind, value in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _SO_RXQ_OVFL):
            return struct.unpack_from("=I", value)[0]
    return 0


def stamp_arrivals(sock):
    """Let the kernel tell when each datagram came. Returns whether it does (Linux)."""
    return _USUAL and _try_option(sock, socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def prepare_probes(sock, tos):
    """Let a UDP socket tell when probes come, and with which type of service.

    tos: that of what it sends. Raises nothing: what the system cannot do is not told.
    """
    sock.setblocking(False)
    with suppress(IperfError):
        set_tos(sock, tos)
    stamp_arrivals(sock)
    keep_whole(sock)
    wide = sock.family == _AF_INET6
    option = _IPV6_RECVTCLASS if wide else _IP_RECVTOS
    if option is not None:
        _try_option(sock, _IPPROTO_IPV6 if wide else socket.IPPROTO_IP, option, 1)


def _timespec(value):
    """Return the seconds of a struct timespec."""
    seconds, nanoseconds = struct.unpack_from("@ll", value)
    return seconds + nanoseconds / 1e9


def receive_stamped(sock):
    """Return a datagram, when it came (seconds of the clock, None if nobody knows), and its TOS.

    Raises OSError.
    """
    if not hasattr(sock, "recvmsg"):
        return sock.recv(MAX_UDP_BLOCK), None, NO_TOS
    data, ancillary, _, _ = sock.recvmsg(MAX_UDP_BLOCK, 256)
    stamp, tos = None, NO_TOS
    for level, kind, value in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS) and _USUAL:
            stamp = _timespec(value)
        elif (level, kind) in ((socket.IPPROTO_IP, socket.IP_TOS), (_IPPROTO_IPV6, _IPV6_TCLASS)):
            tos = value[0] if len(value) == 1 else struct.unpack_from("@i", value)[0] & 255
    return data, stamp, tos


def stamp_departures(sock):
    """Let the kernel tell when it takes over what a UDP socket sends (Linux).

    departure_stamp() has to read that: until then the socket counts as ready.
    """
    if _USUAL:
        _try_option(sock, socket.SOL_SOCKET, _SO_TIMESTAMPING, _STAMP_DEPARTURES)


def departure_stamp(sock, earliest):
    """Return when the kernel took over what was sent last (seconds of the clock), None if unknown.

    earliest: before it was. Behind that it may still wait in a queue of this host's.
    """
    stamp = None
    if not _USUAL:
        return None
    with suppress(OSError):  # no more
        while True:
            _, ancillary, _, _ = sock.recvmsg(1, 512, _MSG_ERRQUEUE | _MSG_DONTWAIT)
            for level, kind, value in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPING):
                    told = _timespec(value)
                    if earliest <= told <= time.time():
                        stamp = told
    return stamp


def keep_whole(sock):
    """Let nobody fragment what a UDP socket sends, and this system not refuse what a path refused.

    Returns whether it can. What routers say of it comes by queued_errors() (Linux).
    """
    wide = sock.family == _AF_INET6
    if not _LINUX:
        if not wide:
            return _set_dont_fragment(sock)
        return _try_option(sock, _IPPROTO_IPV6, 14 if os.name == "nt" else 62, 1)  # IPV6_DONTFRAG
    # One of IPv6 may carry IPv4, too.
    done = _try_option(sock, socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_PROBE)
    _try_option(sock, socket.IPPROTO_IP, _IP_RECVERR, 1)
    if wide:
        done = _try_option(sock, _IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE)
        _try_option(sock, _IPPROTO_IPV6, _IPV6_RECVERR, 1)
        _try_option(sock, _IPPROTO_IPV6, _IPV6_MTU, 0)  # let_fragment() is over
    return done


def let_fragment(sock):
    """Let all fragment what a UDP socket sends (Linux). Returns whether that can be."""
    if not _LINUX:
        return False
    done = _try_option(sock, socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_DONT)
    if sock.family == _AF_INET6:
        done = (_try_option(sock, _IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_DONT)
                and _try_option(sock, _IPPROTO_IPV6, _IPV6_MTU, _LEAST_MTU_6))
    return done


QueuedError = collections.namedtuple("QueuedError", "cause mtu host data")
QueuedError.__doc__ = """What became of a datagram that a UDP socket sent.

cause: TOO_LARGE_HERE, TOO_LARGE (a router says so), NO_PORT (it arrived, and nobody listens), None
(something else); mtu: in the place where it was too large, 0 if that was not told; host: the
address of who says so; data: its first bytes, as far as they were told.
"""
TOO_LARGE_HERE, TOO_LARGE, NO_PORT = "too large here", "too large", "no port"
# By origin, type and code (linux/errqueue.h; ICMP, ICMPv6).
_CAUSES = {(2, 3, 4): TOO_LARGE, (3, 2, 0): TOO_LARGE, (2, 3, 3): NO_PORT, (3, 1, 4): NO_PORT}


def queued_errors(sock):
    """Return the QueuedErrors of a socket that keep_whole() prepared; () but on Linux."""
    errors = []
    with suppress(OSError, AttributeError):  # no more; no recvmsg()
        while _LINUX and len(errors) < 100:
            data, ancillary, _, _ = sock.recvmsg(256, 512, _MSG_ERRQUEUE | _MSG_DONTWAIT)
            for level, kind, value in ancillary:
                wide = (level, kind) == (_IPPROTO_IPV6, _IPV6_RECVERR)
                if wide or (level, kind) == (socket.IPPROTO_IP, _IP_RECVERR):
                    errors.append(_decode_error(data, value, wide))
    return errors


def _decode_error(data, value, wide):
    """Return the QueuedError of a struct sock_extended_err, and the address behind it."""
    number, origin, kind, code, mtu = struct.unpack_from("=IBBBxI", value)
    cause, host = _CAUSES.get((origin, kind, code)), None
    if origin == 1 and number == errno.EMSGSIZE:
        cause = TOO_LARGE_HERE
    family = struct.unpack_from("=H", value, 16)[0] if len(value) >= 24 else 0
    if family == _AF_INET6 and len(value) >= 40:
        host = socket.inet_ntop(_AF_INET6, value[24:40])
    elif family == socket.AF_INET:
        host = socket.inet_ntoa(value[20:24])
    return QueuedError(cause, mtu, host and plain_address((host, 0))[0], data)


def segments(size):
    """Return sendmsg()'s ancillary data that lets the kernel cut this message (GSO)."""
    return [(_IPPROTO_UDP, _UDP_SEGMENT, struct.pack("=H", size))]


def segment_size(ancillary):
    """Return the size of the datagrams that the kernel joined into a message (GRO), else 0."""
    for level, kind, value in ancillary:
        if (level, kind) == (_IPPROTO_UDP, _UDP_GRO):
            return struct.unpack_from("=i", value)[0]
    return 0


def is_ready(descriptors, seconds, writing=False):
    """Return whether one of them can be read, or written to, after `seconds` at most."""
    if not descriptors:
        time.sleep(seconds)
        return False
    if hasattr(select, "poll"):
        poll = select.poll()
        for each in descriptors:
            poll.register(each, select.POLLOUT if writing else select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    lists = ([], descriptors, []) if writing else (descriptors, [], [])
    return any(select.select(*(lists + (seconds,))))


def missing_offloads():
    """Return which of GSO and GRO this system cannot do for UDP."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            able = (("GSO", set_segmentation(sock, DEFAULT_UDP_BLOCK)),
                    ("GRO", set_coalescing(sock)))
    except OSError:
        able = (("GSO", False), ("GRO", False))
    return [name for name, is_there in able if not is_there]


def _try_option(sock, level, option, value):
    try:
        sock.setsockopt(level, option, value)
        return True
    except OSError:
        return False


def set_pacing(sock, rate):
    """Let the kernel pace a socket at `rate` bit/s (Linux). Raises OSError."""
    if not _USUAL:
        raise system_error(errno.ENOPROTOOPT)
    value = struct.pack("=Q", min(rate // 8, 2 ** 63))
    sock.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, value)


def bind_device(sock, device):
    """Bind a socket to a network device.

    Raises IperfError 143 where this user may not, 146 where nobody can; OSError if there is no
    such device.
    """
    if _SO_BINDTODEVICE is None:
        raise IperfError(146)
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, os.fsencode(device) + b"\0")
    except PermissionError as error:
        raise IperfError(143, error)


_CALL_TIMEOUT = 0.1  # seconds after which a blocked call returns, so that counters are prompt


def set_timeouts(sock, seconds):
    """Let blocking calls on a socket return after `seconds` (Linux, macOS, BSD)."""
    microseconds = int(seconds * 1000000)
    for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
        for layout in ("@ll", "@qq"):  # the latter with 32 bits, and times of 64 (Debian 13)
            if _try_option(sock, socket.SOL_SOCKET, option,
                           struct.pack(layout, *divmod(microseconds, 1000000))):
                break  # without any, the stop at the end still wakes a call


def plain_address(address):
    """Return (host, port) of a socket address, IPv4-mapped addresses as IPv4."""
    host, port = address[0], address[1]
    if host.startswith("::ffff:") and "." in host:
        host = host[7:]
    return host, port


def place_text(address, local=None, device=None):
    """Return a socket address, and where on this host what leads there begins, for readers."""
    text = "%s port %d" % plain_address(address)
    if local:
        text += " from " + (place_text(local) if local[1] else local[0])
    return text + (" on " + device if device else "")


def families(settings):
    """Return the address family that -4 or -6 asks for, AF_UNSPEC without either."""
    if settings.version4:
        return socket.AF_INET
    if settings.version6:
        return _AF_INET6
    return socket.AF_UNSPEC


_REFUSALS = (errno.ENOSYS, errno.EPERM, errno.EACCES)  # of a sandbox, of what Python offers


def can_gather(sock):
    """Return whether several blocks may go in one call, of which an empty one is tried."""
    try:
        sock.sendmsg([])
    except AttributeError:
        return False
    except OSError as error:
        return error.errno not in _REFUSALS
    return True


def stream_socket(family, multipath=False):
    """Return a TCP socket; a multipath one if that is wanted and the system can.

    Raises OSError.
    """
    if multipath and _IPPROTO_MPTCP is not None:
        with suppress(OSError):
            return socket.socket(family, socket.SOCK_STREAM, _IPPROTO_MPTCP)
    return socket.socket(family, socket.SOCK_STREAM)


def datagram_socket(family):
    """Return a UDP socket. Raises OSError."""
    return socket.socket(family, socket.SOCK_DGRAM)


def sctp_socket(family):
    """Return an SCTP socket of the one-to-one style. Raises OSError."""
    return socket.socket(family, socket.SOCK_STREAM, _IPPROTO_SCTP)


def has_multipath():
    """Return whether this system can do MPTCP."""
    with stream_socket(socket.AF_INET, True) as sock:
        return sock.proto == _IPPROTO_MPTCP


def name_bytes(host):
    """Return a host's name as the system's resolver takes it, which judges it as for iperf3.

    Python's own codec has complaints of its own; and in a locale of ASCII it gets the bytes of a
    UTF-8 name one by one.
    """
    data = host.encode("utf-8", "surrogateescape")
    try:
        text = data.decode("utf-8")
        return text.encode("idna") if len(text) < len(data) else data
    except UnicodeError:
        return data


def open_listener(host, port, family, device=None, window=0, multipath=False):
    """Return a listening TCP socket, non-blocking.

    window: size of the socket buffers, which connections inherit; 0 leaves them.
    multipath: let connections in over MPTCP, too, if the system can.
    host: None for all addresses; then, with AF_UNSPEC, IPv6 and IPv4 both come in through
    one socket where the system has IPv6, else IPv4 alone.
    Raises IperfError 102.
    """
    try:
        if host is None:
            candidates = [family] if family != socket.AF_UNSPEC else (
                [_AF_INET6] if socket.has_ipv6 else []) + [socket.AF_INET]
            places = [(each, ("::" if each != socket.AF_INET else "0.0.0.0", port))
                      for each in candidates]
        else:
            places = [(row[0], row[4]) for row in socket.getaddrinfo(
                name_bytes(host), port, family, socket.SOCK_STREAM, 0, socket.AI_PASSIVE)]
    except OSError as error:
        raise IperfError(102, error, remark="%s port %d" % (host, port))
    for number, (each, address) in enumerate(places):
        try:
            sock = stream_socket(each, multipath)
            with on_error(sock.close):
                if device:
                    bind_device(sock, device)
                if os.name == "posix":
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if each != socket.AF_INET:
                    sock.setsockopt(_IPPROTO_IPV6, _IPV6_V6ONLY,
                                    int(family == each or host is not None))
                if window:
                    set_window(sock, window)
                sock.bind(address)
                sock.listen(512)
                sock.setblocking(False)
                return sock
        except OSError as error:
            lacking = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)
            if number + 1 == len(places) or error.errno not in lacking:
                raise IperfError(102, error, remark=place_text(address, None, device))


def close_all(sockets):
    """Close sockets, or what stands for them."""
    for sock in sockets:
        sock.close()


def open_datagram_socket(family, place, device=None, prepare=None):
    """Return a UDP socket, non-blocking, bound to a socket address that others may share.

    prepare: called with the socket before it is bound. Raises IperfError 202.
    """
    try:
        sock = datagram_socket(family)
        with on_error(sock.close):
            sock.setblocking(False)
            if device:
                bind_device(sock, device)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if not _LINUX and hasattr(socket, "SO_REUSEPORT"):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # macOS, BSD
            if prepare:
                prepare(sock)
            sock.bind(place)
            return sock
    except OSError as error:
        raise IperfError(202, error)


def _add_addresses(sock, addresses):
    """Let an SCTP socket use further local socket addresses. Raises OSError."""
    for place in addresses:
        if sock.family == socket.AF_INET:
            packed = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(place[1]),
                                 socket.inet_aton(place[0]))
        else:
            packed = struct.pack("=HHI16sI", _AF_INET6, socket.htons(place[1]), 0,
                                 socket.inet_pton(_AF_INET6, place[0]), place[3])
        sock.setsockopt(_IPPROTO_SCTP, _SCTP_SOCKOPT_BINDX_ADD, packed)


def _set_outgoing_streams(sock, count):
    if not 0 <= count <= 65535:
        raise IperfError(138)
    _set_option(sock, _IPPROTO_SCTP, _SCTP_INITMSG, struct.pack("@HHHH", count, 0, 0, 0), 138)


def _sctp_setter(option, layout, number):
    """Return a function (sock, value) that sets an option of RFC 6458, or raises IperfError."""
    def set_option(sock, value):
        _set_option(sock, _IPPROTO_SCTP, option, struct.pack(layout, int(value)), number)
    return set_option


def _enlarge_buffers(sock, sizes):
    """Let a UDP socket hold `sizes`: bytes that were not read yet, and those of one datagram."""
    room, block = sizes
    enlarge_receive_buffer(sock, room)
    if sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < block:
        _try_option(sock, socket.SOL_SOCKET, socket.SO_SNDBUF, block + 1024)


SocketOption = collections.namedtuple("SocketOption", "name protocols moments set warning")
SocketOption.__doc__ = """One thing that is set on the sockets of data connections.

name: of what is wanted; protocols: of tests; moments: C before a client connects, L on a server's
socket to which streams will come, or on one of no use beforehand, A on one that was accepted;
set: a function (sock, value wanted) that raises IperfError or OSError; warning: what to say
where the test goes on without it ("" nothing), None where it does not.
"""

SOCKET_OPTIONS = tuple(SocketOption(*row) for row in (
    ("no_delay", "TCP", "CA", lambda sock, _: set_no_delay(sock), None),
    ("no_delay", "SCTP", "CL", _sctp_setter(_SCTP_NODELAY, "@i", 122), None),
    ("user_timeout", "TCP", "CA", set_user_timeout, None),
    ("mss", "TCP", "CL", set_mss, None),
    ("mss", "SCTP", "CL", _sctp_setter(_SCTP_MAXSEG, "@4xI", 123), None),
    ("outgoing_streams", "SCTP", "C", _set_outgoing_streams, None),
    ("fragments", "SCTP", "CL", _sctp_setter(_SCTP_DISABLE_FRAGMENTS, "@i", 137), None),
    ("addresses", "SCTP", "C", _add_addresses, None),
    ("window", "TCP", "CLA", set_window, None),
    ("window", "SCTP UDP", "CL", set_window, None),
    # So early, since the kernel takes a while to begin with it.
    ("stamps", "UDP", "CL", lambda sock, _: stamp_arrivals(sock), None),
    ("buffers", "UDP QUIC", "CL", _enlarge_buffers, None),
    # Their sizes are known, whatever fails from here on.
    ("note_buffers", "TCP SCTP UDP QUIC", "C", lambda sock, note: note(set_window(sock, 0)), None),
    ("tos", "TCP SCTP", "CA", set_tos, None),  # not inherited from the listener
    ("tos", "UDP QUIC", "CL", set_tos, None),
    ("dont_fragment", "UDP", "CL", lambda sock, _: forbid_fragments(sock), None),
    ("dont_fragment", "QUIC", "CL", lambda sock, _: forbid_fragments(sock), ""),
    ("pacing", "TCP", "CLA", set_pacing, "Unable to set socket pacing"),
    ("pacing", "UDP QUIC", "CL", set_pacing, "Unable to set socket pacing"),
    ("flow_label", "TCP UDP QUIC", "C", set_flow_label, None),
    ("congestion", "TCP", "C", set_congestion, None),
    ("congestion", "TCP", "LA", set_congestion, "TCP congestion control algorithm not supported"),
))


def set_options(sock, protocol, moment, wanted, warn):
    """Set what is wanted of SOCKET_OPTIONS: values by name, of which a false one is not.

    warn: called with the text of a warning. Raises IperfError, OSError.
    """
    for option in SOCKET_OPTIONS:
        value = wanted.get(option.name)
        if value and moment in option.moments and protocol in option.protocols.split():
            try:
                option.set(sock, value)
            except (IperfError, OSError):
                if option.warning is None:
                    raise
                if option.warning:
                    warn(option.warning)


###############################################################################
# facts #######################################################################
###############################################################################
# What the system tells of a connection, and of this host: TCP_INFO, the interface
# of a route, limits, counters. All is read without root; what a system, or a
# container, lacks is left out. Nothing here knows of tests.

# Linux's struct tcp_info (linux/tcp.h) as it grew: the first 104 bytes are in all of 2.6 and
# later; pacing_rate 3.15, bytes_acked 4.1, notsent_bytes 4.6, delivery_rate 4.9, busy_time 4.10,
# delivered 4.18, bytes_sent 4.19, rcv_ooopack 5.4, rcv_wnd 6.2, total_rto 6.7, received_ce 6.18.
_TCP_INFO_FIELDS = (
    ("B", "state ca_state retransmits probes backoff options wscale app_limited"),
    ("I", "rto ato snd_mss rcv_mss unacked sacked lost retrans fackets last_data_sent"
          " last_ack_sent last_data_recv last_ack_recv pmtu rcv_ssthresh rtt rttvar snd_ssthresh"
          " snd_cwnd advmss reordering rcv_rtt rcv_space total_retrans"),
    ("Q", "pacing_rate max_pacing_rate bytes_acked bytes_received"),
    ("I", "segs_out segs_in notsent_bytes min_rtt data_segs_in data_segs_out"),
    ("Q", "delivery_rate busy_time rwnd_limited sndbuf_limited"),
    ("I", "delivered delivered_ce"),
    ("Q", "bytes_sent bytes_retrans"),
    ("I", "dsack_dups reord_seen rcv_ooopack snd_wnd rcv_wnd rehash"),
    ("H", "total_rto total_rto_recoveries"),
    ("I", "total_rto_time received_ce delivered_e1_bytes delivered_e0_bytes delivered_ce_bytes"
          " received_e1_bytes received_e0_bytes received_ce_bytes"),
    ("H", "accecn_fail_mode accecn_opt_seen"),
)
TcpInfo = collections.namedtuple("TcpInfo", [
    name for _, names in _TCP_INFO_FIELDS for name in names.split()])
TcpInfo.__doc__ = """The fields of Linux's struct tcp_info, -1 what a kernel lacks.

Times in us, but the four of last_... and total_rto_time in ms; rates in bytes a second; snd_cwnd,
unacked, lost in segments.
"""
_TCP_INFO_FORMATS = "".join(kind * len(names.split()) for kind, names in _TCP_INFO_FIELDS)
_TCP_INFO = struct.Struct("=" + _TCP_INFO_FORMATS)
_TCP_INFO_ENDS = tuple(itertools.accumulate(map(struct.calcsize, _TCP_INFO_FORMATS)))
_TCP_INFO_LEAST = 104  # bytes
_TCP_INFO_UNKNOWN = (-1,) * len(TcpInfo._fields)
TIMESTAMPS = 1  # of TcpInfo's `options`
_NO_MINIMUM = 2 ** 32 - 1  # min_rtt of a connection that has no round trip yet


def make_tcp_info(**fields):
    """Return a TcpInfo of which only these fields are known."""
    return TcpInfo._make(_TCP_INFO_UNKNOWN)._replace(**fields)


def decode_tcp_info(data):
    """Return the TcpInfo in a Linux struct tcp_info; what an old, short one lacks is -1.

    Returns None if even the count of retransmits is not there.
    """
    if len(data) < _TCP_INFO_LEAST:
        return None
    values = _TCP_INFO.unpack(data[:_TCP_INFO.size].ljust(_TCP_INFO.size, b"\0"))
    if len(data) < _TCP_INFO.size:
        known = sum(end <= len(data) for end in _TCP_INFO_ENDS)
        values = values[:known] + _TCP_INFO_UNKNOWN[known:]
    return TcpInfo._make(values)


def tcp_info(sock):
    """Return the TcpInfo of a connected socket, None where the system has none."""
    if _SOCKET_TCP_INFO is None:
        return None
    try:
        return decode_tcp_info(sock.getsockopt(socket.IPPROTO_TCP, _SOCKET_TCP_INFO, 512))
    except OSError:
        return None


def round_trip(sock):
    """Return the smoothed round-trip time of a TCP connection in seconds, 0.0 if unknown."""
    info = tcp_info(sock)
    return info.rtt / 1e6 if info else 0.0


def segment_facts(sock):
    """Return what a TCP connection may send in a segment, {} where nobody knows."""
    info = tcp_info(sock)
    return {name: getattr(info, name) for name in ("snd_mss", "advmss", "pmtu", "snd_wnd")
            if info and getattr(info, name) > 0}


def heard_seconds(sock):
    """Return how long ago the other end of a TCP connection acknowledged anything.

    0.0 where nobody can tell.
    """
    info = tcp_info(sock)
    return info.last_ack_recv / 1000.0 if info else 0.0


def datagram_room(sock):
    """Return the bytes that a UDP datagram may have on a TCP connection's path, 0 if not known."""
    segment = maximum_segment(sock)
    if not segment:
        return 0
    info = tcp_info(sock)
    # Linux leaves the room for timestamps out. The headers are of 20 bytes, and of 8.
    stamps = 12 if info and info.options & TIMESTAMPS else 0
    return min(segment + stamps + 20 - 8, MAX_UDP_BLOCK)


# What is told of a connection: (name, field of TcpInfo, factor). These count from its start ...
_COUNTED = (
    ("busy_us", "busy_time", 1), ("rwnd_limited_us", "rwnd_limited", 1),
    ("sndbuf_limited_us", "sndbuf_limited", 1), ("segments_sent", "data_segs_out", 1),
    ("segments_received", "data_segs_in", 1), ("retransmits", "total_retrans", 1),
    ("retransmitted_bytes", "bytes_retrans", 1), ("needless_retransmits", "dsack_dups", 1),
    ("reorderings", "reord_seen", 1), ("out_of_order", "rcv_ooopack", 1),
    ("delivered", "delivered", 1), ("delivered_ce", "delivered_ce", 1),
    ("received_ce", "received_ce", 1), ("rtos", "total_rto", 1),
    ("rto_recoveries", "total_rto_recoveries", 1), ("rto_time_us", "total_rto_time", 1000),
)
# ... and these are as they were last.
_STATES = (
    ("min_rtt_us", "min_rtt", 1), ("rtt_us", "rtt", 1), ("rttvar_us", "rttvar", 1),
    ("rto_us", "rto", 1), ("backoff", "backoff", 1), ("receiver_rtt_us", "rcv_rtt", 1),
    ("delivery_rate_bps", "delivery_rate", 8), ("pacing_rate_bps", "pacing_rate", 8),
    ("snd_mss", "snd_mss", 1), ("rcv_mss", "rcv_mss", 1), ("advmss", "advmss", 1),
    ("pmtu", "pmtu", 1), ("snd_cwnd_segments", "snd_cwnd", 1),
    ("snd_ssthresh_segments", "snd_ssthresh", 1), ("snd_wnd", "snd_wnd", 1),
    ("rcv_wnd", "rcv_wnd", 1), ("rcv_space", "rcv_space", 1), ("reordering", "reordering", 1),
    ("notsent_bytes", "notsent_bytes", 1), ("options", "options", 1), ("rehash", "rehash", 1),
)


def connection_facts(info, begin=None):
    """Return what a TcpInfo tells of a connection, as a dict without what the kernel lacks.

    begin: the TcpInfo from which on it counts.
    """
    facts = collections.OrderedDict()
    for name, field, factor in _COUNTED:
        value = getattr(info, field)
        if value >= 0:
            before = getattr(begin, field) if begin else 0
            facts[name] = max(0, value - before) * factor
    for name, field, factor in _STATES:
        value = getattr(info, field)
        # A sum of 64 bits that stands for "no limit" is no figure.
        if 0 <= value < 2 ** 48 and not (field == "min_rtt" and value == _NO_MINIMUM):
            facts[name] = value * factor
    return facts


_RTM_GETADDR, _NLM_F_DUMP, _IFA_ADDRESS, _IFA_LOCAL = 22, 0x300, 1, 2
_RTM_GETROUTE, _NLM_F_REQUEST, _RTA_DST, _RTA_OIF = 26, 1, 1, 4  # linux/rtnetlink.h


def host_addresses():
    """Return the addresses of this host, but for those that lead nowhere else, as texts."""
    found = []
    with suppress(AttributeError, OSError, struct.error):  # all but Linux; no netlink
        found += _addresses_of_devices()
    for family, far in ((socket.AF_INET, "192.0.2.1"), (_AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((far, 9))  # sends nothing; the system chooses where from
            found.append(sock.getsockname()[0])
    if not found:
        with suppress(OSError):
            found += [row[4][0] for row in socket.getaddrinfo(socket.gethostname(), None)]
    return [each for each in collections.OrderedDict.fromkeys(found)
            if not each.startswith(("127.", "169.254.", "fe80:")) and each not in ("::1", "::")]


def boot_id():
    """Return what tells this machine, since it started, from all others (Linux), else ""."""
    words = _read_words("/proc/sys/kernel/random/boot_id")
    return words[0].decode("ascii", "replace") if words else ""


def _addresses_of_devices():
    """Return the addresses of all devices, by Linux's rtnetlink. Raises OSError, struct.error."""
    found, kind = [], _RTM_GETADDR
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.settimeout(1.0)
        netlink.sendto(struct.pack("=IHHIIBBBBI", 24, _RTM_GETADDR, _NLM_F_REQUEST | _NLM_F_DUMP,
                                   1, 0, 0, 0, 0, 0, 0), (0, 0))
        while kind not in (2, 3):  # NLMSG_ERROR, NLMSG_DONE
            data, at = netlink.recv(65536), 0
            while at + 16 <= len(data) and kind not in (2, 3):
                size, kind = struct.unpack_from("=IH", data, at)
                end, inner = at + size, at + 24
                family = data[at + 16] if kind == _RTM_GETADDR - 2 else 0  # RTM_NEWADDR
                while family and inner + 4 <= end:
                    length, what = struct.unpack_from("=HH", data, inner)
                    if what == _IFA_LOCAL or what == _IFA_ADDRESS and family != socket.AF_INET:
                        found.append(socket.inet_ntop(family, data[inner + 4:inner + length]))
                    inner += max(4, length + 3 & ~3)
                at += max(16, size + 3 & ~3)
    return found


def route_device(place):
    """Return the name of the device over which packets to a socket address leave, None if unknown.

    Asks the kernel (rtnetlink), as `ip route get` does. place: as getpeername() returns it.
    """
    with suppress(AttributeError, OSError, struct.error):  # all but Linux; no netlink
        if len(place) > 3 and place[3]:  # its zone
            return socket.if_indextoname(place[3])
        host = plain_address(place)[0].partition("%")[0]
        family = _AF_INET6 if ":" in host else socket.AF_INET
        host = socket.inet_pton(family, host)
        body = struct.pack("=BBBBBBBBI", family, 8 * len(host), 0, 0, 0, 0, 0, 0, 0)
        body += struct.pack("=HH", 4 + len(host), _RTA_DST) + host
        header = struct.pack("=IHHII", 16 + len(body), _RTM_GETROUTE, _NLM_F_REQUEST, 1, 0)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
            netlink.settimeout(1.0)
            netlink.sendto(header + body, (0, 0))
            answer = netlink.recv(8192)
        at = 28  # behind the message's header, of 16 bytes, and the route's
        while at + 4 <= len(answer):
            size, kind = struct.unpack_from("=HH", answer, at)
            if kind == _RTA_OIF:
                return socket.if_indextoname(struct.unpack_from("=I", answer, at + 4)[0])
            at += max(4, size + 3 & ~3)
    return None


def _number_in(path, low=0):
    """Return the number in a small file, None if there is none, or one below `low`."""
    words = _read_words(path)
    try:
        value = int(words[0])
    except (IndexError, ValueError):
        return None
    return value if value >= low else None


def _has_cable(folder):
    """Return whether a network device is hardware, or stands on some: a veth's speed is none."""
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return any(name == "device" or name.startswith("lower_") for name in names)


def device_mtu(device):
    """Return the MTU of a network device, None if it is not known."""
    return _number_in("/sys/class/net/%s/mtu" % device, 1) if device else None


def host_facts(device):
    """Return what holds for this host: its CPUs, its kernel, limits of buffers, the device.

    Bytes; the speed in Mbit/s. Without what this system does not tell.
    """
    facts = collections.OrderedDict(cores=os.cpu_count() or 1, system=sys.platform[:16])
    if hasattr(os, "uname"):
        facts["kernel"] = os.uname().release[:64]
    for name in ("rmem_max", "wmem_max"):
        facts[name] = _number_in("/proc/sys/net/core/" + name)
    for name in ("tcp_rmem", "tcp_wmem"):
        words = _read_words("/proc/sys/net/ipv4/" + name)
        facts[name] = [int(word) for word in words if word.isdigit()] or None
    facts["tcp_timestamps"] = _number_in("/proc/sys/net/ipv4/tcp_timestamps")
    facts["tcp_mtu_probing"] = _number_in("/proc/sys/net/ipv4/tcp_mtu_probing")
    for name, path in (("congestion", "/proc/sys/net/ipv4/tcp_congestion_control"),
                       ("qdisc", "/proc/sys/net/core/default_qdisc")):
        facts[name] = b" ".join(_read_words(path)[:1]).decode("ascii", "replace") or None
    if device:
        facts["loopback"] = device == "lo" or None
        folder = "/sys/class/net/%s/" % device
        facts["mtu"] = device_mtu(device)
        if _has_cable(folder):
            facts["speed_mbps"] = _number_in(folder + "speed", 1)  # -1: Wi-Fi
            words = _read_words(folder + "duplex")
            if words in ([b"full"], [b"half"]):
                facts["duplex"] = words[0].decode("ascii")
    return collections.OrderedDict(pair for pair in facts.items() if pair[1] is not None)


# Counters of this host, or of this program's network namespace: a file, and of its counters those
# that are told, by its name and ours. Those of IPv6 are added to the others.
_COUNTERS = (
    ("/proc/net/snmp", (
        ("Udp:RcvbufErrors", "udp_receive_buffer_errors"),
        ("Udp:SndbufErrors", "udp_send_buffer_errors"), ("Udp:InErrors", "udp_receive_errors"),
        ("Ip:ReasmFails", "reassembly_failures"), ("Ip:FragFails", "fragmentation_failures"),
        ("Tcp:RetransSegs", "tcp_retransmits"))),
    ("/proc/net/snmp6", (
        ("Udp6RcvbufErrors", "udp_receive_buffer_errors"),
        ("Udp6SndbufErrors", "udp_send_buffer_errors"), ("Udp6InErrors", "udp_receive_errors"),
        ("Ip6ReasmFails", "reassembly_failures"), ("Ip6FragFails", "fragmentation_failures"))),
    ("/proc/net/netstat", (
        ("TcpExt:TCPTimeouts", "tcp_timeouts"), ("TcpExt:TCPRcvCollapsed", "tcp_receive_collapses"),
        ("TcpExt:PruneCalled", "tcp_receive_prunes"), ("TcpExt:RcvPruned", "tcp_receive_drops"),
        ("TcpExt:TCPBacklogDrop", "tcp_backlog_drops"),
        ("TcpExt:TCPZeroWindowDrop", "tcp_zero_window_drops"),
        ("TcpExt:TCPToZeroWindowAdv", "tcp_zero_windows"), ("TcpExt:ListenDrops", "listen_drops"),
        ("TcpExt:TCPMemoryPressures", "tcp_memory_pressures"))),
)
# The columns of /proc/net/dev that are told.
_DEVICE_COUNTERS = (
    (0, "device_received_bytes"), (2, "device_receive_errors"), (3, "device_receive_drops"),
    (4, "device_receive_overruns"), (5, "device_frame_errors"), (8, "device_sent_bytes"),
    (10, "device_send_errors"), (11, "device_send_drops"), (13, "device_collisions"))


def _read_lines(path):
    """Return the lines of a file of the system, of words, none if it cannot be read."""
    try:
        with open(path, "rb") as handle:
            return [line.split() for line in handle.read(1 << 20).splitlines() if line.strip()]
    except OSError:
        return []


def _named_counters(path):
    """Return the counters in a file of /proc/net, as bytes, by their names as in _COUNTERS."""
    found, names = {}, []
    for line in _read_lines(path):
        if not line[0].endswith(b":"):  # a name and its number
            found[line[0]] = line[-1]
        elif names[:1] != line[:1]:  # a row of names; the next one has their numbers
            names = line
        else:
            found.update((line[0] + name, value) for name, value in zip(names[1:], line[1:]))
            names = []
    return found


def _cpu_counters():
    """Return the ticks of all CPUs, of this (virtual) host's steal, and softirqs' drops."""
    counters = {}
    for line in _read_lines("/proc/stat"):
        if line[:1] == [b"cpu"] and len(line) > 8:
            ticks = [int(word) for word in line[1:9]]
            counters.update(cpu_ticks=sum(ticks), cpu_idle_ticks=ticks[3] + ticks[4],
                            cpu_softirq_ticks=ticks[6], cpu_steal_ticks=ticks[7])
    rows = [line for line in _read_lines("/proc/net/softnet_stat") if len(line) > 2]
    if rows:
        with suppress(ValueError):
            counters.update(softnet_drops=sum(int(line[1], 16) for line in rows),
                            softnet_squeezes=sum(int(line[2], 16) for line in rows))
    return counters


def _throttle_counters():
    """Return how often, and for how long, this program's control group was throttled."""
    for controllers, path in _control_groups():
        roots = ()
        if b"" in controllers:
            roots = "/sys/fs/cgroup", "/sys/fs/cgroup/unified"
        elif b"cpu" in controllers:
            roots = "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"
        for root in roots:
            # In a container the path may be another's, and its own the root.
            for folder in (root + path.rstrip("/"), root):
                found = dict(each for each in _read_lines(folder + "/cpu.stat") if len(each) == 2)
                if b"nr_throttled" in found:
                    spent = found.get(b"throttled_usec")
                    return {"throttled_periods": int(found[b"nr_throttled"]),
                            "throttled_us": int(spent) if spent is not None
                            else int(found.get(b"throttled_time", 0)) // 1000}
    return {}


def host_counters(device):
    """Return the counters of this host, and of a device, that tell of trouble, as a dict."""
    counters = {}
    for path, names in _COUNTERS:
        found = _named_counters(path)
        for theirs, ours in names:
            value = found.get(theirs.encode("ascii"), b"")
            if value.isdigit():
                counters[ours] = counters.get(ours, 0) + int(value)
    for line in _read_lines("/proc/net/dev") if device else ():
        name, colon, rest = b" ".join(line).partition(b":")
        values = rest.split()
        if colon and name == os.fsencode(device) and len(values) > 13:
            counters.update((ours, int(values[at])) for at, ours in _DEVICE_COUNTERS)
    counters.update(_cpu_counters())
    counters.update(_throttle_counters())
    return counters


def counter_changes(now, before):
    """Return by how much each counter that both dicts have has grown; one that fell was reset."""
    return collections.OrderedDict((name, max(0, now[name] - before[name]))
                                   for name in sorted(now) if name in before)


def thread_times(pid):
    """Return {thread: (seconds it ran, seconds it waited for a CPU)} of a process of ours.

    Empty where the kernel does not tell (all but Linux; without CONFIG_SCHED_INFO).
    """
    times, folder = {}, "/proc/%d/task" % pid
    with suppress(OSError):
        for name in os.listdir(folder) if _LINUX else ():
            words = _read_words("%s/%s/schedstat" % (folder, name))
            if len(words) >= 2:
                times[int(name)] = (int(words[0]) * 1e-9, int(words[1]) * 1e-9)
    return times


###############################################################################
# datagrams ###################################################################
###############################################################################
# UDP's hellos and headers, and batches of datagrams. Nothing here knows of
# tests.

# The first datagram of a UDP stream, from the client, and the answer to it: iperf3's native
# integers, new (since 3.12) and old, of little-endian and of big-endian hosts.
HELLOS = {
    b"9876": b"6789",
    b"6789": b"9876",
    b"\x15\xcd\x5b\x07": b"\xb1\x68\xde\x3a",
    b"\x07\x5b\xcd\x15": b"\x3a\xde\x68\xb1",
}
HELLO = b"9876"
HELLO_REPLIES = frozenset(HELLOS.values())


def header_size(wide):
    """Return the bytes of a datagram's header with a counter of 32 or (wide) 64 bits."""
    return 16 if wide else 12


def answer_to_hello(data, length, wide):
    """Return the answer to a client's hello, None if a datagram is none.

    length, wide: size of the test's datagrams, and whether their counters have 64 bits.
    """
    if len(data) == length and not any(data[8:header_size(wide)]):
        return HELLOS[HELLO]
    return HELLOS.get(bytes(data))


def repeated_hello(now, length, wide):
    """Return what a client sends when a hello was not answered: a datagram with the number 0.

    Data is numbered from 1, so that a pyperf3 server knows it. An iperf3 server whose answer was
    lost takes it for data that came late: one datagram out of order, and no harm else.
    """
    header = DatagramHeaders(bytearray(header_size(wide)), wide)
    header.write(0, 1, now)
    return bytes(header.memory).ljust(length, b"\0")


@functools.lru_cache(maxsize=None)
def counter_table():
    """Return 0 to 65535 as big-endian numbers of 16 bits, a memoryview."""
    numbers = array.array("H", range(65536))
    if sys.byteorder == "little":
        numbers.byteswap()
    return memoryview(numbers)


@functools.lru_cache(maxsize=1024)
def header_layout(wide, spacing, count):
    """Return the Struct of so many headers; many streams use the same."""
    each = ("IIQ" if wide else "III") + "%dx" % (spacing - header_size(wide))
    return struct.Struct("!" + each * count)


class DatagramHeaders:
    """Headers of UDP datagrams in a row: seconds, microseconds, and the counter.

    All big-endian; the counter, from 1, has 32 or (wide) 64 bits.
    """

    def __init__(self, memory, wide, spacing=0):
        """memory: of a whole number of headers, writable unless they are only read.

        spacing: bytes from one to the next, if they do not follow each other; for writing a
        multiple of 4.
        """
        self.memory = memoryview(memory).cast("B")
        self.size = header_size(wide)
        self._spacing = spacing or self.size
        self.limit = len(self.memory) // self._spacing
        self._wide = wide
        self._one = struct.Struct("!IIQ" if wide else "!III")
        self._columns = {}  # views of the low counters and microseconds of so many headers
        self._table = None

    def _make_columns(self):
        # Of two counters in a row only the low 16 bits differ, but for one in 65536. They come
        # from a table: a column of a whole batch is one assignment, or one comparison.
        self._table = counter_table()
        words, halves = self.memory.cast("I"), self.memory.cast("H")
        step, last = self._spacing // 2, self.size // 2 - 1
        self._seconds, self._micros = words[0::step // 2], words[1::step // 2]
        self._low = halves[last::step]
        self._high = [halves[at::step] for at in range(4, last)]
        self._second = self._high_part = None

    def room(self, counter):
        """Return how many headers one write() may take from this counter on."""
        return min(self.limit, 65536 - (counter & 0xffff))

    def _fill(self, column, data):
        column[:] = memoryview(data * self.limit).cast(column.format)

    def write(self, counter, count, now):
        """Write `count` headers (at most room()) from `counter` on, all of the time `now`."""
        if self._table is None:
            self._make_columns()
        second = int(now)
        if second != self._second:
            self._second = second
            self._fill(self._seconds, struct.pack("!I", second & 0xffffffff))
        self._fill(self._micros, struct.pack("!I", int((now - second) * 1000000)))
        high = counter >> 16
        if high != self._high_part:
            self._high_part = high
            parts = struct.pack("!Q", high & 0xffffffffffffffff)[-2 * len(self._high):]
            for number, column in enumerate(self._high):
                self._fill(column, parts[2 * number:2 * number + 2])
        low = counter & 0xffff
        self._low[:count] = self._table[low:low + count]

    def read(self, count):
        """Return the (seconds, microseconds, counters) of the first headers, as tuples."""
        values = header_layout(self._wide, self._spacing, count).unpack_from(self.memory)
        return values[0::3], values[1::3], values[2::3]

    def read_pieces(self, unit, pieces=1):
        """Return (first counter, seconds, [[(microseconds, how many)] of each piece]).

        The first headers are of `pieces` pieces of `unit` datagrams each; a piece's list is of
        equal stamps in a row. None if the datagrams are not numbered one after the other, or
        their stamps are not in order. A quick look: of the high bits of the counters, of the
        seconds, and of a piece's stamps where the first is the last, only the ends are seen.
        """
        count, read = unit * pieces, self._one.unpack_from
        second, _, first = read(self.memory)
        last_second, _, last = read(self.memory, (count - 1) * self._spacing)
        low = first & 0xffff
        if last != first + count - 1 or second != last_second or (
                self._spacing % 4 or low + count > 65536):
            return None
        columns = self._columns.get((unit, pieces))
        if columns is None:
            if self._table is None:
                self._make_columns()
            micros = self._micros[:count]
            columns = self._columns[unit, pieces] = (
                self._low[:count], micros[0::unit], micros[unit - 1::unit], micros)
        numbers, firsts, lasts, micros = columns
        if numbers.tobytes() != self._table[low:low + count].tobytes():
            return None
        stamps = firsts.tobytes()
        if stamps == lasts.tobytes():
            return first, second, [
                ((micro, unit),) for micro in struct.unpack("!%dI" % pieces, stamps)]
        stamps, size = micros.tobytes(), 4 * unit
        runs = [_runs(stamps[at:at + size]) for at in range(0, len(stamps), size)]
        return None if None in runs else (first, second, runs)


def _runs(stamps):
    """Return [(number, how many times in a row)] of big-endian numbers of 32 bits.

    None if one comes again after another. One or two are usual.
    """
    first, last, count = stamps[:4], stamps[-4:], len(stamps) // 4
    if first == last and stamps == first * count:
        return ((int.from_bytes(first, "big"), count),)
    at = stamps.find(last) // 4
    if stamps == first * at + last * (count - at):
        return (int.from_bytes(first, "big"), at), (int.from_bytes(last, "big"), count - at)
    numbers, runs, at = struct.unpack("!%dI" % count, stamps), [], 0
    while at < count:
        length = numbers.count(numbers[at])
        if numbers[at:at + length] != numbers[at:at + 1] * length:
            return None
        runs.append((numbers[at], length))
        at += length
    return runs


# Batches of datagrams. A writer sends datagrams that share one payload, each behind a header of
# its own; a reader receives headers, and drops the payload. Both have a memory of headers, and
# a plain twin that makes one call per datagram.

@functools.lru_cache(maxsize=None)
def batch_calls():
    """Return the C library's (sendmmsg, recvmmsg, errno getter, address getter), or None."""
    if not _LINUX:
        return None  # the layout of the structures is Linux's
    try:
        import ctypes
        library = ctypes.CDLL(None, use_errno=True)
        send, receive = library.sendmmsg, library.recvmmsg
        send.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]
        receive.argtypes = send.argtypes + [ctypes.c_void_p]
        send.restype = receive.restype = ctypes.c_int
    except (ImportError, AttributeError, OSError, TypeError):
        return None

    def address(memory):
        return ctypes.addressof(ctypes.c_char.from_buffer(memory))
    calls = send, receive, ctypes.get_errno, address
    return calls if _batch_calls_work(calls) else None


def _batch_calls_work(calls):
    """Try the calls: a sandbox may refuse what the C library has."""
    send, receive, _, address = calls
    data, place = bytearray(b"pyperf3"), bytearray(7)
    try:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with here, there:
            vector = _MessageVector([[(address(data), 7)]], address)
            sent = send(here.fileno(), vector.address, 1, _MSG_DONTWAIT)
            vector = _MessageVector([[(address(place), 7)]], address)
            came = receive(there.fileno(), vector.address, 1, _MSG_DONTWAIT, None)
            return (sent, came, vector.sizes[0], place) == (1, 1, 7, data)
    except OSError:
        return False


class _MessageVector:
    """An array of Linux's struct mmsghdr, as sendmmsg(2) and recvmmsg(2) take it."""

    # name, namelen, iov, iovlen, control, controllen, flags; msg_len
    _HEADER = "@PIPNPNi0P"
    _MESSAGE = struct.Struct(_HEADER + "I0P")
    _IOVEC = struct.Struct("@PN")

    def __init__(self, messages, address, control=0):
        """messages: of each a list of (address, size); control: bytes for ancillary data."""
        pieces = [piece for message in messages for piece in message]
        self._iovecs = bytearray(b"".join(self._IOVEC.pack(*piece) for piece in pieces))
        self.control = bytearray(max(1, control * len(messages)))
        self._messages = bytearray()
        at, place = address(self._iovecs), address(self.control)
        for number, message in enumerate(messages):
            self._messages += self._MESSAGE.pack(
                0, 0, at, len(message), place + number * control if control else 0, control, 0, 0)
            at += len(message) * self._IOVEC.size
        self.address = address(self._messages)
        self.sizes = self._column("I", struct.calcsize(self._HEADER))
        size_t = "Q" if struct.calcsize("N") == 8 else "I"
        self.control_sizes = self._column(size_t, struct.calcsize("@PIPNPN") - struct.calcsize("N"))

    def _column(self, kind, offset):
        column = memoryview(self._messages).cast(kind)
        return column[offset // column.itemsize::self._MESSAGE.size // column.itemsize]


# Errors of a socket that pass: a queue is full; a link, a route, an address, a rule of this host
# comes and goes (Linux: EINVAL is a blackhole's, EACCES a forbidden route's, EPERM a firewall's or
# a full connection table's); or another host said something of what was sent before.
PASSING_ERRORS = frozenset(getattr(errno, name) for name in (
    "EAGAIN EWOULDBLOCK EINTR ENOBUFS ENOMEM ECONNREFUSED ECONNRESET EMSGSIZE EPERM EACCES EINVAL"
    " ENETDOWN ENETUNREACH ENETRESET EHOSTDOWN EHOSTUNREACH EADDRNOTAVAIL ENODEV ENXIO"
).split() if hasattr(errno, name))


class Outage:
    """Bear what keeps a socket's datagrams from being sent, as long as it may pass."""

    def __init__(self, sock):
        self.seconds = 0.0  # of outages that are over, but for the shortest
        self.cause = 0  # number of the last error
        self.since = 0.0  # when the present one began, 0.0 without one
        self._sock = sock
        self._wait = 0.0
        self._refusals, self._refused = 0, (0.0, 0.0)  # how many, when the first and the last

    def bear(self, error, now, begun):
        """Take an OSError; return for how long to wait. Raises one if it does not pass.

        begun: whether anything was sent so far.
        """
        if isinstance(error, ConnectionError):
            return self._bear_refusal(error, now)
        if error.errno not in PASSING_ERRORS:
            raise error
        if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR):
            return 0.0  # that waited already
        if not self.since:
            self.since, self._wait = now, 0.00025
        elif error.errno == errno.EMSGSIZE and not begun:
            raise self._explained(error, "")  # what never fitted will not
        if now - self.since > OUTAGE_TIMEOUT:
            raise self._explained(error, " for %.0f seconds" % OUTAGE_TIMEOUT)
        self.cause = error.errno
        self._wait = min(0.01, 2 * self._wait)
        return self._wait

    def _bear_refusal(self, error, now):
        """Take what the other host says: that nobody listens.

        It says so once a second at most, and what is sent in between goes all the same.
        """
        first, last = self._refused
        if now - last > _REFUSAL_MEMORY:
            self._refusals, first = 0, now
        self._refusals, self._refused = self._refusals + 1, (first, now)
        if self._refusals >= _MOST_REFUSALS and now - first > 1.0:
            raise error
        return 0.001

    def _explained(self, error, duration):
        size = path_mtu(self._sock) if error.errno == errno.EMSGSIZE else 0
        return OSError(error.errno, system_text(error) + duration + (
            ": the path's MTU is %d bytes" % size if size else ""))

    def lasted(self, now):
        """Return the seconds of all outages, the present one included."""
        present = now - self.since if self.since else 0.0
        return self.seconds + (present if present >= _SHORT_OUTAGE else 0.0)

    def end(self, now):
        """Take note that something was sent."""
        self.seconds, self.since = self.lasted(now), 0.0


_SHORT_OUTAGE = 0.1  # seconds that are not worth a word
_MOST_REFUSALS, _REFUSAL_MEMORY = 5, 30.0  # that end a stream; seconds

# Errors of a socket that cannot do GSO after all.
_NO_SEGMENTS = (errno.EIO, errno.EINVAL, errno.EMSGSIZE, errno.ENOPROTOOPT, errno.EOPNOTSUPP)


class DatagramWriter:
    """Send datagrams, one per call."""

    limit = 16  # of datagrams in one send()

    def __init__(self, sock, payload, header_size):
        """payload: memoryview of a datagram; its first header_size bytes are written over."""
        self.headers = bytearray(self.limit * header_size)
        self.spacing = header_size  # bytes from one header to the next
        self._sock, self._datagram, self._size = sock, payload, header_size

    def send(self, count):
        """Send datagrams with the first `count` headers; return how many went, at least one.

        Raises OSError if none did.
        """
        size = self._size
        for number in range(count):
            self._datagram[:size] = self.headers[number * size:(number + 1) * size]
            try:
                self._sock.send(self._datagram, _MSG_DONTWAIT if number else 0)
            except OSError:
                if number:
                    return number
                raise
        return count


def segments_per_call(parameters):
    """Return how many datagrams the kernel is to cut from one piece (GSO), below 2 for none.

    On the wire there is no difference. With both ends on two cores, of 1400 bytes at full rate
    (Xeon, ratio to iperf3, share lost): 16 a piece 6.9, 0.1 %; 20 7.4, 3 %; 24 8.2, 2 %; 32 8.0,
    16 %; 46 7.4, 39 %; four streams at 16 6.9, at 4 1.9. With --gsro (against iperf3's pieces of
    46): 16 0.8, 24 0.93, 32 1.05, 46 0.9.
    """
    wanted = min(parameters.gso_buffer // parameters.length, 32) if parameters.gso else 16
    return min(wanted, MAX_UDP_BLOCK // parameters.length)


_NEAR_PAYLOAD = 22000  # bytes of a payload; whole tens, for --repeating-payload


def parts_of_payload(place, size):
    """Return what follows a datagram's header, of `size` bytes, as [(address, bytes)].

    More than the nearest cache holds is the same part again and again, in the sender as in the
    receiver. Of datagrams of 65483 bytes there arrived, of what did with iperf3 (Xeon, L1 48 KB):
    in one part 1.05, in parts of 33000 1.08, 22000 1.24 to 1.29, 16000 1.15, 11000 1.20.
    """
    return [(place, min(_NEAR_PAYLOAD, size - at)) for at in range(0, size, _NEAR_PAYLOAD)]


class BatchWriter:
    """Send datagrams with sendmmsg(2), in pieces that the kernel cuts (GSO) where it can."""

    limit = 64

    def __init__(self, calls, sock, payload, header_size, segments):
        """segments: datagrams per piece; below 2 there are only whole ones."""
        self._send, _, self._errno, address = calls
        self._sock, self._descriptor = sock, sock.fileno()
        size = len(payload)
        self._segments = 0
        if segments > 1 and set_segmentation(sock, size):
            self._segments = segments
            self.limit = max(4, self.limit // segments) * segments
        if self._segments and size % 4 == 0:
            # The kernel takes a piece fastest if it is all of one.
            self.spacing = size
            self.headers = private_memory(self.limit * size)
            self.headers[:] = bytes(payload) * self.limit
            start = address(self.headers)

            def datagrams(first, count):
                return [(start + first * size, count * size)]
        else:
            # One payload for all stays in the nearest cache.
            self._payload = payload
            self.spacing = header_size
            self.headers = bytearray(self.limit * header_size)
            start, rest = address(self.headers), parts_of_payload(
                address(payload) + header_size, size - header_size)

            def datagrams(first, count):
                return [part for at in range(first, first + count)
                        for part in [(start + at * header_size, header_size)] + rest]
        self._singles = _MessageVector([datagrams(at, 1) for at in range(self.limit)], address)
        if self._segments:
            self._groups = _MessageVector(
                [datagrams(at, segments) for at in range(0, self.limit, segments)], address)

    def send(self, count):
        """As DatagramWriter.send()."""
        unit, vector = 1, self._singles
        if self._segments > 1 and count >= self._segments:
            unit, vector = self._segments, self._groups
        sent = self._send(self._descriptor, vector.address, count // unit, _MSG_DONTWAIT)
        if sent > 0:
            return sent * unit
        number = self._errno()
        if number == errno.EAGAIN:
            # A slow link: wait for room for one datagram, so that the count is prompt.
            if self._send(self._descriptor, self._singles.address, 1, 0) > 0:
                return 1
            number = self._errno()
        if self._segments and number in _NO_SEGMENTS:
            # A device without checksums; or a path with a small MTU, where the kernel cuts
            # pieces into datagrams, and then refuses to cut these into fragments.
            self._segments = 0
            set_segmentation(self._sock, 0)
            return self.send(count)
        raise system_error(number)


class DatagramReader:
    """Receive datagrams, one per call."""

    limit = 1  # of datagrams in one call
    joins, unit = False, 1  # as of BatchReader
    kernel_time = False  # arrivals are by the wall clock of the kernel, else by time.monotonic()

    def __init__(self, sock, size, flags=0):
        """size: of the datagrams; what goes beyond is dropped. flags: of recv()."""
        self.headers = bytearray(size)
        self.spacing = size
        self._receive = sock.recv_into
        self._flags = flags
        self._now = 0.0
        self._size = 0

    def receive(self, wait):
        """Receive datagrams; return how many came. Raises OSError if none did.

        wait: for the first, as long as the socket lets calls block.
        """
        self._size = self._receive(self.headers, 0, self._flags | (0 if wait else _MSG_DONTWAIT))
        self._now = time.monotonic()
        return 1

    def sizes(self, count):
        """Return the sizes of the datagrams of the last call."""
        return [self._size]

    def arrivals(self, count):
        """Return the times, in seconds, when the datagrams of the last call came."""
        return [self._now]


class BatchReader:
    """Receive datagrams with recvmmsg(2), and the times when the kernel had them.

    A message is one datagram, or a piece of several that the kernel joined (GRO). There is place
    for the headers of `unit` datagrams in each; what is beyond stands elsewhere, until make_room().
    Measured with both ends on two cores (Xeon), at full rate: of 64 bytes 8 times as many arrived
    as when each came alone, of 1400 bytes 4.6 times, of 8900 bytes 1.35 times; what comes alone all
    the same, from iperf3's sender, is received as fast as before.
    """

    _PIECE = 65536  # bytes of the largest piece
    # Bytes of joined datagrams in a call, of all streams: they stay in the second cache. Of pieces
    # of 16 times 1400 bytes 8 in a call lost 4 % at full rate, 16 none.
    _NEAR = 524288
    # Bytes of ancillary data: a time, the size of what was joined, the drops so far.
    _CONTROL = 96

    def __init__(self, calls, sock, size, header_size, flags=0, streams=1):
        """As DatagramReader's; streams: of this end.

        The kernel joins datagrams if it can, and two fit a piece.
        """
        _, self._receive, self._errno, self._address = calls
        self.joins = 2 * size <= MAX_UDP_BLOCK and set_coalescing(sock)
        self.kernel_time = stamp_arrivals(sock)
        self._flags = flags & ~_MSG_TRUNC if self.joins else flags
        self._size, self._header_size = size, header_size
        self._payload = private_memory(min(size, _NEAR_PAYLOAD))  # of one after the other
        self._near = self._NEAR // streams
        self._rest = None  # of large pieces
        self._descriptor = sock.fileno()
        if self.joins:
            tell_drops(sock)
        self.make_room(1)

    def make_room(self, unit):
        """Have place for the headers of so many datagrams in each message, from now on."""
        size, address = self._size, self._address
        self.unit, self.limit = unit, 64 if self._near >= self._NEAR // 8 else 16
        if unit > 1:
            # In one part each: a header here and a payload there, 16 times, took twice as long.
            self.limit = max(4, min(16, self._near // (unit * size)))
        self.spacing = self._header_size if unit == 1 else size
        row = unit * self.spacing
        self.headers = private_memory(self.limit * row)
        start, rest = address(self.headers), []
        if unit == 1 and not self._flags & _MSG_TRUNC:
            rest = parts_of_payload(address(self._payload), size - self._header_size)
        rows = [[(start + at * row, row)] + rest for at in range(self.limit)]
        if self.joins:
            self._rest = private_memory(self.limit * self._PIECE)  # the old one was written to
            start = address(self._rest)
            for at, parts in enumerate(rows):
                parts.append((start + at * self._PIECE, self._PIECE - unit * size))
        self._vector = _MessageVector(rows, address, self._CONTROL)
        self._room = memoryview(struct.pack("@N", self._CONTROL) * self.limit).cast(
            self._vector.control_sizes.format)

    def piece(self, at, count):
        """Return the headers of `count` datagrams of message `at`, wherever they are."""
        header, row = self._header_size, at * self.unit
        kept = memoryview(self.headers)[row * self.spacing:(row + self.unit) * self.spacing]
        rest = memoryview(self._rest)[at * self._PIECE:(at + 1) * self._PIECE]
        found = bytearray()
        for number in range(count):
            memory, place = kept, number * self.spacing
            if number >= self.unit:
                memory, place = rest, (number - self.unit) * self._size
            found += memory[place:place + header]
        return found

    @classmethod
    @functools.lru_cache(maxsize=None)
    def _stamps(cls, count):
        """Return the Struct of so many times of the kernel; many streams use the same."""
        # struct cmsghdr: length, level, type; then struct timespec
        head, body = struct.calcsize("@Nii0P"), struct.calcsize("@ll")
        return struct.Struct("@" + ("%dxll%dx" % (head, cls._CONTROL - head - body)) * count)

    def ancillary(self, at):
        """Yield what the kernel tells of message `at` of the last call: (level, type, bytes)."""
        head = struct.Struct("@Nii0P")
        at *= self._CONTROL
        end = at + self._vector.control_sizes[at // self._CONTROL]
        while at + head.size <= end:
            length, level, kind = head.unpack_from(self._vector.control, at)
            yield level, kind, bytes(self._vector.control[at + head.size:at + length])
            at += -(-max(length, head.size) // struct.calcsize("P")) * struct.calcsize("P")

    def receive(self, wait):
        """As DatagramReader.receive()."""
        vector = self._vector
        vector.control_sizes[:] = self._room  # the kernel has written there
        flags = self._flags | (_MSG_WAITFORONE if wait else _MSG_DONTWAIT)
        count = self._receive(self._descriptor, vector.address, self.limit, flags, None)
        if count < 0:
            raise system_error(self._errno())
        return count

    def sizes(self, count):
        """As DatagramReader.sizes()."""
        return self._vector.sizes[:count].tolist()

    def arrivals(self, count):
        """As DatagramReader.arrivals()."""
        if not self.kernel_time or not self._vector.control_sizes[0]:
            return [time.time() if self.kernel_time else time.monotonic()] * count
        values = self._stamps(count).unpack_from(self._vector.control)
        return [second + nano * 1e-9 for second, nano in zip(values[0::2], values[1::2])]


###############################################################################
# authentication ##############################################################
###############################################################################
# RSA, names and passwords, and who is let in.

# RSA: with the package `cryptography`, else with the host's command `openssl`; never with
# arithmetic of our own.

class PassphraseMissing(IperfError):
    """A private key is encrypted, and no passphrase was given."""


class _LibraryRsa:
    """RSA with the package cryptography."""

    def __init__(self):
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a Python that is too old for it, say
            from cryptography.hazmat.backends import default_backend
            from cryptography.hazmat.primitives import hashes, serialization
            from cryptography.hazmat.primitives.asymmetric import padding, rsa
        self._backend = default_backend()
        self._serialization, self._padding, self._rsa = serialization, padding, rsa
        self._hashes = hashes

    def _pad(self, pkcs1):
        if pkcs1:
            return self._padding.PKCS1v15()
        sha1 = self._hashes.SHA1()
        return self._padding.OAEP(self._padding.MGF1(sha1), sha1, None)

    def load(self, path, pem, private, passphrase):
        if private:
            key = self._serialization.load_pem_private_key(pem, passphrase, self._backend)
        else:
            key = self._serialization.load_pem_public_key(pem, self._backend)
        if not isinstance(key, (self._rsa.RSAPublicKey, self._rsa.RSAPrivateKey)):
            raise ValueError("it is no RSA key")
        return key

    def encrypt(self, key, data, pkcs1):
        return key.encrypt(data, self._pad(pkcs1))

    def decrypt(self, key, data, pkcs1):
        return key.decrypt(data, self._pad(pkcs1))


def run_openssl(arguments, data, passphrase=None):
    """Run openssl; returns its output. passphrase: of a private key, handed over in a pipe.

    Raises RuntimeError, which says what openssl did not like.
    """
    import subprocess
    secret = [name for name in os.environ if name.endswith("IPERF3_PASSWORD")]
    more = {"env": {name: value for name, value in os.environ.items() if name not in secret}}
    pipe = ()
    try:
        if passphrase is not None and os.name == "posix":
            pipe = os.pipe()
            os.write(pipe[1], passphrase[:1024] + b"\n")
            arguments = arguments + ["-passin", "fd:%d" % pipe[0]]
            more["pass_fds"] = (pipe[0],)
        elif passphrase is not None:
            more["env"]["PYPERF3_PASSPHRASE"] = passphrase.decode("utf-8", "replace")
            arguments = arguments + ["-passin", "env:PYPERF3_PASSPHRASE"]
        process = subprocess.Popen(
            ["openssl"] + arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, **more)
        output, errors = process.communicate(data, timeout=STEP_TIMEOUT)
    except (OSError, ValueError) as error:
        raise RuntimeError("openssl: " + system_text(error))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise RuntimeError("openssl: timed out")
    finally:
        for end in pipe:
            os.close(end)
    if process.returncode:
        text = errors.decode("utf-8", "replace").strip().split("\n")[0]
        raise RuntimeError("openssl: " + text)
    return output


class _CommandRsa:
    """RSA with the command openssl."""

    def __init__(self):
        run_openssl(["version"], b"")

    def load(self, path, pem, private, passphrase):
        """Return (path, passphrase) of a private key, a public one as openssl likes it."""
        if private:
            if b"ENCRYPTED" in pem and passphrase is None:
                raise RuntimeError("the key is encrypted")
            run_openssl(["rsa", "-noout", "-in", path], b"", passphrase or b"")
            return path, passphrase or b""
        if b"BEGIN RSA PUBLIC" in pem:  # PKCS#1, which pkeyutl does not read
            return None, run_openssl(["rsa", "-RSAPublicKey_in", "-pubout"], pem)
        run_openssl(["rsa", "-pubin", "-pubout"], pem)
        return path, None

    @staticmethod
    def _options(pkcs1):
        return ["-pkeyopt", "rsa_padding_mode:" + ("pkcs1" if pkcs1 else "oaep")]

    def encrypt(self, key, data, pkcs1):
        path, pem = key
        arguments = ["pkeyutl", "-encrypt", "-pubin", "-inkey"]
        if path is not None:
            return run_openssl(arguments + [path] + self._options(pkcs1), data)
        import tempfile
        with tempfile.NamedTemporaryFile() as handle:
            handle.write(pem)
            handle.flush()
            return run_openssl(arguments + [handle.name] + self._options(pkcs1), data)

    def decrypt(self, key, data, pkcs1):
        path, passphrase = key
        return run_openssl(["pkeyutl", "-decrypt", "-inkey", path] + self._options(pkcs1), data,
                         passphrase)


def has_rsa():
    """Return whether this host has RSA, without loading it."""
    try:
        import importlib.util
        import shutil
        return importlib.util.find_spec("cryptography") is not None or bool(
            shutil.which("openssl"))
    except (ImportError, ValueError):
        return False


class RsaKey:
    """A key from a PEM file: of PKCS#1, PKCS#8 or SPKI."""

    def __init__(self, path, private, passphrase=None):
        """passphrase: bytes, of an encrypted private key.

        Raises IperfError 22 (a public key) or 23, as PassphraseMissing for want of one.
        """
        number, self._rsa = 23 if private else 22, None
        pem = read_file(path, number, 65536)
        try:
            self._rsa = self._implementation()
            self._key = self._rsa.load(path, pem, private, passphrase)
        except Exception as error:  # the library has no one class for what it does not like
            locked = self._rsa and private and b"ENCRYPTED" in pem and passphrase is None
            raise (PassphraseMissing if locked else IperfError)(
                number, str(error) or type(error).__name__)

    @staticmethod
    def _implementation():
        try:
            return _LibraryRsa()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # also one that is there and broken: its panic is no Exception
            pass
        try:
            return _CommandRsa()
        except (RuntimeError, ImportError):
            raise RuntimeError("RSA needs the Python package cryptography, or the command"
                               " openssl; neither is here")

    def encrypt(self, data, pkcs1=False):
        """Return `data` encrypted with a public key. Raises ValueError."""
        try:
            return self._rsa.encrypt(self._key, data, pkcs1)
        except Exception as error:
            raise ValueError("name and password may be too long for this key (%s)" % (
                str(error) or type(error).__name__))

    def decrypt(self, data, pkcs1=False):
        """Return `data` decrypted with a private key, None if it is nothing of this key's."""
        try:
            return self._rsa.decrypt(self._key, data, pkcs1)
        except Exception:
            return None


# Authentication: a client sends its name, password and time, encrypted with the server's public
# key (RSA) and in Base64. The users' file has digests of the passwords.

def credentials(user, password, now):
    """Return the text that a client encrypts, as bytes. now: seconds since 1970."""
    return to_bytes("user: %s\npwd:  %s\nts:   %d" % (user, password, now))


def read_credentials(data):
    """Return the (user, password, seconds since 1970) of a decrypted text, None if it is none.

    As iperf3's sscanf reads it: any white space between the words, none within them.
    """
    words = [word.decode("utf-8", "surrogateescape") for word in data.split()]
    if len(words) < 6 or words[0::2][:3] != ["user:", "pwd:", "ts:"]:
        return None
    match = _number_prefix(words[5], "[+-]?[0-9]{1,18}")
    return (words[1], words[3], int(match.group())) if match else None


def read_users(text):
    """Return {user: digest} of a users' file; of two lines for a user the first counts."""
    users = {}
    for line in text.replace("\r", "\n").split("\n"):
        if line and not line.startswith("#") and "," in line:
            user, digest = line.split(",")[:2]
            users.setdefault(user, digest)
    return users


def password_digest(user, password):
    """Return the lower-case hexadecimal digest of a users' file: SHA-256 of {user}password."""
    import hashlib
    return hashlib.sha256(to_bytes("{%s}%s" % (user, password))).hexdigest()


class Gatekeeper:
    """Decide whom a server lets in."""

    def __init__(self, decrypt, users, threshold):
        """decrypt: a function from a token to its text, or None; users: returns {user: digest};
        threshold: seconds that the clocks may differ.
        """
        self._decrypt = decrypt
        self._users = users
        self._threshold = threshold
        self._taken = {}  # digests of tokens that were taken, and when these become stale

    def admits(self, token):
        """Return whether a client with this token (bytes) may test, now.

        Raises OSError if the users' file cannot be read.
        """
        import hashlib
        import hmac
        found = read_credentials(self._decrypt(token) or b"")
        if found is None:
            return False
        user, password, seconds = found
        now = time.time()
        digest = self._users().get(user, "")
        good = hmac.compare_digest(to_bytes(password_digest(user, password)), to_bytes(digest))
        if not good or abs(now - seconds) > self._threshold:
            return False
        # differs: iperf3 takes a token as often as somebody sends it.
        self._taken = {key: until for key, until in self._taken.items() if until >= now}
        mark = hashlib.sha256(token.lstrip(b"\0")).digest()  # it is a number
        if mark in self._taken:
            return False
        self._taken[mark] = seconds + self._threshold
        return True


def make_gatekeeper(settings):
    """Return the Gatekeeper of a server that lets in known users only, else None.

    Raises IperfError 23, 35.
    """
    if settings.authorized_users_path is None:
        return None

    def users():
        try:
            with open_unblocked(settings.authorized_users_path, os.O_RDONLY, 35) as handle:
                return read_users(handle.read().decode("utf-8", "surrogateescape"))
        except OSError as error:
            raise IperfError(35, error)
    try:
        users()
    except IperfError:
        raise IperfError(35)
    passphrase = to_bytes(settings.passphrase) if settings.passphrase is not None else None
    key = RsaKey(settings.rsa_private_key_path, True, passphrase)
    return Gatekeeper(lambda token: key.decrypt(token, settings.use_pkcs1_padding), users,
                      settings.time_skew_threshold)


###############################################################################
# tls #########################################################################
###############################################################################
# TLS with the standard library's ssl, which is imported when it is needed. The
# protocol inside is the same; a TlsSocket stands where a socket would.

TLS_HELLO = 0x16  # first byte of a TLS connection: a handshake record (RFC 8446, 5.1)
_TLS_REFUSAL = b"\x15\x03\x03\0\2\2\x31"  # a record with the alert access_denied (6.2)
_TLS_RECORD = 16384  # bytes of plain text in a record at most

# What OpenSSL says of files that hold a certificate and a key.
_UNUSABLE = dict.fromkeys(("KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED", "KEY_TYPE_MISMATCH"),
                          "the private key is not this certificate's")
_UNUSABLE.update(CA_MD_TOO_WEAK="its signature is too weak",
                 EE_KEY_TOO_SMALL="its key is too short")

# Suites without a certificate, of TLS 1.2, where OpenSSL still has them. Level 0 lets them pass.
_ANONYMOUS = "AECDH:@SECLEVEL=0"

_NO_CERTIFICATE = ("no certificate (--tls-cert), and none can be made: it takes the Python package"
                   " cryptography or the command openssl (%s)")


def _import_ssl():
    try:
        import ssl
    except ImportError as error:
        raise IperfError(903, "this Python has no module %s" % error.name)
    return ssl


def is_tls_end(error):
    """Return whether an exception of ssl is the end of the connection, without TLS's farewell."""
    # Python 3.6 and 3.7 know the end of file of OpenSSL 3 by its text only.
    return type(error).__name__ in ("SSLEOFError", "SSLZeroReturnError") or (
        "] unexpected eof while reading" in str(error))


def tls_text(error):
    """Return what an exception of ssl says, in a few words."""
    if getattr(error, "verify_message", None):
        return "the server's certificate does not hold: %s" % error.verify_message
    if is_tls_end(error):
        return "the other end closed the connection"
    reason = getattr(error, "reason", None)
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "the other end does not speak TLS"
    if type(error).__name__ == "CertificateError":  # Python 3.6
        return "the server's certificate does not hold: %s" % error
    text = system_text(error).partition(" (_ssl.c")[0]
    # Not by the reason's name, which Python 3.6 and 3.7 mistake with OpenSSL 3.
    return text.partition("] ")[2] if reason and "] " in text else text


def client_context(authorities=None):
    """Return the context of a client. authorities: a file of theirs (PEM); None: trust anybody.

    Raises IperfError 903.
    """
    ssl = _import_ssl()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authorities is not None:
        try:
            context.load_verify_locations(authorities)
        except ssl.SSLError:
            read_pem(authorities, "certificate")  # which has more to say
            raise IperfError(903, "%s: a certificate in it is of no use" % authorities)
        except (OSError, ValueError) as error:
            raise IperfError(903, "%s: %s" % (authorities, tls_text(error)))
        return context
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with suppress(OSError):  # not in this OpenSSL
        context.set_ciphers("ALL:" + _ANONYMOUS)  # DEFAULT would shut them out for good
    return context


def pem_part(pem, name):
    """Return the parts of a PEM text of this kind."""
    import re
    marks = [b"-----%s %s-----" % (word, b"(?:[A-Z]+ )?" + name) for word in (b"BEGIN", b"END")]
    return b"".join(part + b"\n" for part in re.findall(
        marks[0] + b".*?" + marks[1], pem.replace(b"\r\n", b"\n"), re.DOTALL))


def read_pem(path, what, number=903):
    """Return the parts of a file (PEM) of this kind: "certificate" or "private key".

    Raises IperfError `number` if it cannot be read, or has none.
    """
    part = pem_part(read_file(path, number), what.upper().encode("ascii"))
    if not part:
        raise IperfError(number, "%s: there is no %s (PEM) in it" % (path, what))
    return part


def read_certificate(certificate, key=None, number=903):
    """Return the certificates and the private key in files (PEM); the key may be with them.

    Raises IperfError `number` if a file cannot be read, or lacks what it should have.
    """
    certificates = read_pem(certificate, "certificate", number)
    private = read_pem(key or certificate, "private key", number)
    if b"ENCRYPTED" in private:
        raise IperfError(number, "%s: the private key is encrypted" % (key or certificate))
    return certificates, private


def server_context(certificate=None, key=None):
    """Return the context of a server. May take a while to make a certificate if none is given.

    certificate, key: files (PEM). Raises IperfError 903.
    """
    ssl = _import_ssl()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if hasattr(context, "num_tickets"):
        context.num_tickets = 0  # nobody comes back with one
    context.options |= getattr(ssl, "OP_NO_RENEGOTIATION", 0)  # of which a client could ask many
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key, lambda: b"")  # no prompt
        except (OSError, ValueError) as error:
            read_certificate(certificate, key)  # which has more to say
            raise IperfError(903, "%s: %s" % (certificate, _UNUSABLE.get(
                getattr(error, "reason", None), "it, or its private key, is of no use")))
        return context
    try:
        _load_throw_away(context)
    except (RuntimeError, ImportError, OSError) as trouble:
        try:
            context.set_ciphers(_ANONYMOUS)
            context.set_ecdh_curve("prime256v1")
            if hasattr(ssl, "TLSVersion"):
                context.maximum_version = ssl.TLSVersion.TLSv1_2
            else:  # Python 3.6
                context.options |= ssl.OP_NO_TLSv1_3
        except (AttributeError, OSError, ValueError):
            raise IperfError(903, _NO_CERTIFICATE % trouble)
    return context


def make_certificate():
    """Return a key that nobody else will see and its self-signed certificate (PEM).

    Raises RuntimeError, ImportError, OSError.
    """
    try:
        return _certificate_by_package()
    except Exception:  # it is not there, or too old, or broken
        return run_openssl(
            ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-keyout", "-", "-subj", "/CN=pyperf3", "-days", "30"], b"")


def _load_throw_away(context):
    """Make a certificate for a context, and load it."""
    pem = make_certificate()
    if os.path.isdir("/proc/self/fd"):
        with memory_file() as handle:
            handle.write(pem)
            handle.flush()
            context.load_cert_chain("/proc/self/fd/%d" % handle.fileno())
        return
    import tempfile
    descriptor, path = tempfile.mkstemp(prefix="pyperf3-")
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(pem)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)


def _certificate_by_package():
    """Return key and certificate (PEM), made by the package cryptography. Raises what it does."""
    import datetime
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID
    from cryptography.hazmat.backends import default_backend
    key = ec.generate_private_key(ec.SECP256R1(), default_backend())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pyperf3")])
    now = datetime.datetime.fromtimestamp(time.time(), datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    certificate = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(),
                                          now - day, now + 30 * day).sign(
                                              key, hashes.SHA256(), default_backend())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption()) + certificate.public_bytes(serialization.Encoding.PEM)


def _would_block():
    """Return what a socket raises in place of waiting."""
    return system_error(errno.EAGAIN)


class StandIn:
    """What stands where a TCP socket would, with those methods of a socket that are used here.

    send(), recv_into(), setblocking() and shutdown() are its own, the others those of the socket
    beneath. All mean what a socket's do, and raise OSError; what would block for longer than
    _CALL_TIMEOUT raises BlockingIOError. Beyond a socket's there are
        holds_data()        whether recv() would not block, where no selector can tell (TLS)
        unacknowledged()    as sockets' unacknowledged(sock), which serves TLS, too (QUIC)
        finish()            queue the end of the data (QUIC; a TCP connection is shut down)
        exchange(), serve() let the protocol go on, which nobody else does (QUIC)
    """

    def __init__(self, sock):
        """sock: the socket beneath."""
        for name in ("fileno", "close", "getsockname", "getpeername", "getsockopt", "setsockopt"):
            setattr(self, name, getattr(sock, name))
        self.family = sock.family


class TlsSocket(StandIn):
    """A TCP socket inside TLS. The socket beneath is in `socket`."""

    def __init__(self, secured):
        """secured: an SSLSocket whose handshake is over."""
        StandIn.__init__(self, secured)
        self.socket = secured
        self._piece, self._begun = _TLS_RECORD, 0  # bytes per call; of a call that did not end
        self._ahead = b""  # read by holds_data()
        self._ended = False
        ssl = _import_ssl()
        self._full = (ssl.SSLWantReadError, ssl.SSLWantWriteError, socket.timeout)
        self._errors = ssl.SSLError

    def facts(self):
        """Return what was agreed on: version and cipher."""
        return collections.OrderedDict(version=self.socket.version(),
                                       cipher=self.socket.cipher()[0])

    def setblocking(self, blocking):
        """Blocking calls return after a while all the same: see set_timeouts()."""
        # Python repeats a call that SO_RCVTIMEO ended, so it has to know.
        self.socket.settimeout(_CALL_TIMEOUT if blocking else 0.0)

    def shutdown(self, how):
        """Shut the TCP connection down. The TLS connection is not touched: it may be in use."""
        socket.socket.shutdown(self.socket, how)

    def send(self, data, flags=0):
        """Encrypt and send; returns how many bytes went. After BlockingIOError repeat the call.

        The flags make no difference.
        """
        view, sent = memoryview(data), 0
        try:
            while sent < len(view):
                sent += self.socket.send(view[sent:sent + (self._begun or self._piece)])
                self._begun, self._piece = 0, min(2 * self._piece, 8 * _TLS_RECORD)
        except self._full:
            # What was begun has to be repeated as it is; small pieces keep the counters prompt.
            self._begun = self._begun or min(self._piece, len(view) - sent)
            self._piece = _TLS_RECORD
            if not sent:
                raise _would_block()
        except self._errors as error:
            if is_tls_end(error):
                raise system_error(errno.EPIPE)
            raise self._plain(error)
        return sent

    def recv(self, size, flags=0):
        if self._ahead:
            data = self._ahead
            if flags != socket.MSG_PEEK:
                self._ahead = b""
            return data
        if flags == socket.MSG_PEEK:
            if not self.holds_data():
                raise _would_block()
            return self._ahead
        return self._read(self.socket.recv, size) or b""

    def recv_into(self, view, size=0, flags=0):
        """Receive a part of a record at most; the flags make no difference."""
        return self._read(self.socket.recv_into, view, size)

    def _read(self, method, *arguments):
        """Call a method that reads; returns its result, 0 at the end of the data."""
        try:
            return 0 if self._ended else method(*arguments)
        except self._full:
            raise _would_block()
        except self._errors as error:
            if not is_tls_end(error):
                raise self._plain(error)
            self._ended = True
            return 0

    @staticmethod
    def _plain(error):
        """Return an SSLError as a socket would raise it; the number of one is not an errno."""
        return OSError(_EPROTO, "TLS: " + tls_text(error))

    def holds_data(self):
        """Return whether recv() would not block: what came may be no data, but TLS's own."""
        if not self._ahead and not self._ended:
            try:
                self._ahead = self._read(self.socket.recv, 1) or b""
                self._ended = not self._ahead
            except BlockingIOError:
                return False
            except Exception:
                pass  # recv() will meet it, too
        return True


###############################################################################
# quic ########################################################################
###############################################################################
# QUIC (RFC 9000) by an optional library, qh3 or aioquic, which makes datagrams of
# what is to be sent, and the reverse, but does no input or output. A QuicSocket
# does that, and stands where a TCP socket would.

_QUIC_LIBRARIES = ("qh3", "aioquic")  # the first one that is there serves
_QUIC_PROTOCOL = "pyperf3"  # what the ends say that they speak (ALPN)
_QUIC_VERSIONS = (b"\0\0\0\x01",)  # RFC 9000
_QUIC_BATCH = 64  # datagrams that the library makes before these are sent
_QUIC_CALLS = 4  # receiving calls in a row, before what they bring is answered
_QUIC_UNREAD = 64 * 1024 * 1024  # bytes that all streams of an end keep unread, before the start
_QUIC_REPORT = 0.001  # seconds between reports of the figures
_QUIC_REFUSED = 1.0  # seconds after which a port that the host says is closed stays so
_QUIC_FIRST = 16  # datagrams that may come before a connection has a socket of its own
_QUIC_ANSWER = b"\n"  # a server's to the cookie that begins the stream
_QUIC_LEAST = 1200  # bytes of a datagram that every path of QUIC takes (RFC 9000, 14)
_QUIC_MOST = 65527  # bytes of the largest that there can be
_QUIC_PROBES = 3  # datagrams of a size to be lost before it counts as too large
_QUIC_QUIET = 0.7  # seconds without any datagram, before a size counts as too large for the path
_QUIC_SILENCE = 3  # timeouts without an answer, each twice as long, before the same

QuicLibrary = collections.namedtuple("QuicLibrary", "name version connection configuration tls")
QuicFigures = collections.namedtuple("QuicFigures", "packets lost window rtt size came")
QuicFigures.__doc__ = """What a connection has sent so far: packets, those that were lost (-1: the
library does not tell), congestion window (bytes), smoothed round-trip time (us), size of the
largest datagram (0: it does not tell); and the size of the largest that came."""


def _import_quic(name):
    """Return the QuicLibrary of this name. Raises ImportError."""
    import importlib
    import logging
    try:
        package = importlib.import_module(name)
        modules = [importlib.import_module(name + part)
                   for part in (".quic.connection", ".quic.configuration", ".tls")]
    except Exception as error:  # a broken installation raises anything
        raise ImportError("%s: %s" % (name, error))
    logging.getLogger("quic").addHandler(logging.NullHandler())  # else it prints
    return QuicLibrary(name, getattr(package, "__version__", "?"), *modules)


@functools.lru_cache(maxsize=None)
def quic_library(tunable=False):
    """Return the QuicLibrary to use. tunable: one that lets its congestion control be chosen.

    Raises IperfError 905, which names the package that is missing.
    """
    found = None
    for name in _QUIC_LIBRARIES:
        try:
            library = _import_quic(name)
        except ImportError:
            continue
        if not tunable or hasattr(library.configuration.QuicConfiguration,
                                  "congestion_control_algorithm"):
            return library
        found = library
    if found:
        raise IperfError(905, "the package %s has no choice of congestion control: -C and"
                              " --quic-iw take aioquic (python3 -m pip install aioquic)"
                         % found.name)
    raise IperfError(905, "it takes the Python package qh3, or aioquic (python3 -m pip install"
                          " qh3)")


def quic_credentials(certificate=None, key=None):
    """Return the certificate and the key of a server (PEM), made if no files are given.

    The library's slow first steps are taken, too. Raises IperfError 905.
    """
    library = quic_library()
    try:
        if certificate is None:
            pem = make_certificate()
            credentials = pem_part(pem, b"CERTIFICATE"), pem_part(pem, b"PRIVATE KEY")
        else:
            credentials = read_certificate(certificate, key, 905)
    except (RuntimeError, ImportError, OSError) as trouble:
        raise IperfError(905, _NO_CERTIFICATE % trouble)
    try:
        server = QuicEnd(library, credentials)
        _try_handshake(QuicEnd(library), server)
    except Exception as error:  # the library has no one class for what it does not like
        raise IperfError(905, "%s: %s" % (certificate or "the certificate", error))
    return credentials


def _try_handshake(client, server):
    """Let two ends meet in memory: the first handshake of a process takes its time."""
    places, now = (("127.0.0.1", 1), ("127.0.0.1", 2)), time.monotonic()
    first = client.connection()
    first.connect(places[1], now)
    datagrams = [data for data, _ in first.datagrams_to_send(now)]
    second = server.connection(datagrams)
    for data in datagrams:
        second.receive_datagram(data, places[0], now)
    for data, _ in second.datagrams_to_send(now):
        first.receive_datagram(data, places[1], now)


def open_key_log(path):
    """Open a file for the secrets of TLS, which nobody else may read. Raises IperfError 905."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT
                             | getattr(os, "O_NONBLOCK", 0), 0o600)
        with on_error(os.close, descriptor):
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # a pipe could block
                raise ValueError("it is no regular file")
            return os.fdopen(descriptor, "a")
    except (OSError, ValueError) as error:
        raise IperfError(905, "%s: %s" % (path, system_text(error)))


def is_quic_initial(data):
    """Return whether a datagram may be the first of a client's connection (RFC 9000, 17.2.2)."""
    return (len(data) >= 1200 and data[0] & 0xF0 == 0xC0 and data[1:5] in _QUIC_VERSIONS
            and 8 <= data[5] <= 20)


class QuicEnd:
    """What the connections of one end of a test have in common."""

    def __init__(self, library, credentials=None, streams=1, host=None, authorities=None,
                 congestion=None, initial_window=0, window=0, secrets=None):
        """credentials: a server's, of quic_credentials(); else this is a client.

        host: the name to verify; authorities: a file of theirs (PEM), None: trust anybody;
        initial_window: packets, 0 for the library's; window: bytes of flow control, 0 for ours;
        secrets: file for the key log. Raises IperfError 905.
        """
        self.library = library
        self.unread = max(1024 * 1024, _QUIC_UNREAD // streams)  # bytes, of a stream
        self._initial_window = initial_window
        self._class, self._grows = _connection_class(library)
        self.datagram_size = 0  # bytes that the path takes, 0 if that is not known
        self.secrets = None  # the open key log
        window = window or QUIC_WINDOW
        configuration = self._configuration = library.configuration.QuicConfiguration(
            is_client=credentials is None, alpn_protocols=[_QUIC_PROTOCOL], max_data=window,
            max_stream_data=window, idle_timeout=DATA_TIMEOUT)
        if self._grows:
            configuration.max_datagram_frame_size = _QUIC_MOST + 1  # for DatagramSize's probes
        if congestion:
            configuration.congestion_control_algorithm = congestion
        if credentials is None:
            configuration.server_name = host
            configuration.verify_mode = 2 if authorities else 0  # ssl.CERT_REQUIRED, CERT_NONE
            configuration.cafile = authorities
        else:
            chain = library.tls.load_pem_x509_certificates(credentials[0])
            configuration.certificate, configuration.certificate_chain = chain[0], chain[1:]
            configuration.private_key = library.tls.load_pem_private_key(credentials[1])
        if congestion or initial_window:
            try:
                self.connection([b"\xc0" + b"\0" * 1199] if credentials else None)
            except Exception as error:
                raise IperfError(905, str(error))
        if authorities:
            read_pem(authorities, "certificate", 905)
        if secrets:
            self.secrets = configuration.secrets_log_file = open_key_log(secrets)

    def close(self):
        if self.secrets:
            self.secrets.close()

    def facts(self):
        """Return what users may want to know: the library."""
        return collections.OrderedDict(library="%s %s" % (self.library.name, self.library.version))

    def connection(self, first=None, size=0, usual=0):
        """Return a new connection. first: the datagrams that came for it, of a server.

        size: of those that it may send, 0 for the library's; usual: bytes up to which it finds the
        size by itself.
        """
        more, configuration = {}, self._configuration
        if first:
            more["original_destination_connection_id"] = first[0][6:6 + first[0][5]]
        if size and self._grows:
            import copy
            configuration = copy.copy(configuration)
            configuration.max_datagram_size = max(size, _QUIC_LEAST)
            configuration.probe_datagram_size = size >= usual
        connection = self._class(configuration=configuration, **more)
        if self._initial_window:
            # There is no public name for it.
            control = getattr(getattr(connection, "_loss", None), "_cc", None)
            if not hasattr(control, "congestion_window"):
                raise ValueError("this %s has no initial window (--quic-iw)" % self.library.name)
            control.congestion_window = self._initial_window * self._configuration.max_datagram_size
        return connection


def _connection_class(library):
    """Return the class of a library's connections, and whether its datagrams may be large.

    Those of aioquic, and of qh3 before 2.0, are of 1500 bytes at most.
    """
    base = library.connection.QuicConnection
    core = getattr(library.connection, "QuicConnectionCore", None)
    if not hasattr(base, "_create_tls") or not all(hasattr(core, name) for name in (
            "active_path", "apply_peer_transport_parameters", "pto_count")):
        return base, False  # there would be no way back from a size that is too large

    class Connection(base):
        """The same without work for a log that is off, and with a client that takes any size.

        All names here are private: where the library has others, this is the class that it is.
        """

        def _create_tls(self, *args, **more):
            bridge = base._create_tls(self, *args, **more)
            with suppress(Exception):
                bridge.tls.handshake_extensions = [
                    (kind, _with_room(data)) for kind, data in bridge.tls.handshake_extensions]
            return bridge

        def _log_nothing(self, *args):
            pass

        _log_datagram = _log_packet = _log_packets = _log_packet_dropped = _log_nothing
    return Connection, True


def _with_room(parameters):
    """Return transport parameters (RFC 9000, 18) that allow the other end any size of datagram.

    qh3's client says 1472, whatever it takes.
    """
    at, kept = 0, []
    while at < len(parameters):
        begin = at
        name, at = _decode_varint(parameters, at)
        size, at = _decode_varint(parameters, at)
        at += size
        if name != 3:  # max_udp_payload_size
            kept.append(parameters[begin:at])
    return b"".join(kept) + struct.pack("!BBI", 3, 4, 0x80000000 | _QUIC_MOST)


def _decode_varint(data, at):
    """Return the integer of variable length at `at` (RFC 9000, 16), and where it ends."""
    end = at + (1 << (data[at] >> 6))
    return int.from_bytes(data[at:end], "big") & ((1 << (8 * (end - at) - 2)) - 1), end


class QuicAdapter:
    """What the libraries do each in its own way; here with what they have in public."""

    guess = None  # a _Guess to keep up to date

    def __init__(self, connection, stream):
        self._connection, self._stream = connection, stream

    def shorten(self):
        """Take what short cuts there are: the handshake is over."""

    def due(self, now):
        """Return datagrams to send; those that are left are returned by the next call."""
        return [data for data, _ in self._connection.datagrams_to_send(now)]

    def receive(self, data, size, remote, now):
        """Take in datagrams of `size` bytes that are joined; the last one may be shorter."""
        if size < len(data) and hasattr(self._connection, "receive_gro_buffer"):
            self._connection.receive_gro_buffer(data, size, remote, now)
            return
        for at in range(0, len(data), size):
            self._connection.receive_datagram(data[at:at + size], remote, now)

    def waiting(self):
        """Return how many bytes of the stream were not sent yet."""
        return 0

    def unacknowledged(self):
        """Return how many the other end may not have."""
        return self.waiting()

    def figures(self):
        """Return packets lost (-1: unknown), congestion window, seconds of a round trip (0)."""
        return -1, -1, 0

    def size(self):
        """Return the bytes of the largest datagrams that are sent, 0 if unknown."""
        return 0

    def shrink(self, size):
        """Send no larger ones from now on; returns whether that is possible."""
        return False

    def probe(self, size, number):
        """Queue a datagram of that size, whose acknowledgement is an event with the number.

        Returns whether the other end takes such.
        """
        return False

    def silence(self):
        """Return how many timeouts there were in a row, without an answer."""
        return 0


class _GuessingAdapter(QuicAdapter):
    """Of a library that does not tell what waits."""

    def __init__(self, connection, stream):
        QuicAdapter.__init__(self, connection, stream)
        self.guess = _Guess()
        self.waiting = self.guess.waiting


class _AioquicAdapter(QuicAdapter):
    """Of aioquic, and of qh3 before 2.0, which was made of it."""

    def _sender(self):
        return getattr(self._connection._streams.get(self._stream), "sender", None)

    def waiting(self):
        sender = self._sender()
        return sender._buffer_stop - sender.highest_offset if sender else 0

    def unacknowledged(self):
        sender = self._sender()
        return sender._buffer_stop - sender._buffer_start if sender else 0

    def figures(self):
        recovery = getattr(self._connection, "_loss", None)
        return (-1, getattr(recovery, "congestion_window", -1),
                getattr(recovery, "_rtt_smoothed", 0))

    def size(self):
        return getattr(self._connection, "_max_datagram_size", 0)


class _Qh3Adapter(QuicAdapter):
    """Of qh3, whose connection is a core of Rust inside Python.

    What is asked of the core is not public, and done without where it is not there.
    """

    _core = None  # where it is called directly

    def shorten(self):
        core = getattr(self._connection, "_core", None)
        if all(hasattr(each, name) for each, name in (
                (core, "poll_transmit"), (core, "receive_gro_buffer"),
                (self._connection, "_drain_core"))):
            self._core = core

    def due(self, now):
        if self._core is None:
            return QuicAdapter.due(self, now)
        poll = functools.partial(self._core.poll_transmit, now)
        return [transmit[0] for transmit in itertools.islice(iter(poll, None), _QUIC_BATCH)]

    def receive(self, data, size, remote, now):
        if self._core is None:
            QuicAdapter.receive(self, data, size, remote, now)
            return
        try:
            self._core.receive_gro_buffer(data, size, remote, now)
        finally:
            self._connection._drain_core()

    def waiting(self):
        return self._connection.get_send_buffer_size(self._stream)

    def unacknowledged(self):
        return self.waiting() + self._figure("bytes_in_flight", 0)

    def _figure(self, name, default):
        return getattr(getattr(self._connection, "_core", None), name, default)

    def figures(self):
        return (self._figure("loss_total", -1), self._figure("congestion_window", -1),
                self._figure("smoothed_rtt", 0))

    def size(self):
        path = self._figure("active_path", ())
        return path[5] if len(path) > 5 else 0

    def silence(self):
        return self._figure("pto_count", 0)

    def shrink(self, size):
        # The other end's limit is the one thing that makes the core send smaller ones.
        theirs = getattr(self._connection, "_applied_transport_parameters", None)
        try:
            self._connection._core.apply_peer_transport_parameters(
                theirs.initial_max_data or 0, theirs.initial_max_stream_data_bidi_local or 0,
                theirs.initial_max_stream_data_bidi_remote or 0,
                theirs.initial_max_stream_data_uni or 0, theirs.initial_max_streams_bidi or 0,
                theirs.initial_max_streams_uni or 0,
                3 if theirs.ack_delay_exponent is None else theirs.ack_delay_exponent,
                0.025 if theirs.max_ack_delay is None else theirs.max_ack_delay / 1000.0,
                theirs.max_idle_timeout / 1000.0 if theirs.max_idle_timeout else None,
                theirs.max_datagram_frame_size, theirs.stateless_reset_token,
                theirs.active_connection_id_limit or 2, bool(theirs.disable_active_migration),
                size)
        except Exception:  # there are none yet; or it is another core
            return False
        return self.size() <= size

    def probe(self, size, number):
        # A DATAGRAM frame (RFC 9221) in a packet with a short header, and a PING with it.
        room = size - (1 + 8 + 2 + 16) - 1 - (1 + (2 if size < 16384 + 31 else 4))
        try:
            self._connection.send_datagram_frame(bytes(room))
            self._connection.send_ping(number)
        except Exception:  # the other end does not take them
            return False
        return True


def quic_adapter(connection, stream):
    """Return the QuicAdapter of a library's connection, by what it has, under whatever name."""
    kind = _GuessingAdapter
    if hasattr(connection, "_streams"):
        kind = _AioquicAdapter
    elif hasattr(connection, "get_send_buffer_size"):
        kind = _Qh3Adapter
    return kind(connection, stream)


class _Guess:
    """What waits with a library that does not tell: what was queued, less what was sent."""

    def __init__(self):
        self._queued, self._sent = 0, 0.0  # bytes, about; when some were sent

    def waiting(self):
        return self._queued

    def queue(self, count):
        self._queued += count

    def send(self, now, datagrams):
        """Take note of what is sent; if nothing goes for long, nothing waits."""
        if datagrams:
            self._sent = now
        self._queued = max(0, self._queued - sum(map(len, datagrams))) if (
            now - self._sent < 0.1) else 0


class DatagramSize:
    """Find how large the datagrams that one end of a connection sends may be (RFC 8899).

    The library begins with what the path of the control connection takes; its first datagram has
    up to 1836 bytes, and goes again with 1200 if that is lost. After the handshake one of full size
    has to get through, or they become smaller; and so they do when nothing gets through any more,
    or the system knows that the path is narrower.
    """

    def __init__(self, adapter, usual):
        """usual: the size to fall back to at first, that of an Ethernet."""
        self._adapter, self._usual = adapter, usual
        self._settled = False
        self._first = self._last = 0  # numbers of the probes of the present size
        self._deadline = 0.0  # for the acknowledgement of the last one
        # Timeouts to bear now, and after an answer; those of the handshake are long.
        self._patience = self._least = _QUIC_SILENCE - 1

    def probe(self, now):
        """Begin to see whether the size gets through, once the handshake is over."""
        size = self._adapter.size()
        self._patience = self._least = _QUIC_SILENCE
        self._last += 1
        self._deadline = now + min(1.0, 0.1 + 2 * (self._adapter.figures()[2] or 0))
        if size <= _QUIC_LEAST:
            self._settled = True
        elif not self._adapter.probe(size, self._last):
            if size > self._usual:
                self._adapter.shrink(self._usual)
            self._settled = True

    def acknowledge(self, number):
        """Take note that a probe got through."""
        self._settled = self._settled or number > self._first

    def is_settled(self, now):
        """Return whether the size is known; repeats the probe in time, and gives a size up."""
        if not self._settled and now > self._deadline:
            if self._last - self._first >= _QUIC_PROBES:
                self._fall()
            self.probe(now)
        return self._settled

    def _fall(self):
        size = self._usual if self._adapter.size() > self._usual else _QUIC_LEAST
        self._settled = not self._adapter.shrink(size) or self._settled
        self._first = self._last

    def watch(self, quiet):
        """Take a timeout: the path may have become narrower without a word.

        quiet: seconds since something came. A shorter outage tells nothing of the size.
        """
        silence = self._adapter.silence()
        if not silence:
            self._patience = self._least
        elif (silence >= self._patience and quiet >= _QUIC_QUIET
              and self._adapter.size() > _QUIC_LEAST):
            self._patience = silence + 2
            self._fall()

    def limit(self, room, now):
        """Take note of a path that takes `room` bytes; returns whether no more are sent."""
        if self._adapter.size() > room >= _QUIC_LEAST and self._adapter.shrink(room):
            self._first = self._last
            if not self._settled:
                self.probe(now)
        return 0 < self._adapter.size() <= room


def _reason_to_end(kind, event, stream):
    """Return why an event of the library ends the connection, None if it does not."""
    if kind == "ConnectionTerminated":
        return printable(event.reason_phrase) or "closed by the other end (%d)" % event.error_code
    if kind in ("StreamReset", "StopSendingReceived") and event.stream_id == stream:
        return "the other end gave the stream up (%d)" % event.error_code
    return None


def _in_pieces(datagrams):
    """Return them in lists of one size, whose last may be shorter, for one call each (GSO)."""
    pieces, at = [], 0
    while at < len(datagrams):
        size, end = len(datagrams[at]), at + 1
        limit = min(len(datagrams), at + min(_UDP_MAX_SEGMENTS, MAX_UDP_BLOCK // size))
        while end < limit and len(datagrams[end]) == size:
            end += 1
        if at + 1 < end < limit and len(datagrams[end]) < size:
            end += 1
        pieces.append(datagrams[at:end])
        at = end
    return pieces


class QuicSocket(StandIn):
    """A QUIC connection with one stream, over a UDP socket.

    All but the constructor, begin() and is_connected() is for the worker: nothing goes on while
    it does something else than send(), recv_into(), serve() or exchange().
    """

    def __init__(self, sock, end, remote, cookie, first=None):
        """sock: a connected UDP socket; end: QuicEnd; remote: the other end's address.

        cookie: what the client sends first; first: of a server, the datagrams that came so far.
        """
        StandIn.__init__(self, sock)
        self._sock, self.end, self._remote = sock, end, remote
        self._cookie, self._first, self._is_client = cookie, first, first is None
        sock.setblocking(False)
        self._connection = self._adapter = self._size = None
        self._headers = 28 if sock.family == socket.AF_INET else 48  # bytes, of IP and UDP
        self._came = 0  # bytes of the largest datagram that came since the handshake
        self._heard = 0.0  # when one came
        self._stream = 0  # RFC 9000, 2.1: the client's first one
        self._pieces, self._held = collections.deque(), 0  # what came, and how many bytes it is
        self.ended = False  # the stream that comes has come whole
        self.discards = False  # nobody will read what comes
        self._packets = 0
        self.report, self._reported = None, 0.0  # called with QuicFigures, and when
        self.stopped = bool  # called to know whether to send no more: by default False
        self._refused = None  # since when the other host says that nothing listens
        self.outage = Outage(sock)
        self._connected, self._begun = False, 0.0
        self.trouble = ""  # what the library said of the handshake
        self.broken = None  # why the connection is over
        self.connect_seconds = self.first_byte_seconds = 0.0
        self._cuts = set_segmentation(sock, 1200) and set_segmentation(sock, 0)
        self._joins = hasattr(sock, "recvmsg") and set_coalescing(sock)

    def setblocking(self, blocking):
        """Calls block for a while, whatever this says."""

    def shutdown(self, how):
        """End a thread's connection; a process's goes on until it is ended."""
        if how == socket.SHUT_RDWR:
            self.broken = self.broken or "shut down"
            self._sock.shutdown(how)

    def begin(self):
        """Begin the handshake; returns whether the other end seems to be one. Raises IperfError.

        A new process would do so more slowly, by 20 ms: the library's random numbers begin anew.
        """
        self._begun = time.monotonic()
        try:
            usual = 1500 - self._headers
            size, room = self.end.datagram_size or usual * (not self._is_client), self._room()
            connection = self._connection = self.end.connection(
                self._first, min(size, room or size), usual)
            self._adapter = quic_adapter(connection, self._stream)
            self._size = DatagramSize(self._adapter, usual)
            if self._is_client:
                connection.connect(self._remote, time.monotonic())
                return True
        except Exception as error:  # of a class that the library chose
            raise IperfError(203 if self._is_client else 204, OSError(
                _EPROTO, "%s: %s" % (self.end.library.name, error)))
        first, self._first = self._first, None
        for data in first:
            self._take_in(data, 0)
        self._send_due()
        return bool(self._packets or self.trouble)  # what is garbage is not answered

    def is_connected(self):
        """Go on with the handshake; returns whether it is over. Raises OSError if it failed."""
        self.exchange(0)
        self._take_events()  # what was sent may have been the end
        self._check()
        return self._connected

    def open(self):
        """Exchange cookie and answer, once the handshake is over. Raises OSError."""
        if not self._is_client and self._await(len(self._cookie)) != self._cookie:
            raise OSError(errno.EACCES, "the connection is another test's")
        self._connection.send_stream_data(
            self._stream, self._cookie if self._is_client else _QUIC_ANSWER)
        self.exchange(0)  # before the probe, which may fill the window
        self._size.probe(time.monotonic())
        if self._is_client:
            self._await(1)
            self.first_byte_seconds = time.monotonic() - self._begun
        trouble = self.trouble
        while not self._size.is_settled(time.monotonic()) and not self.broken:
            self.exchange(0.02)
        self.trouble = trouble  # of the handshake, not of what was tried since
        if self.broken:
            raise OSError(errno.ECONNABORTED, self.broken)

    def _room(self):
        """Return the bytes that a datagram may have as far as this system knows, 0 if it does not.
        """
        return max(0, path_mtu(self._sock) - self._headers)

    def _await(self, count):
        """Return the next `count` bytes of the stream. Raises OSError if they do not come."""
        while self._held < count:
            self.exchange(0.05)
            self._check()
        data = bytearray(count)
        self.recv_into(memoryview(data), count)
        return data

    def _check(self):
        """Raise OSError if the other end does not answer, or not as it should."""
        now = time.monotonic()
        if not self.connect_seconds and self._connected:
            self.connect_seconds = now - self._begun
        if self.broken:
            raise OSError(errno.ECONNABORTED, self.broken)
        if self._refused and now - self._refused > _QUIC_REFUSED:
            raise OSError(errno.ECONNREFUSED, "its host says that nothing listens there")
        patience = QUIC_TIMEOUT + (0 if self._is_client else 2.0)  # the client tells more
        if now - self._begun > patience:
            raise OSError(errno.ETIMEDOUT, "no answer within %.0f seconds%s" % (
                patience, " (%s)" % self.trouble if self.trouble else ""))

    def send(self, data):
        """Queue all of `data` once there is room. Raises BlockingIOError, OSError.

        It leaves with the next call, of whatever kind, and so not before it is counted.
        """
        end = time.monotonic() + _CALL_TIMEOUT
        self.exchange(0)
        while self._adapter.waiting() >= max(len(data), 65536) and not self.broken:
            left = end - time.monotonic()
            if left <= 0 or self.stopped():
                raise _would_block()
            self.exchange(left)
        if self.broken:
            raise BrokenPipeError(errno.EPIPE, self.broken)
        try:
            self._connection.send_stream_data(self._stream, data)
        except Exception as error:  # closed, say; the libraries raise what they like
            self.broken = str(error)
            raise BrokenPipeError(errno.EPIPE, self.broken)
        if self._adapter.guess:
            self._adapter.guess.queue(len(data))
        return len(data)

    def finish(self):
        """Queue the end of the stream."""
        with suppress(Exception):  # the connection is over
            self._connection.send_stream_data(self._stream, b"", True)

    def unacknowledged(self):
        """Return how many bytes the other end may not have yet, as far as the library tells."""
        self.exchange(0)
        return self._adapter.unacknowledged()

    def recv_into(self, view, size, flags=0):
        """As a TCP socket's; 0 at the end of the stream. The flags make no difference."""
        end = time.monotonic() + _CALL_TIMEOUT
        while not self._held:
            if self.ended or (self.broken and self.stopped()):
                return 0
            if self.broken:
                raise ConnectionResetError(errno.ECONNRESET, self.broken)
            left = end - time.monotonic()
            if left <= 0:
                raise _would_block()
            self.exchange(left)
        count = 0
        while self._pieces and count < size:
            piece = self._pieces.popleft()
            if len(piece) > size - count:
                piece = memoryview(piece)
                self._pieces.appendleft(piece[size - count:])
                piece = piece[:size - count]
            view[count:count + len(piece)] = piece
            count += len(piece)
        self._held -= count
        return count

    def serve(self, seconds):
        """Do what the connection needs for `seconds`, and once at least."""
        end = time.monotonic() + seconds
        while True:
            self.exchange(max(0.0, end - time.monotonic()))
            if time.monotonic() >= end:
                return

    # Datagrams

    def exchange(self, wait, gate=None):
        """Take in what has come, send what is due; if nothing came, wait for it so long at most.

        gate: a descriptor that ends the wait, too.
        """
        # What the other end sends too early waits in the kernel, and is lost beyond that.
        full = self._held > self.end.unread
        calls = 0 if full else self._receive()
        self._send_due()
        if calls or not wait:
            return
        now, timer = time.monotonic(), self._connection.get_timer()
        if timer is not None:
            wait = min(wait, max(0.0, timer - now))
        self.tell(now)
        if is_ready([self._sock] * (not full) + [gate] * (gate is not None), wait) and not full:
            self._receive()
        self._send_due()

    def _receive(self):
        """Take in the datagrams that have come; returns how many calls brought some."""
        for count in range(_QUIC_CALLS):
            ancillary = ()
            try:
                if self._joins:
                    data, ancillary, _, _ = self._sock.recvmsg(65536, 64)
                else:
                    data = self._sock.recv(65536)
            except (BlockingIOError, InterruptedError):
                return count
            except ConnectionError:  # on Windows a reset
                self._refused = self._refused or time.monotonic()
                continue
            except OSError as error:  # of ICMP, say, which anybody can send
                self.trouble = error.strerror
                self._size.limit(self._room() or _QUIC_MOST, time.monotonic())
                return count
            self._take_in(data, segment_size(ancillary))
        return _QUIC_CALLS

    def _take_in(self, data, size):
        """Hand a datagram, or several of `size` bytes each in one piece, to the library."""
        size, now = size or len(data), time.monotonic()
        self._heard = now
        if size > self._came:
            self._came = size
        try:
            self._adapter.receive(data, size, self._remote, now)
            self._refused = None
        except Exception as error:  # no end of the connection: anybody can send garbage
            if not self._connected:
                self.trouble = "%s: %s" % (self.end.library.name, error)
        self._take_events()

    def _take_events(self):
        """Take in what the library has to tell."""
        event = self._connection.next_event()
        while event is not None:
            kind = type(event).__name__  # the same in both libraries
            if kind == "StreamDataReceived" and event.stream_id == self._stream:
                if event.data and not self.discards:
                    self._pieces.append(event.data)
                    self._held += len(event.data)
                self.ended = self.ended or event.end_stream
            elif kind == "HandshakeCompleted":
                self._connected, self._came = True, 0
                self._adapter.shorten()
            elif kind == "PingAcknowledged":
                self._size.acknowledge(event.uid)
            else:
                self.broken = _reason_to_end(kind, event, self._stream) or self.broken
            event = self._connection.next_event()

    def _send_due(self):
        """Let the library make the datagrams that are due, and send them."""
        now, due = time.monotonic(), None
        while due is None or len(due) >= _QUIC_BATCH:
            due = self._due(now)
            self._packets += len(due)
            if self._adapter.guess:
                self._adapter.guess.send(now, due)
            for piece in _in_pieces(due) if self._cuts else zip(due):
                self._send_piece(piece)
        if now - self._reported > _QUIC_REPORT:
            self.tell(now)

    def _due(self, now):
        """Return the datagrams that are due, or the first ones."""
        try:
            timer = self._connection.get_timer()
            if timer is not None and timer <= now:
                self._connection.handle_timer(now)
                self._take_events()
                self._size.watch(now - self._heard)
            return self._adapter.due(now)
        except Exception as error:
            # qh3 2.1 cannot answer the single first datagram of a foreign client, or of one that
            # is silent from then on; when that is repeated it can.
            self.trouble = "%s: %s" % (self.end.library.name, error)
            if self._connected:
                self.broken = self.broken or str(error)
            return []

    def tell(self, now):
        """Report the figures."""
        if self.report:
            self._reported = now
            lost, window, rtt = self._adapter.figures()
            self.report(QuicFigures(self._packets, lost, window, int((rtt or 0) * 1e6),
                                    self._adapter.size(), self._came))

    def _send_piece(self, datagrams):
        """Send datagrams of one size in one call. What does not go counts as lost on the way."""
        try:
            try:
                self._send_call(datagrams)
            except OSError as error:
                if error.errno != errno.EMSGSIZE:
                    raise
                # ICMP's of what was sent before, perhaps.
                self._size.limit(self._room() or _QUIC_MOST, time.monotonic())
                self._send_call(datagrams)
            if self.outage.since:
                self.outage.end(time.monotonic())
        except ConnectionError:
            self._refused = self._refused or time.monotonic()
        except OSError as error:
            self._bear(error, datagrams)

    def _send_call(self, datagrams):
        """Send datagrams of one size; they are dropped where a slow link takes too long."""
        while True:
            try:
                if len(datagrams) == 1:
                    self._sock.send(datagrams[0])
                else:
                    self._sock.sendmsg(datagrams, segments(len(datagrams[0])))
                return
            except BlockingIOError:
                if not is_ready([self._sock], _CALL_TIMEOUT, True):
                    return

    def _bear(self, error, datagrams):
        """Take an error of _send_call()."""
        self.trouble, room = error.strerror, self._room()
        if 0 < room < len(datagrams[0]) and self._size.limit(room, time.monotonic()):
            return
        if len(datagrams) > 1 and error.errno in _NO_SEGMENTS:
            self._cuts = False
            for data in datagrams:
                self._send_piece([data])
            return
        try:
            self.outage.bear(error, time.monotonic(), self._connected)
        except OSError as failure:
            self.broken = self.broken or failure.strerror


###############################################################################
# statistics ##################################################################
###############################################################################
# Counters to figures: the pieces of iperf3's JSON document. Pure functions and
# small records; no sockets, no clocks.

Counts = collections.namedtuple(
    "Counts", "bytes packets lost out_of_order retransmits drops pieces")
Counts.__doc__ = """What one end has counted of a stream; None where nobody can tell.

packets: datagrams, or QUIC's packets; lost, out_of_order: of datagrams; retransmits: of a
sender, with QUIC its lost packets; drops: datagrams that the receiving host had no room for;
pieces: how many it had joined these to, if it joins any.
"""


def difference(now, before):
    """Return the Counts between two moments; what was not known of the earlier one was 0."""
    change = Counts(*[None if count is None else count - (earlier or 0)
                      for count, earlier in zip(now, before)])
    # differs: late datagrams of an earlier part do not make iperf3's loss negative here.
    return change._replace(lost=max(0, change.lost))


def window_of(info):
    """Return the bytes of a TcpInfo's congestion window: the kernel counts it in segments."""
    return info.snd_cwnd * info.snd_mss


class Samples:
    """Keep values, or every second, fourth ... of them: enough to tell of any test."""

    def __init__(self, values, most):
        """values: an empty list or array; most: how many are kept."""
        self.values, self._most = values, most
        self._step = self._wait = 1  # of so many one is kept; those before the next that is

    def add(self, value):
        self._wait -= 1
        if not self._wait:
            self._wait = self._step
            self.values.append(value)
            if len(self.values) > self._most:
                del self.values[1::2]
                self._step *= 2

    def percentiles(self, *shares):
        """Return the numbers at these shares (0 to 1) of the order, of at least one."""
        ordered = sorted(self.values)
        return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in shares]


_NO_THRESHOLD = 0x7fffffff  # of slow start (Linux): nothing was lost yet


class ConnectionLimits:
    """Keep what the kernel told of one TCP connection: from when measuring began, and samples."""

    _MOST = 2048  # samples of each kind
    _START = 1.0  # seconds: slow start, which loses packets on any path, with a young window
    _LATER = ("segments_sent", "retransmits", "busy_us", "rwnd_limited_us")  # told of the rest, too
    # From this share on a send buffer is full: the kernel wakes a writer at two thirds.
    _FULL = 0.65

    def __init__(self):
        self._begin = self._last = None  # TcpInfos
        self._forget()

    def _forget(self):
        self._rtt, self._window, self._threshold = [
            Samples(array.array("q"), self._MOST) for _ in range(3)]
        self._settled = None  # the TcpInfo behind slow start
        # All; those without a whole segment to be sent; with a full buffer (None: not known);
        # with as much under way as the congestion window allows.
        self._samples = self._empty = self._congested = 0
        self._full = None
        self._lossy = self._resent = 0  # samples in which something was sent again; as of now

    def begin(self, info):
        """Count from this TcpInfo on."""
        self._begin = info
        self._forget()

    def sample(self, info, use=None, seconds=0.0):
        """Take in how a sender's connection is now.

        use: share of the send buffer that is in use, if known; seconds: since measuring began.
        """
        if info.rtt > 0:
            self._rtt.add(info.rtt)
        self._window.add(info.snd_wnd)
        self._samples += 1
        self._empty += info.notsent_bytes < max(1, info.snd_mss)
        self._congested += info.unacked >= info.snd_cwnd - 1
        if use is not None:
            self._full = (self._full or 0) + (use >= self._FULL)
        if seconds >= self._START:
            self._settled = self._settled or info
            self._lossy += info.total_retrans > self._resent
            if 0 < info.snd_ssthresh < _NO_THRESHOLD:
                self._threshold.add(info.snd_ssthresh)
        self._resent = info.total_retrans

    def finish(self, info):
        """Take the TcpInfo of the end, once."""
        self._last = info

    def to_json(self):
        """Return it as an object, empty if nobody knows anything."""
        if self._last is None:
            return {}
        facts = connection_facts(self._last, self._begin)
        if self._rtt.values:
            names = ("rtt_p50_us", "rtt_p95_us", "rtt_max_us")
            facts.update(zip(names, self._rtt.percentiles(0.5, 0.95, 1.0)))
        if self._samples:
            facts["samples"] = self._samples
            facts["samples_congested"] = self._congested
            if self._last.notsent_bytes >= 0:
                facts["samples_nothing_unsent"] = self._empty
            if self._full is not None:
                facts["samples_buffer_full"] = self._full
            facts.update(self._window_facts())
        if len(self._threshold.values) >= 10:
            values, (middle,) = self._threshold.values, self._threshold.percentiles(0.5)
            near = sum(abs(value - middle) <= 0.1 * middle for value in values)
            facts["ssthresh_p50_segments"] = middle
            facts["ssthresh_near_percent"] = round(percent(near, len(values)), 1)
            facts["samples_lossy"] = self._lossy
        if self._settled:
            later = connection_facts(self._last, self._settled)
            facts.update(("later_" + name, later[name]) for name in self._LATER if name in later)
        return facts

    def _window_facts(self):
        windows = list(self._window.values)
        widest = max(windows)
        if widest <= 0:
            return {}
        later = windows[windows.index(widest):]  # before it, it grew
        small = sum(4 * window < widest for window in later)
        return {"max_snd_wnd": widest,
                "snd_wnd_small_percent": round(percent(small, len(later)), 1)}


class Progress:
    """Keep how the bytes of a direction came about, for what their rate did during the test."""

    _MOST = 1024
    _WINDOW = 0.5  # seconds over which a rate is taken, at least
    _START = 1.4  # seconds; a window that ends later has begun behind the first one

    def __init__(self):
        self._points = Samples([], self._MOST)  # (seconds, bytes)
        self._longest = self._moved = 0.0  # seconds without progress; when there was some
        self._count = None

    def add(self, now, count):
        """Take in the bytes so far. now: seconds since measuring began."""
        if count != self._count:
            self._count, self._moved = count, now
        self._longest = max(self._longest, now - self._moved)
        self._points.add((now, count))

    def rates(self):
        """Return (seconds, bits per second) of successive windows, each with its end."""
        rates, points = [], self._points.values
        if not points:
            return rates
        begin, before = points[0]
        window = max(self._WINDOW, (points[-1][0] - begin) / 40)
        for now, count in points[1:]:
            if now - begin >= window:
                rates.append((now, (count - before) * 8.0 / (now - begin)))
                begin, before = now, count
        return rates

    def to_json(self):
        """Return the object of it: how long the rate took to come up, how even it was then."""
        rates = self.rates()
        facts = collections.OrderedDict(longest_stall_seconds=round(self._longest, 3))
        if len(rates) >= 4:
            later = sorted(rate for _, rate in rates[len(rates) // 2:])
            usual = facts["usual_bps"] = later[len(later) // 2]
            begin = ends = self._points.values[0][0]
            for end, rate in rates:
                if rate >= 0.9 * usual:
                    break
                ends = end
            facts["ramp_seconds"] = round(ends - begin, 3)
            # Behind slow start, which fills any queue, and without the end.
            even = [rate for end, rate in rates[:-1] if end >= self._START]
            if len(even) >= 4:
                mean = sum(even) / len(even)
                deviation = (sum((rate - mean) ** 2 for rate in even) / len(even)) ** 0.5
                facts["deviation_percent"] = round(percent(deviation, mean), 1)
        return facts


class StreamFigures:
    """Keep the figures of one TCP stream, as seen by one end.

    socket: the stream's number in the output (iperf3: its descriptor); sender: this end sends;
    now, begin, last: Counts of this moment, of when measuring began, of the last interval's end.
    """

    def __init__(self, number, sender):
        self.socket = number
        self.sender = sender
        self.now = self.begin = self.last = Counts(0, 0, 0, 0, None, None, None)
        self.jitter = 0.0  # seconds
        self.limits = ConnectionLimits()
        self.reorder = 0
        self.max_snd_cwnd = self.max_snd_wnd = self.max_rtt = self.min_rtt = 0
        self._rtt_sum = self._rtt_count = 0

    def take(self, info=None, **counts):
        """Take in the Counts that are given by name, and a TcpInfo."""
        if info is not None:
            if self.sender:
                counts["retransmits"] = info.total_retrans
            self.reorder = info.reord_seen
            self.max_snd_cwnd = max(self.max_snd_cwnd, window_of(info))
            self.max_snd_wnd = max(self.max_snd_wnd, info.snd_wnd)
            self.max_rtt = max(self.max_rtt, info.rtt)
            self.min_rtt = min(self.min_rtt, info.rtt) if self._rtt_count else info.rtt
            self._rtt_sum += info.rtt
            self._rtt_count += 1
        self.now = self.now._replace(**counts)

    def measured(self):
        """Return the Counts since measuring began."""
        counts = difference(self.now, self.begin)
        if counts.pieces is not None:  # what came late after all was not dropped
            drops = max(0, min(counts.drops, counts.lost))
            counts = counts._replace(drops=drops, pieces=min(drops, counts.pieces))
        return counts

    def is_quiet(self):
        """Return whether nothing was counted since the last interval."""
        change = difference(self.now, self.last)
        return not (change.bytes or change.retransmits)

    def start_measuring(self):
        """Forget what was counted so far: the end of the omitted part."""
        self.begin = self.last = self.now
        self.jitter = 0.0

    def end_interval(self, start, end, info, omitted):
        """Return the interval's object of this stream and begin the next interval.

        start, end: seconds from the start of the test, or of its measured part; info: TcpInfo.
        """
        change = difference(self.now, self.last)
        # differs: what comes late is taken off the losses to come, never below none.
        self.last = self.now._replace(lost=max(self.now.lost, self.last.lost))
        row = {"socket": self.socket}
        row.update(rate_figures(start, end, change.bytes))
        row.update(self._columns(change, info))
        row["omitted"] = omitted
        row["sender"] = self.sender
        return row

    def _columns(self, change, info):
        """Return what an interval's object has besides the rate."""
        if not self.sender or info is None:
            return {}
        return {"retransmits": change.retransmits, "snd_cwnd": window_of(info),
                "snd_wnd": info.snd_wnd, "rtt": info.rtt, "rttvar": info.rttvar,
                "pmtu": info.pmtu, "reorder": info.reord_seen}

    def extremes(self):
        """Return the figures of the whole test that iperf3 has of a sender's TCP_INFO."""
        names = ("reorder", "max_snd_cwnd", "max_snd_wnd", "max_rtt", "min_rtt")
        return dict([(name, getattr(self, name)) for name in names],
                    mean_rtt=self._rtt_sum // max(1, self._rtt_count))


class DatagramFigures(StreamFigures):
    """The same of a UDP stream."""

    def _columns(self, change, info):
        if self.sender:
            return {"packets": change.packets}
        return {"jitter_ms": self.jitter * 1000.0, "lost_packets": change.lost,
                "packets": change.packets, "lost_percent": percent(change.lost, change.packets)}


class QuicStreamFigures(StreamFigures):
    """The same of a QUIC stream."""

    window = 0  # of congestion, in bytes

    def _columns(self, change, info):
        own = self.packets(change)
        if self.sender:
            own["snd_cwnd"] = self.window
        return dict(StreamFigures._columns(self, change, info), pyperf3=own)

    def packets(self, counts):
        """Return what Counts say of this end's packets: the other end's share is its own."""
        own = {"packets_sent": counts.packets}
        if self.sender and counts.retransmits is not None:
            own["packets_lost"] = counts.retransmits
        return own


class DatagramTracker:
    """Find what of a stream of numbered datagrams was lost, came late, or jittered, as iperf3 does.

    bytes: of what came; highest: the highest number; lost: gaps in the numbers, less what came
    late; late: datagrams that came late or twice; jitter: in seconds (RFC 3550, 6.4.1).
    """

    _DECAYS = [(15.0 / 16.0) ** max(0, count - 1) for count in range(65536 // MIN_UDP_BLOCK + 1)]

    def __init__(self, length, wide, highest=0):
        """length: bytes of a datagram; wide: their counters have 64 bits; highest: as if seen."""
        self.bytes = self.lost = self.late = 0
        self.highest = highest
        self.jitter = 0.0
        self._transit = None  # of the last datagram, in seconds
        self._length = length
        self._mask = 2 ** 64 - 1 if wide else 2 ** 32 - 1  # of the counters

    def forget_jitter(self):
        """Begin anew with the jitter."""
        self.jitter, self._transit = 0.0, None

    def forget_transit(self):
        """Take the next datagram for the first one: a clock was set."""
        self._transit = None

    def take(self, headers, sizes, arrivals):
        """Take in datagrams. headers: DatagramHeaders; sizes: bytes; arrivals: seconds."""
        count, length = len(sizes), self._length
        seconds, micros, counters = headers.read(count)
        low = (self.highest + 1) & self._mask
        if counters == tuple(range(low, low + count)) and sizes.count(length) == count:
            self.highest += count
            self.bytes += count * length
        else:
            data = self._sort_out(counters, sizes, headers.size)
            if len(data) < count:
                seconds, micros, arrivals = [[column[at] for at in data]
                                             for column in (seconds, micros, arrivals)]
        if arrivals:
            self._measure_jitter(arrivals, seconds, micros)

    def take_pieces(self, headers, unit, arrivals):
        """Take in pieces of `unit` datagrams each that came as one, if none of them is late.

        Returns whether that is so; else nothing was taken in.
        """
        found = headers.read_pieces(unit, len(arrivals))
        if found is None:
            return False
        first, second, pieces = found
        gap = (first - self.highest - 1) & self._mask  # counters wrap
        if gap > self._mask // 4 or self.highest + gap + unit * len(arrivals) >= 2 ** 62:
            return False
        self.lost += gap
        self.highest += gap + unit * len(arrivals)
        self.bytes += unit * len(arrivals) * self._length
        jitter, last = self.jitter, self._transit
        for arrival, runs in zip(arrivals, pieces):
            for micro, same in runs:
                transit = arrival - second - micro * 1e-6
                if last is not None:
                    jitter += (abs(transit - last) - jitter) / 16.0
                last = transit
                jitter *= self._DECAYS[same]  # the rest has the same transit
        self.jitter, self._transit = jitter, last
        return True

    def _sort_out(self, counters, sizes, header_size):
        """Count datagrams that are not simply the next ones; returns which of them are data."""
        half, data = (self._mask + 1) // 2, []
        for at, counter in enumerate(counters):
            if sizes[at] < header_size:
                continue  # a stray, or a hello
            step = (counter - self.highest) & self._mask  # counters wrap
            if step >= half:
                step -= self._mask + 1
            number = self.highest + step
            if not 0 < number < 2 ** 62:
                continue  # differs: iperf3 counts a repeated hello, and nonsense
            data.append(at)
            self.bytes += sizes[at]
            if step > 0:
                self.lost += step - 1
                self.highest = number
            else:
                self.late += 1
                self.lost = max(0, self.lost - 1)
        return data

    def _measure_jitter(self, arrivals, seconds, micros):
        jitter, last = self.jitter, self._transit
        if last is None:
            last = arrivals[0] - seconds[0] - micros[0] * 1e-6
        for arrival, second, micro in zip(arrivals, seconds, micros):
            transit = arrival - second - micro * 1e-6
            jitter += (abs(transit - last) - jitter) / 16.0
            last = transit
        self.jitter, self._transit = jitter, last


def percent(part, whole):
    """Return `part` in percent of `whole`, 0 of nothing."""
    return part * 100.0 / whole if whole else 0.0


def mean_and_deviation(values):
    """Return the mean and the standard deviation of at least one number: they are all there is."""
    mean = sum(values) / len(values)
    return mean, (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5


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
    def add(name):
        return sum(each[name] for each in streams)
    first = streams[0]
    figures = rate_figures(first["start"], first["end"], add("bytes"))
    for name in ("retransmits", "jitter_ms", "lost_packets", "packets"):
        if all(name in each for each in streams):
            figures[name] = add(name)
    if "jitter_ms" in figures:
        figures["jitter_ms"] /= len(streams)
        figures["lost_percent"] = percent(figures["lost_packets"], figures["packets"])
    figures["omitted"] = first["omitted"]
    figures["sender"] = first["sender"]
    return figures


Totals = collections.namedtuple(
    "Totals", "socket sender sent_bytes received_bytes sent_packets received_packets lost"
              " out_of_order jitter drops retransmits")
Totals.__doc__ = """What both ends know of what one stream, or a direction (socket None), measured.

sender: this end sends; jitter in seconds; what nobody knows is 0, of the last, lost and drops None.
"""

SummaryRow = collections.namedtuple("SummaryRow", "sent received totals diskfile")
SummaryRow.__doc__ = """What the summary's rows of a stream, or of a direction, are made of.

sent, received: objects with a rate, as in sum_sent and sum_received; of a stream with its
`socket`. diskfile: the object about -F, or None.
"""


def remote_counts(remote, omitted_packets):
    """Return the Counts of what the other end measured. remote: its StreamResult, or None.

    omitted_packets: those that this end counted in the omitted part.
    """
    if remote is None:
        return Counts(0, 0, 0, 0, None, None, None)
    omitted = remote.omitted_packets
    if omitted is None:  # 3.12 does not tell; this end's own count is near enough
        omitted = omitted_packets
    lost = max(0, remote.errors - (remote.omitted_errors or 0))
    if lost and omitted_packets and remote.omitted_errors is None:
        lost = None  # 3.12 does not tell how much of it was in the omitted part
    return Counts(remote.bytes, max(0, remote.packets - omitted), lost, 0,
                  remote.retransmits if remote.retransmits >= 0 else None, remote.dropped, None)


def stream_totals(figures, remote):
    """Return the Totals of a stream. remote: the other end's StreamResult, or None."""
    own, other = figures.measured(), remote_counts(remote, figures.begin.packets)
    sent, received = (own, other) if figures.sender else (other, own)
    return Totals(figures.socket, figures.sender, sent.bytes, received.bytes, sent.packets,
                  received.packets, received.lost, own.out_of_order,
                  remote.jitter if remote and figures.sender else figures.jitter,
                  received.drops, sent.retransmits)


def sum_of_totals(totals, sender):
    """Return the Totals of a direction; its jitter is the mean. sender: this end sends in it."""
    def add(name):
        values = [getattr(each, name) for each in totals]
        return None if None in values else sum(values)
    names = Totals._fields[2:8]
    return Totals(None, sender, *[add(name) for name in names],
                  jitter=(add("jitter") or 0.0) / max(1, len(totals)),
                  drops=add("drops") if totals else None,
                  retransmits=add("retransmits") if totals or sender else None)


def stream_rows(totals, sender_time, receiver_time, local_time=None, extremes=None):
    """Return the (sent, received) objects of Totals of TCP: a stream's, or a direction's.

    sender_time, receiver_time: seconds that each end measured. Of a stream, local_time: of this
    end; extremes: of StreamFigures.
    """
    number = {} if totals.socket is None else {"socket": totals.socket}
    sent, received = dict(number), dict(number)
    sent.update(rate_figures(0, sender_time, totals.sent_bytes))
    if totals.retransmits is not None:
        sent["retransmits"] = totals.retransmits
        sent.update(extremes or {})
    # iperf3: a stream's `seconds` is this end's own time, `end` the receiver's.
    received.update(rate_figures(0, receiver_time, totals.received_bytes, local_time))
    sent["sender"] = received["sender"] = totals.sender
    return sent, received


def datagram_rows(totals, sender_time, receiver_time):
    """Return the objects (udp or sum, sent, received) of a UDP stream's, or direction's, Totals.

    sender_time, receiver_time: seconds that each end measured.
    """
    is_sum = totals.socket is None

    def row(figures, sender, packets, lost=0, whole=0, jitter=0.0):
        """whole: the datagrams that `lost` is a share of."""
        made = {} if is_sum else {"socket": totals.socket}
        made.update(figures)
        made.update((("jitter_ms", jitter * 1000.0), ("lost_packets", lost), ("packets", packets),
                     ("lost_percent", percent(lost, whole))))
        if not is_sum:
            made["out_of_order"] = totals.out_of_order
        made["sender"] = sender
        return made
    lost, packets = totals.lost or 0, totals.sent_packets or totals.received_packets
    sent = rate_figures(0, sender_time, totals.sent_bytes)
    received = rate_figures(0, receiver_time, totals.received_bytes)
    # iperf3: a receiving server does not know how much was sent.
    first, wholes = sent, (totals.sent_packets, totals.received_packets)
    if is_sum:
        # iperf3: the rate is by the sender's time, the time is the receiver's.
        first = dict(received, bytes=sent["bytes"], bits_per_second=sent["bits_per_second"])
        wholes = (packets, packets)
    return (row(first, totals.sender, packets, lost, wholes[0], totals.jitter),
            row(sent, True, totals.sent_packets),
            row(received, False, totals.received_packets, lost, wholes[1], totals.jitter))


DIRECTIONS = ("", "_bidir_reverse")  # what the names of a direction's sums end in


def directions(rows, parallel, bidirectional):
    """Return (end of names, rows) of each direction, of rows in the order of the streams."""
    if not bidirectional:
        return [(DIRECTIONS[0], rows)]
    return list(zip(DIRECTIONS, (rows[:parallel], rows[parallel:])))


class RateMeter:
    """Average a rate over the last so many seconds, looked at once a second, as iperf3 does."""

    def __init__(self, seconds):
        self.next = 0.0  # when to look again
        self._marks = collections.deque(maxlen=max(1, seconds) + 1)  # (time, bytes so far)

    def look(self, now, total):
        """Return the bits per second of the average, 0 as long as it is not known."""
        if now < self.next:
            return 0
        self.next = now + 1.0
        self._marks.append((now, total))
        if len(self._marks) < self._marks.maxlen:
            return 0
        (begin, before), (end, after) = self._marks[0], self._marks[-1]
        return int((after - before) * 8 / max(end - begin, 1e-9))


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
# latency #####################################################################
###############################################################################
# Round trips of probes to figures, a grade, and lines: pure functions.

# Increase of the median under load (ms) from which on a grade is the next one: those of the most
# used bufferbloat test of browsers. RPM classes: draft-ietf-ippm-responsiveness.
_GRADE_BOUNDS = (5.0, 30.0, 60.0, 200.0, 400.0)
_RPM_CLASSES = ((300, "poor"), (1000, "fair"), (6000, "good"), (float("inf"), "excellent"))
# Where the figures are of little confidence: samples of probes, of TCP's own; lost; p95 of late.
_FEW_SAMPLES, _FEW_TOLD, _MANY_LOST, _LATE_MS = 100, 30, 0.1, 20.0


def latency_grade(increase):
    """Return the grade of an increase of the median round trip under load, in ms."""
    return GRADES[sum(increase >= bound for bound in _GRADE_BOUNDS)]


class ProbePhase:
    """Collect the samples of one class of probes, of one phase of a test.

    begin: number of its first probe; count: of samples.
    """

    _MOST = 16384  # of each kind that are kept

    def __init__(self, begin=0):
        self.begin, self.count = begin, 0
        self._rtt, self._change, self._up, self._down, self._late = [
            Samples(array.array("d"), self._MOST) for _ in range(5)]
        self._least = self._most = None  # ms
        self._first = self._last = None  # samples, by the numbers of their probes
        self._before = None  # the sample that came last
        self._recent = collections.deque(maxlen=4096)  # numbers of the last ones
        self.tos = {}  # (on the way up, down): how many came so

    def add_round_trip(self, ms):
        """Take in a round trip of which no more is known."""
        self.count += 1
        self._rtt.add(ms)
        self._least = ms if self._least is None else min(self._least, ms)
        self._most = ms if self._most is None else max(self._most, ms)

    def add(self, sample):
        """Take in a Sample."""
        self.add_round_trip(sample.rtt * 1e3)
        before, number = self._before, sample.sequence
        if before is not None and number == before.sequence + 1:
            self._change.add(abs(sample.rtt - before.rtt) * 1e3)
        self._before = sample
        self._recent.append(number)
        if self._first is None or number < self._first.sequence:
            self._first = sample
        if self._last is None or number > self._last.sequence:
            self._last = sample
        self._up.add(sample.up * 1e3)
        self._down.add(sample.down * 1e3)
        self._late.add(sample.late * 1e3)
        key = sample.tos_up, sample.tos_down
        self.tos[key] = self.tos.get(key, 0) + 1

    def merge(self, other):
        """Take in the round trips of another phase, before this one."""
        for ms in other._rtt.values:
            self.add_round_trip(ms)
        self.begin = min(self.begin, other.begin)

    @property
    def longest(self):
        """The longest round trip, in seconds."""
        return (self._most or 0.0) / 1e3

    def percentile(self, share):
        """Return a percentile of the round trips (ms), None without any."""
        return self._rtt.percentiles(share)[0] if self.count else None

    def usual_mean(self):
        """Return the mean round trip without the longest twentieth (ms), None without any."""
        ordered = sorted(self._rtt.values)
        kept = ordered[:max(1, int(0.95 * len(ordered)))]
        return sum(kept) / len(kept) if kept else None

    def late(self):
        """Return how late most probes left at the most (p95, ms)."""
        return self._late.percentiles(0.95)[0] if self._late.values else 0.0

    def ways(self):
        """Return the samples of both ways (ms, each off by the difference of the clocks)."""
        return self._up, self._down

    def losses(self, end):
        """Return (sent, lost, lost on the way up, on the way down).

        end: number of the first probe whose reply may still come. Which way is not known of
        those before the first reply, and behind the last one.
        """
        beyond = sum(number >= end for number in self._recent)
        sent = max(0, end - self.begin) + beyond
        lost = max(0, sent - self.count)
        if self._first is None:
            return sent, lost, 0, 0
        between = self._last.sequence - self._first.sequence
        arrived = self._last.count - self._first.count
        up = min(lost, max(0, between - arrived))
        return sent, lost, up, min(lost - up, max(0, arrived + 1 - self.count))

    def to_json(self, end, *more):
        """Return the phase's object. end: of losses(), None if nobody counts; more: percentiles."""
        figures = collections.OrderedDict(samples=self.count)
        if self.count:
            figures["min_ms"] = self._least
            for share in sorted({50, 95, 99}.union(more)):
                figures["p%d_ms" % share] = self.percentile(share / 100.0)
            figures["max_ms"] = self._most
        if self._change.values:
            for share in (50, 95):
                figures["ipdv_p%d_ms" % share] = self._change.percentiles(share / 100.0)[0]
        figures = collections.OrderedDict(
            (name, round(value, 4)) for name, value in figures.items())
        if end is not None:
            figures.update(zip(("sent", "lost", "lost_up", "lost_down"), self.losses(end)))
        return figures


class LatencyFigures:
    """The figures of one class of probes (or of TCP's own round trips): idle, and under load."""

    _FEW = 10  # samples under load, below which those of its beginning count, too

    def __init__(self):
        self.idle, self.early, self.loaded = ProbePhase(), None, None
        self._begin_interval()
        self._told, self._reply = None, None  # the newest sample; that of the last interval

    def _begin_interval(self):
        self._interval = Samples(array.array("d"), 2048)

    def begin_load(self, number, settled):
        """Begin the load. number: of the next probe; settled: without a beginning to leave out."""
        if self.early is None:
            self.early = ProbePhase(number)
            self._begin_interval()  # what came on the idle path is no interval's
        self.loaded = ProbePhase(number) if settled else None

    def add(self, sample):
        """Take in a Sample."""
        self._interval.add(sample.rtt * 1e3)
        if self._told is None or sample.bytes >= self._told.bytes:
            self._told = sample
        for phase in (self.loaded, self.early, self.idle):
            if phase is not None and sample.sequence >= phase.begin:
                phase.add(sample)
                return

    def add_round_trip(self, ms):
        """Take in what TCP says of a round trip under load."""
        self._interval.add(ms)
        (self.loaded or self.early).add_round_trip(ms)

    def end_interval(self, seconds, datagrams):
        """Return our member of an interval's row, and begin the next interval.

        seconds: that it took; datagrams: the other end counts them.
        """
        row, told, before = collections.OrderedDict(), self._told, self._reply
        if self._interval.values:
            median, longest = self._interval.percentiles(0.5, 1.0)
            row["latency_p50_ms"], row["latency_max_ms"] = round(median, 4), round(longest, 4)
        row["latency_samples"] = len(self._interval.values)
        self._begin_interval()
        if told is not None and told.bytes:
            received = int(told.bytes - (before.bytes if before else 0))
            row["received_bytes"] = received
            row["received_bps"] = received * 8.0 / seconds if seconds > 0 else 0.0
            if datagrams:
                packets, lost = [
                    int(getattr(told, name) - (getattr(before, name) if before else 0)) % 2 ** 32
                    for name in ("packets", "lost")]
                row["packets"], row["lost_packets"] = packets, lost if lost < 2 ** 31 else 0
                row["lost_percent"] = percent(row["lost_packets"], packets)
                row["jitter_ms"] = told.jitter / 1e3
            self._reply = told
        return row

    def to_json(self, end, shares):
        """Return the figures as an object.

        end: of ProbePhase.losses(); shares: more percentiles (1 to 100) than the usual ones.
        """
        idle, loaded = self.idle, self.loaded or self.early
        if loaded is None:
            return {"idle": idle.to_json(end)} if idle.count else {}
        if loaded is not self.early and loaded.count < self._FEW and self.early:
            loaded.merge(self.early)
        bound = end and min(end, self.early.begin)
        figures = collections.OrderedDict(idle=idle.to_json(bound),
                                          loaded=loaded.to_json(end, *shares))
        if idle.count and loaded.count:
            for name, part in (("increase_ms", 0.5), ("increase_p95_ms", 0.95)):
                figures[name] = round(loaded.percentile(part) - idle.percentile(part), 4)
            figures["grade"] = latency_grade(figures["increase_ms"])
        if loaded.count:
            rpm = 60000.0 / max(0.001, loaded.usual_mean())
            figures["rpm"] = int(rpm)
            figures["rpm_class"] = next(name for bound, name in _RPM_CLASSES if rpm < bound)
            few = _FEW_TOLD if end is None else _FEW_SAMPLES
            figures["confidence"] = self._confidence(figures["loaded"], loaded.late(), few)
        if end is not None:
            figures["late_p95_ms"] = round(loaded.late(), 4)
            figures["one_way"] = self._one_way(loaded)
        return figures

    @staticmethod
    def _confidence(loaded, late, few):
        sent, lost = loaded.get("sent", 0), loaded.get("lost", 0)
        poor = loaded["samples"] < few or lost > _MANY_LOST * sent or late > _LATE_MS
        return "low" if poor else "high"

    def _one_way(self, loaded):
        """Return by how much each way takes longer than its shortest time: clocks do not matter."""
        figures = collections.OrderedDict()
        for name, idle, way in zip(("up", "down"), self.idle.ways(), loaded.ways()):
            if way.values:
                least = min(min(way.values), min(idle.values, default=float("inf")))
                figures["%s_increase_p95_ms" % name] = round(
                    way.percentiles(0.95)[0] - least, 4)
        return figures

    def rewritten(self, tos):
        """Return (TOS at the server, TOS here) if most probes came with another one, else None."""
        seen = {}
        for phase in (self.idle, self.early, self.loaded):
            for key, count in phase.tos.items() if phase else ():
                seen[key] = seen.get(key, 0) + count
        if not seen:
            return None
        ways = max(seen, key=seen.get)
        # The lowest two bits are the network's (RFC 3168).
        changed = any(way != NO_TOS and int(way) >> 2 != tos >> 2 for way in ways)
        return tuple(int(way) for way in ways) if changed else None


def latency_text(ms):
    """Return milliseconds as people write them: three digits or so."""
    return "%.0f" % ms if ms >= 1000 else "%.1f" % ms if ms >= 10 else "%.2f" % ms


_SOURCES = {"udp": "UDP probes", "tcp": "probes over TCP", "tcp_info": "TCP's own round trips"}
_LATENCY_COLUMNS = ("min_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms")


def latency_lines(latency):
    """Return the lines of text of end.pyperf3.latency."""
    if latency.get("source") is None:
        return ["Latency: not measured: %s." % latency["reason"]]
    lines = []
    for figures in latency.get("classes", (latency,)):
        lines += _class_lines(dict(latency, **figures))
    loaded = latency.get("loaded", {}).get("samples")
    if loaded and latency.get("congestion", "").startswith("bbr"):
        lines.append("  bbr keeps queues short: what other traffic meets there may be longer"
                     " (-C cubic shows it)")
    return lines


def _class_lines(latency):
    what = _SOURCES[latency["source"]]
    if "rate" in latency:
        what += ", %d/s" % latency["rate"]
    if "dscp" in latency and ("classes" in latency or latency["dscp"]):
        what += ", DSCP %d" % latency["dscp"]
    if latency.get("congestion"):
        what += ", " + latency["congestion"]
    head = "Latency in ms (%s)" % what
    lines = ["%-44s%s" % (head, "".join("%8s" % name[:-3] for name in _LATENCY_COLUMNS)
                          + ("        lost" if "rate" in latency else ""))]
    for name, title in (("idle", "idle"), ("loaded", "under load")):
        phase = latency.get(name, {})
        line = "  %-42s" % title + "".join(
            "%8s" % latency_text(phase[column]) if column in phase else "       -"
            for column in _LATENCY_COLUMNS)
        if "sent" in phase:
            line += "%12s" % ("%d/%d" % (phase["lost"], phase["sent"]))
        lines.append(line)
    return lines + ["  " + line for line in _class_remarks(latency)]


def _class_remarks(latency):
    """Yield what there is to say of one class of probes."""
    parts = []
    if "grade" in latency:
        place = GRADES.index(latency["grade"])
        better = " (%s is below %g ms)" % (GRADES[place - 1], _GRADE_BOUNDS[place - 1])
        parts.append("%+.1f ms under load: grade %s%s" % (
            round(latency["increase_ms"], 1) + 0.0, latency["grade"], better if place else ""))
    if "rpm" in latency:
        parts.append("%d RPM (%s)" % (latency["rpm"], latency["rpm_class"]))
    if parts:
        yield ", ".join(parts)
    ways, loaded = latency.get("one_way", {}), latency.get("loaded", {})
    if len(ways) == 2 and max(ways.values()) >= 5:
        yield "on the way up +%s ms, on the way down +%s ms (p95, against the shortest)" % tuple(
            latency_text(ways[name]) for name in ("up_increase_p95_ms", "down_increase_p95_ms"))
    if loaded.get("lost"):
        yield "of the lost ones %d on the way up, %d on the way down" % (
            loaded["lost_up"], loaded["lost_down"])
    if "dscp_at_server" in latency:
        yield "the path rewrites the DSCP: %d arrives as %d, and comes back as %d" % (
            latency["dscp"], latency["dscp_at_server"], latency["dscp_back"])
    if latency.get("confidence") == "low":
        text = "of low confidence: %d samples" % loaded["samples"]
        if "sent" in loaded:
            text += ", %d lost, sent up to %s ms late (p95)" % (
                loaded["lost"], latency_text(latency["late_p95_ms"]))
        yield text


###############################################################################
# diagnosis ###################################################################
###############################################################################
# What the figures mean: what limited a test, by pure functions of its end object
# and what was asked for. Where nobody knows, that is said; nothing is guessed.

# From where on a figure decides. A share is of the time in which data waited for an
# acknowledgement (busy), of the samples, or of what was sent. The figures beside them were
# measured with the presets of tests/path.py, of five seconds, on an idle and on a busy host; where
# none stands, the threshold is a first guess.
_THRESHOLDS = {
    "rate": 0.98,  # of -b: one that was reached gives 0.99 to 1.01
    "rate_late": 0.90,  # at least, where of each stream a block is missing
    # Linux counts little of what a small send buffer costs: 0.002 to 0.07 (6.18), all else 0.
    "send_buffer": 0.10,
    "full": 0.60,  # of the samples have a full buffer; small ones 0.86 to 0.99, a veth 0.25 to 0.32
    "congested": 0.20,  # of the samples have a full congestion window; small buffers 0.04
    "window": 0.20,  # small windows 0.94 to 1.00, a slow reader 0.41 to 0.45; a veth 0 to 0.38
    "window_fits": 0.10,  # the same if the window explains the rate to ...
    "window_error": 0.15,  # ... so much; small windows 0.04
    "closed": 0.05,  # less of it tells nothing of a receiver whose processor is busy
    "closed_wide": 0.50,  # a window that is wide enough, while it grew: less of it tells nothing
    "window_use": 0.50,  # of what the window covers is reached; small ones 0.96, a veth 0.04
    "collapsed": 0.10,  # of the samples have a window below a quarter; a slow reader 0.41 to 0.46
    "cpu": 95.0,  # percent of a CPU that a worker ran, or waited for one
    "shared_cpu": 60.0,  # the same where this host's CPUs have been idle for less than ...
    "idle": 0.05,  # ... so much
    "unsent": 0.80,  # of the samples find nothing unsent: pipes 0.95 to 1.00, a veth 0.79 to 1.00
    "empty": 0.20,  # of the samples may have a full buffer then; pipes 0.02 to 0.04
    "line": 0.93,  # of what a device's speed leaves for payload
    "policer": 0.002,  # retransmitted; reno 0.004 to 0.008 ...
    "policer_bbr": 0.04,  # ... and bbr, which bears it, 0.05 to 0.075; random loss has what it has
    # Of what a loss leaves of the congestion window (ssthresh, in segments, of some size) so much
    # is within 10 % of the median: a policer sets in at one size, 65 to 100 %; random loss 20 to
    # 55, where it is rarer and the samples of one loss are many.
    "same_size": 60.0,
    "size": 8,
    "losses": 7,  # samples at least with losses, of few nothing is told; a policer 8 to 40
    "even": 10.0,  # percent that the rate of bbr deviates; policers 1.5 to 4.7
    "loss": 0.001,  # retransmitted; random loss is told from 0.1 % on
    "mathis": 0.5,  # of Mathis' formula is reached, or reno has another limit; measured 0.7 to 1.1
    "stalling": 0.03,  # retransmitted; from here on timeouts, which it leaves out, take the time
    "busy": 0.95,  # 0.99 to 1.00 of a full path; with many stalls 0.9
    "timeouts": 0.02,  # of the time
    "stall": 1.0,  # seconds
    "needless": 0.20,  # of the retransmits
    "overtaken": 0.001,  # of the segments; where packets are held back 0.02, a loopback 0.0002
    "marks": 0.001,  # of what was delivered
    "lost": 0.01,  # of datagrams
    "most": 0.50,  # of them, that one place has lost
    "steal": 0.05,  # of all CPU time
    "ramp": 0.25,  # of the test
    "others": 0.10,  # of a device's bytes
}
# us, and share of the shortest round trip, by which a queue adds to the usual one: full queues 0.43
# and more, policers and random loss 0.06 to 0.25. In between nobody knows.
_QUEUE, _NO_QUEUE = (2000, 0.33), (100, 0.33)
_MATHIS = 1.22  # Mathis et al., 1997: rate = 1.22 MSS / (RTT sqrt(loss)), of reno


def _scaled(value, unit, step=1000.0):
    """Return a number with three digits and a prefix: 5.24 M + unit."""
    prefixes = ["", "k" if step == 1000 else "K", "M", "G", "T"]
    while abs(value) >= step * 0.9995 and len(prefixes) > 1:
        value /= step
        prefixes.pop(0)
    return "%s %s%s" % (("%.3g" if abs(value) < 999.5 else "%.0f") % value, prefixes[0], unit)


def _rate_text(bits):
    return _scaled(bits, "bit/s")


def _size_text(count):
    return _scaled(count, "B", 1024.0)


def _ms_text(us):
    return ("%.3g ms" if us < 999500 else "%.0f ms") % (us / 1000.0)


def _percent_text(share):
    if 0 < share < 0.0001:
        return "less than 0.01 %"
    return "%.2g %%" % (100.0 * share) if share < 0.995 else "%.0f %%" % (100.0 * share)


def _whole(value):
    """Return a number, 0.0 in place of what is none: facts of the other end are not trusted."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 2 ** 63 else 0.0


class Side:
    """What is known of one end of a direction: its connections, its host."""

    def __init__(self, name, rows, host, cpu):
        """name: "local" or "remote"; rows: of the limits; cpu: percent of a CPU, of all of it."""
        self.name, self.rows, self.host, self.cpu = name, rows, host, cpu
        self.changes = host.get("during_test")
        if not isinstance(self.changes, dict):
            self.changes = {}

    @property
    def is_linux(self):
        """Whether it runs Linux, as far as is known."""
        return str(self.host.get("system", "linux")).startswith("linux")

    def has(self, name):
        return bool(self.rows) and all(name in row for row in self.rows)

    def sum(self, name):
        return sum(_whole(row.get(name)) for row in self.rows)

    def mean(self, name):
        return self.sum(name) / max(1, len(self.rows))

    def most(self, name):
        return max([_whole(row.get(name)) for row in self.rows] or [0.0])

    def least(self, name):
        return min([_whole(row.get(name)) for row in self.rows] or [0.0])

    def share(self, part, whole):
        return min(1.0, self.sum(part) / max(1.0, self.sum(whole)))

    def worker(self):
        """Return the percent of a CPU that its busiest worker ran, and waited for; if known."""
        if self.has("worker_cpu_percent"):
            return max((min(100.0, _whole(row["worker_cpu_percent"])),
                        min(100.0, _whole(row.get("worker_wait_percent")))) for row in self.rows)
        return (_whole(self.cpu), 0.0)

    def idle(self):
        """Return the share of its host's CPU time in which no CPU did anything, 1 if unknown."""
        return self.cpu_share("cpu_idle_ticks", 1.0)

    def cpu_share(self, name, unknown=0.0):
        """Return the share of its host's CPU time that a counter has, `unknown` if none does."""
        ticks = _whole(self.changes.get("cpu_ticks"))
        return min(1.0, _whole(self.changes.get(name)) / ticks) if ticks > 0 else unknown

    def is_busy(self):
        """Return whether all its processors are."""
        return self.idle() < _THRESHOLDS["idle"]

    def is_full(self):
        """Return whether a worker needs all that it gets of a processor."""
        needs = sum(self.worker())
        return needs >= _THRESHOLDS["cpu"] or (
            needs >= _THRESHOLDS["shared_cpu"] and self.is_busy())

    def number(self, name):
        return _whole(self.host.get(name))


class Case:
    """One direction of a test, as far as this end knows it."""

    def __init__(self, start, end, suffix, sends):
        """start, end: of the document; suffix: of the direction's names; sends: this end does."""
        own, test = end.get("pyperf3", {}), start["test_start"]
        self.start, self.test, self.own, self.sends = start, test, own, sends
        self.protocol = test["protocol"]
        cpu, streams = end["cpu_utilization_percent"], test["num_streams"]
        ends = []
        for local in (sends, not sends):
            name, prefix, total = (("local", "", "host_total") if local
                                   else ("remote", "remote_", "remote_total"))
            rows = [row for row in own.get(prefix + "limits", ())
                    if row["sender"] == (local == sends)]
            ends.append(Side(name, rows, own.get(prefix + "host", {}),
                             # Of several streams it tells nothing of one of them.
                             cpu[total] if streams == 1 and not test["bidir"] else 0.0))
        self.sender, self.receiver = ends
        self.streams = streams
        self.sent, self.received = end["sum_sent" + suffix], end["sum_received" + suffix]
        self.rate = self.received["bits_per_second"]
        self.seconds = max(self.received["seconds"], self.sent["seconds"], 1e-9)
        self.progress = own.get("progress" + suffix, {})
        self.datagrams = end.get("sum" + suffix, {})
        self.target = test["target_bitrate"] * streams
        self.pace = _whole(test.get("fqrate")) * streams
        sender = self.sender
        # Not of the receiver's time: where a queue drains for long, that is more.
        self.busy = min(1.0, sender.sum("busy_us") / (
            1e6 * max(self.sent["seconds"], 1e-9) * max(1, len(sender.rows))))
        # Behind slow start, which loses packets everywhere, and has a young window.
        later = "later_" if sender.sum("later_segments_sent") else ""
        self.window = sender.share(later + "rwnd_limited_us", later + "busy_us")
        self.buffer = sender.share("sndbuf_limited_us", "busy_us")
        self.nothing_unsent = sender.share("samples_nothing_unsent", "samples")
        self.full_buffer = sender.share("samples_buffer_full", "samples")
        self.resent = sender.share("retransmits", "segments_sent")
        self.loss = sender.share(later + "retransmits", later + "segments_sent") * max(
            0.0, 1 - sender.share("needless_retransmits", "retransmits"))
        self.shortest, self.usual = sender.least("min_rtt_us"), sender.mean("rtt_p50_us")
        # bits/s that the receiver's window allows
        self.covers = sender.sum("max_snd_wnd") * 8e6 / self.usual if self.usual > 0 else 0.0

    @property
    def is_measured(self):
        """Whether the sender's kernel told what its connections waited for."""
        return (self.sender.has("busy_us") and self.sender.has("samples")
                and not self.sender.has("mptcp")
                and self.sender.sum("samples") >= 5 * len(self.sender.rows))

    @property
    def queues(self):
        """Whether packets wait on the way: the usual round trip is longer than the shortest."""
        return self.usual >= self.shortest + max(_QUEUE[0], _QUEUE[1] * self.shortest)

    @property
    def is_calm(self):
        """Whether hardly any does. Where it is neither, nobody knows."""
        return self.usual <= self.shortest * (1 + _NO_QUEUE[1]) + _NO_QUEUE[0]

    @property
    def has_file(self):
        """Whether what is sent comes out of a file: only that may have nothing to send."""
        return any(row.get("from_file") for row in self.sender.rows)

    @property
    def starves(self):
        """Whether the connections mostly had less to send than they could."""
        return (not self.target and not self.pace and self.nothing_unsent >= _THRESHOLDS["unsent"]
                and self.full_buffer < _THRESHOLDS["full"])

    @property
    def congestion(self):
        return str(self.sender.rows[0].get("congestion", "")) if self.sender.rows else ""

    def wanted_rate(self):
        """Return the rate that advice is for: a device's speed, or the next usual one."""
        speeds = [side.number("speed_mbps") * 1e6 for side in (self.sender, self.receiver)]
        speeds = [each for each in speeds if each > self.rate]
        return min(speeds) if speeds else 1e9 if self.rate < 0.9e9 else 10e9 * max(
            1, round(self.rate / 10e9) * 10 if self.rate > 9e9 else 1)

    def payload_share(self):
        """Return the share of a device's bits that may be payload (of Ethernet)."""
        mtu = self.sender.number("mtu") or 1500
        return max(0.0, (mtu - self.headers()) / (mtu + 38.0))

    def headers(self):
        """Return the bytes of headers that a packet has: of IP, and UDP or TCP with timestamps."""
        return (28 if self.protocol == "UDP" else 52) + 20 * self.is_wide()

    def is_wide(self):
        """Return whether the streams run over IPv6."""
        return any(":" in each["remote_host"] for each in self.start["connected"][:1])


def _finding(code, sentence, detail=None, advice=None, end=None, share=None, **evidence):
    """Return a verdict's object; evidence: the figures that decided."""
    def rounded(value):
        return round(value, 4) if isinstance(value, float) else value
    return collections.OrderedDict((
        ("code", code), ("kind", "limit"), ("end", end), ("share", rounded(share)),
        ("sentence", sentence), ("detail", detail), ("advice", advice),
        ("evidence", {name: rounded(value) for name, value in evidence.items()})))


def _buffer_for(rate, us):
    """Return the bytes of a buffer that a rate takes at a round trip: half of one is offered."""
    return 2 * rate * us / 8e6


def _most_buffer(name, side, size):
    """Return (what of it is allowed now, or 0; the command that allows it), of a buffer of TCP."""
    values, most = side.host.get("tcp_" + name), 1 << max(22, int(size - 1).bit_length())
    if not isinstance(values, list) or len(values) != 3 or not all(
            _whole(each) >= 1 for each in values):
        values = [4096, 131072 if name == "rmem" else 16384, 0]
    return _whole(values[2]), "sysctl -w net.ipv4.tcp_%s=\"%d %d %d\"" % (
        name, _whole(values[0]), _whole(values[1]), min(most, 2 ** 31 - 1))


def _more_buffer(case, side, name, what):
    """Return the advice for a buffer that is too small. what: the end's name."""
    if case.start.get("sock_bufsize"):
        return "Leave -w away: it fixes the buffers."
    size = _buffer_for(case.wanted_rate() / case.streams, case.usual)
    allowed, command = _most_buffer(name, side, size)
    if not allowed:
        return "On the %s allow %s or more (Linux: the third number of net.ipv4.tcp_%s)." % (
            what, _size_text(size), name)
    if allowed >= min(size, 2 ** 31 - 1):
        return "On the %s tcp_%s allows %s: something else keeps it small (a set SO_%sBUF?)." % (
            what, name, _size_text(allowed), "RCV" if name == "rmem" else "SND")
    return "On the %s: %s" % (what, command)


def _needs_text(case):
    wanted = case.wanted_rate()
    return "%s takes %s" % (_rate_text(wanted), _size_text(_buffer_for(wanted, case.usual)))


_BUSY_HOST = "All its CPUs are busy: see what else runs there, or take a host with more of them."


def _worker_text(what, cpu, waited):
    return "The busiest %s ran %.0f %% of the time%s." % (
        what, cpu, ", and waited for a CPU %.0f %%" % waited if waited >= 5 else "")


# The limits, the first that holds: each takes a Case and returns a finding, or None.

def _by_rate(case):
    if case.protocol == "UDP":
        rate = case.sent["bits_per_second"] or case.rate
        # What is lost at the end, or wholly, leaves no gap to be counted.
        if _lost_share(case) >= _THRESHOLDS["lost"] or case.rate < 0.9 * rate:
            return None
    else:
        rate = case.rate
    # In blocks of 128 KiB 20 Mbit/s are 19 a second: the last one may be just beyond the end.
    late = 8.0 * case.streams * _whole(case.test.get("blksize")) / case.seconds
    for option, target in (("-b", case.target), ("--fq-rate", case.pace)):
        if target and rate >= max(_THRESHOLDS["rate"] * target - late,
                                  _THRESHOLDS["rate_late"] * target):
            text = "the %s rate of %s was reached" % (option, (
                "%d x " % case.streams if case.streams > 1 else "") + _rate_text(
                    target / case.streams))
            return _finding("sender_rate", text, advice="The path may do more: try a higher %s, or"
                            " none%s." % (option, " (-b 0 with -u)" * (option == "-b")),
                            target_bps=target, rate_bps=rate)
    return None


def _by_black_hole(case):
    sender = case.sender
    if sender.has("delivered"):
        # The handshakes: of TLS 1.2 four segments, of 1.3 two.
        nothing = sender.sum("delivered") <= 4 * case.streams
    else:
        nothing = sender.sum("segments_sent") <= 100 * case.streams
    if (sender.has("snd_cwnd_segments") and nothing
            and case.received["bytes"] < 20000 * case.streams
            and case.seconds >= 1 and sender.mean("snd_cwnd_segments") <= 2
            and sender.mean("backoff") >= 1):
        return _finding(
            "mtu_black_hole", "large packets vanish on the way: nothing of %d bytes was"
            " acknowledged, while small messages pass" % sender.most("snd_mss"),
            "No router says that they are too large (a tunnel, ICMP filtered).",
            "Try -M 1200; mend the MTU of the tunnel or let ICMP pass.",
            backoff=sender.most("backoff"), snd_mss=sender.most("snd_mss"),
            received_bytes=case.received["bytes"])
    return None


def _by_send_buffer(case):
    full = (case.full_buffer >= _THRESHOLDS["full"]
            and case.sender.share("samples_congested", "samples") < _THRESHOLDS["congested"])
    if case.nothing_unsent < _THRESHOLDS["unsent"] or not (
            full or case.buffer >= _THRESHOLDS["send_buffer"]):
        return None
    share = max(case.buffer, full and case.full_buffer)
    size = case.sender.mean("send_buffer")
    return _finding(
        "send_buffer", "limited by the sender's buffer %s of the time" % _percent_text(share),
        "Its %s%s carried %s at %s; %s." % (
            "%d x " % case.streams if case.streams > 1 else "", _size_text(size),
            _rate_text(case.rate), _ms_text(case.usual), _needs_text(case)),
        _more_buffer(case, case.sender, "wmem", "sender"), case.sender.name, share,
        sndbuf_share=case.buffer, buffer_full_share=case.full_buffer,
        nothing_unsent_share=case.nothing_unsent, send_buffer=size)


def _by_receiver(case):
    """Who closed the window: a receiver that is slow, or one that offers little."""
    window, covers = case.sender.sum("max_snd_wnd"), case.covers
    rate = _whole(case.progress.get("usual_bps")) or case.rate
    fits = covers and abs(rate / covers - 1) <= _THRESHOLDS["window_error"]
    held = case.is_measured and (
        case.window >= _THRESHOLDS["window_fits" if fits else "window"])
    collapsed = min(1.0, case.sender.mean("snd_wnd_small_percent") / 100.0)
    full = case.receiver.is_full() and (
        case.window >= _THRESHOLDS["closed"] or not case.is_measured)
    # A window that is wide enough for more was closed in between.
    wide = rate < _THRESHOLDS["window_use"] * covers
    if full or held and covers and (collapsed >= _THRESHOLDS["collapsed"]
                                    or wide and case.window >= _THRESHOLDS["closed_wide"]):
        return _slow_receiver(case, collapsed if held else 0.0)
    if not held or wide:  # it may have held only while it grew
        return None
    if not covers:
        detail = ("The sender's kernel does not tell how large it is: what takes the data there may"
                  " be slow, too.")
    else:
        detail = "Its %s cover %s at %s; %s." % (
            _size_text(window), _rate_text(covers), _ms_text(case.usual), _needs_text(case))
    return _finding(
        "receiver_window", "limited by the receiver's window %s of the time" % _percent_text(
            case.window), detail,
        _more_buffer(case, case.receiver, "rmem", "receiver"), case.receiver.name, case.window,
        rwnd_share=case.window, window_bytes=window, rtt_p50_us=case.usual, covers_bps=covers)


def _slow_receiver(case, collapsed):
    cpu, waited = case.receiver.worker()
    details = []
    if case.is_measured and case.window >= _THRESHOLDS["closed"]:
        details.append("Its window held the sender back %s of the time%s." % (
            _percent_text(case.window), ", below a quarter of its size in %s of the samples" %
            _percent_text(collapsed) if collapsed else ""))
    if cpu:
        details.append(_worker_text("receiver", cpu, waited))
    if case.receiver.is_busy():
        advice = _BUSY_HOST
    elif case.streams == 1 and case.receiver.is_full():
        advice = "Try -P 4: each stream has a processor of its own, as far as there are some."
    else:
        advice = "Look at what takes the data there: a slow disk (-F), what else runs."
    return _finding(
        "receiver_slow", "the receiving host does not take the data off its socket fast enough",
        " ".join(details) or None, advice, case.receiver.name, case.window,
        rwnd_share=case.window, collapsed_share=collapsed, worker_cpu_percent=cpu,
        worker_wait_percent=waited, host_idle_share=case.receiver.idle())


def _by_sender_cpu(case):
    if case.sender.is_full():
        sentence = "the sending host's processor is full"
    elif case.is_measured and case.starves and not case.has_file:
        sentence = _NO_MORE
    else:
        return None
    return _slow_sender(case, sentence)


def _by_idling(case):
    """At times nothing was under way, though a program without a file always has more."""
    if case.has_file or case.target or case.pace or case.busy >= _THRESHOLDS["busy"]:
        return None
    return _slow_sender(case, _NO_MORE)


# Nothing but its own turns on a CPU keeps a program without a file from sending.
_NO_MORE = "the sending program does not keep up with its connection"


def _slow_sender(case, sentence):
    cpu, waited = case.sender.worker()
    return _finding(
        "sender_cpu", sentence,
        _worker_text("sender", cpu, waited),
        _BUSY_HOST if case.sender.is_busy() else
        "Try %sa larger -l, jumbo frames; nothing is wrong with the network so far." % (
            "-P 4, " if case.streams < 4 else ""),
        case.sender.name, None, worker_cpu_percent=cpu, worker_wait_percent=waited,
        host_idle_share=case.sender.idle(), nothing_unsent_share=case.nothing_unsent,
        busy_share=case.busy)


def _by_line(case):
    for side in (case.sender, case.receiver):
        speed = side.number("speed_mbps") * 1e6
        room = speed * case.payload_share()
        # A speed that is exceeded is none (virtual machines).
        if _THRESHOLDS["line"] * room <= case.rate <= 1.1 * speed and room:
            return _finding(
                "line_rate", "the %s link of the %s end is full" % (
                    _rate_text(speed), side.name),
                "Headers leave %s of it for payload." % _rate_text(room),
                "Nothing to repair.", side.name, speed_bps=speed, payload_bps=room,
                rate_bps=case.rate)
    return None


def _by_policer(case):
    sender, bbr = case.sender, case.congestion.startswith("bbr")
    deviation = _whole(case.progress.get("deviation_percent"))
    same_size = sender.mean("ssthresh_near_percent")
    if bbr:
        regular = "deviation_percent" in case.progress and deviation <= _THRESHOLDS["even"]
    else:
        regular = (same_size >= _THRESHOLDS["same_size"]
                   and sender.mean("samples_lossy") >= _THRESHOLDS["losses"]
                   and sender.mean("ssthresh_p50_segments") >= _THRESHOLDS["size"])
    if (case.loss < _THRESHOLDS["policer_bbr" if bbr else "policer"] or not case.is_calm
            or not regular):
        return None
    return _finding(
        "policer", "packets above %s are dropped without a queue: a policer or shaper" % (
            _rate_text(case.rate)),
        "%s were sent again, %s; the round trip stayed near its shortest (%s, at least %s)." % (
            _percent_text(case.loss), "at an even rate" if bbr else
            "each time when as much was under way", _ms_text(case.usual), _ms_text(case.shortest)),
        "Ask who runs the path for its rate and burst.", loss_share=case.loss,
        rtt_p50_us=case.usual, min_rtt_us=case.shortest, ssthresh_near_percent=same_size,
        deviation_percent=deviation)


def _by_loss(case):
    if case.loss < _THRESHOLDS["loss"] or not case.is_calm:
        return None
    mss, cap = case.sender.least("snd_mss"), None
    if min(case.shortest, case.usual, mss) > 0 and case.congestion == "reno":
        cap = _MATHIS * mss * 8e6 / (case.usual * case.loss ** 0.5) * case.streams
        if case.loss < _THRESHOLDS["stalling"] and case.rate < _THRESHOLDS["mathis"] * cap:
            return None
    detail = "%s were sent again, and the round trip hardly grew (%s, at least %s)." % (
        _percent_text(case.loss), _ms_text(case.usual), _ms_text(case.shortest))
    if cap:
        detail += " So much loss caps %d stream%s at about %s." % (
            case.streams, "s" * (case.streams > 1), _rate_text(cap))
    return _finding(
        "random_loss", "limited by loss that no queue explains", detail,
        "Look at cables, optics, Wi-Fi, duplex%s." % (
            "" if case.congestion.startswith("bbr") else "; -C bbr bears it better"
            if case.streams >= 4 else "; -P 4 or -C bbr bear it better"), None, None,
        loss_share=case.loss, rtt_p50_us=case.usual, min_rtt_us=case.shortest, mathis_bps=cap)


def _by_queue(case):
    if case.busy < _THRESHOLDS["busy"] or not case.queues:
        return None
    added = case.usual - case.shortest
    return _finding(
        "queue", "the path's bottleneck is full, and its queue adds %s" % _ms_text(added),
        "The round trip is %s, at least %s; %s." % (
            _ms_text(case.usual), _ms_text(case.shortest), "%s were sent again" % _percent_text(
                case.loss) if case.loss else "nothing was lost"),
        "The rate is the path's. For less delay: a smaller or a fair queue (fq_codel, cake) at"
        " the bottleneck, or -C bbr.", added_us=added, rtt_p50_us=case.usual,
        min_rtt_us=case.shortest, busy_share=case.busy, congestion=case.congestion)


def _by_application(case):
    if not (case.has_file and case.starves) or case.full_buffer >= _THRESHOLDS["empty"]:
        return None
    return _finding(
        "application", "the sender had nothing to send %s of the time" % _percent_text(
            case.nothing_unsent),
        "Its connection was ready for more.", "What feeds it is slow: a file, a pipe, a disk (-F).",
        case.sender.name, case.nothing_unsent, busy_share=case.busy,
        nothing_unsent_share=case.nothing_unsent, buffer_full_share=case.full_buffer)


def _by_network(case):
    if case.busy < _THRESHOLDS["busy"]:
        return None
    if case.sender.host.get("loopback"):
        return _finding(
            "network", "this host's kernel is the limit",
            "%s is what it moves from one program to another." % _rate_text(case.rate),
            "No faster network would be filled by %d stream%s here; more may move more (-P)." % (
                case.streams, "s" * (case.streams > 1)),
            busy_share=case.busy, rate_bps=case.rate)
    held = "".join(" (%s held it back %s of the time)" % (what, _percent_text(share))
                   for what, share in (("the receiver's window", case.window),
                                       ("the send buffer", case.buffer))
                   if share >= _THRESHOLDS["closed"])
    return _finding(
        "network", "the network is the limit", "Data waited for it all the time%s; the round trip"
        " is %s, at least %s%s." % (
            held, _ms_text(case.usual), _ms_text(case.shortest),
            ", and %s were sent again" % _percent_text(case.loss) if case.loss else ""),
        "Try %sanother congestion control (-C)." % ("-P 4, and " if case.streams < 4 else ""),
        busy_share=case.busy, rtt_p50_us=case.usual, min_rtt_us=case.shortest, loss_share=case.loss)


def _lost_share(case):
    """Return the share of a UDP test's datagrams that were lost."""
    lost = case.datagrams.get("lost_packets") or 0
    return min(1.0, lost / float(max(1, case.datagrams.get("packets") or 0)))


def _dropped_share(case):
    """Return the share of the lost datagrams for which the receiving host had no room.

    None if nobody knows.
    """
    lost = float(case.datagrams.get("lost_packets") or 0)
    changes = case.receiver.changes
    known = [case.own.get(("remote_" if case.sends else "host_") + "dropped_packets"),
             changes.get("udp_receive_buffer_errors")]
    known = [_whole(each) for each in known if each is not None]
    if not known or not lost:
        return None
    return min(1.0, (max(known) + _whole(changes.get("softnet_drops"))
                     + _whole(changes.get("device_receive_drops"))) / lost)


def _by_datagrams(case):
    lost = _lost_share(case)
    if lost < _THRESHOLDS["lost"]:
        return None
    text = "%s of the datagrams were lost" % _percent_text(lost)
    dropped, unsent = _dropped_share(case), _unsent_datagrams(case)
    figures = {"lost_share": lost, "dropped_share": dropped}
    if _sender_lost_most(case):
        return _finding(
            "udp_sender", text + " before they left the sending host",
            "Its devices dropped %d packets." % unsent, "-b is above its link: try a smaller one.",
            case.sender.name, lost, drops=unsent, **figures)
    if dropped is None or not case.sender.changes:
        return _finding(
            "datagram_loss", text + ", on the way or inside the %s host" % (
                "receiving" if dropped is None else "sending"),
            "Which of them, that host does not tell (a pyperf3 on Linux does).",
            "Find the highest -b without loss; try -w 2M at the receiver.", None, lost, **figures)
    if dropped >= _THRESHOLDS["most"]:
        room = case.receiver.number("rmem_max")
        return _finding(
            "udp_receiver", text + " inside the receiving host, not in the network",
            "It had no room for %s of them." % _percent_text(dropped),
            "Try a smaller -b, -P 4, -w 2M%s." % (
                " (its net.core.rmem_max allows %s)" % _size_text(room) if room else ""),
            case.receiver.name, lost, **figures)
    return _finding(
        "network", text + " on the way",
        "Of %s that were sent, %s arrived." % (_rate_text(case.sent["bits_per_second"]),
                                               _rate_text(case.rate))
        if case.sent["bits_per_second"] else None,
        "The path does not carry this -b: find the highest without loss.", None, lost, **figures)


def _unsent_datagrams(case):
    """Return the datagrams that the sending host dropped."""
    return (_whole(case.sender.changes.get("udp_send_buffer_errors"))
            + _whole(case.sender.changes.get("device_send_drops")))


def _sender_lost_most(case):
    """Return whether the sending host dropped what makes a UDP test's loss a limit."""
    lost = case.datagrams.get("lost_packets") or 0
    return (_lost_share(case) >= _THRESHOLDS["lost"]
            and _unsent_datagrams(case) >= _THRESHOLDS["most"] * lost)


# Of TCP, in the order in which they are tried; of what the kernel tells nothing, and of UDP.
_LIMITS = (_by_rate, _by_black_hole, _by_line, _by_send_buffer, _by_receiver, _by_application,
           _by_sender_cpu, _by_policer, _by_loss, _by_queue, _by_network, _by_idling)
_PLAIN_LIMITS = (_by_rate, _by_line, _by_receiver, _by_sender_cpu)
_DATAGRAM_LIMITS = (_by_rate, _by_datagrams, _by_line, _by_sender_cpu)


# Notes: every one that holds.

def _note(code, sentence, advice=None, end=None, **evidence):
    return dict(_finding(code, sentence, None, advice, end, None, **evidence), kind="note")


def _clamped(case):
    asked = case.start.get("sock_bufsize") or 0
    for side, name, limit, what in ((case.sender, "send_buffer", "wmem_max", "sender"),
                                    (case.receiver, "receive_buffer", "rmem_max", "receiver")):
        size = side.least(name)
        # Linux doubles what it grants, for its own use.
        if asked and size and side.host and side.is_linux and size < 2 * asked:
            yield _note("clamped_window", "-w asked the %s for %s, its kernel gave %s" % (
                what, _size_text(asked), _size_text(size / 2)),
                "On the %s: sysctl -w net.core.%s=%d" % (what, limit, asked), side.name,
                asked_bytes=asked, given_bytes=size / 2)


def _timeouts(case):
    waited = case.sender.sum("rto_time_us") / (1e6 * case.seconds * max(1, len(case.sender.rows)))
    stall = _whole(case.progress.get("longest_stall_seconds"))
    if waited >= _THRESHOLDS["timeouts"]:
        count = case.sender.sum("rtos")
        yield _note("timeouts", "%d stall%s without any answer, together %.3g s%s" % (
            count, "s" * (count != 1), case.sender.sum("rto_time_us") / 1e6,
            " of %d streams" % case.streams if case.streams > 1 else ""),
            rtos=case.sender.sum("rtos"), rto_share=waited)
    elif stall >= _THRESHOLDS["stall"] and case.protocol != "UDP" and not case.target:
        yield _note("stall", "for %.3g s nothing moved" % stall, stall_seconds=stall)


def _reordering(case):
    needless = case.sender.share("needless_retransmits", "retransmits")
    if case.resent >= _THRESHOLDS["loss"] and needless >= _THRESHOLDS["needless"]:
        yield _note("reordering", "%s retransmitted, %s of it needlessly (reordering)" % (
            _percent_text(case.resent), _percent_text(needless)),
            resent_share=case.resent, needless_share=needless,
            reorderings=case.sender.sum("reorderings"))
        return
    seen = case.sender.sum("reorderings")
    if seen and seen >= _THRESHOLDS["overtaken"] * case.sender.sum("segments_sent"):
        yield _note("reordering", "packets overtook each other on the way (seen %d time%s)" % (
            seen, "s" * (seen > 1)), reorderings=seen)


def _marks(case):
    share = case.sender.share("delivered_ce", "delivered")
    if share >= _THRESHOLDS["marks"]:
        yield _note("ecn", "routers marked %s rather than drop it (ECN): a queue is managed"
                    % _percent_text(share), marked_share=share)


def _segments(case):
    mtus = [side.number("mtu") for side in (case.sender, case.receiver) if side.number("mtu")]
    mss = case.sender.least("snd_mss")
    if not mss or not mtus or case.start.get("tcp_mss") or case.sender.host.get("loopback"):
        return
    stamps = 12 if int(case.sender.least("options")) & TIMESTAMPS else 0
    headers = 40 + stamps + 20 * case.is_wide()
    # Linux takes no more than half of the other end's window for a segment.
    halved = 0 < case.sender.least("max_snd_wnd") <= 2 * (min(mtus) - headers)
    # A host that was not seen may have the usual MTU.
    mtu = min(mtus + ([1500.0] if len(mtus) < 2 else []))
    if mss + headers < mtu and not halved:
        yield _note("mss", "segments carry %d bytes where an MTU of %d allows %d: a tunnel, or"
                    " somebody clamps the MSS" % (mss, mtu, mtu - headers), snd_mss=mss, mtu=mtu)


def _ports(case):
    speeds = {side: side.number("speed_mbps") for side in (case.sender, case.receiver)}
    for side, other in ((case.sender, case.receiver), (case.receiver, case.sender)):
        if side.host.get("duplex") == "half":
            yield _note("duplex", "the port of the %s end runs at half duplex" % side.name,
                        "Let both ends of the cable negotiate.", side.name,
                        speed_mbps=speeds[side])
        if 0 < speeds[side] <= 100 and speeds[other] >= 1000:
            yield _note("slow_port", "the port of the %s end runs at %d Mbit/s, the other's at %d"
                        % (side.name, speeds[side], speeds[other]),
                        "Look at the cable and its plugs.", side.name, speed_mbps=speeds[side])


def _datagram_senders(case):
    drops = _unsent_datagrams(case)
    if _sender_lost_most(case):
        return  # that is the limit
    if case.protocol == "UDP" and drops > 0.001 * max(1, case.sent.get("packets") or 0):
        yield _note("udp_sender", "%d packets were dropped before they left the sending host: -b"
                    " is above its link" % drops, None, case.sender.name, drops=drops)


def _default_rate(case):
    if case.protocol == "UDP" and case.test["target_bitrate"] == DEFAULT_UDP_RATE:
        yield _note("udp_default", "1 Mbit/s is what -u sends without -b, not the path's rate",
                    "Try -b 0, or the rate that matters.")


def _starved(case):
    sides = (case.sender, case.receiver)
    for side in sides[:1] if case.sender.host.get("loopback") else sides:
        steal = side.cpu_share("cpu_steal_ticks")
        if steal >= _THRESHOLDS["steal"]:
            yield _note("starved", "other guests took %s of the CPU time of the %s host during"
                        " the test" % (_percent_text(steal), side.name), None, side.name,
                        steal_share=steal)
        throttled = _whole(side.changes.get("throttled_us")) / 1e6
        if _whole(side.changes.get("throttled_periods")):
            yield _note("starved", "the %s host's control group held its programs back for %.3g s"
                        " during the test" % (side.name, throttled),
                        "Raise its CPU limit (cpu.max).", side.name, throttled_seconds=throttled)
        drops = _whole(side.changes.get("softnet_drops"))
        if drops:
            yield _note("starved", "the %s host dropped %d packets that came faster than it took"
                        " them in, during the test" % (side.name, drops),
                        "On it: sysctl -w net.core.netdev_max_backlog=10000", side.name,
                        softnet_drops=drops)


def _ramp(case):
    ramp = _whole(case.progress.get("ramp_seconds"))
    if ramp >= _THRESHOLDS["ramp"] * case.seconds and case.protocol != "UDP":
        yield _note("ramp", "the rate took %.1f s of %.0f to come up" % (ramp, case.seconds),
                    "Measure without the start: -t %d -O %d" % (
                        max(30, 4 * ramp), min(MAX_OMIT, max(5, 2 * ramp))),
                    ramp_seconds=ramp)


def _other_traffic(case):
    side, bytes_sent = case.sender, case.sent["bytes"]
    whole = _whole(side.changes.get("device_sent_bytes"))
    if not whole or side.host.get("loopback") or case.test["bidir"]:
        return
    if case.protocol == "UDP":
        packets = max(1, case.sent.get("packets") or 0)
    elif side.has("segments_sent"):
        packets = side.sum("segments_sent")
        bytes_sent += side.sum("retransmitted_bytes")
    else:
        return
    others = whole - bytes_sent - (14 + case.headers()) * packets  # with Ethernet's
    if others >= _THRESHOLDS["others"] * whole and others * 8 >= 1e5 * case.seconds:
        yield _note("other_traffic", "other traffic took %s of the sending host's device" %
                    _rate_text(others * 8 / case.seconds), None, side.name,
                    other_bps=others * 8 / case.seconds)


def _same_host(case):
    if case.sender.host.get("loopback"):
        yield _note("same_host", "both ends run on this host: no cable and no network were"
                    " measured")


_HOST_NOTES = (_same_host, _ports, _starved)  # once, whatever the directions
_NOTES = (_clamped, _timeouts, _reordering, _marks, _segments, _datagram_senders, _default_rate,
          _ramp, _other_traffic)


def _unknown(case):
    """Return the finding for a direction of which nobody can tell what limited it."""
    if case.seconds < 1:
        detail = "The test was too short."
    elif not case.rate:
        detail = "Nothing is known to have arrived."
    elif case.sender.has("mptcp"):
        detail = "Of Multipath TCP the kernel tells one path's figures only."
    elif case.protocol == "TCP" and not case.sender.rows:
        detail = ("The sender is the other end, which told nothing of its connections"
                  " (an iperf3 does not).")
    elif case.protocol == "TCP" and not case.is_measured:
        detail = "The sender's system does not tell what its connections wait for (TCP_INFO)."
    else:
        detail = "No figure stands out."
    return _finding("unknown", "no limit could be told", detail)


def _unseen(case):
    """Yield a note about what this end could not see of the other one."""
    for side in (case.sender, case.receiver):
        if side.name == "remote" and not side.rows and not side.host:
            yield _note("unseen", "the other end told nothing of its host (only a pyperf3 does):"
                        " its CPU, its buffers and its devices were not seen", None, "remote")
    if case.protocol == "TCP" and case.sender.name == "local" and not case.sender.has("busy_us"):
        yield _note("unseen", "this system does not tell what its connections wait for (TCP_INFO):"
                    " only rates and processors were looked at", None, "local")


def diagnose_direction(case):
    """Return the findings of a Case: its limit first, then the notes."""
    limits = _DATAGRAM_LIMITS if case.protocol == "UDP" else (
        _LIMITS if case.is_measured else _PLAIN_LIMITS)
    if case.protocol != "UDP" and not case.rate:
        limits = (_by_black_hole,)
    limit = next(filter(None, (rule(case) for rule in limits)), None)
    if case.seconds < 1 and limit and limit["code"] != "sender_rate":
        limit = None
    return [limit or _unknown(case)] + [
        note for rule in _NOTES for note in rule(case)]


def diagnose(start, end, sends, server):
    """Return the verdict on a test: a list of findings, of each direction its limit first.

    start, end: of the document; sends: whether this end does in the first direction, or the only
    one; server: this is the server. Each finding has code, kind (limit or note), direction (up: to
    the server, or down), end (whose number is to be changed: local, remote or None), share (of the
    time), sentence, detail, advice, evidence.
    """
    verdict = []
    for suffix in DIRECTIONS[:2 if start["test_start"]["bidir"] else 1]:
        case = Case(start, end, suffix, sends)
        of_hosts = [] if suffix else [note for rule in _HOST_NOTES + (_unseen,)
                                      for note in rule(case)]
        for found in diagnose_direction(case) + of_hosts:
            found["direction"] = "up" if sends != server else "down"
            verdict.append(found)
        sends = not sends
    return verdict


def verdict_lines(verdict):
    """Return the lines of text of what diagnose() returns."""
    lines, several = [], len({found["direction"] for found in verdict}) > 1
    for found in verdict:
        way = {"up": " to the server", "down": " from the server"}[found["direction"]]
        way = way if several else ""
        text = found["sentence"]
        if found["kind"] == "limit":
            lines.append("Verdict%s: %s." % (way, text))
            lines += ["  " + found[name] for name in ("detail", "advice") if found[name]]
        else:
            lines.append("Also%s: %s.%s" % (way, text, found["advice"] and " " + found["advice"]
                                            or ""))
    return lines


###############################################################################
# checks ######################################################################
###############################################################################
# Limits that a client was given, and its figures held against them: pure functions
# of the end object. Nothing here prints.

Limit = collections.namedtuple("Limit", "name bound unit direction share")
Limit.__doc__ = """What one option (--min-..., --max-...) asks for.

name: the option's; bound: the value that is still good, in `unit`; direction: "up" (the client
sends), "down" or None: each; share: the percentile of a latency, else None.
"""
Limit.__new__.__defaults__ = (None, None)

LIMIT_MISSED = 4  # exit status of a test that ran, and missed a limit
MOST_CHECKS = 64  # of a test; all limits of both directions are fewer


def limits_of(settings):
    """Return the Limits that a client's Settings ask for."""
    limits = [Limit("min-bitrate", rate, "bit/s", direction)
              for rate, direction in settings.min_bitrate]
    if settings.max_loss is not None:
        limits.append(Limit("max-loss", settings.max_loss, "%", None))
    if settings.max_jitter is not None:
        limits.append(Limit("max-jitter", settings.max_jitter, "ms", None))
    if settings.max_retransmits is not None:
        limits.append(Limit("max-retransmits", *settings.max_retransmits, direction=None))
    if settings.min_mtu is not None:
        limits += [Limit("min-mtu", settings.min_mtu, "bytes", way) for way in ("up", "down")]
    if settings.max_rtt is not None:
        limits.append(Limit("max-rtt", settings.max_rtt, "ms", None))
    if settings.max_latency is not None:
        bound, share = settings.max_latency
        limits.append(Limit("max-latency", bound, "ms", share=share))
    if settings.min_rpm is not None:
        limits.append(Limit("min-rpm", settings.min_rpm, "RPM"))
    if settings.min_grade is not None:
        limits.append(Limit("min-grade", settings.min_grade, ""))
    return limits


def missed_checks(own):
    """Return the checks that are not ok, of what end.pyperf3 has.

    It may be another host's, so no more than the first MOST_CHECKS are looked at.
    """
    return [check for check in own.get("checks", ())[:MOST_CHECKS] if check["state"] != "ok"]


class _Unknown(Exception):
    """A figure is not there; str() is why."""


def check_figures(limits, end, sums):
    """Return what Limits come to, as end.pyperf3.checks has it: dicts, one for each direction.

    end: the end object of a client's test that went well; sums: the Totals of each direction.
    `figure` is what was compared; `value` is None, and `reason` why, if it is not known: which is
    never a pass.
    """
    checks = []
    for limit in limits:
        if limit.name in _OF_PATH:
            checks.append(_check(limit, limit.direction, end, "", None))
            continue
        found = False
        for suffix, totals in zip(DIRECTIONS, sums):
            direction = "up" if totals.sender else "down"
            if limit.direction in (None, direction):
                checks.append(_check(limit, direction, end, suffix, totals))
                found = True
        if not found:
            checks.append(_check(limit, limit.direction, end, None, None))
    return checks


def _check(limit, direction, end, suffix, totals):
    """Return the outcome of one Limit in one direction, whose sums' names end in `suffix`."""
    check = collections.OrderedDict((
        ("name", limit.name), ("limit", limit.bound), ("value", None), ("unit", limit.unit),
        ("state", "unknown"), ("direction", direction), ("figure", None)))
    try:
        if suffix is None:
            raise _Unknown("nothing was sent%s" % (" " + direction if direction else ""))
        value, check["figure"] = _FIGURES[limit.name](limit, end, suffix, totals)
    except _Unknown as unknown:
        check["reason"] = str(unknown)
        return check
    if limit.name == "min-grade":
        good = GRADES.index(value) <= GRADES.index(limit.bound)
    else:
        good = value >= limit.bound if limit.name.startswith("min-") else value <= limit.bound
    check["value"], check["state"] = value, "ok" if good else "failed"
    return check


def _received_rate(limit, end, suffix, totals):
    return end["sum_received" + suffix]["bits_per_second"], "received"


def _lost_percent(limit, end, suffix, totals):
    if "sum" + suffix not in end:
        raise _Unknown("only a test of UDP tells what was lost")
    if totals.lost is None:
        raise _Unknown("the receiving end did not tell")
    if not totals.received_bytes:  # and what is missing shows by the numbers of what arrives
        if not totals.sent_packets:
            raise _Unknown("nothing was sent")
        return 100.0, "nothing arrived"
    return end["sum" + suffix]["lost_percent"], "counted on arrival"


def _jitter(limit, end, suffix, totals):
    if "sum" + suffix not in end:
        raise _Unknown("only a test of UDP has a jitter")
    if totals.received_packets < 2 or not totals.received_bytes:
        raise _Unknown("nothing arrived")
    return end["sum" + suffix]["jitter_ms"], "measured on arrival"


def _of_senders(end, sender, name):
    """Return a figure of each stream that this end sends, or receives: what its sender knows.

    () if it is not known of all.
    """
    rows = end.get("pyperf3", {}).get("limits" if sender else "remote_limits", ())
    values = [row.get(name) for row in rows if row["sender"]]
    # What the other end tells may be anything.
    good = all(isinstance(value, (int, float)) and 0 <= value < 2 ** 63 for value in values)
    return values if good else ()


def _retransmits(limit, end, suffix, totals):
    if "sum" + suffix in end:
        raise _Unknown("UDP sends nothing again")
    count = end["sum_sent" + suffix].get("retransmits")
    if count is None:
        raise _Unknown("the sending end did not tell")
    if limit.unit != "%":
        return count, "at the sending end"
    segments = sum(_of_senders(end, totals.sender, "segments_sent"))
    if not segments:
        raise _Unknown("the sending end did not tell how many segments it sent")
    return percent(count, segments), "at the sending end"


def _round_trip(limit, end, suffix, totals):
    if "sum" + suffix in end:
        raise _Unknown("UDP has no round trips")
    medians = _of_senders(end, totals.sender, "rtt_p50_us")
    if medians and min(medians) > 0:
        return max(medians) / 1000.0, "median at the sending end"
    # iperf3: with --bidir it is there of what this end receives, but is no sender's.
    means = [row["sender"].get("mean_rtt") for row in end["streams"]
             if totals.sender and row["sender"]["sender"]]
    if not means or not all(means):
        raise _Unknown("the sending end did not tell")
    return max(means) / 1000.0, "mean at the sending end"


def _latency(end):
    """Return the figures of latency, if there are any under load."""
    latency = end.get("pyperf3", {}).get("latency", {})
    if not latency.get("loaded", {}).get("samples"):
        raise _Unknown("latency was not measured: %s" % latency.get("reason", "no probe came back"))
    return latency


def _loaded_latency(limit, end, suffix, totals):
    name = "p%d" % limit.share
    return _latency(end)["loaded"][name + "_ms"], name + " under load"


def _round_trips_per_minute(limit, end, suffix, totals):
    return _latency(end)["rpm"], "under load"


def _latency_grade(limit, end, suffix, totals):
    latency = _latency(end)
    if "grade" not in latency:
        raise _Unknown("the latency of the idle path is not known")
    return latency["grade"], "%+.1f ms under load" % latency["increase_ms"]


def _path_mtu(limit, end, suffix, totals):
    way = end.get("pyperf3", {}).get("mtu", {}).get(limit.direction, {})
    if way.get("mtu") is None:
        raise _Unknown(way.get("reason", "it was not found"))
    return way["mtu"], {"interface": "the interface's", "icmp": "a router says so"}.get(
        way["method"], "probed")


# What each limit is compared with: functions of (limit, end object, end of its sums' names, Totals)
# that return the value and what it is. Raise _Unknown.
_FIGURES = {
    "min-bitrate": _received_rate,
    "max-loss": _lost_percent,
    "max-jitter": _jitter,
    "max-retransmits": _retransmits,
    "max-rtt": _round_trip,
    "max-latency": _loaded_latency,
    "min-rpm": _round_trips_per_minute,
    "min-grade": _latency_grade,
    "min-mtu": _path_mtu,
}
_OF_PATH = ("max-latency", "min-rpm", "min-grade", "min-mtu")  # whoever sends


def status_of_checks(checks):
    """Return the exit status that they call for."""
    states = [check["state"] for check in checks]
    return LIMIT_MISSED if "failed" in states else 1 if "unknown" in states else 0


###############################################################################
# tasks #######################################################################
###############################################################################
# The control plane. A conversation is a generator that yields a Wait for what it
# needs and is resumed with READY, TIMED_OUT or WOKEN. One Loop runs them all.

READY, TIMED_OUT, WOKEN = "ready", "timed out", "woken"

Wait = collections.namedtuple("Wait", "fileobj events deadline")
Wait.__doc__ = """What a task waits for: a socket (or None) and a deadline (monotonic, or None)."""

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

_SMALL_SEGMENT = 512  # bytes: with headers and TLS well below what any path takes
# Linux (4.7) then never joins what follows to it in a segment, not even when it sends it again.
# BSD's TCP refuses the flag.
_APART = socket.MSG_EOR if _LINUX else 0


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
        self._wakeup, self._waker = socket.socketpair()
        for end in (self._wakeup, self._waker):
            end.setblocking(False)
        self._selector = self._make_selector()
        self._waiting = []
        self._ready = collections.deque()
        self._failing = None  # since when the selector fails

    def _make_selector(self):
        """Return the best selector that the system lets work, with the wake-up socket in it."""
        for name in ("DefaultSelector", "PollSelector", "SelectSelector"):
            try:
                selector = getattr(selectors, name)()
                selector.register(self._wakeup, READ, None)
                selector.select(0)
                return selector
            except (AttributeError, OSError):
                if name == "SelectSelector":
                    raise

    def close(self):
        """Release the descriptors; end the tasks that are left."""
        for task in self._waiting + [entry[0] for entry in self._ready]:
            with suppress(Exception):  # there is nobody left to tell
                task.generator.close()
        self._selector.close()
        self._wakeup.close()
        self._waker.close()

    def spawn(self, generator):
        """Begin a task; it runs at the next turn."""
        task = Task(generator)
        self._ready.append((task, None, None))
        return task

    def end_wait(self):
        """End the selector's wait. Safe in signal handlers and other threads."""
        with suppress(OSError, ValueError):
            self._waker.send(b"\0")

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

    def run_once(self):
        """Wait for something to happen, and let the tasks concerned go on.

        Raises IperfError 118 if the system tells nothing any more.
        """
        if not self._ready:
            deadlines = [task.wait.deadline for task in self._waiting
                         if task.wait.deadline is not None]
            timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
            for key, _ in self._select(timeout):
                if key.data is None:
                    with suppress(OSError):
                        self._wakeup.recv(4096)
                elif self._holds_data(key.data.wait) is not False:
                    self._resume_later(key.data, READY)
            now = time.monotonic()
            for task in list(self._waiting):
                if task.wait.deadline is not None and task.wait.deadline <= now:
                    self._resume_later(task, TIMED_OUT)
        for _ in range(len(self._ready)):
            self._resume(*self._ready.popleft())

    def _select(self, timeout):
        """Return what the selector says; nothing if it fails, which may pass (no memory)."""
        try:
            events = self._selector.select(timeout)
            self._failing = None
            return events
        except (OSError, MemoryError) as error:
            now = time.monotonic()
            self._failing = self._failing or now
            if now - self._failing > STEP_TIMEOUT:
                raise IperfError(118, as_failure(error).cause)
            time.sleep(0.01)
            return ()

    @staticmethod
    def _holds_data(wait):
        """Return whether data waits, of TLS, which reads ahead, and what is no data; else None."""
        if wait.events == READ and hasattr(wait.fileobj, "holds_data"):
            return wait.fileobj.holds_data()
        return None

    def _resume(self, task, value, error):
        """Let a task go on until it waits; whatever it fails with ends this task and no other."""
        try:
            if not task.begun:
                # Begin it also if it is to fail: else the error would miss its try.
                task.begun, value = True, None
                wait = task.generator.send(None)
            elif error is None:
                wait = task.generator.send(value)
            while True:
                if error is not None:
                    wait = task.generator.throw(error)
                try:
                    self._suspend(task, wait)
                    return
                except Exception as failure:  # a limit on what a selector may watch, say
                    error = failure
        except StopIteration:
            task.done = True
        except Exception as failure:
            task.done = True
            task.error = failure.with_traceback(None)  # which holds all that the task held

    def _suspend(self, task, wait):
        """Resume a task when what it waits for has come."""
        task.wait = wait
        self._waiting.append(task)
        if wait.fileobj is not None:
            with on_error(self._waiting.remove, task):
                self._selector.register(wait.fileobj, wait.events, task)
        if self._holds_data(wait):
            self._resume_later(task, READY)


def pause(seconds):
    """Wait in a task for `seconds`."""
    yield Wait(None, 0, time.monotonic() + seconds)


def await_tasks(tasks):
    """Wait in a task until all these have ended."""
    while not all(task.done for task in tasks):
        yield from pause(0.005)


def read_some(descriptor, count):
    """Read what comes next on a non-blocking descriptor, at most so many bytes, in a task.

    b"" is its end, however it ended.
    """
    while True:
        try:
            return os.read(descriptor, count)
        except BlockingIOError:
            yield Wait(descriptor, READ, None)
        except OSError:
            return b""


class Lines:
    """Bytes to lines, as they come. rest: those of a line that is not complete yet."""

    def __init__(self):
        self.rest = b""

    def add(self, data):
        """Return the lines that are complete now, without their ends."""
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        return lines


def read_exactly(sock, count, deadline, fail):
    """Read `count` bytes from a non-blocking socket, in a task; returns them (a bytearray).

    fail: a function from the cause (an OSError; _TIMED_OUT for the deadline) and the bytes so far
    to the exception to raise; the cause is None for an end of file.
    """
    data = bytearray()
    while len(data) < count:
        try:
            piece = sock.recv(min(count - len(data), 1 << 18))
        except (BlockingIOError, InterruptedError):
            if (yield Wait(sock, READ, deadline)) == TIMED_OUT:
                raise fail(_TIMED_OUT, data)
            continue
        except OSError as error:
            raise fail(error, data)
        if not piece:
            raise fail(None, data)
        data += piece
        if len(data) < count:
            yield from pause(0)  # a peer that sends without end leaves others their turns
    return data


def write_all(sock, data, deadline, number, flags=0):
    """Write to a non-blocking socket, in a task. Raises IperfError `number`."""
    view = memoryview(data)
    while len(view):
        try:
            view = view[sock.send(view, flags):]
        except (BlockingIOError, InterruptedError):
            if (yield Wait(sock, WRITE, deadline)) == TIMED_OUT:
                raise IperfError(number, _TIMED_OUT)
        except OSError as error:
            raise IperfError(number, error)


def write_small(sock, data, deadline, number):
    """Write as write_all() does, in segments that pass where large ones vanish (a black hole)."""
    view = memoryview(data)
    # TLS cannot set the flag, so nothing is to wait to which the kernel could join a piece.
    limit_unsent(sock, 1)
    for at in range(0, len(view), _SMALL_SEGMENT):
        if (yield Wait(sock, WRITE, deadline)) == TIMED_OUT:
            raise IperfError(number, _TIMED_OUT)
        yield from write_all(sock, view[at:at + _SMALL_SEGMENT], deadline, number, _APART)
    limit_unsent(sock, 0)


def send_last(sock, data):
    """Send the last bytes to a peer, if they go."""
    with suppress(OSError):
        if data:
            sock.send(data)


def close_orderly(sock, patience=CLOSING_TIMEOUT):
    """Send the end of file, wait for the peer's for `patience` seconds, and close, in a task.

    Closing at once would make the kernel answer what the peer still sends with a reset,
    which can destroy what the peer has not read yet.
    """
    deadline, left = time.monotonic() + patience, MAX_DISCARDED
    try:
        sock.shutdown(socket.SHUT_WR)
        while left > 0:
            try:
                piece = sock.recv(65536)
                if not piece:
                    break
                left -= len(piece)
                yield from pause(0)
            except (BlockingIOError, InterruptedError):
                if (yield Wait(sock, READ, deadline)) == TIMED_OUT:
                    break
            if time.monotonic() > deadline:
                break
    except OSError:
        pass
    finally:
        sock.close()


def in_slices(work):
    """Do a long piece of work, a generator that yields now and then, in a task.

    Others have their turns in between. Returns its result.
    """
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
        yield from pause(0)


def in_thread(function, patience):
    """Call a function that may block in a thread, in a task.

    Where no thread can be started it is called all the same, and holds up whatever else goes on.
    Returns its result, or the exception that it raised; None if it took longer than `patience`
    seconds.
    """
    answer = []

    def call():
        try:
            answer.append(function())
        except Exception as error:
            answer.append(error)
    try:
        import threading
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
    except (ImportError, RuntimeError):  # a limit on processes
        call()
        return answer[0]
    delay, deadline = 0.0005, time.monotonic() + patience
    while not answer:
        if time.monotonic() > deadline:
            return None
        yield from pause(delay)
        delay = min(0.05, delay * 2)
    thread.join()
    return answer[0]


def look_up(host, port, family, deadline):
    """Resolve a name, in a task; returns getaddrinfo's rows.

    The resolver blocks, so a name (not an address) is looked up in a thread, which lets
    signals and the deadline through. Raises IperfError 103.
    """
    name = name_bytes(host)
    try:
        return socket.getaddrinfo(name, port, family, socket.SOCK_STREAM, 0,
                                  socket.AI_NUMERICHOST)
    except OSError as error:
        names = socket.EAI_NONAME, getattr(socket, "EAI_ADDRFAMILY", socket.EAI_NONAME)
        if not isinstance(error, socket.gaierror) or error.errno not in names:
            raise IperfError(103, error)
    answer = yield from in_thread(
        lambda: socket.getaddrinfo(name, port, family, socket.SOCK_STREAM),
        deadline - time.monotonic())
    if answer is None:
        raise IperfError(103, OSError(errno.ETIMEDOUT, "name resolution timed out"))
    if isinstance(answer, Exception):
        raise IperfError(103, answer if isinstance(answer, OSError) else repr(answer))
    return answer


def connect(address, local, device, deadline, number, prepare=None, port=0,
            make=stream_socket):
    """Connect a socket, in a task; returns it, non-blocking.

    make: a function from the address family to a new socket, of TCP unless given;
    address: a row of getaddrinfo; local: a socket address or None (-B); device: to bind to, or
    None; port: the local one, 0 for any; prepare: called with the socket before it connects.
    Raises IperfError `number`.
    """
    family, _, _, _, place = address
    under_way = (errno.EINPROGRESS, errno.EWOULDBLOCK, getattr(errno, "WSAEWOULDBLOCK", -1))
    try:
        sock = make(family)
        with on_error(sock.close):
            sock.setblocking(False)
            if device:
                bind_device(sock, device)
            if local or port:
                if local is None:
                    local = ("0.0.0.0" if family == socket.AF_INET else "::", port)
                # Two of datagrams would share the port.
                if sock.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) != socket.SOCK_DGRAM:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind(local[:1] + (port,) + local[2:])
            if prepare:
                prepare(sock)
            status = sock.connect_ex(place)
            if status in under_way:
                if (yield Wait(sock, WRITE, deadline)) == TIMED_OUT:
                    raise system_error(errno.ETIMEDOUT)
                status = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if status:
                raise system_error(status)
            return sock
    except (OSError, UnicodeError) as error:
        local = local and local[:1] + (port,)
        raise IperfError(number, error, remark=place_text(place, local, device))


class Race:
    """Connect to the first of several addresses that answers, as in RFC 8305.

    tries: the addresses (rows of getaddrinfo) that were tried so far, each with its IperfError,
    None as long as it has none. All are begun before the deadline, and have until then.
    """

    def __init__(self, loop, attempt):
        """attempt: a function from an address to a task like connect()."""
        self._loop, self._attempt = loop, attempt
        self._first = None  # the address that answered, and its socket
        self._due = 0.0  # when to try the next address
        self._task = None
        self.tries = collections.OrderedDict()

    def run(self, task, addresses, deadline):
        """Connect, in a task, which is `task`; returns (address, socket). Raises IperfError."""
        self._task, tasks, first = task, [], None
        waiting = collections.deque(collections.OrderedDict.fromkeys(addresses))
        delay = min(CONNECT_DELAY, (deadline - time.monotonic()) / len(waiting))
        try:
            while self._first is None:
                if waiting and time.monotonic() >= self._due:
                    self._due = time.monotonic() + delay
                    self.tries[waiting[0]] = None
                    tasks.append(self._loop.spawn(self._try(waiting.popleft())))
                elif not waiting and None not in self.tries.values():
                    raise self._error_to_report()
                yield Wait(None, 0, self._due if waiting else None)
            first, self._first = self._first, ()
            return first
        finally:
            for other in tasks:
                self._loop.wake(other, IperfError(103, "another address answered"))
            if first is None and self._first:
                self._first[1].close()

    def _try(self, address):
        try:
            sock = yield from self._attempt(address)
            if self._first is None:
                self._first = (address, sock)
            else:
                sock.close()
        except Exception as error:
            self.tries[address], self._due = as_failure(error), 0.0
        self._loop.wake(self._task)

    def _error_to_report(self):
        """Return the last error that is no want of a way, or of an own address."""
        errors = list(self.tries.values())
        lacking = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
        return ([error for error in errors if error.errno not in lacking
                 and not isinstance(error.cause, socket.gaierror)] or errors)[-1]


class Share:
    """A part of the loop's time, for work that strangers can ask for as often as they like."""

    def __init__(self, part):
        """part: of the time, from 0 to 1."""
        self._part = part
        self._period = 0.0  # seconds from one call to the next
        self._next = 0.0

    def turn(self):
        """Wait for a turn, in a task; returns for how many seconds. do() is to follow."""
        now = time.monotonic()
        turn = max(now, self._next)
        self._next = turn + self._period
        if turn > now:
            yield from pause(turn - now)
        return time.monotonic() - now

    def do(self, function):
        """Call a function whose turn it is; returns what it does."""
        begin = time.process_time()
        try:
            return function()
        finally:
            self._period = (self._period + (time.process_time() - begin) / self._part) / 2


def secure(sock, context, host, deadline, step="", hint="", share=None):
    """Set up TLS on a connected socket, in a task; returns the TlsSocket.

    host: the name to verify, None for a server; step: what comes before an error's text, hint:
    what follows if the other end seems to know no TLS; share: of the loop's time (a Share), None
    for all of it. The socket is closed if that fails. Raises IperfError 903.
    """
    ssl = _import_ssl()
    try:
        with on_error(sock.close):
            secured = context.wrap_socket(sock, server_side=host is None, server_hostname=host,
                                          do_handshake_on_connect=False)
        with on_error(secured.close):
            while True:
                try:
                    if share is None:
                        secured.do_handshake()
                    else:
                        deadline += yield from share.turn()  # the other end does not tarry
                        share.do(secured.do_handshake)
                    return TlsSocket(secured)
                except ssl.SSLWantReadError:
                    events = READ
                except ssl.SSLWantWriteError:
                    events = WRITE
                if (yield Wait(secured, events, deadline)) == TIMED_OUT:
                    raise IperfError(903, OSError(errno.ETIMEDOUT,
                                                  step + "the handshake timed out" + hint))
    except (OSError, ValueError) as error:
        silent = isinstance(error, ConnectionError) or is_tls_end(error)
        raise IperfError(903, step + tls_text(error) + (hint if silent else ""))


def read_state(sock, deadline, step):
    """Read a state byte from a server, in a task. Raises IperfError."""
    def fail(cause, _):
        if cause is None:
            return IperfError(109)
        if cause is _TIMED_OUT:
            cause = OSError(errno.ETIMEDOUT, "timed out waiting for the server's %s" % step)
        return IperfError(112, cause)
    data = yield from read_exactly(sock, 1, deadline, fail)
    return struct.unpack("!b", data)[0]


def read_frame(sock, deadline, limit, number, ended, spare=0):
    """Read a JSON document of up to `limit` bytes with its length, in a task.

    ended: what judges a state that comes in its place, a function from its number to a task that
    raises what it means; spare: bytes more for a server's output. Raises IperfError `number`.
    """
    def fail(cause, _):
        if cause is None:
            cause = OSError(errno.ECONNABORTED, "the connection was closed")
        return IperfError(number, cause)
    head = yield from read_exactly(sock, 1, deadline, fail)
    if head[0] > limit + spare >> 24:  # no length that is allowed begins so
        yield from ended(struct.unpack("!b", head)[0])
    head += yield from read_exactly(sock, 3, deadline, fail)
    size, = struct.unpack("!I", head)
    if not 1 <= size <= limit + spare:
        raise IperfError(number, OSError(_EPROTO, "a length of %d bytes is not allowed" % size))
    data = yield from read_exactly(sock, size, deadline, fail)
    reader = JsonReader(data, ROOM_FACTOR * limit, ROOM_FACTOR * spare, SERVER_OUTPUTS)
    try:
        return (yield from in_slices(reader.read()))
    except ValueError as error:
        raise IperfError(number, OSError(_EPROTO, str(error)))


###############################################################################
# events ######################################################################
###############################################################################
# What a test tells of itself, and the document made of it. Nothing here prints.

class Event(dict):
    """A moment of a test: `event` (its name), `data` (a piece of the JSON document), and more.

    start, interval, end, error, server_output_text, server_output_json: as in iperf3's
    --json-stream. Others are for text and the document: version, listening, waiting (once a second
    for a connection; at last with no data), connecting, asked, accepted, connected, debug,
    mtu (what end.pyperf3.mtu is), diagnosis (behind the end: members for end.pyperf3), done
    (always the last of a test; `ok` tells how it went). `server` tells the side; a server's events
    carry `test`, the number of the test.
    """

    _text = None

    def interval_text(self):
        """Return an interval as `-J` prints it: one text for all documents that keep it."""
        if self._text is None:
            self._text = JsonText(encode_json(self["data"], 2))
        return self._text


def with_member(row, own):
    """Return an interval's row with a member of ours, which is not the last, as some take that."""
    row = collections.OrderedDict(row)
    rest = [(name, row.pop(name)) for name in ("omitted", "sender") if name in row]
    row["pyperf3"] = own
    row.update(rest)
    return row


def with_own(end, members):
    """Return an end object with more members of ours."""
    return dict(end, pyperf3=dict(end.get("pyperf3", ()), **members))


def first_facts():
    """Return the start object of a test of which nothing is known yet."""
    return {"connected": [], "version": VERSION_TEXT, "system_info": system_info()}


class Document:
    """Collect the events of one test into the document that `-J` prints."""

    _ORDER = ("start", "intervals", "end", "error", "title", "extra_data", "server_output_json",
              "server_output_text")

    def __init__(self, facts=None, room=None, wire=False):
        """facts: what `start` is until more is known (data of a version event).

        room: letters of JSON that the intervals may take, as `-J` prints them or, with wire=True,
        as server_output() has them; what comes behind is left out, and the end tells so.
        """
        self._members = {"start": facts or {}, "intervals": [], "end": {}}
        self._room, self._wire = room, wire
        self._left_out = None  # the number of intervals that were, and when they began

    def add(self, event):
        """Take an event in. Those that are no part of a document change nothing."""
        name, data = event["event"], event["data"]
        if name == "interval":
            self._add_interval(event)
        elif name == "end" and self._left_out:
            self._members["end"] = with_own(data, {"intervals_left_out": self._left_out})
        elif name == "diagnosis":
            self._members["end"] = with_own(self._members["end"], data)
        elif name in ("version", "asked", "connecting", "accepted", "start"):
            self._members["start"] = data
        elif name == "done":
            for name in ("title", "extra_data"):
                if event.get(name) is not None:
                    self._members[name] = event[name]
        elif name in self._ORDER:
            self._members[name] = data

    def _add_interval(self, event):
        interval = event["data"]
        if self._left_out:
            self._left_out["count"] += 1
            return
        if self._room is not None:
            interval = event.interval_text()
            self._room -= len(self._unformatted(interval) if self._wire else interval)
            if self._room < 0:
                self._left_out = {"count": 1, "from_seconds": event["data"]["sum"]["start"]}
                return
        self._members["intervals"].append(interval)

    @staticmethod
    def _unformatted(text):
        """Return the text of an interval, which holds no strings, as it goes over the wire."""
        return JsonText(text.replace("\n", "").replace("\t", "").replace(", ", ","))

    def server_output(self):
        """Return the member of the results that tells it to a client, and its value."""
        document = self.members()
        document["intervals"] = list(map(self._unformatted, document["intervals"]))
        return "server_output_json", document

    def members(self):
        """Return the document so far, members in iperf3's order."""
        return collections.OrderedDict((name, self._members[name]) for name in self._ORDER
                                       if name in self._members)


# The events that tell what several tests come to.
OF_SEVERAL = frozenset(("diagnose", "mesh"))


def whole_document(event):
    """Return the document of several tests, of the event that tells what they come to.

    Its one member has the event's name; it is `whole`, if that is more than the event's data.
    """
    document = collections.OrderedDict(((event["event"], event.get("whole", event["data"])),))
    if event["error"] is not None:
        document["error"] = event["error"]
    return document


class Transcript:
    """Collect the text of one test, for a client that asks for it, as JSON: up to a room."""

    def __init__(self, render, room):
        """render: returns the lines of an event; room: letters that the intervals may take."""
        self._render = render
        self._room = room
        self._text = []

    def add(self, event):
        text = encode_json("".join(line + "\n" for line in self._render(event)))[1:-1]
        if event["event"] == "interval":
            if self._room < 0:
                return
            self._room -= len(text)
            if self._room < 0:
                text = "(the output is too long: further intervals are left out)\\n"
        self._text.append(text)

    def server_output(self):
        """Return the member of the results that tells it to a client, and its value."""
        return "server_output_text", JsonText('"%s"' % "".join(self._text))


def state_text(state):
    """Return a state's number and name, for -d."""
    return "%d-%s" % (state, STATE_NAMES.get(state, "unknown"))


def document_text(title, document):
    """Return a JSON document of the control connection, for -d.

    Without what lets a user in, and without a server's output, which may be large.
    """
    if isinstance(document, dict):
        document = {name: "..." if name.lower() in ("authtoken",) + SERVER_OUTPUTS else value
                    for name, value in document.items()}
    return "%s:\n%s" % (title, printable(encode_json(document, 0)))


# By error number, why a test failed; see failure_reason().
_REASONS = {121: "busy", 142: "denied", 27: "denied", 37: "denied", 908: "denied"}
_REASONS.update({number: "broken" for number in list(range(104, 121)) + [144, 160] + list(
    range(203, 208)) + [925]})


def failure_reason(error):
    """Return why a test failed in one of few words, for those who count them.

    busy; denied (to this user, or by the server's limits); name (it has no address); refused;
    timeout (no answer); unreachable; broken (there was an answer before); interrupted; other.
    """
    if isinstance(error, Interrupted):
        return "interrupted"
    causes = [getattr(error, "cause", None), error.__context__]
    if errno.ETIMEDOUT in [cause.errno for cause in causes if isinstance(cause, OSError)]:
        return "timeout"
    number = getattr(error, "number", 100)
    if number != 103:
        return _REASONS.get(number, "other")
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return "name"
        if isinstance(cause, OSError):
            return "refused" if cause.errno == errno.ECONNREFUSED else "unreachable"
    return "unreachable"


def interrupt_text(side, reason):
    """Return iperf3's text for an end by a signal (or by stop()). reason: like `by signal X(N)`."""
    return "interrupt - the %s has terminated %s" % (side, reason)


def timestamp(now):
    """Return the timestamp object of a time in seconds since 1970."""
    return {"time": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(now)),
            "timesecs": int(now), "timemillisecs": int(now * 1000)}


###############################################################################
# workers #####################################################################
###############################################################################
# The data plane. A worker runs a loop, most often of one stream, blocked in system
# calls, in a forked process or in a thread; the loop does not know which. It
# counts in its own slots of a shared memory map, which the control plane reads at
# each tick. Nothing here prints.

# Commands of the control plane.
RUN, STOP = range(2)  # a sender that is stopped ends; a receiver counts no more, but reads on

# Status of a worker.
STARTING, PREPARED, RUNNING, STOPPED, COMPLETE, CLOSED, FAILED, SPOILED = range(8)

_ROW = 24  # slots of one worker: three cache lines of its own
_NOTE = 200  # bytes of a text
_SINKS = min(16, max(4, os.cpu_count() or 1))  # buffers of the receivers of one process
_HOUSEKEEPING = 0.25  # seconds between looks at the parent
_STALE = 2.5  # seconds without a look of the parent's, after which it may be a stopped one


class Slot:
    """A number of 8 bytes in a worker's row; a property of the Slots that declare it.

    at: its place in their `ints` and `floats`. The loops of workers use that, as a constant: it
    takes 19 ns, a property 93.
    """

    def __init__(self, kind, writer, meaning):
        """kind: int or float; writer: the one side that writes it, "worker" or "control"."""
        self._view = {int: "ints", float: "floats"}[kind]
        self.writer, self.__doc__ = writer, meaning

    def __set_name__(self, layout, name):
        self.at, layout.size = layout.size, layout.size + 1

    def __get__(self, slots, layout=None):
        return self if slots is None else getattr(slots, self._view)[self.at]

    def __set__(self, slots, value):
        getattr(slots, self._view)[self.at] = value


class Slots:
    """A view of one row of Counters. A subclass declares what is in it, after what its base has."""

    size = 0  # slots that are declared

    def __init__(self, counters, index):
        """index: of the worker, from 0; -1: what all share."""
        at = (index + 1) * _ROW * 8
        row = counters.memory[at:at + _ROW * 8]
        self.ints, self.floats = row.cast("q"), row.cast("d")
        self._note = counters.notes[(index + 1) * _NOTE:(index + 2) * _NOTE]

    def write_note(self, text):
        """Leave a text of the worker: why it failed."""
        self._note[:] = text.encode("utf-8", "replace")[:_NOTE - 1].ljust(_NOTE, b"\0")

    def note(self):
        """Return the text that the worker left, "" if it left none."""
        return bytes(self._note).rstrip(b"\0").decode("utf-8", "replace")


class SharedSlots(Slots):
    """What the control plane tells all workers."""

    beat = Slot(float, "control", "when it looked last")
    open = Slot(int, "control", "whether the gate is open")


class WorkerSlots(Slots):
    """What every worker has, whatever it does."""

    status = Slot(int, "worker", "STARTING to SPOILED")
    errno = Slot(int, "worker", "why it failed, or waits")
    user = Slot(float, "worker", "CPU seconds of its process")
    system = Slot(float, "worker", "CPU seconds of its process in the kernel")
    command = Slot(int, "control", "RUN or STOP")


_COMMAND = WorkerSlots.command.at


def make_block(parameters):
    """Return one block of payload: random bytes, or digits with --repeating-payload."""
    block = private_memory(parameters.length)
    if parameters.repeating_payload:
        block[:] = (b"0123456789" * (parameters.length // 10 + 1))[:parameters.length]
    else:
        block[:] = os.urandom(parameters.length)
    return memoryview(block)


class Counters:
    """What the workers of one end of a test share: their slots, and memory for payload."""

    def __init__(self, workers):
        rows = workers + 1
        self.memory = memoryview(shared_memory(rows * (_ROW * 8 + _NOTE))).cast("B")
        self.notes = self.memory[rows * _ROW * 8:]
        self.shared = SharedSlots(self, -1)
        self._block = self._payload = None
        self._sinks = {}

    def block(self, parameters):
        """Return the block that all senders send: made before they fork, and only read."""
        if self._block is None:
            self._block = make_block(parameters)
        return self._block

    def payload(self, parameters):
        """Return the file that all senders send (-Z). Raises IperfError 200."""
        if self._payload is None:
            self._payload = payload_file(self.block(parameters))
        return self._payload

    def sink(self, index, size):
        """Return memory for what is received and dropped; many threads share a few."""
        return self._sinks.setdefault(index % _SINKS, memoryview(private_memory(size)))


_PROCESSES = 64  # of the workers of one end, of all its tests; more are of use on many CPUs only
_ALONE = 8  # streams that have a process each
# Processes for more of them. Of iperf3's bit/s, on two cores, TCP -P 64 had 0.92 with a process
# each, 1.16 with two in all, 1.22 with four or eight; -P 128 0.76, 0.83, 1.17 and 1.20. UDP -P 16
# had 1.72, and 1.65 with four.
_SHARED = max(4, os.cpu_count() or 1)
_FEW = 4  # workers for which a client does not look whether there is memory
_PROCESS_MEMORY = 2560 * 1024  # bytes that a worker's process takes, with the kernel's
_THREAD_MEMORY = 96 * 1024  # that a worker's thread takes


class Workforce:
    """Decide, for all tests of one end, whether their workers are processes or threads."""

    def __init__(self, threads, few=_FEW):
        """threads: they are all threads (--threads); few: so many are not worth a look."""
        self._threads, self._few = threads, few
        self._limit = max(_PROCESSES, 2 * (os.cpu_count() or 1))
        self._granted = 0  # processes
        # Bytes that were free before any was granted (None: nobody looked), and granted since:
        # a process takes its share bit by bit, so what is free now looks more than it is.
        self._free, self._kept = None, 0

    def grant(self, streams, shared=False):
        """Return how many processes serve a test's streams, 0 if threads of this one do.

        shared: a process may serve several. release() takes it back. Raises IperfError 200 if
        there is memory for neither.
        """
        may_fork = can_fork()  # else the program's other threads are not ours
        count = min(streams, _SHARED) if shared and streams > _ALONE else streams
        if self._threads or not may_fork or self._granted + count > self._limit:
            count = 0
        if streams > self._few:
            free = free_memory()
            if free is not None:
                if self._free is None:
                    self._free = free + self._kept
                free = min(free, self._free - self._kept)
                # Half of it stays for the next test, whose workers may do as threads.
                if free < 2 * self._memory(streams, count):
                    count = 0
                if not count and free < self._memory(streams, 0):
                    raise IperfError(200, OSError(
                        errno.ENOMEM, "no memory for %d streams: %d KiB are free" % (
                            streams, max(0, free) // 1024)))
        if may_fork and not count:
            spare_address_space()
        self._granted += count
        self._kept += self._memory(streams, count)
        return count

    def release(self, streams, processes):
        """Take back what was granted: to so many streams, what grant() returned."""
        self._granted -= processes
        self._kept -= self._memory(streams, processes)
        if not self._kept:
            self._free = None

    @staticmethod
    def _memory(streams, processes):
        """Return the bytes that streams take, in so many processes or in threads of this one."""
        threads = max(0, streams - processes)
        return processes * _PROCESS_MEMORY + threads * _THREAD_MEMORY


class WorkerLoop:
    """What a worker runs: prepare(), then await_start(), then run()."""

    layout = WorkerSlots
    parent = None  # process that waits for this loop, if it runs in a process of its own

    def __init__(self, sock, counters, index):
        """Prepare the loop in the parent. sock: what wakes it when that is shut down."""
        self.sock, self.counters, self.index = sock, counters, index
        self.slots = self.layout(counters, index)
        self.account = self.slots  # where its process's CPU seconds are written, for all its loops
        self._looked = 0.0

    def descriptors(self):
        """Return the descriptors that the loop needs."""
        return [self.sock.fileno()]

    def prepare(self):
        """Make what run() needs. Raises nothing."""

    def await_start(self, gate):
        """Wait for the end of file of the gate."""
        os.read(gate, 1)

    def run(self):
        """Work until that is stopped, complete, or broken; the slots tell which."""
        raise NotImplementedError

    def publish(self):
        """Write this process's CPU seconds to the slots (a thread's are its program's)."""
        if self.parent is not None:
            self.account.user, self.account.system = cpu_times()

    def wake(self, how):
        """End a blocked call on the socket by shutting it down."""
        with suppress(OSError):  # the peer was first
            self.sock.shutdown(how)

    def look_around(self):
        """Return the time; now and then publish, and end if the parent is gone."""
        now = time.monotonic()
        if now - self._looked > _HOUSEKEEPING:
            self._looked = now
            self.publish()
            if self.parent is not None and os.getppid() != self.parent:
                os._exit(1)
            # A parent that is stopped (SIGSTOP, a debugger) stops its streams.
            while (self.parent is not None and not self.stopped()
                   and now - self.counters.shared.beat > _STALE and is_stopped(self.parent)):
                time.sleep(0.05)
                now = time.monotonic()
        return now

    def stopped(self):
        return self.slots.ints[_COMMAND] != RUN


class Worker:
    """A process, or threads of this one, in which `loops` run once the gate opens."""

    def __init__(self):
        self.loops = []
        self._pid, self._threads = None, {}  # of threads: one for each loop
        self._status = 0  # of a process that has ended

    def start(self, gate, threaded):
        """Begin. gate: the reading end of a pipe, whose end of file opens it.

        Where the system refuses a process, these are threads. Raises OSError.
        """
        refusal = None if threaded else self._fork(gate)
        if self._pid is None:
            try:
                import threading
                for loop in self.loops:
                    thread = threading.Thread(target=self._be_thread, args=(gate, loop),
                                              daemon=True)
                    thread.start()
                    self._threads[loop] = thread
            except (ImportError, RuntimeError, MemoryError) as error:
                raise refusal or OSError(errno.EAGAIN, str(error))

    def _fork(self, gate):
        """Begin as a process; returns the OSError with which the system refuses it, or None."""
        for loop in self.loops:
            loop.parent, loop.account = os.getpid(), self.loops[0].slots
        try:
            self._pid = os.fork()
        except OSError as error:
            for loop in self.loops:
                loop.parent = None
            return error
        if self._pid == 0:
            self._be_child(gate)
        return None

    def _be_child(self, gate):
        status = 1
        try:
            gc.disable()  # a collection would write to, and so copy, every page of the parent
            offer_to_killer()
            for number in ("SIGINT", "SIGTERM", "SIGHUP"):
                signal.signal(getattr(signal, number), signal.SIG_IGN)
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            close_descriptors([gate] + [each for loop in self.loops for each in loop.descriptors()])
            self._run_all(gate)
            status = 0
        finally:
            os._exit(status)

    def _run_all(self, gate):
        """Run the loops in this process: the first one here, each other in a thread."""
        threads = []
        if self.loops[1:]:
            spare_address_space()
            import threading
            threads = [threading.Thread(target=self._be_partner, args=(gate, loop))
                       for loop in self.loops[1:]]
        try:
            for thread in threads:
                thread.start()
        except (RuntimeError, MemoryError) as error:
            self.loops[0].slots.write_note(str(error))
            raise
        self._wait_and_run(gate, self.loops[0])
        for thread in threads:
            thread.join()

    def _be_partner(self, gate, loop):
        try:
            self._wait_and_run(gate, loop)
        except BaseException:
            os._exit(1)  # one that ends without a result ends its process

    def _be_thread(self, gate, loop):
        with suppress(Exception):  # the control plane sees that it ended without a result
            self._wait_and_run(gate, loop)

    def _wait_and_run(self, gate, loop):
        try:
            loop.prepare()
            loop.await_start(gate)
            loop.run()
        except Exception as error:
            loop.slots.write_note(repr(error))
            raise

    def ended(self, loop=None):
        """Return whether the worker, or what runs that loop, has ended; a process is reaped."""
        if self._pid:
            try:
                pid, self._status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:  # somebody else reaped it
                pid = self._pid
            if pid:
                self._pid = None
        self._threads = {each: thread for each, thread in self._threads.items()
                         if thread.is_alive()}
        return not (self._pid or (self._threads if loop is None else loop in self._threads))

    def times(self):
        """Return {thread: (seconds it ran, seconds it waited for a CPU)}, {} if not known."""
        if self._pid:
            return thread_times(self._pid)
        own = [getattr(thread, "native_id", None) for thread in self._threads.values()]
        times = thread_times(os.getpid()) if own else {}
        return {number: times[number] for number in own if number in times}

    def death(self, names=""):
        """Return, as an OSError, that it ended without a result, and how if that is known.

        names: of its streams, if there are several.
        """
        number, status = self._status & 0x7f, self._status >> 8
        note = next(filter(None, [loop.slots.note() for loop in self.loops]), "")
        text = "the worker of streams %s" % names if names else "the stream's worker"
        if number:
            text += " was killed by signal %d%s" % (
                number, ": perhaps the memory ran out" if number == signal.SIGKILL else "")
        else:
            text += " has died"
            if note or status:
                text += ": " + (note or "exit status %d" % status)
        return OSError(errno.EIO, text)

    def kill(self):
        """End the worker, whatever it does; join() waits for that."""
        if self._pid:
            with suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
        for loop in self._threads:
            loop.wake(socket.SHUT_RDWR)

    def join(self):
        """Wait for the end of a worker that was killed."""
        if self._pid:
            with suppress(OSError):
                os.waitpid(self._pid, 0)
            self._pid = None
        for thread in self._threads.values():
            thread.join(1.0)
        self._threads = {}


class Workers:
    """The workers of one end of a test, which wait at its gate for the start."""

    def __init__(self, workforce, counters, streams, shared):
        """shared: see Workforce.grant(). Raises IperfError 200."""
        self._workforce, self._shared, self._streams = workforce, counters.shared, streams
        self._workers = []
        self._gate = os.pipe()
        with on_error(lambda: [os.close(end) for end in self._gate]):
            self._processes = workforce.grant(streams, shared)

    def add(self, loop):
        """Give the loop of the next stream to a worker, which starts with its last one; returns it.

        Raises OSError.
        """
        count = self._processes or self._streams
        place = loop.index * count // self._streams
        if place == len(self._workers):
            self._workers.append(Worker())
        worker = self._workers[place]
        worker.loops.append(loop)
        if (loop.index + 1) * count // self._streams > place:
            # A program that has got threads in the meantime cannot fork any more.
            worker.start(self._gate[0], not (self._processes and can_fork()))
        return worker

    def open_gate(self):
        """Let the workers run."""
        self._shared.beat = time.monotonic()
        self._shared.open = 1
        if self._gate[1] is not None:
            os.close(self._gate[1])
            self._gate = (self._gate[0], None)

    def cpu_times(self):
        """Return the (user, system) CPU seconds of their processes so far."""
        slots = [loop.slots for worker in self._workers for loop in worker.loops]
        return sum(each.user for each in slots), sum(each.system for each in slots)

    def close(self):
        """End the workers, and close what their loops have open, at once."""
        if self._gate[0] is None:
            return
        self._workforce.release(self._streams, self._processes)
        loops = [loop for worker in self._workers for loop in worker.loops]
        for loop in loops:
            loop.slots.command = STOP
        self.open_gate()
        left = [worker for worker in self._workers if not worker.ended()]
        for worker in left:
            worker.kill()
        for worker in left:
            worker.join()
        for loop in loops:
            loop.close()
        os.close(self._gate[0])
        self._gate = (None, None)


###############################################################################
# streams #####################################################################
###############################################################################
# What the worker of a stream has, whatever it does with it: slots, a connection,
# an end. Nothing here prints.

NO_LIMIT = 2 ** 63 - 1  # as many bytes as can be counted


class StreamSlots(WorkerSlots):
    """A worker that sends or receives a stream of data."""

    bytes = Slot(int, "worker", "payload that was sent or received")
    finished = Slot(float, "worker", "when the last was")
    limit = Slot(int, "control", "bytes after which those that count together stop, or NO_LIMIT")
    away = Slot(float, "worker", "seconds during which no datagram could be sent")
    cause = Slot(int, "worker", "errno of that")

    def tell_outage(self, outage, now):
        """Write how long nothing could be sent."""
        self.away, self.cause = outage.lasted(now), outage.cause


class QuicSlots(StreamSlots):
    """A stream of QUIC: QuicFigures, and seconds of the set-up."""

    packets = Slot(int, "worker", "packets sent")
    lost = Slot(int, "worker", "packets lost, -1 if unknown")
    window = Slot(int, "worker", "congestion window in bytes, -1 if unknown")
    rtt = Slot(int, "worker", "round-trip time in microseconds, -1 if unknown")
    datagram = Slot(int, "worker", "size of the largest datagrams of the stream, 0 if unknown")
    connect_seconds = Slot(float, "worker", "until the handshake was over")
    first_byte_seconds = Slot(float, "worker", "until the first byte came")


class UdpSenderSlots(StreamSlots):
    """A stream of datagrams that leaves."""

    asleep = Slot(int, "worker", "whether it sleeps, and so will not send before it looks again")


DatagramCounts = collections.namedtuple("DatagramCounts", "bytes packets lost out_of_order jitter")


class UdpReceiverSlots(StreamSlots):
    """A stream of datagrams that comes: what is counted, as iperf3 does."""

    version = Slot(int, "worker", "odd while the counts are being written")
    packets = Slot(int, "worker", "the highest number seen")
    lost = Slot(int, "worker", "gaps in the numbers, less what came late")
    out_of_order = Slot(int, "worker", "datagrams that came late or twice")
    jitter = Slot(float, "worker", "seconds (RFC 3550, 6.4.1)")
    measuring = Slot(int, "control", "whether the omitted part is over")
    dropped = Slot(int, "worker", "of lost: what was missing where the kernel dropped some")
    dropped_pieces = Slot(int, "worker", "how many it dropped there, joined ones as one")
    joins = Slot(int, "worker", "whether the kernel may join datagrams")

    def counts(self):
        """Return the DatagramCounts, all of one moment."""
        for _ in range(100):  # the worker may have died between its writes
            version = self.version
            counts = DatagramCounts(self.bytes, self.packets, self.lost, self.out_of_order,
                                    self.jitter)
            if version % 2 == 0 and version == self.version:
                break
            time.sleep(0)
        return counts


# The places of what the loops use for each call.
_BYTES, _LIMIT = StreamSlots.bytes.at, StreamSlots.limit.at
_VERSION, _PACKETS, _LOST, _OUT_OF_ORDER, _JITTER, _MEASURING = range(
    UdpReceiverSlots.version.at, UdpReceiverSlots.measuring.at + 1)


class FileTrouble(OSError):
    """The file of -F could not be read or written. ETIMEDOUT: it takes no more."""


class PlainConnection:
    """What a loop asks of its connection besides the data: of a plain socket."""

    layout = None  # of slots, if the connection has figures of its own
    adapts = True  # what could not be sent may be offered again in another size
    is_ours = False  # no iperf3 is at the other end

    def __init__(self, loop, sock):
        self._loop, self.sock = loop, sock
        sock.setblocking(_CALLS_WAIT)
        if _CALLS_WAIT:
            set_timeouts(sock, _CALL_TIMEOUT)

    def descriptors(self):
        """Return the descriptors that it needs."""
        return [self.sock.fileno()]

    def prepare(self):
        """Make it, in the worker, as far as that was not done. Raises nothing."""

    def attend(self, gate):
        """Do what it needs until the gate opens."""

    def sleep(self, seconds):
        """Do nothing but what it needs."""
        time.sleep(seconds)

    def wait(self, writing=False):
        """Wait a while after a call that would block, where it has not waited itself."""
        if not _CALLS_WAIT:
            is_ready([self.sock], _CALL_TIMEOUT, writing)

    def wait_for_file(self, file, writing=False):
        """Wait for a moment until there is something in a pipe (-F), or room for more."""
        is_ready([file], 0.02, writing)

    def unacknowledged(self):
        """Return how many bytes the other end may not have yet."""
        return unacknowledged(self.sock)

    def publish(self):
        """Write its figures to the slots."""

    def trouble(self):
        """Return what it has to say of an error that it raised, if anything."""
        return None

    def finish(self):
        """Do what it needs once the stream is through."""


class TlsConnection(PlainConnection):
    """A TCP connection inside TLS."""

    adapts = False
    is_ours = True


class QuicConnection(PlainConnection):
    """A connection of QUIC, which stands still while the loop does."""

    layout = QuicSlots

    def descriptors(self):
        secrets = self.sock.end.secrets
        return [self.sock.fileno()] + ([secrets.fileno()] if secrets else [])

    def prepare(self):
        sock, slots = self.sock, self._loop.slots
        sock.report, sock.stopped = self._report, self._loop.stopped
        try:
            sock.open()
        except OSError as error:
            slots.write_note(error.strerror)
            slots.errno, slots.status = error.errno, FAILED
            return
        slots.write_note(sock.trouble)
        slots.connect_seconds = sock.connect_seconds
        slots.first_byte_seconds = sock.first_byte_seconds
        slots.status = PREPARED

    def _report(self, figures):
        """Write QuicFigures to the slots."""
        slots = self._loop.slots
        slots.packets, slots.lost, slots.window, slots.rtt, size, came = figures
        slots.datagram = size if self._loop.sends else came
        slots.tell_outage(self.sock.outage, time.monotonic())

    def attend(self, gate):
        polls = hasattr(select, "poll")  # else it may be Windows, whose select() has no pipes
        while self._loop.slots.status == PREPARED and not self._loop.counters.shared.open:
            self.sock.exchange(_HOUSEKEEPING if polls else 0.005, gate if polls else None)
            self._loop.look_around()
        self.sock.discards = self._loop.sends

    def sleep(self, seconds):
        self.sock.serve(seconds)

    def wait(self, writing=False):
        pass  # the calls do

    def wait_for_file(self, file, writing=False):
        self.sock.exchange(0)
        is_ready([file], 0.005, writing)

    def unacknowledged(self):
        return self.sock.unacknowledged()

    def publish(self):
        self.sock.tell(time.monotonic())

    def trouble(self):
        return self.sock.broken

    def finish(self):
        """Send and acknowledge what is left, until the other end, or the parent, ends it."""
        sock, sends = self.sock, self._loop.sends
        sock.discards = True
        if sends:
            sock.finish()
        while not sock.broken and (sends or not sock.ended):
            sock.serve(0.1)
            self._loop.look_around()


_CONNECTIONS = {TlsSocket: TlsConnection, QuicSocket: QuicConnection}


class StreamLoop(WorkerLoop):
    """What sender and receiver share: the connection, the file, how a stream ends."""

    layout = StreamSlots
    sends = False  # this end sends on the stream

    def __init__(self, sock, counters, index, parameters, plan=None, file=None):
        """plan: the CallPlan of a TCP stream; file: what to send or to write (-F), open."""
        kind = _CONNECTIONS.get(type(sock), PlainConnection)
        self.layout = kind.layout or self.layout
        WorkerLoop.__init__(self, sock, counters, index)
        self.connection = kind(self, sock)
        self.slots.limit = NO_LIMIT
        self.parameters, self.plan, self.file = parameters, plan, file
        self.payload = None  # the file that -Z sends

    def descriptors(self):
        return self.connection.descriptors() + [
            each.fileno() for each in (self.file, self.payload) if each]

    def close(self):
        for each in (self.sock, self.file, self.payload):
            if each:
                each.close()

    def prepare(self):
        self.connection.prepare()

    def await_start(self, gate):
        self.connection.attend(gate)
        WorkerLoop.await_start(self, gate)

    def run(self):
        if self.slots.status == FAILED:
            return
        self.slots.status = RUNNING
        if self.plan and self.plan.batch:
            prefer_throughput()
        try:
            status = self.transfer()
        except OSError as error:
            self.slots.errno = error.errno or 0
            note = self.connection.trouble()
            if note:
                self.slots.write_note(note)
            status = SPOILED if isinstance(error, FileTrouble) else FAILED
        self._end(status)
        self.connection.finish()

    def _end(self, status):
        self.connection.publish()
        self.publish()
        self.slots.finished = self.slots.finished or time.monotonic()
        self.slots.status = status


###############################################################################
# transfers ###################################################################
###############################################################################
# The loops that send or receive a stream, and the sources and paces that they
# need. Nothing here prints.

_SLOW_CALL = 0.005  # seconds that one call may take before it is made smaller


class Source:
    """What a TCP sender sends, in calls of `size` bytes.

    whole: makes such a call, and returns how many bytes went; None where a block comes first that
    broke off, which send() ends.
    """

    def __init__(self, connection, size):
        self._connection, self._sock = connection, connection.sock
        self.size, self.whole = size, self.send
        self._at = 0  # bytes of the block that went already

    def send(self, whole=False):
        """Send up to the end of a block, or whole blocks; return how many bytes went."""
        raise NotImplementedError

    def split(self, count):
        """Note that whole() sent `count` bytes only."""

    def adapt(self, rate):
        """Make the calls of a size that suits the rate (bytes/s)."""


class BlockSource(Source):
    """One block again and again, several per call, or a part of it on a slow link."""

    _LEAST = 8192  # bytes of a call

    def __init__(self, connection, block, most):
        """most: bytes of a call, whole blocks."""
        Source.__init__(self, connection, most)
        self._block, self._most = block, most
        self._resize(most)

    def _resize(self, size):
        blocks = min(min(size, self._most) // len(self._block), 1024)
        self.size = blocks * len(self._block) or size
        self._one = self._many = None  # calls of whole blocks, without a frame of Python's
        if blocks:
            self._one = self._many = functools.partial(self._sock.send, self._block)
        if blocks > 1:
            self._many = functools.partial(self._sock.sendmsg, [self._block] * blocks)
        self._advance(0)

    def _advance(self, count):
        self._at = (self._at + count) % len(self._block)
        self.whole = self.send
        if self._many:
            self.whole = None if self._at else self._many

    def send(self, whole=False):
        call = self._many if whole else self._one
        if call and not self._at:
            count = call()
        else:
            count = self._sock.send(self._block[self._at:self._at + self.size])
        if self._at or count != len(self._block):
            self._advance(count)
        return count

    def split(self, count):
        if self._many:
            self._advance(count)

    def adapt(self, rate):
        if not self._connection.adapts:
            return
        room = rate * _SLOW_CALL  # a slow link gets smaller calls, so that the counters are prompt
        if room < self.size / 2 and self.size > self._LEAST:
            self._resize(self.size // 2)
        elif room > self.size * 4 and self.size < self._most:
            self._resize(self.size * 2)


class ZeroCopySource(Source):
    """The block from a file, with sendfile (-Z)."""

    _REFUSED = (errno.ENOSYS, errno.EPERM, errno.EACCES, errno.EINVAL, errno.EOPNOTSUPP)

    def __init__(self, connection, payload, size):
        Source.__init__(self, connection, size)
        self._in, self._out = payload.fileno(), self._sock.fileno()

    def send(self, whole=False):
        size = self.size - self._at
        try:
            count = os.sendfile(self._out, self._in, self._at, size)
        except OSError as error:
            if error.errno not in self._REFUSED:
                raise
            # A sandbox, or the file's system, has no sendfile.
            count = self._sock.send(os.pread(self._in, size, self._at))
        self._at = (self._at + count) % self.size
        return count


class FileSource(Source):
    """What a file holds, block by block (-F); 0 bytes at its end."""

    def __init__(self, connection, file, size):
        Source.__init__(self, connection, size)
        self._file, self._rest = file, b""

    def send(self, whole=False):
        self._rest = self._rest or self._read()
        count = self._sock.send(self._rest) if self._rest else 0
        self._rest = self._rest[count:]
        return count

    def _read(self):
        try:
            data = self._file.read(self.size)
        except OSError as error:
            raise FileTrouble(error.errno, error.strerror)
        if data is None:
            self._connection.wait_for_file(self._file)
            raise _would_block()
        return memoryview(data)


_MAX_DEBT = 0.25  # seconds of a rate of datagrams that are made up for after a stall
# Seconds between datagrams from which on each leaves on its own. Windows may sleep 16 ms longer.
_SLOW = 0.001 if _CALLS_WAIT else 0.02


class Pace:
    """Say how many units of a rate are due, of bytes or datagrams: number k at (k - 1) * gap."""

    def __init__(self, start, gap, burst=0, debt=float("inf")):
        """start: the time of the first unit; gap: seconds from one to the next.

        burst: units that leave at a stretch, 0 for datagrams that leave when they are due;
        debt: seconds of the rate that are made up for after a stall.
        """
        self.wait = 0.0  # seconds to sleep if nothing is due
        self._start, self._gap = start, gap
        self._debt, self._most = debt, debt + gap
        self._burst, self._end = burst, 0  # units by the end of a burst
        self._last = start - gap  # when a datagram of a slow stream left

    def due(self, now, sent):
        """Return how many more units are due, after `sent`; if none, wait tells how long."""
        behind = (now - self._start) - sent * self._gap  # seconds
        if behind > self._most:
            self._start += behind - self._debt
            behind = self._debt
        if self._burst:
            if sent >= self._end and behind >= 0:
                self._end += self._burst
            if sent < self._end:
                return self._end - sent
        elif self._gap >= _SLOW:
            # After a stall the late ones follow each other at twice the pace, in no clump.
            behind = min(behind, now - self._last - self._gap / 2)
            if behind >= 0:
                self._last = now
                return 1
        elif behind >= 0:
            return int(behind / self._gap) + 1
        self.wait = min(-behind, 0.02)  # no longer than a stop may go unnoticed
        return 0


class TcpSender(StreamLoop):
    """Send one TCP stream, as fast as it goes or at a rate, up to an amount or a stop."""

    sends = True

    def __init__(self, sock, counters, index, parameters, plan, file=None, together=()):
        """together: the indices of all this end's senders, whose bytes count together."""
        StreamLoop.__init__(self, sock, counters, index, parameters, plan, file)
        self._together = [StreamSlots(counters, each).ints for each in together]
        self._block = None if self.file else counters.block(parameters)
        if parameters.zerocopy and CAN_SEND_FILES and not self.file:
            self.payload = counters.payload(parameters)

    def transfer(self):
        parameters, source = self.parameters, self._source()
        if parameters.rate or parameters.bytes or parameters.blocks or self.file:
            status = self._send_measured(source)
        else:
            status = self._send_all(source)
        if status == COMPLETE:
            self._await_acknowledgement()
            if self.file and parameters.reverse and (
                    parameters.ends_with_data or self.connection.is_ours):
                # A client of iperf3's would spin until its time is over.
                self.sock.shutdown(socket.SHUT_WR)
        return status

    def _source(self):
        length = self.parameters.length
        if self.file:
            return FileSource(self.connection, self.file, length)
        if self.payload:
            return ZeroCopySource(self.connection, self.payload, length)
        return BlockSource(self.connection, self._block,
                           self.plan.send if can_gather(self.sock) else length)

    def _await_acknowledgement(self):
        """Wait until the other end's kernel has had everything, as long as that goes on."""
        # differs: iperf3 takes the time of an amount when it is written, with much under way.
        last, changed = None, time.monotonic()
        while not self.stopped():
            left, now = self.connection.unacknowledged(), self.look_around()
            if left != last:
                last, changed = left, now
            if not left or now - changed > 1.0:
                return
            self.connection.sleep(0.001)

    def _send_all(self, source):
        """The hot path: no rate, no amount."""
        ints, count_at, command_at, sent = self.slots.ints, _BYTES, _COMMAND, 0
        while True:
            begin, first = self.look_around(), sent
            try:
                while source.whole is None:
                    sent += source.send()
                    ints[count_at] = sent
                call, size = source.whole, source.size
                for _ in range(32):
                    count = call()
                    sent += count
                    ints[count_at] = sent
                    if count != size:
                        source.split(count)
                        break
                    if ints[command_at]:
                        break
            except BlockingIOError:
                self.connection.wait(True)
            if ints[command_at]:
                return STOPPED
            source.adapt((sent - first) / max(time.monotonic() - begin, 1e-6))

    def _send_measured(self, source):
        """Send at a rate, an amount, or a file."""
        parameters, ints = self.parameters, self.slots.ints
        pace, sent = None, 0
        if parameters.rate:
            pace = Pace(time.monotonic(), 8.0 / parameters.rate,
                        max(1, parameters.burst) * parameters.length)
        while not ints[_COMMAND]:
            left, now = self._amount_left(), self.look_around()
            if left <= 0:
                return COMPLETE
            if pace and not pace.due(now, sent):
                self.connection.sleep(pace.wait)
                continue
            try:
                count = source.send(not pace and left >= source.size * len(self._together))
            except BlockingIOError:
                self.connection.wait(True)
                continue
            if not count and self.file:
                return COMPLETE
            sent += count
            ints[_BYTES] = sent
        return STOPPED

    def _amount_left(self):
        """Return the bytes that this end's senders still have to send, NO_LIMIT without one."""
        limit = self.slots.ints[_LIMIT]
        if limit == NO_LIMIT:
            return limit
        return limit - sum(ints[_BYTES] for ints in self._together)


class TcpReceiver(StreamLoop):
    """Receive one TCP stream; once stopped, read on to its end without counting."""

    def __init__(self, sock, counters, index, parameters, plan, path=None):
        """path: of the file to write (-F). Raises IperfError 14 if it cannot be opened."""
        StreamLoop.__init__(self, sock, counters, index, parameters, plan,
                            open_payload(path, True) if path else None)
        self._wake = 1  # bytes that end the wait of a call
        self._may_wait = (
            WAKES_LATE and type(self.connection) is PlainConnection and not self.file
            and parameters.protocol == "TCP" and not parameters.mptcp)

    def transfer(self):
        ints, count_at, command_at = self.slots.ints, _BYTES, _COMMAND
        size = self.plan.receive
        view = (memoryview(private_memory(size)) if self.file
                else self.counters.sink(self.index, size))
        # -F needs the bytes; otherwise they may be dropped in the kernel.
        plain = _MSG_TRUNC if self.parameters.skip_rx_copy and not self.file else 0
        # Calls that wait for a whole buffer save wake-ups; on a slow link, and at the end of an
        # amount, they would make the counters late.
        amount = bool(self.parameters.bytes or self.parameters.blocks)
        waits = self.plan.whole and _CALLS_WAIT and not amount
        whole = plain | _MSG_WAITALL if waits else plain
        receive, flags, received = self.sock.recv_into, plain, 0
        mark, marked = time.monotonic(), 0
        while not ints[command_at]:
            enough = size if flags != plain else min(size, self._wake)
            try:
                for _ in range(1 if amount else 32):
                    count = receive(view, size, flags)
                    if ints[command_at]:
                        return self._drain(receive, view, plain, count)
                    received += count
                    ints[count_at] = received
                    if self.file:
                        self._store(view[:count])
                    if count < enough:
                        break
            except BlockingIOError:
                self.connection.wait()
                self.look_around()
                continue
            now = self.look_around()
            if amount and count:
                self.slots.finished = now
            if not count and not ints[command_at]:
                return CLOSED
            if now - mark > 0.02:
                prompt = (received - marked) / (now - mark) * _SLOW_CALL  # bytes
                flags = plain if prompt < size else whole
                self._wait_for_bytes(1 if amount else prompt)
                mark, marked = now, received
        return self._drain(receive, view, plain)

    def _wait_for_bytes(self, prompt):
        """Let a call that waits be woken by as many bytes as the plan says, or any.

        prompt: bytes that come within _SLOW_CALL.
        """
        count = self.plan.wake if prompt >= self.plan.wake else 1
        if self._may_wait and count != self._wake and set_least(self.sock, count):
            self._wake = count

    def _store(self, view):
        """Write to the file (-F). A pipe may stand still for as long as the test runs."""
        since = None  # when it stood still and the test was over
        try:
            while len(view):
                count = self.file.write(view)
                if count is not None:
                    view, since = view[count:], None
                    continue
                self.slots.errno, now = errno.ETIMEDOUT, self.look_around()
                if self.stopped():
                    since = since or now
                    if now - since > CLOSING_TIMEOUT:
                        raise FileTrouble(errno.ETIMEDOUT, "")
                self.connection.wait_for_file(self.file, True)
        except OSError as error:
            raise FileTrouble(error.errno, error.strerror)
        self.slots.errno = 0

    def _drain(self, receive, view, flags, count=None):
        """Read to the end of the stream, so that the peer is not reset while it still sends.

        count: bytes that came with the stop.
        """
        self._end(STOPPED)
        self._wait_for_bytes(1)
        while count != 0:
            if self.file and count:
                self._store(view[:count])
            try:
                count = receive(view, len(view), flags)
            except BlockingIOError:
                self.connection.wait()
                count = None
            self.look_around()
        return STOPPED


_NAP = 0.0002  # seconds that a busy receiver lets datagrams gather; large ones fill the cache
_SHORT_NAP = 0.00005
_NAP_ROOM = 1024 * 1024  # bytes of buffer without which it must not
_DRAIN_TIMEOUT = 0.2  # seconds for what stands in the buffer at the end


class UdpSender(StreamLoop):
    """Send one UDP stream, at a rate or as fast as it goes, up to an amount or a stop."""

    sends = True
    layout = UdpSenderSlots

    def __init__(self, sock, counters, index, parameters, batches=True):
        """batches: send several datagrams per call where the system can."""
        StreamLoop.__init__(self, sock, counters, index, parameters)
        self._calls = batch_calls() if batches else None
        counter_table()  # made once, for all workers, as the block is
        self._block = counters.block(parameters)
        self._writer = self._headers = None

    def prepare(self):
        parameters = self.parameters
        header = header_size(parameters.wide_counters)
        if self._calls:
            writer = BatchWriter(self._calls, self.sock, self._block, header,
                                 segments_per_call(parameters))
        else:
            own = memoryview(bytearray(self._block))  # it is written to
            writer = DatagramWriter(self.sock, own, header)
        self._writer = writer
        self._headers = DatagramHeaders(writer.headers, parameters.wide_counters, writer.spacing)

    def transfer(self):
        parameters, length = self.parameters, self.parameters.length
        writer, headers = self._writer, self._headers
        pace = None
        if parameters.rate:
            pace = Pace(time.monotonic(), length * 8.0 / parameters.rate,
                        parameters.burst if parameters.burst > 1 else 0, _MAX_DEBT)
        ints, outage, sent = self.slots.ints, Outage(self.sock), 0
        while not ints[_COMMAND]:
            now = self.look_around()
            count = headers.room(sent + 1)
            if count > writer.limit:
                count = writer.limit
            limit = ints[_LIMIT]
            if limit != NO_LIMIT:
                left = limit // length - sent
                if left <= 0:
                    return COMPLETE
                count = min(count, left)
            if pace is not None:
                due = pace.due(now, sent)
                if due < 1:
                    self._sleep(pace.wait)
                    continue
                count = min(count, due)
            headers.write(sent + 1, count, now)
            try:
                sent += writer.send(count)
            except OSError as error:
                self._bear(outage, error, now, sent)
                continue
            if outage.since:
                outage.end(now)
                self.slots.tell_outage(outage, now)
            ints[_BYTES] = sent * length
        return STOPPED

    def _sleep(self, seconds):
        """Sleep; the control plane need not wait for the end of it."""
        self.slots.asleep = 1
        time.sleep(seconds)
        self.slots.asleep = 0

    def _bear(self, outage, error, now, sent):
        """Wait for the end of an error that passes. Raises OSError."""
        if isinstance(error, BlockingIOError):
            self.connection.wait(True)
            return
        try:
            wait = outage.bear(error, now, sent)
        except OSError as failure:
            self.slots.write_note(failure.strerror)
            raise
        self.slots.tell_outage(outage, now)
        if wait:
            self._sleep(wait)


class UdpReceiver(StreamLoop):
    """Receive one UDP stream: count, and find what was lost, came late, or jittered."""

    layout = UdpReceiverSlots

    def __init__(self, sock, counters, index, parameters, batches=True, drains=False):
        """batches: as for UdpSender.

        drains: the peer stops first, so that what is there when this end stops still counts.
        """
        StreamLoop.__init__(self, sock, counters, index, parameters)
        self._calls = batch_calls() if batches else None
        counter_table()
        self._reader = self._headers = None
        self._drains = drains
        self._tracker = DatagramTracker(parameters.length, parameters.wide_counters)
        self._rows = []  # DatagramHeaders of each message, where it may be of several
        self._joined, self._most = False, 1  # whether any came joined, and how many as one
        self._apart = False  # they are to be joined no more
        self._dropped = 0  # what the kernel had told of drops
        self._measuring = 0
        self._clocks = 0.0  # the wall clock less the monotonic one

    def prepare(self):
        parameters = self.parameters
        header = header_size(parameters.wide_counters)
        flags = _MSG_TRUNC if parameters.skip_rx_copy else 0
        if self._calls:
            self._reader = BatchReader(self._calls, self.sock, parameters.length, header, flags,
                                       parameters.stream_count())
            self.slots.joins = int(self._reader.joins)
        else:
            size = header if flags else parameters.length  # what is beyond is cut off
            self._reader = DatagramReader(self.sock, size, flags)
        self._arrange()

    def _arrange(self):
        """Make the views of the reader's headers: of all, of the first and of all of a message."""
        reader, wide = self._reader, self.parameters.wide_counters
        memory, row = memoryview(reader.headers), reader.unit * reader.spacing
        self._headers = DatagramHeaders(memory, wide, reader.spacing)
        self._firsts = DatagramHeaders(memory, wide, row)
        self._rows = [DatagramHeaders(memory[at:at + row], wide, reader.spacing)
                      for at in range(0, len(memory) * (reader.unit > 1), row)]

    def transfer(self):
        reader, ints = self._reader, self.slots.ints
        may_nap = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= _NAP_ROOM
        napping, empty = False, 0
        nap = _NAP if self.parameters.length < 8192 else _SHORT_NAP
        calls, messages, mark = 0, 0, time.monotonic()
        if not reader.kernel_time:
            self._take_in_late(reader)
        while not ints[_COMMAND]:
            now = self.look_around()
            try:
                count = reader.receive(not napping)
            except BlockingIOError:
                empty += 1
                if napping and empty < 3:
                    time.sleep(nap)
                else:
                    napping = False
                    self.connection.wait()
                continue
            except OSError as error:  # of what was sent before; Windows: longer than the buffer
                if error.errno not in PASSING_ERRORS:
                    raise
                time.sleep(0.001)
                continue
            self._account(reader, count)
            empty = 0
            calls += 1
            messages += count
            if napping and count < reader.limit // 2:
                time.sleep(nap)
            if calls == 32:
                # A wake-up for each message costs both ends more than the message does.
                napping = may_nap and messages > (now - mark) * (1e4 if napping else 2e4)
                calls, messages, mark = 0, 0, now
        if self._drains:
            self._drain(reader)
        return STOPPED

    def _take_in_late(self, reader):
        """Count what came before this process did: it tells nothing of the jitter."""
        end = time.monotonic() + 0.05  # a fast sender leaves no gap
        with suppress(OSError):  # no more
            while _MSG_DONTWAIT and time.monotonic() < end:
                self._account(reader, reader.receive(False))
                self._tracker.forget_jitter()
        self.slots.jitter = 0.0

    def _drain(self, reader):
        """Count what came before the stop; nobody sends any more."""
        end, empty = time.monotonic() + _DRAIN_TIMEOUT, 0
        while empty < 5 and time.monotonic() < end:
            try:
                count = reader.receive(False)
            except BlockingIOError:
                return
            except OSError:  # of what was sent before
                empty += 1
                continue
            self._account(reader, count)
            # A socket that is shut down has empty ones without end; the peer may send some.
            empty = 0 if any(reader.sizes(count)) else empty + 1

    def _account(self, reader, count):
        """Take what one call brought into the figures."""
        slots, ints, tracker = self.slots, self.slots.ints, self._tracker
        if reader.kernel_time:
            self._watch_clock()
        if ints[_MEASURING] != self._measuring:
            self._measuring = ints[_MEASURING]
            tracker.forget_jitter()
        lost = tracker.lost
        self._take_in(reader, reader.sizes(count), reader.arrivals(count))
        if reader.joins and tracker.lost > lost:
            self._find_cause(reader, count, tracker.lost - lost)
        if self._most > reader.unit:
            reader.make_room(self._most)
            self._arrange()
        ints[_VERSION] += 1
        ints[_BYTES] = tracker.bytes
        ints[_PACKETS] = tracker.highest
        ints[_LOST] = tracker.lost
        ints[_OUT_OF_ORDER] = tracker.late
        slots.floats[_JITTER] = tracker.jitter
        ints[_VERSION] += 1
        if self.parameters.bytes or self.parameters.blocks:
            slots.finished = time.monotonic()

    def _take_in(self, reader, sizes, arrivals):
        """Let the tracker take in messages: of one datagram each, or joined."""
        unit, length, tracker = reader.unit, self.parameters.length, self._tracker
        if unit > 1 and sizes.count(unit * length) == len(sizes):
            if tracker.take_pieces(self._headers, unit, arrivals):
                return
        elif not reader.joins or max(sizes) <= length:
            tracker.take(self._firsts, sizes, arrivals)
            return
        for at, (size, arrival) in enumerate(zip(sizes, arrivals)):
            count, rest = divmod(size, length)
            if rest or not 0 < count <= unit or unit == 1 or not (
                    tracker.take_pieces(self._rows[at], count, [arrival])):
                self._take_apart(reader, at, size, arrival)

    def _take_apart(self, reader, at, size, arrival):
        """Take in the datagrams of message `at` one by one."""
        length, joined = self.parameters.length, segment_size(reader.ancillary(at))
        if joined == length or (self._apart and size > length):
            sizes = [length] * (size // length) + [size % length] * bool(size % length)
        else:
            sizes = [min(length, joined or size)]  # what is beyond is cut off
        if joined not in (0, length):
            # Of another size than the test's, so that the places of their headers are not known,
            # but for the first. Those to come will be single, but for what waits already, whose
            # size is told no more.
            self._apart = set_coalescing(self.sock, False)
        headers = DatagramHeaders(reader.piece(at, len(sizes)), self.parameters.wide_counters)
        self._tracker.take(headers, sizes, [arrival] * len(sizes))
        if joined:
            self._joined = True
            self._most = max(self._most, min(size // length, _MOST_SEGMENTS))

    def _find_cause(self, reader, count, gap):
        """Find out whether the kernel dropped any of the `gap` datagrams that are missing now."""
        slots, told = self.slots, drops_told(reader.ancillary(count - 1))
        pieces, self._dropped = (told - self._dropped) & 0xffffffff, told
        slots.dropped_pieces += min(pieces, gap)
        most = min(_MOST_SEGMENTS, MAX_UDP_BLOCK // self.parameters.length) if self._joined else 1
        slots.dropped += min(pieces * most, gap)

    def _watch_clock(self):
        """Begin anew with the jitter if somebody set the clock of the kernel's timestamps."""
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        if after - before < 0.0002:  # else something came between
            if abs(wall - before - self._clocks) > 0.0005:
                self._tracker.forget_transit()
            self._clocks = wall - before


###############################################################################
# probes ######################################################################
###############################################################################
# Datagrams that measure the path: their bytes, and the workers that send them
# (a client's) and send them back (a server's). A server answers who runs a test,
# from the address of its control connection, and with no more bytes than came.
# Nothing here prints.

# Kinds of probes: answered with as many bytes; with the fewest; not at all, but what it has may
# be answered later; with as many bytes as it says; the same, in fragments if need be.
ECHO, ACK, FILL, PULL, LOOSE = range(1, 6)

Probe = collections.namedtuple("Probe", "kind group size sequence")
Probe.__doc__ = """What a probe asks for. group: the number of its class; size: of PULL."""
ProbeReply = collections.namedtuple(
    "ProbeReply", "kind group tos flags sequence count arrival departure bytes packets lost jitter"
                  " size router next_mtu refusal")
ProbeReply.__doc__ = """What a server answers.

tos: the probe's when it came, NO_TOS if that is not known; flags: STAMPED if the kernel told when
that was; count: probes of the class that came so far; arrival, departure: nanoseconds of the
server's clock; bytes, packets, lost, jitter (us): of what its streams have received so far; size:
of the probe, in bytes of payload; refusal: 0, REFUSED_HERE or REFUSED_ON_THE_WAY: what became of
an earlier reply, that was too large; next_mtu: for what, in bytes; router: who said so, 0 if it is
not of IPv4: then the 16 bytes of its address stand behind the reply, if there is room.
"""
ProbeReply.__new__.__defaults__ = (0,)
REFUSED_HERE, REFUSED_ON_THE_WAY = 1, 2
STAMPED = 1
_PROBE = struct.Struct("!4s16sBBHI")
_REPLY = struct.Struct("!4sBBBBIIqqqIIIIIHBx")
_PROBE_MAGIC, _REPLY_MAGIC = b"p3pr", b"p3re"
_TOKEN_LETTERS = 16  # of the 36 of a token, that a probe has
_CREDIT = 256 * 1024  # bytes at most that a server may still send
_REPLY_BURST = 0.1  # seconds in which it may send all replies of them
_TURN = 64  # datagrams that are looked at before others have a turn
_RING = 4096  # samples that a prober is ahead of who reads them


def encode_probe(token, kind, group, sequence, size=0):
    """Return the first MIN_PROBE bytes of a probe. token: in bytes."""
    return _PROBE.pack(_PROBE_MAGIC, token[:_TOKEN_LETTERS], kind, group, size,
                       sequence & 0xffffffff).ljust(MIN_PROBE, b"\0")


def decode_probe(data, token):
    """Return the Probe that a datagram is, None if it is none that has this token."""
    if len(data) < MIN_PROBE:
        return None
    magic, told, kind, group, size, sequence = _PROBE.unpack_from(data)
    if magic != _PROBE_MAGIC or told != token[:_TOKEN_LETTERS] or not (
            ECHO <= kind <= LOOSE and group < MAX_PROBE_CLASSES):
        return None
    return Probe(kind, group, size, sequence)


def is_probe(data):
    """Return whether a datagram looks like a probe, of whatever token."""
    return data[:4] == _PROBE_MAGIC


def encode_reply(reply):
    """Return the first MIN_PROBE bytes of a ProbeReply."""
    return _REPLY.pack(_REPLY_MAGIC, *reply)


def decode_reply(data):
    """Return the ProbeReply that a datagram is, None if it is none."""
    if len(data) < _REPLY.size or data[:4] != _REPLY_MAGIC:
        return None
    return ProbeReply(*_REPLY.unpack_from(data)[1:])


class ProbeShared(SharedSlots):
    """What the workers of an end's probes share."""

    due = Slot(float, "worker", "when the next reply may be sent, of all")


class ProbeSlots(WorkerSlots):
    """A worker that sends probes, or answers them."""

    sent = Slot(int, "worker", "probes sent, of each class")
    samples = Slot(int, "worker", "those that are in the ring, or were")
    stamped = Slot(int, "worker", "whether the kernel told when datagrams came, at both ends")


# One sample in the ring. sent: monotonic seconds, when the probe left; rtt: seconds without the
# time at the server; up, down: seconds of the ways, each off by the difference of the clocks;
# late: seconds after it was due; tos_up, tos_down: how they came, NO_TOS if not known; count,
# bytes, packets, lost, jitter: of the reply.
Sample = collections.namedtuple(
    "Sample", "group sequence sent rtt up down late tos_up tos_down count bytes packets lost"
              " jitter")


class ProbeRing:
    """Samples on their way from the worker that takes them to the control plane."""

    def __init__(self):
        self._numbers = memoryview(shared_memory(_RING * len(Sample._fields) * 8)).cast(
            "B").cast("d")
        self._read = 0

    def write(self, number, sample):
        """Put in sample `number`, counted from 0."""
        width = len(Sample._fields)
        at = number % _RING * width
        self._numbers[at:at + width] = memoryview(array.array("d", sample))

    def read(self, end):
        """Return the samples since the last call, up to number `end`; some may be lost."""
        width, samples = len(Sample._fields), []
        self._read = max(self._read, end - _RING // 2)
        while self._read < end:
            at = self._read % _RING * width
            samples.append(Sample(*self._numbers[at:at + width].tolist()))
            self._read += 1
        return samples


class ProbeLoop(WorkerLoop):
    """What both ends' workers of probes have: they begin at once, and never fail a test."""

    layout = ProbeSlots

    def await_start(self, gate):
        pass

    def run(self):
        self.slots.status = RUNNING
        try:
            while not self.stopped():
                self.serve()
                self.look_around()
            self.slots.status = STOPPED
        except OSError as error:
            self.slots.errno, self.slots.status = error.errno or 0, FAILED

    def serve(self):
        """Do what is to be done for a moment. Raises OSError."""
        raise NotImplementedError

    def close(self):
        self.sock.close()


class Reflector(ProbeLoop):
    """A server's worker that answers the probes of one socket."""

    def __init__(self, sock, counters, index, token, receivers, first=()):
        """sock: connected; token: in bytes; receivers: the slots of the streams that come.

        first: datagrams that came before.
        """
        ProbeLoop.__init__(self, sock, counters, index)
        self._first = first
        self._shared = ProbeShared(counters, -1)
        self._token, self._receivers = token, receivers
        self._counts = [0] * MAX_PROBE_CLASSES  # probes that came
        self._credit = 0
        self._refusal = 0, 0, b""  # refusal, next_mtu, the router's address

    def prepare(self):
        with suppress(OSError):
            for data in self._first:
                self.answer(data, None, NO_TOS)

    def serve(self):
        if not is_ready([self.sock], _HOUSEKEEPING):
            return
        self._take_refusals()
        try:
            for _ in range(_TURN):
                data, stamp, tos = receive_stamped(self.sock)
                self.answer(data, stamp, tos)
        except BlockingIOError:
            pass
        except OSError as error:
            # The client has gone, or the path has a smaller MTU.
            if error.errno not in PASSING_ERRORS | {errno.ECONNREFUSED, errno.EMSGSIZE}:
                raise

    def answer(self, data, stamp, tos):
        """Answer a datagram. stamp: when it came, seconds of the clock, None if nobody knows."""
        probe = decode_probe(data, self._token)
        if probe is None:
            return
        self._counts[probe.group] += 1
        self._credit = min(_CREDIT, self._credit + len(data))
        asked = max(MIN_PROBE, probe.size)
        size = {ECHO: len(data), ACK: MIN_PROBE, FILL: 0, PULL: asked, LOOSE: asked}[probe.kind]
        if not size or size > self._credit or not self._may_reply():
            return
        self._credit -= size
        counts = self._received()
        now = time.time()
        refusal, next_mtu, router = self._refusal
        reply = encode_reply(ProbeReply(
            probe.kind, probe.group, tos, 0 if stamp is None else STAMPED, probe.sequence,
            self._counts[probe.group], int((now if stamp is None else stamp) * 1e9),
            int(now * 1e9), *counts, size=min(len(data), 65535), next_mtu=next_mtu,
            router=struct.unpack("!I", router)[0] if len(router) == 4 else 0, refusal=refusal))
        if len(router) == 16 and size >= len(reply) + len(router):
            reply += router
        self.reply(reply.ljust(size, b"\0"), probe.kind == LOOSE)

    def reply(self, data, loose):
        """Send a reply; loose: it may be fragmented. Raises OSError."""
        if loose:
            let_fragment(self.sock)
        try:
            self.sock.send(data)
        except OSError as error:
            # Too large it is, or an earlier one was.
            if error.errno != errno.EMSGSIZE or self._take_refusals():
                raise
            self.sock.send(data)
        finally:
            if loose:
                keep_whole(self.sock)

    def _take_refusals(self):
        """Take note of what was too large; returns whether that was so for this host."""
        refused = False
        for error in queued_errors(self.sock):
            if error.cause == TOO_LARGE_HERE:
                refused = True
                self._refusal = REFUSED_HERE, min(error.mtu, MAX_PACKET), b""
            elif error.cause == TOO_LARGE and error.host:
                family = _AF_INET6 if ":" in error.host else socket.AF_INET
                self._refusal = (REFUSED_ON_THE_WAY, min(error.mtu, MAX_PACKET),
                                 socket.inet_pton(family, error.host))
        return refused

    def _may_reply(self):
        """Return whether there have not been too many replies, of all workers together."""
        now = time.monotonic()
        due = max(self._shared.due, now - _REPLY_BURST)
        if due > now:
            return False
        self._shared.due = due + 1.0 / MAX_PROBE_RATE
        return True

    def _received(self):
        """Return bytes, packets, lost and jitter (us) of what came, as a reply has them."""
        counts = [slots.counts() if isinstance(slots, UdpReceiverSlots) else
                  DatagramCounts(slots.bytes, 0, 0, 0, 0.0) for slots in self._receivers]
        if not counts:
            return 0, 0, 0, 0
        jitter = sum(each.jitter for each in counts) / len(counts)
        return (sum(each.bytes for each in counts),
                sum(each.packets for each in counts) & 0xffffffff,
                max(0, sum(each.lost for each in counts)) & 0xffffffff,
                min(0xffffffff, max(0, int(jitter * 1e6))))


def gather_probe(sock, rest):
    """Return the MIN_PROBE bytes that come next on a connection, in pieces; None until then.

    rest: a bytearray of what came before. Raises OSError, at the end of the data, too.
    """
    data = sock.recv(MIN_PROBE - len(rest))
    if not data:
        raise system_error(errno.ECONNRESET)
    rest += data
    if len(rest) < MIN_PROBE:
        return None
    whole = bytes(rest)
    del rest[:]
    return whole


class TcpReflector(Reflector):
    """The same over a TCP connection, in TLS perhaps, where no datagrams come through."""

    def __init__(self, *arguments):
        Reflector.__init__(self, *arguments)
        self._rest = bytearray()

    def serve(self):
        try:
            data = gather_probe(self.sock, self._rest)
        except BlockingIOError:
            is_ready([self.sock], _HOUSEKEEPING)
            return
        if data:
            self.answer(data, None, NO_TOS)

    def reply(self, data, loose):
        # A client reads what it asked for; one that does not has no answers.
        if self.sock.send(data) != len(data):
            raise system_error(errno.EPIPE)


class Prober(ProbeLoop):
    """A client's worker that sends probes, and takes the time until their replies come."""

    def __init__(self, sockets, counters, index, ring, token, rate, size):
        """sockets: connected, one for each class; rate: probes a second of each; size: bytes."""
        ProbeLoop.__init__(self, sockets[0], counters, index)
        self.sockets, self._ring = sockets, ring
        self._token, self._interval = token, 1.0 / rate
        self._padding = b"\0" * max(0, size - MIN_PROBE)
        # When the last probes left, by the number: (monotonic, of the clock, seconds late).
        self._sent = [{} for _ in sockets]
        self._due = 0.0

    def descriptors(self):
        return [sock.fileno() for sock in self.sockets]

    def prepare(self):
        for sock in self.sockets:
            stamp_departures(sock)

    def departure(self, sock, earliest):
        """Return when the last probe left, None if nobody knows: see departure_stamp()."""
        return departure_stamp(sock, earliest)

    def close(self):
        close_all(self.sockets)

    def serve(self):
        now = time.monotonic()
        self._due = self._due or now
        if now >= self._due:
            late = now - self._due
            for group in range(len(self.sockets)):
                self._send(group, late)
            self.slots.sent += 1
            # What could not be sent in time is not made up for.
            self._due = max(self._due + self._interval, now)
        ready = is_ready(self.sockets, max(0.0, min(_HOUSEKEEPING, self._due - time.monotonic())))
        for group, sock in enumerate(self.sockets) if ready else ():
            self._take_replies(group, sock)

    def _send(self, group, late):
        sock, number = self.sockets[group], self.slots.sent
        data = encode_probe(self._token, ECHO, group, number) + self._padding
        moment, clock = time.monotonic(), time.time()
        try:
            sock.send(data)
        except OSError as error:  # what went before was refused, or there is no room
            if error.errno not in PASSING_ERRORS | {errno.ECONNREFUSED, errno.EAGAIN,
                                                    errno.EMSGSIZE}:
                raise
        left = self.departure(sock, clock)
        sent = self._sent[group]
        sent[number] = moment, clock if left is None else left, late
        sent.pop(number - 65536, None)

    def _take_replies(self, group, sock):
        self.departure(sock, 0.0)  # one that came late
        try:
            for _ in range(_TURN):
                self.take(group, *receive_stamped(sock))
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno not in PASSING_ERRORS | {errno.ECONNREFUSED, errno.EMSGSIZE}:
                raise

    def take(self, group, data, stamp, tos):
        """Take in a reply. stamp: when it came, seconds of the clock, None if nobody knows."""
        now, clock = time.monotonic(), time.time()
        reply = decode_reply(data)
        # Each counts once, the first time; an ACK may be a late answer to the first try.
        sent = reply and reply.kind == ECHO and reply.group == group and self._sent[group].pop(
            reply.sequence, None)
        if not sent:
            return
        moment, left, late = sent
        came = clock if stamp is None else stamp
        there = (reply.departure - reply.arrival) / 1e9
        rtt = came - left - there
        if not (0 <= there <= now - moment and 0 <= rtt <= now - moment + 0.001
                and reply.bytes >= 0):
            return  # somebody set a clock, or the other end does not tell the truth
        self.slots.stamped = int(stamp is not None and reply.flags & STAMPED)
        number = self.slots.samples
        self._ring.write(number, Sample(
            group, reply.sequence, moment, rtt, reply.arrival / 1e9 - left,
            came - reply.departure / 1e9, late, reply.tos, tos, reply.count, reply.bytes,
            reply.packets, reply.lost, reply.jitter))
        self.slots.samples = number + 1


class TcpProber(Prober):
    """The same over a TCP connection."""

    def __init__(self, sockets, counters, index, ring, token, rate, size):
        Prober.__init__(self, sockets, counters, index, ring, token, rate, MIN_PROBE)
        self._rests = [bytearray() for _ in sockets]

    def prepare(self):
        pass

    def departure(self, sock, earliest):
        return None

    def _take_replies(self, group, sock):
        with suppress(BlockingIOError):
            while True:
                data = gather_probe(sock, self._rests[group])
                if data:
                    self.take(group, data, None, NO_TOS)


class ProbeWorkers:
    """Workers of one end that serve no stream, and begin at once."""

    def __init__(self, threaded, most):
        """threaded: see --threads; most: how many there may be."""
        self._threaded, self._most = threaded, most
        self._counters = Counters(most)
        self._workers = []

    def start(self, make):
        """Start the loop that make(counters, index) returns; returns it. Raises OSError."""
        loop = make(self._counters, len(self._workers))
        worker = Worker()
        worker.loops.append(loop)
        self._workers.append(worker)
        with on_error(loop.close):
            worker.start(loop.sock.fileno(), self._threaded or not can_fork())
        return loop

    def has_room(self):
        return len(self._workers) < self._most

    def close(self):
        """End them, and close what they have open, at once."""
        workers, self._workers = self._workers, []
        for worker in workers:
            for loop in worker.loops:
                loop.slots.command = STOP
            if not worker.ended():
                worker.kill()
        for worker in workers:
            worker.join()
            for loop in worker.loops:
                loop.close()


###############################################################################
# arrivals ####################################################################
###############################################################################
# Where a server's test gets its streams from, until it has them all. Nothing
# here prints.

class Arrivals:
    """Where a server's test gets its streams from, until it has them all.

    sizes: of the (sending, receiving) buffers of their sockets; warnings: about options without
    which the test goes on.
    """

    takes_connections = False  # those that come to the server's own port
    interrupted = False  # the client has something to say instead

    def __init__(self, transport, conversation):
        self._transport, self._conversation = transport, conversation
        self.sizes, self.warnings = (0, 0), []

    def _set_options(self, sock):
        """Set the options of a socket to which streams will come."""
        self.warnings = []
        self._transport.set_options(sock, "L", self.warnings.append)
        self.sizes = set_window(sock, 0)
        self.warnings = self._transport.buffer_warnings(self.sizes) + self.warnings

    def take(self, deadline):
        """Wait a moment for new streams, in a task; returns their sockets. Raises IperfError."""
        raise NotImplementedError

    def pending(self):
        """Return how many streams have come and were not taken yet."""
        return 0

    def close(self):
        """Release what only the set-up needs; the streams stay."""


class TcpArrivals(Arrivals):
    """The connections to the server's port that begin with the test's cookie."""

    takes_connections = True

    def __init__(self, transport, conversation):
        Arrivals.__init__(self, transport, conversation)
        self._arrived = []
        # Tried on a socket of no use, since a data connection's must be there in time.
        with socket.socket(conversation.control.family, socket.SOCK_STREAM) as sock:
            self._set_options(sock)
        warning = conversation.resources.listen_for(transport.parameters)
        self.warnings += [warning] if warning else []

    def offer(self, sock):
        """Take a connection that turned out to be one of the test's."""
        self._arrived.append(sock)

    def pending(self):
        return len(self._arrived)

    def take(self, deadline):
        if not self._arrived and (yield Wait(self._conversation.control, READ, deadline)) == READY:
            yield from pause(0.01)  # it may have overtaken a data connection
            self.interrupted = True
        if not self._arrived:
            return []
        sock = self._arrived.pop(0)
        with on_error(sock.close):
            self._transport.set_options(sock, "A", bool)  # the warnings went out before
        return [sock]

    def close(self):
        close_all(self._arrived)
        self._arrived = []


class SctpArrivals(Arrivals):
    """A listener for SCTP associations where the client came in."""

    def __init__(self, transport, conversation):
        Arrivals.__init__(self, transport, conversation)
        try:
            sock = self._listener = sctp_socket(conversation.control.family)
            with on_error(sock.close):
                sock.setblocking(False)
                self._set_options(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if conversation.settings.bind_dev:
                    bind_device(sock, conversation.settings.bind_dev)
                sock.bind(conversation.control.getsockname())
                sock.listen(MAX_STREAMS)
        except OSError as error:
            raise IperfError(202, error)

    def take(self, deadline):
        yield Wait(self._listener, READ, time.monotonic() + 0.05)
        try:
            sock, address = self._listener.accept()
        except OSError:
            return []
        with on_error(sock.close):
            sock.setblocking(False)
            if (yield from self._is_known(sock, plain_address(address)[0])):
                self._transport.set_options(sock, "A", bool)
                return [sock]
        sock.close()
        return []

    def _is_known(self, sock, host):
        """Read the cookie, in a task; returns whether it is the test's."""
        if not self._conversation.resources.allows(host):
            return False
        with suppress(IperfError):
            return self._conversation.cookie == (yield from self._conversation.keep_waiting(
                read_exactly(sock, COOKIE_SIZE, time.monotonic() + 1.0,
                             lambda cause, _: IperfError(204, cause))))

    def close(self):
        self._listener.close()


class UdpArrivals(Arrivals):
    """The UDP port of a test while its streams are set up: it answers the client's hellos.

    Each stream gets a connected socket of its own; the port's own socket only ever sees hellos.
    """

    for_streams = True

    def __init__(self, transport, conversation):
        """Open the port at the address that the client used for its control connection.

        Raises IperfError.
        """
        Arrivals.__init__(self, transport, conversation)
        self._clients = {conversation.host}  # addresses
        self._ports = conversation.resources.ports  # a hello may come to any of those
        self._answered = {}  # address: when it was answered last
        self._known = {}  # address of a stream's other end: its socket
        self._new = []  # sockets of streams that serve() has not returned yet
        self._failure = None  # why one could not be made
        self._delayed = {}  # address: a hello that could not be answered yet, and since when
        self._stranger = None  # a hello from elsewhere: its address, data, and time
        self._looked = 0.0
        self._place, self._family = conversation.control.getsockname(), conversation.control.family
        if self._place[0].startswith("::ffff:"):  # IPv4 at a socket of both kinds
            self._place, self._family = plain_address(self._place), socket.AF_INET
        self.socket = self._open()
        self._ports.append(self)

    def _open(self):
        return open_datagram_socket(self._family, self._place, self._conversation.settings.bind_dev,
                                    self._set_options)

    def close(self):
        """Release the port; the streams' sockets stay."""
        if self.socket is None:
            return
        own, self.socket = self.socket, None
        self._ports.remove(self)
        if self._ports:
            self._take_in(own)  # what is for others
        own.close()
        close_all(self._new)

    def take(self, deadline):
        yield Wait(self.socket, READ, time.monotonic() + 0.05)
        return self.serve()

    def serve(self):
        """Answer the hellos that have come; returns the sockets of new streams.

        Raises IperfError 204.
        """
        self._take_in(self.socket)
        for address, (data, _) in list(self._delayed.items()):
            self._answer(data, address)
        now = time.monotonic()
        if now - self._looked > HELLO_INTERVAL / 2 and _MSG_DONTWAIT:
            self._looked = now
            for address, sock in self._known.items():
                self._answer_again(sock, address)
        alone = sum(port.for_streams for port in self._ports) == 1
        if (self._stranger and not self._known and alone
                and now - self._stranger[2] > 4 * HELLO_INTERVAL):
            # Nothing came from where the control connection comes from: an address translator
            # has two addresses, perhaps.
            address, data, _ = self._stranger
            self._clients.add(plain_address(address)[0])
            self._answer(data, address)
        if self._failure is not None:
            raise self._failure
        new, self._new = self._new, []
        return new

    def _take_in(self, sock):
        """Answer the datagrams that wait on an unconnected socket."""
        with suppress(OSError):  # no more
            for _ in range(_TURN):
                data, address = sock.recvfrom(MAX_UDP_BLOCK)
                self._find(data, address)._answer(data, address)

    def _find(self, data, address):
        """Return the Arrivals that a datagram from this address is for."""
        for port in self._ports:
            if port.expects(address) and port.knows(data):
                return port
        return next((port for port in [self] + self._ports if port.knows(data)), self)

    def knows(self, data):
        """Return whether a datagram may be for this one, and not another of the same client's."""
        return not is_probe(data)

    def expects(self, address):
        """Return whether the client is known to be at this address."""
        return address in self._known or plain_address(address)[0] in self._clients

    def _answer(self, data, address):
        """Answer a datagram, if it is a hello, and make its stream's socket if it is new."""
        reply = self._answer_to(data)
        if self.socket is None or reply is None:
            return
        if not self.expects(address):
            self._note_stranger(data, address)
            return
        new, places = address not in self._known, self.places()
        try:
            if new:
                if len(self._known) >= places:
                    return
                self._make(address)
            try:
                self._reply(self._known[address], reply, address)
            finally:
                if new:
                    self._sort_out(self._known[address], address)
            self._delayed.pop(address, None)
        except (IperfError, OSError) as error:
            # It may be another test's port that was served: that one raises nothing.
            now = time.monotonic()
            _, since = self._delayed.get(address, (data, now))
            if len(self._delayed) < places:
                self._delayed.setdefault(address, (data, now))
            if error.errno not in PASSING_ERRORS or now - since > HELLO_TIMEOUT:
                self._failure = error if isinstance(error, IperfError) else IperfError(204, error)

    def places(self):
        """Return how many sockets there may be."""
        return self._transport.parameters.stream_count()

    def _note_stranger(self, data, address):
        """Remember a hello from where the client was not seen to be."""
        # Anybody can write anybody's address on a datagram: data go only where the client is.
        parameters = self._transport.parameters
        sends = parameters.reverse or parameters.bidirectional
        allows = self._conversation.resources.allows
        if not (sends or self._stranger) and allows(plain_address(address)[0]):
            self._stranger = address, data, time.monotonic()

    def _make(self, address):
        """Make the socket of the stream of this address. Raises IperfError, OSError."""
        self._stranger = None
        sock = self._open()
        with on_error(sock.close):
            sock.connect(address)
        self._known[address] = sock
        self._new.append(sock)

    def _sort_out(self, sock, address):
        """Answer what a stream's socket took until it was connected: any hello."""
        with suppress(OSError):
            for _ in range(_TURN):
                data, source = sock.recvfrom(MAX_UDP_BLOCK)
                reply = self._answer_to(data)
                if source != address:
                    self._find(data, source)._answer(data, source)
                elif reply is not None:
                    self._reply(sock, reply, address)

    def _answer_to(self, data):
        """Return the reply to a datagram that announces a stream, None to others."""
        parameters = self._transport.parameters
        return answer_to_hello(data, parameters.length, parameters.wide_counters)

    def _reply(self, sock, reply, address):
        """Answer a hello that came from this address, not too soon again. Raises OSError."""
        now = time.monotonic()
        if now - self._answered.get(address, 0.0) >= HELLO_INTERVAL / 4:
            sock.send(reply)
            self._answered[address] = now

    def _answer_again(self, sock, address):
        """Answer a hello that was repeated because the answer was lost."""
        with suppress(OSError):  # no more
            for _ in range(_TURN):
                reply = self._answer_to(sock.recv(MAX_UDP_BLOCK, _MSG_DONTWAIT))
                if reply is not None:
                    self._reply(sock, reply, address)


class ProbePort(UdpArrivals):
    """The same for a client's probes: the first one from an address makes a socket for them."""

    for_streams = False
    _MORE = 2  # sockets than there are classes: of a search for the path's MTU, of another try

    def __init__(self, transport, conversation, token):
        """token: in bytes. Raises IperfError."""
        self._token, self._classes = token, transport.parameters.facts.probes
        self._first = collections.defaultdict(list)  # socket: what came before its worker began
        UdpArrivals.__init__(self, transport, conversation)

    def places(self):
        return len(self._classes) + self._MORE

    def _open(self):
        return open_datagram_socket(self._family, self._place, self._conversation.settings.bind_dev)

    def first(self, sock):
        """Return the probes that came before a socket of serve() had a worker."""
        return self._first.pop(sock, [])

    def knows(self, data):
        return self._answer_to(data) is not None

    def _note_stranger(self, data, address):
        pass

    def _answer_to(self, data):
        probe = decode_probe(data, self._token)
        return data if probe and probe.group < len(self._classes) else None

    def _reply(self, sock, reply, address):
        if sock in self._new and len(self._first[sock]) < _TURN:
            if not self._first[sock]:
                prepare_probes(sock, self._classes[decode_probe(reply, self._token).group])
            self._first[sock].append(reply)

    def _answer_again(self, sock, address):
        pass


class QuicArrivals(UdpArrivals):
    """The same of a QUIC test: a hello is the first datagram of a connection."""

    def __init__(self, transport, conversation):
        self._first = collections.defaultdict(list)  # address: what came before its socket
        UdpArrivals.__init__(self, transport, conversation)

    def take(self, deadline):
        sockets, connections = (yield from UdpArrivals.take(self, deadline)), []
        with on_error(close_all, sockets):
            for sock in sockets:
                place = sock.getpeername()
                connection = self._transport.wrap(sock, self._conversation.cookie,
                                                  self._first.pop(place))
                if connection.begin():
                    connections.append(connection)
                else:  # another stream may have the place
                    self._known.pop(place, None)
                    connection.close()
        return connections

    def _answer_to(self, data):
        return data if is_quic_initial(data) else None  # what the library is to answer

    def _reply(self, sock, reply, address):
        if sock in self._new and len(self._first[address]) < _QUIC_FIRST:
            self._first[address].append(reply)

    def _answer_again(self, sock, address):
        pass


###############################################################################
# transports ##################################################################
###############################################################################
# What depends on the protocol of a test, but for the loops of its workers: how
# data connections are made at either end, what they count, and what the end of
# a test waits for. Nothing here prints.

class Stream:
    """One data connection, as the control plane sees it."""

    def __init__(self, stream_id, loop, worker, figures):
        self.id = stream_id
        self.loop = loop
        self.sock, self.slots, self.sender = loop.sock, loop.slots, loop.sends
        self.worker = worker
        self.figures = figures

    def has_died(self):
        """Return whether what runs its loop has ended without a result."""
        return self.worker.ended(self.loop) and self.slots.status <= RUNNING


CallPlan = collections.namedtuple("CallPlan", "send receive whole batch wake")
CallPlan.__doc__ = """How the streams of one end call the kernel.

send, receive: bytes per call; whole: a receiving call waits until they are there;
batch: run under SCHED_BATCH, where a worker that wakes up does not interrupt another;
wake: bytes that wake a receiving call, 1 if any do (SO_RCVLOWAT); it does without on a slow link.
"""

_LARGE_CACHE = 2 * 1024 * 1024  # bytes of a CPU's own cache (L2): an Intel Xeon's as of 2023


def call_plan(parameters, streams, paced=False):
    """Return the CallPlan for `streams` streams of one end.

    paced: their congestion control is BBR, for which the kernel sets a timer between pieces of 64
    KiB, unless the sender is late. With the default block the sizes are free. Measured with both
    ends on two cores (ratios to iperf3's bit/s, medians of 3 or 4 pairs; send, receive in KiB).

    Not paced, EPYC: one stream 1024, 32 1.3; 128, 128 0.95. Four: 128, 128 1.06, with batch 1.4;
    1024, 32 0.8. --skip-rx-copy, where the sender is the bottleneck: 128, 128 0.89; on a Xeon
    0.89, 1024, 32 0.97, with a wake of 512 0.81. One stream, Xeon: 1024, 32 0.93; 128, 128 1.01;
    1024, 128 with a wake of 512 1.21.

    Paced, Xeon, where half of the CPU goes into timers; a receiver that sleeps until much is there
    lets the kernel acknowledge, which makes BBR faster. One stream: 1024, 32 1.9, with a wake of
    512 2.7. Four with batch: 128, 128 1.05; 1024, 128 and a wake of 512 1.21, of 1024 1.41.
    --bidir: 0.95; 1.16; 1.27. Eight: 1.05; 1.25; 1.10. 16: 1.28; 1.00; -. -Z: 128, 1024 1.04,
    with a wake of 256 2.3. --skip-rx-copy: 128, 128 0.98; 1024, 128 2.4, with a wake of 512 3.2.
    An EPYC, of a smaller cache, gave 1.2 for one stream, 1.4 to 1.7 for several without a wake,
    and such a CPU keeps that, but for -Z and --skip-rx-copy where they are paced.
    """
    block = parameters.length
    large = 8 * block if block == DEFAULT_TCP_BLOCK else block
    roomy = cache_size(2) >= _LARGE_CACHE
    if streams > 1:
        batch = not parameters.rate
        if paced and roomy and streams <= 8:
            return CallPlan(large, DEFAULT_TCP_BLOCK, False, batch,
                            min(1024 * 1024, 4096 * 1024 // streams))
        return CallPlan(block, DEFAULT_TCP_BLOCK, False, batch, 1)
    if parameters.zerocopy and not parameters.skip_rx_copy:
        return CallPlan(block, 1024 * 1024, True, True, 256 * 1024 if paced else 1)
    if paced if parameters.skip_rx_copy else roomy:
        return CallPlan(large, DEFAULT_TCP_BLOCK, True, False, 512 * 1024)
    return CallPlan(large, 32 * 1024, True, False, 1)


class Transport:
    """What depends on the protocol of a test, at one end of it.

    A method that says nothing else is both ends'. Those that only some protocols need do nothing
    here, or say what holds for a connection.
    """

    name = None  # in the parameters
    figures = StreamFigures
    receiver_slots = StreamSlots  # and those of what has more
    # The systems of both ends keep account of a stream: its end is known, what is on its way, and
    # that the other end is gone.
    connected = True
    encrypts = False  # by itself
    takes_tls = False  # its test may have a control connection in TLS
    takes_turns = False  # nothing but its address tells whose a new stream is
    queues = True  # what waits to be read is seen in the kernel
    dial_patience = 0.0  # seconds for which a client bears errors that may pass
    shares_workers = False  # a process may serve several streams
    stop_patience = 0.003  # seconds for the workers to see that they are to stop
    failure_patience = 2.0  # seconds after which streams that failed end the test

    def __init__(self, settings, parameters, server):
        self.settings, self.parameters, self.server = settings, parameters, server

    def prepare(self, peer):
        """Do what comes before the streams may, in a task. peer: Client or Conversation."""
        yield from ()

    def close(self):
        """Release what the streams have in common."""

    def facts(self):
        """Return what our own member of the results tells of it, None if nothing."""

    # Sockets

    def open_socket(self, family):
        """Return a new socket for a stream. Raises OSError."""
        raise NotImplementedError

    def set_options(self, sock, moment, warn, **client):
        """Set what the test asks for on a socket, at a moment of SOCKET_OPTIONS.

        warn: as for the function set_options(); client: what only a client knows of them, by name.
        Raises IperfError, OSError.
        """
        set_options(sock, self.name, moment, dict(self._wanted(), **client), warn)

    def _wanted(self):
        settings, parameters = self.settings, self.parameters
        return {
            "no_delay": parameters.no_delay,
            "user_timeout": settings.snd_timeout,
            "mss": parameters.mss,
            "outgoing_streams": settings.nstreams,
            "fragments": True,
            "window": parameters.window,
            "tos": parameters.tos,
            "dont_fragment": parameters.dont_fragment,
            "pacing": parameters.fq_rate,
            "congestion": parameters.congestion,
        }

    def buffer_warnings(self, sizes):
        """Return what is to be said of the sizes of a stream's buffers."""
        return []

    # A client's streams

    def choose_length(self, client, mss):
        """Settle the block size; returns it if that is worth a line. mss: of the path."""

    def segment_facts(self, mss):
        """Return what the start object has of the segment size; mss: what the system says."""
        wanted = self.parameters.mss
        return {"tcp_mss": wanted} if wanted else {"tcp_mss_default": mss}

    def dial(self, client, index):
        """Return the socket of stream `index`, which the server knows, in a task.

        Raises IperfError.
        """
        deadline = time.monotonic() + REPLY_TIMEOUT
        sock = yield from client.control.or_server_error(self._connect(client, index, deadline))
        with on_error(sock.close):
            return (yield from self._introduce(client, sock, index, deadline))

    def _connect(self, client, index, deadline):
        settings, address = self.settings, client.control.address
        local, *others = client.control.own_addresses[address[0]]
        port = settings.cport + index if settings.cport else 0
        label = self.parameters.flowlabel
        if label and address[0] == _AF_INET6:
            place = address[4][:2] + (label,) + address[4][3:]
            address = address[:4] + (place,)

        def prepare(sock):
            self.set_options(sock, "C", lambda text: client.emit("warning", text),
                             addresses=others, flow_label=label and (address[4][0], label),
                             note_buffers=client.note_buffers)
        end = time.monotonic() + self.dial_patience
        while True:
            try:
                return (yield from connect(address, local, settings.bind_dev, deadline, 203,
                                           prepare, port, self.open_socket))
            except IperfError as error:
                # EACCES is a port's that takes a privilege.
                if (error.number != 203 or time.monotonic() >= end
                        or error.errno not in PASSING_ERRORS - {errno.EACCES}):
                    raise
            yield from pause(0.05)

    def _introduce(self, client, sock, index, deadline):
        """Let the server know whose stream this is, in a task; returns the stream's socket."""
        yield from write_all(sock, client.control.cookie, deadline, 203)
        return sock

    def is_astray(self, sock):
        """Return whether a server took a data connection for a control connection."""
        try:
            return is_ready([sock], 0) and sock.recv(1, socket.MSG_PEEK) in map(
                encode_state, (PARAM_EXCHANGE, ACCESS_DENIED, SERVER_ERROR))
        except OSError:
            return False  # the server will say why

    # A server's streams

    def listen(self, conversation):
        """Return the Arrivals of the test's streams. Raises IperfError."""
        raise NotImplementedError

    # While the test runs

    def extra_descriptors(self, index):
        """Return how many descriptors more than its client an iperf3 server has before a stream."""
        return 1 if self.server else 0

    def loop(self, sock, counters, index, file, senders):
        """Return the loop of a stream's worker. file: what it sends or writes, or None.

        senders: the indices of this end's senders, None of a stream that it receives.
        """
        plan = self._plan(sock)
        if senders is None:
            return TcpReceiver(sock, counters, index, self.parameters, plan, file)
        return TcpSender(sock, counters, index, self.parameters, plan, file, senders)

    def _plan(self, sock):
        paced = (congestion_name(sock) or "").startswith("bbr")
        return call_plan(self.parameters, self.parameters.stream_count(), paced)

    def are_ready(self, streams):
        """Return whether the connections of streams are made. Raises IperfError."""
        return True

    def notes(self, streams):
        """Return what the workers had to say of connections that were made all the same."""
        return []

    def start_clock(self, streams):
        """Take note that the test begins now."""

    def sample(self, stream):
        """Read the counts and the kernel's figures of a stream; returns its TcpInfo, or None."""
        stream.figures.take(bytes=stream.slots.bytes)

    def start_measuring(self, stream):
        """Begin to count anew: the omitted part is over."""
        stream.figures.start_measuring()

    def set_limit(self, senders, amount, counts_lost):
        """Let this end's senders stop after so many bytes, in all.

        counts_lost: the client takes what was lost for arrived.
        """
        limit = min(NO_LIMIT, amount + sum(stream.slots.bytes for stream in senders))
        for stream in senders:
            stream.slots.limit = limit

    def arrived(self, streams):
        """Return the bytes that came, or should have, since measuring began."""
        return sum(stream.slots.bytes - stream.figures.begin.bytes for stream in streams)

    def stopped_short(self, amount, elapsed, arrived, quiet):
        """Return whether a server that sends an amount has sent all, though some is missing here.

        elapsed: seconds of the test; arrived: bytes since its start; quiet: seconds without any.
        """
        # iperf3's server counts from an omitted part that ends a little earlier than this end's.
        return bool(self.parameters.omit and arrived >= amount and quiet > 0.5)

    def shows_life(self, stream):
        """Return whether a stream's bytes move only if the other end lives."""
        return True

    def breaks(self, failed, streams):
        """Return whether the test cannot go on without those that failed."""
        return len(failed) == len(streams)

    def was_refused(self, stream):
        """Return whether a sender has failed otherwise than by the end of the connection."""
        return not stream.slots.bytes

    def end_senders(self, streams):
        """Let no more be sent, where nothing tells whether the other end still wants any."""

    def wake(self, streams):
        """Wake the workers that would not see that they are to stop."""

    def is_busy(self, stream):
        """Return whether a worker that was told to stop, and runs on, may still count anything."""
        return True

    def watch(self, stream, seconds):
        """Look at a stream while somebody wants to know what limits it; returns its bytes.

        seconds: since measuring began.
        """
        return stream.slots.bytes

    def finish(self, streams):
        """Take what the system tells at the end of the test."""

    def counts(self, stream, remote):
        """Return jitter, errors, omitted_errors, packets and omitted_packets of a StreamResult.

        remote: the other end's, None if it is not known.
        """
        return 0, 0, 0, 0, 0

    def congestion(self, streams):
        """Return the name of the congestion control that this end uses, None if not known."""

    def own_figures(self, streams):
        """Return what our own member of the end object has of the streams, a dict."""
        return {}


class Tcp(Transport):
    """TCP and MPTCP, with or without TLS: the cookie tells whose a new connection is."""

    name = "TCP"
    takes_tls = True
    shares_workers = True

    def open_socket(self, family):
        return stream_socket(family, self.parameters.mptcp)

    def _introduce(self, client, sock, index, deadline):
        control = client.control
        if control.tls:
            step = "stream %d of %d: " % (index + 1, self.parameters.stream_count())
            sock = yield from control.or_server_error(control.secure(sock, deadline, step))
        with on_error(sock.close):
            return (yield from Transport._introduce(self, client, sock, index, deadline))

    def listen(self, conversation):
        return TcpArrivals(self, conversation)

    def sample(self, stream):
        info = None
        if stream.sender or self.parameters.bidirectional:
            info = tcp_info(stream.sock)
        if info and stream.sender:
            stream.figures.limits.sample(info, send_buffer_use(stream.sock))
        stream.figures.take(info, bytes=stream.slots.bytes)
        return info

    def start_measuring(self, stream):
        Transport.start_measuring(self, stream)
        stream.figures.limits.begin(tcp_info(stream.sock))

    def watch(self, stream, seconds):
        info = tcp_info(stream.sock) if stream.sender else None
        if info is None:
            return stream.slots.bytes
        stream.figures.limits.sample(info, send_buffer_use(stream.sock), seconds)
        # Of several paths (MPTCP) it tells of the first.
        acked = 0 if self.parameters.mptcp else info.bytes_acked
        return max(0, acked) or stream.slots.bytes

    def finish(self, streams):
        for stream in streams:
            stream.figures.limits.finish(tcp_info(stream.sock))

    def congestion(self, streams):
        return congestion_name(streams[0].sock) if streams else None


class Sctp(Transport):
    """SCTP: associations come to a listener of the test's own, and begin with the cookie."""

    name = "SCTP"

    def open_socket(self, family):
        return sctp_socket(family)

    def segment_facts(self, mss):
        return Transport.segment_facts(self, mss) if self.server else {}

    def listen(self, conversation):
        return SctpArrivals(self, conversation)


class OverUdp(Transport):
    """What UDP and QUIC share: each stream has a UDP socket of its own."""

    takes_turns = True
    dial_patience = HELLO_TIMEOUT
    stop_patience = 2 * _CALL_TIMEOUT  # a sender of QUIC waits for acknowledgements

    def open_socket(self, family):
        return datagram_socket(family)

    def is_astray(self, sock):
        return False


class Udp(OverUdp):
    """UDP: a hello from the client announces a stream, and an answer says that it is known."""

    name = "UDP"
    figures = DatagramFigures
    receiver_slots = UdpReceiverSlots
    connected = False
    failure_patience = 0.2

    def _wanted(self):
        parameters = self.parameters
        receives = parameters.bidirectional or parameters.reverse != self.server
        room = None
        if not parameters.window:
            # differs: datagrams that this end has no room for are not the network's loss.
            room = max(UDP_RECEIVE_BUFFER // parameters.stream_count(), parameters.length + 1024,
                       UDP_RECEIVE_BUFFER // 32), parameters.length
        return dict(Transport._wanted(self), stamps=receives, buffers=room)

    def buffer_warnings(self, sizes):
        length = self.parameters.length
        return ["Block size %d > %s socket buffer size %d" % (length, name, size)
                for name, size in zip(("sending", "receiving"), sizes) if length > size]

    def choose_length(self, client, mss):
        parameters = self.parameters
        if mss > MAX_UDP_BLOCK:
            client.emit("warning", "Ignoring nonsense TCP MSS %d" % mss)
        elif parameters.length > mss > 0:
            client.emit("warning", "UDP block size %d exceeds TCP MSS %d, may result in"
                        " fragmentation / drops" % (parameters.length, mss))
        missing = missing_offloads() if parameters.gso else None
        if missing:
            client.emit("warning", "--gsro requested but UDP %s not supported on this client; will"
                        " only be enabled on server if supported" % "/".join(missing))
        parameters.choose_length(mss)
        return None if self.settings.length else parameters.length

    def segment_facts(self, mss):
        return {}

    def _introduce(self, client, sock, index, deadline):
        yield from client.control.or_server_error(self._announce(client, sock, index))
        return sock

    def _announce(self, client, sock, index):
        """Say hello on the socket of stream `index` until the server answers, in a task."""
        parameters, data = self.parameters, HELLO
        # differs: iperf3 says it once, and waits for 30 s.
        interval = max(HELLO_INTERVAL, 4 * round_trip(client.control.sock))
        deadline = time.monotonic() + max(HELLO_TIMEOUT, 8 * interval)
        begin, refusals, trouble = time.monotonic(), 0, None
        while refusals < 5:
            try:
                sock.send(data)
                trouble = None
            except ConnectionError:  # by the host, of what was sent before
                refusals += 1
            except OSError as error:
                trouble = error
                if error.errno not in PASSING_ERRORS:
                    break
            again = time.monotonic() + interval
            while time.monotonic() < again:
                # In slices: the server may have begun the test, with the answer lost.
                wait = min(again, time.monotonic() + 0.02)
                if (yield Wait(sock, READ, wait)) == READY:
                    try:
                        if self._take_answer(sock):
                            return
                    except ConnectionError:
                        refusals += 1
                        yield from pause(max(0.0, again - time.monotonic()))
                    except OSError:
                        continue
                if (yield from client.has_begun(index)):
                    return
            if time.monotonic() > deadline:
                break
            data = repeated_hello(time.monotonic(), parameters.length, parameters.wide_counters)
        if trouble:
            raise IperfError(205, trouble)
        raise IperfError(206, self._no_answer(index, refusals, time.monotonic() - begin))

    def _take_answer(self, sock):
        """Take a datagram; returns whether the server knows the stream. Raises OSError."""
        answer = sock.recv(MAX_UDP_BLOCK, socket.MSG_PEEK)
        if len(answer) == self.parameters.length:
            return True  # data, which stays: the answer was lost
        return sock.recv(MAX_UDP_BLOCK)[:4] in HELLO_REPLIES

    def _no_answer(self, index, refusals, seconds):
        """Return what to say of a server that did not answer the hello of stream `index`."""
        text = "the server did not answer the first datagram of stream %d of %d" % (
            index + 1, self.parameters.stream_count())
        if refusals:
            return text + ": its host says that nothing listens on UDP port %d" % (
                self.settings.port)
        return text + " within %.0f seconds: UDP port %d may be filtered on the way" % (
            seconds, self.settings.port)

    def listen(self, conversation):
        return UdpArrivals(self, conversation)

    def extra_descriptors(self, index):
        return 1 if self.server and not index else 0

    def loop(self, sock, counters, index, file, senders):
        batches = not self.settings.no_sendmmsg
        if senders is not None:
            return UdpSender(sock, counters, index, self.parameters, batches)
        return UdpReceiver(sock, counters, index, self.parameters, batches, self.server)

    def sample(self, stream):
        figures, slots = stream.figures, stream.slots
        if stream.sender:
            count = slots.bytes
            figures.take(bytes=count, packets=count // self.parameters.length)
            return
        counts = slots.counts()
        figures.take(bytes=counts.bytes, packets=counts.packets, lost=counts.lost,
                     out_of_order=counts.out_of_order)
        # Without any since measuring began there is none.
        figures.jitter = counts.jitter if counts.bytes != figures.begin.bytes else 0.0
        drops = dropped_datagrams(stream.sock)
        if drops is not None and slots.joins:  # the kernel counts what it has joined as one
            figures.take(drops=slots.dropped, pieces=slots.dropped_pieces)
        elif drops is not None:
            figures.take(drops=drops)

    def start_measuring(self, stream):
        stream.figures.start_measuring()
        if not stream.sender:
            stream.slots.measuring = 1

    def set_limit(self, senders, amount, counts_lost):
        # To each its share, to the datagram.
        length = self.parameters.length
        datagrams = -(-amount // length)
        if self.server and not counts_lost:
            datagrams *= _MOST_REPEATS  # the client waits until as much has arrived
        for number, stream in enumerate(senders):
            share = datagrams // len(senders) + (number < datagrams % len(senders))
            stream.slots.limit = min(NO_LIMIT, stream.figures.begin.bytes + share * length)

    def arrived(self, streams):
        # What was lost counts: else no amount would ever be through.
        return self.parameters.length * sum(
            stream.slots.packets - stream.figures.begin.packets for stream in streams)

    def stopped_short(self, amount, elapsed, arrived, quiet):
        parameters = self.parameters  # the last datagrams may be lost
        gap = max(1, parameters.burst) * parameters.length * 8.0 / (parameters.rate or 1e9)
        due = amount * 8.0 / (parameters.rate or 1e12) / parameters.parallel
        return arrived > 0 and elapsed > due and quiet > _SILENCE + 2 * gap

    def shows_life(self, stream):
        return not stream.sender

    def breaks(self, failed, streams):
        return bool(failed)  # there is no connection that could break: the system refused to send

    def was_refused(self, stream):
        return True

    def wake(self, streams):
        for stream in streams:
            if not stream.sender:
                stream.loop.wake(socket.SHUT_RD)  # what has come can still be read

    def is_busy(self, stream):
        # A sleeping sender looks at the command first; a client's receivers are not waited for,
        # since their sender goes on.
        return not stream.slots.asleep if stream.sender else self.server

    def end_senders(self, streams):
        for stream in streams:
            if stream.sender:
                stream.slots.command = STOP

    def counts(self, stream, remote):
        now, begin = stream.figures.now, stream.figures.begin
        if stream.sender and self.server and remote:  # iperf3: what its client found
            return (remote.jitter, remote.errors, remote.omitted_errors or 0, now.packets,
                    begin.packets)
        return stream.figures.jitter, now.lost, begin.lost, now.packets, begin.packets


_MOST_REPEATS = 100  # times the amount that a server sends to a client which counts what arrives
_SILENCE = 5.0  # seconds after which what is missing of an amount of datagrams was lost


_OWN_REASON = 0.5  # seconds until a library tells why it ended a connection


class Quic(OverUdp):
    """QUIC: a stream is a connection of its own, over a UDP socket of its own."""

    name = "QUIC"
    figures = QuicStreamFigures
    encrypts = takes_tls = True
    queues = False

    def __init__(self, settings, parameters, server):
        Transport.__init__(self, settings, parameters, server)
        self._end = None  # the QuicEnd

    def prepare(self, peer):
        if self.server:
            credentials = yield from peer.resources.calls.make_once(quic_credentials, 905)
            self._end = self._make_server_end(peer, credentials)
            self._size_datagrams(peer.control)
            return
        self._end = self._make_end(None)
        try:  # the library's slow first steps
            self._end.connection().connect(("127.0.0.1", 9), time.monotonic())
        except Exception as error:
            raise IperfError(905, str(error))

    def _make_end(self, credentials, tuned=True):
        settings, parameters = self.settings, self.parameters
        congestion, window = parameters.congestion, parameters.quic_iw
        if not tuned:
            congestion = window = None
        host = authorities = None
        if not self.server:
            host, authorities = settings.client.partition("%")[0], settings.tls_ca
        return QuicEnd(quic_library(bool(congestion or window)), credentials,
                       parameters.stream_count(), host, authorities, congestion, window,
                       parameters.window, settings.quic_secrets)

    def _make_server_end(self, conversation, credentials):
        try:
            return self._make_end(credentials)
        except IperfError as error:
            if not (self.parameters.congestion or self.parameters.quic_iw):
                raise
            conversation.emit("warning", error.reason())
            return self._make_end(credentials, tuned=False)

    def choose_length(self, client, mss):
        self._size_datagrams(client.control.sock)

    def _size_datagrams(self, sock):
        """Let the path of the control connection, and -M, say how large datagrams may be."""
        self._end.datagram_size = datagram_room(sock)
        if self.parameters.mss:
            self._end.datagram_size = min(self._end.datagram_size or _QUIC_MOST,
                                          self.parameters.mss)

    def close(self):
        if self._end:
            self._end.close()

    def facts(self):
        return self._end.facts()

    def _wanted(self):
        room = max(UDP_RECEIVE_BUFFER // self.parameters.stream_count(), 262144)
        size = self._end.datagram_size if self._end else 0
        return dict(Transport._wanted(self), buffers=(room, size),
                    dont_fragment=True)  # RFC 9000, 14

    def segment_facts(self, mss):
        return {"tcp_mss": self.parameters.mss} if self.server and self.parameters.mss else {}

    def _introduce(self, client, sock, index, deadline):
        # One after the other: the server numbers them as they come.
        sock = self.wrap(sock, client.control.cookie)
        sock.begin()
        try:
            while not sock.is_connected():
                yield Wait(sock, READ, time.monotonic() + 0.01)
                try:
                    yield from client.has_begun(index)
                except IperfError:
                    # The server may have heard first that this end refused; this one knows why.
                    end = time.monotonic() + _OWN_REASON
                    while time.monotonic() < end and not sock.is_connected():
                        yield from pause(0.01)
                    raise
        except OSError as error:
            raise self._failure(index, error)
        return sock

    def wrap(self, sock, cookie, first=None):
        """Return the QuicSocket on a connected UDP socket. first: datagrams that a client sent."""
        return QuicSocket(sock, self._end, sock.getpeername(), cookie, first)

    def _failure(self, index, error):
        """Return the IperfError for a connection that could not be made, of an OSError."""
        text = error.strerror
        if not self.server and error.errno in (errno.ECONNREFUSED, errno.ETIMEDOUT):
            text += (": UDP port %d is closed or filtered, or the server is an iperf3, which has"
                     " no QUIC" % self.settings.port)
        return IperfError(204 if self.server else 203, OSError(
            error.errno or _EPROTO,
            "QUIC stream %d of %d: %s" % (index + 1, self.parameters.stream_count(), text)))

    def listen(self, conversation):
        return QuicArrivals(self, conversation)

    def _plan(self, sock):
        return CallPlan(self.parameters.length, DEFAULT_TCP_BLOCK, False, False, 1)

    def are_ready(self, streams):
        statuses = [stream.slots.status for stream in streams]
        for index, (stream, status) in enumerate(zip(streams, statuses)):
            if status == FAILED or (status == STARTING and stream.worker.ended()):
                note = stream.slots.note()
                raise self._failure(index, OSError(stream.slots.errno, note)
                                    if note and status == FAILED else stream.worker.death())
        return min(statuses) >= PREPARED

    def notes(self, streams):
        notes = [stream.slots.note() for stream in streams]
        return ["the QUIC handshake of stream %d was repeated: %s" % (index, text)
                for index, text in enumerate(notes, 1) if text]

    def start_clock(self, streams):
        for stream in streams:  # the handshakes do not count
            self.sample(stream)
            stream.figures.start_measuring()

    def sample(self, stream):
        slots, info = stream.slots, None
        if stream.sender and slots.lost >= 0:  # retransmits are lost packets
            info = make_tcp_info(total_retrans=slots.lost, snd_cwnd=slots.window, snd_mss=1,
                                 rtt=slots.rtt)
        stream.figures.window = slots.window
        stream.figures.take(info, bytes=slots.bytes, packets=slots.packets)
        return info

    def is_busy(self, stream):
        return stream.sender

    def own_figures(self, streams):
        return {"quic_streams": [self._stream_figures(stream) for stream in streams]}

    def _stream_figures(self, stream):
        figures = stream.figures.packets(stream.figures.measured())
        if stream.slots.datagram:
            figures["datagram_size"] = stream.slots.datagram
        if not self.server:
            for name in ("connect_seconds", "first_byte_seconds"):
                figures[name] = round(getattr(stream.slots, name), 6)
        return figures


def make_transport(settings, parameters, server):
    """Return the Transport of a test's protocol, for one of its ends."""
    kind, = [each for each in (Tcp, Sctp, Udp, Quic) if each.name == parameters.protocol]
    return kind(settings, parameters, server)


###############################################################################
# path mtu ####################################################################
###############################################################################
# How large a packet may be on the way to the server, and on the way back: found with
# datagrams that nobody may fragment. Nothing here prints.

_SMALL_PROBE = 80  # bytes of payload, of which nobody doubts that they pass
_PROBE_GAP = 0.0015  # seconds between two probes: a server answers MAX_PROBE_RATE a second
_PROBE_PATIENCE = 0.25  # seconds, or four round trips, until one without an answer was lost
_OVERTAKING = 0.01  # seconds, or a quarter of a round trip, by which a later answer may be earlier
_GREETING_TIME = 1.0  # seconds without any answer after which there will be none
_SEARCH_TIME = 2.5  # seconds for both ways,
_LONG_SEARCH = 8.0  # and at most so many more where they are long
_ROUND = 12  # sizes that are tried side by side
_ROUND_BYTES = 128 * 1024
_CHANCE = 1e-5  # that a size is taken for too large because of losses
_FRAME_SLACK = 4  # bytes that devices let pass beyond their MTU: room for a VLAN's tag
_BEYOND = 400  # bytes above the MTU, of what is to arrive in fragments


class SizeSearch:
    """Find the largest packet that passes, by which of several sizes arrived and which did not.

    limit: the largest that can be sent, in bytes; passed: the largest that arrived. That one does
    not arrive tells nothing where packets are lost. So a size is too large only after so many
    tries that, by the share of the smaller ones that was lost, one of them should have arrived.
    """

    def __init__(self, limit, guesses=(), width=_ROUND):
        """guesses: sizes to begin with; width: how many are tried side by side."""
        self.limit, self.passed, self._width = limit, 0, width
        self._guesses = set(guesses) | {limit}
        self._arrived = self._lost_below = 0  # of those of no more than `passed`
        self._lost = []  # sizes above

    def add(self, size, arrived):
        """Take in what became of a packet."""
        if not arrived:
            self._lost.append(size)
        else:
            self._arrived += 1
            self.passed = max(self.passed, size)
        self._lost_below += sum(each <= self.passed for each in self._lost)
        self._lost = sorted(each for each in self._lost if each > self.passed)

    def restrict(self, limit):
        """Take in that nothing above `limit` can be sent."""
        if limit < self.limit:
            self.limit = limit
            self._guesses.add(limit)

    def suspect(self, mtu):
        """Take in a hint that packets above `mtu` do not pass, which will be tried."""
        self._guesses.update((mtu, mtu + 1))

    def tries(self):
        """Return how often a size has to be tried before it is too large."""
        import math
        share = (self._lost_below + 0.5) / (self._lost_below + self._arrived + 1)
        return max(3, min(20, math.ceil(math.log(_CHANCE) / math.log(share))))

    def is_over(self):
        return self.passed >= self.limit or (
            self._lost.count(self.passed + 1) >= self.tries())

    def choose(self):
        """Return the sizes to try next, side by side; some several times."""
        first, tries = self.passed + 1, self.tries()
        guesses = sorted(each for each in self._guesses if first <= each <= self.limit)
        self._guesses.clear()
        if guesses:
            return [each for each in guesses
                    for _ in range(tries if each - 1 in guesses else 2)]
        # Where packets are lost, one that is may well have been small enough. Tried on paper: with
        # 36 % lost 6 to 8 rounds, rather than 8 to 16 with the first one.
        doubts = 3 if self._lost_below else 1
        top = self._lost[doubts - 1] if len(self._lost) >= doubts else self.limit + 1
        room = top - first
        if not room:
            return [first] * (tries - self._lost.count(first))
        if room > self._width:
            return [first - 1 + room * each // (self._width + 1)
                    for each in range(1, self._width + 1)]
        sizes = list(range(first, min(top, self.limit) + 1))
        return sizes * max(1, min(tries, 2 * self._width // len(sizes)))


class SentPacket:
    """A packet on its way. passed: whether it arrived, None as long as that is not known."""

    def __init__(self, size, small, kind, payload):
        self.size, self.small, self.kind, self.payload = size, small, kind, payload
        self.sent, self.answered, self.passed = time.monotonic(), None, None


class PacketSocket:
    """A UDP socket to the server whose datagrams nobody may fragment.

    headers: bytes of a packet that are none of a datagram's payload; limit: the largest packet
    that this host can send; routers: who said that packets were too large, by the MTU behind them.
    """

    def __init__(self, sock, limit):
        self.sock, self.limit = sock, limit
        self.headers = 8 + (40 if sock.family == _AF_INET6 else 20)
        self.routers = {}
        self.errors = collections.deque()  # QueuedErrors that nobody has looked at

    def send(self, data):
        """Send a datagram. Returns whether it went; not if it is too large for this host."""
        for _ in range(4):
            self.look()
            try:
                self.sock.send(data)
                return True
            except OSError as error:
                too_large = error.errno in (errno.EMSGSIZE, getattr(errno, "WSAEMSGSIZE", -1))
                # Else it is what became of an earlier one.
                if too_large and (self.look() or not _LINUX):
                    self.limit = min(self.limit, len(data) + self.headers - 1)
                    return False
        return False

    def look(self):
        """Take in what the system knows of what was sent; returns whether this host refused it."""
        refused = False
        for error in queued_errors(self.sock):
            refused = refused or error.cause == TOO_LARGE_HERE
            if error.cause == TOO_LARGE_HERE and error.mtu:
                self.limit = min(self.limit, error.mtu)
            elif error.cause == TOO_LARGE:
                self.routers[error.mtu] = error.host
            self.errors.append(error)
        return refused

    def receive(self):
        """Return a datagram that came, None if there is none."""
        for _ in range(4):
            try:
                return self.sock.recv(MAX_PACKET)
            except BlockingIOError:
                return None
            except OSError:  # what became of one that was sent
                self.look()
        return None


class SizeProber:
    """Send packets of all sizes to a server that answers probes, or let it send them.

    rtt: seconds of the shortest round trip; answered: there was one; far_limit: the largest packet
    that the server's host can send, None if that is not known; routers: as of a PacketSocket, of
    the way back.
    """

    def __init__(self, packets, token, rtt):
        """packets: a PacketSocket; token: in bytes; rtt: TCP's."""
        self.packets, self.routers, self.far_limit = packets, {}, None
        self._token = token
        self._number = struct.unpack("=I", os.urandom(4))[0] >> 1
        self._pending = {}  # by their numbers
        self._credit = 0  # bytes at least that the server may send beyond what it gets
        self.rtt, self.answered = rtt, False
        self.small = _SMALL_PROBE + packets.headers
        self.most = self.small  # the largest packet to the server that arrives

    def _send(self, kind, size):
        """Send a probe about a packet of this size; returns it, None if this host cannot."""
        payload = length = size - self.packets.headers
        if kind != ACK:
            length = min(payload, self.most - self.packets.headers)
            self._credit -= payload - length
        self._number = self._number + 1 & 0xffffffff
        packet = SentPacket(size, size == self.small, kind, payload)
        self._pending[self._number] = packet
        data = encode_probe(self._token, kind, 0, self._number, payload)
        if self.packets.send(data.ljust(length, b"\0")):
            return packet
        del self._pending[self._number]
        return None

    def _listen(self, deadline):
        """Take in the answers that come, in a task, until the deadline."""
        while time.monotonic() < deadline:  # whatever comes without an end
            self._take()
            if (yield Wait(self.packets.sock, READ, deadline)) == TIMED_OUT:
                break
        self._take()

    def _take(self):
        """Take in the answers that came, and what routers say."""
        for _ in range(_TURN):
            data = self.packets.receive()
            if data is None:
                break
            reply = decode_reply(data)
            packet = self._pending.get(reply.sequence) if reply else None
            if packet is None or reply.kind != packet.kind or packet.payload != (
                    reply.size if packet.kind == ACK else len(data)):
                continue
            del self._pending[reply.sequence]
            packet.passed, packet.answered = True, time.monotonic()
            rtt = packet.answered - packet.sent
            self.rtt = min(self.rtt, rtt) if self.answered else rtt
            self.answered = True
            if packet.kind == ACK:
                self._credit = min(_CREDIT // 2, self._credit + packet.payload - MIN_PROBE)
            self._take_hint(reply, data)
        self.packets.look()
        for error in self.packets.errors:
            probe = decode_probe(error.data.ljust(MIN_PROBE, b"\0"), self._token)
            packet = self._pending.get(probe.sequence) if probe else None
            if error.cause == TOO_LARGE and packet and packet.kind == ACK:
                packet.passed = False  # if it does arrive, that counts
        self.packets.errors.clear()

    def _take_hint(self, reply, data):
        """Take in what the server knows of its replies that were too large."""
        if reply.refusal == REFUSED_HERE and reply.next_mtu:
            self.far_limit = min(self.far_limit or MAX_PACKET, reply.next_mtu)
        elif reply.refusal == REFUSED_ON_THE_WAY:
            host = None
            if reply.router:
                host = socket.inet_ntoa(struct.pack("!I", reply.router))
            elif len(data) >= _REPLY.size + 16 and any(data[_REPLY.size:_REPLY.size + 16]):
                host = socket.inet_ntop(_AF_INET6, data[_REPLY.size:_REPLY.size + 16])
            self.routers[reply.next_mtu] = host

    def ask(self, kind, sizes):
        """Try packets of these sizes, and small ones beside them, in a task.

        Returns [(size, whether it arrived)], without what is not known.
        """
        order = []
        for number, size in enumerate(sizes):
            order += [size] if number % 3 else [self.small, size]
        batch = []
        for size in order + [self.small] * 3:
            packet = self._send(kind, size)
            if packet:
                batch.append(packet)
                yield from self._listen(time.monotonic() + _PROBE_GAP)
        if batch:
            yield from self._await(batch, kind)
        return [(each.size, each.passed) for each in batch if each.passed is not None]

    def _await(self, batch, kind):
        """Wait in a task until it is known of each packet whether it arrived."""
        rtt = self.rtt
        hurries = not all(each.small for each in batch)
        again = time.monotonic() + 1.5 * rtt + 2 * _OVERTAKING
        end = time.monotonic() + max(_PROBE_PATIENCE, 4 * rtt)
        while True:
            self._take()
            now = time.monotonic()
            if self.answered and now >= again and not batch[-1].passed:  # or it could tell
                again = now + 2 * _OVERTAKING
                batch += filter(None, [self._send(kind, self.small)])
            due = min(end, again) if self.answered and not batch[-1].passed else end
            passed_at = None  # when the answer to one that was sent later came
            for packet in reversed(batch):
                if packet.passed:
                    passed_at = min(passed_at or now, packet.answered)
                elif packet.passed is None and passed_at is not None:
                    lost_at = passed_at + max(_OVERTAKING, rtt / 4)
                    due = min(due, lost_at)
                    packet.passed = False if now >= lost_at else None
            unknown = [each for each in batch if each.passed is None]
            if now >= end or all(each.small and hurries for each in unknown):
                break
            if due > now:
                yield Wait(self.packets.sock, READ, due)
        if any(each.passed for each in batch) and now >= end:
            for packet in unknown:
                packet.passed = False

    def greet(self):
        """Wait in a task for a first answer; returns as ask() does."""
        outcome, deadline = [], time.monotonic() + max(_GREETING_TIME, 3 * self.rtt)
        while not self.answered and time.monotonic() < deadline:
            outcome += yield from self.ask(ACK, [self.small] * 2)
        return outcome

    def raise_credit(self, sizes):
        """Send the server what it needs to send packets of these sizes, in a task."""
        spare = self.most - self.packets.headers - MIN_PROBE
        for _ in range(4):
            missing = sum(max(0, size - self.most) for size in sizes) - self._credit
            if missing <= 0:
                break
            yield from self.ask(ACK, [self.most] * min(40, missing // max(1, spare) + 2))


class Way:
    """What is known of one way of the path, as end.pyperf3.mtu has it."""

    def __init__(self, search, routers, device_mtu=None):
        """search: a SizeSearch, to its end or not; device_mtu: at the far end of the way."""
        self.mtu, self.search = search.passed, search
        if device_mtu and device_mtu < self.mtu <= device_mtu + _FRAME_SLACK:
            self.mtu = device_mtu
        self.router = routers.get(self.mtu) or routers.get(0)
        self.fragments = None

    def to_json(self):
        members = collections.OrderedDict()
        if not self.search.is_over():
            members.update(mtu=None, at_least=self.mtu, reason="the search took too long")
            return members
        members["mtu"] = self.mtu
        whole = self.search.passed >= self.search.limit
        members["method"] = "interface" if whole else "icmp" if self.router else "probe"
        if members["method"] == "icmp":
            members["router"] = self.router
        members["black_hole"] = members["method"] == "probe"
        if self.fragments is not None:
            members["fragments"] = self.fragments
        return members


class PathMtu:
    """Find the MTU of a client's path, both ways, before its test has streams."""

    def __init__(self, control, test):
        self._control, self._test, self._settings = control, test, control.settings
        told = dict(test.remote_host or {}, **control.probes or {})
        self._remote = {name: value for name, value in told.items()
                        if name == "system" or (isinstance(value, int) and value > 0)}
        self._device_mtu = None  # of this host's device
        self._until = 0.0

    def run(self):
        """Find it, in a task; returns what end.pyperf3.mtu is."""
        control, found, sock = self._control, collections.OrderedDict(), None
        self._until = time.monotonic() + _SEARCH_TIME
        self._device_mtu = device_mtu(
            self._settings.bind_dev or route_device(control.address[4])) or path_mtu(control.sock)
        try:
            sock = yield from self._open()
            packets = PacketSocket(sock, min(MAX_PACKET, self._device_mtu or MAX_PACKET))
            if not keep_whole(sock):
                found["reason"] = "this system cannot forbid fragments"
            elif control.probes and control.probes["udp"]:
                yield from self._by_probes(found, packets)
            else:
                yield from self._by_system(found, packets)
        except (IperfError, OSError) as error:
            found["reason"] = error_text(as_failure(error))
        finally:
            if sock is not None:
                sock.close()
        self._add_segments(found)
        mtus = [found.get(way, {}).get("mtu") for way in ("up", "down")]
        if all(mtus):
            found["jumbo"] = min(mtus) > 1500
        return found

    def _open(self):
        """Return a UDP socket to the server, in a task. Raises IperfError."""
        address = self._control.address
        place = plain_address(address[4])
        if place[0] != address[4][0] and not self._settings.bind:  # of IPv4, mapped
            address = (socket.AF_INET,) + address[1:4] + (place,)
        return (yield from self._control.dial_again(
            lambda sock: set_tos(sock, self._settings.tos), datagram_socket, address))

    # A server that answers probes

    def _by_probes(self, found, packets):
        prober = SizeProber(packets, self._control.probes["token"], round_trip(self._control.sock))
        greeting = yield from prober.greet()
        self._until += min(_LONG_SEARCH, 14 * prober.rtt)
        if not prober.answered:
            found["reason"] = "no probe was answered: UDP may be filtered on the way"
            return
        guesses, info = {1280, 1500}, tcp_info(self._control.sock)
        if info and info.snd_mss > 0:  # whoever clamps it knows why
            guesses.add(info.snd_mss + self._segment_headers(info))
        up = yield from self._search(prober, ACK, packets.limit, guesses, greeting)
        prober.most = max(prober.most, up.passed)
        up = Way(up, packets.routers, self._remote.get("mtu"))
        found["up"] = up.to_json()
        down = None
        if self._remote.get("system", "linux") != "linux":
            found["down"] = {"mtu": None, "reason": "the server's system cannot forbid fragments"}
        else:
            down = yield from self._search(
                prober, PULL, prober.far_limit or self._remote.get("mtu") or MAX_PACKET,
                {1280, 1500, up.mtu, up.mtu + 1}, greeting)
            down = Way(down, prober.routers, self._device_mtu)
        yield from self._try_fragments(prober, up, down)
        found["up"] = up.to_json()
        if down:
            found["down"] = down.to_json()

    def _search(self, prober, kind, limit, guesses, greeting):
        """Find the largest packet of one way, in a task; returns the SizeSearch."""
        width = _ROUND * (2 if prober.rtt > 0.1 else 1)  # for less rounds
        search = SizeSearch(min(MAX_PACKET, limit), guesses, width)
        for size, arrived in greeting:
            search.add(size, arrived)
        told = set()
        while not search.is_over() and time.monotonic() < self._until:
            sizes = search.choose()
            if kind == PULL:
                while sum(sizes) > _ROUND_BYTES and len(sizes) > 2:
                    sizes = sizes[::2]
                yield from prober.raise_credit(sizes)
            for size, arrived in (yield from prober.ask(kind, sizes)):
                search.add(size, arrived)
            routers = prober.routers if kind == PULL else prober.packets.routers
            search.restrict((prober.far_limit if kind == PULL else prober.packets.limit) or limit)
            for mtu in set(routers) - told:
                search.suspect(mtu)
            told.update(routers)
        return search

    def _try_fragments(self, prober, up, down):
        """See whether larger packets arrive in fragments, in a task."""
        sock = prober.packets.sock
        sizes = [min(MAX_PACKET, way.mtu + _BEYOND) if way else 0 for way in (up, down)]
        for way, size, kind in ((up, sizes[0], ACK), (down, sizes[1], LOOSE)):
            if way is None or size <= way.search.passed or not way.search.is_over():
                continue
            if kind == ACK and not let_fragment(sock):
                continue
            sizes_asked = [size] * min(12, 2 * way.search.tries())  # two may be lost of each
            if kind == LOOSE:
                yield from prober.raise_credit(sizes_asked)
            outcome = yield from prober.ask(kind, sizes_asked)
            told = [arrived for each, arrived in outcome if each == size]
            way.fragments = any(told) if told else None
            keep_whole(sock)

    # Any other server: the system answers what comes to a port where nobody listens

    def _by_system(self, found, packets):
        """Find what the server's system tells, in a task: it answers to a dozen datagrams or so.

        ICMP says that a datagram arrived where nobody listens, or was too large for a router.
        """
        who = "a pyperf3 without probes" if self._test.tells else "an iperf3"
        found["down"] = {"mtu": None, "reason": "the server is %s, and tells nothing of it" % who}
        if self._test.transport.takes_turns:  # a datagram would be taken for a stream's first
            found["up"] = {"mtu": None, "reason": "the server's UDP port is the test's own"}
            return
        asker = SystemProber(packets, max(_PROBE_PATIENCE, 4 * round_trip(self._control.sock)))
        passed = yield from asker.ask(packets.limit, 3)
        told = [mtu for mtu in packets.routers if asker.small < mtu < packets.limit]
        for size in [min(told)] if told else (1280, 1400) if passed is False else ():
            if size >= packets.limit or not (yield from asker.ask(size)):
                break
        found["up"] = self._by_answers(asker, packets)

    @staticmethod
    def _by_answers(asker, packets):
        """Return what is known of the way up."""
        mtu = asker.passed
        if mtu >= packets.limit:
            return {"mtu": mtu, "method": "interface", "black_hole": False}
        if mtu in packets.routers:
            return {"mtu": mtu, "method": "icmp", "router": packets.routers[mtu],
                    "black_hole": False}
        if not mtu or not asker.vanished:
            return {"mtu": None, "reason": "the server's system does not answer"}
        return {"mtu": None, "at_least": mtu, "black_hole": not packets.routers,
                "reason": "packets of %d vanish" % asker.vanished}

    # What TCP takes the path for

    def _segment_headers(self, info):
        """Return how many bytes a packet has beyond a full segment."""
        wide = plain_address(self._control.sock.getpeername())[0].count(":") > 0
        return (60 if wide else 40) + (12 if info.options & TIMESTAMPS else 0)

    def _add_segments(self, found):
        """Add what the control connection's segments tell."""
        info, remote = tcp_info(self._control.sock), self._remote
        if info is None or info.snd_mss <= 0:
            return
        headers, theirs = self._segment_headers(info), remote.get("mtu")
        found["mss"], found["mss_mtu"] = info.snd_mss, info.snd_mss + headers
        if not self._device_mtu or not theirs:
            return
        found["mss_expected"] = min(self._device_mtu, theirs) - headers
        # What each end announced, and may be told to go beyond: who of them gets to know less was
        # told so on the way. Linux bounds a segment by half of the window, too.
        pairs = ((info.snd_mss, remote.get("advmss"), info.pmtu, info.snd_wnd),
                 (remote.get("snd_mss"), info.advmss, remote.get("pmtu"), remote.get("snd_wnd")))
        known = [(mss, min(announced, pmtu - headers)) for mss, announced, pmtu, window in pairs
                 if all(each and each > 0 for each in (mss, announced, pmtu, window))
                 and window // 2 >= min(announced, pmtu - headers)]
        if any(mss < least for mss, least in known):
            found["clamped"] = True
        elif len(known) == 2:
            found["clamped"] = False


class SystemProber:
    """Send packets to a port of the server where nobody listens, whose system says so.

    passed: the largest that arrived, 0 if none did; vanished: the smallest of which three did not,
    though small ones did, or 0.
    """

    def __init__(self, packets, patience):
        """patience: seconds for an answer."""
        self.packets, self._patience = packets, patience
        self.small = MIN_PROBE + packets.headers
        self.passed = self.vanished = self._number = 0

    def ask(self, size, tries=1):
        """Try a packet, in a task; returns whether it arrived, None if nobody can tell.

        So often, if it did not: two datagrams each time.
        """
        silent = 0
        for _ in range(tries):
            size = min(size, self.packets.limit)
            causes = yield from self._ask(size)
            silent += causes == [None, NO_PORT]
            if causes[0] is not None:
                break
        if causes[0] == NO_PORT:
            self.passed = max(self.passed, size)
        elif silent == 3:
            self.vanished = size
        return None if causes == [None, None] else causes[0] == NO_PORT

    def _ask(self, size):
        """Send a packet, and a small one at once; returns the causes of the errors of each.

        Systems answer so a few times a second only. The first one has precedence: where the small
        one is answered, there would have been an answer to it, too.
        """
        causes, numbers = [None, None], {}
        for at, length in enumerate((size, self.small)):
            self._number += 1
            data = struct.pack("!I", self._number).ljust(length - self.packets.headers, b"\0")
            if self.packets.send(data):
                numbers[data[:4]] = at
        deadline = time.monotonic() + self._patience
        while causes[0] is None and time.monotonic() < deadline:
            for _ in range(_TURN):  # nobody was to answer; unread it would look like an error
                if self.packets.receive() is None:
                    break
            self.packets.look()
            for error in self.packets.errors:
                if error.data[:4] in numbers and error.cause in (NO_PORT, TOO_LARGE):
                    causes[numbers.pop(error.data[:4])] = error.cause
                    deadline = min(deadline, time.monotonic() + self._patience / 4)
            self.packets.errors.clear()
            if not numbers or (yield Wait(self.packets.sock, READ, deadline)) == TIMED_OUT:
                break
        return causes


def _way_text(way):
    """Return what is said of one way."""
    if not way or way.get("mtu") is None:
        least = "at least %d" % way["at_least"] if way and way.get("at_least") else "unknown"
        return "%s (%s)" % (least, way["reason"]) if way and way.get("reason") else least
    text = "%d" % way["mtu"]
    if way.get("router"):
        text += " (limited by %s, which says so)" % way["router"]
    elif way.get("black_hole"):
        text += ": larger packets vanish silently (ICMP filtered)"
    return text


def _fragments_text(mtu):
    """Return a list of what is said of fragments."""
    told = {way: mtu.get(way, {}).get("fragments") for way in ("up", "down")}
    passing = [way for way in ("up", "down") if told[way]]
    stopped = [way for way in ("up", "down") if told[way] is False]
    if not passing:
        return ["Fragments do not pass %s." % " or ".join(stopped)] if stopped else []
    text = "Fragments pass " + " and ".join(passing)
    return [text + (", not %s." % stopped[0] if stopped else ".")]


def _segment_text(mtu):
    """Return a list of what is said of TCP's segments."""
    if not mtu.get("mss"):
        return []
    text, need = "TCP MSS %d" % mtu["mss"], mtu["mss_mtu"]
    if mtu.get("clamped"):
        text += " (lowered on the way)"
    ways = [mtu[way] for way in ("up", "down") if mtu.get(way, {}).get("mtu")]
    if not ways:
        return [text + "."]
    least = min(ways, key=lambda way: way["mtu"])
    if need <= least["mtu"]:
        return ["%s: fits %d." % (text, least["mtu"])]
    text += " needs %d" % need
    if least["black_hole"]:
        # -M counts the 12 bytes of timestamps as the segment's.
        headers = 60 if need - mtu["mss"] >= 60 else 40
        return ["%s: full segments vanish; -M %d would fit." % (text, least["mtu"] - headers)]
    return [text + ", until TCP learns of the path."]


def mtu_lines(mtu):
    """Return the lines of text of end.pyperf3.mtu."""
    if "up" not in mtu and "down" not in mtu:
        texts = ["Path MTU: unknown: %s." % mtu.get("reason", "nothing tells")]
    else:
        up, down = _way_text(mtu.get("up")), _way_text(mtu.get("down"))
        texts = ["Path MTU: %s." % (
            "both ways " + up if up == down else "up %s, down %s" % (up, down))]
    more = _fragments_text(mtu) + _segment_text(mtu)
    return texts + (["  " + " ".join(more)] if more else [])


###############################################################################
# running #####################################################################
###############################################################################
# What a running test is asked: what is due, whether it is through, whether it is
# well, what limits it. Nothing here prints.

class Ticks:
    """When the reports of a test are due.

    Times of a test count from `origin`: the start, or the end of the omitted part.
    """

    def __init__(self, interval, omit):
        """interval: of -i, 0 for no reports; omit: of -O."""
        self._interval, self._omit = interval, omit
        self.omitting = omit > 0
        self.origin = self.begin = 0.0  # begin: of the present interval
        self._number = 1  # of the next report

    def start(self, now):
        """Let the time be 0 now."""
        self.origin, self.begin, self._number = now, 0.0, 1

    def deadlines(self):
        """Return when there is something to do."""
        due = [self.origin + self._number * self._interval] if self._interval else []
        return due + ([self.origin + self._omit] if self.omitting else [])

    def omitted_is_over(self, now):
        return self.omitting and now >= self.origin + self._omit

    def is_due(self, now, duration):
        """Return whether a report is. duration: the time that ends the test, 0 if none does."""
        due = self._number * self._interval
        if not self._interval or (self.omitting and due >= self._omit):
            return False
        if not self.omitting and duration and due > duration - 1e-9:
            return False  # the last report comes with the summary
        return now >= self.origin + due

    def skip_to(self, now):
        """Wait for the next report from now on."""
        while self._number * self._interval <= now - self.origin:
            self._number += 1


class Amount:
    """What a test is to move: bytes (-n), blocks (-k), or a file (-F); `bytes` is 0 without."""

    def __init__(self, test):
        self._test = test
        self._transport, self._parameters = test.transport, test.parameters
        self.is_file = False  # it is the size of the file, which each stream sends
        self.file = None  # what is sent, open

    @property
    def bytes(self):
        return self._parameters.bytes or self._parameters.blocks * self._parameters.length

    def open_file(self, deadline):
        """Open what this end sends (-F), in a task; a pipe is waited for until there is a writer.

        Raises IperfError 14.
        """
        test = self._test
        path = test.settings.file
        if path is None or not any(map(test.sends, range(len(test.ids)))):
            return
        self.file = open_payload(path)
        if is_pipe(self.file) and hasattr(select, "poll") and (
                yield Wait(self.file, READ, deadline)) == TIMED_OUT:
            raise IperfError(14, OSError(errno.ETIMEDOUT,
                                         "%s is a pipe that nobody writes to" % path))

    def payload(self, sender):
        """Return the file (-F) for one stream: to send, opened for it, or the path to write to."""
        path = self._test.settings.file
        if not sender:
            # differs: with --bidir iperf3 would write over the file that it sends.
            return None if self._parameters.bidirectional else path
        if self.file is None or file_size(self.file) is not None:
            return self.file and open_payload(path)
        return os.fdopen(os.dup(self.file.fileno()), "rb", 0)  # streams share a pipe

    def close(self):
        if self.file:
            self.file.close()

    def limit_senders(self):
        """Let this end's senders stop at the amount."""
        # The omitted part of a client ends later than that of its server, which therefore cannot
        # know when the amount is through: it sends until it is told.
        server, parameters = self._test.server, self._parameters
        unknown = server and parameters.omit and self._transport.connected
        if self.bytes and not unknown:
            files = parameters.parallel if self.is_file else 1
            self._transport.set_limit(self._test.senders(), self.bytes * files,
                                      parameters.counts_lost)

    def next_look(self, now):
        """Return when to look again whether it is through."""
        test = self._test
        done = max(test.measured(test.senders()), test.measured(test.receivers()))
        if done <= 0:
            return now + 0.002
        left = (self.bytes - done) * (now - test.ticks.origin) / done
        return now + min(0.05, max(0.0005, left / 2))

    def all_complete(self):
        """Return whether this end's senders have sent all."""
        senders = self._test.senders()
        return bool(senders) and all(stream.slots.status == COMPLETE for stream in senders)

    def all_closed(self):
        """Return whether all that this end receives, by TCP or QUIC, has come to its end."""
        receivers = self._test.receivers()
        return bool(receivers) and all(stream.slots.status == CLOSED for stream in receivers)

    def has_arrived(self):
        return self._transport.arrived(self._test.receivers()) >= self.bytes

    def is_through(self):
        """Return whether it is, in one of the directions."""
        if not self.bytes:
            return False
        statuses = [stream.slots.status for stream in self._test.senders()]
        if statuses and min(statuses) >= COMPLETE and COMPLETE in statuses:  # else all are broken
            return True
        return bool(self._test.receivers()) and self.has_arrived()

    def ended_early(self, now):
        """Return whether the end of a file (-F) ended the test, whatever else was to end it."""
        test = self._test
        if not test.server:
            # differs: a client of iperf3's server that has come to the end of its file idles on.
            return bool(test.settings.file and self.all_complete()
                        or self._parameters.reverse and self.all_closed())
        limit = self._parameters.time
        return self._transport.connected and (
            not limit or now - test.ticks.origin < limit - 0.25)

    def stopped_short(self, now):
        """Return whether a sending server thinks that the amount is through."""
        # iperf3's servers stop by themselves: here some of the amount may be missing for ever.
        if self._test.server or not self._parameters.reverse or not self.bytes:
            return False
        quiet_since, count = self._test.health.progress
        return self._transport.stopped_short(self.bytes, now - self._test.ticks.origin, count,
                                             now - quiet_since)

    def end_time(self):
        """Return when the amount, or the file, was through, 0 if it was not."""
        if self._parameters.bidirectional or not (
                self.all_complete() or self.all_closed() or self.bytes and self.has_arrived()
                or self.stopped_short(time.monotonic())):
            return 0
        return max([self._test.ticks.origin]
                   + [stream.slots.finished for stream in self._test.streams])

    def let_arrive(self):
        """Wait, in a task, for what was sent of it and this end has not read yet."""
        length, test = self._parameters.length, self._test
        # Whole blocks are sent; the length of a pipe is not known.
        due = -(-self.bytes // length) * length or 2 ** 63
        receivers = test.receivers()
        last, reached = -1, None
        end = time.monotonic() + (FILE_TIMEOUT if self.bytes else CLOSING_TIMEOUT)
        while receivers and not test.ticks.omitting and not self.all_closed():
            waiting = any(unread(stream.sock) for stream in receivers)
            count, now = test.measured(receivers), time.monotonic()
            if count != last:
                last, changed, stirred = count, now, now
            if waiting:
                stirred = now
            if count >= due:
                # Several streams count together, and may have sent a few blocks more; iperf3 3.9
                # sends ten at a time.
                reached = reached or now
                exact = count == due and len(receivers) == 1 and not waiting
                if exact or now - stirred > 0.01 or now - reached > 1.0:
                    return
            # A worker that has to wait for a CPU takes its time.
            elif now - changed > 2.0 or (now - stirred > 0.1 and self._transport.queues):
                return
            if now > end:  # the other end goes on, whatever it said
                return
            yield from pause(0.001)


class Health:
    """Whether a running test's data still come, and its workers live."""

    def __init__(self, test):
        self._test = test
        timeout = test.settings.rcv_timeout
        self.patience = DATA_TIMEOUT if timeout is None else timeout / 1000.0  # without data
        self.progress = self._sign_of_life = (0.0, -1)  # when, and the bytes that had moved by then
        self._broken_since = None

    def start(self, now):
        self.progress = self._sign_of_life = (now, -1)

    def next_look(self, now):
        return now + min(self.patience, 0.25 if self._broken_since else 1.0)

    def check(self, now):
        """Raise IperfError if data stopped coming, a worker died, or every stream broke.

        A broken stream alone is no error: the control connection may know better why.
        """
        test = self._test
        watched = test.receivers()
        if test.server and not test.parameters.time:
            watched = test.streams  # no watchdog ends a client that never reads
        if watched:
            count = sum(stream.slots.bytes for stream in watched)
            if count != self.progress[1]:
                self.progress = (now, count)
            elif now - self.progress[0] > self.patience:
                raise IperfError(144)
        moved = sum(stream.slots.bytes for stream in self.signs_of_life())
        if moved != self._sign_of_life[1]:
            self._sign_of_life = (now, moved)
        for stream in test.streams:
            if stream.slots.status == SPOILED:
                raise self.file_error(stream)
            if stream.has_died():
                raise IperfError(205 if stream.sender else 206, self._death(stream.worker))
        failed = [stream for stream in test.streams if stream.slots.status == FAILED]
        if not test.transport.breaks(failed, test.streams):
            self._broken_since = None
        elif self._broken_since is None:
            self._broken_since = now
        elif now - self._broken_since > test.transport.failure_patience:
            raise IperfError(205 if failed[0].sender else 206, self._worker_error(failed[0]))

    def check_beginnings(self, seconds):
        """Raise IperfError if the system refused to send on a stream, or no worker ever ran.

        seconds: the length of the test, which is over.
        """
        test = self._test
        for stream in test.senders():
            if stream.slots.status == FAILED and test.transport.was_refused(stream):
                raise IperfError(205, self._worker_error(stream))
        # A short test may be over before its workers have had a CPU.
        if seconds > 1.0 and all(stream.slots.status == STARTING for stream in test.streams):
            raise IperfError(200, OSError(errno.ETIMEDOUT, "no stream's worker began in time"))

    def signs_of_life(self):
        """Return the streams whose bytes move only if the other end lives."""
        return [stream for stream in self._test.streams
                if self._test.transport.shows_life(stream)]

    def silence(self, now):
        """Return for how many seconds longer than a live client may this one has been silent.

        Negative while it may; only a server asks, of a running test.
        """
        parameters, ticks, quiet = self._test.parameters, self._test.ticks, 0.0
        if self.signs_of_life():
            gap = 0.0  # between two blocks of a slow -b
            if parameters.rate:
                gap = 8.0 * parameters.length * max(1, parameters.burst) / parameters.rate
            quiet = now - self._sign_of_life[0] - 2 * gap
        if parameters.time:
            length = parameters.time + (parameters.omit if ticks.omitting else 0)
            quiet = max(quiet, now - ticks.origin - length)
        return quiet

    def explain(self, error):
        """Return the error, or what is behind it: a file (-F) that stands still."""
        if getattr(error, "number", 0) == 144 and self._test.settings.file:
            return next(map(self.file_error, filter(self.is_stuck, self._test.streams)), error)
        return error

    def is_stuck(self, stream):
        """Return whether a worker has failed at its file (-F), or waits for it."""
        slots = stream.slots
        return slots.status == SPOILED or (
            slots.status in (RUNNING, STOPPED) and slots.errno == errno.ETIMEDOUT)

    def file_error(self, stream):
        """Return the IperfError for a worker that failed at its file."""
        text = system_error(stream.slots.errno).strerror
        if stream.slots.errno == errno.ETIMEDOUT:
            text = "%s does not take what is written to it" % self._test.settings.file
        return IperfError(14, OSError(stream.slots.errno, text))

    def _death(self, worker):
        carried = [stream.figures.socket for stream in self._test.streams
                   if stream.worker is worker]
        return worker.death("[%d] to [%d]" % (carried[0], carried[-1]) if carried[1:] else "")

    def _worker_error(self, stream):
        note = stream.slots.note()
        return OSError(stream.slots.errno, note) if note else system_error(stream.slots.errno)


_LOOK_INTERVAL = 0.1  # seconds between samples of what limits a test
_ACCOUNT_INTERVAL = 1.0  # and between looks at the CPU time of its workers


class Watch:
    """What limits a test, looked at while it runs: its connections, its workers, this host.

    Only the control plane looks, and only if somebody asked: the workers do as always.
    """

    def __init__(self, test):
        self._test = test
        self._next = self._next_account = 0.0
        self._begin = 0.0  # when measuring began
        self._device = None
        self._counters = {}
        self._progress = {}  # by the suffix of the direction
        self._times = {}  # of each worker, when measuring began
        self._accounts = {}  # of each worker: its last times, and when they were taken
        self._host, self._limits = {}, {}  # what the end brought; of the streams by their ids

    def begin(self, now):
        """Begin anew: measuring begins."""
        test, self._begin = self._test, now
        with suppress(OSError):
            self._device = test.settings.bind_dev or route_device(
                test.streams[0].sock.getpeername())
        self._counters = host_counters(self._device)
        self._progress = {suffix: Progress() for suffix, _ in test.directions(test.streams)}
        self._times = {worker: worker.times()
                       for worker in {stream.worker for stream in test.streams}}
        self._accounts = {}
        self._next, self._next_account = now, now + _ACCOUNT_INTERVAL

    def next_look(self):
        return self._next

    def look(self, now):
        """Take a sample, if one is due."""
        if now < self._next:
            return
        self._next = now + _LOOK_INTERVAL
        self._sample(now)
        if now >= self._next_account:
            self._next_account = now + _ACCOUNT_INTERVAL
            self.account(now)

    def _sample(self, now):
        test, seconds = self._test, now - self._begin
        for suffix, streams in test.directions(test.streams):
            self._progress[suffix].add(seconds, sum(
                test.transport.watch(stream, seconds) for stream in streams))

    def account(self, now):
        """Take the CPU times of the workers: those of one that has ended are no more."""
        for worker in self._times:
            times = worker.times()
            if times:
                self._accounts[worker] = times, now - self._begin

    def finish(self, now):
        """Take the end of the test."""
        self._sample(now)
        changes = counter_changes(host_counters(self._device), self._counters)
        self._host = dict(host_facts(self._device), during_test=changes)
        self._limits = {stream.id: self._find_limits(stream) for stream in self._test.streams}

    def _shares(self, worker):
        """Return the percent of the time that a worker ran, and waited for a CPU, if known.

        Of several threads, those of the busiest.
        """
        last, seconds = self._accounts.get(worker, ({}, 0.0))
        if not last or seconds <= 0:
            return {}
        before = self._times[worker]
        ran, waited = max((ran - before.get(number, (0, 0))[0],
                           waited - before.get(number, (0, 0))[1])
                          for number, (ran, waited) in last.items())
        return {"worker_cpu_percent": round(percent(ran, seconds), 1),
                "worker_wait_percent": round(percent(waited, seconds), 1)}

    def _find_limits(self, stream):
        facts = dict(stream.figures.limits.to_json(), **self._shares(stream.worker))
        if stream.sender and self._test.settings.file:
            facts["from_file"] = True
        if self._test.parameters.mptcp:
            facts["mptcp"] = True
        with suppress(OSError):
            for name, option in (("send_buffer", socket.SO_SNDBUF),
                                 ("receive_buffer", socket.SO_RCVBUF)):
                facts[name] = stream.sock.getsockopt(socket.SOL_SOCKET, option)
        congestion = self._test.transport.congestion([stream])
        return dict(facts, congestion=congestion) if congestion else facts

    def limits(self, stream):
        """Return what is known of a stream's connection, its worker and its buffers."""
        return self._limits[stream.id]

    def host(self):
        """Return what is known of this host, and what its counters did during the test."""
        return self._host

    def progress(self):
        """Return (suffix of its name, object) of what the rate of each direction did."""
        return [(suffix, each.to_json()) for suffix, each in self._progress.items()]


class LatencyWatch:
    """The latency of a client's test, idle and under load: by probes, or by what TCP tells.

    source: "udp", "tcp" (probes), "tcp_info", or None, and then `reason` is why.
    """

    _START = 1.0  # seconds of load that are left out without -O

    def __init__(self, test):
        self._test = test
        self.source, self.reason = None, "the test did not come that far"
        self._figures = [LatencyFigures() for _ in test.settings.probe_classes]
        self._workers = self._prober = self._ring = None
        self._next = self._settles = 0.0
        self._sent = collections.deque()  # (when, probes of each class that were sent by then)
        self._end = None  # the number of the first probe that does not count

    def start(self, kind, sockets, token):
        """Start to probe. kind: of Prober; sockets: of each class; token: in bytes.

        Raises OSError.
        """
        settings = self._test.settings
        self._ring = ProbeRing()
        self._workers = ProbeWorkers(settings.threads, 1)
        self._prober = self._workers.start(lambda counters, index: kind(
            sockets, counters, index, self._ring, token, settings.probe_rate, settings.probe_size))
        self.source = "tcp" if kind is TcpProber else "udp"

    def take_idle(self, info):
        """Take the TcpInfo of the idle control connection, if there is nothing better."""
        known = info and [us for us in (info.min_rtt, info.rtt) if 0 < us < 2 ** 31]
        if known:
            self._figures[0].idle.add_round_trip(known[0] / 1e3)

    def begin(self, now):
        """Begin the load, or its measured part."""
        parameters = self._test.parameters
        begun = self._settles
        self._settles = now + min(self._START, parameters.time / 3.0 or self._START)
        settled = bool(begun and parameters.omit)
        if self.source is None and not begun:
            self.reason = self._why_not()
            self.source = None if self.reason else "tcp_info"
        self.look(now)
        self._begin_load(settled)
        if parameters.omit:
            self._settles = float("inf")  # the omitted part is what is left out

    def _begin_load(self, settled):
        for figures in self._figures:
            figures.begin_load(self._prober.slots.sent if self._prober else 0, settled)

    def _why_not(self):
        """Return why TCP's own round trips do not tell of the latency, None if they do."""
        test = self._test
        if test.transport.name != "TCP":
            return "the server answers no probes, and %s tells no round trips" % (
                test.transport.name)
        if not test.senders():
            return "the server answers no probes, and does not tell the round trips of its data"
        if not any(tcp_info(stream.sock) for stream in test.senders()):
            return "the server answers no probes, and this system tells no round trips"
        return None

    def next_look(self):
        return self._next

    def look(self, now):
        """Take what has come, if it is time."""
        if now < self._next:
            return
        self._next = now + _LOOK_INTERVAL
        self._take(now)
        if self.source and now >= self._settles and self._settles:
            self._settles = float("inf")
            self._begin_load(True)

    def _take(self, now):
        if self._prober:
            slots = self._prober.slots
            for sample in self._ring.read(slots.samples):
                self._figures[int(sample.group)].add(sample)
            self._sent.append((now, slots.sent))
            while len(self._sent) > 600:
                self._sent.popleft()
        elif self.source and self._figures[0].early:
            for stream in self._test.senders():
                info = tcp_info(stream.sock)
                if info and info.rtt > 0:
                    self._figures[0].add_round_trip(info.rtt / 1e3)

    def account(self, now):
        pass

    def finish(self, now):
        """Take the end of the test."""
        self._take(now)
        if self._prober:
            longest = max(phase.longest for figures in self._figures
                          for phase in (figures.idle, figures.early, figures.loaded) if phase)
            patience = max(0.2, 1.5 * longest)  # what was sent later may still be answered
            self._end = max([sent for moment, sent in self._sent if moment <= now - patience]
                            or [0])

    def add_to(self, data, seconds):
        """Put what is known of an interval, of so many seconds, into its sums."""
        if self.source is None:
            return
        self._take(time.monotonic())
        test = self._test
        own = self._figures[0].end_interval(seconds, not test.transport.connected)
        latency = collections.OrderedDict(
            (name, value) for name, value in own.items() if name.startswith("latency"))
        for suffix, _ in test.directions(test.streams):
            sends = test.sends(test.parameters.parallel if suffix else 0)
            data["sum" + suffix] = with_member(data["sum" + suffix], own if sends else latency)

    def to_json(self, congestion=None):
        """Return the figures as an object. congestion: the name of the senders' control."""
        if self.source is None:
            return {"source": None, "reason": self.reason}
        if not self._test.started:
            self._take(time.monotonic())
        settings = self._test.settings
        own = collections.OrderedDict(source=self.source)
        if self._prober:
            own["clock"] = "kernel" if self._prober.slots.stamped else "user"
            own["rate"] = settings.probe_rate
            own["size"] = settings.probe_size if self.source == "udp" else MIN_PROBE
        limit = settings.max_latency
        classes = []
        for tos, figures in zip(settings.probe_classes, self._figures):
            figure = collections.OrderedDict()
            if self._prober:
                figure["dscp"] = tos >> 2
                ways = figures.rewritten(tos)
                if ways:
                    figure["dscp_at_server"], figure["dscp_back"] = [way >> 2 for way in ways]
            if congestion:
                figure["congestion"] = congestion
            figure.update(figures.to_json(self._end, (limit[1],) if limit else ()))
            classes.append(figure)
        own.update(classes[0])
        if classes[1:] and self._prober:
            own["classes"] = classes
        return own

    def close(self):
        if self._workers:
            self._workers.close()


###############################################################################
# test ########################################################################
###############################################################################
# What both ends share: the streams of a test, its intervals, its end, its results.
# Nothing here prints.

_BUSY = 90.0  # percent of a CPU from which on it is the limit
_BUSY_TIME = 0.5  # seconds of a test below which nobody can tell


def describe_test(parameters, interval):
    """Return the test_start object. interval: seconds."""
    return {
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
        "interval": interval,
        "gso": parameters.gso,
        "gro": parameters.gro,
    }


class Test:
    """One test, of either end: its streams, from the first to the last."""

    def __init__(self, transport, emit, workforce=None):
        """emit: function that takes (event name, data, **more).

        workforce: what the tests of this end share. Raises IperfError 200.
        """
        self.transport = transport
        settings, parameters = transport.settings, transport.parameters
        self.settings, self.parameters, self.server = settings, parameters, transport.server
        self.emit = emit
        self.ids = stream_ids(parameters.stream_count())
        self.streams = []
        self.start = first_facts()
        self.remote = None  # the other end's Results
        self.own = collections.OrderedDict()  # figures of ours for the end object
        self.local_time = 0.0  # seconds that it took
        self.started = self.finished = self.closed = False
        self.ticks = Ticks(settings.interval, parameters.omit)
        self.amount = Amount(self)
        self.health = Health(self)
        self.watch = Watch(self) if parameters.facts or settings.wants_verdict else None
        self.latency = LatencyWatch(self) if settings.measures_latency else None
        self._observers = [each for each in (self.watch, self.latency) if each]
        self.remote_host = None  # what the other end told of its host, a dict
        # The other end gets to know what this one knows: a server tells who asked, and a client
        # who told.
        self.tells = self.server and parameters.facts
        self.cpu = None
        self._pending_interval = None
        self._counters = Counters(len(self.ids))
        self._workers = Workers(workforce or Workforce(settings.threads), self._counters,
                                len(self.ids), transport.shares_workers)

    # Set-up

    def sends(self, index):
        """Return whether this end sends on stream `index`."""
        client_sends = not self.parameters.reverse
        if self.parameters.bidirectional:
            client_sends = index < self.parameters.parallel
        return client_sends != self.server

    def senders(self):
        return [stream for stream in self.streams if stream.sender]

    def receivers(self):
        return [stream for stream in self.streams if not stream.sender]

    def receiver_slots(self):
        """Return the slots of all streams that this end is to receive, also of those to come."""
        layout = self.transport.receiver_slots
        return [layout(self._counters, index) for index in range(len(self.ids))
                if not self.sends(index)]

    def is_complete(self):
        return len(self.streams) == len(self.ids)

    def is_prepared(self):
        """Return whether all streams are there, and their connections made. Raises IperfError."""
        return self.is_complete() and self.transport.are_ready(self.streams)

    def start_cpu(self):
        self.cpu = CpuMeter(time.monotonic(), *cpu_times())

    def add_stream(self, sock):
        """Take a connected data connection and start its worker, which waits for the start."""
        index = len(self.streams)
        sender = self.sends(index)
        together = [each for each in range(len(self.ids)) if self.sends(each)]
        loop = self.transport.loop(sock, self._counters, index, self.amount.payload(sender),
                                   together if sender else None)
        try:
            worker = self._workers.add(loop)
        except OSError as error:
            raise IperfError(200, error)
        # iperf3: the numbers are descriptors, and always these.
        number = 2 * index + 4 + self.transport.extra_descriptors(index)
        if self.settings.logfile is not None:
            number += 1
        self.streams.append(Stream(self.ids[index], loop, worker,
                                   self.transport.figures(number, sender)))
        try:
            local, remote = plain_address(sock.getsockname()), plain_address(sock.getpeername())
        except OSError as error:  # reset already
            raise IperfError(204 if self.server else 203, error)
        connected = {"socket": number, "local_host": local[0], "local_port": local[1],
                     "remote_host": remote[0], "remote_port": remote[1]}
        self.start["connected"].append(connected)
        self.emit("connected", connected)

    def start_clock(self):
        """Begin the test: now is 0 s."""
        self.start["test_start"] = describe_test(self.parameters, self.settings.interval)
        self.emit("start", self.start, title=self.parameters.title)
        if self.cpu is None:
            self.start_cpu()
        self.transport.start_clock(self.streams)
        now = time.monotonic()
        self.ticks.start(now)
        self.health.start(now)
        self.started = True
        if not self.ticks.omitting:
            self.amount.limit_senders()
        for each in self._observers:
            each.begin(now)

    def open_gate(self):
        self._workers.open_gate()

    # While it runs

    def deadline(self):
        """Return when something is due."""
        parameters, ticks, now = self.parameters, self.ticks, time.monotonic()
        due = [self.health.next_look(now)] + ticks.deadlines()
        due += [each.next_look() for each in self._observers]
        if self.settings.file and not self.server:
            due.append(now + 0.005)
        if not ticks.omitting and not self.server:
            if parameters.time:
                due.append(ticks.origin + parameters.time)
            elif self.amount.bytes and not self.settings.file:
                due.append(self.amount.next_look(now))
        return min(due)

    def advance(self, now):
        """Do what is due: the end of the omitted part, a report."""
        self._counters.shared.beat = now
        for each in self._observers:
            each.look(now)
        if self.ticks.omitted_is_over(now):
            # differs: the end of an omitted part that is no multiple of -i is reported, too.
            if self.settings.interval:
                self._emit_interval(self._take_interval(now))
            else:
                self._sample()
            for stream in self.streams:
                self.transport.start_measuring(stream)
            self.ticks.omitting = False
            self.ticks.start(now)
            for each in self._observers:
                each.begin(now)
            self.amount.limit_senders()
            self.emit("measuring", None)
        elif self.ticks.is_due(now, 0 if self.server else self.parameters.time):
            self._emit_interval(self._take_interval(now))
            self.ticks.skip_to(now)

    def _sample(self):
        """Read the counters and the kernel's figures. Returns the TcpInfo of each stream."""
        return [self.transport.sample(stream) for stream in self.streams]

    def _take_interval(self, now):
        """End the current interval; return its data, None if it is not worth a report."""
        begin, end = self.ticks.begin, now - self.ticks.origin
        infos = self._sample()
        quiet = all(stream.figures.is_quiet() for stream in self.streams)
        if quiet and end - begin < self.settings.interval / 10.0:
            return None
        self.ticks.begin = end
        rows = [stream.figures.end_interval(begin, end, info, self.ticks.omitting)
                for stream, info in zip(self.streams, infos)]
        data = {"streams": rows}
        for suffix, group in self.directions(rows):
            data["sum" + suffix] = interval_sum(group)
        if self.latency:
            self.latency.add_to(data, end - begin)
        return data

    def _emit_interval(self, data, **more):
        if data is not None:
            self.emit("interval", data, **more)

    def directions(self, rows):
        """Return (suffix of names, rows) of each direction, of rows in order of the streams."""
        return directions(rows, self.parameters.parallel, self.parameters.bidirectional)

    def total_bytes(self):
        """Return the bytes that this end has sent and received since the start."""
        return sum(stream.slots.bytes for stream in self.streams)

    def measured(self, streams):
        """Return the bytes of some streams since measuring began."""
        return sum(stream.slots.bytes - stream.figures.begin.bytes for stream in streams)

    # The end

    def is_over(self, now):
        """Return whether a client's end condition is met."""
        if self.amount.ended_early(now):
            return True
        if self.ticks.omitting:
            return False
        limit = self.parameters.time
        return bool(limit and now >= self.ticks.origin + limit or self.amount.stopped_short(now)
                    or self.amount.is_through())

    def stop(self, now):
        """End measuring, in a task: stop the workers, take the last figures.

        now: when the end came. The workers see the stop within a call; the wait for one that
        is blocked is short, and end_streams() wakes a sender afterwards.
        """
        amount, connected = self.amount, self.transport.connected
        counts = amount.bytes or amount.ended_early(now)  # and no time ended it
        if counts and connected:
            if self.server or self.parameters.reverse:
                yield from amount.let_arrive()
            elif amount.all_complete():
                yield from pause(0.005)  # for the reader to take the last from its kernel
        if counts:
            now = amount.end_time() or now
        for each in self._observers:
            each.account(time.monotonic())
        for stream in self.streams:
            stream.slots.command = STOP
        self.transport.wake(self.streams)
        asked, sent = time.monotonic(), self.measured(self.senders())
        while time.monotonic() < asked + self.transport.stop_patience and any(
                stream.slots.status <= RUNNING and self.transport.is_busy(stream)
                for stream in self.streams):
            yield from pause(0.0003)
        if not counts and connected and self.measured(self.senders()) != sent:
            now += time.monotonic() - asked
        self.finish(now)
        self.health.check_beginnings(self.local_time)
        if self.settings.file:
            self.end_streams()
            if amount.all_complete():
                # differs: an iperf3 that hears of the end drops what is not yet in its file.
                yield from pause(0.05)

    def end_streams(self):
        """Send the end of file on the streams that this end sent, which wakes blocked senders.

        Of a file (-F) it belongs to the data. Else the other end has to know first that the test is
        over: some take it for the end of everything.
        """
        for stream in self.senders():
            stream.loop.wake(socket.SHUT_WR)

    def finish(self, now):
        """Take the last interval and the figures of this end, once."""
        if self.finished or not self.started:
            return
        self.finished = True
        self.local_time = now - self.ticks.origin
        self._pending_interval = self._take_interval(now)
        self.transport.finish(self.streams)
        for each in self._observers:
            each.finish(now)
        self.cpu.finish(now, *map(sum, zip(cpu_times(), self._workers.cpu_times())))
        self._tell_outage()

    def _tell_outage(self):
        """Say for how long datagrams could not be sent, if that passed."""
        away, cause = max([(stream.slots.away, stream.slots.cause) for stream in self.streams
                           if stream.slots.status != FAILED] or [(0.0, 0)])
        if away:
            self.own["network_away_seconds"] = round(away, 3)
            self.emit("warning", "the network was away for %.1f seconds: %s" % (
                away, system_error(cause).strerror))

    def emit_last_interval(self):
        """Report the interval that the end cut short."""
        data, self._pending_interval = self._pending_interval, None
        self._emit_interval(data, remote_retransmits=(
            self.remote is not None and self.remote.has_retransmits > 0))

    def results(self, output=None):
        """Return the Results that this end sends."""
        sending = self.senders()
        counted = all(stream.figures.now.retransmits is not None for stream in sending)
        streams = collections.OrderedDict()
        for stream in self.streams:
            own = stream.figures.measured()
            streams[stream.id] = StreamResult(
                stream.id, own.bytes, -1 if own.retransmits is None else own.retransmits,
                *self.transport.counts(stream, self.remote_result(stream)), start_time=0,
                end_time=round(self.local_time, 6), dropped=own.drops,
                facts=self.watch.limits(stream) if self.tells else None)
        return Results(self.cpu.total, self.cpu.user, self.cpu.system,
                       (1 if counted else 0) if sending else -1,
                       self.transport.congestion(self.streams), streams, output,
                       self.watch.host() if self.tells else None)

    def emit_diagnosis(self, summary=None):
        """Report what the figures mean, to who asked for it. summary: the Summary, if it is made.
        """
        if not (self.settings.wants_verdict and self.started):
            return
        end = (summary or Summary(self)).end
        verdict = diagnose(self.start, end, self.sends(0), self.server)
        self.emit("diagnosis", {"verdict": verdict})

    def take_remote(self, results):
        """Take the Results of the other end."""
        self.remote = results
        if results.facts is not None and self.watch:
            self.remote_host = dict(self.remote_host or {}, **results.facts)

    def remote_result(self, stream):
        """Return the other end's StreamResult of a stream, None if it is not known."""
        return self.remote.streams.get(stream.id) if self.remote else None

    def emit_end(self, known=True):
        """Report the summary, or with known=False that there is none; returns it."""
        summary = Summary(self) if known else None
        self.emit("end", summary.end if known else {}, rows=summary.rows if known else [],
                  parallel=self.parameters.parallel, bidir=self.parameters.bidirectional,
                  answered=self.remote is not None)
        return summary

    def settle(self):
        """Wait, in a task, for what is still on its way to a file. Raises IperfError 14."""
        deadline = time.monotonic() + FILE_TIMEOUT
        delay = 0.0005
        receivers = self.receivers()
        while self.settings.file and time.monotonic() < deadline and not all(
                [stream.worker.ended(stream.loop) for stream in receivers]):
            yield from pause(delay)
            delay = min(0.02, delay * 2)
        for stream in filter(self.health.is_stuck, receivers):
            raise self.health.file_error(stream)

    def close(self):
        """End the workers and close the data connections, at once."""
        self.closed = True
        self._workers.close()
        self.transport.close()
        self.amount.close()
        if self.latency:
            self.latency.close()


class Summary:
    """What a test comes to.

    end: the end object; rows: the SummaryRows of each direction, its sum last, from which the text
    is made.
    """

    def __init__(self, test):
        self._test = test
        # Our own member is neither the first nor the last, which some readers take.
        self.end, self.rows = {"streams": [], "pyperf3": {}}, []
        totals = [stream_totals(stream.figures, test.remote_result(stream))
                  for stream in test.streams]
        add = self._add_stream if test.transport.connected else self._add_datagrams
        for suffix, group in test.directions(totals):
            sender = test.sends(test.parameters.parallel if suffix else 0)
            times = self._times(sender)
            self.rows.append([add(suffix, each, times)
                              for each in group + [sum_of_totals(group, sender)]])
        self._add_hosts()
        self.end["pyperf3"] = self._own_figures()
        if not self.end["pyperf3"]:
            del self.end["pyperf3"]

    def _times(self, sender):
        """Return the seconds that the sender and the receiver measured; sender: this end sends."""
        local = other = self._test.local_time
        remote = self._test.remote
        if remote and remote.streams:
            first = next(iter(remote.streams.values()))
            if first.end_time is not None:
                other = first.end_time - first.start_time
        # differs: with --bidir iperf3 takes the client's time for all sender rows.
        return (local, other) if sender else (other, local)

    def _add_stream(self, suffix, totals, times):
        """Put a stream, or a direction's sum, into the end object; returns its SummaryRow."""
        end, test = self.end, self._test
        if totals.socket is None:
            sent, received = stream_rows(totals, *times)
            end["sum_sent" + suffix], end["sum_received" + suffix] = sent, received
            return SummaryRow(sent, received, totals, None)
        figures = test.streams[len(end["streams"])].figures
        sent, received = stream_rows(totals, *times, local_time=test.local_time,
                                     extremes=figures.extremes())
        row, diskfile = {"sender": sent}, None
        # differs: with --bidir iperf3 has them for the stream that knows no file, too.
        if test.settings.file and (totals.sender or not test.parameters.bidirectional):
            row["diskfile"] = diskfile = self._file_figures(totals)
        row["receiver"] = received
        end["streams"].append(row)
        return SummaryRow(sent, received, totals, diskfile)

    def _add_datagrams(self, suffix, totals, times):
        """The same of UDP."""
        whole, sent, received = datagram_rows(totals, *times)
        if totals.socket is not None:
            self.end["streams"].append({"udp": whole})
        else:
            self.end["sum" + suffix] = whole
            self.end["sum_sent" + suffix], self.end["sum_received" + suffix] = sent, received
        return SummaryRow(sent, received, totals, None)

    def _file_figures(self, totals):
        test, sent, received = self._test, totals.sent_bytes, totals.received_bytes
        size = received
        if totals.sender:
            file = test.amount.file
            size = file and file_size(file) or sent  # what a pipe held is not known
        return {
            "sent": sent,
            "received": received,
            "size": size,
            "percent_sent": sent * 100 // size if size else 100,
            "percent_received": received * 100 // size if size else 100,
            "filename": test.settings.file,
        }

    def _add_hosts(self):
        test, remote = self._test, self._test.remote
        cpu = test.cpu or CpuMeter(0.0, 0.0, 0.0)
        self.end["cpu_utilization_percent"] = {
            "host_total": cpu.total, "host_user": cpu.user, "host_system": cpu.system,
            "remote_total": remote.cpu_total if remote else 0.0,
            "remote_user": remote.cpu_user if remote else 0.0,
            "remote_system": remote.cpu_system if remote else 0.0,
        }
        # With --bidir the names are those of the second direction.
        names = [test.transport.congestion(test.streams), remote.congestion if remote else None]
        if test.streams and not test.streams[-1].sender:
            names.reverse()
        for key, name in zip(("sender_tcp_congestion", "receiver_tcp_congestion"), names):
            if name:
                self.end[key] = name

    def _own_figures(self):
        """Return our own member of the end object.

        Nothing in it is called bits_per_second: some take the last of a document for the result.
        """
        test = self._test
        own = collections.OrderedDict(test.own)
        if test.started:
            own.update(test.transport.own_figures(test.streams))
            self._add_facts(own)
        if test.latency:
            own["latency"] = test.latency.to_json(self.end.get("sender_tcp_congestion"))
        if test.transport.encrypts or "tls" in own:
            own["cpu_bound"] = self._cpu_bound()
        if test.parameters.parallel > 1 and test.streams:
            for suffix, group in zip(DIRECTIONS, self.rows):
                # What was received if that is known, else sent.
                own["stream_mean_bitrate" + suffix], own["stream_stddev_bitrate" + suffix] = (
                    mean_and_deviation([(row.received if row.received["bytes"] else row.sent)
                                        ["bits_per_second"] for row in group[:-1]]))
        for key, sender in ((DROPPED_KEY, False), ("remote_dropped_packets", True)):
            counts = [row.totals.drops for group in self.rows for row in group[:-1]
                      if row.totals.sender == sender]
            if counts and None not in counts:
                own[key] = sum(counts)
        pieces = sum(stream.figures.measured().pieces or 0 for stream in test.streams)
        if 0 < pieces < own.get(DROPPED_KEY, 0):  # each of one datagram or more
            own["host_dropped_pieces"] = pieces
        return own

    def _add_facts(self, own):
        """Put what the kernel told of the streams into our own member.

        If it was asked for: all that both ends know, of which a verdict is made.
        """
        test = self._test
        watch = test.watch if test.settings.asks_for_facts else None
        limits = [watch.limits(stream) if watch else stream.figures.limits.to_json()
                  for stream in test.streams]
        if watch or any(limits):
            own["limits"] = [dict(facts, socket=stream.figures.socket, sender=stream.sender)
                             for facts, stream in zip(limits, test.streams)]
        if not watch:
            return
        own["host"] = watch.host()
        for suffix, progress in watch.progress():
            own["progress" + suffix] = progress
        if test.remote_host is not None:
            own["remote_host"] = test.remote_host
        remote = [test.remote_result(stream) for stream in test.streams]
        if any(each and each.facts for each in remote):
            own["remote_limits"] = [
                dict(each and each.facts or {}, socket=stream.figures.socket,
                     sender=not stream.sender) for each, stream in zip(remote, test.streams)]

    def _cpu_bound(self):
        """Return which ends encryption kept busy: as many CPUs as there are streams, or had."""
        if self._test.local_time < _BUSY_TIME:
            return []
        cpu, streams = self.end["cpu_utilization_percent"], len(self._test.streams) or 1
        limits = (("local", "host_total", min(streams, os.cpu_count() or 1)),
                  ("remote", "remote_total", streams))
        return [name for name, key, count in limits if cpu[key] >= _BUSY * count]


class Debugging:
    """What has `settings` and emit() can tell what goes on, if -d asks for it."""

    def _debug(self, level, text):
        """Emit a text. level: 1 (errors) to 4 (everything)."""
        if self.settings.debug:
            self.emit("debug", text, level=level)

    def _debug_document(self, title, document):
        if self.settings.debug:
            self.emit("debug", document_text(title, document), level=1)


class Driver(Debugging):
    """What client and server share: events, a loop, and a way to stop."""

    def __init__(self, settings, loop=None):
        """loop: a Loop to run in; None: one of its own.

        Raises IperfError 909 where a package has patched what this needs.
        """
        package = replaced_calls()
        if package:
            raise IperfError(909, "%s has replaced its sockets or threads; start pyperf3.py as a"
                                  " program of its own" % package)
        self.settings = settings
        self.error = None  # the IperfError or Interrupted that ended it
        self.status = None  # the exit status that it calls for, if that is not clear from the error
        self._loop = loop or Loop()
        self._events = collections.deque()
        self._stop_reason = None

    def stop(self, reason="on request"):
        """End what is going on, in order; events of the end still come.

        May be called from a signal handler or another thread. reason: for the error event.
        """
        self._stop_reason = reason
        self._loop.end_wait()

    def attend(self, generator):
        """Run a task beside the test."""
        return self._loop.spawn(generator)

    def emit(self, name, data, **more):
        event = Event(event=name, data=data)
        event.update(more)
        self._events.append(event)
        return event

    def _tell_failure(self, error):
        """Report what ended a client, and that nothing else is known."""
        self.error, self.status = error, 1
        self.emit("version", first_facts())
        self._emit_error(error)
        self.emit("end", {})
        self.emit("done", None, ok=False)

    def _emit_error(self, error):
        """Report an error of a client; returns its text."""
        if isinstance(error, Interrupted):
            text = first = line = interrupt_text("client", error.reason)
        else:
            text = first = error_text(error)
            line = with_remark(error)
            if error.remote_errno is not None:
                first = "SERVER ERROR - %s" % text
                if error.remote_errno:
                    first += ", errno: %s" % system_error(error.remote_errno).strerror
                line = "%s\n%s" % (first, error_line(line))
        # differs: iperf3's document has both texts, each in a member named `error`.
        self.emit("error", text, line=line, first=first, server=False,
                  reason=failure_reason(error))
        return text

    def _take_events(self):
        """Yield the events that were emitted."""
        while self._events:
            yield self._events.popleft()

    def _document_of(self, name):
        """Run to the end; return the document of the event of this name, None if none came."""
        document = None
        for event in self:
            if event["event"] == name:
                document = whole_document(event)
        return document

    def _result(self, document):
        """Return a document, or raise the IperfError that ended the run, with the document."""
        if isinstance(self.error, Interrupted):
            self.error = IperfError(119, self.error.reason)
        if self.error is not None:
            self.error.document = document
            raise self.error
        return document


###############################################################################
# ssh #########################################################################
###############################################################################
# This program on other hosts, which are reached by ssh or a command like it: how
# it gets there, without a file, and how the two talk. Nothing here prints.
#
# ssh runs a stub there, which finds a Python and says so; then the program goes to
# its standard input, and behind it requests, a line of JSON each. What comes back
# are such lines behind a marker, so that other things that are printed there do no
# harm. The far side of it is FarEnd.

# Where a Python 3 may be; the second is the only one of a small RHEL 8.
_PYTHONS = ("python3 /usr/libexec/platform-python /usr/local/bin/python3 python3.14 python3.13"
            " python3.12 python3.11 python3.10 python3.9 python3.8 python3.7 python3.6 python")
# What a login shell of any kind hands to sh. It stands in single quotes there, and the Python in
# double ones here: so neither has quotes, and no sign that some shell takes for its own.
_FIND_PYTHON = (
    's=97;for p in %s;do command -v "$p" >/dev/null 2>&1||continue;"$p" -B -c "%s" %s %s;s=$?;'
    "[ $s = 96 ]||exit $s;done;exit $s")
_NO_PYTHON, _TOO_OLD, _CUT = 97, 96, 98  # exit statuses
# The words that it cannot quote come as arguments.
_STUB_WORDS = ("old", "ready", "pyperf3", "exec", "be_far_end")
_STUB = (
    "import sys,os;del sys.path[0];a=sys.argv;"
    "o=lambda*w:os.write(1,(chr(10)+chr(32).join(a[1:2]+list(w))+chr(10)).encode());"
    "v=sys.version.split()[0];sys.version_info<(3,6)and(o(a[2],v),os._exit(96));"
    "import zlib,marshal;from importlib.util import MAGIC_NUMBER as m;os.set_blocking(0,True);"
    "o(a[3],v,m.hex());i=sys.stdin.buffer;h=i.readline().split();d=i.read(int(h[0]));"
    "len(d)==int(h[0])and zlib.crc32(d)==int(h[1])or os._exit(98);d=zlib.decompress(d);"
    "c=marshal.loads(d)if h[2:]else compile(d,a[4],a[5]);"
    "g=dict(__name__=a[4],__source__=None if h[2:]else d);exec(c,g);g[a[6]](a[1])")

_LOGIN_TIME = 150.0  # seconds for a login at which somebody may have to type a password (sshd: 120)
_STARTING_TIME = 45.0  # seconds where nobody can
_LOADING_TIME = 30.0  # seconds for a Python there to load this program
BEAT, BEATS_MISSED = 2.0, 10.0  # seconds between two signs of life; without any it is over
_ENDING_TIME = 2.0  # seconds for what runs there to end
_MOST_NOISE = 1 << 20  # bytes that may come besides what is meant
_SOME_NOISE = 1 << 16  # bytes of it that are looked at
_LONGEST_LINE = 1 << 20  # bytes
_FIRST_TRY = 3.0  # seconds for the likeliest address, if there are others


def program_source():
    """Return this program and whether it is compiled: it came through a pipe, and is gone.

    Raises IperfError 921.
    """
    kept = globals().get("__source__")  # of one that came to a far end
    if kept:
        return kept, False
    loader, path = globals().get("__loader__"), globals().get("__file__", "")  # "<stdin>", say
    for read in (lambda: loader.get_data(path), lambda: read_file(path, 921),
                 lambda: os.pread(0, os.fstat(0).st_size, 0)):  # python3 - < pyperf3.py
        with suppress(OSError, AttributeError, IperfError):
            data = read()
            if b"\ndef be_far_end(" in data and b"\0" not in data:  # else it is compiled
                return data, False
    frame = sys._getframe()
    while frame and not (frame.f_code.co_name == "<module>" and frame.f_globals is globals()):
        frame = frame.f_back
    code = frame and frame.f_code
    with suppress(AttributeError, ImportError, OSError):
        code = code or loader.get_code(__name__)
    if code is None:
        raise IperfError(921, "this program cannot read its own source: start it from a file")
    import marshal
    return marshal.dumps(code), True


def far_words(settings, host, script, forward=()):
    """Return the argument vector that runs a script of sh on a host.

    script: None for what ssh knows of it (-G); forward: more options of ssh's. Raises IperfError
    921.
    """
    import shlex
    try:
        words = shlex.split(settings.ssh_command)
        if not words:
            raise ValueError("there is none")
    except ValueError as error:
        raise IperfError(921, "--ssh-command: %s" % error)
    at = next((number for number, word in enumerate(words)
               if os.path.basename(word) == "ssh"), None)
    ends = words[-1:] == ["--"]
    has_place = any("%h" in word for word in words)
    words = [word.replace("%h", host) for word in words]
    if at is not None:
        words[at + 1:at + 1] = ["-G"] if script is None else _ssh_options(settings) + list(forward)
    elif script is None:
        return []
    if not has_place and not ends:
        words += (["--"] if at == 0 else []) + [host]
    if script is None:
        return words
    # A shell reads what ssh hands over; what docker and kubectl do goes straight to the program.
    return words + (["sh -c " + shlex.quote(script)] if at is not None else ["sh", "-c", script])


def can_ask():
    """Return whether ssh has a terminal at which it can ask for a password."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
        return True
    except OSError:
        return False


def _ssh_options(settings):
    options = ["-T"]
    named = ["ServerAliveInterval=5", "ServerAliveCountMax=3", "ConnectTimeout=15"]
    if not settings.debug:
        named.append("LogLevel=ERROR")  # no banners
    if not can_ask():
        named.append("BatchMode=yes")
    for each in named:
        options += ["-o", each]
    return options


def _spawn(words, **pipes):
    """Begin a program; returns the Popen. Raises IperfError 921."""
    import shutil
    import subprocess
    if shutil.which(words[0]) is None:
        raise IperfError(921, "cannot run %s: not found" % words[0])
    # What the terminal ends is this program, which then ends the other one in order. ssh heeds
    # that it was told to ignore the signals.
    words = ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh"] + words
    try:
        return subprocess.Popen(words, bufsize=0, stdout=subprocess.PIPE, **pipes)
    except (OSError, ValueError) as error:
        raise IperfError(921, "cannot run %s: %s" % (words[4], system_text(error)))


class FarHost(Debugging):
    """This program on another host; it does what it is asked for, until it is ended.

    name: as the user has it; python: its version there; facts: what it told of itself.
    """

    def __init__(self, name, settings, loop, emit, forward=()):
        """forward: options of ssh's for a tunnel."""
        self.name, self.settings, self.emit = name, settings, emit
        self.python, self.facts = None, {}
        self.trouble = None  # the IperfError that tells why it is gone
        self.lost = None  # called with it, if it is gone while it is needed
        self._loop, self._forward = loop, forward
        self._marker = to_bytes(os.urandom(12).hex())
        self._process = self._configured = None
        self._address = None  # by which ssh calls it, once it is known
        self._tasks = []
        self._unsent, self._feeder = bytearray(), None
        self._noise, self._magic = 0, None
        self._heard = 0.0  # when something came from there last
        self._said = collections.deque(maxlen=20)  # what came before the marker, and from ssh
        self._jobs = {}  # number: what takes its answers
        self._count = 0

    # Starting

    def start(self):
        """Begin the program there, in a task. Raises IperfError 921."""
        if os.name != "posix":
            raise IperfError(921, "only where pipes can be waited for (not on this system)")
        import zlib
        source, is_compiled = program_source()
        self._begin()
        batch = "BatchMode=yes" in self._process.args
        yield from self._await(lambda: self._magic, _STARTING_TIME if batch else _LOGIN_TIME)
        if is_compiled:
            from importlib.util import MAGIC_NUMBER
            if self._magic != to_bytes(MAGIC_NUMBER.hex()):
                raise self._error("Python %s there cannot read what this one has compiled, and the"
                                  " source came through a pipe: start it from a file" % self.python)
        data = zlib.compress(source, 1)
        self._send(b"%d %d%s\n" % (len(data), zlib.crc32(data), b" code" * is_compiled) + data)
        yield from self._await(lambda: self.facts, _LOADING_TIME)

    def _begin(self):
        import subprocess
        marker = self._marker.decode("ascii")
        script = _FIND_PYTHON % (self._python(), _STUB, marker, " ".join(_STUB_WORDS))
        words = far_words(self.settings, self.name, script, self._forward)
        self._debug(1, "%s: %s" % (self.name, " ".join(words[:-1])))
        self._process = _spawn(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        asks = far_words(self.settings, self.name, None)
        if asks and not self.settings.ssh_address:
            with suppress(IperfError):
                self._configured = _spawn(asks, stdin=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            os.set_blocking(pipe.fileno(), False)
        self._feeder = self._loop.spawn(self._feed(self._process.stdin.fileno()))
        self._tasks = [self._feeder] + [self._loop.spawn(self._read(*each)) for each in (
            (self._process.stdout.fileno(), self._take_line, self._end),
            (self._process.stderr.fileno(), self._take_error))]

    def _python(self):
        """Return the words for sh that name the Pythons to try."""
        import shlex
        wanted = self.settings.ssh_python
        return shlex.quote(wanted) if wanted else _PYTHONS

    def _await(self, ready, seconds):
        """Wait in a task until something is there. Raises IperfError 921 if that takes longer."""
        limit = time.monotonic() + seconds
        while not ready():
            if self.trouble:
                raise self.trouble
            if time.monotonic() > limit:
                raise self._error("no answer in %.0f seconds%s" % (seconds, self._last_words()))
            yield from pause(0.003)

    def _error(self, text):
        return IperfError(925 if self.facts else 921, "%s: %s" % (self.name, text))

    def _last_words(self):
        """Return what was printed last, if anything was, as the end of a sentence."""
        words = [line for line in self._said if line]
        return ": " + words[-1] if words else ""

    # What comes, and what goes

    def _read(self, descriptor, take, end=None):
        """Hand each line that comes to take(bytes), until the end of file, in a task."""
        lines = Lines()
        while True:
            data = yield from read_some(descriptor, 65536)
            for line in lines.add(data or b"\n"):  # the last one may have no end
                take(line)
            if len(lines.rest) > _LONGEST_LINE:
                self._give_up("what came from there is not what this program says")
            if not data or self.trouble:
                break
            yield from pause(0)
        if end:
            yield from end()

    def _take_line(self, line):
        """Take a line of standard output."""
        _, found, text = line.partition(self._marker + b" ")
        if found and not self._magic:
            self._take_greeting(text.split())
        elif found:
            self._take_frame(text)
        else:
            self._take_noise(line)

    def _take_greeting(self, words):
        words = [self._text(word) for word in words]
        if len(words) > 1:
            self.python = words[1]
            self._debug(1, "%s: Python %s" % (self.name, self.python))
        if len(words) > 2 and words[0] == "ready":
            self._magic = to_bytes(words[2])

    def _take_frame(self, text):
        import json
        self._debug(4, "%s> %s" % (self.name, self._text(text)))
        self._heard = time.monotonic()
        try:
            frame = json.loads(text.decode("ascii"))
            take = self._jobs.get(frame.get("job"))
        except (ValueError, AttributeError, TypeError, RecursionError):
            self._give_up("what came from there is not what this program says")
            return
        if "host" in frame:
            self.facts = self.facts or self._clean(frame)
        elif take:
            take(frame)

    @staticmethod
    def _clean(facts):
        """Return what a far end told of itself, without what is of another kind than expected."""
        texts = facts.get("addresses")
        texts = [each for each in texts if isinstance(each, str)] if isinstance(texts, list) else []
        names = ("host", "version", "peer", "boot")
        cleaned = {name: printable(facts[name])[:100] for name in names
                   if isinstance(facts.get(name), str)}
        return dict(cleaned, addresses=[each for each in texts[:16] if is_address(each)])

    def _take_noise(self, line):
        if line.strip() and self._noise < _SOME_NOISE:
            text = self._text(line)
            self._debug(1, "%s: %s" % (self.name, text))
            self._said.append(text)
        self._noise += len(line) + 1
        if self._noise > _MOST_NOISE:
            self._give_up("the shell there prints without end: " + (self._said or [""])[-1])

    def _take_error(self, line):
        """Take a line of standard error, ssh's or of what runs there."""
        text = self._text(line.rstrip(b"\r"))
        if self.facts and text.strip():
            self.emit("far", "%s: %s" % (self.name, text))
        elif text.strip():
            self._debug(1, "%s: %s" % (self.name, text))
            self._said.append(text)

    @staticmethod
    def _text(line):
        return printable(line[:300].decode("utf-8", "replace"))

    def _give_up(self, text):
        self.trouble = self.trouble or self._error(text)

    def _lose(self, text):
        """Give it up, and tell who needs it."""
        self._give_up(text)
        if self.lost and self.facts:
            self.lost(self.trouble)

    def _send(self, data):
        self._unsent += data
        self._loop.wake(self._feeder)

    def _feed(self, descriptor):
        """Send what waits, and signs of life, in a task."""
        due = time.monotonic() + BEAT
        while True:
            now = time.monotonic()
            if self.facts and now - self._heard > BEATS_MISSED and not self.trouble:
                self._lose("nothing was heard of it for %.0f seconds" % BEATS_MISSED)
            if now >= due:
                due = now + BEAT
                self._unsent += b"\n" * bool(self.facts)
            try:
                while self._unsent:
                    del self._unsent[:os.write(descriptor, self._unsent[:65536])]
                yield Wait(None, 0, due)
            except BlockingIOError:
                yield Wait(descriptor, WRITE, due)
            except OSError:
                return  # the reader knows why

    # Jobs

    def begin(self, take, **request):
        """Ask for a job; take: called with each answer, a dict. Returns the job's number."""
        self._count += 1
        self._jobs[self._count] = take
        self.tell(job=self._count, **request)
        return self._count

    def tell(self, **request):
        """Send a request."""
        import json
        text = json.dumps(request)
        self._debug(4, "%s< %s" % (self.name, text))
        self._send(to_bytes(text) + b"\n")

    def serve(self, port, token):
        """Begin a server there, in a task; returns (job, port). Raises IperfError 921.

        port: 0 for any; token: what the cookies of its clients begin with.
        """
        answers, settings = [], far_server_settings(self.settings, token)
        job = self.begin(answers.append, op="serve", settings=settings.to_json(), port=port)
        yield from self._await(lambda: answers, STEP_TIMEOUT)
        port = answers[0].get("port")
        if type(port) is not int or not 0 < port < 65536:  # True is no port
            text = printable(str(answers[0].get("error") or "no port"))[:300]
            raise IperfError(921, "%s: %s" % (self.name, text))
        return job, port

    def end_job(self, job):
        """Let a job end; its answers go to nobody any more."""
        if self._jobs.pop(job, None):
            self.tell(op="end", job=job)

    def candidates(self, boot, own):
        """Return names and addresses of this host, the likeliest first, in a task.

        boot, own: of the client's host: boot_id(), and addresses, behind which on another machine
        there is somebody else (each host may have a bridge of the same address).
        """
        if self.settings.ssh_address:
            return [self.settings.ssh_address]
        if self._address is None:  # it says so once
            known = ""
            if self._configured is not None:
                known = yield from self._read_configuration()
            self._address = known or self.name.rpartition("@")[2]
        theirs = self.facts["addresses"]
        if boot and self.facts.get("boot", boot) != boot:
            theirs = [each for each in theirs if each not in own]
        return list(collections.OrderedDict.fromkeys([self._address] + theirs))

    def _read_configuration(self):
        """Return the address that ssh connects to, as it says itself, in a task; "" if unknown."""
        lines, descriptor = [], self._configured.stdout.fileno()
        os.set_blocking(descriptor, False)
        task = self._loop.spawn(self._read(descriptor, lines.append))
        limit = time.monotonic() + STEP_TIMEOUT
        while not task.done and time.monotonic() < limit:
            yield from pause(0.002)
        self._loop.wake(task, IperfError(0))
        found = [self._text(line)[9:] for line in lines if line.startswith(b"hostname ")]
        return found[0].strip() if found else ""

    # The end

    def _end(self):
        """Find out why it is gone, in a task."""
        yield from self._await_exit()
        yield from pause(0.02)  # for the last words
        self._lose(self._why(self._process.poll()))

    def _await_exit(self):
        """Give the command here some time to end, in a task."""
        limit = time.monotonic() + _ENDING_TIME
        while self._process.poll() is None and time.monotonic() < limit:
            yield from pause(0.003)

    def _why(self, status):
        """Return why a far end is gone. status: of the command, None if it does not end."""
        words = self._last_words()
        if self.facts and status == 255:
            return "ssh lost the connection" + words
        if self.facts:
            return "it ended (status %s)%s" % (status, words)
        if self._magic and status == _CUT:
            return "this program did not arrive whole"
        if self._magic:
            return "Python %s there could not load this program%s" % (self.python, words)
        if status == _TOO_OLD and self.python:
            return ("Python 3.6 or newer is needed, and there is %s (--ssh-python names another)"
                    % self.python)
        if status == _NO_PYTHON and self.settings.ssh_python:
            return "no Python at %s there" % printable(self.settings.ssh_python)
        if status == _NO_PYTHON:
            return ("no Python 3 found there (python3, /usr/libexec/platform-python, ...;"
                    " --ssh-python names one)")
        if status == 255:
            return "ssh failed (status 255)" + words
        return "the shell there did not start Python (status %s)%s" % (status, words)

    def finish(self):
        """Let what runs there end, in a task, and the command here."""
        if self._process is None:
            return
        self.lost = None
        if not self.facts:  # it may ask for a password
            self.close()
            return
        self._loop.wake(self._feeder, IperfError(0))
        with suppress(OSError):
            self._process.stdin.close()
        yield from self._await_exit()
        self.close()

    def close(self):
        """Release everything, at once. What runs there ends by itself."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:  # a descriptor may be another one's soon
            self._loop.wake(task, IperfError(0))
        for process in filter(None, (self._process, self._configured)):
            for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
                with suppress(OSError):
                    pipe.close()
            limit = time.monotonic() + 0.3
            while process.poll() is None:
                with suppress(OSError):
                    (process.terminate if time.monotonic() < limit else process.kill)()
                time.sleep(0.005)
        self._process = self._configured = None


def is_address(text):
    """Return whether a text is an IP address."""
    for family in (socket.AF_INET, _AF_INET6):
        with suppress(OSError, ValueError):
            socket.inet_pton(family, text.partition("%")[0])
            return True
    return False


def make_token():
    """Return what the cookies of those begin with who may use a server that was brought along."""
    return make_cookie()[:TOKEN_SIZE].decode("ascii")


def far_place(host, addresses, port, token):
    """Return what a client's settings tell of such a server.

    addresses: the likeliest first.
    """
    return {"name": host.name, "addresses": addresses, "port": port, "token": token,
            "python": host.python, "version": host.facts.get("version"), "tunnel": False}


def described(place, address):
    """Return what end.pyperf3 tells of such a place. address: the row that answered."""
    told = collections.OrderedDict((name, place.get(name)) for name in (
        "name", "address", "port", "python", "version", "tunnel"))
    told["address"] = plain_address(address[4])[0]
    return told


def far_server_settings(settings, token):
    """Return the Settings of the server that a client brings along. token: None for none."""
    its = Settings(server=True, one_off=not settings.diagnose, threads=settings.threads,
                   interval=settings.interval, verbose=settings.verbose, format=settings.format,
                   json=settings.json, json_stream=settings.json_stream,
                   version4=settings.version4, version6=settings.version6)
    its.far = token and {"token": token}
    return its


class FarServer:
    """The server of --ssh: it runs on a host that ssh reaches, for as long as its client."""

    def __init__(self, settings, loop, emit):
        """settings, emit: the client's."""
        self._loop, self._tunnels = loop, settings.ssh_tunnel
        self._place = None
        self._local = self._port = settings.wanted_port
        forward = []
        if self._tunnels:
            self._local = self._free_port()
            self._port = self._port or 20000 + struct.unpack("!H", os.urandom(2))[0] % 40000
            # A connection that others share would go on listening.
            forward = ["-o", "ExitOnForwardFailure=yes", "-o", "ControlMaster=no",
                       "-o", "ControlPath=none", "-L",
                       "127.0.0.1:%d:127.0.0.1:%d" % (self._local, self._port)]
        self.host = FarHost(settings.ssh[0], settings, loop, emit, forward)

    @staticmethod
    def _free_port():
        sock = stream_socket(socket.AF_INET)
        try:
            sock.bind(("127.0.0.1", 0))
            return sock.getsockname()[1]
        finally:
            sock.close()

    def start(self, settings, task):
        """Begin it, once, in a task, and let a client's settings lead to it. Raises IperfError.

        task: that of the client, into which the error is thrown if the far end gets lost.
        """
        if self._place is None:
            yield from self._begin()
        self.host.lost = functools.partial(self._loop.wake, task)
        settings.client, settings.port = self._place["addresses"][0], self._place["port"]
        settings.far = self._place

    def _begin(self):
        token = make_token()
        yield from self.host.start()
        _, port = yield from self.host.serve(self._port, token)
        if self._tunnels:
            self._place = dict(far_place(self.host, ["127.0.0.1"], self._local, token), tunnel=True)
            self.host.emit("warning", "the data go through ssh: the figures are those of ssh, with"
                                      " its windows and its ciphers")
            return
        addresses = yield from self.host.candidates(boot_id(), host_addresses())
        self._place = far_place(self.host, addresses, port, token)


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


# What --wait waits out. A server that said it is busy, or ends: another test may be over soon, or
# it is started anew.
_SERVER_BUSY = frozenset((120, 121))
# Before it said anything: nothing listens, the host is not up or behind a link that is not, or
# something in between (a container's proxy, a balancer) takes connections for a server that is
# not there; so it closes them at once (error 109, an end of file in TLS).
_NOT_THERE = frozenset(getattr(errno, name) for name in (
    "ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EHOSTUNREACH ENETUNREACH EHOSTDOWN"
    " ENETDOWN").split() if hasattr(errno, name))
# The server's name: it may get its address when the server is started, or the network is.
_NO_NAME_YET = frozenset(getattr(socket, name) for name in (
    "EAI_NONAME EAI_NODATA EAI_AGAIN EAI_FAIL").split() if hasattr(socket, name))
# All others will not pass: a certificate that does not hold, another protocol than iperf3's,
# a refusal (--allow, users, limits of the server), and what this host does not have: an address
# of -B (EADDRNOTAVAIL), a device, a permission (EACCES, EPERM).


class ControlConnection(Debugging):
    """A client's connection to its server: how it is made, and what comes on it.

    sock: non-blocking, a TlsSocket with --tls, None as long as nothing is connected; address: the
    row of getaddrinfo that answered; own_addresses: of -B, and of -X, by the family;
    cookie: in bytes; keepalive: the times that are in force (--cntl-ka), or None; tls: what was
    agreed on, or None.
    """

    def __init__(self, settings, loop, emit):
        """emit: function that takes (event name, data, **more)."""
        self.settings = settings
        self.sock = self.address = self.cookie = self.keepalive = self.tls = None
        self.own_addresses = {}
        # Of a server that answers probes: the token, whether to UDP, what its TCP knows of this.
        self.probes = None
        self.waits_for_absent = bool(settings.wait)  # not only for a busy server
        self._loop, self.emit = loop, emit
        self._context = None  # of TLS
        self._tries = {}  # of the Race
        self._begin = 0.0  # when connecting was begun
        self._until = 0.0  # the deadline of the step that may be waited for
        self._waits = False  # that was told
        self._last_state = 0

    def close(self):
        """Close it; reach() may make another one."""
        if self.sock is not None:
            self.sock.close()
        self.sock, self._tries, self._last_state = None, {}, 0

    # Reaching the server

    def reach(self, task, test, limit=None):
        """Connect, and say the cookie, until the server asks for the parameters, in `task`.

        test: the Test that is to be run: its CPU time begins with the cookie, and its own figures
        get the seconds of each step; limit: when this is to be over, whatever the usual deadlines
        are. Raises IperfError.
        """
        timeout = self.settings.connect_timeout
        deadline = self._bounded(timeout / 1000.0 if timeout else REPLY_TIMEOUT, limit)
        waiting = self._loop.spawn(self._tell_of_waiting())
        try:
            try:
                yield from self._connect(task, test, deadline, limit)
            except IperfError as error:
                if not self._met_no_listener(error):
                    raise
                # iperf3's server opens its port anew behind each test.
                self.close()
                yield from pause(REOPEN_DELAY)
                yield from self._connect(task, test, deadline, limit)
        except IperfError as error:
            if error.number in (103, 105, 109, 110, 112):
                error.remark = self._reached_text(error)
                if self.settings.far and error.number == 103:
                    error.remark += ("; a firewall? Name a port that is open with -p, or try"
                                     " --ssh-dial-back or --ssh-tunnel")
            raise
        finally:
            self._loop.wake(waiting, IperfError(0))
            if self._waits:
                self.emit("waiting", None)

    @staticmethod
    def _bounded(seconds, limit):
        """Return the deadline of a step that has so many seconds."""
        deadline = time.monotonic() + seconds
        return deadline if limit is None else min(deadline, limit)

    def _met_no_listener(self, error):
        """Return whether the server's port may just have been between two listeners."""
        broken = any(isinstance(each, ConnectionError) for each in (error.cause, error.__context__))
        return ((broken or error.number == 109)
                and time.monotonic() - self._begin < REOPEN_TIME)

    def _reached_text(self, error):
        """Return the addresses to which the connection was to lead, for an error."""
        host, tries, places = self.settings.client, self._tries, []
        for address, trouble in tries.items():
            place = trouble and trouble.remark or place_text(address[4])
            if len(tries) > 1:
                place += ": %s" % (trouble.reason() if trouble else error.reason())
            places.append(place)
        if not places:
            return "%s port %d" % (host, self.settings.port)
        if len(tries) == 1 and plain_address(next(iter(tries))[4])[0] == host:
            return places[0]
        return "%s: %s" % (host, "; ".join(places))

    def _tell_of_waiting(self):
        """Emit once a second what is waited for, and for how long, in a task that is ended."""
        while True:
            yield from pause(1.0)
            places = [plain_address(address[4])[0] for address, error in self._tries.items()
                      if error is None]
            self._waits = True
            self.emit("waiting", {
                "host": self.settings.client, "port": self.settings.port, "addresses": places,
                "connected": self.sock is not None,
                "seconds": max(0.0, self._until - time.monotonic())})

    def may_pass(self, error):
        """Return whether the IperfError of a try is one that --wait waits out."""
        if error.number in _SERVER_BUSY:
            return True
        if self._last_state or not self.waits_for_absent:
            return False  # the server was there, and did not want the test
        cause = error.cause if isinstance(error.cause, OSError) else error.__context__
        if isinstance(cause, socket.gaierror):
            return not self._tries and cause.errno in _NO_NAME_YET  # else it is that of -B
        return error.number == 109 or error.number in (103, 105, 112, 903) and (
            is_tls_end(cause) or getattr(cause, "errno", None) in _NOT_THERE)

    def _connect(self, task, test, deadline, limit):
        settings, figures, self._until = self.settings, test.own, deadline
        self.address, sock = yield from self._reach_any(task, deadline)
        self.sock = sock
        begin = self._begin
        figures["connect_seconds"] = round(time.monotonic() - begin, 6)
        self.keepalive = prepare_control(sock, settings)
        if settings.tls:
            self.sock = None  # secure() closes it
            self.sock = yield from self.secure(
                sock, deadline, "", ": the server may be an iperf3, which has no TLS")
            figures["tls"] = self.tls = dict(self.sock.facts(),
                                             verified=settings.tls_ca is not None)
            figures["tls_seconds"] = round(time.monotonic() - begin
                                           - figures["connect_seconds"], 6)
        test.start_cpu()
        self.cookie = make_cookie(settings.far["token"] if settings.far else "")
        yield from write_all(self.sock, self.cookie, deadline, 105)
        self._until = self._bounded(REPLY_TIMEOUT, limit)
        yield from self.expect(PARAM_EXCHANGE, deadline=self._until)
        figures["first_byte_seconds"] = round(time.monotonic() - begin, 6)

    def _reach_any(self, task, deadline):
        """Connect to the server's host, in a task; returns the address and the socket.

        Of a server that was brought along all addresses are tried, the likeliest first.
        """
        names = [self.settings.client]
        others = self.settings.far["addresses"][1:] if self.settings.far else ()
        if others:
            now = time.monotonic()
            try:
                return (yield from self._race(task, names,
                                              now + min(_FIRST_TRY, (deadline - now) / 2)))
            except IperfError as error:
                if error.number != 103:
                    raise
            names += others
        return (yield from self._race(task, names, deadline))

    def _race(self, task, names, deadline):
        addresses, error = [], None
        for name in names:
            try:
                addresses += yield from look_up(name, self.settings.port, families(self.settings),
                                                deadline)
            except IperfError as failure:
                error = failure
        if not addresses:
            raise error
        self._begin = time.monotonic()
        race = Race(self._loop, functools.partial(self._dial, deadline))
        self._tries = race.tries
        return (yield from race.run(task, addresses, deadline))

    def _dial(self, deadline, address):
        """Connect to one address of the server's, in a task; returns the socket."""
        family = address[0]
        if family not in self.own_addresses:
            self.own_addresses[family] = yield from self._look_up_own(address, deadline)
        return (yield from connect(address, self.own_addresses[family][0], self.settings.bind_dev,
                                   deadline, 103))

    def _look_up_own(self, address, deadline):
        """Return the socket addresses to come from to `address`, in a task.

        The first is that of -B, or None; those of -X follow.
        """
        settings, own = self.settings, []
        for name in [settings.bind or None] + (list(settings.xbind) if settings.sctp else []):
            try:
                own.append(name and (yield from look_up(name, 0, address[0], deadline))[0][4])
            except IperfError as error:
                error.remark = "%s from %s" % (place_text(address[4]), name)
                raise
        return own

    def dial_again(self, prepare, make=stream_socket, address=None):
        """Connect one more socket to the server, from where this connection comes, in a task.

        prepare, make: of connect(); address: the server's, if not the one that answered. Raises
        IperfError 203.
        """
        address = address or self.address
        local = self.own_addresses.get(address[0], (None,))[0]
        return (yield from connect(address, local, self.settings.bind_dev,
                                   time.monotonic() + STEP_TIMEOUT, 203, prepare, make=make))

    def secure(self, sock, deadline, step, hint=""):
        """Set up TLS on a connection to the server, in a task; returns the TlsSocket.

        step, hint: of the function secure(). Raises IperfError 903.
        """
        with on_error(sock.close):
            if self._context is None:
                self._context = client_context(self.settings.tls_ca)
        host = self.settings.client.partition("%")[0]
        deadline = min(deadline, time.monotonic() + STEP_TIMEOUT)
        return (yield from secure(sock, self._context, host, deadline, step, hint))

    # What is sent, and what comes

    def send(self, data, number, timeout=REPLY_TIMEOUT, write=write_all):
        """Send bytes within so many seconds, in a task. Raises IperfError `number`."""
        yield from write(self.sock, data, time.monotonic() + timeout, number)

    def say_goodbye(self, interrupted):
        """Tell the server of an early end, if there is one that did not tell of it itself.

        interrupted: the user wants it.
        """
        if self.sock is not None and (interrupted or self._last_state >= 0):
            send_last(self.sock, encode_state(CLIENT_TERMINATE if interrupted else IPERF_DONE))

    def expect(self, expected=None, step=None, deadline=None, also=None):
        """Read the next state, which must be `expected`, in a task; raises what else it means.

        step: what is waited for, for the error of the deadline; it follows from `expected`.
        also: another state that may come. Returns the state.
        """
        deadline = deadline or time.monotonic() + REPLY_TIMEOUT
        state = yield from read_state(self.sock, deadline, step or _STEPS[expected])
        yield from self._judge(state, expected)
        if state in (expected, also):
            return state
        raise IperfError(110, (yield from self._what_came(state)))

    def _judge(self, state, expected=None):
        """Raise what a state means by which the server ends the test, in a task."""
        self._debug(3, "State change: client received and changed State to " + state_text(state))
        if state in (expected, ACCESS_DENIED, SERVER_ERROR):
            self._last_state = state
        if state == ACCESS_DENIED:
            yield from self._read_reason()
            raise IperfError(121)
        if state == SERVER_ERROR:
            raise (yield from self._read_server_error())
        if state == SERVER_TERMINATE:
            raise IperfError(120)

    def read_document(self, title, deadline, limit, spare=0):
        """Read a document of the server's, in a task. Raises IperfError, its own or 117.

        title: for -d; limit, spare: of read_frame().
        """
        document = yield from read_frame(self.sock, deadline, limit, 117, self._judge, spare)
        self._debug_document(title, document)
        return document

    def take_facts(self, test):
        """Take what the server tells of its host, until it wants the streams, in a task.

        Only a pyperf3 tells anything, and only if it was asked. It goes to the Test.
        """
        test.remote_host, test.tells, self.probes = None, False, None
        state = yield from self.expect(CREATE_STREAMS, also=FACTS if test.parameters.facts
                                       else None)
        if state == FACTS:
            document = yield from self.read_document(
                "get_facts", time.monotonic() + REPLY_TIMEOUT, MAX_FACTS)
            test.remote_host, test.tells = clean_facts(document), True
            self.probes = self._check_probes(test.remote_host.pop("probes", None))
            yield from self.expect(CREATE_STREAMS)

    @staticmethod
    def _check_probes(probes):
        """Return what a server tells of its answers to probes, None if that makes no sense."""
        token = probes.get("token") if isinstance(probes, dict) else None
        good = isinstance(token, str) and len(token) == COOKIE_SIZE - 1 and not token.strip(
            COOKIE_LETTERS)
        return dict(probes, token=token.encode("ascii") + b"\0",
                    udp=probes.get("udp") is True) if good else None

    def or_server_error(self, step):
        """Run a step (a generator); if it fails, prefer what the server has to say about it."""
        try:
            return (yield from step)
        except IperfError as error:
            if error.number not in (203, 205, 206, 903):
                raise
            if (yield Wait(self.sock, READ, time.monotonic() + 1.5)) == READY:
                yield from self.expect(step="state")
            raise error

    def _read_reason(self):
        """Raise the reason that a pyperf3 gives behind the byte of a busy server, if it does."""
        try:
            state = yield from read_state(self.sock, time.monotonic() + 0.5, "reason")
        except IperfError:
            return
        if state == SERVER_ERROR:
            raise (yield from self._read_server_error())

    def _read_server_error(self):
        """Return the IperfError that a server reports in two numbers, in a task."""
        deadline = time.monotonic() + STEP_TIMEOUT
        numbers = []
        for _ in range(2):
            try:
                data = yield from read_exactly(self.sock, 4, deadline,
                                               lambda cause, _: IperfError(108, cause))
            except IperfError:
                break  # 3.2 to 3.18 send a denial without the second number
            numbers += struct.unpack("!i", data)
        if not numbers:
            return IperfError(109)
        number, remote_errno = (numbers + [0])[:2]
        cause = system_error(remote_errno) if remote_errno else None
        if not ERRORS.get(number, ":").endswith(":"):
            cause = None
        elif number == 905:
            cause = "the server lacks the Python package qh3 (or aioquic), or a certificate"
        return IperfError(number, cause, remote_errno)

    def _what_came(self, state):
        """Return the suspicion about a peer that sent an unknown state, if it is text."""
        if state <= 20 or self._last_state:
            return None
        yield from pause(0.05)
        try:
            more = self.sock.recv(64)
        except OSError:
            more = b""
        return "the peer sent %s" % quote_bytes(struct.pack("!b", state) + more)


class Patience(Debugging):
    """Try again what failed since the server is busy, or not there, for as long as is wanted."""

    def __init__(self, control, test):
        """test: the Test, whose own figures get the seconds before the try that succeeded."""
        self.settings, self.emit = control.settings, control.emit
        self._control, self._own = control, test.own
        self._begin = time.monotonic()
        self._seconds = self.settings.busy_wait
        self._end = self._begin + self._seconds

    def run(self, attempt):
        """Do it, in a task. Raises the last IperfError.

        attempt: a function that returns a task which reaches the server; it takes the time when
        that is to be over, None where nothing is waited for.
        """
        delay, told = RETRY_DELAY, False
        while self._seconds:
            try:
                yield from attempt(max(self._end, time.monotonic() + LAST_TRY))
                return
            except IperfError as error:
                left = self._end - time.monotonic()
                if left <= 0 or not self._control.may_pass(error):
                    raise
                reason = self._reason(error)
            self._control.say_goodbye(False)
            self._control.close()
            if not told:
                told = True
                self.emit("warning", "waiting up to %g second%s for a server: %s" % (
                    self._seconds, "s" * (self._seconds != 1), reason))
            self._debug(3, "waiting: %s" % reason)
            yield from self._pause(min(delay, left))
            delay = min(2 * delay, LONGEST_RETRY_DELAY)
            self._own["waited_seconds"] = round(time.monotonic() - self._begin, 6)
        yield from attempt(None)

    @staticmethod
    def _reason(error):
        """Return in a few words why a try failed."""
        text = error.reason() or error_text(error).partition(". try again")[0]
        return "%s (%s)" % (text, error.remark) if error.remark else text

    def _pause(self, seconds):
        """Wait, in a task, and tell so once a second, for the line at a terminal."""
        due, settings = time.monotonic() + seconds, self.settings
        if seconds < 1:
            yield from pause(seconds)
            return
        while time.monotonic() < due:
            self.emit("waiting", {
                "host": settings.client, "port": settings.port, "addresses": [], "again": True,
                "connected": False, "seconds": max(0.0, self._end - time.monotonic())})
            yield from pause(min(1.0, max(0.0, due - time.monotonic())))
        self.emit("waiting", None)


class Probing:
    """What a client does between the server's facts and its streams: it probes the idle path."""

    _IDLE = 1.5  # seconds
    _TRIES, _PATIENCE = 5, 1.0  # to get an answer, within so many seconds or some round trips

    def __init__(self, control, test):
        self._control, self._test = control, test
        self._classes = test.settings.probe_classes

    def run(self):
        """Do it, in a task. Raises IperfError if the server ends the test."""
        latency, probes = self._test.latency, self._control.probes
        if latency is None:
            return
        kinds = ([Prober] if probes["udp"] else []) + [TcpProber] if probes else []
        for kind in kinds:
            sockets = yield from self._reach(kind)
            if sockets:
                with suppress(OSError):  # there may be no memory for a worker
                    latency.start(kind, sockets, probes["token"])
                    yield from self._watch_control(self._IDLE)
                    return
        latency.take_idle(tcp_info(self._control.sock))

    def _watch_control(self, seconds):
        """Wait, in a task. Raises what the server says meanwhile."""
        control = self._control
        if (yield Wait(control.sock, READ, time.monotonic() + seconds)) == READY:
            yield from control.expect(step="state")

    def _reach(self, kind):
        """Return sockets, one for each class, on which the server answers, in a task; () if not.

        kind: of Prober.
        """
        sockets, over_tcp = [], kind is TcpProber
        make = self._dial if over_tcp else self._open
        for group, tos in enumerate(self._classes):
            try:
                sock = yield from make(tos)
                sockets.append(sock)
                if (yield from self._is_answered(sock, group, over_tcp)):
                    continue
            except (IperfError, OSError):
                pass
            close_all(sockets)
            return ()
        return sockets

    def _open(self, tos):
        return (yield from self._control.dial_again(
            lambda sock: prepare_probes(sock, tos), datagram_socket))

    def _dial(self, tos):
        """Return a TCP connection that the server answers probes on, in a task."""
        control = self._control
        sock = yield from control.dial_again(lambda sock: set_tos(sock, tos))
        if control.tls:
            sock = yield from control.secure(sock, time.monotonic() + STEP_TIMEOUT, "")
        with on_error(sock.close):
            set_no_delay(sock)
            yield from write_all(sock, control.probes["token"], time.monotonic() + STEP_TIMEOUT,
                                 203)
        return sock

    def _is_answered(self, sock, group, in_pieces):
        """Return whether the server answers on a socket, in a task. Raises OSError.

        in_pieces: what comes may (TCP).
        """
        rest = bytearray()
        wait = max(self._PATIENCE, 4 * round_trip(self._control.sock)) / self._TRIES
        for _ in range(self._TRIES):
            sock.send(encode_probe(self._control.probes["token"], ACK, group, 0))
            again = time.monotonic() + wait
            while time.monotonic() < again and (yield Wait(sock, READ, again)) == READY:
                with suppress(BlockingIOError):
                    data = gather_probe(sock, rest) if in_pieces else sock.recv(MAX_PROBE)
                    if data and decode_reply(data):
                        return True
        return False


def password_token(settings, key):
    """Return who the user is, encrypted for the server, in a task. Raises IperfError 22.

    key: the server's (RsaKey).
    """
    def encrypt():
        text = credentials(settings.username, settings.password or "", time.time())
        return key.encrypt(text, settings.use_pkcs1_padding)
    token = yield from in_thread(encrypt, STEP_TIMEOUT)
    if not isinstance(token, bytes):
        raise IperfError(22, str(token or "the encryption took too long"))
    return base64.b64encode(token).decode("ascii")


class Client(Driver):
    """Run one test against a server.

    Iterate over it for its events, or call run() for the document. settings.client is the
    server's host. Client() without settings is an AttributeClient.

    parameters: what is asked of the server; test: the Test, from the first event on; control: the
    ControlConnection.
    """

    def __init__(self, settings, loop=None, far_server=None):
        """loop: a Loop that others use, too, and that is not closed; None: one of its own.

        far_server: a FarServer that others use, too. Raises IperfError 11, 22, 39, 909, 920.
        """
        if settings.many_hosts or settings.ssh_dial_back:
            raise IperfError(920, "Client: HostToHost and Mesh do that")
        if settings.zerocopy and not CAN_SEND_FILES:
            raise IperfError(11)
        if settings.skip_rx_copy and not _MSG_TRUNC:
            raise IperfError(39)
        if settings.ssh:
            settings = settings.copy()  # it gets the server's address
        Driver.__init__(self, settings, loop)
        self._owns_loop = loop is None
        self._owns_server = far_server is None
        self._far_server = far_server or settings.ssh and FarServer(settings, self._loop, self.emit)
        self._key = None  # of the server, for the password
        if settings.username is not None:
            self._key = RsaKey(settings.rsa_public_key_path, False)
        self._task = None  # in which the conversation runs
        self.parameters = Parameters.from_settings(settings)
        self.control = ControlConnection(settings, self._loop, self.emit)
        self.test = self._transport = None
        self._reported = False  # the summary went out

    def __iter__(self):
        task = self._task = self._loop.spawn(self._run())
        stopping = False
        try:
            while not task.done or self._events or not self._reported:
                if task.done and not self._reported:  # not even _fail() went well
                    self._fail_briefly(as_failure(task.error or IperfError(100)))
                yield from self._take_events()
                if task.done:
                    break
                if self._stop_reason is not None and not stopping:
                    stopping = True
                    self._loop.wake(task, Interrupted(self._stop_reason))
                self._loop.run_once()
        finally:
            if self._far_server and self._owns_server:
                self._far_server.host.close()  # it needs the loop
            if self._owns_loop:
                self._loop.close()
            else:
                self._loop.wake(task)  # it waits for nothing any more
                task.generator.close()
            self._close()

    def run(self):
        """Run the test; return the document, as `-J` prints it, as a dict.

        Raises IperfError, with the results so far in its `document`; also if it was stopped.
        """
        document = Document()
        for event in self:
            document.add(event)
        return self._result(document.members())

    # The conversation, step by step

    def _run(self):
        control, patience = self.control, CLOSING_TIMEOUT
        try:
            yield from self._prepare_test()
            if self._far_server:
                yield from self._far_server.start(self.settings, self._task)
            yield from Patience(control, self.test).run(self._begin)
            if self.settings.finds_mtu:
                yield from self._find_mtu()
            if self.settings.connect_only:
                self._tell_connection()
            elif self.settings.mtu_only:
                self._tell_own()
            else:
                yield from Probing(control, self.test).run()
                yield from self._create_streams()
                yield from self._measure()
                yield from self._exchange_results()
                yield from self._summarize()
            self._done(True)
            self.test.close()
            yield from control.send(encode_state(IPERF_DONE), 111, STEP_TIMEOUT)
        except Exception as error:
            patience = 0.2
            if not self._reported:
                self._fail(as_failure(error))
        if control.sock is not None:
            yield from close_orderly(control.sock, patience)
        if self._far_server and self._owns_server:
            yield from self._far_server.host.finish()

    def _prepare_test(self):
        self._transport = make_transport(self.settings, self.parameters, False)
        self.test = Test(self._transport, self.emit)
        self.emit("version", self.test.start)
        yield from self._open_file()
        yield from self._transport.prepare(self)

    def _open_file(self):
        """Open what -F sends, in a task; without -t, -n, -k its size is the amount."""
        # differs: a pipe is sent to its end; of iperf3's it is what comes in ten seconds.
        parameters, test = self.parameters, self.test
        yield from test.amount.open_file(None)
        file = test.amount.file
        if file and not (self.settings.timed or parameters.bytes or parameters.blocks):
            size = file_size(file)
            if size is not None or is_pipe(file):
                parameters.bytes, parameters.time = size or 0, 0
                test.amount.is_file = True

    def _begin(self, limit):
        """Reach the server, until it asks for the streams, in a task. limit: of reach()."""
        yield from self.control.reach(self._task, self.test, limit)
        if self.settings.far:
            self.test.own["far_end"] = described(self.settings.far, self.control.address)
        if not self.settings.connect_only:
            yield from self._exchange_parameters()
            yield from self.control.take_facts(self.test)

    def _find_mtu(self):
        """Find the MTU of the path, and report it, in a task."""
        mtu = self.test.own["mtu"] = yield from PathMtu(self.control, self.test).run()
        self.emit("mtu", mtu)

    def _exchange_parameters(self):
        control, parameters = self.control, self.parameters
        mss = maximum_segment(control.sock)
        block = self._transport.choose_length(self, mss)
        if self._key is not None:
            parameters.token = yield from password_token(self.settings, self._key)
        document = parameters.to_json()
        self._debug_document("send_parameters", document)
        frame = encode_frame(document)
        if len(frame) - 4 > MAX_PARAMETERS:
            raise IperfError(113, "they are %d bytes (%s), and servers take %d" % (
                len(frame) - 4, "-T, --extra-data, --username", MAX_PARAMETERS))
        yield from control.send(frame, 113)
        self._describe_start(mss)
        if parameters.mptcp and not has_multipath():
            self.emit("warning", "MPTCP is not supported on this host, using TCP")
        quic = self._transport.facts()
        if quic:
            quic = self.test.own["quic"] = dict(quic, verified=self.settings.tls_ca is not None)
        self.emit("connecting", self.test.start, reverse=parameters.reverse, control_mss=mss,
                   udp_block=block, keepalive=control.keepalive, tls=control.tls, quic=quic)

    def _describe_start(self, mss):
        """Put what was asked for into the start object. mss: the control connection's."""
        start, parameters = self.test.start, self.parameters
        start["timestamp"] = timestamp(time.time())
        start["connecting_to"] = {"host": self.settings.client, "port": self.settings.port}
        start["cookie"] = self.control.cookie[:-1].decode("ascii")
        start.update(self._transport.segment_facts(mss))
        start["target_bitrate"] = parameters.rate
        start["fq_rate"] = parameters.fq_rate

    def note_buffers(self, sizes):
        """Take note of the buffer sizes of a data connection, of which the first one's are told."""
        start = self.test.start
        if "sock_bufsize" not in start:
            start["sock_bufsize"] = self.parameters.window
            start["sndbuf_actual"], start["rcvbuf_actual"] = sizes
            for text in self._transport.buffer_warnings(sizes):
                self.emit("warning", text)

    def _create_streams(self):
        for index in range(len(self.test.ids)):
            sock = yield from self._transport.dial(self, index)
            with on_error(sock.close):
                yield from self.control.or_server_error(self._add_stream(sock))
        yield from self._await_workers()

    def _add_stream(self, sock):
        self.test.add_stream(sock)
        yield from ()

    def _await_workers(self):
        """Wait in a task until the workers have made their connections. Raises IperfError."""
        heard = 0.0
        while not self.test.is_prepared():
            if heard:  # this end may know better why, or the answer is on its way
                yield from pause(0.003)
                if time.monotonic() - heard > 0.1:
                    yield from self.has_begun(len(self.test.ids) - 1)
            elif (yield Wait(self.control.sock, READ, time.monotonic() + 0.003)) == READY:
                heard = time.monotonic()
        for text in self._transport.notes(self.test.streams):
            self.emit("warning", text)

    def has_begun(self, index):
        """Return whether the server began the test: then it has all streams, answered or not."""
        try:
            state = self.control.sock.recv(1, socket.MSG_PEEK)
        except OSError:
            return False
        if state == encode_state(TEST_START):
            if index + 1 < len(self.test.ids):
                raise IperfError(206, "the server began the test without stream %d of %d" % (
                    index + 1, len(self.test.ids)))
            return True
        yield from self.control.expect(step="state")

    def _await_start(self):
        """Wait until the server begins the test, in a task. Raises IperfError."""
        deadline, looks = time.monotonic() + REPLY_TIMEOUT, 0
        while time.monotonic() < deadline:
            if (yield Wait(self.control.sock, READ, time.monotonic() + 0.1)) == READY:
                break
            astray = not self.control.tls and any(
                [self._transport.is_astray(stream.sock) for stream in self.test.streams])
            looks = looks + 1 if astray else 0
            if looks > 2:  # the control connection has nothing to say
                raise IperfError(203, "the data connection reached another server"
                                      " (a load balancer in between?)")
        yield from self.control.expect(TEST_START, deadline=deadline)

    def _measure(self):
        test, control = self.test, self.control
        yield from self._await_start()
        test.start_clock()
        yield from control.expect(TEST_RUNNING)
        test.open_gate()
        while True:
            now = time.monotonic()
            if test.is_over(now):
                break
            test.advance(now)
            reason = yield Wait(control.sock, READ, test.deadline())
            if reason == READY:
                yield from control.expect(TEST_RUNNING, step="state")  # iperf3: again, ignored
            test.health.check(time.monotonic())
        yield from test.stop(now)
        yield from control.send(encode_state(TEST_END), 111)

    def _exchange_results(self):
        test, control = self.test, self.control
        yield from control.expect(EXCHANGE_RESULTS)
        test.end_streams()
        deadline = time.monotonic() + REPLY_TIMEOUT
        document = results_to_json(test.results())
        self._debug_document("send_results", document)
        yield from control.send(encode_frame(document), 116,
                                write=write_small if test.tells else write_all)
        # iperf3: a server that was asked once sends its output to all later clients, too.
        document = yield from control.read_document(
            "get_results", deadline, results_limit(len(test.ids), test.tells), MAX_OUTPUT)
        test.take_remote(results_from_json(document, test.ids))
        yield from control.expect(DISPLAY_RESULTS)

    # The report

    def _tell_connection(self):
        """Report the connection, which is all that --connect-only tests."""
        self.emit("connection", dict(self.test.own))
        self._tell_own()

    def _tell_own(self):
        """Report the end of what has no streams."""
        end = self.emit("end", {"pyperf3": dict(self.test.own)})["data"]
        self._check_limits(end, ())

    def _summarize(self):
        """Report the end of a test that went well, in a task. Raises IperfError 14."""
        yield from self.test.settle()
        self.test.emit_last_interval()
        summary = self._emit_summary(True)
        self._check_limits(summary.end, [rows[-1].totals for rows in summary.rows])

    def _check_limits(self, end, sums):
        """Report what the limits come to that were asked for. end, sums: of check_figures()."""
        checks = check_figures(limits_of(self.settings), end, sums)
        if checks:
            self.emit("diagnosis", {"checks": checks})

    def _emit_summary(self, known):
        """Emit what the server printed, if that was asked for, and the end; returns the Summary."""
        output = self.test.remote and self.test.remote.output
        if output and self.parameters.get_server_output:
            self.emit(output[0], output[1])
        summary = self.test.emit_end(known)
        if known:
            self.test.emit_diagnosis(summary)
        return summary

    def _done(self, ok):
        self._reported = True
        brief = self.settings.connect_only or self.settings.mtu_only
        self.emit("done", None, ok=ok, brief=ok and brief,
                   title=self.parameters.title, extra_data=self.parameters.extra_data)

    def _fail(self, error):
        """Say good-bye to the server, and report what ended the test, and what it brought."""
        test = self.test
        if test is None:  # not even that could be made
            self._fail_briefly(error)
            return
        error = self.error = test.health.explain(error)
        interrupted = isinstance(error, Interrupted)
        test.finish(time.monotonic())
        self.control.say_goodbye(interrupted)
        test.emit_last_interval()
        self._emit_error(error)
        # differs: of most early ends iperf3 makes no summary.
        self._emit_summary(interrupted or test.started)
        test.close()
        self._done(False)

    def _fail_briefly(self, error):
        """Report an error, and that nothing is known."""
        self.error = error
        self._emit_error(error)
        self.emit("end", {})
        self._done(False)

    def _close(self):
        if self.test:
            self.test.close()
        self.control.close()


###############################################################################
# survey ######################################################################
###############################################################################
# --diagnose: a test up, one down and one both ways, each a Client's of its own, and
# what they come to: a pure function of their documents. Nothing here prints.

SURVEY_SECONDS, SURVEY_STREAMS = 5, 4  # of each test, unless -t and -P say otherwise
# Seconds for which a test waits for the server that the one before has kept busy, or is gone.
BETWEEN_TESTS = 10.0
_TESTS_APART = 0.2  # seconds; an iperf3 opens its port anew, and queues drain

# A test of a survey: its name, the directions in it, and what differs in its Settings. The path's
# MTU is looked for in the first test rather than in one of its own: that is all that a server
# with -1 serves.
SurveyTest = collections.namedtuple("SurveyTest", "name ways changes")
SURVEY_TESTS = (
    SurveyTest("up", ("up",), {"mtu": True}),
    SurveyTest("down", ("down",), {"reverse": True, "min_mtu": None}),
    SurveyTest("both", ("up", "down"), {"bidirectional": True, "min_mtu": None}),
)
_OF_EACH = {"diagnose": False, "loopback": False, "verdict": True, "latency": True,
            "repeat": None}

Surveyed = collections.namedtuple("Surveyed", "test document error gone")
Surveyed.__doc__ = """A SurveyTest that ran: its document, as -J prints it.

error: text, or None; gone: the server was not there, or not any more.
"""


def survey_settings(settings, test, wait):
    """Return the Settings of one test of a survey. wait: seconds, of --wait."""
    its = Settings()
    vars(its).update(vars(settings), **_OF_EACH)
    vars(its).update(test.changes, wait=wait, explicit=dict(settings.explicit))
    its.min_bitrate = tuple(each for each in settings.min_bitrate
                            if each[1] is None or each[1] in test.ways)
    if not settings.timed:
        its.time = SURVEY_SECONDS
        its.explicit["time"] = None
    if "parallel" not in settings.explicit:
        its.parallel = SURVEY_STREAMS
    return its


class Survey(Driver):
    """Run the tests of --diagnose against a server, and tell what they come to.

    Iterate over it for the events, or call run() for the document. The events are those of each
    test's Client, with the name of the test as `phase`; `phase` before and behind each test; at
    last `diagnose`, whose data is the summary, and `done`.
    """

    def __init__(self, settings, loop=None):
        """As Client.__init__()."""
        Driver.__init__(self, settings, loop)
        self._owns_loop = loop is None
        # For all tests, with --ssh.
        self._far_server = (FarServer(settings, self._loop, self.emit) if settings.ssh
                            else None)
        self._ran = []
        self._in_vain = False  # the server was waited for
        self._client = self._make_client(SURVEY_TESTS[0], settings.busy_wait or BETWEEN_TESTS)
        self._client.control.waits_for_absent = bool(settings.wait)

    def _make_client(self, test, wait):
        return Client(survey_settings(self.settings, test, wait), self._loop, self._far_server)

    def stop(self, reason="on request"):
        """As Driver.stop(): the test that runs ends, and no other begins."""
        Driver.stop(self, reason)
        self._client.stop(reason)

    def __iter__(self):
        try:
            for number, test in enumerate(SURVEY_TESTS):
                if number:
                    self._pause()
                    wait = 0 if self._in_vain else max(self.settings.wait, BETWEEN_TESTS)
                    self._client = self._make_client(test, wait)
                if self._stop_reason is not None:
                    self._client.stop(self._stop_reason)
                yield from self._run(number, test)
                # What the first test cannot begin, no other will.
                if self._stop_reason is not None or not (number or self._client.test.started):
                    break
            if self._stop_reason is not None and len(self._ran) < len(SURVEY_TESTS):
                self.error = self.error or IperfError(119, self._stop_reason)
            self._report()
            yield from self._take_events()
        finally:
            if self._far_server:
                self._finish_server()
            if self._owns_loop:
                self._loop.close()

    def _finish_server(self):
        task = self._loop.spawn(self._far_server.host.finish())
        while not task.done:
            self._loop.run_once()

    def run(self):
        """Run the tests; return the document, as `-J` prints it, as a dict.

        Raises IperfError, with the results so far in its `document`, if a test failed.
        """
        return self._result(self._document_of("diagnose"))

    def _pause(self):
        """Let some time pass before the next test."""
        task = self._loop.spawn(pause(_TESTS_APART))
        while not task.done and self._stop_reason is None:
            self._loop.run_once()

    def _run(self, number, test):
        """Run the Client; yield its events."""
        client, document = self._client, Document()
        self._tell(number, test, True)
        yield from self._take_events()
        events = iter(client)
        try:
            for event in events:
                document.add(event)
                event["phase"] = test.name
                yield event
        finally:
            events.close()
        error = client.error
        text = None if error is None else (
            "interrupted" if isinstance(error, Interrupted) else error_text(error))
        if isinstance(error, Interrupted):
            error = IperfError(119, error.reason)
        self.error = self.error or error
        self._in_vain = error is not None and client.control.may_pass(error)
        self._ran.append(Surveyed(test, document.members(), text, self._in_vain
                                  and error.number not in _SERVER_BUSY))
        self._tell(number, test, False)
        yield from self._take_events()

    def _tell(self, number, test, begins):
        data = {"name": test.name, "number": number + 1, "count": len(SURVEY_TESTS),
                "begins": begins}
        if not begins:
            data["rows"] = survey_rows(self._ran[-1])
        self.emit("phase", data, phase=test.name)

    def _report(self):
        summary = summarize_survey(self.settings, self._ran)
        phases = [collections.OrderedDict((("name", ran.test.name), ("document", ran.document)))
                  for ran in self._ran]
        whole = collections.OrderedDict((("host", summary["host"]), ("port", summary["port"]),
                                         ("phases", phases), ("summary", summary)))
        self.emit("diagnose", summary, whole=whole,
                  error=None if self.error is None else error_text(self.error))
        self.emit("done", None, ok=self.error is None)


# What the tests come to.

def summarize_survey(settings, ran):
    """Return the summary: what the screen says, as data. ran: the tests (Surveyed) that ran.

    Its members are those that the README tells.
    """
    rows = [row for each in ran for row in survey_rows(each)]
    first = ran[0].document
    start, own = first["start"], first["end"].get("pyperf3", {})
    what = start.get("test_start", {})
    latency = own.get("latency", {})
    summary = collections.OrderedDict((
        ("host", settings.server_name),
        ("port", start.get("connecting_to", {}).get("port", settings.port)),
        ("address", next((each["remote_host"] for each in start.get("connected", ())), None)),
        ("timestamp", start.get("timestamp")),
        ("client", VERSION_TEXT),
        ("server", _far_version(own.get("remote_host"))),
        ("protocol", what.get("protocol")), ("seconds", what.get("duration")),
        ("streams", what.get("num_streams")),
        ("congestion", first["end"].get("sender_tcp_congestion")),
        ("mtu", own.get("mtu")),
        ("idle", latency.get("idle")),
        ("rows", rows)))
    summary["notes"] = _survey_notes(rows)
    summary["advice"] = Advice(summary, ran).found
    summary["checks"] = [dict(check, phase=each.test.name) for each in ran for check in
                         each.document["end"].get("pyperf3", {}).get("checks", ())]
    summary["complete"] = len(ran) == len(SURVEY_TESTS) and not any(each.error for each in ran)
    summary["healthy"] = (summary["complete"] and bool(rows)
                          and not any(each["needed"] for each in summary["advice"])
                          and all(check["state"] == "ok" for check in summary["checks"]))
    return summary


def _far_version(facts):
    """Return what the server is, of the facts that it told; None if it told nothing."""
    if facts is None:
        return None
    return ("pyperf3 %s" % facts.get("version", "")).strip()


def survey_rows(ran):
    """Return what a test says of each direction, a dict with what is known."""
    return [_survey_row(ran, way, suffix) for way, suffix in zip(ran.test.ways, DIRECTIONS)]


def _survey_row(ran, way, suffix):
    end = ran.document["end"]
    own = end.get("pyperf3", {})
    row = collections.OrderedDict((("phase", ran.test.name), ("direction", way)))
    if ran.error is not None:
        row["error"] = ran.error
    sent, received = end.get("sum_sent" + suffix), end.get("sum_received" + suffix)
    if sent is None or "test_start" not in ran.document["start"]:
        return row
    # Of what ended early the other end told nothing.
    known = received["bytes"] or ran.error is None
    row["rate_bps"] = (received if known else sent)["bits_per_second"]
    if sent.get("retransmits") is not None:
        row["retransmits"] = sent["retransmits"]
        segments = sum(_of_senders(end, way == "up", "segments_sent"))
        if segments:
            row["retransmitted_percent"] = percent(sent["retransmits"], segments)
    if "sum" + suffix in end and known:
        row["lost_percent"] = end["sum" + suffix]["lost_percent"]
    row["latency"] = _survey_latency(own.get("latency"), ran.error)
    found = [dict(each) for each in own.get("verdict", ()) if each["direction"] == way]
    for each in found:
        for name in ("sentence", "detail", "advice"):
            each[name] = each[name] and in_place(each[name], way, each["end"])
    row["limit"] = next((each for each in found if each["kind"] == "limit"), None)
    row["notes"] = [each for each in found if each["kind"] != "limit"]
    return row


def _survey_latency(latency, error):
    """Return what a row has of a test's latency: with `reason` where nothing was measured."""
    loaded = (latency or {}).get("loaded")
    if not loaded:
        return {"reason": (latency or {}).get("reason") or error or "no probe came back"}
    told = collections.OrderedDict((name, latency[name]) for name in (
        "source", "grade", "rpm", "rpm_class", "increase_ms") if name in latency)
    told.update((name, loaded[name]) for name in ("p50_ms", "p95_ms") if name in loaded)
    return told


# What a finding says of a direction's ends, and how the place of each is called.
_PLACES = (
    ("the receiver's", "%(receiver)s's"), ("the sender's", "%(sender)s's"),
    ("the receiving host", "%(receiver)s"), ("the sending host", "%(sender)s"),
    ("The sender is the other end", "The other end sends"),
    ("the sending program", "the program at %(sender)s"),
    ("the sender", "%(sender)s"), ("the receiver", "%(receiver)s"),
    ("The sender's system", "The sending system"), ("The sender's kernel", "The sending kernel"),
    ("the local end", "this host"), ("the remote end", "the server"),
    ("the local host", "this host"), ("the remote host", "the server"),
    ("busiest receiver", "busiest worker"), ("busiest sender", "busiest worker"),
    ("All its CPUs", "All CPUs of %(end)s"),
)


def in_place(text, way, end):
    """Return a sentence of a finding, with the ends of a direction called by their place.

    end: "local", "remote" or None: that of the finding.
    """
    names = {"sender": "this host", "receiver": "the server"}
    if way == "down":
        names = {"sender": "the server", "receiver": "this host"}
    names["end"] = "this host" if end == "local" else "the server"
    for old, new in _PLACES:
        text = text.replace(old, new % names)
    return text


def _survey_notes(rows):
    """Return what stands out besides the limits, each once, with the directions of which it is."""
    notes = collections.OrderedDict()
    for row in rows:
        for note in row.get("notes", ()):
            key = note["code"], note["end"]
            notes.setdefault(key, dict(note, ways=[]))["ways"].append(way_of(row))
    return _notes_of_both(rows) + list(notes.values())


def _notes_of_both(rows):
    """Return notes about directions that carry much less while the other one is full, too."""
    notes, alone = [], {row["phase"]: row for row in rows}
    for row in rows:
        before = alone[row["direction"]] if row["direction"] in alone else row
        rates = [each.get("rate_bps", 0.0) for each in (row, before)]
        limits = {(each.get("limit") or {}).get("code") for each in (row, before)}
        if rates[0] < _UNEVEN * rates[1] and not limits & _OF_HOSTS and not (
                "error" in row or "error" in before):
            note = _note("both_ways", "while both directions are full %s carries %s rather than %s"
                         % (row["direction"], _rate_text(rates[0]), _rate_text(rates[1])))
            notes.append(dict(note, direction=row["direction"], ways=[way_of(row)]))
    return notes


def ways_text(ways):
    """Return the names of rows as one text."""
    return "all" if len(ways) == 4 else ", ".join(ways)


def way_of(row):
    """Return the name of a row: up, down, or of the last test both up and both down."""
    return row["phase"] if row["phase"] == row["direction"] else "%(phase)s %(direction)s" % row


# The codes of advice, most useful first: what keeps all else from working; numbers to change; a
# host that is slow; devices in between; what else to try.
_MOST_USEFUL = (
    "server_gone", "mtu_black_hole", "duplex", "slow_port", "receiver_window", "send_buffer",
    "clamped_window", "receiver_slow", "starved", "application", "udp_receiver", "udp_sender",
    "policer", "idle_loss", "random_loss", "queue", "datagram_loss", "one_way", "short_queue",
    "sender_cpu", "hidden_queue", "udp_default", "ramp", "sender_rate")
# Those that a path that does well may have, too.
_HINTS = frozenset(("one_way", "short_queue", "sender_cpu", "hidden_queue", "udp_default", "ramp",
                    "sender_rate"))
# Those about what lies between the hosts.
ON_THE_WAY = frozenset(("mtu_black_hole", "policer", "random_loss", "datagram_loss"))
# Milliseconds that a queue adds: from here on it gets a B; a C.
_SOME_QUEUE, _LONG_QUEUE = _GRADE_BOUNDS[1:3]
_FEW_LOST = 3  # probes on the idle path, of 75; fewer tell nothing
_UNEVEN = 0.7  # the rate of one direction, of the other's; or of one in company, of it alone
# Limits of hosts, which two directions share.
_OF_HOSTS = frozenset(("sender_cpu", "receiver_slow"))


class Advice:
    """What to do about what the tests of a survey say, most useful first.

    found: objects with code, text, needed (False: a hint, though nothing is wrong), and the
    directions that a limit or a note told it of.
    """

    def __init__(self, summary, ran):
        self._rows = summary["rows"]
        self._by_place = {}  # by code and end
        self._by_server(ran)
        self._by_mtu(summary["mtu"] or {}, 60 if ":" in (summary["address"] or "") else 40)
        self._by_idle_loss(summary["idle"] or {})
        for row in self._rows:
            self._by_findings(row)
        self._by_queues(summary)
        self._by_difference()
        self.found = sorted(self._by_place.values(), key=lambda each: (
            not each["needed"], self._rank(each["code"])))

    @staticmethod
    def _rank(code):
        return _MOST_USEFUL.index(code) if code in _MOST_USEFUL else len(_MOST_USEFUL)

    def _add(self, code, text, end=None, needed=True, way=None):
        found = self._by_place.get((code, end))
        if found is None and all(each["text"] != text for each in self._by_place.values()):
            found = self._by_place[code, end] = collections.OrderedDict((
                ("code", code), ("text", text), ("needed", needed and code not in _HINTS),
                ("directions", [])))
        if found and way and way not in found["directions"]:
            found["directions"].append(way)

    def _by_server(self, ran):
        for each in ran[1:]:
            if each.gone:
                self._add("server_gone", "The server was not there for the next test: one with -1"
                          " serves a single test. Start it without -1 and try again.")

    def _by_mtu(self, mtu, headers):
        """headers: bytes, of IP and TCP."""
        holes = [(mtu[way]["mtu"], way) for way in ("up", "down")
                 if mtu.get(way) and mtu[way].get("black_hole") and mtu[way].get("mtu")]
        if holes:
            least = min(holes)[0]
            fits = 0 < (mtu.get("mss_mtu") or 0) <= least
            self._add("mtu_black_hole", "Packets above %d bytes vanish (%s)%s: set the MTU of the"
                      " tunnel or link to %d at both ends, or clamp the MSS to %d there (as -M does"
                      " here), or let ICMP pass." % (
                          least, " and ".join(way for _, way in holes),
                          "; TCP's segments fit, others may not" if fits else "", least,
                          least - headers), needed=not fits)

    def _by_idle_loss(self, idle):
        """What vanishes while nothing else is under way: no queue does that."""
        lost, sent = idle.get("lost", 0), idle.get("sent", 0)
        if lost >= max(_FEW_LOST, _THRESHOLDS["loss"] * sent):
            self._add("idle_loss", "Of %d probes that met no traffic of the test %d vanished (up"
                      " %d, down %d): look at cables, optics, Wi-Fi, and what else fills the path."
                      % (sent, lost, idle.get("lost_up", 0), idle.get("lost_down", 0)))

    def _by_findings(self, row):
        for found in [row.get("limit")] + row.get("notes", []):
            if not found or not found["advice"] or found["code"] in ("queue", "line_rate"):
                continue
            code = found["code"]
            if code == "network":
                if "lost_percent" not in row:
                    continue  # to be the limit is what a network is for
                code = "datagram_loss"
            if code == "mtu_black_hole" and (code, None) in self._by_place:
                continue  # it is known better
            needed = code != "receiver_slow" or not self._is_full(found["evidence"])
            self._add(code, found["advice"], found["end"], needed, row["direction"])

    @staticmethod
    def _is_full(evidence):
        """Return whether a processor is what made a receiver slow: it has to have an end."""
        needs = evidence.get("worker_cpu_percent", 0) + evidence.get("worker_wait_percent", 0)
        return needs >= _THRESHOLDS["cpu"] or (
            needs >= _THRESHOLDS["shared_cpu"]
            and evidence.get("host_idle_share", 1) < _THRESHOLDS["idle"])

    def _by_queues(self, summary):
        """What waits in the path: the devices in front of a slow link are to keep it short."""
        added = {way_of(row): (self._queue(row), row) for row in self._rows}
        added = {way: pair for way, pair in added.items() if pair[0] is not None}
        alone = [added[way] for way in ("up", "down") if way in added]
        # With both directions full a round trip meets two queues.
        both = max([wait for wait, row in added.values() if row["phase"] == "both"] or [0.0])
        long = [pair for pair in alone if pair[0] >= _LONG_QUEUE]
        worst = max([wait for wait, row in alone] + [both / 2])
        fix = ("switch on SQM (cake, fq_codel) on the device before the slowest link, most often"
               " the router")
        if long:
            self._add("queue", "Full, the path adds %s: %s, at just below %s." % (
                " and ".join("%.0f ms %s" % (wait, row["phase"]) for wait, row in long), fix,
                " and ".join("%s %s" % (_rate_text(row["rate_bps"]), row["phase"])
                             for wait, row in long)))
        elif worst >= _LONG_QUEUE:
            self._add("queue", "With both directions full the path adds %.0f ms: %s." % (
                both, fix))
        elif worst >= _SOME_QUEUE:
            self._add("short_queue", "Full, the path adds %.0f ms a way: SQM (cake, fq_codel)"
                      " before the slowest link makes it less." % worst)
        elif added:
            self._by_hidden_queue(summary)

    def _by_hidden_queue(self, summary):
        """Where nobody sees a queue since one congestion control hardly makes any."""
        codes = {(row.get("limit") or {}).get("code") for row in self._rows}
        on_this_host = any(note["code"] == "same_host" for note in summary["notes"])
        if (str(summary["congestion"]).startswith("bbr") and codes & {"queue", "network"}
                and not on_this_host):
            self._add("hidden_queue", "%s keeps queues short: other senders may see longer ones"
                      " (-C cubic)." % summary["congestion"])

    @staticmethod
    def _queue(row):
        """Return the milliseconds by which latency grew under load, None if that is not known."""
        increase = row.get("latency", {}).get("increase_ms")
        limit = row.get("limit")
        if increase is None and limit and limit["code"] == "queue":
            increase = limit["evidence"]["added_us"] / 1000.0
        return increase

    def _by_difference(self):
        """Where one direction does far worse than the other for the same reason."""
        rows = {way_of(row): row for row in self._rows
                if row.get("rate_bps") and row.get("limit") and "error" not in row}
        if "up" not in rows or "down" not in rows:
            return
        slow, fast = sorted((rows["up"], rows["down"]), key=lambda row: row["rate_bps"])
        codes = {slow["limit"]["code"], fast["limit"]["code"]}
        if slow["rate_bps"] < _UNEVEN * fast["rate_bps"] and not codes - {
                "random_loss", "policer", "network", "queue"}:
            self._add("one_way", "%s carries %s, %s %s: if it should be as much, look at what is"
                      " on that way only." % (
                          slow["phase"].capitalize(), _rate_text(slow["rate_bps"]), fast["phase"],
                          _rate_text(fast["rate_bps"])))


###############################################################################
# mesh ########################################################################
###############################################################################
# Tests between hosts that are reached by ssh: one pair, whose client's output is
# passed on, or all pairs, and what they come to. Nothing here prints.

MESH_SECONDS = 5  # of each test, unless -t says otherwise
_CELL_TIME = 45.0  # seconds that a pair may take beyond its test
_SLOW_CELL = 0.8  # of what is usual
_ASYMMETRIC = 0.8  # of the other direction's
_MOST_OUTPUT = 64 * 1024 * 1024  # bytes that a client may print
_MOST_DOCUMENT = 4 * _MOST_OUTPUT  # bytes that its document may take in memory


class FarTest:
    """One test whose client runs on a host that ssh reaches.

    status: its exit status, None as long as it runs.
    """

    def __init__(self, host, settings, take):
        """settings: of the client; take: called with what it prints, (bytes, is an error)."""
        self.host, self.status = host, None
        self._take = take
        self._number = host.begin(self._take_answer, op="run", settings=settings.to_json())

    def _take_answer(self, frame):
        for name in ("out", "err"):
            if isinstance(frame.get(name), str):
                with suppress(UnicodeError):
                    self._take(frame[name].encode("latin-1"), name == "err")
        if type(frame.get("status")) is int:
            self.status = frame["status"] if 0 <= frame["status"] < 256 else 1

    def stop(self):
        """Interrupt it, as Ctrl-C does."""
        self.host.tell(op="stop", job=self._number)

    def finish(self, limit=None):
        """Wait for its end, in a task. limit: monotonic, None for none. Raises IperfError 925."""
        while self.status is None:
            if self.host.trouble:
                raise self.host.trouble
            if limit is not None and time.monotonic() > limit:
                self.host.end_job(self._number)
                raise IperfError(925, "%s: the test there does not end" % self.host.name)
            yield from pause(0.01)


def far_client_settings(settings, place):
    """Return the Settings of a client on another host. place: the server (far_place())."""
    its = settings.copy()
    # Files are this host's, and the server that is brought along knows no users.
    vars(its).update(ssh=(), mesh=None, ssh_dial_back=False, logfile=None, pidfile=None, html=None,
                     prometheus=None, repeat=None, csv_header=False, timestamps=None,
                     username=None, password=None, rsa_public_key_path=None, far=place,
                     client=place["addresses"][0], port=place["port"])
    return its


def turn_around(settings):
    """Let the data of a client's settings go the other way, and so the limits."""
    settings.reverse = not settings.reverse and not settings.bidirectional
    other = {"up": "down", "down": "up", None: None}
    settings.min_bitrate = tuple((rate, other[way]) for rate, way in settings.min_bitrate)


class FarDriver(Driver):
    """What tests between other hosts share: the hosts, a task that runs, a way to stop.

    status: the exit status, once it is over.
    """

    def __init__(self, settings, loop=None):
        """As Driver.__init__()."""
        Driver.__init__(self, settings, loop)
        self._owns_loop = loop is None
        self.hosts = [FarHost(name, settings, self._loop, self.emit) for name in settings.hosts]
        self._test = None  # the FarTest that runs
        self._told_stop = False

    def __iter__(self):
        task = self._loop.spawn(self._run())
        try:
            while not task.done or self._events:
                yield from self._take_events()
                if task.done and task.error is not None and self.status is None:
                    self._tell_failure(as_failure(task.error))
                    continue
                if task.done:
                    break
                if self._stop_reason is not None and not self._told_stop:
                    self._told_stop = True
                    self._interrupt(task)
                self._loop.run_once()
        finally:
            for host in self.hosts:
                host.close()
            if self._owns_loop:
                self._loop.close()

    def _interrupt(self, task):
        self._loop.wake(task, Interrupted(self._stop_reason))

    def _run(self):
        try:
            yield from self._begin_hosts()
            yield from self._test_all()
        except Exception as error:
            self._fail(as_failure(error))
        yield from await_tasks([self._loop.spawn(host.finish()) for host in self.hosts])

    def _begin_hosts(self):
        """Begin the program on all hosts at a time, in a task. Raises IperfError of _miss()."""
        tasks, one_by_one = [], can_ask()  # two that ask at a time get each other's answers
        for host in self.hosts:
            tasks.append(self._loop.spawn(host.start()))
            while one_by_one and not (tasks[-1].done or host.python):
                yield from pause(0.005)
        yield from await_tasks(tasks)
        for host, task in zip(self.hosts, tasks):
            if task.error is not None:
                self._miss(host, as_failure(task.error))

    def _miss(self, host, error):
        """Take note that a host cannot be used. Raises IperfError if nothing goes without it."""
        raise error

    def _between(self, client, server, settings, take, limit=None):
        """Run a test from one host to another one, in a task; returns the status.

        take: of FarTest. Raises IperfError 921.
        """
        token = make_token()
        job, port = yield from server.serve(settings.wanted_port, token)
        addresses = yield from server.candidates(client.facts.get("boot"),
                                                 client.facts["addresses"])
        try:
            return (yield from self._finish_test(client, far_client_settings(
                settings, far_place(server, addresses, port, token)), take, limit))
        finally:
            server.end_job(job)

    def _finish_test(self, client, settings, take, limit=None):
        self._test = FarTest(client, settings, take)
        yield from self._test.finish(limit)
        return self._test.status

    def _fail(self, error):
        """Report what ended it."""
        self._tell_failure(error)


class HostToHost(FarDriver):
    """Run a test from one host to another one, both reached by ssh: --ssh A --ssh B.

    Iterate over it for the events: `relayed` is what the client on A prints, a list of lines.
    """

    def __init__(self, settings, loop=None, place=None):
        """loop: as of Client; place: of a server on this host (--ssh-dial-back)."""
        FarDriver.__init__(self, settings, loop)
        self._place = place
        self._lines = Lines(), Lines()  # of both outputs

    def _interrupt(self, task):
        if self._test is not None and self._test.status is None:
            self._test.stop()
            self._loop.spawn(self._insist(task))
        else:
            FarDriver._interrupt(self, task)

    def _insist(self, task):
        """End it for good if the client there does not."""
        yield from pause(_ENDING_TIME)
        FarDriver._interrupt(self, task)

    def _test_all(self):
        if self._place is None:
            self.status = yield from self._between(*self.hosts, self.settings, self._relay)
        else:
            settings = far_client_settings(self.settings, self._dial_back_place())
            turn_around(settings)
            self.status = yield from self._finish_test(self.hosts[0], settings, self._relay)
        for is_error, lines in enumerate(self._lines):
            self._tell(filter(None, [lines.rest]), bool(is_error))
        self.emit("done", None, ok=not self.status, relayed=True)

    def _dial_back_place(self):
        """Return the place of the server here, as it may be called there."""
        wanted, peer = self.settings.ssh_address, self.hosts[0].facts.get("peer", "")
        names = [wanted] if wanted else [peer] * is_address(peer) + host_addresses()
        return dict(self._place, name="here", addresses=list(collections.OrderedDict.fromkeys(
            names)))

    def _relay(self, data, is_error):
        self._tell(self._lines[is_error].add(data), is_error)

    def _tell(self, lines, is_error):
        texts = [line.decode("utf-8", "surrogateescape") for line in lines]
        if texts:
            self.emit("relayed", texts, is_error=is_error)


class Mesh(FarDriver):
    """Run a test between each two of several hosts, one after the other: --mesh.

    Iterate over it for the events: `cell` of each pair, at last `mesh`, whose data is the summary,
    and `done`; or call run() for the document.
    """

    def __init__(self, settings, loop=None):
        """As Driver.__init__()."""
        FarDriver.__init__(self, settings, loop)
        self.cells = []
        self._missing = {}  # hosts that cannot be used, by name: the text
        self._statuses = []

    def run(self):
        """Run the tests; return the document, as `-J` prints it, as a dict.

        Raises IperfError, with the results so far in its `document`, if it ended early.
        """
        return self._result(self._document_of("mesh"))

    def _miss(self, host, error):
        text = error.reason() or error_text(error)
        before = host.name + ": "
        self._missing[host.name] = text[len(before):] if text.startswith(before) else text

    def _test_all(self):
        pairs, settings = list(itertools.permutations(self.hosts, 2)), self._cell_settings()
        usable = [pair for pair in pairs if not self._trouble_of(*pair)]
        self.emit("announce", {"pairs": len(usable), "seconds": settings.time + settings.omit,
                               "hosts": [host.name for host in self.hosts],
                               "missing": self._missing})
        for number, pair in enumerate(pairs):
            self.emit("phase", {"from": pair[0].name, "to": pair[1].name, "number": number + 1,
                                "count": len(pairs), "begins": True})
            cell, status = yield from self._fill(pair, settings)
            self.cells.append(cell)
            self._statuses.append(status)
            self.emit("cell", cell)
        self._report()

    def _cell_settings(self):
        settings = self.settings.copy()
        vars(settings).update(json=True, json_stream=False, csv=None, title=None,
                              timestamps=None, debug=0)
        if not settings.timed and not settings.bytes and not settings.blocks:
            settings.time = MESH_SECONDS
            settings.explicit["time"] = None
        return settings

    def _trouble_of(self, *hosts):
        """Return why one of two hosts cannot be used, None if both can."""
        for host in hosts:
            text = self._missing.get(host.name) or (host.trouble and host.trouble.reason())
            if text:
                return text
        return None

    def _fill(self, pair, settings):
        """Run the test of one pair, in a task; returns the cell and the status."""
        cell = collections.OrderedDict((("from", pair[0].name), ("to", pair[1].name)))
        trouble = self._trouble_of(*pair)
        if trouble:
            return dict(cell, error=trouble, marks=[]), 1
        chunks, size = [], [0]

        def take(data, is_error):
            size[0] += len(data)
            if not is_error and size[0] <= _MOST_OUTPUT:
                chunks.append(data)
        limit = (time.monotonic() + settings.time + settings.omit + _CELL_TIME
                 if settings.time else None)
        try:
            status = yield from self._between(pair[0], pair[1], settings, take, limit)
        except IperfError as error:
            return dict(cell, error=error.reason(), marks=[]), 1
        try:  # it may be large, and so take a while
            document = yield from in_slices(JsonReader(b"".join(chunks), _MOST_DOCUMENT).read())
        except ValueError:
            document = None
        cell = mesh_cell(cell, document, status)
        return cell, 1 if "error" in cell else status

    def _fail(self, error):
        self._report(error)

    def _report(self, error=None):
        self.error = error
        text = None if error is None else self._emit_error(error)
        hosts = [collections.OrderedDict(
            (("name", host.name), ("python", host.python),
             ("version", host.facts.get("version")),
             ("address", (host.facts.get("addresses") or [None])[0]),
             ("error", self._missing.get(host.name)))) for host in self.hosts]
        seconds = self._cell_settings().time
        self.emit("mesh", summarize_mesh(hosts, seconds, self.cells, error is None), error=text)
        self.emit("done", None, ok=error is None)
        failed = error is not None or 1 in self._statuses or not self.cells
        self.status = 1 if failed else max(self._statuses)


# What the tests come to.

def mesh_cell(cell, document, status):
    """Return a cell with the figures of the document that its client printed, None of none."""
    try:
        start, end = document["start"], document["end"]
        error = document.get("error")
    except (KeyError, TypeError, AttributeError):
        return dict(cell, error="the client there printed no document (status %d)" % status,
                    marks=[])
    cell = collections.OrderedDict(cell, marks=[])
    try:
        received, sent = end["sum_received"], end["sum_sent"]
        cell["bits_per_second"] = rate = float(received["bits_per_second"])
        if not 0 <= rate < 1e18:
            raise ValueError(rate)
        if isinstance(sent.get("retransmits"), int):
            cell["retransmits"] = sent["retransmits"]
        if "lost_percent" in end.get("sum", ()):
            cell["lost_percent"] = float(end["sum"]["lost_percent"])
        _add_times(cell, start, end)
    except ODD_DOCUMENT:
        cell.pop("bits_per_second", None)
        if not error:
            error = "the client there printed no figures (status %d)" % status
    if error:
        cell.pop("bits_per_second", None)
        cell["error"] = printable(str(error))[:300]
    cell["document"] = document
    return cell


def _add_times(cell, start, end):
    """Add the milliseconds of round trips: of the idle path, and under load if it was asked for."""
    latency = end.get("pyperf3", {}).get("latency") or {}
    idle, loaded = latency.get("idle") or {}, latency.get("loaded") or {}
    least = [stream["sender"]["min_rtt"] for stream in end.get("streams", ())
             if stream.get("sender", {}).get("min_rtt")]
    if "min_ms" in idle:
        cell["rtt_ms"] = float(idle["min_ms"])
    elif least:
        cell["rtt_ms"] = min(least) / 1000.0
    if "p50_ms" in loaded:
        cell["latency_ms"] = float(loaded["p50_ms"])


def median(values):
    """Return the median of numbers, 0 of none."""
    values = sorted(values)
    middle = len(values) // 2
    if not values:
        return 0.0
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2.0


def summarize_mesh(hosts, seconds, cells, complete):
    """Return what is to be told of all cells: a dict, as the README tells. It marks the cells."""
    names = [host["name"] for host in hosts]
    middle = median([cell["bits_per_second"] for cell in cells if "bits_per_second" in cell])
    usual = _usual_rate(names, cells)
    for cell in cells:
        _mark_cell(cell, cells, usual)
    return collections.OrderedDict((
        ("hosts", hosts), ("seconds", seconds), ("metric", "bits_per_second"),
        ("cells", cells), ("median_bps", middle), ("usual_bps", usual),
        ("findings", _mesh_findings(hosts, cells, usual)),
        ("complete", complete and len(cells) == len(names) * (len(names) - 1))))


def _usual_rate(names, cells):
    """Return the rate that cells are held against: the median of the best that each host does.

    The median of all is no measure: of three hosts a slow one spoils four of six cells.
    """
    best = [max([cell.get("bits_per_second", 0.0) for cell in cells
                 if name in (cell["from"], cell["to"])] or [0.0]) for name in names]
    return median([rate for rate in best if rate])


def _mark_cell(cell, cells, usual):
    rate = cell.get("bits_per_second")
    if rate is None:
        return
    back = next((other.get("bits_per_second") for other in cells
                 if (other["from"], other["to"]) == (cell["to"], cell["from"])), None)
    cell["marks"] = (["slow"] if rate < _SLOW_CELL * usual else []) + (
        ["asymmetric"] if back and rate < _ASYMMETRIC * back else [])


def _mesh_findings(hosts, cells, usual):
    """Return sentences: of hosts that are missing or slow, then of what else is wrong."""
    names = [host["name"] for host in hosts]
    missing = {host["name"]: host["error"] for host in hosts if host["error"]}
    findings, told = ["%s is left out: %s." % (name, text.rstrip("."))
                      for name, text in missing.items()], set()
    for what, keys in (("sends and receives", ("from", "to")), ("sends", ("from",)),
                       ("receives", ("to",))):
        for name in names:
            its = [cell for cell in cells if name in [cell[key] for key in keys]
                   and "bits_per_second" in cell]
            pairs = {(cell["from"], cell["to"]) for cell in its}
            # Of two hosts each is all that the other one has.
            if len(its) > 1 and len(names) > 2 and not pairs <= told and all(
                    "slow" in cell["marks"] for cell in its):
                told |= pairs
                findings.append("All that %s %s is slow, %s rather than %s: look at %s and its"
                                " link." % (name, what, _range_text(its), _rate_text(usual), name))
    for cell in cells:
        pair = "%(from)s -> %(to)s" % cell
        if cell["from"] in missing or cell["to"] in missing:
            continue
        if "error" in cell:
            findings.append("%s failed: %s." % (pair, cell["error"].rstrip(".")))
        elif (cell["from"], cell["to"]) in told:
            continue
        elif "slow" in cell["marks"]:
            findings.append("%s carries %s, %.0f %% less than usual here." % (
                pair, _rate_text(cell["bits_per_second"]),
                100 * (1 - cell["bits_per_second"] / usual)))
        elif "asymmetric" in cell["marks"]:
            findings.append("%s carries %s, much less than the way back." % (
                pair, _rate_text(cell["bits_per_second"])))
    return findings


def _range_text(cells):
    rates = [cell["bits_per_second"] for cell in cells]
    low, high = _rate_text(min(rates)), _rate_text(max(rates))
    return low if low == high else "%s to %s" % (low, high)


###############################################################################
# admission ###################################################################
###############################################################################
# What a server's tests share: its listening socket, its places, the turns of those
# that set up streams, calls that block. Nothing here prints.

def check_limits(settings, parameters):
    """Refuse what a server's operator does not allow. Raises IperfError 27, 37."""
    longest = settings.server_max_duration
    if longest and not 0 < parameters.time <= longest - parameters.omit:
        raise IperfError(37)
    limit = settings.server_bitrate_limit
    asked = parameters.stream_count() * max(parameters.rate, parameters.fq_rate)
    if limit and 0 < limit[0] < asked:
        raise too_fast(settings, "Client total requested throughput rate", asked)


def too_fast(settings, what, rate):
    """Return the IperfError 27 for a rate (bit/s) beyond --server-bitrate-limit."""
    error = IperfError(27)
    if settings.verbose:
        error.remark = "%s of %d bps exceeded %d bps limit\n" % (
            what, rate, settings.server_bitrate_limit[0])
    return error


# A receive buffer that is set when the connection exists can be smaller than the window which
# was offered before: below this size (bytes) a test nearly stops.
_LEAST_LATE_WINDOW = 16384


class Listener:
    """The socket at which a server listens, and what one test may ask of it until its end."""

    def __init__(self, settings, several, release, sock=None):
        """several: tests run at a time; sock: a listening socket to use.

        release: called before the socket gives way to another one, for who waits for it.
        """
        self.socket = sock
        self._settings = settings
        self._several = several
        self._release = release
        self._undo = None  # what to call after a test for which something was changed

    def open(self):
        """Listen, unless there is a socket already; returns the port. Raises IperfError 102."""
        settings = self._settings
        if self.socket is None:
            self.socket = open_listener(settings.bind, settings.port, families(settings),
                                        settings.bind_dev, 0, settings.mptcp)
        return self.socket.getsockname()[1]

    def close(self):
        if self.socket is not None:
            self.socket.close()

    def accept(self):
        """Return a connection that has come, non-blocking, and its address, else None.

        Raises OSError.
        """
        try:
            sock, address = self.socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return None
        sock.setblocking(False)
        return sock, address

    def listen_for(self, parameters):
        """Make the connections to come those that a test asks for: buffer size, MPTCP.

        parameters: None undoes it. Returns a warning, None if all is well. Raises IperfError 102,
        and then nobody listens any more.
        """
        if parameters is None:
            undo, self._undo = self._undo, None
            return undo and undo()
        window, multipath = parameters.window, parameters.mptcp and not self._settings.mptcp
        if self._several:  # others may be on their way to this socket
            if multipath:
                return "a server of several clients needs -m for MPTCP"
            if 0 < window < _LEAST_LATE_WINDOW:
                parameters.window = _LEAST_LATE_WINDOW
                return "a server of several clients has -w %d at the least" % _LEAST_LATE_WINDOW
            return None
        if window and not multipath:
            before = set_accepted_window(self.socket, window)
            if before:
                self._undo = lambda: restore_accepted_window(self.socket, before)
                return None
        if window or multipath:
            self._undo = self._open_again
            self._open_again(window, multipath)
        return None

    def _open_again(self, window=0, multipath=False):
        self._release()
        settings = self._settings
        place, family = self.socket.getsockname(), self.socket.family
        host = None if place[0] in ("::", "0.0.0.0") else place[0]
        if place[0] == "::" and not settings.version6:
            family = socket.AF_UNSPEC
        self.socket.close()
        self.socket = open_listener(host, place[1], family, settings.bind_dev, window,
                                    multipath or settings.mptcp)


class Places:
    """The connections that are open, and the tests that run, of which there is room for some.

    closed: no test begins any more; connections: all of them; running: the Conversations that
    have a place.
    """

    def __init__(self, loop, count, evicts):
        """count: of tests at a time; evicts: a silent client gives its place up to another one."""
        self.closed = False
        self.connections = []
        self.running = []
        self._loop = loop
        self._count = count
        self._evicts = evicts
        self._evicted = set()  # tests that end for the sake of another one
        self._pending = collections.OrderedDict()  # connections without a test, the oldest first
        self._most_pending = min(MAX_PENDING, descriptor_limit() // 4)
        self._spent = collections.deque(maxlen=count)  # cookies of the last tests

    def enter(self, connection):
        """Take a new connection in."""
        self.connections.append(connection)
        self._pending[connection] = None

    def leave(self, connection):
        """Take a closed connection off the books."""
        self.connections.remove(connection)
        self._pending.pop(connection, None)

    def is_crowded(self):
        """Return whether more connections than may be have no test yet."""
        return len(self._pending) > self._most_pending

    def drop_oldest(self, cause):
        """End the connection that has waited for longest without a test, in a task.

        Returns it, None if there was none.
        """
        if not self._pending:
            return None
        oldest, _ = self._pending.popitem(last=False)
        oldest.linger = 0.0  # its descriptor is needed
        self._loop.wake(oldest.task, IperfError(114 if oldest.cookie else 106, cause))
        end = time.monotonic() + 0.05
        while oldest in self.connections and time.monotonic() < end:
            yield from pause(0)
        return oldest

    def find(self, cookie, tls):
        """Return the test that waits for a data connection like this one, or None."""
        return next((each for each in self.running if each.takes(cookie, tls)), None)

    def is_spent(self, cookie):
        """Return whether a cookie is that of a test that ended lately."""
        return cookie in self._spent

    def is_free(self):
        """Return whether a new test could begin."""
        return len(self.running) < self._count and not self.closed

    def make_room(self):
        """See that a new test can begin, in a task; returns whether it can.

        If all places are taken, the test whose client has been silent for longest, if for too
        long, is ended.
        """
        if self.is_free() or not self._evicts:
            return self.is_free()
        now = time.monotonic()
        silent = [(each.silence(now), each) for each in self.running if each not in self._evicted]
        seconds, conversation = max(silent, key=lambda row: row[0], default=(0.0, None))
        if seconds <= SILENCE_TIMEOUT:
            return False
        self._evicted.add(conversation)
        self._loop.wake(conversation.task, IperfError(
            144, "nothing was heard of the client for %.0f s, and another one waits" % seconds))
        while conversation in self.running:
            yield from pause(0.005)
        return self.is_free()

    def begin(self, connection, conversation):
        """Give a free place to the test that a connection asks for."""
        self._pending.pop(connection, None)
        self.running.append(conversation)

    def end(self, conversation):
        """Take a test's place back; returns whether it had one."""
        if conversation not in self.running:
            return False
        self.running.remove(conversation)
        self._evicted.discard(conversation)
        self._spent.append(conversation.cookie)
        return True


class Turns:
    """The order in which the tests of one address set up UDP streams.

    A hello does not tell whose it is, but for its address, so that it is one test at a time.
    Whoever waits is to have a turn within TURN_PATIENCE of asking for its test: those before
    share that time. Times are monotonic seconds.
    """

    def __init__(self):
        self._queue = collections.OrderedDict()  # test: its address, when it asked
        self._begun = {}  # test: when its turn began

    def wait(self, test, host, asked):
        """Note that a test wants to set up streams with an address; end() ends that."""
        self._queue[test] = host, asked

    def begin(self, test, now):
        """Return whether it is a test's turn, which begins now."""
        host = self._queue[test][0]
        first = next(other for other, (place, _) in self._queue.items() if place == host)
        if first == test:
            self._begun[test] = now
        return first == test

    def await_turn(self, test, host, asked, look):
        """Wait for a test's turn, in a task. Raises IperfError 121.

        look: makes a task that waits for a moment, and raises what ends the test.
        """
        self.wait(test, host, asked)
        while not self.begin(test, time.monotonic()):
            yield from look()
            if time.monotonic() - asked > LONGEST_WAIT:
                raise IperfError(121, "too many others of this address set up streams")

    def must_end(self, test, now, quiet):
        """Return whether a turn has to end for the sake of those that wait.

        quiet: seconds since the test's last stream.
        """
        host = self._queue[test][0] if test in self._begun else None
        waiting = [asked for other, (place, asked) in self._queue.items()
                   if place == host and other != test]
        if not waiting:
            return False
        begun = max(self._begun[test], waiting[0])
        share = min((asked + TURN_PATIENCE - begun) / place
                    for place, asked in enumerate(waiting, 1))
        return quiet > TURN_TIMEOUT or now - begun > max(TURN_TIMEOUT, share)

    def end(self, test):
        """Let the next one have its turn."""
        self._queue.pop(test, None)
        self._begun.pop(test, None)


class ProbeService:
    """What answers a client's probes, from when it knows the token to the end of the test."""

    def __init__(self, conversation, test):
        self._cookie = make_cookie()
        self._conversation, self._test = conversation, test
        # Sockets of UDP, and a TCP connection for each class.
        classes = len(test.parameters.facts.probes)
        self._workers = ProbeWorkers(conversation.settings.threads, 2 * classes + 2)
        self._port = None
        with suppress(IperfError):
            self._port = ProbePort(test.transport, conversation, self._cookie)
            conversation.resources.spawn(self._serve(self._port))

    def facts(self):
        """Return what the client gets to know: the token, and whether UDP is answered."""
        return {"token": self._cookie[:-1].decode("ascii"), "udp": self._port is not None}

    def _serve(self, port):
        """Take in the sockets of new probers, in a task, until the set-up of the test is over."""
        try:
            while self._port is port:
                yield Wait(port.socket, READ, time.monotonic() + 0.02)
                with suppress(IperfError, OSError):
                    for sock in port.serve():
                        self._start(Reflector, sock, port.first(sock))
        finally:
            port.close()

    def _start(self, kind, sock, *first):
        receivers = self._test.receiver_slots()
        if not self._workers.has_room():
            sock.close()
            return
        with suppress(OSError):
            self._workers.start(lambda counters, index: kind(
                sock, counters, index, self._cookie, receivers, *first))

    def takes(self, cookie):
        """Return whether a new connection with this cookie brings probes."""
        return cookie == self._cookie and self._workers.has_room()

    def offer(self, sock):
        """Take such a connection."""
        with suppress(IperfError, OSError):
            set_no_delay(sock)  # else a reply waits for the acknowledgement of the one before
        self._start(TcpReflector, sock)

    def end_set_up(self):
        """Take no more sockets in."""
        self._port = None

    def close(self):
        self._port = None
        self._workers.close()


class Rejections:
    """The lines about connections that became no test.

    So that a flood of them costs neither time nor room, those beyond some in a second are but
    counted.
    """

    def __init__(self, spawn, emit, report):
        """spawn: begins a task; emit: as a Driver's; report: tells an error."""
        self._spawn, self._emit, self._report = spawn, emit, report
        self._count, self._since = 0, 0.0  # in the second that began then

    def report(self, error):
        """Tell why a connection failed."""
        if self._has_room():
            self._report(error)

    def warn(self, text):
        """Tell why a connection was turned away."""
        if self._has_room():
            self._emit("warning", text, server=True, test=0)

    def _has_room(self):
        now = time.monotonic()
        if now - self._since > 1.0 and self._count <= MAX_REJECTIONS:
            self._count, self._since = 0, now
        self._count += 1
        if self._count == MAX_REJECTIONS + 1:
            self._spawn(self._report_number())
        return self._count <= MAX_REJECTIONS

    def _report_number(self):
        yield from pause(self._since + 1.0 - time.monotonic())
        self._emit("warning", "%d more connections failed" % (self._count - MAX_REJECTIONS),
                   server=True)
        self._count = 0


class Calls:
    """The calls of a server's that may block, each in a thread, some at a time."""

    def __init__(self, settings, spawn):
        """spawn: begins a task. Raises IperfError 903 if the certificate or key is of no use."""
        self._certificate = settings.tls_cert, settings.tls_key
        self._spawn = spawn
        self._made, self._again = {}, {}  # what make_once() made; when to try that again
        if settings.tls_only or settings.tls_cert is not None:
            self._made[server_context] = server_context(*self._certificate)
        self._calls = []  # those that go on; each has something in it once it ended
        self._forking = 0  # how many tasks wait for their end

    def call(self, function):
        """Call a function, in a task; see in_thread()."""
        end = time.monotonic() + STEP_TIMEOUT
        while self._forking or self._count() >= MAX_CALLS:
            if time.monotonic() > end:
                return None
            yield from pause(0.002)
        ended = []

        def call():
            try:
                return function()
            finally:
                ended.append(True)
        self._calls.append(ended)
        return (yield from in_thread(call, STEP_TIMEOUT))

    def _count(self):
        self._calls = [ended for ended in self._calls if not ended]
        return len(self._calls)

    def await_all(self, patience=STEP_TIMEOUT):
        """Wait in a task until none goes on: a program that has threads cannot fork."""
        end, self._forking = time.monotonic() + patience, self._forking + 1
        try:
            while self._count() and time.monotonic() <= end:
                yield from pause(0.002)
        finally:
            self._forking -= 1

    def make_once(self, make, number):
        """Return what `make(certificate, key)` returns, made for the first client, in a task.

        Raises IperfError `number` if it could not be made; after a while there is another try.
        """
        made = self._made.get(make, KeyError())
        if isinstance(made, Exception) and time.monotonic() > self._again.get(make, 0.0):
            self._made[make] = None
            self._spawn(self._make(make))  # no client's end may end it
        while self._made[make] is None:
            yield from pause(0.005)
        made = self._made[make]
        if isinstance(made, IperfError):
            raise IperfError(number, made.cause)
        if isinstance(made, Exception):
            raise IperfError(number, str(made) or as_failure(made).cause)
        return made

    def _make(self, make):
        try:
            made = yield from self.call(lambda: make(*self._certificate))
        except Exception as error:
            made = error
        self._again[make] = time.monotonic() + STEP_TIMEOUT
        self._made[make] = made or TimeoutError("it took too long")


class Resources:
    """What the tests of a server share.

    gatekeeper: of known users, None if everybody may test; calls: see Calls; turns: see Turns;
    workforce: see Test; listen_for: see Listener; ports: the UDP ports of tests whose streams are
    set up; share: of the loop's time, for TLS handshakes; spawn: begins a task.
    """

    def __init__(self, settings, places, spawn, listen_for, transcribe=None):
        """places: of tests at a time; spawn: begins a task; transcribe: see Server.

        Raises IperfError 23, 35, 903, 905 if a key, a certificate, a file are of no use.
        """
        self.gatekeeper = make_gatekeeper(settings)
        if settings.quic_secrets is not None:
            open_key_log(settings.quic_secrets).close()
        self.calls = Calls(settings, spawn)
        self.settings = settings
        self.listen_for = listen_for
        self.spawn = spawn
        self.workforce = Workforce(settings.threads, 0)
        self.turns = Turns()
        self.ports = []
        self.share = Share(0.25)
        self._places = places
        self._transcribe = transcribe

    def allows(self, host):
        """Return whether clients of this address are served (--allow)."""
        if not self.settings.allow:
            return True
        import ipaddress
        address = ipaddress.ip_address(host.partition("%")[0])
        return any(address in network for network in self.settings.allow)

    def knows(self, cookie):
        """Return whether a new test's cookie begins as it has to, of a server for one client."""
        token = to_bytes(self.settings.far["token"]) if self.settings.far else b""
        if not token:
            return True
        import hmac
        return hmac.compare_digest(bytes(cookie[:len(token)]), token)

    def authorize(self, token):
        """Let in only whom the users' file names, in a task. Raises IperfError 142."""
        if self.gatekeeper is None:
            return
        try:
            token = base64.b64decode(to_bytes(token or ""))
        except ValueError:
            token = b""
        if not 0 < len(token) <= MAX_TOKEN:
            raise IperfError(142)
        # A thread, since the key may be used by a command that takes its time.
        admitted = yield from self.calls.call(lambda: self.gatekeeper.admits(token))
        if isinstance(admitted, Exception):  # which is no fault of the client's
            raise IperfError(142, str(as_failure(admitted)))
        if admitted is not True:
            raise IperfError(142, "it took too long" if admitted is None else None)

    def make_record(self):
        """Return what records the events of one test for its client."""
        room = max(256 * 1024, KEPT_OUTPUT // self._places)
        if self._transcribe is None or self.settings.json or self.settings.json_stream:
            return Document(room=room, wire=True)
        return Transcript(self._transcribe(), room)


###############################################################################
# server ######################################################################
###############################################################################
# The server's side of the protocol. One loop serves every connection; a connection
# costs a row in a table until its cookie has come. Nothing here prints.

def server_error_text(error):
    """Return how a server names an IperfError or Interrupted, without the program's name."""
    if isinstance(error, Interrupted):
        return interrupt_text("server", error.reason)
    if error.number == 119:
        return error_text(error)
    if error.number == 109:
        return "the client has unexpectedly closed the connection"
    return "error - %s" % error_text(error)


class Server(Driver):
    """Serve tests. Iterate over it for the events of all tests, or call run().

    settings.one_off: end after one test. listener: a listening socket to use.
    transcribe: a function that makes a function from a test's events to lines, for clients that
    ask for the server's output; without it they get the JSON document.
    Server() without settings is an AttributeServer.
    """

    def __init__(self, settings, listener=None, transcribe=None):
        """Raises IperfError 23, 35, 903, 905 if a key, a certificate, a file are of no use, 909."""
        count = 1 if settings.one_off else settings.max_clients
        self.resources = Resources(settings, count, self.attend, self.listen_for, transcribe)
        Driver.__init__(self, settings)
        self.port = None
        self.places = Places(self._loop, count, not settings.one_off)
        self.rejections = Rejections(self.attend, self.emit, self.report)
        self._listener = Listener(settings, count > 1, self._release_listener, listener)
        self._acceptor = None  # the task that waits for connections
        self._number = 1  # of the next test

    def __iter__(self):
        stopping = False
        try:
            try:
                self.port = self._listener.open()
            except IperfError as error:
                self.emit("version", first_facts(), server=True)
                self.report(error)
                self._end(error)
            else:
                self._announce()
                self._acceptor = self._keep(self._accept)
                if self.settings.idle_timeout and self.settings.one_off:
                    self._keep(self._end_when_idle)
            while self._events or not self._is_over():
                yield from self._take_events()
                if self._stop_reason is not None and not stopping:
                    stopping = True
                    self._interrupt()
                elif not self._is_over():
                    try:
                        self._loop.run_once()
                    except MemoryError:  # others may give some back
                        time.sleep(0.05)
                    if self._acceptor.done and not self.places.closed:
                        raise as_failure(self._acceptor.error)  # rather than listen to nobody
        finally:
            self._loop.close()
            for connection in self.places.connections:
                connection.close()
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
        self._keep(lifeline)

    def _keep(self, make):
        """Begin a task that the server cannot do without: it begins again if it fails."""
        def run():
            while True:
                try:
                    return (yield from make())
                except (IperfError, Interrupted):
                    raise
                except Exception as error:
                    self.report(as_failure(error))
                yield from pause(0.1)
        return self._loop.spawn(run())

    def _announce(self):
        self.emit("version", first_facts(), server=True)
        self.emit("listening", {"port": self.port, "test": self._number}, server=True)

    def report(self, error):
        """Report an error that is no test's."""
        if self.error is None:
            text = server_error_text(error)
            self.emit("error", text, line=with_remark(error, text), server=True)
            self.emit("end", {}, server=True)
            self.emit("done", None, ok=False, server=True)

    # Connections

    def _accept(self):
        """Take connections in, in a task."""
        places = self.places
        while True:
            try:
                accepted = self._listener.accept()
            except OSError as error:
                yield from self._await_descriptors(error)
                continue
            if accepted is None:
                yield Wait(self._listener.socket, READ, None)
                continue
            connection = Connection(self, *accepted)
            connection.task = self._loop.spawn(connection.run())
            places.enter(connection)
            if places.is_crowded():
                yield from pause(0)  # for those whose cookie has come
            if places.is_crowded():
                yield from places.drop_oldest(OSError(errno.EAGAIN, "too many connections"))

    def _await_descriptors(self, error):
        """Let a connection that could not be accepted wait until descriptors are free again."""
        dropped = yield from self.places.drop_oldest(error)
        for conversation in self.places.running:
            # What was dropped may have been one of its streams.
            its_own = dropped is None or dropped.peer[0] == conversation.host
            if its_own and conversation.awaits_stream():
                self._loop.wake(conversation.task, IperfError(204, error))
        if dropped is None:
            yield from pause(0.05)
        if error.errno != errno.EMFILE:
            yield from pause(0.05)

    def _release_listener(self):
        self._loop.wake(self._acceptor)  # it waits on the old socket

    def listen_for(self, parameters):
        """Make the connections to come those that a test asks for; see Listener.

        Raises IperfError 102, and then the server is over.
        """
        try:
            return self._listener.listen_for(parameters)
        except IperfError as error:
            self._end(error)
            raise

    def leave(self, connection):
        """Take note that a connection is closed."""
        if connection.conversation is not None:
            self.complete(connection.conversation)
        self.places.leave(connection)

    # Tests

    def begin(self, connection):
        """Give a free place to the test that a connection asks for; returns its Conversation."""
        emit = functools.partial(self.emit, server=True, test=self._number)
        self._number += 1
        conversation = Conversation(connection, self.resources, emit, self.complete)
        self.places.begin(connection, conversation)
        return conversation

    def hand_over(self, sock, conversation, cookie):
        """Give a test a connection that is one of its own, by the cookie."""
        conversation.offer(sock, cookie)
        self._loop.wake(conversation.task)

    def complete(self, conversation):
        """Take note that a test is over, of whatever outcome."""
        if not self.places.end(conversation) or self.places.closed:
            return
        if self.settings.one_off:
            self._end()
            self._loop.wake(self._acceptor, Interrupted("one-off"))
            for other in self.places.connections:
                if other.conversation is not conversation:
                    self._loop.wake(other.task, IperfError(121))
            return
        self.listen_for(None)
        if not self.places.running:
            self._announce()

    # The end

    def _end(self, error=None):
        """Begin no test any more. error: what ended the server, None if it has done its duty."""
        self.error = error
        self.places.closed = True

    def _is_over(self):
        return self.places.closed and not self.places.connections

    def _interrupt(self):
        """Stop for good: tell the client, if one is there."""
        error = Interrupted(self._stop_reason)
        self._loop.wake(self._acceptor, error)
        if not self.places.running:
            self.report(error)
        self._end(error)
        for connection in self.places.connections:
            running = connection.conversation in self.places.running
            self._loop.wake(connection.task, error if running else IperfError(120))

    def _end_when_idle(self):
        """End a server of one test if no client comes (--idle-timeout), in a task."""
        # differs: without -1 iperf3 opens its port anew, which cures nothing here.
        deadline = time.monotonic() + self.settings.idle_timeout
        while not self.places.closed:
            if self.places.running:
                deadline = time.monotonic() + self.settings.idle_timeout
            elif time.monotonic() >= deadline:
                self._end()
                self._loop.wake(self._acceptor, Interrupted("idle"))
                return
            yield from pause(min(0.5, max(0.01, deadline - time.monotonic())))


def end_by_client(state):
    """Raise what a state means by which the client ends the test, in a task."""
    if state == CLIENT_TERMINATE:
        raise IperfError(119)
    if state == IPERF_DONE:
        raise Quit()
    yield from ()


class Connection:
    """A connection to a server, until it is known what for.

    It brings a cookie: that of a test which waits for data connections, or that of a new test,
    whose control connection this is then.

    sock: None once it is closed or handed over; cookie: None until it has come; conversation:
    about the test, once it has a place; keepalive: the control connection's, for the events;
    probed: the system probes it; linger: for how many seconds its end may take.
    """

    def __init__(self, server, sock, address):
        self.task = None
        self.sock = sock
        self.peer = plain_address(address)
        self.cookie = None
        self.conversation = None
        self.keepalive = None
        self.probed = False
        self.linger = CLOSING_TIMEOUT
        self._server = server

    def close(self):
        """Release everything, at once."""
        if self.conversation is not None:
            self.conversation.close()
        if self.sock is not None:
            self.sock.close()
            self.sock = None

    def run(self):
        """Greet the client, and run the test that it asks for, in a task."""
        try:
            if (yield from self._greet()):
                yield from self._serve()
        except (IperfError, Interrupted):
            pass  # the server's own end, or that it needs the place, before there was a test
        except Exception as error:  # whatever it is, the other connections go on
            self._server.rejections.report(as_failure(error))
        finally:
            try:
                self.close()
            finally:
                self._server.leave(self)

    def _serve(self):
        """Run a test, if there is a place for it."""
        places = self._server.places
        if not (yield from places.make_room()):
            yield from self._deny()
            return
        document = yield from self._read_parameters()
        if document is None:
            return
        if not (yield from places.make_room()):
            yield from self._deny()
            return
        self.conversation = self._server.begin(self)
        yield from self.conversation.run(document)
        yield from self._say_good_bye(b"")

    def _greet(self):
        """Read the cookie; returns whether this is a new test's control connection."""
        server, begun = self._server, bytearray()

        def fail(cause, data):
            begun.extend(data)
            return IperfError(106, cause or "the connection was closed")
        deadline = time.monotonic() + STEP_TIMEOUT
        first = yield from self._await_byte(deadline)
        if first and not server.resources.allows(self.peer[0]):
            server.rejections.warn("%s is not allowed to test" % self.peer[0])
            yield from self._say_good_bye(_TLS_REFUSAL if first[0] == TLS_HELLO else
                                          encode_error(IperfError(142)))
            return False
        try:
            if first and first[0] == TLS_HELLO:
                deadline = yield from self._accept_tls(deadline)
            try:
                data = yield from read_exactly(self.sock, COOKIE_SIZE, deadline, fail)
            except IperfError:
                check_cookie(bytes(begun))
                raise
            begun.extend(data)
            check_cookie(data)
        except IperfError as error:
            # differs: a connection that brings nothing (a probe, a port scan) is no test, nor
            # an error worth a line.
            if begun or error.number == 903:
                server.rejections.report(error)
                yield from self._say_good_bye(b"")
            return False
        tls = isinstance(self.sock, TlsSocket)
        if server.settings.tls_only and not tls:
            server.rejections.warn("%s wants a test without TLS" % self.peer[0])
            yield from self._deny(IperfError(908))
            return False
        conversation = server.places.find(data, tls)
        if conversation is not None:
            sock, self.sock = self.sock, None
            server.hand_over(sock, conversation, data)
            return False
        if not server.resources.knows(data):
            server.rejections.warn("%s is not the client that this server is for" % self.peer[0])
            yield from self._deny(IperfError(142))
            return False
        self.cookie = bytes(data)
        return True

    def _await_byte(self, deadline):
        """Return the client's first byte, in a task, b"" if there is none; it stays unread."""
        while True:
            try:
                return self.sock.recv(1, socket.MSG_PEEK)
            except (BlockingIOError, InterruptedError):
                if (yield Wait(self.sock, READ, deadline)) == TIMED_OUT:
                    return b""
            except OSError:
                return b""  # the reader of the cookie will meet it, too

    def _accept_tls(self, deadline):
        """Set up the TLS that the client begins with, in a task; returns the deadline.

        That is later by the time that the server took for its certificate. Raises IperfError 903.
        """
        resources, before = self._server.resources, time.monotonic()
        context = yield from resources.calls.make_once(server_context, 903)
        deadline += time.monotonic() - before
        sock, self.sock = self.sock, None
        self.sock = yield from secure(sock, context, None, deadline, share=resources.share)
        return deadline

    def _read_parameters(self):
        """Ask for the parameters; returns the document, None if there is none."""
        sock, deadline = self.sock, time.monotonic() + STEP_TIMEOUT
        try:
            self.keepalive = prepare_control(sock, self._server.settings)
            if self._server.settings.cntl_ka is None:
                self._probe_when_idle()
            yield from write_all(sock, encode_state(PARAM_EXCHANGE), deadline, 111)
            return (yield from read_frame(sock, deadline, MAX_PARAMETERS, 114, end_by_client))
        except Quit:  # it only wanted to connect
            yield from self._say_good_bye(b"")
            return None
        except IperfError as error:
            if error.number in (120, 121):  # the server's own end
                return None
            # A data connection that came too late is not worth a line.
            if not self._server.places.is_spent(self.cookie):
                self._server.rejections.report(error)
            yield from self._say_good_bye(encode_error(error))
            return None

    def _probe_when_idle(self):
        """Let the system probe the control connection, which is idle while a test runs.

        A cut link is no reason to end the test as long as nobody else waits, so that the probes
        may go unanswered for as long as the data.
        """
        with suppress(IperfError):
            set_keepalive(self.sock, 3, 3, int(DATA_TIMEOUT) // 3)
            self.probed = True

    def _deny(self, reason=None):
        """Close with the byte of a busy server; a pyperf3 reads on for an IperfError."""
        yield from self._say_good_bye(
            encode_state(ACCESS_DENIED) + (encode_error(reason) if reason else b""))

    def _say_good_bye(self, data):
        """Send the last bytes of a conversation, if they go, and close."""
        sock, self.sock = self.sock, None
        if sock is not None:
            send_last(sock, data)
            yield from close_orderly(sock, self.linger)


class ClientClock:
    """The time that a client takes for a test: it stands still while the server is at work.

    begun, stepped: when the test and its present step began (monotonic), later by what the server
    took of them; stands: the server is at work.
    """

    def __init__(self):
        self.begun = self.stepped = time.monotonic()
        self.stands = False

    def step(self):
        """Begin the client's next step; returns its deadline."""
        self.stepped = time.monotonic()
        return self.stepped + STEP_TIMEOUT

    def stop_for(self, step):
        """Stand still while a step of the server's (a generator) runs; returns its result."""
        before, self.stands = time.monotonic(), True
        try:
            return (yield from step)
        finally:
            waited, self.stands = time.monotonic() - before, False
            self.begun += waited
            self.stepped += waited

    def silence(self, now, setting_up):
        """Return for how many seconds the client has kept the server waiting.

        setting_up: its steps so far may not take longer than SETUP_TIMEOUT together.
        """
        if setting_up and now - self.begun > SETUP_TIMEOUT:
            return now - self.begun
        return now - self.stepped


class Conversation(Debugging):
    """What a server and a client say about one test, from its parameters to its results.

    phase: the state of the protocol that the server has sent last, IPERF_DONE once the test is
    over; task: runs run(); control: the connection; host: the client's address.
    """

    def __init__(self, connection, resources, emit, complete):
        """emit: function that takes (event name, data, **more) and returns the event.

        complete: called with this conversation when the test is over, of whatever outcome.
        """
        self.task = connection.task
        self.cookie = connection.cookie
        self.host = connection.peer[0]
        self.settings = resources.settings
        self.phase = PARAM_EXCHANGE
        self.resources = resources
        self._emit_event, self._complete = emit, complete
        self._clock = ClientClock()
        self._asked = self._clock.begun  # when the client asked for the test
        self.control = connection.sock
        self._peer = connection.peer
        self._keepalive = connection.keepalive
        self._probed = connection.probed
        self._test = None
        self._parameters = None
        self._record = None  # of the events, if the client asked for it
        self._transport = None
        self._arrivals = None  # of the streams
        self._probes = None  # the ProbeService, if the client asked for it

    def close(self):
        """Release everything but the control connection, at once."""
        for each in (self._arrivals, self._probes, self._test, self._transport):
            if each is not None:
                each.close()

    def awaits_stream(self):
        """Return whether a connection to the server's port is due, to be one of the streams."""
        return (self.phase == CREATE_STREAMS and self._arrivals.takes_connections
                and self._arrivals.pending() + len(self._test.streams) < len(self._test.ids))

    def takes(self, cookie, tls):
        """Return whether a connection with this cookie, within TLS or not, is one that is due."""
        return tls == self._has_tls() and (
            cookie == self.cookie and self.awaits_stream() or self._takes_probes(cookie))

    def _takes_probes(self, cookie):
        return self._probes is not None and self._probes.takes(cookie)

    def offer(self, sock, cookie):
        """Take a connection that is to be one of the streams, or brings probes."""
        (self._arrivals if cookie == self.cookie else self._probes).offer(sock)

    def silence(self, now):
        """Return for how many seconds longer than it may the client has been silent."""
        if self._clock.stands or (self._arrivals and self._arrivals.pending()):
            return 0.0
        if self.phase != TEST_RUNNING:
            return self._clock.silence(now, self.phase in (
                PARAM_EXCHANGE, CREATE_STREAMS, TEST_START))
        quiet = self._test.health.silence(now)
        # UDP that this end sends tells nothing, but the client's system answers keepalives.
        if not self._test.health.signs_of_life() and self._probed:
            quiet = max(quiet, heard_seconds(self.control))
        return quiet

    def emit(self, name, data, **more):
        event = self._emit_event(name, data, **more)
        if self._record is not None:
            self._record.add(event)

    # Step by step

    def run(self, document):
        """Run the test, in a task. document: the client's parameters."""
        try:
            yield from self.keep_waiting(self._prepare_test(document))
            yield from self._create_streams()
            yield from self._measure()
            yield from self._exchange_results()
            yield from self._finish()
        except Exception as error:
            self._fail(as_failure(error))

    def _has_tls(self):
        return isinstance(self.control, TlsSocket)

    def _add_stream(self, sock):
        """Give the test a stream whose worker runs on the CPU that the client chose (-A)."""
        cpu = self._parameters.server_affinity
        before = set_affinity(cpu) if cpu is not None else None
        try:
            self._test.add_stream(sock)
        finally:
            if before:
                with suppress(OSError):  # some are gone
                    os.sched_setaffinity(0, before)

    def keep_waiting(self, step):
        """Run a step (a generator) for which the client waits."""
        return self._clock.stop_for(step)

    def _prepare_test(self, document):
        """Do what comes before the client's streams may, in a task."""
        settings = self.settings
        self._debug_document("get_parameters", document)
        parameters = self._parameters = Parameters.from_json(document)
        if parameters.rate:
            self.emit("asked", dict(first_facts(), target_bitrate=parameters.rate))
        transport = self._transport = make_transport(settings, parameters, True)
        if settings.file and not transport.connected:
            raise IperfError(34)
        if self._has_tls() and not transport.takes_tls:
            raise IperfError(904, OSError(errno.EPROTONOSUPPORT, parameters.protocol))
        if self._has_tls() or transport.encrypts:
            parameters.zerocopy = parameters.skip_rx_copy = False  # they would go past it
        check_limits(settings, parameters)
        yield from self.resources.authorize(parameters.token)
        yield from transport.prepare(self)
        if parameters.get_server_output:
            self._record = self.resources.make_record()
        if transport.takes_turns:
            yield from self.resources.turns.await_turn(self, self.host, self._asked,
                                                       self._look_for_end)
        self._arrivals = transport.listen(self)
        for text in self._arrivals.warnings:
            self.emit("warning", text)
        yield from self.resources.calls.await_all(0.1)  # else it gets threads
        self._test = Test(transport, self.emit, self.resources.workforce)
        yield from self._test.amount.open_file(time.monotonic() + STEP_TIMEOUT)
        self._describe_test()

    def _describe_test(self):
        """Fill the start object, as far as it is known before the streams come."""
        test, parameters, transport = self._test, self._parameters, self._transport
        start, sizes = test.start, self._arrivals.sizes
        buffers = (("sock_bufsize", parameters.window), ("sndbuf_actual", sizes[0]),
                   ("rcvbuf_actual", sizes[1]))
        if transport.connected:
            start.update(buffers)
        start["timestamp"] = timestamp(time.time())
        start["accepted_connection"] = {"host": self.host, "port": self._peer[1]}
        start["cookie"] = self.cookie[:-1].decode("ascii", "replace")
        start.update(transport.segment_facts(0))
        # differs: with a rate iperf3's start object has target_bitrate twice.
        start["target_bitrate"] = parameters.rate
        start["fq_rate"] = parameters.fq_rate
        start.update(buffers)
        if self._has_tls():
            test.own["tls"] = self.control.facts()
        if transport.facts():
            test.own["quic"] = transport.facts()

    def _create_streams(self):
        """Take in the client's streams, in a task."""
        test, arrivals, count, looked = self._test, self._arrivals, 0, False
        if test.tells:
            yield from self._tell_facts()
        yield from self._send_state(CREATE_STREAMS)
        self.emit("accepted", test.start, keepalive=self._keepalive, **test.own)
        while not test.is_prepared():
            if test.is_complete():
                self._end_set_up()  # what is left of it disturbs nobody
            deadline = self._clock.stepped + STEP_TIMEOUT
            if test.is_complete():
                deadline += QUIC_TIMEOUT  # a handshake has a deadline of its own
            if len(test.streams) != count or arrivals.pending():
                self._clock.stepped, count, looked = time.monotonic(), len(test.streams), False
            elif time.monotonic() > deadline and not looked:
                looked = True
                yield from pause(0.1)  # if it was this host that stood still, they are there
            elif time.monotonic() > deadline or self._holds_up_others():
                raise IperfError(204, OSError(
                    errno.ETIMEDOUT, "timed out waiting for %d of %d streams%s" % (
                        len(test.ids) - count, len(test.ids), ": UDP may be filtered on the way"
                        if self._transport.takes_turns else "")))
            if test.is_complete():
                yield Wait(None, 0, time.monotonic() + 0.003)  # QUIC's handshakes are short
            else:
                yield from self._take_streams(deadline)
            yield from self._look_at_control()
        self._end_set_up()
        for text in self._transport.notes(test.streams):
            self.emit("warning", text)

    def _tell_facts(self):
        """Tell the client, which asked for it, what this end knows of its host, in a task."""
        device = self.settings.bind_dev or route_device(self._peer)
        document = dict(host_facts(device), version=__version__)
        if self._parameters.facts.probes:
            self._probes = ProbeService(self, self._test)
            document["probes"] = dict(self._probes.facts(), **segment_facts(self.control))
            self._clock.stepped += PROBING_TIME
        self._debug_document("send_facts", document)
        yield from write_small(self.control, encode_state(FACTS) + encode_frame(document),
                               time.monotonic() + STEP_TIMEOUT, 111)

    def _take_streams(self, deadline):
        """Wait for the client's next streams, for a moment, and take them in, in a task."""
        sockets = yield from self._arrivals.take(deadline)
        with on_error(close_all, sockets):
            for sock in sockets:
                yield from self.keep_waiting(self.resources.calls.await_all())
                self._add_stream(sock)
                yield from pause(0)  # a new process takes milliseconds: others have a turn

    def _look_for_end(self):
        """Wait for a moment for what can only be the end of the test (raised), in a task."""
        if (yield Wait(self.control, READ, time.monotonic() + 0.02)) == READY:
            yield from self._read_state()

    def _holds_up_others(self):
        """Return whether a client takes too long while others of its address wait."""
        now = time.monotonic()
        return self.resources.turns.must_end(self, now, now - self._clock.stepped)

    def _end_set_up(self):
        """Release what only the set-up of the streams needs."""
        if self._arrivals is not None:
            self._arrivals.close()
        if self._probes is not None:
            self._probes.end_set_up()
        self.resources.turns.end(self)

    def _look_at_control(self):
        """See whether the client has ended the test before it began (raised), in a task."""
        try:
            self.control.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        if self._arrivals.interrupted or not self._test.is_prepared():
            yield from self._read_state()

    def _send_state(self, state):
        self._debug(3, "State change: State set to " + state_text(state))
        self.phase = state
        yield from write_all(self.control, encode_state(state),
                             time.monotonic() + STEP_TIMEOUT, 111)

    def _read_state(self):
        """Read a state byte of the client: TEST_END, or the end of the test (raised)."""
        def fail(cause, _):
            if cause is None or isinstance(cause, ConnectionError):
                return IperfError(109)
            return IperfError(112, cause)
        data = yield from read_exactly(self.control, 1, time.monotonic() + STEP_TIMEOUT, fail)
        state, = struct.unpack("!b", data)
        if state == TEST_END and self.phase == TEST_RUNNING:
            return
        yield from end_by_client(state)
        raise IperfError(110)

    def _measure(self):
        test, parameters = self._test, self._parameters
        yield from self._send_state(TEST_START)
        test.start_clock()
        yield from self._send_state(TEST_RUNNING)
        test.open_gate()
        over = time.monotonic() + parameters.omit + parameters.time
        limit = self.settings.server_bitrate_limit
        meter = RateMeter(round(limit[1])) if limit and limit[0] else None
        while True:
            test.advance(time.monotonic())
            deadline = test.deadline()
            if meter:
                rate = meter.look(time.monotonic(), test.total_bytes())
                if rate > limit[0]:
                    raise too_fast(self.settings, "Total throughput", rate)
                deadline = min(deadline, meter.next)
            reason = yield Wait(self.control, READ, deadline)
            now = time.monotonic()
            if reason == READY:
                yield from self._read_state()
                break
            test.health.check(now)
            if parameters.time and now > over + WATCHDOG_GRACE:
                raise IperfError(160, OSError(getattr(errno, "ETIME", errno.ETIMEDOUT),
                                              "test is terminated by the server"))
            if parameters.time and now > over + OVERTIME:
                self._transport.end_senders(test.streams)
        self._clock.step()
        yield from self.keep_waiting(test.stop(now))
        test.end_streams()
        test.emit_last_interval()
        test.emit_end()

    def _exchange_results(self):
        test, sock = self._test, self.control
        yield from self._send_state(EXCHANGE_RESULTS)
        limit = results_limit(len(test.ids), test.tells)
        document = yield from read_frame(sock, self._clock.step(), limit, 117, end_by_client)
        self._debug_document("get_results", document)
        test.take_remote(results_from_json(document, test.ids))
        output, self._record = self._record and self._record.server_output(), None
        document = results_to_json(test.results(output))
        self._debug_document("send_results", document)
        write = write_small if test.tells else write_all
        yield from write(sock, encode_frame(document), time.monotonic() + REPLY_TIMEOUT, 116)
        yield from self._send_state(DISPLAY_RESULTS)
        test.emit_diagnosis()

    def _finish(self):
        try:
            yield from read_exactly(self.control, 1, self._clock.step(),
                                    lambda cause, _: IperfError(108, cause))
        except IperfError:
            pass  # 3.2 and 3.3 close here; the test is complete in any case
        yield from self.keep_waiting(self._test.settle())
        self._test.close()
        self._done(True)

    def _done(self, ok):
        """Report the end of the test, and let the next client in while this one closes."""
        parameters, self.phase = self._parameters, IPERF_DONE
        self.emit("done", None, ok=ok, title=parameters.title if parameters else None,
                   extra_data=parameters.extra_data if parameters else None)
        self._complete(self)

    def _fail(self, error):
        """Report why the test is over, also to the client."""
        test = self._test
        reported = self.phase in (EXCHANGE_RESULTS, DISPLAY_RESULTS, IPERF_DONE)
        if test is not None:
            error = test.health.explain(error)
        self._end_set_up()
        interrupted, quiet = isinstance(error, Interrupted), isinstance(error, Quit)
        if interrupted:
            last_words = encode_state(SERVER_TERMINATE)
        else:
            last_words = b"" if quiet else encode_error(error)
        if test is not None and not reported:
            test.finish(time.monotonic())
            test.emit_last_interval()
        if not quiet:
            text = server_error_text(error)
            self.emit("error", text, line=with_remark(error, text))
        if test is None:
            self.emit("end", {})
        elif not reported:
            test.emit_end(test.started)
        # Before the data connections break, which would be all that the client knows.
        send_last(self.control, last_words)
        if test is not None:
            test.close()
        self._done(False)


###############################################################################
# renderers ###################################################################
###############################################################################
# Events to lines. Nothing is computed here but layout, and nothing is laid out
# elsewhere. A renderer's render(event) returns the lines to print, without the
# ends of lines; blanks at the end of a line are iperf3's. A renderer knows one
# test; PerTest has one for each test of a server.

_SEPARATOR = " ".join("-" * 25)
_RULE = "-" * 59

# What -V says of a control connection, by the member of the event.
_CONTROL_LINES = (
    ("keepalive", "Control connection TCP Keepalive TCP_KEEPIDLE/TCP_KEEPINTVL/TCP_KEEPCNT are set"
                  " to %d/%d/%d"),
    ("control_mss", "Control connection MSS %d"),
    ("udp_block", "Setting UDP block size to %d"))
# iperf3: these bear neither title nor stamp.
_UNTITLED = ("Control connection TCP Keepalive ", "Control connection MSS ",
             "Setting UDP block size ")

_PLAIN, _RETR, _RETR_CWND = "", "         Retr", "         Retr  Cwnd"
_JITTER_LOST = "         Jitter    Lost/Total Datagrams"
# What an interval's header has behind the bitrate: of the first figure that its rows have.
_INTERVAL_COLUMNS = (("jitter_ms", _JITTER_LOST), ("packets", "         Total Datagrams"),
                     ("retransmits", _RETR_CWND))


def error_lines(event, named=False):
    """Return what an error or warning event puts on standard error in text mode.

    named: with the number of the test.
    """
    tag = test_tag(event) if named else ""
    if event["event"] == "warning":
        return ["warning: %s%s" % (tag, printable(event["data"]))]
    return error_line(tag + printable(event["line"])).split("\n")


def test_tag(event):
    """Return what tells the lines of one test from another's, "" for those of no test."""
    if "phase" in event:
        return "%s: " % event["phase"]
    return "#%d: " % event["test"] if event.get("test") else ""


class PerTest:
    """Render the events of a driver: those of each test by a renderer of its own."""

    def __init__(self, make):
        """make: a function that returns the renderer of one test."""
        self._make = make
        self._renderers = {}  # by the number of the test, None for what is no test's
        self._version = None  # the event that each test begins with

    def render(self, event):
        number = event.get("test")
        renderer = self._renderers.pop(number, None)
        if renderer is None:
            renderer = self._make()
            if self._version is not None:
                renderer.render(self._version)
        if event["event"] == "version":
            self._version = event
        if event["event"] != "done":
            self._renderers[number] = renderer
        return renderer.render(event)


def check_line(check, both_ways):
    """Return the line about a limit, without `sender`: some read the last that has it.

    both_ways: the test had two directions.
    """
    head = "Check " + check["name"]
    if check["direction"] and (both_ways or check["name"] == "min-mtu"):
        head += " " + check["direction"]
    value, bound, unit = check["value"], check["limit"], check["unit"]
    if unit == "bit/s":
        power = next((power for power in (3, 2, 1) if bound >= 1000 ** power), 0)
        value, bound = (each and each / 1000.0 ** power for each in (value, bound))
        unit = ("", "K", "M", "G")[power] + unit
    unit = " " + unit if unit not in ("%", "") else unit
    numbers = check["name"] != "min-grade"
    if check["state"] == "unknown":
        bound, _ = format_apart(bound, bound) if numbers else (bound, bound)
        return "%s: unknown: %s (limit %s%s)" % (head, check["reason"], bound, unit)
    value, bound = format_apart(value, bound) if numbers else (value, bound)
    good, least = check["state"] == "ok", check["name"].startswith("min-")
    sign = {(True, True): ">=", (True, False): "<=", (False, True): "<"}.get((good, least), ">")
    return (head + (": %s %s %s%s ok (%s)" if good else ": FAILED: %s %s %s%s (%s)")
            % (value, sign, bound, unit, check["figure"]))


class TextRenderer:
    """Text as iperf3 prints it."""

    def __init__(self, verbose=False, letter=None, title=None, named=False):
        """letter: of -f, None for adaptive; title: of -T; named: with the number of the test."""
        self._verbose = verbose
        self._letter = letter or "a"
        self._title = title
        self._named = named
        self._server = self._bidir = False
        self._parallel = 1
        self._test_start = None
        self._header_done = False
        self._server_output = []  # to be printed behind the first direction's summary

    def render(self, event):
        self._server = event.get("server")
        method = getattr(self, "_on_" + event["event"], None)
        lines = method(event) if method else []
        if self._title is not None:
            # iperf3: the lines about the control connection go past the title.
            lines = [line if line.startswith(_UNTITLED) else "%s:  %s" % (self._title, line)
                     for line in lines]
        return [test_tag(event) + line for line in lines] if self._named else lines

    # Moments

    def _on_version(self, event):
        data = event["data"]
        return [data["version"], data["system_info"]] if self._verbose else []

    def _on_listening(self, event):
        return [_RULE, "Server listening on %(port)d (test #%(test)d)" % event["data"], _RULE]

    def _on_connecting(self, event):
        place = event["data"]["connecting_to"]
        lines = ["Connecting to host %(host)s, port %(port)d" % place]
        if event.get("reverse"):
            lines.append("Reverse mode, remote host %s is sending" % place["host"])
        return self._preface(event) + lines + self._facts(event)

    def _on_accepted(self, event):
        line = "Accepted connection from %(host)s, port %(port)d"
        return (self._preface(event) + [line % event["data"]["accepted_connection"]]
                + self._facts(event))

    def _preface(self, event):
        """Return what -V says of a control connection before its addresses."""
        if not self._verbose:
            return []
        lines = [text % event[name] for name, text in _CONTROL_LINES
                 if event.get(name) is not None]
        return lines + ["Time: %s" % event["data"]["timestamp"]["time"]]

    def _facts(self, event):
        data = event["data"]
        if not self._verbose:
            return []
        lines = ["      Cookie: %s" % data["cookie"]]
        for name in ("tls", "quic"):
            facts = dict(event.get(name) or {})
            trust = {True: ["certificate verified"], False: ["certificate not verified"]}.get(
                facts.pop("verified", None), [])
            if facts:
                lines.append("      %s: %s" % (name.upper(), ", ".join(
                    list(facts.values()) + trust)))
        if "tcp_mss" in data:
            lines.append("      TCP MSS: %d" % data["tcp_mss"])
        elif "tcp_mss_default" in data:
            lines.append("      TCP MSS: %d (default)" % data["tcp_mss_default"])
        if data["target_bitrate"]:
            lines.append("      Target Bitrate: %d" % data["target_bitrate"])
        return lines

    def _on_connection(self, event):
        data = event["data"]
        return ["connection establishment time: %.3f ms" % (data["connect_seconds"] * 1000.0),
                "time to first byte: %.3f ms" % (data["first_byte_seconds"] * 1000.0)]

    def _on_mtu(self, event):
        return [printable(line) for line in mtu_lines(event["data"])]

    def _on_connected(self, event):
        return ["[%(socket)3d] local %(local_host)s port %(local_port)d connected to"
                " %(remote_host)s port %(remote_port)d" % event["data"]]

    def _on_start(self, event):
        what = self._test_start = event["data"]["test_start"]
        self._parallel, self._bidir = what["num_streams"], bool(what["bidir"])
        if not self._verbose:
            return []
        length = "%(duration)d second test"
        if what["bytes"] or what["blocks"]:
            length = "%(bytes)d bytes to send" if what["bytes"] else "%(blocks)d blocks to send"
        return [("Starting Test: protocol: %(protocol)s, %(num_streams)d streams, %(blksize)d byte"
                 " blocks, omitting %(omit)d seconds, " + length + ", tos %(tos)d") % what]

    def _on_measuring(self, event):
        if self._verbose and not self._test_start["interval"]:
            return ["Finished omit period, starting real test"]
        return []

    def _on_server_output_text(self, event):
        self._server_output = ["\nServer output:\n" + printable(event["data"])]
        return []

    def _on_server_output_json(self, event):
        self._server_output = ["\nServer JSON output:\n" + printable(
            encode_json(event["data"], 0))]
        return []

    def _on_done(self, event):
        if event["ok"] and not event.get("server") and not event.get("brief"):
            return ["", "iperf Done."]
        return []

    # Rows

    def _role(self, sender):
        if not self._bidir:
            return ""
        return "[%sX-%s]" % ("T" if sender else "R", "S" if self._server else "C")

    def _header(self, columns):
        return "[ ID]%s Interval           Transfer     Bitrate%s" % (
            "[Role]" if self._bidir else "", columns)

    @staticmethod
    def _own_columns(figures):
        """Return what our own member of an interval's sum shows behind the row."""
        own = figures.get("pyperf3", {})
        columns = ""
        if "latency_samples" in own:
            pair = (["-"] if "latency_p50_ms" not in own else
                    [latency_text(own[name]) for name in ("latency_p50_ms", "latency_max_ms")])
            columns = "%14s ms" % "/".join(pair)
        if "lost_packets" in own:
            columns += "%18s" % ("%d/%d (%.2g%%)" % (own["lost_packets"], own["packets"],
                                                     own["lost_percent"]))
        return columns

    def _with_own_header(self, data, rows, header):
        """Return a header with what stands over our own columns of the rows."""
        own = [data[name].get("pyperf3", {}) for name in data if name.startswith("sum")]
        if not any(own):
            return header
        width = len(rows[-1]) - max(len(self._own_columns({"pyperf3": each})) for each in own)
        lost = any("lost_packets" in each for each in own)
        return header.ljust(width) + "      Lat p50/max" + "      Lost on arrival" * lost

    def _row(self, figures, end):
        """Return the row of an object with a rate. end: the word at its end."""
        number = figures.get("socket")
        return "[%s]%s %6.2f-%-6.2f sec  %ss  %ss/sec%s%s" % (
            "SUM" if number is None else "%3d" % number, self._role(figures["sender"]),
            figures["start"], figures["end"], format_units(figures["bytes"], "A"),
            format_units(figures["bits_per_second"] / 8.0, self._letter),
            self._columns(figures), end)

    def _columns(self, figures):
        """Return what a row has between its bitrate and its end."""
        if "jitter_ms" in figures:
            return "  %5.3f ms  %s  " % (figures["jitter_ms"], self._loss(figures))
        if "packets" in figures:
            return " %s %d  " % (" " * 10 if self._bidir else "", figures["packets"])
        if figures.get("retransmits") is None:
            return " " * 18
        columns = "  %3d" % figures["retransmits"]
        if "snd_cwnd" in figures:
            return columns + "   %ss       " % format_units(figures["snd_cwnd"], "A")
        return columns + " " * (12 if "socket" in figures else 13)

    @staticmethod
    def _loss(figures):
        """Return the lost datagrams of a row, unknown if lost_packets is None."""
        lost, share = figures["lost_packets"], figures["lost_percent"]
        if lost is None:
            return "Unknown/%d" % figures["packets"]
        # differs: iperf3 has 1e+02 from 99.5 on.
        return "%d/%d (%s%%)" % (lost, figures["packets"],
                                 ("%.2g" if share < 99.5 else "%.0f") % share)

    def _on_interval(self, event):
        data, lines = event["data"], []
        if self._header_done:
            lines += [_SEPARATOR] * (self._parallel > 1)
        for suffix, rows in directions(data["streams"], self._parallel, self._bidir):
            if rows and self._parallel > 1:
                rows = rows + [data["sum" + suffix]]
            lines += [self._row(row, "(omitted)" if row["omitted"] else "") for row in rows]
            if rows:
                lines[-1] += self._own_columns(data["sum" + suffix])
        if not self._header_done:
            self._header_done = True
            # iperf3: a -R client whose first report is its last knows of the server's count.
            late = event.get("remote_retransmits") and not self._server
            lines.insert(0, self._with_own_header(data, lines, self._header(next(
                (columns for name, columns in _INTERVAL_COLUMNS
                 if any(name in row for row in data["streams"])), _RETR_CWND if late else _PLAIN))))
        return lines

    def _on_end(self, event):
        data = event["data"]
        if not data or "streams" not in data:
            return []
        if self._test_start is None:  # interrupted before there were streams
            self._parallel, self._bidir = event.get("parallel", 1), event.get("bidir")
        lines = self._own_lines(event) + [_SEPARATOR]
        if self._verbose:
            lines.append("Test Complete. Summary Results:")
        datagrams = "sum" in data
        counted = any("retransmits" in data[name] for name in data if name.startswith("sum_sent"))
        lines.append(self._header(_JITTER_LOST if datagrams else _RETR if counted else _PLAIN))
        for number, rows in enumerate(event["rows"]):
            for row in rows if self._parallel > 1 else rows[:-1]:
                lines += self._summary_rows(row, datagrams)
            if self._verbose and (datagrams or rows[1:]):
                if rows[-1].totals.sender:
                    lines += self._cpu_lines(data["cpu_utilization_percent"])
                lines += self._congestion_lines(data, number)
            lines, self._server_output = lines + self._server_output, []
        if "latency" in data.get("pyperf3", {}):
            lines += [printable(line) for line in latency_lines(data["pyperf3"]["latency"])]
        return lines

    def _on_diagnosis(self, event):
        lines = verdict_lines(event["data"].get("verdict", ()))
        lines += [check_line(check, self._bidir) for check in event["data"].get("checks", ())]
        return [printable(line) for line in lines]

    def _own_lines(self, event):
        """Return the lines about what iperf3 does not know: QUIC, encryption's cost, drops.

        Readers count the rows of a summary from its end, or take the last one that begins with
        [SUM] or [ 5], or holds `sender`, `connected` or CPU: these stand before it, and do none
        of that.
        """
        data, lines = event["data"], []
        own = data.get("pyperf3", {})
        for row, figures in zip(data["streams"], own.get("quic_streams", ())):
            parts = ["%d packets sent" % figures["packets_sent"]]
            if "packets_lost" in figures:
                parts.append("%d lost" % figures["packets_lost"])
            if "datagram_size" in figures:
                parts.append("datagrams of %d bytes" % figures["datagram_size"])
            if "connect_seconds" in figures:
                parts[:0] = ["handshake in %.3f ms" % (figures["connect_seconds"] * 1000.0),
                             "first byte after %.3f ms" % (figures["first_byte_seconds"] * 1000.0)]
            lines.append("QUIC on %d: %s" % (row["sender"]["socket"], ", ".join(parts)))
        cpu, bound = data["cpu_utilization_percent"], own.get("cpu_bound", ())
        for name, title in (("host", "local"), ("remote", "remote")):
            if title in bound:
                lines.append("Encryption kept the %s end busy: %.1f%% of a core" % (
                    title, cpu[name + "_total"]))
        for row in itertools.chain(*event["rows"]) if self._verbose else ():
            if row.totals.drops and row.totals.socket is not None:
                lines.append("UDP on %d: %s%d dropped on arrival, its socket buffer was full" % (
                    row.totals.socket, "up to " * ("host_dropped_pieces" in own),
                    row.totals.drops))
        return lines

    def _summary_rows(self, row, datagrams):
        """Return the lines of a SummaryRow. datagrams: it is of a UDP test."""
        sent, received, totals, diskfile = row
        sender, number, between = totals.sender, totals.socket, []
        if totals.out_of_order and number is not None:
            between.append("[SUM]%s %4.1f-%4.1f sec  %d datagrams received out-of-order" % (
                self._role(sender), received["start"], received["end"], totals.out_of_order))
        if diskfile:
            side = "sent" if sender else "received"
            between.append("        Sent %s / %s (%d%%) of %s" % (
                format_units(diskfile[side], "A"), format_units(diskfile["size"], "A"),
                diskfile["percent_" + side], diskfile["filename"]))

        def side_lines(side, figures, known):
            if known:
                return [self._row(dict(figures, sender=sender), side)]
            if self._verbose and (number is not None or not datagrams):
                return ["[%s] (%s statistics not available)" % (
                    "SUM" if number is None else "%3d" % number, side)]
            return []
        return (side_lines("sender", sent, sender or not self._server) + between
                + side_lines("receiver", dict(received, lost_packets=totals.lost),
                             not (sender and self._server)))

    def _cpu_lines(self, cpu):
        ends = [("sender", "receiver")] + ([("receiver", "sender")] if self._bidir else [])
        return [("CPU Utilization: local/" + local + " %(host_total).1f%% (%(host_user).1f%%u/"
                 "%(host_system).1f%%s), remote/" + remote + " %(remote_total).1f%%"
                 " (%(remote_user).1f%%u/%(remote_system).1f%%s)") % cpu
                for local, remote in ends]

    def _congestion_lines(self, data, number):
        """number: of the direction."""
        names = [data.get("sender_tcp_congestion"), data.get("receiver_tcp_congestion")]
        if self._bidir and not number:
            names.reverse()  # the end object names those of the second direction
        return ["%s_tcp_congestion %s" % pair for pair in zip(("snd", "rcv"), names) if pair[1]]


class SurveyTextRenderer(TextRenderer):
    """What the tests of --diagnose come to, on one screen: 24 lines of 80 columns."""

    _WIDTH, _HEIGHT = 79, 24
    _COLUMNS = "%-10s %-12s %-8s %-16s %-13s %s"

    def __init__(self, verbose=False, letter=None, title=None, told=False):
        """told: a line at a terminal tells how far it is, so that it needs none for each test."""
        TextRenderer.__init__(self, verbose, letter, title)
        self._told = told
        self._tests = PerTest(lambda: TextRenderer(verbose, letter, title, True))

    def render(self, event):
        if event["event"] in ("phase", "diagnose"):
            return TextRenderer.render(self, event)
        return self._tests.render(event) if self._verbose and "phase" in event else []

    def _on_phase(self, event):
        data = event["data"]
        if self._told or data["begins"]:
            return []
        return [printable("%s: %s" % (way_of(row), self._brief(row))) for row in data["rows"]]

    def _brief(self, row):
        rate = self._rate(row) if "rate_bps" in row else ""
        return ", ".join(filter(None, (rate, row.get("error"))))

    def _rate(self, row):
        if "rate_bps" not in row:
            return "-"
        if self._letter == "a":
            return _rate_text(row["rate_bps"])
        return format_units(row["rate_bps"] / 8.0, self._letter).strip() + "/s"

    def _on_diagnose(self, event):
        data = event["data"]
        if not (data["mtu"] or data["idle"] or any("rate_bps" in row for row in data["rows"])):
            return []  # nothing is known but the error
        top = self._head(data) + [""] + self._table(data)
        limits, advice = self._limits(data), self._advice(data)
        checks = self._check_lines(data["checks"])
        # What to do has its place before what else stands out.
        room = self._HEIGHT - len(top) - len(checks) - 2
        advice = self._fit(advice, max(3, room - sum(map(len, limits[:4]))))
        limits = self._fit(limits, max(1, room - len(advice)))
        lines = ([""] if self._verbose else []) + top + [""]
        lines += (limits + [""] if limits else []) + advice + checks
        return [printable(line) for line in lines]

    @staticmethod
    def _fit(blocks, room):
        """Return the lines of as many blocks of them as there is room for."""
        lines = []
        for block in blocks:
            if lines and len(lines) + len(block) > room:
                break
            lines += block
        return lines

    def _wrap(self, head, text):
        """Return the lines of a text, those behind the first one set in below it."""
        import textwrap
        return textwrap.wrap(text, self._WIDTH, initial_indent=head, break_long_words=False,
                             subsequent_indent="    ", break_on_hyphens=False)

    # The parts of the screen

    def _head(self, data):
        place = data["host"] if data["address"] in (None, data["host"]) else "%s (%s)" % (
            data["host"], data["address"])
        stamp = data["timestamp"]["time"] if data["timestamp"] else ""
        what = "Tests: %s, %s s each, %s stream%s%s; here pyperf3 %s, there %s" % (
            data["protocol"] or "none", data["seconds"], data["streams"],
            "s" * (data["streams"] != 1),
            ", " + data["congestion"] if data["congestion"] else "", __version__,
            data["server"] or "an iperf3")
        lines = self._wrap("", "Diagnosis of %s, port %d, %s" % (place, data["port"], stamp))
        lines += self._wrap("", what) if data["protocol"] else []
        texts = mtu_lines(data["mtu"]) if data["mtu"] else [
            "Path MTU: unknown: the first test did not come that far."]
        lines += self._wrap("", " ".join(" ".join(texts).split()))
        return lines + self._wrap("", "Latency when idle: " + self._idle_text(data))

    @staticmethod
    def _idle_text(data):
        idle = data["idle"]
        if not idle or "p50_ms" not in idle:
            reasons = [row["latency"]["reason"] for row in data["rows"]
                       if "reason" in row.get("latency", ())]
            return "not measured" + (": %s" % reasons[0] if reasons else "")
        source = next((row["latency"]["source"] for row in data["rows"]
                       if row.get("latency", {}).get("source")), None)
        text = "%s ms, 95 %% below %s ms" % (
            latency_text(idle["p50_ms"]), latency_text(idle.get("p95_ms", idle["p50_ms"])))
        if idle.get("lost"):
            text += ", %d of %d lost" % (idle["lost"], idle.get("sent", 0))
        return text + (" (%s)" % _SOURCES[source] if source else "")

    def _table(self, data):
        datagrams = data["protocol"] == "UDP"
        lines = [self._COLUMNS % ("", "Bitrate", "Lost" if datagrams else "Resent",
                                  "Latency p50/p95", "Grade", "RPM")]
        rows = {(row["phase"], row["direction"]): row for row in data["rows"]}
        for test in SURVEY_TESTS:
            for way in test.ways:
                row = rows.get((test.name, way), {"phase": test.name, "direction": way})
                lines.append(self._table_row(row))
        return [line.rstrip() for line in lines]

    def _table_row(self, row):
        cells = self._cells(row)
        if len(cells) == 2:
            return self._wrap("%-10s " % cells[0], cells[1])[0]
        if len(cells) == 4:
            return self._wrap("", "%-10s %-12s %-8s %s" % cells)[0]
        return self._COLUMNS % cells

    def _cells(self, row):
        """Return the texts of a row: of all columns, or with a reason in place of the last ones."""
        name = way_of(row)
        if "rate_bps" not in row:
            return name, "not measured: " + row.get("error", "it was not begun")
        lost = "-"
        if "lost_percent" in row or "retransmitted_percent" in row:
            lost = row.get("lost_percent", row.get("retransmitted_percent"))
            lost = "<0.01 %" if 0 < lost < 0.01 else _percent_text(lost / 100.0)
        elif "retransmits" in row:
            lost = "%d" % row["retransmits"]
        if "error" in row:
            return name, self._rate(row), lost, "ended early: " + row["error"]
        latency = row["latency"]
        if "p50_ms" not in latency:
            return name, self._rate(row), lost, "not measured", "", ""
        pair = ["%.0f" % each if each >= 99.95 else latency_text(each) for each in
                (latency["p50_ms"], latency.get("p95_ms", latency["p50_ms"]))]
        if not row["rate_bps"]:
            latency = {}  # without a load they tell nothing
        grade = latency.get("grade") or "-"
        if latency.get("increase_ms") is not None:
            grade += " (%+d ms)" % round(latency["increase_ms"])
        rpm = "-"
        if latency.get("rpm"):  # millions of a path within a host
            rpm = "%s%d %s" % (">" * (latency["rpm"] > 9999), min(9999, latency["rpm"]),
                               latency.get("rpm_class", ""))
        return name, self._rate(row), lost, "%s / %s ms" % tuple(pair), grade, rpm

    def _limits(self, data):
        """Return the blocks of lines about what limited each direction, and what else is odd."""
        limits = collections.OrderedDict()
        for row in data["rows"]:
            if row.get("limit"):
                key = row["limit"]["code"], row["limit"]["end"]
                limits.setdefault(key, []).append(row)
        blocks = [self._wrap(ways_text(list(map(way_of, rows))) + ": ",
                             self._limit_text([row["limit"] for row in rows]) + ".")
                  for rows in limits.values()]
        return blocks + self._unmeasured(data) + [
            self._wrap("Also%s: " % self._whose(note), note["sentence"] + ".")
            for note in data["notes"]]

    @staticmethod
    def _limit_text(found):
        """Return the sentence of a limit that several rows have."""
        if found[0]["code"] != "queue" or not found[1:]:
            return found[0]["sentence"]
        longest = max(found, key=lambda each: each["evidence"].get("added_us", 0))
        return longest["sentence"].replace("adds", "adds up to")

    def _unmeasured(self, data):
        """Return a block for each reason why the latency of a test is not known."""
        reasons = collections.OrderedDict()
        for row in data["rows"]:
            if "reason" in row.get("latency", ()) and "error" not in row:
                reasons.setdefault(row["latency"]["reason"], []).append(way_of(row))
        # Of all tests the line about the idle path says it.
        return [self._wrap("Latency %s: " % ways_text(ways), "not measured: %s." % reason)
                for reason, ways in reasons.items() if data["idle"]]

    @staticmethod
    def _whose(note):
        """Return the directions of a note, "" of one about a host."""
        whole = note["code"] in ("same_host", "unseen", "starved", "duplex", "slow_port",
                                 "both_ways")
        return "" if whole else " " + ways_text(note["ways"])

    def _advice(self, data):
        head = "What to do:"
        if data["healthy"]:
            head += " nothing stands out." + " For more yet:" * bool(data["advice"])
        elif not data["advice"]:
            head += " no advice can be given."
        return [[head]] + [self._wrap("%2d. " % number, self._of_one_way(each))
                           for number, each in enumerate(data["advice"], 1)]

    @staticmethod
    def _of_one_way(advice):
        """Return the text, with the direction if it is about what lies on the way of one."""
        if advice["code"] in ON_THE_WAY and len(advice["directions"]) == 1:
            return "%s: %s" % (advice["directions"][0].capitalize(), advice["text"])
        return advice["text"]

    def _check_lines(self, checks):
        """Return the lines of limits that were missed, or are not known; and how many are kept."""
        kept, lines = 0, []
        for check in checks:
            if check["state"] == "ok":
                kept += 1
            else:
                lines.append("%s: %s" % (check["phase"],
                                         check_line(check, check["phase"] == "both")))
        return lines + ["Checks: %d of %d kept" % (kept, len(checks))] if checks else []


class JsonRenderer:
    """The document of a test, as `-J` prints it."""

    def __init__(self, room=None):
        """room: letters that the intervals may take."""
        self._document = Document(room=room)

    def render(self, event):
        self._document.add(event)
        if event["event"] != "done":
            return []
        return [escape_steering(encode_json(self._document.members(), 0))]


class JsonStreamRenderer:
    """One event per line, as `--json-stream` prints them."""

    _EVENTS = ("start", "interval", "error", "server_output_text", "server_output_json")

    def __init__(self, full=False, named=False, room=None):
        """full: print the whole document behind the end event, see JsonRenderer for its `room`;
        named: the test's number, too.
        """
        self._whole = JsonRenderer(room) if full else None
        self._named = named
        self._end = {}

    def render(self, event):
        lines, name = [], event["event"]
        if name == "end":
            self._end = event["data"]  # it is always the last
        elif name == "diagnosis":
            self._end = with_own(self._end, event["data"])
        elif name == "done":
            lines.append(self._line(event, "end", self._end))
        elif name in self._EVENTS:
            lines.append(self._line(event, name, event.get("first", event["data"])))
        if self._whole:
            lines += self._whole.render(event)
        return lines

    def _line(self, event, name, data):
        line = {"event": name, "data": data}
        if self._named and event.get("test"):
            line["test"] = event["test"]
        if "phase" in event:
            line["phase"] = event["phase"]
        return escape_steering(encode_json(line))


class MessageRenderer:
    """What goes to standard error: warnings and -d's texts at once, errors behind the summary."""

    def __init__(self, debug=0, named=False):
        """debug: the level of -d; named: with the number of the test."""
        self._debug = debug
        self._named = named
        self._errors = []

    def render(self, event):
        name = event["event"]
        if name == "warning":
            return error_lines(event, self._named)
        if name == "far":
            return [event["data"]]
        if name == "relayed" and event["is_error"]:
            return [printable(line) for line in event["data"]]
        if name == "debug" and event["level"] <= self._debug:
            tag = test_tag(event) if self._named else ""
            return [tag + line for line in event["data"].split("\n")]
        if name == "error":
            self._errors += error_lines(event, self._named)
        return self._errors if name == "done" else []


class WholeJsonRenderer:
    """The document of several tests, --diagnose or --mesh, as `-J` prints it."""

    def render(self, event):
        if event["event"] not in OF_SEVERAL:
            return []
        return [escape_steering(encode_json(whole_document(event), 0))]


class SurveyStreamRenderer(JsonStreamRenderer):
    """The events of the tests of --diagnose, with the test's name, and then the summary."""

    def __init__(self, full=False):
        """full: print the whole document behind it."""
        JsonStreamRenderer.__init__(self)
        self._tests = PerTest(JsonStreamRenderer)
        self._whole = WholeJsonRenderer() if full else None

    def render(self, event):
        if event["event"] != "diagnose":
            return self._tests.render(event) if "phase" in event else []
        lines = [self._line(event, "diagnose", event["data"])]
        return lines + (self._whole.render(event) if self._whole else [])


def make_survey_renderer(settings, told, text=SurveyTextRenderer):
    """Return what renders the events of a Survey.

    told: of SurveyTextRenderer; text: what makes such a one.
    """
    if settings.json_stream:
        return SurveyStreamRenderer(settings.json_stream_full_output)
    if settings.json:
        return WholeJsonRenderer()
    return text(settings.verbose, settings.format, settings.title, told)


class RelayRenderer:
    """What a client on another host prints, as it came; if none does, what renders errors."""

    def __init__(self, own):
        """own: the renderer of what this end has to say."""
        self._own = own
        self._relays = False

    def render(self, event):
        if event["event"] == "relayed":
            self._relays = True
            return [] if event["is_error"] else [printable(line) for line in event["data"]]
        relays = self._relays or event.get("relayed")
        if event["event"] == "done":  # of --repeat the next one may fail before it has any
            self._relays = False
        return [] if relays else self._own.render(event)


# Of -f, the unit and the bits in it; "a": whatever fits.
_MESH_UNITS = {"k": ("Kbits/s", 1e3), "m": ("Mbits/s", 1e6), "g": ("Gbits/s", 1e9),
               "t": ("Tbits/s", 1e12), "K": ("KBytes/s", 8e3), "M": ("MBytes/s", 8e6),
               "G": ("GBytes/s", 8e9), "T": ("TBytes/s", 8e12)}


class MeshTextRenderer:
    """The tests of --mesh as a table: rows from, columns to; and what stands out."""

    def __init__(self, letter=None, told=False, verdicts=False):
        """told: a line at a terminal tells how far it is; verdicts: print those of the tests."""
        self._letter, self._told, self._verdicts = letter, told, verdicts
        self._missing = ()  # why hosts are left out

    def render(self, event):
        make = getattr(self, "_on_" + event["event"], None)
        return [printable(line) for line in make(event["data"])] if make else []

    def _on_announce(self, data):
        hosts, pairs, seconds = data["hosts"], data["pairs"], data["seconds"]
        time = " of %g s" % seconds if seconds else ""
        whole = ", about %s" % self._duration(pairs * (seconds + 1)) if seconds else ""
        self._missing = set(data["missing"].values())
        return ["%d hosts, %d tests%s one after the other%s" % (len(hosts), pairs, time, whole)] + [
            "%s is left out: %s" % pair for pair in data["missing"].items()]

    @staticmethod
    def _duration(seconds):
        return "%.0f s" % seconds if seconds < 120 else "%.0f min" % (seconds / 60.0)

    def _on_cell(self, cell):
        if self._told or cell.get("error") in self._missing:
            return []
        return ["%s -> %s: %s" % (cell["from"], cell["to"], cell.get("error") or
                                  _rate_text(cell["bits_per_second"]))]

    def _on_mesh(self, data):
        cells = {(cell["from"], cell["to"]): cell for cell in data["cells"]}
        if not cells:
            return []
        names = [host["name"] for host in data["hosts"]]
        lines = [""] + self._rates(names, cells)
        for key, title in (("rtt_ms", "RTT, ms"), ("latency_ms", "loaded, ms")):
            if any(key in cell for cell in cells.values()):
                lines += [""] + self._table(title, names, cells, lambda cell, key=key: (
                    self._number(cell[key]) if key in cell else ""))
        return lines + self._sentences(data)

    def _rates(self, names, cells):
        highest = max([cell.get("bits_per_second", 0.0) for cell in cells.values()])
        letter = self._letter or ("g" if highest >= 1e10 else "m" if highest >= 1e6 else "k")
        unit, bits = _MESH_UNITS[letter]

        def text(cell):
            if "bits_per_second" not in cell:
                return "failed"
            return self._number(cell["bits_per_second"] / bits) + "!" * ("slow" in cell["marks"])
        medians = []
        for name in names:
            rates = [cell["bits_per_second"] / bits for (start, _), cell in cells.items()
                     if start == name and "bits_per_second" in cell]
            medians.append(self._number(median(rates)) if rates else "")
        return self._table(unit, names, cells, text, medians)

    @staticmethod
    def _number(value):
        return "%.*f" % (0 if value >= 99.95 else 1 if value >= 9.995 else 2, value)

    @staticmethod
    def _table(title, names, cells, text, last=None):
        """Return the lines of a table. text: of a cell; last: what the last column says."""
        rows = [[title] + ["to " + name for name in names] + (["median"] if last else [])]
        for number, start in enumerate(names):
            row = ["from " + start]
            for end in names:
                cell = cells.get((start, end))
                row.append("-" if start == end else text(cell) if cell else "")
            rows.append(row + (last[number:number + 1] if last else []))
        widths = [max(len(row[column].rstrip("!")) for row in rows)
                  for column in range(len(rows[0]))]
        return ["  ".join([row[0].ljust(widths[0])] + [
            # What marks a number stands behind its column.
            each.rjust(width + each.endswith("!"))
            for each, width in zip(row[1:], widths[1:])]).replace("!  ", "! ").rstrip()
                for row in rows]

    def _sentences(self, data):
        findings = list(data["findings"])
        if not findings and data["complete"]:
            findings = ["Nothing stands out: each has 80 %% of %s at the least." % _rate_text(
                data["usual_bps"])]
        lines = [""] + findings
        for cell in data["cells"]:
            pair = "%(from)s -> %(to)s: " % cell
            with suppress(*ODD_DOCUMENT):
                own = cell["document"]["end"]["pyperf3"]
                lines += [pair + check_line(check, False) for check in missed_checks(own)]
                lines += ["%s%s." % (pair, found["sentence"])
                          for found in own.get("verdict", ())[:MOST_CHECKS]
                          if self._verdicts and found["kind"] == "limit"]
        return lines


def make_mesh_renderer(settings, told):
    """Return what renders the events of a Mesh. told: of MeshTextRenderer."""
    if settings.json:
        return WholeJsonRenderer()
    return MeshTextRenderer(settings.format, told, settings.verdict)


def survey_progress(event):
    """Return what a line at a terminal says after an event of a Survey or a Mesh.

    None for nothing new.
    """
    name, data = event["event"], event["data"]
    if name == "phase" and data["begins"]:
        return "test %d of %d: %s" % (data["number"], data["count"], data.get("name") or
                                      "%(from)s -> %(to)s" % data)
    if name == "interval" and "phase" in event:
        rates = [data[name]["bits_per_second"] for name in
                 ("sum" + suffix for suffix in DIRECTIONS) if name in data]
        return "%s: %.0f s, %s" % (event["phase"], data["sum"]["end"],
                                   " and ".join(map(_rate_text, rates)))
    return None


def make_renderer(settings, told=False, texts=(TextRenderer, SurveyTextRenderer)):
    """Return what renders the events of a driver as the settings ask for.

    told: a line at a terminal tells how far it is; texts: what makes both kinds of text.
    """
    if settings.crowd:
        return make_mesh_renderer(settings, told)
    if settings.relayed:
        return RelayRenderer(make_test_renderer(settings, texts[0]))
    if settings.diagnose:
        return make_survey_renderer(settings, told, texts[1])
    return make_test_renderer(settings, texts[0])


def make_test_renderer(settings, text=TextRenderer):
    """Return what renders the events of tests as the settings ask for."""
    named = settings.max_clients > 1
    room = KEPT_DOCUMENTS // settings.max_clients if settings.server else None

    def make():
        if settings.json_stream:
            return JsonStreamRenderer(settings.json_stream_full_output, named, room)
        if settings.json:
            return JsonRenderer(room)
        return text(settings.verbose, settings.format, settings.title, named)
    return PerTest(make)


###############################################################################
# csv #########################################################################
###############################################################################
# Events to rows of figures with commas between them (RFC 4180), for --csv: of each
# interval one row a stream and one for their sum, and of the summary the same of
# both ends.

# New ones only ever come at the end: readers count columns.
CSV_COLUMNS = (
    "time host port protocol direction stream kind start end bytes bits_per_second retransmits"
    " rtt_ms cwnd_bytes jitter_ms lost packets lost_percent latency_p50_ms latency_max_ms title"
    " local_host test").split()
CSV_HEADER = ",".join(CSV_COLUMNS)
# What a formula begins with, in half and full width; some programs take blanks before it away.
_FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
MOST_NUMBER = 1e300  # more than that a reader's numbers may not tell
_MOST_LETTERS = 256  # of a text in a row: a client's title would be in each


def short_text(value):
    """Return the beginning of a text as it may stand in a file: UTF-8, and nothing that steers.

    A byte that is no letter, in a title from the command line, say, is a question mark.
    """
    return printable(value[:_MOST_LETTERS].encode("utf-8", "replace").decode("utf-8"))


def csv_field(value):
    """Return a value of a row; what is None or not finite is empty.

    Of a text, which may be a peer's, whatever ends a row or steers a terminal is left out, and a
    spreadsheet takes none for a formula.
    """
    if isinstance(value, (int, float)):
        if isinstance(value, bool) or not abs(value) < MOST_NUMBER:
            return ""
        return ("%.6f" % value).rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    if value is None:
        return ""
    text = short_text(value).replace("\n", " ").replace("\t", " ")
    # For some spreadsheets a semicolon ends a field, too.
    text = ";".join("'" + piece if piece.lstrip().startswith(_FORMULAS) else piece
                    for piece in text.split(";"))
    if any(letter in text for letter in ',;"') or text != text.strip():
        text = '"%s"' % text.replace('"', '""')
    return text


def csv_time(now):
    """Return a time in seconds since 1970 as ISO 8601, in UTC."""
    return "%s.%03dZ" % (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)), now % 1 * 1000)


class CsvTest:
    """The rows of one test."""

    def __init__(self, server_name=None, clock=time.time):
        """server_name: what the user calls the server, of a client; clock: returns the time."""
        self._clock = clock
        self._is_server = False
        self._parallel, self._bidir = 1, False
        self._facts = {"host": server_name}  # what is the same in all rows

    def render(self, event):
        name, data = event["event"], event["data"]
        if name in ("connecting", "accepted"):
            self._take_place(data, bool(event.get("server")))
        elif name == "connected":
            self._facts["local_host"] = data["local_host"]
        elif name == "start":
            what = data["test_start"]
            self._parallel, self._bidir = what["num_streams"], bool(what["bidir"])
            self._facts.update(protocol=what["protocol"], title=event.get("title"))
        rows = []
        if name == "interval":
            rows = self._of_interval(data)
        elif name == "end" and data.get("streams"):
            rows = self._of_summary(data, event["rows"], event["answered"])
        self._facts["test"] = event.get("phase") or event.get("test")
        return self.lines(rows)

    def lines(self, rows):
        """Return the lines of rows, which are dicts, each with what is the same in all."""
        facts = dict(self._facts, time=csv_time(self._clock()))
        return [",".join([csv_field(row.get(name, facts.get(name))) for name in CSV_COLUMNS])
                for row in rows]

    def _take_place(self, start, is_server):
        self._is_server = is_server
        place = start["accepted_connection" if is_server else "connecting_to"]
        self._facts.update(port=place["port"], host=self._facts["host"] or place["host"])

    def _of_interval(self, data):
        rows = []
        for suffix, streams in directions(data["streams"], self._parallel, self._bidir):
            for figures in streams + [data["sum" + suffix]]:
                kind = "omitted" if figures["omitted"] else "interval"
                row = csv_row(kind, figures, figures["sender"], self._is_server)
                own = figures.get("pyperf3", {})
                row.update((name, own.get(name)) for name in ("latency_p50_ms", "latency_max_ms"))
                rows.append(row)
        return rows

    def _of_summary(self, data, summary, answered):
        """summary: the SummaryRows of each direction; answered: the other end told its figures."""
        rows, latency = [], _summary_latency(data)
        for figures in itertools.chain(*summary):
            sender, lost = figures.totals.sender, figures.totals.lost
            # What the other end measured is not told at a server, nor known where a test broke off.
            both = [("sent", figures.sent)] * (sender or answered and not self._is_server)
            if not sender or answered and not self._is_server:
                both.append(("received", dict(figures.received, lost_packets=lost)
                             if "packets" in figures.received else figures.received))
            for kind, side in both:
                row = csv_row(kind, side, sender, self._is_server)
                rows.append(row if "socket" in side else dict(row, **latency))
        return rows


def csv_row(kind, figures, sender, is_server=False):
    """Return the row of an object with a rate, as a dict. sender: this end sends."""
    rtt = figures.get("rtt", figures.get("mean_rtt"))  # microseconds, 0 if unknown
    rate = figures["bits_per_second"]  # of times that a peer tells, which may be anything
    row = {
        "kind": kind, "direction": "down" if sender == is_server else "up",
        "stream": figures.get("socket", "SUM"), "start": float(figures["start"]),
        "end": float(figures["end"]), "bytes": figures["bytes"],
        "bits_per_second": round(rate) if abs(rate) < MOST_NUMBER else None,
        "retransmits": figures.get("retransmits"), "rtt_ms": rtt / 1000.0 if rtt else None,
        "cwnd_bytes": figures.get("snd_cwnd"), "packets": figures.get("packets")}
    if kind != "sent" and figures.get("lost_packets") is not None:
        row.update(jitter_ms=figures.get("jitter_ms"), lost=figures["lost_packets"],
                   lost_percent=figures.get("lost_percent"))
    return row


def _summary_latency(end):
    """Return what a summary's row tells of the latency under load, as a dict."""
    loaded = end.get("pyperf3", {}).get("latency", {}).get("loaded", {})
    return {"latency_p50_ms": loaded.get("p50_ms"), "latency_max_ms": loaded.get("max_ms")}


class CsvMesh:
    """The rows of a mesh: what the test of each pair came to."""

    def __init__(self, title=None, clock=time.time):
        self._title, self._clock = title, clock
        self._missing = {}  # hosts that cannot be used: why

    def render(self, event):
        if event["event"] != "cell":
            return []
        cell, rows, test = event["data"], [], CsvTest(event["data"]["to"], self._clock)
        with suppress(*ODD_DOCUMENT):
            start, end = cell["document"]["start"], cell["document"]["end"]
            for way, suffix in zip(("up", "down"), DIRECTIONS):
                for kind in ("sent", "received"):
                    figures = end.get("sum_%s%s" % (kind, suffix))
                    if figures:
                        rows.append(dict(csv_row(kind, figures, True), direction=way))
            latency = _summary_latency(end)
            for row in rows:
                row.update(latency, local_host=cell["from"], title=self._title,
                           port=start["connecting_to"]["port"],
                           protocol=start["test_start"]["protocol"])
            return test.lines(rows)
        return []

    def complaints(self, event):
        """Return lines about hosts and pairs that failed, and limits that were missed."""
        name, data, lines = event["event"], event["data"], []
        if name == "announce":
            self._missing = data["missing"]
            lines = ["%s is left out: %s" % pair for pair in self._missing.items()]
        elif name == "cell" and not {data["from"], data["to"]} & set(self._missing):
            lines = [data["error"]] if "error" in data else []
            with suppress(*ODD_DOCUMENT):
                lines += [check_line(check, True) for check in missed_checks(
                    data["document"]["end"]["pyperf3"])]
            lines = ["%s -> %s: %s" % (data["from"], data["to"], line) for line in lines]
        # They may be another host's texts, and are a line each.
        return [short_text(line).replace("\n", " ") for line in lines]


def missed_limits(event):
    """Return lines about the limits that a test has missed."""
    checks = event["data"] if event["event"] == "diagnosis" else {}
    return [test_tag(event) + check_line(check, True) for check in missed_checks(checks)]


def make_csv_renderer(settings):
    """Return what renders the events of a driver as rows."""
    if settings.crowd:
        return CsvMesh(settings.title)
    name = settings.server_name if settings.is_client else None
    return PerTest(lambda: CsvTest(name))


class CsvPrinter:
    """Rows for standard output: their lines end with what RFC 4180 wants before the newline.

    complaints: returns the lines about what is wrong with an event, which no row tells.
    """

    def __init__(self, settings):
        self._rows = make_csv_renderer(settings)
        self.complaints = self._rows.complaints if settings.crowd else missed_limits
        if settings.relayed:
            self._rows = RelayRenderer(self._rows)
        self._head = [CSV_HEADER] * settings.csv_header

    def render(self, event):
        lines, self._head = self._head + self._rows.render(event), []
        return [line + "\r" for line in lines]


class CsvFile:
    """A file to which rows are added, with a header if it is empty.

    It is opened for each row anew: it may be moved away, or another program may add to it, too.
    """

    NUMBER = 932  # of its error

    def __init__(self, settings):
        """Raises IperfError 932 where no such file can be written."""
        self._path = settings.csv
        self._renderer = make_csv_renderer(settings)
        self._headed = False  # one that has no size to tell it has its header
        self._append(b"")

    def add(self, event):
        """Take an event in; write its rows. Returns whether it has any. Raises IperfError 932."""
        lines = self._renderer.render(event)
        if lines:
            self._append(to_bytes("".join(line + "\r\n" for line in lines)))
        return bool(lines)

    def _append(self, data):
        """Write rows in one piece, or nothing of them."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            with open_safely(self._path, flags, 932, 0o666) as handle:
                if is_pipe(handle):  # whose reader may stop, and this would with it
                    raise system_error(errno.ENXIO)  # as one that nobody reads, and a socket
                size = file_size(handle)
                if data and size == 0:  # another program may be about to write the header
                    lock_briefly(handle)
                    size = file_size(handle)
                if data and not (size or self._headed):
                    data = to_bytes(CSV_HEADER + "\r\n") + data
                if size is None:
                    write_whole(handle, data)
                else:
                    self._write_rows(handle, data)
                self._headed = self._headed or size is None and bool(data)
        except (IperfError, OSError) as error:
            text = error.reason() if isinstance(error, IperfError) else system_text(error)
            if error.errno == errno.ENXIO:
                text = "it is a pipe or a socket: --csv without a file writes to one"
            raise IperfError(932, OSError(error.errno, "%s: %s" % (self._path, text)))

    @staticmethod
    def _write_rows(handle, data):
        """Write to a file in one piece, or not at all. Raises OSError."""
        written = 0
        try:
            while written < len(data):
                written += handle.write(data[written:])
        except OSError:  # the disk is full: half a row would spoil the next one
            end = handle.tell()
            if written and end == file_size(handle):  # nobody else has added to it
                handle.truncate(end - written)
            raise


###############################################################################
# metrics #####################################################################
###############################################################################
# What tests came to in Prometheus' text format, version 0.0.4, for the textfile
# collector of its node_exporter: a file that is replaced behind each test.
#
# Names and labels are those of the most used exporter of iperf3's figures, so that
# its dashboards go on; what it lacks is in base units, and tells its direction.

MetricsTest = collections.namedtuple("MetricsTest", "labels figures reason")
MetricsTest.__doc__ = """A test of which metrics are made.

labels: a dict; figures: of figures_of(), [] if it failed; reason: None, or of failure_reason() why
it failed.
"""

# The exporter's, of both sums: the end of the name, the member of the sum, and what it is.
_SUM_METRICS = (
    ("seconds", "seconds", "Time that the data took, in seconds"),
    ("bytes", "bytes", "Payload, in bytes"),
    ("packets", "packets", "Datagrams"),
    ("jitter_ms", "jitter_ms", "Jitter of the datagrams, in milliseconds"),
    ("lost_packets", "lost_packets", "Lost datagrams"),
    ("lost_percent", "lost_percent", "Lost datagrams, in percent"))
_SIDES = (("sent", "as the sender counted"), ("received", "as the receiver counted"))

# All are gauges. The order is that in the file.
METRICS = collections.OrderedDict([
    ("iperf3_up", "Whether the last test succeeded."),
    ("iperf3_failed", "Why the last test failed; there is one only if it did."),
    ("iperf3_last_run_timestamp_seconds", "End of the last test, in seconds since 1970."),
    ("iperf3_duration_seconds", "Time that the whole of the last run took, in seconds.")] + [
        ("iperf3_%s_%s" % (side, name), "%s, %s." % (text, how))
        for side, how in _SIDES for name, _, text in _SUM_METRICS] + [
    ("iperf3_retransmits", "TCP segments that were sent again."),
    ("iperf3_sent_bytes_per_second", "Payload that was sent, in bytes per second."),
    ("iperf3_received_bytes_per_second", "Payload that arrived, in bytes per second."),
    ("iperf3_lost_ratio", "Share of the datagrams that were lost, 0 to 1."),
    ("iperf3_jitter_seconds", "Jitter of the datagrams, in seconds."),
    ("iperf3_rtt_seconds", "TCP's round trips, in seconds; quantile 0 is the shortest."),
    ("iperf3_latency_seconds", "Round trips of probes, idle and loaded, in seconds."),
    ("iperf3_latency_grade", "Grade of the latency under load: 1, the one that it got."),
    ("iperf3_round_trips_per_minute", "Round trips per minute under load (RPM)."),
    ("iperf3_path_mtu_bytes", "MTU of the path, in bytes."),
    ("iperf3_check_failed", "Whether a limit that was asked for was missed, or is unknown."),
])


def metrics_text(tests, now, seconds):
    """Return the text about tests. tests: MetricsTests; now: the time, in seconds since 1970.

    seconds: that the run took.
    """
    found = collections.OrderedDict((name, collections.OrderedDict()) for name in METRICS)
    for labels, figures, reason in tests:
        key = labels_text(labels)
        rows = [("iperf3_up", key, int(reason is None)),
                ("iperf3_last_run_timestamp_seconds", key, round(now, 3))]
        if reason is None:
            rows.append(("iperf3_duration_seconds", key, round(seconds, 3)))
        else:
            # Not a label of iperf3_up: that would be another series, and the first one have gaps.
            rows.append(("iperf3_failed", labels_text(dict(labels, reason=reason)), 1))
        for name, key, value in rows + figures:
            found[name][key] = max(value, found[name].get(key, value))  # of limits the missed one
    lines = []
    for name, samples in found.items():
        if samples:
            lines += ["# HELP %s %s" % (name, METRICS[name]), "# TYPE %s gauge" % name]
            lines += ["%s{%s} %s" % (name, key, repr(value)) for key, value in samples.items()]
    return "".join(line + "\n" for line in lines)


def labels_text(labels):
    """Return labels, of a dict, as they stand in braces; those of None or "" are left out."""
    return ",".join('%s="%s"' % (label, label_text(text))
                    for label, text in sorted(labels.items()) if text not in (None, ""))


def label_text(value):
    """Return the value of a label as it stands in quotes."""
    text = short_text(str(value))
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def figures_of(labels, document):
    """Return [(name, labels as a text, value)] of what is known of a test's document."""
    return [(name, labels_text(dict(labels, **more)), value)
            for name, more, value in _test_metrics(document)
            if type(value) in (int, float) and abs(value) < MOST_NUMBER]


def _test_metrics(document):
    """Yield (name, labels besides those of the test, value or None) of a test's document."""
    end = document.get("end") or {}
    what = (document.get("start") or {}).get("test_start") or {}
    own = end.get("pyperf3") or {}
    both = bool(what.get("bidir"))
    for number, suffix in enumerate(DIRECTIONS):
        way = "down" if number or what.get("reverse") else "up"
        if "sum_sent" + suffix in end:
            # The exporter knows one direction only: without two there is no label of it.
            yield from _sum_metrics(end, suffix, way, {"direction": way} if both else {})
    for phase in ("idle", "loaded"):
        figures = (own.get("latency") or {}).get(phase) or {}
        for name, quantile in (("min_ms", "0"), ("p50_ms", "0.5"), ("p95_ms", "0.95"),
                               ("p99_ms", "0.99"), ("max_ms", "1")):
            yield ("iperf3_latency_seconds", {"phase": phase, "quantile": quantile},
                   _thousandth(figures.get(name)))
    latency = own.get("latency") or {}
    if latency.get("grade"):
        yield "iperf3_latency_grade", {"grade": latency["grade"]}, 1
    yield "iperf3_round_trips_per_minute", {}, latency.get("rpm")
    for way in ("up", "down"):
        yield ("iperf3_path_mtu_bytes", {"direction": way},
               ((own.get("mtu") or {}).get(way) or {}).get("mtu"))
    for check in (own.get("checks") or ())[:MOST_CHECKS]:
        yield ("iperf3_check_failed", {"check": check["name"], "direction": check["direction"]},
               int(check["state"] != "ok"))


def _sum_metrics(end, suffix, way, labels):
    """Yield what _test_metrics() does, of the sums of a direction."""
    sums = {side: end["sum_%s%s" % (side, suffix)] for side, _ in _SIDES}
    for side, figures in sums.items():
        for name, member, _ in _SUM_METRICS:
            yield "iperf3_%s_%s" % (side, name), labels, figures.get(member)
        rate = figures.get("bits_per_second")
        yield ("iperf3_%s_bytes_per_second" % side, {"direction": way},
               None if rate is None else rate / 8.0)
    yield "iperf3_retransmits", labels, sums["sent"].get("retransmits")
    received = sums["received"]
    if "lost_percent" in received:
        yield "iperf3_lost_ratio", {"direction": way}, received["lost_percent"] / 100.0
        yield "iperf3_jitter_seconds", {"direction": way}, _thousandth(received["jitter_ms"])
    streams = [each["sender"] for each in end["streams"] if each.get("sender", {}).get("mean_rtt")
               and each["sender"]["sender"] == sums["sent"]["sender"]]
    if streams:
        for name, quantile, join in (("min_rtt", "0", min), ("max_rtt", "1", max)):
            yield ("iperf3_rtt_seconds", {"direction": way, "quantile": quantile},
                   join(each[name] for each in streams) / 1e6)


def _thousandth(value):
    return None if value is None else value / 1000.0


class MetricsFile:
    """Collect the events of a client, and write the metrics of each test, or survey, or mesh.

    What somebody interrupted tells nothing about the network, and changes nothing.
    """

    NUMBER = 933  # of its error

    def __init__(self, settings, clock=time.time):
        """clock: returns the time. Raises IperfError 933 where no such file can be written."""
        self._path, self._clock = settings.prometheus, clock
        port = settings.port
        if settings.loopback:  # another one each time
            port = None
        elif settings.hosts:  # the same without -p
            port = settings.wanted_port
        self._labels = {"target": settings.server_name, "port": port or None}
        check_replaceable(self._path, 933)
        self._clear()

    def _clear(self):
        self._begin = None  # a run begins with its first event: before it may be a long pause
        self._tests, self._document, self._reason = [], Document(), None

    def fail(self, error):
        """Write that a run failed before there was a test. Raises IperfError 933."""
        self._reason = failure_reason(error)
        self.add(Event(event="done", data=None, ok=False))

    def add(self, event):
        """Take an event in; write the file if it is the last of a run.

        Returns whether it did. Raises IperfError 933.
        """
        name = event["event"]
        self._begin = self._begin or time.monotonic()
        if name == "cell":
            self._add_cell(event["data"])
        elif name == "error":
            self._reason = event.get("reason", "other")
        if name != "interval":  # there may be many
            self._document.add(event)
        if name == "done" and ("phase" in event or not self._tests):
            self._end_test(event)
        return name == "done" and "phase" not in event and self._write()

    def _write(self):
        tests, seconds = self._tests, time.monotonic() - self._begin
        reasons = [test.reason for test in tests] + [self._reason]
        self._clear()
        if "interrupted" in reasons:
            return False
        replace_file(self._path, to_bytes(metrics_text(tests, self._clock(), seconds)), 933, 0o644)
        return True

    def _end_test(self, event):
        labels = dict(self._labels, test=event.get("phase"))
        reason = None if event["ok"] else self._reason or "other"
        figures = [] if reason else figures_of(labels, self._document.members())
        self._tests.append(MetricsTest(labels, figures, reason))
        self._document, self._reason = Document(), None

    def _add_cell(self, cell):
        labels, figures = {"source": cell["from"], "target": cell["to"]}, []
        reason = "other" if "error" in cell else None
        try:
            if reason is None:
                figures = figures_of(labels, cell.get("document") or {})
        except ODD_DOCUMENT:
            reason = "other"
        self._tests.append(MetricsTest(labels, figures, reason))


###############################################################################
# plot ########################################################################
###############################################################################
# Figures over time in letters: a bar behind each row of a test's intervals, and a
# line for each figure under its summary. What is not asked for costs nothing: these
# renderers are made for --plot only.

Terminal = collections.namedtuple("Terminal", "columns blocks colour")
Terminal.__doc__ = """What lines of text go to.

columns: its width, 0 if it has none; blocks: it shows the letters that are blocks; colour: it is
to be painted.
"""

_HEIGHTS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"  # blocks, an eighth to a whole
_WIDTHS = "\u258f\u258e\u258d\u258c\u258b\u258a\u2589\u2588"
_INKS = " .:-=+*#"  # where there are no blocks
_PAINT = {"fine": "\x1b[36m%s\x1b[0m", "bad": "\x1b[33m%s\x1b[0m"}  # cyan, yellow
_BAR = 24  # letters of a bar, at the most
_LEAST_LINE = 10  # letters of a line of figures, for which what stands behind it gives way
_NO_TERMINAL = 80  # columns of what has none
_MOST_POINTS = 4096  # of a figure that are kept


def plot_bar(share, width, blocks):
    """Return a bar for a share (0 to 1) of a width in letters."""
    eighths = min(8 * width, int(8 * width * share + 0.5))
    if share > 0:
        eighths = max(1, eighths)
    whole, part = divmod(eighths, 8)
    if blocks:
        return _WIDTHS[7] * whole + (_WIDTHS[part - 1] if part else "")
    return "#" * whole + (_INKS[part] if part else "")


def plot_line(values, blocks):
    """Return a letter for each value, from nothing to the most of them; None is a gap.

    Only 0 has the lowest letter.
    """
    most = max([value for value in values if value] or [1.0])
    letters = _HEIGHTS if blocks else _INKS
    return "".join(" " if value is None else letters[
        0 if value <= 0 else max(1, min(7, int(7.0 * value / most + 0.5)))] for value in values)


def mean_of(points):
    """Return the mean of the known values of (seconds, value), by their time; None without any."""
    known = [point for point in points if point[1] is not None]
    seconds = sum(point[0] for point in known)
    if seconds <= 0:
        return known[-1][1] if known else None
    return sum(each * value for each, value in known) / seconds


def most_of(points):
    """Return the highest known value of (seconds, value), None without any."""
    return max([value for _, value in points if value is not None], default=None)


def resample(points, count, join):
    """Return at most so many values for (seconds, value), each of as much time.

    join: mean_of or most_of: what becomes of those that share a place.
    """
    if len(points) <= count:
        return [value for _, value in points]
    width = sum(seconds for seconds, _ in points) / count
    if width <= 0:
        points, width = [(1.0, value) for _, value in points], len(points) / float(count)
    places, begin = [[] for _ in range(count)], 0.0
    for seconds, value in points:
        end = begin + seconds / width
        first, last = int(begin + 1e-6), int(end - 1e-6)
        for place in range(first, min(last, count - 1) + 1):  # all that it reaches into
            places[place].append((min(end, place + 1) - max(begin, place), value))
        begin = end
    return [join(place) for place in places]


class PlotTrace:
    """A figure over the time of a test: its name, its values, what is said of them."""

    def __init__(self, title, join, texts):
        """join: as for resample(); texts: returns what may stand behind the line, longest first,
        for the lowest value, the highest, and the sum.
        """
        self.title = title
        self._join, self._texts = join, texts
        self._points, self._recent = [], []
        self._each = 1  # intervals that become one point
        self._least = self._most = None
        self._sum = 0.0

    def add(self, seconds, value):
        """Take in the value of an interval, None if it is not known."""
        self._recent.append((seconds, value))
        if value is not None:
            self._least = value if self._least is None else min(self._least, value)
            self._most = value if self._most is None else max(self._most, value)
            self._sum += value
        if len(self._recent) == self._each:
            self._points.append(self._as_one(self._recent))
            self._recent = []
            if len(self._points) == _MOST_POINTS:
                self._points = [self._as_one(self._points[at:at + 2])
                                for at in range(0, _MOST_POINTS, 2)]
                self._each *= 2

    def _as_one(self, points):
        return sum(seconds for seconds, _ in points), self._join(points)

    def _all(self):
        return self._points + ([self._as_one(self._recent)] if self._recent else [])

    def __bool__(self):
        return self._most is not None

    @property
    def count(self):
        return len(self._all())

    @property
    def seconds(self):
        """The time from first to last."""
        return sum(seconds for seconds, _ in self._all())

    def texts(self):
        return self._texts(self._least, self._most, self._sum)

    def line(self, width, blocks):
        return plot_line(resample(self._all(), width, self._join), blocks)


def range_text(least, most, text):
    """Return both ends of a range, the unit of both only once; text: that of one."""
    low, high = text(least), text(most)
    if low == high:
        return high
    number, _, unit = low.partition(" ")
    return "%s - %s" % (number if high.endswith(" " + unit) else low, high)


class TestTraces:
    """What a test's intervals tell, over time: the bitrate, the latency, what was lost."""

    def __init__(self, rate_text):
        """rate_text: returns the text of bits per second."""
        self._rate_text = rate_text
        self._traces = collections.OrderedDict()

    def _trace(self, kind, role, join, texts):
        key = kind, role
        if key not in self._traces:
            self._traces[key] = PlotTrace(" ".join(filter(None, key)), join, texts)
        return self._traces[key]

    def add(self, data, ways):
        """Take in an interval's object. ways: (end of the sum's name, rows, role) of each."""
        for suffix, rows, role in ways:
            sums = data["sum" + suffix]
            seconds, own = sums["seconds"], sums.get("pyperf3", {})
            self._trace("Bitrate", role, mean_of, self._rate_texts).add(
                seconds, sums["bits_per_second"])
            if "latency_samples" in own:
                if not suffix:  # of both directions it is the same
                    self._trace("Latency", "", most_of, self._time_texts).add(
                        seconds, own.get("latency_p50_ms"))
            else:
                trips = [row["rtt"] for row in rows if row.get("rtt")]
                if trips or ("RTT", role) in self._traces:
                    self._trace("RTT", role, most_of, self._time_texts).add(
                        seconds, sum(trips) / 1e3 / len(trips) if trips else None)
            lost = own.get("lost_percent", sums.get("lost_percent"))
            if lost is not None:
                self._trace("Lost", role, most_of, self._lost_texts).add(seconds, lost)
            elif sums.get("retransmits") is not None:
                self._trace("Retransmits", role, most_of, self._count_texts).add(
                    seconds, sums["retransmits"])

    def get(self, kind, role=""):
        """Return the PlotTrace of a kind, None if there is none."""
        return self._traces.get((kind, role))

    def known(self):
        return [trace for trace in self._traces.values() if trace]

    def _rate_texts(self, least, most, _):
        return [range_text(least, most, self._rate_text), "to " + self._rate_text(most)]

    @staticmethod
    def _time_texts(least, most, _):
        def text(ms):
            return latency_text(ms) + " ms"
        return [range_text(least, most, text), "to " + text(most)]

    @staticmethod
    def _lost_texts(least, most, _):
        def text(share):
            return "%s %%" % ("%.2g" % share if share < 99.5 else "%.0f" % share)
        return [range_text(least, most, text), "to " + text(most)]

    @staticmethod
    def _count_texts(least, most, total):
        if not total:
            return ["none", "none"]
        return ["%s, %d in all" % (range_text(least, most, "%d".__mod__), total),
                "%d in all" % total]


class PlotRenderer(TextRenderer):
    """Text as iperf3 prints it, with bars and lines of figures."""

    def __init__(self, look, *arguments):
        """look: returns the Terminal; arguments: a TextRenderer's."""
        TextRenderer.__init__(self, *arguments)
        self._look = look
        self._place = None  # the column of the bars
        self._most = {}  # the highest rate so far, by direction and whether it is a sum's
        self._traces = TestTraces(self._rate)

    def _rate(self, bits):
        return format_units(bits / 8.0, self._letter).strip() + "s/sec"

    def _room(self, event, terminal):
        """Return how many columns a line has, None if it may have any."""
        before = len(test_tag(event)) * self._named
        if self._title is not None:
            before += len(self._title) + 3
        return terminal.columns - 1 - before if terminal.columns else None

    def _paint(self, text, kind, terminal):
        return _PAINT[kind] % text if terminal.colour and text.strip() else text

    def _on_interval(self, event):
        lines, data = TextRenderer._on_interval(self, event), event["data"]
        ways = [(suffix, rows, self._role(rows[0]["sender"])) for suffix, rows in
                directions(data["streams"], self._parallel, self._bidir) if rows]
        figures = []
        for suffix, rows, _ in ways:
            figures += [(suffix, False, row) for row in rows]
            if self._parallel > 1:
                figures.append((suffix, True, data["sum" + suffix]))
        if not figures:
            return lines
        omitted = figures[0][-1]["omitted"]
        if not omitted:
            self._traces.add(data, ways)
        rows = lines[-len(figures):]
        if self._place is None:
            lines[0] = lines[0].rstrip()  # the header
            self._place = 2 + max(len(line.replace("(omitted)", "").rstrip())
                                  for line in lines if line != _SEPARATOR)
            lines[0] = self._with_bar(lines[0], "Bitrate", event)
        if not omitted:
            lines[-len(figures):] = [self._row_with_bar(line, key, event)
                                     for line, key in zip(rows, figures)]
        return lines

    def _row_with_bar(self, line, key, event):
        suffix, is_sum, figures = key
        rate = figures["bits_per_second"]
        most = self._most[suffix, is_sum] = max(rate, self._most.get((suffix, is_sum), 0.0))
        bad = figures.get("retransmits") or figures.get("lost_packets")
        return self._with_bar(line, rate / most if most else 0.0, event, "bad" if bad else "fine")

    def _with_bar(self, line, bar, event, kind=None):
        """Return a line with a bar, or a text in its place, if there is room. bar: a share."""
        terminal, text = self._look(), line.rstrip()
        room = self._room(event, terminal)
        width = _BAR if room is None else min(_BAR, room - self._place)
        if width < 1 or len(text) + 1 > self._place:
            return line
        if kind is None:
            bar = bar if len(bar) <= width else ""
        else:
            bar = self._paint(plot_bar(bar, width, terminal.blocks), kind, terminal)
        return (text.ljust(self._place) + bar).rstrip()

    def _on_end(self, event):
        lines = TextRenderer._on_end(self, event)
        return lines + self.plot_lines(event) if lines else []

    def plot_lines(self, event):
        """Return the lines of figures over the time so far. event: the one that asks for them."""
        traces, terminal = self._traces.known(), self._look()
        if not traces:
            return []
        room = self._room(event, terminal) or _NO_TERMINAL - 1
        title = min(2 + max(len(trace.title) for trace in traces), max(1, room - _LEAST_LINE))
        texts = [trace.texts() + [""] for trace in traces]
        longest = [max(len(each[size]) + 2 * bool(each[size]) for each in texts)
                   for size in range(len(texts[0]))]
        size = next((size for size, length in enumerate(longest)
                     if room - title - length >= min(_LEAST_LINE, traces[0].count)),
                    len(longest) - 1)
        width = max(1, room - title - longest[size])
        count = min(width, max(trace.count for trace in traces))
        lines = []
        for trace, text in zip(traces, texts):
            drawn = trace.line(width, terminal.blocks).ljust(count)
            kind = "bad" if trace.title.startswith(("Lost", "Retr")) else "fine"
            lines.append((trace.title[:title - 1].ljust(title) + self._paint(drawn, kind, terminal)
                          + "  " + text[size]).rstrip())
        head = "Over time, %.3g s a letter" % (traces[0].seconds / max(1, count))
        return [head[:room]] + lines


class SurveyPlotRenderer(SurveyTextRenderer):
    """What the tests of --diagnose come to, with a line for each direction over time."""

    _HEIGHT = SurveyTextRenderer._HEIGHT + 6

    def __init__(self, look, *arguments):
        """look: returns the Terminal; arguments: a SurveyTextRenderer's."""
        SurveyTextRenderer.__init__(self, *arguments)
        self._look = look
        self._tests = PerTest(lambda: PlotRenderer(look, self._verbose, self._letter,
                                                   self._title, True))
        self._traces = collections.OrderedDict()  # by the name of a row

    def render(self, event):
        if event["event"] == "interval" and "phase" in event:
            self._take(event)
        return SurveyTextRenderer.render(self, event)

    def _take(self, event):
        data = event["data"]
        bidir = "sum" + DIRECTIONS[1] in data
        for suffix, rows in directions(data["streams"], len(data["streams"]) // (1 + bidir), bidir):
            if not rows or rows[0]["omitted"]:
                continue
            way = "up" if rows[0]["sender"] else "down"
            name = way_of({"phase": event["phase"], "direction": way})
            own = self._traces.setdefault(name, TestTraces(_rate_text))
            both = data["sum"].get("pyperf3", {})
            own.add({"sum": dict({"pyperf3": both} if both else {}, **data["sum" + suffix])},
                    [("", rows, "")])

    def _table(self, data):
        lines, terminal = SurveyTextRenderer._table(self, data), self._look()
        room = min(self._WIDTH, terminal.columns - 1 if terminal.columns else self._WIDTH)
        width = max(1, (room - 13) // 2)
        drawn = []
        for name, traces in self._traces.items():
            rate, trips = traces.get("Bitrate"), traces.get("Latency") or traces.get("RTT")
            parts = [trace.line(width, terminal.blocks) if trace else "" for trace in (rate, trips)]
            drawn.append("%-10s %s  %s" % (name, parts[0].ljust(width), parts[1]))
        if drawn:
            drawn.insert(0, "%-10s %s  %s" % ("", "Bitrate over time"[:width].ljust(width),
                                              "Latency over time"[:width]))
            drawn.insert(0, "")
        return lines + [line.rstrip()[:room] for line in drawn]


def plotting(look):
    """Return what makes a TextRenderer, and a SurveyTextRenderer, with plots.

    look: returns the Terminal of the moment.
    """
    return functools.partial(PlotRenderer, look), functools.partial(SurveyPlotRenderer, look)


###############################################################################
# charts ######################################################################
###############################################################################
# Figures to SVG inside HTML that is XML as well: pure functions. Nothing of a chart
# is known here but its axes, and what is drawn over them.

# What XML forbids, besides what steers a reader: halves of pairs, and what are no characters.
_NO_XML = _STEERING[:-1] + "\ud800-\udfff\ufffe\uffff]"
_XML_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;",
                ord("'"): "&#39;", ord("\r"): " "}
# Elements that never hold anything: HTML must not see the end of others in their beginning.
_EMPTY = frozenset(("meta", "br", "path", "rect"))
_MOST_TEXT = 2000  # letters of a text from elsewhere that are shown
_MOST_TICKS = 30  # of an axis of time, however odd its ends

Point = collections.namedtuple("Point", "start end low mean high")
Point.__doc__ = """A figure from one moment to another: its lowest value, its mean, its highest."""

Axis = collections.namedtuple("Axis", "low high ticks unit")
Axis.__doc__ = """An axis: its ends, (value, text) of each tick, the unit of the texts."""


class Markup(str):
    """A text that is XML already."""


def xml_text(text):
    """Return a text for XML and HTML, in an element or an attribute."""
    import re
    text = str(text)
    if len(text) > _MOST_TEXT:
        text = text[:_MOST_TEXT] + " ..."
    return Markup(re.sub(_NO_XML, "\ufffd", text).translate(_XML_ESCAPES))


def element(name, attributes="", *children):
    """Return an element. attributes: a class, or a dict; children: what is no Markup is escaped."""
    def text(value):
        return value if isinstance(value, Markup) else xml_text(value)
    if isinstance(attributes, str):
        attributes = {"class": attributes} if attributes else {}
    head = name + "".join(' %s="%s"' % (key, text(value)) for key, value in attributes.items())
    if name in _EMPTY:
        return Markup("<%s/>" % head)
    return Markup("<%s>%s</%s>" % (head, "".join(map(text, children)), name))


def join_points(points, count):
    """Return at most so many Points for many, each for as much time."""
    if len(points) <= count:
        return points
    # Else neighbours might be of other times, and not become fewer.
    points = sorted(points, key=lambda point: point.start + point.end)
    begin, span = points[0].start, max(points[-1].end - points[0].start, 1e-9)
    joined = []
    for _, group in itertools.groupby(points, lambda point: min(
            count - 1, int(count * ((point.start + point.end) / 2 - begin) / span))):
        group = list(group)
        joined.append(Point(
            group[0].start, group[-1].end, min(point.low for point in group),
            mean_of([(point.end - point.start, point.mean) for point in group]),
            max(point.high for point in group)))
    return joined


def nice_step(least):
    """Return the least of 1, 2, 5, 10, 20, ... (and parts of it) that is no smaller."""
    power = 1.0
    while power < least:
        power *= 10
    while power / 10 >= least:
        power /= 10
    return next(power * part for part in (0.1, 0.2, 0.5, 1) if power * part >= least * 0.999999)


# The prefixes of a unit, and what each is of the one before.
_SCALES = {"bit/s": (1000.0, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")),
           "B": (1024.0, ("B", "KB", "MB", "GB", "TB")),
           "ms": (1000.0, ("ms", "s"))}


def value_axis(most, unit):
    """Return the Axis from 0 to a value, in the unit or a multiple of it."""
    step, units = _SCALES.get(unit, (1.0, (unit,)))
    scale = 1.0
    while most / scale >= step and units[1:]:
        scale, units = scale * step, units[1:]
    gap = nice_step(max(most, 1e-6) / scale / 6)
    if unit == "":  # a count
        gap = max(1.0, gap)
    high = max(most * 1.04, gap * scale)
    ticks = [(number * gap * scale, "%.6g" % (number * gap))
             for number in range(int(high / (gap * scale)) + 1)]
    return Axis(0.0, high, ticks, units[0])


_TIME_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
               14400, 21600, 43200, 86400)


def time_axis(begin, end):
    """Return the Axis of a time in seconds."""
    # Where numbers have no room for less, ticks would not get ahead.
    span = max(end - begin, 1e-3, abs(begin) * 1e-9)
    step = next((step for step in _TIME_STEPS if span / step <= 6.5), nice_step(span / 6))
    unit, size = next((name, size) for size, name in ((86400, "d"), (3600, "h"), (60, "min"),
                                                      (0, "s")) if step >= size)
    first = -int(-begin / step) if begin < 0 else int(begin / step + 0.999999)
    ticks = []
    while first * step <= end + span * 1e-6 and len(ticks) < _MOST_TICKS:
        ticks.append((first * step, "%g %s" % (round(first * step / (size or 1), 6), unit)))
        first += 1
    return Axis(begin, begin + span, ticks, unit)


def log_axis(low, high, unit):
    """Return the Axis of positive values that differ a lot."""
    low, high = max(low, 1e-4), max(high, 2e-4)
    decade = 1e-4
    while decade * 10 <= low:
        decade *= 10
    ticks = []
    while decade <= high * 1.000001:
        for part in (1, 2, 5) if high / low < 50 else (1, 3) if high / low < 1000 else (1,):
            value = float("%.3g" % (decade * part))
            if low * 0.999999 <= value <= high * 1.000001:
                ticks.append((value, "%g %s" % (value, unit)))
        decade *= 10
    return Axis(low, high, ticks, unit)


class Chart:
    """A chart as SVG that stretches to any width: its shapes do, its letters and strokes do not.

    Colours, dashes and widths are those of the classes of style that are named.
    """

    _WIDTH, _HEIGHT = 6000, 1000  # of its own units; whole numbers are short

    def __init__(self, x_axis, y_axis, log=False):
        """log: the first axis is logarithmic."""
        self.x_axis, self.y_axis = x_axis, y_axis
        self._log = log
        self._shapes = []
        for value, _ in y_axis.ticks:
            self._add("M0 %dh%d" % (self._y(value), self._WIDTH), "grid")

    # Places

    def _share(self, value, axis, log=False):
        low, high, value = axis.low, axis.high, min(max(value, axis.low), axis.high)
        if log:
            from math import log as logarithm
            low, high, value = map(logarithm, (low, high, value))
        return (value - low) / (high - low) if high > low else 0.5

    def _x(self, value):
        return int(self._WIDTH * self._share(value, self.x_axis, self._log) + 0.5)

    def _y(self, value):
        return self._HEIGHT - int(self._HEIGHT * self._share(value, self.y_axis) + 0.5)

    # Shapes

    def _add(self, path, style):
        self._shapes.append(element("path", {"class": style, "d": Markup(path)}))

    def add_area(self, begin, end, style):
        """Shade what lies between two values of the first axis."""
        left, right = self._x(begin), self._x(end)
        self._add("M%d 0h%dv%dh%dz" % (left, right - left, self._HEIGHT, left - right), style)

    def add_level(self, low, high, style):
        """Shade what lies between two values of the second axis."""
        top, bottom = self._y(high), self._y(low)
        self._add("M0 %dh%dv%dh-%dz" % (top, self._WIDTH, max(8, bottom - top), self._WIDTH), style)

    def add_steps(self, points, style):
        """Draw the means of Points."""
        self._add("".join(self._steps(run, "mean", True) for run in self._runs(points)), style)

    def add_band(self, points, style):
        """Shade what lies between the lowest and the highest values of Points."""
        path = ""
        for run in self._runs(points):
            back = [point._replace(start=point.end, end=point.start) for point in reversed(run)]
            path += self._steps(run, "high", True) + "V%d" % self._y(
                back[0].low) + self._steps(back, "low", False) + "z"
        self._add(path, style)

    def add_ticks(self, points, style):
        """Draw an upright stroke for each Point that has a highest value above 0."""
        self._add("".join("M%d %dV%d" % (self._x((point.start + point.end) / 2), self._HEIGHT,
                                         min(self._y(point.high), self._HEIGHT - 20))
                          for point in points if point.high > 0), style)

    def add_polygon(self, places, style):
        """Draw a line from place to place: (value of the first axis, of the second)."""
        self._add("M" + "L".join("%d %d" % (self._x(x), self._y(y)) for x, y in places), style)

    @staticmethod
    def _runs(points):
        """Return the runs of Points that follow each other."""
        runs = []
        for point in points:
            gap = (point.end - point.start) * 0.5
            if runs and abs(point.start - runs[-1][-1].end) <= gap:
                runs[-1].append(point)
            else:
                runs.append([point])
        return runs

    def _steps(self, points, name, move):
        """Return the path along one value of Points, relative, since that is short."""
        x, y = self._x(points[0].start), self._y(getattr(points[0], name))
        path = ["M%d %d" % (x, y) if move else ""]
        for point in points:
            level, end = self._y(getattr(point, name)), self._x(point.end)
            if level != y:
                path.append("v%d" % (level - y))
            if end != x:
                path.append("h%d" % (end - x))
            x, y = end, level
        return "".join(path)

    # The whole

    def inner(self):
        """Return what stands in an svg element as large as the chart, its labels outside of it."""
        shapes = element("svg", {
            "class": "plot", "width": "100%", "height": "100%", "preserveAspectRatio": "none",
            "viewBox": "0 0 %d %d" % (self._WIDTH, self._HEIGHT)}, *self._shapes)
        texts = [element("text", {"class": "y", "x": "-6", "dy": ".35em", "y": "%.6g%%" % (
            100 - 100 * self._share(value, self.y_axis))}, text)
            for value, text in self.y_axis.ticks]
        texts += [element("text", {"class": "x", "y": "100%", "dy": "1.4em", "x": "%.6g%%" % (
            100 * self._share(value, self.x_axis, self._log))}, text)
            for value, text in self.x_axis.ticks]
        return Markup("".join([shapes] + texts))

    def svg(self, name):
        """Return the element. name: the id of the text that says the same."""
        return element("div", "box", element("svg", {
            "class": "chart", "role": "img", "aria-labelledby": name, "width": "100%",
            "height": "170"}, self.inner()))


###############################################################################
# panels ######################################################################
###############################################################################
# What a document tells over time, and the charts of it: pure functions. A document may
# come from anywhere: what is of another kind than it should be is not there.

_MOST_BINS, _MOST_DRAWN = 600, 3600  # points of a line; of all lines of a chart: of one test
_TALLEST = 5  # of the highest congestion window, what a chart of windows shows
_PERCENTS = frozenset(map(str, range(1, 100)))
_MOST_LINES = 8  # streams that have a line each; of more there is a band
_WAY_TEXTS = {"up": "to the server", "down": "from the server"}
_END_TEXTS = {("up", True): "sent to the server", ("up", False): "received by the server",
              ("down", True): "sent by the server", ("down", False): "received from the server"}


def _finite(row, name):
    """Return a finite number of an object, so are products of it; None if there is none."""
    value = row.get(name) if isinstance(row, dict) else None
    return float(value) if _is_number(value) and abs(value) < 1e100 else None


def _member(row, name, kind=dict):
    """Return a member of an object if it is of a kind, else an empty one."""
    value = row.get(name) if isinstance(row, dict) else None
    return value if isinstance(value, kind) else kind()


def _objects(row, name):
    """Return the objects of a list that is a member of an object."""
    return [each for each in _member(row, name, list) if isinstance(each, dict)]


# Intervals to points

def _rows_of(interval):
    """Return (name of the sum, rows of its streams) of an interval's directions."""
    streams = _objects(interval, "streams")
    names = [name for name in ("sum" + suffix for suffix in DIRECTIONS)
             if isinstance(interval.get(name), dict)]
    if len(names) < 2:
        return [(name, streams) for name in names]
    return [(name, [row for row in streams
                    if bool(row.get("sender")) == bool(interval[name].get("sender"))])
            for name in names]


def _spread(rows):
    """Return what the charts tell of the streams of a direction."""
    told = collections.OrderedDict()
    rates = [rate for rate in (_finite(row, "bits_per_second") for row in rows) if rate is not None]
    if rates[1:]:
        told["slowest_bps"], told["fastest_bps"] = min(rates), max(rates)
    trips = [trip for trip in (_finite(row, "rtt") for row in rows) if trip]
    if trips:
        told["rtt"] = sum(trips) / len(trips)
    for name in ("snd_cwnd", "snd_wnd"):
        sizes = [size for size in (_finite(row, name) for row in rows) if size is not None]
        if sizes:
            told[name] = sum(sizes)
    return told


class WayTraces:
    """What a document tells of one direction over time: Points by the name of the figure.

    name: "up" (the client sends) or "down".
    """

    _FIGURES = ("rate", "received", "spread", "trips", "retransmits", "lost", "snd_cwnd", "snd_wnd",
                "p50", "most")

    def __init__(self, name, is_sent):
        """is_sent: the intervals tell what the sender sent, not what arrived."""
        self.name, self.is_sent = name, is_sent
        self.streams = collections.OrderedDict()  # Points by number
        for figure in self._FIGURES:
            setattr(self, figure, [])

    def add(self, start, end, sums, rows):
        """Take in an interval: its sum, and the rows of its streams."""
        own = _member(sums, "pyperf3")
        told = _spread(rows) if rows else own
        rate = _finite(sums, "bits_per_second")
        if rate is not None:
            ends = [_finite(own, name) for name in ("least_bps", "most_bps")]
            low, high = (rate if each is None else each for each in ends)
            self.rate.append(Point(start, end, low, rate, high))
        slowest, fastest = (_finite(told, name) for name in ("slowest_bps", "fastest_bps"))
        if slowest is not None and fastest is not None:
            self.spread.append(Point(start, end, slowest, fastest, fastest))
        lost = own if "lost_percent" in own else sums
        for points, row, name, factor in (
                (self.received, own, "received_bps", 1), (self.trips, told, "rtt", 1e-3),
                (self.retransmits, sums, "retransmits", 1), (self.lost, lost, "lost_percent", 1),
                (self.snd_cwnd, told, "snd_cwnd", 1), (self.snd_wnd, told, "snd_wnd", 1),
                (self.p50, own, "latency_p50_ms", 1), (self.most, own, "latency_max_ms", 1)):
            value = _finite(row, name)
            if value is not None:
                points.append(Point(start, end, value * factor, value * factor, value * factor))
        for row in rows:
            rate = _finite(row, "bits_per_second")
            if rate is not None:
                self.streams.setdefault(str(row.get("socket")), []).append(
                    Point(start, end, rate, rate, rate))


def _end_of(document, sums):
    """Return whether a sum is of the end that sends, and the name of its direction."""
    start = _member(document, "start")
    is_server = "accepted_connection" in start
    # Old ones do not tell.
    default = bool(_member(start, "test_start").get("reverse")) == is_server
    sends = bool(sums.get("sender", default))
    return sends, "up" if sends != is_server else "down"


def ways_over_time(document):
    """Return the WayTraces of a test's document, and the Axis of their time."""
    intervals = _objects(document, "intervals")
    ways, times = collections.OrderedDict(), []
    # The time of what is omitted begins at 0, and so does that of the rest.
    before = max([_finite(_member(each, "sum"), "end") or 0.0 for each in intervals
                  if _member(each, "sum").get("omitted")] or [0.0])
    for interval in intervals:
        for name, rows in _rows_of(interval):
            sums = interval[name]
            start, end = _finite(sums, "start"), _finite(sums, "end")
            if start is None or end is None or end < start:
                continue
            if sums.get("omitted"):
                start, end = start - before, end - before
            sends, way = _end_of(document, sums)
            ways.setdefault(name, WayTraces(way, sends)).add(start, end, sums, rows)
            times.append((start, end))
    begin = min([start for start, _ in times] or [0.0])
    return list(ways.values()), time_axis(begin, max([end for _, end in times] or [1.0]))


# Charts

class Panel:
    """A chart with its title, its keys, and a text that says the same."""

    def __init__(self, title, x_axis, y_axis, log=False):
        self.chart = Chart(x_axis, y_axis, log)
        self.title = "%s (%s)" % (title, y_axis.unit) if y_axis.unit else title
        self.keys, self.texts = collections.OrderedDict(), []
        if not log and x_axis.low < 0:
            self.chart.add_area(x_axis.low, 0.0, "omitted")
            self.keys["omitted"] = "omitted"

    def draw(self, points, count, style, key, text=None):
        """Draw a line of Points, of which it has room for `count`. text: that of a value."""
        joined = join_points(points, count)
        if joined is not points:
            self.chart.add_band(joined, "band " + style.split()[0])
        self.chart.add_steps(joined, style)
        self.keys[style] = key
        if text is not None:
            self.texts.append("%s: %s" % (key[:1].upper() + key[1:], range_of(points, text)))

    def figure(self, name):
        """Return the element. name: an id that no other has."""
        keys = [element("span", "key", element(
            "svg", {"aria-hidden": "true"}, element("path", {"class": style, "d": (
                "M4 10V0M14 10V4M24 10V2" if "ticks" in style else
                "M0 0h28v10H0z" if "band" in style or "omitted" in style else "M0 5h28")})), text)
            for style, text in self.keys.items()]
        return element(
            "figure", "", element("figcaption", "", element("h3", "", self.title), *keys),
            self.chart.svg(name), element("p", {"class": "note", "id": name},
                                          " ".join(self.texts)))


def range_of(points, text):
    """Return what is said of Points: the mean, the ends of their range and when these were."""
    points = _measured(points)
    mean = mean_of([(point.end - point.start, point.mean) for point in points])
    if not points[1:]:
        return text(mean) + "."
    if text(min(points, key=lambda point: point.low).low) == text(_highest(points)):
        return text(mean) + " throughout."
    said = "mean %s" % text(mean)
    for name, point, value in (
            ("lowest", min(points, key=lambda point: point.low), "low"),
            ("highest", max(points, key=lambda point: point.high), "high")):
        said += ", %s %s at %s s" % (name, text(getattr(point, value)), (
            "%.3g" if abs(point.start) < 1000 else "%.0f") % point.start)
    return said + "."


def _measured(points):
    """Return Points without those of what was omitted, unless there are no others."""
    return [point for point in points if point.start >= 0] or points


def _highest(*lines):
    return max([point.high for points in lines for point in points] or [0.0])


def _room_of(lines, tests=1):
    """Return how many points a line may have where a chart has so many lines, a page so many."""
    return max(60 // tests, min(_MOST_BINS, _MOST_DRAWN // max(1, lines)) // tests)


def _ms(value):
    return latency_text(value) + " ms"


def rate_panel(ways, times, tests=1):
    """Return the Panel of the bitrate: sent dashed, received solid, the streams thin.

    tests: that share a page.
    """
    panel = Panel("Bitrate", times, value_axis(_highest(*[
        points for way in ways for points in (way.rate, way.received, way.spread)]), "bit/s"))
    room = _room_of(sum(4 + min(_MOST_LINES, len(way.streams)) for way in ways), tests)
    for way in ways:
        where = _WAY_TEXTS[way.name]
        if len(way.streams) > _MOST_LINES or (way.spread and not way.streams):
            panel.chart.add_band([point._replace(mean=point.low) for point in
                                  join_points(way.spread, room)], "band " + way.name)
            panel.keys["band " + way.name] = "slowest to fastest stream " + where
        elif len(way.streams) > 1:
            for points in way.streams.values():
                panel.chart.add_steps(join_points(points, room), "stream " + way.name)
            panel.keys["stream " + way.name] = "each stream " + where
    for way in ways:
        for points, is_sent in ((way.rate, way.is_sent), (way.received, False)):
            if points:
                panel.draw(points, room, way.name + " sent" * is_sent,
                           _END_TEXTS[way.name, is_sent], _rate_text)
    return panel


def latency_panel(latency, ways, times, tests=1):
    """Return the Panel of round trips, None if none are known. latency: of end.pyperf3."""
    room = _room_of(1, tests)
    probed = next((way for way in ways if way.p50), None)
    idle = _member(latency, "idle")
    lines = [way.trips for way in ways if _highest(way.trips)]
    if not probed and not lines:
        return None
    levels = [_finite(idle, name) for name in ("min_ms", "p95_ms", "p50_ms")]
    known = probed and None not in levels
    most = max([_highest(probed.most, probed.p50) if probed else _highest(*lines)]
               + (levels if known else []))
    panel = Panel("Latency" if probed else "TCP's round trips", times, value_axis(most, "ms"))
    if known:
        panel.chart.add_level(levels[0], levels[1], "band idle")
        panel.keys["band idle"] = "idle, to p95"
        panel.texts.append("Idle: median %s." % _ms(levels[2]))
    if probed:
        bands = [Point(low.start, low.end, low.low, low.mean, max(low.high, high.high))
                 for low, high in zip(probed.p50, probed.most)]
        panel.chart.add_band(join_points(bands, room), "band up")
        panel.keys["band up"] = "to the longest"
        panel.chart.add_steps(join_points(probed.p50, room), "up")
        panel.keys["up"] = "median under load"
        panel.texts.append("Median under load: %s" % range_of(probed.p50, _ms))
        panel.texts.append("Longest: %s." % _ms(_highest(probed.most)))
    else:
        for way in ways:
            if way.trips:
                panel.draw(way.trips, room, way.name, "mean of the streams "
                           + _WAY_TEXTS[way.name], _ms)
    return panel


def loss_panel(ways, times, tests=1):
    """Return the Panel of what was lost, None if nobody counts it."""
    lost = any(way.lost for way in ways)
    lines = [(way, way.lost if lost else way.retransmits) for way in ways]
    lines = [(way, points) for way, points in lines if points]
    if not lines:
        return None
    most = _highest(*[points for _, points in lines])
    panel = Panel("Lost datagrams" if lost else "Retransmits per interval", times,
                  value_axis(most, "%" if lost else ""))
    for way, points in lines:
        style = way.name + (" ticks wide" if len(points) <= 60 else " ticks")
        panel.chart.add_ticks(join_points(points, _room_of(1, tests)), style)
        panel.keys[style] = _WAY_TEXTS[way.name]
        where = _WAY_TEXTS[way.name].capitalize()
        if lost:
            panel.texts.append("%s: %s" % (where, range_of(points, "%.3g %%".__mod__)))
        else:
            points = _measured(points)
            panel.texts.append("%s: %d in all, %d in an interval at the most." % (
                where, sum(point.mean for point in points), _highest(points)))
    return panel


def window_panel(ways, times, tests=1):
    """Return the Panel of the windows of TCP's senders, None if they are not known."""
    lines = [(way, points, style, name) for way in ways for points, style, name in (
        (way.snd_cwnd, way.name, "congestion window"),
        (way.snd_wnd, way.name + " second", "receiver's window")) if _highest(points)]
    if not lines:
        return None
    most = _highest(*[points for _, points, _, _ in lines])
    congestion = _highest(*[way.snd_cwnd for way in ways])
    if congestion:  # a receiver's window may be so large that nothing is seen of these
        most = min(most, _TALLEST * congestion)
    panel = Panel("Windows, of all streams", times, value_axis(most, "B"))
    for way, points, style, name in lines:
        name += " " + _WAY_TEXTS[way.name]
        if min(point.low for point in points) > panel.chart.y_axis.high:
            panel.texts.append("Above the chart, %s: %s" % (name, range_of(points, _size_text)))
        else:
            panel.draw(points, _room_of(2 * len(lines), tests), style, name, _size_text)
    return panel


def _percentiles(phase):
    """Return (ms, share) of what is known of a phase's round trips, shortest first."""
    places = [(_finite(phase, "min_ms"), 0.0), (_finite(phase, "max_ms"), 1.0)]
    places += [(_finite(phase, name), int(name[1:-3]) / 100.0) for name in phase
               if name[:1] == "p" and name[-3:] == "_ms" and name[1:-3] in _PERCENTS]
    return sorted({(ms, min(1.0, share)) for ms, share in places if ms is not None},
                  key=lambda place: place[::-1])


def share_panel(latency):
    """Return the Panel of the shares of the probes by their time, None if none are known."""
    phases = [(style, title, _percentiles(_member(latency, name))) for name, style, title in (
        ("idle", "idle", "idle"), ("loaded", "up", "under load"))]
    phases = [phase for phase in phases if phase[-1][1:]]
    if not phases:
        return None
    times = [ms for _, _, places in phases for ms, _ in places]
    shares = Axis(0.0, 1.0, [(share, "%d" % (100 * share)) for share in (0, 0.25, 0.5, 0.75, 1)],
                  "%")
    axis = log_axis(min(times), max(times), "ms")
    panel = Panel("Probes that came back within a time", axis, shares, log=True)
    for style, title, places in phases:
        panel.chart.add_polygon(places, style)
        panel.keys[style] = title
        panel.texts.append("%s: %s." % (title.capitalize(), ", ".join(
            "%g %% within %s" % (100 * share, _ms(ms)) for ms, share in places[1:])))
    panel.texts.append("Between these the line is only drawn.")
    return panel


def _if_sound(make, *what):
    """Return what a function makes of a part of a document, None if that is not as it should be."""
    try:
        return make(*what)
    except ODD_DOCUMENT:
        return None


def test_panels(document, tests=1):
    """Return the Panels of a test's document. tests: that share a page."""
    ways, times = ways_over_time(document)
    if not ways:
        return []
    latency = _member(_member(_member(document, "end"), "pyperf3"), "latency")
    if "classes" in latency:
        latency = next(iter(_objects(latency, "classes")), {})
    return list(filter(None, (
        _if_sound(rate_panel, ways, times, tests),
        _if_sound(latency_panel, latency, ways, times, tests),
        _if_sound(loss_panel, ways, times, tests), _if_sound(window_panel, ways, times, tests),
        _if_sound(share_panel, latency))))


###############################################################################
# report ######################################################################
###############################################################################
# A document to a page: what was asked, what came of it, and charts over one time
# axis, in one file that needs no other. Any document of -J will do, also one that
# iperf3 printed. The document is in the page as well, as data.

_PAGE_ROOM = 200000  # bytes of a page
_LEAST_ROOM = 20000  # bytes for the document in it, however large the rest is
_MOST_ROWS = 8192  # of intervals that are kept
_MOST_TRIED = 1000  # intervals of a document that may have room in a page
_FEW_INTERVALS = 60  # they are joined only where streams are left out as well
_DEEPEST = 60  # objects and lists within each other
_MOST_HOSTS = 30  # of a mesh that have a place in its tables
_STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--dim:#57606a;--page:#fff;--box:#f4f6f8;
--rule:#d5dae0;--up:#0063a8;--down:#b84a00;--idle:#3f7d20;--bad:#b3261e;--good:#1a6e2e}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ec;--dim:#a3adb8;--page:#14171a;--box:#1f2429;
--rule:#3a424a;--up:#5cb8ff;--down:#ffa257;--idle:#8fce6a;--bad:#ff8a80;--good:#7fd694}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:60rem;background:var(--page);color:var(--ink);
font:15px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.45rem;line-height:1.25;margin:.2rem 0 1rem}
h2{font-size:1.15rem;margin:1.8rem 0 .6rem}
h3{font-size:1rem;margin:0}
table{border-collapse:collapse;margin:.8rem 0;font-variant-numeric:tabular-nums}
th,td{text-align:left;vertical-align:top;padding:.25rem .8rem .25rem 0;
border-bottom:1px solid var(--rule);overflow-wrap:normal}
thead th{color:var(--dim);font-weight:600}
.table{overflow-x:auto}
.facts th{color:var(--dim);font-weight:600;white-space:nowrap}
.facts td{overflow-wrap:anywhere}
@media (max-width:36rem){.facts th{white-space:normal}th,td{padding-right:.45rem}}
code{font:13px/1.45 ui-monospace,monospace}
.say{background:var(--box);border-left:4px solid var(--up);padding:.6rem .9rem;margin:1rem 0}
.say p{margin:.2rem 0}
.error{border-color:var(--bad)}
.failed,.unknown{color:var(--bad);font-weight:600}.ok{color:var(--good)}
figure{margin:1.4rem 0;padding:0}
figcaption{display:flex;flex-wrap:wrap;gap:.1rem 1rem;margin-bottom:.7rem;align-items:baseline}
.key{white-space:nowrap;color:var(--dim);font-size:13px}
.key svg{width:28px;height:10px;margin-right:.35rem;vertical-align:middle;overflow:visible}
.note{color:var(--dim);font-size:13px;margin:.4rem 0 0}
.box{margin:0 20px 26px 52px}
svg{overflow:visible;display:block}.key svg{display:inline-block}
path{fill:none;stroke:none;vector-effect:non-scaling-stroke}
text{font:12px system-ui,sans-serif;fill:var(--dim)}
text.y{text-anchor:end}text.x{text-anchor:middle}
.grid{stroke:var(--rule);stroke-width:1}
.up,.down,.idle{stroke-width:1.8;stroke-linejoin:round}
.up{stroke:var(--up)}.down{stroke:var(--down)}.idle{stroke:var(--idle)}
.sent{stroke-dasharray:6 3}
.stream{stroke-width:1;opacity:.55}
.band.up{fill:var(--up)}.band.down{fill:var(--down)}.band.idle{fill:var(--idle)}
.band{stroke:none;opacity:.22}.band.idle{opacity:.4}
.omitted{fill:var(--dim);opacity:.14}
.second{stroke-dasharray:2 3}
.wide.ticks{stroke-width:4}
.mesh td,.mesh th{padding:.35rem .7rem;text-align:right;white-space:nowrap}
.mesh th:first-child{text-align:left}
.m0{background:#7a1f1a;color:#fff}.m1{background:#a8440b;color:#fff}
.m2{background:#ffd98a;color:#111}
.m3{background:#d7e8b0;color:#111}.m4{background:#8fcf9b;color:#111}
.none{background:var(--box);color:var(--dim)}
""".strip() + "\n"


# Fewer intervals

# What becomes of a figure of several intervals; of any other there is the last.
_JOINING = dict.fromkeys(("bytes", "seconds", "retransmits", "packets", "lost_packets",
                          "received_bytes", "latency_samples"), sum)
_JOINING.update(dict.fromkeys(("rtt", "rttvar", "jitter_ms", "latency_p50_ms", "latency_max_ms",
                               "most_bps", "fastest_bps"), max))
_JOINING.update(dict.fromkeys(("least_bps", "slowest_bps"), min))
_RATES = (("bits_per_second", "bytes"), ("received_bps", "received_bytes"))


def _join_rows(rows, seconds):
    """Return one row for several of as many intervals, of which it is the sum, or the worst."""
    joined = collections.OrderedDict(rows[-1])
    if "start" in rows[0]:
        joined["start"] = rows[0]["start"]
    for name in joined:
        if name == "pyperf3":
            joined[name] = _join_rows([_member(row, name) for row in rows], seconds)
        elif name in _JOINING:
            values = [each for each in (_finite(row, name) for row in rows) if each is not None]
            if values:
                joined[name] = _JOINING[name](values)
    for name, count in _RATES:
        if name in joined and count in joined:
            joined[name] = (_finite(joined, count) or 0.0) * 8.0 / seconds if seconds > 0 else 0.0
    if "lost_percent" in joined:
        joined["lost_percent"] = percent(_finite(joined, "lost_packets") or 0.0,
                                         _finite(joined, "packets") or 0.0)
    return joined


def _join_intervals(pair):
    """Return one interval for one, or several that follow each other."""
    if len(pair) == 1:
        return pair[0]
    seconds = sum(_finite(_member(each, "sum"), "seconds") or 0.0 for each in pair)
    joined = collections.OrderedDict(pair[-1])
    if "streams" in joined:
        joined["streams"] = [_join_rows(rows, seconds) for rows in
                             zip(*[_objects(each, "streams") for each in pair])]
    for name in joined:
        if name.startswith("sum"):
            rows = [_member(each, name) for each in pair]
            own = [_member(row, "pyperf3") for row in rows]
            rates = [_finite(row, "bits_per_second") or 0.0 for row in rows]
            rows = [dict(row, pyperf3=dict(
                mine, least_bps=mine.get("least_bps", rate), most_bps=mine.get("most_bps", rate)))
                for row, mine, rate in zip(rows, own, rates)]
            joined[name] = _join_rows(rows, seconds)
    return joined


def _without_streams(interval):
    """Return an interval without its streams, with what the charts tell of them."""
    less = collections.OrderedDict(interval, streams=[])
    for name, rows in _rows_of(interval):
        own = dict(_member(interval[name], "pyperf3"), **_spread(rows))
        less[name] = dict(interval[name], pyperf3=own)
    return less


def fewer_intervals(intervals, count=2):
    """Return intervals that take less room: so many joined to one, or first without many streams.

    Where hardly two are of a kind, there is no joining them: then every other one is left out.
    """
    if any(len(_member(each, "streams", list)) > _MOST_LINES for each in intervals):
        return [_without_streams(each) for each in intervals]
    joined = []
    for _, same in itertools.groupby(intervals, lambda each: (
            bool(_member(each, "sum").get("omitted")), len(_member(each, "streams", list)))):
        joined += map(_join_intervals, iter(lambda: list(itertools.islice(same, count)), []))
    return joined if len(joined) <= max(_FEW_INTERVALS, 0.75 * len(intervals)) else joined[::2]


class BoundedDocument(Document):
    """A Document whose intervals become fewer where they are too many: an hour fits, or a day."""

    def __init__(self):
        Document.__init__(self)
        self._count = 0  # of the intervals that there were
        self._kept, self._recent = [], []
        self._each = 1  # intervals that become one
        self._has_streams = True

    def _add_interval(self, event):
        interval = event["data"]
        self._count += 1
        if not self._has_streams:
            interval = _without_streams(interval)
        kinds = [_member(each, "sum").get("omitted") for each in (self._recent[:1] + [interval])]
        if kinds[0] != kinds[-1]:
            self._keep()
        self._recent.append(interval)
        if len(self._recent) == self._each:
            self._keep()

    def _keep(self):
        self._kept.append(_join_intervals(self._recent))
        self._recent = []
        streams = len(self._kept[-1]["streams"])
        if len(self._kept) * (1 + streams) >= _MOST_ROWS:
            self._kept = fewer_intervals(self._kept)
            if streams > _MOST_LINES:
                self._has_streams = False
            else:
                self._each *= 2

    def members(self):
        self._members["intervals"] = self._kept + (
            [_join_intervals(self._recent)] if self._recent else [])
        members = Document.members(self)
        if len(members["intervals"]) < self._count:
            members["left_out"] = [_joined_text(self._count, len(members["intervals"]))]
        elif not self._has_streams:
            members["left_out"] = [_NO_STREAMS]
        return members


_NO_STREAMS = "the streams of the intervals"


def _joined_text(count, kept):
    return "of %d intervals neighbours are joined to %d" % (count, kept)


# The data in the page

def sound_value(value, too_deep, depth=_DEEPEST):
    """Return a value that JSON was, without what cannot be written: None, or a text, is there.

    too_deep: gets an item for each place where the nesting is too deep.
    """
    if isinstance(value, (dict, list)):
        if not depth:
            too_deep.append(value)
            return "left out: nested too deep"
        items = value.items() if isinstance(value, dict) else enumerate(value)
        changed = []
        for name, each in items:
            new = sound_value(each, too_deep, depth - 1)
            if new is not each:
                changed.append((name, new))
        if changed:  # what was handed in stays as it is
            value = collections.OrderedDict(value) if isinstance(value, dict) else list(value)
            for name, new in changed:
                value[name] = new
    elif _is_number(value) and not abs(value) < MOST_NUMBER:
        return None
    return value


def _smaller(document, room):
    """Yield ever smaller documents of one test, each with what it lacks under `left_out`."""
    intervals, lacks = _objects(document, "intervals"), _member(document, "left_out", list)
    count, joined = len(intervals), []

    def lacking(*texts):
        return collections.OrderedDict(document, left_out=lacks + list(texts))
    outputs = "the server's own output"
    if embedded([document.get(name) for name in SERVER_OUTPUTS], room) is None:
        lacks, outputs = lacks + [outputs], ""
        document = collections.OrderedDict(_without(document, SERVER_OUTPUTS), left_out=lacks)
    if count <= _MOST_TRIED:
        yield document
    while len(intervals) > _FEW_INTERVALS or any(len(_member(each, "streams", list)) > _MOST_LINES
                                       for each in intervals):
        intervals = fewer_intervals(intervals, max(2, -(-len(intervals) // _MOST_TRIED)))
        document = dict(document, intervals=intervals)
        joined = [_joined_text(count, len(intervals)) if len(intervals) < count else _NO_STREAMS]
        if len(intervals) <= _MOST_TRIED:
            yield lacking(*joined)
    end, start = _member(document, "end"), _member(document, "start")
    own = {name: value for name, value in _member(end, "pyperf3").items()
           if not name.endswith("limits") and name != "quic_streams"}
    document = _without(dict(document, end=dict(end, pyperf3=own)), SERVER_OUTPUTS)
    joined.append(", and ".join(filter(None, ("end.pyperf3.limits", outputs))))
    yield lacking(*joined)
    intervals = [_without_streams(each) for each in intervals]
    for each in (intervals, fewer_intervals(intervals), fewer_intervals(intervals, 4)):
        document = dict(document, intervals=each)
        yield lacking(*([_joined_text(count, len(each))] * (len(each) < count) + joined[-1:]
                        + [_NO_STREAMS]))
    document = dict(document, start=dict(start, connected=[]), end=dict(
        document["end"], streams=[]), intervals=[])
    yield lacking("the intervals, all of single streams, end.pyperf3.limits, the server's own"
                  " output")
    yield collections.OrderedDict(left_out=["all, as there is no room"])


def _without(members, names):
    return collections.OrderedDict(each for each in members.items() if each[0] not in names)


def _smaller_whole(document, room):
    """Yield ever smaller documents, of any kind."""
    if "diagnose" in document:
        whole = _member(document, "diagnose")
        phases = _objects(whole, "phases")
        sizes = [list(_smaller(_member(phase, "document"), room // len(phases)))
                 for phase in phases]
        longest = max(map(len, sizes), default=0)
        for size in range(longest):  # a short test has few sizes, and needs none of them
            yield collections.OrderedDict(document, diagnose=collections.OrderedDict(
                whole, phases=[collections.OrderedDict(phase, document=each[
                    max(0, size - longest + len(each))]) for phase, each in zip(phases, sizes)]))
    elif "mesh" in document:
        yield document
        whole = _member(document, "mesh")
        yield collections.OrderedDict(document, mesh=collections.OrderedDict(whole, cells=[
            _without(cell, ("document",)) for cell in _objects(whole, "cells")]),
            left_out=["the document of each cell"])
    else:
        yield from _smaller(document, room)
    yield collections.OrderedDict(left_out=["all, as there is no room"])


def embedded_document(document, room):
    """Return a document as JSON for a script element, in at most so many bytes, and what it lacks.

    What takes the time is bounded by the room, and by what joining the intervals once takes.
    """
    for smaller in _smaller_whole(document, room):
        text = embedded(smaller, room)
        if text is not None:
            break
    lacks = _member(smaller, "left_out", list)
    for phase in _objects(_member(smaller, "diagnose"), "phases"):
        lacks = lacks + ["%s: %s" % (phase.get("name"), each) for each in
                         _member(_member(phase, "document"), "left_out", list)]
    return Markup(text or "{}"), lacks


def embedded(value, room):
    """Return a value as JSON for a script element, None if it takes more than so many bytes.

    What would end the element, or mean something in XML, is escaped as JSON allows: both parsers
    read back the same.
    """
    pieces = []

    def put(piece):
        nonlocal room
        room -= len(piece)
        if room < 0:
            raise _NoRoom
        pieces.append(piece)

    def add(each):
        if isinstance(each, (dict, list)):
            is_list = isinstance(each, list)
            put("[" if is_list else "{")
            for number, item in enumerate(each if is_list else each.items()):
                put("," if number else "")
                if not is_list:
                    add(item[0])
                    put(":")
                add(item if is_list else item[1])
            put("]" if is_list else "}")
        elif isinstance(each, str):
            if len(each) > room:
                raise _NoRoom
            put(_escaped(encode_json(each)))
        else:
            put(encode_json(each))
    try:
        add(value)
    except _NoRoom:
        return None
    return "".join(pieces)


class _NoRoom(Exception):
    """It takes more than there is."""


def _escaped(text):
    import re
    return re.sub("[<>&]|[^ -~]", _escape_unit, text)


def _escape_unit(found):
    """Return a letter as JSON's escapes, two of one beyond 16 bits."""
    code = ord(found.group())
    if code < 0x10000:
        return "\\u%04x" % code
    return "\\u%04x\\u%04x" % (0xd800 + (code - 0x10000 >> 10), 0xdc00 + (code & 0x3ff))


# What is said of a test

def _host_text(address, system, version, facts):
    """Return what is known of a host."""
    words = str(system or "").split()
    known = []
    if len(words) > 2:  # as uname has it
        known = [words[1], address, "%s %s" % (words[0], words[2])]
    else:
        known = [address, "%s %s" % (str(facts.get("system", "")).capitalize(),
                                     facts.get("kernel", ""))]
    if facts.get("cores"):
        known.append("%s CPUs" % facts["cores"])
    known.append(version)
    return ", ".join(filter(None, (str(each or "").strip() for each in known))) or "not known"


def _time_text(document):
    """Return when a test began, "" if that is not known."""
    return _member(_member(_member(document, "start"), "timestamp"), "time", str)


def test_facts(document):
    """Return (name, text) of what a test was."""
    start, end = _member(document, "start"), _member(document, "end")
    own, what = _member(end, "pyperf3"), _member(start, "test_start")
    place = next(iter(_member(start, "connected", list)), {})
    target = _member(start, "connecting_to")
    here = _host_text(_member(place, "local_host", str), start.get("system_info"),
                      start.get("version"), _member(own, "host"))
    far = _member(own, "remote_host")
    address = _member(place, "remote_host", str)
    if target:
        address = "%s%s, port %s" % (target.get("host"), " (%s)" % address if address not in (
            "", target.get("host")) else "", target.get("port"))
    there = _host_text(address, None, far.get("version") and "pyperf3 %s" % far["version"], far)
    ends = [("Client", here), ("Server", there)]
    if "accepted_connection" in start:
        ends = [("Client", there), ("Server", here)]
    facts = [("Time", _time_text(document) or "not known")] + ends
    if what:
        amount = next(("%s %s" % (what[name], name) for name in ("bytes", "blocks")
                       if what.get(name)), "%s s" % what["duration"] if what.get("duration")
                      else "until stopped")
        streams = what.get("num_streams")
        facts.append(("Test", "%s, %s stream%s%s, blocks of %s bytes, %s%s" % (
            what.get("protocol"), streams, "s" * (streams != 1),
            " each way" if what.get("bidir") else " from the server" if what.get("reverse") else "",
            what.get("blksize"), amount,
            ", %s s omitted" % what["omit"] if what.get("omit") else "")))
    names = [_member(end, name, str) for name in ("sender_tcp_congestion",
                                                  "receiver_tcp_congestion")]
    if any(names):
        facts.append(("Congestion control", " to ".join(collections.OrderedDict.fromkeys(
            filter(None, names)))))
    return facts + _result_facts(document)


def _known_sides(document, sent, received, way):
    """Return the sums of both ends without what nobody knows: that of an end that did not tell.

    Nothing is told to a server, nor to anybody where a test broke off.
    """
    is_server = "accepted_connection" in _member(document, "start")
    if is_server or document.get("error"):
        if (way == "up") != is_server:  # the other end receives
            received = received if _finite(received, "bytes") else {}
        else:
            sent = sent if _finite(sent, "bytes") else {}
    return sent, received


def _result_facts(document):
    """Return (name, text) of what came of a test."""
    facts, end = [], _member(document, "end")
    own, what = _member(end, "pyperf3"), _member(_member(document, "start"), "test_start")
    for suffix in DIRECTIONS:
        sent, received = _member(end, "sum_sent" + suffix), _member(end, "sum_received" + suffix)
        if not sent and not received:
            continue
        way = "down" if suffix or what.get("reverse") else "up"
        sent, received = _known_sides(document, sent, received, way)
        texts = ["%s %s" % (name, _rate_text(_finite(sums, "bits_per_second") or 0.0))
                 for name, sums in (("sent", sent), ("received", received)) if sums]
        if _finite(sent, "retransmits") is not None:
            texts.append("%d retransmits" % sent["retransmits"])
        lost = received and (_member(end, "sum" + suffix) or received)
        if _finite(lost, "lost_percent") is not None:
            texts.append("%.3g %% lost, jitter %s" % (
                lost["lost_percent"], _ms(_finite(lost, "jitter_ms") or 0.0)))
        facts.append((_WAY_TEXTS[way].capitalize(), ", ".join(texts) or "not known"))
    lines = _if_sound(mtu_lines, own["mtu"]) if _member(own, "mtu") else None
    if lines:
        facts.append(("Path", " ".join(" ".join(lines).split())))
    latency = _member(own, "latency")
    for figures in _objects(latency, "classes") if "classes" in latency else filter(
            None, [latency]):
        idle, loaded = _member(figures, "idle"), _member(figures, "loaded")
        texts = ["%s %s" % (name, _ms(phase["p50_ms"])) for name, phase in (
            ("idle", idle), ("under load", loaded)) if _finite(phase, "p50_ms") is not None]
        texts += ["grade %s" % figures["grade"]] if figures.get("grade") else []
        texts += ["%s RPM (%s)" % (figures["rpm"], figures.get("rpm_class"))] * ("rpm" in figures)
        facts.append(("Latency (median)", ", ".join(texts) or "not measured: %s"
                      % figures.get("reason", "no probe came back")))
    return facts


def _facts_table(facts):
    return element("div", "table", element("table", "facts", element("tbody", "", *[
        element("tr", "", element("th", {"scope": "row"}, name), element("td", "", text))
        for name, text in facts])))


def _table(head, rows, style=""):
    """Return a table. rows: cells, each a text or an element; the first is a head."""
    return element("div", "table", element(
        "table", style,
        element("thead", "", element("tr", "", *[
            element("th", {"scope": "col"}, text) for text in head])),
        element("tbody", "", *[element("tr", "", element("th", {"scope": "row"}, row[0]), *[
            cell if isinstance(cell, Markup) else element("td", "", cell) for cell in row[1:]])
            for row in rows])))


# What begins the lines of a verdict, and of a diagnosis.
_HEADS = ("Verdict", "Also", "Latency", "What to do", "all", "up", "down", "both")


def _say(lines, style="say"):
    """Return lines in a box, "" for none; what they are about stands out."""
    said = []
    for line in map(str, lines):
        head, colon, rest = line.partition(":")
        if colon and head.startswith(_HEADS):
            line = Markup(element("strong", "", head + ":") + xml_text(rest))
        said.append(element("p", "", line))
    return element("div", style, *said) if said else ""


def _checks_table(checks):
    """Return the table of limits that were asked for, "" without any."""
    rows = []
    for check in checks:
        way, phase = check.get("direction"), check.get("phase")
        name = " ".join(filter(None, (phase, way if way != phase else None)))
        state = check["state"]
        rows.append((
            ": ".join(filter(None, (name, check["name"]))), _figure_text(check, "limit"),
            check.get("reason", "-") if check["value"] is None else _figure_text(check, "value"),
            element("td", state if state in ("ok", "failed", "unknown") else "", state)))
    if not rows:
        return ""
    return element("h2", "", "Limits") + _table(("Limit", "Asked for", "Measured", ""), rows)


def _figure_text(check, name):
    value, unit = check[name], check["unit"]
    if _finite(check, name) is None:
        return "%s %s" % (value, unit)
    return _rate_text(value) if unit == "bit/s" else "%.4g %s" % (value, unit)


def _test_title(document):
    start = _member(document, "start")
    what = _member(start, "test_start")
    host = _member(start, "connecting_to").get("host") or _member(
        start, "accepted_connection").get("host")
    title = "%s test" % what.get("protocol", "iperf3")
    if not host:
        return title
    way = "both ways with" if what.get("bidir") else "from" if what.get("reverse") else "to"
    return "%s %s %s" % (title, way, host)


def _test_body(document, name):
    """Return the elements of a test: what it was, what limited it, its charts."""
    own = _member(_member(document, "end"), "pyperf3")
    parts = [_say([document["error"]], "say error")] if document.get("error") else []
    parts.append(_say(_if_sound(verdict_lines, _member(own, "verdict", list)) or ()))
    parts.append(_facts_table(test_facts(document)))
    parts.append(_if_sound(_checks_table, _member(own, "checks", list)))
    panels = test_panels(document)
    parts += [panel.figure("%s%d" % (name, number)) for number, panel in enumerate(panels)]
    if not panels:
        parts.append(element("p", "note", "No interval was measured."))
    return parts


# What is said of several

class SurveyTexts(SurveyTextRenderer):
    """The texts of the screen of --diagnose, in lines as long as it takes."""

    _WIDTH = 10 ** 6

    def head(self, data):
        return self._head(data)

    def findings(self, data):
        """Return the texts of what limits, and of what to do."""
        return [text for block in self._limits(data) + self._advice(data) for text in block]

    def cells(self, row):
        return self._cells(row)


def _survey_body(whole):
    data, texts, phases = _member(whole, "summary"), SurveyTexts(), _objects(whole, "phases")
    facts = [pair for phase in phases[:1] for pair in test_facts(_member(phase, "document"))
             if pair[0] in ("Time", "Client", "Server")]
    parts = [_say(_if_sound(texts.findings, data) or ()), _facts_table(facts + [
        line.partition(": ")[::2] for line in _if_sound(texts.head, data) or () if ": " in line])]
    rows = [_if_sound(texts.cells, row) for row in _objects(data, "rows")]
    parts.append(_table(("", "Bitrate", "Lost" if data.get("protocol") == "UDP" else "Resent",
                         "Latency p50 / p95", "Grade", "RPM"), filter(None, rows)))
    parts.append(_if_sound(_checks_table, _member(data, "checks", list)))
    for number, phase in enumerate(phases):
        document = _member(phase, "document")
        parts.append(element("h2", "", "Test %d: %s" % (number + 1, phase.get("name"))))
        if document.get("error"):
            parts.append(_say([document["error"]], "say error"))
        panels = test_panels(document, len(phases))
        parts += [panel.figure("t%dp%d" % (number, each)) for each, panel in enumerate(panels)]
    return parts


def _mesh_cell(cell, usual, figure, text):
    """Return the cell of a table of a mesh. usual: bitrate, None for other figures."""
    if cell is None:
        return element("td", "none", "")
    value = _finite(cell, figure)
    if value is None:
        error = cell.get("error")
        return element("td", "none failed" if error else "none", "failed" if error else "-")
    if usual is None:
        return element("td", "", text(value))
    share = value / usual if usual else 1.0
    # Not by its colour alone.
    return element("td", "m%d" % sum(share >= bound for bound in (0.5, 0.8, 0.9, 0.97)),
                   text(value) + " !" * bool(_member(cell, "marks", list)))


def _mesh_table(whole, title, figure, text):
    """Return the table of a figure, from each host to each, [] if no cell has it."""
    cells = {(str(cell.get("from")), str(cell.get("to"))): cell
             for cell in _objects(whole, "cells")}
    if all(_finite(cell, figure) is None for cell in cells.values()):
        return []
    usual = _finite(whole, "usual_bps") if figure == "bits_per_second" else None
    names = [str(host.get("name")) for host in _objects(whole, "hosts")[:_MOST_HOSTS]]
    rows = [["from %s" % source] + [
        _mesh_cell(cells.get((source, target)), usual, figure, text) for target in names]
        for source in names]
    return [element("h2", "", title),
            _table([""] + ["to %s" % name for name in names], rows, "mesh")]


def _mesh_body(document):
    whole = _member(document, "mesh")
    hosts, cells = _objects(whole, "hosts")[:_MOST_HOSTS], _objects(whole, "cells")
    parts = [_say([document["error"]], "say error")] if document.get("error") else []
    parts.append(_say(_member(whole, "findings", list)))
    times = [_time_text(_member(cell, "document")) for cell in cells]
    parts += [_facts_table([("Time", text)]) for text in list(filter(None, times))[:1]]
    parts += _mesh_table(whole, "Bitrate", "bits_per_second", _rate_text)
    parts += _mesh_table(whole, "Latency under load, median", "latency_ms", _ms)
    parts += _mesh_table(whole, "Round trip, idle", "rtt_ms", _ms)
    parts += _mesh_table(whole, "Retransmits", "retransmits", "%d".__mod__)
    parts.append(element("h2", "", "Hosts"))
    parts.append(_table(("Host", "Address", "Python", "Version", ""), [
        [str(host.get(name) or "-") for name in ("name", "address", "python", "version")]
        + [host.get("error") or ""] for host in hosts]))
    if len(_objects(whole, "hosts")) > _MOST_HOSTS:
        parts.append(element("p", "note", "The tables are of the first %d hosts." % _MOST_HOSTS))
    told = [host.get("error") for host in _objects(whole, "hosts")]
    failed = [cell for cell in cells if cell.get("error") and cell["error"] not in told]
    return parts + [_say(["%s to %s: %s" % (cell.get("from"), cell.get("to"), cell["error"])
                          for cell in failed], "say error")]


# The page

def _title_and_body(document):
    """Return the title of a page, and its elements."""
    if "diagnose" in document:
        whole = _member(document, "diagnose")
        return "Diagnosis of the path to %s" % whole.get("host"), _survey_body(whole)
    if "mesh" in document:
        return "Tests between %d hosts" % len(
            _objects(document["mesh"], "hosts")), _mesh_body(document)
    return _test_title(document), _test_body(document, "p")


_SHELL = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><meta name="viewport"'
    ' content="width=device-width, initial-scale=1"/>\n<title>%s</title>\n<style>\n%s'
    '</style></head>\n<body>\n%s\n%s\n<script type="application/json" id="document">'
    '%s</script>\n</body></html>\n')


def report_html(document, command=None):
    """Return the page of a document, as -J prints it: one text in ASCII, HTML and XML.

    document: of a test, of --diagnose or of --mesh, or whatever else JSON was; command: what was
    typed. The text is right in any encoding that knows ASCII.
    """
    too_deep = []
    document = sound_value(document if isinstance(document, dict) else {}, too_deep)
    title, body = _title_and_body(document)
    if document.get("title"):
        title = "%s: %s" % (document["title"], title)
    head = [element("h1", "", title)]
    if command:
        head.append(element("p", "", element("code", "", command)))
    title, page = _in_ascii(xml_text(title)), _in_ascii("".join(filter(None, head + body)))
    room = _PAGE_ROOM - len(page) - len(title) - len(_SHELL) - len(_STYLE) - _MOST_TEXT
    data, lacks = embedded_document(document, max(_LEAST_ROOM, room))
    lacks = lacks + ["what is nested too deep"] * bool(too_deep)
    note = "Made by pyperf3 %s. The script element at the end holds the figures as JSON%s." % (
        __version__, "; left out, to keep this file small: %s" % "; ".join(
            map(str, lacks)) if lacks else "")
    return _SHELL % (title, _STYLE, page, _in_ascii(element("p", "note", note)), data)


def _in_ascii(text):
    """Return a text of XML with references in place of letters that are not in ASCII."""
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


class ReportFile:
    """Collect the events of a client, and write the page of each test, survey or mesh that ends."""

    NUMBER = 930  # of its error

    def __init__(self, path, command=None):
        """Raises IperfError 930 where no such file can be written."""
        self._path, self._command = path, command
        check_replaceable(path, 930)
        self._document, self._whole = BoundedDocument(), None
        self._phases = {}  # of a survey: name: BoundedDocument

    def add(self, event):
        """Take an event in; write the page if it is the last.

        Returns whether it did. Raises IperfError 930.
        """
        name = event["event"]
        if name in OF_SEVERAL:
            self._whole = whole_document(event)
        if "phase" in event:
            self._phases.setdefault(event["phase"], BoundedDocument()).add(event)
            return False
        self._document.add(event)
        if name != "done":
            return False
        document, whole, phases = self._document.members(), self._whole, self._phases
        self._document, self._whole, self._phases = BoundedDocument(), None, {}
        if whole is not None:
            document = self._with_phases(whole, phases) if phases else whole
        replace_file(self._path, to_bytes(report_html(document, self._command)), 930)
        return True

    @staticmethod
    def _with_phases(document, phases):
        """Return a survey's document with those of its tests that were kept within bounds."""
        whole = document["diagnose"]
        return collections.OrderedDict(document, diagnose=collections.OrderedDict(
            whole, phases=[collections.OrderedDict(phase, document=phases[phase["name"]].members())
                           for phase in whole["phases"]]))


###############################################################################
# attributes ##################################################################
###############################################################################
# Client() and Server() without settings have the attributes, and their run() the
# results, of the package `iperf3` on PyPI (a wrapper around libiperf, 0.1.11), so
# that programs for it run with `import pyperf3 as iperf3`.

class TestResult:
    """Hold the figures of one test under the names of the package `iperf3`.

    text: the JSON document; json: the same as a dict; error: None, or why the test failed.
    Of bit rates bps are bits, kbps 1000 and Mbps 1000000 bits per second, kB_s 1024 and MB_s
    1048576 bytes per second. retransmits is None where the other end did not tell. What a test
    that failed did not come to is None.
    """

    __test__ = False  # whatever a test runner thinks of its name

    _RATES = "bytes bps kbps Mbps kB_s MB_s".split()
    _NAMES = ("time timesecs system_info version local_host local_port remote_host remote_port"
              " reverse type protocol num_streams blksize omit duration local_cpu_total"
              " local_cpu_user local_cpu_system remote_cpu_total remote_cpu_user"
              " remote_cpu_system tcp_mss_default retransmits jitter_ms packets lost_packets"
              " lost_percent seconds").split()

    def __init__(self, text):
        """text: a JSON document of a client or server. Raises ValueError if it is none."""
        import json
        self.text = text
        self.json = json.loads(text)
        self.error = self.json.get("error")
        for name in self._NAMES + [side + name for side in ("", "sent_", "received_")
                                   for name in self._RATES]:
            setattr(self, name, None)
        try:
            self._take_start(self.json.get("start", {}))
            self._take_end(self.json.get("end", {}))
        except (KeyError, IndexError):
            if self.error is None:
                self.error = "the document is not whole"

    def _take_start(self, start):
        self.version, self.system_info = start["version"], start["system_info"]
        self.type = "client" if "connecting_to" in start else "server"
        stamp = start["timestamp"]
        self.time, self.timesecs = stamp["time"], stamp["timesecs"]
        connected = start["connected"][0]
        for name in ("local_host", "local_port", "remote_host", "remote_port"):
            setattr(self, name, connected[name])
        facts = start["test_start"]
        for name in ("protocol", "num_streams", "blksize", "omit", "duration"):
            setattr(self, name, facts[name])
        self.reverse = bool(facts["reverse"])
        self.tcp_mss_default = start.get("tcp_mss_default")

    def _take_end(self, end):
        cpu = end["cpu_utilization_percent"]
        for ours, name in (("local", "host"), ("remote", "remote")):
            for kind in ("total", "user", "system"):
                setattr(self, "%s_cpu_%s" % (ours, kind), cpu["%s_%s" % (name, kind)])
        if self.protocol == "UDP":
            self._take_rates("", end["sum"])
            for name in ("jitter_ms", "packets", "lost_packets", "lost_percent", "seconds"):
                setattr(self, name, end["sum"][name])
        else:
            self._take_rates("sent_", end["sum_sent"])
            self._take_rates("received_", end["sum_received"])
            self.retransmits = end["sum_sent"].get("retransmits")

    def _take_rates(self, side, row):
        rate = row["bits_per_second"]
        for name, value in zip(self._RATES, (row["bytes"], rate, rate / 1e3, rate / 1e6,
                                             rate / 8 / 1024, rate / 8 / 1024 / 1024)):
            setattr(self, side + name, value)

    def __repr__(self):
        return self.text


def _role(letter):
    if letter.lower() not in ("c", "s"):
        raise ValueError("unknown role: 'c' is a client, 's' a server")
    return letter.lower()


class IPerf3:
    """What AttributeClient and AttributeServer share: attributes to Settings, events to a result.

    role: "c" or "s", which is given first. iperf_version: of the program. json_output: False
    prints what the command line prints without -J, and makes run() return None.
    """

    _NAMES = {}  # attribute: name of the setting
    _MAKE = None  # makes the driver from Settings
    # How attributes read what they are given.
    _READ = {"role": _role, "port": int, "verbose": bool, "json_output": bool, "reverse": bool,
             "bind_address": lambda address: address or "*",
             "server_hostname": lambda host: host or None,
             "zerocopy": lambda wanted: bool(wanted and CAN_SEND_FILES)}

    iperf_version = VERSION_TEXT

    def __init__(self, role, verbose=True, lib_name=None, settings=None):
        """lib_name: for programs that say where libiperf is; nothing is loaded. settings: None."""
        self.role = role
        self._test = self  # there the handle of libiperf's test
        self._driver = self._error = None
        self.defaults()
        self.verbose = verbose

    def __setattr__(self, name, value):
        object.__setattr__(self, name, self._READ[name](value) if name in self._READ else value)

    def defaults(self):
        """Give each attribute the value that it has at first."""
        self.verbose = False
        self.json_output = True
        self.bind_address = ""
        self.port = DEFAULT_PORT

    def _settings(self):
        """Return the Settings that the attributes stand for; those that are None say none."""
        return Settings(**{setting: getattr(self, name) for name, setting in self._NAMES.items()
                           if getattr(self, name) not in (None, "*")})

    def __iter__(self):
        if self._MAKE is None:
            raise NotImplementedError("a Client or Server runs tests")
        self._driver = self._MAKE(self._settings())
        return iter(self._driver)

    def run(self):
        """Run, or serve, one test; returns its TestResult, also if it fails."""
        document, renderer = Document(first_facts()), TextRenderer(self.verbose)
        said = False
        try:
            for event in self:
                if event.get("server") and not event.get("test") and (
                        event["event"] not in ("version", "listening")):
                    continue  # a stranger's
                document.add(event)
                for line in [] if self.json_output else renderer.render(event):
                    print(line, flush=True)
                if event["event"] == "error" and not self.json_output:
                    said = True
                    print("\n".join(error_lines(event)), file=sys.stderr, flush=True)
            self._error = self._driver.error
        except IperfError as trouble:
            self._error = trouble
        if not self.json_output:
            if self._error is not None and not said:
                text = with_remark(self._error, server_error_text(self._error))
                print(error_line(text), file=sys.stderr, flush=True)
            return None
        if self._error is not None and "error" not in document.members():
            document.add({"event": "error", "data": server_error_text(self._error)
                          if isinstance(self._error, Interrupted) else str(self._error)})
        return TestResult(escape_steering(encode_json(document.members(), 0)))

    @property
    def _errno(self):
        """The number of the last test's error, 0 for none."""
        return getattr(self._error, "number", 0)

    def _error_to_string(self, number):
        return str(self._error if number and number == self._errno else IperfError(number))

    def stop(self):
        """End the test that runs, from another thread; run() returns its result."""
        if self._driver is not None:
            self._driver.stop()


class AttributeClient(IPerf3, Client):
    """A client that is told by attributes what to do, as the package `iperf3` has it.

    server_hostname, port, duration (s), num_streams, protocol ("tcp", "udp", "sctp"), reverse,
    bind_address, bind_port, bandwidth (bit/s), blksize or bulksize (bytes), omit (s), zerocopy,
    verbose, json_output. run() returns a TestResult and raises nothing for a test that fails.
    """

    _NAMES = {"server_hostname": "client", "port": "port", "duration": "time",
              "num_streams": "parallel", "bind_address": "bind", "bind_port": "cport",
              "bandwidth": "bitrate", "_blksize": "length", "omit": "omit", "_udp": "udp",
              "_sctp": "sctp", "reverse": "reverse", "zerocopy": "zerocopy"}
    _MAKE = Client

    def __init__(self, verbose=True, lib_name=None, settings=None):
        IPerf3.__init__(self, "c", verbose, lib_name)

    def defaults(self):
        IPerf3.defaults(self)
        self._blksize = None
        self.server_hostname = self.bind_port = None
        self.duration, self.num_streams, self.omit = DEFAULT_TIME, 1, 0
        self.bandwidth = 0  # of UDP, too: the 1 Mbit/s are the command line's
        self.protocol = "tcp"
        self.reverse = self.zerocopy = False

    @property
    def protocol(self):
        return self._protocol

    @protocol.setter
    def protocol(self, name):
        self._protocol = str(name).lower()
        if self._udp:
            self.blksize = self.blksize  # which may be too large now

    @property
    def blksize(self):
        return DEFAULT_TCP_BLOCK if self._blksize is None else self._blksize

    @blksize.setter
    def blksize(self, size):
        if self._udp and size is not None:
            size = min(size, MAX_UDP_BLOCK)
        self._blksize = size

    bulksize = blksize

    @property
    def _udp(self):
        return self._protocol == "udp"

    @property
    def _sctp(self):
        return self._protocol == "sctp"


class AttributeServer(IPerf3, Server):
    """A server that is told by attributes what to do, as the package `iperf3` has it.

    bind_address, port, verbose, json_output. run() serves one test and returns its TestResult.
    """

    _NAMES = {"port": "port", "bind_address": "bind", "_serves": "server", "_once": "one_off"}
    _MAKE = Server
    _serves = _once = True

    def __init__(self, verbose=True, lib_name=None, settings=None):
        IPerf3.__init__(self, "s", verbose, lib_name)


def _stand_in(driver, variant):
    """Let a class that is called without Settings make its variant with attributes."""
    def make(cls, settings=None, *_, **__):
        plain = settings is None or isinstance(settings, bool)  # that package's `verbose`
        return object.__new__(variant if cls is driver and plain else cls)
    driver.__new__ = staticmethod(make)


_stand_in(Client, AttributeClient)
_stand_in(Server, AttributeServer)


###############################################################################
# output ######################################################################
###############################################################################
# Where lines go: the standard streams, a log file, the line that a terminal shows
# while a client waits. A reader may be slow, or gone.

_MAX_UNREAD = 4 * 1024 * 1024  # bytes of output that wait for a reader
_LIVELY = 1.0  # seconds in which a reader of so much gets another chance
_TERMINAL_PIECE = 256  # bytes; what Linux has room for if it says that a terminal takes any


class Outlet:
    """A standard stream or a log file, whose reader may be slow, or gone.

    What it does not take now waits here, and is lost only beyond a bound. The descriptor's flags
    stay as they are, since others share them.
    """

    def __init__(self, stream, own=False):
        """stream: a file object, or None; own: nothing else writes to its descriptor."""
        self._stream = stream
        self._own = own
        self._given_up = stream is None
        self._descriptor = self._piece = None
        self._left = bytearray()  # what waits
        self.lost = 0  # lines that nobody was told about
        self.error = None  # the OSError that broke it
        try:
            # Elsewhere a console is more than a descriptor; and a program may have put another
            # stream in its place, which has more to do than to write.
            if os.name == "posix" and (own or stream in (sys.__stdout__, sys.__stderr__)):
                stream.flush()
                mode = os.fstat(stream.fileno()).st_mode
                self._descriptor = stream.fileno()
                if os.isatty(self._descriptor):
                    self._piece = _TERMINAL_PIECE
                elif not stat.S_ISREG(mode):
                    self._piece = getattr(select, "PIPE_BUF", 512)
        except (OSError, ValueError, AttributeError):
            pass  # a program's own kind of stream

    def is_also(self, other):
        """Return whether both lead to one place."""
        places = self._descriptor, other._descriptor
        return None not in places and os.path.sameopenfile(*places)

    def write(self, block):
        """Write a text of whole lines, as far as it goes."""
        if self._given_up:
            return
        end = time.monotonic() + _LIVELY
        while self._is_full(block) and time.monotonic() < end and self._push(0.1):
            pass  # somebody reads
        if self._is_full(block):
            self.lost += block.count("\n")
            return
        if self._descriptor is None:
            self._write_stream(block)
            return
        self._left += to_bytes(block)
        self.flush()

    def flush(self, seconds=0.0):
        """Write what waits, as far as it goes in so many seconds; returns whether some is left."""
        while self._left and self._push(seconds):
            pass
        return bool(self._left)

    def _is_full(self, block):
        return self._left and len(self._left) + len(block) > _MAX_UNREAD

    def _push(self, seconds):
        """Write a piece of what waits, once it goes, in so many seconds; returns whether it did."""
        try:
            if self._piece and not is_ready([self._descriptor], seconds, True):
                return False
            del self._left[:os.write(self._descriptor, self._left[:self._piece])]
            return True
        except BlockingIOError:  # somebody else made it so
            time.sleep(min(seconds, 0.01))
        except OSError as error:
            self.error = error
            self.abandon()
        return False

    def abandon(self):
        """Give up what waits, and all that comes."""
        self._given_up = True
        del self._left[:]

    def follow(self, other):
        """Take over what another one has left."""
        self._left, self.lost = other._left, other.lost

    def close(self):
        if self._own:
            self._stream.close()

    def _write_stream(self, block):
        try:
            binary = getattr(self._stream, "buffer", None)
            if binary is not None:
                binary.write(to_bytes(block))
                binary.flush()
            else:
                self._stream.write(block)
                self._stream.flush()
        except OSError as error:
            self.error = error
            self.abandon()
            self._discard()
        except (ValueError, AttributeError):  # closed, or none
            self.abandon()

    def _discard(self):
        """Keep the interpreter from complaining about the broken stream when it ends."""
        with suppress(OSError, ValueError, AttributeError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)


class Output:
    """Where lines go, each at once: to standard output and standard error, or to a log file."""

    def __init__(self):
        self._out, self._err = Outlet(sys.stdout), Outlet(sys.stderr)
        if self._out.is_also(self._err):  # what waits keeps its order
            self._err = self._out
        self._path = None
        self._log = None
        self._lost_log = None  # the OSError that broke one that was opened anew
        self._stamp = None
        self.patience = None  # seconds that drain() waits for readers, None for ever
        self.broken_status = 0  # exit status if a reader goes
        self.log_is_text = True  # not to be JSON

    @property
    def error(self):
        """Return the OSError that broke it, None if it is whole."""
        return (self._log or self._out).error

    def stamp_lines(self, layout):
        """Put the local time before each line from now on. layout: of strftime."""
        self._stamp = layout

    def open_log(self, path):
        """Write to the end of a file from now on. Raises IperfError 17."""
        self._path = path
        log = Outlet(open_safely(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 17, 0o666), True)
        if self._log is not None:
            log.follow(self._log)
            self._lost_log = self._log.error or self._lost_log
            self._log.close()
        self._log = log

    def reopen_log(self):
        """Open the log file anew, for it may have been moved away; keep the old one if not."""
        if self._log is not None:
            try:
                self.open_log(self._path)
            except IperfError as error:
                self.complain([error_line(error)])

    def stamped(self, line):
        """Return a line with its stamp before it, if lines are stamped."""
        if self._stamp is None or line.startswith(_UNTITLED):
            return line
        try:
            return time.strftime(self._stamp) + line
        except (ValueError, UnicodeError):
            return self._stamp + line

    def terminal(self):
        """Return the Terminal that lines go to."""
        columns = 0 if self._log else terminal_columns(sys.stdout)
        colour = (columns > 0 and os.name == "posix" and not os.environ.get("NO_COLOR")
                  and os.environ.get("TERM", "dumb") != "dumb")
        if columns:
            columns = max(1, columns - len(self.stamped("")))
        return Terminal(columns, shows_blocks(sys.stdout), colour)

    def write(self, lines, text=True):
        """Write lines. After a failure nothing is written any more.

        text: they are no JSON, which bears no stamps.
        """
        self._put(self._log or self._out, lines, text)

    def complain(self, lines):
        """Write error lines: to the log file if there is one for text, else to standard error."""
        self._put(self._log if self._log and self.log_is_text else self._err, lines, True)

    def show(self, text):
        """Write what is no line to standard error."""
        self._err.write(text)

    def _put(self, outlet, lines, text):
        if lines:
            outlet.write("".join((self.stamped(line) if text else line) + "\n" for line in lines))

    def _outlets(self):
        return filter(None, (self._log, self._out, self._err))

    def flush(self, seconds=0.0):
        """Write what waits, as far as it goes in so many seconds; returns whether some is left."""
        left = False
        for outlet in self._outlets():
            if outlet.flush(seconds):
                left = True
            elif outlet.lost:
                lost, outlet.lost = outlet.lost, 0
                # Not into the gap itself, where it would be a line that is no JSON.
                self.complain([error_line("%d lines of output are lost: nobody read them" % lost)])
        return left

    def drain(self, gives_up=lambda: False):
        """Wait until all is written, for as long as `patience` and `gives_up()` allow."""
        begun = time.monotonic()
        while self.flush(0.1):
            late = self.patience is not None and time.monotonic() - begun > self.patience
            if late or gives_up():
                for outlet in self._outlets():
                    outlet.abandon()

    def close(self):
        """Write what waits, and close the log file.

        Returns the exit status that a broken output calls for, None if it is whole.
        """
        self.drain()
        log, error = self._log, self.error or self._lost_log
        if log is not None:
            log.close()
            self._log = None
        if error is None or isinstance(error, BrokenPipeError):
            return None if error is None else self.broken_status
        self.complain([error_line("error - unable to write to %s: %s" % (
            "the log file" if log is not None else "standard output", error.strerror))])
        self.drain()
        return 1


def terminal_columns(stream):
    """Return the width of the terminal that a stream leads to, 0 if it is none."""
    try:
        if stream.isatty():
            return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        pass
    return 0


def shows_blocks(stream):
    """Return whether what reads a stream knows letters beyond ASCII, as far as one can tell."""
    if (getattr(stream, "encoding", None) or "").lower().replace("_", "-") not in ("utf-8", "utf8"):
        return False
    if os.name != "posix":
        return True
    # In the C locale Python takes UTF-8 for itself, and tells its children by LC_CTYPE.
    own = getattr(sys.flags, "utf8_mode", 0) and os.environ.get("LC_CTYPE", "").lower() in (
        "c.utf-8", "c.utf8", "utf-8")
    names = ("LC_ALL", "LANG") if own else ("LC_ALL", "LC_CTYPE", "LANG")
    locale = next(filter(None, map(os.environ.get, names)), "")
    return "utf8" in locale.lower().replace("-", "")


class WaitingLine:
    """The line that tells at a terminal what a client waits for; it is replaced, and goes again."""

    def __init__(self, output):
        self._output = output
        self._length = 0

    @staticmethod
    def columns():
        """Return the width of the terminal, 0 if standard error is none."""
        return terminal_columns(sys.stderr)

    def show(self, waiting):
        """Show the data of an event; None takes the line away."""
        self.show_text(self._text(waiting) if waiting else "")

    def show_text(self, text):
        """Show a text in the line's place."""
        columns = self.columns()
        if columns and (text or self._length):
            text = text[:columns - 1]
            self._output.show("\r%s\r" % text.ljust(self._length))
            self._length = len(text)

    @staticmethod
    def _text(waiting):
        host, addresses = waiting["host"], [each for each in waiting["addresses"]
                                            if each != waiting["host"]]
        if addresses:
            host += " (%s)" % ", ".join(addresses)
        verb, what = "waiting for", " to answer"
        if waiting.get("again"):
            verb, what = "trying", " again"
        elif not waiting["connected"]:
            verb, what = ("connecting to" if waiting["addresses"] else "looking up"), ""
        return "%s %s port %d%s, for %.0f seconds more" % (
            verb, host, waiting["port"], what, waiting["seconds"])


class Printer:
    """Print the events of a client or server."""

    def __init__(self, driver, settings, output):
        self._driver = driver
        self._output = output
        self._waiting_line = WaitingLine(output)
        has_line = settings.crowd or settings.diagnose and not (settings.verbose
                                                                or settings.relayed)
        self._tells_progress = has_line and self._waiting_line.columns() > 0
        texts = plotting(output.terminal) if settings.plot else ()
        self._rows = CsvPrinter(settings) if settings.csv_only else None
        self._results = self._rows or make_renderer(
            settings, self._tells_progress, *filter(None, [texts]))
        self._messages = PerTest(lambda: MessageRenderer(
            settings.debug, settings.diagnose or settings.max_clients > 1))
        self._daemon = settings.daemon
        self._text = not (settings.json or settings.json_stream)
        self._stamps = output.log_is_text = self._text and not settings.csv_only
        self._catching_up = False  # a task writes what a reader did not take at once
        self._files = []  # what else takes events
        if settings.html is not None:
            self._files.append(ReportFile(settings.html, command_text(settings)))
        if settings.csv is not None and not settings.csv_only:
            self._files.append(CsvFile(settings))
        if settings.prometheus is not None:
            self._files.append(MetricsFile(settings))
        self._told = {}  # by file: what was said of a failure, as long as it lasts
        self.failed = False  # a file could not be written
        self._over = False  # of --repeat the last run counts

    def print(self, event):
        """Print an event, as far as it goes at once; stop a client that nobody listens to."""
        name, output, server = event["event"], self._output, event.get("server")
        if self._over and not server:
            self.failed = False
        self._over = name == "done" and "phase" not in event
        if name == "accepted" or (name == "done" and server):
            output.reopen_log()
        if name == "waiting":
            self._waiting_line.show(event["data"])
        elif self._tells_progress:
            self._show_progress(event)
        try:
            output.write(self._results.render(event), self._stamps)
        except MemoryError:
            if not server:
                raise
        if name != "error" or (self._text and output.error is None):
            output.complain(self._messages.render(event))
        if self._rows:
            output.complain(self._rows.complaints(event))
        if name == "warning" and self._daemon and not self._text:
            self._record_warning(event)
        for file in self._files:
            self._add_to_file(file, event)
        if output.error is not None and not server:
            self._driver.stop("with its output closed")
        elif not self._catching_up and output.flush():
            self._catching_up = True
            self._driver.attend(self._catch_up())

    def _add_to_file(self, file, event):
        try:
            if file.add(event):
                self._told.pop(file, None)
        except Exception as error:  # whatever it is, the test and the other files go on
            if not isinstance(error, IperfError):
                error = IperfError(file.NUMBER, repr(error))
            self.failed, line = True, error_line(error)
            if self._told.get(file) != line:  # once, and not of each row
                self._told[file] = line
                self._output.complain([line])

    def _show_progress(self, event):
        text = survey_progress(event)
        if text is not None:
            self._waiting_line.show_text(text)
        elif event["event"] in ("warning", "error", "debug", "diagnose", "mesh", "far"):
            self._waiting_line.show_text("")

    def _record_warning(self, event):
        """Print a warning as a document of its own: a daemon has no standard error."""
        for name, data in (("error", event["data"]), ("end", {}), ("done", None)):
            self._output.write(self._results.render(Event(
                event=name, data=data, server=True, ok=False)), False)

    def _catch_up(self):
        while self._output.flush():
            yield from pause(0.05)
        self._catching_up = False


###############################################################################
# far ends ####################################################################
###############################################################################
# Where the other end of a client comes from when it is not there already: start it,
# know its address, end it.

class Loopback:
    """The server of --loopback: it serves one test, or a survey, on a free port of this host.

    That of --ssh-dial-back listens to others as well, and needs their token. host, port: its
    address; host is None for all.
    """

    def __init__(self, settings):
        """settings: the client's. Raises IperfError if nothing can listen."""
        self.host = "::1" if settings.version6 else "127.0.0.1"
        self.token = None
        if settings.ssh_dial_back:  # others may reach it, too
            self.host, self.token = None, make_token()
        port = settings.wanted_port if self.token else 0
        self._listener = open_listener(self.host, port, families(settings) if self.token else
                                       _AF_INET6 if settings.version6 else socket.AF_INET)
        self.port = self._listener.getsockname()[1]
        self._settings = settings
        self._helper = None

    def start(self):
        """Let it serve."""
        self._helper = start_helper(self._make_server, self._listener)

    def _make_server(self):
        ours = self._settings
        settings = far_server_settings(ours, self.token)
        return Server(settings, self._listener,
                      lambda: TextRenderer(ours.verbose, ours.format).render)

    def end(self):
        if self._helper is None:
            self._listener.close()
        else:
            self._helper.end()


def start_helper(make_server, listener):
    """Run a server beside this program. Returns an object with end()."""
    if can_fork():
        with suppress(OSError):  # the system refuses it
            return HelperProcess(make_server, listener)
    return HelperThread(make_server)


class HelperProcess:
    """A server in a process of its own, which also ends when this program does, however it ends."""

    def __init__(self, make_server, listener):
        """Raises OSError."""
        lifeline = os.pipe()
        try:
            self._child = os.fork()
        except OSError:
            for end in lifeline:
                os.close(end)
            raise
        if self._child == 0:
            try:
                self._serve(make_server, listener, lifeline[0])
            finally:
                os._exit(0)
        self._lifeline = lifeline[1]
        os.close(lifeline[0])
        listener.close()

    @staticmethod
    def _serve(make_server, listener, lifeline):
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        close_descriptors((2, lifeline, listener.fileno()))
        server = make_server()
        server.watch(lifeline)
        collections.deque(server, 0)

    def end(self):
        os.close(self._lifeline)  # the end of file stops the server
        deadline = time.monotonic() + 2.0
        with suppress(OSError):
            while os.waitpid(self._child, os.WNOHANG)[0] == 0:
                if time.monotonic() > deadline:
                    os.kill(self._child, signal.SIGKILL)
                time.sleep(0.001)


class HelperThread:
    """A server in a thread, where the system cannot fork."""

    def __init__(self, make_server):
        import threading
        self._server = make_server()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        try:
            collections.deque(self._server, 0)
        except Exception:
            pass  # the client will notice

    def end(self):
        self._server.stop()
        self._thread.join(2.0)


_RELAYED = 32768  # bytes of output in one line of a far end


class FarEnd:
    """This program on a host that was reached by ssh: it does what standard input asks for.

    It ends when that does, or when it is silent for too long (the link may be cut), and leaves
    nothing behind.
    """

    def __init__(self, marker, run):
        """marker: what comes before each line; run: does what settings say, prints it.

        run takes the Settings and an Output, and returns the exit status.
        """
        self._marker, self._run = to_bytes(marker), run
        self._loop = Loop()
        self._heard = time.monotonic()
        self._unsent = bytearray()
        self._jobs = {}  # by number: objects with end() and stop()
        self._over = False

    def work(self):
        """Do what is asked for, until the end."""
        for descriptor in (0, 1):
            os.set_blocking(descriptor, False)
        self._sender = self._loop.spawn(self._send())
        self._loop.spawn(self._listen())
        self._loop.spawn(self._watch())
        connection = os.environ.get("SSH_CONNECTION", "").split()
        addresses = connection[2:3] + host_addresses()
        self._say(host=socket.gethostname(), version=__version__, boot=boot_id(),
                  peer="".join(connection[:1]),
                  addresses=list(collections.OrderedDict.fromkeys(addresses)))
        try:
            while not self._over:
                self._loop.run_once()
        finally:
            for job in list(self._jobs.values()):
                job.end()

    def _watch(self):
        while time.monotonic() - self._heard < BEATS_MISSED:
            self._say()  # a sign of life
            yield from pause(BEAT)
        self._over = True

    def _listen(self):
        """Take requests, in a task."""
        lines, data = Lines(), b"\n"
        while data:
            data = yield from read_some(0, 65536)
            self._heard = time.monotonic()
            for line in filter(None, lines.add(data)):
                self._take(line)
        self._over = True

    def _take(self, line):
        import json
        request = json.loads(line.decode("ascii"))
        number, job = request["job"], self._jobs.get(request["job"])
        if request["op"] == "end":
            if self._jobs.pop(number, None):
                job.end()
        elif request["op"] == "stop":
            if job:
                job.stop()
        else:
            try:
                getattr(self, "_begin_" + request["op"])(number, request)
            except IperfError as error:
                self._say(job=number, error=error_text(error))
            except OSError as error:
                self._say(job=number, error=system_text(error))

    def _begin_serve(self, number, request):
        """Begin a server."""
        settings = Settings.from_json(request["settings"])
        listener = open_listener(None, request["port"], families(settings))
        port = listener.getsockname()[1]

        def make_server():
            return Server(settings, listener,
                          lambda: TextRenderer(settings.verbose, settings.format).render)
        with on_error(listener.close):
            self._jobs[number] = HelperProcess(make_server, listener)
        self._say(job=number, port=port)

    def _begin_run(self, number, request):
        """Begin a client."""
        settings = Settings.from_json(request["settings"])
        program = FarProgram(lambda: self._run(settings, Output()))
        self._jobs[number] = program
        self._loop.spawn(self._pass_on(number, program))

    def _pass_on(self, number, program):
        """Tell what a client prints, and its status, in a task."""
        tasks = [self._loop.spawn(self._relay(number, name, descriptor))
                 for name, descriptor in program.outputs]
        yield from await_tasks(tasks)
        while program.poll() is None:
            yield from pause(0.005)
        if self._jobs.pop(number, None):
            program.end()
        self._say(job=number, status=program.poll())

    def _relay(self, number, name, descriptor):
        try:
            while True:
                while len(self._unsent) > 4 * _RELAYED:
                    yield from pause(0.01)
                data = yield from read_some(descriptor, _RELAYED)
                if not data:
                    return
                self._say(job=number, **{name: data.decode("latin-1")})
        finally:
            os.close(descriptor)

    def _say(self, **frame):
        import json
        self._unsent += self._marker + b" " + to_bytes(json.dumps(frame)) + b"\n"
        self._loop.wake(self._sender)

    def _send(self):
        """Send what waits, in a task."""
        while True:
            try:
                while self._unsent:
                    del self._unsent[:os.write(1, self._unsent[:65536])]
                yield Wait(None, 0, None)
            except BlockingIOError:
                yield Wait(1, WRITE, None)
            except OSError:
                self._over = True
                return


class FarProgram:
    """This program's command line in a process of its own, whose output is passed on.

    outputs: (name, descriptor) of each, non-blocking.
    """

    def __init__(self, run):
        """run: prints, and returns the exit status. Raises OSError."""
        out, err, lifeline = os.pipe(), os.pipe(), os.pipe()
        try:
            self._pid = os.fork()
        except OSError:
            for end in out + err + lifeline:
                os.close(end)
            raise
        if self._pid == 0:
            try:
                self._become(out[1], err[1], lifeline[0], run)
            finally:
                os._exit(1)
        self._status, self._lifeline = None, lifeline[1]
        os.close(lifeline[0])
        self.outputs = (("out", out[0]), ("err", err[0]))
        for own, its in (out, err):
            os.close(its)
            os.set_blocking(own, False)

    @staticmethod
    def _become(out, err, lifeline, run):
        with suppress(AttributeError, OSError):  # SIGIO, which ends it, if the far end goes
            fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
            flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
            fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        close_descriptors((0, 1, 2, lifeline))
        os._exit(run())

    def poll(self):
        """Return the exit status, None as long as it runs."""
        if self._status is None:
            with suppress(OSError):
                pid, status = os.waitpid(self._pid, os.WNOHANG)
                if pid:
                    self._status = (os.WEXITSTATUS(status) if os.WIFEXITED(status)
                                    else 128 + os.WTERMSIG(status))
        return self._status

    def stop(self):
        """Interrupt it, as Ctrl-C does."""
        if self.poll() is None:
            with suppress(OSError):
                os.kill(self._pid, signal.SIGINT)

    def end(self):
        """End it, and wait for that."""
        begin = time.monotonic()
        while self.poll() is None:
            late = time.monotonic() - begin > 1.0
            with suppress(OSError):
                os.kill(self._pid, signal.SIGKILL if late else signal.SIGTERM)
            time.sleep(0.01)
        os.close(self._lifeline)


###############################################################################
# command line ################################################################
###############################################################################
# main(): the only place that handles signals and ends the program.

def occupy_standard_descriptors():
    """Put something harmless where standard streams are closed, lest a socket takes their place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


class Signals:
    """Turn SIGINT, SIGTERM and SIGHUP into stop() of a driver, while it runs."""

    _NAMES = (("SIGINT", "Interrupt"), ("SIGTERM", "Terminated"), ("SIGHUP", "Hangup"))

    def __init__(self, driver):
        self._driver = driver
        self._before = []
        self.count = 0  # of those that came

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
                self.count += 1
                self._driver.stop(reason)
            self._before.append((number, signal.signal(number, handle)))
        return self

    def __exit__(self, *details):
        # run_program() has nothing left that a signal could end.
        over = (signal.SIGINT, signal.SIG_DFL) in self._before
        for number, handler in self._before:
            signal.signal(number, signal.SIG_IGN if over else handler)


class Outcome:
    """The exit status that a run of a client or server calls for."""

    def __init__(self, settings):
        # With limits only checks that were made, and told, are a success.
        self.at_first = self._status = 1 if limits_of(settings) else 0
        self._checks = []

    def add(self, event):
        if event["event"] == "diagnosis" and "checks" in event["data"]:
            self._checks += event["data"]["checks"]
            self._status = status_of_checks(self._checks)
        elif event["event"] == "done" and "phase" not in event:
            self._checks = []  # there may be another run, and many of them

    def status(self, driver):
        """Return it, once the driver is through."""
        if driver.status is not None:
            return driver.status
        return 1 if isinstance(driver.error, IperfError) else self._status


class Repeat(Driver):
    """Run a client again and again, --repeat.

    Iterate over it for the events of each; then close() it. status: the exit status that the last
    one calls for, or if that was interrupted the one before.
    """

    def __init__(self, settings, begin):
        """begin: takes a Loop; as begin_client(). Raises what it does the first time."""
        Driver.__init__(self, settings)
        self._begin = lambda: begin(settings, self._loop)
        self._client, self._far_end = self._begin()

    def stop(self, reason="on request"):
        """As Driver.stop(): the test that runs ends, and no other begins."""
        Driver.stop(self, reason)
        if self._client is not None:
            self._client.stop(reason)

    def __iter__(self):
        count, period = self.settings.repeat
        due = time.monotonic()
        for number in itertools.count(1):
            yield from self._run()
            if number == count or self._stop_reason is not None:
                return
            rest = REPEAT_PAUSE if self.error is not None or self.status else 0.0
            due = max(due + period, time.monotonic() + rest)
            self._wait_until(due)
            if self._stop_reason is not None:
                return
            self._begin_next()

    def close(self):
        """End what was begun, and the loop."""
        self._end_far_end()
        self._loop.close()

    def _run(self):
        """Run the client, if it could be begun; yield the events."""
        outcome, client = Outcome(self.settings), self._client
        if client is not None:
            if self._stop_reason is not None:
                client.stop(self._stop_reason)
            events = iter(client)
            try:
                for event in events:
                    outcome.add(event)
                    yield event
            finally:
                events.close()
            if self._stop_reason is None or self.status is None:
                self.error, self.status = client.error, outcome.status(client)
        yield from self._take_events()
        self._client = None
        self._end_far_end()

    def _wait_until(self, due):
        task = self._loop.spawn(pause(due - time.monotonic()))
        while not task.done and self._stop_reason is None:
            self._loop.run_once()

    def _begin_next(self):
        try:
            self._client, self._far_end = self._begin()
        except (IperfError, OSError, MemoryError) as error:  # something is used up, for now
            self._tell_failure(as_failure(error))

    def _end_far_end(self):
        far_end, self._far_end = self._far_end, None
        if far_end is not None:
            far_end.end()


def run_driver(driver, settings, output, daemon=None):
    """Run a client or server, print its events. Returns the exit status."""
    printer, outcome = Printer(driver, settings, output), Outcome(settings)
    output.broken_status = outcome.at_first
    with Signals(driver) as signals:
        for event in driver:
            printer.print(event)
            outcome.add(event)
            if daemon is not None and event["event"] == "listening":
                daemon.detach()
        count = signals.count
        output.patience = CLOSING_TIMEOUT if count and settings.server else None
        output.drain(lambda: signals.count > count)
        output.patience = CLOSING_TIMEOUT
    return outcome.status(driver) or int(printer.failed)


def run_server(settings, output, daemon=None):
    """Run a server. Returns the exit status."""
    def stamped_text():
        renderer = TextRenderer(settings.verbose, settings.format)
        return lambda event: [output.stamped(line) for line in renderer.render(event)]
    server = Server(settings, transcribe=stamped_text)
    status = run_driver(server, settings, output, daemon)
    if daemon is not None:
        daemon.fail(server.error)
    return status


def run_client(settings, output):
    """Run a client, or more than one after another. Returns the exit status."""
    if settings.repeat is not None:
        repeat = Repeat(settings, begin_client)
        try:
            return run_driver(repeat, settings, output)
        finally:
            repeat.close()
    client, far_end = begin_client(settings)
    try:
        return run_driver(client, settings, output)
    finally:
        if far_end is not None:
            far_end.end()


def begin_client(settings, loop=None):
    """Return the driver of a client, and the server that is started for it on this host, or None.

    With --loopback the settings get its address. loop: as of Client. Raises IperfError.
    """
    if not (settings.loopback or settings.ssh_dial_back):
        return make_client(settings, loop), None
    far_end = Loopback(settings)
    with on_error(far_end.end):
        if settings.loopback:
            settings.client, settings.port = far_end.host, far_end.port
            client = make_client(settings, loop)
        else:
            client = HostToHost(settings, loop, {
                "port": far_end.port, "token": far_end.token, "tunnel": False,
                "python": sys.version.split()[0], "version": __version__})
        far_end.start()
    return client, far_end


def make_client(settings, loop=None):
    """Return the driver of a client's command line. loop: as of Client."""
    if settings.crowd:
        return Mesh(settings, loop)
    if settings.relayed:
        return HostToHost(settings, loop)
    return (Survey if settings.diagnose else Client)(settings, loop)


def feature_text():
    """Return the third line of --version: what works on this host."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, _IPPROTO_SCTP).close()
        has_sctp = True
    except OSError:
        has_sctp = False
    features = [
        ("CPU affinity setting", hasattr(os, "sched_setaffinity")),
        ("IPv6 flow label", _LINUX),
        ("SCTP", has_sctp),
        ("TCP congestion algorithm setting", _TCP_CONGESTION is not None),
        ("sendfile / zerocopy", CAN_SEND_FILES),
        ("socket pacing", _LINUX),
        ("authentication", has_rsa()),
        ("bind to device", _SO_BINDTODEVICE is not None),
        ("support IPv4 don't fragment", any(sys.platform.startswith(row[0])
                                            for row in _DONT_FRAGMENT)),
        ("processes" if can_fork() else "threads", True),
        ("GSO/GRO support", not missing_offloads()),
    ]
    return "Optional features available: " + ", ".join(
        name for name, present in features if present)


class Pidfile:
    """The file of -I: it holds the number of this process while it runs."""

    def __init__(self, path):
        """Write the file. Raises IperfError 135, or Refusal if the number in it is alive."""
        self._path = path
        number = self._number()
        if number > 0 and number != os.getpid() and self._is_alive(number):
            raise Refusal("Another instance of iperf3 appears to be running")
        with open_safely(path, os.O_WRONLY | os.O_CREAT, 135, 0o600) as handle:
            try:
                if stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
                    handle.truncate(0)
                handle.write(b"%d" % os.getpid())
            except OSError as error:
                raise IperfError(135, error)

    def _number(self):
        """Return the number in the file, 0 if there is none."""
        with suppress(IperfError, OSError):  # none, or not readable
            with open_unblocked(self._path, os.O_RDONLY) as handle:
                if stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
                    return atoi(handle.read(64).decode("latin-1"))
        return 0

    @staticmethod
    def _is_alive(number):
        if os.name == "nt":
            return False  # there 0 is a signal like others
        try:
            os.kill(number, 0)
        except OSError as error:
            return error.errno == errno.EPERM
        return True

    def remove(self):
        """Remove the file, if it is still this process's."""
        with suppress(OSError):
            if self._number() == os.getpid():
                os.unlink(self._path)


class Refusal(Exception):
    """Report why the program does not start; str() is the line, without the program's name."""


class Daemon:
    """This program in the background: a process of its own session, without a terminal.

    The process that was started waits until the other one serves, and tells why if it does not.
    """

    def __init__(self, output):
        """Go on in the background. Raises IperfError 133."""
        # What may be needed later: a program packed into one file unpacks its modules into a
        # folder, which goes away with the process that is started.
        for name in ("ctypes", "datetime", "hmac", "ipaddress", "platform", "re", "ssl",
                     "subprocess", "tempfile", "threading"):
            with suppress(ImportError):
                __import__(name)
        try:
            reader, self._pipe = os.pipe()
            if os.fork():
                os.close(self._pipe)
                self._await(reader, output)
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(null, number)
            close_descriptors((0, 1, 2, self._pipe))  # somebody may wait for the end of a pipe
        except (AttributeError, OSError) as error:
            raise IperfError(133, error if isinstance(error, OSError) else
                             system_error(errno.ENOSYS))

    @staticmethod
    def _await(reader, output):
        with os.fdopen(reader, "rb") as pipe:
            said = pipe.read()
        if said != b"\n":
            output.complain([said.decode("utf-8", "replace")
                             or error_line(str(IperfError(133, "it ended at once")))])
            output.drain()
        os._exit(0 if said == b"\n" else 1)

    def detach(self):
        """Let the process that was started end: this one serves."""
        self._say(b"\n")

    def fail(self, error):
        """Tell why this process does not serve; nothing of it if it did."""
        if self._pipe is not None:
            self._say(to_bytes(error_line(error)))

    def _say(self, data):
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            with suppress(OSError):  # the other one was ended
                os.write(pipe, data)
            os.close(pipe)


def ask(prompt):
    """Return what the user types, unseen; None if there is no terminal to ask at."""
    before = None
    try:
        if not sys.stdin.isatty():
            return None
        import getpass
        if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:  # getpass has to show keys again
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
        return getpass.getpass(prompt)
    except (ImportError, EOFError, OSError, ValueError, AttributeError):
        return None
    except KeyboardInterrupt:
        if before is None:
            raise
        signal.signal(signal.SIGINT, before)
        signal_self = getattr(signal, "raise_signal", lambda number: os.kill(os.getpid(), number))
        signal_self(signal.SIGINT)
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def find_password(settings):
    """Give the client's settings a password: from the environment, or the user.

    Raises IperfError 22.
    """
    for name in ("RIPERF3_PASSWORD", "IPERF3_PASSWORD"):
        if name in os.environ:
            settings.password = os.environ[name]
            return
    settings.password = ask("Password: ")
    if settings.password is None:
        raise IperfError(22)


def find_keys(settings, output):
    """See that the keys of the settings can be used; ask for what opens them.

    Raises IperfError 22, 23, 35.
    """
    try:
        if settings.username is not None:
            RsaKey(settings.rsa_public_key_path, False)
        else:
            try:
                make_gatekeeper(settings)
            except PassphraseMissing:
                settings.passphrase = ask("Passphrase for %s: " % settings.rsa_private_key_path)
                if settings.passphrase is None:
                    raise
                make_gatekeeper(settings)
    except IperfError as error:
        if error.number == 35:  # the users' file is no key
            raise
        output.complain([error_line("%s\n" % error.reason())])
        raise IperfError(error.number)
    if settings.username is not None:
        find_password(settings)


def read_arguments(arguments, output):
    """Return the Settings of the command line. Raises UsageError, IperfError.

    The options in PYPERF3_OPTS come before those of a client's command line.
    """
    strict = "POSIXLY_CORRECT" in os.environ
    before, more = (), os.environ.get("PYPERF3_OPTS")
    if more and not any(option.dest in ("client", "loopback", "ssh", "mesh")
                        for option, _ in split_arguments(arguments, strict)):
        more = None
    if more:
        import shlex
        try:
            before = shlex.split(more)
            collections.deque(split_arguments(before, strict), 0)
        except (UsageError, ValueError) as error:
            raise UsageError("PYPERF3_OPTS: %s" % error)
    try:
        return Settings.from_arguments(arguments, strict, before,
                                       lambda settings: find_keys(settings, output))
    except IperfError as error:
        if more:
            error.remark = "; ".join(filter(None, (error.remark, "PYPERF3_OPTS: %s" % more)))
        raise


def warn_of_old_names(settings, output):
    """Print iperf3's warning of an option, which comes before any error."""
    if settings.no_fq_socket_pacing:
        say = output.complain if settings.csv_only else output.write
        say(["Warning:  --no-fq-socket-pacing is deprecated"])


def main(argv=None):
    """Run the command line; argv is sys.argv unless given. Returns the exit status."""
    argv = sys.argv if argv is None else argv
    occupy_standard_descriptors()
    output = Output()
    try:
        status = run_command_line(argv, output)
    except Exception as error:  # of this program or this Python, or there is no memory
        output.complain([error_line(as_failure(error))])
        status = 1
    broken = output.close()
    return status if broken is None else broken and max(broken, status)


def run_command_line(argv, output):
    """Do what the arguments say. Returns the exit status."""
    program = argv[0] if argv and argv[0] not in ("", "-", "-c") else "iperf3"
    name = "iperf3" if os.path.basename(program) == "iperf3" else program
    usage = ("\nUsage: %s [-s|-c host] [options]\n"
             "Try `%s --help' for more information." % (name, name))
    try:
        settings = read_arguments(argv[1:], output)
    except UsageError as error:
        output.complain(["%s: %s\n%s" % (program, error, usage)])
        return 1
    except IperfError as error:
        warn_of_old_names(error.settings, output)
        if error.settings.timestamps is not None:
            output.stamp_lines(error.settings.timestamps)
        text = "parameter error - %s" % (error_text(error) if error.remark else error)
        output.complain(["%s\n%s" % (error_line(with_remark(error, text)), usage)])
        return 1
    if settings.help:
        import shutil
        output.write([help_text(program, shutil.get_terminal_size().columns)])
        return 0
    if settings.version:
        output.write([VERSION_TEXT, system_info(), feature_text()])
        return 0
    warn_of_old_names(settings, output)
    output.complain(["warning: %s" % text for text in settings.warnings()])
    if settings.timestamps is not None:
        output.stamp_lines(settings.timestamps)
    return start(settings, output)


# Errors before a test, which its document does not tell: nothing to listen at, and files.
_NOT_OF_A_TEST = frozenset((102, 930, 932, 933))


def start(settings, output):
    """Do what comes before a test, and run it. Returns the exit status."""
    pidfile = daemon = None
    text = not (settings.json or settings.json_stream)
    try:
        if settings.daemon:
            daemon = Daemon(output)
        if settings.pidfile is not None:
            pidfile = Pidfile(settings.pidfile)
        if settings.logfile is not None:
            output.open_log(settings.logfile)
        if settings.affinity is not None and not (settings.relayed or settings.crowd):
            set_affinity(settings.affinity[0])
        if not settings.server:
            return run_client(settings, output)
        status = run_server(settings, output, daemon)
        if status and text:
            output.complain([error_line("exiting")])
        return status
    except Exception as error:
        if not isinstance(error, Refusal):
            error = as_failure(error)
        if daemon is not None:
            daemon.fail(error)
        if settings.prometheus is not None:
            with suppress(IperfError):  # it may be the error itself
                MetricsFile(settings).fail(error)
        # iperf3: with -J a client prints nothing at all here, nor does either of a pidfile.
        is_server = settings.server and getattr(error, "number", 135) != 135
        if text or is_server or getattr(error, "number", None) in _NOT_OF_A_TEST:
            output.complain([error_line(error)])
        if text and is_server:
            output.complain([error_line("exiting")])
    finally:
        if pidfile is not None:
            pidfile.remove()
    return 1


def name_process(program):
    """Give this process, and its workers, the program's name, by which others end it (Linux).

    Else it would be python3's; pkill, killall and pgrep look at it.
    """
    name = os.path.basename(program)
    if not name or name.startswith("-"):  # from standard input, or -c
        name = "pyperf3"
    with suppress(OSError):
        with open("/proc/self/comm", "wb", 0) as handle:
            handle.write(os.fsencode(name)[:15])


def be_far_end(marker):
    """Be this program on a host that was reached by ssh; see FarEnd."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback
    if _LINUX:
        name_process("-")
    FarEnd(marker, start).work()
    os._exit(0)


def run_program():
    """Be the program: run main() under its name, and end with its status."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback
    if _LINUX:
        name_process(sys.argv[0])
    exit_status = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # there is nothing left to end
    sys.exit(exit_status)


if __name__ == "__main__":
    run_program()
