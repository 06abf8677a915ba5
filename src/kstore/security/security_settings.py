"""Reads and validates the settings of listeners, authentication and authorization.

The broker does not start with a security setting that it does not honour, unless the value is
Kafka's default. A configured protection is therefore never silently missing.
"""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING

from kstore.cluster.settings.broker_settings import BROKER_SETTINGS
from kstore.config import setting_text
from kstore.errors import InvalidConfigError, UnknownSettingError
from kstore.hints.close_names import close_names
from kstore.lazy_dataclass import lazy_dataclass
from kstore.security.listeners import (
    ADVERTISED_LISTENERS,
    LISTENERS,
    PROTOCOL_MAP,
    ListenerAddress,
    parse_listeners,
)
from kstore.security.setting_texts import (
    LISTENER_PREFIX,
    OAUTHBEARER_WITHOUT_TLS,
    SERVER_CALLBACK,
    SettingTexts,
    listener_setting,
)
from kstore.security.tls import TLS_SETTINGS, TlsSettings, read_tls_settings

if TYPE_CHECKING:
    from kstore.security.jaas import JaasConfig
    from kstore.security.oauth_settings import OAuthBearerSettings

PLAIN, SCRAM_SHA_256, SCRAM_SHA_512 = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
PLAIN_WITHOUT_TLS = "kstore.sasl.plain.without.tls"
HANDSHAKE_TIMEOUT = "kstore.handshake.timeout.ms"

_AUTHORIZER = "authorizer.class.name"
_SUPER_USERS, _ALLOWS_EVERYONE = "super.users", "allow.everyone.if.no.acl.found"
_AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
_CONTROLLERS = "controller.listener.names"
_JAAS = "sasl.jaas.config"
_ENABLED, _REAUTH = "sasl.enabled.mechanisms", "connections.max.reauth.ms"
_FAILED_DELAY = "connection.failed.authentication.delay.ms"
_MAX_RECEIVE = "sasl.server.max.receive.size"
# Settings of Kafka's authorizer or of kstore, not of Kafka's broker, with defaults.
_OTHERS = MappingProxyType(
    {
        PLAIN_WITHOUT_TLS: "false",
        OAUTHBEARER_WITHOUT_TLS: "false",
        HANDSHAKE_TIMEOUT: "10000",
        _SUPER_USERS: "",
        _ALLOWS_EVERYONE: "false",
    }
)
_OF_A_LISTENER = TLS_SETTINGS | {_ENABLED, _REAUTH}
_OF_THE_BROKER = frozenset(
    (
        LISTENERS,
        ADVERTISED_LISTENERS,
        PROTOCOL_MAP,
        _CONTROLLERS,
        _FAILED_DELAY,
        _MAX_RECEIVE,
        _AUTHORIZER,
    )
)
# Settings of connections between brokers, of which this broker has none, and of Java components.
_WITHOUT_EFFECT = frozenset(
    (
        "early.start.listeners",
        "inter.broker.listener.name",
        "sasl.login.callback.handler.class",
        "sasl.mechanism.controller.protocol",
        "sasl.mechanism.inter.broker.protocol",
        "sasl.oauthbearer.token.endpoint.url",
        "security.inter.broker.protocol",
        "ssl.endpoint.identification.algorithm",
        "ssl.keymanager.algorithm",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    )
)
# Of names that this module reads, and with them of misspelt ones, such as super.user.
_PREFIXES = (
    "sasl.", "ssl.", "security.", "delegation.token.", "principal.", "authorizer.", "acl.",
    "super.", "allow.everyone", "oauth.", "oauthbearer.", "listeners.", LISTENER_PREFIX,
)  # fmt: skip


@lazy_dataclass(frozen=True, kw_only=True)
class SaslSettings:
    """SASL on one listener; ``plain_users`` has PLAIN's passwords by user name."""

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)  # by mechanism; 0: never
    max_receive_size: int = 524_288
    oauthbearer: "OAuthBearerSettings | None" = None


@lazy_dataclass(frozen=True, kw_only=True)
class ListenerSecurity:
    """A listener with its security settings."""

    where: ListenerAddress
    sasl: SaslSettings | None = None
    tls: TlsSettings | None = None


@lazy_dataclass(frozen=True, kw_only=True)
class AuthorizerSettings:
    """Access control lists; ``super_users`` are principals such as ``User:admin``."""

    super_users: tuple[str, ...] = ()
    allows_everyone: bool = False  # if a resource has no ACL


@lazy_dataclass(frozen=True, kw_only=True)
class SecuritySettings:
    """A broker's listeners and security settings."""

    listeners: tuple[ListenerSecurity, ...]
    authorizer: AuthorizerSettings | None = None  # None: all operations are allowed
    handshake_timeout_ms: int = 10_000
    failed_authentication_delay_ms: int = 100


