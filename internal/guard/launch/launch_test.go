package launch

import (
	"slices"
	"testing"
)

func TestGuardGetsNeitherPasswordsNorAnybodysSettingsOfItsRuntime(t *testing.T) {
	own := []string{"A=GOGC=1", "GOGC=1", "GOMAXPROCS=", "B", "GOMEMLIMIT=1", "GOGCX=2", "BERTH_BROKER=amqp://u:p@h",
		"BERTH_PASSWORD_FILE=/p", "SSL_CERT_FILE=/ca.pem"}
	want := append(slices.Clone(settings), "A=GOGC=1", "B", "GOGCX=2", "SSL_CERT_FILE=/ca.pem")
	if got := environment(own); !slices.Equal(got, want) {
		t.Errorf("its environment is %q, not %q", got, want)
	}
}
