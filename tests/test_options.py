"""The command line: what is accepted, refused, and said about it, as iperf3 3.22 does."""

import contextlib
import io
import ipaddress
import os
import re
import subprocess
import unittest

import captures
import pyperf3
import support

USAGE = ("\nUsage: iperf3 [-s|-c host] [options]\n"
         "Try `iperf3 --help' for more information.\n")
# Options of pyperf3 alone.
OWN = ("loopback", "ssh", "mesh", "ssh-command", "ssh-python", "ssh-address", "ssh-dial-back",
       "ssh-tunnel", "connect-only", "wait", "min-bitrate", "max-loss", "max-jitter",
       "max-retransmits", "max-rtt", "mtu", "min-mtu", "latency", "probe-rate", "probe-size",
       "probe-dscp", "max-latency", "min-rpm", "min-grade",
       "tls", "tls-ca", "tls-only", "tls-cert", "tls-key",
       "quic", "quic-iw", "quic-secrets", "max-clients", "allow", "verdict", "plot", "html",
       "csv", "csv-header", "prometheus", "repeat",
       "threads", "sendmmsg", "no-sendmmsg")
# Settings that no option sets: they are no text for a command line.
NO_OPTION = ("password", "passphrase", "far")

# Iperf3's shortest prefix of each long name.
SHORTEST = ("--po --form --in --da --on --verb --cl --bit --ba --server-b --server-m --by --bl"
            " --le --par --rev --bid --w --cp --set --no-d --to --ds --e --fl --z --om --fi"
            " --rep --times --af --tit --cong --li --sc --ns --x --pi --lo --forc --ge --udp-"
            " --no-f --do --sk --user --rsa-pu --rsa-pr --au --time- --use- --fq --pac --conn"
            " --id --rc --sn --cn --m --gs --de --h").split()

