package supervisor

import (
	"context"
	"time"

	"berth/internal/boottime"
)

// Health is how a command is judged while it runs, by a program of the user's. The zero value: it is not.
type Health struct {
	// Check runs the program once, and returns when its whole tree is dead. The end of ctx has that killed, and so has
	// start's deadline, unless a later one comes over renewed.
	Check func(ctx context.Context, start Start, renewed <-chan boottime.Instant) Verdict

	Interval    time.Duration // before the first check, and from the end of one to the next
	StartPeriod time.Duration // from the command's start, in which failures do not count until a check has succeeded
	Retries     int           // after so many failures in a row the command is unhealthy

	// WhileWaiting has the program run while this berth waits too, which takes no slot before one has succeeded, and
	// none after so many failures in a row.
	WhileWaiting bool
}

// Outcome of a check.
type CheckOutcome string

// The outcomes of a check.
const (
	CheckSucceeded CheckOutcome = "success"
	CheckFailed    CheckOutcome = "failure"
	// CheckUnknown: the program did not come to its end through no fault of its own. Nothing follows from that.
	CheckUnknown CheckOutcome = "unknown"
)

// CheckOutcomes returns all of them.
func CheckOutcomes() []CheckOutcome {
	return []CheckOutcome{CheckSucceeded, CheckFailed, CheckUnknown}
}

// Verdict is what a check has found out.
type Verdict struct {
	Outcome CheckOutcome
	Problem string // in a few words, unless it has succeeded
	Output  string // the end of what the program has written
}

// HealthState is what is known of the command's health.
type HealthState string

// The states of health. The zero value: nothing is checked.
const (
	HealthStarting HealthState = "starting"  // no check has succeeded yet
	Healthy        HealthState = "healthy"   // one has, and not so many have failed in a row since
	Unhealthy      HealthState = "unhealthy" // so many in a row have failed
)

// CutCause is why a command was ended that would have run on.
type CutCause string

// The causes.
const (
	CutUnhealthy CutCause = "unhealthy"
	CutMaxRun    CutCause = "max_run"
)

// CutCauses returns all of them.
func CutCauses() []CutCause { return []CutCause{CutUnhealthy, CutMaxRun} }
