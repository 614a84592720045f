# SPDX-License-Identifier: Apache-2.0

"""Files: reads models, writes results atomically, reads external data and copies it with a model."""
