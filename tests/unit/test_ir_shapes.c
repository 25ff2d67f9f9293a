/* Shape rules: for each op of the table lines that are right and lines that are wrong, with the whole
 * message. A line is read as IR text below a list of values of every kind, so the reader's own inference is
 * what runs. */
#include "test_ir_fixture.h"

static const char head[] = "ctrc-ir 1\n"
                           "axis h list max=8\n"
                           "axis g list\n"
                           "axis h3 first parent=h max=3\n"
                           "axis gk filter parent=g\n"
                           "axis h_more append parent=h max=9\n"
                           "axis g_more append parent=g\n"
                           "axis gk_more append parent=gk\n"
                           "axis h3_more append parent=h3 max=4\n"
                           "input csv separator=\",\"\n"
                           "column s string\n"
                           "column i int\n"
                           "column x float\n"
                           "column y label\n"
                           "column hs string list=\";\" axis=h\n"
                           "column g string list=\";\" axis=g\n"
                           "column hi int list=\";\" axis=h\n"
                           "column hx float list=\";\" axis=h\n"
                           "vocab 0 values=[\"a\", \"b\", \"c\"]\n"
                           "optimizer 0 sgd lr=0.1\n"
                           "weight t [10,4] zeros trainable table lazy optimizer=0\n"
                           "weight u [10,4] zeros trainable table lazy optimizer=0\n"
                           "weight w [4,5] zeros trainable optimizer=0\n"
                           "weight v [4] zeros trainable optimizer=0\n"
                           "weight fixed [4] zeros\n"
                           "weight var [4] ones running\n"
                           "weight var5 [5] ones running\n"
                           "train batch=64\n";

static const char values[] = "  %0 = column {col=s} : str\n"
                             "  %1 = column {col=i} : int\n"
                             "  %2 = column {col=x} : f32[1]\n"
                             "  %3 = column {col=y} : f32[1]\n"
                             "  %4 = column {col=hs} : str[~h]\n"
                             "  %5 = column {col=g} : str[~g]\n"
                             "  %6 = column {col=hi} : int[~h]\n"
                             "  %7 = column {col=hx} : f32[~h,1]\n"
                             "  %8 = hash %0 {buckets=10, fn=\"xxh3\"} : id<10>\n"
                             "  %9 = hash %4 {buckets=10, fn=\"xxh3\"} : id<10>[~h]\n"
                             "  %10 = hash %5 {buckets=11, fn=\"xxh3\"} : id<11>[~g]\n"
                             "  %11 = weight {w=t} : always f32[10,4]\n"
                             "  %12 = weight {w=w} : always f32[4,5]\n"
                             "  %13 = weight {w=v} : always f32[4]\n"
                             "  %14 = embed %8, %11 : f32[4]\n"
                             "  %15 = embed %9, %11 : f32[~h,4]\n"
                             "  %16 = onehot %10 : f32[~g,11]\n"
                             "  %17 = fetch %8 {w=t} : f32[@t,4]\n"
                             "  %18 = inv_rows : step f32[1]\n"
                             "  %19 = reshape %14 {shape=[2, 2]} : f32[2,2]\n"
                             "  %20 = key %0 : key\n"
                             "  %21 = bn_stats %14 : step f32[2,4]\n"
                             "  %22 = pad %14 {axis=0, before=0, after=1} : f32[5]\n"
                             "  %23 = fetch %8 {w=u} : f32[@u,4]\n"
                             "  %24 = reshape %16 {shape=[11, 1]} : f32[~g,11,1]\n"
                             "  %25 = matmul_grad_w %14, %22 : step f32[4,5]\n"
                             "  %26 = sum_rows %14 : step f32[4]\n"
                             "  %27 = const {value=[0], shape=[10, 4]} : always f32[10,4]\n"
                             "  %28 = slice %16 {axis=0, begin=0, end=1} : f32[~g,1]\n"
                             "  %29 = reshape %12 {shape=[2, 2, 5]} : always f32[2,2,5]\n"
                             "  %30 = reshape %15 {shape=[2, 2]} : f32[~h,2,2]\n"
                             "  %31 = predict %2 {name=\"p\"} : none\n"
                             "  %32 = append %15, %14 {axis=h_more} : f32[~h_more,4]\n"
                             "  %33 = slice %12 {axis=0, begin=0, end=2} : always f32[2,5]\n"
                             "  %34 = slice %33 {axis=1, begin=0, end=4} : always f32[2,4]\n"
                             "  %35 = slice %33 {axis=1, begin=0, end=2} : always f32[2,2]\n"
                             "  %36 = pad %15 {axis=0, before=1, after=1} : f32[~h,6]\n"
                             "  %37 = gru %36, %34, %35 : f32[~h,8]\n"
                             "  %38 = slice %15 {axis=0, begin=0, end=2} : f32[~h,2]\n"
                             "  %39 = block_sums %14 {rows=64} : step f32[1,4]\n"
                             "  %40 = bn_block_stats %14 {rows=64} : step f32[1,2,4]\n"
                             "  %41 = fused %14 {kind=\"chain\"} : f32[4] {\n"
                             "    %42 = arg {index=0} : f32[4]\n"
                             "    %43 = relu %42 : f32[4]\n"
                             "    %44 = out %43 {index=1} : none\n"
                             "    %45 = neg %43 : f32[4]\n"
                             "  }\n";

typedef struct {
    const char *line;  /* without "%99 = " */
    const char *error; /* NULL: right; else what stands after "error: " */
} Case;

