/* --emit=html without a browser: the page asks for nothing from elsewhere, and its data is what the compiler
 * knows: the printer's text after every pass, places inside the source, kernels and memory of the plan. */
#include "test_ir_fixture.h"
#include <jansson.h>
#include "backend/backend.h"
#include "backend/html.h"
#include "frontend/compile.h"

static const char odd_model[] = "# </script><script>alert(1)</script> <!-- \xc3\xb6\n"
                                "model odd\n"
                                "input csv() { y label; a string list(\";\", max = 7); b float }\n"
                                "e = pool(embed(hash(a, 100), table(100, 4)), mean)\n"
                                "z = concat(e, b) |> mlp([16, 8], norm = batchnorm) |> dense(1)\n"
                                "predict p = sigmoid(z)\n"
                                "loss bce_logits(z, y)\n"
                                "optimizer adam(lr = 0.1)\n"
                                "train(batch = 32, epochs = 1)\n";

typedef struct {
    Fx fx;
    IrProgram *p;
    char *page;
    size_t size;
    json_t *data;
} Html;

static json_t *read_data(Html *h) {
    static const char open[] = "<script type=\"application/json\" id=\"data\">";
    const char *from = strstr(h->page, open);
    assert_non_null(from);
    from += strlen(open);
    const char *to = strstr(from, "</script>");
    assert_non_null(to);
    json_error_t e;
    json_t *j = json_loadb(from, (size_t)(to - from), JSON_REJECT_DUPLICATES, &e);
    if (!j) fail_msg("the page's data is no JSON: %s at %d", e.text, e.position);
    return j;
}

/* In place: the Diag's stream must not move. */
static void html(Html *h, const char *path, const PassArg *asked) {
    *h = (Html){.fx = fx_new()};
    Diag *d = fx_diag(&h->fx);
    BackendPage *page = backend_page_new(h->fx.arena);
    PassOptions o = {.level = 2, .out = stdout, .watch = backend_page_keep, .watch_context = page};
    o.enable = asked, o.n_enable = asked != NULL;
    assert_true(backend_target(d, "native", &o.target));
    path = arena_strdup(h->fx.arena, path); /* the program keeps it */
    h->p = frontend_compile(h->fx.arena, d, path, NULL, 0, CTRC_SOURCE_DIR "/frontend/lib");
    if (!h->p || !pass_run_all(h->p, &o)) fail_msg("%s doesn't compile:\n%s", path, fx_messages(&h->fx));
    FILE *f = open_memstream(&h->page, &h->size);
    assert_true(backend_page_write(page, h->p, "native", f));
    fclose(f);
    h->data = read_data(h);
}

static void html_of_text(Html *h, const char *text) {
    char path[] = "/tmp/ctrc_html_XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    fputs(text, f);
    fclose(f);
    html(h, path, NULL);
    unlink(path);
}

static void html_free(Html *h) {
    json_decref(h->data);
    free(h->page);
    fx_free(&h->fx);
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)); text += strlen(what)) n++;
    return n;
}

/* ---- the frame ---- */

static void test_asks_for_nothing(void **state) {
    (void)state;
    const char *parts[] = {backend_html_page, backend_html_style, backend_html_script};
    const char *never[] = {"<link",          "src=",      "url(",    "@import", "@font-face", "fetch(",
                           "XMLHttpRequest", "WebSocket", "import(", "eval(",   "innerHTML"};
    for (int i = 0; i < 3; i++) {
        for (size_t k = 0; k < sizeof never / sizeof *never; k++)
            if (strstr(parts[i], never[k])) fail_msg("part %d of the page holds '%s'", i, never[k]);
        /* the one address in it is a name, which no browser ever asks for */
        assert_int_equal(count(parts[i], "://"), i == 2 ? 1 : 0);
    }
    assert_non_null(strstr(backend_html_script, "'http://www.w3.org/2000/svg'"));
    assert_non_null(strstr(backend_html_page, "content=\"default-src 'none'; style-src 'unsafe-inline'; "
                                              "script-src 'unsafe-inline'\""));
    assert_null(strstr(backend_html_script, "</script"));
    assert_null(strstr(backend_html_style, "</style"));
}

static void test_no_text_ends_the_data(void **state) {
    (void)state;
    Html h;
    html_of_text(&h, odd_model);
    assert_int_equal(count(h.page, "</script"), count(backend_html_page, "</script"));
    assert_int_equal(count(h.page, "<!--"), 0);
    json_t *file = json_array_get(json_object_get(h.data, "files"), 0);
    assert_string_equal(json_string_value(json_object_get(file, "text")), odd_model);
    html_free(&h);
}

