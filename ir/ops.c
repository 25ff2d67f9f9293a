/* The op table expanded: names, arity, attributes, and the way from an op to its shape rule. */
#include "ir/internal.h"
#include <string.h>

const IrOpInfo ir_ops[OP_COUNT] = {
#define OP(id, text, min, max, attrs, shape, grad, cost, effect, cls, meaning)                               \
    [OP_##id] = {#id, text, attrs, meaning, min, max, EFFECT_##effect, CLASS_##cls},
#include "ir/ops.def"
#undef OP
};

static IrShapeRule *const shape_rules[OP_COUNT] = {
#define OP(id, text, min, max, attrs, shape, ...) [OP_##id] = ir_shape_##shape,
#include "ir/ops.def"
#undef OP
};

int ir_op_by_text(const char *text) {
    for (int i = 0; i < OP_COUNT; i++)
        if (strcmp(ir_ops[i].text, text) == 0) return i;
    return -1;
}

int ir_attr_specs(IrOp op, IrAttrSpec out[IR_MAX_ATTRS]) {
    int n = 0;
    for (const char *s = ir_ops[op].attrs; *s && n < IR_MAX_ATTRS;) {
        const char *colon = strchr(s, ':');
        out[n] = (IrAttrSpec){s, (int)(colon - s), colon[1], colon[2] == '?'};
        s = colon + 2 + out[n].optional;
        while (*s == ' ') s++;
        n++;
    }
    return n;
}

int ir_attr_find(const IrAttrSpec *specs, int n, const char *key) {
    for (int i = 0; i < n; i++)
        if (strncmp(specs[i].name, key, (size_t)specs[i].len) == 0 && key[specs[i].len] == 0) return i;
    return -1;
}

static bool in_range(IrProgram *p, const IrAttr *a, char kind, const char **why) {
    int n = 0;
    const char *what = NULL;
    switch (kind) {
    case 'b': n = 2, what = "true or false"; break;
    case 'w': n = p->n_weights, what = "a weight"; break;
    case 'c': n = p->input.n_columns, what = "a column"; break;
    case 'x': n = p->n_axes, what = "a list axis"; break;
    case 'v': n = p->n_vocabs, what = "a vocabulary"; break;
    case 'o': n = p->n_opts, what = "an optimizer"; break;
    default: return true;
    }
    if (a->i >= 0 && a->i < n) return true;
    return ir_wrong(p, why, "attribute '%s': expected %s, found number %lld of %d", a->key, what,
                    (long long)a->i, n);
}

/* Kinds that are kept in the same member of IrAttr. */
static char storage(char kind) { return strchr("bwcxvo", kind) ? 'i' : kind; }

static const char *kind_text(char kind) {
    switch (storage(kind)) {
    case 'i': return "a whole number";
    case 'f': return "a number";
    case 's': return "a string";
    case 'I': return "a list of whole numbers";
    default: return "a list of numbers";
    }
}

bool ir_check_form(IrProgram *p, const IrNode *n, const char **why) {
    const IrOpInfo *info = &ir_ops[n->op];
    if (n->n_in < info->min_in || (info->max_in >= 0 && n->n_in > info->max_in)) {
        if (info->min_in == info->max_in)
            return ir_wrong(p, why, "expected %d operand%s, found %d", info->min_in,
                            info->min_in == 1 ? "" : "s", n->n_in);
        if (info->max_in < 0)
            return ir_wrong(p, why, "expected at least %d operand%s, found %d", info->min_in,
                            info->min_in == 1 ? "" : "s", n->n_in);
        return ir_wrong(p, why, "expected %d to %d operands, found %d", info->min_in, info->max_in, n->n_in);
    }
    IrAttrSpec specs[IR_MAX_ATTRS];
    bool seen[IR_MAX_ATTRS] = {false};
    int n_specs = ir_attr_specs(n->op, specs);
    for (int i = 0; i < n->n_attrs; i++) {
        const IrAttr *a = &n->attrs[i];
        int s = ir_attr_find(specs, n_specs, a->key);
        if (s < 0) return ir_wrong(p, why, "unknown attribute '%s'", a->key);
        if (seen[s]) return ir_wrong(p, why, "attribute '%s' is given twice", a->key);
        seen[s] = true;
        if (storage(a->kind) != storage(specs[s].kind))
            return ir_wrong(p, why, "attribute '%s': expected %s, found %s", a->key, kind_text(specs[s].kind),
                            kind_text(a->kind));
        if (!in_range(p, a, specs[s].kind, why)) return false;
    }
    for (int s = 0; s < n_specs; s++)
        if (!seen[s] && !specs[s].optional)
            return ir_wrong(p, why, "missing attribute '%.*s'", specs[s].len, specs[s].name);
    return true;
}

bool ir_infer(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    return ir_check_form(p, n, why) && shape_rules[n->op](p, n, out, why);
}

bool ir_wrong(IrProgram *p, const char **why, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    *why = arena_vprintf(p->arena, fmt, ap);
    va_end(ap);
    return false;
}
