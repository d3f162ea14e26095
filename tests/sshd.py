"""A host to log in to: a real OpenSSH server on this one, with a user, a shell and a home.

    with sshd.Host("db1", shell="/usr/bin/fish") as host:
        ssh = sshd.client(folder, host)  # the command, for --ssh-command and for others
        ...
        host.wait_until_clean()

Linux and root. The server runs as an ordinary user whom nobody else has, in a mount namespace in
which /etc/passwd is its own: so the login shell is a real one, and whatever is left behind, be it a
process or a file, is found by the user's number. With namespace=: it is in a network namespace.
"""

import glob
import itertools
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import support

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin:/sbin")
USER = "tester"
SHELL = "/bin/bash"
FIRST_USER = 3000000  # and 32 for each process of tests
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")  # where anybody may leave a file

SERVER_CONFIG = """
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowTcpForwarding yes
PrintMotd no
PrintLastLog no
MaxStartups 100
SetEnv PATH={path}
{more}
"""

CLIENT_CONFIG = """
Host {name}
    HostName {address}
    Port {port}
    User {user}
    IdentityFile {folder}/client_key
    UserKnownHostsFile {folder}/known_hosts
{more}
"""

EVERY_HOST = """
Host *
    IdentitiesOnly yes
    BatchMode yes
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    LogLevel ERROR
"""

_numbers = itertools.count()


