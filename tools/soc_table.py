# SPDX-License-Identifier: Apache-2.0

"""Writes the C++ table of products and SoC names from the compiler's table of targets.

    python -m tools.soc_table

Run it where a target is changed; a test fails until then.
"""

from __future__ import annotations

from pathlib import Path

from poolgrad_lowering.targets.table import TARGETS

HEADER = Path(__file__).parents[1] / "runtime" / "src" / "abi" / "soc_table.h"

_TEXT = """// SPDX-License-Identifier: Apache-2.0

// Written by tools/soc_table.py from the compiler's table of targets.
#ifndef POOLGRAD_ABI_SOC_TABLE_H_
#define POOLGRAD_ABI_SOC_TABLE_H_

namespace poolgrad {

// clang-format off
// Named by CANN's short SoC name: 910B is Atlas A2, 910_93 is Atlas A3.
enum class SocProduct {
%s
};

struct Soc {
  const char* name;
  SocProduct product;
};

constexpr Soc kSocs[] = {
%s
};
// clang-format on

}  // namespace poolgrad

#endif  // POOLGRAD_ABI_SOC_TABLE_H_
"""


def soc_table() -> str:
    """Return the header."""
    chips = [f"  k{target.chip}," for target in TARGETS.values()]
    rows = [f'    {{"{soc}", SocProduct::k{target.chip}}},' for target in TARGETS.values() for soc in target.socs]
    return _TEXT % ("\n".join(chips), "\n".join(rows))


if __name__ == "__main__":
    HEADER.write_text(soc_table(), encoding="utf-8")
