package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/internal/observe/feed"
	"berth/lock"
	"berth/supervisor"
	pages "berth/test/page"
)

func TestMain(m *testing.M) {
	// For half a second it keeps a connection whose request it has refused.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

const patience = 20 * time.Second

// served is a server and the feed that it reads.
type served struct {
	t    *testing.T
	url  string
	to   *io.PipeWriter
	over chan error
}

func serve(t *testing.T) *served {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	from, to := io.Pipe()
	s := &served{t, "http://" + listener.Addr().String(), to, make(chan error, 1)}
	go func() { s.over <- Serve(listener, from, io.Discard) }()
	t.Cleanup(func() {
		to.Close()
		http.DefaultClient.CloseIdleConnections()
		<-s.over
	})
	return s
}

// say has the berth say this, and waits until the server has heard it.
func (s *served) say(now feed.Snapshot) {
	s.t.Helper()
	now.At = time.Now()
	line, err := json.Marshal(now)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.to.Write(append(line, '\n')); err != nil {
		s.t.Fatal(err)
	}
	for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		var heard feed.Snapshot
		if _, body := s.get("/status"); json.Unmarshal([]byte(body), &heard) == nil && heard.At.Equal(now.At) {
			return
		}
		if time.Now().After(limit) {
			s.t.Fatal("the server does not hear it")
		}
	}
}

func (s *served) get(path string) (status int, body string) {
	s.t.Helper()
	answer, err := http.Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func (s *served) want(path string, status int, text string) {
	s.t.Helper()
	if got, body := s.get(path); got != status || !strings.Contains(body, text) {
		s.t.Errorf("%s: %d %q, not %d with %q", path, got, body, status, text)
	}
}

// holder is a berth whose command runs.
func holder() feed.Snapshot {
	return feed.Snapshot{
		Report: lock.Report{State: "running", Slot: 2, Term: 7, Since: time.Now(), Version: "1.2.3", Health: "healthy"},
		Lock:   "workers", Kind: lock.Semaphore, Ready: true, CommandPID: 12, Deadline: time.Now().Add(10 * time.Second),
		Counts: feed.Counts{
			Acquires: 1, Losses: map[string]int{"proven": 3}, Kills: map[string]int{"TERM": 1},
			Checks: map[string]int{"failure": 2}, Cuts: map[string]int{"unhealthy": 1},
			Verification: feed.Histogram{Bounds: []float64{0.1, 1}, Counts: []uint64{4, 2, 1}, Sum: 5},
			Start:        feed.Histogram{Counts: []uint64{0}}, Waited: feed.Histogram{Counts: []uint64{0}},
		},
	}
}

func TestProbesFollowTheBerth(t *testing.T) {
	s := serve(t)
	s.want("/healthz", 503, "starting")
	s.want("/readyz", 503, "starting")
	now := holder()
	s.say(now)
	s.want("/healthz", 200, "ok")
	s.want("/readyz", 200, "running")
	now.Ready, now.State, now.Trouble = false, "pausing", "no broker answers"
	s.say(now)
	s.want("/healthz", 200, "ok")
	s.want("/readyz", 503, "pausing: no broker answers")
}

func TestBerthThatIsSilentIsNotHealthy(t *testing.T) {
	var s server
	now := holder()
	now.Heard = time.Now().Add(-silence)
	s.latest.Store(&now)
	if _, alive := s.fresh(); alive {
		t.Error("it counts as alive")
	}
}

func TestMetricsSayWhatTheBerthSays(t *testing.T) {
	s := serve(t)
	s.say(holder())
	_, body := s.get("/metrics")
	for _, line := range []string{
		`berth_held{kind="semaphore",lock="workers"} 1`,
		`berth_slot{kind="semaphore",lock="workers"} 2`,
		`berth_losses_total{kind="semaphore",lock="workers",cause="proven"} 3`,
		`berth_kills_total{kind="semaphore",lock="workers",step="TERM"} 1`,
		`berth_healthy{kind="semaphore",lock="workers"} 1`,
		`berth_health_checks_total{kind="semaphore",lock="workers",result="failure"} 2`,
		`berth_cuts_total{kind="semaphore",lock="workers",cause="unhealthy"} 1`,
		`berth_verification_seconds_bucket{kind="semaphore",lock="workers",le="1"} 6`,
		`berth_verification_seconds_bucket{kind="semaphore",lock="workers",le="+Inf"} 7`,
		`berth_verification_seconds_sum{kind="semaphore",lock="workers"} 5`,
		`berth_verification_seconds_count{kind="semaphore",lock="workers"} 7`,
		`berth_state{kind="semaphore",lock="workers",state="running"} 1`,
		`berth_state{kind="semaphore",lock="workers",state="waiting"} 0`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("%s is missing in\n%s", line, body)
		}
	}
}

func TestMetricsAreAsPrometheusWantsThem(t *testing.T) {
	now := holder()
	now.Lock = "a \"lock\" \\ of\ntwo lines, größer"
	var text strings.Builder
	writeMetrics(&text, &now)
	promtool(t, ".", text.String(), "check", "metrics")
	want := `berth_held{kind="semaphore",lock="a \"lock\" \\ of\ntwo lines, größer"} 1`
	if !strings.Contains(text.String(), want) {
		t.Errorf("%s is missing in\n%s", want, text.String())
	}
}

func TestThereAreNoMetricsOfABerthThatHasSaidNothing(t *testing.T) {
	s := serve(t)
	if status, body := s.get("/metrics"); status != 200 || body != "" {
		t.Errorf("%d %q", status, body)
	}
}

