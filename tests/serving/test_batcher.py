"""Sentences of many requests are read together: fairly, in bounded memory, and no one harms another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nestree.model import NestedNER
from nestree.model.pieces import Batch
from nestree.prediction.predict import Finder, Options, check_options
from nestree.serving.batcher import Batcher, QueueFullError
from nestree.serving.jobs import Job

SENTENCE = ["anna", "of", "the", "acme", "club"]


class Held:
    """Stands in for what a model finds with: waits until it is told to go on, and remembers what it read."""

    def __init__(self, ner: NestedNER, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        self.began = threading.Event()
        self.sizes: list[int] = []
        real = ner.potentials

        def potentials(batch: Batch) -> Any:
            self.sizes.append(len(batch.lengths))
            self.began.set()
            assert self.go.wait(60)
            if self.poison and int(batch.lengths.max()) == self.poison:
                raise RuntimeError("a bad sentence")
            return real(batch)

        self.poison = 0
        monkeypatch.setattr(ner, "potentials", potentials)


@pytest.fixture
def held(ner: NestedNER, monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(ner, monkeypatch)


def finder(ner: NestedNER, **options: Any) -> Callable[[int], Finder]:
    asked = Options(**options)
    found = Finder(ner, asked, check_options(asked, ner.config))
    return lambda words: found


def spans(job: Job) -> list[list[tuple[int, int, str]]]:
    """What was found in each sentence; scores differ in their last digits with what is read beside it."""
    return [[span[:3] for span in one.found] for one in job.found]


def run(ner: NestedNER, do: Callable[[Batcher], Awaitable[None]], **settings: Any) -> None:
    """Does something with a batcher, which is closed at the end."""

    async def main() -> None:
        batcher = Batcher(ner, **{"queue_words": 1000, "max_words": 256, **settings})
        batcher.start()
        try:
            await do(batcher)
        finally:
            await batcher.close()

    asyncio.run(main())


async def soon(condition: Callable[[], bool]) -> None:
    """Waits until something is so."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def test_what_waits_is_read_together_and_found_as_ever(ner: NestedNER, held: Held) -> None:
    sentences = [SENTENCE[:n] for n in (1, 2, 3, 4, 5)] * 4

    async def do(batcher: Batcher) -> None:
        first = batcher.submit(finder(ner), [SENTENCE])
        await soon(held.began.is_set)
        jobs = [batcher.submit(finder(ner), [one, SENTENCE]) for one in sentences]
        held.go.set()
        await asyncio.gather(first.done, *(job.done for job in jobs))
        assert held.sizes[0] == 1
        assert len(held.sizes) < len(sentences) / 2
        assert sum(held.sizes) == 1 + 2 * len(sentences)
        wanted = ner.decode(ner.pieces(sentences[:5]))
        for job, own in zip(jobs, wanted * 4, strict=True):
            assert [span[:3] for span in job.found[0].found] == [span[:3] for span in own]

    run(ner, do)


def test_without_batching_one_request_is_read_at_a_time(ner: NestedNER, held: Held) -> None:
    async def do(batcher: Batcher) -> None:
        held.go.set()
        jobs = [batcher.submit(finder(ner), [SENTENCE] * 3) for _ in range(5)]
        await asyncio.gather(*(job.done for job in jobs))
        assert held.sizes == [3] * 5

    run(ner, do, batching=False)


def test_those_who_ask_for_other_things_do_not_share_a_batch(ner: NestedNER, held: Held) -> None:
    async def do(batcher: Batcher) -> None:
        first = batcher.submit(finder(ner), [["x"]])
        await soon(held.began.is_set)
        asked: list[dict[str, Any]] = [
            {},
            {"threshold": 0.9},
            {"trees": True},
            {"alternatives": 1},
            {},
            {"trees": True},
        ]
        jobs = [batcher.submit(finder(ner, **one), [SENTENCE]) for one in asked]
        held.go.set()
        await asyncio.gather(first.done, *(job.done for job in jobs))
        assert sorted(held.sizes[1:]) == [1, 1, 2, 2]
        places = [[span[:3] for span in jobs[at].found[0].found] for at in (0, 4)]
        assert places[0]
        assert places[0] == places[1]
        assert len(jobs[2].found[0].found) == 2 * len(SENTENCE) - 1
        assert len(jobs[3].found[0].trees) == 2
        assert not jobs[0].found[0].trees

    run(ner, do)


def test_a_short_request_does_not_wait_for_a_long_one(ner: NestedNER, held: Held) -> None:
    async def do(batcher: Batcher) -> None:
        held.go.set()
        long = batcher.submit(finder(ner), [SENTENCE] * 400)
        short = batcher.submit(finder(ner), [SENTENCE])
        await short.done
        assert not long.done.done()
        assert long.next < 200
        await long.done
        assert len(long.found) == 400

    run(ner, do, batch_work=64)


def test_one_long_sentence_is_no_slice_of_its_own(ner: NestedNER, held: Held) -> None:
    async def do(batcher: Batcher) -> None:
        held.go.set()
        long = batcher.submit(finder(ner), [SENTENCE * 100])
        short = batcher.submit(finder(ner), [SENTENCE])
        await short.done
        assert not long.done.done()
        await long.done
        assert long.windowed == [True]

    run(ner, do, batch_work=64, max_words=16)


def test_what_nobody_waits_for_is_not_read(ner: NestedNER, held: Held) -> None:
    async def do(batcher: Batcher) -> None:
        first = batcher.submit(finder(ner), [["x"]])
        await soon(held.began.is_set)
        left = batcher.submit(finder(ner), [SENTENCE] * 50)
        stays = batcher.submit(finder(ner), [SENTENCE])
        left.done.cancel()
        held.go.set()
        await asyncio.gather(first.done, stays.done)
        assert sum(held.sizes) == 2

    run(ner, do)


