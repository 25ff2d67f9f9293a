/* Pieces of straight-line code, woven: whose instruction comes when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <string.h>
#include "backend/emit.h"

typedef struct {
    Emit e;
    LLVMContextRef ctx;
    LLVMModuleRef mod;
    Val f;
} Here;

static Here open_here(void) {
    Here h = {.ctx = LLVMContextCreate()};
    h.mod = LLVMModuleCreateWithNameInContext("woven", h.ctx);
    h.e.b = LLVMCreateBuilderInContext(h.ctx);
    LLVMTypeRef i32 = LLVMInt32TypeInContext(h.ctx);
    h.f = LLVMAddFunction(h.mod, "f", LLVMFunctionType(i32, &i32, 1, 0));
    LLVMPositionBuilderAtEnd(h.e.b, LLVMAppendBasicBlockInContext(h.ctx, h.f, "entry"));
    return h;
}
static void close_here(Here *h) {
    LLVMDisposeBuilder(h->e.b);
    LLVMDisposeModule(h->mod);
    LLVMContextDispose(h->ctx);
}

/* n additions, each to the one before, named by the piece's letter */
static Val piece(Here *h, char letter, int n) {
    char name[] = {letter, 0};
    Val x = LLVMGetParam(h->f, 0);
    for (int i = 0; i < n; i++) x = LLVMBuildAdd(h->e.b, x, x, name);
    return x;
}

/* The letters of the block's instructions, in order. */
static void expect_order(Here *h, LLVMBasicBlockRef block, const char *want) {
    char got[64] = "", *to = got;
    for (Val i = LLVMGetFirstInstruction(block); i && to < got + 63; i = LLVMGetNextInstruction(i)) {
        size_t size;
        const char *name = LLVMGetValueName2(i, &size);
        if (size) *to++ = name[0], *to = 0;
    }
    assert_string_equal(got, want);
    LLVMBuildRet(h->e.b, LLVMGetParam(h->f, 0));
    /* every operand stands before its use */
    if (LLVMVerifyFunction(h->f, LLVMReturnStatusAction))
        fail_msg("an operand does not stand before its use");
}

static void weave(Here *h, const char *letters, const int *n) {
    EmitWeave w = emit_weave(&h->e);
    for (int i = 0; letters[i]; i++) piece(h, letters[i], n[i]), emit_woven(&h->e, &w);
    emit_weave_end(&h->e, &w);
}

static void test_in_turn(void **s) {
    (void)s;
    Here h = open_here();
    weave(&h, "abc", (int[]){3, 3, 3});
    expect_order(&h, LLVMGetInsertBlock(h.e.b), "abcabcabc");
    close_here(&h);
}

static void test_lengths_differ(void **s) {
    (void)s;
    Here h = open_here();
    piece(&h, 'x', 2); /* what stood there stays first */
    weave(&h, "abcd", (int[]){1, 4, 0, 2});
    piece(&h, 'y', 1);
    expect_order(&h, LLVMGetInsertBlock(h.e.b), "xxabdbdbby");
    close_here(&h);
}

/* WEAVE_PIECES at a time, so that they don't run out of registers */
static void test_many(void **s) {
    (void)s;
    assert_int_equal(WEAVE_PIECES, 6);
    Here h = open_here();
    weave(&h, "abcdefgh", (int[]){2, 2, 2, 2, 2, 2, 2, 2});
    expect_order(&h, LLVMGetInsertBlock(h.e.b), "abcdefabcdefghgh");
    close_here(&h);
}

/* A piece that ends in another block: that one and those behind it stay as they are. */
static void test_branch(void **s) {
    (void)s;
    Here h = open_here();
    EmitWeave w = emit_weave(&h.e);
    piece(&h, 'a', 2), emit_woven(&h.e, &w);
    piece(&h, 'b', 2);
    LLVMBasicBlockRef entry = LLVMGetInsertBlock(h.e.b), next = LLVMAppendBasicBlockInContext(h.ctx, h.f, "");
    LLVMBuildBr(h.e.b, next);
    LLVMPositionBuilderAtEnd(h.e.b, next);
    piece(&h, 'b', 1), emit_woven(&h.e, &w);
    piece(&h, 'c', 1), emit_woven(&h.e, &w);
    emit_weave_end(&h.e, &w);
    expect_order(&h, entry, "aabb");
    close_here(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_in_turn), cmocka_unit_test(test_lengths_differ),
                                       cmocka_unit_test(test_many), cmocka_unit_test(test_branch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
