"""A plan that a user edits: written, read, checked, carried out."""
