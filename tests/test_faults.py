"""Faults that were there once. Each test is named after what went wrong."""

import json
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest

import field
import pyperf3
import support
from fakes import COOKIE, PARAMETERS, FakeServer, connect, frame, receive


class OneServer(unittest.TestCase):
    def setUp(self):
        self.server, self.port = support.start_server(support.OURS)
        self.addCleanup(self.server.__exit__)

    def converse(self, **more):
        """Send a client's beginning; return the control connection."""
        control = connect(self.port)
        self.addCleanup(control.close)
        control.sendall(COOKIE + frame(dict(PARAMETERS, **more)))
        return control

    def stream(self):
        data = connect(self.port)
        self.addCleanup(data.close)
        data.sendall(COOKIE)
        return data

    def check_alive(self):
        left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", self.port, "-n", "1M"))
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertNotIn("Traceback", self.server.err())

    def test_enormous_amounts_overflowed_a_slot_and_ended_the_server(self):
        for more in ({"blockcount": 10 ** 15}, {"num": 2 ** 63 - 1}, {"num": 2 ** 63 - 1024}):
            control = self.converse(reverse=True, **more)
            self.assertEqual(receive(control, 2), b"\x09\x0a")
            data = self.stream()
            self.assertEqual(receive(control, 2), b"\x01\x02")
            self.assertTrue(receive(data, 1000))
            control.sendall(b"\x0c")
            receive(control, 100)
            data.close()
        self.check_alive()

    def test_congestion_name_that_is_no_text_ended_the_server(self):
        control = self.converse(congestion="\ud800")
        self.assertEqual(receive(control, 2), b"\x09\x0a")
        self.stream()
        self.assertEqual(receive(control, 2), b"\x01\x02")
        control.close()
        self.check_alive()

    def test_extra_data_connection_was_asked_for_parameters(self):
        control = self.converse()
        self.assertEqual(receive(control, 2), b"\x09\x0a")
        self.stream()
        self.assertEqual(receive(control, 2), b"\x01\x02")
        extra = connect(self.port)
        self.addCleanup(extra.close)
        extra.sendall(COOKIE)
        self.assertEqual(receive(extra, 10), b"\xff")
        control.close()
        self.check_alive()

    def test_data_connections_broke_before_the_reason_came(self):
        control = self.converse(parallel=32)
        self.assertEqual(receive(control, 2), b"\x09\x0a")
        first = [self.stream() for _ in range(32)][0]
        self.assertEqual(receive(control, 2), b"\x01\x02")
        control.sendall(b"\x55")  # no state
        self.assertEqual(first.recv(1), b"")
        control.setblocking(False)
        self.assertEqual(control.recv(5), b"\xfe\0\0\0\x6e")  # error 110
        self.check_alive()

    @unittest.skipUnless(sys.platform.startswith("linux"), "needs /proc")
    def test_last_blocks_of_several_streams_were_not_counted(self):
        """Streams that count together send a few blocks more than the amount."""
        control = self.converse(parallel=2, num=1000, time=0, len=1000)
        self.assertEqual(receive(control, 2), b"\x09\x0a")
        streams = [self.stream(), self.stream()]
        self.assertEqual(receive(control, 2), b"\x01\x02")
        late = max(support.children(self.server.pid))
        os.kill(late, signal.SIGSTOP)
        support.wait_until(lambda: pyperf3.is_stopped(late), "a stopped worker")
        for sock in streams:
            sock.sendall(b"x" * 1000)
        control.sendall(b"\x04")
        time.sleep(0.1)
        os.kill(late, signal.SIGCONT)
        self.check_counts(control, 1000, 1000)

    @unittest.skipUnless(sys.platform.startswith("linux"), "needs /proc")
    def test_last_blocks_of_a_round_were_not_counted(self):
        """The one stream of an iperf3 3.9 sends more than the amount, ten blocks at a time."""
        control = self.converse(num=1000, time=0, len=1000)
        self.assertEqual(receive(control, 2), b"\x09\x0a")
        sock = self.stream()
        self.assertEqual(receive(control, 2), b"\x01\x02")
        sock.sendall(b"x" * 1000)
        time.sleep(0.2)
        late = max(support.children(self.server.pid))
        os.kill(late, signal.SIGSTOP)
        support.wait_until(lambda: pyperf3.is_stopped(late), "a stopped worker")
        sock.sendall(b"x" * 1000)
        control.sendall(b"\x04")
        time.sleep(0.1)
        os.kill(late, signal.SIGCONT)
        self.check_counts(control, 2000)

    def check_counts(self, control, *counts):
        """Exchange the results of a test whose streams sent so many bytes, all of them received."""
        self.assertEqual(receive(control, 1), b"\x0d")
        control.sendall(frame({
            "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0,
            "sender_has_retransmits": 0, "streams": [
                dict(id=number, bytes=count, retransmits=0, jitter=0, errors=0, packets=0)
                for number, count in zip((1, 3), counts)]}))
        size, = struct.unpack("!I", receive(control, 4))
        rows = json.loads(receive(control, size).decode("ascii"))["streams"]
        self.assertEqual([row["bytes"] for row in rows], list(counts))
        control.sendall(b"\x10")
        self.check_alive()

    def finish_test_without_closing(self):
        control = self.converse()
        self.assertEqual(receive(control, 2), b"\x09\x0a")
        self.stream()
        self.assertEqual(receive(control, 2), b"\x01\x02")
        control.sendall(b"\x04" + frame({
            "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0,
            "sender_has_retransmits": 1, "streams": []}) + b"\x10")
        receive(control, 1)
        size, = struct.unpack("!I", receive(control, 4))
        receive(control, size + 1)
        return control

    def test_signal_while_a_finished_client_had_not_closed_was_a_traceback(self):
        self.finish_test_without_closing()
        self.server.wait_for("test #2")
        self.server.signal(signal.SIGINT)
        left = self.server.finish(20.0)
        self.assertEqual((left.code, left.err), (
            0, "iperf3: interrupt - the server has terminated by signal Interrupt(2)\n"), left)

    def test_stopped_server_waited_for_handshakes_and_took_new_ones(self):
        silent = [connect(self.port) for _ in range(3)]
        silent[1].sendall(COOKIE)
        self.assertEqual(receive(silent[1], 1), b"\x09")
        self.server.signal(signal.SIGTERM)
        left = self.server.finish(8.0)  # a handshake has ten seconds
        self.assertEqual(left.code, 0)
        self.assertEqual(left.err.count("\n"), 1, left)
        for sock in silent:
            sock.close()


