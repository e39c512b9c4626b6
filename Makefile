# Everything here needs Python 3.11 or newer with venv and pip; what concerns the editor extension needs Node 20 with npm
# besides. `make` alone lists the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV := .venv
BIN := $(VENV)/bin
# The interpreter that makes the environment; the first one below that is new enough, unless it is given.
PYTHON ?=
# The torch release to test with. Linting does not need torch.
TORCH := 2.13.0
# A folder with one checked-out repository in each folder OWNER__NAME, and the folder that holds their labels
# (labels.jsonl, repos.json) and score.py. Neither is part of this repository.
CORPUS ?=
LABELS ?= ../shared/corpus

# Platforms to build the editor extension for: linux-x64, linux-arm64, darwin-arm64, win32-x64, ...
TARGETS := linux-x64

# The interpreters, other than that of the environment, in which the probe's agent is tried: those of them that are here.
INTERPRETERS ?= 3.10 3.12 3.13

# Processes that run tests: more than two processors, since half of the time a test waits for a job or an editor.
WORKERS ?= 3

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.* ## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand --tabs=14

.PHONY: demo
demo: $(VENV)/.stamp-package ## lint an example, and show what was found and what the fixes change (no torch needed)
	@show() { echo; echo "\$$ $$*"; "$(BIN)/$$@" || test $$? -eq 1; }; \
	echo; echo "examples/vision/train.py trains a classifier of images, slowly. What trainlint says about it:"; \
	show trainlint examples/vision/train.py --output-format concise; \
	echo; echo "One of them in full:"; \
	show trainlint examples/vision/train.py --select print-in-step; \
	echo; echo "What its fixes would change:"; \
	show trainlint examples/vision/train.py --diff --unsafe-fixes
	@echo; echo "All programs there: $(BIN)/trainlint examples/. Your own code: $(BIN)/trainlint PATH"

.PHONY: test
test: $(VENV)/.stamp-test node_modules/.stamp ## check formatting, style and types, and run all tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy extension
	$(BIN)/python docs/build_pages.py --check
	npm run --silent check
	npm run --silent test
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal -m "not alone"
	$(BIN)/python -m pytest -m alone

.PHONY: test-harmless
test-harmless: $(VENV)/.stamp-test ## hold jobs under the probe against plain runs (part of test as well)
	$(BIN)/python -m pytest tests/harmless

.PHONY: test-interpreters
test-interpreters: $(VENV)/.stamp-test ## try the probe's agent in the other interpreters that are here
	$(BIN)/python -m tests.probe.interpreters $(TORCH) $(INTERPRETERS)
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal tests/probe/test_interpreters.py

.PHONY: vsix
vsix: $(VENV)/.stamp-package node_modules/.stamp ## build and check the editor extension, dist/*.vsix, for TARGETS
	$(BIN)/python extension/scripts/build_vsix.py $(TARGETS)

.PHONY: test-editor
test-editor: $(VENV)/.stamp-test node_modules/.stamp ## test the extension in a real VS Code (needs chromium and ripgrep)
	@target=$$(node -p 'process.platform + "-" + process.arch'); \
	$(BIN)/python extension/scripts/build_vsix.py $$target; \
	node tests/editor/run.mjs $$target $(abspath $(BIN))/python

SCREENSHOTS := squiggle-and-problems menu-of-fixes hover page-of-a-rule measured report

.PHONY: screenshots
screenshots: test-editor ## take the pictures of the docs anew, from the journeys through a real VS Code
	@mkdir -p docs/images
	@for name in $(SCREENSHOTS); do cp build/editor/artefacts/*-[0-9]-$$name.png docs/images/editor-$$name.png; done

.PHONY: docs
docs: $(VENV)/.stamp-package ## write the pages of the rules and of the configuration
	$(BIN)/python docs/build_pages.py

.PHONY: bench
bench: $(VENV)/.stamp-package ## measure speed against parsing alone, as ratios with their spread
	$(BIN)/python -m tests.bench
	$(BIN)/python -m tests.bench.incremental

.PHONY: bench-lsp
bench-lsp: $(VENV)/.stamp-test ## measure the language server as an editor meets it
	$(BIN)/python -m tests.bench.lsp

.PHONY: bench-probe
bench-probe: $(VENV)/.stamp-test ## measure what the probe costs a job, and what the analysis of a trace costs
	$(BIN)/python -m tests.bench.probe_overhead
	$(BIN)/python -m tests.bench.probe_traces

.PHONY: probe-truth
probe-truth: $(VENV)/.stamp-test ## probe all programs that measure their own problems, and compare
	$(BIN)/python -m tests.probe.planted

.PHONY: corpus
corpus: corpus-is-given $(VENV)/.stamp-package ## score findings against hand labels: make corpus CORPUS=FOLDER
	@$(BIN)/python tests/corpus/measure_accuracy.py "$(CORPUS)" --labels "$(LABELS)"

.PHONY: corpus-is-given
corpus-is-given:
	@test -n "$(CORPUS)" || { \
	  echo "usage: make corpus CORPUS=<folder of checked-out repositories> [LABELS=<folder of labels.jsonl and score.py>]" >&2; \
	  exit 2; }

.PHONY: soundness
soundness: $(VENV)/.stamp-package ## run linter and fixes over the standard library and ten packages, which pip downloads
	$(BIN)/python -m tests.soundness

.PHONY: clean
clean: ## remove the environment, the caches and what the examples wrote
	rm -rf $(VENV) node_modules .trainlint_cache .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each stamp says that the environment holds what is named; it is made anew when the dependencies may have changed.

$(VENV)/.stamp-venv:
	@python=""; \
	for candidate in $(or $(PYTHON),python3.11 python3.12 python3.13 python3 python); do \
	  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    python="$$candidate"; break; \
	  fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "trainlint needs Python 3.11 or newer with the module venv (on Debian: apt-get install python3-venv)." >&2; \
	  echo "Looked for: $(or $(PYTHON),python3.11 python3.12 python3.13 python3 python). Name one: make PYTHON=/path/to/python3" >&2; \
	  exit 1; \
	fi; \
	echo "creating $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv $(VENV)
	@touch $@

node_modules/.stamp: package.json package-lock.json
	@command -v npm > /dev/null || { echo "the editor extension needs Node 20 or newer with npm" >&2; exit 1; }
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(VENV)/.stamp-package: $(VENV)/.stamp-venv pyproject.toml
	$(PIP) --editable .
	@touch $@

$(VENV)/.stamp-test: $(VENV)/.stamp-venv pyproject.toml
	$(PIP) --editable '.[dev]' torch==$(TORCH)
	@touch $@ $(VENV)/.stamp-package
