"""Authentication: keys, users, tokens, prompts, and iperf3 on the other side."""

import base64
import contextlib
import importlib.util
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import unittest.mock

import field
import pyperf3
import support
from support import openssl

DENIED = "test authorization failed"
USAGE = ("\nUsage: iperf3 [-s|-c host] [options]\n"
         "Try `iperf3 --help' for more information.\n")
CLIENT_ERROR = ("iperf3: parameter error - you must specify a username, password, and path to a"
                " valid RSA public key\n" + USAGE)
SERVER_ERROR = ("iperf3: parameter error - you must specify a path to a valid RSA private key and a"
                " user credential file\n" + USAGE)
HAS_LIBRARY = importlib.util.find_spec("cryptography") is not None
# A program without the package, which therefore calls openssl.
COMMAND = support.without("cryptography")
PASSPHRASE = "open sesame"


def old_form(*arguments):
    """Write a private key as PKCS#1, which openssl has as an option since 3.0."""
    try:
        openssl("rsa", "-traditional", *arguments)
    except subprocess.CalledProcessError:
        openssl("rsa", *arguments)


class Keys(unittest.TestCase):
    """One key in all its forms, and a file of users, in a folder."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which("openssl"):
            raise unittest.SkipTest("no openssl here to make keys with")
        cls.folder = tempfile.mkdtemp(prefix="pyperf3-test-")
        path = cls.path
        key = path("pkcs8.pem")
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", key)
        old_form("-in", key, "-out", path("pkcs1.pem"))
        openssl("pkcs8", "-topk8", "-in", key, "-out", path("locked8.pem"), "-v2", "aes-128-cbc",
                "-passout", "pass:" + PASSPHRASE)
        old_form("-in", key, "-aes128", "-out", path("locked1.pem"), "-passout",
                 "pass:" + PASSPHRASE)
        openssl("rsa", "-in", key, "-pubout", "-out", path("public.pem"))
        openssl("rsa", "-in", key, "-RSAPublicKey_out", "-out", path("public1.pem"))
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out",
                path("curve.pem"))
        openssl("pkey", "-in", path("curve.pem"), "-pubout", "-out", path("curve.pub"))
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out",
                path("other.pem"))
        openssl("rsa", "-in", path("other.pem"), "-pubout", "-out", path("other.pub"))
        cls.write("users", cls.line("mario", "rossi"))
        cls.write("garbage", "this is no key\n")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, True)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def write(cls, name, text):
        with open(cls.path(name), "wb") as file:
            file.write(text.encode("utf-8"))
        return cls.path(name)

    @staticmethod
    def line(user, password, end="\n"):
        return "%s,%s%s" % (user, pyperf3.password_digest(user, password), end)

    def server_options(self, key="pkcs8.pem", users="users"):
        return ("--rsa-private-key-path", self.path(key), "--authorized-users-path",
                self.path(users))

    def client_options(self, user="mario", key="public.pem"):
        return ("--username", user, "--rsa-public-key-path", self.path(key))

    @contextlib.contextmanager
    def server(self, *arguments, **more):
        """Run a server that asks who is there; gives (Program, port)."""
        command = more.pop("command", support.OURS)
        program, port = support.start_server(command, *(self.server_options(**more) + arguments))
        with program:
            yield program, port

    def client(self, port, *arguments, **more):
        """Run a client as mario, with the password rossi, unless told otherwise."""
        password, command = more.pop("password", "rossi"), more.pop("command", support.OURS)
        names = more.pop("names", {"IPERF3_PASSWORD": password})
        return support.run(tuple(command) + ("-c", "127.0.0.1", "-p", port, "-n", "100K")
                           + self.client_options(**more) + arguments,
                           env=support.environment(**names))

    def check_in(self, left):
        self.assertEqual((left.code, left.err), (0, ""), left)

    def check_denied(self, left):
        self.assertEqual(left.code, 1, left)
        self.assertEqual(left.err, "iperf3: SERVER ERROR - %s\niperf3: error - %s\n"
                         % (DENIED, DENIED))
        self.assertEqual(left.out.count("\n"), 1)

    # A client made by hand

    def token(self, user="mario", password="rossi", age=0, text=None, key="public.pem",
              pkcs1=False):
        text = pyperf3.credentials(user, password, time.time() - age) if text is None else text
        rsa = pyperf3.RsaKey(self.path(key), False)
        return base64.b64encode(rsa.encrypt(text, pkcs1)).decode("ascii")

    def knock(self, port, token, **more):
        """Send parameters with a token; returns 0 if that lets in, else the number of the error."""
        document = {"tcp": True, "time": 1, "parallel": 1, "len": 131072, "client_version": "3.22"}
        if token is not None:
            document["authtoken"] = token
        document.update(more)
        body = json.dumps(document).encode("ascii")
        with socket.create_connection(("127.0.0.1", port), 20.0) as sock, (
                sock.makefile("rb")) as stream:
            sock.sendall(os.urandom(18).hex().encode("ascii") + b"\0")
            self.assertEqual(stream.read(1), b"\x09")
            sock.sendall(struct.pack("!I", len(body)) + body)
            state = stream.read(1)
            if state == b"\x0a":
                sock.sendall(b"\x0c")  # the client terminates
                stream.read()  # to its end: then the server is free again
                return 0
            self.assertEqual(state, b"\xfe")
            number, other = struct.unpack("!ii", stream.read(8))
            self.assertEqual((other, stream.read(1)), (0, b""))
            return number



class Doors(Keys):
    """Who is let in."""

    def test_good_and_bad_and_good_again(self):
        with self.server() as (program, port):
            self.check_in(self.client(port))
            self.check_denied(self.client(port, password="wrong"))
            self.check_denied(self.client(port, user="luigi"))
            self.check_denied(self.client(port, password=""))
            self.check_denied(self.client(port, key="other.pub"))
            left = support.run(support.OURS + ("-c", "127.0.0.1", "-p", port))
            self.check_denied(left)
            for arguments in (("-R",), ("-u",), ("--bidir", "-P", "2")):
                self.check_in(self.client(port, *arguments))
            program.signal()
            left = program.finish(20.0)
        self.assertEqual(left.err.count("iperf3: error - %s\n" % DENIED), 5)
        self.assertEqual(left.err.count("\n"), 6, left)
        self.assertEqual(left.out.count("Accepted connection"), 4)
        self.assertIn("(test #10)", left.out)

    def test_json(self):
        with self.server("-J", "-1") as (program, port):
            left = self.client(port, "-J", password="wrong")
            self.assertEqual((left.code, left.err), (1, ""))
            self.assertEqual(left.json()["error"], DENIED)
            other = program.finish(20.0)
        self.assertEqual((other.code, other.err), (0, ""))
        self.assertEqual(other.json()["error"], "error - " + DENIED)

    def test_a_server_that_does_not_ask_does_not_mind(self):
        program, port = support.start_server(support.OURS, "-1")
        with program:
            self.check_in(self.client(port))

    def test_passwords_with_blanks_and_other_letters(self):
        """A password with a blank is split by the server, as iperf3 does: nobody comes in."""
        self.write("letters", self.line("m\u00e9", "p\u00e4ss,w\u00f6rd") + self.line("b", "a c"))
        with self.server(users="letters") as (_, port):
            self.check_in(self.client(port, user="m\u00e9", password="p\u00e4ss,w\u00f6rd"))
            self.check_denied(self.client(port, user="b", password="a c"))

    def test_too_long_for_the_key(self):
        with self.server() as (_, port):
            left = self.client(port, password="x" * 300)
        self.assertEqual(left.code, 1, left)
        self.assertNotIn("Traceback", left.err)
        self.assertIn("you must specify a username, password", left.err)

    def test_limits_come_before(self):
        with self.server("--server-max-duration", "1") as (_, port):
            self.assertEqual(self.knock(port, None, time=5), 37)
            self.assertEqual(self.knock(port, None, parallel=500), 6)
            self.assertEqual(self.knock(port, None), 142)

    def test_one_test(self):
        with self.server("-1") as (program, port):
            self.check_denied(self.client(port, password="wrong"))
            self.assertEqual(program.finish(20.0).code, 0)


class Tokens(Keys):
    """Tokens made by hand."""

    def test_stale_ones(self):
        with self.server() as (_, port):
            for age, outcome in ((8, 0), (-8, 0), (14, 142), (-14, 142), (10 ** 9, 142)):
                with self.subTest(age=age):
                    self.assertEqual(self.knock(port, self.token(age=age)), outcome)
        with self.server("--time-skew-threshold", "100") as (_, port):
            for age, outcome in ((90, 0), (-90, 0), (110, 142), (-110, 142)):
                with self.subTest(age=age):
                    self.assertEqual(self.knock(port, self.token(age=age)), outcome)

    def test_replayed_ones(self):
        with self.server() as (_, port):
            token = self.token()
            self.assertEqual(self.knock(port, token), 0)
            self.assertEqual(self.knock(port, token), 142)
            self.assertEqual(self.knock(port, self.token()), 0)
            # other letters of the same bytes
            again = "\n".join(token[at:at + 64] for at in range(0, len(token), 64))
            self.assertEqual(self.knock(port, again), 142)

    def test_a_token_of_a_real_client_once_only(self):
        """What a client sends is recorded, and sent again."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1)
            with support.Program(
                    support.OURS + ("-c", "127.0.0.1", "-p", listener.getsockname()[1])
                    + self.client_options(), env=support.environment(IPERF3_PASSWORD="rossi")) as (
                        client):
                sock = listener.accept()[0]
                stream = sock.makefile("rb")
                stream.read(37)
                sock.sendall(b"\x09")
                size, = struct.unpack("!I", stream.read(4))
                document = json.loads(stream.read(size).decode("ascii"))
                stream.close()
                sock.close()
                client.finish(20.0)
        token = document["authtoken"]
        self.assertRegex(token, r"\A[A-Za-z0-9+/]{342}==\Z")
        self.assertNotIn("rossi", json.dumps(document))
        with self.server() as (_, port):
            self.assertEqual([self.knock(port, token) for _ in range(3)], [0, 142, 142])

    def test_garbage(self):
        now = int(time.time())
        tokens = [None, "", "x", "====", "A" * 344, base64.b64encode(b"\0" * 256).decode("ascii"),
                  base64.b64encode(os.urandom(256)).decode("ascii"), "\u00e9", 5, True, ["a"], {},
                  "A" * 7000]
        tokens += [self.token(text=text) for text in (
            b"", b"user: mario", b"user: mario\npwd:  rossi\nts:   x",
            b"user: mario\npwd:  rossi", b"usr: mario\npwd:  rossi\nts:   %d" % now,
            b"pwd:  rossi\nuser: mario\nts:   %d" % now, b"\xff\0\xfe",
            b"user: mario\npwd:  rossi\nts:   %d" % (now * 10 ** 6))]
        tokens.append(self.token(key="other.pub"))
        tokens.append(self.token(pkcs1=True))
        with self.server() as (program, port):
            for token in tokens:
                with self.subTest(token=token if not isinstance(token, str) else token[:12]):
                    self.assertEqual(self.knock(port, token), 142)
            self.assertEqual(self.knock(port, self.token()), 0)
            self.assertNotIn("Traceback", program.err())

    def test_blanks_between_the_words(self):
        with self.server() as (_, port):
            for text in (b"user: mario pwd: rossi ts: %d and more",
                         b"user: mario pwd: rossi ts: +%d",
                         b"user:\n\nmario\r\npwd:\trossi ts:\n%d",
                         b"user: mario pwd: rossi ts: %dx"):
                with self.subTest(text=text):
                    self.assertEqual(self.knock(port, self.token(text=text % time.time())), 0)

    def test_blanks_that_are_none_to_iperf3(self):
        """Only those of ASCII end a word: a no-break space is a letter of a password."""
        passwords = ("p\u00a0x", "p\u2003x", "p\x1cx", "p\x85x")
        self.write("spaces", "".join(self.line("u%d" % number, password)
                                     for number, password in enumerate(passwords)))
        with self.server(users="spaces") as (_, port):
            for number, password in enumerate(passwords):
                with self.subTest(password=password):
                    token = self.token("u%d" % number, password)
                    self.assertEqual(self.knock(port, token), 0)

    def test_both_paddings(self):
        with self.server("--use-pkcs1-padding") as (_, port):
            self.assertEqual(self.knock(port, self.token(pkcs1=True)), 0)
            self.assertEqual(self.knock(port, self.token()), 142)
            self.check_in(self.client(port, "--use-pkcs1-padding"))
            self.check_denied(self.client(port))
        with self.server() as (_, port):
            self.check_denied(self.client(port, "--use-pkcs1-padding"))


