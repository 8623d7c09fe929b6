package signals

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Step is one signal of a sequence and the time that the command is given
// before the next one. The last step of a sequence is KILL and has no Wait.
type Step struct {
	Signal syscall.Signal // 0 sends nothing
	Wait   time.Duration
}

// Sequence is how a command is ended: signals and waits, KILL at the end. It is
// cut short as soon as no process of the command is left. The zero value is no
// sequence; ParseSequence makes one.
type Sequence []Step

// ParseSequence reads "TERM 8s, KILL": steps of a signal and a duration,
// separated by commas, the last one KILL without a duration.
func ParseSequence(text string) (Sequence, error) {
	parts := strings.Split(text, ",")
	var seq Sequence
	for i, part := range parts {
		step, err := parseStep(part, i == len(parts)-1)
		if err != nil {
			return nil, fmt.Errorf("%q is not a sequence like \"TERM 8s, KILL\": %w", text, err)
		}
		seq = append(seq, step)
	}
	return seq, nil
}

func parseStep(part string, last bool) (Step, error) {
	words := strings.Fields(part)
	if len(words) == 0 {
		return Step{}, errors.New("a step is empty")
	}
	sig, err := Parse(words[0])
	if err != nil {
		return Step{}, err
	}
	if last {
		if sig != unix.SIGKILL || len(words) != 1 {
			return Step{}, errors.New("it must end with KILL, without a duration, because nothing else is " +
				"certain to end a command")
		}
		return Step{Signal: sig}, nil
	}
	if sig == unix.SIGKILL {
		return Step{}, errors.New("KILL comes last, nothing is left to signal after it")
	}
	if len(words) != 2 {
		return Step{}, fmt.Errorf("%s needs one duration, the time to wait after it, such as \"%s 5s\"", Name(sig),
			Name(sig))
	}
	wait, err := time.ParseDuration(words[1])
	if err != nil || wait <= 0 {
		return Step{}, fmt.Errorf("%q is not a duration that can be kept; write one above zero, such as 8s or 500ms",
			words[1])
	}
	return Step{Signal: sig, Wait: wait}, nil
}

// String returns the sequence as ParseSequence reads it.
func (s Sequence) String() string {
	var parts []string
	for _, step := range s {
		if step.Signal == unix.SIGKILL {
			parts = append(parts, "KILL")
			continue
		}
		parts = append(parts, Name(step.Signal)+" "+step.Wait.String())
	}
	return strings.Join(parts, ", ")
}

// Duration is the time from the first signal to the KILL, math.MaxInt64 if it is
// longer than can be said.
func (s Sequence) Duration() time.Duration {
	var sum time.Duration
	for _, step := range s {
		if sum += step.Wait; sum < 0 {
			return math.MaxInt64
		}
	}
	return sum
}

// Beginning returns the sequence with its first signal replaced: what a user
// who sent INT gets is INT, then the rest. A sequence of KILL alone stays.
func (s Sequence) Beginning(sig syscall.Signal) Sequence {
	if len(s) < 2 {
		return s
	}
	changed := append(Sequence(nil), s...)
	changed[0].Signal = sig
	return changed
}
