package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	_ "berth/internal/observe/web" // so that go test runs the tests again when it has changed
)

// listener is a berth that says over HTTP how it is.
type listener struct {
	*berth
	url string
}

func listen(t *testing.T, args ...string) listener {
	t.Helper()
	return listenAs(t, setup{}, args...)
}

func listenAs(t *testing.T, as setup, args ...string) listener {
	t.Helper()
	as.env = append(as.env, "BERTH_LISTEN=127.0.0.1:0")
	b := as.start(t, append([]string{"run"}, args...)...)
	return listener{b, "http://" + b.awaitLog("listening").text("on")}
}

// get returns what is answered, 0 if nobody does.
func (l listener) get(path string) (status int, body string) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(l.url + path)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

func (l listener) await(path string, status int, text string) {
	l.t.Helper()
	until(l.t, fmt.Sprintf("%s to answer %d with %q", path, status, text), func() bool {
		got, body := l.get(path)
		return got == status && strings.Contains(body, text)
	})
}

// server returns the number of the process that serves, 0 if there is none.
func (l listener) server() int {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", l.pid()))
	for _, task := range tasks {
		for child := range strings.FieldsSeq(read(task)) {
			pid, _ := strconv.Atoi(child)
			if p, alive := inspect(pid); alive && p.args[0] == "berth-listen" {
				return pid
			}
		}
	}
	return 0
}

func TestListenerSaysHowTheBerthIs(t *testing.T) {
	t.Parallel()
	l := listen(t, "--broker", calmBroker(t).URL(), "--mutex", unique("listen"), "--", "sleep", "1000")
	l.awaitRunning()
	l.await("/readyz", 200, "running")
	l.await("/healthz", 200, "ok")
	l.await("/", 200, "</html>")
	l.await("/metrics", 200, "berth_held{")
	var status struct {
		State, Command     string
		Slot, Pid          int
		Verified, Deadline time.Time
		Arithmetic         struct{ Lease float64 }
	}
	_, body := l.get("/status")
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatal(err)
	}
	if status.State != "running" || status.Slot != 1 || status.Pid != l.pid() || status.Command != "sleep" ||
		status.Arithmetic.Lease != 10 || status.Deadline.Sub(status.Verified).Round(time.Second/10) != 9500*time.Millisecond {
		t.Errorf("it says %s", body)
	}
	if strings.Contains(body, "amqp") || strings.Contains(body, "guest") {
		t.Errorf("it says where the broker is: %s", body)
	}
	server := l.server()
	l.signal(syscall.SIGTERM)
	l.wantStatus(143)
	if _, alive := inspect(server); alive || server == 0 { // systemd would kill it, and log that
		t.Errorf("berth has ended before its server, process %d", server)
	}
	l.wantNothingLeft()
	l.await("/healthz", 0, "refused")
}

func TestListenerOfAStandbySaysWhoHoldsTheLock(t *testing.T) {
	t.Parallel()
	for _, broker := range []string{calmBroker(t).URL(), localURL(t)} {
		args := []string{"--broker", broker, "--mutex", unique("listen"), "--", "sleep", "1000"}
		holder := listen(t, args...)
		holder.awaitRunning()
		standby := listen(t, args...)
		standby.await("/status", 200, `"state": "waiting"`)
		standby.await("/status", 200, fmt.Sprintf(`"pid": %d,`, holder.pid()))
		_, body := standby.get("/status")
		if strings.Contains(body, `"deadline"`) || strings.Contains(body, "amqp") {
			t.Errorf("the standby says %s", body)
		}
		if _, body := holder.get("/status"); strings.Contains(body, `"look"`) {
			t.Errorf("the holder says %s", body)
		}
		holder.signal(syscall.SIGTERM)
		standby.awaitRunning()
		standby.signal(syscall.SIGTERM)
		standby.wantStatus(143)
		standby.wantNothingLeft()
	}
}