class Gatekeepers(unittest.TestCase):
    """Gatekeeper, with a clock of its own."""

    def setUp(self):
        self.now = 1796048734.0
        clock = unittest.mock.Mock(wraps=time)
        clock.time = lambda: self.now
        patch = unittest.mock.patch.object(pyperf3, "time", clock)
        patch.start()
        self.addCleanup(patch.stop)
        self.users = {"mario": pyperf3.password_digest("mario", "rossi")}
        self.gatekeeper = pyperf3.Gatekeeper(lambda token: token, lambda: self.users, 10)

    def token(self, seconds, more=b""):
        return pyperf3.credentials("mario", "rossi", self.now + seconds) + b" " + more

    def test_the_published_example(self):
        self.assertEqual(self.users["mario"], "bf7a49a846d44b454a5d11e7acfaf13d"
                                              "138bbe0b7483aa3e050879700572709b")
        self.assertEqual(pyperf3.credentials("mario", "rossi", 1796048734.9),
                         b"user: mario\npwd:  rossi\nts:   1796048734")

    def test_threshold(self):
        for seconds, good in ((0, True), (10, True), (-10, True), (11, False), (-11, False)):
            with self.subTest(seconds=seconds):
                self.assertEqual(self.gatekeeper.admits(self.token(seconds)), good)

    def test_a_token_stays_taken_as_long_as_it_would_be_good(self):
        token = self.token(9)
        self.assertTrue(self.gatekeeper.admits(token))
        for _ in range(4):
            self.now += 5
            self.assertFalse(self.gatekeeper.admits(token))
        self.now += 5
        self.assertTrue(self.gatekeeper.admits(self.token(0)))
        self.assertEqual(len(self.gatekeeper._taken), 1)

    def test_a_bad_password_does_not_use_up_a_token(self):
        users, self.users = self.users, {}
        self.assertFalse(self.gatekeeper.admits(self.token(0)))
        self.users = users
        self.assertTrue(self.gatekeeper.admits(self.token(0)))

    def test_users_without_a_digest(self):
        for digest in ("", "x", self.users["mario"].upper(), self.users["mario"] + " ",
                       "\u00e9\udcff"):
            self.users = {"mario": digest}
            self.assertFalse(self.gatekeeper.admits(self.token(0)))

    def test_a_decryption_that_fails(self):
        nobody = pyperf3.Gatekeeper(lambda token: None, lambda: self.users, 10)
        self.assertFalse(nobody.admits(b"x"))


