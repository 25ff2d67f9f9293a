/* One table of all options: which commands take them, whether a value follows, what they do. */
#include "frontend/options.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Arena *a;
    Diag *d;
    Options *o;
} Context;
typedef bool (*Take)(Context *c, const char *value);

static const Span no_place = {0};
static const char *const commands[] = {"check", "diff", "synth"};

static bool wrong(Context *c, const char *hint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool wrong(Context *c, const char *hint, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    diag_error(c->d, no_place, hint, "%s", arena_vprintf(c->a, fmt, ap));
    va_end(ap);
    return false;
}

/* ---- what each option does ---- */

static bool take_define(Context *c, const char *v) {
    const char *eq = strchr(v, '=');
    const char *name = eq ? arena_strndup(c->a, v, (size_t)(eq - v)) : v;
    bool word = isalpha((unsigned char)name[0]) || name[0] == '_';
    for (const char *s = name; *s; s++) word &= isalnum((unsigned char)*s) || *s == '_';
    if (!eq || !word) return wrong(c, NULL, "expected -D name=value, found '-D %s'", v);
    Options *o = c->o;
    for (int i = 0; i < o->n_defs; i++)
        if (!strcmp(o->defs[i].name, name)) {
            o->defs[i].value = eq + 1;
            return true;
        }
    ARENA_PUSH(c->a, o->defs, o->n_defs, o->cap_defs, ((Define){name, eq + 1}));
    return true;
}

static bool take_out(Context *c, const char *v) {
    if (!*v) return wrong(c, NULL, "expected a file name after -o");
    c->o->out = v;
    return true;
}

static bool take_level(Context *c, const char *v) {
    if (v[0] < '0' || v[0] > '2' || v[1]) return wrong(c, NULL, "expected -O0, -O1 or -O2, found '-O%s'", v);
    c->o->pass.level = v[0] - '0';
    return true;
}

static bool take_enable(Context *c, const char *v) {
    PassArg *list = (PassArg *)c->o->pass.enable;
    bool ok = pass_parse_args(c->a, c->d, v, &list, &c->o->pass.n_enable);
    c->o->pass.enable = list;
    return ok;
}

static bool take_disable(Context *c, const char *v) {
    PassArg *list = (PassArg *)c->o->pass.disable;
    bool ok = pass_parse_args(c->a, c->d, v, &list, &c->o->pass.n_disable);
    c->o->pass.disable = list;
    return ok;
}

static bool take_emit(Context *c, const char *v) {
    static const char *const kinds[] = {"ast", "ir", "plan", "llvm", "asm", "obj", "dot", "html", "lib"};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    for (int i = 0; i < KINDS; i++) {
        if (strcmp(v, kinds[i])) continue;
        c->o->emit = (Emit)(EMIT_AST + i);
        return true;
    }
    return wrong(c, diag_did_you_mean(c->d, v, kinds, KINDS),
                 "unknown kind '%s' of --emit, expected ast, ir, plan, llvm, asm, obj, dot, html or lib", v);
}

/* "a,b" onto a list of names. */
static bool take_names(Context *c, const char *v, const char ***names, int *n) {
    int cap = *n;
    while (*v) {
        size_t size = strcspn(v, ",");
        const char *name = arena_strndup(c->a, v, size);
        if (size && strcmp(name, "all") && !pass_known(c->d, name)) return false;
        if (size) ARENA_PUSH(c->a, *names, *n, cap, name);
        v += size + (v[size] == ',');
    }
    return true;
}
static bool take_before(Context *c, const char *v) {
    return take_names(c, v, &c->o->pass.print_before, &c->o->pass.n_print_before);
}
static bool take_after(Context *c, const char *v) {
    return take_names(c, v, &c->o->pass.print_after, &c->o->pass.n_print_after);
}
static bool take_only(Context *c, const char *v) {
    c->o->pass.print_only = v;
    return true;
}
static bool take_verify(Context *c, const char *v) {
    (void)v;
    c->o->pass.verify_each = true;
    return true;
}
static bool take_march(Context *c, const char *v) {
    c->o->march = v;
    return true;
}
static bool take_static(Context *c, const char *v) {
    (void)v;
    c->o->alone = true;
    return true;
}
static bool take_tune(Context *c, const char *v) {
    (void)v;
    c->o->tune = true;
    return true;
}

/* A whole number from lo to hi. */
static bool whole(Context *c, const char *name, const char *v, uint64_t lo, uint64_t hi, uint64_t *out) {
    char *end = NULL;
    errno = 0;
    unsigned long long n = isdigit((unsigned char)v[0]) ? strtoull(v, &end, 10) : 0;
    if (!end || *end || errno || n < lo || n > hi)
        return wrong(c, NULL, "expected a whole number from %llu to %llu after %s, found '%s'",
                     (unsigned long long)lo, (unsigned long long)hi, name, v);
    *out = n;
    return true;
}
static bool take_rows(Context *c, const char *v) {
    uint64_t n = 0;
    if (!whole(c, "--rows", v, 1, 1000000000000, &n)) return false;
    c->o->rows = (int64_t)n;
    return true;
}
static bool take_seed(Context *c, const char *v) { return whole(c, "--seed", v, 0, UINT64_MAX, &c->o->seed); }

static bool take_list_passes(Context *c, const char *v) {
    (void)v;
    c->o->command = CMD_LIST_PASSES;
    return true;
}
static bool take_version(Context *c, const char *v) {
    (void)v;
    c->o->command = CMD_VERSION;
    return true;
}
static bool take_help(Context *c, const char *v) {
    (void)v;
    c->o->command = CMD_HELP;
    return true;
}

/* ---- the table ---- */

enum {
    IN_COMPILE = 1 << CMD_COMPILE,
    IN_CHECK = 1 << CMD_CHECK,
    IN_DIFF = 1 << CMD_DIFF,
    IN_SYNTH = 1 << CMD_SYNTH,
    IN_ALL = 15,
    ALONE = 16 /* makes the rest of the line unnecessary */
};
typedef struct {
    const char *name;
    bool value;
    int where;
    Take take;
} Option;
static const Option table[] = {
    {"-D", true, IN_ALL, take_define},
    {"-o", true, IN_COMPILE | IN_SYNTH, take_out},
    {"-O", true, IN_COMPILE | IN_CHECK, take_level},
    {"--enable", true, IN_COMPILE | IN_CHECK, take_enable},
    {"--disable", true, IN_COMPILE | IN_CHECK, take_disable},
    {"--emit", true, IN_COMPILE, take_emit},
    {"--print-before", true, IN_COMPILE | IN_CHECK, take_before},
    {"--print-after", true, IN_COMPILE | IN_CHECK, take_after},
    {"--print-only", true, IN_COMPILE | IN_CHECK, take_only},
    {"--verify-each", false, IN_COMPILE | IN_CHECK, take_verify},
    {"--march", true, IN_COMPILE | IN_CHECK, take_march},
    {"--static", false, IN_COMPILE, take_static},
    {"--tune-kernels", false, IN_COMPILE, take_tune},
    {"--rows", true, IN_SYNTH, take_rows},
    {"--seed", true, IN_SYNTH, take_seed},
    {"--list-passes", false, IN_ALL | ALONE, take_list_passes},
    {"--version", false, IN_ALL | ALONE, take_version},
    {"--help", false, IN_ALL | ALONE, take_help},
    {"-h", false, IN_ALL | ALONE, take_help},
};
enum { N_TABLE = sizeof table / sizeof *table };

static const char *command_name(Command c) {
    return c == CMD_COMPILE ? "compiling" : commands[c - CMD_CHECK];
}

/* The option that text gives; *value points into it, or is NULL if the value is the next word. */
static const Option *find_option(const char *text, const char **value) {
    *value = NULL;
    bool longer = text[1] == '-';
    size_t n = longer ? strcspn(text, "=") : 2;
    for (int i = 0; i < N_TABLE; i++) {
        if (strlen(table[i].name) != n || strncmp(table[i].name, text, n)) continue;
        if (text[n]) *value = text + n + longer;
        return &table[i];
    }
    return NULL;
}

static bool unknown(Context *c, const char *text) {
    const char *names[N_TABLE];
    for (int i = 0; i < N_TABLE; i++) names[i] = table[i].name;
    const char *name = arena_strndup(c->a, text, strcspn(text, "="));
    /* -emit is --emit with a dash too few */
    if (name[1] != '-' && strlen(name) > 3) name = arena_printf(c->a, "-%s", name);
    const char *hint = name[2] ? diag_did_you_mean(c->d, name, names, N_TABLE) : NULL;
    return wrong(c, hint ? hint : "ctrc --help lists the options", "unknown option '%s'", text);
}

static bool take_option(Context *c, int argc, char **argv, int *i, Command command) {
    const char *text = argv[*i], *value;
    const Option *x = find_option(text, &value);
    if (!x || (!x->value && value && text[1] != '-')) return unknown(c, text);
    if (!(x->where & 1 << command))
        return wrong(c, "ctrc --help says which option goes where", "%s is no option for %s", x->name,
                     command_name(command));
    if (!x->value && value) return wrong(c, NULL, "%s takes no value, found '%s'", x->name, text);
    if (x->value && !value) {
        if (*i + 1 >= argc) return wrong(c, NULL, "expected a value after %s", x->name);
        value = argv[++*i];
    }
    return x->take(c, value);
}

/* ---- the whole line ---- */

static bool is_option(const char *s) { return s[0] == '-' && s[1]; }

/* --help and the like answer whatever else stands in the line. */
static bool stands_alone(Context *c, int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        const char *value;
        const Option *x = is_option(argv[i]) ? find_option(argv[i], &value) : NULL;
        if (x && (x->where & ALONE) && !value) return x->take(c, NULL);
        if (x && x->value && !value) i++;
    }
    return false;
}

