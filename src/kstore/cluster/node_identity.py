"""The node id and cluster id of a store, from ``meta.properties`` if it exists.

kstore neither changes nor creates ``meta.properties``. Without it, the node id is the one that the
caller requests, or 0, and the cluster id is generated once and kept in ``kstore.broker``.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.meta_properties import read_meta_properties
from kstore.errors import InvalidConfigError

_FIRST_NODE = 0


class NodeIdentity(NamedTuple):
    """``cluster_id`` is None if no ``meta.properties`` has one."""

    node_id: int
    cluster_id: str | None


def find_node_identity(log_dirs: Iterable[LogDir], wanted: int | None) -> NodeIdentity:
    """Read the identity from the ``meta.properties`` of the online directories.

    Raises InvalidConfigError if two files differ (as Kafka's MetaPropertiesEnsemble does) or if
    ``wanted`` is a different node id; CorruptFileError.
    """
    node_ids: dict[int, str] = {}
    cluster_ids: dict[str, str] = {}
    for log_dir in log_dirs:
        if log_dir.offline is not None:
            continue
        found = read_meta_properties(log_dir.files, log_dir.path)
        if found is not None and found.node_id is not None:
            node_ids.setdefault(found.node_id, log_dir.path)
        if found is not None and found.cluster_id is not None:
            cluster_ids.setdefault(found.cluster_id, log_dir.path)
    _check_single("node ids", {str(key): path for key, path in node_ids.items()})
    _check_single("cluster ids", cluster_ids)
    node_id = next(iter(node_ids), None)
    if node_id is not None and wanted is not None and wanted != node_id:
        raise InvalidConfigError(
            f"node.id is {wanted}, but meta.properties of {node_ids[node_id]} has {node_id}: the "
            "directory belongs to that node"
        )
    if node_id is None:
        node_id = _FIRST_NODE if wanted is None else wanted
    return NodeIdentity(node_id, next(iter(cluster_ids), None))


def _check_single(what: str, found: dict[str, str]) -> None:
    if len(found) > 1:
        listed = ", ".join(f"{value} in {path}" for value, path in found.items())
        raise InvalidConfigError(f"the log directories have different {what}: {listed}")
