# SPDX-License-Identifier: Apache-2.0

"""The C++ table of products and SoC names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from poolgrad_lowering.dialect.targets import Target
from tools.operator_tables.cpp import lines

_TEXT = """
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
};"""


def product_table(targets: Iterable[Target]) -> str:
    """Return the table of these targets."""
    targets = list(targets)
    names = sorted({target.aclnn for target in targets} - {""})
    return _TEXT % (
        lines(f"  {aclnn_product(name)}," for name in names),
        lines(f'    {{AclnnProduct::{aclnn_product(name)}, "{name}"}},' for name in names),
        lines(f"  k{target.chip}," for target in targets),
        lines(f'    {{SocProduct::k{t.chip}, "{t.chip}", AclnnProduct::{aclnn_product(t.aclnn)}}},' for t in targets),
        lines(f'    {{"{soc}", SocProduct::k{target.chip}}},' for target in targets for soc in target.socs),
    )


def aclnn_product(name: str) -> str:
    """Return the C++ name of the products that behave alike in aclnn; without a name, of those without operators."""
    return "k" + re.sub(r"[^A-Za-z0-9]", "", name) if name else "kUnsupported"
