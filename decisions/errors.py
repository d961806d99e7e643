"""What can be wrong with a request, as exceptions whose docstring is the default message."""

from collections.abc import Iterable


class DecisionError(Exception):
    """The request cannot be served."""

    def __init__(self, message: str | None = None, *, param: str | None = None) -> None:
        super().__init__(message or self.__doc__)
        #: The field at fault, as a path; None when no single field is.
        self.param = param

    @property
    def message(self) -> str:
        return str(self)


class InvalidQuestion(DecisionError):
    """A question is not well formed."""


class InvalidItem(DecisionError):
    """An item is not well formed."""

    def __init__(self, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message, param=param)
        #: Stable, for programs.
        self.code = code


class UnknownModel(InvalidItem):
    """No worker serves the model that was asked for."""

    def __init__(self, model: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known))
        super().__init__(
            "model_not_found",
            f"The model `{model}` does not exist. Valid aliases: {names}.",
            param="model",
        )


class InvalidBatch(DecisionError):
    """A batch is not well formed."""


class InvalidWebhook(DecisionError):
    """A webhook is not well formed."""


class InvalidSchedule(DecisionError):
    """A schedule is not well formed."""


class InvalidTruth(DecisionError):
    """A truth is not well formed."""


class NotFound(DecisionError):
    """There is no such thing, or it belongs to another tenant."""


class IdempotencyConflict(DecisionError):
    """This Idempotency-Key was used before with another body."""


class NonFiniteScores(DecisionError):
    """The model returned scores that are not finite, so there is no answer."""
