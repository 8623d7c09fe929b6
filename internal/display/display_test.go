package display

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"berth/internal/inquire"
	"berth/lock"
)

var (
	workers = lock.ID{Kind: lock.Semaphore, Name: "workers"}
	now     = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
)

// report is of a berth on a host, which runs.
func report(host string, pid int, since time.Duration) *lock.Report {
	return &lock.Report{
		Holder: fmt.Sprintf("%s:%d", host, pid), Host: host, PID: pid, State: "running", Term: 1795416686031027,
		Since: now.Add(-since), Verified: now.Add(-time.Second), Command: "/usr/bin/worker",
	}
}

func held(slot int, by *lock.Report) lock.SlotStatus {
	return lock.SlotStatus{Slot: slot, State: lock.SlotHeld, Holder: by}
}

// view is of a semaphore with these slots.
func view(slots ...lock.SlotStatus) View {
	return View{ID: workers, Now: now,
		Seen: inquire.Seen{At: now, Status: lock.Status{Slots: slots, Waiting: 2}}}
}

func text(t *testing.T, v View) string {
	t.Helper()
	var b strings.Builder
	if err := v.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func wants(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestTableSaysWhoHasEachSlotAndWhoSucceeds(t *testing.T) {
	second := held(2, report("web2", 4712, 3*time.Hour))
	second.Successor, second.HasSuccessor = report("web9", 99, 0), true
	doubtful := report("web3", 7, time.Minute)
	doubtful.State, doubtful.Trouble = "in doubt", "the slot is in doubt: it is not verified"
	silent := held(4, nil)
	silent.Problem, silent.HasSuccessor = "the holder does not answer", true
	got := text(t, view(held(1, report("web1", 4711, 90*time.Second)), second, held(3, doubtful), silent,
		lock.SlotStatus{Slot: 5, State: lock.SlotFree}))
	want := `semaphore "workers": 4 of 5 slots held, 2 wait

SLOT  STATE     HOST  PID   TERM              SINCE  VERIFIED  COMMAND          NEXT
1     held      web1  4711  1795416686031027  1m     1s        /usr/bin/worker  -
2     held      web2  4712  1795416686031027  3h     1s        /usr/bin/worker  web9:99
3     in doubt  web3  7     1795416686031027  1m     1s        /usr/bin/worker  -
4     held      ?     ?     ?                 ?      ?         ?                ?
5     free      -     -     -                 -      -         -                -

slot 3: the slot is in doubt: it is not verified
slot 4: the holder does not answer
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestSummaryOfALock(t *testing.T) {
	mutex := lock.ID{Kind: lock.Mutex, Name: "m"}
	for _, c := range []struct {
		view View
		want string
	}{
		{View{ID: mutex, Seen: view(held(1, nil)).Seen}, `mutex "m": held, 2 wait`},
		{View{ID: mutex, Seen: view(held(1, &lock.Report{State: "entering"})).Seen}, `mutex "m": held, 2 wait`},
		{View{ID: mutex, Seen: inquire.Seen{Status: lock.Status{Slots: []lock.SlotStatus{{Slot: 1}}, Waiting: -1}}},
			`mutex "m": unknown, not known how many wait`},
		{view(), `semaphore "workers" does not exist; create it with: berth semaphore create workers --slots N`},
		{View{ID: lock.ID{Kind: lock.PersistentMutex, Name: "m"}, Naming: []string{"--protocol plain"}},
			`persistent-mutex "m" is disabled; enable it with: berth persistent-mutex enable m --protocol plain`},
		{view(held(1, nil), lock.SlotStatus{Slot: 2}),
			`semaphore "workers": 1 of 2 slots held, 0 free, 1 unknown, 2 wait`},
		{View{ID: mutex, Seen: inquire.Seen{Err: lock.ErrUnreachable}}, `mutex "m"`},
	} {
		if got := c.view.Summary(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestWhatIsWrongWithManySlotsIsSaidOnce(t *testing.T) {
	v := view()
	for slot := 1; slot <= 9; slot++ {
		s := held(slot, nil)
		if slot != 4 && slot != 6 {
			s.Problem = "the holder does not answer"
		}
		v.Seen.Status.Slots = append(v.Seen.Status.Slots, s)
	}
	v.Seen.Err = errors.New("cannot reach\nthe broker")
	wants(t, strings.Join(v.Problems(), "|"), "cannot look: cannot reach the broker|slots 1-3, 5, 7-9: the holder does")
}

func TestStrangersWordsDoNothingToATerminal(t *testing.T) {
	evil := report("web\x1b[2J\u202e\n", 1, 0)
	evil.Command, evil.State = strings.Repeat("x", 10_000), "\x1b]0;title\x07"
	evil.Trouble = "\x1b[41mred\r\n"
	s := held(1, evil)
	s.Successor, s.HasSuccessor = evil, true
	v := view(s, held(2, evil))
	for _, got := range []string{text(t, v), strings.Join(v.Screen(80, 24), "\n"), strings.Join(v.Screen(80, 3), "\n")} {
		if strings.ContainsAny(visible(got), "\x1b\r\x07\u202e") || len(got) > 3000 {
			t.Errorf("got %q", got)
		}
	}
}

// many is a semaphore of n slots with all that can be said of slots.
func many(n int) View {
	v := view()
	for slot := 1; slot <= n; slot++ {
		s := held(slot, report(fmt.Sprintf("web-%02d.example.com", slot), 1000+slot, time.Duration(slot)*time.Hour))
		switch {
		case slot%17 == 0:
			s = lock.SlotStatus{Slot: slot, State: lock.SlotFree}
		case slot%29 == 0:
			s.Holder, s.Problem = nil, "the holder does not answer"
		case slot%10 == 0:
			s.HasSuccessor = true
		case slot == 42:
			s.Holder.Trouble = "the slot is in doubt: it is not verified"
		}
		v.Seen.Status.Slots = append(v.Seen.Status.Slots, s)
	}
	return v
}

// visible is a line without what makes it stand out.
func visible(line string) string {
	return strings.NewReplacer(reverse, "", bold, "", red, "", amber, "", plain, "").Replace(line)
}

func TestHundredSlotsAreReadableAt80Columns(t *testing.T) {
	v := many(100)
	v.changed = map[int]time.Time{42: now, 7: now.Add(-highlighted)}
	lines := v.Screen(80, 24)
	screen := strings.Join(lines, "\n")
	for slot := 1; slot <= 100; slot++ {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)(^| ) *%d[ >!?] `, slot)).MatchString(visible(screen)) {
			t.Errorf("slot %d is missing", slot)
		}
	}
	wants(t, screen, "95 of 100 slots held", amber+reverse+" 42! web-42 42h"+plain, red+" 29? held      "+plain, " 10> web-10 10h",
		"100> ~b-100  4d", " 17  free",
		"slots 29, 58, 87: the holder does not answer", "slot 42: the slot is in doubt", "Ctrl-C ends")
	if strings.Count(screen, reverse) != 1 {
		t.Error("what has changed some time ago stands out")
	}
}

