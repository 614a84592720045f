# SPDX-License-Identifier: Apache-2.0

"""Writes the C++ tables of products and SoC names from the compiler's table of targets.

    python3 tools/environments.py test python -m tools.soc_table

Run it where a target is changed; a test fails until then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from poolgrad_lowering.dialect.targets import TARGETS, Target

HEADER = Path(__file__).parents[1] / "runtime" / "src" / "abi" / "soc_table.h"

_TEXT = """// SPDX-License-Identifier: Apache-2.0

// Written by tools/soc_table.py from the compiler's table of targets.
#ifndef POOLGRAD_ABI_SOC_TABLE_H_
#define POOLGRAD_ABI_SOC_TABLE_H_

namespace poolgrad {

// clang-format off
// The products that have operators for the pools and their gradients; those that behave alike in aclnn are one here.
enum class AclnnProduct {
  kUnsupported,
%s
};

struct AclnnProductName {
  AclnnProduct product;
  const char* name;
};

constexpr AclnnProductName kAclnnProducts[] = {
    {AclnnProduct::kUnsupported, "unsupported"},
%s
};

// Named by CANN's short SoC name: 910B is Atlas A2, 910_93 is Atlas A3.
enum class SocProduct {
%s
};

struct SocProductRow {
  SocProduct product;
  const char* name;
  AclnnProduct aclnn;
};

constexpr SocProductRow kSocProducts[] = {
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


def soc_table(targets: Iterable[Target] = TARGETS.values()) -> str:
    """Return the header for these targets."""
    targets = list(targets)
    names = sorted({target.aclnn for target in targets} - {""})
    rows = [f'    {{SocProduct::k{t.chip}, "{t.chip}", AclnnProduct::{aclnn_product(t.aclnn)}}},' for t in targets]
    socs = [f'    {{"{soc}", SocProduct::k{target.chip}}},' for target in targets for soc in target.socs]
    tables = (
        [f"  {aclnn_product(name)}," for name in names],
        [f'    {{AclnnProduct::{aclnn_product(name)}, "{name}"}},' for name in names],
        [f"  k{target.chip}," for target in targets],
        rows,
        socs,
    )
    return _TEXT % tuple("\n".join(lines) for lines in tables)


def aclnn_product(name: str) -> str:
    """Return the C++ name of the products that behave alike in aclnn; without a name, of those without operators."""
    return "k" + re.sub(r"[^A-Za-z0-9]", "", name) if name else "kUnsupported"


if __name__ == "__main__":
    HEADER.write_text(soc_table(), encoding="utf-8")
