"""Hold --plot: bars behind the rows of a test, and lines of figures under its summary."""

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
import unittest
import unittest.mock

import pictures
import pyperf3
import support

BLOCKS = set(pyperf3._HEIGHTS + pyperf3._WIDTHS)
INKS = set(pyperf3._INKS)
PAINT = re.compile("\x1b\\[[0-9]*m")


def look(columns=80, blocks=True, colour=False):
    """Return what tells a renderer of such a terminal."""
    return lambda: pyperf3.Terminal(columns, blocks, colour)


def draw(sample, columns=80, blocks=True, colour=False, **more):
    """Return the lines of a Sample's intervals, with and without plots, and those under it."""
    named = (False, more.get("letter"), more.get("title"), more.get("named", False))
    renderer = pyperf3.PlotRenderer(look(columns, blocks, colour), *named)
    plain = pyperf3.TextRenderer(*named)
    lines, without = [], []
    for event in sample.events():
        lines += renderer.render(event)
        without += plain.render(event)
    return lines, without, renderer.plot_lines({})


class Letters(unittest.TestCase):
    """Numbers to letters."""

    def test_bar(self):
        for share, blocks, ascii_bar in (
                (0, "", ""), (1, "\u2588" * 4, "####"), (0.5, "\u2588" * 2, "##"),
                (0.25 + 1 / 32.0, "\u2588\u258f", "#."), (0.99, "\u2588" * 4, "####"),
                (1e-9, "\u258f", "."), (2, "\u2588" * 4, "####")):
            self.assertEqual(pyperf3.plot_bar(share, 4, True), blocks)
            self.assertEqual(pyperf3.plot_bar(share, 4, False), ascii_bar)
        for eighths in range(9):
            self.assertEqual(len(pyperf3.plot_bar(eighths / 8.0, 1, True)), bool(eighths))
            self.assertEqual(len(pyperf3.plot_bar(eighths / 8.0, 1, False)), bool(eighths))

    def test_line(self):
        self.assertEqual(pyperf3.plot_line(range(8), True), pyperf3._HEIGHTS)
        self.assertEqual(pyperf3.plot_line(range(8), False), " .:-=+*#")
        self.assertEqual(pyperf3.plot_line([0, 1e-9, 1e9], False), " .#")
        self.assertEqual(pyperf3.plot_line([0, 1e-9, 1e9], True), "\u2581\u2582\u2588")
        self.assertEqual(pyperf3.plot_line([None, 5, None], True), " \u2588 ")
        self.assertEqual(pyperf3.plot_line([0, 0], True), "\u2581\u2581")
        self.assertEqual(pyperf3.plot_line([], True), "")

    def test_resampled_by_the_mean_or_the_highest(self):
        points = [(1.0, value) for value in (1, 3, 5, 7, 2, 2)]
        self.assertEqual(pyperf3.resample(points, 6, pyperf3.mean_of), [1, 3, 5, 7, 2, 2])
        self.assertEqual(pyperf3.resample(points, 3, pyperf3.mean_of), [2, 6, 2])
        self.assertEqual(pyperf3.resample(points, 3, pyperf3.most_of), [3, 7, 2])
        self.assertEqual(pyperf3.resample(points, 1, pyperf3.mean_of), [20 / 6.0])
        gaps = [(1.0, None), (1.0, 4), (1.0, None), (1.0, None)]
        self.assertEqual(pyperf3.resample(gaps, 2, pyperf3.mean_of), [4, None])
        self.assertEqual(pyperf3.resample(gaps, 2, pyperf3.most_of), [4, None])

    def test_resampled_by_time_and_not_by_number(self):
        """What came in one long interval has more letters than what came in a short one."""
        points = [(8.0, 1.0)] + [(1.0, 9.0)] * 8
        self.assertEqual(pyperf3.resample(points, 4, pyperf3.mean_of), [1.0, 1.0, 9.0, 9.0])
        points = [(3.0, 1.0), (1.0, 9.0), (1.0, 9.0), (1.0, 1.0)]
        self.assertEqual(pyperf3.resample(points, 3, pyperf3.mean_of), [1.0, 5.0, 5.0])
        self.assertEqual(pyperf3.resample(points, 3, pyperf3.most_of), [1.0, 9.0, 9.0])
        for seconds in (0.0, 1e-9):
            made = pyperf3.resample([(seconds, 3.0)] * 100, 7, pyperf3.mean_of)
            self.assertEqual([round(value, 9) for value in made], [3.0] * 7)

    def test_a_day_of_points_is_kept_as_some_thousands(self):
        trace = pyperf3.PlotTrace("x", pyperf3.most_of, lambda *ends: [str(ends)])
        for number in range(100000):
            trace.add(0.1, 100.0 if number == 7 else 1.0)
        self.assertLessEqual(trace.count, pyperf3._MOST_POINTS)
        self.assertAlmostEqual(trace.seconds, 10000.0, 3)
        self.assertEqual(trace.line(10, False), "#.........")
        self.assertEqual(trace.texts(), ["(1.0, 100.0, 100099.0)"])


