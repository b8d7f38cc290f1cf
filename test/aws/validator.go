package aws

import (
	"bufio"
	"cmp"
	_ "embed" // the judge, and what is newer than the models
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"

	"datamove.dev/test/must"
)

//go:embed botocore/judge.py
var judge string

//go:embed botocore/overlay.json
var overlay string

// Validator judges requests and replies by the service models of Debian's botocore, in one process for all tests of a package.
type Validator struct {
	cmd *exec.Cmd

	mu  sync.Mutex // guards the conversation
	in  io.WriteCloser
	out *bufio.Scanner
}

const python = "/usr/bin/python3" // Debian's, which has Debian's botocore

// errNoBotocore is that there is none.
var errNoBotocore = errors.New("there is no python3-botocore: test/setup installs it")

// one is the process, from the first test that needs it until CloseValidator.
var one struct {
	once sync.Once
	*Validator
	err error
}

// NeedValidator skips the test where there is no botocore. Who needs it calls CloseValidator when all tests have ended.
func NeedValidator(t testing.TB) *Validator {
	t.Helper()
	v, err := theValidator()
	if errors.Is(err, errNoBotocore) {
		t.Skip(err)
	}
	must.Do(t, err)
	return v
}

func theValidator() (*Validator, error) {
	one.once.Do(func() { one.Validator, one.err = startValidator() })
	return one.Validator, one.err
}

// CloseValidator ends the process, if there is one.
func CloseValidator() error {
	if one.Validator == nil {
		return nil
	}
	return errors.Join(one.in.Close(), one.cmd.Wait())
}

func startValidator() (*Validator, error) {
	if err := exec.Command(python, "-I", "-c", "import botocore").Run(); err != nil {
		return nil, errNoBotocore
	}
	cmd := exec.Command(python, "-I", "-c", judge, overlay)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	return &Validator{cmd: cmd, in: in, out: lines}, cmd.Start()
}

// Judge says what is wrong with a request and its reply. A request that was refused is not judged, because it may have been refused for what is wrong with it; its refusal is.
func (v *Validator) Judge(e Exchange) ([]string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	line, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	if _, err := v.in.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	if !v.out.Scan() {
		return nil, fmt.Errorf("the judge said nothing: %w", cmp.Or(v.out.Err(), io.ErrUnexpectedEOF))
	}
	var wrong []string
	return wrong, json.Unmarshal(v.out.Bytes(), &wrong)
}

// Watch is for Options.Record: every request and reply that is wrong fails the test.
func (v *Validator) Watch(t testing.TB) func(Exchange) {
	return func(e Exchange) {
		wrong, err := v.Judge(e)
		if err != nil {
			t.Errorf("%s: %v", e.Operation, err)
		}
		for _, w := range wrong {
			t.Errorf("%s, by botocore's model: %s\nrequest: %s\nreply: %s", e.Operation, w, e.Request, e.Reply)
		}
	}
}

// Lines is for Options.Record: it writes every request and reply as a line of JSON, which botocore/judge.py reads. Credentials that the fake has given out are in it: they open nothing else.
func Lines(w io.Writer) func(Exchange) {
	to := json.NewEncoder(w)
	return func(e Exchange) { _ = to.Encode(e) } // who reads it sees where it ends
}
