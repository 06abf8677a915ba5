"""Compiles the C programs, runs the load generator, and parses its output."""

import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from load.frames import Frame

HERE = Path(__file__).parent
PATIENCE = 600  # seconds for one run


@dataclass(frozen=True)
class Measured:
    """The results of one run of the generator."""

    requests: int
    bytes: int  # of records for fetch, otherwise of requests
    seconds: float
    cpu: float  # seconds of the generator
    p50: float  # seconds, as the others
    p99: float
    p999: float
    longest: float
    sent: tuple[int, ...]  # requests of each connection, including the warm-up


class GeneratorError(AssertionError):
    """The generator received an unexpected response, or none."""


def compile_program(name: str, directory: Path, options: Sequence[str] = ()) -> Path:
    """``directory/name``, built from ``name.c`` with the C compiler of the environment."""
    program = directory / name
    command = [*shlex.split(os.environ.get("CC", "cc")), "-O2", "-o", os.fspath(program), *options]
    subprocess.run([*command, os.fspath(HERE / f"{name}.c"), "-ldl"], check=True)
    return program


def compile_library(name: str, directory: Path) -> Path:
    """A library for LD_PRELOAD, built from ``name.c``."""
    return compile_program(name, directory, ["-shared", "-fPIC"])


class Generator:
    """The load generator, compiled into a scratch directory that also takes its frames."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._program = compile_program("load_generator", directory)

    def run(self, mode: str, port: int, frames: Sequence[Frame], **options: int) -> Measured:
        """Run the generator. Raises GeneratorError with its message on an unexpected response."""
        paths = [self._directory / f"frame-{number}" for number in range(len(frames))]
        for path, frame in zip(paths, frames, strict=True):
            path.write_bytes(frame.data)
        first = frames[0]
        options |= {"port": port, "connections": len(frames), "error_at": first.error_at}
        if first.records_at >= 0:
            options |= {"records_at": first.records_at, "offset_at": first.offset_at}
        words = [f"{name}={value}" for name, value in options.items()]
        done = subprocess.run(
            [self._program, mode, *words, *paths], capture_output=True, text=True, timeout=PATIENCE
        )
        if done.returncode:
            raise GeneratorError(f"{mode} {' '.join(words)}: {done.stderr.strip()}")
        found = json.loads(done.stdout)
        times = {name: found[name] / 1e9 for name in ("p50", "p99", "p999", "longest")}
        return Measured(**{**found, **times, "sent": tuple(found["sent"])})
