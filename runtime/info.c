/* `info`: what this program is, for people and as JSON. Nothing is read or allocated for it. */
#include <inttypes.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/program.h"
#include "runtime/safetensors.h"

static const char *const kinds[] = {"label", "string", "int", "float", "skip"};
static const char *const formats[] = {"csv", "tsv", "libsvm", "libffm"};

static uint64_t parameters(const RtModel *m, bool trained) {
    uint64_t n = 0;
    for (int i = 0; i < m->n_weights; i++)
        if (!trained || m->weights[i].optimizer >= 0) n += m->weights[i].size;
    return n;
}

/* Bytes of all weights and slots, tables whole. */
static uint64_t weight_bytes(const RtModel *m) {
    uint64_t n = 0;
    for (int i = 0; i < m->n_weights; i++)
        n += m->weights[i].size * sizeof(float) * (uint64_t)(1 + m->weights[i].n_slots);
    return n;
}

/* A function's, on one thread: each further one takes scratch_bytes more, which hold its values of a block of
 * rows, too. */
static uint64_t step_bytes(const RtFunction *f) { return f->fixed_bytes + f->scratch_bytes; }

/* Bytes that a function takes for each position of a list, in all and in each thread for the positions of its
 * block of rows; or for each row of a table that a step touches. */
static uint64_t position_bytes(const RtFunction *f, int axis) { return f->axis_elems[axis] * sizeof(float); }
static uint64_t local_bytes(const RtFunction *f, int axis) { return f->local_elems[axis] * sizeof(float); }
static uint64_t touched_bytes(const RtFunction *f, int weight) {
    return f->uniq_elems[weight] * sizeof(float);
}

static bool changes_model(const RtModel *m, const char *pass) {
    for (int i = 0; i < m->n_changes; i++)
        if (!strcmp(m->changes[i], pass)) return true;
    return false;
}

static const char *optimizer_of(const RtModel *m, const RtWeight *w) {
    return w->optimizer >= 0 ? m->opts[w->optimizer].kind_name : NULL;
}

/* How often each op stands in a function, in order of first appearance. */
static json_t *op_counts(const RtFunction *f) {
    json_t *o = json_object();
    for (int i = 0; i < f->n_nodes; i++) {
        json_int_t n = json_integer_value(json_object_get(o, f->nodes[i].op));
        json_object_set_new(o, f->nodes[i].op, json_integer(n + 1));
    }
    return o;
}

/* ---- JSON ---- */

static json_t *strings(const char *const *v, int n) {
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, json_string(v[i]));
    return a;
}

static json_t *columns_json(const RtModel *m) {
    json_t *a = json_array();
    for (int i = 0; i < m->n_columns; i++) {
        const RtColumn *c = &m->columns[i];
        if (c->kind == RT_SKIP) continue;
        json_t *o = json_pack("{s:s,s:s,s:b,s:b,s:b}", "name", c->name, "kind", kinds[c->kind], "list",
                              c->is_list, "used", c->used, "used_predict", c->used_predict);
        if (c->side) json_object_set_new(o, "beside", json_true());
        json_array_append_new(a, o);
    }
    return a;
}

static json_t *weights_json(const RtModel *m) {
    json_t *a = json_array();
    for (int i = 0; i < m->n_weights; i++) {
        const RtWeight *w = &m->weights[i];
        json_t *shape = json_array();
        for (int k = 0; k < w->rank; k++) json_array_append_new(shape, json_integer(w->dim[k]));
        json_t *o = json_pack("{s:s,s:o,s:I,s:s,s:b,s:b,s:b}", "name", w->name, "shape", shape, "size",
                              (json_int_t)w->size, "init", w->init, "table", w->table, "sparse", w->sparse,
                              "running", w->running);
        const char *optimizer = optimizer_of(m, w);
        json_object_set_new(o, "optimizer", optimizer ? json_string(optimizer) : json_null());
        json_object_set_new(o, "slots", strings(w->slots, w->n_slots));
        json_array_append_new(a, o);
    }
    return a;
}

static json_t *params_json(const RtModel *m) {
    json_t *o = json_object();
    for (int i = 0; i < m->n_params; i++)
        json_object_set_new(o, m->params[i].name,
                            m->params[i].is_string ? json_string(m->params[i].str)
                                                   : json_real(m->params[i].num));
    return o;
}

static json_t *metrics_json(const RtModel *m) {
    json_t *a = json_array();
    for (int i = 0; i < m->n_metrics; i++)
        json_array_append_new(a, json_pack("{s:s,s:s,s:s}", "kind", rt_metric_name(m->metrics[i].kind),
                                           "prediction", m->predictions[m->metrics[i].prediction].name, "key",
                                           m->metrics[i].key));
    return a;
}

