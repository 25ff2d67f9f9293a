/* The printer's state, shared by print.c (the head of the text), print_node.c (functions) and print_only.c.
 */
#ifndef CTRC_IR_PRINT_H
#define CTRC_IR_PRINT_H
#include "ir/internal.h"

typedef struct {
    const IrProgram *p;
    FILE *out;
    /* The source files that spans point into, in the order in which the text first names them: so the numbers
     * don't depend on what else the reading process has open. */
    DiagFile *files;
    int n_files, cap_files;
} IrPrinter;

void ir_printer_init(IrPrinter *pr, const IrProgram *p, FILE *out);
void ir_put_span(IrPrinter *pr, Span at); /* " @31:18-31:52", nothing without a place */
void ir_put_func(IrPrinter *pr, const IrFunc *f);
void ir_put_func_head(IrPrinter *pr, const IrFunc *f); /* "func train fixed=4096 {" */
void ir_put_node(IrPrinter *pr, const IrNode *n, int indent);

#endif
