/* What the language has and this version does not: operators along sequences. To add one, move its line to
 * the table of a file of its own. */
#include "frontend/value.h"

Value *ev_later(Ev *ev, const Call *c, const char *what) {
    ev_error(ev, c->span, NULL, "this version of ctrc does not have %s yet", what);
    return NULL;
}

static Value *later(Ev *ev, Call *c) { return ev_later(ev, c, arena_printf(ev->a, "'%s'", c->of->name)); }

const Builtin builtins_later[] = {
    {"gru", "x units", later},         {"augru", "x scores units", later}, {"sru", "x units tied?", later},
    {"sru_light", "x units", later},   {0},
};
