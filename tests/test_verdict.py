"""What limited a test (--verdict): on paths that are limited in known ways, and on documents."""

import json
import os
import random
import sys
import unittest

import path
import pyperf3
import support

MEGA = 10 ** 6

# What each preset of tests/path.py gives: its limit (of a healthy one, one of several), and a note.
LIMITS = {
    "full_queue": ("queue", None), "full_queue_bbr": ("queue", None),
    "receiver_window": ("receiver_window", None),
    "receiver_window_long": ("receiver_window", None), "receiver_slow": ("receiver_slow", None),
    "send_buffer": ("send_buffer", None), "send_buffer_long": ("send_buffer", None),
    "application": ("application", None), "application_steady": ("application", None),
    "sender_rate": ("sender_rate", None), "random_loss": ("random_loss", None),
    "random_loss_short": ("random_loss", None), "random_loss_bbr": ("random_loss", None),
    "policer": ("policer", None), "policer_reno": ("policer", None), "bloated": ("queue", None),
    "reordering": ("queue", "reordering"), "mtu_black_hole": ("mtu_black_hole", None),
    "clamped_mss": ("queue", "mss"), "stalls": ("random_loss", "timeouts"),
    "slow_veth": ("queue", None),
}


def run_scene(name, *arguments, **changes):
    """Return what a client leaves that runs five seconds with --verdict on a preset's path."""
    program = changes.pop("program", support.OURS)
    with path.Scene(name, **changes) as scene:
        with path.serving(scene.path, tuple(program) + ("-s", "-1", "--logfile", os.devnull)
                          + scene.server):
            return support.run(scene.path.client + support.OURS + (
                "-c", path.SERVER, "--verdict", "-t", "5") + scene.client + arguments)


def verdict_of(left):
    """Return the verdict in a client's document (-J)."""
    return left.json()["end"]["pyperf3"]["verdict"]


def codes(verdict, kind="note"):
    return [found["code"] for found in verdict if found["kind"] == kind]


class Paths(unittest.TestCase):
    """Each limit that can be made is told, and no other one."""

    cores = 1.0

    def setUp(self):
        support.need_path()

    def check(self, name, left):
        limit, note = LIMITS[name]
        with self.subTest(name):
            self.assertEqual((left.code, left.err), (0, ""), left.out)
            verdict = verdict_of(left)
            self.assertEqual(codes(verdict, "limit"), [limit], verdict)
            if note:
                self.assertIn(note, codes(verdict), verdict)
            self.assertTrue(verdict[0]["evidence"])
            return verdict
        return ()

    def test_each_limit_beside_a_busy_process(self):
        with support.Program((sys.executable, "-S", "-c", "while True: pass")):
            for (name,), left in support.together(
                    lambda name: run_scene(name, "-J"), [(name,) for name in sorted(LIMITS)]):
                if name == "stalls" and "timeouts" not in codes(verdict_of(left)):
                    left = run_scene(name, "-J")  # by luck there may be none in five seconds
                self.check(name, left)

    def test_a_real_server(self):
        names = ("full_queue", "receiver_window_long", "receiver_slow", "send_buffer",
                 "application_steady", "sender_rate", "random_loss_short", "policer_reno",
                 "reordering", "mtu_black_hole")
        for (name,), left in support.together(
                lambda name: run_scene(name, "-J", program=support.real("3.22")),
                [(name,) for name in names]):
            verdict = self.check(name, left)
            self.assertIn("unseen", codes(verdict))

    def test_what_a_server_sends(self):
        cases = (("full_queue", {}), ("policer_reno", {}), ("clamped_mss", {}),
                 ("random_loss_short", dict(back={"loss": 0.01})),
                 ("receiver_window_long", dict(
                     client_sysctl={path.RECEIVE: "4096 65536 65536"})))
        for (name, changes), left in support.together(
                lambda name, changes: run_scene(name, "-J", "-R", **changes), cases):
            verdict = self.check(name, left)
            self.assertEqual({found["direction"] for found in verdict}, {"down"})

    def test_each_direction_has_a_limit(self):
        left = run_scene("full_queue", "-J", "--bidir")
        verdict = verdict_of(left)
        self.assertEqual([(found["code"], found["direction"]) for found in verdict
                          if found["kind"] == "limit"], [("queue", "up"), ("queue", "down")])

    def test_a_healthy_veth(self):
        for ways in ((), ("-R",), ("--bidir",)):
            left = run_scene("healthy_veth", "-J", *ways)
            with self.subTest(ways):
                self.assertFalse(set(codes(verdict_of(left), "limit")) - {
                    "sender_cpu", "receiver_slow", "network"}, verdict_of(left))

    def test_several_streams_share_a_limit(self):
        for name in ("full_queue", "receiver_window_long"):
            self.check(name, run_scene(name, "-J", "-P", "4", **(
                dict(rate=40e6) if name != "full_queue" else {})))


