#include "runtime/jsonread.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/message.h"

void *rt_json_alloc(RtJson *j, size_t count, size_t size) {
    size_t head = 16;
    RtJsonBlock *b = calloc(1, head + (count ? count : 1) * size);
    if (!b) rt_out_of_memory();
    b->next = j->blocks;
    j->blocks = b;
    return (char *)b + head;
}

void rt_json_free_blocks(RtJsonBlock *b) {
    while (b) {
        RtJsonBlock *next = b->next;
        free(b);
        b = next;
    }
}

void rt_json_fail(RtJson *j, const char *format, ...) {
    if (j->failed) return;
    j->failed = true;
    int n = j->where[0] ? snprintf(j->err, j->err_bytes, "%s: ", j->where) : 0;
    if (n < 0 || (size_t)n >= j->err_bytes) return;
    va_list ap;
    va_start(ap, format);
    vsnprintf(j->err + n, j->err_bytes - n, format, ap);
    va_end(ap);
}

void rt_json_at(RtJson *j, const char *list, int index, const char *inner) {
    if (j->failed) return;
    if (!list)
        j->where[0] = 0;
    else
        snprintf(j->where, sizeof j->where, "%s[%d]%s%s", list, index, inner ? "." : "", inner ? inner : "");
}

static const char *type_name(json_type t) {
    switch (t) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "a whole number";
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "true or false";
    default: return "null";
    }
}

static json_t *find(RtJson *j, const json_t *o, const char *key) {
    json_t *v = o ? json_object_get(o, key) : NULL;
    if (!v && !j->failed) rt_json_fail(j, "missing key '%s'", key);
    return j->failed ? NULL : v;
}

static void wrong(RtJson *j, const char *key, json_type want, const json_t *found) {
    rt_json_fail(j, "key '%s': expected %s, found %s", key, type_name(want), type_name(json_typeof(found)));
}

json_t *rt_json_get(RtJson *j, const json_t *o, const char *key, json_type type) {
    json_t *v = find(j, o, key);
    if (v && json_typeof(v) != type) {
        wrong(j, key, type, v);
        return NULL;
    }
    return v;
}

double rt_json_num(RtJson *j, const json_t *o, const char *key) {
    json_t *v = find(j, o, key);
    if (v && !json_is_number(v)) wrong(j, key, JSON_REAL, v);
    return v && !j->failed ? json_number_value(v) : 0;
}

int64_t rt_json_int(RtJson *j, const json_t *o, const char *key, int64_t lo, int64_t hi) {
    json_t *v = rt_json_get(j, o, key, JSON_INTEGER);
    if (!v) return 0;
    int64_t i = json_integer_value(v);
    if (i < lo || i > hi) {
        rt_json_fail(j, "key '%s': %lld is not within %lld ... %lld", key, (long long)i, (long long)lo,
                     (long long)hi);
        return 0;
    }
    return i;
}

bool rt_json_bool(RtJson *j, const json_t *o, const char *key) {
    json_t *v = find(j, o, key);
    if (v && !json_is_boolean(v)) wrong(j, key, JSON_TRUE, v);
    return v && json_is_true(v);
}

static const char *copy(RtJson *j, const json_t *v) {
    size_t n = json_string_length(v);
    char *s = rt_json_alloc(j, n + 1, 1);
    memcpy(s, json_string_value(v), n);
    return s;
}

const char *rt_json_str(RtJson *j, const json_t *o, const char *key) {
    json_t *v = rt_json_get(j, o, key, JSON_STRING);
    return v ? copy(j, v) : "";
}

const char *rt_json_str_or_null(RtJson *j, const json_t *o, const char *key) {
    json_t *v = find(j, o, key);
    return !v || json_is_null(v) ? NULL : rt_json_str(j, o, key);
}

char rt_json_byte(RtJson *j, const json_t *o, const char *key) {
    json_t *v = rt_json_get(j, o, key, JSON_STRING);
    if (!v) return 0;
    const unsigned char *s = (const unsigned char *)json_string_value(v);
    size_t n = json_string_length(v);
    if (n == 0) return 0;
    if (n == 1) return (char)s[0];
    if (n == 2 && (s[0] == 0xc2 || s[0] == 0xc3)) return (char)((s[0] & 3) << 6 | (s[1] & 0x3f));
    rt_json_fail(j, "key '%s': expected one byte, found \"%s\"", key, json_string_value(v));
    return 0;
}

int rt_json_word(RtJson *j, const json_t *o, const char *key, const char *const *words, int n) {
    json_t *v = rt_json_get(j, o, key, JSON_STRING);
    if (!v) return 0;
    char list[200] = "";
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        if (!strcmp(words[i], json_string_value(v))) return i;
        if (used < sizeof list)
            used += snprintf(list + used, sizeof list - used, "%s%s", i ? " " : "", words[i]);
    }
    rt_json_fail(j, "key '%s': expected one of %s, found '%s'", key, list, json_string_value(v));
    return 0;
}

double *rt_json_nums(RtJson *j, const json_t *o, const char *key, int *n) {
    json_t *a = rt_json_get(j, o, key, JSON_ARRAY);
    *n = (int)json_array_size(a);
    double *out = rt_json_alloc(j, *n, sizeof *out);
    for (int i = 0; i < *n; i++) {
        const json_t *v = json_array_get(a, i);
        if (!json_is_number(v))
            rt_json_fail(j, "key '%s': expected numbers, found %s", key, type_name(json_typeof(v)));
        out[i] = json_number_value(v);
    }
    return out;
}

uint64_t *rt_json_u64s(RtJson *j, const json_t *o, const char *key, int n) {
    json_t *a = rt_json_get(j, o, key, JSON_ARRAY);
    uint64_t *out = rt_json_alloc(j, n, sizeof *out);
    if (a && json_array_size(a) != (size_t)n)
        rt_json_fail(j, "key '%s': expected %d numbers, found %zu", key, n, json_array_size(a));
    for (int i = 0; i < n && !j->failed; i++) {
        const json_t *v = json_array_get(a, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            rt_json_fail(j, "key '%s': expected whole numbers from 0, found %s", key,
                         type_name(json_typeof(v)));
        else
            out[i] = json_integer_value(v);
    }
    return out;
}

const char **rt_json_strs(RtJson *j, const json_t *o, const char *key, int *n) {
    json_t *a = rt_json_get(j, o, key, JSON_ARRAY);
    *n = (int)json_array_size(a);
    const char **out = rt_json_alloc(j, *n, sizeof *out);
    for (int i = 0; i < *n; i++) {
        const json_t *v = json_array_get(a, i);
        out[i] = "";
        if (!json_is_string(v))
            rt_json_fail(j, "key '%s': expected strings, found %s", key, type_name(json_typeof(v)));
        else
            out[i] = copy(j, v);
    }
    return out;
}
