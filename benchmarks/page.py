# SPDX-License-Identifier: Apache-2.0

"""Writes docs/benchmarks.md and its plots from the results. Measures nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.page_bodies import bodies
from benchmarks.page_runtime import artifact_step, eager_step, overhead, training_step
from benchmarks.plots import Bar, Point, bars, points
from benchmarks.rewriters import POOLGRAD
from benchmarks.tables import grouped, memory, seconds, table

INTRODUCTION = """# Benchmarks

`make bench` measures all of this in one run, writes the numbers to [benchmarks/results.json](benchmarks/results.json)
and this page from them. Variants are measured in turn, in rounds. A time is the median of the rounds, whose quartiles
are in the numbers; a ratio is the median of the ratios within the rounds.
"""

PASS = """## Lowering a file

The graphs are made for this benchmark. 1 % of the nodes are gradients, or only as many as a deep network has; half of
them are `MaxPoolGrad`, half are scatters onto zeros. The same number of nodes look like gradients and are none. The
other packages work on the same file in the same process and do the same or less. Seconds, with the multiple of the
first row in brackets; nothing where a package took more than a minute.
"""

SCALING = """## Growth

The time of `lower_file` over the number of nodes, sites, subgraphs, functions or value_infos. All graphs except those
of the first plot have 20,000 nodes: what is counted replaces other nodes. The dashed line is the straight line through
the points.
"""

PROCESS = """## Processes

The time to start the command from a shell:
"""

KERNELS = """## Kernels of the host library

Milliseconds of pools and gradients, with the multiple of the floor in brackets. The floor is the time for memory access
alone: as many bytes read and written as the result needs, on all cores. onnxruntime's CPU provider has these for
float32 only: MaxPool with Indices, and ScatterElements with `add` onto zeros.
"""
AVERAGES = """## Gradients of average pools in the host library

As above, for gradients of average pools over the same windows, as on Atlas A2; the padding counts. onnxruntime has no
operator for them: it runs what PyTorch's export has, a division and a ConvTranspose whose batch are the planes.
"""


def write_page(results: dict[str, Any], docs: Path) -> None:
    """Write the page and its plots for the results of a run to the folder `docs`."""
    plots = docs / "benchmarks"
    sections = [
        INTRODUCTION,
        table(("", ""), results["machine"].items()),
        *_earlier(results.get("earlier", {})),
        *(write(results[name], plots) for name, write in _SECTIONS.items() if name in results),
    ]
    (docs / "benchmarks.md").write_text("\n".join(sections), encoding="utf-8")


def _earlier(machines: dict[str, dict[str, str]]) -> list[str]:
    """A sentence for each machine on which other questions were measured before."""
    questions: dict[str, list[str]] = {}
    for name, machine in sorted(machines.items()):
        questions.setdefault(f"{machine['processor']}, onnxruntime {machine['onnxruntime']}", []).append(name)
    return [f"Measured in an earlier run ({where}): {', '.join(names)}.\n" for where, names in questions.items()]


def headline(results: dict[str, Any]) -> str:
    """The README's sentence on speed: the time to lower the largest graph."""
    case = max(results["pass"]["cases"], key=lambda case: int(case["nodes"]))
    [own] = [row for row in case["rows"] if row["name"].startswith(POOLGRAD.name)]
    machine = results.get("earlier", {}).get("pass", results["machine"])
    return (
        f"Lowering a file of {case['nodes']:,} nodes with {case['sites']:,} gradients takes {own['median']:.1f} s, "
        f"{own['ratio']:.1f} times as long as onnx takes to read it and write it again ({machine['processor']}, "
        f"{machine['cores']} cores)"
    )


def _pass(result: dict[str, Any], plots: Path) -> str:
    cases = result["cases"]
    images, heads = [], []
    for case in cases:
        name, nodes = f"pass_{case['nodes']}_{case['sites']}.svg", f"{case['nodes']:,} nodes"
        (plots / name).write_text(bars(f"Seconds, {nodes}", [_bar(row) for row in case["rows"]]), encoding="utf-8")
        images.append(f"![{nodes}, {case['sites']:,} gradients](benchmarks/{name})")
        heads.append(f"{nodes}, {case['sites']:,} gradients")
    measured = [{row["name"]: row for row in case["rows"]} for case in cases]
    does = {row["name"]: row["does"] for case in cases for row in case["rows"]}
    times = ((name, what, *(_beside_floor(rows.get(name)) for rows in measured)) for name, what in does.items())
    peaks = (
        (name, *(memory(rows[name]["memory"]) for rows in measured)) for name in does if measured[0][name]["memory"]
    )
    return "\n".join(
        [
            PASS,
            " ".join(images) + "\n",
            table(("package", "does", *heads), times),
            "MiB of the largest resident set, of a separate process, in brackets once everything is imported:\n",
            table(("package", *heads), peaks),
        ]
    )


