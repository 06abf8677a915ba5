from typing import Any

from kstore._native.log_end import LogEnd

class Admission(LogEnd):
    def append_as_leader(self, batch: Any) -> Any: ...
    def append_as_follower(self, batches: Any) -> Any: ...