static const Case cases[] = {
    /* sources */
    {"const {value=[1], shape=[2, 3]} : always f32[2,3]", NULL},
    {"const {value=[1, 2, 3], shape=[3]} : always f32[3]", NULL},
    {"const {value=[1, 2], shape=[3]} : always f32[3]", "const: expected 1 value or 3, found 2"},
    {"const {value=[1], shape=[]} : always f32[1]", "const: expected 1 to 6 dimensions, found 0"},
    {"const {value=[1], shape=[3, 0]} : always f32[3,1]", "const: expected sizes of at least 1, found 0"},
    {"const {value=[1], shape=[1099511627777]} : always f32[1]", "const: a value of more than 2^40 elements"},
    {"const {value=[1]} : always f32[1]", "const: missing attribute 'shape'"},
    {"weight {w=w} : always f32[4,5]", NULL},
    {"weight {w=ww} : always f32[4,5]", "expected a weight, found 'ww'"},
    {"column {col=hx} : f32[~h,1]", NULL},
    {"column {col=hi} : f32[~h,1]", "expected type int[~h] of column, found f32[~h,1]"},
    {"column %0 {col=s} : str", "column: expected 0 operands, found 1"},
    {"inv_rows : step f32[1]", NULL},
    {"inv_rows : f32[1]", "expected type step f32[1] of inv_rows, found f32[1]"},
    {"seg_len {axis=h3} : f32[1]", NULL},
    {"seg_len {axis=k} : f32[1]", "expected a list axis, found 'k'"},

    /* reader stage */
    {"number %1 : f32[1]", NULL},
    {"number %6 : f32[~h,1]", NULL},
    {"number %0 : f32[1]", "number: expected an int column, found str"},
    {"hash %6 {buckets=5, fn=\"farm64\"} : id<5>[~h]", NULL},
    {"hash %2 {buckets=5, fn=\"xxh3\"} : id<5>", "hash: expected a string or int column, found f32[1]"},
    {"hash %0 {buckets=0, fn=\"xxh3\"} : id<1>", "hash: expected 1 to 4294967295 buckets, found 0"},
    {"hash %0 {buckets=5, fn=\"md5\"} : id<5>", "hash: expected fn xxh3 or farm64, found 'md5'"},
    {"vocab %0 {vocab=0, unknown=-1} : id<3>", NULL},
    {"vocab %0 {vocab=0, unknown=3} : id<4>", NULL},
    {"vocab %4 {vocab=0, unknown=0} : id<3>[~h]", NULL},
    {"vocab %5 {vocab=0, unknown=-1, axis=gk} : id<3>[~gk]", NULL},
    {"vocab %5 {vocab=0, unknown=-1} : id<3>[~g]",
     "vocab: a list whose unknown values are left out needs the filtered axis"},
    {"vocab %4 {vocab=0, unknown=-1, axis=gk} : id<3>[~gk]",
     "vocab: expected an axis filtered from 'h', found 'gk'"},
    {"vocab %5 {vocab=0, unknown=1, axis=gk} : id<3>[~gk]",
     "vocab: expected no axis: only a list whose unknown values are left out gets one"},
    {"vocab %0 {vocab=0, unknown=4} : id<4>",
     "vocab: expected an index from 0 to 3 (or -1) for unknown values, found 4"},
    {"vocab %2 {vocab=0, unknown=0} : id<3>", "vocab: expected a string or int column, found f32[1]"},
    {"vocab %0 {vocab=1, unknown=0} : id<3>", "expected a whole number from 0 to 0, found 1"},
    {"bucketize %2 {bounds=[0, 1]} : id<3>", NULL},
    {"bucketize %6 {bounds=[]} : id<1>[~h]", NULL},
    {"bucketize %2 {bounds=[1, 1]} : id<3>", "bucketize: expected rising bounds, found 1 after 1"},
    {"bucketize %2 {bounds=[nan]} : id<2>", "bucketize: expected finite bounds, found nan"},
    {"bucketize %14 {bounds=[1]} : id<2>", "bucketize: expected f32[1], found f32[4]"},
    {"bucketize %13 {bounds=[1]} : id<2>",
     "bucketize: expected a value a row or position, found always f32[4]"},
    {"identity %1 {n=7} : id<7>", NULL},
    {"identity %2 {n=7} : id<7>", "identity: expected an int column, found f32[1]"},
    {"identity %1 {n=-1} : id<7>", "identity: expected 1 to 4294967295 ids, found -1"},
    {"offset %8 {by=5, n=15} : id<15>", NULL},
    {"offset %9 {by=0, n=10} : id<10>[~h]", NULL},
    {"offset %1 {by=5, n=15} : id<15>", "offset: expected an id, found int"},
    {"offset %8 {by=-9, n=3} : id<3>", NULL},
    {"offset %8 {by=15, n=15} : id<15>", "offset: expected ids of id<10> moved by -9 to 14, found 15"},
    {"offset %8 {by=-10, n=15} : id<15>", "offset: expected ids of id<10> moved by -9 to 14, found -10"},
    {"offset %8 {by=0, n=0} : id<1>", "offset: expected 1 to 4294967295 ids, found 0"},
    {"cross %0, %8, %9 {buckets=9} : id<9>[~h]", NULL},
    {"cross %0, %1 {buckets=9} : id<9>", NULL},
    {"cross %0 {buckets=9} : id<9>", "cross: expected at least 2 operands, found 1"},
    {"cross %0, %2 {buckets=9} : id<9>",
     "cross: part 2: expected a string or int column or an id, found f32[1]"},
    {"cross %4, %9 {buckets=9} : id<9>[~h]",
     "cross: expected at most one part that is a list, found parts 1 and 2"},
    {"truncate %9 {axis=h3} : id<10>[~h3]", NULL},
    {"truncate %7 {axis=h3} : f32[~h3,1]", NULL},
    {"truncate %9 {axis=gk} : id<10>[~gk]",
     "truncate: expected the first or last of axis 'h', found axis 'gk'"},
    {"truncate %0 {axis=h3} : str[~h3]", "truncate: expected a list, found str"},
    {"positions %4 {axis=h} : id<8>[~h]", NULL},
    {"positions %6 {axis=h3} : id<3>[~h3]", NULL},
    {"positions %9 {axis=h3_more} : id<4>[~h3_more]", NULL},
    {"positions %7 {axis=h} : id<9>[~h]", "expected type id<8>[~h] of positions, found id<9>[~h]"},
    {"positions %5 {axis=g} : id<9>[~g]", "positions: expected an axis with a max, found axis 'g'"},
    {"positions %5 {axis=gk_more} : id<9>[~gk_more]",
     "positions: expected axis 'g' or one truncated or appended from it, found axis 'gk_more'"},
    {"positions %4 {axis=g} : id<9>[~g]",
     "positions: expected axis 'h' or one truncated or appended from it, found axis 'g'"},
    {"positions %0 {axis=h} : id<8>[~h]", "positions: expected a list, found str"},
    {"key %1 : key", NULL},
    {"key %4 : key", "key: expected a string or int column that is no list, found str[~h]"},

    /* table rows */
    {"onehot %9 : f32[~h,10]", NULL},
    {"onehot %1 : f32[10]", "onehot: operand 1: expected an id, found int"},
    {"embed %9, %11 : f32[~h,4]", NULL},
    {"embed %9, %17 : f32[~h,4]", NULL},
    {"embed %9, %27 : f32[~h,4]", NULL},
    {"embed %10, %11 : f32[~g,4]", "embed: expected ids below the table's 10 rows, found id<11>[~g]"},
    {"embed %10, %17 : f32[~g,4]", "embed: expected ids below the table's 10 rows, found id<11>[~g]"},
    {"embed %8, %13 : f32[4]",
     "embed: operand 2: expected a table of at least 2 dimensions, found always f32[4]"},
    {"embed %8, %19 : f32[2]", "embed: operand 2: expected a table of at least 2 dimensions, found f32[2,2]"},
    {"embed_pool %9, %17 {kind=\"sum\"} : f32[4]", NULL},
    {"embed_pool %8, %11 {kind=\"sum\"} : f32[4]",
     "embed_pool: operand 1: expected ids of a list, found id<10>"},
    {"embed_pool %9, %11 {kind=\"max\"} : f32[4]", "embed_pool: expected kind sum or mean, found 'max'"},
    {"fetch %8, %9 {w=t} : f32[@t,4]", NULL},
    {"fetch %10 {w=t} : f32[@t,4]", "fetch: expected ids below the table's 10 rows, found id<11>[~g]"},
    {"fetch %8 {w=v} : f32[@v,4]", "fetch: expected a table of at least 2 dimensions, found 'v' of 1"},
    {"dense_grad %8, %14, %9, %14, %9, %15 {w=t, kinds=[0, 2, 0]} : step f32[10,4]", NULL},
    {"dense_grad %8, %26 {w=t, kinds=[0]} : step f32[10,4]", NULL},
    {"dense_grad %8, %14 {w=t, kinds=[1]} : step f32[10,4]",
     "dense_grad: operand 1: expected ids of a list for a pooled gradient, found id<10>"},
    {"dense_grad %8, %14, %9 {w=t, kinds=[0]} : step f32[10,4]",
     "dense_grad: expected pairs of id and gradient, found 3 operands"},
    {"dense_grad %8, %22 {w=t, kinds=[0]} : step f32[10,4]",
     "dense_grad: operand 2: expected f32[4], found f32[5]"},
    {"dense_grad %8, %14 {w=t, kinds=[0, 0]} : step f32[10,4]",
     "dense_grad: expected 1 kinds, one a pair, found 2"},
    {"dense_grad %8, %14 {w=t, kinds=[3]} : step f32[10,4]", "dense_grad: expected kind 0, 1 or 2, found 3"},
    {"row_grad %9, %14 {w=t, kinds=[1]} : f32[@t,4]", NULL},
    {"row_grad %8, %15 {w=t, kinds=[0]} : f32[@t,4]",
     "row_grad: operand 2: expected a gradient a row, found f32[~h,4]"},

    /* elementwise: one rule; each op has a right line below, in test_elementwise */
    {"add %14, %13 : f32[4]", NULL},
    {"add %15, %14 : f32[~h,4]", NULL},
    {"add %15, %2 : f32[~h,4]", NULL},
    {"add %19, %2 : f32[2,2]", NULL},
    {"add %17, %13 : f32[@t,4]", NULL},
    {"add %18, %13 : step f32[4]", NULL},
    {"add %24, %28 : f32[~g,11,1]", NULL},
    {"add %14, %22 : f32[4]",
     "add: shapes don't match: expected equal sizes (or 1), found 4 and 5 in f32[4] and f32[5]"},
    {"add %14, %0 : f32[4]", "add: operand 2: expected f32, found str"},
    {"relu %8 : f32[1]", "relu: expected f32, found id<10>"},
    {"add %7, %28 : f32[~h,1]", "add: expected values along one list, found one along list column 'hs' (axis "
                                "'h') and one along list column 'g'"},
    {"add %17, %14 : f32[@t,4]",
     "add: a value a unique row of a table (f32[@t,4]) doesn't meet one a row or position (f32[4])"},
    {"add %15, %17 : f32[@t,4]",
     "add: a value a unique row of a table (f32[@t,4]) doesn't meet one a row or position (f32[~h,4])"},
    {"add %17, %23 : f32[@t,4]", "add: expected unique rows of one table, found f32[@t,4] and f32[@u,4]"},
    {"add %14 : f32[4]", "add: expected 2 operands, found 1"},
    {"add %14, %14 {x=1} : f32[4]", "expected no attributes of add, found 'x'"},
    {"add %14, %14 : step f32[4]", "expected type f32[4] of add, found step f32[4]"},
    {"dropout %14 {rate=1, key=0} : f32[4]", "dropout: expected a rate of at least 0 and below 1, found 1"},
    {"clip %14 {lo=1, hi=0} : f32[4]", "clip: expected lo <= hi, found 1 and 0"},
    {"clip %14 {lo=1} : f32[4]", "clip: missing attribute 'hi'"},

    /* movement */
    {"concat %14, %13, %2, %18 {axis=0} : f32[10]", NULL},
    {"concat %15, %14 {axis=0} : f32[~h,8]", NULL},
    {"concat %14, %19 {axis=0} : f32[8]",
     "concat: part 2: expected the sizes of f32[4] but for axis 0, found f32[2,2]"},
    {"concat %14, %14 {axis=1} : f32[8]", "concat: expected an axis from 0 to 0, found 1"},
    {"concat %7, %28 {axis=0} : f32[~h,2]", "concat: expected values along one list, found one along list "
                                            "column 'hs' (axis 'h') and one along list column 'g'"},
    {"slice %14 {axis=0, begin=1, end=3} : f32[2]", NULL},
    {"slice %14 {axis=0, begin=2, end=2} : f32[1]", "slice: expected a range within 0:4, found 2:2"},
    {"slice %14 {axis=0, begin=0, end=5} : f32[5]", "slice: expected a range within 0:4, found 0:5"},
    {"pad %19 {axis=1, before=1, after=2} : f32[2,5]", NULL},
    {"pad %19 {axis=1, before=-1, after=2} : f32[2,3]", "pad: expected to pad by at least 0, found -1 and 2"},
    {"reshape %15 {shape=[2, 1, 2]} : f32[~h,2,1,2]", NULL},
    {"reshape %14 {shape=[3]} : f32[3]", "reshape: expected 4 elements as in f32[4], found 3 in f32[3]"},
    {"transpose %29 {order=[2, 0, 1]} : always f32[5,2,2]", NULL},
    {"transpose %19 {order=[0, 0]} : f32[2,2]", "transpose: expected each axis from 0 to 1 once, found 0"},
    {"transpose %19 {order=[0]} : f32[2,2]", "transpose: expected an order of 2 axes, found 1"},
    {"gather %14 {axis=0, indices=[3, 3, 0, 1, 2]} : f32[5]", NULL},
    {"gather %14 {axis=0, indices=[4]} : f32[1]", "gather: expected an index from 0 to 3, found 4"},
    {"gather %14 {axis=0, indices=[]} : f32[1]", "gather: expected at least one index, found none"},
    {"scatter_add %14 {axis=0, indices=[0, 0, 6, 1], size=7} : f32[7]", NULL},
    {"scatter_add %14 {axis=0, indices=[0], size=7} : f32[7]",
     "scatter_add: expected 4 indices, one an element, found 1"},
    {"scatter_add %14 {axis=0, indices=[0, 1, 2, 7], size=7} : f32[7]",
     "scatter_add: expected an index from 0 to 6, found 7"},
    {"broadcast %2 {shape=[3, 4]} : f32[3,4]", NULL},
    {"broadcast %14 {shape=[4], axis=h} : f32[~h,4]", NULL},
    {"broadcast %13 {shape=[2, 4], axis=g} : f32[~g,2,4]", NULL},
    {"broadcast %15 {shape=[4], axis=h} : f32[~h,4]",
     "broadcast: expected a value a row to repeat along a list, found f32[~h,4]"},
    {"broadcast %14 {shape=[8]} : f32[8]", "broadcast: expected sizes that stretch to f32[8], found f32[4]"},
    {"shift %15 {k=-2} : f32[~h,4]", NULL},
    {"shift %30 {k=1} : f32[~h,2,2]", NULL},
    {"shift %13 {k=1} : always f32[4]", "shift: expected a value along a list, found always f32[4]"},
    {"shift %15 : f32[~h,4]", "shift: missing attribute 'k'"},
    {"append %15, %14 {axis=h_more} : f32[~h_more,4]", NULL},
    {"append %30, %19 {axis=h_more} : f32[~h_more,2,2]", NULL},
    {"append %15, %13 {axis=h_more} : f32[~h_more,4]", NULL},
    {"append %15, %14 {axis=g_more} : f32[~g_more,4]",
     "append: expected an axis appended to 'h', found 'g_more'"},
    {"append %15, %14 {axis=h3} : f32[~h3,4]", "append: expected an axis appended to 'h', found 'h3'"},
    {"append %14, %14 {axis=h_more} : f32[~h_more,4]",
     "append: operand 1: expected a value along a list, found f32[4]"},
    {"append %15, %19 {axis=h_more} : f32[~h_more,4]", "append: operand 2: expected f32[4], found f32[2,2]"},
    {"append %15, %15 {axis=h_more} : f32[~h_more,4]",
     "append: operand 2: expected one value a row, found f32[~h,4]"},
    {"append_grad %32 {axis=h} : f32[~h,4]", NULL},
    {"append_grad %15 {axis=h} : f32[~h,4]", "append_grad: expected an axis appended to 'h', found 'h'"},
    {"append_grad %14 {axis=h} : f32[~h,4]", "append_grad: expected a value along a list, found f32[4]"},

    /* reductions */
    {"sum %29 {axis=1, keep=0} : always f32[2,5]", NULL},
    {"sum %29 {axis=1, keep=1} : always f32[2,1,5]", NULL},
    {"sum %14 {axis=0, keep=0} : f32[1]", NULL},
    {"sum %14 {axis=-1, keep=0} : f32[1]", "sum: expected an axis from 0 to 0, found -1"},
    {"max %15 {axis=0, keep=1} : f32[~h,1]", NULL},
    {"max %0 {axis=0, keep=1} : f32[1]", "max: expected f32, found str"},
    {"seg_sum %30 : f32[2,2]", NULL},
    {"seg_sum %14 : f32[4]", "seg_sum: expected a value along a list, found f32[4]"},
    {"seg_mean %15 : f32[4]", NULL},
    {"seg_mean %17 : f32[4]", "seg_mean: expected a value along a list, found f32[@t,4]"},
    {"seg_max %15 : f32[4]", NULL},
    {"seg_max %9 : f32[4]", "seg_max: expected f32, found id<10>[~h]"},
    {"seg_softmax %15 : f32[~h,4]", NULL},
    {"seg_softmax %14 : f32[4]", "seg_softmax: expected a value along a list, found f32[4]"},
    {"seg_softmax %9 : f32[~h,1]", "seg_softmax: expected f32, found id<10>[~h]"},
    {"seg_last %15 : f32[4]", NULL},
    {"seg_last %14 : f32[4]", "seg_last: expected a value along a list, found f32[4]"},
    {"attend %15, %15, %7 {scale=0.5} : f32[~h,1]", NULL},
    {"attend %32, %32, %32 {scale=0.5} : f32[~h_more,4]", NULL},
    {"attend %15, %7, %15 {scale=0.5} : f32[~h,4]", "attend: operand 2: expected f32[~h,4], found f32[~h,1]"},
    {"attend %14, %15, %15 {scale=0.5} : f32[~h,4]",
     "attend: operand 1: expected a value along a list, found f32[4]"},
    {"attend %15, %15, %32 {scale=0.5} : f32[~h,4]",
     "attend: expected values along one list, found one along list column 'hs' (axis 'h') and one along list "
     "column 'hs' (axis 'h_more')"},
    {"attend %15, %15, %30 {scale=0.5} : f32[~h,4]",
     "attend: operand 3: expected one dimension a position, found f32[~h,2,2]"},
    {"attend_grad %15, %15, %7, %7, %7 {scale=0.5} : f32[~h,9]", NULL},
    {"attend_grad %15, %15, %7, %15, %7 {scale=0.5} : f32[~h,9]",
     "attend_grad: operand 4: expected f32[~h,1], found f32[~h,4]"},
    {"longest {axis=h3} : step f32[1]", NULL},
    {"longest {axis=h3} : f32[1]", "expected type step f32[1] of longest, found f32[1]"},
    {"sum_rows %15 : step f32[4]", NULL},
    {"sum_rows %13 : step f32[4]", "sum_rows: expected a value a row or position, found always f32[4]"},
    {"mean_rows %19 : step f32[2,2]", NULL},
    {"mean_rows %18 : step f32[1]", "mean_rows: expected a value a row or position, found step f32[1]"},
    {"sum_sq %17 : step f32[1]", NULL},
    {"sum_sq %8 : step f32[1]", "sum_sq: expected f32, found id<10>"},
    {"softmax %19 {axis=1} : f32[2,2]", NULL},
    {"softmax %19 {axis=2} : f32[2,2]", "softmax: expected an axis from 0 to 1, found 2"},

    /* recurrent layers */
    {"gru %36, %34, %35 : f32[~h,8]", NULL},
    {"gru %22, %34, %35 : f32[~h,8]", "gru: operand 1: expected f32[6], found f32[5]"},
    {"gru %15, %34, %35 : f32[~h,8]", "gru: operand 1: expected f32[~h,6], found f32[~h,4]"},
    {"gru %36, %35, %35 : f32[~h,8]", "gru: operand 2: expected always f32[2,4], found always f32[2,2]"},
    {"gru %36, %34, %33 : f32[~h,8]", "gru: operand 2: expected always f32[5,10], found always f32[2,4]"},
    {"gru %36, %34, %19 : f32[~h,8]",
     "gru: operand 3: expected a value that lives always or a step, found f32[2,2]"},
    {"gru %36, %34, %9 : f32[~h,8]", "gru: operand 3: expected f32, found id<10>[~h]"},
    {"gru %36, %34 : f32[~h,8]", "gru: expected 3 operands, found 2"},
    {"augru %36, %34, %35, %7 : f32[~h,8]", NULL},
    {"augru %36, %34, %35, %38 : f32[~h,8]", "augru: operand 4: expected f32[~h,1], found f32[~h,2]"},
    {"augru %36, %34, %35, %2 : f32[~h,8]", "augru: operand 4: expected a value along a list, found f32[1]"},
    {"augru %36, %34, %35, %28 : f32[~h,8]",
     "augru: expected values along one list, found one along list column 'hs' (axis 'h') and one along list "
     "column 'g'"},
    {"gru_grad %37, %34, %35, %38 : f32[~h,8]", NULL},
    {"gru_grad %36, %34, %35, %38 : f32[~h,8]", "gru_grad: operand 1: expected f32[~h,8], found f32[~h,6]"},
    {"gru_grad %37, %34, %35, %15 : f32[~h,8]", "gru_grad: operand 4: expected f32[~h,2], found f32[~h,4]"},
    {"augru_grad %37, %34, %35, %7, %38 : f32[~h,8]", NULL},
    {"augru_grad %37, %34, %35, %38, %38 : f32[~h,8]",
     "augru_grad: operand 4: expected f32[~h,1], found f32[~h,2]"},
    {"augru_grad %37, %34, %35, %7, %7 : f32[~h,8]",
     "augru_grad: operand 5: expected f32[~h,2], found f32[~h,1]"},
    {"sru %15, %15 : f32[~h,4]", NULL},
    {"sru %15, %36 : f32[~h,4]", "sru: operand 2: expected f32[~h,4], found f32[~h,6]"},
    {"sru %15, %14 : f32[~h,4]", "sru: operand 2: expected a value along a list, found f32[4]"},
    {"sru %30, %30 : f32[~h,2,2]", "sru: operand 1: expected f32[~h,2], found f32[~h,2,2]"},
    {"sru %8, %15 : f32[~h,4]", "sru: operand 1: expected f32, found id<10>"},
    {"sru_grad %15, %15 : f32[~h,4]", NULL},
    {"sru_grad %15, %7 : f32[~h,4]", "sru_grad: operand 2: expected f32[~h,4], found f32[~h,1]"},

    /* products */
    {"matmul %14, %12 {ta=0, tb=0} : f32[5]", NULL},
    {"matmul %15, %12 {ta=0, tb=0} : f32[~h,5]", NULL},
    {"matmul %22, %12 {ta=0, tb=1} : f32[4]", NULL},
    {"matmul %19, %19 {ta=1, tb=0} : f32[2,2]", NULL},
    {"matmul %30, %19 {ta=0, tb=0} : f32[~h,2,2]", NULL},
    {"matmul %29, %12 {ta=0, tb=1} : always f32[2,2,4]", NULL},
    {"matmul %12, %25 {ta=1, tb=0} : step f32[5,5]", NULL},
    {"matmul %14, %12 {ta=0, tb=1} : f32[4]",
     "matmul: expected equal inner sizes, found 4 and 5 in f32[4] and always f32[4,5]"},
    {"matmul %14, %14 {ta=0, tb=0} : f32[4]",
     "matmul: operand 2: expected at least 2 dimensions, found f32[4]"},
    {"matmul %14, %19 {ta=0, tb=0} : f32[4]", "matmul: operand 1: expected at least 2 dimensions, as the "
                                              "matrix isn't shared by all rows, found f32[4]"},
    {"matmul %14, %12 {ta=1, tb=0} : f32[4]",
     "matmul: operand 1: expected 2 dimensions to swap, found f32[4]"},
    {"matmul %29, %29 {ta=0, tb=1} : always f32[2,2,2]", NULL},
    {"matmul %19, %29 {ta=0, tb=0} : f32[2,2,5]",
     "matmul: expected equal leading sizes, found f32[2,2] and always f32[2,2,5]"},
    {"matmul %14, %12 {ta=2, tb=0} : f32[4]", "expected a whole number from 0 to 1, found 2"},
    {"pack %12 {t=1} : always f32[4,5]", NULL},
    {"pack %26 {t=0} : step f32[4]", "pack: expected 2 dimensions, found step f32[4]"},
    {"pack %19 {t=0} : f32[2,2]", "pack: expected a value that lives always or a step, found f32[2,2]"},
    {"matmul_grad_w %15, %15 : step f32[4,4]", NULL},
    {"matmul_grad_w %14, %18 : step f32[4,1]", NULL},
    {"matmul_grad_w %13, %18 : step f32[4,1]",
     "matmul_grad_w: expected a value a row or position, found always f32[4] and step f32[1]"},
    {"matmul_grad_w %14, %19 : step f32[4,2]",
     "matmul_grad_w: expected equal sizes but for the last, found f32[4] and f32[2,2]"},
    {"matmul_grad_w %15, %15 {bf16=1} : step f32[4,4]", NULL},
    {"matmul_grad_w %14, %15 : step f32[4,4]", NULL},
    {"matmul_grad_w %14, %15 {bf16=1} : step f32[4,4]",
     "matmul_grad_w: bf16: expected operands that live equally often, found f32[4] and f32[~h,4]"},

    /* batch normalisation */
    {"batchnorm %15, %13, %13, %13, %13 {eps=0.001, momentum=0.99} : f32[~h,4]", NULL},
    {"batchnorm %15, %12, %13, %13, %13 {eps=0.001, momentum=0.99} : f32[~h,4]",
     "batchnorm: operand 2: expected always f32[4], found always f32[4,5]"},
    {"batchnorm %13, %13, %13, %13, %13 {eps=0.001, momentum=0.99} : always f32[4]",
     "batchnorm: operand 1: expected a value a row or position, found always f32[4]"},
    {"bn_stats %19 : step f32[2,2]", NULL},
    {"bn_stats %8 : step f32[2,2]", "bn_stats: expected f32, found id<10>"},
    {"bn_norm %14, %21, %13, %13 {eps=0.001} : f32[4]", NULL},
    {"bn_norm %14, %13, %13, %13 {eps=0.001} : f32[4]",
     "bn_norm: operand 2: expected always f32[2,4], found always f32[4]"},
    {"bn_grad_sums %14, %21, %14 {eps=0.001} : step f32[2,4]", NULL},
    {"bn_grad_sums %14, %21, %15 {eps=0.001} : step f32[2,4]",
     "bn_grad_sums: operand 3: expected f32[4], found f32[~h,4]"},
    {"bn_grad %14, %21, %13, %21, %26 {eps=0.001} : f32[4]", NULL},
    {"bn_grad %14, %21, %14, %21, %14 {eps=0.001} : f32[4]",
     "bn_grad: operand 3: expected a value that lives always or a step, found f32[4]"},

    /* sums by blocks of rows: the batch is one of 64 rows */
    {"block_sums %14 {rows=64} : step f32[1,4]", NULL},
    {"block_sums %30 {rows=10} : step f32[7,2,2]", NULL},
    {"block_sums %14 {rows=64} : step f32[2,4]",
     "expected type step f32[1,4] of block_sums, found step f32[2,4]"},
    {"block_sums %13 {rows=64} : step f32[1,4]",
     "block_sums: expected a value a row or position, found always f32[4]"},
    {"block_sums %14 {rows=0} : step f32[1,4]", "block_sums: expected at least 1 row a block, found 0"},
    {"sum_blocks %39 {rows=64} : step f32[4]", NULL},
    {"sum_blocks %21 {rows=64} : step f32[4]",
     "sum_blocks: expected step f32[1,…], a value of each block of 64 rows, found step f32[2,4]"},
    {"bn_block_stats %14 {rows=64} : step f32[1,2,4]", NULL},
    {"bn_block_stats %15 {rows=64} : step f32[1,2,4]",
     "bn_block_stats: expected f32[k] a row, found f32[~h,4]"},
    {"bn_join_stats %40 {rows=64} : step f32[2,4]", NULL},
    {"bn_join_stats %39 {rows=64} : step f32[2,4]",
     "bn_join_stats: expected two numbers a channel of each block, found step f32[1,4]"},
    {"bn_block_grad_sums %14, %21, %14 {eps=0.001, rows=64} : step f32[1,2,4]", NULL},
    {"bn_block_grad_sums %14, %26, %14 {eps=0.001, rows=64} : step f32[1,2,4]",
     "bn_block_grad_sums: operand 2: expected step f32[2,4], found step f32[4]"},

    /* updates */
    {"update %25 {w=w} : none", NULL},
    {"update %25, %18 {w=w} : none", NULL},
    {"update %26 {w=w} : none", "update: expected step f32[4,5], found step f32[4]"},
    {"update %26 {w=fixed} : none", "update: weight 'fixed' has no optimizer"},
    {"update %14 {w=v} : none", "update: expected a value that lives always or a step, found f32[4]"},
    {"update %26, %2 {w=v} : none",
     "update: operand 2: expected a value that lives always or a step, found f32[1]"},
    {"update_touched %27, %8, %9 {w=t, scaled=0} : none", NULL},
    {"update_touched %27, %18, %8 {w=t, scaled=1} : none", NULL},
    {"update_touched %27, %18 {w=t, scaled=1} : none",
     "update_touched: expected ids of the touched rows, found none"},
    {"update_touched %27, %10 {w=t, scaled=0} : none",
     "update_touched: expected ids below the table's 10 rows, found id<11>[~g]"},
    {"update_rows %17, %18 {w=t} : none", NULL},
    {"update_rows %23 {w=t} : none", "update_rows: operand 1: expected f32[@t,4], found f32[@u,4]"},
    {"bn_update %21 {mean=fixed, var=var, momentum=0.99} : none", NULL},
    {"bn_update %21 {mean=fixed, var=var5, momentum=0.99} : none",
     "bn_update: expected running mean and variance of one size, found 'fixed' and 'var5'"},
    {"bn_update %25 {mean=fixed, var=var, momentum=0.99} : none",
     "bn_update: expected step f32[2,4], found step f32[4,5]"},

    /* roots */
    {"predict %2 {name=\"q\"} : none", NULL},
    {"predict %14 {name=\"q\"} : none", "predict: expected f32[1] a row as prediction, found f32[4]"},
    {"loss %18 {name=\"l\"} : none", NULL},
    {"loss %7 {name=\"l\"} : none", "loss: expected f32[1] a row or a step as loss, found f32[~h,1]"},
    {"metric %2, %3, %2, %20 {kind=\"gauc\", name=\"p\", where=1, by=1} : none", NULL},
    {"metric %2, %3 {kind=\"auc\", name=\"p\", where=0, by=0} : none", NULL},
    {"metric %2, %3 {kind=\"f1\", name=\"p\", where=0, by=0} : none",
     "metric: expected kind auc, gauc, logloss, pcoc or accuracy, found 'f1'"},
    {"metric %2, %3 {kind=\"gauc\", name=\"p\", where=0, by=0} : none",
     "metric: expected `by` with gauc and only there"},
    {"metric %2, %3 {kind=\"auc\", name=\"p\", where=1, by=0} : none",
     "metric: expected 3 operands, found 2"},
    {"metric %2, %3, %2 {kind=\"gauc\", name=\"p\", where=0, by=1} : none",
     "metric: expected a key as `by`, found f32[1]"},
    {"metric %2, %14 {kind=\"auc\", name=\"p\", where=0, by=0} : none",
     "metric: expected f32[1] a row as label, found f32[4]"},

    /* regions */
    {"fused %14 {kind=\"chain\"} : f32[4] {\n    %100 = arg {index=0} : f32[4]\n    %101 = relu %100 : "
     "f32[4]\n  }",
     NULL},
    {"fused %14 {kind=\"chain\"} : f32[5] {\n    %100 = arg {index=0} : f32[4]\n  }",
     "expected type f32[4] of fused, found f32[5]"},
    {"fused %14 {kind=\"chain\"} : f32[4]", "fused: expected a body, found none"},
    {"fused %14 {kind=\"loop\"} : f32[4] {\n    %100 = arg {index=0} : f32[4]\n  }",
     "fused: expected kind chain, product, update, reduce or attention, found 'loop'"},
    {"fused %14 {kind=\"chain\"} : f32[5] {\n    %100 = arg {index=0} : f32[5]\n  }",
     "%100 arg in func 'train': expected the operand's type f32[4], found f32[5]"},
    {"fused %14 {kind=\"chain\"} : f32[4] {\n    %100 = arg {index=1} : f32[4]\n  }",
     "%100 arg in func 'train': expected an operand from 0 to 0, found 1"},
    {"fused %14, %7 {kind=\"reduce\"} : f32[4] {\n    %100 = arg {index=0} : f32[4]\n    %101 = arg "
     "{index=1} : "
     "f32[~h,1]\n    %102 = mul %100, %101 : f32[~h,4]\n    %103 = seg_sum %102 : f32[4]\n  }",
     NULL},
    {"fused %14 {kind=\"reduce\"} : f32[4] {\n    %100 = arg {index=0} : f32[4]\n    %101 = relu %100 : "
     "f32[4]\n  }",
     "fused: kind reduce: expected sum, max, seg_sum, seg_mean, seg_max, sum_rows or block_sums as last op, "
     "found "
     "'relu'"},
    {"fused %14 {kind=\"reduce\"} : f32[1] {\n    %100 = arg {index=0} : f32[4]\n    %101 = dropout %100 "
     "{rate=0.5, "
     "key=1} : f32[4]\n    %102 = sum %101 {axis=0, keep=0} : f32[1]\n  }",
     "fused: kind reduce: expected elementwise ops of f32[4], dropout not among them, found 'dropout' of "
     "f32[4]"},
    {"fused %14, %7 {kind=\"reduce\"} : step f32[4] {\n    %100 = arg {index=0} : f32[4]\n    %101 = arg "
     "{index=1} "
     ": f32[~h,1]\n    %102 = mul %100, %101 : f32[~h,4]\n    %103 = sum_rows %102 : step f32[4]\n  }",
     "fused: kind reduce: expected operands that stretch along f32[~h,4], what is reduced, as a whole, found "
     "operand 1 of f32[4]"},
    {"fused %14, %7 {kind=\"attention\"} : f32[4] {\n    %100 = arg {index=0} : f32[4]\n    %101 = arg "
     "{index=1} : "
     "f32[~h,1]\n    %102 = seg_softmax %101 : f32[~h,1]\n    %103 = mul %102, %100 : f32[~h,4]\n    %104 = "
     "seg_sum "
     "%103 : f32[4]\n  }",
     NULL},
    {"fused %14, %7 {kind=\"attention\"} : f32[4] {\n    %100 = arg {index=0} : f32[4]\n    %101 = arg "
     "{index=1} : "
     "f32[~h,1]\n    %102 = mul %100, %101 : f32[~h,4]\n    %103 = seg_sum %102 : f32[4]\n  }",
     "fused: kind attention: expected seg_sum of a product with seg_softmax of a number a position, an "
     "operand"},
    {"fused %7 {kind=\"attention\"} : f32[1] {\n    %100 = arg {index=0} : f32[~h,1]\n    %101 = seg_softmax "
     "%100 : "
     "f32[~h,1]\n    %102 = mul %101, %101 : f32[~h,1]\n    %103 = seg_sum %102 : f32[1]\n  }",
     "fused: kind attention: expected seg_sum of a product with seg_softmax of a number a position, an "
     "operand"},
    {"fused %14 {kind=\"chain\"} : f32[4] {\n    %100 = arg {index=0} : f32[4]\n    %101 = relu %100 : "
     "f32[4]\n"
     "    %102 = out %101 {index=1} : none\n    %103 = neg %101 : f32[4]\n    %104 = out %101 {index=2} : "
     "none\n"
     "    %105 = exp %103 : f32[4]\n  }",
     NULL},
    {"fused %14 {kind=\"chain\"} : f32[4] {\n    %100 = arg {index=0} : f32[4]\n    %101 = relu %100 : "
     "f32[4]\n"
     "    %102 = out %101 {index=2} : none\n    %103 = neg %101 : f32[4]\n  }",
     "%99 fused in func 'train': expected out number 1, found 2"},
    {"fused %14 {kind=\"chain\"} : f32[4] {\n    %100 = arg {index=0} : f32[4]\n    %101 = out %100 "
     "{index=1} : "
     "none\n    %102 = relu %100 : f32[4]\n  }",
     "%99 fused in func 'train': out 1: expected an elementwise op of f32[4], found arg of f32[4]"},
    {"fused %14 {kind=\"chain\"} : none {\n    %100 = arg {index=0} : f32[4]\n    %101 = relu %100 : f32[4]\n"
     "    %102 = out %101 {index=1} : none\n  }",
     "%99 fused in func 'train': out 1: expected an elementwise op of none, found relu of f32[4]"},
    {"fused %14 {kind=\"reduce\"} : f32[1] {\n    %100 = arg {index=0} : f32[4]\n    %101 = sum %100 "
     "{axis=0, "
     "keep=0} : f32[1]\n    %102 = out %101 {index=1} : none\n    %103 = sum %100 {axis=0, keep=0} : "
     "f32[1]\n  }",
     "fused: kind reduce: expected elementwise ops of f32[4], dropout not among them, found 'sum' of f32[1]"},
    {"fused %14, %12 {kind=\"product\"} : f32[5] {\n    %100 = arg {index=0} : f32[4]\n    %101 = arg "
     "{index=1} : "
     "always f32[4,5]\n    %102 = matmul %100, %101 {ta=0, tb=0} : f32[5]\n    %103 = relu %102 : f32[5]\n   "
     " %104 "
     "= out %103 {index=1} : none\n    %105 = neg %103 : f32[5]\n  }",
     "%99 fused in func 'train': expected one result, as it is of kind product"},
    {"out %14 {index=1} : none", "%99 out in func 'train': stands only in a region"},
    {"result %41 {index=1} : f32[4]", NULL},
    {"result %41 {index=2} : f32[4]",
     "result: expected a region with a result 2 beside its first, found fused"},
    {"result %14 {index=1} : f32[4]",
     "result: expected a region with a result 1 beside its first, found embed"},
    {"arg {index=0} : f32[4]", "%99 arg in func 'train': an argument outside a region"},
    {"arg {index=-1} : f32[4]", "arg: expected an operand number, found -1"},
};

