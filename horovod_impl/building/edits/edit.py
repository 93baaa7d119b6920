"""One replacement in Horovod's source, and the paths in it that several kinds of edits share."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One replacement in Horovod's source: `old`, which must occur in `path` exactly `times` times, becomes `new`."""

    path: str
    old: str
    new: str
    why: str
    times: int = 1


HTTP_SERVER = "horovod/runner/http/http_server.py"
HTTP_STORE = "horovod/common/gloo/http_store.cc"
LAUNCH = "horovod/runner/launch.py"
GLOO_RUN = "horovod/runner/gloo_run.py"
DRIVER_SERVICE = "horovod/runner/driver/driver_service.py"
