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
#define RECORDS 4       /* 3 or 4 */
#endif
#ifndef LEASE
#define LEASE 2         /* ticks of the clock */
#endif
#ifndef DELAY
#define DELAY LEASE     /* the handover delay */
#endif
#define UNREAD 4        /* own records and copies in a socket, at most */
#define Say(...) printf(__VA_ARGS__)

mtype = {
    Line,       /* connected, has a token or waits for one */
    Reading,    /* consumes T; whether it is active it does not know */
    Writing,    /* own record published, not yet delivered to it */
    Next,       /* own record was delivered to it: waits for what lets it start */
    Running,    /* command started */
    Gone        /* has run, or is dead */
};

/* ---- the broker */
byte tHeld, tReleased = 1;
byte afterHeld[RECORDS + 1], afterReleased[RECORDS + 1];    /* what came to T after "held r" */
byte reader;                      /* 1 + the contender to whose consumer T delivers; 0: none */
bool consumes[CONTENDERS];      /* it has a consumer, active or not */
bool cut[CONTENDERS];           /* T cannot reach its consumer */
byte tCopy;                     /* the copies of records */
byte heldFly, releasedFly, copyFly;     /* published, and on their way */
byte early;                     /* "released r" says that r has not seen everybody before it end */

/* ---- what a contender has been sent: others' records, its own or the copy, others' records, its own ... */
#define At(i, n) ((i) * (UNREAD + 1) + (n))
byte sockHeld[CONTENDERS * (UNREAD + 1)], sockReleased[CONTENDERS * (UNREAD + 1)];
byte own[CONTENDERS];           /* deliveries of the own record and the copy */
byte copies[CONTENDERS];        /* bit n: the n-th of those is the copy */
bool last[CONTENDERS];          /* the broker knows the last delivery of the own record */

/* ---- what it knows and has */
mtype state[CONTENDERS] = Line;
byte seenHeld[CONTENDERS], seenReleased[CONTENDERS];
bool knocked[CONTENDERS];       /* has read nothing of T but what is no record, and its own */
byte rec[CONTENDERS];           /* own record */
bool inHand[CONTENDERS];        /* has it, not given back */
bool copyInHand[CONTENDERS];
bool valid[CONTENDERS];         /* has the own record, and the broker knows that delivery */
byte round[CONTENDERS];         /* of the proof under way; 0: there is none */
bool late[CONTENDERS];          /* the proof under way, or the last one, began after the delay */
bool blind[CONTENDERS];         /* T did not tell who held the slot when it came */
byte asked[CONTENDERS];         /* ticks left of the lease that the proof under way will give */
byte lease[CONTENDERS];         /* ticks left of that of the last proof that counts */
byte delay[CONTENDERS];         /* ticks left of the handover delay */
bool alive[CONTENDERS];         /* something of its command may be alive */

/* ---- what nobody knows: for the properties and the bounds */
byte term[RECORDS + 1];
byte records, highest, lastStarted, faults = FAULTS;
byte k, top;                    /* scratch of one step, 0 between steps */

#define Bit(r)        (1 << (r))
#define Mine(i)       ((i) + 1)
#define Unreleased(i) (seenHeld[i] & ~seenReleased[i])
#define AboveIn(i, set, r) (((set) & Bit(r)) && term[r] >= term[rec[i]])
#define SomeAbove(i, set) \
    (AboveIn(i, set, 1) || AboveIn(i, set, 2) || AboveIn(i, set, 3) || AboveIn(i, set, RECORDS))
#define OlderIs(i, r) (term[r] < term[rec[i]] -> Bit(r) : 0)
#define Older(i)      (OlderIs(i, 1) | OlderIs(i, 2) | OlderIs(i, 3) | OlderIs(i, RECORDS))

