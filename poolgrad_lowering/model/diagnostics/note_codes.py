# SPDX-License-Identifier: Apache-2.0

"""What notes on a model as a whole say, damage by other tools included. Notes, tests and docs share this table."""

from __future__ import annotations

from poolgrad_lowering.model.diagnostics.diagnostic import Diagnostic, Severity

_LOWER_LAST = "Run that tool on the original, then lower: the lowering is the last step."


class NoteCode(Diagnostic):
    """What a note says. The values are part of the report."""

    ALREADY_LOWERED = (
        "The model has operators of the dialect; the text names the targets that have these operators.",
        "To lower for another target, take the original.",
        Severity.NOTE,
    )
    FORWARD_GRAPH = (
        "The model has pools, and no node in a known form of a gradient of one (docs/forms.md): a forward graph, or "
        "gradients in a form that is not known.",
        "How to export a training step: `poolgrad export-torch`, or docs/convert.md, “Where a training graph comes "
        "from”.",
        Severity.NOTE,
    )
    INLINED_BODIES = "A tool has inlined function bodies of gradients, all or some.", _LOWER_LAST, Severity.WARNING
    IN_ONNX = (
        "Gradients of average pools were written in operators of ONNX. As nodes of the dialect they are faster on the "
        "provider alone; beside the CANN provider each ends a part of the graph.",
        "For a session beside the CANN provider, `poolgrad lower --keep-onnx` or `export-cann` leaves them.",
        Severity.NOTE,
    )
    MISSING_ATTRIBUTES = "A tool has removed attributes of the dialect's operators.", _LOWER_LAST, Severity.WARNING
    MISTYPED_BODIES = "A tool has changed types: the function bodies take others.", _LOWER_LAST, Severity.WARNING
    NO_BODIES = "A tool has removed the function bodies of the dialect's operators.", _LOWER_LAST, Severity.WARNING
    NO_POOL = "The model has no pool, and no node in a known form of a gradient of one.", "Nothing.", Severity.NOTE
    NO_SESSION = (
        "onnxruntime does not load the step that was written; the text has its message.",
        "Correct what the message names in the forward graph, such as the declared shape of the labels, and make the "
        "artifacts again; or use a newer onnxruntime.",
        Severity.WARNING,
    )
    RENAMED_OPERATORS = "A tool has renamed the dialect's operators to unknown ones.", _LOWER_LAST, Severity.WARNING
    SESSION = "onnxruntime has loaded the step that was written.", "Nothing.", Severity.NOTE
    TARGET_WITHOUT_OPERATORS = (
        "The target has no operator for any gradient.",
        "Choose one of the targets that the text names.",
        Severity.WARNING,
    )

    def with_advice(self, found: str) -> str:
        """Return the text of a note: what was found, and the advice. Notes end without a full stop."""
        return f"{found}. {self.advice.removesuffix('.')}"
