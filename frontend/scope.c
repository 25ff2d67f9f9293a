/* Scopes: what a name means, which names may be bound again, and which were never used. */
#include "frontend/value.h"
#include <string.h>
#include <xxhash.h>

Scope *scope_new(Ev *ev, Scope *up) {
    Scope *s = ARENA_NEW(ev->a, Scope);
    s->up = up;
    return s;
}

static uint64_t hash_name(const char *name) { return XXH3_64bits(name, strlen(name)); }

enum { FEW = 12 };

static Binding *own(Scope *s, const char *name, uint64_t hash) {
    if (s->n > FEW) {
        intptr_t at = (intptr_t)strmap_get(&s->index, name);
        return at ? &s->items[at - 1] : NULL;
    }
    for (int i = 0; i < s->n; i++)
        if (s->items[i].hash == hash && strcmp(s->items[i].name, name) == 0) return &s->items[i];
    return NULL;
}

Binding *scope_own(Scope *s, const char *name) { return own(s, name, hash_name(name)); }

/* hidden: built-ins and layers whose names begin with '_' are meant for the layer library alone. */
Binding *scope_find(Ev *ev, Scope *s, const char *name, bool hidden) {
    uint64_t hash = hash_name(name);
    for (; s; s = s->up) {
        if ((s == ev->library || s == ev->root) && name[0] == '_' && !hidden) return NULL;
        Binding *b = own(s, name, hash);
        if (b) return b;
    }
    return NULL;
}

static Decl *declare(Ev *ev, const char *name, BindKind kind, Span at, const void *place) {
    const char *key = arena_printf(ev->a, "%p:%s", place, name);
    Decl *d = place ? strmap_get(&ev->decl_by_place, key) : NULL;
    if (d) return d;
    d = ARENA_NEW(ev->a, Decl);
    *d = (Decl){.name = name, .span = at, .kind = kind, .place = place};
    if (!place) return d;
    strmap_put(ev->a, &ev->decl_by_place, key, d);
    ARENA_PUSH(ev->a, ev->decls, ev->n_decls, ev->cap_decls, d);
    return d;
}

static void add(Ev *ev, Scope *s, Binding b) {
    ARENA_PUSH(ev->a, s->items, s->n, s->cap, b);
    if (s->n <= FEW) return;
    for (int i = s->n == FEW + 1 ? 0 : s->n - 1; i < s->n; i++)
        strmap_put(ev->a, &s->index, s->items[i].name, (void *)(intptr_t)(i + 1));
}

static const char *kind_name(const Binding *b) {
    switch (b->kind) {
    case BIND_COLUMN: return "column";
    case BIND_AXIS: return "axis";
    case BIND_PARAM: return "param";
    case BIND_LAYER: return "layer";
    case BIND_PREDICTION: return "prediction";
    case BIND_BUILTIN: return "built-in";
    case BIND_TABLE: return "table";
    default: return "value";
    }
}

/* Plain values may be rebound; nothing else may. */
static bool may_rebind(const Binding *old, BindKind kind) {
    return old->kind == BIND_VALUE && (kind == BIND_VALUE || kind == BIND_TABLE);
}

static void refuse(Ev *ev, const Binding *old, const char *name, Span at, const void *place) {
    const char *hint = NULL;
    if (old->kind == BIND_TABLE && old->decl->place == place)
        hint = "collect the tables of a loop in a list, or make each in a layer";
    ev_error(ev, at, hint, "'%s' can't be bound again: it is %s %s", name,
             old->kind == BIND_AXIS ? "an" : "a", kind_name(old));
    if (old->decl && old->decl->span.line && !ev->d->files[old->decl->span.file].library &&
        old->decl->place != place)
        diag_note(ev->d, old->decl->span, "'%s' was bound here", name);
}

bool scope_bind(Ev *ev, Scope *s, const char *name, Value *v, BindKind kind, Span at, const void *place) {
    uint64_t hash = hash_name(name);
    Binding *old = own(s, name, hash);
    if (old && !may_rebind(old, kind)) {
        refuse(ev, old, name, at, place);
        return false;
    }
    Decl *d = declare(ev, name, kind, at, place);
    if (old) {
        *old = (Binding){name, hash, v, kind, d};
        return true;
    }
    add(ev, s, (Binding){name, hash, v, kind, d});
    return true;
}

void scope_import(Ev *ev, Scope *into, const Scope *from, Span at) {
    for (int i = 0; i < from->n; i++) {
        const Binding *b = &from->items[i];
        Binding *old = own(into, b->name, b->hash);
        if (old && (old->decl == b->decl || (old->kind == BIND_PARAM && b->kind == BIND_PARAM))) continue;
        if (old && !may_rebind(old, b->kind)) {
            ev_error(ev, at, NULL, "the import brings in '%s', which is a %s here already", b->name,
                     kind_name(old));
            if (old->decl->span.line) diag_note(ev->d, old->decl->span, "'%s' was bound here", b->name);
            continue;
        }
        if (old)
            *old = *b;
        else
            add(ev, into, *b);
    }
}

static const char *nearest(Ev *ev, Scope *s, const char *name) {
    const char **all = NULL;
    int n = 0, cap = 0;
    for (; s; s = s->up)
        for (int i = 0; i < s->n; i++)
            if (s->items[i].name[0] != '_') ARENA_PUSH(ev->a, all, n, cap, s->items[i].name);
    return diag_did_you_mean(ev->d, name, all, n);
}

Value *scope_read(Ev *ev, Scope *s, const char *name, Span at) {
    Binding *b = scope_find(ev, s, name, ev->d->files[at.file].library);
    if (!b) {
        if (!ev->import_failed) ev_error(ev, at, nearest(ev, s, name), "unknown name '%s'", name);
        return NULL;
    }
    b->decl->used = true;
    return b->value;
}

void scope_warn_unused(Ev *ev) {
    for (int i = 0; i < ev->n_decls; i++) {
        const Decl *d = ev->decls[i];
        if (d->used || d->span.file != ev->main_file || d->name[0] == '_') continue;
        switch (d->kind) {
        case BIND_COLUMN:
            ev_warn(ev, d->span,
                    ev->p->input.header ? "with a header it may be left out"
                                        : "declare it as skip if it only stands in the file",
                    "column '%s' is never used", d->name);
            break;
        case BIND_LAYER: ev_warn(ev, d->span, NULL, "layer '%s' is never used", d->name); break;
        case BIND_VALUE: ev_warn(ev, d->span, NULL, "value '%s' is never used", d->name); break;
        default: break;
        }
    }
}
