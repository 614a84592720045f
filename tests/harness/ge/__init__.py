# SPDX-License-Identifier: Apache-2.0

"""A stand-in for GE, CANN's graph engine, as far as ATC needs it to convert an ONNX model.

    model ── parser ──▶ graph ── kernels, operators, execution ──▶ results
               │
             driver ──▶ a parser plugin in a process with GE's libraries (`cpp/`)

It follows the sources of GE (`parser/`), of CANN's operators (`pooling/` in ops-nn) and of their plugins for ONNX, and
has tables and definitions of its own; `plugin_table.py` says what the plugins read, refuse and change, and
`documented.py` which types, ranks and windows the operators have, which only graph mode is held to. GE itself never ran
here, and these things of it are not followed: shape inference before a graph runs, conversions of layout, fusions,
and plugins without a row in the table.
"""
