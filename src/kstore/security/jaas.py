"""Reads Kafka's JAAS configurations: ``ModuleClass required key="value" user_name="secret";``.

As in Kafka's JaasConfig, a setting has one login module. Error messages contain no values, since
values are secrets.
"""

import re
from collections.abc import Mapping
from dataclasses import field

from kstore.errors import InvalidConfigError
from kstore.lazy_dataclass import lazy_dataclass

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

_FLAGS = ("required", "requisite", "sufficient", "optional")
_USER = "user_"
_TOKEN = re.compile(
    r"""\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'"""
    r"""|(?P<sign>[=;])|(?P<word>[^\s=;"']+))""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


@lazy_dataclass(frozen=True)
class JaasConfig:
    """A login module and its options. ``repr`` omits the options, which are secrets."""

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def users(self) -> dict[str, str]:
        """The passwords of ``user_<name>`` options, by name."""
        return {
            name.removeprefix(_USER): value
            for name, value in self.options.items()
            if name.startswith(_USER)
        }


def parse_jaas(name: str, text: str) -> JaasConfig:
    """Parse a setting. Raises InvalidConfigError, whose message contains no values."""
    tokens = _tokens(name, text)
    if len(tokens) < 3 or tokens[-1] != (True, ";"):
        raise InvalidConfigError(f'{name} must be: LoginModuleClass required option="value";')
    if (True, ";") in tokens[:-1]:
        raise InvalidConfigError(f"{name} has more than one login module; one is allowed")
    module, flag = tokens[0][1], tokens[1][1]
    if flag.lower() not in _FLAGS:
        raise InvalidConfigError(f"{name}: 'required' must follow the login module")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    if len(rest) % 3:
        raise InvalidConfigError(f'{name}: options are key="value"')
    for number in range(0, len(rest), 3):
        (key_sign, key), equals, (value_sign, value) = rest[number : number + 3]
        if key_sign or value_sign or equals != (True, "="):
            raise InvalidConfigError(f'{name}: options are key="value"')
        if key in options:
            raise InvalidConfigError(f"{name}: an option is given twice")
        options[key] = value
    return JaasConfig(module, options)


def _tokens(name: str, text: str) -> list[tuple[bool, str]]:
    """The signs (True) and words of a text."""
    found: list[tuple[bool, str]] = []
    position, text = 0, text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidConfigError(f"{name}: a quote is not closed")
        position = match.end()
        if match["sign"] is not None:
            found.append((True, match["sign"]))
        elif match["word"] is not None:
            found.append((False, match["word"]))
        else:
            quoted = match["double"] if match["double"] is not None else match["single"]
            found.append((False, _ESCAPE.sub(r"\1", quoted)))
    return found
