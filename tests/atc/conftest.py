# SPDX-License-Identifier: Apache-2.0

"""The parser plugin that ships, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.atc.shipped import is_built, shipped_library
from tests.harness.ge.driver import AnyPlugin, Plugin
from tests.harness.ge.python_plugin import PythonPlugin


@pytest.fixture(scope="session")
def library() -> Iterator[Plugin]:
    """The library of this machine in a process, or a skip."""
    with Plugin(shipped_library()) as opened:
        yield opened


@pytest.fixture(params=["python", "library"])
def plugin(request: pytest.FixtureRequest) -> AnyPlugin:
    """The plugin in Python, which shows what the stand-in does, and the library."""
    return PythonPlugin() if request.param == "python" else request.getfixturevalue("library")


@pytest.fixture
def shipped(request: pytest.FixtureRequest) -> AnyPlugin:
    """The library, or the plugin in Python where it is not built: one test compares them for every built model."""
    return request.getfixturevalue("library") if is_built() else PythonPlugin()
