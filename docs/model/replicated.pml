/* The protocol of one slot whose ledger T is a quorum queue with a single active consumer. There is no B. The broker
 * may end an active consumer and revive it later, without a word to its client. README.md has the rules by letter.
 *
 * Records are numbered; "held r" and "released r" are bit r of a set, whoever has them in hand. T begins with
 * "released 0". Every step is one d_step, and ends by Say.
 */
#ifndef CONTENDERS
#define CONTENDERS 3
#endif
#ifndef FAULTS
#define FAULTS 1        /* in one history */
#endif
#ifndef RECORDS
#define RECORDS 4
#endif
#ifndef LEASE
#define LEASE 2         /* ticks of the clock */
#endif
#ifndef DELAY
#define DELAY LEASE     /* the handover delay */
#endif
#define Say(...) printf(__VA_ARGS__)

mtype = {
    Line,       /* connected, somewhere in line */
    Reading,    /* consumes T; whether it is active it does not know */
    Writing,    /* own record published, not yet delivered to it */
    Next,       /* own record was delivered to it: waits for what lets it start */
    Running,    /* command started */
    Gone        /* has run, or is dead */
};

/* ---- the broker */
byte tHeld, tReleased = 1;
byte door;                    /* 1 + the contender to whose consumer T delivers; 0: none */
bool consumes[CONTENDERS];      /* it has a consumer, active or not */
bool cut[CONTENDERS];           /* T cannot reach its consumer */
byte heldFly, releasedFly;      /* published, and on their way */

/* ---- contenders: what each has been sent, knows and has */
mtype state[CONTENDERS] = Line;
byte sockHeld[CONTENDERS], sockReleased[CONTENDERS];    /* delivered, not read yet; without the own record */
byte own[CONTENDERS];           /* deliveries of the own record, not read yet */
byte again[CONTENDERS];         /* bit n: the n-th of those came with all that T has, the copy too */
bool last[CONTENDERS];          /* the broker knows the last of those */
bool copied[CONTENDERS];        /* the copy was delivered before, and is read now or with the next own record */
byte firstHeld[CONTENDERS], firstReleased[CONTENDERS];  /* unread when the last one of those was delivered */
byte seenHeld[CONTENDERS], seenReleased[CONTENDERS];
byte rec[CONTENDERS];           /* own record */
bool inHand[CONTENDERS];        /* has the own record, not given back */
bool valid[CONTENDERS];         /* and the broker knows that delivery */
byte round[CONTENDERS];         /* of the proof under way; 0: there is none */
bool nacked[CONTENDERS];        /* has given the own record back in this round */
bool late[CONTENDERS];          /* the proof under way, or the last one, began after the delay */
bool blind[CONTENDERS];         /* T was empty when it recorded itself */
byte asked[CONTENDERS];         /* ticks left of the lease that the proof under way will give */
byte lease[CONTENDERS];         /* ticks left of that of the last proof that counts */
byte delay[CONTENDERS];         /* ticks left of the handover delay */
bool alive[CONTENDERS];         /* something of its command may be alive */

/* ---- what nobody knows: for the properties and the bounds */
byte term[RECORDS + 1];
byte records, highest, lastStarted, faults = FAULTS;
byte k, top;                    /* scratch of one step, 0 between steps */

