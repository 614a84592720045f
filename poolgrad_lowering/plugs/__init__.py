"""The compiler as a step of other tools, one module for each; the tool is imported by its module alone."""
