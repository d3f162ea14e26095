"""What a server is made of, piece by piece: whom it lets in, and a conversation in any loop."""

import json
import socket
import struct
import time
import unittest

import pyperf3
import support


def at_once():
    """Be a task that ends at once."""
    yield from ()


class Client:
    """Stands for a test, or the connection that asks for it, in a server's books."""

    def __init__(self, loop, seconds=0.0, cookie=b"a"):
        self.seconds, self.cookie = seconds, cookie
        self.log, self.linger = [], 2.0
        self.task = loop.spawn(self.run())

    def run(self):
        try:
            yield pyperf3.Wait(None, 0, None)
        except pyperf3.IperfError as error:
            self.log.append(error.number)

    def silence(self, now):
        return self.seconds

    def takes(self, cookie, tls):
        return cookie == self.cookie and not tls


class Pieces(unittest.TestCase):
    def setUp(self):
        self.loop = pyperf3.Loop()
        self.addCleanup(self.loop.close)

    def run_task(self, generator):
        """Run a task to its end; returns its result."""
        answer = []

        def run():
            answer.append((yield from generator))
        task = self.loop.spawn(run())
        support.wait_until(lambda: self.loop.run_once() or task.done, "the end of a task")
        return answer[0]


class Places(Pieces):
    def test_a_test_takes_a_place_and_gives_it_back(self):
        places, one, two = pyperf3.Places(self.loop, 2, True), Client(self.loop), Client(self.loop)
        for client in (one, two):
            places.enter(client)
            self.assertTrue(self.run_task(places.make_room()))
            places.begin(client, client)
        self.assertFalse(self.run_task(places.make_room()))
        self.assertEqual((places.end(one), places.end(one)), (True, False))
        self.assertTrue(self.run_task(places.make_room()))
        self.assertTrue(places.is_spent(one.cookie))
        places.closed = True
        self.assertFalse(self.run_task(places.make_room()))
        places.leave(one)
        self.assertEqual(places.connections, [two])

    def test_the_longest_silent_is_ended_once_and_only_if_it_is_too_long(self):
        places = pyperf3.Places(self.loop, 2, True)
        clients = [Client(self.loop, seconds) for seconds in (1.0, 2.0)]
        for client in clients:
            places.begin(client, client)
        self.assertFalse(self.run_task(places.make_room()))
        for client in clients:
            client.seconds += pyperf3.SILENCE_TIMEOUT
        waiting = [self.loop.spawn(places.make_room()) for _ in range(2)]
        support.wait_until(lambda: self.loop.run_once() or all(each.log for each in clients),
                           "the end of both")  # one for each that waits
        self.assertEqual([each.log for each in clients], [[144], [144]])
        for client in clients:
            places.end(client)
        support.wait_until(lambda: self.loop.run_once() or all(each.done for each in waiting),
                           "room")

    def test_the_oldest_without_a_test_makes_room(self):
        places, clients = pyperf3.Places(self.loop, 1, True), []
        self.assertIsNone(self.run_task(places.drop_oldest(None)))
        while not places.is_crowded():
            clients.append(Client(self.loop))
            places.enter(clients[-1])
        self.assertIs(self.run_task(places.drop_oldest(None)), clients[0])
        self.assertFalse(places.is_crowded())
        self.assertEqual([(each.log, each.linger) for each in clients[:2]],
                         [([114], 0.0), ([], 2.0)])

    def test_data_connections_find_their_test(self):
        places = pyperf3.Places(self.loop, 2, True)
        tests = [Client(self.loop, cookie=cookie) for cookie in (b"a", b"b")]
        for test in tests:
            places.begin(test, test)
        self.assertIs(places.find(b"b", False), tests[1])
        self.assertIsNone(places.find(b"b", True))
        self.assertIsNone(places.find(b"c", False))


class Turns(unittest.TestCase):
    def setUp(self):
        self.turns = pyperf3.Turns()

    def test_one_at_a_time_of_each_address(self):
        for test, host in (("a", "192.0.2.1"), ("b", "192.0.2.1"), ("c", "192.0.2.2")):
            self.turns.wait(test, host, 0.0)
        self.assertEqual([self.turns.begin(test, 1.0) for test in "abc"], [True, False, True])
        self.turns.end("a")
        self.turns.end("a")  # does no harm
        self.assertTrue(self.turns.begin("b", 2.0))

    def test_turn_ends_only_for_others_of_the_address(self):
        self.turns.wait("a", "192.0.2.1", 0.0)
        self.turns.wait("c", "192.0.2.2", 0.0)
        self.assertTrue(self.turns.begin("a", 0.0))
        self.assertFalse(self.turns.must_end("a", 1000.0, 1000.0))
        self.turns.wait("b", "192.0.2.1", 1000.0)
        self.assertTrue(self.turns.must_end("a", 1000.0, pyperf3.TURN_TIMEOUT + 0.1))
        self.assertFalse(self.turns.must_end("a", 1000.0, 0.0))  # the share begins now
        self.assertTrue(self.turns.must_end("a", 1000.1 + pyperf3.TURN_PATIENCE, 0.0))
        self.assertFalse(self.turns.must_end("b", 1000.1 + pyperf3.TURN_PATIENCE, 99.0))  # it waits
        self.turns.end("a")
        self.assertFalse(self.turns.must_end("a", 2000.0, 99.0))

    def test_those_that_wait_share_their_patience(self):
        for test in "abc":
            self.turns.wait(test, "192.0.2.1", 0.0)
        self.turns.begin("a", 0.0)
        share = max(pyperf3.TURN_TIMEOUT, pyperf3.TURN_PATIENCE / 2)
        self.assertFalse(self.turns.must_end("a", share, 0.0))
        self.assertTrue(self.turns.must_end("a", share + 0.1, 0.0))


