package fsworker

import (
	"encoding/json"
	"errors"

	"datamove.dev/mover"
)

// asked is a call on its way: one JSON value after the other.
type asked struct {
	Number uint64          `json:"n"`
	Method string          `json:"method"`
	Args   json.RawMessage `json:"args"`
}

// answered is its answer; they come in any order.
type answered struct {
	Number uint64          `json:"n"`
	Reply  json.RawMessage `json:"reply,omitempty"`
	Kind   string          `json:"kind,omitempty"` // of mover, when it failed
	Text   string          `json:"text,omitempty"`
}

// failure is an error that came from a hand: the text that it had there, and its kind.
type failure struct {
	text string
	kind error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.kind }

// failed is what a caller gets for an answer.
func (a *answered) failed() error {
	if a.Kind == "" {
		return nil
	}
	return &failure{a.Text, mover.KindNamed(a.Kind)}
}

// answer is what becomes of a call.
func answer(n uint64, reply any, err error) answered {
	if err != nil {
		return answered{Number: n, Kind: mover.KindName(err), Text: err.Error()}
	}
	b, err := json.Marshal(reply)
	if err != nil {
		return answer(n, nil, errors.New("the reply can not be sent: "+err.Error()))
	}
	return answered{Number: n, Reply: b}
}