static bool check_file(Context *c, const char *path) {
    const char *dot = strrchr(path, '.');
    if (dot && (!strcmp(dot, ".ctr") || !strcmp(dot, ".ir"))) return true;
    return wrong(c, diag_did_you_mean(c->d, path, commands, 3), "expected a .ctr or an .ir file, found '%s'",
                 path);
}

static bool check_files(Context *c, const char **files, int n) {
    int wanted = c->o->command == CMD_DIFF ? 2 : 1;
    if (n == 0 && c->o->command == CMD_COMPILE)
        return wrong(c, "ctrc --help shows how ctrc is used", "expected a .ctr or an .ir file");
    bool ok = true;
    for (int i = 0; i < n && i < wanted; i++) ok = ok && check_file(c, files[i]);
    if (!ok) return false;
    if (n == wanted) return true;
    if (n > wanted)
        return wrong(c, NULL, "expected %s, found a further '%s'", wanted == 2 ? "two files" : "one file",
                     files[wanted]);
    return wrong(c, NULL, "expected %s after '%s'", wanted == 2 ? "two files" : "a .ctr or an .ir file",
                 command_name(c->o->command));
}

/* No product goes to the library then, unless schedule's arguments say so: and then linking says that it
 * can't. */
static void generate_products(Context *c) {
    PassOptions *p = &c->o->pass;
    PassArg *list = (PassArg *)p->enable, tile = {"schedule", "products=tile"};
    int cap = p->n_enable;
    for (int i = 0; i < p->n_enable; i++)
        if (!strcmp(list[i].name, "schedule")) return;
    ARENA_PUSH(c->a, list, p->n_enable, cap, tile);
    p->enable = list;
}

