"""The numbers of the model card, on cases that can be checked by hand."""

import math

import pytest

from training.metrics import Read, calibration_error, divergence, fit_temperature, interval, summary
from training.prompts import Question


def read(probability: float, *, right: bool, mass: float = 1.0) -> Read:
    question = Question(
        kind="noul",
        instructions="?",
        options=("yes", "no"),
        descriptions=(None, None),
        target=(float(right), float(not right)),
    )
    return Read(
        question=question,
        source="s",
        logp=(math.log(mass * probability), math.log(mass * (1 - probability))),
    )


def test_wilsons_interval_is_the_published_one() -> None:
    low, high = interval(8, 10)
    assert low == pytest.approx(0.4902, abs=1e-3)
    assert high == pytest.approx(0.9433, abs=1e-3)


def test_divergence_is_zero_for_the_target_itself_and_log_two_for_a_coin() -> None:
    assert divergence((0.3, 0.7), (0.3, 0.7)) == pytest.approx(0.0)
    assert divergence((1.0, 0.0), (0.5, 0.5)) == pytest.approx(math.log(2))


def test_accuracy_and_mass_are_means_over_reads() -> None:
    found = summary([read(0.9, right=True, mass=0.8), read(0.7, right=False, mass=0.4)])
    assert found["accuracy"] == 0.5
    assert found["mass"] == pytest.approx(0.6)


def test_a_model_that_is_right_as_often_as_it_says_is_calibrated() -> None:
    reads = [read(0.75, right=i < 3) for i in range(4)]
    assert calibration_error(reads, 1.0) == pytest.approx(0.0)
    assert calibration_error([read(0.75, right=False)] * 4, 1.0) == pytest.approx(0.75)


def test_the_temperature_of_an_overconfident_model_is_above_one() -> None:
    reads = [read(0.99, right=i < 3) for i in range(4)]
    t = fit_temperature(reads)
    assert reads[0].probabilities(t)[0] == pytest.approx(0.75, abs=0.01)
