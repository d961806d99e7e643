"""Names of a batch's output and error files: files that are made of the stored decisions when they are read."""

from uuid import UUID

from decisions.ids import FILE, public

OUTPUT = "-output"
ERRORS = "-errors"


def output_name(batch_id: UUID) -> str:
    return public(FILE, batch_id) + OUTPUT


def error_name(batch_id: UUID) -> str:
    return public(FILE, batch_id) + ERRORS