static const char *first_error(Fx *fx) {
    const char *text = strstr(fx_messages(fx), "error: ");
    if (!text) return "";
    text += strlen("error: ");
    return arena_strndup(fx->arena, text, strcspn(text, "\n"));
}

static IrProgram *read_line(Fx *fx, const char *line) {
    return fx_read(fx, arena_printf(fx->arena, "%sfunc train {\n%s  %%99 = %s\n}\n", head, values, line));
}

/* What is wrong with a case, NULL if nothing is. */
static const char *mistake(Fx *fx, const Case *c) {
    IrProgram *p = read_line(fx, c->line);
    if (c->error && strcmp(first_error(fx), c->error) != 0)
        return arena_printf(fx->arena, "expected: %s\n   found:    %s", c->error, first_error(fx));
    if (c->error) return p ? "is read in spite of its error" : NULL;
    if (!p) return fx_messages(fx);
    const char *line = arena_printf(fx->arena, "  %%99 = %s\n", c->line);
    return strstr(fx_print(fx, p), line) ? NULL : "isn't printed as it was read";
}

static void test_cases(void **state) {
    (void)state;
    int mistakes = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Fx fx = fx_new();
        const char *what = mistake(&fx, &cases[i]);
        if (what) print_error("%s\n   %s\n", cases[i].line, what);
        mistakes += what != NULL;
        fx_free(&fx);
    }
    assert_int_equal(mistakes, 0);
}

