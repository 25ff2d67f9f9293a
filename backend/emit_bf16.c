/* Products of bfloat16: pairs of terms in the place of one float ("slots"), and vdpbf16ps, which adds both
 * products of a pair to a sum in fp32.
 *
 * Tiles are those of emit_tile.c with half as many terms: a slot of A is broadcast, a vector of slots of B
 * holds the same two terms of as many columns. An odd number of terms is padded by a zero on both sides. The
 * numbers are rounded as they are packed, B once a step where it is a weight (`pack`), A for a block of rows
 * before the block meets the panels:
 *
 *     A [2,5]        a b c d e       slots: ab cd e0     B [5,2]   k l     slots: km ln
 *                    f g h i j              fg hi j0               m n            oq pr
 *                                                                  …              …
 *
 * What the instruction does (Intel's manual): sum = sum + upper half's product, then sum = sum + lower half's
 * product, each a fused multiply-add rounded to nearest, ties to even, whatever MXCSR says; numbers below the
 * smallest normal one (2^-126) are taken as zero, and given as zero. So the first of a pair's terms stands in
 * the upper half: sums run over the terms in order, one rounding a term, and are bit for bit those of fp32
 * tiles over operands rounded before, but where such small numbers come in: then each term is off by at most
 * 2^-126 times its larger factor (or 1). vcvtne2ps2bf16 rounds as op `bf16` does; it too takes these numbers
 * as zero, and a NaN stays one.
 *
 * Where the target has no such instructions, the same is done in fp32 and integers, slowly: for IR that was
 * made for another CPU, and so that tests can run tiles and packing anywhere. */
#include "backend/emit.h"

int64_t emit_terms(int64_t terms, bool bf16) { return bf16 ? (terms + 1) / 2 : terms; }

Val emit_slots(Emit *e, Val terms, bool bf16) {
    return bf16 ? LLVMBuildLShr(e->b, emit_add(e, terms, emit_i64(e, 1)), emit_i64(e, 1), "") : terms;
}

/* ---- bits ---- */

static LLVMTypeRef ints(Emit *e, int w) { return w == 1 ? e->i32 : LLVMVectorType(e->i32, (unsigned)w); }
static Val bits_of(Emit *e, Val x) { return LLVMBuildBitCast(e->b, x, ints(e, emit_lanes(x)), ""); }
static Val float_of(Emit *e, Val bits) {
    return LLVMBuildBitCast(e->b, bits, emit_vec(e, emit_lanes(bits)), "");
}
static Val and_bits(Emit *e, Val x, uint32_t mask) {
    return LLVMBuildAnd(e->b, x, emit_int_like(e, x, (int32_t)mask), "");
}
static Val shifted(Emit *e, Val x, int left) {
    Val by = emit_int_like(e, x, left < 0 ? -left : left);
    return left < 0 ? LLVMBuildLShr(e->b, x, by, "") : LLVMBuildShl(e->b, x, by, "");
}

/* The bits of a number, of zero with its sign where it is below the smallest normal one. */
static Val without_small(Emit *e, Val bits) {
    Val small = emit_icmp(e, LLVMIntEQ, and_bits(e, bits, 0x7f800000), emit_int_like(e, bits, 0));
    return emit_select(e, small, and_bits(e, bits, 0x80000000), bits);
}

static Val lanes(Emit *e, Val a, Val b, int w, int first, int step) {
    Val mask[64];
    for (int i = 0; i < w; i++) mask[i] = emit_i32(e, first + i * step);
    return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(mask, (unsigned)w), "");
}

/* ---- rounding and pairing ---- */

enum { NATIVE = 16 }; /* floats in a vector of the instructions */

/* The bfloat16 of both, b's in the lower half, as 32 i16. */
static Val converted(Emit *e, Val a, Val b) {
    Val v = emit_instruction(e, "llvm.x86.avx512bf16.cvtne2ps2bf16.512", (Val[]){a, b}, 2);
    return LLVMBuildBitCast(e->b, v, LLVMVectorType(LLVMInt16TypeInContext(e->cx), 2 * NATIVE), "");
}

