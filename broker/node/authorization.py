"""The authorizer of a broker, from its options."""

from collections import deque
from collections.abc import Callable

from rookery.broker.server.access import Guard
from rookery.broker.server.audit import Audit
from rookery.core.config import security as keys
from rookery.core.config.options import ConfigError, Settings
from rookery.core.metrics import Metrics
from rookery.core.security.authorizer import Authorizer, super_users
from rookery.core.security.principal import KafkaPrincipal

KNOWN_AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
MINUTE_S = 60.0
SAMPLE_S = 1.0
_PREFIX = "kafka_server_authorizer_metrics"


def authorizer_of(settings: Settings) -> Authorizer | None:
    """Without ACLs, which come with the metadata log; None if everybody may do everything. Raises ConfigError."""
    name = settings[keys.AUTHORIZER_CLASS_NAME]
    if not name:
        return None
    if name not in KNOWN_AUTHORIZERS:
        raise ConfigError(keys.AUTHORIZER_CLASS_NAME.name, name, f"one of {', '.join(KNOWN_AUTHORIZERS)} is needed")
    text = settings[keys.SUPER_USERS]
    try:
        users = super_users(text)
    except ValueError as error:
        raise ConfigError(keys.SUPER_USERS.name, text, str(error)) from None
    return Authorizer(super_users=users, allow_everyone=settings[keys.ALLOW_EVERYONE_IF_NO_ACL_FOUND])


def notes_on(authorizer: Authorizer | None) -> tuple[str, ...]:
    """What an operator should know before the first client is refused."""
    if authorizer is None:
        return ()
    if authorizer.allow_everyone:
        return (
            f"{keys.ALLOW_EVERYONE_IF_NO_ACL_FOUND.name} is true: everybody may do everything with what no ACL names",
        )
    if not authorizer.super_users:
        return (
            f"{keys.SUPER_USERS.name} is empty: no user may create the first ACL, and brokers may not replicate unless "
            "ACLs allow them CLUSTER_ACTION",
        )
    return ()


def note_on_brokers(authorizer: Authorizer, principal: KafkaPrincipal) -> str | None:
    """"ACLs are on, and replication is dead": said before it happens."""
    users = authorizer.super_users
    if authorizer.allow_everyone or not users or str(principal) in users:
        return None
    return (
        f"this broker is {principal} for the other brokers, who is not among {keys.SUPER_USERS.name}: it may not "
        "replicate unless ACLs allow it CLUSTER_ACTION on the cluster, nor measure lag without DESCRIBE on all topics"
    )


def guard_of(settings: Settings, now: Callable[[], float], metrics: Metrics) -> Guard | None:
    """None if everybody may do everything. `now` is a clock that never jumps."""
    authorizer = authorizer_of(settings)
    if authorizer is None:
        return None
    guard = Guard(authorizer, Audit(now).denied)
    allowed = PerMinute(lambda: guard.allowed, now)
    denied = PerMinute(lambda: guard.denied, now)
    asked = PerMinute(lambda: guard.allowed + guard.denied, now)
    metrics.read_value(f"{_PREFIX}_acls_total_count", "ACLs.", lambda: guard.acls)
    for name, text, rate in (
        ("request", "Questions to the authorizer in a minute.", asked),
        ("allowed", "Questions in a minute whose answer was yes.", allowed),
        ("denied", "Questions in a minute whose answer was no.", denied),
    ):
        metrics.read_value(f"{_PREFIX}_authorization_{name}_rate_per_minute", text, rate.read)
    return guard


class PerMinute:
    """How fast a count grows: over the last minute or, if it was not read in that time, since the last read."""

    def __init__(self, count: Callable[[], int], now: Callable[[], float]) -> None:
        self._count = count
        self._now = now
        self._samples = deque([(now(), count())])

    def read(self) -> float:
        now, count = self._now(), self._count()
        samples = self._samples
        while len(samples) > 1 and now - samples[1][0] >= MINUTE_S:
            samples.popleft()
        then, before = samples[0]
        if now - samples[-1][0] >= SAMPLE_S:
            samples.append((now, count))
        return MINUTE_S * (count - before) / max(now - then, SAMPLE_S)
