package rabbit_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/lock"
	"berth/lock/rabbit"
)

func inspect(t *testing.T, id lock.ID, urls ...string) rabbit.Report {
	t.Helper()
	report, err := backend(t, at(urls...)).Inspect(within(t), id)
	must(t, err)
	return report
}

func mentions(list []string, text string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, text) })
}

func TestInspectFindsNothingWrongWithAWorkingBroker(t *testing.T) {
	t.Parallel()
	for _, naming := range []rabbit.Naming{rabbit.NamingNLA, rabbit.NamingNAL} {
		for _, kind := range lock.Kinds {
			id := fresh(kind)
			cfg := at(shared.URL())
			cfg.Naming = naming
			r, err := backend(t, cfg).Inspect(within(t), id)
			must(t, err)
			if len(r.Problems) != 0 {
				t.Errorf("%s, %s: %v", id, naming, r.Problems)
			}
			if r.Product != "RabbitMQ" || r.Version == "" || r.Cluster == "" || r.Platform == "" ||
				r.Heartbeat != rabbit.DefaultHeartbeat {
				t.Errorf("the broker is described as %+v", r)
			}
			if !strings.Contains(r.Unseen.Policies, "list_policies") || !strings.Contains(r.Unseen.Writers, "list_permissions") {
				t.Errorf("nothing is said about policies, or permissions: %+v", r.Unseen)
			}
			if left := queues(t, shared, id); len(left) != 0 {
				t.Errorf("%s, %s: it left %q behind", id, naming, left)
			}
		}
	}
}

func TestInspectCountsSlotsAndSaysHowToCreateThem(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	r := inspect(t, id, shared.URL())
	if r.Slots != 0 || !mentions(r.Advice, "berth semaphore create") {
		t.Errorf("absent: %d slots, %q", r.Slots, r.Advice)
	}
	other := at(shared.URL())
	other.Naming = rabbit.NamingNAL
	r, err := backend(t, other).Inspect(within(t), id)
	must(t, err)
	if !mentions(r.Advice, "--slots N --naming N-A-L") {
		t.Errorf("in the other naming: %q", r.Advice)
	}
	resize(t, shared, id, 3)
	defer resize(t, shared, id, 0)
	r = inspect(t, id, shared.URL())
	if r.Slots != 3 || mentions(r.Advice, "berth semaphore create") {
		t.Errorf("present: %d slots, %q", r.Slots, r.Advice)
	}
	if r = inspect(t, fresh(lock.Mutex), shared.URL()); r.Slots != -1 {
		t.Errorf("a mutex: %d slots", r.Slots)
	}
}

func TestInspectDisturbsNeitherHolderNorWaiter(t *testing.T) {
	t.Parallel()
	for _, kind := range []lock.Kind{lock.Mutex, lock.Semaphore} {
		id := fresh(kind)
		if kind.Administered() {
			resize(t, shared, id, 1)
			defer resize(t, shared, id, 0)
		}
		_, h := holding(t, id, long)
		waiter := connected(t, shared, id)
		_, err := waiter.Acquire(within(t))
		if !errors.Is(err, lock.ErrFull) {
			t.Fatalf("a second holder: %v", err)
		}
		woken := make(chan error, 1)
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		go func() { woken <- waiter.Wait(ctx, patience) }()
		awaitSuccessor(t, id)
		before := queues(t, shared, id)
		for range 3 {
			if r := inspect(t, id, shared.URL()); len(r.Problems) != 0 {
				t.Errorf("%s is held: %v", id, r.Problems)
			}
		}
		must(t, h.Verify(within(t)))
		if err := h.Cause(); err != nil {
			t.Errorf("%s: lost: %v", id, err)
		}
		after := before
		defer func() {
			if t.Failed() {
				t.Logf("queues before: %q, after: %q", before, after)
			}
		}()
		eventually(t, "nothing stays behind", func() bool {
			after = queues(t, shared, id)
			return slices.Equal(before, after)
		})
		must(t, h.Release(within(t)))
		cancel()
		if err := <-woken; errors.Is(err, lock.ErrUnreachable) {
			t.Errorf("waiting for %s: %v", id, err)
		}
		must(t, waiter.Connect(within(t))) // to give a wait up may have cut the connection
		next, err := waiter.Acquire(within(t))
		must(t, err)
		must(t, next.Release(within(t)))
	}
}

