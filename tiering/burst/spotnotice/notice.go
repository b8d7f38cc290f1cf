package spotnotice

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
)

// Kind is the source of a notice.
type Kind string

// The kinds.
const (
	Interruption Kind = "spot interruption"
	Rebalance    Kind = "rebalance recommendation"
	Lifecycle    Kind = "auto scaling"
	Maintenance  Kind = "scheduled maintenance"
)

// Action is what is to happen to the instance.
type Action string

// The actions.
const (
	Unknown   Action = "" // maybe nothing
	Terminate Action = "terminate"
	Stop      Action = "stop"
	Hibernate Action = "hibernate"
	Reboot    Action = "reboot"
)

// Notice is one that was given. Two are the same when they are equal.
type Notice struct {
	Kind   Kind
	Action Action
	When   time.Time // in UTC; zero is not said: it may be at any moment
}

// String says it for a log.
func (n Notice) String() string {
	text := string(n.Kind)
	if n.Action != Unknown {
		text += ": " + string(n.Action)
	}
	if !n.When.IsZero() {
		text += " at " + n.When.Format(time.RFC3339)
	}
	return text
}

// item is one thing that the metadata service is asked for.
type item struct {
	path string // below latest/meta-data
	read func(text []byte) (n Notice, given bool, err error)
}

// items are all that tell of an end, the most urgent first.
var items = []item{
	{"spot/instance-action", readInterruption},
	{"autoscaling/target-lifecycle-state", readLifecycle},
	{"events/maintenance/scheduled", readMaintenance},
	{"events/recommendations/rebalance", readRebalance},
}

// readInterruption reads {"action": "terminate", "time": "2017-09-18T08:22:00Z"}.
func readInterruption(text []byte) (n Notice, given bool, err error) {
	var said struct{ Action, Time string }
	if err := decode(text, &said); err != nil {
		return n, false, err
	}
	n = Notice{Kind: Interruption, Action: Action(said.Action)}
	if !slices.Contains([]Action{Terminate, Stop, Hibernate}, n.Action) {
		return n, false, unreadable("action %q is none of terminate, stop and hibernate", mover.Printable(said.Action))
	}
	n.When, err = timeOf(time.RFC3339, said.Time)
	return n, err == nil, err
}

// readRebalance reads {"noticeTime": "2020-10-27T08:22:00Z"}: when it was given, which is no time of an end.
func readRebalance(text []byte) (n Notice, given bool, err error) {
	var said struct{ NoticeTime string }
	if err := decode(text, &said); err != nil {
		return n, false, err
	}
	if _, err := timeOf(time.RFC3339, said.NoticeTime); err != nil {
		return n, false, err
	}
	return Notice{Kind: Rebalance}, true, nil
}

// ends are the states that an Auto Scaling group can bring an instance to, and what they mean to its processes. In the others it goes on.
var ends = map[string]Action{"Terminated": Terminate, "Warmed:Terminated": Terminate, "Warmed:Stopped": Stop, "Warmed:Hibernated": Hibernate}

// goesOn are those in which it does.
var goesOn = []string{"InService", "Detached", "Standby", "Warmed:Running"}

// readLifecycle reads the name of a state.
func readLifecycle(text []byte) (n Notice, given bool, err error) {
	state := strings.TrimSpace(string(text))
	n = Notice{Kind: Lifecycle}
	if n.Action, given = ends[state]; !given && !slices.Contains(goesOn, state) {
		err = unreadable("%q is no state of a life cycle", mover.Printable(state))
	}
	return n, given, err
}

// codes are the events that AWS schedules, and what they mean to processes of the instance: what is retired is stopped or terminated, and its own disks are lost
// both times; maintenance may end in a reboot.
var codes = map[string]Action{"instance-stop": Stop, "instance-retirement": Terminate, "instance-reboot": Reboot, "system-reboot": Reboot, "system-maintenance": Reboot}

// scheduledMost is how many scheduled events are believed.
const scheduledMost = 100

// readMaintenance reads [{"Code": "system-reboot", "NotBefore": "21 Jan 2019 09:00:43 GMT", "State": "active", ...}, ...], and returns the one that comes first.
func readMaintenance(text []byte) (n Notice, given bool, err error) {
	var said []struct{ Code, NotBefore, State string }
	if err := decode(text, &said); err != nil {
		return n, false, err
	}
	if len(said) > scheduledMost {
		return n, false, unreadable("%d events are scheduled", len(said))
	}
	for _, event := range said {
		if event.State == "completed" || event.State == "canceled" {
			continue
		}
		action, known := codes[event.Code]
		if !known {
			return n, false, unreadable("there is no event %q", mover.Printable(event.Code))
		}
		when, err := timeOf("2 Jan 2006 15:04:05 GMT", event.NotBefore)
		if err != nil {
			return n, false, err
		}
		if !given || when.Before(n.When) {
			n, given = Notice{Maintenance, action, when}, true
		}
	}
	return n, given, nil
}

// decode reads one JSON value. AWS may add to it.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(into); err != nil {
		return unreadable("%v", err)
	}
	if rest := bytes.TrimSpace(text[d.InputOffset():]); len(rest) > 0 {
		return unreadable("something comes after its end")
	}
	return nil
}

// timeOf reads a time. One of another age is none: clocks of instances are synchronised.
func timeOf(layout, text string) (time.Time, error) {
	t, err := time.Parse(layout, text)
	if err != nil || t.Year() < 2000 || t.Year() > 9999 {
		return time.Time{}, unreadable("%q is no time", mover.Printable(text))
	}
	return t.UTC(), nil
}

func unreadable(format string, args ...any) error {
	return fmt.Errorf("what the metadata service says can not be read: "+format, args...)
}