# Argument vectors that both refuse, with the same text.
REFUSED = (
    # getopt: unknown, missing, ambiguous, superfluous
    ["--nosuch"], ["--nosuch=3"], ["-q"], ["-q5"], ["-VVq"], ["-1sq"], ["-c"], ["-s", "-p"],
    ["-sp"], ["-Vc"], ["--port"], ["-s", "--po"], ["--ver"], ["--ver=4"], ["--vers"], ["--t"],
    ["--ti"], ["--s"], ["--se"], ["--j"], ["--js"], ["--json-"], ["--re"], ["--r"], ["--p"],
    ["--pa"], ["--b"], ["--bi"], ["--c"], ["--f"], ["--d"], ["--="], ["--=3"],
    ["--reverse=1"], ["--rev=1"], ["--json="], ["--server=yes"], ["--one-off=1"], ["---"],
    ["--\udcc3\udca9"], ["-c", "h", "--port", "--", "-q"],
    # what follows is the argument, also with a hyphen, and also nothing
    ["-c", "h", "-p", "-1"], ["-c", "h", "-p", ""], ["-c", "h", "-p="], ["-c", "h", "-p=5201"],
    ["-c", "h", "--port="], ["-c", "h", "--port=x"], ["-c", "h", "-p5201x", "-p0"],
    ["-c", "h", "-b", "-R"], ["-c", "h", "-p", "--"],
    # stray words, and the end of the options
    ["stray", "-c", "h", "word", "-t", "86401"], ["-", "-s", "-q"], ["-t", "5", "--", "-c", "h"],
    ["--", "-s"], ["word"], [""], ["-"], ["--"],
    # a bad value fails at once, a repetition does not mend it
    ["-c", "h", "-t", "86401", "-t", "5"], ["-c", "h", "-t", "5", "-t", "-1"],
    ["-c", "h", "-P4", "-P0"], ["-c", "h", "-P129"], ["-c", "h", "-O601"], ["-c", "h", "-O-1"],
    ["-c", "h", "-i0.05"], ["-c", "h", "-i61"], ["-c", "h", "-i-1"], ["-c", "h", "-M32768"],
    ["-c", "h", "-M-1"], ["-c", "h", "-w513M"], ["-c", "h", "-w-1"], ["-c", "h", "--cport=0"],
    ["-c", "h", "--cport", "65536"], ["-s", "-p65536"], ["-c", "h", "-p4294967296"],
    ["-c", "h", "-f", ""], ["-c", "h", "-fx"], ["-c", "h", "-fb"],
    ["-c", "h", "-S256"], ["-c", "h", "-S-1"], ["-c", "h", "-Sx"], ["-c", "h", "-S", "0x100"],
    ["-c", "h", "--dscp", "64"], ["-c", "h", "--dscp", "8x"], ["-c", "h", "--dscp", "cs8"],
    ["-c", "h", "--dscp", "af14"], ["-c", "h", "--dscp", ""], ["-c", "h", "--dscp", "-1"],
    # units
    ["-c", "h", "-n", "1 M"], ["-c", "h", "-n", "1b"], ["-c", "h", "-k", "K"],
    ["-c", "h", "-l", "x"], ["-c", "h", "-w", "1P"], ["-c", "h", "-b", "10Q/5"],
    ["-c", "h", "-b", ""], ["-c", "h", "-b", "/5"], ["-c", "h", "-b", "1M/"],
    ["-c", "h", "-b", "1M/0"], ["-c", "h", "-b", "1M/1001"], ["-c", "h", "-b", "1M/x"],
    ["-c", "h", "-b", "Q/0"], ["-c", "h", "--connect-timeout", "x"],
    ["-c", "h", "--bandwidth", "1X"], ["-c", "h", "--bytes=1X"],
    # roles
    ["-s", "-c", "h"], ["-c", "h", "-s"], ["-s", "-ch"], ["-c", "h", "--server"],
    ["-R", "--bidir", "-c", "h"], ["--bidir", "-R", "-c", "h"], ["-R", "--bidir"],
    ["-s", "-t", "5"], ["-s", "-R"], ["-s", "-b1M"], ["-s", "-P2"], ["-s", "-n1"], ["-s", "-Z"],
    ["-s", "--bidir"], ["-s", "-O1"], ["-s", "-Ttitle"], ["-s", "-C", "reno"], ["-s", "-N"],
    ["-s", "-w", "0"], ["-s", "-l", "0"], ["-s", "-M", "0"], ["-s", "-S", "0"], ["-s", "-k", "0"],
    ["-s", "--extra-data", "x"], ["-s", "--get-server-output"], ["-s", "--repeating-payload"],
    ["-s", "--skip-rx-copy"], ["-s", "--connect-timeout", "5"], ["-s", "--dscp", "ef"],
    ["-c", "h", "-1"], ["-c", "h", "--one-off"],
    # after the loop, in this order
    [], ["-t5"], ["-1"], ["-V"], ["-J"], ["-f", "m", "-J"], ["--json-stream"],
    ["-c", "h", "-1", "-t5", "-n1M"], ["-c", "h", "-l2M", "-t5", "-n1"], ["-l2M"],
    ["-t5", "-n1"], ["-l-1"], ["-c", "h", "-l", "1048577"], ["-c", "h", "-n1", "-k1"],
    ["-c", "h", "-t0", "-n1"], ["-c", "h", "-k1", "-t1"], ["-s", "-t5", "-l2M"],
    ["-c", "h", "-l", "2147483648"], ["-n0", "-t5"], ["-n", "1", "-k", "0"],
    ["-J", "-c", "h", "-t86401"], ["--json-stream", "-s", "-q"],
    # UDP: its block sizes, beyond TCP's largest with TCP's text
    ["-c", "h", "-u", "-l", "15"], ["-c", "h", "-u", "-l", "1"], ["-c", "h", "-l", "15", "-u"],
    ["-c", "h", "-u", "-l", "65508"], ["-c", "h", "-u", "-l", "0x10000"], ["-c", "h", "-ul15"],
    ["-c", "h", "-u", "-l", "1M"], ["-c", "h", "-u", "-l", "1048577"], ["-u", "-l", "2M"],
    # a file before the block size before the end conditions before the role
    ["-c", "h", "-u", "-F", "f"], ["-c", "h", "-F", "f", "-u", "-l", "15"],
    ["-c", "h", "-u", "-F", "f", "-l2M"], ["-c", "h", "-u", "-F", "f", "-t5", "-n1"],
    ["-c", "h", "-u", "-l", "15", "-t5", "-n1"], ["-c", "h", "-u", "-l2M", "-n1", "-k1"],
    ["-c", "h", "-u", "-t5", "-n1"], ["-u", "-F", "f"], ["-u", "-l", "15"], ["-u"], ["--gsro"],
    ["-u", "-l", "15", "-t5", "-n1"], ["-L5"], ["--udp-counters-64bit"], ["--dont-fragment"],
    # the sides come before all of that, what fails in the loop before the sides
    ["-s", "-u"], ["-s", "-u", "-F", "f"], ["-s", "-u", "-l", "15"], ["-s", "--gsro"],
    ["-s", "--gsro", "-l", "2M"], ["-s", "-L", "1"], ["-s", "--udp-counters-64bit"],
    ["-s", "--dont-fragment"], ["-c", "h", "-1", "-u", "-F", "f"], ["-s", "-u", "-L0"],
    ["-c", "h", "-u", "-1", "-l", "15"], ["-c", "h", "-1", "--gsro"], ["-u", "-P0", "-l", "15"],
    ["-u", "-R", "--bidir", "-l", "1"], ["-u", "-b", "1M/1001", "-F", "f"],
    # flow labels
    ["-c", "h", "-L", "0"], ["-c", "h", "-L", "-1"], ["-c", "h", "-L", "1048576"],
    ["-c", "h", "-L", "0x100000"], ["-c", "h", "-L", "x"], ["-c", "h", "-L", ""],
    ["-c", "h", "--flowlabel=04000000"], ["-L", "0", "-L", "1"], ["-c", "h", "-L"],
    # timeouts, limits of a server, keepalive, CPUs
    ["-c", "h", "-R", "--rcv-timeout", "99"], ["-s", "--rcv-timeout", "86400001"],
    ["-s", "--rcv-timeout", "x"], ["-c", "h", "--rcv-timeout", "500"], ["-s", "--rcv-timeout=-1"],
    ["-c", "h", "--snd-timeout", "-1"], ["-c", "h", "--snd-timeout", "86400001"],
    ["-s", "--idle-timeout", "0"], ["-s", "--idle-timeout", "86401"], ["-s", "--idle-timeout", ""],
    ["-c", "h", "--idle-timeout", "5"], ["-s", "--server-max-duration", "86401"],
    ["-s", "--server-max-duration=-1"], ["-c", "h", "--server-max-duration", "0"],
    ["-s", "--server-bitrate-limit", "10Q/5"], ["-s", "--server-bitrate-limit", "1M/0.05"],
    ["-s", "--server-bitrate-limit", "1M/61"], ["-s", "--server-bitrate-limit", "x"],
    ["-c", "h", "--server-bitrate-limit", "1M"], ["-s", "--cntl-ka=10/5/2"],
    ["-c", "h", "--cntl-ka=10/10/1"], ["-c", "h", "--cntl-ka", "5", "-q"],
    ["-c", "h", "-A", "-1"], ["-c", "h", "-A", "1025"], ["-c", "h", "-A", "x"],
    ["-s", "-A", "0,1"], ["-c", "h", "-A", "0,1025"], ["-s", "-A", "1,x"], ["-c", "h", "-A", ""],
    # options of the other side, also without a role
    ["-s", "--fq-rate", "1G"], ["-s", "--pacing-timer", "5"], ["-s", "--sctp"],
    ["-s", "--nstreams", "2"], ["-c", "h", "--fq-rate", "1X"], ["-c", "h", "--nstreams", "x"],
    ["-c", "h", "--pacing-timer", "-1"], ["-c", "h", "--pacing-timer", "3G"],
    ["-c", "h", "--pacing-timer", "x"], ["-c", "h", "-D"], ["-D"], ["-I", "f"], ["-d"], ["-m"],
    ["--sctp"], ["-A", "0"], ["--cntl-ka"], ["-c", "h", "-dD"], ["-s", "--debug=x", "-q"],
    # stamps
    ["--timestamps=x|", "-q"], ["--timestamps=x|", "-c", "h", "-t", "86401"],
    ["-c", "h", "-t", "86401", "--timestamps=x|"], ["--timestamps=x|", "-s", "-t", "5"],
    ["-s", "-t", "5", "--timestamps=x|"], ["--timestamps=x|"], ["--timestamps="],
    ["--timestamps=%%H ", "-1"],
    # who is there
    ["-s", "--username", "u"], ["-s", "--rsa-public-key-path", "k"], ["-c", "h", "--username", "u"],
    ["-c", "h", "--rsa-public-key-path", "k"], ["-c", "h", "--rsa-private-key-path", "k"],
    ["-c", "h", "--authorized-users-path", "f"], ["-c", "h", "--time-skew-threshold", "5"],
    ["-s", "--time-skew-threshold", "0"], ["-s", "--time-skew-threshold", "x"],
    ["-s", "--rsa-private-key-path", "k"], ["-s", "--authorized-users-path", "f"],
    ["-c", "h", "--username", "u", "-l", "2M"], ["-c", "h", "--username", "u", "-1"],
    ["-c", "h", "--username", "u", "--rcv-timeout", "500"], ["--username", "u"],
    ["-s", "--authorized-users-path", "f", "-F", "f", "-l", "0"],
    ["-s", "--rsa-private-key-path", "/nonexistent/key", "--authorized-users-path",
     "/nonexistent/users"],
    ["-c", "h", "--username", "u", "--authorized-users-path", "f"],
    ["-c", "h", "--authorized-users-path", "f", "--rcv-timeout", "500"],
    ["--udp=1"], ["--gsro=1"], ["--dont-fragment=x"], ["--udp-counters-64bit=1"],
    ["-c", "h", "--udp-c", "-q"], ["-c", "h", "-u", "-l", "4294967296", "-q"], ["--no"],
)


class Left:
    """What main() printed and returned."""

    def __init__(self, out, err, code):
        self.out, self.err, self.code = out, err, code


