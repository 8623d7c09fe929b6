package rabbit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// answering answers what a contender is asked, as a supervisor does, until the test ends. It returns what was asked.
func answering(t testing.TB, l lock.Lock, says func() lock.Report) (verbs func() []lock.Verb) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var all []lock.Verb
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case r := <-l.Requests():
				mu.Lock()
				all = append(all, r.Verb)
				mu.Unlock()
				var answer any = lock.Decision{Accepted: true}
				if r.Verb == lock.AskStatus {
					answer = says()
				}
				text, _ := json.Marshal(answer)
				if r.Reply != nil {
					bounded, stop := context.WithTimeout(ctx, 5*time.Second)
					_ = r.Reply(bounded, text)
					stop()
				}
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return func() []lock.Verb {
		mu.Lock()
		defer mu.Unlock()
		return append([]lock.Verb(nil), all...)
	}
}

// says is a report of a holder of a slot; 0: of one that waits.
func says(name string, slot int) func() lock.Report {
	return func() lock.Report { return lock.Report{Holder: name, Host: "there", PID: 7, Slot: slot} }
}

func inspector(t testing.TB, cfg rabbit.Config, id lock.ID) lock.Inspector {
	t.Helper()
	b, err := rabbit.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	i := b.Inspector(id)
	t.Cleanup(func() { i.Close() })
	return i
}

// seen looks until what is seen is as wanted, which a broker that is busy may take a moment for.
func seen(t *testing.T, i lock.Inspector, want string) lock.Status {
	t.Helper()
	var s lock.Status
	var got string
	defer func() {
		if t.Failed() {
			t.Logf("last seen: %s", got)
		}
	}()
	eventually(t, "to be seen: "+want, func() bool {
		var err error
		s, err = i.Look(within(t))
		must(t, err)
		got = describe(s)
		return got == want
	})
	return s
}

// describe puts a status on one line.
func describe(s lock.Status) string {
	var words []string
	for _, slot := range s.Slots {
		word := fmt.Sprintf("%d %s", slot.Slot, slot.State)
		if slot.Holder != nil {
			word += " by " + slot.Holder.Holder
		}
		if slot.Successor != nil {
			word += " next " + slot.Successor.Holder
		} else if slot.HasSuccessor {
			word += " next somebody"
		}
		if slot.Problem != "" {
			word += " (" + slot.Problem + ")"
		}
		words = append(words, word)
	}
	return fmt.Sprintf("%s; %d wait", strings.Join(words, ", "), s.Waiting)
}

func TestStatusOfALockThatWasNeverUsed(t *testing.T) {
	seen(t, inspector(t, at(shared.URL()), fresh(lock.Mutex)), "1 free; 0 wait")
	seen(t, inspector(t, at(shared.URL()), fresh(lock.Semaphore)), "; 0 wait")
	seen(t, inspector(t, at(shared.URL()), fresh(lock.PersistentMutex)), "; 0 wait")
}

func TestStatusOfAMutexFromHolderToHolder(t *testing.T) {
	t.Parallel()
	for _, naming := range []rabbit.Naming{rabbit.NamingNLA, rabbit.NamingNAL} {
		t.Run(string(naming), func(t *testing.T) {
			id := fresh(lock.Mutex)
			cfg := at(shared.URL())
			cfg.Naming, cfg.Heartbeat = naming, long
			i := inspector(t, cfg, id)
			l := backend(t, cfg).Lock(id)
			t.Cleanup(func() { l.Close() })
			must(t, l.Connect(within(t)))
			h, err := l.Acquire(within(t))
			must(t, err)
			answering(t, l, says("one", 1))
			rabbit.TakeBAfter(h, time.Hour)
			must(t, h.Ready(within(t)))
			seen(t, i, "1 held by one; 0 wait") // the reader, as its command is young
			must(t, h.Release(within(t)))
			seen(t, i, "1 free; 0 wait")

			h, err = l.Acquire(within(t))
			must(t, err)
			start(t, h)
			seen(t, i, "1 held by one; 0 wait")
			next := refused(t, cfg, id)
			answering(t, next, says("two", 0))
			untilWoken(t, next)
			seen(t, i, "1 held by one next two; 1 wait")
			third := refused(t, cfg, id)
			answering(t, third, says("three", 0))
			untilWoken(t, third)
			seen(t, i, "1 held by one next two; 2 wait")
			must(t, l.Close())
			seen(t, i, "1 held next two (its holder has gone; the successor starts as soon as the command is "+
				"certainly dead); 2 wait")
		})
	}
}

