package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/supervisor/calls"
	"berth/test/brokertest"
	"berth/test/relay"
)

func withinMinute(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// pause stops the broker until the returned function is called.
func pause(t *testing.T, b *brokertest.Broker) (resume func()) {
	t.Helper()
	must(t, b.Pause())
	resume = func() { must(t, b.Continue()) }
	t.Cleanup(resume)
	// The signal reaches the threads of the node one after the other.
	eventually(t, "the broker is silent", func() bool {
		c, err := net.Dial("tcp", b.Addr())
		must(t, err)
		defer c.Close()
		must(t, c.SetDeadline(time.Now().Add(100*time.Millisecond)))
		_, err = c.Write([]byte("AMQP\x00\x00\x09\x01"))
		must(t, err)
		_, err = c.Read(make([]byte, 1))
		return errors.Is(err, os.ErrDeadlineExceeded)
	})
	return resume
}

func shortly() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 100*time.Millisecond)
}

func TestVerifyOfAPausedBrokerIsUnknownAndSucceedsAfterwards(t *testing.T) {
	eachKind(t, func(t *testing.T, id lock.ID) {
		_, h := holder(t, shared, id)
		resume := pause(t, shared)
		for range 3 {
			ctx, cancel := shortly()
			err := proven(ctx, h)
			cancel()
			if !errors.Is(err, lock.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) ||
				errors.Is(err, lock.ErrLost) {
				t.Errorf("verifying while the broker is stopped: %v", err)
			}
		}
		resume()
		must(t, proven(within(t), h))
		must(t, h.Cause())
		must(t, h.Release(within(t)))
	})
}

func TestLossAfterAnUnansweredVerifyIsSeen(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	_, h := holder(t, shared, id)
	resume := pause(t, shared)
	ctx, cancel := shortly()
	defer cancel()
	if err := proven(ctx, h); !errors.Is(err, lock.ErrUnknown) {
		t.Fatalf("verifying while the broker is stopped: %v", err)
	}
	resume()
	resize(t, shared, id, 0)
	if err := proven(within(t), h); !errors.Is(err, lock.ErrLost) {
		t.Errorf("the answer to an earlier question was taken for proof: %v", err)
	}
}

func TestWhatCtxBreaksOffLeavesNothingBehind(t *testing.T) {
	eachKind(t, func(t *testing.T, id lock.ID) {
		operations := map[string]func(ctx context.Context, l lock.Lock) error{
			"Connect": func(ctx context.Context, l lock.Lock) error { return l.Connect(ctx) },
			"Acquire": func(ctx context.Context, l lock.Lock) error { _, err := l.Acquire(ctx); return err },
			"Wait":    func(ctx context.Context, l lock.Lock) error { return l.Wait(ctx, time.Hour) },
		}
		for name, operation := range operations {
			t.Run(name, func(t *testing.T) {
				l := contender(t, shared, id)
				if name != "Connect" {
					must(t, l.Connect(within(t)))
				}
				resume := pause(t, shared)
				ctx, cancel := shortly()
				defer cancel()
				if err := operation(ctx, l); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("with the broker stopped: %v", err)
				}
				resume()
				eventuallyFree(t, id)
			})
		}
	})
}

// eventuallyFree waits until no B of the lock is left.
func eventuallyFree(t *testing.T, id lock.ID) {
	t.Helper()
	eventually(t, "nothing is held", func() bool {
		for _, name := range queues(t, shared, id) {
			if name[len(name)-1] == 'B' {
				return false
			}
		}
		return true
	})
}

func TestAcquireThatEndsAtAnyMomentLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	const longest = 3 * time.Second
	eachKind(t, func(t *testing.T, id lock.ID) {
		for step := range 30 {
			cfg := at(shared.URL())
			cfg.Heartbeat = time.Second
			l := backend(t, cfg).Lock(id)
			rabbit.SetLongest(l, longest)
			succeeds(t, "connecting", func() error { return l.Connect(within(t)) })
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(step)*200*time.Microsecond)
			h, err := l.Acquire(ctx)
			cancel()
			switch {
			case err == nil:
				must(t, h.Release(within(t)))
			// A claim that was cut off may take effect for a moment before the
			// broker notices the end of its connection.
			case errors.Is(err, lock.ErrUnreachable) && strings.Contains(err.Error(), "541"): // 4.0 and 4.3, now and then
			case errors.Is(err, lock.ErrUnknown) && strings.Contains(err.Error(), "every slot"): // a B that is only just going
			case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lock.ErrFull):
				t.Errorf("after %d steps: %v", step, err)
			}
			must(t, l.Close())
		}
		slots := 1
		if id.Kind.Administered() {
			slots = 2
		}
		for range slots {
			claimed, h := claimed(t, id, time.Second)
			// A record may have been left; or one whose release tells of nobody else, where RabbitMQ has taken back a B that it
			// had just given: a B that is going takes the next one with it.
			rabbit.SetLongest(claimed, longest)
			must(t, h.Ready(within(t)))
			defer claimed.Close()
		}
	})
}

