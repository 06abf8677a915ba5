"""Looks up settings as text: a listener's own value, the broker's, or the default."""

from collections.abc import Mapping

from kstore.cluster.settings.broker_settings import BROKER_SETTINGS
from kstore.errors import InvalidConfigError

LISTENER_PREFIX = "listener.name."
SERVER_CALLBACK = "sasl.server.callback.handler.class"
OAUTHBEARER_WITHOUT_TLS = "kstore.sasl.oauthbearer.without.tls"
MOST_NUMBER, _DIGITS = 1 << 53, 16


def listener_setting(listener: str, name: str) -> str:
    """The name of a setting of one listener."""
    return f"{LISTENER_PREFIX}{listener.lower()}.{name}"


class SettingTexts:
    """Looks up values; ``others`` has defaults of settings that Kafka's broker does not list."""

    def __init__(self, texts: Mapping[str, str], others: Mapping[str, str]) -> None:
        self.texts = texts
        self._others = others

    def source(self, name: str, listener: str | None = None) -> str:
        """The name of the setting that provides the effective value."""
        own = name if listener is None else listener_setting(listener, name)
        return own if own in self.texts else name

    def is_set(self, name: str, listener: str | None = None) -> bool:
        return self.source(name, listener) in self.texts

    def text(self, name: str, listener: str | None = None) -> str:
        """The effective value; "" if there is none."""
        source = self.source(name, listener)
        if source in self.texts:
            return self.texts[source].strip()
        if name in self._others:
            return self._others[name]
        return BROKER_SETTINGS[name].default or ""

    def number(
        self, name: str, low: int, listener: str | None = None, most: int = MOST_NUMBER
    ) -> int:
        text = self.text(name, listener)
        is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
        if not (is_number and low <= int(text) <= most):
            limit = "" if most == MOST_NUMBER else f" and at most {most}"
            raise InvalidConfigError(
                f"{name} is a whole number of at least {low}{limit}, not {text[:200]!r}"
            )
        return int(text)

    def flag(self, name: str, listener: str | None = None) -> bool:
        text = self.text(name, listener).lower()
        if text not in ("true", "false"):
            raise InvalidConfigError(f"{name} is true or false, not {text!r}")
        return text == "true"

    def names(self, name: str, listener: str | None = None) -> list[str]:
        """The elements of a list."""
        return [each.strip() for each in self.text(name, listener).split(",") if each.strip()]