def run_main(words, environment=None):
    """Call main() in this process. Never give it arguments that are right."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", newline="")
               for _ in range(2)]
    before = dict(os.environ)
    os.environ.update(environment or {})
    try:
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            code = pyperf3.main(["iperf3"] + words)
    finally:
        os.environ.clear()
        os.environ.update(before)
    texts = []
    for stream in streams:
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "surrogateescape"))
    return Left(texts[0], texts[1], code)


def with_name(text):
    """Return text with `iperf3` for the program's name before getopt's messages."""
    return re.sub(r"\A\S+(?=: (?:option|unrecognized|invalid))", "iperf3", support.as_iperf3(text))


class Captured(unittest.TestCase):
    """The captured runs of one program alone."""

    def test_errors_in_the_arguments(self):
        compared = 0
        for case in captures.cases():
            if not case.about_arguments and case.name != "err-logfile-open":
                continue
            if case.name == "version":
                continue
            with self.subTest(case=case.name):
                left = support.run(support.OURS + tuple(case.commands["client"].words))
                compared += 1
                self.assertEqual(left.out, case.out("client"))
                self.assertEqual(with_name(left.err), case.err("client"))
                self.assertEqual(left.code, case.status("client"))
        self.assertEqual(compared, 30)

    def test_errors_of_a_program_alone(self):
        """No peer is needed for a refused connection or an address that is not here."""
        compared = 0
        for case in captures.cases():
            if not re.match("err-(refused|bind)", case.name):
                continue
            words = list(case.commands["client"].words)
            words[words.index("-p") + 1] = str(support.free_port())
            with self.subTest(case=case.name):
                left = support.run(support.OURS + tuple(words))
                compared += 1
                out = left.out.replace(pyperf3.VERSION_TEXT, "iperf 3.22").replace(
                    pyperf3.system_info(), "Linux HOST KERNEL x86_64")
                self.assertEqual(out, case.out("client"))
                self.assertEqual(with_name(left.err), case.err("client"))
                self.assertEqual(left.code, case.status("client"))
        self.assertEqual(compared, 7)

    def test_a_name_that_does_not_resolve(self):
        left = support.run(support.OURS + ("-c", "nonexistent.invalid"))
        self.assertTrue(left.err.startswith(
            "iperf3: error - unable to connect to server - server may have stopped running or use"
            " a different port, firewall issue, etc.: "), left)
        self.assertEqual((left.out, left.code, left.err.count("\n")), ("", 1, 1))

    def test_names_that_are_none_are_the_system_s_to_judge(self):
        """Python's codec was named: "encoding with 'idna' codec failed"."""
        posix = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        for name, locale in ((b"m\xc3\xbcller.invalid", posix), (b"m\xfcller.invalid", posix),
                             (b"m\xc3\xbcller.invalid", {"LC_ALL": "C.UTF-8"}), (b"a..b", {})):
            for words in (("-c", name), ("-s", "-B", name), ("-c", "127.0.0.1", "-B", name)):
                with self.subTest(words=words, locale=locale):
                    process = subprocess.Popen(
                        support.OURS + ("-p", str(support.free_port())) + words,
                        env=support.environment(**locale), stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE)
                    err = process.communicate(timeout=support.LIMIT)[1]
                    self.assertEqual(process.returncode, 1)
                    self.assertNotIn(b"codec", err)
                    self.assertRegex(
                        err, rb"\Aiperf3: error - unable to [^\n]+: [A-Z][a-z ]+ \([^\n]+\)\n")

    def compare(self, words, **more):
        """Run both; returns what was printed on standard error."""
        real = support.run(support.real("3.22") + tuple(words), env=support.environment(**more))
        ours = run_main(words, more)
        self.assertEqual(with_name(ours.err), with_name(real.err), words)
        self.assertEqual((ours.out, ours.code), (real.out, real.code), words)
        self.assertEqual(ours.code, 1)
        return ours.err

    def test_text_and_status_are_those_of_iperf3(self):
        self.assertGreater(len(REFUSED), 150)
        for words in REFUSED:
            with self.subTest(words=words):
                text = self.compare(words)
                self.assertTrue(text.endswith(USAGE))

    def test_posixly_correct_ends_the_options_at_the_first_word(self):
        for words in (["word", "-c", "h"], ["-c", "h", "-t", "86401", "word"],
                      ["-V", "word", "--nosuch"], ["-", "-q"], ["-c", "h", "-P0"], ["word"],
                      ["--", "-q"], ["-t", "5", "", "-q"]):
            with self.subTest(words=words):
                self.compare(words, POSIXLY_CORRECT="1")

    def test_shortest_prefixes(self):
        """A prefix of the list is taken for one option; without its last letter it is not."""
        self.assertEqual(len(set(SHORTEST)), 62)
        for word in SHORTEST:
            with self.subTest(word=word):
                left = run_main([word + "=x"] if self.takes(word) else [word, "-q"])
                self.assertNotIn("ambiguous", left.err)
                self.assertNotIn("unrecognized", left.err)
        names = ["--" + name for option in pyperf3.OPTIONS for name in option.long_names]
        words = [word for word in sorted(set(word[:-1] for word in SHORTEST))
                 if len(word) > 2 and word not in names]
        self.assertEqual(len(words), 26)
        for word in words:
            with self.subTest(word=word):
                text = self.compare([word])
                self.assertTrue(text.startswith("iperf3: option '%s' is" % word), text)

    def test_a_file_of_rows_is_named_with_or_without_a_sign_between(self):
        """`--csv rows.csv` printed rows, and wrote none."""
        for words, path in ((["--csv"], "-"), (["--csv=a"], "a"), (["--csv", "a"], "a"),
                            (["--csv", "-t", "1"], "-"), (["--csv=-"], "-"),
                            (["--csv="], "")):
            settings = pyperf3.Settings.from_arguments(["-c", "h"] + words)
            self.assertEqual(settings.csv, path, words)

    def test_repeat_is_the_short_form_of_iperf3s_unless_a_number_follows(self):
        for words, repeat, payload in (
                (["--repeat"], None, True), (["--repeat", "-t", "5"], None, True),
                (["--repeat", "word"], None, True), (["--repeating"], None, True),
                (["--rep"], None, True), (["--repeat", "5"], (5, 0.0), False),
                (["--repeat=0/300"], (0, 300.0), False)):
            with self.subTest(words=words):
                settings = pyperf3.Settings.from_arguments(["-c", "h"] + words)
                self.assertEqual((settings.repeat, settings.repeating_payload), (repeat, payload))
        with self.assertRaises(pyperf3.IperfError):
            pyperf3.Settings.from_arguments(["-c", "h", "--repeat", "5x"])

    def takes(self, word):
        """Return whether the one option that this is a prefix of takes an argument."""
        found = [option for option in pyperf3.OPTIONS for name in option.long_names
                 if ("--" + name).startswith(word) and name not in OWN]
        self.assertEqual(len(set(option.dest for option in found)), 1, word)
        return found[0].read is not None and found[0].optional is None

    def test_name_before_the_colon_is_the_word_the_program_was_started_by(self):
        streams = io.TextIOWrapper(io.BytesIO(), "utf-8")
        with contextlib.redirect_stderr(streams):
            pyperf3.main(["/some/where/perf", "-q"])
            pyperf3.main(["/some/where/perf", "-t", "86401"])
        streams.flush()
        lines = streams.buffer.getvalue().decode("ascii").split("\n")
        self.assertEqual(lines[0], "/some/where/perf: invalid option -- 'q'")
        self.assertTrue(lines[4].startswith("iperf3: parameter error - test duration"), lines)

    def test_a_time_that_is_a_word_is_refused(self):
        # differs: iperf3 reads it as 0, which is a test without end.
        left = run_main(["-c", "h", "-t", "abc"])
        self.assertEqual(left.err, "iperf3: parameter error - invalid unit value or suffix: 'abc'"
                                   "\n" + USAGE)

    def test_arguments_that_are_no_text(self):
        """Bytes that are no UTF-8 arrive undecoded, and go out as they came."""
        left = run_main([b"--\xff\xfe".decode("utf-8", "surrogateescape")])
        self.assertEqual(left.err, "iperf3: unrecognized option '--\udcff\udcfe'\n" + USAGE)

    def test_absurdly_long_numbers_are_no_traceback(self):
        for words in (["-c", "h", "-p", "9" * 5000], ["-c", "h", "-S", "9" * 5000],
                      ["-c", "h", "-n", "9" * 5000], ["-c", "h", "-n", "0x" + "f" * 400],
                      ["-c", "h", "-i", "9" * 5000]):
            with self.subTest(words=words[2] + words[3][:5]):
                left = run_main(words)
                self.assertTrue(left.err.startswith("iperf3: parameter error - "), left.err)
                self.assertEqual(left.code, 1)

    def test_every_option_has_a_name_that_is_typed(self):
        for option in pyperf3.OPTIONS:
            with self.subTest(option=option.dest):
                self.assertEqual(bool(option.names), option.dest not in NO_OPTION)
        for word in ("--pass", "--password", "--passphrase=x"):
            self.assertTrue(run_main([word]).err.startswith(
                "iperf3: unrecognized option '%s'" % word))

    def test_own_options_do_not_shorten_those_of_iperf3(self):
        for words in (["--lo"], ["--l"], ["--th"], ["--t"], ["--se"], ["--s"], ["--sen"],
                      ["--no-"], ["--n"], ["--w"]):
            with self.subTest(words=words):
                if words in (["--th"], ["--sen"]):  # iperf3 has none that begins so
                    with self.assertRaises(pyperf3.IperfError):
                        pyperf3.Settings.from_arguments(words)
                else:
                    self.compare(words)


    def test_a_negative_block_of_udp_is_refused(self):
        # differs: iperf3 lets it pass, and the test fails later.
        for length in ("-1", "-5", "2147483648"):
            with self.subTest(length=length):
                left = run_main(["-c", "h", "-u", "-l", length])
                self.assertEqual(left.err, "iperf3: parameter error - block size invalid (minimum"
                                           " = 16 bytes, maximum = 65507 bytes)\n" + USAGE)

    def test_batches_are_the_clients_alone(self):
        """--sendmmsg is what another program's clients are given."""
        for words in (["-s", "--sendmmsg"], ["--sendmmsg", "-s", "-1"], ["-s", "--sen", "-u"]):
            with self.subTest(words=words):
                left = run_main(words)
                self.assertRegex(
                    left.err, "^iperf3: parameter error - some option you are trying to set is"
                    r" client only \(--sendmmsg(, -u/--udp)?\)\n")

    def test_own_switches_take_no_argument(self):
        for name in ("loopback", "connect-only", "tls", "tls-only", "threads", "sendmmsg",
                     "no-sendmmsg"):
            with self.subTest(name=name):
                left = run_main(["--%s=1" % name])
                self.assertEqual(with_name(left.err), "iperf3: option '--%s' doesn't allow an"
                                                      " argument\n%s" % (name, USAGE))