/* Figures of this CPU are for programs that may choose by them. */
static bool check_tune(Context *c) {
    const Options *o = c->o;
    if (strcmp(o->march, "native"))
        return wrong(c, "leave one of the two out",
                     "--tune-kernels measures this CPU, --march=%s makes a program for another", o->march);
    if (o->pass.level < 2)
        return wrong(c, NULL,
                     "--tune-kernels needs -O2: below it kernels are chosen by a rule, not by measured "
                     "costs");
    if (o->alone)
        return wrong(c, NULL, "--static generates all products: --tune-kernels has nothing to choose");
    if (o->emit == EMIT_AST)
        return wrong(c, NULL, "--emit=ast makes no products that --tune-kernels could measure");
    return true;
}

static bool check_sense(Context *c) {
    Options *o = c->o;
    bool shows = o->pass.n_print_before || o->pass.n_print_after || o->emit == EMIT_IR;
    if (o->pass.print_only && !shows)
        return wrong(c, NULL, "--print-only needs --print-before, --print-after or --emit=ir");
    if (o->command == CMD_SYNTH && !o->rows) return wrong(c, NULL, "synth needs --rows N");
    if (o->command == CMD_SYNTH && !o->out) return wrong(c, NULL, "synth needs -o FILE");
    if (o->alone && o->emit != EMIT_NOTHING)
        return wrong(c, NULL, "--static links a program, --emit makes none");
    if (o->tune && !check_tune(c)) return false;
    if (o->alone) generate_products(c);
    const char *files[] = {o->file, o->second};
    bool source = false;
    for (int i = 0; i < 2; i++) {
        size_t n = files[i] ? strlen(files[i]) : 0;
        source |= n > 4 && !strcmp(files[i] + n - 4, ".ctr");
    }
    if (o->n_defs && !source)
        return wrong(c, NULL, "-D needs a .ctr file: the params of an .ir file are set already");
    if (o->emit == EMIT_AST && !source)
        return wrong(c, NULL, "--emit=ast needs a .ctr file: an .ir file has no syntax tree");
    return true;
}

