/* Shape rules of recurrent layers. Their values go along a list, one vector a position. */
#include "ir/internal.h"

/* Operand i is f32[~h,width] along the list of operand 0, which is checked first. */
static bool want_along(IrProgram *p, const IrNode *n, int i, int64_t width, const char **why) {
    IrType first = n->in[0]->type, joined = first;
    if (!ir_want_dims(p, n, i, 1, &width, why)) return false;
    if (n->in[i]->type.live != LIVE_POS)
        return ir_wrong(p, why, "operand %d: expected a value along a list, found %s", i + 1,
                        ir_type_text(p, n->in[i]->type));
    return i == 0 || ir_join_live(p, &joined, n->in[i]->type, why);
}

/* Ug [u,2u] and Uc [u,u], operands 1 and 2, the same for all rows. Uc says how many units there are. */
static bool want_recurrent(IrProgram *p, const IrNode *n, int64_t *units, const char **why) {
    if (!ir_want_f32(p, n, 2, why)) return false;
    *units = ir_type_width(n->in[2]->type);
    for (int i = 1; i < 3; i++)
        if (!ir_want_coarse(p, n, i, why) ||
            !ir_want_dims(p, n, i, 2, (int64_t[]){*units, i == 1 ? 2 * *units : *units}, why))
            return false;
    return true;
}

/* gru(p, Ug, Uc), augru(p, Ug, Uc, a) */
bool ir_shape_gru(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int64_t units;
    if (!want_recurrent(p, n, &units, why) || !want_along(p, n, 0, 3 * units, why)) return false;
    *out = ir_f32(LIVE_POS, n->in[0]->type.axis, 1, (int64_t[]){4 * units});
    if (n->op == OP_AUGRU && !want_along(p, n, 3, 1, why)) return false;
    return ir_check_dims(p, out->rank, out->dim, why);
}

/* gru_grad(record, Ug, Uc, dh), augru_grad(record, Ug, Uc, a, dh) */
bool ir_shape_grugrad(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int64_t units;
    if (!want_recurrent(p, n, &units, why) || !want_along(p, n, 0, 4 * units, why)) return false;
    *out = n->in[0]->type;
    if (n->op == OP_AUGRUGRAD && !want_along(p, n, 3, 1, why)) return false;
    return want_along(p, n, n->n_in - 1, units, why);
}

/* sru(f, v), sru_grad(f, dc) */
bool ir_shape_sru(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (!ir_want_f32(p, n, 0, why)) return false;
    int64_t units = ir_type_width(n->in[0]->type);
    *out = n->in[0]->type;
    return want_along(p, n, 0, units, why) && want_along(p, n, 1, units, why);
}
