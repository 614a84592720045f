"""What a lowering uses of its process: environment variables and the garbage collector."""
