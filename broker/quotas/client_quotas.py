"""What clients may use of this broker: bytes produced and fetched, time of its loop, changes of partitions, new
connections.

Each request reports what it used; the result is for how many milliseconds its client is to be throttled. Nothing waits
here: a connection answers first and is then muted. Pure; the clock is passed in.
"""

from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from typing import NamedTuple

from immutables import Map

from rookery.broker.quotas.usage import CLIENTS_MAX, Recent, TokenBucket, Usage, Window, whole_ms
from rookery.core.metadata.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Entity,
    Quotas,
)
from rookery.core.metadata.image import QuotaEntity
from rookery.core.metrics import Metrics, Names, Sample, as_it_is


class QuotaClient(NamedTuple):
    """A client, or with an empty part all of them that have the other."""

    user: str
    client_id: str


class Limit(NamedTuple):
    """What those that share a quota may use of something in a second."""

    key: str
    shared_by: QuotaClient
    bound: float


def limit_of(quotas: Quotas, who: QuotaClient, key: str) -> Limit | None:
    """The limit for one client, if there is any."""
    for entity in _from_the_closest(who):
        bound = quotas[entity].get(key) if entity in quotas else None
        if bound is not None:
            types = {part.type for part in entity}
            shared_by = QuotaClient(who.user if USER in types else "", who.client_id if CLIENT_ID in types else "")
            return Limit(key, shared_by, bound)
    return None


def _from_the_closest(who: QuotaClient) -> Iterator[Entity]:
    client_ids = QuotaEntity(CLIENT_ID, who.client_id), QuotaEntity(CLIENT_ID, None)
    for user in (QuotaEntity(USER, who.user), QuotaEntity(USER, None)):
        for client_id in client_ids:
            yield client_id, user
        yield (user,)
    for client_id in client_ids:
        yield (client_id,)


class Limits(NamedTuple):
    """Those of one client."""

    produce: Limit | None
    fetch: Limit | None
    request: Limit | None
    mutation: Limit | None


class Budget:
    """What those that share a quota have used of it, and for how long they were held."""

    __slots__ = ("delays_ms", "limit", "usage")

    def __init__(self, limit: Limit, window: Window) -> None:
        self.limit = limit
        self.usage = Usage(window)
        self.delays_ms = Usage(window)

    def delay_ms(self, now: float, more: float = 0.0) -> int:
        """How long to hold the client, given that it uses `more`."""
        return whole_ms(self.usage.delay_s(self.limit.bound, now, more))


