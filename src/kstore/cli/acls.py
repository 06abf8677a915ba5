"""``kstore acls``: Kafka's kafka-acls."""

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kstore.cli.common import ToolParser, WrongOptionsError, open_server
from kstore.cli.server_options import add_server
from kstore.errors import KStoreError
from kstore.remote.acls import create_acls, delete_acls, describe_acls
from kstore.security.acl import (
    CLUSTER_NAME,
    EVERY_HOST,
    Acl,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)

if TYPE_CHECKING:
    from kstore.remote.cluster import Cluster

EPILOG = """\
examples:
  kstore acls --add --allow-principal User:alice --producer --topic orders \\
      --bootstrap-server localhost:9092
  kstore acls --add --allow-principal User:bob --consumer --topic orders --group billing \\
      --bootstrap-server localhost:9092
  kstore acls --add --deny-principal User:eve --operation Read --topic audit- \\
      --resource-pattern-type prefixed --bootstrap-server localhost:9092
  kstore acls --list --topic orders --bootstrap-server localhost:9092
  kstore acls --remove --topic orders --force --bootstrap-server localhost:9092

ACLs take effect immediately. --producer allows WRITE, DESCRIBE and CREATE of topics,
and WRITE and DESCRIBE of transactional ids; --consumer READ and DESCRIBE of topics, and READ of
groups. Of the options that name resources, principals and hosts each may be repeated.
"""
_ACTIONS = ("list", "add", "remove")
_OPERATIONS = {each.name.replace("_", ""): each for each in AclOperation}
_CREATABLE = (PatternType.LITERAL, PatternType.PREFIXED)
# The operations that ACLs of each resource type support, in the order of Kafka's message.
_SUPPORTED = {
    ResourceType.TOPIC: (
        "Read", "All", "AlterConfigs", "DescribeConfigs", "Delete", "Write", "Alter", "Create",
        "Describe",
    ),
    ResourceType.GROUP: ("Read", "Describe", "Delete", "DescribeConfigs", "AlterConfigs", "All"),
    ResourceType.CLUSTER: (
        "Create", "ClusterAction", "DescribeConfigs", "AlterConfigs", "IdempotentWrite", "Alter",
        "Describe", "All",
    ),
    ResourceType.TRANSACTIONAL_ID: ("Describe", "Write", "All"),
    ResourceType.DELEGATION_TOKEN: ("Describe", "All"),
    ResourceType.USER: ("CreateTokens", "DescribeTokens", "All"),
}  # fmt: skip

Resource = tuple[ResourceType, str, PatternType]
Entry = tuple[str, str, AclOperation, Permission]  # principal, host, operation, permission


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_server(parser)
    parser.add_argument("--list", action="store_true", help="show lists; of resources, or all")
    parser.add_argument("--add", action="store_true", help="create lists")
    parser.add_argument("--remove", action="store_true", help="delete lists")
    for name, metavar, text in (
        ("topic", "NAME", "a topic, * for all"),
        ("group", "ID", "a consumer group, * for all"),
        ("transactional-id", "ID", "a transactional id, * for all"),
        ("delegation-token", "TOKEN", "a delegation token, * for all"),
        ("user-principal", "PRINCIPAL", "a user as a resource, * for all"),
        ("allow-principal", "PRINCIPAL", "who is allowed, such as User:alice; User:* is everyone"),
        ("deny-principal", "PRINCIPAL", "who is denied; a deny takes precedence"),
        ("allow-host", "HOST", "where --allow-principal may connect from (default: *)"),
        ("deny-host", "HOST", "where --deny-principal may not connect from (default: *)"),
        ("principal", "PRINCIPAL", "--list: only lists about them"),
    ):
        parser.add_argument(f"--{name}", action="append", default=[], metavar=metavar, help=text)
    parser.add_argument("--cluster", action="store_true", help="the cluster as a resource")
    parser.add_argument(
        "--resource-pattern-type",
        default="LITERAL",
        type=pattern_type,
        metavar="TYPE",
        help="literal or prefixed; of --list and --remove also any and match (default: literal)",
    )
    parser.add_argument(
        "--operation", action="append", default=[], metavar="NAME",
        help="Read, Write, Create, Delete, Alter, Describe, ClusterAction, AlterConfigs, "
        "DescribeConfigs, IdempotentWrite, CreateTokens, DescribeTokens, All (default: All)",
    )  # fmt: skip
    parser.add_argument("--producer", action="store_true", help="what a producer needs")
    parser.add_argument("--consumer", action="store_true", help="what a consumer needs")
    parser.add_argument(
        "--idempotent", action="store_true", help="with --producer: IDEMPOTENT_WRITE of the cluster"
    )
    parser.add_argument("--force", action="store_true", help="--remove without asking")
    for name in ("authorizer", "authorizer-properties", "zk-tls-config-file"):
        parser.hints[f"--{name}"] = (
            "kstore does not ask ZooKeeper: name a broker, which keeps the lists, by "
            "--bootstrap-server host:port"
        )


