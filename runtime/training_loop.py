# SPDX-License-Identifier: Apache-2.0

"""Runs a training step again and again; weights, buffers and optimizer state stay on the device between steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from poolgrad_lowering.model.diagnostics.errors import SessionError
from poolgrad_lowering.model.io.onnxruntime import quoted
from poolgrad_lowering.runtime.tensors import Place, as_array, check_fits, check_sizes_agree, place_of

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime

_NEW = "new_"
"""An output `new_NAME` is the next value of the input `NAME`."""


class Step(Protocol):
    """A training step with the first values of its inputs, e.g. `poolgrad_lowering.torch.TrainingStep`."""

    @property
    def values(self) -> Mapping[str, np.ndarray]:
        """The values by input name."""


class TrainingLoop:
    """Training steps in a session whose outputs `new_NAME` are the next values of its inputs `NAME`.

    Each carried value has two buffers where the session reads it: in device memory, if that is where the session's
    tensors are. A step reads one and writes the other, so that nothing is copied to the host or allocated between
    steps. Not for concurrent use.

        loop = TrainingLoop(create_session(lowered), step)
        for images, labels in batches:
            loss = loop.step(input=images, target=labels, learning_rate=rate)["loss"]
        weights = loop.values()

    Args:
        session: a session of a training step, e.g. of `poolgrad_lowering.torch.export_training_step`, lowered or not.
        values: the first values of the inputs that are not given to `step`: weights, buffers, state; or a training
            step with them as its `values`.

    Raises:
        OnnxRuntimeMissingError: onnxruntime is missing.
        TypeError: an argument is something else.
        ValueError: `values` lacks an input that the session carries from step to step, or one does not fit it.
    """

    def __init__(self, session: onnxruntime.InferenceSession, values: Mapping[str, np.ndarray] | Step) -> None:
        import onnxruntime  # noqa: PLC0415 - optional: the caller's session is of it

        self._session = session
        self._ort: ModuleType = onnxruntime
        if not hasattr(session, "get_inputs"):
            raise TypeError(f"session is a {type(session).__name__}; it takes a session, e.g. of create_session")
        first = values if isinstance(values, Mapping) else getattr(values, "values", None)
        if not isinstance(first, Mapping):
            raise TypeError(f"values is a {type(values).__name__}; it takes a training step, or arrays by input name")
        self._inputs = {value.name: value for value in session.get_inputs()}
        outputs = [value.name for value in session.get_outputs()]
        self._carried = {name: name.removeprefix(_NEW) for name in outputs if name.removeprefix(_NEW) in self._inputs}
        self._results = [name for name in outputs if name not in self._carried]
        if missing := set(self._carried.values()) - first.keys():
            raise ValueError(f"values lacks {', '.join(sorted(missing))}, of which the session computes new values")
        self._places = {name: place_of(session, position) for position, name in enumerate(self._inputs)}
        self._now = {name: self._kept(name, value) for name, value in first.items() if name in self._inputs}
        self._next = {name: self._kept(name, first[name]) for name in self._carried.values()}

    def step(self, **inputs: Any) -> dict[str, np.ndarray]:
        """Run one step and return its other outputs, e.g. the loss, as arrays.

        `inputs` are arrays, tensors of PyTorch, or numbers for scalars; a tuple, list or dictionary of these stands for
        the inputs `<name>.<position or key>`.

        Raises `ValueError` if an input is missing, unknown, or of another type or shape than the session's, and
        `SessionError` if onnxruntime cannot run the step. The values are then those before it.
        """
        leaves = dict(leaf for name, value in inputs.items() for leaf in self._leaves(name, value))
        given = {name: as_array(value, self._inputs.get(name)) for name, value in leaves.items()}
        self._check(given)
        binding = self._session.io_binding()
        make = self._ort.OrtValue.ortvalue_from_numpy
        fed = {name: make(value) for name, value in given.items()}  # the binding keeps none alive
        for name, value in {**self._now, **fed}.items():
            binding.bind_ortvalue_input(name, value)
        for output, name in self._carried.items():
            binding.bind_ortvalue_output(output, self._next[name])
        for output in self._results:
            binding.bind_output(output)
        try:
            self._session.run_with_iobinding(binding)
        except Exception as error:
            raise SessionError(f"onnxruntime cannot run the training step: {quoted(error)}") from error
        for name in self._next:
            self._now[name], self._next[name] = self._next[name], self._now[name]
        results = binding.get_outputs()[len(self._carried) :]  # in the order in which they were bound
        return {name: result.numpy() for name, result in zip(self._results, results, strict=True)}

    def values(self) -> dict[str, np.ndarray]:
        """Return copies of the weights, buffers and state as they are now, by input name."""
        return {name: self._places[name].to_array(self._ort, value) for name, value in self._now.items()}

    def load(self, values: Mapping[str, np.ndarray]) -> None:
        """Go on with other weights, buffers and state, by input name, e.g. with those that `values` returned.

        Names that the session does not have are left out; what is not given stays.

        Raises `ValueError` if a value does not fit its input, or no name is one of the session's, as those of a
        PyTorch model are not. Nothing is loaded then.
        """
        if not self._now.keys() & values.keys():
            names = ", ".join(list(self._now)[:3])
            raise ValueError(
                f"no value has the name of an input, such as {names}: the step's values have them, for a PyTorch model "
                "step.values_of(model)"
            )
        self._now |= {name: self._kept(name, value) for name, value in values.items() if name in self._now}

    def _leaves(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        """Return the inputs that an argument stands for, with their values."""
        if name in self._inputs or not isinstance(value, (tuple, list, dict)):
            yield name, value
            return
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from self._leaves(f"{name}.{key}", part)

    def _check(self, given: Mapping[str, np.ndarray]) -> None:
        if unknown := given.keys() - self._inputs.keys():
            raise ValueError(f"the step has no input {', '.join(sorted(unknown))}; it takes {', '.join(self._free())}")
        if missing := self._inputs.keys() - self._now.keys() - given.keys():
            raise ValueError(f"the step lacks {', '.join(sorted(missing))}: give each as an argument")
        for name, value in given.items():
            check_fits(self._inputs[name], value, is_batch=name not in self._now)
        check_sizes_agree(self._inputs, given)

    def _free(self) -> list[str]:
        """Return the inputs that a step is given."""
        return [name for name in self._inputs if name not in self._now] or list(self._inputs)

    def _kept(self, name: str, value: Any) -> onnxruntime.OrtValue:
        wanted = self._inputs[name]
        array = as_array(value, wanted) if hasattr(value, "detach") else value  # a tensor of PyTorch
        check_fits(wanted, array)
        place: Place = self._places[name]
        return place.keep(self._ort, array)