class Lines(Pieces):
    """About connections that became no test."""

    def test_flood_is_counted(self):
        events, errors = [], []
        rejections = pyperf3.Rejections(
            self.loop.spawn, lambda name, text, **_: events.append(text), errors.append)
        for number in range(pyperf3.MAX_REJECTIONS + 3):
            rejections.report(number)
        rejections.warn("said no more")
        support.wait_until(lambda: self.loop.run_once() or events, "the number")
        self.assertEqual(events, ["4 more connections failed"])
        self.assertEqual(len(errors), pyperf3.MAX_REJECTIONS)
        rejections.warn("said again")
        self.assertEqual(events[1:], ["said again"])


class Streams(Pieces):
    def test_processes_of_many_streams_were_made_in_one_go(self):
        """Others waited for 0.4 s when a client had -P 128."""
        class Arrivals:
            def take(self, deadline):
                yield from at_once()
                return list(range(5))
        conversation, _ = support.conversation()
        log, conversation._arrivals = [], Arrivals()
        conversation._add_stream = lambda sock: log.append("made")

        def other():
            for _ in range(5):
                log.append("served")
                yield from pyperf3.pause(0)
        self.loop.spawn(conversation._take_streams(0.0))
        self.run_task(other())
        self.assertEqual(log, ["made", "served"] * 5)


class Clock(unittest.TestCase):
    def test_stands_while_the_server_is_at_work(self):
        clock = pyperf3.ClientClock()
        begun = clock.begun

        def step():
            yield
            return "result"
        task = clock.stop_for(step())
        next(task)
        self.assertTrue(clock.stands)
        time.sleep(0.02)
        with self.assertRaises(StopIteration) as caught:
            next(task)
        self.assertEqual((caught.exception.value, clock.stands), ("result", False))
        self.assertGreaterEqual(clock.begun, begun + 0.02)
        self.assertEqual(clock.stepped, clock.begun)
        self.assertAlmostEqual(clock.silence(clock.begun + 3.0, True), 3.0)

    def test_many_steps_are_silence_only_while_setting_up(self):
        clock = pyperf3.ClientClock()
        now = clock.begun + pyperf3.SETUP_TIMEOUT + 1.0
        clock.stepped = now - 0.5
        self.assertAlmostEqual(clock.silence(now, False), 0.5)
        self.assertAlmostEqual(clock.silence(now, True), pyperf3.SETUP_TIMEOUT + 1.0)


class Talk(Pieces):
    """A conversation in a loop that is handed in, without a server."""

    def test_whole_test(self):
        pairs = []
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(2)
            for _ in range(2):  # the control and the data connection
                near = socket.create_connection(listener.getsockname())
                pairs.append((near, listener.accept()[0]))
                for sock in pairs[-1]:
                    sock.setblocking(False)
                    self.addCleanup(sock.close)
        (control, own), (data, stream) = pairs
        conversation, events = support.conversation(own, spawn=self.loop.spawn)
        self.addCleanup(conversation.close)
        parameters, phases = pyperf3.Parameters(), []

        def fail(cause, _):
            return AssertionError(cause)

        def client():
            def read(count):
                return (yield from pyperf3.read_exactly(control, count, None, fail))

            def state():
                got, = struct.unpack("!b", (yield from read(1)))
                phases.append((got, conversation.phase))
            yield from state()
            self.assertTrue(conversation.takes(conversation.cookie, False))
            self.assertFalse(conversation.takes(conversation.cookie, True))
            conversation.offer(stream, conversation.cookie)
            self.loop.wake(conversation.task)
            self.assertFalse(conversation.awaits_stream())
            yield from state()
            yield from state()
            data.close()
            control.send(b"\x04")
            yield from state()
            control.send(pyperf3.encode_frame({
                "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0,
                "sender_has_retransmits": 0, "streams": [
                    {"id": 1, "bytes": 0, "retransmits": 0, "jitter": 0, "errors": 0,
                     "packets": 0}]}))
            size, = struct.unpack("!I", (yield from read(4)))
            phases.append(json.loads((yield from read(size)).decode())["streams"][0]["bytes"])
            yield from state()
            control.send(b"\x10")
        conversation.task = self.loop.spawn(conversation.run(parameters.to_json()))
        other = self.loop.spawn(client())
        support.wait_until(lambda: self.loop.run_once() or conversation.task.done, "the end")
        self.assertEqual((other.error, conversation.task.error), (None, None))
        self.assertEqual(phases, [(10, 10), (1, 2), (2, 2), (13, 13), 0, (14, 14)])
        self.assertEqual(conversation.phase, pyperf3.IPERF_DONE)
        self.assertEqual([name for name, _ in events if name != "interval"],
                         ["accepted", "connected", "start", "end", "done"])


if __name__ == "__main__":
    unittest.main()
