    /* What a contender does: each step at any time at which its condition holds. */
#define me _pid
#define is(s) (state[me] == s)
#define go(s) state[me] = s
    /* ---- it connects. What its last connection had may still be there; the broker ends that when it likes. */
    :: d_step { is(Off) && runs[me] < RUNS && !bounded && OldIsGone(me) && MyTurn(me) ->
        connect(me); born = (born == me -> born + 1 : born); go(Line); Say("%d connects\n", me) }
    :: d_step { is(Off) && (runs[me] == RUNS || bounded) -> go(Gone); Say("") }
    :: d_step { is(Line) && open[me] && (runs[me] == RUNS || bounded) -> go(Leaving); Say("") }

    /* ---- the reader's place, rule 1. A look says whether somebody is there, and how many messages are to be read. */
    :: d_step { is(Line) && open[me] && reader == 0 && runs[me] < RUNS && !bounded && WorthALook ->
        look(me, FirstMissing); go(Looked);
        if
        :: LookIsEntry && past[me] != Missing && !BeforeThePlace(me) -> enter(me)
        :: else
        fi; Say("%d looks: held %x released %x\n", me, tHeld, tReleased) }
    :: d_step { is(Looked) && open[me] && reader != 0 ->
        forget(me); go(Leaving); Say("%d is refused the reader's place\n", me) }
    :: d_step { is(Looked) && open[me] && BeforeThePlace(me) && BIsFree(me) && reader == 0 ->
        claimB(me); delay[me] = DelayWithBFirst; look(me, Missing);
        if
        :: LookIsEntry && past[me] != Missing -> enter(me)
        :: else
        fi; Say("%d claims B before it goes to the reader's place\n", me) }
    :: d_step { is(Looked) && open[me] && BeforeThePlace(me) && BIsTaken(me) ->
        forget(me); go(Line); Say("%d is refused B\n", me) }
    :: d_step { is(Looked) && open[me] && reader == 0 && past[me] != Missing && !BeforeThePlace(me) ->
        enter(me); Say("%d has the reader's place\n", me) }
#ifdef WITHOUT_READER
    /* somebody is at the reader's place: B alone, and the delay */
    :: d_step { is(Line) && open[me] && reader != 0 && BIsFree(me) && runs[me] < RUNS && !bounded ->
        claimB(me); delay[me] = DELAY; Say("%d claims B\n", me) }
    :: d_step { is(Line) && open[me] && hasB[me] && delay[me] == 0 && HasB(Mine(me)) && records < RECORDS ->
        publishHeld(me); start(me); Say("%d STARTS with B alone\n", me) }
#endif

    /* ---- there was no T: B, and another look, rule 5 */
    :: d_step { is(Looked) && open[me] && past[me] == Missing && !hasB[me] && BIsFree(me) ->
        claimB(me); delay[me] = DelayWithBFirst; Say("%d claims B\n", me) }
    :: d_step { is(Looked) && open[me] && past[me] == Missing && !hasB[me] && BIsTaken(me) ->
        forget(me); go(Line); Say("%d is refused B\n", me) }
    :: d_step { is(Looked) && open[me] && past[me] == Missing && hasB[me] && reader == 0 ->
        look(me, MissingWithB);
        if
        :: LookIsEntry -> enter(me)
        :: else
        fi; Say("%d looks again: held %x released %x\n", me, tHeld, tReleased) }

    /* ---- it reads, rule 2 */
    :: d_step { AtPlace(me) && (sockHeld[me] | sockReleased[me]) != 0 ->
        k = Echo(me, sockHeld[me]);
        seenHeld[me] = seenHeld[me] | sockHeld[me]; seenReleased[me] = seenReleased[me] | sockReleased[me];
        sockHeld[me] = 0; sockReleased[me] = 0;
        if
        :: k != 0 -> handBack(me)
        :: else
        fi;
        k = 0;
        Say("%d reads: held %x released %x\n", me, seenHeld[me], seenReleased[me]) }
#ifndef WITHOUT_END_OF_READING
    :: d_step { is(Reading) && toRead[me] > 0 ->
        forget(me); go(Leaving); Say("%d does not get all that it saw, leaves the reader's place\n", me) }