class Client(unittest.TestCase):
    def test_negative_amount_was_a_traceback(self):
        with support.Program(support.OURS + ("--loopback", "-n", "-1", "-i", "0.2")) as program:
            program.wait_for("sec ")
            program.signal(signal.SIGINT)
            left = program.finish(10.0)
        self.assertEqual(left.code, 0, left)
        self.assertNotIn("Traceback", left.err)

    def test_server_error_while_streams_connect_was_a_traceback(self):
        def play(sock):
            receive(sock, 37)
            sock.sendall(b"\x09")
            receive(sock, struct.unpack("!I", receive(sock, 4))[0])
            server.stop_listening()
            sock.sendall(b"\x0a")
            time.sleep(0.05)
            sock.sendall(b"\xfe" + struct.pack("!ii", 202, 93))
        server = FakeServer(play)
        server.stop_listening = server._listener.close
        with server:
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", server.port, "-t", "1"))
        self.assertEqual(left.code, 1, left)
        self.assertIn("iperf3: SERVER ERROR - unable to start stream listener: Protocol not"
                      " supported", left.err)
        self.assertNotIn("Traceback", left.err)

    def test_reverse_amount_with_omit_waited_for_bytes_that_had_been_omitted(self):
        for _ in range(4):
            left = support.run(support.OURS + ("--loopback", "-R", "-b", "1500M", "-l", "16K",
                                               "-n", "50M", "-O", "1", "-i", "0"), 30.0)
            self.assertEqual((left.code, left.err), (0, ""), left)

    def late_closer(self, arguments, number):
        """Signal a client whose server delivers everything but its end of file."""
        state = {"connections": 0}

        def play(sock):
            state["connections"] += 1
            if state["connections"] > 1:
                state["data"] = sock
                threading.Thread(target=drain, args=(sock,), daemon=True).start()
                return
            receive(sock, 37)
            sock.sendall(b"\x09")
            receive(sock, struct.unpack("!I", receive(sock, 4))[0])
            sock.sendall(b"\x0a")
            threading.Thread(target=go_on, args=(sock,), daemon=True).start()

        def drain(sock):
            while sock.recv(1 << 20):
                pass

        def go_on(sock):
            while state["connections"] < 2:
                time.sleep(0.01)
            sock.sendall(b"\x01\x02")
            receive(sock, 1)
            sock.sendall(b"\x0d")
            receive(sock, struct.unpack("!I", receive(sock, 4))[0])
            sock.sendall(frame({
                "cpu_util_total": 1, "cpu_util_user": 1, "cpu_util_system": 1,
                "sender_has_retransmits": -1, "streams": []}) + b"\x0e")
            receive(sock, 1)
            state["done"] = True
        with FakeServer(play) as server:
            with support.Program(support.OURS + ("-c", "127.0.0.1", "-p", server.port, "-n",
                                                 "100K") + arguments) as client:
                deadline = time.monotonic() + 10.0
                while "done" not in state and time.monotonic() < deadline:
                    time.sleep(0.005)
                time.sleep(0.1)
                client.signal(number)
                return client.finish(10.0)

    def test_signal_while_the_server_had_not_closed_printed_all_twice(self):
        left = self.late_closer((), signal.SIGINT)
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertEqual(left.out.count("sender"), 1)
        self.assertTrue(left.out.endswith("iperf Done.\n"))

    def test_signal_while_the_server_had_not_closed_lost_the_document(self):
        left = self.late_closer(("-J",), signal.SIGTERM)
        self.assertEqual((left.code, left.err), (0, ""), left)
        self.assertTrue(left.json()["end"]["streams"])

    def test_deep_documents_were_a_traceback(self):
        for depth in (101, 340, 600):
            with self.assertRaises(ValueError):
                support.decode_json(b"[" * depth + b"]" * depth)

    def test_lone_surrogates_came_out_as_bytes_that_are_no_utf8(self):
        for text, expected in ((r"\udcff", "?"), (r"\ud83d\ude00", "\U0001f600"), (r"\ud83d", "?"),
                               (r"\\udcff", r"\udcff"), (r"\ud83d\ud83d\ude00", "?\U0001f600")):
            with self.subTest(text=text):
                value = support.decode_json(b'"' + text.encode("ascii") + b'"')
                self.assertEqual(value, expected)

    def test_a_peers_text_could_steer_the_terminal(self):
        results = {"cpu_util_total": 1, "cpu_util_user": 1, "cpu_util_system": 1,
                   "sender_has_retransmits": -1, "streams": []}
        for name in ("\x1b[2J", "cu\nbic", "c\x7f", "\x9b1m", "x" * 65):
            found = pyperf3.results_from_json(dict(results, congestion_used=name), [1])
            self.assertIsNone(found.congestion)
        self.assertNotRegex(pyperf3.document_text("x", {"a\x9b": "\x7f"}), "[\x7f\x9b]")
        renderer = pyperf3.TextRenderer()
        renderer.render({"event": "server_output_json", "data": {"a": "\x9b31m\x7f"}})
        self.assertNotRegex("".join(renderer._server_output), "[\x7f\x9b]")


