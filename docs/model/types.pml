/* Of which type the queues of a mutex are: berths that disagree never both run. README.md has the rules.
 *
 * A mutex is nowhere administered: the first berth makes what it needs. One that makes quorum queues has the
 * administration mutex meanwhile, and removes the ledger where it is refused. A look at the broker is one step, and
 * what follows from its answer comes at any later time. What happens between two berths of one type is in the other
 * models: here any number of them may run at once.
 */
#ifndef BERTHS
#define BERTHS 2        /* of each type */
#endif
#ifndef TRIES
#define TRIES 2         /* attempts of each of them */
#endif
#define Say(...) printf(__VA_ARGS__)

/* ---- the broker */
bool T;                 /* the ledger of the lock with classic queues is there */
bool recorded;          /* and it has a record */
bool Q;                 /* the ledger of the lock with quorum queues is there */
bool A;                 /* and queue A of it, which is made last */
bool N;                 /* a berth has the administration mutex */

/* ---- what runs */
byte aliveClassic, aliveQuorum;   /* berths whose commands run */

#ifdef WITHOUT_LOOK_AFTER
#define After(there) false
#else
#define After(there) there
#endif
#ifdef WITHOUT_RECORD   /* a ledger shows the type as soon as it is there */
#define Shown T
#else
#define Shown recorded
#endif
#ifdef A_FIRST          /* queue A is made before the look */
#define MadeFirst true
#else
#define MadeFirst false
#endif

proctype Classic() {
    byte tries = TRIES;
    do
    :: tries > 0 ->
        tries--;
        if
        :: d_step { Shown -> Say("a ledger with a record is there\n") }
        :: d_step { !Shown && Q -> Say("refused: quorum queues\n") }; goto refused
        :: d_step { !Shown && !Q -> Say("no ledger of either type that counts\n") };
            d_step { T = true; Say("a classic ledger is made\n") };
            if
            :: d_step { After(Q) -> Say("refused: quorum queues since\n") }; goto refused
            :: d_step { !After(Q) -> Say("still no quorum queues\n") }
            fi;
            d_step { recorded = true; Say("recorded\n") }
        fi;
        d_step { aliveClassic++; assert(aliveQuorum == 0); Say("a command runs, classic\n") };
        d_step { aliveClassic--; Say("it has ended, classic\n") };
        refused: skip
    :: else -> break
    od
}

proctype Quorum() {
    byte tries = TRIES;
    bool made;
    do
    :: tries > 0 ->
        tries--;
        if
        :: d_step { A -> Say("queue A is there\n") }
        :: d_step { !A && !N -> N = true; Say("the administration mutex is taken\n") };
            if
            :: d_step { T -> N = false; Say("refused: classic queues\n") }; goto refused
            :: d_step { !T -> Say("no classic queues\n") }
            fi;
            d_step { made = !Q; Q = true; A = A || MadeFirst; Say("a quorum ledger is there\n") };
            if
            :: d_step { After(T) -> Say("refused: classic queues since\n") };
                d_step { Q = Q && !made; N = false; Say("the ledger is removed\n") };
                goto refused
            :: d_step { !After(T) -> Say("still no classic queues\n") }
            fi;
            d_step { A = true; N = false; Say("queue A is made\n") }
        fi;
        d_step { aliveQuorum++; assert(aliveClassic == 0); Say("a command runs, quorum\n") };
        d_step { aliveQuorum--; Say("it has ended, quorum\n") };
        refused: skip
    :: else -> break
    od
}

init {
    byte n;
    atomic {
        for (n : 1 .. BERTHS) {
            run Classic();
            run Quorum()
        }
    }
}
