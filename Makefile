# Everything here needs python3 and nothing else; `peers` also needs Debian's apt-get.

PYTHON ?= python3
OLDEST ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.6.*/bin/python3) $(PYTHON))

.PHONY: test peers quic-env bench check matrix sctp soak

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
	$(PYTHON) tests/check.py
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