func TestStatusOfASemaphore(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 3)
	defer resize(t, shared, id, 0)
	i := inspector(t, at(shared.URL()), id)
	l, _ := holding(t, id, long)
	answering(t, l, says("one", 1))
	seen(t, i, "1 held by one, 2 free, 3 free; 0 wait")
	for slot, name := range map[int]string{2: "two", 3: "three"} {
		l, _ := holding(t, id, long)
		answering(t, l, says(name, slot))
	}
	resize(t, shared, id, 2)
	for range 2 {
		w := refused(t, at(shared.URL()), id)
		answering(t, w, says("waiter", 0))
		untilWoken(t, w)
	}
	eventually(t, "two are successors, one is in the removed slot", func() bool {
		s, err := i.Look(within(t))
		must(t, err)
		return len(s.Slots) == 2 && s.Slots[0].Successor != nil && s.Slots[1].Successor != nil && s.Waiting == 2
	})
}

// A supervisor that is stopped holds its slot all the same.
func TestStatusOfWhoDoesNotAnswer(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	holding(t, id, long)
	untilWoken(t, refused(t, at(shared.URL()), id))
	awaitSuccessor(t, id)
	i := inspector(t, at(shared.URL()), id)
	seen(t, i, "1 held next somebody (its holder does not answer; the name of its connection to the broker has its host and pid); 1 wait")
}

// What a holder was asked in its last moment is lost, and the next one has its slot by then.
func TestLookThatIsNotAnsweredIsRepeated(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	l, _ := holding(t, id, long)
	i := inspector(t, at(shared.URL()), id)
	looked := make(chan string, 1)
	go func() {
		s, err := i.Look(within(t))
		looked <- fmt.Sprint(describe(s), err)
	}()
	select {
	case <-l.Requests():
	case <-within(t).Done():
		t.Fatal("the holder is not asked")
	}
	answering(t, l, says("one", 1))
	if got, want := <-looked, "1 held by one; 0 wait<nil>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Of those who hold and wait nobody notices that somebody looks.
func TestLookingChangesNothing(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 2)
	defer resize(t, shared, id, 0)
	l, h := holding(t, id, long)
	answering(t, l, says("one", 1))
	another, other := holding(t, id, long)
	answering(t, another, says("another", 2))
	l2 := refused(t, at(shared.URL()), id)
	answering(t, l2, says("two", 0))
	woken := untilWoken(t, l2)
	awaitPlaces(t, id, 2)
	ledgers := func() (n []int) {
		for _, slot := range []string{"1", "2"} {
			q, _, err := shared.Queue(within(t), "/", id.Name+"-"+slot+"-T")
			must(t, err)
			n = append(n, q.Messages)
		}
		return n
	}
	before := fmt.Sprint(ledgers())
	i := inspector(t, at(shared.URL()), id)
	for range 50 {
		_, err := i.Look(within(t))
		must(t, err)
	}
	eventually(t, "nothing is left of the questions", func() bool { return fmt.Sprint(ledgers()) == before })
	must(t, h.Verify(within(t)))
	must(t, other.Verify(within(t)))
	select {
	case err := <-woken:
		t.Errorf("a waiter was woken: %v", err)
	default:
	}
	must(t, h.Release(within(t)))
	must(t, <-woken)
}

