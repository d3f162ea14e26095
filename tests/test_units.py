"""Numbers as iperf3 reads and prints them, and the texts of its errors."""

import errno
import os
import re
import socket
import struct
import subprocess
import unittest

import captures
import pyperf3
import support

# bytes, then the text for each letter of LETTERS; None where nothing is known.
LETTERS = "AakmKM"
PRINTED = (
    (0, "0.00 Byte", "0.00 bit", "0.00 Kbit", "0.00 Mbit", "0.00 KByte", "0.00 MByte"),
    (1, "1.00 Byte", "8.00 bit", "0.01 Kbit", "0.00 Mbit", "0.00 KByte", "0.00 MByte"),
    (9.994, "9.99 Byte", "80.0 bit", None, None, None, None),
    (9.995, "10.0 Byte", "80.0 bit", None, None, None, None),
    (99.94, "99.9 Byte", " 800 bit", None, None, None, None),
    (99.95, " 100 Byte", " 800 bit", None, None, None, None),
    (999.5, "1000 Byte", "8.00 Kbit", "8.00 Kbit", "0.01 Mbit", "0.98 KByte", "0.00 MByte"),
    (1023.9, "1024 Byte", "8.19 Kbit", None, None, "1.00 KByte", None),
    (1024, "1.00 KByte", "8.19 Kbit", "8.19 Kbit", "0.01 Mbit", "1.00 KByte", "0.00 MByte"),
    (131072, " 128 KByte", "1.05 Mbit", "1049 Kbit", "1.05 Mbit", " 128 KByte", "0.12 MByte"),
    (1000000, " 977 KByte", "8.00 Mbit", "8000 Kbit", "8.00 Mbit", " 977 KByte", "0.95 MByte"),
    (1047552, "1023 KByte", "8.38 Mbit", "8380 Kbit", "8.38 Mbit", "1023 KByte", "1.00 MByte"),
    (1048576, "1.00 MByte", "8.39 Mbit", "8389 Kbit", "8.39 Mbit", "1024 KByte", "1.00 MByte"),
    (1.25e9, "1.16 GByte", "10.0 Gbit", "10000000 Kbit", "10000 Mbit", "1220703 KByte",
     "1192 MByte"),
    (1e15, " 909 TByte", "8000 Tbit", None, None, None, None),
)

# text, bytes or bits by step 1024, by step 1000
READ = (
    ("1K", 1024, 1000), ("1k", 1024, 1000), ("1M", 1048576, 1000000),
    ("1.5M", 1572864, 1500000), ("2g", 2 * 2 ** 30, 2 * 10 ** 9), ("1T", 2 ** 40, 10 ** 12),
    ("1t", 2 ** 40, 10 ** 12), ("0x10", 16, 16), ("0X1fK", 31 * 1024, 31000),
    ("1e3", 1000, 1000), ("1E3k", 1024000, 1000000), ("1e+2", 100, 100), ("25e-1", 2, 2),
    ("10", 10, 10), ("0", 0, 0), (" 1M", 1048576, 1000000), ("\t 7", 7, 7),
    (".5K", 512, 500), ("1.M", 1048576, 1000000), ("+3", 3, 3), ("-1", -1, -1),
    ("-.5k", -512, -500), ("2.9", 2, 2), ("-2.9", -2, -2), ("1.0001K", 1024, 1000),
    # What follows a unit is ignored.
    ("10Kx", 10240, 10000), ("10KB", 10240, 10000), ("10Mbit", 10485760, 10000000),
    ("1K/5", 1024, 1000), ("1KK", 1024, 1000),
)
NOT_READ = ("", "K", "abc", "10Q", "1 M", "1b", "10B", "1P", "1,5", "5 ", "5/", "--5", "1e", ".",
            "x10", "1_0", "0x", "+", "-", "- 1", "1.5.2", "nan", "inf", "-inf", "\u0661",
            "1e999")


