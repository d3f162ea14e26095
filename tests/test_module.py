"""`import pyperf3`: the names of the package `iperf3`, and many tests in one process."""

import contextlib
import io
import itertools
import signal
import sys
import threading
import unittest

import field
import pyperf3
import support

ALWAYS = ("text json error time timesecs system_info version local_host local_port remote_host"
          " remote_port reverse type protocol num_streams blksize omit duration local_cpu_total"
          " local_cpu_user local_cpu_system remote_cpu_total remote_cpu_user"
          " remote_cpu_system").split()
TCP = ["tcp_mss_default", "retransmits"] + [
    side + name for side in ("sent_", "received_")
    for name in ("bytes", "bps", "kbps", "Mbps", "kB_s", "MB_s")]
UDP = ("bytes bps jitter_ms kbps Mbps kB_s MB_s packets lost_packets lost_percent"
       " seconds").split()


class Pair:
    """An AttributeServer in a thread that serves one test."""

    def __init__(self):
        self.server = pyperf3.Server()
        self.server.bind_address = "127.0.0.1"
        self.server.port = support.free_port()
        self.result = None
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        while not support.listens(self.server.port):
            pass

    def _serve(self):
        self.result = self.server.run()

    def finish(self):
        self._thread.join(20.0)
        return self.result

    def client(self, **attributes):
        client = pyperf3.Client()
        client.server_hostname, client.port = "127.0.0.1", self.server.port
        for name, value in attributes.items():
            setattr(client, name, value)
        return client


