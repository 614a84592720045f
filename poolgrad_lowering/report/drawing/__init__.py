# SPDX-License-Identifier: Apache-2.0

"""Drawings of parts of a model as SVG: a site before and after its lowering. Knows neither pages nor files."""
