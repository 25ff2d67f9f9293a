/* frontend_compile: from a .ctr file to a verified program. */
#include "frontend/value.h"
#include <string.h>
#include <xxhash.h>

static const Builtin *const tables[] = {builtins_value,     builtins_feature, builtins_tensor,
                                        builtins_shape,     builtins_reduce,  builtins_along,
                                        builtins_recurrent, builtins_weight,  builtins_loss,
                                        builtins_optimizer};

static void bind_builtins(Ev *ev) {
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const Builtin *b = tables[t]; b->name; b++) {
            Value *v = ARENA_NEW(ev->a, Value);
            v->kind = V_BUILTIN;
            v->builtin = b;
            scope_bind(ev, ev->root, b->name, v, BIND_BUILTIN, (Span){0}, NULL);
        }
}

/* XXH3 of the texts of the user's files, in the order in which they were first met, and of the params. */
static uint64_t digest(const Ev *ev) {
    XXH3_state_t *state = XXH3_createState();
    XXH3_64bits_reset(state);
    for (int i = 0; i < ev->n_files; i++) {
        const DiagFile *f = &ev->d->files[ev->files[i]->file];
        if (f->library) continue;
        uint64_t size = f->size;
        XXH3_64bits_update(state, &size, sizeof size);
        XXH3_64bits_update(state, f->text, f->size);
    }
    for (int i = 0; i < ev->p->n_params; i++) {
        const IrParam *p = &ev->p->params[i];
        XXH3_64bits_update(state, p->name, strlen(p->name) + 1);
        if (p->is_string)
            XXH3_64bits_update(state, p->str, strlen(p->str) + 1);
        else
            XXH3_64bits_update(state, &p->num, sizeof p->num);
    }
    uint64_t h = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return h;
}

static void start(Ev *ev, const char *path) {
    IrProgram *p = ev->p;
    p->source = path;
    p->batch = 512;
    p->epochs = 1;
    p->seed = 1;
    ev->b = (IrBuilder){.p = p, .body = &ir_func_new(p, "model")->body};
    ev->root = scope_new(ev, NULL);
    ev->library = scope_new(ev, ev->root);
    bind_builtins(ev);
}

IrProgram *frontend_compile(Arena *a, Diag *d, const char *path, const Define *defs, int n_defs,
                            const char *library_dir) {
    Ev *ev = ARENA_NEW(a, Ev);
    *ev = (Ev){.a = a,
               .d = d,
               .p = ir_program_new(a, d),
               .library_dir = library_dir,
               .defs = defs,
               .n_defs = n_defs};
    ev->stack_base = __builtin_frame_address(0);
    ev->def_used = ARENA_ARRAY(a, bool, n_defs + 1);
    start(ev, path);
    SourceFile *main_file = ev_open(ev, path, (Span){0}, false);
    if (!main_file) return NULL;
    ev->main_file = main_file->file;
    if (!ev_load_library(ev)) return NULL;
    main_file->running = true;
    main_file->scope = scope_new(ev, ev->library);
    ev_block(ev, main_file->scope, main_file->block, true, NULL);
    main_file->running = false;
    if (!ev_finish(ev)) return NULL;
    ev->p->digest = digest(ev);
    return ev->p;
}
