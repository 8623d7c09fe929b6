package inspection

import (
	"strings"
	"testing"
)

func TestAdviceFitsTheVersion(t *testing.T) {
	for version, want := range map[string]struct {
		has, lacks []string
	}{
		"3.10.8":     {[]string{"consumer_timeout", "free the slots", "fixed in 4.1.8"}, []string{"Khepri", "4.2.3"}},
		"4.1.8":      {[]string{"consumer_timeout", "free the slots"}, []string{"fixed in", "Khepri"}},
		"4.2.0-rc.1": {[]string{"consumer_timeout", "on Khepri", "fixed in 4.2.3"}, []string{"4.1.8"}},
		"4.2.3":      {[]string{"on Khepri"}, []string{"fixed in"}},
		"4.3.6":      {[]string{"stay locked"}, []string{"consumer_timeout", "Mnesia", "fixed in"}},
		"5":          {[]string{"nothing is known"}, nil},
		"":           {[]string{"nothing is known"}, nil},
	} {
		all := strings.Join(versionAdvice("RabbitMQ", version, false, false), "\n")
		for _, text := range want.has {
			if !strings.Contains(all, text) {
				t.Errorf("%s: no %q in %q", version, text, all)
			}
		}
		for _, text := range want.lacks {
			if strings.Contains(all, text) {
				t.Errorf("%s: %q in %q", version, text, all)
			}
		}
	}
}

// A node that is cut off may go on: its holders verify their slots there, while the others give these out.
func TestDelayIsNotSaidToCoverASplitWithThePlainProtocol(t *testing.T) {
	for plain, said := range map[bool]bool{false: true, true: false} {
		all := strings.Join(versionAdvice("RabbitMQ", "3.10.8", plain, false), "\n")
		if strings.Contains(all, "covers that") != said || !strings.Contains(all, "free the slots") {
			t.Errorf("plain %v: %s", plain, all)
		}
	}
}
