package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// as returns what becomes a berth of that user.
func as(user int) []string {
	name := strconv.Itoa(user)
	return []string{"setpriv", "--reuid=" + name, "--regid=" + name, "--clear-groups", "--"}
}

// ownDir returns a directory of that user, which lets no other pass.
func ownDir(t *testing.T, user int) string {
	t.Helper()
	dir := t.TempDir()
	for _, opened := range []string{filepath.Dir(dir), filepath.Dir(binary)} {
		if err := os.Chmod(opened, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, user, user); err != nil {
		t.Fatal(err)
	}
	return dir
}

// spy is a command that tries to look into processes ($1 and on), and says into which it can. It can look into itself.
const spy = `
for pid in "$@"; do
	for file in environ mem maps auxv fd/0; do
		(: <"/proc/$pid/$file") 2>/dev/null && echo "$pid/$file" >>"$E2E_DIR/seen"
	done
done
(: <"/proc/$$/environ") && (: <"/proc/$$/fd/0") && echo >>"$E2E_DIR/runs"
exec sleep 1000`

// A password is kept from a command of the same user, and from that of another lock.
func TestCommandCannotLookIntoABerthOfItsUser(t *testing.T) {
	t.Parallel()
	dir := ownDir(t, aUser)
	first := setup{dir: dir, via: as(aUser)}.start(t,
		"run", "--broker", "local://"+dir, "--mutex", "first", "--", "sh", "-c", spy)
	first.awaitRuns(1)
	others := []string{strconv.Itoa(first.pid()), strconv.Itoa(first.guardPID())}
	second := setup{dir: ownDir(t, aUser), via: as(aUser)}.start(t, append([]string{"run", "--broker", "local://" + dir,
		"--mutex", "second", "--", "sh", "-c", `set -- "$@" $PPID "${BERTH_HOLDER##*:}"; ` + spy, "sh"}, others...)...)
	second.awaitRuns(1)
	if seen := read(filepath.Join(second.dir, "seen")); seen != "" {
		t.Errorf("the command can read of berths:\n%s", seen)
	}
	// Debuggers work on the command as on any other process.
	third := setup{dir: ownDir(t, aUser), via: as(aUser)}.start(t, "run", "--broker", "local://"+dir, "--mutex", "third",
		"--", "sh", "-c", spy, "sh", strconv.Itoa(first.commandPID()))
	third.awaitRuns(1)
	if seen := lines(filepath.Join(third.dir, "seen")); len(seen) != 5 {
		t.Errorf("of a command its user can read %q", seen)
	}
}

// As with User=berth-%i in berth@.service, and files of mode 0600.
func TestCommandOfAnotherUserReachesNeitherFileNorBerth(t *testing.T) {
	t.Parallel()
	dir := ownDir(t, aUser)
	file := filepath.Join(dir, "berth.hcl")
	text := fmt.Sprintf("broker = %q\nmutex = \"m\"\ncommand = [\"sh\", \"-c\", %q]\n", "local://"+dir, plain)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, aUser, aUser); err != nil {
		t.Fatal(err)
	}
	b := setup{dir: dir, via: as(aUser)}.start(t, "run", "--config", file)
	b.awaitRuns(1)
	pids := fmt.Sprint(b.pid(), " ", b.guardPID(), " ", b.commandPID())
	own := ownDir(t, aUser+1)
	other := setup{dir: own, via: as(aUser + 1)}.start(t, "run", "--broker", "local://"+own, "--mutex", "m", "--",
		"sh", "-c", `cat "$1" && echo file >>"$E2E_DIR/seen"; for pid in $2; do kill -TERM $pid && echo $pid >>"$E2E_DIR/seen"
			done; echo >>"$E2E_DIR/runs"; exec sleep 1000`, "sh", file, pids)
	other.awaitRuns(1)
	if seen := read(filepath.Join(own, "seen")); seen != "" {
		t.Errorf("the other user's command reaches:\n%s", seen)
	}
	b.stays()
	b.signal(syscall.SIGTERM)
	b.wantStatus(143)
}
