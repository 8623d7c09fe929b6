package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"berth/lock"
)

func TestMistakesAreNamedWithTheirOrigin(t *testing.T) {
	for _, c := range []struct {
		words string // separated by |
		sort  error
		text  string
	}{
		{"--|x", ErrUsage, "no lock is named; give --mutex, --semaphore, --persistent-mutex or --token-semaphore with"},
		{"--mutex|m", ErrUsage, "no command is named"},
		{"--mutex|m|--broker|", ErrUsage, "--broker: \"\" is not a broker"},
		{"BERTH_BROKER=rabbit|--mutex|m|--|x", ErrInvalid, "BERTH_BROKER: \"rabbit\" is not a broker"},
		{"--mutex|", ErrUsage, `--mutex "": the lock's name is empty`},
		{"BERTH_MUTEX=amq.x", ErrInvalid, `BERTH_MUTEX="amq.x": `},
		{"--mutex|a|--semaphore|b", ErrUsage, `--mutex "a" and --semaphore "b" exclude each other`},
		{"BERTH_MUTEX=a|BERTH_SEMAPHORE=b", ErrInvalid, `BERTH_MUTEX="a" and BERTH_SEMAPHORE="b" exclude each other`},
		{"--mutex|a|--mutex|b", ErrUsage, "--mutex is given 2 times"},
		{"--try|true|--timeout|1s", ErrUsage, `--try and --timeout "1s" exclude each other`},
		{"--timeout|0s", ErrUsage, "leave it out to wait for ever"},
		{"--timeout|-1s", ErrUsage, "leave it out to wait for ever"},
		{"--max-run|0s", ErrUsage, "leave it out to let the command run for ever"},
		{"--health-command|", ErrUsage, "names no program; begin with one, such as \"/usr/bin/curl\", or leave it out"},
		{"--health-command|''", ErrUsage, "names no program; begin with one, such as \"/usr/bin/curl\", or leave it out"},
		{"--health-interval|0s", ErrUsage, "must be above zero; 30s is the default"},
		{"--health-timeout|-1s", ErrUsage, "must be above zero; 30s is the default"},
		{"--health-start-period|0s", ErrUsage, "leave it out to have none"},
		{"--health-retries|0", ErrUsage, "must be a whole number from 1 to 1000; 3 is the default"},
		{"--broker|local|--mutex|m|--health-while-waiting|true|--|x", ErrUsage, "--health-while-waiting needs --health-command"},
		{"--heartbeat|0s", ErrUsage, `--heartbeat "0s": must be whole seconds`},
		{"--heartbeat|1500ms", ErrUsage, "whole seconds from 1s to 60s"},
		{"--heartbeat|61s", ErrUsage, "whole seconds from 1s to 60s"},
		{"BERTH_HEARTBEAT=x", ErrInvalid, `BERTH_HEARTBEAT="x": is not a duration`},
		{"--verify-interval|0s", ErrUsage, "must be 10ms at least"},
		{"--verify-interval|1ns", ErrUsage, "must be 10ms at least"},
		{"--verify-timeout|9999us", ErrUsage, "must be 10ms at least"},
		{"--verify-timeout|-2s", ErrUsage, "must be 10ms at least"},
		{"--timeout|999999999h", ErrUsage, "is too long; the longest duration is 2562047h"},
		{"--timeout|1hour", ErrUsage, "is not a duration"},
		{"BERTH_VERIFY_TIMEOUT=5", ErrInvalid, "number with a unit"},
		{"--stop|TERM", ErrUsage, `--stop "TERM": `},
		{"--loss|KILL 1s", ErrUsage, `--loss "KILL 1s": `},
		{"--rewrite|HUP", ErrUsage, "--rewrite: "},
		{"BERTH_TRY=maybe", ErrInvalid, `BERTH_TRY="maybe": must be true or false`},
		{"--on-loss|quit", ErrUsage, "choose retry or exit"},
		{"BERTH_PID_NAMESPACE=maybe", ErrInvalid, `BERTH_PID_NAMESPACE="maybe": must be true or false`},
		{"BERTH_IN_DOUBT=stop", ErrInvalid, "choose run or freeze"},
		{"--restart|often", ErrUsage, "choose never, on-failure or always"},
		{"--naming|A-N-L", ErrUsage, "choose N-L-A or N-A-L"},
		{"--probe|guess", ErrUsage, "choose confirm, tx or passive"},
		{"--protocol|thin", ErrUsage, "choose full or plain"},
		{"--protocol|plain|--priority|1|--broker|amqp://h|--mutex|m|--|x", ErrInvalid,
			"--protocol plain and --priority exclude each other"},
		{"--protocol|plain|--takeover|true|--broker|amqp://h|--mutex|m|--|x", ErrInvalid,
			"--protocol plain and --takeover exclude each other"},
		{"--protocol|plain|--timeout|10s|--broker|amqp://h|--mutex|m|--|x", ErrInvalid,
			"--timeout 10s is over before any command can start: with --protocol plain that takes the handover delay of " +
				"2 x --heartbeat = 10s, and a free slot; make --timeout longer"},
		{"--protocol|plain|--timeout|1ns|--broker|amqp://h|--mutex|m|--|x", ErrInvalid, "make --timeout longer"},
		{"--queue-type|stream", ErrUsage, "choose classic or quorum"},
		{"--queue-type|quorum|--protocol|plain|--broker|amqp://h|--mutex|m|--|x", ErrInvalid,
			"--protocol plain and --queue-type quorum exclude each other"},
		{"--log-level|loud", ErrUsage, "choose trace, debug, info, warn or error"},
		{"--log-format|xml", ErrUsage, "choose text or json"},
		{"--group|no such group", ErrUsage, `--group "no such group": `},
		{"--user|54321|--broker|local|--mutex|m|--|x", ErrUsage, `--user "54321": is not in this host's user database`},
		{"BERTH_USER=54321|--broker|local|--mutex|m|--|x", ErrInvalid,
			`BERTH_USER="54321": is not in this host's user database`},
		{"--on-lost|a 'b", ErrUsage, "--on-lost \"a 'b\": has a quote that is not closed"},
		{"--on-lost|  ", ErrUsage, "--on-lost \"  \": names no program"},
		{"BERTH_ON_RELEASE=a \\", ErrInvalid, `BERTH_ON_RELEASE="a \\": ends in a backslash`},
		{"--on-acquire|", ErrUsage, "names no program; begin with one, such as \"/usr/local/bin/attach\", or leave"},
		{"--on-acquire|''", ErrUsage, "names no program; begin with one, such as \"/usr/local/bin/attach\", or leave"},
		{"--mutex|m|--|", ErrUsage, "the command line's COMMAND: names no program"},
		{"--mutex|m|--|a\x00", ErrUsage, "the command line's COMMAND: has a NUL character in place 1"},
		{"--hook-timeout|0s", ErrUsage, "must be above zero"},
		{"--priority|-1", ErrUsage, `--priority "-1": must be a whole number from 0 to 100`},
		{"--priority|101", ErrUsage, "must be a whole number from 0 to 100"},
		{"--priority|x", ErrUsage, "must be a whole number from 0 to 100"},
		{"--broker|local|--priority|1|--mutex|m|--|x", ErrUsage, "needs a broker: on one host the kernel chooses the successor"},
		{"--broker|amqp://h|--takeover|true|--try|true|--mutex|m|--|x", ErrUsage, "--takeover and --try exclude each other"},
		{"--broker|amqp://h|--ready-file|f|--mutex|m|--|x", ErrUsage, "--ready-file and --ready-command need --takeover"},
		{"--broker|amqp://h|--ready-command|f|--mutex|m|--|x", ErrUsage, "--ready-file and --ready-command need --takeover"},
		{"--ready-file|", ErrUsage, "is empty; leave it out"},
		{"--mutex|m|--|x", ErrUsage, "no broker is named; give --broker URL"},
		{"--broker|local|--token-semaphore|m|--|x", ErrInvalid, "token-semaphore \"m\" needs RabbitMQ, which hands out"},
		{"--protocol|plain|--broker|amqp://h|--token-semaphore|m|--|x", ErrInvalid,
			"token-semaphore \"m\" has tokens, which are consumed, and --protocol plain consumes nothing"},
		{"--protocol|plain|--admins|a|--broker|amqp://h|--mutex|m|--|x", ErrInvalid, "--protocol plain and --admins exclude each other"},
		{"--protocol|plain|--lock-users|a|--broker|amqp://h|--mutex|m|--|x", ErrInvalid,
			"--protocol plain and --lock-users exclude each other"},
		{"--admins|", ErrUsage, "has an empty name"},
		{"--lock-users|", ErrUsage, "has an empty name"},
		{"--health-retries|1001", ErrUsage, "must be a whole number from 1 to 1000"},
		{"--health-retries|x", ErrUsage, "must be a whole number from 1 to 1000"},
		{"--health-interval|x", ErrUsage, "is not a duration"},
		{"--hook-timeout|x", ErrUsage, "is not a duration"},
		{"--directory|", ErrUsage, "is empty; leave it out"},
		{"--umask|888", ErrUsage, `--umask "888": `},
		{"--limit|NOFILE=x", ErrUsage, `--limit: "NOFILE=x" `},
		{"--limit|NOFILE=1|--limit|NOFILE=2", ErrUsage, "gives NOFILE twice"},
		{"--no-new-privileges|maybe", ErrUsage, `--no-new-privileges "maybe": must be true or false`},
		{"--heartbeat|true", ErrUsage, `--heartbeat "true": is not a duration`},
		{"--user|no such user|--group|54321|--broker|local|--mutex|m|--|x", ErrUsage, `--user "no such user": `},
		{"--restart|" + strings.Repeat("a", 60), ErrUsage, `--restart "` + strings.Repeat("a", 60) + `": is unknown`},
		{"--listen|x", ErrUsage, "must be an address and a port"},
		{"--listen|127.0.0.1:x", ErrUsage, "must end in a port"},
		{"--listen|127.0.0.1:65536", ErrUsage, "must end in a port"},
		{"--listen|example.com:1", ErrUsage, "must begin with an address of this host"},
		{"--login|basic", ErrUsage, "choose plain or external"},
		{"--login|", ErrUsage, "is empty; leave it out"},
		{"--mutex|" + strings.Repeat("a", 300), ErrUsage, `--mutex "` + strings.Repeat("a", 60) + `"...: `},
		{"BERTH_DOES_NOT=1|BERTH_COMMAND=x|--broker|local|--mutex|m", ErrUsage, "no command is named"},
		{"--config|/does/not/exist", ErrInvalid, `--config "/does/not/exist": cannot read the file: no such file`},
	} {
		_, err := Load(input(strings.Split(c.words, "|")...))
		if !errors.Is(err, c.sort) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %v with %q", c.words, err, c.sort, c.text)
		}
	}
}

func TestMistakesInTheFileAreNamedWithTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"heartbeet = \"5s\"": `:1,1: Unsupported argument: An argument named "heartbeet" is not expected here. ` +
			`Did you mean "heartbeat"?`,
		"\n\n  verify-interval = \"1s\"":          `:3,3: Unsupported argument`,
		"something = 1":                           `config.example.hcl lists every key`,
		"config = \"x\"":                          `:1,1: Unsupported argument`,
		"lock {}":                                 `:1,1: Unsupported block type`,
		"mutex = \"a\"\nmutex = \"b\"":            `:2,1: Attribute redefined`,
		"mutex = \"a\"\nsemaphore = \"b\"":        `exclude each other`,
		"mutex":                                   `:1,`,
		"mutex = 5":                               `:1,1: mutex is a number; write a string in quotes`,
		"mutex = null":                            `:1,1: mutex is null`,
		"heartbeat = 5":                           `:1,1: heartbeat is a number; write a duration in quotes`,
		"try = \"true\"":                          `:1,1: try is a string; write true or false, without quotes`,
		"try = [true]":                            `:1,1: try is a tuple; write true or false`,
		"command = \"sleep 5\"":                   `:1,1: command is a string; write strings in brackets`,
		"command = []":                            `:1,1: command: names no program`,
		"command = [\"echo\", \"a\\u0000b\"]":     `:1,1: command: has a NUL character in place 2`,
		"command = [1]":                           `in place 1`,
		"command = [\"sh\", \"echo ${HOME}\"]":    `:1,26: Variables not allowed`,
		"mutex = \"${m}\"":                        `; put text in quotes, and write "$${" for a literal "${"`,
		"broker = 5":                              `:1,1: broker is a number; write strings in brackets`,
		"command = [\"\"]":                        `:1,1: command: names no program`,
		"on_acquire = []":                         `:1,1: on_acquire: names no program`,
		"command = [\"a\", true ? null : \"b\"]":  `in place 2; write strings in brackets`,
		"priority = 1e22":                         `:1,1: priority = "10000000000000000000000": must be`,
		"command = [\"sh\", \"echo ${HOME:-x}\"]": `escape it by starting with "$${"`,
		"on_acquire = 5":                          `:1,1: on_acquire is a number; write a program and its arguments`,
		"on_acquire = [\"a\", 1]":                 `in place 2; write a program and its arguments`,
		"command = [\"a\", null]":                 `in place 2; write strings in brackets`,
		"priority = true":                         `:1,1: priority is a bool; write a whole number, without quotes`,
		"priority = 1.5":                          `:1,1: priority = "1.5": must be a whole number`,
		"priority = 1e3":                          `:1,1: priority = "1000": must be a whole number`,
		"try = 1":                                 `:1,1: try is a number; write true or false`,
		"mutex = \"%{m}\"":                        `write "%%{" for a literal "%{"`,
		"config {}":                               `config.example.hcl lists every key`,
		"json = true":                             `Unsupported argument`,
		"mutex = \"a":                             `; correct it there`,
		"user = upper(\"x\")":                     `:1,8: `,
		"broker = []":                             `:1,1: broker: is empty`,
		"\n heartbeat = \"0s\"":                   `:2,2: heartbeat = "0s": must be whole seconds`,
		"mutex = \"\"":                            `:1,1: mutex = "": the lock's name is empty`,
		"\xff\xfe":                                `:1,1: `,
	} {
		path := write(t, text)
		_, err := Load(input("--config", path))
		if !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(),
			want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// What hcl advises is the end of it.
func TestKeyThatIsMeantIsNamedLast(t *testing.T) {
	_, err := Load(input("--config", write(t, `heartbeet = "5s"`)))
	if err == nil || !strings.HasSuffix(err.Error(), `Did you mean "heartbeat"?`) {
		t.Error(err)
	}
}

func TestFirstOfSeveralMistakesInTheFileIsNamed(t *testing.T) {
	path := write(t, "aaa = 1\nbbb = 2\nccc = 3\nddd {}\n")
	for range 20 { // the order must not depend on a map
		if _, err := Load(input("--config", path)); err == nil || !strings.HasPrefix(err.Error(), path+":1,1: ") {
			t.Fatal(err)
		}
	}
}

func TestNoMessageShowsAPassword(t *testing.T) {
	for _, url := range []string{
		"http://user:sesame@h", "amqp://user:sesame@", "amqp://user:sesame@h:99999", "amqp://user:ses/ame@h:1",
		"amqp://user:sesame@h?heartbeat=5", "user:sesame@h", "amqp://user:sesame@h:port", "amqp://user:ses%ame@h",
		"amqp://user:#sesame@h",
	} {
		for _, in := range []Input{
			input("--broker", url, "--mutex", "m", "--", "x"),
			input("BERTH_BROKER="+url, "--mutex", "m", "--", "x"),
			input("--config", write(t, `broker = "`+strings.ReplaceAll(url, "%", "%%")+`"`), "--mutex", "m", "--", "x"),
		} {
			_, err := Load(in)
			if err == nil || strings.Contains(err.Error(), "ses") || strings.Contains(err.Error(), "user:") {
				t.Errorf("%s: %v", url, err)
			}
		}
	}
}

func TestPasswordThatIsCutIntoPiecesIsNotShownEither(t *testing.T) {
	for _, in := range []Input{
		input("BERTH_BROKER=amqp://bob:sesame x@rabbit"),
		input("BERTH_BROKER=amqp://bob:5672 sesame x@rabbit"),
		input("BERTH_BROKER=amqp://bob:sesame,amqp://x@rabbit"),
		input("BERTH_BROKER=bob:sesame amqp://rabbit"),
		input("--broker", "amqp://bob:sesame"),
		input("--broker", "amqp://bob:sesame/"),
		input("--broker", "bob:sesame"),
		input("--broker", "bob:sesame://x@rabbit"),
		input("--config", write(t, `broker = ["amqp://bob:sesame", "amqp://rabbit"]`)),
		input("--config", write(t, `broker = "amqp://bob:%{sesame}@rabbit"`)),
	} {
		in.Flags["mutex"], in.Command = []string{"m"}, []string{"x"}
		if _, err := Load(in); err == nil || strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(),
			"bob") {
			t.Errorf("%v: %v", in.Flags, err)
		}
	}
}

