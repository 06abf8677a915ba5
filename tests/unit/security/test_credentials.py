"""``kstore.credentials``: private, replaced at once, the same for users that do not exist."""

import stat
from pathlib import Path

import pytest

import kstore
from kstore.errors import CorruptFileError, NewerFormatError
from kstore.security.credentials import Credentials
from kstore.security.scram import ScramCredential, credential_of, salted

SHA_256 = "SCRAM-SHA-256"


def made(password: str, salt: bytes = b"salt" * 5) -> ScramCredential:
    return credential_of(SHA_256, salt, salted(SHA_256, password, salt, 5000), 5000)


def test_credentials_survive_and_are_private(tmp_path: Path) -> None:
    dirs = [tmp_path / "a", tmp_path / "b"]
    with kstore.open(dirs) as store:
        credentials = Credentials(store._manager._dirs)
        assert credentials.users == {}
        credentials.alter([("alice", SHA_256, made("pencil")), ("bob", SHA_256, made("bob"))])
        credentials.alter([("bob", SHA_256, None)])
    for directory in dirs:
        path = directory / "kstore.credentials"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not (directory / "kstore.credentials.tmp").exists()
        assert "pencil" not in path.read_text()
    (dirs[1] / "kstore.credentials").unlink()
    with kstore.open(dirs) as store:
        found = Credentials(store._manager._dirs)
        assert found.users == {"alice": {SHA_256: made("pencil")}}


def test_unknown_users_look_like_known_ones(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        credentials = Credentials(store._manager._dirs)
        credentials.alter([("alice", SHA_256, made("pencil"))])
        unknown = [credentials.find(SHA_256, name) for name in ("x", "x", "y")]
        again = Credentials(store._manager._dirs).find(SHA_256, "x")
    assert unknown[0].salt == unknown[1].salt == again.salt != unknown[2].salt
    assert len(unknown[0].salt) == len(made("x").salt)
    assert {each.iterations for each in unknown} == {5000}
    assert unknown[0].stored_key != unknown[1].stored_key


_FOREIGN = b'{"format":1,"generation":1,"unknown_users":"","users":{"a":{"MD5":{"iterations":1}}}}'


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format":1,"generation":0}', _FOREIGN])
def test_a_damaged_file_stops_the_start_and_shows_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "kstore.credentials").write_bytes(content)
    with kstore.open(tmp_path) as store, pytest.raises(CorruptFileError, match="does not parse"):
        Credentials(store._manager._dirs)


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kstore.credentials").write_text('{"format": 2}')
    with kstore.open(tmp_path) as store, pytest.raises(NewerFormatError):
        Credentials(store._manager._dirs)
