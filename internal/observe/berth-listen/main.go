// Command berth-listen is what `berth run --listen` starts: it serves /metrics, /status, probes and a page on a
// socket that it inherits, and reads what it says from its standard input. It ends with berth. See package feed for
// why it is not berth itself.
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"berth/internal/observe/feed"
	"berth/internal/observe/web"
)

// mostMemory has the garbage collector work harder instead of taking more.
const mostMemory = 64 << 20

func main() {
	// Whoever ends berth in order, with all processes of its service, is to see it end.
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP)
	debug.SetMemoryLimit(mostMemory)
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "berth-listen:", err)
		os.Exit(1)
	}
}

func serve() error {
	socket := os.NewFile(feed.Listener, "socket")
	listener, err := net.FileListener(socket)
	if err != nil {
		return fmt.Errorf("is started by 'berth run --listen', not by hand: %w", err)
	}
	socket.Close()
	leaveRoot()
	return web.Serve(listener, os.Stdin, os.NewFile(feed.Asks, "asks"))
}
