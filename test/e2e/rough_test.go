package e2e

import "testing"

// TestBrokerThatIsDisturbed has the tests that need a broker alone, one after the
// other on each of two: each for itself, they would wait for each other in the
// places of tests that could run meanwhile.
func TestBrokerThatIsDisturbed(t *testing.T) {
	t.Parallel()
	type disturbing struct {
		name string
		test func(*testing.T)
	}
	for how, tests := range map[string][]disturbing{
		"and ends": {
			{"BrokerRestarted", brokerRestarted},
			{"BrokerKilledAndBack", brokerKilledAndBack},
			{"SupervisorKilledThenTheGuardEndsThoughNoBrokerAnswers",
				supervisorKilledThenTheGuardEndsThoughNoBrokerAnswers},
		},
		"and stays": {
			{"CommandIsDeadWhileTheBrokerIsStillSilent", commandIsDeadWhileTheBrokerIsStillSilent},
			{"FrozenWhileTheBrokerIsSilentAndThenGoesOn", frozenWhileTheBrokerIsSilentAndThenGoesOn},
			{"FrozenCommandIsEndedWhenTheBrokerStaysSilent", frozenCommandIsEndedWhenTheBrokerStaysSilent},
			{"FrozenCommandDiesWithItsSupervisor", frozenCommandDiesWithItsSupervisor},
			{"BrokerSilentForLongerThanTheLease", brokerSilentForLongerThanTheLease},
			{"AlarmDisturbsNobody", alarmDisturbsNobody},
			{"HookEndsWhileTheBrokerIsSilent", hookEndsWhileTheBrokerIsSilent},
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for _, c := range tests {
				t.Run(c.name, c.test)
			}
		})
	}
}
