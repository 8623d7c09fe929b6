package config

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// maxHealthRetries keeps how long a check takes countable.
const maxHealthRetries = 1000

func setHealthCommand(s *settings, texts []string) error {
	s.Health.Command = texts
	return checkCommand(texts, "such as \"/usr/bin/curl\", or leave it out to have no checks")
}

// setPositive takes a duration above zero. instead says what to do about one that is not.
func setPositive(field func(*settings) *time.Duration, instead string) func(*settings, []string) error {
	return func(s *settings, texts []string) (err error) {
		*field(s), err = ParseDuration(texts[0])
		if err == nil && *field(s) <= 0 {
			err = errors.New("must be above zero; " + instead)
		}
		return err
	}
}

func setHealthRetries(s *settings, texts []string) error {
	n, err := strconv.Atoi(texts[0])
	if err != nil || n < 1 || n > maxHealthRetries {
		return fmt.Errorf("must be a whole number from 1 to %d; 3 is the default", maxHealthRetries)
	}
	s.Health.Retries = n
	return nil
}