def pattern_type(text: str) -> PatternType:
    """Parse --resource-pattern-type."""
    try:
        found = PatternType[text.upper()]
    except KeyError:
        found = PatternType.UNKNOWN
    if found == PatternType.UNKNOWN:
        raise argparse.ArgumentTypeError("one of LITERAL, PREFIXED, ANY, MATCH")
    return found


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    action = next(each for each in _ACTIONS if getattr(arguments, each))
    work = {"list": show, "add": add, "remove": remove}[action]
    try:
        with open_server(arguments) as store:
            work(store.cluster, arguments)
    except WrongOptionsError:
        raise
    except KStoreError as error:
        from kstore.remote.answer_errors import exception_name, kafka_text

        kind = f"{exception_name(error)}: " if error.server_message else ""
        print(f"Error while executing ACL command: {kind}{kafka_text(error)}")
        return 1
    return 0


def check(arguments: argparse.Namespace) -> None:
    """Check the options by the rules of Kafka's AclCommand."""
    if sum(bool(getattr(arguments, each)) for each in _ACTIONS) != 1:
        raise WrongOptionsError(
            "Command must include exactly one action: --list, --add, --remove. "
        )
    of_changes = ("producer", "consumer", "allow-host", "allow-principal", "deny-host",
                  "deny-principal")  # fmt: skip
    if arguments.list:
        _exclude(arguments, "list", of_changes)
    for role in ("producer", "consumer"):
        if getattr(arguments, role):
            _exclude(arguments, role, ("operation", "deny-principal", "deny-host"))
    if arguments.principal and not arguments.list:
        raise WrongOptionsError(
            "The --principal option is only available if --list is set. Did you mean "
            "--allow-principal?"
        )
    if arguments.producer and not arguments.topic:
        raise WrongOptionsError("With --producer you must specify a --topic")
    if arguments.idempotent and not arguments.producer:
        raise WrongOptionsError("The --idempotent option is only available if --producer is set")
    if arguments.consumer and (
        not arguments.topic
        or not arguments.group
        or (not arguments.producer and (arguments.cluster or arguments.transactional_id))
    ):
        raise WrongOptionsError(
            "With --consumer you must specify a --topic and a --group and no --cluster or "
            "--transactional-id option should be specified."
        )


def _exclude(arguments: argparse.Namespace, name: str, others: Iterable[str]) -> None:
    for other in others:
        if getattr(arguments, other.replace("-", "_")):
            raise WrongOptionsError(f'Option "[{name}]" can\'t be used with option "[{other}]"')


# --- actions ---------------------------------------------------------------------------------


def show(cluster: "Cluster", arguments: argparse.Namespace) -> None:
    """Run --list; group by principal if any are given."""
    found = listed(cluster, resources(arguments))
    for principal in dict.fromkeys(arguments.principal) or [None]:
        if principal is not None:
            print(f"ACLs for principal `{checked_principal(principal)}`")
        for resource, entries in found.items():
            chosen = [each for each in entries if principal in (None, each[0])]
            if chosen:
                print(f"Current ACLs for resource `{shown(resource)}`: {lines(chosen)}")


def listed(cluster: "Cluster", wanted: Sequence[Resource]) -> dict[Resource, list[Entry]]:
    """The entries of the given resources, or of all."""
    filters = [_filter(each) for each in wanted]
    filters = filters or [AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, 1, 1)]
    found: dict[Resource, dict[Entry, None]] = {}
    for each in filters:
        for acl in describe_acls(cluster, each):
            entry = (acl.principal, acl.host, acl.operation, acl.permission)
            found.setdefault((acl.resource_type, acl.name, acl.pattern), {})[entry] = None
    return {resource: list(entries) for resource, entries in found.items()}


def add(cluster: "Cluster", arguments: argparse.Namespace) -> None:
    """Run --add: print and create the ACLs."""
    if arguments.resource_pattern_type not in _CREATABLE:
        raise WrongOptionsError(
            "A '--resource-pattern-type' value of "
            f"'{arguments.resource_pattern_type.name}' is not valid when adding acls."
        )
    wanted = asked(arguments)
    if not all(wanted.values()):
        raise WrongOptionsError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    for resource, entries in wanted.items():
        print(f"Adding ACLs for resource `{shown(resource)}`: {lines(entries)}")
        create_acls(cluster, [_acl(resource, each) for each in entries])


def remove(cluster: "Cluster", arguments: argparse.Namespace) -> None:
    """Run --remove: delete all ACLs of the resources, or those that the options describe."""
    for resource, entries in asked(arguments).items():
        if not entries:
            question = (
                f"Are you sure you want to delete all ACLs for resource filter "
                f"`{shown(resource)}`? (y/n)"
            )
            filters = [_filter(resource)]
        else:
            question = (
                f"Are you sure you want to remove ACLs: {lines(entries)} from resource filter "
                f"`{shown(resource)}`? (y/n)"
            )
            filters = [_filter(resource, each) for each in entries]
        if arguments.force or is_confirmed(question):
            delete_acls(cluster, filters)


