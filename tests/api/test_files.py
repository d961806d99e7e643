import pytest

from tests.api.served import Api

CONTENT = b'{"custom_id":"1","state":"a"}\n'


def test_a_file_comes_back_byte_by_byte(api: Api) -> None:
    content = bytes(range(256)) * 12_345  # three chunks, the last one short
    file = api.upload(content)
    assert file["object"] == "file"
    assert file["bytes"] == len(content)
    assert (file["filename"], file["purpose"], file["status"]) == (
        "items.jsonl",
        "batch",
        "processed",
    )
    assert file["expires_at"] is None
    response = api.client.get(f"/v1/files/{file['id']}/content")
    assert response.content == content
    assert api.client.get(f"/v1/files/{file['id']}").json() == file


def test_a_file_may_expire(api: Api) -> None:
    fields = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    file = api.upload(CONTENT, **fields)
    assert file["expires_at"] == file["created_at"] + 3600


def test_files_are_listed_newest_first_page_by_page(api: Api) -> None:
    ids = [api.upload(CONTENT)["id"] for _ in range(3)][::-1]
    first = api.client.get("/v1/files", params={"limit": 2}).json()
    assert [f["id"] for f in first["data"]] == ids[:2]
    assert first["has_more"] is True
    rest = api.client.get("/v1/files", params={"after": first["last_id"]}).json()
    assert [f["id"] for f in rest["data"]] == ids[2:]


def test_a_deleted_file_is_gone_and_its_batch_stays(api: Api) -> None:
    batch = api.submit_file(CONTENT)
    path = f"/v1/files/{batch['input_file_id']}"
    assert api.client.delete(path).json()["deleted"] is True
    assert api.client.get(path).status_code == 404
    assert api.client.get(f"{path}/content").status_code == 404
    assert api.client.delete(path).status_code == 404
    assert api.batch(batch["id"])["input_file_id"] is None


BAD_FORMS = [
    ({"purpose": "fine-tune"}, "purpose"),
    ({}, "purpose"),
    ({"purpose": "batch", "color": "red"}, "color"),
    ({"purpose": "batch", "expires_after[seconds]": "10"}, "expires_after[seconds]"),
    ({"purpose": "batch", "expires_after[anchor]": "now"}, "expires_after[anchor]"),
]


@pytest.mark.parametrize(("fields", "param"), BAD_FORMS)
def test_a_bad_field_of_the_form_is_named(api: Api, fields: dict[str, str], param: str) -> None:
    response = api.client.post("/v1/files", files={"file": CONTENT}, data=fields)
    assert response.status_code == 422
    assert response.json()["error"]["param"] == param


def test_a_form_without_a_file_is_refused(api: Api) -> None:
    response = api.client.post("/v1/files", files={"other": CONTENT}, data={"purpose": "batch"})
    assert response.status_code == 422
    assert response.json()["error"]["param"] == "file"


def test_a_broken_form_is_a_400(api: Api) -> None:
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x"):
        response = api.client.post("/v1/files", content=b"no form", headers={"Content-Type": kind})
        assert response.status_code == 400


def test_something_else_than_a_form_is_a_415(api: Api) -> None:
    assert api.client.post("/v1/files", json={"purpose": "batch"}).status_code == 415
