package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/lock"
	"berth/supervisor"
)

// write makes a configuration file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "berth.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// input reads "--flag value" pairs and "VAR=value" as a shell would be told;
// what follows "--" is the command.
func input(words ...string) Input {
	in := Input{Flags: map[string][]string{}}
	env := map[string]string{}
	for i := 0; i < len(words); i++ {
		switch {
		case words[i] == "--":
			in.Command = words[i+1:]
			i = len(words)
		case strings.HasPrefix(words[i], "--"):
			name := words[i][2:]
			i++
			in.Flags[name] = append(in.Flags[name], words[i])
		default:
			name, value, _ := strings.Cut(words[i], "=")
			env[name] = value
		}
	}
	in.LookupEnv = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	return in
}

func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	run, err := Load(input("--broker", "amqp://u:p@h/", "--mutex", "m", "--", "prog", "arg"))
	if err != nil {
		t.Fatal(err)
	}
	if run.Heartbeat != 5*time.Second || run.VerifyInterval != time.Second || run.VerifyTimeout != 2*time.Second ||
		run.Stop.String() != "TERM 8s, KILL" || run.Loss.String() != "TERM 2s, KILL" ||
		run.OnLoss != supervisor.Retry ||
		run.Restart != supervisor.Never || run.InDoubt != supervisor.GoOn || run.PIDNamespace || run.Try ||
		run.Timeout != 0 || run.MaxRun != 0 ||
		run.Health.Command != nil || run.Health.Noticed() != 3*time.Minute+30*time.Second || run.Naming != NamingNLA ||
		run.LogLevel != "info" || run.LogFormat != "text" || run.Credential != nil || run.Rewrites == nil {
		t.Errorf("got %+v", run)
	}
	if !slices.Equal(run.Command, []string{"prog", "arg"}) || run.Lock != (lock.ID{Kind: lock.Mutex, Name: "m"}) {
		t.Errorf("got %v for %v", run.Command, run.Lock)
	}
}

// It needs root, whom all of this concerns.
func TestUserHasNoRightsOfBerths(t *testing.T) {
	for words, want := range map[string]string{
		"":              "",
		"--user|nobody": "confined,no-new-privileges,no-typing",
		"--user|root":   "",
		"--group|54321": "",
		"--user|54321|--group|54321|--no-new-privileges|false": "confined,no-typing",
		"--user|root|--no-new-privileges|true|--umask|7":       "no-new-privileges,umask=0007",
		"BERTH_LIMIT=CORE=0,NOFILE=10:20 STACK=unlimited":      "CORE=0:0,NOFILE=10:20,STACK=unlimited:unlimited",
	} {
		given := []string{"--broker", "local", "--mutex", "m"}
		if words != "" {
			given = append(given, strings.Split(words, "|")...)
		}
		run, err := Load(input(append(given, "--", "x")...))
		if err != nil || run.Rights.String() != want {
			t.Errorf("%s: %q, %v; want %q", words, run.Rights, err, want)
		}
	}
}

func TestFlagsBeatVariablesBeatTheFile(t *testing.T) {
	file := write(t, `
		mutex           = "file"
		broker          = "amqp://file"
		command         = ["file", "arg"]
		verify_interval = "400ms"
		verify_timeout  = "400ms"
		loss            = "TERM 400ms, KILL"
		timeout         = "4s"`)
	run, err := Load(input("--config", file, "BERTH_VERIFY_TIMEOUT=300ms", "BERTH_LOSS=TERM 300ms, KILL",
		"BERTH_BROKER=amqp://env", "--loss", "TERM 200ms, KILL", "--semaphore", "flag", "--try", "true"))
	if err != nil {
		t.Fatal(err)
	}
	if run.VerifyInterval != 400*time.Millisecond || run.VerifyTimeout != 300*time.Millisecond ||
		run.Loss.Duration() != 200*time.Millisecond {
		t.Errorf("interval %s, timeout %s, loss %s", run.VerifyInterval, run.VerifyTimeout, run.Loss)
	}
	if run.Lock != (lock.ID{Kind: lock.Semaphore, Name: "flag"}) {
		t.Errorf("the flag's lock did not replace the file's: %v", run.Lock)
	}
	if !run.Try || run.Timeout != 0 {
		t.Errorf("--try did not replace the file's timeout: %v %s", run.Try, run.Timeout)
	}
	if !slices.Equal(run.Brokers, []string{"amqp://env"}) || !slices.Equal(run.Command, []string{"file", "arg"}) {
		t.Errorf("brokers %v, command %v", run.Brokers, run.Command)
	}
}

