"""A GGUF file to config, bfloat16 safetensors and tokenizer, once per cache.

The work is done by transformers' own GGUF loader, so that the result is what transformers would
load. Built in a folder beside the target and renamed when complete: a folder under its final name is
always whole. A lock that dies with its process keeps a second process waiting, not converting.
"""

import errno
import fcntl
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import ConversionFailed

logger = logging.getLogger(__name__)

#: Part of a revision: raise it when the same GGUF would give other files.
CONVERSION = "bf16-1"
#: A folder is about 2.8 times its 4-bit GGUF; asked for before the work, not after half of it.
NEEDED_SPACE = 3


def convert_once(model: str, target: Path, source: Callable[[], Path]) -> None:
    """Make `target` hold the converted model. Returns at once when it does.

    `source` finds and checks the GGUF; it is called only when there is work. Raises
    ConversionFailed when the disk is full or cannot be written, and whatever `source` raises.
    """
    if target.is_dir():
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target):
            if not target.is_dir():
                _build(model, target, source())
    except OSError as error:
        raise ConversionFailed(model=model, reason=_words(error, target)) from error


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("Another process is converting %s; waiting for it.", target.name)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(model: str, target: Path, gguf: Path) -> None:
    """Under the lock: whatever lies in the work folder was left by a process that died."""
    needed = NEEDED_SPACE * gguf.stat().st_size
    if shutil.disk_usage(target.parent).free < needed:
        raise OSError(errno.ENOSPC, f"{needed // 2**20} MiB are needed")
    work = target.with_name(f".{target.name}.work")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        write_model(model, gguf, work)
        _flush(work)
        work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_model(model: str, gguf: Path, folder: Path) -> None:
    """Convert `gguf` into `folder`, which exists. Raises OSError when it cannot be written."""
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from engine.quiet import quiet_transformers

    with quiet_transformers():
        logger.info("Converting %s, step 1 of 3: reading the tokenizer.", model)
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        tokenizer.save_pretrained(folder)
        logger.info("Converting %s, step 2 of 3: reading the weights.", model)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16
        )
        logger.info("Converting %s, step 3 of 3: writing safetensors.", model)
        # save_pretrained would refuse a model that it takes for a packed one.
        del loaded.config.quantization_config
        loaded.hf_quantizer, loaded.is_quantized = None, False
        try:
            loaded.to(torch.bfloat16).save_pretrained(folder)
        except SafetensorError as error:
            raise OSError(errno.EIO, str(error)) from error
    logger.info("Converted %s.", model)


def _flush(folder: Path) -> None:
    """The rename must not reach the disk before the files do."""
    for file in folder.iterdir():
        with file.open("rb") as handle:
            os.fsync(handle.fileno())


def _words(error: OSError, target: Path) -> str:
    if error.errno == errno.ENOSPC:
        return f"the disk of the cache is full ({error.strerror})"
    return f"the cache {target.parent.name!r} cannot be written: {error}"
