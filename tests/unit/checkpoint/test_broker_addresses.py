"""The file that names the broker of a log directory, while that broker runs."""

from pathlib import Path

import pytest

from kstore.checkpoint.broker_addresses import (
    BrokerAddress,
    BrokerAddressFiles,
    read_broker_addresses,
)
from kstore.files.files import DISK

SECURE = BrokerAddress("OUTSIDE", "SASL_SSL", "kafka.example.org:9094")
PLAIN = BrokerAddress("INSIDE", "PLAINTEXT", "127.0.0.1:9092")


def test_every_directory_names_plaintext_listeners_first(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for path in paths:
        Path(path).mkdir()
    files = BrokerAddressFiles()
    files.write([(DISK, path) for path in paths], [SECURE, PLAIN])
    assert [read_broker_addresses(DISK, path) for path in paths] == [(PLAIN, SECURE)] * 2
    files.remove()
    assert [list(Path(path).iterdir()) for path in paths] == [[], []]
    assert read_broker_addresses(DISK, paths[0]) == ()
    files.remove()


def test_a_file_without_a_lock_is_of_a_killed_broker(tmp_path: Path) -> None:
    killed, next_one = BrokerAddressFiles(), BrokerAddressFiles()
    killed.write([(DISK, str(tmp_path))], [SECURE])
    killed.abandon()
    assert (tmp_path / "kstore.listeners").exists()
    assert read_broker_addresses(DISK, str(tmp_path)) == ()
    next_one.write([(DISK, str(tmp_path))], [PLAIN])
    assert read_broker_addresses(DISK, str(tmp_path)) == (PLAIN,)
    next_one.remove()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"format": 2, "listeners": []}', b'{"format": 1, "listeners": [1]}']
)
def test_a_file_that_does_not_parse_names_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kstore.listeners"
    path.write_bytes(content)
    with DISK.lock(path):
        assert read_broker_addresses(DISK, str(tmp_path)) == ()


def test_a_directory_that_takes_no_file_is_only_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = BrokerAddressFiles()
    files.write([(DISK, str(tmp_path / "none")), (DISK, str(tmp_path))], [PLAIN])
    assert read_broker_addresses(DISK, str(tmp_path)) == (PLAIN,)
    assert "does not show the broker's listeners" in caplog.text
    files.remove()
