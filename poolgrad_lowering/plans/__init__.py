"""Lowering plans, which users edit: writes, reads, validates and applies them."""
