/* Weights that passes make, and those that they leave without use: see rewrite.h. */
#include "passes/rewrite.h"
#include <string.h>

const char *pass_path_of(IrProgram *p, const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? arena_strndup(p->arena, name, (size_t)(dot - name)) : "";
}

const char *pass_common_path(IrProgram *p, const char *a, const char *b) {
    size_t end = 0;
    for (size_t i = 0;; i++) {
        bool a_ends = !a[i] || a[i] == '.', b_ends = !b[i] || b[i] == '.';
        if (a_ends && b_ends) end = i;
        if (!a[i] || !b[i] || a[i] != b[i]) break;
    }
    return arena_strndup(p->arena, a, end);
}

int pass_add_weight(IrProgram *p, const IrWeight *like, const char *name, IrInit init, int rank,
                    const int64_t *dim) {
    IrWeight w = {.name = name, .rank = rank, .init = init, .trainable = like->trainable};
    memcpy(w.dim, dim, sizeof *dim * (size_t)rank);
    w.optimizer = like->optimizer, w.own_optimizer = -1, w.span = like->span;
    ARENA_PUSH(p->arena, p->weights, p->n_weights, p->cap_weights, w);
    return p->n_weights - 1;
}

void pass_drop_unnamed(IrProgram *p, const bool *which, int n) {
    bool *drop = ir_named_weights(p);
    for (int i = 0; i < p->n_weights; i++) drop[i] = i < n && which[i] && !drop[i];
    ir_drop_weights(p, drop);
}