class Users(Keys):
    """The file of users."""

    def admitted(self, text, user="mario", password="rossi"):
        digest = pyperf3.password_digest(user, password)
        return pyperf3.read_users(text).get(user) == digest

    def test_variants(self):
        good, bad = self.line("mario", "rossi", ""), self.line("mario", "wrong", "")
        for text, expected in (
                (good, True), (good + "\n", True), (good + "\r\n", True),
                ("# users\n\n" + good + "\n", True), ("\r\n\r\n# x\r\n" + good, True),
                (good + "\n" + bad + "\n", True), (bad + "\n" + good + "\n", False),
                ("#" + good, False), ("no comma\n" + good, True), (good + ",more,columns\n", True),
                (" " + good, False), (good.replace(",", " ,"), False),
                (good.replace(",", ", "), False), (good + " \n", False), ("", False),
                (good.upper(), False), ("mario," + good.split(",")[1].upper(), False),
                (",\n,,\n" + good, True), ("luigi,x\n" + good, True),
                ("\ufeffluigi,x\n" + good, True)):
            with self.subTest(text=text):
                self.assertEqual(self.admitted(text), expected)

    def test_a_file_of_windows(self):
        self.write("windows", "# who\r\n\r\n" + self.line("mario", "rossi", "\r\n"))
        with self.server(users="windows") as (_, port):
            self.check_in(self.client(port))

    def test_the_file_is_read_for_each_test(self):
        self.write("changing", "")
        with self.server(users="changing") as (program, port):
            self.check_denied(self.client(port))
            self.write("changing", self.line("mario", "rossi"))
            self.check_in(self.client(port))
            os.unlink(self.path("changing"))
            self.check_denied(self.client(port))
            self.write("changing", self.line("mario", "rossi"))
            self.check_in(self.client(port))
            self.assertNotIn("Traceback", program.err())

    def test_file_that_became_unreadable_denied_in_silence(self):
        self.write("fleeting", self.line("mario", "rossi"))
        with self.server(users="fleeting") as (program, port):
            os.unlink(self.path("fleeting"))
            self.check_denied(self.client(port))
            program.wait_for_error(
                "iperf3: error - test authorization failed: cannot access authorized users file: No"
                " such file or directory\n")

    def test_tokens_that_no_key_takes_cost_no_thread(self):
        conversation, _ = support.conversation(
            authorized_users_path=self.path("users"), rsa_private_key_path=self.path("pkcs8.pem"))
        conversation.resources.gatekeeper.admits = None  # would be called
        for size in (0, 2049, 6000):
            token = base64.b64encode(b"x" * size).decode("ascii")
            with self.assertRaises(pyperf3.IperfError) as caught:
                next(conversation.resources.authorize(token))
            self.assertEqual(caught.exception.number, 142)

    def test_threads_are_some_at_a_time(self):
        server = pyperf3.Server(pyperf3.Settings(server=True))
        self.addCleanup(server._loop.close)
        now, most, lock = [0], [0], threading.Lock()

        def work():
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            time.sleep(0.02)
            with lock:
                now[0] -= 1
            return True
        tasks = [server.attend(server.resources.calls.call(work)) for _ in range(20)]
        while not all(task.done for task in tasks):
            server._loop.run_once()
        self.assertLessEqual(most[0], 4)

    def test_bytes_that_are_no_text(self):
        with open(self.path("bytes"), "wb") as file:
            file.write(b"\xff\xfe,\xff\n" + self.line("mario", "rossi").encode("ascii"))
        with self.server(users="bytes") as (_, port):
            self.check_in(self.client(port))

    def test_not_there(self):
        for users in ("nosuch", "."):
            left = support.run(support.OURS + ("-s",) + self.server_options(users=users))
            with self.subTest(users=users):
                self.assertEqual((left.out, support.as_iperf3(left.err), left.code), (
                    "", "iperf3: parameter error - cannot access authorized users file\n" + USAGE,
                    1))


