"""Label log-probabilities against float64, and bits that the batch does not change."""

import torch

from kernels.label_read import label_read, label_read_reference


def test_labels_equal_float64_and_no_read_depends_on_its_batch() -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(18, 96).bfloat16(), (torch.randn(1203, 96) * 0.3).bfloat16()
    labels = [torch.randperm(1203)[:n] for n in torch.randint(1, 257, (18,)).tolist()]
    ours = label_read(hidden, weight, labels)
    truth = label_read_reference(hidden, weight, labels)
    for read, expected in zip(ours, truth, strict=True):
        assert (read.double() - expected).abs().max() < 1e-5
        assert read.exp().sum() <= 1 + 1e-6
    chosen = [11, 3, 17]
    again = label_read(hidden[chosen].contiguous(), weight, [labels[i] for i in chosen])
    for read, i in zip(again, chosen, strict=True):
        assert torch.equal(read, ours[i])
