package checkpoint

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/burst/spotnotice"
	"datamove.dev/tiering/checkpoint/replicate"
)

const schemaCheckpointNotice = "datamove.checkpoint-notice/v1"

// noticing says whether the machine is asked whether it is about to go.
type noticing uint8

// The ways of it.
const (
	noticeAuto noticing = iota // once, and on where there is an answer
	noticeOn                   // again and again
	noticeOff
)

var noticeChoices = []cli.Choice[noticing]{{Word: "auto", Value: noticeAuto}, {Word: "on", Value: noticeOn}, {Word: "off", Value: noticeOff}}

// endings are what tells a watch that its machine, or its job, is about to go.
type endings struct {
	*cli.App
	notice noticing
	grace  time.Duration

	out    *cli.Lines
	format cli.Format
	last   bool // the watch has ended with an alarm
}

func (e *endings) flags(flags *pflag.FlagSet) {
	flags.Var(&cli.Chosen[noticing]{Dst: &e.notice, Choices: noticeChoices, Text: "auto"}, "notice", "ask EC2 for notices that it takes the machine: `WORD` is auto (once, and on where there is an answer), on or off")
	cli.ParsedVar(flags, &e.grace, "grace", units.ParseSpan, "when told to end, bring the newest first, for `TIME` at most")
}

// watch runs a watch until ctx ends, and then, with --grace, until the newest is home.
func (e *endings) watch(ctx context.Context, w *replicate.Watch) error {
	alarms := make(chan replicate.Alarm)
	w.Alarms, w.TellAlarm = alarms, e.tell
	within, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { e.end(ctx, within, cancel, alarms) })
	if e.notice != noticeOff {
		wg.Go(func() { e.ask(within, w.Log, alarms) })
	}
	err := w.Run(within)
	if err == nil && ctx.Err() != nil && !e.last {
		return cli.ErrInterrupted
	}
	return err
}

// end ends a watch that is told to: at once, or when the newest is home. What hangs is left when its time is over.
func (e *endings) end(ctx, within context.Context, cancel context.CancelFunc, alarms chan<- replicate.Alarm) {
	select {
	case <-ctx.Done():
	case <-within.Done():
		return
	}
	defer cancel()
	if e.grace == 0 {
		return
	}
	over := time.NewTimer(e.grace + time.Second)
	defer over.Stop()
	select {
	case alarms <- replicate.Alarm{Why: "told to end", When: time.Now().Add(e.grace), Ends: true}:
	case <-over.C:
		return
	case <-within.Done():
		return
	}
	select {
	case <-over.C:
	case <-within.Done():
	}
}

// ask asks EC2 for notices. That there is no such service is worth a line where it was to be there.
func (e *endings) ask(ctx context.Context, log *slog.Logger, alarms chan<- replicate.Alarm) {
	w := spotnotice.Watcher{Insists: e.notice == noticeOn, Log: log}
	err := w.Run(ctx, func(n spotnotice.Notice) {
		select {
		case alarms <- alarmOf(n):
		case <-ctx.Done():
		}
	})
	if err != nil && log != nil {
		log.InfoContext(ctx, "this is no machine of EC2: notices are not asked for", "err", err)
	}
}

// alarmOf is a notice to a watch.
func alarmOf(n spotnotice.Notice) replicate.Alarm {
	why := string(n.Kind)
	if n.Action != spotnotice.Unknown {
		why += ": " + string(n.Action)
	}
	return replicate.Alarm{Why: why, When: n.When}
}

// alarmView is a step of an alarm as JSON.
type alarmView struct {
	Schema  string         `json:"schema"`
	Time    time.Time      `json:"time"`
	State   replicate.Turn `json:"state"`
	Why     string         `json:"why"`
	When    *time.Time     `json:"when,omitempty"`         // absent: at any moment
	Left    *float64       `json:"left_seconds,omitempty"` // until then
	Newest  string         `json:"newest,omitempty"`       // absent: none is complete
	Missing []string       `json:"missing,omitempty"`      // targets that do not have it
	Open    []string       `json:"incomplete,omitempty"`   // newer ones: they stay
	Last    bool           `json:"last,omitempty"`         // the watch ends
}

// tell prints a step of an alarm.
func (e *endings) tell(t replicate.Told) {
	e.last = e.last || t.Last
	defer func() { _ = e.out.Flush() }() // it stays and is found at the end
	if e.format == cli.FormatJSONL {
		v := alarmView{Schema: schemaCheckpointNotice, Time: t.Time.UTC(), State: t.Turn, Why: t.Why, Newest: mover.Printable(t.Newest), Missing: t.Missing, Open: t.Open, Last: t.Last}
		if !t.When.IsZero() {
			when, left := t.When.UTC(), t.When.Sub(t.Time).Seconds()
			v.When, v.Left = &when, &left
		}
		e.out.JSON(v)
		return
	}
	if e.Quiet && (t.Turn != replicate.Over || len(t.Missing)+len(t.Open) == 0) {
		return
	}
	e.out.Printf("%s notice: %s", t.Time.Format(time.TimeOnly), cli.Shown(alarmText(t)))
}

// alarmText says it for people.
func alarmText(t replicate.Told) string {
	left := ""
	if d := t.When.Sub(t.Time); !t.When.IsZero() && d > 0 {
		left = units.Duration(d.Round(time.Second))
	}
	newest := mover.Printable(t.Newest)
	switch {
	case t.Turn == replicate.Ahead:
		return t.Why + ", in " + left
	case t.Turn == replicate.Begun:
		text := t.Why
		if left != "" {
			text += ", in " + left
		}
		if newest == "" {
			return text + "; no checkpoint is complete" + openText(t)
		}
		return text + "; " + newest + " goes first" + openText(t)
	case t.Turn == replicate.Home && left != "":
		return newest + " is home, " + left + " before the end"
	case t.Turn == replicate.Home:
		return newest + " is home"
	}
	text := t.Why + "; the time is over; "
	if left != "" {
		text = t.Why + "; the watch ends " + left + " before that; "
	}
	switch {
	case newest == "":
		text += "no checkpoint is complete"
	case len(t.Missing) == 0:
		text += newest + " is home"
	default:
		text += newest + " is not home: it is not at " + mover.Printable(strings.Join(t.Missing, ", "))
	}
	return text + openText(t)
}

// openText names what is not complete.
func openText(t replicate.Told) string {
	if len(t.Open) == 0 {
		return ""
	}
	return "; not complete, and staying: " + mover.Printable(strings.Join(t.Open, ", "))
}
