#!/usr/bin/env python3
"""Fetch real iperf3 builds from Debian to test pyperf3 against.

    python3 tests/peers.py

puts one build per version into the folder .peers/ at the top of the repository:

    .peers/VERSION/root      the unpacked packages: iperf3 and all libraries it needs
    .peers/VERSION/iperf3    a shell wrapper that runs it with its own libraries

Nothing is installed on the host, and its own package lists are neither read nor
changed: each Debian suite gets an apt state of its own, thrown away afterwards. What is
taken from the host's apt configuration is the address of its Debian mirror, the
keyring, and settings such as a proxy.

A build that is already there and answers --version properly is kept. The exit status is
0 if all versions are there, 1 otherwise. Tests ask find(VERSION) for a wrapper's path.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

PEERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".peers")
QUIC_PYTHON = os.path.join(os.path.dirname(PEERS), ".quic-env", "bin", "python3")

# The iperf3 version each Debian suite is known to have.
SUITES = {"3.9": "bullseye", "3.12": "bookworm", "3.18": "trixie", "3.22": "sid"}

# Names by which a sources entry for Debian itself may call its suite.
DEBIAN_SUITES = set(SUITES.values()) | {
    "buster", "forky", "duke", "oldoldstable", "oldstable", "stable", "testing", "unstable"}

KEYRINGS = ["/usr/share/keyrings/debian-archive-keyring.gpg",
            "/usr/share/keyrings/debian-archive-keyring.pgp"]

# What apt says when the host lacks a valid key for a signature. A wrong signature is
# another matter, and an error.
UNVERIFIED = re.compile(r"NO_PUBKEY|EXPKEYSIG|Missing key")

APT_CONF = """\
Dir::State "{work}/state";
Dir::State::lists "{work}/lists";
Dir::State::status "{work}/status";
Dir::Cache "{work}/cache";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
Dir::Etc::sourcelist "{work}/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferences "-";
Dir::Etc::preferencesparts "-";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::GzipIndexes "false";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""

WRAPPER = """\
#!/bin/sh
# iperf3 {version} from Debian {suite}, run with the libraries it was built for.
root=${{0%/*}}/root
exec "$root/{loader}" --inhibit-cache --library-path "{libraries}" "$root/usr/bin/iperf3" "$@"
"""


class Failure(Exception):
    """A version could not be had; the text says why, in one line."""


def find(version):
    """Return the absolute path of the wrapper of an iperf3 version, or None."""
    path = os.path.join(PEERS, version, "iperf3")
    return path if os.access(path, os.X_OK) else None


def run(command, cwd=None):
    """Run a command and return (exit status, standard output, standard error)."""
    env = dict(os.environ, LC_ALL="C", DEBIAN_FRONTEND="noninteractive")
    try:
        done = subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    except subprocess.TimeoutExpired:
        raise Failure("%s took more than 300 s" % command[0])
    except OSError as error:
        raise Failure("can not run %s: %s" % (command[0], error.strerror))
    return (done.returncode, done.stdout.decode("utf-8", "replace"),
            done.stderr.decode("utf-8", "replace"))


def must(command, cwd=None):
    """Run a command that has to succeed and return its standard output."""
    status, output, errors = run(command, cwd)
    if status:
        lines = errors.strip().splitlines() or ["no message"]
        lines = [line for line in lines if line.startswith("E:")] or lines
        raise Failure("%s failed (%d): %s" % (command[0], status, lines[0]))
    return output


# The host's apt configuration


