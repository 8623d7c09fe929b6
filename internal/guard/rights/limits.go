package rights

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Limit is one of a process's limits on resources (getrlimit(2)).
type Limit struct {
	resource   resource
	soft, hard uint64
}

// resource is what is limited, by its number.
type resource int

// resources are all that there are, named as in getrlimit(2) without RLIMIT_.
var resources = [...]string{
	unix.RLIMIT_AS: "AS", unix.RLIMIT_CORE: "CORE", unix.RLIMIT_CPU: "CPU", unix.RLIMIT_DATA: "DATA",
	unix.RLIMIT_FSIZE: "FSIZE", unix.RLIMIT_LOCKS: "LOCKS", unix.RLIMIT_MEMLOCK: "MEMLOCK",
	unix.RLIMIT_MSGQUEUE: "MSGQUEUE", unix.RLIMIT_NICE: "NICE", unix.RLIMIT_NOFILE: "NOFILE",
	unix.RLIMIT_NPROC: "NPROC", unix.RLIMIT_RSS: "RSS", unix.RLIMIT_RTPRIO: "RTPRIO", unix.RLIMIT_RTTIME: "RTTIME",
	unix.RLIMIT_SIGPENDING: "SIGPENDING", unix.RLIMIT_STACK: "STACK",
}

// unlimited is a limit that is none; the kernel's word for it is the highest number.
const unlimited = "unlimited"

// ParseLimit reads NAME=LIMIT or NAME=SOFT:HARD. Its error is the end of a sentence that
// begins with the text.
func ParseLimit(text string) (Limit, error) {
	name, values, found := strings.Cut(text, "=")
	if !found {
		return Limit{}, errors.New("is not a limit; write NAME=LIMIT or NAME=SOFT:HARD, such as NOFILE=1024:65536")
	}
	limit := Limit{resource: -1}
	for number, known := range resources {
		if known == strings.TrimPrefix(strings.ToUpper(name), "RLIMIT_") {
			limit.resource = resource(number)
		}
	}
	if limit.resource < 0 {
		return Limit{}, fmt.Errorf("names no limit; choose %s", strings.Join(resources[:], ", "))
	}
	soft, hard, two := strings.Cut(values, ":")
	if !two {
		hard = soft
	}
	var errs [2]error
	limit.soft, errs[0] = parseAmount(soft)
	limit.hard, errs[1] = parseAmount(hard)
	switch {
	case errs[0] != nil || errs[1] != nil:
		return Limit{}, errors.New("needs whole numbers or " + unlimited + ", in the units of getrlimit(2)")
	case limit.soft > limit.hard:
		return Limit{}, errors.New("has a soft limit above its hard one; write SOFT:HARD")
	}
	return limit, nil
}

func parseAmount(text string) (uint64, error) {
	if text == unlimited {
		return math.MaxUint64, nil
	}
	return strconv.ParseUint(text, 10, 63)
}

func formatAmount(amount uint64) string {
	if amount == math.MaxUint64 {
		return unlimited
	}
	return strconv.FormatUint(amount, 10)
}

// Name returns what is limited, such as NOFILE.
func (l Limit) Name() string { return resources[l.resource] }

// String returns what ParseLimit reads.
func (l Limit) String() string {
	return l.Name() + "=" + formatAmount(l.soft) + ":" + formatAmount(l.hard)
}

// Raise raises the hard limits of this process to those of the command, which may not do
// so itself where it is another user. Its error is one line, and says which one it was.
func Raise(limits []Limit) error {
	for _, l := range limits {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(int(l.resource), &now); err != nil {
			return fmt.Errorf("%s: cannot read the limit: %w", l, err)
		}
		if l.hard <= now.Max {
			continue
		}
		raised := syscall.Rlimit{Cur: now.Cur, Max: l.hard}
		if err := syscall.Setrlimit(int(l.resource), &raised); err != nil {
			return fmt.Errorf("%s: cannot raise the hard limit above %s: %w; that needs CAP_SYS_RESOURCE, and for NOFILE "+
				"no more than /proc/sys/fs/nr_open; lower it, or raise it where berth is started", l,
				formatAmount(now.Max), err)
		}
	}
	return nil
}

func setLimits(limits []Limit) error {
	for _, l := range limits {
		// Not unix.Prlimit: of this call, package syscall knows that it is not to restore NOFILE.
		if err := syscall.Setrlimit(int(l.resource), &syscall.Rlimit{Cur: l.soft, Max: l.hard}); err != nil {
			return err
		}
	}
	return nil
}
