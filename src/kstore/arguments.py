"""Numbers of a command line, within limits, and options that several programs have."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable
from datetime import datetime, tzinfo

from kstore.config import CODECS, parse_whole_number
from kstore.errors import InvalidConfigError, InvalidTimestampError
from kstore.integers import INT32_MAX, INT64_MAX, parse_float


def whole_number(low: int = 0, high: int = INT64_MAX) -> Callable[[str], int]:
    """The type of an argparse option that takes a whole number from low to high."""

    def parse(text: str) -> int:
        try:
            return parse_whole_number(text, low, high)
        except InvalidConfigError as error:
            raise ArgumentTypeError(str(error)) from None

    return parse


def number(low: float, high: float) -> Callable[[str], float]:
    """The type of an argparse option that takes a number from low to high, and no NaN."""

    def parse(text: str) -> float:
        try:
            found = parse_float(text)
        except ValueError:
            found = float("nan")
        if not low <= found <= high:
            raise ArgumentTypeError(f"a number from {low:g} to {high:g}, not {text[:40]!r}")
        return found

    return parse


def read_properties(path: str | None) -> dict[str, str]:
    """The settings of a client's properties file; none without a path.

    Raises OSError, and CorruptFileError for an escape that is not valid.
    """
    if path is None:
        return {}
    from kstore.checkpoint.java_properties import parse_properties

    with open(path, "rb") as file:
        return parse_properties(file.read(), path)


def split_names(texts: Iterable[str]) -> list[str]:
    """The directories of options that take several, separated by commas; in order, each once."""
    names = [name.strip() for text in texts for name in text.split(",")]
    return list(dict.fromkeys(name for name in names if name))


_TIME_FORMS = (
    "milliseconds since 1970, or a date or a date and time such as 2026-01-31, "
    "2026-01-31T10:00 ({zone}) or 2026-01-31T10:00:00{offset}"
)
TIME_FORMS = _TIME_FORMS.format(zone="local time", offset="Z")


def parse_time(text: str, name: str, zone: tzinfo | None = None) -> int:
    """Milliseconds since 1970 of what an option names: a number, or ISO 8601, time optional.

    A time without an offset is one of ``zone``, by default this machine's local time. Raises
    InvalidConfigError, which begins with the option's ``name``.
    """
    from kstore.record.timestamp import to_milliseconds

    if text.isdecimal() and text.isascii():
        return parse_whole_number(text, name=name)
    try:
        when = datetime.fromisoformat(text)
        if when.tzinfo is None:
            when = when.astimezone() if zone is None else when.replace(tzinfo=zone)
        return to_milliseconds(when)
    except InvalidTimestampError as error:
        raise InvalidConfigError(f"{name}: {error.reason}") from None
    except (ValueError, OverflowError, OSError):
        forms = TIME_FORMS
        if zone is not None:
            forms = _TIME_FORMS.format(zone=zone, offset="+01:00")
        raise InvalidConfigError(f"{name} takes {forms}, not {text[:40]!r}") from None


def time_option(name: str) -> Callable[[str], int]:
    """The type of an argparse option that takes a point in time, as :func:`parse_time`."""

    def parse(text: str) -> int:
        try:
            return parse_time(text, name)
        except InvalidConfigError as error:
            raise ArgumentTypeError(str(error).removeprefix(f"{name} ")) from None

    return parse


def add_time_range(parser: ArgumentParser) -> None:
    """``--since`` and ``--until``: the records from one time up to another."""
    parser.add_argument(
        "--since",
        type=time_option("--since"),
        metavar="TIME",
        help=f"records from this time on: {TIME_FORMS}",
    )
    parser.add_argument(
        "--until",
        type=time_option("--until"),
        metavar="TIME",
        help="records before the first one that is at or after this time",
    )


def partition_numbers(text: str) -> list[int]:
    """``0,4,7``, the value of ``--partitions``; raises ``InvalidConfigError``."""
    try:
        return [parse_whole_number(word, 0, INT32_MAX) for word in text.split(",")]
    except InvalidConfigError:
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise InvalidConfigError(f"--partitions takes numbers and commas, not {shown!r}") from None


def add_rewriting(parser: ArgumentParser, *, codec_required: bool) -> None:
    """The options of programs that rewrite segments with another codec or message format."""
    parser.add_argument(
        "--compression",
        choices=CODECS,
        required=codec_required,
        help="the codec of every batch"
        + ("" if codec_required else " (default: each batch keeps its own)"),
    )
    parser.add_argument(
        "--level",
        type=whole_number(1, 22),
        metavar="N",
        help="of gzip (1 to 9) or zstd (1 to 22); batches that have the codec already stay as they "
        "are (default: Kafka's)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="use the codec also for batches that it makes larger; without it they stay as they "
        "are",
    )
    parser.add_argument(
        "--roll",
        action="store_true",
        help="roll the active segments first, so that every batch is rewritten",
    )
