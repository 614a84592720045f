"""What a target can run: its operators, and the windows of a gradient or a pool brought into their contract."""
