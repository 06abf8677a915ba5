"""Who reads what: committed offsets, and the claims that keep two readers apart."""
