"""Compiles every kernel ahead of time, without a GPU or a driver, and says what it would take.

    python -m kernels.compile 80 90 120        one JSON line per kernel and architecture

A gate: no register spills, no atomics (their order is nobody's), shared memory within the architecture's
limit. Must run outside the interpreter. Shapes are Qwen3's: 8 kv heads of 128, groups of 2.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels.label_read import _label_finish_kernel, _label_read_kernel
from kernels.merge_parts import _merge_parts_kernel
from kernels.numerics import f32_to_bf16  # noqa: F401 - proves that the helpers compile too
from kernels.pack_e4m3 import _pack_e4m3_kernel
from kernels.pack_int8 import _pack_int8_kernel
from kernels.pack_nvfp4 import _pack_nvfp4_kernel
from kernels.runtime import PAGE, SPLIT, STATE_WARPS, WARPS
from kernels.state_attention import FORMATS, _state_attention_kernel
from kernels.suffix_attention import _suffix_attention_kernel

#: Bytes of shared memory that one program may have.
SHARED_LIMIT = {80: 163 * 1024, 90: 227 * 1024, 120: 99 * 1024}
SHAPE = {"HK": 8, "GROUP": 2, "D": 128}
_CODES = {"bf16": "*bf16", "int8": "*i8", "e4m3": "*u8", "nvfp4": "*u8"}
_SCALES = {"bf16": "*bf16", "int8": "*bf16", "e4m3": "*bf16", "nvfp4": "*u8"}


class Variant(NamedTuple):
    """One kernel with the types of its pointers and its constants."""

    name: str
    kernel: Any
    types: dict[str, str]
    constants: dict[str, Any]
    warps: int = WARPS


def _attention(keys: str, values: str, *, window: bool = False, cap: bool = False) -> Variant:
    types = {"Q": "*bf16", "POS": "*i32", "PAGES": "*i32", "KG": "*fp32", "VG": "*fp32"}
    types |= {"K": _CODES[keys], "KS": _SCALES[keys], "V": _CODES[values], "VS": _SCALES[values]}
    formats = {"FMT_K": FORMATS[keys], "FMT_V": FORMATS[values]}
    features = {"HAS_WINDOW": window, "HAS_CAP": cap}
    tiles = {"BM": 64, "BN": PAGE, "SPLIT": SPLIT, "INTERP": False}
    name = f"state_attention {keys}/{values}" + " window" * window + " cap" * cap
    constants = SHAPE | formats | features | tiles
    return Variant(name, _state_attention_kernel, types, constants, STATE_WARPS)


def variants() -> Iterator[Variant]:
    """Every kernel in every form that is launched."""
    for keys, values in (("bf16", "bf16"), ("int8", "int8"), ("e4m3", "e4m3")):
        yield _attention(keys, values)
    yield _attention("int8", "nvfp4")
    yield _attention("nvfp4", "nvfp4")
    yield _attention("int8", "int8", window=True, cap=True)
    bf16 = dict.fromkeys(("Q", "K", "V"), "*bf16")
    ints = dict.fromkeys(("TILE", "BEGIN", "END"), "*i32")
    constants = {"HAS_WINDOW": False, "HAS_CAP": False, "BM": 64, "BN": 64, "INTERP": False}
    yield Variant("suffix_attention", _suffix_attention_kernel, bf16 | ints, SHAPE | constants)
    yield Variant("merge_parts", _merge_parts_kernel, {"OUT": "*bf16"}, {"D": 128, "BM": 16})
    packed = {"X": "*bf16", "S": "*bf16"}
    rows = {"D": 128, "BLOCK": 32}
    yield Variant("pack_int8", _pack_int8_kernel, packed | {"Q": "*i8"}, rows)
    yield Variant("pack_e4m3", _pack_e4m3_kernel, packed | {"Q": "*u8"}, rows)
    codes = {"X": "*bf16", "Q": "*u8", "B": "*u8"}
    yield Variant("pack_nvfp4", _pack_nvfp4_kernel, codes, {"D": 128, "ROWS": 32})
    head = {"DM": 1024, "BM": 16, "BV": 64, "BK": 64, "SPLIT": 1024, "INTERP": False}
    read = {"H": "*bf16", "W": "*bf16", "ROWS": "*i32"}
    yield Variant("label_read", _label_read_kernel, read, head | {"GATHER": False})
    yield Variant("label_read gather", _label_read_kernel, read, head | {"GATHER": True})
    columns = {"COLUMN": "*i32", "OFFSET": "*i32"}
    yield Variant("label_finish", _label_finish_kernel, columns, {"BL": 256})


def compile_variant(variant: Variant, arch: int) -> dict[str, Any]:
    """Compile for sm_`arch`: registers, spilled bytes, shared memory, whether it uses atomics."""
    names = variant.kernel.arg_names
    signature = {name: _type(name, variant) for name in names}
    aligned = {
        (i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if signature[name][0] == "*"
    }
    constants = {(names.index(name),): value for name, value in variant.constants.items()}
    source = ASTSource(variant.kernel, signature=signature, constexprs=constants, attrs=aligned)
    options = {"num_warps": variant.warps, "num_stages": 2}
    compiled = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    ptx = compiled.asm["ptx"]
    report = _assemble(ptx, arch)
    return {
        "kernel": variant.name,
        "arch": arch,
        "registers": int(re.findall(r"Used (\d+) registers", report)[-1]),
        "spilled": sum(int(n) for n in re.findall(r"(\d+) bytes spill", report)),
        "shared": compiled.metadata.shared,
        "atomics": bool(re.search(r"(?m)^\s*(@%p\d+ )?(atom|red)\.", ptx)),
    }


def _type(name: str, variant: Variant) -> str:
    if name in variant.constants:
        return "constexpr"
    scalar = "fp32" if name in ("scaling", "softcap", "scale") else "i32"
    return variant.types.get(name, "*fp32" if name.isupper() else scalar)


def _assemble(ptx: str, arch: int) -> str:
    """What Triton's own ptxas says about it."""
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    target = re.findall(r"\.target (\w+)", ptx)[0]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        tool = tools / ("ptxas-blackwell" if arch >= 100 else "ptxas")
        command = [tool, "-v", "--gpu-name", target, source, "-o", source.with_suffix(".cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stderr


def main(architectures: list[int], wanted: str) -> None:
    for arch in architectures:
        for variant in variants():
            if re.match(wanted, variant.name):
                sys.stdout.write(json.dumps(compile_variant(variant, arch)) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    patterns = [argument for argument in sys.argv[1:] if not argument.isdigit()]
    main(numbers or sorted(SHARED_LIMIT), patterns[0] if patterns else "")