#define Bit(r)      (1 << (r))
#define Mine(i)     ((i) + 1)
#define OthersHeld(i) (seenHeld[i] & ~Bit(rec[i]))
#define Unreleased(i) (OthersHeld(i) & ~seenReleased[i])
#define AboveIn(i, set, r) (((set) & Bit(r)) && term[r] >= term[rec[i]])
#define SomeAbove(i, set) (AboveIn(i, set, 1) || AboveIn(i, set, 2) || AboveIn(i, set, 3) || AboveIn(i, set, RECORDS))
#ifdef WITHOUT_CONTEST
#define Contested(i) false
#else
#define Contested(i) SomeAbove(i, Unreleased(i))
#endif
#ifdef WITHOUT_TERM
#define Overtaken(i) false
#else
#define Overtaken(i) SomeAbove(i, (seenHeld[i] | seenReleased[i]) & ~Bit(rec[i]))
#endif
/* What it may remove, of what T has and it has read. */
#define IsBelow(i, r)  (term[r] < term[rec[i]] -> Bit(r) : 0)
#define Below(i)       (IsBelow(i, 1) | IsBelow(i, 2) | IsBelow(i, 3) | IsBelow(i, RECORDS))
#define IsPast(i)      (state[i] == Running || PairsAlone -> seenHeld[i] : seenHeld[i] & seenReleased[i])
#define Removable(i)   (tHeld & IsPast(i) & Below(i))
#ifdef WITHOUT_PAIRS
#define PairsAlone true
#else
#define PairsAlone false
#endif
/* highest stands for the wall clock. */
#ifdef WITHOUT_CLOCK
#define ClockIsAbove(i) blind[i]
#else
#define ClockIsAbove(i) true
#endif
/* T tells of the past: the first record that it ever had, or a later one. */
#define Tells(i)    (seenHeld[i] != 0 || (seenReleased[i] & 1))
#ifdef WITHOUT_EVERY_RELEASE    /* only that of the newest */
#define Free(i)     (!blind[i] && (seenReleased[i] & ~Bit(rec[i])) != 0)
#else
#define Free(i)     (!blind[i] && Unreleased(i) == 0)
#endif
#ifdef WITHOUT_BARRIER
#define AllIsRead(i) true
#else
#define AllIsRead(i) (own[i] + copied[i] + sockHeld[i] + sockReleased[i] == 0)
#endif
#ifdef WITHOUT_SECOND_ROUND
#define Rounds 1
#else
#define Rounds 2
#endif
#ifdef WITHOUT_LEASE
#define Lasts(i) true
#else
#define Lasts(i) (lease[i] > 0)
#endif
#ifdef WITHOUT_SILENCE
#define MayRecord(i) true
#else
#define MayRecord(i) Tells(i)
#endif
#ifdef WITHOUT_DELAY_SINCE_RECORD
#define DelayOf(i) (seenHeld[i] == 0 -> DELAY : delay[i])
#else
#define DelayOf(i) DELAY
#endif
#ifdef WITHOUT_PROOF_AFTER_DELAY
#define Late(i) true
#else
#define Late(i) late[i]
#endif
/* Other proofs of who has not started change nothing. */
#ifdef WITHOUT_PROOF_AFTER_DELAY
#define WorthAProof(i) true
#else
#define WorthAProof(i) (Free(i) || delay[i] == 0)
#endif
#define InTime(i)  (!alive[i] || lease[i] > 1)
#define Waits(i)   (lease[i] + asked[i] + delay[i] > 0)
#define Each(is)   (is(0) && is(1) && is(CONTENDERS - 1))
#define Any(is)    (is(0) || is(1) || is(CONTENDERS - 1))
#define Alone(i)   (door == Mine(i) && tHeld == 0 && (tReleased & 1) == 0)

/* T delivers all to its active consumer i: its own record among the rest. */
inline deliver(i, h, rel, anew) {
    sockHeld[i] = sockHeld[i] | ((h) & ~Bit(rec[i])); sockReleased[i] = sockReleased[i] | (rel);
    if
    :: rec[i] != 0 && ((h) & Bit(rec[i])) ->
        again[i] = again[i] | ((anew) << own[i]); own[i]++; last[i] = true; firstHeld[i] = sockHeld[i]; firstReleased[i] = sockReleased[i]
    :: else
    fi
}

/* The broker forgets what consumer i has in hand. */
inline deactivate(i) {
    if
    :: door == Mine(i) -> door = 0
    :: else
    fi;
    last[i] = false; valid[i] = false
}

inline noProof(i) { round[i] = 0; nacked[i] = false; asked[i] = 0 }

/* What was delivered to a consumer that is cancelled, or whose connection is gone, is not read any more. */
inline leaveT(i) {
    deactivate(i); consumes[i] = false; cut[i] = false; noProof(i);
    sockHeld[i] = 0; sockReleased[i] = 0; firstHeld[i] = 0; firstReleased[i] = 0; own[i] = 0; again[i] = 0; copied[i] = false; inHand[i] = false
}

inline forget(i) {
    leaveT(i); seenHeld[i] = 0; seenReleased[i] = 0; rec[i] = 0; lease[i] = 0; delay[i] = 0; late[i] = false;
    blind[i] = false
}

/* It gives up a place in which nothing has run. */
inline stepBack(i) {
    if
    :: rec[i] != 0 && !blind[i] -> releasedFly = releasedFly | Bit(rec[i])
    :: else
    fi;
    forget(i); state[i] = Line
}

inline publishHeld(i) {
    blind[i] = !Tells(i);
    records++; rec[i] = records; top = (ClockIsAbove(i) -> highest : 0); k = 1;
    do
    :: k < records ->
        if
        :: ((seenHeld[i] | seenReleased[i]) & Bit(k)) && term[k] > top -> top = term[k]
        :: else
        fi;
        k++
    :: else -> break
    od;
    term[records] = top + 1; highest = (top + 1 > highest -> top + 1 : highest);
    heldFly = heldFly | Bit(rec[i]); state[i] = Writing; k = 0; top = 0
}