class Files(Keys):
    """Keys: their forms, and what is said about bad ones."""

    def commands(self):
        yield "openssl", COMMAND
        if HAS_LIBRARY:
            yield "cryptography", support.OURS

    def test_forms(self):
        for name, command in self.commands():
            for private in ("pkcs1.pem", "pkcs8.pem"):
                with self.server(command=command, key=private) as (_, port):
                    for public in ("public.pem", "public1.pem"):
                        with self.subTest(with_=name, private=private, public=public):
                            self.check_in(self.client(port, command=command, key=public))
                    self.check_denied(self.client(port, command=command, password="wrong"))

    def test_both_ways_fit_together(self):
        if not HAS_LIBRARY:
            raise unittest.SkipTest("no cryptography here")
        for padding in ((), ("--use-pkcs1-padding",)):
            for server, client in ((COMMAND, support.OURS), (support.OURS, COMMAND),
                                   (COMMAND, COMMAND)):
                with self.subTest(padding=padding, server=server is COMMAND):
                    with self.server(*padding, command=server) as (_, port):
                        self.check_in(self.client(port, *padding, command=client))

    def test_implementations(self):
        """The same key by both: what one encrypts the other decrypts."""
        ways = [pyperf3._CommandRsa()] + ([pyperf3._LibraryRsa()] if HAS_LIBRARY else [])

        def load(way, name, private, passphrase=None):
            with open(self.path(name), "rb") as file:
                return way.load(self.path(name), file.read(), private, passphrase)
        for padding in (False, True):
            for one in ways:
                data = one.encrypt(load(one, "public.pem", False), b"some text", padding)
                self.assertEqual(len(data), 256)
                for other in ways:
                    for name, passphrase in (("pkcs1.pem", None), ("pkcs8.pem", None),
                                             ("locked1.pem", PASSPHRASE.encode("ascii")),
                                             ("locked8.pem", PASSPHRASE.encode("ascii"))):
                        with self.subTest(padding=padding, one=one, other=other, name=name):
                            key = load(other, name, True, passphrase)
                            self.assertEqual(other.decrypt(key, data, padding), b"some text")

    def test_trouble(self):
        """Each bad key raises IperfError; only what lacks its passphrase says so by its class."""
        for name, private, passphrase, encrypted in (
                ("garbage", True, None, False), ("garbage", False, None, False),
                ("nosuch", True, None, False), (".", False, None, False),
                ("curve.pem", True, None, False), ("curve.pub", False, None, False),
                ("public.pem", True, None, False), ("pkcs8.pem", False, None, False),
                ("locked8.pem", True, None, True), ("locked1.pem", True, None, True),
                ("locked8.pem", True, b"wrong", False), ("locked1.pem", True, b"wrong", False)):
            for way in ([pyperf3._CommandRsa] + ([pyperf3._LibraryRsa] if HAS_LIBRARY else [])):
                with self.subTest(name=name, private=private, way=way.__name__):
                    with unittest.mock.patch.object(pyperf3.RsaKey, "_implementation",
                                                    staticmethod(way)):
                        with self.assertRaises(pyperf3.IperfError) as caught:
                            pyperf3.RsaKey(self.path(name), private, passphrase)
                    error = caught.exception
                    self.assertEqual(error.number, 23 if private else 22)
                    self.assertTrue(error.reason())
                    self.assertNotIn("\n", error.reason())
                    self.assertEqual(isinstance(error, pyperf3.PassphraseMissing), encrypted)

    def test_keys_that_cannot_be_loaded(self):
        """One line about why, an empty one, then the error."""
        for name, command in self.commands():
            for key in ("garbage", "nosuch", "curve.pub"):
                left = support.run(command + ("-c", "127.0.0.1") + self.client_options(key=key),
                                   env=support.environment(IPERF3_PASSWORD="x"))
                with self.subTest(with_=name, key=key):
                    self.assertEqual((left.out, left.code), ("", 1))
                    self.assertRegex(support.as_iperf3(left.err), r"\Aiperf3: [^\n]+\n\n%s\Z"
                                     % re.escape(CLIENT_ERROR))
            for key in ("garbage", "nosuch", "public.pem", "curve.pem", "locked8.pem"):
                left = support.run(command + ("-s",) + self.server_options(key=key))
                with self.subTest(with_=name, key=key):
                    self.assertEqual((left.out, left.code), ("", 1))
                    self.assertRegex(support.as_iperf3(left.err), r"\Aiperf3: [^\n]+\n\n%s\Z"
                                     % re.escape(SERVER_ERROR))

    def test_neither_way(self):
        names = {"PATH": self.path("nothing"), "IPERF3_PASSWORD": "x"}
        line = ("iperf3: RSA needs the Python package cryptography, or the command openssl; neither"
                " is here\n\n")
        left = support.run(COMMAND + ("-c", "127.0.0.1") + self.client_options(),
                           env=support.environment(**names))
        self.assertEqual((left.out, support.as_iperf3(left.err), left.code),
                         ("", line + CLIENT_ERROR, 1))
        left = support.run(COMMAND + ("-s",) + self.server_options(),
                           env=support.environment(**names))
        self.assertEqual((left.out, support.as_iperf3(left.err), left.code),
                         ("", line + SERVER_ERROR, 1))
        left = support.run(COMMAND + ("--version",), env=support.environment(**names))
        self.assertNotIn("authentication", left.out)
        left = support.run(support.OURS + ("--version",))
        self.assertIn(", authentication,", left.out)
        left = support.run(COMMAND + ("--loopback", "-n", "100K"),
                           env=support.environment(**names))
        self.assertEqual((left.code, left.err), (0, ""), left)

    def test_as_a_module(self):
        with self.assertRaises(pyperf3.IperfError) as caught:
            pyperf3.Client(pyperf3.Settings(
                client="127.0.0.1", username="mario", password="x",
                rsa_public_key_path=self.path("garbage")))
        self.assertEqual(caught.exception.number, 22)
        with self.assertRaises(pyperf3.IperfError) as caught:
            pyperf3.Server(pyperf3.Settings(
                server=True, rsa_private_key_path=self.path("garbage"),
                authorized_users_path=self.path("users")))
        self.assertEqual(caught.exception.number, 23)
        with self.server("-1") as (_, port):
            document = pyperf3.Client(pyperf3.Settings(
                client="127.0.0.1", port=port, username="mario", password="rossi", bytes="100K",
                rsa_public_key_path=self.path("public.pem"))).run()
        self.assertGreater(document["end"]["sum_sent"]["bytes"], 0)

    def test_the_private_key_is_in_no_argument_or_output(self):
        with self.server("-d", "-1") as (program, port):
            left = self.client(port, "-d")
            self.assertEqual(left.code, 0, left)
            other = program.finish(20.0)
        for text in (left.out, left.err, other.out, other.err):
            self.assertNotIn("rossi", text)


