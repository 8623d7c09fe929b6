package main

import (
	"fmt"
	"os"
	"syscall"
)

// nobody is the user that owns nothing, and its group.
const nobody = 65534

// leaveRoot has this process, which answers whoever asks, be nobody if it is root's. What it needs is open by now. In
// a container whose root may not change its user it stays what it is, which is said.
func leaveRoot() {
	if os.Geteuid() != 0 {
		return
	}
	err := syscall.Setgroups([]int{}) // of all threads, as the others
	if err == nil {
		err = syscall.Setresgid(nobody, nobody, nobody)
	}
	if err == nil {
		err = syscall.Setresuid(nobody, nobody, nobody)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "berth-listen: stays root, because it may not become another user:", err)
	}
}
