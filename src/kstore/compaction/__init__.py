"""The log cleaner: of every key, the latest record stays."""
