package result_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"datamove.dev/bench/result"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func run() *result.Run {
	return &result.Run{Schema: result.Schema, ID: "0123456789abcdef", Begun: time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC), Nodes: []result.Node{{Name: "n1"}}, Phases: []result.Phase{{
		Suite: "large", Name: "write", Unit: result.Bytes, Repeat: 1, NodeCount: 1, Ranks: 2, First: result.Done{Seconds: 1, Bytes: 3e9, Ops: 3}, Last: result.Done{Seconds: 2, Bytes: 4e9, Ops: 4},
		PerNode: []result.Share{{Name: "n1", Done: result.Done{Seconds: 2, Bytes: 4e9}, Every: 1, Series: []int64{3e9, 1e9}}},
	}}}
}

// TestRead: what is written is read again; and what can not have been measured, or is no run, is refused.
func TestRead(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, run().Write(&b))
	text := b.String()
	got, err := result.Read(strings.NewReader(text))
	if err != nil || !reflect.DeepEqual(got, run()) {
		t.Errorf("%+v, %v", got, err)
	}
	for old, with := range map[string]string{
		`"bytes"`:                   `"parsecs"`,
		`datamove.run/v1`:           `datamove.run/v9`,
		`"seconds": 1`:              `"seconds": -1`,
		`"every_seconds": 1`:        `"every_seconds": -1`,
		`"ranks": 2`:                `"ranks": -2`,
		`"ops": 4`:                  `"ops": -4`,
		"{\n \"schema\"":            "[{\n \"schema\"",
		"\"schema\"":                "\"x\": 1}{\"schema\"",
		`"name": "n1",` + "\n     ": `"name": "` + strings.Repeat("n", 5000) + `",`,
	} {
		changed := strings.Replace(text, old, with, 1)
		if changed == text {
			t.Fatalf("no %s in\n%s", old, text)
		}
		if _, err := result.Read(strings.NewReader(changed)); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%s: %v", with, err)
		}
	}
}

func TestRates(t *testing.T) {
	p := &run().Phases[0]
	if p.Rate() != 2e9 || p.FirstRate() != 3e9 {
		t.Errorf("%g, %g", p.Rate(), p.FirstRate())
	}
	p.Unit = result.Ops
	if p.Rate() != 2 || p.FirstRate() != 3 {
		t.Errorf("%g, %g", p.Rate(), p.FirstRate())
	}
	if (&result.Phase{Unit: result.Ops}).Rate() != 0 {
		t.Error("a phase that has not begun has a rate")
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	_ = run().Write(&b)
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := result.Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		var again bytes.Buffer
		must.Do(t, r.Write(&again))
		if _, err := result.Read(&again); err != nil {
			t.Fatalf("what was written is refused: %v", err)
		}
	})
}
