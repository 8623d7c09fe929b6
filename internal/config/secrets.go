package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// warnings says what could be better about how the broker's password is given, once for each way.
func (s *settings) warnings(values layer) (all []string) {
	for _, find := range []func(layer) string{s.shownToAll, s.readByAll, s.sentInClear} {
		if warning := find(values); warning != "" {
			all = append(all, warning)
		}
	}
	return all
}

// shownToAll is about a password among the arguments.
func (s *settings) shownToAll(values layer) string {
	if from := values["broker"]; from.sort != ErrUsage || !anyPassword(from.texts) {
		return ""
	}
	return "the password in --broker can be read by every user of this host, in the list of processes; give it with " +
		"--password-file, --broker-file, BERTH_BROKER or the file of --config"
}

// readByAll is about a file that has a password in it. A group is somebody's choice.
func (s *settings) readByAll(values layer) string {
	var files []string
	for _, name := range []string{"broker-file", "password-file"} {
		if from, given := values[name]; given {
			files = append(files, from.texts[0])
		}
	}
	from := values["broker"]
	if path := s.texts["config"]; path != nil && strings.HasPrefix(from.where, path[0]+":") && anyPassword(from.texts) {
		files = append(files, path[0])
	}
	for _, file := range files {
		if openToAll(file) {
			return fmt.Sprintf("%s has the broker's login and can be read or written by every user of this host; chmod o-rwx %s",
				file, file)
		}
	}
	return ""
}

// sentInClear is about a password that leaves this host without TLS.
func (s *settings) sentInClear(layer) string {
	for _, text := range s.Brokers {
		u, err := url.Parse(text)
		if err == nil && u.Scheme == "amqp" && hasPassword(u) && !isLoopback(u.Hostname()) {
			return fmt.Sprintf("the password goes over the network to %s without TLS; use amqps://, or keep others off "+
				"that network", u.Hostname())
		}
	}
	return ""
}

func anyPassword(texts []string) bool {
	for _, text := range texts {
		if u, err := url.Parse(strings.TrimSpace(text)); err == nil && hasPassword(u) {
			return true
		}
	}
	return false
}

// hasPassword reports whether the URL has a secret in it, which RabbitMQ's default login is not.
func hasPassword(u *url.URL) bool {
	if u.User == nil || u.User.String() == "guest:guest" {
		return false
	}
	_, given := u.User.Password()
	return given
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// openToAll reports whether every user may read or write a file: also the directories on the way let them pass.
func openToAll(path string) bool {
	const readOrWrite, pass = 0o006, 0o001
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&readOrWrite == 0 {
		return false
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode()&pass == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}
