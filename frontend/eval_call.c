/* Calls: matching arguments with parameters, running layers, built-ins and shared layers. */
#include "frontend/value.h"
#include <string.h>

#define MAX_DEPTH 200

/* ---- what may be passed ---- */

typedef struct {
    const char *name;
    bool optional, many;
} Param;
typedef struct {
    const char *what; /* "hash", for messages */
    Param *params;
    int n;
    bool builtin;
} Signature;

static Signature *parse_params(Ev *ev, const char *what, const char *text) {
    Signature *sig = ARENA_NEW(ev->a, Signature);
    int cap = 0;
    sig->what = what;
    sig->builtin = true;
    for (const char *s = text; *s;) {
        size_t len = strcspn(s, " ");
        Param p = {0};
        p.many = s[0] == '*';
        p.optional = p.many || s[len - 1] == '?';
        p.name = arena_strndup(ev->a, s + p.many, len - p.many - (!p.many && p.optional));
        ARENA_PUSH(ev->a, sig->params, sig->n, cap, p);
        s += len + strspn(s + len, " ");
    }
    return sig;
}

static const Signature *builtin_signature(Ev *ev, const Builtin *b) {
    Signature *sig = strmap_get(&ev->signatures, b->name);
    if (!sig) strmap_put(ev->a, &ev->signatures, b->name, sig = parse_params(ev, b->name, b->params));
    return sig;
}

static Signature layer_signature(Ev *ev, const AstStmt *decl) {
    Signature sig = {.what = decl->name, .n = decl->layer.n_params};
    sig.params = ARENA_ARRAY(ev->a, Param, sig.n + 1);
    for (int i = 0; i < sig.n; i++)
        sig.params[i] =
            (Param){.name = decl->layer.params[i].name, .optional = decl->layer.params[i].initial != NULL};
    return sig;
}

/* ---- words ---- */

static const char *const words_fn[] = {"xxh3", "farm64", NULL},
                         *const words_unknown[] = {"drop", "last", NULL},
                         *const words_keep[] = {"first", "last", NULL},
                         *const words_kind[] = {"mean", "sum", "max", NULL},
                         *const words_init[] = {"zeros",          "ones",
                                                "glorot_uniform", "glorot_normal",
                                                "he_normal",      "truncated_normal",
                                                "normal",         "constant",
                                                "uniform",        NULL};

static const char *const *words_of(const char *param, bool builtin) {
    if (strcmp(param, "fn") == 0) return words_fn;
    if (strcmp(param, "unknown") == 0) return words_unknown;
    if (strcmp(param, "keep") == 0) return words_keep;
    if (strcmp(param, "init") == 0) return words_init;
    return builtin && strcmp(param, "kind") == 0 ? words_kind : NULL;
}

static const char *word_among(const char *const *words, const char *name) {
    for (int i = 0; words && words[i]; i++)
        if (strcmp(words[i], name) == 0) return words[i];
    return NULL;
}

static Value *word(Ev *ev, const char *text) {
    Value *v = ARENA_NEW(ev->a, Value);
    v->kind = V_WORD;
    v->word.text = text;
    v->word.by_default = ev->here.in_default;
    return v;
}

/* normal(0.1) */
static Value *word_with_number(Ev *ev, Scope *s, const char *text, const AstExpr *e) {
    if (e->call.n_args != 1 || e->call.args[0].name) {
        ev_error(ev, e->span, NULL, "%s(…) takes one number", text);
        return NULL;
    }
    Value *x = ev_expr(ev, s, e->call.args[0].value);
    if (!x) return NULL;
    if (x->kind != V_NUMBER) {
        ev_error(ev, e->call.args[0].value->span, NULL, "%s(…) takes one number, found %s", text,
                 ev_describe(ev, x));
        return NULL;
    }
    if (strcmp(text, "constant") != 0 && x->number <= 0) {
        ev_error(ev, e->call.args[0].value->span, NULL, "%s(…) takes a positive number, found %s", text,
                 ev_describe(ev, x));
        return NULL;
    }
    Value *v = word(ev, text);
    v->word.has_arg = true;
    v->word.arg = x->number;
    return v;
}

/* Arguments of some names choose among words; the bare word counts before any name of the user's. */
static bool take_word(Ev *ev, Scope *s, const char *param, bool builtin, const AstExpr *e, Value **out) {
    const char *const *words = words_of(param, builtin);
    if (!words) return false;
    if (e->kind == EX_NAME) {
        const char *text = word_among(words, e->name);
        if (text) {
            *out = word(ev, text);
            return true;
        }
        if (scope_find(ev, s, e->name, true)) return false; /* a name that holds a word, as init = init */
        int n = 0;
        while (words[n]) n++;
        const char *hint = diag_did_you_mean(ev->d, e->name, words, n);
        if (!hint) hint = ev_among(ev, "the words are", words, n);
        ev_error(ev, e->span, hint, "unknown word '%s' for '%s'", e->name, param);
        *out = NULL;
        return true;
    }
    if (words == words_init && e->kind == EX_CALL && e->call.callee->kind == EX_NAME) {
        const char *text = word_among(words, e->call.callee->name);
        if (!text) return false;
        bool takes = strstr("constant normal truncated_normal uniform", text) != NULL;
        if (takes)
            *out = word_with_number(ev, s, text, e);
        else {
            ev_error(ev, e->span, NULL, "'%s' takes no number", text);
            *out = NULL;
        }
        return true;
    }
    return false;
}

