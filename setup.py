"""The compiled half of kstore: one extension for each ``.pyx`` below ``kstore/_native``.

Four switches, all for development: ``KSTORE_SANITIZE=1`` builds with ASan and UBSan,
``KSTORE_DEBUG=1`` without optimisation and with line tracing, ``KSTORE_LINES=1`` the same code
as ever with the lines of the ``.pyx`` files for profilers and debuggers, ``KSTORE_ANNOTATE=1``
writes Cython's HTML reports. A wheel never depends on the building machine's CPU: kernels choose
their instructions at run time.
"""

import os
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

NATIVE = Path("src/kstore/_native")
SANITIZE = os.environ.get("KSTORE_SANITIZE") == "1"
LINES = os.environ.get("KSTORE_LINES") == "1"
DEBUG = os.environ.get("KSTORE_DEBUG") == "1"
ANNOTATE = os.environ.get("KSTORE_ANNOTATE") == "1"

HARDENING = [
    "-fstack-protector-strong",
    "-fno-plt",
    "-fvisibility=hidden",
    "-Wformat",
    "-Werror=format-security",
]
LINK_HARDENING = ["-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]


def compile_flags() -> list[str]:
    """Flags of the one build that was asked for."""
    lines = "-g1" if LINES else "-g0"
    flags = [*HARDENING, "-std=c11", "-D_GNU_SOURCE", lines, f"-ffile-prefix-map={Path.cwd()}=."]
    if SANITIZE:
        return [
            *flags,
            "-O1",
            "-g",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=undefined",
            "-fno-omit-frame-pointer",
            "-fno-wrapv",
        ]
    if DEBUG:
        return [*flags, "-O0", "-g", "-DCYTHON_TRACE=1", "-DCYTHON_TRACE_NOGIL=1"]
    return [*flags, "-O3", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]


def link_flags() -> list[str]:
    return [*LINK_HARDENING, *(["-fsanitize=address,undefined"] if SANITIZE else [])]


def extensions() -> list[Extension]:
    """The longest source first, so that no core waits for one that began last."""
    headers = [str(path) for path in sorted(NATIVE.rglob("*.h"))]
    return [
        Extension(
            ".".join(source.relative_to("src").with_suffix("").parts),
            [str(source)],
            include_dirs=[str(NATIVE)],
            depends=headers,
            extra_compile_args=compile_flags(),
            extra_link_args=link_flags(),
        )
        for source in sorted(NATIVE.rglob("*.pyx"), key=lambda path: -path.stat().st_size)
    ]


def is_built_in_place(extension: Extension) -> bool:
    """The module stands beside its sources and is as new as all of them."""
    name = extension.name.replace(".", os.sep) + sysconfig.get_config_var("EXT_SUFFIX")
    module = Path("src", name)
    return module.exists() and all(
        Path(source).stat().st_mtime <= module.stat().st_mtime
        for source in [*extension.sources, *extension.depends]
    )


class BuildExtensions(build_ext):
    """Compiles on all cores, and in an editable install only what is not compiled in place.

    setuptools gives an editable install an empty build directory, in which no module is up to
    date.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or len(os.sched_getaffinity(0))

    def run(self) -> None:
        if not (self.editable_mode and all(map(is_built_in_place, self.extensions))):
            super().run()


class SourceDistribution(sdist):
    """Ships what Cython compiles; setuptools knows only what Cython made of it."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        kept = [name for name in files if not name.endswith(".c")]
        super().make_release_tree(base_dir, [*kept, *map(str, sorted(NATIVE.rglob("*.pyx")))])


# Cython's worker processes may import this file.
if __name__ == "__main__":
    setup(
        cmdclass={"build_ext": BuildExtensions, "sdist": SourceDistribution},
        ext_modules=cythonize(
            extensions(),
            include_path=["src"],
            nthreads=len(os.sched_getaffinity(0)),
            annotate=ANNOTATE,
            emit_linenums=LINES,
            compiler_directives={
                "language_level": 3,
                "boundscheck": True,
                "wraparound": False,
                "cdivision": True,
                "embedsignature": False,
                "linetrace": DEBUG,
            },
        ),
    )