/* Of a training step's memory, what depends on the data. */
static void data_memory_json(const RtModel *m, json_t *memory) {
    const RtFunction *f = &m->fn[RT_TRAIN];
    json_t *positions = json_object(), *local = json_object(), *rows = json_object();
    for (int i = 0; i < m->n_axes; i++) {
        if (f->axis_elems[i])
            json_object_set_new(positions, m->axes[i].name, json_integer((json_int_t)position_bytes(f, i)));
        if (f->local_elems[i])
            json_object_set_new(local, m->axes[i].name, json_integer((json_int_t)local_bytes(f, i)));
    }
    for (int i = 0; i < m->n_weights; i++)
        if (f->uniq_elems[i])
            json_object_set_new(rows, m->weights[i].name, json_integer((json_int_t)touched_bytes(f, i)));
    json_object_set_new(memory, "train_step_a_thread", json_integer((json_int_t)f->scratch_bytes));
    json_object_set_new(memory, "train_step_a_position", positions);
    json_object_set_new(memory, "train_step_a_thread_a_position", local);
    json_object_set_new(memory, "block_rows", json_integer((json_int_t)f->row_block));
    json_object_set_new(memory, "train_step_a_touched_row", rows);
}

/* ---- libraries ---- */

/* The file's name of each that the program runs with, and of the loader; the program itself and what the
 * kernel gives it ("linux-vdso") have no such name. */
static int add_library(struct dl_phdr_info *x, size_t bytes, void *list) {
    (void)bytes;
    const char *slash = strrchr(x->dlpi_name, '/'), *name = slash ? slash + 1 : x->dlpi_name;
    if (!strncmp(name, "lib", 3) || !strncmp(name, "ld-", 3)) json_array_append_new(list, json_string(name));
    return 0;
}

static json_t *libraries(void) {
    json_t *list = json_array();
    dl_iterate_phdr(add_library, list);
    return list;
}

static int info_json(const RtModel *m) {
    json_t *predictions = json_array();
    for (int i = 0; i < m->n_predictions; i++)
        json_array_append_new(predictions, json_string(m->predictions[i].name));
    json_t *o =
        json_pack("{s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I}", "model", m->name, "source", m->source,
                  "digest", m->digest, "ctrc", m->ctrc, "march", m->march, "batch", (json_int_t)m->batch,
                  "epochs", (json_int_t)m->epochs, "steps", (json_int_t)m->steps, "shuffle",
                  (json_int_t)m->shuffle, "seed", (json_int_t)m->seed);
    json_object_set_new(o, "format", json_string(formats[m->format]));
    json_object_set_new(o, "params", params_json(m));
    json_object_set_new(o, "columns", columns_json(m));
    json_object_set_new(o, "predictions", predictions);
    json_object_set_new(o, "metrics", metrics_json(m));
    json_object_set_new(o, "weights", weights_json(m));
    json_object_set_new(o, "parameters", json_integer((json_int_t)parameters(m, false)));
    json_object_set_new(o, "trained_parameters", json_integer((json_int_t)parameters(m, true)));
    json_object_set_new(o, "memory",
                        json_pack("{s:I,s:I,s:I,s:I}", "weights_and_slots", (json_int_t)weight_bytes(m),
                                  "train_step", (json_int_t)step_bytes(&m->fn[RT_TRAIN]), "eval_step",
                                  (json_int_t)step_bytes(&m->fn[RT_EVAL]), "predict_step",
                                  (json_int_t)step_bytes(&m->fn[RT_PREDICT])));
    data_memory_json(m, json_object_get(o, "memory"));
    json_object_set_new(o, "flops_per_step", json_real(m->fn[RT_TRAIN].flops));
    json_object_set_new(o, "passes", strings(m->passes, m->n_passes));
    json_object_set_new(o, "changes", strings(m->changes, m->n_changes));
    json_object_set_new(o, "kernels", op_counts(&m->fn[RT_TRAIN]));
    json_object_set_new(o, "libraries", libraries());
    return rt_print_json(o);
}

/* ---- text ---- */

static void row(const char *title, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void row(const char *title, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    printf("%-12s ", title);
    vprintf(format, ap);
    putchar('\n');
    va_end(ap);
}

static const char *size_text(uint64_t bytes, char out[32]) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double v = (double)bytes;
    int u = 0;
    for (; v >= 1000 && u < 4; u++) v /= 1000;
    snprintf(out, 32, u ? "%.1f %s" : "%.0f %s", v, units[u]);
    return out;
}

static void print_list(const char *title, const char *const *v, int n) {
    printf("%-12s", title);
    for (int i = 0; i < n; i++) printf("%s %s", i ? "," : "", v[i]);
    puts(n ? "" : " none");
}

static void print_passes(const RtModel *m) {
    printf("%-12s", "passes");
    for (int i = 0; i < m->n_passes; i++)
        printf("%s %s%s", i ? "," : "", m->passes[i],
               changes_model(m, m->passes[i]) ? " (changes the model)" : "");
    puts(m->n_passes ? "" : " none");
}

