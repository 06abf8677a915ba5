"""The options of ``kstore configs`` that name users, client ids and addresses of a server."""

import argparse
from typing import Any

from kstore.cli.common import WrongOptionsError

# Kafka's entity types of the tool, as the protocol names them.
KINDS = {"users": "user", "clients": "client-id", "ips": "ip"}
# Options that name one entity of a type by themselves.
OWN = {"broker": "brokers", "broker-logger": "broker-loggers"}
_SHORT = {"user": "users", "client": "clients", "ip": "ips"}
# The name of an entity that stands for all without a quota of their own, and one that is missing.
DEFAULTS, UNNAMED = "", None

Entities = list[tuple[str, str | None]]  # the tool's types and names, in the options' order


class EntityOption(argparse.Action):
    """Notes the options that name entities in their order, in ``arguments.named``; the first type
    and the last name are in ``entity_type`` and ``entity_name``, too."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        option = (option_string or "").lstrip("-")
        namespace.named = [*(getattr(namespace, "named", None) or []), (option, values)]
        if option == "entity-type":
            namespace.entity_type = getattr(namespace, "entity_type", None) or values
        elif option in ("entity-name", "topic"):
            if getattr(namespace, "entity_name", None) is None:  # of several Kafka takes the first
                namespace.entity_name = values
            if option == "topic":
                namespace.entity_type = getattr(namespace, "entity_type", None) or "topics"
        elif option in OWN:
            namespace.entity_type, namespace.entity_name = OWN[option], values
        elif option == "broker-defaults":
            namespace.entity_type, namespace.entity_name = "brokers", DEFAULTS


def add_entity_options(parser: argparse.ArgumentParser) -> None:
    """--user, --client, --ip, --broker, their defaults, --broker-logger and --entity-default."""
    for name, kind in _SHORT.items():
        parser.add_argument(
            f"--{name}", action=EntityOption, metavar="NAME", help=f"of a server: one of the {kind}"
        )
        parser.add_argument(
            f"--{name}-defaults",
            action=EntityOption,
            nargs=0,
            help=f"of a server: all {kind} without a quota of their own",
        )
    for name, kind in OWN.items():
        parser.add_argument(
            f"--{name}", action=EntityOption, metavar="ID", help=f"of a server: one of the {kind}"
        )
    parser.add_argument(
        "--broker-defaults",
        action=EntityOption,
        nargs=0,
        help="of a server: the settings of brokers that have no value of their own",
    )
    parser.add_argument(
        "--entity-default",
        action=EntityOption,
        nargs=0,
        help="of a server: the default of the entity type before it",
    )


def check_one_entity(named: list[tuple[str, Any]]) -> None:
    """Refuse options that name two entities, of which only users and clients go together."""
    kinds = [(value, f"--{option} {value}") for option, value in named if option == "entity-type"]
    own = {each for each, _ in named if each == "topic" or each in OWN or each == "broker-defaults"}
    kinds += [
        (OWN.get(option, f"{option.partition('-')[0]}s"), f"--{option}") for option in sorted(own)
    ]
    types = [kind for kind, _ in kinds]
    if not set(types) & {*OWN.values(), "topics", "brokers"}:
        return
    both = f"name one entity, not {' and '.join(text for _, text in kinds)}"
    if repeated := sorted({kind for kind in types if types.count(kind) > 1}):
        raise WrongOptionsError(f"Duplicate entity type(s) specified: {','.join(repeated)}\n{both}")
    if len(types) > 1:
        raise WrongOptionsError(
            f"Only 'users' and 'clients' entity types may be specified together\n{both}"
        )
    if own and any(option == "entity-name" for option, _ in named):
        raise WrongOptionsError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity "
            f"flags\nname one entity, not --{own.pop()} and --entity-name"
        )


def entities_of(arguments: argparse.Namespace) -> Entities:
    """The users, clients and ips that the options name; empty where they name other things, whose
    name is in ``arguments.entity_name``: DEFAULTS for the defaults of all brokers.

    As in Kafka, names and --entity-default follow the order of the types.
    """
    types: list[str] = []
    names: list[str | None] = []
    found: Entities = []
    check_one_entity(getattr(arguments, "named", None) or [])
    for option, value in getattr(arguments, "named", None) or []:
        if option == "entity-type":
            types.append(value)
        elif option == "entity-name":
            names.append(value)
        elif option == "entity-default":
            names.append(DEFAULTS)
        elif option.removesuffix("-defaults") in _SHORT:
            kind = _SHORT[option.removesuffix("-defaults")]
            found.append((kind, DEFAULTS if option.endswith("-defaults") else value))
    if not set(types) & set(KINDS) and not found:
        if DEFAULTS in names and types != ["brokers"]:
            raise WrongOptionsError("--entity-default goes with brokers, users, clients and ips")
        if DEFAULTS in names:
            arguments.entity_name = DEFAULTS
        return []
    if len(names) > len(types):
        raise WrongOptionsError("each --entity-name needs an --entity-type")
    named: Entities = [
        (kind, names[number] if number < len(names) else UNNAMED)
        for number, kind in enumerate(types)
    ]
    found = named + found
    kinds = [kind for kind, _ in found]
    is_alone = "ips" not in kinds or len(kinds) == 1
    if not is_alone or any(each not in KINDS for each in kinds) or len(set(kinds)) < len(kinds):
        raise WrongOptionsError("Only 'users' and 'clients' entity types may be specified together")
    return found
