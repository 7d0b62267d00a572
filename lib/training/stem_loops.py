"""Compiled loops on one example at a time, which :mod:`lib.training.stem` is made of.

Channels lie last: an image is ``x[(row * wide + column) * channels + channel]``.  For the
convolution it is written into strips, one for each column j of the outputs, as wide as the kernel
and as high as the image with its padding::

    image, 4 wide, kernel 3 wide              u: the strips, one after another
                                              +---------+---------+
    a b c d                                   | a b c   | b c d   |
    e f g h         ->                        | e f g   | f g h   |
    i j k l                                   | i j k   | j k l   |
    m n o p                                   | m n o   | n o p   |
                                              +---------+---------+
                                                j = 0     j = 1

A patch, here of 3 x 3, is then one piece of memory: that of output (i, j) begins `i * stride` lines
down strip j, as :func:`_starts` has it.  So the convolution is a row of scalar products, and
neighbors in a strip share their lines: u is 3 times the image, and not 9 times.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from lib.training import clipping
from lib.training.kernel_layers import _MATH, _activate

_GUARD = np.float32(clipping.GUARD)
_LARGEST_SQUARE = np.float32(clipping.LARGEST_SQUARE)
_SMALLEST_FACTOR = np.float32(clipping.SMALLEST_FACTOR)
# Indices are unsigned: a negative one, which counts from the end, would need a test at each access.
_1, _2, _3 = np.uint64(1), np.uint64(2), np.uint64(3)
_compiled = njit(fastmath=_MATH, nogil=True, cache=True, error_model="numpy")


class Rows(NamedTuple):
    """What is known of some rows, a row of each array for each."""

    images: npt.NDArray[np.float32]
    kept: npt.NDArray[np.float32]  # what each layer gave, after pooling and activation
    codes: npt.NDArray[np.uint8]  # which place of its window each of these came from
    slopes: npt.NDArray[np.float32]  # of the loss, by what the last layer gave


class Scratch(NamedTuple):
    """Memory for one example, large enough for any layer."""

    patches: npt.NDArray[np.float32]  # the strips u
    slopes: npt.NDArray[np.float32]  # of the loss, by them
    places: npt.NDArray[np.float32]  # outputs of a convolution before pooling, or their slopes
    both: Any  # two vectors for slopes of what was pooled: this layer's, and the one's below
    found: Any  # slopes of one output that are not 0, and where their patches start


@_compiled
def _scratch(shapes):
    patches = places = pooled = 0
    for g in shapes:
        high, width = g.high + 2 * g.pad_high, g.kernel_wide * g.channels
        patches = max(patches, g.out_wide * high * width)
        places = max(places, (g.out_high * g.out_wide + 3) * g.outputs)
        pooled = max(pooled, g.pooled_high * g.pooled_wide * g.outputs)
    f = np.float32
    return Scratch(
        np.empty(patches, f),
        np.empty(patches, f),
        np.empty(places, f),
        (np.empty(pooled, f), np.empty(pooled, f)),
        (np.empty(places, f), np.empty(places, np.uint64)),
    )


@_compiled
def _starts(shapes):
    """Where each place's patch starts, by layer; 3 more for blocks of places that are not full."""
    most = 0
    for g in shapes:
        most = max(most, g.out_high * g.out_wide)
    starts = np.zeros((shapes.shape[0], most + 3), np.uint64)
    for layer in range(shapes.shape[0]):
        g = shapes[layer]
        high, width = g.high + 2 * g.pad_high, g.kernel_wide * g.channels
        for p in range(g.out_high * g.out_wide):
            i, j = p // g.out_wide, p % g.out_wide
            starts[layer, p] = (j * high + i * g.stride_high) * width
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
        to = np.uint64((j * high + g.pad_high) * width + first * g.channels)
        of = np.uint64((left + first) * g.channels)
        for _ in range(g.high):
            for k in range(np.uint64(0), whole, np.uint64(4)):  # becomes one move
                a, b, c, d = x[of + k], x[of + k + _1], x[of + k + _2], x[of + k + _3]
                u[to + k], u[to + k + _1], u[to + k + _2], u[to + k + _3] = a, b, c, d
            for k in range(whole, n):
                u[to + k] = x[of + k]
            to += np.uint64(width)
            of += np.uint64(g.wide * g.channels)


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
    # 4 outputs at 2 places: 8 sums in registers, from 6 numbers read. Of an odd number of places
    # the last is done twice.
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
def _place(code, g):
    """Of a number in a window: how far from the window's first place."""
    return np.uint64((code // g.pool * g.out_wide + code % g.pool) * g.outputs)


@_compiled
def _pool(z, g, best, out, codes):
    """Largest of each window, and its number there; of equal ones the first, NaN before all.

    Three places of the window in one long loop without branches, which is vectorized.
    """
    dense = g.pool_stride == 1  # then the windows of a row are one long piece of memory
    pieces = 1 if dense else g.pooled_wide
    n = np.uint64(g.pooled_wide * g.outputs if dense else g.outputs)
    last = g.pool * g.pool - 1
    for i in range(g.pooled_high):
        for piece in range(pieces):
            to = np.uint64(i * g.pooled_wide * g.outputs) + np.uint64(piece) * n
            at = np.uint64((i * g.out_wide + piece) * g.pool_stride * g.outputs)
            for k in range(n):
                out[to + k], best[k] = z[at + k], 0
            for first in range(1, last + 1, 3):
                second, third = min(first + 1, last), min(first + 2, last)
                number = np.int32(first), np.int32(second), np.int32(third)
                r, s, t = _place(first, g), _place(second, g), _place(third, g)
                r, s, t = at + r, at + s, at + t
                for k in range(n):
                    top, code = out[to + k], best[k]
                    a, b, c = z[r + k], z[s + k], z[t + k]
                    larger = (a > top) | (a != a)
                    top, code = a if larger else top, number[0] if larger else code
                    larger = (b > top) | (b != b)
                    top, code = b if larger else top, number[1] if larger else code
                    larger = (c > top) | (c != c)
                    out[to + k] = c if larger else top
                    best[k] = number[2] if larger else code
            for k in range(n):
                codes[to + k] = np.uint8(best[k])


@_compiled
def _unpool(slopes, out, codes, g, e):
    """Slopes of the convolution's outputs e (places, outputs), from those of the pooled."""
    e[: (g.out_high * g.out_wide + 3) * g.outputs] = 0
    one, zero = np.float32(1), np.float32(0)
    total = np.uint64(g.pooled_high * g.pooled_wide * g.outputs)
    # Through the activation, of which the output alone is known: relu' is 0 or 1, tanh' is 1 - y^2.
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
            corner = np.uint64((i * g.out_wide + piece) * g.pool_stride * g.outputs)
            for code in range(g.pool * g.pool):
                at, number = corner + _place(code, g), np.uint8(code)
                for k in range(n):
                    e[at + k] += slopes[of + k] if codes[of + k] == number else zero


@_compiled
def _weight_slopes(u, starts, e, g, found, total):
    """Add one example's gradient of a layer's weights and biases.

    About half the slopes are 0, of places that no window chose; they are passed over.
    """
    values, pieces = found
    size = np.uint64(g.kernel_high * g.kernel_wide * g.channels)
    bias = g.weight + g.outputs * g.kernel_high * g.kernel_wide * g.channels
    to = np.uint64(g.weight)
    for o in range(g.outputs):
        n = 0  # a place whose slope is 0 is written, too, and overwritten by the next: no branch
        for p in range(g.out_high * g.out_wide):
            value = e[p * g.outputs + o]
            values[n], pieces[n] = value, starts[p]
            n += value != 0
        for i in range(n, n + 3):  # up to a whole number of fours
            values[i], pieces[i] = 0, 0
        for i in range(0, n, 4):
            f0, f1, f2, f3 = values[i], values[i + 1], values[i + 2], values[i + 3]
            total[bias + o] += (f0 + f1) + (f2 + f3)
            s0, s1, s2, s3 = pieces[i], pieces[i + 1], pieces[i + 2], pieces[i + 3]
            for k in range(size):
                x0, x1, x2, x3 = u[s0 + k], u[s1 + k], u[s2 + k], u[s3 + k]
                total[to + k] += f0 * x0 + f1 * x1 + f2 * x2 + f3 * x3
        to += size


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
    """Run the layers on some rows; what each layer gives goes to `kept`."""
    scratch, starts = _scratch(shapes), _starts(shapes)
    u, z = scratch.patches, scratch.places
    best = np.empty(z.shape[0], np.int32)
    for layer in range(shapes.shape[0]):
        g = shapes[layer]
        last = shapes[max(layer - 1, 0)]
        end = g.kept + g.pooled_high * g.pooled_wide * g.outputs
        length = g.pooled_wide * g.outputs
        lines, bits = np.empty((2, length), np.float32), np.empty(length, np.int32)
        powers = bits.view(np.float32)
        for row in range(images.shape[0]):
            x = images[row] if layer == 0 else kept[row, last.kept : g.kept]
            _unfold(x, g, u)
            _convolve(u, starts[layer], w, g, z)
            out = kept[row, g.kept : end]
            _pool(z, g, best, out, codes[row, g.kept : end])
            planes = out.reshape((g.pooled_high, length))
            _activate(planes, g.pooled_high, g.relu, lines, bits, powers, length)


@_compiled
def _add_gradient(rows, row, w, shapes, starts, scratch, total):
    """Add one row's gradient of all weights to `total`."""
    images, kept, codes = rows.images, rows.kept, rows.codes
    u, du, e, both, found = scratch
    deep = shapes.shape[0] - 1
    # From the last layer down. The slopes of a layer are read from one of the two vectors and those
    # of the layer below are written to the other.
    both[deep % 2][: rows.slopes.shape[1]] = rows.slopes[row]
    for layer in range(deep, -1, -1):
        g = shapes[layer]
        end = g.kept + g.pooled_high * g.pooled_wide * g.outputs
        _unpool(both[layer % 2], kept[row, g.kept : end], codes[row, g.kept : end], g, e)
        x = images[row] if layer == 0 else kept[row, shapes[layer - 1].kept : g.kept]
        _unfold(x, g, u)
        _weight_slopes(u, starts[layer], e, g, found, total)
        if layer > 0:
            _input_slopes(e, starts[layer], w, g, du)
            _fold(du, g, both[(layer - 1) % 2])


@_compiled
def _summed(rows, w, shapes, total):
    """Add the gradients of all rows to `total`."""
    scratch, starts = _scratch(shapes), _starts(shapes)
    for row in range(rows.images.shape[0]):
        _add_gradient(rows, row, w, shapes, starts, scratch, total)


@_compiled
def _clipped(rows, w, shapes, clipping_norm, squares, total):
    """`squares` come as those of the other layers, and leave as those of all.

    What float32 is not enough for is left to :func:`lib.training.clipping.by_definition`.
    """
    scratch, starts = _scratch(shapes), _starts(shapes)
    mine = np.empty(total.shape[0], np.float32)
    # An example's augmented copies are averaged into its one gradient before that is clipped.
    copies = rows.images.shape[0] // max(1, squares.shape[0])
    share = np.float32(1) / np.float32(max(1, copies))
    for example in range(squares.shape[0]):
        mine[:] = 0
        for copy in range(copies):
            _add_gradient(rows, example * copies + copy, w, shapes, starts, scratch, mine)
        square = np.float32(0)
        for k in range(mine.shape[0]):
            square += mine[k] * mine[k]
        squares[example] += square * share * share
        factor = min(np.float32(1), clipping_norm / (np.sqrt(squares[example]) + _GUARD))
        if squares[example] <= _LARGEST_SQUARE and factor >= _SMALLEST_FACTOR:
            factor *= share
            for k in range(mine.shape[0]):
                total[k] += factor * mine[k]
