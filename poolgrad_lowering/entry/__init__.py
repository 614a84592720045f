"""From files to files: one model, a folder of models, training artifacts."""
