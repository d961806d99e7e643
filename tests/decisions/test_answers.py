"""The vectors V1 to V16 were made with released vLLM and TypeSafe code; p are full-vocabulary probabilities."""

from math import exp, inf, isfinite, log, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decisions.answers import (
    Answer,
    Confidence,
    answer,
    confidence,
    entropy,
    softmax,
    wire_answer,
)
from decisions.errors import NonFiniteScores
from decisions.types import Option, Question, QuestionType

CHOICE, NOUL, SCORE = QuestionType.CHOICE, QuestionType.NOUL, QuestionType.SCORE


def exactly(expected: float | tuple[float, ...]) -> object:
    return pytest.approx(expected, rel=1e-12, abs=1e-12)


def question(type_: QuestionType, n: int) -> Question:
    names = ("yes", "no") if type_ is NOUL else tuple(f"option {i}" for i in range(n))
    options = tuple(Option(name=name) for name in names)
    return Question(id="q", type=type_, instructions="", options=options)


def logs(*p: float) -> list[float]:
    return [log(x) if x else -inf for x in p]


def answered(type_: QuestionType, *p: float, formula: Confidence = Confidence.LABEL_MASS) -> Answer:
    return answer(question(type_, len(p)), logs(*p), formula)


def test_v1_a_choice() -> None:
    found = answered(CHOICE, 0.6, 0.2, 0.1)
    assert found.top == 0
    assert found.probabilities == exactly(
        (0.6666666666666665, 0.2222222222222222, 0.11111111111111112)
    )
    assert found.label_mass == exactly(0.9)
    assert found.confidence == exactly(0.5999999999999999)
    assert found.margin == exactly(0.6666666666666665 - 0.2222222222222222)
    assert found.value is None


def test_v1_by_the_other_two_formulas() -> None:
    peak = answered(CHOICE, 0.6, 0.2, 0.1, formula=Confidence.PEAK)
    by_entropy = answered(CHOICE, 0.6, 0.2, 0.1, formula=Confidence.ENTROPY)
    assert peak.confidence == exactly(0.4999999999999998)
    assert by_entropy.confidence == pytest.approx(0.2275, abs=5e-5)
    assert peak.confidence_formula is Confidence.PEAK
    assert by_entropy.confidence_formula is Confidence.ENTROPY


def test_v2_a_noul_is_the_probability_of_yes() -> None:
    found = answered(NOUL, 0.05, 0.75)
    assert found.probabilities == exactly((0.0625, 0.9375))
    assert found.label_mass == exactly(0.8)
    assert found.value == exactly(0.0625)
    assert found.confidence == exactly(0.75)
    assert found.top == 1


def test_v3_a_score_is_the_expected_level() -> None:
    found = answered(SCORE, 0.45, 0.27, 0.18)
    assert found.probabilities == exactly((0.5, 0.30000000000000004, 0.2))
    assert found.value == exactly(0.7000000000000001)
    assert found.label_mass == exactly(0.9)
    assert found.confidence == exactly(0.45)
    assert answered(SCORE, 0.45, 0.27, 0.18, formula=Confidence.PEAK).confidence == 0.0
    assert confidence(CHOICE, found.probabilities, 0.9, Confidence.PEAK) == exactly(0.25)


def test_v4_logs_of_rounded_probabilities() -> None:
    lp = (-0.105360516, -2.995732274, -4.605170186)
    found = answer(question(CHOICE, 3), lp)
    assert found.probabilities == pytest.approx((0.9375, 0.05208333, 0.01041667), abs=5e-9)
    assert found.label_mass == pytest.approx(0.96, abs=1e-9)
    assert found.confidence == pytest.approx(0.9, abs=1e-9)
    peak = answer(question(CHOICE, 3), lp, Confidence.PEAK)
    assert peak.confidence == pytest.approx(0.90625, abs=1e-8)


def test_v5_of_equals_the_first_wins() -> None:
    found = answer(question(CHOICE, 2), (-1, -1))
    assert (found.top, found.probabilities, found.margin) == (0, (0.5, 0.5), 0.0)
    assert answer(question(CHOICE, 3), (-2, -1, -1)).top == 1


def test_v6_a_small_label_mass() -> None:
    found = answer(question(CHOICE, 2), (-9, -10))
    assert found.probabilities == exactly((0.7310585786300049, 0.2689414213699951))
    assert found.label_mass == pytest.approx(0.00016880973384916442, rel=1e-12)
    assert found.confidence == pytest.approx(0.00012340980408667956, rel=1e-12)
    peak = answer(question(CHOICE, 2), (-9, -10), Confidence.PEAK)
    assert peak.confidence == exactly(0.4621171572600098)


