"""The edit of the model: what dies with the old nodes, the new nodes, and the function bodies that they need."""
