/* Pieces of IR text: numbers, quoted strings, names, types. The reader's counterparts are in lex.c. */
#include "ir/internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *ir_double_text(double v, char buf[32]) {
    if (isnan(v)) return strcpy(buf, "nan");
    if (isinf(v)) return strcpy(buf, v > 0 ? "inf" : "-inf");
    if (fabs(v) < 1e15 && v == floor(v)) { /* 1000, not 1e+03 */
        snprintf(buf, 32, "%.0f", v);
        return buf;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, 32, "%.*g", digits, v);
        if (strtod(buf, NULL) == v) break;
    }
    return buf;
}

void ir_put_string(FILE *out, const char *s, size_t n) {
    fputc('"', out);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", out);
        else if (c == '\t')
            fputs("\\t", out);
        else if (c == '\r')
            fputs("\\r", out);
        else if (c < 0x20 || c >= 0x7f)
            fprintf(out, "\\x%02x", c); /* so IR text is ASCII, whatever a name holds */
        else
            fputc(c, out);
    }
    fputc('"', out);
}

bool ir_bare_name(const char *s) {
    bool letter = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_';
    if (!letter) return false;
    for (; *s; s++) {
        bool fits = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
                    *s == '_' || *s == '.';
        if (!fits) return false;
    }
    return true;
}

void ir_put_name(FILE *out, const char *s) {
    if (!s)
        fputs("?", out);
    else if (ir_bare_name(s))
        fputs(s, out);
    else
        ir_put_string(out, s, strlen(s));
}

/* A reference by name. An index that is out of range (only in a program that the verifier would refuse) is
 * printed as ?N, which the reader doesn't accept. */
void ir_put_axis(const IrProgram *p, FILE *out, int64_t axis) {
    if (axis >= 0 && axis < p->n_axes)
        ir_put_name(out, p->axes[axis].name);
    else
        fprintf(out, "?%lld", (long long)axis);
}

void ir_put_weight(const IrProgram *p, FILE *out, int64_t weight) {
    if (weight >= 0 && weight < p->n_weights)
        ir_put_name(out, p->weights[weight].name);
    else
        fprintf(out, "?%lld", (long long)weight);
}

void ir_put_column(const IrProgram *p, FILE *out, int64_t column) {
    if (column >= 0 && column < p->input.n_columns)
        ir_put_name(out, p->input.columns[column].name);
    else
        fprintf(out, "?%lld", (long long)column);
}

static void put_shape(const IrProgram *p, IrType t, FILE *out) {
    fputc('[', out);
    if (t.live == LIVE_POS) fputc('~', out), ir_put_axis(p, out, t.axis);
    if (t.live == LIVE_UNIQ) fputc('@', out), ir_put_weight(p, out, t.axis);
    for (int i = 0; i < t.rank; i++)
        fprintf(out, "%s%lld", i || t.live >= LIVE_POS ? "," : "", (long long)t.dim[i]);
    fputc(']', out);
}

void ir_print_type(const IrProgram *p, IrType t, FILE *out) {
    static const char *const elems[] = {"f32", "id", "str", "int", "key", "none"};
    if (t.elem == TY_NONE) {
        fputs("none", out);
        return;
    }
    if (t.live == LIVE_ALWAYS) fputs("always ", out);
    if (t.live == LIVE_STEP) fputs("step ", out);
    fputs(elems[t.elem], out);
    if (t.elem == TY_ID) fprintf(out, "<%lld>", (long long)t.bound);
    if (t.elem == TY_F32 || t.live >= LIVE_POS) put_shape(p, t, out);
}
