# SPDX-License-Identifier: Apache-2.0

"""How the command speaks: help, suggestions, colours and logs. As a process where the process matters."""

from __future__ import annotations

import io
import json
import logging
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import ModelProto

from poolgrad_lowering.entry.cli import build_parser, main
from poolgrad_lowering.entry.cli.exit_codes import MEANINGS, ExitCode
from tests.harness.processes import environment
from tests.pool_graphs import GRADIENT

COMMAND = [sys.executable, "-m", "poolgrad_lowering.entry.cli"]
COMMANDS = build_parser().commands


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "m.onnx"
    path.write_bytes(GRADIENT.SerializeToString())
    return str(path)


def process(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], env=environment() | variables, capture_output=True, text=True, check=False
    )


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, *arguments: str, **variables: str) -> str:
    """What the command writes to a terminal."""
    terminal = Terminal()
    for name, value in ({"TERM": "xterm", "NO_COLOR": ""} | variables).items():
        monkeypatch.setenv(name, value)
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, terminal)
    main(arguments)
    monkeypatch.undo()
    return re.sub(r"[\d.]+ s$", "", terminal.getvalue(), flags=re.MULTILINE)


def level(name: str) -> str:
    """The level at which a module of the package logs."""
    return logging.getLevelName(logging.getLogger(f"poolgrad_lowering.{name}").getEffectiveLevel())


# -- help


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert "examples:\n  " in capsys.readouterr().out
    assert all(argument.help for argument in COMMANDS[name].arguments)


