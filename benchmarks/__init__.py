# SPDX-License-Identifier: Apache-2.0

"""What the compiler and the runtime cost, measured beside other packages."""
