"""The principal of a request: a type and a name, such as ``User:alice`` (KafkaPrincipal)."""

from typing import NamedTuple


class Principal(NamedTuple):
    """A principal; users have the type ``User``."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")  # the principal of unauthenticated clients


def user(name: str) -> Principal:
    return Principal("User", name)
