"""Detects that a log directory written by kstore has lost ``kstore.topics``, the topics' settings.

kstore treats a topic without an entry there as Kafka's: no retention, no compaction, no deletion.
So the loss is silent unless other files show that kstore wrote here. In a directory without
``meta.properties``, which every broker writes, that is a checkpoint that names a partition with a
topic id, or a ``kstore.*`` file. To avoid false alarms, a writer creates an empty
``kstore.topics`` if another program put partitions into such a directory.

In a broker's directory kstore may have written without any settings. There only
``kstore.uncleanable`` is evidence, which exists only for topics with settings.
"""

import os
import warnings
from collections.abc import Sequence

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.offset_checkpoint import read_offsets
from kstore.errors import CorruptFileError, MissingSettingsWarning
from kstore.files import filenames
from kstore.store.topic_registry import TopicRegistry

# Files that readers, jobs and repair also create, in stores without settings.
_NOT_EVIDENCE = (
    filenames.OFFSETS_PREFIX,
    filenames.OFFSETS_LOCK_PREFIX,
    filenames.PUBLISHING_PREFIX,
    filenames.STAGED_PREFIX,
    filenames.UNREADABLE_PREFIX,
    filenames.UNFINISHED,
)
# Files that only a writer creates in a partition's directory.
_OF_WRITERS = (
    filenames.SEAL,
    filenames.CUT_PREFIX,
    filenames.LOST_SEGMENTS,
)


def check_settings(catalog: TopicRegistry, *, writable: bool) -> None:
    """Warn (MissingSettingsWarning) if ``kstore.topics`` is missing and should not be.

    The warning refers to the caller of ``kstore.open``, five frames above. Otherwise a writer
    ensures that a later loss can be detected.
    """
    if catalog.settings.exists or catalog.offline or not catalog.topics:
        return
    trace = find_trace(catalog)
    if trace is not None:
        sentence = (
            f"{filenames.TOPICS_FILE} is missing in "
            f"{', '.join(log_dir.path for log_dir in catalog.live)}, though "
            f"kstore wrote there ({trace}): the settings of its topics are lost, so "
            "retention, compaction and deletion no longer apply. Restore the file from a backup, "
            "or set them again: store.alter_topic(name, config={...}) creates the file"
        )
        catalog.live[0].notes.append(sentence)
        warnings.warn(sentence, MissingSettingsWarning, stacklevel=7)
    elif writable and not any(_is_of_broker(catalog, log_dir) for log_dir in catalog.live):
        catalog.settings.create()


def find_trace(catalog: TopicRegistry) -> str | None:
    """The path of a file that kstore writes only beside settings; None if there is none."""
    for log_dir in catalog.live:
        if not log_dir.partition_count:
            continue
        names = _files_of(catalog, log_dir)
        if filenames.UNCLEANABLE in names:
            return log_dir.join(filenames.UNCLEANABLE)
        if filenames.META_PROPERTIES in names:
            continue
        for name in names:
            is_own = name.startswith("kstore.") and not name.endswith(filenames.TEMPORARY_SUFFIX)
            if is_own and not name.startswith(_NOT_EVIDENCE):
                return log_dir.join(name)
        if _has_checkpointed(catalog, log_dir):
            return log_dir.join(filenames.RECOVERY_POINTS)
    for topic, partition, log_dir in catalog.partitions():
        if not _is_of_broker(catalog, log_dir):
            folder = log_dir.join(filenames.partition_directory(topic, partition))
            for name in log_dir.files.listdir(folder):
                if name.startswith(_OF_WRITERS):
                    return os.path.join(folder, name)
    return None


def _has_checkpointed(catalog: TopicRegistry, log_dir: LogDir) -> bool:
    """Whether a recovery-point checkpoint names an existing partition that has a topic id.

    Kafka 0.8 wrote checkpoints without ``meta.properties``, and no topic ids.
    """
    try:
        points = read_offsets(log_dir.files, log_dir.join(filenames.RECOVERY_POINTS))
    except CorruptFileError:  # opening a log warns of it
        return False
    return any(
        log_dir.files.exists(
            log_dir.join(filenames.partition_directory(*key), filenames.PARTITION_METADATA)
        )
        for key in points
        if catalog.topics.get(key[0], {}).get(key[1]) is log_dir
    )


def _is_of_broker(catalog: TopicRegistry, log_dir: LogDir) -> bool:
    return filenames.META_PROPERTIES in _files_of(catalog, log_dir)


def _files_of(catalog: TopicRegistry, log_dir: LogDir) -> Sequence[str]:
    paths = map(os.path.split, catalog.loose_files)
    return sorted(name for directory, name in paths if directory == log_dir.path)
