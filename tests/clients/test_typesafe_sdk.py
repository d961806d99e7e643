"""The typesafe-sdk package: questions, models, errors, and its bodies in zstd."""

from collections.abc import Iterator

import pytest
import typesafe_sdk
from typesafe_sdk import Choice, Noul, RetryPolicy, Score, TypeSafeClient

from cli.client import Address

TICKET = {"subject": "Refund", "text": "You charged me twice, and I want it back today!"}
QUESTIONS: dict[str, typesafe_sdk.Question] = {
    "refund": Noul(instructions="Is the customer asking for money back?"),
    "team": Choice(
        instructions={"ask": "Which team?"}, criteria={"billing": ["money", "cards"], "other": None}
    ),
    "tone": Score(criteria=["calm", "annoyed", "furious"]),
}


@pytest.fixture
def client(server: Address) -> Iterator[TypeSafeClient]:
    client = TypeSafeClient(
        api_key=server.api_key, base_url=server.url, compression="zstd", timeout=60
    )
    with client:
        yield client


def test_all_types_of_questions_are_answered(client: TypeSafeClient) -> None:
    result = client.system_one(TICKET, QUESTIONS)
    assert result.model.startswith("SmolLM2")
    assert 0 < result.nouls["refund"].noul < 1
    assert set(result.choices["team"].probabilities) == {"billing", "other"}
    assert result.scores["tone"].legend == {0: "calm", 1: "annoyed", 2: "furious"}
    assert (result.usage.output_tokens, bool(result.usage.input_tokens)) == (3, True)


def test_long_bodies_arrive_in_zstd(client: TypeSafeClient) -> None:
    """From a kilobyte on the SDK compresses, and does not fall back when that is refused."""
    result = client.system_one("I want my money back. " * 100, QUESTIONS)
    sent = result.raw_http_response.request.headers
    assert sent["content-encoding"] == "zstd"
    assert set(result.answers) == set(QUESTIONS)


def test_the_request_id_is_readable(client: TypeSafeClient) -> None:
    assert client.system_one(TICKET, QUESTIONS).request_id.startswith("decision-")


def test_models_are_listed(client: TypeSafeClient) -> None:
    names = [model.name for model in client.models.list().models]
    assert "jev-latest" in names


def test_errors_are_the_sdks_own_classes_with_our_words(
    client: TypeSafeClient, server: Address
) -> None:
    with pytest.raises(typesafe_sdk.TypeSafeBadRequestError, match="at most 255 options"):
        client.system_one("a", {"q": Choice(criteria={str(i): None for i in range(256)})})
    with pytest.raises(typesafe_sdk.TypeSafeNotFoundError, match="does not exist"):
        client.system_one("a", QUESTIONS, model="gpt-99")
    with (
        TypeSafeClient(api_key="wb_wrong", base_url=server.url) as stranger,
        pytest.raises(
            typesafe_sdk.TypeSafeAuthenticationError, match="unknown or has been revoked"
        ),
    ):
        stranger.system_one("a", QUESTIONS)


def test_a_body_of_another_shape_is_an_error_and_not_tried_again(client: TypeSafeClient) -> None:
    with pytest.raises(typesafe_sdk.TypeSafeBadRequestError, match="joint"):
        client.system_one(
            "a", QUESTIONS, extra_body={"joint": "yes"}, retry=RetryPolicy(max_retries=0)
        )
