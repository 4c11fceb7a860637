"""``nestree serve``: a model as an HTTP service, with a page."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

from nestree.cli import common
from nestree.cli.interrupts import Interrupts
from nestree.data.errors import DataError
from nestree.serving.settings import Limits, Settings

HELP = {
    "request_bytes": "of the body of a request",
    "texts": "of one request, or lists of words",
    "characters": "of one text",
    "words": "of one list of words",
    "alternatives": "next best trees of a sentence",
    "alternative_words": "of a sentence that has next best trees",
    "queue_words": "that may wait; more are refused with 503",
    "seconds": "that an answer may take",
}
FAILED = "failed"
HERE = ("127.0.0.1", "::1", "localhost")
HEALTH_SECONDS = 20
"""A worker that does not answer its supervisor for so long is started anew; loading a model can take a while."""


def add_commands(commands: Any) -> None:
    """Adds ``serve``."""
    parser = commands.add_parser("serve", help="answer requests over HTTP, with a page to look at")
    parser.add_argument("model", metavar="MODEL", type=Path, help="folder of a saved or exported model")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1: this machine alone)")
    port = common.whole_number(0, 65535)
    parser.add_argument("--port", type=port, default=8000, help="default: 8000; 0: any that is free")
    parser.add_argument(
        "--workers", type=common.whole_number(1), default=1, metavar="N", help="processes, each with its own model (1)"
    )
    parser.add_argument(
        "--threads", type=common.whole_number(1), metavar="N", help="of each worker (the cores, shared among workers)"
    )
    common.add_device(parser)
    parser.add_argument("--name", help="what the model is called, for all who ask (the name of its folder)")
    parser.add_argument("--api-keys", type=Path, metavar="FILE", help="keys, one a line; also from NESTREE_API_KEYS")
    parser.add_argument("--cors", nargs="+", default=[], metavar="ORIGIN", help="origins whose pages may ask")
    parser.add_argument("--no-page", action="store_true", help="the API alone, without the page at /")
    parser.add_argument(
        "--drain", type=float, default=0.0, metavar="SECONDS", help="go on for so long when told to stop (0)"
    )
    group = parser.add_argument_group("batches")
    group.add_argument("--no-batching", action="store_true", help="one request at a time, for comparison")
    group.add_argument(
        "--batch-work", type=common.whole_number(1), metavar="N", help="most work of one forward pass (4096 on a CPU)"
    )
    group.add_argument("--max-words", type=common.whole_number(8), default=256, metavar="N", help="as of predict (256)")
    group = parser.add_argument_group("limits")
    for one in fields(Limits):
        default = getattr(Limits(), one.name)
        group.add_argument(
            f"--max-{one.name.replace('_', '-')}" if one.name != "words" else "--max-token-words",
            dest=f"limit_{one.name}",
            type=type(default),
            default=default,
            metavar="N",
            help=f"{HELP[one.name]} ({default:g})" if default < 1000 else f"{HELP[one.name]} ({default})",
        )
    parser.set_defaults(run=_serve)


def settings_of(options: argparse.Namespace) -> Settings:
    """What the options ask for."""
    try:
        return Settings(
            limits=Limits(**{one.name: getattr(options, f"limit_{one.name}") for one in fields(Limits)}),
            threads=options.threads or max(1, (os.cpu_count() or 1) // options.workers),
            batching=not options.no_batching,
            batch_work=options.batch_work,
            max_words=options.max_words,
            cors=tuple(options.cors),
            page=not options.no_page,
            name=options.name,
            drain_seconds=options.drain,
        )
    except ValueError as error:
        raise DataError(str(error).removesuffix(".")) from None


def _serve(options: argparse.Namespace) -> int:
    from nestree.serving.extra import require

    require()
    settings = settings_of(options)
    common.check_model(options.model)
    from nestree.serving.security import read_keys

    keys = read_keys(options.api_keys)
    if options.host not in HERE and not keys:
        common.say(
            f"WARNING: whoever reaches {options.host}:{options.port} can use this service: there are no API keys. "
            "Use --api-keys FILE, or a proxy that asks who it is."
        )
    with tempfile.TemporaryDirectory(prefix="nestree-serve-") as folder:
        if options.workers > 1:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # before prometheus_client is imported
        return _run(options, settings, Path(folder))


def _check_address(host: str, port: int) -> None:
    """Raises an error if nothing can listen there: now, and not when a large model has been loaded."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            if os.name == "posix":  # as servers do it; elsewhere it means something else
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
    except OSError as error:
        what = f"nothing can listen on {host}, port {port}: {error.strerror or error}"
        raise DataError(what, advice="Name another --port (0: any that is free) or --host.") from None


def _say_where(options: argparse.Namespace) -> None:
    if options.port:
        where = f"http://{f'[{options.host}]' if ':' in options.host else options.host}:{options.port}/"
        what = "the API" if options.no_page else "the page"
        common.say(
            f"{what} is at {where}{'docs' if options.no_page else ''} as soon as the model is loaded; Ctrl-C stops it"
        )


def _run(options: argparse.Namespace, settings: Settings, folder: Path) -> int:
    _check_address(options.host, options.port)
    _say_where(options)
    with Interrupts() as interrupts:  # until uvicorn looks after signals, much is imported
        import uvicorn

        from nestree.serving import logs, worker

        interrupts.check()
    os.environ[worker.VARIABLE] = worker.said(
        options.model.resolve(),
        settings,
        device=options.device,
        keys=None if options.api_keys is None else options.api_keys.resolve(),
        failed=folder / FAILED,
    )
    logs.configure()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # once uvicorn is done with it
    try:
        uvicorn.run(
            "nestree.serving.worker:make_app",
            factory=True,
            host=options.host,
            port=options.port,
            workers=options.workers,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nobody asks where a request came from
            ws="none",
            timeout_graceful_shutdown=int(settings.limits.seconds) + 5,
            timeout_worker_healthcheck=HEALTH_SECONDS,
        )
    except SystemExit as error:
        return 2 if error.code else 0
    return 2 if (folder / FAILED).exists() else 0
