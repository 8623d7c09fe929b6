    /* What goes wrong with contender _pid. Each takes one of FAULTS. */
#ifdef RESET
    :: d_step { faults > 0 && open[_pid] ->
        faults--; putBack(_pid); open[_pid] = false; Say("RESET of %d's connection\n", _pid) }
#endif
#ifdef CANCEL
    :: d_step { faults > 0 && open[_pid] && reader == Mine(_pid) ->
        faults--; reader = 0; Say("CANCELLED: %d's consumer of T\n", _pid) }
#endif
#ifdef CRASH
    /* rule 15: the guard of one that is next has the will already */
    :: d_step { faults > 0 && !alive[_pid] && state[_pid] != Off && state[_pid] != Gone ->
        faults--; putBack(_pid);
        if
        :: Proven(_pid) -> publishLeft(_pid)
        :: else
        fi;
        forget(_pid); state[_pid] = Gone; Say("%d CRASHES\n", _pid) }
    :: d_step { faults > 0 && alive[_pid] && state[_pid] != Killing ->
        faults--; state[_pid] = Killing; Say("%d CRASHES, its command lives\n", _pid) }
#endif
#ifdef CRASH_WITH_GUARD
    :: d_step { faults > 0 && state[_pid] != Off && state[_pid] != Gone ->
        faults--; putBack(_pid); alive[_pid] = false; forget(_pid); state[_pid] = Gone;
        Say("%d CRASHES with its guard\n", _pid) }
#endif
#ifdef PAUSE
    /* its guard kills at the deadline and publishes the will; the supervisor may go on at any time, rule 13 */
    :: d_step { faults > 0 && Started(_pid) && alive[_pid] && lease[_pid] == 1 ->
        faults--; treeIsDead(_pid); Say("... by its guard, while %d is PAUSED\n", _pid) }
#endif
#ifdef STEP_BACK
    :: d_step { faults > 0 && Waits(_pid) -> faults--; stepBack(_pid); Say("%d STEPS BACK\n", _pid) }
#endif
