"""Low-precision conversions from integer operations only, and the product that all kernels use.

The same bits in Triton's interpreter and on every GPU: the interpreter's own bfloat16 and fp8 casts are
wrong, and fp8 casts do not compile before sm_89. Codes are uint8, so pointers never have an fp8 type.
"""

import triton
import triton.language as tl


@triton.jit
def f32_to_bf16(x):
    """Nearest, ties to even; NaN stays NaN."""
    u = x.to(tl.uint32, bitcast=True)
    r = (u + 0x7FFF + ((u >> 16) & 1)) >> 16
    r = tl.where((u & 0x7FFFFFFF) > 0x7F800000, (u >> 16) | 0x40, r)
    return r.to(tl.uint16).to(tl.bfloat16, bitcast=True)


@triton.jit
def bf16_to_f32(x):
    return (x.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True)


@triton.jit
def f32_to_e4m3(x):
    """Nearest, ties to even, saturating at 448; NaN is 0x7F. uint8."""
    u = x.to(tl.uint32, bitcast=True)
    sign = (u >> 24) & 0x80
    a = u & 0x7FFFFFFF
    # Normal from 2^-6 on: round at bit 20, which keeps 3 mantissa bits, then rebias 127 to 7.
    normal = ((a + 0x7FFFF + ((a >> 20) & 1)) >> 20) - (120 << 3)
    # Below, adding 2^14 makes the adder round to the subnormal's unit of 2^-9.
    small = (a.to(tl.float32, bitcast=True) + 16384.0).to(tl.uint32, bitcast=True) - 0x46800000
    r = tl.where(a < 0x3C800000, small, normal)
    r = tl.where(a >= 0x43E00000, 0x7E, r)
    r = tl.minimum(r, 0x7E)
    r = tl.where(a > 0x7F800000, 0x7F, r)
    return (r | sign).to(tl.uint8)


@triton.jit
def e4m3_to_f32(codes):
    b = codes.to(tl.uint32)
    m = b & 0x7F
    normal = ((m << 20) + (120 << 23)).to(tl.float32, bitcast=True)
    v = tl.where(m < 8, (m & 7).to(tl.float32) * 0.001953125, normal)
    v = tl.where(m == 0x7F, float("nan"), v)
    return tl.where((b & 0x80) != 0, -v, v)


@triton.jit
def f32_to_e2m1(x):
    """Nearest, ties to the even code, saturating at 6: codes 0 .. 15, the sign in bit 3. uint8."""
    a = tl.abs(x)
    c = (a > 0.25).to(tl.int32) + (a >= 0.75).to(tl.int32) + (a > 1.25).to(tl.int32)
    c += (a >= 1.75).to(tl.int32) + (a > 2.5).to(tl.int32) + (a >= 3.5).to(tl.int32)
    c += (a > 5.0).to(tl.int32)
    sign = (x.to(tl.uint32, bitcast=True) >> 28) & 8
    return (c.to(tl.uint32) | sign).to(tl.uint8)


@triton.jit
def e2m1_to_f32(codes):
    c = codes.to(tl.uint32)
    m = c & 7
    # e = m >> 1 and one mantissa bit: 2^(e - 1) * (1 + (m & 1) / 2).
    normal = ((m << 22) + (126 << 23)).to(tl.float32, bitcast=True)
    v = tl.where(m < 2, m.to(tl.float32) * 0.5, normal)
    return tl.where((c & 8) != 0, -v, v)


@triton.jit
def mm(a, b, INTERP: tl.constexpr):
    """a . b of float32 values rounded to bfloat16: on the tensor cores, and alike in the interpreter,

    whose own bfloat16 product is garbage."""
    if INTERP:
        a = bf16_to_f32(f32_to_bf16(a))
        b = bf16_to_f32(f32_to_bf16(b))
        return tl.dot(a, b, input_precision="ieee")
    else:
        return tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
