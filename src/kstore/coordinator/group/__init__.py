"""Committed offsets of consumer groups, and the claims that prevent two readers of a partition.

Modules:

- alter_groups: Changes and deletes the committed offsets of groups, as Kafka's admin client does
- claims: Claims that keep two consumers of one group from reading the same partition
- group_offsets: A group's committed offsets: a writer keeps them in a log, other processes in a
  file
- list_groups: Lists consumer groups with their committed offsets, lag and claims
- offset_records: Encodes and decodes the offset commits of ``__consumer_offsets``, byte for byte as
  Kafka
- offsets_table: The commits in a partition of ``__consumer_offsets``, as Kafka's own records
- reader_offsets_file: ``kstore.offsets.<group>``: the commits of a process that may not write the
  store's logs
- store_group: Committed offsets of consumer groups, in ``__consumer_offsets`` or in files beside it
- verify_keys: Extends the audit of ``__consumer_offsets``: decodes the keys of its records
"""
