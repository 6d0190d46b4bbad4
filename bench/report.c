// SPDX-License-Identifier: Apache-2.0
// The output of kolobench: the table in nccl-tests' columns with the tail of the times, a JSON
// object with the machine's facts and the rows, and the same rows as CSV. The columns of the CSV
// and the keys of the JSON are stable: new ones are added at the end.
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "bench/bench.h"
#include "bench/plot.h"
#include "tools/outfile.h"
#include "tools/streams.h"

struct bench_report {
    const struct bench_options *options;
    struct bench_machine machine;
    json_t *root, *rows;
    struct outfile json, csv, plot;
    bool progress; /* standard error is a terminal */
};

static const char csv_columns[] =
    "collective,transport,plan,np,bytes,count,dtype,op,root,in_place,memory,time_us,mean_us,min_us,"
    "p90_us,p99_us,max_us,slowest_rank,algbw_gbps,busbw_gbps,calls,samples,errors,prescale,"
    "postscale\n";

static kolo_status open_files(struct bench_report *report)
{
    const struct bench_options *o = report->options;
    const struct outfile_place places[] = {
        {"--json", o->json}, {"--csv", o->csv}, {"--plot", o->plot}};
    kolo_status status;
    KOLO_TRY(outfile_distinct(places, sizeof places / sizeof *places));
    if (o->json)
        KOLO_TRY(outfile_open(&report->json, "--json", o->json));
    if (o->csv) {
        KOLO_TRY(outfile_open(&report->csv, "--csv", o->csv));
        fputs(csv_columns, report->csv.stream);
    }
    if (o->plot)
        KOLO_TRY(outfile_open(&report->plot, "--plot", o->plot));
out:
    return status;
}

kolo_status bench_report_open(const struct bench_options *options, struct kolo_comm *comm,
                              const struct bench_machine *machine, struct bench_report **report_out)
{
    struct bench_report *report = kolo_calloc(1, sizeof *report);
    if (!report)
        return KOLO_ERR_NO_MEMORY;
    report->options = options;
    report->machine = *machine;
    report->root = json_object();
    report->rows = json_array();
    report->progress = isatty(STDERR_FILENO) && !options->quiet;
    kolo_status status = KOLO_OK;
    if (json_object_set_new(report->root, "machine", bench_machine_object(comm, machine)) != 0 ||
        json_object_set_new(report->root, "rows", report->rows) != 0)
        status = kolo_fail(KOLO_ERR_NO_MEMORY, "out of memory for the JSON report");
    if (status == KOLO_OK)
        status = open_files(report);
    if (status != KOLO_OK) {
        (void)bench_report_close(report, false);
        return status;
    }
    bench_machine_print(machine);
    printf("# time: median over samples, each the time of its slowest rank; algbw and busbw are "
           "computed from it\n");
    status = streams_flush(); /* before anything is measured in vain */
    if (status == KOLO_OK)
        *report_out = report;
    else
        (void)bench_report_close(report, false);
    return status;
}

static double factor_of(const struct bench_operation *operation, double factor)
{
    return operation->reduces ? factor : 1;
}

static void scaling_text(const struct bench_options *o, const struct bench_operation *operation,
                         char text[64])
{
    const double before = factor_of(operation, o->prescale);
    const double after = factor_of(operation, o->postscale);
    text[0] = '\0';
    if (bench_scales(before))
        snprintf(text, 64, ", prescale %g", before);
    if (bench_scales(after))
        snprintf(text + strlen(text), 64 - strlen(text), ", postscale %g", after);
}

void bench_report_header(struct bench_report *report, const struct bench_operation *operation)
{
    const struct bench_options *o = report->options;
    char scaling[64];
    scaling_text(o, operation, scaling);
    printf("# %s, %s, %s memory, %s calls%s%s%s\n", operation->name,
           operation->in_place && o->in_place ? "in place" : "out of place",
           o->memory == BENCH_KOLO ? "kolo_alloc" : bench_memory_text(o->memory),
           o->stream                ? "stream-ordered"
           : o->pace == BENCH_ASYNC ? "asynchronous"
                                    : "blocking",
           scaling, o->barrier ? ", a barrier before each sample" : "",
           o->check ? ", every element checked" : "");
    for (const char *const *setting = o->settings; *setting; setting++)
        printf("# with %s\n", *setting);
    printf("#%11s %12s %9s %8s %6s %10s %8s %8s %6s %10s %10s %10s %10s  %s\n", "size", "count",
           "type", "redop", "root", "time", "algbw", "busbw", "errors", "min", "p90", "p99", "max",
           "transport/plan");
    printf("#%11s %12s %9s %8s %6s %10s %8s %8s %6s %10s %10s %10s %10s\n", "(B)", "(elements)", "",
           "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)", "(us)");
    fflush(stdout);
}

