"""The application: a model, what there is to ask of it, and what answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from nestree import __version__
from nestree.model import NestedNER
from nestree.model.card import shown_encoder
from nestree.model.folder import CARD
from nestree.serving import described, schema
from nestree.serving.asgi import Around, Direct, Heads, Locked, Receive, Scope
from nestree.serving.bodies import read_body
from nestree.serving.cors import OtherOrigins
from nestree.serving.draining import Drain
from nestree.serving.files import File, folder
from nestree.serving.metrics import CONTENT_TYPE, Metrics
from nestree.serving.pages import errors_page
from nestree.serving.predicting import Predictor
from nestree.serving.problems import MEDIA_TYPE, Problem
from nestree.serving.security import Keys
from nestree.serving.settings import Settings

OPEN = frozenset({"/", "/docs", "/docs/errors", "/healthz", "/readyz"})
"""What needs no key, and what is in these folders. The page and the documentation hold nothing of the model."""
OPEN_FOLDERS = ("/page/", "/docs/")
JSON = "application/json"


class Service:
    """A model, and all that answers for it.

    Args:
        model: ready to predict.
        name: of the model.
        card: its model card.
        settings: of the service.
        keys: who may ask.
    """

    def __init__(self, model: NestedNER, name: str, card: str | None, settings: Settings, keys: Keys) -> None:
        self.name = name
        self.settings = settings
        self.keys = keys
        self.metrics = Metrics()
        self.predictor = Predictor(model, name, settings, self.metrics)
        self.drain = Drain(settings.drain_seconds, 2 * settings.limits.seconds + 5)
        config = model.config
        self.trees = config.loss == "treecrf"
        self.labels = list(config.single_labels)
        told = schema.ModelResponse(
            name=name,
            version=__version__,
            labels=self.labels,
            loss=config.loss,
            trees=self.trees,
            encoder=shown_encoder(config.encoder),
            threshold=0.5 if config.decoding == "mbr" and self.trees else None,
            card=card,
            limits=schema.ToldLimits(**asdict(settings.limits)),
        )
        self.told = told.model_dump_json().encode()

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Within it, requests are answered."""
        self.predictor.start()
        with self.drain.on_signals(asyncio.get_running_loop()):
            yield
        await self.predictor.close()

    async def predict(self, request: Request) -> Response:
        """Finds the entities of texts; on request their trees, and the next best trees."""
        return Response(await self.answer(request.scope, request.receive), media_type=JSON)

    async def answer(self, scope: Scope, receive: Receive) -> bytes:
        """The body of the answer to ``POST /v1/predict``."""
        self._check_taking()
        self.predictor.check_room()
        with self.drain.at_work():
            limits = self.settings.limits
            body = await read_body(scope, receive, limits.request_bytes, limits.seconds)
            found = await self.predictor.answer(body, receive)
        scope["nestree"].update(documents=found.documents, words=found.words, entities=found.entities)
        return found.body

    async def model(self) -> Response:
        """Tells what the model is, and what it may be asked."""
        return Response(self.told, media_type=JSON)

    async def healthz(self) -> Response:
        """Tells that the process is alive, and its model with it."""
        if not self.predictor.batcher.is_alive:
            raise Problem("broken", "the model reads nothing any more")
        return Response(b'{"status":"ok"}', media_type=JSON)

    async def readyz(self) -> Response:
        """Tells whether requests are taken: the model is loaded, and the service is not shutting down."""
        self._check_taking()
        await self.healthz()
        return Response(b'{"status":"ready"}', media_type=JSON)

    async def tell_metrics(self) -> Response:
        """Tells numbers for Prometheus, of all workers."""
        return Response(self.metrics.text(), media_type=CONTENT_TYPE)

    def _check_taking(self) -> None:
        if self.drain.draining:
            self.metrics.refused.labels("shutting-down").inc()
            headers = {"Retry-After": "5", "Connection": "close"}
            raise Problem("shutting-down", "it finishes what it accepted, and takes no more", headers=headers)


