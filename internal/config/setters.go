package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/lock"
	"berth/signals"
)

// settings is a Run in the making.
type settings struct {
	Run
	user  *identity // nil: not given
	group *uint32   // nil: not given
}

// setNothing is for options that are used before values are set.
func setNothing(*settings, []string) error { return nil }

func setLock(kind lock.Kind) func(*settings, []string) error {
	return func(s *settings, texts []string) error {
		s.Lock = lock.ID{Kind: kind, Name: texts[0]}
		return lock.CheckName(texts[0])
	}
}

func setCommand(s *settings, texts []string) error {
	if len(texts) == 0 || texts[0] == "" {
		return errors.New("names no program; begin with one, such as [\"/usr/bin/myprogram\", \"--flag\"]")
	}
	s.Command = texts
	return nil
}

func setSwitch(field func(*settings) *bool) func(*settings, []string) error {
	return func(s *settings, texts []string) error {
		on, err := strconv.ParseBool(texts[0])
		if err != nil {
			return errors.New("is neither true nor false; write one of them")
		}
		*field(s) = on
		return nil
	}
}

func setTimeout(s *settings, texts []string) error {
	d, err := parseDuration(texts[0])
	if err != nil {
		return err
	}
	if d <= 0 {
		return errors.New("must be above zero; leave it out to wait for ever")
	}
	s.Timeout = d
	return nil
}

func setVerifyInterval(s *settings, texts []string) (err error) {
	s.VerifyInterval, err = positive(texts[0])
	return err
}

func setVerifyTimeout(s *settings, texts []string) (err error) {
	s.VerifyTimeout, err = positive(texts[0])
	return err
}

func setHeartbeat(s *settings, texts []string) (err error) {
	if s.Heartbeat, err = parseDuration(texts[0]); err != nil {
		return err
	}
	if s.Heartbeat < MinHeartbeat || s.Heartbeat > MaxHeartbeat || s.Heartbeat%time.Second != 0 {
		return fmt.Errorf("must be whole seconds from %.0fs to %.0fs, because brokers count heartbeats in seconds; the default is 5s", MinHeartbeat.Seconds(), MaxHeartbeat.Seconds())
	}
	return nil
}

func positive(text string) (time.Duration, error) {
	d, err := parseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("must be above zero; write a duration such as 1s or 500ms")
	}
	return d, err
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		return 0, errors.New("is no duration; write a number with a unit, such as 5s, 500ms or 1m30s")
	}
	return d, nil
}

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
