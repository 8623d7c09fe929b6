package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/config"
	"berth/lock"
	"berth/lock/rabbit"
	"berth/lock/rabbit/broker"
)

func reportOn(t *testing.T, flags map[string][]string) *Report {
	t.Helper()
	cfg, err := config.LoadCheck(config.Input{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return New(cfg)
}

func TestReportBeginsWithTheProblemsAndFitsAPage(t *testing.T) {
	r := reportOn(t, map[string][]string{"semaphore": {"workers"}, "broker": {"amqp://u:secret@h"},
		"heartbeat": {"1s"}})
	r.broker = &rabbit.Report{Broker: "amqp://h:5672", Product: "RabbitMQ", Version: "3.10.8",
		Platform: "Erlang/OTP 25", Cluster: "rabbit@h", Heartbeat: r.cfg.Heartbeat, Slots: 3, Login: "EXTERNAL",
		User: "someone", Runner: "permit this", Administrator: "permit that",
		TLS: &broker.Secured{Version: "TLS 1.3", Cipher: "TLS_X", Server: "CN=rabbit", Until: time.Unix(0, 0)}}
	r.Problems = append(r.Problems, lock.Errorf(lock.ErrDenied, "no permission %s", strings.Repeat("at all ", 30)))
	r.Advice = append(r.Advice, strings.Repeat("one thing and another ", 20))
	var out bytes.Buffer
	if err := r.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if lines[0] != `semaphore "workers": UNSAFE` || !strings.HasPrefix(lines[1], "problem: ") {
		t.Errorf("it begins with %q", lines[:2])
	}
	for _, want := range []string{"RabbitMQ 3.10.8, cluster rabbit@h, Erlang/OTP 25",
		`semaphore "workers" has 3 slots now`, "TOO LATE", "Good to know:",
		"TLS 1.3 with TLS_X; the broker's certificate (CN=rabbit) is valid until 1970-01-01 00:00 UTC;", "(EXTERNAL)",
		`as user "someone"`, "    permit this", "    permit that"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Error("it shows the password")
	}
	if len(lines) > 60 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if len(line) > width {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

func TestVerdictTellsFindingsApart(t *testing.T) {
	for want, err := range map[string]error{
		"safe":                              nil,
		"safe; the broker could not be ask": lock.ErrUnreachable,
		"the broker cannot carry it":        lock.ErrDenied,
	} {
		r := reportOn(t, nil)
		if err != nil {
			r.Problems = []error{err}
		}
		if !strings.Contains(r.verdict(), want) {
			t.Errorf("%v: %q", err, r.verdict())
		}
	}
}

func TestReportSaysHowLongACommandThatHangsKeepsItsSlot(t *testing.T) {
	r := reportOn(t, map[string][]string{"broker": {"local"}, "health-command": {"check"}, "health-interval": {"10s"},
		"health-timeout": {"5s"}, "health-retries": {"2"}, "stop": {"TERM 8s, KILL"}, "max-run": {"1h"}})
	var text, object bytes.Buffer
	if err := errors.Join(r.WriteText(&text), r.WriteJSON(&object)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"up to 35s", "up to 43s", "max-run 1h0m0s"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in %s", want, text.String())
		}
	}
	for _, want := range []string{`"noticed_most_ms": 35000`, `"ended_most_ms": 43000`, `"max_run_ms": 3600000`} {
		if !strings.Contains(object.String(), want) {
			t.Errorf("no %q in %s", want, object.String())
		}
	}
}

func TestReportShowsWhatHooksDelay(t *testing.T) {
	for _, broker := range []string{"amqp://h", "local"} {
		r := reportOn(t, map[string][]string{"broker": {broker}, "on-acquire": {"a"}, "on-release": {"b"},
			"hook-timeout": {"4s"}, "stop": {"TERM 8s, KILL"}})
		var text, object bytes.Buffer
		if err := errors.Join(r.WriteText(&text), r.WriteJSON(&object)); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"up to 4s       on_acquire", "up to 4s       on_release",
			"stop 8s + on_release 4s = 12s"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s: no %q in %s", broker, want, text.String())
			}
		}
		if strings.Contains(text.String(), "on_lost") {
			t.Errorf("%s: on_lost is not there: %s", broker, text.String())
		}
		if broker != "local" && !strings.Contains(text.String(), "  up to 8s       after the tree is dead") {
			t.Errorf("no handover of 8s in %s", text.String())
		}
		if broker != "local" {
			for _, want := range []string{"  up to 19s      berth was stopped",
				"  up to 17s      the connection was cut for good",
				"  up to 32s      the host is dead", "then on_acquire for up to 4s"} {
				if !strings.Contains(text.String(), want) {
					t.Errorf("on_acquire is not part of a failover: no %q in %s", want, text.String())
				}
			}
		}
		var got struct {
			Safe    bool
			Hooks   map[string]int64
			Timings struct {
				Failover int64 `json:"failover_most_ms"`
			}
		}
		if err := json.Unmarshal(object.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]int64{"on_acquire_ms": 4000, "on_release_ms": 4000, "on_lost_ms": 0, "turnover_ms": 8000,
			"ending_ms": 12000}
		if !got.Safe || !maps.Equal(got.Hooks, want) || broker != "local" && got.Timings.Failover != 32000 {
			t.Errorf("%s: %+v", broker, got)
		}
	}
}

func TestReportShowsWhatTheCommandHas(t *testing.T) {
	var text, object bytes.Buffer
	r := reportOn(t, map[string][]string{"broker": {"local"}, "user": {"54321"}, "group": {"54322"}, "umask": {"27"},
		"limit": {"NOFILE=10:20", "CORE=0"}, "directory": {"/srv"}})
	if err := errors.Join(r.WriteText(&text), r.WriteJSON(&object)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"user           54321, group 54322, groups 54322", "capabilities   none",
		"privileges     no new ones", "terminal       it may not", "umask          0027",
		"limits         NOFILE=10:20, CORE=0:0", "directory      /srv"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in %s", want, text.String())
		}
	}
	var got struct{ Command jsonCommand }
	if err := json.Unmarshal(object.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := jsonCommand{54321, 54322, []int{54322}, "none", true, true, "0027", []string{"NOFILE=10:20", "CORE=0:0"}, "/srv"}
	if !reflect.DeepEqual(got.Command, want) {
		t.Errorf("%+v", got.Command)
	}
	text.Reset()
	if err := reportOn(t, map[string][]string{"broker": {"local"}}).WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "capabilities") {
		t.Errorf("a command that is like berth is told of: %s", text.String())
	}
}

