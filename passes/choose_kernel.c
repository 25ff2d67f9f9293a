/* Which kernel runs a node: a loop, a generated register tile, or the library.
 *
 * The rule, from measurements on an AVX2 core (peak about 110 GFLOP/s in fp32): a generated tile on packed
 * operands reaches 77 to 100, the library 60 to 84 at the larger sizes and less at small ones, where its
 * calls cost about a microsecond each; and the tile takes bias and activation along while the result is in
 * registers. But a tile's columns are vectors: a product narrower than one wastes lanes. So: a tile where the
 * result is at least a vector wide, else the library. The rule is the same on every machine, and so are the
 * programs that it makes.
 *
 * `schedule(products=tile|library)` overrides it for all products, `schedule(library=dW 162x200|64x16)` and
 * `tile=` for those of a size: what ctrc --tune-kernels finds can be written so into a model file. Costs that
 * were measured on this CPU do the same by themselves (weigh_products.c). The backend may do better on what
 * is very narrow, and says so in its plan. A recurrent layer always has tiles, and so has a product that
 * rounds its operands to bfloat16: the library is called for fp32 only. Where the CPU has AMX, those of the
 * latter are AMX's, unless `schedule(amx=off)` leaves them to the vector registers. */
#include "passes/schedule.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const Span no_place = {0};

/* ---- arguments ---- */

/* "396x1024", "1024x396t", "dW 396x1024" */
static bool read_name(const char *text, PassProduct *out) {
    *out = (PassProduct){.grad = !strncmp(text, "dW ", 3)};
    int end = 0;
    if (out->grad) text += 3;
    if (sscanf(text, "%9" SCNd64 "x%9" SCNd64 "%n", &out->k, &out->n, &end) < 2 || out->k < 1 || out->n < 1)
        return false;
    out->swapped = !out->grad && text[end] == 't';
    return !text[end + out->swapped];
}

static bool read_names(IrProgram *p, const char *args, const char *key, IrKernel kernel, PassKernels *out) {
    const char *text = pass_arg(p, args, key);
    while (text) {
        size_t size = strcspn(text, "|");
        PassNamedKernel one = {.kernel = kernel};
        const char *name = arena_strndup(p->arena, text, size);
        if (!read_name(name, &one.product)) {
            diag_error(
                p->diag, no_place, "--emit=plan lists a model's products in columns op and size",
                "schedule: expected products such as 396x512, 512x396t or 'dW 396x512' in %s=, found '%s'",
                key, name);
            return false;
        }
        ARENA_PUSH(p->arena, out->named, out->n, out->cap, one);
        text = text[size] ? text + size + 1 : NULL;
    }
    return true;
}

bool pass_read_kernels(IrProgram *p, const char *args, PassKernels *out) {
    static const char *const wishes[] = {"auto", "tile", "library"}, *const amx[] = {"auto", "off"};
    int wish, off;
    *out = (PassKernels){0};
    if (!pass_arg_word(p, "schedule", args, "products", wishes, 3, &wish) ||
        !pass_arg_word(p, "schedule", args, "amx", amx, 2, &off))
        return false;
    out->wish = (PassProducts)wish, out->no_amx = off;
    return read_names(p, args, "tile", KERNEL_TILE, out) &&
           read_names(p, args, "library", KERNEL_LIBRARY, out);
}

/* ---- the choice ---- */

IrKernel pass_choose_kernel(const IrNode *n, const PassTarget *target, const PassKernels *kernels) {
    const IrNode *product = ir_product_of(n);
    /* its products are a few rows each: always tiles, whose packed weights serve all steps */
    if (ir_is_recurrent(n)) return KERNEL_TILE;
    if (!product) return KERNEL_LOOP;
    if (ir_takes_bf16(product)) return target->amx && !kernels->no_amx ? KERNEL_AMX : KERNEL_TILE;
    PassProduct s;
    bool two_ways = kernels->n && pass_product_shape(n, &s);
    for (int i = 0; two_ways && i < kernels->n; i++) {
        if (!pass_same_product(&s, &kernels->named[i].product)) continue;
        kernels->named[i].used = true;
        return kernels->named[i].kernel;
    }
    if (kernels->wish != PRODUCTS_AUTO) return kernels->wish == PRODUCTS_TILE ? KERNEL_TILE : KERNEL_LIBRARY;
    int vector = target->vector_floats ? target->vector_floats : 8;
    return ir_type_width(product->type) >= vector ? KERNEL_TILE : KERNEL_LIBRARY;
}