def test_v7_a_label_mass_that_underflows_is_zero() -> None:
    found = answer(question(CHOICE, 2), (-1000, -1001))
    assert found.probabilities == exactly((0.7310585786300049, 0.2689414213699951))
    assert (found.label_mass, found.confidence) == (0.0, 0.0)


@pytest.mark.parametrize("type_", QuestionType)
@pytest.mark.parametrize("lp", [(-inf, -inf), (nan, -1), (-1, nan), (inf, -1), (-inf, nan)])
def test_v8_scores_that_are_not_finite_are_an_error(
    type_: QuestionType, lp: tuple[float, ...]
) -> None:
    with pytest.raises(NonFiniteScores):
        answer(question(type_, 2), lp)


def test_v9_one_label_may_be_impossible() -> None:
    found = answer(question(CHOICE, 2), (-0.5, -inf))
    assert found.probabilities == (1.0, 0.0)
    assert found.label_mass == exactly(0.6065306597126334)
    assert found.log_probs == (-0.5, -inf)
    assert (found.margin, found.entropy) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("p", "choice_confidence", "score_confidence", "score"),
    [
        ((0.88, 0.12, 0), 0.82, 0.82, 0.12),
        ((0.88, 0.12), 0.76, 0.76, 0.12),
        ((0, 0.95, 0.05), 0.925, 0.925, 1.05),
        ((0.5, 0.5), 0, 0, 0.5),
        ((0.7, 0.2, 0.1), 0.55, 0.40, 0.4),
        ((0.5, 0, 0.5), 0.25, 0.0, 1.0),
        ((0.1, 0.1, 0.8), 0.70, 0.55, 1.7),
        ((0.05, 0.5, 0.45), 0.25, 0.25, 1.4),
        ((1 / 3, 1 / 3, 1 / 3), 0, 0, 1),
    ],
)
def test_v10_the_peak_formula(
    p: tuple[float, ...], choice_confidence: float, score_confidence: float, score: float
) -> None:
    chosen = answered(CHOICE, *p, formula=Confidence.PEAK)
    scored = answered(SCORE, *p, formula=Confidence.PEAK)
    assert chosen.confidence == exactly(choice_confidence)
    assert scored.confidence == exactly(score_confidence)
    assert scored.value == exactly(score)


def test_v11_the_openai_shape_reads_lettered_choices() -> None:
    predicate = answered(CHOICE, 0.6, 0.3)
    assert predicate.probabilities[1] == exactly(0.3333333333333333)
    choice = answered(CHOICE, 0.5, 0.3, 0.1)
    assert choice.probabilities == exactly(
        (0.5555555555555556, 0.3333333333333333, 0.11111111111111116)
    )
    assert choice.confidence == exactly(0.5)
    score = answered(SCORE, 0.2, 0.7)
    assert score.value == exactly(0.7777777777777777)
    assert score.confidence == exactly(0.6999999999999998)


def test_v12_to_v14_softmax_of_other_strategies_scores() -> None:
    assert softmax(logs(0.30, 0.10)) == exactly((0.75, 0.25))
    assert softmax([4 / 2, 2 / 2, 0 / 2]) == exactly(
        (0.6652409557748218, 0.24472847105479764, 0.09003057317038046)
    )
    lp = logs(0.6, 0.2, 0.1)
    for temperature, expected in [
        (0.5, (0.8780, 0.0976, 0.0244)),
        (2, (0.5036, 0.2908, 0.2056)),
    ]:
        assert softmax([x / temperature for x in lp]) == pytest.approx(expected, abs=5e-5)


def test_v16_the_entropy_formula() -> None:
    first = answered(CHOICE, 0.7, 0.2, 0.1, formula=Confidence.ENTROPY)
    second = answered(CHOICE, 0.88, 0.12, 0, formula=Confidence.ENTROPY)
    assert first.confidence == exactly(0.27015330083790257)
    assert second.confidence == exactly(0.6660104797138697)


@pytest.mark.parametrize("formula", Confidence)
def test_a_single_option_is_certain(formula: Confidence) -> None:
    found = answered(CHOICE, 0.25, formula=formula)
    assert (found.probabilities, found.margin, found.entropy) == ((1.0,), 1.0, 0.0)
    assert found.confidence == (0.25 if formula is Confidence.LABEL_MASS else 1.0)


