package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// arena is where everything happens: a temporary directory, the contenders and
// their servers.
type arena struct {
	dir        string
	stamp      string // the command under test
	berth      string // the copy that is measured
	contenders []*contender

	files atomic.Int64
	ends  []func() error
}

// newArena starts every server. The caller calls close.
func newArena(ctx context.Context, berth string) (*arena, error) {
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory: %w", err)
	}
	a := &arena{dir: dir}
	if err := a.open(ctx, berth); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *arena) open(ctx context.Context, berth string) error {
	var err error
	if a.stamp, err = buildStamp(ctx, a.dir); err != nil {
		return err
	}
	if err := a.copyBerth(berth); err != nil {
		return err
	}
	open := []func(context.Context) (*contender, error){
		a.berthOnRabbit,
		func(context.Context) (*contender, error) { return a.berthLocal() },
		a.etcd,
	}
	if _, err := exec.LookPath("consul"); err == nil {
		open = append(open, a.consul)
	}
	open = append(open, a.flock)
	for _, one := range open {
		c, err := one(ctx)
		if err != nil {
			return err
		}
		c.log, err = os.OpenFile(filepath.Join(a.dir, fmt.Sprintf("wrapper-%d.log", len(a.contenders))),
			os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		a.atEnd(c.log.Close)
		a.contenders = append(a.contenders, c)
	}
	return nil
}

// atEnd has something done by close, before what was there earlier.
func (a *arena) atEnd(f func() error) { a.ends = append(a.ends, f) }

// close ends every process that is left and every server, and removes the
// directory.
func (a *arena) close() error {
	sweep(a.dir)
	var errs []error
	for _, end := range slices.Backward(a.ends) {
		errs = append(errs, end())
	}
	return errors.Join(append(errs, os.RemoveAll(a.dir))...)
}

// file returns the path of a file that is not there yet.
func (a *arena) file() string {
	return filepath.Join(a.dir, "stamps-"+strconv.FormatInt(a.files.Add(1), 10))
}

// server starts a server that logs to a file NAME.log, until the arena is closed.
func (a *arena) server(name string, arg ...string) (*process, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%s is not installed (%w): scripts/deps.sh bench installs it on Debian", name, err)
	}
	log, err := os.Create(a.serverLog(name))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, arg...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = plainEnvironment(), a.dir, log, log
	p, err := spawn(cmd)
	if err != nil {
		return nil, err
	}
	a.atEnd(func() error {
		p.end()
		return nil
	})
	return p, nil
}

func (a *arena) serverLog(name string) string { return filepath.Join(a.dir, name+".log") }

// firstLine runs a program and returns the first line that it prints.
func (a *arena) firstLine(ctx context.Context, environment []string, name string, arg ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, arg...)
	cmd.Env = append(plainEnvironment(), environment...)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot run %s (scripts/deps.sh bench installs what is missing, on Debian): %w", cmd, err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line, nil
}

// tail returns the last lines of a file.
func tail(path string) string {
	const most = 20
	text, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// freePorts returns n ports of 127.0.0.1 that nobody listens on, below the range
// from which the kernel serves outgoing connections.
func freePorts(n int) ([]int, error) {
	const low, high = 12000, 32000
	var ports []int
	for range 1000 {
		port := low + rand.IntN(high-low)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer l.Close() // held until all are found, so that they differ
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports from %d to %d on 127.0.0.1; end what listens there", n, low, high)
}
