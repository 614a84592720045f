# SPDX-License-Identifier: Apache-2.0

"""The options that the CANN provider gets, by SoC; no CANN is needed."""

from __future__ import annotations

import logging

import pytest

from poolgrad_lowering.model.diagnostics.errors import SessionError
from poolgrad_lowering.runtime.cann_provider import note_precision, require_one_precision, set_defaults

KEEPS = {"enable_cann_subgraph": "1", "dump_om_model": "0", "precision_mode": "must_keep_origin_dtype"}


@pytest.mark.parametrize("soc", ["Ascend950PR_9599", "Ascend910B1", "Ascend910B4-1", "Ascend910_9391"])
def test_products_with_float32_keep_it(soc: str, caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, str] = {}
    set_defaults(options, soc)
    assert options == KEEPS
    assert caplog.messages == []


@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910A", "Ascend910ProB", "Ascend910PremiumA", "Ascend910B"])
def test_products_without_it_get_float16_where_they_must_and_say_so(soc: str, caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, str] = {}
    with caplog.at_level(logging.WARNING, "poolgrad_lowering"):
        set_defaults(options, soc)
    assert options["precision_mode"] == "allow_fp32_to_fp16"
    [message] = caplog.messages
    assert message.startswith(f"{soc} has no float32 unit")


def test_what_a_user_sets_stays() -> None:
    given = {"enable_cann_subgraph": "1", "dump_om_model": "1", "precision_mode": "force_fp16", "device_id": "1"}
    options = dict(given)
    set_defaults(options, "Ascend910B1")
    assert options == given


def test_single_operators_need_no_options() -> None:
    options = {"enable_cann_graph": "0"}
    set_defaults(options, "Ascend910B1")
    assert options == {"enable_cann_graph": "0"}


def test_the_whole_graph_or_nothing_is_refused() -> None:
    with pytest.raises(SessionError, match="takes a whole graph or nothing"):
        set_defaults({"enable_cann_subgraph": "0"}, "Ascend910B1")


def test_one_precision_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolgrad_lowering.runtime.cann_provider._of_process", [])
    require_one_precision({"precision_mode": "force_fp16"})
    note_precision({"precision_mode": "force_fp16"})
    require_one_precision({"precision_mode": "force_fp16"})
    with pytest.raises(SessionError, match=r"precision_mode is force_fp16 in this process.*for must_keep"):
        require_one_precision(KEEPS)
