/* The plain protocol of one slot: queues A and B, no ledger. README.md has the rules.
 *
 * What the broker does for one request is one step, and whoever asked acts on the answer at any later time. A question
 * about B is under way for any time, and so is its answer. So a pause of a process, or a partition that delivers late,
 * needs no step of its own. Every step is one d_step, and ends by Say.
 */
#ifndef CONTENDERS
#define CONTENDERS 3
#endif
#ifndef FAULTS
#define FAULTS 3        /* in one history */
#endif
#ifndef RUNS
#define RUNS 2          /* commands that each contender wants to run */
#endif
#ifndef LEASE
#define LEASE 2         /* ticks of the clock */
#endif
#ifndef DELAY
#define DELAY LEASE     /* the handover delay */
#endif
#define Say(...) printf(__VA_ARGS__)

mtype = {
    Idle,       /* connected */
    Wanting,    /* about to claim B */
    Claimed,    /* has claimed B, waits for the delay, and then proves it */
    Running,    /* command started */
    Doubt,      /* command started; it knows that the connection is gone */
    Leaving,    /* nothing of its command is left */
    Killing,    /* supervisor dead; the guard has the tree to kill */
    Gone        /* has run what it wanted, or is dead */
};

/* ---- the broker */
bool A = true;
byte B;                     /* its owner */
#define Nobody   0
#define Mine(i)  ((i) + 1)  /* the connection of a contender */
#define Old      (CONTENDERS + 1)   /* a connection that nobody uses any more, or a stranger's queue */

/* ---- contenders */
mtype = { None, Asked, Yes, No };
mtype state[CONTENDERS] = Idle;
mtype answer[CONTENDERS] = None;    /* to its question whether A is there and B its own */
bool closed[CONTENDERS];    /* the broker has closed its connection; it may not know */
byte asked[CONTENDERS];     /* ticks left of the lease that a good answer gives */
byte lease[CONTENDERS];     /* ticks left of that of the last proof */
byte delay[CONTENDERS];     /* ticks left of the handover delay */
bool alive[CONTENDERS];     /* something of its command may be alive */

/* ---- for the properties and the bounds */
byte runs[CONTENDERS], faults = FAULTS;
byte k;                     /* scratch of one step, 0 between steps */

/* ---- rules */
#ifdef WITHOUT_WAIT
#define Wait 0
#else
#define Wait DELAY
#endif
#ifdef WITHOUT_WAIT_SINCE_CLAIM     /* it counts since the claim was tried */
#define WaitBefore DELAY
#define WaitAfter(i) delay[i]
#else
#define WaitBefore 0
#define WaitAfter(i) Wait
#endif
#ifdef WITHOUT_KILL                 /* at the deadline */
#define InTime(i) true
#else
#define InTime(i) (!alive[i] || lease[i] > 1)
#endif
#ifdef WITHOUT_QUESTION             /* the lease counts from the answer */
#define Given(i) LEASE
#else
#define Given(i) asked[i]
#endif
#define Waits(i)   (lease[i] + asked[i] + delay[i] > 0)
#define Each(is)   (is(0) && is(1) && is(CONTENDERS - 1))
#define Any(is)    (is(0) || is(1) || is(CONTENDERS - 1))

inline drop(i) {
    if
    :: B == Mine(i) -> B = Old
    :: else
    fi;
    answer[i] = None; closed[i] = false; asked[i] = 0
}

/* It has no claim, and no command. */
inline rest(i) {
    lease[i] = 0; delay[i] = 0; answer[i] = None; asked[i] = 0; state[i] = (runs[i] < RUNS -> Idle : Gone)
}

inline start(i) {
    k = 0;
    do
    :: k < CONTENDERS -> assert(!alive[k]); k++     /* PROPERTY: never two commands */
    :: else -> break
    od;
    k = 0; alive[i] = true; runs[i]++; state[i] = Running; lease[i] = Given(i); asked[i] = 0; answer[i] = None
}

