/* A model written by hand, as the compiler would describe it, for tests of the runtime: logistic regression
 *   z = w * x + bias + users[hash(user)] (a table row of width 2, of which both elements are added)
 * with the step functions in C, threaded as generated code is: rows in contiguous shares, one owner an element.
 * Columns: clicked label, user string, x float, group int. Needs RtModel and RtStep only. */
#ifndef CTRC_RUNTIME_FIXTURE_H
#define CTRC_RUNTIME_FIXTURE_H
#include "runtime/model.h"
#include "tests/unit/abi_text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIX_USERS_SMALL "1000"
#define FIX_USERS_LARGE "100000000"
enum { FIX_BATCH = 64 };
enum { FIX_IN_X, FIX_IN_Y, FIX_IN_USER, FIX_IN_GROUP };
enum { FIX_BIAS, FIX_USERS, FIX_W };

/* %s: rows of the table, twice */
static const char fix_format[] =
    "{\"abi\":" ABI_TEXT ",\"ctrc\":\"0.1.0\",\"model\":\"logit\",\"source\":\"logit.ctr\",\"digest\":\"00112233aabbccdd\","
    "\"march\":\"x86-64-v3\",\"batch\":64,\"epochs\":2,\"steps\":0,\"shuffle\":0,\"seed\":7,"
    "\"params\":{\"lr\":0.1,\"logs\":\".\"},\"passes\":[\"simplify\"],\"changes\":[],"
    "\"input\":{\"format\":\"csv\",\"separator\":\",\",\"quote\":\"\\\"\",\"header\":true,\"trim\":true,\"missing\":[\"?\"],\"beside\":null},"
    "\"columns\":["
    "{\"name\":\"clicked\",\"kind\":\"label\",\"skip\":1,\"list\":null,\"axis\":-1,\"default\":null,\"positive\":null,\"negative\":null,"
    "\"from\":null,\"side\":0,\"used\":true,\"used_predict\":false,\"unit_label\":true},"
    "{\"name\":\"user\",\"kind\":\"string\",\"skip\":1,\"list\":null,\"axis\":-1,\"default\":null,\"positive\":null,\"negative\":null,"
    "\"from\":null,\"side\":0,\"used\":true,\"used_predict\":true,\"unit_label\":false},"
    "{\"name\":\"x\",\"kind\":\"float\",\"skip\":1,\"list\":null,\"axis\":-1,\"default\":0.5,\"positive\":null,\"negative\":null,"
    "\"from\":null,\"side\":0,\"used\":true,\"used_predict\":true,\"unit_label\":false},"
    "{\"name\":\"group\",\"kind\":\"int\",\"skip\":1,\"list\":null,\"axis\":-1,\"default\":null,\"positive\":null,\"negative\":null,"
    "\"from\":null,\"side\":0,\"used\":true,\"used_predict\":false,\"unit_label\":false}],"
    "\"axes\":[],"
    "\"features\":["
    "{\"op\":\"value\",\"in\":[[\"c\",2]],\"type\":\"f32\",\"axis\":-1,\"predict\":true},"
    "{\"op\":\"value\",\"in\":[[\"c\",0]],\"type\":\"f32\",\"axis\":-1,\"predict\":false},"
    "{\"op\":\"hash\",\"in\":[[\"c\",1]],\"type\":\"id\",\"axis\":-1,\"bound\":%s,\"buckets\":%s,\"fn\":\"xxh3\",\"predict\":true},"
    "{\"op\":\"key\",\"in\":[[\"c\",3]],\"type\":\"key\",\"axis\":-1,\"predict\":false}],"
    "\"inputs\":[{\"as\":\"f32\",\"feature\":0},{\"as\":\"f32\",\"feature\":1},{\"as\":\"lookup\",\"lookup\":0},{\"as\":\"key\",\"feature\":3}],"
    "\"lookups\":[{\"feature\":2,\"table\":1,\"pooled\":false}],\"vocabs\":[],"
    "\"weights\":["
    "{\"name\":\"bias\",\"shape\":[1],\"init\":\"zeros\",\"arg\":0,\"table\":false,\"lazy\":false,\"sparse\":false,\"running\":false,"
    "\"trainable\":true,\"optimizer\":0,\"slots\":[\"m\",\"v\"]},"
    "{\"name\":\"users\",\"shape\":[%s,2],\"init\":\"truncated_normal\",\"arg\":0.1,\"table\":true,\"lazy\":true,\"sparse\":true,\"running\":false,"
    "\"trainable\":true,\"optimizer\":1,\"slots\":[\"a\"]},"
    "{\"name\":\"deep.w\",\"shape\":[1,1],\"init\":\"glorot_uniform\",\"arg\":0,\"table\":false,\"lazy\":false,\"sparse\":false,\"running\":false,"
    "\"trainable\":true,\"optimizer\":0,\"slots\":[\"m\",\"v\"]}],"
    "\"optimizers\":["
    "{\"kind\":\"adam\",\"lr\":{\"kind\":\"const\",\"lr\":0.1},\"clip_norm\":0,\"l2\":0,\"momentum\":0,\"init\":0,\"rate\":0,\"every\":0,"
    "\"beta1\":0.9,\"beta2\":0.999,\"eps\":1e-8,\"rho\":0,\"l1\":0,\"l2_ftrl\":0,\"exact\":false},"
    "{\"kind\":\"adagrad\",\"lr\":{\"kind\":\"warmup\",\"steps\":10,\"then\":{\"kind\":\"const\",\"lr\":0.1}},\"clip_norm\":0,\"l2\":0,\"momentum\":0,"
    "\"init\":0.1,\"rate\":0,\"every\":0,\"beta1\":0,\"beta2\":0,\"eps\":0,\"rho\":0,\"l1\":0,\"l2_ftrl\":0,\"exact\":false}],"
    "\"functions\":{"
