package check

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/rogpeppe/go-internal/txtar"

	"berth/internal/brokerurl"
	"berth/internal/config"
	"berth/internal/guard/rights"
	"berth/internal/management"
	"berth/lock"
	"berth/lock/rabbit"
	"berth/lock/rabbit/broker"
)

// brokers are what `--connect` found, by the name that a file of testdata gives.
var brokers = map[string]rabbit.Report{
	"new": {Broker: "amqp://h:5672", Product: "RabbitMQ", Version: "4.3.6", Heartbeat: 5 * time.Second, Slots: 0,
		Login: "PLAIN"},
	"mutex": {Broker: "amqp://h:5672", Product: "RabbitMQ", Version: "3.10.8", Platform: "Erlang/OTP 25",
		Heartbeat: 5 * time.Second, Slots: -1, Login: "PLAIN", User: "someone", Runner: "permit this"},
	"one slot": {Broker: "amqp://h:5672", Product: "RabbitMQ", Version: "4.3.6", Heartbeat: 5 * time.Second, Slots: 1,
		Login: "PLAIN", QueueType: "quorum"},
	"plain": {Broker: "amqp://h:5672", Product: "RabbitMQ", Version: "4.3.6", Heartbeat: 5 * time.Second, Slots: 1,
		Login: "PLAIN"},
	"everything": {Broker: "amqps://h:5671", Product: "RabbitMQ", Version: "4.0.5", Platform: "Erlang/OTP 26",
		Cluster: "rabbit@h", Heartbeat: time.Second, Slots: 2, Login: "EXTERNAL", User: "someone",
		TLS:       &broker.Secured{Version: "TLS 1.3", Cipher: "TLS_X", Server: "CN=rabbit", Until: time.Unix(3600, 0)},
		QueueType: "classic", Runner: "permit this", Administrator: "permit that"},
}

// apis are what `--management-url` found, by the name that a file of testdata gives.
var apis = map[string]management.Report{
	"everything": {Host: "h:15672", Nodes: []management.Node{{Name: "rabbit@a", Running: true}, {Name: "rabbit@b"}},
		Ledger: &management.Ledger{Queue: "workers-Q-1-T", Leader: "rabbit@a", Members: []string{"rabbit@a", "rabbit@b"},
			Online: []string{"rabbit@a"}},
		Policies: []management.Policy{
			{Name: "all", Key: "message-ttl", Value: 1e9, Queue: "workers-Q-1-T", Others: 2},
			{Name: "all", Key: "message-ttl", Value: 1e9, Queue: "workers-Q"},
			{Name: "limits", Operator: true, Key: "overflow", Value: "reject-publish", Queue: "workers-Q", Unsafe: true}},
		Writers: []string{"orders", "web"}},
	"policies": {Host: "h:15672", Unknown: map[string]error{management.AboutNodes: errors.New("why"),
		management.AboutLedger: errors.New("why"), management.AboutWriters: errors.New("why")}},
}

// Each file of testdata has the settings of one configuration, a line each, and what is printed of it.
func TestReports(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no files", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			flags, set := map[string][]string{}, map[string]string{}
			for line := range strings.Lines(string(archive.Comment)) {
				key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				if name, is := strings.CutPrefix(key, "."); is {
					set[name] = value
				} else if key != "" {
					flags[key] = append(flags[key], value)
				}
			}
			r := reportOn(t, flags)
			if name, asked := set["broker"]; asked {
				found, known := brokers[name]
				if !known {
					t.Fatalf("no broker %q", name)
				}
				r.broker = &found
			}
			if name, asked := set["management"]; asked {
				found, known := apis[name]
				if !known {
					t.Fatalf("no API %q", name)
				}
				r.api = &found
			}
			if text, is := set["problem"]; is {
				r.Problems = append(r.Problems, lock.Errorf(lock.ErrDenied, "%s", text))
			}
			if text, is := set["warning"]; is {
				r.Warnings = append(r.Warnings, text)
			}
			var text, object bytes.Buffer
			if err := errors.Join(r.WriteText(&text), r.WriteJSON(&object)); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{"text": text.String(), "json": object.String()}
			for _, want := range archive.Files {
				if got[want.Name] != string(want.Data) {
					t.Errorf("%s:\n%s\nwant\n%s", want.Name, got[want.Name], want.Data)
				}
				delete(got, want.Name)
			}
			if len(got) > 0 {
				t.Errorf("the file lacks\n-- text --\n%s-- json --\n%s", &text, &object)
			}
		})
	}
}

func TestVerdicts(t *testing.T) {
	unsafe := map[string][]string{"broker": {"amqp://h"}, "heartbeat": {"1s"}}
	here := map[string][]string{"broker": {"local"}, "heartbeat": {"1s"}}
	for want, c := range map[string]struct {
		flags    map[string][]string
		problems []error
		asked    bool
	}{
		"safe":                                {nil, nil, false},
		"safe, and the broker can carry it":   {nil, nil, true},
		"UNSAFE":                              {unsafe, []error{lock.ErrUnreachable}, true},
		"safe, but this host cannot carry it": {here, []error{lock.ErrUnreachable}, false},
		"the timings are safe; the broker could not be asked":  {nil, []error{errors.New("x"), lock.ErrUnreachable}, false},
		"the timings are safe, but the broker cannot carry it": {nil, []error{lock.ErrDenied}, true},
	} {
		r := reportOn(t, c.flags)
		r.Problems = append(r.Problems, c.problems...)
		if c.asked {
			r.broker = &rabbit.Report{}
		}
		if got := r.verdict(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := reportOn(t, here).verdict(); got != "safe" {
		t.Errorf("on one host there is no lease: %q", got)
	}
}

func TestBrokerThatDoesNotAnswerIsAProblem(t *testing.T) {
	r := reportOn(t, map[string][]string{"mutex": {"m"}, "broker": {"amqp://127.0.0.1:1"}})
	if err := r.AskBroker(t.Context(), hclog.NewNullLogger(), ""); err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) != 1 || !errors.Is(r.Problems[0], lock.ErrUnreachable) || r.broker != nil {
		t.Errorf("%v, %+v", r.Problems, r.broker)
	}
}

func TestBrokerThatNeedsTooLongIsAProblem(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	r := reportOn(t, map[string][]string{"mutex": {"m"}, "broker": {"amqp://127.0.0.1:1"}})
	if err := r.AskBroker(ctx, hclog.NewNullLogger(), ""); err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) != 1 || !errors.Is(r.Problems[0], lock.ErrUnreachable) ||
		!strings.Contains(r.Problems[0].Error(), "did not answer everything within 30s") {
		t.Error(r.Problems)
	}
}

