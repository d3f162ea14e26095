"""Fake servers and clients: ends that speak the protocol byte by byte, as no honest one does."""

import json
import socket
import struct
import threading
import time

import pyperf3

COOKIE = b"abcdefghijklmnopqrstuvwxyz2345672345\0"
PARAMETERS = {"tcp": True, "omit": 0, "time": 1, "num": 0, "blockcount": 0, "parallel": 1,
              "len": 131072, "pacing_timer": 1000, "client_version": "3.22"}
HELLO, REPLY = b"9876", b"6789"
OLD_HELLO, OLD_REPLY = b"\x15\xcd\x5b\x07", b"\xb1\x68\xde\x3a"
UDP_PARAMETERS = {
    "udp": True, "omit": 0, "time": 1, "num": 0, "blockcount": 0, "parallel": 1, "len": 1000,
    "bandwidth": 1048576, "pacing_timer": 1000, "gso": 0, "gso_dg_size": 0,
    "gso_bf_size": 65507, "gro": 0, "gro_bf_size": 65507, "client_version": "3.22"}


def frame(document):
    data = document if isinstance(document, bytes) else json.dumps(document).encode("ascii")
    return struct.pack("!I", len(data)) + data


def connect(port):
    return socket.create_connection(("127.0.0.1", port), 10.0)


def receive(sock, count):
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            break
        data += piece
    return data


def take_frame(sock):
    size, = struct.unpack("!I", receive(sock, 4))
    return json.loads(receive(sock, size).decode("utf-8", "replace"))


def pour(sock, data):
    """Send bytes and the end of file, read to the other side's; errors are no matter."""
    try:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(4096):
            pass
    except OSError:
        pass


# Servers ######################################################################


class FakeServer:
    """A peer that plays one scripted conversation with each client that connects."""

    def __init__(self, script):
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(8)
        self.port = self._listener.getsockname()[1]
        self._script = script
        self._held = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.settimeout(20.0)
            self._held.append(sock)
            try:
                self._script(sock)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *details):
        self._listener.close()
        for sock in self._held:
            sock.close()


def balancer(first, others):
    """Return a FakeServer that passes the first connection on to one server, all others to another.

    Both are ports.
    """
    targets = [first]

    def pass_on(source, target):
        try:
            data = source.recv(65536)
            while data:
                target.sendall(data)
                data = source.recv(65536)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def play(client):
        server = socket.create_connection(("127.0.0.1", targets.pop() if targets else others))
        for pair in ((client, server), (server, client)):
            threading.Thread(target=pass_on, args=pair, daemon=True).start()
    return FakeServer(play)


def conversation(*steps):
    """Return a conversation for FakeServer: after the cookie it sends bytes, and reads so many."""
    def play(sock):
        receive(sock, 37)
        for step in steps:
            if isinstance(step, int):
                receive(sock, step)
            else:
                sock.sendall(step)
        sock.close()
    return play


def whole_test(results, sent=None):
    """Return a conversation for FakeServer: a test of one stream to its end, with these results.

    sent: a threading.Event, set when they are on their way as a whole.
    """
    def script(sock):
        receive(sock, 37)
        if getattr(script, "streams", 0):
            while sock.recv(1 << 20):
                pass
            return
        script.streams = 1
        sock.sendall(b"\x09")
        size, = struct.unpack("!I", receive(sock, 4))
        receive(sock, size)
        sock.sendall(b"\x0a")
        threading.Thread(target=go_on, args=(sock,), daemon=True).start()

    def go_on(sock):
        time.sleep(0.3)
        sock.sendall(b"\x01\x02")
        assert receive(sock, 1) == b"\x04"
        sock.sendall(b"\x0d")
        size, = struct.unpack("!I", receive(sock, 4))
        receive(sock, size)
        try:
            sock.sendall(results)
            if sent is not None:
                sent.set()
            sock.sendall(b"\x0e")
        except OSError:
            pass  # they were refused
    return script


class SilentAddress:
    """A listener at 127.0.0.N whose queue is full, so that it never answers again (Linux)."""

    def __init__(self, host, port):
        self._sockets = [socket.socket()]
        self._sockets[0].bind((host, port))
        self._sockets[0].listen(0)
        self.port = self._sockets[0].getsockname()[1]
        for _ in range(3):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex((host, self.port))
            self._sockets.append(sock)
        time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *details):
        for sock in self._sockets:
            sock.close()


# Clients ######################################################################


def set_up(port, source="127.0.0.1", **parameters):
    """Walk a test to the moment when its data connections are due; returns (socket, cookie)."""
    sock, cookie = socket.create_connection(("127.0.0.1", port), 20.0, (source, 0)), \
        pyperf3.make_cookie()
    document = pyperf3.Parameters()
    for name, value in parameters.items():
        setattr(document, name, value)
    sock.sendall(cookie)
    assert sock.recv(1) == b"\x09"
    sock.sendall(pyperf3.encode_frame(document.to_json()))
    assert sock.recv(1) == b"\x0a"
    return sock, cookie


