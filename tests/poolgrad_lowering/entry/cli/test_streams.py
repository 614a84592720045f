# SPDX-License-Identifier: Apache-2.0

"""Standard streams: models through pipes, streams that are closed or full, tables on terminals of any width."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.entry.cli.exit_codes import ExitCode
from tests.harness.processes import environment
from tests.pool_graphs import GRADIENT, parse

COMMAND = [sys.executable, "-m", "poolgrad_lowering.entry.cli"]
BYTES = GRADIENT.SerializeToString()


def piped(*arguments: str, given: bytes = BYTES, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments], input=given, env=environment() | variables, capture_output=True, check=False
    )


# -- models through pipes


def test_from_standard_input_to_standard_output() -> None:
    done = piped("lower", "-", "-o", "-")
    assert (done.returncode, done.stdout) == (0, lower(GRADIENT).model.SerializeToString())
    assert b"1 anchor, 1 lowered, 0 refused" in done.stderr
    assert done.stderr.endswith(b"wrote the model to standard output\n")
    assert piped("lower", "-", "-o", "-", "-q").stderr == b""


def test_inspect_and_verify_take_standard_input(tmp_path: Path) -> None:
    (tmp_path / "lowered.onnx").write_bytes(lower(GRADIENT).model.SerializeToString())
    assert b"1 anchor, 1 lowered" in piped("inspect", "-").stdout
    assert b"1 site, 1 proven" in piped("verify", "-", str(tmp_path / "lowered.onnx")).stdout


def test_nothing_is_written_to_standard_output_by_strict() -> None:
    refused = parse("g (float[2,3,4] dY, int64[2,3,4] I) => (dX) { dX = MaxPoolGrad(dY, I) }")
    done = piped("lower", "-", "-o", "-", "--strict", given=refused.SerializeToString())
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"no model written" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "-"], "error: '-': it is empty (not-onnx)"),
        (["verify", "-", "-"], "error: standard input is one model: give '-' once"),
        (["lower", "-", "-o", "-", "--json"], "error: standard output cannot be both the model and a report"),
        (["lower", "-", "-o", "absent/out.onnx"], "error: cannot write 'absent/out.onnx'"),
    ],
)
def test_streams_that_cannot_be_used(arguments: list[str], message: str) -> None:
    done = piped(*arguments, given=b"" if arguments[0] == "inspect" else BYTES)
    assert (done.returncode, done.stdout) == (ExitCode.BAD_INPUT, b"")
    assert done.stderr.decode().startswith(f"poolgrad: {message}")
    assert done.stderr.count(b"\n") == 1


def test_a_model_is_not_written_to_a_terminal() -> None:
    _, terminal = pty.openpty()
    done = subprocess.run(
        [*COMMAND, "lower", "-", "-o", "-"],
        input=BYTES,
        stdout=terminal,
        stderr=subprocess.PIPE,
        env=environment(),
        check=False,
    )
    os.close(terminal)
    assert (done.returncode, b"standard output is a terminal" in done.stderr) == (ExitCode.BAD_INPUT, True)


# -- streams that are closed or full


@pytest.mark.parametrize("arguments", ["targets", "--help", "help", "lower --help", "--version", "inspect m.onnx"])
@pytest.mark.parametrize("buffered", [True, False])
def test_full(arguments: str, buffered: bool, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    (tmp_path / "m.onnx").write_bytes(BYTES)
    variables = environment() | {"PYTHONUNBUFFERED": "" if buffered else "1"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *arguments.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            env=variables,
            cwd=tmp_path,
            check=False,
        )
    message = b"poolgrad: error: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (ExitCode.BAD_INPUT, message)


@pytest.mark.parametrize("arguments", ["targets", "--help", "help", "patterns --json"])
@pytest.mark.parametrize("buffered", [True, False])
def test_a_reader_that_left(arguments: str, buffered: bool) -> None:
    """As in `poolgrad help | head -0`."""
    variables = environment() | {"PYTHONUNBUFFERED": "" if buffered else "1"}
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*COMMAND, *arguments.split()], stdout=writing, stderr=subprocess.PIPE, env=variables, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_closed() -> None:
    line = " ".join([*COMMAND, "targets"])
    done = subprocess.run(["sh", "-c", f"{line} >&-"], env=environment(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    done = subprocess.run(
        ["sh", "-c", f"{' '.join(COMMAND)} inspect - <&-"], env=environment(), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (ExitCode.BAD_INPUT, b"poolgrad: error: standard input is closed\n")


# -- what is printed


def on_a_terminal(columns: int, *arguments: str) -> list[str]:
    """The lines that a command writes to a terminal of this width."""
    ours, theirs = pty.openpty()
    variables = environment() | {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": str(columns)}
    with subprocess.Popen([*COMMAND, *arguments], env=variables, stdout=theirs) as running:
        os.close(theirs)
        written = b""
        try:
            while block := os.read(ours, 4096):
                written += block
        except OSError:  # the end of a terminal
            os.close(ours)
    assert running.returncode == 0
    return written.decode().splitlines()


@pytest.mark.parametrize("columns", [130, 150])
@pytest.mark.parametrize("command", ["targets ascend950", "patterns"])
def test_tables_fit_the_terminal(columns: int, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrapped = on_a_terminal(columns, *command.split())
    assert max(map(len, wrapped)) <= columns
    main(command.split())
    whole = capsys.readouterr().out
    assert sorted(re.findall(r"\S+", "\n".join(wrapped))) == sorted(re.findall(r"\S+", whole))
    assert max(map(len, whole.splitlines())) > columns


def test_operators_are_shown_with_their_domains(capsys: pytest.CaptureFixture[str]) -> None:
    main(["patterns"])
    assert "  npu.NPUMaxPool2dWithIndicesBackward, npu.NPUMaxPool3dWithIndicesBackward  " in capsys.readouterr().out
    main(["targets", "atlas-a2"])
    assert "operator of domain npu" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a\x1b[2J.onnx", "a\nb.onnx"])
@pytest.mark.parametrize("command", ["inspect", "lower"])
def test_paths_do_not_command_the_terminal(
    name: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(b"garbage" * 9)
    out = ["-o", str(tmp_path / "out.onnx")] if command == "lower" else []
    for path in (tmp_path / name, tmp_path / f"absent-{name}"):
        assert main(["-v", command, str(path), *out]) == ExitCode.BAD_INPUT
        error = capsys.readouterr().err
        assert error.count("\n") == error.count("poolgrad")
        assert error.replace("\n", "").isprintable()


def test_arguments_do_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["inspect", "m.onnx", "--\x1b[2J"])
    assert r"--\x1b[2J" in capsys.readouterr().err


def test_logged_paths_do_not_command_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[2J.onnx"
    path.write_bytes(BYTES)
    logged = piped("-v", "lower", str(path), "-o", "-").stderr
    assert rb"a\x1b[2J.onnx: " in logged
    assert b"\x1b" not in logged


# -- help


def test_without_a_command_the_help_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == ExitCode.BAD_INPUT
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "list what would be lowered" in printed.err


@pytest.mark.parametrize("arguments", [[], ["lower"], ["help"]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", *arguments]) == 0
    shown = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*arguments, "--help"])
    assert shown == capsys.readouterr().out


def test_help_for_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "lowr"]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err == "poolgrad: error: unknown command 'lowr' (did you mean lower?)\n"
