package notify

import (
	"net/http"
	"time"
)

// Profile is how a provider delivers.
type Profile struct {
	// Resends are the waits before the second, third, … try, before scaling. Empty: one try only.
	Resends []time.Duration
	// Only200: any other answer, 204 included, counts as not taken.
	Only200 bool
	// Timeout of one try; it is not scaled.
	Timeout time.Duration
}

func (p Profile) took(status int) bool {
	if p.Only200 {
		return status == http.StatusOK
	}
	return status >= 200 && status <= 299
}

// Profiles are the known providers' ways. Toss's schedule is documented. Stripe promises tries over three days with
// growing waits and publishes no intervals, so these are one way to do that. Omise and 2C2P promise nothing: a receiver
// that needs the second try is wrong, so a single resend stands for "sometimes more than once".
func Profiles() map[string]Profile {
	const m, h = time.Minute, time.Hour
	return map[string]Profile{
		"stripe": {
			Resends: []time.Duration{5 * m, 15 * m, h, 3 * h, 6 * h, 12 * h, 12 * h, 12 * h, 12 * h, 12 * h},
			Timeout: 20 * time.Second,
		},
		"toss": {
			Resends: []time.Duration{m, 4 * m, 16 * m, 64 * m, 256 * m, 1024 * m, 4096 * m},
			Only200: true, Timeout: 10 * time.Second,
		},
		"omise":    {Resends: []time.Duration{10 * m}, Timeout: 10 * time.Second},
		"twoctwop": {Resends: []time.Duration{10 * m}, Only200: true, Timeout: 10 * time.Second},
	}
}

func plainProfile() Profile { return Profile{Timeout: 10 * time.Second} }
