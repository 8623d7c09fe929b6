/* What steps have in common. */

inline forget(i) {
    seenHeld[i] = 0; seenReleased[i] = 0; sockHeld[i] = 0; sockReleased[i] = 0; past[i] = Known; told[i] = false; toRead[i] = 0;
    rec[i] = 0; former[i] = 0; confirmed[i] = false; hasB[i] = false; lease[i] = 0; delay[i] = 0
}

inline publishReleased(i) { releasedFly = releasedFly | Bit(rec[i]) }

/* It releases what it has recorded, and has started nothing. Rule 15. */
inline publishLeft(i) {
    if
    :: rec[i] != 0 ->
        releasedFly = releasedFly | Own(i); early = (LeavesEarly(i) -> early | Own(i) : early & ~Own(i))
    :: else
    fi
}

/* A new record of i; its lease counts from here. Rule 3. */
inline publishHeld(i) {
    records++; rec[i] = records; k = 1; top = 0;
    do
    :: k < records ->
        if
        :: ((seenHeld[i] | seenReleased[i]) & Bit(k)) && term[k] > top -> top = term[k]
        :: else
        fi;
        k++
    :: else -> break
    od;
    top = (ClockIsAbove(top) -> highest : top);
    term[records] = top + 1; highest = (top + 1 > highest -> top + 1 : highest);
    heldFly = heldFly | Bit(rec[i]); confirmed[i] = false; lease[i] = LEASE;
    k = 0; top = 0
}

/* overtaken: a message of somebody else that i has read states its own term or a higher one. Rule 3. */
inline compareTerms(i) {
    k = 1; overtaken = 0;
    do
    :: k <= records ->
        if
        :: ((seenHeld[i] | seenReleased[i]) & ~Own(i) & Bit(k)) && term[k] >= term[rec[i]] -> overtaken = Again
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0
}

/* What its look at T says. */
inline look(i, ifMissing) {
    past[i] = (!tExists -> ifMissing : (tHeld == 0 -> Empty : Known));
    seenHeld[i] = tHeld; seenReleased[i] = tReleased
}

/* It consumes T. It reads as many messages as it saw, or all that there are by now. Some may be gone. */
inline enter(i) {
    reader = Mine(i); tExists = true;
    toRead[i] = (Count(seenHeld[i]) + Count(seenReleased[i]) > Count(tHeld) + Count(tReleased) ->
        Count(seenHeld[i]) + Count(seenReleased[i]) - Count(tHeld) - Count(tReleased) : 0);
    sockHeld[i] = tHeld & ~seenHeld[i]; sockReleased[i] = tReleased & ~seenReleased[i];
    seenHeld[i] = seenHeld[i] & tHeld; seenReleased[i] = seenReleased[i] & tReleased;
    delay[i] = DelayAtThePlace(i);
    state[i] = Reading
}

/* The connection c gets B, or loses it. */
#ifdef SPLIT
inline giveB(c) { B2 = (B == 0 -> B2 : c); B = (B == 0 -> c : B) }
inline takeB(c) {
    B2 = (B2 == (c) -> 0 : B2); B = (B == (c) -> B2 : B);
    B2 = (B == B2 -> 0 : B2)
}
#else
inline giveB(c) { B = c }
inline takeB(c) { B = (B == (c) -> 0 : B) }
#endif

inline claimB(i) { giveB(Mine(i)); hasB[i] = true }
inline loseB(i)  { hasB[i] = false; delay[i] = 0 }

/* It stops consuming T, and keeps in hand what T had. Rule 10. */
inline stepOut(i) {
    if
    :: StepsOut -> seenHeld[i] = tHeld | (seenHeld[i] & dropped); seenReleased[i] = tReleased;
        tHeld = 0; tReleased = 0; reader = 0; lease[i] = 0
    :: else
    fi;
    sockHeld[i] = 0; sockReleased[i] = 0;
    delay[i] = (delay[i] == NotBegun -> DELAY : delay[i]); state[i] = Out
}

