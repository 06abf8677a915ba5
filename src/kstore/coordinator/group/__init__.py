"""Committed offsets of consumer groups, and the claims that keep two readers apart."""
