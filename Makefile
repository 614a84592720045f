# Everything a developer runs. `make help` lists the targets; tools/environments.py makes the environment that each needs.

PYTHON ?= python3
IN := $(PYTHON) tools/environments.py
PYTEST := pytest -n auto --dist worksteal
MACHINE := $(shell uname -m)

PYTHON_SOURCES := poolgrad_lowering patterns runtime models tests docs benchmarks tools examples
CPP_SOURCES = $(shell find runtime poolgrad_lowering tests docs -name '*.cpp' -o -name '*.h')

# The package as an installation has it, in a folder; of this tree, or of another one.
define assemble_package
rm -rf $(1) && mkdir -p $(1) && cp -r $(2)poolgrad_lowering $(1) && cp -r $(2)patterns $(2)runtime $(1)/poolgrad_lowering
endef

.DEFAULT_GOAL := help
.PHONY: help demo train-demo quick test test-long test-torch test-oldest-dependencies test-browser test-training test-torch-step test-torch-lists torch-lists test-matrix test-oldest test-releases test-cann-ep coverage cann-home test-torch-npu torch-npu-calls \
  test-asan test-ubsan test-tsan test-aarch64 test-atc test-tools test-plugs test-determinism wheel wheels fuzz fuzz-tools fuzz-bytes mutate replay check format docs bench clean

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: ## lower real training graphs and run one through the execution provider
	$(IN) test python -m models.demo

# Without gigabytes of zeros, a search in random graphs, another collection of all tests, a kill at every step of a write,
# further processes for hash seeds, imports, streams, shells and other systems, a page of a thousand sites, thousands of
# functions, the sessions of function bodies and definitions at every opset, the proofs of all exports for ATC: 3 to 20 s
# each; and without the tests in Chromium.
SLOW := gigabytes or vf2_oracle or provokes_every_code or test_killed or hash_seed or test_functions or test_pool_functions \
  or test_average_functions or test_reduced_functions or test_definitions or test_atc_export \
  or test_import or test_portability or test_browser or a_thousand_sites or test_many_functions or test_streams or test_completion
quick: ## the compiler's tests without the slowest, in a minute
	$(IN) test $(PYTEST) -k "not ($(SLOW))" tests/poolgrad_lowering tests/patterns tests/html_report

test: ## the default test suite
	$(IN) test $(PYTEST)

test-long: ## the tests that take minutes
	$(IN) test pytest -m long

test-torch: ## the default suite with PyTorch as a further oracle (a large download)
	$(IN) torch $(PYTEST)

test-oldest-dependencies: ## the compiler's tests with the oldest networkx, numpy and onnx that pyproject.toml allows
	$(IN) oldest $(PYTEST) tests/poolgrad_lowering tests/patterns tests/generators

test-browser: ## the report as a page in Chromium, which is installed if it is missing (root, Debian)
	$(call debian,chromium,chromium)
	$(IN) browser pytest tests/html_report

test-training: ## the custom operators in onnxruntime-training, Python 3.12 or older (a large download)
	$(IN) training pytest -m "not long" tests/training tests/runtime/test_custom_ops.py

test-torch-step: ## training steps out of PyTorch, Python 3.11 to 3.13 (a large download)
	$(IN) torch-step pytest -n 2 --dist worksteal tests/torch_step

test-torch-lists: ## PyTorch's own lists of modules and operators as training steps, beside their record (an hour)
	$(IN) torch-step pytest -n 2 --dist worksteal -m "torch_lists or not torch_lists" tests/torch_step/test_lists.py
torch-lists: ## record them anew, for the tables of their page
	$(IN) torch-step python -m tests.torch_step.write_lists
	$(IN) test python -m docs.generate

train-demo: ## train a CNN on digits by PyTorch, by its ONNX step and by the lowered step, and compare (a large download)
	$(IN) torch-step python -m models.train_digits --plot docs/images/train_digits.svg

test-tools: ## other packages' tools on models before and after lowering
	$(call debian,node,nodejs)
	$(IN) tools $(PYTEST) -m tools tests/other_tools

test-plugs: ## the pass for Olive, in runs of Olive (a large download)
	$(IN) plugs pytest -m olive tests/plugs

