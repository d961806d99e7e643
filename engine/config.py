"""Settings of one engine: frozen, checked on construction, passed in. Never reads the environment."""

from dataclasses import dataclass
from pathlib import Path

DTYPES = ("auto", "float32", "bfloat16")
DEVICES = ("auto", "cpu", "cuda")
ATTENTIONS = ("torch", "triton")
KV_FORMATS = ("native", "bf16", "int8", "fp8_e4m3", "k8v4", "nvfp4")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How to build an engine."""

    #: Where converted models are kept. Created when missing.
    cache_dir: Path
    #: "default", a hub id, or a local folder. Defaults to "default".
    model: str = "default"
    #: Folder of a LoRA adapter (PEFT layout), None for the manifest's own. Defaults to None.
    adapter: str | None = None
    #: "auto" is bfloat16 where the processor multiplies it natively, else float32. Defaults to "auto".
    dtype: str = "auto"
    #: "auto" is cuda where there is one, else cpu. Defaults to "auto".
    device: str = "auto"
    #: How a state's keys and values are stored; "native" is the model's dtype. Defaults to "native".
    kv_format: str = "native"
    #: "torch" runs anywhere; "triton" is our kernels, for bfloat16 on CUDA. Defaults to "torch".
    attention: str = "torch"
    #: Tokens of one forward pass; a longer state or question still goes alone. Defaults to 2048.
    max_tokens_per_pass: int = 2048
    #: Bytes of stored states; 0 keeps none beyond a call. Defaults to 512 MiB.
    prefix_store_bytes: int = 512 * 2**20
    #: A read's bits depend on its prompt and the engine's record alone; off is a little faster on
    #: some processors. Defaults to True.
    reproducible: bool = True
    #: Threads of a forward pass, None leaves torch's. Defaults to None.
    threads: int | None = None

    def __post_init__(self) -> None:
        _one_of("dtype", self.dtype, DTYPES)
        _one_of("device", self.device, DEVICES)
        _one_of("attention", self.attention, ATTENTIONS)
        _one_of("kv_format", self.kv_format, KV_FORMATS)
        _at_least("max_tokens_per_pass", self.max_tokens_per_pass, 1)
        _at_least("prefix_store_bytes", self.prefix_store_bytes, 0)
        if self.threads is not None:
            _at_least("threads", self.threads, 1)
        if not self.model:
            raise ValueError("model must not be empty")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
