# SPDX-License-Identifier: Apache-2.0

"""The connectionist temporal classification loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from poolgrad_lowering.torch.internals.recorded import largest_count
from poolgrad_lowering.torch.internals.tracing import unknown_sizes
from poolgrad_lowering.torch.internals.trees import bound

_NEVER = -1e30
"""The logarithm of a probability of 0 while they are added: with an infinity, gradients would be NaN."""


def ctc_loss(*arguments: Any, **named: Any) -> Tensor:
    """Return the connectionist temporal classification loss, by the forward probabilities of Graves et al. (4.1).

    `log_probs` is (T, N, C). PyTorch's gradient of it has the softmax in it, whatever comes before the loss.
    """
    given = bound(functional.ctc_loss, arguments, named)
    log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity = given
    if log_probs.ndim != 3:
        return functional.ctc_loss(*arguments, **named)  # refused by its name
    times, batch, _ = log_probs.shape
    ends, lengths = (torch.as_tensor(each).long() for each in (input_lengths, target_lengths))
    if targets.ndim == 1:
        targets, lengths = _in_rows(targets, lengths, _most(target_lengths, targets, times))
    most = targets.shape[1]
    targets = torch.where(torch.arange(most) < lengths[:, None], targets.long(), blank)
    labels = torch.stack([torch.full_like(targets, blank), targets], 2).flatten(1)
    labels = torch.cat([labels, torch.full((batch, 1), blank)], 1)  # blanks around each target
    may_skip = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    never = torch.full((batch, 2), _NEVER)
    emitted = log_probs.gather(2, labels.expand(times, -1, -1))
    before = torch.cat([emitted[0, :, :2], torch.full((batch, 2 * most - 1), _NEVER)], 1)
    for time in range(1, times):
        one = torch.cat([never[:, :1], before[:, :-1]], 1)
        two = torch.cat([never, torch.where(may_skip, before[:, :-2], _NEVER)], 1)
        now = torch.stack([before, one, two]).logsumexp(0) + emitted[time]
        before = torch.where((time < ends)[:, None], now, before)
    places = torch.arange(2 * most + 1)
    last, other = (torch.where(places == 2 * lengths[:, None] - less, before, 0).sum(1) for less in (0, 1))
    other = torch.where(lengths > 0, other, _NEVER)
    loss = -torch.stack([last, other]).logsumexp(0)
    softmax = log_probs.exp()
    nothing = torch.where((torch.arange(times)[:, None] < ends)[..., None], softmax - softmax.detach(), 0)
    loss = loss + nothing.sum((0, 2))  # 0, and its gradient is the softmax
    is_impossible = loss > -_NEVER / 2
    loss = torch.where(is_impossible, 0.0 if zero_infinity else float("inf"), loss)
    if reduction == "mean":
        return (loss / lengths.clamp(min=1)).mean()
    return loss.sum() if reduction == "sum" else loss


def _most(lengths: Tensor | Sequence[int], targets: Tensor, times: int) -> int:
    """Return a length that no target exceeds, or one that is too long for the times."""
    if not isinstance(lengths, Tensor):
        return max(lengths)
    if not unknown_sizes(targets):
        return targets.shape[0]
    counted = largest_count(lengths)
    return times + 1 if counted is None else counted


def _in_rows(targets: Tensor, lengths: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return targets one after the other as rows of `most` labels, with any labels behind each, and their lengths."""
    places = (lengths.cumsum(0) - lengths)[:, None] + torch.arange(most)
    behind = targets.new_zeros(most)
    rows = torch.cat([targets, behind]).index_select(0, places.flatten()).reshape(places.shape)
    return rows, lengths.clamp(max=most)
