# SPDX-License-Identifier: Apache-2.0

"""What tests start, compile, or put in the place of another program; the tests themselves are in the other folders.

| Here | What it is |
| --- | --- |
| `processes`, `examples` | start a new interpreter with the package under test, and a program of `examples/` |
| `atc/` | a program of the parts of the plugin for ATC that do not need GE |
| `cann/` | stand-ins for CANN's libraries; `tools/cann_home.py` builds those in C++ |
| `determinism/` | programs that write what lowering makes of models, and compare what two of them wrote |
| `fuzz/` | programs that pass random bytes to the C++ libraries |
| `ge/` | the stand-in for GE, with a process that opens a parser plugin |
| `libraries/` | small C++ libraries that count allocations, let them fail, or throw |
| `native/` | C++ programs that call both libraries, with a stand-in for onnxruntime |
| `onnxruntime/` | the stand-in for a release archive of onnxruntime |
| `other_tools/` | a process that applies tools of other packages, and a program that reads a model as Netron does |
| `releases/` | programs that write lowered models to a folder, and run it under one release of onnxruntime |
| `sessions/` | programs that run sessions in a process of their own, how it is started, and its host library |
| `torch_npu/` | processes of torch_npu, and what they release when they end |

Models, cases, tables and fixtures are beside the tests that use them, and so are the searches and writers that a person
starts: `tests/test_harness.py`.
"""
