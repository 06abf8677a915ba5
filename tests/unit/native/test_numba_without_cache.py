"""Compiled functions where Numba finds no directory for its cache: each process compiles them."""

import os
import subprocess
import sys

import pytest

# As of a service user without a home, in a read-only installation. root may write anywhere, so
# Numba's own choices are reduced to the one that the environment names.
PROGRAM = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = [caching.UserProvidedCacheLocator]
import numpy as np
from types import SimpleNamespace as Some
from kstore import jit
from kstore._native.jit import kernels
print(type(kernels.key_hash._cache).__name__)
none = Some(data=b"", positions=np.zeros(3, int), lengths=np.zeros(3, np.int32))
rows = Some(offsets=np.arange(3), timestamps=np.arange(3), keys=none, values=none)
print(jit.compile_predicate(lambda row: row.offset > 1).rows(rows).tolist())
"""


@pytest.mark.parametrize("is_writable", [True, False])
def test_functions_are_compiled_without_a_cache(is_writable: bool, tmp_path: object) -> None:
    directory = str(tmp_path) if is_writable else "/dev/null/cache"
    environment = {**os.environ, "NUMBA_CACHE_DIR": directory}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cache = "FunctionCache" if is_writable else "NullCache"
    assert done.stdout.splitlines() == [cache, "[2]"]
