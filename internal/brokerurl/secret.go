package brokerurl

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
)

// ReadFile returns the URLs of a file, to be added: what systemd hands over as a
// credential (systemd.exec(5), LoadCredential), or a container platform as a secret.
func (p *Place) ReadFile(path string) ([]string, error) {
	text, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	urls := Split(text)
	if !startsBroker(urls[0]) { // it may be a password, which is not repeated
		return nil, errors.New("names a file without a URL; write amqp://USER:PASSWORD@HOST:5672/VHOST into it")
	}
	if p.brokerFile = again(path); p.brokerFile != "" && p.dir == "" {
		p.dir, _ = os.Getwd()
	}
	return urls, nil
}

// AddPassword reads a password from a file and completes the URLs that name a user
// and none.
func (p *Place) AddPassword(path string) error {
	password, err := readSecret(path)
	if err != nil {
		return err
	}
	if p.Local {
		return errors.New("needs a broker: locks on this host have no password; leave it out")
	}
	used := false
	p.incomplete, p.passwordFile = slices.Clone(p.Brokers), again(path)
	for i, broker := range p.Brokers {
		u, err := url.Parse(broker)
		if err != nil || u.User == nil {
			continue
		}
		if _, complete := u.User.Password(); !complete {
			u.User = url.UserPassword(u.User.Username(), password)
			p.Brokers[i], used = u.String(), true
		}
	}
	if !used {
		return errors.New("is for a URL that names a user and no password, such as amqp://USER@HOST, and there is none")
	}
	return nil
}

// readSecret reads a file of one short text. The errors do not repeat it.
func readSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		var failed *fs.PathError
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return "", fmt.Errorf("cannot be read: %w; give a file that exists and that you may read", err)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", errors.New("names an empty file; write the secret into it")
	}
	return secret, nil
}
