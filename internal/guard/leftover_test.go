package guard

import "testing"

// Numbers of processes come around: a later guard has the number of one that was
// killed before it could remove its group, and what is forked into a group that
// was killed dies at once.
func TestControlGroupThatWasLeftBehindIsNotUsedAgain(t *testing.T) {
	path := newGroup()
	left := makeCgroup(path)
	if left == nil {
		t.Fatal("no control group can be made here; this test needs a cgroup v2 hierarchy, and root")
	}
	defer left.remove()
	left.kill()
	if makeCgroup(path) != nil {
		t.Error("a group that exists already is used")
	}
	if newGroup() == path {
		t.Error("two guards have one group")
	}
}
