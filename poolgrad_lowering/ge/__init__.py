# SPDX-License-Identifier: Apache-2.0

"""What GE reads: CANN's graph engine, whose ONNX parser serves ATC and the graph mode of onnxruntime's CANN provider.

`obstacles` names what GE refuses or changes, `rewrites` writes nodes so that GE reads what ONNX means, `scalars` keeps
values of rank 0 away from the borders of graph mode's sub-models, and `graph_mode` does all of it for a session.
"""
