"""A run's decisions beside those that they repeat. Statements only.

They work on three temporary tables of the transaction: `pairs`, a decision before and after with the truth
in force; `options`, the names behind the positions of probabilities; `measures`, every number whose
distribution is compared, in long form.
"""

from uuid import UUID

from sqlalchemy import TextClause, text

from decisions.drift import DECILES
from decisions.ids import DECISION
from decisions.truth import IN_FORCE

# A lettered yes/no is called true or false.
_NAMED = (
    "CASE WHEN {type} = 'noul' AND {answer} = 'true' THEN 'yes'"
    " WHEN {type} = 'noul' AND {answer} = 'false' THEN 'no' ELSE {answer} END"
)

# `b` is the decision before and `a` the one after, of the item `i` that carries the id of `b`.
_PAIRS = f"""
  FROM items i
  JOIN decisions a ON a.item_id = i.id
  JOIN decisions b ON b.tenant_id = i.tenant_id AND b.question_id = a.question_id
    AND b.id = CAST(substr(i.custom_id, {len(DECISION) + 1}) AS bigint)
  CROSS JOIN LATERAL (SELECT
    {_NAMED.format(type="b.type", answer="b.answer")} AS before,
    {_NAMED.format(type="a.type", answer="a.answer")} AS after,
    {_NAMED.format(type="b.type", answer=IN_FORCE.format(decision="b.id"))} AS truth) AS named
  WHERE i.batch_id = :batch_id
"""


def prepare(batch_id: UUID) -> tuple[TextClause, ...]:
    """Make and fill the three tables."""
    return (
        text(
            """
            CREATE TEMP TABLE pairs (question_id text, type text, before text, after text, truth text,
              before_set bytea, after_set bytea, before_p float8[], after_p float8[],
              before_mass float8, after_mass float8, before_confidence float8,
              after_confidence float8, before_value float8, after_value float8,
              before_version integer, after_version integer) ON COMMIT DROP;
            CREATE TEMP TABLE options (set_hash bytea, question_id text, n integer, name text)
              ON COMMIT DROP;
            CREATE TEMP TABLE measures (question_id text, kind text, option text, late boolean,
              value float8) ON COMMIT DROP;
            """
        ),
        text(
            f"""
            INSERT INTO pairs SELECT b.question_id, b.type, named.before, named.after, named.truth,
              b.question_set_hash, a.question_set_hash, b.probabilities, a.probabilities,
              b.label_mass, a.label_mass, b.confidence, a.confidence, b.value, a.value,
              b.model_version_id, a.model_version_id {_PAIRS}
            """
        ).bindparams(batch_id=batch_id),
        text(
            f"""
            INSERT INTO options
            SELECT sets.hash, q->>'id', o.n,
              {_NAMED.format(type="(q->>'type')", answer="(o.pair->>0)")}
            FROM (SELECT before_set AS hash FROM pairs UNION SELECT after_set FROM pairs) sets
            JOIN question_sets s ON s.hash = sets.hash
              AND s.tenant_id = (SELECT tenant_id FROM batches WHERE id = :batch_id)
            CROSS JOIN LATERAL json_array_elements(s.content->'questions') AS q
            CROSS JOIN LATERAL json_array_elements(q->'options') WITH ORDINALITY AS o(pair, n)
            """
        ).bindparams(batch_id=batch_id),
        text(
            """
            INSERT INTO measures
            SELECT p.question_id, m.kind, '', m.late, m.value FROM pairs p CROSS JOIN LATERAL (VALUES
              ('label_mass', false, p.before_mass), ('label_mass', true, p.after_mass),
              ('confidence', false, p.before_confidence), ('confidence', true, p.after_confidence),
              ('level', false, p.before_value), ('level', true, p.after_value)
            ) AS m(kind, late, value) WHERE m.kind <> 'level' OR p.type = 'score'
            UNION ALL
            SELECT p.question_id, 'probability', o.name, m.late, x.value
            FROM pairs p
            CROSS JOIN LATERAL (VALUES (false, p.before_set, p.before_p),
              (true, p.after_set, p.after_p)) AS m(late, set_hash, p)
            CROSS JOIN LATERAL unnest(m.p) WITH ORDINALITY AS x(value, n)
            JOIN options o ON o.set_hash = m.set_hash AND o.question_id = p.question_id
              AND o.n = x.n
            """
        ),
    )


