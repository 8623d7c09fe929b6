package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"berth/test/process"
)

// endTimeout is longer than the stop sequence and giving the slot back.
const endTimeout = 40 * time.Second

// host runs one program, and runs it again when it ends, as systemd does with
// Restart=always. It reaches the broker by a network of its own.
type host struct {
	name    string
	network *network
	command func() *exec.Cmd
	log     string // file

	stop context.CancelFunc
	done chan error // gets what has ended it

	mu  sync.Mutex // guards now
	now *process.Process
}

// newHost starts the program. The caller calls end.
func newHost(name, dir string, n *network, command func(n *network, name string) *exec.Cmd) *host {
	ctx, stop := context.WithCancel(context.Background())
	h := &host{
		name: name, network: n, command: func() *exec.Cmd { return command(n, name) },
		log: filepath.Join(dir, name+".log"), stop: stop, done: make(chan error, 1),
	}
	go func() { h.done <- h.run(ctx) }()
	return h
}

func (h *host) run(ctx context.Context) error {
	for {
		p, err := h.start()
		if err != nil {
			return err
		}
		select {
		case <-p.Done():
		case <-ctx.Done():
			_ = p.Signal(syscall.SIGTERM) // it may just have ended
			p.End(endTimeout)
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}

func (h *host) start() (*process.Process, error) {
	log, err := os.OpenFile(h.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := h.command()
	cmd.Stdout, cmd.Stderr = log, log
	p, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = p
	return p, nil
}

// signal sends a signal to the program, and to nothing that it has started.
func (h *host) signal(sig syscall.Signal) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now == nil {
		return errors.New("host " + h.name + " runs nothing")
	}
	return h.now.Signal(sig)
}

// end ends the program cleanly, and its network after it.
func (h *host) end() error {
	h.stop()
	return errors.Join(<-h.done, h.network.Close())
}

// tail returns the end of what the program has said.
func (h *host) tail() string {
	text, _ := os.ReadFile(h.log)
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Sprintf("host %s:\n%s", h.name, strings.Join(all[max(0, len(all)-15):], "\n"))
}
