"""Regular expressions for topic names in the syntax of ``java.util.regex.Pattern``.

Spark's Kafka connector passes ``subscribePattern`` to Java, so ``\\p{Lower}``, ``[a-z&&[^b]]`` and
``\\Q...\\E`` must have Java's meaning. The ``regex`` package supports nearly all of that syntax.
This module rewrites the constructs that ``regex`` spells differently, and refuses those that Java
refuses or that have no counterpart. Topic names are ASCII, so Java's ASCII classes and Unicode's
match the same names.
"""

from functools import cache
from typing import Protocol

from kstore.errors import InvalidConfigError

# Letters and digits that have the same meaning after a backslash in Java and in ``regex``.
_SAME_ESCAPES = frozenset("tnrfadDhHsSvVwWbBAGZzRXpPxuN123456789")
_FLAGS = frozenset("imsx-")
_IN_CLASS = {"-": "\\-", "~": "\\~", "|": "\\|", ":": "\\:"}  # operators of ``regex``, not of Java


class TopicPattern(Protocol):
    """A compiled pattern; ``search`` matches anywhere in a name, ``fullmatch`` the entire name."""

    def search(self, name: str) -> object | None: ...

    def fullmatch(self, name: str) -> object | None: ...


@cache
def compile_topic_pattern(text: str) -> TopicPattern:
    """Compile a Java regular expression.

    Raises InvalidConfigError for a pattern that Java refuses, and for constructs that cannot be
    translated: ``\\p{javaLowerCase}`` and similar classes, ``\\0``, ``\\c``, ``\\e``, the flags
    ``d``, ``u`` and ``U``.
    """
    try:
        import regex
    except ImportError as error:
        raise InvalidConfigError(
            f"topic patterns need the package 'regex' ({error}): pip install 'kstore[spark]'"
        ) from None
    try:
        compiled: TopicPattern = regex.compile(_Translator(text).run(), regex.V1)
    except (ValueError, regex.error) as error:
        raise InvalidConfigError(f"{text!r} is not a regular expression: {error}") from None
    return compiled


class _Translator:
    """Rewrites Java's syntax to that of ``regex`` version 1, in one pass over the pattern."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0  # of nested character classes
        self._out: list[str] = []

    def run(self) -> str:
        while self._at < len(self._text):
            self._next()
        return "".join(self._out)

    def _next(self) -> None:
        char = self._text[self._at]
        if char == "\\":
            self._escape()
        elif self._depth:
            self._in_class(char)
        elif char == "[":
            self._open_class()
        elif char == "{" or (char in "*+?" and not self._out):
            self._repetition(char)
        elif self._text.startswith("(?", self._at):
            self._group()
        else:
            self._take(1)

    def _take(self, count: int, replacement: str | None = None) -> None:
        """Copy or replace the next ``count`` characters."""
        copied = self._text[self._at : self._at + count]
        self._out.append(copied if replacement is None else replacement)
        self._at += count

    def _escape(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following == "Q":
            self._quotation()
        elif following == "k" and self._text.startswith("<", self._at + 2):
            self._take(2, "\\g")
        elif following.isascii() and following.isalnum() and following not in _SAME_ESCAPES:
            raise ValueError(f"the escape \\{following} is not supported, at position {self._at}")
        elif following in "pPN" and self._text.startswith("{", self._at + 2):
            end = self._text.find("}", self._at)
            self._take(2 if end < 0 else end + 1 - self._at)
        elif following == "b" and self._text.startswith("{g}", self._at + 2):
            raise ValueError("\\b{g} is not supported")
        else:
            self._take(2)

    def _quotation(self) -> None:
        start = self._at + 2
        end = self._text.find("\\E", start)
        quoted = self._text[start:] if end < 0 else self._text[start:end]
        count = len(self._text) - self._at if end < 0 else end + 2 - self._at
        self._take(count, "".join(char if char.isalnum() else f"\\{char}" for char in quoted))

    def _open_class(self) -> None:
        self._depth += 1
        is_negated = self._text.startswith("^", self._at + 1)
        self._take(2 if is_negated else 1)
        if self._text.startswith("]", self._at):  # the first character is a literal
            self._take(1, "\\]")

    def _in_class(self, char: str) -> None:
        if char == "[":
            self._open_class()
        elif char == "]":
            self._depth -= 1
            self._take(1)
        elif char == "-" and self._is_range():
            self._take(1)
        else:
            self._take(1, _IN_CLASS.get(char))

    def _is_range(self) -> bool:
        """Whether the hyphen is that of a range such as ``a-z``."""
        before = self._text[self._at - 1 : self._at]
        after = self._text[self._at + 1 : self._at + 2]
        return before not in "[^-" and after not in "]-["

    def _repetition(self, char: str) -> None:
        """Refuse a brace that is no count: to ``regex`` it means an approximate match."""
        end = self._text.find("}", self._at)
        least, _, most = self._text[self._at + 1 : max(end, 0)].partition(",")
        if char != "{" or end < 0 or not least.isdecimal() or (most and not most.isdecimal()):
            raise ValueError(f"{char!r} repeats nothing, at position {self._at}")
        self._take(end + 1 - self._at)

    def _group(self) -> None:
        """Refuse groups ``(?...)`` that Java lacks: conditions, comments, recursion, branches."""
        start = self._at + 2
        following = self._text[start : start + 1]
        if following and following in ":=!><P":  # P: named groups as Python writes them
            self._take(3)
            return
        end = start
        while self._text[end : end + 1] not in ("", ")", ":"):
            end += 1
        flags = self._text[start:end]
        if not flags or set(flags) - _FLAGS:
            raise ValueError(f"(?{flags[:8]} is not supported, at position {self._at}")
        self._take(end - self._at)