class Accepted(unittest.TestCase):
    """What arguments mean."""

    def parsed(self, line, **more):
        return pyperf3.Settings.from_arguments(line.split(), **more)

    def test_values(self):
        for line, name, value in (
                ("", "port", 5201), ("", "interval", 1.0), ("", "parallel", 1),
                ("", "bitrate", None), ("", "one_off", False), ("", "length", 0),
                ("-p 5", "port", 5), ("-p5", "port", 5), ("--port=5", "port", 5),
                ("--port 5", "port", 5), ("--po 5", "port", 5), ("-p 5x", "port", 5),
                ("-t=5", "time", 0), ("-t 5", "time", 5), ("-t 5.9", "time", 5),
                ("-b 10M", "bitrate", (10000000, 0)), ("-b 1K/5", "bitrate", (1000, 5)),
                ("-b 1.5M", "bitrate", (1500000, 0)), ("-b -1", "bitrate", (2 ** 64 - 1, 0)),
                ("--bandwidth 5", "bitrate", (5, 0)), ("--ba 5", "bitrate", (5, 0)),
                ("-n 1K", "bytes", 1024), ("-n -1", "bytes", 2 ** 64 - 1),
                ("-k 2K", "blocks", 2048), ("-l 0x10", "length", 16), ("-l 8K", "length", 8192),
                ("-l 4294967312", "length", 16), ("-w 1e3", "window", 1000),
                ("-i 0", "interval", 0.0), ("-i .1", "interval", 0.1), ("-i 60", "interval", 60),
                ("-i 0.7x", "interval", 0.7), ("-f Mx", "format", "M"), ("-f k", "format", "k"),
                ("-S 0x20", "tos", 32), ("-S 010", "tos", 8), ("-S 8x", "tos", 8),
                ("--dscp 63", "tos", 252), ("--dscp 8", "tos", 32),
                ("--dscp 0x08", "tos", 32), ("--dscp 010", "tos", 32),
                ("--dscp EF", "tos", 0xb8), ("--dscp af43", "tos", 0x98),
                ("--dscp cs0", "tos", 0), ("--dscp CS7", "tos", 0xe0),
                ("--dscp va", "tos", 0xb0), ("--dscp lowdelay", "tos", 0x10),
                ("--dscp throughput", "tos", 8), ("--dscp reliability", "tos", 4),
                ("-S 4 --dscp 1", "tos", 4), ("--dscp 1 -S 8", "tos", 8),
                ("-P 128", "parallel", 128), ("-O 600", "omit", 600), ("-M 32767", "mss", 32767),
                ("-T x", "title", "x"), ("-T -R", "title", "-R"), ("-C reno", "congestion", "reno"),
                ("--linux-congestion x", "congestion", "x"), ("--extra-data=", "extra_data", ""),
                ("--extra-data a=b", "extra_data", "a=b"), ("-N", "no_delay", True),
                ("-RVJ", "reverse", True), ("-RVJ", "verbose", True), ("-RVJ", "json", True),
                ("-VP4", "parallel", 4), ("--bidir", "bidirectional", True),
                ("-B h", "bind", "h"), ("-B h%eth0", "bind", "h"),
                ("-B h%eth0", "bind_dev", "eth0"),
                ("-B fe80::1%eth0", "bind", "fe80::1%eth0"), ("-B fe80::1%eth0", "bind_dev", None),
                ("-4", "version4", True), ("-4 -6", "version4", False), ("-64", "version6", False),
                ("--connect-timeout 1K", "connect_timeout", 1024), ("-Z", "zerocopy", True),
                ("-p 1 -p 2", "port", 2), ("word -p 2 word", "port", 2),
                ("-p 2 -- -p 3", "port", 2),
                ("--forceflush --cport 7", "cport", 7), ("--get-server-output", "omit", 0),
                ("", "udp", False), ("-u", "udp", True), ("--udp", "udp", True),
                ("-u", "bitrate", None), ("-u -b 0", "bitrate", (0, 0)), ("-u", "length", 0),
                ("-u -l 0", "length", 0), ("-u -l 16", "length", 16),
                ("-u -l 65507", "length", 65507), ("-l 15", "length", 15),
                ("-l 65508", "length", 65508), ("-u -l 4294967312", "length", 16),
                ("", "flowlabel", 0), ("-L 1", "flowlabel", 1), ("-L5x", "flowlabel", 5),
                ("-L 1048575", "flowlabel", 1048575), ("-L 0xFfFfF", "flowlabel", 1048575),
                ("--fl 010", "flowlabel", 8), ("-L 1 -L 2", "flowlabel", 2),
                ("--udp-c", "udp_counters_64bit", True), ("-u", "udp_counters_64bit", False),
                ("--do", "dont_fragment", True), ("--gs", "gsro", True), ("-u", "gsro", False),
                ("--sendmmsg", "sendmmsg", True), ("--sendmmsg", "no_sendmmsg", False),
                ("--no-sendmmsg", "no_sendmmsg", True), ("--no-s", "no_sendmmsg", True),
                ("", "timestamps", None), ("--timestamps", "timestamps", "%c "),
                ("--timestamps=%H|", "timestamps", "%H|"), ("--times=", "timestamps", ""),
                ("--timestamps %H:%M", "timestamps", "%H:%M"),
                ("--timestamps word", "timestamps", "%c "), ("--timestamps -V", "verbose", True),
                ("", "debug", 0), ("-d", "debug", 4), ("--debug", "debug", 4),
                ("--debug=2", "debug", 2), ("--debug=-1", "debug", 4), ("--debug=abc", "debug", 0),
                ("--debug=9", "debug", 9), ("-d 2", "debug", 2), ("--debug 2", "debug", 2),
                ("-d2", "debug", 2), ("-Vd", "debug", 4), ("-dV", "verbose", True),
                ("-d -V", "debug", 4), ("-d word", "debug", 4), ("-d2 -V", "verbose", True),
                ("", "cntl_ka", None), ("--cntl-ka", "cntl_ka", (0, 0, 0)),
                ("--cntl-ka=", "cntl_ka", (0, 0, 0)), ("--cntl-ka=5", "cntl_ka", (5, 0, 0)),
                ("--cntl-ka=100/10/3", "cntl_ka", (100, 10, 3)),
                ("--cntl-ka=/10", "cntl_ka", (0, 10, 0)), ("--cntl-ka=//3", "cntl_ka", (0, 0, 3)),
                ("--cntl-ka=/10/3/x", "cntl_ka", (0, 10, 3)),
                ("--cntl-ka 5", "cntl_ka", (0, 0, 0)), ("--cn=9/2/4", "cntl_ka", (9, 2, 4)),
                ("", "affinity", None), ("-A 0", "affinity", (0, None)),
                ("-A 0x3,4", "affinity", (3, 4)), ("-A1024,1024", "affinity", (1024, 1024)),
                ("-A 1,", "affinity", (1, 0)), ("-A 1,x", "affinity", (1, 0)),
                ("--fq-rate 1.5M", "fq_rate", 1500000), ("--fq-rate 1K", "fq_rate", 1000),
                ("--fq-rate 1M --no-fq-socket-pacing", "fq_rate", 0),
                ("--pacing-timer 1K", "pacing_timer", 1024), ("", "pacing_timer", None),
                ("--snd-timeout 500", "snd_timeout", 500), ("--snd-timeout 0", "snd_timeout", 0),
                ("-R --rcv-timeout 100", "rcv_timeout", 100), ("", "rcv_timeout", None),
                ("--bidir --rcv-timeout 86400000", "rcv_timeout", 86400000),
                ("-m", "mptcp", True), ("-u -m", "udp", False), ("-m -u", "udp", True),
                ("--sctp", "sctp", True), ("-u --sctp", "udp", False), ("--sctp -u", "sctp", False),
                ("-X one -X two", "xbind", ("one", "two")), ("", "xbind", ()),
                ("-I file", "pidfile", "file"), ("--logfile=f", "logfile", "f"),
                ("--forceflush", "forceflush", True), ("--connect-only", "connect_only", True),
                ("--connect-o", "connect_only", True), ("--conn 5", "connect_timeout", 5),
                ("--username u --rsa-public-key-path k", "username", "u"),
                ("--user u --rsa-pu k", "rsa_public_key_path", "k")):
            with self.subTest(line=line):
                settings = self.parsed("-c h " + line)
                self.assertEqual(getattr(settings, name), value)
                self.assertEqual((settings.client, settings.server), ("h", False))

    def test_values_of_a_server(self):
        for line, name, value in (
                ("", "daemon", False), ("-D", "daemon", True), ("-1D", "daemon", True),
                ("--idle-timeout 1", "idle_timeout", 1), ("", "idle_timeout", 0),
                ("--idle-timeout 86400", "idle_timeout", 86400),
                ("", "server_bitrate_limit", None),
                ("--server-bitrate-limit 1M", "server_bitrate_limit", (10 ** 6, 5.0)),
                ("--server-b 1.5K/0.1", "server_bitrate_limit", (1500, 0.1)),
                ("--server-b 1G/60", "server_bitrate_limit", (10 ** 9, 60.0)),
                ("--server-b 1G/0", "server_bitrate_limit", (10 ** 9, 5.0)),
                ("--server-b 0", "server_bitrate_limit", (0, 5.0)),
                ("", "server_max_duration", 0), ("--server-m 86400", "server_max_duration", 86400),
                ("", "time_skew_threshold", 10), ("--time- 5", "time_skew_threshold", 5),
                ("--use-pkcs1-padding", "use_pkcs1_padding", True),
                ("--rsa-pr k --au u", "authorized_users_path", "u"),
                ("--rcv-timeout 100", "rcv_timeout", 100), ("-A 1", "affinity", (1, None)),
                ("-m", "mptcp", True), ("-X h", "xbind", ("h",)), ("-d", "debug", 4),
                ("--timestamps", "timestamps", "%c "), ("--cntl-ka=1", "cntl_ka", (1, 0, 0))):
            with self.subTest(line=line):
                settings = self.parsed("-s " + line)
                self.assertEqual(getattr(settings, name), value)

    def test_a_number_of_streams_is_no_bitrate(self):
        # differs: iperf3 reads --nstreams N as -b N, too.
        settings = self.parsed("-c h --sctp --nstreams 2")
        self.assertEqual((settings.nstreams, settings.bitrate), (2, None))

    def test_roles(self):
        self.assertTrue(self.parsed("-s").server)
        self.assertTrue(self.parsed("-s1V").one_off)
        self.assertEqual(self.parsed("-ch").client, "h")
        self.assertEqual(self.parsed("-c h%eth1").bind_dev, "eth1")
        self.assertEqual(self.parsed("-c fe80::1%2").client, "fe80::1%2")
        self.assertTrue(self.parsed("--loopback").loopback)
        self.assertEqual(self.parsed("-c one -c two").client, "two")

    def test_the_loopback_is_a_client_of_its_own(self):
        for line in ("--loopback -s", "-s --loopback"):
            with self.subTest(line=line), self.assertRaises(pyperf3.IperfError) as caught:
                self.parsed(line)
            self.assertEqual(caught.exception.number, 1)
        with self.assertRaises(pyperf3.IperfError) as caught:
            self.parsed("--loopback -1")
        self.assertEqual(caught.exception.number, 3)

    def test_options_that_both_sides_have(self):
        line = "-s -p 5 -f m -i 2 -V -J -B h --bind-dev d -6 -F f --cport 9 --forceflush"
        self.assertEqual(self.parsed(line).file, "f")
        for role in ("-s", "-c h", "-c h -u"):
            self.assertIs(self.parsed(role + " --no-sendmmsg --threads").no_sendmmsg, True)

    def test_posixly_correct(self):
        settings = self.parsed("-c h word -p 5", posixly_correct=True)
        self.assertEqual(settings.port, 5201)
        self.assertEqual(self.parsed("-c h word -p 5").port, 5)

    def test_version_and_help_act_at_once(self):
        self.assertTrue(self.parsed("-v -q").version)
        self.assertTrue(self.parsed("-h -c h -s").help)
        self.assertTrue(self.parsed("--h --nosuch").help)
        self.assertTrue(self.parsed("-t 5 -n 1 --version").version)
        with self.assertRaises(pyperf3.UsageError):
            self.parsed("-q -v")

    def test_order_of_names_is_that_of_iperf3(self):
        names = [name for option in pyperf3.OPTIONS for name in option.long_names]
        self.assertEqual(names, (
            "port format interval daemon one-off verbose json json-stream"
            " json-stream-full-output version server client udp bitrate bandwidth"
            " server-bitrate-limit server-max-duration time bytes blockcount length parallel"
            " reverse bidir window bind bind-dev cport set-mss no-delay version4 version6 tos"
            " dscp extra-data flowlabel zerocopy omit file repeating-payload timestamps affinity"
            " title congestion linux-congestion sctp nstreams xbind pidfile logfile forceflush"
            " get-server-output udp-counters-64bit no-fq-socket-pacing dont-fragment"
            " skip-rx-copy username rsa-public-key-path rsa-private-key-path"
            " authorized-users-path time-skew-threshold use-pkcs1-padding fq-rate pacing-timer"
            " connect-timeout idle-timeout rcv-timeout snd-timeout cntl-ka mptcp gsro debug help"
            " loopback ssh mesh ssh-command ssh-python ssh-address ssh-dial-back ssh-tunnel"
            " connect-only wait min-bitrate max-loss max-jitter max-retransmits max-rtt"
            " mtu min-mtu latency probe-rate probe-size probe-dscp max-latency min-rpm min-grade"
            " tls tls-ca tls-only tls-cert tls-key quic quic-iw"
            " quic-secrets max-clients allow diagnose verdict plot html csv csv-header"
            " prometheus repeat threads"
            " sendmmsg no-sendmmsg").split())

    def test_warnings(self):
        for line, texts in (
                ("-c h -J -V", ["Verbose output (-v) may interfere with JSON output (-J)"]),
                ("-c h --json-stream -f m",
                 ["Report format (-f) flag ignored with JSON output (-J)"]),
                ("-s -J -f m -V", ["Report format (-f) flag ignored with JSON output (-J)",
                                   "Verbose output (-v) may interfere with JSON output (-J)"]),
                ("-s -J -d", ["Debug output (-d) may interfere with JSON output (-J)"]),
                ("-c h -d -V -J -f k", ["Report format (-f) flag ignored with JSON output (-J)",
                                        "Verbose output (-v) may interfere with JSON output (-J)",
                                        "Debug output (-d) may interfere with JSON output (-J)"]),
                ("-s -f m -V -d", []), ("-s -J", []), ("-s", [])):
            with self.subTest(line=line):
                self.assertEqual(self.parsed(line).warnings(), texts)


