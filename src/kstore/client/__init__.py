"""Producers and consumers of a store in this process."""
