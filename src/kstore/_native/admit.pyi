from typing import Any

from kstore._native.log_end import LogEnd

class Admission(LogEnd):
    def append_as_leader(self, batch: Any) -> Any: ...
    def append_as_coordinator(self, batch: Any) -> Any: ...
    def append_end_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        timestamp: int = -1,
    ) -> Any: ...
    def append_as_follower(self, batches: Any) -> Any: ...
