/* The table of what products cost, one file a CPU beside rates-….json (kept.c):
 *
 *     products-znver3-8-1f2e3d4c.json      (8: floats in a vector; then a digest of what the CPU calls
 * itself) { "ctrc": "0.1.0", "cpu": "AMD EPYC 7763 …", "l1": 32768, "l2": 524288, "products": { "396x1024, 64
 * of 512 rows, epilogue": { "tile": 91.2, "library": 63.4 }, … } }
 *
 * in GFLOP/s. `ctrc --tune-kernels` adds the products of a model and measures anew those that are there. A
 * table counts for the CPU and the version of ctrc that it was measured by: tiles may be others by the next.
 */
#include "backend/cost_table.h"
#include <cpuid.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include "backend/emit.h"
#include "backend/kept.h"

static const Span no_place = {0};

/* ---- which CPU ---- */

/* What the CPU calls itself: 48 characters, padded with blanks on either side. */
static const char *brand(Arena *a, const char *otherwise) {
    unsigned words[12];
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                         &words[4 * i + 3]))
            return otherwise;
    char *text = arena_strndup(a, (const char *)words, sizeof words);
    while (*text == ' ') text++;
    for (size_t n = strlen(text); n && text[n - 1] == ' ';) text[--n] = 0;
    for (char *s = text; *s; s++)
        if ((unsigned char)*s < ' ' || (unsigned char)*s > '~') *s = '?'; /* JSON wants UTF-8 */
    return *text ? text : otherwise;
}

bool cost_cpu(Diag *d, Arena *a, CostCpu *out) {
    EmitTarget host;
    if (!emit_target(d, a, "native", &host)) return false;
    const PassTarget *t = &host.pass;
    *out = (CostCpu){.name = brand(a, host.cpu), .cpu = host.cpu, .target = host.pass};
    const char *all = arena_printf(a, "%s %" PRId64 " %" PRId64, out->name, t->l1_bytes, t->l2_bytes);
    out->path = kept_path(a,
                          arena_printf(a, "products-%s-%d-%08x.json", out->cpu, t->vector_floats,
                                       (unsigned)XXH3_64bits(all, strlen(all))),
                          false);
    return true;
}

/* ---- reading ---- */

static void no_use(Diag *d, const CostCpu *cpu, const char *why) {
    diag_warn(d, no_place, "ctrc --tune-kernels measures anew", "the table of products '%s' isn't used: %s",
              cpu->path, why);
}

static bool figure(const json_t *j, double *out) {
    enum { MOST = 1000000 };
    *out = json_number_value(j);
    return json_is_number(j) && isfinite(*out) && *out > 0 && *out < MOST;
}

/* NULL, or what is wrong. */
static const char *read_products(Arena *a, json_t *products, PassCosts *c) {
    const char *key;
    json_t *one;
    if (!json_is_object(products)) return "expected an object \"products\"";
    json_object_foreach(products, key, one) {
        PassCost cost = {.key = arena_strdup(a, key)};
        if (!figure(json_object_get(one, "tile"), &cost.tile) ||
            !figure(json_object_get(one, "library"), &cost.library))
            return arena_printf(a, "expected GFLOP/s \"tile\" and \"library\" of product \"%s\"", key);
        pass_cost_put(a, c, cost);
    }
    return NULL;
}

static const char *read_table(Arena *a, const CostCpu *cpu, json_t *j, PassCosts *c) {
    const PassTarget *t = &cpu->target;
    const char *ctrc = json_string_value(json_object_get(j, "ctrc")),
               *name = json_string_value(json_object_get(j, "cpu"));
    if (!ctrc || !name) return "expected texts \"ctrc\" and \"cpu\"";
    if (strcmp(ctrc, CTRC_VERSION) != 0)
        return arena_printf(a, "ctrc %s measured it, this is ctrc %s", ctrc, CTRC_VERSION);
    if (strcmp(name, cpu->name) != 0 || json_integer_value(json_object_get(j, "l1")) != t->l1_bytes ||
        json_integer_value(json_object_get(j, "l2")) != t->l2_bytes)
        return arena_printf(a, "it was measured on another CPU, '%s'", name);
    return read_products(a, json_object_get(j, "products"), c);
}

void cost_table_read(Diag *d, Arena *a, const CostCpu *cpu, PassCosts *c) {
    json_error_t e;
    bool there = cpu->path && access(cpu->path, F_OK) == 0;
    if (!cpu->path || (!there && (errno == ENOENT || errno == ENOTDIR))) return;
    if (access(cpu->path, R_OK) != 0) {
        no_use(d, cpu, strerror(errno));
        return;
    }
    json_t *j = json_load_file(cpu->path, JSON_REJECT_DUPLICATES, &e);
    const char *why = j ? read_table(a, cpu, j, c) : arena_printf(a, "line %d: %s", e.line, e.text);
    json_decref(j);
    if (!why) return;
    c->n = 0;
    no_use(d, cpu, why);
}

/* ---- writing ---- */

bool cost_table_write(Diag *d, Arena *a, const CostCpu *cpu, const PassCosts *c) {
    const PassTarget *t = &cpu->target;
    json_t *products = json_object();
    for (int i = 0; i < c->n; i++)
        json_object_set_new(products, c->item[i].key,
                            json_pack("{s:f, s:f}", "tile", c->item[i].tile, "library", c->item[i].library));
    json_t *j = json_pack("{s:s, s:s, s:I, s:I, s:o}", "ctrc", CTRC_VERSION, "cpu", cpu->name, "l1",
                          (json_int_t)t->l1_bytes, "l2", (json_int_t)t->l2_bytes, "products", products);
    if (kept_write(a, cpu->path, j)) return true;
    diag_error(d, no_place, NULL, "can't write '%s': %s", cpu->path, strerror(errno));
    return false;
}
