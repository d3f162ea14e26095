"""TLS: every TCP mode inside it, certificates, and bad peers."""

import errno
import os
import shutil
import socket
import ssl
import sys
import tempfile
import threading
import time
import unittest

import fakes
import modes
import pyperf3
import support
from support import concatenate, openssl


class Case(support.ServerCase):
    def client(self, port, *arguments):
        return support.run(support.OURS + ("-c", "127.0.0.1", "-p", port) + arguments)


class Modes(Case):
    """--tls does what TCP does."""

    def test_all(self):
        port = self.serve()
        for words in modes.inside(modes.TLS):
            with self.subTest(arguments=words):
                left = self.client(port, "--tls", "-J", *words.split())
                self.assertEqual((left.code, left.err), (0, ""), left.out)
                end = left.json()["end"]
                facts = end["pyperf3"]["tls"]
                self.assertRegex(facts["version"], r"\ATLSv1\.[23]\Z")
                self.assertIsInstance(facts["cipher"], str)
                self.assertIs(facts["verified"], False)
                self.assertGreater(end["pyperf3"]["tls_seconds"], 0)
                sent, received = end["sum_sent"]["bytes"], end["sum_received"]["bytes"]
                self.assertGreater(received, 0)
                if "-n" in words.split():
                    self.assertEqual((sent, received), (3 << 20, 3 << 20))
                if "-b 10M" in words:
                    self.assertLess(sent, 2000000)
                if sys.platform.startswith("linux"):
                    self.assertIn("retransmits", end["streams"][0]["sender"])
        self.assertEqual(self.server.err(), "")

    def test_nothing_of_the_data_is_readable(self):
        """A relay between both sees no cookie, no JSON, and no payload."""
        port = self.serve()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        self.addCleanup(listener.close)
        seen = []

        def pump(source, target):
            try:
                while True:
                    data = source.recv(65536)
                    if not data:
                        break
                    seen.append(data)
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        def relay():
            while True:
                try:
                    near, _ = listener.accept()
                except OSError:
                    return
                far = socket.create_connection(("127.0.0.1", port))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()
        threading.Thread(target=relay, daemon=True).start()
        left = self.client(listener.getsockname()[1], "--tls", "-n", "1M", "-J",
                           "--repeating-payload")
        self.assertEqual((left.code, left.err), (0, ""))
        data = b"".join(seen)
        self.assertGreater(len(data), 1 << 20)
        for text in (left.json()["start"]["cookie"].encode("ascii"), b"client_version",
                     b"cpu_util", b"0123456789"):
            self.assertNotIn(text, data)

    def test_file(self):
        folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        there, here = os.path.join(folder, "there"), os.path.join(folder, "here")
        data = os.urandom(1000000)
        with open(here, "wb") as file:
            file.write(data)
        port = self.serve("-F", there)
        left = self.client(port, "--tls", "-F", here)
        self.assertEqual((left.code, left.err), (0, ""))
        with open(there, "rb") as file:
            self.assertEqual(file.read(), data)

    def test_text_says_what_was_agreed_on(self):
        port = self.serve("-V")
        left = self.client(port, "--tls", "-n", "1M", "-V")
        self.assertRegex(left.out, r"\n      TLS: TLSv1\.\d, \S+, certificate not verified\n")
        self.server.wait_for("(test #2)")
        self.assertRegex(self.server.out(), r"\n      TLS: TLSv1\.\d, \S+\n")
        left = self.client(port, "--tls", "-n", "1M")
        self.assertNotIn("TLS", left.out)

    def test_plain_clients_beside(self):
        port = self.serve("--max-clients", "4")
        for more in ((), ("--tls",)):
            self.assertEqual(self.client(port, "-n", "1M", *more).code, 0)
        left = support.run(support.real("3.22") + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
        self.assertEqual(left.code, 0)

    def test_loopback(self):
        left = support.run(support.OURS + ("--loopback", "--tls", "-n", "1M"))
        self.assertEqual((left.code, left.err), (0, ""))

    def test_refused_combinations(self):
        for option in ("-u", "--sctp", "-Z", "--skip-rx-copy"):
            left = support.run(support.OURS + ("-c", "127.0.0.1", "--tls", option))
            self.assertEqual(left.code, 1)
            self.assertTrue(left.err.startswith(
                "iperf3: parameter error - --tls cannot be combined with: %s\n" % option), left.err)


class Certificates(Case):
    """--tls-cert, --tls-key, --tls-ca, --tls-only."""

    @classmethod
    def setUpClass(cls):
        cls.folder = folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        cls.key, cls.good = os.path.join(folder, "key"), os.path.join(folder, "good")
        cls.other, cls.both = os.path.join(folder, "other"), os.path.join(folder, "both")
        for path, names in ((cls.good, "IP:127.0.0.1,DNS:localhost"), (cls.other, "DNS:other")):
            openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout",
                    cls.key if path == cls.good else path + ".key", "-out", path, "-subj",
                    "/CN=test", "-days", "2", "-addext", "subjectAltName=" + names)
        concatenate(cls.both, cls.good, cls.key)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, True)

    def test_verified(self):
        for files in (("--tls-cert", self.good, "--tls-key", self.key), ("--tls-cert", self.both)):
            port = self.serve(*files)
            left = self.client(port, "--tls-ca", self.good, "-n", "1M", "-J")
            self.assertEqual((left.code, left.err), (0, ""), left.out)
            self.assertIs(left.json()["end"]["pyperf3"]["tls"]["verified"], True)
            left = support.run(support.OURS + ("-c", "localhost", "-4", "-p", port, "-V",
                                               "--tls-ca", self.good, "-n", "1M"))
            self.assertIn(", certificate verified\n", left.out)

    def test_wrong_authority_name_or_none(self):
        for files, authority, text in (
                (("--tls-cert", self.good, "--tls-key", self.key), self.other, "does not hold: "),
                (("--tls-cert", self.other, "--tls-key", self.other + ".key"), self.other,
                 "does not hold: "), ((), self.good, "does not hold: ")):
            with self.subTest(files=files):
                port = self.serve(*files)
                left = self.client(port, "--tls-ca", authority, "-n", "1M")
                self.assertEqual((left.code, left.out), (1, ""), left)
                self.assertRegex(left.err, r"\Aiperf3: error - unable to set up TLS: the server's"
                                           r" certificate does not hold: .+\n\Z")
                self.assertEqual(self.client(port, "--tls", "-n", "1M").code, 0)
                self.server.wait_for_error("\n")
                self.assertEqual(self.server.err().count("\n"), 1)

    def test_expired(self):
        path = os.path.join(self.folder, "expired")
        with open(path + ".conf", "w") as file:
            file.write("[ca]\ndefault_ca=a\n[a]\ndatabase=%s.index\nserial=%s.serial\n"
                       "new_certs_dir=%s\ndefault_md=sha256\npolicy=p\nx509_extensions=x\n"
                       "[p]\ncommonName=supplied\n[x]\nsubjectAltName=IP:127.0.0.1\n"
                       % (path, path, self.folder))
        for name, text in ((".index", ""), (".serial", "01\n")):
            with open(path + name, "w") as file:
                file.write(text)
        openssl("req", "-new", "-key", self.key, "-subj", "/CN=test", "-out", path + ".request")
        openssl("ca", "-batch", "-config", path + ".conf", "-selfsign", "-keyfile", self.key,
                "-startdate", "20200101000000Z", "-enddate", "20200201000000Z", "-in",
                path + ".request", "-out", path)
        port = self.serve("--tls-cert", path, "--tls-key", self.key)
        left = self.client(port, "--tls-ca", path, "-n", "1M")
        self.assertEqual(left.code, 1)
        self.assertIn("certificate has expired\n", left.err)

    def test_files_of_no_use(self):
        self.addCleanup(os.remove, self.key + ".locked")
        openssl("rsa", "-in", self.key, "-aes128", "-passout", "pass:x", "-out",
                self.key + ".locked")
        for files, text in (
                (("/no/such/file",), "/no/such/file: No such file or directory"),
                ((__file__,), __file__ + ": there is no certificate (PEM) in it"),
                ((self.key,), self.key + ": there is no certificate (PEM) in it"),
                ((self.good,), self.good + ": there is no private key (PEM) in it"),
                ((self.good, "/no/such/file"), "/no/such/file: No such file or directory"),
                ((self.good, self.other), self.other + ": there is no private key (PEM) in it"),
                ((self.good, self.other + ".key"),
                 self.good + ": the private key is not this certificate's"),
                ((self.good, self.key + ".locked"),
                 self.key + ".locked: the private key is encrypted")):
            options = [word for pair in zip(("--tls-cert", "--tls-key"), files) for word in pair]
            left = support.run(support.OURS + ("-s",) + tuple(options))
            self.assertEqual((left.code, left.out, left.err), (
                1, "", "iperf3: error - unable to set up TLS: %s\niperf3: exiting\n" % text))
        port = self.serve()
        with open(self.good) as whole, open(self.good + ".half", "w") as half, open(
                self.good + ".damaged", "w") as damaged:
            text = whole.read()
            half.write(text[:300])
            damaged.write(text[:200] + text[300:])
        for path, text in (("/no/such/file", "No such file or directory"),
                           (__file__, "there is no certificate (PEM) in it"),
                           (self.good + ".half", "there is no certificate (PEM) in it"),
                           (self.good + ".damaged", "a certificate in it is of no use")):
            left = self.client(port, "--tls-ca", path)
            self.assertEqual((left.code, left.err), (
                1, "iperf3: error - unable to set up TLS: %s: %s\n" % (path, text)))

    def test_only(self):
        port = self.serve("--tls-only")
        for program, text in (
                (support.OURS, "the server serves clients with --tls only"),
                (support.real("3.22"), "the server is busy running a test. try again later")):
            left = support.run(program + ("-c", "127.0.0.1", "-p", port, "-n", "1M"))
            self.assertEqual(left.code, 1)
            self.assertIn("iperf3: error - %s\n" % text, left.err)
        self.server.wait_for_error("\n", 2)
        self.assertEqual(self.server.err(), "warning: 127.0.0.1 wants a test without TLS\n" * 2)
        self.assertEqual(self.client(port, "--tls", "-n", "1M").code, 0)

    def test_key_alone_was_ignored(self):
        left = support.run(support.OURS + ("-s", "--tls-key", "key.pem"))
        self.assertEqual(left.code, 1)
        self.assertTrue(left.err.startswith(
            "iperf3: parameter error - unable to set up TLS: --tls-key goes with --tls-cert\n"),
            left.err)