class Attributes(unittest.TestCase):
    """Client() and Server() without settings."""

    def test_tcp(self):
        pair = Pair()
        result = pair.client(duration=1, num_streams=2, blksize=100000, bandwidth=10 ** 7).run()
        served = pair.finish()
        for each, kind in ((result, "client"), (served, "server")):
            with self.subTest(kind=kind):
                self.assertIsNone(each.error)
                for name in ALWAYS + TCP:
                    if name not in ("error", "retransmits"):
                        self.assertIsNotNone(getattr(each, name), name)
                self.assertEqual((each.type, each.protocol, each.num_streams, each.blksize),
                                 (kind, "TCP", 2, 100000))
                self.assertEqual((each.duration, each.omit, each.reverse), (1, 0, 0))
                self.assertAlmostEqual(each.received_Mbps, each.received_bps / 1e6)
                self.assertAlmostEqual(each.received_MB_s, each.received_bps / 8 / 2 ** 20)
                self.assertGreater(each.received_bytes, 1000000)
                self.assertEqual(each.json["start"]["version"], each.version)
        self.assertIsInstance(result.retransmits, int)
        self.assertEqual(served.remote_host, "127.0.0.1")
        self.assertEqual(result.json["start"]["cookie"], served.json["start"]["cookie"])

    def test_udp(self):
        pair = Pair()
        result = pair.client(duration=1, protocol="udp", bulksize=1000, bandwidth=10 ** 6,
                             reverse=True, verbose=False).run()
        self.assertIsNone(result.error)
        for name in ALWAYS + UDP:
            if name != "error":
                self.assertIsNotNone(getattr(result, name), name)
        self.assertEqual((result.lost_packets, result.lost_percent, result.reverse), (0, 0, 1))
        self.assertGreater(result.packets, 20)  # of 125, on a busy host
        self.assertEqual(pair.finish().packets, result.packets)

    def test_a_failure_is_a_result(self):
        client = pyperf3.Client()
        self.assertEqual(client.run().error, "must either be a client (-c) or server (-s)")
        client.server_hostname, client.port = "127.0.0.1", support.free_port()
        result = client.run()
        self.assertRegex(result.error, "^unable to connect to server - .*: Connection refused$")
        for name in ALWAYS + TCP + UDP:
            self.assertTrue(hasattr(result, name), name)
        self.assertEqual(result.json["error"], result.error)
        client.num_streams = 129
        self.assertIn("number of parallel streams", client.run().error)

    def test_server_reports_a_client_that_was_killed(self):
        pair = Pair()
        with support.Program(support.OURS + ("-c", "127.0.0.1", "-p", pair.server.port)) as client:
            client.wait_for("sec ")
            client.process.kill()
            self.assertEqual(pair.finish().error, "the client has unexpectedly closed the"
                                                  " connection")

    def test_port_in_use_and_stop(self):
        pair = Pair()
        other = pyperf3.Server()
        other.bind_address, other.port = "127.0.0.1", pair.server.port
        self.assertIn("Address already in use", other.run().error)
        pair.server.stop()
        self.assertIn("interrupt - the server has terminated", pair.finish().error)

    def test_without_json_the_text_is_printed_and_nothing_returned(self):
        pair, out = Pair(), io.StringIO()
        client = pair.client(duration=1, json_output=False, verbose=False)
        with contextlib.redirect_stdout(out):
            self.assertIsNone(client.run())
        self.assertRegex(out.getvalue(), r"\AConnecting to host 127\.0\.0\.1, port \d+\n\[")
        self.assertEqual(client._errno, 0)
        self.assertIsNone(pair.finish().error)
        err = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.assertIsNone(client.run())  # the server is gone
        self.assertEqual(client._errno, 103)
        self.assertIn("iperf3: error - unable to connect to server", err.getvalue())

    def test_values_before_any_is_given(self):
        """Bandwidth and blksize were None, and the address to bind to, too."""
        client, server = pyperf3.Client(), pyperf3.Server()
        for each, role in ((client, "c"), (server, "s")):
            self.assertEqual((each.role, each.bind_address, each.port, each.json_output,
                              each.verbose, each._errno), (role, "*", 5201, True, True, 0))
            self.assertEqual(each.iperf_version, pyperf3.VERSION_TEXT)
            self.assertTrue(each._test)
            self.assertIsInstance(each, pyperf3.IPerf3)
        self.assertEqual((client.server_hostname, client.bandwidth, client.blksize,
                          client.bulksize, client.protocol, client.reverse, client.zerocopy,
                          client.duration, client.num_streams, client.omit),
                         (None, 0, 131072, 131072, "tcp", False, False, 10, 1, 0))
        client.duration, client.blksize = 3, 7
        client.defaults()
        self.assertEqual((client.duration, client.blksize), (10, 131072))

    def test_values_are_read_as_that_package_does(self):
        client = pyperf3.Client(verbose=0)
        for name, given, read in (
                ("bind_address", "127.0.0.1", "127.0.0.1"), ("bind_address", "", "*"),
                ("server_hostname", "localhost", "localhost"), ("server_hostname", "", None),
                ("port", "666", 666), ("reverse", 1, True), ("json_output", 0, False),
                ("verbose", 1, True), ("zerocopy", 1, pyperf3.CAN_SEND_FILES), ("omit", 666, 666),
                ("duration", 666, 666), ("num_streams", 666, 666), ("bandwidth", 1, 1),
                ("bulksize", 666, 666), ("blksize", 10 ** 6, 10 ** 6), ("role", "S", "s")):
            with self.subTest(name=name, given=given):
                setattr(client, name, given)
                self.assertEqual(getattr(client, name), read)
                self.assertIs(type(getattr(client, name)), type(read))
        with self.assertRaises(ValueError):
            client.role = "bla"

    def test_blocks_of_datagrams_fit_into_one(self):
        client = pyperf3.Client()
        client.protocol = "udp"
        self.assertEqual(client.blksize, 65507)
        for given, read in ((65508, 65507), (10 ** 6, 65507), (65507, 65507), (1000, 1000)):
            client.blksize = given
            self.assertEqual(client.blksize, read)
        client.protocol = "tcp"
        self.assertEqual((client.protocol, client.blksize), ("tcp", 1000))
        client.bulksize = 10 ** 6
        client.protocol = "UDP"
        self.assertEqual((client.protocol, client.blksize), ("udp", 65507))

    def test_the_class_of_both_runs_nothing(self):
        with self.assertRaises(NotImplementedError):
            pyperf3.IPerf3(role="c").run()
        with self.assertRaises(ValueError):
            pyperf3.IPerf3(role="bla")
        self.assertIs(type(pyperf3.Client(lib_name="libiperf.so.0")), pyperf3.AttributeClient)

    def test_texts_of_errors(self):
        client = pyperf3.Client()
        self.assertEqual(client._error_to_string(1), "cannot be both server and client")
        client.server_hostname, client.port = "127.0.0.1", support.free_port()
        result = client.run()
        self.assertEqual((client._errno, client._error_to_string(103)), (103, result.error))
        self.assertIn(": Connection refused", result.error)

    def test_datagrams_without_a_bandwidth_are_unlimited(self):
        """They went at the command line's 1 Mbit/s: monitors showed that figure for ever."""
        pair = Pair()
        result = pair.client(duration=1, protocol="udp").run()
        self.assertIsNone(result.error)
        self.assertEqual(result.json["start"]["test_start"]["target_bitrate"], 0)
        self.assertEqual(result.blksize, 65507)
        self.assertGreater(result.Mbps, 20)
        self.assertEqual(pair.finish().blksize, 65507)

    def test_programs_that_import_iperf3(self):
        code = """
import sys, pyperf3
sys.modules["iperf3"] = pyperf3
import iperf3
from iperf3 import Client, IPerf3, Server, TestResult
client = iperf3.Client()
client.server_hostname, client.port, client.duration = "127.0.0.1", int(sys.argv[1]), 1
client.reverse = True
result = client.run()
assert isinstance(result, TestResult) and isinstance(client, (IPerf3, Client)), result
print(result.error, result.reverse, result.type, result.received_Mbps > 0, result.remote_port)
"""
        server, port = support.start_server(support.OURS, "-1")
        with server:
            left = support.run((sys.executable, "-c", code, port),
                               env=support.environment(PYTHONPATH=support.LIBRARY))
        self.assertEqual((left.out, left.err), ("None True client True %d\n" % port, ""))

    def test_they_are_clients_and_servers(self):
        self.assertIsInstance(pyperf3.Client(), pyperf3.Client)
        self.assertIsInstance(pyperf3.Client(settings=None), pyperf3.AttributeClient)
        self.assertIsInstance(pyperf3.Server(True, lib_name="libiperf.so"), pyperf3.Server)
        self.assertIsInstance(pyperf3.Server(settings=None), pyperf3.AttributeServer)
        pair = Pair()
        names = [event["event"] for event in pair.client(duration=1)]
        self.assertEqual((names[0], names[-1]), ("version", "done"))
        pair.finish()


