"""What ``import kstore`` may load, seen in a fresh interpreter. Names, not milliseconds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidy.sources import SRC

HEAVY = """
numpy numba llvmlite pyarrow pyspark cramjam crc32c asyncio concurrent multiprocessing typing
inspect dataclasses logging socket ssl subprocess threading urllib email json pathlib datetime
argparse tempfile shutil mmap
"""

# A broker without TLS and metrics starts without these: each takes 5 to 200 ms.
NOT_FOR_A_START = """
numpy numba llvmlite pyarrow pyspark cramjam crc32c asyncio multiprocessing ssl subprocess http
socketserver email html stringprep argparse tempfile prometheus_client cryptography
"""
MOST_OF_A_START = 545  # modules, Python's own included
# Not before the port is open: loaded by the first use, or behind the open port.
NOT_BEFORE_THE_PORT = (
    "difflib",
    "hashlib",
    "hmac",
    "secrets",
    "uuid",
    "kstore.client.consumer",
    "kstore.client.producer",
    "kstore.cluster.adoption",
    "kstore.compaction.cleaner",
    "kstore.coordinator.group.list_groups",
    "kstore.coordinator.group.offsets_table",
    "kstore.coordinator.group.server_assignors",
    "kstore.coordinator.transaction",
    "kstore.protocol.records",
    "kstore.protocol.schema.table",
    "kstore.security.jaas",
    "kstore.security.mapping_rules",
    "kstore.security.scram",
    "kstore.segment.cleaned_segment",
    "kstore.segment.find_next_batch",
    "kstore.segment.salvage",
    "kstore.store.atomic_publish",
    "kstore.store.merge_reports",
    "kstore.store.topic_deletion",
)
MOST_BEFORE_THE_PORT = 264  # of kstore's
MOST_WITH_PYTHONS_OWN = 360  # 350 with CPython 3.11, 353 with 3.13


def run(code: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter without site packages' start-up hooks."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), *sys.path])}
    return subprocess.run(
        [sys.executable, "-S", *flags, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def loaded_by(code: str) -> set[str]:
    """Modules that the code adds to a bare interpreter."""
    probe = f"import sys; before = set(sys.modules)\n{code}\nnew = set(sys.modules) - before\n"
    result = run(probe + "import json; print(json.dumps(sorted(new)))")
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout))


def test_import_loads_next_to_nothing() -> None:
    loaded = loaded_by("import kstore")
    assert sorted(name for name in loaded if name.partition(".")[0] in HEAVY.split()) == []
    assert {name for name in loaded if name.startswith("kstore")} == {"kstore"}


def test_dir_and_unknown_names_load_nothing() -> None:
    code = "import kstore\ndir(kstore)\ntry:\n    kstore.nothing\nexcept AttributeError:\n    pass"
    assert not loaded_by(code) & {"numpy", "numba", "typing", "asyncio"}


def test_the_door_loads_only_what_is_taken() -> None:
    def kstore_modules(code: str) -> set[str]:
        return {name for name in loaded_by(code) if name.startswith("kstore")}

    assert kstore_modules("import kstore.partition_files") == {"kstore", "kstore.partition_files"}
    assert kstore_modules("from kstore.partition_files import Files, filenames") == (
        kstore_modules("from kstore.files import filenames, files") | {"kstore.partition_files"}
    )


def test_every_name_of_the_door_resolves() -> None:
    result = run(
        "from kstore import partition_files as door\n"
        "for name in [*door._MODULES, *door._HOME]: getattr(door, name)\n"
        "try:\n    door.nothing\nexcept AttributeError as error:\n    print(error)"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "module 'kstore.partition_files' has no attribute 'nothing'\n"


def test_the_start_of_a_broker_loads_what_it_needs(tmp_path: Path) -> None:
    loaded = loaded_by(
        f"import kstore\nbroker = kstore.serve({os.fspath(tmp_path)!r}, port=0)\nbroker.close()"
    )
    assert not {name.partition(".")[0] for name in loaded} & set(NOT_FOR_A_START.split())
    assert len(loaded) <= MOST_OF_A_START, len(loaded)


def test_the_port_opens_before_anything_else_is_loaded(tmp_path: Path) -> None:
    loaded = loaded_by(
        "import kstore\n"
        "from kstore.broker.listener_set import ListenerSet\n"
        "at_the_port = set()\n"
        "opens = ListenerSet.open\n"
        "def open_ports(self):\n"
        "    opens(self)\n"
        "    at_the_port.update(sys.modules)\n"
        "ListenerSet.open = open_ports\n"
        f"kstore.serve({os.fspath(tmp_path)!r}, port=0).close()\n"
        "for name in set(sys.modules) - at_the_port: del sys.modules[name]"
    )
    early = [
        name
        for name in loaded
        if any(name == each or name.startswith(f"{each}.") for each in NOT_BEFORE_THE_PORT)
    ]
    assert early == []
    ours = [name for name in loaded if name.partition(".")[0] == "kstore"]
    assert 200 < len(ours) <= MOST_BEFORE_THE_PORT, len(ours)
    assert len(loaded) <= MOST_WITH_PYTHONS_OWN, len(loaded)


def test_errors_and_settings_load_no_third_party() -> None:
    loaded = loaded_by("import kstore\nkstore.LogConfig\nkstore.KStoreError")
    assert not loaded & {"numpy", "numba", "pyarrow", "cramjam", "crc32c", "asyncio"}


def test_every_public_name_resolves() -> None:
    result = run("import kstore\nfor name in kstore.__all__: getattr(kstore, name)")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("platform", ["darwin", "win32", "freebsd14"])
def test_other_systems_are_refused_by_name(platform: str) -> None:
    result = run(f"import sys; sys.platform = {platform!r}; import kstore")
    assert result.returncode == 1
    assert f"kstore runs on Linux only, not on {platform}" in result.stderr


def test_free_threaded_python_is_refused_by_name() -> None:
    result = run("import sys; sys._is_gil_enabled = lambda: False; import kstore")
    assert result.returncode == 1
    assert "free-threaded" in result.stderr
    assert run("import sys; sys._is_gil_enabled = lambda: True; import kstore").returncode == 0
