"""Helpers of the tests: disks that lie, logs without a store."""
