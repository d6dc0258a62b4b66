"""`rookery acl`, `rookery user`, `rookery quota`: who may do what, who there is, and how much each may use."""

import argparse
import getpass
import sys
from typing import Any

from rookery.client.admin import Admin
from rookery.client.admin.types import Acl, AclFilter, AclOperation, PatternType, Permission, ResourceType
from rookery.client.cli.common import add_bootstrap, add_output, add_yes, confirm, show, with_admin
from rookery.client.cli.nearest import nearest
from rookery.client.errors import NotFoundError, UsageError
from rookery.core.metadata.acl_codes import CLUSTER_NAME

RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.CLUSTER,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS = {
    each.name.lower().replace("_", "-"): each for each in AclOperation if each.name not in ("UNKNOWN", "ANY")
}
ACL_COLUMNS = ("principal", "permission", "operation", "resource", "name", "pattern", "host")
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")


def add_acl_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("acl", help="list, create and delete ACLs")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    for name, text, run in (
        ("list", "list ACLs", _acls),
        ("create", "allow or deny something", _allow),
        ("delete", "delete ACLs that match", _delete_acls),
    ):
        verb = actions.add_parser(name, help=text)
        needed = name == "create"
        verb.add_argument("--principal", required=needed, metavar="User:NAME")
        verb.add_argument("--operation", choices=OPERATIONS, required=needed)
        verb.add_argument("--resource", choices=RESOURCES, required=needed)
        verb.add_argument("--name", help="of the resource; not needed for the cluster")
        verb.add_argument("--prefixed", action="store_true", help="the name is the beginning of names")
        verb.add_argument("--deny", action="store_true", help="deny instead of allow")
        verb.add_argument("--host", default="*" if needed else None)
        add_bootstrap(verb)
        if name == "list":
            add_output(verb)
        if name == "delete":
            add_yes(verb)
        verb.set_defaults(run=with_admin(run))


def _filter(arguments: argparse.Namespace) -> AclFilter:
    return AclFilter(
        arguments.principal,
        OPERATIONS[arguments.operation] if arguments.operation else AclOperation.ANY,
        RESOURCES[arguments.resource] if arguments.resource else ResourceType.ANY,
        arguments.name,
        Permission.DENY if arguments.deny else Permission.ANY,
        PatternType.PREFIXED if arguments.prefixed else PatternType.ANY,
        arguments.host,
    )


def _row(acl: Acl) -> dict[str, Any]:
    names = {value: key for key, value in RESOURCES.items()}
    return {
        "principal": acl.principal,
        "permission": acl.permission.name.lower(),
        "operation": acl.operation.name.lower().replace("_", "-"),
        "resource": names.get(acl.resource_type, acl.resource_type.name.lower()),
        "name": acl.resource_name,
        "pattern": acl.pattern_type.name.lower(),
        "host": acl.host,
    }


async def _acls(admin: Admin, arguments: argparse.Namespace) -> None:
    show([_row(acl) for acl in sorted(await admin.describe_acls(_filter(arguments)))], ACL_COLUMNS, arguments.output)


async def _allow(admin: Admin, arguments: argparse.Namespace) -> None:
    name = arguments.name or (CLUSTER_NAME if arguments.resource == "cluster" else None)
    if name is None:
        raise UsageError(f"--name: which {arguments.resource}? `*` means all of them")
    acl = Acl(
        arguments.principal,
        OPERATIONS[arguments.operation],
        RESOURCES[arguments.resource],
        name,
        Permission.DENY if arguments.deny else Permission.ALLOW,
        PatternType.PREFIXED if arguments.prefixed else PatternType.LITERAL,
        arguments.host,
    )
    await admin.create_acls([acl])
    verb = "may not" if arguments.deny else "may"
    print(f"{acl.principal} {verb} {arguments.operation} {arguments.resource} {name}")


async def _delete_acls(admin: Admin, arguments: argparse.Namespace) -> None:
    wanted = _filter(arguments)
    found = await admin.describe_acls(wanted)
    if not found:
        raise NotFoundError("no ACL matches; `rookery acl list` shows what there is")
    confirm(f"Delete {len(found)} ACL(s)?", yes=arguments.yes)
    deleted = await admin.delete_acls(wanted)
    print(f"deleted {len(deleted)} ACL(s)")


# --- users ---------------------------------------------------------------------------------------------------


