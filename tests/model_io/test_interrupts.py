"""The first signal is held back, a second raises at once, and handlers are given back."""

import signal
import threading

import pytest

from amforest.model_io.interrupts import Interrupts

BOTH = (signal.SIGINT, signal.SIGTERM)


def handlers():
    return [signal.getsignal(number) for number in BOTH]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_is_held_back(number, status):
    before = handlers()
    with Interrupts() as interrupts:
        assert (interrupts.received, interrupts.exit_status) == (False, 0)
        signal.raise_signal(number)
        assert (interrupts.first, interrupts.exit_status) == (number, status)
    assert handlers() == before


@pytest.mark.parametrize("first", BOTH)
@pytest.mark.parametrize("second", BOTH)
def test_a_second_signal_raises_at_once(first, second):
    before = handlers()
    with Interrupts() as interrupts:
        signal.raise_signal(first)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(second)
    assert interrupts.first == first
    assert handlers() == before


@pytest.mark.parametrize(("number", "error"), [(2, KeyboardInterrupt), (15, SystemExit)])
def test_a_signal_is_delivered_once(number, error):
    with Interrupts() as interrupts:
        interrupts.deliver()
        signal.raise_signal(number)
        with pytest.raises(error):
            interrupts.deliver()
        interrupts.deliver()


def test_items_end_at_a_signal_and_the_one_in_hand_is_kept():
    taken = []
    with Interrupts() as interrupts:
        for item in interrupts.until(range(10)):
            if item == 3:
                signal.raise_signal(signal.SIGTERM)
            taken.append(item)
    assert taken == [0, 1, 2, 3]


@pytest.mark.parametrize("number", BOTH)
def test_a_signal_while_an_item_is_awaited_ends_the_items_at_once(number):
    def items():
        yield 1
        signal.raise_signal(number)
        pytest.fail("the signal was held back")

    with Interrupts() as interrupts:
        assert list(interrupts.until(items())) == [1]
    assert interrupts.first == number


def test_a_keyboard_interrupt_of_another_handler_ends_the_items():
    def items():
        yield 1
        raise KeyboardInterrupt

    interrupts = Interrupts()
    assert list(interrupts.until(items())) == [1]
    assert interrupts.exit_status == 130


@pytest.mark.parametrize("replace", [True, False])
def test_a_handler_of_the_program_is_replaced_on_request(replace):
    came = []
    before = signal.signal(signal.SIGINT, lambda *_: came.append(1))
    try:
        with Interrupts(replace=replace) as interrupts:
            signal.raise_signal(signal.SIGINT)
        assert (interrupts.received, came) == ((True, []) if replace else (False, [1]))
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_install_nothing():
    inside = []

    def work():
        with Interrupts():
            inside.append(handlers())

    (thread := threading.Thread(target=work)).start()
    thread.join()
    assert inside == [handlers()]
