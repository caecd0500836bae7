"""The open loop: what was due counts, whatever the service did; what is no right answer is a failure."""

import itertools
import math
import statistics

import pytest

from netdyno.errors import NetdynoError
from netdyno.serving.load_requests import where
from netdyno.serving.offered import Request, due, exchange, offered, wire
from serving.service import Service

pytest.importorskip("httptools", reason="the extra `ship` is not installed")


@pytest.fixture(scope="module")
def service():
    running = Service()
    yield running
    running.close()


def load(service, path, *, right=None, rate=200, seconds=0.3, **settings):
    place = where(service.url + path)
    return offered(
        place, [Request(wire(place, body=b"{}"), right)], rate=rate, seconds=seconds, connections=8, **settings
    )


def test_constant_arrivals_are_evenly_spaced_and_poisson_ones_are_not():
    assert due(10, 1, arrivals="constant") == [at / 10 for at in range(10)]
    times = due(500, 20)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(times) == pytest.approx(10_000, abs=5 * math.sqrt(10_000))
    # An exponential distribution has a deviation as large as its mean.
    assert statistics.stdev(gaps) == pytest.approx(statistics.fmean(gaps), rel=0.1)
    assert due(500, 20) == times
    assert due(500, 20, seed=1) != times


def test_every_request_is_sent_and_counted(service):
    found = load(service, "/ok")
    assert found.due == len(found.samples) == len(found.lags) == service.asked["/ok"]
    assert not found.failures
    assert min(found.samples) > 0
    assert all(taken >= lag for taken, lag in zip(found.samples, found.lags, strict=True))
    assert found.generator_cpu > 0


def test_a_service_that_stands_still_is_charged_for_all_that_became_due_meanwhile(service):
    found = load(service, "/stall", rate=100, seconds=2, arrivals="constant")
    # Some sixty arrivals fall into the 0.6 s; a closed loop would have seen one slow answer for each connection.
    assert sum(taken > 0.1 for taken in found.samples) > 40
    assert found.waited > 0
    assert any("waited for one of 8 connections" in says for says in found.says)
    assert found.most_in_flight == 8


@pytest.mark.parametrize(
    ("path", "reason", "share"), [("/busy", "HTTP 503", 1 / 4), ("/hangs-up", "connection lost", 1 / 5)]
)
def test_what_is_no_answer_is_a_failure_and_takes_as_long_as_the_time_out(service, path, reason, share):
    found = load(service, path, timeout_s=3.0)
    assert set(found.failures) == {reason}
    assert found.failed == pytest.approx(share * found.due, abs=2)
    assert sum(taken == 3.0 for taken in found.samples) == found.failed


def test_a_wrong_answer_is_a_failure(service):
    found = load(service, "/wrong", right=lambda body: body == b'{"a": 1}')
    assert found.failures == {"wrong answer": found.due // 10}


def test_silence_is_a_time_out_and_does_not_hold_up_the_end(service):
    found = load(service, "/silent", rate=20, timeout_s=0.4)
    assert found.failures == {"timeout": found.due}
    assert set(found.samples) == {0.4}


def test_a_body_in_chunks_is_read_whole(service):
    assert not load(service, "/chunked", right=lambda body: body == b'{"a": 1}').failures


def test_what_speaks_no_http_is_a_failure(service):
    found = load(service, "/nonsense", rate=50)
    assert found.failed == found.due
    assert all(reason.startswith("no HTTP") for reason in found.failures)


def test_a_hopeless_load_is_given_up(service):
    late = []
    found = load(service, "/ok", rate=100, seconds=20, hopeless=lambda taken: late.append(taken) or len(late) > 10)
    assert found.given_up
    assert found.due == len(found.samples) < 100


def test_it_sees_what_an_answer_costs_the_service(service):
    found = load(service, "/ok")
    # The service is a thread of this process here, and may be looked at.
    assert found.server_cpu_s is None or found.server_cpu_s >= 0


def test_nobody_there_is_said_in_three_lines(service):
    port = service.port
    nobody = where(f"http://127.0.0.1:{1 if port != 1 else 2}/")
    with pytest.raises(NetdynoError) as error:
        offered(nobody, [Request(wire(nobody))], rate=10, seconds=1)
    assert "cannot reach" in error.value.what


def test_an_exchange_gives_answers_in_order_and_reconnects(service):
    place = where(service.url + "/hangs-up/too")
    answers = exchange(place, [wire(place) for _ in range(7)])
    assert [answer.status for answer in answers] == [200] * 4 + [0] + [200] * 2


def test_an_exchange_with_silence_ends(service):
    place = where(service.url + "/silent")
    with pytest.raises(NetdynoError, match="does not answer"):
        exchange(place, [wire(place)], timeout_s=0.2)
