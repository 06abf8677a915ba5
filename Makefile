# `make help` lists the targets. Everything happens inside this folder: the environment in .venv,
# what takes long to fetch or build in .cache, what the demo makes in out.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --retries 10 --timeout 60
JOBS ?= 2
# Tests wait for disks, brokers and other processes: one more than two cores keeps the cores busy.
TEST_JOBS ?= 3
PYTEST_ARGS ?=
PIPELINE_ARGS ?=
GOALS_ARGS ?=
STRANGERS_ARGS ?=
BEFORE ?= main
AFTER ?= HEAD
CONTESTS ?= disk/commit
COMPARE_ARGS ?=
SOURCES := setup.py pyproject.toml $(shell find src -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.h')

.PHONY: help
help:  ## this list
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# ---- the environment: one stamp a dependency group, so that a second run costs nothing ----------

.PHONY: preflight
preflight:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "kstore needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)."; \
	  echo "On Debian: apt-get install python3 python3-venv python3-dev; or: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "This Python cannot make a virtual environment. On Debian: apt-get install python3-venv"; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || { \
	  echo "Python's C headers are missing. On Debian: apt-get install python3-dev"; exit 1; }
	@command -v $${CC:-cc} >/dev/null || { \
	  echo "A C compiler is missing. On Debian: apt-get install gcc libc6-dev"; exit 1; }

$(VENV)/.pip:
	@$(MAKE) --no-print-directory preflight
	@echo "==> environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.build: pyproject.toml | $(VENV)/.pip
	@echo "==> build tools and kstore's dependencies"
	@$(PIP) install --group build
	@$(PIP) install $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")')
	@touch $@

$(VENV)/.native: $(SOURCES) $(VENV)/.build
	@echo "==> building the kernels (Cython, C; a minute the first time)"
	@mkdir -p .cache
	@$(BIN)/python setup.py --quiet build_ext --inplace --parallel $(JOBS) >.cache/build.log 2>&1 || { tail -40 .cache/build.log; exit 1; }
	@touch $@

$(VENV)/.editable: pyproject.toml | $(VENV)/.native
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

# The groups that have a target of their own: .venv/.group-test and so on.
$(VENV)/.group-%: pyproject.toml | $(VENV)/.pip
	@echo "==> packages of the group '$*'"
	@$(PIP) install --group $*
	@touch $@

.PHONY: build
build: $(VENV)/.native $(VENV)/.editable  ## environment in .venv, kernels built in place

# ---- the two commands of the README ----------------------------------------------------------------

.PHONY: demo
demo: build $(VENV)/.group-demo  ## kstore's main job on real log data, with a picture; no server needed
	@$(BIN)/python docs/demo/demo.py

.PHONY: pipeline
pipeline: build $(VENV)/.group-demo $(VENV)/.group-spark  ## real log data through Spark into topics and out again; a report (Java 17; PIPELINE_ARGS=--cluster)
	@$(BIN)/python docs/pipeline/pipeline.py $(PIPELINE_ARGS)

.PHONY: test
test: build $(VENV)/.group-test  ## every test that needs no Java
	@$(BIN)/python -m pytest -n $(TEST_JOBS) -m 'not interop and not spark and not counted' tests $(PYTEST_ARGS)

# ---- more ------------------------------------------------------------------------------------------

.PHONY: unit
unit: build $(VENV)/.group-test  ## the quick tests only
	@$(BIN)/python -m pytest -m 'not interop and not spark and not slow' tests/unit tests/tidy $(PYTEST_ARGS)

.PHONY: interop
interop: build $(VENV)/.group-test  ## real Apache Kafka reads what kstore wrote and the other way (Java 17, Maven)
	@KSTORE_INTEROP=require KSTORE_CLASS_ARCHIVES=use $(BIN)/python tests/interop/once_more.py -m pytest -n $(TEST_JOBS) tests/interop $(PYTEST_ARGS)

.PHONY: interop-all
interop-all: build $(VENV)/.group-test  ## the same with every version of Kafka, 0.8.2 and 0.10.2 to 2.8 included (ten minutes)
	@KSTORE_INTEROP=require KSTORE_INTEROP_ALL=1 KSTORE_CLASS_ARCHIVES=use $(BIN)/python -m pytest -n $(TEST_JOBS) tests/interop $(PYTEST_ARGS)

.PHONY: interop-jars
interop-jars: build $(VENV)/.group-test  ## fetch Kafka's jars from Maven Central, once, and archive their classes, with which Kafka starts sooner
	@PYTHONPATH=tests $(BIN)/python -c 'from interop.kafka_jars import VERSIONS, prepare; import sys; \
	  sys.exit("\n".join(filter(None, (prepare(version)[1] for version in VERSIONS))) or None)'
	@PYTHONPATH=tests $(BIN)/python -m interop.class_archive

# What no registry has is given as a source tree: STRANGERS_ARGS="librdkafka --source librdkafka=PATH".
.PHONY: strangers
strangers: build $(VENV)/.group-test  ## the test suites of Kafka's clients against kstore and Kafka 3.9.2 and 4.3.0, in one table (STRANGERS_ARGS="--at kstore")
	@PYTHONPATH=tests $(BIN)/python -m strangers $(STRANGERS_ARGS)

.PHONY: strangers-smoke
strangers-smoke: build $(VENV)/.group-test  ## of these, those whose tests come from registries: kafka-python, franz-go, the page of KafkaJS, Kafka's own tools (Java 17, Maven, Go 1.26, npm); the others are shown as not run
	@PYTHONPATH=tests KSTORE_CLASS_ARCHIVES=use $(BIN)/python -m strangers --jobs $(JOBS) "franz-go kgo" "Kafka's tools 4.3.0" "Kafka's tools 3.9.2" "kafka-python base" "kafka-python asyncio" "kafka-python as 2.4" "kafka-python as 1.0" "kafka-python as 0.11" "franz-go kadm" "franz-go page" "KafkaJS page" \
	  confluent-kafka-python librdkafka aiokafka kafkajs --missing-sources --at kstore

# One session of two threads serves all tests of a process: its start is most of their time.
.PHONY: spark
spark: build $(VENV)/.group-test $(VENV)/.group-spark $(VENV)/.group-demo  ## Apache Spark reads and writes kstore's directories (Java 17)
	@KSTORE_SPARK=require $(BIN)/python -m pytest -m 'spark and not connector_at_kstore' tests $(PYTEST_ARGS)

# The oldest Spark that is supported, before the environment's own (the newest) on the path.
.cache/pyspark-4.2: | $(VENV)/.pip
	@echo "==> pyspark 4.2.0 (400 MB)"
	@rm -rf $@.part
	@$(PIP) install --target $@.part 'pyspark==4.2.0'
	@mv $@.part $@

.PHONY: spark-connector
spark-connector: build $(VENV)/.group-test $(VENV)/.group-spark .cache/pyspark-4.2  ## Spark 4.2's own Kafka connector at kstore's broker: batch, stream and sink
	@PYTHONPATH=$(abspath .cache/pyspark-4.2) KSTORE_SPARK=require KSTORE_SPARK_ALL=1 KSTORE_INTEROP=require \
	  $(BIN)/python -m pytest -m connector_at_kstore tests $(PYTEST_ARGS)

.PHONY: spark-all
spark-all: build $(VENV)/.group-test $(VENV)/.group-spark $(VENV)/.group-demo .cache/pyspark-4.2  ## the same on a cluster and with many deaths, in Spark 4.2 too, and beside its own Kafka connector at a real broker
	@KSTORE_SPARK=require KSTORE_SPARK_ALL=1 $(BIN)/python -m pytest -m spark tests $(PYTEST_ARGS)
	@PYTHONPATH=$(abspath .cache/pyspark-4.2) KSTORE_SPARK=require KSTORE_SPARK_ALL=1 KSTORE_INTEROP=require \
	  $(BIN)/python -m pytest -m spark tests $(PYTEST_ARGS)

.PHONY: check
check: style  ## what style checks, and the tests of stubs, import layers and sizes
	@$(BIN)/python -m pytest -q tests/tidy

.PHONY: style
style: build $(VENV)/.group-test $(VENV)/.group-check $(VENV)/.group-spark  ## ruff, cython-lint, mypy --strict
	@$(BIN)/ruff check src tests benchmarks docs
	@$(BIN)/ruff format --check src tests benchmarks docs
	@PATH="$(abspath $(BIN)):$$PATH" cython-lint src
	@$(BIN)/mypy

.PHONY: format
format: $(VENV)/.group-check  ## let ruff format the Python files
	@$(BIN)/ruff check --fix src tests benchmarks docs
	@$(BIN)/ruff format src tests benchmarks docs

.PHONY: bench
bench: build $(VENV)/.group-test $(VENV)/.group-bench  ## every contest at full size, timed (BENCH_ARGS='-k crc')
	@$(BIN)/python benchmarks/ratios.py $(BENCH_ARGS)

.PHONY: bench-smoke
bench-smoke: build $(VENV)/.group-test $(VENV)/.group-bench  ## every contest once at 1/100 size: results checked, not timed
	@KSTORE_BENCH_SCALE=0.01 $(BIN)/python -m pytest benchmarks --benchmark-disable $(PYTEST_ARGS)

.PHONY: compare
compare: build $(VENV)/.group-test $(VENV)/.group-bench  ## two commits measured in one run (BEFORE=main AFTER=HEAD CONTESTS="engine/append disk/commit")
	@mkdir -p .cache/compare
	@for name in before after; do \
	  commit=$(BEFORE); [ $$name = before ] || commit=$(AFTER); \
	  echo "==> building $$commit"; \
	  rm -rf .cache/compare/$$name && mkdir .cache/compare/$$name; \
	  git archive $$commit | tar x -C .cache/compare/$$name; \
	  (cd .cache/compare/$$name && $(CURDIR)/$(BIN)/python setup.py --quiet build_ext --inplace --parallel $(JOBS) >../$$name.log 2>&1) || { tail -40 .cache/compare/$$name.log; exit 1; }; done
	@$(BIN)/python -m kstore bench compare --run $(COMPARE_ARGS) .cache/compare/before .cache/compare/after $(CONTESTS)

.PHONY: goals
goals: build $(VENV)/.group-test $(VENV)/.group-bench  ## every figure that is wanted, in one run of twenty minutes, into docs/performance.md (Java 17; GOALS_ARGS=engine/read)
	@mkdir -p out
	@$(BIN)/python benchmarks/goals.py --table docs/performance.md --json out/goals.json $(GOALS_ARGS)

# Processes of its own, two at a time; nothing is timed, so that a busy machine changes nothing.
.PHONY: counts
counts: build $(VENV)/.group-test  ## instructions, system calls, allocations and copies against the committed ones; planted slowdowns (valgrind)
	@$(BIN)/python -m pytest -q -m counted tests/counts $(PYTEST_ARGS)

.PHONY: baseline
baseline: build $(VENV)/.group-test  ## write those numbers anew, and say what changed (ONLY="part of a name")
	@PYTHONPATH=benchmarks $(BIN)/python -m counted renew $(if $(ONLY),"$(ONLY)")

# A build with the lines of the .pyx files, the same code otherwise: in place where KSTORE_LINES=1
# is set, as in CI, else in a copy.
.PHONY: profile
profile: build $(VENV)/.group-test  ## where the instructions go, by functions and Cython lines, into out/profile (valgrind)
	@$(BIN)/python benchmarks/counted/build_lines.py out/profile

.PHONY: docs
docs: build $(VENV)/.group-docs  ## the documentation, strictly, into .cache/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --config-file .mkdocs.yml 2>&1 | { grep -v '^INFO' || true; }  # with --quiet no warning counts

.PHONY: docs-serve
docs-serve: build $(VENV)/.group-docs  ## the documentation at http://127.0.0.1:8000, rebuilt as it is edited
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve --config-file .mkdocs.yml

.PHONY: dist
dist: $(VENV)/.build $(VENV)/.group-wheel  ## a source distribution and a wheel for this Python in dist
	@$(BIN)/python tests/tidy/build_wheel.py

.PHONY: wheel
wheel: $(VENV)/.build $(VENV)/.group-wheel  ## the same, and the wheel installed into a new environment elsewhere and tested there
	@$(BIN)/python tests/tidy/try_wheel.py

.PHONY: newest
newest:  ## the README's commands and the wheel on the newest Debian, in a chroot (root, debootstrap; SUITE=trixie STEPS="wheel demo test")
	@.ci/newest

.PHONY: torture
torture: build $(VENV)/.group-test  ## the long tests in parts: PART=name, TORTURE_SECONDS=300 each, SEED= repeats
	@PYTHONPATH=tests $(BIN)/python -m torture $(PART) --seconds $${TORTURE_SECONDS:-300} --seed $${SEED:-1} --jobs $(JOBS)
	@[ -n "$(PART)" ] || KSTORE_TORTURE=1 $(BIN)/python -m pytest -s --timeout 1800 tests/torture tests/property $(PYTEST_ARGS)

.PHONY: fuzz
fuzz: build $(VENV)/.group-test  ## every decoder on mutated bytes, FUZZ_SECONDS=60 each (SEED= repeats)
	@KSTORE_FUZZ_SECONDS=$${FUZZ_SECONDS:-60} $(BIN)/python -m pytest -s --timeout 7200 tests/torture/test_fuzz.py $(PYTEST_ARGS)

.PHONY: stress
stress: build $(VENV)/.group-test  ## a writer and four readers in processes of their own, for a minute
	@KSTORE_STRESS_SECONDS=$${STRESS_SECONDS:-60} $(BIN)/python -m pytest -s --timeout 900 tests/stress $(PYTEST_ARGS)

.PHONY: sanitize
sanitize: build $(VENV)/.group-test  ## the kernels' tests under AddressSanitizer and UBSan (in a copy; needs gcc)
	@$(BIN)/python tests/tidy/try_sanitizers.py $(PYTEST_ARGS)

.PHONY: portable
portable: build $(VENV)/.group-test  ## the C headers as another machine would compile them (aarch64, no CPU features)
	@$(BIN)/python -m pytest -q tests/tidy/test_portable.py

.PHONY: public-api
public-api: build  ## write the list of public names that a test compares with
	@$(BIN)/python tests/tidy/public_api.py

.PHONY: server-properties
server-properties: build  ## write the tables of the guide's page about server.properties
	@$(BIN)/python tests/docs/server_properties.py

.PHONY: clean
clean:  ## remove what was built, keep the environment
	@rm -rf build dist out site .cache/build.log .cache/site .pytest_cache .hypothesis .mypy_cache .ruff_cache .benchmarks
	@find src tests benchmarks docs -name __pycache__ -prune -exec rm -rf {} +
	@find src \( -name '*.so' -o -name '*.c' \) -delete
	@rm -f $(VENV)/.native

.PHONY: distclean
distclean: clean  ## remove the environment and everything fetched as well
	@rm -rf $(VENV) .cache src/*.egg-info
