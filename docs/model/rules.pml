/* The rules that are conditions. -DWITHOUT_X leaves one out; README.md says which property fails then. Rules that are
 * steps have their variant beside the step. */

/* Rule 3: the clock, too, is below a new term; and who was overtaken publishes again. */
#ifdef WITHOUT_CLOCK
#define ClockIsAbove(t) false
#else
#define ClockIsAbove(t) true
#endif
#ifdef WITHOUT_AGAIN
#define Again 0
#else
#define Again 1
#endif

/* Rule 4: an empty ledger says nothing. B first, then the delay, then the record. */
#if defined(WITHOUT_UNKNOWN)
#define MayRecord(i) true
#elif defined(WITHOUT_DELAY_WHEN_EMPTY)
#define MayRecord(i) (past[i] == Known -> Telling(seenHeld[i], seenReleased[i]) != 0 : hasB[i])
#else
#define MayRecord(i) (past[i] == Known -> Telling(seenHeld[i], seenReleased[i]) != 0 : \
    hasB[i] && (past[i] == Unused || delay[i] == 0))
#endif

/* Rule 5: a missing ledger is a first use only for who has B, and if nothing else tells of a use. */
#ifdef WITHOUT_SECOND_LOOK
#define FirstMissing Unused
#else
#define FirstMissing Missing
#endif
#ifdef TRACE
#define MissingWithB (records > 0 -> Empty : Unused)
#else
#define MissingWithB Unused
#endif

/* Rule 6: the own record is on disk. */
#ifdef WITHOUT_CONFIRM
#define Safe(i) true
#else
#define Safe(i) confirmed[i]
#endif

/* Rule 7: the own record came through the own consumer; and B is ours where B was needed to record. */
#ifdef WITHOUT_DELIVERY
#define Delivered(i) confirmed[i]
#else
#define Delivered(i) ((seenHeld[i] & Bit(rec[i])) != 0)
#endif
#if defined(WITHOUT_PROOF_OF_B) || defined(WITHOUT_UNKNOWN)
#define ProvenWithB(i) true
#else
#define ProvenWithB(i) (past[i] == Known || (B == Mine(i) && open[i]))
#endif

/* Rule 8: everybody who was recorded is released. */
#ifdef WITHOUT_EVERY_RELEASE
#define Top(x) ((x) >= 64 -> 64 : ((x) >= 32 -> 32 : ((x) >= 16 -> 16 : ((x) >= 8 -> 8 : ((x) >= 4 -> 4 : (x))))))
#define NobodyElse(i) ((Top(Others(i)) & ~seenReleased[i]) == 0)
#else
#define NobodyElse(i) ((Others(i) & ~seenReleased[i]) == 0)
#endif
#ifdef WITHDRAWN
#define AllReleased(i) (NobodyElse(i) && ((Others(i) & seenReleased[i] & ~withdrawn) != 0 || past[i] == Unused))
#else
#define AllReleased(i) NobodyElse(i)
#endif

/* Rule 9: the last proof is younger than the lease, and the deadline counts from it. */
#ifdef WITHOUT_LEASE
#define InLease(i) true
#else
#define InLease(i) (lease[i] > 0)
#endif
#if defined(WITHOUT_DEADLINE)
#define Deadline(i) LEASE
#elif defined(WITHOUT_LEASE)
#define Deadline(i) (lease[i] > 0 -> lease[i] : 1)
#else
#define Deadline(i) lease[i]
#endif

/* Rule 10: the delay counts since door and B are both won, and both are proven when it is over. */
#if defined(WITHOUT_DELAY_SINCE_B)
#define DelayAtTheDoor(i) DELAY
#define DelayWithB(i) delay[i]
#elif defined(WITHOUT_DELAY_SINCE_DOOR)
#define DelayAtTheDoor(i) delay[i]
#define DelayWithB(i) DELAY
#else
#define DelayAtTheDoor(i) (hasB[i] -> DELAY : 0)
#define DelayWithB(i) DELAY
#endif
#ifdef WITHOUT_PROOF_AFTER_DELAY
#define BothProven(i) true
#else
#define BothProven(i) (open[i] && B == Mine(i) && door == Mine(i))
#endif

/* Rule 11: what is removed while the own command has not started is released. */
#if defined(WITHOUT_PAIRS)
#define Removable(i) Others(i)
#elif defined(WITHDRAWN)
#define Removable(i) (NobodyElse(i) -> 0 : Others(i) & seenReleased[i])
#else
#define Removable(i) (Others(i) & seenReleased[i])
#endif

/* Rule 14: a holder whose record is gone from T publishes it again. Then T is emptied once at most, see README.md. */
#ifdef WITHOUT_REPAIR
#define RecordIsSafe(i) true
#define MayBeEmptied true
#else
#define RecordIsSafe(i) (tExists && confirmed[i])
#define MayBeEmptied (!emptied)
#endif

/* Rule 15: who steps back releases a record that was confirmed and proven, and no other.
 * With -DWITHDRAWN the release says that nothing has run under the record, and a reader takes the pair for nothing;
 * with -DEARLY as well it may follow any record. */
#if defined(WITHOUT_PROOF_TO_RELEASE)
#define MayRelease(i) (Proven(i) || (state[i] == Writing && confirmed[i]))
#elif defined(EARLY)
#define MayRelease(i) (Proven(i) || state[i] == Writing)
#else
#define MayRelease(i) Proven(i)
#endif
#ifdef WITHDRAWN
#define Telling(h, rel) ((h) & ~((rel) & withdrawn))
#else
#define Telling(h, rel) (h)
#endif

/* Rule 16: in doubt, only B says that it goes on. */
#ifdef WITHOUT_B_IN_DOUBT
#define MayGoOn(i) (B == 0 || (tHeld & Bit(rec[i])))
#else
#define MayGoOn(i) (B == 0)
#endif
