"""ApiVersions: the APIs and versions that this broker serves."""

import re

from kstore.broker.api_table import Api
from kstore.broker.request import Answer, Request
from kstore.broker.services import Services
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_MIN_VERSION, _MAX_VERSION = 0, 4
_NAMED_FROM = 3  # the first version in which clients name their software
_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class ApiVersionsHandlers:
    """Serves ApiVersions from the API table."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def apis(self) -> list[Api]:
        return [Api(ApiKey.API_VERSIONS, _MIN_VERSION, _MAX_VERSION, self.api_versions)]

    def api_versions(self, request: Request) -> Answer:
        """List the served APIs. For an unsupported version, return UNSUPPORTED_VERSION with the
        versions of ApiVersions only, which the connection encodes in version 0. Return
        INVALID_REQUEST for a software name that Kafka rejects."""
        if not _MIN_VERSION <= request.api_version <= _MAX_VERSION:
            return ApiVersionsResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                api_keys=[_entry(ApiKey.API_VERSIONS, _MIN_VERSION, _MAX_VERSION)],
            )
        client = ApiVersionsRequest.decode(request.reader, request.api_version)
        if request.api_version >= _NAMED_FROM:
            names = client.client_software_name, client.client_software_version
            if not all(map(_SOFTWARE_NAME.fullmatch, names)):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        served = [_entry(api.key, api.min_version, api.max_version) for api in self._services.apis]
        return ApiVersionsResponse(api_keys=served)


def _entry(key: int, low: int, high: int) -> ApiVersionsResponse.ApiKeys:
    return ApiVersionsResponse.ApiKeys(api_key=key, min_version=low, max_version=high)
