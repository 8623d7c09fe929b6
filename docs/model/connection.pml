    /* What the broker does with contender _pid's connections: it ends them, and what they had goes in any order. */
    :: d_step { open[_pid] && (state[_pid] == Gone || state[_pid] == Killing) ->
        open[_pid] = false; Say("the broker closes %d's connection\n", _pid) }
    :: d_step { !open[_pid] && HasB(Mine(_pid)) -> takeB(Mine(_pid)); Say("B of %d is gone\n", _pid) }
    :: d_step { HasB(OldOf(_pid)) -> takeB(OldOf(_pid)); Say("old B of %d is gone\n", _pid) }
    :: d_step { !open[_pid] && reader == Mine(_pid) -> reader = 0; Say("T is back from %d\n", _pid) }
    :: d_step { reader == OldOf(_pid) -> reader = 0; Say("T is back from the old connection of %d\n", _pid) }
