"""Two hosts: network namespaces with a link of 20 Mbit/s between them. Needs root and iproute2."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import field
import support

# Prints the TOS bytes of the TCP packets with payload that arrive, by sender, until killed.
SNIFFER = """
import socket, sys
sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
sock.settimeout(10)
seen = {}
while len(seen) < 2 or sum(seen.values()) < 400:
    data, (device, kind, packet, _, _) = sock.recvfrom(65536)
    ports = {int.from_bytes(data[at:at + 2], "big") for at in (20, 22)}
    if kind == 0x0800 and data[9] == 6 and len(data) > 1000 and ports & {7000, 7001}:
        seen[(packet, data[1])] = seen.get((packet, data[1]), 0) + 1
print(sorted({tos for _, tos in seen}))
"""


def make_hosts(a, b, script):
    """Make two hosts, network namespaces with these names, and what the shell script adds to them.

    Device v0 leads from each to the other: A is 10.9.0.1 and fd09::1, B 10.9.0.2 and .3, fd09::2
    and ::3. Raises SkipTest where that is not possible.
    """
    if os.geteuid() != 0 or not shutil.which("ip"):
        raise unittest.SkipTest("needs root and ip to make network namespaces")
    script = """
        ip netns add {a}; ip netns add {b}
        ip link add v0 netns {a} type veth peer name v0 netns {b}
        ip -n {a} addr add 10.9.0.1/24 dev v0; ip -n {a} addr add fd09::1/64 dev v0 nodad
        ip -n {b} addr add 10.9.0.2/24 dev v0; ip -n {b} addr add 10.9.0.3/24 dev v0
        ip -n {b} addr add fd09::2/64 dev v0 nodad; ip -n {b} addr add fd09::3/64 dev v0 nodad
        """ + script
    if subprocess.call(["sh", "-e", "-c", script.format(a=a, b=b)], stderr=subprocess.DEVNULL):
        support.remove_namespaces(a, b)
        raise unittest.SkipTest("network namespaces with veth and tbf cannot be made here")


class TwoHosts(unittest.TestCase):
    """A (10.9.0.1, fd09::1) and B (10.9.0.2 and .3, fd09::2 and ::3), which runs the server."""

    @classmethod
    def setUpClass(cls):
        cls.a, cls.b = "pya%d" % os.getpid(), "pyb%d" % os.getpid()
        make_hosts(cls.a, cls.b, """
            for n in {a} {b}; do
                ip -n $n link set lo up; ip -n $n link set v0 up
                ip netns exec $n tc qdisc add dev v0 root tbf rate 20mbit burst 32k latency 50ms
            done""")
        cls.server = support.Program(support.inside(cls.b) + support.OURS + ("-s",))
        cls.server.wait_for("Server listening on 5201")

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            cls.server.signal()
            cls.server.finish(20.0)
        support.remove_namespaces(cls.a, cls.b)

    def client(self, *arguments):
        left = support.run(support.inside(self.a) + support.OURS + ("-J", "-c") + arguments)
        self.assertEqual((left.code, left.err), (0, ""), left)
        return left.json()

    def test_amounts_over_a_slow_link_were_exceeded_by_a_part_of_a_block(self):
        for words in (("-n", "1M"), ("-k", "8"), ("-n", "1M", "--threads")):
            with self.subTest(words=words):
                end = self.client("10.9.0.2", *words)["end"]
                self.assertEqual((end["sum_sent"]["bytes"], end["sum_received"]["bytes"]),
                                 (1048576, 1048576))

    def test_amounts_over_a_slow_link_have_the_true_rate(self):
        for mode in ((), ("-R",)):
            for amount in (("-n", "3M"), ("-k", "24")):
                with self.subTest(mode=mode, amount=amount):
                    end = self.client("10.9.0.2", *(amount + mode))["end"]
                    self.assertGreaterEqual(end["sum_sent"]["bytes"], 3 * 2 ** 20)
                    for name in ("sum_sent", "sum_received"):
                        # the shaper lets 20 Mbit/s through, and 32 KB at once
                        self.assertLess(end[name]["bits_per_second"], 20.5e6)

    def test_counters_are_prompt_on_a_slow_link(self):
        for mode in ((), ("-R",)):
            with self.subTest(mode=mode):
                document = self.client("10.9.0.2", "-t", "2", "-i", "0.2", *mode)
                rows = document["intervals"][3:]
                self.assertTrue(all(row["sum"]["bytes"] for row in rows), rows)

    def test_both_families_and_both_addresses(self):
        for host in ("10.9.0.2", "10.9.0.3", "fd09::2"):
            connected = self.client(host, "-n", "100K")["start"]["connected"][0]
            self.assertEqual(connected["remote_host"], host)

    def test_datagrams_have_the_size_of_the_path(self):
        for host, length in (("10.9.0.2", 1448), ("fd09::2", 1428)):
            for mode in ((), ("-R",), ("--gsro",)):
                with self.subTest(host=host, mode=mode):
                    document = self.client(host, "-u", "-b", "5M", "-n", "100K", *mode)
                    self.assertEqual(document["start"]["test_start"]["blksize"], length)
                    self.assertGreaterEqual(document["end"]["sum_received"]["bytes"], 100 * 1024)
                    self.assertEqual(document["end"]["sum"]["lost_packets"], 0)

    def test_datagrams_to_each_address_are_answered_from_it(self):
        for host in ("10.9.0.2", "10.9.0.3", "fd09::2", "fd09::3"):
            for mode in ((), ("-R",), ("--bidir",)):
                with self.subTest(host=host, mode=mode):
                    document = self.client(host, "-u", "-b", "5M", "-n", "20K", *mode)
                    self.assertEqual({each["remote_host"]
                                      for each in document["start"]["connected"]}, {host})
                    self.assertGreater(document["end"]["sum_received"]["packets"], 0)

    def test_datagrams_lost_on_a_slow_link_are_no_losses_of_the_host(self):
        for mode in ((), ("-R",)):
            with self.subTest(mode=mode):
                end = self.client("10.9.0.2", "-u", "-b", "80M", "-t", "1", *mode)["end"]
                # 20 of 80 Mbit/s come through
                self.assertGreater(end["sum"]["lost_percent"], 30)
                self.assertLess(end["sum_received"]["bits_per_second"], 21e6)
                drops = {name: value for name, value in end["pyperf3"].items()
                         if name.endswith("dropped_packets")}
                self.assertEqual(set(drops.values()), {0})

    def test_limits_on_a_slow_link(self):
        for words, status, states in (
                ("-t 2 --min-bitrate 14M --max-rtt 1s", 0, ["ok", "ok"]),
                ("-t 2 --min-bitrate 20M --max-rtt 1ms", 4, ["failed", "failed"]),
                ("-t 2 -R --min-bitrate 20M/down --max-rtt 1s", 4, ["failed", "ok"]),
                ("-t 2 -R --min-bitrate 14M --max-rtt 1ms", 4, ["ok", "failed"]),
                ("-u -t 1 -b 80M --max-loss 30% --min-bitrate 14M", 4, ["ok", "failed"]),
                ("-u -t 1 -b 80M -R --max-loss 90% --max-jitter 1s", 0, ["ok", "ok"]),
                ("-u -t 1 -b 5M --max-loss 0% --max-jitter 1s", 0, ["ok", "ok"])):
            with self.subTest(words=words):
                left = support.run(support.inside(self.a) + support.OURS
                                   + ("-J", "-c", "10.9.0.2") + tuple(words.split()))
                checks = left.json()["end"]["pyperf3"]["checks"]
                self.assertEqual([each["state"] for each in checks], states, checks)
                self.assertEqual(left.code, status)

    def test_large_datagrams_are_fragmented_unless_that_is_forbidden(self):
        command = support.inside(self.a) + support.OURS + ("-u", "-c", "10.9.0.2", "-b", "5M", "-l",
                                                        "4000", "-n", "40000", "-J")
        left = support.run(command)
        self.assertEqual(left.code, 0, left)
        self.assertEqual(left.json()["end"]["sum_received"]["packets"], 10)
        self.assertIn("exceeds TCP MSS 1448", left.err)
        left = support.run(command + ("--dont-fragment",))
        self.assertEqual(left.code, 1, left)
        self.assertIn("Message too long", left.json()["error"])

    def test_device(self):
        for arguments in (("-B", "10.9.0.1%v0"), ("--bind-dev", "v0")):
            self.client("10.9.0.2", "-n", "100K", *arguments)
        left = support.run(support.inside(self.a) + support.OURS + (
            "-c", "10.9.0.2", "--bind-dev", "nosuch"))
        self.assertEqual((left.code, left.err.count("\n")), (1, 1))
        self.assertIn("unable to connect to server", left.err)
        self.assertIn("No such device", left.err)

    def test_type_of_service_marks_both_directions(self):
        sniffer = support.Program(support.inside(self.b) + (sys.executable, "-c", SNIFFER))
        with sniffer:
            time.sleep(0.5)
            self.client("10.9.0.2", "-t", "2", "--bidir", "--dscp", "ef", "--cport", "7000")
            self.assertEqual(sniffer.finish(20.0).out, "[184]\n")

    def test_link_that_goes_down_frees_a_server_that_sends_datagrams(self):
        with support.Program(support.inside(self.a) + support.OURS + (
                "-c", "10.9.0.2", "-u", "-R", "-b", "1M", "-t", "60", "-i", "0.5")) as client:
            client.wait_for("sec ")
            subprocess.check_call(["ip", "-n", self.a, "link", "set", "v0", "down"])
            try:
                time.sleep(12.0)
                left = support.run(support.inside(self.b) + support.OURS + (
                    "-c", "127.0.0.1", "-n", "1M"))
            finally:
                subprocess.check_call(["ip", "-n", self.a, "link", "set", "v0", "up"])
                client.signal(signal.SIGINT)
                client.finish(20.0)
                time.sleep(0.5)
        self.assertEqual((left.code, left.err), (0, ""))

    def test_link_that_goes_down_ends_in_time(self):
        left = None
        with support.Program(support.inside(self.a) + support.OURS + (
                "-c", "10.9.0.2", "-t", "2", "-i", "0.5")) as client:
            client.wait_for("sec ")
            subprocess.check_call(["ip", "-n", self.a, "link", "set", "v0", "down"])
            try:
                time.sleep(0.5)
                client.signal(signal.SIGINT)
                left = client.finish(10.0)
            finally:
                subprocess.check_call(["ip", "-n", self.a, "link", "set", "v0", "up"])
                time.sleep(0.5)
        self.assertEqual(left.code, 0, left)
        self.assertIn("interrupt - the client has terminated by signal Interrupt(2)", left.err)


class Outages(unittest.TestCase):
    """A (10.8.0.1), a router R whose other link has an MTU of 1300, and B (10.8.1.1)."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or not shutil.which("ip"):
            raise unittest.SkipTest("needs root and ip to make network namespaces")
        cls.names = ["pyo%s%d" % (letter, os.getpid()) for letter in "arb"]
        script = """
            for n in {a} {r} {b}; do ip netns add $n; ip -n $n link set lo up; done
            ip link add v0 netns {a} type veth peer name v0 netns {r}
            ip link add v1 netns {r} mtu 1300 type veth peer name v1 netns {b} mtu 1300
            ip -n {a} addr add 10.8.0.1/24 dev v0; ip -n {r} addr add 10.8.0.2/24 dev v0
            ip -n {b} addr add 10.8.1.1/24 dev v1; ip -n {r} addr add 10.8.1.2/24 dev v1
            ip -n {a} link set v0 up; ip -n {r} link set v0 up
            ip -n {r} link set v1 up; ip -n {b} link set v1 up
            ip -n {a} route add default via 10.8.0.2; ip -n {b} route add default via 10.8.1.2
            ip netns exec {r} sysctl -qw net.ipv4.ip_forward=1
            ip netns exec {a} sysctl -qw net.ipv4.route.mtu_expires=1
            """.format(**dict(zip("arb", cls.names)))
        if subprocess.call(["sh", "-e", "-c", script], stderr=subprocess.DEVNULL):
            support.remove_namespaces(*cls.names)
            raise unittest.SkipTest("network namespaces with veth cannot be made here")
        cls.a = cls.names[0]
        cls.server = support.Program(support.inside(cls.names[2]) + support.OURS + (
            "-s", "--max-clients", "8"))
        cls.server.wait_for("Server listening on 5201")

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            cls.server.signal()
            cls.server.finish(20.0)
        support.remove_namespaces(*cls.names)

    def command(self, *arguments):
        return support.inside(self.a) + support.OURS + (
            "-c", "10.8.1.1", "-u", "-b", "1M", "-l", "1000", "-i", "0.2") + arguments

    def without_route(self, seconds):
        """Take A's route to B away for a while."""
        words = ("ip", "-n", self.a, "route", "%s", "default", "via", "10.8.0.2")
        subprocess.check_call([word.replace("%s", "del") for word in words])
        time.sleep(seconds)
        subprocess.check_call([word.replace("%s", "add") for word in words])

    def assertRodeOut(self, left, least=0.3):
        self.assertEqual(left.code, 0, left)
        away, = re.findall(r"warning: the network was away for ([0-9.]+) seconds: ", left.err)
        self.assertGreaterEqual(float(away), least)
        row, = [line for line in left.lines() if line.endswith("receiver")]
        lost, total = map(int, re.search(r"(\d+)/(\d+) \(", row).groups())
        self.assertGreater(total, 20)
        self.assertLess(lost, 20)  # what could not be sent was not lost

    def test_route_that_was_away_for_a_second_ended_the_test(self):
        for more in ((), ("--no-sendmmsg",), ("--bidir",), ("--gsro", "-l", "500")):
            with self.subTest(arguments=more), \
                    support.Program(self.command("-t", "3", *more)) as client:
                client.wait_for("sec ", count=2)
                self.without_route(1.0)
                if "--bidir" in more:
                    left = client.finish()
                    self.assertEqual(left.code, 0, left)
                    self.assertIn("warning: the network was away for", left.err)
                else:
                    self.assertRodeOut(client.finish())

    def test_route_that_stays_away_is_named(self):
        with support.Program(self.command("-t", "60")) as client:
            client.wait_for("sec ", count=2)
            self.without_route(13.0)
            left = client.finish()
        self.assertEqual((left.code, left.err), (
            1, "iperf3: error - unable to write to stream socket: Network is unreachable for 10"
               " seconds\n"))

    def test_path_that_is_narrower_than_the_link_ended_the_test(self):
        for more in ((), ("--no-sendmmsg",), ("--gsro",)):
            with self.subTest(arguments=more):
                left = support.run(self.command("-l", "1400", "-t", "4", *more))
                self.assertEqual(left.code, 0, left)
                row, = [line for line in left.lines() if line.endswith("receiver")]
                lost, total = map(int, re.search(r"(\d+)/(\d+) \(", row).groups())
                self.assertLess(lost, total / 5)

    def test_path_that_is_too_narrow_for_ever_is_named(self):
        left = support.run(self.command("-l", "1600", "--dont-fragment", "-t", "20"))
        self.assertEqual(left.code, 1, left)
        self.assertTrue(left.err.endswith(
            "iperf3: error - unable to write to stream socket: Message too long: the path's MTU is"
            " 1500 bytes\n"), left.err)

    def test_firewall_that_refuses_for_a_while_ended_the_test(self):
        if not shutil.which("strace"):
            raise unittest.SkipTest("needs strace to make calls fail")
        for more, call in (((), "sendmmsg"), (("--no-sendmmsg",), "sendto")):
            with self.subTest(arguments=more):
                left = support.run(support.inside(self.a) + (
                    "strace", "-f", "-o", "/dev/null", "-e",
                    "inject=%s:error=EPERM:when=100..180" % call) + self.command(
                        "-t", "3", *more)[4:])
                if "PTRACE" in left.err:
                    raise unittest.SkipTest("strace may not trace here")
                self.assertRodeOut(left)


