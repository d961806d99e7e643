"""A read's bits do not depend on which row of the pass it is."""

import torch

from engine.labels import Head, read_labels


def test_the_normaliser_of_a_read_has_the_same_bits_in_every_row() -> None:
    """`logaddexp` gives other bits in the rest that does not fill two vectors; 5 of 256 values differ."""
    torch.manual_seed(4)
    head = Head(weight=torch.randn(3 * 4096, 32), bias=None, scale=1.0, softcap=None)
    hidden = torch.randn(256, 32)
    labels = [(1, 5000)] * len(hidden)
    together = read_labels(head, hidden, labels)
    alone = [read_labels(head, hidden[i : i + 1], labels[:1])[0] for i in range(len(hidden))]
    assert alone == together