/* Every elementwise op of the table, generated from it: all take f32 and broadcast. */
static void test_elementwise(void **state) {
    (void)state;
    int count = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        if (ir_ops[op].cls != CLASS_EW) continue;
        const char *attrs = op == OP_LEAKYRELU ? " {slope=0.2}"
                            : op == OP_CLIP    ? " {lo=0, hi=1}"
                            : op == OP_DROPOUT ? " {rate=0.5, key=1}"
                                               : "";
        const char *operands[] = {"%14", "%15, %13", "%0", "%0, %14"};
        for (int bad = 0; bad < 2; bad++) {
            Fx fx = fx_new();
            bool binary = ir_ops[op].min_in == 2;
            const char *line =
                arena_printf(fx.arena, "%s %s%s : %s", ir_ops[op].text, operands[binary + 2 * bad], attrs,
                             binary ? "f32[~h,4]" : "f32[4]");
            IrProgram *p = read_line(&fx, line);
            if ((p == NULL) != (bad == 1)) fail_msg("%s: %s", line, fx_messages(&fx));
            if (bad) assert_non_null(strstr(fx_messages(&fx), "expected f32, found str"));
            fx_free(&fx);
        }
        count++;
    }
    assert_true(count >= 25);
}

/* No op without a right and a wrong line: a new op needs its lines here. */
static void test_every_op_is_covered(void **state) {
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        if (ir_ops[op].cls == CLASS_EW) continue;
        int right = 0, wrong = 0;
        size_t n = strlen(ir_ops[op].text);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const char *line = cases[i].line;
            bool inside =
                (op == OP_ARG && strstr(line, "= arg ")) || (op == OP_OUT && strstr(line, "= out "));
            if (!inside && (strncmp(line, ir_ops[op].text, n) != 0 || line[n] != ' ')) continue;
            if (cases[i].error)
                wrong++;
            else
                right++;
        }
        if (!right || !wrong)
            fail_msg("op %s has %d right and %d wrong lines", ir_ops[op].text, right, wrong);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_every_op_is_covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
