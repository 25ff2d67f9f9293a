/* The driver that --profile runs: it tells the runtime, thread by thread, when each kernel and each barrier
 * is done (rt_mark). The driver that is used otherwise knows nothing of it. */
#include "backend/emit.h"

/* What the thread has just done: a node, by its number, or RT_MARK_…. */
void emit_mark(Emit *e, int64_t what) {
    emit_call(e, "rt_mark", (Val[]){e->step, LLVMGetParam(e->fn, 1), emit_i32(e, what)}, 3);
}

/* At the start of the driver that is used: hands over to the one that the step asks for, if it asks. */
void emit_hand_over(Emit *e, Val checked, Val marked) {
    Val args[] = {e->step, LLVMGetParam(e->fn, 1), LLVMGetParam(e->fn, 2)}, check = emit_step(e, STEP_check);
    EmitIf asked = emit_if(e, emit_icmp(e, LLVMIntNE, check, emit_i32(e, RT_CHECK_NONE)));
    EmitIf to_mark = emit_if(e, emit_icmp(e, LLVMIntEQ, check, emit_i32(e, RT_CHECK_MARK)));
    LLVMBuildCall2(e->b, LLVMGlobalGetValueType(marked), marked, args, 3, "");
    emit_else(e, &to_mark);
    LLVMBuildCall2(e->b, LLVMGlobalGetValueType(checked), checked, args, 3, "");
    emit_fi(e, &to_mark);
    LLVMBuildRetVoid(e->b);
    LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->cx, e->fn, ""));
    emit_fi(e, &asked);
}
