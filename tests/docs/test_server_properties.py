"""The guide's page about server.properties says what the code does."""

from docs.server_properties import PAGE, rows, with_tables
from kstore.broker.server_properties import HONOURED, IGNORED, REFUSED, SECURITY


def test_the_tables_are_those_of_the_code() -> None:
    text = PAGE.read_text()
    assert text == with_tables(text), "run `make server-properties`"
    for handling in (HONOURED, IGNORED, REFUSED, SECURITY):
        assert f"<!-- table: {handling} -->" in text
        assert "\n".join(rows(handling)) in text
