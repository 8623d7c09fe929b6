package supervisor_test

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/guard"
	_ "berth/internal/guard/entry" // has this program be the guard, too
	"berth/lock"
	"berth/lock/local"
	"berth/signals"
	"berth/supervisor"
	"berth/supervisor/loop"
)

// A shell runs while this program holds a lock of this host.
func Example() {
	dir, err := os.MkdirTemp("", "locks-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	backend, err := local.New(local.Config{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	host, err := guard.NewHost()
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	stop, err := signals.ParseSequence("TERM 8s, KILL")
	if err != nil {
		log.Fatal(err)
	}
	received := make(chan os.Signal, 10)
	for _, sig := range signals.Forwarded() {
		signal.Notify(received, sig)
	}
	defer signal.Stop(received)

	id := lock.ID{Kind: lock.Mutex, Name: "importer"}
	outcome := loop.Run(supervisor.Config{
		ID:   id,
		Lock: backend.Lock(id),
		Launch: func() (supervisor.Guard, error) {
			return host.Launch(guard.Spec{
				Path: "/bin/sh", Args: []string{"sh", "-c", "exit 3"}, Env: os.Environ(),
			})
		},
		Signals:        received,
		Stop:           stop,
		Loss:           stop,
		VerifyInterval: 5 * time.Second,
		VerifyTimeout:  time.Second,
		Margin:         time.Second,
		OnLoss:         supervisor.Retry,
		Restart:        supervisor.Never,
		Observer:       &printer{},
		Log:            hclog.NewNullLogger(),
	})
	fmt.Println("status", outcome.Status, "error", outcome.Err)
	// Output:
	// connecting
	// attempting
	// preparing
	// starting
	// running
	// releasing
	// ended
	// status 3 error <nil>
}

// printer is an Observer that prints each state.
type printer struct{ last supervisor.State }

func (p *printer) Observe(now supervisor.Situation) {
	if now.State != p.last {
		fmt.Println(now.State)
	}
	p.last = now.State
}

func (*printer) Beat() {}
