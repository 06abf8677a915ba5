"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: groups in every state, in every version.

The life of a group is asked once for each version of JoinGroup, with the same version of the other
requests as far as they have it.
"""

from typing import Any

from interop.same_bytes.asker import Asker
from interop.same_bytes.group_requests import (
    OTHER,
    SUBSCRIBED,
    TOPIC,
    committing,
    deleting,
    joining,
    leaving,
    subscription,
    syncing,
    wait_for_coordinators,
)
from interop.same_bytes.topics_used import create, specification, versions
from kstore.protocol.api_keys import ApiKey

JOIN, SYNC, BEAT, LEAVE = (
    ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP,
)  # fmt: skip
COMMIT, DESCRIBE = ApiKey.OFFSET_COMMIT, ApiKey.DESCRIBE_GROUPS


def ask(asker: Asker) -> None:
    create(asker, specification(TOPIC, 2), specification(OTHER))
    wait_for_coordinators(asker)
    for version in versions(JOIN):
        _refused(asker, version)
        _Life(asker, version).ask()
        if version >= 5:
            _Life(asker, version).ask_static()


def _refused(asker: Asker, version: int) -> None:
    """Requests of groups that do not exist, or that no group accepts."""
    new = f"refused-{version}"
    for title, fields in (
        ("no group id", joining("")),
        ("a short session", joining(new, session_timeout_ms=5_999)),
        ("a long session", joining(new, session_timeout_ms=1_800_001)),
        ("a negative session", joining(new, session_timeout_ms=-1)),
        ("an unknown member of no group", joining(new, "x")),
        ("no protocols", joining(new, protocols=())),
        ("no protocol type", joining(new, protocol_type="")),
        ("a negative rebalance timeout", joining(f"{new}-negative", rebalance_timeout_ms=-1)),
        ("an instance with an unknown id", joining(new, "x", group_instance_id="i")),
    ):
        if version >= 5 or not fields.get("group_instance_id"):
            asker.ask(title, JOIN, version, **fields)
    other = min(version, versions(SYNC)[-1])
    if other == version:
        asker.ask("no group id", SYNC, version, **syncing("", 1, "x"))
        asker.ask("no group", SYNC, version, **syncing("none", 1, "x"))
    if version <= versions(BEAT)[-1]:
        for group in ("", "none"):
            fields = {"group_id": group, "generation_id": 1, "member_id": "x"}
            asker.ask(f"group {group!r}", BEAT, version, **fields)
    if version <= versions(LEAVE)[-1]:
        for group in ("", "none"):
            asker.ask(f"group {group!r}", LEAVE, version, **leaving(version, group, ("x", None)))


class _Life:
    """One group from its first member to its deletion."""

    def __init__(self, asker: Asker, version: int) -> None:
        self._asker = asker
        self._version = version
        self._group = f"life-{version}"

    def _ask(self, title: str, api: ApiKey, **fields: Any) -> Any:
        version = min(self._version, versions(api)[-1])
        return self._asker.ask(f"{self._group}: {title}", api, version, **fields)

    def _join(self, title: str, member: str = "", **fields: Any) -> Any:
        return self._ask(title, JOIN, **joining(self._group, member, **fields))

    def _sync(self, title: str, generation: int, member: str, *assigned: str, **more: Any) -> Any:
        return self._ask(title, SYNC, **syncing(self._group, generation, member, *assigned, **more))

    def _beat(self, title: str, generation: int, member: str, instance: str | None = None) -> None:
        fields = {"group_id": self._group, "generation_id": generation, "member_id": member}
        if self._version >= 3:
            fields["group_instance_id"] = instance
        self._ask(title, BEAT, **fields)

    def _commit(self, title: str, generation: int, member: str, **fields: Any) -> None:
        fields |= {"generation_id_or_member_epoch": generation, "member_id": member}
        if self._version > 0:  # the oldest has neither
            self._ask(title, COMMIT, **committing(self._group, **fields))

    def _leave(self, title: str, *members: tuple[str, str | None]) -> None:
        version = min(self._version, versions(LEAVE)[-1])
        self._ask(title, LEAVE, **leaving(version, self._group, *members))

    def _describe(self, title: str) -> None:
        self._ask(title, DESCRIBE, groups=[self._group])

    def _begin(self, api: ApiKey, **fields: Any) -> Any:
        return self._asker.begin(api, min(self._version, versions(api)[-1]), **fields)

    def _id(self) -> str:
        """The id of a new member, from the broker since version 4."""
        if self._version < 4:
            return ""
        found = self._asker.look(JOIN, self._version, **joining(self._group))
        return str(found.member_id)

    def ask(self) -> None:
        first = self._alone()
        second = self._together(first)
        self._ended(first, second)

    def _alone(self) -> str:
        """The states of a group with one member."""
        joined = self._join("the first member")
        if self._version >= 4:
            joined = self._join("the first member with its id", joined.member_id)
        me = str(joined.member_id)
        self._describe("described while it awaits assignments")
        for generation, member in ((1, me), (2, me), (1, "x")):
            title = f"of {'itself' if member == me else member} in {generation}"
            self._beat(f"heartbeat {title}", generation, member)
            self._commit(f"commit {title}, not synced", generation, member)
        self._join("the same again", me)
        for title, fields in (
            ("of another generation", {"generation": 7}),
            ("of an unknown member", {"member": "x"}),
            ("of another protocol", {"protocol_name": "other"}),
            ("of another type", {"protocol_type": "connect"}),
            ("without a protocol", {"protocol_type": None, "protocol_name": None}),
            ("without a name", {"protocol_name": None}),
        ):
            self._sync(f"sync {title}", **{"generation": 1, "member": me, **fields})
        self._sync("assigned", 1, me, me, "x")
        self._sync("assigned again", 1, me)
        self._describe("described")
        for generation, member in ((1, me), (0, me), (1, "x"), (-1, ""), (1, ""), (-1, me)):
            title = f"of {'itself' if member == me else repr(member)} in {generation}, stable"
            self._beat(f"heartbeat {title}", generation, member)
            self._commit(f"commit {title}", generation, member)
        self._join("of another type", protocol_type="connect")
        self._join("without a common protocol", protocols=(("other", b""),))
        self._join("unknown", "x")
        if self._version == 9:
            topics = self._asker.look(
                COMMIT, 9,
                **committing(
                    self._group, (OTHER, 0), generation_id_or_member_epoch=1, member_id=me
                ),
            )  # fmt: skip
            assert not topics.topics[0].partitions[0].error_code
            asked = deleting(self._group, TOPIC, OTHER, "none")
            self._asker.ask("of a stable group", ApiKey.OFFSET_DELETE, 0, **asked)
        self._ask("with a member", ApiKey.DELETE_GROUPS, groups_names=[self._group])
        return me

    def _together(self, first: str) -> str:
        """A second member joins."""
        metadata = (("range", subscription(TOPIC, OTHER)), ("sticky", SUBSCRIBED))
        member = self._id()
        waiting = self._begin(JOIN, **joining(self._group, member, protocols=metadata))
        self._until_prepares(first)
        self._describe("described while members join")
        self._beat("heartbeat while members join", 1, first)
        self._commit("commit while members join", 1, first)
        self._sync("sync while members join", 1, first)
        self._join("the first joins again", first)
        second = str(self._asker.end(f"{self._group}: the second member", waiting).member_id)
        sync = self._begin(SYNC, **syncing(self._group, 2, second))
        self._beat("heartbeat of the second", 2, second)
        self._sync("the leader assigns", 2, first, first, second)
        self._asker.end(f"{self._group}: the second is assigned", sync)
        self._describe("described with two members")
        return second

    def _until_prepares(self, member: str) -> None:
        """Wait until the other connection's request has arrived."""
        fields = {"group_id": self._group, "generation_id": 1, "member_id": member}
        while self._asker.look(BEAT, 0, **fields).error_code == 0:
            pass

    def _ended(self, first: str, second: str) -> None:
        """Members leave, the group is deleted."""
        self._leave("an unknown member leaves", ("x", None))
        self._leave("an unknown instance leaves", ("", "i"))
        self._leave("two members leave", (second, None), ("x", None))
        self._beat("heartbeat after a leave", 2, first)
        self._join("the last joins again", first)
        self._leave("the last leaves", (first, None))
        self._leave("the last leaves again", (first, None))
        self._describe("described without members")
        self._beat("heartbeat without members", 3, first)
        self._sync("sync without members", 3, first)
        self._join("joins without members", first)
        for generation, member in ((-1, ""), (-1, "x"), (0, ""), (4, first)):
            title = f"of {'itself' if member == first else repr(member)} in {generation}"
            self._commit(f"commit {title}, empty", generation, member)
        self._ask("without members", ApiKey.DELETE_GROUPS, groups_names=[self._group, "none"])
        self._describe("described when deleted")
        for generation in (-1, 0):
            self._commit(f"commit in {generation} when deleted", generation, "")

    def ask_static(self) -> None:
        """A group of static members."""
        self._group = f"static-{self._version}"
        static: dict[str, Any] = {"group_instance_id": "i"}
        old = str(self._join("an instance", **static).member_id)
        self._sync("assigned", 1, old, old, **static)
        self._beat("heartbeat", 1, old, "i")
        new = str(self._join("the instance comes back", **static).member_id)
        self._sync("sync when it is back", 1, new, **static)
        self._describe("described")
        for title, member, instance in (
            ("the old id", old, "i"), ("the old id without its instance", old, None),
            ("another instance", new, "j"), ("itself", new, "i"),
            ("without its instance", new, None),
        ):  # fmt: skip
            fields = {"group_instance_id": instance}
            self._beat(f"heartbeat of {title}", 1, member, instance)
            self._sync(f"sync of {title}", 1, member, **fields)
            self._join(f"join of {title}", member, **fields) if member == old else None
            if self._version >= 7:
                self._commit(f"commit of {title}", 1, member, **fields)
            if member == old or instance == "j":
                self._leave(f"leave of {title}", (member, instance))
        changed = (("range", subscription(OTHER)), ("sticky", SUBSCRIBED))
        last = self._join("it comes back with other topics", **static, protocols=changed)
        generation, member = int(last.generation_id), str(last.member_id)
        self._sync("sync with other topics", generation, member, member, **static)
        self._leave("removed by its name", ("", "i"), ("", "i"), ("", "j"))
        self._describe("described without members")
