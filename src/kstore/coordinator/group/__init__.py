"""Committed offsets of consumer groups, and the claims that prevent two readers of a partition."""
