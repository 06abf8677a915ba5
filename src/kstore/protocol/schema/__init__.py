"""The tables of Kafka's messages, and the generator of the modules that encode and decode them.

Modules:

- generate: Generates the modules in ``protocol/messages`` and ``protocol/records``
- table: Parses the tables ``messages.txt`` and ``records.txt``
"""
