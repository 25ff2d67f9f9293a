/* onnx_structure FILE [WEIGHT…]: decodes an ONNX file by the wire format alone and checks what every runtime
 * relies on. Each field ends where its message does; a node's inputs are made before it, also what a loop's
 * body takes from outside; no value is made twice; graph outputs are made; a tensor has as many bytes as its
 * shape says, and no value that isn't finite. The weights named must be there. Prints how many nodes,
 * weights, inputs and outputs there are. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const uint8_t *p, *end;
} Bytes;
typedef struct {
    int number, type;
    uint64_t value; /* of a number */
    Bytes bytes;    /* of what has a length */
} Field;
typedef struct Names {
    const struct Names *outer; /* what a body may use, too */
    char **name;
    size_t n;
} Names;
static struct { long nodes, weights, inputs, outputs, bodies; } count;

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void fail(const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

/* ---- the wire format ---- */

static uint64_t varint(Bytes *b) {
    uint64_t v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (b->p == b->end) fail("cut short in a number");
        v |= (uint64_t)(*b->p & 0x7f) << shift;
        if (!(*b->p++ & 0x80)) return v;
    }
    fail("a number of more than ten bytes");
}

static bool next(Bytes *b, Field *f) {
    if (b->p == b->end) return false;
    uint64_t tag = varint(b), n = 0;
    *f = (Field){.number = (int)(tag >> 3), .type = (int)(tag & 7)};
    if (f->type == 0)
        f->value = varint(b);
    else if (f->type == 2 || f->type == 5) {
        n = f->type == 2 ? varint(b) : 4;
        if (n > (uint64_t)(b->end - b->p)) fail("field %d is longer than its message", f->number);
        f->bytes = (Bytes){b->p, b->p + n};
        b->p += n;
    } else
        fail("field %d has wire type %d", f->number, f->type);
    return true;
}

static char *text(Bytes b) { return strndup((const char *)b.p, (size_t)(b.end - b.p)); }

/* ---- names ---- */

static bool is_known(const Names *s, const char *name) {
    for (; s; s = s->outer)
        for (size_t i = 0; i < s->n; i++)
            if (!strcmp(s->name[i], name)) return true;
    return false;
}

static void make(Names *s, char *name) {
    if (!*name) fail("a value without a name");
    if (is_known(s, name)) fail("value '%s' is made twice", name);
    s->name = realloc(s->name, (s->n + 1) * sizeof *s->name);
    if (!s->name) abort();
    s->name[s->n++] = name;
}

static char *name_in(Bytes b, int number) {
    for (Field f; next(&b, &f);)
        if (f.number == number) return text(f.bytes);
    fail("a message without its name (field %d)", number);
}

/* ---- tensors, nodes, graphs ---- */

static void tensor(Bytes b, Names *s) {
    uint64_t size = 1, type = 0;
    Bytes raw = {0};
    char *name = name_in(b, 8);
    for (Field f; next(&b, &f);) {
        if (f.number == 1) size *= f.value;
        if (f.number == 2) type = f.value;
        if (f.number == 9) raw = f.bytes;
    }
    if (type != 1 && type != 7) fail("tensor '%s' has type %" PRIu64, name, type);
    if ((uint64_t)(raw.end - raw.p) != size * (type == 1 ? 4 : 8))
        fail("tensor '%s' has %td bytes for %" PRIu64 " elements", name, raw.end - raw.p, size);
    for (uint64_t i = 0; type == 1 && i < size; i++) {
        float v;
        memcpy(&v, raw.p + 4 * i, 4);
        if (!isfinite(v)) fail("tensor '%s' holds %g", name, (double)v);
    }
    make(s, name);
    count.weights++;
}

static void graph(Bytes b, const Names *outer);

static void attribute(Bytes b, const char *node, const Names *s) {
    uint64_t type = 0, seen = 0;
    static const int field[] = {
        [1] = 2, [2] = 3, [3] = 4, [5] = 6, [7] = 8}; /* where the value of a type is */
    for (Field f; next(&b, &f);) {
        if (f.number == 20)
            type = f.value;
        else if (f.number != 1)
            seen = (uint64_t)f.number;
        if (f.number == 6) {
            count.bodies++;
            graph(f.bytes, s);
        }
    }
    if (type >= sizeof field / sizeof *field || !field[type])
        fail("%s: an attribute of type %" PRIu64, node, type);
    if (seen && (int)seen != field[type]) fail("%s: an attribute of another type than its value", node);
}

static void node(Bytes b, Names *s) {
    char *op = name_in(b, 4);
    Bytes again = b;
    for (Field f; next(&b, &f);) {
        char *name = f.number == 1 ? text(f.bytes) : NULL;
        if (name && *name && !is_known(s, name)) fail("%s takes '%s', which isn't made before it", op, name);
        if (f.number == 5) attribute(f.bytes, op, s);
        free(name);
    }
    for (Field f; next(&again, &f);)
        if (f.number == 2) make(s, text(f.bytes));
    free(op);
    count.nodes++;
}

/* Values and constants come first, whatever the order in the file; nodes in their order. */
static void graph(Bytes b, const Names *outer) {
    Names s = {.outer = outer};
    Bytes inputs = b, nodes = b, outputs = b;
    for (Field f; next(&inputs, &f);) {
        if (f.number == 5) tensor(f.bytes, &s);
        if (f.number == 11) make(&s, name_in(f.bytes, 1));
        if (f.number == 11 && !outer) count.inputs++;
    }
    for (Field f; next(&nodes, &f);)
        if (f.number == 1) node(f.bytes, &s);
    long n = 0;
    for (Field f; next(&outputs, &f);) {
        if (f.number != 12) continue;
        char *name = name_in(f.bytes, 1);
        if (!is_known(&s, name)) fail("output '%s' is never made", name);
        free(name);
        n++;
    }
    if (!n) fail("a graph without outputs");
    if (!outer) count.outputs = n;
    for (size_t i = 0; i < s.n; i++) free(s.name[i]);
    free(s.name);
}

static bool has_tensor(Bytes b, const char *wanted) {
    bool found = false;
    for (Field f; !found && next(&b, &f);) {
        char *name = f.number == 5 ? name_in(f.bytes, 8) : NULL;
        found = name && !strcmp(name, wanted);
        free(name);
    }
    return found;
}

static Bytes read_all(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) fail("cannot read %s", path);
    size_t n = (size_t)ftell(f);
    uint8_t *p = malloc(n + 1);
    rewind(f);
    if (!p || fread(p, 1, n, f) != n) fail("cannot read %s", path);
    fclose(f);
    return (Bytes){p, p + n};
}

int main(int argc, char **argv) {
    if (argc < 2) fail("usage: onnx_structure FILE [WEIGHT...]");
    Bytes all = read_all(argv[1]), b = all;
    uint64_t version = 0;
    int graphs = 0, opsets = 0;
    for (Field f; next(&b, &f);) {
        if (f.number == 1) version = f.value;
        if (f.number == 8) opsets++;
        if (f.number != 7) continue;
        graphs++;
        graph(f.bytes, NULL);
        for (int i = 2; i < argc; i++)
            if (!has_tensor(f.bytes, argv[i])) fail("no weight '%s'", argv[i]);
    }
    if (version < 8 || graphs != 1 || opsets != 1)
        fail("version %" PRIu64 ", %d graphs, %d operator sets", version, graphs, opsets);
    printf("nodes %ld tensors %ld inputs %ld outputs %ld bodies %ld\n", count.nodes, count.weights,
           count.inputs, count.outputs, count.bodies);
    free((void *)all.p);
    return 0;
}