#define FIX_FN(outputs)                                                                                       \
    "{\"fixed_bytes\":1024,\"scratch_bytes\":64,\"row_block\":64,\"local_elems\":[],\"axis_elems\":[],\"uniq_elems\":[0,4,0],\"flops\":10,"        \
    "\"nodes\":[{\"id\":3,\"op\":\"fetch\",\"name\":\"users\",\"at\":\"logit.ctr:8:9\",\"type\":\"f32[@users,2]\"},"  \
    "{\"id\":5,\"op\":\"mul\",\"name\":\"deep\",\"at\":\"logit.ctr:9:11\",\"type\":\"f32[1]\"},"                \
    "{\"id\":7,\"op\":\"sigmoid\",\"name\":\"ctr\",\"at\":\"logit.ctr:12:15\",\"type\":\"f32[1]\"}],\"outputs\":[" outputs "]}"
#define FIX_OUT_P "{\"region\":\"fixed\",\"offset\":256}"
#define FIX_OUT_Y "{\"region\":\"input\",\"input\":1}"
#define FIX_OUT_G "{\"region\":\"input\",\"input\":3}"
    "\"train\":" FIX_FN(FIX_OUT_P "," FIX_OUT_Y "," FIX_OUT_G)
    ",\"eval\":" FIX_FN(FIX_OUT_P "," FIX_OUT_Y "," FIX_OUT_G)
    ",\"predict\":" FIX_FN(FIX_OUT_P) "},"
    "\"predictions\":[{\"name\":\"ctr\",\"output\":{\"train\":0,\"eval\":0,\"predict\":0}}],"
#define FIX_METRIC(kind, by)                                                                                  \
    "{\"kind\":\"" kind "\",\"prediction\":\"ctr\",\"p\":{\"train\":0,\"eval\":0},\"y\":{\"train\":1,\"eval\":1},\"where\":null,\"by\":" by "}"
    "\"metrics\":[" FIX_METRIC("auc", "null") "," FIX_METRIC("logloss", "null") ","
    FIX_METRIC("gauc", "{\"train\":2,\"eval\":2}") "," FIX_METRIC("pcoc", "null") "," FIX_METRIC("accuracy", "null") "]}";

static inline char *fix_description(const char *users) {
    size_t n = sizeof fix_format + 3 * strlen(users);
    char *s = malloc(n);
    if (!s) abort();
    snprintf(s, n, fix_format, users, users, users);
    return s;
}

/* s with the first `from` replaced by `to`; frees s. */
static inline char *fix_replace(char *s, const char *from, const char *to) {
    char *at = strstr(s, from);
    if (!at) fprintf(stderr, "no '%s' to replace\n", from), abort();
    size_t n = strlen(s) + strlen(to) + 1;
    char *out = malloc(n);
    if (!out) abort();
    snprintf(out, n, "%.*s%s%s", (int)(at - s), s, to, at + strlen(from));
    free(s);
    return out;
}
static inline char *fix_description_with(const char *users, const char *from, const char *to) {
    return fix_replace(fix_description(users), from, to);
}

/* Takes the description. */
static inline RtModel *fix_parse(char *description) {
    char err[300] = "";
    RtModel *m = rt_model_parse(description, strlen(description), NULL, err, sizeof err);
    if (!m) fprintf(stderr, "%s\n", err), abort();
    free(description);
    return m;
}
static inline RtModel *fix_model(const char *users) { return fix_parse(fix_description(users)); }
#endif
