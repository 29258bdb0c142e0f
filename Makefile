# make run, make test, make check, make bench, make clean. All that is made lies in .venv/ and run/.

VENV ?= .venv
PORT ?= 7711
ARGS ?=
# "-n auto" spreads the tests over processes: on two cores a fifth faster, but real servers then wait for each other.
WORKERS ?=
BIN := $(VENV)/bin
# In a folder of its own for each port, so that several nodes can run side by side.
DATA := run/$(PORT)

.PHONY: help run test check bench yardstick clean tools lint
.DEFAULT_GOAL := help

help:
	@echo 'make run     start a node on 127.0.0.1:7711 with its journal in ./run'
	@echo '             make run PORT=7712 ARGS="--loglevel verbose"'
	@echo 'make test    everything: lint, types, all tests; make test ARGS="tests/core -k queue" for some of them'
	@echo 'make check   lint, types and the rules of the house, in seconds'
	@echo 'make bench   measure this server, beside redis-server where there is one; ARGS="-P 16" goes to disque bench'
	@echo 'make yardstick  speed and memory beside redis-server, driven by redis-benchmark; some minutes'
	@echo 'make clean   remove what was made; the data in ./run stays'

# ---- environment: one for all, rebuilt when pyproject.toml changes

$(BIN)/python:
	@for python in python3 python3.13 python3.12 python3.11; do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo 'Python 3.11 or later is missing: apt-get install python3 python3-venv' >&2; exit 1; fi; \
	if ! $$found -c 'import ensurepip, venv' 2>/dev/null; then \
	  echo "the venv module of $$found is missing: apt-get install python3-venv" >&2; exit 1; fi; \
	echo "making $(VENV) with $$($$found --version)"; \
	$$found -m venv --clear $(VENV)

$(VENV)/.can-run: pyproject.toml $(BIN)/python
	@echo 'installing into $(VENV)'
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.can-test: pyproject.toml $(BIN)/python
	@echo 'installing into $(VENV), with what the tests need'
	@$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $(VENV)/.can-run $@

# ---- a node

run: $(VENV)/.can-run
	@mkdir -p $(DATA)
	@echo 'A node on 127.0.0.1:$(PORT), its journal in ./$(DATA). Ctrl-C stops it. Talk to it from another terminal:'
	@echo '    redis-cli -p $(PORT) ADDJOB myqueue hello 0'
	@echo '    redis-cli -p $(PORT) GETJOB FROM myqueue'
	@echo '    redis-cli -p $(PORT) ACKJOB <the ID that both have shown>'
	@echo '    $(BIN)/disque -p $(PORT)        (a shell that knows every command)'
	@exec $(BIN)/disque-server --bind 127.0.0.1 --port $(PORT) --dir $(DATA) --appendonly yes --appendfsync everysec $(ARGS)

# ---- tests

test: tools lint
	@$(BIN)/python -m pytest $(WORKERS) $(ARGS)

check: lint
	@$(BIN)/python -m pytest tests/test_house.py tests/test_conf.py

lint: $(VENV)/.can-test
	@$(BIN)/ruff check
	@$(BIN)/mypy

# What is missing is said first and skipped; with CI=true it is a failure.
tools:
	@missing=; packages=; \
	for pair in redis-cli:redis-tools redis-benchmark:redis-tools redis-server:redis-server; do \
	  if ! command -v $${pair%:*} >/dev/null; then \
	    missing="$$missing $${pair%:*}"; \
	    case " $$packages " in *" $${pair#*:} "*) ;; *) packages="$$packages $${pair#*:}" ;; esac; \
	  fi; \
	done; \
	if [ -n "$$missing" ]; then \
	  echo "missing, so their tests cannot run:$$missing"; \
	  echo "    apt-get install -y --no-install-recommends$$packages"; \
	  [ "$$CI" != true ]; \
	fi

# ---- measure: a server of ours, and redis-server as the yardstick, on ports that are free

bench: $(VENV)/.can-run
	@set -e; folder=$$(mktemp -d); started=; \
	trap 'kill $$started 2>/dev/null; wait $$started || true; rm -rf "$$folder"' EXIT; \
	trap 'exit 130' INT TERM; \
	set -- $$($(BIN)/python -c "$$TWO_PORTS"); ours=$$1; theirs=$$2; compare=; \
	$(BIN)/disque-server --bind 127.0.0.1 --port $$ours --dir "$$folder" >"$$folder/ours.log" & started=$$!; \
	$(BIN)/python -c "$$AWAIT" $$ours || { cat "$$folder/ours.log"; exit 1; }; \
	if command -v redis-server >/dev/null; then \
	  redis-server --bind 127.0.0.1 --port $$theirs --dir "$$folder" --save '' >"$$folder/theirs.log" & started="$$started $$!"; \
	  $(BIN)/python -c "$$AWAIT" $$theirs || { cat "$$folder/theirs.log"; exit 1; }; \
	  compare="--compare 127.0.0.1:$$theirs"; \
	else \
	  echo 'no redis-server here, so nothing to compare with: apt-get install redis-server'; \
	fi; \
	$(BIN)/disque bench -p $$ours add get ack $$compare $(ARGS); \
	$(BIN)/disque bench -p $$ours cycle $(ARGS)

# nodes.conf notes port + 10000 for the talk between nodes to come, so that ephemeral ports will not do.
define TWO_PORTS
import random, socket
ports = []
while len(ports) < 2:
    port = random.randrange(12000, 22000)
    with socket.socket() as here, socket.socket() as bus:
        try:
            here.bind(("127.0.0.1", port)), bus.bind(("127.0.0.1", port + 10000))
        except OSError:
            continue
        ports.append(port)
print(*ports)
endef
export TWO_PORTS

define AWAIT
import socket, sys, time
for _ in range(100):
    try:
        sys.exit(socket.create_connection(("127.0.0.1", int(sys.argv[1]))).close())
    except ConnectionRefusedError:
        time.sleep(0.1)
sys.exit("the server does not answer")
endef
export AWAIT

# ---- the same by redis-benchmark, the cheapest client: the table of the README

yardstick: $(VENV)/.can-test
	@$(BIN)/python tests/speed/yardstick.py $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find cluster disque tests -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -maxdepth 1 -name '*__mypyc*.so' -delete
	find cluster disque -name '*.so' -delete
