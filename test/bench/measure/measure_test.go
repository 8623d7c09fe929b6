package measure

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMessagesPerSecond(t *testing.T) {
	before := Messages{Requests: 10, Answers: 20, Keepalives: 30}
	after := Messages{Requests: 40, Answers: 35, Keepalives: 33}
	if got, want := after.PerSecond(30, before), (Messages{Requests: 1, Answers: 0.5, Keepalives: 0.1}); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
}

func TestMemoryIsReadFromRollup(t *testing.T) {
	const rollup = `00400000-7ffd7b1f3000 ---p 00000000 00:00 0                              [rollup]
Rss:                9000 kB
Pss:                4200 kB
Pss_Anon:           3000 kB
Shared_Clean:       5000 kB
Private_Clean:       800 kB
Private_Dirty:      3200 kB
`
	if got, err := parseRollup(rollup); err != nil || got != 4000 {
		t.Errorf("%d, not 4000: %v", got, err)
	}
	if _, err := parseRollup("00400000-7ffd7b1f3000 ---p 00000000 00:00 0 [rollup]\n"); err == nil {
		t.Error("a rollup without numbers is taken for no memory at all")
	}
}

func TestOwnUsageIsRead(t *testing.T) {
	if u, err := UsageOf(os.Getpid()); err != nil || u.RSS < 1<<20 {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := UsageOf(-1); err == nil {
		t.Error("a process that is not there uses something")
	}
}

func TestConnectionsOfAServerAreCounted(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 0100007F:1F90 0100007F:8001 01 00000000:00000000 00:00000000 00000000     0        0 2 1
   2: 0100007F:8001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 3 1
   3: 0100007F:1F90 0100007F:8002 06 00000000:00000000 00:00000000 00000000     0        0 4 1
`
	if n, err := parseSockets(table, 8080); n != 1 || err != nil {
		t.Errorf("%d, not 1: %v", n, err)
	}
	for _, line := range []string{"0: 0100007F:1F90\n", "0: 0100007F 0100007F:8001 01\n"} {
		if n, err := parseSockets("headings\n"+line, 8080); err == nil {
			t.Errorf("%q is read as %d", line, n)
		}
	}
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := net.Dial("tcp4", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if n, err := Established(server.Addr().(*net.TCPAddr).Port); n != 1 || err != nil {
		t.Errorf("%d, not 1: %v", n, err)
	}
}

func TestProcessorTimeIsReadFromStat(t *testing.T) {
	before, err := parseTicks("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3\n")
	if err != nil {
		t.Fatal(err)
	}
	after, err := parseTicks("cpu  120 10 110 780 140 5 5 30 99 99\n")
	if err != nil {
		t.Fatal(err)
	}
	if used, stolen := after.Since(before); used != 0.4 || stolen != 0.15 {
		t.Errorf("used %v and stolen %v, not 0.4 and 0.15", used, stolen)
	}
	for _, text := range []string{"", "cpu 1 2 3\n", "cpu  1 2 3 4 5 6 7 x 9 10\n"} {
		if got, err := parseTicks(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func TestQuietIsWaitedForAndNoLonger(t *testing.T) {
	shares := []float64{0.9, 0.3, 0.01}
	looks := 0
	next := func() (float64, error) {
		looks++
		return shares[(looks-1)%len(shares)], nil
	}
	if used, err := awaitQuiet(time.Hour, next); used != 0.01 || looks != 3 || err != nil {
		t.Errorf("after %d looks: %v, %v", looks, used, err)
	}
	busy := new(BusyError)
	if used, err := awaitQuiet(0, next); used != 0.9 || !errors.As(err, &busy) || busy.Used != 0.9 {
		t.Errorf("used %v: %v", used, err)
	}
}

func TestWallClockIsConverted(t *testing.T) {
	before := Now()
	moment := AtWallClock(time.Now())
	// The two clocks are not read at the same moment.
	const slack = int64(time.Second)
	if moment < before-slack || moment > Now()+slack {
		t.Errorf("now is %d, and was %d to %d", moment, before, Now())
	}
}