func TestNobodyElsesNameIsAnswered(t *testing.T) {
	s := serve(t)
	s.say(holder())
	for host, status := range map[string]int{
		"localhost": 200, "localhost:9420": 200, "127.0.0.1:1": 200, "[::1]:80": 200, "[::1]": 200,
		"evil.example": 421, "evil.example:9420": 421, "127.0.0.1.evil.example": 421,
	} {
		r, _ := http.NewRequest("GET", s.url+"/status", nil)
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != status {
			t.Errorf("asked as %s it answers %d", host, answer.StatusCode)
		}
	}
}

func TestWhatIsNotServedIsRefused(t *testing.T) {
	s := serve(t)
	s.want("/nothing", 404, "")
	answer, err := http.Post(s.url+"/status", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a POST is answered with %d", answer.StatusCode)
	}
	r, _ := http.NewRequest("GET", s.url+"/status", nil)
	r.Header.Set("X-Long", strings.Repeat("x", 20*maxHeaderBytes))
	if answer, err := http.DefaultClient.Do(r); err == nil {
		answer.Body.Close()
		if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a long header is answered with %d", answer.StatusCode)
		}
	}
}

func TestWhoIsSlowKeepsNobodyElse(t *testing.T) {
	s := serve(t)
	for range maxConnections + 8 { // and says nothing
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	s.want("/", 200, "</html>")
}

func TestPageNeedsNothingFromElsewhere(t *testing.T) {
	s := serve(t)
	s.want("/", 200, "</html>")
	if found := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]{2,}`).Find(page); found != nil {
		t.Errorf("the page refers to %s", found)
	}
}

// What the page reads has to be there, under that name.
func TestPageReadsWhatIsSaid(t *testing.T) {
	said := make(map[string]bool)
	for _, of := range []reflect.Type{reflect.TypeFor[feed.Snapshot](), reflect.TypeFor[feed.Histogram](),
		reflect.TypeFor[lock.SlotStatus]()} {
		for _, name := range fields(of, "") {
			for _, key := range strings.Split(name, ".") {
				said[key] = true
			}
		}
	}
	read := regexp.MustCompile(`\b(?:last|s|a|c|l|h)\.([A-Za-z_]+)\b([^(\w])`).FindAllSubmatch(page, -1)
	if len(read) < 40 {
		t.Fatalf("the test sees only %d fields that the page reads", len(read))
	}
	for _, match := range read {
		if !said[string(match[1])] {
			t.Errorf("the page reads the field %s, which is not told", match[1])
		}
	}
}

func TestWhoLooksAtAStandbyHasItSeeTheHolder(t *testing.T) {
	reads, writes := io.Pipe()
	ended := make(chan struct{})
	s := server{wanted: make(chan struct{}, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ask(writes, ended)
	}()
	now := holder()
	now.Slot = 0
	s.latest.Store(&now)
	r := httptest.NewRequest("GET", "/status", nil)
	s.status(httptest.NewRecorder(), r)
	if _, err := reads.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	close(ended)
	<-done
	now = holder()
	s.status(httptest.NewRecorder(), r)
	if len(s.wanted) != 0 {
		t.Error("a holder is to see who holds the lock")
	}
}

func TestServerEndsWithItsBerth(t *testing.T) {
	s := serve(t)
	s.say(holder())
	s.to.Close()
	select {
	case err := <-s.over:
		s.over <- err
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
}

//go:generate go test -run TestDocumentationListsTheMetrics -args -update

func TestDocumentationListsTheMetrics(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("metric\ttype\tlabel\tmeaning\n")
	for _, f := range families {
		fmt.Fprintf(&rows, "%s\t%s\t%s\t%s\n", f.name, f.kind, f.label, f.help)
	}
	pages.WantFile(t, "../../../docs/metrics.tsv", rows.String())
}

func TestDocumentationHasEveryCauseAndField(t *testing.T) {
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cause := range supervisor.LossCauses() {
		if !strings.Contains(string(text), "`"+string(cause)+"`") {
			t.Errorf("docs/metrics.md lacks the cause %s of a loss", cause)
		}
	}
	_, status, _ := strings.Cut(string(text), "\n## Status\n")
	known := make(map[string]bool)
	for _, of := range []reflect.Type{reflect.TypeFor[feed.Snapshot](), reflect.TypeFor[feed.Histogram]()} {
		for _, name := range fields(of, "") {
			for key := range strings.SplitSeq(name, ".") {
				known[key] = true
				if !strings.Contains(status, "`"+key+"`") {
					t.Errorf("docs/metrics.md lacks the field %s", name)
				}
			}
		}
	}
	for _, key := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(status, -1) {
		if !known[key[1]] {
			t.Errorf("docs/metrics.md describes the field %s, which does not exist", key[1])
		}
	}
}

// fields returns the names of a type's JSON, those of what is in it behind a dot.
func fields(of reflect.Type, before string) (all []string) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		kind := field.Type
		if kind.Kind() == reflect.Slice {
			kind = kind.Elem()
		}
		inside := kind.Kind() == reflect.Struct && kind != reflect.TypeFor[time.Time]()
		switch {
		case name == "-":
		case field.Anonymous:
			all = append(all, fields(field.Type, before)...)
		case inside && kind != reflect.TypeFor[feed.Histogram]() && kind != reflect.TypeFor[lock.SlotStatus]():
			all = append(all, fields(kind, fmt.Sprint(before, name, "."))...)
		default:
			all = append(all, before+name)
		}
	}
	return all
}
