"""Times of short calls: blocks in turns, after a rest, with warm caches."""

import threading
import time

import pytest

from understudy.runtime import timing


def test_turns_are_taken_and_the_lowest_median_counts(monkeypatch):
    monkeypatch.setattr(timing, "_PAUSE_S", 0.0)
    order = []
    timing.take_turns({"a": lambda i: order.append("a"), "b": lambda i: order.append("b")}, 3, 1e-9)
    changes = sum(x != y for x, y in zip(order, order[1:]))
    assert changes >= 6  # a block of one, then a block of the other


@pytest.mark.parametrize(("seconds", "wanted"), [(0.0, timing._WARM_CALLS), (0.02, 1)])
def test_some_calls_bring_back_the_caches_or_one_that_is_long(seconds, wanted, monkeypatch):
    monkeypatch.setattr(timing, "_WARM_S", 0.01 if seconds else 60.0)
    calls = []

    def call(i: int):
        calls.append(i)
        time.sleep(seconds)

    timing._warm(call)
    assert len(calls) == wanted


def test_a_rest_lasts_until_threads_that_spin_have_stopped():
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            sum(range(1000))

    spinning = threading.Thread(target=spin)
    spinning.start()
    threading.Timer(0.06, stop.set).start()
    begun = time.perf_counter()
    timing._pause()
    assert time.perf_counter() - begun > 0.05
    spinning.join()
