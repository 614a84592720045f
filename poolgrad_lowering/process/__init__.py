"""What a lowering takes from its process: environment variables, and the collector of garbage."""
