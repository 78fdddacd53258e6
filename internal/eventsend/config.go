package eventsend

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"orderflow/internal/secret"
)

// Limits of Standard Webhooks 1.0.0 and of this package.
const (
	// MaxBody is what a body has to stay under, in bytes.
	MaxBody = 20_000
	// DefaultTimeout bounds one sending where the configuration names no other time; the standard says 15 to 30 seconds.
	DefaultTimeout = 20 * time.Second
	// DefaultMaxRetryAfter is the longest delay a receiver may ask for: the longest one of our own schedule.
	DefaultMaxRetryAfter = 6 * time.Hour

	secretPrefix = "whsec_"
	minSecret    = 24
	maxSecret    = 64
)

// Config is how events are sent. Its zero value is the strict one: https, to public addresses.
type Config struct {
	// Timeout bounds one sending, from dialing to the status. At least 100 ms; 0 = DefaultTimeout.
	Timeout time.Duration
	// MaxRetryAfter caps what a receiver may ask for. 0 = DefaultMaxRetryAfter.
	MaxRetryAfter time.Duration
	// AllowHTTP permits receivers without TLS: their events can be read on the way, but not forged.
	AllowHTTP bool
	// AllowLoopback permits receivers on this machine. It is for development.
	AllowLoopback bool
	// AllowPrivate permits receivers in private networks (RFC 1918, unique local IPv6, carrier-grade NAT). Anybody who can
	// change a receiver's URL can then reach what is there.
	AllowPrivate bool
}

// Receiver is one party that takes events.
type Receiver struct {
	// Name is how rows, logs and operators call it: 1 to 40 letters, digits, "-" or "_".
	Name string
	// URL gets the POST. https unless Config.AllowHTTP; no user, no fragment.
	URL string
	// Secret signs: "whsec_" and the base64 of 24 to 64 random bytes.
	Secret secret.Value
	// PreviousSecret signs as well while a secret is being changed at the receiver. Zero = no change is going on.
	PreviousSecret secret.Value
}

// Check says what is missing or wrong with a receiver and what to set. Call it when the configuration is read: Send
// refuses what Check refuses. It quotes neither secrets nor the URL, which can hold a token.
func (s *Sender) Check(r Receiver) error {
	_, err := s.keysOf(r)
	return err
}

// keysOf checks a receiver and returns what its events are signed with, the current key first.
func (s *Sender) keysOf(r Receiver) ([][]byte, error) {
	if r.Name == "" || len(r.Name) > 40 || strings.Trim(r.Name, wordChars) != "" {
		return nil, errors.New("event receiver: set a name of 1 to 40 letters, digits, \"-\" or \"_\"")
	}
	bad := func(sentence string) ([][]byte, error) {
		return nil, fmt.Errorf("event receiver %s: %s", r.Name, sentence)
	}
	u, err := url.Parse(r.URL)
	switch {
	case err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Hostname() == "":
		return bad("set its URL to an https URL with a host")
	case u.Scheme == "http" && !s.config.AllowHTTP:
		return bad("its URL has no TLS; use https, or allow http for event receivers")
	case u.User != nil || strings.Contains(r.URL, "#"):
		return bad("leave user and fragment out of its URL; the receiver knows us by the signature")
	}
	key, err := parseSecret(r.Secret)
	if err != nil {
		return bad("its secret " + err.Error())
	}
	if r.PreviousSecret.IsZero() {
		return [][]byte{key}, nil
	}
	previous, err := parseSecret(r.PreviousSecret)
	if err != nil {
		return bad("its previous secret " + err.Error())
	}
	return [][]byte{key, previous}, nil
}

const wordChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

func parseSecret(v secret.Value) ([]byte, error) {
	encoded, prefixed := strings.CutPrefix(v.Reveal(), secretPrefix)
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	const recipe = `set it to "whsec_" and the base64 of 24 to 64 random bytes, such as the output of "openssl rand -base64 32"`
	switch {
	case v.IsZero():
		return nil, errors.New("is missing; " + recipe)
	case !prefixed:
		return nil, errors.New("does not start with whsec_; " + recipe)
	case err != nil || strings.ContainsAny(encoded, "\r\n"):
		return nil, errors.New("is not padded base64 behind its whsec_; " + recipe)
	case len(key) < minSecret || len(key) > maxSecret:
		return nil, fmt.Errorf("has %d bytes; %s", len(key), recipe)
	case bytes.Count(key, key[:1]) == len(key):
		return nil, errors.New("is one byte over and over; " + recipe)
	}
	return key, nil
}
