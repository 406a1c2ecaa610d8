"""The very edges of the rule's arithmetic: a drift at the cap, and what its arrays hold."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from pytest_specgate.core import rule
from pytest_specgate.core.noise import LOG, Noise, Scale, linear_scale
from pytest_specgate.core.plan import Claim, Plan

ORDER: Final = np.array([False, True] * 2)


def test_a_drift_at_the_cap_is_removed() -> None:
    """2 % per boot is the largest drift that is taken out of the variance, and is taken out itself."""
    x = np.array([[0.02, -0.02, 0.02, -0.02]])

    spread, order = rule.spread_of(x, ORDER, sigma=np.zeros(1), nu=0.0, scale=LOG)

    assert abs(order.drift[0]) == LOG.order_cap
    assert order.removed[0]
    assert spread.df[0] == 2


@pytest.mark.parametrize("scale", [LOG, linear_scale(0.01)], ids=["log", "linear"])
@pytest.mark.parametrize("noise", [Noise(0.0, 0.0), Noise(0.01, 5.0)], ids=["unknown", "known"])
def test_codes_and_flags_stay_small(noise: Noise, scale: Scale) -> None:
    """A hundred thousand runs are held as bytes of codes and flags, whatever is known and on whichever scale."""
    x = np.array([[0.01, -0.01, 0.01, -0.01], [0.001, 0.002, 0.0, 0.003]])

    found = rule.bounds(
        x,
        ORDER,
        sigma=np.full(2, noise.sigma),
        nu=noise.df,
        scale=scale,
        claim=Claim(0.02),
        plan=Plan((4, 6)),
    )

    assert {one.dtype for one in (found.decision, found.spread.source)} == {np.dtype(np.int8)}
    assert {one.dtype for one in (found.order.significant, found.order.removed)} == {np.dtype(np.bool_)}


@pytest.mark.parametrize(("nu", "code"), [(1.8, rule.CONTINUE), (2.0, rule.FUTILE)])
def test_nobody_gives_up_below_three_degrees_of_freedom(nu: float, code: int) -> None:
    """A claim at its margin is hopeless after two rounds, and is given up only where the noise is known well enough."""
    found = rule.bounds(
        np.array([[-0.0101, -0.0099]]),
        np.array([False, True]),
        sigma=np.array([0.01]),
        nu=nu,
        scale=LOG,
        claim=Claim(0.01),
        plan=Plan((2, 4, 6)),
    )

    assert found.chance[0] < rule.FUTILITY
    assert list(found.spread.df) == [1 + nu]
    assert list(found.decision) == [code]
