/* The protocol of one slot: its claim B, its ledger T, its contenders. README.md has the rules by number.
 *
 * What a broker does for one request (declare, consume, delete, look) is one step: asked, done, answered. A contender
 * acts on the answer at any later time. What was published is under way for any time, even when its sender is gone.
 * What was delivered waits in the contender's socket for any time. So a pause of a process needs no step of its own.
 *
 * Records are numbered; the messages "held r" and "released r" are bit r of a set. The term that r states is term[r].
 * Every step is one d_step, and ends by Say.
 */
#ifndef CONTENDERS
#define CONTENDERS 3
#endif
#ifndef FAULTS
#define FAULTS 2        /* in one history */
#endif
#ifndef RUNS
#define RUNS 1          /* commands that each contender wants to run */
#endif
#ifndef RECORDS
#define RECORDS 4       /* 6 at most */
#endif
#ifndef LEASE
#define LEASE 2         /* ticks of the clock */
#endif
#ifndef DELAY
#define DELAY LEASE     /* the handover delay */
#endif

mtype = {
    Off,        /* no connection */
    Line,       /* connected, somewhere in line */
    Looked,     /* has seen how many messages T has, and that nobody consumes it */
    Reading,    /* at the reader's place: consumes T exclusively; has not published a record */
    Writing,    /* own record published, not yet confirmed and proven */
    Next,       /* own record confirmed and proven: waits for what lets it start */
    Out,        /* waits with B away from that place, with all in hand that T had; rec is 0 if it has no record yet */
    Back,       /* at the reader's place again, because the delay is over */
    Waited,     /* may start: knows that all are released, or has proven place and B since the delay */
    Running,    /* command started; the reader's place is its claim */
    Holding,    /* command started; B is its claim, the reader's place is given back */
    Doubt,      /* command started; the connection is gone */
    Leaving,    /* nothing of its command is left; gives back what it has */
    Killing,    /* supervisor dead; the guard has the tree to kill */
    Gone        /* has run what it wanted, or is dead */
};

/* What a contender's look at T, and what it then read, says about the past. */
#define Known   0       /* there was a "held" */
#define Missing 1       /* there was no T */
#define Empty   2       /* T had no "held": somebody has removed what was there */
#define Unused  3       /* there was no T, looked at with B, and nothing else tells of a use: the first use */

/* ---- the broker */
bool tExists;
byte tHeld, tReleased;      /* messages of T. All of them are delivered to its consumer, if it has one */
byte reader;          /* T's exclusive consumer, a connection */
byte B;             /* the connection that has B */
byte backHeld, backReleased;    /* were in the hand of somebody away from the reader's place, and go back to T */
#ifdef SPLIT
bool split;         /* there is a second B, which is in no other way different from the first */
byte B2;            /* the connection that has it */
#endif
byte heldFly, releasedFly;  /* published, and on their way */
byte early;         /* "released r" says that r has not seen everybody before it end */
byte dropped;       /* "held r" is neither in T nor in any hand, though it was */
#ifdef RESTART
byte diskHeld, diskReleased;    /* messages that are on disk */
#endif

/* Connections: 0 is none; then one for each contender; then what the broker still has of the one before that. */
#define Mine(i)  ((i) + 1)
#define OldOf(i) ((i) + 1 + CONTENDERS)
#define Stranger (2 * CONTENDERS + 1)
bool open[CONTENDERS];      /* the broker serves the connection Mine(i) */

/* ---- contenders: what each knows and has */
mtype state[CONTENDERS] = Off;
byte seenHeld[CONTENDERS], seenReleased[CONTENDERS];    /* of T, since it came to the reader's place */
byte sockHeld[CONTENDERS], sockReleased[CONTENDERS];    /* delivered, not read yet */
byte past[CONTENDERS];
bool told[CONTENDERS];      /* it has acknowledged what tells of the past */
byte toRead[CONTENDERS];    /* messages that it saw and still has to get */
byte rec[CONTENDERS];       /* own record */
byte former[CONTENDERS];    /* own records of lower terms, published since it came to the reader's place */
bool confirmed[CONTENDERS]; /* has the confirm of its record */
bool hasB[CONTENDERS];      /* believes that B is its own */
byte lease[CONTENDERS];     /* ticks left, counted from the beginning of its last proof */
byte delay[CONTENDERS];     /* ticks left of the handover delay, or NotBegun */
bool alive[CONTENDERS];     /* something of its command may be alive */
byte runs[CONTENDERS];
byte born;          /* how many have connected once */

/* ---- what nobody knows: for the properties and the bounds */
byte term[RECORDS + 1];
byte records;           /* how many there are */
byte highest;           /* term ever; stands for the wall clock */
byte lastStarted;       /* term of the last start */
byte faults = FAULTS;
bool emptied;           /* T was purged or deleted */
bool bounded;           /* records used up: how this history goes on says nothing */
#ifdef STUCK
byte idle = STUCK;      /* ticks that pass although nobody waits for the clock */
#endif
byte k, top, overtaken;     /* scratch of one step, 0 between steps */

