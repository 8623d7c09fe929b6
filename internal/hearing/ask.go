package hearing

import (
	"context"
	"errors"
	"net"

	"berth/lock"
)

// ErrRefused: who was asked is not the one for this, or does not know such a request.
var ErrRefused = errors.New("refused")

// Ask asks who listens at the other end, and closes the connection. Not 0, slot is the one that it has to hold. Errors:
// ErrRefused, lock.ErrDenied, and others if no answer came before ctx ended.
func Ask(ctx context.Context, conn *net.UnixConn, slot int, verb lock.Verb) ([]byte, error) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	sendErr := send(conn, request{Request: verb, Slot: slot}) // who denies closes at once, and has said why
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
