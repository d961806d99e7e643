"""How far a stored form may move an answer: what a caller allows for before it trusts a threshold.

Changes against states stored as the model made them, same weights: about twice the worst of a hundred
reads of the default model (docs/log.md). A test holds every form to its row.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The largest changes that are expected."""

    #: Of a label's probability among the labels, in one read.
    probability: float
    #: The same on average.
    mean_probability: float
    #: Of the label mass, in one read.
    label_mass: float


#: By the name of the KV format.
BUDGETS = {
    "native": Budget(probability=0.0, mean_probability=0.0, label_mass=0.0),
    "bf16": Budget(probability=0.01, mean_probability=0.003, label_mass=0.01),
    "int8": Budget(probability=0.02, mean_probability=0.006, label_mass=0.02),
    "fp8_e4m3": Budget(probability=0.06, mean_probability=0.015, label_mass=0.05),
    "k8v4": Budget(probability=0.08, mean_probability=0.025, label_mass=0.05),
    "nvfp4": Budget(probability=0.15, mean_probability=0.05, label_mass=0.20),
}