/* ---- states ---- */

static const char *string(json_t *j, const char *key) { return json_string_value(json_object_get(j, key)); }

static const char *source_of(Html *h, const char *path, size_t *size) {
    size_t i;
    json_t *f;
    json_array_foreach(json_object_get(h->data, "files"), i, f) if (!strcmp(string(f, "path"), path)) {
        *size = json_string_length(json_object_get(f, "text"));
        return string(f, "text");
    }
    fail_msg("the page lacks the source '%s'", path);
    return NULL;
}

/* The byte after `col - 1` others of a line; fails outside. */
static size_t place(const char *text, size_t size, uint32_t line, uint32_t col) {
    size_t at = 0;
    for (uint32_t n = 1; n < line; n++) {
        while (at < size && text[at] != '\n') at++;
        assert_true(at++ < size);
    }
    for (uint32_t n = 1; n < col; n++) assert_true(at < size && text[at] != '\n' ? ++at : 0);
    return at;
}

static int check_spans(Html *h, IrProgram *p, const IrBody *b) {
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        Span s = b->nodes[i]->span;
        if (b->nodes[i]->body) n += check_spans(h, p, b->nodes[i]->body);
        if (!s.line) continue;
        size_t size = 0, from, to;
        const char *text = source_of(h, p->diag->files[s.file].path, &size);
        from = place(text, size, s.line, s.col);
        to = place(text, size, s.end_line, s.end_col);
        assert_true(from < to && to <= size);
        n++;
    }
    return n;
}

static void check_states(Html *h) {
    json_t *states = json_object_get(h->data, "states");
    assert_int_equal(json_array_size(states), h->p->n_applied + 1);
    for (int i = 0; i <= h->p->n_applied; i++) {
        json_t *s = json_array_get(states, (size_t)i);
        const char *text = string(s, "text");
        if (i == 0)
            assert_null(json_object_get(s, "pass"));
        else
            assert_string_equal(string(s, "pass"), h->p->applied[i - 1]);
        if (i > 0) {
            const char *effect = strstr(h->p->effects[i - 1], ": ");
            assert_string_equal(string(s, "effect"), effect + 2);
        }
        Fx fx = fx_new();
        IrProgram *again = fx_program(&fx, text);
        assert_string_equal(fx_print(&fx, again), text);
        assert_int_equal(again->n_applied, i);
        int spans = 0;
        for (int f = 0; f < again->n_funcs; f++) spans += check_spans(h, again, &again->funcs[f]->body);
        assert_true(spans > 10);
        assert_int_equal(json_array_size(json_object_get(s, "funcs")), again->n_funcs);
        fx_free(&fx);
    }
    json_t *last = json_array_get(states, (size_t)h->p->n_applied);
    assert_string_equal(string(last, "text"), fx_print(&h->fx, h->p));
}

/* ---- the plan ---- */

static const IrNode *node(const IrFunc *f, json_t *row) {
    json_int_t id = json_integer_value(json_array_get(row, 0));
    for (int i = 0; i < f->body.n; i++)
        if (f->body.nodes[i]->id == id) return f->body.nodes[i];
    fail_msg("func %s has no node %%%d", f->name, (int)id);
    return NULL;
}

static double number(json_t *row, size_t i) { return json_number_value(json_array_get(row, i)); }

static void check_kernels(const IrFunc *f, json_t *kernels, json_t *work) {
    size_t i;
    json_t *row;
    double flops = 0, bytes = 0;
    json_array_foreach(kernels, i, row) {
        const IrNode *n = node(f, row);
        assert_int_equal((int)number(row, 1), n->plan.phase);
        assert_true(number(row, 4) >= 0 && number(row, 5) >= 0 && number(row, 6) >= 0);
        if (n->op != OP_FUSED)
            assert_string_equal(json_string_value(json_array_get(row, 7)), ir_ops[n->op].text);
        flops += number(row, 4);
        bytes += number(row, 5);
    }
    assert_int_equal(json_array_size(kernels), (int)number(work, 1));
    assert_true(flops > 0 && number(work, 2) > 0.9999 * flops && number(work, 2) < 1.0001 * flops);
    assert_true(bytes > 0 && number(work, 3) > 0.9999 * bytes && number(work, 3) < 1.0001 * bytes);
}

