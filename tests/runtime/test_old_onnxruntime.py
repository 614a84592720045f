# SPDX-License-Identifier: Apache-2.0

"""The library in an onnxruntime that is too old for it.

Most are made up here: they have a version and make statuses. `make test-matrix` installs a real one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import onnxruntime
import pytest

from poolgrad_lowering.model.io.onnxruntime import is_new_enough
from poolgrad_lowering.runtime import OnnxRuntimeMissingError, get_ep_name, get_library_path, register

STATUS = 0x57A7
GetApi = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
GetVersionString = ctypes.CFUNCTYPE(ctypes.c_void_p)
CreateStatus = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)


@contextmanager
def onnxruntime_of(release: str, messages: list[str]) -> Iterator[ctypes.Array[ctypes.c_void_p]]:
    """An OrtApiBase of this release; the messages of its statuses go to `messages`."""
    text = ctypes.create_string_buffer(release.encode())
    newest = int(release.split(".")[1])

    def create_status(_code: int, message: bytes) -> int:
        messages.append(message.decode())
        return STATUS

    create = CreateStatus(create_status)
    api = (ctypes.c_void_p * 1)(ctypes.cast(create, ctypes.c_void_p))
    get_api = GetApi(lambda version: ctypes.addressof(api) if 1 <= version <= newest else None)
    get_version = GetVersionString(lambda: ctypes.addressof(text))
    yield (ctypes.c_void_p * 2)(ctypes.cast(get_api, ctypes.c_void_p), ctypes.cast(get_version, ctypes.c_void_p))


@pytest.mark.parametrize("release", ["1.18.1", "1.8.0"])
def test_custom_operators(release: str) -> None:
    register = ctypes.CDLL(get_library_path()).RegisterCustomOps
    register.argtypes, register.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_void_p
    messages: list[str] = []
    with onnxruntime_of(release, messages) as base:
        assert register(None, base) == STATUS
    assert messages == [
        f"domain npu as custom operators needs onnxruntime 1.19 or newer, this is {release}; "
        "pip install 'onnxruntime>=1.19'"
    ]


def test_provider() -> None:
    create = ctypes.CDLL(get_library_path()).CreateEpFactories
    create.argtypes = [ctypes.c_char_p, *[ctypes.c_void_p] * 3, ctypes.c_size_t, ctypes.c_void_p]
    create.restype = ctypes.c_void_p
    messages: list[str] = []
    count = ctypes.c_size_t(7)
    with onnxruntime_of("1.23.2", messages) as base:
        factories = (ctypes.c_void_p * 1)()
        assert create(b"name", base, None, factories, 1, ctypes.byref(count)) == STATUS
    assert count.value == 0
    assert messages == [
        "AclnnExecutionProvider needs onnxruntime 1.24.1 or newer, this is 1.23.2; pip install 'onnxruntime>=1.24.1'"
    ]


@pytest.mark.skipif(is_new_enough(onnxruntime.__version__), reason="the installed onnxruntime is new enough")
def test_installed_release() -> None:
    release = onnxruntime.__version__
    with pytest.raises(OnnxRuntimeMissingError, match=rf"onnxruntime {release} .*pip install 'onnxruntime>=1\.24\.1'"):
        register()
    with pytest.raises(Exception, match=rf"needs onnxruntime 1\.24\.1 or newer, this is {release}"):
        onnxruntime.register_execution_provider_library(get_ep_name(), get_library_path())