def read(path):
    """Return a text file's lines without those that are comments."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line.rstrip() for line in file if not line.lstrip().startswith("#")]


def stanzas(lines):
    """Yield each stanza of a deb822 file as a dict of lower-case field name -> value."""
    fields, name = {}, None
    for line in list(lines) + [""]:
        if not line.strip():
            if fields:
                yield fields
            fields, name = {}, None
        elif line[0] in " \t":
            if name:
                fields[name] += "\n" + line.strip()
        elif ":" in line:
            name, value = line.split(":", 1)
            name = name.lower()
            fields[name] = value.strip()


def host_entries():
    """Yield (URI, suites, components, keyring or None) of each deb entry of the host."""
    for path in sorted(glob.glob("/etc/apt/sources.list.d/*.sources")):
        for fields in stanzas(read(path)):
            if ("deb" in fields.get("types", "").split()
                    and fields.get("enabled", "yes").lower() not in ("no", "false")):
                key = fields.get("signed-by", "")
                for uri in fields.get("uris", "").split():
                    yield (uri, fields.get("suites", "").split(),
                           fields.get("components", "").split(),
                           key if key.startswith("/") else None)
    for path in ["/etc/apt/sources.list"] + sorted(glob.glob("/etc/apt/sources.list.d/*.list")):
        for line in read(path) if os.path.exists(path) else []:
            match = re.match(r"\s*deb\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s+([^#]+)", line)
            if match:
                options, uri, suite, components = match.groups()
                key = re.search(r"signed-by=(/\S+)", options or "", re.I)
                yield uri, [suite], components.split(), key and key.group(1)


def mirror():
    """Return (URI, keyring or None) of the Debian mirror which the host itself uses."""
    found = []
    for uri, suites, components, key in host_entries():
        if ("main" in components and DEBIAN_SUITES.intersection(suites)
                and not uri.startswith("cdrom:")):
            # Others name their suites after Debian's, too: prefer what looks most like it.
            found.append(("debian-archive" in (key or ""),
                          bool(re.search(r"/debian/?$", uri)),
                          any(suite.endswith("-updates") for suite in suites),
                          -len(found), uri, key))
    if not found:
        raise Failure("no entry for the Debian archive in /etc/apt/sources.list{,.d}")
    uri, key = max(found)[-2:]
    for path in [key] + KEYRINGS:
        if path and os.path.exists(path.split(",")[0]):
            return uri, path
    return uri, None


# Fetching one version


def update(work, suite, architecture=None):
    """Fetch a suite's package list into the work folder; return a note to print or "".

    architecture: Debian's name of another one than this host's.
    """
    uri, key = mirror()
    for folder in ("state", "lists/partial", "cache/archives/partial", "debs"):
        os.makedirs(os.path.join(work, folder))
    open(os.path.join(work, "status"), "w").close()
    with open(os.path.join(work, "apt.conf"), "w") as file:
        file.write(APT_CONF.format(work=work))
        if architecture:
            file.write('#clear APT::Architectures;\nAPT::Architectures "%s";\n'
                       'APT::Architecture "%s";\n' % (architecture, architecture))
    command = ["apt-get", "-q", "-c", os.path.join(work, "apt.conf"), "update"]

    def use(option):
        with open(os.path.join(work, "sources.list"), "w") as file:
            file.write("deb %s %s %s main\n" % (option, uri, suite))

    use("[signed-by=%s]" % key if key else "")
    status, _, errors = run(command)
    if not status:
        return ""
    if UNVERIFIED.search(errors) and "BADSIG" not in errors:
        use("[trusted=yes]")
        must(command)
        return "NOT VERIFIED: the host has no key for the signature of %s" % suite
    must(command)  # a second try, or the message
    return ""


def needed(conf):
    """Return the packages to unpack: iperf3 and the libraries it depends on."""
    names, todo = ["iperf3"], ["iperf3"]
    while todo:
        shown = must(["apt-cache", "-c", conf, "--no-all-versions", "show"] + todo)
        todo = []
        for fields in stanzas(shown.splitlines()):
            depends = fields.get("pre-depends", "") + "," + fields.get("depends", "")
            for part in depends.split(","):
                name = re.split(r"[\s(|:]", part.strip())[0]
                if re.match(r"lib|zlib", name) and name not in names:
                    names.append(name)
                    todo.append(name)
    return names


def wrap(folder, version, suite):
    """Write the wrapper of a folder whose root/ holds the unpacked packages."""
    root = os.path.join(os.path.realpath(folder), "root")
    loaders = []
    for pattern in ("lib/*/", "usr/lib/*/", "lib*/", "usr/lib*/"):
        # Some are absolute links, that is to the host's own.
        loaders += [path for path in glob.glob(os.path.join(root, pattern, "ld-linux*.so.*"))
                    if os.path.isfile(path) and os.path.realpath(path).startswith(root + os.sep)]
    if not loaders:
        raise Failure("no ld-linux in the packages of %s" % suite)
    loader = os.path.realpath(loaders[0])
    triplet = os.path.basename(os.path.dirname(loader))
    libraries = ["lib/" + triplet, "usr/lib/" + triplet]
    path = os.path.join(folder, "iperf3")
    with open(path, "w") as file:
        file.write(WRAPPER.format(
            version=version, suite=suite, loader=os.path.relpath(loader, root),
            libraries=":".join("$root/" + name for name in libraries
                               if os.path.isdir(os.path.join(root, name)))))
    os.chmod(path, 0o755)


def installed(folder):
    """Return the version which the wrapper in a folder reports."""
    output = must([os.path.join(folder, "iperf3"), "--version"])
    match = re.match(r"iperf (\S+)", output)
    if not match:
        raise Failure("unexpected answer to --version: %r" % output[:60])
    return match.group(1)


def is_version(text, version):
    """Tell whether a reported version such as "3.9" or "3.18+" is the expected one."""
    return re.match(re.escape(version) + r"(?![0-9.])", text) is not None


def fetch(version):
    """Make sure that .peers/VERSION is there; return what to say about it."""
    suite, target = SUITES[version], os.path.join(PEERS, version)
    if find(version):
        try:
            if is_version(installed(target), version):
                return "already there"
        except Failure:
            pass  # broken: fetch it anew
    os.makedirs(PEERS, exist_ok=True)
    work = tempfile.mkdtemp(prefix="fetch-", dir=PEERS)
    try:
        note = update(work, suite)
        conf, debs = os.path.join(work, "apt.conf"), os.path.join(work, "debs")
        must(["apt-get", "-q", "-c", conf, "download"] + needed(conf), cwd=debs)
        folder = os.path.join(work, "done")
        os.mkdir(folder)
        for name in sorted(os.listdir(debs)):
            must(["dpkg-deb", "-x", os.path.join(debs, name), os.path.join(folder, "root")])
        wrap(folder, version, suite)
        got = installed(folder)
        if not is_version(got, version):
            raise Failure("Debian %s has moved on to iperf3 %s" % (suite, got))
        shutil.rmtree(target, ignore_errors=True)
        os.rename(folder, target)
        return "fetched from Debian %s%s" % (suite, note and " (%s)" % note)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main():
    """Fetch all versions at the same time and report one line for each."""
    results = {}

    def work(version):
        try:
            results[version] = (True, fetch(version))
        except (Failure, OSError) as error:
            results[version] = (False, str(error))

    threads = [threading.Thread(target=work, args=(version,)) for version in SUITES]
    for thread in threads:
        thread.start()
    for version, thread in zip(SUITES, threads):
        thread.join()
        good, text = results.get(version, (False, "internal error"))
        print("iperf3 %-5s %s: %s" % (version, "ok" if good else "FAILED", text), flush=True)
    return 0 if all(results.get(version, (False,))[0] for version in SUITES) else 1


if __name__ == "__main__":
    sys.exit(main())
