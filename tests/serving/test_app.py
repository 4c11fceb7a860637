"""What the service answers: predictions as the model gives them, and errors that say what to do."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from nestree import __version__
from nestree.model import NestedNER
from nestree.serving import Limits, Settings
from nestree.serving.app import create_app
from nestree.serving.problems import KINDS
from nestree.serving.schema import ModelResponse, PredictResponse, ProblemDetails
from tests.model.tiny import model
from tests.serving.server import Client, post, served

TEXT = "Anna of the Acme club. Bo runs."
KEY, OTHER = "a-key-of-sixteen-characters", "another-key-of-many-characters"


def problem(response: Any, status: int) -> ProblemDetails:
    """The answer, which is an error of this status."""
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    found = ProblemDetails.model_validate_json(response.content)
    assert found.status == status
    assert KINDS[found.type.removeprefix("/docs/errors#")].status == status
    return found


# --- Predictions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"threshold": 0.2}, {"flat": "best"}, {"trees": True}, {"alternatives": 2}])
def test_texts_are_answered_as_the_model_predicts_them(client: Client, ner: NestedNER, options: dict[str, Any]) -> None:
    texts = [TEXT, "", "the club of anna", "x\u0000\u2028y 𝒳 <b>bo</b>"]
    answer = PredictResponse.model_validate_json(post(client, {"texts": texts, **options}).content)
    assert (answer.model.name, answer.model.version) == ("small", __version__)
    for document, wanted in zip(answer.documents, ner.predict(texts, **options), strict=True):
        assert document.text == wanted.text
        assert [document.text[start:end] for start, end in document.words] == list(wanted.words)
        assert [tuple(one) for one in document.sentences] == list(wanted.document.sentences or ())
        for entity, own in zip(document.entities, wanted.entities, strict=True):
            assert entity.model_dump() == {**own._asdict(), "score": pytest.approx(own.score, abs=1e-5)}
        if options.get("trees"):
            assert document.trees is not None
            assert [[node.label for node in tree.nodes] for tree in document.trees] == [
                [node.label for node in tree] for tree in wanted.trees or ()
            ]
        if options.get("alternatives"):
            assert document.alternatives is not None
            found = [
                [(node.start, node.end, node.label) for node in tree.nodes]
                for one in document.alternatives
                for tree in one
            ]
            assert found == [list(tree.nodes) for one in wanted.alternatives or () for tree in one]
        assert (document.trees is None) == ("trees" not in options)
        assert (document.alternatives is None) == ("alternatives" not in options)


def test_one_text_gives_one_document(client: Client) -> None:
    one, many = post(client, {"text": TEXT}).json(), post(client, {"texts": [TEXT]}).json()
    assert one == many
    assert len(one["documents"]) == 1


def test_lists_of_words_are_taken_as_they_are(client: Client, ner: NestedNER) -> None:
    words = [["anna", "of", "the", "acme", "club"], [], ["bo.runs"]]
    answer = PredictResponse.model_validate_json(post(client, {"tokens": words}).content)
    for document, wanted in zip(answer.documents, ner.predict_tokens(words), strict=True):
        assert document.text == " ".join(wanted.words)
        assert [(one.start, one.end, one.label) for one in document.entities] == [
            (one.token_start, one.token_end, one.label) for one in wanted
        ]


def test_long_sentences_are_read_in_windows_and_say_so(ner: NestedNER) -> None:
    words = ["anna", "of", "the", "acme", "club"] * 30
    with served(ner, Settings(max_words=32)) as client:
        (found,) = post(client, {"tokens": [words], "trees": True, "alternatives": 1}).json()["documents"]
    (wanted,) = ner.predict_tokens([words], trees=True, max_words=32)
    assert found["windowed"] == [[0, len(words)]]
    assert found["alternatives"] == [[]]
    assert [(one["start"], one["end"]) for one in found["entities"]] == [(one.start, one.end) for one in wanted]
    assert len(found["trees"][0]["nodes"]) == len((wanted.trees or ())[0])


def test_large_requests_are_worked_on_aside_and_give_the_same(client: Client, ner: NestedNER) -> None:
    text = "Anna of the Acme club. " * 800
    (found,) = post(client, {"text": text}).json()["documents"]
    assert [(one["start"], one["end"], one["label"]) for one in found["entities"]] == [
        (one.start, one.end, one.label) for one in ner.predict(text)
    ]


def test_a_folder_is_served_under_its_name_with_its_card(saved: Path) -> None:
    with served(saved) as client:
        told = ModelResponse.model_validate_json(client.get("/v1/model").content)
        assert post(client, {"text": TEXT}).json()["model"]["name"] == "small"
    assert (told.name, told.labels, told.loss, told.trees) == ("small", ["ORG", "PER"], "treecrf", True)
    assert told.card is not None
    assert told.card.startswith("---")
    assert told.limits.model_dump() == vars(Limits())


def test_a_model_without_trees_refuses_them(tmp_path: Path) -> None:
    with served(model(tmp_path, loss="local")) as client:
        assert post(client, {"text": TEXT}).status_code == 200
        assert problem(post(client, {"text": TEXT, "trees": True}), 422).where == "/trees"
        assert problem(post(client, {"text": TEXT, "alternatives": 1}), 422).where == "/alternatives"
        assert client.get("/v1/model").json()["trees"] is False


# --- Requests that make no sense -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "where"),
    [
        ("", 400, None),
        ("{", 400, None),
        ('{"text": "a"} b', 400, None),
        ('{"text": "\\ud800"}', 400, None),  # lone surrogates are no Unicode
        (b'{"text": "\xff"}', 400, None),
        ("[" * 5000 + "]" * 5000, 400, None),
        ("null", 422, ""),
        ("[]", 422, ""),
        ({}, 422, ""),
        ({"text": "a", "texts": ["b"]}, 422, ""),
        ({"text": None}, 422, ""),
        ({"text": "a", "texts": None}, 422, ""),
        ({"text": 1}, 422, "/text"),
        ({"texts": "ab"}, 422, "/texts"),
        ({"texts": ["a", None]}, 422, "/texts/1"),
        ({"tokens": ["ab"]}, 422, "/tokens/0"),
        ({"tokens": [["a"], ["b", " "]]}, 422, "/tokens/1/1"),
        ({"tokens": [["a", "\x1c"]]}, 422, "/tokens/0/1"),
        ({"text": "a", "threshold": "0.5"}, 422, "/threshold"),
        ({"text": "a", "threshold": True}, 422, "/threshold"),
        ({"text": "a", "threshold": 1.5}, 422, "/threshold"),
        ('{"text": "a", "threshold": NaN}', 422, "/threshold"),
        ('{"text": "a", "threshold": 1e999}', 422, "/threshold"),
        ('{"text": "a", "threshold": ' + "9" * 5000 + "}", 400, None),  # no computer's number
        ({"text": "a", "threshold": {"PER": -1}}, 422, "/threshold/PER"),
        ({"text": "a", "threshold": {"nothing": 0.5}}, 422, "/threshold/nothing"),
        ({"text": "a", "flat": "some"}, 422, "/flat"),
        ({"text": "a", "trees": 1}, 422, "/trees"),
        ({"text": "a", "alternatives": -1}, 422, "/alternatives"),
        ({"text": "a", "alternatives": 6}, 422, "/alternatives"),
        ({"text": "a", "alternatives": 1.5}, 422, "/alternatives"),
        ({"text": "a", "a/b~": 1}, 422, "/a~1b~0"),
    ],
)
def test_it_is_said_what_is_wrong_and_where(client: Client, body: Any, status: int, where: str | None) -> None:
    found = problem(post(client, body), status)
    assert found.where == where
    assert found.detail
    assert found.advice


def test_unknown_keys_are_refused_with_the_known_ones(client: Client) -> None:
    assert "known are text, texts, tokens, threshold" in problem(post(client, {"text": "a", "tree": 1}), 422).detail


@pytest.mark.parametrize(("tokens", "where"), [(["a", "b"], "/tokens/0"), ("a b", "/tokens")])
def test_one_list_of_words_too_few_is_said(client: Client, tokens: Any, where: str) -> None:
    found = problem(post(client, {"tokens": tokens}), 422)
    assert "each of which is a list of words" in found.detail
    assert found.where == where


def test_of_a_key_that_comes_twice_the_last_one_counts(client: Client) -> None:
    assert post(client, '{"text": "a", "text": "b"}').json()["documents"][0]["text"] == "b"


@pytest.mark.parametrize(
    ("limits", "body", "where", "detail"),
    [
        ({"texts": 2}, {"texts": ["a", "b", "c"]}, "/texts", "3 texts, and 2 are allowed"),
        ({"texts": 2}, {"tokens": [["a"]] * 3}, "/tokens", "3 lists of words"),
        ({"characters": 5}, {"text": "a" * 6}, "/text", "6 characters, and 5 are allowed"),
        ({"characters": 5}, {"texts": ["a", "a" * 6]}, "/texts/1", "6 characters"),
        ({"words": 2}, {"tokens": [["a"], ["a"] * 3]}, "/tokens/1", "3 words, and 2 are allowed"),
        ({"alternatives": 1}, {"text": "a", "alternatives": 2}, "/alternatives", "1 are allowed"),
    ],
)
def test_limits_are_told_and_hold(
    ner: NestedNER, limits: dict[str, int], body: dict[str, Any], where: str, detail: str
) -> None:
    with served(ner, Settings(Limits(**limits))) as client:  # type: ignore[arg-type]
        found = problem(post(client, body), 422)
        told = client.get("/v1/model").json()["limits"]
    assert found.where == where
    assert detail in found.detail
    assert limits.items() <= told.items()


def test_bodies_over_the_limit_are_refused_by_their_length_and_while_they_arrive(ner: NestedNER) -> None:
    def parts() -> Any:
        for _ in range(100):
            sent.append(1)
            yield b" " * 50

    sent: list[int] = []
    with served(ner, Settings(Limits(request_bytes=100))) as client:
        assert post(client, {"text": "a"}).status_code == 200
        assert "100 are allowed" in problem(post(client, {"text": "a" * 100}), 413).detail
        response = client.post("/v1/predict", content=parts(), headers={"content-type": "application/json"})
        problem(response, 413)


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": ""},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
def test_other_kinds_of_body_are_refused(client: Client, headers: dict[str, str]) -> None:
    problem(client.post("/v1/predict", content=b'{"text": "a"}', headers=headers), 415)


def test_a_charset_may_be_named(client: Client) -> None:
    assert post(client, {"text": "a"}, **{"content-type": "Application/JSON; charset=utf-8"}).status_code == 200


# --- Everything else -------------------------------------------------------------------------------------------------


def test_what_is_not_there_is_a_problem_too(client: Client) -> None:
    problem(client.get("/v2/predict"), 404)
    problem(client.get("/page/../app.py"), 404)
    problem(client.get("/page/%2e%2e/app.py"), 404)
    response = client.get("/v1/predict")
    problem(response, 405)
    assert response.headers["allow"] == "POST"


def test_what_goes_wrong_inside_is_a_problem_without_a_trace(ner: NestedNER, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("secret " + TEXT)

    with served(ner) as client:
        monkeypatch.setattr(NestedNER, "potentials", broken)
        response = post(client, {"text": TEXT})
        assert "secret" not in response.text
        problem(response, 500)
        monkeypatch.undo()
        assert post(client, {"text": TEXT}).status_code == 200


def test_health_and_readiness(client: Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}


def test_metrics_count_requests_words_and_entities(ner: NestedNER) -> None:
    with served(ner) as client:
        entities = sum(len(one["entities"]) for one in post(client, {"texts": [TEXT] * 3}).json()["documents"])
        post(client, {"text": 1})
        client.get("/anything/" + TEXT)
        text = client.get("/metrics").text
    assert 'nestree_requests_total{path="/v1/predict",status="200"} 1.0' in text
    assert 'nestree_requests_total{path="/v1/predict",status="422"} 1.0' in text
    assert 'nestree_requests_total{path="other",status="404"} 1.0' in text
    assert "nestree_sentences_total 6.0" in text
    assert "nestree_words_total 27.0" in text
    assert "nestree_queue_words 0.0" in text
    found = [float(line.split()[-1]) for line in text.splitlines() if line.startswith("nestree_entities_total{")]
    assert sum(found) == entities > 0


@pytest.mark.parametrize("path", ["/", "/docs", "/docs/errors", "/nothing", "/v1/model", "/healthz"])
def test_browsers_are_told_to_be_strict(client: Client, path: str) -> None:
    headers = client.get(path).headers
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-request-id"]


@pytest.mark.parametrize("path", ["/", "/docs", "/docs/errors"])
def test_pages_ask_no_other_host_and_hold_nothing_that_the_policy_forbids(client: Client, path: str) -> None:
    page = client.get(path)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "http:" not in page.text
    assert "https:" not in page.text
    assert "<script>" not in page.text
    assert "<style" not in page.text
    assert " style=" not in page.text
    again = client.get(path, headers={"if-none-match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_every_kind_of_problem_is_described(client: Client) -> None:
    text = client.get("/docs/errors").text
    assert all(f'id="{name}"' in text for name in KINDS)


def test_the_page_can_be_left_out(ner: NestedNER) -> None:
    with served(ner, Settings(page=False)) as client:
        problem(client.get("/"), 404)
        assert client.get("/docs").status_code == 200


def test_a_request_keeps_its_name_if_that_is_harmless(client: Client) -> None:
    assert client.get("/healthz", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert client.get("/healthz", headers={"x-request-id": 'a"b'}).headers["x-request-id"] != 'a"b'


# --- Who may ask -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def locked(ner: NestedNER) -> Any:
    with served(ner, keys=[OTHER, KEY]) as found:
        yield found


@pytest.mark.parametrize("path", ["/v1/model", "/v1/predict", "/v1/nothing", "/metrics", "/openapi.json"])
@pytest.mark.parametrize("headers", [{}, {"x-api-key": KEY[:-1]}, {"authorization": f"Basic {KEY}"}, {"x-api-key": ""}])
def test_without_a_key_there_is_no_answer(locked: Client, path: str, headers: dict[str, str]) -> None:
    response = locked.get(path, headers=headers)
    problem(response, 401)
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("key", [KEY, OTHER])
def test_any_of_the_keys_opens(locked: Client, key: str) -> None:
    assert locked.get("/v1/model", headers={"x-api-key": key}).status_code == 200
    assert locked.get("/v1/model", headers={"authorization": f"Bearer {key}"}).status_code == 200
    assert post(locked, {"text": "a"}, authorization=f"bearer {key}").status_code == 200
    assert (
        "401"
        in locked.get("/openapi.json", headers={"x-api-key": key}).json()["paths"]["/v1/model"]["get"]["responses"]
    )


@pytest.mark.parametrize("path", ["/", "/docs", "/healthz", "/readyz"])
def test_the_page_and_the_probes_need_no_key(locked: Client, path: str) -> None:
    assert locked.get(path).status_code == 200


def test_other_origins_may_ask_only_if_they_are_listed(ner: NestedNER) -> None:
    good, bad = {"origin": "https://good.example"}, {"origin": "https://bad.example"}
    ask = {"access-control-request-method": "POST", "access-control-request-headers": "content-type,x-api-key"}
    settings = Settings(cors=("https://good.example",))
    with served(ner, settings, keys=[KEY]) as client:
        assert (
            client.options("/v1/predict", headers={**good, **ask}).headers["access-control-allow-origin"]
            == good["origin"]
        )
        assert "access-control-allow-origin" not in client.options("/v1/predict", headers={**bad, **ask}).headers
        refused = client.get("/v1/model", headers=good)
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == good["origin"]  # or the page could not read the answer
    with served(ner) as client:
        assert "access-control-allow-origin" not in client.get("/v1/model", headers=good).headers


@pytest.mark.parametrize("root", ["mount", "root_path"])
def test_keys_are_asked_for_wherever_the_application_is_mounted(ner: NestedNER, root: str) -> None:
    app = create_app(ner, keys=[KEY])
    outer: Any = app
    if root == "mount":
        outer = FastAPI()
        outer.mount("/ner", app)
    transport = httpx.ASGITransport(outer, root_path="" if root == "mount" else "/ner")

    async def ask() -> None:
        async with httpx.AsyncClient(transport=transport, base_url="http://here/ner") as client:
            for path in ("/v1/model", "/metrics", "/openapi.json", "/v1/anything"):
                assert (await client.get(path)).status_code == 401, path
            assert (await client.get("/v1/model", headers={"X-API-Key": KEY})).status_code == 200
            assert (await client.get("/docs")).status_code == 200

    asyncio.run(ask())


def test_of_many_errors_the_first_one_is_told(client: Client) -> None:
    found = problem(post(client, {"texts": [1] * 100_000}), 422)
    assert found.where == "/texts/0"
    assert "more of its kind" not in found.detail


def test_long_sentences_have_no_next_best_trees(ner: NestedNER) -> None:
    with served(ner, Settings(Limits(alternative_words=4))) as client:
        answer = post(client, {"tokens": [["a"] * 4, ["a"] * 5], "alternatives": 1, "trees": True}).json()
        assert client.get("/v1/model").json()["limits"]["alternative_words"] == 4
    (short,), (long,) = (one["alternatives"] for one in answer["documents"])
    assert len(short) == 2
    assert long == []
    assert all(one["trees"] for one in answer["documents"])


def test_where_the_encoder_was_is_not_told(ner: NestedNER, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ner, "config", replace(ner.config, encoder="/home/anna/my-bert"))
    with served(ner) as client:
        assert client.get("/v1/model").json()["encoder"] == "my-bert"
    monkeypatch.setattr(ner, "config", replace(ner.config, encoder="/home/anna/my-bert, /home/anna/other"))  # combined
    with served(ner) as client:
        assert client.get("/v1/model").json()["encoder"] == "my-bert, other"


def test_an_exported_model_is_served_too(ner: NestedNER, tmp_path: Path) -> None:
    for package in ("onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason='exporting needs pip install "nestree[onnx]"')
    from nestree.export import export

    export(ner, tmp_path / "exported")
    with served(tmp_path / "exported", Settings(threads=2)) as client:
        (found,) = post(client, {"text": TEXT, "trees": True, "alternatives": 1}).json()["documents"]
    assert [(one["start"], one["end"], one["label"]) for one in found["entities"]] == [
        (one.start, one.end, one.label) for one in ner.predict(TEXT)
    ]
    assert [len(one) for one in found["alternatives"]] == [2, 2]


@pytest.mark.parametrize("path", ["/", "/docs", "/v1/model", "/healthz", "/readyz", "/metrics", "/openapi.json"])
def test_head_is_answered_as_get_without_the_body(client: Client, path: str) -> None:
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == got.headers["content-type"]
    if path != "/metrics":  # its numbers have changed in the meantime
        assert head.headers["content-length"] == str(len(got.content))


def test_head_meets_the_same_errors(client: Client, locked: Client) -> None:
    assert [client.head(path).status_code for path in ("/nothing", "/v1/predict")] == [404, 405]
    assert client.head("/v1/predict").headers["allow"] == "POST"
    assert locked.head("/v1/model").status_code == 401
    assert locked.head("/v1/model", headers={"x-api-key": KEY}).status_code == 200
    for path in ("/v1/model", "/"):
        refused = client.post(path)
        problem(refused, 405)
        assert refused.headers["allow"] == "GET, HEAD"


def test_no_server_has_to_take_the_body_of_head_away(ner: NestedNER) -> None:
    async def ask() -> None:
        transport = httpx.ASGITransport(create_app(ner))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            assert (await client.head("/v1/model")).content == b""

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("headers", "detail", "advice"),
    [
        ({"origin": "https://bad.example"}, "pages of this origin", "--cors ORIGIN"),
        ({"access-control-request-method": "DELETE"}, "the method", "Use GET, HEAD or POST."),
        ({"access-control-request-headers": "content-type, x-mine"}, "a header", "X-API-Key or X-Request-Id"),
        ({"access-control-request-private-network": "true"}, "asks for more", ""),
    ],
)
def test_a_browser_that_may_not_ask_is_told_why(
    ner: NestedNER, headers: dict[str, str], detail: str, advice: str
) -> None:
    asked = {"origin": "https://good.example", "access-control-request-method": "POST", **headers}
    with served(ner, Settings(cors=("https://good.example",)), keys=[KEY]) as client:
        response = client.options("/v1/predict", headers=asked)
    found = problem(response, 403)
    assert detail in found.detail
    assert advice in found.advice
    assert response.headers["access-control-allow-methods"] == "GET, HEAD, POST"
    assert ("access-control-allow-origin" in response.headers) == (asked["origin"] == "https://good.example")


def test_a_model_has_the_name_that_it_is_given(ner: NestedNER, saved: Path) -> None:
    with served(saved, Settings(name="news, 2 levels")) as client:
        assert client.get("/v1/model").json()["name"] == "news, 2 levels"
        assert post(client, {"text": TEXT}).json()["model"]["name"] == "news, 2 levels"
    assert create_app(ner, Settings(name="news")).state.service.name == "news"