func TestInspectNamesEveryMissingPermission(t *testing.T) {
	t.Parallel()
	must(t, shared.AddUser(within(t), "restricted", "right"))
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	defer resize(t, shared, id, 0)
	n := regexp.QuoteMeta(id.Name)
	for name, c := range map[string]struct {
		configure, write, read string
		problems               []string
		advice                 string
	}{
		"all": {".*", ".*", ".*", nil, ""},
		"nothing": {"", "", "", []string{
			fmt.Sprintf("configure permission on %q and %q", id.Name+"-1-B", id.Name+"-1-T"),
			fmt.Sprintf("read permission on %q and %q", id.Name+"-1-B", id.Name+"-1-T"),
			"amq.default"}, "waiters are not woken"},
		"no write": {".*", "", ".*", []string{"write permission on the exchange amq.default"}, ""},
		"no ledger": {".*", ".*", "^" + n + "-([0-9]+-[AB]|W)$",
			[]string{fmt.Sprintf("read permission on %q;", id.Name+"-1-T")}, ""},
		"no batons": {".*", ".*", "^" + n + "-[0-9]+-[ABT]$", nil, "waiters are not woken"},
		"no slot 0": {"^" + n + "-([1-9][0-9]*-[ABT]|W)$", ".*", "^" + n + "-([1-9][0-9]*-[ABT]|W)$", nil,
			"was not tried"},
		"no creation": {"^" + n + "-([0-9]+-[BT]|W)$", ".*", ".*", nil, "cannot change the number of slots"},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, shared.SetPermissions(within(t), "restricted", "/", c.configure, c.write, c.read))
			r := inspect(t, id, shared.URLFor("restricted", "right", "/"))
			var texts []string
			for _, problem := range r.Problems {
				readable(t, problem)
				texts = append(texts, problem.Error())
				if !errors.Is(problem, lock.ErrDenied) {
					t.Errorf("not a refusal: %v", problem)
				}
			}
			for _, want := range c.problems {
				if !mentions(texts, want) {
					t.Errorf("no %q in %q", want, texts)
				}
			}
			if len(c.problems) == 0 && len(texts) > 0 {
				t.Errorf("problems: %q", texts)
			}
			if !mentions(r.Advice, c.advice) {
				t.Errorf("no %q in %q", c.advice, r.Advice)
			}
		})
	}
}

func TestPermissionsThatInspectProposesAreEnough(t *testing.T) {
	t.Parallel()
	must(t, shared.AddUser(within(t), "granted", "right"))
	for _, kind := range lock.Kinds {
		id := fresh(kind)
		must(t, shared.SetPermissions(within(t), "granted", "/", "", "", ""))
		r := inspect(t, id, shared.URLFor("granted", "right", "/"))
		words := strings.Split(cmp.Or(r.Administrator, r.Runner), "'")
		if len(words) != 7 || words[0] != "rabbitmqctl set_permissions -p / granted " {
			t.Fatalf("not a command with three patterns: %q", words)
		}
		must(t, shared.SetPermissions(within(t), "granted", "/", words[1], words[3], words[5]))
		r = inspect(t, id, shared.URLFor("granted", "right", "/"))
		if len(r.Problems) > 0 || mentions(r.Advice, "permission on") {
			t.Errorf("%s: still %v, %q", id, r.Problems, r.Advice)
		}
	}
}

