package config

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/internal/guard/rights"
	"berth/internal/identity"
	"berth/internal/tty"
)

func setNoNewPrivileges(s *settings, texts []string) error {
	s.noNewPrivileges = new(bool)
	return setSwitch(func(s *settings) *bool { return s.noNewPrivileges })(s, texts)
}

// setDirectory takes a directory that is relative to the one in which berth was started.
func setDirectory(s *settings, texts []string) (err error) {
	if texts[0] == "" {
		return errors.New("is empty; leave it out")
	}
	if s.WorkingDirectory, err = filepath.Abs(texts[0]); err != nil {
		return fmt.Errorf("cannot be found from here: %w; write all of its path", err)
	}
	return nil
}

func setUmask(s *settings, texts []string) error {
	umask, err := rights.ParseUmask(texts[0])
	s.Rights.Umask = &umask
	return err
}

func setLimits(s *settings, texts []string) error {
	given := map[string]bool{}
	for _, text := range texts {
		limit, err := rights.ParseLimit(text)
		if err != nil {
			return fmt.Errorf("%s %w", short(text), err)
		}
		if given[limit.Name()] {
			return fmt.Errorf("gives %s twice; keep one of them", limit.Name())
		}
		given[limit.Name()] = true
		s.Rights.Limits = append(s.Rights.Limits, limit)
	}
	return nil
}

// setRights decides what the command may do beside what its user may. Who names a user or a
// group asks for the rights of these, and not for what berth has; root has all of its own.
func (s *settings) setRights(values layer) error {
	s.Rights.Confined = (s.user != nil || s.group != nil) && !identity.IsRoot(s.user)
	s.Rights.NoNewPrivileges = s.Rights.Confined
	if s.noNewPrivileges != nil {
		s.Rights.NoNewPrivileges = *s.noNewPrivileges
	}
	if !s.Rights.Confined {
		return nil
	}
	err := rights.CanKeepFromTyping(s.Rights.NoNewPrivileges || identity.Capable(unix.CAP_SYS_ADMIN))
	s.Rights.NoTyping = err == nil
	terminal := tty.Open()
	if terminal == nil {
		return nil
	}
	terminal.Close()
	switch {
	case err == nil:
		return nil
	case !s.Rights.NoNewPrivileges:
		return values["no-new-privileges"].wrong(errors.New("needs CAP_SYS_ADMIN at a terminal, where the command " +
			"could otherwise type into the shell that berth was started from; leave it out, or start berth without a " +
			"terminal (setsid)"))
	}
	return Invalidf("the command could type into the shell that berth was started from, and this kernel has no filter "+
		"against it (seccomp): %v; start berth without a terminal (setsid)", err)
}
