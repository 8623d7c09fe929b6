package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/prover/adapter"
	"berth/prover/fault"
	"berth/prover/history"
	"berth/prover/witness"
	"berth/test/brokertest"
	"berth/test/process"
)

func TestMain(m *testing.M) {
	switch {
	case witness.Called():
		os.Exit(witness.Main())
	case filepath.Base(os.Args[0]) == "idle":
		time.Sleep(time.Minute)
	}
	goleak.VerifyTestMain(m)
}

// campaigns runs one with an adapter of that script, which has {lock} as $1, {broker} as $2, and {witness} as $3.
func campaigns(t *testing.T, script string, change func(*Config)) (history.History, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Adapter: adapter.Template{"bash", file, adapter.Lock, adapter.Broker, adapter.Witness},
		Values:  adapter.Values{adapter.Lock: filepath.Join(t.TempDir(), "l")},
		Slots:   1, Clients: 3, Time: 2 * time.Second, Work: time.Second, Progress: 10 * time.Second, Orphan: time.Second,
		Seed: 7, Mode: "plain", SlotVariable: "SLOT", TermVariable: "TERM",
	}
	change(&cfg)
	return Run(t.Context(), cfg)
}

// named returns the faults of a list.
func named(t *testing.T, list string) []fault.Fault {
	t.Helper()
	all, err := fault.Named(list, fault.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// of returns the events of a kind.
func of(h history.History, kind history.Kind) history.History {
	return slices.DeleteFunc(slices.Clone(h), func(e history.Event) bool { return e.Kind != kind })
}

func TestCommandsWorkForLongNowAndThen(t *testing.T) {
	long := 0
	for n := range 1000 {
		switch w := works(7, n, 30*time.Second); {
		case w != works(7, n, 30*time.Second) || w < leastWork || w > 30*time.Second:
			t.Errorf("%d: %s", n, w)
		case w > longest:
			long++
		case w > mostWork:
			t.Errorf("%d: %s is neither short, nor longer than a fault", n, w)
		}
	}
	if long < 150 || long > 250 {
		t.Errorf("%d of 1000 are long", long)
	}
}

func TestFirstFaultComesAfterTheFirstCommand(t *testing.T) {
	t.Parallel()
	h, err := campaigns(t, `sleep 1.5; exec flock "$1" "$3"`, func(cfg *Config) {
		cfg.Faults, cfg.Seed = named(t, "kill"), 49 // whose first fault comes 0.3 s later, and waits for no command
	})
	if err != nil {
		t.Fatal(err)
	}
	lives := of(h, history.Life)
	first := slices.MinFunc(lives, func(a, b history.Event) int { return int(a.At - b.At) })
	for _, f := range of(h, history.Fault) {
		if f.At < first.At {
			t.Errorf("%s at %s, before the first command at %s", f.Fault, time.Duration(f.At), time.Duration(first.At))
		}
	}
}

func TestClientsThatGiveUpAtOnceAreNotReplacedAtOnce(t *testing.T) {
	t.Parallel()
	h, err := campaigns(t, `exec flock -n "$1" "$3"`, func(*Config) {})
	if err != nil {
		t.Fatal(err)
	}
	last := slices.MaxFunc(h, func(a, b history.Event) int { return int(a.Until - b.Until) })
	if n, most := len(of(h, history.Client)), 3*(2+int(last.Until/int64(rest))); n < 4 || n > most {
		t.Errorf("%d clients, and at most %d can be", n, most)
	}
}

func TestRecordWithoutALineIsNoCommand(t *testing.T) {
	t.Parallel()
	_, err := campaigns(t, `: >"$WITNESS_DIR/1-2"; echo cannot write; sleep 1`, func(cfg *Config) { cfg.Progress = time.Second })
	if !errors.Is(err, ErrNothingRan) || !strings.Contains(err.Error(), "cannot write") {
		t.Error(err)
	}
}

// A client may be the prover's program itself, as one of berth-prove hold is.
func TestCommandIsWhatIsCalledWitness(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{witness.Name: true, "idle": false} {
		c := &campaign{dir: t.TempDir(), Config: Config{Time: time.Minute, Work: time.Second}}
		if err := errors.Join(os.Mkdir(c.records(), 0o700), os.Mkdir(c.register(), 0o700)); err != nil {
			t.Fatal(err)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c.began = history.Now()
		one, err := adapter.Template{"bash", "-c", `exec -a "$0" "$1"`, name, self}.Start(c.environment("c1"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for over := time.Now().Add(20 * time.Second); process.Executable(one.PID()) != self && time.Now().Before(over); {
			time.Sleep(time.Millisecond)
		}
		if running := c.running(); running["c1"] != want {
			t.Errorf("%s: %v", name, running)
		}
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		one.End(impatient)
	}
}

// What a client leaves may have to tell the broker that it is gone.
func TestRelayIsThereWhenItsClientHasEnded(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	told := make(chan string, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			text := make([]byte, 4)
			n, _ := conn.Read(text)
			conn.Close()
			told <- string(text[:n])
		}
	}()
	_, err = campaigns(t, `port=${2##*:}
(sleep 0.5; echo gone >"/dev/tcp/127.0.0.1/$port") </dev/null >/dev/null 2>&1 &
exec flock "$1" "$3"`, func(cfg *Config) {
		cfg.Servers, cfg.Work = []*url.URL{{Scheme: "http", Host: listener.Addr().String()}}, 300*time.Millisecond
		cfg.Time, cfg.Clients = time.Second, 1
	})
	if err != nil {
		t.Error(err)
	}
	select {
	case text := <-told:
		if text != "gone" {
			t.Errorf("%q", text)
		}
	case <-time.After(20 * time.Second):
		t.Error("nothing came through")
	}
}

// appears waits for a file.
func appears(t *testing.T, file string) {
	t.Helper()
	for over := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
		if time.Now().After(over) {
			t.Error("there is no", file)
			return
		}
	}
}

// with makes a campaign with a client that runs a script, in which {dir} is the campaign's directory.
func with(t *testing.T, script string) *campaign {
	t.Helper()
	c := &campaign{dir: t.TempDir(), calm: func() {}, Config: Config{Work: time.Second}}
	if err := os.Mkdir(c.records(), 0o700); err != nil {
		t.Fatal(err)
	}
	one := &client{name: "c1"}
	var err error
	one.Client, err = adapter.Template{"bash", "-c", strings.ReplaceAll(script, "{dir}", c.dir)}.Start(c.environment("c1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.clients = append(c.clients, one)
	return c
}

func TestClientThatTheEndKillsIsNoted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := with(t, "trap ': >{dir}/termed' TERM; : >{dir}/ready; while :; do sleep 0.05; done")
	appears(t, filepath.Join(c.dir, "ready"))
	go func() { // so that its patience is short from then on
		appears(t, filepath.Join(c.dir, "termed"))
		cancel()
	}()
	began := time.Now()
	if err := c.end(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > grace*3/4 {
		t.Errorf("an interrupted end took %s", took)
	}
	struck, ended := of(c.history, history.Fault), of(c.history, history.Client)
	if len(struck) != 2 || struck[0].Fault != history.End || struck[1].Fault != history.Kill || struck[1].Target != "c1" ||
		len(ended) != 1 || struck[1].At > ended[0].Until || struck[0].Until < ended[0].Until {
		t.Errorf("%+v", c.history)
	}
}

// Each has lives as runs with a slot, from and until when, of which those before 100 do not count.
func TestEndWaitsForEverySlot(t *testing.T) {
	const since = 100
	for name, c := range map[string]struct {
		lives []history.Event
		want  bool
	}{
		"none":                      {},
		"too early":                 {lives: []history.Event{{Run: "a", At: 1, Until: 99}, {Run: "b", At: 1, Until: 99}}},
		"one slot again and again":  {lives: []history.Event{{Run: "a", Slot: 1, At: 101, Until: 110}, {Run: "b", Slot: 1, At: 111, Until: 120}}},
		"one permit of two":         {lives: []history.Event{{Run: "a", At: 101, Until: 110}, {Run: "b", At: 111, Until: 120}}},
		"two processes of a run":    {lives: []history.Event{{Run: "a", At: 101, Until: 110}, {Run: "a", At: 102, Until: 120}}},
		"each slot":                 {[]history.Event{{Run: "a", Slot: 2, At: 101, Until: 110}, {Run: "b", Slot: 1, At: 111, Until: 120}}, true},
		"both permits":              {[]history.Event{{Run: "a", At: 50, Until: 110}, {Run: "b", At: 105, Until: 120}}, true},
		"both permits from earlier": {[]history.Event{{Run: "a", At: 50, Until: 110}, {Run: "b", At: 60, Until: 120}}, true},
		"one left by a client":      {lives: []history.Event{{Run: "a", At: 50, Until: 110}, {Run: "gone", At: 60, Until: 120}}},
	} {
		cam := &campaign{dir: t.TempDir(), Config: Config{Slots: 2, Clients: 3}, clients: []*client{{name: "a"}, {name: "b"}}}
		cam.lived = &witness.Records{Dir: cam.records()}
		if err := os.Mkdir(cam.records(), 0o700); err != nil {
			t.Fatal(err)
		}
		for i, l := range c.lives {
			l.Kind, l.Client = history.Life, l.Run
			text, err := json.Marshal(l)
			if err := errors.Join(err, os.WriteFile(filepath.Join(cam.records(), fmt.Sprint(i)), append(text, '\n'), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if taken, err := cam.allTaken(since); taken != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, taken, err)
		}
	}
}

func TestFaultWhoseStrikeFailsIsNoted(t *testing.T) {
	t.Chdir(t.TempDir()) // where a broker without a directory leaves its files
	c := sleeping(t, t.Context(), Config{Clients: 1})
	c.Cluster = &brokertest.Cluster{Nodes: []*brokertest.Broker{{}}} // which does not run
	strikes(t, t.Context(), c, "broker-kill", 0)
	if err := c.heal(); err == nil || !strings.Contains(err.Error(), "broker-kill") {
		t.Error(err)
	}
	if struck := of(c.history, history.Fault); len(struck) != 1 || struck[0].Fault != "broker-kill" {
		t.Errorf("%+v", struck)
	}
}

func TestRelayIsOpenWhileAnythingOfItsClientLives(t *testing.T) {
	c := with(t, "sleep 60")
	left, err := adapter.Template{"sleep", "60"}.Start(c.environment("c2"), nil) // of a client that has ended
	if err != nil {
		t.Fatal(err)
	}
	c.relays = map[string]*fault.Relay{}
	for _, name := range []string{"c1", "c2", "c3"} {
		if c.relays[name], err = fault.NewRelay(&url.URL{Scheme: "http", Host: "127.0.0.1:9"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.closeRelays(); err != nil || len(c.relays) != 2 || c.relays["c3"] != nil {
		t.Errorf("%v, %v", c.relays, err)
	}
	if err := c.end(t.Context()); err != nil || !left.Ended() {
		t.Error(err)
	}
}

func TestRelayIsClosedOnceNothingOfItsClientLives(t *testing.T) {
	t.Parallel()
	const script = `port=${2##*:}
echo "$port" >>"$1.ports"
: 2>/dev/null >"/dev/tcp/127.0.0.1/$(head -n 1 "$1.ports")" || : >"$1.closed"
exec flock -n "$1" "$3"`
	var lock string
	closed := func(history.History) bool {
		_, err := os.Stat(lock + ".closed")
		return err == nil
	}
	_, err := campaigns(t, script, func(c *Config) {
		c.Servers, c.Clients = []*url.URL{{Scheme: "http", Host: "127.0.0.1:9"}}, 2
		c.Time, c.Enough = time.Minute, closed
		lock = c.Values[adapter.Lock]
	})
	if err != nil {
		t.Error(err)
	}
	if !closed(nil) {
		t.Error("the first client's relay was open until the end")
	}
}

// sleeping returns a campaign under way whose clients sleep.
func sleeping(t *testing.T, ctx context.Context, cfg Config) *campaign {
	t.Helper()
	c := &campaign{Config: cfg, dir: t.TempDir()}
	c.lasting, c.calm = context.WithCancel(ctx)
	for i := range cfg.Clients {
		one, err := (adapter.Template{"sleep", "60"}).Start(os.Environ(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { one.End(t.Context()) }) // which has ended by then
		c.clients = append(c.clients, &client{name: fmt.Sprintf("c%d", i+1), Client: one})
	}
	return c
}

// strikes has a fault strike that lasts, as far as that can be now.
func strikes(t *testing.T, ctx context.Context, c *campaign, name string, target uint64) {
	t.Helper()
	c.plan, c.next = &Plan{Fault: named(t, name)[0], target: target, Lasts: time.Hour}, time.Time{}
	if err := c.strike(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestInterruptedCampaignHealsClientsAndStartsNoBroker(t *testing.T) {
	b := brokertest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := sleeping(t, ctx, Config{Cluster: &brokertest.Cluster{Nodes: []*brokertest.Broker{b}}, AtOnce: 2, Clients: 1})
	strikes(t, ctx, c, "stop", 0)
	strikes(t, ctx, c, "broker-kill", 0)
	cancel()
	if err := c.heal(); err != nil {
		t.Error(err)
	}
	if _, err := b.Eval(t.Context(), "ok"); !errors.Is(err, brokertest.ErrNotRunning) || len(c.history) != 2 {
		t.Errorf("%v, %+v", err, c.history)
	}
	patience, end := context.WithTimeout(t.Context(), 20*time.Second)
	defer end()
	if c.clients[0].End(patience) != 0 {
		t.Error("the client stays stopped")
	}
}

func TestFaultsLastAtOnceWhereThatIsWanted(t *testing.T) {
	for atOnce, want := range map[int]string{0: "c1", 1: "c1", 2: "c1 c2"} {
		c := sleeping(t, t.Context(), Config{Clients: 3, AtOnce: atOnce})
		for _, target := range []uint64{0, 0, 1, 2} {
			strikes(t, t.Context(), c, "stop", target)
		}
		if err := c.heal(); err != nil {
			t.Error(err)
		}
		var struck []string
		for _, e := range c.history {
			struck = append(struck, e.Target)
		}
		if got := strings.Join(struck, " "); got != want {
			t.Errorf("%d at once: %s", atOnce, got)
		}
	}
}

func TestSameFaultAndAnyTwoOfTheBrokerDoNotMeet(t *testing.T) {
	lasts := func(name, target string) *breach {
		return &breach{fault: named(t, name)[0], event: history.Event{Target: target}}
	}
	for _, c := range []struct {
		one, other *breach
		want       bool
	}{
		{lasts("cut", "c1"), lasts("cut", "c1"), true},
		{lasts("cut", "c1"), lasts("cut", "c2"), false},
		{lasts("cut", "c1"), lasts("cut-in", "c1"), false},
		{lasts("broker-kill", "n1"), lasts("node-cut", "n2"), true},
		{lasts("broker-kill", ""), lasts("cut", "c1"), false},
	} {
		if c.one.hinders(c.other) != c.want {
			t.Errorf("%s, %s: not %t", c.one.fault.Name, c.other.fault.Name, c.want)
		}
	}
}

func TestCommandThatFailsIsNotedAndEndsNothing(t *testing.T) {
	t.Parallel()
	failed := errors.New("status 7")
	h, err := campaigns(t, `exec flock "$1" "$3"`, func(cfg *Config) {
		cfg.Faults = []fault.Fault{fault.Command("resize", func(context.Context) error { return failed })}
		cfg.Time, cfg.Enough = time.Minute, func(h history.History) bool { return len(h.Faults()) > 0 }
		cfg.Allows = map[string][]string{"resize": {"overlap"}}
	})
	if err != nil {
		t.Fatal(err)
	}
	struck := of(h, history.Fault)
	if len(struck) < 2 || struck[0].Fault != "resize" || !strings.Contains(struck[0].Failed, "status 7") ||
		len(struck[0].Allows) != 1 || struck[0].Target != "" {
		t.Errorf("%+v", struck)
	}
}

func TestScriptStrikesClientsThatDoTheSame(t *testing.T) {
	t.Parallel()
	const pause = 300 * time.Millisecond
	stop := named(t, "stop")[0]
	h, err := campaigns(t, `exec flock "$1" "$3"`, func(cfg *Config) {
		cfg.Faults, cfg.Seed, cfg.Skip, cfg.Work = []fault.Fault{stop}, 1, 3, 30*time.Second // c4 works for 18 s
		cfg.Time, cfg.Enough = time.Minute, func(h history.History) bool {
			struck := h.Faults()
			return len(struck) == 4 && struck[3].Until-struck[3].At >= int64(pause/2)
		}
		for i, one := range []Plan{{Prefers: "c6", Running: true}, {Prefers: "c6", Waiting: true}, {Prefers: "c5"},
			{Prefers: "c4", Waiting: true, Lasts: pause / 2}} {
			one.Fault, one.At = stop, time.Duration(i+1)*pause
			cfg.Script = append(cfg.Script, one)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	first, struck := of(h, history.Life)[0], h.Faults()
	for i, want := range []string{"c4", "c6", "c5", "c5 c6"} {
		if i >= len(struck) || !strings.Contains(want, struck[i].Target) || struck[i].At < first.At+int64(i+1)*int64(pause) {
			t.Errorf("%d: want %s, after the first command at %s: %+v", i, want, time.Duration(first.At), struck)
		}
	}
	if n := len(struck); n != 4 || struck[3].Lasts != int64(pause/2) || struck[3].Until-struck[3].At < struck[3].Lasts {
		t.Errorf("%d: %+v", n, struck)
	}
}
