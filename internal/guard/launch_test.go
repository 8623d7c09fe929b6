package guard

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"berth/supervisor"
)

// Whoever launches a guard has other things to do.
func TestGuardThatIsSlowToBeginIsNotWaitedFor(t *testing.T) {
	for name, namespace := range map[string]bool{"without a namespace": false, "in a namespace": true} {
		t.Run(name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := unix.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			tr := prepareSpec(t, Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "exit 7"}, Env: []string{stallVar + "=" + fifo}, Namespace: namespace})
			if err := os.WriteFile(fifo, nil, 0); err != nil { // when the guard reads
				t.Fatal(err)
			}
			tr.run()
			if exited := tr.next(supervisor.Exited); exited.Status.ExitStatus() != 7 {
				t.Errorf("the command's end is told as %+v", exited)
			}
			tr.next(supervisor.Dead)
		})
	}
}