class EarlyEnds(unittest.TestCase):
    """Whatever ends a test, what was measured is summarised, at both ends."""

    def kill_server(self, *arguments):
        """Kill the server of a running test; returns what the client left."""
        server, port = support.start_server(support.OURS)
        with server, support.Program(support.OURS + (
                "-c", "127.0.0.1", "-p", port, "-t", "30", "-b", "20M") + arguments) as client:
            server.wait_for("bits/sec", 30.0)
            server.signal(signal.SIGKILL)
            return client.finish(30.0)

    def test_client_whose_server_died_had_no_summary(self):
        for more, rows in (((), 2), (("-R",), 2), (("-P", "2", "--bidir"), 12)):
            with self.subTest(more=more):
                left = self.kill_server(*more)
                self.assertEqual((left.code, left.err.count("iperf3: error - ")), (1, 1), left)
                _, rule, summary = left.out.partition("- - -\n[ ID]" + "[Role]" * (rows == 12)
                                                      + " Interval")
                self.assertTrue(rule, left)
                self.assertEqual(summary.count("sender\n") + summary.count("receiver\n"), rows)
                unknown = "sender" if "-R" in more else "receiver"  # nobody told
                self.assertRegex(summary, r" 0\.00 Bytes .* %s\n" % unknown)
                self.assertNotIn("iperf Done", left.out)

    def test_document_of_a_client_whose_server_died_had_an_empty_end(self):
        left = self.kill_server("-J", "-P", "2")
        end = left.json()["end"]
        self.assertEqual((left.code, len(end["streams"])), (1, 2), left)
        self.assertGreater(end["sum_sent"]["bytes"], 0)
        self.assertEqual(end["sum_received"]["bytes"], 0)  # nobody told
        lines = self.kill_server("--json-stream", "-u", "-R", "-b", "1M", "--rcv-timeout",
                                 "500").lines()
        self.assertEqual([json.loads(line)["event"] for line in lines[-2:]], ["error", "end"])
        self.assertGreater(json.loads(lines[-1])["data"]["sum"]["packets"], 0)

    def end_with(self, last, *arguments):
        """Run a client whose server's last bytes on the control connection these are."""
        connected = []

        def play(sock):
            connected.append(sock)
            threading.Thread(target=drain if connected[1:] else go_on, args=(sock,),
                             daemon=True).start()

        def drain(sock):
            while sock.recv(1 << 20):
                pass

        def go_on(sock):
            receive(sock, 37)
            sock.sendall(b"\x09")
            receive(sock, struct.unpack("!I", receive(sock, 4))[0])
            sock.sendall(b"\x0a")
            while len(connected) < 2:
                time.sleep(0.01)
            sock.sendall(b"\x01\x02")
            receive(sock, 1)  # the end of the test
            sock.sendall(last)
            sock.shutdown(socket.SHUT_WR)
        with FakeServer(play) as server:
            return support.run(support.OURS + (
                "-c", "127.0.0.1", "-p", server.port, "-n", "1M", "-J") + arguments)

    def test_end_after_the_last_byte_lost_what_was_measured(self):
        for last, error in (
                (b"", "control socket has closed"), (b"\x0b", "the server has terminated"),
                (b"\xfe" + struct.pack("!ii", 144, 0), "idle timeout for receiving data"),
                (b"\x63", "unknown control message"), (b"\x0d" + frame([]), "receive results"),
                (b"\x0d\0\0\0\x05{{{{{", "receive results")):
            with self.subTest(last=last):
                left = self.end_with(last)
                self.assertEqual(left.code, 1, left)
                self.assertIn(error, left.json()["error"])
                self.assertEqual(left.json()["end"]["sum_sent"]["bytes"], 1 << 20)

    def test_server_whose_client_died_had_an_empty_end(self):
        for more in ((), ("-u", "-R")):
            server, port = support.start_server(support.OURS, "-1", "-J")
            with server:
                with support.Program(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "30",
                                                     "-b", "20M") + more) as client:
                    client.wait_for("bits/sec", 30.0)
                    client.signal(signal.SIGKILL)
                    client.finish()
                left = server.finish(30.0)
            self.assertIn("unexpectedly closed", left.json()["error"])
            self.assertGreater(left.json()["end"]["sum_sent" if more else "sum_received"]["bytes"],
                               0)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "file")

    def test_pipe_without_another_end_hung_the_client(self):
        os.mkfifo(self.path)
        left = support.run(support.OURS + ("--loopback", "-R", "-t", "1", "-F", self.path), 20.0)
        self.assertEqual(left.code, 1, left)
        self.assertIn("unable to open -F file", left.err)

    def test_bidir_wrote_over_the_file_that_it_sent(self):
        content = os.urandom(100000)
        with open(self.path, "wb") as handle:
            handle.write(content)
        left = support.run(support.OURS + ("--loopback", "--bidir", "-t", "1", "-F", self.path))
        self.assertEqual(left.code, 0, left)
        with open(self.path, "rb") as handle:
            self.assertEqual(handle.read(), content)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full here")
    def test_full_disk_of_the_receiver_was_called_a_read_error(self):
        left = support.run(support.OURS + ("--loopback", "-R", "-t", "30", "-F", "/dev/full"),
                           20.0)
        self.assertEqual((left.code, left.err), (
            1, "iperf3: error - unable to open -F file: No space left on device\n"), left)


