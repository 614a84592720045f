# SPDX-License-Identifier: Apache-2.0

"""A parser plugin in a process of its own, and what its callbacks make of nodes.

`cpp/driver.cpp` opens the library. A request is one line of JSON, and so is an answer; texts cross as one character for
each byte.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from tests.harness.ge.compiling import NATIVE, Machine, standin

SUCCESS = 0
"""GE's status; every other number is a failure."""

ONNX = 5
"""GE's number of the framework."""


class PluginError(Exception):
    """The library did not open, or its process ended in a callback."""


@dataclass(frozen=True)
class Registration:
    """What a plugin registers for one key.

    Attributes:
        type: the GE type of the operator.
        framework: `ONNX`, or the number of another framework.
        by_operator: whether there is a callback by operator.
    """

    type: str
    framework: int
    imply: int
    by_operator: bool


@dataclass(frozen=True)
class Attribute:
    """An attribute of a GE operator. `type` is BOOL, INT, STRING, LIST_INT or LIST_STRING."""

    type: str
    value: Any


@dataclass(frozen=True)
class Tensor:
    """The description of an input or output of a GE operator; formats are GE's numbers."""

    name: str
    format: int
    origin_format: int


@dataclass(frozen=True)
class Parsed:
    """What a callback returned and left in the destination operator, and what the plugin wrote to its outputs."""

    status: int
    attributes: Mapping[str, Attribute]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    written: str


class AnyPlugin(Protocol):
    """What the front end needs of a plugin; `Plugin` says what the members are."""

    @property
    def registrations(self) -> Mapping[str, Registration]: ...

    def parse(
        self,
        key: str,
        source: Mapping[str, Any],
        *,
        inputs: Sequence[str],
        outputs: Sequence[str],
        defaults: Mapping[str, Any],
    ) -> Parsed: ...


class Plugin:
    """A plugin opened as ATC opens it (RTLD_NOW). A context manager: the process ends with it.

    Raises:
        PluginError: the library does not open.
    """

    def __init__(self, library: Path, machine: Machine = NATIVE, *extra: str) -> None:
        command = [*machine.runner, str(standin(machine, *extra) / "driver"), str(library)]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, encoding="ascii"
        )
        self._read = 0
        self.registrations = {key: Registration(**row) for key, row in self._answer().items()}

    def __enter__(self) -> Plugin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()
        self._errors.close()

    def parse(
        self,
        key: str,
        source: Mapping[str, Any],
        *,
        inputs: Sequence[str],
        outputs: Sequence[str],
        defaults: Mapping[str, Any] | None = None,
    ) -> Parsed:
        """Return what the callback of `key` makes of a node.

        Args:
            key: `<domain>::<version>::<operator>`, registered.
            source: the attributes of the source operator: texts, and lists of texts.
            inputs: the names of the destination operator's inputs.
            outputs: those of its outputs.
            defaults: attributes that the destination operator has before the call.

        Raises:
            PluginError: the process ended.
        """
        request = {"key": key, "source": source, "defaults": defaults or {}, "inputs": inputs, "outputs": outputs}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(_as_bytes(request)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PluginError("the process has ended already") from None
        answer = self._answer()
        return Parsed(
            answer["status"],
            {name: Attribute(**attribute) for name, attribute in answer["attributes"].items()},
            [Tensor(**tensor) for tensor in answer["inputs"]],
            [Tensor(**tensor) for tensor in answer["outputs"]],
            self._written(),
        )

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            raise PluginError(f"the plugin's process ended with status {status}: {self._written()}")
        answer: dict[str, Any] = _as_text(json.loads(line))
        return answer

    def _written(self) -> str:
        """Return what the process has written since the last call."""
        descriptor = self._errors.fileno()
        end = os.fstat(descriptor).st_size
        data = os.pread(descriptor, end - self._read, self._read)
        self._read = end
        return data.decode(errors="replace")


def _as_bytes(value: Any) -> Any:
    """Replace each text by one that has a character for each of its bytes."""
    return _mapped(value, lambda text: text.encode("utf-8", "surrogateescape").decode("latin-1"))


def _as_text(value: Any) -> Any:
    return _mapped(value, lambda text: text.encode("latin-1").decode("utf-8", "surrogateescape"))


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(name): _mapped(each, change) for name, each in value.items()}
    if isinstance(value, Sequence):
        return [_mapped(each, change) for each in value]
    return value