/* Inside the arena, and no two that live at once share a byte. */
static void check_arena(json_t *a, int64_t size) {
    json_t *all = json_object_get(a, "buffers");
    assert_int_equal(json_integer_value(json_object_get(a, "size")), size);
    assert_true(json_array_size(all) > 0);
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *x = json_array_get(all, i);
        assert_true(number(x, 1) <= number(x, 2));
        assert_true(number(x, 3) >= 0 && number(x, 4) > 0 && number(x, 3) + number(x, 4) <= (double)size);
        for (size_t k = 0; k < i; k++) {
            json_t *y = json_array_get(all, k);
            bool together = number(x, 1) <= number(y, 2) && number(y, 1) <= number(x, 2);
            bool touch =
                number(x, 3) < number(y, 3) + number(y, 4) && number(y, 3) < number(x, 3) + number(x, 4);
            assert_false(together && touch);
        }
    }
}

/* What lives at once in the map is what plan-memory counted. */
static void check_lower(json_t *a, int64_t lower) {
    double most = 0;
    for (int phase = 0; phase < 100; phase++) {
        double live = 0;
        size_t i;
        json_t *x;
        json_array_foreach(json_object_get(a, "buffers"), i,
                           x) if (number(x, 1) <= phase && phase <= number(x, 2)) live += number(x, 4);
        most = live > most ? live : most;
    }
    assert_true(most == (double)lower);
}

/* A thread's own: from kernel to kernel of one phase, all of which run for a block of rows. */
static void check_local(const IrFunc *f, json_t *func, json_t *a, int64_t size) {
    json_t *kernels = json_object_get(func, "kernels"), *x;
    size_t i;
    check_arena(a, size);
    assert_string_equal(string(a, "of"), "block");
    assert_memory_equal(string(a, "name"), "local", 5);
    json_array_foreach(json_object_get(a, "buffers"), i, x) {
        json_t *first = json_array_get(kernels, (size_t)number(x, 1)),
               *last = json_array_get(kernels, (size_t)number(x, 2));
        /* itself, another result of the region that makes it, or a part of a concat before it */
        assert_true(ir_writes_within(&f->body, node(f, first), node(f, x)));
        assert_int_equal((int)number(first, 1), (int)number(last, 1));
        assert_int_equal(node(f, last)->plan.domain, DOM_ROWS);
        const IrNode *n = node(f, last);
        bool reads = n == node(f, x);
        for (int k = 0; k < n->n_in; k++) reads |= ir_stands_in(n->in[k], node(f, x));
        assert_true(reads);
    }
}

/* Each place that plan-memory gave stands in one arena. */
static void check_places(const IrFunc *f, json_t *arenas) {
    int places = 0, shown = 0;
    for (int i = 0; i < f->body.n; i++) {
        const IrNode *n = f->body.nodes[i];
        IrRegionKind r = n->plan.region;
        places += ir_viewed(n) == n && !n->plan.ld && r != REGION_NONE && r != REGION_INPUT;
    }
    for (size_t i = 0; i < json_array_size(arenas); i++)
        shown += (int)json_array_size(json_object_get(json_array_get(arenas, i), "buffers"));
    assert_int_equal(shown, places);
}

static void check_funcs(Html *h) {
    json_t *funcs = json_object_get(h->data, "funcs"), *states = json_object_get(h->data, "states");
    json_t *work = json_object_get(json_array_get(states, (size_t)h->p->n_applied), "funcs");
    assert_int_equal(json_array_size(funcs), h->p->n_funcs);
    for (int i = 0; i < h->p->n_funcs; i++) {
        const IrFunc *f = h->p->funcs[i];
        json_t *j = json_array_get(funcs, (size_t)i), *arenas = json_object_get(j, "arenas");
        assert_string_equal(string(j, "name"), f->name);
        check_kernels(f, json_object_get(j, "kernels"), json_array_get(work, (size_t)i));
        check_arena(json_array_get(arenas, 0), f->fixed_bytes);
        check_lower(json_array_get(arenas, 0), f->lower_bytes);
        size_t n = 1;
        for (int k = 0; k < h->p->n_axes; k++)
            if (f->axis_elems[k]) check_arena(json_array_get(arenas, n++), 4 * f->axis_elems[k]);
        for (int k = 0; k < h->p->n_weights; k++)
            if (f->uniq_elems[k]) check_arena(json_array_get(arenas, n++), 4 * f->uniq_elems[k]);
        if (f->local_bytes) check_local(f, j, json_array_get(arenas, n++), f->local_bytes);
        for (int k = 0; f->local_elems && k < h->p->n_axes; k++)
            if (f->local_elems[k]) check_local(f, j, json_array_get(arenas, n++), 4 * f->local_elems[k]);
        assert_int_equal(json_array_size(arenas), n);
        check_places(f, arenas);
    }
}