/* Halves of slots, by number in `converted`. */
static Val slots_of(Emit *e, Val halves, Val *number) {
    Val v = LLVMBuildShuffleVector(e->b, halves, halves, LLVMConstVector(number, 2 * NATIVE), "");
    return LLVMBuildBitCast(e->b, v, emit_vec(e, NATIVE), "");
}

/* x with zeros behind it. */
static Val widened(Emit *e, Val x) {
    int w = emit_lanes(x);
    if (w == NATIVE) return x;
    Val zero = emit_const(e, w, 0);
    if (w == 1) return LLVMBuildInsertElement(e->b, emit_const(e, NATIVE, 0), x, emit_i32(e, 0), "");
    Val mask[NATIVE];
    for (int i = 0; i < NATIVE; i++) mask[i] = emit_i32(e, i < w ? i : w);
    return LLVMBuildShuffleVector(e->b, x, zero, LLVMConstVector(mask, NATIVE), "");
}

/* The bfloat16 of each lane, in the upper half; below it what is left of it. */
static Val rounded(Emit *e, Val x) {
    Val bits = without_small(e, bits_of(e, x)), odd = and_bits(e, shifted(e, bits, -16), 1);
    Val up = emit_add(e, emit_add(e, bits, emit_int_like(e, bits, 0x7fff)), odd);
    Val quiet = LLVMBuildOr(e->b, bits, emit_int_like(e, bits, 0x400000), "");
    return emit_select(e, emit_fcmp(e, LLVMRealUNO, x, x), quiet, up);
}

/* Both terms of a pair in vectors of their own, of up to 16 lanes. */
Val emit_bf16_pairs(Emit *e, Val first, Val second) {
    int w = emit_lanes(first);
    if (!e->target.bf16)
        return float_of(e, LLVMBuildOr(e->b, and_bits(e, rounded(e, first), 0xffff0000),
                                       shifted(e, rounded(e, second), -16), ""));
    Val number[2 * NATIVE];
    for (int i = 0; i < NATIVE; i++)
        number[2 * i] = emit_i32(e, i), number[2 * i + 1] = emit_i32(e, NATIVE + i);
    return emit_take(e, slots_of(e, converted(e, widened(e, first), widened(e, second)), number), 0, w);
}

/* Terms as they stand in memory, 2 to 32 of them: half as many slots. */
static Val pairs_in_order(Emit *e, Val x) {
    int w = emit_lanes(x) / 2;
    if (!e->target.bf16 || w < NATIVE) {
        Val first = w == 1 ? emit_take(e, x, 0, 1) : lanes(e, x, x, w, 0, 2);
        Val second = w == 1 ? emit_take(e, x, 1, 1) : lanes(e, x, x, w, 1, 2);
        return emit_bf16_pairs(e, first, second);
    }
    Val low = emit_take(e, x, 0, NATIVE), high = emit_take(e, x, NATIVE, NATIVE);
    Val number[2 * NATIVE];
    for (int i = 0; i < 2 * NATIVE; i++) number[i] = emit_i32(e, i ^ 1);
    return slots_of(e, converted(e, high, low), number);
}

/* w slots of the 2w terms at p */
Val emit_bf16_load(Emit *e, Val p, int w) { return pairs_in_order(e, emit_load_vec(e, p, 2 * w)); }

/* ---- the instruction ---- */

/* sum + a * b of one half of each slot, as the instruction has it */
static Val add_half(Emit *e, Val a, Val b, Val sum, bool upper) {
    Val x[] = {bits_of(e, a), bits_of(e, b), bits_of(e, sum)};
    for (int i = 0; i < 2; i++) x[i] = upper ? and_bits(e, x[i], 0xffff0000) : shifted(e, x[i], 16);
    for (int i = 0; i < 3; i++) x[i] = float_of(e, without_small(e, x[i]));
    return float_of(e, without_small(e, bits_of(e, emit_fma(e, x[0], x[1], x[2]))));
}

