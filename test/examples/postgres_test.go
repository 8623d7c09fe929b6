package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startPostgres starts a server that listens on a socket in its directory alone.
func startPostgres(t *testing.T, p *place) {
	t.Helper()
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(all) == 0 {
		t.Fatal("PostgreSQL is not installed; run: make deps, or install postgresql")
	}
	dir, err := os.MkdirTemp("", "berth-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	attributes := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // as which the server refuses to run
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		attributes.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	data := filepath.Join(dir, "data")
	made := exec.Command(all[0], "--pgdata", data, "--username", "berth", "--auth", "trust", "--no-sync")
	made.Dir, made.SysProcAttr = dir, attributes
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	server := exec.Command(filepath.Join(filepath.Dir(all[0]), "postgres"), "-D", data, "-k", dir,
		"-c", "listen_addresses=", "-c", "fsync=off")
	server.Dir, server.SysProcAttr = dir, attributes
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT)
		_ = server.Wait()
	})
	p.env = append(p.env, "PGHOST="+dir, "PGUSER=berth", "PGDATABASE=postgres")
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		out, err := p.sh("psql --command 'SELECT 1'").CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the server does not answer: %s", out)
		}
	}
}

func (p *place) psql(text string) string {
	p.t.Helper()
	cmd := p.sh("psql --quiet --tuples-only --no-align --set ON_ERROR_STOP=1")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %v: %s", text, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestDatabaseRefusesALowerTerm(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "")
	startPostgres(t, p)
	p.psql(recipe(t, "sql fence") + "\nCREATE TABLE report (at timestamptz);")
	p.program("report", "set -e\n"+recipe(t, "sh fenced")+"\necho $BERTH_TERM >>terms")
	for range 2 {
		if out, err := p.sh("berth run --mutex importer -- ./report").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	terms := strings.Fields(p.read("terms"))
	late := p.sh("./report")
	late.Env = append(late.Env, "BERTH_NAME=importer", "BERTH_TERM="+terms[0])
	if out, err := late.CombinedOutput(); err == nil || !strings.Contains(string(out), "is over") {
		t.Errorf("with the term %s after %s: %v: %s", terms[0], terms[1], err, out)
	}
	last, _ := strconv.Atoi(terms[1])
	again := p.sh("./report")
	again.Env = append(again.Env, "BERTH_NAME=importer", "BERTH_TERM="+strconv.Itoa(last))
	if out, err := again.CombinedOutput(); err != nil {
		t.Errorf("with the present term: %v: %s", err, out)
	}
	if n := p.psql("SELECT count(*) FROM report"); n != "3" {
		t.Errorf("%s reports were written", n)
	}
}
