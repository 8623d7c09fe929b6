package witness

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"berth/prover/history"
)

// thinks is the time between a read and the write that follows from it.
const thinks = 20 * time.Millisecond

// register is what the lock protects: a number in a file, one for each slot. It stands for a store that checks fencing
// tokens (https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html): it refuses a write with a lower term
// than it has seen, and takes all that come without. It sees the terms of reads as well: between the read and the write of
// the next command, a late write would get lost.
type register struct {
	file   *os.File
	term   uint64 // of the command; 0: it was told none
	first  uint64 // that the command has read
	number uint64 // that it has read or written last
	due    int64  // when it writes the next one; 0: it has read none yet
}

// open opens the register, nil if there is none for this process.
func open(life history.Event) (*register, error) {
	dir := os.Getenv("WITNESS_REGISTER")
	if dir == "" || os.Getenv(linkVariable) != "" {
		return nil, nil
	}
	file, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(life.Slot)), os.O_CREATE|os.O_RDWR, 0o600)
	return &register{file: file, term: life.Term}, err
}

// update writes the next number if that is due, and reads in the same step, so that each write depends on all before it.
// Once one is refused none would be taken any more. It returns what the record tells: which number was read first, and which
// was written last, by all that were taken; or of one by itself that it was refused.
func (r *register) update(now int64) (told string, err error) {
	if r == nil || now < r.due || syscall.Flock(int(r.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return "", nil // the witness that has the register may stand still: once more in a millisecond
	}
	defer syscall.Flock(int(r.file.Fd()), syscall.LOCK_UN)
	const size = 64
	var number, term uint64
	if _, err := fmt.Fscan(io.NewSectionReader(r.file, 0, size), &number, &term); err != nil && err != io.EOF {
		return "", fmt.Errorf("cannot read the register: %w", err)
	}
	switch {
	case r.due == 0:
		r.first, r.number = number, number
	case 0 < r.term && r.term < term:
		r.due = math.MaxInt64
		return fmt.Sprintf(" %d %d true", r.number, r.number+1), nil
	default:
		r.number++
		told = fmt.Sprintf(" %d %d false", r.first, r.number)
	}
	r.due = now + int64(thinks)
	// One write(2) of a fixed length: a witness that is killed has written all of it, or nothing.
	_, err = r.file.WriteAt(fmt.Appendf(nil, "%20d %20d\n", r.number, max(term, r.term)), 0)
	return told, err
}
