"""Java properties files: ``meta.properties``, ``server.properties``, those of clients."""

import re
from os import PathLike

from kstore.checkpoint.offset_checkpoint import corrupt

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(data: bytes, path: str | PathLike[str]) -> dict[str, str]:
    """Read a Java properties file (java.util.Properties.load): comments, escapes, continuations."""
    properties: dict[str, str] = {}
    lines = iter(enumerate(re.split(r"\r\n|\r|\n", data.decode("latin-1")), start=1))
    for number, line in lines:
        text = line.lstrip(" \t\f")
        if not text or text[0] in "#!":
            continue
        while (len(text) - len(text.rstrip("\\"))) % 2:
            text = text[:-1] + next(lines, (0, ""))[1].lstrip(" \t\f")
        key, value = _split_property(text)
        properties[_unescape(key, number, path)] = _unescape(value, number, path)
    return properties


def _split_property(text: str) -> tuple[str, str]:
    match = re.match(r"((?:[^\\:=\s]|\\.)*)[ \t\f]*[:=]?[ \t\f]*", text, re.DOTALL)
    assert match is not None  # every part of the pattern may be empty
    return match[1], text[match.end() :]


def _unescape(text: str, line: int, path: str | PathLike[str]) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        if match[2] == "u":
            raise corrupt(r"\u must be followed by four hexadecimal digits", line, path)
        return _ESCAPES.get(match[2], match[2])

    found = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.?))", one, text, flags=re.DOTALL)
    # Java's escapes are UTF-16 units: two of them may be one character.
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