/* ---- matching ---- */

static int param_index(const Signature *sig, const char *name) {
    for (int i = 0; i < sig->n; i++)
        if (strcmp(sig->params[i].name, name) == 0) return i;
    return -1;
}

static bool unknown_argument(Ev *ev, const Signature *sig, const AstArg *a) {
    const char **names = ARENA_ARRAY(ev->a, const char *, sig->n + 1);
    for (int i = 0; i < sig->n; i++) names[i] = sig->params[i].name;
    const char *hint = diag_did_you_mean(ev->d, a->name, names, sig->n);
    if (!hint && sig->n) {
        const char *all = names[0];
        for (int i = 1; i < sig->n; i++) all = arena_printf(ev->a, "%s, %s", all, names[i]);
        hint = arena_printf(ev->a, "it takes %s", all);
    }
    ev_error(ev, a->name_span, hint, "'%s' has no argument '%s'", sig->what, a->name);
    return false;
}

/* Which parameter each argument is for. */
static bool match(Ev *ev, const Signature *sig, const AstArg *args, int n, int *to) {
    bool *given = ARENA_ARRAY(ev->a, bool, sig->n + 1);
    int next = 0;
    for (int i = 0; i < n; i++) {
        int k;
        if (args[i].name) {
            k = param_index(sig, args[i].name);
            if (k < 0 || sig->params[k].many) return unknown_argument(ev, sig, &args[i]);
        } else {
            k = next;
            if (k >= sig->n) {
                if (sig->n)
                    ev_error(ev, args[i].value->span, NULL, "'%s' takes at most %d argument%s, found %d",
                             sig->what, sig->n, sig->n == 1 ? "" : "s", n);
                else
                    ev_error(ev, args[i].value->span, NULL, "'%s' takes no arguments", sig->what);
                return false;
            }
            if (!sig->params[k].many) next++;
        }
        if (given[k] && !sig->params[k].many) {
            ev_error(ev, args[i].name ? args[i].name_span : args[i].value->span, NULL,
                     "argument '%s' is given twice", sig->params[k].name);
            return false;
        }
        given[k] = true;
        to[i] = k;
    }
    return true;
}

static bool all_there(Ev *ev, const Signature *sig, const int *to, int n, Span at) {
    for (int k = 0; k < sig->n; k++) {
        bool given = sig->params[k].optional;
        for (int i = 0; i < n && !given; i++) given = to[i] == k;
        if (given) continue;
        ev_error(ev, at, NULL, "'%s' needs its argument '%s'", sig->what, sig->params[k].name);
        return false;
    }
    return true;
}

typedef struct {
    Arg *args, *rest;
    int n_rest;
} Bound;

/* False: an error was reported, or a value is poisoned. */
static bool bind_args(Ev *ev, Scope *s, const Signature *sig, Span at, const AstArg *given, int n_given,
                      const AstExpr *piped, Bound *out) {
    int n = n_given + (piped != NULL);
    AstArg *args = ARENA_ARRAY(ev->a, AstArg, n + 1);
    if (piped) args[0] = (AstArg){.value = (AstExpr *)piped};
    for (int i = 0; i < n_given; i++) args[i + (piped != NULL)] = given[i];
    int *to = ARENA_ARRAY(ev->a, int, n + 1);
    if (!match(ev, sig, args, n, to) || !all_there(ev, sig, to, n, at)) return false;
    out->args = ARENA_ARRAY(ev->a, Arg, sig->n + 1);
    out->rest = ARENA_ARRAY(ev->a, Arg, n + 1);
    bool whole = true;
    for (int i = 0; i < n; i++) {
        const Param *p = &sig->params[to[i]];
        Arg a = {.span = args[i].value->span};
        if (!take_word(ev, s, p->name, sig->builtin, args[i].value, &a.v))
            a.v = ev_expr(ev, s, args[i].value);
        whole &= a.v != NULL;
        if (p->many)
            out->rest[out->n_rest++] = a;
        else
            out->args[to[i]] = a;
    }
    return whole;
}

bool ev_options(Ev *ev, Scope *s, const char *what, Span at, const char *params, const AstArg *args, int n,
                Arg *out) {
    Signature *sig = parse_params(ev, what, params);
    Bound b = {0};
    if (!bind_args(ev, s, sig, at, args, n, NULL, &b)) return false;
    for (int i = 0; i < sig->n; i++) out[i] = b.args[i];
    return true;
}

