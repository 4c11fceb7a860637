"""Requests over real connections: a full queue, a client that leaves, no time, an endless body; and the logs."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from nestree.model import NestedNER
from nestree.serving import Limits, Settings
from nestree.serving.bodies import read_body
from nestree.serving.logs import Lines
from nestree.serving.predicting import ClientLeftError
from nestree.serving.problems import Problem
from tests.serving.server import Client, post, served
from tests.serving.test_batcher import Held

SECRET = "Zanzibar of the quux club"


@pytest.fixture
def held(ner: NestedNER, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    found = Held(ner, monkeypatch)
    yield found
    found.go.set()


def wait_for(condition: Any) -> None:
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def waiting(client: Client) -> int:
    return int(client.app.state.service.predictor.batcher.waiting_words)  # type: ignore[attr-defined]


@contextmanager
def open_request(client: Client, body: bytes, missing: int = 0) -> Iterator[socket.socket]:
    """A request that was sent, but for some bytes, and whose answer nobody has read yet."""
    assert client.base_url.port is not None
    with socket.create_connection(("127.0.0.1", client.base_url.port)) as connection:
        length = f"Content-Length: {len(body) + missing}"
        head = f"POST /v1/predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
        connection.sendall(head.encode() + body)
        yield connection


def test_a_full_queue_is_said_at_once_and_what_was_accepted_is_answered(ner: NestedNER, held: Held) -> None:
    body = {"tokens": [["a"] * 40]}
    with served(ner, Settings(Limits(queue_words=100))) as client, ThreadPoolExecutor(2) as pool:
        accepted = [pool.submit(post, client, body) for _ in range(2)]
        wait_for(lambda: waiting(client) == 80)
        refused = post(client, body)  # while nothing goes on at all
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["type"].endswith("#queue-full")
        held.go.set()
        assert [one.result().status_code for one in accepted] == [200, 200]
        assert waiting(client) == 0
        assert post(client, body).status_code == 200
        assert 'nestree_refused_total{why="queue-full"} 1.0' in client.get("/metrics").text


def test_of_a_client_that_leaves_nothing_is_read_any_more(ner: NestedNER, held: Held) -> None:
    with served(ner) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, client, {"text": "a"})
        wait_for(held.began.is_set)
        with open_request(client, json.dumps({"texts": ["Anna of Acme."] * 100}).encode()):
            wait_for(lambda: waiting(client) > 100)
        wait_for(lambda: waiting(client) < 10)
        held.go.set()
        assert first.result().status_code == 200
        assert post(client, {"text": "b"}).status_code == 200
        assert sum(held.sizes) == 2
        text = client.get("/metrics").text
    assert "nestree_clients_left_total 1.0" in text
    assert 'nestree_requests_total{path="/v1/predict",status="499"} 1.0' in text


def test_what_takes_too_long_is_said_and_dropped(ner: NestedNER, held: Held) -> None:
    with served(ner, Settings(Limits(seconds=0.2))) as client:
        late = post(client, {"text": "a"})
        assert late.status_code == 504
        assert "0.2 s" in late.json()["detail"]
        assert post(client, {"texts": ["b"] * 20}).status_code == 504
        assert waiting(client) == 0
        held.go.set()
        wait_for(lambda: post(client, {"text": "c"}).status_code == 200)
        assert sum(held.sizes) < 10  # the twenty were not among them


@pytest.mark.parametrize("begun", [b"{", b""])
def test_a_body_that_does_not_come_to_its_end_is_not_waited_for(ner: NestedNER, begun: bytes) -> None:
    with served(ner, Settings(Limits(seconds=0.2))) as client, open_request(client, begun, 9) as connection:
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"connection: close" in answer


def test_the_event_loop_stays_free_while_the_model_works(ner: NestedNER, held: Held) -> None:
    with served(ner) as client, ThreadPoolExecutor(1) as pool:
        busy = pool.submit(post, client, {"text": "a"})
        wait_for(held.began.is_set)
        assert client.get("/healthz").status_code == 200
        assert client.get("/v1/model").status_code == 200
        held.go.set()
        assert busy.result().status_code == 200


def test_many_clients_get_each_their_own_answer(ner: NestedNER) -> None:
    texts = [f"anna{number} of the acme club. bo runs {number}." for number in range(60)]
    wanted = ner.predict(texts)
    with served(ner) as client, ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda text: post(client, {"text": text}).json()["documents"][0], texts))
    for one, own in zip(found, wanted, strict=True):
        assert one["text"] == own.text
        assert [(x["start"], x["end"], x["label"]) for x in one["entities"]] == [(x.start, x.end, x.label) for x in own]


# --- Bodies ----------------------------------------------------------------------------------------------------------


def body_of(*messages: dict[str, Any], headers: list[tuple[bytes, bytes]] | None = None) -> bytes:
    """What is read of these messages, at most 10 bytes."""
    left = list(messages)

    async def receive() -> Any:
        return left.pop(0)

    scope = {"headers": [(b"content-type", b"application/json"), *(headers or [])]}
    return asyncio.run(read_body(scope, receive, 10, 5))


def part(body: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_the_limit_of_a_body_holds_whatever_its_headers_say() -> None:
    assert body_of(part(b"12345"), part(b"67890"), part(b"", more=False)) == b"1234567890"
    for messages in ([part(b"12345"), part(b"678901")], [part(b"12345678901", more=False)]):
        with pytest.raises(Problem) as error:
            body_of(*messages, headers=[(b"content-length", b"2")])
        assert error.value.status == 413
    with pytest.raises(Problem) as error:
        body_of(headers=[(b"content-length", b"9" * 5000)])
    assert error.value.status == 413


def test_a_client_that_leaves_in_its_body_is_noticed() -> None:
    with pytest.raises(ClientLeftError):
        body_of(part(b"1"), {"type": "http.disconnect"})


# --- Logs ------------------------------------------------------------------------------------------------------------


def test_logs_are_lines_of_json_and_hold_no_text(
    ner: NestedNER, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError(SECRET)

    caplog.set_level(logging.DEBUG)
    with served(ner) as client:
        post(client, {"text": SECRET}, **{"x-request-id": "mine"})
        post(client, {"text": SECRET, "threshold": {SECRET: 0.5}})
        post(client, {"text": SECRET, SECRET: 1})
        post(client, SECRET)
        client.get(f"/{SECRET}?q={SECRET}")
        monkeypatch.setattr(NestedNER, "potentials", broken)
        assert post(client, {"text": SECRET}).status_code == 500
    lines = [Lines().format(one) for one in caplog.records if one.name.startswith(("nestree", "uvicorn"))]
    values = [json.loads(line) for line in lines]
    assert not any("zanzibar" in line.lower() or "quux" in line for line in lines)
    requests = [one for one in values if one["event"] == "request"]
    assert [one["status"] for one in requests] == [200, 422, 422, 400, 404, 500]
    first = requests[0]
    assert (first["request"], first["path"], first["words"], first["documents"]) == ("mine", "/v1/predict", 5, 1)
    assert requests[4]["path"] == "other"
    (error,) = (one for one in values if one["event"] == "unexpected error")
    assert error["error"] == "RuntimeError"
    assert error["request"] == requests[5]["request"]
    assert any("broken" in place for place in error["at"])


def test_threads_end_with_the_service(ner: NestedNER) -> None:
    before = set(threading.enumerate())
    with served(ner) as client:
        post(client, {"text": "a " * 9000})
    wait_for(lambda: not any(one.name.startswith("nestree-model") for one in set(threading.enumerate()) - before))