def add_user_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("user", help="list, create and delete users with SCRAM passwords")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    listing = actions.add_parser("list", help="list users")
    add_bootstrap(listing)
    add_output(listing)
    listing.set_defaults(run=with_admin(_users))

    create = actions.add_parser(
        "create", help="create a user or change the password, which is read from the terminal or standard input"
    )
    create.add_argument("name")
    create.add_argument("--mechanism", choices=MECHANISMS, default=MECHANISMS[0])
    add_bootstrap(create)
    create.set_defaults(run=with_admin(_create_user))

    delete = actions.add_parser("delete", help="delete a user's password")
    delete.add_argument("name")
    delete.add_argument("--mechanism", choices=MECHANISMS, default=MECHANISMS[0])
    add_yes(delete)
    add_bootstrap(delete)
    delete.set_defaults(run=with_admin(_delete_user))


async def _users(admin: Admin, arguments: argparse.Namespace) -> None:
    rows = [
        {"user": each.name, "mechanism": mechanism, "iterations": iterations}
        for each in sorted(await admin.describe_users(), key=lambda user: user.name)
        for mechanism, iterations in sorted(each.credentials.items())
    ]
    show(rows, ("user", "mechanism", "iterations"), arguments.output)


async def _create_user(admin: Admin, arguments: argparse.Namespace) -> None:
    if sys.stdin.isatty():
        password = getpass.getpass(f"password of {arguments.name}: ")
    else:
        password = sys.stdin.readline().rstrip("\n")
    if not password:
        raise UsageError("an empty password cannot be used")
    await admin.upsert_user(arguments.name, password, mechanism=arguments.mechanism)
    print(f"user {arguments.name} can authenticate with {arguments.mechanism}")


async def _delete_user(admin: Admin, arguments: argparse.Namespace) -> None:
    confirm(f"Delete the {arguments.mechanism} password of {arguments.name}?", yes=arguments.yes)
    await admin.delete_user(arguments.name, mechanism=arguments.mechanism)
    print(f"user {arguments.name} has no {arguments.mechanism} password any more")


# --- quotas --------------------------------------------------------------------------------------------------

QUOTAS = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
    "connection_creation_rate",
)  # fmt: skip
DEFAULT_NAME = "<default>"


def add_quota_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("quota", help="list and set how much users, clients and addresses may use")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    listing = actions.add_parser("list", help="list quotas")
    add_bootstrap(listing)
    add_output(listing)
    listing.set_defaults(run=with_admin(_quotas))
    for name, text in (("set", "set quotas"), ("unset", "remove quotas")):
        verb = actions.add_parser(name, help=text)
        for kind in ("user", "client-id", "ip"):
            verb.add_argument(f"--{kind}", metavar="NAME", help=f"{DEFAULT_NAME}: all without a quota of their own")
        verb.add_argument("quota", nargs="+", metavar="KEY=VALUE" if name == "set" else "KEY", help=", ".join(QUOTAS))
        add_bootstrap(verb)
        verb.set_defaults(run=with_admin(_change_quota))


async def _quotas(admin: Admin, arguments: argparse.Namespace) -> None:
    rows = [
        {
            "entity": ", ".join(f"{kind} {name or DEFAULT_NAME}" for kind, name in sorted(each.entity.items())),
            "quota": key,
            "value": value,
        }
        for each in await admin.describe_quotas()
        for key, value in sorted(each.values.items())
    ]
    show(rows, ("entity", "quota", "value"), arguments.output)


async def _change_quota(admin: Admin, arguments: argparse.Namespace) -> None:
    given = {"user": arguments.user, "client-id": arguments.client_id, "ip": arguments.ip}
    entity = {kind: None if name == DEFAULT_NAME else name for kind, name in given.items() if name is not None}
    if not entity:
        raise UsageError("whose quota? --user, --client-id or --ip is needed")
    values: dict[str, float | None] = {}
    for each in arguments.quota:
        key, equals, value = each.partition("=")
        if key not in QUOTAS:
            raise UsageError(f"{key}: known quotas are {', '.join(QUOTAS)}{nearest(key, QUOTAS)}")
        try:
            values[key] = float(value) if arguments.action == "set" else None
        except ValueError:
            raise UsageError(f"{each}: {key}=NUMBER is needed") from None
        if arguments.action == "unset" and equals:
            raise UsageError(f"{each}: only the name is needed")
    await admin.alter_quotas(entity, values)
    print(f"{'set' if arguments.action == 'set' else 'removed'}: {', '.join(arguments.quota)}")
