"""Endings: signals on either side, the other side's death, a broken standard output."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import fakes
import field
import pyperf3
import support

SIGNALS = ((signal.SIGINT, "Interrupt(2)"), (signal.SIGTERM, "Terminated(15)"),
           (signal.SIGHUP, "Hangup(1)"))


def running_test(server=support.OURS, client=support.OURS, client_arguments=(),
                 server_arguments=()):
    """Return (server, client) with a test of 30 s under way, past its first report."""
    server, port = support.start_server(server, "-1", *server_arguments)
    client = support.Program(tuple(client) + ("-c", "127.0.0.1", "-p", port, "-t", "30", "-i",
                                              "0.2") + tuple(client_arguments))
    return server, client


def wait_for_report(client):
    client.wait_for("sec ")


class ClientSignals(unittest.TestCase):
    def test_each_signal_gives_the_partial_interval_and_the_summary(self):
        for number, name in SIGNALS:
            for arguments in ((), ("-R",), ("--bidir",), ("--threads",)):
                with self.subTest(signal=name, arguments=arguments):
                    server, client = running_test(client_arguments=arguments)
                    with server, client:
                        wait_for_report(client)
                        client.signal(number)
                        left = client.finish(10.0)
                        self.assertEqual(left.code, 0, left)
                        self.assertEqual(left.err, "iperf3: interrupt - the client has terminated"
                                                   " by signal %s\n" % name)
                        self.assertIn("- - - -", left.out)
                        self.assertRegex(left.out, "sender\n")
                        self.assertRegex(left.out, "receiver\n")
                        self.assertNotIn("iperf Done", left.out)
                        other = server.finish(10.0)
                        self.assertEqual(other.code, 0, other)
                        self.assertEqual(other.err, "iperf3: the client has terminated\n")
                        self.assertRegex(other.out, "(sender|receiver)\n$")

    def test_datagrams_have_a_summary_as_iperf3_has(self):
        import captures
        import figures
        case = captures.Case("sig-client-sigterm-udp")
        for arguments in ((), ("-R",), ("--bidir", "--threads")):
            with self.subTest(arguments=arguments):
                server, client = running_test(
                    client_arguments=("-u", "-b", "10M") + arguments, server_arguments=("-V",)
                    if arguments else ())
                with server, client:
                    wait_for_report(client)
                    server.wait_for("sec ")
                    client.signal(signal.SIGTERM)
                    left, other = client.finish(10.0), server.finish(10.0)
                self.assertEqual((left.code, left.err), (0, case.err("client")), left)
                self.assertEqual((other.code, other.err), (0, case.err("server")), other)
                self.assertRegex(left.out, r"sender\n.* 0/0 \(0%\)  receiver\n\Z"
                                 if not arguments else r"receiver\n\Z")
                if not arguments:
                    self.assertEqual(figures.outline(left.out),
                                     figures.outline(case.out("client")))

    def test_json_is_one_whole_document(self):
        server, client = running_test(client_arguments=("-J",), server_arguments=("-J",))
        with server, client:
            time.sleep(1.0)
            client.signal(signal.SIGTERM)
            left = client.finish(10.0)
            self.assertEqual((left.code, left.err), (0, ""), left)
            document = left.json()
            self.assertEqual(document["error"], "interrupt - the client has terminated by signal"
                                                " Terminated(15)")
            self.assertGreater(document["end"]["sum_sent"]["bytes"], 0)
            other = server.finish(10.0)
            self.assertEqual(other.json()["error"], "the client has terminated")
            self.assertGreater(other.json()["end"]["sum_received"]["bytes"], 0)

    def test_json_stream_ends_with_error_and_end(self):
        server, client = running_test(client_arguments=("--json-stream",))
        with server, client:
            client.wait_for('"interval"')
            client.signal(signal.SIGINT)
            left = client.finish(10.0)
            events = [json.loads(line) for line in left.lines()]
            self.assertEqual([event["event"] for event in events[-2:]], ["error", "end"])
            self.assertTrue(events[-1]["data"]["streams"])

    def test_signal_before_the_server_answers(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(1)
            with support.Program(support.OURS + ("-c", "127.0.0.1", "-p",
                                                 silent.getsockname()[1])) as client:
                connection = silent.accept()[0]
                connection.recv(37)
                client.signal(signal.SIGINT)
                left = client.finish(10.0)
                connection.close()
                self.assertEqual(left.code, 0, left)
                self.assertNotIn("Traceback", left.err)
                self.assertIn("interrupt - the client has terminated by signal Interrupt(2)",
                              left.err)

    def test_second_interrupt_changes_nothing(self):
        server, client = running_test()
        with server, client:
            wait_for_report(client)
            client.signal(signal.SIGINT)
            client.signal(signal.SIGINT)
            left = client.finish(10.0)
            self.assertEqual(left.code, 0, left)
            self.assertNotIn("Traceback", left.err)

    def test_real_server_is_told(self):
        server, client = running_test(server=support.real("3.22"))
        with server, client:
            wait_for_report(client)
            client.signal(signal.SIGINT)
            self.assertEqual(client.finish(10.0).code, 0)
            self.assertIn("the client has terminated", server.finish(10.0).err)


class ServerSignals(unittest.TestCase):
    def test_each_signal_ends_the_test_on_both_sides(self):
        for number, name in SIGNALS:
            for arguments in ((), ("-R",), ("--bidir",)):
                with self.subTest(signal=name, arguments=arguments):
                    server, client = running_test(client_arguments=arguments)
                    with server, client:
                        wait_for_report(client)
                        server.signal(number)
                        left = server.finish(10.0)
                        self.assertEqual(left.code, 0, left)
                        self.assertEqual(left.err, "iperf3: interrupt - the server has terminated"
                                                   " by signal %s\n" % name)
                        self.assertRegex(left.out, "(sender|receiver)\n$")
                        other = client.finish(10.0)
                        self.assertEqual(other.code, 1, other)
                        self.assertEqual(other.err,
                                         "iperf3: error - the server has terminated\n")
                        self.assertRegex(other.out, "receiver\n$")

    def test_idle_server(self):
        for arguments in ((), ("-J",), ("--json-stream",)):
            with self.subTest(arguments=arguments):
                server, _ = support.start_server(support.OURS, *arguments)
                with server:
                    server.signal(signal.SIGTERM)
                    left = server.finish(10.0)
                    self.assertEqual(left.code, 0, left)
                    text = "interrupt - the server has terminated by signal Terminated(15)"
                    if arguments == ("-J",):
                        self.assertEqual(left.json()["error"], text)
                    elif arguments:
                        self.assertEqual([json.loads(line)["data"] for line in left.lines()],
                                         [text, {}])
                    else:
                        self.assertEqual(left.err, "iperf3: %s\n" % text)

    def test_real_client_is_told(self):
        server, client = running_test(client=support.real("3.22"),
                                      client_arguments=("--forceflush",))
        with server, client:
            wait_for_report(client)
            server.signal(signal.SIGTERM)
            self.assertEqual(server.finish(10.0).code, 0)
            left = client.finish(10.0)
            self.assertEqual((left.code, left.err),
                             (1, "iperf3: error - the server has terminated\n"))


class EarlySignals(unittest.TestCase):
    """A signal before the test: no traceback, whatever goes on."""

    def test_interrupt_while_the_program_begins_was_a_traceback(self):
        """Each opening of a module's file, from the file's first statement on, is such a moment."""
        if not shutil.which("strace"):
            support.lack("no strace here")
        folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        log = os.path.join(folder, "log")
        for arguments in (("--loopback", "-n", "1"), ("--help",),
                          ("-s", "-1", "-p", support.free_port(), "--idle-timeout", "1")):
            left = support.run(("strace", "-o", log, "-e", "trace=openat") + support.SOURCE
                               + arguments)
            if not os.path.exists(log) or left.code not in (0, 1):
                support.lack("strace does not work here")
            with open(log) as file:
                names = [line for line in file if line.startswith("openat(")]
            # The program is compiled when its file has been opened for the last time.
            begin = max(number for number, line in enumerate(names, 1) if "pyperf3.py" in line) + 1
            self.assertGreater(len(names), begin)
            for when in range(begin, len(names) + 1, max(1, (len(names) - begin) // 5)):
                with self.subTest(arguments=arguments, when=when):
                    left = support.run(("strace", "-o", log, "-e", "trace=openat", "-e",
                                        "inject=openat:signal=SIGINT:when=%d" % when)
                                       + support.SOURCE + arguments)
                    self.assertNotIn("Traceback", left.err)
                    self.assertIn(left.code, (0, 1, 130, -2, 128 + 2), left)

    def test_as_a_module_it_installs_nothing(self):
        left = support.run((sys.executable, "-B", "-c", "import signal, sys\n"
                            "sys.path.insert(0, %r)\nbefore = signal.getsignal(2); import pyperf3\n"
                            "print(signal.getsignal(2) == before == signal.default_int_handler)"
                            % support.LIBRARY))
        self.assertEqual((left.out, left.err, left.code), ("True\n", "", 0))


class Deaths(unittest.TestCase):
    def test_server_killed(self):
        for arguments in ((), ("-R",), ("--bidir", "-P", "2")):
            with self.subTest(arguments=arguments):
                server, client = running_test(client_arguments=arguments)
                with server, client:
                    wait_for_report(client)
                    server.signal(signal.SIGKILL)
                    left = client.finish(10.0)
                    self.assertEqual((left.code, left.err), (1, "iperf3: error - control socket"
                                                                " has closed unexpectedly\n"))
                    self.assertRegex(left.out, "(sender|receiver)\n")

    def test_client_killed_frees_the_server_at_once(self):
        for arguments in ((), ("-R",), ("--bidir", "-P", "2")):
            with self.subTest(arguments=arguments):
                server, port = support.start_server(support.OURS)
                with server:
                    client = support.Program(support.OURS + (
                        "-c", "127.0.0.1", "-p", port, "-t", "30", "-i", "0.2") + arguments)
                    with client:
                        wait_for_report(client)
                        client.signal(signal.SIGKILL)
                        client.finish()
                    server.wait_for("test #2", 5.0)
                    left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
                    self.assertEqual(left.code, 0, left)
                    server.signal()
                    err = server.finish().err
                    self.assertIn("the client has unexpectedly closed the connection\n", err)
                    self.assertNotIn("Traceback", err)

    def test_no_worker_outlives_its_killed_parent(self):
        for arguments in ((), ("-R",)):
            with self.subTest(arguments=arguments):
                server, client = running_test(client_arguments=("-P", "2") + arguments)
                with server, client:
                    wait_for_report(client)
                    workers = support.children(client.pid) + support.children(server.pid)
                    self.assertEqual(len(workers), 4)
                    client.signal(signal.SIGKILL)
                    server.signal(signal.SIGKILL)
                    deadline = time.monotonic() + 10.0
                    while any(os.path.exists("/proc/%d" % pid) for pid in workers):
                        self.assertLess(time.monotonic(), deadline, "a worker lives on")
                        time.sleep(0.05)


class BrokenOutput(unittest.TestCase):
    def shell(self, script):
        command = " ".join("'%s'" % word for word in support.OURS)
        return support.run(("bash", "-c", script.replace("PYPERF3", command)))

    def test_closed_pipe_is_silent_and_ends_the_test(self):
        for arguments in ("--loopback -t 30 -i 0.1", "--help", "--version",
                          "--loopback -n 1M -J", "--loopback -t 1 --json-stream"):
            with self.subTest(arguments=arguments):
                left = self.shell("PYPERF3 %s | head -n 1 >/dev/null; exit ${PIPESTATUS[0]}"
                                  % arguments)
                self.assertEqual((left.code, left.err), (0, ""), left)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full here")
    def test_full_disk_is_one_line_and_status_1(self):
        for arguments in ("--loopback -t 30 -i 0.1", "--help", "--version",
                          "--loopback -n 1M -J"):
            with self.subTest(arguments=arguments):
                left = self.shell("PYPERF3 %s >/dev/full" % arguments)
                self.assertEqual(left.code, 1)
                self.assertEqual(left.err, "iperf3: error - unable to write to standard output:"
                                           " No space left on device\n")

    def test_closed_standard_streams(self):
        for redirection in (">&-", "2>&-", "<&-", ">&- 2>&- <&-"):
            with self.subTest(redirection=redirection):
                left = self.shell("PYPERF3 --loopback -n 1M -P 2 %s" % redirection)
                self.assertEqual((left.code, left.err), (0, ""), left)


class UnreadOutput(unittest.TestCase):
    """Nobody reads what a program prints, for a while or for ever."""

    def start(self, *arguments, **more):
        """Start a program whose standard output and standard error are one pipe; returns both."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        process = subprocess.Popen([str(word) for word in support.OURS + arguments],
                                   stdin=subprocess.DEVNULL, stdout=writer, stderr=writer,
                                   env=support.environment(), **more)
        os.close(writer)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, reader

    def fill(self, port, count):
        for _ in range(count):
            with socket.create_connection(("127.0.0.1", port), 10.0) as sock:
                fakes.pour(sock, b"GET / HTTP/1.0\r\n\r\n" * 3)

    def serve(self, *arguments):
        port = support.free_port()
        process, reader = self.start("-s", "-p", port, *arguments)
        support.wait_until(lambda: support.listens(port), "listener")
        return process, reader, port

    def read_all(self, reader):
        """Return what comes to the end of a pipe, as text."""
        with open(os.dup(reader), "rb") as pipe:
            return pipe.read().decode("utf-8")

    def honest(self, port):
        left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "1", "-P", "32",
                                           "-b", "100K"))
        self.assertEqual((left.code, left.err), (0, ""), left)

    def test_full_disk_under_the_log_ended_a_server(self):
        server, port = support.start_server(support.OURS, "--logfile", "/dev/full")
        with server:
            for _ in range(2):
                self.honest(port)
            self.assertIsNone(server.process.poll())
        left = support.run(support.OURS + ("--loopback", "-n", "1M", "--logfile", "/dev/full"))
        self.assertEqual((left.code, left.err), (
            1, "iperf3: error - unable to write to the log file: No space left on device\n"), left)

    def test_flood_of_strangers_ended_a_server_whose_reader_was_gone(self):
        process, reader, port = self.serve()
        os.dup2(os.open(os.devnull, os.O_RDONLY), reader)  # which closes the pipe
        self.fill(port, 40)
        time.sleep(1.2)  # until the others are counted in a line
        self.honest(port)
        self.assertIsNone(process.poll())

    def test_warnings_spoiled_a_log_of_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "log")
            left = support.run(support.OURS + ("--loopback", "-u", "-l", "65507", "-n", "1M", "-J",
                                               "--logfile", path))
            self.assertTrue(left.err.startswith("warning: UDP block size 65507 exceeds"), left)
            with open(path) as log:
                self.assertEqual(list(json.load(log))[:3], ["start", "intervals", "end"])

    def test_server_stood_still_when_nobody_read(self):
        process, reader, port = self.serve("-i", "0.1")
        for _ in range(4):
            self.honest(port)
        self.fill(port, 50)
        self.honest(port)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(support.LIMIT), 0)

    def test_a_slow_reader_loses_nothing(self):
        process, reader, port = self.serve("-i", "0.1")
        for _ in range(4):
            self.honest(port)
        process.send_signal(signal.SIGTERM)
        text = self.read_all(reader)
        self.assertEqual(process.wait(support.LIMIT), 0)
        self.assertGreater(len(text), 65536)
        for number in range(5):
            self.assertIn("(test #%d)\n" % (number + 1), text)
        self.assertTrue(text.endswith("terminated by signal Terminated(15)\n"), text[-200:])

    def test_client_measures_on_and_prints_all(self):
        """A test took as long as its reader was away (iperf3 prints on late, too)."""
        server, port = support.start_server(support.OURS, "-1")
        with server:
            # 33 rows of 80 bytes in an interval: more than a pipe holds
            process, reader = self.start("-c", "127.0.0.1", "-p", port, "-u", "-b", "10K", "-l",
                                         "100", "-P", "32", "-i", "0.1", "-t", "4", "--threads")
            server.wait_for("receiver")  # its test is over
            self.assertIsNone(process.poll())
            text = self.read_all(reader)
            self.assertEqual(process.wait(support.LIMIT), 0)
        self.assertGreater(len(text), 65536 + 8192)
        self.assertTrue(text.endswith("iperf Done.\n"))

    def test_a_flood_of_garbage_was_a_flood_of_lines(self):
        process, reader, port = self.serve()
        begin = time.monotonic()
        self.fill(port, 300)
        seconds = time.monotonic() - begin
        time.sleep(1.2)
        process.send_signal(signal.SIGTERM)
        lines = self.read_all(reader).split("\n")
        told = sum("unable to receive cookie" in line for line in lines)
        more = sum(int(line.split()[1]) for line in lines if "more connections failed" in line)
        self.assertLessEqual(told, 10 * (seconds + 2.0))
        self.assertEqual(told + more, 300)

    def test_a_reader_lost_what_came_behind_a_large_block(self):
        reader, writer = os.pipe()
        taken = []

        def read():
            with open(reader, "rb") as pipe:
                taken.append(pipe.read())
        thread = threading.Thread(target=read)
        thread.start()
        with open(writer, "wb") as stream:
            outlet = pyperf3.Outlet(stream, True)
            outlet.write("x" * 6000000 + "\n")
            outlet.write("the end\n")
            while outlet.flush(1.0):
                pass
        thread.join()
        self.assertEqual((len(taken[0]), taken[0][-8:], outlet.lost), (6000009, b"the end\n", 0))

    def test_what_is_lost_is_counted(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        with open(writer, "wb") as stream:
            outlet = pyperf3.Outlet(stream, True)
            line = "x" * 1023 + "\n"
            for _ in range(5000):
                outlet.write(line)
            kept = 5000 - outlet.lost
            self.assertGreater(outlet.lost, 0)
            self.assertTrue(4000 <= kept < 5000, kept)
            got = 0
            while outlet.flush() or got < kept * 1024:
                got += len(os.read(reader, 65536))
            self.assertEqual(got, kept * 1024)


class LoopbackLeavesNothing(unittest.TestCase):
    def test_whatever_ends_it(self):
        for number in (None, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            with self.subTest(signal=number):
                arguments = ("-t", "30") if number else ("-n", "1M")
                program = support.Program(support.OURS + ("--loopback", "-i", "0.2") + arguments,
                                          start_new_session=True)
                with program:
                    if number:
                        program.wait_for("sec ")
                        program.signal(number)
                    program.finish(15.0)
                    deadline = time.monotonic() + 10.0
                    while subprocess.call(["pgrep", "-s", str(program.pid)],
                                          stdout=subprocess.DEVNULL) == 0:
                        self.assertLess(time.monotonic(), deadline, "a process lives on")
                        time.sleep(0.05)


class Reported(field.Case):
    """Public reports about iperf3 and its like, each with the test that would have found it."""

    # B06: speedtest-cli, ps_mem: EPIPE in Python's programs
    def test_a_closed_pipe_is_a_traceback(self):
        def shell(script, code):
            command = " ".join("'%s'" % word for word in support.OURS)
            left = support.run(("bash", "-c", script.replace("PYPERF3", command)))
            return left, code
        head = "PYPERF3 %s | head -n 1 >/dev/null; exit ${PIPESTATUS[0]}"
        items = [(head % words, 0) for words in (
            "--loopback -t 30 -i 0.1", "--loopback -n 1M -J", "--help", "--version",
            "--loopback -t 30 -i 0.1 --json-stream")]
        if os.path.exists("/dev/full"):
            items += [("PYPERF3 --loopback -t 30 -i 0.1 >/dev/full", 1),
                      ("PYPERF3 --help >/dev/full", 1)]
        items.append(("PYPERF3 --loopback -n 1M >&-", 0))
        for (script, code), (left, _) in support.together(shell, items):
            self.assertEqual(left.code, code, (script, left))
            self.assertNotIn("Traceback", left.err)
            self.assertNotIn("Exception ignored", left.err)
            self.assertEqual(left.err.count("\n"), code, (script, left))
        port = support.free_port()
        words = " ".join("'%s'" % word for word in support.OURS)
        with support.Program(("bash", "-c", "exec %s -s -1 -p %d >&-" % (words, port))) as server:
            support.wait_for_listener(server, port)
            self.honest(port)
            left = server.finish(20.0)
        self.assertEqual((left.code, left.err), (0, ""), left)

    # B08: iperf3 #95, #132, #479, #1009
    def test_signals_give_a_summary_and_status_0(self):
        texts = {signal.SIGINT: "Interrupt(2)", signal.SIGTERM: "Terminated(15)",
                 signal.SIGHUP: "Hangup(1)"}

        def running(words):
            server, port = self.serve()
            program = support.Program(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", "60",
                                                      "-i", "0.2") + tuple(words.split()))
            self.addCleanup(program.__exit__)
            server.wait_for("sec ")
            if "-J" not in words:
                program.wait_for("sec ")
            return server, program

        def interrupt(number, words, times=1):
            server, program = running(words)
            for _ in range(times):
                program.signal(number)
            left = program.finish(20.0)
            text = "interrupt - the client has terminated by signal " + texts[number]
            self.assertEqual(left.code, 0, left)
            if "-J" in words:
                self.assertEqual((left.json()["error"], left.err), (text, ""))
                self.assertGreater(left.json()["end"]["sum_sent"]["bytes"], 0)
            else:
                self.assertEqual(left.err, "iperf3: %s\n" % text)
                self.assertRegex(left.out, r"(?s)- - - -.*sender\n.*receiver\n")
            server.wait_for("(test #2)")
            self.assertIn("iperf3: the client has terminated\n", server.err())

        def end_server(words):
            server, program = running(words)
            self.assertEqual(self.end(server).code, 0)
            left = program.finish(20.0)
            self.assertEqual((left.code, left.err),
                             (1, "iperf3: error - the server has terminated\n"))
        field.abreast(interrupt, [
            (signal.SIGINT, ""), (signal.SIGTERM, "-J"), (signal.SIGHUP, "-R"),
            (signal.SIGTERM, "--bidir"), (signal.SIGINT, "-u"), (signal.SIGINT, "", 2)])
        support.together(end_server, [("",), ("-R",)])
        server, _ = self.serve()
        left = self.end(server)
        self.assertEqual((left.code, left.err), (
            0, "iperf3: interrupt - the server has terminated by signal Terminated(15)\n"))

    # B08: iperf3 #95: a signal while the client connects
    def test_a_signal_during_connect(self):
        with socket.socket() as deaf, socket.socket() as first:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            first.connect(deaf.getsockname())
            port = deaf.getsockname()[1]

            def connecting():
                with open("/proc/net/tcp") as table:
                    return any(row.split()[2].endswith(":%04X" % port) and row.split()[3] == "02"
                               for row in list(table)[1:])
            with support.Program(support.OURS + ("-c", "127.0.0.1", "-p", port)) as program:
                support.wait_until(connecting, "a connection is tried")
                left = self.end(program, signal.SIGINT)
        self.assertEqual((left.code, left.err), (
            0, "iperf3: interrupt - the client has terminated by signal Interrupt(2)\n"), left)


if __name__ == "__main__":
    sys.exit(unittest.main())
