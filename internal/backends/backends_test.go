package backends

import (
	"slices"
	"testing"

	"berth/internal/brokerurl"
	"berth/internal/config"
)

func TestOnlyQueuesHaveANaming(t *testing.T) {
	for _, c := range []struct {
		cfg  config.Connection
		want []string
	}{
		{config.Connection{Naming: config.NamingNAL}, []string{"--naming N-A-L"}},
		{config.Connection{Naming: config.NamingNLA}, nil},
		{config.Connection{Protocol: config.ProtocolPlain}, []string{"--protocol plain"}},
		{config.Connection{QueueType: config.QueuesQuorum}, []string{"--queue-type quorum"}},
		{config.Connection{Naming: config.NamingNAL, Place: brokerurl.Place{Local: true}}, nil},
	} {
		if got := NamingFlags(c.cfg); !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %q", c.cfg, got)
		}
	}
}
