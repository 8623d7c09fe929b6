package runner

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"berth/internal/guard"
)

// A program that only root may execute, beside a unit with a socket and --user.
func TestUserWhoMayNotExecuteBerthIsTold(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(self)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(self, info.Mode())
	spec := guard.Spec{Path: "/bin/true", Numbered: []string{"LISTEN_PID"},
		Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	for mode, atFault := range map[os.FileMode]string{0o700: self, 0o754: self, 0o755: spec.Path} {
		if err := os.Chmod(self, mode); err != nil {
			t.Fatal(err)
		}
		if text := notExecuted(spec, syscall.EACCES).Error(); !strings.Contains(text, `"`+atFault+`"`) {
			t.Errorf("mode %o: %s", mode, text)
		}
	}
}