class Derived(unittest.TestCase):
    """Classes of a user's own; they were replaced by ours when called without settings."""

    def test_of_each(self):
        class OwnClient(pyperf3.Client):
            def __init__(self):
                super().__init__(pyperf3.Settings(client="127.0.0.1", bytes="1M"))

        class OwnServer(pyperf3.Server):
            def __init__(self, port):
                super().__init__(pyperf3.Settings(server=True, port=port))

        class ByAttributes(pyperf3.AttributeClient):
            def __init__(self, host):
                super().__init__()
                self.server_hostname = host

        for made, kind in ((OwnClient(), OwnClient), (OwnServer(support.free_port()), OwnServer),
                           (ByAttributes("127.0.0.1"), ByAttributes)):
            self.assertIs(type(made), kind)
        self.assertEqual(made.server_hostname, "127.0.0.1")


class SlowReaders(unittest.TestCase):
    def test_streams_were_paused_while_the_caller_did_something_else(self):
        """Workers took a program that was busy for some seconds for one that was stopped."""
        code = """
import sys, time, pyperf3
settings = pyperf3.Settings(client="127.0.0.1", port=int(sys.argv[1]), time=6, bitrate="4M",
                            length="1K", interval=1)
for event in pyperf3.Client(settings):
    if event["event"] == "interval":
        time.sleep(5)
    if event["event"] == "end":
        print(event["data"]["sum_sent"]["bytes"], event["data"]["sum_sent"]["seconds"])
"""
        server, port = support.start_server(support.OURS, "-1")
        with server:
            left = support.run((sys.executable, "-c", code, port),
                               env=support.environment(PYTHONPATH=support.LIBRARY))
        self.assertEqual(left.code, 0, left)
        count, seconds = left.out.split()
        self.assertGreater(int(count) * 8 / float(seconds), 0.8 * 4e6)


class OneLoop(support.ServerCase):
    def test_clients_that_share_a_loop(self):
        port, loop = self.serve("--max-clients", "2"), pyperf3.Loop()
        self.addCleanup(loop.close)

        def client(amount):
            return pyperf3.Client(pyperf3.Settings(
                client="127.0.0.1", port=port, bytes=amount, bitrate="8M"), loop)
        clients = [client("1M"), client("2M")]
        seen = [list(filter(None, events)) for events in zip(*itertools.zip_longest(*clients))]
        for each, events in zip(clients, seen):
            self.assertIsNone(each.error)
            self.assertEqual([events[0]["event"], events[-1]["event"]], ["version", "done"])
        first, second = [next(event["data"] for event in events if event["event"] == "start")
                         ["timestamp"]["timemillisecs"] for events in seen]
        self.assertLess(abs(second - first), 900)  # a test takes a second and more
        # One that is left in the middle leaves nothing in the loop.
        events = iter(client("90M"))
        self.assertIn("start", (event["event"] for event in events))
        events.close()
        client("1M").run()
        self.assertFalse(loop._waiting or loop._ready)


