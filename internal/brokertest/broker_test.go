package brokertest_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"berth/internal/brokertest"

	amqp "github.com/rabbitmq/amqp091-go"
)

// soon bounds every wait here. It is long because the machine may be busy;
// nothing waits for it to pass.
const soon = 60 * time.Second

func TestStartedBrokerDeliversWhatIsPublished(t *testing.T) {
	ch := channel(t, dial(t, shared, ""))
	declare(t, ch, "delivers", false)
	confirmed := publish(t, ch, "delivers")
	if !await(t, confirmed, "confirm") {
		t.Fatal("the broker nacked a publish")
	}
	if _, ok, err := ch.Get("delivers", true); err != nil || !ok {
		t.Fatalf("got a message: %v, %v", ok, err)
	}
}

func TestRestartKeepsPortAndDurableQueues(t *testing.T) {
	b := brokertest.New(t)
	for _, end := range []struct {
		name string
		do   func() error
	}{
		{"orderly", func() error { return nil }},
		{"killed", func() error {
			// A declare-ok of a queue can be lost with a killed node: its
			// database writes its log a moment later.
			_, err := b.Eval(t.Context(), "ok = mnesia:sync_log()")
			return errors.Join(err, b.Kill9())
		}},
	} {
		url := b.URL()
		declare(t, channel(t, dial(t, b, "")), end.name, true)
		must(t, end.do())
		must(t, b.Restart(t.Context()))
		if b.URL() != url {
			t.Fatalf("%s: the URL was %s and is %s", end.name, url, b.URL())
		}
		if _, err := channel(t, dial(t, b, "")).QueueDeclarePassive(end.name, true, false, false, false, nil); err != nil {
			t.Fatalf("%s: %v", end.name, err)
		}
	}
}

func TestRestartInPlaceCutsConnectionsAndKeepsDurableQueues(t *testing.T) {
	b := brokertest.New(t)
	conn := dial(t, b, "")
	declare(t, channel(t, conn), "in place", true)
	cut := conn.NotifyClose(make(chan *amqp.Error, 1))
	must(t, b.RestartInPlace(t.Context(), 0))
	select {
	case <-cut:
	case <-time.After(10 * time.Second):
		t.Error("the connection is not cut")
	}
	if _, err := channel(t, dial(t, b, "")).QueueDeclarePassive("in place", true, false, false, false, nil); err != nil {
		t.Error(err)
	}
}

func TestKilledBrokerSaysThatItDoesNotRun(t *testing.T) {
	b := brokertest.New(t)
	must(t, b.Kill9())
	_, err := b.Connections(t.Context())
	for what, err := range map[string]error{"list": err, "pause": b.Pause(), "kill": b.Kill9()} {
		if !errors.Is(err, brokertest.ErrNotRunning) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestPausedBrokerAnswersOnlyAfterContinue(t *testing.T) {
	ch := channel(t, dial(t, shared, ""))
	must(t, shared.Pause())
	t.Cleanup(func() { must(t, shared.Continue()) })
	answered := make(chan error, 1)
	go func() {
		_, err := ch.QueueDeclare("paused", false, false, true, false, nil)
		answered <- err
	}()
	// The administration cannot get an answer either, and finds its way back.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := shared.Queues(ctx, "/"); err == nil {
		t.Error("a paused broker listed its queues")
	}
	select {
	case err := <-answered:
		t.Errorf("a paused broker answered: %v", err)
	default:
	}
	must(t, shared.Continue())
	must(t, await(t, answered, "declare"))
	findQueue(t, shared, "paused")
}

func TestAlarmBlocksAPublisherUntilItIsCleared(t *testing.T) {
	t.Run("memory", func(t *testing.T) { blocks(t, shared.RaiseMemoryAlarm, shared.ClearMemoryAlarm) })
	t.Run("disk", func(t *testing.T) { blocks(t, shared.RaiseDiskAlarm, shared.ClearDiskAlarm) })
}

func blocks(t *testing.T, raise, clear func(context.Context) error) {
	t.Helper()
	conn := dial(t, shared, "")
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 2))
	ch := channel(t, conn)
	declare(t, ch, "alarm", false)
	must(t, raise(t.Context()))
	t.Cleanup(func() { must(t, clear(context.Background())) })
	publish(t, ch, "alarm")
	if !await(t, blocked, "connection.blocked").Active {
		t.Fatal("unblocked before it was blocked")
	}
	confirmed := publish(t, ch, "alarm")
	must(t, clear(t.Context()))
	if await(t, blocked, "connection.unblocked").Active {
		t.Fatal("blocked again")
	}
	if !await(t, confirmed, "confirm of what was blocked") {
		t.Fatal("the broker nacked a publish")
	}
}

func TestNoProcessIsLeftAfterStop(t *testing.T) {
	b, err := brokertest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(brokertest.Family(b.Dir())) == 0 {
		t.Fatal("found no process of a running broker")
	}
	must(t, b.Stop())
	if left := brokertest.Family(b.Dir()); len(left) > 0 {
		t.Fatalf("left: %v", left)
	}
	if _, err := os.Stat(b.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("its directory: %v", err)
	}
	must(t, b.Stop())
}

func TestNoProcessIsLeftAfterTheTestProcessIsKilled(t *testing.T) {
	for _, mode := range []string{"running", "paused"} {
		t.Run(mode, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), ownerVariable+"="+mode)
			cmd.Stderr = os.Stderr
			stdin, err := cmd.StdinPipe() // held open, or the owner ends by itself
			must(t, err)
			defer stdin.Close()
			stdout, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			dir, err := bufio.NewReader(stdout).ReadString('\n')
			must(t, err)
			dir = strings.TrimSpace(dir)
			t.Cleanup(func() { os.RemoveAll(dir) })
			if len(brokertest.Family(dir)) == 0 {
				t.Fatal("found no process of a running broker")
			}
			must(t, cmd.Process.Kill())
			_ = cmd.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			must(t, brokertest.AwaitGone(ctx, dir))
		})
	}
}

func TestFailureToStartShowsTheLog(t *testing.T) {
	b := brokertest.New(t)
	must(t, b.Kill9())
	must(t, os.WriteFile(b.Dir()+"/rabbitmq.conf", []byte("nonsense = 1\n"), 0o600))
	err := b.Restart(t.Context())
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Fatalf("error of a broken configuration: %v", err)
	}
}
