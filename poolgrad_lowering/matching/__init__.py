"""What the forms share: the questions that they ask of a graph around an anchor."""
