#!/usr/bin/env python3
"""Make the pictures of the README, of a test that never was: tests/pictures/*.svg.

The charts and the text are the program's; its figures are invented here, the same ones each time.
"""

import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import pyperf3  # noqa: E402

FOLDER = os.path.join(HERE, "pictures")
COLUMNS = 100
_SVG = "http://www.w3.org/2000/svg"


# Figures ######################################################################


def _row(start, end, rate, sender, **more):
    seconds = end - start
    row = {"start": start, "end": end, "seconds": seconds, "bytes": int(rate * seconds / 8),
           "bits_per_second": rate}
    row.update(more)
    row["sender"] = sender
    return row


class Sample:
    """A test on a slow link with a long queue, whose other traffic ends after a third of it."""

    def __init__(self, seconds=60, interval=1.0, streams=1, omit=0, udp=False, bidir=False,
                 latency=True, rate=94e6):
        self.chance = random.Random(7)
        self.udp, self.latency, self.rate = udp, latency, rate
        self.count = int(seconds / interval + 0.5)
        self.omitted = int(omit / interval + 0.5)
        self.interval, self.seconds, self.streams, self.bidir = interval, seconds, streams, bidir
        self.intervals = [self._interval(number) for number in range(self.count + self.omitted)]

    def _share(self, number):
        at = (number - self.omitted) / float(max(1, self.count))
        share = 0.55 if at < 0.33 else 0.2 if 0.7 < at < 0.74 else 0.98
        return share * self.chance.uniform(0.94, 1.0) * (0.3 if number == 0 else 1.0)

    def _interval(self, number):
        omitted = number < self.omitted
        begin = number - (0 if omitted else self.omitted)
        start, end = begin * self.interval, (begin + 1) * self.interval
        interval = {"streams": []}
        for suffix in ("", "_bidir_reverse") if self.bidir else ("",):
            sender, share = not suffix, self._share(number)
            rows = [self._stream(start, end, share, sender, number) for _ in range(self.streams)]
            for index, row in enumerate(rows):
                row.update(socket=5 + 2 * index + (1 if suffix else 0), omitted=omitted)
            interval["streams"] += rows
            sums = _row(start, end, sum(row["bits_per_second"] for row in rows), sender,
                        omitted=omitted)
            for name in ("retransmits", "packets", "lost_packets"):
                if name in rows[0]:
                    sums[name] = sum(row[name] for row in rows)
            if "lost_percent" in rows[0]:
                sums["lost_percent"] = pyperf3.percent(sums["lost_packets"], sums["packets"])
                sums["jitter_ms"] = rows[0]["jitter_ms"]
            if self.latency:
                wait = 20 + 140 * share * self.chance.uniform(0.8, 1)
                sums["pyperf3"] = {
                    "latency_p50_ms": wait, "latency_max_ms": wait * self.chance.uniform(1.05, 1.5),
                    "latency_samples": 50}
                if sender:
                    sums["pyperf3"].update(received_bytes=int(0.98 * sums["bytes"]),
                                           received_bps=0.98 * sums["bits_per_second"])
            interval["sum" + suffix] = sums
        return interval

    def _stream(self, start, end, share, sender, number):
        rate = self.rate * share / self.streams * self.chance.uniform(0.9, 1.1)
        row = _row(start, end, rate, sender)
        if self.udp:
            row["packets"] = row["bytes"] // 1448
            if not sender:
                row.update(jitter_ms=0.4, lost_packets=row["packets"] // 90,
                           lost_percent=100.0 / 90)
        elif sender:
            burst = self.chance.random() > 0.8 or number == 0
            row.update(retransmits=self.chance.randrange(1, 40) if burst else 0,
                       snd_cwnd=int(1.6e6 * share), snd_wnd=3100000,
                       rtt=int(1e3 * (20 + 140 * share)), rttvar=900, pmtu=1500)
        return row

    def document(self, host="db2.example"):
        """Return the document as -J has it."""
        end = {"streams": [], "pyperf3": {}}
        for suffix in ("", "_bidir_reverse") if self.bidir else ("",):
            rows = [each["sum" + suffix] for each in self.intervals[self.omitted:]]
            sent = _row(0.0, self.seconds, 8 * sum(row["bytes"] for row in rows) / max(
                1e-9, self.seconds), not suffix)
            if not self.udp:
                sent["retransmits"] = sum(row.get("retransmits", 0) for row in rows)
            end["sum_sent" + suffix] = sent
            end["sum_received" + suffix] = _row(0.0, self.seconds, sent["bits_per_second"] * 0.99,
                                                not suffix)
        end["sender_tcp_congestion"] = end["receiver_tcp_congestion"] = "cubic"
        own = end["pyperf3"]
        own["host"] = {"system": "linux", "kernel": "6.12.9", "cores": 8}
        own["remote_host"] = {"system": "linux", "kernel": "5.14.0", "cores": 4, "version": "1.0.0"}
        if self.latency:
            own["latency"] = {
                "source": "udp", "rate": 50, "congestion": "cubic",
                "idle": {"samples": 75, "min_ms": 19.8, "p50_ms": 20.4, "p95_ms": 21.0,
                         "p99_ms": 22.3, "max_ms": 24.1, "sent": 75, "lost": 0},
                "loaded": {"samples": 2950, "min_ms": 21.0, "p50_ms": 96.4, "p95_ms": 151.8,
                           "p99_ms": 158.0, "max_ms": 171.2, "sent": 2950, "lost": 3},
                "increase_ms": 76.0, "grade": "C", "rpm": 590, "rpm_class": "fair"}
        own["verdict"] = [{
            "code": "queue", "kind": "limit", "direction": "up", "end": None, "share": None,
            "sentence": "a queue in the path is full: it adds 76 ms",
            "detail": "The rate is that of the slowest link, 94 Mbit/s.",
            "advice": "Switch on SQM (cake, fq_codel) before it.", "evidence": {}}]
        return {
            "start": {
                "connected": [{"socket": 5, "local_host": "192.0.2.10", "local_port": 41234,
                               "remote_host": "192.0.2.20", "remote_port": 5201}],
                "version": pyperf3.VERSION_TEXT,
                "system_info": "Linux db1 6.12.9 #1 SMP x86_64",
                "timestamp": {"time": "Wed, 02 Dec 2026 21:04:05 GMT", "timesecs": 1796245445},
                "connecting_to": {"host": host, "port": 5201},
                "test_start": {"protocol": "UDP" if self.udp else "TCP", "reverse": 0,
                               "num_streams": self.streams, "blksize": 131072, "bytes": 0,
                               "blocks": 0, "omit": self.omitted * self.interval,
                               "duration": self.seconds, "bidir": int(self.bidir)}},
            "intervals": self.intervals, "end": end}

    def events(self):
        """Yield events of the test, as far as its text tells of intervals."""
        yield pyperf3.Event(event="start", data={"test_start": {
            "num_streams": self.streams, "bidir": int(self.bidir), "interval": self.interval}})
        for interval in self.intervals:
            yield pyperf3.Event(event="interval", data=interval)