class ClientQuotas:
    """The quotas that the cluster has agreed on, applied to the clients of this broker."""

    def __init__(self, monotonic: Callable[[], float], window: Window | None = None) -> None:
        self._monotonic = monotonic
        self._window = window or Window()
        self._quotas: Quotas = Map()
        self._limits: dict[QuotaClient, Limits] = {}
        self._addresses: dict[str | None, float] = {}
        self._budgets: Recent[tuple[str, QuotaClient], Budget] = Recent()
        self._buckets: Recent[QuotaClient, TokenBucket] = Recent()
        self.limited = False
        """Whether any client is limited: all that a request checks while there are no quotas."""
        self.connections_limited = False

    def apply(self, quotas: Quotas) -> None:
        """Take over what was agreed on; what was used stays."""
        self._quotas = quotas
        self._limits.clear()
        self._addresses = dict(_connection_rates(quotas))
        self.connections_limited = bool(self._addresses)
        self.limited = any(part.type != IP for entity in quotas for part in entity)

    # --- what was used; each returns for how many milliseconds to hold the client ---------------------------

    def produced(self, who: QuotaClient, size: int) -> int:
        """A produce request of `size` bytes is done."""
        limit = self._limits_of(who).produce
        if limit is None:
            return 0
        now = self._monotonic()
        budget = self._budget(limit, now)
        budget.usage.add(size, now)
        return self._held(budget, budget.delay_ms(now), now)

    def worked(self, who: QuotaClient, seconds: float) -> int:
        """A request kept the loop for some time."""
        limit = self._limits_of(who).request
        if limit is None:
            return 0
        now = self._monotonic()
        budget = self._budget(limit, now)
        budget.usage.add(seconds * 100, now)
        return self._held(budget, min(budget.delay_ms(now), int(self._window.seconds * 1000)), now)

    def fetched(self, who: QuotaClient, size: int, seconds: float) -> int:
        """A fetch found `size` bytes. Where the client is held, it gets none of them now. Who has fetched
        nothing lately gets even a batch that is larger than the quota, or it would never get on."""
        delay_ms = self.worked(who, seconds)
        limit = self._limits_of(who).fetch
        if limit is None:
            return delay_ms
        now = self._monotonic()
        budget = self._budget(limit, now)
        if budget.usage.amount(now):
            delay_ms = max(delay_ms, self._held(budget, budget.delay_ms(now, size), now))
        if not delay_ms:
            budget.usage.add(size, now)
        return delay_ms

    def fetch_bytes_max(self, who: QuotaClient) -> int | None:
        """No fetch may find more: the client would be held for it however little it fetched before."""
        limit = self._limits_of(who).fetch
        return None if limit is None else max(1, int(limit.bound * self._window.full_s))

    def mutates(self, who: QuotaClient, partitions: int, *, strict: bool) -> int:
        """Partitions are to be made or deleted. Strictly, who has to wait may not, and pays nothing."""
        limit = self._limits_of(who).mutation
        if limit is None:
            return 0
        now = self._monotonic()
        bucket = self._bucket(limit, now)
        if strict and bucket.delay_ms(now):
            return bucket.delay_ms(now)
        bucket.take(partitions, now)
        return 0 if strict else bucket.delay_ms(now)

    def mutated_less(self, who: QuotaClient, partitions: int) -> None:
        """It was paid for, but not done."""
        limit = self._limits_of(who).mutation
        if limit is not None:
            now = self._monotonic()
            self._bucket(limit, now).take(-partitions, now)

    def connected(self, address: str) -> int:
        """A client connects. If it has to wait, it is not accepted and not counted."""
        limit = self._address_limit(address)
        if limit is None:
            return 0
        now = self._monotonic()
        budget = self._budget(limit, now)
        delay_ms = min(budget.delay_ms(now, 1), int(self._window.seconds * 1000))
        if not delay_ms:
            budget.usage.add(1, now)
        return self._held(budget, delay_ms, now)

    # --- for metrics ----------------------------------------------------------------------------------------

    def rates(self, key: str) -> Iterator[tuple[QuotaClient, float]]:
        """What is used of something in a second."""
        now = self._monotonic()
        for (used, who), budget in self._budgets.items():
            if used == key:
                yield who, budget.usage.rate(now)

    def delays_ms(self, key: str) -> Iterator[tuple[QuotaClient, float]]:
        """For how long clients are held, on average over those requests that were."""
        now = self._monotonic()
        for (used, who), budget in self._budgets.items():
            if used == key:
                yield who, budget.delays_ms.mean(now)

    def tokens(self) -> Iterator[tuple[QuotaClient, float]]:
        """How many partitions clients may still make or delete at once."""
        now = self._monotonic()
        for who, bucket in self._buckets.items():
            yield who, bucket.tokens(now)

    # --- the parts ------------------------------------------------------------------------------------------

    def _limits_of(self, who: QuotaClient) -> Limits:
        limits = self._limits.get(who)
        if limits is None:
            if len(self._limits) >= CLIENTS_MAX:
                self._limits.clear()
            keys = PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE
            limits = self._limits[who] = Limits(*(limit_of(self._quotas, who, key) for key in keys))
        return limits

    def _address_limit(self, address: str) -> Limit | None:
        bound = self._addresses.get(address, self._addresses.get(None))
        return None if bound is None else Limit(CONNECTION_CREATION_RATE, QuotaClient("", address), bound)

    def _budget(self, limit: Limit, now: float) -> Budget:
        budget = self._budgets.get((limit.key, limit.shared_by), now, lambda: Budget(limit, self._window))
        budget.limit = limit
        return budget

    def _bucket(self, limit: Limit, now: float) -> TokenBucket:
        bucket = self._buckets.get(limit.shared_by, now, lambda: TokenBucket(limit.bound, self._window, now))
        bucket.set_bound(limit.bound, now)
        return bucket

    def _held(self, budget: Budget, delay_ms: int, now: float) -> int:
        if delay_ms:
            budget.delays_ms.add(delay_ms, now)
        return delay_ms


def _connection_rates(quotas: Quotas) -> Iterator[tuple[str | None, float]]:
    """By address, in the form connections use; None is any other."""
    for entity, values in quotas.items():
        bound = values.get(CONNECTION_CREATION_RATE)
        if bound is not None:
            name = entity[0].name
            yield None if name is None else str(ip_address(name)), bound


BYTE_RATE = "kafka_server_quota_byte_rate"
REQUEST_TIME = "kafka_server_quota_request_time"
THROTTLE_TIME = "kafka_server_quota_throttle_time"
TOKENS = "kafka_server_quota_tokens"
LABELS = ("resource", "user", "clientId")
_BYTES = {"Produce": PRODUCER_BYTE_RATE, "Fetch": CONSUMER_BYTE_RATE}
_TIME = {"Request": REQUEST_PERCENTAGE}


def publish_quotas(metrics: Metrics, quotas: ClientQuotas, names: Names = as_it_is) -> None:
    def read(
        name: str, text: str, keys: dict[str, str], of: Callable[[str], Iterable[tuple[QuotaClient, float]]]
    ) -> None:
        def samples() -> Iterator[Sample]:
            for resource, key in keys.items():
                for who, value in of(key):
                    yield (resource, *map(names, who)), value

        metrics.read(name, text, samples, labels=LABELS)

    read(BYTE_RATE, "Bytes a second that limited clients produce and fetch.", _BYTES, quotas.rates)
    read(REQUEST_TIME, "Percent of the loop's time that limited clients use.", _TIME, quotas.rates)
    text = "Average throttle time of throttled requests, in milliseconds."
    read(THROTTLE_TIME, text, _BYTES | _TIME, quotas.delays_ms)
    text = "Partitions that limited clients may still make or delete at once."
    read(TOKENS, text, {"ControllerMutation": CONTROLLER_MUTATION_RATE}, lambda key: quotas.tokens())
