package auditlog

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"datamove.dev/mover"
)

// wire is a line as encoding/json reads it.
type wire struct {
	Sequence  uint64    `json:"sequence"`
	Kind      Kind      `json:"kind"`
	Time      time.Time `json:"time"`
	Previous  wireHash  `json:"previous"`
	Format    string    `json:"format"`
	Version   int64     `json:"version"`
	Chain     string    `json:"chain"`
	UID       *uint32   `json:"uid"`
	Actor     string    `json:"actor"`
	Agent     string    `json:"agent"`
	By        string    `json:"by"`
	Peer      string    `json:"peer"`
	Method    string    `json:"method"`
	Object    string    `json:"object"`
	Digest    wireHash  `json:"digest"`
	Locations []string  `json:"locations"`
	Decision  string    `json:"decision"`
	Code      string    `json:"code"`
	Reason    string    `json:"reason"`
	Bytes     int64     `json:"bytes"`
}

// wireHash is a hash in hexadecimal digits.
type wireHash Hash

func (h *wireHash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("a hash has %d digits", hex.EncodedLen(len(h)))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

var (
	errNoRecord = errors.New("this is no record of an audit log")
	errChanged  = errors.New("the record was changed: its text does not have its hash")
	errForm     = errors.New("this is not as a record is written")
)

// decode reads a line without its newline. Only what appendEntry would write is
// right, so that a line has one meaning for every reader.
func decode(line []byte) (e Entry, err error) {
	object, seal := unseal(line)
	if seal == nil {
		return e, errNoRecord
	}
	if hash := hashOf(object); hash.String() != string(seal) {
		return e, errChanged
	}
	var w wire
	if json.Unmarshal(object, &w) != nil {
		return e, errNoRecord
	}
	if w.Format == formatName && w.Version != version {
		return e, fmt.Errorf("%w: the log has version %d, and this program knows %d", mover.ErrUnsupported, w.Version, version)
	}
	e = w.entry()
	known := e.Kind == Decision || e.Kind == Cut || e.Kind == Header && e.Chain != ""
	if text := appendEntry(nil, &e); !known || !bytes.Equal(text[:len(text)-1], line) {
		return e, errForm
	}
	return e, nil
}

// unseal takes a line apart: what is hashed, and the digits of the hash.
func unseal(line []byte) (object, seal []byte) {
	end := len(line) - sealBytes
	if end <= 0 || !bytes.HasPrefix(line[end:], []byte(hashField)) || !bytes.HasSuffix(line, []byte(lineEnd)) {
		return nil, nil
	}
	object = append(bytes.Clone(line[:end]), '}')
	return object, line[end+len(hashField) : len(line)-len(lineEnd)]
}

func (w *wire) entry() Entry {
	e := Entry{Sequence: w.Sequence, Kind: w.Kind, Time: w.Time, Previous: Hash(w.Previous),
		Record: Record{Actor: w.Actor, Agent: w.Agent, By: w.By, Peer: w.Peer, Method: w.Method, Object: w.Object,
			Locations: w.Locations, Allowed: w.Decision == verdict(true), Code: w.Code, Reason: w.Reason},
		Digest: Hash(w.Digest), Bytes: w.Bytes, Chain: w.Chain}
	if w.UID != nil {
		e.HasUID, e.UID = true, *w.UID
	}
	return e
}
