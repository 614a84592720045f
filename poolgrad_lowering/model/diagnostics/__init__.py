# SPDX-License-Identifier: Apache-2.0

"""Everything a user reads when a lowering fails or refuses: errors, and the catalogue of codes with advice."""
