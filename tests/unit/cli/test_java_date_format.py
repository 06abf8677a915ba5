"""Patterns of Java's SimpleDateFormat."""

from datetime import datetime

import pytest

from kstore.cli.common import WrongOptionsError
from kstore.cli.java_date_format import JavaDateFormat

WHEN = datetime(2026, 3, 4, 17, 6, 7, 89_000).timestamp()


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2026-03-04 17:06:07:089"),
        ("yy/M/d h:m a", "26/3/4 5:6 PM"),
        ("EEE, dd MMM", "Wed, 04 Mar"),
        ("EEEE MMMM", "Wednesday March"),
        ("D u k K", "63 3 17 5"),
        ("yyyy'T'HH 'o''clock' ''", "2026T17 o'clock '"),
    ],
)
def test_a_time_is_shown_as_java_does(pattern: str, shown: str) -> None:
    assert JavaDateFormat(pattern).shown(WHEN) == shown


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("i", "Illegal pattern character 'i'"),
        ("HH 'o", "Unterminated quote"),
        ("ww", "kstore's times have no 'w'"),
    ],
)
def test_a_wrong_pattern_is_refused(pattern: str, sentence: str) -> None:
    with pytest.raises(WrongOptionsError, match=sentence):
        JavaDateFormat(pattern)
