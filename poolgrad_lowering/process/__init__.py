# SPDX-License-Identifier: Apache-2.0

"""What a lowering uses of its process: environment variables and the garbage collector."""
