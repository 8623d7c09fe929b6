package scale

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"berth/test/bench/measure"
)

// snapshot is what both sides have taken at one moment.
type snapshot struct {
	when         time.Time
	here, broker measure.Usage
	logged       int // lines in the broker's log
}

// snap looks at both sides. Before that it has this process give back what it does
// not need.
func (s *scene) snap() (shot snapshot, err error) {
	debug.FreeOSMemory() // collects garbage, too
	shot.when = time.Now()
	if shot.here, err = measure.UsageOf(os.Getpid()); err != nil {
		return shot, err
	}
	if shot.broker, err = measure.UsageOf(s.broker.PID); err != nil {
		return shot, err
	}
	files, err := filepath.Glob(filepath.Join(s.broker.Dir(), "log", "*.log"))
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return shot, fmt.Errorf("cannot read the broker's log: %w", err)
		}
		shot.logged += bytes.Count(text, []byte("\n"))
	}
	return shot, err
}

// idle measures what waiters cost while nothing happens, against the snapshot before
// they came. It returns how often one of them looks by itself, per second.
func (c *crowd) idle(ctx context.Context, what string, before snapshot) (looks float64, err error) {
	c.say("letting everybody settle for %s", c.sizes.Settle)
	if err := measure.Sleep(ctx, c.sizes.Settle); err != nil {
		return 0, err
	}
	n := float64(len(c.members))
	settled, err := c.snap()
	if err != nil {
		return 0, err
	}
	c.add("Memory here of a "+what, "KiB", float64(settled.here.RSS-before.here.RSS)/n/1024)
	c.add("... in the broker", "KiB", float64(settled.broker.RSS-before.broker.RSS)/n/1024)
	c.say("measuring the idle crowd for %s", c.sizes.Idle)
	returned := c.tally.returned.Load()
	from, err := c.snap() // without what the first one cost
	if err == nil {
		err = measure.Sleep(ctx, c.sizes.Idle)
	}
	if err != nil {
		return 0, err
	}
	to, err := c.snap()
	if err != nil {
		return 0, err
	}
	seconds := to.when.Sub(from.when).Seconds()
	c.add("Processor time here of an idle "+what, "us/s", (to.here.CPU-from.here.CPU).Seconds()*1e6/n/seconds)
	c.add("... in the broker", "us/s", (to.broker.CPU-from.broker.CPU).Seconds()*1e6/n/seconds)
	looks = float64(c.tally.returned.Load()-returned) / seconds
	c.add("Looks of its own accord of an idle "+what, "per h", looks*3600/n)
	c.add("Lines in the broker's log for it", "per h", float64(to.logged-from.logged)*3600/n/seconds)
	return looks, c.quiet()
}
