# SPDX-License-Identifier: Apache-2.0

"""Completion scripts for bash, zsh and fish, made from the command line's parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from poolgrad_lowering.cli.parser import Parser
from poolgrad_lowering.cli.streams import model_file
from poolgrad_lowering.targets.table import TARGETS


def bash(parser: Parser) -> str:
    """Return the script for bash 3.2 and newer."""
    values = [
        f"        {'|'.join(f'{name},{flag}' for flag in option.option_strings)}) {_bash_value(option)}; return ;;"
        for name, command in _all(parser)
        for option in _options(command)
        if option.nargs != 0
    ]
    words = [f"        {_bash_words_of(name, command)} ;;" for name, command in _all(parser)]
    return _BASH.format(commands="|".join(parser.commands), values="\n".join(values), words="\n".join(words))


def zsh(parser: Parser) -> str:
    """Return the script for zsh, a function to autoload or to source."""
    commands = "\n".join(f"        {_quoted(f'{name}:{help_}')}" for name, help_ in _helps(parser))
    cases = "\n".join(
        f"        {name}) _arguments {' '.join(_zsh_specs(command))} ;;" for name, command in parser.commands.items()
    )
    return _ZSH.format(options=" ".join(_zsh_specs(parser)), commands=commands, cases=cases)


def fish(parser: Parser) -> str:
    """Return the script for fish."""
    lines = ["complete -c poolgrad -f"]
    lines += [
        f"complete -c poolgrad -n __fish_use_subcommand -a {name} -d {_quoted(help_)}" for name, help_ in _helps(parser)
    ]
    for name, command in _all(parser):
        condition = f"-n '__fish_seen_subcommand_from {name}'" if name else "-n __fish_use_subcommand"
        lines += [f"complete -c poolgrad {condition} {_fish_option(option)}" for option in _options(command)]
        if name and _rest(command):
            lines.append(f"complete -c poolgrad {condition} -a '{' '.join(_rest(command))}'")
        if _takes_files(command):
            lines.append(f"complete -c poolgrad {condition} -F")
    return "\n".join(lines) + "\n"


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}
"""The script of each shell."""


def _all(parser: Parser) -> Iterator[tuple[str, Parser]]:
    """Yield the parser of what stands before a command, with an empty name, and the parser of each command."""
    yield "", parser
    yield from parser.commands.items()


def _helps(parser: Parser) -> list[tuple[str, str]]:
    """Return each command with its line of help."""
    [action] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    return [(choice.dest, str(choice.help)) for choice in action._choices_actions]  # noqa: SLF001


def _options(parser: Parser) -> list[argparse.Action]:
    return [argument for argument in parser.arguments if argument.option_strings]


def _positionals(parser: Parser) -> list[argparse.Action]:
    return [argument for argument in parser.arguments if not argument.option_strings]


def _values(argument: argparse.Action) -> list[str]:
    """Return the words that complete an argument's value: its choices, or the names of products and SoCs."""
    if argument.dest == "target":
        return [name for target in TARGETS.values() for name in (target.name, *target.socs)]
    return [str(choice) for choice in argument.choices or ()]


def _is_file(argument: argparse.Action) -> bool:
    return argument.type in (Path, model_file)


def _takes_files(parser: Parser) -> bool:
    return any(map(_is_file, _positionals(parser)))


def _rest(parser: Parser) -> list[str]:
    """Return the words that can stand in place of a positional argument."""
    return [*parser.commands, *(word for argument in _positionals(parser) for word in _values(argument))]


def _help(argument: argparse.Action) -> str:
    return str(argument.help)


def _quoted(text: str) -> str:
    """Return the text in single quotes, for the three shells."""
    return "'" + text.replace("'", "'\\''") + "'"


def _bash_words_of(name: str, command: Parser) -> str:
    """Return a case of the command line: the options, the other words, and whether files complete it."""
    options = _bash_words([flag for option in _options(command) for flag in option.option_strings])
    files = "yes" if _takes_files(command) else "no"
    return f"{_quoted(name)}) words={options}; rest={_bash_words(_rest(command))}; files={files}"


def _bash_words(words: Sequence[str]) -> str:
    return "$'" + "\\n".join(words) + "'"


def _bash_value(option: argparse.Action) -> str:
    if values := _values(option):
        return f'COMPREPLY=($(compgen -W {_bash_words(values)} -- "$word"))'
    return 'COMPREPLY=($(compgen -f -- "$word"))' if _is_file(option) else ":"


def _zsh_specs(parser: Parser) -> Iterator[str]:
    """Yield the arguments of `_arguments` for a parser's options and positional arguments."""
    for option in _options(parser):
        value = "" if option.nargs == 0 else f":{_zsh_text(str(option.metavar or option.dest))}:{_zsh_action(option)}"
        described = f"[{_zsh_text(_help(option))}]{value}"
        repeated = "*" if option.nargs == "+" or isinstance(option, argparse._CountAction) else ""  # noqa: SLF001
        for flag in option.option_strings:
            others = "" if repeated else f"({' '.join(option.option_strings)})"
            yield _quoted(f"{others}{repeated}{flag}{described}")
    for number, argument in enumerate(_positionals(parser), 1):
        yield _quoted(f"{number}:{_zsh_text(_help(argument))}:{_zsh_action(argument)}")


def _zsh_action(argument: argparse.Action) -> str:
    if values := _values(argument):
        return f"({' '.join(values)})"
    return "_files" if _is_file(argument) else ""


def _zsh_text(text: str) -> str:
    return "".join(f"\\{char}" if char in "[]:\\" else char for char in text)


def _fish_option(option: argparse.Action) -> str:
    flags = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.option_strings]
    if option.nargs == 0:
        value = []
    elif values := _values(option):
        value = [f"-x -a '{' '.join(values)}'"]
    else:
        value = ["-r -F" if _is_file(option) else "-x"]
    return " ".join([*flags, *value, f"-d {_quoted(_help(option))}"])


_BASH = """\
# Completes poolgrad in bash; made by `poolgrad completion bash`.
_poolgrad() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD - 1]}}"
    local command="" given words rest files IFS=$'\\n'
    COMPREPLY=()
    for given in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
        case "$given" in
        {commands}) command="$given"; break ;;
        esac
    done
    case "$command,$previous" in
{values}
    esac
    case "$command" in
{words}
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    else
        COMPREPLY=($(compgen -W "$rest" -- "$word"))
        if [[ $files == yes ]]; then
            COMPREPLY+=($(compgen -f -- "$word"))
        fi
    fi
}}
complete -o filenames -F _poolgrad poolgrad
"""

_ZSH = """\
#compdef poolgrad
# Completes poolgrad in zsh; made by `poolgrad completion zsh`.
_poolgrad() {{
    local context state state_descr line
    typeset -A opt_args
    local -a commands
    commands=(
{commands}
    )
    _arguments -C {options} '1: :->command' '*:: :->arguments'
    case $state in
    command) _describe command commands ;;
    arguments)
        case $words[1] in
{cases}
        esac ;;
    esac
}}
if [[ $funcstack[1] == _poolgrad ]]; then
    _poolgrad "$@"
else
    compdef _poolgrad poolgrad
fi
"""
