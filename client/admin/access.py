"""ACLs, SCRAM users and quotas."""

import secrets
from collections.abc import Iterable, Mapping, Sequence

from rookery.client.admin.calls import Calls
from rookery.client.admin.types import (
    Acl,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    Quota,
    QuotaEntity,
    ResourceType,
    ScramUser,
)
from rookery.client.errors import ConfigurationError
from rookery.core.errors import ErrorCode
from rookery.core.net.cluster import check
from rookery.core.security.scram import ITERATIONS_MIN, SALT_BYTES, ScramMechanism
from rookery.core.wire.apis import alter_client_quotas as alter_quotas
from rookery.core.wire.apis import describe_client_quotas as describe_quotas
from rookery.core.wire.apis.alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from rookery.core.wire.apis.create_acls import CREATE_ACLS, AclCreation, CreateAclsRequest
from rookery.core.wire.apis.delete_acls import DELETE_ACLS, DeleteAclsFilter, DeleteAclsRequest
from rookery.core.wire.apis.describe_acls import DESCRIBE_ACLS, DescribeAclsRequest
from rookery.core.wire.apis.describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    DescribeUserScramCredentialsRequest,
    UserName,
)

EXACT, DEFAULT, ANY = range(3)


class AccessCalls(Calls):
    async def create_acls(self, acls: Sequence[Acl]) -> None:
        """Add rules; raises the first refusal."""
        request = CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    resource_pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in acls
            ]
        )

        async def attempt() -> None:
            answer = await self._cluster.ask_any(CREATE_ACLS, request)
            for acl, result in zip(acls, answer.results, strict=True):
                check(result.error_code, f"ACL of {acl.principal}", result.error_message)

        await self._retrying(attempt)

    async def describe_acls(self, matching: AclFilter | None = None) -> list[Acl]:
        """The rules that match; all of them without a filter."""
        wanted = matching or AclFilter()
        request = DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )
        return [
            Acl(
                each.principal,
                AclOperation(each.operation),
                ResourceType(resource.resource_type),
                resource.resource_name,
                Permission(each.permission_type),
                PatternType(resource.pattern_type),
                each.host,
            )
            for resource in (await self._ask_any(DESCRIBE_ACLS, request)).resources
            for each in resource.acls
        ]

    async def delete_acls(self, matching: AclFilter) -> list[Acl]:
        """Delete the rules that match; returns them."""
        wanted = DeleteAclsFilter(
            resource_type_filter=matching.resource_type,
            resource_name_filter=matching.resource_name,
            pattern_type_filter=matching.pattern_type,
            principal_filter=matching.principal,
            host_filter=matching.host,
            operation=matching.operation,
            permission_type=matching.permission,
        )
        deleted: list[Acl] = []
        for result in (await self._ask_any(DELETE_ACLS, DeleteAclsRequest(filters=[wanted]))).filter_results:
            check(result.error_code, "the filter of ACLs", result.error_message)
            for each in result.matching_acls:
                check(each.error_code, f"ACL of {each.principal}", each.error_message)
                deleted.append(
                    Acl(
                        each.principal,
                        AclOperation(each.operation),
                        ResourceType(each.resource_type),
                        each.resource_name,
                        Permission(each.permission_type),
                        PatternType(each.pattern_type),
                        each.host,
                    )
                )
        return deleted

    async def describe_users(self, names: Iterable[str] | None = None) -> list[ScramUser]:
        """Users with SCRAM credentials."""
        wanted = None if names is None else [UserName(name=name) for name in names]
        answer = await self._ask_any(
            DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(users=wanted)
        )
        users: list[ScramUser] = []
        for result in answer.results:
            if result.error_code != ErrorCode.RESOURCE_NOT_FOUND:
                check(result.error_code, f"user {result.user!r}", result.error_message)
                infos = {
                    ScramMechanism(each.mechanism).mechanism: each.iterations
                    for each in result.credential_infos
                }
                users.append(ScramUser(result.user, infos))
        return users

    async def upsert_user(
        self, name: str, password: str, *, mechanism: str = "SCRAM-SHA-512", iterations: int = ITERATIONS_MIN
    ) -> None:
        """Create a user or change the password. The password itself does not leave the client."""
        kind = _mechanism(mechanism)
        salt = secrets.token_bytes(SALT_BYTES)
        upsertion = ScramCredentialUpsertion(
            name=name,
            mechanism=kind,
            iterations=iterations,
            salt=salt,
            salted_password=kind.salted_password(password, salt, iterations),
        )
        await self._alter_users(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))

    async def delete_user(self, name: str, *, mechanism: str = "SCRAM-SHA-512") -> None:
        deletion = ScramCredentialDeletion(name=name, mechanism=_mechanism(mechanism))
        await self._alter_users(AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))

    async def _alter_users(self, request: AlterUserScramCredentialsRequest) -> None:
        for result in (await self._ask_any(ALTER_USER_SCRAM_CREDENTIALS, request)).results:
            check(result.error_code, f"user {result.user!r}", result.error_message)

    async def describe_quotas(
        self, matching: QuotaEntity | None = None, *, strict: bool = False
    ) -> list[Quota]:
        """Quotas of entities that have these names, None for the default; `strict` leaves out those with more."""
        components = [
            describe_quotas.ComponentData(
                entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name
            )
            for kind, name in (matching or {}).items()
        ]
        request = describe_quotas.DescribeClientQuotasRequest(components=components, strict=strict)
        answer = await self._ask_any(describe_quotas.DESCRIBE_CLIENT_QUOTAS, request)
        return [
            Quota(
                {each.entity_type: each.entity_name for each in entry.entity},
                {each.key: each.value for each in entry.values},
            )
            for entry in answer.entries or ()
        ]

    async def alter_quotas(
        self, entity: QuotaEntity, values: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Set quotas of an entity such as ``{"user": "alice"}``; None removes one."""
        entry = alter_quotas.EntryData(
            entity=[
                alter_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
            ],
            ops=[
                alter_quotas.OpData(
                    key=key, value=0.0 if value is None else float(value), remove=value is None
                )
                for key, value in values.items()
            ],
        )
        request = alter_quotas.AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
        for result in (await self._ask_any(alter_quotas.ALTER_CLIENT_QUOTAS, request)).entries:
            check(result.error_code, f"quotas of {dict(entity)}", result.error_message)


def _mechanism(name: str) -> ScramMechanism:
    found = ScramMechanism.named(name)
    if found is None:
        raise ConfigurationError(f"{name!r} is not SCRAM-SHA-256 or SCRAM-SHA-512", "mechanism")
    return found
