package fault_test

import (
	"testing"
	"time"

	"orderflow/internal/fault"
)

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"":                               0,
		"0":                              0,
		"1":                              time.Second,
		" 120 ":                          2 * time.Minute,
		"86400":                          24 * time.Hour,
		"86401":                          fault.MaxRetryAfter,
		"99999999999":                    fault.MaxRetryAfter,
		"99999999999999999999999999":     fault.MaxRetryAfter,
		"-5":                             0,
		"1.5":                            0,
		"soon":                           0,
		"Mon, 30 Nov 2026 12:00:30 GMT":  30 * time.Second,
		"Monday, 30-Nov-26 12:00:30 GMT": 30 * time.Second,
		"Mon Nov 30 12:00:30 2026":       30 * time.Second,
		"Mon, 30 Nov 2026 11:59:00 GMT":  0,
		"Tue, 30 Nov 2066 12:00:30 GMT":  fault.MaxRetryAfter,
		"Mon, 30 Nov 2026 12:00:30 CET":  0,
	} {
		if got := fault.ParseRetryAfter(header, now); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}