inline start(i) {
    k = 0;
    do
    :: k < CONTENDERS -> assert(!alive[k]); k++     /* PROPERTY: never two commands */
    :: else -> break
    od;
    k = 0;
    assert(term[rec[i]] > lastStarted);             /* PROPERTY: terms grow in the order of starts */
    lastStarted = term[rec[i]]; alive[i] = true; state[i] = Running; delay[i] = 0
}

/* It was away meanwhile: rule E. k: the copy has come. */
#ifdef WITHOUT_COPY
#define Copy(i) false
#else
#define Copy(i) (k && (state[i] == Next || state[i] == Running))
#endif
#ifdef WITHOUT_TWICE
#define Twice(i) false
#else
#define Twice(i) (inHand[i] && (state[i] == Next || state[i] == Running))
#endif
#define Noticed(i) (Copy(i) || Twice(i))
/* Its own record is read. */
inline readOwn(i) {
    own[i]--; valid[i] = (own[i] == 0 && last[i]);
    if
    :: own[i] == 0 ->       /* what was delivered before the last one is read before it */
        seenHeld[i] = seenHeld[i] | firstHeld[i]; seenReleased[i] = seenReleased[i] | firstReleased[i];
        sockHeld[i] = sockHeld[i] & ~firstHeld[i]; sockReleased[i] = sockReleased[i] & ~firstReleased[i];
        firstHeld[i] = 0; firstReleased[i] = 0
    :: else
    fi;
    k = copied[i]; copied[i] = again[i] & 1; again[i] = again[i] >> 1;
    if
    :: Noticed(i) && state[i] == Next -> stepBack(i)
    :: Noticed(i) && state[i] == Running -> noProof(i); inHand[i] = true
    :: !Noticed(i) && inHand[i] -> noProof(i)
    :: !Noticed(i) && !inHand[i] ->
        inHand[i] = true;
        if
        :: state[i] == Writing -> state[i] = Next; delay[i] = DelayOf(i); copied[i] = false
        :: nacked[i] && round[i] < Rounds -> round[i]++; nacked[i] = false
        :: nacked[i] && round[i] == Rounds ->
            if
            :: !Contested(i) -> lease[i] = (asked[i] > lease[i] -> asked[i] : lease[i])
            :: else -> late[i] = false
            fi;
            noProof(i)
        :: else
        fi
    :: else
    fi;
    k = 0
}

