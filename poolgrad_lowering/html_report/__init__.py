"""The report as a page for people: one HTML file with every anchor, what became of it, how and why.

It takes down what it shows while the model is lowered (`record`), and only then; a lowering without a page does not
load it. It knows nothing of files.
"""

from __future__ import annotations

from poolgrad_lowering.html_report.page import html_report
from poolgrad_lowering.html_report.record import Recorder

__all__ = ["Recorder", "html_report"]