func TestReleaseThatIsNotAnsweredSaysSoAndFreesTheSlot(t *testing.T) {
	id := fresh(lock.Mutex)
	l, h := holder(t, shared, id)
	resume := pause(t, shared)
	ctx, cancel := shortly()
	defer cancel()
	if err := h.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("releasing with the broker stopped: %v", err)
	}
	select {
	case <-h.Lost():
		t.Error("the release was reported as a loss")
	default:
	}
	resume()
	eventuallyFree(t, id)
	must(t, l.Connect(within(t)))
	succeeds(t, "the slot", func() error {
		_, err := l.Acquire(within(t))
		return err
	})
}

// A firewall that forgets a connection lets others through: a release goes another way, and the next holder starts though
// that connection owns queue B for as long as the broker does not notice.
func TestReleaseGoesAnotherWayWhereItsConnectionIsSilent(t *testing.T) {
	t.Parallel()
	for what, make := range map[string]func() lock.ID{
		"mutex":  func() lock.ID { return fresh(lock.Mutex) },
		"tokens": func() lock.ID { return tokens(t, 1) },
		"quorum": func() lock.ID { return replicated(t, 1) },
	} {
		t.Run(what, func(t *testing.T) {
			succeeds(t, "a release in time", func() error { // for which a busy machine may be too slow once
				network, silent := newLate(t)
				cfg := at(silent)
				cfg.Heartbeat = long
				id := make()
				h := startedAs(t, cfg, id)
				if what != "quorum" {
					awaitB(t, h)
				}
				won := untilHeld(t, connected(t, shared, id))
				network.hold(true)
				ctx, cancel := context.WithTimeout(within(t), calls.ReleaseTimeout)
				defer cancel()
				released := inBackground(t, func(context.Context) error { return h.Release(ctx) })
				eventually(t, "its connection is silent", func() bool { return network.kept(true) > 0 })
				network.heal()
				if err := <-released; err != nil {
					return err
				}
				wonBy(t, won) // long before the lease has ended
				return nil
			})
		})
	}
}

