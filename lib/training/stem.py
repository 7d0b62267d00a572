"""The first layers of small convolutional networks, compiled for one core of a CPU.

A *stem* is what a network begins with: convolution, tanh or relu, maximum pooling, once or more.
An example passes through it in the innermost cache, and so does its gradient, which is clipped and
added to the sum before the next example's overwrites it.
"""

import numpy as np
import torch
from numba import njit
from torch import nn

from lib.training.kernel_layers import _MATH, _activate

__all__ = ["Stem", "forward", "split"]

#: Rows that are passed through a stem at once, each chunk with memory of its own.
ROWS = 256

_GUARD = np.float32(1e-6)  # as in Opacus
_LARGEST = np.finfo(np.float32).max
_FIELDS = (
    *("channels", "high", "wide", "outputs", "kernel_high", "kernel_wide"),
    *("stride_high", "stride_wide", "pad_high", "pad_wide", "out_high", "out_wide"),
    *("pool", "pool_stride", "pooled_high", "pooled_wide", "relu", "weight", "kept"),
)
_1, _2, _3 = np.uint64(1), np.uint64(2), np.uint64(3)
_SHAPE = np.dtype([(name, np.int64) for name in _FIELDS])
_compiled = njit(fastmath=_MATH, nogil=True, cache=True, error_model="numpy")


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
    return rest(torch.cat([stem.outputs(rows)[0] for rows in x.split(ROWS)]))


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
        _outputs(images, self._weights, self._shapes, kept, codes)
        shape = [self._last[name] for name in ("pooled_high", "pooled_wide", "outputs")]
        ends = torch.from_numpy(kept[:, self._last["kept"] :]).view(len(x), *shape)
        return ends.permute(0, 3, 1, 2).contiguous(), (images, kept, codes)

    def summed(self, passed: tuple, slopes: torch.Tensor) -> torch.Tensor:
        """Gradient (p,) of the weights, summed over all rows, from slopes of the outputs."""
        total = np.zeros(self._size, np.float32)
        _summed((*passed, _rows(slopes)), self._weights, self._shapes, total)
        return self._flat(total)

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
        Where the norm is infinite or NaN nothing is added.
        """
        total, squares = np.zeros(self._size, np.float32), others.numpy().copy()
        rows = (*passed, _rows(slopes))
        _clipped(rows, self._weights, self._shapes, np.float32(clipping_norm), squares, total)
        return self._flat(total), torch.from_numpy(squares)

    def _flat(self, total: np.ndarray) -> torch.Tensor:
        """In PyTorch's order."""
        parts, start = [], 0
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
        ends, passed = zip(*(stem.outputs(rows) for rows in x.split(ROWS)), strict=True)
        ctx.stem, ctx.passed = stem, passed
        return torch.cat(ends)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, slopes):
        parts = zip(ctx.passed, slopes.split(ROWS), strict=True)
        flat = sum(ctx.stem.summed(passed, slope) for passed, slope in parts)
        sizes = [p.numel() for p in ctx.stem.parameters]
        pieces = zip(flat.split(sizes), ctx.stem.parameters, strict=True)
        return None, None, *(piece.view_as(p) for piece, p in pieces)


def _last_channels(p: torch.Tensor) -> np.ndarray:
    return (p.permute(0, 2, 3, 1) if p.dim() == 4 else p).reshape(-1).numpy()


def _rows(slopes: torch.Tensor) -> np.ndarray:
    return slopes.detach().float().permute(0, 2, 3, 1).flatten(1).contiguous().numpy()


@_compiled
def _scratch(shapes):
    """Memory for one example: patches, their slopes, outputs, slopes of the pooled, places."""
    patches = places = pooled = 0
    for g in shapes:
        high, width = g.high + 2 * g.pad_high, g.kernel_wide * g.channels
        patches = max(patches, g.out_wide * high * width)
        places = max(places, (g.out_high * g.out_wide + 3) * g.outputs)
        pooled = max(pooled, g.pooled_high * g.pooled_wide * g.outputs)
    f = np.float32
    return (
        np.empty(patches, f),
        np.empty(patches, f),
        np.empty(places, f),
        (np.empty(pooled, f), np.empty(pooled, f)),
    )


