"""Transactions: the coordinator, as a state machine without I/O, and its records."""