bool options_parse(Arena *a, Diag *d, int argc, char **argv, Options *o) {
    *o = (Options){.march = "native", .seed = 1, .pass = {.level = 2}};
    Context c = {a, d, o};
    if (stands_alone(&c, argc, argv)) return true;
    /* the command is the first word that is no option and no option's value */
    const char **files = ARENA_ARRAY(a, const char *, argc);
    int n = 0, first = 0;
    for (int i = 1; i < argc && !first; i++) {
        const char *value;
        if (!is_option(argv[i]))
            first = i;
        else if (find_option(argv[i], &value) && find_option(argv[i], &value)->value && !value)
            i++;
    }
    for (int k = 0; first && k < 3; k++)
        if (!strcmp(argv[first], commands[k])) o->command = (Command)(CMD_CHECK + k);
    bool ok = true, options_end = false;
    for (int i = 1; i < argc; i++) {
        if (!options_end && !strcmp(argv[i], "--"))
            options_end = true;
        else if (!options_end && is_option(argv[i]))
            ok &= take_option(&c, argc, argv, &i, o->command);
        else if (i != first || o->command == CMD_COMPILE)
            files[n++] = argv[i];
    }
    if (!ok || !check_files(&c, files, n)) return false;
    o->file = files[0];
    o->second = n > 1 ? files[1] : NULL;
    return check_sense(&c);
}

void options_help(FILE *out) {
    fputs(
        "ctrc compiles a .ctr file, which describes a click-through-rate model, into a program that trains,\n"
        "evaluates and runs that model.\n"
        "\n"
        "  ctrc MODEL.ctr [-o MODEL]     compile to an executable (default: the file's name without .ctr, "
        "here)\n"
        "    -D name=value               set a param\n"
        "    -O0 | -O1 | -O2             only the passes that no program can do without; exact passes; with "
        "tuned\n"
        "                                kernels (default -O2)\n"
        "    --enable=P[,P]              passes by name, arguments in brackets: --enable='micro-batch(n=8)'\n"
        "    --disable=P[,P]\n"
        "    --list-passes               what each pass does\n"
        "    --emit=KIND                 stop there and print to -o or stdout: ast ir plan llvm asm obj dot\n"
        "                                html (one page: the IR after each pass, kernels, memory, weights)\n"
        "    --emit=lib                  a shared library libMODEL.so (or -o) and a header MODEL.h beside "
        "it\n"
        "    --print-before=P|all  --print-after=P|all   the program around a pass, to stdout\n"
        "    --print-only=NAME           of it only the layer NAME, or the value %ID, and its neighbours\n"
        "    --verify-each               check the program after each pass\n"
        "    --march=CPU                 native (default), x86-64-v3, x86-64-v4; with bfloat16\n"
        "                                cooperlake, sapphirerapids, znver4\n"
        "    --tune-kernels              measure this model's products on this CPU, by generated code and by "
        "oneDNN;\n"
        "                                what is found is kept, and -O2 chooses by it from then on\n"
        "    --static                    a program that needs no library where it runs; all products are "
        "generated\n"
        "  ctrc check MODEL.ctr          errors and warnings only\n"
        "  ctrc diff A.ir B.ir           what changed, op by op\n"
        "  ctrc synth MODEL.ctr --rows N [--seed S] -o FILE\n"
        "                                write a log with the model's columns and a planted signal, and say "
        "the best\n"
        "                                AUC that any model can reach on it\n"
        "  ctrc --version | --help\n"
        "\n"
        "An .ir file, as --emit=ir prints it, may stand wherever a .ctr file may. The program explains "
        "itself:\n"
        "MODEL --help. Exit codes: 0 done, 1 failed, 2 wrong usage or a program that doesn't compile.\n"
        "\n"
        "Examples:\n"
        "  ctrc deepfm.ctr -D dim=32 && ./deepfm train --data log.csv\n"
        "  ctrc deepfm.ctr --emit=plan\n"
        "  ctrc deepfm.ctr --print-after=fuse --print-only=deep.mlp.0\n",
        out);
}
