# SPDX-License-Identifier: Apache-2.0

"""An operator is a row of the dialect: other languages read tables that are generated from it, and name no operator."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from onnx import AttributeProto, TensorProto

from poolgrad_lowering.dialect import OPS, Attribute
from poolgrad_lowering.dialect.aclnn_functions import Limits
from poolgrad_lowering.dialect.op import Prototype
from poolgrad_lowering.dialect.ops import AVERAGE_3D_GRAD, MAX_POOL_2D, MAX_POOL_2D_GRAD, PROVIDER_OPERATORS
from poolgrad_lowering.dialect.targets import TARGETS, Target, aclnn_function
from tests.harness.sessions.ep_process import run_python
from tools.operator_tables.tables import FUNCTIONS, OPERATORS, PLAN, PLUGIN, REPORT, ROOT, ROUTES, tables

INT64_ONLY = frozenset((TensorProto.INT64,))
FUNCTION = (
    OPS[MAX_POOL_2D_GRAD]
    .functions[4][0]
    ._replace(
        name="aclnnMadeUp2dBackward",
        limits={"Ascend 950": Limits(INT64_ONLY, max_plane=77)},
    )
)
NEW = OPS[MAX_POOL_2D_GRAD]._replace(
    name="MadeUpGrad",
    attributes=(
        Attribute("factor", AttributeProto.INT, "", default=4, minimum=1),
        Attribute("data_format", AttributeProto.STRING, "", default="NCHW", allowed=("NCHW",)),
        Attribute("onnx_size", AttributeProto.INTS, "", minimum=1),
    ),
    functions={4: (FUNCTION, *OPS[MAX_POOL_2D_GRAD].functions[4])},
    prototype=Prototype(4, "9.1.0", "NCHW", outputs=("dx",)),
    index_type="index_dtype",
)
"""A gradient that only this test has, with a function of its own for int64 on Ascend 950."""


def test_the_files_are_those_of_the_rows() -> None:
    for path, text in tables().items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, f"{path}: run python -m tools.operator_tables"


def test_a_new_operator_is_in_every_table() -> None:
    texts = tables([*OPS.values(), NEW])
    assert '{"MadeUpGrad", Direction::kBackward, kXGradArgmax, kY, 0, "NCHW", "index_dtype"},' in texts[OPERATORS]
    assert "X(MadeUp2dBackward, 2, kGradient, kWindow, ACL_INT64)" in texts[FUNCTIONS]
    assert "X(aclnnStatus, aclnnMadeUp2dBackward, POOLGRAD_ACLNN_EXECUTE_PARAMETERS)" in texts[FUNCTIONS]
    assert '{"npu::1::MadeUpGrad", "MadeUpGrad", {"x", "grad", "argmax"}, {"dx"}' in texts[PLUGIN]
    for path in (PLAN, REPORT):
        assert texts[path].count('"MadeUpGrad"') == 2
    pool = OPS[MAX_POOL_2D]._replace(name="MadeUpPool")
    assert '"MadeUpPool"' in json.dumps(json.loads(tables([pool])[PLAN])["$defs"]["site"]["properties"]["forward"])


def test_the_functions_of_an_operator_complete_each_other() -> None:
    """A function is left out where it takes no type of argmax that those before it do not take."""
    rows = [row for row in tables([*OPS.values(), NEW])[ROUTES].splitlines() if '"MadeUpGrad"' in row]
    expected = [
        ("kAscend950", "kMadeUp2dBackward", "kInt64", "77"),
        ("kAscend950", "kMaxPool2dWithIndicesBackward", "kBoth", "kUnlimited"),
        ("kAtlasA2A3", "kMaxPool3dWithArgmaxBackward", "kInt32", "2147483647"),
    ]
    for row, (product, entry, index_types, plane) in zip(rows, expected, strict=True):
        assert f"Product::{product}, 4, 4, aclnn::Entry::{entry}, IndexTypes::{index_types}, false, {plane}" in row


def test_ranks_of_a_function_follow_one_another() -> None:
    two, three = (OPS[AVERAGE_3D_GRAD].functions[rank] for rank in (3, 5))
    split = OPS[AVERAGE_3D_GRAD]._replace(functions={3: two, 4: three, 5: two})
    with pytest.raises(ValueError, match=r"aclnnAvgPool2dBackward runs AvgPool3DGrad at ranks \[3, 5\]"):
        tables([split])


PROVIDER = """
#include <cstdio>
#include "ep/dialect_table.h"
#include "ep/routes.h"
int main() {
  using namespace poolgrad;
  for (const ep::DialectOp& op : ep::kDialectOps) {
    for (const bool is_int64 : {false, true}) {
      const ep::Route* route = ep::FindRoute(op, aclnn::Product::kMadeup, 4, is_int64);
      if (route == nullptr) continue;
      std::printf("%s %d %d %d\\n", op.name, is_int64, static_cast<int>(route->entry), ep::ReadsArgmax(op));
    }
  }
  std::printf("%d\\n", static_cast<int>(aclnn::Entry::kMadeUp2dBackward));
}
"""
ATC = """
#include <cstdio>
#include "operators.h"
int main() {
  using namespace poolgrad::atc;
  const Operator& op = Operators().back();
  std::printf("%s %s %d %d\\n", op.key, op.outputs[0].c_str(), op.layout == Layout::kNchw, op.refused);
  for (const Attribute& each : op.attributes) {
    std::printf("%s %d %s\\n", each.name.c_str(), static_cast<int>(each.type), each.text.c_str());
  }
  for (const Attribute& each : op.body) std::printf("body %s\\n", each.name.c_str());
}
"""


def compiled(folder: Path, program: str, standard: str, *sources: Path, includes: list[Path]) -> str:
    """Compile a program with sources, warnings being errors, and return what it prints."""
    (folder / "main.cpp").write_text(program, encoding="utf-8")
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", *(f"-I{path}" for path in includes)]
    subprocess.run(["g++", *flags, folder / "main.cpp", *sources, "-o", folder / "main"], check=True)
    return subprocess.run([folder / "main"], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables with the new operator, on a product that only this test has."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("tables")
    function = FUNCTION._replace(limits={"Made up": Limits(INT64_ONLY)})
    op = NEW._replace(functions={4: (function,)})
    target = TARGETS["atlas-a2"]._replace(name="a-product-of-this-test", chip="MadeUp1", socs=("X1",), aclnn="Made up")
    for path, text in tables([*OPS.values(), op], [*TARGETS.values(), target]).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def test_cpp_needs_no_other_line_for_it(tree: Path) -> None:
    """The provider finds the operator and its route from the generated headers alone, the plugin its attributes."""
    includes = [folder / "runtime" / "src" for folder in (tree, ROOT)]
    printed = compiled(tree, PROVIDER, "c++17", includes[1] / "ep" / "routes.cpp", includes=includes)
    *routes, entry = printed.splitlines()
    assert routes == [f"MadeUpGrad 1 {entry} 1"]


def test_the_plugin_for_atc_needs_no_other_line_for_it(tree: Path) -> None:
    headers = ROOT / PLUGIN.parent
    printed = compiled(tree, ATC, "c++14", tree / PLUGIN, includes=[headers])
    assert printed.splitlines() == ["npu::1::MadeUpGrad dx 1 0", "factor 0 ", "data_format 3 NCHW", "body onnx_size"]


DESCRIBE = """
from poolgrad_lowering.runtime.doctor import routes
answer([[row[key] for key in ("operator", "rank", "argmax", "function")] for row in routes("host")])
"""


@pytest.mark.parametrize("target", [target for target in TARGETS.values() if target.operators], ids=lambda t: t.name)
def test_the_runtime_calls_the_functions_that_the_compiler_names(target: Target) -> None:
    found = {
        (operator, rank): function
        for operator, rank, argmax, function in run_python(DESCRIBE, ACLNN_HOST_SOC=target.socs[0])
        if argmax != "int64"
    }
    for name in target.operators:
        for rank in OPS[name].ranks:
            assert found[name, rank] == aclnn_function(name, rank)
    assert {operator for operator, _ in found} == OPS.keys()


OF_TENSORFLOW = re.compile(r"\bAvgPoolGrad\b")
"""What files have that name TensorFlow's AvgPool3DGrad, which is another operator."""


def sources() -> Iterator[tuple[str, str]]:
    """The path and text of each source file that is written by hand."""
    generated = tables()
    for folder in ("patterns", "poolgrad_lowering", "runtime"):
        for path in (ROOT / folder).rglob("*"):
            name = path.relative_to(ROOT)
            if path.suffix in {".cpp", ".h", ".json", ".md", ".py", ".txt"} and name not in generated:
                yield name.as_posix(), path.read_text(encoding="utf-8")


def test_few_files_name_an_operator() -> None:
    """The row, and few texts besides: whoever needs an operator asks the rows."""
    names = {name: re.compile(rf"\b{name}\b") for name in PROVIDER_OPERATORS}
    found: dict[str, list[str]] = {name: [] for name in names}
    for path, text in sources():
        for name, pattern in names.items():
            if pattern.search(text) and not (name == AVERAGE_3D_GRAD and OF_TENSORFLOW.search(text)):
                found[name].append(path)
    assert {name: files for name, files in found.items() if not 1 <= len(files) <= 3} == {}
