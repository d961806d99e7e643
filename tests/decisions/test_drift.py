from math import log

import pytest

from decisions.drift import psi


def test_equal_distributions_have_no_drift() -> None:
    assert psi([3, 0, 7], [3, 0, 7]) == 0


def test_psi_is_the_sum_over_bins_with_half_an_observation_more_in_each() -> None:
    b, a = (9.5 / 11, 1.5 / 11), (4.5 / 11, 6.5 / 11)
    expected = (a[0] - b[0]) * log(a[0] / b[0]) + (a[1] - b[1]) * log(a[1] / b[1])
    assert psi([9, 1], [4, 6]) == pytest.approx(expected, abs=1e-15)


def test_an_empty_bin_is_no_division_by_zero_and_counts() -> None:
    found = psi([10, 0], [0, 10])
    assert found is not None
    assert found > 2


def test_a_side_without_observations_has_no_drift_that_could_be_told() -> None:
    assert psi([0, 0], [1, 2]) is None
    assert psi([1, 2], [0, 0]) is None
