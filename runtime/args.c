#include "runtime/args.h"
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/message.h"

/* One line an option; help, parsing and hints all come from here. */
typedef enum {
    FLAG,
    NUMBER,
    SHARE,
    TIME,
    EVERY,
    PLATEAU,
    RANGE,
    TEXT,
    WORD,
    HOW,
    FILES,
    NAMES
} Kind; /* SHARE: between 0 and 1; HOW: a flag, or one of the words; NAMES: with commas between them */
enum {
    T = 1 << RT_CMD_TRAIN,
    E = 1 << RT_CMD_EVAL,
    P = 1 << RT_CMD_PREDICT,
    C = 1 << RT_CMD_CHECK,
    X = 1 << RT_CMD_EXPORT,
    I = 1 << RT_CMD_INFO
};
typedef struct {
    const char *name, *value, *help; /* value: how the help calls it, for WORD the choices a|b|c */
    Kind kind;
    unsigned commands;
    size_t at;
    int64_t lo;
} Option;
#define AT(field) offsetof(RtArgs, field)
static const Option options[] = {
    {"--data", "F...", "files, directories or - for stdin; .gz and .zst are read as they are", FILES,
     T | E | P | C, AT(data), 0},
    {"--eval-data", "F...", "evaluate on these after each epoch", FILES, T, AT(eval_data), 0},
    {"--eval-fraction", "P", "hold out this share of the rows, the same ones always; evaluate on them", SHARE,
     T | E, AT(eval_fraction), 0},
    {"--eval-every", "STEPS|ROWSrows", "evaluate also after each STEPS steps, or ROWS rows (100000rows)",
     EVERY, T, AT(eval_every), 0},
    {"--early-stop", "N",
     "stop after N evaluations that are no better; --save's DIR ends with\n"
     "                                  the best one, which is DIR/best meanwhile",
     NUMBER, T, AT(early_stop), 1},
    {"--lr-plateau", "FACTOR,N", "after N evaluations that are no better: rates times FACTOR", PLATEAU, T,
     AT(lr_plateau), 0},
    {"--early-stop-metric", "METRIC",
     "what is to be better: loss, auc, auc:ctr, logloss ... (default: the\n"
     "                                  first auc of the model, else loss)",
     TEXT, T, AT(early_stop_metric), 0},
    {"--keep-negatives", "P", "train on this share of the rows whose label is 0; predictions are corrected",
     SHARE, T, AT(keep_negatives), 0},
    {"--validate-first", "N", "read N rows and look at them before training starts", NUMBER, T,
     AT(validate_first), 1},
    {"--epochs", "N", "how often to go through the data", NUMBER, T, AT(epochs), 1},
    {"--steps", "N", "stop after N steps", NUMBER, T, AT(steps), 0},
    {"--threads", "N", "threads of a step (default: the CPUs this process may use)", NUMBER, T | E | P | C,
     AT(threads), 1},
    {"--seed", "N", "of initial values, shuffling and dropout", NUMBER, T, AT(seed), INT64_MIN},
    {"--no-shuffle", NULL, "rows in file order", FLAG, T, AT(no_shuffle), 0},
    {"--save", "DIR", "write a checkpoint at the end, and when told to stop (exit code 75)", TEXT, T,
     AT(save), 0},
    {"--save-every", "STEPS", "also while training goes on", NUMBER, T, AT(save_every), 1},
    {"--keep", "N", "checkpoints to keep, earlier ones as DIR/step-N (default 2)", NUMBER, T, AT(keep), 1},
    {"--resume", "force|previous",
     "go on from the checkpoint in --save's DIR, if there is one; force: though\n"
     "                                  data or program have changed; previous: or from the one before",
     HOW, T, AT(resume), 0},
    {"--init-from", "DIR", "begin with this checkpoint's weights and slots, at step 0", TEXT, T,
     AT(init_from), 0},
    {"--stop-after", "TIME", "save and stop with exit code 75 after a time such as 90s, 30m or 3h", TIME, T,
     AT(stop_after), 0},
    {"--load", "DIR", "the checkpoint to use", TEXT, E | P | X, AT(load), 0},
    {"--log", "FILE.jsonl", "write a line of JSON every --log-every steps", TEXT, T, AT(log), 0},
    {"--tensorboard", "DIR", "write the same numbers as event files for TensorBoard", TEXT, T,
     AT(tensorboard), 0},
    {"--log-every", "STEPS", "default 100", NUMBER, T, AT(log_every), 1},
    {"--log-norms", "on|off",
     "norms of gradients and weights, for which a logged step is run twice (default on)", WORD, T,
     AT(log_norms), 0},
    {"--profile", "FILE.json", "write what each thread did in the first 100 steps, as a trace for Chrome",
     TEXT, T, AT(profile), 0},
    {"--profile-steps", "A-B", "in these steps instead", RANGE, T, AT(profile_steps), 0},
    {"--on-bad-row", "fail|skip", "what to do with a row that cannot be read (default fail)", WORD,
     T | E | P | C, AT(on_bad_row), 0},
    {"--bad-rows", "FILE", "where skipped rows are written, as they are", TEXT, T | E | P | C, AT(bad_rows),
     0},
    {"--max-bad-rows", "N", "give up after more than N skipped rows", NUMBER, T | E | P | C, AT(max_bad_rows),
     0},
    {"--progress", "auto|always|never", "a progress line (default: on a terminal)", WORD, T | E | P | C,
     AT(progress), 0},
    {"--cache", "none|memory", "memory: keep parsed rows, so later epochs read no text", WORD, T, AT(cache),
     0},
    {"--json", NULL, "print one JSON object instead of a summary", FLAG, T | E | C | I, AT(json), 0},
    {"--calibration", NULL, "also how far predictions can be taken for probabilities", FLAG, E,
     AT(calibration), 0},
    {"-o", "FILE", "write here instead of stdout, whole or not at all", TEXT, P, AT(out), 0},
    {"--header", NULL, "first a line with the predictions' names", FLAG, P, AT(header), 0},
    {"--columns", "C,C", "first in each line these fields of the row, as they stand in the file", NAMES, P,
     AT(columns), 0},
    {"--format", "csv|jsonl", "of the output (default csv)", WORD, P, AT(format), 0},
    {"--format", "safetensors|onnx",
     "safetensors: all weights by name, tables whole; onnx: the prediction as\n"
     "                                  a graph, from ids and numbers to predictions",
     WORD, X, AT(export_format), 0},
    {"-o", "FILE", "the file to write, whole or not at all", TEXT, X, AT(out), 0},
};
enum { N_OPTIONS = sizeof options / sizeof *options };