/* ---- running ---- */

static bool is_library(const Ev *ev, Span s) { return s.line && ev->d->files[s.file].library; }

/* Binds the parameters in the layer's scope; defaults are evaluated there, each at each call. */
static bool enter(Ev *ev, const AstStmt *decl, const Bound *b, Scope *s) {
    for (int i = 0; i < decl->layer.n_params; i++) {
        const AstParamDecl *p = &decl->layer.params[i];
        Value *v = b->args[i].v;
        if (!v) {
            bool outer = ev->here.in_default;
            ev->here.in_default = is_library(ev, p->initial->span);
            ev->here.bound = p->name;
            if (!take_word(ev, s, p->name, false, p->initial, &v)) v = ev_expr(ev, s, p->initial);
            ev->here.bound = NULL;
            ev->here.in_default = outer;
            if (!v) return false;
        }
        scope_bind(ev, s, p->name, v, BIND_VALUE, p->span, NULL);
    }
    return true;
}

static Value *run_body(Ev *ev, const AstStmt *decl, Scope *s) {
    if (decl->layer.expr) return ev_expr(ev, s, decl->layer.expr);
    Value *v = NULL;
    Flow flow = ev_block(ev, s, &decl->layer.body, false, &v);
    if (flow == FLOW_NEXT)
        ev_error(ev, decl->name_span, NULL, "layer '%s' ends without `return`", decl->name);
    return flow == FLOW_RETURN ? v : NULL;
}

static Value *run_layer(Ev *ev, const Value *layer, const AstExpr *site, const Bound *b, bool by_column) {
    const AstStmt *decl = layer->layer.decl;
    if (ev->depth >= MAX_DEPTH) {
        ev_error(ev, site->span, "a layer that calls itself needs an `if` that ends it",
                 "calls nest more than %d deep in layer '%s'", MAX_DEPTH, decl->name);
        ev->stop = true;
        return NULL;
    }
    Where outer = ev->here;
    bool library = is_library(ev, decl->span), from_library = is_library(ev, site->span);
    if (library && !from_library) {
        ev->here.user_call = site->span;
        ev->here.library_layer = decl->name;
    } else if (!library) {
        ev->here.caller = ev_user_span(ev, site->span);
        ev->here.has_caller = true;
    }
    ev->depth++;
    ev->here.bound = NULL;
    ev->here.in_default = false;
    const Value *first = decl->layer.n_params ? b->args[0].v : NULL;
    bool column = by_column && first && first->kind == V_COLUMN;
    const char *text = column ? ev->p->input.columns[first->column].name : decl->name;
    if (library && decl->name[0] == '_') text = ""; /* what library layers share is no part of a path */
    Part *part = names_push(ev, PART_CALL, text, by_column ? (const void *)site : decl, 0);
    Scope *s = scope_new(ev, layer->layer.scope);
    Value *v = enter(ev, decl, b, s) ? run_body(ev, decl, s) : NULL;
    names_pop(ev, part);
    ev->depth--;
    ev->here = outer;
    return v;
}

static Value *run_builtin(Ev *ev, Scope *s, const Builtin *builtin, const AstExpr *site, Bound *b) {
    Call c = {.of = builtin,
              .site = site,
              .span = site->span,
              .args = b->args,
              .rest = b->rest,
              .n_rest = b->n_rest,
              .scope = s};
    ev_at(ev, site->span);
    return builtin->run(ev, &c);
}

Value *ev_call(Ev *ev, Scope *s, const AstExpr *site, const AstExpr *callee, const AstArg *args, int n_args,
               const AstExpr *piped) {
    const Value *f = ev_expr(ev, s, callee);
    if (!f) return NULL;
    SharedLayer *shared = f->kind == V_SHARED ? f->shared : NULL;
    if (shared) f = shared->layer;
    if (f->kind != V_LAYER && f->kind != V_BUILTIN) {
        ev_error(ev, callee->span, NULL, "expected a layer to call, found %s", ev_describe(ev, f));
        return NULL;
    }
    Signature sig =
        f->kind == V_LAYER ? layer_signature(ev, f->layer.decl) : *builtin_signature(ev, f->builtin);
    Bound b = {0};
    if (!bind_args(ev, s, &sig, site->span, args, n_args, piped, &b)) return NULL;
    /* Weights that the arguments make are the caller's; what the call itself makes from here on is shared. */
    Part *part = shared ? names_push(ev, PART_SHARED, shared->base, site, 0) : NULL;
    if (part) part->shared = shared;
    Value *v =
        f->kind == V_LAYER ? run_layer(ev, f, site, &b, !shared) : run_builtin(ev, s, f->builtin, site, &b);
    if (part) names_pop(ev, part);
    return v;
}
