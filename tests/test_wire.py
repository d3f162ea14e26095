"""Bytes of the protocol to values and back: cookies, frames, JSON, parameters, results."""

import collections
import contextlib
import errno
import json
import random
import re
import socket
import struct
import time
import unittest

import pyperf3
import support

# What clients were seen to send.
SEEN = {
    "3.22": '{"tcp":true,"omit":0,"time":10,"num":0,"blockcount":0,"parallel":1,"len":131072,'
            '"pacing_timer":1000,"client_version":"3.22"}',
    "3.22 rate": '{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":16384,'
                 '"bandwidth":5000000,"pacing_timer":1000,"client_version":"3.22"}',
    "3.22 UDP": '{"udp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":32768,'
                '"bandwidth":1048576,"pacing_timer":1000,"gso":0,"gso_dg_size":0,'
                '"gso_bf_size":65507,"gro":0,"gro_bf_size":65507,"client_version":"3.22"}',
    "3.12": '{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":3,"len":131072,'
            '"pacing_timer":1000,"client_version":"3.12"}',
    "3.9 UDP": '{"udp":true,"omit":0,"time":3,"parallel":1,"len":32768,"bandwidth":1048576,'
               '"pacing_timer":1000,"client_version":"3.9"}',
    "3.1": '{"tcp":true,"omit":0,"time":3,"parallel":1,"len":131072,"client_version":"3.1"}',
    "3.22 UDP bidir": '{"udp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,'
                      '"bidirectional":true,"len":1000,"bandwidth":200000,"pacing_timer":1000,'
                      '"gso":0,"gso_dg_size":0,"gso_bf_size":65507,"gro":0,"gro_bf_size":65507,'
                      '"udp_counters_64bit":1,"client_version":"3.22"}',
}

# Results that were seen: TCP of 3.22, client and server; bidirectional UDP of 3.22's client and
# of 3.12's server.
CLIENT_RESULTS = (
    '{"cpu_util_total":0.30782068147745939,"cpu_util_user":0,"cpu_util_system":'
    '0.30772086932393239,"sender_has_retransmits":1,"congestion_used":"bbr","streams":[{"id":1,'
    '"bytes":638976,"retransmits":0,"jitter":0,"errors":0,"omitted_errors":0,"packets":0,'
    '"omitted_packets":0,"start_time":0,"end_time":1.00135}]}')
SERVER_RESULTS = (
    '{"cpu_util_total":0.10574561140734527,"cpu_util_user":0.10574561140734527,'
    '"cpu_util_system":0,"sender_has_retransmits":-1,"congestion_used":"bbr","streams":[{"id":1,'
    '"bytes":638976,"retransmits":-1,"jitter":0,"errors":0,"omitted_errors":0,"packets":0,'
    '"omitted_packets":0,"start_time":0,"end_time":1.001449}]}')
UDP_RESULTS = (
    '{"cpu_util_total":0.16362662816471946,"cpu_util_user":0.16372633969925007,'
    '"cpu_util_system":0,"sender_has_retransmits":0,"streams":[{"id":1,"bytes":25000,'
    '"retransmits":-1,"jitter":0,"errors":0,"omitted_errors":0,"packets":25,"omitted_packets":0,'
    '"start_time":0,"end_time":1.001787},{"id":3,"bytes":26000,"retransmits":-1,"jitter":'
    '0.00012331230005876591,"errors":0,"omitted_errors":0,"packets":26,"omitted_packets":0,'
    '"start_time":0,"end_time":1.00179}]}')
OLD_RESULTS = (
    '{"cpu_util_total":1.5609965464236522,"cpu_util_user":1.5609965464236522,"cpu_util_system":0,'
    '"sender_has_retransmits":18446744073709551615,"streams":[{"id":1,"bytes":25000,"retransmits"'
    ':18446744073709551615,"jitter":0.0002455155091705322,"errors":0,"packets":25,"start_time":0,'
    '"end_time":1.001825},{"id":3,"bytes":26000,"retransmits":18446744073709551615,"jitter":'
    '0.00012331230005876591,"errors":0,"packets":26,"start_time":0,"end_time":1.001825}]}')


class Cookies(unittest.TestCase):
    """The 37 bytes that open every connection."""

    def test_form(self):
        cookie = pyperf3.make_cookie()
        self.assertTrue(re.match(rb"[a-z2-7]{36}\0\Z", cookie), cookie)
        self.assertEqual(len(cookie), pyperf3.COOKIE_SIZE)

    def test_letters_are_random(self):
        cookies = [pyperf3.make_cookie() for _ in range(200)]
        self.assertEqual(len(set(cookies)), 200)
        for place in range(36):
            self.assertGreater(len(set(cookie[place] for cookie in cookies)), 20)
        self.assertEqual(len(set(b"".join(cookies))), 33)

    def test_cookies_of_all_versions_pass(self):
        for cookie in (pyperf3.make_cookie(), b"q2henjolr32nzmcknky3rdcdo6mfpwxy7aym\0",
                       b"my-host.example_1.1796048734.012345.\0",
                       b"HOST.1796048734.123456.0a1b2c3d4e5f6\0"):
            with self.subTest(cookie=cookie):
                pyperf3.check_cookie(cookie)

    def test_the_beginning_of_a_cookie_passes(self):
        pyperf3.check_cookie(b"")
        pyperf3.check_cookie(b"q2henjolr32nzm")
        pyperf3.check_cookie(b"q2henjolr32nzmcknky3rdcdo6mfpwxy7aym")

    def test_other_protocols_are_told_apart(self):
        for data in (b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00", b"SSH-2.0-OpenSSH_9.6\r\n",
                     b"\0" * 37, b"a" * 36 + b"b", b"a" * 20 + b"\0" + b"a" * 16,
                     b"\xff" * 37, b"a b", b"{}"):
            with self.subTest(data=data):
                with self.assertRaises(pyperf3.IperfError) as caught:
                    pyperf3.check_cookie(data)
                self.assertEqual(caught.exception.number, 106)
                self.assertIn(pyperf3.quote_bytes(data), str(caught.exception))

    def test_quoted_bytes_are_plain_text(self):
        self.assertEqual(pyperf3.quote_bytes(b"GET / HTTP/1.1"), "b'GET / HT'")
        self.assertEqual(pyperf3.quote_bytes(b"\x16\x03'\\\x7f\x1b"),
                         "b'\\x16\\x03\\x27\\x5c\\x7f\\x1b'")
        self.assertEqual(pyperf3.quote_bytes(b""), "b''")


class States(unittest.TestCase):
    """State bytes, errors, frames."""

    def test_states_are_signed_bytes(self):
        for state, data in ((pyperf3.TEST_START, b"\x01"), (pyperf3.TEST_RUNNING, b"\x02"),
                            (pyperf3.TEST_END, b"\x04"), (pyperf3.PARAM_EXCHANGE, b"\x09"),
                            (pyperf3.CREATE_STREAMS, b"\x0a"),
                            (pyperf3.SERVER_TERMINATE, b"\x0b"),
                            (pyperf3.CLIENT_TERMINATE, b"\x0c"),
                            (pyperf3.EXCHANGE_RESULTS, b"\x0d"),
                            (pyperf3.DISPLAY_RESULTS, b"\x0e"), (pyperf3.IPERF_DONE, b"\x10"),
                            (pyperf3.ACCESS_DENIED, b"\xff"), (pyperf3.SERVER_ERROR, b"\xfe")):
            self.assertEqual(pyperf3.encode_state(state), data)

    def test_errors_are_state_number_and_errno(self):
        error = pyperf3.IperfError(132, OSError(errno.EINVAL, "Invalid argument"))
        self.assertEqual(pyperf3.encode_error(error),
                         b"\xfe\x00\x00\x00\x84" + struct.pack("!i", errno.EINVAL))
        self.assertEqual(pyperf3.encode_error(pyperf3.IperfError(27)),
                         b"\xfe\x00\x00\x00\x1b\x00\x00\x00\x00")
        self.assertEqual(pyperf3.encode_error(pyperf3.IperfError(106, "timed out")),
                         b"\xfe\x00\x00\x00\x6a\x00\x00\x00\x00")
        self.assertEqual(pyperf3.encode_error(pyperf3.IperfError(-5, OSError("no number"))),
                         b"\xfe\xff\xff\xff\xfb\x00\x00\x00\x00")

    def test_resolver_errors_have_numbers_of_their_own(self):
        """Names that do not resolve have negative numbers; they still fit."""
        error = pyperf3.IperfError(102, socket.gaierror(socket.EAI_NONAME, "unknown"))
        self.assertEqual(len(pyperf3.encode_error(error)), 9)

    def test_frames_are_length_and_text(self):
        self.assertEqual(pyperf3.encode_frame({}), b"\0\0\0\x02{}")
        self.assertEqual(pyperf3.encode_frame({"a": [1, True, "x"]}),
                         b'\0\0\0\x12{"a":[1,true,"x"]}')
        body = pyperf3.encode_frame({"title": "\u00e9\u20ac\U0001f600"})[4:]
        self.assertEqual(body, '{"title":"\u00e9\u20ac\U0001f600"}'.encode("utf-8"))

    def test_length_counts_bytes(self):
        frame = pyperf3.encode_frame({"title": "\u20ac" * 100})
        self.assertEqual(struct.unpack("!I", frame[:4])[0], len(frame) - 4)
        self.assertEqual(len(frame), 4 + 12 + 300)

    def test_bytes_that_are_no_text_come_out_as_they_came_in(self):
        title = b"caf\xe9".decode("utf-8", "surrogateescape")
        self.assertEqual(pyperf3.encode_frame({"title": title})[4:], b'{"title":"caf\xe9"}')
        self.assertEqual(pyperf3.to_bytes("\ud83d"), b"?")


