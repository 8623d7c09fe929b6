    /* Time. Rule 9: a command is dead by its deadline, so the clock cannot pass that while it lives. */
    :: d_step { (Any(HasLease) || Any(HasDelay)) && Each(InTime) && ClockRuns && NothingIsUnderWay &&
        HandsAreEmpty ->
#ifdef STUCK
        idle = (Any(HasDelay) -> idle : idle - 1);
#endif
        k = 0;
        do
        :: k < CONTENDERS ->
            lease[k] = (lease[k] > 0 -> lease[k] - 1 : 0); delay[k] = (HasDelay(k) -> delay[k] - 1 : delay[k]); k++
        :: else -> break
        od;
        k = 0; Say("tick\n") }

    /* What goes wrong with the broker. Each takes one of FAULTS. */
#ifdef PURGE
    :: d_step { faults > 0 && MayBeEmptied && reader == 0 && (tHeld | tReleased) != 0 ->
        faults--; emptied = true; tHeld = 0; tReleased = 0; Say("T PURGED\n") }
#endif
#ifdef DELETE_T
    :: d_step { faults > 0 && MayBeEmptied && tExists ->
        faults--; emptied = true; tHeld = 0; tReleased = 0; tExists = false; reader = 0;
        backHeld = 0; backReleased = 0; k = 0;
        do      /* what somebody has in hand is nothing any more: as if it were at a reader's place that it has lost */
        :: k < CONTENDERS -> state[k] = (IsOut(k) -> (rec[k] == 0 -> Reading : Next) : state[k]); k++
        :: else -> break
        od;
        k = 0; Say("T DELETED\n") }
#endif
#ifdef DELETE_B
    :: d_step { faults > 0 && B != 0 -> faults--; takeB(B); Say("B DELETED\n") }
#ifdef SPLIT
    :: d_step { faults > 0 && B2 != 0 -> faults--; B2 = 0; Say("B of the other side DELETED\n") }
#endif
#endif
#ifdef STRANGER
    :: d_step { faults > 0 && B == 0 && records > 0 -> faults--; B = Stranger; Say("a STRANGER has B\n") }
    :: d_step { HasB(Stranger) -> takeB(Stranger); Say("the stranger is gone\n") }
#endif
#ifdef RESTART
    /* what is not on disk may be lost; and a "released" that nobody has confirmed may be published again */
    :: d_step { faults > 0 && records > 0 ->
        gather(); restart(tHeld, tReleased); Say("RESTART: nothing is lost\n") }
    :: d_step { faults > 0 && (EveryHeld & ~diskHeld) ->
        gather(); restart(tHeld & diskHeld, tReleased); Say("RESTART: held %x is left\n", tHeld) }
    :: d_step { faults > 0 && (EveryReleased & ~diskReleased) ->
        gather(); restart(tHeld, tReleased & diskReleased); Say("RESTART: released %x is left\n", tReleased) }
    :: d_step { faults > 0 && (EveryReleased & ~diskReleased) ->
        releasedFly = releasedFly | (EveryReleased & ~diskReleased);
        gather(); restart(tHeld, tReleased & diskReleased);
        Say("RESTART: released %x is left, others come again\n", tReleased) }
    :: d_step { faults > 0 && (EveryHeld & ~diskHeld) && (EveryReleased & ~diskReleased) ->
        gather(); restart(tHeld & diskHeld, tReleased & diskReleased);
        Say("RESTART: held %x and released %x are left\n", tHeld, tReleased) }
#endif
#ifdef SPLIT
    /* the sides of a cluster do not see each other's B. Later one of two goes; or, as here, both stay. */
    :: d_step { faults > 0 && B != 0 && !split -> faults--; split = true; Say("SPLIT: there is another B\n") }
    :: d_step { split && B2 == 0 -> split = false; Say("the split is over\n") }
    :: d_step { split && B2 != 0 -> split = false; takeB(B); Say("the split is over, and one B is gone\n") }
    :: d_step { split && B2 != 0 -> split = false; B2 = 0; Say("the split is over, and the other B is gone\n") }
#endif
    /* What a connection had in hand goes back to T. */
    :: d_step { (backHeld | backReleased) != 0 ->
        arrive(backHeld, backReleased); backHeld = 0; backReleased = 0; Say("T is back from away from that place\n") }
#ifdef STUCK
    /* PROPERTY: when nothing is left to happen, nobody waits. */
    :: timeout -> assert(bounded || Each(IsGone)); break
#endif
