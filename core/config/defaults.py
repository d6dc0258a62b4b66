"""What a topic's options are when the topic does not say: the broker's own settings, in the topic's units."""

from collections.abc import Callable, Mapping

from rookery.core.config import node, topic
from rookery.core.config.options import Settings

_UNIT_MS: dict[str, int] = {
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
    "log.roll.hours": 3_600_000,
    "log.roll.jitter.hours": 3_600_000,
}


def _in_ms(key: str) -> Callable[[object], object]:
    factor = _UNIT_MS.get(key)
    if factor is None:
        return lambda value: value
    return lambda value: value * factor if isinstance(value, int) and value >= 0 else value


def topic_defaults(settings: Settings) -> Settings:
    """The options of a topic without overrides on a node with these settings. Of several broker keys for one
    topic option the first that is set wins: milliseconds over minutes over hours."""
    given: dict[str, object] = {}
    for option in topic.TABLE:
        for key in option.synonyms:
            if key in settings.given:
                given[option.name] = _in_ms(key)(settings.given[key])
                break
    return Settings(topic.TABLE, given)


def topic_settings(defaults: Settings, overrides: Mapping[str, str]) -> Settings:
    """A topic's options: its overrides on top of the node's defaults. The overrides were checked when they
    were accepted, so an error here names a damaged metadata log."""
    return defaults.having(overrides)


def metadata_log_dir(settings: Settings) -> str:
    return settings[node.METADATA_LOG_DIR] or settings[node.LOG_DIRS][0]
