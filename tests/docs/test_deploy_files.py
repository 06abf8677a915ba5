"""The files of ``docs/deploy``: the systemd unit, and the container file, without an engine."""

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kstore.cli import serve
from kstore.cli.common import ToolParser
from support.serve_process import WAIT, serving

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
CONTAINERFILE = DEPLOY / "Containerfile"
EXTRAS = {"metrics", "patterns", "oauth", "keystores"}
Steps = list[tuple[str, str]]


def options_of(words: list[str]) -> argparse.Namespace:
    """The options of a command line, as the tool reads them."""
    parser = ToolParser(prog="kstore serve")
    serve.describe(parser)
    found = parser.parse_args(words)
    assert isinstance(found, argparse.Namespace)
    return found


def unit() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "kstore.service").read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            name, equals, value = line.partition("=")
            assert equals, line
            assert value, line
            found.setdefault(name, []).append(value)
    return found


def steps() -> Steps:
    """The instructions of the container file with their arguments, in order."""
    text = CONTAINERFILE.read_text().replace("\\\n", " ")
    return re.findall(r"^([A-Z]+) (.*)$", text, re.MULTILINE)


def argument(name: str) -> str:
    """The argument of an instruction that the container file has once."""
    [found] = [text for instruction, text in steps() if instruction == name]
    return found


def installed_extras(text: str) -> set[str]:
    """What a line of pip installs with kstore."""
    [found] = re.findall(r"pip install (?:--no-cache-dir )?'[\w/]+\[([\w,]+)\]'", text)
    return set(found.split(","))


def test_both_install_the_extras_of_a_broker() -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"].keys() >= EXTRAS
    assert installed_extras((DEPLOY / "kstore.service").read_text()) == EXTRAS
    assert installed_extras(CONTAINERFILE.read_text()) == EXTRAS
    page = (ROOT / "docs" / "guide" / "operate.md").read_text()
    assert set(re.findall(r"kstore\[([\w,]+,[\w,]+)\]", page)) == {
        "metrics,patterns,oauth,keystores"
    }


def test_the_unit_starts_a_broker_that_reports_to_it() -> None:
    found = unit()
    [command] = found["ExecStart"]
    program, tool, *words = shlex.split(command)
    assert (Path(program).name, tool) == ("kstore", "serve")
    options = options_of(words)
    assert options.log_dir == ["/var/lib/kstore"]
    assert options.log_dir == [f"/var/lib/{found['StateDirectory'][0]}"]  # ProtectSystem=strict
    assert options.log_format == "json"
    assert found["Type"] == ["notify"]
    assert found["TimeoutStartSec"] == ["infinity"]  # a recovery may come before READY=1
    assert found["NotifyAccess"] == ["main"]  # no process of its own reports
    assert "AF_UNIX" in found["RestrictAddressFamilies"][0]  # NOTIFY_SOCKET
    assert found["KillSignal"] == ["SIGTERM"]


def test_the_container_starts_a_broker_whose_health_is_asked() -> None:
    program, tool, *words = json.loads(argument("ENTRYPOINT"))
    assert (Path(program).name, tool) == ("kstore", "serve")
    options = options_of(words)
    assert options.log_dir == [argument("VOLUME")]
    assert options.listen == "0.0.0.0"
    assert argument("EXPOSE").split() == ["9092", str(options.metrics_port)]
    assert f"127.0.0.1:{options.metrics_port}/live" in argument("HEALTHCHECK")
    assert options.metrics_listen == "0.0.0.0"
    options_of([*words, *words_of_a_run()])


def words_of_a_run() -> list[str]:
    """The options of kstore in the container file's example."""
    [found] = re.findall(r"^# +podman run (.*)$", CONTAINERFILE.read_text(), re.MULTILINE)
    words = shlex.split(found)
    [seconds] = unit()["TimeoutStopSec"]
    assert words[words.index("--stop-timeout") + 1] == seconds
    return words[words.index("kstore") + 1 :]


def test_the_image_s_user_is_a_number_that_owns_the_volume() -> None:
    commands = " && ".join(text for instruction, text in steps() if instruction == "RUN")
    assert f"useradd --system --uid {argument('USER')} kstore" in commands
    assert argument("USER").isdecimal()
    assert f"chown kstore {argument('VOLUME')}" in commands


