"""Matches the regular expressions of consumer groups (KIP-848) with topic names.

It uses RE2, which takes linear time for any pattern. RE2 is the package ``google-re2``, an optional
dependency: ``pip install kstore[patterns]``.
"""

from collections.abc import Collection, Mapping

from kstore.errors import InvalidConfigError

MAX_PATTERN_SIZE = 4096  # characters; RE2 limits the memory of the compiled pattern
_MAX_MEMORY = 8 << 20


def match_topics(patterns: Collection[str], names: Collection[str]) -> Mapping[str, frozenset[str]]:
    """The topics whose full name matches each pattern, as in Kafka's brokers.

    Raises InvalidConfigError for a pattern that RE2 rejects or that exceeds the limits, and if
    ``google-re2`` is not installed.
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
            raise InvalidConfigError(f"{pattern!r} is not a regular expression: {text}") from None
        found[pattern] = frozenset(name for name in names if compiled.fullmatch(name))
    return found