class Rows(unittest.TestCase):
    """Bars behind the rows."""

    def test_the_rows_are_those_without_a_plot(self):
        for more in ({}, {"udp": True}, {"bidir": True, "streams": 2}, {"streams": 3, "omit": 2}):
            sample = pictures.Sample(seconds=9, **more)
            lines, without, _ = draw(sample, columns=200)
            self.assertEqual(len(lines), len(without))
            for line, plain in zip(lines, without):
                self.assertTrue(line.startswith(plain.rstrip()), (line, plain))
                if "(omitted)" in plain or plain == pyperf3._SEPARATOR:
                    self.assertEqual(line, plain)
            places = {re.search("[\u2588-\u258f]", line).start() for line in lines
                      if BLOCKS & set(line)}
            self.assertEqual(len(places), 1, places)
            rows = [line for line in without if "sec" in line and "omitted" not in line]
            self.assertEqual(sum(bool(BLOCKS & set(line)) for line in lines), len(rows))

    def test_relative_to_the_highest_so_far_of_its_kind(self):
        sample = pictures.Sample(seconds=4, latency=False)
        for interval, rate in zip(sample.intervals, (4e6, 8e6, 2e6, 0)):
            for row in interval["streams"] + [interval["sum"]]:
                row["bits_per_second"] = rate
        lines, _, _ = draw(sample, columns=200, blocks=False)
        self.assertEqual([line.count("#") for line in lines[1:]], [24, 24, 6, 0])
        self.assertTrue(lines[0].endswith("Cwnd         Bitrate"), lines[0])
        # A sum has a scale of its own, and so has each direction.
        lines, _, _ = draw(pictures.Sample(seconds=1, streams=2, bidir=True), 200, False)
        rows = [line for line in lines if "sec" in line]
        self.assertEqual([rows[index].count("#") for index in (2, 5)], [24, 24])

    def test_never_beyond_the_terminal(self):
        for columns in list(range(12, 24)) + list(range(24, 130, 3)) + [200]:
            for more in ({}, {"latency": False}, {"udp": True}, {"bidir": True, "streams": 128}):
                sample = pictures.Sample(seconds=2, **more)
                lines, without, under = draw(sample, columns, title="db")
                for line, plain in zip(lines, without):
                    self.assertTrue(len(line) < columns or line == plain, (columns, line))
                self.assertTrue(all(len(line) < columns for line in under), (columns, under))

    def test_room_in_eighty_columns(self):
        lines, _, _ = draw(pictures.Sample(seconds=3, latency=False), 80)
        self.assertTrue(all(BLOCKS & set(line) for line in lines[1:]), lines)
        lines, without, _ = draw(pictures.Sample(seconds=3, latency=False), 60)
        self.assertEqual(lines[1:], without[1:])

    def test_a_pipe_has_room_for_what_there_is(self):
        lines, _, under = draw(pictures.Sample(seconds=300), 0)
        self.assertEqual(max(line.count("\u2588") for line in lines), 24)
        self.assertEqual(max(map(len, under)), 79)

    def test_painted_where_it_is_asked_for_only(self):
        sample = pictures.Sample(seconds=9)
        plain = draw(sample, 120)
        painted = draw(sample, 120, colour=True)
        for one, other in zip(plain, painted):
            self.assertEqual(one, [PAINT.sub("", line) for line in other])
        self.assertNotIn("\x1b", "".join(plain[0] + plain[2]))
        lines = painted[0][1:]
        for line in lines:  # what lost something stands out
            resent = int(re.search(r"bits/sec +(\d+)", line).group(1))
            self.assertIn("\x1b[33m" if resent else "\x1b[36m", line)
        self.assertTrue(all("\x1b" not in line or line.endswith("m") or "\x1b[0m" in line
                            for line in lines + painted[2]))

    def test_tests_of_a_server_and_titles(self):
        lines, _, _ = draw(pictures.Sample(seconds=2, latency=False), 120, title="over here")
        self.assertTrue(all(line.startswith("over here:  [") for line in lines), lines)
        renderer = pyperf3.PlotRenderer(look(120), False, None, None, True)
        lines = [line for event in pictures.Sample(seconds=2).events() for line in renderer.render(
            pyperf3.Event(event, test=3, server=True))]
        self.assertTrue(all(line.startswith("#3: [") for line in lines), lines)
        self.assertTrue(all(len(line) < 120 for line in lines), lines)


