package enroll

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
)

// A restore turns the ledger back, and must not restore trust. Nodes that were cut off or forgotten, and certificates that
// were revoked, are noted in files beside it as well, a line of JSON each, as it was at the last change.
const (
	forgottenName = "forgotten"
	revokedName   = "revoked"
)

// KeepForgotten notes nodes in their file, if it says something else.
func (s *Server) KeepForgotten() error {
	return keepBeside(s, forgottenName, state.Forgotten.All)
}

// keepRevoked notes certificates in theirs.
func (s *Server) keepRevoked() error { return keepBeside(s, revokedName, state.Revoked.All) }

func keepBeside[M proto.Message](s *Server, name string, rows func(*state.Tx, state.Range) iter.Seq2[M, error]) error {
	var text strings.Builder
	err := s.o.Ledger.View(func(tx *state.Tx) error {
		text.Reset()
		for row, err := range rows(tx, state.Range{}) {
			if err != nil {
				return err
			}
			line, err := protojson.Marshal(row)
			if err != nil {
				return err
			}
			fmt.Fprintf(&text, "%s\n", line)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	file := filepath.Join(s.o.Data, name)
	if was, err := os.ReadFile(file); err == nil && string(was) == text.String() || errors.Is(err, fs.ErrNotExist) && text.Len() == 0 {
		return nil
	}
	if err := atomicfile.Write(file, []byte(text.String()), atomicfile.Options{Draft: "." + name + "-*"}); err != nil {
		return fmt.Errorf("what a restore has to know of who is trusted: %w", err)
	}
	return nil
}

// Restored is what a person has to know of a ledger that was restored.
type Restored struct {
	Paused []*pb.Task // that remove, and may have done it since
	Tokens int        // to join with, which are void now: they may have been used since
	Nodes  int        // that were cut off or forgotten since
}

// AfterRestore keeps a ledger that was restored from doing what may have been done since it was backed up. What removes waits for a person: it
// would be done once more, on what is there now. Tokens are void. What data, the directory of the service, says of nodes that were forgotten
// since goes before what the ledger says.
func AfterRestore(ctx context.Context, books *state.Ledger, data string) (r Restored, err error) {
	since, err := readBeside[ledgerv1.Forgotten](filepath.Join(data, forgottenName))
	if err != nil {
		return r, err
	}
	revoked, err := readBeside[ledgerv1.Revoked](filepath.Join(data, revokedName))
	if err != nil {
		return r, err
	}
	err = books.Update(ctx, state.Durable, func(tx *state.Tx) error {
		r = Restored{Nodes: len(since)}
		for _, f := range since {
			if err := state.Forgotten.Put(tx, f); err != nil {
				return err
			}
		}
		for _, c := range revoked {
			if err := state.Revoked.Put(tx, c); err != nil {
				return err
			}
		}
		tokens, err := state.Collect(state.JoinTokens.All(tx, state.Range{}))
		if err != nil {
			return err
		}
		r.Tokens = len(tokens)
		for _, t := range tokens {
			if err := state.JoinTokens.Delete(tx, fmt.Sprintf("%x", t.GetDigest())); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	var removing []string
	err = books.View(func(tx *state.Tx) error {
		removing = nil
		for t, err := range state.FindTasks(tx, state.TaskFilter{}) {
			if err != nil {
				return err
			}
			if !task.Ended(t.GetState()) && t.GetState() != task.Paused && task.Destroys(t.GetSpec()) {
				removing = append(removing, t.GetId())
			}
		}
		return nil
	})
	for _, id := range removing {
		if err != nil {
			break
		}
		err = books.Update(ctx, state.Durable, func(tx *state.Tx) error {
			t, err := state.Tasks.Get(tx, id)
			if err == nil {
				err = task.Move(t, task.Paused)
			}
			if err != nil {
				return err
			}
			t.Agent, t.Helpers, t.Phase = "", nil, ""
			t.Why = "restored: it removes, and may have done so after the backup, when other data was there; datamove task resume " + id + " does it, datamove task cancel " + id + " does not"
			r.Paused = append(r.Paused, t)
			return state.Tasks.Put(tx, t)
		})
	}
	return r, err
}

// readBeside reads a file of keepBeside.
func readBeside[T any, M interface {
	*T
	proto.Message
}](file string) (all []M, err error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		m := M(new(T))
		if err := protojson.Unmarshal([]byte(line), m); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, m)
	}
	return all, nil
}
