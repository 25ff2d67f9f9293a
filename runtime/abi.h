/* C view of abi.def: the structs and functions that generated code and the runtime share. */
#ifndef CTRC_RUNTIME_ABI_H
#define CTRC_RUNTIME_ABI_H
#include <stdint.h>
#include "runtime/abi.def"

typedef void *rt_ptr;
typedef uint8_t rt_u8;
typedef uint32_t rt_u32;
typedef int32_t rt_i32;
typedef uint64_t rt_u64;
typedef float rt_f32;
#define RT_FIELD_(type, name) rt_##type name;
typedef struct RtStep { RT_STRUCT_STEP(RT_FIELD_) } RtStep;
typedef struct RtTableBatch { RT_STRUCT_TABLE_BATCH(RT_FIELD_) } RtTableBatch;
typedef struct RtOptStep { RT_STRUCT_OPT_STEP(RT_FIELD_) } RtOptStep;
typedef struct RtProgram { RT_STRUCT_MODEL(RT_FIELD_) } RtProgram;
typedef struct RtBlob { RT_STRUCT_BLOB(RT_FIELD_) } RtBlob;
#undef RT_FIELD_
typedef void (*RtStepFn)(RtStep *step, uint32_t thread, uint32_t threads);

#define RT_NO_ID 0xffffffffu /* in id inputs and lookups: no value here */

/* Prototypes, spelled by hand types through the table's names. */
#define ptr rt_ptr
#define u32 rt_u32
#define u64 rt_u64
#define f32 rt_f32
#define RT_FN_(result, name, args) result name args;
RT_FUNCTIONS(RT_FN_)
#undef RT_FN_
#undef ptr
#undef u32
#undef u64
#undef f32

extern const RtProgram ctrc_model;

#endif
