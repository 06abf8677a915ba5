"""Names that look like a mistaken one, for the hint of an error."""

from collections.abc import Iterable


def close_names(name: str, known: Iterable[str], most: int = 3, cutoff: float = 0.6) -> list[str]:
    """At most ``most`` of the known names, the closest first; none below ``cutoff`` (of 0 to 1).

    Where Python's difflib cannot be loaded, because the process has no free file descriptor, the
    result is empty: the error that asks for a hint is raised without one. Any thread.
    """
    try:
        from difflib import get_close_matches  # loaded to name a mistake only
    except (OSError, ImportError):
        return []
    return get_close_matches(name, list(known), most, cutoff)