func TestSwitchingTryOffKeepsTheTimeout(t *testing.T) {
	run, err := Load(input("--broker", "local", "--mutex", "m", "BERTH_TIMEOUT=4s", "--try", "false", "--", "x"))
	if err != nil || run.Try || run.Timeout != 4*time.Second {
		t.Fatalf("try %v, timeout %s, %v", run.Try, run.Timeout, err)
	}
}

func TestWhatAHigherLevelReplacesContradictsNothing(t *testing.T) {
	file := write(t, `mutex = "a"
		semaphore = "b"`)
	for _, in := range []Input{
		input("BERTH_TRY=1", "BERTH_TIMEOUT=4s", "--try", "false", "--mutex", "m"),
		input("BERTH_MUTEX=a", "BERTH_SEMAPHORE=b", "BERTH_TIMEOUT=4s", "--mutex", "m"),
		input("--config", file, "BERTH_MUTEX=m", "--timeout", "4s"),
	} {
		in.Flags["broker"], in.Command = []string{"local"}, []string{"x"}
		run, err := Load(in)
		if err != nil || run.Try || run.Timeout != 4*time.Second || run.Lock != (lock.ID{Kind: lock.Mutex, Name: "m"}) {
			t.Errorf("%v: try %v, timeout %s, %v, %v", in.Flags, run.Try, run.Timeout, run.Lock, err)
		}
	}
}

func TestCommandLineReplacesTheWholeCommandOfTheFile(t *testing.T) {
	file := write(t, `command = ["file", "arg"]`)
	run, err := Load(input("--config", file, "--broker", "local", "--mutex", "m", "--", "own"))
	if err != nil || !slices.Equal(run.Command, []string{"own"}) {
		t.Fatalf("got %v, %v", run.Command, err)
	}
}

func TestEveryKeyCanBeWrittenInTheFile(t *testing.T) {
	file := write(t, `
		persistent_mutex = "m"
		broker     = ["amqp://a", "amqps://b:5671/v"]
		naming     = "N-A-L"
		try        = true
		on_loss    = "exit"
		command    = ["sh", "-c", "echo $${HOME}"]
		stop       = "INT 1s, KILL"
		restart    = "on-failure"
		rewrite    = ["HUP=USR1", "INT="]
		heartbeat  = "10s"
		log_level  = "trace"
		log_format = "json"`)
	run, err := Load(input("BERTH_CONFIG=" + file))
	if err != nil {
		t.Fatal(err)
	}
	if run.Lock.Kind != lock.PersistentMutex || len(run.Brokers) != 2 || run.Naming != NamingNAL || !run.Try ||
		run.OnLoss != supervisor.NoRetry || run.Command[2] != "echo ${HOME}" || run.Stop.String() != "INT 1s, KILL" ||
		run.Restart != supervisor.OnFailure || run.Rewrites.Apply(unix.SIGHUP) != unix.SIGUSR1 ||
		run.Heartbeat != 10*time.Second || run.LogLevel != "trace" || run.LogFormat != "json" {
		t.Errorf("got %+v", run)
	}
}