class Printed(unittest.TestCase):
    """format_units."""

    def test_figures_of_the_reference(self):
        compared = 0
        for row in PRINTED:
            for letter, wanted in zip(LETTERS, row[1:]):
                if wanted is not None:
                    with self.subTest(count=row[0], letter=letter):
                        self.assertEqual(pyperf3.format_units(row[0], letter), wanted)
                        compared += 1
        self.assertEqual(compared, 67)

    def test_a_figure_just_below_the_step_rounds_up_without_a_new_unit(self):
        self.assertEqual(pyperf3.format_units(999.6 * 125, "a"), "1000 Kbit")
        self.assertEqual(pyperf3.format_units(1000.0 * 125, "a"), "1.00 Mbit")

    def test_largest_units(self):
        self.assertEqual(pyperf3.format_units(2 ** 40, "A"), "1.00 TByte")
        self.assertEqual(pyperf3.format_units(2 ** 40 * 12345, "A"), "12345 TByte")
        self.assertEqual(pyperf3.format_units(1e12, "t"), "8.00 Tbit")
        self.assertEqual(pyperf3.format_units(2 ** 40, "T"), "1.00 TByte")
        self.assertEqual(pyperf3.format_units(1.25e9, "g"), "10.0 Gbit")
        self.assertEqual(pyperf3.format_units(2 ** 30 * 10, "G"), "10.0 GByte")

    def test_digits_by_the_scaled_value(self):
        for value, wanted in ((9.994, "9.99"), (9.995, "10.0"), (9.9949, "9.99"),
                              (99.94, "99.9"), (99.95, " 100"), (999.4, " 999"),
                              (9999, "9999"), (10000, "10000")):
            with self.subTest(value=value):
                self.assertEqual(pyperf3.format_units(value * 125, "k"), wanted + " Kbit")

    def test_negative_figures_have_two_decimals(self):
        self.assertEqual(pyperf3.format_units(-5000, "A"), "-5000.00 Byte")
        self.assertEqual(pyperf3.format_units(-125, "k"), "-1.00 Kbit")

    def test_counts_beyond_the_exact_range_of_a_double(self):
        self.assertEqual(pyperf3.format_units(2 ** 63 + 1, "A"), "8388608 TByte")