def test_a_build_keeps_the_health_check() -> None:
    texts = [CONTAINERFILE.read_text(), (ROOT / "docs" / "guide" / "operate.md").read_text()]
    for text in texts:
        builds = re.findall(r"podman build .*-f.*", text)
        assert builds
        assert all("--format docker" in each for each in builds)


def test_the_health_check_s_words_ask_the_entry_point_s_broker(tmp_path: Path) -> None:
    _, _, *words = json.loads(argument("ENTRYPOINT"))
    port = str(options_of(words).metrics_port)
    words = ["0" if word == port else word for word in words]
    words = [str(tmp_path) if word == argument("VOLUME") else word for word in words]
    with serving(*words, *words_of_a_run()) as (process, address):
        assert address.isdecimal()  # advertised localhost:9092, listening on port N
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        chosen = urlsplit(line.removeprefix("metrics are on ").strip()).port
        _, program, *check = json.loads(f'["", {argument("HEALTHCHECK").partition("[")[2]}')
        assert Path(program).name == "python"
        command = [sys.executable, *(word.replace(f":{port}/", f":{chosen}/") for word in check)]
        assert command[-1].endswith(f":{chosen}/live')")
        up = subprocess.run(command, capture_output=True, timeout=WAIT, check=False)
        assert (up.returncode, up.stderr) == (0, b"")
        process.terminate()
        assert process.wait(WAIT) == 0
        down = subprocess.run(command, capture_output=True, timeout=WAIT, check=False)
        assert down.returncode != 0


def copies() -> list[tuple[list[str], str]]:
    """What the image's build takes from the clone, and to which directory."""
    found = []
    for instruction, text in steps():
        if instruction == "COPY" and not text.startswith("--from"):
            *sources, target = text.split()
            found.append((sources, target))
    return found


def copy_into(folder: Path) -> None:
    """Fill a directory as the container file fills that of the image's build."""
    [source] = re.findall(r"pip install .*'([\w/]+)\[", CONTAINERFILE.read_text())
    for sources, target in copies():
        below = folder / Path(target).relative_to(source)
        for name in sources:
            path = ROOT / name
            assert path.exists(), name
            if path.is_dir():
                skip = shutil.ignore_patterns("__pycache__", "*.c", "*.so", "*.egg-info")
                shutil.copytree(path, below, ignore=skip)
            else:
                below.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, below)


def test_what_the_image_copies_is_enough_for_its_build(tmp_path: Path) -> None:
    """All but Cython's and the compiler's part, which takes minutes: nothing is translated."""
    names = {name for sources, _ in copies() for name in sources}
    assert not names & {".", "*", "build", "tests", "docs"}
    copy_into(tmp_path / "src")
    program = (
        "import Cython.Build\n"
        "Cython.Build.cythonize = lambda modules, **options: print(len(modules)) or []\n"
        "from setuptools.build_meta import prepare_metadata_for_build_wheel as prepare\n"
        "print(prepare('out'))"
    )
    (tmp_path / "src" / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "src", capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == str(len([*(ROOT / "src").rglob("*.pyx")]))
    written = tmp_path / "src" / "out" / done.stdout.splitlines()[-1]
    metadata = (written / "METADATA").read_text()
    assert set(re.findall(r"^Provides-Extra: (\w+)$", metadata, re.MULTILINE)) >= EXTRAS
    assert (ROOT / "README.md").read_text().splitlines()[0] in metadata.splitlines()
    assert "LICENSE" in {path.name for path in written.rglob("*")}


def test_no_code_of_the_clone_s_own_build_is_in_the_image() -> None:
    run = next(text for instruction, text in steps() if instruction == "RUN" and "find" in text)
    words = shlex.split(run)
    assert words[:2] == ["find", "/src/src"]
    assert words[-1] == "-delete"
    assert {words[n + 1] for n, word in enumerate(words) if word == "-name"} == {"*.c", "*.so"}
    written = {
        path.name for path in (ROOT / "src").rglob("*.c") if not path.with_suffix(".pyx").exists()
    }
    assert written == set(), "C that Cython does not write would be deleted"
