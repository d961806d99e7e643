"""The first schema.

Revision: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(sa.schema.CreateSequence(sa.Sequence("fence_seq")))
    op.create_table(
        "model_versions",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.Column("kv_format", sa.Text(), nullable=False),
        sa.Column("attention", sa.Text(), nullable=False),
        sa.Column("engine_version", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("settings", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_versions")),
        sa.UniqueConstraint("hash", name=op.f("uq_model_versions_hash")),
    )
    op.create_table(
        "tenants",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenants")),
        sa.UniqueConstraint("name", name=op.f("uq_tenants_name")),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("octet_length(hash) = 32", name=op.f("ck_api_keys_hash_is_sha256")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_api_keys_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("hash", name=op.f("uq_api_keys_hash")),
    )
    op.create_table(
        "files",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("purpose", sa.String(length=32), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("bytes >= 0", name=op.f("ck_files_bytes")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_files_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_files")),
    )
    op.create_index(op.f("ix_files_tenant_id_id"), "files", ["tenant_id", "id"], unique=False)
    op.create_table(
        "question_sets",
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("content", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_question_sets_tenant_id")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "hash", name=op.f("pk_question_sets")),
    )
    op.create_table(
        "states",
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("content", sa.Text(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("purged_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(content IS NULL) = (purged_at IS NOT NULL)", name=op.f("ck_states_purged")
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_states_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "hash", name=op.f("pk_states")),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("model_version_id", sa.Integer(), nullable=False),
        sa.Column("context_tokens", sa.Integer(), nullable=False),
        sa.Column("lanes", postgresql.ARRAY(sa.String(length=16)), nullable=False),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("stopped_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("claims", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("items_done", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("items_failed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("stale_results", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("prefills", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("prefilled_tokens", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("reads", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("suffix_tokens", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("busy_seconds", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("engine_seconds", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_version_id"], ["model_versions.id"], name=op.f("fk_workers_model_version_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
    op.create_table(
        "batches",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("lane", sa.String(length=16), nullable=False),
        sa.Column("endpoint", sa.String(length=64), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("input_file_id", sa.Uuid(), nullable=True),
        sa.Column("completion_window", sa.String(length=16), nullable=False),
        sa.Column("metadata", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("webhook", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("errors", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("total", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("done", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("failed", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("dead", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("cancelled", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("expired", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("cancelling_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("failed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("expired_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancelled_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(status IN ('completed', 'failed', 'expired', 'cancelled')) = (coalesce(completed_at, failed_at, expired_at, cancelled_at) IS NOT NULL)",
            name=op.f("ck_batches_terminal_time"),
        ),
        sa.CheckConstraint(
            "lane IN ('interactive', 'bulk', 'nightly')", name=op.f("ck_batches_lane")
        ),
        sa.CheckConstraint(
            "status IN ('in_progress', 'cancelling', 'completed', 'failed', 'expired', 'cancelled')",
            name=op.f("ck_batches_status"),
        ),
        sa.CheckConstraint(
            "total = 0 OR (status IN ('completed', 'failed', 'expired', 'cancelled')) = (done + failed + dead + cancelled + expired = total)",
            name=op.f("ck_batches_terminal_when_all_final"),
        ),
        sa.CheckConstraint(
            "least(done, failed, dead, cancelled, expired) >= 0 AND done + failed + dead + cancelled + expired <= total",
            name=op.f("ck_batches_counts"),
        ),
        sa.ForeignKeyConstraint(
            ["input_file_id"],
            ["files.id"],
            name=op.f("fk_batches_input_file_id"),
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_batches_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batches")),
    )
    op.create_index(
        "ix_batches_open",
        "batches",
        ["expires_at"],
        unique=False,
        postgresql_where=sa.text("NOT (status IN ('completed', 'failed', 'expired', 'cancelled'))"),
    )
    op.create_index(op.f("ix_batches_tenant_id_id"), "batches", ["tenant_id", "id"], unique=False)
    op.create_table(
        "file_chunks",
        sa.Column("file_id", sa.Uuid(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["file_id"], ["files.id"], name=op.f("fk_file_chunks_file_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("file_id", "ordinal", name=op.f("pk_file_chunks")),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["batches.id"], name=op.f("fk_events_batch_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_events_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sa.UniqueConstraint("batch_id", "type", name=op.f("uq_events_batch_id_type")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("request_hash", sa.LargeBinary(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["batches.id"],
            name=op.f("fk_idempotency_keys_batch_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_idempotency_keys_tenant_id")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_table(
        "items",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("custom_id", sa.Text(), nullable=True),
        sa.Column("state_hash", sa.LargeBinary(), nullable=True),
        sa.Column("question_set_hash", sa.LargeBinary(), nullable=True),
        sa.Column("lane", sa.String(length=16), nullable=False),
        sa.Column("model", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("priority", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=True),
        sa.Column("lease_owner", sa.Uuid(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("suspect", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("error", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(status = 'leased') = (lease_until IS NOT NULL) AND (lease_until IS NULL) = (lease_owner IS NULL)",
            name=op.f("ck_items_lease"),
        ),
        sa.CheckConstraint(
            "(status IN ('failed', 'dead')) = (error IS NOT NULL)", name=op.f("ck_items_error")
        ),
        sa.CheckConstraint(
            "(status IN ('queued', 'leased')) = (finished_at IS NULL)",
            name=op.f("ck_items_final_when_finished"),
        ),
        sa.CheckConstraint(
            "lane IN ('interactive', 'bulk', 'nightly')", name=op.f("ck_items_lane")
        ),
        sa.CheckConstraint(
            "status = 'failed' OR (custom_id IS NOT NULL AND state_hash IS NOT NULL AND question_set_hash IS NOT NULL)",
            name=op.f("ck_items_readable"),
        ),
        sa.CheckConstraint(
            "status IN ('queued', 'leased', 'done', 'failed', 'dead', 'cancelled', 'expired')",
            name=op.f("ck_items_status"),
        ),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["batches.id"], name=op.f("fk_items_batch_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "question_set_hash"],
            ["question_sets.tenant_id", "question_sets.hash"],
            name=op.f("fk_items_tenant_id_question_set_hash"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "state_hash"],
            ["states.tenant_id", "states.hash"],
            name=op.f("fk_items_tenant_id_state_hash"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_items_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_items")),
        sa.UniqueConstraint("batch_id", "line", name=op.f("uq_items_batch_id_line")),
    )
    op.create_index(
        "ix_items_batch_queued",
        "items",
        ["batch_id"],
        unique=False,
        postgresql_where=sa.text("status = 'queued'"),
    )
    op.create_index(
        "ix_items_leased",
        "items",
        ["lease_until"],
        unique=False,
        postgresql_where=sa.text("status = 'leased'"),
    )
    op.create_index(
        "ix_items_queued",
        "items",
        ["lane", "model", "priority", "id"],
        unique=False,
        postgresql_where=sa.text("status = 'queued' AND NOT suspect"),
    )
    op.create_index(
        "ix_items_queued_by_state",
        "items",
        ["lane", "model", "tenant_id", "state_hash", "priority", "id"],
        unique=False,
        postgresql_where=sa.text("status = 'queued' AND NOT suspect"),
    )
    op.create_index(
        "ix_items_suspect",
        "items",
        ["lane", "model", "priority", "id"],
        unique=False,
        postgresql_where=sa.text("status = 'queued' AND suspect"),
    )
    op.create_table(
        "decisions",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("item_id", sa.BigInteger(), nullable=False),
        sa.Column("question_id", sa.Text(), nullable=False),
        sa.Column("type", sa.String(length=16), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("answer_index", sa.SmallInteger(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("probabilities", postgresql.ARRAY(sa.Double()), nullable=False),
        sa.Column("log_probs", postgresql.ARRAY(sa.Double()), nullable=False),
        sa.Column("label_ids", postgresql.ARRAY(sa.Integer()), nullable=False),
        sa.Column("label_mass", sa.Double(), nullable=False),
        sa.Column("argmax_token", sa.Integer(), nullable=False),
        sa.Column("argmax_is_label", sa.Boolean(), nullable=False),
        sa.Column("margin", sa.Double(), nullable=False),
        sa.Column("entropy", sa.Double(), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("confidence_formula", sa.String(length=16), nullable=False),
        sa.Column("prompt_version", sa.String(length=32), nullable=False),
        sa.Column("prompt_hash", sa.LargeBinary(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("state_hash", sa.LargeBinary(), nullable=False),
        sa.Column("question_set_hash", sa.LargeBinary(), nullable=False),
        sa.Column("model_version_id", sa.Integer(), nullable=False),
        sa.Column("worker_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.SmallInteger(), nullable=False),
        sa.Column("queue_seconds", sa.Double(), nullable=False),
        sa.Column("read_seconds", sa.Double(), nullable=False),
        sa.Column("prefilled_tokens", sa.Integer(), nullable=False),
        sa.Column("cached_tokens", sa.Integer(), nullable=False),
        sa.Column("policy_version", sa.Integer(), nullable=True),
        sa.Column("route", sa.String(length=16), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "confidence_formula IN ('label_mass', 'peak', 'entropy')",
            name=op.f("ck_decisions_confidence_formula"),
        ),
        sa.CheckConstraint("type IN ('choice', 'noul', 'score')", name=op.f("ck_decisions_type")),
        sa.CheckConstraint(
            "0 <= ALL (probabilities) AND 1 >= ALL (probabilities)",
            name=op.f("ck_decisions_probabilities"),
        ),
        sa.CheckConstraint(
            "cardinality(probabilities) = cardinality(log_probs) AND cardinality(probabilities) = cardinality(label_ids) AND answer_index BETWEEN 0 AND cardinality(probabilities) - 1",
            name=op.f("ck_decisions_lengths"),
        ),
        sa.CheckConstraint(
            "confidence >= 0 AND confidence <= 1", name=op.f("ck_decisions_confidence")
        ),
        sa.CheckConstraint(
            "label_mass >= 0 AND label_mass <= 1", name=op.f("ck_decisions_label_mass")
        ),
        sa.CheckConstraint("margin >= 0 AND margin <= 1", name=op.f("ck_decisions_margin")),
        sa.ForeignKeyConstraint(
            ["item_id"], ["items.id"], name=op.f("fk_decisions_item_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["model_version_id"], ["model_versions.id"], name=op.f("fk_decisions_model_version_id")
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_decisions_tenant_id")),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"], name=op.f("fk_decisions_worker_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
        sa.UniqueConstraint(
            "item_id", "question_id", name=op.f("uq_decisions_item_id_question_id")
        ),
    )
    op.create_index(
        op.f("ix_decisions_tenant_id_id"), "decisions", ["tenant_id", "id"], unique=False
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_decisions_tenant_id_id"), table_name="decisions")
    op.drop_table("decisions")
    op.drop_index(
        "ix_items_suspect",
        table_name="items",
        postgresql_where=sa.text("status = 'queued' AND suspect"),
    )
    op.drop_index(
        "ix_items_queued_by_state",
        table_name="items",
        postgresql_where=sa.text("status = 'queued' AND NOT suspect"),
    )
    op.drop_index(
        "ix_items_queued",
        table_name="items",
        postgresql_where=sa.text("status = 'queued' AND NOT suspect"),
    )
    op.drop_index(
        "ix_items_leased", table_name="items", postgresql_where=sa.text("status = 'leased'")
    )
    op.drop_index(
        "ix_items_batch_queued", table_name="items", postgresql_where=sa.text("status = 'queued'")
    )
    op.drop_table("items")
    op.drop_table("idempotency_keys")
    op.drop_table("events")
    op.drop_table("file_chunks")
    op.drop_index(op.f("ix_batches_tenant_id_id"), table_name="batches")
    op.drop_index(
        "ix_batches_open",
        table_name="batches",
        postgresql_where=sa.text("NOT (status IN ('completed', 'failed', 'expired', 'cancelled'))"),
    )
    op.drop_table("batches")
    op.drop_table("workers")
    op.drop_table("states")
    op.drop_table("question_sets")
    op.drop_index(op.f("ix_files_tenant_id_id"), table_name="files")
    op.drop_table("files")
    op.drop_table("api_keys")
    op.drop_table("tenants")
    op.drop_table("model_versions")
    op.execute(sa.schema.DropSequence(sa.Sequence("fence_seq")))
