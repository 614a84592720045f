# SPDX-License-Identifier: Apache-2.0

"""The compiler as a pass of Olive (extra `olive`).

Olive finds its passes by a package configuration; `package_config` returns one with Olive's own passes and this one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from olive.hardware import AcceleratorSpec
from olive.model import ONNXModelHandler
from olive.model.utils import resolve_onnx_path
from olive.package_config import OlivePackageConfig
from olive.passes import Pass
from olive.passes.pass_config import BasePassConfig, PassConfigParam

from poolgrad_lowering.dialect.targets import DEFAULT_TARGET
from poolgrad_lowering.entry.files import lower_file


class PoolGradLowering(Pass):  # type: ignore[misc]  # Olive has no types
    """Lowers every gradient of a pool in an ONNX model that the target can run, as `poolgrad lower` does."""

    @classmethod
    def _default_config(cls, accelerator_spec: AcceleratorSpec) -> dict[str, PassConfigParam]:  # noqa: ARG003
        return {
            "target": PassConfigParam(
                type_=str, default_value=DEFAULT_TARGET, description="A product or SoC name; see `poolgrad targets`."
            ),
            "forward": PassConfigParam(
                type_=bool, default_value=True, description="Whether forward pools are lowered with their gradients."
            ),
        }

    def _run_for_config(
        self, model: ONNXModelHandler, config: type[BasePassConfig], output_model_path: str
    ) -> ONNXModelHandler:
        """Write the lowered model and its external data into one folder. Raises the errors of `lower_file`."""
        settings: Any = config  # its fields are those of _default_config
        output = Path(resolve_onnx_path(output_model_path))
        output.parent.mkdir(parents=True, exist_ok=True)
        lower_file(model.model_path, output, target=settings.target, forward=settings.forward, copy_external=True)
        if len(list(output.parent.iterdir())) == 1:
            return ONNXModelHandler(model_path=output)
        return ONNXModelHandler(
            model_path=output.parent, onnx_file_name=output.name
        )  # with a folder, Olive also copies the data


def package_config() -> dict[str, Any]:
    """Return the `package_config` of `olive.workflows.run`: Olive's own passes, and `PoolGradLowering`."""
    config: dict[str, Any] = OlivePackageConfig.load_default_config().model_dump()
    config["passes"]["poolgradlowering"] = {
        "module_path": f"{__name__}.{PoolGradLowering.__name__}",
        "supported_providers": ["*"],
        "supported_accelerators": ["*"],
        "supported_precisions": ["*"],
    }
    return config