func TestListenerSaysWhatAReloadHasChanged(t *testing.T) {
	t.Parallel()
	file, name := filepath.Join(t.TempDir(), "berth.hcl"), unique("listen")
	write := func(loss string) {
		text := fmt.Sprintf("mutex = %q\nbroker = [%q]\nloss = %q\n", name, calmBroker(t).URL(), loss)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("TERM 2s, KILL")
	l := listen(t, "--config", file, "--", "sleep", "1000")
	l.awaitRunning()
	l.await("/status", 200, `"loss": 2,`)
	write("TERM 1s, KILL")
	do(t, 0, "reload", "--config", file)
	l.await("/status", 200, `"loss": 1,`)
}

func TestListenerThatDiesTakesNobodyWithIt(t *testing.T) {
	t.Parallel()
	l := listen(t, "--broker", localURL(t), "--mutex", "m", "--", "sleep", "1000")
	l.awaitRunning()
	l.await("/readyz", 200, "running")
	if err := syscall.Kill(l.server(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.awaitLog("--listen is no longer served")
	l.await("/healthz", 0, "refused")
	l.stays()
	l.signal(syscall.SIGTERM)
	l.wantStatus(143)
}

// What falls to berth when a guard has died is killed; the listener does not.
func TestListenerOutlivesAGuard(t *testing.T) {
	t.Parallel()
	l := listen(t, "--broker", localURL(t), "--mutex", "m", "--restart", "always", "--", "sleep", "1000")
	l.awaitRunning()
	server := l.server()
	if err := syscall.Kill(l.guardPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.awaitLogs(2, "command started")
	l.await("/metrics", 200, `berth_restarts_total{kind="mutex",lock="m"} 1`)
	if now := l.server(); now != server || now == 0 {
		t.Errorf("the listener is process %d, not %d", now, server)
	}
}

func TestListenerEndsWithABerthThatIsKilled(t *testing.T) {
	t.Parallel()
	l := listen(t, "--broker", localURL(t), "--mutex", "m", "--", "sleep", "1000")
	l.awaitRunning()
	l.signal(syscall.SIGKILL)
	l.wantStatus(137)
	l.await("/healthz", 0, "refused")
	l.wantNothingLeft()
}

func TestStoppedBerthIsNotHealthy(t *testing.T) {
	t.Parallel()
	l := listen(t, "--broker", localURL(t), "--mutex", "m", "--", "sleep", "1000")
	l.awaitRunning()
	l.signal(syscall.SIGSTOP)
	l.await("/healthz", 503, "has been silent since")
	l.signal(syscall.SIGCONT)
	l.await("/healthz", 200, "ok")
}

func TestCommandDoesNotGetTheListenersFiles(t *testing.T) {
	t.Parallel()
	l := listen(t, "--broker", localURL(t), "--mutex", "m", "--", "sleep", "1000")
	l.awaitRunning()
	server, command := files(l.server()), files(l.commandPID())
	for number, file := range server {
		if number != "0" && !strings.HasPrefix(file, "socket:") { // what berth tells it, and where it listens
			continue
		}
		for theirs, other := range command {
			if other == file {
				t.Errorf("the command has %s as %s", file, theirs)
			}
		}
	}
	if !strings.HasPrefix(server["0"], "pipe:") {
		t.Errorf("the listener has %v", server)
	}
}

// Sockets of systemd are the command's, and so is what else it is to inherit.
func TestListenerDoesNotGetTheCommandsFiles(t *testing.T) {
	t.Parallel()
	given := filepath.Join(t.TempDir(), "given")
	l := listenAs(t, setup{via: []string{"sh", "-c", `exec 3>"$0" 7>&3; exec "$@"`, given}},
		"--broker", localURL(t), "--mutex", "m", "--", "sleep", "1000")
	l.awaitRunning()
	l.await("/readyz", 200, "running")
	for number, file := range files(l.server()) {
		if file == given {
			t.Errorf("the listener has it as %s", number)
		}
	}
	if command := files(l.commandPID()); command["3"] != given || command["7"] != given {
		t.Errorf("the command has %v", command)
	}
}

// files returns what a process has open, by number.
func files(pid int) map[string]string {
	all := make(map[string]string)
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		all[filepath.Base(link)], _ = os.Readlink(link)
	}
	return all
}

func TestListenerThatCannotBeIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	l := listen(t, "--broker", localURL(t), "--mutex", "m", "--", "sleep", "1000")
	taken := strings.TrimPrefix(l.url, "http://")
	for name, c := range map[string]struct{ address, says string }{
		"taken":      {taken, "address already in use"},
		"no address": {"rabbit:9420", "must begin with an address of this host"},
	} {
		cmd := exec.Command(binary, "run", "--broker", localURL(t), "--mutex", "m", "--", "sleep", "1000")
		cmd.Env = append(ownEnvironment(), "BERTH_LISTEN="+c.address)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 78 || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: status %d, %s", name, cmd.ProcessState.ExitCode(), out)
		}
	}
}

// An image has a copy of the program alone, and an upgrade replaces the one that runs.
func TestListenerNeedsNoFile(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "copy")
	if err := os.Link(binary, program); err != nil {
		t.Fatal(err)
	}
	gone := setup{via: []string{"sh", "-c", `exec 9<"$0"; rm "$0"; shift; exec /proc/self/fd/9 "$@"`, program}}
	l := listenAs(t, gone, "--broker", localURL(t), "--mutex", "m", "--", "sleep", "1000")
	l.await("/readyz", 200, "running")
}

func TestServerIsNotStartedByHand(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(binary)
	cmd.Args = []string{"berth-listen"}
	out, _ := cmd.CombinedOutput()
	status := cmd.ProcessState.ExitCode()
	if status != 1 || !strings.Contains(string(out), "is started by 'berth run --listen', not by hand") {
		t.Errorf("status %d, %s", status, out)
	}
}

// What answers everybody need not be root, nor have what berth has for its command.
func TestServerHasNoRights(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ambient string
		ofFile  []int
		user    string
	}{
		"of root":                        {"", nil, "65534"},
		"of a user with capabilities":    {"+setuid,+kill", nil, strconv.Itoa(aUser)},
		"of a program with capabilities": {"+kill", []int{unix.CAP_SETUID, unix.CAP_KILL}, strconv.Itoa(aUser)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, as := having(t, c.ambient)
			if c.ofFile != nil {
				program := filepath.Join(dir, "berth")
				copyWith(t, binary, program, c.ofFile...)
				as.via = append(as.via, "sh", "-c", `shift; exec "$0" "$@"`, program)
			}
			l := listenAs(t, as, "--broker", "local://"+dir, "--mutex", "m", "--", "sleep", "1000")
			l.awaitLog("command started")
			l.await("/status", 200, "") // it listens before it has given up its rights, and answers after that
			server := l.server()
			for _, line := range lines(fmt.Sprintf("/proc/%d/status", server)) {
				fields := strings.Fields(line)
				switch fields[0] {
				case "Uid:", "Gid:":
					if slices.ContainsFunc(fields[1:], func(id string) bool { return id != c.user }) {
						t.Errorf("the server has %s", line)
					}
				case "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapAmb:":
					if len(fields) > 1 && strings.Trim(fields[1], "0") != "" {
						t.Errorf("the server has %s", line)
					}
				case "NoNewPrivs:":
					if fields[1] != "1" {
						t.Errorf("the server has %s", line)
					}
				}
			}
			if server == 0 {
				t.Fatal("there is no server")
			}
		})
	}
}