active [CONTENDERS] proctype contender() {
end:    do
    :: d_step { state[_pid] == Line && (_pid == 0 || state[_pid - 1] != Line) ->
        consumes[_pid] = true; state[_pid] = Reading; Say("%d consumes T\n", _pid) }
    :: d_step { (state[_pid] == Reading || state[_pid] == Next) && (sockHeld[_pid] | sockReleased[_pid]) != 0 ->
        seenHeld[_pid] = seenHeld[_pid] | sockHeld[_pid]; seenReleased[_pid] = seenReleased[_pid] | sockReleased[_pid];
        sockHeld[_pid] = 0; sockReleased[_pid] = 0; firstHeld[_pid] = 0; firstReleased[_pid] = 0;
        Say("%d reads: held %x, released %x\n", _pid, seenHeld[_pid], seenReleased[_pid]) }
#ifndef WITHOUT_COPY
    :: d_step { copied[_pid] && (state[_pid] == Next || state[_pid] == Running) ->
        copied[_pid] = false; noProof(_pid);
        if
        :: state[_pid] == Next -> stepBack(_pid)
        :: else
        fi;
        Say("%d reads the copy\n", _pid) }
#endif
    :: d_step { own[_pid] > 0 -> readOwn(_pid); Say("%d reads its own record\n", _pid) }
    :: d_step { state[_pid] == Reading && records < RECORDS && (MayRecord(_pid) || Alone(_pid)) ->
        publishHeld(_pid); Say("%d publishes held %d, term %d\n", _pid, rec[_pid], term[rec[_pid]]) }

    /* A proof: a question that is answered behind all that was delivered, then two rounds. */
    :: d_step { (state[_pid] == Running || (state[_pid] == Next && WorthAProof(_pid))) &&
            (round[_pid] == 0 || asked[_pid] == 0) ->
        noProof(_pid); round[_pid] = 1; asked[_pid] = LEASE; late[_pid] = (delay[_pid] == 0); Say("%d begins a proof\n", _pid) }
    :: d_step { round[_pid] > 0 && inHand[_pid] && !nacked[_pid] && AllIsRead(_pid) ->
        inHand[_pid] = false; nacked[_pid] = true;
        if
        :: valid[_pid] && door == Mine(_pid) -> valid[_pid] = false; deliver(_pid, tHeld, tReleased, 0)
        :: else
        fi;
        Say("%d gives its record back, round %d\n", _pid, round[_pid]) }

    :: d_step { state[_pid] == Next && Lasts(_pid) && !Overtaken(_pid) &&
            (Free(_pid) || (delay[_pid] == 0 && Late(_pid))) ->
        start(_pid); Say("%d STARTS, term %d\n", _pid, term[rec[_pid]]) }
    :: d_step { state[_pid] == Next && records < RECORDS && Overtaken(_pid) ->
        stepBack(_pid); Say("%d begins anew\n", _pid) }
#ifdef STEP_BACK
    :: d_step { faults > 0 && records < RECORDS && (state[_pid] == Writing || state[_pid] == Next) ->
        faults--; stepBack(_pid); Say("%d steps back\n", _pid) }
#endif

    /* Who is next removes pairs below its term; who has started, all that is below it. */
    :: d_step { (state[_pid] == Next || state[_pid] == Running) && lease[_pid] > 0 && inHand[_pid] && valid[_pid] &&
            door == Mine(_pid) && Removable(_pid) != 0 ->
        k = Removable(_pid); tHeld = tHeld & ~k; tReleased = tReleased & ~k; k = 0;
        Say("%d removes what is past\n", _pid) }

    /* The end of a command, by itself or at its deadline; the guard's will does the same. */
    :: d_step { state[_pid] == Running ->
        alive[_pid] = false; releasedFly = releasedFly | Bit(rec[_pid]); forget(_pid); state[_pid] = Gone;
        Say("%d: its tree is dead, RELEASED\n", _pid) }

    /* What goes wrong. Each takes one of FAULTS. */
#ifdef CRASH
    :: d_step { faults > 0 && state[_pid] == Running ->         /* host and all */
        faults--; alive[_pid] = false; forget(_pid); state[_pid] = Gone; Say("the HOST of %d dies\n", _pid) }
    :: d_step { faults > 0 && (state[_pid] == Writing || state[_pid] == Next) ->
        faults--; forget(_pid); state[_pid] = Gone; Say("the HOST of %d dies\n", _pid) }
#endif
#ifdef RESET
    :: d_step { faults > 0 && consumes[_pid] && state[_pid] == Running ->
        faults--; leaveT(_pid); Say("%d is RESET\n", _pid) }
    :: d_step { faults > 0 && consumes[_pid] && state[_pid] != Running ->
        faults--; stepBack(_pid); Say("%d is RESET\n", _pid) }
#endif
    :: d_step { state[_pid] == Running && !consumes[_pid] -> consumes[_pid] = true; Say("%d consumes T again\n", _pid) }
#ifdef REPAIR
    :: d_step { state[_pid] == Running && (tHeld & Bit(rec[_pid])) == 0 && (heldFly & Bit(rec[_pid])) == 0 ->
        heldFly = heldFly | Bit(rec[_pid]); Say("%d publishes held %d again\n", _pid, rec[_pid]) }
#endif
#ifdef CUT
    :: d_step { faults > 0 && consumes[_pid] && !cut[_pid] ->
        faults--; cut[_pid] = true; deactivate(_pid); Say("%d is CUT OFF\n", _pid) }
    :: d_step { cut[_pid] -> cut[_pid] = false; Say("%d is there again\n", _pid) }
#endif
    :: d_step { door == 0 && consumes[_pid] && !cut[_pid] ->
        door = Mine(_pid); deliver(_pid, tHeld, tReleased, 1); Say("T delivers to %d\n", _pid) }
    od
}

inline arrive(h, rel) {
    tHeld = tHeld | (h); tReleased = tReleased | (rel);
    if
    :: door != 0 -> k = door - 1; deliver(k, h, rel, 0); k = 0
    :: else
    fi
}

#define Messages(r) \
    :: d_step { heldFly & Bit(r) -> heldFly = heldFly & ~Bit(r); arrive(Bit(r), 0); Say("held %d arrives\n", r) } \
    :: d_step { releasedFly & Bit(r) -> \
        releasedFly = releasedFly & ~Bit(r); arrive(0, Bit(r)); Say("released %d arrives\n", r) }

active proctype world() {
end:    do
    Messages(1)
    Messages(2)
    Messages(3)
#if RECORDS >= 4
    Messages(4)
#endif
#ifdef PURGE
    :: d_step { faults > 0 && door == 0 && (tHeld | tReleased) != 0 ->
        faults--; tHeld = 0; tReleased = 0; Say("T PURGED\n") }
#endif
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