func TestWhatIsWrongStaysInColour(t *testing.T) {
	v := many(100)
	v.changed = map[int]time.Time{42: now.Add(-time.Hour), 29: now.Add(-time.Hour)}
	v.Seen.Err = lock.ErrUnreachable
	wants(t, strings.Join(v.Screen(80, 30), "\n"), amber+" 42! web-42 42h"+plain, red+" 29? held      "+plain,
		red+"cannot look: unreachable"+plain, amber+"! see below"+plain, red+"? no answer"+plain)
	few := view(held(1, nil), held(2, report("web2", 2, 0)), held(3, report("web3", 3, 0)))
	few.Seen.Status.Slots[2].Holder.Trouble = "it is in doubt"
	lines := few.Screen(80, 24)
	if !strings.HasPrefix(lines[2], red+"1 ") || !strings.HasPrefix(lines[3], "2 ") ||
		!strings.HasPrefix(lines[4], amber+"3 ") {
		t.Errorf("got %q", lines)
	}
}

func TestCellsHaveHeadsAndProcessesWhereThereIsRoom(t *testing.T) {
	lines := many(100).Screen(120, 40)
	wants(t, lines[0], bold+`semaphore "workers"`)
	wants(t, lines[1], bold+"SLOT HOST     PID FOR SLOT HOST")
	wants(t, strings.Join(lines, "\n"), "  1  web-01  1001  1h", " 42! web-42  1042 42h")
	tight := strings.Join(many(100).Screen(80, 24), "\n")
	if strings.Contains(tight, "HOST") || strings.Contains(tight, "1001") {
		t.Errorf("heads and processes take the room of slots:\n%s", tight)
	}
	wants(t, strings.Join(many(30).Screen(80, 24), "\n"), " #  HOST    PID FOR")
}