class QuicPaths(unittest.TestCase):
    """QUIC between A (10.7.0.1) and B (10.7.1.1), with a narrower link between two routers."""

    def make(self, link, middle, silent=False):
        """Make both, routers R and S between them, and links; returns the names of A and B."""
        if os.geteuid() != 0 or not shutil.which("ip"):
            raise unittest.SkipTest("needs root and ip to make network namespaces")
        names = ["pyq%s%d" % (letter, os.getpid()) for letter in "arsb"]
        self.addCleanup(support.remove_namespaces, *names)
        script = """
            for n in {a} {r} {s} {b}; do ip netns add $n; ip -n $n link set lo up; done
            ip link add v0 netns {a} mtu {link} type veth peer name v0 netns {r} mtu {link}
            ip link add v1 netns {r} mtu {middle} type veth peer name v1 netns {s} mtu {middle}
            ip link add v2 netns {s} mtu {link} type veth peer name v2 netns {b} mtu {link}
            ip -n {a} addr add 10.7.0.1/24 dev v0; ip -n {r} addr add 10.7.0.2/24 dev v0
            ip -n {r} addr add 10.7.2.1/24 dev v1; ip -n {s} addr add 10.7.2.2/24 dev v1
            ip -n {s} addr add 10.7.1.2/24 dev v2; ip -n {b} addr add 10.7.1.1/24 dev v2
            for d in v0 v1; do ip -n {r} link set $d up; done
            for d in v1 v2; do ip -n {s} link set $d up; done
            ip -n {a} link set v0 up; ip -n {b} link set v2 up
            ip -n {a} route add default via 10.7.0.2; ip -n {b} route add default via 10.7.1.2
            ip -n {r} route add default via 10.7.2.2; ip -n {s} route add default via 10.7.2.1
            for n in {r} {s}; do ip netns exec $n sysctl -qw net.ipv4.ip_forward=1; done
            """.format(link=link, middle=middle, **dict(zip("arsb", names)))
        if silent:  # no ICMP gets to the ends: TCP has to try for itself
            script += """
                ip -n {a} rule add iif v0 ipproto icmp prohibit pref 0
                ip -n {b} rule add iif v2 ipproto icmp prohibit pref 0
                ip -n {r} route add prohibit 10.7.0.1/32 table 9
                ip -n {s} route add prohibit 10.7.1.1/32 table 9
                ip -n {r} rule add iif lo ipproto icmp table 9 pref 0
                ip -n {s} rule add iif lo ipproto icmp table 9 pref 0
                """.format(**dict(zip("arsb", names)))
        if subprocess.call(["sh", "-e", "-c", script], stderr=subprocess.DEVNULL):
            raise unittest.SkipTest("network namespaces with veth cannot be made here")
        return names[0], names[3]

    def check(self, link, middle, silent, sizes):
        a, b = self.make(link, middle, silent)
        program = support.with_quic()
        with support.Program(support.inside(b) + program + ("-s",)) as server:
            server.wait_for("Server listening on 5201")
            for mode in ((), ("-R",)):
                left = support.run(support.inside(a) + program + (
                    "-c", "10.7.1.1", "--quic", "-n", "10M", "-J") + mode)
                self.assertEqual(left.code, 0, left)
                self.assertRegex(left.err, r"\A(warning: the QUIC handshake of stream 1 was"
                                           r" repeated: Message too long\n)?\Z")
                end = left.json()["end"]
                self.assertEqual(end["sum_received"]["bytes"], 10 << 20)
                self.assertIn(end["pyperf3"]["quic_streams"][0]["datagram_size"], sizes, mode)

    def test_ethernet(self):
        self.check(1500, 1500, False, [1472])

    def test_jumbo_frames(self):
        self.check(9000, 9000, False, [8972])

    def test_narrow_middle(self):
        self.check(9000, 1500, False, [1200, 1472])

    def test_narrow_middle_that_says_nothing(self):
        self.check(9000, 1500, True, [1200, 1472])


