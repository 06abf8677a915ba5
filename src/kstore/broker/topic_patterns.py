"""Regular expressions of consumer groups (KIP-848): which topics match.

By RE2, whose time is linear in the text whatever the pattern is. It is the package ``google-re2``,
an extra of kstore: ``pip install kstore[patterns]``.
"""

from collections.abc import Collection, Mapping

from kstore.errors import InvalidConfigError

MAX_PATTERN_SIZE = 4096  # characters; RE2 bounds the memory of what it makes of them
_MAX_MEMORY = 8 << 20


def match_topics(patterns: Collection[str], names: Collection[str]) -> Mapping[str, frozenset[str]]:
    """The topics that match each pattern completely, as Kafka's brokers match them.

    Raises InvalidConfigError for a pattern that is no regular expression of RE2, that is beyond
    the limits, or where ``google-re2`` is not installed.
    """
    try:
        import re2
    except ImportError:
        raise InvalidConfigError(
            "the broker matches no patterns of topics: it needs the package google-re2 "
            "(pip install kstore[patterns])"
        ) from None
    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    found: dict[str, frozenset[str]] = {}
    for pattern in patterns:
        if len(pattern) > MAX_PATTERN_SIZE:
            raise InvalidConfigError(
                f"a pattern of topics has at most {MAX_PATTERN_SIZE} characters"
            )
        try:
            compiled = re2.compile(pattern, options)
        except re2.error as error:
            reason = error.args[0] if error.args else error
            text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
            raise InvalidConfigError(f"{pattern!r} is no regular expression: {text}") from None
        found[pattern] = frozenset(name for name in names if compiled.fullmatch(name))
    return found