class AsModule(unittest.TestCase):
    """Settings made by a program."""

    def refused(self, number, **values):
        with self.assertRaises(pyperf3.IperfError) as caught:
            pyperf3.Settings(**values)
        self.assertEqual(caught.exception.number, number)

    def test_names_are_the_long_options(self):
        settings = pyperf3.Settings(
            client="192.0.2.1", reverse=True, time=5, parallel=2, interval=0.5, bytes=0,
            length="8K", mss=1400, no_delay=True, omit=1, title="t", bind="192.0.2.2")
        self.assertEqual(settings.client, "192.0.2.1")
        self.assertIs(settings.reverse, True)
        self.assertEqual((settings.time, settings.parallel, settings.interval), (5, 2, 0.5))
        self.assertEqual((settings.length, settings.mss, settings.omit), (8192, 1400, 1))
        self.assertTrue(settings.timed)
        self.assertEqual(settings.port, 5201)

    def test_every_option_can_be_given_by_its_name(self):
        samples = {"format": "m", "interval": 2.0, "client": "h", "bind": "h", "file": "f",
                   "bind_dev": "d", "title": "t", "extra_data": "x", "congestion": "reno",
                   "timestamps": "%H ", "pidfile": "p", "logfile": "l", "username": "u",
                   "rsa_public_key_path": "k", "rsa_private_key_path": "k",
                   "authorized_users_path": "u", "password": "p", "passphrase": "p",
                   "rcv_timeout": 700, "tls_ca": "a", "tls_cert": "c", "tls_key": "k",
                   "allow": "192.0.2.0/24", "quic_secrets": "s", "max_rtt": "7ms",
                   "max_jitter": "7ms", "max_latency": "7ms:p50", "probe_size": 700,
                   "min_grade": "b", "ssh": "b", "mesh": "b,c", "ssh_command": "c",
                   "ssh_python": "p", "ssh_address": "a", "html": "r", "csv": "r",
                   "prometheus": "r"}
        read = {"bitrate": (7, 0), "server_bitrate_limit": (7, 5.0), "affinity": (7, None),
                "xbind": ("7",), "cntl_ka": (7, 0, 0), "min_bitrate": ((7, None),),
                "max_retransmits": (7, "segments"), "max_rtt": 7.0, "max_jitter": 7.0,
                "max_latency": (7.0, 50), "min_grade": "B", "probe_dscp": (28,),
                "allow": (ipaddress.ip_network("192.0.2.0/24"),), "ssh": ("b",),
                "mesh": ("b", "c"), "repeat": (7, 0.0)}
        pairs = {"username": "rsa_public_key_path", "rsa_private_key_path": "authorized_users_path"}
        pairs.update((other, name) for name, other in list(pairs.items()))
        given = 0
        for option in pyperf3.OPTIONS:
            role = {"server": True} if option.side == "S" else {"client": "h"}
            if option.dest in ("client", "server", "loopback", "ssh", "mesh"):
                role = {}
            elif option.dest.startswith("ssh_"):
                role = {"ssh": "h"}
            value = True if option.read is None else samples.get(option.dest, 7)
            if option.dest in ("help", "version"):
                continue
            with self.subTest(name=option.dest):
                if option.dest in pairs:
                    role[pairs[option.dest]] = "other"
                needed = {"rcv_timeout": "reverse", "tls_key": "tls_cert", "quic_iw": "quic",
                          "quic_secrets": "quic", "csv_header": "csv"}.get(option.dest)
                if needed:
                    role[needed] = samples.get(needed, True)
                wanted = read.get(option.dest, value)
                for name in [option.dest] + [each.replace("-", "_") for each in option.long_names]:
                    if name == "dscp":
                        continue
                    settings = pyperf3.Settings(**dict(role, **{name: value}))
                    self.assertEqual(getattr(settings, option.dest), wanted, name)
                    self.assertIn(option.dest, settings.explicit)
                given += 1
        self.assertGreater(given, 65)

    def test_hosts_of_a_mesh_as_a_list(self):
        for hosts in ("a,b", ("a", "b"), ["a", "b"]):
            self.assertEqual(pyperf3.Settings(mesh=hosts).mesh, ("a", "b"))
        with self.assertRaises(pyperf3.IperfError):
            pyperf3.Settings(mesh=("a",))

    def test_repeat(self):
        self.assertEqual(pyperf3.Settings(client="h", repeat="0/300").repeat, (0, 300.0))
        self.assertEqual(pyperf3.Settings(client="h", repeat="3/0.5").repeat, (3, 0.5))
        for text in ("", "x", "-1", "1/", "1/x", "1/-1", "1/1e9", "1/nan", "1/2/3", "1.5", "9" * 10,
                     "\u0663", "\u00b2"):
            with self.subTest(text=text), self.assertRaises(pyperf3.IperfError) as caught:
                pyperf3.Settings(client="h", repeat=text)
            self.assertEqual(caught.exception.number, 934)

    def test_type_of_service_is_a_byte_and_no_dscp(self):
        """Two options set it; the name is that of the first."""
        self.assertEqual(pyperf3.Settings(client="h", tos=184).tos, 184)
        self.assertEqual(pyperf3.Settings(client="h", tos=32).tos, 32)
        self.assertEqual(pyperf3.Settings(client="h", tos="0x20").tos, 32)
        self.assertEqual(pyperf3.Settings(client="h", dscp=46).tos, 184)
        self.assertEqual(pyperf3.Settings(client="h", dscp="af11").tos, 40)

    def test_true_and_false_switch_what_needs_no_argument(self):
        """Timestamps=False put the word False before every line."""
        settings = pyperf3.Settings(client="h", debug=True, timestamps=True, bidir=1)
        self.assertEqual((settings.debug, settings.timestamps, settings.bidirectional),
                         (4, "%c ", True))
        settings = pyperf3.Settings(client="h", debug=False, timestamps=False, bidir=0)
        self.assertEqual((settings.debug, settings.timestamps, settings.bidirectional),
                         (0, None, False))

    def test_values_may_be_texts(self):
        settings = pyperf3.Settings(client="h", bitrate="10M/5", bytes="1K", window="1.5M")
        self.assertEqual(settings.bitrate, (10000000, 5))
        self.assertEqual((settings.bytes, settings.window), (1024, 1572864))
        self.assertEqual(pyperf3.Settings(client="h", bitrate=10 ** 9).bitrate, (10 ** 9, 0))
        self.assertEqual(pyperf3.Settings(client="h", bitrate=1e9).bitrate, (10 ** 9, 0))
        self.assertEqual(pyperf3.Settings(client="h", bytes=2 ** 53 + 1).bytes // 2, 2 ** 52)

    def test_false_and_none_leave_an_option_out(self):
        settings = pyperf3.Settings(client="h", reverse=False, bidirectional=True, title=None,
                                    time=None, server=False, one_off=False)
        self.assertIs(settings.reverse, False)
        self.assertIsNone(settings.title)
        self.assertFalse(settings.timed)

    def test_unknown_names_are_type_errors(self):
        for name in ("nosuch", "set-mss", "P", "one off", "explicit", "timed"):
            with self.subTest(name=name), self.assertRaises(TypeError) as caught:
                pyperf3.Settings(client="h", **{name: 1})
            self.assertIn(name, str(caught.exception))

    def test_numbers_of_what_is_refused(self):
        self.refused(1, server=True, client="h")
        self.refused(2, port=5201)
        self.refused(3, client="h", one_off=True)
        self.refused(4, server=True, time=5)
        self.refused(5, client="h", time=86401)
        self.refused(6, client="h", parallel=0)
        self.refused(7, client="h", length="2M")
        self.refused(8, client="h", window=2 ** 30)
        self.refused(9, client="h", interval=0.05)
        self.refused(10, client="h", mss=40000)
        self.refused(12, client="h", omit=601)
        self.refused(0, client="h", pacing_timer=2 ** 31)
        self.refused(3, client="h", daemon=True)
        self.refused(4, server=True, affinity="0,1")
        self.refused(5, server=True, server_max_duration=86401)
        self.refused(15, client="h", bitrate="1M/1001")
        self.refused(16, client="h", time=5, bytes=1)
        self.refused(20, client="h", udp=True, length=15)
        self.refused(20, client="h", udp=True, length=65508)
        self.refused(21, client="h", tos=256)
        self.refused(22, client="h", username="u")
        self.refused(23, server=True, rsa_private_key_path="k")
        self.refused(24, client="h", format="x")
        self.refused(25, client="h", reverse=True, bidirectional=True)
        self.refused(26, client="h", port=0)
        self.refused(28, server=True, server_bitrate_limit="1M/61")
        self.refused(29, server=True, time_skew_threshold=0)
        self.refused(30, server=True, idle_timeout=0)
        self.refused(31, server=True, rcv_timeout=99)
        self.refused(32, client="h", rcv_timeout=500)
        self.refused(33, client="h", snd_timeout=-1)
        self.refused(34, client="h", udp=True, file="f")
        self.refused(36, client="h", cntl_ka="10/5/2")
        self.refused(132, client="h", affinity=1025)
        self.refused(38, client="h", bytes="x")
        self.refused(127, client="h", flowlabel=1048576)
        self.refused(4, server=True, udp=True)
        self.refused(4, server=True, sendmmsg=True)

    def test_settings_without_values_are_the_defaults(self):
        settings = pyperf3.Settings()
        for option in pyperf3.OPTIONS:
            if option.names[:1] != ["--dscp"]:
                self.assertEqual(getattr(settings, option.dest), option.default)

    def test_a_client_that_is_stopped_before_it_begins_says_so(self):
        client = pyperf3.Client(pyperf3.Settings(client="127.0.0.1", port=support.free_port()))
        client.stop("early")
        self.assertEqual([event["event"] for event in client], ["version", "error", "end", "done"])
        self.assertIsInstance(client.error, pyperf3.Interrupted)
        client = pyperf3.Client(pyperf3.Settings(client="127.0.0.1", port=support.free_port()))
        client.stop("early")
        with self.assertRaises(pyperf3.IperfError):
            client.run()

    def test_defaults(self):
        settings = pyperf3.Settings()
        given = {option.dest: getattr(settings, option.dest) for option in pyperf3.OPTIONS
                 if option.names and getattr(settings, option.dest)}
        self.assertEqual(given, {"port": 5201, "interval": 1.0, "parallel": 1,
                                 "time_skew_threshold": 10, "max_clients": 1,
                                 "probe_rate": 50, "probe_size": 64, "ssh_command": "ssh"})

    def test_two_settings_share_nothing(self):
        first = pyperf3.Settings(client="h", time=5)
        second = pyperf3.Settings(client="h")
        self.assertNotIn("time", second.explicit)
        self.assertIn("time", first.explicit)


class HelpAndVersion(unittest.TestCase):
    """--help and --version."""

    def test_help_shows_every_option_that_is_there(self):
        left = support.run(support.OURS + ("--help",))
        self.assertEqual((left.err, left.code), ("", 0))
        lines = left.out.split("\n")
        for option in pyperf3.OPTIONS:
            names = ", ".join(option.names)
            if not names:
                continue
            found = [line for line in lines if re.match(r"  %s(?= |$)" % re.escape(names), line)]
            with self.subTest(option=names):
                self.assertEqual(len(found), 1)
        for name in ("--json-stream", "--loopback", "-c, --client", "-s, --server", "-u, --udp",
                     "-L, --flowlabel", "--gsro", "--udp-counters-64bit", "--dont-fragment",
                     "--sendmmsg", "--no-sendmmsg"):
            self.assertIn("\n  %s " % name, left.out)

    def test_layout_of_help(self):
        text = pyperf3.help_text("perf")
        self.assertTrue(text.startswith("Usage: perf [-s|-c host|--loopback|--ssh host]"
                                        " [options]\n"
                                        "       perf [-h|--help] [-v|--version]\n\n"))
        lines = text.split("\n")
        last = lines.index("Environment:")
        for number, line in enumerate(lines):
            self.assertLess(len(line), 100)
            self.assertEqual(line, line.rstrip())
            if line.startswith("  -") or (number > last and re.match("  [A-Z]", line)):
                # A description begins in column 29, on the next line if there is no room.
                described = line[27:28] == " " and line[28:29] not in ("", " ")
                self.assertTrue(described or lines[number + 1].startswith(" " * 28), line)
            elif line.startswith(" ") and number > 1:
                self.assertTrue(re.match(r" {28}\S", line), line)
        for head in ("Server or Client:", "Server specific:", "Client specific:"):
            self.assertIn("\n\n%s\n" % head, text)

    def test_help_is_as_wide_as_the_terminal(self):
        for columns in (60, 80, 133):
            lines = run_main(["-h"], {"COLUMNS": str(columns)}).out.splitlines()
            self.assertEqual("\n".join(lines), pyperf3.help_text("iperf3", columns))
            self.assertTrue(columns - 9 <= max(map(len, lines)) < columns, columns)

    def test_no_other_run_imports_argparse(self):
        for words, is_needed in (("-h", True), ("-v", False), ("-c h -t x", False)):
            left = support.run(support.driver(
                "import atexit; sys.argv += %r\n"
                "atexit.register(lambda: print('argparse' in sys.modules))" % words.split()))
            self.assertEqual(left.lines()[-1], str(is_needed), left)

    def test_short_help_is_the_same(self):
        self.assertEqual(run_main(["-h"]).out, run_main(["-c", "h", "--help", "-q"]).out)

    def test_version(self):
        for word in ("--version", "-v"):
            with self.subTest(word=word):
                left = support.run(support.OURS + (word,))
                self.assertEqual((left.err, left.code), ("", 0))
                lines = left.lines()
                self.assertTrue(lines[0].startswith("iperf 3.22 (pyperf3 "), lines)
                self.assertEqual(lines[0], pyperf3.VERSION_TEXT)
                self.assertEqual(lines[1], pyperf3.system_info())
                self.assertTrue(lines[2].startswith("Optional features available: "), lines)
                self.assertEqual(lines[2].endswith(", GSO/GRO support"),
                                 not pyperf3.missing_offloads())
                self.assertEqual(len(lines), 3)
        self.assertEqual(captures.Case("version").out("client").split(" (")[0], "iperf 3.22")


class Source(unittest.TestCase):
    """The file is as its docstring says."""

    def test_sections_are_those_of_the_docstring_in_order(self):
        with open(support.PROGRAM, "rb") as file:
            lines = file.read().decode("ascii").split("\n")
        rule = "#" * 79
        banners = []
        for number in range(len(lines) - 2):
            if lines[number] == rule and lines[number + 2] == rule:
                match = re.match(r"# ([a-z ]+) #+$", lines[number + 1])
                self.assertIsNotNone(match, lines[number + 1])
                self.assertEqual(len(lines[number + 1]), 79, lines[number + 1])
                banners.append(match.group(1))
        listed = pyperf3.__doc__.split("Sections (")[1].split("\n\n")[1].split("\n")
        self.assertEqual([line[4:].split("  ")[0] for line in listed if line.strip()], banners)
        self.assertEqual(banners[0], "constants")
        self.assertEqual(banners[-1], "command line")
        self.assertEqual(sum(line == rule for line in lines), 2 * len(banners))

    def test_lines_are_short_and_clean(self):
        with open(support.PROGRAM, "rb") as file:
            text = file.read().decode("ascii")
        for number, line in enumerate(text.split("\n"), 1):
            self.assertLessEqual(len(line), 100, number)
            self.assertEqual(line, line.rstrip(), number)
            self.assertNotIn("\t", line, number)

    def test_public_names_are_there(self):
        self.assertEqual(pyperf3.__all__, sorted(pyperf3.__all__))
        for name in pyperf3.__all__:
            self.assertTrue(callable(getattr(pyperf3, name)))
            self.assertTrue(getattr(pyperf3, name).__doc__, name)

    def test_numbers_of_errors_that_are_raised_have_texts(self):
        with open(support.PROGRAM) as file:
            text = file.read()
        raised = set(int(number) for number in re.findall(r"IperfError\((\d+)", text))
        self.assertGreater(len(raised), 30)
        self.assertEqual(raised - set(pyperf3.ERRORS), set())


if __name__ == "__main__":
    unittest.main()
