// Command broker starts a private RabbitMQ on 127.0.0.1, prints its URL, and stops it
// when it is told to end. It is for trying berth by hand, and for scripts.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/brokertest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "broker: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	told, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	starting, cancel := context.WithTimeout(told, 2*time.Minute)
	defer cancel()
	broker, err := brokertest.Start(starting)
	if err != nil {
		return err
	}
	fmt.Println(broker.URL())
	<-told.Done()
	return broker.Stop()
}