static const struct {
    const char *name, *help;
} commands[RT_COMMANDS] = {
    {"train", "train on log files"},
    {"eval", "metrics of a checkpoint on log files"},
    {"predict", "predictions of a checkpoint, one line a row"},
    {"check", "what is in log files, column by column, and what is wrong with it"},
    {"export", "a checkpoint for other programs"},
    {"info", "model, columns, weights, memory, passes"},
};

/* ---- help ---- */

static void print_option(FILE *f, const Option *o) {
    char left[64];
    snprintf(left, sizeof left, o->kind == HOW ? "%s%s[=%s]" : "%s%s%s", o->name,
             o->value && o->kind != HOW ? " " : "", o->value ? o->value : "");
    fprintf(f, "  %-31s %s\n", left, o->help);
}

static void print_examples(FILE *f, RtCommand c, const char *p) {
    fputs("\nexamples:\n", f);
    switch (c) {
    case RT_CMD_TRAIN:
        fprintf(f, "  %s train --data train.csv --eval-data eval.csv --save ckpt\n", p);
        fprintf(f, "  %s train --data logs/ --epochs 3 --cache memory --log train.jsonl\n", p);
        fprintf(f,
                "  %s train --data logs/ --eval-fraction 0.1 --eval-every 1000 --early-stop 3 --save ckpt\n",
                p);
        fprintf(f, "  %s train --data logs/ --tensorboard runs/one --log-every 50\n", p);
        fprintf(f, "  %s train --data logs/ --eval-fraction 0.1 --on-bad-row skip --bad-rows bad.csv\n", p);
        fprintf(f, "  zstdcat day1.zst | %s train --data - --json\n", p);
        fprintf(f, "  %s train --data logs/ --save ckpt --save-every 1000 --resume --stop-after 3h\n", p);
        break;
    case RT_CMD_EVAL:
        fprintf(f, "  %s eval --data eval.csv.gz --load ckpt\n", p);
        fprintf(f, "  %s eval --data eval/ --load ckpt --calibration --json\n", p);
        break;
    case RT_CMD_PREDICT:
        fprintf(f, "  %s predict --data new.csv --load ckpt > predictions.csv\n", p);
        fprintf(f, "  %s predict --data new.csv --load ckpt --header -o predictions.csv\n", p);
        fprintf(f, "  zstdcat new.zst | %s predict --data - --load ckpt --columns user --format jsonl\n", p);
        break;
    case RT_CMD_CHECK:
        fprintf(f, "  %s check --data logs/\n", p);
        fprintf(f, "  %s check --data logs/ --on-bad-row skip --bad-rows bad.csv\n", p);
        fprintf(f, "  %s check --data day1.csv.gz --json | jq .warnings\n", p);
        break;
    case RT_CMD_EXPORT:
        fprintf(f, "  %s export --load ckpt --format safetensors -o weights.safetensors\n", p);
        fprintf(f, "  %s export --load ckpt --format onnx -o model.onnx\n", p);
        break;
    default: fprintf(f, "  %s info\n  %s info --json | jq .parameters\n", p, p);
    }
}

