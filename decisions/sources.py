"""The decisions that a run reads again, and the items that it makes of them. Statements only.

They work on two temporary tables of the transaction: `chosen`, the decisions, and `asked`, what each
(question set, question) of them becomes.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import TextClause, text

from decisions.ids import DECISION
from decisions.schedules import Range, Sample, Source
from decisions.types import Lane


def prepare() -> TextClause:
    return text(
        """
        CREATE TEMP TABLE chosen (id bigint PRIMARY KEY, state_hash bytea, question_set_hash bytea,
          question_id text, purged boolean) ON COMMIT DROP;
        CREATE TEMP TABLE asked (question_set_hash bytea, question_id text, becomes bytea,
          PRIMARY KEY (question_set_hash, question_id)) ON COMMIT DROP;
        """
    )


def choose(tenant: int, source: Source, since: datetime | None, until: datetime) -> TextClause:
    """Fill `chosen` with all that matches."""
    conditions = {
        "d.created_at >= :since": since,
        "d.question_id = ANY(:questions)": source.questions and list(source.questions),
        "m.model = :model": source.model,
        "d.route = :route": source.route,
        **_between("label_mass", source.label_mass),
        **_between("confidence", source.confidence),
    }
    asked = {condition: value for condition, value in conditions.items() if value is not None}
    values = {_parameter(condition): value for condition, value in asked.items()}
    return text(
        f"""
        INSERT INTO chosen
        SELECT d.id, d.state_hash, d.question_set_hash, d.question_id, s.content IS NULL
        FROM decisions d
        JOIN states s ON s.tenant_id = d.tenant_id AND s.hash = d.state_hash
        JOIN model_versions m ON m.id = d.model_version_id
        WHERE d.tenant_id = :tenant AND d.created_at < :until
          AND NOT EXISTS (SELECT FROM schedule_runs r WHERE r.batch_id = d.batch_id)
          {"".join(f" AND {condition}" for condition in asked)}
        """
    ).bindparams(tenant=tenant, until=until, **values)


def _between(column: str, range_: Range | None) -> dict[str, float | None]:
    return {
        f"d.{column} >= :{column}_min": None if range_ is None else range_.min,
        f"d.{column} <= :{column}_max": None if range_ is None else range_.max,
    }


def _parameter(condition: str) -> str:
    return condition.partition(":")[2].rstrip(")")


def count_matches() -> TextClause:
    return text("SELECT count(*) AS matched, count(*) FILTER (WHERE purged) AS purged FROM chosen")


def narrow(sample: Sample | None) -> TextClause:
    """Leave what can be read, and no more of it than the sample takes."""
    if sample is None:
        return text("DELETE FROM chosen WHERE purged")
    return text(
        """
        DELETE FROM chosen WHERE id NOT IN (
          SELECT id FROM chosen WHERE NOT purged
          ORDER BY md5(:seed || ':' || id), id LIMIT :size)
        """
    ).bindparams(seed=str(sample.seed), size=sample.size)


def distinct_questions() -> TextClause:
    return text("SELECT DISTINCT question_set_hash, question_id FROM chosen ORDER BY 1, 2")


def ask(becomes: Sequence[tuple[bytes, str, bytes]]) -> TextClause:
    """Add to `asked`: question set, question, and the set that it becomes."""
    sets, questions, new = zip(*becomes, strict=True) if becomes else ((), (), ())
    return text(
        """
        INSERT INTO asked SELECT * FROM unnest(
          CAST(:sets AS bytea[]), CAST(:questions AS text[]), CAST(:new AS bytea[]))
        """
    ).bindparams(sets=list(sets), questions=list(questions), new=list(new))


def count_asked() -> TextClause:
    return text("SELECT count(*) FROM chosen JOIN asked USING (question_set_hash, question_id)")


def count_unasked() -> TextClause:
    return text(
        """
        SELECT count(*) FROM chosen LEFT JOIN asked USING (question_set_hash, question_id)
        WHERE becomes IS NULL
        """
    )


def make_items(tenant: int, batch_id: UUID) -> TextClause:
    """An item for each chosen decision whose question is asked; states go by their hash alone."""
    return text(
        """
        INSERT INTO items (tenant_id, batch_id, line, custom_id, state_hash, question_set_hash,
          lane, model, priority, status)
        SELECT :tenant, :batch_id, row_number() OVER (ORDER BY c.id), :prefix || c.id,
          c.state_hash, a.becomes, :lane,
          (SELECT coalesce(model, '') FROM batches WHERE id = :batch_id), 0, 'queued'
        FROM chosen c JOIN asked a USING (question_set_hash, question_id)
        """
    ).bindparams(tenant=tenant, batch_id=batch_id, prefix=DECISION, lane=str(Lane.NIGHTLY))


def readers(within_seconds: float = 30) -> TextClause:
    """What the live workers of the nightly lane read with."""
    return text(
        """
        SELECT DISTINCT m.model, m.kv_format
        FROM workers w JOIN model_versions m ON m.id = w.model_version_id
        WHERE w.stopped_at IS NULL AND :lane = ANY(w.lanes)
          AND w.seen_at > now() - make_interval(secs => :within)
        """
    ).bindparams(lane=str(Lane.NIGHTLY), within=within_seconds)