func TestVariablesCanHoldLists(t *testing.T) {
	for text, want := range map[string][]string{
		"amqp://a amqp://b":            {"amqp://a", "amqp://b"},
		"amqp://a,amqps://b, amqp://c": {"amqp://a", "amqps://b", "amqp://c"},
		"amqp://u:p,w@a,amqp://b":      {"amqp://u:p,w@a", "amqp://b"},
		"\tamqp://a\n amqp://b , ":     {"amqp://a", "amqp://b"},
	} {
		run, err := Load(input("BERTH_BROKER="+text, "BERTH_REWRITE=HUP=USR1, INT=", "--mutex", "m", "--", "x"))
		if err != nil || !slices.Equal(run.Brokers, want) || len(run.Rewrites) != 2 {
			t.Errorf("%q: got %q, %v, %v", text, run.Brokers, run.Rewrites, err)
		}
	}
}

func TestEmptyVariableCountsAsNotSet(t *testing.T) {
	run, err := Load(input("BERTH_TIMEOUT=", "BERTH_HEARTBEAT=", "--broker", "local", "--mutex", "m", "--", "x"))
	if err != nil || run.Heartbeat != 5*time.Second {
		t.Fatalf("got %s, %v", run.Heartbeat, err)
	}
}

func TestLocalNeedsNoSafeTimings(t *testing.T) {
	slow := []string{"--loss", "TERM 1h, KILL", "--mutex", "m", "--", "x"}
	run, err := Load(input(append([]string{"--broker", "local:///tmp/locks"}, slow...)...))
	if err != nil || !run.Local || run.Directory != "/tmp/locks" || len(run.Brokers) != 0 {
		t.Errorf("local: %+v, %v", run.Connection, err)
	}
	if _, err = Load(input(append([]string{"--broker", "amqp://h"}, slow...)...)); !errors.Is(err, lock.ErrUnsafe) {
		t.Errorf("broker: %v", err)
	}
}

func TestUserThatCannotBeIsRefused(t *testing.T) {
	for _, bad := range []string{"4294967295", "-1", "no such user"} {
		if _, err := Load(input("--broker", "local", "--mutex", "m", "--user", bad, "--", "x")); !errors.Is(err,
			ErrUsage) {
			t.Errorf("--user %q: %v", bad, err)
		}
	}
}

