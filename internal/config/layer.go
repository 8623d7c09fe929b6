package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"berth/internal/brokerurl"
)

// given is one value that somebody wrote somewhere.
type given struct {
	option Option
	texts  []string
	where  string // what messages begin with: the flag, the variable or the place in the file
	sort   error  // ErrUsage or ErrInvalid
}

// wrong returns the error for a value that was not accepted, or that what it stands beside or refers to is ErrInvalid.
func (g given) wrong(err error) error {
	sort := g.sort
	if errors.Is(err, ErrInvalid) {
		sort = ErrInvalid
	}
	return &fault{sort: sort, text: g.where + ": " + err.Error(), cause: err}
}

// split returns the value of a CommandLine as words, and others as they are.
func (g given) split() (given, error) {
	if g.option.Kind != CommandLine {
		return g, nil
	}
	words, err := splitWords(g.texts[0])
	if err != nil {
		return g, g.wrong(err)
	}
	g.texts = words
	return g, nil
}

// active reports whether the value asks for something: --try=false does not.
func (g given) active() bool {
	if g.option.Kind != Switch {
		return true
	}
	on, err := strconv.ParseBool(g.texts[0])
	return on || err != nil
}

// layer is what one source gave, by the name of the option.
type layer map[string]given

// contradiction returns an error if two values exclude each other. It is for
// merged layers: what a higher one replaces contradicts nothing any more, so
// both values are of the same source.
func (l layer) contradiction() error {
	first := map[string]given{}
	for _, option := range table {
		value, found := l[option.Name]
		if !found || option.exclusive == "" || !value.active() {
			continue
		}
		if other, twice := first[option.exclusive]; twice {
			text := fmt.Sprintf("%s and %s exclude each other; keep one of them", other.where, value.where)
			return &fault{sort: value.sort, text: text}
		}
		first[option.exclusive] = value
	}
	return nil
}

// over returns the values of low with those of l put over them. A value
// replaces the ones that it excludes.
func (l layer) over(low layer) layer {
	merged := layer{}
	for name, value := range low {
		if !l.replaces(value.option) {
			merged[name] = value
		}
	}
	for name, value := range l {
		merged[name] = value
	}
	return merged
}

func (l layer) replaces(option Option) bool {
	for _, value := range l {
		if value.option.Name == option.Name {
			return true
		}
		if option.exclusive != "" && value.option.exclusive == option.exclusive && value.active() {
			return true
		}
	}
	return false
}

func defaults() layer {
	l := layer{}
	for _, option := range table {
		if option.Default != "" {
			l[option.Name] = given{option, []string{option.Default}, "default of " + option.Flag(), ErrInvalid}
		}
	}
	return l
}

// flagLayer takes what the command line gave. command is nil if it named none.
func flagLayer(flags map[string][]string, command []string) (layer, error) {
	l := layer{}
	for _, option := range table {
		texts, found := flags[option.Name]
		if !found {
			continue
		}
		if option.Kind != List && len(texts) > 1 {
			return nil, Usagef("%s is given %d times; keep one of them", option.Flag(), len(texts))
		}
		where := option.Flag()
		if option.Kind != List && (option.Kind != Switch || texts[0] != "true") {
			where += " " + short(texts[0])
		}
		var err error
		if l[option.Name], err = (given{option, texts, where, ErrUsage}).split(); err != nil {
			return nil, err
		}
	}
	if len(command) > 0 {
		l[commandOption.Name] = given{commandOption, command, "the command line's COMMAND", ErrUsage}
	}
	return l, nil
}

// envLayer takes the environment variables. An empty one counts as not set, so
// that a unit file or a container can switch one off.
func envLayer(options []Option, lookupEnv func(string) (string, bool)) (layer, error) {
	l := layer{}
	for _, option := range options {
		if option.Env() == "" {
			continue
		}
		text, found := lookupEnv(option.Env())
		if !found || text == "" {
			continue
		}
		value, err := given{option, []string{text}, option.Env() + "=" + short(text), ErrInvalid}.split()
		if err != nil {
			return nil, err
		}
		switch option.Name {
		case "broker":
			value.where = option.Env()
			value.texts = brokerurl.Split(text)
		case "rewrite", "admins", "lock-users", "limit":
			value.texts = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
		}
		l[option.Name] = value
	}
	return l, nil
}

// short quotes a value for a message that has to stay one readable line.
func short(text string) string {
	const most = 60
	if len(text) > most {
		return strconv.Quote(strings.ToValidUTF8(text[:most], "")) + "..."
	}
	return strconv.Quote(text)
}