func TestNobodyIsAskedWhereNoBrokerIsNamed(t *testing.T) {
	r := reportOn(t, nil)
	if err := r.AskBroker(t.Context(), hclog.NewNullLogger(), ""); !errors.Is(err, config.ErrInvalid) || len(r.Problems) > 0 {
		t.Errorf("%v, %v", err, r.Problems)
	}
}

func TestDirectoryThatCannotKeepLocksIsAProblem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for directory, problems := range map[string]int{file: 1, t.TempDir(): 0} {
		r := reportOn(t, map[string][]string{"mutex": {"m"}, "broker": {"local://" + directory}})
		if err := r.LookAtDirectory(); err != nil || len(r.Problems) != problems {
			t.Errorf("%s: %v, %v", directory, err, r.Problems)
		}
	}
}

func TestCommandMayHaveWhatBerthHas(t *testing.T) {
	r := &Report{cfg: config.Run{
		Connection: config.Connection{Place: brokerurl.Place{Local: true}},
		Credential: &syscall.Credential{Uid: 54321, Gid: 54322, Groups: []uint32{7, 3}},
	}}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	privileges := "also those of setuid programs"
	if rights.NoNewPrivileges() { // as in a container
		privileges = "no new ones"
	}
	for _, want := range []string{"user           54321, group 54322, groups 3 7", "capabilities   those in berth's ambient set",
		"privileges     " + privileges, "terminal       it may put input into it"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in %s", want, &text)
		}
	}
}

// full is a disk or a pipe to which nothing can be written.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestReportThatCannotBePrintedIsAnError(t *testing.T) {
	r := reportOn(t, nil)
	for _, err := range []error{r.WriteText(full{}), r.WriteJSON(full{})} {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
	}
}

// What is not set is as berth has it, which depends on who runs the tests.
func TestCommandIsWhoBerthIs(t *testing.T) {
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(groups)
	for _, flags := range []map[string][]string{{"umask": {"27"}}, {"directory": {"/srv"}}} {
		flags["broker"] = []string{"local"}
		c := reportOn(t, flags).command()
		if c == nil || c.User != os.Getuid() || c.Group != os.Getgid() || !slices.Equal(c.Groups, groups) {
			t.Errorf("%v: %+v", flags, c)
		}
	}
}

// Where to look is said of what is not shown alone.
func TestAdviceOnWhatAMQPDoesNotShowGoesOnceTheManagementAPIShowsIt(t *testing.T) {
	unseen := rabbit.Unseen{Nodes: "see the nodes", Policies: "see the policies", Writers: "see the writers"}
	const hint = "--management-url http://HOST:15672 has RabbitMQ's management plugin asked for that, where it is enabled"
	for what, c := range map[string]struct {
		api    *management.Report
		url    string
		unseen rabbit.Unseen
		want   []string
	}{
		"not asked":           {nil, "", unseen, []string{"see the nodes", "see the writers", "see the policies", hint}},
		"nothing to be shown": {nil, "", rabbit.Unseen{}, nil},
		"not answered":        {nil, "http://h", unseen, []string{"see the nodes", "see the writers", "see the policies"}},
		"not permitted": {&management.Report{Unknown: map[string]error{management.AboutWriters: lock.ErrDenied}}, "http://h",
			unseen, []string{"see the writers"}},
		"answered": {&management.Report{}, "http://h", unseen, nil},
	} {
		r := &Report{api: c.api}
		if r.adviseUnseen(c.unseen, c.url); !slices.Equal(r.Advice, c.want) {
			t.Errorf("%s: %q, want %q", what, r.Advice, c.want)
		}
	}
}

func TestManagementAPIThatIsNotThereIsAProblem(t *testing.T) {
	r := reportOn(t, map[string][]string{"mutex": {"m"}, "broker": {"amqp://127.0.0.1:1"}})
	r.broker = &rabbit.Report{}
	r.askManagement(t.Context(), "http://u:secret@127.0.0.1:1")
	if len(r.Problems) != 1 || !errors.Is(r.Problems[0], lock.ErrUnreachable) || r.api != nil ||
		strings.Contains(r.Problems[0].Error(), "secret") {
		t.Errorf("%v, %+v", r.Problems, r.api)
	}
	if got := r.verdict(); got != "the timings are safe; the management API could not be asked" {
		t.Error(got)
	}
}

func TestUsersOfTheLockAreNoOthers(t *testing.T) {
	for url, want := range map[string]string{"amqp://h": "guest", "amqp://berth:secret@h/v": "berth", "amqps://b%40c@h": "b@c"} {
		if got := userOf(url); got != want {
			t.Errorf("%s: %q", url, got)
		}
	}
}
