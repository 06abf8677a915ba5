"""Engine names for programs that work on the files of partitions, not only through an open ``Log``.

Its users are the Spark source, sink and jobs, the command line, the mirror and the handover.
Not public API: names may change with any release. What the public API offers (``Log.verify``,
``Log.offset_at``, ``kstore.repair``) is taken from there.

Names are resolved on first use (PEP 562), so importing this module loads nothing else.
"""

TYPE_CHECKING = False  # not typing's: importing typing alone would cost several milliseconds
if TYPE_CHECKING:
    from kstore._native.compaction.offset_map import OffsetMap as OffsetMap
    from kstore._native.format import batch_fields as batch_fields
    from kstore._native.format import batch_scan as batch_scan
    from kstore._native.index.index_lookup import OffsetIndex as OffsetIndex
    from kstore._native.index.index_lookup import TimeIndex as TimeIndex
    from kstore._native.read.aborted_transactions import AbortedRanges as AbortedRanges
    from kstore._native.read.decode import Scanner as Scanner
    from kstore._native.read.dump_lines import LineDumper as LineDumper
    from kstore._native.read.segment_view import SegmentView as SegmentView
    from kstore.checkpoint.broker_addresses import BrokerAddress as BrokerAddress
    from kstore.checkpoint.broker_addresses import read_broker_addresses as read_broker_addresses
    from kstore.checkpoint.clean_shutdown import read_clean_shutdown as read_clean_shutdown
    from kstore.checkpoint.cleaner_offsets import write_cleaner_offset as write_cleaner_offset
    from kstore.checkpoint.leader_epochs import LeaderEpochs as LeaderEpochs
    from kstore.checkpoint.log_dir import Contents as Contents
    from kstore.checkpoint.log_dir import LogDir as LogDir
    from kstore.checkpoint.log_dir import absolute_paths as absolute_paths
    from kstore.checkpoint.log_dir_offsets import LogState as LogState
    from kstore.checkpoint.meta_properties import MetaProperties as MetaProperties
    from kstore.checkpoint.meta_properties import read_meta_properties as read_meta_properties
    from kstore.checkpoint.offset_checkpoint import read_offsets as read_offsets
    from kstore.checkpoint.partition_metadata import read_topic_id as read_topic_id
    from kstore.checkpoint.partition_metadata import write_topic_id as write_topic_id
    from kstore.compaction import cleaner as cleaner
    from kstore.compaction.cleaner import RoundOutput as RoundOutput
    from kstore.compaction.compaction_report import CompactionReport as CompactionReport
    from kstore.compaction.round_plan import RoundPlan as RoundPlan
    from kstore.compaction.round_plan import plan_round as plan_round
    from kstore.compaction.throttler import NO_LIMIT as NO_LIMIT
    from kstore.compaction.throttler import Throttler as Throttler
    from kstore.coordinator.group.member_description import (
        MemberDescription as MemberDescription,
    )
    from kstore.coordinator.group.offset_records import Commits as Commits
    from kstore.coordinator.group.offset_records import OffsetKey as OffsetKey
    from kstore.coordinator.group.offset_records import decode_offset_key as decode_offset_key
    from kstore.coordinator.group.offset_records import decode_offset_value as decode_offset_value
    from kstore.coordinator.group.offset_records import newest_commits as newest_commits
    from kstore.coordinator.group.offsets_table import OFFSETS_TOPIC as OFFSETS_TOPIC
    from kstore.coordinator.group.reader_offsets_file import FiledOffsets as FiledOffsets
    from kstore.coordinator.group.reader_offsets_file import IsSameTopic as IsSameTopic
    from kstore.coordinator.group.reader_offsets_file import group_file_name as group_file_name
    from kstore.coordinator.group.reader_offsets_file import group_files as group_files
    from kstore.coordinator.group.reader_offsets_file import is_offsets_file as is_offsets_file
    from kstore.coordinator.group.reader_offsets_file import read_group_file as read_group_file
    from kstore.coordinator.group.stored_groups import StoredGroup as StoredGroup
    from kstore.coordinator.group.stored_groups import read_stored_groups as read_stored_groups
    from kstore.coordinator.group.verify_keys import (
        warn_of_undecodable_keys as warn_of_undecodable_keys,
    )
    from kstore.coordinator.transaction.transaction_state_records import (
        TransactionMetadata as TransactionMetadata,
    )
    from kstore.coordinator.transaction.transaction_state_store import (
        read_all_states as read_all_states,
    )
    from kstore.files import filenames as filenames
    from kstore.files import marker_file as marker_file
    from kstore.files import publish_barrier as publish_barrier
    from kstore.files.files import DISK as DISK
    from kstore.files.files import Files as Files
    from kstore.files.lock_holders import LockHolder as LockHolder
    from kstore.files.lock_holders import lock_holders as lock_holders
    from kstore.files.open_file import OpenFile as OpenFile
    from kstore.files.staging_area import StagingArea as StagingArea
    from kstore.files.staging_area import remove_staged as remove_staged
    from kstore.integers import count_of as count_of
    from kstore.kafka_uuid import is_reserved_uuid as is_reserved_uuid
    from kstore.kafka_uuid import uuid_from_text as uuid_from_text
    from kstore.kafka_uuid import uuid_to_text as uuid_to_text
    from kstore.log.delete_segments import checked_log_start as checked_log_start
    from kstore.log.read_committed import UNCOMMITTED as UNCOMMITTED
    from kstore.log.read_committed import check_isolation as check_isolation
    from kstore.log.statistics import DAY_MS as DAY_MS
    from kstore.log.statistics import HOUR_MS as HOUR_MS
    from kstore.log.statistics import REGISTERS as REGISTERS
    from kstore.log.statistics import SPREADS as SPREADS
    from kstore.log.statistics import STANDARD_ERROR as STANDARD_ERROR
    from kstore.log.statistics import WIDTHS as WIDTHS
    from kstore.log.statistics import BatchKind as BatchKind
    from kstore.log.statistics import PlannedSegment as PlannedSegment
    from kstore.log.statistics import Rates as Rates
    from kstore.log.statistics import Spread as Spread
    from kstore.log.statistics import Stats as Stats
    from kstore.log.statistics import segments_of as segments_of
    from kstore.log.statistics import survey_segments as survey_segments
    from kstore.log.statistics import was_replaced as was_replaced
    from kstore.log.time_lookup import find_offset_for_time as find_offset_for_time
    from kstore.log.time_lookup import newest_offset as newest_offset
    from kstore.log.transaction_outcomes import TransactionOutcomes as TransactionOutcomes
    from kstore.maintenance.reindex import IndexedSegment as IndexedSegment
    from kstore.maintenance.reindex import ReindexReport as ReindexReport
    from kstore.maintenance.reindex import ReplayedProducers as ReplayedProducers
    from kstore.maintenance.reindex import SegmentDamage as SegmentDamage
    from kstore.maintenance.reindex import find_overlap as find_overlap
    from kstore.maintenance.reindex import finish_partition as finish_partition
    from kstore.maintenance.reindex import index_segment as index_segment
    from kstore.maintenance.reindex import replay_producers as replay_producers
    from kstore.maintenance.repair import PartitionRepair as PartitionRepair
    from kstore.maintenance.rewrite import REWRITE_ERRORS as REWRITE_ERRORS
    from kstore.maintenance.rewrite import RewritePlan as RewritePlan
    from kstore.maintenance.rewrite import RewriteReport as RewriteReport
    from kstore.maintenance.rewrite import RewriteTarget as RewriteTarget
    from kstore.maintenance.rewrite import RewrittenSegment as RewrittenSegment
    from kstore.maintenance.rewrite import conversion as conversion
    from kstore.maintenance.rewrite import damage_of as damage_of
    from kstore.maintenance.rewrite import plan_rewrite as plan_rewrite
    from kstore.maintenance.rewrite import rewrite_segment as rewrite_segment
    from kstore.maintenance.rewrite import swap_in as swap_in
    from kstore.producer_state import snapshot as snapshot
    from kstore.producer_state.snapshot import ProducerEntry as ProducerEntry
    from kstore.protocol import kafka_messages as kafka_messages
    from kstore.recovery.loader import base_offsets as base_offsets
    from kstore.recovery.swap_files import finish_swaps as finish_swaps
    from kstore.segment import header_checksums as header_checksums
    from kstore.segment import transaction_index as transaction_index
    from kstore.segment.cleaned_segment import CleanedSegment as CleanedSegment
    from kstore.segment.cleaned_segment import FinishedSegment as FinishedSegment
    from kstore.segment.index_entry import OFFSET_ENTRY_SIZE as OFFSET_ENTRY_SIZE
    from kstore.segment.index_entry import TIME_ENTRY_SIZE as TIME_ENTRY_SIZE
    from kstore.segment.index_entry import offset_entry as offset_entry
    from kstore.segment.index_entry import time_entry as time_entry
    from kstore.segment.index_sanity import read_entries as read_entries
    from kstore.segment.salvage import Damage as Damage
    from kstore.store.atomic_publish import PartitionPublication as PartitionPublication
    from kstore.store.atomic_publish import Publication as Publication
    from kstore.store.atomic_publish import StagedRange as StagedRange
    from kstore.store.atomic_publish import sync_progress as sync_progress
    from kstore.store.cluster_metadata import ClusterMetadata as ClusterMetadata
    from kstore.store.cluster_metadata import read_cluster_metadata as read_cluster_metadata
    from kstore.store.list_partitions import FoundLog as FoundLog
    from kstore.store.list_partitions import find_logs as find_logs
    from kstore.store.log_dir_info import LogDirInfo as LogDirInfo
    from kstore.store.open_store import open_to_serve as open_to_serve
    from kstore.store.partition_factory import peek_end_offset as peek_end_offset
    from kstore.store.store import Paths as Paths
    from kstore.store.topic_identity import TopicIdentities as TopicIdentities
    from kstore.store.topic_identity import TopicIdentity as TopicIdentity
    from kstore.store.verify_topics import audit_if_present as audit_if_present
    from kstore.verify.distributed import SegmentRange as SegmentRange
    from kstore.verify.distributed import SegmentRangeReport as SegmentRangeReport
    from kstore.verify.distributed import merge_reports as merge_reports
    from kstore.verify.distributed import plan_ranges as plan_ranges
    from kstore.verify.distributed import verify_range as verify_range
    from kstore.verify.log_dir_state import StateReader as StateReader
    from kstore.verify.missing_folders import MissingFolder as MissingFolder
    from kstore.verify.missing_folders import find_missing_folders as find_missing_folders
    from kstore.verify.partition import MAX_FINDINGS as MAX_FINDINGS
    from kstore.verify.partition import Finding as Finding
    from kstore.verify.partition import VerifyReport as VerifyReport
    from kstore.verify.partition import verify_partition as verify_partition
    from kstore.verify.report_lines import finding_lines as finding_lines
    from kstore.verify.report_lines import state_of as state_of
    from kstore.verify.report_lines import status_of as status_of

