package check

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mitchellh/go-wordwrap"

	"berth/internal/timing"
	"berth/lock"
	"berth/lock/rabbit"
)

const (
	width      = 100
	scaleWidth = 24 // columns of the picture beside the timeline
)

// WriteText prints the report for people: problems and warnings first, one page.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.subject(), r.verdict())
	for _, problem := range r.Problems {
		writeItem(&b, "problem: ", problem.Error())
	}
	for _, warning := range r.Warnings {
		writeItem(&b, "warning: ", warning)
	}
	if r.broker != nil {
		b.WriteString("\n")
		r.writeBroker(&b)
	}
	if r.api != nil {
		r.writeManagement(&b)
	}
	b.WriteString("\n")
	if r.cfg.Local {
		b.WriteString("The lock holds on this host only and the kernel keeps it for as long as anything of the " +
			"command\n" +
			"can be alive, unless berth and its guard are both killed: no heartbeat, no lease, and no timing\n" +
			"to get wrong.\n")
	} else {
		r.writeTimeline(&b)
		b.WriteString("\n")
		r.writeFailover(&b)
	}
	if len(r.cfg.Hooks) > 0 {
		r.writeHooks(&b)
	}
	r.writeHealth(&b)
	r.writeCommand(&b)
	if len(r.Advice) > 0 {
		b.WriteString("\nGood to know:\n")
	}
	for _, advice := range r.Advice {
		writeItem(&b, "- ", advice)
	}
	if r.broker != nil && r.broker.Runner != "" {
		r.writePermissions(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) subject() string {
	if r.cfg.Lock.Name == "" {
		return "this configuration"
	}
	return r.cfg.Lock.String()
}

func (r *Report) verdict() string {
	switch {
	case r.cfg.Local && len(r.Problems) > 0:
		return "safe, but this host cannot carry it"
	case r.cfg.Timings().Check() != nil && !r.cfg.Local:
		return "UNSAFE"
	case r.unasked && len(r.Problems) == 1:
		return "the timings are safe; the management API could not be asked"
	case errors.Is(errors.Join(r.Problems...), lock.ErrUnreachable):
		return "the timings are safe; the broker could not be asked"
	case len(r.Problems) > 0:
		return "the timings are safe, but the broker cannot carry it"
	case r.broker != nil:
		return "safe, and the broker can carry it"
	}
	return "safe"
}

// writeItem prints a paragraph behind a mark, its lines below each other.
func writeItem(b *strings.Builder, mark, text string) {
	indent := mark
	for _, line := range strings.Split(wordwrap.WrapString(text, width-uint(len(mark))), "\n") {
		fmt.Fprintf(b, "%s%s\n", indent, line)
		indent = strings.Repeat(" ", len(mark))
	}
}

func (r *Report) writeBroker(b *strings.Builder) {
	f := r.broker
	about := strings.Join(strings.Fields(f.Product+" "+f.Version), " ")
	if f.Cluster != "" {
		about += ", cluster " + f.Cluster
	}
	if f.Platform != "" {
		about += ", " + f.Platform
	}
	fmt.Fprintf(b, "%s: %s\n", f.Broker, about)
	writeItem(b, "", login(f))
	fmt.Fprintf(b, "heartbeat %s, as asked\n", f.Heartbeat)
	switch {
	case f.Slots < 0 && f.QueueType != "":
		fmt.Fprintf(b, "%s was used before%s\n", r.cfg.Lock, queues(f.QueueType))
	case f.Slots == 1:
		fmt.Fprintf(b, "%s has 1 slot now%s\n", r.cfg.Lock, queues(f.QueueType))
	case f.Slots > 1:
		fmt.Fprintf(b, "%s has %d slots now%s\n", r.cfg.Lock, f.Slots, queues(f.QueueType))
	}
}

// writePermissions says what to permit to whom. The commands are not wrapped: they are to be pasted.
func (r *Report) writePermissions(b *strings.Builder) {
	f := r.broker
	b.WriteString("\nThis permits what 'berth run' and 'berth status' need. It replaces the user's present permissions.\n\n    " +
		f.Runner + "\n")
	if f.Administrator != "" {
		b.WriteString("\n")
		writeItem(b, "", "This also permits to administer the lock. A user of its own for that is named to all berths with "+
			"--lock-users.")
		b.WriteString("\n    " + f.Administrator + "\n")
	}
}

// login says what protects the connection, and as whom berth is logged in there.
func login(f *rabbit.Report) string {
	secure, how, as := "no TLS", "user and password (PLAIN)", ""
	if f.TLS != nil {
		secure = fmt.Sprintf("%s with %s; the broker's certificate (%s) is valid until %s", f.TLS.Version, f.TLS.Cipher,
			f.TLS.Server, f.TLS.Until.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if f.Login == "EXTERNAL" {
		how = "a certificate (EXTERNAL)"
	}
	if f.User != "" {
		as = fmt.Sprintf(" as user %q", f.User)
	}
	return fmt.Sprintf("%s; login%s with %s", secure, as, how)
}

// queues says in which queues a lock is kept that could be in others.
func queues(of rabbit.QueueType) string {
	if of == "" {
		return ""
	}
	return ", on " + string(of) + " queues"
}

func (r *Report) writeTimeline(b *strings.Builder) {
	line := timing.Timeline(r.cfg.Timings(), r.cfg.Loss)
	end := line[len(line)-1].At
	column := 0
	for _, m := range line {
		column = max(column, len(m.At.String()))
	}
	b.WriteString("When the broker falls silent right after a verification:\n\n")
	for _, m := range line {
		fmt.Fprintf(b, "  %*s  |%-*s %s\n", column, m.At, scaleWidth, scale(m.At, end), describe(m))
	}
	t := r.cfg.Timings()
	sign, verdict := "<=", ""
	if t.Check() != nil {
		sign, verdict = ">", ": too long"
	}
	fmt.Fprintf(b, "\nverify-interval %s + verify-timeout %s + loss %s + margin %s = %s %s lease %s%s\n",
		t.VerifyInterval, t.VerifyTimeout, t.Loss, timing.Margin, t.Needed(), sign, t.Lease(), verdict)
	fmt.Fprintf(b, "lease = 2 x heartbeat %s; handover delay = lease, counted from the moment the slot is won\n",
		t.Heartbeat)
}

// scale draws how far along a moment is.
func scale(at, end time.Duration) string {
	n := int(float64(at) / float64(end) * (scaleWidth - 1))
	return strings.Repeat("-", n) + "*"
}

func describe(m timing.Moment) string {
	text := map[timing.Event]string{
		timing.LastVerified: "the last verification that succeeds begins",
		timing.NextBegins:   "the next one begins",
		timing.TimesOut:     "it times out: the slot is in doubt",
		timing.LossStep:     "loss sequence: " + m.Signal,
		timing.Deadline:     "deadline: the guard kills what is left",
		timing.LeaseEnds:    "lease ends: the broker may free the slot",
		timing.NextHolder:   "earliest start of another holder",
	}[m.Event]
	if m.Late {
		text += "  <- TOO LATE"
	}
	return text
}

func (r *Report) writeFailover(b *strings.Builder) {
	b.WriteString("How long until the next holder starts:\n\n")
	rows := r.failover()
	if r.plain() {
		rows = r.plainFailover()
	}
	for _, row := range rows {
		writeRow(b, row.when, row.text)
	}
}

// row is what happens, and how long that takes.
type row struct{ when, text string }

func writeRow(b *strings.Builder, when, text string) {
	writeItem(b, fmt.Sprintf("  %-14s ", when), text)
}

func upTo(d time.Duration) string { return "up to " + d.String() }

func (r *Report) failover() []row {
	t, h := r.cfg.Timings(), r.cfg.HookTimes()
	least, most := t.Freed()
	entering := ""
	if h.OnAcquire > 0 {
		entering = fmt.Sprintf(", then on_acquire for up to %s", h.OnAcquire)
	}
	return []row{
		{inOrder(h.Turnover()),
			"after the tree is dead: the command ended, berth was told to end, or was killed and its guard was not"},
		{upTo(most + h.OnAcquire),
			"berth was stopped or hangs: the guard has the tree dead by the deadline and tells it" + entering},
		{"not at all", "the connection was cut and is back in time: the command goes on"},
		{upTo(t.Noticed() + t.Handover() + h.OnAcquire),
			"the connection was cut for good and nothing proves that the tree is dead" + entering},
		{upTo(t.Failover(h)),
			fmt.Sprintf("the host is dead or cut off in silence: freed after %s to %s, seen within %s, "+
				"then the handover delay of %s%s",
				least, most, t.Noticed(), t.Handover(), entering)},
	}
}

// plainFailover is failover where nobody can say that the tree is dead.
func (r *Report) plainFailover() []row {
	t, h := r.cfg.Timings(), r.cfg.HookTimes()
	return []row{
		{upTo(t.Noticed() + t.Handover() + h.Turnover()),
			"after the tree is dead, or the connection cut for good: a waiter sees that the slot is free, and always " +
				"waits for the handover delay"},
		{"not at all", "the connection was cut and is back before a waiter has seen that: the command goes on"},
		{upTo(t.Failover(h)),
			"berth was stopped or hangs, or the host is dead or cut off in silence"},
	}
}

// inOrder says how long it takes when nothing is wrong.
func inOrder(hooks time.Duration) string {
	if hooks == 0 {
		return "milliseconds"
	}
	return upTo(hooks)
}

func (r *Report) writeHooks(b *strings.Builder) {
	h, stop := r.cfg.HookTimes(), r.cfg.Stop.Duration()
	fmt.Fprintf(b, "\nHooks, killed after hook-timeout %s:\n\n", r.cfg.HookTimeout)
	for _, row := range []struct {
		time time.Duration
		text string
	}{
		{h.OnAcquire, "on_acquire, in the slot, before the command starts there"},
		{h.OnRelease, "on_release, in the slot, when the command is dead and before the slot is given back"},
		{h.OnLost, "on_lost, after a loss, when the command is dead and the slot given up: it delays no other berth"},
	} {
		if row.time > 0 {
			writeRow(b, upTo(row.time), row.text)
		}
	}
	writeItem(b, "", fmt.Sprintf("\nberth ends cleanly within stop %s + on_release %s = %s.", stop, h.OnRelease,
		h.Ending(stop)))
	if !r.cfg.Local {
		writeItem(b, "", "In the slot, a hook has the command's deadline: it is verified like the command, and ends by "+
			"the same loss sequence. So it adds nothing to what has to fit into the lease.")
	}
}