def test_no_belief_is_minus_zero() -> None:
    assert str(answered(CHOICE, 0.25).entropy) == "0.0"
    assert str(answer(question(CHOICE, 2), (-0.5, -inf)).entropy) == "0.0"


def test_an_even_belief_has_no_confidence_by_entropy_rather_than_less_than_none() -> None:
    assert answer(question(CHOICE, 5), [log(0.2)] * 5, Confidence.ENTROPY).confidence == 0.0


def test_an_expected_level_is_never_above_the_highest() -> None:
    lp = (-42.8, -38.7, -40.1, -38.7, -40.5, -40.2, -37.3, 0.0)
    assert answer(question(SCORE, 8), lp).value == 7.0


def test_a_label_mass_that_rounding_took_above_one_is_one() -> None:
    assert answer(question(CHOICE, 2), (log(0.75) + 1e-7, log(0.25))).label_mass == 1.0


def _read(logits: list[float], n: int) -> list[float]:
    """Log-probabilities of the first n tokens of a vocabulary."""
    peak = max(logits)
    total = peak + log(sum(exp(x - peak) for x in logits))
    return [x - total for x in logits[:n]]


#: Log-probabilities as a vocabulary gives them, as rounding breaks them, and as a filter leaves them.
reads = st.one_of(
    st.integers(2, 10).flatmap(
        lambda n: st.lists(st.floats(-60, 60), min_size=n, max_size=n + 5).map(
            lambda logits: _read(logits, n)
        )
    ),
    st.lists(st.integers(-40, 40), min_size=2, max_size=10).map(
        lambda ulps: [log(1 / len(ulps)) + k * 2**-52 for k in ulps]
    ),
    st.lists(
        st.floats(-1e5, 1e-6) | st.sampled_from([0.0, -inf, -36.7, -37.4]), min_size=2, max_size=10
    ).filter(lambda lp: max(lp) > -inf),
)


@given(reads, st.sampled_from(Confidence), st.sampled_from([CHOICE, SCORE]))
def test_every_number_of_an_answer_is_within_its_bounds(
    lp: list[float], formula: Confidence, type_: QuestionType
) -> None:
    n = len(lp)
    found = answer(question(type_, n), lp, formula)
    assert sum(found.probabilities) == exactly(1.0)
    assert all(0 <= p <= 1 for p in found.probabilities)
    assert 0 <= found.label_mass <= 1
    assert 0 <= found.margin <= 1
    assert 0 <= found.confidence <= 1
    assert 0 <= found.entropy <= log(n) + 1e-12
    assert found.probabilities[found.top] == max(found.probabilities)
    assert found.value is None or 0 <= found.value <= n - 1


@given(reads, st.floats(-50, 0))
def test_softmax_does_not_see_what_all_labels_share(lp: list[float], shift: float) -> None:
    assert softmax([x + shift for x in lp]) == pytest.approx(softmax(lp), abs=1e-9)


@given(reads)
def test_probabilities_keep_the_order_of_the_scores(lp: list[float]) -> None:
    p = softmax(lp)
    for i in range(len(lp)):
        for j in range(len(lp)):
            assert lp[i] > lp[j] or p[i] <= p[j]


@given(st.floats(0.001, 0.999))
def test_confidence_by_entropy_falls_with_doubt(p: float) -> None:
    doubt = confidence(NOUL, (0.5, 0.5), 1, Confidence.ENTROPY)
    sure = confidence(NOUL, (p, 1 - p), 1, Confidence.ENTROPY)
    assert sure >= doubt
    assert isfinite(entropy((p, 1 - p)))


def test_answers_on_the_wire_have_the_system_one_shape() -> None:
    choice = question(CHOICE, 2)
    assert wire_answer(choice, top=1, probabilities=(0.25, 0.75), value=None, confidence=0.5) == {
        "type": "choice",
        "choice": "option 1",
        "probabilities": {"option 0": 0.25, "option 1": 0.75},
        "confidence": 0.5,
    }
    assert wire_answer(
        question(NOUL, 2), top=1, probabilities=(0.25, 0.75), value=0.25, confidence=0.5
    ) == {
        "type": "noul",
        "noul": 0.25,
        "probabilities": {"yes": 0.25, "no": 0.75},
        "confidence": 0.5,
    }
    assert wire_answer(
        question(SCORE, 2), top=1, probabilities=(0.25, 0.75), value=0.75, confidence=0.5
    ) == {
        "type": "score",
        "score": 0.75,
        "legend": {"0": "option 0", "1": "option 1"},
        "probabilities": {"0": 0.25, "1": 0.75},
        "confidence": 0.5,
    }
