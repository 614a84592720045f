"""Translation validation of a lowered model, from the two models alone.

Shares with the compiler the names of the dialect's operators and nothing else: it has its own view of the graph, finds
the sites by what differs, and runs the original by its own operators.
"""

from __future__ import annotations
