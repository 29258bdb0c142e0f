# make run, make test, make check, make bench, make clean. All that is made lies in .venv/, .venv-compiled/,
# .venv-bench/, dist/ and data/; make bench writes BENCHMARKS.md and docs/bench/.

VENV ?= .venv
# Where the compiled form is installed and tested.
COMPILED_VENV ?= .venv-compiled
# make run: `yes` compiles the core first, `no` runs the plain form; else the compiled one runs where it has been built.
COMPILED ?=
# make run: so many nodes, at this port and those after it.
NODES ?= 3
PORT ?= 7711
# make run: the port of the gateway (HTTP); its admin port is the next one. 0: no gateway.
GATEWAY ?= 7780
ARGS ?=
# Tests go in several processes, more than there are processors, since those that start servers and Java wait a lot (see
# tests/conftest.py). Each of them imports all tests first, which is ten seconds of a processor: so not in many.
WORKERS ?= $(if $(ARGS),,-n 4 --dist loadscope --no-loadscope-reorder)
BIN := $(VENV)/bin
# Each node has a folder of its own in here, named after its port.
DATA ?= data

.PHONY: help run demo demo-tasks test imported test-all test-slow pythons test-pythons coverage test-compiled test-compiled-core test-compiled-other wheel check simulate bench docs cpu yardstick clean tools lint
.DEFAULT_GOAL := help
# Tests start Python hundreds of times, and their own files take half a minute to compile: what was compiled is kept,
# even where the environment says that nothing is.
unexport PYTHONDONTWRITEBYTECODE

help:
	@echo 'make run     start three nodes on 127.0.0.1, ports 7711 to 7713, with their journals in ./data, and a gateway'
	@echo '             for HTTP at http://127.0.0.1:7780'
	@echo '             make run NODES=1 PORT=7721 GATEWAY=7790 ARGS="--loglevel verbose"; GATEWAY=0: no gateway'
	@echo '             make run COMPILED=yes  compiles the core first: two minutes once, about twice the speed'
	@echo 'make demo    Spark writes 100,000 records, a stream and a plain consumer take them, a node dies; needs Java 17'
	@echo 'make demo-tasks  a web shop with two workers on three nodes; a worker is killed, one stopped, a node killed'
	@echo 'make test    lint, types, and all tests that are not slow; make test ARGS="tests/core -k queue" for some of them'
	@echo 'make test-all  the slow ones, too (test-slow), those with later Pythons that are here (test-pythons), and all'
	@echo '             with the core compiled to C and installed (test-compiled; needs a C compiler)'
	@echo 'make coverage  which lines and branches the tests run'
	@echo 'make wheel   in dist/: a wheel with a compiled core for this platform, a plain one for any, and the sources'
	@echo 'make check   lint, types and the rules of the house, in seconds'
	@echo 'make simulate  nodes on a simulated network, with every fault; SEEDS=2000 START=0 NODES=1-9'
	@echo 'make bench   measure everything, beside Redis, beanstalkd, RQ, Celery and dramatiq, into BENCHMARKS.md: half an'
	@echo '             hour; QUICK=yes takes some minutes'
	@echo 'make cpu     CPU of the core for one operation, beside what was noted; 10 % more is reported'
	@echo 'make yardstick  speed and memory beside redis-server, driven by redis-benchmark; some minutes'
	@echo 'make docs    the documentation as a site, in site/'
	@echo 'make clean   remove what was made; the data in ./data stays'

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
	@$(BIN)/python -m pip install --quiet --editable '.[client,gateway]' \
	  || { echo 'what the gateway needs cannot be installed here: the nodes run without it'; \
	       $(BIN)/python -m pip install --quiet --editable '.[client]'; }
	@touch $@

$(VENV)/.can-test: pyproject.toml $(BIN)/python
	@echo 'installing into $(VENV), with what the tests need'
	@$(BIN)/python -m pip install --quiet --editable '.[test,client,gateway,spark,demo,docs]'
	@touch $(VENV)/.can-run $@