class FileReceivers(unittest.TestCase):
    """The stop of a test that is received into a file, at moments that are hard to meet."""

    def receive(self, arrange):
        """Run a receiver that arrange(receiver, stop, peer) prepares; returns the file's bytes."""
        ours, peer = socket.socketpair()
        with tempfile.TemporaryDirectory() as folder, peer:
            path = os.path.join(folder, "file")
            parameters = pyperf3.Parameters()
            receiver = pyperf3.TcpReceiver(ours, pyperf3.Counters(1), 0, parameters,
                                           pyperf3.call_plan(parameters, 1), path)

            def stop():
                receiver.slots.command = pyperf3.STOP
            arrange(receiver, stop, peer)
            receiver.run()
            receiver.close()
            with open(path, "rb") as handle:
                return handle.read()

    def test_stop_before_the_first_byte_left_a_zero_byte(self):
        def arrange(receiver, stop, peer):
            stop()
            peer.close()
        self.assertEqual(self.receive(arrange), b"")

    def test_stop_after_a_piece_wrote_it_twice(self):
        def arrange(receiver, stop, peer):
            real = receiver.look_around

            def look_around():
                if receiver.slots.bytes:
                    stop()
                    peer.close()
                return real()
            receiver.look_around = look_around
            peer.sendall(b"once")
        self.assertEqual(self.receive(arrange), b"once")

    def test_what_comes_after_the_stop_belongs_to_the_file(self):
        def arrange(receiver, stop, peer):
            stop()
            peer.sendall(b"late")
            peer.close()
        self.assertEqual(self.receive(arrange), b"late")


