package issuers

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"orderflow/internal/secret"
)

// DefaultTimeout bounds one exchange where the configuration names no other time.
const DefaultTimeout = 10 * time.Second

// HTTPConfig is one issuer that speaks the HTTP contract of this package.
type HTTPConfig struct {
	// Name is how lines, rows and operators call the issuer: 1 to 40 lower-case letters, digits, "-" or "_". Required.
	Name string
	// BaseURL is where "/v1/issuances" hangs: http(s), a host, no user, query or fragment. Required.
	BaseURL string
	// Token is sent as a bearer token with every request. Required: an issuer that asks nobody who they are issues to anybody.
	Token secret.Value
	// Capabilities are what the issuer guards by itself. Claiming a guard it does not have issues twice. SendTimeout may be
	// left out: it is Timeout.
	Capabilities Capabilities
	// Timeout bounds one exchange, from dialing to the last byte. A write that takes longer counts as unknown. At least
	// 100 ms; 0 = DefaultTimeout.
	Timeout time.Duration
	// MaxAnswer is how many bytes of an answer are read; a longer one is no usable answer. 0 = 64 KiB.
	MaxAnswer int64
}

// Validate says what is missing or wrong and what to set. It never quotes the token or the URL.
func (c HTTPConfig) Validate() error {
	if !wordOf(c.Name, 40, "abcdefghijklmnopqrstuvwxyz0123456789-_") {
		return errors.New("issuer: set a name of 1 to 40 lower-case letters, digits, \"-\" or \"_\"")
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("issuer %s: %s", c.Name, fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(c.BaseURL)
	switch {
	case c.BaseURL == "":
		return bad("set its base URL, such as https://issuer.example")
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		return bad("set the base URL to an http or https URL with a host, such as https://issuer.example")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(c.BaseURL, "#"):
		return bad("leave user, query and fragment out of the base URL; credentials belong in the token")
	case c.Token.IsZero():
		return bad("set its token: an empty one would be refused by the issuer, order by order")
	case strings.ContainsFunc(c.Token.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }):
		return bad("the token holds a space, a line break or a non-ASCII character; set it exactly as the issuer gave it")
	case c.timeout() < 100*time.Millisecond:
		return bad("set the timeout to 100ms or more")
	case c.Capabilities.SendTimeout != 0 && c.Capabilities.SendTimeout != c.timeout():
		return bad("the send timeout is the timeout; set one of the two")
	case c.Capabilities.NotFoundFinalAfter < 0:
		return bad("a time after which \"not found\" is final must not be negative; 0 means never")
	case c.Capabilities.NotFoundFinalAfter > 0 && !c.Capabilities.Lookup:
		return bad("\"not found\" can be final only where the issuer has a lookup; set lookup, or leave the time out")
	case c.MaxAnswer < 0:
		return bad("set the longest answer to a number of bytes above zero")
	}
	return nil
}

func (c HTTPConfig) timeout() time.Duration {
	switch {
	case c.Timeout != 0:
		return c.Timeout
	case c.Capabilities.SendTimeout != 0:
		return c.Capabilities.SendTimeout
	}
	return DefaultTimeout
}

const wordChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:"

// isWord reports a text that is safe as a header value, a path segment and a log field.
func isWord(s string, limit int) bool { return wordOf(s, limit, wordChars) && s != "." && s != ".." }

func wordOf(s string, limit int, chars string) bool {
	return s != "" && len(s) <= limit && strings.Trim(s, chars) == ""
}
