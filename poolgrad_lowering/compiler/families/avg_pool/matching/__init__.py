# SPDX-License-Identifier: Apache-2.0

"""What the forms of average pools share."""
