# Every target does its own set-up. `make test` is what a change must pass; `make journeys` kills real processes for long.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready
BENCH := .venv-bench/bin

.PHONY: demo test cover check format journeys bench lock clean

demo: $(READY)
	$(BIN)/python examples/orders/demo.py
	$(BIN)/python examples/loop_fix/demo.py

test: cover
	$(BIN)/pytest -n 2 -m "not journeys and not crash" --ignore=tests/core

# Core must be covered by its own tests alone, every branch of it.
cover: $(READY)
	$(BIN)/pytest -n 2 -m "not journeys and not crash" tests/core \
		--cov=clew.core --cov-branch --cov-fail-under=100 --cov-report=term-missing:skip-covered

journeys: $(READY)
	$(BIN)/pytest -n 2 -m "journeys or crash"

# What clew costs, against bare writes and other libraries; ten quiet minutes. FOLDER is on the disk that is asked about.
bench: .venv-bench/.ready
	$(BENCH)/python -m bench $(FOLDER)

.venv-bench/.ready: bench/requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv-bench
	$(BENCH)/python -m pip install --quiet --require-hashes -r bench/requirements.lock
	$(BENCH)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

check: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/mypy
	cd examples/orders && ../../$(BIN)/mypy --config-file= --strict agent.py bank.py demo.py
	cd examples/loop_fix && ../../$(BIN)/mypy --config-file= --strict fix.py model.py demo.py

format: $(READY)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

# Needs `uv` on the path. The locks name versions and digests for every platform, and no place to fetch them from.
LOCKING := uv pip compile pyproject.toml --universal --generate-hashes --extra cli \
	--no-emit-index-url --no-emit-find-links --no-annotate --no-header --upgrade

lock:
	$(LOCKING) --extra dev --extra otel --output-file requirements.lock
	$(LOCKING) --extra bench --output-file bench/requirements.lock

clean:
	rm -rf .venv .venv-bench .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests examples docs -name __pycache__ -type d -prune -exec rm -rf {} +
