package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// logged makes a logger and returns its lines.
func logged(t *testing.T, format string, level slog.Leveler) (*slog.Logger, func() []string) {
	t.Helper()
	var text bytes.Buffer
	log := must.Get(Logger(&text, format, level))(t)
	return log, func() []string {
		all := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
		text.Reset()
		if len(all) == 1 && all[0] == "" {
			return nil
		}
		return all
	}
}

func TestFormats(t *testing.T) {
	log, lines := logged(t, "json", slog.LevelInfo)
	log.Debug("not told")
	log.With("task", "17").Info("led", "bytes", 7)
	var line map[string]any
	if all := lines(); len(all) != 1 || json.Unmarshal([]byte(all[0]), &line) != nil || line["msg"] != "led" || line["task"] != "17" || line["bytes"] != 7.0 {
		t.Errorf("json: %v", line)
	}
	log, lines = logged(t, "text", slog.LevelInfo)
	log.Info("led", "name", "two\nlines")
	if all := lines(); len(all) != 1 || !strings.Contains(all[0], `msg=led name="two\nlines"`) {
		t.Errorf("text: %q", all)
	}
	if _, err := Logger(nil, "xml", slog.LevelInfo); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("xml: %v", err)
	}
	level := new(slog.LevelVar)
	log, lines = logged(t, "text", level)
	log.Debug("no")
	level.Set(slog.LevelDebug)
	log.Debug("yes")
	if all := lines(); len(all) != 1 || !strings.Contains(all[0], "msg=yes") {
		t.Errorf("after another level: %q", all)
	}
}

func TestRepetitionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := logged(t, "text", slog.LevelDebug)
		one, two := log.With("task", "1"), log.With("task", "2")
		for i := range 25 {
			one.Warn("copy failed, will retry", "name", fmt.Sprint("f", i))
		}
		two.Warn("copy failed, will retry", "name", "f")
		one.Error("copy failed, will retry")
		one.Warn("copy failed for good")
		for range 25 {
			one.Info("copy failed, will retry")
		}
		if n := len(lines()); n != repeatMost+1+1+1+25 {
			t.Errorf("%d lines", n)
		}
		time.Sleep(repeatWindow)
		log.Info("something else") // tells of the lines that are missing
		all := lines()
		if len(all) != 2 || !strings.Contains(all[0], `msg="copy failed, will retry" task=1 repeated=15`) || !strings.Contains(all[0], "level=WARN") {
			t.Errorf("after a minute: %q", all)
		}
		one.Warn("copy failed, will retry")
		log.Info("nothing is missing any more")
		if n := len(lines()); n != 2 {
			t.Errorf("a new minute: %d lines", n)
		}
	})
}

// TestSameLinesAreFolded: what is said every ten seconds for a quarter of an hour is a
// handful of lines, and what differs is said.
func TestSameLinesAreFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := logged(t, "text", slog.LevelInfo)
		say := func(i int, who, why string) {
			log.Warn("the coordinator can not be heard", "agent", who, "err", fmt.Errorf("dial tcp [::1]:7645: from port %d: %s", 40000+i, why), "again in", time.Duration(i)*time.Second)
		}
		for i := range 90 {
			say(i, "n1", "the agent was forgotten")
			time.Sleep(10 * time.Second)
		}
		all := lines()
		if len(all) != 4 || !strings.Contains(all[1], "repeated=5") || !strings.Contains(all[2], "repeated=11") || !strings.Contains(all[3], "repeated=23") {
			t.Errorf("%d lines:\n%s", len(all), strings.Join(all, "\n"))
		}
		say(0, "n2", "the agent was forgotten")
		say(0, "n1", "connection refused")
		log.Info("the coordinator can not be heard")
		log.Info("the coordinator can not be heard")
		if n := len(lines()); n != 4 {
			t.Errorf("%d lines of what differs", n)
		}
		time.Sleep(time.Hour)
		say(0, "n1", "the agent was forgotten")
		if all := lines(); len(all) != 1 || strings.Contains(all[0], "repeated") {
			t.Errorf("an hour later: %q", all)
		}
	})
}

// However many different texts there are, the memory for them is bounded.
func TestTextsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := logged(t, "text", slog.LevelDebug)
		for i := range 3 * repeatTexts {
			log.Warn(fmt.Sprint("text ", i))
		}
		if n := len(lines()); n != 3*repeatTexts {
			t.Errorf("%d lines", n)
		}
		if n := len(log.Handler().(limited).repeats.seen); n != repeatTexts {
			t.Errorf("%d texts are watched", n)
		}
		time.Sleep(repeatWindow)
		log.Info("a minute later")
		if n := len(log.Handler().(limited).repeats.seen); n != 0 {
			t.Errorf("%d texts are still watched", n)
		}
	})
}
