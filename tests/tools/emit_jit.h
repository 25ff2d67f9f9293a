/* Runs pieces of the emitter on their own: a module that the caller fills with functions, loaded by LLJIT. */
#ifndef CTRC_TESTS_EMIT_JIT_H
#define CTRC_TESTS_EMIT_JIT_H
#include <stddef.h>
#include <stdint.h>
#include "runtime/abi.h"

typedef struct EmitJit EmitJit;

/* Room for n floats, at the border of a line; and with pseudorandom numbers of -1 to 1 in it. To be freed. */
float *emit_jit_room(size_t n);
float *emit_jit_numbers(size_t n, uint32_t seed);

/* Elementwise functions of emit_math.c over arrays: out[i] = f(in[i]). Vectors as long as the CPU's. */
typedef void (*EmitMathFn)(float *out, const float *in, int64_t n);
EmitJit *emit_jit_math(void);
EmitMathFn emit_jit_math_fn(EmitJit *j, const char *name); /* exp log log1p sigmoid tanh erf softplus */

/* Products of emit_tile.c: rows lo..hi-1 of c[rows,n] = a[rows,k] b, b stored [k,n], or [n,k] if tb; a stored
 * [k,EMIT_JIT_ROWS] if ta. */
enum { EMIT_JIT_ROWS = 201 };
typedef void (*EmitGemmFn)(float *c, const float *a, const float *b, char *scratch, int64_t lo, int64_t hi);
/* b in panels, as many bytes as emit_jit_scratch says: what the packed product takes as b */
typedef void (*EmitPackFn)(float *to, const float *b);
/* Tiles lo..hi-1 of c[k,n] = x[rows,k]^T g[rows,n]. */
typedef void (*EmitGradFn)(float *c, const float *x, const float *g, char *scratch, int64_t lo, int64_t hi,
                           int64_t rows);
typedef struct {
    int64_t n, k;
    int tb, ta, bf16;
} EmitJitShape;
/* 0: the CPU's; 16: as for AVX-512; EMIT_JIT_BF16: as for AVX-512 with bfloat16, whose instructions are
 * functions (emulate.h); EMIT_JIT_AMX: and with AMX, whose are too. */
enum { EMIT_JIT_BF16 = -1, EMIT_JIT_AMX = -2 };
EmitJit *emit_jit_products(const EmitJitShape *shapes, int count, int vector_floats);
EmitGemmFn emit_jit_gemm(EmitJit *j, int shape);
EmitGemmFn emit_jit_packed(EmitJit *j, int shape);
/* The same with an epilogue, which emit_jit_end computes. */
EmitGemmFn emit_jit_ended(EmitJit *j, int shape);
float emit_jit_end(float sum, int64_t row, int64_t col);
EmitPackFn emit_jit_pack(EmitJit *j, int shape);
EmitGradFn emit_jit_grad(EmitJit *j, int shape);
EmitGradFn emit_jit_grown(EmitJit *j, int shape);    /* added to what c holds */
EmitGradFn emit_jit_finished(EmitJit *j, int shape); /* made in scratch, c by way of `finish` */
int64_t emit_jit_tiles(EmitJit *j, int shape);       /* of the weight gradient */
int64_t emit_jit_scratch(EmitJit *j, int shape);     /* bytes, enough for both */

/* Kernels of a recurrent layer (emit_gru.c) on their own. All values along the list stand in one arena, for
 * `cap` positions, in this order: p [3u], the record [4u], a [1] (also of a plain gru), dh [u], the gradient
 * [4u]. */
typedef struct {
    int64_t units;
    int scored; /* augru */
} EmitJitLayer;
typedef void (*EmitKernel)(RtStep *step, int64_t lo, int64_t hi, char *scratch);
EmitJit *emit_jit_layer(const EmitJitLayer *layer, int vector_floats);
EmitKernel emit_jit_layer_kernel(EmitJit *j, int backwards);
int64_t emit_jit_layer_scratch(EmitJit *j); /* bytes, enough for both */
typedef enum { LAYER_P, LAYER_RECORD, LAYER_A, LAYER_DH, LAYER_GRAD, LAYER_END } EmitJitPart;
int64_t emit_jit_layer_offset(int64_t units, EmitJitPart part); /* floats a position before it */

void emit_jit_free(EmitJit *j);

#endif