class ManyInOneProcess(unittest.TestCase):
    def test_fifty_runs_of_two_clients_and_a_server_in_threads(self):
        code = """
import gc, os, signal, sys, threading, time
import pyperf3
def figures():
    gc.collect()  # clients are in cycles; by chance 2.2 to 3.4 MB of them wait for it
    end = time.monotonic() + 20
    while server.places.connections and time.monotonic() < end:
        time.sleep(0.01)  # the last ones are closing
    gc.collect()  # what is only not collected yet is no leak
    with open("/proc/self/status") as file:
        memory = [line.split()[1] for line in file if line.startswith("VmRSS")]
    return int(memory[0]), threading.active_count(), len(os.listdir("/proc/self/fd"))
port, failures = int(sys.argv[1]), []
server = pyperf3.Server(pyperf3.Settings(server=True, port=port, bind="127.0.0.1",
                                         max_clients=2))
events = iter(server)
next(events)
thread = threading.Thread(target=lambda: [None for _ in events])
thread.start()
def client(count, **more):
    try:
        for _ in range(count):
            got = pyperf3.Client(pyperf3.Settings(client="127.0.0.1", port=port, bytes="1M",
                                                  **more)).run()
            assert got["end"]["sum_received"]["bytes"] >= 1048576, got["end"]
    except BaseException as error:
        failures.append(repr(error))
for count in (5, 20):
    threads = [threading.Thread(target=client, args=(count,)),
               threading.Thread(target=client, args=(count,), kwargs={"reverse": True})]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    if count == 5:
        before = figures()
after = figures()
server.stop()
thread.join(10)
if after[0] > before[0] + 1500 or after[1:] != before[1:]:
    failures.append((before, after))
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    if signal.getsignal(getattr(signal, name)) not in (
            signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler):
        failures.append(name)
sys.exit("%r" % failures if failures else 0)
"""
        left = support.run((sys.executable, "-B", "-W", "error", "-c", code,
                            str(support.free_port())),
                           env=support.environment(PYTHONPATH=support.LIBRARY))
        self.assertEqual((left.code, left.out, left.err), (0, "", ""), left)


class Reported(field.Case):
    """Public reports about iperf3 and its like, each with the test that would have found it."""

    # B56: iperf3-python #37, #50; Home Assistant runs clients in threads
    def test_runs_again_and_again_and_in_threads(self):
        code = """
import os, signal, socket, sys, threading, tracemalloc
import pyperf3
failures = []
def state():
    return (socket.getdefaulttimeout(), sys.getswitchinterval(), threading.active_count(),
            [signal.getsignal(number) for number in (2, 13, 15)], os.getcwd(),
            len(os.listdir("/proc/self/fd")))
def serve(port):
    server = pyperf3.Server(pyperf3.Settings(server=True, bind="127.0.0.1", port=port))
    events = iter(server)
    next(events)
    thread = threading.Thread(target=lambda: [None for _ in events])
    thread.start()
    return server, thread
def client(port, times=1, **more):
    try:
        for _ in range(times):
            got = pyperf3.Client(pyperf3.Settings(client="127.0.0.1", port=port, bytes="100K",
                                                  **more)).run()
            assert got["end"]["sum_received"]["bytes"] >= 102400, got["end"]
    except BaseException as error:
        failures.append(repr(error))
ports = [int(word) for word in sys.argv[1:]]
before = state()
servers = [serve(port) for port in ports[:2]]
client(ports[0], 10)
tracemalloc.start()
client(ports[0], 3)
low = tracemalloc.get_traced_memory()[0]
client(ports[0], 20)
high = tracemalloc.get_traced_memory()[0]
tracemalloc.stop()
threads = [threading.Thread(target=client, args=(port, 5), kwargs={"reverse": True})
           for port in ports[:2]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for _ in range(3):
    try:
        pyperf3.Client(pyperf3.Settings(client="127.0.0.1", port=ports[2])).run()
        failures.append("no error")
    except pyperf3.IperfError as error:
        if error.number != 103:
            failures.append(repr(error))
client(ports[0])
for server, thread in servers:
    server.stop()
    thread.join()
after = state()
if failures or before != after or high - low > 1000000:
    sys.exit("%r" % ((failures, before, after, high - low),))
"""
        ports = tuple(support.free_port() for _ in range(3))
        left = support.run((sys.executable, "-B", "-W", "error", "-c", code) + ports,
                           env=support.environment(PYTHONPATH=support.LIBRARY))
        self.assertEqual((left.code, left.out, left.err), (0, "", ""), left)

    # B58: iperf3 #7, #1205; iperf3-python #29
    def test_a_library_does_not_end_the_process(self):
        def fail(**values):
            with self.assertRaises(pyperf3.IperfError) as caught:
                pyperf3.Client(pyperf3.Settings(**values)).run()
            return caught.exception
        error = fail(client="127.0.0.1", port=support.free_port())
        self.assertEqual((error.number, str(error), error.document["end"]),
                         (103, field.REFUSED, {}))
        error = fail(client="no-such-host.invalid")
        self.assertEqual(error.number, 103)
        self.assertEqual(fail(client="127.0.0.1", parallel=1000).number, 6)
        self.assertEqual(fail(client="127.0.0.1", length="x").number, 38)
        server, port = self.serve()
        timer = threading.Timer(1.0, server.signal, (signal.SIGKILL,))
        timer.start()
        error = fail(client="127.0.0.1", port=port, time=60, interval=0.1, bitrate="10M")
        timer.join()
        self.assertEqual((error.number, str(error)), (109, field.CLOSED))
        self.assertGreater(len(error.document["intervals"]), 1)


if __name__ == "__main__":
    unittest.main()
