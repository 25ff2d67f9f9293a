/* Part of schedule: kernels of products by what they were measured to cost on this CPU.
 *
 * A product of one size has one kernel in all of a program, though calls of it may differ: in how many rows
 * they have, in whether an epilogue follows. What counts is the sum over those that the program has. The
 * library is chosen where it is a tenth faster, in gradients a fifth; where a size wasn't measured, the rule
 * stands. It stands for all, too, if what is won in a step is less than a hundredth.
 *
 * Sums by the library have another order than a tile's, so a program says what was chosen: where costs and
 * rule differ, the record of the pass has arguments as if somebody had given them, such as
 *
 *     schedule(library=dW 162x200|64x16)
 *
 * which `info` shows, a checkpoint keeps, and a model file may ask for, to get the same program anywhere. */
#include "passes/schedule.h"
#include <string.h>

typedef struct {
    PassProduct product;
    const char *key;
    IrKernel rule; /* what it has without costs */
    int count;     /* how often it stands in the program's first function, which is train */
} Weighed;
typedef struct {
    IrProgram *p;
    const PassTarget *target;
    PassKernels *kernels;
    Weighed *item; /* those that differ in what is measured */
    int n, cap;
} Weigh;

static void add(Weigh *w, const IrFunc *f, const IrNode *n, int block) {
    Weighed one = {.count = f == w->p->funcs[0]};
    if (!pass_product(w->p, f, n, block, &one.product)) return;
    one.key = pass_product_key(w->p->arena, &one.product);
    one.rule = pass_choose_kernel(n, w->target, w->kernels);
    for (int i = 0; i < w->n; i++)
        if (!strcmp(w->item[i].key, one.key)) {
            w->item[i].count += one.count;
            return;
        }
    ARENA_PUSH(w->p->arena, w->item, w->n, w->cap, one);
}

static bool is_named(const Weigh *w, const PassProduct *s) {
    for (int k = 0; k < w->kernels->n; k++)
        if (pass_same_product(&w->kernels->named[k].product, s)) return true;
    return false;
}

/* The kernel by costs; the rule's if some of them are missing. */
static IrKernel by_cost(const Weigh *w, const PassCosts *costs, const Weighed *one) {
    double tile = 0, library = 0;
    for (int k = 0; k < w->n; k++) {
        const PassProduct *s = &w->item[k].product;
        if (!pass_same_product(s, &one->product)) continue;
        const PassCost *c = pass_cost(costs, w->item[k].key);
        if (!c) return one->rule;
        tile += pass_product_flops(s) / c->tile;
        library += pass_product_flops(s) / c->library;
    }
    return pass_library_wins(&one->product, tile, library) ? KERNEL_LIBRARY : KERNEL_TILE;
}

/* "library=dW 162x200|64x16" of the products named since `from`; "" if none has this kernel. */
static const char *argument(const Weigh *w, IrKernel kernel, const char *key, int from) {
    Arena *a = w->p->arena;
    const char *text = "";
    for (int i = from; i < w->kernels->n; i++) {
        const PassNamedKernel *k = &w->kernels->named[i];
        if (k->kernel != kernel) continue;
        text = arena_printf(a, "%s%s%s", text, *text ? "|" : "", pass_product_name(a, &k->product));
    }
    return *text ? arena_printf(a, "%s=%s", key, text) : "";
}

/* Whether the products named since `from` save a hundredth of the time of all that were measured: for less,
 * bits aren't changed, nor is oneDNN loaded at a program's start. */
static bool worth_it(const Weigh *w, const PassCosts *costs, int from) {
    double all = 0, saved = 0;
    for (int i = 0; i < w->n; i++) {
        const Weighed *x = &w->item[i];
        const PassCost *c = pass_cost(costs, x->key);
        if (!c) continue;
        double work = x->count * pass_product_flops(&x->product), tile = work / c->tile,
               library = work / c->library;
        all += x->rule == KERNEL_TILE ? tile : library;
        for (int k = from; k < w->kernels->n; k++)
            if (pass_same_product(&w->kernels->named[k].product, &x->product))
                saved += x->rule == KERNEL_TILE ? tile - library : library - tile;
    }
    return saved * 100 >= all;
}

static void choose(Weigh *w, const PassCosts *costs) {
    PassKernels *kernels = w->kernels;
    int given = kernels->n;
    for (int i = 0; i < w->n; i++) {
        if (is_named(w, &w->item[i].product)) continue;
        PassNamedKernel one = {.product = w->item[i].product, .kernel = by_cost(w, costs, &w->item[i])};
        if (one.kernel == w->item[i].rule) continue;
        ARENA_PUSH(w->p->arena, kernels->named, kernels->n, kernels->cap, one);
    }
    if (!worth_it(w, costs, given)) kernels->n = given;
    if (kernels->n == given) return;
    const char *library = argument(w, KERNEL_LIBRARY, "library", given),
               *tile = argument(w, KERNEL_TILE, "tile", given);
    w->p->settled = arena_printf(w->p->arena, "%s%s%s", library, *library && *tile ? ", " : "", tile);
}

/* Those named in the arguments that aren't there: the model has changed, or a figure is mistyped. */
static void note_unused(IrProgram *p, const PassKernels *kernels) {
    for (int i = 0; i < kernels->n; i++)
        if (!kernels->named[i].used)
            diag_warn(p->diag, (Span){0}, "--emit=plan lists a model's products in columns op and size",
                      "schedule: this model has no product %s",
                      pass_product_name(p->arena, &kernels->named[i].product));
}

static bool measure(PassCosts *costs, IrProgram *p, const Weigh *w) {
    PassProduct *products = ARENA_ARRAY(p->arena, PassProduct, w->n);
    for (int i = 0; i < w->n; i++) products[i] = w->item[i].product;
    return costs->measure(costs, p, products, w->n);
}

bool pass_weigh_products(IrProgram *p, const PassOptions *o, PassKernels *kernels, PassRows *call_rows,
                         int rows) {
    Weigh w = {.p = p, .target = &o->target, .kernels = kernels};
    for (int i = 0; i < p->n_funcs; i++)
        for (int k = 0; k < p->funcs[i]->body.n; k++)
            add(&w, p->funcs[i], p->funcs[i]->body.nodes[k], call_rows(p, p->funcs[i], rows));
    note_unused(p, kernels);
    if (!o->costs || kernels->wish != PRODUCTS_AUTO || !w.n) return true;
    o->costs->asked = true;
    o->costs->failed = o->costs->measure && !measure(o->costs, p, &w);
    if (o->costs->failed) return false;
    choose(&w, o->costs);
    return true;
}
