"""Files: reads models, writes results atomically, reads external data and copies it with a model."""