class Devices(unittest.TestCase):
    def setUp(self):
        support.need_path(tun=False)

    def test_a_veth_is_no_cable(self):
        with path.Path(veth=True) as road:
            left = support.run(road.client + support.driver(
                "import pyperf3\nprint(pyperf3.host_facts(%r))" % path.DEVICE))
        self.assertIn("mtu", left.out)
        self.assertNotIn("speed_mbps", left.out)


class Told(support.ServerCase):
    """Where a verdict stands, and for whom."""

    cores = 1.0

    def client(self, *arguments):
        return support.run(support.OURS + ("-c", "127.0.0.1", "-p", self.port, "-t", "1.2")
                           + arguments)

    def test_stands_before_the_last_line(self):
        self.port = self.serve()
        left = self.client("--verdict")
        self.assertRegex(left.out, r"(?s)receiver\nVerdict: .+\nAlso: both ends run on this host"
                                   r".+\n\niperf Done.\n\Z")
        self.assertEqual((left.code, left.err), (0, ""))

    def test_is_not_told_unasked(self):
        self.port = self.serve()
        left = self.client()
        self.assertNotIn("Verdict", left.out)
        own = self.client("-J").json()["end"]["pyperf3"]
        self.assertFalse({"verdict", "host", "remote_host", "progress"} & set(own))

    def test_healthy_connections_of_this_host(self):
        self.port = self.serve()
        for ways in ("", "-R", "--bidir", "-P 4", "-P 2 --bidir", "-Z", "--tls", "-O 1", "-P 9 -R"):
            left = self.client("-J", "--verdict", *ways.split())
            with self.subTest(ways):
                verdict = verdict_of(left)
                limits = codes(verdict, "limit")
                self.assertEqual(len(limits), 2 if "--bidir" in ways else 1)
                self.assertFalse(set(limits) & {
                    "receiver_window", "send_buffer", "application", "policer", "random_loss",
                    "queue", "mtu_black_hole"}, verdict)
                self.assertIn("same_host", codes(verdict))
                for found in verdict:
                    self.assertIn(found["direction"], ("up", "down"))
                    self.assertEqual(set(found), {
                        "code", "kind", "direction", "end", "share", "sentence", "detail",
                        "advice", "evidence"})

    def test_datagrams(self):
        self.port = self.serve()
        for ways, limit, note in (("-u", "sender_rate", "udp_default"),
                                  ("-u -b 20M -R", "sender_rate", None),
                                  ("-u -b 20M -P 2 --bidir", "sender_rate", None)):
            verdict = verdict_of(self.client("-J", "--verdict", *ways.split()))
            self.assertEqual(set(codes(verdict, "limit")), {limit}, verdict)
            if note:
                self.assertIn(note, codes(verdict))

    def test_a_document_each_second_has_it_at_the_end(self):
        self.port = self.serve()
        events = [json.loads(line) for line in self.client(
            "--json-stream", "--verdict").out.splitlines()]
        self.assertEqual(events[-1]["event"], "end")
        self.assertTrue(events[-1]["data"]["pyperf3"]["verdict"])

    def test_a_server_tells_what_it_knows(self):
        for versions in ((), ("3.22",)):
            peer = support.real(*versions) if versions else support.OURS
            self.port = self.serve("--verdict", "-1")
            left = support.run(peer + ("-c", "127.0.0.1", "-p", self.port, "-t", "1.2", "-R"))
            self.assertEqual(left.code, 0, left)
            self.assertNotIn("Verdict", left.out)
            self.server.wait_for("Verdict: ")
            self.server.finish()
            if versions:
                self.assertIn("the other end told nothing of its host", self.server.out())

    def test_a_loopback_says_it_unasked_in_text(self):
        left = support.run(support.OURS + ("--loopback", "-t", "1.2"))
        self.assertRegex(left.out, r"\nVerdict: .+\n")
        own = support.run(support.OURS + ("--loopback", "-t", "1.2", "-J")).json()["end"]["pyperf3"]
        self.assertNotIn("verdict", own)

    def test_a_system_without_tcp_info_says_so(self):
        code = "import pyperf3\npyperf3._SOCKET_TCP_INFO = None\npyperf3.main()"
        self.port = self.serve()
        blind = support.driver(code)
        left = support.run(blind + ("-c", "127.0.0.1", "-p", self.port, "-t", "1.2", "--verdict",
                                    "-b", "200M"))
        self.assertIn("Verdict: the -b rate of 200 Mbit/s was reached.", left.out)
        left = support.run(blind + ("-c", "127.0.0.1", "-p", self.port, "-n", "1M", "--verdict"))
        self.assertIn("Verdict: no limit could be told.", left.out)
        self.assertEqual((left.code, left.err), (0, ""))


