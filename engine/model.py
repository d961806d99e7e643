"""A causal model of transformers, driven in packed passes through our attention.

Knows tensors and the model's architecture; no labels, no groups, no store.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from engine.attention import (
    ATTENTION,
    AllKept,
    Backend,
    PackedPass,
    Span,
    packed_attention,
)
from engine.errors import UnsupportedModel
from engine.kv import KVFormat
from engine.labels import Head
from engine.plan import Prefix, Read
from engine.prefixes import StoredPrefix
from engine.tiles import tile_linears, whole_tiles

KNOWN_LAYERS = {"full_attention", "sliding_attention"}
#: The probe's logits may differ from the model's by this share of their largest, for bfloat16.
PROBE_TOLERANCE = 0.02


class CausalModel:
    """Owns the weights and the scratch of one loaded model. Not thread-safe."""

    def __init__(self, model: Any, name: str, backend: Backend, *, reproducible: bool) -> None:
        """Take over a PreTrainedModel. Raises UnsupportedModel when it cannot be read exactly."""
        ALL_ATTENTION_FUNCTIONS.register(ATTENTION, packed_attention)
        model.eval().set_attn_implementation(ATTENTION)
        self._model = model
        self.name = name
        self._config = model.config.get_text_config()
        self.backend = backend
        self._refuse_unknown_layers()
        self._decoder: Any = self._model.get_decoder()
        self.head = self._find_head()
        self._tiled = tile_linears(self._decoder) if reproducible else False
        self._probe()

    @property
    def dtype(self) -> torch.dtype:
        return self.head.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    @property
    def reproducible(self) -> bool:
        """Whether a read's bits are independent of what shares its pass."""
        return self._tiled and self.device.type == "cpu"

    @property
    def context_tokens(self) -> int:
        """The longest prompt."""
        return int(self._config.max_position_embeddings)

    @property
    def vocabulary(self) -> int:
        """Tokens that the model knows."""
        return len(self.head.weight)

    def prefill(
        self, prefixes: Sequence[tuple[Prefix, StoredPrefix | None]], keep: KVFormat
    ) -> list[StoredPrefix]:
        """Each prefix's own tokens after its stored preamble, all in one pass, kept in that form."""
        own = [prefix.own_ids for prefix, _ in prefixes]
        parents = [parent for _, parent in prefixes]
        packed = self._pass(list(zip(own, parents, strict=True)), keep)
        with suppress(AllKept):
            self._forward(own, packed)
        return [
            StoredPrefix(prefix, layers, parent)
            for (prefix, parent), layers in zip(prefixes, packed.kept, strict=True)
        ]

    def last_hidden(self, reads: Sequence[Read], held: Mapping[Prefix, StoredPrefix]) -> Tensor:
        """The last token's hidden state of each read, [reads, dim], all in one pass."""
        suffixes = [read.suffix.token_ids for read in reads]
        pasts = [held[read.prefix] for read in reads]
        packed = self._pass(list(zip(suffixes, pasts, strict=True)), None)
        hidden = self._forward(suffixes, packed)
        last = [span.stop - 1 for span in packed.spans]
        return hidden[torch.tensor(last, device=self.device)]

    def _pass(
        self,
        sequences: Sequence[tuple[tuple[int, ...], StoredPrefix | None]],
        keep: KVFormat | None,
    ) -> PackedPass:
        spans, start = [], 0
        for token_ids, past in sequences:
            spans.append(Span(start=start, stop=start + len(token_ids), past=past))
            start += len(token_ids)
        return PackedPass(spans, self.backend, self._config.num_hidden_layers, keep)

    def _forward(self, sequences: Sequence[tuple[int, ...]], packed: PackedPass) -> Tensor:
        """Hidden states [rows, dim] of all rows of the pass, and of its padding."""
        rows = self._rows(sequences, packed)
        output = self._decoder(**rows, use_cache=False, packed_pass=packed)
        hidden: Tensor = output.last_hidden_state[0]
        return hidden

    def _rows(self, sequences: Sequence[tuple[int, ...]], packed: PackedPass) -> dict[str, Tensor]:
        tokens = [token for sequence in sequences for token in sequence]
        positions = [
            span.offset + row for span in packed.spans for row in range(span.stop - span.start)
        ]
        padding = [0] * (whole_tiles(len(tokens)) - len(tokens) if self._tiled else 0)
        return {
            "input_ids": torch.tensor([tokens + padding], device=self.device),
            "position_ids": torch.tensor([positions + padding], device=self.device),
        }

    def _refuse_unknown_layers(self) -> None:
        unknown = set(getattr(self._config, "layer_types", None) or ()) - KNOWN_LAYERS
        if unknown:
            reason = f"its layers of type {', '.join(sorted(unknown))} keep no keys and values"
            raise UnsupportedModel(model=self.name, reason=reason)

    def _find_head(self) -> Head:
        output = self._model.get_output_embeddings()
        if output is None:
            raise UnsupportedModel(model=self.name, reason="it has no language-model head")
        multiplied = float(getattr(self._config, "logit_scale", None) or 1.0)
        divided = float(getattr(self._config, "logits_scaling", None) or 1.0)
        return Head(
            weight=output.weight.detach(),
            bias=None if getattr(output, "bias", None) is None else output.bias.detach(),
            scale=multiplied / divided,
            softcap=getattr(self._config, "final_logit_softcapping", None),
        )

    @torch.inference_mode()
    def _probe(self) -> None:
        """A few tokens through the model's own head and ours: refuse what we would get wrong."""
        tokens = tuple(range(min(4, self.head.weight.shape[0])))
        packed = self._pass([(tokens, None)], None)
        theirs = self._model(**self._rows([tokens], packed), use_cache=False, packed_pass=packed)
        if packed.calls != self._config.num_hidden_layers:
            reason = "its attention does not go through transformers' attention interface"
            raise UnsupportedModel(model=self.name, reason=reason)
        hidden = self._forward([tokens], self._pass([(tokens, None)], None))
        last = len(tokens) - 1
        expected = theirs.logits[0, last].float()
        actual = self.head.logits(hidden[last : last + 1].float())[0]
        allowed = PROBE_TOLERANCE * float(expected.abs().max()) + 1e-3
        if actual.shape != expected.shape or float((actual - expected).abs().max()) > allowed:
            raise UnsupportedModel(model=self.name, reason="its head is more than a linear map")
