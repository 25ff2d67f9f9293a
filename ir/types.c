/* Types: what a value holds and how often it exists. Their text: see README.md. */
#include "ir/internal.h"
#include <stdlib.h>
#include <string.h>

const char *const ir_axis_kinds[AXIS_KINDS] = {"list", "first", "last", "filter", "append"};

IrType ir_f32(IrLive live, int axis, int rank, const int64_t *dim) {
    IrType t = {.elem = TY_F32, .live = live, .rank = rank, .axis = -1};
    if (live == LIVE_POS || live == LIVE_UNIQ) t.axis = axis;
    for (int i = 0; i < rank && i < IR_MAX_RANK; i++) t.dim[i] = dim[i];
    return t;
}

bool ir_type_eq(IrType a, IrType b) {
    if (a.elem != b.elem) return false;
    if (a.elem == TY_NONE) return true; /* a root or an update has no value, so no liveness */
    if (a.live != b.live || a.rank != b.rank) return false;
    if ((a.live == LIVE_POS || a.live == LIVE_UNIQ) && a.axis != b.axis) return false;
    if (a.elem == TY_ID && a.bound != b.bound) return false;
    for (int i = 0; i < a.rank; i++)
        if (a.dim[i] != b.dim[i]) return false;
    return true;
}

int64_t ir_type_size(IrType t) {
    int64_t size = 1;
    for (int i = 0; i < t.rank; i++) size *= t.dim[i];
    return size;
}

int64_t ir_type_width(IrType t) { return t.rank > 0 ? t.dim[t.rank - 1] : 1; }

const char *ir_type_text(const IrProgram *p, IrType t) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) {
        fputs("ctrc: error: out of memory\n", stderr);
        exit(1);
    }
    ir_print_type(p, t, f);
    fclose(f);
    const char *kept = arena_strndup(p->arena, text, size);
    free(text);
    return kept;
}

bool ir_same_dims(IrType a, IrType b) {
    if (a.rank != b.rank) return false;
    for (int i = 0; i < a.rank; i++)
        if (a.dim[i] != b.dim[i]) return false;
    return true;
}

/* A filtered list is at most as long as the one it was taken from. */
int64_t ir_axis_max(const IrProgram *p, int axis) {
    while (p->axes[axis].kind == AXIS_FILTER) axis = p->axes[axis].parent;
    return p->axes[axis].max;
}

const char *ir_axis_described(const IrProgram *p, int axis) {
    if (axis < 0 || axis >= p->n_axes) return "an unknown list";
    int root = axis; /* a derived axis has no columns of its own */
    for (int hops = 0; hops < p->n_axes && p->axes[root].parent >= 0; hops++) root = p->axes[root].parent;
    const char *column = NULL;
    for (int i = 0; i < p->input.n_columns && !column; i++)
        if (p->input.columns[i].is_list && p->input.columns[i].axis == root)
            column = p->input.columns[i].name;
    const char *name = p->axes[axis].name;
    if (!column) return arena_printf(p->arena, "axis '%s'", name);
    if (strcmp(column, name) == 0) return arena_printf(p->arena, "list column '%s'", column);
    return arena_printf(p->arena, "list column '%s' (axis '%s')", column, name);
}
