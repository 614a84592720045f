# SPDX-License-Identifier: Apache-2.0

"""docs/runtime.md agrees with the provider: its options, and its advice for the codes of acl and aclnn."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.sessions.ep_process import run_python

PAGE = (Path(__file__).parents[2] / "docs" / "runtime.md").read_text(encoding="utf-8")
OPTIONS = re.findall(r"^\| `(\w+)` \|", PAGE.split("## Options")[1].split("\n## ")[0], re.MULTILINE)
_ROWS = re.findall(r"^\| (\d+) \| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
ADVICE = {int(code): (name, text) for code, name, text in _ROWS}
# Its advice is for a thread without a device, which a failure by request does not bring about.
NEEDS_NO_DEVICE = 161002

MESSAGES = """
import re
from tests.runtime.device_models import ALONE, alone_feeds, open_session
from tests.harness.sessions.host_control import HostLibrary

library, session = HostLibrary(), open_session(ALONE)
feeds = alone_feeds(1, 1, 4, 4)
messages = {}
for code in %s:
    library.fail("aclnnMaxPool3dWithArgmaxBackward", 1, code)
    try:
        session.run(None, feeds)
    except Exception as error:
        messages[code] = str(error)
answer(messages)
"""


def test_every_option_is_on_the_page() -> None:
    code = """
from tests.runtime.device_models import ALONE, model_of
from poolgrad_lowering.runtime import SessionError, create_session
try:
    create_session(model_of(ALONE), unknown="1")
except SessionError as error:
    answer(str(error))
"""
    listed = re.search(r"is no provider option; there are: ([\w, ]+)", run_python(code))
    assert listed is not None
    assert listed[1].split(", ") == OPTIONS


def test_every_advice_is_given() -> None:
    assert len(ADVICE) > 10
    messages = run_python(MESSAGES % list(ADVICE))
    for code, (name, text) in ADVICE.items():
        message = messages[str(code)]
        assert f"aclnnMaxPool3dWithArgmaxBackward failed with {code} ({name})" in message
        assert message.endswith(f"; {text}") == (code != NEEDS_NO_DEVICE)


def test_no_other_code_has_advice() -> None:
    table = Path(__file__).parents[2] / "runtime" / "src" / "abi" / "acl_error_table.h"
    others = {int(code) for code in re.findall(r"X\(\w+, (\d+)\)", table.read_text(encoding="utf-8"))} - {0, *ADVICE}
    messages = run_python(MESSAGES % sorted(others))
    for code in others:
        assert re.search(rf"made to fail by request \({code} \w+\)$", messages[str(code)])


@pytest.mark.parametrize("option", OPTIONS)
def test_a_value_that_an_option_does_not_take(option: str) -> None:
    code = f"""
from tests.runtime.device_models import ALONE, model_of
from poolgrad_lowering.runtime import SessionError, create_session
try:
    create_session(model_of(ALONE), **{{"{option}": "maybe"}})
except SessionError as error:
    answer(str(error))
"""
    assert f"provider option {option} is 'maybe'; it takes" in run_python(code)
