package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"berth/internal/guard/rights"
)

// Name is the guard's argv[0]: what ps shows, and how main tells which program of this
// binary it is.
const Name = "berth-guard"

// Args are what a guard is started with: what may be long, beside the command's
// environment, and what must be known before a slot is won.
type Args struct {
	Conn       int                 // descriptor of the guard's end of the connection
	Cgroup     string              // directory of the control group to make, "" for none
	Credential *syscall.Credential // nil: the command runs as the user who started berth
	Rights     rights.Rights       // the command's
	Namespace  bool                // the guard is the first process of a PID namespace
	Aside      bool                // it must not have the terminal
	Blocked    uint32              // keyboard stops that the command is to have blocked, as bits of a mask
	Dir        string              // the command's working directory, "" for the guard's own
	Enter      string              // the directory that the command enters as its user in place of Dir, "" for none
	Numbered   []string            // variables that are to have the command's process number
	Path       string              // of the command's program
	Command    []string            // from argv[0] on
}

// Staged reports whether the command, with these variables and rights, is first berth's own
// program, executed as the command's user, and sets by itself what it alone can.
func Staged(numbered []string, r rights.Rights) bool { return len(numbered) > 0 || r.Staged() }

// none stands for what is not given.
const none = "-"

// The forms of Args.Namespace.
const ownNamespace, sharedNamespace = "own", none

// aside is the form of Args.Aside.
const aside = "aside"

// Strings returns the arguments, from argv[0] on.
func (a Args) Strings() []string {
	namespace := sharedNamespace
	if a.Namespace {
		namespace = ownNamespace
	}
	place := none
	if a.Aside {
		place = aside
	}
	numbered := none
	if len(a.Numbered) > 0 {
		numbered = strings.Join(a.Numbered, ",")
	}
	return append([]string{
		Name, strconv.Itoa(a.Conn), a.Cgroup, formatCredential(a.Credential), namespace, place,
		strconv.FormatUint(uint64(a.Blocked), 16), a.Dir, numbered, a.Rights.String(), a.Enter, a.Path,
	}, a.Command...)
}

// ParseArgs reads what Strings has written.
func ParseArgs(args []string) (a Args, err error) {
	if len(args) < 13 {
		return a, fmt.Errorf("arguments are missing")
	}
	a = Args{Cgroup: args[2], Namespace: args[4] == ownNamespace, Aside: args[5] == aside, Dir: args[7],
		Enter: args[10], Path: args[11], Command: args[12:]}
	if a.Conn, err = strconv.Atoi(args[1]); err != nil {
		return a, fmt.Errorf("%q is not a descriptor", args[1])
	}
	if a.Credential, err = parseCredential(args[3]); err != nil {
		return a, err
	}
	if !a.Namespace && args[4] != sharedNamespace {
		return a, fmt.Errorf("%q is not a namespace", args[4])
	}
	if !a.Aside && args[5] != none {
		return a, fmt.Errorf("%q is not a place", args[5])
	}
	blocked, err := strconv.ParseUint(args[6], 16, 32)
	if err != nil {
		return a, fmt.Errorf("%q is not a signal mask", args[6])
	}
	a.Blocked = uint32(blocked)
	if args[8] != none {
		a.Numbered = strings.Split(args[8], ",")
	}
	if a.Rights, err = rights.Parse(args[9]); err != nil {
		return a, err
	}
	return a, nil
}

// formatCredential writes user, group and supplementary groups, as in "1000,100,4,24".
func formatCredential(c *syscall.Credential) string {
	if c == nil {
		return none
	}
	var texts []string
	for _, id := range slices.Concat([]uint32{c.Uid, c.Gid}, c.Groups) {
		texts = append(texts, strconv.FormatUint(uint64(id), 10))
	}
	return strings.Join(texts, ",")
}

func parseCredential(text string) (*syscall.Credential, error) {
	if text == none {
		return nil, nil
	}
	var ids []uint32
	for part := range strings.SplitSeq(text, ",") {
		id, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is not a user and its groups", text)
		}
		ids = append(ids, uint32(id))
	}
	if len(ids) < 2 {
		return nil, fmt.Errorf("%q is not a user and its groups", text)
	}
	return &syscall.Credential{Uid: ids[0], Gid: ids[1], Groups: ids[2:]}, nil
}
