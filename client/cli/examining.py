"""What the doctor asks: this machine, every address, every listener, every node."""

import asyncio
import os
import platform
import resource
import ssl
import time
from collections.abc import Awaitable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from rookery import __version__
from rookery.client.admin import Admin
from rookery.client.admin.types import (
    BrokerDescription,
    GroupListing,
    QuorumDescription,
    ResourceType,
    TopicDescription,
    TransactionDescription,
)
from rookery.client.cli.events import recorded
from rookery.client.cli.group_facts import facts_of
from rookery.client.cli.transaction import orphans
from rookery.client.diagnosis import ClusterFacts, Hanging, NodeReport
from rookery.client.errors import CliError, KafkaError
from rookery.client.group_report import REBALANCE, GroupFacts
from rookery.client.node_pages import Access, PageError, Places, http_addresses, page
from rookery.core.errors import SaslAuthenticationFailedError
from rookery.core.flight_recorder import Event
from rookery.core.net.cluster import BootstrapError, parse_bootstrap
from rookery.core.net.connection import Connection, ConnectionLostError
from rookery.core.net.security import Security
from rookery.core.wire.apis.describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

T = TypeVar("T")
REACH_S = 3.0
GROUPS_MAX = 50
ASK_MS = 15_000
EVENTS_ASKED = 500
QUORUM_MS = 8_000
NO_LEADER = QuorumDescription(-1, -1, -1, [], [])
DOCTOR = "rookery-doctor"
LISTENING = LISTENERS, ADVERTISED, CONTROLLERS = "listeners", "advertised.listeners", "controller.listener.names"


class Reached(NamedTuple):
    """The result of a connection to a broker; `why` is empty if it could be used."""

    why: str = ""
    api_versions: dict[int, tuple[int, int]] | None = None
    certificate_s: float | None = None
    """Seconds until the broker's certificate ends; None without one."""


