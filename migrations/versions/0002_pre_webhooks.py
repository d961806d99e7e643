"""Webhooks: endpoints, deliveries and their attempts; events about decisions, and which were handed out.

Before the new code: statements of the old code go on as they are. Events of batches that ended before
this migration are handed out by it too, since their webhooks were accepted and never called.

Revision: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "webhook_endpoints",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=True),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", postgresql.ARRAY(sa.String(length=32)), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("previous_secret", sa.Text(), nullable=True),
        sa.Column("previous_secret_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("failing_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("disabled_reason", sa.String(length=16), nullable=True),
        sa.CheckConstraint(
            "disabled_reason IN ('asked', 'gone', 'failing')",
            name=op.f("ck_webhook_endpoints_reason"),
        ),
        sa.CheckConstraint(
            "(disabled_at IS NULL) = (disabled_reason IS NULL)",
            name=op.f("ck_webhook_endpoints_disabled"),
        ),
        sa.CheckConstraint(
            "(previous_secret IS NULL) = (previous_secret_until IS NULL)",
            name=op.f("ck_webhook_endpoints_previous_secret"),
        ),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["batches.id"],
            name=op.f("fk_webhook_endpoints_batch_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_webhook_endpoints_tenant_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_endpoints")),
        sa.UniqueConstraint("batch_id", name=op.f("uq_webhook_endpoints_batch_id")),
    )
    op.create_index(
        "ix_webhook_endpoints_tenant",
        "webhook_endpoints",
        ["tenant_id", "id"],
        unique=False,
        postgresql_where=sa.text("batch_id IS NULL"),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("endpoint_id", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("tries", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fence", sa.BigInteger(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(status = 'sending') = (lease_until IS NOT NULL)",
            name=op.f("ck_webhook_deliveries_lease"),
        ),
        sa.CheckConstraint(
            "(status = 'waiting') = (due_at IS NOT NULL)", name=op.f("ck_webhook_deliveries_due")
        ),
        sa.CheckConstraint(
            "(status IN ('delivered', 'failed')) = (finished_at IS NOT NULL)",
            name=op.f("ck_webhook_deliveries_finished"),
        ),
        sa.CheckConstraint(
            "status IN ('waiting', 'sending', 'delivered', 'failed')",
            name=op.f("ck_webhook_deliveries_status"),
        ),
        sa.ForeignKeyConstraint(
            ["endpoint_id"],
            ["webhook_endpoints.id"],
            name=op.f("fk_webhook_deliveries_endpoint_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["event_id"],
            ["events.id"],
            name=op.f("fk_webhook_deliveries_event_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_webhook_deliveries_tenant_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
        sa.UniqueConstraint(
            "event_id", "endpoint_id", name=op.f("uq_webhook_deliveries_event_id_endpoint_id")
        ),
    )
    op.create_index(
        "ix_webhook_deliveries_due",
        "webhook_deliveries",
        ["due_at"],
        unique=False,
        postgresql_where=sa.text("status = 'waiting'"),
    )
    op.create_index(
        op.f("ix_webhook_deliveries_endpoint_id_id"),
        "webhook_deliveries",
        ["endpoint_id", "id"],
        unique=False,
    )
    op.create_index(
        "ix_webhook_deliveries_sending",
        "webhook_deliveries",
        ["endpoint_id", "lease_until"],
        unique=False,
        postgresql_where=sa.text("status = 'sending'"),
    )
    op.create_index(
        op.f("ix_webhook_deliveries_tenant_id_id"),
        "webhook_deliveries",
        ["tenant_id", "id"],
        unique=False,
    )
    op.create_index(
        "ix_webhook_deliveries_waiting",
        "webhook_deliveries",
        ["endpoint_id", "due_at", "id"],
        unique=False,
        postgresql_where=sa.text("status = 'waiting'"),
    )
    op.create_table(
        "webhook_attempts",
        sa.Column("delivery_id", sa.BigInteger(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("status_code", sa.SmallInteger(), nullable=True),
        sa.Column("milliseconds", sa.Integer(), nullable=True),
        sa.Column("response_body", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["delivery_id"],
            ["webhook_deliveries.id"],
            name=op.f("fk_webhook_attempts_delivery_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("delivery_id", "fence", name=op.f("pk_webhook_attempts")),
    )
    op.add_column("events", sa.Column("decision_id", sa.BigInteger(), nullable=True))
    op.add_column(
        "events", sa.Column("data", postgresql.JSONB(astext_type=sa.Text()), nullable=True)
    )
    op.add_column("events", sa.Column("dispatched_at", sa.DateTime(timezone=True), nullable=True))
    op.alter_column("events", "batch_id", existing_type=sa.UUID(), nullable=True)
    op.drop_constraint(op.f("uq_events_batch_id_type"), "events", type_="unique")
    op.create_index(op.f("ix_events_batch_id"), "events", ["batch_id"], unique=False)
    op.create_index(
        "ix_events_new",
        "events",
        ["id"],
        unique=False,
        postgresql_where=sa.text("dispatched_at IS NULL"),
    )
    op.create_index(
        "uq_events_batch",
        "events",
        ["batch_id", "type"],
        unique=True,
        postgresql_where=sa.text("decision_id IS NULL"),
    )
    op.create_index(
        "uq_events_decision",
        "events",
        ["decision_id", "type"],
        unique=True,
        postgresql_where=sa.text("decision_id IS NOT NULL"),
    )
    op.create_foreign_key(
        op.f("fk_events_decision_id"),
        "events",
        "decisions",
        ["decision_id"],
        ["id"],
        ondelete="CASCADE",
    )


def downgrade() -> None:
    # What the old schema cannot hold goes first.
    op.execute("DELETE FROM events WHERE decision_id IS NOT NULL OR batch_id IS NULL")
    op.drop_constraint(op.f("fk_events_decision_id"), "events", type_="foreignkey")
    op.drop_index(
        "uq_events_decision",
        table_name="events",
        postgresql_where=sa.text("decision_id IS NOT NULL"),
    )
    op.drop_index(
        "uq_events_batch", table_name="events", postgresql_where=sa.text("decision_id IS NULL")
    )
    op.drop_index(
        "ix_events_new", table_name="events", postgresql_where=sa.text("dispatched_at IS NULL")
    )
    op.drop_index(op.f("ix_events_batch_id"), table_name="events")
    op.create_unique_constraint(
        op.f("uq_events_batch_id_type"),
        "events",
        ["batch_id", "type"],
        postgresql_nulls_not_distinct=False,
    )
    op.alter_column("events", "batch_id", existing_type=sa.UUID(), nullable=False)
    op.drop_column("events", "dispatched_at")
    op.drop_column("events", "data")
    op.drop_column("events", "decision_id")
    op.drop_table("webhook_attempts")
    op.drop_index(
        "ix_webhook_deliveries_waiting",
        table_name="webhook_deliveries",
        postgresql_where=sa.text("status = 'waiting'"),
    )
    op.drop_index(op.f("ix_webhook_deliveries_tenant_id_id"), table_name="webhook_deliveries")
    op.drop_index(
        "ix_webhook_deliveries_sending",
        table_name="webhook_deliveries",
        postgresql_where=sa.text("status = 'sending'"),
    )
    op.drop_index(op.f("ix_webhook_deliveries_endpoint_id_id"), table_name="webhook_deliveries")
    op.drop_index(
        "ix_webhook_deliveries_due",
        table_name="webhook_deliveries",
        postgresql_where=sa.text("status = 'waiting'"),
    )
    op.drop_table("webhook_deliveries")
    op.drop_index(
        "ix_webhook_endpoints_tenant",
        table_name="webhook_endpoints",
        postgresql_where=sa.text("batch_id IS NULL"),
    )
    op.drop_table("webhook_endpoints")
