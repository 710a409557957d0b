# Everything a developer runs. `make help` lists it; `make PYTHON=python3.12 test` picks a Python.

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
OUT    ?= results

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help demo test test-long check format bench-overhead bench-paper bench-german-credit \
  figures clean distclean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# --- environment: one stamp for what runs amalt, one for what tests it ------------------------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "amalt needs Python 3.11 or later; name one: make PYTHON=python3.11 ..." >&2; exit 1; }
	@echo "Creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install pip==26.3

$(VENV)/.installed-base: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing amalt into $(VENV)"
	@$(PIP) install --constraint constraints.txt --build-constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed-base
	@echo "Installing the test tools into $(VENV)"
	@$(PIP) install --constraint constraints.txt --build-constraint constraints.txt --editable ".[test]"
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed-base
	@echo "Installing what the benchmarks measure against into $(VENV)"
	@$(PIP) install --constraint constraints.txt --build-constraint constraints.txt --editable ".[bench]"
	@touch $@

# --- use --------------------------------------------------------------------------------------

demo: $(VENV)/.installed-base  ## sample a real posterior with 128 chains
	@$(BIN)/amalt sample german-credit --chains 128

bench-overhead: $(VENV)/.installed-base  ## compile time, sampling time and overhead per gradient
	@$(BIN)/python -m amalt.bench.overhead

bench-paper: $(VENV)/.installed-bench  ## the paper's tables, all of them: hours; goes on if repeated
	@$(BIN)/amalt bench paper --out $(OUT)/paper --figures $(OUT)/figures

bench-german-credit: $(VENV)/.installed-base  ## MALT by the paper's protocol on German credit, 5 seeds
	@$(BIN)/amalt bench paper --models german-credit --methods malt --seeds 5 --out $(OUT)/paper

figures: $(VENV)/.installed-bench  ## draw the figures of the README and the docs
	@CI=1 $(BIN)/python docs/figures/make.py
	@$(BIN)/python docs/figures/paper.py

# --- quality ----------------------------------------------------------------------------------

test: $(VENV)/.installed-test  ## quick tests and the examples in docstrings
	@$(BIN)/python -m pytest -q -n $(JOBS)

test-long: $(VENV)/.installed-test  ## slow statistical tests
	@$(BIN)/python -m pytest -q -n $(JOBS) -m long

check: export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
check: $(VENV)/.installed-test  ## formatting, lint, types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/pyright

format: $(VENV)/.installed-test  ## format the code and apply the safe lint fixes
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:  ## remove caches and built files
	@rm -rf build dist .hypothesis .pytest_cache .ruff_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## remove the environment too
	@rm -rf $(VENV)