class BadPeers(Case):
    def honest(self, port):
        self.assertEqual(self.client(port, "--tls", "-n", "1M").code, 0)

    def test_server_that_is_no_pyperf3(self):
        port = self.serve(program=support.real("3.22"))
        left = self.client(port, "--tls", "-t", "1")
        self.assertEqual((left.code, left.out), (1, ""))
        self.assertRegex(
            left.err, r"\Aiperf3: error - unable to set up TLS: (?:the other end does not speak TLS"
                      r"|.+: the server may be an iperf3, which has no TLS)\n\Z")

    def test_garbage_at_each_stage(self):
        port = self.serve()
        for data in (b"\x16", b"\x16\x03", b"\x16\x03\x01\x02\x00\x01" + b"a" * 600,
                     b"\x16" + os.urandom(5000), b"\x16\x03\x01\xff\xff" + b"\0" * 70000):
            sock = socket.create_connection(("127.0.0.1", port), 10.0)
            with sock:
                fakes.pour(sock, data)
            self.honest(port)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        for data, raw in ((b"GET / HTTP/1.1\r\n\r\n" + b"x" * 100, False), (b"noise" * 100, True),
                          (b"a" * 36 + b"\0" + b"\xff" * 4, False),
                          (b"a" * 36 + b"\0", True)):
            sock = context.wrap_socket(socket.create_connection(("127.0.0.1", port), 10.0))
            with sock:
                try:
                    if raw:
                        socket.socket.send(sock, data)
                    else:
                        sock.sendall(data)
                    socket.socket.shutdown(sock, socket.SHUT_WR)
                    while socket.socket.recv(sock, 4096):
                        pass
                except (OSError, ValueError):
                    pass
            self.honest(port)
        for line in self.server.err().split("\n")[:-1]:
            self.assertTrue(line.startswith("iperf3: error - "), line)

    def test_silence_of_a_data_connection_was_laid_to_an_iperf3(self):
        context, listener = pyperf3.server_context(), socket.socket()
        self.addCleanup(listener.close)
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        hasty = support.with_limits(STEP_TIMEOUT=0.5)
        with support.Program(hasty + ("-c", "127.0.0.1", "-p", listener.getsockname()[1],
                                      "--tls")) as program:
            with context.wrap_socket(listener.accept()[0], server_side=True) as control:
                self.assertEqual(len(control.recv(37)), 37)
                control.sendall(b"\x09\x0a")
                with listener.accept()[0]:
                    left = program.finish(30.0)
        self.assertEqual((left.code, left.err), (
            1, "iperf3: error - unable to set up TLS: stream 1 of 1: the handshake timed out\n"))

    def test_names_of_another_openssl_were_nonsense(self):
        """Python 3.6 and 3.7 have other names for the errors of OpenSSL 3."""
        error = ssl.SSLError(1, "[SSL: KRB5_S_TKT_NYV] unexpected eof while reading (_ssl.c:852)")
        error.reason = "KRB5_S_TKT_NYV"
        self.assertEqual(pyperf3.tls_text(error), "the other end closed the connection")
        error = ssl.SSLError(1, "certificate is not valid for 'geoff-pc'")
        self.assertEqual(pyperf3.tls_text(error), "certificate is not valid for 'geoff-pc'")
        error = ssl.SSLError(1, "[SSL: BN_LIB] unsupported protocol (_ssl.c:852)")
        error.reason = "BN_LIB"
        self.assertEqual(pyperf3.tls_text(error), "unsupported protocol")

    def test_silence_in_the_handshake_delays_nobody_and_ends(self):
        port = self.serve()
        with socket.create_connection(("127.0.0.1", port), 30.0) as sock:
            sock.sendall(b"\x16\x03\x01")
            began = time.monotonic()
            self.honest(port)
            while sock.recv(4096):
                pass
            self.assertLess(time.monotonic() - began, 25.0)
        self.server.wait_for_error("unable to set up TLS: the handshake timed out\n")

    def test_data_connection_without_tls_is_refused(self):
        port = self.serve()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        cookie = b"a" * 36 + b"\0"
        document = b'{"tcp":true,"time":1,"parallel":1,"len":1000}'
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port), 10.0)) as control:
            control.sendall(cookie)
            self.assertEqual(control.recv(1), b"\x09")
            control.sendall(len(document).to_bytes(4, "big") + document)
            self.assertEqual(control.recv(1), b"\x0a")
            with socket.create_connection(("127.0.0.1", port), 10.0) as plain:
                plain.sendall(cookie)
                self.assertEqual(plain.recv(1), b"\xff")  # busy: it is no part of the test
        self.honest(port)


