"""Reads labels: groups of token ids in, label scores out.

plan -> prefill each state once -> read the suffixes packed -> labels. Knows no text and no questions.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch
import transformers
from transformers import PreTrainedModel

from engine.attention import Backend
from engine.config import EngineConfig
from engine.counters import Counters
from engine.kv import FORMATS, KVFormat
from engine.labels import read_labels
from engine.loading import choose_device, choose_dtype, device_name, load_model
from engine.model import CausalModel
from engine.models import find_model
from engine.plan import Prefix, Read, State, check, plan
from engine.prefixes import PrefixStore, StoredPrefix
from engine.results import Results
from engine.torch_attention import TorchAttention
from engine.types import EngineInfo, EngineStats, Group, GroupScores, LabelScores

#: Raise it with every change that may change a bit of a score.
ENGINE_VERSION = "2"


def load_engine(config: EngineConfig) -> "Engine":
    """Find, convert if need be, and load the configured model. Raises EngineError by name."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    folder = find_model(config.model, cache_dir=config.cache_dir, adapter=config.adapter)
    device = choose_device(config.device)
    model = load_model(folder, choose_dtype(config.dtype, device), device)
    return Engine(model, config, name=folder.name, revision=folder.revision)


def backend(name: str) -> Backend:
    """The attention called `name`; Triton is imported only for its own."""
    if name == "triton":
        from engine.triton_attention import TritonAttention

        return TritonAttention()
    return TorchAttention()


class Engine:
    """One model, its prefix store and its counters. One thread uses it at a time."""

    def __init__(
        self, model: PreTrainedModel, config: EngineConfig, *, name: str, revision: str
    ) -> None:
        """Take over a loaded model. Raises UnsupportedModel when it cannot be read exactly."""
        self._config = config
        self._model = CausalModel(
            model, name, backend(config.attention), reproducible=config.reproducible
        )
        self._kv_format = FORMATS[config.kv_format]
        self._store = PrefixStore(config.prefix_store_bytes)
        self._counters = Counters()
        self.info = self._describe(revision)

    @property
    def exact_info(self) -> EngineInfo:
        """What `read_exact` is recorded with."""
        return replace(self.info, kv_format="native")

    @property
    def stats(self) -> EngineStats:
        """Counters up to now."""
        return self._counters.snapshot(self._store)

    def read(self, groups: Sequence[Group]) -> list[GroupScores]:
        """Scores of every suffix, aligned with `groups`. Equal prefixes are prefilled once.

        Raises ContextTooLong or InvalidGroup before any work.
        """
        return self._read(groups, self._store, self._kv_format)

    def read_exact(self, groups: Sequence[Group]) -> list[GroupScores]:
        """As `read`, but from states as the model made them, which are dropped afterwards.

        For decisions that the stored form could have tipped. Recorded with `exact_info`.
        """
        return self._read(groups, PrefixStore(0), FORMATS["native"])

    @torch.inference_mode()
    def _read(
        self, groups: Sequence[Group], store: PrefixStore, kept_as: KVFormat
    ) -> list[GroupScores]:
        check(
            groups,
            context_tokens=self.info.context_tokens,
            vocabulary=self._model.vocabulary,
        )
        results = Results(groups)
        for step in plan(groups, self._config.max_tokens_per_pass):
            with self._holding(step.states, results, store, kept_as) as held:
                for reads in step.passes:
                    results.put(reads, self._read_pass(reads, held))
        return results.scores()

    def check_integrity(self) -> None:
        """Raise AssertionError when the store's books do not balance. Call it between reads."""
        self._store.check_integrity()

    def _read_pass(
        self, reads: Sequence[Read], held: Mapping[Prefix, StoredPrefix]
    ) -> Sequence[LabelScores]:
        hidden = self._model.last_hidden(reads, held)
        self._counters.read(reads)
        return read_labels(self._model.head, hidden, [read.suffix.label_ids for read in reads])

    @contextmanager
    def _holding(
        self, states: Sequence[State], results: Results, store: PrefixStore, kept_as: KVFormat
    ) -> Iterator[Mapping[Prefix, StoredPrefix]]:
        """The stored form of each state, prefilled now where it is missing, until the block ends."""
        held: dict[Prefix, StoredPrefix] = {}
        hold = partial(self._hold, store=store, kept_as=kept_as)
        try:
            prefixes = [state.prefix for state in states]
            new = [prefix.preamble for prefix in prefixes if prefix not in store]
            for preamble in hold(dict.fromkeys(p for p in new if p is not None), held):
                self._counters.preamble(len(preamble.token_ids))
            missing = hold(prefixes, held)
            for state in states:
                self._counters.look_up(state, hit=state.prefix not in missing)
                results.look_up(state, hit=state.prefix not in missing)
            yield held
        finally:
            for prefix in held.values():
                store.release(prefix)

    def _hold(
        self,
        prefixes: Iterable[Prefix],
        held: dict[Prefix, StoredPrefix],
        *,
        store: PrefixStore,
        kept_as: KVFormat,
    ) -> set[Prefix]:
        """Add each prefix to `held`, whose preambles are there. Returns those it had to prefill."""
        missing = []
        for prefix in prefixes:
            found = store.hold(prefix)
            if found is None:
                missing.append(prefix)
            else:
                held[prefix] = found
        if missing:
            parents = [held[p.preamble] if p.preamble else None for p in missing]
            for stored in self._model.prefill(list(zip(missing, parents, strict=True)), kept_as):
                store.add(stored)
                held[stored.prefix] = stored
        return set(missing)

    def _describe(self, revision: str) -> EngineInfo:
        dtype = str(self._model.dtype).removeprefix("torch.")
        return EngineInfo(
            model=self._model.name,
            revision=revision,
            dtype=dtype,
            kv_format=self._config.kv_format,
            attention=self._config.attention,
            engine_version=ENGINE_VERSION,
            device=device_name(self._model.device),
            threads=torch.get_num_threads(),
            context_tokens=self._model.context_tokens,
            reproducible=self._model.reproducible,
            libraries=f"torch {torch.__version__}, transformers {transformers.__version__}",
        )
