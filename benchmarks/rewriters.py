# SPDX-License-Identifier: Apache-2.0

"""Other packages that read an ONNX file, rewrite the graph and write it, with the same amount of work or less.

Each is a function from source path to destination path, run in this process. Each function imports its package, so that
one package can be measured without the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

Run = Callable[[str, str], object]


@dataclass(frozen=True)
class Rewriter:
    """A function from file to file. A graph of more than `largest` nodes is skipped: it takes over a minute."""

    name: str
    does: str
    run: Run
    package: str
    largest: int | None = None

    @property
    def shown(self) -> str:
        """Name and version."""
        return f"{self.name} {version(self.package)}"


def _load_and_save(source: str, destination: str) -> None:
    import onnx

    onnx.save(onnx.load(source), destination)


def _poolgrad(source: str, destination: str) -> None:
    from poolgrad_lowering import lower_file

    lower_file(source, destination)


def _onnxscript(source: str, destination: str) -> None:
    from onnxscript import ir
    from onnxscript.rewriter import pattern

    def gradient(op, dy, indices):
        return op.MaxPoolGrad(dy, indices, _allow_other_attributes=True)

    def lowered(op, dy, indices, **_):
        return op.MaxPool3DGradWithArgmax(dy, indices, _domain="npu")

    model = ir.load(source)
    pattern.RewriteRuleSet([pattern.RewriteRule(gradient, lowered)]).apply_to_model(model)
    ir.save(model, destination)


def _graphsurgeon(source: str, destination: str) -> None:
    import onnx
    import onnx_graphsurgeon

    graph = onnx_graphsurgeon.import_onnx(onnx.load(source))
    onnx.save(onnx_graphsurgeon.export_onnx(graph.cleanup()), destination)


def _onnxoptimizer(source: str, destination: str) -> None:
    import onnx
    import onnxoptimizer

    onnx.save(onnxoptimizer.optimize(onnx.load(source), ["eliminate_deadend"]), destination)


def _onnxslim(source: str, destination: str) -> None:
    import onnx
    import onnxslim

    onnx.save(onnxslim.slim(source), destination)


FLOOR = Rewriter("onnx", "`onnx.load` and `onnx.save`, nothing between", _load_and_save, "onnx")
POOLGRAD = Rewriter("poolgrad-lowering", "`lower_file`: all gradients and their pools", _poolgrad, "poolgrad-lowering")
OTHERS = (
    Rewriter("onnx-graphsurgeon", "import, `cleanup`, export", _graphsurgeon, "onnx-graphsurgeon", 20_000),
    Rewriter("onnxscript", "one rule, MaxPoolGrad to a node, unchecked", _onnxscript, "onnxscript", 20_000),
    Rewriter("onnxoptimizer", "one pass, `eliminate_deadend`", _onnxoptimizer, "onnxoptimizer", 2_000),
    Rewriter("onnxslim", "`slim` with its defaults", _onnxslim, "onnxslim", 2_000),
)


def rewriters_for(nodes: int) -> list[Rewriter]:
    """The rewriters that are measured on a graph of `nodes` nodes: the floor, this project, then the others."""
    return [FLOOR, POOLGRAD, *(other for other in OTHERS if other.largest is None or nodes <= other.largest)]
