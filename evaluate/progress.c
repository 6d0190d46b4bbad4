// SPDX-License-Identifier: Apache-2.0
// See progress.h. The line is always shorter than the terminal is wide, so that it does not wrap,
// and characters of a path that could move the cursor are not written.
#include "evaluate/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/settings.h"

enum {
    FIRST_MS = 500,
    EVERY_MS = 100,
    NARROW = 20,  /* columns: nothing is shown in fewer */
    BROAD = 50,   /* a bar is shown from this width on */
    COLUMNS = 79, /* at most this many are used */
    BAR = 24
};

static const int64_t ns_of_ms = 1000000;

static bool is_terminal(void)
{
    const char *kind = kolo_environment("TERM");
    return isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0;
}

static int columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return COLUMNS;
    return size.ws_col > COLUMNS ? COLUMNS : size.ws_col - 1;
}

void eval_progress_begin(struct eval_progress *progress, const char *what, uint64_t total)
{
    const char *slash = strrchr(what, '/');
    *progress = (struct eval_progress){.what = slash && slash[1] ? slash + 1 : what,
                                       .total = total,
                                       .next_ns = kolo_now_ns() + FIRST_MS * ns_of_ms,
                                       .is_on = is_terminal()};
}

static void draw(const struct eval_progress *progress, uint64_t done, int width)
{
    char figure[32], bar[BAR + 4] = "", name[COLUMNS + 1];
    double part = (double)done / (double)progress->total;
    int full = part < 1 ? (int)(part * (double)BAR) : BAR, length = 0;
    bool has_bar = width >= BROAD && progress->total > 0;
    if (has_bar)
        (void)snprintf(bar, sizeof bar, "[%.*s%.*s] ", full, "########################", BAR - full,
                       "........................");
    if (progress->total > 0)
        (void)snprintf(figure, sizeof figure, "%3.0f %%", part < 1 ? 100 * part : 100);
    else
        (void)snprintf(figure, sizeof figure, "%.0f MB", (double)done / 1e6);
    int room = width - 1 - (int)strlen(bar) - (int)strlen(figure);
    for (const char *at = progress->what; *at && length < room; at++)
        name[length++] = *at >= 0x20 && *at < 0x7f ? *at : '?';
    name[length > 0 ? length : 0] = '\0';
    fprintf(stderr, "\r\033[K%s %s%s", name, bar, figure);
    fflush(stderr);
}

void eval_progress_at(struct eval_progress *progress, uint64_t done)
{
    if (!progress->is_on)
        return;
    int64_t now = kolo_now_ns();
    int width = columns();
    if (now < progress->next_ns || width < NARROW)
        return;
    progress->next_ns = now + EVERY_MS * ns_of_ms;
    progress->is_shown = true;
    draw(progress, done, width);
}

void eval_progress_end(struct eval_progress *progress)
{
    if (progress->is_shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    *progress = (struct eval_progress){.what = NULL};
}
