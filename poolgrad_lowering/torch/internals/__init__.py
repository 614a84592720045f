# SPDX-License-Identifier: Apache-2.0

"""All of torch that is not public and that this package uses. A test says when torch moves it."""