# This machine's wheel beside each of these releases of onnxruntime; an older one is refused when registering.
OLDEST := 1.24.1
SUPPORTED := $(OLDEST) 1.28.0 newest
TOO_OLD := 1.23.2
test-matrix: $(SUPPORTED:%=test-ort-%) test-ort-$(TOO_OLD) test-releases ## the provider and lowered models in the releases of onnxruntime from the oldest to the newest
test-oldest: test-ort-$(OLDEST) ## the runtime's tests on the oldest onnxruntime that has what the provider needs
test-ort-%: wheel-$(MACHINE)
	$(IN) ort/$* pytest $(if $(filter $(TOO_OLD),$*),tests/runtime/test_old_onnxruntime.py,tests/runtime)

# Lowered models by their function bodies alone. CORPUS names a folder of further models.
RELEASES ?= 1.18.1 1.19.2 1.20.1 1.21.1 1.22.1 1.23.2 1.24.1 1.24.4 cann-1.24.4 1.25.1 1.26.0 1.28.0 1.30.0 newest
CORPUS ?=
test-releases: $(RELEASES:%=release-%) ## lowered models in RELEASES of onnxruntime, without the provider
	POOLGRAD_CORPUS="$(CORPUS)" \
	  POOLGRAD_RELEASES="$(foreach release,$(RELEASES),$(release)=$(CURDIR)/.venv-releases/$(release)/bin/python)" \
	  $(IN) test pytest -m releases tests/releases
release-%:
	$(IN) release/$*

CANN_TESTS ?= tests/cann_ep
STEPS := build/steps
test-cann-ep: cann-home ## sessions with onnxruntime's CANN provider, over a stand-in for CANN (Python 3.11 to 3.13)
	$(IN) torch-step python -m tests.torch_step.steps $(STEPS) --only 'lenet__*__float32'
	$(IN) torch-step python -m tests.torch_step.steps $(STEPS) --only 'attention__adamw__float16'
	$(IN) cann env LD_LIBRARY_PATH=$(CURDIR)/build/cann_ep/lib64 pytest -m cann_ep $(CANN_TESTS)
coverage: cann-home ## measure training steps out of PyTorch beside the CANN provider, for the table of its page (half an hour)
	$(IN) torch-step python -m tests.torch_step.steps $(STEPS) --only '*__float32'
	$(IN) cann env LD_LIBRARY_PATH=$(CURDIR)/build/cann_ep/lib64 python -P -m tests.cann_ep.write_coverage $(STEPS)
	$(IN) test python -m docs.generate
cann-home: wheel-$(MACHINE)
	$(IN) cann python tools/cann_home.py cann_ep

test-torch-npu: ## torch_npu, the vendor's client of aclnn, on the host library and beside sessions (Python 3.11, x86-64; a large download)
	$(IN) torch-npu python tools/cann_home.py torch_npu
	$(IN) torch-npu pytest -n 2 --dist worksteal -m torch_npu tests/torch_npu
torch-npu-calls: ## count how torch_npu's calls differ from those of sessions, for the table of its page
	$(IN) torch-npu python tools/cann_home.py torch_npu
	$(IN) torch-npu python -P -m tests.torch_npu.write_calls
	$(IN) test python -m docs.generate

# All native libraries under a sanitizer. The interpreter that loads them is not instrumented, so the sanitizer's own
# library is preloaded, and libstdc++ with it, or a thrown exception finds no handler. TSAN sees of the interpreter and of
# onnxruntime only their calls into the C library.
SANITIZER_OPTIONS := ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
  TSAN_OPTIONS=suppressions=$(CURDIR)/tests/runtime/tsan.supp:ignore_noninstrumented_modules=1:allocator_may_return_null=1:die_after_fork=0
SANITIZED_TESTS ?= tests/runtime tests/atc/test_plugin_library.py
test-asan: ## the tests of the native libraries with these under the address sanitizer
test-ubsan: ## the same under the sanitizer of undefined behaviour
test-tsan: ## the same under the sanitizer of data races
test-asan test-ubsan test-tsan: test-%:
	$(IN) $* env $(SANITIZER_OPTIONS) \
	  LD_PRELOAD="$$(g++ -print-file-name=lib$*.so) $$(g++ -print-file-name=libstdc++.so)" pytest $(SANITIZED_TESTS)

