package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// reading starts a berth that reads its configuration from a FIFO, and returns it
// with the end to write to once it reads.
func reading(t *testing.T) (b *berth, config *os.File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	b = start(t, "run", "--config", path)
	until(t, "berth reading its configuration", func() bool {
		var err error // ENXIO until somebody reads (fifo(7))
		config, err = os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
		return err == nil
	})
	t.Cleanup(func() { config.Close() })
	return b, config
}

// fault: signal-waiting
func TestEndingSignalWhileTheConfigurationIsRead(t *testing.T) {
	t.Parallel()
	for sig, status := range endings {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			b, _ := reading(t)
			b.signal(sig)
			b.wantStatus(status)
			if said := b.stderr(); said != "" {
				t.Errorf("it said %q", said)
			}
		})
	}
}

// fault: hup-waiting
func TestHUPWhileTheConfigurationIsReadEndsNothing(t *testing.T) {
	t.Parallel()
	b, config := reading(t)
	b.signal(syscall.SIGHUP)
	text := "mutex = \"m\"\nbroker = [" + strconv.Quote(localURL(t)) + "]\ncommand = [\"true\"]\n"
	if _, err := config.WriteString(text); err != nil {
		t.Fatal(err)
	}
	config.Close()
	b.awaitLog("slot held, command started") // which the signal may go to: what the command makes of it is its own
	b.status()
}

// Its numbers are those of other processes: nothing would be found to kill.
func TestProcOfAnotherNamespaceIsRefused(t *testing.T) {
	t.Parallel()
	lock := onHost.contest(t, "mutex")
	b := setup{via: []string{"unshare", "--pid", "--fork", "--kill-child"}}.start(t, lock.args("true")...)
	b.wantStatus(126)
	b.wantOneLine("/proc is that of another PID namespace", "--mount-proc")
}

func TestUserThatIsBerthsOwnHasItsOwnGroups(t *testing.T) {
	t.Parallel()
	groups := func(args ...string) string {
		cmd := exec.Command("setpriv", append([]string{"--groups", "1,2,3", "--"}, args...)...) // needs root
		cmd.Env = append(ownEnvironment(), "BERTH_BROKER="+localURL(t), "GORACE=atexit_sleep_ms=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	wanted, err := exec.Command("id", "-G", "root").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := groups(binary, "run", "--mutex", "m", "--user", "root", "--", "id",
		"-G"); got != strings.TrimSpace(string(wanted)) {
		t.Errorf("groups %q, not %q", got, wanted)
	}
	if got := groups(binary, "run", "--mutex", "m", "--", "id", "-G"); got != "0 1 2 3" {
		t.Errorf("without --user the groups are %q", got)
	}
}
