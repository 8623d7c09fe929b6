package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A fleet comes back by itself when a password was rotated, and what runs goes on.
func TestFleetComesBackAfterARotation(t *testing.T) {
	t.Parallel()
	broker := calmBroker(t)
	user, file := unique("rotated"), filepath.Join(t.TempDir(), "password")
	rotate := func(password string) {
		t.Helper()
		if err := broker.AddUser(t.Context(), user, password); err != nil {
			t.Fatal(err)
		}
	}
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate("first")
	write("first")
	if err := broker.SetPermissions(t.Context(), user, "/", ".*", ".*", ".*"); err != nil {
		t.Fatal(err)
	}
	c := contest{t, []string{"--broker=amqp://" + user + "@" + broker.Addr(), "--password-file=" + file}, "mutex",
		unique("m")}
	c.run("true").wantStatus(0) // makes the ledger: a holder that just has does not survive a broker that is gone
	holder := c.run(plain)
	holder.awaitRuns(1)
	standby := c.run(plain)
	standby.awaitLog("next in line") // the holder has settled

	rotate("second")
	if n, err := broker.CloseConnections(t.Context(), " "+c.name+" @"); err != nil || n < 2 {
		t.Fatalf("%d connections closed, %v", n, err)
	}
	write("second")
	holder.awaitLog("slot reclaimed")
	standby.awaitLogs(2, "next in line")
	if said := holder.reload(0).stdout(); !strings.Contains(said, "these have changed: password-file") {
		t.Errorf("a reload says %q", said)
	}
	if n := len(holder.runs()); n != 1 {
		t.Errorf("the command ran %d times", n)
	}

	rotate("third") // and the guard has to tell of the end
	write("third")
	if n, err := broker.CloseConnections(t.Context(), " "+c.name+" @"); err != nil || n < 2 {
		t.Fatalf("%d connections closed, %v", n, err)
	}
	kill(t, holder.pid(), syscall.SIGKILL)
	standby.awaitRuns(1)
	if waited := standby.logged("waiting for the handover delay"); len(waited) > 0 {
		t.Errorf("nobody has told it that the last command is dead: %v", waited)
	}
}
