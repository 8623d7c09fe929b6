package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

const localScheme = "local"

func setBrokers(s *settings, texts []string) error {
	for _, text := range texts {
		if err := s.addBroker(strings.TrimSpace(text)); err != nil {
			return fmt.Errorf("%s %w", short(Redact(text)), err)
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

func (s *settings) addBroker(text string) error {
	if text == localScheme {
		s.Local = true
		return nil
	}
	// The reason that url.Parse gives is not passed on: it can contain pieces
	// of a password.
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("is no URL; write amqp://USER:PASSWORD@HOST:5672/VHOST, with %2F for a / in a password, %40 for an @ and so on")
	}
	switch u.Scheme {
	case localScheme:
		return s.addLocal(u)
	case "amqp", "amqps":
		return s.addAMQP(u, text)
	}
	return errors.New("is no broker; write amqp://HOST:5672/VHOST, amqps://HOST:5671/VHOST, local or local:///DIRECTORY")
}

func (s *settings) addLocal(u *url.URL) error {
	if u.Host != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !strings.HasPrefix(u.Path, "/") {
		return errors.New("names no directory; write local:///DIRECTORY with three slashes, such as local:///run/berth")
	}
	s.Local, s.Directory = true, u.Path
	return nil
}

func (s *settings) addAMQP(u *url.URL, text string) error {
	if u.Hostname() == "" {
		return fmt.Errorf("names no host; write %s://HOST:PORT/VHOST", u.Scheme)
	}
	if strings.Count(u.Host, ":") > 1 && !strings.HasPrefix(u.Host, "[") {
		return errors.New("has more than one colon after the host; write HOST:PORT, and an IPv6 address in brackets")
	}
	if port := u.Port(); port != "" {
		if number, err := strconv.Atoi(port); err != nil || number < 1 || number > 65535 {
			return errors.New("has a port that does not exist; ports go from 1 to 65535, brokers listen on 5672 or, with TLS, on 5671")
		}
	}
	if u.Fragment != "" {
		return errors.New("has a # in it; write %23 for a # in a password")
	}
	if strings.Contains(text, " ") {
		return errors.New("has a space in it; write %20")
	}
	if strings.Contains(u.EscapedPath(), "@") {
		return errors.New("has an @ behind the host; write %2F for a / in user or password, %40 for an @ in a vhost")
	}
	if err := checkQuery(u.RawQuery); err != nil {
		return err
	}
	text, err := withAbsoluteFiles(u, text)
	if err != nil {
		return err
	}
	s.Brokers = append(s.Brokers, text)
	return nil
}

// Redact returns a broker URL with user and password replaced by stars. It
// works on text that is no proper URL too. With an @ in it, everything before
// the last one goes. Without one, everything goes if a colon is followed by
// anything but a port: it can be the beginning of USER:PASSWORD@HOST.
func Redact(text string) string {
	if text == localScheme+":" {
		return text
	}
	scheme := schemeOnly().FindString(text)
	rest := text[len(scheme):]
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		return scheme + "***" + rest[at:]
	}
	if _, port, found := strings.Cut(rest, ":"); found && !portOnly().MatchString(port) {
		return scheme + "***"
	}
	return text
}

var (
	schemeOnly = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z]+://`) })
	amqpScheme = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?i:amqps?://)`) })
	portOnly   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{1,5}($|[/?#])`) })
)

// BeginsLikeBroker reports whether the text begins as the URL of a RabbitMQ does,
// in any letter case: a message that repeats it has to Redact it.
func BeginsLikeBroker(text string) bool { return amqpScheme().MatchString(text) }

// separators stand between the URLs in the environment variable.
const separators = ", \t\r\n"

// splitBrokers reads the environment variable. What separates URLs counts only
// where another one begins, because a password may have it in it: Redact does
// not recognise half a password.
func splitBrokers(text string) []string {
	var all []string
	text = strings.Trim(text, separators)
	begin := 0
	for i := range text {
		if strings.IndexByte(separators, text[i]) >= 0 && startsBroker(text[i+1:]) {
			all = append(all, strings.TrimRight(text[begin:i], separators))
			begin = i + 1
		}
	}
	return append(all, text[begin:])
}

func startsBroker(text string) bool {
	for _, scheme := range []string{"amqp://", "amqps://", localScheme + "://"} {
		if strings.HasPrefix(text, scheme) {
			return true
		}
	}
	rest, found := strings.CutPrefix(text, localScheme)
	return found && (rest == "" || strings.IndexByte(separators, rest[0]) >= 0)
}
