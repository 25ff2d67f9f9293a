#include "runtime/optimizer.h"
#include <math.h>
#include <string.h>

double rt_sched_rate(const RtSched *s, double t) {
    switch (s->kind) {
    case RT_LR_CONST: return s->lr;
    case RT_LR_EXPONENTIAL: return s->lr * pow(s->rate, t / s->every);
    case RT_LR_COSINE: return s->end + (s->lr - s->end) * 0.5 * (1 + cos(M_PI * fmin(t / s->steps, 1)));
    case RT_LR_PIECEWISE: {
        int i = 0;
        while (i < s->n && t > s->at[i]) i++;
        return s->values[i];
    }
    case RT_LR_WARMUP: return rt_sched_rate(s->then, t) * fmin(t / s->steps, 1);
    }
    return 0;
}

/* The accumulator shrinks after each `every` steps, so before the update of steps every+1, 2·every+1, … */
static uint64_t decays_through(const RtOptimizer *o, uint64_t step) {
    return step > 1 && o->every >= 1 ? (uint64_t)((double)(step - 1) / o->every) : 0;
}

uint64_t rt_opt_decays(const RtOptimizer *o, uint64_t after, uint64_t to) {
    return to > after ? decays_through(o, to) - decays_through(o, after) : 0;
}

RtOptStep rt_opt_step(const RtOptimizer *o, uint64_t step, uint64_t updates, double scale) {
    double lr = rt_sched_rate(&o->lr, (double)step) * scale;
    RtOptStep s = {.lr = (float)lr, .alpha = (float)lr, .decay = 1};
    if (o->kind == RT_ADAM || o->kind == RT_ADAM_ASYNC) {
        double t = (double)(o->kind == RT_ADAM ? step : updates);
        s.alpha = (float)(lr * sqrt(1 - pow(o->beta2, t)) / (1 - pow(o->beta1, t)));
    }
    if (o->kind == RT_ADAGRAD_DECAY && rt_opt_decays(o, step - 1, step)) s.decay = (float)o->rate;
    return s;
}

float rt_opt_slot_start(const RtOptimizer *o, const char *slot) {
    switch (o->kind) {
    case RT_ADAGRAD:
    case RT_ADAGRAD_DECAY: return (float)o->init;
    case RT_RMSPROP: return 1;
    case RT_FTRL: return strcmp(slot, "n") == 0 ? (float)o->init : 0;
    default: return 0;
    }
}
