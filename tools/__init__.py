# SPDX-License-Identifier: Apache-2.0

"""Programs for the sessions of noxfile.py: one runs nox, the others make wheels and what goes into these."""