class Read(unittest.TestCase):
    """parse_units, atoi, atof, strtol."""

    def test_numbers_with_units(self):
        for text, size, rate in READ:
            with self.subTest(text=text):
                self.assertEqual(pyperf3.parse_units(text, 1024), size)
                self.assertEqual(pyperf3.parse_units(text, 1000), rate)
                self.assertIsInstance(pyperf3.parse_units(text, 1024), int)

    def test_what_is_no_number_with_a_unit(self):
        for text in NOT_READ:
            with self.subTest(text=text):
                with self.assertRaises(pyperf3.IperfError) as caught:
                    pyperf3.parse_units(text, 1024)
                self.assertEqual(caught.exception.number, 38)
                self.assertEqual(str(caught.exception),
                                 "invalid unit value or suffix: '%s'" % text)

    def test_integers_end_where_the_digits_end(self):
        for text, wanted in (
                ("10", 10), ("10s", 10), (" \t\n10", 10), ("+7", 7), ("-7", -7), ("", 0),
                ("abc", 0), ("=5", 0), ("0x10", 0), ("010", 10), ("1.9", 1), ("1e3", 1),
                ("- 1", 0), ("--1", 0), ("2147483647", 2147483647),
                ("2147483648", -2147483648), ("4294967296", 0), ("4294967295", -1),
                ("-2147483649", 2147483647), ("\u0661", 0), ("1\u0661", 1)):
            with self.subTest(text=text):
                self.assertEqual(pyperf3.atoi(text), wanted)

    def test_fractions_end_where_the_number_ends(self):
        for text, wanted in (("0.5", 0.5), (".5", 0.5), ("5.", 5.0), ("1e-1", 0.1), ("", 0.0),
                             ("x", 0.0), ("1x", 1.0), ("  2", 2.0), ("-1", -1.0), ("0x10", 16.0),
                             ("=1", 0.0), ("1e", 1.0), ("1.2.3", 1.2), ("\u0661", 0.0)):
            with self.subTest(text=text):
                self.assertEqual(pyperf3.atof(text), wanted)
        self.assertEqual(pyperf3.atof("inf"), float("inf"))
        self.assertNotEqual(pyperf3.atof("nan"), pyperf3.atof("nan"))

    def test_base_of_an_integer_shows_in_its_digits(self):
        for text, wanted in (
                ("10", (10, "")), ("0x20", (32, "")), ("0X2fg", (47, "g")), ("010", (8, "")),
                ("08", (0, "8")), ("0", (0, "")), ("-1", (-1, "")), ("+0x8", (8, "")),
                (" 7 ", (7, " ")), ("", (None, "")), ("x", (None, "x")), ("0x", (0, "x")),
                ("0xg", (0, "xg")), ("64,1", (64, ",1")), ("-010", (-8, ""))):
            with self.subTest(text=text):
                self.assertEqual(pyperf3.strtol(text), wanted)

    def test_very_long_numbers_are_numbers_too(self):
        """Python refuses to convert more than 4300 digits, and hexadecimal ones overflow."""
        self.assertEqual(pyperf3.atoi("9" * 5000), -1)
        self.assertEqual(pyperf3.atoi("0" * 5000 + "7"), 7)
        self.assertGreater(pyperf3.strtol("9" * 5000)[0], 2 ** 31)
        self.assertGreater(pyperf3.strtol("0x" + "f" * 5000)[0], 2 ** 31)
        self.assertEqual(pyperf3.atof("1" * 5000), float("inf"))
        self.assertEqual(pyperf3.atof("0x" + "f" * 400), float("inf"))
        for text in ("1" * 5000, "0x" + "f" * 400):
            with self.assertRaises(pyperf3.IperfError):
                pyperf3.parse_units(text, 1024)

    def test_integers_beyond_64_bits_are_saturated_before_they_wrap(self):
        self.assertEqual(pyperf3.atoi("18446744073709551621"), -1)
        self.assertEqual(pyperf3.atoi("-18446744073709551621"), 0)


# How the errors in the captured samples came about: text without `iperf3: ` -> the exception.
def system(number):
    return OSError(number, os.strerror(number))


