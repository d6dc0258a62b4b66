"""What requests cost, by API, under the names that Kafka's dashboards query.

On the hot path a request adds to a few plain integers; names, quantiles and shares are made at each scrape.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from operator import attrgetter

from rookery.core.metrics import HistogramSample, Metrics, Sample

KAFKA = "kafka_server_brokertopicmetrics_"
COUNTED = {
    "messages_in": (KAFKA + "messagesin", "Records appended."),
    "bytes_in": (KAFKA + "bytesin", "Bytes appended."),
    "bytes_out": (KAFKA + "bytesout", "Bytes read by consumers."),
    "produce_requests": (KAFKA + "totalproducerequests", "Partitions in produce requests."),
    "fetch_requests": (KAFKA + "totalfetchrequests", "Partitions in fetch requests."),
    "failed_produces": (KAFKA + "failedproducerequests", "Partitions in produce requests that were refused."),
    "failed_fetches": (KAFKA + "failedfetchrequests", "Partitions in fetch requests that were refused."),
    "acked": ("rookery_acked", "Records acknowledged with acks=1 or acks=all, repeated batches included."),
}


class Traffic:
    """One topic's counters."""

    __slots__ = tuple(COUNTED)

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.bytes_out = 0
        self.produce_requests = self.fetch_requests = 0
        self.failed_produces = self.failed_fetches = 0
        self.acked = 0


class TopicMetrics(dict[str, Traffic]):
    """Counters by topic, made when first asked for. What is asked of topics that do not exist counts for the
    topic ''."""

    def __missing__(self, topic: str) -> Traffic:
        self[topic] = traffic = Traffic()
        return traffic

    def forget(self, topic: str) -> None:
        """The topic was deleted."""
        self.pop(topic, None)

    def publish(self, metrics: Metrics) -> None:
        for field, (name, text) in COUNTED.items():
            metrics.read(name, text, self._samples(field), labels=("topic",), kind="counter")

    def _samples(self, field: str) -> Callable[[], Iterator[Sample]]:
        read = attrgetter(field)
        return lambda: (((topic,), read(traffic)) for topic, traffic in self.items())


REQUESTS = "kafka_network_requestmetrics_requests"
ERRORS = "kafka_network_requestmetrics_errors"
TIME = "kafka_network_requestmetrics_{part}timems"
SECONDS = "rookery_request_seconds"
HANDLER_IDLE = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
NETWORK_IDLE = "kafka_network_socketserver_networkprocessoravgidle_percent"
REQUEST_QUEUE = "kafka_network_requestchannel_requestqueuesize"
RESPONSE_QUEUE = "kafka_network_requestchannel_responsequeuesize"

BOUNDS_S: tuple[float, ...] = tuple(0.000_01 * 2**power for power in range(24))
"""10 us to 84 s, each twice the one before."""
QUANTILES = (0.5, 0.75, 0.95, 0.99, 0.999)


class Times:
    """A histogram of durations."""

    __slots__ = ("buckets", "count", "sum_s")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS_S) + 1)
        self.count = 0
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(BOUNDS_S, seconds)] += 1
        self.count += 1
        self.sum_s += seconds

    def __add__(self, other: "Times") -> "Times":
        both = Times()
        both.buckets = [one + two for one, two in zip(self.buckets, other.buckets, strict=True)]
        both.count = self.count + other.count
        both.sum_s = self.sum_s + other.sum_s
        return both

    def quantile_ms(self, share: float) -> float:
        """Upper bound of the bucket in which the quantile lies; 0 while there is nothing."""
        left = share * self.count
        for number, bound in zip(self.buckets, BOUNDS_S, strict=False):
            left -= number
            if left <= 0:
                return bound * 1000 if self.count else 0.0
        return BOUNDS_S[-1] * 1000


