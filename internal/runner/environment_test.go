package runner

import (
	"slices"
	"testing"

	"go.uber.org/goleak"

	"berth/internal/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEnvironmentIsThatOfTheUser(t *testing.T) {
	own := []string{"HOME=/root", "BERTH_BROKER=amqp://u:p@h", "LANG=C", "USER=root", "LOGNAME=root"}
	for _, c := range []struct {
		account *identity.Account
		want    []string
	}{
		{nil, []string{"HOME=/root", "LANG=C", "USER=root", "LOGNAME=root"}},
		{&identity.Account{Name: "worker", Home: "/srv"},
			[]string{"LANG=C", "HOME=/srv", "USER=worker", "LOGNAME=worker"}},
	} {
		if got := commandEnv(own, c.account, false); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q", c.account, got)
		}
	}
}
