package rig

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"datamove.dev/test/kill"
)

// KillAtCall runs the program and kills it before its n-th system call that changes a file, from 1. It returns when the
// process has ended, and how many such calls it came to; one that made fewer has come to its end.
func (p *Program) KillAtCall(t testing.TB, n int, args ...string) (r *Run, calls int) {
	t.Helper()
	r, calls = p.EachCall(t, func(_ *Run, call int) bool { return call == n }, args...)
	r.told(t, calls, "call")
	return r, calls
}

// EachCall runs the program and calls each before every system call that changes a file, with its number from 1; the
// program stands still meanwhile, at least in one thread. If it returns true, the program is killed. EachCall returns
// when the process has ended.
func (p *Program) EachCall(t testing.TB, each func(r *Run, call int) (kill bool), args ...string) (r *Run, calls int) {
	t.Helper()
	r = p.command(t, args)
	status, err := kill.Trace(r.cmd, func(c kill.Call) bool {
		calls++
		r.Read = readChars(c.PID)
		return each(r, calls)
	})
	if err != nil {
		t.Skip("can not trace a process here: ", err)
	}
	r.Exit = -1
	if status.Exited() {
		r.Exit = status.ExitStatus()
	}
	close(r.ended)
	return r, calls
}

// KillAtRequest runs the program and kills it at its n-th request to the server, from 1: before the server has it, or
// when it has done what it was asked for, which the program does not hear. It returns when the process has ended, and
// how many requests it came to.
func (p *Proxy) KillAtRequest(t testing.TB, program *Program, n int, done bool, args ...string) (r *Run, requests int) {
	t.Helper()
	var mu sync.Mutex // guards requests, and r until the process is known
	mu.Lock()
	p.Set(func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		mu.Lock()
		requests++
		dies := requests == n
		mu.Unlock()
		if !dies {
			next.ServeHTTP(w, q)
			return
		}
		if done {
			next.ServeHTTP(httptest.NewRecorder(), q)
		}
		_ = r.cmd.Process.Kill()
		panic(http.ErrAbortHandler)
	})
	r = program.Start(t, args...)
	mu.Unlock()
	r.Wait()
	p.Set(nil)
	mu.Lock()
	defer mu.Unlock()
	r.told(t, requests, "request")
	return r, requests
}

// told says where a run ended.
func (r *Run) told(t testing.TB, n int, what string) {
	t.Helper()
	end := "ended after"
	if r.Exit == -1 {
		end = "killed at"
	}
	t.Logf("%s: %s %s %d", strings.Join(r.cmd.Args[1:], " "), end, what, n)
}
