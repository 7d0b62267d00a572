"""The first layers of small convolutional networks, compiled for one core of a CPU.

A *stem* is what a network begins with: convolution, tanh or relu, maximum pooling, once or more.
An example passes through it in the innermost cache, and so does its gradient, which is clipped and
added to the sum before the next example's overwrites it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import nn

from lib.training.stem_loops import Rows, _clipped, _outputs, _summed

_ROWS = 256  # that pass through a stem one after another, and whose activations are kept together
_PIECE = 64  # examples that are one thread's work, however many there are: sums do not depend on it

_FIELDS = (
    # What goes into a layer, and how many channels leave it
    "channels",
    "high",
    "wide",
    "outputs",
    # The kernel, its steps, and the zeros around what goes in
    "kernel_high",
    "kernel_wide",
    "stride_high",
    "stride_wide",
    "pad_high",
    "pad_wide",
    # What leaves the convolution, and what leaves the pooling of windows of `pool` x `pool`
    "out_high",
    "out_wide",
    "pool",
    "pool_stride",
    "pooled_high",
    "pooled_wide",
    # 1 for relu, 0 for tanh; where its weights begin, and what is kept of a row
    "relu",
    "weight",
    "kept",
)
_SHAPE = np.dtype((np.record, [(name, np.int64) for name in _FIELDS]))


def split(network: nn.Module, x: torch.Tensor) -> tuple["Stem | None", nn.Module]:
    """The stem that `network` begins with, if it can be compiled for `x`, and the other layers."""
    fits = x.device.type == "cpu" and x.dtype == torch.float32 and not x.requires_grad
    if not (fits and isinstance(network, nn.Sequential)) or torch.is_autocast_enabled("cpu"):
        return None, network
    layers, shape, groups = list(network), x.shape[1:], []
    while (group := _group(layers[3 * len(groups) : 3 * len(groups) + 3], shape)) is not None:
        groups.append(group)
        shape = (group["outputs"], group["pooled_high"], group["pooled_wide"])
    if not groups or len(layers) == 3 * len(groups):
        return None, network
    after = 3 * len(groups)
    return Stem([layers[i] for i in range(0, after, 3)], groups), nn.Sequential(*layers[after:])


def forward(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """``network(x)``, compiled where that is possible; knows first derivatives by weights alone."""
    stem, rest = split(network, x)
    if stem is None:
        return network(x)
    if torch.is_grad_enabled():
        return rest(_Apply.apply(stem, x, *stem.parameters))
    return rest(torch.cat([stem.outputs(rows)[0] for rows in x.split(_ROWS)]))


def _group(layers: list[nn.Module], shape: tuple[int, ...]) -> dict[str, int] | None:
    """Numbers of a convolution with activation and pooling, or None if they are of other kinds."""
    if len(layers) < 3 or len(shape) != 3:
        return None
    conv, act, pool = layers
    plain = (
        type(conv) is nn.Conv2d
        and (conv.groups, conv.dilation, conv.padding_mode) == (1, (1, 1), "zeros")
        and not isinstance(conv.padding, str)
        and (conv.bias is not None and conv.weight.dtype == torch.float32)
        and conv.in_channels == shape[0]
        and conv.out_channels % 4 == 0
        and type(act) in (nn.Tanh, nn.ReLU)
        and isinstance(pool, nn.MaxPool2d)
        and isinstance(pool.kernel_size, int)
        and isinstance(pool.stride, int)
        and (pool.padding, pool.dilation, pool.ceil_mode) == (0, 1, False)
    )
    if not plain:
        return None
    out = [
        (shape[1 + i] + 2 * conv.padding[i] - conv.kernel_size[i]) // conv.stride[i] + 1
        for i in range(2)
    ]
    pooled = [(size - pool.kernel_size) // pool.stride + 1 for size in out]
    if min(pooled) < 1 or pool.kernel_size > 16:
        return None
    pairs = (conv.kernel_size, conv.stride, conv.padding, out, (pool.kernel_size, pool.stride))
    values = (*shape, conv.out_channels, *(v for pair in pairs for v in pair), *pooled)
    return dict(zip(_FIELDS, (*values, int(type(act) is nn.ReLU)), strict=False))


class Stem:
    """Layers, and how large their inputs are; :func:`split` makes them."""

    def __init__(self, convolutions: list[nn.Conv2d], groups: list[dict[str, int]]):
        self.convolutions = convolutions
        self.parameters = [p for conv in convolutions for p in (conv.weight, conv.bias)]
        weight = kept = 0
        for conv, group in zip(convolutions, groups, strict=True):
            group |= {"weight": weight, "kept": kept}
            weight += conv.weight.numel() + conv.bias.numel()
            kept += group["outputs"] * group["pooled_high"] * group["pooled_wide"]
        self._shapes = np.array([tuple(g[name] for name in _FIELDS) for g in groups], _SHAPE)
        self._last, self._kept, self._size = groups[-1], kept, weight
        self._weights = np.concatenate([_last_channels(p.detach()) for p in self.parameters])

    def outputs(self, x: torch.Tensor) -> tuple[torch.Tensor, tuple]:
        """What the last layer gives, and what :meth:`summed` and :meth:`clipped` need of it."""
        images = x.detach().permute(0, 2, 3, 1).flatten(1).contiguous().numpy()
        kept = np.empty((len(x), self._kept), np.float32)
        codes = np.empty(kept.shape, np.uint8)

        def run(rows):
            _outputs(images[rows], self._weights, self._shapes, kept[rows], codes[rows])

        _each(run, len(x))
        shape = [self._last[name] for name in ("pooled_high", "pooled_wide", "outputs")]
        ends = torch.from_numpy(kept[:, self._last["kept"] :]).view(len(x), *shape)
        return ends.permute(0, 3, 1, 2).contiguous(), (images, kept, codes)

    def summed(self, passed: tuple, slopes: torch.Tensor) -> torch.Tensor:
        """Gradient (p,) of the weights, summed over all rows, from slopes of the outputs."""
        arrays = (*passed, _rows(slopes))

        def run(rows):
            total = np.zeros(self._size, np.float32)
            pieces = Rows(*(array[rows] for array in arrays))
            _summed(pieces, self._weights, self._shapes, total)
            return total

        return self._flat(_each(run, len(slopes)))

    def clipped(
        self,
        passed: tuple,
        slopes: torch.Tensor,
        others: torch.Tensor,
        clipping_norm: float,
        copies: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Sum (p,) of clipped per-example gradients, and their squared norms.

        `others` are squared norms of what the rest of the network adds to an example's gradient.
        Nothing is added of examples that float32 is not enough for (:mod:`lib.training.clipping`).
        """
        arrays, squares = (*passed, _rows(slopes)), others.numpy().copy()
        norm = np.float32(clipping_norm)

        def run(examples):
            rows = slice(examples.start * copies, examples.stop * copies)
            total, pieces = np.zeros(self._size, np.float32), Rows(*(a[rows] for a in arrays))
            _clipped(pieces, self._weights, self._shapes, norm, squares[examples], total)
            return total

        return self._flat(_each(run, len(squares))), torch.from_numpy(squares)

    def written(
        self, passed: tuple, slopes: torch.Tensor, examples: list[int], copies: int
    ) -> torch.Tensor:
        """Gradients (n, p) of single examples, averaged over their copies."""
        pieces = [slice(i * copies, (i + 1) * copies) for i in examples]
        each = [self.summed(tuple(a[rows] for a in passed), slopes[rows]) for rows in pieces]
        return torch.stack(each) / copies

    def _flat(self, totals: list[np.ndarray]) -> torch.Tensor:
        """The sum, in PyTorch's order."""
        total, parts, start = sum(totals, np.zeros(self._size, np.float32)), [], 0
        for p in self.parameters:
            part = torch.from_numpy(total[start : start + p.numel()])
            if p.dim() == 4:
                channels, high, wide = p.shape[1:]
                part = part.view(-1, high, wide, channels).permute(0, 3, 1, 2).reshape(-1)
            parts.append(part)
            start += p.numel()
        return torch.cat(parts)


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, stem, x, *parameters):
        ends, passed = zip(*(stem.outputs(rows) for rows in x.split(_ROWS)), strict=True)
        ctx.stem, ctx.passed = stem, passed
        return torch.cat(ends)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, slopes):
        parts = zip(ctx.passed, slopes.split(_ROWS), strict=True)
        flat = sum(ctx.stem.summed(passed, slope) for passed, slope in parts)
        sizes = [p.numel() for p in ctx.stem.parameters]
        pieces = zip(flat.split(sizes), ctx.stem.parameters, strict=True)
        return None, None, *(piece.view_as(p) for piece, p in pieces)


def _each(run: Callable[[slice], np.ndarray | None], count: int) -> list:
    """Do the pieces of some work, in as many threads as PyTorch may use here."""
    pieces = [slice(i, min(i + _PIECE, count)) for i in range(0, count, _PIECE)]
    threads = min(len(pieces), torch.get_num_threads())
    if threads < 2:
        return [run(piece) for piece in pieces]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, pieces))


def _last_channels(p: torch.Tensor) -> np.ndarray:
    return (p.permute(0, 2, 3, 1) if p.dim() == 4 else p).reshape(-1).numpy()


def _rows(slopes: torch.Tensor) -> np.ndarray:
    return slopes.detach().float().permute(0, 2, 3, 1).flatten(1).contiguous().numpy()
