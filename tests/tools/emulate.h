/* Code made for CPUs with products of bfloat16, run on others: each of their instructions becomes a function.
 * Those of AVX512-BF16 do what the backend does on CPUs that lack them; those of AMX are C (amx_state.c), and
 * stop the test where the CPU would: a tile that isn't configured, shapes that don't fit. */
#ifndef CTRC_TESTS_EMULATE_H
#define CTRC_TESTS_EMULATE_H
#include <stdbool.h>
#include <stdint.h>

struct Emit;
struct LLVMOpaqueModule;
/* In a whole module. AVX512-BF16 is left alone where the CPU has it. e: module, context, builder, types. */
void emulate(struct Emit *e);
/* The same in a module that was made by others, such as LLVM's text of a program. */
void emulate_module(struct LLVMOpaqueModule *mod);

/* The C functions, by the names of LLVM's intrinsics behind "llvm.x86.". A thread has tiles of its own. */
void amx_ldtilecfg(const void *from);
void amx_tilerelease(void);
void amx_tilezero(uint8_t tile);
void amx_tileloadd64(uint8_t tile, const void *from, int64_t row_bytes);
void amx_tilestored64(uint8_t tile, void *to, int64_t row_bytes);
void amx_tdpbf16ps(uint8_t c, uint8_t a, uint8_t b);
bool amx_is_released(void);
int64_t amx_products(void); /* tdpbf16ps so far, in all threads */

#endif