/* ---- rules that are conditions */
#ifdef WITHOUT_HEED
#define Contested(i) false
#define Echo(i) false
#else
#define Contested(i) SomeAbove(i, Unreleased(i))
#define Echo(i) (state[i] == Next && (sockHeld[At(i, 0)] & ~(seenReleased[i] | sockReleased[At(i, 0)])) != 0)
#endif
#ifdef WITHOUT_TERM
#define Overtaken(i) false
#else
#define Overtaken(i) SomeAbove(i, seenHeld[i] | seenReleased[i])
#endif
/* What it removes of what T has: of others that are over, both; once it runs, all that is older. */
#ifdef WITHOUT_BELOW
#define Below(i) 255
#else
#define Below(i) (Older(i) | 1)
#endif
#ifdef WITHOUT_PAIRS
#define Past(i) ((seenHeld[i] | seenReleased[i]) & Below(i))
#else
#define Past(i) ((state[i] == Running -> seenHeld[i] | seenReleased[i] : seenReleased[i]) & Below(i))
#endif
/* highest stands for the wall clock. */
#ifdef WITHOUT_CLOCK
#define Clock 0
#else
#define Clock highest
#endif
/* T tells of the past: the first record that it ever had, or a later one. Those who have left early tell of nobody. */
#define Tells(i)    ((seenHeld[i] & ~(seenReleased[i] & early)) != 0 || (seenReleased[i] & 1))
#ifdef WITHOUT_EVERY_RELEASE    /* only that of the newest */
#define Free(i)     (!blind[i] && (seenReleased[i] != 0))
#else
#define Free(i)     (!blind[i] && Tells(i) && Unreleased(i) == 0)
#endif
#ifdef WITHOUT_UNKNOWN
#define IsBlind(i)  false
#else
#define IsBlind(i)  (!Tells(i))
#endif
#ifdef WITHOUT_SILENCE
#define MayRecord(i) true
#else
#define MayRecord(i) ((seenHeld[i] | seenReleased[i]) != 0 || knocked[i])
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
#ifdef WITHOUT_DELAY_SINCE_RECORD
#define DelayLeft(i) delay[i]
#define DelayAtFirst DELAY
#else
#define DelayLeft(i) DELAY
#define DelayAtFirst 0
#endif
/* Other proofs of who has not started change nothing. */
#define WouldTell(i) (lease[i] < LEASE || (state[i] == Next && delay[i] == 0 && !late[i]))
#define WorthAProof(i) (Free(i) || delay[i] == 0)
#define InTime(i)  (!alive[i] || lease[i] > 1)
#define Waits(i)   (lease[i] + asked[i] + delay[i] > 0)
#define Each(is)   (is(0) && is(1) && is(CONTENDERS - 1))
#define Any(is)    (is(0) || is(1) || is(CONTENDERS - 1))

inline deliverOwn(i) { own[i]++; last[i] = true }
#ifdef WITHOUT_COPY
#define deliverCopy(i) skip
#else
#define deliverCopy(i) copies[i] = copies[i] | (1 << own[i]); own[i]++
#endif

inline deliver(i, h, rel) {
    sockHeld[At(i, own[i])] = sockHeld[At(i, own[i])] | (h);
    sockReleased[At(i, own[i])] = sockReleased[At(i, own[i])] | (rel)
}

/* T delivers all that it has to consumer i. */
inline activate(i) {
    reader = Mine(i);
    if
    :: rec[i] != 0 && (tHeld & Bit(rec[i])) ->
        deliver(i, tHeld & ~Bit(rec[i]) & ~afterHeld[rec[i]], tReleased & ~afterReleased[rec[i]]);
        deliverOwn(i);
        if
        :: tCopy & Bit(rec[i]) -> deliverCopy(i)
        :: else
        fi;
        deliver(i, tHeld & ~Bit(rec[i]) & afterHeld[rec[i]], tReleased & afterReleased[rec[i]])
    :: else -> deliver(i, tHeld, tReleased)
    fi
}

/* The broker forgets what consumer i has in hand. */
inline deactivate(i) {
    if
    :: reader == Mine(i) -> reader = 0
    :: else
    fi;
    last[i] = false; valid[i] = false
}

