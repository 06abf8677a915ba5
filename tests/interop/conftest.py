"""Interop tests run against each version of Kafka in turn; all of them carry the marker."""

import pytest

from interop.kafka_jars import VERSIONS, libs


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "interop" in item.path.parts:
            item.add_marker(pytest.mark.interop)
            item.add_marker(pytest.mark.timeout(180))


@pytest.fixture(scope="session", params=VERSIONS)
def kafka(request: pytest.FixtureRequest) -> str:
    """A version whose jars are here; where they cannot be had the test fails or says so."""
    libs(request.param)
    return request.param
