# Every target does its own set-up. `make test` is what a change must pass; `make journeys` kills real processes for long.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready
BENCH := .venv-bench/bin
FUZZ := .venv-fuzz/bin
JUDGES := .venv-judges/bin
# One of the judges needs Python 3.12; without it that one is said not to have run.
JUDGES_PYTHON ?= $(shell for found in python3.13 python3.12; do $$found --version >/dev/null 2>&1 && command -v $$found && exit; done; echo $(PYTHON))

.PHONY: demo test cover cover-ground check format journeys crash crash-full bench fuzz judges lock clean

demo: $(READY)
	$(BIN)/python examples/orders/demo.py
	$(BIN)/python examples/loop_fix/demo.py
	$(BIN)/python examples/recovery/demo.py

test: cover
	$(BIN)/pytest -n 2 -m "not journeys and not crash" --ignore=tests/core

# Core must be covered by its own tests alone, every branch of it.
cover: $(READY)
	$(BIN)/pytest -n 2 -m "not journeys and not crash" tests/core \
		--cov=clew.core --cov-branch --cov-fail-under=100 --cov-report=term-missing:skip-covered

# What does journals, locks, checkpoints and migrations on a disk, every branch of it; the list is in ground.toml. Left
# out are tests in which threads take turns at every step: with a tracer between the steps they come to no end.
GROUND := $(addprefix tests/runtime/test_, $(addsuffix .py, \
	journal reopening recovery unlocking checkpoint restoring mending migrating windows))

STEPPING := collide or differ_by_case or of_many_at_once or closing_writer or many_stores_on_one_run

cover-ground: $(READY)
	$(BIN)/pytest -n 2 -m "not journeys and not crash" -k "not ($(STEPPING))" \
		tests/disk tests/stores $(GROUND) --ignore=tests/disk/test_groups.py --ignore=tests/disk/test_warden.py \
		--cov --cov-config=tests/crash/ground.toml --cov-report=term-missing:skip-covered

journeys: $(READY)
	$(BIN)/pytest -n 2 --dist worksteal -m "journeys or crash" --ignore=tests/crash

# Every legal disk, every system call, every bytecode, every branch of the ground: half an hour. In full, hours; counts are in tests/crash/rows.py.
crash: cover-ground
	$(BIN)/pytest -n 2 --dist worksteal -m crash --ignore=tests/core

crash-full: cover-ground
	CLEW_CRASH=full $(BIN)/pytest -n 2 --dist worksteal -m crash --ignore=tests/core

# What clew costs, against bare writes and other libraries; ten quiet minutes. FOLDER is on the disk that is asked about.
bench: .venv-bench/.ready
	$(BENCH)/python -m bench $(FOLDER)

.venv-bench/.ready: bench/requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv-bench
	$(BENCH)/python -m pip install --quiet --require-hashes -r bench/requirements.lock
	$(BENCH)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

# Arbitrary bytes as files of every kind, SECONDS for each; what reaches a new place is kept in the corpus, and replayed.
SECONDS ?= 60
fuzz: .venv-fuzz/.ready
	for target in tests/fuzz/corpus/*; do \
		$(FUZZ)/python -m tests.fuzz $${target##*/} -max_total_time=$(SECONDS) -max_len=200 -print_final_stats=1 $$target || exit 1; \
	done

.venv-fuzz/.ready: tests/fuzz/requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv-fuzz
	$(FUZZ)/python -m pip install --quiet --require-hashes -r tests/fuzz/requirements.lock
	$(FUZZ)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

# What other people's test suites say of clew, in their own words; five minutes. Kept in docs/assurance/.
judges: .venv-judges/.ready
	$(JUDGES)/python -m judges

.venv-judges/.ready: judges/requirements.lock pyproject.toml
	$(JUDGES_PYTHON) -m venv .venv-judges
	$(JUDGES)/python -m pip install --quiet --require-hashes -r judges/requirements.lock
	$(JUDGES)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

check: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/mypy
	cd examples/orders && ../../$(BIN)/mypy --config-file= --strict agent.py bank.py demo.py
	cd examples/loop_fix && ../../$(BIN)/mypy --config-file= --strict fix.py model.py demo.py
	cd examples/recovery && ../../$(BIN)/mypy --config-file= --strict agent.py demo.py

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
	$(LOCKING) --extra fuzz --output-file tests/fuzz/requirements.lock
	$(LOCKING) --extra judges --output-file judges/requirements.lock

clean:
	rm -rf .venv .venv-bench .venv-fuzz .venv-judges .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests examples docs -name __pycache__ -type d -prune -exec rm -rf {} +