$(VENV)/.can-demo: pyproject.toml $(BIN)/python
	@echo 'installing into $(VENV), with PySpark (490 MB)'
	@$(BIN)/python -m pip install --quiet --editable '.[client,spark,demo]'
	@touch $(VENV)/.can-run $@

# ---- nodes that have found each other

# Which form runs is decided when make begins: what has been compiled counts if it is newer than the sources.
FORM := $(if $(filter yes,$(COMPILED)),$(COMPILED_VENV),$(if $(filter no,$(COMPILED)),$(VENV),$(shell \
  test -e $(COMPILED_VENV)/.can-run && test -z "$$(find pyproject.toml setup.py MANIFEST.in cluster disque \
    -name '*.py' -newer $(COMPILED_VENV)/.can-run -print -quit)" && echo $(COMPILED_VENV) || echo $(VENV))))

# PYTHONSAFEPATH: the files of the tree must not win over the compiled ones.
run: $(FORM)/.can-run
	@PYTHONSAFEPATH=1 exec $(FORM)/bin/python -m disque.cli.local --nodes $(NODES) --port $(PORT) --data $(DATA) --gateway $(GATEWAY) -- $(ARGS)

# ---- a Spark job writes, a stream and a plain consumer read, a node dies: nothing is missing at the end

demo: $(VENV)/.can-demo
	@command -v java >/dev/null || { \
	  echo 'Java is missing, which Spark runs on: apt-get install --no-install-recommends openjdk-17-jre-headless' >&2; \
	  exit 1; }
	@exec $(BIN)/python examples/demo.py $(ARGS)

# ---- a web shop's tasks: workers killed and stopped, a node killed; at the end, what became of every job

demo-tasks: $(VENV)/.can-run
	@exec $(BIN)/python examples/tasks/demo.py

# ---- tests

test: tools $(VENV)/.can-test
	@$(MAKE) --no-print-directory -j2 lint imported
	@$(BIN)/python -m pytest $(WORKERS) $(ARGS)

# The first time, one process compiles all tests for the others, beside the lint; where few are wanted, there is no need.
imported: $(VENV)/.can-test
	@test -n "$(ARGS)" || find tests -name '*-pytest-*.pyc' | grep -q . || $(BIN)/python -m pytest --collect-only >/dev/null || true

# What `make test` leaves out since it is slow and what it finds is rare; then all of it with the compiled core.
test-all: test test-slow test-pythons test-compiled

test-slow: tools $(VENV)/.can-test
	@SLOW=only $(BIN)/python -m pytest $(WORKERS) $(ARGS)

# The tests that need no server of another project, with each later Python that is here (pyenv's or the system's).
PYTHON_TESTS ?= tests/core tests/cluster tests/scenarios tests/server tests/client tests/django
PYTHONS ?= $(shell ls -d $$HOME/.pyenv/versions/3.1[2-9].* 2>/dev/null | sed 's:$$:/bin/python3:') \
  $(foreach minor,12 13 14,$(shell command -v python3.$(minor) 2>/dev/null | grep -v pyenv/shims))
pythons:
	@for python in $(PYTHONS); do echo $$python; done
test-pythons:
	@for python in $(PYTHONS); do \
	  venv=.venv-$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  echo "tests with $$($$python --version), in $$venv"; \
	  { $$python -m venv $$venv && $$venv/bin/python -m pip install --quiet --editable '.[test,client]'; } || exit 1; \
	  $$venv/bin/python -m pytest -p no:cacheprovider -n 3 --dist loadscope --no-loadscope-reorder $(PYTHON_TESTS) || exit 1; \
	done

# Lines and branches that the quick tests run in their own process; COVERAGE is what it was when it was last looked at.
COVERAGE ?= 96.9
coverage: $(VENV)/.can-test
	@$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder --cov --cov-report=term:skip-covered --cov-fail-under=$(COVERAGE) \
	  $(PYTHON_TESTS)

check: lint
	@$(BIN)/python -m pytest tests/test_house.py tests/test_conf.py tests/test_docs.py

