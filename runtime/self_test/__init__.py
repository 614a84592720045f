"""A short test of the runtime on this machine, for the first person who has the device: `poolgrad self-test`.

Small pools and gradients, and sessions of them, run on a backend and are compared with what their definition gives in
numpy. Knows the dialect's operators; nothing of training graphs, patterns or targets.
"""
