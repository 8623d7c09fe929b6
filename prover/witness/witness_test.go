package witness_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/prover/history"
	"berth/prover/witness"
	"berth/test/process"
)

func TestMain(m *testing.M) {
	if witness.Called() {
		os.Exit(witness.Main())
	}
	os.Exit(m.Run())
}

// patience is how long is waited for what has to happen.
const patience = time.Minute

// start starts a witness that lives for no longer than lasts.
func start(t *testing.T, dir string, lasts time.Duration, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: self, Args: []string{witness.Name}, Stderr: os.Stderr}
	cmd.Env = append(env, "WITNESS_DIR="+dir, "WITNESS_CLIENT=c1",
		fmt.Sprintf("WITNESS_UNTIL=%d", history.Now()+int64(lasts)))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		end(dir)
	})
	return cmd
}

// end kills what witnesses have left, before their directory is removed.
func end(dir string) {
	self, over := process.Executable(os.Getpid()), time.Now().Add(patience)
	for none := 0; none < 10 && time.Now().Before(over); time.Sleep(time.Millisecond) { // in a row: one that has forked and ended meanwhile is not found
		left := process.WithEnvironment("WITNESS_DIR=" + dir)
		for pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if none++; len(left) > 0 || process.Begins(self) {
			none = 0
		}
	}
}

func lives(t *testing.T, dir string) history.History {
	t.Helper()
	h, err := witness.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for over := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(over) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func TestWitnessTellsWhatItWasToldAndHowLongItLived(t *testing.T) {
	const works = 50 * time.Millisecond
	for told, env := range map[string][]string{
		"slot 2, term 70": {"BERTH_SLOT=2", "BERTH_TERM=70"},
		"slot 3, term 71": {"BERTH_SLOT=2", "S=3", "T=71", "WITNESS_SLOT_VARIABLE=S", "WITNESS_TERM_VARIABLE=T"},
		"slot 0, term 0":  nil,
	} {
		until(t, "the last sign of a life is not much older than its end", func() bool { // as it may be on a busy machine
			dir := t.TempDir()
			before := history.Now()
			cmd := start(t, dir, patience, append(env, "WITNESS_FOR="+works.String())...)
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			all := lives(t, dir)
			if len(all) != 1 || witness.Began(dir, before) != 1 || witness.Began(dir, history.Now()) != 0 {
				t.Fatalf("%+v", all)
			}
			l := all[0]
			if l.Client != "c1" || l.PID != cmd.Process.Pid || l.Run == "" ||
				fmt.Sprintf("slot %d, term %d", l.Slot, l.Term) != told {
				t.Errorf("%+v, not %s", l, told)
			}
			if l.At < before || l.Until > history.Now() || !l.Worked {
				t.Errorf("%+v", l)
			}
			return l.Until-l.At >= int64(works/2)
		})
	}
}

// A lock that runs two commands at once may tell them the same.
func TestCommandsThatAreToldTheSameAreTwoRuns(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		start(t, dir, patience, "BERTH_SLOT=1", "BERTH_TERM=7")
	}
	until(t, "both live", func() bool { return len(lives(t, dir)) == 2 })
	if all := lives(t, dir); all[0].Run == all[1].Run || all[0].Term != all[1].Term {
		t.Errorf("%+v", all)
	}
}

