"""Reports the state of a service to the service manager, by systemd's sd_notify protocol."""

import os
import socket


class ServiceManager:
    """Sends datagrams to ``NOTIFY_SOCKET``; without it every call does nothing.

    If the manager does not listen, that is not an error: a service also runs without one. The
    constructor removes the variable, so that child processes cannot report for this one.
    """

    def __init__(self) -> None:
        self._address = os.environ.pop("NOTIFY_SOCKET", "")

    def ready(self, status: str) -> None:
        """Report that the service accepts requests."""
        self._send(f"READY=1\nSTATUS={_line(status)}")

    def status(self, text: str) -> None:
        """Report the current activity, for ``systemctl status``."""
        self._send(f"STATUS={_line(text)}")

    def stopping(self) -> None:
        """Report that the service begins to stop."""
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
