"""Attention over a packed pass: each row attends to its own state, then to its own span.

    rows of a pass:   |-- span 0 --|----- span 1 -----|- span 2 -|      packed, never padded
    keys of a row:    stored state of its span (all, or the window)  +  its span up to itself

Registered with transformers as `weighbridge`; the pass reaches it as a keyword of forward, and a backend
does the arithmetic. Here a state's layers are kept as they go by.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from engine.errors import UnsupportedModel
from engine.kv import KVFormat, PackedLayer
from engine.prefixes import StoredPrefix

ATTENTION = "weighbridge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Neighbouring rows of a pass that belong to one sequence."""

    #: First row.
    start: int
    #: One past the last row.
    stop: int
    #: The state that they follow, None when they are a state themselves.
    past: StoredPrefix | None

    @property
    def offset(self) -> int:
        """Position of the first row in its sequence."""
        return self.past.end if self.past else 0


class LayerCall(NamedTuple):
    """One layer's attention of one pass."""

    #: Index of the layer.
    layer: int
    #: [heads, rows, dim].
    query: Tensor
    #: [kv_heads, rows, dim].
    keys: Tensor
    #: The same.
    values: Tensor
    #: Multiplies the scores.
    scaling: float
    #: Keys that a row sees, itself included; None for all.
    window: int | None
    #: Scores are capped by cap * tanh(score / cap); None for not.
    softcap: float | None


class Backend(Protocol):
    """Who does the arithmetic."""

    @property
    def name(self) -> str:
        """The name that decisions record."""

    def attend(self, call: LayerCall, spans: Sequence[Span]) -> Tensor:
        """[rows, heads, dim]; rows that no span has are padding and may be anything finite."""


class AllKept(Exception):
    """The last layer's keys and values are kept: nothing after them is needed of a state."""


class PackedPass:
    """What one forward pass attends to; collects the layers of states when `keep` is given.

    A pass that keeps ends in AllKept as soon as its last layer is kept.
    """

    def __init__(
        self, spans: Sequence[Span], backend: Backend, layers: int, keep: KVFormat | None
    ) -> None:
        self.spans = spans
        self.backend = backend
        self._layers, self._keep = layers, keep
        #: Per span, its layers in stored form.
        self.kept: list[list[PackedLayer]] = [[] for _ in spans]
        #: Layers seen.
        self.calls = 0

    def store(self, keys: Tensor, values: Tensor, window: int | None) -> None:
        """Keep what later rows can see of each span: all of it, or the window's reach."""
        if self._keep is None:
            return
        for span, layers in zip(self.spans, self.kept, strict=True):
            first = span.start if window is None else max(span.start, span.stop - (window - 1))
            rows = slice(first, span.stop)
            layers.append(self._keep.pack(keys[:, rows], values[:, rows]))
        if len(self.kept[0]) == self._layers:
            raise AllKept


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed_pass: PackedPass,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """transformers' attention interface. query [1, heads, rows, dim], key and value [1, kv_heads, ..].

    Returns [1, rows, heads, dim]. Raises UnsupportedModel for a feature that it would drop, AllKept
    from the last layer of a pass that keeps.
    """
    _refuse(module, others)
    packed_pass.calls += 1
    packed_pass.store(key[0], value[0], sliding_window)
    call = LayerCall(
        layer=int(module.layer_idx),  # type: ignore[arg-type]
        query=query[0],
        keys=key[0],
        values=value[0],
        scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
        window=sliding_window,
        softcap=softcap,
    )
    return packed_pass.backend.attend(call, packed_pass.spans)[None], None


def _refuse(module: nn.Module, others: dict[str, Any]) -> None:
    for name in ("position_bias", "s_aux", "output_attentions"):
        if others.get(name) is not None and others[name] is not False:
            reason = f"its attention uses {name}"
            raise UnsupportedModel(model=type(module).__name__, reason=reason)
