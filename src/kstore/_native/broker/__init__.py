"""Cuts a connection's bytes into frames; parses and answers the broker's most frequent requests
without an object for each field.

Modules:

- fetch_frame: a Fetch request of one partition, and what surrounds its records
- frame_cutter: splits a connection's bytes into frames
- produce_frame: a Produce request with one small batch, and its answer
- produce_turn: reads a connection once, and handles such requests
- request_fields: fields that these requests share
- transaction_frames: AddPartitionsToTxn of one topic, EndTxn, and their answers
"""
