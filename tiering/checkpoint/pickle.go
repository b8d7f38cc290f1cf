package checkpoint

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

// A pickle is not unpickled here, because that runs what it says. It is read as what it is: opcodes, each with an argument of a known length. Of these, the strings and small numbers are
// looked at (cpython 3.13, Lib/pickletools.py; protocols 0 to 5).

const (
	pickleProto  = 0x80
	pickleLast   = 5    // the latest protocol
	pickledShort = 1024 // bytes; of a longer string nothing is kept
)

// Errors of what is read as a pickle.
var (
	errPickle = errors.New("is no pickle, or one of a later protocol")
	errOpcode = errors.New("has what is no opcode")
	errBlank  = errors.New("has zeros where there is no opcode")
)

// argument is how an opcode's argument is laid out: so many bytes, or as many as stand in a number of so many bytes, or lines.
type argument struct{ fixed, counted, lines int }

// pickleArguments are those of opcodes that have some. The others have none; what is in neither table is no opcode.
var pickleArguments = map[byte]argument{
	'G': {fixed: 8}, 'J': {fixed: 4}, 'K': {fixed: 1}, 'M': {fixed: 2}, 'h': {fixed: 1}, 'j': {fixed: 4}, 'q': {fixed: 1}, 'r': {fixed: 4},
	pickleProto: {fixed: 1}, 0x82: {fixed: 1}, 0x83: {fixed: 2}, 0x84: {fixed: 4}, 0x95: {fixed: 8},
	'X': {counted: 4}, 0x8c: {counted: 1}, 0x8d: {counted: 8}, 'T': {counted: 4}, 'U': {counted: 1}, 'B': {counted: 4}, 'C': {counted: 1}, 0x8e: {counted: 8}, 0x96: {counted: 8},
	0x8a: {counted: 1}, 0x8b: {counted: 4},
	'F': {lines: 1}, 'I': {lines: 1}, 'L': {lines: 1}, 'S': {lines: 1}, 'V': {lines: 1}, 'P': {lines: 1}, 'g': {lines: 1}, 'p': {lines: 1}, 'c': {lines: 2}, 'i': {lines: 2},
}

const pickleBare = "(.012NRabdel}o]st)uQ\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x97\x98"

// pickleItem is what stands in a pickle at one place.
type pickleItem struct {
	text   string
	number int64
	is     pickledKind
}

type pickledKind uint8

const (
	aThing pickledKind = iota
	aText
	aNumber
)

// pickleReader reads the opcodes of a pickle.
type pickleReader struct {
	r    *bufio.Reader
	keep func(text string) bool // which strings are known when they are taken from the memo
	memo map[uint64]string
	next uint64 // under which MEMOIZE notes
	last pickleItem
}

func newPickleReader(r io.Reader, keep func(string) bool) *pickleReader {
	return &pickleReader{r: bufio.NewReaderSize(r, 256<<10), keep: keep, memo: map[uint64]string{}}
}

// each calls see for what stands in the pickle, in its order, to its end. Errors are those of reading, errPickle, errOpcode, errBlank, and [io.ErrUnexpectedEOF] of one that is cut off.
func (p *pickleReader) each(see func(pickleItem)) error {
	head, err := p.r.Peek(2)
	if err == nil && head[0] == 0 {
		return errBlank
	}
	if err != nil || head[0] != pickleProto || head[1] > pickleLast {
		return errPickle
	}
	for {
		op, err := p.r.ReadByte()
		if err != nil {
			return cutOff(err)
		}
		if op == '.' {
			return nil
		}
		one, err := p.one(op)
		if err != nil {
			return err
		}
		switch op {
		case 0x94: // MEMOIZE
			p.note(p.next)
			p.next++
			continue
		case 'q', 'r': // BINPUT, LONG_BINPUT
			p.note(uint64(one.number))
			continue
		case 0x95, pickleProto:
			continue
		case 'h', 'j': // BINGET, LONG_BINGET
			text, had := p.memo[uint64(one.number)]
			if one = (pickleItem{}); had {
				one = pickleItem{text: text, is: aText}
			}
		}
		p.last = one
		see(one)
	}
}

// note keeps what was read last under a number, from which it can be taken again.
func (p *pickleReader) note(at uint64) {
	delete(p.memo, at)
	if p.last.is == aText && p.keep(p.last.text) {
		p.memo[at] = p.last.text
	}
}

// one reads the argument of an opcode.
func (p *pickleReader) one(op byte) (pickleItem, error) {
	arg, has := pickleArguments[op]
	switch {
	case op == 0:
		return pickleItem{}, errBlank
	case !has:
		if strings.IndexByte(pickleBare, op) < 0 {
			return pickleItem{}, errOpcode
		}
		return pickleItem{}, nil
	case arg.lines > 0:
		return pickleItem{}, p.lines(arg.lines)
	}
	n := uint64(arg.fixed)
	if arg.counted > 0 {
		b, err := p.bytes(arg.counted)
		if err != nil {
			return pickleItem{}, err
		}
		n = unsigned(b)
	}
	if n > pickledShort {
		return pickleItem{}, p.skip(n)
	}
	b, err := p.bytes(int(n))
	if err != nil {
		return pickleItem{}, err
	}
	switch op {
	case 'X', 0x8c, 0x8d, 'T', 'U':
		return pickleItem{text: string(b), is: aText}, nil
	case 'K', 'M', 'q', 'r', 'h', 'j':
		return pickleItem{number: int64(unsigned(b)), is: aNumber}, nil
	case 'J':
		return pickleItem{number: int64(int32(unsigned(b))), is: aNumber}, nil
	case 0x8a, 0x8b: // LONG1, LONG4
		if len(b) <= 8 && (len(b) < 8 || b[7] < 0x80) {
			return pickleItem{number: int64(unsigned(b)), is: aNumber}, nil
		}
	}
	return pickleItem{}, nil
}

func (p *pickleReader) bytes(n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(p.r, b)
	return b, cutOff(err)
}

func (p *pickleReader) skip(n uint64) error {
	for n > 0 {
		some := int(min(n, 1<<30))
		if _, err := p.r.Discard(some); err != nil {
			return cutOff(err)
		}
		n -= uint64(some)
	}
	return nil
}

func (p *pickleReader) lines(n int) error {
	for n > 0 {
		b, err := p.r.ReadByte()
		if err != nil {
			return cutOff(err)
		}
		if b == '\n' {
			n--
		}
	}
	return nil
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// unsigned is a number of at most eight bytes, the least first.
func unsigned(b []byte) uint64 {
	var eight [8]byte
	copy(eight[:], b)
	return binary.LittleEndian.Uint64(eight[:])
}

// peeked reads a file of a tree from its beginning.
type peeked struct {
	peek   Peek
	name   string
	at     int64
	size   int64
	failed error
}

func (p *peeked) Read(b []byte) (int, error) {
	if p.at >= p.size {
		return 0, io.EOF
	}
	n, err := p.peek(p.name, p.at, b[:min(int64(len(b)), p.size-p.at)])
	p.at += int64(n)
	switch {
	case n > 0:
		return n, nil
	case err == nil:
		err = io.EOF
	}
	if err != io.EOF {
		p.failed = err
	}
	return 0, err
}
