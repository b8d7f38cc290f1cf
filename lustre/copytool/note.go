package copytool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"datamove.dev/lustre/uapi"
)

// A note is a file beside the mark for each action that was handed out and has not ended: the
// list that the MDT sent, with this action alone. An MDT hands out nothing again because a
// process was killed: it waits for its timeout, cancels the action, and a cancellation of
// before finds no process that would end it. So the next process takes up what is noted. A
// note is not synced: it outlives the process, which is what it is for. The MDT does not ask
// which process tells of an action, and answers ENOENT for one that it does not know any more
// (lustre/mdt/mdt_hsm_cdt_requests.c mdt_cdt_update_request, 2.15 to 2.17).

// begunMark is appended to the name of a note each time that the action begins.
const begunMark = "+"

// notes is the directory of the notes.
func (m mark) notes() string { return string(m) + ".actions" }

// note remembers an action. It returns the name of the note; "" where nothing is remembered.
func (m mark) note(list *uapi.ActionList, item *uapi.ActionItem) (string, error) {
	if m == "" {
		return "", nil
	}
	alone := *list
	alone.Items = []uapi.ActionItem{*item}
	f, err := os.CreateTemp(m.notes(), "")
	if err != nil {
		return "", err
	}
	_, err = f.Write(alone.Encode())
	if closed := f.Close(); err == nil {
		err = closed
	}
	return f.Name(), err
}

// noted are the notes of processes that have ended.
func (m mark) noted() (names []string, err error) {
	if m == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(m.notes())
	for _, e := range entries {
		names = append(names, filepath.Join(m.notes(), e.Name()))
	}
	return names, err
}

// readNote makes an action of a note.
func readNote(name string) (*action, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	list, err := uapi.DecodeActionList(b)
	if err == nil && len(list.Items) != 1 {
		err = fmt.Errorf("it has %d actions: %w", len(list.Items), uapi.ErrMalformed)
	}
	if err != nil {
		return nil, err
	}
	a := newAction(&list, list.Items[0])
	a.note = name
	return a, nil
}

func newAction(list *uapi.ActionList, item uapi.ActionItem) *action {
	item.Blob = nil // what a request brings along is for other copytools
	return &action{item: item, system: list.Name, since: time.Now(), copied: uapi.Copy{Item: item}}
}

// takeUp goes on with what processes had in work that were killed. An action that was begun
// three times, and each time its process was killed, is handed back: it may be the reason.
func (s *serving) takeUp(ctx context.Context) {
	names, err := mark(s.o.Mark).noted()
	if err != nil {
		s.log.WarnContext(ctx, "what a killed copytool had in work is not known: the MDT waits for its timeout", "err", err)
	}
	for _, name := range names {
		a, err := readNote(name)
		if err != nil {
			s.log.WarnContext(ctx, "the note of an action can not be read: the MDT waits for its timeout", "note", name, "err", err)
			s.forget(name)
			continue
		}
		s.log.InfoContext(ctx, "takes up an action of a copytool that was killed", "action", a.item.Action, "fid", a.item.FID, "cookie", a.item.Cookie)
		if strings.Count(filepath.Base(name), begunMark) >= triesMost {
			s.ended(ctx, a, errKilled)
			continue
		}
		s.enqueue(ctx, a)
	}
}

// noteDown has an action outlive this process.
func (s *serving) noteDown(ctx context.Context, list *uapi.ActionList, a *action) {
	name, err := mark(s.o.Mark).note(list, &a.item)
	a.note = name
	if err != nil {
		s.unnoted.Do(func() {
			s.log.WarnContext(ctx, "actions are not noted: after kill -9 the MDT would wait for its timeout", "err", err)
		})
	}
}

// begun counts in the note that the action begins.
func (s *serving) begun(a *action) {
	if a.note != "" && os.Rename(a.note, a.note+begunMark) == nil {
		a.note += begunMark
	}
}

// forget removes a note.
func (s *serving) forget(name string) {
	if name == "" {
		return
	}
	if err := os.Remove(name); err != nil {
		s.log.Warn("the note of an action stays: the next process asks the MDT about it", "note", name, "err", err)
	}
}
