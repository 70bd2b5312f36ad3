# From a fresh clone, with Python 3.11 or newer, make and git: every target makes .venv and installs what it needs first.

# Another interpreter: make PYTHON=/path/to/python3.12 demo. The first that is new enough is taken.
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python $(NEW_ENOUGH) 2>/dev/null && echo $$python && break; done)
VENV := .venv
LOWEST := .venv-lowest
# Tests that run side by side: many of them start programs of two devices themselves.
JOBS := 2
BIN := $(VENV)/bin

.PHONY: help demo test test-lowest fuzz bench docs gallery gpu-day release clean

help:
	@echo "make demo     capture workloads/concurrent.py and report what ran in parallel, with a timeline"
	@echo "make test     lint, types, import rules and tests"
	@echo "make test-lowest  the tests of readers and analyses with the lowest version of each dependency"
	@echo "make fuzz     read and report mutants of small traces for ten minutes, and keep those that fail"
	@echo "make bench    run all benchmarks, and write the tables of README and docs; an hour, BENCH=--quick is some minutes"
	@echo "make docs     build the documentation into site/"
	@echo "make gallery  capture all workloads, build their reports in reports/gallery, and compare them on one page"
	@echo "make gpu-day  on a machine with GPUs: run everything for ten minutes, and pack what was found to send home"
	@echo "make release  build wheel and sdist in dist/ and check them; uploads nothing"
	@echo "make clean    remove $(VENV) and what building left"

demo: $(VENV)/.workloads
	rm -rf traces/demo
	$(BIN)/tracekit capture --out traces/demo workloads/concurrent.py
	$(BIN)/tracekit report --out reports/demo traces/demo
	@echo
	@sed -n '1{s/^# /What it shows:           /; s/\\\(.\)/\1/g; p;}' reports/demo/report.md
	@sed -n 's/^\* \*\*both\*\*:.*\. \(Other processes used .*x measures the machine\).*/What it could not show:   the gain. \1/p' \
		reports/demo/report.md
	@echo "The page, offline:       $(CURDIR)/reports/demo/report.html"
	@echo "The timeline:            $(CURDIR)/reports/demo/gantt.png"
	@echo "The same in TensorBoard: $(BIN)/tracekit view traces/demo"

test: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal

# Warnings are no errors here: what these versions depend on is newer than they are, and deprecates what they use.
test-lowest: | $(VENV)/.pip
	$(BIN)/python -m pip install uv
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(BIN)/uv pip compile --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
		--output-file $(LOWEST)/requirements.txt pyproject.toml
	$(BIN)/uv pip install --python $(LOWEST)/bin/python --requirement $(LOWEST)/requirements.txt \
		hypothesis pytest pytest-timeout
	$(BIN)/uv pip install --python $(LOWEST)/bin/python --no-deps --editable .
	$(LOWEST)/bin/python -m pytest -m 'not slow' -W default \
		tests/readers tests/timeline tests/analysis tests/export tests/test_surroundings.py

fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz --seconds 600

# Options of benchmarks/bench.py: make bench BENCH='--only read_chrome --hta hta/bin/python'.
bench: $(VENV)/.dev
	$(BIN)/python benchmarks/bench.py $(BENCH)

docs: $(VENV)/.dev
	$(BIN)/zensical build --clean --strict
	@echo "Open $(CURDIR)/site/index.html: it needs no server, and its search works from disk too"

gallery: $(VENV)/.workloads
	$(BIN)/python docs/gallery.py
	@echo "The page, offline: $(CURDIR)/reports/gallery/index.html"

# In the Python that is named, as one that has jax with CUDA: make gpu-day PYTHON=/path/to/python. Else in $(VENV).
ifneq ($(filter command environment,$(origin PYTHON)),)
gpu-day:
	$(PYTHON) benchmarks/gpu_day/gpu_day.py
else
gpu-day: $(VENV)/.workloads
	$(BIN)/python benchmarks/gpu_day/gpu_day.py
endif

release: $(VENV)/.dev
	$(BIN)/python .ci/distributions.py --release dist

clean:
	rm -rf $(VENV) $(LOWEST) build dist site tracekit_jax.egg-info

# Stamps: nothing is installed again until pyproject.toml changes.
$(VENV)/.dev: $(VENV)/.workloads
	$(BIN)/python -m pip install --group dev
	@touch $@

$(VENV)/.workloads: pyproject.toml | $(VENV)/.pip
	@echo "Installing tracekit and what it needs: about two minutes, once."
	$(BIN)/python -m pip install --editable '.[workloads]'
	@touch $@

# pip is brought up to date because dependency groups need 25.1. Debian keeps venv apart from Python.
$(VENV)/.pip:
	@$(or $(PYTHON),false) $(NEW_ENOUGH) || { \
		echo "tracekit needs Python 3.11 or newer, but $(or $(PYTHON),python3) is older or not there:" \
			"install one, or name it with make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
		package=$$(basename $(PYTHON))-venv; \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "Installing $$package, which $(PYTHON) lacks."; \
			apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q $$package; \
		else \
			echo "$(PYTHON) cannot make virtual environments. On Debian or Ubuntu, type:" \
				"sudo apt-get install $$package" >&2; exit 1; \
		fi; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --upgrade pip
	@touch $@
