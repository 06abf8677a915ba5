"""The pytest example of "A broker in a test" runs under pytest, as it is on the page."""

import re

import pytest

from docs.test_pages import ROOT

pytest_plugins = ["pytester"]

PAGE = ROOT / "docs" / "guide" / "broker-in-a-test.md"

# The module that the example imports: any code that sends with a client of Kafka.
_SHOP = """
from kafka import KafkaProducer


def send_orders(bootstrap_servers):
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    producer.send("orders", b"paid 12.50").get(timeout=30)
    producer.close()
"""


def section(title: str) -> str:
    """The text below a heading of the page, up to the next one of its level."""
    return PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_example_of_pytest_passes(pytester: pytest.Pytester) -> None:
    conftest, tests = re.findall(r"```python\n(.*?)```", section("With pytest"), re.DOTALL)
    pytester.makeconftest(conftest)
    pytester.makepyfile(shop=_SHOP, test_page=tests)
    outcome = pytester.runpytest_subprocess("--strict-markers", "-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=2)
