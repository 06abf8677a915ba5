"""A store: log directories, their topics, and the partitions that are open in them.

Modules:

- alter_log_dir: Moves partitions to another log directory: Kafka's alterReplicaLogDirs
- apply_topic_settings: Changes the settings of topics and applies them to the open logs
- atomic_publish: Atomic publication: staged batches of several partitions become visible together,
  or none do
- background_tasks: The periodic background tasks of a store, all listed here
- cluster_metadata: Topics and replica assignments from a KRaft node's copy of the cluster metadata
- deleted_folders: Removes the folders of deleted topics: at once, or in a thread
- extend_topic: ``Topic.extend``: distributes many records over the partitions of a topic, in
  batches
- finish_interrupted: Finishes, where a store is opened for writing, what a crash of its last writer
  interrupted
- future_replica: Copies a partition to another log directory while the partition is read and
  appended to
- list_log_dirs: Lists the partitions of several log directories while another process moves some of
  them
- list_partitions: Lists partitions for tools, while another process may delete topics
- log_deletion: Closes the logs of a topic or partition that is deleted, and renames its directories
- log_dir_checkpoints: Writes the checkpoints of log directories: every minute, after truncations,
  and at the close
- log_dir_info: What a store's log directory contains now, for ``store.log_dirs`` and
  DescribeLogDirs
- log_manager: The log directories, partitions and open logs of a store (Kafka's LogManager)
- lost_partitions: The partitions that ``kstore.topics`` has and no directory of a store has
- merge_reports: Merges the reports on several partitions into one, for calls on a topic or a store
- missing_settings: Detects that a log directory written by kstore has lost ``kstore.topics``, the
  topics' settings
- open_file_lru: The logs that a store has loaded, and which of them hold files open
- open_store: ``kstore.open``: log directories of Kafka as a store
- parallel_recovery: Recovers the partitions of a store that was not closed cleanly, in parallel
- partition_changes: Creates and deletes single partitions of topics, of which a directory has 1, 4
  and 7, say
- partition_factory: Opens a partition of a log directory as a :class:`kstore.Log`, for writing or
  for reading
- partition_methods: Methods of a store that create, open and delete single partitions, by topic id
- remove_tree: Removes a directory of a deleted partition
- rolled_segments_flusher: Syncs rolled segments of a store in a thread, so that recovery points
  follow the log ends
- space_reserve: Disk space that a broker reserves, so that topics and records can be deleted on a
  full disk
- staged_recovery: Recovers the partitions of a store: before its first use, or while it is in use
- store: A store: one or several Kafka log directories, opened by one writer and many readers
- store_retention: Applies retention to all partitions of a store, then removes ``-delete`` folders
- topic: A topic: a sequence of logs, one for each partition
- topic_arguments: Checks the arguments with which topics and partitions are created
- topic_creation: Creates topics and partitions in the log directories of a store, several topics
  at a time
- topic_deletion: Deletes a topic's committed offsets and aborts its open transactions with the
  topic
- topic_differences: The events of a topic between two states of it
- topic_identity: Distinguishes a topic from a later one of the same name, by its id or a creation
  stamp
- topic_names: The names of a store's topics, as a list, and what a store answers to guesses
  about them
- topic_registry: The topics of a store: the log directory of each partition, settings, creation,
  deletion
- topic_watch: Publishes the changes of a store's topics: to callbacks, a broker, and open consumers
- unfinished_topic: Topics whose creation was interrupted: by a full disk, or a crash
- verify_topics: Audits several partitions of a store into one report, while topics may be deleted

Topic settings on disk: :mod:`kstore.checkpoint.topics_file`. Stray directories: which are stray
is decided by :mod:`kstore.handover.stray_folders`, their names are those of
:mod:`kstore.files.filenames`. The high watermark is kept in :mod:`kstore.log.writable_log`, and
is the log end of a partition without replicas.
"""
