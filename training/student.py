"""The default model's forward pass over packed trees, with low-rank adapters on its upper layers.

Written out because training needs what a general implementation does not give: attention by tree, no gradient below the
first adapted layer, vocabulary scores at the read tokens only. Llama's arithmetic:

    h = h + Wo attention(rope(Wq n), rope(Wk n), Wv n),  n = rms(h)
    h = h + Wd (silu(Wg m) * Wu m),                      m = rms(h)
    W x  ->  W x + (alpha / r) B (A x)                   where adapted

Base weights are bf16 and frozen; A and B are float32 masters used as bf16.
"""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig

from training.packing import Tree

MATRICES = (
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
)  # fmt: skip


class Adapted(nn.Module):
    """One frozen matrix with its adapter."""

    def __init__(self, weight: Tensor, rank: int, alpha: float) -> None:
        super().__init__()
        self.weight = weight
        self.scale = alpha / rank
        out, inner = weight.shape
        self.a = nn.Parameter(torch.randn(rank, inner) / math.sqrt(inner))
        self.b = nn.Parameter(torch.zeros(out, rank))

    def forward(self, x: Tensor) -> Tensor:
        low = F.linear(x, self.a.to(x.dtype))
        return F.linear(x, self.weight) + F.linear(low, (self.b * self.scale).to(x.dtype))


class Frozen(nn.Module):
    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


class Layer(nn.Module):
    def __init__(
        self,
        weights: dict[str, Tensor],
        rank: int,
        alpha: float,
        heads: tuple[int, int],
        eps: float,
    ) -> None:
        super().__init__()
        self.heads, self.eps = heads, eps
        self.norm_in = weights["input_layernorm.weight"]
        self.norm_out = weights["post_attention_layernorm.weight"]
        parts = [weights[f"{name}.weight"] for name in MATRICES]
        made = [Adapted(w, rank, alpha) if rank else Frozen(w) for w in parts]
        self.q, self.k, self.v, self.o, self.gate, self.up, self.down = made

    def forward(
        self, h: Tensor, cos: Tensor, sin: Tensor, trees: list[tuple[int, int, Tensor]], head: int
    ) -> Tensor:
        n = F.rms_norm(h, (h.shape[-1],), self.norm_in, self.eps)
        h = h + self.o(self._attention(n, cos, sin, trees, head))
        m = F.rms_norm(h, (h.shape[-1],), self.norm_out, self.eps)
        out: Tensor = h + self.down(F.silu(self.gate(m)) * self.up(m))
        return out

    def _attention(
        self, n: Tensor, cos: Tensor, sin: Tensor, trees: list[tuple[int, int, Tensor]], head: int
    ) -> Tensor:
        many, few = self.heads
        q = _rope(self.q(n).view(len(n), many, -1), cos, sin)
        k = _rope(self.k(n).view(len(n), few, -1), cos, sin)
        v = self.v(n).view(len(n), few, -1)
        size, share = q.shape[-1], many // few
        out = []
        for start, end, bias in trees:
            length = end - start
            # [few, share * length, size]: the query heads of one key head side by side
            queries = (
                q[start:end]
                .view(length, few, share, size)
                .permute(1, 2, 0, 3)
                .reshape(few, share * length, size)
            )
            keys = torch.cat([k[:head], k[start:end]]) if start else k[:end]
            values = torch.cat([v[:head], v[start:end]]) if start else v[:end]
            scores = (
                torch.bmm(queries, keys.permute(1, 2, 0)).view(few, share, length, -1) * size**-0.5
                + bias
            )
            weights = torch.softmax(scores, -1).view(few, share * length, -1)
            mixed = torch.bmm(weights, values.transpose(0, 1))
            out.append(
                mixed.view(few, share, length, size)
                .permute(2, 0, 1, 3)
                .reshape(length, many * size)
            )
        return torch.cat(out)