@_compiled
def _starts(g):
    """Where each place's patch starts; 3 more for blocks of places that are not full."""
    n = g.out_high * g.out_wide
    starts = np.zeros(n + 3, np.uint64)
    high, width = g.high + 2 * g.pad_high, g.kernel_wide * g.channels
    for p in range(n):
        i, j = p // g.out_wide, p % g.out_wide
        starts[p] = (j * high + i * g.stride_high) * width
    return starts


@_compiled
def _unfold(x, g, u):
    """Write strips of the kernel's width side by side: then each patch is a piece of `u`."""
    high, width = g.high + 2 * g.pad_high, g.kernel_wide * g.channels
    u[: g.out_wide * high * width] = 0
    for j in range(g.out_wide):
        left = j * g.stride_wide - g.pad_wide
        first, last = max(0, -left), min(g.kernel_wide, g.wide - left)
        n = np.uint64((last - first) * g.channels)
        whole = n - n % np.uint64(4)
        for y in range(g.high):
            to = np.uint64((j * high + y + g.pad_high) * width + first * g.channels)
            of = np.uint64((y * g.wide + left + first) * g.channels)
            for k in range(np.uint64(0), whole, np.uint64(4)):  # becomes one move
                a, b, c, d = x[of + k], x[of + k + _1], x[of + k + _2], x[of + k + _3]
                u[to + k], u[to + k + _1], u[to + k + _2], u[to + k + _3] = a, b, c, d
            for k in range(whole, n):
                u[to + k] = x[of + k]


@_compiled
def _fold(u, g, x):
    """Add the strips up where they came from."""
    high, width = g.high + 2 * g.pad_high, g.kernel_wide * g.channels
    x[: g.channels * g.high * g.wide] = 0
    for j in range(g.out_wide):
        left = j * g.stride_wide - g.pad_wide
        first, last = max(0, -left), min(g.kernel_wide, g.wide - left)
        for y in range(g.high):
            of = np.uint64((j * high + y + g.pad_high) * width + first * g.channels)
            to = np.uint64((y * g.wide + left + first) * g.channels)
            for k in range(np.uint64((last - first) * g.channels)):
                x[to + k] += u[of + k]


@_compiled
def _convolve(u, starts, w, g, z):
    """Outputs z (places, outputs); four outputs at two places at a time."""
    size = np.uint64(g.kernel_high * g.kernel_wide * g.channels)
    n = g.out_high * g.out_wide
    bias = g.weight + g.outputs * g.kernel_high * g.kernel_wide * g.channels
    for o in range(0, g.outputs, 4):
        w0 = np.uint64(g.weight) + np.uint64(o) * size
        w1, w2, w3 = w0 + size, w0 + size + size, w0 + size + size + size
        for p in range(0, n, 2):
            q = min(p + 1, n - 1)
            a, b = starts[p], starts[q]
            s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = np.float32(0)
            for k in range(size):
                x, y = u[a + k], u[b + k]
                v0, v1, v2, v3 = w[w0 + k], w[w1 + k], w[w2 + k], w[w3 + k]
                s0 += x * v0
                s1 += x * v1
                s2 += x * v2
                s3 += x * v3
                t0 += y * v0
                t1 += y * v1
                t2 += y * v2
                t3 += y * v3
            to, also = p * g.outputs + o, q * g.outputs + o
            z[to], z[to + 1] = s0 + w[bias + o], s1 + w[bias + o + 1]
            z[to + 2], z[to + 3] = s2 + w[bias + o + 2], s3 + w[bias + o + 3]
            z[also], z[also + 1] = t0 + w[bias + o], t1 + w[bias + o + 1]
            z[also + 2], z[also + 3] = t2 + w[bias + o + 2], t3 + w[bias + o + 3]


@_compiled
def _pool(z, g, out, codes):
    """Largest of each window, and its number there; of equal ones the first, NaN before all."""
    for i in range(g.pooled_high):
        for j in range(g.pooled_wide):
            to = (i * g.pooled_wide + j) * g.outputs
            corner = (i * g.out_wide + j) * g.pool_stride
            for o in range(g.outputs):
                best, number = z[corner * g.outputs + o], 0
                for code in range(1, g.pool * g.pool):
                    at = corner + code // g.pool * g.out_wide + code % g.pool
                    value = z[at * g.outputs + o]
                    if value > best or value != value:
                        best, number = value, code
                out[to + o], codes[to + o] = best, number


