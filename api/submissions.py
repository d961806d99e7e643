"""Items into the store, from a route: in a thread, a few at a time, and then the bell."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from anyio import to_thread

from api.admission import admit
from api.resources import Resources
from decisions.bodies import BodyParser, openai_body, system_one_body
from decisions.items import NewItem
from decisions.submit import Submitted, submit
from decisions.types import Json, Lane, Submission

PARSERS: Mapping[str, Callable[..., BodyParser]] = {
    "/v1/systemone": system_one_body,
    "/v1/decisions": openai_body,
}


async def body_parser(
    resources: Resources, endpoint: str, shared: Mapping[str, Json] | None = None
) -> BodyParser:
    """What reads the bodies of an endpoint under this server's rules."""
    names = await resources.served.names()
    return PARSERS[endpoint](shared or {}, resources.settings.rules, names)


async def admitted(resources: Resources, submission: Submission) -> Submission:
    """With the model that has to read it. Raises QueueFull."""
    await admit(resources, submission.tenant_id)
    return replace(submission, reader=resources.served.reader(submission.model))


async def submit_items(
    resources: Resources, submission: Submission, items: Iterable[NewItem]
) -> Submitted:
    submission = await admitted(resources, submission)
    urgent = submission.lane is Lane.INTERACTIVE
    limiter = resources.urgent_limit if urgent else resources.submission_limit
    submitted = await to_thread.run_sync(
        submit, resources.submissions, submission, items, limiter=limiter
    )
    resources.bell.ring(submission.lane)
    return submitted