/* Of a training step's memory, what depends on the data: lists by name, tables by what a row takes. */
static void print_data_memory(const RtModel *m) {
    const RtFunction *f = &m->fn[RT_TRAIN];
    char text[32];
    if (f->scratch_bytes) row("", "%s for each further thread", size_text(f->scratch_bytes, text));
    for (int i = 0; i < m->n_axes; i++) {
        if (f->axis_elems[i])
            row("", "%s for each position of list %s", size_text(position_bytes(f, i), text),
                m->axes[i].name);
        if (f->local_elems[i])
            row("", "%s for each position of list %s in a block of %" PRIu64 " rows, in each thread",
                size_text(local_bytes(f, i), text), m->axes[i].name, f->row_block);
    }
    uint64_t least = UINT64_MAX, most = 0;
    for (int i = 0; i < m->n_weights; i++) {
        uint64_t bytes = touched_bytes(f, i);
        if (bytes && bytes < least) least = bytes;
        if (bytes > most) most = bytes;
    }
    if (most && least == most)
        row("", "%s for each row of a table that a step touches", size_text(most, text));
    else if (most)
        row("", "%" PRIu64 " B to %s for each row of a table that a step touches", least,
            size_text(most, text));
}

static int wider(int width, const char *name) {
    int n = (int)strlen(name);
    return n > width ? n : width;
}

static void print_columns(const RtModel *m) {
    int width = 0;
    for (int i = 0; i < m->n_columns; i++)
        if (m->columns[i].kind != RT_SKIP) width = wider(width, m->columns[i].name);
    puts("\ncolumns");
    for (int i = 0; i < m->n_columns; i++) {
        const RtColumn *c = &m->columns[i];
        if (c->kind == RT_SKIP) continue;
        printf("  %-*s %s%s%s%s%s\n", width, c->name, kinds[c->kind], c->is_list ? " list" : "",
               c->side ? " beside" : "", c->used ? "" : ", not read",
               c->used && !c->used_predict ? ", not for predictions" : "");
    }
}

static void print_weights(const RtModel *m) {
    char shape[160];
    int name_width = 0, shape_width = 0;
    for (int i = 0; i < m->n_weights; i++) {
        name_width = wider(name_width, m->weights[i].name);
        shape_width = wider(shape_width, rt_shape_text(m->weights[i].rank, m->weights[i].dim, shape));
    }
    puts("\nweights");
    for (int i = 0; i < m->n_weights; i++) {
        const RtWeight *w = &m->weights[i];
        const char *optimizer = optimizer_of(m, w);
        printf("  %-*s %-*s %-18s %s%s\n", name_width, w->name, shape_width,
               rt_shape_text(w->rank, w->dim, shape), w->init,
               optimizer    ? optimizer
               : w->running ? "running statistic"
                            : "not trained",
               w->sparse ? ", rows as met" : "");
    }
}

static void print_kernels(const RtModel *m) {
    json_t *o = op_counts(&m->fn[RT_TRAIN]), *n;
    const char *op;
    printf("%-12s", "kernels");
    json_object_foreach(o, op, n) printf(" %s:%lld", op, (long long)json_integer_value(n));
    putchar('\n');
    json_decref(o);
}

static void print_libraries(void) {
    json_t *list = libraries();
    printf("%-12s", "libraries");
    for (size_t k = 0; k < json_array_size(list); k++)
        printf("%s %s", k ? "," : "", json_string_value(json_array_get(list, k)));
    puts(json_array_size(list) ? "" : " none, linked statically");
    json_decref(list);
}

static int info_text(const RtModel *m) {
    char a[32], b[32];
    row("model", "%s", m->name);
    row("source", "%s, digest %s", m->source, m->digest);
    row("compiled", "by ctrc %s for %s", m->ctrc, m->march);
    row("input", "%s%s%s%s", formats[m->format], m->header ? ", with a header" : "",
        m->beside ? ", beside " : "", m->beside ? m->beside : "");
    row("training", "batch %" PRId64 ", epochs %" PRId64 ", shuffle %" PRId64 ", seed %" PRId64, m->batch,
        m->epochs, m->shuffle, m->seed);
    row("parameters", "%" PRIu64 ", trained %" PRIu64, parameters(m, false), parameters(m, true));
    row("memory", "weights and slots %s with every row met, a step of %" PRId64 " rows %s",
        size_text(weight_bytes(m), a), m->batch, size_text(step_bytes(&m->fn[RT_TRAIN]), b));
    print_data_memory(m);
    row("arithmetic", "%.4g MFLOP a step", m->fn[RT_TRAIN].flops / 1e6);
    print_passes(m);
    print_list("changes", m->changes, m->n_changes);
    print_kernels(m);
    print_libraries();
    for (int i = 0; i < m->n_params; i++)
        if (m->params[i].is_string)
            row(i ? "" : "params", "%s = \"%s\"", m->params[i].name, m->params[i].str);
        else
            row(i ? "" : "params", "%s = %g", m->params[i].name, m->params[i].num);
    for (int i = 0; i < m->n_predictions; i++) row(i ? "" : "predictions", "%s", m->predictions[i].name);
    for (int i = 0; i < m->n_metrics; i++)
        row(i ? "" : "metrics", "%s of %s", rt_metric_name(m->metrics[i].kind), m->metrics[i].key);
    print_columns(m);
    print_weights(m);
    return rt_flush_stdout();
}

int rt_info(const RtModel *m, const RtArgs *a) { return a->json ? info_json(m) : info_text(m); }
