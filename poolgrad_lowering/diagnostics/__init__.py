"""What is said when something does not go: errors, codes and advice of refusals, faults of inputs, printable names."""
