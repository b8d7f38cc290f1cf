package budget

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// chain is the first half of a SHA-256 over the chain of the line before and the entry of this one, byte for byte as it is written.
type chain [16]byte

// first is before the first line, and says which format this is.
var first = next(chain{}, []byte("datamove budget ledger, format 1"))

func next(before chain, entry []byte) (c chain) {
	h := sha256.New()
	h.Write(before[:])
	h.Write(entry)
	copy(c[:], h.Sum(nil))
	return c
}

const (
	lineHead = `{"chain":"`
	lineMid  = `","entry":`
	lineTail = "}\n"

	// lineMost bounds a line: an entry has at most 2 KiB of text, of which JSON makes six times as much.
	lineMost = 16 << 10
)

// appendLine writes the line of an entry behind text, and returns the chain up to it.
func appendLine(text []byte, before chain, e Entry) ([]byte, chain, error) {
	entry, err := json.Marshal(e)
	if err != nil {
		return nil, before, err
	}
	c := next(before, entry)
	text = append(text, lineHead...)
	text = hex.AppendEncode(text, c[:])
	text = append(text, lineMid...)
	text = append(text, entry...)
	return append(text, lineTail...), c, nil
}

// errLine says what is wrong with a line.
var errLine = errors.New("is damaged")

// parseLine is the inverse of appendLine. A byte that is not as it was written does not fit the chain.
func parseLine(line []byte, before chain) (e Entry, c chain, err error) {
	head := len(lineHead) + 2*len(c)
	if len(line) < head+len(lineMid)+len(lineTail) || string(line[:len(lineHead)]) != lineHead || string(line[head:head+len(lineMid)]) != lineMid || !bytes.HasSuffix(line, []byte(lineTail)) {
		return e, c, errLine
	}
	entry := line[head+len(lineMid) : len(line)-len(lineTail)]
	if c = next(before, entry); hex.EncodeToString(c[:]) != string(line[len(lineHead):head]) {
		return e, c, fmt.Errorf("%w: its checksum does not fit it and the lines before", errLine)
	}
	d := json.NewDecoder(bytes.NewReader(entry))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, c, fmt.Errorf("has an entry that this version can not read: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return e, c, errLine
	}
	return e, c, nil
}
