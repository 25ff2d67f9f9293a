/* exp, log, tanh and their relatives as straight-line code on scalars and vectors alike, without calls or
 * tables: the same instructions for a lane of a vector and for a scalar, so the same bits.
 *
 * Each takes the argument to a short interval (powers of two split off exactly, by bits) and evaluates one
 * polynomial there, fitted for the smallest relative error over the interval (iteratively reweighted least
 * squares on Chebyshev nodes in 50 digits, then rounded to float; the fit errors are below 1e-8, less than a
 * tenth of an ulp, but for erf near 0.93 with 2e-8).
 * Largest errors over dense sweeps (test_emit_math): exp and log 1 ulp; log1p, tanh, erf and softplus 2;
 * sigmoid 2.5. Infinities, NaN, zeros with their signs, and subnormal numbers give what libm gives. */
#include <math.h>
#include "backend/emit.h"

static LLVMTypeRef int_type(Emit *e, Val x) {
    int w = emit_lanes(x);
    return w == 1 ? e->i32 : LLVMVectorType(e->i32, (unsigned)w);
}
static Val to_bits(Emit *e, Val x) { return LLVMBuildBitCast(e->b, x, int_type(e, x), ""); }
static Val from_bits(Emit *e, Val bits, Val like) {
    return LLVMBuildBitCast(e->b, bits, LLVMTypeOf(like), "");
}
static Val int_to_float(Emit *e, Val i, Val like) { return LLVMBuildSIToFP(e->b, i, LLVMTypeOf(like), ""); }

/* c[0] + c[1] x + …, by Horner's rule */
static Val poly(Emit *e, Val x, const double *c, int n) {
    Val y = emit_like(e, x, c[n - 1]);
    for (int i = n - 2; i >= 0; i--) y = emit_fma(e, y, x, emit_like(e, x, c[i]));
    return y;
}
#define POLY(e, x, c) poly(e, x, c, (int)(sizeof c / sizeof *c))

Val emit_abs(Emit *e, Val x) { return emit_intrinsic(e, "llvm.fabs", &x, 1); }
Val emit_sqrt(Emit *e, Val x) { return emit_intrinsic(e, "llvm.sqrt", &x, 1); }
static Val copysign_of(Emit *e, Val size, Val sign) {
    return emit_intrinsic(e, "llvm.copysign", (Val[]){size, sign}, 2);
}

/* Half of the last kept bit's worth is added, less a little where that bit is even, and the rest cut off. */
Val emit_round_bf16(Emit *e, Val x) {
    Val bits = to_bits(e, x), sixteen = emit_int_like(e, x, 16);
    Val odd = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, bits, sixteen, ""), emit_int_like(e, x, 1), "");
    Val up = emit_add(e, emit_add(e, bits, emit_int_like(e, x, 0x7fff)), odd);
    Val cut = LLVMBuildShl(e->b, LLVMBuildLShr(e->b, up, sixteen, ""), sixteen, "");
    return emit_select(e, emit_fcmp(e, LLVMRealUNO, x, x), x, from_bits(e, cut, x));
}

/* 2^n as float, n in -126..127 */
static Val power_of_two(Emit *e, Val n, Val like) {
    Val biased = emit_add(e, n, emit_int_like(e, like, 127));
    return from_bits(e, LLVMBuildShl(e->b, biased, emit_int_like(e, like, 23), ""), like);
}

/* e^x = 2^n e^r, |r| <= ln 2 / 2: e^r, and n from the lowest bits of *t, x in units of ln 2 with `magic`
 * added, which leaves the rounded integer there. NaN passes through: comparisons with it are false. */
static Val exp_parts(Emit *e, Val x, double magic, Val *t) {
    static const double c[] = {5.000000000e-01, 1.666666567e-01, 4.166629538e-02,
                               8.333497681e-03, 1.394476159e-03, 1.979026274e-04};
    *t = emit_fma(e, x, emit_like(e, x, 1.4426950408889634), emit_like(e, x, magic));
    Val nf = emit_fsub(e, *t, emit_like(e, x, magic));
    Val r = emit_fma(e, nf, emit_like(e, x, -0.693147182464599609375), x);
    r = emit_fma(e, nf, emit_like(e, x, 1.904654299957767878e-9), r);
    Val p = emit_fma(e, emit_fmul(e, r, r), POLY(e, r, c), r);
    return emit_fadd(e, p, emit_like(e, x, 1));
}
#define MAGIC 12582912.0 /* 1.5 * 2^23 */
static Val at_least(Emit *e, Val x, double least) {
    Val lo = emit_like(e, x, least);
    return emit_select(e, emit_fcmp(e, LLVMRealOLT, x, lo), lo, x);
}

