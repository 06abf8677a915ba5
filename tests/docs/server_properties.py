"""The tables of the guide's page about server.properties, from the code. `make server-properties`
writes them."""

import re
from pathlib import Path

from kstore.broker.server_properties import (
    HONOURED,
    IGNORED,
    REFUSED,
    REFUSED_UNLESS,
    SECURITY,
    documented_keys,
    handling_of,
)
from kstore.broker.settings import BrokerSettings
from kstore.cluster.settings.broker_settings import BROKER_SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "server-properties.md"
_TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rows(handling: str) -> list[str]:
    """The lines of the table of one handling."""
    names = [name for name in documented_keys() if handling_of(name) == handling]
    if handling == REFUSED:
        return ["| key | unless | because |", "|---|---|---|"] + [
            f"| `{name}` | {harmless or 'empty'} | {reason} |"
            for name in names
            for harmless, reason in [REFUSED_UNLESS[name]]
        ]
    if handling == HONOURED:
        return ["| key | default |", "|---|---|"] + [
            f"| `{name}` | {shown(name)} |" for name in names
        ]
    assert handling in (IGNORED, SECURITY)
    return [", ".join(f"`{name}`" for name in names) + "."]


def shown(name: str) -> str:
    """The default of a key in a cell."""
    setting = BROKER_SETTINGS.get(name)
    own = BrokerSettings().to_properties().get(name, "")
    default = own if setting is None or setting.default is None else setting.default
    return f"`{default}`" if default else ""


def with_tables(text: str) -> str:
    """The page with its tables as the code has them."""
    return _TABLE.sub(lambda found: found[1] + "\n".join(rows(found[2])) + "\n" + found[3], text)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