func TestParametersOfTheURLAreAccepted(t *testing.T) {
	for _, query := range []string{"auth_mechanism=plain", "tls_min_version=1.3", "server_name_indication=x",
		"connection_timeout=90000&channel_max=0", "channel_max=8", "channel_max=65535", ""} {
		if _, err := Load(input("--broker", "amqps://h/?"+query, "--mutex", "m", "--", "x")); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestBrokersThatCannotBeAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"amqp://":                    "names no host",
		"amqp://:5672":               "names no host",
		"amqp://h:0":                 "port",
		"amqp://h:65536":             "port",
		"amqp://h/?heartbeat=1":      "--heartbeat",
		"amqp://h/#x":                "%23",
		"amqp://h/a b":               "%20",
		"amqp://h/?auth_mechanism=x": "choose plain or external",
		"amqp://h/?auth_mechanism=plain&auth_mechanism=external": "more than once",
		"amqp://h/?tls_min_version=1.3":                          "write amqps://",
		"amqps://h/?tls_min_version=1.1":                         "choose 1.2 or 1.3",
		"amqp://h/?frame_max=1": "parameter that is not known; choose auth_mechanism, " +
			"connection_timeout",
		"amqp://h/?a%zz=1":                     "parameters that cannot be read",
		"amqp://h/?channel_max=x":              "channel_max that is not a number",
		"amqp://h/?channel_max=1":              "channel_max that is too low for berth; make it 8 at least",
		"amqp://h/?channel_max=7":              "or 0 for no limit",
		"rabbit:5672":                          "is not a broker",
		"local://dir":                          "three slashes",
		"local:dir":                            "three slashes",
		"local,amqp://h":                       "is not a URL",
		"LOCAL":                                "is not a broker",
		"redis://h":                            "is not a broker",
		"amqp://u:p@h:1:2":                     "more than one colon",
		"amqp://corp/alice:sesame@h:5672/prod": "%2F for a /",
		"amqp://user:12/sesame@h":              "%2F for a /",
		"amqp://u p@h":                         "",
		"amqp://h\x00":                         "",
		strings.Repeat("x", 100_000):           "is not a broker",
	} {
		_, err := Load(input("--broker", text, "--mutex", "m", "--", "x"))
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %.200v, want %q", text, err, want)
		}
		if strings.Contains(fmt.Sprint(err), "sesame") {
			t.Errorf("a password is told: %v", err)
		}
	}
	for _, beside := range []string{"amqp://h", "local"} {
		if _, err := Load(input("--broker", "local", "--broker", beside, "--mutex", "m", "--", "x")); !errors.Is(err,
			ErrUsage) {
			t.Errorf("local beside %s: %v", beside, err)
		}
	}
}

