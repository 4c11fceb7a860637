"""The service on Ray Serve: replicas that Ray starts, restarts and scales; the same HTTP interface and page.

    python examples/ray_serve.py runs/mine --replicas 2

Each replica has its own model and its own micro-batching, as a worker of ``nestree serve`` has. It needs Ray Serve and
the extra ``serve``: ``pip install "ray[serve]" "nestree[serve]"``. docs/deployment.md says when it is worth it.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from ray import serve

from nestree.serving.settings import Settings


def application(model: Path, settings: Settings, *, replicas: int, cpus: float, gpus: float, keys: list[str]) -> Any:
    """What ``serve.run`` takes."""

    def build() -> Any:
        """In each replica: loads the model, which gets as many threads as the replica has cores."""
        import torch

        from nestree.serving.app import create_app

        torch.set_num_threads(max(1, int(cpus)))
        return create_app(model, settings, keys=keys, device="cuda" if gpus else "cpu")

    @serve.deployment(
        num_replicas=replicas,
        ray_actor_options={"num_cpus": cpus, "num_gpus": gpus},
        # More than a batch holds: so the service's own queue decides whom it refuses, with Retry-After.
        max_ongoing_requests=256,
        graceful_shutdown_timeout_s=settings.limits.seconds + 5,
    )
    @serve.ingress(build)
    class Service:
        """A replica."""

    return Service.bind()  # type: ignore[attr-defined]


def main() -> None:
    """Serves until Ctrl-C."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("model", type=Path, help="on a cluster, a folder that every machine sees")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--cpus", type=float, default=1, help="of each replica")
    parser.add_argument("--gpus", type=float, default=0, help="of each replica; 0.5 puts two on a GPU")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()

    keys = [one for one in os.environ.get("NESTREE_API_KEYS", "").split(",") if one]
    serve.start(http_options={"host": options.host, "port": options.port})
    app = application(
        options.model.resolve(),
        Settings(),
        replicas=options.replicas,
        cpus=options.cpus,
        gpus=options.gpus,
        keys=keys,
    )
    print(f"http://{options.host}:{options.port}/ (Ctrl-C ends it)", flush=True)
    serve.run(app, name="nestree", blocking=True)


if __name__ == "__main__":
    main()
