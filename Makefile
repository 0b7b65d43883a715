# All targets use the virtual environment .venv, which PYTHON creates when it is first needed. With LOCKED=1 it gets
# the versions of requirements/ci.txt, checked by their hashes, as in CI (docs/supply-chain.md); with LOWEST=1 the
# lowest versions that pyproject.toml allows (`make units LOWEST=1 VENV=build/lowest`).
# PYTHON is the first interpreter here that is optimised: others need one and a half times the CPU time.
IS_OPTIMISED := import sys, ensurepip, venv; sys.path.append("toolkit/bench"); \
    from interpreter import Interpreter; sys.exit(not Interpreter.this().is_optimised)
ifeq ($(origin PYTHON), undefined)
PYTHON := $(shell for each in python3 /usr/bin/python3; do \
    $$each -B -c '$(IS_OPTIMISED)' 2>/dev/null && exec echo $$each; done; echo python3)
endif
VENV ?= .venv
LOCKED ?=
LOWEST ?=

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# msgrlab without its extras: a third of the downloads
ITSELF := $(VENV)/.itself
LOCK := $(if $(LOWEST),requirements/lowest.txt,$(if $(LOCKED),requirements/ci.txt))
SUPPLY := $(VENV)/supply
UNITS := $(addprefix tests/,messenger $(addprefix toolkit/,capture checks dissect report simulation))
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test quick units lint bench compile fuzz mutants lab notebooks docs setup lock audit sbom clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(if $(LOCK),$(INSTALLED),$(ITSELF))  ## reconnect, standby and session reset on an embedded cluster, with a report
	@$(BIN)/msgrlab demo

test: lint  ## every check and every test; MSGRLAB_STRICT=1 makes a skip a failure, SETS=N runs at most N parameter sets of each function
	@$(BIN)/pytest -n auto --dist loadgroup --durations=12 $(if $(SETS),--parameter-sets $(SETS))

quick: $(INSTALLED)  ## each test function with at most four of its parameter sets, and few random examples
	@$(BIN)/pytest -n auto --dist loadgroup --parameter-sets 4 --hypothesis-profile brief

units: $(INSTALLED)  ## tests of the messenger, decoding and simulation; PYTHON, LOWEST and VENV are explained in the Makefile
	@$(BIN)/pytest -n auto --dist loadgroup $(UNITS)

lint: $(INSTALLED)  ## check style and types only
	@echo "Style and types: ruff, then mypy"
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy --no-error-summary

bench: $(INSTALLED)  ## measure the messenger
	@$(BIN)/msgrlab bench

compile: $(INSTALLED)  ## compile the hot modules of messenger and decoder to C; MSGRLAB_PURE=1 runs the Python modules nevertheless
	@$(BIN)/python -c 'import Cython, setuptools' 2>/dev/null || \
		$(BIN)/python -m pip install -qq $(if $(LOCKED),--require-hashes --no-deps --requirement requirements/compile.txt,--group compile) || \
		{ echo "make compile takes Cython, and pip could not install it" >&2; exit 1; }
	@$(BIN)/python .ci/compile

fuzz: $(INSTALLED)  ## search for inputs that break a parser; TARGET names one parser, SECONDS is the time for each
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install -qq --group fuzz
	@$(BIN)/python -m tests.fuzz $(TARGET) $(if $(SECONDS),--seconds $(SECONDS))

mutants: $(INSTALLED)  ## find the mutants that each test suite detects; AREA, SUITE and JOBS select
	@$(BIN)/python -m tests.mutations $(AREA) $(if $(SUITE),--suite $(SUITE)) $(if $(JOBS),--jobs $(JOBS)); status=$$?; \
	 PYTHONPATH=. $(BIN)/python docs/mutants.py; exit $$status

lab: $(INSTALLED)  ## open the notebooks in JupyterLab
	@$(BIN)/msgrlab lab

notebooks: $(INSTALLED)  ## run the notebooks and store their outputs in them; NAMES selects some
	@$(BIN)/python docs/notebooks.py $(NAMES)

docs: $(INSTALLED)  ## build the site in build/site; fails on a broken link
	@$(BIN)/python -c 'import sphinx' 2>/dev/null || \
		$(BIN)/python -m pip install -qq $(if $(LOCKED),--require-hashes --no-deps --requirement requirements/docs.txt,--group docs)
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --jobs auto -c docs/site . build/site
	@echo "build/site/index.html"

setup: $(INSTALLED)  ## create .venv and install everything in it
	@:

lock: $(SUPPLY)/.installed  ## update requirements/: versions and hashes of all packages that CI and images install
	@UV=$(SUPPLY)/bin/uv .ci/lock

audit: $(SUPPLY)/.installed  ## check the locked packages for known vulnerabilities; needs a vulnerability database on the network
	@$(SUPPLY)/bin/python .ci/audit

sbom: $(SUPPLY)/.installed  ## build the wheel and a CycloneDX file of its dependencies in dist
	@$(SUPPLY)/bin/python .ci/sbom

clean:  ## remove .venv, compiled modules and all caches, but keep the results in msgrlab-out
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@rm -f messenger/compiled.*.json toolkit/compiled.*.json; find messenger toolkit -name '*.so' -delete
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.began:
	@command -v $(PYTHON) >/dev/null || { echo "msgrlab needs Python, and there is no $(PYTHON) here: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "msgrlab needs Python 3.11 or newer, $(PYTHON) is `$(PYTHON) --version 2>&1`: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments (on Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "Setting up $(VENV) with `$(PYTHON) --version` ($(PYTHON)), once: first the virtual environment"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(ITSELF): pyproject.toml requirements/flaws.txt | $(VENV)/.began
	@echo "Installing msgrlab and what it needs; it takes half a minute to a minute, most of it for downloads."
	@$(BIN)/python -m pip install -qq --upgrade 'pip>=26'
	@$(BIN)/python -m pip install -qq --constraint requirements/flaws.txt --editable .
	@touch $@

$(INSTALLED): pyproject.toml requirements/flaws.txt $(if $(LOCK),requirements/build.txt $(LOCK)) | $(VENV)/.began
	@echo "Installing msgrlab and all that it and its tests need$(if $(LOCK), in the versions of $(LOCK)); it takes one to three minutes, most of it for downloads."
	@date +%s >$(VENV)/.since
ifdef LOCK
	@$(BIN)/python -m pip install -qq --require-hashes --requirement requirements/build.txt
	@$(BIN)/python -m pip install -qq --require-hashes --no-deps --no-build-isolation --requirement $(LOCK)
	@$(BIN)/python -m pip install -qq --no-deps --no-build-isolation --editable .
else
	@$(BIN)/python -m pip install -qq --upgrade 'pip>=26'
	@$(BIN)/python -m pip install -qq --constraint requirements/flaws.txt --editable '.[all]' --group dev
endif
	@echo "$(VENV) is ready after $$((`date +%s` - `cat $(VENV)/.since`)) s."
	@touch $(ITSELF) $@

$(SUPPLY)/.installed: requirements/supply.txt
	@$(PYTHON) -m venv $(SUPPLY)
	@$(SUPPLY)/bin/python -m pip install -qq --require-hashes --requirement requirements/supply.txt
	@touch $@