#define Bit(r)    (1 << (r))
#define Count(x)  (((x)>>1&1) + ((x)>>2&1) + ((x)>>3&1) + ((x)>>4&1) + ((x)>>5&1) + ((x)>>6&1))
#define Own(i)    (Bit(rec[i]) | former[i])
#define Others(i) (seenHeld[i] & ~Own(i))
#define AtPlace(i) (state[i] == Reading || state[i] == Writing || state[i] == Next || state[i] == Back || \
    state[i] == Waited)
#define IsOut(i) (state[i] == Out)
#define Waits(i) (AtPlace(i) || IsOut(i))
#define Proven(i) (state[i] == Next || state[i] == Waited || ((IsOut(i) || state[i] == Back) && rec[i] != 0))
#define Started(i) (state[i] == Running || state[i] == Holding || state[i] == Doubt)
#define AsksForB(i) (state[i] == Doubt && open[i])
#define Each(is)  (is(0) && is(1) && is(CONTENDERS - 1))
#define Any(is)   (is(0) || is(1) || is(CONTENDERS - 1))

#define HasLease(i) (lease[i] > 0)
#define NotBegun (DELAY + 1)
#define HasDelay(i) (delay[i] > 0 && delay[i] != NotBegun)
#define InTime(i) (!alive[i] || lease[i] > 1)
#define IsGone(i) (state[i] == Gone)
#define OldIsGone(i) (!open[i] && !HasB(OldOf(i)) && reader != OldOf(i))

/* B. In a split cluster who claims it, or looks at it, is on any side. */
#ifdef SPLIT
#define HasB(c)    (B == (c) || B2 == (c))
#define BIsFree(i) ((B == 0 || (split && B2 == 0)) && !HasB(Mine(i)))
#define BIsTaken(i) ((B != 0 && B != Mine(i)) || (B2 != 0 && B2 != Mine(i)))
#else
#define HasB(c)    (B == (c))
#define BIsFree(i) (B == 0)
#define BIsTaken(i) (B != 0 && B != Mine(i))
#endif
/* The broker frees a connection's B and puts back what it has in hand at different moments, but no tick apart, nor
 * the 100 ms of a command before it gives the reader's place back. */
#define HasOldB(i) (HasB(OldOf(i)) || (HasB(Mine(i)) && (!open[i] || state[i] == Gone || state[i] == Killing)))
#define HandsAreEmpty ((backHeld | backReleased) == 0 || Any(HasOldB))
/* What is in hand away from that place comes back to T, also if somebody else was there: see "Limits" in README.md. */
#define IsAwayWithoutB(i) (IsOut(i) && !HasB(Mine(i)))
#define HandsCount ((backHeld | backReleased) == 0 && !Any(IsAwayWithoutB))
/* When looking for states in which nothing happens any more: no look again in vain, no clock that ticks for nobody. */
#ifdef STUCK
#define WorthALook (tHeld != 0 || BIsFree(_pid))
#define ClockRuns (Any(HasDelay) || idle > 0)
#else
#define WorthALook true
#define ClockRuns true
#endif
/* All that is in T or comes back to it if no connection is left. */
#define HeldBy(i)     (IsOut(i) && open[i] -> seenHeld[i] & ~dropped : 0)
#define ReleasedBy(i) (IsOut(i) && open[i] -> seenReleased[i] : 0)
#define EveryHeld     (tHeld | backHeld | HeldBy(0) | HeldBy(1) | HeldBy(CONTENDERS - 1))
#define EveryReleased (tReleased | backReleased | ReleasedBy(0) | ReleasedBy(1) | ReleasedBy(CONTENDERS - 1))
#ifdef RESTART
#define OnItsWayToDisk(x) ((tHeld & ~diskHeld & Bit(x)) != 0)
#else
#define OnItsWayToDisk(x) false
#endif

/* To look and to consume as one step makes fewer states. Apart, they are checked with two contenders. */
#ifdef LOOK_IS_ENTRY
#define LookIsEntry true
#else
#define LookIsEntry false
#endif

#include "rules.pml"
#include "symmetry.pml"
#include "steps.pml"

active [CONTENDERS] proctype contender() {
end:    do
#include "contender.pml"
#include "connection.pml"
#include "faults.pml"
    od
}

active proctype world() {
end:    do
#define r 1
#include "message.pml"
#undef r
#define r 2
#include "message.pml"
#undef r
#define r 3
#include "message.pml"
#undef r
#if RECORDS >= 4
#define r 4
#include "message.pml"
#undef r
#endif
#if RECORDS >= 5
#define r 5
#include "message.pml"
#undef r
#endif
#if RECORDS >= 6
#define r 6
#include "message.pml"
#undef r
#endif
#include "world.pml"
    od
}
