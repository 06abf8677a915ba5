"""The metadata of a one-node cluster, kept in its own store."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kstore._native.append.reentrant_lock import ReentrantLock
from kstore.cluster import topic_rules
from kstore.cluster.broker_file import (
    BrokerState,
    TopicRecord,
    open_broker_file,
    write_broker_file,
)
from kstore.cluster.change_callbacks import CallbackRegistration, ChangeCallbacks
from kstore.cluster.client_quotas import QuotaChange
from kstore.cluster.config_changes import (
    altered_broker_config,
    altered_groups,
    altered_topic_config,
    check_broker_config,
    check_topic_config,
    replacing,
)
from kstore.cluster.effective_config import EffectiveLogConfigs
from kstore.cluster.engine_config import (
    kept_beside_topics,
    kept_by_topics,
    to_values,
)
from kstore.cluster.image import BrokerImage, ClusterImage, Endpoint, TopicImage, names_by_id
from kstore.cluster.local_image import (
    keep_epochs,
    own_settings,
    topic_image,
    topic_images,
)
from kstore.cluster.metadata import Assignments, ConfigChange, ConfigEntry, NewTopic, OnChange
from kstore.cluster.new_topics import plan_topics, to_create
from kstore.cluster.node_identity import find_node_identity
from kstore.cluster.noted_topics import NotedTopics
from kstore.cluster.settings.group_settings import describe_group
from kstore.cluster.settings.layers import BrokerConfig, describe_topic
from kstore.cluster.settings.topic_settings import TOPIC_SETTINGS
from kstore.cluster.store_settings import apply_store_settings, with_store_settings
from kstore.config import LogConfig
from kstore.errors import (
    InvalidConfigError,
    InvalidRequestError,
    PolicyViolationError,
    ReadOnlyError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from kstore.files.filenames import BROKER_FILE, INTERNAL_TOPICS
from kstore.store.topic_creation import create_topics

if TYPE_CHECKING:
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")


class LocalMetadata:
    """Implements :class:`kstore.cluster.metadata.Metadata` on a store that is open for writing.

    Its topics are those of the store, including topics that this process creates, alters or deletes
    through the store. A topic follows the broker's settings only if it was created here or adopted;
    any other topic keeps its settings. Close it before the store: until then the broker's settings
    apply to the store's logs. ``__consumer_offsets`` and ``__transaction_state`` are the broker's:
    they are compacted unless a policy was set for them.

    Thread safe. Changes block; ``image`` does not.

    Parameters
    ----------
    node_id
        None: the id in ``meta.properties``, otherwise 0. InvalidConfigError if ``meta.properties``
        has a different id.
    endpoints
        The advertised listeners by name.
    rack
        The broker's ``broker.rack``.
    broker_config
        The settings that the broker is started with, by Kafka's names.
    can_delete_existing
        Whether ``delete_topic`` deletes topics that were neither created here nor adopted.
    """

    def __init__(
        self,
        store: "Store",
        *,
        node_id: int | None = None,
        endpoints: Mapping[str, Endpoint] | None = None,
        rack: str | None = None,
        broker_config: Mapping[str, object] | None = None,
        can_delete_existing: bool = False,
    ) -> None:
        if not store.writable:
            raise ReadOnlyError(
                "a broker needs a store that is open for writing", path=store.paths[0]
            )
        self._store = store
        self._can_delete_existing = can_delete_existing
        self._lock = ReentrantLock()  # before the store's
        self._callbacks = ChangeCallbacks()
        self._log_dirs = store._manager._dirs
        static = check_broker_config(broker_config or {})
        identity = find_node_identity(self._log_dirs, node_id)
        found = open_broker_file(self._log_dirs, identity.cluster_id)
        self._state = found
        self._config = BrokerConfig(static, found.default_config, found.config)
        self.node_id = identity.node_id
        self._broker = BrokerImage(self.node_id, rack, dict(endpoints or {}))
        self._cluster_id = identity.cluster_id or found.cluster_id
        self._effective = EffectiveLogConfigs(store)
        self._noted = NotedTopics()
        self._seen_failure = store._manager.last_failure
        self._image = ClusterImage(self._cluster_id, self.node_id, {}, {})
        if any(name in store for name in INTERNAL_TOPICS):
            from kstore.cluster.compact_owned_topics import compact_owned_topics

            compact_owned_topics(store, self._record)
        store._manager.changes.add_listener(self)
        self.refresh()
        store._catalog.effective_config = self._effective_config
        store._manager.on_epoch_begun = self.leader_epoch_begun
        self._apply(self._image.topics)
        try:
            self._apply_to_store()
        except InvalidConfigError as error:  # of a file that was edited by hand
            _LOGGER.warning("settings of %s do not count: %s", BROKER_FILE, error)

    def close(self) -> None:
        """Stop applying the broker's settings to the store's logs. Idempotent."""
        with self._lock:
            if self._store._catalog.effective_config is not None:
                self._store._catalog.effective_config = None
                self._store._manager.changes.remove_listener(self)
                self._store._manager.on_epoch_begun = None
                if not self._store.closed:
                    self._apply(self._image.topics)
                    apply_store_settings(self._store, {})

    @property
    def broker_config(self) -> BrokerConfig:
        """The broker's explicitly set settings, by layer."""
        return self._config

    # --- the image ------------------------------------------------------------------------

    @property
    def served_since(self) -> int:
        """When a broker first served these log directories, in Unix ms."""
        return self._state.served_since

    @property
    def image(self) -> ClusterImage:
        """The current image; a change replaces it and never modifies it.

        It includes changes made through the store, whose events replace it: before the call that
        made the change returns, or at the end of another change that is in progress.
        """
        return self._image

    def topics_noted(self, names: Collection[str] | None) -> None:
        """The store has changed these topics. The caller holds the store's lock."""
        self._noted.note(names)

    def topics_changed(self) -> None:
        """Follow the store, on the thread that has changed it.

        It does not wait for the lock, which comes before locks that it may hold: a thread that
        has the lock follows the store when it releases the lock.
        """
        self._follow_store()

    def _follow_store(self) -> None:
        while self._noted:
            if not self._lock.acquire(blocking=False):
                self._lock.on_release = self._follow_store
                if not self._lock.acquire(blocking=False):
                    return
                # else it was released before the thread that had it could see the callback
            try:
                self.refresh()
            except Exception:  # the change itself succeeded, and the next one tries again
                _LOGGER.exception("the metadata does not follow a change of topics")
                return
            finally:
                self._lock.release()

    def refresh(self) -> ClusterImage:
        """Bring the image up to date with the topics that the store has changed."""
        with self._lock:
            failure = self._store._manager.last_failure  # of a log directory
            if failure is not self._seen_failure:
                self._noted.note(None)
            if not self._noted:
                return self._image
            names = self._noted.take()
            try:
                topics = topic_images(
                    self._store, self._image.topics, names, self.node_id, self._record
                )
            except BaseException:
                self._noted.note(names)
                raise
            self._seen_failure = failure
            self._publish(topics)
            return self._image

    def leader_epoch_begun(self, name: str, partition: int) -> None:
        """Read a partition's leader epoch again: its log has begun a new one, on this thread."""
        with self._lock:
            self.refresh()
            found = topic_image(self._store, name, self.node_id, self._record(name))
            if found is not None:
                keep_epochs(self._image.topics.get(name), found, excluded=partition)
                found.partitions.get(partition)  # reads the epoch now, not at the first use
                self._publish({**self._image.topics, name: found})

    def on_change(self, callback: OnChange) -> CallbackRegistration:
        """Call ``callback(old, new)`` after each change, on the thread that made it."""
        return self._callbacks.add(callback)

    def _publish(self, topics: Mapping[str, TopicImage]) -> None:
        old = self._image
        self._image = ClusterImage(
            self._cluster_id,
            self.node_id,
            {self.node_id: self._broker},
            topics,
            names_by_id(topics),
            self._config.set_values(),
            old.version + 1,
            self._state.groups,
            self._state.client_quotas,
        )
        self._callbacks.call(old, self._image)

    def _record(self, name: str) -> TopicRecord | None:
        """The broker's record of a topic; None if the record belongs to an earlier topic of that
        name."""
        record = self._state.topics.get(name)
        if record is None:
            return None
        is_same = self._store._manager.identities.is_same(name, record.identity)
        return record if is_same else None

    def _write(self, state: BrokerState) -> None:
        """Replace ``kstore.broker``; drops records of topics that no longer exist."""
        kept = {
            name: record
            for name, record in state.topics.items()
            if name in self._store._catalog.topics or record != self._state.topics.get(name)
        }
        self._state = write_broker_file(self._log_dirs, replace(state, topics=kept))

    # --- topics ---------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        assignments: Assignments | None = None,
        config: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
    ) -> TopicImage:
        """Create a topic that follows the broker's settings; return its image.

        Raises Kafka's errors: InvalidTopicError, TopicExistsError, InvalidPartitionsError,
        InvalidReplicationFactorError, InvalidReplicaAssignmentError, InvalidRequestError,
        InvalidConfigError, PolicyViolationError; StorageError.
        """
        new = NewTopic(name, partitions, replication_factor, assignments, config or {})
        [outcome] = self.create_topics([new], validate_only=validate_only)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicImage | Exception]:
        """Create several topics: their images, or the errors that :meth:`create_topic` raises.

        ``kstore.broker`` is written once and ``kstore.topics`` twice. Of each topic everything or
        nothing exists afterwards, and after a crash.
        """
        with self._lock:
            self.refresh()
            topics = self._image.topics
            outcomes = plan_topics(wanted, topics, self.node_id, self._config)
            planned = {each.name: each for each in outcomes if isinstance(each, TopicImage)}
            if planned and not validate_only:
                errors = self._create_planned(planned)
                self.refresh()
                made: dict[str, TopicImage | Exception] = {**self._image.topics, **errors}
                return [e if isinstance(e, Exception) else made[e.name] for e in outcomes]
            return outcomes

    def _create_planned(self, planned: Mapping[str, TopicImage]) -> dict[str, Exception]:
        parts = {name: to_create(image) for name, image in planned.items()}
        records = {name: record for name, (record, _) in parts.items()}
        self._write(replace(self._state, topics={**self._state.topics, **records}))
        return create_topics(self._store, [wanted for _, wanted in parts.values()])

    def delete_topic(self, name: str) -> None:
        """Delete a topic that was created here or adopted.

        Raises UnknownTopicOrPartitionError; PolicyViolationError for any other topic, unless
        ``can_delete_existing``.
        """
        with self._lock:
            topic = self._topic(name)
            if not topic.is_adopted and not self._can_delete_existing:
                raise PolicyViolationError(
                    f"Topic '{name}' was not created through this broker: adopt it, or start the "
                    "broker with kstore.delete.existing.topics=true."
                )
            from kstore.store.topic_deletion import delete_topic_soon  # few brokers need it

            delete_topic_soon(self._store, name)
            if name in self._state.topics:
                try:
                    self._write(self._state.with_topic(name, None))
                except StorageError as error:  # harmless: the entry has the deleted topic's id
                    _LOGGER.warning(
                        "%s still has the deleted topic %s: %s", BROKER_FILE, name, error
                    )
            self.refresh()

    def create_partitions(
        self,
        name: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Add partitions to a topic until it has ``count``.

        Raises UnknownTopicOrPartitionError, InvalidPartitionsError,
        InvalidReplicaAssignmentError, PolicyViolationError; StorageError.
        """
        with self._lock:
            topic = self._topic(name)
            present = max(topic.partitions, default=-1) + 1
            topic_rules.check_more_partitions(name, count, present, assignments, self.node_id)
            if not validate_only:
                self._store.add_partitions(name, count)
                self.refresh()

    def _topic(self, name: str) -> TopicImage:
        self.refresh()
        topic = self._image.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartitionError("This server does not host this topic-partition.")
        return topic

    # --- settings of topics ---------------------------------------------------------------

    def alter_topic_config(
        self, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Change some settings of a topic (IncrementalAlterConfigs); open logs apply them
        immediately.

        Raises InvalidRequestError, InvalidTopicError, UnknownTopicOrPartitionError,
        InvalidConfigError; StorageError.
        """
        with self._lock:
            topic = self._configurable(name)
            altered = altered_topic_config(topic.config, changes, partial(self._value, topic))
            if not validate_only:
                self._set_topic_config(topic, altered)

    def replace_topic_config(
        self, name: str, config: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Replace all settings of a topic (AlterConfigs); same errors as alter_topic_config.

        A topic that was not adopted falls back to its previous settings, not the broker's.
        """
        with self._lock:
            topic = self._configurable(name)
            changes = replacing(config, topic.config)
            self.alter_topic_config(name, changes, validate_only=validate_only)

    def describe_topic_config(self, name: str) -> list[ConfigEntry]:
        """All settings of a topic with their effective values, sorted by name.

        Raises InvalidTopicError, UnknownTopicOrPartitionError.
        """
        topic_rules.check_name(name)
        with self._lock:
            topic = self._topic(name)
            return describe_topic(topic.config, self._config, self._kept(topic))

    def describe_new_topic(self, topic: TopicImage) -> list[ConfigEntry]:
        """All settings of a topic that was validated but not created, sorted by name."""
        return describe_topic(topic.config, self._config)

    def topic_setting(self, name: str, setting: str) -> str:
        """The effective value of one topic setting, as Kafka prints it."""
        with self._lock:
            return self._value(self._topic(name), setting)

    def _configurable(self, name: str) -> TopicImage:
        if not name:
            raise InvalidRequestError("Default topic resources are not allowed.")
        topic_rules.check_name(name)
        try:
            return self._topic(name)
        except UnknownTopicOrPartitionError:
            raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.") from None

    def _value(self, topic: TopicImage, setting: str) -> str:
        if setting in topic.config:
            return topic.config[setting]
        kept = self._kept(topic)
        if kept is not None and setting in kept:
            return kept[setting]
        return self._config.topic_default(setting) if setting in TOPIC_SETTINGS else ""

    def _kept(self, topic: TopicImage) -> dict[str, str] | None:
        """The defaults of a topic that does not follow the broker's settings; None if it does."""
        if topic.is_adopted:
            return None
        with self._store._lock:
            return to_values(self._store._catalog.own_config(topic.name))

    def _set_topic_config(self, topic: TopicImage, config: Mapping[str, str]) -> None:
        name = topic.name
        with self._store._lock:
            present = own_settings(self._store, name)
        beside, kept = kept_beside_topics(config), kept_by_topics(config)
        record = self._record(name)
        if beside != (record.config if record is not None else {}):
            if record is None:
                record = TopicRecord(self._identity(name))
            self._write(self._state.with_topic(name, replace(record, config=beside)))
            self._noted.note((name,))
        changes = {key: value for key, value in kept.items() if present.get(key) != value}
        unset = [key for key in present if key not in kept]
        if changes or unset:
            self._store.alter_topic(name, changes, unset=unset)
        self.refresh()
        self._apply([name])

    def _identity(self, name: str) -> str:
        found = self._store._manager.identities.identity_of(name)
        if found is None:
            raise UnknownTopicOrPartitionError(f"topic {name!r} has no identity yet")
        return found

    def adopt(self, name: str, config: Mapping[str, str | None] | None = None) -> TopicImage:
        """Put a topic under the broker's settings, including retention and cleaning.

        ``config`` replaces all of the topic's own settings; None keeps them.
        Raises the errors of :meth:`replace_topic_config`.
        """
        with self._lock:
            topic = self._configurable(name)
            own = check_topic_config(
                topic.config if config is None else config, self._config.topic_default
            )
            self._set_topic_config(topic, own)
            record = TopicRecord(self._identity(name), True, kept_beside_topics(own))
            self._store.alter_topic(
                name
            )  # a topic created by Kafka gets an entry, so that its logs are cleaned
            self._write(self._state.with_topic(name, record))
            self._noted.note((name,))
            self.refresh()
            self._apply([name])
            return self._image.topics[name]

    # --- settings of the broker -----------------------------------------------------------

    def alter_broker_config(
        self,
        changes: Sequence[ConfigChange],
        *,
        for_all: bool = False,
        validate_only: bool = False,
    ) -> None:
        """Change dynamic broker settings; ``for_all``: those of all brokers (the resource "").

        Topics that follow the broker apply them immediately. Raises InvalidRequestError,
        InvalidConfigError; StorageError.
        """
        with self._lock:
            present = self._state.default_config if for_all else self._state.config
            altered = altered_broker_config(present, changes, self._of_broker, for_all=for_all)
            changed = {**altered, **self._state.config} if for_all else self._dynamic() | altered
            try:
                with_store_settings(self._store.config, changed)
            except InvalidConfigError as error:  # Kafka's code for settings of brokers
                raise InvalidRequestError(error.reason) from None
            if validate_only:
                return
            if for_all:
                self._write(replace(self._state, default_config=altered))
            else:
                self._write(replace(self._state, config=altered))
            self._config = BrokerConfig(
                self._config.static, self._state.default_config, self._state.config
            )
            self._publish(self._image.topics)
            self._apply(self._image.topics)
            self._apply_to_store()

    def replace_broker_config(
        self,
        config: Mapping[str, str | None],
        *,
        for_all: bool = False,
        validate_only: bool = False,
    ) -> None:
        """Replace all dynamic settings, like :meth:`alter_broker_config`."""
        with self._lock:
            present = self._state.default_config if for_all else self._state.config
            changes = replacing(config, present)
            self.alter_broker_config(changes, for_all=for_all, validate_only=validate_only)

    def _dynamic(self) -> dict[str, str]:
        """What was changed while a broker ran."""
        return {**self._state.default_config, **self._state.config}

    def _apply_to_store(self) -> None:
        apply_store_settings(self._store, self._dynamic())

    def describe_broker_config(self, *, for_all: bool = False) -> list[ConfigEntry]:
        """All settings of the broker; ``for_all``: only those set for all brokers."""
        return self._config.describe_default() if for_all else self._config.describe()

    # --- settings of consumer groups ------------------------------------------------------

    def alter_group_config(
        self, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Change settings of a group, which need not exist. Raises InvalidRequestError for a
        group without a name, InvalidConfigError; StorageError."""
        with self._lock:
            groups = altered_groups(self._state.groups, name, changes, self._of_broker)
            if not validate_only:
                self._write(replace(self._state, groups=groups))
                self._publish(self._image.topics)

    def replace_group_config(
        self, name: str, config: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set exactly these settings of a group; as :meth:`alter_group_config`."""
        with self._lock:
            changes = replacing(config, self._state.groups.get(name, {}))
            self.alter_group_config(name, changes, validate_only=validate_only)

    def describe_group_config(self, name: str) -> list[ConfigEntry]:
        """All settings of a group, which need not exist."""
        return describe_group(name, self._state.groups.get(name, {}), self._config.synonyms)

    def _of_broker(self, name: str) -> str:
        return self._config.get(name) or ""

    # --- quotas ---------------------------------------------------------------------------

    def alter_client_quotas(
        self, changes: Sequence[QuotaChange], *, validate_only: bool = False
    ) -> list[InvalidRequestError | None]:
        """Set limits of entities with one write; returns each entity's error, or None."""
        with self._lock:
            before = self._state.client_quotas
            altered, errors = before.altered(changes)
            if not validate_only and altered != before:
                self._write(replace(self._state, client_quotas=altered))
                self._publish(self._image.topics)
            return errors

    # --- the engine -----------------------------------------------------------------------

    def _effective_config(self, name: str, own: LogConfig) -> LogConfig:
        """The effective settings of a topic's logs. The store calls this under its lock."""
        record = self._record(name)
        if record is None or not (record.is_adopted or record.config):
            return own
        return self._effective.config(name, own, record, self._config)

    def _apply(self, names: Sequence[str] | Mapping[str, TopicImage]) -> None:
        """Apply the effective settings to the open logs of these topics."""
        for name in tuple(names):
            if name in self._state.topics:
                self._store._manager.settings.apply(name)
