package copytool

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

// TestCookiesMeet: two MDTs hand actions out under one cookie. Both are done, each is
// cancelled by itself, and the tries of one are not those of the other; one that is handed
// out twice is done once.
//
//safety:1 with cmd/datamoved/daemon TestHSMOther
func TestCookiesMeet(t *testing.T) {
	q := newQueue(4, 10)
	on := func(seq uint64) *action {
		return &action{item: uapi.ActionItem{Action: uapi.CopyArchive, FID: lustre.FID{Seq: seq, OID: 7}, Cookie: 0x6b005a19}}
	}
	one, two := on(0x200000402), on(0x240000402)
	for _, a := range []*action{one, two} {
		if added, known := q.add(a); !added || known {
			t.Fatalf("%v: added %v, known %v", a.item.FID, added, known)
		}
	}
	if added, known := q.add(on(0x240000402)); added || !known {
		t.Errorf("handed out twice: added %v, known %v", added, known)
	}
	for range 2 {
		if _, ok := q.next(t.Context()); !ok {
			t.Fatal("the queue is closed")
		}
	}
	if waited, found := q.cancel(identityOf(&two.item)); waited != nil || !found {
		t.Errorf("cancelled: %v, found %v", waited, found)
	}
	if one.ctx.Err() != nil || two.ctx.Err() == nil {
		t.Errorf("the one was cancelled: %v, the other: %v", one.ctx.Err(), two.ctx.Err())
	}
	q.done(two)
	if added, _ := q.add(on(0x240000402)); !added {
		t.Error("it can not be handed out again when it is done")
	}
	q.done(one)
	var p patience
	for range triesMost - 1 {
		if !p.left(identityOf(&one.item)) {
			t.Error("there were fewer tries")
		}
	}
	if !p.left(identityOf(&two.item)) || p.left(identityOf(&one.item)) {
		t.Error("tries of the one counted for the other")
	}
}

// TestReadsToTheEnd: all that came before the registration was taken back is read, however long each takes to be handed back.
func TestReadsToTheEnd(t *testing.T) {
	pipe, kernel, err := os.Pipe()
	must.Do(t, err)
	defer pipe.Close()
	h := uapi.MessageHeader{Transport: 2, Type: uapi.Actions, Length: 8}
	for range 3 {
		must.Get(kernel.Write(append(h.Encode(), make([]byte, 8)...)))(t)
	}
	must.Do(t, kernel.Close())
	r := &registration{pipe: pipe}
	r.taken.Store(true)
	var buffer []byte
	read := 0
	for err == nil {
		must.Do(t, pipe.SetReadDeadline(time.Unix(1, 0))) // the time since the last one
		if _, err = r.next(&buffer); err == nil {
			read++
		}
	}
	if read != 3 || !errors.Is(err, io.EOF) {
		t.Errorf("%d of 3 are read, and then: %v", read, err)
	}
}
