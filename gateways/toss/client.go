package toss

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"orderflow/internal/secret"
)

const (
	// maxAnswer bounds what is read of one answer: a payment is a few kB, a page of 5,000 transactions below 3 MB.
	maxAnswer = 4 << 20
	maxKey    = 300
)

var (
	errNoKey    = errors.New("a write without a usable idempotency key was about to be sent")
	errFrozen   = errors.New("the stored request does not have the form that this gateway freezes")
	errTooBig   = errors.New("the answer is larger than the limit")
	errRedirect = errors.New("the answer is a redirect, which is never followed")
	errNoAnswer = errors.New("no usable answer")
)

// client is the only place that sends. It puts one request on the wire per call.
type client struct {
	base string
	auth string // the value of the Authorization header; never logged
	http *http.Client
	idle func() // closes kept connections
}

func newClient(base string, key secret.Value, timeout time.Duration) *client {
	dial := &net.Dialer{Timeout: min(timeout, 5*time.Second)}
	inner := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dial.DialContext,
		TLSHandshakeTimeout: min(timeout, 5*time.Second),
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        64,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     30 * time.Second,
		DisableCompression:  true, // a small compressed answer cannot become a large one
	}
	return &client{
		base: base,
		// The colon belongs to the scheme: user = the key, an empty password.
		auth: "Basic " + base64.StdEncoding.EncodeToString([]byte(key.Reveal()+":")),
		http: &http.Client{
			Transport:     inner,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		idle: inner.CloseIdleConnections,
	}
}

// answer is one complete answer of the other side, whatever it says.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// write sends one frozen body under its key.
func (c *client) write(ctx context.Context, timeout time.Duration, path, key string, frozen []byte) (answer, error) {
	if !usableKey(key) {
		return answer{}, errNoKey
	}
	return c.do(ctx, timeout, http.MethodPost, path, key, frozen)
}

// read sends one GET.
func (c *client) read(ctx context.Context, timeout time.Duration, path string) (answer, error) {
	return c.do(ctx, timeout, http.MethodGet, path, "", nil)
}

// do carries one exchange. Where the status arrived but the body did not, the answer still says so: the caller tells an
// error that was received from no answer at all.
func (c *client) do(ctx context.Context, timeout time.Duration, method, path, key string, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Authorization", c.auth)
	req.Header.Set("Accept-Language", "en-US")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		// net/http silently sends a request again when a kept connection breaks, if the request has an Idempotency-Key
		// and a body it can rewind; without GetBody it cannot.
		req.GetBody = nil
	}
	res, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	out := answer{status: res.StatusCode, header: res.Header}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return out, errRedirect
	}
	out.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(out.body) > maxAnswer {
		err = errTooBig // a cut answer could still parse
	}
	if err != nil {
		out.body = nil
	}
	return out, err
}

// usableKey refuses what HTTP or Toss would change or refuse: the key on the wire must be the stored one.
func usableKey(key string) bool {
	if key == "" || len(key) > maxKey {
		return false
	}
	return !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
}

// plainCause keeps what a log may show of a transport error. net/http's errors quote addresses, which carry payment keys,
// and what the other side sent, so only known sentinels and network errors pass.
func plainCause(err error) error {
	for _, known := range []error{
		context.Canceled, context.DeadlineExceeded, errNoKey, errFrozen, errTooBig, errRedirect,
		io.ErrUnexpectedEOF, io.EOF,
	} {
		if errors.Is(err, known) {
			return known
		}
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return context.DeadlineExceeded
	}
	return errNoAnswer
}

// paymentPath makes the path of one payment. The key's form is checked before, since it came through a browser.
func paymentPath(paymentKey string) string { return "/v1/payments/" + url.PathEscape(paymentKey) }
