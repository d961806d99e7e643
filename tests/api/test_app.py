"""What concerns every route: problems, the OpenAPI document, cross-origin calls."""

from typing import Any

import httpx2
import jsonschema
import pytest
from sqlalchemy import Engine

from api.settings import Settings
from tests.api.served import Api, served


@pytest.mark.parametrize(
    "path",
    [
        "/v1/batches/batch_" + "0" * 32,
        "/v1/batches/batch_x/results",
        "/v1/batches/other",
        "/v1/files/file-" + "0" * 32,
        "/v1/decisions/dec_1",
        "/v1/decisions/dec_9999999999999999999999",
        "/v1/decisions/dec_\u0661",
        "/v1/nothing",
    ],
)
def test_what_is_not_there_is_a_404_that_both_kinds_of_clients_read(api: Api, path: str) -> None:
    response = api.client.get(path)
    problem = response.json()
    assert response.status_code == problem["status"] == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["type"] == "urn:weighbridge:problem:not_found"
    assert problem["title"] == "Not Found"
    assert problem["error"] == {
        "message": problem["detail"],
        "type": "not_found_error",
        "param": None,
        "code": "not_found",
    }


def test_a_wrong_method_says_which_are_right(api: Api) -> None:
    response = api.client.put("/v1/batches")
    assert response.status_code == 405
    assert response.headers["allow"]
    assert response.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize("limit", ["0", "101", "x", "-1"])
def test_a_wrong_parameter_is_named(api: Api, limit: str) -> None:
    problem = api.client.get("/v1/batches", params={"limit": limit}).json()
    assert problem["status"] == 422
    assert problem["error"]["param"] == "limit"
    assert [e["param"] for e in problem["errors"]] == ["limit"]


def test_an_unexpected_error_shows_nothing_of_itself(
    settings: Settings, empty_database_url: str
) -> None:
    """A database without tables is one: no code of ours expects it."""
    with served(settings.model_copy(update={"database_url": empty_database_url})) as url:
        response = httpx2.get(f"{url}/v1/batches", headers={"Authorization": "Bearer wb_x"})
    assert response.status_code == 500
    assert response.json()["error"]["type"] == "server_error"
    assert "api_keys" not in response.text


def test_the_examples_of_the_document_work_when_pasted(api: Api) -> None:
    document = openapi(api)
    for example in document["components"]["schemas"]["NewBatch"]["examples"]:
        response = api.client.post("/v1/batches", json=example)
        assert response.status_code == 202
        assert response.json()["counts"]["failed"] == 0


def test_the_document_has_all_that_it_points_at(api: Api) -> None:
    document = openapi(api)
    jsonschema.Draft202012Validator.check_schema({"$defs": document["components"]["schemas"]})
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]


def test_every_route_under_v1_documents_its_problems_and_its_key(api: Api) -> None:
    document = openapi(api)
    for path, operations in document["paths"].items():
        for operation in operations.values() if path.startswith("/v1/") else ():
            assert {"401", "404", "422", "503"} <= operation["responses"].keys()
            assert operation["security"]
            assert operation["tags"]


def openapi(api: Api) -> dict[str, Any]:
    document: dict[str, Any] = httpx2.get(f"{api.url}/openapi.json").json()
    return document


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [r for child in node.values() for r in references(child)]
    return [r for child in node for r in references(child)] if isinstance(node, list) else []


ORIGIN = {"Origin": "https://console.example", "Access-Control-Request-Method": "POST"}


def test_pages_of_other_origins_may_not_call(api: Api) -> None:
    preflight = httpx2.options(f"{api.url}/v1/batches", headers=ORIGIN)
    assert "access-control-allow-origin" not in preflight.headers


def test_pages_of_the_configured_origins_may_call(settings: Settings, database: Engine) -> None:
    opened = settings.model_copy(update={"cors_origins": (ORIGIN["Origin"],)})
    with served(opened) as url:
        preflight = httpx2.options(f"{url}/v1/batches", headers=ORIGIN)
        foreign = httpx2.options(
            f"{url}/v1/batches", headers=ORIGIN | {"Origin": "https://evil.example"}
        )
    assert preflight.headers["access-control-allow-origin"] == ORIGIN["Origin"]
    assert "access-control-allow-origin" not in foreign.headers


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://a/b")
    monkeypatch.setenv("REDIS_URL", "redis://a/0")
    monkeypatch.setenv("WEIGHBRIDGE_AUTH", "off")
    monkeypatch.setenv("WEIGHBRIDGE_CORS_ORIGINS", '["https://a.example"]')
    settings = Settings()
    assert settings.database_url == "postgresql://a/b"
    assert settings.auth == "off"
    assert settings.cors_origins == ("https://a.example",)
