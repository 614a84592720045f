# SPDX-License-Identifier: Apache-2.0

"""From files to files: one model, a folder of models, training artifacts; and the exports for CANN."""
