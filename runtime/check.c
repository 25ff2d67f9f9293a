/* The command `check`, and train's --validate-first. */
#include <string.h>
#include "runtime/check.h"

/* Whether training with the same options would come through: it stops at a bad row unless they are skipped.
 */
static int verdict(const RtDataCheck *k) {
    const RtArgs *a = k->a;
    if (!k->rows) return RT_EXIT_FAILED;
    if (!a->on_bad_row) return k->bad_rows ? RT_EXIT_FAILED : RT_EXIT_OK;
    if (a->max_bad_rows < 0 || k->bad_rows <= (uint64_t)a->max_bad_rows) return RT_EXIT_OK;
    return rt_fail(RT_EXIT_FAILED, "more than %lld bad row%s (--max-bad-rows)", (long long)a->max_bad_rows,
                   a->max_bad_rows == 1 ? "" : "s");
}

int rt_check_data(const RtModel *m, const RtArgs *a) {
    RtDataCheck k = {.m = m, .a = a};
    int code = rt_check_read(&k, 0);
    if (code == RT_EXIT_OK) {
        rt_check_warn(&k);
        code = rt_check_print(&k);
    }
    if (code == RT_EXIT_OK) code = verdict(&k);
    rt_check_free(&k);
    return code;
}

/* What the first rows say about those to come. */
static bool holds_for_all(const char *kind) {
    static const char *const kinds[] = {"label missing", "constant label", "leak",     "empty",
                                        "constant",      "unscaled",       "bad rows", "unknown values"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kind, kinds[i])) return true;
    return false;
}

static int judge(const RtDataCheck *k) {
    unsigned long long all = k->rows + k->bad_rows;
    if (k->no_label.text[0]) return rt_fail(RT_EXIT_FAILED, "%s", k->no_label.text);
    if (k->bad_rows && !k->a->on_bad_row) return rt_fail(RT_EXIT_FAILED, "%s", k->bad[0].text);
    if (2 * k->bad_rows > all)
        return rt_fail(RT_EXIT_FAILED, "error: %llu of the first %llu rows are bad, the first: %.700s",
                       (unsigned long long)k->bad_rows, all, k->bad[0].text);
    for (size_t i = 0; i < json_array_size(k->warnings); i++) {
        const json_t *w = json_array_get(k->warnings, i);
        if (holds_for_all(json_string_value(json_object_get(w, "kind"))))
            rt_warn("the first %llu rows: %s", all, json_string_value(json_object_get(w, "text")));
    }
    return RT_EXIT_OK;
}

int rt_validate_first(const RtModel *m, const RtArgs *a) {
    RtDataCheck k = {.m = m, .a = a};
    int code = rt_check_read(&k, (uint64_t)a->validate_first);
    if (code == RT_EXIT_OK) {
        rt_check_warn(&k);
        code = judge(&k);
    }
    rt_check_free(&k);
    return code;
}
