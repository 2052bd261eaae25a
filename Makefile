# Every target does its own set-up. `make test` is what a change must pass; `make journeys` kills real processes for long.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test cover check format journeys lock clean

demo: $(READY)
	$(BIN)/python examples/orders/demo.py

test: cover
	$(BIN)/pytest -n 2 -m "not journeys and not crash" --ignore=tests/core

# Core must be covered by its own tests alone, every branch of it.
cover: $(READY)
	$(BIN)/pytest -n 2 -m "not journeys and not crash" tests/core \
		--cov=clew.core --cov-branch --cov-fail-under=100 --cov-report=term-missing:skip-covered

journeys: $(READY)
	$(BIN)/pytest -n 2 -m "journeys or crash"

check: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/mypy
	cd examples/orders && ../../$(BIN)/mypy --config-file= --strict agent.py bank.py demo.py

format: $(READY)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

# Needs `uv` on the path. The lock names versions and digests for every platform, and no place to fetch them from.
lock:
	uv pip compile pyproject.toml --universal --generate-hashes --extra cli --extra dev \
		--no-emit-index-url --no-emit-find-links --no-annotate --no-header --upgrade --output-file requirements.lock

clean:
	rm -rf .venv .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests examples docs -name __pycache__ -type d -prune -exec rm -rf {} +
