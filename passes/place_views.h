/* Which values schedule and plan-memory may let stand within others' places. */
#ifndef CTRC_PASSES_PLACE_VIEWS_H
#define CTRC_PASSES_PLACE_VIEWS_H
#include "passes/rewrite.h"

/* Narrower values keep a place of their own: loops over them run along units, in whole vectors, and that is
 * worth more than a copy. */
enum { LEAST_STRIDED = 4 };

/* Sets each node's mark: whether it may stand with other values' elements between its units, as far as all
 * that read it are concerned, also through reshapes. */
void pass_mark_strided(IrBody *body);
/* For such a mark: whether a slice, whose operand has a place or is a weight, is made a view of it. */
bool pass_views(const IrNode *slice);
/* Of nodes that a concat of the body makes room for: sets aux to the concat within whose place they are made,
 * of all others to NULL. Needs phases; changes marks. */
void pass_place_parts(IrBody *body);
/* Which of the concat's parts that is. */
int pass_part_number(const IrNode *concat, const IrNode *part);
#endif