func TestPlainWitnessEndsOnTermAndAStubbornOneOnlyWithAll(t *testing.T) {
	for mode, ends := range map[string]bool{"plain": true, "stubborn": false} {
		dir := t.TempDir()
		lasts := 2 * time.Second
		if ends {
			lasts = patience
		}
		cmd := start(t, dir, lasts, "WITNESS_MODE="+mode)
		until(t, "it lives", func() bool { all := lives(t, dir); return len(all) > 0 && all[0].Until > all[0].At })
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if (err != nil) != ends {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

func TestWitnessEndsWithItsStatusOnceItHasWorked(t *testing.T) {
	for mode, lasts := range map[string]string{"plain": "1ms", "forking": "1ms", "stubborn": ""} {
		dir := t.TempDir()
		cmd := start(t, dir, time.Second, "WITNESS_STATUS=7", "WITNESS_MODE="+mode, "WITNESS_FOR="+lasts)
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 7 {
			t.Errorf("%s: %v", mode, err)
		}
		for _, l := range lives(t, dir) {
			if first := l.PID == cmd.Process.Pid; l.Worked != first || (l.Status == 7) != first {
				t.Errorf("%s: %+v", mode, l)
			}
		}
	}
}

func TestWitnessThatWasEndedHasNotWorked(t *testing.T) {
	dir := t.TempDir()
	cmd := start(t, dir, patience, "WITNESS_STATUS=7")
	until(t, "it lives", func() bool { return len(lives(t, dir)) > 0 })
	if l := lives(t, dir)[0]; l.Worked || l.Status != 7 {
		t.Errorf("%+v", l)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if l := lives(t, dir)[0]; l.Worked || l.Status != 7 {
		t.Errorf("%+v", l)
	}
}

// What a forking witness leaves behind is of its run, with or without a term.
func TestChainsGoOnWhenTheirWitnessHasEnded(t *testing.T) {
	for _, env := range [][]string{{"BERTH_SLOT=1", "BERTH_TERM=7"}, nil} {
		dir := t.TempDir()
		cmd := start(t, dir, patience, append(env, "WITNESS_MODE=forking", "WITNESS_FOR=1ms")...)
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		at := history.Now()
		until(t, "links live on", func() bool { return len(lives(t, dir)) > 6 })
		for _, l := range lives(t, dir) {
			if l.Run != lives(t, dir)[0].Run {
				t.Errorf("%+v is of another run", l)
			}
		}
		if witness.Began(dir, 0) != 1 || witness.Began(dir, at) != 0 {
			t.Error("links count as commands")
		}
	}
}

// updates returns what witnesses did to a register, in order of the numbers.
func updates(t *testing.T, dir string) history.History {
	t.Helper()
	h := slices.DeleteFunc(lives(t, dir), func(e history.Event) bool { return e.Kind != history.Update })
	slices.SortFunc(h, func(a, b history.Event) int { return cmp.Compare(a.Wrote, b.Wrote) })
	return h
}

func TestEachWitnessGoesOnFromTheNumberOfTheLastOneOnItsSlot(t *testing.T) {
	dir, register := t.TempDir(), "WITNESS_REGISTER="+t.TempDir()
	for i, env := range []string{"BERTH_SLOT=1", "BERTH_SLOT=1", "BERTH_SLOT=2"} {
		cmd := start(t, dir, patience, env, register)
		until(t, "it has updated twice", func() bool {
			once := func(e history.Event) bool { return e.Wrote < e.Read+2 }
			return len(slices.DeleteFunc(updates(t, dir), once)) > i
		})
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	all := lives(t, dir) // each with its updates
	slices.SortStableFunc(all, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	if len(all) != 6 {
		t.Fatalf("%+v", all)
	}
	for i, read := range []uint64{0, all[1].Wrote, 0} {
		life, did := all[2*i], all[2*i+1]
		const thinks = 20 * time.Millisecond // before each
		if did.Kind != history.Update || did.Run != life.Run || did.At != life.At || did.Until > life.Until || did.Refused ||
			did.Read != read || did.Wrote < read+2 || did.Wrote > read+uint64((life.Until-life.At)/int64(thinks)) {
			t.Errorf("%+v did %+v, and not from %d on", life, did, read)
		}
	}
}

// A store with fencing tokens takes nothing of a command when it has seen the term of the next one.
func TestRegisterRefusesALowerTerm(t *testing.T) {
	dir, register := t.TempDir(), "WITNESS_REGISTER="+t.TempDir()
	start(t, dir, patience, "BERTH_TERM=7", register)
	until(t, "the first one updates", func() bool { return len(updates(t, dir)) == 1 })
	start(t, dir, patience, "BERTH_TERM=8", register)
	until(t, "the second one updates, and the first one is refused", func() bool { return len(updates(t, dir)) == 3 })
	late := slices.IndexFunc(updates(t, dir), func(e history.Event) bool { return e.Refused })
	if late < 0 {
		t.Fatalf("%+v", updates(t, dir))
	}
	all := slices.Delete(updates(t, dir), late, late+1)
	if all[0].Refused || all[1].Refused || all[0].Wrote != all[1].Read {
		t.Errorf("%+v", all)
	}
}

func TestRegisterTakesAllWithoutTerms(t *testing.T) {
	dir, register := t.TempDir(), "WITNESS_REGISTER="+t.TempDir()
	start(t, dir, patience, register)
	start(t, dir, patience, register)
	until(t, "both have written the same", func() bool {
		all := updates(t, dir)
		return len(all) == 2 && all[1].Read < all[0].Wrote
	})
	for _, e := range updates(t, dir) {
		if e.Refused {
			t.Errorf("%+v", e)
		}
	}
}

// It may be stopped while it has the register, and others would seem not to live.
func TestWitnessLivesOnWhileAnotherOneHasTheRegister(t *testing.T) {
	dir, register := t.TempDir(), t.TempDir()
	file, err := os.Create(filepath.Join(register, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	start(t, dir, patience, "WITNESS_REGISTER="+register)
	const several = 10 * 20 * time.Millisecond // updates
	until(t, "it lives on", func() bool { all := lives(t, dir); return len(all) > 0 && all[0].Until-all[0].At > int64(several) })
	if all := updates(t, dir); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	file.Close()
	until(t, "it updates", func() bool { return len(updates(t, dir)) == 1 })
}

func TestChainsUpdateNothing(t *testing.T) {
	dir, register := t.TempDir(), "WITNESS_REGISTER="+t.TempDir()
	if err := start(t, dir, patience, register, "WITNESS_MODE=forking", "WITNESS_FOR=1ms").Wait(); err != nil {
		t.Fatal(err)
	}
	until(t, "links live on", func() bool { return len(lives(t, dir)) > 6 })
	if all := updates(t, dir); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// records writes files, one per argument, and reads them.
func records(t *testing.T, files ...string) (history.History, error) {
	t.Helper()
	dir := t.TempDir()
	for i, text := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return witness.Read(dir)
}

const beginning = `{"kind":"life","client":"a","run":"a.1","pid":1,"at":1000,"until":1000}` + "\n"

func TestWhatWasCutShortIsLeftOut(t *testing.T) {
	h, err := records(t, "", strings.TrimSpace(beginning), beginning+"2000\n99", beginning)
	if err != nil || len(h) != 2 || h[0].Until != 2000 || h[1].Until != 1000 {
		t.Errorf("%+v, %v", h, err)
	}
	h, err = records(t, beginning+"2000\nworked\n", beginning+"2000\nworked")
	if err != nil || len(h) != 2 || !h[0].Worked || h[0].Until != 2000 || h[1].Worked {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestUpdatesInARowAreOneEvent(t *testing.T) {
	h, err := records(t, beginning+"1500\n2000 5 6 false\n3000 5 7 false\n3500\n4000 7 8 true\n")
	want := history.History{{Kind: history.Life, Client: "a", Run: "a.1", PID: 1, At: 1000, Until: 4000},
		{Kind: history.Update, Run: "a.1", At: 1000, Until: 3000, Read: 5, Wrote: 7},
		{Kind: history.Update, Run: "a.1", At: 3000, Until: 4000, Read: 7, Wrote: 8, Refused: true}}
	if err != nil || !reflect.DeepEqual(h, want) {
		t.Errorf("%+v, %v", h, err)
	}
}

// What was read stays so, whatever the file has there now.
func TestOnlyWhatWasAddedIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	file, all := filepath.Join(dir, "1-1"), &witness.Records{Dir: dir}
	text := `{"kind":"life","client":"c","run":"r","at":1,"until":1}` + "\n"
	if err := os.WriteFile(file, []byte(text[:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		add  string
		want []int64 // until when all lived, and updated
	}{{"", nil}, {text[20:] + "3 0 1 false\n5", []int64{3, 3}}, {"", []int64{3, 3}}, {"\n6 0 2 fal", []int64{5, 3}},
		{"se\n7 2 3 true\n", []int64{7, 6, 7}}, {"worked\n", []int64{7, 6, 7}}} {
		before, err := os.ReadFile(file)
		read := strings.LastIndexByte(string(before), '\n') + 1
		if err == nil {
			err = os.WriteFile(file, []byte(strings.Repeat("x", read)+string(before[read:])+c.add), 0o600)
		}
		h, failed := all.Read()
		if err = errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, e := range h {
			got = append(got, e.Until)
		}
		if !slices.Equal(got, c.want) || len(h) > 0 && h[0].Worked != (c.add == "worked\n") {
			t.Errorf("with %q: %+v, not %v", c.add, h, c.want)
		}
	}
}

func TestNonsenseIsAnError(t *testing.T) {
	for _, text := range []string{
		"1000\n", `{"kind":"lock","slots":1}` + "\n", beginning + "x\n", beginning + "999\n", beginning + beginning,
		beginning + "worked\n2000\n", beginning + "worked\nworked\n", "worked\n",
		beginning + "2000 x\n", beginning + "2000 0 1\n",
	} {
		if h, err := records(t, text); err == nil {
			t.Errorf("%q was read as %v", text, h)
		}
	}
}

func TestNumberThatIsNoneIsAnError(t *testing.T) {
	for _, variable := range []string{"BERTH_SLOT", "BERTH_TERM", "WITNESS_STATUS"} {
		cmd := start(t, t.TempDir(), 100*time.Millisecond, variable+"=seven")
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("%s: %v", variable, err)
		}
	}
}
