package clock

import (
	"testing"
	"time"
)

// TestJumps: the clock goes on by the time that has passed. It takes over small steps of the machine's clock, and no jump.
func TestJumps(t *testing.T) {
	begun := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		name         string
		passed, wall time.Duration // since the clock began: by what nothing moves, and by the machine
		now, ahead   time.Duration
	}{
		{"as expected", time.Hour, time.Hour, time.Hour, 0},
		{"a small step forward is taken over", time.Hour, time.Hour + JumpLeast - 1, time.Hour + JumpLeast - 1, 0},
		{"a small step back is taken over", time.Hour, time.Hour - JumpLeast + 1, time.Hour - JumpLeast + 1, 0},
		{"a small step back before the last time is not", time.Second, -time.Second, 0, 0},
		{"a jump forward ends nothing", time.Hour, 25 * time.Hour, time.Hour, 24 * time.Hour},
		{"a jump back revives nothing", time.Hour, -23 * time.Hour, time.Hour, -24 * time.Hour},
		{"the least jump", time.Hour, time.Hour + JumpLeast, time.Hour, JumpLeast},
	} {
		passed, wall := time.Duration(0), begun
		c := New(func() time.Time { return wall }, func() time.Duration { return passed })
		c.Begin(begun)
		passed, wall = row.passed, begun.Add(row.wall)
		if now := c.Now().Sub(begun); now != row.now || c.Ahead() != row.ahead {
			t.Errorf("%s: %v since the clock began, %v ahead; want %v, %v", row.name, now, c.Ahead(), row.now, row.ahead)
		}
		passed, wall = passed+time.Minute, wall.Add(time.Minute)
		if now := c.Now().Sub(begun); now < row.now+time.Minute-JumpLeast || now > row.now+time.Minute || c.Ahead() != row.ahead {
			t.Errorf("%s, a minute later: %v since the clock began, %v ahead", row.name, now, c.Ahead())
		}
	}
}

// TestBegin: what has ended before a stop has ended after it, whatever the clock of the machine shows by then.
func TestBegin(t *testing.T) {
	stored := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, row := range []struct{ wall, want, ahead time.Duration }{
		{0, 0, 0},
		{time.Hour, time.Hour, 0}, // there was no coordinator for so long
		{-time.Hour, 0, -time.Hour},
		{-time.Second, 0, 0},
	} {
		wall, want := stored.Add(row.wall), stored.Add(row.want)
		c := New(func() time.Time { return wall }, func() time.Duration { return 0 })
		c.Begin(stored)
		if got := c.Now(); !got.Equal(want) || c.Ahead() != row.ahead {
			t.Errorf("begun at %v: %v, %v ahead; want %v, %v", wall, got, c.Ahead(), want, row.ahead)
		}
	}
}
