package main

import (
	"cmp"
	"path/filepath"
	"strings"

	"berth/test/broken"
)

// kinds are all that there are. Those on quorum queues and with the plain protocol have another name in front.
var kinds = []string{"mutex", "persistent-mutex", "semaphore", "token-semaphore", "quorum-mutex", "quorum-persistent-mutex",
	"quorum-semaphore", "quorum-token-semaphore", "plain-mutex", "plain-semaphore"}

// behaviours are of commands.
var behaviours = []string{"plain", "stubborn", "forking"}

// broker is a version of RabbitMQ, and what berth-prove is told to start for it.
type broker struct{ version, start string }

// few are some of all, with each behaviour in turn.
func few(bin string, on []broker) (cells []*cell) {
	for i, c := range matrix(bin, kinds[:5], on) {
		if i%3 == i/3%3 {
			cells = append(cells, c)
		}
	}
	return cells
}

func all(bin string, on []broker) []*cell { return matrix(bin, kinds, on) }

func matrix(bin string, kinds []string, on []broker) (cells []*cell) {
	for _, b := range on {
		for _, kind := range kinds {
			for _, commands := range behaviours {
				cells = append(cells, &cell{
					name: kind + "-" + b.version + "-" + commands, bin: bin,
					args: append(flags(b, kind, "2s"), "--commands", commands),
				})
			}
		}
	}
	return cells
}

// mutants are the berths that berth-prove has to find out.
func mutants(bin string, on []broker) (cells []*cell) {
	for _, b := range on {
		for _, m := range broken.All {
			if m.Proved.Kind == "" {
				continue
			}
			name := strings.NewReplacer(" ", "-", ",", "").Replace(m.Name) + "-" + b.version
			args := append(flags(b, m.Proved.Kind, cmp.Or(m.Proved.Heartbeat, "2s")), "--until-violated")
			cells = append(cells, &cell{
				name: name, bin: filepath.Join(bin, name), broken: &m,
				args: append(args, strings.Fields(m.Proved.Flags)...), // of which the last one counts
			})
		}
	}
	return cells
}

// limits are berth's. A holder that cannot say that it has ended, because no broker is there, is waited for for 2 min where
// its record went over another connection, as it does once the broker has had an alarm.
var limits = []string{"freeze=overlap", "freeze=permits", "freeze=terms", "freeze=updates", "broker-kill=progress",
	"broker-restart=progress", "broker-stop=progress"}

// flags are berth-prove's.
func flags(b broker, kind, heartbeat string) []string {
	args := []string{"--broker", b.start, "--faults", "all", "--allow", strings.Join(limits, ",")}
	lock, more, slots := kind, "", "1"
	if of, found := strings.CutPrefix(kind, "quorum-"); found {
		// RabbitMQ 3.10 never answers again for a quorum queue that is younger than some seconds when it is killed.
		lock, more, args = of, " --queue-type quorum", append(args, "--calm", "8s")
	} else if of, found := strings.CutPrefix(kind, "plain-"); found {
		lock, more = of, " --protocol plain"
	}
	switch lock {
	case "persistent-mutex":
		args = append(args, "--setup", "berth persistent-mutex enable {lock}"+more+" --broker {broker}")
	case "semaphore", "token-semaphore":
		slots = "3"
		args = append(args, "--setup", "berth "+lock+" create {lock} --slots {slots}"+more+" --broker {broker}")
	}
	return append(args, "--slots", slots, "--adapter", "berth run --"+lock+" {lock}"+more+" --broker {broker} --heartbeat "+
		heartbeat+" --loss KILL -- {witness}")
}
