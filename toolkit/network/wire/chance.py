"""What is random about a link: numbers that resemble the one before, and models of loss.

Everything draws from one generator of random numbers from 0 to 1, so that a seed decides it all.
"""

from collections.abc import Callable

from toolkit.network.state import FourStates, GilbertElliott, RandomLoss

Draw = Callable[[], float]
Event = Callable[[], bool]


def never() -> bool:
    """What does not happen."""
    return False


def correlated(draw: Draw, correlation_percent: float) -> Draw:
    """Numbers of which each is a mean, so weighted, of the one before and a fresh one.

    That is netem's way, with its known consequence: the more correlation, the closer they are to the middle.
    """
    if not correlation_percent:
        return draw
    share = correlation_percent / 100
    last = draw()

    def next_one() -> float:
        nonlocal last
        last = last * share + draw() * (1 - share)
        return last

    return next_one


def event(draw: Draw, percent: float, correlation_percent: float) -> Event:
    """Something that happens so often."""
    if not percent:
        return never
    number, probability = correlated(draw, correlation_percent), percent / 100
    return lambda: number() < probability


def losses(draw: Draw, loss: RandomLoss | GilbertElliott | FourStates | None) -> Event:
    """Whether the next packet is lost."""
    if isinstance(loss, GilbertElliott):
        return _gilbert_elliott(draw, loss)
    if isinstance(loss, FourStates):
        return _four_states(draw, loss)
    return event(draw, loss.percent, loss.correlation_percent) if loss else never


def _gilbert_elliott(draw: Draw, model: GilbertElliott) -> Event:
    """A packet's fate is decided by the state that it finds; then the state may change for the next one."""
    leave = (model.to_bad_percent / 100, model.to_good_percent / 100)
    lost = (model.good_loss_percent / 100, model.bad_loss_percent / 100)
    bad = 0

    def next_one() -> bool:
        nonlocal bad
        found = bad
        if draw() < leave[found]:
            bad = 1 - found
        return draw() < lost[found]

    return next_one


def _four_states(draw: Draw, model: FourStates) -> Event:
    """A packet's fate is decided by the state that it leads to: 3 and 4 are those of losses."""
    p13, p31, p32 = model.p13 / 100, model.p31 / 100, model.p32 / 100
    p23, p14 = model.p23 / 100, model.p14 / 100
    state = 1

    def next_one() -> bool:
        nonlocal state
        number = draw()
        if state == 1:
            state = 4 if number < p14 else 3 if number < p14 + p13 else 1
        elif state == 2:
            state = 3 if number < p23 else 2
        elif state == 3:
            state = 2 if number < p32 else 1 if number < p32 + p31 else 3
        else:
            state = 1
        return state in {3, 4}

    return next_one
