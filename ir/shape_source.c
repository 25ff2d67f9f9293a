/* Shape rules of sources and of the reader stage: fields of a row become numbers and ids. */
#include "ir/internal.h"
#include <math.h>
#include <string.h>

bool ir_shape_const(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const IrAttr *shape = ir_attr(n, "shape"), *value = ir_attr(n, "value");
    if (!ir_check_dims(p, shape->ilist.n, shape->ilist.v, why)) return false;
    *out = ir_f32(LIVE_ALWAYS, -1, shape->ilist.n, shape->ilist.v);
    int64_t size = ir_type_size(*out);
    if (value->flist.n == 1 || value->flist.n == size) return true;
    return ir_wrong(p, why, "expected 1 value or %lld, found %d", (long long)size, value->flist.n);
}

bool ir_shape_weight(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const IrWeight *w = &p->weights[ir_attr_i(n, "w")];
    if (!ir_check_dims(p, w->rank, w->dim, why)) return false;
    *out = ir_f32(LIVE_ALWAYS, -1, w->rank, w->dim);
    return true;
}

bool ir_shape_column(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const IrColumn *c = &p->input.columns[ir_attr_i(n, "col")];
    IrType t = {.live = LIVE_ROW, .axis = -1};
    switch (c->kind) {
    case COL_LABEL:
    case COL_FLOAT: t = ir_f32(LIVE_ROW, -1, 1, (int64_t[]){1}); break;
    case COL_STRING: t.elem = TY_STR; break;
    case COL_INT: t.elem = TY_INT; break;
    default: return ir_wrong(p, why, "a skipped column has no value");
    }
    if (c->is_list) {
        if (c->axis < 0 || c->axis >= p->n_axes)
            return ir_wrong(p, why, "list column '%s' has no axis", c->name);
        t.live = LIVE_POS;
        t.axis = c->axis;
    }
    *out = t;
    return true;
}

bool ir_shape_step1(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    (void)p, (void)n, (void)why;
    *out = ir_f32(LIVE_STEP, -1, 1, (int64_t[]){1});
    return true;
}

bool ir_shape_row1(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    (void)p, (void)n, (void)why;
    *out = ir_f32(LIVE_ROW, -1, 1, (int64_t[]){1});
    return true;
}

/* The operand lives a row or position and is of one of two kinds. */
static bool want_field(IrProgram *p, const IrNode *n, int i, IrElem a, IrElem b, const char *expected,
                       const char **why) {
    IrType t = n->in[i]->type;
    if (t.elem != a && t.elem != b)
        return ir_wrong(p, why, "expected %s, found %s", expected, ir_type_text(p, t));
    return ir_want_rows(p, n, i, why);
}

static bool id_type(IrProgram *p, IrType like, int64_t bound, const char *what, IrType *out,
                    const char **why) {
    if (bound < 1 || bound > IR_MAX_BOUND)
        return ir_wrong(p, why, "expected 1 to %lld %s, found %lld", (long long)IR_MAX_BOUND, what,
                        (long long)bound);
    *out = (IrType){.elem = TY_ID, .live = like.live, .axis = like.axis, .bound = bound};
    return true;
}

bool ir_shape_number(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (!want_field(p, n, 0, TY_INT, TY_INT, "an int column", why)) return false;
    *out = ir_f32(n->in[0]->type.live, n->in[0]->type.axis, 1, (int64_t[]){1});
    return true;
}

bool ir_shape_hash(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const char *fn = ir_attr_s(n, "fn");
    if (strcmp(fn, "xxh3") != 0 && strcmp(fn, "farm64") != 0)
        return ir_wrong(p, why, "expected fn xxh3 or farm64, found '%s'", fn);
    return want_field(p, n, 0, TY_STR, TY_INT, "a string or int column", why) &&
           id_type(p, n->in[0]->type, ir_attr_i(n, "buckets"), "buckets", out, why);
}

/* Left-out values close a list up, so they need an axis of its own; an index keeps the list as it is. */
static bool vocab_axis(IrProgram *p, const IrNode *n, int64_t unknown, IrType *t, const char **why) {
    const IrAttr *axis = ir_attr(n, "axis");
    bool filters = t->live == LIVE_POS && unknown == -1;
    if (!axis) {
        if (filters)
            return ir_wrong(p, why, "a list whose unknown values are left out needs the filtered axis");
        return true;
    }
    if (!filters)
        return ir_wrong(p, why, "expected no axis: only a list whose unknown values are left out gets one");
    const IrAxis *x = &p->axes[axis->i];
    if (x->kind != AXIS_FILTER || x->parent != t->axis)
        return ir_wrong(p, why, "expected an axis filtered from '%s', found '%s'", p->axes[t->axis].name,
                        x->name);
    t->axis = (int)axis->i;
    return true;
}

