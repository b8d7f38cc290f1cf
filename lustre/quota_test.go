package lustre

import "testing"

func TestLeft(t *testing.T) {
	limited := func(hard, used int64, around ...Quota) Quota {
		return Quota{Limits: Limits{HardBytes: hard, HardFiles: hard}, UsedBytes: used, UsedFiles: used, Around: around}
	}
	for _, c := range []struct {
		name string
		q    Quota
		left int64
		ok   bool
	}{
		{"no limit", limited(0, 7), 0, false},
		{"room", limited(10, 7), 3, true},
		{"over", limited(10, 17), 0, true},
		{"the outer one is nearer", limited(10, 7, limited(100, 99)), 1, true},
		{"the outer one is farther", limited(10, 7, limited(100, 9)), 3, true},
		{"only the outermost has a limit", limited(0, 7, limited(0, 8), limited(20, 9)), 11, true},
		{"the outer one is over", limited(10, 7, limited(0, 8, limited(5, 9))), 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if left, ok := c.q.LeftBytes(); left != c.left && c.ok || ok != c.ok {
				t.Errorf("%d bytes left, %v; want %d, %v", left, ok, c.left, c.ok)
			}
			if left, ok := c.q.LeftFiles(); left != c.left && c.ok || ok != c.ok {
				t.Errorf("%d files left, %v; want %d, %v", left, ok, c.left, c.ok)
			}
		})
	}
}
