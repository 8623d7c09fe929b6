package runner

import (
	"slices"
	"testing"

	"go.uber.org/goleak"

	"berth/internal/config"
	"berth/internal/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEnvironmentIsThatOfTheUser(t *testing.T) {
	own := []string{"HOME=/root", "PWD=/root", "BERTH_BROKER=amqp://u:p@h", "LANG=C", "USER=root", "LOGNAME=root"}
	for _, c := range []struct {
		cfg  config.Run
		want []string
	}{
		{config.Run{}, []string{"HOME=/root", "PWD=/root", "LANG=C", "USER=root", "LOGNAME=root"}},
		{config.Run{Account: &identity.Account{Name: "worker", Home: "/srv"}},
			[]string{"PWD=/root", "LANG=C", "HOME=/srv", "USER=worker", "LOGNAME=worker"}},
		{config.Run{WorkingDirectory: "/tmp"}, []string{"HOME=/root", "LANG=C", "USER=root", "LOGNAME=root", "PWD=/tmp"}},
	} {
		if got := commandEnv(own, c.cfg); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q", c.cfg, got)
		}
	}
}
