#include "tests/tools/batch_bridge.h"
#include <stdlib.h>
#include <string.h>

struct Bridge {
    IrProgram *p;
    const RtModel *m;
    BackendInputs in;
    const RtBatch *from;
    InterpBatch batch;
    int64_t **offsets;
};

/* The input that carries a feature in this batch: its raw values, or its positions in some table. */
static const BackendInput *carrier(const Bridge *b, int feature, const void **data) {
    for (int lookup = 0; lookup < 2; lookup++)
        for (int i = 0; i < b->in.n; i++) {
            const BackendInput *in = &b->in.inputs[i];
            if (in->feature != feature || (in->kind == BE_LOOKUP) != lookup || !b->from->inputs[i]) continue;
            *data = b->from->inputs[i];
            return in;
        }
    return NULL;
}

static bool fetch(void *user, const IrNode *node, InterpValue *out) {
    Bridge *b = user;
    const void *data;
    int feature = backend_feature(&b->in, node);
    const BackendInput *in = feature < 0 ? NULL : carrier(b, feature, &data);
    if (!in) return false;
    for (int64_t i = 0; i < out->count; i++) {
        uint32_t u = in->kind == BE_F32 ? 0 : ((const uint32_t *)data)[i];
        if (in->kind == BE_F32)
            out->v[i] = (double)((const float *)data)[i];
        else if (u == RT_NO_ID)
            out->v[i] = -1;
        else if (in->kind == BE_LOOKUP)
            out->v[i] = ((const uint32_t *)b->from->tables[in->table].id)[u];
        else
            out->v[i] = u;
    }
    return true;
}

Bridge *bridge_new(IrProgram *p, const RtModel *m) {
    Bridge *b = calloc(1, sizeof *b);
    if (!b) abort();
    b->p = p;
    b->m = m;
    b->in = backend_inputs(p);
    b->offsets = calloc((size_t)p->n_axes + 1, sizeof *b->offsets);
    b->batch = (InterpBatch){.fetch = fetch, .user = b};
    return b;
}

static void clear(Bridge *b) {
    for (int a = 0; a < b->p->n_axes; a++) {
        free(b->offsets[a]);
        b->offsets[a] = NULL;
    }
}

void bridge_free(Bridge *b) {
    if (!b) return;
    clear(b);
    free(b->offsets);
    free(b);
}

const InterpBatch *bridge_batch(Bridge *b, const RtBatch *from) {
    clear(b);
    b->from = from;
    b->batch.rows = from->rows;
    for (int a = 0; a < b->p->n_axes; a++) {
        if (!from->offsets[a]) continue;
        b->offsets[a] = malloc(sizeof(int64_t) * (from->rows + 1u));
        if (!b->offsets[a]) abort();
        for (uint32_t r = 0; r <= from->rows; r++) b->offsets[a][r] = from->offsets[a][r];
    }
    b->batch.offsets = (const int64_t **)b->offsets;
    return &b->batch;
}

/* The values of a vocabulary as a generated program carries them: each followed by a newline. */
static RtBlob blob(Arena *a, const IrVocab *v) {
    size_t bytes = 0, at = 0;
    for (int64_t i = 0; i < v->n; i++) bytes += (size_t)v->lens[i] + 1;
    char *text = arena_alloc(a, bytes + 1);
    for (int64_t i = 0; i < v->n; i++) {
        memcpy(text + at, v->values[i], (size_t)v->lens[i]);
        at += (size_t)v->lens[i];
        text[at++] = '\n';
    }
    return (RtBlob){.data = text, .bytes = bytes};
}

RtModel *bridge_model(IrProgram *p, const char *march) {
    char *json = backend_describe(p, march), err[512];
    if (!json) return NULL;
    RtBlob *blobs = ARENA_ARRAY(p->arena, RtBlob, p->n_vocabs + 1);
    for (int i = 0; i < p->n_vocabs; i++) blobs[i] = blob(p->arena, &p->vocabs[i]);
    RtModel *m = rt_model_parse(json, strlen(json), blobs, err, sizeof err);
    if (!m) diag_error(p->diag, (Span){0}, NULL, "%s", err);
    free(json);
    return m;
}
