package compare

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"berth/test/bench/measure"
	"berth/test/brokertest"
)

// wrapper returns the line that runs a command under a lock.
type wrapper func(lock string, command []string) []string

// program is one way to run a command under a lock.
type program struct {
	name        string // as in the tables
	environment []string
	wrap        wrapper

	// four runs commands under a semaphore of four slots, which makeFour makes;
	// both nil where there is no such thing.
	four     wrapper
	makeFour func(ctx context.Context, lock string) error

	// traced is wrap with every step in the log; nil where there is no such log.
	traced wrapper

	// killBound is how long a standby is waited for when the holder's wrapper was
	// killed.
	killBound time.Duration

	// server is what is known of the server; nil where there is none.
	server *server

	// traffic counts what a server and its clients have said to each other; nil
	// where there is no server.
	traffic *traffic
}

// server is a process that clients reach on a port of 127.0.0.1.
type server struct {
	pid, port int

	// channels returns how many channels all connections have together; nil where
	// there is no such thing.
	channels func(ctx context.Context) (int, error)
}

// traffic is how a program's clients are watched.
type traffic struct {
	wrap  wrapper // a run that is counted
	count func(ctx context.Context) (measure.Messages, error)

	// methods waits until nobody is connected, and returns what was counted until
	// then; nil where it is not AMQP that is said.
	methods func(ctx context.Context) (map[measure.Method]int, error)

	// hold has the lock held by somebody that is not counted, until release is
	// called.
	hold func(ctx context.Context, lock string) (release func(), err error)
}

// plainEnvironment is all that wrappers and servers get: a developer's BERTH_ or
// ETCDCTL_ variables must not matter here.
func plainEnvironment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LANG=C.UTF-8"}
}

// copyBerth copies the binary that is measured into the arena, so that it stays
// what it is while somebody builds the next one.
func (a *Arena) copyBerth(from string) error {
	binary, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("no berth to measure, run make build: %w", err)
	}
	a.berth = filepath.Join(a.dir, "berth")
	return os.WriteFile(a.berth, binary, 0o700)
}

// berthOnRabbit starts a private RabbitMQ. A client that is counted reaches it through a
// relay; all others do without.
func (a *Arena) berthOnRabbit(ctx context.Context) (*program, error) {
	broker, err := brokertest.Start(ctx)
	if err != nil {
		return nil, err
	}
	a.atEnd(broker.Stop)
	relay, err := measure.NewRelay(broker.URL())
	if err != nil {
		return nil, err
	}
	a.atEnd(relay.Close)
	version, err := a.firstLine(ctx, nil, a.berth, "version")
	if err != nil {
		return nil, err
	}
	a.versions = append(a.versions, version, "RabbitMQ "+broker.Version())
	p := a.berthOn(onRabbit, broker.URL())
	p.traffic = &traffic{
		wrap:    a.berthOn("", relay.URL()).wrap,
		count:   func(context.Context) (measure.Messages, error) { return relay.Count() },
		methods: relay.Methods,
		hold:    func(ctx context.Context, lock string) (func(), error) { return a.hold(ctx, p, lock) },
	}
	p.server, err = rabbitServer(ctx, broker)
	return p, err
}

func rabbitServer(ctx context.Context, broker *brokertest.Broker) (*server, error) {
	pid, err := broker.PID(ctx)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(broker.Addr())
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	return &server{pid: pid, port: number, channels: broker.Channels}, err
}

// berthLocal is berth without a broker.
func (a *Arena) berthLocal(context.Context) (*program, error) {
	dir := filepath.Join(a.dir, "local")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return a.berthOn(local, "local://"+dir), nil
}

func (a *Arena) berthOn(name, broker string) *program {
	run := func(flags ...string) wrapper {
		return func(lock string, command []string) []string {
			line := append([]string{a.berth, "run", "--broker", broker}, flags...)
			return append(append(line, lock, "--"), command...)
		}
	}
	return &program{
		name:   name,
		wrap:   run("--mutex"),
		traced: run("--log-level", "trace", "--log-format", "json", "--mutex"),
		four:   run("--semaphore"),
		makeFour: func(ctx context.Context, lock string) error {
			_, err := a.firstLine(ctx, nil, a.berth, "semaphore", "create", lock, "--slots", "4", "--broker", broker)
			return err
		},
		killBound: 30 * time.Second,
	}
}

// hold has a lock held by one more wrapper, for as long as a run can take.
func (a *Arena) hold(ctx context.Context, p *program, lock string) (func(), error) {
	holder, err := a.launch(p, p.wrap, lock, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	if _, err := holder.awaitStart(ctx); err != nil {
		holder.close()
		return nil, err
	}
	return holder.close, nil
}

// flock is util-linux's flock(1).
func (a *Arena) flock(ctx context.Context) (*program, error) {
	version, err := a.firstLine(ctx, nil, "flock", "--version")
	if err != nil {
		return nil, err
	}
	a.versions = append(a.versions, version)
	return &program{
		name: flock,
		wrap: func(lock string, command []string) []string {
			return append([]string{"flock", filepath.Join(a.dir, lock+".flock")}, command...)
		},
		// The child has inherited the lock and holds it for as long as it lives.
		killBound: 3 * time.Second,
	}, nil
}

// firstLine runs a program and returns the first line that it prints.
func (a *Arena) firstLine(ctx context.Context, environment []string, name string, arg ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, arg...)
	cmd.Env = append(plainEnvironment(), environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot run %s: %w\n%s(scripts/deps.sh bench installs what is missing)", cmd, err, out)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line, nil
}
