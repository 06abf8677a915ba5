"""Quotas of a cluster's clients, and the users of SCRAM: described and altered."""

import secrets
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kstore.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from kstore.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kstore.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kstore.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kstore.remote.answer_errors import raise_for
from kstore.remote.cluster import Cluster
from kstore.security.scram import salted

EXACT, DEFAULT, ANY = 0, 1, 2  # Kafka's match types
NOT_FOUND = 91  # RESOURCE_NOT_FOUND: a user without credentials
SCRAM_CODES = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_NAMES = {code: name for name, code in SCRAM_CODES.items()}
_SALT_SIZE = 20  # bytes


class QuotaFilter(NamedTuple):
    """Selects entities that have a type; a name counts with EXACT only."""

    kind: str
    match: int
    name: str | None = None


def describe_quotas(
    cluster: Cluster, filters: Iterable[QuotaFilter]
) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    """Entities with their limits, of exactly the types of the filters."""
    request = DescribeClientQuotasRequest(
        components=[DescribeClientQuotasRequest.Components(*each) for each in filters],
        strict=True,
    )
    answer = cluster.ask(request, DescribeClientQuotasResponse)
    raise_for(answer.error_code, answer.error_message, "")
    return [
        (
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in answer.entries or ()
    ]


def alter_quotas(
    cluster: Cluster,
    entity: Mapping[str, str | None],
    changes: Mapping[str, float | None],
    *,
    validate_only: bool = False,
) -> None:
    """Set limits of an entity, and remove those that are None."""
    entry = AlterClientQuotasRequest.Entries
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                [entry.Entity(kind, name) for kind, name in entity.items()],
                [entry.Ops(key, value or 0.0, value is None) for key, value in changes.items()],
            )
        ],
        validate_only=validate_only,
    )
    answer = cluster.ask(request, AlterClientQuotasResponse, node=cluster.controller)
    for each in answer.entries:
        raise_for(each.error_code, each.error_message, "")


def describe_scram(cluster: Cluster, user: str | None) -> dict[str, dict[str, int]]:
    """Iterations by user and mechanism, of all users for None."""
    users = None
    if user is not None:
        users = [DescribeUserScramCredentialsRequest.Users(user)]
    answer = cluster.ask(
        DescribeUserScramCredentialsRequest(users=users), DescribeUserScramCredentialsResponse
    )
    raise_for(answer.error_code, answer.error_message, "")
    found: dict[str, dict[str, int]] = {}
    for each in answer.results:
        if each.error_code == NOT_FOUND:
            continue
        raise_for(each.error_code, each.error_message, each.user)
        found[each.user] = {
            _NAMES.get(info.mechanism, "UNKNOWN"): info.iterations for info in each.credential_infos
        }
    return found


def alter_scram(
    cluster: Cluster, user: str, passwords: Mapping[str, tuple[int, str] | None]
) -> None:
    """Set iterations and password by mechanism, and remove what is None. The password itself is
    not sent."""
    request = AlterUserScramCredentialsRequest()
    for mechanism, wanted in passwords.items():
        code = SCRAM_CODES[mechanism]
        if wanted is None:
            request.deletions.append(AlterUserScramCredentialsRequest.Deletions(user, code))
            continue
        iterations, password = wanted
        salt = secrets.token_bytes(_SALT_SIZE)
        key = salted(mechanism, password, salt, iterations)
        request.upsertions.append(
            AlterUserScramCredentialsRequest.Upsertions(user, code, iterations, salt, key)
        )
    answer = cluster.ask(request, AlterUserScramCredentialsResponse, node=cluster.controller)
    for each in answer.results:
        raise_for(each.error_code, each.error_message, each.user)
