//go:build programs

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// program is one of those of which the guide says how berth is to end them. Each gets a TERM by way of berth while it
// has work in hand: what writes the file "begun", and "done" some time later.
type program struct {
	name    string
	flags   []string // as the guide says
	files   map[string]string
	command string // for sh -c
	// prepare does what goes before, and returns variables. nil: nothing does.
	prepare func(t testing.TB, dir string) (env []string)
	// ask asks a program for its work, and returns its answer. nil: it has work without being asked.
	ask func(b *berth) (string, error)

	loses     bool // it does not finish its work
	losesTree bool // it does not where every process is told
}

const (
	patientStop = "--stop=TERM 30s, KILL"
	impatient   = "--stop=TERM 3s, KILL"
)

// inHand is work, in Python: it takes a second and a half.
const inHand = `
import os, time
def work():
    open('begun', 'w').close()
    end = time.monotonic() + 1.5
    while time.monotonic() < end: time.sleep(0.05)
    open('done', 'w').close()
    return 'done'
`

// stickler is a program of one process that ends cleanly when it is told once, and at once when it is told again.
const stickler = `
import os, signal, time
told = 0
def tell(*_):
    global told
    told += 1
    if told > 1: os._exit(3)
signal.signal(signal.SIGTERM, tell)
open('begun', 'w').close()
while not told: time.sleep(0.01)
end = time.monotonic() + 1
while time.monotonic() < end: time.sleep(0.05)
open('done', 'w').close()
`

const web = `from work import work
def app(environ, start):
    start('200 OK', [('Content-Type', 'text/plain')])
    return [work().encode()]
`

var programs = []program{
	{name: "celery", flags: []string{patientStop}, losesTree: true,
		files: map[string]string{"work.py": inHand, "tasks.py": `import os, work
from celery import Celery
app = Celery('tasks', broker=os.environ['BROKER'])
app.conf.task_default_queue = os.environ['QUEUE']
@app.task
def task(): work.work()
`},
		command: `exec python3 -m celery -A tasks worker --concurrency 2 --loglevel error`,
		prepare: celeryBroker,
		ask: func(b *berth) (string, error) {
			_, err := b.aside("/usr/bin/python3", "-c", "import tasks; tasks.task.delay()")
			return "", err
		}},
	{name: "a process pool of Python", flags: []string{patientStop}, losesTree: true,
		files: map[string]string{"work.py": inHand, "main.py": `import signal, sys
from concurrent.futures import ProcessPoolExecutor
from work import work
with ProcessPoolExecutor(2) as pool:
    future = pool.submit(work)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)) # which waits for the pool
    signal.pause()
`},
		command: `exec python3 main.py`},
	{name: "gunicorn", flags: []string{patientStop},
		files:   map[string]string{"work.py": inHand, "web.py": web},
		command: `exec gunicorn --workers 2 --bind unix:socket web:app`,
		ask:     overHTTP},
	{name: "uwsgi", flags: []string{patientStop},
		files: map[string]string{"work.py": inHand, "web.py": web},
		command: `exec uwsgi --plugin python3 --master --processes 2 --http-socket "$PWD/socket" --module web:app \
			--hook-master-start 'unix_signal:15 gracefully_kill_them_all'`,
		ask: overHTTP},
	{name: "nginx", flags: []string{"--rewrite=TERM=QUIT", "--stop=QUIT 30s, KILL"},
		files: map[string]string{"work.py": inHand, "web.py": web, "nginx.conf": `daemon off; pid nginx.pid; error_log stderr;
events {}
http { access_log off; server { listen unix:socket; location / { proxy_pass http://unix:PWD/upstream; } } }
`},
		command: `sed -i "s|PWD|$PWD|" nginx.conf; exec nginx -p "$PWD" -c nginx.conf`,
		prepare: slowUpstream, ask: overHTTP},
	{name: "php-fpm", flags: []string{"--rewrite=TERM=QUIT", "--stop=QUIT 30s, KILL"},
		files: map[string]string{"work.php": `<?php touch('begun');
for ($end = microtime(true) + 1.5; microtime(true) < $end; ) usleep(50000);
touch('done'); echo 'done';
`, "fpm.conf": `[global]
error_log = /dev/stderr
daemonize = no
process_control_timeout = 30s
[www]
user = ` + fmt.Sprint(os.Getuid()) + `
listen = PWD/socket
pm = static
pm.max_children = 2
`},
		command: `sed -i "s|PWD|$PWD|" fpm.conf; exec $(ls /usr/sbin/php-fpm* | tail -n 1) --allow-to-run-as-root --fpm-config fpm.conf`,
		ask:     overFastCGI},
	{name: "postgresql", flags: []string{"--stop=TERM 20s, INT 20s, KILL"}, losesTree: true, prepare: postgresData,
		command: `exec "$PG/postgres" -D "$PGHOST/data" -k "$PGHOST" -c listen_addresses= -c fsync=off`,
		ask:     overSQL},
	{name: "npm", flags: []string{patientStop},
		files: map[string]string{"package.json": `{"scripts": {"start": "node server.js"}}`, "server.js": `
const fs = require('fs');
fs.writeFileSync('begun', '');
process.on('SIGTERM', () => setTimeout(() => { fs.writeFileSync('done', ''); process.exit(0); }, 1000));
setInterval(() => {}, 1000);
`},
		command: `exec npm start`},
	{name: "a shell script", flags: []string{patientStop}, files: map[string]string{"stickler.py": stickler},
		command: `python3 stickler.py; true`},
	{name: "a shell script that handles TERM", flags: []string{impatient}, loses: true,
		command: `exec bash -c 'trap ": >done; exit 0" TERM; : >begun; sleep 1000'`},
	{name: "a shell script that handles TERM, and waits", flags: []string{impatient},
		command: `exec bash -c 'trap ": >done; exit 0" TERM; : >begun; sleep 1000 & wait'`},
	{name: "tini", flags: []string{patientStop}, files: map[string]string{"stickler.py": stickler},
		command: `exec tini -s -- python3 stickler.py`},
	{name: "dumb-init", flags: []string{patientStop}, files: map[string]string{"stickler.py": stickler},
		command: `exec dumb-init -- python3 stickler.py`},
	{name: "timeout", flags: []string{patientStop}, files: map[string]string{"stickler.py": stickler},
		command: `exec timeout 1h python3 stickler.py`},
	{name: "supervisord", flags: []string{patientStop}, files: map[string]string{"stickler.py": stickler,
		"supervisord.conf": `[supervisord]
nodaemon = true
logfile = /dev/null
logfile_maxbytes = 0
pidfile = supervisord.pid
[program:child]
command = python3 stickler.py
stopwaitsecs = 30
`},
		command: `exec supervisord -c supervisord.conf`},
}

