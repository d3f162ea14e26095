# Everything here needs python3 and nothing else; `peers` also needs Debian's apt-get.

PYTHON ?= python3
OLDEST ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.6.*/bin/python3) $(PYTHON))

.PHONY: test peers bench check matrix

test:
	$(PYTHON) tests/run.py

# Real iperf3 3.9, 3.12, 3.18 and 3.22, for the tests of interoperability and the bench.
peers:
	$(PYTHON) tests/peers.py

bench: peers
	$(PYTHON) tests/bench.py

# Quick enough to run before every commit.
check:
	$(OLDEST) tests/check.py
	$(PYTHON) tests/check.py
	$(PYTHON) tests/run.py -q test_units test_wire test_statistics test_options test_renderers

# The suite with every Python on this machine.
matrix:
	$(PYTHON) tests/matrix.py