def notation(value):
    """Return a number as cJSON prints it: the rule, written down a second time."""
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    if value == int(value) and -2.0 ** 63 < value < 2.0 ** 63:
        return "%d" % value
    text = "%1.15g" % value
    if abs(float(text) - value) > max(abs(float(text)), abs(value)) * 2.0 ** -52:
        text = "%1.17g" % value
    return text


class Notation(unittest.TestCase):
    """encode_json: cJSON's notation."""

    def test_numbers(self):
        single = struct.unpack("f", struct.pack("f", 1.000976))[0]
        for value, text in (
                (0, "0"), (1, "1"), (-1, "-1"), (1.0, "1"), (-0.0, "0"), (0.5, "0.5"),
                (9.6, "9.6"), (2.001315, "2.001315"), (single, "1.0009759664535522"),
                (26820668130.704063, "26820668130.704063"),
                (0.0000026298191621899607, "2.6298191621899607e-06"), (4.2e-05, "4.2e-05"),
                (1e21, "1e+21"), (2 ** 53, "9007199254740992"), (2.0 ** 53, "9007199254740992"),
                (float("nan"), "null"), (float("inf"), "null"), (float("-inf"), "null"),
                (0.1, "0.1"), (1 / 3.0, "0.33333333333333331"), (1e-300, "1e-300"),
                (-1.5, "-1.5"), (1e15, "1000000000000000"), (1e18, "1000000000000000000"),
                (2 ** 63 - 1, "9223372036854775807"), (-2 ** 62, "-4611686018427387904"),
                (2 ** 64 - 1, "1.8446744073709552e+19"), (10 ** 30, "1e+30")):
            with self.subTest(value=value):
                self.assertEqual(pyperf3.encode_json(value), text)

    def test_random_numbers_by_the_rule_written_twice(self):
        source = random.Random(322)
        for _ in range(3000):
            value = source.choice((
                source.uniform(0, 1e11), source.uniform(-1, 1), float(source.randrange(2 ** 53)),
                10 ** source.uniform(-20, 18), round(source.uniform(0, 100), 6),
                struct.unpack("f", struct.pack("f", source.uniform(0, 70)))[0]))
            self.assertEqual(pyperf3.encode_number(value), notation(value), repr(value))

    def test_words_and_strings(self):
        for value, text in (
                (None, "null"), (True, "true"), (False, "false"), ("", '""'), ("a", '"a"'),
                ('"\\/', '"\\"\\\\/"'), ("\b\f\n\r\t", '"\\b\\f\\n\\r\\t"'),
                ("\0\x01\x1f\x7f\x80", '"\\u0000\\u0001\\u001f\x7f\x80"'),
                ("\u00e9\u2028", '"\u00e9\u2028"')):
            with self.subTest(text=text):
                self.assertEqual(pyperf3.encode_json(value), text)
                self.assertEqual(pyperf3.encode_json(value, 0), text)

    def test_unformatted_has_no_blanks(self):
        value = {"a": 1, "b": [{"c": 2}, {"c": 3}], "d": {}, "e": [], "f\n": None}
        self.assertEqual(pyperf3.encode_json(value),
                         '{"a":1,"b":[{"c":2},{"c":3}],"d":{},"e":[],"f\\n":null}')

    def test_formatted_has_tabs(self):
        value = {"start": {"connected": [{"socket": 4, "local_host": "127.0.0.1"}],
                           "version": "iperf 3.22"},
                 "intervals": [{"streams": [{"socket": 4}, {"socket": 6}],
                                "sum": {"start": 0}}],
                 "numbers": [1, 2], "none": [], "end": {}}
        self.assertEqual(pyperf3.encode_json(value, 0).split("\n"), [
            "{",
            '\t"start":\t{',
            '\t\t"connected":\t[{',
            '\t\t\t\t"socket":\t4,',
            '\t\t\t\t"local_host":\t"127.0.0.1"',
            '\t\t\t}],',
            '\t\t"version":\t"iperf 3.22"',
            '\t},',
            '\t"intervals":\t[{',
            '\t\t\t"streams":\t[{',
            '\t\t\t\t\t"socket":\t4',
            '\t\t\t\t}, {',
            '\t\t\t\t\t"socket":\t6',
            '\t\t\t\t}],',
            '\t\t\t"sum":\t{',
            '\t\t\t\t"start":\t0',
            '\t\t\t}',
            '\t\t}],',
            '\t"numbers":\t[1, 2],',
            '\t"none":\t[],',
            '\t"end":\t{',
            '\t}',
            '}'])
        self.assertEqual(pyperf3.encode_json({}, 0), "{\n}")
        self.assertEqual(pyperf3.encode_json([], 0), "[]")

    def test_what_is_written_is_read_back(self):
        value = {"a": [1, 2.5, "\"\\\n\u00e9", None, True, {"b": []}], "c": -3}
        for depth in (None, 0):
            text = pyperf3.encode_json(value, depth)
            self.assertEqual(json.loads(text), value)
            self.assertEqual(support.decode_json(text.encode("utf-8")), value)


class Reading(unittest.TestCase):
    """JsonReader, by_lower_name, to_integer: what a peer may send."""

    def test_leniency(self):
        for data, value in (
                (b"{}", {}), (b" \r\n\t{} ", {}), (b"[]", []), (b"5", 5), (b"null", None),
                (b'"x"', "x"), (b"{} trailing", {}), (b"{}{}", {}), (b"{}\0\0", {}),
                (b'{"a":1e3}', {"a": 1000.0}), (b'{"a":9.663676416e+18}', {"a": 9.663676416e18}),
                (b'{"a":NaN,"b":Infinity,"c":-Infinity}', {"a": None, "b": None, "c": None}),
                (b'{"a":"\\u00e9\\n\\/"}', {"a": "\u00e9\n/"}),
                (b'{"a":"\xc3\xa9"}', {"a": "\u00e9"}),
                (b'{"a":"\xe9"}', {"a": "\ufffd"}), (b'{"\xff":1}', {"\ufffd": 1}),
                # cJSON takes control characters in strings as they are
                (b'{"a":"x\ny\tz\x01"}', {"a": "x\ny\tz\x01"})):
            with self.subTest(data=data):
                self.assertEqual(support.decode_json(data), value)

    def test_what_is_no_json(self):
        for data in (b"", b" ", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,}', b"nul", b"x",
                     b"[1", b'"', b'{"a":"x}', b"{a:1}", b"{'a':1}", b"\0{}", b"\xff\xfe",
                     b'{"a":0x10}', b'{"a":+1}', b'{"a":-}', b'{"a":.5}', b"]"):
            with self.subTest(data=data), self.assertRaises(ValueError):
                support.decode_json(data)

    def test_the_first_of_two_members_wins(self):
        self.assertEqual(support.decode_json(b'{"a":1,"a":2,"b":{"c":3,"c":4}}'),
                         {"a": 1, "b": {"c": 3}})

    def test_members_are_found_whatever_their_case(self):
        document = support.decode_json(b'{"Time":5,"PARALLEL":2,"mss":3}')
        self.assertEqual(pyperf3.by_lower_name(document).get("time"), 5)
        self.assertEqual(pyperf3.by_lower_name(document).get("parallel"), 2)
        self.assertEqual(pyperf3.by_lower_name(document).get("mss"), 3)
        self.assertIsNone(pyperf3.by_lower_name(document).get("omit"))

    def test_the_first_wins_also_among_names_in_other_cases(self):
        document = support.decode_json(b'{"TIME":5,"time":6}')
        self.assertEqual(pyperf3.by_lower_name(document).get("time"), 5)

    def test_nesting_without_end(self):
        for data in (b"[" * 200000, b'{"a":' * 100000, b"[" * 100000 + b"]" * 100000,
                     b'[{"a":' * 100000):
            began = time.monotonic()
            with self.assertRaises(ValueError):
                support.decode_json(data)
            self.assertLess(time.monotonic() - began, 5.0)

    def test_some_nesting_is_fine(self):
        self.assertIsInstance(support.decode_json(b"[" * 100 + b"]" * 100), list)

    def test_numbers_without_end(self):
        for digits in (b"1" * 4000, b"-" + b"9" * 4000, b"1." + b"1" * 4000,
                       b"1e" + b"9" * 1000, b"1" * 29, b"1" * 30, b"1" * 310):
            began = time.monotonic()
            value = support.decode_json(b'{"time":' + digits + b"}")["time"]
            self.assertLess(time.monotonic() - began, 5.0)
            self.assertLessEqual(abs(pyperf3.to_integer(value)), 2 ** 63)
        for digits in (b"1" * 5000, b"-" + b"9" * 200000, b"1." + b"1" * 200000):
            with self.assertRaises(ValueError):
                support.decode_json(b'{"time":' + digits + b"}")

    def test_integers_are_cut_and_saturated(self):
        for value, wanted in (
                (5, 5), (1.9, 1), (-1.9, -1), (-0.5, 0), (0.0, 0), (1e3, 1000),
                (2 ** 63 - 1, 2 ** 63 - 1), (-2 ** 63, -2 ** 63), (-2 ** 70, -2 ** 63),
                (2 ** 70, 2 ** 63 - 1), (1e30, 2 ** 63 - 1), (-1e30, -2 ** 63),
                (float("inf"), None), (float("-inf"), -2 ** 63), (float("nan"), 0),
                (9.663676416e18, 2 ** 63 - 1), (1.8446744073709552e19, 2 ** 63 - 1),
                # 3.12 and 3.13: negative ones come unsigned
                (18446744073709551615, -1), (2 ** 64 - 5, -5), (2 ** 63, -2 ** 63),
                (2 ** 64, 2 ** 63 - 1)):
            with self.subTest(value=value):
                if wanted is None:  # not finite: any end of the range will do
                    self.assertIn(abs(pyperf3.to_integer(value)), (2 ** 63 - 1, 2 ** 63))
                else:
                    self.assertEqual(pyperf3.to_integer(value), wanted)
                    self.assertIsInstance(pyperf3.to_integer(value), int)


