"""Kafka's shell scripts of a version, for the suites that call them."""

from pathlib import Path

from interop.kafka_jars import VERSIONS, java_command, prepare
from strangers.suite import NotRun

_ACLS = {"3": "kafka.admin.AclCommand", "4": "org.apache.kafka.tools.AclCommand"}
TOOLS_VERSION = VERSIONS[0]  # for suites that name none


def require_kafka(version: str = TOOLS_VERSION) -> None:
    """Fetch Kafka's jars of a version. Raises NotRun where they cannot be had."""
    _, reason = prepare(version)
    if reason:
        raise NotRun(reason)


def write_scripts(version: str, folder: Path) -> Path:
    """The folder, with a folder of scripts in it, as Kafka's distribution has them."""
    scripts = folder / "bin"
    scripts.mkdir()
    mains = {
        "topics": "org.apache.kafka.tools.TopicCommand",
        "acls": _ACLS[version[0]],
        "configs": "kafka.admin.ConfigCommand",
    }
    for name, main in mains.items():
        words = " ".join(f"'{word}'" for word in java_command(version, main))
        path = scripts / f"kafka-{name}.sh"
        path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        path.chmod(0o755)
    return folder
