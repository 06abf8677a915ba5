"""Kafka's sentences for wrong options: those of joptsimple, or of argparse4j in tools with actions.

Each has argparse's own words, or a hint, on the line after it.
"""

import re
from collections.abc import Collection, Sequence

from kstore.integers import INT32_MAX

_MISSING = re.compile(r"the following arguments are required: (\S+?),?(?: |/|$)")
_WRONG_VALUE = re.compile(
    r"argument (?P<option>\S+): (?P<why>.*, not (?P<quote>['\"])(?P<value>.*)(?P=quote).*"
    r"|invalid choice: (?P<choice>'.*?') .*)"
)
_CHOICE = re.compile(r"[^', )]+")


def unknown_option(words: Sequence[str], known: Collection[str]) -> str | None:
    """The first option among the words that a tool does not have."""
    names = (word.partition("=")[0] for word in words if word.startswith("--") and word != "--")
    return next((name for name in names if name not in known), None)


def kafka_sentence(message: str, unknown: str | None, *, of_actions: bool) -> tuple[str, str]:
    """Kafka's sentence for a message of argparse, and argparse's words where they say more.

    ``unknown`` is an option that the tool does not have: Kafka reports it before all else.
    """
    if unknown is not None:
        if of_actions:
            return f"unrecognized arguments: '{unknown}'", ""
        return f"{unknown.lstrip('-')} is not a recognized option", ""
    if missing := _MISSING.match(message):
        name = missing[1].partition("/")[0]
        if not of_actions:
            return f'Missing required argument "[{name.lstrip("-")}]"', ""
        return (f"argument {name} is required" if name.startswith("-") else "too few arguments"), ""
    if without := re.fullmatch(r"argument (\S+): expected (?:one|at least one) argument", message):
        name = without[1].partition("/")[0]
        if of_actions:
            return f"argument {name}: expected one argument", ""
        return f"Option {name.lstrip('-')} requires an argument", ""
    if wrong := _WRONG_VALUE.fullmatch(message):
        name = wrong["option"].partition("/")[0]
        value = wrong["value"] or (wrong["choice"] or "''")[1:-1]
        if not name.startswith("-"):
            return wrong["why"], ""
        if of_actions and wrong["choice"]:
            choices = ",".join(_CHOICE.findall(wrong["why"].partition("(choose from")[2]))
            return f"argument {name}: invalid choice: '{value}' (choose from {{{choices}}})", ""
        if of_actions:
            java = _java_number(value, wrong["why"])
            return f"argument {name}: could not convert '{value}'{java}", f"{name}: {wrong['why']}"
        parsed = f"Cannot parse argument '{value}' of option {name.lstrip('-')}"
        return parsed, f"{name}: {wrong['why']}"
    if of_actions and (extra := re.fullmatch("unrecognized arguments: (.*)", message)):
        return f"unrecognized arguments: '{extra[1]}'", ""
    return message, ""


def _java_number(value: str, why: str) -> str:
    """What Java adds for a text that is no number: the type, which its largest value shows."""
    limits = re.match(r"a whole number from (-?\d+) to (\d+), not ", why)
    if limits is None or re.fullmatch(r"[+-]?\d+", value):
        return ""
    kind = "Integer" if int(limits[2]) <= INT32_MAX else "Long"
    return f' to {kind} (For input string: "{value}")'
