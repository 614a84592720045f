# SPDX-License-Identifier: Apache-2.0

"""The environments of the project, and what runs in them.

    python3 tools/environments.py SESSION [COMMAND...]

A session runs its own commands in its environment, or COMMAND in place of them. An environment is installed again when
its inputs have changed: the arguments of uv, `pyproject.toml`, and the native sources and the folders of the package if
it builds it. Changed Python sources need no installation, because editable installations use them directly. The root of
the repository comes after the installed packages on `sys.path`: `tests`, `models` and `benchmarks` can be imported, and
an installed package takes precedence over its sources.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent / "tools"))
from fingerprint import NATIVE, PROJECT, ROOT, SOURCES, WHEEL, fingerprint

nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["check", "test"]


@dataclass(frozen=True)
class Session:
    """What a session is for, its commands for bash, and the arguments of `uv pip install` for its environment.

    Of several installations, the arguments are apart by a semicolon. A session without an installation runs commands of
    other sessions alone.
    """

    what: str
    commands: str
    installs: str = ""

    def state(self) -> str:
        """Return what the environment depends on; an editable installation also knows the package's folders by name."""
        if "--editable" in self.installs:
            folders = (
                folder for part in ("poolgrad_lowering", "patterns", "runtime") for folder in ROOT.glob(part + "/**/")
            )
            names = sorted(str(folder.relative_to(ROOT)) for folder in folders if (folder / "__init__.py").is_file())
            return f"{fingerprint(NATIVE)} {self.installs} {' '.join(names)}"
        inputs = SOURCES if ".[ort]" in self.installs else (*PROJECT, WHEEL) if WHEEL in self.installs else PROJECT
        return f"{fingerprint(inputs)} {self.installs}"


EDITABLE = "--group=test --editable ."
ORT = f"{EDITABLE}[ort]"
PYTEST = "pytest -n auto --dist worksteal"
TWO = "pytest -n 2 --dist worksteal"
SWEEPS = (
    "tests/near_misses tests/generators tests/atc/test_ge_exports.py tests/runtime/test_aclnn_allocations.py "
    "tests/runtime/test_ep_{device_faults,failure_sweep,finalized,several_devices}.py "
    "tests/runtime/test_host_{averages,vectors}.py"
)
"""The tests with the most cases, a quarter of the whole suite's time."""
GENERATE = "nox -s test -- python -m docs.generate"
PYTHON_SOURCES = "poolgrad_lowering patterns runtime models tests docs benchmarks tools examples noxfile.py"
CPP_SOURCES = "$(find runtime poolgrad_lowering tests docs benchmarks -name '*.cpp' -o -name '*.h')"
WHEEL_HERE = "wheel $(uname -m)"

OPTIONS = {
    "CANN_TESTS": "tests/cann_ep",
    "CHECKS": "models pairs provider_checks host_calls",
    "CORPUS": "",
    "MINUTES": "5",
    "MUTANTS": "",
    "PYTHONS": "3.10 3.11 3.12 3.13",
    "QUESTIONS": "",
    "RELEASES": "1.18.1 1.19.2 1.20.1 1.21.1 1.22.1 1.23.2 1.24.1 cann-1.24.4 1.24.4 1.25.1 1.26.0 1.28.0 1.30.0 newest",  # noqa: E501
    "REV": "HEAD",
    "SANITIZED_TESTS": "tests/runtime tests/atc/test_plugin_library.py",
}
"""The variables that the commands read, and what they are if nobody sets them."""
OLDEST = "flatbuffers==23.5.26 networkx==3.1 numpy==1.26.0 onnx==1.19.0 shtab==1.13.0"
"""The oldest releases of the dependencies in `pyproject.toml`."""
# The interpreter that loads the libraries is not instrumented, so the sanitizer's own library is preloaded, and with it
# libstdc++, or a thrown exception finds no handler. Of the interpreter and of onnxruntime, TSAN sees only their calls
# into the C library.
SANITIZED = """
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=suppressions=$PWD/tests/runtime/tsan.supp:ignore_noninstrumented_modules=1:die_after_fork=0
export TSAN_OPTIONS=$TSAN_OPTIONS:allocator_may_return_null=1
LD_PRELOAD="$(g++ -print-file-name=lib{}.so) $(g++ -print-file-name=libstdc++.so)" \\
  {} $SANITIZED_TESTS
"""


