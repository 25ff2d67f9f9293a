#include "runtime/tally.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/reader_internal.h"

enum { NO_LABEL_PARTS = 2 };

static int parts(const RtTally *t) { return NO_LABEL_PARTS + 2 * t->labels; }

void rt_tally_init(RtTally *t, int labels) {
    *t = (RtTally){.labels = labels};
    t->none = rt_reader_alloc((size_t)parts(t), sizeof *t->none);
    t->late = rt_reader_alloc((size_t)parts(t), sizeof *t->late);
}

static void free_map(RtTallyMap *m) {
    free(m->value);
    free(m->slot);
    free(m->text);
}

void rt_tally_free(RtTally *t) {
    free_map(&t->map);
    free_map(&t->rest);
    free(t->part);
    free(t->none);
    free(t->late);
    free(t->hll);
}

/* ---- the map ---- */

/* Keys may be numbers' bits. */
static size_t slot_of(const RtTallyMap *m, uint64_t key) {
    size_t k = rt_mixed(key) & (m->slots - 1);
    while (m->slot[k] && m->value[m->slot[k] - 1].key != key) k = (k + 1) & (m->slots - 1);
    return k;
}

static void index_all(RtTallyMap *m) {
    memset(m->slot, 0, m->slots * sizeof *m->slot);
    for (uint32_t i = 0; i < m->n; i++) m->slot[slot_of(m, m->value[i].key)] = i + 1;
}

static void room_for_one(RtTallyMap *m) {
    if (m->slots > 2 * (size_t)m->n) return;
    size_t cap = m->cap;
    m->slots = m->slots ? m->slots * 2 : 64;
    m->value = rt_reader_grow(m->value, &cap, m->slots / 2 + 1, sizeof *m->value);
    m->cap = (uint32_t)cap;
    free(m->slot);
    m->slot = rt_reader_alloc(m->slots, sizeof *m->slot);
    index_all(m);
}

static uint32_t insert(RtTallyMap *m, size_t k, uint64_t key, const char *text, size_t bytes) {
    size_t kept = bytes < RT_TALLY_TEXT ? bytes : RT_TALLY_TEXT;
    m->value[m->n] = (RtTallyValue){.key = key, .n = 1, .bytes = (uint16_t)kept, .cut = kept < bytes};
    if (text && kept) {
        m->text = rt_reader_grow(m->text, &m->text_cap, m->text_bytes + kept, 1);
        memcpy(m->text + m->text_bytes, text, kept);
        m->value[m->n].text = (uint32_t)m->text_bytes;
        m->text_bytes += kept;
    }
    m->slot[k] = ++m->n;
    return m->n - 1;
}

/* ---- values that come when the map is full ---- */

