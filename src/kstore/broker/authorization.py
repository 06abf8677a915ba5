"""Checks every request against the access control lists before its handler sees it.

The table of :mod:`kstore.broker.access_table` says which resources and operations an API needs.
What is denied is taken out of the request, the handler works on the rest, and the answer gets the
errors of what was denied; so no handler knows of ACLs, but for reads whose partitions are in a
session, and for the operations that an answer lists.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kstore.broker.api_table import Api
from kstore.broker.request import Answer, Pending, Request
from kstore.protocol.messages import Message, message_types
from kstore.protocol.wire import Reader, Writer
from kstore.security.acl import CLUSTER_NAME, AclOperation, Authorizer, ResourceType

if TYPE_CHECKING:
    from kstore.cluster.image import ClusterImage

Rule = Callable[["Access"], Message | None]


class Access:
    """One request while it is checked: who asks, and what is done with the answer."""

    __slots__ = ("_authorizer", "_host", "_known", "_principal", "after", "image",
                 "is_changed", "message", "response_type", "version")  # fmt: skip

    def __init__(self, authorizer: Authorizer, request: Request) -> None:
        self._authorizer = authorizer
        self._principal = request.connection.principal
        self._host = request.connection.peer[0]
        # By topic and the like: an answer for thousands of partitions asks once for each.
        self._known: dict[tuple[int, int, str], bool] = {}
        self.version = request.api_version
        self.image: ClusterImage = request.image
        kind, self.response_type = message_types(request.api_key)
        self.message: Any = kind.decode(request.reader, request.api_version)
        self.is_changed = False  # the message: the handler is to read it again
        self.after: list[Callable[[Any], None]] = []  # what is done with the response

    def may(self, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Whether the client may do this with a resource."""
        key = (operation, kind, name)
        found = self._known.get(key)
        if found is None:
            found = self._authorizer.may(self._principal, self._host, operation, kind, name)
            self._known[key] = found
        return found

    def may_cluster(self, operation: AclOperation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_with_any(self, operation: AclOperation, kind: ResourceType) -> bool:
        """Whether there can be a resource with which the client may do this."""
        return self._authorizer.may_with_any(self._principal, self._host, operation, kind)

    def operations(self, kind: ResourceType, name: str, possible: int) -> int:
        """Those of the ``possible`` operations, a bit each, that the client may use."""
        return sum(
            1 << operation
            for operation in AclOperation
            if possible >> operation & 1 and self.may(operation, kind, name)
        )

    def may_fetch(self, topic: str, *, is_follower: bool) -> bool:
        """Whether the client may read a topic's records; as a follower, those of every topic.

        Asked for each read: the partitions of a session are in no later request, and a binding
        may have changed since.
        """
        if is_follower:
            operation, kind, topic = (
                AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME,
            )  # fmt: skip
        else:
            operation, kind = AclOperation.READ, ResourceType.TOPIC
        return self._authorizer.may(self._principal, self._host, operation, kind, topic)


class Guard:
    """Puts the checks before the handlers. Loop's thread only."""

    def __init__(self, authorizer: Authorizer, rules: "dict[int, Rule | None]", limit: int) -> None:
        self._authorizer = authorizer
        self._rules = rules
        self._limit = limit  # items of a message

    def guarded(self, api: Api) -> Api:
        """An API whose requests are checked. Raises ValueError for one without a row: nothing is
        served unchecked because of an omission."""
        if api.key not in self._rules:
            raise ValueError(f"the API {api.key} has no row in the table of access")
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

    def deliver(answer: Message | BaseException | None) -> None:
        if outer.is_cancelled:
            return
        if isinstance(answer, BaseException):
            outer.fail(answer)
            return
        try:
            outer.complete(_complete(answer, access))
        except Exception as error:
            outer.fail(error)

    inner.deliver_to(deliver)
    return outer
