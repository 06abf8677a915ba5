"""Quotas of clients: precedence, rules, and the file of a broker."""

import json
from pathlib import Path

import pytest

import kstore
from kstore.cluster.broker_file import read_broker_file
from kstore.cluster.client_quotas import (
    CLIENT_ID,
    CONNECTION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    USER,
    ClientQuotas,
    Entity,
    check_changes,
    entity_of,
    from_json,
    to_json,
)
from kstore.cluster.local_metadata import LocalMetadata
from kstore.errors import CorruptFileError, InvalidRequestError

KEY = PRODUCER_BYTE_RATE


def of(**names: str | None) -> Entity:
    return entity_of((kind.replace("_", "-"), name) for kind, name in names.items())


# From the most special to the most general, with whom the rate is shared.
ORDER = [
    (of(user="u", client_id="c"), ("u", "c")),
    (of(user="u", client_id=None), ("u", "c")),
    (of(user="u"), ("u", None)),
    (of(user=None, client_id="c"), ("u", "c")),
    (of(user=None, client_id=None), ("u", "c")),
    (of(user=None), ("u", None)),
    (of(client_id="c"), (None, "c")),
    (of(client_id=None), (None, "c")),
]


def test_the_most_special_entity_counts() -> None:
    quotas = ClientQuotas({entity: {KEY: float(n)} for n, (entity, _) in enumerate(ORDER, 1)})
    for number, (entity, scope) in enumerate(ORDER, 1):
        assert quotas.limit(KEY, "u", "c") == (number, scope)
        quotas, _ = quotas.altered([(entity, {KEY: None})])
    assert quotas.limit(KEY, "u", "c") is None
    assert quotas == ClientQuotas()


def test_an_entity_without_the_quota_leaves_it_to_the_next() -> None:
    quotas = ClientQuotas({of(user="u"): {"consumer_byte_rate": 1.0}, of(user=None): {KEY: 2.0}})
    assert quotas.limit(KEY, "u", "c") == (2.0, ("u", None))
    assert quotas.limit(KEY, "other", "c") == (2.0, ("other", None))
    assert quotas.keys == {"consumer_byte_rate", KEY}


def test_a_connection_rate_is_of_an_address_or_the_default() -> None:
    quotas = ClientQuotas({of(ip="10.0.0.1"): {CONNECTION_RATE: 3.0}})
    assert quotas.connection_rate("10.0.0.1") == 3.0
    assert quotas.connection_rate("10.0.0.2") is None
    quotas, _ = quotas.altered([(of(ip=None), {CONNECTION_RATE: 5.0})])
    assert quotas.connection_rate("10.0.0.2") == 5.0
    assert of(ip="::ffff:10.0.0.1") == of(ip="10.0.0.1")


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "Invalid empty client quota entity"),
        ([("topic", "a")], "Unhandled client quota entity type: topic"),
        ([(USER, "a"), (USER, "b")], "Duplicate user"),
        ([(USER, "")], "Empty or too long user"),
        ([(CLIENT_ID, "x" * 40_000)], "Empty or too long client-id"),
        ([(USER, "a"), (IP, None)], "IP entity should not be combined"),
        ([(IP, "a host")], "a host is not a valid IP"),
    ],
)
def test_wrong_entities_are_refused(parts: list[tuple[str, str | None]], text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        entity_of(parts)


@pytest.mark.parametrize(
    ("entity", "key", "value", "text"),
    [
        (of(user="u"), "bogus", 1.0, "Invalid configuration key bogus"),
        (of(user="u"), CONNECTION_RATE, 1.0, "Invalid configuration key"),
        (of(ip=None), KEY, 1.0, "Invalid configuration key"),
        (of(user="u"), KEY, 0.0, "must be greater than 0"),
        (of(user="u"), KEY, float("nan"), "must be greater than 0"),
        (of(user="u"), KEY, 1.5, "cannot be a fractional value"),
        (of(user="u"), KEY, 1e30, "too large"),
        (of(user="u"), "request_percentage", float("inf"), "too large"),
        (of(ip=None), CONNECTION_RATE, 2.0**31, "too large"),
    ],
)
def test_wrong_values_of_quotas_are_refused(
    entity: Entity, key: str, value: float, text: str
) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        check_changes(entity, {key: value})


def test_fractions_of_percent_are_taken() -> None:
    check_changes(of(user="u"), {"request_percentage": 0.5, "controller_mutation_rate": 0.1})


def test_quotas_are_equal_after_a_round_trip_through_json() -> None:
    quotas = ClientQuotas({entity: {KEY: 1.0} for entity, _ in ORDER})
    assert from_json(json.loads(json.dumps(to_json(quotas)))) == quotas


def test_changes_of_many_entities_are_one_write(tmp_path: Path) -> None:
    """Each refused change has its error, and the others are applied."""
    changes = [(of(user=f"u{number}"), {KEY: 1.0 + number}) for number in range(100)]
    changes.insert(50, (of(user="u"), {KEY: -1.0}))
    changes.append((of(user="u0"), {KEY: None}))
    with kstore.open(tmp_path / "data", "a") as store:
        metadata = LocalMetadata(store)
        before = read_broker_file(store._manager._dirs)
        assert before is not None
        errors = metadata.alter_client_quotas(changes)
        assert [n for n, error in enumerate(errors) if error is not None] == [50]
        after = read_broker_file(store._manager._dirs)
        assert after is not None
        assert after.generation == before.generation + 1
        assert len(after.client_quotas.limits) == 99
        assert metadata.image.client_quotas == after.client_quotas
        metadata.close()


def test_more_entities_than_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kstore.cluster.client_quotas.MOST_ENTITIES", 2)
    changes = [(of(user=f"u{number}"), {KEY: 1.0}) for number in range(3)]
    quotas, errors = ClientQuotas().altered([*changes, changes[0]])
    assert [error is None for error in errors] == [True, True, False, True]
    assert len(quotas.limits) == 2


def test_quotas_are_in_the_broker_s_file(tmp_path: Path) -> None:
    with kstore.open(tmp_path / "data", "a") as store:
        metadata = LocalMetadata(store)
        metadata.alter_client_quotas([(of(user="u"), {KEY: 7.0})], validate_only=True)
        assert metadata.image.client_quotas == ClientQuotas()
        metadata.alter_client_quotas([(of(user="u"), {KEY: 7.0})])
        metadata.alter_client_quotas([(of(user=None), {KEY: 8.0})])
        metadata.alter_client_quotas([(of(user=None), {KEY: None})])
        expected = ClientQuotas({of(user="u"): {KEY: 7.0}})
        assert metadata.image.client_quotas == expected
        metadata.close()
        metadata = LocalMetadata(store)
        assert metadata.image.client_quotas == expected
        metadata.close()
    path = tmp_path / "data" / "kstore.broker"
    content = json.loads(path.read_text())
    too_large = [{"entity": {"user": "u"}, "values": {KEY: 10**400}}]
    for wrong in (
        [{"entity": {}, "values": {}}], [{"entity": {"user": 1}}], {}, [1], None, too_large,
    ):  # fmt: skip
        path.write_text(json.dumps({**content, "client_quotas": wrong}))
        with (
            kstore.open(tmp_path / "data", "a") as store,
            pytest.raises(CorruptFileError, match="client_quotas"),
        ):
            LocalMetadata(store)
