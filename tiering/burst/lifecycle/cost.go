package lifecycle

import (
	"context"
	"time"

	"datamove.dev/tiering/burst"
)

// Charge charges what runs by the hour, up to now.
func (l *Manager) Charge(ctx context.Context, r *burst.Record) error {
	w, err := l.work(r)
	if err != nil {
		return err
	}
	return w.charge(ctx)
}

// Costs are those of so many days before today, of all bursts of the account, as Cost Explorer has them.
func (l *Manager) Costs(ctx context.Context, days int) ([]burst.Cost, error) {
	today := l.now().Truncate(24 * time.Hour)
	return l.Cloud.Costs(ctx, today.AddDate(0, 0, -days), today)
}