def sanitized(name: str, sanitizer: str) -> Session:
    """Return the session of a sanitizer, under which all native libraries are built."""
    settings = f"build-dir=build/{name}", "cmake.build-type=Debug", f"cmake.define.POOLGRAD_SANITIZE={sanitizer}"
    options = " ".join(f"--config-settings={setting}" for setting in settings)
    what = f"SANITIZED_TESTS, or the tests of the native libraries, with these under the {sanitizer} sanitizer"
    return Session(what, SANITIZED.format(name, TWO), f"{ORT} {options}")


def onnxruntime(release: str, tests: str = "tests/runtime") -> Session:
    """Return the session of this machine's wheel beside a release of onnxruntime."""
    package = "onnxruntime" if release == "newest" else f"onnxruntime=={release}"
    what = f"the runtime's tests on onnxruntime {release}"
    return Session(what, f"{TWO} {tests}", f"--group=test --upgrade {package} {WHEEL}")


SESSIONS = {
    "test": Session("the default test suite", f"{PYTEST} $(printf -- '--ignore=%s ' {SWEEPS})", ORT),
    "sweeps": Session(
        "the rest of the suite: near misses, random graphs, exports for ATC, a failure at every call",
        f"nox -s test -- {PYTEST} {SWEEPS}",
    ),
    "check": Session(
        "lint, formatting, types; warnings of the C++ compiler are errors in every build",
        f"ruff check {PYTHON_SOURCES}; ruff format --check {PYTHON_SOURCES}; "
        f"clang-format --dry-run --Werror {CPP_SOURCES}; "
        "assemble build/typing; ln -s $PWD/{tests,models,benchmarks,docs,tools} build/typing; cd build/typing; "
        "mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache -p poolgrad_lowering -p tests",
        "--requirements=pyproject.toml --extra=ort --group=test --group=check",
    ),
    "format": Session(
        "bring all sources into their format",
        f"nox -s check -- ruff check --fix-only --quiet {PYTHON_SOURCES}; "
        f"nox -s check -- ruff format --quiet {PYTHON_SOURCES}; nox -s check -- clang-format -i {CPP_SOURCES}",
    ),
    "docs": Session(
        "write the pages that are generated from the code, and the site of all pages to build/site",
        f"{GENERATE}; NO_MKDOCS_2_WARNING=1 mkdocs build --strict",  # not --quiet, which would hide the warnings
        "--group=docs",
    ),
    "browser": Session(
        "the report as a page in Chromium, which is installed if it is missing (root, Debian)",
        "debian chromium chromium; pytest tests/html_report",
        f"{ORT} --group=browser",
    ),
    # Other dependencies.
    "torch": Session(
        "the default suite with PyTorch as a further oracle (a large download)",
        PYTEST,
        f"{ORT} torch==2.13.0 onnxscript",
    ),
    "oldest-dependencies": Session(
        "the compiler's tests with the oldest dependencies that pyproject.toml allows",
        f"{PYTEST} tests/poolgrad_lowering tests/patterns tests/generators",
        f"{ORT} {OLDEST}",
    ),
    "training": Session(
        "the custom operators in onnxruntime-training, Python 3.12 or older (a large download)",
        f"{TWO} -m 'not long' tests/training tests/runtime/test_custom_ops.py; "
        f"{TWO} -m training tests/poolgrad_lowering/standard/operator_definitions",
        f"{EDITABLE} --group=training",
    ),
    "torch-step": Session(
        "training steps out of PyTorch, Python 3.11 to 3.13 (a large download)",
        f"{TWO} tests/torch_step",
        f"{EDITABLE}[ort,torch] --group=torch-step",
    ),
    "torch-lists": Session(
        "PyTorch's own lists of modules and operators as training steps, beside their record (an hour)",
        f"nox -s torch-step -- {TWO} -m 'torch_lists or not torch_lists' tests/torch_step/test_lists.py",
    ),
    "record-torch-lists": Session(
        "record these lists anew, for the tables of their page",
        f"nox -s torch-step -- python -m tests.torch_step.write_lists; {GENERATE}",
    ),
    "tools": Session(
        "other packages' tools on models before and after lowering",
        f"debian node nodejs; {PYTEST} -m tools tests/other_tools",
        f"{ORT} --group=tools",
    ),
    "plugs": Session(
        "the pass for Olive, in runs of Olive (a large download)",
        "pytest -m olive tests/plugs",
        f"{EDITABLE}[olive,ort] --group=olive",
    ),
    # Releases of onnxruntime, from the oldest that the provider supports; an older one is refused when registering.
    "ort-1.23.2": onnxruntime("1.23.2", "tests/runtime/test_old_onnxruntime.py"),
    **{f"ort-{release}": onnxruntime(release) for release in ("1.24.1", "1.28.0", "newest")},
    "releases": Session(
        "lowered models, and those of the folder CORPUS, by their function bodies alone in RELEASES of onnxruntime",
        """
        for release in $RELEASES; do
          folder=$PWD/.nox/releases/$release numpy=numpy package=onnxruntime==$release
          case $release in
            newest) package=onnxruntime ;;
            1.18.*) numpy='numpy<2' ;;  # which these releases are built for
            cann-*) numpy='numpy<2' package=onnxruntime-cann==${release#cann-} ;;
          esac
          [[ -e $folder ]] || uv venv --quiet --python "$PYTHON" $folder
          uv pip install --quiet --python $folder --no-deps --upgrade "$numpy" $package
          pythons+=" $release=$folder/bin/python"
        done
        export POOLGRAD_RELEASES=$pythons POOLGRAD_CORPUS=$CORPUS
        nox -s test -- pytest -m releases tests/releases
        """,
    ),
    # Clients of CANN.
    "cann-ep": Session(
        "sessions with onnxruntime's CANN provider, over a stand-in for CANN (Python 3.11 to 3.13)",
        "python tools/cann_home.py cann_ep; for steps in 'lenet__*__float32' 'attention__adamw__float16' "
        "'drawn__sgd__float32' 'normalized__adamw__float32' 'tokens__sgd__float32' "
        "'unpooled__sgd__float32' 'pyramid__sgd__float32' 'unet_of_any_batch__adamw__float32' "
        "'unet_of_labels__sgd__float32' 'recognizer__adamw__float32' "
        "'unet_of_any_size__sgd__float32' 'unpooled_of_any_size__sgd__float32' "
        "'text_of_any_length__adamw__float32'; do "
        'nox -s torch-step -- python -m tests.torch_step.steps build/steps --only "$steps"; done; '
        f"LD_LIBRARY_PATH=$PWD/build/cann_ep/lib64 {TWO} -m cann_ep $CANN_TESTS",
        f"--group=test --group=cann {WHEEL}",
    ),
    "coverage": Session(
        "measure training steps out of PyTorch beside the CANN provider, for the tables of pages (ten minutes)",
        "nox -s cann-ep -- python tools/cann_home.py cann_ep; "
        "nox -s torch-step -- python -m tests.torch_step.steps build/steps --only '*__float32'; "
        "nox -s cann-ep -- env LD_LIBRARY_PATH=$PWD/build/cann_ep/lib64 "
        f"python -P -m tests.cann_ep.write_coverage build/steps; {GENERATE}",
    ),
    "torch-npu": Session(
        "torch_npu, the vendor's client of aclnn, on the host library and beside sessions (Python 3.11, x86-64)",
        f"python tools/cann_home.py torch_npu; {TWO} -m torch_npu tests/torch_npu",
        f"{ORT} --group=torch-npu; --no-deps torch_npu==2.13.0",
    ),
    "torch-npu-calls": Session(
        "count how torch_npu's calls differ from those of sessions, for the table of its page",
        "nox -s torch-npu -- python tools/cann_home.py torch_npu; "
        f"nox -s torch-npu -- python -P -m tests.torch_npu.write_calls; {GENERATE}",
    ),
    # The native libraries, and what is shipped.
    "asan": sanitized("asan", "address"),
    "ubsan": sanitized("ubsan", "undefined"),
    "tsan": sanitized("tsan", "thread"),
    "wheels": Session(
        "wheels for x86-64, Arm and any system, and an sdist, in dist/, with their tests",
        "rm -rf dist; mkdir dist; for machine in x86_64 aarch64 any; do wheel $machine; "
        "cp build/wheels/$machine/*.whl dist; done; python -m build --sdist --outdir dist; "
        "pytest -m wheels tests/packaging",
        "--group=wheels",
    ),
    "aarch64": Session(
        "the libraries of the wheel for 64-bit Arm, run by an emulator, against those of this machine",
        "wheel aarch64; debian qemu-aarch64 qemu-user; "
        "nox -s test -- pytest -m aarch64 tests/runtime/test_native.py tests/atc/test_plugin_library.py",
    ),
    "atc": Session(
        "the parser plugin for ATC and exported models in a stand-in for GE's parser, on Arm too",
        f"{WHEEL_HERE}; wheel aarch64; debian qemu-aarch64 qemu-user; "
        f"nox -s test -- {PYTEST} -m 'atc or not atc' tests/atc",
    ),
    # Searches and measurements.
    "determinism": Session(
        "the same bytes for 20 hash seeds, and on each of PYTHONS that is there",
        """
        packages=$(nox -s test -- uv pip freeze | grep -E '^(onnx|protobuf)==')
        for version in $PYTHONS; do
          folder=$PWD/.nox/python$version
          command -v python$version > /dev/null || continue
          [[ -e $folder ]] || uv venv --quiet --python python$version $folder
          uv pip install --quiet --python $folder numpy networkx $packages
          pythons+=" $folder/bin/python"
        done
        POOLGRAD_PYTHONS=${pythons:-} nox -s test -- pytest -m '' tests/determinism
        """,
    ),
    # -S: without the installation, which would come before what is compared.
    "replay": Session(
        "lower the built models as revision REV does and as this tree does, and list what changed",
        """
        rm -rf build/replay; mkdir -p build/replay/tree
        git archive $REV poolgrad_lowering patterns runtime | tar -x -C build/replay/tree
        assemble build/replay/before build/replay/tree; assemble build/replay/after
        packages=$(nox -s test -- python -c 'import onnx; print(onnx.__path__[0] + "/..")')
        for tree in before after; do
          nox -s test -- env PYTHONPATH=build/replay/$tree:$packages \\
            python -S -P tests/harness/determinism/fingerprints.py $(find models/built -name '*.onnx' | sort) \\
            > build/replay/$tree.json
        done
        nox -s test -- python tests/harness/determinism/compare.py build/replay/{before,after}.json
        """,
    ),
    "mutate": Session(
        "change the compiler's reasoning in one place after the other, list what no test notices (CONTRIBUTING.md)",
        """
        reach=build/mutation/reach.json
        read=$(echo poolgrad_lowering patterns tests/{poolgrad_lowering,patterns,generators,near_misses})
        [[ -e $reach && ! $(find $read -name '*.py' -newer $reach) ]] || python -m tests.mutation.reach $reach
        python -m tests.mutation --reach $reach $MUTANTS
        """,
        f"{ORT} --group=mutate --group=check",
    ),
    # What breaks a promise is left in build/fuzz. The corpora stay, and the next search begins with them. Half an hour
    # of pairs under atheris takes 9 GB, which the same runs without it do not. The host library is compiled without the
    # tables of vectors that need flags of their own.
    "fuzz-bytes": Session(
        "search for bytes that break a promise of CHECKS: models, pairs, provider_checks, host_calls; MINUTES for each",
        """
        ep=$(echo runtime/src/ep/{attributes,average_attributes,backward_legality,forward_legality}.cpp)
        provider_checks="$ep $(echo runtime/src/ep/{legality,pooling,routes,shape}.cpp) runtime/src/aclnn/*.cpp"
        host_calls=$(find runtime/src/host -name '*.cpp' ! -name avx2.cpp ! -name avx512.cpp)
        options="-max_total_time=$((60 * MINUTES)) -timeout=300 -rss_limit_mb=16384 -print_final_stats=1"
        assemble build/fuzz/package; mkdir -p build/fuzz/bin
        nox -s test -- python -m tests.fuzz.seeds build/fuzz/corpus
        for check in $CHECKS; do
          corpus=build/fuzz/corpus/$check; mkdir -p $corpus
          case $check in
            models|pairs) search="python -m tests.fuzz.search $check"; length=100000 ;;
            *)
              debian clang++ clang libclang-rt-dev
              clang++ -std=c++17 -g -O1 -Wall -Wextra -Werror -fsanitize=fuzzer,address,undefined \\
                -fno-sanitize-recover=all -Iruntime/src -Itests/harness/fuzz tests/harness/fuzz/$check.cpp ${!check} \\
                -pthread -ldl -o build/fuzz/bin/$check
              search=build/fuzz/bin/$check; length=512 ;;
          esac
          PYTHONSAFEPATH=1 PYTHONPATH=build/fuzz/package \\
            $search $corpus -max_len=$length $options -artifact_prefix=build/fuzz/$check-
        done
        """,
        "--group=fuzz",
    ),
    # Installed, not editable: what is measured is what a user has.
    "bench": Session(
        "measure everything, or QUESTIONS, beside other packages, and write docs/benchmarks.md (a large download)",
        "nox -s training -- true; nox -s cann-ep -- python tools/cann_home.py cann_ep; "
        "PYTHONSAFEPATH=1 POOLGRAD_TRAINING_PYTHON=.nox/training/bin/python "
        "POOLGRAD_CANN_PYTHON=.nox/cann-ep/bin/python POOLGRAD_CANN_HOME=$PWD/build/cann_ep "
        "python -m benchmarks.run $QUESTIONS",
        ".[ort] --requirements=benchmarks/requirements.txt",
    ),
}


