"""``kstore configs`` for users, clients and ips of a server: quotas, and the users of SCRAM."""

import argparse
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from kstore.cli.common import WrongOptionsError, open_server
from kstore.cli.entity_options import DEFAULTS, KINDS, UNNAMED, Entities
from kstore.errors import InvalidConfigError
from kstore.integers import parse_float
from kstore.remote.quotas import (
    ANY,
    DEFAULT,
    EXACT,
    SCRAM_CODES,
    QuotaFilter,
    alter_quotas,
    alter_scram,
    describe_quotas,
    describe_scram,
)

if TYPE_CHECKING:
    from kstore.remote.cluster import Cluster

_SHOWN = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_DEFAULT_ITERATIONS = 4096
_SCRAM_VALUE = re.compile(r"(?:iterations=(?P<iterations>[0-9]{1,9}),)?password=(?P<password>.+)")


def run(
    arguments: argparse.Namespace,
    entities: Entities,
    changes: Mapping[str, str],
    unset: Sequence[str],
) -> int:
    with open_server(arguments) as store:
        if arguments.describe:
            describe(store.cluster, entities)
            return 0
        if any(name is UNNAMED for _, name in entities):
            raise WrongOptionsError(
                "an entity name or default must be specified with --alter of users, clients and ips"
            )
        alter(store.cluster, entities, changes, unset, dry_run=arguments.dry_run)
    kind, name = entities[0]
    verb = "would be updated" if arguments.dry_run else None
    about = f"{kind[:-1]} {name}" if name else f"{kind} in the cluster"
    if verb:
        print(f"The config for {about} {verb}.")
    elif name:
        print(f"Completed updating config for {about}.")
    else:
        print(f"Completed updating default config for {about}.")
    return 0


# --- describe --------------------------------------------------------------------------------


def describe(cluster: "Cluster", entities: Entities) -> None:
    """Print quotas, and of users alone what SCRAM knows of them."""
    filters = [_filter(kind, name) for kind, name in entities]
    for entity, values in describe_quotas(cluster, filters):
        names = ", ".join(
            f"the default {_SHOWN[kind]}" if name is None else f"{_SHOWN[kind]} '{name}'"
            for kind in _SHOWN
            if kind in entity
            for name in [entity[kind]]
        )
        shown = ", ".join(f"{key}={java_double(values[key])}" for key in sorted(values))
        print(f"Quota configs for {names} are {shown}")
    [kind, user], *more = entities
    if kind == "users" and not more and user != DEFAULTS:
        for name, mechanisms in describe_scram(cluster, user).items():
            for mechanism, iterations in sorted(mechanisms.items()):
                print(
                    f"SCRAM credential configs for user-principal '{name}' are "
                    f"{mechanism}=iterations={iterations}"
                )


def _filter(kind: str, name: str | None) -> QuotaFilter:
    if name is UNNAMED:
        return QuotaFilter(KINDS[kind], ANY)
    if name == DEFAULTS:
        return QuotaFilter(KINDS[kind], DEFAULT)
    return QuotaFilter(KINDS[kind], EXACT, name)


def java_double(value: float) -> str:
    """A number as Java prints it: 1024.0, 1.0E10."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, exponent = f"{Decimal(repr(value)).normalize():E}".split("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


# --- alter -----------------------------------------------------------------------------------


def alter(
    cluster: "Cluster",
    entities: Entities,
    changes: Mapping[str, str],
    unset: Sequence[str],
    *,
    dry_run: bool,
) -> None:
    """Set and remove quotas, or passwords of SCRAM; never both, as in Kafka."""
    of_scram = [name for name in (*changes, *unset) if name in SCRAM_CODES]
    if of_scram:
        alter_passwords(cluster, entities, changes, unset, dry_run=dry_run)
        return
    entity = {KINDS[kind]: name or None for kind, name in entities}
    values: dict[str, float | None] = {key: number(key, text) for key, text in changes.items()}
    if unset:
        filters = [_filter(kind, name) for kind, name in entities]
        present = {key for _, found in describe_quotas(cluster, filters) for key in found}
        unknown = [name for name in unset if name not in present]
        if unknown:
            raise InvalidConfigError(f"Invalid config(s): {','.join(unknown)}")
        values |= dict.fromkeys(unset)
    alter_quotas(cluster, entity, values, validate_only=dry_run)


def number(key: str, text: str) -> float:
    try:
        return parse_float(text)
    except ValueError:
        raise WrongOptionsError(
            f"Cannot parse quota configuration value for {key}: {text[:40]}"
        ) from None


def alter_passwords(
    cluster: "Cluster",
    entities: Entities,
    changes: Mapping[str, str],
    unset: Sequence[str],
    *,
    dry_run: bool,
) -> None:
    """SCRAM-SHA-512=[iterations=8192,password=...] of a user."""
    [kind, user], *more = entities
    if kind != "users" or more or not user:
        raise WrongOptionsError("SCRAM credentials are those of one user: --user NAME")
    if any(name not in SCRAM_CODES for name in (*changes, *unset)):
        raise WrongOptionsError("Only one of quotas and SCRAM credentials can be altered at a time")
    if dry_run:
        raise WrongOptionsError("--dry-run does not go with SCRAM credentials")
    wanted: dict[str, tuple[int, str] | None] = dict.fromkeys(unset)
    for mechanism, text in changes.items():
        match = _SCRAM_VALUE.fullmatch(text)
        if match is None:
            raise WrongOptionsError(
                f"{mechanism}=[iterations=8192,password=...]: iterations may be missing"
            )
        iterations = int(match["iterations"] or _DEFAULT_ITERATIONS)
        limit = "less than the minimum 4096"
        if iterations > 16_384:
            limit = "greater than the maximum 16384"
        if not 4096 <= iterations <= 16_384:
            raise WrongOptionsError(
                f"Iterations {iterations} is {limit} required for {mechanism}\n"
                "iterations are 4096 to 16384"
            )
        wanted[mechanism] = iterations, match["password"]
    alter_scram(cluster, user, wanted)
