"""Claims of partitions: in all log directories, and beside an alteration of their group."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import StoreConfig
from kstore.coordinator.group import partition_claims as module
from kstore.coordinator.group.partition_claims import Claims
from kstore.errors import GroupConflictError, NonEmptyGroupError, StoreLockedError
from kstore.files.files import DISK
from kstore.files.lock_holders import LockHolder, lock_holders

T0, T1 = ("t", 0), ("t", 1)


def claims_of(*log_dirs: Path) -> Claims:
    return Claims(DISK, lambda: [str(each) for each in log_dirs], "g")


@pytest.fixture
def a(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    return tmp_path / "a"


@pytest.fixture
def b(tmp_path: Path) -> Path:
    (tmp_path / "b").mkdir()
    return tmp_path / "b"


def test_a_claim_holds_in_every_log_dir(a: Path, b: Path) -> None:
    both = claims_of(a, b)
    both.take(T0)
    for log_dirs in ((a,), (b,), (a, b)):
        with pytest.raises(GroupConflictError, match="t-0"):
            claims_of(*log_dirs).take(T0)
        assert claims_of(*log_dirs).is_taken(T0)
    both.release(T0)
    claims_of(a, b).take(T0)


def test_a_claim_that_fails_in_one_log_dir_is_released_in_all(a: Path, b: Path) -> None:
    only = claims_of(b)
    only.take(T0)
    both = claims_of(a, b)
    both.take(T1)
    with pytest.raises(GroupConflictError):
        both.take(T0)
    claims_of(a).take(T0)
    assert both.release_all()
    assert not claims_of(a, b).is_taken(T1)
    assert only.release_all()


def test_all_claims_need_one_descriptor_for_each_log_dir(a: Path, b: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    both = claims_of(a, b)
    for partition in range(20):
        both.take(("t", partition))
    assert len(os.listdir("/proc/self/fd")) == before + 2
    both.release(("t", 3))
    other = claims_of(b)
    other.take(("t", 3))
    with pytest.raises(GroupConflictError):
        other.take(("t", 4))
    other.release_all()
    both.release_all()
    assert len(os.listdir("/proc/self/fd")) == before


def take_a_partition(claims: Claims) -> None:
    claims.take(T0)


def take_all(claims: Claims) -> None:
    with claims.take_all():
        pass


@pytest.mark.parametrize("take", [take_a_partition, take_all])
def test_a_consumer_waits_for_the_end_of_an_alteration(
    a: Path, take: Callable[[Claims], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as alteration:
        alteration.enter_context(claims_of(a).take_all())
        monkeypatch.setattr(module, "sleep", lambda seconds: alteration.close())
        take(claims_of(a))


@pytest.mark.parametrize("take", [take_a_partition, take_all])
def test_an_alteration_that_does_not_end_is_named(
    a: Path, take: Callable[[Claims], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAIT_SECONDS", 0.0)
    with claims_of(a).take_all():
        with pytest.raises(GroupConflictError, match="being altered by this process") as caught:
            take(claims_of(a))
        assert not isinstance(caught.value, NonEmptyGroupError)


@pytest.mark.parametrize("take", [take_a_partition, take_all])
def test_a_consumer_that_closes_meanwhile_is_no_conflict(
    a: Path, take: Callable[[Claims], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = claims_of(a)
    consumer.take(T0)

    def close(*_: object) -> list[object]:
        consumer.release_all()
        return []

    monkeypatch.setattr(module, "lock_holders", close)
    take(claims_of(a))


@pytest.mark.parametrize("take", [take_a_partition, take_all])
def test_a_consumer_that_follows_another_is_named(
    a: Path, take: Callable[[Claims], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one closes while its process is searched, and the next one opens at once."""
    first, second = claims_of(a), claims_of(a)
    first.take(T0)

    def reopen(*searched: Any) -> list[LockHolder]:
        if not first.release_all():
            return lock_holders(*searched)
        second.take(T0)
        return []

    monkeypatch.setattr(module, "lock_holders", reopen)
    with pytest.raises(GroupConflictError, match="in this process"):
        take(claims_of(a))


@pytest.mark.parametrize("take", [take_a_partition, take_all])
def test_a_consumer_of_another_user_has_no_name(
    a: Path, take: Callable[[Claims], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = claims_of(a)
    consumer.take(T0)
    monkeypatch.setattr(module, "lock_holders", lambda *searched: [])
    with pytest.raises(GroupConflictError, match="in a process of another user"):
        take(claims_of(a))


def test_a_change_of_the_file_that_does_not_end_is_named(
    a: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAIT_SECONDS", 0.0)
    with (
        claims_of(a).guard(str(a)),
        pytest.raises(StoreLockedError, match="file of group 'g' is being changed by this process"),
    ):
        claims_of(a).guard(str(a))


def test_an_alteration_is_not_listed_as_a_consumer(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as store:
        store.create_topic("t")
        store.alter_group_offsets("g", {T0: 0})
        with claims_of(tmp_path).take_all():
            assert not store.group("g").is_claimed
            assert list(store.groups()) == ["g"]
