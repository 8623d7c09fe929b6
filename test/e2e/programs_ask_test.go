//go:build programs

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// aside runs a program beside berth, in its directory and with its environment, until it ends.
func (b *berth) aside(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = b.dir, b.cmd.Env
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// dialled waits until the program listens on its socket.
func (b *berth) dialled() (conn net.Conn, err error) {
	until(b.t, "its socket", func() bool {
		conn, err = net.Dial("unix", filepath.Join(b.dir, "socket"))
		return err == nil || b.ended()
	})
	return conn, err
}

func overHTTP(b *berth) (string, error) {
	conn, err := b.dialled()
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }, DisableKeepAlives: true,
	}}
	got, err := client.Get("http://program/")
	if err != nil {
		return "", err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	return string(text), err
}

// slowUpstream answers what nginx asks it.
func slowUpstream(t testing.TB, dir string) []string {
	listener, err := net.Listen("unix", filepath.Join(dir, "upstream"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "upstream"), 0o666); err != nil { // for nginx' workers
		t.Fatal(err)
	}
	for up := dir; up != os.TempDir(); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		out, _ := exec.Command("/usr/bin/python3", "-c", "import sys; sys.path.insert(0, sys.argv[1]); import os, work; "+
			"os.chdir(sys.argv[1]); work.work()", dir).CombinedOutput()
		fmt.Fprintf(w, "done%s", out)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return nil
}

// overFastCGI asks for work.php (https://fastcgi-archives.github.io/FastCGI_Specification.html).
func overFastCGI(b *berth) (string, error) {
	conn, err := b.dialled()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	record := func(kind byte, content []byte) []byte {
		return append([]byte{1, kind, 0, 1, byte(len(content) >> 8), byte(len(content)), 0, 0}, content...)
	}
	var params []byte
	for name, value := range map[string]string{
		"SCRIPT_FILENAME": filepath.Join(b.dir, "work.php"), "REQUEST_METHOD": "GET",
	} {
		params = append(append(append(params, byte(len(name)), byte(len(value))), name...), value...)
	}
	request := bytes.Join([][]byte{
		record(1, []byte{0, 1, 0, 0, 0, 0, 0, 0}), record(4, params), record(4, nil), record(5, nil),
	}, nil)
	if _, err := conn.Write(request); err != nil {
		return "", err
	}
	var said []byte
	for {
		var head [8]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return "", err
		}
		content := make([]byte, int(head[4])<<8+int(head[5])+int(head[6]))
		if _, err := io.ReadFull(conn, content); err != nil {
			return "", err
		}
		if head[1] == 3 { // the end of the request
			_, body, _ := strings.Cut(string(said), "\r\n\r\n")
			return body, nil
		}
		said = append(said, content[:len(content)-int(head[6])]...)
	}
}

// postgresData makes a data directory for the user as which the server runs.
func postgresData(t testing.TB, _ string) []string {
	t.Helper()
	all := found("/usr/lib/postgresql", "*/bin/initdb")
	if len(all) == 0 {
		t.Fatal("PostgreSQL is not installed; run: make programs, or install postgresql")
	}
	dir, err := os.MkdirTemp("", "berth-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	made := exec.Command(all[0], "--pgdata", filepath.Join(dir, "data"), "--username", "berth", "--auth", "trust", "--no-sync")
	env := []string{"PG=" + filepath.Dir(all[0]), "PGHOST=" + dir, "PGUSER=berth", "PGDATABASE=postgres"}
	if os.Getuid() == 0 { // as which the server refuses to run
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		made.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		env = append(env, "BERTH_USER=65534", "BERTH_DIRECTORY="+dir)
	}
	made.Dir = dir
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	return env
}

// overSQL is a session that ends when its statement has.
func overSQL(b *berth) (answer string, err error) {
	until(b.t, "the server", func() bool {
		_, err = b.aside("psql", "--no-psqlrc", "--command", "SELECT 1")
		return err == nil || b.ended()
	})
	if err != nil {
		return "", err
	}
	answer, err = b.aside("psql", "--no-psqlrc", "--tuples-only", "--no-align", "--quiet",
		"--command", `\! : >begun`, "--command", "SELECT 'done' FROM pg_sleep(1.5)")
	if err == nil {
		create(b.t, filepath.Join(b.dir, "done")).Close()
	}
	return answer, err
}