def test_a_request_that_is_given_up_is_dropped_at_once_and_not_at_the_next_turn_of_the_loop(
    ner: NestedNER, held: Held
) -> None:
    async def do(batcher: Batcher) -> None:
        async def waits() -> None:
            await job.done

        job = batcher.submit(finder(ner), [SENTENCE])
        waiting = asyncio.ensure_future(waits())
        await soon(held.began.is_set)
        assert not job.dropped
        waiting.cancel()
        assert job.dropped
        held.go.set()

    run(ner, do)


def test_the_rest_of_a_long_request_is_dropped_when_its_client_leaves(ner: NestedNER, held: Held) -> None:
    async def do(batcher: Batcher) -> None:
        left = batcher.submit(finder(ner), [SENTENCE] * 500)
        await soon(held.began.is_set)
        left.done.cancel()
        held.go.set()
        await batcher.submit(finder(ner), [["x"]]).done
        assert sum(held.sizes) < 50

    run(ner, do, batch_work=64)


def test_a_request_that_fails_does_not_harm_the_others(ner: NestedNER, held: Held) -> None:
    async def do(batcher: Batcher) -> None:
        first = batcher.submit(finder(ner), [["x"]])
        await soon(held.began.is_set)
        held.poison = 4
        good = [batcher.submit(finder(ner), [SENTENCE[:3]]) for _ in range(4)]
        bad = batcher.submit(finder(ner), [SENTENCE[:3], SENTENCE[:4]])
        held.go.set()
        await asyncio.gather(first.done, *(job.done for job in good))
        with pytest.raises(RuntimeError, match="a bad sentence"):
            await bad.done
        again = batcher.submit(finder(ner), [SENTENCE[:3]])
        await again.done
        assert spans(again) == spans(good[0])

    run(ner, do)


def test_what_cannot_be_cut_into_pieces_does_not_end_the_thread(
    ner: NestedNER, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def do(batcher: Batcher) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(ner.pieces, "cut", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await batcher.submit(finder(ner), [SENTENCE]).done
        await batcher.submit(finder(ner), [SENTENCE]).done

    run(ner, do)


def test_several_readers_find_what_one_finds(ner: NestedNER) -> None:
    asked: list[dict[str, Any]] = [{}, {"trees": True}, {"threshold": 0.3}]
    sentences = [(SENTENCE * 20)[: 1 + number * 7 % 90] for number in range(60)]

    def found_by(readers: int) -> list[Any]:
        jobs: list[Job] = []

        async def do(batcher: Batcher) -> None:
            jobs.extend(batcher.submit(finder(ner, **asked[n % 3]), [one, SENTENCE]) for n, one in enumerate(sentences))
            await asyncio.gather(*(job.done for job in jobs))

        run(ner, do, batch_work=128, max_words=32, cores=readers)
        return [(spans(job), job.windowed) for job in jobs]

    assert found_by(3) == found_by(1)


def test_there_is_room_for_so_many_words_and_always_for_one_request(ner: NestedNER) -> None:
    async def do(batcher: Batcher) -> None:
        batcher.check_room(5000)
        batcher.waiting_words = 900
        batcher.check_room(100)
        with pytest.raises(QueueFullError) as error:
            batcher.check_room(101)
        assert error.value.seconds == 1
        batcher.waiting_words = 10**9
        with pytest.raises(QueueFullError) as error:
            batcher.check_room()
        assert error.value.seconds == 60

    run(ner, do)


def test_no_sentences_are_done_at_once(ner: NestedNER) -> None:
    async def do(batcher: Batcher) -> None:
        assert batcher.submit(finder(ner), []).done.done()

    run(ner, do)


def test_what_was_submitted_is_read_before_the_end(ner: NestedNER) -> None:
    jobs: list[Job] = []

    async def do(batcher: Batcher) -> None:
        jobs.extend(batcher.submit(finder(ner), [SENTENCE] * 20) for _ in range(10))

    run(ner, do, batch_work=64)
    places = [[[span[:3] for span in one.found] for one in job.found] for job in jobs]
    assert places == [places[0]] * 10
    assert places[0] == [places[0][0]] * 20


def test_an_error_in_the_midst_of_a_batch_takes_no_answer_with_it(
    ner: NestedNER, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Job.keep

    def once(job: Job, *arguments: Any) -> bool:
        if job is jobs[1]:
            raise RuntimeError("merging failed")
        return keep(job, *arguments)

    jobs: list[Job] = []

    async def do(batcher: Batcher) -> None:
        first = batcher.submit(finder(ner), [["x"]])
        await soon(held.began.is_set)
        jobs.extend(batcher.submit(finder(ner), [SENTENCE]) for _ in range(3))
        monkeypatch.setattr(Job, "keep", once)
        held.go.set()
        found = await asyncio.gather(first.done, *(job.done for job in jobs), return_exceptions=True)
        assert [type(one) for one in found] == [type(None), type(None), RuntimeError, type(None)]

    run(ner, do)


def test_no_more_waits_than_can_be_read_in_time(ner: NestedNER) -> None:
    async def do(batcher: Batcher) -> None:
        batcher._words_per_second = 10.0
        batcher.waiting_words = 15
        batcher.check_room(5)
        with pytest.raises(QueueFullError):
            batcher.check_room(6)
        batcher.waiting_words = 0

    run(ner, do, queue_seconds=2.0)
