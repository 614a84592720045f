"""The command `poolgrad`: files in, files and reports out. Everything it knows comes from the library's tables.

Exit codes: 0 done, 1 a check failed (`--strict` and something was refused, a model is not proven, or `doctor` finds no
backend that works), 2 bad input or usage.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import poolgrad_lowering
from poolgrad_lowering.errors import PoolgradError, VerificationError
from poolgrad_lowering.gate.limits import Limits

if TYPE_CHECKING:
    from poolgrad_lowering.report import AnchorReport, Report
    from poolgrad_lowering.verification.result import Verification

DONE, FAILED, BAD_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of a model may not be in the terminal's encoding
            stream.reconfigure(errors="backslashreplace")
    logging.basicConfig(level=logging.INFO if options.verbose else logging.WARNING, format="%(name)s: %(message)s")
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except VerificationError as error:
        print(f"poolgrad: verify: {error}; no model written", file=sys.stderr)
        return FAILED
    except PoolgradError as error:
        print(f"poolgrad: error: {error}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at exit
        return DONE
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="poolgrad", description="Lower max-pooling gradients in ONNX training graphs to Ascend NPU operators."
    )
    parser.add_argument("--version", action="version", version=f"poolgrad {poolgrad_lowering.__version__}")
    parser.add_argument("-v", "--verbose", action="store_true", help="log what happens to standard error")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    lower = commands.add_parser("lower", help="lower a model and write the result")
    lower.add_argument("model", type=Path, metavar="IN.onnx")
    lower.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.onnx")
    lower.add_argument("--report", type=Path, metavar="REPORT.json", help="write the report as JSON")
    lower.add_argument("--strict", action="store_true", help="exit 1 and write no model if an anchor was refused")
    lower.add_argument("--verify", action="store_true", help="exit 1 and write no model if the result is not proven")
    lower.add_argument("--copy-external", action="store_true", help="copy external data into the output's folder")
    _add_lowering_options(lower)
    lower.set_defaults(run=_lower)

    inspect = commands.add_parser("inspect", help="say what would be lowered, what not and why; change nothing")
    inspect.add_argument("model", type=Path, metavar="IN.onnx")
    inspect.add_argument("--json", action="store_true", help="print the report as JSON")
    _add_lowering_options(inspect)
    inspect.set_defaults(run=_inspect)

    verify = commands.add_parser("verify", help="show that a lowered model computes what its original does")
    verify.add_argument("original", type=Path, metavar="ORIGINAL.onnx")
    verify.add_argument("lowered", type=Path, metavar="LOWERED.onnx")
    verify.add_argument("--runs", type=_positive, metavar="N", help="runs of each site (default: 9)")
    verify.add_argument("--seed", type=_natural, default=0, metavar="S", help="seed of the generated data (default: 0)")
    verify.add_argument("--backend", choices=("host", "cann"), help="run lowered sites on the execution provider")
    verify.add_argument("--reproducer", type=Path, metavar="DIR", help="write the first failing site there")
    verify.add_argument("--no-whole-model", action="store_true", help="do not run the models from end to end")
    verify.add_argument("--json", action="store_true", help="print the result as JSON")
    verify.set_defaults(run=_verify)

    commands.add_parser("patterns", help="list the forms that are recognised").set_defaults(run=_patterns)
    commands.add_parser("targets", help="list products, SoC names and operators").set_defaults(run=_targets)

    doctor = commands.add_parser("doctor", help="say what lowered models can run on here, and why not on the rest")
    doctor.add_argument("--json", action="store_true", help="print the diagnosis as JSON")
    doctor.set_defaults(run=_doctor)
    return parser


def _add_lowering_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", metavar="T", help="product or SoC name (default: atlas-a2; see `poolgrad targets`)")
    parser.add_argument("--no-forward", action="store_true", help="leave forward pools as they are")
    for limit in fields(Limits):
        flag, described = f"--{limit.name.replace('_', '-')}", f"{limit.metadata['help']} (default: {limit.default})"
        parser.add_argument(flag, type=int, default=limit.default, metavar="N", help=described)


def _lower(options: argparse.Namespace) -> int:
    from poolgrad_lowering.files import lower_file  # noqa: PLC0415 - `--help` must not load onnx

    report = lower_file(
        options.model,
        options.output,
        target=_target(options),
        forward=not options.no_forward,
        strict=options.strict,
        verify=options.verify,
        report_path=options.report,
        copy_external=options.copy_external,
        limits=_limits(options),
    )
    _print_report(report)
    if options.strict and report.refused:
        print(f"poolgrad: strict: {len(report.refused)} anchors refused, no model written", file=sys.stderr)
        return FAILED
    print(f"wrote {options.output}")
    return DONE


def _inspect(options: argparse.Namespace) -> int:
    from poolgrad_lowering.files import inspect_file  # noqa: PLC0415 - as above

    report = inspect_file(
        options.model, target=_target(options), forward=not options.no_forward, limits=_limits(options)
    )
    if options.json:
        print(report.to_json(), end="")
    else:
        _print_report(report)
    return DONE


def _verify(options: argparse.Namespace) -> int:
    from poolgrad_lowering.progress import ProgressBar  # noqa: PLC0415 - as above
    from poolgrad_lowering.verification.files import verify_files  # noqa: PLC0415 - as above

    found = verify_files(
        options.original,
        options.lowered,
        runs=options.runs,
        seed=options.seed,
        backend=options.backend,
        whole_model=not options.no_whole_model,
        reproducer=options.reproducer,
        progress=ProgressBar(sys.stderr),
    )
    if options.json:
        print(found.to_json(), end="")
    else:
        _print_verification(found)
    return DONE if found.proven else FAILED


def _print_verification(found: Verification) -> None:
    from poolgrad_lowering.verification.text import failure_text, site_row  # noqa: PLC0415 - as above

    if found.sites:
        _print_table(("site", "status", "what"), [site_row(site) for site in found.sites])
    for difference in found.differences:
        print(f"{difference.where}: {difference.what}")
    whole = found.whole_model
    print(f"whole model: {whole.status}{f', {whole.reason}' if whole.reason else ''}")
    print(
        f"{len(found.sites)} sites, {sum(site.status == 'proven' for site in found.sites)} proven, "
        f"{len(found.differences)} differences outside; {found.seconds:.3f} s"
    )
    if failure := failure_text(found):
        print(f"poolgrad: verify: {failure}", file=sys.stderr)


def _positive(text: str) -> int:
    if (number := _natural(text)) < 1:
        raise argparse.ArgumentTypeError("has to be 1 or more")
    return number


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no number of 0 or more")
    return int(text)


def _patterns(_: argparse.Namespace) -> int:
    from poolgrad_lowering.patterns import all_patterns, broken_plugins  # noqa: PLC0415 - as above

    rows = [(p.name, ", ".join(op_type for _, op_type in p.anchors), p.summary) for p in all_patterns()]
    _print_table(("pattern", "anchor", "form"), rows)
    for plugin in broken_plugins():
        print(f"not used: {plugin.name}: {plugin.reason}")
    return DONE


def _targets(_: argparse.Namespace) -> int:
    from poolgrad_lowering.targets import DEFAULT_TARGET, TARGETS  # noqa: PLC0415 - as above

    rows = [
        (
            target.name + (" (default)" if target.name == DEFAULT_TARGET else ""),
            target.title,
            ", ".join(target.operators) or "none: every gradient is refused",
            ", ".join(target.socs),
        )
        for target in TARGETS.values()
    ]
    _print_table(("target", "product", "operators", "SoC names"), rows)
    return DONE


def _doctor(options: argparse.Namespace) -> int:
    from poolgrad_lowering.runtime.diagnosis_text import to_text  # noqa: PLC0415 - the compiler needs no runtime
    from poolgrad_lowering.runtime.doctor import diagnose  # noqa: PLC0415 - as above

    diagnosis = diagnose()
    print(diagnosis.to_json() if options.json else to_text(diagnosis), end="")
    return DONE if diagnosis.works else FAILED


def _target(options: argparse.Namespace) -> str:
    from poolgrad_lowering.targets import DEFAULT_TARGET  # noqa: PLC0415 - as above

    return DEFAULT_TARGET if options.target is None else str(options.target)


def _limits(options: argparse.Namespace) -> Limits:
    return Limits(**{limit.name: getattr(options, limit.name) for limit in fields(Limits)})


def _print_report(report: Report) -> None:
    if report.anchors:
        _print_table(("anchor", "status", "what"), [_row(anchor) for anchor in report.anchors])
    print(
        f"target {report.target}: {len(report.anchors)} anchors, {len(report.lowered)} lowered, "
        f"{len(report.refused)} refused; nodes {report.nodes_before} → {report.nodes_after}, "
        f"bytes {report.bytes_before} → {report.bytes_after}; {report.seconds:.3f} s"
    )


def _row(anchor: AnchorReport) -> tuple[str, str, str]:
    place = anchor.name if anchor.scope == "main" else f"{anchor.name} ({anchor.scope})"
    if anchor.status == "lowered":
        attributes = anchor.attributes or {}
        shown = " ".join(f"{name}={_compact(value)}" for name, value in attributes.items())
        return place, anchor.status, f"{anchor.op} {shown}".rstrip() + _pool(anchor)
    return place, anchor.status, f"{anchor.code}: {anchor.reason}"


def _pool(anchor: AnchorReport) -> str:
    """What became of the forward pool; nothing where it was not asked for."""
    if anchor.forward_op:
        return f"; pool: {anchor.forward_op}"
    return f"; pool stays: {anchor.forward_reason}" if anchor.forward_reason else ""


def _compact(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _printable(text: str) -> str:
    """The text on one line and without control characters: names of a model may hold commands to a terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Left-aligned columns; the last one is not padded."""
    lines = [[_printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for row in lines:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join([*padded[:-1], row[-1]]))


if __name__ == "__main__":
    sys.exit(main())