class Examination:
    """One look at a cluster: facts for diagnoses, and more for a bundle."""

    def __init__(self, options: dict[str, Any], security: Security, access: Access) -> None:
        self._options = options
        self._security = security
        self._access = access
        self._facts = ClusterFacts(
            now_ms=int(time.time() * 1000), open_files_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        )
        self._failures: dict[str, str] = {}
        self._extra: dict[str, Any] = {
            "about.json": {"rookery": __version__, "python": platform.python_version(), "system": platform.platform()}
        }

    async def run(self) -> tuple[ClusterFacts, dict[str, Any]]:
        facts = self._facts
        addresses = parse_bootstrap(self._options["bootstrap.servers"])
        reached = await asyncio.gather(*(self._reach(host, port) for host, port in addresses))
        facts.bootstrap = {f"{host}:{port}": each.why for (host, port), each in zip(addresses, reached, strict=True)}
        if not all(facts.bootstrap.values()):
            async with Admin({**self._options, "default.api.timeout.ms": ASK_MS}) as admin:
                await self._cluster(admin)
        facts.failures = self._failures
        return facts, self._extra

    async def _ask(self, what: str, question: Awaitable[T], otherwise: T) -> T:
        try:
            return await question
        except (CliError, KafkaError, BootstrapError, ConnectionLostError, OSError) as error:
            self._failures[what] = str(error)
            return otherwise

    async def _cluster(self, admin: Admin) -> None:
        facts, ask = self._facts, self._ask
        cluster = facts.cluster = await ask("the cluster", admin.describe_cluster(fenced=True), None)
        if cluster is None:
            return
        living = [broker for broker in cluster.brokers if not broker.fenced]
        reached = await self._brokers(admin, living)
        names: list[str] = await ask("topics", admin.list_topics(internal=True), [])
        topics: dict[str, TopicDescription] = await ask("topics", admin.describe_topics(names), {})
        facts.topics = list(topics.values())
        facts.min_isr = {
            topic.name: await ask(f"options of {topic.name}", _min_isr(admin, topic.name), 1)
            for topic in facts.topics
            if any(len(each.isr) < len(each.replicas) for each in topic.partitions)
        }
        facts.quorum = await ask("the metadata quorum", _quorum(self._options), None)
        facts.now_ms = int(time.time() * 1000)
        facts.features = await ask("features", admin.describe_features(), None)
        if not reached:  # what follows asks single brokers
            return
        facts.log_dirs = await ask("log dirs", admin.describe_log_dirs(reached), {})
        events = await self._nodes(admin, reached)
        await self._groups(admin, events, reached)
        facts.hanging = await ask("transactions", _hanging(admin, reached), [])
        facts.orphans = await ask("producers", orphans(admin, facts.topics, reached), [])
        self._extra["cluster.json"] = {
            "cluster": str(cluster),
            "topics": [str(each) for each in facts.topics],
            "quorum": str(facts.quorum),
            "features": str(facts.features),
            "log_dirs": str(facts.log_dirs),
            "groups": [str(each) for each in facts.groups],
        }
        self._extra["brokers.json"] = {
            str(broker): await ask(f"options of broker {broker}", _options(admin, broker), {}) for broker in reached
        }
        self._extra["events.json"] = [event.row() for event in events]

    async def _brokers(self, admin: Admin, living: list[BrokerDescription]) -> list[int]:
        """Every address that brokers give to clients; returns those that can be used from here."""
        facts = self._facts
        found = await asyncio.gather(*(self._reach(each.host, each.port) for each in living))
        facts.advertised = {
            each.id: (f"{each.host}:{each.port}", at.why) for each, at in zip(living, found, strict=True)
        }
        facts.api_versions = {
            each.id: at.api_versions for each, at in zip(living, found, strict=True) if at.api_versions is not None
        }
        facts.certificates = {
            f"broker {each.id} at {each.host}:{each.port}": at.certificate_s
            for each, at in zip(living, found, strict=True)
            if at.certificate_s is not None
        }
        reached = [each.id for each, at in zip(living, found, strict=True) if not at.why]
        listeners = {}
        for each in living:
            question = _listening(admin, each.id) if each.id in reached else self._listening_there(each.id)
            options = await self._ask(f"options of broker {each.id}", question, {})
            listeners[each.id] = await _others(options, f"{each.host}:{each.port}")
        facts.listeners = listeners
        return reached

    async def _listening_there(self, broker: int) -> dict[str, str]:
        """The listeners of a broker that cannot be reached by its address: perhaps a bootstrap address is its own."""
        asked = DescribeConfigsResource(
            resource_type=ResourceType.BROKER, resource_name=str(broker), configuration_keys=LISTENING
        )
        for address, why in self._facts.bootstrap.items():
            if not why:
                ((host, port),) = parse_bootstrap(address)
                connection = await Connection.open(host, port, client_id=DOCTOR, security=self._security)
                try:
                    answer = await connection.request(
                        DESCRIBE_CONFIGS,
                        connection.version_for(DESCRIBE_CONFIGS),
                        DescribeConfigsRequest(resources=[asked]),
                        REACH_S,
                    )
                finally:
                    connection.close()
                if not answer.results[0].error_code:
                    return {each.name: each.value or "" for each in answer.results[0].configs}
        return {}

    async def _reach(self, host: str, port: int) -> Reached:
        """Connect as a client does: TCP, TLS, versions, authentication."""
        why = await connects(host, port)
        if why:
            return Reached(why)
        try:
            connection = await Connection.open(
                host, port, client_id=DOCTOR, security=self._security, timeout_s=REACH_S
            )
        except ssl.SSLError as error:
            return Reached(f"TLS failed: {getattr(error, 'verify_message', '') or error.reason or error}")
        except OSError as error:
            return Reached(error.strerror or str(error))
        except SaslAuthenticationFailedError as error:
            return Reached(f"{error} (are mechanism, user and password right?)")
        except (ConnectionLostError, KafkaError) as error:
            return Reached(f"{error} (is security.protocol right, and is it a listener for clients?)")
        certificate = connection.certificate
        left_s = ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time() if "notAfter" in certificate else None
        versions = dict(connection.versions)
        connection.close()
        return Reached("", versions, left_s)

    async def _nodes(self, admin: Admin, reached: list[int]) -> list[Event]:
        """What nodes of Rookery say of themselves, and what they recorded."""
        places = await self._ask("pages of nodes", http_addresses(admin, reached), Places({}, {}))
        self._failures.update({f"node {node}": why for node, why in places.failures.items()})
        reports: dict[int, NodeReport] = {}
        for node, address in places.addresses.items():
            try:
                said = await page(address, "/healthz?verbose", self._access, accepted=(200, 503))
                reports[node] = _report(said)
                self._extra.setdefault("nodes.json", {})[str(node)] = said
            except (PageError, ValueError, KeyError, TypeError) as error:
                self._failures[f"node {node}"] = str(error)
        self._facts.reports = reports
        return (await recorded(places, f"limit={EVENTS_ASKED}", self._access))[0]

    async def _groups(self, admin: Admin, events: Iterable[Event], reached: list[int]) -> None:
        listed: list[GroupListing] = await self._ask("groups", admin.list_groups(brokers=reached), [])
        rebalances = [event for event in events if event.name == REBALANCE]
        found: list[GroupFacts] = []
        for each in listed[:GROUPS_MAX]:
            if each.type in ("classic", "consumer"):
                group = await self._ask(f"group {each.group_id}", facts_of(admin, each.group_id), None)
                if group is not None:
                    own = [event for event in rebalances if event.fields.get("group") == each.group_id]
                    found.append(replace(group, events=own))
        self._facts.groups = found


