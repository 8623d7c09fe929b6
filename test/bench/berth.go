package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"berth/test/brokertest"
)

// copyBerth copies the binary that is measured into the arena, so that it stays
// what it is while somebody builds the next one.
func (a *arena) copyBerth(from string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("no berth to measure, run make build: %w", err)
	}
	defer in.Close()
	a.berth = filepath.Join(a.dir, "berth")
	out, err := os.OpenFile(a.berth, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return fmt.Errorf("cannot copy %s: %w", from, err)
	}
	return out.Close()
}

// berthOnRabbit starts a private RabbitMQ. Idle waiters reach it through a relay
// that counts; everything else does without.
func (a *arena) berthOnRabbit(ctx context.Context) (*contender, error) {
	broker, err := brokertest.Start(ctx)
	if err != nil {
		return nil, err
	}
	a.atEnd(broker.Stop)
	relay, err := newRelay(broker.Addr())
	if err != nil {
		return nil, err
	}
	a.atEnd(relay.close)
	version, err := a.firstLine(ctx, nil, a.berth, "version")
	if err != nil {
		return nil, err
	}
	c := a.berthOn("berth", broker.URL())
	c.version = strings.TrimPrefix(version, "berth ") + " on " + rabbitVersion(broker.Dir())
	throughRelay := a.berthOn("", "amqp://guest:guest@"+relay.addr()+"/")
	c.traffic = &traffic{
		wrap:  throughRelay.wrap,
		count: func(context.Context) (messages, error) { return relay.count() },
		hold: func(ctx context.Context, lock string) (func(), error) {
			return a.holdWith(ctx, c, lock)
		},
	}
	return c, nil
}

// berthLocal is berth without a broker.
func (a *arena) berthLocal() (*contender, error) {
	dir := filepath.Join(a.dir, "local")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return a.berthOn("berth, local", "local://"+dir), nil
}

func (a *arena) berthOn(name, broker string) *contender {
	run := func(kind string) wrapper {
		return func(lock string, command []string) []string {
			return append([]string{a.berth, "run", "--broker", broker, kind, lock, "--"}, command...)
		}
	}
	return &contender{
		name: name,
		wrap: run("--mutex"),
		four: run("--semaphore"),
		makeFour: func(ctx context.Context, lock string) error {
			cmd := exec.CommandContext(ctx, a.berth, "semaphore", "create", lock, "--slots", "4", "--broker", broker)
			cmd.Env = plainEnvironment()
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("cannot create semaphore %s on %s: %w\n%s", lock, broker, err, out)
			}
			return nil
		},
		killBound: 30 * time.Second,
	}
}

// rabbitVersion finds the version in the log of a broker.
func rabbitVersion(dir string) string {
	logs, _ := filepath.Glob(filepath.Join(dir, "log", "*.log"))
	for _, log := range logs {
		text, _ := os.ReadFile(log)
		if found := regexp.MustCompile(`Starting RabbitMQ (\S+)`).FindSubmatch(text); found != nil {
			return "RabbitMQ " + string(found[1])
		}
	}
	return "RabbitMQ of an unknown version"
}

// holdWith has a lock held by one more wrapper, for as long as a bench can take.
func (a *arena) holdWith(ctx context.Context, c *contender, lock string) (func(), error) {
	holder, err := a.launch(c, lock, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	if _, err := holder.awaitStart(ctx); err != nil {
		holder.close()
		return nil, err
	}
	return holder.close, nil
}
