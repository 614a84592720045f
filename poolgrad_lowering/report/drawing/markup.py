# SPDX-License-Identifier: Apache-2.0

"""HTML and SVG text. Every string that is not `Markup` is made printable and escaped."""

from __future__ import annotations

from html import escape

from poolgrad_lowering.diagnostics.printable import printable


class Markup(str):
    """Text that is markup already and is not escaped."""

    __slots__ = ()


Child = str | int
_VOID = frozenset(("br", "hr", "input", "meta"))


def element(tag: str, *children: Child, **attributes: Child | bool | None) -> Markup:
    """An element with children; children that are not `Markup` are text.

    In attribute names a trailing underscore is removed and other underscores become hyphens. True gives an attribute
    without a value, False and None give no attribute.
    """
    written = "".join(_attribute(name, value) for name, value in attributes.items())
    opened = f"<{tag}{written}>"
    return Markup(opened if tag in _VOID else f"{opened}{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
    """The concatenated children, without an element around them."""
    return Markup("".join(child if isinstance(child, Markup) else _text(child) for child in children))


def _text(text: Child) -> str:
    return escape(printable(str(text)))


def _attribute(name: str, value: Child | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{_text(value)}"'