#endif
    :: d_step { is(Reading) && toRead[me] == 0 && past[me] == Known && !Recorded(me) ->
        past[me] = Empty; Say("%d has read nothing that tells of the past\n", me) }

    /* ---- nothing is known of the past: B, rule 4. If B is refused, it leaves the reader's place and comes again. */
    :: d_step { is(Reading) && past[me] != Known && open[me] && !hasB[me] && BIsFree(me) ->
        claimB(me); delay[me] = DelayWithB(me); Say("%d claims B\n", me) }
    :: d_step { is(Reading) && past[me] != Known && open[me] && !hasB[me] && BIsTaken(me) ->
        forget(me); go(Leaving); Say("%d is refused B, leaves the reader's place\n", me) }
    :: d_step { is(Reading) && past[me] != Known && open[me] && hasB[me] && !HasB(Mine(me)) ->
        forget(me); go(Leaving); Say("%d finds B lost, leaves the reader's place\n", me) }

    /* ---- the record, rules 3, 6 and 7 */
    :: d_step { is(Reading) && toRead[me] == 0 && open[me] && MayBeAway(me) ->
        forget(me); go(Leaving); Say("%d has read that all are released, and finds B taken\n", me) }
    :: d_step { (is(Reading) || (is(Back) && rec[me] == 0)) && toRead[me] == 0 && MayRecord(me) && NobodyIsAway(me) &&
        records < RECORDS ->
        former[me] = (rec[me] == 0 -> 0 : Own(me)); publishHeld(me); go(Writing);
        Say("%d publishes held: record %d, term %d\n", me, rec[me], term[rec[me]]) }
    :: d_step { (is(Reading) || (is(Back) && rec[me] == 0)) && records == RECORDS ->
        bounded = true; forget(me); go(Leaving); Say("") }
    :: d_step { is(Writing) && Safe(me) && Delivered(me) ->
        compareTerms(me);
        if
        :: overtaken && records < RECORDS ->
            former[me] = Own(me); publishHeld(me);
            Say("%d publishes held again: record %d, term %d\n", me, rec[me], term[rec[me]])
        :: overtaken && records == RECORDS ->
            bounded = true; forget(me); go(Leaving); Say("")
        :: !overtaken && ProvenWithB(me) ->
            if
            :: open[me] && reader == Mine(me) -> tHeld = tHeld & ~former[me]
            :: else
            fi;
            seenHeld[me] = seenHeld[me] & ~former[me]; former[me] = 0;
            state[me] = (past[me] == Empty -> Waited : Next); past[me] = (past[me] == Empty -> Known : past[me]);
            Say("%d is next\n", me)
        :: !overtaken && !ProvenWithB(me) ->
            stepBack(me); Say("%d has lost B\n", me)
        fi; overtaken = 0 }
    :: d_step { is(Writing) && !(heldFly & Bit(rec[me])) && !confirmed[me] && !OnItsWayToDisk(rec[me]) ->
        stepBack(me); Say("%d gets no confirm\n", me) }
#ifdef WITHOUT_RECORD_FIRST
    /* starts, and records meanwhile */
    :: d_step { is(Reading) && toRead[me] == 0 && past[me] == Known && Others(me) != 0 && AllReleased(me) &&
        open[me] && reader == Mine(me) && records < RECORDS ->
        publishHeld(me); start(me); Say("%d STARTS before its record %d is there\n", me, rec[me]) }
