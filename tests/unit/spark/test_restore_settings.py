"""A restored topic has the settings that its source had, wherever those are kept."""

import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import kstore
from kstore.arguments import read_properties
from kstore.cli import main
from kstore.errors import InvalidConfigError
from kstore.spark.jobs import export as export_job
from kstore.spark.jobs import restore as job
from kstore.spark.jobs import restore_driver, restore_plan
from kstore.spark.jobs.client_settings import of_the_client
from kstore.spark.jobs.cluster_sender import Sender
from support import metadata
from support.stores import QUIET, leave_to_kafka
from support.tasks_here import NO_SPARK, use_tasks_here
from support.transactions import WHEN

CONFIG = kstore.LogConfig(
    cleanup_policy="compact",
    segment_bytes=3000,
    retention_ms=86_400_000,
    max_message_bytes=500_000,
    compression_type="zstd",
    batch_size=512,
)


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    use_tasks_here(monkeypatch, job, restore_driver, restore_plan, export_job)


def make(log_dir: Path, **configs: kstore.LogConfig) -> Path:
    with kstore.open(log_dir, config=QUIET) as store:
        for name, config in configs.items():
            log = store.create_topic(name, config=config)[0]
            for n in range(50):
                log.append(b"value %d" % n, key=b"%d" % (n % 5), timestamp=WHEN + n)
    return log_dir


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make(tmp_path / "source", accounts=CONFIG, plain=kstore.LogConfig())


def config_of(log_dir: Path, topic: str = "accounts") -> kstore.LogConfig:
    with kstore.open(log_dir, "r") as store:
        return store[topic].config


def restore(to: Path, **options: Any) -> None:
    job.restore(NO_SPARK, to, **options)


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_settings_are_restored_from_a_directory(
    source: Path, tmp_path: Path, keep_offsets: bool
) -> None:
    restore(tmp_path / "to", log_dirs=source, keep_offsets=keep_offsets)
    assert config_of(tmp_path / "to") == CONFIG
    assert config_of(tmp_path / "to", "plain") == kstore.LogConfig()


def test_settings_are_restored_from_parquet(source: Path, tmp_path: Path) -> None:
    """The export keeps them; it is read from its folders and files, too."""
    lake = tmp_path / "lake"
    export_job.export(NO_SPARK, source, lake, topic="accounts")
    (file,) = lake.rglob("*.parquet")
    for number, path in enumerate((lake, lake / "topic=accounts", file)):
        restore(tmp_path / f"to{number}", parquet=str(path))
        assert config_of(tmp_path / f"to{number}") == CONFIG
    with kstore.open(source, config=QUIET) as store:
        store.alter_topic("accounts", config={"cleanup.policy": "compact,delete"})
    assert export_job.export(NO_SPARK, source, lake).records == 50  # of the other topic
    restore(tmp_path / "later", parquet=str(lake), rename={"accounts": "renamed"})
    assert config_of(tmp_path / "later", "renamed").cleanup_policy == "compact,delete"


