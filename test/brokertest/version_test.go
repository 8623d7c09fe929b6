package brokertest_test

import (
	"strings"
	"testing"

	"berth/test/brokertest"
)

func TestVersionIsTheOneThatTheBrokerTellsItsClients(t *testing.T) {
	told := dial(t, shared, "").Properties["version"]
	if shared.Version() != told {
		t.Errorf("the version is %s, clients are told %v", shared.Version(), told)
	}
	if !shared.Since(3, 10) || shared.Since(99, 0) {
		t.Errorf("%s is said to be before 3.10 or since 99.0", shared.Version())
	}
}

func TestBrokerThatIsNotInstalledIsNamed(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("BERTH_TEST_BROKER", dir)
	_, err := brokertest.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "BERTH_TEST_BROKER is "+dir) {
		t.Errorf("starting a broker from an empty directory: %v", err)
	}
}
