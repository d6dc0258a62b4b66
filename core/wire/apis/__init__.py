"""Every API this project can read and write, by key."""

from typing import Any

from rookery.core.wire.api import Api
from rookery.core.wire.apis.api_versions import API_VERSIONS
from rookery.core.wire.apis.fetch import FETCH
from rookery.core.wire.apis.metadata import METADATA
from rookery.core.wire.apis.produce import PRODUCE

by_key: dict[int, Api[Any, Any]] = {api.key: api for api in (PRODUCE, FETCH, METADATA, API_VERSIONS)}