inline noProof(i) { round[i] = 0; asked[i] = 0 }
inline forgetOwn(i) {
    k = 0; own[i] = 0; copies[i] = 0; inHand[i] = false; copyInHand[i] = false; last[i] = false; valid[i] = false
}

/* What was delivered to a consumer that is cancelled, or whose connection is gone, is not read any more. */
inline leaveT(i) {
    deactivate(i); consumes[i] = false; cut[i] = false; noProof(i); k = 0;
    do
    :: k <= UNREAD -> sockHeld[At(i, k)] = 0; sockReleased[At(i, k)] = 0; k++
    :: else -> break
    od;
    forgetOwn(i)
}

/* Where its record is among others in T matters no more. */
inline forgetOrder(i) {
    if
    :: rec[i] != 0 ->
        copyFly = copyFly & ~Bit(rec[i]); tCopy = tCopy & ~Bit(rec[i]);
        afterHeld[rec[i]] = 0; afterReleased[rec[i]] = 0
    :: else
    fi
}

inline forget(i) {
    forgetOrder(i); leaveT(i); seenHeld[i] = 0; seenReleased[i] = 0; rec[i] = 0; lease[i] = 0; delay[i] = 0;
    late[i] = false; blind[i] = false; knocked[i] = false
}

/* It gives up a place in which nothing has run. */
#ifdef WITHOUT_UNKNOWN_LEFT
#define StaysUnknown(i) false
#else
#define StaysUnknown(i) blind[i]
#endif
#ifdef WITHOUT_EARLY_LEFT
#define Early(i) 0
#else
#define Early(i) (state[i] == Next && Free(i) -> 0 : Bit(rec[i]))
#endif
inline stepBack(i) {
    if
    :: rec[i] != 0 && !StaysUnknown(i) -> early = early | Early(i); releasedFly = releasedFly | Bit(rec[i])
    :: else
    fi;
    forget(i); state[i] = Line
}

inline publishHeld(i) {
    records++; rec[i] = records; top = Clock; k = 1; knocked[i] = false;
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
    heldFly = heldFly | Bit(rec[i]); state[i] = Writing; asked[i] = LEASE; delay[i] = DelayAtFirst; k = 0; top = 0
}

/* It records a higher term. Its old record is one of others by now, and over. */
inline recordAnew(i) {
    seenHeld[i] = seenHeld[i] | Bit(rec[i]); seenReleased[i] = seenReleased[i] | Bit(rec[i]);
    early = early | Bit(rec[i]); forgetOrder(i);
    k = 1; top = 0;
    do
    :: k <= UNREAD ->
        sockHeld[At(i, 0)] = sockHeld[At(i, 0)] | sockHeld[At(i, k)]; sockHeld[At(i, k)] = 0;
        sockReleased[At(i, 0)] = sockReleased[At(i, 0)] | sockReleased[At(i, k)]; sockReleased[At(i, k)] = 0; k++
    :: else -> break
    od;
    forgetOwn(i); noProof(i); lease[i] = 0; late[i] = false; publishHeld(i)
}

/* What is older matters no more to one that runs. */
inline forgetBelow(i) {
    k = Older(i) | 1; seenHeld[i] = seenHeld[i] & ~k; seenReleased[i] = seenReleased[i] & ~k; k = 0
}

inline start(i) {
    k = 0;
    do
    :: k < CONTENDERS -> assert(!alive[k]); k++     /* PROPERTY: never two commands */
    :: else -> break
    od;
    k = 0;
#ifndef NOT_TERMS
    assert(term[rec[i]] > lastStarted);             /* PROPERTY: terms grow in the order of starts */
#endif
    lastStarted = term[rec[i]]; state[i] = Running; prune(i);
    alive[i] = true; delay[i] = 0; late[i] = false; blind[i] = false; forgetBelow(i)
}

/* It was away: the proof under way is none. */
inline notice(i) {
    if
    :: state[i] == Next && round[i] > 0 -> stepBack(i)
    :: state[i] == Running -> noProof(i)
    :: else
    fi
}

