package management

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"berth/lock"
)

const (
	// pageSize is the most that RabbitMQ gives at once.
	pageSize = 500
	// maxPages bounds what is asked for: far more queues than a node can have.
	maxPages = 2000
)

// Locks returns the locks that are there: semaphores with slot 1, and mutexes that somebody holds. Errors:
// ErrUnreachable, ErrDenied, ErrUnknown.
func Locks(ctx context.Context, access Access) ([]lock.ID, error) {
	a, err := access.open(ctx)
	if err != nil {
		return nil, err
	}
	found := newQueues(access.NAL)
	for number := 1; number <= maxPages; number++ {
		query := url.Values{"page": {strconv.Itoa(number)}, "page_size": {strconv.Itoa(pageSize)}}
		page, err := ask(a, "name,arguments", func(c *rabbithole.Client) (rabbithole.PagedQueueInfo, error) {
			return c.PagedListQueuesWithParametersIn(a.vhost, query)
		})
		if err != nil {
			return nil, err
		}
		found.add(page.Items)
		if number >= page.PageCount {
			return found.locks(), nil
		}
	}
	return nil, lock.Errorf(lock.ErrUnknown, "the management API lists more queues than %d", maxPages*pageSize)
}

// queues are those of locks. newQueues makes it.
type queues struct {
	form  *regexp.Regexp   // of their names
	exist map[lock.ID]bool // locks of which slot 1 exists (A)
	held  map[string]bool  // names of locks whose slot 1 is held (B)
}

func newQueues(nal bool) *queues {
	form := `^(.+)-1-([AB])$`
	if nal {
		form = `^(.+)-([AB])-1$`
	}
	return &queues{form: regexp.MustCompile(form), exist: map[lock.ID]bool{}, held: map[string]bool{}}
}

// kinds are those of locks whose queues have names of their own, by how these go on after the lock's; see protocol.md.
var kinds = map[string]lock.Kind{
	"-K": lock.TokenSemaphore, "-Q": lock.TokenSemaphore, "-Q-M": lock.Mutex, "-Q-P": lock.PersistentMutex,
}

func (q *queues) add(all []rabbithole.QueueInfo) {
	for _, queue := range all {
		parts := q.form.FindStringSubmatch(queue.Name)
		length, limited := queue.Arguments["x-max-length"].(float64)
		if parts == nil || !limited || length != 0 || queue.Arguments["x-overflow"] != "drop-head" {
			continue
		}
		id := lock.ID{Kind: lock.Semaphore, Name: parts[1]}
		for suffix, kind := range kinds {
			if name, found := strings.CutSuffix(parts[1], suffix); found {
				id = lock.ID{Kind: kind, Name: name}
			}
		}
		switch {
		case id.Check() != nil:
		case parts[2] == "A":
			q.exist[id] = true
		case id.Kind == lock.Semaphore:
			q.held[id.Name] = true
		}
	}
}

// locks returns the locks in the order of their names. What is held, and does not exist beside, is a mutex.
func (q *queues) locks() (ids []lock.ID) {
	for name := range q.held {
		if !q.exist[lock.ID{Kind: lock.Semaphore, Name: name}] {
			q.exist[lock.ID{Kind: lock.Mutex, Name: name}] = true
		}
	}
	ids = slices.Collect(maps.Keys(q.exist))
	slices.SortFunc(ids, func(a, b lock.ID) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(string(a.Kind), string(b.Kind)))
	})
	return ids
}