class OneOff(unittest.TestCase):
    def test_strangers_handshake_was_an_error_after_the_test(self):
        server, port = support.start_server(support.OURS, "-1", "-J")
        with server, connect(port) as stranger:
            stranger.sendall(COOKIE)
            self.assertEqual(receive(stranger, 1), b"\x09")
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
            self.assertEqual(left.code, 0, left)
            self.assertNotIn("error", server.finish(20.0).json())

    def test_probe_at_the_end_took_the_summary_out_of_the_stream(self):
        renderer = pyperf3.PerTest(pyperf3.JsonStreamRenderer)
        lines = []
        for event in (pyperf3.Event(event="end", data={"streams": [1]}, test=1),
                      pyperf3.Event(event="error", data="x", line="x"),
                      pyperf3.Event(event="end", data={}),
                      pyperf3.Event(event="done", data=None, ok=False),
                      pyperf3.Event(event="done", data=None, ok=True, test=1)):
            lines += renderer.render(event)
        self.assertEqual([json.loads(line)["data"] for line in lines],
                         ["x", {}, {"streams": [1]}])


class Arguments(unittest.TestCase):
    def test_address_of_sctp_was_looked_up_for_tcp(self):
        left = support.run(support.OURS + ("--loopback", "-n", "1M", "-X", "nosuch.invalid"))
        self.assertEqual((left.code, left.err), (0, ""), left)

    def test_file_that_is_not_there_left_the_document_without_a_version(self):
        left = support.run(support.OURS + ("-c", "127.0.0.1", "-J", "-F", "/no/such/file"))
        self.assertEqual(left.code, 1)
        self.assertEqual(list(left.json()["start"]), ["connected", "version", "system_info"])
        self.assertEqual(left.json()["error"], "unable to open -F file: No such file or directory")

    def test_warning_of_an_option_came_after_the_errors(self):
        left = support.run(support.OURS + ("-s", "--no-fq-socket-pacing"))
        self.assertEqual((left.code, left.out), (
            1, "Warning:  --no-fq-socket-pacing is deprecated\n"))