class Student(nn.Module):
    """The model; `rank` 0 reads only: the base, or the base with `merged`, an adapter's folder, added to its weights."""

    def __init__(
        self,
        folder: Path,
        *,
        rank: int = 0,
        alpha: float = 32.0,
        first: int = 0,
        probed: tuple[int, ...] = (16, 22),
        merged: Path | None = None,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        super().__init__()
        config = AutoConfig.from_pretrained(folder)
        weights = {name: w.to(dtype) for name, w in load_file(folder / "model.safetensors").items()}
        if merged:
            _merge(weights, merged)
        self.eps, self.first, self.probed, self.scale = (
            config.rms_norm_eps,
            first,
            probed,
            alpha / max(rank, 1),
        )
        self.embed = weights["model.embed_tokens.weight"]
        self.norm = weights["model.norm.weight"]
        heads = (config.num_attention_heads, config.num_key_value_heads)
        size = config.hidden_size // heads[0]
        self.inverse = config.rope_parameters["rope_theta"] ** (-torch.arange(0, size, 2) / size)
        self.layers = nn.ModuleList(
            Layer(_of_layer(weights, i), rank if i >= first else 0, alpha, heads, self.eps)
            for i in range(config.num_hidden_layers)
        )
        self.probes = nn.ModuleList(nn.Linear(config.hidden_size, 1) for _ in probed)

    def forward(self, trees: Sequence[Tree]) -> tuple[Tensor, Tensor]:
        """Scores over the vocabulary at every read [Q, V], and each probe's score at every mark [P, M]; both float32."""
        head = len(trees[0].head)
        layout, reads, marks, at = (
            [(0, head, self._bias(torch.ones(head, head, dtype=torch.bool).tril_()))],
            [],
            [],
            head,
        )
        for tree in trees:
            n = len(tree.ids)
            bias = self._bias(torch.cat([torch.ones(n, head, dtype=torch.bool), tree.visible], 1))
            layout.append((at, at + n, bias))
            reads.append(tree.reads + at)
            marks.append(tree.marks + at)
            at += n
        h = F.embedding(torch.cat([trees[0].head, *(t.ids for t in trees)]), self.embed)
        angle = (
            torch.cat([torch.arange(head), *(t.positions for t in trees)]).unsqueeze(1)
            * self.inverse
        )
        angle = torch.cat([angle, angle], -1).unsqueeze(1)
        cos, sin = angle.cos().to(h.dtype), angle.sin().to(h.dtype)
        with torch.no_grad():
            for layer in self.layers[: self.first]:
                h = layer(h, cos, sin, layout, head)
        marked = torch.cat(marks)
        probed = []
        for i, layer in enumerate(self.layers[self.first :], self.first):
            h = layer(h, cos, sin, layout, head)
            if i in self.probed:
                seen = F.rms_norm(h[marked].float(), (h.shape[-1],))
                probed.append(self.probes[self.probed.index(i)](seen).squeeze(1))
        last = F.rms_norm(h[torch.cat(reads)], (h.shape[-1],), self.norm, self.eps)
        scores = F.linear(last, self.embed).float()
        return scores, torch.stack(probed) if probed else torch.zeros(0, len(marked))

    def _bias(self, visible: Tensor) -> Tensor:
        return torch.zeros(visible.shape, dtype=self.embed.dtype).masked_fill_(~visible, -1e9)

    def adapters(self) -> Iterator[tuple[str, Adapted]]:
        for i, layer in enumerate(self.layers):
            parts = (layer.q, layer.k, layer.v, layer.o, layer.gate, layer.up, layer.down)
            for name, part in zip(MATRICES, parts, strict=True):
                if isinstance(part, Adapted):
                    yield f"model.layers.{i}.{name}", part

    def save(self, path: Path, metadata: dict[str, str]) -> None:
        tensors = {}
        for name, part in self.adapters():
            tensors[f"{name}.lora_A.weight"] = part.a.detach().to(torch.bfloat16).contiguous()
            tensors[f"{name}.lora_B.weight"] = (
                (part.b.detach() * self.scale).to(torch.bfloat16).contiguous()
            )
        for i, probe in enumerate(self.probes):
            for name, value in probe.state_dict().items():
                tensors[f"probe.{i}.{name}"] = value.detach()
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, path, metadata=metadata)

    def load(self, path: Path) -> None:
        tensors = load_file(path)
        for name, part in self.adapters():
            part.a.data.copy_(tensors[f"{name}.lora_A.weight"])
            part.b.data.copy_(tensors[f"{name}.lora_B.weight"].float() / self.scale)
        for i, probe in enumerate(self.probes):
            if f"probe.{i}.weight" in tensors:
                probe.load_state_dict({n: tensors[f"probe.{i}.{n}"] for n in probe.state_dict()})


def _merge(weights: dict[str, Tensor], folder: Path) -> None:
    """W += B A alpha / r in float32, as the engine does when it loads an adapter."""
    config = json.loads((folder / "adapter_config.json").read_text())
    tensors = load_file(folder / "adapter_model.safetensors")
    for name, a in tensors.items():
        if name.endswith("lora_A.weight"):
            b = tensors[name.replace("lora_A", "lora_B")].float()
            target = name.removeprefix("base_model.model.").replace("lora_A.weight", "weight")
            added = b @ a.float() * (config["lora_alpha"] / config["r"])
            weights[target] = (weights[target].float() + added).to(weights[target].dtype)


def _of_layer(weights: dict[str, Tensor], i: int) -> dict[str, Tensor]:
    head = f"model.layers.{i}."
    return {name.removeprefix(head): w for name, w in weights.items() if name.startswith(head)}


def _rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos + turned * sin