/* The power is applied in two halves: so results that are subnormal are rounded once. */
Val emit_exp(Emit *e, Val x) {
    Val hi = emit_like(e, x, 89), t;
    x = at_least(e, emit_select(e, emit_fcmp(e, LLVMRealOGT, x, hi), hi, x), -104);
    Val p = exp_parts(e, x, MAGIC, &t), n = emit_sub(e, to_bits(e, t), to_bits(e, emit_like(e, x, MAGIC)));
    Val half = LLVMBuildAShr(e->b, n, emit_int_like(e, x, 1), "");
    p = emit_fmul(e, p, power_of_two(e, half, x));
    return emit_fmul(e, p, power_of_two(e, emit_sub(e, n, half), x));
}

/* For x <= 0, 2^64 e^x, which is no subnormal number: by 2^(n + 64), whose exponent's field is the sum's
 * lowest bits. */
static Val exp_scaled(Emit *e, Val x) {
    Val t, p = exp_parts(e, at_least(e, x, -104), MAGIC + 127 + 64, &t);
    return emit_fmul(e, p, from_bits(e, LLVMBuildShl(e->b, to_bits(e, t), emit_int_like(e, x, 23), ""), x));
}
/* The same bits as emit_exp's in fewer instructions. */
Val emit_exp_negative(Emit *e, Val x) { return emit_fmul(e, exp_scaled(e, x), emit_like(e, x, 0x1p-64)); }

/* log x = n ln 2 + log(1 + f), 1 + f in [sqrt 1/2, sqrt 2) */
Val emit_log(Emit *e, Val x) {
    static const double c[] = {3.333331347e-01,  -2.500000894e-01, 2.000211924e-01,
                               -1.666799486e-01, 1.421954632e-01,  -1.240559816e-01,
                               1.188821197e-01,  -1.167561561e-01, 6.746490300e-02};
    Val zero = emit_like(e, x, 0), inf = emit_like(e, x, INFINITY);
    Val tiny = emit_fcmp(e, LLVMRealOLT, x, emit_like(e, x, 0x1p-126));
    Val y = emit_select(e, tiny, emit_fmul(e, x, emit_like(e, x, 0x1p23)), x);
    Val bits = to_bits(e, y);
    Val n =
        LLVMBuildAShr(e->b, emit_sub(e, bits, emit_int_like(e, x, 0x3f3504f3)), emit_int_like(e, x, 23), "");
    Val m = from_bits(e, emit_sub(e, bits, LLVMBuildShl(e->b, n, emit_int_like(e, x, 23), "")), x);
    n = emit_sub(e, n, emit_select(e, tiny, emit_int_like(e, x, 23), emit_int_like(e, x, 0)));
    Val nf = int_to_float(e, n, x), f = emit_fsub(e, m, emit_like(e, x, 1)), ff = emit_fmul(e, f, f);
    Val r =
        emit_fma(e, emit_fmul(e, POLY(e, f, c), f), ff, emit_fmul(e, nf, emit_like(e, x, -2.12194440e-4)));
    r = emit_fma(e, ff, emit_like(e, x, -0.5), r);
    r = emit_fma(e, nf, emit_like(e, x, 0.693359375), emit_fadd(e, f, r)); /* n * 0.693359375 is exact */
    r = emit_select(e, emit_fcmp(e, LLVMRealOEQ, x, zero), emit_like(e, x, -INFINITY), r);
    r = emit_select(e, emit_fcmp(e, LLVMRealOLT, x, zero), emit_like(e, x, NAN), r);
    return emit_select(e, emit_fcmp(e, LLVMRealUGE, x, inf), x, r); /* infinity and NaN are their own */
}

