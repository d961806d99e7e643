"""Linear layers whose every product has the same shape, so that a row's bits cannot depend on others.

    [rows, in] -> tiles of TILE_ROWS rows -> one product each -> [rows, out]

A matrix product picks its inner loops by its number of rows: the same row gives other bits in a batch
of 3 than in a batch of 300. A fixed number leaves nothing to pick. The pass is padded to whole tiles
once, at its end. Weights are packed once for that shape where oneDNN does it, which pays for the tiles.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

#: Rows of one product: enough for the full rate with packed weights, few enough to pad one question.
TILE_ROWS = 64


def whole_tiles(rows: int) -> int:
    """`rows` rounded up to whole tiles."""
    return -(-rows // TILE_ROWS) * TILE_ROWS


class TiledLinear(nn.Module):
    """Takes a linear layer's weight over; input rows must be whole tiles."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.out_features = linear.out_features
        weight = linear.weight.detach()
        bias = None if linear.bias is None else linear.bias.detach()
        self._multiply = _packed(weight, bias) or _plain(weight, bias)

    def forward(self, rows: Tensor) -> Tensor:
        """[.., rows, in] -> [.., rows, out]."""
        flat = rows.reshape(-1, rows.shape[-1])
        assert len(flat) % TILE_ROWS == 0
        out = flat.new_empty(len(flat), self.out_features)
        for tile, target in zip(
            torch.split(flat, TILE_ROWS), torch.split(out, TILE_ROWS), strict=True
        ):
            self._multiply(tile, target)
        return out.view(*rows.shape[:-1], self.out_features)


def _packed(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor, Tensor], object] | None:
    """Through oneDNN's layout for exactly this shape, or None where it has none."""
    if weight.device.type != "cpu" or not torch._C._has_mkldnn:
        return None
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, TILE_ROWS)
    linear = torch.ops.mkldnn._linear_pointwise
    return lambda tile, target: target.copy_(linear(tile, packed, bias, "none", [], ""))


def _plain(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor, Tensor], object]:
    transposed = weight.t()
    if bias is None:
        return lambda tile, target: torch.mm(tile, transposed, out=target)
    return lambda tile, target: torch.addmm(bias, tile, transposed, out=target)


def tile_linears(model: nn.Module) -> bool:
    """Replace every linear layer below `model`. False when other products would remain.

    Then nothing is replaced: half of it would cost and promise nothing.
    """
    linears = [(name, module) for name, module in model.named_modules() if _is_linear(module)]
    if any(_multiplies(module) for module in model.modules() if not _is_linear(module)):
        return False
    for name, module in linears:
        parent, _, attribute = name.rpartition(".")
        assert isinstance(module, nn.Linear)
        setattr(model.get_submodule(parent), attribute, TiledLinear(module))
    return True


def _is_linear(module: nn.Module) -> bool:
    return type(module) is nn.Linear


def _multiplies(module: nn.Module) -> bool:
    """Whether it owns a matrix that is not a table of embeddings."""
    if isinstance(module, nn.Embedding):
        return False
    return any(parameter.dim() > 1 for parameter in module.parameters(recurse=False))
