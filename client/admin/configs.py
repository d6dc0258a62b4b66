"""Options of topics, brokers and groups."""

from collections.abc import Mapping, Sequence

from rookery.client.admin.calls import Calls
from rookery.client.admin.types import ConfigEntry, ConfigSource, ResourceType
from rookery.core.net.cluster import check
from rookery.core.wire.apis.describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from rookery.core.wire.apis.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from rookery.core.wire.apis.list_config_resources import LIST_CONFIG_RESOURCES, ListConfigResourcesRequest

SET, DELETE, APPEND, SUBTRACT = range(4)
_SOURCES = {int(source): source for source in ConfigSource}
_KINDS = {int(kind): kind for kind in ResourceType}
_ONE_BROKERS = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


class ConfigCalls(Calls):
    async def describe_config(
        self, kind: ResourceType, name: str, keys: Sequence[str] | None = None
    ) -> dict[str, ConfigEntry]:
        """The options of a topic, broker (its number as text, "" for all of them) or group; all, or those of `keys`."""
        wanted = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None if keys is None else list(keys)
        )
        request = DescribeConfigsRequest(resources=[wanted])

        async def attempt() -> dict[str, ConfigEntry]:
            answer: DescribeConfigsResponse
            if kind in _ONE_BROKERS and name:
                answer = await self._cluster.ask(await self._node(int(name)), DESCRIBE_CONFIGS, request)
            else:
                answer = await self._cluster.ask_any(DESCRIBE_CONFIGS, request)
            entries: dict[str, ConfigEntry] = {}
            for result in answer.results:
                check(result.error_code, f"{kind.name.lower()} {name!r}", result.error_message)
                for each in result.configs:
                    entries[each.name] = ConfigEntry(
                        each.name,
                        each.value,
                        _SOURCES.get(each.config_source, ConfigSource.UNKNOWN),
                        each.read_only,
                        each.is_sensitive,
                    )
            return entries

        return await self._retrying(attempt)

    async def describe_topic_config(
        self, topic: str, keys: Sequence[str] | None = None
    ) -> dict[str, ConfigEntry]:
        return await self.describe_config(ResourceType.TOPIC, topic, keys)

    async def describe_broker_config(
        self, broker: int, keys: Sequence[str] | None = None
    ) -> dict[str, ConfigEntry]:
        return await self.describe_config(ResourceType.BROKER, str(broker), keys)

    async def alter_config(
        self,
        kind: ResourceType,
        name: str,
        set: Mapping[str, str] | None = None,
        *,
        delete: Sequence[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Change some options and leave the others: set values, go back to defaults, add to lists, take from lists."""
        changes = [
            *(
                AlterableConfig(name=key, config_operation=SET, value=str(text))
                for key, text in (set or {}).items()
            ),
            *(AlterableConfig(name=key, config_operation=DELETE) for key in delete),
            *(
                AlterableConfig(name=key, config_operation=APPEND, value=text)
                for key, text in (append or {}).items()
            ),
            *(
                AlterableConfig(name=key, config_operation=SUBTRACT, value=v)
                for key, v in (subtract or {}).items()
            ),
        ]
        request = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)],
            validate_only=validate_only,
        )

        async def attempt() -> None:
            answer: IncrementalAlterConfigsResponse
            if kind in _ONE_BROKERS and name:
                answer = await self._cluster.ask(
                    await self._node(int(name)), INCREMENTAL_ALTER_CONFIGS, request
                )
            else:
                answer = await self._cluster.ask_any(INCREMENTAL_ALTER_CONFIGS, request)
            for each in answer.responses:
                check(each.error_code, f"{kind.name.lower()} {name!r}", each.error_message)

        await self._retrying(attempt)

    async def alter_topic_config(
        self, topic: str, set: Mapping[str, str] | None = None, *, delete: Sequence[str] = ()
    ) -> None:
        await self.alter_config(ResourceType.TOPIC, topic, set, delete=delete)

    async def list_config_resources(
        self, kinds: Sequence[ResourceType] = ()
    ) -> list[tuple[ResourceType, str]]:
        """What has options of its own."""
        request = ListConfigResourcesRequest(resource_types=[int(kind) for kind in kinds])
        answer = await self._ask_any(LIST_CONFIG_RESOURCES, request)
        found = [(_KINDS.get(each.resource_type), each.resource_name) for each in answer.config_resources]
        return [(kind, name) for kind, name in found if kind is not None]
