"""Kinds of authorization rules: how a denied resource changes a request and its response.

``required`` rejects the entire request, ``each`` rejects only the denied items of a request, and
``shown`` removes denied items from a response.
"""

from collections.abc import Callable
from typing import Any

from kstore.broker.authorization import Access, Rule
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages import Message
from kstore.security.acl import CLUSTER_NAME, AclOperation, ResourceType

DENIED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}

Names = Callable[[Any], "str | None"]
Make = Callable[[Access, Any, ErrorCode], Any]


# --- kinds of rules --------------------------------------------------------------------------


def rules(*given: Rule) -> Rule:
    """Apply rules in order; the first refusal is the response."""

    def check(access: Access) -> Message | None:
        for rule in given:
            refusal = rule(access)
            if refusal is not None:
                return refusal
        return None

    return check


def required(
    kind: ResourceType,
    operation: AclOperation,
    name: Names,
    respond: Callable[[Access, ErrorCode], Message],
) -> Rule:
    """Reject the request if the operation is denied; skip the check if ``name`` returns None."""

    def check(access: Access) -> Message | None:
        asked = name(access.message)
        if asked is None or access.may(operation, kind, asked):
            return None
        return respond(access, DENIED[kind])

    return check


def cluster(operation: AclOperation, respond: Callable[[Access, ErrorCode], Message]) -> Rule:
    return required(ResourceType.CLUSTER, operation, lambda _: CLUSTER_NAME, respond)


def each(
    kind: ResourceType,
    operation: AclOperation,
    items: str,
    into: str,
    make: Make,
    name: Names = lambda item: item.name,
) -> Rule:
    """Remove denied items from a list of the request, and add their errors to the response."""

    def check(access: Access) -> Message | None:
        found = getattr(access.message, items) or []
        is_allowed = [
            (asked := name(item)) is None or access.may(operation, kind, asked) for item in found
        ]
        if all(is_allowed):
            return None
        denied = [item for item, may in zip(found, is_allowed, strict=True) if not may]
        setattr(access.message, items, [i for i, may in zip(found, is_allowed, strict=True) if may])
        access.is_changed = True
        entries = [make(access, item, DENIED[kind]) for item in denied]
        access.after.append(lambda response: getattr(response, into).extend(entries))
        return None

    return check


def shown(kind: ResourceType, operation: AclOperation, items: str, name: Names) -> Rule:
    """Remove denied items from a list of the response."""

    def check(access: Access) -> Message | None:
        def leave_out(response: Any) -> None:
            found = getattr(response, items)
            setattr(response, items, [
                item for item in found
                if (of := name(item)) is None or access.may(operation, kind, of)
            ])  # fmt: skip

        access.after.append(leave_out)
        return None

    return check


# --- error responses -------------------------------------------------------------------------


def only_code(access: Access, error: ErrorCode) -> Message:
    """Build a response that has only an error code; its other fields have their defaults."""
    response: Any = access.response_type()
    response.error_code = int(error)
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response  # type: ignore[no-any-return]


def all_items(items: str, into: str, make: Make) -> Callable[[Access, ErrorCode], Message]:
    """Build a response with an error for each item of the request."""

    def respond(access: Access, error: ErrorCode) -> Message:
        response: Any = access.response_type()
        found = getattr(access.message, items) or []
        getattr(response, into).extend(make(access, item, error) for item in found)
        return response  # type: ignore[no-any-return]

    return respond


def topic_errors(
    into: str, partitions: str, entries: str, *, topic: str = "name", shown_as: str = "name",
    number: str | None = "partition_index", index: str = "partition_index",
    code: str = "error_code", **fields: Any,
) -> Make:  # fmt: skip
    """Build a topic's entry in the response, with an error for each of its partitions.

    ``number`` names the attribute that holds a requested partition's number; None if the request
    lists plain numbers.
    """

    def make(access: Access, item: Any, error: ErrorCode) -> Any:
        topics = _nested(access.response_type, into)
        kind = _nested(topics, entries)
        made = topics()
        setattr(made, shown_as, getattr(item, topic))
        for partition in getattr(item, partitions):
            entry = kind()
            setattr(entry, index, partition if number is None else getattr(partition, number))
            setattr(entry, code, int(error))
            for name, value in fields.items():
                setattr(entry, name, value)
            getattr(made, entries).append(entry)
        return made

    return make


def item_error(into: str, **copied: str) -> Make:
    """Build an item's entry in the response: fields copied from the item, and the error."""

    def make(access: Access, item: Any, error: ErrorCode) -> Any:
        made = _nested(access.response_type, into)()
        for name, source in copied.items():
            setattr(made, name, item if source == "" else getattr(item, source))
        made.error_code = int(error)
        if hasattr(made, "error_message"):
            made.error_message = error.message
        return made

    return make


def _nested(owner: Any, field: str) -> Any:
    return getattr(owner, "".join(word.capitalize() for word in field.split("_")))
