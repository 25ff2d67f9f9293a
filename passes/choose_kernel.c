/* Which kernel runs a node: a loop, a generated register tile, or the library.
 *
 * The rule, from measurements on an AVX2 core (peak about 110 GFLOP/s in fp32): a generated tile on packed
 * operands reaches 77 to 100, the library 60 to 84 at the larger sizes and less at small ones, where its
 * calls cost about a microsecond each; and the tile takes bias and activation along while the result is in
 * registers. But a tile's columns are vectors: a product narrower than one wastes lanes. So: a tile where the
 * result is at least a vector wide, else the library. `schedule(products=tile|library)` overrides; the
 * backend may do better on what is very narrow, and says so in its plan. A recurrent layer always has tiles,
 * and so has a product that rounds its operands to bfloat16: the library is called for fp32 only. */
#include "passes/schedule.h"

IrKernel pass_choose_kernel(const IrNode *n, const PassTarget *target, PassProducts wish) {
    const IrNode *product = ir_product_of(n);
    /* its products are a few rows each: always tiles, whose packed weights serve all steps */
    if (ir_is_recurrent(n)) return KERNEL_TILE;
    if (!product) return KERNEL_LOOP;
    if (ir_takes_bf16(product)) return KERNEL_TILE;
    if (wish != PRODUCTS_AUTO) return wish == PRODUCTS_TILE ? KERNEL_TILE : KERNEL_LIBRARY;
    int vector = target->vector_floats ? target->vector_floats : 8;
    return ir_type_width(product->type) >= vector ? KERNEL_TILE : KERNEL_LIBRARY;
}
