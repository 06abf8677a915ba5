"""The log levels of kstore's loggers as Kafka's BROKER_LOGGER resource.

Kafka's ``root`` is the logger ``kstore`` here, so that clients cannot change the loggers of the
program that runs the broker.
"""

import logging
from collections.abc import Sequence

from kstore.cluster.metadata import AlterOp, ConfigChange
from kstore.errors import InvalidConfigError, InvalidRequestError

ROOT = "root"
_PREFIX = "kstore"
_LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def describe() -> dict[str, str]:
    """The effective level of each logger, by name."""
    return {
        name: _level_name(logger.getEffectiveLevel()) for name, logger in sorted(_loggers().items())
    }


def alter(changes: Sequence[ConfigChange], *, validate_only: bool = False) -> None:
    """Set levels, or delete them so that the parent logger's level applies; all changes or none.

    Raises InvalidConfigError for an unknown logger or level, and InvalidRequestError for an
    operation that levels do not support, with the messages of Kafka's ConfigAdminManager. Thread
    safe.
    """
    loggers = _loggers()
    for operation, name, value in changes:
        if operation in (AlterOp.APPEND, AlterOp.SUBTRACT):
            raise InvalidRequestError(
                f"{AlterOp(operation).name} operation is not allowed for the BROKER_LOGGER resource"
            )
        if name not in loggers:
            raise InvalidConfigError(f"Logger {name} does not exist!")
        if operation == AlterOp.SET and value not in _LEVELS:
            raise InvalidConfigError(
                f"Cannot set the log level of {name} to {value} as it is not a supported log "
                f"level. Valid log levels are {', '.join(sorted(_LEVELS))}"
            )
        if operation == AlterOp.DELETE and name == ROOT:
            raise InvalidRequestError(f"Removing the log level of the {ROOT} logger is not allowed")
    if not validate_only:
        for operation, name, value in changes:
            is_set = operation == AlterOp.SET and value is not None
            loggers[name].setLevel(_LEVELS[value or ""] if is_set else logging.NOTSET)


def _loggers() -> dict[str, logging.Logger]:
    found = {ROOT: logging.getLogger(_PREFIX)}
    for name, logger in list(logging.Logger.manager.loggerDict.items()):
        if name.startswith(f"{_PREFIX}.") and isinstance(logger, logging.Logger):
            found[name] = logger
    return found


def _level_name(level: int) -> str:
    """Kafka's name of the highest level at or below a numeric level of ``logging``."""
    names = [name for name, number in _LEVELS.items() if number <= level]
    return names[-1] if names else "TRACE"
