"""Real numbers of unlimited range: ``mantissa * 2^exponent``, the mantissa in [1, 2), or 0 with exponent ``NEVER``.

Sums of products keep the full relative precision of the mantissa at any magnitude, without ``exp`` and ``log``:
bringing a term to another exponent is a few operations on whole numbers. float32 mantissas go with int32 exponents,
float64 ones (``WIDE``) with int64.

Exponents of possible numbers stay above ``FLOOR``; smaller ones stick there, and are noticed at the root of the chart.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.constexpr_function
def never(wide):
    """The exponent of 0; twice this still fits the type."""
    return -(1 << 61) if wide else -(1 << 29)


@triton.constexpr_function
def floor(wide):
    """The smallest exponent of a possible number."""
    return -(1 << 59) if wide else -(1 << 27)


@triton.constexpr_function
def largest_exponent(wide):
    """The largest exponent of one span's weight: 2047 of them still fit, and do not lift the floor to the root."""
    return 1 << 47 if wide else 1 << 16


@triton.constexpr_function
def mantissa_type(wide):
    """The type of mantissas."""
    return tl.float64 if wide else tl.float32


@triton.jit
def exact(bits):
    """A float64 number that came as the int64 number with the same bits: kernels take no float64 arguments."""
    return (tl.zeros([], tl.int64) + bits).to(tl.float64, bitcast=True)


@triton.jit
def power_of_two(exponent, WIDE: tl.constexpr):
    """2^exponent, and 0 for exponents below the mantissa's type; ``exponent`` is not far above 0."""
    if WIDE:
        return ((tl.maximum(exponent, -1023) + 1023) << 52).to(tl.float64, bitcast=True)
    else:
        return ((tl.maximum(exponent, -127) + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def normalized(mantissa, exponent, WIDE: tl.constexpr):
    """Moves the mantissa's own exponent over; ``mantissa >= 0`` and not denormal."""
    if WIDE:
        bits = mantissa.to(tl.int64, bitcast=True)
        own = ((bits >> 52) & 2047) - 1023
        fraction = ((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).to(tl.float64, bitcast=True)
    else:
        bits = mantissa.to(tl.int32, bitcast=True)
        own = ((bits >> 23) & 255) - 127
        fraction = ((bits & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True)
    nothing = mantissa == 0
    exponent = tl.maximum(exponent + own, floor(WIDE))
    return tl.where(nothing, 0.0, fraction), tl.where(nothing, never(WIDE), exponent)


@triton.jit
def load_number(chart, cell, here, cells, WIDE: tl.constexpr):
    """Mantissas and exponents of cells, 0 where not ``here``.

    float32 mantissas lie in one int64 with their exponents: one load instead of two. float64 ones lie ``cells`` apart.
    """
    if WIDE:
        mantissa = tl.load(chart + cell, mask=here, other=0).to(tl.float64, bitcast=True)
        exponent = tl.load(chart + cells + cell, mask=here, other=never(WIDE))
    else:
        both = tl.load(chart + cell, mask=here, other=never(WIDE) << 32)
        mantissa = both.to(tl.int32).to(tl.float32, bitcast=True)
        exponent = (both >> 32).to(tl.int32)
    return mantissa, exponent


@triton.jit
def store_number(chart, cell, mantissa, exponent, here, cells, WIDE: tl.constexpr):
    """Writes what :func:`load_number` reads."""
    if WIDE:
        tl.store(chart + cell, mantissa.to(tl.int64, bitcast=True), mask=here)
        tl.store(chart + cells + cell, exponent, mask=here)
    else:
        low = mantissa.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
        tl.store(chart + cell, (exponent.to(tl.int64) << 32) | low, mask=here)


@triton.jit
def load_slope(chart, cell, here, cells):
    """The slopes beside wide numbers."""
    return tl.load(chart + 2 * cells + cell, mask=here, other=0).to(tl.float64, bitcast=True)


@triton.jit
def store_slope(chart, cell, slope, here, cells):
    """Writes what :func:`load_slope` reads."""
    tl.store(chart + 2 * cells + cell, slope.to(tl.int64, bitcast=True), mask=here)


@triton.constexpr_function
def parts(wide, slopes):
    """How many int64 numbers a cell of a chart takes."""
    return 1 + int(wide) + int(slopes)