ROW = {"id": 1, "bytes": 1, "retransmits": 1, "jitter": 0.5, "errors": 0, "omitted_errors": 0,
       "packets": 0, "omitted_packets": 0, "start_time": 0, "end_time": 1}
MEMBERS = (b'"cpu_util_total":1,"cpu_util_user":1,"cpu_util_system":1,"sender_has_retransmits":1,'
           b'"streams":[')


def shapes(size):
    """Return the documents of results, of about `size` bytes, that might cost a reader most."""
    row = json.dumps(ROW).encode("ascii")
    head = b"{" + MEMBERS + b'],"x":'
    listed = dict((name, head + b"[" + unit * (size // len(unit)) + b"1]}") for name, unit in (
        ("numbers", b"1,"), ("fractions", b"1.5,"), ("arrays", b"[],"), ("objects", b"{},"),
        ("deep arrays", b"[" * 90 + b"]" * 90 + b","), ("objects in objects", b'{"a":{"a":1}},'),
        ("strings", b'"ab",'), ("escapes", b'"\\n",'), ("long numbers", b"1" * 4000 + b","),
        ("exponents", b"1e" + b"9" * 4000 + b","), ("blanks", b" " * 4000 + b"1,")))
    listed.update((name, head + b'"' + unit * (size // len(unit)) + b'"}') for name, unit in (
        ("a string", b"x"), ("a string of escapes", b"\\n"), ("backslashes", b"\\\\"),
        ("no UTF-8", b"\xff"), ("halves of pairs", b"\\ud83d"), ("pairs", b"\\ud83d\\ude00")))
    names = b",".join(b'"%x":1' % number for number in range(size // 10))
    listed.update((
        ("rows", b"{" + MEMBERS + b",".join([row] * (size // len(row))) + b"]}"),
        ("names", head + b"{" + names + b"}}"),
        ("names of members", b"{" + MEMBERS + b"]," + names + b"}"),
        ("one name", b"{" + b",".join([b'"streams":[]'] * (size // 13)) + b"}"),
        ("outputs", b"{" + b",".join([b'"Server_output_text":""', b'"server_output_text":[]']
                                     * (size // 50)) + b"}"),
        ("digits", head + b"1" * size + b"}"), ("nothing but blanks", head + b" " * size + b"1}"),
        ("open arrays", b"[" * size), ("open objects", b'{"a":' * (size // 5)),
        ("quotes", b'"' * size)))
    return listed


class Shapes(unittest.TestCase):
    """What a peer's document may cost, of whatever shape."""

    def test_results_of_any_shape_cost_milliseconds(self):
        limit, ids = pyperf3.results_limit(256), pyperf3.stream_ids(256)
        for name, data in sorted(shapes(limit).items()):
            with self.subTest(shape=name):
                begun = time.process_time()
                try:
                    pyperf3.results_from_json(
                        support.decode_json(data, pyperf3.ROOM_FACTOR * limit), ids)
                except (ValueError, pyperf3.IperfError):
                    pass
                self.assertLess(time.process_time() - begun, 0.4)

    def test_real_results_have_ample_room(self):
        for count in (1, 256):
            row = dict(ROW, bytes=2 ** 62, jitter=0.00012331230005876591, host_dropped_packets=1)
            data = (b"{" + MEMBERS + b",".join([json.dumps(row).encode("ascii")] * count) + b"]}")
            limit = pyperf3.results_limit(count)
            self.assertLess(3 * len(data), limit)
            self.assertIn("streams", support.decode_json(data, pyperf3.ROOM_FACTOR * limit // 3))

    def test_a_large_document_is_read_in_slices(self):
        for name, data in sorted(shapes(2 ** 17).items()):
            reading = pyperf3.JsonReader(data, 2 ** 40).read()
            slices = 0
            try:
                for _ in reading:
                    slices += 1
            except ValueError:
                continue  # at once
            if name not in ("quotes", "long numbers", "exponents", "blanks", "outputs"):
                with self.subTest(shape=name):
                    self.assertGreater(slices, 3)

    def test_what_a_document_takes_is_bounded_by_its_room(self):
        for data, size in ((b"[" + b"1," * 999 + b"1]", 8000), (b"[" + b"[]," * 99 + b"1]", 7000),
                           (b'"' + b"x" * 9000 + b'"', 9000), (b'"' + b"\xe9" * 900 + b'"', 1800),
                           (b'{"%s":1}' % (b"n" * 9000), 9000),
                           (b'"' + b"x" * 70000 + b"\xf0\x9f\x98\x80" + b'"', 70000 * 4)):
            with self.subTest(data=data[:20]):
                support.decode_json(data, size * 20)
                with self.assertRaises(ValueError):
                    support.decode_json(data, size)

    def test_a_servers_output_alone_has_room_of_its_own(self):
        text = b'"' + b"x" * 5000 + b'"'
        for data, good in ((b'{"server_output_text":%s}', True),
                           (b'{"SERVER_output_json":{"x":%s}}', True),
                           (b'{"title":%s}', False), (b'{"x":{"server_output_text":%s}}', False),
                           (b'[{"server_output_text":%s}]', False),
                           (b'{"server_output_text":1,"x":%s}', False)):
            with self.subTest(data=data):
                reader = pyperf3.JsonReader(data % text, 2000, 20000, pyperf3.SERVER_OUTPUTS)
                if good:
                    self.assertEqual(list(reader.read()), [])
                else:
                    self.assertRaises(ValueError, list, reader.read())


def asked(line="", mss=32768):
    """Return the parameters of a client's command line. mss: of the control connection."""
    parameters = pyperf3.Parameters.from_settings(
        pyperf3.Settings.from_arguments(["-c", "h"] + line.split()))
    if parameters.protocol == "UDP":
        parameters.choose_length(mss)
    return parameters


def received(document):
    """Return (parameters or None, error number or None) of a client's document."""
    try:
        return pyperf3.Parameters.from_json(document), None
    except pyperf3.IperfError as error:
        return None, error.number


# Lines of options, compared with what a real client sends. Without -l a rate makes the blocks
# of pyperf3 smaller, which is on purpose.
SENT = (
    "", "-t 1", "-t 0", "-n 1M", "-k 10", "-n 0", "-n 9000T", "-P 3", "-R",
    "--bidir -P 2", "-O 2 -t 3", "-w 128K", "-l 1000", "-b 5M -l 16K", "-b 1M/10 -l 1K", "-b 0",
    "-M 1400", "-N", "-S 0x20", "--dscp ef", "-T title", "--extra-data x", "-C reno",
    "--get-server-output", "--repeating-payload", "-Z", "-Z -R", "--skip-rx-copy",
    "-4 -B 127.0.0.1", "-i 0.5 -V -f k -J", "-L 1", "-L 0xfffff -N", "--gsro",
    "--udp-counters-64bit", "--dont-fragment",
    "-u", "-u -t 1", "-u -b 0", "-u -b 10M", "-u -b 5M/10 -l 1200", "-u -b 1/1000", "-u -l 0",
    "-u -l 16", "-u -l 65507", "-u -R", "-u --bidir -P 2", "-u -n 100K", "-u -k 5", "-u -O 1",
    "-u -b 100K", "-u -S 8 -w 64K", "-u -M 1400 -N", "-u -Z", "-u -C reno", "-u --skip-rx-copy",
    "-u --udp-counters-64bit", "-u --dont-fragment", "-u -L 77", "-u --repeating-payload",
    "-u --gsro", "-u --gsro -l 1400", "-u --gsro -l 64", "-u --gsro -l 16", "-u --gsro -l 65507",
    "-u --gsro -l 32753", "-u --gsro -l 32754", "-u --gsro -R --bitrate 0",
)
EVERYTHING = ("-R -N -M 1400 -w 64K -P 2 -O 1 -T t --extra-data e -C cubic -Z -S 8 -b 1G/5 -l 64K"
              " --get-server-output --repeating-payload --skip-rx-copy -t 7")
UDP_EVERYTHING = (
    "-u -R -M 1400 -w 64K -P 2 -O 1 -T t --extra-data e -S 8 -L 5 -b 1G/5 -l 1400 -t 7"
    " --get-server-output --repeating-payload --udp-counters-64bit --dont-fragment --gsro")
ENORMOUS = ("-n -1", "-k -1", "-b -1 -l 1K", "-n 9999999T")

# Documents, compared with what a real server says to them.
COMPARED = (
    b'{}', b'[]', b'5', b'null', b'"x"', b'{"tcp":true}', b'{"tcp":false}',
    b'{"TIME":86401}', b'{"Time":86401}', b'{"time":5,"time":86401}', b'{"time":86401,"time":5}',
    b'{"TIME":86401,"time":5}', b'{"time":5,"TIME":86401}', b'{"time":"x"}', b'{"time":true}',
    b'{"time":null}', b'{"time":[86401]}', b'{"time":86400.9}', b'{"time":86401.0}',
    b'{"time":-0.9}', b'{"time":-1}', b'{"time":1e9}', b'{"time":-1e300}', b'{"time":1e300}',
    b'{"parallel":0}', b'{"parallel":128}', b'{"parallel":129}', b'{"parallel":-1}',
    b'{"parallel":"129"}', b'{"omit":601}', b'{"omit":-1}', b'{"omit":600}',
    b'{"num":-1}', b'{"num":9.6e18}', b'{"blockcount":-1}', b'{"bandwidth":-1}',
    b'{"fqrate":-1}', b'{"pacing_timer":-1}', b'{"pacing_timer":0}',
    b'{"MSS":-1}', b'{"MSS":32768}', b'{"mss":32768}', b'{"window":-1}', b'{"window":536870913}',
    b'{"len":0}', b'{"len":-1}', b'{"len":1048577}', b'{"len":1}', b'{"len":1048576}',
    b'{"burst":0}', b'{"burst":1}', b'{"burst":1000}', b'{"burst":1001}', b'{"TOS":-1}',
    b'{"TOS":256}', b'{"TOS":255}', b'{"flowlabel":0}', b'{"flowlabel":1048576}',
    b'{"flowlabel":-1}', b'{"reverse":false,"unknown":{"a":[1,{}]}}',
    # of several the last that is looked at decides, whatever the order of the members
    b'{"omit":601,"time":86401}', b'{"time":86401,"omit":601}', b'{"time":86401,"num":-1}',
    b'{"num":-1,"MSS":32768}', b'{"MSS":32768,"parallel":0}', b'{"parallel":0,"MSS":32768}',
    b'{"parallel":0,"window":-1}', b'{"window":-1,"len":0}', b'{"len":0,"bandwidth":-1}',
    b'{"bandwidth":-1,"burst":0}', b'{"burst":0,"TOS":256}', b'{"TOS":256,"burst":0}',
    b'{"TOS":256,"flowlabel":0}', b'{"flowlabel":0,"omit":601}', b'{"len":0,"burst":0}',
    b'{"len":0,"TOS":256}', b'{"len":0,"flowlabel":0}', b'{"len":0,"fqrate":-1}',
    b'{"parallel":0,"bandwidth":-1}', b'{"burst":0,"fqrate":-1}',
    # UDP needs a size of its datagrams
    b'{"udp":true}', b'{"udp":true,"len":0}', b'{"udp":true,"len":15}',
    b'{"udp":true,"len":16}', b'{"udp":true,"len":65507}', b'{"udp":true,"len":65508}',
    b'{"udp":true,"len":1048576}', b'{"udp":true,"len":1048577}',
    b'{"udp":true,"len":-1}', b'{"udp":false,"len":15}',
    b'{"udp":true,"len":"1000"}', b'{"udp":true,"len":15.9}', b'{"udp":true,"len":65507.9}',
    b'{"len":15,"udp":true}', b'{"udp":1,"len":15}', b'{"tcp":true,"udp":true,"len":65508}',
    b'{"udp":true,"tcp":true,"len":15}', b'{"tcp":true,"len":15}',
    b'{"udp":true,"len":16,"gso":-1}', b'{"udp":true,"len":16,"gso":2}',
    b'{"udp":true,"len":16,"gso_dg_size":-1}', b'{"udp":true,"len":16,"gso_dg_size":0}',
    b'{"udp":true,"len":16,"gso_bf_size":-1}', b'{"udp":true,"len":16,"gso_bf_size":1e9}',
    b'{"udp":true,"len":16,"gro":-1}', b'{"udp":true,"len":16,"gro":2}',
    b'{"udp":true,"len":16,"gro":1}', b'{"udp":true,"len":16,"gro_bf_size":-1}',
    b'{"gso":-1}', b'{"gro":2}', b'{"gro_bf_size":-1}', b'{"gso_bf_size":-1,"TOS":256}',
    b'{"udp":true,"len":16,"burst":0}', b'{"udp":true,"len":15,"burst":0}',
    b'{"udp":true,"len":15,"TOS":256}', b'{"udp":true,"len":15,"flowlabel":0}',
    b'{"udp":true,"gro":2,"len":15}', b'{"udp":true,"omit":601}', b'{"udp":true,"parallel":0}',
    b'{"udp":true,"len":16,"bandwidth":-1,"gro":2}', b'{"udp":true,"len":16,"gro":2,"TOS":256}',
    # bytes that are not plain JSON
    b'{} trailing', b'{"time":86401}}}}', b'   {"time":86401}   ', b'\n\t{"time":86401}',
    b'{"time":86401', b'{"time":', b'{', b'x', b' ', b'{"time":86401,}', b'{time:86401}',
    b"{'time':86401}", b'{"time":0x15181}', b'{"time":+86401}',
    b'{"title":"a\nb\x01","time":86401}', b'{"title":"\xe9\xff","time":86401}',
    b'{"title":"\\u00e9\\"","time":86401}', b'{"title":"\\q","time":86401}',
    b'{"a":' + b'[' * 90 + b']' * 90 + b',"time":86401}', b'{"a":' + b'[' * 3000,
    b'{"client_version":"3.22","time":86401}' + b' ' * 4000,
)


class ParameterDocuments(unittest.TestCase):
    """Parameters.to_json and from_json."""

    def test_documents_that_were_seen_are_read(self):
        for name, protocol, values in (
                ("3.22", "TCP", (10, 1, 131072, 0)), ("3.22 rate", "TCP", (1, 1, 16384, 5000000)),
                ("3.22 UDP", "UDP", (1, 1, 32768, 1048576)), ("3.12", "TCP", (1, 3, 131072, 0)),
                ("3.9 UDP", "UDP", (3, 1, 32768, 1048576)), ("3.1", "TCP", (3, 1, 131072, 0)),
                ("3.22 UDP bidir", "UDP", (1, 1, 1000, 200000))):
            with self.subTest(name=name):
                got, _ = received(support.decode_json(SEEN[name].encode("ascii")))
                self.assertEqual((got.time, got.parallel, got.length, got.rate), values)
                self.assertEqual(got.protocol, protocol)
                self.assertEqual((got.omit, got.bytes, got.blocks), (0, 0, 0))
                self.assertEqual(got.bidirectional, name == "3.22 UDP bidir")
                self.assertEqual(got.wide_counters, name == "3.22 UDP bidir")
                self.assertFalse(got.reverse or got.no_delay or got.gso or got.gro)

    def test_documents_that_were_seen_are_sent(self):
        self.assertEqual(pyperf3.encode_json(asked().to_json()), SEEN["3.22"])
        self.assertEqual(pyperf3.encode_json(asked("-t 1 -b 5M -l 16K").to_json()),
                         SEEN["3.22 rate"])
        self.assertEqual(pyperf3.encode_json(asked("-u -t 1").to_json()), SEEN["3.22 UDP"])
        line = "-u --bidir -b 200K -l 1000 --udp-counters-64bit -t 1"
        self.assertEqual(pyperf3.encode_json(asked(line).to_json()), SEEN["3.22 UDP bidir"])

    def test_order_of_the_members(self):
        everything = asked(EVERYTHING).to_json()
        self.assertEqual(list(everything), (
            "tcp omit time num blockcount MSS nodelay parallel reverse window len bandwidth"
            " pacing_timer burst TOS title extra_data congestion get_server_output"
            " repeating_payload zerocopy skip_rx_copy client_version").split())
        self.assertIs(everything["nodelay"], True)
        self.assertIs(everything["reverse"], True)
        for name in ("get_server_output", "repeating_payload", "zerocopy", "skip_rx_copy"):
            self.assertEqual(pyperf3.encode_json(everything[name]), "1")

    def test_order_of_the_members_of_udp(self):
        everything = asked(UDP_EVERYTHING).to_json()
        self.assertEqual(list(everything), (
            "udp omit time num blockcount MSS parallel reverse window len bandwidth pacing_timer"
            " burst gso gso_dg_size gso_bf_size gro gro_bf_size TOS flowlabel title extra_data"
            " get_server_output udp_counters_64bit repeating_payload dont_fragment"
            " client_version").split())
        self.assertIs(everything["udp"], True)
        for name in ("udp_counters_64bit", "dont_fragment", "gso", "gro"):
            self.assertEqual(pyperf3.encode_json(everything[name]), "1")

    def test_udp_alone_sends_the_sizes_of_pieces(self):
        names = {"gso", "gso_dg_size", "gso_bf_size", "gro", "gro_bf_size"}
        for line in ("", "--gsro", "-u", "-u --gsro", "-u -b 0"):
            with self.subTest(line=line):
                self.assertEqual(names.intersection(asked(line).to_json()),
                                 names if "-u" in line else set())

    def test_pieces_of_gsro(self):
        for length, size in ((1400, 64400), (64, 8192), (16, 2048), (511, 65408), (512, 65024),
                             (1448, 65160), (32753, 65506), (32754, 32754), (65507, 65507)):
            with self.subTest(length=length):
                sent = asked("-u --gsro -l %d" % length).to_json()
                self.assertEqual([sent[name] for name in (
                    "gso", "gso_dg_size", "gso_bf_size", "gro", "gro_bf_size")],
                                 [1, length, size, 1, 65507])
        sent = asked("-u --gsro", 1448).to_json()
        self.assertEqual((sent["len"], sent["gso_dg_size"], sent["gso_bf_size"]),
                         (1448, 1448, 65160))

    def test_rate_of_udp(self):
        self.assertEqual(asked("-u").to_json()["bandwidth"], 1048576)
        self.assertNotIn("bandwidth", asked("-u -b 0").to_json())
        self.assertEqual(asked("-u -b 5M/10").to_json()["bandwidth"], 5000000)
        self.assertEqual(asked("-u -b 5M/10").to_json()["burst"], 10)
        self.assertEqual(received({"udp": True, "len": 1000})[0].rate, 0)

    def test_length_of_datagrams_is_the_segment_size_of_the_control_connection(self):
        for mss, length in ((1448, 1448), (32768, 32768), (1, 1), (16, 16), (65507, 65507),
                            (0, 1460), (65508, 1460), (-1, 1460), (2 ** 31, 1460)):
            with self.subTest(mss=mss):
                self.assertEqual(asked("-u", mss).length, length)
                self.assertEqual(asked("-u -l 1000", mss).length, 1000)
                self.assertEqual(asked("-u -l 0", mss).to_json()["len"], length)

    def test_datagrams_of_a_slow_stream_keep_their_size(self):
        self.assertEqual(asked("-u -b 1K").length, 32768)

    def test_what_is_sent_comes_over(self):
        for line in SENT + (EVERYTHING, UDP_EVERYTHING):
            with self.subTest(line=line):
                sent = asked(line)
                got, _ = received(support.decode_json(pyperf3.encode_frame(sent.to_json())[4:]))
                self.assertEqual(vars(got), vars(sent))

    def test_enormous_numbers_come_over_as_the_largest(self):
        """A negative -n or -b is an enormous one, which goes over the wire as a fraction."""
        for line, name in (("-n -1", "bytes"), ("-k -1", "blocks"), ("-b -1 -l 1K", "rate")):
            with self.subTest(line=line):
                frame = pyperf3.encode_frame(asked(line).to_json())
                got, number = received(support.decode_json(frame[4:]))
                self.assertIsNone(number)
                self.assertEqual(getattr(got, name), 2 ** 63 - 1)

    def test_time_is_zero_with_another_end(self):
        self.assertEqual(asked("-n 1").time, 0)
        self.assertEqual(asked("-k 1").time, 0)
        self.assertEqual(asked("-t 0").time, 0)
        self.assertEqual(asked("-n 0").time, 10)
        self.assertEqual(asked("-t 3").time, 3)

    def test_blocks_of_a_slow_stream_are_a_tenth_of_a_second(self):
        self.assertEqual(asked("-b 100K").length, 1250)
        self.assertEqual(asked("-b 1").length, 1)
        self.assertEqual(asked("-b 1G").length, 131072)
        self.assertEqual(asked("-b 100K -l 128K").length, 131072)
        self.assertEqual(asked().length, 131072)

    def test_limits_and_their_numbers(self):
        for key, low, high, number in (
                ("omit", 0, 600, 12), ("time", 0, 86400, 5), ("num", 0, None, 114),
                ("blockcount", 0, None, 114), ("bandwidth", 0, None, 114),
                ("fqrate", 0, None, 114), ("pacing_timer", 0, None, 114), ("MSS", 0, 32767, 10),
                ("parallel", 1, 128, 6), ("window", 0, 536870912, 8), ("len", 1, 1048576, 7),
                ("burst", 1, 1000, 15), ("TOS", 0, 255, 21), ("flowlabel", 1, 1048575, 127)):
            with self.subTest(key=key):
                self.assertEqual(received({key: low})[1], None)
                self.assertEqual(received({key: low - 1})[1], number)
                self.assertEqual(received({key: -2 ** 62})[1], number)
                self.assertEqual(received({key: low + 0.9})[1], None)
                if high is None:
                    self.assertEqual(received({key: 2 ** 62})[1], None)
                else:
                    self.assertEqual(received({key: high})[1], None)
                    self.assertEqual(received({key: high + 0.9})[1], None)
                    self.assertEqual(received({key: high + 1})[1], number)
                    self.assertEqual(received({key: 1e300})[1], number)

    def test_limits_of_udp_and_their_numbers(self):
        def refusal(**members):
            return received(dict({"udp": True, "len": 1000}, **members))[1]
        for key, low, high, number in (
                ("len", 16, 65507, 20), ("gso", 0, None, 114), ("gso_dg_size", 0, None, 114),
                ("gso_bf_size", 0, None, 114), ("gro", 0, 1, 114), ("gro_bf_size", 0, None, 114),
                ("flowlabel", 1, 1048575, 127), ("bandwidth", 0, None, 114),
                ("burst", 1, 1000, 15), ("parallel", 1, 128, 6)):
            with self.subTest(key=key):
                self.assertIsNone(refusal(**{key: low}))
                self.assertIsNone(refusal(**{key: low + 0.9}))
                for value in (low - 1, -2 ** 62):
                    self.assertEqual(refusal(**{key: value}), number)
                if high is None:
                    self.assertIsNone(refusal(**{key: 2 ** 62}))
                else:
                    self.assertIsNone(refusal(**{key: high}))
                    self.assertIsNone(refusal(**{key: high + 0.9}))
                    self.assertEqual(refusal(**{key: high + 1}), number)
                    self.assertEqual(refusal(**{key: 1048576}), number)

    def test_udp_needs_a_length(self):
        """The default is TCP's, which is out of range."""
        for document in ({"udp": True}, {"udp": False}, {"udp": True, "len": "1000"},
                         {"udp": True, "len": None}, {"tcp": True, "udp": True}):
            with self.subTest(document=document):
                self.assertEqual(received(document)[1], 20)
        self.assertIsNone(received({"udp": 1, "len": 15})[1])
        self.assertIsNone(received({"udp": True, "sctp": True, "len": 15})[1])

    def test_the_last_broken_one_decides(self):
        self.assertEqual(received({"time": 86401, "omit": 601})[1], 5)
        self.assertEqual(received({"omit": 601, "time": 86401})[1], 5)
        self.assertEqual(received({"TOS": 256, "parallel": 0, "omit": 601})[1], 21)

    def test_the_block_size_is_looked_at_last(self):
        for key, value in (("bandwidth", -1), ("burst", 0), ("TOS", 256), ("flowlabel", 0),
                           ("window", -1)):
            with self.subTest(key=key):
                self.assertEqual(received({"len": 0, key: value})[1], 7)
                self.assertEqual(received({"udp": True, "len": 15, key: value})[1], 20)
                self.assertEqual(received({"udp": True, key: value})[1], 20)

    def test_zero_means_absent_where_iperf3_sends_none(self):
        """A test without an end, a number of streams: none is taken over when broken."""
        got, _ = received({"num": 0, "blockcount": 0, "bandwidth": 0, "window": 0, "MSS": 0})
        self.assertEqual((got.bytes, got.blocks, got.rate, got.window, got.mss), (0,) * 5)

    def test_members_of_the_wrong_type_are_ignored(self):
        default = vars(received({})[0])
        for row in pyperf3.PARAMETERS:
            wrong = {"int": ["1", True, None, [], {}], "presence": [1, "true", None, []],
                     "flag": ["1", True, None, []], "onoff": ["1", True, None],
                     "text": [1, True, None, ["x"]],
                     "features": [1, True, None, "facts", ["facts"]]}[row.kind]
            for value in wrong:
                with self.subTest(key=row.key, value=value):
                    got, number = received({row.key: value})
                    self.assertIsNone(number)
                    self.assertEqual(vars(got), default)
        self.assertEqual(vars(received({"tcp": 1, "udp": "yes", "sctp": None})[0]), default)

    def test_false_switches_on(self):
        got, _ = received({"reverse": False, "nodelay": False})
        self.assertTrue(got.reverse and got.no_delay)
        self.assertIs(received({"bidirectional": False})[0].bidirectional, True)

    def test_the_last_protocol_wins(self):
        for document, protocol in (({"tcp": True}, "TCP"), ({"udp": True}, "UDP"),
                                   ({"sctp": True}, "SCTP"), ({"udp": False}, "UDP"),
                                   ({"udp": True, "tcp": True}, "UDP"),
                                   ({"sctp": True, "udp": True}, "SCTP"), ({}, "TCP")):
            with self.subTest(document=document):
                document["len"] = 1000
                self.assertEqual(received(document)[0].protocol, protocol)

    def test_numbers_as_switches(self):
        for value in (0, 1, -1, 0.0):
            got, _ = received({"get_server_output": value, "repeating_payload": value})
            self.assertIs(got.get_server_output, True)
            self.assertIs(got.repeating_payload, True)
            self.assertIs(received({"udp_counters_64bit": value})[0].wide_counters, True)
        got, _ = received({"zerocopy": 0, "skip_rx_copy": 0, "dont_fragment": 0})
        self.assertFalse(got.zerocopy or got.skip_rx_copy or got.dont_fragment)
        got, _ = received({"zerocopy": 2, "skip_rx_copy": 1, "dont_fragment": -1})
        self.assertTrue(got.zerocopy and got.skip_rx_copy and got.dont_fragment)

    def test_fractions_are_cut(self):
        got, _ = received({"time": 1.9, "parallel": 2.999, "num": 9.663676416e15})
        self.assertEqual((got.time, got.parallel, got.bytes), (1, 2, 9663676416000000))
        self.assertIsInstance(got.bytes, int)

    def test_a_document_that_is_no_object_means_all_defaults(self):
        default = vars(received({})[0])
        for document in ([], 5, None, "x", True, 1.5):
            with self.subTest(document=document):
                self.assertEqual(vars(received(document)[0]), default)

    def test_texts_are_taken_as_they_are(self):
        got, _ = received({"title": "t\n", "extra_data": "", "congestion": "\ufffd"})
        self.assertEqual((got.title, got.extra_data, got.congestion), ("t\n", "", "\ufffd"))

    def test_both_directions_and_reverse_exclude_each_other(self):
        self.assertEqual(received({"reverse": True, "bidirectional": True})[1], 25)

    def test_what_is_sent_is_what_a_real_client_sends(self):
        real = support.real("3.22")
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(5)
            listener.settimeout(20)
            for line in SENT + (EVERYTHING, UDP_EVERYTHING) + ENORMOUS:
                for _ in range(5):
                    mss, sent = self.sent_by(real, line, listener)
                    ours = pyperf3.encode_json(asked(line, mss).to_json())
                    # Now and then a connection over loopback has a smaller MSS than the next.
                    sizes = re.compile('"(len|gso_dg_size)":[0-9]+')
                    if ours == sent or sizes.sub("", ours) != sizes.sub("", sent):
                        break
                with self.subTest(line=line):
                    self.assertEqual(ours, sent)

    @staticmethod
    def sent_by(client, line, listener):
        """Return the MSS of a connection, and the parameters that a client sends over another."""
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), 20) as sock:
            listener.accept()[0].close()
            mss = pyperf3.maximum_segment(sock)
        with support.Program(client + tuple(["-c", "127.0.0.1", "-p", port] + line.split())):
            sock, _ = listener.accept()
            with sock:
                sock.settimeout(20)
                exactly(sock, 37)
                sock.sendall(b"\x09")
                body = exactly(sock, struct.unpack("!I", exactly(sock, 4))[0])
        return mss, body.decode("ascii")

    def test_answers_are_those_of_a_real_server(self):
        """iperf3 3.22 refuses the documents that pyperf3 refuses, with the same numbers."""
        with contextlib.ExitStack() as stack:
            program, port = support.start_server(support.real("3.22"))
            stack.enter_context(program)
            self.assertEqual(answer_of(port, b'{"time":86401}'), 5)
            for body in COMPARED:
                with self.subTest(body=body[:60]):
                    self.assertEqual(own_answer(body), answer_of(port, body))


def exactly(sock, count):
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise AssertionError("the connection was closed")
        data += piece
    return data


def answer_of(port, body):
    """Return what a server says to a parameter document: an error number, None if it is fine."""
    deadline = time.monotonic() + 10
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 10) as sock:
                sock.sendall(pyperf3.make_cookie())
                exactly(sock, 1)
                sock.sendall(struct.pack("!I", len(body)) + body)
                state, = struct.unpack("!b", exactly(sock, 1))
                if state == pyperf3.CREATE_STREAMS:
                    sock.sendall(pyperf3.encode_state(pyperf3.IPERF_DONE))
                    return None
                if state != pyperf3.SERVER_ERROR:
                    raise AssertionError("state %d" % state)
                return struct.unpack("!ii", exactly(sock, 8))[0]
        except (ConnectionError, AssertionError):
            # iperf3 opens its listener anew after each test.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def own_answer(body):
    """Return the number of the error that pyperf3 raises over a document, or None."""
    try:
        document = support.decode_json(body)
    except ValueError:
        return 114
    return received(document)[1]


class ResultDocuments(unittest.TestCase):
    """results_to_json and results_from_json."""

    def read(self, text, ids=(1,)):
        return pyperf3.results_from_json(support.decode_json(text.encode("utf-8")), list(ids))

    def refused(self, document, number, ids=(1,)):
        with self.assertRaises(pyperf3.IperfError) as caught:
            pyperf3.results_from_json(document, list(ids))
        self.assertEqual(caught.exception.number, number)

    def sample(self):
        return json.loads(SERVER_RESULTS, object_pairs_hook=collections.OrderedDict)

    def test_results_that_were_seen(self):
        got = self.read(CLIENT_RESULTS)
        self.assertEqual((got.cpu_total, got.cpu_user, got.cpu_system),
                         (0.30782068147745939, 0.0, 0.30772086932393239))
        self.assertEqual((got.has_retransmits, got.congestion, got.output), (1, "bbr", None))
        self.assertEqual(got.streams, {1: pyperf3.StreamResult(
            1, 638976, 0, 0.0, 0, 0, 0, 0, 0.0, 1.00135, None)})
        got = self.read(SERVER_RESULTS)
        self.assertEqual((got.has_retransmits, got.streams[1].retransmits), (-1, -1))
        self.assertEqual(got.streams[1].end_time, 1.001449)

    def test_results_of_udp_that_were_seen(self):
        got = self.read(UDP_RESULTS, (1, 3))
        self.assertEqual((got.has_retransmits, got.congestion), (0, None))
        self.assertEqual(list(got.streams.values()), [
            pyperf3.StreamResult(1, 25000, -1, 0.0, 0, 0, 25, 0, 0.0, 1.001787, None),
            pyperf3.StreamResult(3, 26000, -1, 0.00012331230005876591, 0, 0, 26, 0, 0.0, 1.00179,
                                 None)])

    def test_loss_and_jitter_come_over(self):
        stream = pyperf3.StreamResult(1, 126000, -1, 0.0004, 25, 12, 252, 126, 0.0, 1.5, None)
        sent = pyperf3.Results(1.5, 1.0, 0.5, -1, None, {1: stream}, None)
        frame = pyperf3.encode_frame(pyperf3.results_to_json(sent))
        self.assertEqual(pyperf3.results_from_json(support.decode_json(frame[4:]), [1]), sent)
        self.assertNotIn(b"dropped", frame)

    def test_drops_come_over_under_a_name_of_our_own(self):
        for count in (0, 7, 2 ** 40):
            with self.subTest(count=count):
                got = self.read(UDP_RESULTS, (1, 3))
                got.streams[3] = got.streams[3]._replace(dropped=count)
                document = pyperf3.results_to_json(got)
                self.assertNotIn("host_dropped_packets", document["streams"][0])
                self.assertEqual(list(document["streams"][1])[-1], "host_dropped_packets")
                self.assertEqual(document["streams"][1]["host_dropped_packets"], count)
                text = pyperf3.encode_json(document)
                self.assertEqual(self.read(text, (1, 3)), got)

    def test_drops_that_are_no_count_are_not_known(self):
        for value, wanted in ((5, 5), (5.9, 5), (-3, 0), ("5", None), (None, None), (True, None),
                              ([], None)):
            with self.subTest(value=value):
                document = self.sample()
                document["streams"][0]["HOST_dropped_packets"] = value
                got = pyperf3.results_from_json(document, [1])
                self.assertEqual(got.streams[1].dropped, wanted)

    def test_unsigned_negative_numbers_of_3_12(self):
        got = self.read(OLD_RESULTS, (1, 3))
        self.assertEqual(got.has_retransmits, -1)
        self.assertEqual([stream.retransmits for stream in got.streams.values()], [-1, -1])
        self.assertEqual(got.streams[3].bytes, 26000)
        self.assertEqual(got.streams[1].jitter, 0.0002455155091705322)
        self.assertIsNone(got.congestion)

    def test_omitted_counts_may_both_be_missing(self):
        got = self.read(OLD_RESULTS, (1, 3))
        for stream in got.streams.values():
            self.assertEqual((stream.omitted_errors, stream.omitted_packets), (None, None))

    def test_one_omitted_count_alone_is_an_error(self):
        for name in ("omitted_errors", "omitted_packets"):
            with self.subTest(name=name):
                document = self.sample()
                del document["streams"][0][name]
                self.refused(document, 117)

    def test_times_may_be_missing(self):
        document = self.sample()
        del document["streams"][0]["start_time"], document["streams"][0]["end_time"]
        got = pyperf3.results_from_json(document, [1])
        self.assertIsNone(got.streams[1].end_time)
        self.assertEqual(got.streams[1].start_time, 0.0)

    def test_members_that_must_be_there(self):
        for name in ("cpu_util_total", "cpu_util_user", "cpu_util_system",
                     "sender_has_retransmits", "streams"):
            for wrong in ("missing", None, "1", True, {}):
                with self.subTest(name=name, wrong=wrong):
                    document = self.sample()
                    document[name] = wrong
                    if wrong == "missing":
                        del document[name]
                    self.refused(document, 117)

    def test_members_of_a_stream_that_must_be_there(self):
        for name in ("id", "bytes", "retransmits", "jitter", "errors", "packets"):
            for wrong in ("missing", None, "1", False, []):
                with self.subTest(name=name, wrong=wrong):
                    document = self.sample()
                    document["streams"][0][name] = wrong
                    if wrong == "missing":
                        del document["streams"][0][name]
                    self.refused(document, 117)

    def test_what_is_no_document_at_all(self):
        for document in ([], 5, None, "x", True):
            self.refused(document, 117)
        document = self.sample()
        document["streams"] = [5]
        self.refused(document, 117)

    def test_unknown_ids(self):
        self.refused(self.sample(), 208, (3,))
        document = self.sample()
        document["streams"][0]["id"] = 2
        self.refused(document, 208, (1, 3))

    def test_streams_may_be_missing(self):
        document = self.sample()
        self.assertEqual(list(pyperf3.results_from_json(document, [1, 3]).streams), [1])
        document["streams"] = []
        self.assertEqual(pyperf3.results_from_json(document, [1]).streams, {})

    def test_unknown_members_and_other_cases(self):
        document = self.sample()
        document["new"] = {"a": [1]}
        document["streams"][0]["new"] = None
        document["CPU_UTIL_TOTAL"] = document.pop("cpu_util_total")
        document["Streams"] = document.pop("streams")
        self.assertEqual(pyperf3.results_from_json(document, [1]).streams[1].bytes, 638976)

    def test_fractions_and_exponents(self):
        document = self.sample()
        document["streams"][0].update(bytes=9.663676416e+15, retransmits=1.9, packets=2.5)
        got = pyperf3.results_from_json(document, [1]).streams[1]
        self.assertEqual((got.bytes, got.retransmits, got.packets), (9663676416000000, 1, 2))

    def test_figures_that_cannot_be_true(self):
        document = self.sample()
        document["cpu_util_total"] = 1e999
        document["cpu_util_user"] = -1e999
        document["cpu_util_system"] = 10 ** 29
        document["streams"][0].update(bytes=-5, jitter=1e999, start_time=-1e999, end_time=1e20)
        got = pyperf3.results_from_json(document, [1])
        stream = got.streams[1]
        self.assertEqual((stream.bytes, stream.jitter, stream.start_time), (0, 0.0, 0.0))
        for value in (got.cpu_total, got.cpu_user, got.cpu_system, stream.end_time):
            self.assertLess(abs(value), 1e20)
            self.assertNotEqual(pyperf3.encode_json(value), "null")
        document["streams"][0]["end_time"] = -1
        self.assertIsNone(pyperf3.results_from_json(document, [1]).streams[1].end_time)

    def test_output_of_the_server(self):
        for name, value in (("server_output_text", "Accepted\n"), ("server_output_text", ""),
                            ("server_output_json", {"start": {}})):
            with self.subTest(name=name, value=value):
                got = pyperf3.results_from_json(dict(self.sample(), **{name: value}), [1])
                self.assertEqual(got.output, (name, value))
        for name, value in (("server_output_text", 5), ("server_output_json", "x"),
                            ("server_output_json", [])):
            with self.subTest(name=name, value=value):
                got = pyperf3.results_from_json(dict(self.sample(), **{name: value}), [1])
                self.assertIsNone(got.output)

    def test_results_are_written_as_they_were_seen(self):
        for text, ids in ((CLIENT_RESULTS, (1,)), (SERVER_RESULTS, (1,)), (UDP_RESULTS, (1, 3))):
            got = self.read(text, ids)
            self.assertEqual(pyperf3.encode_json(pyperf3.results_to_json(got)), text)

    def test_order_of_the_members(self):
        got = self.read(CLIENT_RESULTS)._replace(output=("server_output_text", "x"))
        self.assertEqual(list(pyperf3.results_to_json(got)), [
            "cpu_util_total", "cpu_util_user", "cpu_util_system", "sender_has_retransmits",
            "congestion_used", "server_output_text", "streams"])
        plain = pyperf3.results_to_json(got._replace(output=None, congestion=None))
        self.assertNotIn("congestion_used", plain)
        self.assertEqual(list(plain["streams"][0]), [
            "id", "bytes", "retransmits", "jitter", "errors", "omitted_errors", "packets",
            "omitted_packets", "start_time", "end_time"])

    def test_ids_of_streams(self):
        self.assertEqual(pyperf3.stream_ids(0), [])
        self.assertEqual(pyperf3.stream_ids(1), [1])
        self.assertEqual(pyperf3.stream_ids(2), [1, 3])
        self.assertEqual(pyperf3.stream_ids(5), [1, 3, 4, 5, 6])
        self.assertEqual(len(set(pyperf3.stream_ids(256))), 256)


class Hellos(unittest.TestCase):
    """The first datagram of a UDP stream, and its answer."""

    def test_values(self):
        self.assertEqual(pyperf3.HELLO, b"\x39\x38\x37\x36")
        self.assertEqual(pyperf3.HELLOS[pyperf3.HELLO], b"\x36\x37\x38\x39")

    def test_answers_of_all_versions_and_byte_orders(self):
        old = [(struct.pack(order + "I", 123456789), struct.pack(order + "I", 987654321))
               for order in "<>"]
        new = [(struct.pack(order + "I", 0x36373839), struct.pack(order + "I", 0x39383736))
               for order in "<>"]
        for hello, answer in old + new:
            with self.subTest(hello=hello):
                for kind in (bytes, bytearray, memoryview):
                    self.assertEqual(pyperf3.answer_to_hello(kind(hello), 1000, False), answer)
        self.assertEqual(sorted(pyperf3.HELLOS), sorted(hello for hello, _ in old + new))
        self.assertEqual(pyperf3.HELLO_REPLIES, set(answer for _, answer in old + new))

    def test_what_is_no_hello_has_no_answer(self):
        for data in (b"", b"9", b"987", b"98765", b"9876\0", b"0000", b"\0\0\0\0", b"6790",
                     b"\0" * 999, b"\0" * 1001, b"9876" * 25):
            with self.subTest(data=data[:8], size=len(data)):
                for wide in (False, True):
                    self.assertIsNone(pyperf3.answer_to_hello(data, 1000, wide))

    def test_a_datagram_with_the_number_zero_asks_again(self):
        for wide, layout in ((False, "!III"), (True, "!IIQ")):
            for number, answer in ((0, b"6789"), (1, None), (255, None), (2 ** 31, None)):
                with self.subTest(wide=wide, number=number):
                    data = struct.pack(layout, 2801, 545774, number).ljust(1000, b"\xff")
                    self.assertEqual(pyperf3.answer_to_hello(data, 1000, wide), answer)
        data = struct.pack("!IIQ", 1, 2, 2 ** 40).ljust(1000, b"\0")
        self.assertIsNone(pyperf3.answer_to_hello(data, 1000, True))

    def test_what_is_sent_again_looks_like_data_and_is_answered(self):
        for length in (16, 17, 1000, 65507):
            for wide in (False, True):
                with self.subTest(length=length, wide=wide):
                    data = pyperf3.repeated_hello(2801.5, length, wide)
                    self.assertIsInstance(data, bytes)
                    self.assertEqual(len(data), length)
                    layout = struct.Struct("!IIQ" if wide else "!III")
                    self.assertEqual(layout.unpack_from(data), (2801, 500000, 0))
                    self.assertEqual(data[layout.size:], b"\0" * (length - layout.size))
                    self.assertEqual(pyperf3.answer_to_hello(data, length, wide), b"6789")
                    self.assertIsNone(pyperf3.answer_to_hello(data, length + 1, wide))


class Headers(unittest.TestCase):
    """DatagramHeaders, against struct."""

    # Counters around which the borders lie: of 16 bits, 32 bits, and beyond.
    BORDERS = (1, 2 ** 16 - 1, 2 ** 16, 2 ** 16 + 1, 3 * 2 ** 16, 2 ** 31, 2 ** 32 - 1, 2 ** 32,
               2 ** 32 + 2 ** 16, 2 ** 48, 2 ** 62)

    @staticmethod
    def layout(wide):
        return struct.Struct("!IIQ" if wide else "!III")

    def packed(self, wide, spacing, rows):
        """Return memory with headers of (seconds, microseconds, counter) rows."""
        layout = self.layout(wide)
        mask = 2 ** 64 - 1 if wide else 2 ** 32 - 1
        return b"".join(layout.pack(second, micro, counter & mask).ljust(spacing, b"\xa5")
                        for second, micro, counter in rows)

    def shapes(self):
        """Yield (wide, spacing, the argument for it)."""
        for wide in (False, True):
            size = 16 if wide else 12
            for spacing in (size, 20, 64, 1400):
                yield wide, spacing, 0 if spacing == size else spacing

    def test_sizes(self):
        for wide, spacing, argument in self.shapes():
            headers = pyperf3.DatagramHeaders(bytearray(spacing * 7), wide, argument)
            self.assertEqual((headers.size, headers.limit), (16 if wide else 12, 7))

    def test_one_is_written_as_it_was_seen(self):
        memory = bytearray(16)
        pyperf3.DatagramHeaders(memory, True).write(1, 1, 2801 + 545774 / 1e6 + 1e-8)
        self.assertEqual(memory, b"\0\0\x0a\xf1\0\x08\x53\xee\0\0\0\0\0\0\0\x01")
        memory = bytearray(12)
        pyperf3.DatagramHeaders(memory, False).write(1, 1, 2804 + 528037 / 1e6 + 1e-8)
        self.assertEqual(memory, b"\0\0\x0a\xf4\0\x08\x0e\xa5\0\0\0\x01")

    def test_runs_that_are_written_over_every_border(self):
        written = 0
        for wide, spacing, argument in self.shapes():
            memory = bytearray(b"\xa5" * (spacing * 64))
            headers = pyperf3.DatagramHeaders(memory, wide, argument)
            for border in self.BORDERS:
                counter, second = max(1, border - 100), border % 1000
                while counter < border + 100:
                    count = min(headers.room(counter), 1 + counter % 64)
                    now = second + (counter % 1024) / 1024.0
                    headers.write(counter, count, now)
                    micro = int((counter % 1024) * 15625 // 16)
                    wanted = self.packed(wide, spacing, [
                        (second, micro, counter + at) for at in range(count)])
                    self.assertEqual(bytes(memory[:count * spacing]), wanted,
                                     (wide, spacing, counter, count))
                    counter += count
                    written += 1
        self.assertGreater(written, 500)

    def test_room_ends_where_the_low_bits_do(self):
        headers = pyperf3.DatagramHeaders(bytearray(12 * 64), False)
        for counter, room in ((0, 64), (1, 64), (65472, 64), (65473, 63), (65535, 1),
                              (65536, 64), (65537, 64), (2 ** 32 - 2, 2), (2 ** 32 - 1, 1),
                              (2 ** 32, 64)):
            self.assertEqual(headers.room(counter), room, counter)

    def test_a_counter_of_32_bits_begins_again(self):
        memory = bytearray(12 * 4)
        headers = pyperf3.DatagramHeaders(memory, False)
        for counter, wanted in ((2 ** 32 - 1, 0xffffffff), (2 ** 32, 0), (2 ** 32 + 1, 1)):
            headers.write(counter, 1, 5.0)
            self.assertEqual(struct.unpack_from("!III", memory), (5, 0, wanted))

    def test_times(self):
        memory = bytearray(16 * 3)
        headers = pyperf3.DatagramHeaders(memory, True)
        source = random.Random(5)
        times = [(0, 0), (0, 999999), (1, 0), (1, 1), (1, 999999), (2 ** 32 - 1, 999999),
                 (2801, 545774)]
        times += [(source.randrange(2 ** 22), source.randrange(10 ** 6)) for _ in range(2000)]
        for second, micro in times:
            headers.write(1, 3, second + (micro + 0.5) / 1e6)
            for at in range(3):
                self.assertEqual(struct.unpack_from("!IIQ", memory, at * 16),
                                 (second, micro, 1 + at))

    def test_microseconds_never_fill_a_second(self):
        memory = bytearray(12)
        headers = pyperf3.DatagramHeaders(memory, False)
        for second in (1, 2, 255, 4096, 2 ** 20, 2 ** 31):
            for distance in (2.0 ** -51, 2.0 ** -40, 2.0 ** -22, 1e-6, 1e-7):
                now = second - max(distance, second * 2.0 ** -52)
                headers.write(1, 1, now)
                got = struct.unpack("!III", memory)
                self.assertEqual(got[0], int(now))
                self.assertLessEqual(got[1], 999999)

    def test_seconds_beyond_32_bits_are_cut(self):
        memory = bytearray(12)
        pyperf3.DatagramHeaders(memory, False).write(1, 1, 2 ** 32 + 5.25)
        self.assertEqual(struct.unpack("!III", memory), (5, 250000, 1))

    def test_a_shorter_run_leaves_the_counters_behind_it(self):
        memory = bytearray(12 * 4)
        headers = pyperf3.DatagramHeaders(memory, False)
        headers.write(1, 4, 1.0)
        headers.write(5, 1, 2.0)
        self.assertEqual([struct.unpack_from("!III", memory, at * 12)[2] for at in range(4)],
                         [5, 2, 3, 4])

    def test_reading(self):
        source = random.Random(7)
        for wide in (False, True):
            size = 16 if wide else 12
            for spacing in (size, 17, 20, 1001, 1400):
                rows = [(source.randrange(2 ** 32), source.randrange(2 ** 32),
                         source.randrange(2 ** (64 if wide else 32))) for _ in range(9)]
                memory = self.packed(wide, spacing, rows)
                headers = pyperf3.DatagramHeaders(memory, wide, spacing)
                for count in (1, 2, 9, 3, 9):
                    self.assertEqual(headers.read(count), tuple(zip(*rows[:count])))

    def test_what_is_written_is_read(self):
        for wide, spacing, argument in self.shapes():
            headers = pyperf3.DatagramHeaders(bytearray(spacing * 8), wide, argument)
            headers.write(65530, 6, 7.5)
            self.assertEqual(headers.read(6), ((7,) * 6, (500000,) * 6,
                                               tuple(range(65530, 65536))))
            self.assertEqual(headers.read_pieces(6), (65530, 7, [((500000, 6),)]))

    def test_a_run_is_known_by_its_ends_and_low_bits(self):
        for wide, spacing, argument in self.shapes():
            for border in self.BORDERS[:None if wide else 6]:
                for count in (1, 2, 5):
                    rows = [[3, 77, border + at] for at in range(count)]
                    fits = border // 65536 == (border + count - 1) // 65536
                    memory = self.packed(wide, spacing, rows)
                    headers = pyperf3.DatagramHeaders(memory, wide, argument)
                    self.assertEqual(headers.read_pieces(count),
                                     (border, 3, [((77, count),)]) if fits else None)

    def test_runs_of_equal_stamps(self):
        source = random.Random(13)
        for _ in range(300):
            wide = source.random() < 0.5
            spacing = source.choice((16, 20, 64, 1400))
            runs, rows, micro = [], [], 0
            for _ in range(source.randrange(1, 8)):
                micro += source.randrange(1, 5)
                runs.append((micro, source.randrange(1, 6)))
                rows += [(9, micro, 700 + len(rows) + at) for at in range(runs[-1][1])]
            headers = pyperf3.DatagramHeaders(self.packed(wide, spacing, rows), wide, spacing)
            first, second, (found,) = headers.read_pieces(len(rows))
            self.assertEqual((first, second, list(found)), (700, 9, runs))

    def test_runs_of_several_pieces(self):
        for micros in ((5, 5, 5, 6, 6, 6, 6, 6, 6), (5, 5, 5, 5, 6, 6, 6, 7, 7)):
            rows = [(9, micro, 700 + at) for at, micro in enumerate(micros)]
            for wide, spacing in ((True, 16), (False, 12), (True, 100)):
                headers = pyperf3.DatagramHeaders(self.packed(wide, spacing, rows), wide, spacing)
                first, second, pieces = headers.read_pieces(3, 3)
                with self.subTest(micros=micros, spacing=spacing):
                    self.assertEqual((first, second), (700, 9))
                    self.assertEqual(
                        [[micro for micro, count in piece for _ in range(count)]
                         for piece in pieces], [list(micros[at:at + 3]) for at in (0, 3, 6)])

    def test_of_pieces_with_a_gap_between_them_nothing_is_taken(self):
        rows = [(9, 5, number) for number in (700, 701, 703, 704)]
        headers = pyperf3.DatagramHeaders(self.packed(True, 16, rows), True)
        self.assertIsNone(headers.read_pieces(2, 2))
        self.assertEqual(headers.read_pieces(2, 1), (700, 9, [((5, 2),)]))

    def test_stamps_that_are_not_in_order_are_no_runs(self):
        for micros in ((5, 6, 5, 6), (5, 6, 5, 7), (5, 5, 6, 5, 6), (5, 6, 7, 5, 6, 7)):
            rows = [(9, micro, 700 + at) for at, micro in enumerate(micros)]
            headers = pyperf3.DatagramHeaders(self.packed(True, 32, rows), True, 32)
            with self.subTest(micros=micros):
                self.assertIsNone(headers.read_pieces(len(rows)))

    def test_of_a_spacing_that_fits_no_words_there_are_no_runs(self):
        for wide, spacing in ((False, 13), (False, 1002), (True, 17), (True, 1401)):
            rows = [(9, 9, 700 + at) for at in range(4)]
            headers = pyperf3.DatagramHeaders(self.packed(wide, spacing, rows), wide, spacing)
            self.assertIsNone(headers.read_pieces(4))
            self.assertEqual(headers.read(4)[2], (700, 701, 702, 703))

    def test_a_run_with_a_fault_is_none(self):
        for wide, spacing, argument in self.shapes():
            for at in range(5):
                for column, value in ((0, 4), (2, 0), (2, 1000), (2, 1008),
                                      (2, 1001 + at + 2 ** 20), (2, 2 ** 31)):
                    if 0 < at < 4 and (column == 0 or value == 1001 + at + 2 ** 20):
                        continue  # only the ends are looked at so closely
                    rows = [[3, 77, 1001 + each] for each in range(5)]
                    rows[at][column] = value
                    headers = pyperf3.DatagramHeaders(self.packed(wide, spacing, rows), wide,
                                                      argument)
                    with self.subTest(wide=wide, spacing=spacing, at=at, column=column):
                        self.assertIsNone(headers.read_pieces(5))

    def test_of_a_run_in_shuffled_order_nothing_is_taken(self):
        source = random.Random(11)
        for _ in range(300):
            wide = source.random() < 0.5
            counters = list(range(500, 500 + source.randrange(2, 40)))
            shuffled = list(counters)
            source.shuffle(shuffled)
            memory = self.packed(wide, 32, [(1, 2, each) for each in shuffled])
            headers = pyperf3.DatagramHeaders(memory, wide, 32)
            self.assertEqual(headers.read_pieces(len(counters)),
                             (500, 1, [((2, len(counters)),)]) if shuffled == counters else None)


if __name__ == "__main__":
    unittest.main()
