/* A vocabulary as a hash table, made from the values baked into the program. */
#ifndef CTRC_RUNTIME_VOCAB_TABLE_H
#define CTRC_RUNTIME_VOCAB_TABLE_H
#include <stddef.h>
#include <stdint.h>

typedef struct RtVocabTable RtVocabTable;
/* text: the values one after another, each with its '\n', at most 4 GB; n: how many. Of equal values the first
 * counts. Refers to text. */
RtVocabTable *rt_vocab_table_new(const char *text, uint64_t bytes, uint64_t n);
void rt_vocab_table_free(RtVocabTable *t);
/* The same of a text behind which 16 bytes can be read. */
uint32_t rt_vocab_find_near(const RtVocabTable *t, const char *p, size_t bytes);
uint32_t rt_vocab_find(const RtVocabTable *t, const char *p, size_t bytes); /* RT_NO_ID: not in it */

#endif
