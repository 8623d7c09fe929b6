/* The rules that are conditions. -DWITHOUT_X leaves one out; README.md says which property fails then. Rules that are
 * steps have their variant beside the step. */

/* Rule 3: the clock, too, is below a new term; and who was overtaken publishes again, also when it is to start. */
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
#ifdef WITHOUT_TERM
#define RecordsAgain false
#else
#define RecordsAgain true
#endif

/* Rule 4: an empty ledger says nothing. B first, then the delay, then the record. Nor does one that tells only of those
 * who left early, rule 15. */
#define Tells(i) (told[i] || (Others(i) & ~(seenReleased[i] & early)) != 0)
#define Recorded(i) (rec[i] == 0 -> Tells(i) : seenHeld[i] != 0)
#if defined(WITHOUT_UNKNOWN)
#define MayRecord(i) true
#elif defined(WITHOUT_DELAY_WHEN_EMPTY)
#define MayRecord(i) (past[i] == Known -> Recorded(i) : hasB[i])
#else
#define MayRecord(i) (past[i] == Known -> Recorded(i) : \
    hasB[i] && (past[i] == Unused || state[i] == Back))
#endif
/* Who sees no message claims B before it goes to that place: to a holder it looks like one that has all in hand. */
#if defined(WITHOUT_LOOK) || defined(WITHOUT_UNKNOWN)
#define BeforeThePlace(i) false
#else
#define BeforeThePlace(i) (past[i] == Empty && !hasB[i] && (seenHeld[i] | seenReleased[i]) == 0)
#endif
/* Where all are released, somebody away from the reader's place may have more in hand: then B is taken. */
#define MayBeAway(i) (past[i] == Known && AllReleased(i) && !hasB[i] && BIsTaken(i))
#define NobodyIsAway(i) (past[i] != Known || !AllReleased(i) || hasB[i] || BIsFree(i))

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
#define ProvenWithB(i) (past[i] == Known || (HasB(Mine(i)) && open[i]))
#endif

/* Rule 8: everybody who was recorded is released. */
#ifdef WITHOUT_EVERY_RELEASE
#define Top(x) ((x) >= 64 -> 64 : ((x) >= 32 -> 32 : ((x) >= 16 -> 16 : ((x) >= 8 -> 8 : ((x) >= 4 -> 4 : (x))))))
#define AllReleased(i) ((Top(Others(i)) & ~seenReleased[i]) == 0 && (past[i] != Known || Tells(i)))
#else
#define AllReleased(i) ((Others(i) & ~seenReleased[i]) == 0 && (past[i] != Known || Tells(i)))
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

/* Rule 10: the delay counts since place and B are both won, and both are proven when it is over. */
#if defined(WITHOUT_DELAY_SINCE_B)
#define DelayAtThePlace(i) DELAY
#define DelayWithB(i) delay[i]
#define DelayWithBFirst NotBegun
#elif defined(WITHOUT_DELAY_SINCE_READER)
#define DelayAtThePlace(i) delay[i]
#define DelayWithB(i) DELAY
#define DelayWithBFirst DELAY
#else
#define DelayAtThePlace(i) (hasB[i] -> NotBegun : 0)
#define DelayWithB(i) NotBegun
#define DelayWithBFirst NotBegun
#endif
#ifdef WITHOUT_PROOF_AFTER_DELAY
#define BothProven(i) true
#else
#define BothProven(i) (open[i] && HasB(Mine(i)) && reader == Mine(i))
#endif
/* Meanwhile it is away from the reader's place, and heeds a "held" of somebody else that is in T when it comes back. */
#ifdef WITHOUT_STEP_OUT
#define StepsOut false
#else
#define StepsOut true
#endif
#if defined(WITHOUT_ECHO) || defined(WITHOUT_STEP_OUT)
#define Echo(i, h) 0
#else
#define Echo(i, h) ((hasB[i] && delay[i] <= DELAY && \
    (state[i] != Writing || past[i] == Empty) && state[i] != Waited) -> (h) & ~Own(i) : 0)
#endif
/* The delay begins anew when a message is in T then: a holder may have taken that for its record. */
#if defined(WITHOUT_DELAY) || defined(WITHOUT_STEP_OUT)
#define DelayInside(i) delay[i]
#elif defined(WITHOUT_ECHO)
#define DelayInside(i) (tReleased != 0 -> NotBegun : delay[i])
#else
#define DelayInside(i) ((tHeld | tReleased) != 0 -> NotBegun : delay[i])
#endif

/* Rule 11: what is removed while the own command has not started is released. */
#if defined(WITHOUT_PAIRS)
#define Removable(i) Others(i)
#else
#define Removable(i) (Others(i) & seenReleased[i])
#endif

/* Rule 12: the reader's place is the claim, and its proof the verification, until B is ours. */
#ifdef WITHOUT_TAKE_B
#define ProvenWhileYoung(i) (hasB[i] -> HasB(Mine(i)) : reader == Mine(i))
#else
#define ProvenWhileYoung(i) (!hasB[i] && reader == Mine(i))
#endif

/* Rule 14: a holder whose record is gone from T publishes it again. Then T is emptied once at most, see README.md. */
#ifdef WITHOUT_REPAIR
#define RecordIsSafe(i) true
#define MayBeEmptied HandsCount
#else
#define RecordIsSafe(i) (tExists && confirmed[i] && (reader != 0 || (tHeld | tReleased) != 0))
#define MayBeEmptied (!emptied && HandsCount)
#endif
/* Who has B again looks at T before it counts on it. */
#if defined(WITHOUT_RECLAIM)
#define LeaseOfReclaim(i) LEASE
#elif defined(WITHOUT_B_IN_DOUBT)
#define LeaseOfReclaim(i) (HasB(Mine(i)) -> lease[i] : LEASE)
#else
#define LeaseOfReclaim(i) lease[i]
#endif

/* Rule 15: who steps back before it has seen everybody end says so: its release speaks of itself alone. */
#if defined(WITHOUT_EARLY)
#define LeavesEarly(i) false
#elif defined(WITHOUT_EARLY_UNHEARD)
#define LeavesEarly(i) (Proven(i) && state[i] != Waited && !AllReleased(i))
#else
#define LeavesEarly(i) (!Proven(i) || (state[i] != Waited && !AllReleased(i)))
#endif

/* Rule 16: in doubt, only B says that it goes on. */
#ifdef WITHOUT_B_IN_DOUBT
#define MayGoOn(i) (BIsFree(i) || reader != 0)
#else
#define MayGoOn(i) BIsFree(i)
#endif

/* The broker's, not berth's: what is under way arrives within a tick. */
#ifdef PROMPT
#define NothingIsUnderWay ((heldFly | releasedFly) == 0)
#else
#define NothingIsUnderWay true
#endif
