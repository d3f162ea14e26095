#!/usr/bin/env python3
"""Test SCTP, in a kernel of its own where this host's has none.

    python3 tests/sctp.py

boots a User Mode Linux of Debian (package user-mode-linux, fetched into .peers/uml, no root
needed but for apt), whose root is this host's, and runs the tests below inside; where the
kernel has SCTP they run at once. `make test` does not call it: a kernel of one's own is much to
ask for.
"""

import ctypes
import glob
import os
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)),
                os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

import peers
import pyperf3
import support
import test_sockets

MODULES = ("lib/crc-ccitt", "net/ipv6/ipv6", "net/ipv4/udp_tunnel", "net/ipv6/ip6_udp_tunnel",
           "crypto/hmac", "net/sctp/sctp")
FINIT_MODULE = 313  # x86-64's number of the call


class Associations(unittest.TestCase):
    """--sctp, between any two."""

    def check_pair(self, server, client, *arguments, **more):
        left, other = support.run_pair(server, client, ("--sctp", "-J") + arguments, ("-J",),
                                       **more)
        self.assertEqual((left.code, left.err, other.err), (0, "", ""), (left.out, other.out))
        document = left.json()
        self.assertEqual(document["start"]["test_start"]["protocol"], "SCTP")
        self.assertNotIn("error", document)
        for key, value in document["end"].items():
            if key.startswith("sum_"):
                self.assertGreater(value["bytes"], 0, key)
        return document

    def test_modes(self):
        for words in ("-t 1", "-t 1 -R -P 2", "-t 1 --bidir", "-t 1 -l 1000 -w 100K", "-n 1M",
                      "-t 1 -b 10M", "-t 1 --nstreams 5 -N -M 1000", "-t 1 -X 127.0.0.1",
                      "-t 1 -X 127.0.0.1 -X 127.0.0.2"):
            with self.subTest(arguments=words):
                document = self.check_pair(support.OURS, support.OURS, *words.split())
                self.assertNotIn("retransmits", document["end"]["sum_sent"])
                self.assertEqual(document["start"]["test_start"]["target_bitrate"],
                                 10000000 if "-b 10M" in words else 0)

    def test_real_programs(self):
        for version in ("3.22", "3.12"):
            real = support.real(version)
            for words in ("-t 1", "-t 1 -R", "-t 1 --bidir -P 2"):
                for server, client in ((real, support.OURS), (support.OURS, real)):
                    with self.subTest(version=version, client=client, arguments=words):
                        self.check_pair(server, client, *words.split())

    def test_type_of_service_of_both_ends(self):
        """An association has it not from its listener: a server's -R went unmarked."""
        for words in ("-R", "--bidir", ""):
            with socket.socket(socket.AF_INET, socket.SOCK_RAW, 132) as sniffer:
                sniffer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
                self.check_pair(support.OURS, support.OURS, "-n", "100K", "--dscp", "ef",
                                *words.split())
                sniffer.setblocking(False)
                marks, packet = set(), b""
                try:
                    while True:
                        packet = sniffer.recv(65536)
                        if packet[32] == 0:  # the first chunk is data: RFC 4960, 3.3.1
                            marks.add(packet[1])
                except BlockingIOError:
                    pass
                self.assertEqual(marks, {184}, words)

    def test_ipv6(self):
        self.check_pair(support.OURS, support.OURS, "-t", "1", "-X", "::1", host="::1")

    def test_names_of_addresses(self):
        self.check_pair(support.OURS, support.OURS, "-t", "1", "-X", "localhost")
        left = support.run(support.OURS + ("-c", "127.0.0.1", "--sctp", "-X", "no.such.invalid"))
        self.assertEqual(left.code, 1)
        self.assertTrue(left.err.startswith("iperf3: error - "), left.err)
        self.assertEqual(left.err.count("\n"), 1)

    def test_options_reach_the_socket(self):
        with pyperf3.sctp_socket(2) as sock:
            pyperf3.set_options(sock, "SCTP", "C", {
                "no_delay": True, "mss": 1000, "outgoing_streams": 5, "fragments": True,
                "addresses": [("127.0.0.1", 0), ("127.0.0.2", 0)]}, print)
            for option, expected in ((pyperf3._SCTP_NODELAY, b"\1\0\0\0"),
                                     (pyperf3._SCTP_INITMSG, b"\5\0"),
                                     (pyperf3._SCTP_DISABLE_FRAGMENTS, b"\0\0\0\0")):
                self.assertEqual(sock.getsockopt(132, option, len(expected)
                                                 if option != pyperf3._SCTP_INITMSG else 8)[
                                                     :len(expected)], expected)
            self.assertEqual(sock.getsockopt(132, pyperf3._SCTP_MAXSEG, 8)[4:],
                             (1000).to_bytes(4, sys.byteorder))
            sock.listen(1)
            with open("/proc/net/sctp/eps") as table:
                self.assertRegex(table.read(), r"127\.0\.0\.1 127\.0\.0\.2")


def boot():
    """Run this file inside User Mode Linux; returns its exit status."""
    folder = os.path.join(peers.PEERS, "uml")
    if not os.path.exists(os.path.join(folder, "usr", "bin", "linux.uml")):
        os.makedirs(folder, exist_ok=True)
        subprocess.check_call(("apt-get", "download", "-qq", "user-mode-linux"), cwd=folder)
        for package in glob.glob(os.path.join(folder, "*.deb")):
            subprocess.check_call(("dpkg", "-x", package, folder))
            os.unlink(package)
    with tempfile.TemporaryDirectory(prefix="pyperf3-test-") as scratch:
        init, log = os.path.join(scratch, "init"), os.path.join(scratch, "log")
        with open(init, "w") as script:
            script.write("#!/bin/sh\nexport PATH='%s' LC_ALL=C PYTHONDONTWRITEBYTECODE=1\n"
                         "mount -t proc proc /proc\nmount -t sysfs sys /sys\ncd '%s'\n"
                         "'%s' '%s' --inside '%s' >'%s' 2>&1\n"
                         "echo o >/proc/sysrq-trigger\nsleep 60\n"
                         % (os.environ["PATH"], os.getcwd(), sys.executable,
                            os.path.abspath(__file__), folder, log))
        os.chmod(init, 0o755)
        subprocess.call(("timeout", "300", os.path.join(folder, "usr", "bin", "linux.uml"),
                         "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw", "mem=1G",
                         "init=" + init, "con=null", "con0=null"),
                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            with open(log) as file:
                text = file.read()
        except OSError:
            text = "User Mode Linux did not start"
    print(text)
    return 0 if text.rstrip().endswith("OK") else 1


def prepare(folder):
    """Make SCTP ready, inside."""
    library = ctypes.CDLL(None, use_errno=True)
    for name in MODULES:
        path, = glob.glob(os.path.join(folder, "usr/lib/uml/modules/*/kernel", name + ".ko"))
        with open(path, "rb") as module:
            if library.syscall(FINIT_MODULE, module.fileno(), b"", 0):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    with open("/proc/sys/net/sctp/cookie_hmac_alg", "w") as setting:
        setting.write("none")  # its kernel has no MD5 and no SHA-1
    subprocess.check_call(("ip", "link", "set", "lo", "up"))


if __name__ == "__main__":
    if "--inside" in sys.argv:
        prepare(sys.argv[2])
        unittest.main(argv=sys.argv[:1])
    if test_sockets.can_open(test_sockets.SCTP):
        unittest.main()
    sys.exit(boot())
