package mover

import "testing"

type inner struct{ name string }

type wrapper struct{ under any }

func (w wrapper) Unwrap() any { return w.under }

func TestAs(t *testing.T) {
	in := &inner{"in"}
	for _, row := range []struct {
		name string
		x    any
		ok   bool
	}{
		{"itself", in, true},
		{"behind one", wrapper{in}, true},
		{"behind two", wrapper{wrapper{in}}, true},
		{"not there", wrapper{wrapper{3}}, false},
		{"nothing below", wrapper{}, false},
		{"nothing at all", nil, false},
	} {
		if got, ok := As[*inner](row.x); ok != row.ok || ok && got != in {
			t.Errorf("%s: As = %v, %v", row.name, got, ok)
		}
	}
}