@pytest.mark.parametrize(
    ("words", "rare"),
    [([], "completion  "), (["lower"], "--max-nodes"), (["inspect"], "--max-bytes"), (["export-atc"], "--max-nesting")],
)
def test_what_is_rarely_needed_is_in_the_whole_help_alone(
    words: list[str], rare: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for option, is_shown in (("--help", False), ("--help-all", True)):
        with pytest.raises(SystemExit) as caught:
            main([*words, option])
        assert caught.value.code == 0
        assert (rare in capsys.readouterr().out) == is_shown


@pytest.mark.parametrize("width", [70, 80, 200])
@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_is_wrapped_to_the_terminal(
    name: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the command lines of the examples stay whole."""
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["help", *filter(None, [name])]) == 0
    parser = COMMANDS[name] if name else build_parser()
    printed = capsys.readouterr().out
    long = {line.strip() for line in printed.splitlines() if len(line) > width}
    assert long <= {line for line, _ in parser.examples}
    words = re.sub(r"\s+", " ", printed)
    for text in (parser.description, *(text for example in parser.examples for text in example)):
        assert re.sub(r"\s+", " ", str(text)) in words


@pytest.mark.parametrize(
    "line", [line for parser in (build_parser(), *COMMANDS.values()) for line, _ in parser.examples]
)
def test_examples_are_command_lines(line: str) -> None:
    [command] = re.findall(r"poolgrad ([^>)]+)", line)
    build_parser().parse_args(shlex.split(command))


def test_all_that_is_a_result_is_there_as_json() -> None:
    with_json = {name for name, parser in COMMANDS.items() if "--json" in parser.format_help()}
    assert with_json == set(COMMANDS) - {"completion", "help"}


# -- suggestions


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["lowr", "a.onnx"], "(did you mean lower?)"),
        (["inspect", "a.onnx", "--taget", "atlas-a2"], "(did you mean --target?)"),
        (["lower", "a.onnx", "--ouput=b.onnx"], "(did you mean --output?)"),
        (["-v", "verfy", "a.onnx", "b.onnx"], "(did you mean verify?)"),
        (["inspect", "a.onnx", "--target", "atlas-b2"], "(did you mean atlas-a2?)"),
        (["inspect", "a.onnx", "--target", "ASCEND910B33"], "(did you mean Ascend910B3?)"),
    ],
)
def test_suggestions(arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(arguments) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err.splitlines()[-1].count(hint) == 1


@pytest.mark.parametrize("arguments", [["frobnicate"], ["inspect", "a.onnx", "--xyzzy"], ["inspect", "--target"]])
def test_nothing_is_suggested_where_nothing_is_near(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(arguments) == ExitCode.BAD_INPUT
    assert "did you mean" not in capsys.readouterr().err


def refused(arguments: list[str]) -> int:
    """The exit code, which argparse and the command give in different ways."""
    try:
        return main(arguments)
    except SystemExit as error:
        return int(error.code or 0)


# -- colours


def test_colours_are_for_terminals(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    coloured = on_a_terminal(monkeypatch, "inspect", model)
    plain = on_a_terminal(monkeypatch, "inspect", model, NO_COLOR="1")
    assert "\033[32mlowered\033[0m" in coloured
    assert "\033" not in plain
    assert re.sub(r"\033\[[\d;]*m", "", coloured) == plain
    assert on_a_terminal(monkeypatch, "inspect", model, TERM="dumb") == plain
    assert "\033[31;1merror\033[0m: " in on_a_terminal(monkeypatch, "inspect", "absent.onnx")
    main(["inspect", model])
    assert "\033" not in capsys.readouterr().out


def test_progress_on_a_terminal(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    for name in "ab":
        (tmp_path / "models" / f"{name}.onnx").write_bytes(Path(model).read_bytes())
    arguments = ["lower", str(tmp_path / "models"), "-o", str(tmp_path / "out"), "--jobs", "1"]
    shown = on_a_terminal(monkeypatch, *arguments)
    assert re.search(r"\[#{12} {12}\] 1/2 a\.onnx\r\033\[K", shown)
    assert shown.rstrip().endswith("2 models, 2 written, 0 failed; 2 anchors lowered, 0 refused")
    assert on_a_terminal(monkeypatch, *arguments, "-q") == ""


# -- output and logs


def test_json_is_all_there_is_on_standard_output(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = process("-vv", "inspect", model, "--json", POOLGRAD_LOG="debug")
    assert json.loads(done.stdout)["summary"]["lowered"] == 1
    assert "poolgrad_lowering.compiler.lowering.pipeline: main:sums lowered: MaxPool3D" in done.stderr
    found = []
    for arguments in (["lower", model, "-o", str(tmp_path / "out.onnx")], ["patterns"], ["targets"]):
        assert main([*arguments, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["summary"]["lowered"] == 1
    assert set(found[1]["patterns"][0]) == {"name", "anchors", "summary"}
    assert found[2]["default"] == "atlas-a2"


def test_quiet(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lower", model, "-o", str(tmp_path / "out.onnx"), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "out.onnx").exists()
    assert main(["lower", "absent.onnx", "-o", "out.onnx", "-q"]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err.startswith("poolgrad: error: ")


@pytest.mark.parametrize(
    ("arguments", "variable", "lowering", "files"),
    [
        ([], "", "WARNING", "WARNING"),
        (["-q"], "", "ERROR", "ERROR"),
        (["-v"], "", "INFO", "INFO"),
        (["-vv"], "", "DEBUG", "DEBUG"),
        ([], "info", "INFO", "INFO"),
        (["-q"], "INFO", "INFO", "INFO"),
        (["-v"], "error:lowering", "ERROR", "INFO"),
        ([], "warning, debug:poolgrad_lowering.lowering,", "DEBUG", "WARNING"),
        (["-v"], "error,info:files", "ERROR", "INFO"),
    ],
)
def test_what_is_logged(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], variable: str, lowering: str, files: str
) -> None:
    monkeypatch.setenv("POOLGRAD_LOG", variable)
    for line in (["targets", *arguments], [*arguments, "targets"]):
        assert main(line) == 0
        assert (level("lowering"), level("files")) == (lowering, files)
        for name in ("lowering", "files"):
            logging.getLogger(f"poolgrad_lowering.{name}").setLevel(logging.NOTSET)


def test_a_level_that_is_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("POOLGRAD_LOG", "info,loud:files")
    assert main(["targets"]) == ExitCode.BAD_INPUT
    assert "POOLGRAD_LOG: unknown level 'loud': give one of debug, info, " in capsys.readouterr().err


def test_the_library_prints_nothing(model: str) -> None:
    program = f"import poolgrad_lowering as p, logging; p.lower_file({model!r}, {model!r}); "
    program += "logging.getLogger('poolgrad_lowering.x').warning('unseen'); print(logging.getLogger().handlers)"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


# -- the end


def test_every_exit_code_has_its_meaning() -> None:
    assert list(MEANINGS) == list(ExitCode)


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from poolgrad_lowering.entry import listing

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "all_forms", interrupt)
    assert main(["patterns"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "poolgrad: interrupted\n"


def test_names_of_a_model_do_not_command_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = ModelProto.FromString(GRADIENT.SerializeToString())
    evil.graph.node[-2].output[0] = evil.graph.node[-1].input[0] = "\x1b[2Jsums"
    (tmp_path / "m.onnx").write_bytes(evil.SerializeToString())
    assert r"\x1b[2Jsums" in on_a_terminal(monkeypatch, "inspect", str(tmp_path / "m.onnx"), NO_COLOR="1")
