package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// inquiries are the places where a lock can be asked about.
var inquiries = []place{onBroker, onHost}

// holding is what a test wants to know of a holder, or a waiter.
type holding struct {
	PID     int    `json:"pid"`
	State   string `json:"state"`
	Term    uint64 `json:"term"`
	Command string `json:"command"`
}

// status is what `berth status --json` prints.
type status struct {
	Kind, Name, Problem string
	Waiting             int
	Slots               []struct {
		Slot   int
		State  string
		Holder *holding
	}
}

// holders returns the processes that have slots, by slot.
func (s status) holders() string {
	held := map[int]int{}
	for _, slot := range s.Slots {
		if slot.Holder != nil {
			held[slot.Slot] = slot.Holder.PID
		}
	}
	return fmt.Sprint(held)
}

// inquire runs a command about the lock to its end.
func (c contest) inquire(want int, command string, flags ...string) *berth {
	c.t.Helper()
	return do(c.t, want, slices.Concat([]string{command, "--" + c.kind, c.name}, c.flags, flags)...)
}

// object reads the JSON that a berth has printed.
func object[T any](t testing.TB, text string) (read T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return read
}

func TestStatusSaysWhoHasEachSlot(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "semaphore")
		absent := c.inquire(75, "status")
		if !strings.Contains(absent.stderr(), "create it with: berth semaphore create "+c.name+" --slots N") {
			t.Errorf("it does not say how to create the lock: %s", absent.stderr())
		}
		c.administer("create", "--slots=2")
		b := c.run(plain)
		term := b.awaitLog("command started").text("term") // which berth knows a moment after the command
		s := object[status](t, c.inquire(0, "status", "--json").stdout())
		if s.Kind != c.kind || s.Name != c.name || len(s.Slots) != 2 || s.Slots[0].Holder == nil ||
			s.Slots[1].Holder != nil || s.Slots[0].State != "held" || s.Slots[1].State != "free" || s.Waiting != 0 {
			t.Fatalf("got %+v", s)
		}
		got := *s.Slots[0].Holder
		if want, _ := strconv.ParseFloat(term, 64); got.PID != b.pid() || got.Command != "sh" ||
			got.State != "running" || float64(got.Term) != want {
			t.Errorf("got %+v of process %d with term %s", got, b.pid(), term)
		}
		if said := c.inquire(0, "reload").stdout(); !strings.Contains(said, "(pid "+strconv.Itoa(b.pid())+") reloads") {
			t.Errorf("reload says %q", said)
		}
		table := c.inquire(0, "status").stdout()
		for _, want := range []string{`semaphore "` + c.name + `": 1 of 2 slots held, none wait`, "SLOT  STATE",
			strconv.Itoa(b.pid()), "\n2     free"} {
			if !strings.Contains(table, want) {
				t.Errorf("%q is missing in:\n%s", want, table)
			}
		}
	}, inquiries...)
}

// handover is what `berth step-down --wait --json` prints.
type handover struct {
	Heeded   bool
	From, To holding
	Gap      *int64 `json:"gap_ms"`
}

func TestStepDownGivesTheSlotToTheNextOne(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		c.inquire(75, "step-down")
		first := c.run(tree, quickStop)
		first.awaitRuns(1)
		second := c.run(tree, quickStop)
		second.awaitLog("waiting: held by others")
		c.handOver(first, second)
		c.handOver(second, first)
		first.stays()
		second.stays()
		if table := c.inquire(0, "status").stdout(); !strings.Contains(table, strconv.Itoa(first.pid())) {
			t.Errorf("the first does not have it back:\n%s", table)
		}
	}, inquiries...)
}

// handOver has one berth step down for another. On one host it may win the slot again itself, because nobody there is
// next: the kernel decides.
func (c contest) handOver(from, to *berth) {
	c.t.Helper()
	until(c.t, "a handover", func() bool {
		said := object[handover](c.t, c.inquire(0, "step-down", "--wait", "--json").stdout())
		if !said.Heeded || said.From.PID != from.pid() || said.Gap == nil || *said.Gap < 0 ||
			said.From.Term >= said.To.Term || said.To.PID != to.pid() && said.To.PID != from.pid() {
			c.t.Fatalf("got %+v, processes %d and %d", said, from.pid(), to.pid())
		}
		if broker := !strings.Contains(strings.Join(c.flags, " "), "local://"); broker && said.To.PID != to.pid() {
			c.t.Fatalf("who was next does not have it: %+v", said)
		}
		return said.To.PID == to.pid()
	})
}