class Order(Keys):
    """Which of several errors is reported, as by iperf3."""

    def error(self, command, words, **names):
        """Return the lines of an error, with one about a key as its beginning only."""
        left = support.run(tuple(command) + words, env=support.environment(**names))
        self.assertEqual((left.out, left.code), ("", 1), left)
        return re.sub(r"\Aiperf3: (?!parameter)[^\n]+", "iperf3: ",
                      support.as_iperf3(left.err))

    def test_clients(self):
        for key in ("nosuch", "garbage", "public.pem"):
            for more in (("-l", "2M"), ("-t", "5", "-n", "1"), ("-R", "-u", "-F", "f"),
                         ("--rcv-timeout", "500"), ("--authorized-users-path", "f"), ("-1",)):
                for names in ({"IPERF3_PASSWORD": "x"}, {}):
                    words = ("-c", "127.0.0.1") + self.client_options(key=key) + more
                    with self.subTest(key=key, more=more, names=names):
                        self.assertEqual(self.error(support.OURS, words, **names),
                                         self.error(support.real("3.22"), words, **names))

    def test_a_bad_key_is_told_before_the_password_is_asked_for(self):
        words = ("-c", "127.0.0.1") + self.client_options(key="nosuch")
        self.assertEqual(self.error(support.OURS, words), "iperf3: \n\n" + CLIENT_ERROR)

    def test_servers_and_neither(self):
        options = self.server_options
        for words in (("-s",) + options(key="nosuch", users="nosuch"),
                      ("-s",) + options(key="nosuch"), ("-s",) + options(users="nosuch"),
                      options(), options(key="nosuch"), options()[:2], options()[2:],
                      self.client_options(), self.client_options(key="nosuch"),
                      self.client_options()[:2], self.client_options()[2:],
                      ("-s", "-t", "5") + options(key="nosuch")):
            with self.subTest(words=words):
                self.assertEqual(self.error(support.OURS, words, IPERF3_PASSWORD="x"),
                                 self.error(support.real("3.22"), words, IPERF3_PASSWORD="x"))


