# SPDX-License-Identifier: Apache-2.0

"""torch_npu and onnxruntime with our provider in one process: who comes first, who ends first, threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest

from tests.harness.sessions.host_control import HostLibrary
from tests.harness.torch_npu import endings
from tests.harness.torch_npu.client import ATLAS_A2, QUEUES, STRICT, run_client, run_to_the_end, start
from tests.oracles import assert_same_bits
from tests.runtime.device_models import ALONE, CHAIN, alone_feeds, expected, image, open_session

pytestmark = pytest.mark.torch_npu

FIRST = ("torch_npu", "provider")
ENDS = ("with the check", "before torch_npu", "after torch_npu", "with the interpreter")
RELEASE_AT_EXIT = "from tests.harness.torch_npu.endings import release_at_exit; release_at_exit()\n"
IMPORT_TORCH_NPU = "import torch_npu\n"
# Without acl the provider only tries to make its device current.
AFTER_THE_END = {"aclrtGetDevice", "aclrtSetDevice", "aclGetRecentErrMsg"}
THREADS = 3
RUNS = 10


def open_chain() -> Callable[[int], None]:
    """A session of pool and gradient, as a function that runs it once."""
    session = open_session(CHAIN, backend="cann")

    def run(seed: int) -> None:
        feeds = {"x": image(2, 3, 8, 6, seed=seed)}
        for found, wanted in zip(session.run(None, feeds), expected(CHAIN, feeds), strict=True):
            assert_same_bits(found, wanted)

    return run


def open_torch() -> Callable[[int], None]:
    """A pool and its gradient in torch_npu, as a function that runs them once."""
    torch = start()
    pool = torch.nn.functional.max_pool2d

    def run(seed: int) -> None:
        results = []
        for device in ("cpu", "npu"):
            leaf = torch.from_numpy(image(2, 3, 8, 6, seed=seed)).to(device).requires_grad_()
            y = pool(leaf, 3, 2)
            y.backward(y.detach())
            results.append([y.detach().cpu().numpy(), leaf.grad.cpu().numpy()])
        for found, wanted in zip(*reversed(results), strict=True):
            assert_same_bits(found, wanted)

    return run


OPENINGS = {"torch_npu": open_torch, "provider": open_chain}


def check_alternating(first: str, end: str) -> None:
    """Both compute by turns, on several sessions."""
    runs = [OPENINGS[name]() for name in (first, *FIRST, "provider")]
    for seed, run in itertools.product(range(3), runs):
        run(seed)
    if end != "with the check":
        endings.kept.extend(runs)
    if end == "before torch_npu":
        endings.release_at_exit()


def run_alternating(first: str, end: str, **settings: str) -> set[str] | None:
    """Return the functions that are called after aclFinalize. What is registered at exit last runs first."""
    prelude = RELEASE_AT_EXIT if end == "after torch_npu" else ""
    if first == "torch_npu":
        prelude += IMPORT_TORCH_NPU
    return run_to_the_end(check_alternating, first, end, prelude=prelude, **settings, **STRICT)[1]


def check_determinism() -> None:
    """torch_npu sets the process's switch by its own setting; a session sets it again before each phase 1."""
    session = open_session(ALONE, backend="cann", deterministic="1")
    torch, library = start(), HostLibrary()
    x = torch.from_numpy(image(1, 1, 4, 4)).npu()
    for size, setting in enumerate([False, True, False], 1):
        torch.use_deterministic_algorithms(setting)
        assert switches(library, lambda: torch.nn.functional.max_pool2d(x, 2)) == [int(setting)]
        assert switches(library, lambda size=size: session.run(None, alone_feeds(1, 1, 4, 4 * size))) == [1]


def switches(library: HostLibrary, run: Callable[[], object]) -> list[int]:
    """The switch of determinism in each phase 1."""
    return [call["deterministic"] for call in library.trace(run) if "deterministic" in call]


def check_threads() -> None:
    """Some threads run sessions of their own and one that all use, the others torch_npu."""
    shared = open_chain()
    failures: list[BaseException] = []

    def work(opening: Callable[[], Callable[[int], None]]) -> None:
        try:
            run = opening()
            for seed in range(RUNS):
                run(seed)
        except BaseException as error:
            failures.append(error)

    openings = [opening for _ in range(THREADS) for opening in (open_chain, open_torch, lambda: shared)]
    threads = [threading.Thread(target=work, args=[opening]) for opening in openings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("first", FIRST)
def test_by_turns(first: str, end: str) -> None:
    """torch_npu finalises acl if it was the first to initialise it."""
    called = run_alternating(first, end)
    if first == "provider":
        assert called is None
    elif end in ("with the check", "before torch_npu"):
        assert called == set()
    else:
        assert called == AFTER_THE_END


def test_by_turns_on_another_product() -> None:
    assert run_alternating("torch_npu", "after torch_npu", soc=ATLAS_A2) == AFTER_THE_END


def test_determinism() -> None:
    run_client(check_determinism, queue="0", **STRICT)


@pytest.mark.parametrize("host_mode", [{}, STRICT], ids=["lenient", "strict"])
@pytest.mark.parametrize("queue", QUEUES)
def test_threads(queue: str, host_mode: dict[str, str]) -> None:
    run_client(check_threads, queue=queue, **host_mode)
