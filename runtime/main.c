/* main() of a generated program. In a file of its own: it alone refers to ctrc_model, which the generated
 * object defines, so that tests may link the runtime without one. */
#include "runtime/program.h"

int main(int argc, char **argv) { return rt_main(&ctrc_model, argc, argv); }
