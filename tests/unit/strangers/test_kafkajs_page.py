"""The page of KafkaJS as a suite: what it needs, and what it takes from the page."""

import pytest

from strangers import kafkajs_page
from strangers.__main__ import main
from strangers.kafkajs_page import PAGE, script_for
from strangers.suite import NotRun


@pytest.mark.parametrize("missing", ["node", "npm"])
def test_without_node_or_npm_the_page_is_not_run_and_that_is_an_error(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = {"node": "/bin/node", "npm": "/bin/npm", missing: None}
    monkeypatch.setattr(kafkajs_page.shutil, "which", there.get)
    assert main(["KafkaJS page", "--missing-sources"]) == 1
    shown = capsys.readouterr().out
    assert "NOT RUN" in shown
    assert "node or npm is missing" in shown


def test_the_script_is_the_page_s_with_another_broker() -> None:
    script = script_for("localhost:5")
    assert script.replace("localhost:5", "127.0.0.1:9092") in PAGE.read_text()
    assert "localhost:5" in script


def test_a_page_that_names_no_broker_is_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page = tmp_path_factory.mktemp("page") / "page.md"
    page.write_text("```javascript\nconst brokers = [];\n```\n")
    monkeypatch.setattr(kafkajs_page, "PAGE", page)
    with pytest.raises(NotRun, match="does not name"):
        script_for("localhost:5")
