"""Creates certificates for tests with openssl: an authority, servers, clients."""

import subprocess
from pathlib import Path


def openssl(*words: str, folder: Path) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)


class Authority:
    """A certificate authority with its files in a folder; clients trust ``certificate``."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.certificate = folder / f"{name}.pem"
        openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-nodes", "-days", "30", "-subj", f"/CN={name}",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",  # Python 3.13 insists on it
            "-keyout", f"{name}.key", "-out", f"{name}.pem", folder=folder,
        )  # fmt: skip

    def issue(self, name: str, subject: str = "/CN=localhost", password: str = "") -> Path:
        """Create a file with a private key and certificate for a server or client."""
        secret = ["-passout", f"pass:{password}"] if password else ["-nodes"]
        openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *secret,
            "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr",
            folder=self.folder,
        )  # fmt: skip
        names = self.folder / "names.txt"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", f"{self.name}.pem", "-CAkey",
            f"{self.name}.key", "-CAcreateserial", "-days", "30", "-extfile", "names.txt",
            "-out", f"{name}.crt", folder=self.folder,
        )  # fmt: skip
        path = self.folder / f"{name}.pem"
        key, certificate = self.folder / f"{name}.key", self.folder / f"{name}.crt"
        path.write_text(key.read_text() + certificate.read_text())
        return path
