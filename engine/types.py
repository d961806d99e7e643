"""The engine's vocabulary: token ids in, label scores out.

Values only, standard library only. Knows no text, no question, no tensor.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Suffix:
    """One question about a state, as tokens."""

    #: Tokens after the prefix; at least one.
    token_ids: tuple[int, ...]
    #: The tokens whose probability is read after the last suffix token; at least one.
    label_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One state and the questions about it."""

    #: Tokens up to and including the state; at least one.
    prefix_ids: tuple[int, ...]
    #: What is asked about it.
    suffixes: tuple[Suffix, ...]
    #: How many of its first tokens other states share (system prompt, preamble of the template).
    #: They are prefilled by themselves and stored once; 0 for none. Part of what gives a read its
    #: bits, so it must follow from the prompt, not from what else is read.
    shared_tokens: int = 0
    #: Prefixes are shared only between groups of the same salt: one per tenant, or empty for all.
    salt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelScores:
    """What one read returns."""

    #: Log-probability of each label over the full vocabulary, in the order of `label_ids`.
    #: May be non-finite when the model is; the caller decides what that means.
    log_probs: tuple[float, ...]
    #: The most probable token of the vocabulary; the smallest id among equals.
    argmax_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScores:
    """The reads of one group, and what they cost."""

    #: Aligned with `Group.suffixes`.
    scores: tuple[LabelScores, ...]
    #: Tokens of the prefix that this group had computed; 0 when all were stored or came earlier.
    prefilled_tokens: int
    #: Tokens of the prefix that were found stored.
    cached_tokens: int
    #: Tokens of all suffixes.
    suffix_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """Everything that a stored decision records about who read it."""

    #: The model's name, as its manifest or its hub gives it.
    model: str
    #: Changes with the weights, the adapter and the conversion.
    revision: str
    #: float32 or bfloat16.
    dtype: str
    #: How a state's keys and values are stored.
    kv_format: str
    #: The attention backend.
    attention: str
    #: Changes whenever the engine's bits may change.
    engine_version: str
    #: cpu or cuda, with the processor's name.
    device: str
    #: Threads of one forward pass.
    threads: int
    #: The longest prompt (prefix + suffix) in tokens.
    context_tokens: int
    #: Whether a read's bits depend on its prompt and on this record alone.
    reproducible: bool
    #: Versions of the libraries that do the arithmetic.
    libraries: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """Counters since the engine was built; each only grows, but for `stored_*`."""

    #: States prefilled.
    prefills: int = 0
    #: Preambles prefilled, that several states share.
    preamble_prefills: int = 0
    #: Tokens of both.
    prefilled_tokens: int = 0
    #: Prompts read.
    reads: int = 0
    #: Suffix tokens computed.
    suffix_tokens: int = 0
    #: Groups whose state was found stored or earlier in the same call.
    prefix_hits: int = 0
    #: Groups whose state had to be prefilled.
    prefix_misses: int = 0
    #: Tokens that a hit did not have to compute.
    tokens_saved: int = 0
    #: States and preambles dropped from the store to make room.
    evictions: int = 0
    #: States and preambles stored now.
    stored_prefixes: int = 0
    #: Bytes that they take now.
    stored_bytes: int = 0
