// SPDX-License-Identifier: Apache-2.0
// The agent's loop: takes a job, runs its ranks, and ends only when no process of the job is left.
//
// EXAMINE, before START, starts the examiner (relay.h) and does not change the state.
//
//   WAITING --JOB--> PREPARED --START--> RUNNING --last rank ended--> LINGERING --time--> ENDING
//      any state --END, hang-up, silence--> ENDING --time--> KILLING --nobody left--> DONE
//
// A signal while ranks run is passed on to them and told to kolorun, which does the same for the
// others; what runs after the exit timeout is ended, whatever kolorun does. Before START, or if the
// guardian is gone, it leads to ENDING. All processes of kolorun may get one at a time (pkill, a
// batch system, the end of a session): then it comes from the guardian and from kolorun as well,
// which the ranks should not notice.
//
// LINGERING gives processes that the ranks left behind (the tee of a shell's >(tee log)) a moment
// to finish, and tells kolorun which have not (strays.h). ENDING has sent SIGTERM; KILLING sends
// SIGKILL at every tick. All three become DONE as soon as no process is left and every stream has
// been sent. DONE sends the ranks' timelines, if the job has them, one piece whenever all before it
// is written, and then ends.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kolo/version.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "launcher/agent.h"
#include "launcher/agent_channel.h"
#include "launcher/children.h"
#include "launcher/lookout.h"
#include "launcher/messages.h"
#include "launcher/relay.h"
#include "launcher/spawn.h"
#include "launcher/strays.h"

enum {
    TICK_MS = 10,
    LINGER_TICK_MS = 2,
    JOB_WAIT_MS = 60000, /* kolorun sends the job as soon as it has the greeting */
    LINGER_MS = 500,     /* for processes that ranks left behind */
    TERM_MS = 300,       /* between SIGTERM and SIGKILL */
    STRAY_MS = 1000,     /* for a stream that a process outside the job holds open */
    KILL_MS = 5000,      /* then a process in uninterruptible sleep is given up */
    NAME_MS = 1000,      /* then such a process is reported; kolorun waits for that */
    NOTE_MAX = 200,      /* bytes that kolorun prints of a note */
    EXIT_TROUBLE = 1,
    EXIT_LOST = 255 /* kolorun's exit status when it loses a host */
};

enum state { WAITING, PREPARED, RUNNING, LINGERING, ENDING, KILLING, DONE, STATES };

static const bool may_follow[STATES][STATES] = {
    [WAITING] = {[PREPARED] = true, [ENDING] = true, [KILLING] = true},
    [PREPARED] = {[RUNNING] = true, [ENDING] = true, [KILLING] = true},
    [RUNNING] = {[LINGERING] = true, [ENDING] = true, [KILLING] = true},
    [LINGERING] = {[ENDING] = true, [KILLING] = true, [DONE] = true},
    [ENDING] = {[KILLING] = true, [DONE] = true},
    [KILLING] = {[DONE] = true},
};

struct worker {
    uv_loop_t loop;
    struct kolo_agent_channel channel;
    uv_signal_t child, term, hang, intr;
    uv_timer_t tick;
    uv_timer_t patience; /* with ranks that a signal is to end */
    uv_check_t polled;
    int quiet_polls; /* of the loop, one after the other, since no process is left */
    struct kolo_spec spec;
    struct kolo_children *children;
    struct kolo_relay *relay;
    struct kolo_lookout *lookout; /* NULL: kolorun has not asked yet */
    enum state state;
    pid_t guardian;
    kolo_deadline deadline; /* of the state */
    kolo_deadline naming;   /* when processes that still live are named */
    int exit_status;
    bool is_paused; /* the ranks are stopped */
    bool is_asked;  /* the ranks got a signal to end */
    int passed_on;  /* a signal that kolorun will send back; 0: none */
};