class EndsOfConnections(unittest.TestCase):
    """What TlsSocket says of connections that end badly."""

    def pair(self):
        """Return (TlsSocket, SSLSocket) with a TLS connection between them."""
        sockets, accepted = socket.socketpair(), []
        context = pyperf3.server_context()
        thread = threading.Thread(target=lambda: accepted.append(
            context.wrap_socket(sockets[1], server_side=True)))
        thread.start()
        ours = pyperf3.client_context().wrap_socket(sockets[0], server_hostname="localhost")
        thread.join()
        self.addCleanup(ours.close)
        self.addCleanup(accepted[0].close)
        ours.settimeout(20.0)
        return pyperf3.TlsSocket(ours), accepted[0]

    def test_no_farewell_was_an_error_of_openssl(self):
        """Python 3.6 with OpenSSL 3 said KRB5_S_TKT_NYV, then error 0."""
        ours, theirs = self.pair()
        socket.socket.shutdown(theirs, socket.SHUT_RDWR)
        self.assertEqual((ours.recv(5), ours.recv(5), ours.recv_into(bytearray(5))), (b"", b"", 0))

    def test_garbage_in_place_of_a_record(self):
        """The number of OpenSSL's error was taken for an errno: Operation not permitted."""
        ours, theirs = self.pair()
        os.write(theirs.fileno(), b"\x17\x03\x03\x00\x40" + b"x" * 64)
        with self.assertRaises(OSError) as caught:
            while True:
                ours.recv(5)
        self.assertEqual(caught.exception.errno, errno.EPROTO)
        self.assertRegex(caught.exception.strerror, r"\ATLS: [a-z ]+\Z")


