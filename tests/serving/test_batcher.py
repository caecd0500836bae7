"""The batcher in virtual time: what goes together, who waits for whom, who is refused."""

import asyncio
import threading

import numpy as np
import pytest

from netdyno.serving.batcher import Batcher, Closed, Inline, Refused, Thread
from netdyno.serving.batches import Costs
from netdyno.serving.virtual import Simulated, run

CHEAP = Costs((1, 2, 4, 8), (1.0, 1.1, 1.2, 1.3))


def rows(*values):
    return (np.array([[float(value)] for value in values], dtype=np.float32),)


async def asked(batcher, at, *values, deadline=None):
    """Ask at a time; gives the time of the answer and the answer, or the error."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(at - loop.time())
    try:
        answer = await batcher.answer(rows(*values), deadline=deadline)
    except Exception as error:
        return round(loop.time(), 6), type(error).__name__
    return round(loop.time(), 6), answer.arrays[0].ravel().tolist()


def served(*requests, costs=CHEAP, worker=None, **settings):
    """Ask all requests (time, values…) of a fresh batcher; gives the answers and the batches that were run."""
    worker = worker or Simulated(costs.of)

    async def all_of_them():
        batcher = Batcher(worker, costs, **settings)
        return await asyncio.gather(
            *(asked(batcher, at, *values, deadline=deadline) for at, values, deadline in requests)
        )

    return run(all_of_them()), worker.batches


def at(time, *values, by=None):
    return time, values, by


def test_a_request_that_meets_an_idle_worker_waits_for_nobody():
    answers, batches = served(at(0, 1), at(5, 2), delay_s=3.0)
    assert answers == [(1.0, [1.0]), (6.0, [2.0])]
    assert batches == [1, 1]


def test_what_arrives_while_the_worker_is_busy_goes_together_afterwards():
    answers, batches = served(at(0, 1), at(0.1, 2), at(0.2, 3), at(0.9, 4))
    assert batches == [1, 3]
    assert answers == [(1.0, [1.0]), (2.2, [2.0]), (2.2, [3.0]), (2.2, [4.0])]


def test_requests_of_the_same_turn_of_the_loop_go_together():
    _, batches = served(at(0, 1), at(0, 2), at(0, 3))
    assert batches == [3]


def test_who_had_to_wait_waits_on_for_company_as_long_as_the_delay_allows():
    answers, batches = served(at(0, 1), at(0.5, 2), at(1.8, 3), delay_s=1.5)
    assert batches == [1, 2]
    assert answers[1] == (2.0 + 1.1, [2.0])  # 0.5 + 1.5 of waiting, then a batch of two


def test_a_full_batch_does_not_wait_out_the_delay():
    requests = [at(0, 0)] + [at(0.5, value) for value in range(8)]
    answers, batches = served(*requests, delay_s=100.0)
    assert batches == [1, 8]
    assert answers[-1][0] == pytest.approx(1.0 + 1.3)


def test_no_deadline_is_missed_for_company():
    answers, batches = served(at(0, 1), at(0.5, 2, by=4.0), delay_s=100.0)
    assert batches == [1, 1]
    assert answers[1] == (pytest.approx(4.0 - 1.3 + 1.0), [2.0])


def test_who_is_late_in_the_queue_is_told_at_the_deadline_and_never_computed():
    answers, batches = served(at(0, 1), at(0.1, 2, by=0.6), at(0.2, 3))
    assert answers[1] == (0.6, "Late")
    assert batches == [1, 1]
    assert answers[2][1] == [3.0]


def test_who_is_late_while_it_is_computed_is_told_at_the_deadline():
    answers, _ = served(at(0, 1, by=0.25))
    assert answers == [(0.25, "Late")]


def test_a_deadline_that_has_passed_is_refused_on_arrival():
    answers, batches = served(at(1, 1, by=0.5))
    assert answers == [(1.0, "Late")]
    assert batches == []


def test_who_could_not_be_in_time_behind_the_queue_is_refused_at_once():
    waiting = [at(0.1, *range(8)) for _ in range(3)]
    answers, _ = served(at(0, 0), *waiting, at(0.2, 9, by=3.0), at(0.3, 9, by=9.0))
    assert answers[-2] == (0.2, "Refused")
    assert answers[-1][1] == [9.0]


def test_an_empty_queue_refuses_nobody_whatever_the_costs_say():
    worker = Simulated(lambda _: 0.1)
    answers, _ = served(at(0, 1, by=0.5), worker=worker, costs=Costs((1,), (1000.0,)))
    assert answers == [(0.1, [1.0])]


def test_the_queue_is_bounded():
    answers, _ = served(at(0, 0), at(0.1, 1), at(0.2, 2), at(0.3, 3), most_waiting=2)
    assert [answer[1] for answer in answers] == [[0.0], [1.0], [2.0], "Refused"]


def test_a_refusal_says_when_it_is_worth_another_try():
    async def refusal():
        batcher = Batcher(Simulated(CHEAP.of), CHEAP, most_waiting=8)
        asking = [asyncio.ensure_future(batcher.answer(rows(*range(8)))) for _ in range(2)]
        await asyncio.sleep(0.1)
        asking.append(asyncio.ensure_future(batcher.answer(rows(*range(8)))))
        await asyncio.sleep(0.1)
        with pytest.raises(Refused) as refused:
            await batcher.answer(rows(1))
        await asyncio.gather(*asking, return_exceptions=True)
        return refused.value.retry_s

    assert run(refusal()) == pytest.approx(1.3)


def test_a_late_request_frees_its_place_in_the_queue():
    answers, _ = served(at(0, 0), at(0.1, 1, by=0.2), at(0.3, 2), most_waiting=1)
    assert [answer[1] for answer in answers] == [[0.0], "Late", [2.0]]


def test_oldest_first():
    order = []

    class Telling(Simulated):
        def start(self, requests, done):
            order.extend(arrays[0].ravel().tolist() for arrays in requests)
            super().start(requests, done)

    served(*(at(0.1 * n, n) for n in range(6)), worker=Telling(CHEAP.of))
    assert order == [[float(n)] for n in range(6)]


def test_every_request_gets_its_own_rows_back():
    requests = [at(0.01 * n, *range(10 * n, 10 * n + 1 + n % 3)) for n in range(40)]
    answers, batches = served(*requests)
    assert [answer[1] for answer in answers] == [[float(v) for v in values] for _, values, _ in requests]
    assert max(batches) == 8


class Picky(Simulated):
    """Fails on any batch that holds a 13."""

    def start(self, requests, done):
        if any(13.0 in arrays[0] for arrays in requests):
            asyncio.get_running_loop().call_later(0.5, done, None, ValueError("13"))
        else:
            super().start(requests, done)


def test_a_request_that_breaks_the_model_breaks_nobody_elses():
    answers, batches = served(at(0, 1), at(0.1, 2), at(0.2, 13), at(0.3, 3), worker=Picky(CHEAP.of))
    assert [answer[1] for answer in answers] == [[1.0], [2.0], "ValueError", [3.0]]
    assert batches == [1, 1, 1]


def test_draining_answers_what_is_there_and_takes_nothing_more():
    async def drained():
        batcher = Batcher(Simulated(CHEAP.of), CHEAP)
        asking = [asyncio.ensure_future(batcher.answer(rows(value))) for value in range(20)]
        await asyncio.sleep(0.1)
        ending = asyncio.ensure_future(batcher.drain(60.0))
        await asyncio.sleep(0)
        with pytest.raises(Closed):
            await batcher.answer(rows(1))
        answers = await asyncio.gather(*asking)
        return await ending, [answer.arrays[0].item() for answer in answers]

    assert run(drained()) == (True, [float(value) for value in range(20)])


def test_draining_says_when_it_took_too_long():
    async def drained():
        batcher = Batcher(Simulated(lambda _: 50.0), CHEAP)
        asking = asyncio.ensure_future(batcher.answer(rows(1)))
        await asyncio.sleep(0)
        whole = await batcher.drain(1.0)
        asking.cancel()
        return whole

    assert run(drained()) is False


def test_a_client_that_gave_up_is_not_computed():
    async def given_up():
        worker = Simulated(CHEAP.of)
        batcher = Batcher(worker, CHEAP)
        first, second, third = (asyncio.ensure_future(batcher.answer(rows(value))) for value in range(3))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        await asyncio.gather(first, third)
        return worker.batches

    assert run(given_up()) == [2]


def test_batches_are_told_with_their_rows_and_seconds():
    told = []
    served(at(0, 1), at(0.1, 2), at(0.2, 3), ran=lambda *what: told.append(what))
    assert told == [(1, pytest.approx(1.0), False), (2, pytest.approx(1.1), False)]


def answered(call, *requests):
    async def all_of_them():
        worker = Thread(call)
        batcher = Batcher(worker, Costs((1, 8), (1.0, 2.0), exact=False))
        try:
            return await asyncio.gather(*(batcher.answer(arrays) for arrays in requests), return_exceptions=True)
        finally:
            worker.close()

    return asyncio.run(all_of_them())


def test_a_thread_answers_as_the_model_does():
    seen = []

    def doubled(arrays):
        seen.append((threading.current_thread().name, len(arrays[0])))
        return (arrays[0] * 2,)

    answers = answered(doubled, rows(1), rows(2, 3))
    assert [answer.arrays[0].ravel().tolist() for answer in answers] == [[2.0], [4.0, 6.0]]
    assert seen == [("netdyno-model", 3)]


def test_a_model_that_loses_rows_answers_nobody_with_anothers():
    answers = answered(lambda arrays: (arrays[0][:1],), rows(1), rows(2))
    assert [type(answer).__name__ for answer in answers] == ["Answer", "Answer"]
    (alone,) = answered(lambda arrays: (arrays[0][:1],), rows(1, 2))
    assert "1] rows to 2" in str(alone)


def test_after_an_error_the_thread_goes_on():
    calls = iter([ValueError("once"), None])

    def moody(arrays):
        error = next(calls)
        if error:
            raise error
        return arrays

    async def twice():
        worker = Thread(moody)
        batcher = Batcher(worker, Costs((1,), (1.0,)))
        with pytest.raises(ValueError, match="once"):
            await batcher.answer(rows(1))
        return (await batcher.answer(rows(2))).arrays[0].item()

    assert asyncio.run(twice()) == 2.0


def test_in_the_loop_answers_are_sent_before_the_next_batch_begins():
    order = []

    def told(arrays):
        order.append(("batch", arrays[0].ravel().tolist()))
        return arrays

    async def client(batcher, value):
        await batcher.answer(rows(value))
        order.append(("answered", value))

    async def all_of_them():
        batcher = Batcher(Inline(told), Costs((1, 2), (1.0, 1.1)))
        await asyncio.gather(*(client(batcher, value) for value in range(4)))

    asyncio.run(all_of_them())
    assert order == [
        ("batch", [0.0, 1.0]), ("answered", 0), ("answered", 1),
        ("batch", [2.0, 3.0]), ("answered", 2), ("answered", 3),
    ]  # fmt: skip


def test_in_the_loop_an_error_is_the_requests_own():
    def picky(arrays):
        if (arrays[0] == 13).any():
            raise ValueError("13")
        return arrays

    async def all_of_them():
        batcher = Batcher(Inline(picky), Costs((1, 4), (1.0, 1.1)))
        answers = await asyncio.gather(*(batcher.answer(rows(v)) for v in (1, 13, 2)), return_exceptions=True)
        return [type(answer).__name__ for answer in answers], await batcher.drain(1.0)

    assert asyncio.run(all_of_them()) == (["Answer", "ValueError", "Answer"], True)


def test_a_client_that_hung_up_while_it_waited_is_not_computed():
    async def hung_up():
        worker, left = Simulated(CHEAP.of), []
        batcher = Batcher(worker, CHEAP)
        first = asyncio.ensure_future(batcher.answer(rows(1), gone=lambda: True))  # it met an idle worker
        await asyncio.sleep(0.1)
        others = [asyncio.ensure_future(batcher.answer(rows(v), gone=lambda v=v: v in left)) for v in (2, 3, 4)]
        await asyncio.sleep(0.1)
        left += [2, 4]
        found = await asyncio.gather(first, *others, return_exceptions=True)
        return [type(one).__name__ for one in found], worker.batches, batcher.waiting_rows

    assert run(hung_up()) == (["Answer", "Gone", "Answer", "Gone"], [1, 1], 0)


def test_a_model_that_has_become_slower_has_a_shorter_queue():
    """Batches take five times what they took in the warm-up, and three requests arrive for each that is answered."""
    slower = Simulated(lambda rows: 5 * CHEAP.of(rows))
    requests = [at(0.2 * n, n) for n in range(1500)]
    answers, _ = served(*requests, worker=slower, most_waiting=40)
    waited = [
        answer[0] - request[0] for answer, request in zip(answers, requests, strict=True) if answer[1] != "Refused"
    ]
    # Forty rows are five full batches, 32 s at this pace; what is promised is the 6.5 s of the warm-up's, and a batch or two.
    assert max(waited[-100:]) < 20
    assert 300 < len(waited) < 1000


def test_one_stall_does_not_shut_the_door():
    first = iter([1000.0])
    worker = Simulated(lambda rows: next(first, CHEAP.of(rows)))
    answers, _ = served(at(0, 0), *(at(1001 + 2 * n, n, by=1001 + 2 * n + 1.5) for n in range(20)), worker=worker)
    assert [answer[1] for answer in answers[1:]] == [[float(n)] for n in range(20)]
