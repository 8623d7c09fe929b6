package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"berth/test/brokertest"
)

// site is the broker that is measured.
type site struct {
	url     string
	prefix  string // of the names of locks
	version string // of the broker, if it is ours
	pid     int    // of its Erlang machine; 0: not known
	ours    *brokertest.Broker
}

// openSite starts a private broker, unless another one was given. The caller
// closes it.
func openSite(ctx context.Context, o options) (*site, error) {
	s := &site{url: o.broker, pid: o.brokerPID, prefix: fmt.Sprintf("scale-%d", os.Getpid())}
	if o.broker != "" {
		return s, nil
	}
	broker, err := brokertest.Start(ctx)
	if err != nil {
		return nil, err
	}
	s.ours, s.url = broker, broker.URL()
	// The node answers clients a moment before all of it has started.
	pid, err := broker.Eval(ctx, "rabbit:await_startup(), list_to_binary(os:getpid())")
	if err == nil {
		s.pid, err = strconv.Atoi(pid)
	}
	if err == nil {
		s.version, err = broker.Eval(ctx, "list_to_binary(rabbit_misc:version())")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot find out about the private broker: %w", err), broker.Stop())
	}
	return s, nil
}

// close ends the broker, if it is ours.
func (s *site) close() error {
	if s.ours == nil {
		return nil
	}
	return s.ours.Stop()
}

// logged returns how long the broker's log is, if it is ours.
func (s *site) logged() (lines, length int, err error) {
	files, err := filepath.Glob(filepath.Join(s.ours.Dir(), "log", "*.log"))
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return 0, 0, fmt.Errorf("cannot read the broker's log: %w", err)
		}
		lines += bytes.Count(text, []byte("\n"))
		length += len(text)
	}
	return lines, length, err
}
