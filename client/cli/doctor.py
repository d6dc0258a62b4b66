"""`rookery doctor`: looks at a cluster as this machine sees it and says what is wrong."""

import argparse
import asyncio
import io
import json
import platform
import resource
import tarfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

from rookery import __version__
from rookery.client.admin import Admin
from rookery.client.admin.types import GroupListing, ResourceType, TopicDescription, TransactionDescription
from rookery.client.cli.common import add_bootstrap, add_output, client_options, show
from rookery.client.cli.group import facts_of
from rookery.client.diagnosis import ClusterFacts, Diagnosis, Hanging, Severity, diagnose
from rookery.client.errors import ConfigurationError, KafkaError, UsageError
from rookery.core.net.cluster import BootstrapError, parse_bootstrap
from rookery.core.net.connection import ConnectionLostError

T = TypeVar("T")
REACH_S = 3.0
GROUPS_MAX = 50
ASK_MS = 15_000
EXIT = {Severity.NOTE: 0, Severity.WARNING: 1, Severity.ERROR: 3}


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="find what is wrong with a cluster",
        description="Exit code: 0 all is well, 1 there are warnings, 3 something is broken.",
    )
    parser.add_argument("--bundle", type=Path, metavar="FILE.tar.gz", help="write what was found, for a bug report")
    add_bootstrap(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    options = client_options(arguments)
    try:
        facts, extra = asyncio.run(examine(options))
    except (ValueError, ConfigurationError) as error:
        raise UsageError(f"--bootstrap: {error}") from error
    found = diagnose(facts)
    rows = [{"severity": each.severity.name.lower(), "what": each.what, "todo": each.todo} for each in found]
    if arguments.output == "table":
        print(report(facts, found))
    else:
        show(rows, ("severity", "what", "todo"), arguments.output)
    if arguments.bundle is not None:
        write_bundle(arguments.bundle, {"diagnoses.json": rows, **extra})
        print(f"wrote {arguments.bundle}; values of secret options are not in it")
    return EXIT[max((each.severity for each in found), default=Severity.NOTE)]


def report(facts: ClusterFacts, found: list[Diagnosis]) -> str:
    lines = []
    if facts.cluster is not None:
        partitions = sum(len(topic.partitions) for topic in facts.topics)
        lines.append(
            f"cluster {facts.cluster.cluster_id}: {len(facts.cluster.brokers)} broker(s), "
            f"{len(facts.topics)} topic(s), {partitions} partition(s), {len(facts.groups)} group(s)"
        )
    for each in found:
        lines.append(f"{each.severity.name:<7}  {each.what}")
        if each.todo:
            lines.append(f"{'':<9}{each.todo}")
    if all(each.severity == Severity.NOTE for each in found):
        lines.append("all is well")
    return "\n".join(lines)


async def examine(options: dict[str, Any]) -> tuple[ClusterFacts, dict[str, Any]]:
    """Ask the cluster everything that diagnoses need; the second value is more for a bundle."""
    facts = ClusterFacts(now_ms=int(time.time() * 1000), open_files_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    addresses = parse_bootstrap(options["bootstrap.servers"])
    facts.bootstrap = {f"{host}:{port}": await _reachable(host, port) for host, port in addresses}
    extra: dict[str, Any] = {"about.json": {"rookery": __version__, "python": platform.python_version()}}
    if all(facts.bootstrap.values()):
        return facts, extra
    failures: dict[str, str] = {}

    async def ask(what: str, question: Awaitable[T], otherwise: T) -> T:
        try:
            return await question
        except (KafkaError, BootstrapError, ConnectionLostError, OSError) as error:
            failures[what] = str(error)
            return otherwise

    async with Admin({**options, "default.api.timeout.ms": ASK_MS}) as admin:
        cluster = await ask("the cluster", admin.describe_cluster(fenced=True), None)
        facts.cluster = cluster
        if cluster is None:
            facts.failures = failures
            return facts, extra
        living = [broker for broker in cluster.brokers if not broker.fenced]
        facts.advertised = {
            each.id: (f"{each.host}:{each.port}", await _reachable(each.host, each.port)) for each in living
        }
        names: list[str] = await ask("topics", admin.list_topics(internal=True), [])
        topics: dict[str, TopicDescription] = await ask("topics", admin.describe_topics(names), {})
        facts.topics = list(topics.values())
        facts.min_isr = {
            topic.name: await ask(f"options of {topic.name}", _min_isr(admin, topic.name), 1)
            for topic in facts.topics
            if any(len(each.isr) < len(each.replicas) for each in topic.partitions)
        }
        facts.quorum = await ask("the metadata quorum", admin.describe_quorum(), None)
        facts.now_ms = int(time.time() * 1000)
        reached = [each.id for each in living if not facts.advertised[each.id][1]]
        facts.log_dirs = await ask("log dirs", admin.describe_log_dirs(reached), {})
        listed: list[GroupListing] = await ask("groups", admin.list_groups(), [])
        facts.groups = [
            group
            for each in listed[:GROUPS_MAX]
            if each.type in ("classic", "consumer")
            and (group := await ask(f"group {each.group_id}", facts_of(admin, each.group_id), None))
        ]
        facts.hanging = await ask("transactions", _hanging(admin), [])
        extra["cluster.json"] = {
            "cluster": str(cluster),
            "topics": [str(each) for each in facts.topics],
            "quorum": str(facts.quorum),
            "log_dirs": str(facts.log_dirs),
            "groups": [str(each) for each in facts.groups],
        }
        extra["brokers.json"] = {
            str(broker): await ask(f"options of broker {broker}", _options(admin, broker), {})
            for broker in reached
        }
    facts.failures = failures
    return facts, extra


async def _reachable(host: str, port: int) -> str:
    """Why an address cannot be reached from here; empty if it can."""
    try:
        async with asyncio.timeout(REACH_S):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"no answer within {REACH_S:.0f} s (a firewall, or a machine that is down)"
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    return ""


async def _min_isr(admin: Admin, topic: str) -> int:
    entries = await admin.describe_topic_config(topic, ["min.insync.replicas"])
    return int(entries["min.insync.replicas"].value or 1)


async def _options(admin: Admin, broker: int) -> dict[str, str | None]:
    """What differs from the defaults, without secrets."""
    entries = await admin.describe_config(ResourceType.BROKER, str(broker))
    return {each.name: None if each.sensitive else each.value for each in entries.values() if not each.is_default}


async def _hanging(admin: Admin) -> list[Hanging]:
    found = []
    for listed in await admin.list_transactions():
        if listed.state in ("Ongoing", "PrepareCommit", "PrepareAbort"):
            each: TransactionDescription = await admin.describe_transaction(listed.transactional_id)
            open_s = time.time() - each.start_time_ms / 1000
            if each.start_time_ms > 0 and open_s > 2 * each.timeout_ms / 1000:
                found.append(Hanging(each.transactional_id, each.state, open_s, each.timeout_ms / 1000))
    return found


def write_bundle(path: Path, files: dict[str, Any]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            data = json.dumps(content, indent=1, default=str).encode()
            entry = tarfile.TarInfo(f"rookery-doctor/{name}")
            entry.size, entry.mtime = len(data), int(time.time())
            archive.addfile(entry, io.BytesIO(data))