// Nothing that was in hand is lost, whatever looks after it: of a master that has workers, behind a wrapper that hands
// signals on, and behind one that does not.
func TestProgramsFinishTheirWorkWhenBerthIsToldToEnd(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			if got := p.ended(t); got == p.loses {
				t.Errorf("told first: its work was finished: %t", got)
			}
		})
		t.Run(p.name+", every process told", func(t *testing.T) {
			t.Parallel()
			if got := p.ended(t, "--stop-to=tree"); got && p.losesTree {
				t.Error("its work was finished: this says nothing about --stop-to first")
			} else {
				t.Logf("its work was finished: %t", got)
			}
		})
	}
}

// ended has berth told to end, and returns whether the work in hand was finished.
func (p program) ended(t *testing.T, more ...string) bool {
	dir := t.TempDir()
	for name, text := range p.files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=/usr/bin:/usr/sbin:/bin:/sbin:" + os.Getenv("PATH")}
	if p.prepare != nil {
		env = append(env, p.prepare(t, dir)...)
	}
	b := setup{dir: dir, cwd: dir, env: env}.start(t,
		onHost.contest(t, "mutex").args(p.command, append(p.flags, more...)...)...)
	b.awaitRunning()
	answers := make(chan string, 1)
	if p.ask != nil {
		go func() {
			answer, err := p.ask(b)
			if err != nil {
				answer = err.Error()
			}
			answers <- answer
		}()
	} else {
		answers <- ""
	}
	has := func(name string) bool { return len(found(dir, name)) > 0 }
	until(t, "its work", func() bool { return has("begun") || b.ended() }, func() string {
		return fmt.Sprintf("%d answers, and it says %s", len(answers), b.stderr())
	})
	b.signal(syscall.SIGTERM)
	t.Logf("berth ended with %d", b.status())
	b.wantNothingLeft()
	answer := <-answers
	if answer != "" && answer != "done" {
		t.Logf("answered was %q", answer)
		return false
	}
	return has("done")
}

func found(dir, name string) []string {
	all, _ := filepath.Glob(filepath.Join(dir, name))
	return all
}
