"""Forms in which a state's keys and values are stored, behind one interface.

    keys or values of one layer [kv_heads, tokens, dim]
        -> a codec -> parts with the tokens in dimension 1, which pages hold
                    + fixed tensors of the whole state, kept beside

A format is a codec for keys and one for values. The state is prefilled in the model's dtype, then packed;
its suffixes always attend to the unpacked form. Knows no store and no model.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from engine.pages import PAGE_TOKENS, pages_of
from kernels.formats import (
    PagedRows,
    decode_e4m3,
    decode_int8,
    decode_nvfp4,
    encode_e4m3,
    encode_int8,
    encode_nvfp4,
)

#: The first tokens of a state draw most attention; nvfp4 keeps their keys and values as they are.
SINK_TOKENS = 4

Parts = tuple[Tensor, ...]


class Codec(Protocol):
    """One way to store rows [heads, tokens, dim]."""

    #: How many of the parts are paged; the rest belong to the whole state.
    paged: int
    #: What the kernels call the form of the paged parts.
    kernel: str

    def encode(self, rows: Tensor) -> Parts:
        """A copy of the rows in stored form."""

    def decode(self, parts: Parts, dtype: torch.dtype) -> Tensor:
        """The rows as they are attended to."""


class Native:
    """As the model made them: nothing is lost."""

    paged, kernel = 1, "bf16"

    def encode(self, rows: Tensor) -> Parts:
        return (rows.clone(memory_format=torch.contiguous_format),)

    def decode(self, parts: Parts, dtype: torch.dtype) -> Tensor:
        return parts[0]


class BFloat16:
    """Rounded to bfloat16: the same as native in a bfloat16 model."""

    paged, kernel = 1, "bf16"

    def encode(self, rows: Tensor) -> Parts:
        return (rows.bfloat16().clone(memory_format=torch.contiguous_format),)

    def decode(self, parts: Parts, dtype: torch.dtype) -> Tensor:
        return parts[0].to(dtype)


class Int8:
    """8 bits per value and a scale per token and head."""

    paged, kernel = 2, "int8"

    def encode(self, rows: Tensor) -> Parts:
        return encode_int8(rows)

    def decode(self, parts: Parts, dtype: torch.dtype) -> Tensor:
        codes, scale = parts
        return decode_int8(codes, scale, dtype)


class E4M3:
    """8-bit floats and a scale per token and head."""

    paged, kernel = 2, "e4m3"

    def encode(self, rows: Tensor) -> Parts:
        return encode_e4m3(rows)

    def decode(self, parts: Parts, dtype: torch.dtype) -> Tensor:
        codes, scale = parts
        return decode_e4m3(codes, scale, dtype)


class NVFP4:
    """4 bits per value, a scale per 16 and one per head."""

    paged, kernel = 2, "nvfp4"

    def encode(self, rows: Tensor) -> Parts:
        return encode_nvfp4(rows)

    def decode(self, parts: Parts, dtype: torch.dtype) -> Tensor:
        codes, scales, head_scale = parts
        return decode_nvfp4(codes, scales, head_scale, dtype)


class WithSinks:
    """Another codec, but for the first tokens, which are kept as they are."""

    def __init__(self, inner: Codec) -> None:
        self._inner = inner
        self.paged, self.kernel = inner.paged, inner.kernel

    def encode(self, rows: Tensor) -> Parts:
        return (*self._inner.encode(rows), rows[:, :SINK_TOKENS].clone())

    def decode(self, parts: Parts, dtype: torch.dtype) -> Tensor:
        rows = self._inner.decode(parts[:-1], dtype)
        rows[:, : parts[-1].shape[1]] = parts[-1]
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class KVFormat:
    """One way to store a state."""

    #: The name that decisions record.
    name: str
    #: Stores keys.
    keys: Codec
    #: Stores values.
    values: Codec

    def pack(self, keys: Tensor, values: Tensor) -> "LooseLayer":
        """A copy of one layer's keys and values in stored form."""
        return LooseLayer(self, self.keys.encode(keys), self.values.encode(values))


class PackedLayer(Protocol):
    """One layer of one state in its stored form. Never changes."""

    @property
    def tokens(self) -> int:
        """How many tokens it keeps: the last ones of the state."""

    def unpack(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Keys and values as suffixes attend to them. Callers never write to them."""

    def rows(self) -> "LayerRows":
        """Keys and values in stored form, for kernels that unpack as they read."""


class LayerRows(NamedTuple):
    """One layer as kernels read it."""

    #: Keys in pages.
    keys: PagedRows
    #: Values in pages.
    values: PagedRows
    #: Which pages, int32, in order of their tokens.
    pages: Tensor
    #: The first tokens' keys and values in full, which the pages' form replaces nowhere else.
    sinks: tuple[Tensor, Tensor] | None


def layer_rows(
    kv_format: KVFormat, paged: Parts, fixed: tuple[Parts, Parts], pages: Tensor
) -> LayerRows:
    """From the paged parts in pages, keys first, and the fixed ones of keys and of values."""
    keys, values = kv_format.keys, kv_format.values
    sinks = (fixed[0][-1], fixed[1][-1]) if isinstance(keys, WithSinks) else None
    return LayerRows(
        keys=_side(keys, paged[: keys.paged], fixed[0]),
        values=_side(values, paged[keys.paged :], fixed[1]),
        pages=pages,
        sinks=sinks,
    )


def _side(codec: Codec, paged: Parts, fixed: Parts) -> PagedRows:
    scales = paged[1] if codec.paged == 2 else None
    head_scale = fixed[0] if codec.kernel == "nvfp4" else None
    return PagedRows(codec.kernel, paged[0], scales, head_scale)


class LooseLayer:
    """A packed layer in tensors of its own."""

    __slots__ = ("keys", "kv_format", "values")

    def __init__(self, kv_format: KVFormat, keys: Parts, values: Parts) -> None:
        self.kv_format, self.keys, self.values = kv_format, keys, values

    @property
    def tokens(self) -> int:
        return self.keys[0].shape[1]

    @property
    def paged(self) -> Parts:
        """The parts that pages can hold."""
        return (
            *self.keys[: self.kv_format.keys.paged],
            *self.values[: self.kv_format.values.paged],
        )

    def unpack(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        keys = self.kv_format.keys.decode(self.keys, dtype)
        return keys, self.kv_format.values.decode(self.values, dtype)

    def rows(self) -> LayerRows:
        count = pages_of(self.tokens)
        paged = tuple(_in_pages(part, count) for part in self.paged)
        fixed = (
            self.keys[self.kv_format.keys.paged :],
            self.values[self.kv_format.values.paged :],
        )
        pages = torch.arange(count, dtype=torch.int32, device=self.keys[0].device)
        return layer_rows(self.kv_format, paged, fixed, pages)


def _in_pages(part: Tensor, count: int) -> Tensor:
    """[heads, tokens, ..] -> [heads, count, PAGE_TOKENS, ..]."""
    pages = part.new_zeros((part.shape[0], count * PAGE_TOKENS, part.shape[2]))
    pages[:, : part.shape[1]] = part
    return pages.view(part.shape[0], count, PAGE_TOKENS, part.shape[2])


#: Every format by name.
FORMATS = {
    name: KVFormat(name=name, keys=keys, values=values)
    for name, keys, values in (
        ("native", Native(), Native()),
        ("bf16", BFloat16(), BFloat16()),
        ("int8", Int8(), Int8()),
        ("fp8_e4m3", E4M3(), E4M3()),
        ("k8v4", Int8(), NVFP4()),
        ("nvfp4", WithSinks(NVFP4()), WithSinks(NVFP4())),
    )
}
