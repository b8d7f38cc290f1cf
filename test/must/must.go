// Package must ends a test when a step fails without which it says nothing.
package must

// fatal is a test, a benchmark, a fuzz target, or a check of rapid.
type fatal interface {
	Helper()
	Fatal(args ...any)
}

// Do ends the test when there is an error.
func Do(t fatal, err error) {
	if err != nil {
		t.Helper() // it costs a look at the stack
		t.Fatal(err)
	}
}

// Get returns the value that a call returns beside its error, and ends the test when there is one: must.Get(os.ReadFile(name))(t).
func Get[V any](v V, err error) func(t fatal) V {
	return func(t fatal) V {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}

// Tell has the test fail and go on when there is an error.
func Tell(t interface {
	Helper()
	Error(args ...any)
}, err error) {
	if err != nil {
		t.Helper()
		t.Error(err)
	}
}
