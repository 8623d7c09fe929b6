package cli

import (
	"context"

	"berth/lock/rabbit"
)

// ExecuteWill is what a guard does for a supervisor that has died; see
// rabbit.ExecuteWill. Local locks need no will: the guard holds their files.
func ExecuteWill(ctx context.Context, will []byte) error {
	return rabbit.ExecuteWill(ctx, will)
}