class Passwords(Keys):
    """Where the password comes from."""

    def test_environment(self):
        with self.server() as (_, port):
            self.check_in(self.client(port, names={"RIPERF3_PASSWORD": "rossi"}))
            self.check_in(self.client(port, names={"RIPERF3_PASSWORD": "rossi",
                                                   "IPERF3_PASSWORD": "wrong"}))
            self.check_denied(self.client(port, names={"RIPERF3_PASSWORD": "wrong",
                                                       "IPERF3_PASSWORD": "rossi"}))

    def test_nobody_to_ask(self):
        left = self.client(1, names={})
        self.assertEqual((left.out, support.as_iperf3(left.err), left.code),
                         ("", CLIENT_ERROR, 1))

    def test_password_that_is_too_long_for_the_key_was_called_none(self):
        with self.server() as (_, port):
            left = self.client(port, names={"IPERF3_PASSWORD": "x" * 600})
        self.assertEqual(left.code, 1)
        self.assertRegex(left.err, r"\Aiperf3: error - you must specify .* public key: name and"
                                   r" password may be too long for this key \(.+\)\n\Z")

    def on_terminal(self, words, prompt, answer, names=(), until=None):
        """Run a program on a terminal of its own and answer its prompt; returns (text, status).

        until: a text after which it is interrupted.
        """
        pid, terminal = pty.fork()
        if pid == 0:
            try:
                os.execve(words[0], [str(word) for word in words],
                          support.environment(**dict(names)))
            finally:
                os._exit(127)
        text, answered, deadline = b"", False, time.monotonic() + 30.0
        try:
            while time.monotonic() < deadline:
                if not select.select([terminal], [], [], 1.0)[0]:
                    continue
                try:
                    data = os.read(terminal, 65536)
                except OSError:  # its other end is closed
                    break
                if not data:
                    break
                text += data
                if not answered and prompt in text.decode("utf-8", "replace"):
                    answered = True
                    time.sleep(0.2)
                    os.write(terminal, answer.encode("ascii") + b"\n")
                if until and until in text.decode("utf-8", "replace"):
                    until = None
                    os.kill(pid, signal.SIGTERM)
        finally:
            if time.monotonic() >= deadline:
                os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
            os.close(terminal)
        return text.decode("utf-8", "replace").replace("\r\n", "\n"), status

    def test_interrupt_at_the_prompt_was_a_success(self):
        text, status = self.on_terminal(support.OURS + ("-c", "127.0.0.1") + self.client_options(),
                                        "Password: ", "\x03")
        self.assertEqual(os.WTERMSIG(status), signal.SIGINT, text)
        self.assertEqual(text.replace("^C", "").strip(), "Password:")

    def test_prompt(self):
        with self.server() as (_, port):
            words = support.OURS + ("-c", "127.0.0.1", "-p", port, "-n", "100K") + (
                self.client_options())
            text, status = self.on_terminal(words, "Password: ", "rossi")
            self.assertEqual(status, 0, text)
            self.assertTrue(text.startswith("Password: \n"), text)
            self.assertNotIn("rossi", text)
            self.assertIn("iperf Done.", text)
            text, status = self.on_terminal(words, "Password: ", "wrong")
            self.assertEqual(status, 1 << 8, text)
            self.assertIn(DENIED, text)

    def test_passphrase(self):
        for key in ("locked8.pem", "locked1.pem"):
            for command in ((support.OURS, COMMAND) if HAS_LIBRARY else (COMMAND,)):
                port = support.free_port()
                words = command + ("-s", "-p", port) + self.server_options(key=key)
                with self.subTest(key=key, command=command is COMMAND):
                    text, status = self.on_terminal(words, "Passphrase for ", PASSPHRASE,
                                                    until="Server listening")
                    self.assertEqual(status, 0, text)
                    self.assertNotIn(PASSPHRASE, text)
                    self.assertIn("Passphrase for %s: \n" % self.path(key), text)
                    text, status = self.on_terminal(words, "Passphrase for ", "wrong")
                    self.assertEqual(status, 1 << 8, text)
                    self.assertIn("a valid RSA private key", text)
                    self.assertNotIn("Traceback", text)

    def test_a_server_with_a_passphrase_lets_in(self):
        settings = pyperf3.Settings(
            server=True, one_off=True, port=support.free_port(), passphrase=PASSPHRASE,
            rsa_private_key_path=self.path("locked8.pem"),
            authorized_users_path=self.path("users"))
        server = pyperf3.Server(settings)
        gatekeeper = server.resources.gatekeeper
        self.assertTrue(gatekeeper.admits(base64.b64decode(self.token())))
        self.assertFalse(gatekeeper.admits(base64.b64decode(self.token(password="x"))))