static void help(FILE *f, const RtArgs *a, RtCommand c) {
    static const char *const usage[RT_COMMANDS] = {"--data F... [options]",
                                                   "--data F... --load DIR [options]",
                                                   "--data F... --load DIR [options]",
                                                   "--data F... [options]",
                                                   "--load DIR --format safetensors|onnx -o FILE",
                                                   "[--json]"};
    fprintf(f, "usage: %s %s %s\n%s\n\n", a->program, commands[c].name, usage[c], commands[c].help);
    for (int i = 0; i < N_OPTIONS; i++)
        if (options[i].commands & 1u << c) print_option(f, &options[i]);
    print_examples(f, c, a->program);
}

static void general_help(FILE *f, const RtArgs *a, const char *model) {
    fprintf(f, "usage: %s COMMAND [options]\nthe model '%s', compiled by ctrc\n\n", a->program, model);
    for (int i = 0; i < RT_COMMANDS; i++) fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].help);
    fprintf(f, "\n%s COMMAND --help says more and gives examples\n", a->program);
}

/* ---- errors ---- */

static int wrong(const char *hint, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int wrong(const char *hint, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    va_end(ap);
    if (hint) fprintf(stderr, "hint: %s\n", hint);
    return 2;
}

static int unknown_option(const char *name, RtCommand c) {
    const char *near[N_OPTIONS], *best;
    char hint[200];
    int n = 0;
    for (int i = 0; i < N_OPTIONS; i++)
        if (!strcmp(options[i].name, name)) {
            for (int k = 0; k < RT_COMMANDS; k++)
                if (options[i].commands & 1u << k) {
                    snprintf(hint, sizeof hint, "it is an option of %s", commands[k].name);
                    return wrong(hint, "%s has no option '%s'", commands[c].name, name);
                }
        } else if (options[i].commands & 1u << c)
            near[n++] = options[i].name;
    best = rt_nearest(name, near, n);
    if (best) snprintf(hint, sizeof hint, "did you mean '%s'?", best);
    return wrong(best ? hint : NULL, "unknown option '%s'", name);
}

/* ---- parsing ---- */

static int number(const Option *o, const char *text, int64_t *out) {
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno)
        return wrong(NULL, "%s: expected a whole number, found '%s'", o->name, text);
    if (v < o->lo)
        return wrong(NULL, "%s: expected a number from %lld, found %lld", o->name, (long long)o->lo, v);
    *out = v;
    return -1;
}

