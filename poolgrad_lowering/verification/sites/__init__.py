# SPDX-License-Identifier: Apache-2.0

"""The sites: the regions in which two models differ, and what can be said about one without running it.

Groups removed and added nodes into regions, extends a region to the nodes that run with it, and checks new nodes,
function bodies, windows and the flow of values against the dialect and the original.
"""
