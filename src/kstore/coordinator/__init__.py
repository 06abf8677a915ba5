"""The coordinators of consumer groups and transactions."""
