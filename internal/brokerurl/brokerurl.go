// Package brokerurl reads the URLs that say where locks live: the nodes of a RabbitMQ,
// or this host.
//
//	var place brokerurl.Place
//	err := place.Add("amqp://user:password@rabbit.example.com")
//
// What is wrong with one is found here and not by a connection, which would try again
// for ever. Passwords stay here: no error repeats a URL, and Redact is for those that
// do. Errors are the end of a sentence that begins with what the user wrote.
package brokerurl

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

// Place is where locks live. The zero value is nowhere.
type Place struct {
	// Brokers are the nodes of one cluster, tried in turn: amqp:// and amqps://
	// URLs, passwords included, so never to be printed. Empty if Local is set.
	Brokers []string

	// Local says that locks hold on this host only, without a broker.
	Local bool

	// Directory is where local locks are kept, an absolute path. Empty means
	// the local backend's default.
	Directory string

	brokerFile, passwordFile string            // see Source; absolute, "" for none
	incomplete               []string          // Brokers without the password of passwordFile
	completed                map[string]string // see Complete
	dir                      string            // what files that URLs name are relative to; "": the working directory
}

// Add adds what a URL says, or the word "local".
func (p *Place) Add(text string) error {
	if text == localScheme {
		p.Local = true
		return nil
	}
	// The reason that url.Parse gives is not passed on: it can contain pieces
	// of a password.
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("is not a URL; write amqp://USER:PASSWORD@HOST:5672/VHOST, with %2F for a / in a " +
			"password, %40 for an @ and so on")
	}
	switch u.Scheme {
	case localScheme:
		return p.addLocal(u)
	case "amqp", "amqps":
		return p.addAMQP(u, text)
	}
	return errors.New("is not a broker; write amqp://HOST:5672/VHOST, amqps://HOST:5671/VHOST, local " +
		"or local:///DIRECTORY")
}

func (p *Place) addLocal(u *url.URL) error {
	if u.Host != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !strings.HasPrefix(u.Path, "/") {
		return errors.New("names no directory; write local:///DIRECTORY with three slashes, such as local:///run/berth")
	}
	p.Local, p.Directory = true, u.Path
	return nil
}

func (p *Place) addAMQP(u *url.URL, text string) error {
	if u.Hostname() == "" {
		return fmt.Errorf("names no host; write %s://HOST:PORT/VHOST", u.Scheme)
	}
	if strings.Count(u.Host, ":") > 1 && !strings.HasPrefix(u.Host, "[") {
		return errors.New("has more than one colon after the host; write HOST:PORT, and an IPv6 address in brackets")
	}
	if port := u.Port(); port != "" {
		if number, err := strconv.Atoi(port); err != nil || number < 1 || number > 65535 {
			return errors.New("has a port that does not exist; ports go from 1 to 65535, brokers listen on " +
				"5672 or, with TLS, on 5671")
		}
	}
	if u.Fragment != "" {
		return errors.New("has a # in it; write %23 for a # in a password")
	}
	if strings.Contains(text, " ") {
		return errors.New("has a space in it; write %20")
	}
	if strings.Contains(u.EscapedPath()+u.RawQuery, "@") { // what is in front of it can be the end of a password
		return errors.New("has an @ behind the host; write %2F for a / and %3F for a ? in user or password, %40 for " +
			"an @ in a vhost or parameter")
	}
	if err := checkQuery(u); err != nil {
		return err
	}
	query := u.Query()
	for _, key := range files {
		path, err := p.absolute(key, query.Get(key))
		if err != nil {
			return err
		}
		if path != query.Get(key) {
			query.Set(key, path)
			text = withQuery(text, query)
		}
	}
	p.Brokers = append(p.Brokers, text)
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
	portOnly   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{1,5}($|[/?#])`) })
)

// BeginsLikeOne reports whether the text begins as the URL of a RabbitMQ does,
// in any letter case: a message that repeats it has to Redact it.
func BeginsLikeOne(text string) bool {
	text = strings.ToLower(text)
	return strings.HasPrefix(text, "amqp://") || strings.HasPrefix(text, "amqps://")
}

// separators stand between the URLs of a text.
const separators = ", \t\r\n"

// Split returns the URLs of a text: of the environment variable, or a file. What separates URLs counts only
// where another one begins, because a password may have it in it: Redact does
// not recognise half a password.
func Split(text string) []string {
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