CAPTURED = {
    # differs: ours tells the client `test authorization failed`, and says so itself.
    "auth-bad client": pyperf3.IperfError(109),
    "auth-bad server": pyperf3.IperfError(0),
    "auth-missing client": pyperf3.IperfError(109),
    "auth-missing server": pyperf3.IperfError(0),
    "err-logfile-refused client": pyperf3.IperfError(
        103, OSError(errno.ECONNREFUSED, "Connection refused")),
    "err-bitrate-limit client": pyperf3.IperfError(27, None, 0),
    "err-bitrate-limit server": pyperf3.IperfError(27),
    "sig-client-sigterm-udp client": pyperf3.Interrupted("by signal Terminated(15)"),
    "sig-client-sigterm-udp server": pyperf3.IperfError(119),
    "err-affinity client": pyperf3.IperfError(132, system(errno.EINVAL), errno.EINVAL),
    "err-affinity server": pyperf3.IperfError(132, system(errno.EBADF)),
    "err-bind client": pyperf3.IperfError(102, system(errno.EADDRNOTAVAIL)),
    "err-bitrate-limit-running client": pyperf3.IperfError(27, None, 0),
    "err-bitrate-limit-running server": pyperf3.IperfError(27),
    "err-busy client": pyperf3.IperfError(121),
    "err-congestion client": pyperf3.IperfError(134),
    "err-logfile-open client": pyperf3.IperfError(17, system(errno.ENOENT)),
    "err-max-duration client": pyperf3.IperfError(37, None, 0),
    "err-max-duration server": pyperf3.IperfError(37),
    "err-mss-run client": pyperf3.IperfError(123, system(errno.EINVAL), errno.EINVAL),
    "err-mss-run server": pyperf3.IperfError(123, system(errno.EBADF)),
    "err-not-iperf3 server": pyperf3.IperfError(106),
    "err-rcv-timeout-client client": pyperf3.IperfError(144),
    "err-rcv-timeout-server client": pyperf3.IperfError(144, None, 0),
    "err-rcv-timeout-server server": pyperf3.IperfError(144),
    "err-refused client": pyperf3.IperfError(103, system(errno.ECONNREFUSED)),
    "err-refused-verbose client": pyperf3.IperfError(103, system(errno.ECONNREFUSED)),
    "err-resolve client": pyperf3.IperfError(
        103, socket.gaierror(socket.EAI_NONAME, "Name or service not known")),
    "err-window-run client": pyperf3.IperfError(141, None, 0),
    "err-window-run server": pyperf3.IperfError(141),
    "sig-client-killed server": pyperf3.IperfError(109),
    "sig-client-sighup-reverse client": pyperf3.Interrupted("by signal Hangup(1)"),
    "sig-client-sighup-reverse server": pyperf3.IperfError(119),
    "sig-client-sigint client": pyperf3.Interrupted("by signal Interrupt(2)"),
    "sig-client-sigint server": pyperf3.IperfError(119),
    "sig-client-sigint-connecting client": pyperf3.Interrupted("by signal Interrupt(2)"),
    "sig-client-sigint-late client": pyperf3.Interrupted("by signal Interrupt(2)"),
    "sig-client-sigint-late server": pyperf3.IperfError(119),
    "sig-server-idle-sigint server": pyperf3.Interrupted("by signal Interrupt(2)"),
    "sig-server-idle-sigterm server": pyperf3.Interrupted("by signal Terminated(15)"),
    "sig-server-killed client": pyperf3.IperfError(109),
    "sig-server-sigterm client": pyperf3.IperfError(120),
    "sig-server-sigterm server": pyperf3.Interrupted("by signal Terminated(15)"),
}


def lines_of(error, role):
    """Return the lines that a client or server prints of an exception."""
    if role == "server":
        return ["iperf3: " + pyperf3.server_error_text(error)]
    if isinstance(error, pyperf3.Interrupted):
        return ["iperf3: " + pyperf3.interrupt_text("client", error.reason)]
    lines = ["iperf3: error - %s" % error]
    if error.remote_errno is not None:
        more = ", errno: " + os.strerror(error.remote_errno) if error.remote_errno else ""
        lines.insert(0, "iperf3: SERVER ERROR - %s%s" % (error, more))
    return lines


