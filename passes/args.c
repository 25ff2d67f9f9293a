/* Arguments of passes: "simplify,micro-batch(n=8)" on the command line and in the model file. */
#include "passes/rewrite.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const Span no_place = {0};

static const char *skip_space(const char *s) {
    while (isspace((unsigned char)*s)) s++;
    return s;
}

static char *trimmed(Arena *a, const char *from, const char *to) {
    while (from < to && isspace((unsigned char)*from)) from++;
    while (from < to && isspace((unsigned char)to[-1])) to--;
    return arena_strndup(a, from, (size_t)(to - from));
}

static bool next_pair(Arena *a, const char **s, char **key, char **value);

/* Without blanks and quotes, so that equal arguments have equal text, however they were written. */
static char *canonical(Arena *a, const char *args) {
    char *key, *value, *text = NULL;
    while (next_pair(a, &args, &key, &value))
        text = arena_printf(a, "%s%s%s%s%s", text ? text : "", text ? "," : "", key, value ? "=" : "",
                            value ? value : "");
    return text && *text ? text : NULL;
}

bool pass_parse_args(Arena *a, Diag *d, const char *text, PassArg **out, int *n) {
    int cap = *n;
    for (const char *s = skip_space(text); *s;) {
        const char *start = s;
        while (*s && *s != ',' && *s != '(' && *s != ')') s++;
        PassArg arg = {.name = trimmed(a, start, s)};
        if (!*arg.name) {
            diag_error(d, no_place, NULL, "expected the name of a pass in '%s'", text);
            return false;
        }
        if (*s == '(') {
            const char *open = ++s;
            int depth = 1;
            while (*s && depth) {
                depth += (*s == '(') - (*s == ')');
                s++;
            }
            if (depth) {
                diag_error(d, no_place, NULL, "expected ')' after the arguments of pass '%s'", arg.name);
                return false;
            }
            arg.args = canonical(a, trimmed(a, open, s - 1));
        }
        s = skip_space(s);
        if (*s && *s != ',') {
            diag_error(d, no_place, NULL, "expected ',' between passes, found '%s'", s);
            return false;
        }
        if (*s == ',' && !*(s = skip_space(s + 1))) {
            diag_error(d, no_place, NULL, "expected the name of a pass after ',' in '%s'", text);
            return false;
        }
        ARENA_PUSH(a, *out, *n, cap, arg);
    }
    return true;
}

/* Calls for each key=value in turn, a value of "value" without the quotes, of a key alone NULL: *s moves on;
 * false at the end. */
static bool next_pair(Arena *a, const char **s, char **key, char **value) {
    if (!*s || !**s) return false;
    const char *end = *s;
    while (*end && *end != ',') end++;
    const char *eq = memchr(*s, '=', (size_t)(end - *s));
    *key = trimmed(a, *s, eq ? eq : end);
    *value = eq ? trimmed(a, eq + 1, end) : NULL;
    size_t n = eq ? strlen(*value) : 0;
    if (n > 1 && (*value)[0] == '"' && (*value)[n - 1] == '"') *value = arena_strndup(a, *value + 1, n - 2);
    *s = *end ? end + 1 : end;
    return true;
}

const char *pass_arg(IrProgram *p, const char *args, const char *key) {
    char *k, *v;
    while (next_pair(p->arena, &args, &k, &v))
        if (!strcmp(k, key)) return v ? v : "";
    return NULL;
}

/* "a, b or c" */
static const char *joined(Arena *a, const char *const *words, int n, const char *last) {
    const char *list = words[0];
    for (int i = 1; i < n; i++) list = arena_printf(a, "%s%s%s", list, i + 1 < n ? ", " : last, words[i]);
    return list;
}

/* What an unknown argument may have been meant to be. */
static const char *known_ones(IrProgram *p, const char *key, const char *const *known, int n) {
    const char *near = diag_did_you_mean(p->diag, key, known, n);
    if (near) return near;
    if (!n) return "it takes none";
    return arena_printf(p->arena, "it takes %s", joined(p->arena, known, n, " and "));
}

/* Whether `key` stands in `args` before `end`. */
static bool stands_before(IrProgram *p, const char *args, const char *end, const char *key) {
    char *k, *v;
    while (args < end && next_pair(p->arena, &args, &k, &v))
        if (args < end && !strcmp(k, key)) return true;
    return false;
}

bool pass_args_known(IrProgram *p, const char *pass, const char *args, const char *const *known,
                     int n_known) {
    const char *all = args;
    char *k, *v;
    while (next_pair(p->arena, &args, &k, &v)) {
        bool found = false;
        if (stands_before(p, all, args, k)) {
            diag_error(p->diag, no_place, NULL, "pass '%s' has argument '%s' twice", pass, k);
            return false;
        }
        for (int i = 0; i < n_known; i++) found |= !strcmp(k, known[i]);
        if (!found) {
            diag_error(p->diag, no_place, known_ones(p, k, known, n_known), "pass '%s' has no argument '%s'",
                       pass, k);
            return false;
        }
    }
    return true;
}

bool pass_arg_int(IrProgram *p, const char *pass, const char *args, const char *key, int lo, int hi,
                  int otherwise, int *out) {
    const char *text = pass_arg(p, args, key);
    char *end;
    long value = text ? strtol(text, &end, 10) : otherwise;
    *out = (int)value;
    if (!text || (*text && !*end && value >= lo && value <= hi)) return true;
    diag_error(p->diag, no_place, NULL, "%s: expected %s from %d to %d, found '%s'", pass, key, lo, hi, text);
    return false;
}

bool pass_arg_word(IrProgram *p, const char *pass, const char *args, const char *key,
                   const char *const *words, int n_words, int *out) {
    const char *text = pass_arg(p, args, key);
    *out = 0;
    for (int i = 0; text && i < n_words; i++)
        if (!strcmp(text, words[i])) return *out = i, true;
    if (!text) return true;
    diag_error(p->diag, no_place, NULL, "%s: expected %s=%s, found '%s'", pass, key,
               joined(p->arena, words, n_words, " or "), text);
    return false;
}

bool pass_arg_bool(IrProgram *p, const char *pass, const char *args, const char *key, bool *out) {
    static const char *const words[] = {"false", "true"};
    const char *text = pass_arg(p, args, key);
    int word = 1;
    bool ok = (text && !*text) || pass_arg_word(p, pass, args, key, words, 2, &word);
    *out = word;
    return ok;
}