def _beside_floor(row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{seconds(row)} ({row['ratio']:.2f})"


def _bar(row: dict[str, Any]) -> Bar:
    own = row["name"].startswith(POOLGRAD.name)
    return Bar(row["name"], row["median"], row["low"], row["high"], f"{row['median']:.3g} s", own)


def _scaling(result: dict[str, Any], plots: Path) -> str:
    for axis in result["axes"]:
        entries = [Point(point["count"], point["median"], point["low"], point["high"]) for point in axis["points"]]
        drawn = points(f"Seconds over {axis['name']}", entries, axis["slope"], axis["intercept"])
        (plots / f"scaling_{axis['name']}.svg").write_text(drawn, encoding="utf-8")
    images = " ".join(f"![{axis['name']}](benchmarks/scaling_{axis['name']}.svg)" for axis in result["axes"])
    rows = (
        (axis["name"], f"{axis['slope'] * 1e6:.1f}", f"{axis['off_line']:.0%}", _ends(axis["points"]))
        for axis in result["axes"]
    )
    rates = table(("", "µs for one more", "farthest from the line", "from … to"), rows)
    return "\n".join([SCALING, images + "\n", rates, _five_times(result["axes"][0])])


def _five_times(axis: dict[str, Any]) -> str:
    """A sentence on the time of the largest count relative to that of a fifth of it; empty if not measured."""
    if axis["fifth"] is None:
        return ""
    most = max(point["count"] for point in axis["points"])
    return f"{most:,} {axis['name']} take {axis['fifth']:.1f} times as long as {most // 5:,}.\n"


def _ends(points: Sequence[dict[str, Any]]) -> str:
    first, last = points[0], points[-1]
    return f"{first['count']:,}: {first['median']:.3f} s … {last['count']:,}: {last['median']:.3f} s"


def _process(result: dict[str, Any], _: Path) -> str:
    external = result["external"]
    weights = (
        f"A graph of 2,000 nodes with {external['bytes'] / 2**30:.0f} GiB of external weights is lowered in "
        f"{external['seconds']:.3f} s; the process has {external['imported']:.0f} MiB after importing and "
        f"{external['peak']:.0f} MiB at its peak.\n"
    )
    rows = ((f"`{row['name']}`", seconds(row)) for row in result["start"])
    return "\n".join([PROCESS, table(("command", "seconds"), rows), weights])


def _kernels(result: dict[str, Any], _: Path) -> str:
    peers = ("libaclnn_host", "torch", "onnxruntime")
    parts = [KERNELS]
    ran = {row["name"] for case in result["cases"] for row in case["backward"]}
    training = ran & {"onnxruntime-training"}  # in a process that is called by a pipe
    for side, names in (("forward", peers), ("backward", (*peers, *training))):
        rows = ((case["name"], case["dtype"], *_beside_the_floor(case[side], names)) for case in result["cases"])
        parts += [f"### {side.capitalize()}\n", table(("pool", "type", "floor", *names), grouped(rows))]
    pair = result["pair"]
    own, peer = (f"{pair[who]['median'] * 1e3:.3g} ms" for who in ("own", "peer"))
    parts.append(
        f"Forward and backward of {pair['name']} in float32, one after the other: {own}; {peer} in onnxruntime; "
        f"1/{1 / pair['ratio']:.1f} of it.\n"
    )
    return "\n".join(parts)


def _averages(result: dict[str, Any], _: Path) -> str:
    names = ("libaclnn_host", "torch", "onnxruntime")
    rows = ((case["name"], case["dtype"], *_beside_the_floor(case["rows"], names)) for case in result["cases"])
    other = f"As on Ascend 950, the last in float32 takes {result['other']['ratio']:.1f} times as long.\n"
    return "\n".join([AVERAGES, table(("pool", "type", "floor", *names), grouped(rows)), other])


def _beside_the_floor(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[str]:
    by_name = {row["name"]: row for row in rows}
    cells = [f"{by_name['memory']['median'] * 1e3:.2f}"]
    for name in names:
        row = by_name.get(name)
        cells.append("" if row is None else f"{row['median'] * 1e3:.2f} ({row['ratio']:.1f})")
    return cells


_SECTIONS: dict[str, Callable[[dict[str, Any], Path], str]] = {
    "pass": _pass,
    "scaling": _scaling,
    "process": _process,
    "bodies": bodies,
    "kernels": _kernels,
    "averages": _averages,
    "overhead": overhead,
    "training_step": training_step,
    "eager_step": eager_step,
    "artifact_step": artifact_step,
}
"""The functions that write the sections of the page, in order, by the name of the question."""