static int share(const Option *o, const char *text, double *out) {
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v > 0 && v < 1))
        return wrong(NULL, "%s: expected a number between 0 and 1, found '%s'", o->name, text);
    *out = v;
    return -1;
}

static int word(const Option *o, const char *text, int *out) {
    const char *p = o->value;
    for (int i = 0;; i++) {
        size_t n = strcspn(p, "|");
        if (strlen(text) == n && !memcmp(p, text, n)) {
            *out = i;
            return -1;
        }
        if (!p[n]) break;
        p += n + 1;
    }
    return wrong(NULL, "%s: expected %s, found '%s'", o->name, o->value, text);
}

static int duration(const Option *o, const char *text, double *out) {
    char *end;
    double v = strtod(text, &end);
    double unit = *end == 's' ? 1 : *end == 'm' ? 60 : *end == 'h' ? 3600 : 0;
    if (end == text || !unit || end[1] || !(v >= 0 && v <= 1e9))
        return wrong(NULL, "%s: expected a time such as 90s, 30m or 3h, found '%s'", o->name, text);
    *out = v * unit;
    return -1;
}

/* "500" or "100000rows" */
static int every(const Option *o, const char *text, RtEvery *out) {
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    bool rows = !strcmp(end, "rows");
    if (end == text || (*end && !rows) || errno || v < 1)
        return wrong(NULL,
                     "%s: expected a number of steps such as 500, or of rows such as 100000rows, found '%s'",
                     o->name, text);
    *out = (RtEvery){v, rows};
    return -1;
}

/* "0.5,2" */
static int plateau(const Option *o, const char *text, RtPlateau *out) {
    char *comma, *end = NULL;
    errno = 0;
    double factor = strtod(text, &comma);
    long long n = *comma == ',' ? strtoll(comma + 1, &end, 10) : 0;
    if (comma == text || !end || end == comma + 1 || *end || errno || n < 1 || !(factor > 0 && factor < 1))
        return wrong(
            NULL,
            "%s: expected a factor between 0 and 1 and a number of evaluations, such as 0.5,2, found '%s'",
            o->name, text);
    *out = (RtPlateau){factor, n};
    return -1;
}

/* "500-520" */
static int range(const Option *o, const char *text, RtRange *out) {
    char *dash, *end = NULL;
    errno = 0;
    long long first = strtoll(text, &dash, 10), last = *dash == '-' ? strtoll(dash + 1, &end, 10) : 0;
    if (dash == text || !end || end == dash + 1 || *end || errno || first < 1 || last < first)
        return wrong(NULL, "%s: expected two steps such as 500-520, found '%s'", o->name, text);
    *out = (RtRange){first, last};
    return -1;
}

static void push(RtWords *w, const char *s) {
    w->v = realloc(w->v, (w->n + 1) * sizeof *w->v);
    if (!w->v) rt_out_of_memory();
    w->v[w->n++] = s;
}

/* "a,b": each name by itself, in place: argv's texts are the program's own. */
static int names(const Option *o, char *text, RtWords *out) {
    for (char *end = text; end; text = end + 1) {
        end = strchr(text, ',');
        if (end) *end = 0;
        if (!*text) return wrong(NULL, "%s: expected names with commas between them", o->name);
        push(out, text);
        if (!end) break;
    }
    return -1;
}

static bool is_option(const char *s) { return s[0] == '-' && s[1]; }

