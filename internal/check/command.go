package check

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"berth/internal/guard/rights"
)

// jsonCommand is what the command is and may do. What is empty is as berth has it.
//
// Capabilities are one of noCapabilities, ofRoot and ofOthers.
type jsonCommand struct {
	User            int      `json:"user"`
	Group           int      `json:"group"`
	Groups          []int    `json:"groups"`
	Capabilities    string   `json:"capabilities"`
	NoNewPrivileges bool     `json:"no_new_privileges"`
	NoTyping        bool     `json:"no_typing"`
	Umask           string   `json:"umask"`
	Limits          []string `json:"limits"`
	Directory       string   `json:"directory"`
}

// Which capabilities a command has ("Transformation of capabilities during execve()" in
// capabilities(7)): none, or a set of berth's.
const noCapabilities, ofRoot, ofOthers = "none", "bounding", "ambient"

// command returns nil if the command is like berth in everything.
func (r *Report) command() *jsonCommand {
	cfg := r.cfg
	if cfg.Credential == nil && cfg.Rights.String() == "" && cfg.WorkingDirectory == "" {
		return nil
	}
	c := &jsonCommand{User: os.Getuid(), Group: os.Getgid(),
		NoNewPrivileges: cfg.Rights.NoNewPrivileges || rights.NoNewPrivileges(), NoTyping: cfg.Rights.NoTyping,
		Directory: cfg.WorkingDirectory, Groups: []int{}, Limits: []string{}}
	if cfg.Credential != nil {
		c.User, c.Group = int(cfg.Credential.Uid), int(cfg.Credential.Gid)
		for _, group := range cfg.Credential.Groups {
			c.Groups = append(c.Groups, int(group))
		}
	} else if own, err := os.Getgroups(); err == nil {
		c.Groups = append(c.Groups, own...)
	}
	slices.Sort(c.Groups)
	switch {
	case cfg.Rights.Confined:
		c.Capabilities = noCapabilities
	case c.User == 0:
		c.Capabilities = ofRoot
	default:
		c.Capabilities = ofOthers
	}
	if cfg.Rights.Umask != nil {
		c.Umask = rights.FormatUmask(*cfg.Rights.Umask)
	}
	for _, limit := range cfg.Rights.Limits {
		c.Limits = append(c.Limits, limit.String())
	}
	return c
}

func (r *Report) writeCommand(b *strings.Builder) {
	c := r.command()
	if c == nil {
		return
	}
	const own = "as berth's"
	groups := strings.Trim(fmt.Sprint(c.Groups), "[]")
	capabilities := map[string]string{noCapabilities: "none", ofRoot: "all of berth's bounding set, as root's command",
		ofOthers: "those in berth's ambient set"}[c.Capabilities]
	privileges, terminal := "also those of setuid programs, and of programs with capabilities in their file",
		"it may put input into it, as far as this kernel allows that (TIOCSTI)"
	if c.NoNewPrivileges {
		privileges = "no new ones: setuid programs, and those with capabilities in their file, give it none"
	}
	if c.NoTyping {
		terminal = "it may not put input into it (TIOCSTI)"
	}
	b.WriteString("\nThe command, and each hook:\n\n")
	for _, row := range []row{
		{"user", fmt.Sprintf("%d, group %d, groups %s", c.User, c.Group, groups)},
		{"capabilities", capabilities},
		{"privileges", privileges},
		{"terminal", terminal},
		{"umask", cmp.Or(c.Umask, own)},
		{"limits", cmp.Or(strings.Join(c.Limits, ", "), own)},
		{"directory", cmp.Or(c.Directory, "the one in which berth was started")},
	} {
		writeRow(b, row.when, row.text)
	}
}