def changes() -> TextClause:
    """Per question: how often this answer became that one; equal ones are among them."""
    return text(
        """
        SELECT question_id, min(type) AS type, before, after, count(*) AS count
        FROM pairs GROUP BY question_id, before, after
        ORDER BY question_id, count(*) DESC, before, after
        """
    )


def truths() -> TextClause:
    """Per question that has any: decisions with truth, and which of their answers agree with it."""
    return text(
        """
        SELECT question_id, count(*) AS count,
          count(*) FILTER (WHERE before = truth) AS right_before,
          count(*) FILTER (WHERE after = truth) AS right_after,
          count(*) FILTER (WHERE before <> truth AND after = truth) AS fixed,
          count(*) FILTER (WHERE before = truth AND after <> truth) AS broken
        FROM pairs WHERE truth IS NOT NULL GROUP BY question_id
        """
    )


def distributions() -> TextClause:
    """Per question, kind and option: means, edges, and counts per bin before and after.

    A bin's lower edge is in it. The first has none, so there is one bin more than there are edges.
    """
    return text(
        """
        WITH spread AS (
          SELECT question_id, kind, option,
            avg(value) FILTER (WHERE NOT late) AS mean_before,
            avg(value) FILTER (WHERE late) AS mean_after,
            (SELECT array_agg(DISTINCT edge ORDER BY edge) FROM unnest(
              percentile_disc(CAST(:deciles AS float8[])) WITHIN GROUP (ORDER BY value)
                FILTER (WHERE NOT late)) AS edge) AS edges
          FROM measures GROUP BY question_id, kind, option
        ), counted AS (
          SELECT question_id, kind, option, late, width_bucket(value, edges) AS bin, count(*) AS n
          FROM measures JOIN spread USING (question_id, kind, option)
          WHERE edges IS NOT NULL GROUP BY 1, 2, 3, 4, 5
        )
        SELECT s.*,
          (SELECT json_object_agg(bin, n) FROM counted c WHERE NOT late
            AND (c.question_id, c.kind, c.option) = (s.question_id, s.kind, s.option)) AS before,
          (SELECT json_object_agg(bin, n) FROM counted c WHERE late
            AND (c.question_id, c.kind, c.option) = (s.question_id, s.kind, s.option)) AS after
        FROM spread s
        ORDER BY question_id,
          array_position(ARRAY['label_mass', 'confidence', 'level', 'probability'], kind), option
        """
    ).bindparams(deciles=list(DECILES))


def versions() -> TextClause:
    """What read the decisions, before and after, most decisions first."""
    return text(
        """
        SELECT v.late, m.model, m.revision, m.kv_format, m.dtype, m.device, count(*) AS decisions
        FROM pairs p
        CROSS JOIN LATERAL (VALUES (false, before_version), (true, after_version)) AS v(late, id)
        JOIN model_versions m ON m.id = v.id
        GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY count(*) DESC, m.model, m.revision
        """
    )


def unanswered(batch_id: UUID) -> TextClause:
    """Items without an answer: by their fate, and by the code of their error when they have one."""
    return text(
        """
        SELECT coalesce(error->>'code', status) AS why, count(*) AS count FROM items
        WHERE batch_id = :batch_id AND status <> 'done' GROUP BY 1 ORDER BY 2 DESC, 1
        """
    ).bindparams(batch_id=batch_id)


def flips(batch_id: UUID, after_line: int, limit: int, question_id: str | None) -> TextClause:
    """Pairs whose answers differ, in the order of the run's items, from `after_line` on."""
    return text(
        f"""
        SELECT i.line, b.question_id, named.truth, s.custom_id, s.batch_id AS source_batch,
          b.id AS before_id, named.before, b.probabilities[b.answer_index + 1] AS before_probability,
          b.label_mass AS before_mass, b.confidence AS before_confidence,
          a.id AS after_id, named.after, a.probabilities[a.answer_index + 1] AS after_probability,
          a.label_mass AS after_mass, a.confidence AS after_confidence
        {_PAIRS.replace("WHERE", "JOIN items s ON s.id = b.item_id WHERE")}
          AND i.line > :after_line AND named.before <> named.after
          AND (CAST(:question_id AS text) IS NULL OR b.question_id = :question_id)
        ORDER BY i.line LIMIT :limit
        """
    ).bindparams(batch_id=batch_id, after_line=after_line, limit=limit, question_id=question_id)
