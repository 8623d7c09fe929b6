package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// openFile returns a file of that mode in a directory that every user may pass.
func openFile(t *testing.T, mode os.FileMode, text string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "berth-open")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "secret")
	for _, err := range []error{os.Chmod(dir, 0o755), os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestPasswordsThatOthersMayReadAreWarnedOf(t *testing.T) {
	const url = "amqp://u:s3cr3t@localhost"
	shown, clear := "in the list of processes", "without TLS"
	closed := openFile(t, 0o644, "s3cr3t")
	if err := os.Chmod(filepath.Dir(closed), 0o750); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"a flag":                    {[]string{"--broker", url}, []string{shown}},
		"a flag without a password": {[]string{"--broker", "amqp://u@rabbit"}, nil},
		"a known password":          {[]string{"--broker", "amqp://guest:guest@rabbit"}, nil},
		"a variable":                {[]string{"BERTH_BROKER=" + url}, nil},
		"no TLS":                    {[]string{"BERTH_BROKER=amqp://u:s3cr3t@rabbit amqp://u:s3cr3t@two"}, []string{clear}},
		"TLS":                       {[]string{"BERTH_BROKER=amqps://u:s3cr3t@rabbit"}, nil},
		"this host":                 {[]string{"BERTH_BROKER=amqp://u:s3cr3t@127.0.0.1 amqp://u:s3cr3t@[::1]"}, nil},
		"both":                      {[]string{"--broker", "amqp://u:s3cr3t@rabbit"}, []string{shown, clear}},
		"a password for all": {[]string{"BERTH_BROKER=amqp://u@localhost", "--password-file", openFile(t, 0o644, "s3cr3t")},
			[]string{"chmod o-rwx"}},
		"a password that all may write": {[]string{"BERTH_BROKER=amqp://u@localhost", "--password-file",
			openFile(t, 0o602, "s3cr3t")}, []string{"chmod o-rwx"}},
		"a password for a group": {[]string{"BERTH_BROKER=amqp://u@localhost", "--password-file",
			openFile(t, 0o640, "s3cr3t")}, nil},
		"a password in a directory for few": {[]string{"BERTH_BROKER=amqp://u@localhost", "--password-file", closed}, nil},
		"URLs for all":                      {[]string{"--broker-file", openFile(t, 0o644, url)}, []string{"chmod o-rwx"}},
		"a file for all": {[]string{"--config", openFile(t, 0o644, "broker = [\""+url+"\"]")},
			[]string{"chmod o-rwx"}},
		"a file for all that is not heard": {[]string{"--config", openFile(t, 0o644, "broker = [\""+url+"\"]"),
			"BERTH_BROKER=" + url}, nil},
	} {
		run, err := Load(input(append(c.args, "--mutex", "m", "--", "x")...))
		if err != nil || len(run.Warnings) != len(c.says) {
			t.Errorf("%s: warnings %q, error %v", name, run.Warnings, err)
			continue
		}
		for i, warning := range run.Warnings {
			if !strings.Contains(warning, c.says[i]) || strings.Contains(warning, "s3cr3t") {
				t.Errorf("%s: %q does not say %q", name, warning, c.says[i])
			}
		}
	}
}
