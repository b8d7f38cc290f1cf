package journal

import (
	"testing"

	"datamove.dev/test/must"
)

func BenchmarkOpenClose(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		j := must.Get(Open(dir, Options{}))(b)
		must.Do(b, j.Close())
	}
}

func BenchmarkOpenRemove(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		j := must.Get(Open(dir, Options{}))(b)
		must.Do(b, j.Remove())
	}
}

// measured runs do on an open journal.
func measured(b *testing.B, do func(j *Journal, id uint64, n int) error) {
	j := must.Get(Open(b.TempDir(), Options{}))(b)
	defer func() { _ = j.Close() }()
	id := must.Get(j.Begin(b.Context(), large("big")))(b)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		must.Do(b, do(j, id, n))
	}
}

func BenchmarkPart(b *testing.B) {
	measured(b, func(j *Journal, id uint64, n int) error { return j.Part(b.Context(), id, receipt(n%10_000)) })
}

func BenchmarkDurable(b *testing.B) {
	measured(b, func(j *Journal, id uint64, _ int) error { return j.Durable(b.Context(), id) })
}

// One turn is a batch of 1,000 small files, staged and cleared.
func BenchmarkBatch1000(b *testing.B) {
	batch := small(1000)
	measured(b, func(j *Journal, _ uint64, _ int) error {
		id, err := j.Stage(b.Context(), batch)
		if err != nil {
			return err
		}
		return j.Clear(b.Context(), id)
	})
}