def need(*programs):
    """Skip the test, or fail it with REQUIRE_PEERS=1, where such a host cannot be made."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("needs root to give users and shells to an sshd")
    if not SSHD:
        support.lack("no sshd here (openssh-server)")
    for program in ("ssh", "ssh-keygen", "unshare", "setpriv", "mount") + programs:
        if not shutil.which(program):
            support.lack("no %s here" % program)


def newest_and_oldest():
    """Return the paths of the newest Python here and of the oldest that will do."""
    found = []
    for path in glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")):
        version = path.split("/")[-3].split(".")
        if all(part.isdigit() for part in version):
            found.append((tuple(map(int, version)), path))
    found = [path for version, path in sorted(found) if version >= (3, 6)]
    if len(found) < 2:
        raise unittest.SkipTest("needs two Pythons in ~/.pyenv/versions")
    return found[-1], found[0]


class Host:
    """A host with an ssh server. Use it in a `with`; skips the test where none can be made.

    name: by which `client` lets it be called. shell: the user's. python: an interpreter, which is
    the `python3` of the path there, or None: there is no `python*` in it. names: others for it, as
    in ("python",). namespace: a network namespace, with the address in it. files: {name: text} of
    the user's home. libexec: an interpreter that is /usr/libexec/platform-python. config: lines
    more for sshd_config.
    """

    def __init__(self, name, shell=SHELL, python=support.sys.executable, names=("python3",),
                 namespace=None, address="127.0.0.1", files=None, libexec=None, config=""):
        self.name, self.namespace, self.address = name, namespace, address
        self.port = 22 if namespace else support.free_port()
        if namespace:
            self.port = 2222  # an ordinary user cannot have 22
        self._plan = dict(shell=shell, python=python, names=names, files=files or {},
                          libexec=libexec, config=config)
        number = next(_numbers)
        self.uid = FIRST_USER + os.getpid() * 32 + number % 32
        self.folder = self.home = self._server = None

    @property
    def pid(self):
        """The process that listens."""
        return self._server.pid

    def __enter__(self):
        need()
        self.folder = tempfile.mkdtemp(prefix="pyperf3-ssh-")
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        os.chmod(self.folder, 0o755)
        self.home = os.path.join(self.folder, "home")
        os.mkdir(self.home, 0o755)
        self.binaries = os.path.join(self.folder, "bin")
        os.mkdir(self.binaries)
        for name, text in self._plan["files"].items():
            path = os.path.join(self.home, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._write(path, text)
        for folder, _, names in os.walk(self.home):
            for each in [folder] + [os.path.join(folder, name) for name in names]:
                os.chown(each, self.uid, self.uid)
        for key in ("host_key", "client_key"):
            subprocess.check_call(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f",
                                   os.path.join(self.folder, key)), stdin=subprocess.DEVNULL)
        os.chown(os.path.join(self.folder, "host_key"), self.uid, self.uid)
        with open(os.path.join(self.folder, "host_key.pub")) as file:
            kind, key = file.read().split()[:2]
        self._write("known_hosts", "[%s]:%d %s %s\n" % (self.address, self.port, kind, key))
        support.concatenate(os.path.join(self.folder, "authorized_keys"),
                            os.path.join(self.folder, "client_key.pub"))
        with open("/etc/passwd") as file:
            users = file.read()
        self._write("passwd", "%s%s:x:%d:%d::%s:%s\n" % (
            users, USER, self.uid, self.uid, self.home, self._plan["shell"]))
        mounts = ["mount --bind {0}/passwd /etc/passwd".format(shlex.quote(self.folder))]
        mounts += self._pythons()
        self._write("sshd_config", SERVER_CONFIG.format(
            port=self.port, address=self.address, folder=self.folder, path=self._path(),
            more=self._plan["config"]))
        self._launch(mounts)
        if "fish" in self._plan["shell"]:  # it makes folders at its first start
            subprocess.check_call(client(self.folder, self) + (self.name, "true"),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self._before = self.files()

    def _write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def _pythons(self):
        """Make what there is of Python; returns the shell's commands that let it be read."""
        prefixes = set()
        libexec = os.path.join(self.folder, "libexec")
        for python, folder, names in (
                (self._plan["python"], self.binaries, self._plan["names"]),
                (self._plan["libexec"], libexec, ("platform-python",))):
            if python:
                prefix, binary = where(python)
                prefixes.add(prefix)
                os.makedirs(folder, exist_ok=True)
                for name in names:
                    os.symlink(binary, os.path.join(folder, name))
        mounts = self._opened(sorted(prefixes))
        if self._plan["libexec"]:
            mounts.append("mount --bind %s /usr/libexec" % shlex.quote(libexec))
        return mounts

    def _opened(self, prefixes):
        """Return the commands that let everybody read folders that are in one of root's."""
        keep, tops, show = [], set(), []
        for number, prefix in enumerate(prefixes):
            top = closed(prefix)
            if top:
                tops.add(shlex.quote(top))
                kept = shlex.quote(os.path.join(self.folder, "prefix%d" % number))
                prefix = shlex.quote(prefix)
                keep += ["mkdir %s" % kept, "mount --bind %s %s" % (prefix, kept)]
                show += ["mkdir -p %s" % prefix, "mount --bind %s %s" % (kept, prefix)]
        return keep + ["mount -t tmpfs -o mode=755 none %s" % top for top in sorted(tops)] + show

    def _path(self):
        """Return the PATH there: without any Python but the one that is asked for."""
        plain = os.path.join(self.folder, "plain")
        os.mkdir(plain)
        for name in ("sh", "cat", "env", "uname", "sleep", "echo", "printf", "true", "id", "ls"):
            os.symlink(shutil.which(name), os.path.join(plain, name))
        return "%s:%s" % (self.binaries, plain)

    def _launch(self, mounts):
        words = support.inside(self.namespace) if self.namespace else ()
        words += ("unshare", "--mount", "sh", "-e", "-c", "%s\nexec setpriv --reuid %d --regid %d "
                  "--clear-groups -- %s -D -e -f %s" % (
                      "\n".join(mounts), self.uid, self.uid, SSHD,
                      shlex.quote(os.path.join(self.folder, "sshd_config"))))
        self._server = support.Program(words)
        self._server.wait_for_error("Server listening on")

    def log(self):
        """Return what the server has said."""
        return self._server.err()

    def __exit__(self, *details):
        if self._server:
            for pid in self.processes() + [self.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self._server.__exit__()
        for path in self.files():
            if not path.startswith(self.folder):
                os.unlink(path)
        shutil.rmtree(self.folder, ignore_errors=True)

    # What is there now

    def processes(self, but=()):
        """Return the processes of the user, but for the server's first; not those of these names.
        """
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != self.pid:
                try:
                    # Not the owner of the folder: root has that of an sshd.
                    with open("/proc/%s/status" % name) as file:
                        fields = dict(line.rstrip("\n").split(":\t", 1) for line in file
                                      if ":\t" in line)
                except OSError:
                    continue
                if fields["Uid"].split("\t")[0] == str(self.uid) and fields["Name"] not in but and \
                        fields["State"][:1] != "Z":
                    found.append(int(name))
        return found

    def sessions(self):
        """Return the processes of the server that serve connections."""
        far = self.far_ends()
        return [pid for pid in self.processes() if pid not in far]

    def far_ends(self):
        """Return the processes that are not the server's."""
        return self.processes(but=("sshd", "sshd-session", "sshd-auth"))

    def files(self):
        """Return the files of the user, wherever one may be."""
        found = set()
        for top in TEMPORARY + (self.home,):
            for folder, folders, names in os.walk(top):
                for name in list(folders) + names:
                    path = os.path.join(folder, name)
                    try:
                        status = os.lstat(path)
                    except OSError:
                        continue
                    if status.st_uid == self.uid:
                        found.add(path)
                    elif name in folders and not status.st_mode & 2:
                        folders.remove(name)  # the user cannot have made anything in it
        return found - {os.path.join(self.folder, "host_key")}

    def ports(self):
        """Return the TCP and UDP ports that processes of the user have, but for the server's."""
        found = set()
        for table in ("tcp", "tcp6", "udp", "udp6"):
            with open("/proc/%d/net/%s" % (self.pid, table)) as file:
                for row in list(file)[1:]:
                    words = row.split()
                    port = int(words[1].rsplit(":", 1)[1], 16)
                    if words[7] == str(self.uid) and port != self.port and (
                            words[3] == "0A" or table[0] == "u"):
                        found.add(port)
        return found

    def left(self, sessions=True):
        """Return what is there of a test: processes with their commands, ports, files.

        sessions: the server's processes count.
        """
        pids = self.processes() if sessions else self.far_ends()
        return [("process", pid, command(pid)) for pid in pids] + [
            ("port", port) for port in self.ports()] or [
                ("file", path) for path in self.files() - self._before]

    def wait_until_clean(self, seconds=20.0, sessions=True):
        """Wait until nothing is left of a test; returns the seconds that it took."""
        begin = time.monotonic()
        support.wait_until(lambda: not self.left(sessions),
                           ("nothing is left", lambda: self.left(sessions)), seconds)
        return time.monotonic() - begin

    def client_config(self, more=""):
        return CLIENT_CONFIG.format(name=self.name, address=self.address, port=self.port, user=USER,
                                    folder=self.folder, more=more)


def where(python):
    """Return the folder of an installed interpreter, and the path of the binary in it."""
    code = "import sys; print(getattr(sys, 'base_prefix', sys.prefix))"
    prefix = subprocess.check_output((python, "-c", code)).decode().strip()
    for name in ("python3", "python", "python2"):
        binary = os.path.join(prefix, "bin", name)
        if os.path.exists(binary):
            return prefix, binary
    raise unittest.SkipTest("no interpreter in " + prefix)


def closed(path):
    """Return the topmost folder above a path that not everybody may enter, or None."""
    top = "/"
    for part in path.split("/")[1:]:
        top = os.path.join(top, part)
        if not os.stat(top).st_mode & 1:
            return top
    return None


def command(pid):
    """Return the command line of a process."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return file.read().replace(b"\0", b" ").decode("ascii", "replace")[:100]
    except OSError:
        return ""


def client(folder, *hosts, **more):
    """Write the configuration of ssh for hosts into a folder; returns the command, words.

    more: {name of a host: lines more about it}.
    """
    path = os.path.join(folder, "ssh_config")
    with open(path, "w") as file:
        for host in hosts:
            file.write(host.client_config(more.get(host.name, "")))
        file.write(EVERY_HOST)
    return ("ssh", "-F", path)


class Network:
    """A network of namespaces: a hub, in which the program runs, and hosts. Use it in a `with`.

    names: of the hosts, with letters; host number N (from 1) has the addresses 10.8.N.2 and
    fd08:N::2, the hub 10.8.N.1 and fd08:N::1. rates: {name: bits/s} of links, others have `rate`
    (None: none). forward: whether the hub leads from one host to the others; direct: two hosts
    that have a link of their own: 10.9.0.1 and 10.9.0.2.
    """

    _numbers = itertools.count()

    def __init__(self, names, rate=None, rates=None, forward=True, direct=()):
        number = next(self._numbers)
        self._stem = "pyssh-%d-%d-" % (os.getpid(), number)
        self.names = tuple(names)
        self._rates = {name: (rates or {}).get(name, rate) for name in names}
        self._forward, self._direct = forward, direct
        self._hosts = []
        self.hub = support.inside(self._stem + "hub")

    def namespace(self, name):
        return self._stem + name

    def address(self, name):
        return "10.8.%d.2" % (self.names.index(name) + 1)

    def __enter__(self):
        need("ip")
        lines = ["ip netns add {0}hub", "ip -n {0}hub link set lo up"]
        for number, name in enumerate(self.names, 1):
            lines += [line.format("{0}", name, number) for line in (
                "ip netns add {0}{1}",
                "ip -n {0}{1} link set lo up",
                "ip link add v{2} netns {0}hub type veth peer name v0 netns {0}{1}",
                "ip -n {0}hub link set v{2} up",
                "ip -n {0}{1} link set v0 up",
                "ip -n {0}hub addr add 10.8.{2}.1/24 dev v{2}",
                "ip -n {0}{1} addr add 10.8.{2}.2/24 dev v0",
                "ip -n {0}hub addr add fd08:{2}::1/64 dev v{2} nodad",
                "ip -n {0}{1} addr add fd08:{2}::2/64 dev v0 nodad")]
            if self._forward:
                lines.append("ip -n {0}%s route add default via 10.8.%d.1" % (name, number))
            if self._rates[name]:
                for namespace, device in (("hub", "v%d" % number), (name, "v0")):
                    lines.append("ip netns exec {0}%s tc qdisc add dev %s root tbf rate %d "
                                 "burst 32k latency 50ms" % (namespace, device, self._rates[name]))
        if self._forward:
            lines.append("ip netns exec {0}hub sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'")
        if self._direct:
            lines.append("ip link add d0 netns {0}%s type veth peer name d0 netns {0}%s" %
                         self._direct)
            for number, name in enumerate(self._direct, 1):
                lines += ["ip -n {0}%s link set d0 up" % name,
                          "ip -n {0}%s addr add 10.9.0.%d/24 dev d0" % (name, number)]
        if subprocess.call(["sh", "-e", "-c", "\n".join(lines).format(self._stem)],
                           stderr=subprocess.DEVNULL):
            self.__exit__()
            raise unittest.SkipTest("network namespaces with veth and tbf cannot be made here")
        return self

    def host(self, name, **more):
        """Return a Host in the namespace of this name, which is ended with the network."""
        host = Host(name, namespace=self.namespace(name), address=self.address(name), **more)
        host.__enter__()
        self._hosts.append(host)
        return host

    def cut(self, name):
        """Cut the link to a host: nothing tells either end, packets just vanish."""
        number = self.names.index(name) + 1
        for namespace, device, far in (("hub", "v%d" % number, 1), (name, "v0", 0)):
            subprocess.check_call(
                ("ip", "-n", self._stem + namespace, "neigh", "replace",
                 "10.8.%d.%d" % (number, 1 + far), "lladdr", "02:00:00:00:00:01",
                 "dev", device, "nud", "permanent"))

    def __exit__(self, *details):
        for host in self._hosts:
            host.__exit__()
        support.remove_namespaces(*[self._stem + name for name in ("hub",) + self.names])
