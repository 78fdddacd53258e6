package toss

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"orderflow/gateways/shared"
	"orderflow/internal/secret"
)

const (
	// maxAnswer bounds what is read of one answer: a payment is a few kB, a page of 5,000 transactions below 3 MB.
	maxAnswer = 4 << 20
	maxKey    = 300
)

var (
	errNoKey  = errors.New("a write without a usable idempotency key was about to be sent")
	errFrozen = errors.New("the stored request does not have the form that this gateway freezes")
)

// client is the only place that sends. It puts one request on the wire per call.
type client struct {
	base string
	auth string // the value of the Authorization header; never logged
	http *http.Client
	idle func() // closes kept connections
}

func newClient(base string, key secret.Value, timeout time.Duration) *client {
	inner := shared.Transport(timeout)
	inner.ResponseHeaderTimeout = 0 // the context of each exchange bounds it whole
	return &client{
		base: base,
		// The colon belongs to the scheme: user = the key, an empty password.
		auth: "Basic " + base64.StdEncoding.EncodeToString([]byte(key.Reveal()+":")),
		http: shared.Client(inner, 0),
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
	if !shared.UsableKey(key, maxKey) {
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
	out.body, err = shared.Body(res, maxAnswer)
	return out, err
}

// paymentPath makes the path of one payment. The key's form is checked before, since it came through a browser.
func paymentPath(paymentKey string) string { return "/v1/payments/" + url.PathEscape(paymentKey) }