/* It removes what is past. The broker heeds that as long as it knows that it has delivered it. */
inline prune(i) {
    if
    :: !alive[i] && valid[i] && reader == Mine(i) ->
        k = Past(i); tHeld = tHeld & ~k; tReleased = tReleased & ~k; tCopy = tCopy & ~k; k = 0
    :: else
    fi
}

inline proved(i) { lease[i] = (asked[i] > lease[i] -> asked[i] : lease[i]); noProof(i); prune(i) }

/* It gives its record back. */
inline putBack(i) {
    inHand[i] = false;
    if
    :: valid[i] && reader == Mine(i) -> deliverOwn(i)
    :: else
    fi;
    valid[i] = false
}

/* Its own record, or the copy, is read. */
#ifdef WITHOUT_COPY
#define Complete(i) inHand[i]
#else
#define Complete(i) (inHand[i] && copyInHand[i])
#endif
inline readOwn(i) {
    k = 0;
    do
    :: k < UNREAD ->
        sockHeld[At(i, k)] = sockHeld[At(i, k + 1)]; sockReleased[At(i, k)] = sockReleased[At(i, k + 1)]; k++
    :: else -> break
    od;
    sockHeld[At(i, UNREAD)] = 0; sockReleased[At(i, UNREAD)] = 0;
    own[i]--; k = copies[i] & 1; copies[i] = copies[i] >> 1;
    if
    :: k && copyInHand[i] -> k = 0; notice(i)
    :: k && !copyInHand[i] -> k = 0; copyInHand[i] = true
    :: else ->
        valid[i] = (last[i] && copies[i] + 1 == (1 << own[i]));     /* no other one follows */
        if
        :: inHand[i] -> notice(i)
        :: else ->
            inHand[i] = true;
            if
            :: state[i] == Writing -> copyFly = copyFly | Bit(rec[i])
            :: round[i] > 0 && round[i] < Rounds -> round[i]++; putBack(i)
            :: round[i] == Rounds ->
                if
                :: state[i] == Running && Contested(i) -> noProof(i)
                :: else -> proved(i)
                fi
            :: else
            fi
        fi
    fi;
    if
    :: state[i] == Writing && Complete(i) -> proved(i); state[i] = Next; delay[i] = DelayLeft(i)
    :: else
    fi
}

#define AtHand(i) (sockHeld[At(i, 0)] | sockReleased[At(i, 0)])

