"""Explains predicates that treat a row's key or value as Python's bytes.

In compiled code they are arrays of uint8: ``==`` compares arrays and does not compile, ``is None``
compiles and is never true. The bytecode shows both before Numba sees them.
"""

import dis
import re
from collections.abc import Sequence
from types import CodeType

_BYTES = ("key", "value")
_OPERAND = ("LOAD_CONST", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
RESULT = "a predicate returns"  # the first words of the error for a wrong type
_RESULT = re.compile(rf"{RESULT} (?:readonly )?(\w+)")
_UNKNOWN = re.compile(r"Unknown attribute '(\w+)' of type (.*)")


def refuse_comparisons(code: CodeType) -> None:
    """Raise TypeError where a predicate compares a row's key or value, naming what to call."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in _IGNORED]
    aliases = _aliases(steps, code.co_varnames[:1])
    for n, step in enumerate(steps):
        jumps_at_none = "JUMP" in step.opname and step.opname.endswith("_NONE")
        compares = step.opname in ("COMPARE_OP", "IS_OP", "CONTAINS_OP")
        if not compares and not jumps_at_none:
            continue
        ends = [n - 1]
        if compares and n and _is_operand(steps, n - 1, aliases):
            ends.append(n - 1 - _length(steps, n - 1, aliases))
        for end in ends:
            name = _field_at(steps, end, aliases)
            if name is not None:
                is_none = jumps_at_none or any(
                    each.opname == "LOAD_CONST" and each.argval is None
                    for each in steps[max(n - 3, 0) : n]
                )
                raise TypeError(_advice(name, step, is_none))


_IGNORED = ("CACHE", "RESUME", "PRECALL", "PUSH_NULL", "NOP", "COPY_FREE_VARS", "TO_BOOL")


def _aliases(steps: Sequence[dis.Instruction], row: tuple[str, ...]) -> dict[str, str]:
    """Local variables that are the row ("") or its key or value."""
    known = dict.fromkeys(row, "")
    for n, step in enumerate(steps[1:], 1):
        if step.opname == "STORE_FAST" and (name := _field_at(steps, n - 1, known)) is not None:
            known[str(step.argval)] = name
    return known


def _field_at(steps: Sequence[dis.Instruction], n: int, aliases: dict[str, str]) -> str | None:
    """``key`` or ``value`` where the step n loads that field of the row."""
    if n < 0:
        return None
    step = steps[n]
    if step.opname.startswith("LOAD_FAST"):
        return aliases.get(step.argval) or None
    is_field = step.opname == "LOAD_ATTR" and step.argval in _BYTES and n > 0
    if is_field and aliases.get(steps[n - 1].argval) == "":
        return str(step.argval)
    return None


def _is_operand(steps: Sequence[dis.Instruction], n: int, aliases: dict[str, str]) -> bool:
    return steps[n].opname.startswith(_OPERAND) or _field_at(steps, n, aliases) is not None


def _length(steps: Sequence[dis.Instruction], n: int, aliases: dict[str, str]) -> int:
    """How many steps load the operand that ends at n."""
    return 2 if steps[n].opname == "LOAD_ATTR" else 1


def _advice(name: str, step: dis.Instruction, is_none: bool) -> str:
    if is_none:
        return (
            f"row.{name} is never None in a compiled predicate: row.{name}_length < 0 says that "
            "it is null"
        )
    call = f"kstore.jit.equals(row.{name}, b'...')"
    if step.opname == "CONTAINS_OP":
        call = f"kstore.jit.contains(row.{name}, b'...') to search in it, {call} to compare it"
    elif step.argval == "!=":
        call = f"not {call}"
    return f"a compiled predicate does not compare row.{name} by an operator: write {call}"


def explain(error: Exception, code: CodeType) -> str:
    """One sentence on why Numba does not compile a predicate; the error itself has the rest."""
    text = _COLOR.sub("", str(error))
    if result := _RESULT.search(text):
        kinds = {"array": "bytes", "unicode_type": "text", "Row": "the row"}
        return (
            f"it returns {kinds.get(result[1], result[1])}, but may return a bool, a number or "
            "None: compare by kstore.jit.equals, or by row.key_length and row.value_length, -1 of "
            "which are null"
        )
    unknown = _UNKNOWN.search(text)
    if unknown and "array(uint8" in unknown[2] and "Row(" not in unknown[2]:
        return (
            f"a row's key and value are arrays of uint8 without {unknown[1]}: use "
            "row.key_length, row.value_length, kstore.jit.equals, starts_with or contains"
        )
    if unknown and unknown[2].startswith("Row("):
        return (
            f"a row has no {unknown[1]}: it has offset, timestamp, key, value, key_length and "
            "value_length"
        )
    if {"key", "value"} & set(code.co_names) and "array(" in text:
        return (
            "a row's key and value are arrays of uint8: compare them by kstore.jit.equals, "
            "starts_with or contains"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reasons = [line for line in lines if not line.startswith(("Failed in", "During:", "File"))]
    return (reasons or lines or ["no reason given"])[0]
