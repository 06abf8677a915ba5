"""Differences between the answers of two brokers, a readable line for each."""

from collections.abc import Iterator

from interop.same_bytes.allowed import ALLOWED, Allowed
from interop.same_bytes.asker import Answers

_CONVERTED = tuple(f"FETCH {version} " for version in range(4))
SHOWN = 160  # characters of a value


def differences(kafka: Answers, kstore: Answers) -> list[str]:
    """`QUESTION: FIELD: Kafka VALUE, kstore VALUE` for each field that differs."""
    found = []
    for title, lines in kafka.items():
        if title not in kstore:
            found.append(f"{title}: Kafka {_short(lines[0])}, kstore was not asked")
        elif kstore[title] != lines:
            is_converted = title.startswith(_CONVERTED)
            fields = _fields(lines, kstore[title], is_converted)
            found += [f"{title}: {line}" for line in fields]
    found += [f"{title}: Kafka was not asked" for title in kstore if title not in kafka]
    return found


def not_allowed(found: list[str], allowed: Allowed = ALLOWED) -> list[str]:
    """The differences for which `allowed` has no reason."""
    return [line for line in found if not any(each.search(line) for each, _ in allowed)]


def unused(found: list[str], allowed: Allowed = ALLOWED) -> list[str]:
    """The reasons for differences that are gone."""
    return [each.pattern for each, _ in allowed if not any(map(each.search, found))]


def _fields(kafka: list[str], kstore: list[str], is_converted: bool) -> Iterator[str]:
    """A line for each value that differs, and one for each element that only one answer has.

    ``is_converted``: kstore may have more records than Kafka, which cuts them off at the size
    that they had before they were converted to an older format.
    """
    left, right = _by_path(kafka), _by_path(kstore)
    seen = set()
    for path in [*left, *(path for path in right if path not in left)]:
        mine, its = right.get(path), left.get(path)
        if mine == its:
            continue
        is_cut = is_converted and path.endswith(".records") and None not in (mine, its)
        if is_cut and (mine or "").startswith((its or "").removesuffix("]")):
            continue
        if mine is not None and its is not None:
            yield f"{path}: Kafka {_short(its)}, kstore {_short(mine)}"
            continue
        element = _absent_element(path, left if its is None else right)
        if element not in seen:
            seen.add(element)
            has, other = ("Kafka", "kstore") if mine is None else ("kstore", "Kafka")
            value = f" {_short(its or mine or '')}" if element == path else ""
            yield f"{element}: {has} has it{value}, {other} has not"


def _absent_element(path: str, other: dict[str, str]) -> str:
    """The outermost element around a field that the other answer does not have at all."""
    at = path.find("]")
    while at >= 0:
        element = path[: at + 1]
        if not any(each.startswith(element) for each in other):
            return element
        at = path.find("]", at + 1)
    return path


def _by_path(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        path, _, value = line.partition("=")
        while path in found:
            path += "'"
        found[path] = value if _ else "that"
    return found


def _short(value: str) -> str:
    return value if len(value) <= SHOWN else f"{value[:SHOWN]}... ({len(value)})"
