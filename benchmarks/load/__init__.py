"""Brokers under load: a C load generator sends prebuilt frames to kstore, Kafka and a null broker.

`frames` builds the requests, `programs` compiles and runs the two C programs, `brokers` starts the
brokers and reads their resource usage from /proc, `workloads` defines the workloads, `rounds` runs
them interleaved, and `table` prints the results. The command is in `__main__`.
"""