class Errors(unittest.TestCase):
    """IperfError and its texts."""

    def test_texts_of_the_captured_errors(self):
        seen = set()
        for case, side in captures.outputs("text"):
            # iperf3 leaves a colon where nothing follows.
            lines = [re.sub(": $", "", line) for line in case.err(side).splitlines()
                     if line.startswith("iperf3: ") and line != "iperf3: exiting"]
            name = "%s %s" % (case.name, side)
            if not lines or (name not in CAPTURED and lines == [
                    "iperf3: interrupt - the server has terminated by signal Terminated(15)"]):
                continue
            with self.subTest(case=name):
                made = lines_of(CAPTURED[name], case.commands[side].role)
                self.assertEqual(made, lines[:len(made)])
                seen.add(name)
        self.assertEqual(seen, set(CAPTURED))

    def test_no_line_ended_with_a_colon_and_no_reason(self):
        causes = [None, "", "why", OSError("no number"), OSError(errno.EIO, "Broken"),
                  OSError(errno.EIO, "")]
        for number in list(pyperf3.ERRORS) + [99, -7]:
            for cause in causes:
                for remote in (None, 0, errno.EIO):
                    error = pyperf3.IperfError(number, cause, remote)
                    client = pyperf3.Client(pyperf3.Settings(client="h"))
                    client._emit_error(error)
                    event, = client._events
                    texts = [event["data"], event["first"], pyperf3.error_line(error),
                             pyperf3.with_remark(error, pyperf3.server_error_text(error))]
                    texts += event["line"].split("\n")
                    self.assertFalse([text for text in texts if text.rstrip().endswith(":")],
                                     (number, cause, remote))
                    document, = pyperf3.JsonStreamRenderer().render(event)
                    self.assertFalse(document.rstrip('"}').rstrip().endswith(":"), document)

    def test_what_is_said_of_an_error_had_no_number_for_the_other_end(self):
        for error, number in (
                (pyperf3.IperfError(204, pyperf3._TIMED_OUT), errno.ETIMEDOUT),
                (pyperf3.as_failure(ValueError("x")), errno.EIO)):
            self.assertEqual(error.errno, number)
        for document in (None, {}, {"cpu_util_total": "x"}):
            with self.assertRaises(pyperf3.IperfError) as caught:
                pyperf3.results_from_json(document, [1])
            self.assertEqual(caught.exception.errno, errno.EPROTO)

    def test_system_text_follows_where_it_belongs(self):
        error = pyperf3.IperfError(204, OSError(errno.ETIMEDOUT, "Timed out"))
        self.assertEqual(str(error), "unable to accept stream connection: Timed out")
        self.assertEqual(error.errno, errno.ETIMEDOUT)
        self.assertEqual(str(pyperf3.IperfError(204)), "unable to accept stream connection: ")
        self.assertEqual(pyperf3.IperfError(204).errno, 0)
        self.assertEqual(str(pyperf3.IperfError(204, "why")),
                         "unable to accept stream connection: why")
        self.assertEqual(str(pyperf3.IperfError(204, OSError("no number"))),
                         "unable to accept stream connection: no number")

    def test_texts_without_system_text_take_a_reason_that_is_known(self):
        self.assertEqual(str(pyperf3.IperfError(109)), "control socket has closed unexpectedly")
        self.assertTrue(str(pyperf3.IperfError(110, "the peer sent b'x'")).endswith(
            "(ensure other side is iperf3 and not iperf): the peer sent b'x'"))

    def test_unknown_numbers_are_shown(self):
        self.assertEqual(str(pyperf3.IperfError(999)), "int_errno=999: ")
        self.assertEqual(str(pyperf3.IperfError(-7)), "int_errno=-7: ")

    def test_interruption_by_a_call_names_its_reason(self):
        self.assertEqual(pyperf3.interrupt_text("client", "on request"),
                         "interrupt - the client has terminated on request")

    def test_errors_survive_pickling_and_copying(self):
        import copy
        import pickle
        error = pyperf3.IperfError(103, OSError(errno.ECONNREFUSED, "Refused"), 5)
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            self.assertEqual((other.number, str(other), other.remote_errno),
                             (103, str(error), 5))

    def test_texts_of_all_numbers_are_those_of_a_real_client(self):
        """A server sends every error number there is to iperf3 3.22, which prints its text."""
        real = support.real("3.22")
        numbers = [number for number in sorted(pyperf3.ERRORS) if number < 900] + [99, 400]
        texts = {}
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(5)
            listener.settimeout(20)
            command = [real[0], "-c", "127.0.0.1", "-p", str(listener.getsockname()[1])]
            for number in numbers:
                client = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                          stderr=subprocess.PIPE, env=support.environment())
                sock, _ = listener.accept()
                with sock:
                    sock.sendall(struct.pack("!bii", pyperf3.SERVER_ERROR, number, 0))
                    sock.shutdown(socket.SHUT_WR)
                    errors = client.communicate(timeout=20)[1].decode("ascii")
                texts[number] = re.search("^iperf3: error - (.*)$", errors, re.M).group(1)
        for number in numbers:
            with self.subTest(number=number):
                # 38: the argument that is wrong is not sent.
                wanted = texts[number].replace(": '(null)'", "")
                self.assertEqual(str(pyperf3.IperfError(number)), wanted)


if __name__ == "__main__":
    unittest.main()
