"""A log directory that kstore wrote, and that has lost ``kstore.topics``: the topics' settings.

Without an entry there a topic is Kafka's to kstore: no retention, no compaction, no deletion. So
the loss is silent unless something else shows that kstore wrote here. In a directory without
``meta.properties``, which every broker writes, this is a checkpoint that names a partition with a
topic id, or a ``kstore.*`` file. To keep that exact, a writer that finds partitions which another
program put into such a directory creates an empty ``kstore.topics``.

In a broker's directory kstore may have written without any settings. There only
``kstore.uncleanable`` counts, which exists for topics with settings alone.
"""

import os
import warnings
from collections.abc import Sequence

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.offsets import read_offsets
from kstore.errors import CorruptFileError, MissingSettingsWarning
from kstore.files import filenames
from kstore.store.topic_registry import TopicRegistry

# Files that readers, jobs and repair create: none of them needs a store with settings.
_OTHERS = (
    filenames.OFFSETS_PREFIX,
    filenames.OFFSETS_LOCK_PREFIX,
    filenames.PUBLISHING_PREFIX,
    filenames.STAGED_PREFIX,
    filenames.UNREADABLE_PREFIX,
    filenames.UNFINISHED,
)
_OF_WRITERS = (
    filenames.SEAL,
    filenames.CUT_PREFIX,
    filenames.LOST_SEGMENTS,
)  # in a partition's folder


def check_settings(catalog: TopicRegistry, *, writable: bool) -> None:
    """Warn (MissingSettingsWarning) where ``kstore.topics`` is missing and should not be.

    The caller of ``kstore.open``, four frames above, is named. A writer that finds nothing wrong
    makes sure that a later loss can be detected.
    """
    if catalog.settings.is_there or catalog.offline or not catalog.places:
        return
    trace = find_trace(catalog)
    if trace is not None:
        sentence = (
            f"{filenames.TOPICS_FILE} is missing in "
            f"{', '.join(each.path for each in catalog.live)}, though "
            f"kstore wrote there ({trace}): no topic has the settings that were made for it, so "
            "retention, compaction and deletion no longer apply. Restore the file from a backup, "
            "or set them again: store.alter_topic(name, config={...}) creates the file"
        )
        catalog.live[0].notes.append(sentence)
        warnings.warn(sentence, MissingSettingsWarning, stacklevel=5)
    elif writable and not any(_is_of_broker(catalog, each) for each in catalog.live):
        catalog.settings.create()


def find_trace(catalog: TopicRegistry) -> str | None:
    """The path of a file that kstore wrote where the topics had settings; None if there is none."""
    for place in catalog.live:
        if not place.partition_count:
            continue
        names = _files_of(catalog, place)
        if filenames.UNCLEANABLE in names:
            return place.join(filenames.UNCLEANABLE)
        if filenames.META_PROPERTIES in names:
            continue
        for name in names:
            if name.startswith("kstore.") and not name.startswith(_OTHERS):
                return place.join(name)
        if _has_checkpointed(catalog, place):
            return place.join(filenames.RECOVERY_POINTS)
    for topic, partition, place in catalog.partitions():
        if not _is_of_broker(catalog, place):
            folder = place.join(filenames.partition_directory(topic, partition))
            for name in place.files.listdir(folder):
                if name.startswith(_OF_WRITERS):
                    return os.path.join(folder, name)
    return None


def _has_checkpointed(catalog: TopicRegistry, place: LogDir) -> bool:
    """Whether a recovery-point checkpoint names a partition that is there and has a topic id.

    Kafka 0.8 wrote checkpoints without ``meta.properties``, and no topic ids.
    """
    try:
        points = read_offsets(place.files, place.join(filenames.RECOVERY_POINTS))
    except CorruptFileError:  # whoever opens a log warns of it
        return False
    return any(
        place.files.exists(
            place.join(filenames.partition_directory(*key), filenames.PARTITION_METADATA)
        )
        for key in points
        if catalog.places.get(key[0], {}).get(key[1]) is place
    )


def _is_of_broker(catalog: TopicRegistry, place: LogDir) -> bool:
    return filenames.META_PROPERTIES in _files_of(catalog, place)


def _files_of(catalog: TopicRegistry, place: LogDir) -> Sequence[str]:
    paths = map(os.path.split, catalog.loose_files)
    return sorted(name for directory, name in paths if directory == place.path)
