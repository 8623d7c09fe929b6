//go:build alerts

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"berth/test/relay"
)

// alerting is a Prometheus with the alert rules of packaging/observe, whose durations are shortened.
type alerting struct {
	t       testing.TB
	url     string
	targets string // the file that lists whom it asks
	all     []map[string][]string
	tried   map[string]bool // the alerts that have fired
}

const prometheusConfig = `
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 250ms}
rule_files: [alerts.yml]
scrape_configs: [{job_name: berth, file_sd_configs: [{files: [targets.json]}]}]
`

func startAlerting(t testing.TB) *alerting {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal("prometheus is missing; install Debian's package prometheus: scripts/deps.sh does")
	}
	dir := t.TempDir()
	rules := read("../../packaging/observe/alerts.yml")
	for _, shorter := range []struct{ long, short string }{
		{`for: \w+`, "for: 300ms"}, {`\[10m\]`, "[60s]"}, {`\[5m\]`, "[20s]"},
	} {
		rules = regexp.MustCompile(shorter.long).ReplaceAllString(rules, shorter.short)
	}
	for name, text := range map[string]string{
		"prometheus.yml": prometheusConfig, "alerts.yml": rules, "targets.json": "[]",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	cmd := exec.Command(path, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said := create(t, filepath.Join(dir, "said"))
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus said:\n%s", read(said.Name()))
		}
	})
	return &alerting{t: t, url: "http://" + address, targets: filepath.Join(dir, "targets.json"), tried: map[string]bool{}}
}

// watch has a berth be asked from now on.
func (a *alerting) watch(l listener) {
	a.t.Helper()
	a.all = append(a.all, map[string][]string{"targets": {l.address()}})
	text, err := json.Marshal(a.all)
	if err == nil { // in one step: it is read at any time
		err = os.WriteFile(a.targets+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(a.targets+".new", a.targets)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	query := "/api/v1/query?query=" + url.QueryEscape(fmt.Sprintf("up{instance=%q} == 1", l.address()))
	until(a.t, "a berth to be asked", func() bool {
		var up struct{ Data struct{ Result []any } }
		a.ask(query, &up)
		return len(up.Data.Result) == 1
	})
}

// address is where it is asked, as Prometheus calls it.
func (l listener) address() string { return strings.TrimPrefix(l.url, "http://") }

// ask reads what Prometheus answers, nothing while it is not there.
func (a *alerting) ask(path string, into any) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(a.url + path)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	_ = json.NewDecoder(answer.Body).Decode(into)
}

// firing returns the alerts about a lock or an instance.
func (a *alerting) firing(about string) (names []string) {
	var now struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	a.ask("/api/v1/alerts", &now)
	for _, alert := range now.Data.Alerts {
		if alert.State == "firing" && (alert.Labels["lock"] == about || alert.Labels["instance"] == about) {
			names = append(names, alert.Labels["alertname"])
		}
	}
	return names
}

// await waits until an alert fires.
func (a *alerting) await(name, about string) {
	a.t.Helper()
	until(a.t, name+" to fire", func() bool {
		return strings.Contains(fmt.Sprint(a.firing(about)), name)
	}, func() string { return fmt.Sprintf("of %s only %v fire", about, a.firing(about)) })
	a.tried[name] = true
}

// slowly passes connections on to a broker, each piece of what is said half a second late, once slow is set.
func slowly(t testing.TB, to string, slow *atomic.Bool) (address string) {
	t.Helper()
	r, err := relay.New(relay.Config{To: to, Pass: func(ctx context.Context, to, from net.Conn, _ bool) {
		piece := make([]byte, 64<<10)
		for {
			n, err := from.Read(piece)
			if slow.Load() {
				select {
				case <-time.After(500 * time.Millisecond):
				case <-ctx.Done():
				}
			}
			if _, failed := to.Write(piece[:n]); err != nil || failed != nil {
				return
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r.Addr()
}

// breakable is a command that fails from the moment on at which its directory has a file "broken".
const breakable = `while [ ! -e "$E2E_DIR/broken" ]; do sleep 0.05; done; exit 1`

// Each alert is tried with the fault that it is for, as packaging/observe has it, but sooner. It takes a minute of the
// broker that is disturbed, so only make alerts builds it.
func TestAlertsFireOnTheirFaults(t *testing.T) {
	t.Parallel()
	broker := roughBroker(t)
	a := startAlerting(t)
	run := func(p place, flags ...string) (contest, listener) {
		c := p.contest(t, "mutex")
		l := listen(t, c.args(plain, flags...)[1:]...)
		l.awaitRunning()
		a.watch(l)
		return c, l
	}
	disturbed := place{name: "disturbed", flags: func(testing.TB) []string { return []string{"--broker", broker.URL()} }}

	healthy, _ := run(onHost)
	standby := listen(t, healthy.args(plain)[1:]...)
	a.watch(standby)

	alone, _ := run(onHost)
	a.await("BerthNobodyWaits", alone.name)

	_, gone := run(onHost)
	gone.signal(syscall.SIGTERM)
	a.await("BerthDown", gone.address())

	stopped, silent := run(onHost)
	silent.signal(syscall.SIGSTOP)

	removed := lossCase{kind: "semaphore"}.made(t, calmBroker(t))
	lost := listen(t, removed.args(plain, quickLoss)[1:]...)
	lost.awaitRunning()
	a.watch(lost)
	deleteQueue("-1-A")(t, calmBroker(t), removed)
	a.await("BerthSlotLost", removed.name)
	a.await("BerthLockNotHeld", removed.name)

	failing := onHost.contest(t, "mutex")
	fails := listen(t, failing.args(breakable, "--restart=always")[1:]...)
	fails.awaitRunning()
	a.watch(fails)
	create(t, filepath.Join(fails.dir, "broken")).Close()
	a.await("BerthCommandNotRunning", failing.name)

	sick, _ := run(onHost, judge(t, "exit 1")...)
	a.await("BerthHealthChecksFail", sick.name)

	var slow atomic.Bool
	late := place{name: "late", flags: func(t testing.TB) []string {
		return []string{"--broker", "amqp://guest:guest@" + slowly(t, calmBroker(t).Addr(), &slow)}
	}}
	delayed, _ := run(late, "--heartbeat=30s", "--verify-interval=500ms", "--verify-timeout=5s")
	slow.Store(true)

	doubted, _ := run(disturbed, patientLease...)
	if err := broker.Pause(); err != nil {
		t.Fatal(err)
	}
	a.await("BerthSlotInDoubt", doubted.name)
	if err := broker.Continue(); err != nil {
		t.Fatal(err)
	}

	alarmed := alarm{broker.RaiseMemoryAlarm, broker.ClearMemoryAlarm}
	t.Cleanup(func() { alarmed.end(t) })
	if err := alarmed.raise(t.Context()); err != nil {
		t.Fatal(err)
	}
	blocked := disturbed.contest(t, "mutex")
	a.watch(listen(t, blocked.args(plain)[1:]...))
	a.await("BerthBrokerAlarm", blocked.name)

	a.await("BerthSilent", stopped.name)
	a.await("BerthVerificationSlow", delayed.name)
	a.await("BerthCommandRestarts", failing.name)
	if fire := a.firing(healthy.name); len(fire) > 0 {
		t.Errorf("of a lock that is well, %v fire", fire)
	}
	rules := read("../../packaging/observe/alerts.yml")
	for _, found := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		if !a.tried[found[1]] {
			t.Errorf("%s has not been tried", found[1])
		}
	}
}