def test_an_export_that_has_nothing_new_keeps_new_settings(source: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    export_job.export(NO_SPARK, source, lake)
    with kstore.open(source, config=QUIET) as store:
        store.alter_topic("accounts", config={"cleanup.policy": "compact,delete"})
    assert export_job.export(NO_SPARK, source, lake).records == 0
    restore(tmp_path / "to", parquet=str(lake))
    assert config_of(tmp_path / "to").cleanup_policy == "compact,delete"


def test_settings_are_restored_from_a_cluster_s_metadata(
    source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker's directory has no kstore.topics; what kstore does not have is named."""
    leave_to_kafka(source)
    topic_id = "AAAAAAAAAAAAAAAAAAABAA"
    metadata.write(
        source,
        metadata.topic("accounts", topic_id),
        metadata.setting("accounts", "cleanup.policy", "compact"),
        metadata.setting("accounts", "retention.ms", "5"),
        metadata.setting("accounts", "retention.ms", None),
        metadata.setting("accounts", "min.insync.replicas", "2"),
        metadata.setting("others", "cleanup.policy", "compact"),
    )
    restore(tmp_path / "to", log_dirs=source)
    assert config_of(tmp_path / "to") == kstore.LogConfig(cleanup_policy="compact")
    assert "does not have are ignored: min.insync.replicas" in caplog.text
    assert "no settings of plain: the topic is created with the defaults" in caplog.text
    assert "which settings accounts" not in caplog.text


def test_a_source_that_knows_no_settings_says_so(
    source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leave_to_kafka(source)
    restore(tmp_path / "to", log_dirs=source, topic="accounts")
    (record,) = [each for each in caplog.records if "has no settings of" in each.message]
    assert record.levelno == logging.WARNING
    restore(
        tmp_path / "given", log_dirs=source, topic="accounts", config={"cleanup.policy": "compact"}
    )
    assert config_of(tmp_path / "given").cleanup_policy == "compact"


def test_explicit_settings_override_the_source(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Session:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(job, "open_session", lambda *_: Session())
    words = ["spark", "restore", "--from", str(source), "--log-dir", str(tmp_path / "to")]
    words += ["--topic", "accounts"]
    assert main([*words, "--config", "retention.ms"]) == 1
    assert main([*words, "--config", "retention.m=5"]) == 1
    assert main([*words, "--config", "retention.ms=-1", "--config", "segment.bytes=4000"]) == 0
    found = config_of(tmp_path / "to")
    assert (found.retention_ms, found.segment_bytes) == (-1, 4000)
    assert found.cleanup_policy == "compact"


def test_an_existing_topic_keeps_its_settings_with_a_warning(
    source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with kstore.open(tmp_path / "to", config=QUIET) as store:
        store.create_topic("accounts")
    restore(tmp_path / "to", log_dirs=source)
    assert config_of(tmp_path / "to") == kstore.LogConfig()
    assert "accounts exists already and keeps its settings" in caplog.text
    assert "cleanup.policy=delete, in the source compact" in caplog.text
    with pytest.raises(InvalidConfigError, match="unknown setting"):
        restore(tmp_path / "other", log_dirs=source, config={"no.such": "1"})


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_records_keep_their_times_where_the_topic_stamps_them(
    tmp_path: Path, keep_offsets: bool
) -> None:
    config = kstore.LogConfig(message_timestamp_type="LogAppendTime")
    source = make(tmp_path / "source", accounts=config)
    restore(tmp_path / "to", log_dirs=source, keep_offsets=keep_offsets)
    assert config_of(tmp_path / "to") == config
    with kstore.open(source, "r") as store, kstore.open(tmp_path / "to", "r") as copy:
        times = [record.timestamp for record in store["accounts"][0]]
        assert [record.timestamp for record in copy["accounts"][0]] == times


def test_messages_v1_come_back_as_batches_v2(tmp_path: Path) -> None:
    source = make(
        tmp_path / "source",
        accounts=kstore.LogConfig(message_format_version="0.10.0", cleanup_policy="compact"),
    )
    restore(tmp_path / "to", log_dirs=source)
    assert config_of(tmp_path / "to") == kstore.LogConfig(cleanup_policy="compact")


def test_settings_of_a_command_config_reach_the_client_with_its_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: dict[str, object] = {}

    class Producer:
        DEFAULT_CONFIG: ClassVar = {"security_protocol": "PLAINTEXT", "linger_ms": 0, "acks": 1}

        def __init__(self, **settings: object) -> None:
            opened.update(settings)

    monkeypatch.setitem(sys.modules, "kafka", SimpleNamespace(KafkaProducer=Producer))
    path = tmp_path / "client.properties"
    path.write_text("# a comment\nsecurity.protocol: SASL_SSL\nlinger.ms = 7\nacks=all\n")
    link = tmp_path / "mounted"  # as a container mounts its secrets
    link.symlink_to(path)
    Sender("broker:9092", dict(read_properties(str(link))), "none")
    assert opened["security_protocol"] == "SASL_SSL"
    assert (opened["linger_ms"], opened["acks"]) == (7, -1)
    assert opened["bootstrap_servers"] == ["broker:9092"]
    assert read_properties(None) == {}


def test_settings_of_the_producer_are_read_from_a_file(tmp_path: Path) -> None:
    known = {
        "security_protocol": "PLAINTEXT", "ssl_check_hostname": True, "request_timeout_ms": 30000,
        "sasl_plain_password": None, "slow_task_threshold_secs": 0.1, "api_version": None,
        "ssl_context": None,
    }  # fmt: skip
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SSL\nssl_check_hostname=False\nrequest.timeout.ms=100\n"
        "sasl_plain_password=000123\nslow.task.threshold.secs=1.5\napi_version=0.8.2\n"
    )
    assert of_the_client(read_properties(str(path)), known) == {
        "security_protocol": "SSL",
        "ssl_check_hostname": False,
        "request_timeout_ms": 100,
        "sasl_plain_password": "000123",  # a word, whatever it looks like
        "slow_task_threshold_secs": 1.5,
        "api_version": (0, 8, 2),
    }
    assert of_the_client({"api_version": (2, 8)}, known) == {"api_version": (2, 8)}
    for name, text, messages in (
        ("security_protocoll", "SSL", "there is security_protocol"),
        ("ssl.truststore.location", "x.jks", "there is ssl_cafile"),
        ("group.id", "g", "kafka-python's"),
        ("ssl_context", "x", "from Python only"),
        ("ssl_check_hostname", "https", "true or false"),
        ("request_timeout_ms", "soon", "is a number"),
        ("request_timeout_ms", "-1", "is a number"),
        ("api_version", "new", "such as 0.8.2"),
    ):
        with pytest.raises(InvalidConfigError, match=messages):
            of_the_client({name: text}, known)