/* One option at argv[*i]; leaves *i at the last word that belongs to it. inline_value: from --name=value. */
static int take(RtArgs *a, const Option *o, const char *inline_value, int argc, char **argv, int *i) {
    void *to = (char *)a + o->at;
    if (o->kind == FLAG) {
        if (inline_value) return wrong(NULL, "%s takes no value", o->name);
        *(bool *)to = true;
        return -1;
    }
    const char *v = inline_value;
    if (o->kind == HOW) { /* bit 0, and one a word */
        int which = -1;
        int code = v ? word(o, v, &which) : -1;
        *(unsigned *)to |= which < 0 ? 1u : 1u | 2u << which;
        return code;
    }
    if (!v && *i + 1 < argc && !(is_option(argv[*i + 1]) && o->kind != NUMBER)) v = argv[++*i];
    if (!v || !*v) return wrong(NULL, "%s: expected %s", o->name, o->value);
    switch (o->kind) {
    case NUMBER: return number(o, v, to);
    case SHARE: return share(o, v, to);
    case WORD: return word(o, v, to);
    case TIME: return duration(o, v, to);
    case NAMES: return names(o, (char *)v, to);
    case EVERY: return every(o, v, to);
    case PLATEAU: return plateau(o, v, to);
    case RANGE: return range(o, v, to);
    case FILES:
        push(to, v);
        while (!inline_value && *i + 1 < argc && !is_option(argv[*i + 1])) push(to, argv[++*i]);
        return -1;
    default: *(const char **)to = v; return -1;
    }
}

static int parse_options(RtArgs *a, int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        if (!is_option(argv[i])) return wrong(NULL, "unexpected '%s'", argv[i]);
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            help(stdout, a, a->command);
            return 0;
        }
        char name[64];
        const char *equals = argv[i][1] == '-' ? strchr(argv[i], '=') : NULL;
        snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - argv[i]) : INT_MAX, argv[i]);
        const Option *o = NULL;
        for (int k = 0; k < N_OPTIONS; k++)
            if (!strcmp(options[k].name, name) && (options[k].commands & 1u << a->command)) o = &options[k];
        if (!o) return unknown_option(name, a->command);
        if (o->at == AT(seed) && o->kind == NUMBER) a->seed_given = true;
        int code = take(a, o, equals ? equals + 1 : NULL, argc, argv, &i);
        if (code >= 0) return code;
    }
    return -1;
}

static bool has_stdin(const RtWords *w) {
    for (int i = 0; i < w->n; i++)
        if (!strcmp(w->v[i], "-")) return true;
    return false;
}

/* Options about evaluations need data for them. */
static int evaluations_consistent(const RtArgs *a) {
    const char *needs = a->eval_every.n     ? "--eval-every"
                        : a->early_stop > 0 ? "--early-stop"
                        : a->lr_plateau.n   ? "--lr-plateau"
                                            : NULL;
    if (a->early_stop_metric && a->early_stop < 0 && !a->lr_plateau.n)
        return wrong(NULL, "--early-stop-metric needs --early-stop or --lr-plateau");
    if (a->command != RT_CMD_TRAIN || !needs) return -1;
    if (!a->eval_data.n && !(a->eval_fraction > 0))
        return wrong(NULL, "%s needs --eval-data or --eval-fraction", needs);
    if (a->eval_every.n && has_stdin(&a->eval_data))
        return wrong(NULL, "--eval-data -: stdin can be read once only, --eval-every reads it again");
    return -1;
}