#endif

    /* ---- further proofs, rule 7: all that it has in hand given back, and the own record delivered again */
    :: d_step { (is(Next) || is(Waited)) && (!hasB[me] || HasB(Mine(me))) && open[me] && lease[me] < LEASE &&
        reader == Mine(me) ->
        lease[me] = LEASE; Say("%d proves the reader's place\n", me) }
    :: d_step { AtPlace(me) && open[me] && reader != Mine(me) -> stepBack(me); Say("%d finds that place lost\n", me) }
    :: d_step { Proven(me) && !is(Out) && open[me] && hasB[me] && !HasB(Mine(me)) ->
        stepBack(me); Say("%d finds B lost\n", me) }

    /* ---- while it is next, it removes what is over, rule 11; but remembers the terms, rule 3 */
    :: d_step { is(Next) && open[me] && reader == Mine(me) && (tHeld & Removable(me)) != 0 ->
        compareTerms(me);
        state[me] = (overtaken && RecordsAgain -> Reading : Next); overtaken = 0;
        k = (is(Next) -> Removable(me) : 0); told[me] = told[me] || (k & ~early) != 0;
        tHeld = tHeld & ~k; tReleased = tReleased & ~k;
        seenHeld[me] = seenHeld[me] & ~k; seenReleased[me] = seenReleased[me] & ~k; k = 0;
        Say("%d acknowledges what is over\n", me) }

    /* ---- nobody says "released": B, and the delay away from the reader's place, rule 10 */
#ifndef WITHOUT_TAKEOVER
    :: d_step { is(Next) && open[me] && !hasB[me] && BIsFree(me) && !AllReleased(me) ->
        claimB(me); delay[me] = DelayWithB(me); Say("%d claims B and waits\n", me) }
#endif
    :: d_step { (is(Next) && hasB[me] && !AllReleased(me) || is(Reading) && hasB[me] && past[me] == Empty) &&
        toRead[me] == 0 && open[me] && HasB(Mine(me)) && reader == Mine(me) ->
        stepOut(me); Say("%d steps out with held %x released %x\n", me, seenHeld[me], seenReleased[me]) }
    :: d_step { is(Out) && open[me] && (reader == 0 || !StepsOut) && ((tHeld | tReleased) != 0 || delay[me] == 0) ->
        stepIn(me); Say("%d steps in: held %x released %x\n", me, tHeld, tReleased) }
    :: d_step { is(Out) && open[me] && StepsOut && reader != 0 ->
        stepBack(me); Say("%d finds somebody at the reader's place\n", me) }
    :: d_step { is(Out) && open[me] && hasB[me] && !HasB(Mine(me)) -> stepBack(me); Say("%d finds B lost\n", me) }
    :: d_step { is(Back) && rec[me] != 0 && BothProven(me) ->
        compareTerms(me);
        if
        :: overtaken && RecordsAgain -> go(Reading); past[me] = Known
        :: else -> go(Waited); lease[me] = LEASE
        fi; overtaken = 0; Say("%d has waited, proves place and B\n", me) }
    /* a holder in doubt asks for B, rule 16 */
    :: d_step { is(Next) && hasB[me] && open[me] && HasB(Mine(me)) && Any(AsksForB) ->
        takeB(Mine(me)); loseB(me); Say("%d gives B back to who asks\n", me) }
    :: d_step { is(Reading) && hasB[me] && open[me] && HasB(Mine(me)) && Any(AsksForB) ->
        forget(me); go(Leaving); Say("%d leaves the reader's place, and B to who asks\n", me) }
    :: d_step { is(Out) && open[me] && (reader == 0 || !StepsOut) && HasB(Mine(me)) && Any(AsksForB) ->
        stepIn(me);
        if
        :: hasB[me] -> handBack(me)
        :: else
        fi; Say("%d steps in and gives B back to who asks\n", me) }

    /* ---- the start, rules 3, 8, 9 and 10 */
    :: d_step { is(Next) && AllReleased(me) && InLease(me) ->
        compareTerms(me);
        if
        :: overtaken && RecordsAgain -> go(Reading); past[me] = Known
        :: else -> go(Waited)
        fi; overtaken = 0; Say("%d knows that all are released\n", me) }
    :: d_step { is(Waited) && InLease(me) ->
        start(me); lease[me] = Deadline(me); Say("%d STARTS record %d\n", me, rec[me]) }

    /* ---- B; then the reader's place is given back with the own record in T, rules 11 and 12 */
    :: d_step { (is(Running) || is(Holding)) && alive[me] && open[me] && !hasB[me] && BIsFree(me) ->
        claimB(me); Say("%d claims B\n", me) }
    /* it acknowledges what it had read before the start, or also what came since; all but its own record */
    :: d_step { is(Running) && open[me] && hasB[me] && HandsAreEmpty ->
        givePlaceBack(me, seenHeld[me], seenReleased[me]); Say("%d gives the reader's place back\n", me) }
    :: d_step { is(Running) && open[me] && hasB[me] && HandsAreEmpty && reader == Mine(me) ->
        givePlaceBack(me, tHeld, tReleased); Say("%d gives the reader's place back, having read it all\n", me) }

    /* ---- it verifies its claim */
    :: d_step { is(Running) && alive[me] && open[me] && lease[me] < LEASE && ProvenWhileYoung(me) ->
        lease[me] = LEASE; Say("%d verifies\n", me) }
    :: d_step { is(Holding) && alive[me] && open[me] && lease[me] < LEASE && HasB(Mine(me)) &&
        RecordIsSafe(me) ->
        lease[me] = LEASE; Say("%d verifies\n", me) }
