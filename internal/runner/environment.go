package runner

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"berth/internal/config"
)

// notifying are what systemd tells a service about notifications (sd_notify(3),
// sd_watchdog_enabled(3)).
var notifying = []string{"NOTIFY_SOCKET", watchdogPidVar, "WATCHDOG_USEC"}

const (
	watchdogPidVar = "WATCHDOG_PID"
	listenPidVar   = "LISTEN_PID"     // whom the sockets are for (sd_listen_fds(3))
	pidfdVar       = "LISTEN_PIDFDID" // since systemd 258
)

// private are variables that the command does not get: secrets, what is true of
// berth's process alone, and what it is told about its own slot.
func private(name string) bool {
	switch name {
	case pidfdVar:
		return true // it names berth too, and without it LISTEN_PID alone counts
	case "BERTH_NAME", "BERTH_KIND", "BERTH_SLOT", "BERTH_TERM", "BERTH_HOLDER", "BERTH_REASON":
		return true
	}
	return strings.HasPrefix(name, "BERTH_BROKER") || strings.HasPrefix(name, "BERTH_PASSWORD")
}

// commandEnv returns the environment of the command, and of the guard. With
// --user it says who that is, as in a unit with User= (systemd.exec(5)): what
// writes into HOME would otherwise fail, or write into somebody else's. What
// systemd tells berth about notifications is berth's, unless it is passed on.
// PWD is berth's directory, which programs that trust it would take for theirs.
func commandEnv(own []string, cfg config.Run) []string {
	var env []string
	for _, variable := range own {
		name, _, _ := strings.Cut(variable, "=")
		identity := name == "HOME" || name == "USER" || name == "LOGNAME"
		kept := slices.Contains(notifying, name) && !cfg.PassNotify
		elsewhere := name == "PWD" && cfg.WorkingDirectory != ""
		if !private(name) && !(identity && cfg.Account != nil) && !kept && !elsewhere {
			env = append(env, variable)
		}
	}
	if cfg.Account != nil {
		env = append(env, "HOME="+cfg.Account.Home, "USER="+cfg.Account.Name, "LOGNAME="+cfg.Account.Name)
	}
	if cfg.WorkingDirectory != "" {
		env = append(env, "PWD="+cfg.WorkingDirectory)
	}
	return env
}

// numbered returns the variables that say by berth's process number that something
// is for berth, and so for the command in its place.
func numbered(env []string) (names []string) {
	for _, name := range []string{listenPidVar, watchdogPidVar} {
		if slices.Contains(env, name+"="+strconv.Itoa(os.Getpid())) {
			names = append(names, name)
		}
	}
	return names
}
