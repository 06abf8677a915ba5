"""How a run of the contests records the kernels that they call."""

import pytest

from kstore._native.format import murmur2 as module
from kstore._native.format.murmur2 import murmur2
from support import kernels


def test_calls_of_kernels_are_recorded_and_the_kernels_are_restored():
    with kernels.seen() as called:
        assert module.murmur2(b"21") == -973932308
        assert module.murmur2.__name__ == "murmur2"
    assert called == {"murmur2.murmur2"}
    assert module.murmur2 is murmur2
    with pytest.raises(AttributeError):
        _ = module.murmur2._kernel
