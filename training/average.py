"""A running average of parameters: steps with few reads are noisy, their mean is not.

average = keep * average + (1 - keep) * parameter, with keep growing from 0 over the first steps
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


class Average:
    """Owns one copy of each parameter; `applied` lends it to them."""

    def __init__(self, parameters: Sequence[Tensor], keep: float) -> None:
        self.parameters, self.keep, self.steps = parameters, keep, 0
        self.values = [p.detach().clone() for p in parameters]

    @torch.no_grad()
    def update(self) -> None:
        self.steps += 1
        new = max(1 - self.keep, 1 / (self.steps + 1))
        for value, parameter in zip(self.values, self.parameters, strict=True):
            value.lerp_(parameter, new)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The parameters hold the average inside the block."""
        own = [p.detach().clone() for p in self.parameters]
        self._set(self.values)
        try:
            yield
        finally:
            self._set(own)

    @torch.no_grad()
    def _set(self, values: Sequence[Tensor]) -> None:
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value)