class Lacking(Case):
    """Hosts without ssl, cryptography or openssl."""

    def test_no_ssl(self):
        left = support.run(support.without("ssl") + (
            "-c", "127.0.0.1", "--tls", "-p", self.serve(program=support.without("ssl"))))
        self.assertEqual((left.code, left.err), (
            1, "iperf3: error - unable to set up TLS: this Python has no module ssl\n"))
        left = support.run(support.without("ssl") + ("-s", "--tls-only"))
        self.assertEqual((left.code, left.err.split("\n")[0]), (
            1, "iperf3: error - unable to set up TLS: this Python has no module ssl"))
        port = self.serve(program=support.without("ssl"))
        left = self.client(port, "--tls", "-n", "1M")
        self.assertEqual(left.code, 1)
        self.server.wait_for_error("unable to set up TLS: this Python has no module ssl")
        self.assertEqual(self.client(port, "-n", "1M").code, 0)

    def test_certificate_by_the_command(self):
        if not shutil.which("openssl"):
            raise unittest.SkipTest("no openssl here")
        port = self.serve(program=support.without("cryptography"))
        self.assertEqual(self.client(port, "--tls", "-n", "1M").code, 0)
        self.assertEqual(self.server.err(), "")

    def test_no_certificate_at_all(self):
        """An anonymous suite where OpenSSL has one, else one line."""
        port = self.serve(program=support.without("cryptography,subprocess"))
        left = self.client(port, "--tls", "-n", "1M", "-V")
        if left.code:
            self.server.wait_for_error("none can be made")
        else:
            self.assertRegex(left.out, "TLS: TLSv1.2, (AECDH|ADH)-")
        self.assertEqual(self.client(port, "-n", "1M").code, 0)


class CpuBound(unittest.TestCase):
    def test_a_few_milliseconds_told_of_a_busy_end(self):
        left = support.run(support.OURS + ("--loopback", "--tls", "-n", "1M", "-J"))
        self.assertEqual(left.json()["end"]["pyperf3"]["cpu_bound"], [])


if __name__ == "__main__":
    unittest.main()
