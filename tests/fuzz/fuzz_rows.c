/* Rows: the first byte chooses the form of the log and how it is read, the rest is the log. The reader gives
 * the same rows and says the same of bad ones at one thread and at three. */
#include "tests/unit/reader_fixture.h"
#include "tests/fuzz/fuzz.h"

static const RtBlob blob = {(rt_ptr) "a\nb\nc\n", 6};

#define COLUMNS                                                                                              \
    LABEL("y", "")                                                                                           \
    "," COL("x", "float", ",'default':1.5") "," COL("n", "int", "") "," COL("s", "string", "") "," LIST(     \
        "l", "string", ";", 0, "") "," LIST("m", "float", "|", 1, ",'default':2")
#define AXES AXIS("l", "") "," AXIS("m", ",'max':3,'shared':true")
#define VOCAB FEATURE("vocab", C(4), "id", 0, ",'bound':3,'vocab':0,'unknown':-1")
#define IDENTITY FEATURE("identity", C(2), "id", -1, ",'bound':100,'n':100")
#define BUCKETIZE FEATURE("bucketize", C(5), "id", 1, ",'bound':4,'bounds':[0,1,2]")
#define CROSS FEATURE("cross", C(3) "," C(4), "id", 0, ",'bound':9,'buckets':9")
#define FEATURES                                                                                             \
    VALUE(C(0), -1)                                                                                          \
    "," VALUE(C(1), -1) "," IDENTITY "," HASH(C(3), -1, 1000) "," VOCAB "," BUCKETIZE "," CROSS
#define INPUTS                                                                                               \
    AS("f32", 0)                                                                                             \
    "," AS("f32", 1) "," AS("id", 2) "," AS_LOOKUP(0) "," AS("id", 4) "," AS("id", 5) "," AS("id", 6)
#define MIXED(in)                                                                                            \
    {                                                                                                        \
        .input = in, .columns = COLUMNS, .features = FEATURES, .inputs = INPUTS, .axes = AXES,               \
        .lookups = LOOKUP(3, 0, false), .weights = TABLE("t", 1000),                                         \
        .vocabs = "{'path':null,'n':3,'digest':'00'}", .blobs = &blob                                        \
    }
#define FFM_COLUMNS                                                                                          \
    LABEL("y", "")                                                                                           \
    "," LIST("f", "int", " ", 0, "") "," LIST("i", "int", " ", 0, "") "," LIST("v", "float", " ", 0, "")

enum { MODELS = 6 };
static RtModel *models[MODELS];

static void make_models(void) {
    const Describe all[MODELS] = {
        MIXED(",'missing':['?','NULL']"),
        MIXED(",'header':true"),
        MIXED(",'quote':'','trim':false"),
        MIXED(",'format':'tsv','separator':'\\t','quote':''"),
        SVM,
        {.input = ",'format':'libffm'",
         .columns = FFM_COLUMNS,
         .axes = AXIS("h", ",'shared':true"),
         .features = VALUE(C(0), -1) "," FEATURE("identity", C(1), "id", 0, ",'bound':10,'n':10") "," FEATURE(
             "identity", C(2), "id", 0, ",'bound':100,'n':100") "," VALUE(C(3), 0),
         .inputs = AS("f32", 0) "," AS("id", 1) "," AS("id", 2) "," AS("f32", 3)},
    };
    for (int i = 0; i < MODELS; i++) models[i] = model_of(&all[i]);
}

static void free_models(void) {
    for (int i = 0; i < MODELS; i++) rt_model_free(models[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const path = "fuzz.log";
    if (!models[0]) {
        make_models();
        atexit(free_models);
        fuzz_enter_directory();
    }
    int how = size ? data[0] : 0;
    fuzz_write(path, data + (size > 0), size ? size - 1 : 0);
    RtReaderOptions o = options(RT_TRAIN, &path, 1);
    o.batch = 1 + (uint32_t)(how / MODELS % 4);
    o.bad = how / MODELS / 4 % 2 ? RT_BAD_SKIP : RT_BAD_HOLD;
    o.shuffle = how / MODELS / 8 % 2 ? 7 : 0;
    o.threads = 1;
    BadSeen one, three;
    char *want = rows_and_bad(models[how % MODELS], &o, &one);
    o.threads = 3;
    char *got = rows_and_bad(models[how % MODELS], &o, &three);
    FUZZ_CHECK(!strcmp(want, got), "one thread reads\n%s---- three\n%s", want, got);
    FUZZ_CHECK(one.n == three.n && !strcmp(one.first, three.first), "bad rows: %llu '%s' and %llu '%s'",
               (unsigned long long)one.n, one.first, (unsigned long long)three.n, three.first);
    free(want);
    free(got);
    return 0;
}
