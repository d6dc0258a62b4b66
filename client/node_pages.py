"""What nodes serve over HTTP, for clients: pages of JSON, and streams of server-sent events.

Only nodes of Rookery have them. Each broker's address is found with the option `rookery.http.listener`; nodes that are
controllers alone have to be named. Nodes that have a certificate for HTTP are asked by HTTPS. The token and
what is trusted are properties of the client: `rookery.http.token`, and `rookery.http.ssl.truststore.*`, without which
the trust store of the Kafka protocol holds, or what the system trusts.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from rookery.client.admin import Admin
from rookery.client.admin.types import BrokerDescription
from rookery.client.errors import CliError, UsageError
from rookery.core.config.options import ConfigError
from rookery.core.errors import BrokerIdNotRegisteredError, KafkaError
from rookery.core.net.client_properties import RENAMED
from rookery.core.net.cluster import parse_bootstrap, retriable

T = TypeVar("T")
HTTP_LISTENER = "rookery.http.listener"
HTTP_KEYSTORE = "rookery.http.ssl.keystore.location"
HTTP_TOKEN = "rookery.http.token"
OWN = "rookery.http."
IDENTIFICATION = "ssl.endpoint.identification.algorithm"
HTTPS = "https://"
EVERYWHERE = ("", "0.0.0.0", "::", "[::]")
CONNECT_S = 5.0
BROKER_S = 5.0
"""For one broker among others to answer."""
CLOSE_S = 1.0
ANSWER_S = 30.0
SILENCE_S = 60.0
"""A stream says something every 15 seconds; one that says nothing for this long has ended."""
LINE_BYTES_MAX = 1 << 16
PAGE_BYTES_MAX = 64 << 20


class PageError(CliError):
    """A node does not serve the page."""


@dataclass(frozen=True)
class Access:
    """How pages are asked for: by the properties of a client."""

    properties: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def token(self) -> str:
        return self.properties.get(HTTP_TOKEN, "").strip()

    @cached_property
    def tls(self) -> ssl.SSLContext:
        from rookery.core.net.tls import client_context, read_tls  # only where HTTPS is spoken

        given = {RENAMED.get(key, key): value.strip() for key, value in self.properties.items()}
        own = {key.removeprefix(OWN): value for key, value in given.items() if key.startswith(f"{OWN}ssl.truststore.")}
        trust = own or {key: value for key, value in given.items() if key.startswith("ssl.truststore.")}
        named = given.get(f"{OWN}{IDENTIFICATION}", given.get(IDENTIFICATION))
        if named is not None:
            trust[IDENTIFICATION] = "" if named == "none" else named
        try:
            return client_context(read_tls(trust))
        except ConfigError as error:
            raise UsageError(f"--command-config: {error}") from error


NOBODY = Access()


async def answer_of(broker: int, question: Awaitable[T], failures: dict[int, str]) -> T | None:
    """What one broker answers, soon. If it does not, perhaps since it has just died, `failures` says why; an answer
    that is an error is raised."""
    try:
        async with asyncio.timeout(BROKER_S):
            return await question
    except TimeoutError:
        failures[broker] = f"broker {broker} did not answer within {BROKER_S:g} s"
    except KafkaError as error:
        if not isinstance(error, BrokerIdNotRegisteredError) and not retriable(error):
            raise
        failures[broker] = f"broker {broker}: {error}"
    return None


class Places(NamedTuple):
    """Where brokers serve their pages, and why others did not say where."""

    addresses: dict[int, str]
    failures: dict[int, str]


async def http_addresses(admin: Admin, among: Collection[int] | None = None) -> Places:
    """By broker, of all or of some. Brokers that serve no pages are in neither; one that does not answer, perhaps since
    it has just died, is in the failures and keeps nobody else from being found."""
    found = Places({}, {})

    async def ask(broker: BrokerDescription) -> None:
        question = admin.describe_broker_config(broker.id, [HTTP_LISTENER, HTTP_KEYSTORE])
        entries = await answer_of(broker.id, question, found.failures) or {}
        texts = {name: entry.value or "" for name, entry in entries.items()}
        host, colon, port = texts.get(HTTP_LISTENER, "").rpartition(":")
        if colon and port.isdigit() and int(port):
            scheme = HTTPS if texts.get(HTTP_KEYSTORE) else ""
            found.addresses[broker.id] = f"{scheme}{broker.host if host in EVERYWHERE else host}:{port}"

    brokers = (await admin.describe_cluster()).brokers
    await asyncio.gather(*(ask(each) for each in brokers if among is None or each.id in among))
    return found


@asynccontextmanager
async def _opened(
    address: str, target: str, headers: Mapping[str, str], access: Access, accepted: Collection[int] = (200,)
) -> AsyncGenerator[asyncio.StreamReader, None]:
    """The body of an answer, from its first byte on."""
    secure, place = address.startswith(HTTPS), address.removeprefix(HTTPS).removeprefix("http://")
    ((host, port),) = parse_bootstrap(place)
    context, url = access.tls if secure else None, f"{HTTPS if secure else 'http://'}{place}{target}"
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port, limit=LINE_BYTES_MAX, ssl=context)
    except ssl.SSLCertVerificationError as error:
        raise PageError(
            f"{url}: {error.verify_message}. Set {OWN}ssl.truststore.location in the file of --command-config"
        ) from error
    except (OSError, TimeoutError) as error:
        raise PageError(f"{url}: {error or 'no connection in time'}") from error
    try:
        sent = {**headers, "Authorization": f"Bearer {access.token}"} if access.token else headers
        asked = [f"GET {target} HTTP/1.1", f"Host: {place}", *(f"{name}: {text}" for name, text in sent.items())]
        writer.write("\r\n".join([*asked, "Connection: close", "", ""]).encode())
        async with asyncio.timeout(ANSWER_S):
            status = (await reader.readline()).split()[1:2]
            while (await reader.readline()).strip():
                pass
            if status == [b"401"]:
                raise PageError(f"{url}: a token is needed, {HTTP_TOKEN} in the file of --command-config")
            if status not in [[b"%d" % each] for each in accepted]:
                said = (await reader.read(1000)).decode(errors="replace").strip()
                code = status[0].decode(errors="replace") if status else "nothing"
                raise PageError(f"{url} answered {code}: {said}")
        yield reader
    except (OSError, TimeoutError, ValueError) as error:
        raise PageError(f"{url}: {error or 'no answer in time'}") from error
    finally:
        writer.close()
        with suppress(OSError, TimeoutError):  # TLS waits for the closing alert; a node that does not send it is left
            async with asyncio.timeout(CLOSE_S):
                await writer.wait_closed()


async def page(address: str, target: str, access: Access = NOBODY, accepted: Collection[int] = (200,)) -> Any:
    """A page of JSON. The address may begin with ``https://``."""
    body = await text_page(address, target, access, accepted)
    try:
        return json.loads(body)
    except ValueError as error:
        raise PageError(f"{address}{target}: {error}") from error


async def text_page(address: str, target: str, access: Access = NOBODY, accepted: Collection[int] = (200,)) -> str:
    """A page as text."""
    async with _opened(address, target, {}, access, accepted) as reader, asyncio.timeout(ANSWER_S):
        body = bytearray()
        while piece := await reader.read(LINE_BYTES_MAX):
            body += piece
            if len(body) > PAGE_BYTES_MAX:
                raise PageError(f"{address}{target}: the page has more than {PAGE_BYTES_MAX} bytes")
        return body.decode()


async def stream(
    address: str, target: str, last_id: int | None, access: Access = NOBODY
) -> AsyncGenerator[dict[str, Any], None]:
    """Server-sent events, from the one after `last_id` on; ends when the node ends it."""
    headers = {"Accept": "text/event-stream"}
    if last_id is not None:
        headers["Last-Event-ID"] = str(last_id)
    async with _opened(address, target, headers, access) as reader:
        while True:
            async with asyncio.timeout(SILENCE_S):
                line = await reader.readline()
            if not line:
                return
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