func TestConnectionIgnoresWhatOnlyRunUses(t *testing.T) {
	file := write(t, "heartbeat = \"nonsense\"\nbroker = \"amqp://h\"\nnaming = \"N-A-L\"")
	got, err := LoadConnection(input("--config", file, "BERTH_TIMEOUT=nonsense"))
	if err != nil || got.Naming != NamingNAL || !slices.Equal(got.Brokers, []string{"amqp://h"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := LoadConnection(input("--config", write(t, "brokers = \"amqp://h\""))); !errors.Is(err, ErrInvalid) {
		t.Errorf("a key that does not exist: %v", err)
	}
}

func TestLoadCheckWantsNeitherLockNorBrokerNorCommand(t *testing.T) {
	run, err := LoadCheck(Input{})
	if err != nil || run.Lock.Name != "" || len(run.Brokers) != 0 || len(run.Command) != 0 ||
		run.Timings().Check() != nil {
		t.Errorf("%+v, %v", run, err)
	}
	run, err = LoadCheck(Input{Flags: map[string][]string{"heartbeat": {"1s"}}})
	if err != nil || !errors.Is(run.Timings().Check(), lock.ErrUnsafe) {
		t.Errorf("unsafe timings: %v, %v", err, run.Timings().Check())
	}
	if _, err = LoadCheck(Input{Flags: map[string][]string{"heartbeat": {"x"}}}); !errors.Is(err, ErrUsage) {
		t.Errorf("nonsense: %v", err)
	}
}

func TestHookIsATextOrAList(t *testing.T) {
	want := []string{"/bin/my hook", "--flag", "a b"}
	for name, words := range map[string][]string{
		"flag":     {"--on-acquire", `'/bin/my hook' --flag "a b"`},
		"variable": {`BERTH_ON_ACQUIRE=/bin/my\ hook --flag 'a b'`},
		"text":     {"--config", write(t, `on_acquire = "'/bin/my hook' --flag 'a b'"`)},
		"list":     {"--config", write(t, `on_acquire = ["/bin/my hook", "--flag", "a b"]`)},
		"flag over file": {"--on-acquire", `'/bin/my hook' --flag "a b"`,
			"--config", write(t, `on_acquire = "other"`)},
	} {
		run, err := Load(input(append(words, "--broker", "local", "--mutex", "m", "--", "x")...))
		if err != nil || len(run.Hooks) != 1 || !slices.Equal(run.Hooks[supervisor.OnAcquire], want) {
			t.Errorf("%s: %q, %v", name, run.Hooks, err)
		}
	}
}

func TestHookTimesAreThoseOfTheHooksThatThereAre(t *testing.T) {
	run, err := Load(input("--on-release", "x", "--hook-timeout", "7s", "--broker", "local", "--mutex", "m", "--", "x"))
	if err != nil {
		t.Fatal(err)
	}
	if h := run.HookTimes(); h.OnAcquire != 0 || h.OnLost != 0 || h.Turnover() != 7*time.Second ||
		h.Ending(run.Stop.Duration()) != 15*time.Second {
		t.Errorf("%+v", h)
	}
}

func TestBoundsOfNumbersAreTheirs(t *testing.T) {
	load := func(words ...string) Run {
		t.Helper()
		run, err := Load(input(append(words, "--broker", "amqp://h", "--mutex", "m", "--", "x")...))
		if err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		return run
	}
	for text, want := range map[string]int{"0": 0, "1": 1, " 100": 100} {
		if got := load("--priority", text).Priority; got != want {
			t.Errorf("priority %s is %d", text, got)
		}
	}
	for text, want := range map[string]int{"1": 1, "1000": 1000} {
		if got := load("--health-command", "check", "--health-retries", text).Health; got.Retries != want ||
			!slices.Equal(got.Command, []string{"check"}) {
			t.Errorf("%s retries are %+v", text, got)
		}
	}
	for _, text := range []string{"127.0.0.1:0", ":65535", "[::1]:1", "localhost:1"} {
		if got := load("--listen", text).Listen; got != text {
			t.Errorf("%s: %q", text, got)
		}
	}
	if run := load("--takeover", "true", "--ready-file", "f", "--ready-command", "true"); run.ReadyFile != "f" ||
		run.ReadyCommand != "true" {
		t.Errorf("%+v", run)
	}
	if run := load("--protocol", "plain", "--timeout", "10001ms"); !run.Timings().Plain {
		t.Error("another protocol has another handover")
	}
	if load("--timeout", "10s").Timings().Plain {
		t.Error("its protocol is the full one")
	}
	run := load("--on-acquire", "a", "--on-release", "b", "--on-lost", "c", "--hook-timeout", "3s").HookTimes()
	if run.OnAcquire != 3*time.Second || run.OnRelease != 3*time.Second || run.OnLost != 3*time.Second {
		t.Errorf("%+v", run)
	}
	local, err := Load(input("--broker", "local", "--protocol", "plain", "--mutex", "m", "--", "x"))
	if err != nil || local.Timings().Plain {
		t.Errorf("a lock of this host has no protocol: %v", err)
	}
}

func TestListsInVariablesAreSeparated(t *testing.T) {
	run, err := Load(input("BERTH_ADMINS=a,b c", "BERTH_LOCK_USERS=d, e", "BERTH_LIMIT=CORE=0 NOFILE=1:2",
		"BERTH_REWRITE=HUP=USR1,USR2=", "--broker", "amqp://h", "--mutex", "m", "--", "x"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(run.Admins, []string{"a", "b", "c"}) || !slices.Equal(run.LockUsers, []string{"d", "e"}) ||
		len(run.Rights.Limits) != 2 || len(run.Rewrites) != 2 {
		t.Errorf("%q, %q, %v, %v", run.Admins, run.LockUsers, run.Rights.Limits, run.Rewrites)
	}
}

// They are about a lock, and not about a command.
func TestWhatIsSaidOfALockIsEnoughToAskIt(t *testing.T) {
	c, id, err := LoadLock(input("--broker", "amqp://h", "--semaphore", "s"))
	if err != nil || id != (lock.ID{Kind: lock.Semaphore, Name: "s"}) || !slices.Equal(c.Brokers, []string{"amqp://h"}) {
		t.Errorf("%+v, %v, %v", c, id, err)
	}
	for words, want := range map[string]struct {
		sort error
		text string
	}{
		"--semaphore|s":                                                        {ErrUsage, "no broker is named"},
		"--broker|x|--semaphore|s":                                             {ErrUsage, "is not a broker"},
		"--broker|local|--token-semaphore|s":                                   {ErrInvalid, "needs RabbitMQ"},
		"--broker|local|--queue-type|quorum|--semaphore|s":                     {ErrInvalid, "needs RabbitMQ"},
		"--broker|amqp://h|--queue-type|quorum|--protocol|plain|--semaphore|s": {ErrInvalid, "exclude each other"},
	} {
		_, _, err := LoadLock(input(strings.Split(words, "|")...))
		if !errors.Is(err, want.sort) || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v", words, err)
		}
	}
	if _, err := LoadConnection(input()); !errors.Is(err, ErrUsage) {
		t.Errorf("no broker: %v", err)
	}
	for _, kind := range []string{"", "|--mutex|s", "|--semaphore|s", "|--persistent-mutex|s", "|--token-semaphore|s"} {
		words := "--broker|amqp://h|--queue-type|quorum" + kind
		if _, _, err := LoadLock(input(strings.Split(words, "|")...)); err != nil {
			t.Errorf("%s: %v", words, err)
		}
	}
}

func TestCheckRefusesWhatCannotBe(t *testing.T) {
	for words, want := range map[string]string{
		"--broker|amqp://h|--protocol|plain|--takeover|true":               "exclude each other",
		"--broker|amqp://h|--queue-type|quorum|--protocol|plain|--mutex|m": "exclude each other",
		"--broker|amqp://h|--protocol|plain|--token-semaphore|m":           "consumes nothing",
	} {
		if _, err := LoadCheck(input(strings.Split(words, "|")...)); !errors.Is(err, ErrInvalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", words, err)
		}
	}
}

// A caller may want to know what is wrong with a file.
func TestCauseOfAMistakeIsFound(t *testing.T) {
	_, err := Load(input("--config", "/does/not/exist"))
	if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	for _, err := range []error{Usagef("x"), Invalidf("x")} {
		if errors.Is(err, fs.ErrNotExist) || err.Error() != "x" {
			t.Error(err)
		}
	}
}

func TestDirectoryIsThatFromWhichBerthIsStarted(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	run, err := Load(input("--directory", "work", "--no-new-privileges", "true", "--broker", "local", "--mutex", "m", "--", "x"))
	if err != nil || run.WorkingDirectory != filepath.Join(dir, "work") || !run.Rights.NoNewPrivileges {
		t.Errorf("%q, %+v, %v", run.WorkingDirectory, run.Rights, err)
	}
}

func TestNamesOfOptions(t *testing.T) {
	for _, o := range []struct {
		Option
		flag, env, key string
	}{
		{Option{Name: "verify-interval"}, "--verify-interval", "BERTH_VERIFY_INTERVAL", "verify_interval"},
		{Option{Name: "json", FlagOnly: true}, "--json", "", ""},
		{Option{Name: "command", fileOnly: true}, "", "", "command"},
		{Option{Name: "config", flagOrEnv: true}, "--config", "BERTH_CONFIG", ""},
	} {
		if o.Flag() != o.flag || o.Env() != o.env || o.Key() != o.key {
			t.Errorf("%s: %q, %q, %q", o.Name, o.Flag(), o.Env(), o.Key())
		}
	}
	if got := LockFlags(); got != "--mutex, --semaphore, --persistent-mutex or --token-semaphore" {
		t.Error(got)
	}
}
