    /* Time. Rule 9: a command is dead by its deadline, so the clock cannot pass that while it lives. */
    :: d_step { (Any(HasLease) || Any(HasDelay)) && Each(InTime) && ClockRuns ->
#ifdef STUCK
        idle = (Any(HasDelay) -> idle : idle - 1);
#endif
        k = 0;
        do
        :: k < CONTENDERS ->
            lease[k] = (lease[k] > 0 -> lease[k] - 1 : 0); delay[k] = (delay[k] > 0 -> delay[k] - 1 : 0); k++
        :: else -> break
        od;
        k = 0; Say("tick\n") }

    /* What goes wrong with the broker. Each takes one of FAULTS. */
#ifdef PURGE
    :: d_step { faults > 0 && MayBeEmptied && door == 0 && (tHeld | tReleased) != 0 ->
        faults--; emptied = true; tHeld = 0; tReleased = 0; Say("T PURGED\n") }
#endif
#ifdef DELETE_T
    :: d_step { faults > 0 && MayBeEmptied && tExists ->
        faults--; emptied = true; tHeld = 0; tReleased = 0; tExists = false; door = 0; Say("T DELETED\n") }
#endif
#ifdef DELETE_B
    :: d_step { faults > 0 && B != 0 -> faults--; B = 0; Say("B DELETED\n") }
#endif
#ifdef STRANGER
    :: d_step { faults > 0 && B == 0 && records > 0 -> faults--; B = Stranger; Say("a STRANGER has B\n") }
    :: d_step { B == Stranger -> B = 0; Say("the stranger is gone\n") }
#endif
#ifdef RESTART
    /* what is not on disk may be lost; and a "released" that nobody has confirmed may be published again */
    :: d_step { faults > 0 && records > 0 ->
        restart(tHeld, tReleased); Say("RESTART: nothing is lost\n") }
    :: d_step { faults > 0 && (tHeld & ~diskHeld) ->
        restart(tHeld & diskHeld, tReleased); Say("RESTART: held %x is left\n", tHeld) }
    :: d_step { faults > 0 && (tReleased & ~diskReleased) ->
        restart(tHeld, tReleased & diskReleased); Say("RESTART: released %x is left\n", tReleased) }
    :: d_step { faults > 0 && (tReleased & ~diskReleased) ->
        releasedFly = releasedFly | (tReleased & ~diskReleased);
        restart(tHeld, tReleased & diskReleased); Say("RESTART: released %x is left, others come again\n", tReleased) }
    :: d_step { faults > 0 && (tHeld & ~diskHeld) && (tReleased & ~diskReleased) ->
        restart(tHeld & diskHeld, tReleased & diskReleased);
        Say("RESTART: held %x and released %x are left\n", tHeld, tReleased) }
#endif
#ifdef STUCK
    /* PROPERTY: when nothing is left to happen, nobody waits. */
    :: timeout -> assert(bounded || Each(IsGone)); break
#endif