Val emit_bf16_dot(Emit *e, Val a, Val b, Val sum) {
    if (!e->target.bf16) return add_half(e, a, b, add_half(e, a, b, sum, true), false);
    LLVMTypeRef pairs = LLVMVectorType(LLVMBFloatTypeInContext(e->cx), 2 * NATIVE);
    Val x[] = {sum, LLVMBuildBitCast(e->b, b, pairs, ""), LLVMBuildBitCast(e->b, a, pairs, "")};
    return emit_instruction(e, "llvm.x86.avx512bf16.dpbf16ps.512", x, 3);
}

/* ---- the left side: a block of rows in scratch ---- */

typedef struct {
    Val from, to;
} Run;

/* first, w: in terms, w even but for a last one */
static void run_piece(Emit *e, int first, int w, void *user) {
    Run *r = user;
    Val from = emit_at_const(e, r->from, first), to = emit_at_const(e, r->to, first / 2);
    Val v = w > 1 ? emit_bf16_load(e, from, w / 2)
                  : emit_bf16_pairs(e, emit_load_vec(e, from, 1), emit_const(e, 1, 0));
    emit_store(e, v, to);
}

void emit_bf16_row(Emit *e, Val from, Val to, int64_t k) {
    enum { AT_ONCE = 2 * NATIVE };
    int64_t whole = k / AT_ONCE * AT_ONCE;
    EmitLoop l = emit_for(e, emit_i64(e, 0), emit_i64(e, whole), AT_ONCE);
    emit_store(e, emit_bf16_load(e, emit_at(e, from, l.i), NATIVE),
               emit_at(e, to, LLVMBuildLShr(e->b, l.i, emit_i64(e, 1), "")));
    emit_end(e, &l);
    Run r = {emit_at_const(e, from, whole), emit_at_const(e, to, whole / 2)};
    emit_pieces(e, (int)(k - whole), run_piece, &r);
}

Val emit_bf16_second(Emit *e, Val first, Val terms, Val *exists) {
    Val next = emit_add(e, first, emit_i64(e, 1));
    *exists = emit_icmp(e, LLVMIntSLT, next, terms);
    return emit_select(e, *exists, next, first);
}

Val emit_bf16_zero_unless(Emit *e, Val exists, Val v) {
    return emit_select(e, exists, v, emit_const(e, emit_lanes(v), 0));
}

/* Rows side by side, of pairs that are a column of A apart: slot (i, l) at to[i + l * EMIT_BF16_ROWS]. */
static void rows_side_by_side(Emit *e, const EmitGemm *g, Val a, Val rows, Val to) {
    Val zero = emit_i64(e, 0), terms = emit_i64(e, g->k);
    EmitLoop l = emit_for(e, zero, emit_i64(e, emit_terms(g->k, true)), 1);
    Val at = emit_scale(e, l.i, 2), exists, next = emit_bf16_second(e, at, terms, &exists);
    Val first = emit_at(e, a, emit_scale(e, at, g->a_col)),
        second = emit_at(e, a, emit_scale(e, next, g->a_col)),
        place = emit_at(e, to, emit_scale(e, l.i, EMIT_BF16_ROWS));
    Val whole = LLVMBuildAnd(e->b, rows, emit_i64(e, -e->W), "");
    for (int part = 0; part < 2; part++) {
        int w = part ? 1 : e->W;
        EmitLoop i = emit_for(e, part ? whole : zero, part ? rows : whole, w);
        Val y = emit_bf16_zero_unless(e, exists, emit_load_vec(e, emit_at(e, second, i.i), w));
        emit_store(e, emit_bf16_pairs(e, emit_load_vec(e, emit_at(e, first, i.i), w), y),
                   emit_at(e, place, i.i));
        emit_end(e, &i);
    }
    emit_end(e, &l);
}

void emit_bf16_left(Emit *e, const EmitGemm *g, Val a, Val rows, Val to) {
    if (g->a_col != 1) {
        rows_side_by_side(e, g, a, rows, to);
        return;
    }
    EmitLoop i = emit_for(e, emit_i64(e, 0), rows, 1);
    emit_bf16_row(e, emit_at(e, a, emit_scale(e, i.i, g->a_row)),
                  emit_at(e, to, emit_scale(e, i.i, emit_terms(g->k, true))), g->k);
    emit_end(e, &i);
}