bool ir_shape_vocab(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const IrVocab *v = &p->vocabs[ir_attr_i(n, "vocab")];
    int64_t unknown = ir_attr_i(n, "unknown");
    if (!want_field(p, n, 0, TY_STR, TY_INT, "a string or int column", why)) return false;
    if (unknown < -1 || unknown > v->n)
        return ir_wrong(p, why, "expected an index from 0 to %lld (or -1) for unknown values, found %lld",
                        (long long)v->n, (long long)unknown);
    IrType t = n->in[0]->type;
    return vocab_axis(p, n, unknown, &t, why) &&
           id_type(p, t, unknown == v->n ? v->n + 1 : v->n, "values in the vocabulary", out, why);
}

bool ir_shape_bucketize(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (!want_field(p, n, 0, TY_F32, TY_INT, "a float or int column", why)) return false;
    if (n->in[0]->type.elem == TY_F32 && !ir_want_dims(p, n, 0, 1, (int64_t[]){1}, why)) return false;
    const IrAttr *b = ir_attr(n, "bounds");
    for (int i = 0; i < b->flist.n; i++) {
        if (!isfinite(b->flist.v[i]))
            return ir_wrong(p, why, "expected finite bounds, found %g", b->flist.v[i]);
        if (i && b->flist.v[i] <= b->flist.v[i - 1])
            return ir_wrong(p, why, "expected rising bounds, found %g after %g", b->flist.v[i],
                            b->flist.v[i - 1]);
    }
    return id_type(p, n->in[0]->type, (int64_t)b->flist.n + 1, "buckets", out, why);
}

bool ir_shape_identity(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    return want_field(p, n, 0, TY_INT, TY_INT, "an int column", why) &&
           id_type(p, n->in[0]->type, ir_attr_i(n, "n"), "ids", out, why);
}

bool ir_shape_offset(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    IrType t = n->in[0]->type;
    int64_t by = ir_attr_i(n, "by"), below = ir_attr_i(n, "n");
    if (t.elem != TY_ID) return ir_wrong(p, why, "expected an id, found %s", ir_type_text(p, t));
    if (!ir_want_rows(p, n, 0, why) || !id_type(p, t, below, "ids", out, why)) return false;
    if (by > -t.bound && by < below) return true; /* else there is none for any of them */
    return ir_wrong(p, why, "expected ids of %s moved by %lld to %lld, found %lld", ir_type_text(p, t),
                    (long long)(1 - t.bound), (long long)(below - 1), (long long)by);
}

bool ir_shape_cross(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int list = -1;
    for (int i = 0; i < n->n_in; i++) {
        IrType t = n->in[i]->type;
        if (t.elem == TY_F32 || t.elem == TY_KEY || t.elem == TY_NONE)
            return ir_wrong(p, why, "part %d: expected a string or int column or an id, found %s", i + 1,
                            ir_type_text(p, t));
        if (!ir_want_rows(p, n, i, why)) return false;
        if (t.live != LIVE_POS) continue;
        if (list >= 0)
            return ir_wrong(p, why, "expected at most one part that is a list, found parts %d and %d",
                            list + 1, i + 1);
        list = i;
    }
    return id_type(p, n->in[list < 0 ? 0 : list]->type, ir_attr_i(n, "buckets"), "buckets", out, why);
}

bool ir_shape_truncate(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    IrType t = n->in[0]->type;
    if (t.live != LIVE_POS || t.elem == TY_KEY || t.elem == TY_NONE)
        return ir_wrong(p, why, "expected a list, found %s", ir_type_text(p, t));
    const IrAxis *x = &p->axes[ir_attr_i(n, "axis")];
    if ((x->kind != AXIS_FIRST && x->kind != AXIS_LAST) || x->parent != t.axis)
        return ir_wrong(p, why, "expected the first or last of axis '%s', found axis '%s'",
                        p->axes[t.axis].name, x->name);
    t.axis = (int)ir_attr_i(n, "axis");
    *out = t;
    return true;
}

/* The length along a filtered axis is known only from what was filtered, so the way up may not lead past one.
 */
static bool derived_length(const IrProgram *p, int axis, int from) {
    while (axis != from && p->axes[axis].kind != AXIS_LIST && p->axes[axis].kind != AXIS_FILTER)
        axis = p->axes[axis].parent;
    return axis == from;
}

bool ir_shape_positions(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    IrType t = n->in[0]->type;
    int axis = (int)ir_attr_i(n, "axis");
    if (t.live != LIVE_POS) return ir_wrong(p, why, "expected a list, found %s", ir_type_text(p, t));
    if (!derived_length(p, axis, t.axis))
        return ir_wrong(p, why, "expected axis '%s' or one truncated or appended from it, found axis '%s'",
                        p->axes[t.axis].name, p->axes[axis].name);
    if (!ir_axis_max(p, axis))
        return ir_wrong(p, why, "expected an axis with a max, found axis '%s'", p->axes[axis].name);
    t.axis = axis;
    return id_type(p, t, ir_axis_max(p, axis), "positions", out, why);
}

bool ir_shape_key(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    IrType t = n->in[0]->type;
    if ((t.elem != TY_STR && t.elem != TY_INT) || t.live != LIVE_ROW)
        return ir_wrong(p, why, "expected a string or int column that is no list, found %s",
                        ir_type_text(p, t));
    *out = (IrType){.elem = TY_KEY, .live = LIVE_ROW, .axis = -1};
    return true;
}