# Pictures #####################################################################


def style_of(page):
    """Return the style of a page that stands alone in SVG as well."""
    return page[page.index("<style>") + 7:page.index("</style>")]


def chart_picture(panel, width=860, height=300):
    """Return a Panel as an SVG that stands alone."""
    left, top, right, bottom = 52, 64, 20, 34
    shapes, at = [], left
    for style, text in panel.keys.items():
        shape = "M%d 35h28v10h-28z" if "band" in style or "omitted" in style else "M%d 40h28"
        shapes.append('<path class="%s" d="%s"/><text x="%d" y="44">%s</text>' % (
            style, shape % at, at + 34, pyperf3.xml_text(text)))
        at += 62 + 7 * len(text)
    page = pyperf3.report_html({"start": {}, "intervals": [], "end": {}})
    return (
        '<svg xmlns="%s" width="%d" height="%d" viewBox="0 0 %d %d">\n<style>%s'
        '.page{fill:var(--page)}.head{font-size:16px;font-weight:600;fill:var(--ink)}</style>\n'
        '<rect class="page" width="100%%" height="100%%"/>\n'
        '<text class="head" x="%d" y="24">%s</text>%s\n'
        '<svg x="%d" y="%d" width="%d" height="%d">%s</svg>\n</svg>\n' % (
            _SVG, width, height, width, height, style_of(page), left,
            pyperf3.xml_text(panel.title), "".join(shapes), left, top, width - left - right,
            height - top - bottom, panel.chart.inner()))


def text_picture(lines, columns):
    """Return lines of a terminal as an SVG that stands alone; the bars are painted."""
    blocks = pyperf3._HEIGHTS + pyperf3._WIDTHS
    rows = []
    for number, line in enumerate(lines):
        spans = "".join('<tspan class="%s">%s</tspan>' % (
            "bar" if is_bar else "text", pyperf3.xml_text("".join(letters)))
            for is_bar, letters in _runs(line, blocks))
        rows.append('<text x="12" y="%d" xml:space="preserve">%s</text>' % (
            26 + 18 * number, spans))
    width, height = 24 + int(8.43 * columns), 24 + 18 * len(lines)
    return (
        '<svg xmlns="%s" width="%d" height="%d" viewBox="0 0 %d %d">\n<style>\n'
        "text{font:14px 'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#e6e9ec;white-space:pre}\n"
        '.bar{fill:#4fc3c9}\n</style>\n<rect width="100%%" height="100%%" rx="6" fill="#14171a"/>\n'
        '%s\n</svg>\n' % (_SVG, width, height, width, height, "\n".join(rows)))


def _runs(line, blocks):
    """Return (whether they are blocks, letters) of a line's runs."""
    runs = []
    for letter in line:
        is_bar = letter in blocks
        if runs and runs[-1][0] == is_bar:
            runs[-1][1].append(letter)
        else:
            runs.append((is_bar, [letter]))
    return runs


def plot_lines(columns):
    """Return what --plot prints of a short test: its rows, and the lines under its summary."""
    sample = Sample(seconds=12, latency=False)
    renderer = pyperf3.PlotRenderer(lambda: pyperf3.Terminal(columns, True, False))
    lines = [line for event in sample.events() for line in renderer.render(event)]
    return lines + [pyperf3._SEPARATOR] + renderer.plot_lines({})


def pictures():
    """Return the pictures by the name of their file."""
    ways, times = pyperf3.ways_over_time(Sample(seconds=120).document())
    latency = Sample(seconds=1).document()["end"]["pyperf3"]["latency"]
    return {
        "bitrate.svg": chart_picture(pyperf3.rate_panel(ways, times)),
        "latency.svg": chart_picture(pyperf3.latency_panel(latency, ways, times)),
        "plot.svg": text_picture(plot_lines(COLUMNS), COLUMNS)}


def main():
    if not os.path.isdir(FOLDER):
        os.mkdir(FOLDER)
    for name, text in pictures().items():
        with open(os.path.join(FOLDER, name), "w", encoding="utf-8", newline="\n") as handle:
            handle.write(text)


if __name__ == "__main__":
    main()
