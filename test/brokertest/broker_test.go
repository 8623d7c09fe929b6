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

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/test/brokertest"
	"berth/test/process"
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
	url := shared.URL()
	declare(t, channel(t, dial(t, shared, "")), "orderly", true)
	must(t, shared.Restart(t.Context()))
	found(t, "orderly", url)
}

// A killed broker costs a start: all that is to be said about one is said here.
func TestKilledBrokerSaysSoAndComesBack(t *testing.T) {
	url := shared.URL()
	declare(t, channel(t, dial(t, shared, "")), "killed", true)
	// A declare-ok of a queue can be lost with a killed node: Mnesia writes its log a
	// moment later. From 4.3 on there is only Khepri.
	_, err := shared.Eval(t.Context(), "mnesia:system_info(is_running) =:= no orelse (ok = mnesia:sync_log())")
	must(t, errors.Join(err, shared.Kill9()))
	t.Run("it does not run", func(t *testing.T) {
		_, err := shared.Connections(t.Context())
		for what, err := range map[string]error{"list": err, "pause": shared.Pause(), "kill": shared.Kill9()} {
			if !errors.Is(err, brokertest.ErrNotRunning) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
	t.Run("failure to start shows the log", func(t *testing.T) {
		file := shared.Dir() + "/rabbitmq.conf"
		good, err := os.ReadFile(file)
		must(t, err)
		defer func() { must(t, os.WriteFile(file, good, 0o600)) }()
		must(t, os.WriteFile(file, []byte("nonsense = 1\n"), 0o600))
		if err := shared.Restart(t.Context()); err == nil || !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("error of a broken configuration: %v", err)
		}
	})
	must(t, shared.Restart(t.Context()))
	found(t, "killed", url)
}

func TestRestartInPlaceCutsConnectionsAndKeepsDurableQueues(t *testing.T) {
	conn := dial(t, shared, "")
	declare(t, channel(t, conn), "in place", true)
	cut := conn.NotifyClose(make(chan *amqp.Error, 1))
	must(t, shared.RestartInPlace(t.Context(), 0))
	await(t, cut, "end of the connection")
	found(t, "in place", shared.URL())
}

// found makes sure that the broker has the URL still, and the durable queue.
func found(t *testing.T, queue, url string) {
	t.Helper()
	if shared.URL() != url {
		t.Errorf("the URL was %s and is %s", url, shared.URL())
	}
	_, err := channel(t, dial(t, shared, "")).QueueDeclarePassive(queue, true, false, false, false, nil)
	must(t, err)
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
	queue := t.Name() // an exclusive queue can outlive its connection for a moment
	declare(t, ch, queue, false)
	must(t, raise(t.Context()))
	t.Cleanup(func() { must(t, clear(context.Background())) })
	publish(t, ch, queue)
	if !await(t, blocked, "connection.blocked").Active {
		t.Fatal("unblocked before it was blocked")
	}
	confirmed := publish(t, ch, queue)
	must(t, clear(t.Context()))
	if await(t, blocked, "connection.unblocked").Active {
		t.Fatal("blocked again")
	}
	if !await(t, confirmed, "confirm of what was blocked") {
		t.Fatal("the broker nacked a publish")
	}
}

// A paused node has to be killed as well as one that runs: nothing else ends it.
func TestNoProcessIsLeftAfterTheTestProcessIsKilled(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ownerVariable+"=1")
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
	if len(process.WithEnvironment("HOME="+dir)) == 0 {
		t.Fatal("found no process of a broker")
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	must(t, process.AwaitGone(ctx, dir))
}