def run(name: str, session: nox.Session) -> None:
    """Install the environment if it is not up to date, then run the command that was given, or those of the session."""
    found = SESSIONS[name]
    if WHEEL in found.installs:
        bash(session.run_install, WHEEL_HERE)
    if found.installs:
        install(session, found)
        if session.posargs:
            os.chdir(session.invoked_from)
            path = f"{session.bin}{os.pathsep}{os.environ['PATH']}"
            variables = {"PATH": path, "VIRTUAL_ENV": session.virtualenv.location}
            os.execvpe(session.posargs[0], session.posargs, os.environ | variables)
    bash(session.run, found.commands)


def bash(run: Callable[..., object], commands: str) -> None:
    """Run commands for bash; the first one that fails ends the session."""
    variables = OPTIONS | os.environ | (pip_settings() if "uv pip" in commands else {})
    run("bash", "-euo", "pipefail", "-c", f"source tools/functions.sh; {commands}", external=True, env=variables)


def install(session: nox.Session, found: Session) -> None:
    """Install an environment unless it is up to date; one with the newest onnxruntime never is."""
    folder = Path(session.virtualenv.location)
    state, stamp = found.state(), folder / ".made"
    if stamp.is_file() and stamp.read_text() == state and not session.name.endswith("-newest"):
        return
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "root_of_the_repository.pth").write_text(f"{ROOT}\n")
    for arguments in found.installs.split(";"):
        words = [str(next(ROOT.glob(WHEEL))) if word == WHEEL else word for word in arguments.split()]
        session.install(*words, "--reinstall-package=poolgrad-lowering", silent=False, env=pip_settings())
    stamp.write_text(state)


def pip_settings() -> dict[str, str]:
    """Return how pip is configured on this machine as variables of uv, which does not read pip's files."""
    names = {
        "find-links": "UV_FIND_LINKS",
        "index-url": "UV_DEFAULT_INDEX",
        "extra-index-url": "UV_EXTRA_INDEX_URL",
        "constraint": "UV_CONSTRAINT",
        "cert": "SSL_CERT_FILE",
    }
    python = sys._base_executable  # noqa: SLF001 - this process is in an environment, which has no pip
    listed = subprocess.run([python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False).stdout
    rows = (line.partition("=") for line in listed.splitlines())
    found = {name.rpartition(".")[2]: value.strip("'") for name, _, value in rows}
    settings = {variable: found[name] for name, variable in names.items() if name in found}
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", "PYTHON": python} | settings


for name, session in SESSIONS.items():
    function = partial(run, name)
    function.__doc__ = session.what
    backend = None if session.installs else "none"
    nox.session(function, name=name, venv_backend=backend)  # type: ignore[call-overload]
