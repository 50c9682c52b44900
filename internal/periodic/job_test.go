package periodic_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/khata-ledger/khata/internal/periodic"
)

// A failure is said when it begins, once a minute and when it is over, and counted each time.
func TestJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var log strings.Builder
		rounds, failures := 0, 0
		wait := periodic.Job{
			Name: "sweep", Every: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil)), Failed: func() { failures++ },
			Do: func(context.Context) error {
				if rounds++; rounds > 10 && rounds <= 140 {
					return errors.New("no database")
				}
				return nil
			},
		}.Start(ctx)
		time.Sleep(200*time.Second + time.Millisecond)
		stop()
		wait()
		if rounds != 200 || failures != 130 {
			t.Errorf("%d rounds, %d failures", rounds, failures)
		}
		if said, mended := strings.Count(log.String(), `level=WARN msg="job failed" job=sweep error="no database"`), strings.Count(log.String(), "job works again"); said != 3 || mended != 1 {
			t.Errorf("said %d times, mended %d times:\n%s", said, mended, log.String())
		}
	})
}

// The round that the end of a server cuts off has not failed; and a job that is off does nothing.
func TestJob_Ends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		rounds := 0
		job := periodic.Job{Every: time.Second, Log: slog.New(slog.DiscardHandler), Failed: func() { t.Error("failed") }, Do: func(ctx context.Context) error {
			rounds++
			<-ctx.Done()
			return ctx.Err()
		}}
		wait := job.Start(ctx)
		job.Every = -1
		off := job.Start(ctx)
		time.Sleep(time.Minute)
		stop()
		wait()
		off()
		if rounds != 1 {
			t.Errorf("%d rounds", rounds)
		}
	})
}
