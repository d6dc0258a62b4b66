"""Who may call the control plane: the right cluster, a version both speak, and, with TLS, the right certificate.

With mutual TLS a node's certificate carries its id as a subject alternative name (DNS) ``node-<id>``; calls made in
that node's name are taken from no other certificate. A certificate with the name ``admin`` may change the
quorum from outside, and read its log. A certificate without such a name belongs to a user and may only look.
"""

from dataclasses import dataclass
from typing import NoReturn

import grpc
import grpc.aio

from rookery.core.errors import ErrorCode
from rookery.core.metadata.features import METADATA_VERSION, RELEASE, Release
from rookery.core.net.tls import ADMIN_NAME, NODE_NAME, READER_ID

Context = grpc.aio.ServicerContext[object, object]
_NAMES = "peer_dns"
"""Not all alternative names: an authority may let people choose an e-mail address or a URI."""
_TRANSPORT = "transport_security_type"


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one node; each check ends the call with a status that says why."""

    cluster_id: str
    node_id: int
    mutual_tls: bool = False
    release: Release = RELEASE
    plain_too: bool = False
    """While a cluster goes from plain to TLS, calls without TLS are believed as they were before."""

    async def check_cluster(self, context: Context, cluster_id: str, to_id: int = -1) -> None:
        if cluster_id != self.cluster_id:
            await refuse(
                context,
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"this is node {self.node_id} of cluster {self.cluster_id}, the request is for cluster "
                f"{cluster_id or '(none)'}; check the addresses and meta.properties of the caller",
            )
        if to_id not in (-1, self.node_id):
            await refuse(
                context,
                ErrorCode.INVALID_REQUEST,
                f"node {self.node_id} answers at this address, the request is for node {to_id}; check "
                "controller.quorum.voters and advertised.listeners",
            )

    async def check_version(self, context: Context, version: int) -> None:
        least, most = self.release.rpc_range
        if not least <= version <= most:
            await refuse(
                context,
                ErrorCode.UNSUPPORTED_VERSION,
                f"node {self.node_id} supports versions {least} to {most}, the request has {version}: the "
                f"releases of the two are too far apart for {METADATA_VERSION} as it is",
            )

    async def check_node(self, context: Context, node_id: int) -> None:
        """The caller speaks for `node_id`: with mutual TLS its certificate must say so."""
        if self._knows_callers(context) and NODE_NAME.format(node_id) not in certificate_names(context):
            await _deny(context, f"names {NODE_NAME.format(node_id)!r}, for which it speaks")

    async def check_reader(self, context: Context, node_id: int) -> None:
        """The caller only reads: a node, or somebody with an administrator's certificate, who is none."""
        if node_id != READER_ID or ADMIN_NAME not in certificate_names(context):
            await self.check_node(context, node_id)

    async def check_admin(self, context: Context) -> None:
        """The caller may change the quorum: a node, or somebody with an administrator's certificate."""
        if self._knows_callers(context):
            prefix = NODE_NAME.format("")
            names = certificate_names(context)
            if not any(name == ADMIN_NAME or name.startswith(prefix) for name in names):
                await _deny(context, f"names {ADMIN_NAME!r} or a node, which alone may do this")

    def _knows_callers(self, context: Context) -> bool:
        """Whether a certificate must say who calls."""
        return self.mutual_tls and not (self.plain_too and not _by_tls(context))


def _by_tls(context: Context) -> bool:
    return b"ssl" in context.auth_context().get(_TRANSPORT, ())


def certificate_names(context: Context) -> list[str]:
    """The names of hosts (DNS) in the caller's certificate."""
    names = context.auth_context().get(_NAMES, ())
    return [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names]


async def refuse(context: Context, code: ErrorCode, message: str) -> NoReturn:
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{code.name}: {message}")
    raise RuntimeError("abort returned")


async def _deny(context: Context, wanted: str) -> NoReturn:
    names = ", ".join(certificate_names(context)) or "(none)"
    await context.abort(
        grpc.StatusCode.PERMISSION_DENIED,
        f"{ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name}: the caller's certificate carries the names {names}, "
        f"but only one is accepted that {wanted}",
    )
    raise RuntimeError("abort returned")
