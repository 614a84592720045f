# SPDX-License-Identifier: Apache-2.0

"""`poolgrad export-atc --plugin`: writes the parser plugin with which ATC converts lowered models."""

from __future__ import annotations

import argparse

from poolgrad_lowering.entry.cli.console import print_error, print_json, print_line
from poolgrad_lowering.entry.cli.exit_codes import ExitCode


def write_plugin(options: argparse.Namespace) -> ExitCode:
    """Write the plugin into the folder `options.plugin`, and print the line after which ATC finds it."""
    from poolgrad_lowering.ge.atc.plugin_folder import write_atc_plugin  # noqa: PLC0415 - `--help` must load nothing

    plugin = write_atc_plugin(options.plugin, machine=options.machine)
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