class Interop(Keys):
    """Real iperf3 on the other side."""

    def test_server_of_today(self):
        for padding in ((), ("--use-pkcs1-padding",)):
            with self.subTest(padding=padding):
                with self.server(*padding, command=support.real("3.22")) as (_, port):
                    self.check_in(self.client(port, *padding))
                    self.check_in(self.client(port, "-R", *padding))
                    left = self.client(port, *padding, password="wrong")
                    # What it says depends on which of its two descriptors it closes first.
                    self.assertEqual(left.code, 1)
                    self.assertRegex(left.err, "control socket has closed unexpectedly\n"
                                               "|SERVER ERROR - unable to read from stream socket")

    def test_client_of_today(self):
        real = support.real("3.22")
        with self.server() as (_, port):
            self.check_in(self.client(port, command=real))
            left = self.client(port, command=real, password="wrong")
            self.assertEqual(left.code, 1)
            self.assertIn("iperf3: error - %s\n" % DENIED, left.err)
            left = support.run(tuple(real) + ("-c", "127.0.0.1", "-p", port))
            self.assertIn("iperf3: error - %s\n" % DENIED, left.err)
            self.check_in(self.client(port, "-u", command=real))

    def test_client_of_today_and_the_old_padding(self):
        with self.server("--use-pkcs1-padding") as (_, port):
            left = self.client(port, command=support.real("3.22"))
            self.assertIn("iperf3: error - %s\n" % DENIED, left.err)

    def test_old_server(self):
        with self.server(command=support.real("3.12")) as (_, port):
            self.check_in(self.client(port, "--use-pkcs1-padding"))
            for more in ({"password": "wrong"}, {"user": "luigi"}):
                left = self.client(port, "--use-pkcs1-padding", **more)
                self.assertEqual(left.code, 1)
                self.assertIn("iperf3: error - %s\n" % DENIED, left.err)
            self.assertIn(DENIED, self.client(port).err)
            self.check_in(self.client(port, "--use-pkcs1-padding", "-R"))

    def test_old_client(self):
        real = support.real("3.12")
        with self.server("--use-pkcs1-padding") as (_, port):
            self.check_in(self.client(port, command=real))
            left = self.client(port, command=real, password="wrong")
            self.assertEqual(left.code, 1)
            self.assertIn(DENIED, left.err)
        with self.server() as (_, port):
            left = self.client(port, command=real)
            self.assertEqual(left.code, 1)
            self.assertIn(DENIED, left.err)

    def test_pkcs1_keys(self):
        with self.server(command=support.real("3.22"), key="pkcs1.pem") as (_, port):
            self.check_in(self.client(port))


