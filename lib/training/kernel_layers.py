"""Compiled layers on a tile of examples, which :mod:`lib.training.kernels` is made of.

A tile has an example a column, so that the innermost loops run over examples, which lie side by
side in memory and go through one instruction together::

              t = 0 ... count-1 | count ... width-1
            +-------------------+------------------+
    a[0, t] | first input       | 0                |   columns beyond the sample are zero: they
    a[1, t] | second input      | 0                |   are computed with the rest, and no loop
      ...   |                   |                  |   has to know where the sample ends
            +-------------------+------------------+

Weights of all layers lie in one vector ``w``, a layer's as PyTorch has them::

    w: | row of output 0 | row of output 1 | ... | biases | next layer ...
       ^ at[layer]         n_in numbers each      ^ at[layer] + n_in * n_out
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from lib.training import clipping

# Columns of a tile: a layer of a hundred units then takes 25 kB, which a processor's nearest cache
# holds, and a row of 64 is a whole number of vectors.
TILE = 64


class Tile(NamedTuple):
    """Which examples a tile has."""

    rows: npt.NDArray[np.int64]  # the sampled rows of all steps
    start: int  # the tile's first one of them
    count: int  # how many it has
    width: int  # columns that are computed, a multiple of 16 and at least `count`


class Work(NamedTuple):
    """Memory for a softmax, a number for each column."""

    top: npt.NDArray[np.float32]  # the largest logit
    total: npt.NDArray[np.float32]  # the sum of exponentials, relative to it
    bits: npt.NDArray[np.int32]  # where :func:`_exp` writes a power of two by its bits
    powers: npt.NDArray[np.float32]  # the same memory, read as numbers


_GUARD = clipping.GUARD

# Reordering of sums is allowed (it is what vectorizes them); assuming away NaN and infinity is not,
# for diverged models must show as such.
_MATH = {"reassoc", "contract", "arcp", "nsz"}


_compiled = njit(fastmath=_MATH, nogil=True, cache=True, error_model="numpy")


@_compiled
def _forward(w, at, n_out, n_in, bias, a, z, width):
    """Z = W A + b on a tile; W starts at w[at], b at w[bias]."""
    # Blocks of 4 outputs by 4 inputs: 16 weights stay in registers while a tile's columns pass by,
    # and each number of Z is read and written once for four inputs. What is left over follows.
    o = 0
    while o + 4 <= n_out:
        r0 = at + o * n_in
        r1 = r0 + n_in
        r2 = r1 + n_in
        r3 = r2 + n_in
        for t in range(width):
            z[o, t] = w[bias + o]
            z[o + 1, t] = w[bias + o + 1]
            z[o + 2, t] = w[bias + o + 2]
            z[o + 3, t] = w[bias + o + 3]
        i = 0
        while i + 4 <= n_in:
            p0, p1, p2, p3 = w[r0 + i], w[r0 + i + 1], w[r0 + i + 2], w[r0 + i + 3]
            q0, q1, q2, q3 = w[r1 + i], w[r1 + i + 1], w[r1 + i + 2], w[r1 + i + 3]
            s0, s1, s2, s3 = w[r2 + i], w[r2 + i + 1], w[r2 + i + 2], w[r2 + i + 3]
            u0, u1, u2, u3 = w[r3 + i], w[r3 + i + 1], w[r3 + i + 2], w[r3 + i + 3]
            for t in range(width):
                x0, x1, x2, x3 = a[i, t], a[i + 1, t], a[i + 2, t], a[i + 3, t]
                z[o, t] += p0 * x0 + p1 * x1 + p2 * x2 + p3 * x3
                z[o + 1, t] += q0 * x0 + q1 * x1 + q2 * x2 + q3 * x3
                z[o + 2, t] += s0 * x0 + s1 * x1 + s2 * x2 + s3 * x3
                z[o + 3, t] += u0 * x0 + u1 * x1 + u2 * x2 + u3 * x3
            i += 4
        while i < n_in:
            p0, q0, s0, u0 = w[r0 + i], w[r1 + i], w[r2 + i], w[r3 + i]
            for t in range(width):
                x0 = a[i, t]
                z[o, t] += p0 * x0
                z[o + 1, t] += q0 * x0
                z[o + 2, t] += s0 * x0
                z[o + 3, t] += u0 * x0
            i += 1
        o += 4
    while o < n_out:
        r0 = at + o * n_in
        for t in range(width):
            z[o, t] = w[bias + o]
        i = 0
        while i + 4 <= n_in:
            p0, p1, p2, p3 = w[r0 + i], w[r0 + i + 1], w[r0 + i + 2], w[r0 + i + 3]
            for t in range(width):
                z[o, t] += p0 * a[i, t] + p1 * a[i + 1, t] + p2 * a[i + 2, t] + p3 * a[i + 3, t]
            i += 4
        while i < n_in:
            p0 = w[r0 + i]
            for t in range(width):
                z[o, t] += p0 * a[i, t]
            i += 1
        o += 1


@_compiled
def _outer(g, at, n_out, n_in, d, a, width):
    """Add D A^T to the gradient of a layer, summed over the tile."""
    zero = np.float32(0.0)
    # Blocks of 2 outputs by 4 inputs: their 8 sums over the tile stay in registers.
    o = 0
    while o + 2 <= n_out:
        i = 0
        while i + 4 <= n_in:
            p0 = p1 = p2 = p3 = q0 = q1 = q2 = q3 = zero
            for t in range(width):
                e0, e1 = d[o, t], d[o + 1, t]
                x0, x1, x2, x3 = a[i, t], a[i + 1, t], a[i + 2, t], a[i + 3, t]
                p0 += e0 * x0
                p1 += e0 * x1
                p2 += e0 * x2
                p3 += e0 * x3
                q0 += e1 * x0
                q1 += e1 * x1
                q2 += e1 * x2
                q3 += e1 * x3
            k = at + o * n_in + i
            g[k] += p0
            g[k + 1] += p1
            g[k + 2] += p2
            g[k + 3] += p3
            k += n_in
            g[k] += q0
            g[k + 1] += q1
            g[k + 2] += q2
            g[k + 3] += q3
            i += 4
        while i < n_in:
            p0 = q0 = zero
            for t in range(width):
                p0 += d[o, t] * a[i, t]
                q0 += d[o + 1, t] * a[i, t]
            g[at + o * n_in + i] += p0
            g[at + (o + 1) * n_in + i] += q0
            i += 1
        o += 2
    while o < n_out:
        for i in range(n_in):
            p0 = zero
            for t in range(width):
                p0 += d[o, t] * a[i, t]
            g[at + o * n_in + i] += p0
        o += 1


@_compiled
def _backward(w, at, n_out, n_in, d, e, width):
    """E = W^T D on a tile."""
    # Blocks of 4 inputs by 2 outputs, W read as it lies: a column of W is never walked down.
    i = 0
    while i + 4 <= n_in:
        for t in range(width):
            e[i, t] = e[i + 1, t] = e[i + 2, t] = e[i + 3, t] = np.float32(0.0)
        o = 0
        while o + 2 <= n_out:
            k = at + o * n_in + i
            m = k + n_in
            p0, p1, p2, p3 = w[k], w[k + 1], w[k + 2], w[k + 3]
            q0, q1, q2, q3 = w[m], w[m + 1], w[m + 2], w[m + 3]
            for t in range(width):
                x0, x1 = d[o, t], d[o + 1, t]
                e[i, t] += p0 * x0 + q0 * x1
                e[i + 1, t] += p1 * x0 + q1 * x1
                e[i + 2, t] += p2 * x0 + q2 * x1
                e[i + 3, t] += p3 * x0 + q3 * x1
            o += 2
        if o < n_out:
            k = at + o * n_in + i
            for t in range(width):
                x0 = d[o, t]
                e[i, t] += w[k] * x0
                e[i + 1, t] += w[k + 1] * x0
                e[i + 2, t] += w[k + 2] * x0
                e[i + 3, t] += w[k + 3] * x0
        i += 4
    while i < n_in:
        for t in range(width):
            e[i, t] = np.float32(0.0)
        for o in range(n_out):
            p0 = w[at + o * n_in + i]
            for t in range(width):
                e[i, t] += p0 * d[o, t]
        i += 1


@_compiled
def _exp(x, out, bits, powers, width):
    """exp(x) in float32 to 1 ulp (Cephes' polynomial); bits and powers share their memory.

    Below -87, where numbers lose digits, to 1e-5; NaN stays visible.
    """
    # exp(v) = 2^k exp(v - k log 2), with k whole and the rest at most log(2) / 2 = 0.35 in size.
    # log 2 is subtracted in two parts, of which the first has so few bits that k times it is exact.
    # 2^k is the number whose exponent's bits are k + 127: written as an integer, read as a float.
    for t in range(width):
        low = x[t] < np.float32(-87.0)
        v = x[t] + np.float32(16.635532) if low else x[t]  # 24 log 2
        v = min(max(v, np.float32(-87.0)), np.float32(88.0))
        k = np.floor(v * np.float32(1.44269504088896341) + np.float32(0.5))
        v -= k * np.float32(0.693359375)
        v -= k * np.float32(-2.12194440e-4)
        p = np.float32(1.9875691500e-4)
        p = p * v + np.float32(1.3981999507e-3)
        p = p * v + np.float32(8.3334519073e-3)
        p = p * v + np.float32(4.1665795894e-2)
        p = p * v + np.float32(1.6666665459e-1)
        p = p * v + np.float32(5.0000001201e-1)
        p = p * v * v + v + np.float32(1.0)
        p = p * np.float32(5.9604644775390625e-8) if low else p  # 2^-24, what was added above
        p = np.float32(0.0) if x[t] < np.float32(-104.0) else p
        out[t] = p if x[t] == x[t] else x[t]
        bits[t] = (np.int32(k) + np.int32(127)) << np.int32(23)
    for t in range(width):
        out[t] *= powers[t]


@_compiled
def _activate(z, n, kind, scratch, bits, powers, width):
    """Apply tanh or relu in place."""
    for o in range(n):
        if kind == 1:
            for t in range(width):
                z[o, t] = max(z[o, t], np.float32(0.0))
            continue
        for t in range(width):
            scratch[0, t] = np.float32(2.0) * min(abs(z[o, t]), np.float32(20.0))
        _exp(scratch[0], scratch[1], bits, powers, width)
        # tanh(v) = 1 - 2 / (exp(2 v) + 1); beyond 20 it is 1 to the last digit.
        for t in range(width):
            v = z[o, t]
            large = np.float32(1.0) - np.float32(2.0) / (scratch[1, t] + np.float32(1.0))
            u = v * v  # Cephes' tanhf near 0, where the form above loses digits
            p = np.float32(-5.70498872745e-3) * u + np.float32(2.06390887954e-2)
            p = p * u + np.float32(-5.37397155531e-2)
            p = p * u + np.float32(1.33314422036e-1)
            p = p * u + np.float32(-3.33332819422e-1)
            small = p * u * v + v
            signed = large if v > 0 else -large
            signed = small if abs(v) < np.float32(0.625) else signed
            z[o, t] = signed if v == v else v


@_compiled
def _softmax(z, first, n, work, width):
    """Softmax of n rows in place; leaves the largest logit and the sum of exponentials."""
    # Less the largest, so that no exponential is infinite and one of them is 1.
    top, total, bits, powers = work
    for t in range(width):
        top[t] = z[first, t]
        total[t] = np.float32(0.0)
    for c in range(first + 1, first + n):
        for t in range(width):
            top[t] = max(top[t], z[c, t])
    for c in range(first, first + n):
        for t in range(width):
            z[c, t] -= top[t]
        _exp(z[c], z[c], bits, powers, width)
        for t in range(width):
            total[t] += z[c, t]
    for c in range(first, first + n):
        for t in range(width):
            z[c, t] /= total[t]


@_compiled
def _gather(x, tile, a):
    """Copy a tile's examples from rows of `x` to columns of `a`."""
    rows, start, count, width = tile
    for t in range(count):
        row = x[rows[start + t]]
        for i in range(row.shape[0]):
            a[i, t] = row[i]
    for t in range(count, width):
        for i in range(x.shape[1]):
            a[i, t] = np.float32(0.0)


@_compiled
def _outputs(x, tile, w, at, sizes, activation, masks, units, z, scratch, work):
    """Run the network on a tile: activations to `units`, outputs to `z`."""
    start, count, width = tile.start, tile.count, tile.width
    bits, powers = work.bits, work.powers
    n_layers = sizes.shape[0] - 1
    _gather(x, tile, units[0])
    column = 0
    for layer in range(n_layers):
        n_in, n_out = sizes[layer], sizes[layer + 1]
        a = units[layer]
        # An MLP drops hidden units, a linear model inputs.
        if masks.shape[0] > 0 and (layer > 0 or n_layers == 1):
            for t in range(count):
                for i in range(n_in):
                    a[i, t] *= masks[start + t, column + i]
            column += n_in
        target = z if layer == n_layers - 1 else units[layer + 1]
        _forward(w, at[layer], n_out, n_in, at[layer] + n_in * n_out, a, target, width)
        if layer < n_layers - 1:
            _activate(target, n_out, activation, scratch, bits, powers, width)


@_compiled
def _by_definition(gradient, at, sizes, deltas, units, t, clipping_norm):
    """Add the clipped gradient of one example, as :func:`lib.training.clipping.by_definition`.

    What it is made of is 0 afterwards.
    """
    # In float64: what brings an example here are squares too large or too small for float32.
    square = 0.0
    for layer in range(at.shape[0]):
        for o in range(sizes[layer + 1]):
            d = deltas[layer][o, t]
            square += np.float64(d) * np.float64(d)
            for i in range(sizes[layer]):
                v = np.float64(np.float32(d * units[layer][i, t]))
                square += v * v
    factor = min(1.0, np.float64(clipping_norm) / (np.sqrt(square) + _GUARD))
    finite = square < np.inf  # else a number of the gradient is infinite or NaN
    for layer in range(at.shape[0]):
        n_in, n_out = sizes[layer], sizes[layer + 1]
        for o in range(n_out):
            d = deltas[layer][o, t]
            if finite:
                gradient[at[layer] + n_in * n_out + o] += np.float32(factor * np.float64(d))
                for i in range(n_in):
                    v = np.float64(np.float32(d * units[layer][i, t]))
                    gradient[at[layer] + o * n_in + i] += np.float32(factor * v)
            deltas[layer][o, t] = 0
        for i in range(n_in):
            units[layer][i, t] = 0


@_compiled
def _layers(sizes):
    """Where each layer's weights start."""
    at = np.empty(sizes.shape[0] - 1, np.int64)
    position = np.int64(0)
    for layer in range(at.shape[0]):
        at[layer] = position
        position += (sizes[layer] + 1) * sizes[layer + 1]
    return at
