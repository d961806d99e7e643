"""The litellm package: its two providers for a server of one's own, on both its decision endpoints."""

import importlib
import os
from typing import Any

import pytest

from cli.client import Address

# Or importing it asks a server for prices.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

QUESTIONS: list[dict[str, Any]] = [
    {"type": "predicate", "instructions": "The customer wants money back.", "name": "refund"},
    {
        "type": "choice",
        "instructions": "Which team?",
        "choices": [{"value": "billing"}, {"value": "shipping"}],
        "name": "team",
    },
    {
        "type": "score",
        "instructions": "How angry?",
        "levels": [{"label": "calm"}, {"label": "mad"}],
        "name": "tone",
    },
]
SYSTEM_ONE = {
    "refund": {"type": "noul", "instructions": "Does the customer want money back?"},
    "team": {"type": "choice", "criteria": {"billing": None, "shipping": "parcels"}},
    "tone": {"type": "score", "criteria": ["calm", "mad"]},
}


@pytest.fixture(scope="module")
def litellm() -> Any:
    return importlib.import_module("litellm")


@pytest.mark.parametrize("provider", ["hosted_vllm", "openai"])
def test_openais_shape(litellm: Any, server: Address, provider: str) -> None:
    result = litellm.decisions(
        model=f"{provider}/default",
        input="I was charged twice!",
        questions=QUESTIONS,
        api_base=f"{server.url}/v1",
        api_key=server.api_key,
    )
    answers = [dict(answer) for answer in result.answers]
    assert [a["type"] for a in answers] == ["predicate", "choice", "score"]
    assert [a["name"] for a in answers] == ["refund", "team", "tone"]
    assert answers[1]["choice"] in ("billing", "shipping")


@pytest.mark.parametrize("provider", ["hosted_vllm", "openai"])
def test_system_ones_shape(litellm: Any, server: Address, provider: str) -> None:
    result = litellm.systemone(
        model=f"{provider}/default",
        state={"text": "I was charged twice!"},
        questions=SYSTEM_ONE,
        api_base=f"{server.url}/v1",
        api_key=server.api_key,
    )
    assert set(result.answers) == set(SYSTEM_ONE)


def test_errors_are_litellms_own(litellm: Any, server: Address) -> None:
    with pytest.raises(litellm.AuthenticationError):
        litellm.systemone(
            model="hosted_vllm/default",
            state="a",
            questions=SYSTEM_ONE,
            api_base=f"{server.url}/v1",
            api_key="wb_wrong",
        )
