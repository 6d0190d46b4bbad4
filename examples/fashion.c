// SPDX-License-Identifier: Apache-2.0
// See fashion.h. The inner loops run over the weights' inner index, so that a compiler can
// vectorise them without reordering any sum: a score's bits do not depend on batch size, rank or
// vector width.
#include "fashion.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* ---- data ---- */

enum { IDX_IMAGES = 0x00000803, IDX_LABELS = 0x00000801 };

__attribute__((format(printf, 2, 3))) static bool fail(char *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, FASHION_ERROR_MAX, format, arguments);
    va_end(arguments);
    return false;
}

static bool damaged(char *error, const char *path, const char *what)
{
    return fail(error,
                "%s: %s; install the package dataset-fashion-mnist again, or name another folder "
                "with --data DIR",
                path, what);
}

static bool read_exactly(gzFile file, void *data, size_t bytes)
{
    uint8_t *at = data;
    while (bytes > 0) {
        int got = gzread(file, at, bytes < (1u << 30) ? (unsigned)bytes : 1u << 30);
        if (got <= 0)
            return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool read_word(gzFile file, uint32_t *word_out)
{
    uint8_t bytes[4];
    if (!read_exactly(file, bytes, sizeof bytes))
        return false;
    *word_out =
        (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    return true;
}

/* The header: the kind of file, the number of items, and for images their two sides. */
static bool read_header(gzFile file, uint32_t kind, int64_t *count_out)
{
    uint32_t magic, count, rows = 28, columns = 28;
    if (!read_word(file, &magic) || magic != kind || !read_word(file, &count))
        return false;
    if (kind == IDX_IMAGES && (!read_word(file, &rows) || !read_word(file, &columns)))
        return false;
    *count_out = count;
    return rows == 28 && columns == 28 && count <= 10000000;
}

/* After reading @p file has failed: the system may be why, not what is in the file. */
static bool unreadable(gzFile file, const char *path, const char *what, char *error)
{
    const int cause = errno;
    int code;
    (void)gzerror(file, &code);
    if (code == Z_ERRNO || code == Z_MEM_ERROR)
        return fail(error, "%s: %s", path, code == Z_ERRNO ? strerror(cause) : "out of memory");
    return damaged(error, path, what);
}

/* The items as bytes; gzclose's result includes the checksum at the end of the file. */
static uint8_t *read_items(const char *path, uint32_t kind, size_t item_bytes, int64_t *count_out,
                           char *error)
{
    gzFile file = gzopen(path, "rb");
    if (!file) {
        fail(error,
             "%s: %s; install the package dataset-fashion-mnist (script/bootstrap does), or name "
             "the folder with --data DIR",
             path, strerror(errno));
        return NULL;
    }
    uint8_t *items = NULL, beyond;
    bool ok = read_header(file, kind, count_out);
    if (!ok)
        unreadable(file, path, "not the expected kind of idx file, or damaged at its start", error);
    if (ok && !(items = malloc((size_t)*count_out * item_bytes + 1)))
        ok = fail(error, "%s: %s", path, "out of memory");
    if (ok && !(ok = read_exactly(file, items, (size_t)*count_out * item_bytes) &&
                     gzread(file, &beyond, 1) == 0 && gzeof(file)))
        unreadable(file, path, "truncated or damaged", error);
    if (gzclose(file) != Z_OK && ok)
        ok = damaged(error, path, "damaged (its checksum is wrong)");
    if (ok)
        return items;
    free(items);
    return NULL;
}

static bool keep_labels(struct fashion_data *data, const uint8_t *items, const char *path,
                        char *error)
{
    data->labels = malloc((size_t)data->count * sizeof *data->labels + 1);
    if (!data->labels)
        return fail(error, "%s: %s", path, "out of memory");
    for (int64_t i = 0; i < data->count; i++) {
        if (items[i] >= FASHION_CLASSES)
            return damaged(error, path, "a label is not in 0..9");
        data->labels[i] = items[i];
    }
    return true;
}

static bool keep_images(struct fashion_data *data, const uint8_t *items, const char *path,
                        char *error)
{
    size_t pixels = (size_t)data->count * FASHION_PIXELS;
    data->images = malloc(pixels * sizeof *data->images + 1);
    if (!data->images)
        return fail(error, "%s: %s", path, "out of memory");
    for (size_t i = 0; i < pixels; i++)
        data->images[i] = (float)items[i] / 255.0f;
    return true;
}

bool fashion_data_read(struct fashion_data *data, const char *dir, const char *prefix,
                       char error[FASHION_ERROR_MAX])
{
    char path[4096];
    int64_t labels = 0;
    memset(data, 0, sizeof *data);
    snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte.gz", dir, prefix);
    uint8_t *items = read_items(path, IDX_IMAGES, FASHION_PIXELS, &data->count, error);
    bool ok = items && keep_images(data, items, path, error);
    free(items);
    if (!ok)
        return false;
    snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte.gz", dir, prefix);
    items = read_items(path, IDX_LABELS, 1, &labels, error);
    ok = items != NULL;
    if (ok && labels != data->count)
        ok = damaged(error, path, "holds another number of labels than there are images");
    ok = ok && keep_labels(data, items, path, error);
    free(items);
    if (!ok)
        fashion_data_free(data);
    return ok;
}

void fashion_data_free(struct fashion_data *data)
{
    free(data->images);
    free(data->labels);
    memset(data, 0, sizeof *data);
}

/* ---- model ---- */

static float next_uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(*state >> 40) / (float)(1 << 23) - 1.0f; /* in [-1, 1) */
}

void fashion_model_init(struct fashion_model *model, uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    memset(model, 0, sizeof *model);
    float input_scale = sqrtf(6.0f / (float)FASHION_PIXELS),
          hidden_scale = sqrtf(6.0f / (float)FASHION_HIDDEN);
    for (int p = 0; p < FASHION_PIXELS; p++)
        for (int h = 0; h < FASHION_HIDDEN; h++)
            model->input_weights[p][h] = input_scale * next_uniform(&state);
    for (int h = 0; h < FASHION_HIDDEN; h++)
        for (int c = 0; c < FASHION_CLASSES; c++)
            model->hidden_weights[h][c] = hidden_scale * next_uniform(&state);
}

void fashion_model_scores(const struct fashion_model *model, const float *image, float *scores,
                          float *hidden)
{
    float own[FASHION_HIDDEN];
    float *h_out = hidden ? hidden : own;
    memcpy(h_out, model->hidden_bias, sizeof model->hidden_bias);
    for (int p = 0; p < FASHION_PIXELS; p++) {
        float pixel = image[p];
        if (pixel != 0.0f)
            for (int h = 0; h < FASHION_HIDDEN; h++)
                h_out[h] += pixel * model->input_weights[p][h];
    }
    memcpy(scores, model->class_bias, sizeof model->class_bias);
    for (int h = 0; h < FASHION_HIDDEN; h++) {
        h_out[h] = h_out[h] > 0.0f ? h_out[h] : 0.0f;
        for (int c = 0; c < FASHION_CLASSES; c++)
            scores[c] += h_out[h] * model->hidden_weights[h][c];
    }
}

/* exp(score - largest) per class, and their sum. */
static double exponentials(const float *scores, double *exponentials_out)
{
    float largest = scores[0];
    double sum = 0;
    for (int c = 1; c < FASHION_CLASSES; c++)
        largest = scores[c] > largest ? scores[c] : largest;
    for (int c = 0; c < FASHION_CLASSES; c++) {
        exponentials_out[c] = exp((double)scores[c] - (double)largest);
        sum += exponentials_out[c];
    }
    return sum;
}

double fashion_cross_entropy(const float *scores, int64_t label)
{
    double each[FASHION_CLASSES];
    double sum = exponentials(scores, each);
    return log(sum) - log(each[label]);
}

double fashion_slopes(const float *scores, int64_t label, float scale, float *slopes)
{
    double each[FASHION_CLASSES];
    double sum = exponentials(scores, each);
    for (int c = 0; c < FASHION_CLASSES; c++) /* softmax minus 1 for the label */
        slopes[c] = scale * ((float)(each[c] / sum) - (c == label ? 1.0f : 0.0f));
    return log(sum) - log(each[label]);
}

double fashion_model_gradient(const struct fashion_model *model, const float *image, int64_t label,
                              float scale, struct fashion_model *gradient)
{
    float scores[FASHION_CLASSES], hidden[FASHION_HIDDEN], back[FASHION_HIDDEN];
    float slope[FASHION_CLASSES];
    fashion_model_scores(model, image, scores, hidden);
    const double loss = fashion_slopes(scores, label, scale, slope);
    for (int c = 0; c < FASHION_CLASSES; c++)
        gradient->class_bias[c] += slope[c];
    for (int h = 0; h < FASHION_HIDDEN; h++) {
        float by_hidden = 0;
        for (int c = 0; c < FASHION_CLASSES; c++) {
            by_hidden += slope[c] * model->hidden_weights[h][c];
            gradient->hidden_weights[h][c] += slope[c] * hidden[h];
        }
        back[h] = hidden[h] > 0.0f ? by_hidden : 0.0f;
        gradient->hidden_bias[h] += back[h];
    }
    for (int p = 0; p < FASHION_PIXELS; p++) {
        float pixel = image[p];
        if (pixel != 0.0f)
            for (int h = 0; h < FASHION_HIDDEN; h++)
                gradient->input_weights[p][h] += pixel * back[h];
    }
    return loss;
}

/* ---- checkpoint: magic, shape, epochs done, parameters, momentum, CRC-32 of all before it ---- */

enum { PATH_BYTES = 4096 };
static const char checkpoint_magic[] = "FASHMLP1"; /* the file has no NUL behind it */
struct checkpoint_file {
    char magic[8];
    uint32_t pixels, hidden, classes, reserved;
    struct fashion_checkpoint checkpoint;
    uint32_t crc;
};

static uint32_t crc_of(const struct checkpoint_file *file)
{
    return (uint32_t)crc32_z(0, (const Bytef *)file, offsetof(struct checkpoint_file, crc));
}

static bool write_all(int fd, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    while (bytes > 0) {
        ssize_t wrote = write(fd, at, bytes);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        at += wrote;
        bytes -= (size_t)wrote;
    }
    return true;
}

/* Makes the rename itself durable. A file system that does not support this is not a failure. */
static void sync_folder(const char *path)
{
    char copy[PATH_BYTES];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

static bool cannot_write(const char *path, int cause, const char *beside, char *error)
{
    return fail(error, "%s: cannot write the checkpoint: %s (temporary file %s)", path,
                strerror(cause), beside);
}

/* Creates a file beside @p path, which becomes @p path when it is renamed. If its name is taken, by
 * a run that was killed (in containers process numbers repeat) or by one that is writing, the next
 * is tried. Not by mkstemp, whose files only their owner can read. */
static int create_beside(const char *path, char beside[PATH_BYTES])
{
    enum { TRIES = 100 };
    int fd = -1;
    errno = EEXIST;
    for (int i = 0; i < TRIES && fd < 0 && errno == EEXIST; i++) {
        if (snprintf(beside, PATH_BYTES, "%s.tmp-%ld-%d", path, (long)getpid(), i) >= PATH_BYTES) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    return fd;
}

bool fashion_checkpoint_possible(const char *path, char error[FASHION_ERROR_MAX])
{
    char beside[PATH_BYTES];
    struct stat there;
    if (!*path || path[strlen(path) - 1] == '/' ||
        (stat(path, &there) == 0 && S_ISDIR(there.st_mode)))
        return fail(error, "--checkpoint '%s': expected the name of a file, not of a folder", path);
    int fd = create_beside(path, beside);
    if (fd < 0)
        return cannot_write(path, errno, beside, error);
    close(fd);
    return unlink(beside) == 0 || cannot_write(path, errno, beside, error);
}

bool fashion_checkpoint_write(const struct fashion_checkpoint *checkpoint, const char *path,
                              char error[FASHION_ERROR_MAX])
{
    char beside[PATH_BYTES];
    struct checkpoint_file *file = calloc(1, sizeof *file);
    if (!file)
        return fail(error, "%s: %s", path, "out of memory");
    memcpy(file->magic, checkpoint_magic, sizeof file->magic);
    file->pixels = FASHION_PIXELS;
    file->hidden = FASHION_HIDDEN;
    file->classes = FASHION_CLASSES;
    file->checkpoint = *checkpoint;
    file->crc = crc_of(file);
    int fd = create_beside(path, beside);
    bool ok = fd >= 0 && write_all(fd, file, sizeof *file) && fsync(fd) == 0;
    int cause = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
        ok = false;
        cause = errno;
    }
    if (ok && rename(beside, path) != 0) {
        ok = false;
        cause = errno;
    }
    free(file);
    if (ok) {
        sync_folder(path);
        return true;
    }
    if (fd >= 0)
        unlink(beside);
    return cannot_write(path, cause, beside, error);
}

bool fashion_checkpoint_read(struct fashion_checkpoint *checkpoint, const char *path,
                             bool *exists_out, char error[FASHION_ERROR_MAX])
{
    *exists_out = false;
    FILE *stream = fopen(path, "rbe");
    if (!stream)
        return errno == ENOENT ||
               fail(error, "%s: cannot read the checkpoint: %s", path, strerror(errno));
    *exists_out = true;
    struct checkpoint_file *file = malloc(sizeof *file);
    bool ok = file && fread(file, sizeof *file, 1, stream) == 1 && fgetc(stream) == EOF;
    const int cause = ferror(stream) ? errno : 0;
    fclose(stream);
    if (cause)
        ok = fail(error, "%s: cannot read the checkpoint: %s", path, strerror(cause));
    else if (!ok)
        fail(error, "%s: %s", path,
             file ? "not a whole checkpoint of fashion-train (truncated?); train again into "
                    "another file"
                  : "out of memory");
    else if (memcmp(file->magic, checkpoint_magic, sizeof file->magic) != 0 ||
             file->pixels != FASHION_PIXELS || file->hidden != FASHION_HIDDEN ||
             file->classes != FASHION_CLASSES)
        ok = fail(error, "%s: %s", path,
                  "not a checkpoint of this model; name one that fashion-train wrote");
    else if (file->crc != crc_of(file))
        ok = fail(error, "%s: %s", path,
                  "damaged (its checksum is wrong); train again into another file");
    if (ok)
        *checkpoint = file->checkpoint;
    free(file);
    return ok;
}

/* ---- command line ---- */

FILE *fashion_speaker(FILE *stream)
{
    static FILE *nowhere;
    const char *rank = getenv("RANK");
    if (!rank || strcmp(rank, "0") == 0)
        return stream;
    if (!nowhere)
        nowhere = fopen("/dev/null", "we");
    return nowhere ? nowhere : stream;
}

bool fashion_output_written(const char *program)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    fprintf(stderr, "%s: cannot write the results to standard output\n", program);
    return false;
}

bool fashion_parse_integer(const char *text, int64_t min, int64_t max, int64_t *value_out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < min || value > max)
        return false;
    *value_out = value;
    return true;
}

bool fashion_parse_real(const char *text, double min, double max, double *value_out)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno || end == text || *end || !(value >= min && value <= max))
        return false;
    *value_out = value;
    return true;
}
