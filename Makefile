# Everything runs in a virtual environment that the first command creates.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
BASE_INSTALLED := $(VENV)/.installed-base
INSTALLED := $(VENV)/.installed
EXTRA ?= cu12
BENCH_INSTALLED := $(VENV)/.installed-bench

.PHONY: help demo check test test-all test-gpu test-gpu-sanitize lint bench bench-report clean

help:           ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/'

$(BASE_INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(INSTALLED): $(BASE_INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

demo: $(BASE_INSTALLED)  ## make a graph, save and load it, run four algorithms
	$(BIN)/python examples/demo.py

check: lint      ## lint, types and the whole surface once, in seconds
	$(BIN)/python -m pytest tests/test_tiny.py

test: $(INSTALLED)  ## all tests but the long matrices
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: $(INSTALLED)  ## every test
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-gpu: $(INSTALLED)  ## the tests that need an NVIDIA GPU; EXTRA=cu13 for newer drivers
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,$(EXTRA)]'
	$(BIN)/python -m pytest tests/gpu -n 12 --dist loadgroup

test-gpu-sanitize: $(INSTALLED)  ## a small suite on a GPU under NVIDIA's compute-sanitizer
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,$(EXTRA)]'
	$(BIN)/python tests/gpu/sanitize.py
	for tool in memcheck racecheck initcheck; do \
		compute-sanitizer --tool $$tool --error-exitcode 1 \
			$(BIN)/python tests/gpu/sanitize.py || exit 1; \
	done

lint: $(INSTALLED)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(BENCH_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[peers,report]'
	touch $@

bench: $(BENCH_INSTALLED)  ## speed and memory against peers; GAPBS=DIR adds a GAPBS build
	$(BIN)/python benchmarks/foundation.py $(if $(GAPBS),--gapbs $(GAPBS))
	$(BIN)/python benchmarks/engine.py
	$(BIN)/evener bench $(if $(GAPBS),--gapbs $(GAPBS)) --force -o benchmarks/results/algorithms.json
	$(BIN)/evener bench --graphs kron20 --peers --trials 5 --force -o benchmarks/results/peers.json
	$(BIN)/python benchmarks/report.py

bench-report: $(BENCH_INSTALLED)  ## write docs/benchmarks.md and its plots from the results files
	$(BIN)/python benchmarks/report.py

clean:          ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