class Tasks(unittest.TestCase):
    def test_wake_of_a_task_that_was_ready_in_the_same_turn_was_lost(self):
        loop = pyperf3.Loop()
        self.addCleanup(loop.close)
        seen = []

        def second():
            try:
                yield from pyperf3.pause(0)
                yield from pyperf3.pause(30)
            except pyperf3.IperfError as error:
                seen.append(error.number)

        def first():
            yield from pyperf3.pause(0)
            loop.wake(tasks[1], pyperf3.IperfError(121))
            yield from pyperf3.pause(0)
        tasks = [loop.spawn(first()), loop.spawn(second())]
        deadline = time.monotonic() + 5.0
        while not tasks[1].done and time.monotonic() < deadline:
            loop.run_once()
        self.assertEqual(seen, [121])

    def test_unexpected_failure_of_one_task_ended_all(self):
        """A selector that takes no more (ENOSPC), no memory, a fault of the program's own."""
        for failure in (OSError(28, "No space left on device"), MemoryError(), KeyError("x")):
            for way in ("raised", "registering"):
                with self.subTest(failure=failure, way=way):
                    loop, seen = pyperf3.Loop(), []
                    self.addCleanup(loop.close)

                    def bad():
                        try:
                            yield from pyperf3.pause(0)
                            if way == "raised":
                                raise failure
                            yield pyperf3.Wait(loop._wakeup, pyperf3.READ, None)
                        finally:
                            seen.append("closed")

                    def good():
                        yield from pyperf3.pause(0.01)
                        seen.append("good")

                    def refuse(fileobj, *_):
                        raise failure
                    loop._selector.register = refuse
                    tasks = [loop.spawn(bad()), loop.spawn(good())]
                    while not tasks[1].done:
                        loop.run_once()
                    self.assertEqual(seen, ["closed", "good"])
                    self.assertEqual((tasks[0].done, tasks[0].error), (True, failure))
                    self.assertEqual(loop._waiting, [])


class Reported(field.Case):
    """Public reports about iperf3 and its like, each with the test that would have found it."""

    # B10: iperf3 #1405, #1118, #1143, #1631, #545, #688
    def test_json_is_one_document_on_failure_too(self):
        def check(left, text):
            self.assertEqual((left.code, left.err), (1, ""), left)
            document = left.json()
            self.assertEqual(document["error"], text)
            return document
        document = check(field.client(support.free_port(), "-J"), field.REFUSED)
        self.assertEqual((document["start"]["connected"], document["intervals"], document["end"]),
                         ([], [], {}))
        left = field.run(support.OURS, "-c no-such-host.invalid -J")
        self.assertEqual((left.code, left.err), (1, ""))
        self.assertTrue(left.json()["error"].startswith("unable to connect to server - "), left)
        path = os.path.join(self.folder(), "log")
        left = field.client(support.free_port(), ("-J", "--logfile", path))
        self.assertEqual((left.code, left.out, left.err), (1, "", ""), left)
        with open(path) as file:
            self.assertEqual(json.load(file)["error"], field.REFUSED)
        for command in (support.OURS, support.real("3.22")):
            server, port = self.serve(command=command)
            with support.Program(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "60", "-b",
                                                 "10M", "-i", "0.2")) as first:
                first.wait_for("sec ")
                check(field.client(port, "-J"), field.BUSY)
                first.signal(signal.SIGINT)
                first.finish(20.0)
        server, port = self.serve()
        with support.Program(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "60", "-b", "10M",
                                             "-J")) as program:
            server.wait_for("sec ")
            server.signal(signal.SIGKILL)
            document = check(program.finish(20.0), field.CLOSED)
        self.assertEqual(len(document["start"]["connected"]), 1)


if __name__ == "__main__":
    sys.exit(unittest.main())
