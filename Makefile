# `make demo` and `make test` need nothing but Python and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

MINUTES ?= 5
SEED ?= $(shell date +%s)

.PHONY: demo test test-late test-all fuzz bench reproduce lint docs notebooks package clean

demo: $(READY)
	$(BIN)/fitonce demo --force

test: $(READY)
	$(BIN)/pytest -n 2 --dist loadgroup -m "not slow and not late"

test-late: $(READY)
	$(BIN)/pytest -n 2 --dist loadgroup -m "late and not slow"

test-all: $(READY)
	$(BIN)/pytest -n 2 --dist loadgroup

fuzz: $(READY)
	PYTHONPATH=tests $(BIN)/python -m fuzzing --minutes $(MINUTES) --seed $(SEED)

bench: $(READY)
	$(BIN)/python -m benchmarks

reproduce: $(READY)
	$(BIN)/python -m reproduce

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY)
	$(BIN)/mkdocs build --strict

notebooks: $(READY)
	$(BIN)/python tests/notebooks.py examples/*.ipynb

package: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) site out dist .pytest_cache .ruff_cache .mypy_cache
