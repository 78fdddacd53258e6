// Package shared is what every gateway needs and no provider owns: where requests may go, one bounded exchange, which errors may
// be shown, and texts that are cut between whole characters.
//
// It must not know any provider, nor orders, storage or Temporal: a gateway hands its own names and limits in. It may import the
// standard library only.
package shared

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// DefaultTimeout bounds one exchange where the account says nothing.
const DefaultTimeout = 30 * time.Second

// Place is where a provider is reached.
type Place struct {
	Gateway string // "stripe", which begins each error
	Title   string // "Stripe"
	Base    string // "https://api.stripe.com"
	Domain  string // "stripe.com": nothing in it is ever reached without encryption
}

// URL checks where requests go; an empty address is the provider's own. Plain http is for simulators only: a live key never leaves
// unencrypted, and a test key only towards a host that is plainly not the provider's.
func (p Place) URL(raw string, live bool) (string, error) {
	if raw == "" {
		return p.Base, nil
	}
	u, ok := Plain(raw)
	if !ok {
		return "", fmt.Errorf("%s: the API base must be a plain URL such as %s", p.Gateway, p.Base)
	}
	switch {
	case u.Scheme == "https":
	case u.Scheme != "http":
		return "", fmt.Errorf("%s: the API base must start with https:// (or http:// for a simulator)", p.Gateway)
	case live && !Loopback(u.Hostname()):
		return "", fmt.Errorf("%s: a live key is only sent over https: change the API base, or use a test key", p.Gateway)
	case strings.HasSuffix(u.Hostname(), p.Domain):
		return "", fmt.Errorf("%s: %s itself is reached over https only: change the API base", p.Gateway, p.Title)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// Plain reads an address of a host, and refuses one with a user, a query or a fragment.
func Plain(raw string) (*url.URL, bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, false
	}
	return u, true
}

// Loopback reports a host that is this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// Timeout is the bound of one exchange: what the account says, or DefaultTimeout.
func Timeout(gateway string, set time.Duration) (time.Duration, error) {
	switch {
	case set < 0:
		return 0, errors.New(gateway + ": the timeout is negative: set a positive duration, or leave it out for 30s")
	case set == 0:
		return DefaultTimeout, nil
	}
	return set, nil
}

// ReturnURL checks where a provider would send the buyer's browser; empty is nowhere.
func ReturnURL(raw string, longest int) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "https" && u.Scheme != "http") ||
		len(raw) > longest || !utf8.ValidString(raw) {
		return fmt.Errorf("the return URL must be an absolute http(s) URL without user info, at most %d bytes", longest)
	}
	return nil
}

// UsableKey refuses an idempotency key that HTTP or a provider would change on the way: the key on the wire must be the stored one.
func UsableKey(key string, longest int) bool {
	return key != "" && len(key) <= longest && !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
}
