"""Request bodies, read by hand: never before the caller is known, never beyond a limit, strictly.

FastAPI would read a body before it asks who calls, and its JSON lets NaN and lone surrogates through.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from fastapi import Request
from fastapi.datastructures import FormData
from pydantic import BaseModel, ValidationError
from starlette.formparsers import MultiPartException, MultiPartParser

from api.encodings import decompressed
from api.errors import BodyTooLarge, InvalidRequest, MalformedBody, UnsupportedMediaType, WrongField
from decisions.errors import InvalidItem
from decisions.strict_json import decode
from decisions.types import Json

Model = TypeVar("Model", bound=BaseModel)

#: Of a form: what is not the file is short.
MAX_FORM_FIELDS = 8
MAX_FIELD_BYTES = 4096


async def read_json(request: Request, max_bytes: int) -> Json:
    """Raises MalformedBody, BodyTooLarge or UnsupportedMediaType."""
    media_type = request.headers.get("content-type", "application/json").partition(";")[0]
    if not media_type.strip().lower().endswith("json"):
        raise UnsupportedMediaType("send application/json", param="Content-Type")
    raw = b"".join([chunk async for chunk in limited(request, max_bytes)])
    raw = decompressed(raw, request.headers.get("content-encoding", ""), max_bytes)
    try:
        return decode(raw)
    except InvalidItem as wrong:
        raise MalformedBody(wrong.message) from None


def validated(model: type[Model], body: Json) -> Model:
    """Raises InvalidRequest, which names every wrong field."""
    try:
        return model.model_validate(body)
    except ValidationError as wrong:
        raise InvalidRequest.of(WrongField.of(e, e["loc"]) for e in wrong.errors()) from None


@asynccontextmanager
async def read_form(request: Request, max_bytes: int) -> AsyncIterator[FormData]:
    """A form whose file is spooled to disk for as long as the context lasts."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise UnsupportedMediaType("send multipart/form-data", param="Content-Type")
    parser = MultiPartParser(
        request.headers,
        limited(request, max_bytes),
        max_files=1,
        max_fields=MAX_FORM_FIELDS,
        max_part_size=MAX_FIELD_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException as e:
        raise MalformedBody(f"not a valid form: {e.message}") from None
    try:
        yield form
    finally:
        await form.close()


async def limited(request: Request, max_bytes: int) -> AsyncGenerator[bytes, None]:
    """The body's chunks; raises BodyTooLarge as soon as there are more bytes, or are said to be."""
    too_large = BodyTooLarge(f"the body is larger than {max_bytes} bytes")
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > max_bytes:
        raise too_large
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise too_large
        yield chunk
