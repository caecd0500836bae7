# `make demo`   the main job on a built-in workload, from a fresh clone
# `make test`   everything that is checked, installing what is missing
# `make check`  the same without installing, in the environment BIN (for instance BIN=/path/to/venv/bin)
# `make slow`   scripts in every style and framework, and what else takes long; wants the extras `styles`, `adapters` and `trackers`
# `make bench-NAME`  one of benchmarks/NAME.py; they take minutes and print tables

PYTHON ?= python3
VENV ?= .venv
BIN ?= $(VENV)/bin
TORCH ?= 2.13.0
INSTALLED := $(VENV)/.netdyno-installed

# These rooms never import torch: their tests answer in seconds, so they go first.
QUICK := records stats verdicts rules lint store reports
QUICK_TESTS := $(wildcard $(addprefix tests/,$(QUICK)))
QUICK_SOURCE := $(addprefix src/netdyno/,$(QUICK))
# Each of these imports a framework that need not be there; their tests skip aloud where it is not.
FRAMEWORKS := src/netdyno/monitor/adapters

# What takes long and is checked all the same; the rest of the slow tests is for `make slow`.
DEAR := tests/interventions tests/test_gpu.py tests/scripts/test_every_vital.py
# It puts a program on each core by itself.
TENTH := tests/test_fault_tenth.py

# What judges its own measurements has the machine to itself; `make rest` leaves it out.
TIMED := tests/arms tests/measure tests/probes tests/serving tests/test_bench.py tests/test_bench_script.py

# What loads other runtimes beside PyTorch, and starts processes that do: in workers that nobody else's tests have been in.
SHIP := tests/gates tests/runtimes tests/shipping

# As many test files at a time as there are cores; more than four only keep each other waiting. (nproc takes OMP_NUM_THREADS for the answer.)
JOBS ?= $(shell n=$$(env -u OMP_NUM_THREADS nproc 2> /dev/null || echo 2); echo $$((n < 4 ? n : 4)))
PYTEST := $(BIN)/python -m pytest -q
# A worker that dies ends the run: one that is replaced may leave the others waiting for ever.
LANES := --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart=0
# The models of the tests are so small that a second thread is mostly waited for.
quick rest ship timed dear: export OMP_NUM_THREADS ?= 1

.PHONY: demo test check format lint types quick rest ship timed dear slow examples bench-faults
.DEFAULT_GOAL := check

demo: $(INSTALLED)
	$(VENV)/bin/netdyno tune garage:digits --budget 150s

test: $(INSTALLED)
	$(MAKE) check BIN=$(VENV)/bin

check: format lint
	$(MAKE) --jobs=2 --output-sync=target types quick
	$(MAKE) rest ship dear timed examples

$(INSTALLED): pyproject.toml
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check torch==$(TORCH)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[data,dev,learn,series,ship,ui]'
	touch $@

format:
	$(BIN)/ruff format --check --quiet .

lint:
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports

types:
	$(BIN)/mypy

quick:
	$(PYTEST) $(LANES) --doctest-modules $(QUICK_TESTS) $(QUICK_SOURCE)

rest:
	$(PYTEST) $(LANES) -m "not slow" --doctest-modules $(addprefix --ignore=,$(QUICK_TESTS) $(QUICK_SOURCE) $(FRAMEWORKS) $(TIMED) $(SHIP)) tests src/netdyno

ship:
	$(PYTEST) $(LANES) -m "not slow" $(SHIP)

dear:
	$(PYTEST) $(LANES) -m slow $(DEAR)
	$(PYTEST) -m slow $(TENTH)

timed:
	$(PYTEST) -m "not slow" $(TIMED)

slow:
	$(PYTEST) -m slow tests

examples:
	@ls examples/[0-9]*.py | xargs --max-procs=$(JOBS) --replace={} sh -c 'echo {}; $(BIN)/python {} > /dev/null || exit 255'

bench-faults:
	$(BIN)/python benchmarks/fault_bench.py

bench-%: benchmarks/%.py
	$(BIN)/python $<
