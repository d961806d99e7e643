"""Truth, schedules and their runs: three tables that the old code does not know.

Before the new code: statements of the old code go on as they are.

Revision: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cron", sa.Text(), nullable=False),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("source", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("change", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("thresholds", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("next_due_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("paused_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(paused_at IS NULL AND deleted_at IS NULL) = (next_due_at IS NOT NULL)",
            name=op.f("ck_schedules_due"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_schedules_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
    )
    op.create_index(
        "ix_schedules_due",
        "schedules",
        ["next_due_at"],
        unique=False,
        postgresql_where=sa.text("next_due_at IS NOT NULL"),
    )
    op.create_index(
        op.f("ix_schedules_tenant_id_id"), "schedules", ["tenant_id", "id"], unique=False
    )
    op.create_table(
        "schedule_runs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("schedule_id", sa.Uuid(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("by_hand", sa.Boolean(), nullable=False),
        sa.Column("missed", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("source", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("change", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("thresholds", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=True),
        sa.Column("matched", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("purged", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("incomparable", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("verdict", sa.String(length=16), nullable=True),
        sa.Column("report", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("error", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.CheckConstraint(
            "(status = 'failed') = (error IS NOT NULL)", name=op.f("ck_schedule_runs_error")
        ),
        sa.CheckConstraint(
            "(status IN ('due', 'running')) = (finished_at IS NULL)",
            name=op.f("ck_schedule_runs_finished"),
        ),
        sa.CheckConstraint(
            "status <> 'due' OR batch_id IS NULL", name=op.f("ck_schedule_runs_batch")
        ),
        sa.CheckConstraint(
            "status IN ('due', 'running', 'compared', 'empty', 'failed')",
            name=op.f("ck_schedule_runs_status"),
        ),
        sa.CheckConstraint("verdict IN ('promote', 'hold')", name=op.f("ck_schedule_runs_verdict")),
        sa.CheckConstraint(
            "(verdict IS NULL) = (finished_at IS NULL)",
            name=op.f("ck_schedule_runs_verdict_when_finished"),
        ),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["batches.id"],
            name=op.f("fk_schedule_runs_batch_id"),
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["schedule_id"], ["schedules.id"], name=op.f("fk_schedule_runs_schedule_id")
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_schedule_runs_tenant_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedule_runs")),
        sa.UniqueConstraint("batch_id", name=op.f("uq_schedule_runs_batch_id")),
        sa.UniqueConstraint(
            "schedule_id", "due_at", name=op.f("uq_schedule_runs_schedule_id_due_at")
        ),
    )
    op.create_index(
        "ix_schedule_runs_open",
        "schedule_runs",
        ["status"],
        unique=False,
        postgresql_where=sa.text("finished_at IS NULL"),
    )
    op.create_index(
        op.f("ix_schedule_runs_schedule_id_id"),
        "schedule_runs",
        ["schedule_id", "id"],
        unique=False,
    )
    op.create_table(
        "truths",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("decision_id", sa.BigInteger(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("said_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["decision_id"],
            ["decisions.id"],
            name=op.f("fk_truths_decision_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_truths_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_truths")),
        sa.UniqueConstraint(
            "decision_id",
            "said_at",
            "source",
            "answer",
            name=op.f("uq_truths_decision_id_said_at_source_answer"),
        ),
    )


def downgrade() -> None:
    op.drop_table("truths")
    op.drop_index(op.f("ix_schedule_runs_schedule_id_id"), table_name="schedule_runs")
    op.drop_index(
        "ix_schedule_runs_open",
        table_name="schedule_runs",
        postgresql_where=sa.text("finished_at IS NULL"),
    )
    op.drop_table("schedule_runs")
    op.drop_index(op.f("ix_schedules_tenant_id_id"), table_name="schedules")
    op.drop_index(
        "ix_schedules_due",
        table_name="schedules",
        postgresql_where=sa.text("next_due_at IS NOT NULL"),
    )
    op.drop_table("schedules")
