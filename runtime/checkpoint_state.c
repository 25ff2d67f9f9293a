/* state.json: how far training has come, and of what. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include "runtime/checkpoint_own.h"
#include "runtime/jsonread.h"
#include "runtime/message.h"

enum { FORMAT = 2 };

static json_t *words(const char *const *v, int n) {
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, json_string(v[i]));
    return a;
}

/* ---- vocabularies ---- */

/* The column whose values a feature looks up. */
static const RtColumn *looked_up(const RtModel *m, const RtFeature *f) {
    RtPart p = f->in[0];
    while (!p.is_column) p = m->features[p.index].in[0];
    return &m->columns[p.index];
}

static const char *hex(uint64_t digest, char out[20]) {
    snprintf(out, 20, "%016" PRIx64, digest);
    return out;
}

/* Which vocabulary each column is looked up in: the meaning of the rows of its tables. By column, so that
 * they are compared right whatever their order is and wherever their files lie. */
static json_t *vocabularies(const RtModel *m) {
    json_t *all = json_array();
    char digest[20];
    for (int i = 0; i < m->n_features; i++) {
        const RtFeature *f = &m->features[i];
        if (f->op != RT_F_VOCAB) continue;
        const RtVocab *v = &m->vocabs[f->vocab];
        json_t *o = json_pack("{s:s,s:s?,s:I,s:s}", "column", looked_up(m, f)->name, "file", v->path,
                              "values", (json_int_t)v->n, "digest", hex(v->digest, digest));
        bool known = false;
        for (size_t k = 0; k < json_array_size(all) && !known; k++)
            known = json_equal(json_array_get(all, k), o);
        if (known)
            json_decref(o);
        else
            json_array_append_new(all, o);
    }
    return all;
}

/* The saved entry that one of our own contradicts: there are some of its column, none of its digest. That of
 * the same file, if there are several. */
static const json_t *contradicted(const json_t *saved, const json_t *own) {
    const json_t *found = NULL;
    for (size_t i = 0; i < json_array_size(saved); i++) {
        const json_t *o = json_array_get(saved, i);
        if (!json_equal(json_object_get(o, "column"), json_object_get(own, "column"))) continue;
        if (json_equal(json_object_get(o, "digest"), json_object_get(own, "digest"))) return NULL;
        if (!found || json_equal(json_object_get(o, "file"), json_object_get(own, "file"))) found = o;
    }
    return found;
}

/* "'voc.txt' (5 values, digest …)" */
static void say_vocab(char *out, size_t bytes, const json_t *o) {
    const char *file = json_string_value(json_object_get(o, "file")),
               *digest = json_string_value(json_object_get(o, "digest"));
    json_int_t n = json_integer_value(json_object_get(o, "values"));
    snprintf(out, bytes, "%s%s%s (%lld value%s, digest %s)", file ? "'" : "", file ? file : "listed values",
             file ? "'" : "", (long long)n, n == 1 ? "" : "s", digest ? digest : "?");
}

static bool same_vocabularies(const json_t *saved, const char *dir, const RtModel *m, char *err,
                              size_t err_bytes) {
    json_t *own = vocabularies(m);
    size_t used = 0;
    for (size_t i = 0; i < json_array_size(own) && used < err_bytes; i++) {
        const json_t *o = json_array_get(own, i);
        const char *column = json_string_value(json_object_get(o, "column"));
        const json_t *other = contradicted(saved, o);
        char there[400], here[400];
        if (!other) continue;
        if (!used)
            used = (size_t)snprintf(err, err_bytes,
                                    "%s: the checkpoint was trained with another vocabulary than the model "
                                    "'%s' is compiled with",
                                    dir, m->name);
        say_vocab(there, sizeof there, other);
        say_vocab(here, sizeof here, o);
        if (used < err_bytes)
            used += (size_t)snprintf(err + used, err_bytes - used,
                                     "\n  column '%s': %s in the checkpoint, %s in the model", column, there,
                                     here);
    }
    json_decref(own);
    return used == 0;
}

/* ---- the checksum of the file itself ---- */

/* XXH3 of the object as compact text with sorted keys, without "checksum": so indentation is free. */
static void checksum_of(const json_t *o, char out[20]) {
    json_t *copy = json_copy((json_t *)o);
    json_object_del(copy, "checksum");
    char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(copy);
    if (!text) rt_out_of_memory();
    hex(XXH3_64bits(text, strlen(text)), out);
    free(text);
}

/* ---- writing ---- */

static json_t *describe(const RtModel *m, RtTables *t, const RtState *s, json_t *checksums) {
    json_t *o = json_object(), *updates = json_object();
    char sum[20];
    json_object_set_new(o, "format", json_integer(FORMAT));
    json_object_set_new(o, "ctrc", json_string(m->ctrc));
    json_object_set_new(o, "model", json_string(m->name));
    json_object_set_new(o, "source", json_string(m->source));
    json_object_set_new(o, "digest", json_string(m->digest));
    json_object_set_new(o, "march", json_string(m->march));
    json_object_set_new(o, "passes", words(m->passes, m->n_passes));
    json_object_set_new(o, "changes", words(m->changes, m->n_changes));
    json_object_set_new(o, "vocabularies", vocabularies(m));
    json_object_set_new(o, "seed", json_integer((json_int_t)rt_tables_seed(t)));
    json_object_set_new(o, "step", json_integer((json_int_t)s->step));
    json_object_set_new(o, "epoch", json_integer((json_int_t)s->epoch));
    json_object_set_new(o, "epoch_rows", json_integer((json_int_t)s->epoch_rows));
    if (*rt_tables_keep_negatives(t) < 1)
        json_object_set_new(o, "keep_negatives", json_real(*rt_tables_keep_negatives(t)));
    for (int i = 0; i < m->n_weights; i++)
        if (m->weights[i].optimizer >= 0 && m->opts[m->weights[i].optimizer].kind == RT_ADAM_ASYNC)
            json_object_set_new(updates, m->weights[i].name,
                                json_integer((json_int_t)rt_tables_updates(t)[i]));
    json_object_set_new(o, "updates", updates);
    json_object_set_new(o, "run", s->run ? json_incref(s->run) : json_object());
    json_object_set_new(o, "checksums", checksums);
    checksum_of(o, sum);
    json_object_set_new(o, "checksum", json_string(sum));
    return o;
}

