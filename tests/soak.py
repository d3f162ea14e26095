#!/usr/bin/env python3
"""Run one long test and see that neither end grows.

    python3 tests/soak.py [SECONDS]

10 minutes of `-P 8 --bidir -i 0.1` in text mode, client and server of this program. Prints the
resident memory (KiB), descriptors and threads of all processes of each end, and fails if the
memory after the first tenth of the time and at the end differ by more than 2 MiB an end.
"""

import os
import re
import sys
import time

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)),
                os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

import support
import test_sockets

ALLOWED = 2048  # KiB


def figures(pid):
    """Return (KiB of memory of its own, descriptors, threads) of a process and its children."""
    memory = descriptors = threads = 0
    for each in set(test_sockets.processes(pid)):
        try:
            with open("/proc/%d/smaps_rollup" % each) as file:
                memory += int(re.search(r"^Pss:\s+(\d+)", file.read(), re.M).group(1))
            descriptors += len(os.listdir("/proc/%d/fd" % each))
            threads += 1
        except (OSError, AttributeError):
            pass  # it ended
    return memory, descriptors, threads


def main(arguments):
    seconds = int(arguments[0]) if arguments else 600
    server, port = support.start_server(support.OURS, "-i", "0.1")
    client = support.Program(support.OURS + ("-c", "127.0.0.1", "-p", port, "-t", seconds,
                                             "-P", "8", "--bidir", "-i", "0.1"))
    began, first, status = time.monotonic(), None, 0
    with server, client:
        while client.process.poll() is None and time.monotonic() < began + seconds - 1:
            time.sleep(seconds / 20.0)
            now = [figures(program.pid) for program in (client, server)]
            print("%4.0f s: client %d KiB, %d descriptors, %d threads; server %d, %d, %d" % (
                (time.monotonic() - began,) + now[0] + now[1]))
            sys.stdout.flush()
            if time.monotonic() - began >= seconds * 0.95:
                break
            first = first or (now if time.monotonic() - began >= seconds * 0.1 else None)
        for name, before, after in zip(("client", "server"), first, now):
            if after[0] - before[0] > ALLOWED or after[1:] != before[1:]:
                print("%s grew: %s, %s" % (name, before, after))
                status = 1
        left = client.finish(seconds)
        if left.code or left.err:
            print("the client ended with status %d: %s" % (left.code, left.err))
            status = 1
        server.signal()
        left = server.finish(20.0)
        if left.code:
            status = 1
    print("memory is flat" if not status else "failed")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
