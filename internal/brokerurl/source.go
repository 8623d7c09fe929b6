package brokerurl

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
)

// Source is where the URLs of nodes come from, if that can change while berth runs: files that somebody rewrites who
// rotates a password, or renews a token. The zero value cannot change.
type Source struct {
	URLs         []string `json:"urls,omitempty"`          // as given, without what PasswordFile completes
	BrokerFile   string   `json:"broker_file,omitempty"`   // has the URLs in their place, "" for none
	PasswordFile string   `json:"password_file,omitempty"` // completes them, "" for none
	Dir          string   `json:"dir,omitempty"`           // what files that URLs name are relative to

	Parameters map[string]string `json:"parameters,omitempty"` // complete them, too: see Place.Complete
}

// Changes reports whether there is a file to be read again.
func (s Source) Changes() bool { return s.BrokerFile != "" || s.PasswordFile != "" }

// Read returns the URLs as they are now. Its errors say what is wrong with which file, and repeat nothing of it. The files
// of TLS are the connection's to read: a certificate that has expired matters only to a broker that asks for it.
func (s Source) Read() ([]string, error) {
	p, urls, file := Place{dir: s.Dir}, s.URLs, s.PasswordFile
	if s.BrokerFile != "" {
		var err error
		if urls, err = p.ReadFile(s.BrokerFile); err != nil {
			return nil, fmt.Errorf("%s %w", s.BrokerFile, err)
		}
		file = s.BrokerFile
	}
	for _, text := range urls {
		if err := p.Add(text); err != nil {
			return nil, fmt.Errorf("%s: %s %w", file, Redact(text), err)
		}
	}
	if s.PasswordFile != "" {
		if err := p.AddPassword(s.PasswordFile); err != nil {
			return nil, fmt.Errorf("%s %w", s.PasswordFile, err)
		}
	}
	if p.Local {
		return nil, fmt.Errorf("%s names no RabbitMQ any more", file)
	}
	for key, value := range s.Parameters {
		if err := p.Complete(key, value); err != nil {
			return nil, fmt.Errorf("%s: %s=%s %w", file, key, value, err)
		}
	}
	return p.Brokers, nil
}

// Source returns where the brokers of the place come from. What is read from a pipe is there once.
func (p Place) Source() Source {
	s := Source{BrokerFile: p.brokerFile, PasswordFile: p.passwordFile, Dir: p.dir, Parameters: p.completed}
	switch {
	case !s.Changes(), p.incomplete != nil && p.passwordFile == "":
		return Source{}
	case s.BrokerFile == "":
		s.URLs = p.incomplete
	}
	return s
}

// Same reports whether two places are the same but for how to log in there.
func Same(a, b Place) bool {
	return a.Local == b.Local && a.Directory == b.Directory && slices.EqualFunc(a.Brokers, b.Brokers,
		func(a, b string) bool { return node(a) == node(b) })
}

// node is what a URL says of where it leads.
func node(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// again returns the absolute path of a file that can be read again, "" for one that cannot.
func again(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return ""
	}
	return path
}