# Counts the larger TCP packets that pass v0, by version, direction and traffic class.
MARKS = """
import socket, sys
sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
sock.bind(("v0", 3))
sock.settimeout(20)
print("ready", flush=True)
seen = {}
while sum(count >= 5 for count in seen.values()) < 4:
    data, (_, kind, packet, _, _) = sock.recvfrom(65536)
    if len(data) > 1000 and kind in (0x0800, 0x86dd):
        version = data[0] >> 4
        mark = data[1] if version == 4 else (data[0] << 4 & 0xf0) | data[1] >> 4
        if data[9 if version == 4 else 6] == 6:
            key = (version, packet == 4, mark)
            seen[key] = seen.get(key, 0) + 1
print(sorted(key for key in seen if seen[key] >= 5))
"""


class Reported(field.Case):
    """Public reports about iperf3 and its like, each with the test that would have found it."""

    @classmethod
    def setUpClass(cls):
        cls.programs = []
        cls.a, cls.b = "pyfa%d" % os.getpid(), "pyfb%d" % os.getpid()
        make_hosts(cls.a, cls.b, """
            ip link add v1 netns {a} type veth peer name v1 netns {b}
            ip -n {a} addr add 10.9.1.1/24 dev v1; ip -n {b} addr add 10.9.1.2/24 dev v1
            for n in {a} {b}; do
                for d in lo v0 v1; do ip -n $n link set $d up; done
                ip netns exec $n tc qdisc add dev v1 root tbf rate 20mbit burst 32k latency 50ms
            done""")
        for port in (5201, 5202):
            server = support.Program(support.inside(cls.b) + support.OURS + (
                "-s", "-p", port, "--rcv-timeout", "2000"))
            cls.programs.append(server)
            server.wait_for("Server listening")
        # It takes longer than ten seconds: the other tests run meanwhile.
        cls.slow = support.Program(support.inside(cls.a) + support.OURS + (
            "-c", "10.9.1.2", "-p", "5202", "-n", "26M", "-J"))
        cls.programs.append(cls.slow)

    @classmethod
    def tearDownClass(cls):
        for program in cls.programs:
            program.__exit__()
        support.remove_namespaces(cls.a, cls.b)

    def reach(self, host, words):
        left = field.run(support.inside(self.a) + support.OURS + ("-J", "-c", host), words)
        self.assertEqual((left.code, left.err), (0, ""), left)
        return left.json()

    # B04: iperf3 #637, #505, #860, #2059; pscheduler #819
    def test_answer_from_another_address_of_the_server(self):
        for host in ("10.9.0.2", "10.9.0.3", "fd09::2", "fd09::3"):
            for words in ("-u -n 50K -b 10M", "-u -n 50K -b 10M -R"):
                total = self.reach(host, words)["end"]["sum_received"]
                self.assertGreaterEqual(total["bytes"], 50 * 1024)

    # B23: iperf3 #225, #416: the link goes down
    def test_link_that_goes_down(self):
        server = self.programs[0]
        count = server.out().count("(test #")
        with support.Program(support.inside(self.a) + support.OURS + (
                "-c", "10.9.0.2", "-t", "60", "-i", "0.2"), start_new_session=True) as program:
            program.wait_for("sec ")
            subprocess.check_call(["ip", "-n", self.a, "link", "set", "v0", "down"])
            try:
                server.wait_for("(test #", 30.0, count + 1)
                left = field.run(support.inside(self.b) + support.OURS, "-c 10.9.0.3 -n 1M")
            finally:
                os.killpg(program.pid, signal.SIGKILL)
                subprocess.check_call(["ip", "-n", self.a, "link", "set", "v0", "up"])
                # nodad does not outlive the link
                subprocess.call(["ip", "-n", self.a, "addr", "add", "fd09::1/64", "dev", "v0",
                                 "nodad"], stderr=subprocess.DEVNULL)
        self.assertEqual((left.code, left.err), (0, ""), left)

    # B21: iperf3 #596, #768: an amount on a slow link
    def test_slow_link_an_amount_takes_the_time_it_takes(self):
        left = self.slow.finish(60.0)
        self.assertEqual((left.code, left.err), (0, ""), left)
        end = left.json()["end"]
        self.assertGreaterEqual(end["sum_received"]["bytes"], 26 * 2 ** 20)
        self.assertGreater(end["sum_received"]["seconds"], 10.0)

    # B50: iperf3 #638, PR #2047: both directions, and sockets of both families
    def test_type_of_service_of_packets(self):
        with support.Program(support.inside(self.b) + (sys.executable, "-c", MARKS)) as sniffer:
            sniffer.wait_for("ready")
            for host in ("10.9.0.2", "fd09::2"):
                self.reach(host, "-t 1 -b 50M --bidir -S 0xb8")
            self.assertEqual(sniffer.finish(30.0).out.split("\n")[1], str(
                [(version, sent, 184) for version in (4, 6) for sent in (False, True)]))

    # B65: iperf3 #496: the size that fits the path
    def test_block_size_of_an_ethernet(self):
        for host, length in (("10.9.0.2", 1448), ("fd09::2", 1428)):
            document = self.reach(host, "-u -n 50K -b 10M")
            self.assertEqual(document["start"]["test_start"]["blksize"], length)

    # B46: iperf3 #1037: IPv6 switched off; sockets that are IPv6 only by default
    def test_settings_of_the_system(self):
        for words in ("net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.bindv6only=1"):
            name = "pyfc%d" % os.getpid()
            inside = support.inside(name)
            self.addCleanup(subprocess.call, ["ip", "netns", "del", name],
                            stderr=subprocess.DEVNULL)
            subprocess.check_call(["ip", "netns", "add", name])
            subprocess.check_call(["ip", "-n", name, "link", "set", "lo", "up"])
            if subprocess.call(inside + ("sysctl", "-qw", words), stderr=subprocess.DEVNULL):
                raise unittest.SkipTest("no such setting here: " + words)
            with support.Program(inside + support.OURS + ("-s",)) as server:
                server.wait_for("Server listening on 5201")
                for more in ("-n 1M", "-u -n 10K"):
                    left = field.run(inside + support.OURS, "-c 127.0.0.1 " + more)
                    self.assertEqual((left.code, left.err), (0, ""), left)
            subprocess.check_call(["ip", "netns", "del", name])


if __name__ == "__main__":
    sys.exit(unittest.main())
