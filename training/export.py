"""A checkpoint to the adapter that ships: PEFT's folder layout, with its checksum.

adapter_config.json           rank, alpha = rank (B is saved already scaled), which matrices and layers
adapter_model.safetensors     base_model.model.<matrix>.lora_A.weight [r, in], .lora_B.weight [out, r], bf16
"""

import argparse
import hashlib
import json
from pathlib import Path

from safetensors.torch import load_file, save_file

from training.student import MATRICES


def export(checkpoint: Path, folder: Path, base: str) -> str:
    """Writes the folder and returns the SHA-256 of its weights."""
    tensors = {n: t for n, t in load_file(checkpoint).items() if ".lora_" in n}
    rank = next(t.shape[0] for name, t in tensors.items() if name.endswith("lora_A.weight"))
    layers = sorted({int(name.split(".")[2]) for name in tensors})
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": [name.split(".")[1] for name in MATRICES],
        "layers_to_transform": layers,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    path = folder / "adapter_model.safetensors"
    save_file(
        {f"base_model.model.{name}": t.contiguous() for name, t in tensors.items()},
        path,
        metadata={"format": "pt"},
    )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "SHA256SUMS").write_text(f"{digest}  adapter_model.safetensors\n")
    return digest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--base", default="SmolLM2-135M-Instruct")
    a = parser.parse_args()
    print(export(a.checkpoint, a.folder, a.base))


if __name__ == "__main__":
    main()
