# SPDX-License-Identifier: Apache-2.0

"""Completion of the command line in bash, zsh and fish: each shell completes a line, where it is installed."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from poolgrad_lowering.entry.cli import build_parser, main
from poolgrad_lowering.entry.cli.about import SHELLS

COMMANDS = build_parser().commands


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_knows_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    assert "copy-external" in script


def in_bash(script: Path, words: list[str]) -> set[str]:
    program = f"""source {script}
        function=$(complete -p poolgrad | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
        COMP_WORDS=({" ".join(word or '""' for word in words)}); COMP_CWORD={len(words) - 1}
        $function poolgrad "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", program], cwd=script.parent, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def in_fish(script: Path, words: list[str]) -> set[str]:
    """What fish would list; it adds a description behind a tab."""
    program = f"source {script}; complete -C '{' '.join(words)}'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", program], cwd=script.parent, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return {line.split("\t")[0] for line in done.stdout.splitlines()}


ZSH = """
PS1= RPS1=
fpath=({folder} $fpath)
autoload -Uz compinit && compinit -D -u
compadd() {{
    local -a hits
    if [[ ${{@[1,(i)(-|--)]}} != *-(O|A|D)\\ * ]]; then
        builtin compadd -A hits "$@"
        (( $#hits )) && print -rl -- "<hit>"${{^hits}}"</hit>"
    fi
    builtin compadd "$@"
}}
"""
"""zsh completes only in its line editor: the function prints what is added to the matches."""
EDITING = "\x1b[?2004h"
"""What zsh writes to a terminal when its line editor starts to read."""


def in_zsh(script: Path, words: list[str]) -> set[str]:
    """What zsh offers when the tab key is pressed behind the words."""
    setup = script.with_name("setup.zsh")
    setup.write_text(ZSH.format(folder=script.parent))
    terminal, inner = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=inner, stdout=inner, stderr=inner, cwd=script.parent, start_new_session=True,
        env=os.environ | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(inner)
    try:
        written_until(terminal, EDITING)
        os.write(terminal, f"source {setup}; print RE''ADY\n".encode())
        written_until(terminal, "READY", EDITING)
        os.write(terminal, f"{' '.join(words)}\t\x15print DO''NE\n".encode())  # Ctrl-U deletes the line
        return set(re.findall("<hit>(.*?)</hit>", written_until(terminal, "DONE")))
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


def written_until(terminal: int, *marks: str) -> str:
    """What is written to a terminal until it has the marks one behind the other."""
    written, deadline = "", time.monotonic() + 60
    while not re.search(".*".join(map(re.escape, marks)), written, re.DOTALL):
        assert time.monotonic() < deadline, written
        if select.select([terminal], [], [], 1)[0]:
            written += os.read(terminal, 1 << 16).decode(errors="replace")
    return written


COMPLETED: dict[str, Callable[[Path, list[str]], set[str]]] = {"bash": in_bash, "fish": in_fish, "zsh": in_zsh}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["poolgrad", "lower-"], {"lower-artifacts"}),
        (["poolgrad", "lower", "--str"], {"--strict"}),
        (["poolgrad", "verify", "--backend", ""], {"host", "cann"}),
        (["poolgrad", "inspect", "m.o"], {"m.onnx"}),
        (["poolgrad", "lower", "m.onnx", "-o", "m.o"], {"m.onnx"}),
        (["poolgrad", "lower", "--jobs", ""], set()),
        (["poolgrad", "-q", "lower", "--no"], {"--no-forward"}),
        (["poolgrad", "completion", ""], set(SHELLS)),
        (["poolgrad", "lower", "--target", "atlas-a"], {"atlas-a2", "atlas-a3"}),
        (["poolgrad", "export-atc", "--target", "Ascend910B4"], {"Ascend910B4", "Ascend910B4-1"}),
        (["poolgrad", "--ver"], {"--version", "--verbose"}),
        (["poolgrad", "help", "l"], {"lower", "lower-artifacts"}),
        (["poolgrad", "lower", "m.onnx", "--plan", "p"], {"p.json"}),
        (["poolgrad", "inspect", "--plan", "p"], {"p.json"}),
    ],
)
@pytest.mark.parametrize("shell", SHELLS)
def test_completion(
    shell: str, words: list[str], expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    main(["completion", shell])
    script = tmp_path / "_poolgrad"  # as zsh finds it in its path of functions
    script.write_text(capsys.readouterr().out)
    (tmp_path / "m.onnx").touch()
    (tmp_path / "p.json").touch()
    assert COMPLETED[shell](script, words) == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_scripts_are_read_by_their_shells(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    main(["completion", shell])
    checked = subprocess.run([shell, "-n"], input=capsys.readouterr().out, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_has_every_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", shell])
    script = capsys.readouterr().out
    flags = {flag for parser in COMMANDS.values() for argument in parser.arguments for flag in argument.option_strings}
    assert len(flags) > 30
    assert all(re.search(rf"(?<!\w){flag.lstrip('-')}(?![\w-])", script) for flag in flags)
