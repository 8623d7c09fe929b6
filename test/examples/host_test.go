package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestProducerRunsOnOneHostAtATime(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "")
	p.program("systemctl", `echo "$@" >>systemctl.log`)
	p.program("producer", "echo producing; exec sleep 1000")
	p.run(block(t, "producer"))
	if log, _ := os.ReadFile(p.path("systemctl.log")); string(log) != "enable --now producer\nstatus producer\n" {
		t.Errorf("systemctl was called with %q", log)
	}
	text, err := os.ReadFile(p.path("etc/systemd/system/producer.service"))
	if err != nil {
		t.Fatal(err)
	}
	unit := strings.NewReplacer("/usr/bin/berth", built.berth, "/usr/bin/producer", p.path("bin/producer"),
		"%d", p.path("etc/producer")).Replace(string(text))
	p.verify(unit)
	setting := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `=(.+)$`).FindStringSubmatch(unit)
		if found == nil {
			t.Fatalf("the unit has no %s", name)
		}
		return found[1]
	}
	p.env = append(environment(), setting("Environment"))
	p.run(setting("ExecStartPre"))
	p.await("the status of a holder", p.notified(setting("ExecStart"), "holding producer"))
	p.await("the status of a standby", p.notified(setting("ExecStart"), "waiting for producer"))
}

// verify has systemd look at a unit, where there is one.
func (p *place) verify(unit string) {
	p.t.Helper()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		p.t.Log("systemd-analyze is not there")
		return
	}
	file := p.path("producer.service")
	if err := os.WriteFile(file, []byte(unit), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if out, err := exec.Command(program, "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		p.t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
}

// notified starts a service, and returns what reports whether it has told systemd a status.
func (p *place) notified(line, status string) func() bool {
	p.t.Helper()
	path := p.path(strings.ReplaceAll(status, " ", "-"))
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	p.start(line, "NOTIFY_SOCKET="+path)
	said := ""
	return func() bool {
		data := make([]byte, 4096)
		_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		n, _ := conn.Read(data)
		said += string(data[:n])
		return strings.Contains(said, "STATUS="+status) && strings.Contains(said, "READY=1")
	}
}

func TestEachShardHasOneWorker(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "")
	p.env = append(p.env, "PAUSE=0.01")
	p.run(block(t, "workers-create"))
	var workers []running
	for range 4 {
		workers = append(workers, p.start(block(t, "workers")))
	}
	inbox := func(from, to int) {
		for n := from; n <= to; n++ {
			if err := os.WriteFile(p.path(fmt.Sprintf("srv/inbox/%d", n)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p.await("the work", func() bool {
			done, _ := os.ReadDir(p.path("srv/done"))
			return len(done) == to
		})
	}
	inbox(1, 12)
	gone := p.awaitSaid("shard 1 does", workers...)
	if err := gone.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	inbox(13, 24)
	done, all := map[string]int{}, 0
	for _, w := range workers {
		for _, found := range regexp.MustCompile(`(?m)^shard (\d) does (\d+)$`).FindAllStringSubmatch(w.said(), -1) {
			done[found[1]+" "+found[2]]++
			all++
		}
	}
	for n := 1; n <= 24; n++ {
		if key := fmt.Sprintf("%d %d", n%3, n); done[key] == 0 {
			t.Errorf("work %d was not done in its shard; all: %v", n, done)
		}
	}
	if all > 24+1 { // what was under way at the kill is begun again
		t.Errorf("24 pieces of work and a kill were %d; all: %v", all, done)
	}
}

func TestCronMailsOfOneHostAlone(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "")
	p.run(block(t, "cron"))
	text, err := os.ReadFile(p.path("etc/cron.d/nightly-report"))
	if err != nil {
		t.Fatal(err)
	}
	job := regexp.MustCompile(`(?m)^[\d*/,-]+( [\d*/,-]+){4} root ([^%\n]+)$`).FindSubmatch(text)
	file := regexp.MustCompile(`(?m)^BERTH_BROKER_FILE=(\S+)$`).FindSubmatch(text)
	if job == nil || file == nil {
		t.Fatalf("this is no crontab, or one without a broker: %s", text)
	}
	p.env = append(environment(), "PATH="+p.path("bin")+":"+p.path("usr/local/bin")+":"+binaries()+":/usr/bin:/bin",
		"BERTH_BROKER_FILE="+p.path(string(file[1])), "KEEP=0")
	p.program("make-report", "echo begun >>runs; while [ ! -e go ]; do sleep 0.01; done; echo the report; exit 3")
	cron := func() *exec.Cmd {
		cmd := exec.Command("sh", "-c", string(job[2]))
		cmd.Dir, cmd.Env = p.dir, p.env
		return cmd
	}
	first := p.launch(cron().Args)
	p.await("the report's beginning", func() bool {
		_, err := os.Stat(p.path("runs"))
		return err == nil
	})
	if out, err := cron().CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("another host: %v: %s", err, out)
	}
	if err := os.WriteFile(p.path("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-first.Done()
	if first.State().ExitCode() != 3 || first.said() != "the report\n" {
		t.Errorf("a report that fails ends with %d and says %q", first.State().ExitCode(), first.said())
	}
	p.env = append(p.env, "BERTH_BROKER_FILE=", "BERTH_BROKER=amqp://127.0.0.1:1")
	var ended *exec.ExitError
	if out, err := cron().CombinedOutput(); !errors.As(err, &ended) || ended.ExitCode() != 69 || len(out) == 0 {
		t.Errorf("without a broker: %v: %s", err, out)
	}
	if runs, _ := os.ReadFile(p.path("runs")); string(runs) != "begun\n" {
		t.Errorf("it ran %d times", strings.Count(string(runs), "\n"))
	}
}
