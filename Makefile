# Everything a developer runs. `make help` lists the targets; each makes the environment that it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= $(shell nproc)

NATIVE := CMakeLists.txt $(shell find runtime -name CMakeLists.txt -o -name '*.cpp' -o -name '*.h' -o -name '*.map')
PYTHON_SOURCES := poolgrad_lowering patterns runtime models tests docs benchmarks

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-torch test-training fuzz check format sanitize docs bench clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.ready ## lower real training graphs and run one through the execution provider
	$(BIN)/python models/demo.py

test: $(VENV)/.ready ## the default test suite
	$(BIN)/pytest

test-long: $(VENV)/.ready ## the tests that take minutes
	$(BIN)/pytest -m long

test-torch: $(VENV)/.ready ## the default suite with PyTorch as a further oracle (a large download)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 onnxscript
	$(BIN)/pytest

TRAINING := $(VENV)-training
test-training: $(TRAINING)/.ready ## the custom operators in onnxruntime-training, Python 3.12 or older (a large download)
	$(TRAINING)/bin/pytest -m "not long" tests/training tests/runtime/test_custom_ops.py

$(TRAINING)/.ready: pyproject.toml $(NATIVE)
	$(PYTHON) -m venv --without-pip $(TRAINING)
	$(PYTHON) -m pip --python $(TRAINING)/bin/python install --quiet --upgrade pip
	$(TRAINING)/bin/python -m pip install --quiet --editable . --group test --group training
	touch $@

MINUTES ?= 5
fuzz: $(VENV)/.ready ## search for mistakes by random graphs, for MINUTES; an example that fails goes to build/fuzz
	PYTHONPATH=tests:tests/patterns $(BIN)/python -P -m generators.fuzz --minutes $(MINUTES)

check: $(VENV)/.checked ## lint, formatting, types; warnings of the C++ compiler are errors in every build
	$(BIN)/ruff check $(wildcard $(PYTHON_SOURCES))
	$(BIN)/ruff format --check $(wildcard $(PYTHON_SOURCES))
	$(BIN)/clang-format --dry-run --Werror $(filter %.cpp %.h,$(NATIVE))
	rm -rf build/typing && mkdir -p build/typing && cp -r poolgrad_lowering build/typing
	cp -r patterns runtime build/typing/poolgrad_lowering
	cd build/typing && ../../$(BIN)/mypy --config-file ../../pyproject.toml -p poolgrad_lowering

format: $(VENV)/.checked ## bring all sources into their format
	$(BIN)/ruff check --fix-only --quiet $(wildcard $(PYTHON_SOURCES))
	$(BIN)/ruff format --quiet $(wildcard $(PYTHON_SOURCES))
	$(BIN)/clang-format -i $(filter %.cpp %.h,$(NATIVE))

# The provider is loaded by an interpreter that is not instrumented, so the sanitizers' runtimes are preloaded;
# libstdc++ too, or a thrown exception finds no handler.
SANITIZED := $(VENV)-sanitize
sanitize: $(SANITIZED)/.ready ## the runtime's tests with both libraries under address and undefined-behaviour sanitizers
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 $(SANITIZED)/bin/python -P -m pytest tests/runtime

$(SANITIZED)/.ready: pyproject.toml $(NATIVE)
	$(PYTHON) -m venv --without-pip $(SANITIZED)
	$(PYTHON) -m pip --python $(SANITIZED)/bin/python install --quiet --upgrade pip
	$(SANITIZED)/bin/python -m pip install --quiet '.[ort]' --group test -Cbuild-dir=build/sanitize \
	  -Ccmake.define.POOLGRAD_SANITIZE=address,undefined -Ccmake.build-type=RelWithDebInfo
	touch $@

docs: $(VENV)/.ready ## write the pages that are generated from the code's tables
	$(BIN)/python docs/generate.py

# Installed, not editable: what is measured is what a user has.
BENCH := $(VENV)-bench
bench: $(BENCH)/.ready ## measure everything beside other packages, and write docs/benchmarks.md (a large download)
	$(BENCH)/bin/python benchmarks/run.py

$(BENCH)/.ready: pyproject.toml benchmarks/requirements.txt $(NATIVE) $(shell find poolgrad_lowering patterns runtime -name '*.py')
	test -e $(BENCH)/bin/pip || { $(PYTHON) -m venv --without-pip $(BENCH) && \
	  $(PYTHON) -m pip --python $(BENCH)/bin/python install --quiet --upgrade pip; }
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check '.[ort]' -r benchmarks/requirements.txt
	touch $@

clean: ## remove environments and builds
	rm -rf build $(VENV) $(SANITIZED) $(TRAINING) $(BENCH) .mypy_cache .ruff_cache .pytest_cache .hypothesis

# venv without its pip: Debian packs ensurepip apart from python3, and the system's pip can fill it.
$(BIN)/python:
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --upgrade pip

$(VENV)/.ready: pyproject.toml $(NATIVE) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[ort]' --group test
	touch $@

$(VENV)/.checked: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group check
	touch $@
