package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"berth/prover/adapter"
	"berth/prover/campaign"
	"berth/test/brokertest"
)

// startBroker starts a broker if one is wanted, which the caller stops, and puts into cfg where it is.
func startBroker(c *cli.Context, cfg *campaign.Config) error {
	wanted := c.String("broker")
	kind, version, _ := strings.Cut(wanted, ":")
	switch {
	case wanted == "none":
		return nil
	case kind != "start":
		return useServers(cfg, wanted)
	case version != "":
		dir, err := filepath.Abs(filepath.Join("dist/brokers", version, "bin"))
		if err == nil {
			_, err = os.Stat(filepath.Join(dir, "rabbitmq-server"))
		}
		if err != nil {
			return fmt.Errorf("there is no RabbitMQ %s: %w. In a checkout of berth scripts/brokers.sh %s installs it; "+
				"--broker start takes that of the system", version, err, version)
		}
		os.Setenv("BERTH_TEST_BROKER", dir)
	}
	cluster, err := brokertest.StartCluster(c.Context, c.Int("nodes"))
	if err != nil {
		return err
	}
	cfg.Cluster = cluster
	var urls []string
	for _, node := range cluster.Nodes {
		urls = append(urls, node.URL())
	}
	return useServers(cfg, urls...)
}

// useServers puts the URLs of a broker's nodes into cfg. Only connections without TLS go through relays: those with it are
// to a name.
func useServers(cfg *campaign.Config, urls ...string) error {
	cfg.Values[adapter.Broker] = strings.Join(urls, ",")
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			return errors.New("--broker must be start, start:VERSION, a URL such as http://127.0.0.1:2379, or none")
		}
		if u.Port() == "" && u.Scheme == "amqp" {
			u.Host = net.JoinHostPort(u.Hostname(), "5672")
		}
		if u.Port() != "" && !slices.Contains([]string{"amqps", "https", "rediss"}, u.Scheme) {
			cfg.Servers = append(cfg.Servers, u)
		}
	}
	return nil
}

// setUp makes the lock.
func setUp(c *cli.Context, values adapter.Values) error {
	line := c.String("setup")
	if line == "" {
		return nil
	}
	words, err := adapter.Parse(line, adapter.Lock, adapter.Broker, adapter.Slots)
	if err != nil {
		return err
	}
	return perform(c.Context, fmt.Sprintf("setup %q", line), words.With(values))
}
