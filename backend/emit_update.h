/* One element's update, for whoever has its gradient at hand. */
#ifndef CTRC_BACKEND_EMIT_UPDATE_H
#define CTRC_BACKEND_EMIT_UPDATE_H
#include "backend/emit.h"

typedef struct {
    const IrOptimizer *o;
    int weight, n_slots;
    Val lr, alpha, decay, scale; /* of this step; scale NULL: 1 */
} EmitUpdate;
/* Of an update node's weight. scale: the operand that holds it, or NULL. */
EmitUpdate emit_update_of(Emit *e, const IrNode *n, const IrNode *scale);
/* New weights from old ones, the gradient and the slots, which are replaced; any number of lanes. */
Val emit_apply_update(Emit *e, const EmitUpdate *u, Val w, Val g, Val *slots);

/* ---- emit_grad_update.c: regions of kind update ---- */
void emit_update_region(Emit *e, const IrNode *region);
int64_t emit_update_region_tiles(const PassTarget *t, const IrNode *region);
int64_t emit_update_region_scratch(const PassTarget *t, const IrNode *region);

#endif
