/* Straight-line code of several independent pieces, woven: an instruction of each in turn.
 *
 * A chain such as a sigmoid's is some twenty instructions, each waiting for the one before. One such chain
 * after the other fills the core's schedulers with what waits, three or four of them at a time; woven, what
 * can run stands side by side. Nothing else changes: no piece may read what another one writes. */
#include "backend/emit.h"

EmitWeave emit_weave(Emit *e) {
    EmitWeave w = {.block = LLVMGetInsertBlock(e->b)};
    w.last = LLVMGetLastInstruction(w.block);
    return w;
}

/* The first instruction behind `last`, the last one of a piece (NULL: of none, the block was empty). */
static Val behind(const EmitWeave *w, Val last) {
    return last ? LLVMGetNextInstruction(last) : LLVMGetFirstInstruction(w->block);
}

void emit_woven(Emit *e, EmitWeave *w) {
    if (LLVMGetInsertBlock(e->b) != w->block) w->block = NULL; /* a piece with branches stays as it is */
    if (!w->block) return;
    int n = 0;
    Val first = behind(w, w->last);
    for (Val i = first; i; i = LLVMGetNextInstruction(i)) n++;
    if (!n) return;
    w->next[w->n] = first, w->left[w->n++] = n;
    w->last = LLVMGetLastInstruction(w->block);
    if (w->n == WEAVE_PIECES) emit_weave_end(e, w);
}

void emit_weave_end(Emit *e, EmitWeave *w) {
    bool some = w->block && w->n > 1;
    while (some) {
        some = false;
        for (int i = 0; i < w->n; i++) {
            if (!w->left[i]) continue;
            Val one = w->next[i];
            w->next[i] = LLVMGetNextInstruction(one), w->left[i]--;
            LLVMInstructionRemoveFromParent(one);
            LLVMPositionBuilderAtEnd(e->b, w->block);
            size_t size;
            LLVMInsertIntoBuilderWithName(e->b, one, LLVMGetValueName2(one, &size));
            some = true;
        }
    }
    w->n = 0;
    if (w->block) w->last = LLVMGetLastInstruction(w->block);
}
