"""The tables of Kafka's messages, and the generator of the modules that encode and decode them.

Modules:

- generate: Source text of the modules in ``protocol/messages``
- table: The tables ``messages.txt`` and ``records.txt`` as objects: messages, fields, versions
"""