active [CONTENDERS] proctype contender() {
end:    do
    :: d_step { state[_pid] == Idle && A ->
        state[_pid] = Wanting; delay[_pid] = WaitBefore; Say("%d wants the slot\n", _pid) }
    :: d_step { state[_pid] == Wanting && B == Nobody && !closed[_pid] ->
        B = Mine(_pid); state[_pid] = Claimed; delay[_pid] = WaitAfter(_pid); Say("%d claims B\n", _pid) }

    /* A verification. */
    :: d_step { ((state[_pid] == Claimed && delay[_pid] == 0) || state[_pid] == Running) && answer[_pid] == None ->
        answer[_pid] = Asked; asked[_pid] = LEASE; Say("%d asks\n", _pid) }
    :: d_step { answer[_pid] == Asked && !closed[_pid] ->
        answer[_pid] = (A && B == Mine(_pid) -> Yes : No); Say("%d is answered\n", _pid) }
    :: d_step { answer[_pid] == Yes && state[_pid] == Claimed && Given(_pid) > 0 ->
        start(_pid); Say("%d STARTS\n", _pid) }
    :: d_step { answer[_pid] == Yes && Given(_pid) == 0 ->
        answer[_pid] = None; Say("%d is answered too late\n", _pid) }
    :: d_step { answer[_pid] == Yes && state[_pid] == Running && Given(_pid) > 0 ->
        lease[_pid] = (Given(_pid) > lease[_pid] -> Given(_pid) : lease[_pid]); asked[_pid] = 0; answer[_pid] = None;
        Say("%d goes on\n", _pid) }
    :: d_step { answer[_pid] == No && state[_pid] == Claimed ->
        if
        :: B == Mine(_pid) && !closed[_pid] -> B = Nobody
        :: else
        fi;
        rest(_pid); Say("%d has lost the slot\n", _pid) }

    /* The end of a command: by itself, at its deadline, or because the slot is lost. */
    :: d_step { state[_pid] == Running || state[_pid] == Doubt ->
        alive[_pid] = false; lease[_pid] = 0; asked[_pid] = 0; answer[_pid] = None; state[_pid] = Leaving;
        Say("%d: its tree is dead\n", _pid) }
    :: d_step { state[_pid] == Leaving ->
        if
        :: B == Mine(_pid) && !closed[_pid] -> B = Nobody
        :: else
        fi;
        rest(_pid); Say("%d deletes B\n", _pid) }
    :: d_step { state[_pid] == Killing ->
        alive[_pid] = false; lease[_pid] = 0; state[_pid] = Gone; Say("%d: its tree is dead\n", _pid) }

    /* It hears that its connection is gone, and takes another. The broker may not know of that, and keeps B a while. */
    :: d_step { closed[_pid] && state[_pid] != Gone ->
        drop(_pid);
        if
        :: state[_pid] == Running -> state[_pid] = Doubt
        :: state[_pid] == Claimed || state[_pid] == Wanting -> rest(_pid)
        :: else
        fi;
        Say("%d connects anew\n", _pid) }
    :: d_step { state[_pid] == Doubt && B == Nobody && !closed[_pid] ->
        B = Mine(_pid); state[_pid] = Running; Say("%d claims B again\n", _pid) }

    /* What goes wrong. Each takes one of FAULTS. */
    :: d_step { faults > 0 && !closed[_pid] && state[_pid] != Gone && state[_pid] != Killing ->
        faults--; closed[_pid] = true;
        if
        :: B == Mine(_pid) -> B = Nobody
        :: else
        fi;
        Say("the broker closes the connection of %d\n", _pid) }
    :: d_step { faults > 0 && !closed[_pid] && state[_pid] != Gone && state[_pid] != Killing ->
        faults--; closed[_pid] = true;
        if
        :: B == Mine(_pid) -> B = Old
        :: else
        fi;
        Say("the connection of %d is cut\n", _pid) }
    :: d_step { faults > 0 && state[_pid] != Gone && state[_pid] != Killing ->
        faults--; drop(_pid); delay[_pid] = 0; state[_pid] = (alive[_pid] -> Killing : Gone);
        Say("the supervisor of %d is KILLED\n", _pid) }
    od
}

active proctype world() {
end:    do
    :: d_step { B == Old -> B = Nobody; Say("an old connection is gone\n") }
    :: d_step { faults > 0 && B != Nobody -> faults--; B = Nobody; Say("B is DELETED\n") }
    :: d_step { faults > 0 && B == Nobody -> faults--; B = Old; Say("a stranger has B\n") }
    :: d_step { faults > 0 -> faults--; A = !A; Say("A is REMOVED, or made again\n") }
    :: d_step { faults > 0 ->
        faults--; B = Nobody; closed[0] = true; closed[1] = true; closed[CONTENDERS - 1] = true;
        Say("the broker RESTARTS\n") }
    :: d_step { Each(InTime) && Any(Waits) ->
        k = 0;
        do
        :: k < CONTENDERS ->
            lease[k] = (lease[k] > 0 -> lease[k] - 1 : 0); asked[k] = (asked[k] > 0 -> asked[k] - 1 : 0);
            delay[k] = (delay[k] > 0 -> delay[k] - 1 : 0); k++
        :: else -> break
        od;
        k = 0; Say("tick\n") }
    od
}
