"""Helpers of tests: fault-injecting disks, logs without a store, clients, servers."""
