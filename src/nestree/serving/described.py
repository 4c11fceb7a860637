"""The OpenAPI document: exactly what is accepted and answered, errors included."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from nestree.serving.problems import KINDS, MEDIA_TYPE
from nestree.serving.schema import ProblemDetails, request_schema
from nestree.serving.settings import Limits

OF_PREDICT = (400, 408, 413, 415, 422, 503, 504)


def document(app: FastAPI, limits: Limits, labels: list[str], trees: bool, keys: bool) -> dict[str, Any]:
    """The document of an application.

    Args:
        app: its routes.
        limits: what requests may ask for.
        labels: of the model.
        trees: whether the model has them.
        keys: whether some paths need a key.
    """
    found = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    schemas["ProblemDetails"] = ProblemDetails.model_json_schema()
    schemas["PredictRequest"] = request_schema(limits, labels, trees)
    predict = found["paths"]["/v1/predict"]["post"]
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/PredictRequest"}}}
    predict["requestBody"] = {"required": True, "content": content}
    predict["responses"] |= {str(status): _problems(status) for status in OF_PREDICT}
    for path in ("/healthz", "/readyz"):
        found["paths"][path]["get"]["responses"]["503"] = _problems(503)
    if keys:
        _protect(found)
    return found


def _problems(status: int) -> dict[str, Any]:
    kinds = {name: kind for name, kind in KINDS.items() if kind.status == status}
    described = {
        "description": "; ".join(kind.title for kind in kinds.values()) + ".",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}},
    }
    if status == 503:
        number = {"schema": {"type": "integer"}, "description": "Seconds after which to try again."}
        described["headers"] = {"Retry-After": number}
    return described


def _protect(found: dict[str, Any]) -> None:
    found["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    for path, methods in found["paths"].items():
        if path.startswith(("/v1/", "/metrics")):
            for operation in methods.values():
                operation["security"] = [{"bearer": []}, {"header": []}]
                operation["responses"]["401"] = _problems(401)