/** Says why the last size has no row. */
static void say_left_out(const struct bench_sizes *sizes, size_t rounded)
{
    printf("# %10" PRId64 " no row of its own: ", sizes->bytes);
    if (rounded == 0)
        printf("below %zu bytes, the least of %s among %d ranks\n", sizes->unit, sizes->collective,
               sizes->nranks);
    else
        printf("as a multiple of %zu bytes it is %zu, the row before\n", sizes->unit, rounded);
    fflush(stdout);
}

/** Says that a size from the list has a row of another size. Those of a progression need no words:
 * nobody wrote them. */
static void say_rounded(const struct bench_sizes *sizes)
{
    if (!sizes->speaks || sizes->options->nsizes == 0 || sizes->row_bytes == (size_t)sizes->bytes)
        return;
    printf("# %10" PRId64 " measured as the next lower multiple of %zu bytes\n", sizes->bytes,
           sizes->unit);
    fflush(stdout);
}

bool bench_sizes_next(struct bench_sizes *sizes)
{
    while ((sizes->bytes = bench_next_size(sizes->options, sizes->bytes, &sizes->at)) != 0) {
        const size_t rounded = (size_t)sizes->bytes / sizes->unit * sizes->unit;
        if (rounded != 0 && rounded != sizes->row_bytes) {
            sizes->row_bytes = rounded;
            say_rounded(sizes);
            return true;
        }
        if (sizes->speaks)
            say_left_out(sizes, rounded);
    }
    return false;
}

void bench_report_none(const struct bench_report *report, const struct bench_operation *operation,
                       size_t least_bytes)
{
    printf("# no row: every size is below %zu bytes, the least of %s among %d ranks\n", least_bytes,
           operation->name, report->machine.nranks);
    fflush(stdout);
}

void bench_report_progress(struct bench_report *report, const struct bench_operation *operation,
                           size_t bytes)
{
    char size[32];
    if (!report->progress)
        return;
    fprintf(stderr, "\r\033[K%s %s, %zu rows done", operation->name,
            bench_size_text((double)bytes, size, sizeof size), json_array_size(report->rows));
    fflush(stderr);
}

/* ---- rows ---- */

static void root_text(const struct bench_options *options, const struct bench_operation *operation,
                      char text[16])
{
    if (!operation->has_root)
        snprintf(text, 16, "-");
    else if (options->root == BENCH_ROOT_ROTATES)
        snprintf(text, 16, "rotate");
    else
        snprintf(text, 16, "%d", options->root);
}

static void errors_text(const struct bench_row *row, char text[24])
{
    if (row->errors < 0)
        snprintf(text, 24, "-");
    else
        snprintf(text, 24, "%" PRId64, row->errors);
}

/** What crosses a link; nothing does with one rank, which has no busbw: @p none. */
static void busbw_text(const struct bench_row *row, int digits, const char *none, char text[32])
{
    if (row->nranks == 1)
        snprintf(text, 32, "%s", none);
    else
        snprintf(text, 32, "%.*f", digits, row->busbw_gbps);
}

static void print_mismatch(const struct bench_row *row)
{
    const struct bench_mismatch *m = &row->mismatch;
    char element[32] = "outside";
    if (m->element >= 0)
        snprintf(element, sizeof element, "element %" PRId64, m->element);
    fprintf(stderr,
            "kolobench: %s of %zu bytes over %s/%s: rank %d, %s: expected %s, got %s (%" PRId64
            " wrong in all)\n",
            row->collective, row->bytes, row->transport, row->plan, m->rank, element, m->expected,
            m->got, row->errors);
}

static void print_row(const struct bench_options *options, const struct bench_row *row)
{
    const struct bench_operation *operation = bench_operation_find(row->collective);
    char root[16], errors[24], busbw[32];
    root_text(options, operation, root);
    errors_text(row, errors);
    busbw_text(row, 2, "-", busbw);
    printf("%12zu %12zu %9s %8s %6s %10.2f %8.2f %8s %6s %10.2f %10.2f %10.2f %10.2f  %s/%s\n",
           row->bytes, row->count, kolo_dtype_text(options->dtype),
           operation->reduces ? kolo_redop_text(options->op) : "-", root, row->time_us,
           row->algbw_gbps, busbw, errors, row->min_us, row->p90_us, row->p99_us, row->max_us,
           row->transport, row->plan);
}

