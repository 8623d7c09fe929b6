package cli

import (
	"context"
	"fmt"

	"berth/lock"
	"berth/lock/rabbit"
)

// executors are the backends that write wills. Local locks need none: the guard
// holds their files.
var executors = map[string]func(ctx context.Context, will []byte) error{
	rabbit.WillName: rabbit.ExecuteWill,
}

// ExecuteWill is what a guard does for a supervisor that has died; see
// lock.Handover.
func ExecuteWill(ctx context.Context, will []byte) error {
	backend, _ := lock.OpenWill(will)
	execute, found := executors[backend]
	if !found {
		return fmt.Errorf("cannot execute a will of backend %q, which is not known", backend)
	}
	return execute(ctx, will)
}
