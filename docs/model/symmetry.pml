/* Contenders are alike. With -DSYMMETRY each step ends by putting them in order, so that histories which differ only
 * in who is who lead to the same state. Without it they first come in order, and histories are readable. */
/* And it forgets of messages that are nowhere any more what was said of them. */
#define Released(i) seenReleased[i] | sockReleased[i]
#define Forget early = early & (releasedFly | tReleased | backReleased | Released(0) | Released(1) | \
    Released(CONTENDERS - 1)); dropped = dropped & (seenHeld[0] | seenHeld[1] | seenHeld[CONTENDERS - 1])
#ifndef SYMMETRY
#define MyTurn(i) (born >= (i))
#define Say(...) Forget; printf(__VA_ARGS__)
#else
#define MyTurn(i) true
#define Say(...) Forget; printf(__VA_ARGS__); c_code { put_in_order(); }
#define Fields(each) each(state) each(open) each(seenHeld) each(seenReleased) each(sockHeld) each(sockReleased) \
    each(past) each(told) each(toRead) each(rec) each(former) each(confirmed) each(hasB) each(lease) each(delay) \
    each(alive) each(runs)
#define Load(field)  *byte++ = now.field[at];
#define Store(field) now.field[at] = *byte++;
c_code {
#ifdef SPLIT
#define Second now.B2
#else
#define Second 0
#endif
    enum { Bytes = 20 };    /* the fields, and which of its connections have B, the other B, and the reader's place */

    static unsigned char owns(unsigned char owner, int at)
    {
        return (owner == at + 1) | (owner == at + 1 + CONTENDERS) << 1;
    }

    static unsigned char renamed(unsigned char owner, const int *place)
    {
        if (owner >= 1 && owner <= CONTENDERS)
            return place[owner - 1] + 1;
        if (owner > CONTENDERS && owner <= 2 * CONTENDERS)
            return place[owner - 1 - CONTENDERS] + 1 + CONTENDERS;
        return owner;
    }

    static void put_in_order(void)
    {
        unsigned char key[CONTENDERS][Bytes], *byte;
        int order[CONTENDERS], place[CONTENDERS], at, other, moved = 0;

        now.born = 0;
        for (at = 0; at < CONTENDERS; at++) {
            byte = key[at];
            Fields(Load)
            *byte++ = owns(now.B, at);
            *byte++ = owns(Second, at);
            *byte++ = owns(now.reader, at);
            for (other = at; other > 0 && memcmp(key[order[other - 1]], key[at], Bytes) > 0; other--, moved = 1)
                order[other] = order[other - 1];
            order[other] = at;
        }
        if (!moved)
            return;
        for (at = 0; at < CONTENDERS; at++) {
            place[order[at]] = at;
            byte = key[order[at]];
            Fields(Store)
        }
        now.B = renamed(now.B, place);
        now.reader = renamed(now.reader, place);
#ifdef SPLIT
        now.B2 = renamed(now.B2, place);
#endif
    }
}
#endif
