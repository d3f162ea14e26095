"""A bad network between a client and a server: a relay in a thread, for TCP and UDP."""

import collections
import selectors
import socket
import threading
import time

FORTH, BACK = "forth", "back"  # from the client, to the client
MOST = 1000  # datagrams of one flow that go on before anything else


def lossy(drop=0, first=0, double=0, swap=0, ways=(FORTH, BACK), until=None):
    """Return a rule for Relay.

    drop, double, swap: what happens to every so-manieth datagram of a flow (swap: it goes behind
    its successor); first: how many at the beginning are lost; until: the number after which
    nothing happens any more. Hellos are spared, but by first and double.
    """
    held = {}

    def rule(way, flow, number, data):
        key = (way, flow)
        if way not in ways or (until is not None and number > until):
            return [data]
        if number <= first:
            return []
        if double and number % double == 0:
            return [data, data]
        if len(data) <= 4:
            return [data]
        if drop and number % drop == 0:
            return []
        if swap and number % swap == 0 and key not in held:
            held[key] = data
            return []
        return [data] + ([held.pop(key)] if key in held else [])
    return rule


class Relay:
    """Pass on what comes to a port of 127.0.0.1. Use it in a `with`.

    rule: called with (way, flow, number, data) of each datagram, numbered from 1 in each way of
    each flow (a number, from 0); returns the datagrams that go on in its place.
    """

    def __init__(self, target, rule):
        self._target = ("127.0.0.1", target)
        self._rule = rule
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._flows, self._counts = {}, {}
        self._sockets = []
        for _ in range(50):
            listener = self._keep(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            self._datagrams = self._keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]
            try:
                self._datagrams.bind(("127.0.0.1", self.port))
                break
            except OSError:
                continue
        self._buffer(self._datagrams)
        listener.listen(16)
        self._watch(listener, self._accept)
        self._watch(self._datagrams, self._forth)
        self._ends = socket.socketpair()
        self._watch(self._ends[0], None)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _keep(self, sock):
        self._sockets.append(sock)
        return sock

    @staticmethod
    def _buffer(sock):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)

    def _watch(self, sock, act):
        self._selector.register(sock, selectors.EVENT_READ, act)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *details):
        self._ends[1].close()
        self._thread.join(10.0)
        for sock in self._sockets + [self._ends[0]]:
            sock.close()
        self._selector.close()

    def _serve(self, wait=None):
        """Pass on what there is; returns whether the relay goes on.

        Datagrams go first: they left before what TCP says of them.
        """
        for key in sorted((key for key, _ in self._selector.select(wait)),
                          key=lambda key: key.fileobj.type != socket.SOCK_DGRAM):
            if key.data is None:
                return False
            try:
                key.data(key.fileobj)
            except OSError:
                pass  # an end that has closed already
        return True

    def _run(self):
        while self._serve():
            pass

    # TCP

    def _accept(self, listener):
        near = self._keep(listener.accept()[0])
        far = self._keep(socket.create_connection(self._target))
        for source, sink in ((near, far), (far, near)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._watch(source, lambda sock, sink=sink: self._pass_on(sock, sink))

    def _pass_on(self, source, sink):
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        if data:
            sink.sendall(data)
        else:
            self._selector.unregister(source)
            sink.shutdown(socket.SHUT_WR)

    # UDP

    def _ruled(self, way, flow, data):
        number = self._counts[way, flow] = self._counts.get((way, flow), 0) + 1
        return self._rule(way, flow, number, data)

    @staticmethod
    def _waiting(sock):
        """Yield the datagrams that wait, and whence they came; of a flood only some."""
        try:
            for _ in range(MOST):
                yield sock.recvfrom(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass

    def _forth(self, sock):
        for data, address in self._waiting(sock):
            self._forward(data, address)

    def _forward(self, data, address):
        if address not in self._flows:
            far = self._keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            self._buffer(far)
            far.connect(self._target)
            self._flows[address] = (len(self._flows), far)
            self._watch(far, lambda sock, address=address: self._back(sock, address))
        flow, far = self._flows[address]
        for each in self._ruled(FORTH, flow, data):
            far.send(each)

    def _back(self, far, address):
        for data, _ in self._waiting(far):
            for each in self._ruled(BACK, self._flows[address][0], data):
                self._datagrams.sendto(each, address)


class SlowRelay(Relay):
    """A relay that holds what comes over TCP back, or passes it on byte by byte."""

    def __init__(self, target, delay=0.0, single=False):
        Relay.__init__(self, target, lossy())
        self._delay, self._single, self._due = delay, single, collections.deque()

    def _pass_on(self, source, sink):
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(source)
        self._due.append((time.monotonic() + self._delay, sink, data))

    def _run(self):
        while True:
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                _, sink, data = self._due.popleft()
                step = 1 if self._single else 65536
                try:
                    for at in range(0, len(data), step):
                        sink.sendall(data[at:at + step])
                    if not data:
                        sink.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # an end that has closed already
            wait = max(0.0, self._due[0][0] - now) if self._due else None
            if not self._serve(wait):
                return
