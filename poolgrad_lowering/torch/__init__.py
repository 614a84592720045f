# SPDX-License-Identifier: Apache-2.0

"""Training steps out of PyTorch: forward and backward pass of a model, and its optimizer, as one ONNX model.

Importing this package imports torch, which is an extra: `pip install 'poolgrad-lowering[torch]'`.
"""

from poolgrad_lowering.torch.errors import StepMismatchError, TorchExportError, TorchMissingError, torch_needed

with torch_needed():
    import onnxscript  # noqa: F401 - torch's exporter imports it late, and fails late
    import torch  # noqa: F401

    from poolgrad_lowering.torch.checking.check import StepCheck
    from poolgrad_lowering.torch.forward import Forward, export_forward
    from poolgrad_lowering.torch.groups import Group
    from poolgrad_lowering.torch.optimizers import (
        SGD,
        Adadelta,
        Adagrad,
        Adam,
        Adamax,
        AdamW,
        EagerLion,
        Lion,
        NAdam,
        RAdam,
        RMSprop,
    )
    from poolgrad_lowering.torch.step import TrainingStep, Update, export_training_step, export_update

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "EagerLion", "Forward", "Group", "Lion", "NAdam",
    "RAdam", "RMSprop", "StepCheck", "StepMismatchError", "TorchExportError", "TorchMissingError", "TrainingStep",
    "Update", "export_forward", "export_training_step", "export_update",
]  # fmt: skip