@_compiled
def _pool_fours(z, g, best, out, codes):
    """The same for windows of 2 x 2, in long loops without branches, which are vectorised."""
    dense = g.pool_stride == 1  # then the windows of a row are one long piece of memory
    pieces = 1 if dense else g.pooled_wide
    n = np.uint64(g.pooled_wide * g.outputs if dense else g.outputs)
    right, down = np.uint64(g.outputs), np.uint64(g.out_wide * g.outputs)
    for i in range(g.pooled_high):
        for piece in range(pieces):
            to = np.uint64(i * g.pooled_wide * g.outputs) + np.uint64(piece) * n
            at = np.uint64((i * g.out_wide + piece) * g.pool_stride * g.outputs)
            for k in range(n):
                top, number = z[at + k], np.int32(0)
                a, b, c = z[at + right + k], z[at + down + k], z[at + down + right + k]
                larger = (a > top) | (a != a)
                top, number = a if larger else top, np.int32(1) if larger else number
                larger = (b > top) | (b != b)
                top, number = b if larger else top, np.int32(2) if larger else number
                larger = (c > top) | (c != c)
                out[to + k] = c if larger else top
                best[k] = np.int32(3) if larger else number
            for k in range(n):
                codes[to + k] = np.uint8(best[k])


@_compiled
def _unpool(slopes, out, codes, g, e):
    """Slopes of the convolution's outputs e (places, outputs), from those of the pooled."""
    e[: (g.out_high * g.out_wide + 3) * g.outputs] = 0
    one, zero = np.float32(1), np.float32(0)
    total = np.uint64(g.pooled_high * g.pooled_wide * g.outputs)
    if g.relu:
        for k in range(total):
            slopes[k] = zero if out[k] <= zero else slopes[k]
    else:
        for k in range(total):
            slopes[k] *= one - out[k] * out[k]
    dense = g.pool_stride == 1
    pieces = 1 if dense else g.pooled_wide
    n = np.uint64(g.pooled_wide * g.outputs if dense else g.outputs)
    for i in range(g.pooled_high):
        for piece in range(pieces):
            of = np.uint64(i * g.pooled_wide * g.outputs) + np.uint64(piece) * n
            for code in range(g.pool * g.pool):
                row = i * g.pool_stride + code // g.pool
                column = piece * g.pool_stride + code % g.pool
                at = np.uint64((row * g.out_wide + column) * g.outputs)
                number = np.uint8(code)
                for k in range(n):
                    e[at + k] += slopes[of + k] if codes[of + k] == number else zero


@_compiled
def _weight_slopes(u, starts, e, g, total):
    """Add one example's gradient of a layer's weights and biases."""
    size = np.uint64(g.kernel_high * g.kernel_wide * g.channels)
    n = g.out_high * g.out_wide
    bias = g.weight + g.outputs * g.kernel_high * g.kernel_wide * g.channels
    for p in range(n):
        for o in range(g.outputs):
            total[bias + o] += e[p * g.outputs + o]
    for o in range(0, g.outputs, 2):
        a = np.uint64(g.weight) + np.uint64(o) * size
        b = a + size
        for p in range(0, n, 4):
            r0 = p * g.outputs + o
            r1, r2, r3 = r0 + g.outputs, r0 + 2 * g.outputs, r0 + 3 * g.outputs
            f0, f1, f2, f3 = e[r0], e[r1], e[r2], e[r3]
            h0, h1, h2, h3 = e[r0 + 1], e[r1 + 1], e[r2 + 1], e[r3 + 1]
            s0, s1, s2, s3 = starts[p], starts[p + 1], starts[p + 2], starts[p + 3]
            for k in range(size):
                x0, x1, x2, x3 = u[s0 + k], u[s1 + k], u[s2 + k], u[s3 + k]
                total[a + k] += f0 * x0 + f1 * x1 + f2 * x2 + f3 * x3
                total[b + k] += h0 * x0 + h1 * x1 + h2 * x2 + h3 * x3


