"""``subscribePattern`` finds what ``java.util.regex`` finds, and refuses what it refuses."""

from typing import Any

import pytest

from kstore.errors import InvalidConfigError
from kstore.spark.java_pattern import compile_topic_pattern

NAMES = (
    "orders", "Orders", "orders.eu", "orders-2", "ORDERS_old", "a", "b", "ab", "abc", "aab",
    "a.b", "a-b", "x--y", "click_9", "42", "4.2",
)  # fmt: skip

PATTERNS = (
    "orders", "^orders$", "rders", "orders|clicks", "[a-z]+", "(?i)orders", "(?i:orders)\\.eu",
    r"\p{Lower}+", r"^\p{Upper}", r"^\p{Lower}+$", r"\P{Lower}", r"^\p{Alnum}+$", r"\p{Punct}",
    r"^\p{Alpha}{2,3}$", r"\p{Digit}", r"^\p{L}+$", r"\pN", r"\p{Lu}", r"\p{IsAlphabetic}\d",
    r"\p{XDigit}{3}", r"^\p{Graph}+$", r"\p{ASCII}", r"\p{Space}", r"\p{Blank}", r"\p{Cntrl}",
    r"\p{IsLatin}", r"^[a-z&&[^b]]+$", r"^[a-d&&[b-z]]$", r"[a-c[x-z]]-", r"^[^\p{Lower}]+$",
    r"[\p{Lower}&&[^a-y]]", r"\Qa.b\E", r"\Q.\E", r"\Qa", r"^[\Q.-\E\w]+$", r"a.b", r"a\.b",
    r"[-a]b", r"[a-]b", r"[a\-z]-b", r"[\w-]+2", r"^[\w.-]+$", r"[|~]", r"[a~b]\|", "[:a]-",
    r"a++b", r"a*+ab", r"(?>a+)b", r"(?<c>a)\k<c>", r"(a)\1", r"a(?=b)", r"a(?!b)", r"(?<=a)b",
    r"(?<!a)b", r"(?:a|b){2}", r"a{2}", r"a{1,}b", r"\bab\b", r"\Aa\z", r"\Aa\Z", r"\h", r"\R",
    r"^\S+$", r"\W", r"[^a]", "", ".*", "(?s).", "(?m)^a$", "(?x) a b ", r"\u0061\x62",
)  # fmt: skip

REFUSED = (
    "(", ")", "[a", "a{", "a{e}", "*a", "+", "?a", r"\m", r"\K", r"\y", "(?#a)b",
    "(?(1)a|b)", "(?R)", r"\p{Nonsense}", "a**", r"[b-a]", "a{,2}", "a{2,1}", "(?<1>a)", r"\Ma",
)  # fmt: skip

# Java takes these; they are refused by name rather than read as something else.
UNSUPPORTED = (
    r"\p{javaLowerCase}",
    r"\0101",
    r"\cA",
    r"\e",
    "(?U)a",
    "(?u)a",
    "(?d)a",
    r"\b{g}",
    "{2}",
)


@pytest.fixture(scope="module")
def java_pattern(spark: Any) -> Any:
    return spark._jvm.java.util.regex.Pattern


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_finds_the_names_that_java_finds(java_pattern: Any, pattern: str) -> None:
    compiled = java_pattern.compile(pattern)
    expected = [name for name in NAMES if compiled.matcher(name).find()]
    assert [name for name in NAMES if compile_topic_pattern(pattern).search(name)] == expected


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_pattern_that_java_refuses_is_refused(java_pattern: Any, pattern: str) -> None:
    from pyspark.errors.exceptions.captured import IllegalArgumentException

    with pytest.raises(IllegalArgumentException):
        java_pattern.compile(pattern)
    with pytest.raises(InvalidConfigError, match="is not a regular expression"):
        compile_topic_pattern(pattern)


@pytest.mark.parametrize("pattern", UNSUPPORTED)
def test_a_pattern_that_is_not_translated_is_refused(java_pattern: Any, pattern: str) -> None:
    java_pattern.compile(pattern)
    with pytest.raises(InvalidConfigError, match="is not a regular expression"):
        compile_topic_pattern(pattern)