_MODULES = {
    # The names of files, the guards among them, and the small files beside a log.
    "filenames": "kstore.files",
    "marker_file": "kstore.files",
    "publish_barrier": "kstore.files",
    "header_checksums": "kstore.segment",
    "transaction_index": "kstore.segment",
    # Producers at a roll of the log.
    "snapshot": "kstore.producer_state",
    # A round of compaction: planned, done and swapped in apart.
    "cleaner": "kstore.compaction",
    # Headers of batches, one by one and those of a buffer.
    "batch_fields": "kstore._native.format",
    "batch_scan": "kstore._native.format",
    # Kafka's messages by name, for dumps.
    "kafka_messages": "kstore.protocol",
}
_NAMES = {
    # The disk, and names in a log directory that stand for staged files.
    "kstore.files.files": "DISK Files",
    "kstore.files.lock_holders": "LockHolder lock_holders",
    "kstore.files.open_file": "OpenFile",
    "kstore.files.staging_area": "StagingArea remove_staged",
    # Log directories: locks, markers, checkpoints, topic ids.
    "kstore.checkpoint.log_dir": "Contents LogDir absolute_paths",
    "kstore.checkpoint.log_dir_offsets": "LogState",
    "kstore.checkpoint.broker_addresses": "BrokerAddress read_broker_addresses",
    "kstore.checkpoint.clean_shutdown": "read_clean_shutdown",
    "kstore.checkpoint.cleaner_offsets": "write_cleaner_offset",
    "kstore.checkpoint.leader_epochs": "LeaderEpochs",
    "kstore.checkpoint.offset_checkpoint": "read_offsets",
    "kstore.checkpoint.meta_properties": "MetaProperties read_meta_properties",
    "kstore.checkpoint.partition_metadata": "read_topic_id write_topic_id",
    "kstore.kafka_uuid": "is_reserved_uuid uuid_from_text uuid_to_text",
    # Stores: what their public methods take and return, topics by name and id.
    "kstore.store.store": "Paths",
    "kstore.store.log_dir_info": "LogDirInfo",
    "kstore.store.list_partitions": "FoundLog find_logs",
    "kstore.store.cluster_metadata": "ClusterMetadata read_cluster_metadata",
    "kstore.store.partition_factory": "peek_end_offset",
    "kstore.store.topic_identity": "TopicIdentities TopicIdentity",
    # What a deletion of records would do.
    "kstore.log.delete_segments": "checked_log_start",
    # Reads by isolation level and by time.
    "kstore.log.read_committed": "UNCOMMITTED check_isolation",
    "kstore.log.transaction_outcomes": "TransactionOutcomes",
    "kstore.log.time_lookup": "find_offset_for_time newest_offset",
    "kstore._native.read.aborted_transactions": "AbortedRanges",
    "kstore._native.read.segment_view": "SegmentView",
    "kstore.producer_state.snapshot": "ProducerEntry",
    # Committed offsets, in __consumer_offsets and in files.
    "kstore.coordinator.group.offset_records": "Commits OffsetKey decode_offset_key"
    " decode_offset_value newest_commits",
    "kstore.coordinator.group.reader_offsets_file": "FiledOffsets IsSameTopic group_file_name"
    " group_files is_offsets_file read_group_file",
    "kstore.coordinator.group.offsets_table": "OFFSETS_TOPIC",
    "kstore.coordinator.group.member_description": "MemberDescription",
    "kstore.coordinator.group.stored_groups": "StoredGroup read_stored_groups",
    "kstore.coordinator.group.verify_keys": "warn_of_undecodable_keys",
    # States of transactional ids, in __transaction_state.
    "kstore.coordinator.transaction.transaction_state_records": "TransactionMetadata",
    "kstore.coordinator.transaction.transaction_state_store": "read_all_states",
    # An audit: of a partition, or of ranges of its segments, merged.
    "kstore.verify.partition": "Finding MAX_FINDINGS VerifyReport verify_partition",
    "kstore.verify.distributed": "SegmentRange SegmentRangeReport merge_reports plan_ranges"
    " verify_range",
    "kstore.verify.log_dir_state": "StateReader",
    "kstore.integers": "count_of",
    "kstore.verify.missing_folders": "MissingFolder find_missing_folders",
    "kstore.verify.report_lines": "finding_lines state_of status_of",
    "kstore.store.verify_topics": "audit_if_present",
    # Statistics: of a few segments, merged.
    "kstore.log.statistics": "BatchKind DAY_MS HOUR_MS PlannedSegment REGISTERS Rates SPREADS"
    " STANDARD_ERROR Spread Stats WIDTHS segments_of survey_segments was_replaced",
    # Indexes and producer snapshots, rebuilt beside a log.
    "kstore.maintenance.reindex": "IndexedSegment ReindexReport ReplayedProducers SegmentDamage"
    " find_overlap finish_partition index_segment replay_producers",
    "kstore.recovery.loader": "base_offsets",
    "kstore.recovery.swap_files": "finish_swaps",
    # Segments with another codec or format, written beside a log and swapped in.
    "kstore.maintenance.rewrite": "REWRITE_ERRORS RewritePlan RewriteReport RewriteTarget"
    " RewrittenSegment conversion damage_of plan_rewrite rewrite_segment swap_in",
    # Rounds of compaction.
    "kstore.compaction.cleaner": "RoundOutput",
    "kstore.compaction.round_plan": "RoundPlan plan_round",
    "kstore.compaction.throttler": "NO_LIMIT Throttler",
    "kstore.compaction.compaction_report": "CompactionReport",
    "kstore.segment.cleaned_segment": "CleanedSegment FinishedSegment",
    "kstore._native.compaction.offset_map": "OffsetMap",
    # Repair.
    "kstore.maintenance.repair": "PartitionRepair",
    "kstore.segment.salvage": "Damage",
    # Publications: staged batches that become visible together.
    "kstore.store.atomic_publish": "PartitionPublication Publication StagedRange sync_progress",
    # Entries of indexes, and dumps of a log and of its indexes.
    "kstore.segment.index_entry": "OFFSET_ENTRY_SIZE TIME_ENTRY_SIZE offset_entry time_entry",
    "kstore.segment.index_sanity": "read_entries",
    "kstore.store.open_store": "open_to_serve",
    "kstore._native.index.index_lookup": "OffsetIndex TimeIndex",
    "kstore._native.read.decode": "Scanner",
    "kstore._native.read.dump_lines": "LineDumper",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import the module that defines a name, once."""
    from importlib import import_module

    if name in _MODULES:
        value: object = import_module(f"{_MODULES[name]}.{name}")
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
