"""Which settings of a broker may change while it runs (Kafka's DynamicBrokerConfig).

Settings without effect in this broker are kept, as Kafka keeps them. A change that a user would
rely on, and that this broker cannot carry out, is refused: an accepted certificate or limit of
connections is in use.
"""

from collections.abc import Iterable

from kstore.cluster.settings.broker_settings import DYNAMIC_BROKER_SETTINGS
from kstore.errors import InvalidRequestError

_LISTENER_PREFIX = "listener.name."
# Settings that Kafka changes while it runs, and this broker reads at its start alone.
READ_AT_START = frozenset(
    (
        "advertised.listeners",
        "listener.security.protocol.map",
        "listeners",
        "max.connections.per.ip.overrides",
        "num.io.threads",
        "num.recovery.threads.per.data.dir",
        "sasl.enabled.mechanisms",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    )
)
# Settings that Kafka changes while it runs, of functions that this broker does not have.
NOT_SUPPORTED = frozenset(
    (
        "max.connection.creation.rate",
        "metric.reporters",
        "principal.builder.class",
        "sasl.jaas.config",
        "ssl.cipher.suites",
        "ssl.engine.factory.class",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.protocol",
        "ssl.provider",
    )
)
# Of the dynamic settings, these cannot be set for all brokers.
_OF_ONE_BROKER = ("sasl.", "ssl.")


def is_of_listener(name: str) -> bool:
    """Whether a setting is that of one listener."""
    return name.startswith(_LISTENER_PREFIX)


def check_dynamic(names: Iterable[str]) -> None:
    """Raise InvalidRequestError, with Kafka's words and the reason, if one cannot change."""
    fixed = [name for name in dict.fromkeys(names) if name not in DYNAMIC_BROKER_SETTINGS]
    if not fixed:
        return
    text = f"Cannot update these configs dynamically: Set({', '.join(fixed)})"
    if late := [name for name in fixed if name in READ_AT_START or is_of_listener(name)]:
        text += f"; this broker reads {', '.join(late)} only at its start"
    if missing := [name for name in fixed if name in NOT_SUPPORTED]:
        text += f"; this broker does not support {', '.join(missing)}"
    raise InvalidRequestError(text)


def check_for_all(names: Iterable[str]) -> None:
    """Raise InvalidRequestError if a setting cannot be that of all brokers."""
    found = [name for name in names if name.startswith(_OF_ONE_BROKER)]
    if found:
        raise InvalidRequestError(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"Set({', '.join(found)})"
        )
