# SPDX-License-Identifier: Apache-2.0

"""`poolgrad self-test`: its report when all checks pass, and for each kind of failure."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.runtime.doctor import diagnose
from poolgrad_lowering.runtime.self_test import operator_checks, tester
from poolgrad_lowering.runtime.self_test.average_cases import AVERAGE_CASES, average_gradient
from poolgrad_lowering.runtime.self_test.cases import CASES, ELEMENT_TYPES
from poolgrad_lowering.runtime.self_test.checks import Check, Outcome, all_checks, perform
from poolgrad_lowering.runtime.self_test.data import special, spread, ties, whole
from poolgrad_lowering.runtime.self_test.poolings import Pooling
from poolgrad_lowering.runtime.self_test.recorded import recorded
from poolgrad_lowering.runtime.self_test.reference import Gradient, gradient, pool
from poolgrad_lowering.runtime.self_test.result import Row, SelfTest
from poolgrad_lowering.runtime.self_test.text import to_text
from tests.harness.cann.installations import host_library_without, install
from tests.harness.sessions.ep_process import run_python
from tests.oracles import adaptive_windows, ascend_pool, assert_same_bits, pool_gradient, pool_windows
from tests.oracles.training_operators import average_pool_grad, average_windows_grad

PAGE = (Path(__file__).parents[2] / "docs" / "hardware.md").read_text(encoding="utf-8")
CANN_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH")
AVERAGES = {pooling.title: pooling for _, pooling in AVERAGE_CASES}
BY_TITLE = {case.pooling.title + case.pool.name: case.pooling for case in CASES}


@pytest.fixture(autouse=True)
def without_cann(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*CANN_VARIABLES, "ACLNN_HOST_SOC", "ACLNN_HOST_STRICT", "ACLNN_HOST_FAIL"):
        monkeypatch.delenv(name, raising=False)


def check_of(operator: str, title: str, element_type: str = "float32") -> Check:
    [found] = [c for c in all_checks() if (c.operator, c.title, c.element_type) == (operator, title, element_type)]
    return found


def test_the_page_shows_what_the_host_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["self-test", "--backend", "host"]) == 0
    _, _, *printed = capsys.readouterr().out.splitlines()  # the first line has versions, the second is empty
    [shown] = re.findall(r"^```text\n(operator .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert [line for line in printed if line in shown.splitlines()] == shown.splitlines()


def test_the_page_shows_each_function() -> None:
    rows = set(re.findall(r"^(\w+) .* (aclnn\w+) ", PAGE, re.MULTILINE))
    assert {operator for operator, _ in rows} == {check.operator for check in all_checks() if check.operator}


def test_a_device_with_memory_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(install(tmp_path / "cann")))
    monkeypatch.setenv("ACLNN_HOST_SOC", "Ascend910B3")
    monkeypatch.setenv("ACLNN_HOST_STRICT", "1")
    assert main(["self-test", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema_version"], found["passed"], found["backend"], found["problem"]) == (1, True, "cann", None)
    others = dict.fromkeys(("close", "different", "refused", "error"), 0)
    assert found["counts"] == {"ok": len(all_checks()) + 1, **others}
    assert found["machine"]["auto"]["backend"] == "cann"
    for row in found["rows"]:
        if row["operator"] == "MaxPoolGradWithArgmaxV3":
            assert row["function"] == "aclnnMaxPool3dWithArgmaxBackward"
        elif row["operator"]:
            assert re.search(rf"^{row['operator']} .* {row['function']} ", PAGE, re.MULTILINE)


def test_a_backend_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["self-test", "--backend", "cann"]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("backend cann, onnxruntime ")
    assert second.startswith("nothing was tested: ")
    assert "ASCEND_HOME_PATH is not set" in second


def test_no_backend_that_auto_could_take(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLNN_HOST_SOC", "Ascend310P3")
    assert main(["self-test"]) == 1
    assert "nothing was tested: " in capsys.readouterr().out


PERFORM = """
from poolgrad_lowering.runtime.self_test.checks import all_checks, perform
answer([perform(check, "cann")[:2] for check in all_checks() if check.operator == "{operator}"][:2])
"""


def test_a_function_that_cann_lacks_is_a_refusal(tmp_path: Path) -> None:
    library = host_library_without(tmp_path / "libhost.so", "aclnnMaxPool2dWithIndices")
    home = str(install(tmp_path / "cann", library))
    outcomes = run_python(PERFORM.format(operator="MaxPoolWithArgmaxV3"), ASCEND_HOME_PATH=home)
    assert outcomes == [["refused", "the provider left MaxPoolWithArgmaxV3 to its function body"]] * 2


def test_a_call_that_fails_is_an_error_and_the_next_check_goes_on(tmp_path: Path) -> None:
    environment = {
        "ASCEND_HOME_PATH": str(install(tmp_path / "cann")),
        "ACLNN_HOST_FAIL": "aclnnMaxPool2dWithIndices:1:561003",
    }
    failed, ok = run_python(PERFORM.format(operator="MaxPoolWithArgmaxV3"), **environment)
    assert failed[0] == "error"
    assert failed[1].startswith(
        "Fail: MaxPoolWithArgmaxV3 node 'MaxPoolWithArgmaxV3': aclnnMaxPool2dWithIndices failed"
    )
    assert ok == ["ok", None]


@pytest.mark.parametrize(
    ("operator", "name", "what"),
    [("MaxPool3DWithArgmaxV2", "check_pool", "argmax of ties"), ("MaxPool3DGradWithArgmax", "check_gradient", "dx of")],
)
def test_another_result_is_different(operator: str, name: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(x: Any, windows: Any) -> Any:
        y, argmax = pool(x, windows)
        return y, argmax ^ 1 if name == "check_pool" else argmax

    def sign_lost(*arguments: Any) -> Any:
        found = gradient(*arguments)
        return found._replace(y=np.abs(found.y))

    monkeypatch.setattr(operator_checks, "pool", shifted)
    monkeypatch.setattr(operator_checks, "gradient", sign_lost)
    outcome = perform(check_of(operator, "2-D"), "host")
    assert outcome.status == "different"
    assert outcome.detail is not None
    assert outcome.detail.startswith(what)


AS_RECORDED = ("MaxPool3DGradWithArgmax", "as recorded")


def test_another_order_of_sums_than_in_the_recorded_calls_is_close() -> None:
    outcome = perform(check_of(*AS_RECORDED), "host")
    assert outcome.status == "close"
    assert (outcome.detail or "").startswith(
        "10 of 50 calls: sums are rounded otherwise. y of x (1, 3, 1, 1, 20): 3 of"
    )
    assert SelfTest("host", None, [row_of("close"), row_of("ok")], diagnose()).passed


@pytest.mark.parametrize("name", ["argmax", "y"])
def test_another_result_than_in_the_recorded_calls_is_different(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = "MaxPool3DWithArgmaxV2" if name == "argmax" else AS_RECORDED[0]
    call = next(call for call in recorded() if call.op.name == operator)
    changed = call.tensors[name].copy()
    changed.flat[-1] += 1
    monkeypatch.setitem(call.tensors, name, changed)
    if name == "y":  # neither the backend nor the record has the definition's result
        monkeypatch.setattr(
            operator_checks, "gradient", lambda *given: Gradient(np.full(given[0], 7.0), np.zeros(given[0]))
        )
    outcome = perform(check_of(operator, "as recorded"), "host")
    assert outcome.status == "different"
    assert (outcome.detail or "").startswith(name)


def test_a_sum_beyond_its_tolerance_is_different(monkeypatch: pytest.MonkeyPatch) -> None:
    def tighter(x_shape: Any, grad: Any, argmax: Any, epsilon: float) -> Any:
        found = gradient(x_shape, grad, argmax, epsilon)
        return found._replace(y=found.y + 2 * found.tolerance)

    monkeypatch.setattr(operator_checks, "gradient", tighter)
    monkeypatch.setattr(operator_checks, "check_same", lambda *_: None)
    outcome = perform(check_of("MaxPool3DGradWithArgmax", "2-D overlapping"), "host")
    assert outcome.status == "different"
    assert outcome.detail is not None
    assert outcome.detail.startswith("dx of rounded sums")


WORKER = """
import json, os, sys, time
_, backend, first, descriptor = sys.argv
for number in range(int(first), {count}):
    if number in {ends}:
        {how}
    os.write(int(descriptor), (json.dumps(dict(status="ok", detail=None, seconds=0.0)) + "\\n").encode())
{at_end}
"""


def outcomes_of(path: Path, monkeypatch: pytest.MonkeyPatch, **program: Any) -> list[tuple[str, str | None]]:
    """The report on six checks with this program as the worker."""
    path.write_text(WORKER.format(**{"count": 6, "ends": [], "how": "pass", "at_end": ""} | program))
    monkeypatch.setattr(tester, "__file__", str(path))
    found: list[Outcome] = []
    tester._perform(6, "cann", found.append)
    return [(outcome.status, outcome.detail) for outcome in found]


OK = ("ok", None)
KILLED = "its process was ended by signal 9 (Killed)"


def test_a_process_that_ends_takes_only_its_check_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcomes_of(tmp_path / "worker.py", monkeypatch, ends=[2, 5], how="os.kill(os.getpid(), 9)")
    assert found == [OK, OK, ("error", KILLED), OK, OK, ("error", KILLED), OK]


def test_processes_are_not_started_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcomes_of(tmp_path / "worker.py", monkeypatch, ends=range(6), how="sys.exit('no device')")
    assert found == [("error", "no device")] * 5 + [("error", "not run: 5 processes have ended")] * 2


def test_a_process_that_asks_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = json.dumps({"status": "error", "detail": "device", "seconds": 0.0}) + "\n"
    give_up = f"os.write(int(descriptor), {error.encode()!r}); sys.exit()"
    found = outcomes_of(tmp_path / "worker.py", monkeypatch, ends=range(6), how=give_up)
    assert found == [("error", "device")] * 6 + [OK]


def test_a_device_that_failed_is_left_to_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLNN_HOST_FAIL", "aclnnMaxPool3dWithArgmaxBackward:3:507015")  # each check calls it twice
    outcomes = list(tester._work("host", 0))
    assert [outcome.status for outcome in outcomes if isinstance(outcome, Outcome)] == ["ok", "error"]
    assert len(outcomes) == 2


def test_a_check_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every one hangs: how long a process takes to start makes no difference.
    monkeypatch.setattr(tester, "_SECONDS", 0.2)
    found = outcomes_of(tmp_path / "worker.py", monkeypatch, ends=range(6), how="time.sleep(60)")
    assert found == [("error", "not done within 0 s")] * 5 + [("error", "not run: 5 processes have ended")] * 2


def test_a_process_that_ends_badly_after_all_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcomes_of(tmp_path / "worker.py", monkeypatch, at_end="os.kill(os.getpid(), 9)")
    assert found == [OK] * 6 + [("error", KILLED)]


def test_the_text_says_each_thing_once() -> None:
    machine = diagnose()
    rows = [Row("2-D", "Op", kind.name, "aclnn", "refused", "left", 0.0) for kind in ELEMENT_TYPES]
    text = to_text(SelfTest("host", None, rows, machine))
    assert text.endswith("\nOp 2-D float32 and 2 more: refused: left\n0 ok, 0 close, 0 different, 3 refused, 0 error\n")
    assert "\nOp        2-D      aclnn    refused  refused  refused\n" in text


def row_of(status: str) -> Row:
    return Row("2-D", "Op", "float32", "aclnn", status, "why", 0.0)


def test_nothing_but_refusals_does_not_pass() -> None:
    machine = diagnose()
    assert not SelfTest("host", None, [row_of("refused")], machine).passed
    assert SelfTest("host", None, [row_of("refused"), row_of("ok")], machine).passed


@pytest.mark.parametrize("case", BY_TITLE.values(), ids=BY_TITLE)
def test_the_reference_is_the_definition(case: Pooling) -> None:
    spatial = case.x_shape[2:]
    if case.output_size:
        windows = [adaptive_windows(*axis) for axis in zip(spatial, case.output_size, strict=True)]
    else:
        axes = zip(spatial, case.kernel, case.strides, case.pads, [1] * len(spatial), strict=True)
        windows = [pool_windows(*axis, ceil_mode=case.ceil_mode) for axis in axes]
    for x in (ties(case.x_shape), special(case.x_shape)):
        y, argmax = pool(x, case.windows())
        expected_y, expected_argmax = ascend_pool(x, windows)
        assert_same_bits(y, expected_y)
        assert_same_bits(argmax, expected_argmax.astype(np.int32))

    planes = np.arange(case.x_shape[0] * case.x_shape[1]).reshape(*case.x_shape[:2], *[1] * len(spatial))
    everywhere = planes * int(np.prod(spatial)) + argmax
    exact = gradient(case.x_shape, whole(argmax.shape), argmax, 0.0)
    assert_same_bits(exact.y.astype(np.float32), pool_gradient(case.x_shape, whole(argmax.shape), everywhere))
    for element in ELEMENT_TYPES:
        grad = spread(argmax.shape, element)
        assert element.name != "float16" or np.abs(grad).max() < 2.0**6  # sums stay far below its largest, 2^16
        found, tolerance = gradient(case.x_shape, grad, argmax, 2.0**-element.fraction_bits)
        summed = pool_gradient(case.x_shape, grad, everywhere)
        assert (np.abs(summed - found) <= tolerance).all()


def test_overlapping_windows_have_sums_that_are_rounded() -> None:
    case = BY_TITLE["2-D overlappingMaxPool3DWithArgmaxV2"]
    _, argmax = pool(ties(case.x_shape), case.windows())
    for element in ELEMENT_TYPES:
        grad = spread(argmax.shape, element)
        assert (gradient(case.x_shape, grad, argmax, 2.0**-element.fraction_bits).tolerance > 0).any()


@pytest.mark.parametrize("pooling", AVERAGES.values(), ids=AVERAGES)
def test_the_reference_of_averages_is_the_definition(pooling: Pooling) -> None:
    grad = spread(pooling.pooled_shape, ELEMENT_TYPES[0]).astype(np.float64)
    if pooling.output_size:
        windows = [adaptive_windows(*axis) for axis in zip(pooling.x_shape[2:], pooling.output_size, strict=True)]
        expected = average_windows_grad(grad, pooling.x_shape, windows)
    else:
        expected = average_pool_grad(
            grad,
            pooling.x_shape,
            kernel=pooling.kernel,
            strides=pooling.strides,
            begins=pooling.pads,
            ends=pooling.pads,
            counts_padding=pooling.count_include_pad,
            divisor=pooling.divisor or None,
        )
    found = average_gradient(pooling, grad, 2.0**-23)
    np.testing.assert_allclose(found.y, expected, rtol=1e-12)
    assert not pooling.title.endswith("padded") or (expected == 0).any()


def test_another_average_is_different(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        operator_checks, "average_gradient", lambda pooling, grad, epsilon: average_gradient(pooling, 2 * grad, epsilon)
    )
    for title, what in (("2-D", "dx of whole numbers"), ("2-D overlapping", "dx of rounded sums")):
        outcome = perform(check_of("AvgPool3DGrad", title), "host")
        assert outcome.status == "different"
        assert outcome.detail is not None
        assert outcome.detail.startswith(what)
