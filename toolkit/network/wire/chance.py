"""Random processes of a link: correlated numbers, and loss models.

Everything draws from one generator of random numbers from 0 to 1, so that a seed determines all decisions.
"""

from collections.abc import Callable

from toolkit.network.state import FourStates, GilbertElliott, RandomLoss

Draw = Callable[[], float]
Event = Callable[[], bool]


def never() -> bool:
    """Return False: the event without a probability."""
    return False


def correlated(draw: Draw, correlation_percent: float) -> Draw:
    """Return a generator of numbers, each the weighted mean of the previous one and a fresh draw.

    This is netem's method, with its known consequence: the higher the correlation, the closer the numbers are to
    the mean.
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
    """Return a random event with this probability and correlation."""
    if not percent:
        return never
    number, probability = correlated(draw, correlation_percent), percent / 100
    return lambda: number() < probability


def losses(draw: Draw, loss: RandomLoss | GilbertElliott | FourStates | None) -> Event:
    """Return the event that the next packet is lost."""
    if isinstance(loss, GilbertElliott):
        return _gilbert_elliott(draw, loss)
    if isinstance(loss, FourStates):
        return _four_states(draw, loss)
    return event(draw, loss.percent, loss.correlation_percent) if loss else never


def _gilbert_elliott(draw: Draw, model: GilbertElliott) -> Event:
    """Lose a packet with the probability of the present state, which may then change for the next one."""
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
    """Change the state first; a packet is lost if the new state is 3 or 4."""
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
