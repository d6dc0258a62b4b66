"""What the commands share: the bootstrap argument, running a coroutine, and printing tables."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.client.admin import Admin
from rookery.client.cli import finding
from rookery.client.cli.asking import add_yes as add_yes
from rookery.client.cli.asking import confirm as confirm
from rookery.client.cli.failures import explained
from rookery.client.cli.printing import OUTPUTS as OUTPUTS
from rookery.client.cli.printing import Progress as Progress
from rookery.client.cli.printing import add_output as add_output
from rookery.client.cli.printing import painted as painted
from rookery.client.cli.printing import show as show
from rookery.client.cli.printing import table as table
from rookery.client.errors import ConfigurationError, UsageError
from rookery.core.config.options import ConfigError
from rookery.core.errors import KafkaError
from rookery.core.net.client_properties import security_of
from rookery.core.net.cluster import BootstrapError, Cluster
from rookery.core.net.connection import ConnectionLostError

if TYPE_CHECKING:
    from rookery.client.node_pages import Access

def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT,...",
        help=f"some nodes of the cluster (${finding.BOOTSTRAP_VARIABLE}, the current context, the nearest "
        f"{finding.FOLDER}, {finding.DEFAULT_BOOTSTRAP})",
    )
    add_command_config(parser)


def add_command_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="properties for a cluster with TLS or SASL, by the names of Java's clients or of librdkafka "
        f"(${finding.COMMAND_CONFIG_VARIABLE})",
    )


def add_http(parser: argparse.ArgumentParser) -> None:
    from rookery.client.node_pages import HTTP_LISTENER, HTTP_TOKEN

    parser.add_argument(
        "--http",
        metavar="[https://]HOST:PORT,...",
        help=f"where nodes serve their pages (what the brokers' option {HTTP_LISTENER} says); {HTTP_TOKEN} in the "
        "file of --command-config is the token that they ask for",
    )


def with_cluster(
    work: Callable[[Cluster, argparse.Namespace], Awaitable[int | None]],
) -> Callable[[argparse.Namespace], int]:
    """A command that needs a cluster: connects, runs, and turns failures into what a person can act on."""

    async def connected(arguments: argparse.Namespace) -> int:
        bootstrap, properties = connecting(arguments)
        try:
            cluster = Cluster(bootstrap, client_id="rookery-cli", security=security_of(properties))
        except ConfigError as error:
            raise UsageError(f"--command-config: {error}") from error
        except ValueError as error:
            raise UsageError(f"--bootstrap: {error}") from error
        async with cluster:
            return int(await work(cluster, arguments) or 0)

    def run(arguments: argparse.Namespace) -> int:
        return run_explained(connected(arguments), arguments)

    return run


def with_admin(
    work: Callable[[Admin, argparse.Namespace], Awaitable[int | None]],
) -> Callable[[argparse.Namespace], int]:
    """A command that administers a cluster: connects, runs, and turns failures into what a person can act on."""

    async def connected(arguments: argparse.Namespace) -> int | None:
        async with Admin(client_options(arguments)) as admin:
            return await work(admin, arguments)

    return with_client(connected)


def with_client(
    work: Callable[[argparse.Namespace], Awaitable[int | None]],
) -> Callable[[argparse.Namespace], int]:
    """A command that opens clients of its own."""

    async def ended(arguments: argparse.Namespace) -> int:
        return int(await work(arguments) or 0)

    def run(arguments: argparse.Namespace) -> int:
        return run_explained(ended(arguments), arguments)

    return run


def run_explained(work: Coroutine[Any, Any, int], arguments: argparse.Namespace) -> int:
    try:
        return asyncio.run(work)
    except ConfigurationError as error:
        raise UsageError(str(error)) from error
    except (BootstrapError, ConnectionLostError, KafkaError) as error:
        raise explained(error, arguments, client_options(arguments)) from error
    except ExceptionGroup as group:  # of tasks that ran side by side, the first failure speaks for all
        raise explained(group.exceptions[0], arguments, client_options(arguments)) from group


def connecting(arguments: argparse.Namespace) -> tuple[str, dict[str, str]]:
    """The brokers to ask and the client properties, found once: which cluster it is is said once."""
    if "properties" not in arguments:
        arguments.bootstrap, arguments.properties = finding.connecting(arguments.bootstrap, arguments.command_config)
    return arguments.bootstrap, arguments.properties


def client_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of a client for the cluster that was named: its addresses, and how connections are secured."""
    bootstrap, properties = connecting(arguments)
    secured = {key: value for key, value in properties.items() if key.startswith(("security.", "ssl.", "sasl."))}
    if "sasl.mechanisms" in secured:  # librdkafka's name
        secured["sasl.mechanism"] = secured.pop("sasl.mechanisms")
    return {"bootstrap.servers": bootstrap, "client.id": "rookery-cli", **secured}


def access_of(arguments: argparse.Namespace) -> "Access":
    """How pages of nodes are asked for, by the properties that `client_options` found."""
    from rookery.client.node_pages import Access

    return Access(arguments.properties)
