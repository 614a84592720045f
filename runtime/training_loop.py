# SPDX-License-Identifier: Apache-2.0

"""Runs a training step again and again; weights, buffers and optimizer state stay on the device between steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.runtime.errors import SessionError
from poolgrad_lowering.runtime.registration import import_onnxruntime

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime

_NEW = "new_"
"""An output `new_NAME` is the next value of the input `NAME`."""


class TrainingLoop:
    """Training steps in a session whose outputs `new_NAME` are the next values of its inputs `NAME`.

    Each carried value has two buffers on the device. A step reads one and writes the other, so that nothing is copied
    to the host or allocated between steps. Not for concurrent use.

        loop = TrainingLoop(create_session(lowered), step.values)
        for images, labels in batches:
            loss = loop.step(input=images, target=labels, learning_rate=rate)["loss"]
        weights = loop.values()

    Args:
        session: a session of a training step, e.g. of `poolgrad_lowering.torch.export_training_step`, lowered or not.
        values: the first values of the inputs that are not given to `step`: weights, buffers, state.
        device: where they are kept, as onnxruntime names devices: "cpu", or "cann" with onnxruntime-cann.
        device_id: the number of the device.

    Raises:
        OnnxRuntimeMissingError: onnxruntime is missing or too old.
        ValueError: `values` lacks an input that the session carries from step to step.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        values: Mapping[str, np.ndarray],
        *,
        device: str = "cpu",
        device_id: int = 0,
    ) -> None:
        self._session = session
        self._device = device, device_id
        self._ort = import_onnxruntime()
        inputs = {value.name for value in session.get_inputs()}
        outputs = [value.name for value in session.get_outputs()]
        self._carried = {name: name.removeprefix(_NEW) for name in outputs if name.removeprefix(_NEW) in inputs}
        self._results = [name for name in outputs if name not in self._carried]
        if missing := set(self._carried.values()) - values.keys():
            raise ValueError(f"values lacks {', '.join(sorted(missing))}, of which the session computes new values")
        self._now = {name: self._kept(value) for name, value in values.items() if name in inputs}
        self._next = {name: self._kept(values[name]) for name in self._carried.values()}

    def step(self, **inputs: Any) -> dict[str, np.ndarray]:
        """Run one step and return its other outputs, e.g. the loss, as arrays.

        `inputs` are arrays, or numbers for scalars of type float32.

        Raises `SessionError` if onnxruntime cannot run the step; the values are then those before it.
        """
        binding = self._session.io_binding()
        make = self._ort.OrtValue.ortvalue_from_numpy
        given = {name: make(_array(value)) for name, value in inputs.items()}  # the binding keeps none alive
        for name, value in {**self._now, **given}.items():
            binding.bind_ortvalue_input(name, value)
        for output, name in self._carried.items():
            binding.bind_ortvalue_output(output, self._next[name])
        for output in self._results:
            binding.bind_output(output)
        try:
            self._session.run_with_iobinding(binding)
        except Exception as error:
            raise SessionError(f"onnxruntime cannot run the training step: {error}") from error
        for name in self._next:
            self._now[name], self._next[name] = self._next[name], self._now[name]
        results = binding.get_outputs()[len(self._carried) :]  # in the order in which they were bound
        return {name: result.numpy() for name, result in zip(self._results, results, strict=True)}

    def values(self) -> dict[str, np.ndarray]:
        """Return copies of the weights, buffers and state as they are now, by input name."""
        return {name: value.numpy().copy() for name, value in self._now.items()}

    def _kept(self, value: np.ndarray) -> onnxruntime.OrtValue:
        """Return a copy of the value on the device. On the CPU, an OrtValue shares the memory of its array."""
        return self._ort.OrtValue.ortvalue_from_numpy(value.copy(), *self._device)


def _array(value: Any) -> np.ndarray:
    import numpy as np  # noqa: PLC0415 - importing the runtime must not load numpy

    return np.array(value, np.float32 if isinstance(value, float) else None, order="C")