func TestScreenFitsEveryWindow(t *testing.T) {
	for _, slots := range []int{0, 1, 5, 22, 23, 100, 1000} {
		v := many(slots)
		v.Seen.Err = errors.New(strings.Repeat("cannot reach the broker ", 20))
		for _, width := range []int{1, 20, 40, 79, 80, 132, 300} {
			for _, height := range []int{1, 2, 5, 24, 25, 60} {
				lines := v.Screen(width, height)
				if len(lines) > height {
					t.Errorf("%d slots at %dx%d: %d lines", slots, width, height, len(lines))
				}
				for _, line := range lines {
					if n := utf8.RuneCountInString(visible(line)); n > width {
						t.Errorf("%d slots at %dx%d: %d columns: %q", slots, width, height, n, line)
					}
				}
			}
		}
	}
}

func TestWhatToDoIsReadableInANarrowWindow(t *testing.T) {
	remedy := "cannot reach the broker at amqp://rabbit:5672: connection refused; see whether it runs, and whether the " +
		"port is the right one"
	for _, slots := range []int{0, 1, 5, 100, 1000} {
		v := many(slots)
		v.Seen.Err = errors.New(remedy)
		screen := visible(strings.Join(v.Screen(80, 24), "\n"))
		wants(t, strings.Join(strings.Fields(screen), " "), remedy)
	}
	absent := strings.Join(view().Screen(40, 24), " ")
	wants(t, absent, "create it with: berth semaphore create workers --slots N")
	doubt := many(5)
	doubt.Seen.Status.Slots[2].Holder.Trouble = "the slot is in doubt: the connection broke; nothing is known before " +
		"it is back"
	narrow := strings.Join(doubt.Screen(60, 24), " ")
	wants(t, strings.Join(strings.Fields(narrow), " "), "nothing is known before it is back")
}

func TestFewSlotsKeepTheirRowsAndLoseColumns(t *testing.T) {
	lines := strings.Join(many(5).Screen(80, 24), "\n")
	wants(t, lines, "SLOT  STATE  HOST", "PID", "COMMAND", "web-03.example.com")
	if strings.Contains(lines, "TERM") {
		t.Errorf("80 columns have no room for the term beside the rest:\n%s", lines)
	}
	wants(t, strings.Join(many(5).Screen(120, 24), "\n"), "TERM", "VERIFIED")
	wants(t, strings.Join(many(1000).Screen(80, 24), "\n"), "slots more need a larger window")
}

func TestJSONIsOneObjectInOneLine(t *testing.T) {
	v := view(held(1, report("web1", 4711, 0)))
	v.Seen.Err = errors.New("cannot reach\nthe broker")
	for _, v := range []View{v, view()} {
		var b strings.Builder
		if err := v.WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Kind, Name, Problem string
			Slots               *[]lock.SlotStatus
			Waiting             int
			At                  time.Time
		}
		if err := json.Unmarshal([]byte(b.String()), &got); err != nil || strings.Count(b.String(), "\n") != 1 {
			t.Fatalf("%v: %s", err, b.String())
		}
		if got.Kind != "semaphore" || got.Name != "workers" || got.Slots == nil || got.Waiting != 2 || !got.At.Equal(now) ||
			(v.Seen.Err != nil) != (got.Problem == "cannot reach the broker") {
			t.Errorf("got %+v from %s", got, b.String())
		}
	}
}

func TestAgesAreShort(t *testing.T) {
	for ago, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", time.Minute: "1m", 47 * time.Hour: "47h", 2 * day: "2d",
		99 * day: "99d", 100 * day: "14w", 699 * day: "99w", 800 * day: "2y",
	} {
		if got := (View{Now: now}).age(now.Add(-ago)); got != want {
			t.Errorf("%s: got %q, want %q", ago, got, want)
		}
	}
}