static int by_count(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Takes the median count away from all, and drops those that have none left: half of them at least. Done once
 * for every RT_TALLY_REST/2 values, it costs each a constant. (Anderson et al., "A high-performance algorithm
 * for identifying frequent items in data streams", IMC 2017.) */
static void purge(RtTallyMap *m) {
    static _Thread_local uint64_t count[RT_TALLY_REST];
    RtTallyMap kept = {.value = m->value, .slot = m->slot, .cap = m->cap, .slots = m->slots};
    for (uint32_t i = 0; i < m->n; i++) count[i] = m->value[i].n;
    qsort(count, m->n, sizeof *count, by_count);
    uint64_t less = count[m->n / 2];
    for (uint32_t i = 0; i < m->n; i++) {
        RtTallyValue v = m->value[i];
        if (v.n <= less) continue;
        v.n -= less;
        kept.text = rt_reader_grow(kept.text, &kept.text_cap, kept.text_bytes + v.bytes + 1, 1);
        if (v.bytes) memcpy(kept.text + kept.text_bytes, m->text + v.text, v.bytes);
        v.text = (uint32_t)kept.text_bytes;
        kept.text_bytes += v.bytes;
        kept.value[kept.n++] = v;
    }
    free(m->text);
    *m = kept;
    index_all(m);
}

static void add_late(RtTally *t, uint64_t key, const char *text, size_t bytes) {
    RtTallyMap *m = &t->rest;
    room_for_one(m);
    size_t k = slot_of(m, key);
    if (m->slot[k]) {
        m->value[m->slot[k] - 1].n++;
        return;
    }
    if (m->n == RT_TALLY_REST) {
        purge(m);
        k = slot_of(m, key);
    }
    insert(m, k, key, text, bytes);
}

uint64_t *rt_tally_add(RtTally *t, uint64_t key, const char *text, size_t bytes) {
    RtTallyMap *m = &t->map;
    room_for_one(m);
    size_t k = slot_of(m, key);
    if (m->slot[k]) {
        m->value[m->slot[k] - 1].n++;
        return t->part + (size_t)(m->slot[k] - 1) * (size_t)parts(t);
    }
    if (m->n < RT_TALLY_EXACT) {
        size_t at = (size_t)insert(m, k, key, text, bytes) * (size_t)parts(t);
        t->part = rt_reader_grow(t->part, &t->part_cap, at + (size_t)parts(t), sizeof *t->part);
        return memset(t->part + at, 0, (size_t)parts(t) * sizeof *t->part);
    }
    if (!t->hll) {
        t->hll = rt_reader_alloc(1, sizeof *t->hll);
        for (uint32_t i = 0; i < m->n; i++) rt_hll_add(t->hll, rt_mixed(m->value[i].key));
    }
    rt_hll_add(t->hll, rt_mixed(key));
    add_late(t, key, text, bytes);
    return t->late;
}

/* ---- what they say ---- */

bool rt_tally_exact(const RtTally *t) { return !t->hll; }
double rt_tally_distinct(const RtTally *t) { return t->hll ? rt_hll_count(t->hll) : t->map.n; }

static bool goes_before(const RtTallyValue *a, const RtTallyValue *b) {
    return a->n > b->n || (a->n == b->n && a->key < b->key);
}

static int take_top(const RtTallyMap *m, RtTallyValue *out, int n, int most) {
    for (uint32_t i = 0; i < m->n; i++) {
        int k = n;
        while (k > 0 && goes_before(&m->value[i], &out[k - 1])) k--;
        if (k >= most) continue;
        if (n < most) n++;
        memmove(out + k + 1, out + k, (size_t)(n - k - 1) * sizeof *out);
        out[k] = m->value[i];
    }
    return n;
}

int rt_tally_top(const RtTally *t, RtTallyValue *out, int most) {
    return take_top(&t->rest, out, take_top(&t->map, out, 0, most), most);
}

const char *rt_tally_text(const RtTally *t, const RtTallyValue *v) {
    size_t k = t->map.slots ? slot_of(&t->map, v->key) : 0;
    return (t->map.slots && t->map.slot[k] ? t->map.text : t->rest.text) + v->text;
}

/* ---- AUC ---- */

static int by_score(const void *a, const void *b) {
    double x = ((const RtScored *)a)->score, y = ((const RtScored *)b)->score;
    return x < y ? -1 : x > y;
}

double rt_auc_of_groups(RtScored *s, size_t n) {
    double positives = 0, negatives = 0, above = 0;
    qsort(s, n, sizeof *s, by_score);
    for (size_t i = 0; i < n;) {
        double p = 0, q = 0, score = s[i].score;
        for (; i < n && s[i].score == score; i++) {
            p += s[i].positive;
            q += s[i].negative;
        }
        above += p * (negatives + 0.5 * q);
        positives += p;
        negatives += q;
    }
    return positives > 0 && negatives > 0 ? above / (positives * negatives) : NAN;
}

static void score(int label, int learn, double prior, const uint64_t *part, RtScored *out) {
    const uint64_t *positive = part + NO_LABEL_PARTS + 2 * label;
    out->score =
        ((double)positive[learn] + prior) / ((double)part[learn] + 1); /* one row's weight for the prior */
    out->positive = (double)positive[!learn];
    out->negative = (double)(part[!learn] - positive[!learn]);
}

double rt_tally_auc(const RtTally *t, int label) {
    size_t n = t->map.n, stride = (size_t)parts(t);
    RtScored *s = rt_reader_alloc(n + 2, sizeof *s);
    double sum = 0;
    for (int learn = 0; learn < 2; learn++) {
        double rows = 0, positives = 0;
        for (size_t i = 0; i < n + 2; i++) {
            const uint64_t *p = i < n ? t->part + i * stride : i == n ? t->none : t->late;
            rows += (double)p[learn];
            positives += (double)p[NO_LABEL_PARTS + 2 * label + learn];
        }
        double prior = rows > 0 ? positives / rows : 0;
        for (size_t i = 0; i < n + 2; i++)
            score(label, learn, prior, i < n ? t->part + i * stride : i == n ? t->none : t->late, &s[i]);
        sum += rt_auc_of_groups(s, n + 2);
    }
    free(s);
    return sum / 2;
}