class Reported(field.Case):
    """Public reports about iperf3 and its like, each with the test that would have found it."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which("openssl"):
            raise unittest.SkipTest("no openssl here to make keys with")
        cls.keys = tempfile.mkdtemp(prefix="pyperf3-test-")
        support.openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out",
                            cls.key("private.pem"))
        support.openssl("rsa", "-in", cls.key("private.pem"), "-pubout", "-out",
                        cls.key("public.pem"))
        old_form("-in", cls.key("private.pem"), "-out", cls.key("pkcs1.pem"))
        support.openssl("pkcs8", "-topk8", "-in", cls.key("private.pem"), "-out",
                            cls.key("locked.pem"), "-passout", "pass:sesame")
        with open(cls.key("users"), "wb") as file:
            line = "mario,%s\r\n" % pyperf3.password_digest("mario", "rossi")
            file.write(b"# who may test\r\n\r\n" + line.encode("ascii"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.keys, True)

    @classmethod
    def key(cls, name):
        return os.path.join(cls.keys, name)

    def guarded(self, *words, **more):
        """Start a server that asks who is there; returns its port."""
        key = self.key(more.pop("key", "private.pem"))
        return self.serve("--rsa-private-key-path", key, "--authorized-users-path",
                          self.key("users"), *words, **more)[1]

    def login(self, port, *words, **more):
        """Run a client as mario."""
        password, names = more.pop("password", "rossi"), more.pop("names", {})
        return field.client(port, ("-n", "100K", "-i", "0.1", "--username", "mario",
                                   "--rsa-public-key-path", self.key("public.pem")) + words,
                            env=support.environment(IPERF3_PASSWORD=password, **names), **more)

    # B44: pscheduler #1432, #1496; iperf3 #1701, #673, #1065
    def test_padding_and_clocks(self):
        real, old = support.real("3.22"), support.real("3.12")
        padding = "--use-pkcs1-padding"
        shifted = support.driver("import time\nnow = time.time\ntime.time = lambda: now() + 60")
        lines = "iperf3: SERVER ERROR - %s\niperf3: error - %s\n" % (field.DENIED, field.DENIED)
        plain, patient = self.guarded(), self.guarded("--time-skew-threshold", "100")
        oldest = self.guarded(padding)
        for port, words, more, good in (
                (self.guarded(command=real), (), {}, True),
                (self.guarded(padding, command=real), (padding,), {}, True),
                (self.guarded(command=old), (padding,), {}, True),
                (plain, (), {"command": real}, True),
                (oldest, (padding,), {"command": old}, True),
                (oldest, (padding,), {}, True), (oldest, (), {}, False),
                (plain, (), {"names": {"TZ": "Pacific/Apia"}}, True),
                (plain, (), {"names": {"TZ": "XYZ+11"}}, True),
                (plain, (), {"password": "wrong"}, False),
                (plain, (), {"command": shifted}, False),
                (patient, (), {"command": shifted}, True),
                (self.serve()[1], (), {}, True)):
            if more.get("command") == old:
                words = ()  # it has no other padding
            left = self.login(port, *words, **more)
            self.assertEqual((left.code, left.err), (0, "") if good else (1, lines),
                             (words, more, left))
        left = self.login(plain, "-J", password="wrong")
        self.assertEqual((left.code, left.err, left.json()["error"]), (1, "", field.DENIED), left)
        without = support.driver("sys.modules['cryptography'] = None")
        self.assertClean(self.login(self.guarded(command=without), command=without))

    # B45: iperf3 #965, #1079, #1583; riperf3 #395
    def test_nobody_to_ask_and_wrong_keys(self):
        public = self.key("public.pem")
        for words, text in (
                (("-c", "127.0.0.1", "--username", "mario", "--rsa-public-key-path", public), ""),
                (("-c", "127.0.0.1", "--username", "mario"), "a valid RSA public key"),
                (("-c", "127.0.0.1", "--username", "mario", "--rsa-public-key-path", "/nosuch"),
                 "/nosuch"),
                (("-s", "--rsa-private-key-path", "/nosuch", "--authorized-users-path",
                  self.key("users")), "/nosuch"),
                (("-s", "--rsa-private-key-path", self.key("locked.pem"),
                  "--authorized-users-path", self.key("users")), "private key is encrypted"),
                (("-s", "--rsa-private-key-path", self.key("private.pem"),
                  "--authorized-users-path", "/nosuch"), "authorized users file")):
            # without a terminal
            left = field.run(support.OURS, words, seconds=20.0, start_new_session=True)
            self.assertEqual((left.code, left.out), (1, ""), left)
            self.assertIn("iperf3: parameter error - ", left.err)
            self.assertIn(text, left.err)
        for name in ("private.pem", "pkcs1.pem"):
            server, port = self.serve("-1", "--rsa-private-key-path", self.key(name),
                                      "--authorized-users-path", self.key("users"), "-d")
            left = self.login(port, "-J", "-d")
            other = server.finish(20.0)
            self.assertEqual((left.code, other.code), (0, 0), left)
            for text in (left.out, left.err, other.out, other.err):
                self.assertNotIn("rossi", text)


if __name__ == "__main__":
    unittest.main()
