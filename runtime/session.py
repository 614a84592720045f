"""Sessions that are sure to have the execution provider."""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.runtime.assignment import RECORD_ASSIGNMENT
from poolgrad_lowering.runtime.errors import SessionError
from poolgrad_lowering.runtime.library import get_ep_name
from poolgrad_lowering.runtime.registration import import_onnxruntime, provider_devices, register

if TYPE_CHECKING:
    import onnx
    import onnxruntime

# The session entry that asks for a backend, of the provider and of the custom operators.
BACKEND_ENTRY = f"ep.{get_ep_name().lower()}.backend"


def create_session(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    backend: str = "auto",
    session_options: onnxruntime.SessionOptions | None = None,
    **provider_options: str,
) -> onnxruntime.InferenceSession:
    """Return an onnxruntime session on the execution provider, which never falls back to another one.

    Nodes that the provider does not claim run on onnxruntime's CPU provider, as in any session; `assignment` tells
    which these are.

    Args:
        model: path, serialised model, or model.
        backend: "cann" for the NPU, "host" for the CPU, "auto" for the NPU where one answers and else the CPU.
        session_options: options without a provider; the provider is added to them. use_deterministic_compute is
            passed on to it.
        provider_options: further options of the provider. `deterministic="1"`: the bits of a sum do not depend on
            scheduling. On an NPU it is a switch of the process, which stays on. `device_id="1"`: the second of the
            devices that the process sees.

    Raises:
        OnnxRuntimeMissingError, LibraryMissingError: see `register`.
        SessionError: the session cannot be made; the message has the cause.
    """
    register()
    ort = import_onnxruntime()
    options = session_options if session_options is not None else ort.SessionOptions()
    if options.use_deterministic_compute:  # which onnxruntime does not show to plugin providers
        provider_options.setdefault("deterministic", "1")
    _add_provider(ort, options, {"backend": backend, **provider_options})
    try:
        # Without enable_fallback=0 onnxruntime's Python layer would answer any failure with a CPU session.
        session = ort.InferenceSession(_loadable(model), options, enable_fallback=0)
    except Exception as error:
        raise SessionError(f"onnxruntime cannot make a session on {get_ep_name()}: {error}") from error
    if get_ep_name() not in session.get_providers():
        raise SessionError(f"onnxruntime made a session without {get_ep_name()}: it has {session.get_providers()}")
    return session


def get_backend(session: onnxruntime.InferenceSession | None = None) -> str:
    """Return the backend that `session` runs on, "cann" or "host"; without a session, the one that "auto" takes.

    Raises what `register` raises.
    """
    register()
    requested = "auto" if session is None else _requested_backend(session)
    if requested != "auto":
        return requested
    (device, *_) = provider_devices(import_onnxruntime())
    backend: str = device.ep_metadata["backend"]
    return backend


def _add_provider(ort: ModuleType, options: onnxruntime.SessionOptions, provider_options: dict[str, str]) -> None:
    if options.has_providers():
        raise SessionError("session_options has providers already; pass options to which none was added")
    options.add_session_config_entry(RECORD_ASSIGNMENT, "1")
    device = _device(ort, provider_options.get("device_id", "0"))
    try:
        options.add_provider_for_devices([device], provider_options)
    except Exception as error:
        raise SessionError(f"onnxruntime does not accept {get_ep_name()} with {provider_options}: {error}") from error


def _device(ort: ModuleType, device_id: str) -> Any:
    """Return the provider's `OrtEpDevice` of this number. Raises `SessionError` if there is none."""
    devices = {device.ep_metadata["device_id"]: device for device in provider_devices(ort)}
    if device_id not in devices:
        raise SessionError(f"provider option device_id is '{device_id}'; it takes {', '.join(devices)}")
    return devices[device_id]


def _loadable(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> str | bytes:
    if isinstance(model, bytes):
        return model
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    return model.SerializeToString()


def _requested_backend(session: Any) -> str:
    try:
        requested: str = session.get_session_options().get_session_config_entry(BACKEND_ENTRY)
    except RuntimeError:  # a session made without the option
        return "auto"
    return requested
