# SPDX-License-Identifier: Apache-2.0

"""Writers of gradients of maxima that no MaxPool records: by ArgMax, and of pools written out by gathers."""

from __future__ import annotations

from tests.generators.recorded import Written, add_rows, zeros
from tests.generators.sites import Pooling
from tests.generators.windows import AdaptiveWindows, AxisWindow, PoolWindows
from tests.generators.writer import Writer
from tests.patterns import written_out


def global_maximum(write: Writer, site: Pooling, x: str) -> Written:
    """PyTorch's AdaptiveMaxPool(1): ArgMax over flattened planes."""
    axes = list(range(2, 2 + site.rank))
    y = write.reduce_max(x, axes, keepdims=True)
    flat = write("Reshape", x, [-1 if site.dynamic else site.x_shape[0], site.x_shape[1], site.plane])
    best = write("ArgMax", flat, axis=-1, keepdims=0)

    def backward(dy: str) -> str:
        for _ in axes:
            views.append(write.unsqueeze(views[-1], -1))
        return add_rows(write, site, x, views[-1], dy)

    views = [best]
    return y, backward


def axis_maximum(write: Writer, site: Pooling, x: str) -> Written:
    """torch.max(x, dim): a scatter along the axis; one index a line, so that overwriting and adding are the same."""
    assert isinstance(site.windows, AxisWindow)
    axis, kept = site.windows.axis, site.spelling.extra
    y = write.reduce_max(x, [axis], keepdims=kept)
    best = write("ArgMax", x, axis=axis, keepdims=int(kept))
    adds = {"reduction": "add"} if write.opset >= 16 and not site.is_half and site.spelling.remainder else {}

    def backward(dy: str) -> str:
        index, updates = (best, dy) if kept else (write.unsqueeze(best, axis), write.unsqueeze(dy, axis))
        shape = [-1 if site.dynamic else site.x_shape[0], *site.x_shape[1:]]
        base = zeros(write, site, shape, x, site.element_type)
        return write("ScatterElements", base, index, updates, axis=axis, **adds)

    return y, backward


def written_pool(write: Writer, site: Pooling, x: str) -> Written:
    """torch's decomposition of max_pool2d: windows by GatherND."""
    assert isinstance(site.windows, PoolWindows)
    rows, columns = site.windows.axes
    model = written_out.pool(
        (site.x_shape[2], site.x_shape[3]),
        (rows.kernel, columns.kernel),
        (rows.stride, columns.stride),
        begins=(rows.begin, columns.begin),
        ends=(rows.end, columns.end),
        dilations=(rows.dilation, columns.dilation),
    )
    return x, lambda dy: write.splice(model, [x, dy])[1]


def written_adaptive_pool(write: Writer, site: Pooling, x: str) -> Written:
    """A user's decomposition of an adaptive pool: windows by Gather and a mask."""
    assert isinstance(site.windows, AdaptiveWindows)
    batch, channels, *sizes = site.x_shape
    model = written_out.adaptive(sizes, site.windows.counts, planes=(batch, channels))
    return x, lambda dy: write.splice(model, [x, dy])[1]
