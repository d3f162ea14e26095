# Everything here needs python3 and nothing else; `peers` also needs Debian's apt-get.

PYTHON ?= python3
OLDEST ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.6.*/bin/python3) $(PYTHON))

PREFIX ?= /usr/local
INTO = $(DESTDIR)$(PREFIX)

.DEFAULT_GOAL := test
.PHONY: install install-iperf3 uninstall test peers quic-env bench check matrix sctp soak windows qemu

# Imports the module, so that Python need not compile it at each start. `site`, which looks for
# packages, is left until one is missing: some hosts' takes longer than all the rest.
define LAUNCHER
import _signal, os, sys

if _signal.getsignal(_signal.SIGINT) == _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

class Packages:
    @classmethod
    def find_spec(cls, *wanted):
        sys.meta_path.remove(cls)
        import importlib.util, site
        site.main()
        return importlib.util.find_spec(wanted[0])

sys.meta_path.append(Packages)
here = os.path.dirname(os.path.realpath(__file__))
sys.path[0] = os.path.join(here, "../lib/pyperf3")
sys.argv[0] = os.path.basename(sys.argv[0])
import pyperf3
pyperf3.run_program()
endef

# The first line of a launcher: a shell's where the interpreter's path has a blank.
FIRST = $(shell $(PYTHON) -c 'import sys; path = sys.executable; print(chr(35) + ( \
	"!/bin/sh\\n\"exec\" \"%s\" \"-S\" \"$$0\" \"$$@\"" if " " in path else "!%s -S") % path)')

# The module, and `pyperf3` which runs it.
install: export TEXT = $(LAUNCHER)
install: export HEAD = $(FIRST)
install:
	install -d "$(INTO)/bin" "$(INTO)/lib/pyperf3"
	install -m 644 pyperf3.py "$(INTO)/lib/pyperf3"
	-umask 022; $(PYTHON) -m compileall -q "$(INTO)/lib/pyperf3"
	rm -f "$(INTO)/bin/pyperf3"
	printf '%b\n%s\n' "$$HEAD" "$$TEXT" > "$(INTO)/bin/pyperf3"
	chmod 755 "$(INTO)/bin/pyperf3"

# `iperf3` as well, for all that expects that name; not in the place of another.
install-iperf3: install
	test ! -e "$(INTO)/bin/iperf3" || grep -q "^import pyperf3" "$(INTO)/bin/iperf3" || \
		{ echo "$(INTO)/bin/iperf3 is another program: it stays" >&2; false; }
	rm -f "$(INTO)/bin/iperf3"
	install -m 755 "$(INTO)/bin/pyperf3" "$(INTO)/bin/iperf3"

uninstall:
	rm -rf "$(INTO)/bin/pyperf3" "$(INTO)/lib/pyperf3"
	! grep -q "^import pyperf3" "$(INTO)/bin/iperf3" 2>/dev/null || rm "$(INTO)/bin/iperf3"

test:
	$(PYTHON) tests/run.py -j 2

# Real iperf3 3.9, 3.12, 3.18 and 3.22, for the tests of interoperability and the bench.
peers:
	$(PYTHON) tests/peers.py

# A Python with the QUIC libraries, for the tests of QUIC and the bench.
quic-env:
	test -x .quic-env/bin/python3 || $(PYTHON) -m venv .quic-env
	.quic-env/bin/python3 -m pip install -q qh3 aioquic

bench: peers quic-env
	$(PYTHON) tests/bench.py

# Quick enough to run before every commit.
check:
	$(OLDEST) tests/check.py
	$(PYTHON) tests/check.py --sizes
	$(PYTHON) tests/run.py -q test_units test_wire test_statistics test_options test_renderers

# The suite with every Python on this machine.
matrix:
	$(PYTHON) tests/matrix.py

# Ten minutes of one test, in which no memory may grow.
soak:
	$(PYTHON) tests/soak.py

# SCTP, in a kernel of its own where this host's has none (User Mode Linux).
sctp: peers
	$(PYTHON) tests/sctp.py

# Windows' Python, run by Debian's Wine, against this one.
windows:
	$(PYTHON) tests/windows.py

# The pure and the loopback tests on s390x (big-endian) and armhf, by Debian's qemu.
qemu:
	$(PYTHON) tests/qemu.py
