package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"berth/prover/adapter"
	"berth/prover/fault"
	"berth/prover/history"
	"berth/prover/judge"
)

var faultName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// ownFaults returns those that --fault makes of command lines. They may use values that are put there later.
func ownFaults(c *cli.Context, values adapter.Values) (own []fault.Fault, err error) {
	list := strings.Split(c.String("faults"), ",")
	for _, text := range c.StringSlice("fault") {
		name, line, _ := strings.Cut(text, "=")
		words, err := adapter.Parse(line, adapter.Lock, adapter.Broker, adapter.Slots)
		switch {
		case !faultName.MatchString(name):
			err = fmt.Errorf("--fault %q: it must be NAME=COMMAND, with a name such as step-down", text)
		case isFault(name, own) || name == "all" || name == "end":
			err = fmt.Errorf("--fault %s: there is a fault of that name; take another one", name)
		case c.Command.Name == "run" && !slices.Contains(list, name) && !slices.Contains(list, "all"):
			err = fmt.Errorf("--fault %s does not strike: name it in --faults, or all", name)
		case err != nil:
			err = fmt.Errorf("--fault %s: %w", name, err)
		case words.Has(adapter.Broker) && c.String("broker") == "none":
			err = fmt.Errorf("--fault %s: %s goes with --broker", name, adapter.Broker)
		}
		if err != nil {
			return nil, err
		}
		own = append(own, fault.Command(name, func(ctx context.Context) error {
			mark := fmt.Sprintf("BERTH_PROVE_FAULT=%d-%d", os.Getpid(), history.Now())
			err := perform(ctx, name, words.With(values), mark)
			left, failed := adapter.EndAll(ctx, mark, judge.Orphan)
			if err = errors.Join(err, failed); err == nil && len(left) > 0 {
				err = fmt.Errorf("%s left processes, which were killed: %v", name, slices.Sorted(maps.Keys(left)))
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "berth-prove: fault", err)
			}
			return err
		}))
	}
	return own, nil
}

// allowed returns the checkers whose promises --allow lets faults break, by the fault.
func allowed(c *cli.Context, own []fault.Fault) (map[string][]string, error) {
	all := map[string][]string{}
	for _, text := range c.StringSlice("allow") {
		name, checker, _ := strings.Cut(text, "=")
		known := slices.ContainsFunc(judge.Checkers, func(one judge.Checker) bool { return one.Name == checker })
		switch {
		case text == "": // none
		case !isFault(name, own) || !known:
			return nil, fmt.Errorf("--allow %q: it must be FAULT=CHECKER; berth-prove list prints both", text)
		default:
			all[name] = append(all[name], checker)
		}
	}
	return all, nil
}

func isFault(name string, own []fault.Fault) bool {
	return slices.ContainsFunc(slices.Concat(fault.All, own), func(f fault.Fault) bool { return f.Name == name })
}

// perform runs a command line to its end, with these variables.
func perform(ctx context.Context, what string, words adapter.Template, env ...string) error {
	const limit = time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s did not end within %s", what, limit))
	defer cancel()
	p, err := words.Start(append(os.Environ(), env...), os.Stderr)
	if err != nil {
		return err
	}
	defer p.End(ctx)
	select {
	case <-p.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, status := p.Until(); status != 0 {
		return fmt.Errorf("%s ended with status %d", what, status)
	}
	return nil
}
