"""Small state files of a partition, a log directory or a store, and the directory that has them.

Modules:

- broker_addresses: ``kstore.listeners``: the addresses of the broker that serves the directory
- clean_shutdown: Kafka's marker of a clean shutdown, ``.kafka_cleanshutdown``
- cleaner_offsets: ``cleaner-offset-checkpoint``: how far the log cleaner has compacted each
  partition
- java_properties: Java properties files: ``meta.properties``, ``server.properties``,
  those of clients
- known_gaps: ``kstore.gaps``: offsets that are in no batch of a partition, and are no new loss
- leader_epochs: Which leader epoch wrote which offsets: Kafka's LeaderEpochFileCache and its file
- log_dir: One log directory (an element of Kafka's ``log.dirs``): its lock, marker and names
- log_dir_offsets: Recovery points, log starts, high watermarks and the cleaner's offsets of a log
  directory
- meta_properties: ``meta.properties``: the cluster, node and directory id of a log directory
- offset_checkpoint: The format of Kafka's offset checkpoints; ``log_dir_offsets`` writes them
- partition_metadata: ``partition.metadata``: the topic id of a partition directory
- quarantine: Quarantined files, by name: bytes that recovery cut, and side files that do not
  parse
- state_file: JSON state files, of which every log directory of a store has a copy
- topics_file: ``kstore.topics``: the settings of the topics of a log directory
- uncleanable_partitions: ``kstore.uncleanable``: partitions that the log cleaner skips, and why

Recovery cuts and keeps a torn tail in :mod:`kstore.recovery.torn_tail`, and entire segments in
:mod:`kstore.recovery.apply_changes`.
"""