# Rules on documents ###########################################################


def connection(**more):
    """Return what is known of a connection that nothing limits, 5 s at 100 Mbit/s and 20 ms."""
    values = dict(
        socket=4, sender=True, busy_us=5000000, rwnd_limited_us=0, sndbuf_limited_us=0,
        segments_sent=43000, retransmits=0, later_segments_sent=35000, later_retransmits=0,
        needless_retransmits=0, reorderings=0, delivered=43000, delivered_ce=0, rtos=0,
        rto_time_us=0, min_rtt_us=20000, rtt_p50_us=20500, rtt_p95_us=21000, snd_mss=1448,
        snd_cwnd_segments=400, backoff=0, options=7, samples=50, samples_nothing_unsent=0,
        samples_buffer_full=50, samples_congested=50, max_snd_wnd=4000000,
        snd_wnd_small_percent=0.0, send_buffer=4000000, receive_buffer=6000000,
        ssthresh_near_percent=20.0, ssthresh_p50_segments=100, samples_lossy=7,
        congestion="cubic", worker_cpu_percent=5.0, worker_wait_percent=0.0)
    values.update(more)
    values.update((("later_" + name, values[name])
                   for name in ("busy_us", "rwnd_limited_us") if "later_" + name not in more))
    return values


def host(**more):
    during = dict(cpu_ticks=1000, cpu_idle_ticks=900, cpu_steal_ticks=0, softnet_drops=0)
    during.update(more.pop("during", {}))
    values = dict(cores=2, system="linux", kernel="6.1", mtu=1500, rmem_max=212992, wmem_max=212992,
                  tcp_rmem=[4096, 131072, 6291456], tcp_wmem=[4096, 16384, 4194304])
    values.update(more, during_test=during)
    return values


def garbage(values):
    """Return facts of these names that no kernel tells."""
    return {name: random.choice((0, 1, 1e18, -1e18, 2 ** 62, -5, 0.001, True, "x", [1, 2], []))
            for name in values if name not in ("sender", "socket")}


