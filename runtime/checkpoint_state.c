/* state.json: how far training has come, and of what. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/checkpoint_own.h"
#include "runtime/jsonread.h"
#include "runtime/message.h"

enum { FORMAT = 1 };

static json_t *words(const char *const *v, int n) {
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, json_string(v[i]));
    return a;
}

static json_t *describe(const RtModel *m, RtTables *t, const RtState *s) {
    json_t *o = json_object(), *updates = json_object();
    json_object_set_new(o, "format", json_integer(FORMAT));
    json_object_set_new(o, "ctrc", json_string(m->ctrc));
    json_object_set_new(o, "model", json_string(m->name));
    json_object_set_new(o, "source", json_string(m->source));
    json_object_set_new(o, "digest", json_string(m->digest));
    json_object_set_new(o, "march", json_string(m->march));
    json_object_set_new(o, "passes", words(m->passes, m->n_passes));
    json_object_set_new(o, "changes", words(m->changes, m->n_changes));
    json_object_set_new(o, "seed", json_integer((json_int_t)rt_tables_seed(t)));
    json_object_set_new(o, "step", json_integer((json_int_t)s->step));
    json_object_set_new(o, "epoch", json_integer((json_int_t)s->epoch));
    json_object_set_new(o, "epoch_rows", json_integer((json_int_t)s->epoch_rows));
    for (int i = 0; i < m->n_weights; i++)
        if (m->weights[i].optimizer >= 0 && m->opts[m->weights[i].optimizer].kind == RT_ADAM_ASYNC)
            json_object_set_new(updates, m->weights[i].name,
                                json_integer((json_int_t)rt_tables_updates(t)[i]));
    json_object_set_new(o, "updates", updates);
    return o;
}

bool rt_state_write(const char *path, const RtModel *m, RtTables *t, const RtState *s, char *err,
                    size_t err_bytes) {
    char reason[RT_SHOWN];
    json_t *o = describe(m, t, s);
    char *text = json_dumps(o, JSON_INDENT(2));
    json_decref(o);
    if (!text) abort();
    errno = 0;
    FILE *f = fopen(path, "w");
    bool ok = f && fprintf(f, "%s\n", text) > 0 && !fflush(f) && !fsync(fileno(f));
    int e = errno;
    if (f && fclose(f) && ok) ok = false, e = errno;
    free(text);
    if (!ok) snprintf(err, err_bytes, "cannot write %s: %s", path, rt_reason(e, reason));
    return ok;
}

bool rt_state_read(const char *path, RtSavedState *out, char *err, size_t err_bytes) {
    json_error_t e;
    char detail[300] = "", reason[RT_SHOWN];
    FILE *f = fopen(path, "r");
    if (!f) {
        snprintf(err, err_bytes, "cannot open %s: %s", path, rt_reason(errno, reason));
        return false;
    }
    json_t *o = json_loadf(f, 0, &e);
    fclose(f);
    if (!o) {
        snprintf(err, err_bytes, "%s:%d:%d: error: %s", path, e.line, e.column, e.text);
        return false;
    }
    RtJson j = {.err = detail, .err_bytes = sizeof detail};
    int64_t format = rt_json_int(&j, o, "format", 1, INT64_MAX);
    if (!j.failed && format != FORMAT)
        rt_json_fail(&j, "checkpoint format %lld, this program reads %d", (long long)format, FORMAT);
    *out = (RtSavedState){.seed = rt_json_int(&j, o, "seed", INT64_MIN, INT64_MAX)};
    out->s.step = (uint64_t)rt_json_int(&j, o, "step", 0, INT64_MAX);
    out->s.epoch = (uint64_t)rt_json_int(&j, o, "epoch", 0, INT64_MAX);
    out->s.epoch_rows = (uint64_t)rt_json_int(&j, o, "epoch_rows", 0, INT64_MAX);
    snprintf(out->digest, sizeof out->digest, "%s", rt_json_str(&j, o, "digest"));
    snprintf(out->model, sizeof out->model, "%s", rt_json_str(&j, o, "model"));
    json_decref(o);
    rt_json_free_blocks(j.blocks);
    if (j.failed) snprintf(err, err_bytes, "%s: %s", path, detail);
    return !j.failed;
}