static void test_data(void **state) {
    (void)state;
    static const char *const models[] = {"adult", "deepfm", "mmoe"};
    for (int i = 0; i < 3; i++) {
        char path[256];
        snprintf(path, sizeof path, CTRC_SOURCE_DIR "/models/%s.ctr", models[i]);
        Html h;
        html(&h, path, NULL);
        check_states(&h);
        check_funcs(&h);
        assert_int_equal(json_array_size(json_object_get(h.data, "weights")), h.p->n_weights);
        assert_string_equal(string(h.data, "model"), h.p->name);
        html_free(&h);
    }
}

/* In micro-batches: which phases are run block by block, and places that hold the rows of one block. */
static void test_blocks(void **state) {
    (void)state;
    static const PassArg eight = {"micro-batch", "n=8"};
    static const char *const models[] = {CTRC_SOURCE_DIR "/models/deepfm.ctr",
                                         CTRC_SOURCE_DIR "/models/mmoe.ctr"};
    for (int i = 0; i < 2; i++) {
        Html h, whole;
        const char *path = models[i];
        html(&h, path, &eight);
        html(&whole, path, NULL);
        check_states(&h);
        check_funcs(&h);
        const IrFunc *f = h.p->funcs[0];
        json_t *train = json_array_get(json_object_get(h.data, "funcs"), 0), *x;
        json_t *buffers = json_object_get(json_array_get(json_object_get(train, "arenas"), 0), "buffers");
        assert_int_equal(json_integer_value(json_object_get(train, "blocks")), 8);
        assert_int_equal((int)number(json_object_get(train, "loop"), 0), f->loop_first);
        assert_int_equal((int)number(json_object_get(train, "loop"), 1), f->loop_last);
        int in_blocks = 0;
        size_t k;
        json_array_foreach(buffers, k, x) {
            const IrNode *n = node(f, x);
            assert_int_equal(json_is_true(json_array_get(x, 5)), n->plan.per_block);
            if (!n->plan.per_block) continue;
            assert_true(number(x, 4) ==
                        (double)((ir_type_size(n->type) * h.p->batch / 8 * 4 + 63) / 64 * 64));
            assert_true(number(x, 1) >= f->loop_first && number(x, 2) <= f->loop_last);
            in_blocks++;
        }
        if (!in_blocks) fail_msg("%s: no place holds the rows of one block", path);
        assert_true(f->fixed_bytes < whole.p->funcs[0]->fixed_bytes);
        train = json_array_get(json_object_get(whole.data, "funcs"), 0);
        assert_null(json_object_get(train, "blocks"));
        html_free(&h);
        html_free(&whole);
    }
}

/* What a list and a table count for. */
static void test_work(void **state) {
    (void)state;
    Html h;
    html_of_text(&h, odd_model);
    check_states(&h);
    check_funcs(&h);
    json_t *list = json_array_get(json_object_get(h.data, "lists"), 0);
    assert_int_equal((int)number(list, 1), 7);
    assert_true(json_is_true(json_array_get(list, 2)));
    json_t *kernels = json_object_get(json_array_get(json_object_get(h.data, "funcs"), 0), "kernels");
    int products = 0;
    size_t i;
    json_t *row;
    json_array_foreach(kernels, i, row) {
        if (strcmp(json_string_value(json_array_get(row, 8)), "5x16")) continue;
        /* 32 rows of 16 sums over 5 inputs, then bias and relu */
        assert_int_equal((int)number(row, 4), 32 * (2 * 5 * 16 + 2 * 16));
        /* x, kernel, bias, result */
        assert_int_equal((int)number(row, 5), 4 * (32 * 5 + 5 * 16 + 16 + 32 * 16));
        products++;
    }
    assert_int_equal(products, 1);
    json_t *w = json_array_get(json_object_get(h.data, "weights"), 0);
    assert_string_equal(json_string_value(json_array_get(w, 1)), "100×4");
    assert_string_equal(json_string_value(json_array_get(w, 2)), "sparse table");
    assert_int_equal((int)number(w, 5), 1600); /* adam keeps two numbers for each */
    assert_int_equal((int)number(w, 6), 3200);
    html_free(&h);
}

int main(void) {
    unsetenv("XDG_CACHE_HOME"); /* no measuring, and no file in anyone's home */
    unsetenv("HOME");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asks_for_nothing), cmocka_unit_test(test_no_text_ends_the_data),
        cmocka_unit_test(test_data), cmocka_unit_test(test_work), cmocka_unit_test(test_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
