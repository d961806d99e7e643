"""The route of Prometheus metrics. What concerns the queue is asked of Postgres at each scrape.

So the numbers are the same whichever process is asked, and survive every restart.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from api.resources import ResourcesDep
from decisions import batches, fleet, queue, webhook_log
from decisions.database import async_transaction

router = APIRouter(tags=["health"])

_COUNTERS: Mapping[str, str] = {
    "claims": "Claims by workers",
    "items_done": "Items whose every question was answered",
    "items_failed": "Items that a worker could not answer",
    "stale_results": "Items that were read in vain, because their lease had ended",
    "prefills": "States that were prefilled",
    "prefilled_tokens": "Tokens of states that were computed",
    "cached_tokens": "Tokens of states that were taken from the prefix store",
    "reads": "Questions that were read",
    "suffix_tokens": "Tokens of questions that were computed",
    "busy_seconds": "Time that workers spent on claims, in seconds",
    "engine_seconds": "Time that engines spent on reads, in seconds",
}


@router.get("/metrics", response_class=Response)
async def metrics(resources: ResourcesDep) -> Response:
    """In Prometheus' text format."""
    async with async_transaction(resources.database) as connection:
        depth = (await connection.execute(queue.depth())).all()
        statuses = (await connection.execute(batches.statuses())).all()
        workers = (await connection.execute(fleet.live())).all()
        totals = (await connection.execute(fleet.totals())).one()
        backlog = (await connection.execute(webhook_log.backlog())).one()
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    found = [*_queue(depth), _batches(statuses), _workers(workers), *_totals(totals)]
    registry.register(_Scrape([*found, *_webhooks(backlog)]))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


class _Scrape(Collector):
    """Metrics that are known already."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _queue(depth: Sequence[Any]) -> Iterable[Metric]:
    items = GaugeMetricFamily(
        "weighbridge_queue_items", "Items that are not final", labels=("lane", "status")
    )
    oldest = GaugeMetricFamily(
        "weighbridge_queue_oldest_seconds", "Age of the oldest of them", labels=("lane", "status")
    )
    for row in depth:
        items.add_metric((row.lane, row.status), row.items)
        oldest.add_metric((row.lane, row.status), row.oldest_seconds)
    return items, oldest


def _batches(statuses: Sequence[Any]) -> Metric:
    family = GaugeMetricFamily("weighbridge_batches", "Batches", labels=("status",))
    for row in statuses:
        family.add_metric((row.status,), row.batches)
    return family


def _workers(workers: Sequence[Any]) -> Metric:
    family = GaugeMetricFamily(
        "weighbridge_worker_up", "Workers seen lately", labels=("worker", "model", "device")
    )
    for row in workers:
        family.add_metric((row.name, row.model, row.device), 1)
    return family


def _webhooks(backlog: Any) -> Iterable[Metric]:
    yield GaugeMetricFamily(
        "weighbridge_webhooks_due", "Deliveries due or on their way", value=backlog.deliveries
    )
    yield GaugeMetricFamily(
        "weighbridge_webhooks_late_seconds",
        "How late the oldest of them is",
        value=backlog.late_seconds,
    )


def _totals(totals: Any) -> Iterable[Metric]:
    for name, help_ in _COUNTERS.items():
        yield CounterMetricFamily(f"weighbridge_{name}", help_, value=float(getattr(totals, name)))
