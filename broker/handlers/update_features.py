"""UpdateFeatures (57): raise or lower the feature levels that the cluster has agreed on."""

from collections.abc import Callable

from rookery.broker.handlers.admin_request import decide
from rookery.broker.handlers.authorize import ALTER, check_cluster
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, InvalidRequestError, KafkaError
from rookery.core.metadata.image import Image
from rookery.core.metadata.requests import FeatureUpdate, UpdateFeaturesReply, UpgradeType
from rookery.core.metadata.requests import UpdateFeaturesRequest as AskController
from rookery.core.wire.apis.update_features import (
    UPDATE_FEATURES,
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from rookery.core.wire.served import Served

UPGRADE_TYPE_FROM = 1
ONE_ERROR_FROM = 2
"""From this version on there is one error for the request, and none for each feature."""
_TYPES = frozenset(UpgradeType)


class UpdateFeaturesHandler:
    served = Served(UPDATE_FEATURES, 0, 2)

    def __init__(self, cluster: ClusterPort, controller: ControllerPort) -> None:
        self._cluster = cluster
        self._controller = controller

    async def handle(self, request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:
        def visible(reply: UpdateFeaturesReply) -> Callable[[Image], bool] | None:
            made = {one.name for one in reply.features if not one.error}
            levels = {u.feature: u.max_version_level for u in request.feature_updates if u.feature in made}
            if request.validate_only:
                return None
            return lambda image: all(image.features.get(name, 0) == level for name, level in levels.items())

        try:
            check_cluster(call, ALTER)
            updates = tuple(_update(update, call.version) for update in request.feature_updates)
            ask = self._controller.ask(AskController(updates, request.validate_only))
            reply = await decide(ask, request.timeout_ms, self._cluster, visible)
        except KafkaError as error:
            call.error(error.code)
            return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
        return _response(reply, call)


def _update(update: FeatureUpdateKey, version: int) -> FeatureUpdate:
    if version < UPGRADE_TYPE_FROM:
        kind = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    elif update.upgrade_type in _TYPES:
        kind = UpgradeType(update.upgrade_type)
    else:
        raise InvalidRequestError(f"there is no upgrade type {update.upgrade_type}")
    return FeatureUpdate(update.feature, update.max_version_level, kind)


def _response(reply: UpdateFeaturesReply, call: Call) -> UpdateFeaturesResponse:
    failed = [one for one in reply.features if one.error]
    for one in failed:
        call.error(ErrorCode(one.error))
    if call.version >= ONE_ERROR_FROM:
        first = next(iter(failed), None)
        if first is None:
            return UpdateFeaturesResponse()
        return UpdateFeaturesResponse(error_code=first.error, error_message=f"{first.name}: {first.message}")
    return UpdateFeaturesResponse(
        results=[
            UpdatableFeatureResult(feature=one.name, error_code=one.error, error_message=one.message)
            for one in reply.features
        ]
    )
