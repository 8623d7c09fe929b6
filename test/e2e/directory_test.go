package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFileSystemThatBerthWasStartedInCanBeUnmounted(t *testing.T) {
	for name, flags := range map[string][]string{"without a namespace": nil, "in a namespace": {inNamespace}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
			if err := os.WriteFile(filepath.Join(dir, "program"), []byte("#!/bin/sh\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			c := onHost.contest(t, "mutex")
			holder := c.run(plain)
			holder.awaitRunning()
			args := append([]string{"run", "--mutex", c.name, "--log-level=debug"}, c.flags...)
			b := setup{cwd: dir}.start(t, append(append(args, flags...), "--", "./program")...)
			b.awaitLog("waiting")
			var err error
			until(t, "the file system to be unmounted", func() bool {
				err = unix.Unmount(dir, 0)
				return err == nil
			}, func() string { return err.Error() })
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			holder.signal(unix.SIGTERM)
			b.wantStatus(127)
			if said := b.stderr(); !strings.Contains(said, dir) {
				t.Errorf("it does not name the directory: %s", said)
			}
		})
	}
}

func TestCommandRunsInTheDirectoryThatBerthWasStartedIn(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"as who started berth": nil,
		"in a namespace":       {inNamespace},
		"as somebody else":     {"--user=65534"}, // who could not go there
	} {
		t.Run(name, func(t *testing.T) {
			closed := t.TempDir()
			if err := os.Chmod(closed, 0o700); err != nil {
				t.Fatal(err)
			}
			dir, link := filepath.Join(closed, "dir"), filepath.Join(closed, "link")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(dir, link); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "program"), []byte("#!/bin/sh\nexec readlink /proc/self/cwd\n"),
				0o755); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"run", "--broker", localURL(t), "--mutex", "m"}, flags...)
			b := setup{cwd: link}.start(t, append(args, "--", "./program")...)
			b.wantStatus(0)
			if want := dir + "\n"; b.stdout() != want {
				t.Errorf("it runs in %q, not %q", b.stdout(), want)
			}
		})
	}
}

func TestDirectoryThatNoPathLeadsToIsKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b := setup{cwd: dir, via: []string{"sh", "-c", `rmdir "$PWD"; exec "$0" "$@"`}}.start(t,
		"run", "--broker", localURL(t), "--mutex", "m", "--", "readlink", "/proc/self/cwd")
	b.wantStatus(0)
	if want := dir + " (deleted)\n"; b.stdout() != want {
		t.Errorf("it runs in %q, not %q", b.stdout(), want)
	}
}
