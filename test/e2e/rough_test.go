package e2e

import "testing"

// TestBrokerThatIsDisturbed has the tests that need a broker alone, one after the
// other: each for itself, they would wait for each other in the places of tests
// that could run meanwhile.
func TestBrokerThatIsDisturbed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"CommandIsDeadWhileTheBrokerIsStillSilent", commandIsDeadWhileTheBrokerIsStillSilent},
		{"FrozenWhileTheBrokerIsSilentAndThenGoesOn", frozenWhileTheBrokerIsSilentAndThenGoesOn},
		{"FrozenCommandIsEndedWhenTheBrokerStaysSilent", frozenCommandIsEndedWhenTheBrokerStaysSilent},
		{"FrozenCommandDiesWithItsSupervisor", frozenCommandDiesWithItsSupervisor},
		{"BrokerRestarted", brokerRestarted},
		{"BrokerKilledAndBack", brokerKilledAndBack},
		{"BrokerSilentForLongerThanTheLease", brokerSilentForLongerThanTheLease},
		{"AlarmDisturbsNobody", alarmDisturbsNobody},
		{"HookEndsWhileTheBrokerIsSilent", hookEndsWhileTheBrokerIsSilent},
		{"SupervisorKilledThenTheGuardEndsThoughNoBrokerAnswers",
			supervisorKilledThenTheGuardEndsThoughNoBrokerAnswers},
	} {
		t.Run(c.name, c.test)
	}
}
