# SPDX-License-Identifier: Apache-2.0

"""The documentation, and the programs that write its generated pages."""
