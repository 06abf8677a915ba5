"""An offset-preserving, byte-for-byte local copy of a live Kafka topic.

:mod:`kstore.mirror.copy` decides and writes; :mod:`kstore.mirror.source` talks to the brokers.
"""

from kstore.mirror.copy import Mirror as Mirror
from kstore.mirror.report import MirrorReport as MirrorReport
from kstore.mirror.report import PartitionReport as PartitionReport
