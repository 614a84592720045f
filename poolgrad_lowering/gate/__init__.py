"""The gate: what a model must be before it is worked on, checked while its index is built.

Each module checks one thing of the protobuf and answers with a `Flaw` or None; `index` and `files` ask, say where, and
raise. What is accepted is what onnxruntime takes: unsorted node lists too, and operators that nobody knows.
"""