bool rt_state_write(const char *path, const RtModel *m, RtTables *t, const RtState *s, json_t *checksums,
                    char *err, size_t err_bytes) {
    char reason[RT_SHOWN], part[RT_PATH];
    json_t *o = describe(m, t, s, checksums);
    char *text = json_dumps(o, JSON_INDENT(2));
    json_decref(o);
    if (!text) rt_out_of_memory();
    snprintf(part, sizeof part, "%s.part", path);
    errno = 0;
    FILE *f = fopen(part, "w");
    bool ok = f && fprintf(f, "%s\n", text) > 0 && !fflush(f) && !fsync(fileno(f));
    int e = errno;
    if (f && fclose(f) && ok) ok = false, e = errno;
    if (ok && rename(part, path)) ok = false, e = errno;
    free(text);
    if (!ok) snprintf(err, err_bytes, "cannot write %s: %s", path, rt_reason(e, reason));
    return ok;
}

/* ---- reading ---- */

/* What every reader of a checkpoint needs. */
static bool read_keys(RtJson *j, const json_t *o, RtState *s) {
    char sum[20];
    int n;
    rt_json_int(j, o, "seed", INT64_MIN, INT64_MAX);
    s->step = (uint64_t)rt_json_int(j, o, "step", 0, INT64_MAX);
    s->epoch = (uint64_t)rt_json_int(j, o, "epoch", 0, INT64_MAX);
    s->epoch_rows = (uint64_t)rt_json_int(j, o, "epoch_rows", 0, INT64_MAX);
    rt_json_str(j, o, "digest");
    rt_json_str(j, o, "model");
    rt_json_strs(j, o, "passes", &n);
    rt_json_get(j, o, "vocabularies", JSON_ARRAY);
    rt_json_get(j, o, "updates", JSON_OBJECT);
    rt_json_get(j, o, "checksums", JSON_OBJECT);
    s->run = rt_json_get(j, o, "run", JSON_OBJECT);
    const char *wanted = rt_json_str(j, o, "checksum");
    if (j->failed) return false;
    checksum_of(o, sum);
    if (strcmp(wanted, sum)) rt_json_fail(j, "damaged: its checksum is %s, it says %s", sum, wanted);
    return !j->failed;
}

static RtRead check(const json_t *o, const char *path, const char *dir, const RtModel *m, RtState *s,
                    char *err, size_t err_bytes) {
    char detail[300] = "";
    RtJson j = {.err = detail, .err_bytes = sizeof detail};
    RtRead got = RT_READ_DAMAGED;
    int64_t format = rt_json_int(&j, o, "format", 1, INT64_MAX);
    if (!j.failed && format != FORMAT) {
        rt_json_fail(&j, "checkpoint format %lld, this program reads %d", (long long)format, FORMAT);
        got = RT_READ_OTHER;
    } else if (read_keys(&j, o, s))
        got = !m || same_vocabularies(json_object_get(o, "vocabularies"), dir, m, err, err_bytes)
                  ? RT_READ_OK
                  : RT_READ_OTHER;
    rt_json_free_blocks(j.blocks);
    if (j.failed) snprintf(err, err_bytes, "%s: %s", path, detail);
    return got;
}

RtRead rt_state_read(const char *path, const char *dir, const RtModel *m, RtState *s, json_t **json,
                     char *err, size_t err_bytes) {
    json_error_t e;
    char reason[RT_SHOWN];
    *s = (RtState){0};
    *json = NULL;
    FILE *f = fopen(path, "r");
    if (!f) {
        snprintf(err, err_bytes, "cannot open %s: %s", path, rt_reason(errno, reason));
        return RT_READ_DAMAGED;
    }
    json_t *o = json_loadf(f, 0, &e);
    fclose(f);
    if (!o) {
        snprintf(err, err_bytes, "%s:%d:%d: error: %s", path, e.line, e.column, e.text);
        return RT_READ_DAMAGED;
    }
    RtRead got = check(o, path, dir, m, s, err, err_bytes);
    if (got == RT_READ_OK)
        *json = o;
    else
        json_decref(o);
    return got;
}

void rt_state_updates(const json_t *json, const RtModel *m, RtTables *t) {
    const json_t *updates = json_object_get(json, "updates");
    for (int i = 0; i < m->n_weights; i++) {
        const json_t *n = json_object_get(updates, m->weights[i].name);
        if (json_is_integer(n)) rt_tables_updates(t)[i] = (uint64_t)json_integer_value(n);
    }
}
