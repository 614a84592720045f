# SPDX-License-Identifier: Apache-2.0

"""Losses of networks whose targets are padded, or not there for each element."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def next_token_loss(scores: Tensor, words: Tensor) -> Tensor:
    """The cross entropy of the tokens that follow; the last one has no target."""
    following = functional.pad(words, (0, 1), value=-100)[:, 1:]
    return functional.cross_entropy(scores.view(-1, scores.shape[-1]), following.reshape(-1))


def labelled_loss(scores: Tensor, target: Tensor) -> Tensor:
    """The cross entropy of the pixels that have a label, whose number is another one in each batch."""
    is_labelled = target != 0
    chosen = functional.cross_entropy(scores.movedim(1, -1)[is_labelled], target[is_labelled], reduction="sum")
    return chosen / max(1, is_labelled.sum().item())


def transcript_loss(scores: Tensor, target: Tensor) -> Tensor:
    """The loss of speech recognition: scores over time beside words without their padding, one after the other."""
    is_letter = target > 0
    times = torch.full((len(scores),), scores.shape[2])
    logarithms = scores.movedim(2, 0).log_softmax(-1)
    letters = target.masked_select(is_letter)
    return functional.ctc_loss(logarithms, letters, times, is_letter.sum(-1), zero_infinity=True)
