"""Stored decisions, with everything that they were made with. Statements only."""

from typing import Any

from sqlalchemy import Select, select

from decisions.tables import batches, decisions, items, model_versions, question_sets, states


def decision(tenant_id: int, decision_id: int) -> Select[Any]:
    """One decision beside its item, its question set, its state and its model version."""
    return (
        select(
            decisions,
            items.c.custom_id,
            items.c.line,
            items.c.created_at.label("submitted_at"),
            batches.c.lane,
            question_sets.c.content.label("question_set"),
            states.c.content.label("state"),
            model_versions.c.model,
            model_versions.c.revision,
            model_versions.c.dtype,
            model_versions.c.kv_format,
            model_versions.c.attention,
            model_versions.c.engine_version,
            model_versions.c.device,
            model_versions.c.settings,
        )
        .join(items, items.c.id == decisions.c.item_id)
        .join(batches, batches.c.id == decisions.c.batch_id)
        .join(
            question_sets,
            (question_sets.c.tenant_id == decisions.c.tenant_id)
            & (question_sets.c.hash == decisions.c.question_set_hash),
        )
        .join(
            states,
            (states.c.tenant_id == decisions.c.tenant_id)
            & (states.c.hash == decisions.c.state_hash),
        )
        .join(model_versions, model_versions.c.id == decisions.c.model_version_id)
        .where(decisions.c.tenant_id == tenant_id, decisions.c.id == decision_id)
    )