def is_confirmed(question: str) -> bool:
    """Ask for confirmation on the terminal; the default is no."""
    print(question, flush=True)
    try:
        return input().lower() == "y"
    except EOFError:
        return False


# --- options ---------------------------------------------------------------------------------


def resources(arguments: argparse.Namespace, *, is_needed: bool = False) -> list[Resource]:
    """The given resources; the cluster has only one name."""
    pattern = arguments.resource_pattern_type
    found: list[Resource] = [
        (kind, name.strip(), pattern)
        for kind, names in (
            (ResourceType.TOPIC, arguments.topic),
            (ResourceType.CLUSTER, [CLUSTER_NAME] if arguments.cluster else []),
            (ResourceType.GROUP, arguments.group),
            (ResourceType.TRANSACTIONAL_ID, arguments.transactional_id),
            (ResourceType.DELEGATION_TOKEN, arguments.delegation_token),
            (ResourceType.USER, arguments.user_principal),
        )
        for name in names
    ]
    found = [
        (kind, name, PatternType.LITERAL if kind == ResourceType.CLUSTER else how)
        for kind, name, how in dict.fromkeys(found)
    ]
    if not found and is_needed:
        raise WrongOptionsError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group "
            "<group> or --delegation-token <Delegation Token ID>"
        )
    return found


def asked(arguments: argparse.Namespace) -> dict[Resource, list[Entry]]:
    """The entries of each resource."""
    named = resources(arguments, is_needed=True)
    found: dict[Resource, list[Entry]] = {}

    def take(kind: ResourceType, *names: str) -> None:
        for resource in named:
            if resource[0] == kind:
                present = found.setdefault(resource, [])
                present += [each for each in entries_of(arguments, names) if each not in present]

    if not arguments.producer and not arguments.consumer:
        for resource in named:
            found[resource] = entries_of(arguments, arguments.operation or ["All"])
    if arguments.producer:
        take(ResourceType.TOPIC, "Write", "Describe", "Create")
        take(ResourceType.TRANSACTIONAL_ID, "Write", "Describe")
        if arguments.idempotent:
            cluster = (ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
            found[cluster] = entries_of(arguments, ["IdempotentWrite"])
    if arguments.consumer:
        take(ResourceType.TOPIC, "Read", "Describe")
        take(ResourceType.GROUP, "Read")
    for (kind, _, _), entries in found.items():
        supported = _SUPPORTED[kind]
        known = {name.upper() for name in supported}
        if any(each[2].name.replace("_", "") not in known for each in entries):
            raise WrongOptionsError(
                f"ResourceType {kind.name} only supports operations {', '.join(supported)}"
            )
    return found


def entries_of(arguments: argparse.Namespace, operations: Iterable[str]) -> list[Entry]:
    """All combinations of principals, hosts and operations."""
    found: dict[Entry, None] = {}
    for permission, principals, hosts in (
        (Permission.ALLOW, arguments.allow_principal, arguments.allow_host),
        (Permission.DENY, arguments.deny_principal, arguments.deny_host),
    ):
        for principal in principals:
            for host in hosts or [EVERY_HOST]:
                for name in operations:
                    who = checked_principal(principal.strip())
                    found[who, host.strip(), operation(name), permission] = None
    return list(found)


def operation(text: str) -> AclOperation:
    """Parse an operation name, case-insensitively, with or without underscores."""
    name = text.strip().upper().replace("_", "")
    if name not in _OPERATIONS or name in ("UNKNOWN", "ANY"):
        raise WrongOptionsError(f"there is no operation {text.strip()[:40]!r}; --help lists them")
    return _OPERATIONS[name]


def checked_principal(text: str) -> str:
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise KStoreError(
            f"expected a string in format principalType:principalName but got {text[:80]}"
        )
    return text


def _filter(resource: Resource, entry: Entry | None = None) -> AclFilter:
    """A filter for all ACLs of a resource, or for one."""
    kind, name, pattern = resource
    if entry is None:
        return AclFilter(kind, name, pattern, None, None, AclOperation.ANY, Permission.ANY)
    principal, host, operation, permission = entry
    return AclFilter(kind, name, pattern, principal, host, operation, permission)


def _acl(resource: Resource, entry: Entry) -> Acl:
    kind, name, pattern = resource
    principal, host, operation, permission = entry
    return Acl(kind, name, pattern, principal, host, operation, permission)


# --- Kafka's lines ---------------------------------------------------------------------------


def shown(resource: Resource) -> str:
    kind, name, pattern = resource
    return f"ResourcePattern(resourceType={kind.name}, name={name}, patternType={pattern.name})"


def lines(entries: Iterable[Entry]) -> str:
    """Entries after a colon, each on its own line."""
    texts = [
        f"\t(principal={principal}, host={host}, operation={operation.name}, "
        f"permissionType={permission.name})"
        for principal, host, operation, permission in entries
    ]
    return "\n " + "\n".join(texts) + " \n"
