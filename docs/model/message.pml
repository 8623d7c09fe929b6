    /* What becomes of "held r" and "released r". */
    :: d_step { heldFly & Bit(r) ->
        heldFly = heldFly & ~Bit(r);
        if
        :: tExists ->
            arrive(Bit(r), 0);
            if
            :: !OnItsWayToDisk(r) -> confirm(r)
            :: else
            fi
        :: else
        fi; Say("held %d arrives\n", r) }
    :: d_step { releasedFly & Bit(r) ->
        releasedFly = releasedFly & ~Bit(r);
        if
        :: tExists -> arrive(0, Bit(r))
        :: else
        fi; Say("released %d arrives\n", r) }
#ifdef RESTART
    :: d_step { tHeld & ~diskHeld & Bit(r) -> diskHeld = diskHeld | Bit(r); confirm(r); Say("held %d is on disk\n", r) }
    :: d_step { tReleased & ~diskReleased & Bit(r) ->
        diskReleased = diskReleased | Bit(r); Say("released %d is on disk\n", r) }
#endif
#ifdef EXPIRE
    /* the oldest one goes, in whosever hand it is; who has read it remembers it */
    :: d_step { faults > 0 && (tHeld & Bit(r)) && (tHeld & (Bit(r) - 1)) == 0 && (tHeld != Bit(r) || MayBeEmptied) ->
        faults--; tHeld = tHeld & ~Bit(r); dropped = dropped | Bit(r); emptied = emptied || tHeld == 0;
        Say("held %d EXPIRES\n", r) }
#endif
#ifdef LOST
    :: d_step { faults > 0 && (heldFly & Bit(r)) -> faults--; heldFly = heldFly & ~Bit(r); Say("held %d is LOST\n", r) }
    :: d_step { faults > 0 && (releasedFly & Bit(r)) ->
        faults--; releasedFly = releasedFly & ~Bit(r); Say("released %d is LOST\n", r) }
#endif
#ifdef DOUBLED
    :: d_step { faults > 0 && (releasedFly & Bit(r)) && tExists ->
        faults--; arrive(0, Bit(r)); Say("released %d arrives, and AGAIN later\n", r) }
#endif
