"""Steps: which items of a batch became final together, and its counts then. What event streams read.

Before the new code: statements of the old code go on as they are, their batches just have no steps.

Revision: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "steps",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column(
            "transaction",
            sa.BigInteger(),
            server_default=sa.text("(pg_current_xact_id())::text::bigint"),
            nullable=False,
        ),
        sa.Column("status", sa.String(length=16), nullable=False),
        *(
            sa.Column(name, sa.Integer(), nullable=False)
            for name in ("total", "done", "failed", "dead", "cancelled", "expired")
        ),
        sa.Column("item_ids", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["batches.id"], name=op.f("fk_steps_batch_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_steps_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_steps")),
    )
    op.create_index(op.f("ix_steps_batch_id_id"), "steps", ["batch_id", "id"])
    op.create_index(op.f("ix_steps_tenant_id_transaction"), "steps", ["tenant_id", "transaction"])


def downgrade() -> None:
    op.drop_table("steps")