func TestHolderIsAsked(t *testing.T) {
	id := fresh(lock.Mutex)
	i := inspector(t, at(shared.URL()), id)
	if _, err := i.Ask(within(t), 1, lock.AskStepDown); !errors.Is(err, lock.ErrAbsent) {
		t.Errorf("asking nobody: %v", err)
	}
	l, h := claimed(t, id, long)
	must(t, h.Ready(within(t)))
	verbs := answering(t, l, says("one", 1))
	for _, verb := range []lock.Verb{lock.AskStepDown, lock.AskReload} { // at once: it has no B for a moment
		answer, err := i.Ask(within(t), 1, verb)
		must(t, err)
		var d lock.Decision
		if err := json.Unmarshal(answer, &d); err != nil || !d.Accepted {
			t.Errorf("%s: %s, %v", verb, answer, err)
		}
	}
	if got := fmt.Sprint(verbs()); got != "[status step-down status reload]" {
		t.Errorf("asked: %s", got)
	}
}

// It leaves the reader's place when it has B, between two looks of who asks.
func TestHolderIsFoundWhileItTakesB(t *testing.T) {
	id := fresh(lock.Mutex)
	l, h := claimed(t, id, long)
	answering(t, l, says("one", 1))
	const askers = 3 // more at once are not heard
	var all []lock.Inspector
	for range askers {
		i := inspector(t, at(shared.URL()), id)
		_, err := i.Look(within(t)) // connects
		must(t, err)
		all = append(all, i)
	}
	for round := range 10 {
		rabbit.TakeBAfter(h, time.Duration(round)*6*time.Millisecond)
		must(t, h.Ready(within(t)))
		var asking sync.WaitGroup
		for _, i := range all {
			asking.Go(func() {
				if _, err := i.Ask(within(t), 1, lock.AskReload); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		must(t, h.Release(within(t)))
		var err error
		h, err = acquire(t, l)
		must(t, err)
	}
}

// Somebody who looks every second costs a holder one connection, and nothing once nobody looks any more.
func TestAnswersCostOneConnection(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	rabbit.KeepAnswering(l, 10*time.Second)
	answering(t, l, says("one", 1))
	i := inspector(t, at(shared.URL()), id)
	for range 30 {
		s, err := i.Look(within(t))
		must(t, err)
		if got := describe(s); got != "1 held by one; 0 wait" {
			t.Fatal(got)
		}
	}
	connections(t, id, 4) // two of each
	must(t, i.Close())
	connections(t, id, 1)
	must(t, h.Verify(within(t)))
}

func TestInspectorConnectsAgain(t *testing.T) {
	id := fresh(lock.Mutex)
	i := inspector(t, at(shared.URL()), id)
	seen(t, i, "1 free; 0 wait")
	cut(t, id)
	eventually(t, "it is seen again", func() bool {
		s, err := i.Look(within(t))
		if err != nil && !errors.Is(err, lock.ErrUnreachable) {
			t.Fatal(err)
		}
		return err == nil && describe(s) == "1 free; 0 wait"
	})
	down := inspector(t, at("amqp://guest:guest@127.0.0.1:1"), id)
	if _, err := down.Look(within(t)); !errors.Is(err, lock.ErrUnreachable) {
		t.Errorf("without a broker: %v", err)
	}
}

// The broker logs every look that it refuses as an error.
func TestLookingAgainIsRefusedNothing(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 3)
	defer resize(t, shared, id, 0)
	p := newTap(t)
	l, _ := holding(t, id, long)
	answering(t, l, says("one", 1))
	i := inspector(t, at(p.url()), id)
	for range 2 { // the first opens the channel, and so does the one after a refusal
		seen(t, i, "1 held by one, 2 free, 3 free; 0 wait")
	}
	before := p.sum()
	seen(t, i, "1 held by one, 2 free, 3 free; 0 wait")
	want := cost{"basic.publish": 7, "queue.declare": 1} // A of 4, B of 3; T of the one that was held
	if got := p.sum().minus(before); !maps.Equal(got, want) {
		t.Errorf("a look costs %v", got)
	}
}