active [CONTENDERS] proctype contender() {
end:    do
    :: d_step { state[_pid] == Line && (_pid == 0 || state[_pid - 1] != Line) ->
        consumes[_pid] = true; state[_pid] = Reading; Say("%d consumes T\n", _pid) }

    /* Reading, in the order of what was delivered. */
    :: d_step { AtHand(_pid) != 0 ->
        if
        :: Echo(_pid) -> blind[_pid] = false; stepBack(_pid)
        :: else ->
            seenHeld[_pid] = seenHeld[_pid] | sockHeld[At(_pid, 0)];
            seenReleased[_pid] = seenReleased[_pid] | sockReleased[At(_pid, 0)];
            sockHeld[At(_pid, 0)] = 0; sockReleased[At(_pid, 0)] = 0;
            if
            :: state[_pid] == Running -> forgetBelow(_pid)
            :: else
            fi
        fi;
        Say("%d reads: held %x, released %x\n", _pid, seenHeld[_pid], seenReleased[_pid]) }
    :: d_step { AtHand(_pid) == 0 && own[_pid] > 0 ->
        readOwn(_pid); Say("%d reads its own record, or the copy\n", _pid) }

    /* Its record. What is no record comes back to whoever T delivers to. */
    :: d_step { state[_pid] == Reading && reader == Mine(_pid) && (tHeld | tReleased) == 0 && !knocked[_pid] ->
        knocked[_pid] = true; Say("%d reads what it has published, and that T has nothing else\n", _pid) }
    :: d_step { state[_pid] == Reading && records < RECORDS && MayRecord(_pid) ->
        blind[_pid] = IsBlind(_pid); publishHeld(_pid);
        Say("%d publishes held %d, term %d\n", _pid, rec[_pid], term[rec[_pid]]) }
    :: d_step { state[_pid] == Next && records < RECORDS && Overtaken(_pid) && (Free(_pid) || delay[_pid] == 0) ->
        recordAnew(_pid); Say("%d publishes held %d instead, term %d\n", _pid, rec[_pid], term[rec[_pid]]) }

    /* A proof: two rounds. */
    :: d_step { (state[_pid] == Running || (state[_pid] == Next && WorthAProof(_pid))) && Complete(_pid) &&
            (round[_pid] == 0 || asked[_pid] == 0) && WouldTell(_pid) && own[_pid] < UNREAD ->
        round[_pid] = 1; asked[_pid] = LEASE; late[_pid] = (state[_pid] == Next && delay[_pid] == 0);
        putBack(_pid); Say("%d begins a proof\n", _pid) }

    :: d_step { state[_pid] == Next && Lasts(_pid) && !Overtaken(_pid) &&
            (Free(_pid) || (delay[_pid] == 0 && late[_pid] && round[_pid] == 0)) ->
        start(_pid); Say("%d STARTS, term %d\n", _pid, term[rec[_pid]]) }
#ifdef STEP_BACK
    :: d_step { faults > 0 && records < RECORDS && (state[_pid] == Writing || state[_pid] == Next) ->
        faults--; stepBack(_pid); Say("%d steps back\n", _pid) }
#endif

    /* The end of a command, by itself or at its deadline; the guard's will does the same. */
    :: d_step { state[_pid] == Running ->
        alive[_pid] = false; releasedFly = releasedFly | Bit(rec[_pid]); forget(_pid); state[_pid] = Gone;
        Say("%d: its tree is dead, RELEASED\n", _pid) }

    /* A holder in doubt. */
    :: d_step { state[_pid] == Running && !consumes[_pid] -> consumes[_pid] = true; Say("%d consumes T again\n", _pid) }
    :: d_step { state[_pid] == Running && consumes[_pid] && (heldFly & Bit(rec[_pid])) == 0 &&
            ((!Complete(_pid) && (round[_pid] == 0 || asked[_pid] == 0)) || Contested(_pid)) &&
            AtHand(_pid) == 0 && own[_pid] == 0 ->
        heldFly = heldFly | Bit(rec[_pid]); copyFly = copyFly & ~Bit(rec[_pid]);
        Say("%d publishes held %d again\n", _pid, rec[_pid]) }

    /* A proof is not answered: it connects elsewhere. */
    :: d_step { state[_pid] == Running && consumes[_pid] && round[_pid] > 0 && own[_pid] == 0 ->
        leaveT(_pid); Say("%d cuts its connection\n", _pid) }

    /* It has others' records delivered anew. */
    :: d_step { state[_pid] == Running && valid[_pid] && reader == Mine(_pid) && AtHand(_pid) == 0 &&
            own[_pid] == 0 && round[_pid] == 0 && ((tHeld & ~Bit(rec[_pid])) | tReleased) != 0 ->
        afterHeld[rec[_pid]] = tHeld & ~Bit(rec[_pid]); afterReleased[rec[_pid]] = tReleased;
        deliver(_pid, afterHeld[rec[_pid]], tReleased); Say("%d puts back others' records\n", _pid) }

    /* What goes wrong. Each takes one of FAULTS. */
#ifdef CRASH
    :: d_step { faults > 0 && (state[_pid] == Running || state[_pid] == Writing || state[_pid] == Next) ->
        faults--; alive[_pid] = false; forget(_pid); state[_pid] = Gone; Say("the HOST of %d dies\n", _pid) }
#endif
#ifdef RESET
    :: d_step { faults > 0 && consumes[_pid] && state[_pid] == Running ->
        faults--; leaveT(_pid); Say("%d is RESET\n", _pid) }
    :: d_step { faults > 0 && consumes[_pid] && state[_pid] != Running ->
        faults--; stepBack(_pid); Say("%d is RESET\n", _pid) }
#endif
#ifdef CUT
    :: d_step { faults > 0 && consumes[_pid] && !cut[_pid] ->
        faults--; cut[_pid] = true; deactivate(_pid); Say("%d is CUT OFF\n", _pid) }
    :: d_step { cut[_pid] -> cut[_pid] = false; Say("%d is there again\n", _pid) }
#endif
    :: d_step { reader == 0 && consumes[_pid] && !cut[_pid] && own[_pid] + 2 <= UNREAD ->
        activate(_pid); Say("T delivers to %d\n", _pid) }
    od
}