# ---- the compiled form: built from the tree as anybody's is, installed in an environment of its own, and tested there
# ---- by a copy of the tests, since beside the tree its plain files would win

SOURCES = pyproject.toml setup.py MANIFEST.in $(shell find cluster disque -name '*.py')
# All but what looks at the sources and at the building of wheels, which are the same whatever is made of them: what
# touches the core, and what talks to it from outside.
CORE_TESTS := tests/test_form.py tests/core tests/cluster tests/server tests/scenarios tests/simulation \
  tests/end_to_end tests/cli/test_serve.py tests/cli/test_check_aof.py
OTHER_TESTS := tests/cli tests/client tests/spark tests/speed tests/test_conf.py \
  --ignore tests/cli/test_serve.py --ignore tests/cli/test_check_aof.py
COMPILED_TESTS ?= $(CORE_TESTS) tests/cli tests/client tests/spark tests/speed tests/test_conf.py

$(COMPILED_VENV)/.can-test: $(SOURCES) $(VENV)/.can-test
	@echo 'compiling the core, and installing it into $(COMPILED_VENV)'
	@rm -rf $(COMPILED_VENV)/dist
	@$(BIN)/python -m venv $(COMPILED_VENV)
	@DISQUE_CORE=compiled $(BIN)/python -m build --outdir $(COMPILED_VENV)/dist . >$(COMPILED_VENV)/build.log 2>&1 \
	  || { tail -n 40 $(COMPILED_VENV)/build.log; exit 1; }
	@wheel=$$(echo $(COMPILED_VENV)/dist/*.whl) && $(COMPILED_VENV)/bin/python -m pip install --quiet "$$wheel[test,client,gateway,spark,demo]" \
	  && $(COMPILED_VENV)/bin/python -m pip install --quiet --no-deps --force-reinstall "$$wheel"
	@touch $(COMPILED_VENV)/.can-run $@

# The same without what only the tests need.
$(COMPILED_VENV)/.can-run: $(SOURCES) $(BIN)/python
	@echo 'compiling the core, and installing it into $(COMPILED_VENV)'
	@rm -rf $(COMPILED_VENV)/dist
	@$(BIN)/python -m venv $(COMPILED_VENV)
	@DISQUE_CORE=compiled $(BIN)/python -m pip wheel --no-deps --wheel-dir $(COMPILED_VENV)/dist . >$(COMPILED_VENV)/build.log 2>&1 \
	  || { tail -n 40 $(COMPILED_VENV)/build.log; exit 1; }
	@wheel=$$(echo $(COMPILED_VENV)/dist/*.whl) && $(COMPILED_VENV)/bin/python -m pip install --quiet "$$wheel" \
	  && { $(COMPILED_VENV)/bin/python -m pip install --quiet "$$wheel[client,gateway]" \
	       || echo 'what the gateway needs cannot be installed here: the nodes run without it'; } \
	  && $(COMPILED_VENV)/bin/python -m pip install --quiet --no-deps --force-reinstall "$$wheel"
	@touch $@

test-compiled-core: COMPILED_TESTS := $(CORE_TESTS)
test-compiled-core: test-compiled
test-compiled-other: COMPILED_TESTS := $(OTHER_TESTS)
test-compiled-other: test-compiled

test-compiled: tools $(COMPILED_VENV)/.can-test
	@rm -rf $(COMPILED_VENV)/tree && mkdir $(COMPILED_VENV)/tree
	@cp -Rp tests conf docs examples README.md pyproject.toml $(COMPILED_VENV)/tree
	@python=$$(realpath -s $(COMPILED_VENV)/bin/python); cd $(COMPILED_VENV)/tree && \
	  SLOW=$${SLOW:-also} DISQUE_CORE=compiled $$python -m pytest $(WORKERS) $(if $(ARGS),$(ARGS),$(COMPILED_TESTS))

wheel: $(VENV)/.can-test
	@DISQUE_CORE=compiled $(BIN)/python -m build --outdir dist .
	@DISQUE_CORE=plain $(BIN)/python -m build --wheel --outdir dist .
	@ls -l dist

# Clusters of one to nine nodes on a simulated network, with every fault: seeds START + 1 to START + SEEDS.
SEEDS ?= 200
START ?= 0
simulate: NODES := $(if $(filter file,$(origin NODES)),1-9,$(NODES))
simulate: $(VENV)/.can-test
	@$(BIN)/python -m tests.simulation --seeds $$(($(START) + 1))-$$(($(START) + $(SEEDS))) --nodes $(NODES) -j 2 $(ARGS)

lint: $(VENV)/.can-test
	@$(BIN)/ruff check
	@$(BIN)/mypy

# What is missing is said first and skipped; with CI=true it is a failure.
tools:
	@missing=; packages=; \
	for pair in redis-cli:redis-tools redis-benchmark:redis-tools redis-server:redis-server ip:iproute2 java:openjdk-17-jre-headless openssl:openssl faketime:faketime chromium:chromium promtool:prometheus; do \
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

# ---- the documentation as a site; what is wrong with a link is an error

docs: $(VENV)/.can-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(VENV)/.can-docs: pyproject.toml $(BIN)/python
	@echo 'installing into $(VENV), with mkdocs'
	@$(BIN)/python -m pip install --quiet --editable '.[client,docs]'
	@touch $(VENV)/.can-run $@

# ---- measure: everything beside everything, into BENCHMARKS.md and docs/bench

# What others have made for the same purpose, in an environment of its own. What cannot be installed is left out.
RIVALS ?= .venv-bench
# Some minutes instead of half an hour.
QUICK ?=

bench: $(VENV)/.can-bench
	@$(MAKE) --no-print-directory $(COMPILED_VENV)/.can-run \
	  || echo 'the core cannot be compiled here (see above): its plain form alone is measured'
	@$(MAKE) --no-print-directory $(RIVALS)/.can-bench || echo 'none of them can be installed here: left out'
	@$(BIN)/python -m tests.speed.bench $(if $(QUICK),--quick) --compiled $(COMPILED_VENV)/bin/python --rivals $(RIVALS) $(ARGS)

$(VENV)/.can-bench: pyproject.toml $(BIN)/python
	@echo 'installing into $(VENV), with Celery, and what the plots need'
	@$(BIN)/python -m pip install --quiet --editable '.[client,bench,celery]'
	@touch $(VENV)/.can-run $@

$(RIVALS)/.can-bench: $(BIN)/python
	@echo 'installing RQ, Celery, dramatiq, taskiq, huey and arq into $(RIVALS)'
	@$(BIN)/python -m venv $(RIVALS)
	@for package in rq 'celery[redis]' 'dramatiq[redis]' 'taskiq taskiq-redis' huey; do \
	  $(RIVALS)/bin/python -m pip install --quiet $$package && touch $@ || echo "without $$package"; \
	done; test -e $@
	@$(BIN)/python -m venv $(RIVALS)/arq && $(RIVALS)/arq/bin/python -m pip install --quiet arq || echo 'without arq'

# ---- CPU of the core for one operation, beside what it was when ARGS=--write noted it

CPU := -m tests.speed.cpu --baseline $(CURDIR)/tests/speed/cpu.json
cpu: $(VENV)/.can-test
	@$(BIN)/python $(CPU) $(ARGS)
	@if test -d $(COMPILED_VENV)/tree; then \
	  python=$$(realpath -s $(COMPILED_VENV)/bin/python); cd $(COMPILED_VENV)/tree && DISQUE_CORE=compiled $$python $(CPU) $(ARGS); fi

# ---- the same by redis-benchmark, the cheapest client of all: a few of the figures, in turn

yardstick: $(VENV)/.can-test
	@$(BIN)/python -m tests.speed.yardstick $(ARGS)

clean:
	rm -rf $(VENV) $(COMPILED_VENV) $(RIVALS) .venv-3.* .coverage build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find cluster disque tests -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -maxdepth 1 -name '*__mypyc*.so' -delete
	find cluster disque -name '*.so' -delete
