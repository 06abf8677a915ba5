"""Regular expressions over topic names, read as ``java.util.regex.Pattern`` reads them.

Spark's Kafka connector hands ``subscribePattern`` to Java, so ``\\p{Lower}``, ``[a-z&&[^b]]`` and
``\\Q...\\E`` have to mean here what they mean there. The ``regex`` package knows nearly all of that
syntax. This module rewrites what it spells otherwise and refuses what Java refuses, or what has no
counterpart. Topic names are ASCII, so Java's ASCII classes and Unicode's agree on all of them.
"""

from functools import cache
from typing import Protocol

from kstore.errors import InvalidConfigError

# Letters and digits that mean the same behind a backslash in Java and in ``regex``.
_SAME_ESCAPES = frozenset("tnrfadDhHsSvVwWbBAGZzRXpPxuN123456789")
_FLAGS = frozenset("imsx-")
_IN_CLASS = {"-": "\\-", "~": "\\~", "|": "\\|", ":": "\\:"}  # operators of ``regex``, not of Java


class TopicPattern(Protocol):
    """A compiled pattern; ``search`` finds it anywhere in a name, ``fullmatch`` as a whole."""

    def search(self, name: str) -> object | None: ...

    def fullmatch(self, name: str) -> object | None: ...


@cache
def compile_topic_pattern(text: str) -> TopicPattern:
    """Compile a Java regular expression.

    Raises InvalidConfigError for a pattern that Java would refuse, and for the constructs that
    cannot be translated: ``\\p{javaLowerCase}`` and its like, ``\\0``, ``\\c``, ``\\e``, the flags
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
        raise InvalidConfigError(f"{text!r} is no regular expression: {error}") from None
    return compiled


class _Translator:
    """Walks a pattern once, and rewrites Java's syntax to that of ``regex`` version 1."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0  # of character classes
        self._out: list[str] = []

    def run(self) -> str:
        while self._at < len(self._text):
            self._next()
        return "".join(self._out)

    def _next(self) -> None:
        here = self._text[self._at]
        if here == "\\":
            self._escape()
        elif self._depth:
            self._in_class(here)
        elif here == "[":
            self._open_class()
        elif here == "{" or (here in "*+?" and not self._out):
            self._repetition(here)
        elif self._text.startswith("(?", self._at):
            self._group()
        else:
            self._take(1)

    def _take(self, count: int, instead: str | None = None) -> None:
        part = self._text[self._at : self._at + count]
        self._out.append(part if instead is None else instead)
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
        self._take(count, "".join(each if each.isalnum() else f"\\{each}" for each in quoted))

    def _open_class(self) -> None:
        self._depth += 1
        negated = self._text.startswith("^", self._at + 1)
        self._take(2 if negated else 1)
        if self._text.startswith("]", self._at):  # a literal one, where it comes first
            self._take(1, "\\]")

    def _in_class(self, here: str) -> None:
        if here == "[":
            self._open_class()
        elif here == "]":
            self._depth -= 1
            self._take(1)
        elif here == "-" and self._is_range():
            self._take(1)
        else:
            self._take(1, _IN_CLASS.get(here))

    def _is_range(self) -> bool:
        """Whether a hyphen stands between two ends of a range, as it does in ``a-z``."""
        before = self._text[self._at - 1 : self._at]
        after = self._text[self._at + 1 : self._at + 2]
        return before not in "[^-" and after not in "]-["

    def _repetition(self, here: str) -> None:
        """Refuse a brace that is no count: ``regex`` would take it for an approximate match."""
        end = self._text.find("}", self._at)
        least, _, most = self._text[self._at + 1 : max(end, 0)].partition(",")
        if here != "{" or end < 0 or not least.isdecimal() or (most and not most.isdecimal()):
            raise ValueError(f"{here!r} repeats nothing, at position {self._at}")
        self._take(end + 1 - self._at)

    def _group(self) -> None:
        """``(?`` and what may follow it in Java: no conditions, comments, recursion or branches."""
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
