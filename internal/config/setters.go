package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/internal/brokerurl"
	"berth/internal/identity"
	"berth/internal/timing"
	"berth/lock"
	"berth/signals"
	"berth/supervisor"
)

// settings is a Run in the making.
type settings struct {
	Run
	user  *identity.User // nil: not given
	group *uint32        // nil: not given

	noNewPrivileges *bool // nil: not given
}

// setNothing is for options that are used before values are set.
func setNothing(*settings, []string) error { return nil }

func setLock(kind lock.Kind) func(*settings, []string) error {
	return func(s *settings, texts []string) error {
		s.Lock = lock.ID{Kind: kind, Name: texts[0]}
		return lock.CheckName(texts[0])
	}
}

func setBrokers(s *settings, texts []string) error {
	for _, text := range texts {
		if err := s.Add(strings.TrimSpace(text)); err != nil {
			return fmt.Errorf("%s %w", short(brokerurl.Redact(text)), err)
		}
	}
	switch {
	case len(texts) == 0:
		return errors.New("is empty; give one URL at least, or local")
	case s.Local && len(texts) > 1:
		return errors.New("local stands for this host alone; give no other broker beside it")
	}
	return nil
}

func setBrokerFile(s *settings, texts []string) error {
	urls, err := s.ReadFile(texts[0])
	if err != nil {
		return err
	}
	return setBrokers(s, urls)
}

func setPasswordFile(s *settings, texts []string) error { return s.AddPassword(texts[0]) }

// completing completes the URLs with a parameter. If there are words, it is one of them.
func completing(parameter string, words ...string) func(*settings, []string) error {
	return func(s *settings, texts []string) error {
		switch {
		case texts[0] == "":
			return errors.New("is empty; leave it out")
		case len(words) > 0 && !slices.Contains(words, texts[0]):
			return fmt.Errorf("is unknown; choose %s", alternatives(words))
		}
		if err := s.Complete(parameter, texts[0]); err != nil {
			return Invalidf("%v", err)
		}
		return nil
	}
}

func setUser(s *settings, texts []string) error {
	found, err := identity.LookUpUser(texts[0])
	s.user, s.Account = &found, found.Account
	return err
}

func setGroup(s *settings, texts []string) error {
	gid, err := identity.LookUpGroup(texts[0])
	s.group = &gid
	return err
}

func setCommand(s *settings, texts []string) error {
	s.Command = texts
	return checkCommand(texts, "such as [\"/usr/bin/myprogram\", \"--flag\"]")
}

func setHook(hook supervisor.Hook) func(*settings, []string) error {
	return func(s *settings, texts []string) error {
		if s.Hooks == nil {
			s.Hooks = map[supervisor.Hook][]string{}
		}
		s.Hooks[hook] = texts
		return checkCommand(texts, "such as \"/usr/local/bin/attach\", or leave it out to have no such hook")
	}
}

// checkCommand says what is wrong with a program and its arguments. instead says what to write where there is none.
func checkCommand(texts []string, instead string) error {
	if len(texts) == 0 || texts[0] == "" {
		return errors.New("names no program; begin with one, " + instead)
	}
	for i, text := range texts {
		if strings.Contains(text, "\x00") {
			return fmt.Errorf("has a NUL character in place %d, which no argument can have; take it out", i+1)
		}
	}
	return nil
}

func setSwitch(field func(*settings) *bool) func(*settings, []string) error {
	return func(s *settings, texts []string) error {
		on, err := strconv.ParseBool(texts[0])
		if err != nil {
			return errors.New("must be true or false")
		}
		*field(s) = on
		return nil
	}
}

func setText(field func(*settings) *string) func(*settings, []string) error {
	return func(s *settings, texts []string) error {
		if *field(s) = texts[0]; texts[0] == "" {
			return errors.New("is empty; leave it out")
		}
		return nil
	}
}

func setUsers(field func(*settings) *[]string) func(*settings, []string) error {
	return func(s *settings, texts []string) error {
		if *field(s) = texts; slices.Contains(texts, "") {
			return errors.New("has an empty name; give users, or leave it out")
		}
		return nil
	}
}

func setPriority(s *settings, texts []string) error {
	n, err := strconv.Atoi(strings.TrimSpace(texts[0]))
	switch {
	case err != nil || n < 0 || n > lock.MaxPriority:
		return fmt.Errorf("must be a whole number from 0 to %d; the highest is served first", lock.MaxPriority)
	case n > 0 && s.Local:
		return errors.New("needs a broker: on one host the kernel chooses the successor; leave it out")
	}
	s.Priority = n
	return nil
}

// setListen takes an address of this host and a port. A host's name might resolve to somewhere else one day.
func setListen(s *settings, texts []string) error {
	text := strings.TrimSpace(texts[0])
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return errors.New("must be an address and a port, such as 127.0.0.1:9420")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("must end in a port, a number up to 65535, such as 127.0.0.1:9420")
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && host != "localhost" {
		return errors.New("must begin with an address of this host, such as 127.0.0.1:9420, or with localhost")
	}
	s.Listen = text
	return nil
}

func setHeartbeat(s *settings, texts []string) (err error) {
	if s.Heartbeat, err = ParseDuration(texts[0]); err != nil {
		return err
	}
	if s.Heartbeat < timing.MinHeartbeat || s.Heartbeat > timing.MaxHeartbeat || s.Heartbeat%time.Second != 0 {
		return fmt.Errorf("must be whole seconds from %.0fs to %.0fs, because brokers count heartbeats in "+
			"seconds; the "+
			"default is 5s", timing.MinHeartbeat.Seconds(), timing.MaxHeartbeat.Seconds())
	}
	return nil
}

func setVerification(field func(*settings) *time.Duration) func(*settings, []string) error {
	return func(s *settings, texts []string) (err error) {
		*field(s), err = ParseDuration(texts[0])
		if err == nil && *field(s) < timing.MinVerification {
			err = fmt.Errorf("must be %s at least; write a duration such as 1s or 500ms", timing.MinVerification)
		}
		return err
	}
}

// ParseDuration reads a duration and says what is wrong with one that is none.
func ParseDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	d, err := time.ParseDuration(text)
	switch {
	case err == nil:
		return d, nil
	case numbersWithUnits().MatchString(text):
		return 0, fmt.Errorf("is too long; the longest duration is %dh", math.MaxInt64/time.Hour)
	}
	return 0, errors.New("is not a duration; write a number with a unit, such as 5s, 500ms or 1m30s")
}

// numbersWithUnits is what a duration looks like, however long it is.
var numbersWithUnits = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[-+]?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`)
})

func setSequence(field func(*settings) *signals.Sequence) func(*settings, []string) error {
	return func(s *settings, texts []string) (err error) {
		*field(s), err = signals.ParseSequence(texts[0])
		return err
	}
}

func setRewrites(s *settings, texts []string) (err error) {
	s.Rewrites, err = signals.ParseRewrites(texts)
	return err
}

// oneOf accepts the given words and nothing else.
func oneOf[T ~string](field func(*settings) *T, words ...T) func(*settings, []string) error {
	return func(s *settings, texts []string) error {
		word := T(texts[0])
		if !slices.Contains(words, word) {
			return fmt.Errorf("is unknown; choose %s", alternatives(words))
		}
		*field(s) = word
		return nil
	}
}

// alternatives returns "a, b or c".
func alternatives[T ~string](words []T) string {
	var texts []string
	for _, word := range words {
		texts = append(texts, string(word))
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " or " + texts[last]
}