class Rules(unittest.TestCase):
    """Each rule, at its threshold and beside it."""

    rate = 100e6

    def diagnose(self, sender=None, receiver=None, local=None, remote=None, progress=None,
                 start=None, test=None, **end):
        """Return the verdict of a client that sent for 5 s. None: known, and of no interest."""
        test = dict(dict(protocol="TCP", num_streams=1, bidir=0, target_bitrate=0), **test or {})
        start = dict(dict(test_start=test, connected=[{"remote_host": "192.0.2.1"}],
                          sock_bufsize=0), **start or {})
        rate = end.pop("rate", self.rate)
        sums = {"bytes": int(rate * 5 / 8), "bits_per_second": rate, "seconds": 5.0,
                "packets": 43000}
        document = {
            "cpu_utilization_percent": {"host_total": 5.0, "remote_total": 5.0},
            "sum_sent": dict(sums), "sum_received": dict(sums),
            "pyperf3": {
                "limits": [connection(**sender or {})],
                "remote_limits": [dict(connection(sender=False), **receiver or {})],
                "host": host(**local or {}), "remote_host": host(**remote or {}),
                "progress": dict(dict(longest_stall_seconds=0.1, usual_bps=rate, ramp_seconds=0.5,
                                      deviation_percent=30.0), **progress or {})}}
        own = document["pyperf3"]
        for name in end.pop("unknown", ()):
            del own[name]
        document.update(end)
        verdict = pyperf3.diagnose(start, document, True, False)
        self.assertTrue(pyperf3.verdict_lines(verdict)[0].startswith("Verdict: "))
        return verdict

    def limit(self, *arguments, **more):
        return self.diagnose(*arguments, **more)[0]["code"]

    def test_nothing_stands_out(self):
        self.assertEqual([found["code"] for found in self.diagnose()], ["network"])

    def test_rate(self):
        self.assertEqual(self.limit(test=dict(fqrate=100 * MEGA)), "sender_rate")
        self.assertEqual(self.limit(test=dict(fqrate=103 * MEGA)), "network")
        for target, code in ((100 * MEGA, "sender_rate"), (102 * MEGA, "sender_rate"),
                             (103 * MEGA, "network")):
            self.assertEqual(self.limit(test=dict(target_bitrate=target)), code, target)

    def test_rate_was_missed_by_the_block_behind_the_end(self):
        # 0.2 Mbit/s and 6.25 Mbit/s of five seconds
        for size, target, code in ((131072, 102.2 * MEGA, "sender_rate"),
                                   (131072, 102.3 * MEGA, "network"),
                                   (4000000, 108 * MEGA, "sender_rate"),
                                   (4000000, 109 * MEGA, "network"),
                                   (40000000, 111 * MEGA, "sender_rate"),
                                   (40000000, 112 * MEGA, "network")):
            self.assertEqual(self.limit(test=dict(target_bitrate=target, blksize=size)), code,
                             (size, target))

    def test_window(self):
        narrow = dict(max_snd_wnd=256000)  # 100 Mbit/s at 20.5 ms
        for share, more, code in (
                (0.10, narrow, "receiver_window"), (0.09, narrow, "network"),
                (0.10, dict(max_snd_wnd=310000), "network"),  # 21 % beside it
                (0.20, dict(max_snd_wnd=310000), "receiver_window"),
                (0.49, dict(max_snd_wnd=520000), "network"),  # while it grew
                (0.19, dict(max_snd_wnd=310000), "network"),
                (0.90, dict(max_snd_wnd=520000), "receiver_slow"),  # it covers twice as much
                (0.43, dict(narrow, snd_wnd_small_percent=10.0), "receiver_slow"),
                (0.43, dict(narrow, snd_wnd_small_percent=9.9), "receiver_window")):
            self.assertEqual(self.limit(dict(more, rwnd_limited_us=5e6 * share)), code,
                             (share, more))
        found = self.diagnose(dict(narrow, rwnd_limited_us=2.15e6),
                              remote=dict(tcp_rmem=[4096, 131072, 524288]))[0]
        self.assertEqual(found["sentence"], "limited by the receiver's window 43 % of the time")
        self.assertEqual(found["advice"], "On the receiver: sysctl -w net.ipv4.tcp_rmem="
                                          "\"4096 131072 8388608\"")
        self.assertEqual((found["end"], found["share"]), ("remote", 0.43))
        self.assertIn("allows 16 MB: something else", self.diagnose(
            dict(narrow, rwnd_limited_us=2.15e6), remote=dict(tcp_rmem=[4096, 131072, 16 << 20]))[
                0]["advice"])
        found = self.diagnose(dict(narrow, rwnd_limited_us=2.15e6, max_snd_wnd=0))[0]
        self.assertEqual(found["code"], "receiver_window")  # Linux before 5.4
        self.assertNotIn(" 0 B", found["detail"])
        # While it grew it held the sender back, which is over.
        self.assertEqual(self.limit(dict(narrow, rwnd_limited_us=2.15e6, later_rwnd_limited_us=0)),
                         "network")
        found = self.diagnose(dict(narrow, rwnd_limited_us=2.15e6),
                              start=dict(sock_bufsize=65536))[0]
        self.assertIn("Leave -w away", found["advice"])

    def test_send_buffer(self):
        small = dict(samples_nothing_unsent=40, samples_buffer_full=30, samples_congested=9)
        filled = dict(small, samples_congested=50)
        for more, code in (
                (small, "send_buffer"), (dict(small, samples_nothing_unsent=39), "network"),
                (dict(small, samples_congested=10), "network"),
                (dict(filled, sndbuf_limited_us=500000), "send_buffer"),
                (dict(filled, sndbuf_limited_us=490000), "network")):
            self.assertEqual(self.limit(more), code, more)

    def test_application(self):
        pipe = dict(samples_nothing_unsent=40, samples_buffer_full=9, from_file=True)
        for more, code in ((pipe, "application"), (dict(pipe, busy_us=1), "application"),
                           (dict(pipe, samples_nothing_unsent=39), "network"),
                           (dict(pipe, samples_buffer_full=10), "network"),
                           (dict(pipe, from_file=False), "sender_cpu")):
            self.assertEqual(self.limit(more), code, more)
        self.assertEqual(self.limit(pipe, test=dict(target_bitrate=200 * MEGA)), "network")

    def test_processors(self):
        for cpu, waited, idle, code in ((95, 0, 900, "full"), (94, 0, 900, "network"),
                                        (60, 35, 900, "full"), (40, 20, 49, "full"),
                                        (40, 19, 49, "network"), (40, 20, 50, "network")):
            worker = dict(worker_cpu_percent=cpu, worker_wait_percent=waited)
            busy = dict(during=dict(cpu_idle_ticks=idle))
            wanted = "sender_cpu" if code == "full" else code
            self.assertEqual(self.limit(worker, local=busy), wanted, worker)
            # A receiver that keeps its window open is fast enough.
            for share, held in ((0.05, True), (0.04, False)):
                wanted = "receiver_slow" if code == "full" and held else "network"
                self.assertEqual(self.limit(dict(rwnd_limited_us=5e6 * share), receiver=worker,
                                            remote=busy), wanted, worker)

    def test_line(self):
        room = 1e9 * 1448 / 1538
        for end in ("local", "remote"):
            for rate, code in ((0.931 * room, "line_rate"), (0.929 * room, "network")):
                self.assertEqual(self.limit(rate=rate, **{end: dict(speed_mbps=1000)}), code)
            # No cable has the speed that a virtual device says it has.
            self.assertEqual(self.limit(rate=1.11e9, **{end: dict(speed_mbps=1000)}), "network")

    def test_loss(self):
        for lost, more, code in (
                (35, {}, "random_loss"), (34, {}, "network"),
                (35, dict(rtt_p50_us=26599), "random_loss"), (35, dict(rtt_p50_us=26701), "queue"),
                # Two milliseconds would be many of a short path; in between nobody knows.
                (35, dict(min_rtt_us=200, rtt_p50_us=366), "random_loss"),
                (35, dict(min_rtt_us=200, rtt_p50_us=367), "network"),
                (35, dict(min_rtt_us=200, rtt_p50_us=2200), "queue"),
                # Mathis: 22 Mbit/s, of which half is enough.
                (350, dict(congestion="reno"), "random_loss")):
            self.assertEqual(self.limit(dict(more, later_retransmits=lost)), code, (lost, more))
        slow = dict(later_retransmits=350, congestion="reno")
        for rate, code in ((3.46e6, "random_loss"), (3.44e6, "network")):
            self.assertEqual(self.limit(slow, rate=rate), code)
        # Where it stalls, the formula says nothing.
        self.assertEqual(self.limit(dict(slow, later_retransmits=1050), rate=1e6), "random_loss")
        # What slow start lost, or what was sent again needlessly, tells nothing.
        self.assertEqual(self.limit(dict(retransmits=5000)), "network")
        self.assertEqual(self.limit(dict(retransmits=100, needless_retransmits=100,
                                         later_retransmits=100)), "network")

    def test_policer(self):
        for lost, more, code in (
                (70, {}, "policer"), (69, {}, "random_loss"),
                (70, dict(ssthresh_near_percent=59.9), "random_loss"),
                (70, dict(samples_lossy=6), "random_loss"),
                (70, dict(ssthresh_p50_segments=7), "random_loss"),
                (70, dict(rtt_p50_us=30000), "queue")):
            more = dict(dict(ssthresh_near_percent=60.0, ssthresh_p50_segments=8), **more)
            self.assertEqual(self.limit(dict(more, later_retransmits=lost)), code, (lost, more))
        for lost, deviation, code in ((1400, 10.0, "policer"), (1399, 10.0, "random_loss"),
                                      (1400, 10.1, "random_loss")):
            even = dict(deviation_percent=deviation)
            self.assertEqual(self.limit(dict(later_retransmits=lost, congestion="bbr"),
                                        progress=even), code, (lost, deviation))

    def test_queue_takes_a_busy_connection(self):
        slow = dict(rtt_p50_us=30000)
        self.assertEqual(self.limit(slow), "queue")
        self.assertEqual(self.limit(dict(slow, busy_us=4750000)), "queue")
        self.assertEqual(self.limit(dict(slow, busy_us=4740000)), "sender_cpu")
        self.assertEqual(self.limit(dict(slow, busy_us=4740000, from_file=True)), "unknown")
        # Two milliseconds more are told of any round trip.
        near = dict(min_rtt_us=100)
        self.assertEqual(self.limit(dict(near, rtt_p50_us=2100)), "queue")
        self.assertEqual(self.limit(dict(near, rtt_p50_us=2099)), "network")

    def test_black_hole(self):
        gone = dict(snd_cwnd_segments=1, backoff=2, retransmits=3, segments_sent=12, delivered=1)
        self.assertEqual(self.limit(gone, rate=23.0), "mtu_black_hole")
        self.assertEqual(self.limit(dict(gone, backoff=0), rate=23.0), "network")
        self.assertEqual(self.limit(dict(gone, backoff=0), rate=0.0), "unknown")
        # A link that went down carried much before.
        self.assertEqual(self.limit(dict(gone, delivered=43000), rate=0.0), "unknown")
        self.assertEqual(self.limit(dict(gone, delivered=5), rate=23.0), "network")

    def test_datagrams(self):
        test = dict(protocol="UDP", target_bitrate=100 * MEGA)

        def told(lost, **more):
            return self.diagnose(test=test, sum={"lost_packets": lost, "packets": 43000}, **more)
        self.assertEqual(told(429)[0]["code"], "sender_rate")
        self.assertEqual(told(430)[0]["code"], "datagram_loss")
        none = dict(during=dict(udp_receive_buffer_errors=0))
        self.assertEqual(told(430, remote=none)[0]["code"], "network")
        self.assertEqual(told(0, sum_received=dict(
            bytes=0, bits_per_second=0.0, seconds=5.0, packets=0))[0]["code"], "unknown")
        own = dict(during=dict(device_send_drops=215))
        self.assertEqual(told(430, remote=none, local=own)[0]["code"], "udp_sender")
        self.assertEqual(told(432, remote=none, local=own)[0]["code"], "network")
        drops = dict(during=dict(udp_receive_buffer_errors=215))
        self.assertEqual(told(430, remote=drops)[0]["code"], "udp_receiver")
        self.assertEqual(told(432, remote=drops)[0]["code"], "network")
        self.assertNotIn("udp_sender", codes(told(0, local=dict(during=dict(
            device_send_drops=43)))))
        self.assertIn("udp_sender", codes(told(0, local=dict(during=dict(
            device_send_drops=43, udp_send_buffer_errors=1)))))

    def assertNote(self, code, *beside, **more):
        """Check that the first arguments give a note, and the others do not."""
        self.assertIn(code, codes(self.diagnose(**more)))
        for each in beside:
            self.assertNotIn(code, codes(self.diagnose(**each)), each)

    def test_notes_of_connections(self):
        self.assertNote("clamped_window", dict(start=dict(sock_bufsize=2000000)),
                        start=dict(sock_bufsize=2000001))
        self.assertNote("timeouts", dict(sender=dict(rtos=3, rto_time_us=99999)),
                        sender=dict(rtos=3, rto_time_us=100000))
        self.assertNote("stall", dict(progress=dict(longest_stall_seconds=0.99)),
                        progress=dict(longest_stall_seconds=1.0))
        self.assertNote("reordering", dict(sender=dict(reorderings=42)),
                        sender=dict(reorderings=43))
        self.assertNote("reordering", dict(sender=dict(retransmits=43, needless_retransmits=8)),
                        sender=dict(retransmits=43, needless_retransmits=9))
        self.assertNote("ecn", dict(sender=dict(delivered_ce=42)), sender=dict(delivered_ce=43))
        self.assertNote("mss", dict(sender=dict(snd_mss=1460, options=6)),
                        dict(sender=dict(snd_mss=1360, max_snd_wnd=2896)),
                        # The other end's MTU may be the usual one.
                        dict(sender=dict(snd_mss=1448), local=dict(mtu=9000),
                             unknown=("remote_host",)),
                        sender=dict(snd_mss=1447))
        self.assertNote("ramp", dict(progress=dict(ramp_seconds=1.24)),
                        progress=dict(ramp_seconds=1.25))

    def test_notes_of_hosts(self):
        for end in ("local", "remote"):
            self.assertNote("duplex", {end: dict(duplex="full")}, **{end: dict(duplex="half")})
            self.assertNote("slow_port", dict(local=dict(speed_mbps=100),
                                              remote=dict(speed_mbps=100)),
                            **{end: dict(speed_mbps=100), {"local": "remote", "remote": "local"}[
                                end]: dict(speed_mbps=1000)})
            for good, bad in ((dict(cpu_steal_ticks=49), dict(cpu_steal_ticks=50)),
                              (dict(throttled_periods=0), dict(throttled_periods=1)),
                              (dict(softnet_drops=0), dict(softnet_drops=1))):
                self.assertNote("starved", {end: dict(during=good)}, **{end: dict(during=bad)})
        # 66 bytes of headers are a segment's own.
        own = int(self.rate * 5 / 8) + 66 * 43000
        self.assertNote("other_traffic", dict(local=dict(during=dict(device_sent_bytes=own * 1.1))),
                        local=dict(during=dict(device_sent_bytes=own * 1.12)))
        self.assertNote("same_host", {}, local=dict(loopback=True))

    def test_no_fact_of_a_peer_makes_nonsense(self):
        random.seed(15)
        for _ in range(2000):
            facts = garbage(connection(from_file=0, mptcp=0))
            for name in random.sample(sorted(facts), 20):
                del facts[name]
            verdict = self.diagnose(facts, garbage(connection()), garbage(host()),
                                    dict(during=garbage(host()["during_test"])))
            text = "\n".join(pyperf3.verdict_lines(verdict))
            self.assertNotRegex(text, r"\b(nan|inf|None)\b|[0-9]{4} %")

    def test_what_a_real_iperf3_hides_is_said(self):
        verdict = self.diagnose(unknown=("remote_limits", "remote_host"))
        self.assertEqual(codes(verdict), ["unseen"])

    def test_no_figures_at_all(self):
        verdict = self.diagnose(unknown=("limits", "remote_limits", "host", "remote_host",
                                         "progress"))
        self.assertEqual(verdict[0]["code"], "unknown")
        self.assertEqual(codes(verdict), ["unseen", "unseen"])

    def test_what_one_path_of_several_does_is_not_taken_for_all(self):
        self.assertEqual(self.limit(dict(mptcp=True, busy_us=0)), "unknown")
        self.assertEqual(self.limit(dict(mptcp=True, rwnd_limited_us=5e6, max_snd_wnd=256000)),
                         "unknown")


if __name__ == "__main__":
    unittest.main()
