"""What is known of a value, each fact a proof: its type, shape, constants, and which pool recorded it."""
