"""The errors found by a dump, printed at its end as in Kafka's DumpLogSegments."""

from dataclasses import dataclass, field
from pathlib import PurePath

from kstore.cli.common import complain
from kstore.config import parse_whole_number
from kstore.errors import InvalidConfigError, KStoreError

Pairs = dict[str, list[tuple[int, int]]]


@dataclass
class DumpErrors:
    """Errors by file, printed after all files were dumped."""

    index_mismatches: Pairs = field(default_factory=dict)
    time_mismatches: Pairs = field(default_factory=dict)
    time_out_of_order: Pairs = field(default_factory=dict)
    offsets_not_found: Pairs = field(default_factory=dict)
    gaps: Pairs = field(default_factory=dict)
    unpublished: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    unknown: int = 0  # files

    def print(self) -> None:
        """Print the errors in Kafka's format and order."""
        for title, line, pairs in (
            ("Mismatches in :{}", "  Index offset: {}, log offset: {}", self.index_mismatches),
            (
                "Found timestamp mismatch in :{}",
                "  Index timestamp: {}, log timestamp: {}",
                self.time_mismatches,
            ),
            (
                "Found out of order timestamp in :{}",
                "  Index timestamp: {}, Previously indexed timestamp: {}",
                self.time_out_of_order,
            ),
            (
                "The following indexed offsets are not found in :{}",
                "Indexed offset: {}, found log offset: {}",
                self.offsets_not_found,
            ),
            ("Non-consecutive offsets in {}", "  {} is followed by {}", self.gaps),
        ):
            for path, found in pairs.items():
                complain(title.format(path))
                for pair in found:
                    complain(line.format(*pair))
        for sentence in (*self.unpublished, *self.damage):
            complain(sentence)


def base_offset(name: str) -> int:
    """The number before the first dot of a file's name."""
    number = PurePath(name).name.partition(".")[0]
    try:
        return parse_whole_number(number)
    except InvalidConfigError:
        raise KStoreError(
            f"{name} is not named as a segment file: the name begins with the segment's base "
            "offset, such as 00000000000000000000.log"
        ) from None
