/* Products by the library: calls of rt_gemm (oneDNN, runtime/gemm.c), each a piece of a size that the
 * schedule fixed, on the thread that owns it. */
#include "backend/emit.h"

void emit_library(Emit *e, const EmitGemm *g, bool tb, Val lo, Val hi) {
    EmitIf some = emit_if(e, emit_icmp(e, LLVMIntSLT, lo, hi));
    Val args[] = {emit_i32(e, 0),
                  emit_i32(e, tb),
                  emit_sub(e, hi, lo),
                  emit_i64(e, g->n),
                  emit_i64(e, g->k),
                  emit_at(e, g->a, emit_scale(e, lo, g->a_row)),
                  emit_i64(e, g->a_row),
                  g->b,
                  emit_i64(e, tb ? g->k : g->n),
                  emit_at(e, g->c, emit_scale(e, lo, g->c_row)),
                  emit_i64(e, g->c_row),
                  emit_i32(e, 0)};
    emit_call(e, "rt_gemm", args, 12);
    emit_fi(e, &some);
}

/* Each call packs what it multiplies, so large strips are faster; but a strip is one thread's. */
int64_t emit_library_strip(int64_t k) {
    enum { PIECES = 4, LEAST = 16, MOST = 64, UNIT = 8 };
    int64_t rows = ((k + PIECES - 1) / PIECES + UNIT - 1) / UNIT * UNIT;
    return rows < LEAST ? LEAST : rows > MOST ? MOST : rows;
}

void emit_library_grad(Emit *e, const EmitGradW *g, Val lo, Val hi) {
    EmitLoop strip = emit_for(e, lo, hi, 1);
    int64_t rows = emit_library_strip(g->k);
    Val row = emit_scale(e, strip.i, rows);
    Val m = emit_min_i64(e, emit_sub(e, emit_i64(e, g->k), row), emit_i64(e, rows));
    Val args[] = {emit_i32(e, 1),
                  emit_i32(e, 0),
                  m,
                  emit_i64(e, g->n),
                  g->rows,
                  emit_at(e, g->x, row),
                  emit_i64(e, g->x_row),
                  g->g,
                  emit_i64(e, g->g_row),
                  emit_at(e, g->c, emit_scale(e, row, g->n)),
                  emit_i64(e, g->n),
                  g->more ? LLVMBuildZExt(e->b, g->more, e->i32, "") : emit_i32(e, 0)};
    emit_call(e, "rt_gemm", args, 12);
    emit_end(e, &strip);
}
