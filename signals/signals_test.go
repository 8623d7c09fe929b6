package signals

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestForwardedLeavesOutWhatWouldHarm(t *testing.T) {
	got := Forwarded()
	for _, sig := range []syscall.Signal{unix.SIGURG, unix.SIGPROF, unix.SIGCHLD, unix.SIGKILL, unix.SIGSTOP,
		unix.SIGPIPE, unix.SIGXCPU, unix.SIGXFSZ, 32, 33, 34} {
		if slices.Contains(got, sig) {
			t.Errorf("%s is forwarded", Name(sig))
		}
	}
	for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT,
		unix.SIGTERM, unix.SIGALRM, unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS, 35, 64} {
		if !slices.Contains(got, sig) {
			t.Errorf("%s is not forwarded", Name(sig))
		}
	}
}

func TestParseReadsNamesAndNumbers(t *testing.T) {
	for _, text := range []string{"TERM", "SIGTERM", "term", "sigterm", "15"} {
		if sig, err := Parse(text); err != nil || sig != unix.SIGTERM {
			t.Errorf("Parse(%q) = %v, %v", text, sig, err)
		}
	}
	for _, text := range []string{"", "0", "32", "33", "65", "-1", "TREM", "SIG", "TERM ",
		"RTMIN+31", "RTMIN-1", "RTMIN1", "RTMIN+", "RTMAX+1", "RTMAX-31", "RTMAX1", "RT", "RTMIN++1", "RTMIN+99999999999999999999"} {
		if sig, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, sig)
		}
	}
	for text, want := range map[string]syscall.Signal{
		"RTMIN": 34, "RTMIN+1": 35, "sigrtmin+3": 37, "RTMIN+30": 64, "RTMAX": 64, "RTMAX-14": 50, "64": 64, "34": 34,
	} {
		if sig, err := Parse(text); err != nil || sig != want {
			t.Errorf("Parse(%q) = %d, %v", text, sig, err)
		}
	}
	for number, want := range map[syscall.Signal]string{34: "RTMIN", 35: "RTMIN+1", 49: "RTMIN+15", 50: "RTMAX-14",
		64: "RTMAX", 33: "33"} {
		if got := Name(number); got != want {
			t.Errorf("Name(%d) = %q", number, got)
		}
	}
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		if sig == 32 || sig == 33 {
			continue
		}
		if got, err := Parse(Name(sig)); err != nil || got != sig {
			t.Errorf("Parse(Name(%d)) = %v, %v", sig, got, err)
		}
	}
}

func TestParseSequence(t *testing.T) {
	seq, err := ParseSequence("INT 500ms,TERM  8s, KILL")
	want := Sequence{{unix.SIGINT, 500 * time.Millisecond}, {unix.SIGTERM, 8 * time.Second}, {unix.SIGKILL, 0}}
	if err != nil || !slices.Equal(seq, want) {
		t.Fatalf("got %v, %v", seq, err)
	}
	if seq.Duration() != 8500*time.Millisecond {
		t.Errorf("Duration = %s", seq.Duration())
	}
	if again, err := ParseSequence(seq.String()); err != nil || !slices.Equal(again, seq) {
		t.Errorf("%q reads back as %v, %v", seq, again, err)
	}
	if only, err := ParseSequence("KILL"); err != nil || len(only) != 1 {
		t.Errorf("KILL alone: %v, %v", only, err)
	}
}

func TestParseSequenceRefuses(t *testing.T) {
	for text, complaint := range map[string]string{
		"":                  "empty",
		"TERM 8s":           "end with KILL",
		"TERM, KILL":        "duration",
		"TERM 0s, KILL":     "above zero",
		"TERM -1s, KILL":    "above zero",
		"TERM 8, KILL":      "above zero",
		"TERM 8s, KILL 1s":  "end with KILL",
		"KILL, KILL":        "comes last",
		"TERM 8s,, KILL":    "empty",
		"BOO 8s, KILL":      "not a signal",
		"TERM 1s 2s, KILL":  "one duration",
		"TERM 8s; KILL":     "end with KILL",
		"KILL 1s, TERM, :)": "comes last",
	} {
		_, err := ParseSequence(text)
		if err == nil || !strings.Contains(err.Error(), complaint) {
			t.Errorf("ParseSequence(%q): %v, want %q in it", text, err, complaint)
		}
	}
}

func TestSequenceBeginsWithTheSignalThatCame(t *testing.T) {
	seq, _ := ParseSequence("TERM 8s, KILL")
	if got := seq.Beginning(unix.SIGINT).String(); got != "INT 8s, KILL" {
		t.Errorf("got %q", got)
	}
	if seq.String() != "TERM 8s, KILL" {
		t.Errorf("the original became %q", seq)
	}
	only, _ := ParseSequence("KILL")
	if got := only.Beginning(unix.SIGINT).String(); got != "KILL" {
		t.Errorf("got %q", got)
	}
}

func TestRewrites(t *testing.T) {
	r, err := ParseRewrites([]string{"HUP=USR1", "SIGWINCH=", "TERM=QUIT"})
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[syscall.Signal]syscall.Signal{
		unix.SIGHUP: unix.SIGUSR1, unix.SIGWINCH: 0, unix.SIGTERM: unix.SIGQUIT, unix.SIGUSR2: unix.SIGUSR2,
	} {
		if got := r.Apply(from); got != to {
			t.Errorf("Apply(%s) = %d, want %d", Name(from), got, to)
		}
	}
	for _, bad := range []string{"", "HUP", "=USR1", "KILL=TERM", "CHLD=USR1", "HUP=NOPE", "URG=USR1", "PROF=USR1",
		"PIPE=USR1", "XCPU=", "RTMIN="} {
		if _, err := ParseRewrites([]string{bad}); err == nil {
			t.Errorf("ParseRewrites(%q) succeeded", bad)
		}
	}
	if _, err := ParseRewrites([]string{"HUP=USR1", "HUP=USR2"}); err == nil {
		t.Error("two rewrites of one signal succeeded")
	}
}
