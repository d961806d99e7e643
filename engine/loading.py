"""From a model folder to a model in memory, and what this machine is best at."""

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from engine.errors import UnsupportedModel
from engine.models import ModelFolder
from engine.quiet import quiet_transformers


def choose_device(wanted: str) -> torch.device:
    """`wanted`, or cuda where there is one for "auto". Raises ValueError for a cuda that is not."""
    found = torch.cuda.is_available()
    if wanted == "cuda" and not found:
        raise ValueError("device is cuda, but torch finds no CUDA device")
    return torch.device("cuda" if found and wanted != "cpu" else "cpu")


def choose_dtype(wanted: str, device: torch.device) -> torch.dtype:
    """`wanted`; for "auto" bfloat16 where it is multiplied natively: about twice as fast."""
    if wanted != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16}[wanted]
    native = device.type == "cuda" or has_bfloat16(torch.cpu.get_capabilities())
    return torch.bfloat16 if native else torch.float32


def has_bfloat16(capabilities: Mapping[str, Any]) -> bool:
    """Whether the processor multiplies bfloat16 in hardware."""
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def device_name(device: torch.device) -> str:
    """The kind of device, its model and its instruction set, as decisions record it."""
    if device.type == "cuda":
        return f"cuda {torch.cuda.get_device_name(device)}"
    found = torch.cpu.get_capabilities()
    matrices = next((name for name in ("amx_bf16", "avx512_bf16") if found.get(name)), "no bf16")
    level = torch.backends.cpu.get_cpu_capability()
    return f"cpu {found.get('cpu_name', platform.machine())}, {level}, {matrices}"


def load_model(folder: ModelFolder, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """The model with its adapter merged in. Raises UnsupportedModel when transformers cannot."""
    try:
        with quiet_transformers():
            model: Any = AutoModelForCausalLM.from_pretrained(
                folder.path, dtype=dtype, local_files_only=True
            )
    except (ValueError, KeyError) as error:
        raise UnsupportedModel(model=folder.name, reason=str(error)) from error
    if folder.adapter is not None:
        merge_adapter(model, folder.adapter)
    moved: PreTrainedModel = model.to(device)
    return moved


@torch.no_grad()
def merge_adapter(model: PreTrainedModel, folder: Path) -> None:
    """W += B . A * alpha / r, in float32, for each pair of a LoRA adapter in PEFT's layout."""
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    scale = config["lora_alpha"] / (config["r"] ** (0.5 if config.get("use_rslora") else 1.0))
    tensors = load_file(folder / "adapter_model.safetensors")
    for name in [name for name in tensors if name.endswith(".lora_A.weight")]:
        target = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        weight = model.get_submodule(target).get_parameter("weight")
        down, up = tensors[name].float(), tensors[name.replace(".lora_A.", ".lora_B.")].float()
        weight.copy_((weight.float() + up @ down * scale).to(weight.dtype))