func TestStepDownNeedsASlotOfSeveral(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "semaphore")
		c.administer("create", "--slots=3")
		var all []*berth
		for range 2 { // one after the other, so in slots 1 and 2
			all = append(all, c.run(plain))
			all[len(all)-1].awaitRunning()
		}
		refused := c.inquire(64, "step-down").stderr()
		for _, b := range all {
			if !strings.Contains(refused, "pid "+strconv.Itoa(b.pid())) {
				t.Errorf("process %d is not listed: %s", b.pid(), refused)
			}
		}
		before := object[status](t, c.inquire(0, "status", "--json").stdout())
		said := c.inquire(0, "step-down", "--slot", "2", "--wait").stdout()
		if !strings.Contains(said, "runs again under term") {
			t.Errorf("the same berth has it again, because nobody else waits: %s", said)
		}
		after := object[status](t, c.inquire(0, "status", "--json").stdout())
		first, still := before.Slots[0].Holder, after.Slots[0].Holder
		if first == nil || still == nil || first.Term != still.Term {
			t.Errorf("before %+v, after %+v", before, after)
		}
	}, inquiries...)
}

func TestWatchPrintsWhatChanges(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "semaphore")
		c.administer("create", "--slots=2")
		watch := start(t, slices.Concat([]string{"status", "--" + c.kind, c.name, "--watch", "--json"}, c.flags)...)
		sees := func(what string, holds func(status) bool) {
			t.Helper()
			until(t, what, func() bool {
				watch.stays()
				all := lines(watch.path("stdout"))
				return len(all) > 0 && holds(object[status](t, all[len(all)-1]))
			}, watch.stdout)
		}
		sees("two free slots", func(s status) bool { return len(s.Slots) == 2 && s.holders() == "map[]" })
		b := c.run(plain)
		sees("a holder", func(s status) bool { return s.holders() == fmt.Sprint(map[int]int{1: b.pid()}) })
		b.signal(syscall.SIGTERM)
		sees("its end", func(s status) bool { return s.holders() == "map[]" && s.Slots[0].State == "free" })
		watch.signal(syscall.SIGINT)
		watch.wantStatus(130)
		if seen := len(lines(watch.path("stdout"))); seen > 20 {
			t.Errorf("%d objects for a few changes:\n%s", seen, watch.stdout())
		}
	}, inquiries...)
}

func TestWatchTakesTheTerminalAndGivesItBack(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`berth sleep 1000 &` + "\n")
	term.find("sleep", "1000")
	term.types(`"$BINARY" status --mutex m --watch; echo "status $?"` + "\n")
	term.sees("\x1b[?1049h")
	term.sees(`mutex "m": held, none wait`)
	term.sees("sleep")
	term.types(ctrlZ)
	term.sees("\x1b[?1049l")
	term.sees("Stopped")
	term.types("fg\n")
	term.sees("\x1b[?1049h")
	term.types("kill %1\n" + ctrlC) // what is typed meanwhile is for the shell
	term.sees("\x1b[?1049l")
	term.worksAgain()
}

func TestScreenFollowsASlotFromHolderToHolder(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		first := c.run(plain)
		first.awaitRuns(1)
		second := c.run(plain)
		second.awaitLog("waiting: held by others")
		term := openTerminal(t)
		term.types(`"$BINARY" status --mutex ` + c.name + " " + strings.Join(c.flags, " ") + " --watch\n")
		term.sees(fmt.Sprintf("held   %-4s  %d  ", host, first.pid()))
		first.signal(syscall.SIGTERM)
		second.awaitRuns(1)
		term.sees(fmt.Sprintf("held   %-4s  %d  ", host, second.pid()))
		term.types(ctrlC)
		term.worksAgain()
	}, inquiries...)
}

func TestListHasTheLocksOfThisHost(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "semaphore")
	c.administer("create", "--slots=1")
	got := object[struct{ Locks []struct{ Kind, Name string } }](t,
		do(t, 0, append([]string{"status", "--json"}, c.flags...)...).stdout())
	if len(got.Locks) != 1 || got.Locks[0].Kind != "semaphore" || got.Locks[0].Name != c.name {
		t.Errorf("got %+v", got)
	}
}
