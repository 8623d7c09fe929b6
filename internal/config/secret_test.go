package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestSecretsAreReadFromFiles(t *testing.T) {
	urls := write(t, "amqp://u@one\namqps://v:own@two:5671/w?server_name_indication=x\n")
	password := write(t, "p@ss/w:rd\n")
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"URLs": {[]string{"--broker-file", urls}, []string{"amqp://u@one",
			"amqps://v:own@two:5671/w?server_name_indication=x"}},
		"URLs and password": {[]string{"BERTH_BROKER_FILE=" + urls, "--password-file", password},
			[]string{"amqp://u:p%40ss%2Fw%3Ard@one", "amqps://v:own@two:5671/w?server_name_indication=x"}},
		"password for the variable": {[]string{"BERTH_BROKER=amqp://u@h/%2Fv", "BERTH_PASSWORD_FILE=" + password},
			[]string{"amqp://u:p%40ss%2Fw%3Ard@h/%2Fv"}},
		"a flag in the file's place": {[]string{"BERTH_BROKER_FILE=/nowhere", "--broker", "amqp://h"},
			[]string{"amqp://h"}},
		"a file in the place of URLs": {[]string{"BERTH_BROKER=amqp://h", "--broker-file", urls},
			[]string{"amqp://u@one", "amqps://v:own@two:5671/w?server_name_indication=x"}},
	} {
		run, err := Load(input(append(c.args, "--mutex", "m", "--", "x")...))
		if err != nil || !slices.Equal(run.Brokers, c.want) {
			t.Errorf("%s: %q, error %v", name, run.Brokers, err)
		}
	}
}

func TestSecretThatCannotBeUsedIsNotRepeated(t *testing.T) {
	const secret = "s3cr3t"
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no such file": {[]string{"--broker-file", "/nowhere/" + "file"}, "no such file"},
		"an empty one": {[]string{"--broker-file", write(t, "\n")}, "empty"},
		"no URL in it": {[]string{"--broker-file", write(t, secret)}, "without a URL"},
		"both":         {[]string{"--broker-file", write(t, "amqp://h"), "--broker", "amqp://h"}, "exclude"},
		"no user":      {[]string{"--broker", "amqp://h", "--password-file", write(t, secret)}, "names a user"},
		"a complete URL": {[]string{"--broker", "amqp://u:p@h", "--password-file", write(t, secret)},
			"no password"},
		"locks on this host":   {[]string{"--broker", "local", "--password-file", write(t, secret)}, "needs a broker"},
		"a password like a %%": {[]string{"--broker-file", write(t, "amqp://u:"+secret+"%%@h")}, "is not a URL"},
	} {
		_, err := Load(input(append(c.args, "--mutex", "m", "--", "x")...))
		if err == nil || !(errors.Is(err, ErrUsage) || errors.Is(err, ErrInvalid)) || !strings.Contains(err.Error(),
			c.says) {
			t.Errorf("%s: error %v", name, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error repeats it: %v", name, err)
		}
	}
}

func TestNotificationsArePassedToOneRunAlone(t *testing.T) {
	for _, more := range [][]string{{}, {"BERTH_ON_LOSS=exit", "--restart", "always"}} {
		_, err := Load(input(append(more, "--pass-notify", "true", "--broker", "local", "--mutex", "m", "--", "x")...))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "--on-loss exit") {
			t.Errorf("%q: error %v", more, err)
		}
	}
	if _, err := Load(input("--pass-notify", "true", "--on-loss", "exit", "--broker", "local", "--mutex", "m", "--",
		"x")); err != nil {
		t.Error(err)
	}
}