/* It consumes T again, and reads what has come. */
inline stepIn(i) {
    k = Echo(i, tHeld);
    delay[i] = DelayInside(i);
    tHeld = tHeld | (seenHeld[i] & ~dropped); tReleased = tReleased | seenReleased[i];
    seenHeld[i] = tHeld | (seenHeld[i] & dropped); seenReleased[i] = tReleased; sockHeld[i] = 0; sockReleased[i] = 0;
    reader = Mine(i); toRead[i] = 0;
    state[i] = (delay[i] == 0 -> Back : (rec[i] == 0 -> Reading : Next));
    if
    :: k != 0 -> handBack(i)
    :: else
    fi;
    k = 0
}

/* It gives B back, for a holder that lives. Without a record it goes, and reads T anew. */
inline handBack(i) {
    if
    :: rec[i] != 0 && state[i] != Writing && HasB(Mine(i)) -> takeB(Mine(i)); loseB(i); state[i] = Next
    :: else -> stepBack(i)
    fi
}

/* The broker puts back what i has in hand away from the reader's place. */
inline putBack(i) {
    if
    :: IsOut(i) && open[i] -> backHeld = backHeld | (seenHeld[i] & ~dropped); backReleased = backReleased | seenReleased[i]
    :: else
    fi
}

/* It stops being next, rule 15. */
inline stepBack(i) {
    putBack(i); publishLeft(i); forget(i); state[i] = Leaving
}

inline start(i) {
    k = 0;
    do
    :: k < CONTENDERS -> assert(!alive[k]); k++     /* PROPERTY: never two commands */
    :: else -> break
    od;
    k = 0;
#ifndef NOT_TERMS
    assert(term[rec[i]] > lastStarted);         /* PROPERTY: terms grow in the order of starts */
#endif
    lastStarted = term[rec[i]]; alive[i] = true; state[i] = Running;
    sockHeld[i] = 0; sockReleased[i] = 0; past[i] = Known; told[i] = false; delay[i] = 0
}

/* It acknowledges h and rel, but not its own record, and stops consuming T. */
inline givePlaceBack(i, h, rel) {
    if
    :: reader == Mine(i) -> tHeld = tHeld & (Bit(rec[i]) | ~(h)); tReleased = tReleased & ~(rel); reader = 0
    :: else
    fi;
    seenHeld[i] = 0; seenReleased[i] = 0; former[i] = 0; state[i] = Holding
}

/* Rule 13: the tree is dead, then "released". */
inline treeIsDead(i) { alive[i] = false; publishReleased(i); printf("%d: its tree is dead, RELEASED %d\n", i, rec[i]) }

/* It connects anew: what the broker still has of it belongs to a connection of the past. */
inline connect(i) {
    B = (B == Mine(i) -> OldOf(i) : B);
#ifdef SPLIT
    B2 = (B2 == Mine(i) -> OldOf(i) : B2);
#endif
    reader = (reader == Mine(i) -> OldOf(i) : reader);
    open[i] = true
}

/* A message reaches T, and the socket of who consumes from it. */
inline arrive(h, rel) {
    tHeld = tHeld | (h); tReleased = tReleased | (rel); dropped = dropped & ~(h); k = 0;
    do
    :: k < CONTENDERS ->
        if
        :: reader == Mine(k) && AtPlace(k) ->
            toRead[k] = (toRead[k] > 0 -> toRead[k] - 1 : 0);
            sockHeld[k] = sockHeld[k] | (h); sockReleased[k] = sockReleased[k] | (rel)
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0
}

/* The confirm of "held x" reaches its sender. */
inline confirm(x) {
    k = 0;
    do
    :: k < CONTENDERS ->
        if
        :: rec[k] == x && open[k] && (state[k] == Writing || Started(k)) -> confirmed[k] = true
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0
}

#ifdef RESTART
/* What was in hand is in T. */
inline gather() {
    k = EveryHeld; tReleased = EveryReleased; tHeld = k; k = 0
}

/* The broker comes back with these messages in T. All connections are gone, and what was exclusive to them. */
inline restart(h, rel) {
    faults--; B = 0; reader = 0; k = 0;
#ifdef SPLIT
    B2 = 0; split = false;
#endif
    do
    :: k < CONTENDERS -> open[k] = false; k++
    :: else -> break
    od;
    k = 0; tHeld = h; tReleased = rel; backHeld = 0; backReleased = 0; diskHeld = tHeld; diskReleased = tReleased
}
#endif