// newFar returns the URL of the broker as it is 100 ms away and back, and what drops all that goes over the connections
// that there are.
func newFar(t *testing.T) (server string, forget func()) {
	t.Helper()
	to, err := url.Parse(shared.URL())
	must(t, err)
	var generation atomic.Int32
	r, err := relay.New(relay.Config{To: to.Host, Pass: func(_ context.Context, to, from net.Conn, _ bool) {
		buffer, mine := make([]byte, 64<<10), generation.Load()
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
			if mine != generation.Load() {
				continue
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}})
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r.URL(to), func() { generation.Add(1) }
}

// A firewall forgets the connection of a holder while the slot is verified, or B is not taken yet. The release goes
// another way here, too, also to a broker that is far away: what is awaited before it has its part of its time, and not
// more.
func TestReleaseGoesAnotherWayFromTheMidstOfAnother(t *testing.T) {
	t.Parallel()
	for what, make := range map[string]func() lock.ID{
		"claim of a mutex":                     func() lock.ID { return fresh(lock.Mutex) },
		"claim of tokens":                      func() lock.ID { return tokens(t, 1) },
		"verification of one on quorum queues": func() lock.ID { return replicated(t, 1) },
	} {
		t.Run(what, func(t *testing.T) {
			succeeds(t, "a release in time", func() error { // for which a busy machine may be too slow once
				far, forget := newFar(t)
				cfg := at(far)
				cfg.Heartbeat = long
				id := make()
				waiter := connected(t, shared, id)
				h := startedAs(t, cfg, id)
				forget()
				won := untilHeld(t, waiter)
				// For longer than until B is claimed: without that under way a release that waits for it would pass.
				asking, cancel := context.WithTimeout(within(t), 400*time.Millisecond)
				defer cancel()
				if err := h.Verify(asking); err == nil {
					t.Fatal("a slot is proved over a connection that is forgotten")
				}
				ctx, cancel := context.WithTimeout(within(t), calls.ReleaseTimeout)
				defer cancel()
				if err := h.Release(ctx); err != nil {
					return err
				}
				wonBy(t, won) // long before the lease has ended
				return nil
			})
		})
	}
}

func TestCloseOfAStoppedBrokersConnectionsReturns(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	l, h := holder(t, shared, id)
	resume := pause(t, shared)
	if err := l.Close(); err == nil {
		t.Error("closing was confirmed by nobody and reported no error")
	}
	if err := lost(t, h); !errors.Is(err, lock.ErrLost) {
		t.Errorf("cause: %v", err)
	}
	resume()
	eventuallyFree(t, id)
}

func TestWaitEndsWithTheConnection(t *testing.T) {
	id := fresh(lock.Mutex)
	l := connected(t, shared, id)
	done := make(chan error, 1)
	ctx := within(t)
	go func() { done <- l.Wait(ctx, time.Hour) }()
	if n, err := shared.CloseConnections(ctx, fmt.Sprintf("%s @", id.Name)); err != nil || n == 0 {
		t.Fatalf("closed %d connections, %v", n, err)
	}
	if err := <-done; !errors.Is(err, lock.ErrUnreachable) {
		t.Errorf("waiting: %v", err)
	}
}

func TestRemovalThatIsNotAnsweredSaysHowFarItGot(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 5)
	a := backend(t, at(shared.URL())).Administrator(id)
	defer a.Close()
	var resume func()
	_, after, err := a.Resize(within(t), 0, func(int) (int, error) {
		resume = pause(t, shared)
		return 1, nil
	})
	if !errors.Is(err, lock.ErrUnknown) || after != 5 {
		t.Errorf("left with %d slots, %v", after, err)
	}
	resume()
	resize(t, shared, id, 0)
}

// RabbitMQ can delete a B that was just claimed, in the place of the one before,
// whose connection was cut; the consumer of it is then refused.
func TestChannelClosedMeanwhileIsClosedInOrder(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, id lock.ID) {
		for range 20 {
			_, h := holder(t, shared, id)
			must(t, rabbit.EndWhatIsRefused(within(t), h))
			must(t, h.Release(within(t)))
		}
	})
}

// The successor acknowledges what it is asked, also while it leaves the reader's place.
func TestConnectionOutlivesAChannelThatAcknowledgesToTheEnd(t *testing.T) {
	queue := fresh(lock.Mutex).Name
	onChannel(t, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
		return err
	})
	t.Cleanup(func() { must(t, shared.DeleteQueue(within(t), "/", queue)) })
	l := connected(t, shared, fresh(lock.Mutex))
	for range 20 {
		must(t, shared.Fill(within(t), "/", queue, "junk", 300))
		must(t, rabbit.AckWhileClosing(within(t), l, queue))
	}
	must(t, rabbit.Probe(within(t), l, queue))
}

func TestClosingAChannelOfABrokenConnectionFails(t *testing.T) {
	p := newTap(t)
	l := backend(t, at(p.url())).Lock(fresh(lock.Mutex))
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	before := p.sum()["channel.close"]
	resume := pause(t, shared) // so that the broker cannot answer
	defer resume()
	ended := make(chan error, 1)
	ctx := within(t)
	go func() { ended <- rabbit.EndConsumer(ctx, h) }()
	eventually(t, "the close is sent", func() bool { return p.sum()["channel.close"] > before })
	rabbit.CutConnection(h)
	if err := <-ended; !errors.Is(err, lock.ErrUnreachable) {
		t.Errorf("closing it said: %v", err)
	}
}

// What is asked under a context that ends may cut the connection. That is no reason to make another.
func TestWaitWhoseContextHasEndedSaysSo(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Mutex, lock.TokenSemaphore} {
		p := newTap(t)
		l := backend(t, at(p.url())).Lock(fresh(kind))
		t.Cleanup(func() { l.Close() })
		must(t, l.Connect(within(t)))
		p.close()
		eventually(t, "the connection has ended", func() bool {
			return errors.Is(l.Wait(within(t), time.Millisecond), lock.ErrUnreachable)
		})
		over, cancel := context.WithCancel(context.Background())
		cancel()
		for range 20 {
			if err := l.Wait(over, patience); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: %v; want one that wraps %q", kind, err, context.Canceled)
			}
		}
	}
}