func TestInspectTellsTypesOfQueuesApart(t *testing.T) {
	t.Parallel()
	for queues, said := range map[rabbit.QueueType]string{
		rabbit.QueuesClassic: "depends on single nodes", rabbit.QueuesQuorum: "rabbitmq-queues quorum_status ",
	} {
		id := fresh(lock.TokenSemaphore)
		_, err := makeTyped(t, id, queues, 2)
		must(t, err)
		defer resize(t, shared, id, 0)
		_, h := startedIn(t, id)
		r := inspect(t, id, shared.URL())
		if len(r.Problems) != 0 || r.QueueType != queues || r.Slots != 2 || !strings.Contains(r.Unseen.Nodes, said) {
			t.Errorf("%s: %v, %q, %d slots, %q", queues, r.Problems, r.QueueType, r.Slots, r.Unseen.Nodes)
		}
		if mentions(r.Advice, "stands still") != (queues == rabbit.QueuesQuorum) {
			t.Errorf("%s: what becomes of a node that stands still is said: %q", queues, r.Advice)
		}
		if mentions(r.Advice, "when a node goes down") != (queues == rabbit.QueuesClassic) {
			t.Errorf("%s: what becomes of exclusive queues is said: %q", queues, r.Advice)
		}
		must(t, h.Verify(within(t)))
		must(t, h.Release(within(t)))
	}
	id := fresh(lock.TokenSemaphore)
	resize(t, shared, id, 1)
	defer resize(t, shared, id, 0)
	r, err := backend(t, typed(rabbit.QueuesQuorum)).Inspect(within(t), id)
	must(t, err)
	if len(r.Problems) != 1 || !errors.Is(r.Problems[0], lock.ErrUnsafe) {
		t.Errorf("with another type than that of the lock: %v", r.Problems)
	}
}

// Two virtual hosts have nothing in common, as two brokers have nothing.
func TestInspectSeesWhetherBrokersAreOneCluster(t *testing.T) {
	t.Parallel()
	must(t, shared.AddVhost(within(t), "another"))
	must(t, shared.SetPermissions(within(t), "guest", "another", ".*", ".*", ".*"))
	id := fresh(lock.Mutex)
	const survives = "with --queue-type quorum it survives the loss of any one of three"
	r := inspect(t, id, shared.URL())
	if said := r.Unseen.Nodes; len(r.Problems) > 0 || !strings.Contains(said, "AMQP does not show") ||
		!strings.Contains(said, survives) {
		t.Errorf("one broker: %v, %q", r.Problems, said)
	}
	r = inspect(t, id, shared.URL(), shared.URL())
	if said := r.Unseen.Nodes; len(r.Problems) > 0 || !strings.Contains(said, "several brokers are named") ||
		!strings.Contains(said, survives) {
		t.Errorf("two addresses: %v, %q", r.Problems, said)
	}
	eventually(t, "the other one has answered in time", func() bool {
		r = inspect(t, id, shared.URL(), shared.URLFor("guest", "guest", "another"))
		return !mentions(r.Advice, "not known whether")
	})
	if len(r.Problems) != 1 || !errors.Is(r.Problems[0], lock.ErrUnsafe) {
		t.Errorf("two brokers: %v", r.Problems)
	}
}

func TestInspectNoticesAPolicyThatEmptiesLedgers(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	setPolicy(t, id, "-", `[{<<"max-length">>, 1}]`)
	if r := inspect(t, id, shared.URL()); !mentions(r.Advice, "kept 1 of 100 messages") {
		t.Errorf("advice: %q", r.Advice)
	}
}

func TestInspectUnderAMemoryAlarmEndsAndSaysSo(t *testing.T) {
	raiseAlarm(t)
	// The broker may serve a connection for a moment after it has said that there is an alarm.
	eventually(t, "the report names the alarm", func() bool {
		r := inspect(t, fresh(lock.Mutex), shared.URL())
		if len(r.Problems) > 0 {
			t.Fatalf("problems %v", r.Problems)
		}
		return mentions(r.Advice, "alarm") || mentions(r.Advice, "does not serve publishers")
	})
}

func TestInspectSaysWhyNobodyLetsItIn(t *testing.T) {
	t.Parallel()
	must(t, shared.AddUser(within(t), "someone", "right"))
	for name, c := range map[string]struct {
		url  string
		want error
	}{
		"nobody listens": {"amqp://127.0.0.1:1", lock.ErrUnreachable},
		"wrong password": {shared.URLFor("someone", "wr0ng", "/"), lock.ErrDenied},
	} {
		_, err := backend(t, at(c.url)).Inspect(within(t), fresh(lock.Mutex))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		r := inspect(t, fresh(lock.Mutex), c.url, shared.URL())
		if len(r.Problems) > 0 || !mentions(r.Advice, "one of the nodes cannot be used") {
			t.Errorf("%s, beside a good node: %v, %q", name, r.Problems, r.Advice)
		}
	}
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	if _, err := backend(t, at(shared.URL())).Inspect(ctx, fresh(lock.Mutex)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