class Lines(unittest.TestCase):
    """Lines of figures under the summary."""

    def titles(self, **more):
        return [re.split(" {2,}", line)[0] for line in draw(pictures.Sample(
            seconds=9, **more), 120)[2][1:]]

    def test_a_line_for_each_figure(self):
        self.assertEqual(self.titles(), ["Bitrate", "Latency", "Retransmits"])
        self.assertEqual(self.titles(latency=False), ["Bitrate", "RTT", "Retransmits"])
        self.assertEqual(self.titles(latency=False, udp=True), ["Bitrate"])
        self.assertEqual(self.titles(bidir=True), [
            "Bitrate [TX-C]", "Latency", "Retransmits [TX-C]", "Bitrate [RX-C]"])
        self.assertEqual(self.titles(bidir=True, udp=True), [
            "Bitrate [TX-C]", "Latency", "Bitrate [RX-C]", "Lost [RX-C]"])

    def test_what_stands_behind_them(self):
        sample = pictures.Sample(seconds=3, latency=False)
        for interval, (rate, sent) in zip(sample.intervals, ((1e6, 3), (2e6, 0), (5e8, 4))):
            interval["sum"].update(bits_per_second=rate, retransmits=sent)
            interval["streams"][0]["rtt"] = 1000 * (sent + 1)
        self.assertEqual(draw(sample)[2], [
            "Over time, 1 s a letter",
            "Bitrate      \u2582\u2582\u2588  1.00 - 500 Mbits/sec",
            "RTT          \u2587\u2582\u2588  1.00 - 5.00 ms",
            "Retransmits  \u2586\u2581\u2588  0 - 4, 7 in all"])
        self.assertIn("  0.12 - 59.6 MBytes/sec", draw(sample, letter="M")[2][1])

    def test_narrow_terminals_leave_out_the_figures_before_the_lines(self):
        sample = pictures.Sample(seconds=60)
        self.assertIn(" - ", draw(sample, 80)[2][1])
        lines = draw(sample, 45)[2]
        self.assertNotIn(" - ", lines[1])
        self.assertTrue(lines[1].endswith("Mbits/sec"), lines)
        lines = draw(sample, 24)[2]
        self.assertFalse(any("sec" in line for line in lines[1:]), lines)
        self.assertEqual({len(line.rstrip()) for line in lines[1:3]}, {23})

    def test_an_hour_of_tenths_of_a_second(self):
        lines, without, under = draw(pictures.Sample(seconds=3600, interval=0.1), 200)
        self.assertEqual(len(lines), len(without))
        self.assertTrue(all(len(line) < 200 for line in under), under)
        self.assertEqual(len({len(line) - len(line.rstrip()) for line in under}), 1)
        self.assertGreater(len(under[1]), 150)
        self.assertTrue(re.match(r"Over time, 2\d(\.\d)? s a letter$", under[0]), under[0])

    def test_one_interval_and_no_bytes(self):
        lines, _, under = draw(pictures.Sample(seconds=1, latency=False), 100)
        self.assertIn("\u2588", under[1])
        sample = pictures.Sample(seconds=3, latency=False)
        for interval in sample.intervals:
            for row in interval["streams"] + [interval["sum"]]:
                row.update(bytes=0, bits_per_second=0.0, retransmits=0, rtt=0)
        lines, without, under = draw(sample, 100)
        self.assertEqual(lines[1:], [line.rstrip() for line in without[1:]])
        self.assertEqual(under[1], "Bitrate      \u2581\u2581\u2581  0.00 bits/sec")
        self.assertEqual(under[-1], "Retransmits  \u2581\u2581\u2581  none")
        self.assertEqual(pyperf3.PlotRenderer(look()).plot_lines({}), [])

    def test_what_is_omitted_is_left_out(self):
        _, _, under = draw(pictures.Sample(seconds=4, omit=3), 100)
        self.assertEqual(len(BLOCKS & set(under[1])) > 0 and sum(
            letter in BLOCKS for letter in under[1]), 4)