def create_app(
    model: NestedNER | str | Path,
    settings: Settings | None = None,
    *,
    keys: Sequence[str] = (),
    name: str | None = None,
    device: str = "auto",
) -> FastAPI:
    """A service as an ASGI application.

    Args:
        model: ready to predict, or its folder.
        settings: how it works.
        keys: who may ask; none: anybody.
        name: of the model; that of the settings, if None, and the name of its folder, if there is none either.
        device: of a model that is loaded here.
    """
    settings = settings or Settings()
    card = None
    if not isinstance(model, NestedNER):
        from nestree.cli.common import load_model

        path = Path(model).resolve()
        name = name or settings.name or path.name
        card = (path / CARD).read_text(encoding="utf-8") if (path / CARD).is_file() else None
        model = load_model(path, device)
    service = Service(model.eval(), name or settings.name or "model", card, settings, Keys(keys))
    app = FastAPI(
        title="nestree",
        version=__version__,
        summary="Nested named entities of texts.",
        lifespan=service.lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # it would lead to whatever host a request names
        openapi_url=None,
    )
    app.state.service = service
    _add_api(app, service)
    _add_files(app, service)
    app.add_exception_handler(HTTPException, _http_problem)  # type: ignore[arg-type]
    app.add_exception_handler(Problem, _problem)  # type: ignore[arg-type]
    app.add_middleware(Direct, path="/v1/predict", answer=service.answer)
    if service.keys:
        app.add_middleware(Locked, keys=service.keys, is_open=_is_open)
    if settings.cors:  # around the lock: browsers ask without a key whether they may ask
        app.add_middleware(OtherOrigins, origins=settings.cors)
    paths = frozenset(route.path for route in app.routes if hasattr(route, "path"))
    app.add_middleware(Heads)
    app.add_middleware(Around, metrics=service.metrics, paths=paths)
    return app


def _is_open(path: str) -> bool:
    return path in OPEN or path.startswith(OPEN_FOLDERS)


def _add_api(app: FastAPI, service: Service) -> None:
    app.post("/v1/predict", response_model=schema.PredictResponse, tags=["model"])(service.predict)
    app.get("/v1/model", response_model=schema.ModelResponse, tags=["model"])(service.model)
    app.get("/healthz", response_model=schema.Health, tags=["service"])(service.healthz)
    app.get("/readyz", response_model=schema.Health, tags=["service"])(service.readyz)
    text = {200: {"content": {CONTENT_TYPE: {"schema": {"type": "string"}}}}}
    plain: dict[str, Any] = {"response_class": Response, "responses": text}
    app.get("/metrics", tags=["service"], **plain)(service.tell_metrics)
    limits, about = service.settings.limits, (service.labels, service.trees, bool(service.keys))
    app.openapi = lambda: described.document(app, limits, *about)  # type: ignore[method-assign]
    content: list[bytes] = []

    async def openapi() -> Response:
        if not content:
            content.append(schema.as_json(app.openapi()))
        return Response(content[0], media_type=JSON)

    app.get("/openapi.json", include_in_schema=False)(openapi)


def _add_files(app: FastAPI, service: Service) -> None:
    """The page, the documentation, and nothing else: no path of a request is opened."""
    found: dict[str, File] = {f"/docs/{name}": one for name, one in folder("docs").items()}
    found["/docs"] = found.pop("/docs/index.html")
    found["/docs/errors"] = errors_page()
    if service.settings.page:
        page = folder("page")
        found |= {f"/page/{name}": one for name, one in page.items()}
        found["/"] = page["index.html"]
    for path, one in found.items():
        app.get(path, include_in_schema=False)(_sender(one))


def _sender(one: File) -> Callable[[Request], Any]:
    headers = {"ETag": one.tag, "Cache-Control": "no-cache"}

    async def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == one.tag:
            return Response(status_code=304, headers=headers)
        return Response(one.content, media_type=one.type, headers=headers)

    return send


async def _problem(request: Request, problem: Problem) -> Response:
    request.scope["nestree"]["problem"] = problem.name
    return Response(problem.body(), problem.status, problem.headers, MEDIA_TYPE)


async def _http_problem(request: Request, error: HTTPException) -> Response:
    names = {404: "not-found", 405: "wrong-method"}
    what = {404: "there is nothing at this path", 405: "the method is not allowed at this path"}
    if error.status_code not in names:
        raise error
    headers = dict(error.headers or {})
    if headers.get("Allow") == "GET":
        headers["Allow"] = "GET, HEAD"
    problem = Problem(names[error.status_code], what[error.status_code], headers=headers)
    return await _problem(request, problem)
