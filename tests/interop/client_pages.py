"""The programs of the guide's pages about clients that Python does not run."""

import re
from pathlib import Path

import kstore

PAGES = Path(__file__).parents[2] / "docs" / "guide" / "clients"
SETTINGS = {"group.initial.rebalance.delay.ms": 0}  # as the pages start their broker
ORDERS = [f"order {n}".encode() for n in range(10)]


def program(page: str, language: str) -> str:
    """The one program of a page in a language."""
    text = (PAGES / page).read_text()
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(found)


def check_copied(broker: kstore.Broker) -> None:
    """Each order was copied once, with the offset of its group, in transactions."""
    store = broker.store
    orders = [record.value for log in store["orders"] for record in log]
    assert orders == ORDERS
    assert [record.value for record in store["paid"][0].view(isolation="read_committed")] == ORDERS
    assert store["paid"][0].end_offset > len(ORDERS)  # the markers of its transactions
    assert set(store.group("copier").lags.values()) <= {0, None}
    assert sum(each.offset for each in store.group("copier").offsets.values()) == len(ORDERS)