class Terminals(unittest.TestCase):
    """What there is known of where the lines go."""

    def shows(self, encoding="utf-8", utf8_mode=0, **names):
        stream = unittest.mock.Mock(encoding=encoding)
        flags = unittest.mock.Mock(utf8_mode=utf8_mode)
        with unittest.mock.patch.dict(os.environ, names, clear=True), \
                unittest.mock.patch.object(pyperf3.sys, "flags", flags):
            return pyperf3.shows_blocks(stream)

    @unittest.skipIf(os.name != "posix", "there are no locales of this kind")
    def test_blocks_where_the_locale_has_them(self):
        for names in ({"LANG": "en_US.UTF-8"}, {"LC_ALL": "de_DE.utf8"}, {"LC_CTYPE": "UTF-8"},
                      {"LC_CTYPE": "C.UTF-8"}, {"LANG": "C", "LC_ALL": "C.UTF-8"}):
            self.assertTrue(self.shows(**names), names)
        for names in ({}, {"LANG": "C"}, {"LANG": "en_US.UTF-8", "LC_ALL": "C"},
                      {"LC_ALL": "POSIX"}, {"LC_CTYPE": "C", "LANG": "en_US.UTF-8"},
                      {"LANG": "de_DE.ISO-8859-1"}):
            self.assertFalse(self.shows(**names), names)
        self.assertFalse(self.shows("ascii", LANG="en_US.UTF-8"))
        self.assertFalse(self.shows(None, LANG="en_US.UTF-8"))

    @unittest.skipIf(os.name != "posix", "there are no locales of this kind")
    def test_what_python_makes_of_the_c_locale_is_not_what_the_terminal_is(self):
        self.assertFalse(self.shows(utf8_mode=1, LC_CTYPE="C.UTF-8"))
        self.assertFalse(self.shows(utf8_mode=1, LC_CTYPE="C.UTF-8", LANG="C"))
        self.assertTrue(self.shows(utf8_mode=1, LC_CTYPE="C.UTF-8", LANG="en_US.UTF-8"))

    def test_pipe(self):
        streams = io.TextIOWrapper(io.BytesIO(), "utf-8")
        with contextlib.redirect_stdout(streams):
            terminal = pyperf3.Output().terminal()
        self.assertEqual((terminal.columns, terminal.colour), (0, False))

    def test_what_is_not_plotted_is_not_computed(self):
        renderer = pyperf3.make_renderer(pyperf3.Settings(client="h"))
        renderer.render(pyperf3.Event(event="version", data={}))
        self.assertIs(type(renderer._renderers[None]), pyperf3.TextRenderer)

    def test_with_json_it_is_a_warning(self):
        for more in ({"json": True}, {"json_stream": True}):
            settings = pyperf3.Settings(client="h", plot=True, **more)
            self.assertEqual(settings.warnings(), [
                "Plot (--plot) flag ignored with JSON output (-J)"])
        self.assertEqual(pyperf3.Settings(client="h", plot=True).warnings(), [])