/* log(1 + x) = log u + (x - (u - 1)) / u with u = 1 + x rounded: what rounding lost is added back */
Val emit_log1p(Emit *e, Val x) {
    Val one = emit_like(e, x, 1), u = emit_fadd(e, x, one);
    Val lost = emit_fsub(e, x, emit_fsub(e, u, one));
    Val r = emit_fadd(e, emit_log(e, u), emit_fdiv(e, lost, u));
    Val whole = emit_fcmp(e, LLVMRealOGT, emit_abs(e, x), emit_like(e, x, 0x1p24)); /* also infinite */
    r = emit_select(e, whole, emit_log(e, x), r);
    r = emit_select(e, emit_fcmp(e, LLVMRealOEQ, x, emit_like(e, x, -1)), emit_like(e, x, -INFINITY), r);
    return emit_select(e, emit_fcmp(e, LLVMRealOEQ, x, emit_like(e, x, 0)), x, r);
}

/* From t = e^-|x|, which never overflows: 1 / (1 + t), or t / (1 + t) left of zero; both terms times 2^64. */
Val emit_sigmoid(Emit *e, Val x) {
    Val t = exp_scaled(e, LLVMBuildFNeg(e->b, emit_abs(e, x), "")), one = emit_like(e, x, 0x1p64);
    Val below = emit_icmp(e, LLVMIntSLT, to_bits(e, x), emit_int_like(e, x, 0));
    return emit_fdiv(e, emit_select(e, below, t, one),
                     emit_fadd(e, t, one)); /* of -0 and NaN, either will do */
}

/* x + x^3 P(x^2) below 0.625, else 1 - 2 t / (t + 1), t = e^(-2|x|) */
Val emit_tanh(Emit *e, Val x) {
    static const double c[] = {-3.333328366e-01, 1.333149076e-01, -5.374348536e-02, 2.065055445e-02,
                               -5.717011169e-03};
    Val a = emit_abs(e, x), one = emit_like(e, x, 1), xx = emit_fmul(e, x, x);
    Val near = emit_fma(e, emit_fmul(e, POLY(e, xx, c), xx), x, x);
    Val t = emit_exp_negative(e, emit_fmul(e, a, emit_like(e, x, -2)));
    Val far = emit_fsub(e, one, emit_fdiv(e, emit_fadd(e, t, t), emit_fadd(e, t, one)));
    return copysign_of(e, emit_select(e, emit_fcmp(e, LLVMRealOLT, a, emit_like(e, x, 0.625)), near, far), x);
}

/* x + x P(x^2) below 0.93, else 1 - e^-(t + t Q(t)), t = |x| up to 4, where the result is 1 */
Val emit_erf(Emit *e, Val x) {
    static const double p[] = {1.283791661e-01, -3.761263192e-01, 1.128368750e-01, -2.685894072e-02,
                               5.199906416e-03, -8.130009519e-04, 8.316764433e-05};
    static const double q[] = {1.286485046e-01, 6.351512671e-01,  1.062369421e-01, -2.376212180e-02,
                               3.642488038e-03, -3.228113346e-04, 1.123208585e-05};
    Val a = emit_abs(e, x), xx = emit_fmul(e, x, x), four = emit_like(e, x, 4);
    Val near = emit_fma(e, POLY(e, xx, p), x, x);
    Val t = emit_select(e, emit_fcmp(e, LLVMRealOGT, a, four), four, a);
    Val power = LLVMBuildFNeg(e->b, emit_fma(e, POLY(e, t, q), t, t), "");
    Val far = emit_fsub(e, emit_like(e, x, 1), emit_exp_negative(e, power));
    return copysign_of(e, emit_select(e, emit_fcmp(e, LLVMRealOLT, a, emit_like(e, x, 0.9296875)), near, far),
                       x);
}

Val emit_softplus(Emit *e, Val x) {
    Val zero = emit_like(e, x, 0);
    Val t = emit_log1p(e, emit_exp_negative(e, LLVMBuildFNeg(e->b, emit_abs(e, x), "")));
    return emit_fadd(e, emit_select(e, emit_fcmp(e, LLVMRealOLT, x, zero), zero, x), t);
}
