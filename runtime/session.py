# SPDX-License-Identifier: Apache-2.0

"""Creates sessions that are guaranteed to have the execution provider."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.model.diagnostics.errors import SessionError
from poolgrad_lowering.model.io.onnxruntime import import_onnxruntime, quoted, type_without_kernel
from poolgrad_lowering.model.io.results import model_of
from poolgrad_lowering.runtime.assignment import RECORD_ASSIGNMENT, assignment
from poolgrad_lowering.runtime.cann_provider import (
    CANN_PROVIDER,
    is_graph_mode,
    note_precision,
    require_one_precision,
    set_defaults,
)
from poolgrad_lowering.runtime.graph_mode import for_graph_mode, parsed
from poolgrad_lowering.runtime.library import get_ep_name, provider_devices, register

if TYPE_CHECKING:
    import onnx
    import onnxruntime

    from poolgrad_lowering.model.io.results import WithModel
    from poolgrad_lowering.model.ir.index import ModelIndex

# The session entry that selects the backend of the provider and of the custom operators.
BACKEND_ENTRY = f"ep.{get_ep_name().lower()}.backend"


def create_session(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto | WithModel,
    *,
    backend: str = "auto",
    providers: Sequence[str | tuple[str, Mapping[str, str]]] | None = (),
    require_nodes: bool = False,
    session_options: onnxruntime.SessionOptions | None = None,
    force: bool = False,
    **provider_options: str | int,
) -> onnxruntime.InferenceSession:
    """Return an onnxruntime session on the execution provider, without fallback to a session that lacks it.

    Nodes that the provider does not claim run on the `providers`, and all others on onnxruntime's CPU provider;
    `assignment` returns the provider of each node. Warns (`RuntimeWarning`) if no node runs on the provider.

    Beside onnxruntime-cann's provider in graph mode, the session runs the model in a form that CANN's graph engine
    reads, as `export_cann` writes it: inputs, outputs and results are those of the model. That provider then keeps
    element types (precision_mode=must_keep_origin_dtype) and stores no built parts (dump_om_model=0), unless it is
    given these options.

    Args:
        model: path, serialised model, model, or what `lower` returned (`LoweringResult`).
        backend: "cann" for the NPU, "host" for the CPU, "auto" for the NPU if there is one, else the CPU.
        providers: further providers by priority, as names or pairs of name and options. None means onnxruntime-cann's
            CANNExecutionProvider if this onnxruntime has it. That provider claims parts of a graph only with the option
            enable_cann_subgraph, which is set unless enable_cann_graph is "0".
        require_nodes: raise an error instead of a warning if no node runs on the provider.
        force: create the session, with a warning, even if CANN's graph engine refuses or changes a node.
        session_options: options without a provider; the provider is added to them, with their value of
            use_deterministic_compute. Without them, the session's log has errors alone: onnxruntime warns of every
            session in which nodes run on the CPU provider.
        provider_options: further options of the provider, as texts, numbers or truth values. `deterministic=True`: the
            bits of a sum do not depend on scheduling; on an NPU this setting applies to the whole process and stays on.
            `device_id=1`: the second device that is visible to the process.

    Raises:
        OnnxRuntimeMissingError, LibraryMissingError: see `register`.
        SessionError: the session cannot be created; the message has the cause.
    """
    source: str | os.PathLike[str] | bytes | onnx.ModelProto = model_of(model)
    register()
    ort = import_onnxruntime()
    others = _others(ort, providers)
    options = session_options
    if options is None:
        options = ort.SessionOptions()
        options.log_severity_level = 3  # errors alone
    if options.use_deterministic_compute:  # onnxruntime does not pass it to plugin providers
        provider_options.setdefault("deterministic", "1")
    own = {"backend": backend, **{name: _text(value) for name, value in provider_options.items()}}
    device = _device(ort, options, own)
    given = source
    for name, other_options in others:
        if name == CANN_PROVIDER and is_graph_mode(other_options):
            set_defaults(other_options, device.ep_metadata["soc"])
            require_one_precision(other_options)
            given, are_proven = for_graph_mode(source, options, force=force)
            own.setdefault("check_indices", "0" if are_proven else "1")
    _add_providers(options, device, own, others)
    try:
        # Without enable_fallback=0, onnxruntime's Python layer creates a CPU session after any failure.
        session = ort.InferenceSession(_loadable(given), options, enable_fallback=0)
    except Exception as error:
        index = _index(source)
        reason = type_without_kernel(error, None if index is None else index.model)
        message = f"onnxruntime cannot make a session on {get_ep_name()}: {quoted(error)}{reason}"
        raise SessionError("; ".join([message, *_damages(index)])) from error
    for name, other_options in others:
        if name == CANN_PROVIDER and is_graph_mode(other_options):
            note_precision(other_options)
    if get_ep_name() not in session.get_providers():
        raise SessionError(f"onnxruntime made a session without {get_ep_name()}: it has {session.get_providers()}")
    if not any(node.provider == get_ep_name() for node in assignment(session)):
        _report_no_node(source, require_nodes=require_nodes)
    return session


def get_backend(session: onnxruntime.InferenceSession | None = None) -> str:
    """Return the backend of `session`, "cann" or "host"; without a session, the one that "auto" selects.

    Raises the errors of `register`.
    """
    register()
    requested = "auto" if session is None else _requested_backend(session)
    if requested != "auto":
        return requested
    (device, *_) = provider_devices(import_onnxruntime())
    backend: str = device.ep_metadata["backend"]
    return backend


def _others(
    ort: ModuleType, providers: Sequence[str | tuple[str, Mapping[str, str]]] | None
) -> list[tuple[str, dict[str, str]]]:
    """Return the further providers with their options.

    Raises `SessionError` if this onnxruntime lacks one, and `TypeError` if they are no list.
    """
    available = ort.get_available_providers()
    if providers is None:
        providers = [CANN_PROVIDER] if CANN_PROVIDER in available else []
    if isinstance(providers, str):
        raise TypeError(f"providers is a str; it takes a list, e.g. ['{providers}']")
    others = [(one, {}) if isinstance(one, str) else (one[0], dict(one[1])) for one in providers]
    for name, _ in others:
        if name not in available:
            advice = "; pip install onnxruntime-cann" if name == CANN_PROVIDER else ""
            raise SessionError(f"this onnxruntime has no provider '{name}': it has {', '.join(available)}{advice}")
    return others


def _report_no_node(model: str | os.PathLike[str] | bytes | onnx.ModelProto, *, require_nodes: bool) -> None:
    """Warn that no node runs on the provider, or raise `SessionError`, with the likely cause."""
    index = _index(model)
    if index is not None and not any(domain == "npu" for scope in index.scopes for domain, _ in scope.by_op):
        cause = "the model has no nodes of domain npu: it has no gradient of a pool, or was not lowered"
    else:
        cause = "it claimed none of the model's nodes of domain npu; session_options.log_severity_level = 1 logs why"
    cause = "; ".join(_damages(index)) or cause
    message = f"no node of the session runs on {get_ep_name()}: {cause}"
    if require_nodes:
        raise SessionError(message)
    warnings.warn(message, RuntimeWarning, stacklevel=3)


def _index(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> ModelIndex | None:
    """Return the index of a model, or None if it cannot be read as one, for example in onnxruntime's own format."""
    from poolgrad_lowering.model.ir.index import ModelIndex  # noqa: PLC0415 - only failures need the model's nodes

    try:
        return ModelIndex(parsed(model))
    except Exception:  # nothing has checked the model
        return None


