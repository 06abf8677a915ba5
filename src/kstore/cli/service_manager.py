"""Reports the state of a service to the service manager, by systemd's sd_notify protocol."""

import os
import socket


class ServiceManager:
    """Sends datagrams to ``NOTIFY_SOCKET``; without it every call does nothing.

    A manager that does not listen is no error: a service runs without one, too. The variable is
    removed, so that no process that is started meanwhile reports in this one's name.
    """

    def __init__(self) -> None:
        self._address = os.environ.pop("NOTIFY_SOCKET", "")

    def ready(self, status: str) -> None:
        """The service serves."""
        self._send(f"READY=1\nSTATUS={_line(status)}")

    def status(self, text: str) -> None:
        """What it does now, for ``systemctl status``."""
        self._send(f"STATUS={_line(text)}")

    def stopping(self) -> None:
        """It begins to stop."""
        self._send("STOPPING=1\nSTATUS=stopping")

    def _send(self, message: str) -> None:
        if self._address[:1] not in ("/", "@"):
            return
        address = self._address
        if address.startswith("@"):  # the abstract namespace
            address = "\0" + address[1:]
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.connect(address)
                sender.sendall(message.encode())
        except OSError:
            self._address = ""  # no manager listens


def _line(text: str) -> str:
    return " ".join(text.split())
