"""``ssl.principal.mapping.rules``: maps distinguished names in certificates to user names.

As in Kafka's SslPrincipalMapper, the rules are ``RULE:pattern/replacement/[LU]`` and ``DEFAULT``,
and the first rule whose pattern matches the entire name applies. Patterns have Python's syntax,
which is the same as Java's for all common constructs.
"""

import re
from functools import partial

from kstore.errors import InvalidConfigError

_SETTING = "ssl.principal.mapping.rules"
_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/"
    r"(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|\n|$)",
    re.DOTALL,
)
_REFERENCE = re.compile(r"\\(.)|\$([0-9]+)", re.DOTALL)


class PrincipalMapper:
    """Maps distinguished names to user names. Raises InvalidConfigError for invalid rules."""

    __slots__ = ("_rules", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._rules: list[tuple[re.Pattern[str], str, str] | None] = []
        position = 0
        while position < len(text):
            match = _RULE.match(text, position)
            if match is None or match.end() == position:
                raise InvalidConfigError(
                    f"{_SETTING} is DEFAULT and RULE:pattern/replacement/[LU], with commas; "
                    f"not {text[position:]!r}"
                )
            position = match.end()
            if match["default"]:
                self._rules.append(None)
                continue
            try:
                pattern = re.compile(match["pattern"])
            except re.error as error:
                raise InvalidConfigError(f"{_SETTING}: {match['pattern']!r}: {error}") from None
            references = [int(each[2]) for each in _REFERENCE.finditer(match["replacement"])
                          if each[2]]  # fmt: skip
            if references and max(references) > pattern.groups:
                raise InvalidConfigError(f"{_SETTING}: the pattern has no group {max(references)}")
            self._rules.append((pattern, match["replacement"], match["case"]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrincipalMapper) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def name_of(self, distinguished_name: str) -> str | None:
        """The user name; None if no rule matches, upon which the client must be rejected."""
        for rule in self._rules:
            if rule is None:
                return distinguished_name
            pattern, replacement, case = rule
            match = pattern.fullmatch(distinguished_name)
            if match is not None:
                name = _REFERENCE.sub(partial(_referenced, match), replacement)
                return name.lower() if case == "L" else name.upper() if case == "U" else name
        return None


def _referenced(match: re.Match[str], reference: re.Match[str]) -> str:
    """The value of ``\\x`` or ``$1`` in a replacement."""
    return reference[1] or match[int(reference[2])] or ""
