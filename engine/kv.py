"""Forms in which a state's keys and values are stored, behind one interface.

Tensors of one layer: keys and values are [kv_heads, tokens, head_dim]. Knows no store and no model.
"""

from typing import Protocol

from torch import Tensor


class PackedLayer(Protocol):
    """One layer of one state in its stored form. Never changes."""

    @property
    def nbytes(self) -> int:
        """Bytes that it keeps alive."""

    def unpack(self) -> tuple[Tensor, Tensor]:
        """Keys and values in the model's dtype, as suffixes attend to them. Callers never write."""


class KVFormat(Protocol):
    """One way to store."""

    @property
    def name(self) -> str:
        """The name that decisions record."""

    def pack(self, keys: Tensor, values: Tensor) -> PackedLayer:
        """Store a copy of keys and values."""


class NativeLayer:
    """Keys and values as the model made them."""

    __slots__ = ("keys", "values")

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    def unpack(self) -> tuple[Tensor, Tensor]:
        return self.keys, self.values


class Native:
    """Stores in the model's dtype: nothing is lost."""

    name = "native"

    def pack(self, keys: Tensor, values: Tensor) -> NativeLayer:
        return NativeLayer(keys.clone(), values.clone())


def kv_format(name: str) -> KVFormat:
    """The format called `name`. Raises KeyError for an unknown one."""
    return {"native": Native()}[name]
