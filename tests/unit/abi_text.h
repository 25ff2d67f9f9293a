/* The runtime interface's number as text, for descriptions written by hand. */
#ifndef CTRC_ABI_TEXT_H
#define CTRC_ABI_TEXT_H
#include "runtime/abi.h"

#define ABI_TEXT_OF(n) #n
#define ABI_TEXT_MADE(n) ABI_TEXT_OF(n)
#define ABI_TEXT ABI_TEXT_MADE(RT_ABI_VERSION)

#endif