@_compiled
def _input_slopes(e, starts, w, g, u):
    """Slopes of the patches, added up where patches overlap."""
    size = np.uint64(g.kernel_high * g.kernel_wide * g.channels)
    u[: g.out_wide * (g.high + 2 * g.pad_high) * g.kernel_wide * g.channels] = 0
    for o in range(0, g.outputs, 4):
        w0 = np.uint64(g.weight) + np.uint64(o) * size
        w1, w2, w3 = w0 + size, w0 + size + size, w0 + size + size + size
        for p in range(0, g.out_high * g.out_wide, 2):
            r, s = p * g.outputs + o, (p + 1) * g.outputs + o
            a, b = starts[p], starts[p + 1]
            f0, f1, f2, f3 = e[r], e[r + 1], e[r + 2], e[r + 3]
            h0, h1, h2, h3 = e[s], e[s + 1], e[s + 2], e[s + 3]
            for k in range(size):
                v0, v1, v2, v3 = w[w0 + k], w[w1 + k], w[w2 + k], w[w3 + k]
                u[a + k] += f0 * v0 + f1 * v1 + f2 * v2 + f3 * v3
                u[b + k] += h0 * v0 + h1 * v1 + h2 * v2 + h3 * v3


@_compiled
def _outputs(images, w, shapes, kept, codes):
    u, _, z, _ = _scratch(shapes)
    best = np.empty(z.shape[0], np.int32)
    width = np.int64(64)
    for layer in range(shapes.shape[0]):
        g = shapes[layer]
        starts = _starts(g)
        last = shapes[max(layer - 1, 0)]
        end = g.kept + g.pooled_high * g.pooled_wide * g.outputs
        length = g.pooled_wide * g.outputs
        scratch, bits = np.empty((2, length), np.float32), np.empty(length, np.int32)
        powers = bits.view(np.float32)
        for row in range(images.shape[0]):
            x = images[row] if layer == 0 else kept[row, last.kept : g.kept]
            _unfold(x, g, u)
            _convolve(u, starts, w, g, z)
            out = kept[row, g.kept : end]
            if g.pool == 2:
                _pool_fours(z, g, best, out, codes[row, g.kept : end])
            else:
                _pool(z, g, out, codes[row, g.kept : end])
            planes = out.reshape((g.pooled_high, length))
            _activate(planes, g.pooled_high, g.relu, scratch, bits, powers, length)


@_compiled
def _add_gradient(rows, row, w, shapes, starts, scratch, total):
    """Add one row's gradient of all weights to `total`."""
    images, kept, codes, slopes = rows
    u, du, e, both = scratch
    deep = shapes.shape[0] - 1
    size = slopes.shape[1]
    both[deep % 2][:size] = slopes[row]
    for layer in range(deep, -1, -1):
        g = shapes[layer]
        end = g.kept + g.pooled_high * g.pooled_wide * g.outputs
        _unpool(both[layer % 2], kept[row, g.kept : end], codes[row, g.kept : end], g, e)
        x = images[row] if layer == 0 else kept[row, shapes[layer - 1].kept : g.kept]
        _unfold(x, g, u)
        _weight_slopes(u, starts[layer], e, g, total)
        if layer > 0:
            _input_slopes(e, starts[layer], w, g, du)
            _fold(du, g, both[(layer - 1) % 2])


@_compiled
def _summed(rows, w, shapes, total):
    scratch, starts = _scratch(shapes), [_starts(g) for g in shapes]
    for row in range(rows[0].shape[0]):
        _add_gradient(rows, row, w, shapes, starts, scratch, total)


@_compiled
def _clipped(rows, w, shapes, clipping_norm, squares, total):
    """`squares` come as those of the other layers, and leave as those of all."""
    scratch, starts = _scratch(shapes), [_starts(g) for g in shapes]
    mine = np.empty(total.shape[0], np.float32)
    copies = rows[0].shape[0] // max(1, squares.shape[0])
    share = np.float32(1) / np.float32(max(1, copies))
    for example in range(squares.shape[0]):
        mine[:] = 0
        for copy in range(copies):
            _add_gradient(rows, example * copies + copy, w, shapes, starts, scratch, mine)
        square = np.float32(0)
        for k in range(mine.shape[0]):
            square += mine[k] * mine[k]
        squares[example] += square * share * share
        if squares[example] <= _LARGEST:
            norm = np.sqrt(squares[example]) + _GUARD
            factor = share * min(np.float32(1), clipping_norm / norm)
            for k in range(mine.shape[0]):
                total[k] += factor * mine[k]
