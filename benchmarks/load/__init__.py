"""Brokers under load: a generator in C sends ready-made frames to kstore, Kafka and a null broker.

`frames` builds the requests, `programs` compiles and runs the two C programs, `brokers` starts the
brokers and reads what they used from /proc, `works` is the table of what is asked, `rounds` runs
it interleaved, `table` prints it. The command is in `__main__`.
"""
