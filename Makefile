# Everything is installed into .venv, and simulators are compiled into the user's cache. To start
# afresh, delete .venv. All paths are relative, so a checkout may lie in a folder with spaces.

# The first Python that is new enough; `make PYTHON=/path/to/python` chooses another.
PYTHON = $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$python; exit; }; done; echo python3)
RUN = .venv/bin/python -m

# Twice quiet: errors only.
QUIETLY = --quiet --quiet --disable-pip-version-check

# More workers than cores only compete for them.
WORKERS = 2

.PHONY: help demo test lint
help:
	@echo "make demo   run a layer of a real language model on the hardware"
	@echo "make test   lint, and every test"
	@echo "make lint   format, lint and type checks alone"

demo: .venv/installed
	@$(RUN) sim.cli demo

test: lint
	$(RUN) pytest -n $(WORKERS) --dist worksteal

lint: .venv/installed
	$(RUN) ruff format --check
	$(RUN) ruff check
	$(RUN) mypy

.venv/installed: pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
		echo "There is no Python; install version 3.11 or later." >&2; exit 1; }
	@$(PYTHON) sim/preflight.py
	@echo "Installing into .venv: about a minute and 900 MB, once."
	@$(PYTHON) -m venv .venv
	@$(RUN) pip install $(QUIETLY) --upgrade 'pip>=25.1'
	@$(RUN) pip install $(QUIETLY) --editable . --group dev
	@touch $@
