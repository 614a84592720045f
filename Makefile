# What a developer runs most. `make help` lists the targets; `make sessions` lists what else runs, each in its environment:
# noxfile.py describes these, and tools/environments.py installs nox and uv, which make them.

PYTHON ?= python3
IN := $(PYTHON) tools/environments.py

.DEFAULT_GOAL := help
.PHONY: help sessions demo train-demo quick test test-long test-oldest test-matrix wheel clean
.PHONY: check format docs bench coverage wheels replay mutate fuzz fuzz-tools fuzz-bytes

help: ## list the targets
	@grep -E '^[a-z0-9%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

sessions: ## list the sessions, each with tests or programs of an environment
	$(IN) --list

demo: ## lower real training graphs and run one through the execution provider
	$(IN) test python -m models.demo

train-demo: ## train a CNN on digits by PyTorch, by its ONNX step and by the lowered step, and compare (a large download)
	$(IN) torch-step python -m models.train_digits --plot docs/images/train_digits.svg

# Without the same of all built models, which test_recall lowers: their proofs, exports, forward pools and external files;
# without gigabytes of zeros, searches in random graphs and windows, every operator of ONNX, another collection of all
# tests, a kill at every step of a write, large and deep models, what grows with them, folders of models, further
# processes for hash seeds, imports, streams, shells and other systems, the sessions of function bodies and definitions at
# every opset, the proofs of all exports for ATC; and without the tests in Chromium.
SLOW := built_models or gigabytes or vf2_oracle or random_windows or over_any_axis or every_operator \
  or provokes_every or test_killed or a_large_site or large_windows or deep_chains or long_integer or calls_many \
  or many_functions or test_cost or a_thousand_sites or size_of_the_map or other_windows_of \
  or every_pool_of_one_axis or shuffled or test_folders or onnxruntime_training or hash_seed or test_import \
  or test_portability or test_streams or every_process or closed_pipe or verbose_logs or test_completion \
  or test_browser or test_atc_export or test_functions or test_pool_functions or test_average_functions \
  or test_reduced_functions or operator_definitions
quick: ## the compiler's tests without the slowest, in a minute
	$(IN) test pytest -n auto --dist worksteal -k "not ($(SLOW))" tests/poolgrad_lowering tests/patterns tests/html_report

test: ## the default test suite
	$(IN) test

test-long: ## the tests that take minutes
	$(IN) test pytest -m long

test-oldest: test-ort-1.24.1 ## the runtime's tests on the oldest onnxruntime that has what the provider needs
test-matrix: test-ort-1.24.1 test-ort-1.28.0 test-ort-newest test-ort-1.23.2 test-releases ## the provider and lowered models in the releases of onnxruntime from the oldest to the newest

test-%: ## the tests of the session %: test-asan, test-torch-step, test-tools, …
	$(IN) $*

check: ## lint, formatting, types; warnings of the C++ compiler are errors in every build
format: ## bring all sources into their format
docs: ## write the pages that are generated from the code, and the site of all pages to build/site
bench: ## measure everything beside other packages, and write docs/benchmarks.md (a large download)
coverage: ## run PyTorch's steps beside onnxruntime's CANN provider, and write the tables of what runs whole (a large download)
wheels: ## wheels for x86-64, Arm and any system, and an sdist, in dist/, with their tests
replay: ## lower the built models as revision REV does and as this tree does, and list what changed
mutate: ## change the compiler's reasoning in one place after the other, list what no test notices
fuzz-bytes: ## search for bytes that break a promise, MINUTES for each of four checks
check format docs bench coverage wheels replay mutate fuzz-bytes:
	$(IN) $@

wheel: ## the wheel for this machine alone, in build/wheels
	$(IN) wheels python tools/wheels.py $$(uname -m)

MINUTES ?= 5
fuzz: ## search for mistakes by random graphs, for MINUTES; an example that fails goes to build/fuzz
	$(IN) test python -m tests.generators.fuzz --minutes $(MINUTES)

fuzz-tools: ## the same search through other packages' tools, before lowering
	$(IN) tools python -m tests.other_tools.search --minutes $(MINUTES)

clean: ## remove environments and builds
	rm -rf build dist .nox .mypy_cache .ruff_cache .pytest_cache .hypothesis
