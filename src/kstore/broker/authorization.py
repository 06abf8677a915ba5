"""Checks every request against the access control lists before its handler sees it.

:mod:`kstore.broker.access_table` lists the resources and operations that each API needs. The guard
removes denied items from the request, calls the handler with the rest, and adds the errors of the
denied items to the response. Handlers therefore do not check ACLs themselves. The two exceptions
are fetches, whose partitions may come from a session, and responses that list authorized
operations.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kstore.broker.api_table import Api
from kstore.broker.request import Answer, Pending, Request
from kstore.protocol.messages import Message, message_types
from kstore.protocol.wire import Reader, Writer
from kstore.security.acl import CLUSTER_NAME, AclOperation, ResourceType
from kstore.security.authorizer import Authorizer

if TYPE_CHECKING:
    from kstore.broker.request import Outcome
    from kstore.cluster.image import ClusterImage

Rule = Callable[["Access"], Message | None]


class Access:
    """One request during authorization: its principal, and the changes to make to its response."""

    __slots__ = ("_authorizer", "_host", "_known", "_principal", "after", "image",
                 "is_changed", "message", "response_type", "version")  # fmt: skip

    def __init__(self, authorizer: Authorizer, request: Request) -> None:
        self._authorizer = authorizer
        self._principal = request.connection.principal
        self._host = request.connection.peer[0]
        # Decisions by operation and resource: a request for thousands of partitions checks each
        # once.
        self._known: dict[tuple[int, int, str], bool] = {}
        self.version = request.api_version
        self.image: ClusterImage = request.image
        kind, self.response_type = message_types(request.api_key)
        self.message: Any = kind.decode(request.reader, request.api_version)
        self.is_changed = False  # the message was filtered: the handler must decode it again
        self.after: list[Callable[[Any], None]] = []  # changes to make to the response

    def may(self, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Whether the client is authorized for this operation on a resource."""
        key = (operation, kind, name)
        found = self._known.get(key)
        if found is None:
            found = self._authorizer.may(self._principal, self._host, operation, kind, name)
            self._known[key] = found
        return found

    def may_cluster(self, operation: AclOperation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_with_any(self, operation: AclOperation, kind: ResourceType) -> bool:
        """Whether the client is authorized for this operation on at least one possible resource."""
        return self._authorizer.may_with_any(self._principal, self._host, operation, kind)

    def operations(self, kind: ResourceType, name: str, possible: int) -> int:
        """The subset of ``possible`` (a bit set) that the client is authorized for."""
        return sum(
            1 << operation
            for operation in AclOperation
            if possible >> operation & 1 and self.may(operation, kind, name)
        )

    def may_fetch(self, topic: str, *, is_follower: bool) -> bool:
        """Whether the client may read a topic's records; a follower needs CLUSTER_ACTION instead.

        Checked for each read: incremental requests of a session do not list its partitions again,
        and an ACL may have changed since the last check.
        """
        if is_follower:
            operation, kind, topic = (
                AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME,
            )  # fmt: skip
        else:
            operation, kind = AclOperation.READ, ResourceType.TOPIC
        return self._authorizer.may(self._principal, self._host, operation, kind, topic)


class Guard:
    """Wraps handlers in authorization checks. Loop's thread only."""

    def __init__(self, authorizer: Authorizer, rules: "dict[int, Rule | None]", limit: int) -> None:
        self._authorizer = authorizer
        self._rules = rules
        self._limit = limit  # items that a message may have

    def guarded(self, api: Api) -> Api:
        """Wrap an API in its check. Raises ValueError for an API without a row, so that an omission
        cannot leave an API unchecked."""
        if api.key not in self._rules:
            raise ValueError(f"the API {api.key} has no row in the access table")
        rule = self._rules[api.key]
        if rule is None:
            return api
        return replace(api, handle=partial(self._handle, api, rule), handle_frame=None)

    def _handle(self, api: Api, rule: Rule, request: Request) -> Answer:
        reader = request.reader
        position, items_left = reader.position, reader.items_left
        access = Access(self._authorizer, request)
        refusal = rule(access)
        if refusal is not None:
            return refusal
        if access.is_changed:
            writer = Writer()
            access.message.encode(writer, request.api_version)
            request.reader = Reader(writer.to_bytes(), max_items=self._limit)
        else:
            reader.position, reader.items_left = position, items_left
        request.access = access
        answer = api.handle(request)
        if not access.after:
            return answer
        return _later(answer, access) if isinstance(answer, Pending) else _complete(answer, access)


def _complete(answer: Message | None, access: Access) -> Message | None:
    for change in access.after:
        change(answer)
    return answer


def _later(inner: Pending, access: Access) -> Pending:
    outer = Pending()
    outer.on_cancel, outer.on_stop = inner.cancel, inner.stop

    def deliver(answer: "Outcome") -> None:
        if outer.is_cancelled:
            return
        if isinstance(answer, BaseException):
            outer.fail(answer)
            return
        try:
            outer.complete(_complete(answer, access))  # type: ignore[arg-type]  # a message
        except Exception as error:
            outer.fail(error)

    inner.deliver_to(deliver)
    return outer
