"""Ways to read the same decisions from the same weights, each in a process of its own.

weighbridge        the engine, as a worker runs it
cached             plain transformers: prefill the state once, then each question after the cached state
cached, batched    the same, all questions of a state in one batch of copies of the cache
whole, batched     plain transformers: every whole prompt, all questions of a state in one batch
"""

import os
import resource
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from engine.threads import set_thread_environment
from engine.types import Group

Reader = Callable[[Sequence[Group]], list[list[list[float]]]]


def serve(pipe: Connection, name: str, cache: Path, dtype: str, threads: int) -> None:
    """Read the groups that come through the pipe; send seconds, processor seconds and log-probs."""
    set_thread_environment(os.environ, threads)
    import torch

    torch.set_num_threads(threads)
    reader = READERS[name](cache, dtype)
    idle = _peak_mib()
    for groups in iter(pipe.recv, None):
        before = time.perf_counter(), time.process_time()
        with torch.inference_mode():
            answers = reader(groups)
        wall, processor = time.perf_counter() - before[0], time.process_time() - before[1]
        pipe.send((wall, processor, idle, _peak_mib(), answers))


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _weighbridge(cache: Path, dtype: str) -> Reader:
    from engine.config import EngineConfig
    from engine.engine import load_engine

    engine = load_engine(EngineConfig(cache_dir=cache, dtype=dtype))
    return lambda groups: [
        [list(score.log_probs) for score in group.scores] for group in engine.read(groups)
    ]


def _plain_model(cache: Path, dtype: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    from engine.models import find_model

    folder = find_model("default", cache_dir=cache)
    return AutoModelForCausalLM.from_pretrained(folder.path, dtype=getattr(torch, dtype)).eval()


def _labels(logits: Any, group: Group) -> list[list[float]]:
    """logits [questions, 1, vocabulary]."""
    import torch

    log_probs = torch.log_softmax(logits[:, -1].float(), dim=-1)
    return [
        row[list(suffix.label_ids)].tolist()
        for row, suffix in zip(log_probs, group.suffixes, strict=True)
    ]


def _cached(cache: Path, dtype: str) -> Reader:
    import torch

    model = _plain_model(cache, dtype)

    def read(group: Group) -> list[list[float]]:
        past = model(torch.tensor([group.prefix_ids]), use_cache=True, logits_to_keep=1).cache
        rows = []
        for suffix in group.suffixes:
            ids = torch.tensor([suffix.token_ids])
            rows.append(model(ids, cache=past, use_cache=True, logits_to_keep=1).logits)
            past.crop(-len(suffix.token_ids))
        return _labels(torch.cat(rows), group)

    return lambda groups: [read(group) for group in groups]


def _cached_batched(cache: Path, dtype: str) -> Reader:
    import torch

    model = _plain_model(cache, dtype)

    def read(group: Group) -> list[list[float]]:
        past = model(torch.tensor([group.prefix_ids]), use_cache=True, logits_to_keep=1).cache
        past.batch_repeat_interleave(len(group.suffixes))
        ids = torch.tensor([suffix.token_ids for suffix in group.suffixes])
        return _labels(model(ids, cache=past, use_cache=True, logits_to_keep=1).logits, group)

    return lambda groups: [read(group) for group in groups]


def _whole_batched(cache: Path, dtype: str) -> Reader:
    import torch

    model = _plain_model(cache, dtype)

    def read(group: Group) -> list[list[float]]:
        ids = torch.tensor([group.prefix_ids + suffix.token_ids for suffix in group.suffixes])
        return _labels(model(ids, use_cache=False, logits_to_keep=1).logits, group)

    return lambda groups: [read(group) for group in groups]


READERS: dict[str, Callable[[Path, str], Reader]] = {
    "weighbridge": _weighbridge,
    "cached": _cached,
    "cached, batched": _cached_batched,
    "whole, batched": _whole_batched,
}