#ifndef WITHOUT_REPAIR
    /* T has lost its record, rule 14 */
    :: d_step { is(Holding) && alive[me] && open[me] && HasB(Mine(me)) && tExists && tHeld == 0 && tReleased == 0 &&
        reader == 0 && !(heldFly & Bit(rec[me])) ->
        heldFly = heldFly | Bit(rec[me]); confirmed[me] = false; Say("%d publishes held %d again\n", me, rec[me]) }
    :: d_step { is(Holding) && alive[me] && open[me] && HasB(Mine(me)) && !tExists ->
        tExists = true; heldFly = heldFly | Bit(rec[me]); confirmed[me] = false; Say("%d makes T again\n", me) }
#endif

    /* ---- the end, rule 13 */
#ifdef WITHOUT_DEAD_TREE
    :: d_step { Started(me) && alive[me] && !(releasedFly & Bit(rec[me])) && !(tReleased & Bit(rec[me])) ->
        publishReleased(me); Say("%d releases %d and then kills\n", me, rec[me]) }
#endif
    :: d_step { Started(me) && alive[me] ->
        treeIsDead(me); runs[me]++; forget(me); go(Leaving); Say("... its end, or the deadline\n") }
    :: d_step { Started(me) && !alive[me] ->
        runs[me]++; forget(me); go(Leaving); Say("%d finds its command dead\n", me) }
#ifdef WITHOUT_END
    /* it finds its command dead and its claim alive */
    :: d_step { Started(me) && !alive[me] && open[me] && HasB(Mine(me)) ->
        lease[me] = LEASE; lastStarted--; start(me); Say("%d runs its command AGAIN\n", me) }
#endif
    :: d_step { is(Killing) -> treeIsDead(me); forget(me); go(Gone); Say("... its guard killed\n") }
    :: d_step { is(Leaving) && open[me] ->
        takeB(Mine(me));
        reader = (reader == Mine(me) -> 0 : reader);
        open[me] = (runs[me] < RUNS && !bounded);
        state[me] = (runs[me] < RUNS && !bounded -> Line : Gone); Say("%d has given back everything\n", me) }

    /* ---- its connection is gone, and it notices */
    :: d_step { (is(Line) || is(Looked) || is(Leaving)) && !open[me] ->
        forget(me); go(Off); Say("") }
    :: d_step { Waits(me) && !open[me] -> stepBack(me); go(Off); Say("%d notices: no connection\n", me) }
    :: d_step { (is(Running) || is(Holding)) && alive[me] && !open[me] ->
        hasB[me] = false; seenHeld[me] = 0; seenReleased[me] = 0; former[me] = 0; go(Doubt);
        Say("%d is in doubt\n", me) }
    :: d_step { is(Doubt) && alive[me] && OldIsGone(me) -> connect(me); Say("%d connects again\n", me) }
    :: d_step { is(Doubt) && alive[me] && open[me] && MayGoOn(me) ->
        if
        :: BIsFree(me) -> giveB(Mine(me))
        :: else
        fi; hasB[me] = true; lease[me] = LeaseOfReclaim(me); confirmed[me] = true;
        go(Holding); Say("%d goes on\n", me) }
#undef me
#undef is
#undef go