def _damages(index: ModelIndex | None) -> list[str]:
    """Return texts on what other tools did to a lowered model."""
    from poolgrad_lowering.report.damage import damages  # noqa: PLC0415 - as above

    return [] if index is None else [code.with_advice(found) for code, found in damages(index)]


def _text(option: str | int) -> str:
    """Return a provider option as onnxruntime takes it: "1" for True."""
    return str(int(option)) if isinstance(option, bool) else str(option)


def _add_providers(
    options: onnxruntime.SessionOptions,
    device: Any,
    own: dict[str, str],
    others: Sequence[tuple[str, dict[str, str]]],
) -> None:
    """Add the provider and the further ones, each with its options, to the session's options."""
    options.add_session_config_entry(RECORD_ASSIGNMENT, "1")
    try:
        options.add_provider_for_devices([device], own)
    except Exception as error:
        raise SessionError(f"onnxruntime does not accept {get_ep_name()} with {own}: {quoted(error)}") from error
    for name, other_options in others:
        options.add_provider(name, other_options)


def _device(ort: ModuleType, options: onnxruntime.SessionOptions, provider_options: Mapping[str, str]) -> Any:
    """Return the provider's `OrtEpDevice` of the number in its options. Raises `SessionError` if there is none."""
    if options.has_providers():
        raise SessionError("session_options has providers already; pass options to which none was added")
    device_id = provider_options.get("device_id", "0")
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
    except RuntimeError:  # a session without the option
        return "auto"
    return requested
