"""DescribeUserScramCredentials and AlterUserScramCredentials: SCRAM credentials."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.handlers.controller_work import Outcome, run_changes
from kstore.broker.request import Answer, Request
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kstore.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kstore.security.scram import LEAST_ITERATIONS, MOST_ITERATIONS, credential_of

if TYPE_CHECKING:
    from kstore.broker.services import Services
    from kstore.security.credentials import Change, Credentials

_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}  # Kafka's ScramMechanism codes
_CODES = {name: code for code, name in _MECHANISMS.items()}
_SIZES = {1: 32, 2: 64}  # bytes of a salted password
_MOST_SALT = 1024

_Deletion = AlterUserScramCredentialsRequest.Deletions
_Upsertion = AlterUserScramCredentialsRequest.Upsertions
_Described = DescribeUserScramCredentialsResponse.Results
_Altered = AlterUserScramCredentialsResponse.Results
_Refusal = tuple[ErrorCode, str]


class ScramUserHandlers:
    """Serves SCRAM credentials. Loop's thread only; disk workers make the changes."""

    def __init__(self, services: "Services") -> None:
        self._services = services

    def apis(self) -> list[Api]:
        return [
            Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, self.describe),
            Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, self.alter),
        ]

    @property
    def _credentials(self) -> "Credentials":
        found = self._services.credentials
        assert found is not None
        return found

    def describe(self, request: Request) -> Answer:
        """Return mechanisms and iterations of the named users, or of all; no salts and no keys."""
        asked = DescribeUserScramCredentialsRequest.decode(request.reader, request.api_version)
        known = self._credentials.users
        names = [each.name for each in asked.users or ()] or sorted(known)
        count = Counter(names)
        response = DescribeUserScramCredentialsResponse(error_message=None)
        for name in count:
            result = _Described(user=name, error_message=None)
            if count[name] > 1:
                result.error_code = ErrorCode.DUPLICATE_RESOURCE
                result.error_message = (
                    "Cannot describe SCRAM credentials for the same user twice in a single "
                    f"request: {name}"
                )
            elif name not in known:
                result.error_code = ErrorCode.RESOURCE_NOT_FOUND
                result.error_message = (
                    f"Attempt to describe a user credential that does not exist: {name}"
                )
            else:
                result.credential_infos = [
                    _Described.CredentialInfos(_CODES[mechanism], credential.iterations)
                    for mechanism, credential in sorted(known[name].items())
                ]
            response.results.append(result)
        return response

    def alter(self, request: Request) -> Answer:
        """Set and remove credentials; all changes of a user or none (Kafka's
        ScramControlManager)."""
        asked = AlterUserScramCredentialsRequest.decode(request.reader, request.api_version)
        entries: list[_Deletion | _Upsertion] = [*asked.deletions, *asked.upsertions]
        names = list(dict.fromkeys(each.name for each in entries))
        refused = _refusals(entries)
        for deletion in asked.deletions:
            mechanism = _MECHANISMS.get(deletion.mechanism, "")
            if mechanism not in self._credentials.users.get(deletion.name, {}):
                refused.setdefault(
                    deletion.name,
                    (
                        ErrorCode.RESOURCE_NOT_FOUND,
                        "Attempt to delete a user credential that does not exist",
                    ),
                )
        taken = [name for name in names if name not in refused]
        changes: dict[str, list[Change]] = {name: [] for name in taken}
        for each in entries:
            if each.name in changes:
                changes[each.name].append(_change(each))

        def respond(outcomes: Sequence[Outcome]) -> AlterUserScramCredentialsResponse:
            found = dict(zip(taken, outcomes, strict=True))
            results = []
            for name in names:
                error, message = refused[name] if name in refused else found[name][:2]
                results.append(_Altered(name, error, message))
            return AlterUserScramCredentialsResponse(results=results)

        work = [partial(self._credentials.alter, changes[name]) for name in taken]
        return run_changes(self._services, work, respond)


def _change(entry: "_Deletion | _Upsertion") -> "Change":
    mechanism = _MECHANISMS[entry.mechanism]
    if isinstance(entry, _Deletion):
        return entry.name, mechanism, None
    credential = credential_of(
        mechanism, bytes(entry.salt), bytes(entry.salted_password), entry.iterations
    )
    return entry.name, mechanism, credential


def _refusals(entries: "Iterable[_Deletion | _Upsertion]") -> dict[str, _Refusal]:
    """The errors of a request, by user."""
    refused: dict[str, _Refusal] = {}
    seen: set[tuple[str, int]] = set()
    for each in entries:
        if (each.name, each.mechanism) in seen:
            refused[each.name] = (
                ErrorCode.DUPLICATE_RESOURCE,
                "A user credential cannot be altered twice in the same request",
            )
        seen.add((each.name, each.mechanism))
        found = _refusal(each)
        if found is not None:
            refused.setdefault(each.name, found)
    return refused


def _refusal(entry: "_Deletion | _Upsertion") -> _Refusal | None:
    if not entry.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if entry.mechanism not in _MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(entry, _Deletion):
        return None
    text = None
    if entry.iterations < LEAST_ITERATIONS:
        text = "Too few iterations"
    elif entry.iterations > MOST_ITERATIONS:
        text = "Too many iterations"
    elif not 0 < len(entry.salt) <= _MOST_SALT:
        text = f"A salt must have 1 to {_MOST_SALT} bytes"
    elif len(entry.salted_password) != _SIZES[entry.mechanism]:
        text = f"The salted password must have {_SIZES[entry.mechanism]} bytes"
    return None if text is None else (ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
