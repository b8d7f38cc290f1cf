// Package must ends a test when a step fails without which it says nothing.
package must

// Do ends the test when there is an error. T is any of testing's, or one of rapid's.
func Do(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Tell has the test fail and go on when there is an error.
func Tell(t interface {
	Helper()
	Error(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