#define Has(i) (rec[i] == k)
inline arrive(h, rel) {
    k = 1;
    do
    :: k <= RECORDS ->
        if
        :: (tHeld & Bit(k)) && Any(Has) ->
            afterHeld[k] = afterHeld[k] | (h); afterReleased[k] = afterReleased[k] | (rel)
        :: else -> afterHeld[k] = 0; afterReleased[k] = 0
        fi;
        k++
    :: else -> break
    od;
    k = 0; tHeld = tHeld | (h); tReleased = tReleased | (rel);
    if
    :: reader != 0 && (h) != Bit(rec[reader - 1]) -> k = reader - 1; deliver(k, h, rel)
    :: reader != 0 && (h) != 0 && (h) == Bit(rec[reader - 1]) ->
        k = reader - 1; afterHeld[rec[k]] = 0; afterReleased[rec[k]] = 0; deliverOwn(k);
        if      /* what is published again, is so with the copy */
        :: state[k] == Running -> tCopy = tCopy | (h); deliverCopy(k)
        :: else
        fi
    :: else
    fi;
    k = 0
}

inline arriveCopy(r) {
    if
    :: tHeld & Bit(r) ->
        tCopy = tCopy | Bit(r);
        if
        :: reader != 0 && rec[reader - 1] == r -> k = reader - 1; deliverCopy(k); k = 0
        :: else
        fi
    :: else
    fi
}

#define Room(n) (reader == 0 || own[reader - 1] + (n) <= UNREAD)
#define Messages(r) \
    :: d_step { (heldFly & Bit(r)) && Room(2) -> \
        heldFly = heldFly & ~Bit(r); arrive(Bit(r), 0); Say("held %d arrives\n", r) } \
    :: d_step { (copyFly & Bit(r)) && Room(1) -> \
        copyFly = copyFly & ~Bit(r); arriveCopy(r); Say("copy %d arrives\n", r) } \
    :: d_step { releasedFly & Bit(r) -> \
        releasedFly = releasedFly & ~Bit(r); arrive(0, Bit(r)); Say("released %d arrives\n", r) }

/* The oldest one goes, in T or in the hand of somebody else than who has written it. As with PURGE, no other one is on
 * its way. */
#define Expires(r) \
    :: d_step { faults > 0 && (tHeld & Bit(r)) && (tHeld & (Bit(r) - 1)) == 0 && \
            heldFly == 0 && (reader == 0 || rec[reader - 1] != r) -> \
        faults--; tHeld = tHeld & ~Bit(r); tCopy = tCopy & ~Bit(r); Say("held %d EXPIRES\n", r) }

active proctype world() {
end:    do
    Messages(1)
    Messages(2)
    Messages(3)
#if RECORDS > 3
    Messages(4)
#endif
#ifdef PURGE
    :: d_step { faults > 0 && reader == 0 && (tHeld | tReleased) != 0 && heldFly == 0 ->
        faults--; tHeld = 0; tReleased = 0; tCopy = 0; Say("T PURGED\n") }
#endif
#ifdef EXPIRE
    Expires(1)
    Expires(2)
    Expires(3)
#if RECORDS > 3
    Expires(4)
#endif
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
