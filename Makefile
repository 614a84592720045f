# Everything a developer runs. `make help` lists the targets; each makes the environment that it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= $(shell nproc)

NATIVE := CMakeLists.txt $(wildcard cmake/*) $(shell find runtime -name CMakeLists.txt -o -name '*.cpp' -o -name '*.h' -o -name '*.map')
FORMATTED := $(filter %.cpp %.h,$(NATIVE)) $(shell find tests -name '*.cpp' -o -name '*.h')
PACKAGE := $(shell find poolgrad_lowering patterns runtime -name "*.py" -o -name "*.json" -o -name "*.css" -o -name "*.js")
PYTHON_SOURCES := poolgrad_lowering patterns runtime models tests docs benchmarks

# The package as an installation has it, in a folder; of this tree, or of another one.
define assemble_package
rm -rf $(1) && mkdir -p $(1) && cp -r $(2)poolgrad_lowering $(1) && cp -r $(2)patterns $(2)runtime $(1)/poolgrad_lowering
endef

# A virtual environment without its own pip: Debian packs ensurepip apart from python3, and the system's pip can fill it.
define make_environment
$(PYTHON) -m venv --without-pip $(1)
$(PYTHON) -m pip --python $(1)/bin/python install --quiet --upgrade pip
endef

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-torch test-browser test-training test-matrix test-oldest test-cann-ep test-asan test-ubsan test-tsan \
  test-aarch64 test-plugs test-determinism wheels fuzz fuzz-bytes mutate replay check format docs bench clean

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

test-browser: $(VENV)/.browser ## the report as a page in Chromium, which is installed if it is missing (root, Debian)
	$(BIN)/pytest tests/html_report

$(VENV)/.browser: $(VENV)/.ready
	command -v chromium || { apt-get update --quiet && apt-get install --yes --no-install-recommends chromium; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group browser
	touch $@

TRAINING := $(VENV)-training
test-training: $(TRAINING)/.ready ## the custom operators in onnxruntime-training, Python 3.12 or older (a large download)
	$(TRAINING)/bin/pytest -m "not long" tests/training tests/runtime/test_custom_ops.py

$(TRAINING)/.ready: pyproject.toml $(NATIVE)
	$(call make_environment,$(TRAINING))
	$(TRAINING)/bin/python -m pip install --quiet --editable . --group test --group training
	touch $@

PLUGS := $(VENV)-plugs
test-plugs: $(PLUGS)/.ready ## the pass for Olive, in runs of Olive (a large download)
	$(PLUGS)/bin/pytest -m olive tests/plugs

$(PLUGS)/.ready: pyproject.toml $(NATIVE)
	$(call make_environment,$(PLUGS))
	$(PLUGS)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[olive,ort]' --group test --group olive
	touch $@

# One wheel beside each of these releases of onnxruntime; what is older than the oldest is refused when registering.
MATRIX := $(VENV)-matrix
OLDEST := 1.24.1
SUPPORTED := $(OLDEST) 1.28.0 newest
TOO_OLD := 1.23.2

test-matrix: $(SUPPORTED:%=test-ort-%) test-ort-$(TOO_OLD) test-releases ## the provider and lowered models in the releases of onnxruntime from the oldest to the newest

test-oldest: test-ort-$(OLDEST) ## the runtime's tests on the oldest onnxruntime that has what the provider needs

$(SUPPORTED:%=test-ort-%): RUNTIME_TESTS := tests/runtime
test-ort-$(TOO_OLD): RUNTIME_TESTS := tests/runtime/test_old_onnxruntime.py
.PHONY: $(SUPPORTED:%=test-ort-%) test-ort-$(TOO_OLD)
$(SUPPORTED:%=test-ort-%) test-ort-$(TOO_OLD): test-ort-%: $(MATRIX)/%/.ready
	$(MATRIX)/$*/bin/pytest $(RUNTIME_TESTS)

$(MATRIX)/%/.ready: build/matrix/.built
	$(call make_environment,$(MATRIX)/$*)
	$(MATRIX)/$*/bin/python -m pip install --quiet --disable-pip-version-check --group test --upgrade \
	  $(if $(filter newest,$*),onnxruntime,onnxruntime==$*)
	$(MATRIX)/$*/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps \
	  build/matrix/*.whl
	$(MATRIX)/$*/bin/python -m pip install --quiet --disable-pip-version-check build/matrix/*.whl
	touch $@

# Lowered models by their function bodies alone. An environment has onnxruntime and numpy, and not the package; onnxruntime
# 1.18 and onnxruntime-cann are built against numpy 1. CORPUS names a folder of further models.
RELEASE_VENVS := $(VENV)-releases
RELEASES ?= 1.18.1 1.19.2 1.20.1 1.21.1 1.22.1 1.23.2 1.24.1 1.24.4 cann-1.24.4 1.25.1 1.26.0 1.28.0 1.30.0 newest
CORPUS ?=

test-releases: $(VENV)/.ready $(RELEASES:%=$(RELEASE_VENVS)/%/.ready) ## lowered models in RELEASES of onnxruntime, without the provider
	POOLGRAD_CORPUS="$(CORPUS)" \
	  POOLGRAD_RELEASES="$(foreach release,$(RELEASES),$(release)=$(CURDIR)/$(RELEASE_VENVS)/$(release)/bin/python)" \
	  $(BIN)/pytest -m releases tests/releases

.PHONY: test-releases $(RELEASE_VENVS)/newest/.ready
$(RELEASES:%=$(RELEASE_VENVS)/%/.ready): $(RELEASE_VENVS)/%/.ready:
	$(PYTHON) -m venv --without-pip $(@D)
	$(PYTHON) -m pip --python $(@D)/bin/python install --quiet --disable-pip-version-check --no-deps --upgrade \
	  $(if $(filter 1.18.% cann-%,$*),'numpy<2',numpy) \
	  $(if $(filter newest,$*),onnxruntime,$(if $(filter cann-%,$*),onnxruntime-cann==$(*:cann-%=%),onnxruntime==$*))
	touch $@

build/matrix/.built: pyproject.toml $(NATIVE) $(PACKAGE)
	rm -f build/matrix/*.whl
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir build/matrix -Cbuild-dir=build/matrix/cmake .
	touch $@

# onnxruntime with the CANN provider, as its package on PyPI has it, and in the place of CANN links to the host library
# and to a library of the tests, tests/cann_ep/cpp: an ASCEND_HOME_PATH.
CANN := $(VENV)-cann
CANN_HOME := build/cann_ep
CANN_LIBRARIES := $(CANN_HOME)/lib64
CANN_STAND_IN := $(wildcard tests/cann_ep/cpp/*)
CANN_TESTS ?= tests/cann_ep
CANN_PACKAGES = $(shell $(CANN)/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')

test-cann-ep: $(CANN)/.ready $(CANN_LIBRARIES)/.built ## sessions with onnxruntime's CANN provider, over a stand-in for CANN (Python 3.11 to 3.13)
	LD_LIBRARY_PATH=$(CURDIR)/$(CANN_LIBRARIES) $(CANN)/bin/pytest -m cann_ep $(CANN_TESTS)

$(CANN)/.ready: build/matrix/.built
	$(call make_environment,$(CANN))
	$(CANN)/bin/python -m pip install --quiet --disable-pip-version-check --group test --group cann
	$(CANN)/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps \
	  build/matrix/*.whl
	$(CANN)/bin/python -m pip install --quiet --disable-pip-version-check build/matrix/*.whl
	touch $@

$(CANN_LIBRARIES)/.built: $(CANN)/.ready $(CANN_STAND_IN)
	rm -rf $(CANN_HOME) && mkdir -p $(CANN_LIBRARIES)
	for name in libaclnn_host.so libacl_rt.so libnnopbase.so libopapi_nn.so; do \
	  ln -s $(CANN_PACKAGES)/poolgrad_lowering/runtime/libaclnn_host.so $(CANN_LIBRARIES)/$$name; done
	ln -s $(CANN_PACKAGES)/onnxruntime/capi/libonnxruntime.so.1.* $(CANN_LIBRARIES)/libonnxruntime.so.1
	$(CXX) -std=c++17 -O2 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -fvisibility-inlines-hidden \
	  -Iruntime/src $(filter %.cpp,$(CANN_STAND_IN)) -Wl,--no-undefined -L$(CANN_LIBRARIES) -laclnn_host \
	  -l:libonnxruntime.so.1 -o $(CANN_LIBRARIES)/libascendcl.so
	for name in libacl_op_compiler.so libfmk_onnx_parser.so; do ln -s libascendcl.so $(CANN_LIBRARIES)/$$name; done
	touch $@

# Both libraries under a sanitizer, each kind with an environment and a build of its own. The interpreter that loads
# them is not instrumented, so the sanitizer's own library is preloaded, and libstdc++ with it, or a thrown exception
# finds no handler. TSAN sees of the interpreter and of onnxruntime only their calls into the C library.
asan := address
ubsan := undefined
tsan := thread
SANITIZER_OPTIONS := ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
  TSAN_OPTIONS=suppressions=$(CURDIR)/tests/runtime/tsan.supp:ignore_noninstrumented_modules=1:allocator_may_return_null=1:die_after_fork=0
SANITIZED_TESTS ?= tests/runtime

test-asan: ## the runtime's tests with both libraries under the address sanitizer
test-ubsan: ## the same under the sanitizer of undefined behaviour
test-tsan: ## the same under the sanitizer of data races
test-asan test-ubsan test-tsan: test-%: $(VENV)-%/.ready
	LD_PRELOAD="$$(g++ -print-file-name=lib$*.so) $$(g++ -print-file-name=libstdc++.so)" $(SANITIZER_OPTIONS) \
	  $(VENV)-$*/bin/python -P -m pytest $(SANITIZED_TESTS)

SANITIZED := $(VENV)-asan $(VENV)-ubsan $(VENV)-tsan
$(SANITIZED:%=%/.ready): $(VENV)-%/.ready: pyproject.toml $(NATIVE)
	$(call make_environment,$(VENV)-$*)
	$(VENV)-$*/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[ort]' --group test \
	  -Cbuild-dir=build/$* -Ccmake.define.POOLGRAD_SANITIZE=$($*) -Ccmake.build-type=Debug
	touch $@

# One wheel for each processor, for any Python: the native libraries are all that differs. That for Arm is
# cross-compiled. Both have the C++ library linked in, and their tag names the oldest glibc that they work with.
WHEELS := build/wheels
WHEEL_TOOLS := $(VENV)-wheels
MACHINES := x86_64 aarch64
$(WHEELS)/aarch64/.built: BUILD_OPTIONS := -Ccmake.define.CMAKE_TOOLCHAIN_FILE=$(CURDIR)/cmake/aarch64-linux-gnu.cmake
$(WHEELS)/aarch64/.built: | cross-compiler

wheels: $(MACHINES:%=$(WHEELS)/%/.built) ## wheels for x86-64 and Arm, and an sdist, in dist/, with their tests
	rm -rf dist
	mkdir dist
	cp $(MACHINES:%=$(WHEELS)/%/*.whl) dist
	$(WHEEL_TOOLS)/bin/python -m build --sdist --outdir dist
	$(WHEEL_TOOLS)/bin/pytest -m wheels tests/packaging

$(MACHINES:%=$(WHEELS)/%/.built): $(WHEELS)/%/.built: pyproject.toml $(NATIVE) $(PACKAGE) $(WHEEL_TOOLS)/.ready
	rm -f $(WHEELS)/$*/*.whl
	$(WHEEL_TOOLS)/bin/python -m pip wheel --quiet --no-deps --wheel-dir $(WHEELS)/$*/untagged \
	  -Cbuild-dir=$(WHEELS)/$*/cmake -Ccmake.define.POOLGRAD_STATIC_CXX=ON $(BUILD_OPTIONS) .
	$(WHEEL_TOOLS)/bin/python -m wheel tags --remove --platform-tag linux_$* $(WHEELS)/$*/untagged/*.whl
	PATH="$(CURDIR)/$(WHEEL_TOOLS)/bin:$$PATH" auditwheel repair --only-plat --wheel-dir $(WHEELS)/$* \
	  $(WHEELS)/$*/untagged/*.whl
	rm -r $(WHEELS)/$*/untagged
	touch $@

$(WHEEL_TOOLS)/.ready: pyproject.toml
	$(call make_environment,$(WHEEL_TOOLS))
	$(WHEEL_TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --group wheels
	touch $@

# The wheel's own libraries, run by an emulator.
test-aarch64: $(VENV)/.ready $(WHEELS)/aarch64/.built | emulator ## the native libraries on 64-bit Arm against those of this machine
	$(BIN)/pytest -m aarch64 tests/runtime/test_native.py

.PHONY: cross-compiler emulator
cross-compiler: TOOL := aarch64-linux-gnu-g++
cross-compiler: DEBIAN_PACKAGES := g++-aarch64-linux-gnu libc6-dev-arm64-cross
emulator: TOOL := qemu-aarch64
emulator: DEBIAN_PACKAGES := qemu-user
cross-compiler emulator:
	@command -v $(TOOL) > /dev/null || { apt-get update -qq && \
	  apt-get install --yes -qq --no-install-recommends $(DEBIAN_PACKAGES); }

MINUTES ?= 5
fuzz: $(VENV)/.ready ## search for mistakes by random graphs, for MINUTES; an example that fails goes to build/fuzz
	PYTHONPATH=tests:tests/patterns $(BIN)/python -P -m generators.fuzz --minutes $(MINUTES)

# Bytes to the compiler, the verifier, the provider's checks and the host library, each for MINUTES; what breaks a
# promise is left in build/fuzz. The corpora stay, and the next search begins with them.
FUZZ := $(VENV)-fuzz
FUZZ_CHECKS := models pairs provider_checks host_calls
FUZZ_OPTIONS = -max_total_time=$$((60 * $(MINUTES))) -timeout=300 -rss_limit_mb=8192 -print_final_stats=1
fuzz-bytes: $(FUZZ_CHECKS:%=fuzz-%) ## search for bytes that break a promise, MINUTES for each of four checks (clang for two)
.PHONY: $(FUZZ_CHECKS:%=fuzz-%)
fuzz-models fuzz-pairs: fuzz-%: $(VENV)/.ready $(FUZZ)/.ready
	$(call assemble_package,build/fuzz/$*-package)
	PYTHONPATH=tests:tests/patterns $(BIN)/python -P -m fuzz.seeds build/fuzz/corpus
	PYTHONPATH=build/fuzz/$*-package:tests $(FUZZ)/bin/python -P -m fuzz.search $* build/fuzz/corpus/$* \
	  -max_len=100000 $(FUZZ_OPTIONS) -artifact_prefix=build/fuzz/$*-

fuzz-provider_checks fuzz-host_calls: fuzz-%: build/fuzz/bin/%
	mkdir -p build/fuzz/corpus/$*
	$< build/fuzz/corpus/$* -max_len=512 $(FUZZ_OPTIONS) -artifact_prefix=build/fuzz/$*-

FUZZ_CXX := clang++ -std=c++17 -g -O1 -Wall -Wextra -Werror -fsanitize=fuzzer,address,undefined \
  -fno-sanitize-recover=all -Iruntime/src -Itests/fuzz/cpp
build/fuzz/bin/provider_checks: \
  $(patsubst %,runtime/src/ep/%.cpp,attributes backward_legality forward_legality legality pooling routes shape) \
  $(patsubst %,runtime/src/aclnn/%.cpp,api libraries failure packages)
# Without the tables of vectors that need flags of their own.
build/fuzz/bin/host_calls: $(filter-out %/avx2.cpp %/avx512.cpp,$(shell find runtime/src/host -name '*.cpp'))
build/fuzz/bin/%: tests/fuzz/cpp/%.cpp tests/fuzz/cpp/bytes.h
	mkdir -p $(@D)
	$(FUZZ_CXX) $(filter %.cpp,$^) -pthread -ldl -o $@

$(FUZZ)/.ready: pyproject.toml
	$(call make_environment,$(FUZZ))
	$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check --group fuzz
	touch $@

# With what the package needs, in the versions of this environment where they can be had, and without the package.
PYTHONS ?= 3.10 3.11 3.12 3.13
FOUND_PYTHONS = $(foreach version,$(PYTHONS),$(if $(shell python$(version) --version 2>/dev/null),$(version)))
test-determinism: $(VENV)/.ready ## the same bytes for 20 hash seeds, and on each of PYTHONS that is there
	$(MAKE) $(FOUND_PYTHONS:%=$(VENV)-python%/.ready)
	POOLGRAD_PYTHONS="$(FOUND_PYTHONS:%=$(CURDIR)/$(VENV)-python%/bin/python)" $(BIN)/pytest -m "" tests/determinism

$(VENV)-python%/.ready: pyproject.toml
	python$* -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check numpy networkx \
	  $$($(BIN)/python -m pip freeze | grep -E '^(onnx|protobuf)==')
	touch $@

# -S: without the installation, which would come before what is compared.
FINGERPRINTS = PYTHONPATH=build/replay/$(1):$$($(BIN)/python -c 'import onnx; print(onnx.__path__[0] + "/..")') \
  $(BIN)/python -S -P tests/determinism/fingerprints.py $(shell find models/built -name '*.onnx' | sort) > build/replay/$(1).json
REV ?= HEAD
replay: $(VENV)/.ready ## lower the built models as revision REV does and as this tree does, and list what changed
	rm -rf build/replay && mkdir -p build/replay/tree
	git archive $(REV) poolgrad_lowering patterns runtime | tar -x -C build/replay/tree
	$(call assemble_package,build/replay/before,build/replay/tree/)
	$(call assemble_package,build/replay/after)
	$(call FINGERPRINTS,before)
	$(call FINGERPRINTS,after)
	$(BIN)/python tests/determinism/compare.py build/replay/before.json build/replay/after.json

# SAMPLE draws so many of all mutants, SECONDS takes only the quickest tests of each, ONLY those with a text in their name.
REACH := build/mutation/reach.json
mutate: $(VENV)/.ready $(REACH) ## change the compiler's reasoning in one place after the other, list what no test notices
	PYTHONPATH=tests $(BIN)/python -P -m mutation --reach $(REACH) --only '$(ONLY)' \
	  $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(WORKERS),--workers $(WORKERS))

$(REACH): $(shell find poolgrad_lowering patterns tests/poolgrad_lowering tests/patterns tests/generators -name '*.py')
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group mutate
	PYTHONPATH=tests $(BIN)/python -P -m mutation.reach $@

check: $(VENV)/.checked ## lint, formatting, types; warnings of the C++ compiler are errors in every build
	$(BIN)/ruff check $(wildcard $(PYTHON_SOURCES))
	$(BIN)/ruff format --check $(wildcard $(PYTHON_SOURCES))
	$(BIN)/clang-format --dry-run --Werror $(FORMATTED)
	$(call assemble_package,build/typing)
	cd build/typing && ../../$(BIN)/mypy --config-file ../../pyproject.toml -p poolgrad_lowering

format: $(VENV)/.checked ## bring all sources into their format
	$(BIN)/ruff check --fix-only --quiet $(wildcard $(PYTHON_SOURCES))
	$(BIN)/ruff format --quiet $(wildcard $(PYTHON_SOURCES))
	$(BIN)/clang-format -i $(FORMATTED)

# Not --quiet, which would hide the warnings from --strict.
DOCS := $(VENV)-docs
docs: $(VENV)/.ready $(DOCS)/.ready ## write the pages that are generated from the code, and the site of all pages to build/site
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

$(DOCS)/.ready: pyproject.toml
	test -e $(DOCS)/bin/pip || { $(PYTHON) -m venv --without-pip $(DOCS) && \
	  $(PYTHON) -m pip --python $(DOCS)/bin/python install --quiet --upgrade pip; }
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --group docs
	touch $@

# Installed, not editable: what is measured is what a user has. Threads of OpenMP that wait by spinning would take the
# cores from whatever is measured next.
BENCH := $(VENV)-bench
bench: $(BENCH)/.ready $(TRAINING)/.ready $(CANN_LIBRARIES)/.built ## measure everything beside other packages, and write docs/benchmarks.md (a large download)
	OMP_WAIT_POLICY=passive POOLGRAD_TRAINING_PYTHON=$(TRAINING)/bin/python \
	  POOLGRAD_CANN_PYTHON=$(CANN)/bin/python POOLGRAD_CANN_HOME=$(CURDIR)/$(CANN_HOME) \
	  $(BENCH)/bin/python benchmarks/run.py $(QUESTIONS)

$(BENCH)/.ready: pyproject.toml benchmarks/requirements.txt $(NATIVE) $(PACKAGE)
	test -e $(BENCH)/bin/pip || { $(PYTHON) -m venv --without-pip $(BENCH) && \
	  $(PYTHON) -m pip --python $(BENCH)/bin/python install --quiet --upgrade pip; }
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check '.[ort]' -r benchmarks/requirements.txt
	touch $@

clean: ## remove environments and builds
	rm -rf build dist $(VENV) $(VENV)-python* $(WHEEL_TOOLS) $(SANITIZED) $(TRAINING) $(CANN) $(PLUGS) $(MATRIX) $(RELEASE_VENVS) $(BENCH) $(DOCS) $(FUZZ)
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	$(call make_environment,$(VENV))

$(VENV)/.ready: pyproject.toml $(NATIVE) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[ort]' --group test
	touch $@

$(VENV)/.checked: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group check
	touch $@
