/* What an optimizer needs once a step, computed in double: rates, powers, decays. The element's arithmetic is
 * in generated code. */
#ifndef CTRC_RUNTIME_OPTIMIZER_H
#define CTRC_RUNTIME_OPTIMIZER_H
#include "runtime/model.h"

double rt_sched_rate(const RtSched *s, double t);
/* Scalars of step `step` (from 1); updates: of this variable, with this one (adam_async counts by it); the
 * schedule's rate times `scale`. */
RtOptStep rt_opt_step(const RtOptimizer *o, uint64_t step, uint64_t updates, double scale);
/* Value that a slot's elements start from. */
float rt_opt_slot_start(const RtOptimizer *o, const char *slot);
/* How many decays of adagrad_decay come in steps after+1 … to. */
uint64_t rt_opt_decays(const RtOptimizer *o, uint64_t after, uint64_t to);

#endif