wheel: wheel-$(MACHINE) ## the wheel for this machine alone, in build/wheels
wheels: wheel-x86_64 wheel-aarch64 wheel-any ## wheels for x86-64, Arm and any system, and an sdist, in dist/, with their tests
	rm -rf dist && mkdir dist
	cp $(^:wheel-%=build/wheels/%/*.whl) dist
	$(IN) wheels python -m build --sdist --outdir dist
	$(IN) wheels pytest -m wheels tests/packaging
wheel-aarch64: $(if $(filter aarch64,$(MACHINE)),,cross-compiler)
wheel-%:
	$(IN) wheels python tools/wheels.py $*

# The wheel's own libraries, run by an emulator.
test-aarch64: wheel-aarch64 ## the native libraries on 64-bit Arm against those of this machine
	$(call debian,qemu-aarch64,qemu-user)
	$(IN) test pytest -m aarch64 tests/runtime/test_native.py tests/atc/test_plugin_library.py

test-atc: wheel-$(MACHINE) wheel-aarch64 ## the parser plugin for ATC and exported models in a stand-in for GE's parser, on Arm too
	$(call debian,qemu-aarch64,qemu-user)
	$(IN) test $(PYTEST) -m "atc or not atc" tests/atc

MINUTES ?= 5
fuzz: ## search for mistakes by random graphs, for MINUTES; an example that fails goes to build/fuzz
	$(IN) test python -m tests.generators.fuzz --minutes $(MINUTES)

fuzz-tools: ## the same search through other packages' tools, before lowering
	$(IN) tools python -m tests.other_tools.search --minutes $(MINUTES)

# Bytes to the compiler, the verifier, the provider's checks and the host library, each for MINUTES; what breaks a
# promise is left in build/fuzz. The corpora stay, and the next search begins with them. Half an hour of pairs under atheris
# takes 9 GB, which the same runs without it do not.
FUZZ_OPTIONS = -max_total_time=$$((60 * $(MINUTES))) -timeout=300 -rss_limit_mb=16384 -print_final_stats=1
fuzz-bytes: fuzz-models fuzz-pairs fuzz-provider_checks fuzz-host_calls ## search for bytes that break a promise, MINUTES for each of four checks
fuzz-models fuzz-pairs: fuzz-%:
	$(call assemble_package,build/fuzz/$*-package)
	$(IN) test python -m tests.fuzz.seeds build/fuzz/corpus
	$(IN) fuzz env PYTHONSAFEPATH=1 PYTHONPATH=build/fuzz/$*-package python -m tests.fuzz.search $* build/fuzz/corpus/$* \
	  -max_len=100000 $(FUZZ_OPTIONS) -artifact_prefix=build/fuzz/$*-
fuzz-provider_checks fuzz-host_calls: fuzz-%: build/fuzz/bin/%
	mkdir -p build/fuzz/corpus/$*
	$< build/fuzz/corpus/$* -max_len=512 $(FUZZ_OPTIONS) -artifact_prefix=build/fuzz/$*-
build/fuzz/bin/provider_checks: \
  $(patsubst %,runtime/src/ep/%.cpp,attributes average_attributes backward_legality forward_legality legality pooling routes shape) \
  $(wildcard runtime/src/aclnn/*.cpp)
# Without the tables of vectors that need flags of their own.
build/fuzz/bin/host_calls: $(filter-out %/avx2.cpp %/avx512.cpp,$(shell find runtime/src/host -name '*.cpp'))
build/fuzz/bin/%: tests/harness/fuzz/%.cpp tests/harness/fuzz/bytes.h
	$(call debian,clang++,clang libclang-rt-dev)
	mkdir -p $(@D)
	clang++ -std=c++17 -g -O1 -Wall -Wextra -Werror -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
	  -Iruntime/src -Itests/harness/fuzz $(filter %.cpp,$^) -pthread -ldl -o $@

PYTHONS ?= 3.10 3.11 3.12 3.13
FOUND_PYTHONS = $(foreach version,$(PYTHONS),$(if $(shell python$(version) --version 2>/dev/null),$(version)))
test-determinism: ## the same bytes for 20 hash seeds, and on each of PYTHONS that is there
	for version in $(FOUND_PYTHONS); do $(IN) python/$$version || exit 1; done
	POOLGRAD_PYTHONS="$(FOUND_PYTHONS:%=$(CURDIR)/.venv-python%/bin/python)" $(IN) test pytest -m "" tests/determinism

# -S: without the installation, which would come before what is compared.
FINGERPRINTS = env PYTHONPATH=build/replay/$(1):$$($(IN) test python -c 'import onnx; print(onnx.__path__[0] + "/..")') \
  python -S -P tests/harness/determinism/fingerprints.py $$(find models/built -name '*.onnx' | sort) > build/replay/$(1).json
REV ?= HEAD
replay: ## lower the built models as revision REV does and as this tree does, and list what changed
	rm -rf build/replay && mkdir -p build/replay/tree
	git archive $(REV) poolgrad_lowering patterns runtime | tar -x -C build/replay/tree
	$(call assemble_package,build/replay/before,build/replay/tree/)
	$(call assemble_package,build/replay/after)
	$(IN) test $(call FINGERPRINTS,before)
	$(IN) test $(call FINGERPRINTS,after)
	$(IN) test python tests/harness/determinism/compare.py build/replay/before.json build/replay/after.json

# SAMPLE draws so many of all mutants, SECONDS takes only the first tests of each, ONLY those with a text in their name,
# AGAIN those that a file lists as survivors of another run (build/mutation/survivors.txt of the last one), DONE leaves out
# those that the output of another run names.
REACH := build/mutation/reach.json
mutate: $(REACH) ## change the compiler's reasoning in one place after the other, list what no test notices
	$(IN) mutate python -m tests.mutation --reach $(REACH) --only '$(ONLY)' \
	  $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(WORKERS),--workers $(WORKERS)) \
	  $(if $(AGAIN),--again $(AGAIN)) $(if $(DONE),--done $(DONE))
$(REACH): $(shell find poolgrad_lowering patterns tests/poolgrad_lowering tests/patterns tests/generators tests/near_misses -name '*.py')
	$(IN) mutate python -m tests.mutation.reach $@

check: ## lint, formatting, types; warnings of the C++ compiler are errors in every build
	$(IN) check ruff check $(PYTHON_SOURCES)
	$(IN) check ruff format --check $(PYTHON_SOURCES)
	$(IN) check clang-format --dry-run --Werror $(CPP_SOURCES)
	$(call assemble_package,build/typing)
	ln -s $(addprefix $(CURDIR)/,tests models benchmarks docs tools) build/typing
	cd build/typing && $(PYTHON) $(CURDIR)/tools/environments.py check \
	  mypy --config-file $(CURDIR)/pyproject.toml --cache-dir $(CURDIR)/.mypy_cache -p poolgrad_lowering -p tests

format: ## bring all sources into their format
	$(IN) check ruff check --fix-only --quiet $(PYTHON_SOURCES)
	$(IN) check ruff format --quiet $(PYTHON_SOURCES)
	$(IN) check clang-format -i $(CPP_SOURCES)

# Not --quiet, which would hide the warnings from --strict.
docs: ## write the pages that are generated from the code, and the site of all pages to build/site
	$(IN) test python -m docs.generate
	$(IN) docs env NO_MKDOCS_2_WARNING=1 mkdocs build --strict

# Installed, not editable: what is measured is what a user has. Threads of OpenMP that wait by spinning would take the
# cores from whatever is measured next.
bench: environment-training cann-home ## measure everything beside other packages, and write docs/benchmarks.md (a large download)
	$(IN) bench env PYTHONSAFEPATH=1 OMP_WAIT_POLICY=passive POOLGRAD_TRAINING_PYTHON=.venv-training/bin/python \
	  POOLGRAD_CANN_PYTHON=.venv-cann/bin/python POOLGRAD_CANN_HOME=$(CURDIR)/build/cann_ep \
	  python -m benchmarks.run $(QUESTIONS)

clean: ## remove environments and builds
	rm -rf build dist .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis

environment-%:
	$(IN) $*

cross-compiler:
	$(call debian,aarch64-linux-gnu-g++,g++-aarch64-linux-gnu libc6-dev-arm64-cross)

# Installs packages of Debian where a command is missing.
debian = @command -v $(1) > /dev/null || { apt-get update -qq && apt-get install --yes -qq --no-install-recommends $(2); }
