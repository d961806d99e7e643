"""The tables. CHECK constraints hold the state machines and the ranges, so that no code path can break them.

States and question sets are stored once per tenant and content hash. An item points at both; a
decision repeats the hashes, so that it still says what was asked after a state was purged.

Longer than other files on purpose: the whole schema is read in one place, from top to bottom.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Sequence,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSON, JSONB

from decisions.answers import Confidence
from decisions.types import (
    TERMINAL,
    BatchStatus,
    DeliveryStatus,
    ItemStatus,
    Lane,
    QuestionType,
    RunStatus,
    Verdict,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _one_of(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(repr(str(v)) for v in values)})"


def _time(name: str, *, nullable: bool = True, now: bool = False) -> Column[object]:
    default = text("now()") if now else None
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=default)


def _count(name: str, type_: type[Integer] = Integer) -> Column[int]:
    return Column(name, type_, nullable=False, server_default=text("0"))


def _tenant() -> Column[int]:
    return Column("tenant_id", Integer, ForeignKey("tenants.id"), nullable=False)


fence_seq = Sequence("fence_seq", metadata=metadata)

tenants = Table(
    "tenants",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("name", String(128), nullable=False, unique=True),
    _time("created_at", nullable=False, now=True),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    _tenant(),
    Column("name", String(128), nullable=False),
    #: The part that may be shown, to tell keys apart.
    Column("prefix", String(16), nullable=False),
    #: SHA-256 of the whole key; the key itself is not stored.
    Column("hash", LargeBinary, nullable=False, unique=True),
    _time("created_at", nullable=False, now=True),
    _time("last_used_at"),
    _time("revoked_at"),
    CheckConstraint("octet_length(hash) = 32", name="hash_is_sha256"),
)

files = Table(
    "files",
    metadata,
    Column("id", Uuid, primary_key=True),
    _tenant(),
    Column("filename", Text, nullable=False),
    Column("purpose", String(32), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", LargeBinary, nullable=False),
    _time("created_at", nullable=False, now=True),
    _time("expires_at"),
    CheckConstraint("bytes >= 0", name="bytes"),
    Index(None, "tenant_id", "id"),
)

file_chunks = Table(
    "file_chunks",
    metadata,
    Column("file_id", Uuid, ForeignKey("files.id", ondelete="CASCADE"), nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
    PrimaryKeyConstraint("file_id", "ordinal"),
)

states = Table(
    "states",
    metadata,
    _tenant(),
    Column("hash", LargeBinary, nullable=False),
    #: JSON as text, keys in the order they came. Null once purged.
    Column("content", Text),
    _time("created_at", nullable=False, now=True),
    _time("purged_at"),
    PrimaryKeyConstraint("tenant_id", "hash"),
    CheckConstraint("(content IS NULL) = (purged_at IS NOT NULL)", name="purged"),
)

question_sets = Table(
    "question_sets",
    metadata,
    _tenant(),
    Column("hash", LargeBinary, nullable=False),
    #: JSON, not JSONB: the order of options is the order of labels.
    Column("content", JSON, nullable=False),
    _time("created_at", nullable=False, now=True),
    PrimaryKeyConstraint("tenant_id", "hash"),
)

batches = Table(
    "batches",
    metadata,
    Column("id", Uuid, primary_key=True),
    _tenant(),
    Column("status", String(16), nullable=False),
    Column("lane", String(16), nullable=False),
    Column("endpoint", String(64), nullable=False),
    #: The model that was asked for; null takes what is served.
    Column("model", Text),
    Column("input_file_id", Uuid, ForeignKey("files.id", ondelete="SET NULL")),
    Column("completion_window", String(16), nullable=False),
    Column("metadata", JSONB),
    Column("webhook", JSONB),
    #: The first line errors, as OpenAI's `errors.data`.
    Column("errors", JSONB),
    _count("total"),
    *(_count(s) for s in ("done", "failed", "dead", "cancelled", "expired")),
    _count("input_tokens", BigInteger),
    _count("output_tokens", BigInteger),
    _time("created_at", nullable=False, now=True),
    _time("expires_at", nullable=False),
    *(_time(f"{s}_at") for s in ("cancelling", *TERMINAL)),
    CheckConstraint(_one_of("status", tuple(BatchStatus)), name="status"),
    CheckConstraint(_one_of("lane", tuple(Lane)), name="lane"),
    CheckConstraint(
        "least(done, failed, dead, cancelled, expired) >= 0"
        " AND done + failed + dead + cancelled + expired <= total",
        name="counts",
    ),
    CheckConstraint(
        # 0 until the ingest's transaction has counted its lines.
        f"total = 0 OR ({_one_of('status', TERMINAL)})"
        " = (done + failed + dead + cancelled + expired = total)",
        name="terminal_when_all_final",
    ),
    CheckConstraint(
        f"({_one_of('status', TERMINAL)})"
        " = (coalesce(completed_at, failed_at, expired_at, cancelled_at) IS NOT NULL)",
        name="terminal_time",
    ),
    Index(None, "tenant_id", "id"),
    Index(
        "ix_batches_open",
        "expires_at",
        postgresql_where=text(f"NOT ({_one_of('status', TERMINAL)})"),
    ),
)

items = Table(
    "items",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    _tenant(),
    Column("batch_id", Uuid, ForeignKey("batches.id", ondelete="CASCADE"), nullable=False),
    #: The line of the input file, or the position in `requests`; from 1.
    Column("line", Integer, nullable=False),
    #: Null only when the line had none that could be read.
    Column("custom_id", Text),
    Column("state_hash", LargeBinary),
    Column("question_set_hash", LargeBinary),
    Column("lane", String(16), nullable=False),
    #: The model that must read it; empty for whatever is served.
    Column("model", Text, nullable=False, server_default=text("''")),
    #: Within the lane; lower goes first.
    Column("priority", SmallInteger, nullable=False, server_default=text("0")),
    Column("status", String(16), nullable=False),
    Column("attempt", SmallInteger, nullable=False, server_default=text("0")),
    #: Of the newest claim.
    Column("fence", BigInteger),
    Column("lease_owner", Uuid),
    _time("lease_until"),
    #: Its worker died once while it held this item's group, so it is claimed alone from now on.
    Column("suspect", Boolean, nullable=False, server_default=text("false")),
    Column("error", JSONB),
    _time("created_at", nullable=False, now=True),
    _time("finished_at"),
    UniqueConstraint("batch_id", "line"),
    ForeignKeyConstraint(["tenant_id", "state_hash"], ["states.tenant_id", "states.hash"]),
    ForeignKeyConstraint(
        ["tenant_id", "question_set_hash"], ["question_sets.tenant_id", "question_sets.hash"]
    ),
    CheckConstraint(_one_of("status", tuple(ItemStatus)), name="status"),
    CheckConstraint(_one_of("lane", tuple(Lane)), name="lane"),
    CheckConstraint(
        "(status = 'leased') = (lease_until IS NOT NULL)"
        " AND (lease_until IS NULL) = (lease_owner IS NULL)",
        name="lease",
    ),
    CheckConstraint(
        "(status IN ('queued', 'leased')) = (finished_at IS NULL)", name="final_when_finished"
    ),
    CheckConstraint("(status IN ('failed', 'dead')) = (error IS NOT NULL)", name="error"),
    CheckConstraint(
        "status = 'failed' OR (custom_id IS NOT NULL AND state_hash IS NOT NULL"
        " AND question_set_hash IS NOT NULL)",
        name="readable",
    ),
    Index(
        "ix_items_queued",
        "lane",
        "model",
        "priority",
        "id",
        postgresql_where=text("status = 'queued' AND NOT suspect"),
    ),
    Index(
        "ix_items_queued_by_state",
        "lane",
        "model",
        "tenant_id",
        "state_hash",
        "priority",
        "id",
        postgresql_where=text("status = 'queued' AND NOT suspect"),
    ),
    Index(
        "ix_items_suspect",
        "lane",
        "model",
        "priority",
        "id",
        postgresql_where=text("status = 'queued' AND suspect"),
    ),
    Index("ix_items_leased", "lease_until", postgresql_where=text("status = 'leased'")),
    Index("ix_items_batch_queued", "batch_id", postgresql_where=text("status = 'queued'")),
)

model_versions = Table(
    "model_versions",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    #: SHA-256 of `settings`: everything that a read's bits may depend on.
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("model", Text, nullable=False),
    Column("revision", Text, nullable=False),
    Column("dtype", Text, nullable=False),
    Column("kv_format", Text, nullable=False),
    Column("attention", Text, nullable=False),
    Column("engine_version", Text, nullable=False),
    Column("device", Text, nullable=False),
    Column("settings", JSONB, nullable=False),
    _time("created_at", nullable=False, now=True),
)

workers = Table(
    "workers",
    metadata,
    #: New with every process start.
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False),
    Column("model_version_id", Integer, ForeignKey("model_versions.id"), nullable=False),
    Column("context_tokens", Integer, nullable=False),
    Column("lanes", ARRAY(String(16)), nullable=False),
    _time("started_at", nullable=False, now=True),
    _time("seen_at", nullable=False, now=True),
    _time("stopped_at"),
    *(
        _count(c, BigInteger)
        for c in (
            "claims",
            "items_done",
            "items_failed",
            "stale_results",
            "prefills",
            "prefilled_tokens",
            "cached_tokens",
            "reads",
            "suffix_tokens",
        )
    ),
    Column("busy_seconds", Double, nullable=False, server_default=text("0")),
    Column("engine_seconds", Double, nullable=False, server_default=text("0")),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    _tenant(),
    Column("batch_id", Uuid, nullable=False),
    Column("item_id", BigInteger, ForeignKey("items.id", ondelete="CASCADE"), nullable=False),
    Column("question_id", Text, nullable=False),
    Column("type", String(16), nullable=False),
    #: The option chosen, `yes` or `no`, or the likeliest level.
    Column("answer", Text, nullable=False),
    Column("answer_index", SmallInteger, nullable=False),
    #: P(yes), or the expected level.
    Column("value", Double),
    Column("probabilities", ARRAY(Double), nullable=False),
    Column("log_probs", ARRAY(Double), nullable=False),
    Column("label_ids", ARRAY(Integer), nullable=False),
    Column("label_mass", Double, nullable=False),
    Column("argmax_token", Integer, nullable=False),
    Column("argmax_is_label", Boolean, nullable=False),
    Column("margin", Double, nullable=False),
    Column("entropy", Double, nullable=False),
    Column("confidence", Double, nullable=False),
    Column("confidence_formula", String(16), nullable=False),
    Column("prompt_version", String(32), nullable=False),
    #: SHA-256 over the prompt's token ids, little-endian 32 bit each.
    Column("prompt_hash", LargeBinary, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("state_hash", LargeBinary, nullable=False),
    Column("question_set_hash", LargeBinary, nullable=False),
    Column("model_version_id", Integer, ForeignKey("model_versions.id"), nullable=False),
    Column("worker_id", Uuid, ForeignKey("workers.id"), nullable=False),
    Column("attempt", SmallInteger, nullable=False),
    Column("queue_seconds", Double, nullable=False),
    #: Of the whole forward pass that this read shared.
    Column("read_seconds", Double, nullable=False),
    #: Of the state: how many tokens this group's read had to compute, and how many were stored.
    Column("prefilled_tokens", Integer, nullable=False),
    Column("cached_tokens", Integer, nullable=False),
    Column("policy_version", Integer),
    Column("route", String(16)),
    _time("created_at", nullable=False, now=True),
    UniqueConstraint("item_id", "question_id"),
    CheckConstraint(_one_of("type", tuple(QuestionType)), name="type"),
    CheckConstraint(_one_of("confidence_formula", tuple(Confidence)), name="confidence_formula"),
    # NaN sorts above every number in Postgres, so these refuse it too.
    CheckConstraint("label_mass >= 0 AND label_mass <= 1", name="label_mass"),
    CheckConstraint("confidence >= 0 AND confidence <= 1", name="confidence"),
    CheckConstraint("margin >= 0 AND margin <= 1", name="margin"),
    CheckConstraint("0 <= ALL (probabilities) AND 1 >= ALL (probabilities)", name="probabilities"),
    CheckConstraint(
        "cardinality(probabilities) = cardinality(log_probs)"
        " AND cardinality(probabilities) = cardinality(label_ids)"
        " AND answer_index BETWEEN 0 AND cardinality(probabilities) - 1",
        name="lengths",
    ),
    Index(None, "tenant_id", "id"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    _tenant(),
    Column("key", String(255), nullable=False),
    #: SHA-256 of the request; another body under the same key is refused.
    Column("request_hash", LargeBinary, nullable=False),
    Column("batch_id", Uuid, ForeignKey("batches.id", ondelete="CASCADE"), nullable=False),
    _time("created_at", nullable=False, now=True),
    PrimaryKeyConstraint("tenant_id", "key"),
)

webhook_endpoints = Table(
    "webhook_endpoints",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    _tenant(),
    #: Of a batch that brought its own address; null for those that a tenant keeps.
    Column("batch_id", Uuid, ForeignKey("batches.id", ondelete="CASCADE"), unique=True),
    Column("url", Text, nullable=False),
    #: The types of events that it wants.
    Column("events", ARRAY(String(32)), nullable=False),
    #: Kept as it is, since a signature needs it.
    Column("secret", Text, nullable=False),
    #: The one before, which signs too until then.
    Column("previous_secret", Text),
    _time("previous_secret_until"),
    _time("created_at", nullable=False, now=True),
    #: Of the first failed attempt since the last good one.
    _time("failing_since"),
    _time("disabled_at"),
    Column("disabled_reason", String(16)),
    CheckConstraint("(disabled_at IS NULL) = (disabled_reason IS NULL)", name="disabled"),
    CheckConstraint(_one_of("disabled_reason", ("asked", "gone", "failing")), name="reason"),
    CheckConstraint(
        "(previous_secret IS NULL) = (previous_secret_until IS NULL)", name="previous_secret"
    ),
    Index(
        "ix_webhook_endpoints_tenant",
        "tenant_id",
        "id",
        postgresql_where=text("batch_id IS NULL"),
    ),
)

events = Table(
    "events",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    _tenant(),
    #: Null only for a test of an endpoint.
    Column("batch_id", Uuid, ForeignKey("batches.id", ondelete="CASCADE")),
    #: Of an event about one decision.
    Column("decision_id", BigInteger, ForeignKey("decisions.id", ondelete="CASCADE")),
    Column("type", String(32), nullable=False),
    #: What its writer adds to the payload's data.
    Column("data", JSONB),
    _time("created_at", nullable=False, now=True),
    #: When its deliveries were made; null while none of them are.
    _time("dispatched_at"),
    Index(
        "uq_events_batch",
        "batch_id",
        "type",
        unique=True,
        postgresql_where=text("decision_id IS NULL"),
    ),
    Index(
        "uq_events_decision",
        "decision_id",
        "type",
        unique=True,
        postgresql_where=text("decision_id IS NOT NULL"),
    ),
    Index(None, "batch_id"),
    Index("ix_events_new", "id", postgresql_where=text("dispatched_at IS NULL")),
)

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    _tenant(),
    Column("event_id", BigInteger, ForeignKey("events.id", ondelete="CASCADE"), nullable=False),
    Column(
        "endpoint_id",
        Integer,
        ForeignKey("webhook_endpoints.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("status", String(16), nullable=False),
    #: Attempts since it was made or sent again by hand.
    Column("tries", SmallInteger, nullable=False, server_default=text("0")),
    #: Of the next attempt, while it waits for one.
    _time("due_at"),
    #: Of the newest attempt.
    Column("fence", BigInteger),
    _time("lease_until"),
    _time("created_at", nullable=False, now=True),
    _time("finished_at"),
    UniqueConstraint("event_id", "endpoint_id"),
    CheckConstraint(_one_of("status", tuple(DeliveryStatus)), name="status"),
    CheckConstraint("(status = 'waiting') = (due_at IS NOT NULL)", name="due"),
    CheckConstraint("(status = 'sending') = (lease_until IS NOT NULL)", name="lease"),
    CheckConstraint(
        "(status IN ('delivered', 'failed')) = (finished_at IS NOT NULL)", name="finished"
    ),
    Index(None, "tenant_id", "id"),
    Index(None, "endpoint_id", "id"),
    Index(
        "ix_webhook_deliveries_waiting",
        "endpoint_id",
        "due_at",
        "id",
        postgresql_where=text("status = 'waiting'"),
    ),
    Index(
        "ix_webhook_deliveries_due",
        "due_at",
        postgresql_where=text("status = 'waiting'"),
    ),
    Index(
        "ix_webhook_deliveries_sending",
        "endpoint_id",
        "lease_until",
        postgresql_where=text("status = 'sending'"),
    ),
)

webhook_attempts = Table(
    "webhook_attempts",
    metadata,
    Column(
        "delivery_id",
        BigInteger,
        ForeignKey("webhook_deliveries.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("fence", BigInteger, nullable=False),
    _time("started_at", nullable=False, now=True),
    #: Null while it runs, and for ever when its sender died.
    _time("finished_at"),
    #: The answer's; null when there was none.
    Column("status_code", SmallInteger),
    Column("milliseconds", Integer),
    #: The beginning of the answer's body.
    Column("response_body", Text),
    #: Why there was no answer, or why it was none that counts.
    Column("error", Text),
    PrimaryKeyConstraint("delivery_id", "fence"),
)

steps = Table(
    "steps",
    metadata,
    #: Drawn under the lock of the batch, so in the order in which a batch's steps commit.
    Column("id", BigInteger, Identity(), primary_key=True),
    _tenant(),
    Column("batch_id", Uuid, ForeignKey("batches.id", ondelete="CASCADE"), nullable=False),
    #: The transaction that wrote it: whether a snapshot of another time has seen it.
    Column(
        "transaction",
        BigInteger,
        nullable=False,
        server_default=text("(pg_current_xact_id())::text::bigint"),
    ),
    #: The batch's, and its counts, after this step.
    Column("status", String(16), nullable=False),
    *(
        Column(name, Integer, nullable=False)
        for name in ("total", "done", "failed", "dead", "cancelled", "expired")
    ),
    #: The items that became done, failed or dead in it.
    Column("item_ids", ARRAY(BigInteger), nullable=False),
    _time("created_at", nullable=False, now=True),
    Index(None, "batch_id", "id"),
    Index(None, "tenant_id", "transaction"),
)

truths = Table(
    "truths",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    _tenant(),
    Column(
        "decision_id", BigInteger, ForeignKey("decisions.id", ondelete="CASCADE"), nullable=False
    ),
    #: The right answer, named as the decision's question names it.
    Column("answer", Text, nullable=False),
    #: Who says so: a person, a team, a system.
    Column("source", Text, nullable=False),
    #: When it was said. The newest is in force, and of equals the one that came last.
    _time("said_at", nullable=False),
    _time("created_at", nullable=False, now=True),
    # The same word said twice is once: a file may be sent again.
    UniqueConstraint("decision_id", "said_at", "source", "answer"),
)

schedules = Table(
    "schedules",
    metadata,
    Column("id", Uuid, primary_key=True),
    _tenant(),
    Column("name", Text, nullable=False),
    #: Five fields, and the IANA time zone that they are read in.
    Column("cron", Text, nullable=False),
    Column("timezone", Text, nullable=False),
    #: Which decisions, what is changed, and what is asked of the result: `decisions.schedules`.
    Column("source", JSONB, nullable=False),
    #: JSON, not JSONB: the order of options is the order of labels.
    Column("change", JSON, nullable=False),
    Column("thresholds", JSONB, nullable=False),
    #: Null while it is paused, and once it is deleted.
    _time("next_due_at"),
    _time("created_at", nullable=False, now=True),
    _time("paused_at"),
    #: Its runs stay, so that what they read is never taken for a source.
    _time("deleted_at"),
    CheckConstraint(
        "(paused_at IS NULL AND deleted_at IS NULL) = (next_due_at IS NOT NULL)", name="due"
    ),
    Index(None, "tenant_id", "id"),
    Index("ix_schedules_due", "next_due_at", postgresql_where=text("next_due_at IS NOT NULL")),
)

schedule_runs = Table(
    "schedule_runs",
    metadata,
    Column("id", Uuid, primary_key=True),
    _tenant(),
    Column("schedule_id", Uuid, ForeignKey("schedules.id"), nullable=False),
    _time("due_at", nullable=False),
    #: Asked for, not due.
    Column("by_hand", Boolean, nullable=False),
    #: Due times before this one that had no run, since nobody ran schedules then.
    _count("missed"),
    Column("status", String(16), nullable=False),
    #: As the schedule was when this run was due.
    Column("source", JSONB, nullable=False),
    Column("change", JSON, nullable=False),
    Column("thresholds", JSONB, nullable=False),
    Column("batch_id", Uuid, ForeignKey("batches.id", ondelete="SET NULL"), unique=True),
    #: Decisions that the source matches; of these, those whose state was purged.
    _count("matched"),
    _count("purged"),
    #: Chosen, but the changed question has another type.
    _count("incomparable"),
    _time("created_at", nullable=False, now=True),
    _time("started_at"),
    _time("finished_at"),
    Column("verdict", String(16)),
    Column("report", JSONB),
    #: Code and message, of a run that failed.
    Column("error", JSONB),
    UniqueConstraint("schedule_id", "due_at"),
    CheckConstraint(_one_of("status", tuple(RunStatus)), name="status"),
    CheckConstraint(_one_of("verdict", tuple(Verdict)), name="verdict"),
    CheckConstraint("(status IN ('due', 'running')) = (finished_at IS NULL)", name="finished"),
    CheckConstraint("(verdict IS NULL) = (finished_at IS NULL)", name="verdict_when_finished"),
    CheckConstraint("(status = 'failed') = (error IS NOT NULL)", name="error"),
    CheckConstraint("status <> 'due' OR batch_id IS NULL", name="batch"),
    Index(None, "schedule_id", "id"),
    Index("ix_schedule_runs_open", "status", postgresql_where=text("finished_at IS NULL")),
)
