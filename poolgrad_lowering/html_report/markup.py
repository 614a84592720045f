"""HTML and SVG as text in which everything is escaped, and printable, that was not made here."""

from __future__ import annotations

from html import escape

from poolgrad_lowering.diagnostics.printable import printable


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | int
_VOID = frozenset(("br", "hr", "input", "meta"))


def element(tag: str, *children: Child, **attributes: Child | bool | None) -> Markup:
    """An element: children that are no `Markup` are text.

    Attribute names lose a trailing underscore, other underscores become hyphens; True stands for an attribute without a
    value, False and None for no attribute.
    """
    written = "".join(_attribute(name, value) for name, value in attributes.items())
    opened = f"<{tag}{written}>"
    return Markup(opened if tag in _VOID else f"{opened}{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
    """Children one after the other, without an element of their own."""
    return Markup("".join(child if isinstance(child, Markup) else _text(child) for child in children))


def _text(text: Child) -> str:
    return escape(printable(str(text)))


def _attribute(name: str, value: Child | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{_text(value)}"'
