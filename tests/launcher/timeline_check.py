# SPDX-License-Identifier: Apache-2.0
"""Compares a trace with the calls that helpers/calls.c made.

    timeline_check.py FILE RANKS COUNT [key=value ...]
        kept=N      each rank has at most N calls, the latest ones
        victim=R    R was killed before its allreduce COUNT / 2
        late=R      R came last to most allreduces
        clocks=N    there are N clocks; all are aligned with the first one within a millisecond
"""
import json
import sys

path, ranks, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
asked = dict(word.split("=") for word in sys.argv[4:])
victim = int(asked.get("victim", -1))
with open(path, encoding="utf-8") as file:
    trace = json.load(file)
events = trace["traceEvents"]


def expect(condition, *words):
    if not condition:
        print("FAIL:", *words)
        sys.exit(1)


def calls(rank, name):
    return [e for e in events if e["ph"] == "X" and e["pid"] == rank and e["name"] == name
            and e["cat"] != "wait"]


for event in events:
    if event["ph"] != "M":
        expect(event["ts"] >= 0 and event.get("dur", 0) >= 0, event)
names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
expect(sorted(names) == list(range(ranks)), "ranks", names)
for rank in range(ranks):
    expect(names[rank].startswith(f"rank {rank} on "), names[rank])
    if "kept" in asked:
        fact = trace["otherData"]["ranks"][rank]
        expect(fact["calls"] == int(asked["kept"]) and fact["dropped"] > 0, fact)
        continue
    expect(len(calls(rank, "init")) == 1, "init of", rank)
    reduces = calls(rank, "allreduce")
    done = count // 2 if victim >= 0 else count + 1
    whole = [e for e in reduces if not e["args"].get("open") and "status" not in e["args"]]
    # A surviving rank may learn of the death before the last common allreduce has ended on it,
    # because over links other ranks are needed for that.
    least = done - (victim >= 0 and rank != victim)
    expect(least <= len(whole) <= done, "allreduces of", rank, len(whole), done)
    for i, event in enumerate(whole):
        args = event["args"]
        expect(args["communicator"] == 0 and args["ranks"] == ranks and args["bytes"] == 400
               and args["type"] == "float32" and args["plan"] and args["transport"], args)
        expect(args["operator"] == ("max" if i == count else "sum"), args)
        expect(args["sequence"] == i + (i == count), args)
        expect(i == 0 or whole[i - 1]["ts"] + whole[i - 1]["dur"] <= event["ts"] + 0.002, event)
    if victim >= 0:
        expect(len(reduces) == len(whole) + (rank != victim), "the call of", rank, "in which", victim, "died")
        if rank != victim:
            expect(reduces[-1]["args"].get("status") == "KOLO_ERR_PEER" or reduces[-1]["args"].get("open"),
                   reduces[-1])
        continue
    named = whole[count]["args"]
    expect(named["name"] == "grad/1" and named["asynchronous"], named)
    broadcast = calls(rank, "broadcast")
    expect(len(broadcast) == 1 and broadcast[0]["args"]["root"] == 1, broadcast)
    expect(len(calls(rank, "send")) == (rank == 0) and len(calls(rank, "recv")) == (rank == 1), rank)

if victim < 0 and "kept" not in asked:
    expect(calls(0, "send")[0]["args"]["to"] == 1 and calls(1, "recv")[0]["args"]["from"] == 0, "peers")
    arrows = {e["ph"]: e for e in events if e["ph"] in "sf"}
    expect(arrows["s"]["id"] == arrows["f"]["id"] and arrows["s"]["ts"] < arrows["f"]["ts"] +
           calls(1, "recv")[0]["dur"], arrows)
    for sequence in range(count): # no rank ends before all have begun
        same = [e for rank in range(ranks) for e in calls(rank, "allreduce")
                if e["args"]["sequence"] == sequence]
        slack = 1000 if int(asked.get("clocks", 1)) > 1 else 0.002
        expect(max(e["ts"] for e in same) <= min(e["ts"] + e["dur"] for e in same) + slack, same)
if victim >= 0:
    verdict = [e for e in events if e.get("cat") == "verdict"]
    expect(len(verdict) == 1 and f"rank {victim} " in verdict[0]["name"], verdict)
    ends = [e for e in events if e.get("cat") == "end" and e["pid"] == victim]
    expect(len(ends) == 1 and ends[0]["name"] == "killed by signal 9", ends)
    last = calls(victim, "allreduce")[-1]
    expect(ends[0]["ts"] >= last["ts"] + last["dur"], "killed before its last call", ends, last)
if "late" in asked:
    late = int(asked["late"])
    times = [e["args"]["last"] == late for e in calls((late + 1) % ranks, "allreduce")]
    expect(sum(times) >= 0.6 * count, # the late rank's processor may be busy
           "late in", sum(times), "of", count)
clocks = trace["otherData"]["clocks"]
expect(len(clocks) == int(asked.get("clocks", 1)), clocks)
for clock in clocks[1:]:
    expect(clock["by"] == "calls in common" and clock["uncertainty_ns"] < 1e6, clock)
