package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// etcd starts a private etcd of one member.
func (a *arena) etcd(ctx context.Context) (*contender, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	client := "http://127.0.0.1:" + strconv.Itoa(ports[0])
	peer := "http://127.0.0.1:" + strconv.Itoa(ports[1])
	server, err := a.server("etcd", "--name", "bench", "--data-dir", a.dir+"/etcd",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "bench="+peer)
	if err != nil {
		return nil, err
	}
	healthy := func(body string) bool { return strings.Contains(body, `"true"`) }
	if err := a.awaitServer(ctx, server, "etcd", client+"/health", healthy); err != nil {
		return nil, err
	}
	environment := []string{"ETCDCTL_API=3", "ETCDCTL_ENDPOINTS=" + client}
	version, err := a.firstLine(ctx, environment, "etcdctl", "version")
	if err != nil {
		return nil, err
	}
	c := &contender{
		name:        "etcdctl lock",
		version:     strings.TrimPrefix(version, "etcdctl version: "),
		environment: environment,
		wrap: func(lock string, command []string) []string {
			return append([]string{"etcdctl", "lock", lock}, command...)
		},
		// Its lease is for 10 s.
		killBound:   40 * time.Second,
		killsAtOnce: true,
	}
	c.traffic = &traffic{
		wrap: c.wrap,
		count: func(ctx context.Context) (messages, error) {
			text, err := get(ctx, client+"/metrics")
			if err != nil {
				return messages{}, err
			}
			return etcdMessages(text)
		},
		hold: func(ctx context.Context, lock string) (func(), error) {
			return func() {}, etcdHold(ctx, environment, lock)
		},
	}
	return c, nil
}

// etcdHold holds a lock without a client. Who waits for a lock waits until there
// is no older key below its name; it need not have a lease.
func etcdHold(ctx context.Context, environment []string, lock string) error {
	cmd := exec.CommandContext(ctx, "etcdctl", "put", lock+"/held", "")
	cmd.Env = append(plainEnvironment(), environment...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot hold lock %s in etcd: %w\n%s", lock, err, out)
	}
	return nil
}

// etcdMessages finds the counters of what clients and server have sent.
func etcdMessages(metrics string) (messages, error) {
	var m messages
	found := false
	err := eachMetric(metrics, func(name, labels string, value float64) {
		keepalive := strings.Contains(labels, `grpc_method="LeaseKeepAlive"`)
		switch {
		case name == "grpc_server_msg_received_total" && keepalive:
			m.keepalives += value
		case name == "grpc_server_msg_received_total":
			m.requests += value
		case name == "grpc_server_msg_sent_total" && keepalive:
			m.keepaliveAnswers += value
		case name == "grpc_server_msg_sent_total":
			m.answers += value
		default:
			return
		}
		found = true
	})
	if err == nil && !found {
		err = fmt.Errorf("etcd has no grpc_server_msg_received_total in its metrics")
	}
	return m, err
}