static void write_csv(struct bench_report *report, const struct bench_row *row)
{
    const struct bench_options *o = report->options;
    const struct bench_operation *operation = bench_operation_find(row->collective);
    char root[16], errors[24], busbw[32];
    root_text(o, operation, root);
    errors_text(row, errors);
    busbw_text(row, 6, "", busbw);
    fprintf(report->csv.stream,
            "%s,%s,%s,%d,%zu,%zu,%s,%s,%s,%d,%s,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%d,%.6f,%s,%" PRId64
            ",%" PRId64 ",%s,%g,%g\n",
            row->collective, row->transport, row->plan, row->nranks, row->bytes, row->count,
            kolo_dtype_text(o->dtype), operation->reduces ? kolo_redop_text(o->op) : "-", root,
            o->in_place && operation->in_place, bench_memory_text(o->memory), row->time_us,
            row->mean_us, row->min_us, row->p90_us, row->p99_us, row->max_us, row->slowest_rank,
            row->algbw_gbps, busbw, row->calls, row->samples, row->errors < 0 ? "" : errors,
            factor_of(operation, o->prescale), factor_of(operation, o->postscale));
}

static json_t *row_object(const struct bench_options *o, const struct bench_row *row)
{
    const struct bench_operation *operation = bench_operation_find(row->collective);
    char root[16];
    root_text(o, operation, root);
    return json_pack(
        "{s:s, s:s, s:s, s:i, s:I, s:I, s:s, s:s, s:s, s:b, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:i,"
        " s:f, s:o, s:I, s:I, s:o, s:f, s:f}",
        "collective", row->collective, "transport", row->transport, "plan", row->plan, "np",
        row->nranks, "bytes", (json_int_t)row->bytes, "count", (json_int_t)row->count, "dtype",
        kolo_dtype_text(o->dtype), "op", operation->reduces ? kolo_redop_text(o->op) : "-", "root",
        root, "in_place", o->in_place && operation->in_place, "memory",
        bench_memory_text(o->memory), "time_us", row->time_us, "mean_us", row->mean_us, "min_us",
        row->min_us, "p90_us", row->p90_us, "p99_us", row->p99_us, "max_us", row->max_us,
        "slowest_rank", row->slowest_rank, "algbw_gbps", row->algbw_gbps, "busbw_gbps",
        row->nranks == 1 ? json_null() : json_real(row->busbw_gbps), "calls",
        (json_int_t)row->calls, "samples", (json_int_t)row->samples, "errors",
        row->errors < 0 ? json_null() : json_integer(row->errors), "prescale",
        factor_of(operation, o->prescale), "postscale", factor_of(operation, o->postscale));
}

static json_t *mismatch_object(const struct bench_mismatch *m)
{
    return json_pack("{s:i, s:I, s:s, s:s}", "rank", m->rank, "element", (json_int_t)m->element,
                     "expected", m->expected, "got", m->got);
}

kolo_status bench_report_row(struct bench_report *report, const struct bench_row *row)
{
    if (report->progress)
        fputs("\r\033[K", stderr);
    print_row(report->options, row);
    if (row->errors > 0)
        print_mismatch(row);
    if (report->csv.stream)
        write_csv(report, row);
    json_t *object = row_object(report->options, row);
    const bool is_lacking =
        row->errors > 0 &&
        json_object_set_new(object, "mismatch", mismatch_object(&row->mismatch)) != 0;
    if (json_array_append_new(report->rows, object) != 0 || is_lacking)
        return kolo_fail(KOLO_ERR_NO_MEMORY, "out of memory for the JSON report");
    return streams_flush();
}

kolo_status bench_write_object(const json_t *root, struct outfile *file)
{
    const bool is_whole =
        json_dumpf(root, file->stream, JSON_INDENT(1) | JSON_REAL_PRECISION(12)) == 0;
    fputc('\n', file->stream);
    if (is_whole || ferror(file->stream)) /* that it could not be written is said on closing */
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_NO_MEMORY, "out of memory for the JSON report");
}

kolo_status bench_plot_object(const json_t *root, const struct bench_machine *machine, FILE *out)
{
    struct plot plot = {0};
    char title[2 * BENCH_TEXT_MAX];
    kolo_status status = plot_add_object(&plot, root, "");
    snprintf(title, sizeof title, "%d ranks on %s", machine->nranks, machine->hosts);
    if (status == KOLO_OK)
        status = plot_write(&plot, title, out);
    plot_fini(&plot);
    return status;
}

kolo_status bench_report_close(struct bench_report *report, bool keep)
{
    kolo_status status = KOLO_OK, closed;
    if (!report)
        return KOLO_OK;
    if (report->json.stream && keep)
        status = bench_write_object(report->root, &report->json);
    const bool is_json_whole = status == KOLO_OK;
    if (report->plot.stream && keep && is_json_whole)
        status = bench_plot_object(report->root, &report->machine, report->plot.stream);
    closed = outfile_close(&report->plot, keep && status == KOLO_OK);
    status = status == KOLO_OK ? closed : status;
    closed = outfile_close(&report->json, keep && is_json_whole);
    status = status == KOLO_OK ? closed : status;
    closed = outfile_close(&report->csv, keep);
    status = status == KOLO_OK ? closed : status;
    json_decref(report->root);
    kolo_free_memory(report);
    return status;
}
