"""Label log-probabilities and the argmax from last hidden states, without a row of the vocabulary.

    z = h . W^T (+ bias), scaled and capped as the model does      tile by tile of the vocabulary
    log p(label) = z[label] - logsumexp(z)

The head runs in float32 whatever the model's dtype: it is a fraction of a read, and rounding a logit to
bfloat16 would move probabilities more than anything else does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engine.types import LabelScores

#: Rows of the vocabulary per tile: a float32 tile stays in the processor's cache.
TILE_TOKENS = 4096
#: Reads per product: always that many, padded, so that no read's bits depend on how many there are.
TILE_READS = 16
#: A multiple of what a processor computes at once: two vectors of 16 floats, at most.
WHOLE_VECTORS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last linear map of a causal model, and what the model does to its logits."""

    #: [vocabulary, hidden].
    weight: Tensor
    #: [vocabulary], or None.
    bias: Tensor | None
    #: Multiplies the logits.
    scale: float
    #: Caps the logits by cap * tanh(z / cap), or None.
    softcap: float | None

    def logits(self, hidden: Tensor) -> Tensor:
        """All logits [reads, vocabulary], for checks of a few reads."""
        padded = functional.pad(hidden, (0, 0, 0, -len(hidden) % TILE_READS))
        starts = range(0, len(self.weight), TILE_TOKENS)
        return torch.cat([self.tile(padded, start) for start in starts], dim=1)[: len(hidden)]

    def tile(self, hidden: Tensor, start: int) -> Tensor:
        """Logits [reads, tile] of the tile that starts at token `start`.

        hidden is float32 and its reads are whole tiles.
        """
        at = slice(start, start + TILE_TOKENS)
        weight = self.weight[at].float()
        bias = None if self.bias is None else self.bias[at].float()
        logits = torch.cat(
            [functional.linear(h, weight, bias) for h in torch.split(hidden, TILE_READS)]
        )
        if self.scale != 1.0:
            logits *= self.scale
        if self.softcap is not None:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        return logits


def read_labels(head: Head, hidden: Tensor, labels: Sequence[tuple[int, ...]]) -> list[LabelScores]:
    """Scores of each row of `hidden` [reads, dim] at its own `labels`."""
    hidden = functional.pad(hidden.float(), (0, 0, 0, -len(labels) % TILE_READS))
    rows = torch.arange(len(labels)).repeat_interleave(torch.tensor([len(ids) for ids in labels]))
    wanted = torch.tensor([token for ids in labels for token in ids])
    rows, wanted = rows.to(hidden.device), wanted.to(hidden.device)
    picked = hidden.new_full(wanted.shape, torch.nan)
    best = hidden.new_full((len(hidden),), -torch.inf)
    argmax = torch.zeros(len(hidden), dtype=torch.int64, device=hidden.device)
    normaliser = hidden.new_full((len(hidden),), -torch.inf)
    for start in range(0, head.weight.shape[0], TILE_TOKENS):
        logits = head.tile(hidden, start)
        inside = (wanted >= start) & (wanted < start + logits.shape[1])
        picked[inside] = logits[rows[inside], wanted[inside] - start]
        top, where = logits.max(dim=1)
        argmax = torch.where(top > best, where + start, argmax)
        best = torch.maximum(best, top)
        normaliser = _logaddexp(normaliser, torch.logsumexp(logits, dim=1))
    log_probs = (picked - normaliser[rows]).tolist()
    return _scores(log_probs, argmax.tolist()[: len(labels)], labels)


def _logaddexp(left: Tensor, right: Tensor) -> Tensor:
    """Of two vectors [reads], in whole vectors: torch gives other bits in the rest that fills none."""
    reads = len(left)
    padding = (0, -reads % WHOLE_VECTORS)
    return torch.logaddexp(functional.pad(left, padding), functional.pad(right, padding))[:reads]


def _scores(
    log_probs: list[float], argmax: list[int], labels: Sequence[tuple[int, ...]]
) -> list[LabelScores]:
    scores, start = [], 0
    for ids, best in zip(labels, argmax, strict=True):
        read = tuple(log_probs[start : start + len(ids)])
        scores.append(LabelScores(log_probs=read, argmax_id=best))
        start += len(ids)
    return scores
