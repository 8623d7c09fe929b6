package control

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"syscall"
	"time"

	"berth/lock"
)

var (
	// ErrDead: nobody listens on the socket, or any more.
	ErrDead = errors.New("the process that listened is dead")
	// ErrRefused: the server holds another slot, or does not know such a request.
	ErrRefused = errors.New("refused")
)

// full is the pause after which a server is tried again that others ask faster than it can send them away.
const full = 10 * time.Millisecond

// pauses are those of Patiently. The first is longer than the delay of a server, as a host can be busy.
var pauses = []time.Duration{delay + 50*time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond}

// Patiently does something again and again, for a second at most, while it reports that the berth to be asked may not
// listen yet: one that has only now been started, or has won its slot. It returns early when ctx ends.
func Patiently(ctx context.Context, do func() (early bool)) {
	for _, d := range pauses {
		if !do() || pause(ctx, d) != nil {
			return
		}
	}
	do()
}

// dial connects to the server at an address, unless its process and user are not to be trusted. Errors: ErrDead,
// lock.ErrDenied, EAGAIN if too many ask, and others.
func dial(ctx context.Context, address string, trust func(pid, uid int) error) (*net.UnixConn, error) {
	dialed, err := new(net.Dialer).DialContext(ctx, "unix", address)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil, ErrDead
	case errors.Is(err, fs.ErrPermission):
		return nil, lock.Errorf(lock.ErrDenied, "this user may not ask it")
	case err != nil:
		return nil, err
	}
	conn := dialed.(*net.UnixConn)
	pid, uid, err := peer(conn)
	if err == nil {
		err = trust(pid, uid)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// whenFree dials again while so many ask that more have to wait.
func whenFree(ctx context.Context, dial func() (*net.UnixConn, error)) (*net.UnixConn, error) {
	for {
		conn, err := dial()
		if !errors.Is(err, syscall.EAGAIN) {
			return conn, err
		}
		if err := pause(ctx, full); err != nil {
			return nil, err
		}
	}
}

// ask asks the server at the other end, and closes the connection. Not 0, slot is the one that it has to hold. Errors:
// ErrRefused, lock.ErrDenied, and others if no answer came before ctx ended.
func ask(ctx context.Context, conn *net.UnixConn, slot int, verb lock.Verb) ([]byte, error) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	sendErr := send(conn, request{Request: verb, Slot: slot}) // a server that denies closes at once, and has said why
	r, err := readResponse(conn)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, errors.Join(sendErr, err)
	case r.Denied != "":
		return nil, lock.Errorf(lock.ErrDenied, "%.200s", r.Denied)
	case r.Refused != "":
		return nil, lock.Errorf(ErrRefused, "%.200s", r.Refused)
	}
	return r.Answer, nil
}
