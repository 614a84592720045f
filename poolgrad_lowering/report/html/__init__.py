# SPDX-License-Identifier: Apache-2.0

"""The HTML report: one file that shows every anchor, and how it was lowered or refused.

`record` collects the data during the lowering. A lowering without an HTML report does not import this package, which
knows nothing of files.
"""

from poolgrad_lowering.report.html.page import html_report
from poolgrad_lowering.report.html.record import Recorder

__all__ = ["Recorder", "html_report"]
