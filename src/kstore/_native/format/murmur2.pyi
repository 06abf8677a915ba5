from typing import TypeVar, overload

from typing_extensions import Buffer

_Out = TypeVar("_Out", bound=Buffer)

def murmur2(key: Buffer, /) -> int: ...
def partition_for_key(key: Buffer, partitions: int, /) -> int: ...
@overload
def partitions_for_keys(
    data: Buffer, positions: Buffer, lengths: Buffer, partitions: int, out: None = None
) -> memoryview: ...
@overload
def partitions_for_keys(
    data: Buffer, positions: Buffer, lengths: Buffer, partitions: int, out: _Out
) -> _Out: ...
