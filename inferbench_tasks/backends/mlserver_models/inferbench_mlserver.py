"""Starts MLServer in its own environment, closed to whoever would load or unload its model by its repository API."""

from typing import Any, NoReturn

import grpc
from mlserver.cli import main  # type: ignore[import-not-found]
from mlserver.errors import MLServerError  # type: ignore[import-not-found]
from mlserver.grpc.utils import STATUS_CODE_MAPPING  # type: ignore[import-not-found]
from mlserver.handlers import ModelRepositoryHandlers  # type: ignore[import-not-found]


async def _refuse(_handlers: Any, name: str) -> NoReturn:
    # MLServer has no setting for it. Both HTTP and gRPC come here; its own start does not.
    raise MLServerError(f"{name} is the model of a measurement: nobody loads or unloads it", 403)


STATUS_CODE_MAPPING[403] = grpc.StatusCode.PERMISSION_DENIED
ModelRepositoryHandlers.load = _refuse
ModelRepositoryHandlers.unload = _refuse

if __name__ == "__main__":
    main()
