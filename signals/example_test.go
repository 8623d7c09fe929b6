package signals_test

import (
	"fmt"
	"log"
	"syscall"

	"berth/signals"
)

func ExampleParseSequence() {
	stop, err := signals.ParseSequence("TERM 8s, INT 500ms, KILL")
	if err != nil {
		log.Fatal(err)
	}
	for _, step := range stop {
		fmt.Println(signals.Name(step.Signal), step.Wait)
	}
	fmt.Println("KILL comes after", stop.Duration())
	fmt.Println("for a user who sends HUP:", stop.Beginning(syscall.SIGHUP))
	// Output:
	// TERM 8s
	// INT 500ms
	// KILL 0s
	// KILL comes after 8.5s
	// for a user who sends HUP: HUP 8s, INT 500ms, KILL
}

func ExampleParseRewrites() {
	rewrites, err := signals.ParseRewrites([]string{"HUP=USR1", "WINCH="})
	if err != nil {
		log.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGWINCH, syscall.SIGUSR2} {
		switch handedOn := rewrites.Apply(sig); handedOn {
		case 0:
			fmt.Println(signals.Name(sig), "is dropped")
		default:
			fmt.Println(signals.Name(sig), "is handed on as", signals.Name(handedOn))
		}
	}
	// Output:
	// HUP is handed on as USR1
	// WINCH is dropped
	// USR2 is handed on as USR2
}