class RouteMetrics:
    """One API's share. A request answered at once has spent all its time here; one that waited is split."""

    __slots__ = ("at_once", "errors", "local", "name", "queued", "remote", "throttled", "total", "versions")

    def __init__(self, name: str) -> None:
        self.name = name
        self.at_once = Times()
        self.local = Times()
        self.remote = Times()
        self.queued = Times()
        self.total = Times()
        self.throttled = Times()
        self.versions: dict[int, int] = {}
        self.errors: dict[str, int] = {}

    def waited(self, local_s: float, remote_s: float, queued_s: float) -> None:
        """A request whose handler took `local_s`, whose answer was awaited for `remote_s` then, and then
        stood behind earlier answers of its connection for `queued_s`."""
        self.local.add(local_s)
        self.remote.add(remote_s)
        self.queued.add(queued_s)
        self.total.add(local_s + remote_s + queued_s)

    def error(self, name: str) -> None:
        self.errors[name] = self.errors.get(name, 0) + 1

    def times(self, part: str) -> Times:
        """The parts as Kafka names them; a part that does not exist here (one loop, no queue before the
        handlers) has taken no time."""
        match part:
            case "total":
                return self.at_once + self.total
            case "local":
                return self.at_once + self.local
            case "remote":
                return self.remote
            case "responsequeue":
                return self.queued
            case "throttle":
                return self.throttled
            case _:
                return Times()


PARTS = {
    "total": "whole time",
    "requestqueue": "wait for a handler",
    "local": "work on this broker",
    "remote": "wait for other brokers or for data",
    "throttle": "throttle time by quotas",
    "responsequeue": "wait before sending",
    "responsesend": "time to send the answer",
}


class RequestMetrics:
    """All APIs, and the share of time the loop was not busy with requests."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._routes: dict[str, RouteMetrics] = {}
        self.busy_s = 0.0
        self.waiting = 0
        """Requests whose answer is awaited."""
        self._busy_seen = (time(), 0.0)

    def route(self, name: str) -> RouteMetrics:
        return self._routes.setdefault(name, RouteMetrics(name))

    def publish(self, metrics: Metrics) -> None:
        by_version, by_error = ("request", "version"), ("request", "error")
        metrics.read(REQUESTS, "Requests received.", self._requests, labels=by_version, kind="counter")
        metrics.read(ERRORS, "Error codes answered.", self._errors, labels=by_error, kind="counter")
        for part, said in PARTS.items():
            name, text = TIME.format(part=part), f"Milliseconds, {said} of a request."
            metrics.read(name, text, self._quantiles(part), labels=("request", "quantile"))
            metrics.read(f"{name}_count", f"Requests measured: {said}.", self._counts(part), labels=("request",))
        text = "Time from request to answer."
        metrics.read_histogram(SECONDS, text, self._histograms, bounds=BOUNDS_S, labels=("request",))
        for idle in (HANDLER_IDLE, NETWORK_IDLE):
            metrics.read_value(idle, "Share of time without a request to handle.", self.idle_share)
        metrics.read_value(REQUEST_QUEUE, "Requests that wait for a handler.", lambda: 0)
        metrics.read_value(RESPONSE_QUEUE, "Requests whose answer is awaited.", lambda: self.waiting)

    def idle_share(self) -> float:
        now, (then, busy_then) = self._time(), self._busy_seen
        if now - then >= 1.0:
            self._busy_seen = (now, self.busy_s)
        return max(0.0, 1.0 - (self.busy_s - busy_then) / (now - then)) if now > then else 1.0

    def _requests(self) -> Iterator[Sample]:
        for name, route in self._routes.items():
            for version, count in route.versions.items():
                yield (name, str(version)), count

    def _errors(self) -> Iterator[Sample]:
        for name, route in self._routes.items():
            for error, count in route.errors.items():
                yield (name, error), count

    def _quantiles(self, part: str) -> Callable[[], Iterator[Sample]]:
        def samples() -> Iterator[Sample]:
            for name, route in self._routes.items():
                times = route.times(part)
                for share in QUANTILES:
                    yield (name, str(share)), times.quantile_ms(share)

        return samples

    def _counts(self, part: str) -> Callable[[], Iterator[Sample]]:
        return lambda: (((name,), route.times(part).count) for name, route in self._routes.items())

    def _histograms(self) -> Iterator[HistogramSample]:
        for name, route in self._routes.items():
            times = route.times("total")
            yield (name,), times.buckets, times.sum_s
