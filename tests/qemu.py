#!/usr/bin/env python3
"""Run tests on other processors, which qemu imitates: s390x (big-endian) and armhf (32 bits).

    python3 tests/qemu.py [ARCHITECTURE ...] [NAME ...]

fetches Debian's qemu and each architecture's Python with its libraries, once, into the folder
.qemu/ at the top of the repository; nothing is installed. NAME: as in tests/run.py; without any,
the pure tests and those over the loopback run. Ends with the line `N passed, N failed,
N skipped`, and status 2 if the packages can not be had. Needs Linux on amd64, apt-get, dpkg-deb.
"""

import os
import shutil
import subprocess
import sys
import tempfile

import peers
import run

FOLDER = os.path.join(os.path.dirname(peers.PEERS), ".qemu")
LIBRARIES = ("libc6", "libgcc-s1", "libexpat1", "zlib1g", "libffi8", "liblzma5", "libbz2-1.0",
             "libcrypt1")
# architecture: suite, version of its Python, further packages. Debian 13 has times of 64 bits
# on armhf.
ROOTS = {"s390x": ("bookworm", "3.11", ("libssl3", "libuuid1")),
         "armhf": ("trixie", "3.13", ("libssl3t64", "libuuid1", "libzstd1"))}
NAMES = ("test_units", "test_wire", "test_statistics", "test_renderers", "test_loopback")

# Children of the tests are started by it, too: nothing else here can run such a Python.
WRAPPER = """\
#!/bin/sh
exec "{qemu}" -L "{root}" "{root}/usr/bin/python{version}" "$@"
"""


def unpack(target, suite, architecture, packages):
    """Fetch packages of a suite into a folder, unless it is there. Raises peers.Failure."""
    if os.path.exists(target):
        return
    os.makedirs(FOLDER, exist_ok=True)
    work = tempfile.mkdtemp(prefix="fetch-", dir=FOLDER)
    try:
        note = peers.update(work, suite, architecture)
        if note:
            print(note)
        debs, root = os.path.join(work, "debs"), os.path.join(work, "root")
        peers.must(("apt-get", "-q", "-c", os.path.join(work, "apt.conf"), "download") + packages,
                   debs)
        for name in os.listdir(debs):
            peers.must(("dpkg-deb", "-x", os.path.join(debs, name), root))
        os.rename(root, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def python(architecture):
    """Return the command that runs a Python of that architecture. Raises peers.Failure."""
    suite, version, more = ROOTS[architecture]
    tools, root = os.path.join(FOLDER, "amd64"), os.path.join(FOLDER, architecture)
    unpack(tools, "bookworm", "amd64", ("qemu-user-static",))
    unpack(root, suite, architecture, LIBRARIES + more + tuple(
        pattern % version for pattern in ("python%s-minimal", "libpython%s-minimal",
                                          "libpython%s-stdlib")))
    if not os.path.exists(os.path.join(root, "lib")):
        os.symlink(os.path.join("usr", "lib"), os.path.join(root, "lib"))
    qemu = {"armhf": "arm"}.get(architecture, architecture)
    wrapper = os.path.join(FOLDER, architecture + "-python")
    with open(wrapper, "w") as file:
        file.write(WRAPPER.format(root=root, version=version, qemu=os.path.join(
            tools, "usr", "bin", "qemu-%s-static" % qemu)))
    os.chmod(wrapper, 0o755)
    hook = os.path.join(root, "usr", "lib", "python" + version, "sitecustomize.py")
    if os.path.lexists(hook):
        os.unlink(hook)  # a link into the host's /etc
    with open(hook, "w") as file:
        file.write("import sys\nsys.executable = %r\n" % wrapper)
    return wrapper


def main(arguments):
    architectures = [name for name in arguments if name in ROOTS] or sorted(ROOTS)
    names = [name for name in arguments if name not in ROOTS] or list(NAMES)
    totals = [0, 0, 0]
    for architecture in architectures:
        command = python(architecture)
        print(architecture, subprocess.check_output(
            [command, "-c", "import sys; print(sys.byteorder + '-endian, Python', sys.version)"]
        ).decode().strip(), flush=True)
        for name in names:
            process = subprocess.Popen(
                [command, "-B", os.path.join(run.HERE, "run.py"), "-q", name],
                stdout=subprocess.PIPE)
            match = run.COUNTS.search(process.communicate()[0].decode("utf-8", "replace"))
            counts = [int(number) for number in match.groups()] if match else [0, 1, 0]
            print("%s %s: %d passed, %d failed, %d skipped" % ((architecture, name)
                                                               + tuple(counts)), flush=True)
            totals = [total + count for total, count in zip(totals, counts)]
    print("%d passed, %d failed, %d skipped" % tuple(totals))
    return 1 if totals[1] or not totals[0] else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (peers.Failure, OSError) as error:
        print("no qemu here: %s" % error)
        sys.exit(2)