func TestUnsafeTimingsAreRefusedWithTheNumberToChange(t *testing.T) {
	for words, want := range map[string]string{
		"--heartbeat|2s": "= 5.5s, more than the lease of 2 x --heartbeat 2s = 4s; " +
			"change --heartbeat to 3s",
		"--verify-timeout|8s":                                  "change --heartbeat to 6s",
		"--verify-timeout|10m":                                 "change --verify-timeout to 6.5s at most",
		"--loss|TERM 10m, KILL":                                "change --loss to 6.5s at most",
		"--loss|TERM 2562047h, TERM 2562047h, KILL":            "so that they add up to 9.5s at most",
		"--verify-interval|2562047h|--verify-timeout|2562047h": "so that they add up to 9.5s at most",
	} {
		words := append(strings.Split(words, "|"), "--broker", "amqp://h", "--mutex", "m", "--", "x")
		if _, err := Load(input(words...)); !errors.Is(err, lock.ErrUnsafe) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", words, err, want)
		}
	}
	for _, heartbeat := range []string{"3s", "60s"} { // 5.5s fits into 6s
		if _, err := Load(input("--heartbeat", heartbeat, "--broker", "amqp://h", "--mutex", "m", "--",
			"x")); err != nil {
			t.Error(err)
		}
	}
}