async def connects(host: str, port: int) -> str:
    """Why nothing can be reached at an address from here; empty if something listens."""
    try:
        async with asyncio.timeout(REACH_S):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"no answer within {REACH_S:.0f} s (a firewall, or a machine that is down)"
    except OSError as error:
        return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    writer.close()
    return ""


async def _others(options: dict[str, str], used: str) -> dict[str, tuple[str, str]]:
    """Listeners for clients besides the one in use, and why each cannot be reached."""
    controllers = {each.strip() for each in options.get(CONTROLLERS, "").split(",")}
    found = {}
    for each in (options.get(ADVERTISED) or options.get(LISTENERS) or "").split(","):
        name, _, address = each.strip().partition("://")
        host, _, port = address.rpartition(":")
        if name in controllers or address == used or not port.isdigit() or not host or not int(port):
            continue
        found[name] = (address, await connects(host.strip("[]"), int(port)))
    return found


async def _listening(admin: Admin, broker: int) -> dict[str, str]:
    entries = await admin.describe_broker_config(broker, LISTENING)
    return {name: each.value or "" for name, each in entries.items()}


def _report(said: dict[str, Any]) -> NodeReport:
    process = said["process"]
    return NodeReport(
        str(process["version"]),
        int(process["now_ms"]) / 1000 - time.time(),
        int(process["open_files"]),
        int(process["open_files_max"]),
        int(process["memory_total_bytes"]),
        int(process["memory_available_bytes"]),
        [str(each) for each in said["reasons"] if "is damaged" in str(each)],
    )


async def _min_isr(admin: Admin, topic: str) -> int:
    entries = await admin.describe_topic_config(topic, ["min.insync.replicas"])
    return int(entries["min.insync.replicas"].value or 1)


async def _quorum(options: dict[str, Any]) -> QuorumDescription:
    """A broker that finds no controller says nothing for long, and nothing else over this connection. Elections are
    over sooner than this gives up."""
    try:
        async with Admin({**options, "default.api.timeout.ms": QUORUM_MS}) as alone:
            return await alone.describe_quorum()
    except TimeoutError:
        return NO_LEADER


async def _options(admin: Admin, broker: int) -> dict[str, str | None]:
    """What differs from the defaults, without secrets."""
    entries = await admin.describe_config(ResourceType.BROKER, str(broker))
    return {each.name: None if each.sensitive else each.value for each in entries.values() if not each.is_default}


async def _hanging(admin: Admin, reached: list[int]) -> list[Hanging]:
    found = []
    for listed in await admin.list_transactions(brokers=reached):
        if listed.state in ("Ongoing", "PrepareCommit", "PrepareAbort"):
            each: TransactionDescription = await admin.describe_transaction(listed.transactional_id)
            open_s = time.time() - each.start_time_ms / 1000
            if each.start_time_ms > 0 and open_s > 2 * each.timeout_ms / 1000:
                found.append(Hanging(each.transactional_id, each.state, open_s, each.timeout_ms / 1000))
    return found
