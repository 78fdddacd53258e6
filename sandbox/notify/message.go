// Package notify sends the simulated providers' webhooks, with everything that goes wrong with webhooks: copies, gaps, delays,
// other orders of arrival, and a provider's schedule of resending.
//
// It must not know Orderflow or what a message says. It may import the sandbox's faults and the standard library.
package notify

import (
	"net/http"
	"time"
)

// Message is one webhook of a provider. A resend carries the same body; headers are made anew for each try, since
// signatures carry a time and some providers count their tries.
type Message struct {
	Gateway string // "stripe", "omise", "twoctwop", "toss"
	Account string // the simulator's name of the merchant account
	Kind    string // the provider's event type, for filters and logs
	Body    []byte
	// Header makes the headers of one try; try counts from 0. Content-Type included.
	Header func(at time.Time, try int) http.Header
}
