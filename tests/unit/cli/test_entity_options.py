"""The options of ``kstore configs`` that name entities."""

import pytest

from kstore.cli import main


@pytest.mark.parametrize(
    "named",
    [
        ["--entity-type", "topics", "--entity-name", "orders", "--broker-defaults"],
        ["--broker-defaults", "--entity-type", "topics", "--entity-name", "orders"],
        ["--topic", "orders", "--broker", "1"],
        ["--entity-type", "brokers", "--entity-name", "1", "--broker-defaults"],
        ["--broker", "1", "--broker-logger", "1"],
        ["--topic", "orders", "--entity-type", "topics"],
        ["--topic", "orders", "--entity-name", "other"],
    ],
)
def test_options_that_name_two_entities_change_neither(
    capsys: pytest.CaptureFixture[str], named: list[str]
) -> None:
    change = ["--alter", *named, "--add-config", "log.retention.ms=777"]
    assert main(["configs", "--bootstrap-server", "127.0.0.1:1", *change]) == 1
    assert "name one entity, not --" in capsys.readouterr().err