def walk_to_results(port):
    """Run a test of 1000 bytes to the moment when the client's results are due."""
    control, cookie = set_up(port)
    with connect(port) as data:
        data.sendall(cookie)
        assert receive(control, 2) == b"\x01\x02"
        data.sendall(b"x" * 1000)
        control.sendall(b"\x04")
        assert receive(control, 1) == b"\x0d"
    return control


# UDP ###########################################################################


def datagram(number, length=1000, seconds=1000, micros=0, wide=False):
    """Return a datagram of a test, numbered and stamped."""
    head = struct.pack("!IIQ" if wide else "!III", seconds, micros, number)
    return head.ljust(length, b"x")


def results(*streams):
    """Return a results document. streams: dicts with an id and what is not 0."""
    empty = {"bytes": 0, "retransmits": -1, "jitter": 0, "errors": 0, "omitted_errors": 0,
             "packets": 0, "omitted_packets": 0, "start_time": 0, "end_time": 1}
    return {"cpu_util_total": 1, "cpu_util_user": 1, "cpu_util_system": 0,
            "sender_has_retransmits": 0, "streams": [dict(empty, **each) for each in streams]}


class UdpClient:
    """The control conversation of a client of UDP, up to where the server awaits its streams."""

    def __init__(self, port, **parameters):
        self.port = port
        self.sockets = []
        self.control = connect(port)
        self.cookie = pyperf3.make_cookie()
        self.control.sendall(self.cookie + frame(dict(UDP_PARAMETERS, **parameters)))
        got = receive(self.control, 2)
        if got != b"\x09\x0a":
            raise AssertionError("%r in place of 09 0a" % got)

    def socket(self, host="127.0.0.1"):
        """Return a UDP socket that is connected to the server."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sockets.append(sock)
        sock.settimeout(10.0)
        sock.bind((host, 0))
        sock.connect(("127.0.0.1", self.port))
        return sock

    def stream(self, hello=HELLO, reply=REPLY, times=1):
        """Make a stream; returns its socket. times: that the hello is sent, at most."""
        sock = self.socket()
        sock.settimeout(10.0 / times)
        for left in reversed(range(times)):
            sock.send(hello)
            try:
                got = sock.recv(65536)
                break
            except socket.timeout:
                if not left:
                    raise
        sock.settimeout(10.0)
        if got != reply:
            raise AssertionError("%r in place of %r" % (got, reply))
        return sock

    def begin(self):
        got = receive(self.control, 2)
        if got != b"\x01\x02":
            raise AssertionError("%r in place of 01 02" % got)

    def end(self, document=None):
        """End the test; returns the server's results."""
        self.control.sendall(b"\x04")
        got = receive(self.control, 1)
        if got != b"\x0d":
            raise AssertionError("%r in place of 0d" % got)
        self.control.sendall(frame(document or results({"id": 1})))
        found = take_frame(self.control)
        if receive(self.control, 1) != b"\x0e":
            raise AssertionError("no 0e")
        self.control.sendall(b"\x10")
        self.control.shutdown(socket.SHUT_WR)
        return found

    def __enter__(self):
        return self

    def __exit__(self, *details):
        for sock in self.sockets + [self.control]:
            sock.close()


class UdpServer:
    """A server of UDP that plays a script in a thread. Use it in a `with`.

    script: called with this object once the parameters came, before 0a was sent. What it raises
    is raised at the end of the `with`.
    """

    def __init__(self, script, datagrams=True):
        """datagrams: whether there is a UDP socket on the port."""
        self._script, self._failure = script, None
        self.udp = None
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.bind(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        if datagrams:
            self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.udp.bind(("127.0.0.1", self.port))
            self.udp.settimeout(10.0)
        self.listener.listen(1)
        self.listener.settimeout(20.0)
        self.control = self.parameters = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            self.control, _ = self.listener.accept()
            self.control.settimeout(20.0)
            receive(self.control, 37)
            self.control.sendall(b"\x09")
            self.parameters = take_frame(self.control)
            self._script(self)
        except BaseException as error:
            self._failure = error

    def send(self, data):
        self.control.sendall(data)

    def greet(self, reply=REPLY):
        """Take a hello and answer it; returns the client's address."""
        data, address = self.udp.recvfrom(65536)
        if data != HELLO:
            raise AssertionError("%r in place of a hello" % data)
        self.udp.sendto(reply, address)
        return address

    def end(self, document):
        """Play the end of a test; returns the client's results. The 04 was read."""
        self.send(b"\x0d")
        found = take_frame(self.control)
        self.send(frame(document) + b"\x0e")
        if receive(self.control, 1) != b"\x10":
            raise AssertionError("no 10")
        self.control.shutdown(socket.SHUT_WR)
        return found

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *details):
        self._thread.join(20.0)
        for sock in (self.listener, self.udp, self.control):
            if sock is not None:
                sock.close()
        if self._failure is not None and kind is None:
            raise self._failure