static void move(struct worker *worker, enum state state, int64_t limit_ms)
{
    if (!may_follow[worker->state][state])
        return;
    worker->state = state;
    worker->deadline = kolo_deadline_in_ms(limit_ms);
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Everything is gone: the loop ends when the handles are closed. */
static void finish(struct worker *worker)
{
    if (worker->children)
        kolo_children_close(worker->children);
    kolo_relay_close(worker->relay);
    kolo_lookout_close(worker->lookout);
    kolo_agent_channel_close(&worker->channel);
    close_handle((uv_handle_t *)&worker->child);
    close_handle((uv_handle_t *)&worker->term);
    close_handle((uv_handle_t *)&worker->hang);
    close_handle((uv_handle_t *)&worker->intr);
    close_handle((uv_handle_t *)&worker->tick);
    close_handle((uv_handle_t *)&worker->patience);
    close_handle((uv_handle_t *)&worker->polled);
}

static void done(struct worker *worker)
{
    move(worker, DONE, -1);
    kolo_agent_channel_send(&worker->channel, KOLO_FRAME_DONE, NULL, 0);
    if (worker->channel.has_ended)
        finish(worker);
}

static void drained(void *context)
{
    struct worker *worker = context;
    if (worker->state != DONE)
        return;
    if (!worker->children || !kolo_children_send_records(worker->children))
        finish(worker);
}

static void reap(struct worker *worker, bool *nobody_out)
{
    int wait_status;
    struct rusage usage;
    pid_t pid;
    while ((pid = wait4(-1, &wait_status, WNOHANG, &usage)) > 0)
        if (worker->children)
            kolo_children_reaped(worker->children, pid, wait_status, &usage);
    *nobody_out = pid < 0 && errno == ECHILD;
}

static void on_tick(uv_timer_t *timer);

/* Stops the ranks and the rest of their process groups, unless the job is ending. */
static void pause_job(struct worker *worker, uint32_t round)
{
    if (worker->state < ENDING) {
        worker->is_paused = true;
        kolo_children_signal(worker->children, SIGSTOP);
    }
    kolo_agent_channel_send_u32(&worker->channel, KOLO_FRAME_PAUSED, round);
    kolo_agent_channel_rest(&worker->channel);
}

static void resume(struct worker *worker)
{
    if (worker->is_paused)
        kolo_children_signal(worker->children, SIGCONT);
    worker->is_paused = false;
    kolo_agent_channel_resume(&worker->channel);
}

static void end(struct worker *worker, enum state state)
{
    if (worker->state >= ENDING && state <= worker->state)
        return;
    move(worker, state, state == KILLING ? KILL_MS : TERM_MS);
    worker->naming = state == KILLING ? kolo_deadline_in_ms(NAME_MS) : KOLO_NEVER;
    (void)kolo_tree_signal(getpid(), state == KILLING ? SIGKILL : SIGTERM);
    resume(worker);
    if (!uv_is_closing((uv_handle_t *)&worker->tick))
        (void)uv_timer_start(&worker->tick, on_tick, 0, TICK_MS);
}

static void on_polled(uv_check_t *check)
{
    struct worker *worker = check->data;
    int64_t idle_ms = 0;
    (void)kolo_children_streams(worker->children, &idle_ms);
    worker->quiet_polls = idle_ms > STRAY_MS ? worker->quiet_polls + 1 : 0;
}

/* Whether nothing more is read of the ranks, of which no process is left. What they wrote may not
 * have been looked for yet, for however long nothing was heard: this process may have been stopped,
 * or have learnt at once that the last rank was executed and that it has ended. The poll that
 * follows may have been interrupted, and have looked for nothing. */
static bool streams_ended(struct worker *worker)
{
    int64_t idle_ms;
    if (!worker->children || kolo_children_streams(worker->children, &idle_ms) == 0)
        return true;
    (void)uv_check_start(&worker->polled, on_polled);
    return worker->quiet_polls > 1;
}

/* Tells kolorun once which processes SIGKILL does not end. */
static void name_survivors(struct worker *worker)
{
    char text[NOTE_MAX];
    if (!kolo_deadline_passed(worker->naming))
        return;
    worker->naming = KOLO_NEVER;
    kolo_tree_describe(getpid(), text, sizeof text);
    kolo_agent_channel_send(&worker->channel, KOLO_FRAME_NOTE, text, strlen(text));
}

/* Tells kolorun which processes are about to be ended although their rank ended well. */
static void name_strays(struct worker *worker)
{
    const uint32_t ranks = worker->spec.ranks.count;
    uint8_t body[KOLO_STRAY_BYTES];
    struct kolo_stray *strays = kolo_calloc(ranks, sizeof strays[0]);
    if (!strays)
        return;
    kolo_strays_find(getpid(), &worker->spec.ranks, strays);
    for (uint32_t i = 0; i < ranks; i++) {
        size_t bytes = 0;
        struct kolo_writer writer = kolo_writer_over(body, sizeof body);
        if (strays[i].pid == 0)
            continue;
        kolo_stray_write(&writer, &strays[i]);
        if (kolo_writer_finish(&writer, body, &bytes) == KOLO_OK)
            kolo_agent_channel_send(&worker->channel, KOLO_FRAME_STRAY, body, bytes);
    }
    kolo_free_memory(strays);
}

static void advance(struct worker *worker)
{
    bool nobody;
    reap(worker, &nobody);
    if (worker->state == RUNNING && kolo_children_running(worker->children) == 0) {
        move(worker, LINGERING, LINGER_MS);
        (void)uv_timer_start(&worker->tick, on_tick, LINGER_TICK_MS, LINGER_TICK_MS);
    }
    if (worker->state < LINGERING || worker->state == DONE)
        return;
    if (nobody && streams_ended(worker)) {
        done(worker);
        return;
    }
    bool passed = kolo_deadline_passed(worker->deadline);
    if (nobody || (!passed && worker->state != KILLING))
        return;
    if (worker->state == KILLING && passed) {
        done(worker);
        return;
    }
    if (worker->state == KILLING) {
        (void)kolo_tree_signal(getpid(), SIGKILL);
        name_survivors(worker);
    } else if (worker->state == LINGERING) {
        name_strays(worker);
        end(worker, ENDING);
    } else {
        end(worker, KILLING);
    }
}

static void on_tick(uv_timer_t *timer)
{
    advance(timer->data);
}

static void on_child(uv_signal_t *handle, int number)
{
    (void)number;
    advance(handle->data);
}

static void hang_up(struct worker *worker)
{
    worker->exit_status = EXIT_TROUBLE;
    if (worker->children)
        kolo_children_mute(worker->children);
    end(worker, ENDING);
}

static void channel_ended(void *context, kolo_status why)
{
    struct worker *worker = context;
    if (why != KOLO_ERR_LINK) /* silent or nonsense: kolorun may still read a note */
        fprintf(stderr, "agent: disconnected from kolorun: %s\n", kolo_error_detail());
    if (worker->state == DONE) {
        finish(worker);
        return;
    }
    if (why == KOLO_ERR_LINK && worker->state == WAITING) /* what kolorun sends does not arrive */
        fprintf(stderr, "agent: its standard input ended before the job came: a start-up file of "
                        "the shell there (.bashrc) redirects it, or ssh was told to (-n)\n");
    hang_up(worker);
}

static void refuse(struct worker *worker, int exit_status)
{
    uint8_t body[KOLO_DETAIL_MAX + 8];
    size_t bytes = 0;
    struct kolo_writer writer = kolo_writer_over(body, sizeof body);
    kolo_write_u32(&writer, (uint32_t)exit_status);
    kolo_write_text(&writer, kolo_error_detail());
    if (kolo_writer_finish(&writer, body, &bytes) == KOLO_OK)
        kolo_agent_channel_send(&worker->channel, KOLO_FRAME_REFUSED, body, bytes);
}

static void on_patience_ended(uv_timer_t *timer)
{
    end(timer->data, ENDING);
}

/* The ranks have as long as if kolorun had got the signal, and what they write is still sent. */
static void pass_on(struct worker *worker, int number)
{
    if (worker->state != RUNNING || worker->is_asked)
        return;
    worker->is_asked = true;
    worker->passed_on = number;
    kolo_children_signal(worker->children, number);
    if (worker->is_paused)
        kolo_children_signal(worker->children, SIGCONT);
    worker->is_paused = false;
    kolo_agent_channel_send_u32(&worker->channel, KOLO_FRAME_SIGNAL, (uint32_t)number);
    (void)uv_timer_start(&worker->patience, on_patience_ended, worker->spec.exit_timeout_ms, 0);
}

/* The guardian has died, or somebody wants the agent to end. */
static void on_term(uv_signal_t *handle, int number)
{
    struct worker *worker = handle->data;
    if (worker->state >= RUNNING && getppid() == worker->guardian) {
        pass_on(worker, number);
        return;
    }
    if (worker->state < LINGERING) {
        if (getppid() != worker->guardian)
            (void)kolo_fail(KOLO_ERR_SYSTEM, "its agent was killed");
        else
            (void)kolo_fail(KOLO_ERR_SYSTEM, "its agent got signal %d (SIG%s)", number,
                            sigabbrev_np(number));
        refuse(worker, EXIT_LOST);
    }
    hang_up(worker);
}

static kolo_status take_job(struct worker *worker, const struct kolo_piece *job)
{
    if (worker->state != WAITING)
        return kolo_fail(KOLO_ERR_PROTOCOL, "a second job");
    struct kolo_reader body = kolo_reader_over(job->at, job->bytes);
    kolo_status status = kolo_spec_unpack(&body, &worker->spec);
    if (status != KOLO_OK)
        return status;
    int exit_status = EXIT_TROUBLE;
    kolo_agent_channel_watch(&worker->channel, worker->spec.peer_timeout_ms);
    status = kolo_children_prepare(&worker->loop, &worker->channel, &worker->spec,
                                   &worker->children, &exit_status);
    if (status != KOLO_OK) {
        refuse(worker, exit_status);
        return KOLO_OK; /* kolorun ends it */
    }
    move(worker, PREPARED, -1);
    kolo_agent_channel_send(&worker->channel, KOLO_FRAME_PREPARED, NULL, 0);
    return KOLO_OK;
}

/* Possible also if the job was refused: other problems can still be found. */
static kolo_status examine(struct worker *worker, const struct kolo_piece *orders)
{
    if (!worker->spec.cwd || worker->state > PREPARED)
        return kolo_fail(KOLO_ERR_PROTOCOL, "an examination without a job");
    if (!worker->relay && kolo_relay_start(&worker->loop, &worker->channel, &worker->spec,
                                           &worker->relay) != KOLO_OK) {
        refuse(worker, 126);
        return KOLO_OK; /* kolorun ends it */
    }
    kolo_relay_tell(worker->relay, orders->at, orders->bytes);
    return KOLO_OK;
}

static void start_failed(void *context)
{
    struct worker *worker = context;
    refuse(worker, 126);
    end(worker, KILLING);
}

static kolo_status start(struct worker *worker)
{
    if (worker->state != PREPARED)
        return kolo_fail(KOLO_ERR_PROTOCOL, "a start without a job");
    move(worker, RUNNING, -1);
    kolo_children_start(worker->children, start_failed, worker);
    return KOLO_OK;
}

/* END: there is no time for anything else. */
static void end_now(struct worker *worker)
{
    if (worker->state == DONE) { /* nobody waits for the rest of the timelines */
        finish(worker);
        return;
    }
    end(worker, KILLING);
    advance(worker);
}

static kolo_status look_at_all(struct worker *worker, uint32_t round, struct kolo_reader *said)
{
    const struct kolo_ranks *ranks = &worker->spec.ranks;
    kolo_status status = KOLO_OK;
    pid_t *pids = kolo_calloc(ranks->count, sizeof pids[0]);
    struct kolo_lookout_target *targets = kolo_calloc(ranks->count, sizeof targets[0]);
    if (!pids || !targets) {
        status = KOLO_ERR_NO_MEMORY;
        goto out;
    }
    if (!worker->lookout)
        KOLO_TRY(kolo_lookout_create(&worker->loop, &worker->channel, &worker->lookout));
    kolo_children_pids(worker->children, pids);
    for (uint32_t i = 0; i < ranks->count; i++)
        targets[i] = (struct kolo_lookout_target){
            .rank = ranks->at[i], .child = pids[i], .said = (pid_t)kolo_read_u32(said)};
    status = kolo_lookout_ask(worker->lookout, round, targets, ranks->count);
out:
    kolo_free_memory(pids);
    kolo_free_memory(targets);
    return status;
}

/* LOOK: if that fails, kolorun gets no sights, and says what it knows without them. */
static kolo_status look(struct worker *worker, const struct kolo_piece *piece)
{
    struct kolo_reader body = kolo_reader_over(piece->at, piece->bytes);
    const uint32_t round = kolo_read_u32(&body);
    if (kolo_reader_left(&body) != worker->spec.ranks.count * sizeof(uint32_t))
        return kolo_fail(KOLO_ERR_PROTOCOL, "a malformed LOOK");
    if (worker->state == DONE || look_at_all(worker, round, &body) != KOLO_OK)
        kolo_agent_channel_send_u32(&worker->channel, KOLO_FRAME_LOOKED, round);
    return KOLO_OK;
}

/* SIGNAL */
static void signal_ranks(struct worker *worker, int number)
{
    const bool is_known = worker->passed_on == number;
    if (number == SIGTERM || number == SIGINT || number == SIGHUP)
        worker->is_asked = true;
    if (is_known)
        worker->passed_on = 0;
    else
        kolo_children_signal(worker->children, number);
}

/* What concerns ranks that are there. */
static kolo_status on_rank_message(struct worker *worker, const struct kolo_frame_message *message)
{
    if (!worker->children)
        return kolo_fail(KOLO_ERR_PROTOCOL, "%s without a job", kolo_frame_text(message->type));
    switch ((int)message->type) {
    case KOLO_FRAME_INPUT:
        return kolo_children_input(worker->children, message->piece.at, message->piece.bytes);
    case KOLO_FRAME_CREDIT:
        kolo_children_credit(worker->children, message->value);
        return KOLO_OK;
    case KOLO_FRAME_SIGNAL:
        if (message->value >= NSIG)
            return kolo_fail(KOLO_ERR_PROTOCOL, "there is no signal %u", message->value);
        signal_ranks(worker, (int)message->value);
        return KOLO_OK;
    case KOLO_FRAME_LOOK:
        return look(worker, &message->piece);
    case KOLO_FRAME_PAUSE:
        pause_job(worker, message->value);
        return KOLO_OK;
    case KOLO_FRAME_RESUME:
        resume(worker);
        return KOLO_OK;
    default:
        return kolo_fail(KOLO_ERR_PROTOCOL, "%s is not for an agent",
                         kolo_frame_text(message->type));
    }
}

static kolo_status on_frame(void *context, enum kolo_frame_type type, struct kolo_reader *body)
{
    struct worker *worker = context;
    struct kolo_frame_message message;
    kolo_status status = kolo_frame_message_read(type, body, &message);
    if (status != KOLO_OK)
        return status;
    switch ((int)type) {
    case KOLO_FRAME_JOB:
        return take_job(worker, &message.piece);
    case KOLO_FRAME_START:
        return start(worker);
    case KOLO_FRAME_EXAMINE:
        return examine(worker, &message.piece);
    case KOLO_FRAME_BEAT:
        return KOLO_OK;
    case KOLO_FRAME_END:
        end_now(worker);
        return KOLO_OK;
    default:
        return on_rank_message(worker, &message);
    }
}

static void greet(struct worker *worker)
{
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    uint8_t body[1024];
    size_t bytes = 0;
    struct kolo_writer writer = kolo_writer_over(body, sizeof body);
    kolo_write_u32(&writer, KOLO_AGENT_PROTOCOL);
    kolo_write_text(&writer, KOLO_VERSION);
    kolo_write_text(&writer, host);
    kolo_write_u32(&writer, (uint32_t)getpid());
    kolo_agent_channel_send_raw(&worker->channel, kolo_preamble, KOLO_PREAMBLE_BYTES);
    if (kolo_writer_finish(&writer, body, &bytes) == KOLO_OK)
        kolo_agent_channel_send(&worker->channel, KOLO_FRAME_READY, body, bytes);
    kolo_agent_channel_watch(&worker->channel, JOB_WAIT_MS);
}

static void watch_signal(struct worker *worker, uv_signal_t *handle, uv_signal_cb callback,
                         int number)
{
    (void)uv_signal_init(&worker->loop, handle);
    handle->data = worker;
    (void)uv_signal_start(handle, callback, number);
}

int kolo_worker_main(int fd_in, int fd_out, pid_t guardian)
{
    struct worker worker = {.state = WAITING, .deadline = KOLO_NEVER, .guardian = guardian};
    (void)signal(SIGPIPE, SIG_IGN);
    if (kolo_loop_open(&worker.loop) != KOLO_OK) {
        fprintf(stderr, "agent: %s\n", kolo_error_detail());
        return EXIT_TROUBLE;
    }
    worker.channel.frame = on_frame;
    worker.channel.ended = channel_ended;
    worker.channel.drained = drained;
    worker.channel.context = &worker;
    watch_signal(&worker, &worker.child, on_child, SIGCHLD);
    watch_signal(&worker, &worker.term, on_term, SIGTERM);
    watch_signal(&worker, &worker.hang, on_term, SIGHUP);
    watch_signal(&worker, &worker.intr, on_term, SIGINT);
    (void)uv_timer_init(&worker.loop, &worker.tick);
    worker.tick.data = &worker;
    (void)uv_timer_init(&worker.loop, &worker.patience);
    worker.patience.data = &worker;
    (void)uv_check_init(&worker.loop, &worker.polled);
    worker.polled.data = &worker;
    kolo_status status =
        kolo_agent_channel_open(&worker.channel, &worker.loop, fd_in, fd_out, false);
    if (status == KOLO_OK) {
        greet(&worker);
    } else {
        fprintf(stderr, "agent: %s\n", kolo_error_detail());
        hang_up(&worker);
    }
    (void)uv_run(&worker.loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&worker.loop);
    kolo_children_destroy(worker.children);
    kolo_relay_destroy(worker.relay);
    kolo_lookout_destroy(worker.lookout);
    kolo_spec_fini(&worker.spec);
    kolo_frames_fini(&worker.channel.frames);
    return worker.exit_status;
}
