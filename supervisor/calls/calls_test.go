package calls

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/locktest"
	"berth/supervisor/machine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var mutex = lock.ID{Kind: lock.Mutex, Name: "m"}

// won returns the calls of a contender that has won a slot.
func won(t *testing.T) (*locktest.Fake, *Calls, Result) {
	t.Helper()
	fake := locktest.NewPlace().Open(time.Minute)
	c := New(fake.Lock(mutex), 10*time.Second, boottime.Clock{})
	t.Cleanup(func() { c.Close(time.Minute) })
	c.Connect()
	returns(t, c, machine.Connected)
	c.Attempt()
	return fake, c, returns(t, c, machine.Acquired)
}

func returns(t *testing.T, c *Calls, want machine.Event) Result {
	t.Helper()
	r := <-c.Results
	c.Returned()
	if r.On != want {
		t.Fatalf("%s: %v, want %s", r.On, r.Err, want)
	}
	return r
}

func TestProofIsAVerifyOrAReclaim(t *testing.T) {
	verify := func(err error) func(*locktest.Fake) {
		return func(f *locktest.Fake) { f.Inject(locktest.Verify, locktest.Fault{Before: err}) }
	}
	report := func(cause error) func(*locktest.Fake) {
		return func(f *locktest.Fake) { f.ReportLost(mutex, cause) }
	}
	unmendable := func(f *locktest.Fake) {
		verify(lock.ErrInDoubt)(f)
		f.Inject(locktest.Reclaim, locktest.Fault{Before: lock.ErrInDoubt})
	}
	for name, c := range map[string]struct {
		damage            func(*locktest.Fake)
		on                machine.Event
		verifies, reclaim int
	}{
		"nothing is damaged":        {func(*locktest.Fake) {}, machine.Verified, 1, 0},
		"the connection is gone":    {report(lock.ErrInDoubt), machine.Verified, 0, 1},
		"its record is missing":     {verify(lock.ErrInDoubt), machine.Verified, 1, 1},
		"it cannot be mended":       {unmendable, machine.Unverified, 1, 1},
		"it is lost":                {report(lock.ErrLost), machine.Unverified, 1, 0},
		"nothing is known about it": {verify(lock.ErrUnknown), machine.Unverified, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			fake, calls, slot := won(t)
			c.damage(fake)
			before := boottime.Now()
			calls.Verify(slot.Held, 0)
			if r := returns(t, calls, c.on); r.Err == nil && r.Since < before {
				t.Errorf("it counts from %s before the call", time.Duration(before-r.Since))
			}
			verifies, reclaims := fake.Calls(locktest.Verify), fake.Calls(locktest.Reclaim)
			if verifies != c.verifies || reclaims != c.reclaim {
				t.Errorf("%d times verified and %d reclaimed, want %d and %d", verifies, reclaims, c.verifies,
					c.reclaim)
			}
		})
	}
}

func TestProofThatCameWithTheSlotIsEnoughToStart(t *testing.T) {
	fake, c, slot := won(t)
	enough := true
	good := func(proven boottime.Instant) bool { return proven == slot.Held.Proven() && enough }
	c.Prepare(slot.Held, good)
	if r := returns(t, c, machine.Ready); r.Since != slot.Held.Proven() || fake.Calls(locktest.Verify) > 0 {
		t.Errorf("%+v after %d verifications", r, fake.Calls(locktest.Verify))
	}
	enough = false
	c.Prepare(slot.Held, good)
	if returns(t, c, machine.Ready); fake.Calls(locktest.Verify) != 1 {
		t.Errorf("%d verifications for a proof that is too old", fake.Calls(locktest.Verify))
	}
}

func TestCallThatIsCancelledReturnsBeforeTheNextBegins(t *testing.T) {
	fake, c, slot := won(t)
	fake.Inject(locktest.Verify, locktest.Fault{Block: make(chan struct{})})
	c.Verify(slot.Held, 0)
	c.Release(slot.Held)
	if r := <-c.Results; r.On != machine.Unverified || fake.Calls(locktest.Release) > 0 {
		t.Errorf("%s: %v", r.On, r.Err)
	}
	c.Returned()
	if r := returns(t, c, machine.Released); r.Err != nil {
		t.Error(r.Err)
	}
}

func TestSlotThatIsWonAtTheEndIsGivenBack(t *testing.T) {
	place := locktest.NewPlace()
	l := place.Open(0).Lock(mutex)
	if err := l.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := New(l, time.Minute, boottime.Clock{})
	c.Attempt()
	for !place.Held(mutex, 1) {
		time.Sleep(time.Millisecond)
	}
	if !c.Close(time.Minute) || place.Held(mutex, 1) {
		t.Error("it is held")
	}
}

// A broker that answers slowly has proven that the slot is held: what is missing of it
// may take longer than one verification.
func TestMendingGetsTheTimeThereIs(t *testing.T) {
	fake, calls, slot := won(t)
	calls.timeout = 10 * time.Millisecond
	mended := make(chan struct{})
	time.AfterFunc(20*calls.timeout, func() { close(mended) })
	fake.Inject(locktest.Verify, locktest.Fault{Before: lock.ErrInDoubt})
	fake.Inject(locktest.Reclaim, locktest.Fault{Block: mended})
	calls.Verify(slot.Held, boottime.Now().Add(time.Minute))
	returns(t, calls, machine.Verified)
}
