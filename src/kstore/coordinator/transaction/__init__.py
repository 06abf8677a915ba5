"""The transaction coordinator: a state machine without I/O, its records, and its storage."""
