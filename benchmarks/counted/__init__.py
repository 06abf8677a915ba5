"""What an operation costs in numbers that repeat: instructions, calls, allocations, copies.

Time guards nothing on a shared machine. ``make counts`` compares what is counted here with
``baseline.json``; ``make baseline`` renews that file and says what changed (docs/testing.md).
``exchange_time`` alone measures time, by hand: that of a request to a broker without a network.
"""
