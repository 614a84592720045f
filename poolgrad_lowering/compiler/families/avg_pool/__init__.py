# SPDX-License-Identifier: Apache-2.0

"""The family of average pools."""
