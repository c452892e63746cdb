# `make demo` and `make test` need nothing but Python and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-all bench reproduce lint docs clean

demo: $(READY)
	$(BIN)/fitonce demo --force

test: $(READY)
	$(BIN)/pytest -n 2 --dist loadgroup -m "not slow"

test-all: $(READY)
	$(BIN)/pytest -n 2 --dist loadgroup

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

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) site out .pytest_cache .ruff_cache .mypy_cache
