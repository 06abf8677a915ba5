"""Quotas of clients: which limits are set, and which of them counts for a client.

Kafka's ClientQuotaControlManager and DefaultQuotaCallback (KIP-13, KIP-55, KIP-599, KIP-612). An
entity is a user, a client id, both, or an address; a name of None stands for all that have no
quota of their own. What clients use is measured in :mod:`kstore.broker.client_throttling`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from kstore.errors import InvalidRequestError
from kstore.files.descriptor_limit import loading
from kstore.integers import INT32_MAX, INT64_MAX
from kstore.lazy_dataclass import lazy_dataclass

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"
REQUEST_PERCENTAGE, MUTATION_RATE = "request_percentage", "controller_mutation_rate"
CONNECTION_RATE = "connection_creation_rate"

# A quota's largest value, and whether it is a whole number.
_OF_CLIENTS = {
    PRODUCER_BYTE_RATE: (INT64_MAX, True),
    CONSUMER_BYTE_RATE: (INT64_MAX, True),
    REQUEST_PERCENTAGE: (None, False),
    MUTATION_RATE: (None, False),
}
_OF_ADDRESSES = {CONNECTION_RATE: (INT32_MAX, True)}
_MOST_NAME = 32_767  # characters
MOST_ENTITIES = 100_000

Entity = tuple[tuple[str, str | None], ...]  # types and names, sorted by type
QuotaChange = tuple[Entity, Mapping[str, float | None]]  # None removes a limit
Scope = tuple[str | None, str | None]  # user and client id that share a rate; None: any


@lazy_dataclass(frozen=True)
class ClientQuotas:
    """All quotas that are set; immutable."""

    limits: Mapping[Entity, Mapping[str, float]] = field(default_factory=dict)

    def limit(self, key: str, user: str, client_id: str) -> tuple[float, Scope] | None:
        """The limit of a client, and with whom it is shared; None without one.

        The most special entity counts, in the order of Kafka's DefaultQuotaCallback.
        """
        for entity, scope in (
            (((CLIENT_ID, client_id), (USER, user)), (user, client_id)),
            (((CLIENT_ID, None), (USER, user)), (user, client_id)),
            (((USER, user),), (user, None)),
            (((CLIENT_ID, client_id), (USER, None)), (user, client_id)),
            (((CLIENT_ID, None), (USER, None)), (user, client_id)),
            (((USER, None),), (user, None)),
            (((CLIENT_ID, client_id),), (None, client_id)),
            (((CLIENT_ID, None),), (None, client_id)),
        ):
            found = self.limits.get(entity)
            if found is not None and key in found:
                return found[key], scope
        return None

    def connection_rate(self, address: str) -> float | None:
        """Connections a second that an address may open; None without a limit."""
        for entity in (((IP, address),), ((IP, None),)):
            found = self.limits.get(entity)
            if found is not None and CONNECTION_RATE in found:
                return found[CONNECTION_RATE]
        return None

    @property
    def keys(self) -> frozenset[str]:
        """The quotas that any entity has."""
        return frozenset(key for values in self.limits.values() for key in values)

    def altered(
        self, changes: Iterable[QuotaChange]
    ) -> "tuple[ClientQuotas, list[InvalidRequestError | None]]":
        """With changes of entities, and the error of each change that is refused.

        None removes a limit. Refused: values that :func:`check_changes` refuses, too many entities.
        """
        limits = dict(self.limits)
        most = max(MOST_ENTITIES, len(limits))
        errors: list[InvalidRequestError | None] = []
        for entity, change in changes:
            try:
                check_changes(entity, change)
                merged = {**limits.get(entity, {}), **change}
                values = {key: value for key, value in merged.items() if value is not None}
                if values and entity not in limits and len(limits) >= most:
                    raise InvalidRequestError(
                        f"There are quotas of at most {MOST_ENTITIES} entities."
                    )
            except InvalidRequestError as error:
                errors.append(error)
                continue
            errors.append(None)
            limits.pop(entity, None)
            if values:
                limits[entity] = values
        return ClientQuotas(limits), errors


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """The entity of types and names. Raises InvalidRequestError with Kafka's texts."""
    given = list(parts)
    found: dict[str, str | None] = {}
    for kind, name in given:
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequestError(f"Unhandled client quota entity type: {kind[:40]}")
        if kind in found:
            raise InvalidRequestError(f"Duplicate {kind} in the client quota entity")
        if name is not None and not 0 < len(name) <= _MOST_NAME:
            raise InvalidRequestError(f"Empty or too long {kind} is not supported")
        found[kind] = name
    if not found:
        raise InvalidRequestError("Invalid empty client quota entity")
    if IP in found and len(found) > 1:
        raise InvalidRequestError(
            "Invalid quota entity combination, IP entity should not be combined with User or "
            "ClientId"
        )
    if found.get(IP) is not None:
        found[IP] = _address(str(found[IP]))
    return tuple(sorted(found.items()))


def check_changes(entity: Entity, changes: Mapping[str, float | None]) -> None:
    """Raise InvalidRequestError for a key or a value that an entity cannot have."""
    known = _OF_ADDRESSES if entity[0][0] == IP else _OF_CLIENTS
    for key, value in changes.items():
        if key not in known:
            raise InvalidRequestError(f"Invalid configuration key {key[:80]}")
        if value is None:
            continue
        most, is_whole = known[key]
        if not value > 0:  # nor NaN
            raise InvalidRequestError(f"Quota {key} must be greater than 0")
        if value == float("inf") or (most is not None and value > most):
            raise InvalidRequestError(f"Proposed value for {key} is too large.")
        if is_whole and abs(value - round(value)) > 1e-6:
            raise InvalidRequestError(f"{key} cannot be a fractional value.")


def _address(text: str) -> str:
    """An address as sockets show it. Names of hosts are not resolved."""
    with loading("cannot read an IP"):
        from ipaddress import ip_address  # only quotas of IPs need it

    try:
        found = ip_address(text)
    except ValueError:
        raise InvalidRequestError(
            f"{text[:80]} is not a valid IP; this broker does not resolve names of hosts"
        ) from None
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)


# --- as text ---------------------------------------------------------------------------------


def to_json(quotas: ClientQuotas) -> list[dict[str, Any]]:
    """For ``kstore.broker``: entities with their values, in the order of the entities."""
    return [
        {"entity": dict(entity), "values": dict(values)}
        for entity, values in sorted(quotas.limits.items(), key=lambda item: repr(item[0]))
    ]


def from_json(found: object) -> ClientQuotas:
    """Raises ValueError, TypeError, KeyError or InvalidRequestError for what is none."""
    if not isinstance(found, list):
        raise TypeError("not a list")
    limits: dict[Entity, Mapping[str, float]] = {}
    for each in found:
        entity = entity_of(each["entity"].items())
        values = {key: float(value) for key, value in each["values"].items()}
        check_changes(entity, values)
        limits[entity] = values
    return ClientQuotas(limits)
