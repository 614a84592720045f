# SPDX-License-Identifier: Apache-2.0

"""`poolgrad atc-plugin`: writes the parser plugin with which ATC converts lowered models."""

from __future__ import annotations

import argparse
from pathlib import Path

from poolgrad_lowering.entry.cli.arguments import Command, argument, flag
from poolgrad_lowering.entry.cli.console import print_error, print_json, print_line
from poolgrad_lowering.entry.cli.exit_codes import ExitCode


def _write_plugin(options: argparse.Namespace) -> ExitCode:
    from poolgrad_lowering.ge.atc.plugin_folder import write_atc_plugin  # noqa: PLC0415 - `--help` must load nothing

    plugin = write_atc_plugin(options.folder, machine=options.machine)
    if options.json:
        print_json(
            {
                "folder": str(plugin.folder),
                "library": str(plugin.library) if plugin.library else None,
                "machine": plugin.machine,
                "build": plugin.build,
                "setting": plugin.setting,
            }
        )
        return ExitCode.DONE
    if plugin.library is None and not options.quiet:
        print_error(
            f"warning: this installation has no library of the plugin; where the toolkit is, run {plugin.build}"
        )
    print_line(plugin.setting)
    return ExitCode.DONE


COMMANDS = {
    "atc-plugin": Command(
        help="write the parser plugin with which ATC converts lowered models",
        description="Write a parser plugin for ATC, CANN's converter of models, into a folder: the library, and its "
        "sources with a script that compiles them against an installed toolkit. Print the line for a shell after which "
        "ATC finds the plugin.",
        examples=(
            ("poolgrad atc-plugin plugin", "the library for this machine, and the sources"),
            ("poolgrad atc-plugin plugin --machine aarch64", "only if this installation has this library"),
        ),
        arguments=(
            argument("folder", type=Path, metavar="DIR", help="a folder, which is made if it does not exist"),
            argument("--machine", choices=("x86_64", "aarch64"), help="demand a library for this processor"),
            flag("--json", "print the paths and the line as JSON"),
        ),
        run=_write_plugin,
    ),
}
