"""Files: models read, results put in place whole, external data read and carried along."""
