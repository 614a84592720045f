# SPDX-License-Identifier: Apache-2.0

"""Writes the tables of operators, functions and products that other languages read, from the rows of the dialect.

    python3 tools/environments.py test python -m tools.operator_tables

Run it where a row of the dialect or a target is changed; a test fails until then.
"""
