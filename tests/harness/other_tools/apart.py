# SPDX-License-Identifier: Apache-2.0

"""Runs tools in a process of their own: some of them print, crash or do not end."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import warnings
from multiprocessing.connection import Connection
from types import TracebackType

from onnx import ModelProto

from tests.other_tools.producers import TOOLS

_CONTEXT = multiprocessing.get_context("spawn")


class ToolError(Exception):
    """The tool raised an error, crashed or did not end."""


class Apart:
    """A process that applies tools; it is started again after a crash."""

    def __init__(self, seconds: float = 120) -> None:
        self._seconds = seconds
        self._folder = tempfile.TemporaryDirectory()
        self._start()

    def _start(self) -> None:
        self._connection, other = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_serve, args=(other, self._folder.name), daemon=True)
        self._process.start()
        other.close()

    def apply(self, tool: str, model: ModelProto) -> ModelProto:
        """Return what the tool makes of the model, which stays as it is.

        Raises:
            ToolError: it makes nothing of it.
        """
        try:
            self._connection.send((tool, model.SerializeToString()))
            answered = self._connection.poll(self._seconds)
            made, error = self._connection.recv() if answered else (b"", f"no end after {self._seconds} s")
        except (EOFError, OSError):
            answered = False
            self._process.join()
            made, error = b"", f"crash, exit code {self._process.exitcode}"
        if not answered:
            self._end()
            self._start()
        if error:
            raise ToolError(error)
        return ModelProto.FromString(made)

    def _end(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()
        self._folder.cleanup()


def _serve(connection: Connection, folder: str) -> None:
    warnings.simplefilter("ignore")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for standard in (1, 2):
        os.dup2(nowhere, standard)
    os.chdir(folder)  # some tools leave files where they run
    while True:
        try:
            tool, data = connection.recv()
        except EOFError:
            return
        try:
            made = TOOLS[tool].apply(ModelProto.FromString(data)).SerializeToString()
        except (Exception, SystemExit) as error:  # whatever a tool raises is its answer
            connection.send((b"", f"{type(error).__name__}: {error}"))
        else:
            connection.send((made, ""))
