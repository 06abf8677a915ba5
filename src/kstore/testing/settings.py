"""Settings of brokers for tests."""

from collections.abc import Mapping

# Kafka's server.properties for development has it too: a new group does not wait for more members.
FOR_TESTS: Mapping[str, object] = {"group.initial.rebalance.delay.ms": 0}

# In a directory of the test's own, clients may delete what it creates through the broker's store.
IN_OWN_DIRECTORY: Mapping[str, object] = {"kstore.delete.existing.topics": True}


def settings_for_tests(given: Mapping[str, object] | None) -> dict[str, object]:
    """The given settings of a broker, and the defaults for tests of those that are not given."""
    return {**FOR_TESTS, **(given or {})}
