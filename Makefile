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
DEAR := tests/interventions tests/test_gpu.py tests/test_fault_tenth.py tests/scripts/test_every_vital.py

.PHONY: demo test check format lint types quick rest dear slow examples bench-faults
.DEFAULT_GOAL := check

demo: $(INSTALLED)
	$(VENV)/bin/netdyno tune garage:digits --budget 150s

test: $(INSTALLED)
	$(MAKE) check BIN=$(VENV)/bin

check: format lint types quick rest dear examples

$(INSTALLED): pyproject.toml
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check torch==$(TORCH)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[data,dev,learn,series,ui]'
	touch $@

format:
	$(BIN)/ruff format --check --quiet .

lint:
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports

types:
	$(BIN)/mypy

quick:
	$(BIN)/python -m pytest -q --doctest-modules $(QUICK_TESTS) $(QUICK_SOURCE)

rest:
	$(BIN)/python -m pytest -q -m "not slow" --doctest-modules $(addprefix --ignore=,$(QUICK_TESTS) $(QUICK_SOURCE) $(FRAMEWORKS)) tests src/netdyno

dear:
	$(BIN)/python -m pytest -q -m slow $(DEAR)

slow:
	$(BIN)/python -m pytest -q -m slow tests

examples:
	@for example in $(wildcard examples/[0-9]*.py); do \
		echo "$$example"; $(BIN)/python "$$example" > /dev/null || exit 1; \
	done

bench-faults:
	$(BIN)/python benchmarks/fault_bench.py

bench-%: benchmarks/%.py
	$(BIN)/python $<
