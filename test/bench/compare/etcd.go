package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"berth/test/bench/measure"
	"berth/test/brokertest"
	"berth/test/process"
)

// etcd starts a private etcd of one member.
func (a *Arena) etcd(ctx context.Context) (*program, error) {
	ports, err := brokertest.FreePorts(2)
	if err != nil {
		return nil, err
	}
	client := "http://127.0.0.1:" + strconv.Itoa(ports[0])
	pid, err := a.startEtcd(ctx, client, "http://127.0.0.1:"+strconv.Itoa(ports[1]))
	if err != nil {
		return nil, err
	}
	environment := []string{"ETCDCTL_API=3", "ETCDCTL_ENDPOINTS=" + client}
	version, err := a.firstLine(ctx, environment, "etcdctl", "version")
	if err != nil {
		return nil, err
	}
	a.versions = append(a.versions, version)
	p := &program{
		name:        etcdctl,
		environment: environment,
		wrap: func(lock string, command []string) []string {
			return append([]string{"etcdctl", "lock", lock}, command...)
		},
		// Its lease is for 10 s.
		killBound: 40 * time.Second,
		server:    &server{pid: pid, port: ports[0]},
	}
	p.traffic = &traffic{
		wrap: p.wrap,
		count: func(ctx context.Context) (measure.Messages, error) {
			text, err := get(ctx, client+"/metrics")
			if err != nil {
				return measure.Messages{}, err
			}
			return etcdMessages(text)
		},
		hold: func(ctx context.Context, lock string) (func(), error) {
			// Without a client: a contender waits until there is no older key below
			// the lock's name, and that one need not have a lease.
			_, err := a.firstLine(ctx, environment, "etcdctl", "put", lock+"/held", "")
			return func() {}, err
		},
	}
	return p, nil
}

// startEtcd starts the server, waits until it answers, and returns its process ID.
func (a *Arena) startEtcd(ctx context.Context, client, peer string) (int, error) {
	path, err := exec.LookPath("etcd")
	if err != nil {
		return 0, fmt.Errorf("etcd is not installed (%w): scripts/deps.sh bench installs it on Debian", err)
	}
	log, err := os.Create(filepath.Join(a.dir, "etcd.log"))
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd := exec.Command(path, "--name", "bench", "--data-dir", filepath.Join(a.dir, "etcd"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "bench="+peer)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = plainEnvironment(), a.dir, log, log
	server, err := process.Start(cmd)
	if err != nil {
		return 0, err
	}
	a.atEnd(func() error {
		server.End(0)
		return nil
	})
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		body, err := get(ctx, client+"/health")
		if err == nil && strings.Contains(body, `"true"`) {
			return server.PID(), nil
		}
		select {
		case <-server.Done():
			return 0, fmt.Errorf("etcd has ended; the end of its log:\n%s", tail(log.Name()))
		default:
		}
		if measure.Sleep(ctx, 50*time.Millisecond) != nil {
			return 0, fmt.Errorf("etcd is not ready: %w; the end of its log:\n%s", ctx.Err(), tail(log.Name()))
		}
	}
}

// get returns what a server answers on HTTP, within 10 s.
func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err // whatever the status: a body without what is looked for says as much
}

// counter is a line of etcd's metrics that counts messages, in Prometheus' format.
var counter = regexp.MustCompile(`(?m)^grpc_server_msg_(received|sent)_total(\S*) (.*)$`)

// etcdMessages finds the counters of what clients and server have sent.
func etcdMessages(metrics string) (measure.Messages, error) {
	var m measure.Messages
	lines := counter.FindAllStringSubmatch(metrics, -1)
	if len(lines) == 0 {
		return m, errors.New("etcd has no grpc_server_msg_received_total in its metrics")
	}
	for _, line := range lines {
		value, err := strconv.ParseFloat(line[3], 64)
		if err != nil {
			return m, fmt.Errorf("cannot read metric %q of etcd: %w", line[0], err)
		}
		keepalive := strings.Contains(line[2], `grpc_method="LeaseKeepAlive"`)
		switch received := line[1] == "received"; {
		case received && keepalive:
			m.Keepalives += value
		case received:
			m.Requests += value
		case !keepalive:
			m.Answers += value
		}
	}
	return m, nil
}
