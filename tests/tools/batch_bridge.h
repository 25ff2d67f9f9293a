/* From what the runtime's reader delivers to what the reference interpreter asks for.
 *
 * The bridge belongs to one program and its description; bridge_batch turns one RtBatch into an InterpBatch
 * that stays valid until the next call. Ids that the reader only delivers as positions among a table's unique
 * rows are turned back into ids, so the interpreter finds unique rows by itself. */
#ifndef CTRC_TESTS_BATCH_BRIDGE_H
#define CTRC_TESTS_BATCH_BRIDGE_H
#include "backend/backend.h"
#include "backend/interp.h"
#include "runtime/reader.h"

typedef struct Bridge Bridge;

Bridge *bridge_new(IrProgram *p, const RtModel *m);
void bridge_free(Bridge *b);
const InterpBatch *bridge_batch(Bridge *b, const RtBatch *from);

/* The description of a program after all passes, parsed as a generated program parses its own. NULL after an
 * error in p->diag. */
RtModel *bridge_model(IrProgram *p, const char *march);

#endif