def is_security_setting(name: str) -> bool:
    """Whether this module reads a setting."""
    return (
        name in _OF_THE_BROKER
        or name in _OF_A_LISTENER
        or name in _OTHERS
        or name in _WITHOUT_EFFECT
        or name.startswith(_PREFIXES)
    )


def is_described(name: str) -> bool:
    """Whether Kafka's DescribeConfigs lists the setting."""
    return name in BROKER_SETTINGS


def security_settings(
    given: Mapping[str, object], single: ListenerAddress | None = None
) -> SecuritySettings:
    """Read the security settings of a broker.

    Parameters
    ----------
    given
        Settings by Kafka's names; only those of ``is_security_setting`` are read.
    single
        The listener to use if the settings have no ``listeners``.

    Raises
    ------
    InvalidConfigError
        For an invalid value, a listener with incomplete security settings, and a setting that this
        broker does not honour. UnknownSettingError for an unknown name.
    """
    texts = {
        name: setting_text(value) for name, value in given.items() if is_security_setting(name)
    }
    return _Settings(texts, single).read()


class _Settings:
    """Reads the settings."""

    def __init__(self, texts: Mapping[str, str], single: ListenerAddress | None) -> None:
        self._texts = SettingTexts(texts, _OTHERS)
        self._single = single
        self._controllers = [
            each.strip().upper() for each in texts.get(_CONTROLLERS, "").split(",") if each.strip()
        ]

    def read(self) -> SecuritySettings:
        listeners = self._listeners()
        self._check_names([each.name for each in listeners])
        return SecuritySettings(
            listeners=tuple(map(self._secured, listeners)),
            authorizer=self._authorizer(),
            handshake_timeout_ms=self._texts.number(HANDSHAKE_TIMEOUT, 1),
            failed_authentication_delay_ms=self._texts.number(_FAILED_DELAY, 0),
        )

    def _listeners(self) -> list[ListenerAddress]:
        """The broker's listeners, without those of a KRaft controller."""
        if LISTENERS not in self._texts.texts:
            if self._single is None:
                raise InvalidConfigError(f"{LISTENERS} is not set")
            for name in (ADVERTISED_LISTENERS, PROTOCOL_MAP):
                if name in self._texts.texts:
                    raise InvalidConfigError(f"{name} needs {LISTENERS}")
            return [self._single]
        parts = [
            part
            for part in self._texts.texts[LISTENERS].split(",")
            if part.partition(":")[0].strip().upper() not in self._controllers
        ]
        return parse_listeners({**self._texts.texts, LISTENERS: ",".join(parts)})

    # --- names ----------------------------------------------------------------------------

    def _check_names(self, listeners: list[str]) -> None:
        for name, text in self._texts.texts.items():
            if not name.startswith(LISTENER_PREFIX):
                self._check_name(name, text)
                continue
            listener, rest = _split(name)
            if listener in self._controllers:
                continue
            if listener not in listeners:
                raise InvalidConfigError(
                    f"{name}: listener {listener} does not exist; the listeners are "
                    f"{', '.join(listeners)}"
                )
            self._check_listener_name(name, rest, text)

    def _check_name(self, name: str, text: str) -> None:
        if name in _OF_A_LISTENER or name in _OF_THE_BROKER or name in _OTHERS:
            return
        if _is_of_oauthbearer(name):
            return
        setting = BROKER_SETTINGS.get(name)
        if setting is None:
            close = close_names(name, [*_OTHERS, *BROKER_SETTINGS], 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise UnknownSettingError(f"the broker has no setting {name!r}{hint}")
        if name in _WITHOUT_EFFECT or text.strip() == (setting.default or ""):
            return
        raise InvalidConfigError(f"this broker does not support {name}, and starts only without it")

    def _check_listener_name(self, name: str, rest: str, text: str) -> None:
        if rest in _OF_A_LISTENER or _is_of_oauthbearer(rest):
            return
        mechanism, _, of_mechanism = rest.partition(".")
        if mechanism.upper() in MECHANISMS and of_mechanism in (_JAAS, _REAUTH):
            return
        if mechanism.upper() == OAUTHBEARER and (
            of_mechanism == SERVER_CALLBACK
            or of_mechanism in _WITHOUT_EFFECT
            or _is_of_oauthbearer(of_mechanism)
        ):
            return
        setting = BROKER_SETTINGS.get(rest)
        if setting is not None and text.strip() == (setting.default or ""):
            return
        if setting is not None and rest in _WITHOUT_EFFECT:
            return
        raise InvalidConfigError(f"this broker does not support {name}, and starts only without it")

    def _authorizer(self) -> AuthorizerSettings | None:
        name = self._texts.text(_AUTHORIZER)
        if not name:
            for setting in (_SUPER_USERS, _ALLOWS_EVERYONE):
                if self._texts.is_set(setting):
                    raise InvalidConfigError(
                        f"{setting} protects nothing without {_AUTHORIZER}={_AUTHORIZERS[0]}"
                    )
            return None
        if name not in _AUTHORIZERS:
            raise InvalidConfigError(
                f"this broker does not support {_AUTHORIZER}={name}; it has {_AUTHORIZERS[0]}"
            )
        users = [each.strip() for each in self._texts.text(_SUPER_USERS).split(";")]
        for user in filter(None, users):
            if not all(user.partition(":")):
                raise InvalidConfigError(f"{_SUPER_USERS} is User:name;User:name, not {user!r}")
        return AuthorizerSettings(
            super_users=tuple(filter(None, users)),
            allows_everyone=self._texts.flag(_ALLOWS_EVERYONE),
        )

    # --- listeners ------------------------------------------------------------------------

    def _secured(self, where: ListenerAddress) -> ListenerSecurity:
        return ListenerSecurity(
            where=where,
            sasl=self._sasl(where) if where.uses_sasl else None,
            tls=read_tls_settings(self._texts, where) if where.uses_tls else None,
        )

    def _sasl(self, where: ListenerAddress) -> SaslSettings:
        name = where.name
        asked = self._texts.names(_ENABLED, name)
        for mechanism in asked:
            if mechanism not in MECHANISMS:
                raise InvalidConfigError(
                    f"listener {name}: {_ENABLED} has {mechanism}, which this broker does not "
                    f"support; it has {', '.join(MECHANISMS)}"
                )
        if not asked:
            raise InvalidConfigError(f"listener {name}: {_ENABLED} names no mechanism")
        configs = {each: self._jaas(name, each) for each in asked}
        users: Mapping[str, str] = {}
        if PLAIN in configs:
            users = self._plain_users(where, configs[PLAIN])
        return SaslSettings(
            mechanisms=tuple(dict.fromkeys(asked)),
            plain_users=users,
            max_reauth_ms={each: self._reauth_ms(name, each) for each in asked},
            max_receive_size=self._texts.number(_MAX_RECEIVE, 1),
            oauthbearer=self._oauthbearer(where, configs) if OAUTHBEARER in configs else None,
        )

    def _oauthbearer(
        self, where: ListenerAddress, configs: Mapping[str, "JaasConfig | None"]
    ) -> "OAuthBearerSettings":
        from kstore.security.oauth_settings import read_oauth_settings

        return read_oauth_settings(self._texts, where, configs[OAUTHBEARER])

    def _reauth_ms(self, listener: str, mechanism: str) -> int:
        own = listener_setting(listener, f"{mechanism.lower()}.{_REAUTH}")
        return self._texts.number(own if self._texts.is_set(own) else _REAUTH, 0, listener)

    def _jaas(self, listener: str, mechanism: str) -> "JaasConfig | None":
        name = listener_setting(listener, f"{mechanism.lower()}.{_JAAS}")
        if not self._texts.is_set(name):
            return None
        from kstore.security.jaas import (
            OAUTHBEARER_MODULE,
            PLAIN_MODULE,
            SCRAM_MODULE,
            parse_jaas,
        )

        config = parse_jaas(name, self._texts.text(name))
        modules = {PLAIN: PLAIN_MODULE, OAUTHBEARER: OAUTHBEARER_MODULE}
        expected = modules.get(mechanism, SCRAM_MODULE)
        if config.module != expected:
            raise InvalidConfigError(f"{name}: the login module is {expected}")
        return config

    def _plain_users(
        self, where: ListenerAddress, config: "JaasConfig | None"
    ) -> Mapping[str, str]:
        if not where.uses_tls and not self._texts.flag(PLAIN_WITHOUT_TLS):
            raise InvalidConfigError(
                f"listener {where.name} would accept PLAIN passwords without encryption: use "
                f"SASL_SSL or SCRAM, or allow it with {PLAIN_WITHOUT_TLS}=true"
            )
        users = {} if config is None else config.users
        if not users:
            from kstore.security.jaas import PLAIN_MODULE

            name = listener_setting(where.name, f"plain.{_JAAS}")
            raise InvalidConfigError(
                f"listener {where.name} has PLAIN but no users: set {name}="
                f'{PLAIN_MODULE} required user_<name>="<password>";'
            )
        return users


def _split(name: str) -> tuple[str, str]:
    """Split ``listener.name.<listener>.<setting>`` into listener and setting."""
    listener, _, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
    return listener.upper(), rest


def _is_of_oauthbearer(name: str) -> bool:
    if not name.startswith("sasl.oauthbearer."):
        return False
    from kstore.security.oauth_settings import OAUTH_SETTINGS

    return name in OAUTH_SETTINGS
