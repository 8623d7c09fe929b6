package rabbit_test

import (
	"errors"
	"strings"
	"testing"

	"berth/lock"
)

// longestOfRunes is how many bytes the name of a lock may have that is not plain ASCII.
// From 4.0 on RabbitMQ ends a connection with 541 in the place of a refusal whose text it
// would have to cut; with names up to here it need not.
func longestOfRunes() int {
	if shared.Since(4, 0) {
		return 32
	}
	return lock.MaxName
}

// awkward are names that fill the short strings of AMQP, so that the broker cuts its
// answers, in the middle of a letter maybe, and names that look like answers.
func awkward() map[string]lock.ID {
	names := map[string]lock.ID{}
	for what, begin := range map[string]string{
		"long":                "a",
		"long and not ASCII":  "é",
		"long, with an emoji": "🔒",
		"like an answer":      "' in vhost '/' in exclusive use",
	} {
		name := fresh(lock.Mutex).Name + " "
		if strings.HasPrefix(what, "long") {
			longest := lock.MaxName
			if len(begin) > 1 {
				longest = longestOfRunes()
			}
			name += strings.Repeat(begin, (longest-len(name))/len(begin))
		} else {
			name += begin
		}
		names[what] = lock.ID{Kind: lock.Mutex, Name: name}
	}
	return names
}

func TestRaceForALockOfAnyNameHasOneWinner(t *testing.T) {
	const contenders = 8
	for what, id := range awkward() {
		t.Run(what, func(t *testing.T) {
			for _, use := range []string{"first", "second"} {
				start, ends := make(chan struct{}), make(chan error)
				var all []lock.Lock
				var won lock.Held
				for range contenders {
					l := connected(t, shared, id)
					all = append(all, l)
					ctx := within(t)
					go func() {
						<-start
						h, err := l.Acquire(ctx)
						if err == nil {
							won = h
						}
						ends <- err
					}()
				}
				close(start)
				winners := 0
				for range contenders {
					if err := <-ends; err == nil {
						winners++
					} else if !errors.Is(err, lock.ErrFull) {
						t.Errorf("the %s use: %v", use, err)
					}
				}
				if winners > 1 {
					t.Fatalf("the %s use: %d have the slot", use, winners)
				}
				if winners == 0 { // all got in each other's way
					succeeds(t, "the slot", func() (err error) {
						won, err = all[0].Acquire(within(t))
						return err
					})
				}
				must(t, won.Ready(within(t)))
				must(t, won.Release(within(t)))
				for _, l := range all {
					must(t, l.Close())
				}
			}
		})
	}
}

func TestLockOfAnyNameIsHandedOver(t *testing.T) {
	t.Parallel()
	for what, id := range awkward() {
		t.Run(what, func(t *testing.T) {
			_, h := holding(t, id, long)
			if _, err := connectedAcquire(t, id); !errors.Is(err, lock.ErrFull) {
				t.Errorf("a second holder: %v", err)
			}
			_, woken := successor(t, lasting(), id)
			must(t, proven(within(t), h))
			cut(t, id) // the waiter's, too
			<-woken
			must(t, proven(within(t), h))
			must(t, shared.DeleteQueue(within(t), "/", id.Name+"-1-T"))
			must(t, proven(within(t), h))
			_, woken = successor(t, lasting(), id)
			must(t, h.Release(within(t)))
			must(t, <-woken)
		})
	}
}