// As in a unit with NoNewPrivileges=, or in a container.
func TestReportShowsWhatTheCommandInheritsOfBerth(t *testing.T) {
	var text bytes.Buffer
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with what it cannot get rid of
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		cfg, wrong := config.LoadCheck(config.Input{Flags: map[string][]string{"broker": {"local"}, "umask": {"27"},
			"no-new-privileges": {"false"}}})
		done <- errors.Join(err, wrong, New(cfg).WriteText(&text))
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "privileges     no new ones") {
		t.Error(text.String())
	}
}

func TestReportTellsCapabilitiesOfRootFromThoseOfOthers(t *testing.T) {
	for _, c := range []struct{ user, set, text string }{
		{"0", "bounding", "all of berth's bounding set"}, {"54321", "none", "none"},
	} {
		r := reportOn(t, map[string][]string{"broker": {"local"}, "user": {c.user}, "group": {"54321"}})
		var text bytes.Buffer
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if got := r.command().Capabilities; got != c.set || !strings.Contains(text.String(), "capabilities   "+c.text) {
			t.Errorf("user %s: %q, %s", c.user, got, text.String())
		}
	}
}

func TestPageHasEveryKeyOfTheReport(t *testing.T) {
	page, err := os.ReadFile("../../docs/messages.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## `berth check --json`")
	section, _, _ = strings.Cut(section, "\n## ")
	var look func(of reflect.Type)
	look = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		for i := 0; of.Kind() == reflect.Struct && i < of.NumField(); i++ {
			key, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(section, "`"+key+"`") {
				t.Errorf("the page does not have the key %q of %s", key, of)
			}
			look(of.Field(i).Type)
		}
	}
	look(reflect.TypeFor[jsonReport]())
}

// Its promise is a weaker one, and its handovers take longer.
func TestPlainWireIsToldWithWhatItDoesNotGive(t *testing.T) {
	flags := map[string][]string{"mutex": {"m"}, "broker": {"amqp://h"}, "protocol": {"plain"}}
	var plain, full, local bytes.Buffer
	for out, broker := range map[*bytes.Buffer]string{&plain: "amqp://h", &local: "local"} {
		flags["broker"] = []string{broker}
		if err := reportOn(t, flags).WriteText(out); err != nil {
			t.Fatal(err)
		}
	}
	delete(flags, "protocol")
	flags["broker"] = []string{"amqp://h"}
	if err := reportOn(t, flags).WriteText(&full); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"every handover takes the", "no berth knows another's lease", "nothing arbitrates",
		"BERTH_TERM is this", "up to 11s"} {
		if !strings.Contains(plain.String(), text) || strings.Contains(full.String(), text) ||
			strings.Contains(local.String(), text) {
			t.Errorf("%q is not said of the plain protocol alone: %s", text, plain.String())
		}
	}
}
