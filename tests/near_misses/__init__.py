# SPDX-License-Identifier: Apache-2.0

"""Every single small change of small training graphs, with the verdict on each."""