class Runs(support.ServerCase):
    """The program itself."""

    def at_terminal(self, columns, arguments, **names):
        """Return the lines that a terminal of so many columns is sent."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        kept = {name: value for name, value in support.environment().items()
                if not name.startswith(("LC_", "LANG", "NO_COLOR", "TERM"))}
        process = support.subprocess.Popen(
            support.OURS + arguments, stdin=support.subprocess.DEVNULL, stdout=theirs,
            stderr=support.subprocess.DEVNULL, env=dict(kept, TERM="xterm", **names))
        os.close(theirs)
        data = b""
        try:
            while True:
                piece = os.read(ours, 65536)
                if not piece:
                    break
                data += piece
        except OSError:  # Linux: the other end is closed
            pass
        os.close(ours)
        self.assertEqual(process.wait(), 0, data)
        return data.decode("utf-8").replace("\r", "").split("\n")

    def test_terminals(self):
        arguments = ("--loopback", "-t", "1", "-i", "0.1", "-b", "20M", "--plot")
        for columns in (40, 80, 200):
            for names, letters in (({"LC_ALL": "C.UTF-8"}, BLOCKS), ({"LC_ALL": "C"}, INKS)):
                lines = self.at_terminal(columns, arguments, NO_COLOR="1", **names)
                self.assertFalse(any("\x1b" in line for line in lines))
                if sys.version_info >= (3, 7):  # older ones have to have the locale
                    self.assertEqual(any(BLOCKS & set(line) for line in lines), letters is BLOCKS)
                under = lines[next(number for number, line in enumerate(lines)
                                   if line.startswith("Over time")):]
                for title in ("Bitrate", "RTT", "Retransmits"):
                    line = next(line for line in under if line.startswith(title))
                    self.assertLess(len(line), columns, line)
                rows = [line for line in lines if "sec" in line and line.startswith("[")]
                if columns == 80:
                    self.assertLess(max(len(line.rstrip()) for line in rows), 80, rows)

    def test_colours_of_a_terminal(self):
        arguments = ("--loopback", "-t", "1", "-b", "20M", "--plot")
        lines = self.at_terminal(120, arguments, LC_ALL="C")
        self.assertTrue(any("\x1b[36m" in line for line in lines), lines)
        lines = self.at_terminal(120, arguments, LC_ALL="C", NO_COLOR="")
        self.assertTrue(any("\x1b[36m" in line for line in lines), lines)

    def test_pipe_server_and_what_a_server_tells(self):
        port = self.serve("-1", "--plot")
        left = support.run(support.OURS + (
            "-c", "127.0.0.1", "-p", port, "-t", "2", "-b", "20M", "--plot",
            "--get-server-output"))
        self.assertEqual((left.code, left.err), (0, ""), left)
        told = left.out[left.out.index("Server output:"):]
        told = told[:told.index("Over time")] if "Over time" in told else told
        self.assertRegex(left.out, r"\nOver time, 1(\.\d+)? s a letter\n")
        self.assertNotIn("\x1b", left.out)
        rows = [line for line in told.split("\n") if "sec" in line]
        self.assertTrue(rows)
        self.assertFalse(any(set(line) & (BLOCKS | set("#")) for line in rows), rows)
        self.server.wait_for(" s a letter\n")

    def test_diagnosis(self):
        left = support.run(support.OURS + ("--loopback", "--diagnose", "-t", "1", "--plot", "-i",
                                           "0.1", "-b", "20M"), 60)
        self.assertEqual((left.code, left.err), (0, ""), left)
        lines = left.out.split("\n")
        at = next(number for number, line in enumerate(lines) if "Bitrate over time" in line)
        self.assertIn("Latency over time", lines[at])
        for name, line in zip(("up", "down", "both up", "both down"), lines[at + 1:]):
            self.assertTrue(line.startswith(name.ljust(11)), line)
            self.assertTrue(set(line[11:]) & (BLOCKS | INKS), line)
        self.assertLess(max(map(len, lines)), 80)


if __name__ == "__main__":
    unittest.main()
