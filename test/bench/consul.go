package main

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// consul starts a private Consul of one server. It takes part only where there is
// a consul in PATH: Debian has had none since 12.
func (a *arena) consul(ctx context.Context) (*contender, error) {
	ports, err := freePorts(4)
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(ports[0])
	server, err := a.server("consul", "agent", "-server", "-bootstrap-expect=1", "-node=bench",
		"-bind=127.0.0.1", "-client=127.0.0.1", "-data-dir="+filepath.Join(a.dir, "consul"),
		"-http-port="+strconv.Itoa(ports[0]), "-server-port="+strconv.Itoa(ports[1]),
		"-serf-lan-port="+strconv.Itoa(ports[2]), "-serf-wan-port="+strconv.Itoa(ports[3]),
		"-dns-port=-1", "-grpc-port=-1",
		// Twelve clients at once are no reason to refuse any, nor is their number.
		"-hcl", `telemetry { prometheus_retention_time = "1h" } limits { http_max_conns_per_client = 1000 }`)
	if err != nil {
		return nil, err
	}
	leads := func(body string) bool { return strings.Contains(body, ":") }
	if err := a.awaitServer(ctx, server, "consul", "http://"+address+"/v1/status/leader", leads); err != nil {
		return nil, err
	}
	// Sessions belong to the node, which has to have registered itself.
	registered := func(body string) bool { return strings.Contains(body, "serfHealth") }
	if err := a.awaitServer(ctx, server, "consul", "http://"+address+"/v1/health/node/bench", registered); err != nil {
		return nil, err
	}
	environment := []string{"CONSUL_HTTP_ADDR=" + address}
	version, err := a.firstLine(ctx, environment, "consul", "version")
	if err != nil {
		return nil, err
	}
	c := &contender{
		name:        "consul lock",
		version:     strings.TrimPrefix(version, "Consul v"),
		environment: environment,
		wrap: func(lock string, command []string) []string {
			return append([]string{"consul", "lock", "-shell=false", lock}, command...)
		},
		four: func(lock string, command []string) []string {
			return append([]string{"consul", "lock", "-shell=false", "-n=4", lock}, command...)
		},
		makeFour: func(context.Context, string) error { return nil }, // who comes first says how many
		// A session's TTL of 15 s is doubled, and then there is the lock delay.
		killBound:   90 * time.Second,
		killsAtOnce: true,
	}
	c.traffic = &traffic{
		wrap: c.wrap,
		count: func(ctx context.Context) (messages, error) {
			text, err := get(ctx, "http://"+address+"/v1/agent/metrics?format=prometheus")
			if err != nil {
				return messages{}, err
			}
			return consulMessages(text)
		},
		hold: func(ctx context.Context, lock string) (func(), error) {
			return a.holdWith(ctx, c, lock) // its renewals are counted, one in 21
		},
	}
	return c, nil
}

// consulMessages finds the counters of requests on HTTP. Each has one answer, and
// is counted when it has it. They are consul_http_PUT_v1_session_renew___count up
// to 1.8, consul_api_http_count{path="v1_session_renew__"} since 1.12, and in
// between both.
func consulMessages(metrics string) (messages, error) {
	var before, since messages
	err := eachMetric(metrics, func(name, labels string, value float64) {
		m, path := &before, name
		if name == "consul_api_http_count" {
			m, path = &since, labels
		} else if !strings.HasPrefix(name, "consul_http_") || !strings.HasSuffix(name, "_count") {
			return
		}
		switch {
		case strings.Contains(path, "v1_agent_metrics"): // we ourselves
		case strings.Contains(path, "v1_session_renew"):
			m.keepalives += value
			m.keepaliveAnswers += value
		default:
			m.requests += value
			m.answers += value
		}
	})
	if err != nil {
		return messages{}, err
	}
	for _, m := range []messages{since, before} {
		if m.requests > 0 {
			return m, nil
		}
	}
	return messages{}, errors.New("consul counts no requests on HTTP in its metrics; this version must name them differently")
}
