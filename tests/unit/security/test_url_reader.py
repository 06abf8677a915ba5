"""URLs of OAuth providers: what is read, and what an error shows."""

import contextlib
import socket
import ssl
import threading
from pathlib import Path

import pytest

from kstore.errors import InvalidConfigError
from kstore.security.client_tls import ClientTls, client_context
from kstore.security.keystores import StoreFile
from kstore.security.url_reader import UrlError, check_url, read_url, warn_if_readable
from support.certificates import Authority
from support.http_server import web_server


@pytest.mark.parametrize(
    "url",
    [
        "", "keys.json", "/etc/keys", "ftp://a/b", "data:,x", "jar:file:///a", "http://",
        "http://user:secret@a/b", "http://user@a/b", "file://host/etc/keys", "file:keys.json",
    ],
)  # fmt: skip
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"the\.setting") as raised:
        check_url("the.setting", url)
    assert "secret" not in str(raised.value)


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a b"
    path.write_bytes(b"token")
    (tmp_path / "link").symlink_to(path)
    assert read_url(check_url("x", path.as_uri()), 5) == b"token"
    assert read_url(f"FILE://localhost{tmp_path}/link", 5) == b"token"
    for url in (path.as_uri() + "c", tmp_path.as_uri()):
        with pytest.raises(UrlError, match=str(tmp_path)):
            read_url(url, 5)
    with pytest.raises(UrlError, match="at most 4"):
        read_url(path.as_uri(), 4)


def test_a_url_that_others_can_read_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    for url in (
        "https://x/",
        "http://localhost/",
        "http://127.0.0.1:1/",
        "http://[::1]/",
        "file:/x",
    ):
        warn_if_readable("setting", url, "the token")
    assert caplog.records == []
    warn_if_readable("setting", "HTTP://x.example:80/", "the token")
    assert "setting is an http: URL" in caplog.text
    assert "to x.example can read or replace the token" in caplog.text


def test_an_http_answer_is_read_up_to_the_limit_and_other_statuses_raise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # not used
    with web_server() as server:
        server.answers["/keys"] = 200, b"x" * 100_000
        assert read_url(f"{server.url}/keys", 100_000) == b"x" * 100_000
        with pytest.raises(UrlError, match="more than 99999") as raised:
            read_url(f"{server.url}/keys", 99_999)
        assert raised.value.is_permanent
        read_url(f"{server.url}/keys", 100_000, data=b"a=b", headers={"Colour": "z"})
        assert [each.method for each in server.asked] == ["GET", "GET", "POST"]
        assert (server.asked[2].body, server.asked[2].headers["Colour"]) == (b"a=b", "z")
        for status, is_permanent in ((302, False), (404, True), (401, True), (503, False)):
            server.answers["/x"] = status, f"{server.url}/keys".encode()
            with pytest.raises(UrlError, match=f"HTTP {status}") as raised:
                read_url(f"{server.url}/x", 100)
            assert raised.value.is_permanent == is_permanent
        assert server.asked[-4].path == "/x"  # no redirect was followed
    with pytest.raises(UrlError, match="refused"):
        read_url(f"{server.url}/keys", 100)


def test_a_server_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(UrlError, match="timed out"):
            read_url(url, 100, timeout_seconds=0.2)


@pytest.mark.parametrize("begin", [b"HTTP/1.1 200 OK\r\nX: ", b"", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_server_that_sends_byte_by_byte(begin: bytes) -> None:
    """Each byte comes long before the timeout of a single read."""
    done = threading.Event()

    def drip() -> None:
        client, _ = server.accept()
        with client, contextlib.suppress(OSError):
            client.sendall(begin)
            while not done.wait(0.02):
                client.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        try:
            with pytest.raises(UrlError, match="timed out"):
                read_url(url, 1 << 20, timeout_seconds=0.3)
        finally:
            done.set()
            thread.join()


def test_https_needs_a_trusted_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("server"))
    trusting = ClientTls(truststore=StoreFile(str(authority.certificate)))
    with web_server(context) as server:
        server.answers["/keys"] = 200, b"x"
        assert read_url(f"{server.url}/keys", 10, context=client_context(trusting)) == b"x"
        for doubting in (client_context(ClientTls()), None):
            with pytest.raises(UrlError, match=r"self-signed|unable to get"):
                read_url(f"{server.url}/keys", 10, context=doubting)