/* What options ask of each other. */
static int consistent(const RtArgs *a) {
    const char *name = commands[a->command].name;
    if (a->command == RT_CMD_INFO) return -1;
    if (a->command == RT_CMD_EXPORT) {
        const char *lacks = !a->load ? "--load" : a->export_format < 0 ? "--format" : !a->out ? "-o" : NULL;
        return lacks ? wrong(NULL, "%s needs %s", name, lacks) : -1;
    }
    if (!a->data.n && !(a->command == RT_CMD_TRAIN && a->steps == 0))
        return wrong(NULL, "%s needs --data", name);
    if (a->command != RT_CMD_TRAIN && a->command != RT_CMD_CHECK && !a->load)
        return wrong(NULL, "%s needs --load", name);
    if (a->bad_rows && !a->on_bad_row)
        return wrong("add --on-bad-row skip", "--bad-rows is for skipped rows");
    if (a->max_bad_rows >= 0 && !a->on_bad_row)
        return wrong("add --on-bad-row skip", "--max-bad-rows is for skipped rows");
    if ((a->log_every >= 0 || a->log_norms) && !a->log && !a->tensorboard)
        return wrong(NULL, "%s needs --log or --tensorboard", a->log_norms ? "--log-norms" : "--log-every");
    if (a->profile_steps.last && !a->profile) return wrong(NULL, "--profile-steps needs --profile");
    int code = evaluations_consistent(a);
    if (code >= 0) return code;
    if (!a->save && a->command == RT_CMD_TRAIN) {
        const char *needs = a->resume ? "--resume" : a->save_every >= 0 ? "--save-every" : NULL;
        if (!needs) needs = a->keep >= 0 ? "--keep" : a->stop_after >= 0 ? "--stop-after" : NULL;
        if (needs) return wrong(NULL, "%s needs --save", needs);
    }
    if (a->resume && has_stdin(&a->data))
        return wrong(NULL, "--data -: stdin cannot be read again, so --resume cannot go on with it");
    if (a->command == RT_CMD_TRAIN && a->eval_fraction > 0 && a->eval_data.n)
        return wrong(NULL, "--eval-fraction and --eval-data: expected one of them");
    const char *again = a->validate_first > 0  ? "--validate-first"
                        : a->eval_fraction > 0 ? "--eval-fraction"
                                               : NULL;
    if (a->command == RT_CMD_TRAIN && again && has_stdin(&a->data))
        return wrong(NULL, "--data -: stdin can be read once only, %s reads it twice", again);
    if (has_stdin(&a->data) && has_stdin(&a->eval_data))
        return wrong(NULL, "--data and --eval-data cannot both be stdin");
    return -1;
}

static int find_command(RtArgs *a, const char *model, const char *version, int argc, char **argv) {
    if (argc < 2) {
        general_help(stderr, a, model);
        return 2;
    }
    const char *c = argv[1];
    if (!strcmp(c, "--help") || !strcmp(c, "-h") || !strcmp(c, "help")) {
        general_help(stdout, a, model);
        return 0;
    }
    if (!strcmp(c, "--version")) {
        printf("%s (ctrc %s)\n", model, version);
        return 0;
    }
    const char *names[RT_COMMANDS];
    for (int i = 0; i < RT_COMMANDS; i++) {
        names[i] = commands[i].name;
        if (!strcmp(c, names[i])) {
            a->command = i;
            return -1;
        }
    }
    char hint[100];
    const char *best = rt_nearest(c, names, RT_COMMANDS);
    if (best) snprintf(hint, sizeof hint, "did you mean '%s'?", best);
    return wrong(best ? hint : "the commands are train, eval, predict, check, export and info",
                 "unknown command '%s'", c);
}

int rt_args_parse(RtArgs *a, const char *model, const char *version, int argc, char **argv) {
    *a = (RtArgs){.epochs = -1,
                  .steps = -1,
                  .threads = -1,
                  .log_every = -1,
                  .max_bad_rows = -1,
                  .validate_first = -1,
                  .save_every = -1,
                  .early_stop = -1,
                  .keep = -1,
                  .stop_after = -1,
                  .export_format = -1};
    const char *slash = argc ? strrchr(argv[0], '/') : NULL;
    a->program = !argc ? "model" : slash ? slash + 1 : argv[0];
    int code = find_command(a, model, version, argc, argv);
    if (code < 0) code = parse_options(a, argc, argv);
    if (code < 0) code = consistent(a);
    return code;
}

void rt_args_free(RtArgs *a) {
    free(a->data.v);
    free(a->eval_data.v);
    free(a->columns.v);
}
