"""FindCoordinator, OffsetCommit, OffsetFetch, DescribeGroups, ListGroups, DeleteGroups,
OffsetDelete: what no membership is needed for, in every version."""

from typing import Any

from interop.same_bytes.asker import Asker
from interop.same_bytes.group_requests import (
    OTHER,
    TOPIC,
    committing,
    deleting,
    fetching,
    joining,
    wait_for_coordinators,
)
from interop.same_bytes.topics_used import create, specification, versions
from kstore.protocol.api_keys import ApiKey

FIND, COMMIT, FETCH = ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH
DESCRIBE, LIST, DELETE = ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.DELETE_GROUPS


def ask(asker: Asker) -> None:
    create(asker, specification("committed", 2))
    wait_for_coordinators(asker)
    for version in versions(FIND):
        _find(asker, version)
    for version in versions(COMMIT):
        _commit(asker, version)
    for version in versions(FETCH):
        _fetch(asker, version)
    for version in versions(DESCRIBE):
        _describe(asker, version)
    for version in versions(LIST):
        _list(asker, version)
    for version in versions(DELETE):
        _delete(asker, version)
    _delete_offsets(asker)


def _find(asker: Asker, version: int) -> None:
    for kind in (0, 1, 2, 9, -1) if version >= 1 else (0,):
        for key in ("g", "", "g:AAAAAAAAAAAAAAAAAAAAAQ:0"):
            title = f"key {key!r} of type {kind}"
            if version < 4:
                asker.ask(title, FIND, version, key=key, key_type=kind)
            else:
                asker.ask(title, FIND, version, coordinator_keys=[key], key_type=kind)
    if version >= 4:
        asker.ask("several", FIND, version, coordinator_keys=["a", "b"])
        asker.ask("one twice", FIND, version, coordinator_keys=["a", "a"])
        asker.ask("none", FIND, version)


def _at(name: str, number: int = 0) -> tuple[str, int]:
    return name, number


def _commit(asker: Asker, version: int) -> None:
    group = f"commits-{version}"

    def one(title: str, *partitions: tuple[str, int], to: str = group, **fields: Any) -> None:
        asked = committing(to, *partitions or (_at("committed"),), **fields)
        asker.ask(title, COMMIT, version, **asked)
        fetched = fetching(8, to, topics=None)
        answer = asker.look(FETCH, 8, **fetched)
        found = [
            f"{topic.name}-{each.partition_index} {each.committed_offset} {each.metadata!r}"
            for topic in answer.groups[0].topics
            for each in topic.partitions
        ]
        asker.note(f"after OFFSET_COMMIT {version} {title}", sorted(found))

    one("of no group id", to="")
    one("good")
    one("several", _at("committed", 1), _at("none"), _at("committed", 9), _at("a b"))
    one("the largest metadata", metadata="m" * 4096)
    one("too large metadata", metadata="m" * 4097)
    one("large metadata of few characters", metadata="\u00fc" * 2049)
    one("null metadata", metadata=None)
    asker.ask("of no topics", COMMIT, version, group_id=group)
    if version >= 1:
        for generation, member in ((0, ""), (-1, "x"), (3, "x"), (-2, "")):
            fields = {"generation_id_or_member_epoch": generation, "member_id": member}
            one(f"of {member!r} in {generation}", **fields)
            one(f"of {member!r} in {generation} of no group", to=f"{group}-{generation}", **fields)
    if version >= 7:
        one("of an instance", group_instance_id="i")
    if 2 <= version <= 4:
        one("with a retention", to=f"{group}-kept", retention_time_ms=3_600_000)


def _fetch(asker: Asker, version: int) -> None:
    group = "commits-8"
    for title, topics in (
        ("some", [{"name": "committed", "partition_indexes": [0, 1, 9]}]),
        ("of an unknown topic", [{"name": "none", "partition_indexes": [0]}]),
        ("one twice", [{"name": "committed", "partition_indexes": [0, 0]}]),
        ("of no partitions", [{"name": "committed", "partition_indexes": []}]),
        ("nothing", []),
        ("all", None),
    ):
        if topics is None and version < 2:
            continue
        for name in (group, "none", ""):
            asked = fetching(version, name, topics=topics)
            asker.ask(f"{title} of {name!r}", FETCH, version, **asked)
    if version >= 7:
        asked = fetching(version, group, require_stable=True)
        asker.ask("stable ones", FETCH, version, **asked)
    if version >= 8:
        asker.ask("of two groups", FETCH, version, **fetching(version, group, "commits-7"))
    if version >= 9:
        for epoch, member in ((0, "x"), (-1, "x"), (3, None)):
            asked = fetching(version, group)
            asked["groups"][0] |= {"member_id": member, "member_epoch": epoch}
            asker.ask(f"of {member} in {epoch}", FETCH, version, **asked)


def _describe(asker: Asker, version: int) -> None:
    for title, names in (
        ("an empty group", ["commits-8"]),
        ("an unknown group", ["none"]),
        ("two", ["commits-7", "commits-8"]),
        ("one twice", ["commits-8", "commits-8"]),
        ("no name", [""]),
        ("none", []),
    ):
        asker.ask(title, DESCRIBE, version, groups=names)
    if version >= 3:
        fields = {"groups": ["commits-8", "none"], "include_authorized_operations": True}
        asker.ask("with operations", DESCRIBE, version, **fields)


def _list(asker: Asker, version: int) -> None:
    asker.ask("all", LIST, version)
    for states in (["empty"], ["EMPTY", "Stable"], ["Stable"], ["other"]) if version >= 4 else ():
        asker.ask(f"in {states}", LIST, version, states_filter=states)
    for types in (["classic"], ["CONSUMER"], ["other"]) if version >= 5 else ():
        asker.ask(f"of {types}", LIST, version, types_filter=types)
    if version >= 5:
        fields = {"states_filter": ["stable"], "types_filter": ["Classic"]}
        asker.ask("of a state and a type", LIST, version, **fields)


def _delete(asker: Asker, version: int) -> None:
    for title, names in (
        ("one", [f"commits-{version + 1}"]),
        ("it again", [f"commits-{version + 1}"]),
        ("two", [f"commits-{version + 4}", "none"]),
        ("one twice", ["none", "none"]),
        ("no name", [""]),
        ("none", []),
    ):
        asker.ask(title, DELETE, version, groups_names=names)


def _delete_offsets(asker: Asker) -> None:
    api = ApiKey.OFFSET_DELETE
    for title, group, topics in (
        ("some", "commits-8", ("committed", "none")),
        ("the same again", "commits-8", ("committed",)),
        ("of no group", "none", ("committed",)),
        ("of no group id", "", ("committed",)),
        ("of no topics", "commits-8", ()),
    ):
        asker.ask(title, api, 0, **deleting(group, *topics))
    asker.ask("what is left", FETCH, 8, **fetching(8, "commits-8", topics=None))
    # a group of another protocol type
    fields = joining("connected", protocol_type="connect")
    member = asker.look(ApiKey.JOIN_GROUP, 3, **fields).member_id
    asker.ask("of another protocol type", api, 0, **deleting("connected", TOPIC, OTHER))
    asker.look(ApiKey.LEAVE_GROUP, 0, group_id="connected", member_id=member)
