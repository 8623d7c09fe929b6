package brokertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// programsVariable names the directory with the rabbitmq-server of the version
// that is tested. scripts/brokers.sh makes such directories.
const programsVariable = "BERTH_TEST_BROKER"

// debianPrograms is where Debian's package puts the start scripts. Those in PATH
// are wrappers that insist on the rabbitmq user.
const debianPrograms = "/usr/lib/rabbitmq/bin"

// server returns the program that starts a node.
func server() (string, error) {
	dir, remedy := debianPrograms, "run `make deps`, or as root `apt-get install rabbitmq-server`"
	if chosen := os.Getenv(programsVariable); chosen != "" {
		dir, remedy = chosen, programsVariable+" is "+chosen+"; give it a directory such as scripts/brokers.sh prints"
	}
	path := filepath.Join(dir, "rabbitmq-server")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("rabbitmq-server is not installed (%w): %s", err, remedy)
	}
	return path, nil
}

// Version returns the broker's version, such as 4.0.5.
func (b *Broker) Version() string { return b.version }

// Since reports whether the broker is of this version or a later one: what it
// does then, and did not before.
func (b *Broker) Since(major, minor int) bool {
	var is [2]int
	_, _ = fmt.Sscanf(b.version, "%d.%d", &is[0], &is[1]) // learnVersion has seen to it that this is one
	return is[0] > major || is[0] == major && is[1] >= minor
}

// learnVersion asks the node for its version, once.
func (b *Broker) learnVersion(ctx context.Context) error {
	if b.version != "" {
		return nil
	}
	version, err := b.Eval(ctx, "list_to_binary(rabbit_misc:version())")
	if err != nil {
		return fmt.Errorf("cannot learn the broker's version: %w", err)
	}
	var major, minor int
	if n, err := fmt.Sscanf(version, "%d.%d", &major, &minor); n != 2 {
		return fmt.Errorf("the broker says that its version is %q: %w", version, err)
	}
	b.version = version
	return nil
}
