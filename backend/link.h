/* What linking an executable and a library share. */
#ifndef CTRC_BACKEND_LINK_H
#define CTRC_BACKEND_LINK_H
#include "backend/backend.h"

/* An empty file beside `to`, named TO.XXXXXX and the suffix; its path, or NULL and an error. */
char *link_temporary(IrProgram *p, const char *to, const char *suffix);
/* Gives it the wanted name and, as far as the umask lets it, the mode. */
bool link_publish(IrProgram *p, const char *from, const char *to, unsigned mode);
/* Joins objects with the runtime library `lib` by `cc`; more: further arguments, ended by NULL. */
bool link_run(IrProgram *p, char *const *object, int n_objects, const char *lib, const char *const *more,
              const char *to);
/* The program's objects, linked by `cc`; more: further arguments (oneDNN's library among
 * them where it is wanted), ended by NULL. `to` appears whole or not at
 * all. */
bool link_program(IrProgram *p, const char *march, int level, const char *lib_dir, const char *const *more,
                  const char *to);

#endif
